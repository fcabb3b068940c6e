"""Samples and quantiles of pairs against looking at every pair."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from harmony_utils import pairs
from harmony_utils.errors import InputError
from harmony_utils.pairs import pair_quantiles, sample_items, sample_pairs

SHARES = [0, 0.05, 0.25, 1 / 3, 0.5, 0.99, 1]


def symmetric(n_items=80, seed=0, dtype=np.float32):
    values = np.random.default_rng(seed).lognormal(sigma=3, size=(n_items, n_items)).astype(dtype)
    matrix = np.triu(values, 1)
    return matrix + matrix.T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chunk", [100, 4_000_000])
@pytest.mark.parametrize("decimals", [0, 6])  # with many ties, and with few
def test_quantiles_by_counting_are_those_of_sorting(monkeypatch, dtype, chunk, decimals):
    monkeypatch.setattr(pairs, "MAX_PAIRS", 10)
    monkeypatch.setattr(pairs, "_CHUNK_ELEMENTS", chunk)
    matrix = symmetric(dtype=dtype).round(decimals)
    values = matrix[np.triu_indices(len(matrix), 1)].astype(float)
    np.testing.assert_allclose(pair_quantiles(matrix, SHARES), np.quantile(values, SHARES))


def test_the_median_of_many_pairs_is_that_of_all(monkeypatch):
    matrix = symmetric(1100)
    expected = float(np.median(matrix[~np.eye(1100, dtype=bool)]))
    assert float(np.float32(pair_quantiles(matrix, [0.5])[0])) == expected
    monkeypatch.setattr(pairs, "MAX_PAIRS", 10**6)
    assert float(np.float32(pair_quantiles(matrix, [0.5])[0])) == expected


def test_quantiles_take_less_memory_than_the_matrix(monkeypatch):
    monkeypatch.setattr(pairs, "_CHUNK_ELEMENTS", 50_000)
    matrix = symmetric(3000)
    tracemalloc.start()
    pair_quantiles(matrix, [0.25, 0.5, 0.75])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * matrix.nbytes


def test_quantiles_refuse_what_has_no_pairs_or_is_negative(monkeypatch):
    with pytest.raises(InputError, match="at least two items"):
        pair_quantiles(np.zeros((1, 1)), [0.5])
    monkeypatch.setattr(pairs, "MAX_PAIRS", 1)
    with pytest.raises(InputError, match="negative"):
        pair_quantiles(-symmetric(9), [0.5])


def test_few_pairs_come_once_many_are_drawn():
    one, other = sample_pairs(30)
    assert sorted(zip(one, other, strict=True)) == sorted({*zip(one, other, strict=True)})
    assert len(one) == 435
    drawn = sample_pairs(30, max_pairs=100)
    assert len(drawn[0]) == 100
    assert (drawn[0] != drawn[1]).all()
    assert {*drawn[0], *drawn[1]} <= set(range(30))
    np.testing.assert_array_equal(drawn, sample_pairs(30, max_pairs=100))
    assert (drawn[0] != sample_pairs(30, max_pairs=100, random_state=1)[0]).any()


def test_a_sample_of_pairs_estimates_the_quantiles():
    matrix = np.log1p(symmetric(400))
    drawn = matrix[sample_pairs(400, max_pairs=20_000)]
    np.testing.assert_allclose(
        np.quantile(drawn, [0.25, 0.5, 0.75]), pair_quantiles(matrix, [0.25, 0.5, 0.75]), rtol=0.1
    )


def test_a_sample_of_items_is_sorted_and_repeats_none():
    items = sample_items(5000, size=300)
    assert len(set(items)) == 300
    assert (np.diff(items) > 0).all()
    assert len(sample_items(299, size=300)) == 299
