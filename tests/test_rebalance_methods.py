"""Greedy and near-duplicate removal, intervals, weights, lists, and several benchmarks at once."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_utils import redundantqa
from harmony_utils.embedding import cosine_distance, tfidf_vectors
from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.metric import harmony_score
from harmony_utils.rebalance import (
    METHODS,
    balanced_accuracy,
    capped_sizes,
    compare_benchmarks,
    duplicate_order,
    export_items,
    greedy_sizes,
    holm,
    item_table,
    kept_items,
    ladder,
    prune_ladder,
    pruned_items,
    sizes,
)
from harmony_utils.sources import load_benchmark

LABELS = np.repeat([0, 1, 2, 3], [60, 20, 12, 8])
SHARES = (0.1, 0.3, 0.5)


def answers(accuracies=(0.8, 0.5, 0.5, 0.5), seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random(len(LABELS)) < np.asarray(accuracies)[LABELS]).astype(float)


def likeness(n_items=100, seed=0):
    values = np.random.default_rng(seed).random((n_items, n_items))
    return (values + values.T) / 2


@given(st.data())
def test_greedy_is_the_best_loss_each_time(data):
    k = data.draw(st.integers(2, 4))
    full = data.draw(st.lists(st.integers(1, 8), min_size=k, max_size=k))
    accuracies = data.draw(st.lists(st.floats(0, 1), min_size=k, max_size=k))
    n_left = data.draw(st.integers(k, sum(full)))
    kept = np.array(full)
    while kept.sum() > n_left:
        losses = [kept - (np.arange(k) == i) for i in range(k)]
        values = [harmony_score(loss, accuracies) if loss.min() > 0 else -1.0 for loss in losses]
        found = greedy_sizes(full, accuracies, [int(kept.sum()) - 1])[0]
        assert harmony_score(found, accuracies) >= max(values) - 1e-8
        kept = found
    assert greedy_sizes(full, accuracies, [n_left]).sum() == n_left


def test_greedy_with_equal_accuracies_is_capping():
    full = [30, 17, 9, 4]
    for n_left in (60, 41, 20, 4):
        found = greedy_sizes(full, [0.6] * 4, [n_left])[0]
        assert sorted(found) == sorted(capped_sizes(full, n_left))


def test_greedy_serves_many_cases_and_blocks(monkeypatch):
    cases = np.random.default_rng(0).random((5, 3))
    together = greedy_sizes([9, 7, 5], cases, [18, 10])
    alone = [greedy_sizes([9, 7, 5], case, [18, 10]) for case in cases]
    np.testing.assert_array_equal(together, np.stack(alone, axis=1))
    monkeypatch.setattr(sizes, "_CHUNK_ELEMENTS", 9)
    np.testing.assert_array_equal(together, greedy_sizes([9, 7, 5], cases, [18, 10]))
    monkeypatch.setattr(sizes, "GREEDY_STEPS", 5)
    blocks = greedy_sizes([9, 7, 5], cases, [18, 10, 3])
    assert (blocks.sum(axis=2) == np.array([18, 10, 3])[:, None]).all()
    assert blocks.min() == 1
    with pytest.raises(InputError, match="n_left 2"):
        greedy_sizes([9, 7, 5], [0.5] * 3, [2])


def test_greedy_p_values_are_uniform_when_labels_mean_nothing(monkeypatch):
    monkeypatch.setattr(ladder, "N_SHUFFLES", 300)
    rng = np.random.default_rng(0)
    p_values = []
    for seed in range(120):
        table = prune_ladder(
            rng.random(100) < 0.5, LABELS, shares=[0.3], n_random=20, n_bootstrap=100,
            random_state=seed,
        )  # fmt: skip
        p_values.append(table.query("method == 'greedy' and share > 0")["p_value"].item())
    # three standard errors around the uniform distribution's 10% and mean
    assert abs(np.mean(np.array(p_values) <= 0.1) - 0.1) < 0.083
    assert abs(np.mean(p_values) - 0.5) < 0.08


def test_duplicates_leave_in_the_order_of_likeness():
    alike = np.eye(6)
    for (one, other), value in {(0, 4): 0.9, (0, 5): 0.8, (1, 2): 0.7, (4, 5): 0.6}.items():
        alike[one, other] = alike[other, one] = value
    # of 0 and 4 the later leaves, then 5 (like 0), then 2 (like 1)
    assert duplicate_order(alike, [0, 0, 0, 1, 0, 0], n_items=3).tolist() == [4, 5, 2]
    # 4 is the last of its subdomain, so 0 leaves in its place, and 5 is like 4 then
    assert duplicate_order(alike, [0, 0, 0, 1, 2, 0], n_items=2).tolist() == [0, 2]
    with pytest.raises(InputError, match="at most 3"):
        duplicate_order(alike, [0, 0, 0, 1, 2, 0], n_items=4)
    for wrong in (None, np.eye(5)):
        with pytest.raises(InputError, match="one value per pair"):
            duplicate_order(wrong, [0] * 6, n_items=1)
    alike[0, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        duplicate_order(alike, [0] * 6, n_items=1)


def test_words_take_the_lookalikes_of_redundantqa_not_its_paraphrases():
    benchmark = load_benchmark("redundantqa")
    table = redundantqa.groups(benchmark)
    assert benchmark.groups() == table["group"].tolist()
    words = 1 - cosine_distance(tfidf_vectors([item.question for item in benchmark.items]))
    leaves = duplicate_order(words, table["domain"], n_items=128)
    roles = table["role"][leaves].value_counts()
    assert roles["lookalike"] >= 120
    assert "reference" not in roles
    stays = ~np.isin(np.arange(len(table)), leaves)
    assert table["group"][leaves].isin(table["group"][stays]).all()
    nearest = [np.flatnonzero(stays)[words[i][stays].argmax()] for i in leaves]
    same = table["group"].to_numpy()[nearest] == table["group"].to_numpy()[leaves]
    assert same.mean() > 0.95


def test_all_methods_share_one_ladder_with_intervals():
    correct = answers()
    table = prune_ladder(
        correct, LABELS, similarity=likeness(), shares=SHARES, n_random=40, n_bootstrap=400
    )
    assert table["method"].unique().tolist() == sorted(METHODS)
    assert table.groupby("method")["n_left"].apply(list).map(tuple).nunique() == 1
    for name in ("harmony", "accuracy"):
        assert (table[f"{name}_lo"] <= table[name] + 1e-12).all()
        assert (table[f"{name}_ci_lo"] <= table[f"{name}_ci_hi"]).all()
    assert (table["accuracy_ci_lo"] < table["accuracy"]).all()
    whole = table[table["share"] == 0]
    result = harmony(correct, LABELS, n_null=100)
    assert whole["accuracy_ci_hi"].to_numpy() == pytest.approx(result.intervals.accuracy[1])
    low, high = result.intervals.harmony
    assert whole["harmony_ci_lo"].to_numpy() == pytest.approx(low, abs=0.05)
    assert whole["harmony_ci_hi"].to_numpy() == pytest.approx(high, abs=0.05)
    widths = table["accuracy_ci_hi"] - table["accuracy_ci_lo"]
    assert (widths[table["share"] == 0.5].min() > widths[table["share"] == 0]).all()
    alike = table[table["method"] == "near-duplicate"]
    assert (alike["harmony_lo"] == alike["harmony_hi"]).all()
    assert alike["p_value"].notna().all()


def test_duplicates_that_are_all_right_move_the_mean_significantly():
    alike, correct = np.zeros((100, 100)), answers([0.5] * 4)
    twins = np.flatnonzero(LABELS == 0)[:40]
    correct[twins] = 1
    alike[np.ix_(twins, twins)] = 1
    table = prune_ladder(correct, LABELS, similarity=alike, shares=[0.3], n_random=20)
    row = table.query("method == 'near-duplicate' and share > 0").iloc[0]
    assert row["accuracy"] == pytest.approx((correct.sum() - 30) / 70)
    assert row["p_value"] < 0.01


def test_groups_make_p_values_larger_and_intervals_wider():
    correct, groups = np.repeat(answers()[::2], 2), np.repeat(range(50), 2)
    options = {"shares": [0.3], "n_random": 20, "n_bootstrap": 400}
    apart = prune_ladder(correct, LABELS, **options)
    tied = prune_ladder(correct, LABELS, groups=groups, **options)
    row = apart["share"].gt(0) & apart["method"].eq("cap")
    assert tied.loc[row, "p_value"].item() > apart.loc[row, "p_value"].item()
    width = [(t["accuracy_ci_hi"] - t["accuracy_ci_lo"])[row].item() for t in (apart, tied)]
    assert width[1] > 1.2 * width[0]


@pytest.mark.parametrize("method", METHODS)
def test_lists_nest_keep_every_subdomain_and_follow_the_seed(method):
    options = {"method": method, "correct": answers(), "similarity": likeness()}
    lists = [pruned_items(LABELS, share=share, **options) for share in SHARES]
    assert [kept.sum() for kept in lists] == [90, 70, 50]
    for larger, smaller in pairwise(lists):
        assert (larger >= smaller).all()
    assert set(LABELS[lists[-1]]) == {0, 1, 2, 3}
    other = pruned_items(LABELS, share=0.5, random_state=1, **options)
    assert (other == lists[-1]).all() == (method == "near-duplicate")


def test_greedy_lists_need_answers_and_unknown_methods_are_refused():
    for method in ("greedy", "luck"):
        with pytest.raises(InputError, match=f"method '{method}'"):
            pruned_items(LABELS, share=0.1, method=method)


def test_exported_lists_come_back(tmp_path):
    stays = {m: {s: pruned_items(LABELS, share=s, method=m) for s in SHARES}
             for m in ("cap", "random")}  # fmt: skip
    names = {"native_id": [f"q{i}" for i in range(100)], "key": [f"{i:016x}" for i in range(100)]}
    table = item_table(names, LABELS, stays)
    assert set(table["kept_at_cap"]) == {0, *SHARES}
    for method, share in (("cap", 0.3), ("random", 0.5)):
        found = kept_items(table, method, share)
        assert (found.index == np.flatnonzero(stays[method][share])).all()
    listed = pd.read_csv(export_items(table, tmp_path / "a.csv", method="cap", share=0.3))
    assert len(listed) == 70
    assert listed["weight"].sum() == pytest.approx(1)
    lines = export_items(table, tmp_path / "a.jsonl", method="weights").read_text().splitlines()
    rows = pd.DataFrame(map(json.loads, lines))
    correct = answers()
    assert rows["weight"] @ correct == pytest.approx(balanced_accuracy(correct, LABELS).accuracy)
    for options, message in (
        ({"method": "cap"}, "share"),
        ({"method": "cap", "share": 0.2}, "this list has 0.1, 0.3, 0.5"),
        ({"method": "greedy", "share": 0.1}, "this list has cap, random"),
    ):
        with pytest.raises(InputError, match=message):
            export_items(table, tmp_path / "b.csv", **options)
    with pytest.raises(InputError, match=r"\.csv or \.jsonl"):
        export_items(table, tmp_path / "b.txt", method="weights")


@pytest.mark.parametrize("accuracies", [(0.6, 0.5, 0.7, 0.4), (0.95, 0.9, 0.97, 0.9)])
def test_interval_of_the_balanced_mean_covers(accuracies):
    covered = []
    for seed in range(400):
        found = balanced_accuracy(answers(accuracies, seed), LABELS)
        covered.append(found.low <= np.mean(accuracies) <= found.high)
    assert np.mean(covered) > 0.91
    assert found.n_effective <= 16 / (1 / np.bincount(LABELS)).sum() + 1e-9


def test_balanced_limits():
    all_right = balanced_accuracy(np.ones(100), LABELS)
    assert (all_right.accuracy, all_right.high) == (1, 1)
    assert all_right.low < 0.95
    groups = np.repeat(range(50), 2)
    twice = np.repeat(answers()[::2], 2)
    tied = balanced_accuracy(twice, LABELS, groups=groups)
    assert tied.n_effective < balanced_accuracy(twice, LABELS).n_effective


def test_benchmarks_are_corrected_together():
    options = {"shares": [0.2, 0.4], "n_random": 20, "n_bootstrap": 100}
    ladders = {f"b{i}": prune_ladder(answers(seed=i), LABELS, **options) for i in range(3)}
    one = compare_benchmarks(ladders, share=0.2)
    assert one["benchmark"].tolist() == ["b0", "b1", "b2"] * 2
    assert (one["n_tests"] == 3).all()
    for _, rows in one.groupby("method"):
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"]))
    every = compare_benchmarks(ladders)
    assert (every["n_tests"] == 6).all()
    alone = compare_benchmarks({"b0": ladders["b0"]}, share=0.4)
    np.testing.assert_array_equal(alone["p_holm"], alone["p_value"])
    for wrong in ({}, ladders):
        with pytest.raises(InputError, match=r"share of 0\.3"):
            compare_benchmarks(wrong, share=0.3)
