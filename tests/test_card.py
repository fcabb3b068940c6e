"""The evaluation card: criteria at their bounds, calibration by hand, what is missing, refusals."""

from __future__ import annotations

import json
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import PROJECT

from harmony_utils.card import (
    MEASURES,
    calibration_error,
    card_markdown,
    items_to_tell,
    load_decision,
    make_card,
    paired_difference,
    save_card,
    verdict_of,
)
from harmony_utils.card.evidence import mean_interval, worst_of
from harmony_utils.card.outside import framing_evidence
from harmony_utils.card.tested import load_tested
from harmony_utils.cli import main
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.files import json_values, write_json
from harmony_utils.harmony import harmony
from harmony_utils.metric import wilson_interval
from harmony_utils.predictions import SCHEMA, Predictions
from harmony_utils.probabilities import brier_scores

RECORDED = PROJECT / "results" / "recorded"
GEMMA, SMOL = (RECORDED / "arc_easy" / name for name in ("gemma3-270m", "smollm2-135m"))
DECISION = {"decision": "Which model answers?", "kind": "selection", "workload": "sums"}


def answers(correct, *, margin=1.0, subjects=None, keys=None):
    """Return a table of items with two options whose first one is right."""
    n = len(correct)
    logs = [[-1.0, -1.0 - margin] if right else [-1.0 - margin, -1.0] for right in correct]
    columns = {
        "key": keys or [f"k{i}" for i in range(n)],
        "native_id": [f"q{i}" for i in range(n)],
        "subject": subjects or [None] * n,
        "n_options": [2] * n,
        "gold": [[0]] * n,
        "loglik": logs,
        "prediction": [0 if right else 1 for right in correct],
        "prediction_source": ["argmax"] * n,
        "correct": [float(right) for right in correct],
        "flags": [[]] * n,
    }
    return pd.DataFrame({name: columns.get(name, [None] * n) for name in SCHEMA.names})


def write_run(root, model, correct, *, benchmark="quiz", labels=None, settings=None, **options):
    """Write a finished run folder; return it."""
    folder = root / benchmark / model
    meta = {"model": {"name": model}, "benchmark": benchmark, "normalisation": "sum"}
    settings = {"few_shot": 0, "dtype": "float32", **(settings or {})}
    table = answers(correct, **options)
    Predictions(table, {**meta, "settings": settings}).save(folder / "predictions.parquet")
    step = {"settings": {**settings, "device": "cpu"}, "seconds": 5.0, "versions": {"python": "3"}}
    write_json(folder / "run.json", {"steps": {"predictions": step}})
    if labels is not None:
        pd.DataFrame({"key": table["key"], "label": labels}).to_parquet(
            folder / "partition.parquet"
        )
        found = harmony(np.array(correct, float), labels, n_null=100, n_bootstrap=100).to_dict()
        write_json(folder / "harmony.json", json_values(found))
    return folder


def write_decision(path, **values):
    path.write_text(yaml.safe_dump({**DECISION, **values}, sort_keys=False), encoding="utf-8")
    return path


def refused(arguments, code, capsys):
    with pytest.raises(SystemExit) as done:
        main(["card", *map(str, arguments)])
    assert done.value.code == code
    told = capsys.readouterr().err
    lines = [line for line in told.splitlines() if line.startswith("harmony: ")]
    assert len(lines) == 1, told
    assert told.endswith(lines[0] + "\n"), told
    return lines[0]


def only(card, measure, model=None):
    (found,) = [
        entry
        for entry in card.evidence
        if entry.measure == measure and model in (None, entry.model) and not entry.subject
    ]
    return found


# judging ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "bound", "verdict"),
    [
        (0.70, 0.80, 0.7, "met"),  # the worse end is the bound
        (0.71, 0.80, 0.7, "met"),
        (0.69, 0.80, 0.7, "cannot tell"),
        (0.60, 0.70, 0.7, "cannot tell"),  # the better end is the bound: it may still be kept
        (0.60, 0.69, 0.7, "not met"),
        (0.70, 0.70, 0.7, "met"),  # a value without an interval
        (0.1 + 0.2, 0.4, 0.3, "met"),  # rounding decides nothing
    ],
)
def test_bounds_are_inclusive_on_both_sides(low, high, bound, verdict):
    assert verdict_of(low, high, at_least=bound) == verdict
    assert verdict_of(-high, -low, at_most=-bound) == verdict


