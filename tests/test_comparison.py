"""Partitions side by side, stability over items, and the competitors of an audit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from harmony_utils.comparison import (
    co_membership,
    compare_partitions,
    length_groups,
    shared_affinity,
)
from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.partition import spectral_partition
from harmony_utils.spectral import cluster_affinity
from harmony_utils.stability import resample_stability
from harmony_utils.stages import competing_partitions, open_audit
from harmony_utils.stages import competitors as competitors_module

GROUPS = np.repeat(range(3), [50, 30, 20])
RNG = np.random.default_rng(0)
CORRECT = (RNG.random(100) < np.array([0.9, 0.5, 0.1])[GROUPS]) * 1.0


def planted(noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    clean = np.where(GROUPS[:, None] == GROUPS, 0.7, 0.3) + noise * rng.normal(size=(100, 100))
    affinity = np.clip((clean + clean.T) / 2, 0, 1)
    np.fill_diagonal(affinity, 1)
    return affinity


def test_a_table_has_a_row_for_each_partition():
    names = np.array(["law", "logic", "art"])[GROUPS]
    chance = RNG.permutation(GROUPS)
    table = compare_partitions(
        CORRECT, {"own": GROUPS, "named": names, "chance": chance}, "own", n_null=500
    )
    assert table["name"].tolist() == ["own", "named", "chance"]
    assert table["ami"][:2].tolist() == pytest.approx([1, 1])
    assert table["ari"][:2].tolist() == pytest.approx([1, 1])
    assert abs(table["ami"][2]) < 0.1
    assert table["p_value"][0] < 0.05 < table["p_value"][2]
    assert table["verdict"][0] == "uneven"
    expected = harmony(CORRECT, GROUPS, n_null=500)
    row = table.iloc[1]
    assert row["harmony"] == pytest.approx(expected.harmony)
    assert row["harmony"] == pytest.approx(row["size_part"] + row["performance_part"])
    assert row[["n_clusters", "smallest", "largest"]].tolist() == [3, 20, 50]


def test_an_unusable_partition_is_named():
    with pytest.raises(InputError, match="partition 'flat'"):
        compare_partitions(CORRECT, {"own": GROUPS, "flat": [0] * 100}, "own")
    with pytest.raises(InputError, match="partition 'short'"):
        compare_partitions(CORRECT, {"own": GROUPS, "short": [0, 1]}, "own")
    with pytest.raises(InputError, match="not among the partitions"):
        compare_partitions(CORRECT, {"own": GROUPS}, "other")


def test_lengths_are_put_together_until_groups_are_large_enough():
    lengths = np.repeat([1, 2, 3, 4, 20], [10, 3, 3, 6, 2])
    groups = length_groups(lengths)
    assert np.bincount(groups).tolist() == [10, 6, 8]
    assert (np.diff(groups) >= 0).all()
    assert length_groups([3, 3, 3]).tolist() == [0, 0, 0]
    assert length_groups([1, 2, 3]).tolist() == [0, 0, 0]


def test_a_shared_affinity_is_the_mean_over_models():
    first, second = planted(seed=0), planted(seed=1)
    mean = shared_affinity(iter([first, second]))
    np.testing.assert_allclose(mean, (first + second) / 2, rtol=1e-6)
    together = shared_affinity([co_membership(GROUPS), co_membership(GROUPS)])
    np.testing.assert_array_equal(together, GROUPS[:, None] == GROUPS)
    with pytest.raises(InputError, match="none to average"):
        shared_affinity([])
    with pytest.raises(InputError, match="same items"):
        shared_affinity([np.eye(2), np.eye(3)])


def test_one_number_of_clusters_gives_the_clusters_of_the_partition():
    affinity = planted()
    found = spectral_partition(affinity, n_clusters=3, n_stability=2)
    alone = cluster_affinity(affinity, 3)
    assert len(set(zip(found.labels.tolist(), alone.tolist(), strict=True))) == 3


def test_clear_blocks_are_stable_over_items_and_noise_is_not():
    clear = resample_stability(planted(), 3, n_resamples=6)
    assert clear["resample_mean_ari"] > 0.95
    assert clear["resample_low_ari"] <= clear["resample_mean_ari"] <= clear["resample_high_ari"]
    assert clear == resample_stability(planted(), 3, n_resamples=6)
    noise = RNG.random((100, 100))
    flat = resample_stability((noise + noise.T) / 2, 3, n_resamples=6)
    assert flat["resample_mean_ari"] < 0.5


@pytest.mark.parametrize(
    ("n_clusters", "options"),
    [(1, {}), (80, {}), (3, {"share": 0.5}), (3, {"share": 1.1}), (3, {"n_resamples": 1})],
)
def test_resamples_out_of_range_are_refused(n_clusters, options):
    with pytest.raises(InputError, match="resamples"):
        resample_stability(planted(), n_clusters, **options)


@pytest.fixture(scope="module")
def audits(tmp_path_factory):
    """Two tiny models on a quiz with subjects, in one root."""
    from conftest import build_model, write_quiz

    folder = tmp_path_factory.mktemp("rivals")
    quiz = write_quiz(folder / "quiz.jsonl", 24)
    models = [build_model(folder / name, seed=seed) for seed, name in enumerate(("one", "two"))]
    found = [
        open_audit(model=str(m), benchmark=str(quiz), run_dir=str(folder / "runs")) for m in models
    ]
    for audit in found:
        audit.clustering(n_clusters=3)
        audit.harmony()
    return found


@pytest.fixture
def words_for_sentences(monkeypatch):
    """Spare the encoder."""
    monkeypatch.setattr(
        competitors_module,
        "embed_texts",
        lambda texts, encoder: RNG.normal(size=(len(texts), 5)).astype(np.float32),
    )


@pytest.mark.usefixtures("words_for_sentences")
def test_competitors_of_an_audit(audits):
    found = competing_partitions(audits[0])
    assert next(iter(found.labels)) == found.reference == "predictive similarity"
    assert {
        "random, same sizes",
        "MiniLM sentences",
        "TF-IDF words",
        "subjects",
        "answers of two",
        "shared by 2 models",
    } <= set(found.labels)
    assert set(found.left_out) == {"words in the answer"}  # every answer is one number
    assert all(len(labels) == 24 for labels in found.labels.values())
    own = audits[0].clustering()
    np.testing.assert_array_equal(found.labels[found.reference], own.labels)
    np.testing.assert_array_equal(found.labels["answers of two"], audits[1].clustering().labels)
    sizes = np.sort(np.bincount(found.labels["random, same sizes"]))[::-1]
    assert tuple(sizes.tolist()) == own.sizes
    for name in ("MiniLM sentences", "TF-IDF words", "shared by 2 models"):
        assert found.labels[name].max() == 2
    table = compare_partitions(
        audits[0].predictions().correct, found.labels, found.reference, n_null=100
    )
    assert len(table) == len(found.labels)


@pytest.mark.usefixtures("words_for_sentences")
def test_a_large_benchmark_is_sampled_and_peers_without_divergence_still_share(audits, monkeypatch):
    found = competing_partitions(audits[1], max_items=20)
    assert len(found.items) == 20
    assert (np.diff(found.items) > 0).all()
    assert all(len(labels) == 20 for labels in found.labels.values())
    divergence = audits[0].run.path("divergence.npy")
    kept = divergence.read_bytes()
    divergence.unlink()
    try:
        again = competing_partitions(audits[1])
        assert "shared by 2 models" in again.labels
    finally:
        divergence.write_bytes(kept)


@pytest.mark.usefixtures("words_for_sentences")
def test_without_subjects_or_peers_those_rows_are_left_out(audits, tmp_path):
    lines = [
        json.dumps({"id": i, "question": f"What is {i}?", "options": ["a", "b c"], "gold": i % 2})
        for i in range(20)
    ]
    (tmp_path / "plain.jsonl").write_text("\n".join(lines), encoding="utf-8")
    audit = open_audit(
        model=audits[0].model, benchmark=str(tmp_path / "plain.jsonl"), run_dir=str(tmp_path / "r")
    )
    found = competing_partitions(audit)
    assert "20 of 20 questions have no subject" in found.left_out["subjects"]
    assert "same questions" in found.left_out["other models"]
    assert found.labels["words in the answer"].max() == 1
