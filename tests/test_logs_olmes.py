"""OLMES and olmo-eval predictions, written by code as the tools' source has them."""

from __future__ import annotations

import gzip
import json
import math

import pytest

from harmony_utils.errors import InputError
from harmony_utils.logs import read_logs

OPTIONS = [" red", " blue", " dark green"]


def output(total: float, text: str, *, tokens: int = 1, uncond: float | None = None) -> dict:
    found = {
        "sum_logits": total,
        "num_tokens": tokens,
        "num_tokens_all": tokens + 20,
        "is_greedy": False,
        "logits_per_token": total / tokens,
        "logits_per_char": total / len(text),
        "bits_per_byte": -total / (len(text.encode()) * math.log(2)),
        "num_chars": len(text),
    }
    return found if uncond is None else {**found, "sum_logits_uncond": uncond}


def row(number: int, totals: list[float], label, metrics: dict, *, uncond=None) -> dict:
    tokens = [1, 1, 2]
    return {
        "doc_id": number,
        "native_id": f"Q{number}",
        "metrics": metrics,
        "model_output": [
            output(total, text, tokens=n, uncond=uncond[i] if uncond else None)
            for i, (total, text, n) in enumerate(zip(totals, OPTIONS, tokens, strict=True))
        ],
        "label": label,
        "task_hash": "t",
        "model_hash": "m",
    }


def metrics(raw, token, char, byte, uncond=None, *, correct_choice) -> dict:
    return {
        "correct_choice": correct_choice,
        "acc_raw": raw,
        "acc_per_token": token,
        "acc_per_char": char,
        "acc_per_byte": byte,
        "acc_uncond": uncond,
        "no_answer": 0,
    }


ROWS = [
    # sum: 0; token: -2, -3, -1.5 -> 2; char: -.5, -.6, -.27 -> 2; pmi: 1, -1, 0 -> 0
    row(0, [-2, -3, -3], 2, metrics(0, 1, 1, 1, 0, correct_choice=2), uncond=[-3, -2, -3]),
    row(1, [-5, -1, -9], 1, metrics(1, 1, 1, 1, 1, correct_choice=1), uncond=[-5, -4, -9]),
]


def requests(count: int) -> list[dict]:
    return [
        {
            "request_type": "loglikelihood",
            "doc": {"id": f"Q{n}", "query": f"Question {n}?\nAnswer:", "choices": OPTIONS},
            "request": {"context": f"few shots\n\nQuestion {n}?\nAnswer:", "continuation": text},
            "idx": i,
            "task_name": "mmlu_anatomy:mc",
            "doc_id": n,
            "native_id": f"Q{n}",
            "label": 0,
        }
        for n in range(count)
        for i, text in reversed(list(enumerate(OPTIONS)))
    ]


def lines(path, rows: list[dict]):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def flags(log) -> dict[str, str]:
    return {flag.flag: flag.sentence for flag in log.flags}


def test_every_normalisation_is_reproduced(tmp_path):
    place = lines(tmp_path / "task-003-mmlu_anatomy-predictions.jsonl", ROWS)
    lines(tmp_path / "task-003-mmlu_anatomy-requests.jsonl", requests(2))
    about = {
        "task_name": "mmlu_anatomy:mc",
        "model_config": {"model": "org/olmo"},
        "task_config": {"num_shots": 5, "limit": None},
        "metrics": {"acc_raw": 0.5, "primary_score": 1.0},
    }
    (tmp_path / "task-003-mmlu_anatomy-metrics.json").write_text(json.dumps(about))
    (log,) = read_logs([str(place)]).logs
    assert log.reading.rules == {
        "acc_raw": "sum",
        "acc_per_token": "token",
        "acc_per_char": "char",
        "acc_per_byte": "byte",
        "acc_uncond": "pmi",
    }
    assert set(log.reading.agreement.values()) == {(2, 2)}
    assert (log.header.model, log.header.benchmark, log.header.subject) == (
        "org/olmo",
        "mmlu",
        "anatomy",
    )
    assert log.header.settings == {"few_shot": 5, "template": "mc", "limit": None}
    assert log.predictions.accuracy("sum") == 0.5
    assert log.predictions.accuracy("char") == 1.0
    assert log.predictions.table["characters"].iloc[0] == [4, 5, 11]
    assert log.predictions.table["bytes"].iloc[0] == [4, 5, 11]
    assert "no-requests-file" not in flags(log)
    found = read_logs([str(tmp_path)])  # the other files are no logs of their own
    assert (len(found.logs), len(found.skipped)) == (1, 2)


