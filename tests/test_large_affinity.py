"""Clustering of a sparse affinity, and the whole line on a benchmark declared too large."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score
from test_partition import BLOCKS, planted

from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.graph import check_affinity, connected_components, within_and_between
from harmony_utils.neighbours import nearest_divergences, nearest_neighbours
from harmony_utils.partition import central_items, spectral_partition
from harmony_utils.settings import LANDMARKS, AffinitySettings, parse_assignments
from harmony_utils.spectral import cluster_affinity, spectral_embedding
from harmony_utils.stability import resample_stability
from harmony_utils.stages import open_audit, recorded_large_affinity

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "large_affinity.py"
FEW = "affinity.all_pairs_up_to=8"


@pytest.mark.parametrize("dense_items", [10, 2000])  # by Lanczos, and as a dense matrix
def test_a_sparse_affinity_has_the_spectrum_of_the_dense_one(monkeypatch, dense_items):
    monkeypatch.setattr("harmony_utils.spectral.DENSE_ITEMS", dense_items)
    linked = nearest_neighbours(planted((90, 60, 40))[0], 60)
    values, vectors = spectral_embedding(linked, n_components=4)
    found, same = spectral_embedding(csr_array(linked), n_components=4)
    np.testing.assert_allclose(found, values, atol=1e-6)
    np.testing.assert_allclose(same, vectors, atol=1e-4)


def test_subdomains_of_a_sparse_affinity_are_those_of_the_dense_one():
    affinity, blocks = planted((60, 40, 30))
    linked = nearest_neighbours(affinity, 25)
    options = {"max_clusters": 6, "n_stability": 2}
    dense = spectral_partition(linked, similarity=affinity, **options)
    found = spectral_partition(csr_array(linked), similarity=affinity, **options)
    np.testing.assert_array_equal(found.labels, dense.labels)
    assert adjusted_rand_score(blocks, found.labels) == 1
    assert found.silhouettes[3] == pytest.approx(dense.silhouettes[3])
    assert (found.n_components, found.n_measured) == (dense.n_components, 0)
    np.testing.assert_array_equal(
        [items.tolist() for items in central_items(csr_array(linked), found.labels)],
        [items.tolist() for items in central_items(linked, found.labels)],
    )
    stable = resample_stability(csr_array(linked), 3, n_resamples=3)
    assert (
        stable["resample_mean_ari"]
        == resample_stability(linked, 3, n_resamples=3)["resample_mean_ari"]
    )
    assert set(cluster_affinity(csr_array(linked), 3)) == {0, 1, 2}


def test_silhouettes_of_a_sample_are_near_those_of_all():
    affinity, _ = planted((300, 200, 100))
    items = np.sort(np.random.default_rng(0).choice(600, 200, replace=False))
    linked = csr_array(nearest_neighbours(affinity, 60))
    options = {"max_clusters": 4, "n_stability": 2}
    every = spectral_partition(linked, similarity=affinity, **options)
    found = spectral_partition(
        linked, similarity=affinity[np.ix_(items, items)], items=items, **options
    )
    assert found.n_measured == 200
    assert found.n_clusters == every.n_clusters == 3
    assert found.silhouettes[3] == pytest.approx(every.silhouettes[3], abs=0.02)
    embedded = spectral_partition(
        linked,
        similarity=affinity[np.ix_(items, items)],
        items=items,
        silhouette_distance="embedding",
        **options,
    )
    assert embedded.silhouettes[3] > 0.5


def test_a_subdomain_that_no_sampled_item_is_in_leaves_a_silhouette():
    affinity, _ = planted((30, 30, 3))
    labels = spectral_partition(affinity, n_clusters=3, max_clusters=4, n_stability=2).labels
    items = np.flatnonzero(labels < 2)
    found = spectral_partition(
        csr_array(affinity), similarity=affinity[np.ix_(items, items)], items=items,
        n_clusters=3, max_clusters=4, n_stability=2,
    )  # fmt: skip
    assert np.isfinite(list(found.silhouettes.values())).all()
    alone = np.flatnonzero(labels == 0)
    found = spectral_partition(
        csr_array(affinity), similarity=affinity[np.ix_(alone, alone)], items=alone,
        n_clusters=3, max_clusters=3, n_stability=2,
    )  # fmt: skip
    assert found.silhouettes[3] == -1


def test_a_sparse_affinity_is_checked():
    good = csr_array(nearest_neighbours(BLOCKS, 4))
    assert check_affinity(good) == 24
    assert connected_components(good) == 3
    with pytest.raises(InputError, match="give the similarity of a sample"):
        spectral_partition(good)
    with pytest.raises(InputError, match=r"similarity of shape \(24, 24\) for 2 items"):
        spectral_partition(good, similarity=BLOCKS, items=np.array([0, 1]))
    lopsided = good.copy()
    lopsided.data[1] += 0.5
    with pytest.raises(InputError, match="not symmetric"):
        check_affinity(lopsided)
    lopsided.data[1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        check_affinity(lopsided)
    with pytest.raises(InputError, match="every pair of items has similarity"):
        check_affinity(csr_array(np.eye(5)))
    with pytest.raises(InputError, match=r"every pair of items has similarity 0\.5"):
        check_affinity(csr_array(np.full((5, 5), 0.5)))


def test_within_and_between_are_plain_means():
    affinity, blocks = planted((9, 6, 1))
    same = blocks[:, None] == blocks
    pairs = ~np.eye(16, dtype=bool)
    within, between = within_and_between(affinity, blocks)
    assert within == pytest.approx(affinity[same & pairs].mean(), rel=1e-5)
    assert between == pytest.approx(affinity[~same].mean(), rel=1e-5)
    assert np.isnan(within_and_between(affinity, np.arange(16))[0])
    assert np.isnan(within_and_between(affinity, np.zeros(16))[1])


def test_the_threshold_is_no_part_of_a_run_that_does_not_reach_it():
    assert AffinitySettings().identity() == {"temperature": "median", "floor": 1e-10}
    few = AffinitySettings(all_pairs_up_to=8, neighbours=3)
    assert few.reduced_to(8) == {}
    assert few.reduced_to(9) == {"neighbours": 3, "random_state": 0}
    many = AffinitySettings(all_pairs_up_to=8, random_state=4).reduced_to(20)
    assert many == {"landmarks": 20, "random_state": 4}


FILES = {
    "neighbours": {"divergence-nearest.npy", "divergence-sample.npy"},
    "landmarks": {"divergence-landmarks.npy"},
}


@pytest.fixture(scope="module", params=["landmarks=9", "neighbours=4"])
def large(request, tiny_model, quiz, tmp_path_factory):
    """An audit of 20 questions that is told to take 8 for many."""
    root = tmp_path_factory.mktemp("large")
    return reopen(tiny_model, quiz, root, FEW, f"affinity.{request.param}")


def reopen(tiny_model, quiz, root, *assignments):
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(root))
    return audit.configure(parse_assignments(list(assignments)))


def test_the_whole_line_runs_without_all_pairs(large):
    affinity = large.affinity()
    assert affinity.affinity.shape == (20, 20)
    what, number = next(iter(large.reduced.items()))
    if what == "landmarks":
        assert affinity.is_sample
        assert affinity.divergence.shape == affinity.similarity.shape == (9, 9)
        known = affinity.affinity.toarray()[np.ix_(affinity.items, affinity.items)]
        np.testing.assert_allclose(affinity.similarity, known, atol=1e-3)
    else:
        assert affinity.affinity.nnz < 400
    assert not large.run.path("divergence.npy").exists()
    partition = large.clustering()
    assert sum(partition.sizes) == 20
    said = {"landmarks": "9 landmarks that", "neighbours": "4 most similar questions"}[what]
    assert any(said in w and "not on all pairs" in w for w in partition.warnings)
    measured = [w for w in partition.warnings if "silhouettes are those of 9 of 20" in w]
    assert len(measured) == (what == "landmarks")
    assert len(large.subdomain_names()) == partition.n_clusters
    assert 0 <= large.harmony().harmony <= 1
    left_out = large.rebalancing().left_out["near-duplicate"]
    assert "removing near-duplicates needs all pairs of questions" in left_out
    assert "near-duplicate" not in large.rebalancing().kept
    assert len(large.scaling().table) == 1
    about = read_json(large.run.path("affinity.json"))
    assert (about[what], about["n_sampled"]) == (number, len(affinity.items))
    assert set(large.run.step("divergence")["files"]) == FILES[what]


def test_a_sample_stands_for_all_where_they_are_many(tiny_model, quiz, tmp_path, monkeypatch):
    drawn = np.array([0, 3, 4, 7, 8, 11, 13, 17, 19])
    monkeypatch.setattr("harmony_utils.stages.large.sample_items", lambda n, **_: drawn)
    audit = reopen(tiny_model, quiz, tmp_path, FEW, "affinity.neighbours=6")
    affinity = audit.affinity()
    assert affinity.is_sample
    assert affinity.divergence.shape == affinity.similarity.shape == (9, 9)
    linked = affinity.affinity.toarray()[np.ix_(drawn, drawn)]
    there = linked > 0
    np.testing.assert_allclose(affinity.similarity[there], linked[there], rtol=1e-4)
    assert audit.clustering().n_measured == 9
    assert any("those of 9 of 20 questions" in w for w in audit.clustering().warnings)


@pytest.mark.parametrize("what", ["landmarks", "neighbours"])
def test_the_forms_replace_each_other(tiny_model, quiz, tmp_path, what):
    # 19 links of 20 questions are all pairs, and so are 20 landmarks: the same subdomains
    every = (FEW, f"affinity.{what}={20 - (what == 'neighbours')}")
    reduced = reopen(tiny_model, quiz, tmp_path, *every)
    labels = reduced.clustering().labels
    dense = reopen(tiny_model, quiz, tmp_path)
    assert not dense.is_current("divergence")
    assert dense.affinity().similarity.shape == (20, 20)
    assert not any(dense.run.path(file).exists() for file in FILES[what])
    np.testing.assert_array_equal(dense.clustering().labels, labels)
    again = reopen(tiny_model, quiz, tmp_path, *every)
    again.affinity()
    assert not again.run.path("divergence.npy").exists()
    assert all(again.run.path(file).exists() for file in FILES[what])


def test_another_seed_draws_other_landmarks(tiny_model, quiz, tmp_path):
    one = reopen(tiny_model, quiz, tmp_path, FEW, "affinity.landmarks=6")
    items = one.affinity().items
    other = reopen(
        tiny_model, quiz, tmp_path, FEW, "affinity.landmarks=6", "affinity.random_state=1"
    )
    assert not other.is_current("divergence")
    assert other.affinity().items.tolist() != items.tolist()


@pytest.mark.parametrize("what", ["landmarks", "neighbours"])
def test_a_dropped_file_is_computed_again(tiny_model, quiz, tmp_path, what):
    few = (FEW, f"affinity.{what}=9")
    audit = reopen(tiny_model, quiz, tmp_path, *few)
    labels = audit.clustering().labels
    audit.run.path(next(iter(FILES[what]))).unlink()
    again = reopen(tiny_model, quiz, tmp_path, *few)
    np.testing.assert_array_equal(again.clustering().labels, labels)


def test_what_takes_all_pairs_is_refused_before_anything_is_scored(tiny_model, quiz, tmp_path):
    with pytest.raises(InputError, match=r"harmony\.recluster needs all pairs"):
        reopen(tiny_model, quiz, tmp_path, FEW, "harmony.recluster=20")
    audit = reopen(tiny_model, quiz, tmp_path, FEW)
    with pytest.raises(InputError, match=r"sensitivity analysis needs all pairs.*--limit"):
        audit.sensitivity()
    assert not audit.run.path("predictions.parquet").exists()


def test_keys_of_runs_with_all_pairs_stay(tiny_model, quiz, tmp_path):
    audit = reopen(tiny_model, quiz, tmp_path)
    audit.predictions()
    keys = {name: audit.key(name) for name in ("divergence", "affinity")}
    far = reopen(tiny_model, quiz, tmp_path, "affinity.all_pairs_up_to=20")
    assert far.key("divergence") == keys["divergence"]
    near = reopen(tiny_model, quiz, tmp_path, FEW)
    assert near.key("divergence") != keys["divergence"]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("large_affinity", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_recorded_comparison_is_that_of_the_script(script):
    table = recorded_large_affinity()
    both = table[table["part"] == "compare"]
    assert both["route"].tolist()[:2] == ["all pairs", "all pairs, other seed"]
    for what, numbers in script.NUMBERS.items():
        assert both.loc[both["route"] == what, "number"].tolist() == [*numbers]
    assert LANDMARKS in script.NUMBERS["landmarks"]
    assert both.iloc[0][["ami", "ari", "ami_same_number"]].tolist() == [1, 1, 1]
    sizes = table[table["part"] == "size"]
    assert {"all pairs", "landmarks"} == set(sizes.loc[sizes["data"] == "mmlu", "route"])
    assert {"neighbours", "landmarks"} <= set(sizes.loc[sizes["data"] == "made up", "route"])
    assert not table.duplicated(script.KEYS).any()


def test_fewer_links_of_a_graph_are_those_of_a_search_for_fewer(script):
    logits = np.random.default_rng(0).normal(size=(50, 30))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = script.fewer_links(nearest_divergences(logs, 12), 5)
    expected = nearest_divergences(logs, 5)
    np.testing.assert_allclose(found.toarray(), expected.toarray())
    assert found.nnz == expected.nnz
