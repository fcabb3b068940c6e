"""lighteval's details of every layout, and those of the Open LLM Leaderboard."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harmony_utils.errors import InputError
from harmony_utils.logs import read_logs
from harmony_utils.logs.cells import literal
from harmony_utils.logs.details import header_of, rules_of
from harmony_utils.logs.readers import leaderboard, lighteval
from harmony_utils.logs.sources import Source

LOGS = Path(__file__).parent / "data/logs/lighteval_0.13.0"

# Sums choose 0, 1, 0; divided by characters with the space 1, 1, 0, and without it 1, 1, 1.
CHOICES = [[" no", " certainly"], [" no", " certainly"], [" a", " bcdefg"]]
SUMS = [[-1.0, -2.0], [-3.0, -2.0], [-1.0, -5.0]]
GOLD = [0, 1, 1]
ACC, NORM = [1, 1, 0], [0, 1, 0]
BARE = [0, 1, 1]  # acc_norm without the leading space, with the last sums -1.0 and -5.0


def structs(*, gold=GOLD, task="mmlu:law|5", metric=None, response=None, specific=None):
    """Rows of version 0.11 and later."""
    rows = []
    for i in range(3):
        rows.append(
            {
                "doc": {
                    "query": f"Question {i}?\nAnswer:",
                    "choices": CHOICES[i],
                    "gold_index": gold[i],
                    "instruction": None,
                    "specific": specific,
                    "id": str(i),
                    "task_name": task,
                },
                "metric": {"acc": ACC[i], "acc_norm": NORM[i]} if metric is None else metric[i],
                "model_response": {
                    "logprobs": SUMS[i],
                    "output_tokens": [],
                    "unconditioned_logprobs": None,
                    "text": [],
                    "truncated_tokens_count": 2 * (i == 2),
                    **({} if response is None else response[i]),
                },
            }
        )
    return rows


def columns(i):
    """A row of versions 0.8 to 0.10."""
    return {
        "example": f"Question {i}?\nAnswer:",
        "instruction": "",
        "full_prompt": f"Example.\n\nQuestion {i}?\nAnswer:",
        "num_asked_few_shots": 5,
        "predictions": [[value, float(value == max(SUMS[i]))] for value in SUMS[i]],
        "input_tokens": [[1, 2]],
        "cont_tokens": [[5, -1], [6, 7]],
        "truncated": 0,
        "gold": None,
        "choices": CHOICES[i],
        "gold_index": [GOLD[i]],
        "metrics": {"acc": ACC[i], "acc_norm": NORM[i]},
        "specifics": None,
    }


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def one_log(path):
    logs = read_logs([str(path)]).logs
    assert len(logs) == 1
    return logs[0]


def flags(found):
    return {flag.flag for flag in found.flags}


def test_real_log():
    found = read_logs([str(LOGS)])
    assert [log.header.task for log in found.logs] == ["mygrp:anatomy", "mymc"]
    for log in found.logs:
        assert log.header.model == "org/dummy"
        assert log.reading.agreement == {"acc": (5, 5)}
        assert log.reading.rules == {"acc": "sum"}
        assert log.predictions.accuracy() == 0.2 == log.header.reported["acc"]
        assert log.header.settings["few_shot"] == 0
    assert found.logs[0].header.subject == "anatomy"
    assert found.logs[0].header.benchmark == "mygrp"
    assert [run.averages()["reported_rule"] for run in found.runs] == ["micro", "micro"]
    assert found.skipped == [str(LOGS / "results.json")]


def test_told_by_content_not_by_name(tmp_path):
    shutil.copy(LOGS / "details_mymc.parquet", tmp_path / "log.eval")
    found = one_log(tmp_path / "log.eval")
    assert found.reading.agreement == {"acc": (5, 5)}
    assert "no-results-file" in flags(found)


@pytest.mark.parametrize("gold", [GOLD, [[g] for g in GOLD]])
def test_structs(tmp_path, gold):
    found = one_log(write(tmp_path / "x.parquet", structs(gold=gold)))
    assert found.header.version == "0.11+"
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}
    assert found.reading.rules == {"acc": "sum", "acc_norm": "char"}
    assert (found.header.benchmark, found.header.subject) == ("mmlu", "law")
    assert found.header.settings["few_shot"] == 5
    table = found.predictions.table
    assert next(iter(table["characters"])) == [3, 10]  # with the leading space
    assert list(table["flags"])[2] == ["truncated"]
    assert found.predictions.accuracy() == 2 / 3


def test_length_without_the_leading_space(tmp_path):
    metric = [{"acc_norm": value} for value in BARE]
    found = one_log(write(tmp_path / "x.parquet", structs(metric=metric)))
    assert found.reading.rules == {"acc_norm": "char-stripped"}
    assert found.reading.agreement == {"acc_norm": (3, 3)}


def test_several_correct_options(tmp_path):
    metric = [{"acc": 1}, {"acc": 1}, {"acc": 0}]
    rows = structs(gold=[[0, 1], [1], [1]], metric=metric)
    found = one_log(write(tmp_path / "x.parquet", rows))
    assert next(iter(found.predictions.table["gold"])) == [0, 1]
    assert found.reading.agreement == {"acc": (3, 3)}


@pytest.mark.parametrize("doubled", [True, False])
def test_unconditional_scores_are_not_options(tmp_path, doubled):
    alone = [[-0.1, -4.0], [-0.1, -0.2], [-0.5, -9.0]]  # PMI chooses 1, 1, 1
    response = [
        {"logprobs": s + a} if doubled else {"unconditioned_logprobs": a}
        for s, a in zip(SUMS, alone, strict=True)
    ]
    metric = [{"acc": a, "acc_norm_pmi": p} for a, p in zip(ACC, [0, 1, 1], strict=True)]
    found = one_log(write(tmp_path / "x.parquet", structs(metric=metric, response=response)))
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm_pmi": (3, 3)}
    assert set(found.predictions.table["n_options"]) == {2}
    np.testing.assert_array_equal(found.predictions.correct_by("pmi"), [0, 1, 1])


def test_padding_is_not_counted(tmp_path):
    tokens = [[[4, -1, -1], [5, 6, 7]]] * 3
    # divided by 1 and 3 tokens the choices are 1, 1, 0; by the padded 3 and 3 they are the sums'
    metric = [{"acc_norm_token": value} for value in ACC]
    response = [{"output_tokens": t} for t in tokens]
    found = one_log(write(tmp_path / "x.parquet", structs(metric=metric, response=response)))
    assert next(iter(found.predictions.table["tokens"])) == [1, 3]
    assert found.reading.rules == {"acc_norm_token": "sum"}
    assert "padded-lengths" in flags(found)
    np.testing.assert_array_equal(found.predictions.correct_by("token"), [0, 1, 0])


def test_free_answers_have_only_their_score(tmp_path):
    response = [{"logprobs": None, "text": ["B"]}] * 3
    metric = [{"extractive_match": 1.0}, {"extractive_match": 0.0}, {"extractive_match": 0.0}]
    found = one_log(write(tmp_path / "x.parquet", structs(metric=metric, response=response)))
    assert found.predictions.accuracy() == pytest.approx(1 / 3)
    assert "no-distribution" in flags(found)


def test_missing_scores_and_broken_gold(tmp_path):
    response = [{"logprobs": [-1.0, None]}, {"logprobs": SUMS[1]}, {"logprobs": SUMS[2]}]
    rows = structs(gold=[0, 7, 1], response=response)
    found = one_log(write(tmp_path / "x.parquet", rows))
    assert flags(found) >= {"missing-loglikelihood", "gold-outside-range"}
    assert found.missing == 1
    assert list(found.predictions.table["gold"])[1] is None


def test_subject_of_the_item_where_the_task_has_none(tmp_path):
    rows = structs(task="leaderboard|quiz|0", specific={"subject": "law"})
    found = one_log(write(tmp_path / "x.parquet", rows))
    assert set(found.predictions.table["subject"]) == {"law"}
    assert (found.header.task, found.header.subject) == ("quiz", None)


@pytest.mark.parametrize("as_text", [False, True])
def test_columns(tmp_path, as_text):
    rows = [columns(i) for i in range(3)]
    version = "0.8-0.10"
    if as_text:
        version = "0.5-0.7"
        rows = [{name: str(value) for name, value in row.items()} for row in rows]
        rows[0]["predictions"] = "[(np.float64(-1.0), True), (np.float64(-2.0), False)]"
        rows[1]["predictions"] = "[(array(-3.), False), (-2.0, True)]"
        rows[2]["metrics"] = "{'acc': np.int64(0), 'acc_norm': 0, 'other': nan}"
    path = tmp_path / "details_lighteval|mmlu:law|5|0_2024-09-01T10-11-12.5.parquet"
    found = one_log(write(path, rows))
    assert found.header.version == version
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}
    assert (found.header.task, found.header.subject) == ("mmlu:law", "law")
    assert found.header.settings["few_shot"] == 5
    assert next(iter(found.predictions.table["tokens"])) == [1, 2]
    assert "padded-lengths" in flags(found)


def test_layouts_share_their_items(tmp_path):
    new = one_log(write(tmp_path / "new.parquet", structs()))
    old = one_log(write(tmp_path / "old.parquet", [columns(i) for i in range(3)]))
    assert list(new.predictions.table["key"]) == list(old.predictions.table["key"])


def test_flat_scores_without_flags(tmp_path):
    rows = [{**columns(i), "predictions": SUMS[i], "gold_index": GOLD[i]} for i in range(3)]
    rows = [{**row, "predictions": [str(v) for v in row["predictions"]]} for row in rows]
    found = one_log(write(tmp_path / "x.parquet", rows))
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}


def truthful(i, **more):
    """TruthfulQA: the options of mc1, then those of mc2."""
    return {
        **columns(i),
        "choices": ["true", "false", "true", "also true", "false"],
        "gold_index": [0, 2, 3],
        "predictions": [[-1.0 - i, -2.0, -0.5, -9.0, -9.0]][0],
        "cont_tokens": None,
        "metrics": {"mc1": int(-1.0 - i > -2.0), "mc2": 0.7},
        **more,
    }


@pytest.mark.parametrize("specifics", [None, {"len_mc1": 2}])
def test_truthfulqa_is_cut_to_its_first_part(tmp_path, specifics):
    rows = [truthful(i, specifics=specifics) for i in (0, 2)]
    found = one_log(write(tmp_path / "x.parquet", rows))
    assert found.reading.agreement == {"mc1": (2, 2)}
    assert set(found.predictions.table["n_options"]) == {2}
    np.testing.assert_array_equal(found.predictions.correct, [1, 0])


def early(i):
    """A row of the leaderboard's first details."""
    return {
        "example": f"id{i}",
        "query": f"Example.\n\nQuestion {i}?\nAnswer:",
        "choices": [choice.strip() for choice in CHOICES[i]],
        "predictions": SUMS[i],
        "gold": GOLD[i],
        "acc": float(ACC[i]),
        "acc_norm": float(BARE[i]),
        "hashes": {"example": f"h{i}"},
    }


