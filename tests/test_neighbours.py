"""Nearest divergences against all pairs, and how much memory they take."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from harmony_utils import neighbours
from harmony_utils.errors import InputError
from harmony_utils.neighbours import (
    graph_of_links,
    links_of_graph,
    nearest_divergences,
    nearest_neighbours,
)
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence


def random_logs(n_items=60, n_outcomes=200, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=(n_items, n_outcomes))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("n_neighbours", [1, 5, 59])
@pytest.mark.parametrize("tile", [7, 1024])
def test_equals_all_pairs_followed_by_nearest_neighbours(monkeypatch, n_neighbours, tile):
    monkeypatch.setattr(neighbours, "_TILE", tile)
    logs = random_logs()
    divergence = jeffreys_divergence(logs)
    expected = nearest_neighbours(
        affinity_from_divergence(divergence, temperature=0.3)[0], n_neighbours
    )
    graph = nearest_divergences(logs, n_neighbours, block_size=33)
    found, temperature = affinity_from_divergence(graph, temperature=0.3)
    assert temperature == 0.3
    np.testing.assert_array_equal(found.toarray() > 0, expected > 0)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5)
    np.testing.assert_allclose(graph.toarray(), divergence * (expected > 0), rtol=1e-4, atol=1e-6)
    assert found.nnz == np.count_nonzero(expected)


def test_equals_all_pairs_in_single_precision_up_to_near_ties(monkeypatch):
    monkeypatch.setattr("harmony_utils.similarity.EXACT_ITEMS", 0)
    logs = random_logs(300, 400).astype(np.float16)
    exact = nearest_divergences(logs.astype(np.float64), 10)
    with_half = nearest_divergences(logs, 10)
    both = np.minimum(exact.toarray() > 0, with_half.toarray() > 0)
    assert both.sum() > 0.99 * (exact.nnz - 300)
    np.testing.assert_allclose(
        with_half.toarray()[both], exact.toarray()[both], rtol=1e-3, atol=1e-5
    )


def test_ties_go_to_the_first_items_and_links_of_length_zero_stay():
    logs = np.log(np.full((6, 4), 0.25))  # all the same
    graph = nearest_divergences(logs, 2)
    linked = np.zeros((6, 6), dtype=bool)
    linked[graph.tocoo().row, graph.tocoo().col] = True
    np.testing.assert_array_equal(linked, nearest_neighbours(np.ones((6, 6)), 2) > 0)
    assert (graph.data == 0).all()
    similar, _ = affinity_from_divergence(graph, temperature=1)
    assert (similar.data == 1).all()
    assert similar.nnz == graph.nnz


def test_never_holds_all_pairs(monkeypatch, tmp_path):
    monkeypatch.setattr(neighbours, "_TILE", 64)
    n_items = 3000
    np.save(tmp_path / "logs.npy", random_logs(n_items, 64).astype(np.float16))
    logs = np.load(tmp_path / "logs.npy", mmap_mode="r")
    tracemalloc.start()
    graph = nearest_divergences(logs, 10, block_size=32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.shape == (n_items, n_items)
    assert 10 * n_items <= graph.nnz - n_items <= 20 * n_items
    assert peak < 0.2 * 4 * n_items**2


def test_links_survive_a_file(tmp_path):
    graph = nearest_divergences(random_logs(), 4)
    np.save(tmp_path / "links.npy", links_of_graph(graph))
    links = np.load(tmp_path / "links.npy", allow_pickle=False)
    assert (links["one"] < links["other"]).all()
    again = graph_of_links(links, 60)
    np.testing.assert_array_equal(again.toarray(), graph.toarray())
    assert again.nnz == graph.nnz == 2 * len(links) + 60


@pytest.mark.parametrize("number", [0, 60, -1])
def test_refuses_a_number_out_of_range(number):
    with pytest.raises(InputError, match="must lie between 1 and 59"):
        nearest_divergences(random_logs(), number)


def test_refuses_rows_that_are_no_distribution():
    logs = random_logs()
    logs[4] += 1
    with pytest.raises(InputError, match="row 4: the probabilities sum to"):
        nearest_divergences(logs, 3)


def test_the_median_temperature_needs_all_pairs():
    graph = nearest_divergences(random_logs(), 4)
    with pytest.raises(InputError, match="nearest items do not show the median pair"):
        affinity_from_divergence(graph)
