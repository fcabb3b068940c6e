"""Evaluation logs: containers, gold readings, lm-evaluation-harness, joins, the command."""

from __future__ import annotations

import gzip
import io
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from harmony_utils.cli import main
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.logs import common_items, import_logs, read_logs
from harmony_utils.logs import streams as streams_module
from harmony_utils.logs.gold import read_gold, recompute
from harmony_utils.logs.sources import Source, find_sources
from harmony_utils.logs.streams import JsonText, json_lines, open_bytes
from harmony_utils.predictions import Predictions
from harmony_utils.sources.documents import last_question

LOGS = Path(__file__).parent / "data" / "logs"
NEW, OLD, MIDDLE = LOGS / "lm_eval_0.4.13", LOGS / "lm_eval_0.4.2", LOGS / "lm_eval_0.4.8"


def log_row(i: int, *, gold: int = 0, lls=(-1.0, -2.0, -3.0), **changes) -> dict:
    """A row as lm-evaluation-harness 0.4.13 writes it."""
    options = ["red", "yellow", "blue"][: len(lls)]
    sums = [float(x) for x in lls]
    per_character = [x / len(option) for x, option in zip(sums, options, strict=True)]
    row = {
        "doc_id": i,
        "doc": {"question": f"Colour {i}?", "options": options, "label": gold},
        "target": str(gold),
        "arguments": {
            f"gen_args_{j}": {"arg_0": f"Q: Colour {i}?\nA:", "arg_1": f" {option}"}
            for j, option in enumerate(options)
        },
        "resps": [[[str(x), "False"]] for x in lls],
        "filtered_resps": [[str(x), "False"] for x in lls],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": f"d{i}",
        "acc": float(int(np.argmax(sums)) == gold),
        "acc_norm": float(int(np.argmax(per_character)) == gold),
    }
    return {**row, **changes}


def write_log(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def flags(log) -> set[str]:
    return {flag.flag for flag in log.flags}


# containers ---------------------------------------------------------------------------------


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-10**9, 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
), st.integers(1, 40), st.booleans())  # fmt: skip
def test_json_in_small_pieces_is_the_same_json(value, chunk, indented):
    text = json.dumps([value, 17, value], indent=2 if indented else None, ensure_ascii=False)
    before, streams_module._CHUNK = streams_module._CHUNK, chunk
    try:
        found = list(JsonText(io.BytesIO(text.encode()), "here").elements())
    finally:
        streams_module._CHUNK = before
    assert found == [value, 17, value]


def test_members_of_an_object_are_read_one_by_one():
    text = JsonText(io.BytesIO(b'{"a": [1, 2], "b": {"c": NaN}, "d": 12}'), "here")
    found = {}
    for key in text.members():
        found[key] = list(text.elements()) if text.peek() == "[" else text.value()
    assert found["a"] == [1, 2]
    assert math.isnan(found["b"]["c"])
    assert found["d"] == 12


@pytest.mark.parametrize("text", ["[1, 2", '[{"a": 1}, {"b"', "[1 2]", "{", '{"a" 1}', "[1, nope]"])
def test_damaged_json_is_one_line(text):
    document = JsonText(io.BytesIO(text.encode()), "log.json")
    with pytest.raises(InputError, match=r"^log\.json: "):
        list(
            document.elements()
            if text[0] == "["
            else ((k, document.value()) for k in document.members())
        )


def test_lines_say_where_they_are_wrong():
    lines = json_lines(io.BytesIO(b'{"a": NaN}\n\n{"a": \n'), "log.jsonl")
    number, first = next(lines)
    assert number == 1
    assert math.isnan(first["a"])
    with pytest.raises(InputError, match=r"log\.jsonl, line 3"):
        next(lines)


def test_compressed_files_are_known_by_their_content(tmp_path):
    data = b"text " * 1000
    plain, gz, zst = tmp_path / "a.gz", tmp_path / "b.txt", tmp_path / "c.txt"
    plain.write_bytes(data)
    gz.write_bytes(gzip.compress(data))
    frame = zstandard.ZstdCompressor().compress
    zst.write_bytes(frame(data[:2500]) + frame(data[2500:]))  # two frames
    for path in (plain, gz, zst):
        with open_bytes(path) as stream:
            assert stream.read() == data


