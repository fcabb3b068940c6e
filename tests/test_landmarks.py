"""Landmarks against all pairs: divergences, eigenvectors, subdomains, and what they cannot see."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from test_neighbours import random_logs
from test_partition import planted

from harmony_utils import landmarks as module
from harmony_utils.errors import InputError
from harmony_utils.graph import among, check_affinity, connected_components
from harmony_utils.landmarks import landmark_affinity, landmark_divergences
from harmony_utils.partition import central_items, spectral_partition
from harmony_utils.similarity import (
    affinity_from_divergence,
    jeffreys_divergence,
    median_temperature,
)
from harmony_utils.spectral import spectral_embedding
from harmony_utils.stability import resample_agreement

FEW = {"max_clusters": 4, "n_stability": 2}


def groups_of_logs(sizes, n_outcomes=80, noise=0.6, seed=0):
    """Return distributions of some groups, and the groups, in mixed order."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    logits = 2 * rng.normal(size=(len(sizes), n_outcomes))[groups]
    logits = logits + noise * rng.normal(size=logits.shape)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), groups


def partition_of(logs, drawn, **options):
    known = landmark_divergences(logs, drawn)
    affinity, temperature = landmark_affinity(known, drawn)
    similarity, _ = affinity_from_divergence(known[drawn], temperature=temperature)
    found = spectral_partition(affinity, similarity=similarity, items=drawn, **{**FEW, **options})
    return found, affinity


@pytest.mark.parametrize("tile", [7, 1024])
@pytest.mark.parametrize("exact_items", [0, 2048])  # in single and double precision
def test_divergences_are_columns_of_all_pairs(monkeypatch, tile, exact_items):
    monkeypatch.setattr(module, "_TILE", tile)
    monkeypatch.setattr("harmony_utils.similarity.EXACT_ITEMS", exact_items)
    logs, drawn = random_logs(), np.array([0, 5, 17, 58])
    expected = jeffreys_divergence(logs.astype(np.float64))[:, drawn]
    found = landmark_divergences(logs, drawn, block_size=33)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (found[drawn, np.arange(4)] == 0).all()
    out = np.full((60, 4), np.nan, dtype=np.float32)
    assert landmark_divergences(logs, drawn, block_size=33, out=out) is out
    np.testing.assert_array_equal(out, found)


@pytest.mark.parametrize("dense_items", [10, 2000])  # by Lanczos, and as a dense matrix
def test_all_items_as_landmarks_give_the_exact_eigenvectors(monkeypatch, dense_items):
    monkeypatch.setattr("harmony_utils.spectral.DENSE_ITEMS", dense_items)
    divergence = jeffreys_divergence(groups_of_logs((60, 40, 30))[0])
    affinity, temperature = affinity_from_divergence(divergence)
    values, vectors = spectral_embedding(affinity, n_components=4)
    factored, same = landmark_affinity(divergence, np.arange(130))
    assert same == temperature
    # what is left out of small eigenvalues
    np.testing.assert_allclose(factored.toarray(), affinity, atol=2e-4)
    found, rotated = spectral_embedding(factored, n_components=4)
    np.testing.assert_allclose(found, values, atol=1e-5)
    np.testing.assert_allclose(rotated, vectors, atol=5e-4)


def test_negative_eigenvalues_keep_their_sign():
    # far from positive definite: two items are similar to a third but not to each other
    similarity = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]])
    assert np.linalg.eigvalsh(similarity)[0] < 0
    factored, _ = landmark_affinity(-2 * np.log(similarity), np.arange(3), temperature=1)
    assert (factored.signs < 0).sum() == 1
    np.testing.assert_allclose(factored.toarray(), similarity, atol=1e-6)
    np.testing.assert_allclose(factored.sum(axis=1), similarity.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(factored @ np.eye(3), similarity, atol=1e-6)
    np.testing.assert_allclose(factored.diagonal(), 1, atol=1e-6)


def test_rounding_does_not_blow_up_where_landmarks_repeat():
    logs, _ = groups_of_logs((30, 20))
    twice = np.repeat(logs, 2, axis=0)  # each landmark has a copy: half the eigenvalues are 0
    factored, _ = landmark_affinity(landmark_divergences(twice, np.arange(40)), np.arange(40))
    assert len(factored.signs) <= 20
    affinity, _ = affinity_from_divergence(
        jeffreys_divergence(twice), temperature=median_temperature(jeffreys_divergence(twice[:40]))
    )
    np.testing.assert_allclose(factored.toarray()[:40, :40], affinity[:40, :40], atol=1e-3)


def test_an_approximate_degree_never_falls_to_zero():
    # the last ten are as close to landmarks 0 and 2, and far from 1, as those do not allow
    between = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]])
    similarity = np.vstack([between, [[0.9, 0.01, 0.9]] * 10])
    factored, _ = landmark_affinity(-2 * np.log(similarity), np.arange(3), temperature=1)
    plain = factored.toarray().sum(axis=1) - factored.diagonal()
    assert plain[3] < 0
    others = factored.sum(axis=1) - factored.diagonal()
    assert others[3] == pytest.approx(0.1 * 12 * (0.9 + 0.01 + 0.9) / 3)
    assert np.isfinite(spectral_embedding(factored, n_components=2)[1]).all()


def test_two_blocks_are_found_with_a_few_landmarks_of_each():
    logs, groups = groups_of_logs((120, 80))
    drawn = np.sort(np.concatenate([np.flatnonzero(groups == g)[:4] for g in (0, 1)]))
    found, _ = partition_of(logs, drawn)
    assert found.n_clusters == 2
    assert adjusted_rand_score(groups, found.labels) == 1
    assert found.n_measured == 8