def test_without_requests_and_under_another_name(tmp_path):
    place = tmp_path / "x.bin"
    place.write_bytes(gzip.compress("\n".join(json.dumps(r) for r in ROWS).encode()))
    (log,) = read_logs([str(place)]).logs
    assert set(log.reading.agreement.values()) == {(2, 2)}  # lengths are in the rows
    assert log.predictions.table["native_id"].tolist() == ["Q0", "Q1"]
    assert "no-requests-file" in flags(log)


def test_placeholder_is_missing_not_a_number(tmp_path):
    rows = [json.loads(json.dumps(r)) for r in ROWS]
    rows[1]["model_output"][2]["sum_logits"] = -999
    (log,) = read_logs([str(lines(tmp_path / "a.jsonl", rows))]).logs
    assert log.predictions.table["loglik"].iloc[1][:2] == [-5, -1]
    assert math.isnan(log.predictions.table["loglik"].iloc[1][2] or math.nan)
    assert flags(log)["missing-loglikelihood"].startswith("1 log-likelihoods of 1 items")
    assert log.missing == 1


@pytest.mark.parametrize("label", ["blue", ["blue"]])
def test_label_that_is_no_number_is_not_the_first_option(tmp_path, label):
    # the tool took option 0 as correct and scored so
    wrong = row(1, [-5, -1, -9], label, metrics(0, 0, 0, 0, correct_choice=0))
    place = lines(tmp_path / "p-predictions.jsonl", [wrong])
    lines(tmp_path / "p-requests.jsonl", requests(2))
    (log,) = read_logs([str(place)]).logs
    assert log.reading.gold == [(1,)]
    assert log.predictions.correct.tolist() == [1.0]
    assert {"label-not-a-number", "not-checked"} <= set(flags(log))


def test_label_outside_the_options(tmp_path):
    rows = [*ROWS, row(2, [-1, -2, -3], 7, metrics(0, 0, 0, 0, correct_choice=7))]
    (log,) = read_logs([str(lines(tmp_path / "a.jsonl", rows))]).logs
    assert log.reading.agreement["acc_raw"] == (2, 2)
    assert flags(log)["gold-outside-range"].startswith("1 row")


def test_new_layout(tmp_path):
    def new(number: int, totals: list[float], label, acc: float, acc_char: float) -> dict:
        found = row(number, totals, label, {})
        del found["metrics"]
        found["instance_metrics"] = {"acc": {"lp": acc}, "acc_per_char": {"lp": acc_char}}
        return found

    rows = [new(0, [-2, -3, -3], 2, 0.0, 1.0), new(1, [-5, -1, -9], "blue", 1.0, 1.0)]
    for entry in rows:  # left out when not available
        del entry["model_output"][0]["is_greedy"]
    place = lines(tmp_path / "x-predictions.jsonl", rows)
    asked = [
        {
            "doc": {"question": f"Q{n}?"},
            "request": {"context": "c", "continuations": OPTIONS},
            "task_name": "arc_easy",
            "doc_id": n,
            "native_id": f"Q{n}",
        }
        for n in range(2)
    ]
    lines(tmp_path / "x-requests.jsonl", asked)
    (log,) = read_logs([str(place)]).logs
    assert log.header.version == "olmo-eval"
    assert log.predictions.accuracy("sum") == 0.5
    assert log.reading.agreement == {"acc/lp": (2, 2), "acc_per_char/lp": (2, 2)}
    assert log.reading.rules == {"acc/lp": "sum", "acc_per_char/lp": "char"}


def test_generated_answers_have_their_score_only(tmp_path):
    rows = [
        {
            "doc_id": n,
            "native_id": n,
            "metrics": {"exact_match": v},
            "model_output": [{"continuation": "42", "num_tokens": 1}],
            "label": "42",
        }
        for n, v in enumerate((1.0, 0.0, 1.0))
    ]
    (log,) = read_logs([str(lines(tmp_path / "g.jsonl", rows))]).logs
    assert log.predictions.correct.tolist() == [1, 0, 1]
    assert {"no-distribution", "no-gold"} <= set(flags(log))


def test_damaged_rows(tmp_path):
    text = json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1])[:-30] + "\n"
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(InputError, match="line 2: not valid JSON"):
        read_logs([str(tmp_path / "a.jsonl")])
    rows = [ROWS[0], {**ROWS[1], "model_output": 3}]
    with pytest.raises(InputError, match="row 2: not a row of OLMES"):
        read_logs([str(lines(tmp_path / "b.jsonl", rows))])
