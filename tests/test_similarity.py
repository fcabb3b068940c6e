"""Divergence and similarity against numbers worked by hand and a plain loop."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harmony_utils import pairs, similarity
from harmony_utils.errors import InputError
from harmony_utils.neighbours import nearest_neighbours
from harmony_utils.similarity import (
    affinity_from_divergence,
    group_auc,
    jeffreys_divergence,
    median_temperature,
)


def random_logs(n_items=30, n_outcomes=500, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=(n_items, n_outcomes))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def naive(log_probabilities, floor=1e-10):
    p = np.maximum(np.exp(np.asarray(log_probabilities, dtype=float)), floor)
    p /= p.sum(axis=1, keepdims=True)
    return np.array([[((a - b) * (np.log(a) - np.log(b))).sum() for b in p] for a in p])


def test_two_distributions_by_hand():
    found = jeffreys_divergence(np.log([[0.5, 0.5], [0.25, 0.75]]))
    # (1/4) log(2) + (-1/4) log(2/3) = (1/4) log(3)
    assert found[0, 1] == pytest.approx(math.log(3) / 4, rel=1e-6)


def test_three_outcomes_by_hand():
    found = jeffreys_divergence(np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]))
    assert found[0, 1] == pytest.approx(0.5 * math.log(2), rel=1e-6)


def test_disjoint_distributions_are_bounded_by_the_floor():
    with np.errstate(divide="ignore"):
        logs = np.log([[1.0, 0.0], [0.0, 1.0]])
    found = jeffreys_divergence(logs, floor=1e-4)
    large, small = 1 / 1.0001, 1e-4 / 1.0001
    assert found[0, 1] == pytest.approx(2 * (large - small) * math.log(1e4), rel=1e-6)


@pytest.mark.parametrize("exact_items", [0, 2048])
def test_equals_a_plain_loop_in_both_precisions(monkeypatch, exact_items):
    monkeypatch.setattr(similarity, "EXACT_ITEMS", exact_items)
    logs = random_logs()
    np.testing.assert_allclose(jeffreys_divergence(logs), naive(logs), rtol=1e-5, atol=1e-5)


def test_half_precision_input_changes_little():
    logs = random_logs()
    half = jeffreys_divergence(logs.astype(np.float16))
    np.testing.assert_allclose(half, naive(logs.astype(np.float16)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(half, jeffreys_divergence(logs), rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("block_size", [1, 7, 499, 10_000])
def test_blocks_do_not_change_the_result(block_size):
    logs = random_logs().astype(np.float32)
    np.testing.assert_allclose(
        jeffreys_divergence(logs, block_size=block_size), jeffreys_divergence(logs), rtol=1e-6
    )


def test_tiles_and_row_chunks_do_not_change_the_result(monkeypatch):
    logs = random_logs()
    whole = jeffreys_divergence(logs)
    monkeypatch.setattr(similarity, "_TILE", 7)
    monkeypatch.setattr(similarity, "_ROW_CHUNK_ELEMENTS", 1200)
    np.testing.assert_allclose(jeffreys_divergence(logs), whole, rtol=1e-6)


def test_reads_a_memory_map_without_changing_it(tmp_path):
    logs = random_logs().astype(np.float16)
    np.save(tmp_path / "logs.npy", logs)
    mapped = np.load(tmp_path / "logs.npy", mmap_mode="r")
    np.testing.assert_array_equal(jeffreys_divergence(mapped), jeffreys_divergence(logs))


@settings(deadline=None, max_examples=40)
@given(arrays(np.float64, (5, 6), elements=st.floats(0, 1)))
def test_symmetric_non_negative_zero_diagonal(raw):
    p = (raw + 1e-6) / (raw + 1e-6).sum(axis=1, keepdims=True)
    found = jeffreys_divergence(np.log(p))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, found.T)
    assert (found >= 0).all()
    assert (np.diag(found) == 0).all()


def test_nearly_equal_items_keep_their_order():
    base = random_logs(2, 2000)[0]
    near = np.array([base, base, base])
    near[1, :2] += [1e-3, -1e-3]
    near[2, :2] += [1e-1, -1e-1]
    found = jeffreys_divergence(near)
    assert 0 < found[0, 1] < found[0, 2]
    assert found[0, 2] == pytest.approx(naive(near)[0, 2], rel=1e-4)


def test_refuses_rows_that_are_no_distribution_by_number():
    logs = random_logs()
    logs[17, 3] = np.nan
    with pytest.raises(InputError, match="row 17: holds NaN"):
        jeffreys_divergence(logs)
    logs = random_logs()
    logs[4] += 1
    with pytest.raises(InputError, match=r"row 4: the probabilities sum to 2\.7"):
        jeffreys_divergence(logs)
    logs[4] = -np.inf
    with pytest.raises(InputError, match="row 4: the probabilities sum to 0"):
        jeffreys_divergence(logs)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"floor": 0.0}, "floor"), ({"floor": 0.6}, "floor"), ({"block_size": 0}, "block_size")],
)
def test_refuses_settings_out_of_range(options, message):
    with pytest.raises(InputError, match=message):
        jeffreys_divergence(np.log(np.full((3, 2), 0.5)), **options)


def test_refuses_a_single_outcome():
    with pytest.raises(InputError, match="at least two outcomes"):
        jeffreys_divergence(np.zeros((3, 1)))


def test_median_temperature_puts_the_median_pair_at_one_half():
    divergence = jeffreys_divergence(random_logs(9))
    affinity, temperature = affinity_from_divergence(divergence)
    assert temperature == median_temperature(divergence)
    pairs = affinity[np.triu_indices(9, 1)]
    # 36 pairs: the median divergence is a mean of two, so its similarity is a geometric mean
    assert np.sort(pairs)[17:19].prod() ** 0.5 == pytest.approx(0.5, rel=1e-5)


def test_median_temperature_undoes_any_scale():
    divergence = jeffreys_divergence(random_logs(9))
    one, _ = affinity_from_divergence(divergence)
    other, _ = affinity_from_divergence(divergence * 7)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_fixed_temperature_by_hand():
    affinity, temperature = affinity_from_divergence(np.array([[0, 3.0], [3, 0]]), temperature=0.5)
    assert temperature == 0.5
    np.testing.assert_allclose(affinity, [[1, math.exp(-0.75)], [math.exp(-0.75), 1]], rtol=1e-6)
    assert affinity.dtype == np.float32


def test_undefined_median_is_one_clear_line():
    with pytest.raises(InputError, match="identical distributions"):
        affinity_from_divergence(np.zeros((4, 4)))
    with pytest.raises(InputError, match="at least two items"):
        median_temperature(np.zeros((1, 1)))


@pytest.mark.parametrize("temperature", [0, -1, math.inf, math.nan, True, "mean"])
def test_refuses_temperatures(temperature):
    with pytest.raises(InputError, match="temperature"):
        affinity_from_divergence(np.array([[0, 1.0], [1, 0]]), temperature=temperature)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_refuses_divergences(bad):
    with pytest.raises(InputError, match="divergence"):
        affinity_from_divergence(np.array([[0, bad], [bad, 0]]))
    with pytest.raises(InputError, match="square"):
        affinity_from_divergence(np.zeros((2, 3)))


def test_group_auc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    affinity = rng.integers(0, 6, size=(12, 12)) / 5  # with ties
    affinity = (affinity + affinity.T) / 2
    groups = ["a", "b", None, "a"] * 3
    pairs = [(i, j) for i in range(12) for j in range(i) if groups[i] and groups[j]]
    same = [affinity[i, j] for i, j in pairs if groups[i] == groups[j]]
    different = [affinity[i, j] for i, j in pairs if groups[i] != groups[j]]
    expected = np.mean([(s > d) + 0.5 * (s == d) for s in same for d in different])
    assert group_auc(affinity, groups) == pytest.approx(expected)


@pytest.mark.parametrize("groups", [[None] * 4, ["a"] * 4, ["a", "b", "c", "d"]])
def test_group_auc_needs_both_kinds_of_pairs(groups):
    assert group_auc(np.eye(4), groups) is None


def test_group_auc_on_a_sample_of_pairs(monkeypatch):
    monkeypatch.setattr(pairs, "MAX_PAIRS", 300)
    affinity, groups = np.kron(np.eye(2), np.ones((50, 50))), ["a"] * 50 + ["b"] * 50
    assert group_auc(affinity, groups) == 1.0


def test_group_auc_refuses_groups_of_other_items():
    with pytest.raises(InputError, match="3 given for 4"):
        group_auc(np.eye(4), ["a", "b", "a"])


def test_a_link_stays_if_either_end_chose_it():
    affinity = np.array(
        [[1, 0.9, 0.8, 0.1], [0.9, 1, 0.3, 0.2], [0.8, 0.3, 1, 0.6], [0.1, 0.2, 0.6, 1]]
    )
    linked = nearest_neighbours(affinity, 1)
    # 0 and 1 choose each other, 2 chooses 0, 3 chooses 2
    np.testing.assert_array_equal(
        linked > 0, [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 1, 1]]
    )
    np.testing.assert_array_equal(linked[linked > 0], affinity[linked > 0])
    np.testing.assert_array_equal(nearest_neighbours(affinity, 3), affinity)
    ties = nearest_neighbours(np.ones((5, 5)), 1)
    np.testing.assert_array_equal(np.flatnonzero(ties[4]), [0, 4])


def test_neighbours_do_not_depend_on_temperature():
    divergence = np.abs(np.subtract.outer(*[np.random.default_rng(0).random(30)] * 2))
    graphs = [
        nearest_neighbours(affinity_from_divergence(divergence, temperature=t)[0], 4) > 0
        for t in (0.5, 3.0)
    ]
    np.testing.assert_array_equal(*graphs)
    assert (graphs[0].sum(axis=1) >= 5).all()


@pytest.mark.parametrize("number", [0, -1, 4])
def test_neighbours_out_of_range_are_refused(number):
    with pytest.raises(InputError, match=f"neighbours {number}"):
        nearest_neighbours(np.ones((4, 4)), number)
