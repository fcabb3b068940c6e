"""Hugging Face datasets: local folders, the shape of hub rows, and a hub that does not answer."""

import shutil
import socket
import time

import datasets
import huggingface_hub
import pytest

from harmony_utils import hub
from harmony_utils.errors import InputError
from harmony_utils.predictions import Predictions
from harmony_utils.scoring.answers import judge
from harmony_utils.sources import load, load_benchmark
from harmony_utils.sources.catalogue import find_entry
from harmony_utils.sources.convert import to_items
from harmony_utils.sources.hub import HubData
from harmony_utils.sources.tables import Table
from harmony_utils.stages import open_audit

QUESTIONS = [
    {"stem": "2 + 2 =", "choices": {"text": ["3", "4"], "label": ["1", "2"]}, "key": "2"},
    {"stem": "3 + 3 =", "choices": {"text": ["6", "5"], "label": ["1", "2"]}, "key": "1"},
]
PARAMETERS = "question=stem&options=choices.text&labels=choices.label&gold=key&gold_is=label"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "sums"


def check_sums(benchmark):
    assert [item.question for item in benchmark.items] == ["2 + 2 =", "3 + 3 ="]
    assert [item.options[item.gold] for item in benchmark.items] == ["4", "6"]


def test_saved_dataset_is_read(folder):
    datasets.Dataset.from_list(QUESTIONS).save_to_disk(folder)
    benchmark = load_benchmark(f"hf:{folder}?{PARAMETERS}")
    check_sums(benchmark)
    assert (benchmark.name, benchmark.split) == ("sums", "all")
    assert benchmark.source == "folder sums"


def test_saved_splits_need_a_choice(folder):
    part = datasets.Dataset.from_list(QUESTIONS)
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(folder)
    benchmark = load_benchmark(f"hf:{folder}?split=test&{PARAMETERS}")
    check_sums(benchmark)
    assert (benchmark.name, benchmark.split) == ("sums-test", "test")
    with pytest.raises(
        InputError, match=r"sums: choose a split: add .split= and one of train, test"
    ):
        load_benchmark(f"hf:{folder}?{PARAMETERS}")
    with pytest.raises(InputError, match="has no split 'dev'"):
        load_benchmark(f"hf:{folder}?split=dev&{PARAMETERS}")


def test_folder_with_data_files_is_read(folder):
    folder.mkdir()
    datasets.Dataset.from_list(QUESTIONS).to_parquet(folder / "test-00000.parquet")
    check_sums(load_benchmark(f"hf:{folder}?split=test&{PARAMETERS}"))
    with pytest.raises(InputError, match="hf:sums: cannot be loaded: ") as caught:
        load_benchmark(f"hf:{folder}?split=dev&{PARAMETERS}")
    assert "\n" not in str(caught.value)


def test_class_labels_are_indices(folder):
    data = datasets.Dataset.from_dict(
        {"question": ["a", "b"], "choices": [["x", "y"], ["x", "y"]], "answer": [1, 0]}
    )
    data = data.cast_column("answer", datasets.ClassLabel(names=["first", "second"]))
    data.save_to_disk(folder)
    assert [item.gold for item in load_benchmark(f"hf:{folder}").items] == [1, 0]


SOLVED = [
    {"question": f"Ann has {n} sweets and eats one. How many are left?", "answer": solution}
    for n, solution in ((3, "3 - 1 = <<3-1=2>>2 sweets.\n#### 2"), (1002, "It is\n#### 1,001"))
]


def test_worked_solutions_are_read_and_judged_by_their_number(folder):
    datasets.DatasetDict({"test": datasets.Dataset.from_list(SOLVED)}).save_to_disk(folder)
    benchmark = load_benchmark(f"hf:{folder}?split=test&answers=answer&answer_kind=number")
    assert (benchmark.open_ended, benchmark.answer_kind) == (True, "number")
    assert [item.answers for item in benchmark.items] == [(row["answer"],) for row in SOLVED]
    assert judge("so 1001 are left.", benchmark.items[1].answers, kind="number").correct


def test_the_entry_of_gsm8k_takes_its_examples_from_the_train_split(folder, monkeypatch):
    """The columns and splits of the entry, on a local copy in the layout of the hub."""
    splits = {name: datasets.Dataset.from_list(SOLVED) for name in ("train", "test")}
    datasets.DatasetDict(splits).save_to_disk(folder)
    entry = find_entry("gsm8k")
    local = entry.model_copy(
        update={"location": entry.location.model_copy(update={"path": str(folder)})}
    )
    monkeypatch.setattr(load, "find_entry", lambda name: local if name == "gsm8k" else None)
    benchmark = load_benchmark("gsm8k")
    assert (benchmark.name, benchmark.split, benchmark.answer_kind) == ("gsm8k", "test", "number")
    assert [item.answer for item in benchmark.examples] == [row["answer"] for row in SOLVED]


