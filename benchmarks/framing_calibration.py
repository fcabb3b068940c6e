"""How often the intervals of a change hold it, and how often models seem to change differently.

Simulated studies in which a second way of asking changes nothing, or makes every answer right less
often by the same amount: models of different ability answer questions that are easy or hard for all
of them, twice, independently. So every change is known, no model changes differently, and any
supported reversal is a false one. Prints a row for each size of a study and each loss; two minutes
on one core.

    python benchmarks/framing_calibration.py
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from harmony_utils.framing import compare_conditions

SIZES = ((2, 50), (5, 80), (5, 300), (20, 200))
"""Models and questions of a study."""

LOSSES = (0.0, 0.2)
"""By how much the second way of asking lowers every chance of a right answer."""

N_REPEATS, N_DRAWS = 400, 199


def study(n_models: int, n_items: int, loss: float, rng: np.random.Generator) -> pd.DataFrame:
    """Simulate right and wrong answers of all models under two ways of asking."""
    ability = np.linspace(0.45, 0.7, n_models)
    ease = rng.uniform(-0.23, 0.28, n_items)  # no chance leaves 0 to 1, so that the loss is exact
    chance = ability[:, None] + ease
    right = rng.random((2, n_models, n_items)) < np.stack([chance, chance - loss])
    names = pd.MultiIndex.from_product(
        [["plain", "other"], range(n_models), range(n_items)], names=["condition", "model", "key"]
    )
    return pd.Series(right.ravel().astype(float), index=names, name="value").reset_index()


def main() -> None:
    """Print coverage, false alarms and false reversals."""
    rng = np.random.default_rng(11)
    rows = []
    for (n_models, n_items), loss in product(SIZES, LOSSES):
        covered, alarms, reversals = [], [], []
        for _ in range(N_REPEATS):
            found = compare_conditions(
                study(n_models, n_items, loss, rng), baseline="plain", n_draws=N_DRAWS
            )
            other = found.scores[found.scores["condition"] == "other"]
            covered.append(
                ((other["change_low"] <= -loss) & (other["change_high"] >= -loss)).mean()
            )
            alarms.append(found.ranks["p_value"].iloc[0] <= 0.05)
            reversals.append(found.reversals["supported"].sum())
        rows.append(
            {
                "models": n_models,
                "questions": n_items,
                "loss": loss,
                "coverage": np.mean(covered),
                "false alarms": np.mean(alarms),
                "false reversals a study": np.mean(reversals),
            }
        )
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