def test_decompression_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(streams_module, "MAX_SMALL", 10_000)
    for name, data in (
        ("bomb.gz", gzip.compress(b"0" * 3_000_000)),
        ("bomb.zst", zstandard.ZstdCompressor().compress(b"0" * 3_000_000)),
    ):
        (tmp_path / name).write_bytes(data)
        with (
            open_bytes(tmp_path / name) as stream,
            pytest.raises(InputError, match="times its size"),
        ):
            stream.read()


def test_cut_off_archives_are_one_line(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 100_000 + bytes(range(256)) * 50)[:-20])
    with open_bytes(path) as stream, pytest.raises(InputError, match="cut-off"):
        stream.read()


def test_find_sources_takes_files_folders_and_globs_once(tmp_path):
    for name in ("a/x.jsonl", "a/b/y.jsonl", ".hidden/z.jsonl"):
        write_log(tmp_path / name, [log_row(0)])
    (tmp_path / "a" / "empty").touch()
    found = find_sources([str(tmp_path), str(tmp_path / "a" / "*.jsonl")])
    assert [source.path.name for source in found] == ["y.jsonl", "x.jsonl"]
    with pytest.raises(InputError, match="no such file"):
        find_sources([str(tmp_path / "nothing*")])


# gold ---------------------------------------------------------------------------------------


def test_readings_of_a_gold_value():
    assert read_gold("2", ["1", "2", "3"]) == {"index": (2,), "index-1": (1,), "text": (1,)}
    assert read_gold(2.0, ["a", "b", "c"]) == {"index": (2,), "index-1": (1,)}
    assert read_gold("(C)", ["x", "y", "z"]) == {"letter": (2,)}
    assert read_gold(["A", "C"], ["x", "y", "z"]) == {"letter": (0, 2)}
    assert read_gold("3", list("wxyz"), labels=["1", "2", "3", "4"])["label"] == (2,)
    assert read_gold(-100, ["a", "b"]) == {}
    assert read_gold("[__import__('os')]", ["a", "b"]) == {}


def test_rules_by_hand():
    values = {
        "loglik": np.array([[-1.0, -2.0, np.nan], [-3.0, -3.0, -1.0]]),
        "n_options": np.array([2, 3]),
        "lengths": {"char": np.array([[1.0, 4.0, np.nan], [1.0, 1.0, 1.0]])},
    }
    gold = [(0,), (2,)]
    assert recompute("sum", gold, **values).tolist() == [1.0, 1.0]
    assert recompute("char", gold, **values).tolist() == [0.0, 1.0]
    mass = recompute("mass", gold, **values)
    assert mass[0] == pytest.approx(1 / (1 + math.exp(-1)))
    assert recompute("prediction", gold, **values, prediction=np.array([0, -1])).tolist() == [1, 0]
    assert np.isnan(recompute("sum", [None, (2,)], **values)[0])


def test_a_reading_must_hold_on_every_row(tmp_path):
    """Options "1" to "3" with target "1": index, index from one and text are told by the scores."""
    rows = []
    for i, best in enumerate([1, 2, 0, 1]):
        lls = [-5.0, -5.0, -5.0]
        lls[best] = -1.0
        row = log_row(i, lls=lls)
        for j in range(3):
            row["arguments"][f"gen_args_{j}"]["arg_1"] = f" {j + 1}"
        rows.append({**row, "doc": {"question": f"q{i}"}, "target": "1", "acc": float(best == 0)})
        rows[-1]["acc_norm"] = rows[-1]["acc"]
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", rows))]).logs
    assert log.reading.name in ("text", "index-1")
    assert log.reading.gold == [(0,)] * 4
    assert log.reading.agreement == {"acc": (4, 4), "acc_norm": (4, 4)}


