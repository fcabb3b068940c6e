"""Intervals, bias and power: limits worked by hand, and a small calibration with known truth."""

from __future__ import annotations

import importlib.util
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.harmony import harmony, subdomain_table
from harmony_utils.metric import size_evenness
from harmony_utils.power import POWER, items_needed, largest_spread, spread_power
from harmony_utils.reading import (
    calibration_reading,
    harmony_reading,
    interval_reading,
    verdict_sentence,
)
from harmony_utils.runs import recorded_folder
from harmony_utils.uncertainty import bootstrap_intervals, corrected_harmony, resampled_accuracies

SIZES, RIGHTS = (120, 80, 60, 40), (84, 40, 36, 16)


def items(sizes=SIZES, rights=RIGHTS):
    correct = np.concatenate([np.arange(n) < r for n, r in zip(sizes, rights, strict=True)])
    return correct.astype(float), np.repeat(range(len(sizes)), sizes)


def width(pair):
    return pair[1] - pair[0]


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_constant_correctness_leaves_the_size_part(answer):
    intervals = bootstrap_intervals(np.full(300, answer), items()[1], n_bootstrap=100)
    part = size_evenness(SIZES)
    assert intervals.harmony == pytest.approx((part, part))
    assert intervals.performance == pytest.approx((0, 0), abs=1e-9)
    assert intervals.corrected == pytest.approx(part)
    assert width(intervals.accuracy) > 0  # Wilson's does not collapse
    assert intervals.design_effect == 1


def test_subdomains_of_one_item():
    intervals = bootstrap_intervals([1, 0, 1, 0, 1, 0], range(6), n_bootstrap=200)
    assert 0 <= intervals.harmony[0] <= intervals.harmony[1] <= 1
    assert intervals.harmony[1] == pytest.approx(1)  # equal accuracies are not refuted
    assert intervals.subdomains[0] == pytest.approx((0.2065, 1), abs=1e-3)


def test_two_equal_subdomains_leave_no_doubt():
    intervals = bootstrap_intervals(*items((50, 50), (45, 20)), n_bootstrap=200)
    assert intervals.harmony == (1, 1)


def test_intervals_agree_with_the_result_and_its_table():
    correct, labels = items()
    result = harmony(correct, labels, n_null=100)
    table = subdomain_table(correct, labels)
    np.testing.assert_allclose(result.intervals.subdomains, table[["low", "high"]])
    assert result.intervals.accuracy[0] < result.accuracy < result.intervals.accuracy[1]
    low, high = result.intervals.harmony
    assert low < result.intervals.corrected < high
    assert result.intervals.size == (result.size_part, result.size_part)
    shifted = (low - result.size_part, high - result.size_part)
    assert result.intervals.performance == pytest.approx(shifted)
    plain = result.to_dict()["interval"]
    assert json.loads(json.dumps(plain)) == plain
    assert set(plain) >= {"harmony", "accuracy", "size", "performance", "subdomains", "kind"}
    assert plain["n_bootstrap"] == 2000


def test_same_seed_same_interval_and_order_of_items_does_not_matter():
    correct, labels = items()
    one = bootstrap_intervals(correct, labels, n_bootstrap=300)
    assert one == bootstrap_intervals(correct, labels, n_bootstrap=300)
    assert one != bootstrap_intervals(correct, labels, n_bootstrap=300, random_state=1)
    order = np.random.default_rng(0).permutation(len(correct))
    again = bootstrap_intervals(correct[order], labels[order], n_bootstrap=300)
    assert again.harmony == pytest.approx(one.harmony)


def test_groups_of_one_item_are_no_groups():
    correct, labels = items()
    names = np.array([f"passage {i}" for i in range(len(correct))])
    alone = bootstrap_intervals(correct, labels, groups=names, n_bootstrap=300)
    assert alone == bootstrap_intervals(correct, labels, n_bootstrap=300)


