"""Tasks of lm-evaluation-harness: its prompts and its numbers, and what is refused in one line."""

from __future__ import annotations

import json
import random
import socket
import time

import numpy as np
import pytest

from harmony_utils import grid, hub
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, Prompt
from harmony_utils.logs import import_logs
from harmony_utils.scoring import load_model, score
from harmony_utils.settings import PredictionsSettings
from harmony_utils.sources import lm_eval as source
from harmony_utils.sources import load_benchmark
from harmony_utils.sources.load import benchmark_name

WORDS = (
    *("sun", "moon", "star", "river", "iron", "gold", "plant"),
    *("animal", "king", "queen", "light", "water", "sugar", "sand"),
)


def write_rows(path, n_items, *, seed):
    """Write made-up questions with options of unlike length; the last options share letters."""
    rng = random.Random(seed)
    rows = []
    for number in range(n_items):
        options = [" ".join(rng.sample(WORDS, rng.randint(1, 3))) for _ in range(rng.randint(2, 4))]
        rows.append(
            {
                "question": f"Which of {', '.join(rng.sample(WORDS, 3))} comes {number}th?",
                "options": options,
                "gold": rng.randrange(len(options)),
                "field": rng.choice(["first", "second"]),
            }
        )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_task(folder, name="made_up", **settings):
    """Write a task file on made-up questions; settings replace or add lines."""
    folder.mkdir(exist_ok=True, parents=True)
    if not (folder / "items.jsonl").exists():
        write_rows(folder / "items.jsonl", 12, seed=0)
        write_rows(folder / "shots.jsonl", 6, seed=1)
    data = {"validation": str(folder / "items.jsonl"), "train": str(folder / "shots.jsonl")}
    config = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": data},
        "output_type": "multiple_choice",
        "training_split": "train",
        "validation_split": "validation",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "gold",
        "doc_to_choice": "options",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        **settings,
    }
    lines = [  # JSON is YAML; what begins with a tag is written as it stands
        f"{key}: {value if str(value).startswith('!') else json.dumps(value)}"
        for key, value in config.items()
        if value is not None
    ]
    path = folder / f"{name}.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tiny_model):
    return load_model(str(tiny_model), device="cpu")


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Write tasks below a folder of this test, with a cache of its own."""
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("lm_eval", reason="the optional extra lm-eval is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return lambda name="made_up", **settings: write_task(tmp_path / "tasks", name, **settings)


@pytest.fixture
def own_tasks_alone(monkeypatch):
    """Index only a test's own folder: the harness's 14,000 files take some ten seconds."""
    tasks = pytest.importorskip("lm_eval.tasks", reason="the optional extra lm-eval is missing")
    monkeypatch.setattr(
        source,
        "_manager",
        lambda folders, defaults: tasks.TaskManager(include_path=folders, include_defaults=False),
    )


def harness_run(model, path, **options):
    """Run the harness itself: its samples in order, and its two accuracies."""
    evaluator = pytest.importorskip("lm_eval.evaluator")
    huggingface = pytest.importorskip(
        "lm_eval.models.huggingface", exc_type=ImportError, reason="needs lm_eval[hf]"
    )
    from lm_eval.tasks import TaskManager

    found = evaluator.simple_evaluate(
        huggingface.HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=4),
        tasks=[str(path)],
        task_manager=TaskManager(include_path=str(path.parent), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        **options,
    )
    ((name, samples),) = found["samples"].items()
    return sorted(samples, key=lambda row: row["doc_id"]), found["results"][name]


TASKS = {
    "zero-shot": ({}, 0),
    "two shots": ({"description": "Answer these.\n\n"}, 2),
    "letters": (
        {
            "doc_to_text": "{{question}}\nA. {{options[0]}}\nB. {{options[1]}}\nAnswer:",
            "doc_to_choice": ["A", "B"],
            "doc_to_target": "{{gold % 2}}",
        },
        3,
    ),
    "blanks at the end of the context": (
        {"doc_to_text": "Q: {{question}}\nA: \n ", "target_delimiter": " "},
        0,
    ),
    "opening of the answer": ({"gen_prefix": "It is"}, 1),
    "options in the context": (
        {
            "doc_to_text": "{{gold}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": "shines before the {{field}} {{question}}",
        },
        0,
    ),
    "options in the context, two shots": (
        {
            "doc_to_text": "{{gold}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": "shines before the {{field}}",
        },
        2,
    ),
}


@pytest.mark.parametrize("case", TASKS)
def test_numbers_are_those_of_the_harness(case, task, model):
    settings, shots = TASKS[case]
    path = task(**settings)
    samples, results = harness_run(model, path, num_fewshot=shots)
    benchmark = load_benchmark(f"lm-eval:{path}?num_fewshot={shots}")
    predictions = score(model, benchmark).predictions
    assert predictions.table["native_id"].tolist() == [str(s["doc_id"]) for s in samples]
    for sample, ours in zip(samples, predictions.table["loglik"], strict=True):
        theirs = [float(answer[0]) for answer in sample["filtered_resps"]]
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert predictions.accuracy("sum") == pytest.approx(results["acc,none"], abs=1e-12)
    assert predictions.accuracy("char") == pytest.approx(results["acc_norm,none"], abs=1e-12)


def test_a_token_over_the_border_is_scored_here_and_flagged(task, model):
    choices = ["e sun", " sun"]  # "th" and "e" make one token
    path = task(
        doc_to_text="{{question}} th", doc_to_choice=choices, target_delimiter="", doc_to_target=0
    )
    samples, _ = harness_run(model, path)
    table = score(model, load_benchmark(f"lm-eval:{path}")).predictions.table
    for sample, ours, flags in zip(samples, table["loglik"], table["flags"], strict=True):
        theirs = [float(answer[0]) for answer in sample["filtered_resps"]]
        assert "border" in flags
        assert ours[0] < theirs[0] - 0.01
        assert ours[1] == pytest.approx(theirs[1], rel=1e-4)


def test_keys_are_those_of_the_same_questions_in_the_logs_of_the_harness(task, model, tmp_path):
    for name, settings in {
        "cloze": {},
        "letters": {
            "doc_to_text": "{{question}}\n{% for o in options %}{{'ABCD'[loop.index0]}}. {{o}}\n"
            "{% endfor %}Answer:",
            "doc_to_choice": "{{['A', 'B', 'C', 'D'][:options|length]}}",
        },
    }.items():
        path = task(name, **settings)
        samples, _ = harness_run(model, path, num_fewshot=1)
        log = tmp_path / f"samples_{name}_2026-01-02T03-04-05.jsonl"
        log.write_text("".join(json.dumps(row, default=str) + "\n" for row in samples))
        (run,) = import_logs([str(log)]).runs
        benchmark = load_benchmark(f"lm-eval:{path}?num_fewshot=1")
        assert run.predictions.table["key"].tolist() == benchmark.keys()
        assert benchmark.items[0].options == tuple(
            json.loads((path.parent / "items.jsonl").read_text().splitlines()[0])["options"]
        )


# what becomes an item -------------------------------------------------------------------------


def test_items_are_the_documents_and_samples_keep_their_examples(task):
    path = task(description="Choose.\n\n")
    benchmark = load_benchmark(f"lm-eval:{path}?num_fewshot=2")
    row = json.loads((path.parent / "items.jsonl").read_text().splitlines()[3])
    item = benchmark.items[3]
    assert item.options == tuple(row["options"])
    assert item.gold == row["gold"]
    assert item.question == row["question"]
    assert item.prompt.prefix.startswith("Choose.\n\nQuestion: ")
    assert item.prompt.prefix.endswith(f"Question: {item.question}\nAnswer:")
    assert item.prompt.prefix.count("Question: ") == 3
    assert item.prompt.continuations == tuple(f" {option}" for option in item.options)
    assert benchmark.split == "validation"
    sampled = load_benchmark(f"lm-eval:{path}?num_fewshot=2", limit=5)
    assert set(sampled.items) < set(benchmark.items)


def test_the_fingerprint_knows_prompts_configuration_and_version(task, monkeypatch):
    path = task()
    first = load_benchmark(f"lm-eval:{path}")
    assert load_benchmark(f"lm-eval:{path}").fingerprint() == first.fingerprint()
    shots = [load_benchmark(f"lm-eval:{path}?num_fewshot=2{s}") for s in ("", "&fewshot_seed=7")]
    other = task(metadata={"version": 2})
    changed = [*shots, load_benchmark(f"lm-eval:{other}")]
    monkeypatch.setattr(source.metadata, "version", lambda name: "0.5.0")
    changed.append(load_benchmark(f"lm-eval:{path}"))
    assert len({b.fingerprint() for b in [first, *changed]}) == 5
    assert [b.name for b in shots] == ["lm-eval-made_up-2shot", "lm-eval-made_up-2shot-seed7"]
    assert [i.options for i in first.items] == [i.options for i in changed[-1].items]


def test_tasks_of_a_group_are_subjects_and_names_are_found_in_a_folder(task, own_tasks_alone):
    task("one", task_alias="first")
    folder = task("two", tag="pair").parent
    (folder / "both.yaml").write_text("group: both\ntask: [one, pair]\n")
    text = f"lm-eval:{folder / 'both.yaml'}?include_path={folder}"
    benchmark = load_benchmark(text)
    assert benchmark_name(text) == benchmark.name == "lm-eval-both"
    assert [item.subject for item in benchmark.items] == ["first"] * 12 + ["two"] * 12
    assert benchmark.items[12].id == "two/0"
    kept = load_benchmark(f"{text}&subjects=two")
    assert kept.name == benchmark_name(f"{text}&subjects=two") == "lm-eval-both-two"
    assert kept.items == benchmark.items[12:]


def test_a_study_finds_the_task_file_beside_its_configuration(task):
    path = task()
    text = grid._absolute(f"lm-eval:tasks/{path.name}?num_fewshot=1", path.parent.parent)
    assert text == f"lm-eval:{path}?num_fewshot=1"
    found = grid._benchmark(text)
    assert (found.name, found.file, found.n_items) == ("lm-eval-made_up-1shot", path, None)


def test_fields_of_the_dataset_give_subject_and_group(task):
    path = task()
    benchmark = load_benchmark(f"lm-eval:{path}?subject=field&group=passage {{field}}")
    rows = [json.loads(line) for line in (path.parent / "items.jsonl").read_text().splitlines()]
    assert benchmark.subjects == [row["field"] for row in rows]
    assert benchmark.groups() == [f"passage {row['field']}" for row in rows]
    with pytest.raises(InputError, match=r"question 0: has no field 'topic', only question,"):
        load_benchmark(f"lm-eval:{path}?subject=topic")


def test_functions_of_a_task_file_enter_the_digest_by_their_source(task):
    path = task(doc_to_choice="!function made.choices")
    module = path.parent / "made.py"
    code = "import functools\n\ndef pick(doc, key):\n    return doc[key]\n\n"
    module.write_text(f"{code}choices = functools.partial(pick, key='options')\n")
    first = load_benchmark(f"lm-eval:{path}")
    assert first.version == load_benchmark(f"lm-eval:{path}").version
    changed = code.replace("return", "# the same\n    return")
    module.write_text(f"{changed}choices = functools.partial(pick, key='options')\n")
    assert load_benchmark(f"lm-eval:{path}").version != first.version


# what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output_type": "generate_until"}, "lets the model write its answer"),
        ({"output_type": "loglikelihood"}, "scores one given continuation"),
        ({"output_type": "loglikelihood_rolling"}, "measures perplexity"),
        ({"process_results": "!function nowhere.score"}, "by a function of its own"),
        ({"doc_to_image": "picture"}, "only text is scored"),
        ({"class": "!function nowhere.Task"}, "is written in Python"),
        ({"doc_to_target": "{{[0, 1]}}"}, r"question 0: has 2 correct options, \[0, 1\]"),
        ({"doc_to_target": "{{'none'}}"}, "target 'none' is none of the options"),
        (
            {"doc_to_target": "{{9 if question.endswith('3th?') else 0}}"},
            "question 3: item '3': gold 9 lies outside the",
        ),
        ({"doc_to_text": "{{question"}, r"cannot be loaded: TemplateSyntaxError: "),
        ({"validation_split": "dev"}, r"cannot be loaded: KeyError: 'dev'"),
    ],
)
def test_tasks_that_cannot_be_scored_are_refused_in_one_line(settings, message, task):
    path = task(**settings)
    with pytest.raises(InputError, match=message) as caught:
        load_benchmark(f"lm-eval:{path}")
    assert "\n" not in str(caught.value)


def test_examples_that_cannot_be_had_are_refused(task):
    with pytest.raises(
        InputError, match=r"'made_up': its prompts cannot be written: Sample larger"
    ):
        load_benchmark(f"lm-eval:{task()}?num_fewshot=7")
    with pytest.raises(InputError, match="fixes num_fewshot at 0"):
        load_benchmark(f"lm-eval:{task(num_fewshot=0)}?num_fewshot=1")


def test_unknown_names_and_files_without_a_task_are_refused(task, tmp_path, own_tasks_alone):
    folder = task("my_arc_easy").parent
    with pytest.raises(InputError, match=r"has no such task .did you mean .*arc_easy"):
        load_benchmark(f"lm-eval:arc_esay?include_path={folder}")
    (tmp_path / "no.yaml").write_text("output_type: multiple_choice\n")
    with pytest.raises(InputError, match="neither `task:` nor `group:`"):
        load_benchmark(f"lm-eval:{tmp_path / 'no.yaml'}")
    (tmp_path / "bad.yaml").write_text("task: [\n")
    with pytest.raises(InputError, match=r"bad.yaml: cannot be read as a task"):
        benchmark_name(f"lm-eval:{tmp_path / 'bad.yaml'}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lm-eval:", r"give the name of a task or a .yaml file.*include_path=FOLDER"),
        ("lm-eval:tests", r"NAME\?include_path=tests"),
        ("lm-eval:nowhere.yaml", "no such task file"),
        ("lm-eval:arc_easy?shots=1", "unknown parameter 'shots'"),
        ("lm-eval:arc_easy?num_fewshot=-1", "num_fewshot=-1: give a number from 0"),
        ("lm-eval:arc_easy?include_path=nowhere", "include_path=nowhere is not a folder"),
    ],
)
def test_what_is_written_wrongly_needs_no_harness_to_be_refused(text, message, monkeypatch):
    monkeypatch.setattr(source, "is_installed", lambda module: False)
    with pytest.raises(InputError, match=message):
        load_benchmark(text)


def test_without_the_harness_the_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(source, "is_installed", lambda module: False)
    with pytest.raises(InputError, match=r"is not installed: run .make setup.*\[lm-eval\]"):
        load_benchmark("lm-eval:arc_easy")


def test_data_on_a_silent_hub_are_given_up_soon(task, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    path = task(dataset_path="owner/name", dataset_kwargs=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 0.3)
        start = time.monotonic()
        with pytest.raises(InputError, match=r"owner/name: .*cannot be reached .*offline you can"):
            load_benchmark(f"lm-eval:{path}")
        assert time.monotonic() - start < 5


# items with prompts of their own, without the harness -----------------------------------------

OWN = Item(
    "1",
    "2 + 2 =",
    ("three", "four"),
    1,
    prompt=Prompt("Sum: 2 + 2 =", (" three", " four")),
)
BLANK = Item(
    "1",
    "shines.",
    ("The sun", "The moon"),
    0,
    prompt=Prompt("The ", (" shines.", " shines."), ("sun", "moon")),
)


@pytest.mark.parametrize(
    ("item", "setting"),
    [
        (OWN, {"format": "letter"}),
        (OWN, {"few_shot": 1}),
        (OWN, {"chat_template": True}),
        (BLANK, {"variant": "prompt-end"}),
    ],
)
def test_settings_that_would_change_an_own_prompt_are_refused(item, setting, model):
    with pytest.raises(InputError, match="brings its own prompt, which predictions"):
        score(model, Benchmark("own", (item,)), PredictionsSettings(**setting))


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_options_before_a_common_ending_are_read_and_not_scored(side, share, model):
    other = Item(
        "2", "x", ("a", "b"), 0, prompt=Prompt("", (" shines.", " rusts."), ("Sun", "Iron"))
    )
    settings = PredictionsSettings(padding_side=side, share_prefix=share)
    table = score(model, Benchmark("own", (BLANK, other)), settings).predictions.table
    for item, found in zip((BLANK, other), table["loglik"], strict=True):
        pairs = zip(item.prompt.contexts, item.prompt.continuations, strict=True)
        plain = [
            Item("1", "", (ending, " x"), 0, prompt=Prompt(context, (ending, " x")))
            for context, ending in pairs
        ]
        alone = [
            score(model, Benchmark("one", (p,))).predictions.table["loglik"][0][0] for p in plain
        ]
        np.testing.assert_allclose(found, alone, rtol=1e-4)
    assert list(table["characters"][0]) == [7, 8]


def test_prompts_need_one_continuation_an_option():
    with pytest.raises(InputError, match="2 leads for 1 continuations"):
        Prompt("a", ("b",), ("c", "d"))
    with pytest.raises(InputError, match="1 continuations for 2 options"):
        Item("1", "q", ("a", "b"), 0, prompt=Prompt("q", (" a",)))


def test_fingerprints_without_own_prompts_stay_as_they_were():
    plain = Benchmark("b", (Item("1", "2 + 2 =", ("three", "four"), 1),))
    assert plain.fingerprint()[:16] == "36f28799df7c7300"
    assert Benchmark("b", (OWN,)).fingerprint() != plain.fingerprint()
