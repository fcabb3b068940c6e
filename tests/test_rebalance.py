"""Pruning: exact sizes, no empty subdomain, and a significance that means what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony_score
from harmony_utils.rebalance import (
    balanced_mean,
    balanced_weights,
    capped_sizes,
    ladder,
    prune_ladder,
    pruned_items,
)

LABELS = np.repeat([0, 1, 2, 3], [60, 20, 12, 8])


def planted(accuracies, labels=LABELS):
    """Return correctness with exactly these accuracies, up to rounding."""
    rank = np.arange(len(labels)) - np.searchsorted(labels, labels)
    sizes = np.bincount(labels)
    return (rank < np.round(np.asarray(accuracies) * sizes)[labels]).astype(float)


@pytest.mark.parametrize(
    ("sizes", "n_left", "expected"),
    [
        ([10, 6, 3], 19, [10, 6, 3]),
        ([10, 6, 3], 15, [6, 6, 3]),
        ([10, 6, 3], 14, [6, 5, 3]),
        ([10, 6, 3], 9, [3, 3, 3]),
        ([10, 6, 3], 3, [1, 1, 1]),
        ([3, 10, 6], 14, [3, 6, 5]),
    ],
)
def test_capped_sizes(sizes, n_left, expected):
    assert capped_sizes(sizes, n_left).tolist() == expected


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8), st.data())
def test_capping_levels_the_largest_and_only_them(sizes, data):
    n_left = data.draw(st.integers(len(sizes), sum(sizes)))
    kept = capped_sizes(sizes, n_left)
    assert kept.sum() == n_left
    assert (kept >= 1).all()
    assert (kept <= sizes).all()
    lowered = kept < sizes
    if lowered.any():
        assert np.ptp(kept[lowered]) <= 1
        assert kept.max() <= kept[lowered].min() + 1


@pytest.mark.parametrize("n_left", [2, 20])
def test_capping_refuses_impossible_numbers(n_left):
    with pytest.raises(InputError, match=f"n_left {n_left}"):
        capped_sizes([10, 6, 3], n_left)


def test_ladder_sizes_are_exact_and_share_zero_is_the_whole():
    correct = planted([0.8, 0.5, 0.5, 0.5])
    table = prune_ladder(correct, LABELS, shares=[0.05, 0.125, 0.5], n_random=30)
    assert table["method"].tolist() == ["cap"] * 4 + ["greedy"] * 4 + ["random"] * 4
    assert table["n_removed"].tolist() == [0, 5, 13, 50] * 3
    assert (table["n_removed"] + table["n_left"] == 100).all()
    whole = table[table["share"] == 0]
    np.testing.assert_allclose(whole["accuracy_shift"], 0, atol=1e-12)
    expected = harmony_score([60, 20, 12, 8], np.bincount(LABELS, correct) / [60, 20, 12, 8])
    for column in ("harmony", "harmony_lo", "harmony_hi"):
        assert whole[column].to_numpy() == pytest.approx(expected)
    assert (table["harmony_lo"] <= table["harmony"] + 1e-12).all()
    assert (table["harmony"] <= table["harmony_hi"] + 1e-12).all()
    assert table.loc[table["method"] == "random", "p_value"].isna().all()


def test_capping_moves_accuracy_by_the_amount_worked_by_hand():
    correct = planted([0.8, 0.5, 0.5, 0.5])
    table = prune_ladder(correct, LABELS, shares=[0.4], n_random=400)
    row = table[(table["method"] == "cap") & (table["share"] == 0.4)].iloc[0]
    # 60, 20, 12, 8 become 20, 20, 12, 8: (16 + 10 + 6 + 4) / 60 against 68 / 100
    assert row["n_left"] == 60
    assert row["accuracy"] == pytest.approx(36 / 60, abs=0.01)
    assert row["accuracy_shift"] == pytest.approx(36 / 60 - 0.68, abs=0.01)
    assert row["p_value"] < 0.02
    control = table[(table["method"] == "random") & (table["share"] == 0.4)].iloc[0]
    assert control["accuracy"] == pytest.approx(0.68, abs=0.01)


def test_equal_sizes_leave_nothing_to_the_cap_but_chance():
    labels = np.repeat(range(4), 25)
    table = prune_ladder(planted([0.9, 0.7, 0.5, 0.3], labels), labels, shares=[0.2])
    row = table[(table["method"] == "cap") & (table["share"] == 0.2)].iloc[0]
    assert row["p_value"] > 0.9


def test_p_values_are_uniform_when_labels_mean_nothing(monkeypatch):
    monkeypatch.setattr(ladder, "N_SHUFFLES", 300)
    rng = np.random.default_rng(0)
    p_values = []
    for seed in range(150):
        correct = rng.random(100) < 0.5
        table = prune_ladder(
            correct, LABELS, shares=[0.3], n_random=20, n_bootstrap=100, random_state=seed
        )
        p_values.append(table.loc[1, "p_value"])
    assert 0.01 < np.mean(np.array(p_values) <= 0.1) < 0.18
    assert abs(np.mean(p_values) - 0.5) < 0.08


def test_ladder_is_reproducible():
    correct = planted([0.8, 0.5, 0.5, 0.5])
    one, other = (prune_ladder(correct, LABELS, shares=[0.2], n_random=30) for _ in range(2))
    assert one.equals(other)


def test_single_item_subdomains_survive():
    labels = np.array([0] * 17 + [1, 2, 3])
    table = prune_ladder(np.tile([1, 0], 10), labels, shares=[0.5, 0.8], n_random=30)
    assert table["n_left"].tolist() == [20, 10, 4] * 3


@pytest.mark.parametrize("share", [0.97, 1.0, -0.1, float("nan")])
def test_refuses_shares(share):
    for call in (
        lambda: prune_ladder(planted([0.5] * 4), LABELS, shares=[share]),
        lambda: pruned_items(LABELS, share=share),
    ):
        with pytest.raises(InputError, match="share"):
            call()


@given(st.lists(st.integers(0, 3), min_size=8, max_size=60), st.floats(0, 0.5))
def test_pruned_items_keep_the_capped_sizes(labels, share):
    labels = [0, 1, *labels]
    sizes = np.unique(labels, return_counts=True)[1]
    kept = pruned_items(labels, share=share)
    n_left = len(labels) - int(np.floor(share * len(labels) + 0.5))
    found = np.unique(np.array(labels)[kept], return_counts=True)[1]
    assert found.tolist() == capped_sizes(sizes, n_left).tolist()


def test_pruned_items_follow_the_seed_and_larger_shares_remove_more():
    assert (pruned_items(LABELS, share=0.3) == pruned_items(LABELS, share=0.3)).all()
    assert (
        pruned_items(LABELS, share=0.3) != pruned_items(LABELS, share=0.3, random_state=1)
    ).any()
    assert (pruned_items(LABELS, share=0.3) >= pruned_items(LABELS, share=0.5)).all()


def test_balanced_weights_count_subdomains_alike():
    weights = balanced_weights(LABELS)
    np.testing.assert_allclose(np.bincount(LABELS, weights), 0.25)
    assert balanced_mean(planted([0.8, 0.5, 0.5, 0.5]), LABELS) == pytest.approx(2.3 / 4)
    with pytest.raises(InputError, match="at least two"):
        balanced_weights([1, 1])
