"""How well the difficulty fit keeps its promises, on panels whose truth is known.

    python benchmarks/difficulty_calibration.py            # all cells, about 20 minutes on one core

Writes ``results/recorded/difficulty_calibration.csv`` and its ``.json``: for each number of models
and shape of benchmark the recovery of difficulties, the coverage of their intervals, of abilities
and of the mismatch, the error of the mismatch, and what gaps are called.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from harmony_utils.difficulty import (
    difficulty_posterior,
    find_gaps,
    fit_difficulty,
    measure_mismatch,
    resampled_fits,
    simulate_panel,
    uniform_target,
    wasserstein,
)
from harmony_utils.files import write_atomically, write_json
from harmony_utils.runs import recorded_folder, versions

TARGET = uniform_target(-3, 3)
N_ITEMS = 200
HOLE = (0.0, 1.6)
CELLS = [(n, shape) for shape in ("normal", "hole") for n in (12, 36, 100)]


def difficulties(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Return true difficulties: N(.2, 1.3), or uniform with a hole."""
    if shape == "normal":
        return rng.normal(0.2, 1.3, N_ITEMS)
    low, high = HOLE
    values = rng.uniform(-3, 3 - (high - low), N_ITEMS)
    return np.where(values > low, values + (high - low), values)


def one(n_models: int, shape: str, seed: int, n_resamples: int) -> dict[str, float]:
    """Return the measures of one panel."""
    truth = difficulties(shape, np.random.default_rng(seed))
    panel = simulate_panel(n_models, N_ITEMS, difficulty=truth, random_state=seed)
    started = time.process_time()
    fit = fit_difficulty(panel.responses)
    seconds = time.process_time() - started
    posterior = difficulty_posterior(fit)
    values = panel.responses.values
    ok = (values.min(axis=0) < values.max(axis=0)) & fit.usable
    off = np.abs(fit.difficulty - panel.difficulty)[ok]
    resamples = resampled_fits(panel.responses, fit, n_resamples=n_resamples)
    found = measure_mismatch(fit, TARGET, resamples=resamples, posterior=posterior)
    true = wasserstein(panel.difficulty, TARGET)
    gaps = find_gaps(fit, TARGET, posterior=posterior, n_chance=60)
    called = [gap for gap in gaps if gap.kind == "soft" and gap.verdict == "gap"]
    middle = sum(HOLE) / 2
    return {
        "seconds": seconds,
        "r_difficulty": np.corrcoef(fit.difficulty[ok], panel.difficulty[ok])[0, 1],
        "covered_difficulty": (off < 1.96 * fit.difficulty_se[ok]).mean(),
        "covered_ability": (np.abs(fit.ability - panel.ability) < 1.96 * fit.ability_se).mean(),
        "mismatch_true": true[0],
        "mismatch_error": found.distance - true[0],
        "mismatch_width": found.interval[1] - found.distance,
        "covered_mismatch": found.interval[0] <= true[0] <= found.interval[1],
        "covered_shift": found.shift_interval[0] <= true[1] <= found.shift_interval[1],
        "hole_called": any(gap.low < middle < gap.high for gap in called),
    }


def calibrate(
    cells: Sequence[tuple[int, str]], *, n_panels: int = 100, n_resamples: int = 25
) -> pd.DataFrame:
    """Return the means over panels, one row a cell."""
    rows = []
    for n_models, shape in cells:
        panels = pd.DataFrame([one(n_models, shape, seed, n_resamples) for seed in range(n_panels)])
        means = panels.astype(float).mean()
        rows.append({"n_models": n_models, "shape": shape, "n_items": N_ITEMS, **means})
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def main() -> None:
    """Write the table and what made it."""
    table = calibrate(CELLS).round(4)
    folder = recorded_folder()
    write_atomically(
        folder / "difficulty_calibration.csv", lambda path: table.to_csv(path, index=False)
    )
    about = {
        "command": "python benchmarks/difficulty_calibration.py",
        "panels": 100,
        "resamples": 25,
        "versions": versions(),
    }
    write_json(folder / "difficulty_calibration.json", about)


if __name__ == "__main__":
    main()
