"""The calibration of the difficulty fit: its script runs, and what it recorded is bounded."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harmony_utils.difficulty.checks import _upper_limit
from harmony_utils.difficulty.differential import _normalised
from harmony_utils.files import read_json
from harmony_utils.runs import recorded_folder
from harmony_utils.stages import (
    recorded_difficulty_calibration,
    recorded_false_alarms,
    recorded_suspected_keys,
)


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "difficulty_calibration.py"
    spec = importlib.util.spec_from_file_location("difficulty_calibration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_recorded_tables_are_those_of_the_script(script):
    table, alarms = recorded_difficulty_calibration(), recorded_false_alarms()
    about = read_json(recorded_folder() / "difficulty_calibration.json")
    assert list(table[["n_models", "shape_of_items"]].itertuples(index=False, name=None)) == (
        script.CELLS
    )
    assert alarms["n_models"].tolist() == list(script.MODELS)
    keys = recorded_suspected_keys()
    assert list(keys[["planted", "n_models"]].itertuples(index=False, name=None)) == [
        (planted, n_models) for planted in script.PLANTED for n_models in script.KEY_MODELS
    ]
    assert about["command"] == "python benchmarks/difficulty_calibration.py"
    assert about["first_panel"] == script.FIRST
    assert (table["n_panels"] == about["panels"]).all()
    fresh = script.calibrate([(12, "normal")], n_panels=2, n_draws=20)
    assert list(fresh.columns) == list(table.columns)
    assert list(script.false_alarms([12], n_panels=2).columns) == list(alarms.columns)
    assert list(script.suspicion([12], n_panels=1, n_draws=20).columns) == list(keys.columns)


def test_a_killed_calibration_goes_on_and_ends_the_same(script, tmp_path):
    path = tmp_path / "partial.jsonl"
    settings = {"n_panels": 3, "n_draws": 10}
    whole = script.suspicion([8], **settings, kept=script.Kept(path))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:30])  # killed while writing the third
    again = script.suspicion([8], **settings, kept=script.Kept(path))
    pd.testing.assert_frame_equal(whole, again)
    assert len(path.read_text().splitlines()) == len(lines)
    kept = script.Kept(path)
    assert kept.seconds > 0
    pd.testing.assert_frame_equal(whole, script.suspicion([8], **settings, kept=kept))


def test_recorded_coverage_and_suspicion_are_bounded():
    """Wide enough for chance among tens of panels, and for what the docstrings admit."""
    table, keys = recorded_difficulty_calibration(), recorded_suspected_keys()
    for kind in ("difficulty", "ability", "linked"):
        assert table[kind].between(0.92, 0.98).all(), kind
    assert table["slope"].between(0.89, 0.97).all()
    assert table[["distance", "shift", "shape"]].gt(0.84).all(axis=None)
    planted = keys[keys["planted"] > 0].set_index("n_models")
    assert (planted["precision"] > 0.7).all()
    assert (planted["recall"].diff().dropna() > 0).all()
    assert planted.loc[36, "recall"] > 0.8
    assert (keys.loc[keys["planted"] == 0, "listed"] < 0.01).all()


def test_a_panel_gives_the_same_measures_each_time(script):
    first, again = (script.one(12, "hole", 0, 20) for _ in range(2))
    timed = {"seconds_fit", "seconds_posterior"}
    assert {k: v for k, v in first.items() if k not in timed} == {
        k: v for k, v in again.items() if k not in timed
    }


def test_the_limit_of_a_null_is_exceeded_in_five_percent():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(20_000, 21))
    limits = np.array([_upper_limit(row[:20].tolist()) for row in draws])
    assert (draws[:, 20] > limits).mean() == pytest.approx(1 / 21, abs=0.005)
    assert _upper_limit([3.0, 1.0, 2.0]) == 3.0


def test_skewed_sums_get_normal_tails():
    """Ten answers at a chance of 8 %: the upper tail is far too heavy before, and right after."""
    rng = np.random.default_rng(1)
    chance, n = 0.08, 10
    deviation = np.sqrt(n * chance * (1 - chance))
    z = (rng.binomial(n, chance, 200_000) - n * chance) / deviation
    skewness = np.full(len(z), (1 - 2 * chance) / deviation)
    before, after = (z > 3).mean(), (_normalised(z, skewness) > 3).mean()
    assert before > 0.005
    assert after < 0.5 * before
    grid = np.linspace(-8, 8, 2001)
    assert (np.diff(_normalised(grid, np.full(2001, 0.7))) > -1e-12).all()  # rising