def test_two_readings_that_both_hold_are_asked_about(tmp_path):
    rows = [
        {**log_row(0, lls=(-9.0, -9.0, -1.0)), "target": "1", "acc": 0.0, "acc_norm": 0.0},
        {**log_row(1, lls=(-9.0, -9.0, -1.0)), "target": "1", "acc": 0.0, "acc_norm": 0.0},
    ]
    path = str(write_log(tmp_path / "s.jsonl", rows))
    with pytest.raises(InputError, match="--gold-from"):
        read_logs([path])
    (log,) = import_logs([path], gold_from="index").logs
    assert log.reading.gold == [(1,), (1,)]
    with pytest.raises(InputError, match="no gold reading 'nonsense'"):
        read_logs([path], gold_from="nonsense")


# lm-evaluation-harness ----------------------------------------------------------------------

EXPECTED = [  # folder, task, items, accuracy, by characters, reading
    (NEW, "myarc", 4, 0.25, 0.5, "index"),
    (NEW, "mycsqa", 4, 0.0, 0.0, "letter"),
    (NEW, "mymm_1", 5, 0.2, 0.2, "index"),
    (NEW, "mymulti", 2, 0.0, 0.0, "list"),
    (NEW, "mywino", 2, 1.0, 1.0, "doc.answer-1"),
    (MIDDLE, "myarc", 4, 0.25, None, "index"),
    (MIDDLE, "mycsqa", 4, 0.25, None, "letter"),
    (MIDDLE, "mymulti", 2, 1.0, None, "list"),
    (MIDDLE, "mywino", 2, 0.5, 0.5, "doc.answer-1"),
    (OLD, "myarc", 4, 0.25, None, "index"),
    (OLD, "mycsqa", 4, 0.25, None, "letter"),
    (OLD, "mymulti", 2, 1.0, None, "list"),
    (OLD, "mywino", 2, 0.5, 0.5, "doc.answer-1"),
]


@pytest.mark.parametrize(("folder", "task", "n", "accuracy", "normed", "reading"), EXPECTED)
def test_real_lm_eval_logs(folder, task, n, accuracy, normed, reading):
    logs = {log.header.task: log for log in read_logs([str(folder)]).logs}
    log = logs[task]
    about = log.to_dict()
    assert about["n_items"] == n
    assert about["accuracy"] == accuracy
    if normed is not None:
        assert about["accuracy_norm"] == normed
    assert about["gold_reading"] == reading
    assert about["agreement"] == {"acc": [n, n], "acc_norm": [n, n]}
    for metric, rule in (("acc", "accuracy"), ("acc_norm", "accuracy_norm")):
        assert about["reported"][metric] == pytest.approx(about[rule])
    assert log.header.model == ("k9d4ocjq" if folder == NEW else "org/mod")


def test_generated_answers_count_once_and_have_no_distribution():
    logs = [log for log in read_logs([str(NEW)]).logs if log.header.task == "mygen"]
    assert [log.split for log in logs] == ["strict", "flex"]
    assert all(log.to_dict()["has_loglikelihoods"] is False for log in logs)
    assert all(
        {"one-row-per-filter", "no-distribution", "unmapped-answer"} <= flags(x) for x in logs
    )
    (run,) = [run for run in read_logs([str(NEW)]).runs if run.benchmark == "mygen"]
    assert len(run.predictions) == 4


def test_the_name_of_a_file_does_not_matter(tmp_path):
    source = next(NEW.glob("samples_myarc*"))
    for name, data in (
        ("log.parquet", source.read_bytes()),
        ("x.csv", gzip.compress(source.read_bytes())),
        ("y", zstandard.ZstdCompressor().compress(source.read_bytes())),
    ):
        (tmp_path / name).write_bytes(data)
        (log,) = import_logs([str(tmp_path / name)]).logs
        assert log.header.format == "lm-eval"
        assert log.predictions.accuracy("sum") == 0.25
        assert "no-results-file" in flags(log)


def test_the_development_layout_is_tolerated(tmp_path):
    rows = [log_row(i, gold=i % 3) for i in range(6)]
    for row in rows:
        row["filtered_resps"] = [row["filtered_resps"]]
        row["filtered_resps"] = [[pair] for pair in row["filtered_resps"][0]]
        row["acc"], row["acc_norm"] = int(row["acc"]), int(row["acc_norm"])
        row["arguments"]["gen_args_0"]["arg_0"] = [{"role": "user", "content": "Colour?"}]
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", rows))]).logs
    assert log.header.version == "0.5"
    assert log.reading.agrees


