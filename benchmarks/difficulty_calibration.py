"""How well the difficulty fit keeps its promises, on panels whose truth is known.

    python benchmarks/difficulty_calibration.py

takes about half an hour on one core. Each panel's measures are kept in the file named by
``--partial`` as soon as they are there, so that the same command goes on after a kill. At the end
it writes, into ``results/recorded``, ``difficulty_calibration.csv``: for each number of models and
shape of benchmark the coverage of every interval, the errors of the mismatch and what gaps are
called; ``difficulty_false_alarms.csv``: how often the checks of the fit object to answers that the
model itself gave; ``difficulty_keys.csv``: how many planted wrong keys are suspected, and how many
good ones; and ``difficulty_calibration.json``, what made them. A share of n panels is known
to plus or minus ``1.96 * sqrt(share * (1 - share) / n)``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harmony_utils.difficulty import (
    check_fit,
    differential_items,
    differential_subjects,
    difficulty_posterior,
    find_gaps,
    fit_difficulty,
    measure_mismatch,
    simulate_panel,
    uniform_target,
    wasserstein,
)
from harmony_utils.files import write_atomically, write_json
from harmony_utils.filling.linking import link
from harmony_utils.runs import recorded_folder, versions

TARGET, INNER = uniform_target(-3, 3), uniform_target(-2, 2)
N_ITEMS, N_LINKED = 200, 50
HOLE = (0.0, 1.6)
SHAPES = ("normal", "hole")
MODELS = (12, 36, 100)
PLANTED, KEY_MODELS = (0.0, 0.05), (8, *MODELS)
CELLS = [(n_models, shape) for shape in SHAPES for n_models in MODELS]
FIRST = 5_000_000
"""Number of the first panel: constants of the method were chosen on panels far below it."""


def difficulties(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Return true difficulties: N(.2, 1.3), or uniform with a hole."""
    if shape == "normal":
        return rng.normal(0.2, 1.3, N_ITEMS)
    low, high = HOLE
    values = rng.uniform(-3, 3 - (high - low), N_ITEMS)
    return np.where(values > low, values + (high - low), values)


