"""HARMONY against numbers worked by hand, its limits, and its null distribution."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_utils import null as null_module
from harmony_utils.errors import InputError
from harmony_utils.harmony import (
    harmony,
    harmony_mass,
    harmony_score,
    inequality,
    size_evenness,
    subdomain_table,
    wilson_interval,
)
from harmony_utils.metric import harmony_of_mass

EQUAL = [0.6, 0.6, 0.6, 0.6]
STEPS = [0.9, 0.8, 0.7, 0.6]


@pytest.mark.parametrize(
    ("weights", "accuracies", "bandwidth", "expected"),
    [
        ([0.7, 0.1, 0.1, 0.1], EQUAL, 0.1, 0.678),
        ([0.4, 0.2, 0.2, 0.2], EQUAL, 0.1, 0.961),
        ([1, 1, 1, 1], STEPS, 0.1, 0.764),
        ([1, 1, 1, 1], STEPS, 0.2, 0.978),
        ([1, 1], [0.9, 0.5], 0.1, 1.0),
        ([1, 1, 1, 1], EQUAL, 0.1, 1.0),
    ],
)
def test_known_values(weights, accuracies, bandwidth, expected):
    assert harmony_score(weights, accuracies, bandwidth=bandwidth) == pytest.approx(
        expected, abs=5e-4
    )


def test_written_out_by_hand():
    # weights 3/4 and 1/4, mean 0.7: deviations 0.1 and -0.3, kernels exp(-1) and exp(-9)
    unscaled = np.array([0.75 * math.exp(-1), 0.25 * math.exp(-9)])
    mass = unscaled / unscaled.sum()
    expected = -(mass * np.log(mass)).sum() / math.log(2)
    np.testing.assert_allclose(harmony_mass([3, 1], [0.8, 0.4], bandwidth=0.1), mass)
    assert harmony_score([3, 1], [0.8, 0.4]) == pytest.approx(expected, abs=1e-9)


def test_wide_kernel_leaves_the_entropy_of_sizes():
    weights = [0.7, 0.1, 0.1, 0.1]
    entropy = -(0.7 * math.log(0.7) + 0.3 * math.log(0.1)) / math.log(4)
    for bandwidth in (1e6, math.inf):
        assert harmony_score(weights, STEPS, bandwidth=bandwidth) == pytest.approx(entropy)
    assert size_evenness(weights) == pytest.approx(entropy)


def test_narrow_kernel_puts_all_mass_on_the_subdomain_nearest_the_mean():
    mass = harmony_mass([1, 1, 1], [0.9, 0.7, 0.3], bandwidth=1e-8)
    assert mass.tolist() == [0, 1, 0]
    assert harmony_score([1, 1, 1], [0.9, 0.7, 0.3], bandwidth=1e-8) == 0


def test_vectorised_over_leading_axes():
    accuracies = np.random.default_rng(0).random((3, 5, 4))
    weights = np.array([4, 3, 2, 1])
    many = harmony_of_mass(harmony_mass(weights, accuracies, bandwidth=0.2))
    single = [[harmony_score(weights, row, bandwidth=0.2) for row in rows] for rows in accuracies]
    np.testing.assert_allclose(many, single)


tables = st.integers(2, 8).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(1, 1000), min_size=k, max_size=k),
        st.lists(st.floats(0, 1), min_size=k, max_size=k),
    )
)


@given(tables, st.floats(0.01, 10))
def test_bounded_and_free_of_scale_and_order(table, bandwidth):
    weights, accuracies = table
    score = harmony_score(weights, accuracies, bandwidth=bandwidth)
    assert 0 <= score <= 1
    scaled = [3.5 * weight for weight in weights]
    assert harmony_score(scaled, accuracies, bandwidth=bandwidth) == pytest.approx(score, abs=1e-9)
    backwards = harmony_score(weights[::-1], accuracies[::-1], bandwidth=bandwidth)
    assert backwards == pytest.approx(score, abs=1e-9)


@given(tables)
def test_mirrored_accuracies_score_the_same(table):
    weights, accuracies = table
    mirrored = [1 - accuracy for accuracy in accuracies]
    assert harmony_score(weights, mirrored) == pytest.approx(
        harmony_score(weights, accuracies), abs=1e-9
    )


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=8), st.floats(0, 1))
def test_equal_accuracies_leave_the_size_part(weights, accuracy):
    equal = [accuracy] * len(weights)
    assert harmony_score(weights, equal) == pytest.approx(size_evenness(weights), abs=1e-9)


@pytest.mark.parametrize(
    ("weights", "accuracies", "bandwidth", "message"),
    [
        ([1], [0.5], 0.1, "at least two"),
        ([1, 0], [0.5, 0.5], 0.1, "leave empty subdomains out"),
        ([1, -1], [0.5, 0.5], 0.1, "positive"),
        ([1, math.nan], [0.5, 0.5], 0.1, "positive"),
        ([1, math.inf], [0.5, 0.5], 0.1, "positive"),
        ([1, 1], [0.5, 1.5], 0.1, "between 0 and 1"),
        ([1, 1], [0.5, math.nan], 0.1, "between 0 and 1"),
        ([1, 1], [0.5], 0.1, "one of each"),
        (1, 0.5, 0.1, "one of each"),
        ([1, 1], [0.5, 0.5], 0, "bandwidth"),
        ([1, 1], [0.5, 0.5], math.nan, "bandwidth"),
    ],
)
def test_refuses_tables(weights, accuracies, bandwidth, message):
    with pytest.raises(InputError, match=message):
        harmony_score(weights, accuracies, bandwidth=bandwidth)


def test_result_agrees_with_the_table():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    correct = (rng.random(100) < 0.6).astype(float)
    result = harmony(correct, labels, n_null=300)
    assert result.harmony == harmony_score(result.sizes, result.accuracies)
    assert result.size_part == size_evenness(result.sizes)
    assert result.size_part + result.performance_part == pytest.approx(result.harmony)
    assert result.accuracy == pytest.approx(correct.mean())
    assert (result.n_items, result.n_clusters, result.sizes) == (100, 3, (50, 30, 20))
    assert result.null.shape == (300,)
    assert result.null_low <= result.null_median <= result.null_high
    table = subdomain_table(correct, labels)
    assert table["accuracy"].tolist() == list(result.accuracies)
    assert table["mass"].tolist() == list(result.mass)
    assert table["size"].tolist() == list(result.sizes)
    assert ((table["low"] < table["accuracy"]) & (table["accuracy"] < table["high"])).all()
    assert table["weight"].sum() == pytest.approx(1)


def test_result_goes_to_json():
    plain = harmony([1, 0, 1, 0], ["b", "b", "a", "a"], n_null=100).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["names"] == ["a", "b"]
    assert sorted(plain["parts"]) == ["performance", "size"]
    assert sorted(plain["null"]) == ["hi", "lo", "median", "n", "p_value"]


def test_same_seed_same_null_whatever_the_chunks(monkeypatch):
    correct, labels = np.tile([0, 1, 1], 20), np.repeat(range(4), 15)
    one = harmony(correct, labels, n_null=150)
    monkeypatch.setattr(null_module, "_CHUNK_ELEMENTS", 600)
    np.testing.assert_array_equal(one.null, harmony(correct, labels, n_null=150).null)
    assert not np.array_equal(one.null, harmony(correct, labels, n_null=150, random_state=1).null)


def test_p_values_are_uniform_when_labels_mean_nothing():
    rng = np.random.default_rng(0)
    labels = np.repeat(range(5), [60, 50, 40, 30, 20])
    p_values = np.array(
        [
            harmony((rng.random(200) < 0.6), labels, n_null=200, random_state=seed).p_value
            for seed in range(200)
        ]
    )
    # three standard errors around the uniform distribution's 5%, 50% and mean
    assert abs((p_values <= 0.05).mean() - 0.05) < 0.047
    assert abs((p_values <= 0.5).mean() - 0.5) < 0.107
    assert abs(p_values.mean() - 0.5) < 0.062


def test_p_value_is_small_under_a_planted_difference():
    labels = np.repeat(range(4), 100)
    correct = np.concatenate([np.arange(100) < 100 * accuracy for accuracy in STEPS])
    result = harmony(correct, labels, n_null=500)
    assert result.harmony == pytest.approx(0.7635, abs=1e-3)
    assert result.p_value == pytest.approx(1 / 501)
    assert result.harmony < result.null_low


def test_random_labels_do_not_give_one():
    labels = np.repeat(range(10), 57)
    correct = np.random.default_rng(0).random(570) < 0.5
    assert harmony(correct, labels).null_median < 0.99


def test_blind_spot_is_flagged_only_where_a_real_difference_goes_unseen():
    def flag(accuracies, size=200):
        correct = np.concatenate([np.arange(size) < size * accuracy for accuracy in accuracies])
        return harmony(correct, np.repeat(range(len(accuracies)), size), n_null=100).blind_spot

    assert flag([0.9, 0.5])
    assert flag([0.9, 0.5, 0.9, 0.5])
    assert not flag([0.6, 0.6])
    assert not flag(STEPS)
    assert not flag([0.6, 0.4], size=10)


def test_partial_credit_counts():
    result = harmony([0.5, 0.5, 1, 0], [0, 0, 1, 1], n_null=100)
    assert result.accuracies == (0.5, 0.5)
    assert harmony([1, 1, 1, 1], [0, 0, 1, 1], n_null=100).p_value == 1


@pytest.mark.parametrize(
    ("correct", "labels", "message"),
    [
        ([1, math.nan, 0], [0, 1, 1], "row 1: is nan"),
        ([1, 0, 2], [0, 1, 1], "row 2: is 2.0"),
        ([1, 0], [0, 1, 1], "one value of each per item"),
        ([1, 0], [0, 0], "at least two"),
        ([], [], "at least two"),
        ([1, 0, 1], ["a", None, "b"], "labels, row 1"),
    ],
)
def test_refuses_items(correct, labels, message):
    for function in (harmony, subdomain_table):
        with pytest.raises(InputError, match=message):
            function(correct, labels)


def test_wilson_interval_by_hand():
    low, high = wilson_interval(np.array([0.5, 1.0]), np.array([10, 10]))
    np.testing.assert_allclose(low, [0.2366, 0.7225], atol=1e-4)
    np.testing.assert_allclose(high, [0.7634, 1.0], atol=1e-4)


def test_inequality_limits():
    even = inequality(np.ones(3), np.full(3, 0.4), np.full(3, 1 / 3))
    assert even == pytest.approx(
        {"gini": 0, "renyi2": 1, "weighted_variance": 0, "worst_gap": 0}, abs=1e-12
    )
    assert inequality(np.ones(2), np.zeros(2), np.full(2, 0.5))["gini"] == 0
    # one of two equal groups holds everything: the Gini coefficient is 1/2
    uneven = inequality(np.ones(2), np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert (uneven["gini"], uneven["renyi2"], uneven["worst_gap"]) == (0.5, 0, 0.5)


def test_the_narrowest_kernels_are_the_limit_and_no_nan():
    for bandwidth in (1e-9, 1e-200, 5e-324):
        np.testing.assert_allclose(harmony_mass([1, 3], [0.9, 0.5], bandwidth=bandwidth), [0, 1])


def test_the_number_is_of_one_table():
    with pytest.raises(InputError, match="2 axes"):
        harmony_score(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"n_null": 0}, "0 shuffles or resamples"),
        ({"n_bootstrap": 0}, "0 shuffles or resamples"),
        ({"confidence": 1.0}, "confidence 1.0"),
        ({"confidence": 95}, "confidence 95"),
    ],
)
def test_refuses_numbers_that_no_interval_has(option, message):
    with pytest.raises(InputError, match=message):
        harmony([0, 1, 0, 1], [0, 0, 1, 1], **option)