def test_duplicates_as_groups_widen_intervals_by_root_two():
    correct, labels = (np.repeat(values, 2) for values in items())
    twins = np.repeat(range(300), 2)
    apart = bootstrap_intervals(correct, labels, n_bootstrap=500)
    together = bootstrap_intervals(correct, labels, groups=twins, n_bootstrap=500)
    assert together.design_effect == pytest.approx(2)
    assert width(together.accuracy) / width(apart.accuracy) == pytest.approx(2**0.5, rel=0.01)
    assert width(together.harmony) / width(apart.harmony) == pytest.approx(2**0.5, rel=0.2)
    # as if every question had been asked once
    once = bootstrap_intervals(*items(), n_bootstrap=500)
    assert together.harmony == pytest.approx(once.harmony)
    np.testing.assert_allclose(together.subdomains, once.subdomains)


def test_resamples_scatter_like_binomials():
    correct, labels = items()
    rng = np.random.default_rng(0)
    draws = resampled_accuracies(correct, labels, np.arange(300), n_draws=20_000, rng=rng)
    rates, sizes = np.array(RIGHTS) / np.array(SIZES), np.array(SIZES)
    np.testing.assert_allclose(draws.mean(axis=0), rates, atol=3e-3)
    np.testing.assert_allclose(draws.var(axis=0), rates * (1 - rates) / sizes, rtol=0.04)


def test_groups_across_subdomains_are_drawn_together():
    correct = np.array([1, 0, 1, 0] * 25, dtype=float)
    labels = np.array([0, 0, 1, 1] * 25)
    pairs = (2 * np.arange(25)[:, None] + [0, 1, 0, 1]).ravel()  # right with right
    rng = np.random.default_rng(0)
    draws = resampled_accuracies(correct, labels, pairs, n_draws=4000, rng=rng)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(1)


def test_partial_credit_and_speed():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 5000)
    started = time.perf_counter()
    bootstrap_intervals((rng.random(5000) < 0.6) * 1.0, labels)
    assert time.perf_counter() - started < 1
    halves = bootstrap_intervals(rng.choice([0, 0.5, 1], 5000), labels, n_bootstrap=200)
    assert 0 <= halves.harmony[0] <= halves.harmony[1] <= 1


@pytest.mark.parametrize(
    ("groups", "message"),
    [([1, 2], "one per item"), ([1, None, 2, 3], "groups, row 1"), ([1, 2, 3, np.nan], "row 3")],
)
def test_refuses_groups(groups, message):
    with pytest.raises(InputError, match=message):
        bootstrap_intervals([1, 0, 1, 0], [0, 0, 1, 1], groups=groups)


def test_correction_by_hand():
    # deviations of .1 in two groups of 50 and 0 in a third: Q = 100 * .01 / .25 = 4, less 2
    sizes, accuracies = np.array([50, 50, 50]), np.array([0.6, 0.4, 0.5])
    options = {"variance": 0.25, "bandwidth": 0.1}
    mass = np.array([np.exp(-0.5), np.exp(-0.5), 1])  # deviations shrink to .1 / sqrt(2)
    mass /= mass.sum()
    by_hand = -(mass * np.log(mass)).sum() / np.log(3)
    assert corrected_harmony(sizes, accuracies, **options) == pytest.approx(by_hand)
    assert corrected_harmony(sizes, accuracies, variance=1, bandwidth=0.1) == pytest.approx(1)


def test_the_largest_spread_is_the_best_of_all_corners():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = rng.integers(1, 30, rng.integers(2, 6))
        right = rng.uniform(0, sizes.sum())
        most = 0.0
        for free, full in product(range(len(sizes)), product([0, 1], repeat=len(sizes))):
            left = right - sizes @ np.array(full) + full[free] * sizes[free]
            if 0 <= left <= sizes[free]:
                accuracies = np.array(full, dtype=float)
                accuracies[free] = left / sizes[free]
                most = max(most, np.sqrt(np.cov(accuracies, fweights=sizes, ddof=0)))
        found = largest_spread(sizes.tolist(), right / sizes.sum())
        assert found == pytest.approx(most, abs=1e-9)
    assert largest_spread([5, 5], 0) == largest_spread([5, 5], 1) == 0


