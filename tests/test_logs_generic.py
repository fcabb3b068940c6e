"""Tables and matrices of any origin."""

from __future__ import annotations

import gzip
import json
import math

import pandas as pd
import pytest

from harmony_utils.errors import InputError
from harmony_utils.logs import read_logs
from harmony_utils.logs.export import export_runs


def flags(log) -> dict[str, str]:
    return {flag.flag: flag.sentence for flag in log.flags}


def text(tmp_path, content: str, name: str = "table.csv"):
    (tmp_path / name).write_text(content)
    return str(tmp_path / name)


def accuracies(found) -> dict[str, float]:
    return {log.header.model: log.predictions.accuracy() for log in found.logs}


LONG = """model,item,correct,subject
a,q1,1,x
a,q2,0,y
b,q1,true,x
b,q2,0.5,y
"""


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_long_table(tmp_path, delimiter):
    found = read_logs([text(tmp_path, LONG.replace(",", delimiter), "any.txt")])
    assert accuracies(found) == {"a": 0.5, "b": 0.75}
    assert found.joined["items"] == 2
    assert found.logs[0].predictions.table["subject"].tolist() == ["x", "y"]
    assert {log.header.format for log in found.logs} == {"table"}
    assert {"no-gold", "no-distribution"} <= set(flags(found.logs[0]))


def test_usual_names_of_columns_and_several_benchmarks(tmp_path):
    rows = [
        {"benchmark_id": b, "example_id": f"{b}/{i}", "pass1": p, "model": "m"}
        for b, i, p in [("crux", 0, 1.0), ("crux", 1, 0.0), ("lcb", 0, 1.0)]
    ]
    path = tmp_path / "arena.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = read_logs([str(path)])
    assert [(run.benchmark, run.predictions.accuracy()) for run in found.runs] == [
        ("crux", 0.5),
        ("lcb", 1.0),
    ]


@pytest.mark.parametrize("kind", ["array", "parquet"])
def test_other_containers_without_model(tmp_path, kind):
    table = pd.DataFrame({"question_id": [1, 2, 3], "is_correct": [True, False, True]})
    path = tmp_path / "gpt.data"
    if kind == "parquet":
        table.to_parquet(path)
    else:
        path.write_text(table.to_json(orient="records"))
    (log,) = read_logs([str(path)]).logs
    assert log.header.model == "gpt.data"
    assert log.predictions.correct.tolist() == [1, 0, 1]
    assert log.predictions.table["native_id"].tolist() == ["1", "2", "3"]


def test_loglikelihoods_and_gold_counted_from_one(tmp_path):
    rows = ["model,item,correct,gold,loglik_0,loglik_1,loglik_2"]
    rows += ["m,q1,1,1,-1,-2,-3", "m,q2,0,3,-1,-2,-3", "m,q3,1,2,-2,-1,"]
    (log,) = read_logs([text(tmp_path, "\n".join(rows))]).logs
    assert log.reading.name == "index-1"
    assert log.reading.agreement == {"correct": (3, 3)}
    assert log.predictions.table["n_options"].tolist() == [3, 3, 2]
    assert log.predictions.table["loglik"].iloc[2] == [-2, -1]
    assert log.predictions.correct.tolist() == [1, 0, 1]


def test_chosen_option_without_correctness(tmp_path):
    rows = "item,gold,prediction\nq1,B,b\nq2,(C),A\n"
    (log,) = read_logs([text(tmp_path, rows)]).logs
    assert log.predictions.correct.tolist() == [1, 0]
    assert log.predictions.table["prediction"].tolist() == [1, 0]


def test_correctness_that_contradicts_the_chosen_option_is_refused(tmp_path):
    rows = "item,gold,prediction,correct\nq1,B,B,1\nq2,C,A,1\n"
    (log,) = read_logs([text(tmp_path, rows)]).logs
    assert log.reading.agreement == {"correct": (1, 2)}