def test_pmi_requests_are_not_options(tmp_path):
    row = log_row(0, gold=1, lls=(-1.0, -1.5, -3.0))
    for j, option in enumerate(["red", "yellow", "blue"]):
        row["arguments"][f"gen_args_{j + 3}"] = {"arg_0": "", "arg_1": f" {option}"}
    row["filtered_resps"] += [["-1.0", "False"], ["-9.0", "False"], ["-3.0", "False"]]
    row["acc_mutual_info"] = 1.0
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", [row]))], normalisation="pmi").logs
    assert log.predictions.table["n_options"].tolist() == [3]
    assert log.reading.rules["acc_mutual_info"] == "pmi"
    assert log.predictions.accuracy() == 1.0
    assert log.predictions.meta["normalisation"] == "pmi"


def test_missing_is_missing(tmp_path):
    rows = [log_row(i) for i in range(4)]
    rows[0]["filtered_resps"][2] = ["-inf", "False"]
    rows[1]["filtered_resps"][2] = ["-999.0", "False"]
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", rows))]).logs
    assert log.missing == 2
    assert "missing-loglikelihood" in flags(log)
    kept = log.predictions.table["loglik"].tolist()
    assert pd.isna(kept[0][2])
    assert pd.isna(kept[1][2])
    assert log.predictions.correct.tolist() == [1.0] * 4


def test_more_than_nine_options_keep_their_order(tmp_path):
    row = log_row(0)
    row["arguments"] = {
        f"gen_args_{j}": {"arg_0": "Q", "arg_1": f" {'x' * (j + 1)}"}
        for j in (*range(10, 12), *range(10))
    }
    row["filtered_resps"] = [[str(-1.0 - (j != 11)), "False"] for j in range(12)]
    row |= {"target": "11", "acc": 1.0, "acc_norm": 1.0}
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", [row]))]).logs
    assert log.predictions.table["characters"][0] == list(range(1, 13))
    assert log.predictions.accuracy("sum") == 1.0


# self-check and flags -----------------------------------------------------------------------


def test_a_log_that_is_not_reproduced_is_refused(tmp_path, capsys):
    rows = [log_row(i, gold=i % 3) for i in range(6)]
    rows[4]["acc"] = 1.0 - rows[4]["acc"]
    path = str(write_log(tmp_path / "s.jsonl", rows))
    with pytest.raises(RefusedError, match="acc on 5 of 6 rows"):
        import_logs([path])
    (log,) = import_logs([path], accept_disagreement=True).logs
    assert "disagreement" in flags(log)
    with pytest.raises(SystemExit) as stop:
        main(["import", path, "--out", str(tmp_path / "out"), "--json"])
    assert stop.value.code == 3
    assert json.loads(capsys.readouterr().out)["files"][0]["agreement"]["acc"] == [5, 6]
    assert not (tmp_path / "out").exists()


def test_suspicious_logs_are_flagged(tmp_path):
    rng = np.random.default_rng(0)
    zero = [log_row(i, lls=(0.0, 0.0, 0.0)) for i in range(30)]
    (log,) = import_logs([str(write_log(tmp_path / "zero.jsonl", zero))]).logs
    assert {"constant-loglikelihoods", "constant-gold", "near-ties"} <= flags(log)

    first = [log_row(i, gold=int(rng.integers(3)), lls=(-1.0, -4.0, -5.0)) for i in range(90)]
    (log,) = import_logs([str(write_log(tmp_path / "first.jsonl", first))]).logs
    assert "position-bias" in flags(log)
    assert "constant-gold" not in flags(log)

    broken = [log_row(i) for i in range(4)] + [log_row(4, target="7", acc=0.0, acc_norm=0.0)]
    broken[4]["doc"].pop("label")
    (log,) = import_logs([str(write_log(tmp_path / "broken.jsonl", broken))]).logs
    assert "gold-outside-range" in flags(log)
    assert log.reading.agreement["acc"] == (4, 4)
    assert np.isnan(log.predictions.correct[4])

    twice = [log_row(0), log_row(0), log_row(1, gold=1), {**log_row(1), "doc_id": 7}]
    (log,) = import_logs([str(write_log(tmp_path / "twice.jsonl", twice))]).logs
    assert {"repeated-rows", "duplicate-questions", "two-keyed-answers"} <= flags(log)
    assert len(log.predictions) == 3