def test_a_verdict_is_not_about_a_spread_that_cannot_be():
    few = harmony(*items((760, 240), (15, 5)), n_null=500)
    assert few.spread == pytest.approx(largest_spread((760, 240), 0.02))
    assert few.spread < few.bandwidth
    assert "the most that this mean and these sizes allow" in harmony_reading(few)
    tiny = harmony(*items((76, 24), (2, 0)), n_null=500)
    assert tiny.verdict == "cannot tell"
    assert tiny.power < POWER < spread_power(100, 2, 0.02, spread=0.1, confidence=0.95)
    wide = harmony(*items((100, 100), (50, 50)), n_null=100)
    assert wide.spread == wide.bandwidth


def test_items_needed_is_where_power_gets_there():
    options = {"spread": 0.1, "confidence": 0.95}
    for k in (2, 5, 20):
        for accuracy in (0.1, 0.5, 0.97):
            n = items_needed(k, accuracy, **options)
            assert spread_power(n, k, accuracy, **options) >= POWER - 1e-9
            assert spread_power(n - 1, k, accuracy, **options) < POWER


def test_items_needed_is_monotone_and_says_where_none_are_enough():
    options = {"spread": 0.1, "confidence": 0.95}
    by_k = [items_needed(k, 0.5, **options) for k in range(2, 21)]
    assert by_k == sorted(set(by_k))
    by_width = [items_needed(4, 0.5, spread=s, confidence=0.95) for s in (0.4, 0.2, 0.1, 0.01)]
    assert by_width == sorted(set(by_width))
    assert items_needed(4, 0.5, power=0.9, **options) > items_needed(4, 0.5, **options)
    assert items_needed(4, 1.0, **options) is None
    assert items_needed(4, 0.0, **options) is None


def test_sentences():
    few = harmony(*items((12, 12), (6, 6)), n_null=100)
    assert few.items_needed == 197
    assert verdict_sentence(few).startswith("Cannot tell: with 24 questions in 2 subdomains")
    assert "80% takes about 200 questions" in verdict_sentence(few)
    uneven = harmony(*items((200, 100, 50, 50), (180, 30, 25, 20)), n_null=500)
    assert verdict_sentence(uneven).startswith("Uneven: a HARMONY of 0.")
    even = harmony(*items((200, 200, 200), (100, 100, 100)), n_null=100)
    assert "would have been noticed" in verdict_sentence(even)
    noisy = harmony(np.random.default_rng(3).random(1000) < 0.6, np.arange(1000) % 20, n_null=100)
    assert noisy.harmony < noisy.intervals.harmony[0]
    assert "noise in small subdomains lowers it" in interval_reading(noisy)


# calibration ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibration():
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "calibration.py"
    spec = importlib.util.spec_from_file_location("calibration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_small_calibration(calibration):
    cells = [
        ("even", 300, 5, "equal", 0.6),
        ("even", 1000, 10, "skewed", 0.6),
        ("uneven", 1000, 5, "equal", 0.6),
        ("uneven", 300, 10, "equal", 0.3),
    ]
    table = calibration.calibrate(cells, n_verdicts=1000, n_intervals=300, n_bootstrap=200)
    even, uneven = table[table["truth"] == "even"], table[table["truth"] == "uneven"]
    assert even["uneven"].between(0.025, 0.075).all()
    assert (uneven["uneven"] > 0.5).all()
    assert table["covered_ours"].between(0.9, 1).all()
    assert (even["covered_percentile"] < 0.9).all()  # why it is not used
    assert (table["rmse_corrected"] < table["rmse_raw"]).all()


def test_recorded_calibration_is_that_of_the_script(calibration):
    table = pd.read_csv(recorded_folder() / "calibration.csv")
    about = read_json(recorded_folder() / "calibration.json")
    names = ["truth", "n_items", "n_clusters", "sizes", "accuracy"]
    assert list(table[names].itertuples(index=False, name=None)) == calibration.all_cells()
    assert about["command"] == "python benchmarks/calibration.py"
    assert about["repeats"]["verdicts"] >= 1000
    assert "numpy" in about["versions"]
    even = table[table["truth"] == "even"]
    assert (even["uneven"] < 0.065).all()
    assert "nan" not in calibration_reading(table)


def test_one_recorded_row_is_found_again(calibration):
    recorded = pd.read_csv(recorded_folder() / "calibration.csv")
    first = calibration.calibrate(calibration.all_cells()[:1])
    pd.testing.assert_frame_equal(first, recorded[:1], atol=1e-3)
