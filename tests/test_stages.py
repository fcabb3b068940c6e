"""Stages: what is finished is reused, what changed is computed again, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from harmony_utils import stages
from harmony_utils.errors import InputError
from harmony_utils.settings import parse_assignments
from harmony_utils.stages import STEPS, open_audit
from harmony_utils.stages import audit as audit_module
from harmony_utils.stages import compute as compute_module


@pytest.fixture(scope="module")
def root(tiny_model, quiz, tmp_path_factory):
    """A root with one audit computed to its end."""
    root = tmp_path_factory.mktemp("stages")
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(root))
    finish(audit)
    audit.sensitivity(n_specifications=20, neighbours=[0, 4])
    return root


def finish(audit):
    audit.stratified()
    audit.rebalancing()
    audit.scaling()


@pytest.fixture
def counted(monkeypatch):
    """Names of the steps that were computed."""
    computed = []
    for name, function in list(audit_module.COMPUTE.items()):

        def wrapped(audit, name=name, function=function):
            computed.append(name)
            function(audit)

        monkeypatch.setitem(audit_module.COMPUTE, name, wrapped)
    return computed


def reopen(tiny_model, quiz, root):
    return open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(root))


def test_everything_is_there_and_reused(tiny_model, quiz, root, counted):
    audit = reopen(tiny_model, quiz, root)
    own = "divergence-gold-mean"  # the run's own variant is in divergence.npy
    assert all(audit.is_current(name) for name in STEPS if name != own)
    assert len(audit.predictions()) == 20
    assert audit.distributions().shape == (20, 320)
    affinity = audit.affinity()
    assert affinity.divergence.shape == affinity.affinity.shape == (20, 20)
    assert affinity.similarity is affinity.affinity
    partition = audit.clustering()
    assert sum(partition.sizes) == 20
    result = audit.harmony()
    assert 0 <= result.harmony <= 1
    assert len(audit.rebalancing().kept["near-duplicate"]["0.5"]) == 10
    assert audit.stratified()["reason"].startswith("0 other models answered")
    assert audit.scaling().trends["verdict"].unique().tolist() == ["cannot tell"]
    assert counted == []
    assert not (audit.run.folder / "parts").exists()


def test_clustering_names_its_subdomains_and_resamples_the_questions(tiny_model, quiz, root):
    audit = reopen(tiny_model, quiz, root)
    partition, names = audit.clustering(), audit.subdomain_names()
    assert len(names) == partition.n_clusters
    ids = [item.id for item in audit.benchmark.items]
    for label, name in enumerate(names):
        assert len(name.example_ids) == min(3, partition.sizes[label])
        assert {partition.labels[ids.index(i)] for i in name.example_ids} == {label}
    assert partition.stability["n_seeds"] == 10
    if partition.n_clusters < 16:
        assert -0.5 <= partition.stability["resample_mean_ari"] <= 1
    elif not partition.stability["n_resamples"]:
        assert any("too few questions" in warning for warning in partition.warnings)
    assert "cluster_names" not in partition.to_dict()


def test_resamples_are_left_out_where_they_would_take_long(tiny_model, quiz, tmp_path, monkeypatch):
    monkeypatch.setattr(compute_module, "RESAMPLE_ITEMS", 10)
    partition = reopen(tiny_model, quiz, tmp_path).clustering()
    assert partition.stability["n_resamples"] == 0
    assert "resample_mean_ari" not in partition.stability
    assert any("more than 10 questions" in warning for warning in partition.warnings)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("scaling.confidence=0.9", ["scaling"]),
        ("harmony.bandwidth=0.3", ["harmony", "rebalancing", "scaling"]),
        ("affinity.temperature=0.2", ["affinity", "clustering", "harmony", "rebalancing"]),
        ("affinity.neighbours=5", ["affinity", "clustering", "harmony", "rebalancing"]),
        ("clustering.assign_labels=cluster_qr", ["clustering", "harmony", "rebalancing"]),
        ("predictions.batch_size=3", []),
    ],
)
def test_a_changed_setting_computes_what_depends_on_it(
    tiny_model, quiz, root, counted, assignment, expected
):
    finish(reopen(tiny_model, quiz, root).configure(parse_assignments([assignment])))
    assert set(expected) <= set(counted)
    assert "predictions" not in counted
    assert "divergence" not in counted
    assert bool(expected) == bool(counted)
    finish(reopen(tiny_model, quiz, root).configure(parse_assignments([])))


def test_reopened_without_settings_an_audit_keeps_those_of_its_run(tiny_model, quiz, tmp_path):
    audit = reopen(tiny_model, quiz, tmp_path)
    audit.affinity(temperature=0.25)
    again = reopen(tiny_model, quiz, tmp_path)
    assert again.settings("affinity").temperature == 0.25
    assert again.affinity().temperature == 0.25


def test_other_questions_are_another_result(tiny_model, quiz, root, counted):
    other = open_audit(
        model=str(tiny_model), benchmark=str(quiz), limit=12, run_dir=str(root / "other")
    )
    assert len(other.predictions()) == 12
    assert counted == ["predictions"]


def test_early_exits_make_a_trend(tiny_model, quiz, root):
    exits = open_audit(model=f"{tiny_model}#layer=1", benchmark=str(quiz), run_dir=str(root))
    exits.harmony()
    table = reopen(tiny_model, quiz, root).scaling().table
    assert table["axis"].unique().tolist() == ["layer"]
    assert table["axis_value"].tolist() == [1, 2]


def test_recorded_results_stand_in_where_they_fit(
    tiny_model, quiz, root, tmp_path, monkeypatch, counted
):
    source = reopen(tiny_model, quiz, root)
    place = source.run.folder.relative_to(root)
    recorded = tmp_path / "recorded"
    source.run.copy_slim(
        recorded / place, keep={f for s in STEPS.values() for f in s.files} - {"distributions.npy"}
    )
    monkeypatch.setattr(audit_module, "recorded_folder", lambda: recorded)
    fresh = reopen(tiny_model, quiz, tmp_path / "a")
    np.testing.assert_array_equal(fresh.clustering().labels, source.clustering().labels)
    assert counted == []
    assert fresh.run.step("predictions")["origin"] == "recorded"
    assert fresh.distributions().shape == (20, 320)
    assert counted == ["predictions"]
    never = open_audit(
        model=str(tiny_model),
        benchmark=str(quiz),
        run_dir=str(tmp_path / "b"),
        use_recorded=False,
    )
    never.predictions()
    assert counted == ["predictions", "predictions"]


def test_an_interrupted_step_leaves_the_finished_ones(tiny_model, quiz, tmp_path, monkeypatch):
    audit = reopen(tiny_model, quiz, tmp_path)
    audit.predictions()

    def broken(audit):
        raise RuntimeError("broken")

    monkeypatch.setitem(audit_module.COMPUTE, "clustering", broken)
    with pytest.raises(RuntimeError):
        audit.harmony()
    assert audit.is_current("affinity")
    assert not audit.is_current("clustering")
    monkeypatch.undo()
    assert reopen(tiny_model, quiz, tmp_path).harmony().n_items == 20


def test_names_are_needed():
    with pytest.raises(InputError, match="both a model and a benchmark"):
        stages.open_audit(model="", benchmark="arc_easy")


def test_large_files_that_a_run_dropped_are_computed_again(tiny_model, quiz, tmp_path):
    """A slim run lacks distributions and divergences; a newer clustering needs them."""
    audit = reopen(tiny_model, quiz, tmp_path)
    labels = audit.clustering().labels
    for name in ("distributions.npy", "divergence.npy"):
        audit.run.path(name).unlink()
    again = reopen(tiny_model, quiz, tmp_path)
    again.compute("clustering")
    np.testing.assert_array_equal(again.clustering().labels, labels)