def test_rows_are_checked_like_those_of_a_file(folder):
    rows = [{"question": "a", "options": ["x", "x"], "gold": 0}]
    datasets.Dataset.from_list(rows).save_to_disk(folder)
    with pytest.raises(InputError, match="sums, row 1: options 1 and 2 are both 'x'"):
        load_benchmark(f"hf:{folder}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hf:a/b/c", "neither a local folder nor a name such as owner/name"),
        ("hf:a/b?quest=x", "unknown parameter 'quest' for 'a/b' .did you mean question"),
        ("hf:a/b?split", "write it as name=value"),
        ("hf:a/b?split=x&split=y", "'split' stands twice"),
        ("hf:a/b?gold_is=number", "gold_is=number: choose one of index, position"),
        ("hf:a/b?shuffle=true", "shuffle=true: choose one of yes, no"),
    ],
)
def test_bad_specs_are_refused_before_any_network(spec, message):
    with pytest.raises(InputError, match=message):
        load_benchmark(spec)


def test_folders_and_files_are_told_apart(folder):
    folder.mkdir()
    with pytest.raises(InputError, match="is a folder: write hf:"):
        load_benchmark(str(folder))
    (folder / "a.csv").write_text("question\n")
    with pytest.raises(InputError, match="is a file: leave out the hf:"):
        load_benchmark(f"hf:{folder / 'a.csv'}")


def test_silent_hub_is_given_up_soon(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 0.3)
        start = time.monotonic()
        with pytest.raises(InputError, match=r"hub cannot be reached .*offline you can use"):
            load_benchmark("pubmedqa")
        assert time.monotonic() - start < 5


def test_offline_mode_asks_nobody(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hf:nobody/nothing: cannot be loaded: .*offline you can"):
        load_benchmark("hf:nobody/nothing?question=a")


HUB_ROWS = {
    "mmlu_pro": {
        "question_id": 70,
        "question": "Which comes first?",
        "options": ["a", "b", "c"],
        "answer": "B",
        "answer_index": 1,
        "category": "business",
    },
    "pubmedqa": {
        "pubid": 1,
        "question": "Does it help?",
        "context": {"contexts": ["We asked.", "We saw."], "labels": ["AIMS", "RESULTS"]},
        "final_decision": "no",
    },
    "truthfulqa_mc1": {
        "question": "Which comes first?",
        "mc1_targets": {"choices": ["b", "a", "c"], "labels": [1, 0, 0]},
    },
    "race_high": {
        "example_id": "high1.txt",
        "article": "B is the answer.",
        "question": "Which?",
        "options": ["a", "b"],
        "answer": "B",
    },
    "math_qa": {
        "Problem": "which comes first ?",
        "options": "a ) 1 , 050 , b ) b , c ) rs . 3 , d ) 4 % , e ) none of these",
        "correct": "b",
        "category": "general",
    },
    "logiqa": {
        "context": "B is the answer.",
        "query": "Which?",
        "options": ["a", "b"],
        "correct_option": 1,
    },
}


@pytest.mark.parametrize("name", HUB_ROWS)
def test_hub_entries_read_rows_of_their_shape(name):
    (item,) = to_items([{**HUB_ROWS[name], "_row": 1}], find_entry(name).columns, ["row 1"])
    assert item.options[item.gold] == ("no" if name == "pubmedqa" else "b")
    passages = {"pubmedqa": "We asked.\nWe saw.", "race_high": "B is the answer."}
    assert item.passage == {**passages, "logiqa": "B is the answer."}.get(name)
    assert item.subject == {"mmlu_pro": "business", "math_qa": "general"}.get(name)
    if name == "math_qa":
        assert item.options == ("1 , 050", "b", "rs . 3", "4 %", "none of these")


def test_a_revision_of_the_catalogue_is_asked_for(monkeypatch):
    asked = {}
    rows = [{**HUB_ROWS["logiqa"], "_row": 1}]

    def read(path, **options):
        asked.update(options, path=path)
        return HubData(Table(rows, ["row 1"], list(rows[0])), "test", "unknown")

    monkeypatch.setattr(load, "read_hub", read)
    benchmark = load_benchmark("logiqa")
    assert asked["path"] == "lucasmccabe/logiqa"
    assert asked["revision"] == "refs/convert/parquet"
    assert benchmark.source.endswith("lucasmccabe/logiqa at revision refs/convert/parquet")


def test_a_dataset_that_changed_is_refused_before_its_results_are_overwritten(folder, tmp_path):
    datasets.Dataset.from_list(QUESTIONS).save_to_disk(folder)
    audit = {"model": "respondent:longest", "benchmark": f"hf:{folder}?{PARAMETERS}"}
    first = open_audit(**audit, run_dir=tmp_path / "runs")
    answers = first.predictions()
    changed = [QUESTIONS[0], {**QUESTIONS[1], "key": "2"}]
    shutil.rmtree(folder)
    datasets.Dataset.from_list(changed).save_to_disk(folder)
    with pytest.raises(InputError, match=r"other questions named sums .*another --out"):
        open_audit(**audit, run_dir=tmp_path / "runs").predictions()
    kept = Predictions.load(first.run.path("predictions.parquet"))
    assert kept.table["key"].tolist() == answers.table["key"].tolist()
    assert len(open_audit(**audit, run_dir=tmp_path / "others").predictions()) == 2