@pytest.mark.parametrize("flattened", [False, True])
def test_first_leaderboard(tmp_path, flattened):
    rows = [early(i) for i in range(3)]
    if flattened:
        rows = [
            {("metrics." if n.startswith("acc") else "") + n: v for n, v in row.items()}
            for row in rows
        ]
    name = "details_harness|hendrycksTest-law|5_2023-07-18T10:11:12.123.parquet"
    path = write(tmp_path / "details_org__model" / name, rows)
    found = one_log(path)
    assert found.header.format == "open-llm-leaderboard"
    assert found.header.model == "org/model"
    assert (found.header.benchmark, found.header.subject) == ("hendrycksTest", "law")
    assert found.header.settings["few_shot"] == 5
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}
    assert found.predictions.table["native_id"].tolist() == ["id0", "id1", "id2"]


def test_last_details_of_the_first_leaderboard(tmp_path):
    rows = [columns(i) for i in range(3)]
    for row in rows:
        del row["specifics"]
    name = "details_harness|arc:challenge|25_2023-10-18T10-11-12.1.parquet"
    found = one_log(write(tmp_path / name, rows))
    assert found.header.version == "0.3 or Open LLM Leaderboard v1"
    assert found.reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}
    assert (found.header.benchmark, found.header.settings["few_shot"]) == ("arc:challenge", 25)