def test_a_limited_run_is_noticed(tmp_path):
    rows = [log_row(i) for i in range(5)]
    write_log(tmp_path / "samples_t_2026-01-01T00-00-00.000000.jsonl", rows)
    results = {
        "results": {"t": {"acc,none": 1.0}},
        "n-samples": {"t": {"original": 500, "effective": 5}},
        "config": {"limit": 5.0},
        "model_name": "m",
    }
    (tmp_path / "results_2026-01-01T00-00-00.000000.json").write_text(json.dumps(results))
    (tmp_path / "results_2027-01-01T00-00-00.000000.json").write_text(json.dumps({"results": {}}))
    found = import_logs([str(tmp_path)])
    assert found.logs[0].header.model == "m"
    assert "subject-skew" in flags(found.logs[0])
    assert found.runs[0].averages()["reported_rule"] == "micro"


# joins --------------------------------------------------------------------------------------


def two_models(folder: Path, **changes) -> list[str]:
    rows = [log_row(i, gold=i % 3, lls=(-1 - i / 7, -2 + i / 9, -3.0)) for i in range(8)]
    write_log(folder / "a" / "samples_t_2026-01-01T00-00-00.000000.jsonl", rows)
    other = [log_row(i, gold=i % 3, lls=(-2.0, -1 - i / 5, -3.0)) for i in (7, 5, 3, 1, 0)]
    write_log(
        folder / "b" / "samples_t_2026-01-01T00-00-00.000000.jsonl", changes.get("rows", other)
    )
    for name in "ab":
        about = {"results": {"t": {}}, "model_name": name, "n-shot": {"t": 0}}
        if name == "b":
            about |= changes.get("results", {})
        path = folder / name / "results_2026-01-01T00-00-00.000000.json"
        path.write_text(json.dumps(about))
    return [str(folder)]


def test_models_are_joined_by_content(tmp_path):
    found = import_logs(two_models(tmp_path))
    assert found.joined["models"] == ["a", "b"]
    assert found.joined["items"] == 5
    assert found.joined["dropped"] == {"a": 3, "b": 0}
    a, b = common_items(found.runs)
    assert a.predictions.table["key"].tolist() == b.predictions.table["key"].tolist()
    assert a.predictions.table["native_id"].tolist() == ["0", "1", "3", "5", "7"]
    assert b.predictions.table["native_id"].tolist() == ["0", "1", "3", "5", "7"]


def test_runs_asked_differently_are_not_joined(tmp_path):
    paths = two_models(tmp_path, results={"n-shot": {"t": 5}})
    with pytest.raises(RefusedError, match="different few-shot"):
        read_logs(paths)
    assert read_logs(paths, merge_different=True).joined["items"] == 5


def test_copied_answers_are_noticed(tmp_path):
    rows = [log_row(i, gold=i % 3, lls=(-1 - i / 7, -2 + i / 9, -3.0)) for i in range(8)]
    found = import_logs(two_models(tmp_path, rows=rows))
    assert all("identical-loglikelihoods" in flags(log) for log in found.logs)


def test_subjects_become_one_benchmark_with_both_averages(tmp_path):
    for subject, n, gold in (("anatomy", 6, 0), ("virology", 2, 1)):
        rows = [log_row(f"{subject}{i}", gold=gold) for i in range(n)]
        for row in rows:
            row["doc"]["question"] = f"{subject} {row['doc_id']}"
        write_log(tmp_path / f"samples_mmlu_{subject}_2026-01-01T00-00-00.000000.jsonl", rows)
    results = {
        "results": {"mmlu": {"acc,none": 0.75}, "mmlu_anatomy": {}, "mmlu_virology": {}},
        "group_subtasks": {"mmlu": ["mmlu_anatomy", "mmlu_virology"]},
        "model_name": "m",
    }
    (tmp_path / "results_2026-01-01T00-00-00.000000.json").write_text(json.dumps(results))
    (run,) = import_logs([str(tmp_path)]).runs
    averages = run.averages()
    assert run.benchmark == "mmlu"
    assert (averages["micro"], averages["macro"]) == (0.75, 0.5)
    assert averages["subjects"]["anatomy"] == {"n": 6, "scored": 6, "accuracy": 1.0}
    assert averages["reported_rule"] == "micro"


