"""Spectral clustering on planted blocks, and every kind of affinity that cannot be clustered."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score

from harmony_utils import spectral
from harmony_utils.errors import InputError
from harmony_utils.graph import connected_components
from harmony_utils.neighbours import nearest_neighbours
from harmony_utils.partition import (
    Partition,
    canonical_labels,
    central_items,
    partition_from_labels,
    random_partition,
    spectral_partition,
)
from harmony_utils.spectral import (
    affinity_silhouette,
    spectral_embedding,
)


def planted(sizes, *, inside=0.6, outside=0.3, noise=0.08, seed=0):
    """Return a noisy block affinity and its blocks, items in random order."""
    rng = np.random.default_rng(seed)
    blocks = rng.permutation(np.repeat(range(len(sizes)), sizes))
    clean = np.where(blocks[:, None] == blocks, inside, outside)
    noisy = clean + noise * rng.normal(size=clean.shape)
    affinity = np.clip((noisy + noisy.T) / 2, 0, 1).astype(np.float32)
    np.fill_diagonal(affinity, 1)
    return affinity, blocks


@pytest.mark.parametrize("selection", ["silhouette", "eigengap"])
@pytest.mark.parametrize("silhouette_distance", ["affinity", "embedding"])
def test_recovers_planted_blocks(selection, silhouette_distance):
    affinity, blocks = planted((60, 40, 30, 20))
    found = spectral_partition(
        affinity,
        max_clusters=8,
        selection=selection,
        silhouette_distance=silhouette_distance,
        n_stability=3,
    )
    assert found.n_clusters == 4
    assert found.selected_by == selection
    assert adjusted_rand_score(blocks, found.labels) == 1
    assert found.sizes == (60, 40, 30, 20)
    assert found.stability == {"mean_ari": 1.0, "min_ari": 1.0, "n_seeds": 3}
    assert sorted(found.silhouettes) == list(range(2, 9))
    assert len(found.eigenvalues) == 9
    assert found.n_components == 1
    assert found.warnings == ()


def test_same_input_same_output():
    affinity, _ = planted((20, 15, 10), outside=0.5, noise=0.3)
    one, other = (spectral_partition(affinity, max_clusters=6) for _ in range(2))
    np.testing.assert_array_equal(one.labels, other.labels)
    assert one.to_dict() == other.to_dict()


def test_order_of_items_does_not_matter():
    affinity, _ = planted((20, 15, 10))
    shuffle = np.random.default_rng(1).permutation(45)
    one = spectral_partition(affinity, max_clusters=6).labels
    other = spectral_partition(affinity[np.ix_(shuffle, shuffle)], max_clusters=6).labels
    assert adjusted_rand_score(one[shuffle], other) == 1


def test_given_number_is_kept_and_silhouettes_are_still_reported():
    affinity, _ = planted((20, 15, 10))
    found = spectral_partition(affinity, n_clusters=7, max_clusters=5)
    assert found.n_clusters == len(found.sizes) == 7
    assert found.selected_by == "given"
    assert sorted(found.silhouettes) == [2, 3, 4, 5, 7]


def test_largest_number_is_cut_to_the_items():
    affinity, _ = planted((3, 3))
    assert max(spectral_partition(affinity).silhouettes) <= 5


def test_disconnected_affinity_is_found_and_said():
    affinity = np.kron(np.eye(3), np.full((6, 6), 0.8))
    np.fill_diagonal(affinity, 1)
    found = spectral_partition(affinity, max_clusters=5)
    assert found.n_clusters == found.n_components == 3
    assert found.sizes == (6, 6, 6)
    assert "3 parts" in found.warnings[0]


def test_item_similar_to_no_other_stands_alone():
    affinity, _ = planted((10, 10))
    affinity[4] = affinity[:, 4] = 0
    affinity[4, 4] = 1
    found = spectral_partition(affinity, n_clusters=3)
    assert found.n_components == 2
    assert found.sizes[-1] == 1
    assert found.labels[4] == 2
    assert any("fewer than 5" in text for text in found.warnings)


def test_selection_at_the_edge_and_instability_are_said():
    affinity, _ = planted((20, 15, 10, 10))
    assert "largest number tried" in spectral_partition(affinity, max_clusters=4).warnings[0]
    noise = planted((40,), noise=0.3)[0]
    found = spectral_partition(noise, n_clusters=8, n_init=1)
    assert found.stability["mean_ari"] < 0.8
    assert any("seeds disagree" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        (np.ones((5, 5)), "every pair"),
        (np.eye(5), "every pair"),
        (np.ones((2, 2)), "at least three items"),
        (np.ones((3, 4)), "square"),
        (np.full((4, 4), np.nan), "NaN"),
        (-planted((3, 3))[0], "negative"),
        (np.triu(planted((3, 3))[0]), "not symmetric"),
    ],
)
def test_refuses_what_cannot_be_clustered(affinity, message):
    with pytest.raises(InputError, match=message):
        spectral_partition(affinity)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 1}, "n_clusters 1"),
        ({"n_clusters": 6}, "n_clusters 6"),
        ({"min_clusters": 1}, "min_clusters 1"),
        ({"min_clusters": 6}, "min_clusters 6"),
        ({"selection": "elbow"}, "elbow"),
        ({"silhouette_distance": "cosine"}, "cosine"),
    ],
)
def test_refuses_settings_out_of_range(options, message):
    with pytest.raises(InputError, match=message):
        spectral_partition(planted((3, 3))[0], **options)


def test_as_many_clusters_as_asked_even_where_items_are_identical():
    twins = np.kron(np.array([[1, 0.2], [0.2, 1]]), np.ones((4, 4)))
    found = spectral_partition(twins, max_clusters=7)
    assert found.sizes == (4, 4)
    assert len(spectral_partition(twins, n_clusters=7).sizes) == 7


def test_lanczos_agrees_with_the_dense_solver(monkeypatch):
    affinity, _ = planted((60, 40, 30, 20))
    values, vectors = spectral_embedding(affinity, n_components=5)
    monkeypatch.setattr(spectral, "DENSE_ITEMS", 0)
    other_values, other_vectors = spectral_embedding(affinity, n_components=5)
    np.testing.assert_allclose(values, other_values, atol=1e-6)
    np.testing.assert_allclose(vectors[:, :4], other_vectors[:, :4], atol=1e-4)


def test_embedding_is_orthonormal_with_fixed_signs_and_rising_values():
    values, vectors = spectral_embedding(planted((20, 10))[0], n_components=30)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(30), atol=1e-10)
    assert all(one <= other + 1e-12 for one, other in pairwise(values))
    assert values[0] == pytest.approx(0, abs=1e-12)
    peaks = np.abs(vectors).argmax(axis=0)
    assert (vectors[peaks, range(30)] > 0).all()
    with pytest.raises(InputError, match="n_components 31"):
        spectral_embedding(planted((20, 10))[0], n_components=31)


def test_silhouette_equals_scikit_learn():
    affinity, _ = planted((20, 15, 1), noise=0.2)
    labels = np.random.default_rng(0).integers(4, size=36)
    distances = 1 - affinity.astype(float)
    np.fill_diagonal(distances, 0)
    expected = silhouette_score(distances, labels, metric="precomputed")
    assert affinity_silhouette(affinity, labels) == pytest.approx(expected, abs=1e-6)


def test_connected_components_follow_chains():
    chain = np.eye(6)
    for i in (0, 1, 3, 4):
        chain[i, i + 1] = chain[i + 1, i] = 0.1
    assert connected_components(chain) == 2
    assert connected_components(np.eye(4)) == 4


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_canonical_labels_depend_on_the_grouping_alone(labels):
    found = canonical_labels(labels)
    sizes = np.bincount(found)
    assert all(one >= other for one, other in pairwise(sizes))
    assert len(sizes) == len(set(labels))
    renamed = canonical_labels([f"name {9 - label}" for label in labels])
    np.testing.assert_array_equal(found, renamed)
    np.testing.assert_array_equal(canonical_labels(found), found)


def test_canonical_ties_go_by_the_first_item():
    assert canonical_labels(np.array([7, 3, 3, 7, 5])).tolist() == [0, 1, 1, 0, 2]


def test_partition_from_subjects():
    found = partition_from_labels(["law", "logic", "logic"])
    assert (found.names, found.sizes) == (("logic", "law"), (2, 1))
    assert found.labels.tolist() == [1, 0, 0]
    assert found.selected_by == "labels"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None, "b"], "labels, row 1: is missing"),
        ([1.0, 2.0, float("nan")], "labels, row 2: is missing"),
        (["a", "a"], "at least two"),
        ([], "at least two"),
    ],
)
def test_refuses_labels(labels, message):
    with pytest.raises(InputError, match=message):
        partition_from_labels(labels)


def test_random_partition_keeps_sizes_and_follows_the_seed():
    one, other = random_partition([5, 9, 2]), random_partition([5, 9, 2], 1)
    assert one.sizes == other.sizes == (9, 5, 2)
    assert one.labels.tolist() == random_partition([5, 9, 2]).labels.tolist()
    assert one.labels.tolist() != other.labels.tolist()
    for sizes in ([5], [3, 0], [1.5, 2]):
        with pytest.raises(InputError, match="sizes"):
            random_partition(sizes)


def test_round_trip_through_json():
    found = spectral_partition(planted((6, 5))[0], max_clusters=3)
    again = Partition.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    assert again.silhouettes == found.silhouettes
    np.testing.assert_array_equal(again.labels, found.labels)


def test_central_items_lie_in_their_own_subdomain():
    affinity, blocks = planted((12, 8, 2))
    labels = canonical_labels(blocks)
    found = central_items(affinity, labels, n_items=3)
    assert [len(items) for items in found] == [3, 3, 2]
    assert all((labels[items] == label).all() for label, items in enumerate(found))


@pytest.mark.parametrize(("n_labels", "n_items"), [(4, 0), (3, 1)])
def test_central_items_refuse_what_does_not_belong_together(n_labels, n_items):
    with pytest.raises(InputError, match="one label per item"):
        central_items(np.eye(4), np.zeros(n_labels, dtype=int), n_items=n_items)


BLOCKS = np.kron(np.eye(3), np.ones((8, 8))) * 0.7 + 0.1
BLOCKS += np.random.default_rng(0).uniform(0, 0.1, size=(24, 24))
BLOCKS = (BLOCKS + BLOCKS.T) / 2


@pytest.mark.parametrize("assign_labels", ["kmeans", "cluster_qr", "discretize"])
def test_every_label_assignment_finds_clear_groups_as_scikit_learn_does(assign_labels):
    found = spectral_partition(
        BLOCKS, n_clusters=3, max_clusters=6, assign_labels=assign_labels, n_stability=2
    )
    np.testing.assert_array_equal(found.labels, np.repeat([0, 1, 2], 8))
    theirs = SpectralClustering(
        3, affinity="precomputed", assign_labels=assign_labels, random_state=0
    ).fit_predict(BLOCKS)
    np.testing.assert_array_equal(found.labels, canonical_labels(theirs))


def test_label_assignments_are_named_and_empty_subdomains_are_told(monkeypatch):
    with pytest.raises(InputError, match="assign_labels 'spectral'"):
        spectral_partition(BLOCKS, assign_labels="spectral")
    monkeypatch.setattr(spectral, "cluster_qr", lambda vectors: np.repeat([0, 3], 12))
    found = spectral_partition(BLOCKS, n_clusters=4, assign_labels="cluster_qr", n_stability=2)
    assert (found.n_clusters, found.sizes) == (2, (12, 12))
    assert "2 of the subdomains asked for got no item" in found.warnings[0]
    monkeypatch.setattr(spectral, "cluster_qr", lambda vectors: np.zeros(24, dtype=int))
    with pytest.raises(InputError, match="put all 24 items into one subdomain"):
        spectral_partition(BLOCKS, assign_labels="cluster_qr")


def test_a_neighbour_graph_in_parts_is_clustered_with_a_warning():
    linked = nearest_neighbours(BLOCKS, 4)
    for assign_labels in ("kmeans", "cluster_qr", "discretize"):
        found = spectral_partition(
            linked, similarity=BLOCKS, n_clusters=3, max_clusters=5, n_stability=2,
            assign_labels=assign_labels,
        )  # fmt: skip
        assert found.n_components == 3
        np.testing.assert_array_equal(found.labels, np.repeat([0, 1, 2], 8))
        assert "3 parts that share no similarity" in found.warnings[0]
    dense = spectral_partition(BLOCKS, n_clusters=3, max_clusters=5, n_stability=2)
    assert found.silhouettes[3] == pytest.approx(dense.silhouettes[3])


def test_more_parts_than_subdomains_still_give_subdomains():
    pairs = np.kron(np.eye(6), np.ones((2, 2)))
    for assign_labels in ("kmeans", "cluster_qr", "discretize"):
        found = spectral_partition(
            pairs, n_clusters=2, max_clusters=4, assign_labels=assign_labels, n_stability=2
        )
        assert found.n_components == 6
        assert sum(found.sizes) == 12


def test_many_equal_eigenvalues_lose_no_eigenvector():
    """LAPACK's way to a few eigenpairs gives 1 of 4 for these blocks."""
    for sizes in ([14, 48, 48], [48, 30, 20]):
        labels = np.repeat([0, 1, 2], sizes)
        affinity = np.where(labels[:, None] == labels, 1, 0.5).astype(np.float32)
        values, vectors = spectral_embedding(affinity, n_components=4)
        assert vectors.shape == (sum(sizes), 4)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-8)
        assert (np.diff(values) >= -1e-9).all()


def test_one_seed_has_nothing_to_agree_with():
    with pytest.raises(InputError, match="n_stability 1"):
        spectral_partition(np.kron(np.eye(2), np.ones((3, 3))), max_clusters=3, n_stability=1)