def test_how_many_questions_would_tell_is_that_of_the_normal_approximation():
    n = 100
    reach = 1.96 * math.sqrt(0.25 / n)  # half the width at an accuracy of one half
    needed = items_to_tell(0.5, 0.5 - reach, 0.5 + reach, n, bound=0.45)
    assert 1.96 * math.sqrt(0.25 / needed) <= 0.05 < 1.96 * math.sqrt(0.25 / (needed - 1))
    assert items_to_tell(0.5, 0.4, 0.6, n, bound=0.5) is None
    assert items_to_tell(0.5, 0.4, 0.8, n, bound=0.6) == 900  # the end on the bound's side counts


def test_the_conclusion_takes_all_criteria_and_one_failure_is_enough(tmp_path):
    runs = [write_run(tmp_path, "m", [1] * 60 + [0] * 40)]
    met = {"measure": "accuracy", "at_least": 0.4}
    broken = {"measure": "accuracy", "at_least": 0.9}
    unclear = {"measure": "accuracy", "at_least": 0.6}
    absent = {"measure": "harmony", "at_least": 0.9}
    for criteria, conclusion in [
        ([met], "supported"),
        ([met, unclear], "open"),
        ([met, absent], "open"),
        ([met, unclear, absent, broken], "not supported"),
        ([], "none"),
    ]:
        card = make_card(
            runs, decision=load_decision(write_decision(tmp_path / "d.yaml", criteria=criteria))
        )
        assert card.conclusion == conclusion
    assert "no conclusion" in card_markdown(card)


def test_a_criterion_without_a_model_is_about_all_but_the_baseline(tmp_path):
    runs = [write_run(tmp_path, name, [1, 0] * 20) for name in ("a", "b", "old")]
    criteria = [
        {"measure": "accuracy", "at_least": 0.1},
        {"measure": "accuracy", "at_least": 0.1, "model": "old"},
    ]
    path = write_decision(tmp_path / "d.yaml", criteria=criteria, baseline="old")
    card = make_card(runs, decision=path)
    assert [j.evidence.model for j in card.judgements] == ["a", "b", "old"]


def test_a_criterion_may_name_a_subject(tmp_path):
    right = [1] * 30 + [0] * 30
    run = write_run(tmp_path, "m", right, subjects=["art"] * 30 + ["law"] * 30)
    criteria = [
        {"measure": "accuracy", "at_least": 0.8, "subject": name} for name in ("art", "law")
    ]
    card = make_card([run], decision=write_decision(tmp_path / "d.yaml", criteria=criteria))
    assert [j.verdict for j in card.judgements] == ["met", "not met"]
    low, _ = wilson_interval(np.array(1.0), np.array(30))
    assert card.judgements[0].evidence.low == pytest.approx(float(low))
    text = card_markdown(card)
    assert "accuracy in art" in text
    assert "accuracy at least 0.8, subject law" in text


# measures -----------------------------------------------------------------------------------


def test_calibration_error_by_hand():
    believed = np.array([0.6, 0.6, 0.9, 0.9])
    right = np.array([1, 0, 1, 1])
    found = calibration_error(believed, right, n_bins=2)
    assert found.value == pytest.approx((abs(0.6 - 0.5) + abs(0.9 - 1)) / 2)
    assert found.sizes == (2, 2)
    assert found.low <= found.value <= found.high
    one = calibration_error(believed, right, n_bins=1)
    assert one.value == pytest.approx(0)
    uneven = calibration_error(np.linspace(0.5, 1, 10), np.ones(10), n_bins=4)
    assert uneven.sizes == (3, 3, 2, 2)
    with pytest.raises(InputError, match="n_bins 0"):
        calibration_error(believed, right, n_bins=0)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.15])
def test_the_interval_of_the_calibration_error_holds_the_truth(shift):
    rng, hits = np.random.default_rng(0), 0
    for _ in range(300):
        believed = 0.25 + 0.75 * rng.beta(3, 2, 100)
        chance = believed - shift
        found = calibration_error(believed, (rng.random(100) < chance).astype(float))
        hits += found.low <= shift <= found.high
    assert hits >= 0.9 * 300


