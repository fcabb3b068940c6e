"""Questions that hang together: found in the items, kept in the table, respected by the tests."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.items import Benchmark, Item, item_groups
from harmony_utils.null import grouped_accuracies, grouped_null_draws, stratified_null_draws
from harmony_utils.predictions import Predictions
from harmony_utils.reading import harmony_reading
from harmony_utils.recluster import reclustered_interval
from harmony_utils.runs import recorded_folder
from harmony_utils.settings import stage_settings
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import open_audit

LABELS = np.repeat(range(4), [100, 80, 60, 60])
PASSAGES = np.repeat(range(60), 5)


def item(name, question="Is it so?", **options):
    return Item(name, question, ("yes", "no"), 0, **options)


def clustered(seed):
    """Answers that agree within a passage and know nothing of the subdomains."""
    rng = np.random.default_rng(seed)
    return (rng.random(300) < rng.beta(1, 1, 60)[PASSAGES]).astype(float)


def test_groups_are_given_or_found_in_passage_and_long_question():
    long = "Anna was a much better surgeon than Maria so"
    found = item_groups(
        [
            item("a", passage="P"),
            item("b", "Why?", passage="P"),
            item("c", long),
            Item("d", long, ("x", "y"), 0),
            item("e", "Which is true?"),
            Item("f", "Which is true?", ("x", "y"), 0),
            item("g", "Sure?", group="mine"),
            item("h", "Really?", group="mine"),
            item("i", "Alone?", group="other"),
        ]
    )
    assert found[0] == found[1] is not None
    assert found[2] == found[3] is not None
    assert found[4:6] == [None, None]
    assert found[6:] == ["mine", "mine", None]
    assert len({found[0], found[2]}) == 2


def test_copies_are_one_group_however_short():
    one, other = item_groups([item("a"), Item("b", "Is it so?", ("no", "yes"), 1)])
    assert one == other is not None


def test_a_group_changes_neither_key_nor_fingerprint():
    plain, named = (Benchmark("b", (item("a", group=g), item("b", "No?"))) for g in (None, "g"))
    assert plain.fingerprint() == named.fingerprint()
    assert plain.keys() == named.keys()
    recorded = json.loads(
        (recorded_folder() / "arc_easy" / "smollm2-135m" / "run.json").read_text(encoding="utf-8")
    )["audit"]["benchmark"]
    assert load_benchmark("arc_easy").fingerprint() == recorded["fingerprint"]
    assert not any(load_benchmark("arc_easy").groups())


def test_passages_of_boolq_are_groups():
    groups = load_benchmark("boolq").groups()
    passages = [i.passage for i in load_benchmark("boolq").items]
    shared = pd.Series(passages).duplicated(keep=False)
    assert (pd.Series(groups).notna() == shared).all()
    assert 0 < shared.sum() < len(groups)


def test_a_file_may_name_groups(tmp_path):
    path = tmp_path / "quiz.jsonl"
    row = {"question": "2 + 2 =", "options": ["3", "4"], "gold": "4"}
    rows = [{**row, "question": f"{i} + 2 =", "group": i // 2} for i in range(3)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert load_benchmark(str(path)).groups() == ["0", "0", None]


def test_tables_without_the_column_have_no_groups(tmp_path):
    path = recorded_folder() / "arc_easy" / "smollm2-135m" / "predictions.parquet"
    predictions = Predictions.load(path)
    assert predictions.table["group"].isna().all()
    lacking = Predictions(predictions.table.drop(columns="group"), predictions.meta)
    again = Predictions.load(lacking.save(tmp_path / "p.parquet"))
    pd.testing.assert_frame_equal(again.table, predictions.table)


def test_shuffles_keep_groups_together_and_sizes():
    scores, members = np.array([1.0, 1, 1, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 2, 2, 3])
    codes = np.array([0, 0, 1, 1, 2, 2, 2])
    found = grouped_accuracies(
        scores, codes, members, n_draws=300, rng=np.random.default_rng(0)
    ) * [2, 2, 3]
    assert (found.sum(axis=1) == 4).all()
    # group 3 has no partner and stays; the pairs 2, 1 and 0 right deal themselves over 3 places
    assert {tuple(row) for row in (found - [0, 0, 1]).round().astype(int).tolist()} == {
        (2, 1, 0), (2, 0, 1), (1, 2, 0), (1, 0, 2), (0, 1, 2), (0, 2, 1)
    }  # fmt: skip


def test_only_groups_bring_false_alarms_back_to_their_level():
    apart, tied = [], []
    for seed in range(120):
        options = {"n_null": 200, "n_bootstrap": 100}
        apart.append(harmony(clustered(seed), LABELS, **options).p_value <= 0.05)
        tied.append(harmony(clustered(seed), LABELS, groups=PASSAGES, **options).p_value <= 0.05)
    assert np.mean(apart) > 0.15
    assert np.mean(tied) < 0.11


def test_groups_are_counted_in_verdict_power_and_json():
    correct = clustered(0)
    apart, tied = harmony(correct, LABELS), harmony(correct, LABELS, groups=PASSAGES)
    assert (apart.n_groups, tied.n_groups) == (None, 60)
    assert tied.intervals.design_effect > 1.5
    assert tied.power < apart.power
    assert tied.items_needed > apart.items_needed
    assert "300 questions (60 groups)" in harmony_reading(tied)
    assert "groups" not in harmony_reading(apart)
    assert tied.to_dict()["n_groups"] == 60
    alone = harmony(correct, LABELS, groups=np.arange(300))
    np.testing.assert_array_equal(alone.null, apart.null)


def test_strata_and_groups_go_together():
    correct, difficulty = clustered(0), np.zeros(300)
    plain = grouped_null_draws(correct, LABELS, PASSAGES, n_null=200)
    one = stratified_null_draws(correct, LABELS, difficulty, groups=PASSAGES, n_null=200)
    np.testing.assert_array_equal(plain, one)
    by_passage = np.bincount(PASSAGES, weights=correct)[PASSAGES]
    fixed = stratified_null_draws(
        correct, LABELS, by_passage, n_strata=60, groups=PASSAGES, n_null=200
    )
    assert np.ptp(fixed) < np.ptp(plain)


def test_an_audit_takes_its_groups_from_the_questions(tiny_model, tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"id": f"q{i}", "question": f"What is {i} plus {i % 4}?", "group": f"g{i // 2}",
         "options": [str(i + j) for j in range(4)], "gold": i % 4}
        for i in range(20)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    audit = open_audit(model=str(tiny_model), benchmark=str(path), run_dir=str(tmp_path / "runs"))
    result = audit.harmony()
    assert result.n_groups == 10
    assert audit.predictions().table["group"].tolist() == [f"g{i // 2}" for i in range(20)]
    assert audit.reclustered() is None
    assert result.count == "20 questions (10 groups)"


def test_halves_clustered_anew_find_planted_blocks_and_follow_the_seed():
    blocks = np.kron(np.eye(3), np.full((40, 40), 0.5)) + 0.3
    correct = np.concatenate([np.arange(40) < right for right in (36, 24, 12)]).astype(float)
    options = {"n_resamples": 25, "n_init": 2, "max_clusters": 5}
    found = reclustered_interval(blocks, correct, **options)
    assert (found["k_lo"], found["k_hi"]) == (3, 3)
    assert found["lo"] <= found["median"] <= found["hi"]
    assert found == reclustered_interval(blocks, correct, **options)
    assert found != reclustered_interval(blocks, correct, random_state=1, **options)
    pairs = reclustered_interval(blocks, correct, groups=np.repeat(range(60), 2), **options)
    assert (pairs["k_lo"], pairs["k_hi"]) == (3, 3)
    for wrong in ({"correct": correct[:5]}, {"correct": correct, "groups": np.zeros(120)}):
        with pytest.raises(InputError, match=r"one per item|at least six"):
            reclustered_interval(blocks, **wrong, n_resamples=25)


def test_too_few_halves_are_refused():
    assert stage_settings("harmony", recluster=20).recluster == 20
    with pytest.raises(InputError, match="at least 20 halves"):
        stage_settings("harmony", recluster=5)