def test_rows_as_json_lines(tmp_path):
    path = tmp_path / "details.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in structs()))
    assert one_log(path).reading.agreement == {"acc": (3, 3), "acc_norm": (3, 3)}


def results(**more):
    return {
        "config_general": {"model_config": {"model_name": "org/other", "seed": 7}, **more},
        "results": {"leaderboard|mmlu:law|5": {"acc": 0.67, "acc_stderr": 0.1}},
        "config_tasks": {"leaderboard|mmlu:law": {"original_num_docs": 30, "version": 2}},
    }


@pytest.mark.parametrize("beside", [False, True])
def test_results_file_is_found_by_its_time(tmp_path, beside):
    stamp = "2024-09-01T10-11-12.5"
    name = f"details_leaderboard|mmlu:law|5_{stamp}.parquet"
    path = write(tmp_path / "details/org/model" / stamp / name, [columns(i) for i in range(3)])
    folder = path.parent if beside else tmp_path / "results/org/model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results_2025-01-01T00-00-00.0.json").write_text(json.dumps({"config_general": {}}))
    (folder / "results_2024-09-01T10:11:12.5.json").write_text(json.dumps(results(max_samples=3)))
    found = one_log(path)
    assert found.header.model == "org/other"
    assert found.header.reported == {"acc": 0.67}
    assert found.header.settings["limit"] == 3
    assert "no-results-file" not in flags(found)