def test_brier_score_by_hand():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    scores = brier_scores(probabilities, [[0], [2], [0, 1]])
    np.testing.assert_allclose(scores, [0.09 + 0.04 + 0.01, 0.49 + 0.04 + 0.81, 0.0])


def test_measures_of_a_run_are_those_of_its_table(tmp_path):
    right = [1] * 30 + [0] * 10 + [1] * 5 + [0] * 15
    subjects = ["art"] * 40 + ["law"] * 20
    labels = np.repeat([0, 1], [40, 20])
    run = write_run(tmp_path, "m", right, subjects=subjects, labels=labels, margin=2.0)
    card = make_card([run])
    low, high = wilson_interval(np.array(35 / 60), np.array(60))
    found = only(card, "accuracy")
    assert (found.value, found.n) == (pytest.approx(35 / 60), 60)
    assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))
    assert only(card, "macro_accuracy").value == pytest.approx((0.75 + 0.25) / 2)
    worst = only(card, "worst_subject")
    assert worst.value == 0.25
    bonferroni = wilson_interval(np.array([0.75, 0.25]), np.array([40, 20]), confidence=0.975)
    assert worst.low == pytest.approx(float(bonferroni[0].min()))
    assert worst.high == pytest.approx(float(bonferroni[1].min()))
    assert "law (n=20)" in worst.detail
    assert only(card, "worst_subdomain").value == 0.25
    assert only(card, "harmony").low is not None
    sure = 1 / (1 + math.exp(-2))
    assert only(card, "brier").value == pytest.approx(
        35 / 60 * 2 * (1 - sure) ** 2 + 25 / 60 * 2 * sure**2
    )
    assert only(card, "calibration_error").value >= abs(sure - 35 / 60) - 1e-9
    assert only(card, "near_ties").value == 0
    assert only(card, "seconds_per_question").value == pytest.approx(5 / 60)
    assert only(card, "seconds_per_question").low is None
    assert set(MEASURES) == {entry.measure for entry in card.evidence}


def test_groups_that_hang_together_widen_intervals():
    scores = np.repeat([1.0, 0.0], 20)
    alone = mean_interval(scores, np.arange(40), 0.95)
    pairs = mean_interval(scores, np.repeat(np.arange(20), 2), 0.95)
    assert pairs["high"] - pairs["low"] > 1.3 * (alone["high"] - alone["low"])


def test_the_worst_of_many_equal_groups_is_not_below_the_truth():
    rng, hits = np.random.default_rng(0), 0
    codes = np.repeat(np.arange(20), 30)
    for _ in range(200):
        scores = (rng.random(600) < 0.6).astype(float)
        about = worst_of(scores, codes, np.arange(600), 0.95)[1]
        hits += about["low"] <= 0.6 <= about["high"]
    assert hits >= 0.93 * 200


def test_what_is_missing_is_never_nought_and_says_what_it_takes(tmp_path):
    card = make_card([write_run(tmp_path, "m", [1, 0, 1])])
    missing = {entry.measure: entry for entry in card.evidence if entry.value is None}
    assert set(missing) == {
        "macro_accuracy",
        "worst_subdomain",
        "worst_subject",
        "harmony",
        "mismatch",
        "largest_gap",
        "framing_loss",
    }
    assert missing["harmony"].command == "harmony audit --model m --benchmark quiz"
    assert "harmony difficulty" in missing["mismatch"].command
    text, found = card_markdown(card), card.to_dict()
    assert text.count("not measured") >= len(missing)
    assert {entry["measure"] for entry in found["not_measured"]} == set(missing)
    assert not {entry["measure"] for entry in found["evidence"]} & set(missing)


def test_written_answers_have_no_calibration():
    card = make_card([RECORDED / "nq_open--100" / "smollm2-135m"])
    for measure in ("calibration_error", "brier", "near_ties"):
        assert "written" in only(card, measure).missing
    assert only(card, "accuracy").n == 100
    assert "100 of 3,600 questions" in card_markdown(card)
    assert card.failures[0].left_out
    assert not card.failures[0].questions