# the command --------------------------------------------------------------------------------


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code


def test_import_and_export(tmp_path, capsys):
    out = tmp_path / "runs"
    assert command("import", str(MIDDLE), "--out", str(out), "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert {"files", "joined"} <= set(about)
    assert about["joined"]["models"] == ["org/mod"]
    kept = Predictions.load(out / "myarc" / "org__mod" / "predictions.parquet")
    assert kept.accuracy() == 0.25
    for name in ("all.csv", "all.parquet"):
        assert command("export", str(out), "--out", str(tmp_path / name)) == 0
    table = pd.read_csv(tmp_path / "all.csv")
    assert len(table) == 12
    assert json.loads(table["loglik"][0])[0] == pytest.approx(kept.table["loglik"][0][0])
    assert len(pd.read_parquet(tmp_path / "all.parquet")) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "nowhere.jsonl"], "no such file"),
        (["import", str(MIDDLE), "--format", "nope"], "choose inspect, lm-eval"),
        (["import", str(Path(__file__))], "not a log of a known format"),
        (["audit", "--from-logs"], "name at least one"),
        (["audit", "a.jsonl"], "--from-logs"),
        (["audit", "--from-logs", str(MIDDLE), "--partition", "x"], "subjects, embeddings"),
        (["export", str(MIDDLE), "--out", "x.csv"], "no predictions.parquet"),
        (["export", str(MIDDLE), "--out", "x.txt"], "ends in .csv or .parquet"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line(arguments, message, capsys):
    assert command(*arguments) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("harmony:")]
    assert message in line


def test_an_empty_file_and_an_empty_folder(tmp_path):
    (tmp_path / "x.jsonl").touch()
    with pytest.raises(InputError, match="empty file"):
        read_logs([str(tmp_path / "x.jsonl")])
    with pytest.raises(InputError, match="no evaluation log found"):
        read_logs([str(tmp_path)])


def test_markup_in_a_log_is_shown_as_text(tmp_path, capsys):
    rows = [log_row(i, gold=i % 3) for i in range(3)]
    path = write_log(tmp_path / "samples_[red]x[red]_2026-01-01T00-00-00.000000.jsonl", rows)
    assert command("import", str(path), "--out", str(tmp_path / "out")) == 0
    assert "[red]x" in capsys.readouterr().out.replace("\n", "")


def test_other_files_in_a_folder_are_named_not_read(tmp_path):
    shutil.copytree(MIDDLE, tmp_path / "logs")
    (tmp_path / "logs" / "notes.txt").write_text("hello")
    found = read_logs([str(tmp_path)])
    assert [Path(p).name for p in found.skipped if p.endswith(".txt")] == ["notes.txt"]
    assert Source(tmp_path / "logs" / "notes.txt").kind == "text"


@pytest.mark.parametrize(
    ("start", "end", "answer"),
    [
        ("<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
        (
            "<|start_header_id|>user<|end_header_id|>\n\n",
            "<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ("<start_of_turn>user\n", "<end_of_turn>\n", "<start_of_turn>model\n"),
        ("", "\n", ""),
    ],
)
def test_the_last_question_of_a_few_shot_prompt(start, end, answer):
    """Under a template whose header ends in a blank line, the last block is only ``Answer:``."""
    shots = [f"Question: {n} + {n}?\nA. 2\nB. 4" for n in (1, 2, 3)]
    turns = [f"{start}{shot}{end}{answer}Answer:" for shot in shots]
    prompt = "Here are questions.\n\n" + f" B{end}".join(turns)
    assert last_question(prompt).removesuffix("\nAnswer:") == shots[-1]
