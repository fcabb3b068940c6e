"""``harmony difficulty``: sources of answers, purposes, files and errors."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT, harmony_command

from harmony_utils.cli import main
from harmony_utils.difficulty import (
    Purpose,
    audit_difficulty,
    effective_size,
    load_purpose,
    load_responses,
    purpose_scores,
    purpose_weights,
    responses_from_matrix,
    simulate_panel,
)
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.logs.export import export_runs

RECORDED = PROJECT / "results" / "recorded" / "arc_easy"


def long_table(panel, subjects=True):
    responses = panel.responses
    rows = []
    for i, model in enumerate(responses.models):
        for j, item in enumerate(responses.items):
            if not np.isnan(responses.values[i, j]):
                row = {"model": model, "item": item, "correct": int(responses.values[i, j])}
                rows.append({**row, "subject": responses.subjects[j]} if subjects else row)
    return pd.DataFrame(rows)


PANEL = simulate_panel(
    10, 60, missing=0.1, wrong_keys=0.05, subjects=["algebra", "law"] * 30, random_state=1
)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_a_long_table_is_read_in_every_format(tmp_path, ending):
    table, path = long_table(PANEL), tmp_path / f"answers.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    found = load_responses([path])
    order = [found.items.index(name) for name in PANEL.responses.items]
    np.testing.assert_array_equal(found.values[:, order], PANEL.responses.values)
    assert found.subjects[order[0]] == "algebra"


def test_words_and_empty_cells_are_read(tmp_path):
    path = tmp_path / "answers.csv"
    lines = ["model,item,correct", "a,1,True", "a,2,", "b,1,false", "b,2,0.5", "c,1,1", "c,2,0"]
    path.write_text("\n".join(lines) + "\n")
    found = load_responses([path])
    np.testing.assert_array_equal(found.values, [[1, np.nan], [0, 0.5], [1, 0]])
    with pytest.raises(InputError, match="1 items"):
        load_responses([path], common=False).select(items=[0])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["model,item,right", "a,1,1"], "model, item and correct are needed"),
        (["model,item,correct", "a,1,1", "a,1,0"], "more than once"),
        (["model,item,correct", "a,1,maybe"], "correct is 'maybe'"),
        (["model,item,correct", "a,1,1", "b,1,0"], "at least 3"),
        (["model,item,correct", "a,1,1", "a,2,1", "b,1,0", "c,1,2"], "between 0 and 1"),
        (["model,item,correct"], "no rows"),
        (["model,item,correct", "a,1,1", "a,2,0", "b,1,1", "b,2,0", "c,1,"], "c has no answers"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(tmp_path, lines, message):
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=message) as caught:
        load_responses([path])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("model;item;correct", "separated by ';'; write commas"),
        ("Model,Item,Correct", "small letters"),
        ("model,q1,q2,q3,q4", "a row for each model and item"),
        ("model,id,acc", "rename what you have"),
    ],
)
def test_a_table_of_another_form_is_told_what_to_do(tmp_path, header, message):
    path = tmp_path / "answers.csv"
    path.write_text(header + "\n")
    with pytest.raises(InputError, match=message):
        load_responses([path])


@pytest.mark.parametrize(("row", "name"), [(",q1,1", "model"), ("m1,,1", "item")])
def test_an_empty_name_is_no_model_and_no_item(tmp_path, row, name):
    path = tmp_path / "answers.csv"
    path.write_text(f"model,item,correct\nm0,q0,1\n{row}\n")
    with pytest.raises(InputError, match=f"answer 2 of 2: the {name} is empty"):
        load_responses([path])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_export_writes_counts_like_the_runs(tmp_path, ending):
    path = tmp_path / f"answers.{ending}"
    export_runs([RECORDED], path)
    exported, runs = load_responses([path]), load_responses([RECORDED])
    assert sorted(exported.models) == sorted(runs.models)
    models = [exported.models.index(name) for name in runs.models]
    items = [exported.items.index(name) for name in runs.items]
    np.testing.assert_array_equal(exported.values[np.ix_(models, items)], runs.values)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target=-inf:inf"], "two finite numbers"),
        (["--seed=-1"], "greater than or equal to 0"),
        (["--checks=-1"], "greater than or equal to 0"),
        (["--draws=0"], "greater than or equal to 2"),
    ],
)
def test_options_outside_their_range_are_one_line(tmp_path, capsys, more, message):
    path = tmp_path / "answers.csv"
    long_table(PANEL).to_csv(path, index=False)
    with pytest.raises(SystemExit) as done:
        main(["difficulty", str(path), f"--out={tmp_path / 'd'}", *more])
    assert done.value.code == 2
    assert message in capsys.readouterr().err


def test_models_with_the_same_answers_cannot_be_told_apart(tmp_path):
    with pytest.raises(InputError, match="3 models cannot be told apart"):
        audit_difficulty(responses_from_matrix(np.ones((3, 12)), models=list("abc")), n_draws=2)


def test_recorded_runs_are_joined_by_content():
    found = load_responses([RECORDED])
    n_runs = len(list(RECORDED.glob("*/predictions.parquet")))
    assert found.shape[0] >= min(n_runs, 3)
    assert "smollm2-135m" in found.models
    assert not any("/" in item for item in found.items)
    row = found.values[found.models.index("smollm2-135m")]
    about = json.loads((RECORDED / "smollm2-135m" / "harmony.json").read_text())
    if not np.isnan(row).any():
        assert np.nanmean(row) == pytest.approx(about["accuracy"], abs=1e-9)
    assert "SmolLM2" in found.families


def test_the_command_gives_the_promised_files_and_keys(tmp_path):
    table = tmp_path / "answers.csv"
    long_table(PANEL).to_csv(table, index=False)
    purpose = tmp_path / "purpose.yaml"
    purpose.write_text(
        "kind: selection\nsubjects: {algebra: 0.7, law: 0.3}\nability_range: [-2, 2]\n"
    )
    done = harmony_command(
        "difficulty", table, "--purpose", purpose, "--out", tmp_path / "out", "--json",
        "--draws", "20",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"fit", "mismatch", "gaps", "purpose_score", "suspected_keys"} <= set(found)
    fit = found["fit"]
    assert (fit["model"], fit["n_models"], fit["n_items"]) == ("2pl", 10, 60)
    assert fit["converged"] is True
    items, models = pd.read_csv(fit["items_file"]), pd.read_csv(fit["models_file"])
    wanted = ["item", "difficulty", "difficulty_se", "discrimination", "discrimination_se"]
    assert set(wanted) <= set(items.columns)
    assert {"model", "ability", "ability_se"} <= set(models.columns)
    assert len(items) == 60
    assert found["mismatch"]["target"] == "purpose"
    scores = {row["model"]: row for row in found["purpose_score"]["models"]}
    row = PANEL.responses.values[0]
    algebra, law = np.nanmean(row[::2]), np.nanmean(row[1::2])
    by_hand = 0.7 * algebra + 0.3 * law
    assert scores["model-1"]["purpose"] == pytest.approx(by_hand, abs=0.02)
    assert "missing-cells" in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("kind: selection\nsubjects: {algebra: 0.7, law: 0.2}\n", 2, "sum to 0.9"),
        ("kind: selection\nsubjects: {algebra: 0.7, physics: 0.3}\n", 2, "unknown subject 'phys"),
        ("kind: fun\nsubjects: {algebra: 1}\n", 2, "kind"),
        ("- 1\n", 2, "give `kind`"),
        ("kind: safety\ndifficulty: [{low: 4.5, high: 5.5, share: 1}]\n", 3, "4.5 to 5.5"),
    ],
)
def test_a_purpose_that_cannot_be_served_is_refused(tmp_path, capsys, text, code, message):
    table, purpose = tmp_path / "answers.csv", tmp_path / "purpose.yaml"
    long_table(PANEL).to_csv(table, index=False)
    purpose.write_text(text)
    arguments = ["difficulty", table, "--purpose", purpose, "--out", tmp_path / "o"]
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), "--draws", "20"])
    assert caught.value.code == code
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("harmony: ")]
    assert message in line


def test_purposes_from_json_and_their_own_checks(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"kind": "purchase", "subjects": {"law": 1}, "error_cost": {"law": 3}}')
    assert load_purpose(path).error_cost == {"law": 3}
    for wrong, message in [
        ({"difficulty": [{"low": 1, "high": 0, "share": 1}]}, "low must be below"),
        ({"difficulty": [{"low": 0, "high": 2, "share": 0.5}] * 2}, "overlap"),
        ({"error_cost": {"law": 2}}, "needs shares"),
        ({"ability_range": [1, -1]}, "first must be smaller"),
        ({"workload": 3}, "workload"),
    ]:
        path.write_text(json.dumps({"kind": "safety", **wrong}))
        with pytest.raises(InputError, match=message):
            load_purpose(path)


# weights and scores ----------------------------------------------------------------------------


def test_weights_by_hand():
    responses = responses_from_matrix(
        np.tile([1.0, 0.0, 1.0], (3, 20)), subjects=["u", "v", "v"] * 20
    )
    purpose = Purpose(kind="selection", subjects={"u": 0.5, "v": 0.5})
    weights = purpose_weights(purpose, responses)
    np.testing.assert_allclose(weights[:3], [0.5 / 20, 0.5 / 40, 0.5 / 40])
    assert effective_size(weights) == pytest.approx(1 / (20 * 0.025**2 + 40 * 0.0125**2))
    costly = Purpose(kind="safety", subjects={"u": 0.5, "v": 0.5}, error_cost={"u": 3})
    assert purpose_weights(costly, responses)[:60:3].sum() == pytest.approx(0.75)
    scores = purpose_scores(responses, weights, n_bootstrap=50)["models"]
    np.testing.assert_allclose(scores["purpose"], 0.5 * 1 + 0.5 * 0.5)
    np.testing.assert_allclose(scores["plain"], 2 / 3)


def test_two_tables_of_shares_are_raked():
    subjects = ["u"] * 60 + ["v"] * 60
    parts = (["x"] * 40 + ["y"] * 20) + (["x"] * 20 + ["y"] * 40)
    values = np.random.default_rng(0).integers(0, 2, (4, 120)).astype(float)
    responses = responses_from_matrix(values, subjects=subjects, groups={"subdomain": parts})
    purpose = Purpose(
        kind="training", subjects={"u": 0.3, "v": 0.7}, subdomains={"x": 0.6, "y": 0.4}
    )
    weights = purpose_weights(purpose, responses)
    assert weights[:60].sum() == pytest.approx(0.3, abs=1e-6)
    assert weights[np.array(parts) == "x"].sum() == pytest.approx(0.6, abs=1e-6)


def test_what_is_missing_is_named():
    responses = responses_from_matrix(
        np.random.default_rng(0).integers(0, 2, (4, 60)).astype(float),
        subjects=["u"] * 57 + ["v"] * 3,
    )
    with pytest.raises(RefusedError, match=r"subject v \(50% wanted, 3 items, 5 needed\)"):
        purpose_weights(Purpose(kind="selection", subjects={"u": 0.5, "v": 0.5}), responses)


def test_intervals_of_purpose_scores_cover():
    rng = np.random.default_rng(0)
    truth, covered = 0.8 * 0.9 + 0.2 * 0.4, []
    labels = ["u"] * 40 + ["v"] * 120
    purpose = Purpose(kind="selection", subjects={"u": 0.8, "v": 0.2})
    chance = np.where(np.array(labels) == "u", 0.9, 0.4)
    for seed in range(40):
        values = (rng.random((4, 160)) < chance).astype(float)
        responses = responses_from_matrix(values, subjects=labels)
        weights = purpose_weights(purpose, responses)
        table = purpose_scores(responses, weights, n_bootstrap=300, random_state=seed)["models"]
        covered.append(((table["purpose_low"] <= truth) & (truth <= table["purpose_high"])).mean())
    assert 0.9 < np.mean(covered) < 0.985


def test_rank_changes_come_from_answers_and_say_whether_they_hold():
    """One model is good in u, the other in v; a purpose that wants u turns them round."""
    rng = np.random.default_rng(1)
    labels = np.array(["u"] * 100 + ["v"] * 200)
    chances = [(0.9, 0.4), (0.5, 0.75), (0.2, 0.2)]
    values = [(rng.random(300) < np.where(labels == "u", u, v)).astype(float) for u, v in chances]
    responses = responses_from_matrix(np.array(values), subjects=list(labels))
    weights = purpose_weights(Purpose(kind="purchase", subjects={"u": 0.9, "v": 0.1}), responses)
    (change,) = purpose_scores(responses, weights)["changes"]
    assert (change["ahead_plain"], change["ahead_purpose"]) == ("model-2", "model-1")
    assert change["supported"]
    # under one dimension, whatever the weights, hardly any change is supported
    panel = simulate_panel(6, 300, random_state=4, subjects=["u", "v", "w"] * 100)
    purpose = Purpose(kind="selection", subjects={"u": 0.8, "v": 0.1, "w": 0.1})
    found = purpose_scores(panel.responses, purpose_weights(purpose, panel.responses))
    assert sum(change["supported"] for change in found["changes"]) == 0