def inside(truth: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return whether intervals, shape (2, n), hold the truth."""
    return (ends[0] <= truth) & (truth <= ends[1])


def one(n_models: int, shape: str, number: int, n_draws: int) -> dict[str, float]:
    """Return the measures of one panel. Truth and answers have seeds that share nothing."""
    seed = [n_models, SHAPES.index(shape), number]
    rng = np.random.default_rng(seed)
    panel = simulate_panel(
        n_models,
        N_ITEMS,
        difficulty=difficulties(shape, rng),
        ability=rng.normal(size=n_models),
        random_state=int(rng.integers(2**31)),
    )
    started = time.process_time()
    fit = fit_difficulty(panel.responses)
    fitted = time.process_time()
    posterior = difficulty_posterior(fit, panel.responses, n_draws=n_draws, random_state=number)
    drawn = time.process_time()
    places, values = posterior.places, panel.responses.values
    varied = (values.min(axis=0) < values.max(axis=0)) & fit.usable
    off = np.abs(fit.difficulty - panel.difficulty)
    true = wasserstein(panel.difficulty, TARGET)
    found = measure_mismatch(fit, TARGET, posterior=posterior)
    wanted = np.array([found.interval, found.shift_interval, found.shape_interval]).T
    covered = inside(true, wanted)
    abilities = np.quantile(posterior.abilities, [0.025, 0.975], axis=0)
    return {
        "seconds_fit": fitted - started,
        "seconds_posterior": drawn - fitted,
        "r_difficulty": np.corrcoef(posterior.mean, panel.difficulty[places])[0, 1],
        "difficulty": inside(panel.difficulty[places], posterior.interval()).mean(),
        "difficulty_of_fit": (off < 1.96 * fit.difficulty_se)[varied].mean(),
        "slope": slope_coverage(panel, posterior),
        "ability": inside(panel.ability, abilities).mean(),
        "ability_of_fit": (np.abs(fit.ability - panel.ability) < 1.96 * fit.ability_se).mean(),
        "distance": covered[0],
        "shift": covered[1],
        "shape": covered[2],
        "linked": linked_coverage(panel),
        "distance_true": true[0],
        "distance_error": found.distance - true[0],
        "distance_width": found.interval[1] - found.interval[0],
        "shift_error": found.shift - true[1],
        "shape_error": found.shape - true[2],
        **gap_calls(fit, posterior),
    }


def slope_coverage(panel, posterior) -> float:
    """Return the coverage of mean and 1.96 standard deviations of all slopes' draws."""
    off = np.abs(posterior.slopes.mean(axis=0) - panel.slope)
    return float((off < 1.96 * posterior.slopes.std(axis=0)).mean())


def linked_coverage(panel) -> float:
    """Return the coverage of items that are linked to a fit of the others."""
    responses, first = panel.responses, N_ITEMS - N_LINKED
    originals = responses.select(items=range(first))
    linked = link(
        fit_difficulty(originals), originals, responses.values[:, first:], responses.items[first:]
    )
    usable = linked.usable[first:]
    off = np.abs(linked.difficulty - panel.difficulty)[first:]
    return float((off < 1.96 * linked.difficulty_se[first:])[usable].mean())


def gap_calls(fit, posterior) -> dict[str, float]:
    """Return whether the hole's place is called a gap, and whether any other place within -2 to 2.

    Near the ends the answers of a pool from -2 to 2 say little, and a normal benchmark is thin.
    """
    gaps = find_gaps(fit, TARGET, posterior=posterior, n_chance=60)
    inner = find_gaps(fit, INNER, posterior=posterior, n_chance=60)
    middle = sum(HOLE) / 2
    soft = [gap for gap in gaps if gap.kind == "soft" and gap.low < middle < gap.high]
    elsewhere = [gap for gap in inner if not (gap.low < HOLE[1] and gap.high > HOLE[0])]
    return {
        "hole_called": any(gap.verdict == "gap" for gap in soft),
        "other_called": any(gap.verdict == "gap" for gap in elsewhere),
    }


def alarms(n_models: int, number: int, n_items: int = 100) -> dict[str, float]:
    """Return what the checks say of answers that the model itself gave: every alarm is false.

    ``…_any``: something is flagged, at a nominal 5 %; ``…_p``: share of p-values below 5 %.
    """
    subjects = [f"subject {j % 5}" for j in range(n_items)]
    panel = simulate_panel(
        n_models, n_items, subjects=subjects, random_state=10_000 * n_models + number
    )
    responses = panel.responses
    fit = fit_difficulty(responses)
    checks = check_fit(fit, responses, random_state=number)
    family = np.array(["a", "b"] * n_models)[:n_models]
    items = differential_items(fit, responses, group=family)
    parts = differential_subjects(fit, responses)
    return {
        "item_fit_p": (checks.items["p_value"] < 0.05).mean(),
        "item_fit_any": checks.items["flagged"].any(),
        "dependence_any": checks.n_dependent > 0,
        "dimension_any": not checks.one_dimensional,
        "item_group_p": (items["p_value"] < 0.05).mean(),
        "item_group_any": items["flagged"].any(),
        "model_subject_p": (parts["p_value"] < 0.05).mean(),
        "model_subject_any": parts["flagged"].any(),
    }


def keys(n_models: int, planted: float, number: int, n_draws: int) -> dict[str, float]:
    """Return how many items are suspected, and how many of them have a planted wrong key.

    ``…_sure``: those whose probability of a negative slope is above .95.
    """
    seed = np.random.default_rng([n_models, round(1000 * planted), number]).integers(2**31)
    panel = simulate_panel(n_models, N_ITEMS, wrong_keys=planted, random_state=int(seed))
    fit = fit_difficulty(panel.responses)
    posterior = difficulty_posterior(fit, panel.responses, n_draws=n_draws, random_state=number)
    listed, sure = posterior.p_negative > 0.5, posterior.p_negative > 0.95
    return {
        "planted": panel.reversed.sum(),
        "listed": listed.sum(),
        "found": (listed & panel.reversed).sum(),
        "listed_sure": sure.sum(),
        "found_sure": (sure & panel.reversed).sum(),
        "slope": slope_coverage(panel, posterior),
    }


class Kept:
    """Measures of single panels, kept in a file of JSON lines and not computed again.

    Parameters
    ----------
    path : Path or None
        File; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.found, self.seconds = path, {}, 0.0
        lines = path.read_text(encoding="utf-8").split("\n") if path and path.exists() else []
        for line in lines[:-1]:  # a line without its end was cut off by a kill
            key, value, seconds = json.loads(line)
            self.found[json.dumps(key)] = value
            self.seconds += seconds
        if path and lines and lines[-1]:
            path.write_text("".join(line + "\n" for line in lines[:-1]), encoding="utf-8")

    def __call__(self, measure: Callable[..., dict[str, float]], *settings) -> dict[str, float]:
        """Return the measures of one panel."""
        key = [measure.__name__, *settings]
        name = json.dumps(key)
        if name not in self.found:
            started = time.process_time()
            self.found[name] = {k: float(v) for k, v in measure(*settings).items()}
            seconds = time.process_time() - started
            self.seconds += seconds
            if self.path:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self.found[name], seconds]) + "\n")
        return self.found[name]


def calibrate(
    cells: Sequence[tuple[int, str]] = CELLS,
    *,
    n_panels: int,
    n_draws: int,
    kept: Kept | None = None,
) -> pd.DataFrame:
    """Return the means over panels, one row a cell; errors also with their spread."""
    kept, rows = kept or Kept(None), []
    for n_models, shape in cells:
        numbers = range(FIRST, FIRST + n_panels)
        panels = pd.DataFrame([kept(one, n_models, shape, number, n_draws) for number in numbers])
        spread = panels[["distance_error", "shift_error", "shape_error"]].std()
        about = {"n_models": n_models, "shape_of_items": shape, "n_items": N_ITEMS}
        rows.append({**about, "n_panels": n_panels, **panels.mean(), **spread.add_suffix("_sd")})
    return pd.DataFrame(rows)


def false_alarms(
    models: Sequence[int] = MODELS, *, n_panels: int, kept: Kept | None = None
) -> pd.DataFrame:
    """Return the rates over panels, one row for each number of models."""
    kept, rows = kept or Kept(None), []
    for n_models in models:
        numbers = range(FIRST, FIRST + n_panels)
        found = pd.DataFrame([kept(alarms, n_models, number) for number in numbers])
        rows.append({"n_models": n_models, "n_panels": n_panels, **found.mean()})
    return pd.DataFrame(rows)


def suspicion(
    models: Sequence[int] = KEY_MODELS, *, n_panels: int, n_draws: int, kept: Kept | None = None
) -> pd.DataFrame:
    """Return precision and recall over all panels' items, without and with planted wrong keys.

    ``listed`` is a share of all items; precision and recall are missing where they are 0 / 0.
    """
    kept, rows = kept or Kept(None), []
    for planted in PLANTED:
        for n_models in models:
            numbers = range(FIRST, FIRST + n_panels)
            found = pd.DataFrame([kept(keys, n_models, planted, at, n_draws) for at in numbers])
            sums = found.sum()
            row = {"planted": planted, "n_models": n_models, "n_panels": n_panels}
            for sure in ("", "_sure"):
                row[f"listed{sure}"] = sums[f"listed{sure}"] / n_panels / N_ITEMS
                row[f"precision{sure}"] = sums[f"found{sure}"] / (sums[f"listed{sure}"] or np.nan)
                row[f"recall{sure}"] = sums[f"found{sure}"] / (sums["planted"] or np.nan)
            rows.append({**row, "slope": found["slope"].mean()})
    return pd.DataFrame(rows)


def tables(n_panels: int, n_key_panels: int, n_draws: int, kept: Kept) -> dict[str, pd.DataFrame]:
    """Return all tables, by the names of their files."""
    return {
        "difficulty_calibration": calibrate(n_panels=n_panels, n_draws=n_draws, kept=kept),
        "difficulty_false_alarms": false_alarms(n_panels=n_panels, kept=kept),
        "difficulty_keys": suspicion(n_panels=n_key_panels, n_draws=n_draws, kept=kept),
    }


def main() -> None:
    """Write the tables and what made them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", type=int, default=300, help="panels in each cell")
    parser.add_argument("--key-panels", type=int, default=100, help="panels with wrong keys")
    parser.add_argument("--draws", type=int, default=150, help="draws from each posterior")
    parser.add_argument("--partial", type=Path, help="file that keeps finished panels")
    given = parser.parse_args()
    kept = Kept(given.partial)
    for number in range(1, given.panels + 1):  # of half a run, as many panels in every cell
        found = tables(number, min(number, given.key_panels), given.draws, kept)
    folder = recorded_folder()
    for name, table in found.items():
        write_atomically(
            folder / f"{name}.csv",
            lambda path, table=table: table.round(4).to_csv(path, index=False),
        )
    about = {
        "command": "python benchmarks/difficulty_calibration.py",
        "panels": given.panels,
        "key_panels": given.key_panels,
        "first_panel": FIRST,
        "draws": given.draws,
        "seconds": round(kept.seconds),
        "versions": versions(),
    }
    write_json(folder / "difficulty_calibration.json", about)


if __name__ == "__main__":
    main()