def test_an_imported_log_without_likelihoods(tmp_path):
    folder = tmp_path / "quiz" / "m"
    table = answers([1, 0, 1, 1])
    table["loglik"], table["correct"] = None, [1.0, 0.0, 1.0, np.nan]
    meta = {"model": {"name": "m"}, "benchmark": "quiz", "normalisation": "logged", "log": {}}
    Predictions(table, meta).save(folder / "predictions.parquet")  # and no run.json
    card = make_card([folder])
    assert only(card, "accuracy").n == 3
    assert "no log-likelihoods" in only(card, "brier").missing
    assert "recorded no time" in only(card, "seconds_per_question").missing
    assert only(card, "harmony").command.startswith("harmony audit --from-logs")
    text = card_markdown(card)
    assert "1 answers were not scored" in text
    assert "versions not recorded" in text
    assert "log of another tool" in text


def test_runs_from_the_log_of_another_tool_have_calibration(tmp_path):
    from harmony_utils.logs import read_logs
    from harmony_utils.stages.from_logs import save_log_run

    for run in read_logs([str(RECORDED / "logs" / "gemma3-270m")]).runs:
        save_log_run(run, root=tmp_path)
    card = make_card([tmp_path])
    assert only(card, "brier").value > 0
    assert only(card, "worst_subject").value is not None
    assert only(card, "worst_subdomain").value is None


# decision, limits, changes ------------------------------------------------------------------


def test_every_deployed_difference_is_a_limit(tmp_path):
    run = write_run(tmp_path, "m", [1, 0], settings={"chat_template": False})
    deployed = {"few_shot": 0.0, "dtype": "bfloat16", "chat_template": True, "temperature": 0}
    card = make_card([run], decision=write_decision(tmp_path / "d.yaml", deployed=deployed))
    assert card.limits[:3] == [
        "dtype: deployed bfloat16, tested float32",
        "chat_template: deployed true, tested false",
        "temperature: deployed 0, not recorded for what was tested",
    ]
    assert not any("few_shot" in limit for limit in card.limits)


def test_models_tested_differently_are_named(tmp_path):
    runs = [
        write_run(tmp_path, "a", [1, 0]),
        write_run(tmp_path, "b", [1, 0], settings={"few_shot": 5}),
    ]
    assert "quiz: models were tested with different few_shot: a 0, b 5" in make_card(runs).limits


def test_changes_are_paired_by_the_content_of_the_question(tmp_path):
    old, new = [0] * 40 + [1] * 40, [1] * 40 + [0] * 40
    subjects = ["art"] * 40 + ["law"] * 40
    keys = [f"k{i}" for i in range(80)]
    turned = list(range(79, -1, -1))
    write_run(tmp_path, "old", old, subjects=subjects, keys=keys)
    write_run(
        tmp_path,
        "new",
        [new[i] for i in turned],
        subjects=[subjects[i] for i in turned],
        keys=[keys[i] for i in turned],
    )
    card = make_card([tmp_path], decision=write_decision(tmp_path / "d.yaml", baseline="old"))
    told = {change.name: (change.difference, change.verdict) for change in card.changes}
    assert told == {"": (0.0, "not told apart"), "art": (1.0, "better"), "law": (-1.0, "worse")}
    text = card_markdown(card)
    assert "What changed against old" in text
    assert "BETTER" in text


def test_only_shared_questions_are_compared(tmp_path):
    write_run(tmp_path, "old", [1, 0, 1], keys=["a", "b", "c"])
    write_run(tmp_path, "new", [0, 1], keys=["b", "z"])
    write_run(tmp_path, "far", [1, 0], keys=["x", "y"])
    card = make_card([tmp_path], decision=write_decision(tmp_path / "d.yaml", baseline="old"))
    assert [(c.model, c.n, c.difference) for c in card.changes] == [("new", 1, 0.0)]
    assert card.left_out == [
        "far on quiz: no question shared with old",
        "new on quiz: 1 of 3 questions shared",
    ]


def test_a_paired_difference_is_never_certain():
    mean, low, high = paired_difference(np.zeros(10))
    assert (mean, low < 0 < high) == (0.0, True)
    assert paired_difference(np.ones(2))[1] < 0
    assert paired_difference(np.ones(50))[1] > 0.8


