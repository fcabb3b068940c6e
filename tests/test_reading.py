"""Verdicts and sentences: what they say in the cases that matter."""

import numpy as np
import pytest

from harmony_utils.harmony import harmony
from harmony_utils.reading import harmony_reading, rebalancing_reading, scaling_reading
from harmony_utils.rebalance import holm, prune_ladder, usable_shares
from harmony_utils.scaling import scaling_table, trend_table


def _items(sizes, rights):
    correct = np.concatenate([np.arange(n) < r for n, r in zip(sizes, rights, strict=True)])
    return correct.astype(float), np.repeat(range(len(sizes)), sizes)


@pytest.mark.parametrize(
    ("sizes", "rights", "verdict", "word"),
    [
        ((200, 200, 200), (100, 100, 100), "not distinguishable from even", "smaller differences"),
        ((200, 100, 50, 50), (180, 30, 25, 20), "uneven", "below that range"),
        ((90000, 40000), (45000, 19000), "uneven", "Uneven, but by little"),
        ((12, 12), (6, 6), "cannot tell", "chance of only"),
        ((100, 100), (90, 50), "cannot tell", "Blind spot"),
        ((40, 40), (80, 80), "cannot tell", "Every answer is right"),
        ((40, 40), (0, 0), "cannot tell", "Every answer is wrong"),
    ],
)
def test_verdicts_of_harmony(sizes, rights, verdict, word):
    result = harmony(*_items(sizes, rights), n_null=500)
    text = harmony_reading(result)
    assert result.verdict == verdict
    assert text.startswith(f"**{verdict[0].upper()}{verdict[1:]}.**")
    assert word in text
    assert "nan" not in text


def test_power_grows_with_questions_and_is_the_level_without_a_difference():
    few, many = (harmony(*_items((n, n), (n // 2, n // 2)), n_null=100) for n in (20, 200))
    assert 0.05 < few.power < 0.8 < many.power <= 1
    narrow = harmony(*_items((20, 20), (10, 10)), bandwidth=1e-6, n_null=100)
    assert narrow.power == pytest.approx(0.05, abs=1e-6)
    wide = harmony(*_items((20, 20), (10, 10)), bandwidth=1e6, n_null=100)
    assert wide.power > 0.99


def test_power_is_that_of_the_test_it_names():
    rng = np.random.default_rng(0)
    sizes, accuracies = np.array([100, 100]), np.array([0.6, 0.4])
    hits = rng.binomial(sizes, accuracies, size=(4000, 2)) / sizes
    mean = hits.mean(axis=1)
    statistic = (sizes * (hits - mean[:, None]) ** 2).sum(axis=1) / (mean * (1 - mean))
    measured = (statistic > 3.841).mean()
    result = harmony(*_items((100, 100), (60, 40)), bandwidth=0.1, n_null=100)
    assert result.power == pytest.approx(measured, abs=0.03)


def test_rebalancing_counts_tests_before_and_after_correction():
    pulled = prune_ladder(*_items((200, 20, 20), (180, 4, 4)), n_random=20)
    assert "at 6 of 6 shares taken alone, and at 6 after" in rebalancing_reading(pulled)
    flat = prune_ladder(*_items((40, 20, 20), (20, 10, 10)), n_random=20, shares=[0.2])
    text = rebalancing_reading(flat)
    assert "at 0 of 1 share taken alone" in text
    assert "no pull" in text


def test_scaling_says_why_it_cannot_tell():
    run = {"benchmark": "toy", "n_clusters": 4, "n_items": 100, "harmony": 0.9}
    runs = [dict(run, model=f"m{i}", parameters=10.0**i, accuracy=i / 10) for i in range(1, 6)]
    alone = scaling_reading(trend_table(scaling_table(runs[:1])))
    assert alone.splitlines()[0] == (
        "- Accuracy, unknown, 1 run: **cannot tell** (a trend needs at least three runs)."
    )
    several = scaling_reading(trend_table(scaling_table(runs))).splitlines()
    assert "**rising**; rank correlation +1.00" in several[0]
    assert "all values on one side are equal" in several[1]


def test_holm_is_between_the_raw_values_and_bonferroni():
    values = np.array([0.03, 0.001, 0.2, 0.02])
    adjusted = holm(values)
    np.testing.assert_allclose(adjusted, [0.06, 0.004, 0.2, 0.06])
    assert holm([]).size == 0


def test_usable_shares_leave_one_item_per_subdomain():
    labels = np.repeat(range(6), 2)
    assert usable_shares(labels, [0.1, 0.5, 0.6]) == (0.1, 0.5)
    assert usable_shares(labels, []) == ()
    with pytest.raises(ValueError, match=r"share 0\.6: removes 7 of 12 items"):
        usable_shares(labels, [0.6, 0.9])
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        usable_shares(labels, [0.1, 1.5])
