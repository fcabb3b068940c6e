"""The difficulty-stratified null as a step: who judges, and what is said without judges."""

from __future__ import annotations

import numpy as np
import pytest

from harmony_utils.reading import reclustered_reading, stratified_reading
from harmony_utils.runs import Run
from harmony_utils.stages import audit as audit_module
from harmony_utils.stages import open_audit, stratified


@pytest.fixture
def audits(tiny_model, quiz, tmp_path, monkeypatch):
    """One audit with three copies of its run that pose as other models."""
    monkeypatch.setattr(audit_module, "recorded_folder", lambda: tmp_path / "none")
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(tmp_path / "runs"))
    audit.harmony()
    return audit


def pose(audit, name, *, correct, **model):
    """Write a run of another model with these answers."""
    copy = audit.run.copy_slim(
        audit.run.folder.parent / name, keep={"predictions.parquet", "harmony.json"}
    )
    record = copy.record
    for key, value in {"name": name, "source": name, **model}.items():
        copy.update("audit", "model", {**copy.record["audit"]["model"], key: value})
    predictions = audit.predictions()
    predictions.table["correct"] = correct
    predictions.save(copy.path("predictions.parquet"))
    step = copy.record["steps"]["predictions"]
    copy.finish(
        "predictions", key=step["key"], files=["predictions.parquet"], settings=step["settings"]
    )
    assert record["audit"]["benchmark"] == copy.record["audit"]["benchmark"]
    return Run(copy.folder)


def test_three_other_models_are_needed_and_then_asked(audits):
    rng = np.random.default_rng(0)
    assert audits.stratified()["p_value"] is None
    for number in range(3):
        before = audits.key("stratified")
        assert audits.stratified()["n_models"] == number
        pose(audits, f"other{number}", correct=(rng.random(20) < 0.5).astype(float))
        assert audits.key("stratified") != before
        assert audits.is_current("harmony")
    found = audits.stratified()
    assert (found["n_models"], found["n_same_model"]) == (3, 0)
    assert found["n_strata"] > 1
    assert 0 < found["p_value"] <= 1
    assert found["lo"] <= found["median"] <= found["hi"]
    assert "judged by 3 other models" in stratified_reading(found, audits.measure())


def test_equal_judges_say_nothing(audits):
    for number in range(3):
        pose(audits, f"other{number}", correct=np.ones(20))
    found = audits.stratified()
    assert found["reason"] == "the other models find all questions about equally hard"
    assert "cannot be told" in stratified_reading(found, audits.measure())


def test_early_exits_of_the_model_judge_only_where_others_lack(audits):
    own = audits.identity["model"]
    same = {"source": own["source"], "version": own["version"]}
    answers = np.arange(20) % 2.0
    for layer in (1, 2, 3):
        pose(audits, f"exit{layer}", correct=answers, layer=layer, **same)
    found = audits.stratified()
    assert (found["n_models"], found["n_same_model"]) == (3, 3)
    assert "early exits of this very model" in stratified_reading(found, audits.measure())
    for number in range(3):
        pose(audits, f"other{number}", correct=answers)
    pose(audits, "other0--layer-05", correct=answers, source="other0", layer=5)
    found = audits.stratified()
    assert found["models"] == ["other0", "other1", "other2"]
    assert not any(stratified.is_same_model(audits, run) for run in stratified.judges(audits))


def test_the_interval_over_subdomains_is_offered_or_told():
    assert "harmony.recluster=200" in reclustered_reading(None)
    about = {"lo": 0.8, "hi": 0.9, "k_lo": 2.0, "k_hi": 4.0, "n_resamples": 50, "confidence": 0.95}
    assert "between 0.800 and 0.900, with 2 to 4 subdomains" in reclustered_reading(about)