def test_failures_are_ids_by_the_margin(tmp_path):
    run = write_run(tmp_path, "m", [1, 0, 0, 1])
    table = Predictions.load(run / "predictions.parquet")
    table.table.at[2, "loglik"] = [-9.0, -1.0]
    table.save(run / "predictions.parquet")
    (found,) = make_card([run]).failures
    assert [(q["id"], round(q["margin"], 6)) for q in found.questions] == [("q2", 8), ("q1", 1)]
    assert found.n_wrong == 2


# further evidence ---------------------------------------------------------------------------


def framing_file(path, model="m", benchmark="quiz"):
    row = {"model": model, "n_items": 100, "accuracy": 0.5, "rank": 1, "flipped": 0.1}
    changes = {
        "plain": (0, 0, 0),
        "letters": (-0.1, -0.15, -0.05),
        "reversed": (0.02, -0.03, 0.07),
    }
    names = ("change", "change_low", "change_high")
    rows = [
        {**row, "framing": name, **dict(zip(names, ends, strict=True))}
        for name, ends in changes.items()
    ]
    whole = {"benchmark": benchmark, "baseline": "plain", "n_items": 100, "models": rows, "new": 1}
    write_json(path, whole)
    return path


def test_loss_by_framing_allows_for_having_been_picked(tmp_path):
    run = write_run(tmp_path, "m", [1, 0])
    tested, _ = load_tested([run])
    (found,) = framing_evidence(framing_file(tmp_path / "framing.json"), tested)
    assert found.value == pytest.approx(0.1)
    widen = 2.2414 / 1.96  # two framings: 1.25 % on each side instead of 2.5 %
    assert found.low == pytest.approx(0.1 - 0.05 * widen, abs=1e-4)
    assert found.high == pytest.approx(0.1 + 0.05 * widen, abs=1e-4)
    assert "letters" in found.detail
    framing_file(tmp_path / "other.json", model="someone")
    with pytest.raises(InputError, match="which no run is"):
        framing_evidence(tmp_path / "other.json", tested)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not valid JSON"), ('{"benchmark": "quiz"}', "baseline: Field required"), ("", "JSON")],
)
def test_a_framing_file_that_is_none(tmp_path, text, message):
    tested, _ = load_tested([write_run(tmp_path, "m", [1, 0])])
    (tmp_path / "framing.json").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        framing_evidence(tmp_path / "framing.json", tested)
    assert "\n" not in str(caught.value)


def difficulty_folder(folder, verdict="gap", items=("q0", "q1")):
    gap = {"kind": "soft", "subject": "", "width": 1.5, "verdict": verdict, "sentence": "a gap"}
    mismatch = {"target": "pool", "distance": 0.8, "interval": [0.6, 1.0], "chance": 0.1}
    fit = {"n_models": 9, "n_items": 2, "converged": True}
    found = {"fit": fit, "mismatch": {**mismatch, "n_items": 2}, "gaps": [gap]}
    write_json(folder / "difficulty.json", found)
    pd.DataFrame({"item": items}).to_csv(folder / "items.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("verdict", "judged"), [("gap", "not met"), ("not resolvable", "cannot tell")]
)
def test_a_difficulty_audit_is_evidence_about_the_questions(tmp_path, verdict, judged):
    run = write_run(tmp_path / "runs", "m", [1, 0])
    criteria = [
        {"measure": "mismatch", "at_most": 1},
        {"measure": "largest_gap", "at_most": 1},
    ]
    card = make_card(
        [run],
        decision=write_decision(tmp_path / "d.yaml", criteria=criteria),
        difficulty=difficulty_folder(tmp_path / "difficulty", verdict),
    )
    assert [j.verdict for j in card.judgements] == ["met", judged]
    assert "About the questions" in card_markdown(card)
    with pytest.raises(InputError, match="none of the questions"):
        make_card([run], difficulty=difficulty_folder(tmp_path / "other", items=("x",)))


# refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"criteria": [{"measure": "acuracy", "at_least": 1}]}, "did you mean accuracy"),
        ({"criteria": [{"measure": "speed of light", "at_least": 1}]}, "there are accuracy, "),
        ({"criteria": [{"measure": "brier", "at_least": 0, "at_most": 1}]}, "one of at_least"),
        ({"criteria": [{"measure": "brier"}]}, "one of at_least and at_most"),
        ({"criteria": [{"measure": "brier", "atleast": 1}]}, "criteria.0.atleast: unknown"),
        ({"criteria": [{"measure": "brier", "at_most": float("nan")}]}, "is no number"),
        (
            {"criteria": [{"measure": "brier", "at_most": 1, "subject": "art"}]},
            "a subject goes with accuracy only",
        ),
        ({"criteria": [{"measure": "accuracy", "at_least": 1, "model": "M"}]}, "unknown model 'M'"),
        ({"criteria": [{"measure": "accuracy", "at_least": 1, "benchmark": "x"}]}, "tested: quiz"),
        ({"criteria": [{"measure": "accuracy", "at_least": 1, "subject": "x"}]}, "tested: none"),
        ({"criteria": [{"measure": "mismatch", "at_most": 1, "model": "m"}]}, "leave model"),
        ({"baseline": "other"}, "baseline: unknown model 'other'; tested: m"),
        ({"baseline": "m"}, "the only model"),
        ({"kind": "fun"}, "kind: Input should be"),
        ({"workload": " "}, "workload"),
        ({"deadline": "soon"}, "deadline: unknown; there are decision"),
    ],
)
def test_a_decision_that_cannot_be_used_is_one_line(tmp_path, capsys, values, message):
    run = write_run(tmp_path, "m", [1, 0])
    path = write_decision(tmp_path / "d.yaml", **values)
    told = refused([run, "--decision", path, "--out", tmp_path / "card.md"], 2, capsys)
    assert message in told
    assert not (tmp_path / "card.md").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decision: [a", "line 1: not readable"),
        ("- a\n- b\n", "give `decision`"),
        ("", "give `decision`"),
    ],
)
def test_a_decision_file_that_is_no_yaml(tmp_path, capsys, text, message):
    run = write_run(tmp_path, "m", [1, 0])
    (tmp_path / "d.yaml").write_text(text)
    assert message in refused([run, "--decision", tmp_path / "d.yaml"], 2, capsys)


def test_folders_that_hold_no_finished_run(tmp_path, capsys):
    begun = tmp_path / "quiz" / "begun"
    write_json(begun / "run.json", {})
    out = ["--out", tmp_path / "card.md"]
    assert "not finished" in refused([begun, *out], 2, capsys)
    assert "no run in or below" in refused([_made(tmp_path / "empty"), *out], 2, capsys)
    assert "no such folder" in refused([tmp_path / "nowhere", *out], 2, capsys)
    done = write_run(tmp_path, "m", [1, 0])
    shutil.copytree(done, tmp_path / "again" / "m")
    assert "both m on quiz; give one" in refused([tmp_path, *out], 2, capsys)
    shutil.rmtree(tmp_path / "again")
    card = make_card([tmp_path])  # one below a folder is named, not dropped
    assert card.unfinished == ["quiz/begun"]
    assert "quiz/begun: not measured, not finished" in card_markdown(card)


def _made(folder):
    folder.mkdir()
    return folder


def test_a_result_of_other_answers_is_refused(tmp_path):
    run = write_run(tmp_path, "m", [1, 0, 1, 0] * 5, labels=np.repeat([0, 1], 10))
    other = write_run(tmp_path, "n", [1, 1, 1, 0] * 5)
    shutil.copy(other / "predictions.parquet", run / "predictions.parquet")
    with pytest.raises(RefusedError, match="found on other answers"):
        load_tested([run])


def test_the_command_refuses_what_would_be_lost(tmp_path, capsys):
    run = write_run(tmp_path, "m", [1, 0])
    assert "ending in .md" in refused([run, "--out", tmp_path / "card.txt"], 2, capsys)
    assert "nothing to conclude" in refused([run, "--strict"], 2, capsys)
    decision = tmp_path / "card.json"
    decision.write_text(json.dumps(DECISION))
    told = refused([run, "--decision", decision, "--out", tmp_path / "card.md"], 2, capsys)
    assert "would replace" in told
    assert json.loads(decision.read_text()) == DECISION


# the command --------------------------------------------------------------------------------