def test_empty_cells_are_not_zero(tmp_path):
    rows = "item,correct\nq1,1\nq2,\nq3,NA\n"
    (log,) = read_logs([text(tmp_path, rows)]).logs
    assert log.predictions.accuracy() == 1.0
    assert flags(log)["unscored"].startswith("2 rows")
    assert log.missing == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("model,item,correct\na,q1,1\na,q2,maybe\n", r"row 3, column 'correct': 'maybe' is not 0"),
        ("model,item,Score\na,q1,37\n", r"row 2, column 'Score': '37' is not 0, 1, a share"),
        ("model,item,correct\n,q1,1\n", r"row 2, column 'model': empty"),
        ("model,item,correct\na,,1\n", r"row 2, column 'item': empty"),
        ("model,item,correct\na,q1\n", r"row 2: 2 fields, the header has 3"),
        ("item,gold,loglik_0,loglik_1\nq,A,-1,x\n", r"row 2, column 'loglik_1': 'x' is not a log"),
    ],
)
def test_bad_cell_is_named(tmp_path, rows, message):
    with pytest.raises(InputError, match=message) as caught:
        read_logs([text(tmp_path, rows)])
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_exported_table_is_read_again(tmp_path):
    rows = ["model,item,correct,gold,loglik_0,loglik_1"]
    rows += ["m,q1,1,A,-1,-2", "m,q2,0,B,-1,-2"]
    (first,) = read_logs([text(tmp_path, "\n".join(rows))]).logs
    first.predictions.save(tmp_path / "run" / "predictions.parquet")
    for name in ("out.csv", "out.parquet"):
        export_runs([tmp_path / "run"], tmp_path / name)
        (again,) = read_logs([str(tmp_path / name)]).logs
        assert again.predictions.correct.tolist() == [1, 0]
        assert again.predictions.table["loglik"].iloc[1] == [-1, -2]
        assert again.reading.agreement == {"correct": (2, 2)}


# matrices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected", "why"),
    [
        ("0,1,1\n1,1,1\n", {"model 1": 2 / 3, "model 2": 1.0}, "no more rows"),
        ("0,1\n1,1\n1,1\n", {"model 1": 2 / 3, "model 2": 1.0}, "fewer columns"),
        (
            "name,q1,q2\na,1,0\nb,1,1\nc,0,0\n",
            {"a": 0.5, "b": 1.0, "c": 0.0},
            "first column holds names",
        ),
        ("model,q1,q2\na,1,0\nb,1,1\n", {"a": 0.5, "b": 1.0}, "called 'model'"),
        ("item,a,b\nq1,1,0\nq2,1,1\nq3,1,\n", {"a": 1.0, "b": 0.5}, "called 'item'"),
        (",0,1,2\n0,1,0,1\n1,1,1,1\n", {"0": 2 / 3, "1": 1.0}, "first column holds names"),
        ("a,b\n1,0\n0,0\n1,0\n", {"a": 2 / 3, "b": 0.0}, "fewer columns"),
    ],
)
def test_matrix_orientation_is_told(tmp_path, content, expected, why):
    found = read_logs([text(tmp_path, content, "m.txt")])
    assert accuracies(found) == pytest.approx(expected)
    assert all(why in flags(log)["matrix-orientation"] for log in found.logs)
    assert found.joined["items"] == len(found.logs[0].predictions)


def test_matrix_of_lists_and_parquet(tmp_path):
    assert accuracies(read_logs([text(tmp_path, "[[0, 1, 1], [1, 1, 1]]", "m.json")])) == {
        "model 1": pytest.approx(2 / 3),
        "model 2": 1.0,
    }
    pd.DataFrame({"a": [1, 0, 1], "b": [0, 0, 1]}).to_parquet(tmp_path / "m.parquet")
    found = read_logs([str(tmp_path / "m.parquet")])
    assert accuracies(found) == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}


def test_bad_cell_of_a_matrix_is_named(tmp_path):
    content = "model,q1,q2,q3\na,1,0,1\nb,1,7,1\n"
    with pytest.raises(InputError, match=r"m\.txt, row 3, column 'q2': '7' is not 0"):
        read_logs([text(tmp_path, content, "m.txt")])
    with pytest.raises(InputError, match=r"row 9: 2 cells, not 3"):
        read_logs([text(tmp_path, "1,0,1\n" * 8 + "1,0\n", "m.txt")])


def test_other_texts_are_no_matrix(tmp_path):
    for content in ("hello, world\nthis, too\n", "1\n0\n", "\x00\x01,\x02\n\x03,\x04\n"):
        with pytest.raises(InputError, match="not a log of a known format"):
            read_logs([text(tmp_path, content, "m.txt")])


def test_missing_cells_of_a_matrix(tmp_path):
    found = read_logs([text(tmp_path, "model,q1,q2,q3\na,1,NA,0\nb,1,1,1\n")])
    first = found.logs[0].predictions.correct
    assert first[0] == 1
    assert math.isnan(first[1])
    assert flags(found.logs[0])["unscored"].startswith("1 row")