def test_model_from_the_path(tmp_path):
    found = header_of("x", "", tmp_path / "details/org/m/2024-01-02T03-04-05/d.parquet", "a|0")
    assert found.model == "org/m"


def test_metrics_by_name():
    assert rules_of("acc:logprob_normalization=LogProbCharNorm()") == (
        "char",
        "char-stripped",
        "byte",
    )
    assert rules_of("acc_norm_token") == ("token", "sum")
    assert rules_of("truthfulqa_mc1") == ("sum",)
    assert rules_of("acc_stderr") == () == rules_of("mc2") == rules_of("f1")


@pytest.mark.parametrize("text", ["__import__('os')", "[1, 2", "1 - 2", "x", "[...]", "()[0]"])
def test_cells_run_nothing(text):
    with pytest.raises(ValueError, match="not the text of a value"):
        literal(text)


@pytest.mark.parametrize("keep", [0.2, 0.8])
def test_cut_off_file_says_so_in_one_line(tmp_path, keep):
    data = (LOGS / "details_mymc.parquet").read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(InputError, match="not a readable Parquet file") as caught:
        read_logs([str(cut)])
    assert "\n" not in str(caught.value)


def test_other_tables_are_not_details(tmp_path):
    path = write(tmp_path / "x.parquet", [{"predictions": [1.0], "other": 1}])
    assert lighteval.sniff(Source(path)) is None
    assert leaderboard.sniff(Source(path)) is None
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.Table.from_pylist(structs()).slice(0, 0), empty)
    with pytest.raises(InputError, match="no rows"):
        read_logs([str(empty)])


BBH = {"input": "not True is", "target": "(B)"}
GPQA = {
    "Question": "Which?",
    "Correct Answer": "two",
    **{f"choice{i + 1}": word for i, word in enumerate(["one", "two", "three", "four"])},
    "answer": "(B)",
}
MUSR = {
    "narrative": "Long ago.",
    "question": "Who?",
    "choices": "['Ann', \"Bob's son\"]",
    "answer_index": 1,
    "answer_choice": "Bob's son",
}


@pytest.mark.parametrize(
    ("task", "doc", "scored", "target", "options"),
    [
        ("bbh_boolean_expressions", BBH, ["(A)", "(B)"], "(B)", ["(A)", "(B)"]),
        ("gpqa_main", GPQA, [f"({x})" for x in "ABCD"], "(B)", ["one", "two", "three", "four"]),
        ("musr_murder_mysteries", MUSR, ["Ann", "Bob's son"], "Bob's son", ["Ann", "Bob's son"]),
    ],
)
def test_second_leaderboard_is_lm_eval(tmp_path, task, doc, scored, target, options):
    rows = []
    for i in range(3):
        logliks = [-float(j == (i + 1) % 2) for j in range(len(scored))]
        right = float(np.argmax(logliks) == 1)
        rows.append(
            {
                "doc_id": i,
                "doc": {**doc, "number": i},
                "target": target,
                "arguments": [[f"Question {i}?\nAnswer:", f" {text}"] for text in scored],
                "resps": [[[value, False]] for value in logliks],
                "filtered_resps": [[value, False] for value in logliks],
                "acc_norm": right,
            }
        )
    path = tmp_path / f"samples_leaderboard_{task}_2024-06-16T10-11-12.123456.json"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    found = one_log(path)
    assert found.header.task == f"leaderboard_{task}"
    assert found.header.benchmark == "leaderboard_" + task.split("_")[0]
    assert found.reading.agreement == {"acc_norm": (3, 3)}
    assert set(map(tuple, found.predictions.table["gold"])) == {(1,)}
    assert found.predictions.table["n_options"].tolist() == [len(options)] * 3
