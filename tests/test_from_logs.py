"""Audits from logs: what divides the items, what is refused, what is written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_logs import command, log_row, write_log

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.files import read_json
from harmony_utils.logs import import_logs
from harmony_utils.predictions import Predictions
from harmony_utils.settings import parse_settings
from harmony_utils.stages.from_logs import (
    audit_logs,
    option_distributions,
    save_log_audit,
)

TOPICS = {
    "astronomy": "Which planet {} orbits the sun at distance {}?",
    "cooking": "How long must a {} dish stay in the oven at {} degrees?",
}
FAST = parse_settings(
    {
        "harmony": {"n_null": 200, "n_bootstrap": 100},
        "clustering": {"n_clusters": 2},
        "rebalancing": {"shares": [0.1], "n_random": 20},
    }
)


def topical(folder, *, subjects=True, n=30, model="a"):
    """Two topics; the model knows the first and fails in the second."""
    rows = []
    rng = np.random.default_rng(3)
    for number, (topic, text) in enumerate(TOPICS.items()):
        for i in range(n):
            right = rng.random() < (0.9, 0.3)[number]
            lls = rng.normal(-6, 0.5, 3)
            lls[i % 3 if right else (i + 1) % 3] += 4
            row = log_row(f"{topic}{i}", gold=i % 3, lls=lls.tolist())
            row["doc"] |= {"question": text.format(i, 7 * i)}
            if subjects:
                row["doc"]["subject"] = topic
            rows.append(row)
    return str(write_log(folder / model / "samples_t_2026-01-01T00-00-00.000000.jsonl", rows))


def test_subjects_are_the_default_where_there_are_some(tmp_path):
    found = import_logs([topical(tmp_path)], keep_texts=True)
    (audit,), refused = audit_logs(found, settings=FAST)
    assert not refused
    assert audit.used == "subjects"
    assert audit.partition.names == ("astronomy", "cooking")
    assert audit.result.blind_spot, "two subdomains of one size, one known and one not"
    about = audit.to_dict()
    assert about["partition"] == {"name": "subjects", "meaning": "the log's own subjects"}
    assert [row["name"] for row in about["comparison"]] == ["subjects", "embeddings"]
    assert "only made when asked for" in about["left_out"]["partition options"]


def test_questions_are_embedded_where_there_are_no_subjects(tmp_path):
    path = topical(tmp_path, subjects=False)
    (audit,), _ = audit_logs(import_logs([path], keep_texts=True), settings=FAST)
    assert audit.used == "embeddings"
    assert audit.labels["embeddings"].tolist() == [0] * 30 + [1] * 30
    assert audit.left_out["partition subjects"] == "the log names no subjects"


def test_option_probabilities_by_hand(tmp_path):
    rows = [log_row(0, gold=1, lls=(-1.0, -2.0, -4.0)), log_row(1, gold=0, lls=(-3.0, -1.0))]
    (log,) = import_logs([str(write_log(tmp_path / "s.jsonl", rows))]).logs
    found = option_distributions(log.predictions)
    weight = np.exp([-2.0, -1.0, -4.0])
    np.testing.assert_allclose(np.exp(found[0]), weight / weight.sum())
    np.testing.assert_allclose(np.exp(found[1, :2]), np.exp([-3, -1]) / np.exp([-3, -1]).sum())
    assert found[1, 2] == -np.inf


def test_the_option_partition_is_made_when_asked_for_and_warned_of(tmp_path):
    found = import_logs([topical(tmp_path)], keep_texts=True)
    (audit,), _ = audit_logs(found, partition="options", settings=FAST)
    assert audit.used == "options"
    assert any(
        "as topics" in warning or "not as topics" in warning
        for warning in audit.to_dict()["warnings"]
    )


def test_missing_options_give_no_distribution(tmp_path):
    rows = [log_row(i, gold=i % 3) for i in range(6)]
    rows[0]["filtered_resps"][2] = ["-inf", "False"]
    found = import_logs([str(write_log(tmp_path / "s.jsonl", rows))], keep_texts=True)
    with pytest.raises(RefusedError, match="1 options have no log-likelihood"):
        audit_logs(found, partition="options", settings=FAST)


def test_letters_only_refuse_the_partition_from_predictions(tmp_path, capsys):
    rows = []
    for i in range(40):
        row = log_row(i, gold=i % 3)
        row["arguments"] = {"gen_args_0": {"arg_0": "Q", "arg_1": {"until": ["\n"]}}}
        row |= {"filtered_resps": ["A"], "resps": [["A"]], "target": "ABC"[i % 3]}
        row |= {"metrics": ["exact_match"], "exact_match": float(i % 3 == 0)}
        row["doc"]["subject"] = "even" if i % 2 else "odd"
        del row["acc"], row["acc_norm"]
        rows.append(row)
    path = str(write_log(tmp_path / "s.jsonl", rows))
    (audit,), _ = audit_logs(import_logs([path], keep_texts=True), settings=FAST)
    assert audit.used == "subjects"
    assert audit.to_dict()["normalisation"] == "logged"
    assert command("audit", "--from-logs", path, "--partition", "options") == 3
    assert "no log-likelihoods; use subjects or embeddings" in capsys.readouterr().err


def test_unscored_items_are_left_out_and_counted(tmp_path):
    rows = [log_row(i, gold=i % 3) for i in range(12)]
    for i, row in enumerate(rows):
        row["doc"]["subject"] = "ab"[i % 2]
    rows[0] |= {"target": "9", "acc": 0.0, "acc_norm": 0.0}
    rows[0]["doc"].pop("label")
    found = import_logs([str(write_log(tmp_path / "s.jsonl", rows))], keep_texts=True)
    (audit,), _ = audit_logs(found, settings=FAST)
    assert audit.n_unscored == 1
    assert audit.result.n_items == 11


def test_a_run_that_cannot_be_divided_does_not_stop_the_others(tmp_path):
    good = topical(tmp_path)
    bad = write_log(tmp_path / "b" / "samples_u_2026-01-01T00-00-00.000000.jsonl", [log_row(0)])
    found = import_logs([good, str(bad)], keep_texts=True)
    audits, refused = audit_logs(found, settings=FAST)
    assert len(audits) == 1
    assert "1 scored items" in refused["b on u"]
    with pytest.raises(InputError, match="scored items"):
        audit_logs(import_logs([str(bad)], keep_texts=True), settings=FAST)


def test_what_is_written(tmp_path, capsys):
    path, out = topical(tmp_path), tmp_path / "out"
    arguments = ["-p", "harmony.n_null=200", "-p", "rebalancing.shares=0.1", "--json"]
    assert command("audit", "--from-logs", path, "--out", str(out), *arguments) == 0
    about = json.loads(capsys.readouterr().out)
    (audit,) = about["audits"]
    assert audit["blind_spot"] is True
    assert audit["averages"]["macro"] == pytest.approx(audit["averages"]["micro"])
    folder = out / "t" / "a"
    assert audit["run_dir"] == str(folder)
    kept = read_json(folder / "harmony.json")
    assert kept["partition"]["name"] == "subjects"
    assert kept["harmony"] == audit["harmony"]
    assert len(Predictions.load(folder / "predictions.parquet")) == 60
    assert read_json(folder / "run.json")["import"]["log"]["n_items"] == 60
    text = " ".join(p.read_text("utf-8") for p in folder.glob("*.json"))
    assert "Which planet" not in text, "no question is written"


def test_saving_twice_gives_the_same_files(tmp_path):
    (audit,), _ = audit_logs(import_logs([topical(tmp_path)], keep_texts=True), settings=FAST)
    first = {p.name: p.read_bytes() for p in save_log_audit(audit, root=tmp_path / "x").iterdir()}
    second = {p.name: p.read_bytes() for p in save_log_audit(audit, root=tmp_path / "y").iterdir()}
    assert first == second


def test_items_on_one_passage_hang_together_and_others_stand_alone(tmp_path):
    rows = [log_row(i, gold=i % 3) for i in range(12)]
    for i, row in enumerate(rows):
        row["doc"]["subject"] = "ab"[i % 2]
        if i < 4:
            row["doc"]["passage"] = "A text that four questions are about."
    found = import_logs([str(write_log(tmp_path / "s.jsonl", rows))], keep_texts=True)
    (audit,), _ = audit_logs(found, settings=FAST)
    assert audit.result.n_groups == 9