def test_subdomains_are_near_those_of_all_pairs():
    affinity, _ = affinity_from_divergence(jeffreys_divergence(groups_of_logs((150, 90, 60))[0]))
    logs, groups = groups_of_logs((150, 90, 60))
    exact = spectral_partition(affinity, **FEW)
    drawn = np.sort(np.random.default_rng(0).choice(300, 40, replace=False))
    found, factored = partition_of(logs, drawn)
    assert found.n_clusters == exact.n_clusters == 3
    np.testing.assert_array_equal(found.labels, exact.labels)
    assert found.silhouettes[3] == pytest.approx(exact.silhouettes[3], abs=0.05)
    np.testing.assert_allclose(found.eigenvalues[:3], exact.eigenvalues[:3], atol=0.02)
    central = central_items(factored, found.labels, n_items=5)
    assert [{*groups[items]} for items in central] == [{0}, {1}, {2}]
    agreement = resample_agreement(factored, [3], n_resamples=3)
    assert agreement[3] == 1


def test_subdomains_do_not_depend_on_the_order_of_the_items():
    logs, _ = groups_of_logs((50, 40, 30))
    drawn = np.arange(0, 120, 4)
    found, _ = partition_of(logs, drawn)
    order = np.random.default_rng(1).permutation(120)
    again, _ = partition_of(logs[order], np.flatnonzero(np.isin(order, drawn)))
    assert again.sizes == found.sizes
    np.testing.assert_array_equal(again.labels, found.labels[order])


def test_a_part_of_the_items_keeps_its_similarities():
    factored, _ = landmark_affinity(landmark_divergences(random_logs(), np.arange(9)), np.arange(9))
    items = np.array([40, 3, 12])
    part = among(factored, items)
    assert part.shape == (3, 3)
    np.testing.assert_allclose(part.toarray(), factored.toarray()[np.ix_(items, items)], rtol=1e-5)


def test_items_similar_to_no_landmark_stand_alone():
    far = np.full((6, 2), 1000.0)
    far[:4] = [[0, 1], [0.5, 1], [1, 0], [1, 0.5]]
    factored, _ = landmark_affinity(far, np.array([0, 2]), temperature=1)
    assert factored.n_alone == 2
    assert connected_components(factored) == 3
    assert not factored.features[4:].any()
    found = spectral_partition(
        factored, similarity=factored.toarray()[:4, :4], items=np.arange(4), max_clusters=3,
        n_clusters=3, n_stability=2,
    )  # fmt: skip
    assert found.sizes == (4, 1, 1)
    assert any("3 parts" in warning for warning in found.warnings)


def test_parts_are_joined_by_items_that_are_no_landmarks():
    apart = np.array([[0, 99], [99, 0], [1, 99], [99, 1.0]])
    assert connected_components(landmark_affinity(apart, np.array([0, 1]), temperature=9)[0]) == 2
    apart[3] = 1
    assert connected_components(landmark_affinity(apart, np.array([0, 1]), temperature=9)[0]) == 1


def test_never_holds_all_pairs(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_TILE", 64)
    n_items = 3000
    np.save(tmp_path / "logs.npy", random_logs(n_items, 64).astype(np.float16))
    logs = np.load(tmp_path / "logs.npy", mmap_mode="r")
    drawn = np.arange(0, n_items, 60)
    tracemalloc.start()
    factored, _ = landmark_affinity(landmark_divergences(logs, drawn, block_size=32), drawn)
    spectral_embedding(factored, n_components=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 4 * n_items**2


@pytest.mark.parametrize("drawn", [[3], [3, 3], [5, 2], [-1, 4], [4, 60], [[1, 2]]])
def test_refuses_landmarks_that_are_none(drawn):
    with pytest.raises(InputError, match="at least 2 of the 60 items, each once"):
        landmark_divergences(random_logs(), np.array(drawn))


def test_refuses_what_is_no_divergence_and_what_has_nothing_to_cluster():
    drawn = np.arange(4)
    divergence = landmark_divergences(random_logs(), drawn)
    with pytest.raises(InputError, match="divergence to 4 of 3 landmarks"):
        landmark_affinity(divergence, drawn[:3])
    with pytest.raises(InputError, match="temperature 0"):
        landmark_affinity(divergence, drawn, temperature=0)
    broken = divergence.copy()
    broken[50, 2] = np.nan
    with pytest.raises(InputError, match="holds NaN"):
        landmark_affinity(broken, drawn)
    same, _ = landmark_affinity(np.zeros((9, 4)), drawn, temperature=1)
    with pytest.raises(InputError, match="every pair of items has similarity 1"):
        check_affinity(same)
    with pytest.raises(InputError, match="give the similarity of a sample"):
        spectral_partition(landmark_affinity(divergence, drawn)[0])


def test_a_dense_affinity_and_its_factors_are_clustered_alike():
    affinity, _ = planted((60, 40, 30))
    divergence = -2 * np.log(np.maximum(affinity, 1e-6)).astype(np.float64)
    np.fill_diagonal(divergence, 0)
    factored, _ = landmark_affinity(divergence, np.arange(130), temperature=1)
    found = spectral_partition(factored, similarity=affinity, **FEW)
    dense = spectral_partition(affinity, **FEW)
    np.testing.assert_array_equal(found.labels, dense.labels)
    assert found.n_components == dense.n_components