def test_strict_is_3_unless_supported_and_the_card_is_written_all_the_same(tmp_path, capsys):
    run = write_run(tmp_path / "runs", "m", [1, 0] * 30)
    out = tmp_path / "card.md"
    for bound, code in ((0.1, 0), (0.5, 3), (0.99, 3)):
        criteria = [{"measure": "accuracy", "at_least": bound}]
        path = write_decision(tmp_path / "d.yaml", criteria=criteria)
        arguments = [run, "--decision", path, "--out", out, "--strict"]
        if code:
            assert "card: " in refused(arguments, code, capsys)
        else:
            with pytest.raises(SystemExit) as done:
                main(["card", *map(str, arguments)])
            assert done.value.code == 0
        assert f"accuracy at least {bound:g}" in out.read_text(encoding="utf-8")
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            main(["card", *map(str, arguments[:-1]), "--json"])
        assert done.value.code == 0
        assert (json.loads(capsys.readouterr().out)["conclusion"] == "supported") == (not code)


def test_the_same_files_give_the_same_bytes_in_any_order(tmp_path, capsys):
    path = write_decision(
        tmp_path / "d.yaml",
        criteria=[{"measure": "worst_subdomain", "at_least": 0.5, "why": "a | b\nc"}],
        baseline="smollm2-135m",
    )
    cards = []
    for number, folders in enumerate(([GEMMA, SMOL], [SMOL, GEMMA])):
        written = save_card(make_card(folders, decision=path), tmp_path / str(number) / "card.md")
        cards.append([file.read_bytes() for file in written])
    assert cards[0] == cards[1]
    text = cards[0][0].decode()
    assert str(PROJECT) not in text + cards[0][1].decode()
    assert str(tmp_path) not in text + cards[0][1].decode()
    assert "why: a | b c." in text
    assert "uneven; 95% of random deals give" in text
    assert {file.name for file in (tmp_path / "0").iterdir()} == {"card.md", "card.json"}
    widths = [line.count(" | ") for line in text.splitlines() if line.startswith("| gemma")]
    assert len(set(widths)) == 1


def test_the_how_to_page_has_a_decision_that_can_be_read_and_every_measure(tmp_path):
    page = (PROJECT / "book" / "howto_card.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "d.yaml").write_text(example, encoding="utf-8")
    assert load_decision(tmp_path / "d.yaml").baseline == "old-model"
    assert all(f"`{name}`" in page for name in MEASURES)


def test_a_sample_is_known_by_its_folder(tmp_path):
    run = write_run(tmp_path, "m", [1, 0, 1])
    sample = shutil.move(tmp_path / "quiz", tmp_path / "quiz--3")
    (tested,), _ = load_tested([sample])
    assert tested.sampled
    assert tested.command() == "harmony audit --model m --benchmark quiz --limit 3"
    assert "m on quiz: 3 questions, a sample, were asked" in make_card([sample]).limits
    assert not run.exists()


def test_a_local_model_has_no_path_in_its_name(tmp_path):
    run = write_run(tmp_path, "mine", [1, 0])
    found = Predictions.load(run / "predictions.parquet")
    found.meta["model"]["name"] = str(tmp_path / "models" / "mine")
    found.save(run / "predictions.parquet")
    (tested,), _ = load_tested([run])
    assert tested.model == "mine"
    assert tested.command() == "harmony audit --model FOLDER/mine --benchmark quiz"
    assert str(tmp_path) not in card_markdown(make_card([run])) + str(make_card([run]).to_dict())
    named = framing_file(tmp_path / "framing.json", model=str(tmp_path / "models" / "mine"))
    assert framing_evidence(named, [tested])[0].value == pytest.approx(0.1)


def test_answers_that_do_not_say_whose_they_are(tmp_path):
    Predictions(answers([1, 0]), {}).save(tmp_path / "predictions.parquet")
    with pytest.raises(InputError, match="does not say which model"):
        load_tested([tmp_path])


def test_without_a_decision_the_evidence_stands_alone(tmp_path):
    card = make_card([SMOL])
    text = card_markdown(card)
    assert "evidence alone" in text
    assert card.to_dict()["conclusion"] == "none"
    for section in (
        "Decision",
        "What was tested",
        "Evidence",
        "Acceptance criteria",
        "Observed failures",
        "Coverage, and what is not measured",
        "Limits",
        "Provenance",
    ):
        assert f"\n## {section}\n" in text
