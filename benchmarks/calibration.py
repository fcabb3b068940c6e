"""Does the method keep its promises? False verdicts, coverage and bias where the truth is known.

Every case fixes the sizes of the subdomains and the true accuracy of each, draws answers many
times, and counts. Accuracies are either all equal (correctness is independent of the subdomain) or
spread by one bandwidth, in ten arrangements: which subdomain is how good. The result is kept in
``results/recorded/calibration.csv``, a row per case, with the command and versions beside it in
``calibration.json``.

    python benchmarks/calibration.py
"""

from __future__ import annotations

import argparse
import time
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import chdtri, ndtr, ndtri

from harmony_utils.files import write_atomically, write_json
from harmony_utils.metric import harmony_mass, harmony_of_mass
from harmony_utils.null import TIE
from harmony_utils.power import POWER, largest_spread, spread_power
from harmony_utils.runs import recorded_folder, versions
from harmony_utils.uncertainty import corrected_harmony, noise_corrected_draws

ITEMS, CLUSTERS, SHAPES = (100, 300, 1000, 5000), (2, 5, 10, 20), ("equal", "skewed")
ACCURACIES, TRUTHS = (0.3, 0.6, 0.9), ("even", "uneven")
BANDWIDTH, LEVEL = 0.1, 0.05
N_NULL, ARRANGEMENTS = 1999, 10
KINDS = ("ours", "percentile", "basic", "bca")


def harmony_of(sizes: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """Return HARMONY along the last axis."""
    return harmony_of_mass(harmony_mass(sizes, accuracies, bandwidth=BANDWIDTH))


def subdomain_sizes(n_items: int, n_clusters: int, shape: str) -> np.ndarray:
    """Return equal sizes, or sizes as 1, 1/2, 1/3 … with at least one item each."""
    ranks = np.arange(1, n_clusters + 1)
    shares = np.ones(n_clusters) if shape == "equal" else 1 / ranks
    sizes = np.maximum(1, np.floor(n_items * shares / shares.sum())).astype(int)
    sizes[0] += n_items - sizes.sum()
    return sizes


def true_accuracies(
    sizes: np.ndarray, accuracy: float, truth: str, rng: np.random.Generator
) -> np.ndarray:
    """Return accuracies with this mean, equal or evenly spaced in random order; (n_clusters,).

    Their weighted standard deviation is one bandwidth, less where 0.02 to 0.98 leaves no room.
    """
    if truth == "even":
        return np.full(len(sizes), accuracy)
    weight = sizes / sizes.sum()
    steps = rng.permutation(np.linspace(-1, 1, len(sizes)))
    steps -= weight @ steps
    steps *= BANDWIDTH / np.sqrt(weight @ steps**2)
    room = min((0.98 - accuracy) / steps.max(), (accuracy - 0.02) / -steps.min())
    return accuracy + min(1, room) * steps


def stated_power(sizes: np.ndarray, planted: np.ndarray) -> float:
    """Return the power that a result with the true mean states."""
    n_items, mean = sizes.sum(), float(planted[0] @ sizes / sizes.sum())
    spread = min(BANDWIDTH, largest_spread(sizes.tolist(), mean))
    return spread_power(n_items, len(sizes), mean, spread=spread, confidence=1 - LEVEL)


def verdict_rates(
    sizes: np.ndarray, planted: np.ndarray, n_repeats: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return how often each test at the 5% level calls unevenness, and the verdict evenness.

    Shuffles of 0/1 answers depend on the number of right ones alone, so repeats share them.
    """
    truth = planted[np.arange(n_repeats) % len(planted)]
    right = rng.binomial(sizes, truth)
    observed, totals = harmony_of(sizes, right / sizes), right.sum(axis=1)
    plain, mid = np.empty(n_repeats), np.empty(n_repeats)
    for total in np.unique(totals):
        dealt = rng.multivariate_hypergeometric(sizes, total, size=N_NULL, method="marginals")
        null = np.sort(harmony_of(sizes, dealt / sizes))
        here = totals == total
        up_to = np.searchsorted(null, observed[here] + TIE, side="right")
        below = np.searchsorted(null, observed[here] - TIE, side="left")
        plain[here] = (1 + up_to) / (1 + N_NULL)
        mid[here] = (1 + (up_to + below) / 2) / (1 + N_NULL)
    mean = totals / sizes.sum()
    variance = np.maximum(mean * (1 - mean), 1e-12)
    squared = (sizes * (right / sizes - mean[:, None]) ** 2).sum(axis=1)
    differ = squared / variance > chdtri(len(sizes) - 1, LEVEL)
    wide = squared >= sizes.sum() * (BANDWIDTH / 2) ** 2
    enough = stated_power(sizes, planted) >= POWER
    return {
        "uneven": (plain <= LEVEL).mean(),
        "uneven_mid_p": (mid <= LEVEL).mean(),
        "uneven_chi2": differ.mean(),
        "called_even": enough * ((plain > LEVEL) & ~(differ & wide)).mean(),
    }


def acceleration(sizes: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the acceleration of BCa by leaving out one item of each kind, shape (n_repeats,)."""
    third, second = np.zeros(len(right)), np.zeros(len(right))
    base = harmony_of(sizes, right / sizes)
    for subdomain, size in enumerate(sizes):
        for answer in (0, 1):
            number = right[:, subdomain] if answer else size - right[:, subdomain]
            left = right / sizes
            left[:, subdomain] = (right[:, subdomain] - answer) / max(size - 1, 1)
            change = base - harmony_of(sizes, np.clip(left, 0, 1))
            change *= (number > 0) & (size > 1)
            third += number * change**3
            second += number * change**2
    return third / np.maximum(6 * second**1.5, 1e-12)


def intervals(
    sizes: np.ndarray, right: np.ndarray, n_bootstrap: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return intervals (2, n_repeats) of each kind; HARMONY corrected by moments, by bootstrap."""
    accuracies = right / sizes
    observed, mean = harmony_of(sizes, accuracies), right.sum(axis=1) / sizes.sum()
    shape = (len(right), n_bootstrap, len(sizes))
    resampled = rng.binomial(sizes, accuracies[:, None], size=shape) / sizes
    options = {"variance": mean * (1 - mean), "bandwidth": BANDWIDTH}
    raw = harmony_of(sizes, resampled)
    ours = noise_corrected_draws(sizes, accuracies, resampled, **options)
    ends = np.array([LEVEL / 2, 1 - LEVEL / 2])
    percentile = np.quantile(raw, ends, axis=1)
    at = observed[:, None]
    below = (raw < at - TIE).mean(axis=1) + (np.abs(raw - at) <= TIE).mean(axis=1) / 2
    shift = ndtri(np.clip(below, 0.5 / n_bootstrap, 1 - 0.5 / n_bootstrap))
    z = shift + ndtri(ends)[:, None]
    moved = ndtr(shift + z / (1 - acceleration(sizes, right) * z))
    bca = [np.quantile(row, both) for row, both in zip(raw, moved.T, strict=True)]
    found = {
        "ours": np.quantile(ours, ends, axis=1),
        "percentile": percentile,
        "basic": np.clip(2 * observed - percentile[::-1], 0, 1),
        "bca": np.transpose(bca),
    }
    corrected = corrected_harmony(sizes, accuracies, **options)
    return found, corrected, 2 * observed - raw.mean(axis=1)


def coverage(
    sizes: np.ndarray,
    planted: np.ndarray,
    n_repeats: int,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return coverage of the true HARMONY by each kind of interval; bias and error of estimates.

    ``lowest_ours`` is the coverage in the worst arrangement, a tenth of the repeats; ``below`` is
    the share of intervals that lie wholly below the truth.
    """
    parts = []
    for truth in planted:
        target = float(harmony_of(sizes, truth))
        right = rng.binomial(sizes, truth, size=(n_repeats // len(planted), len(sizes)))
        found, corrected, shifted = intervals(sizes, right, n_bootstrap, rng)
        errors = {
            "raw": harmony_of(sizes, right / sizes) - target,
            "corrected": corrected - target,
            "bootstrap": shifted - target,
        }
        inside = {
            kind: ((low <= target + 1e-9) & (target <= high + 1e-9)).mean()
            for kind, (low, high) in found.items()
        }
        low, high = found["ours"]
        part = {f"covered_{kind}": share for kind, share in inside.items()}
        part |= {"below": (high < target - 1e-9).mean(), "width": (high - low).mean()}
        part |= {f"bias_{name}": error.mean() for name, error in errors.items()}
        part |= {f"square_{name}": (error**2).mean() for name, error in errors.items()}
        parts.append(part)
    table = pd.DataFrame(parts)
    row = table.mean().to_dict()
    roots = {f"rmse_{name}": np.sqrt(row.pop(f"square_{name}")) for name in errors}
    return {**row, "lowest_ours": table["covered_ours"].min(), **roots}


def calibrate(
    cells: list[tuple[str, int, int, str, float]],
    *,
    n_verdicts: int = 4000,
    n_intervals: int = 1000,
    n_bootstrap: int = 400,
) -> pd.DataFrame:
    """Return one row per cell ``(truth, n_items, n_clusters, shape, accuracy)``."""
    rows = []
    for number, (truth, n_items, n_clusters, shape, accuracy) in enumerate(cells):
        rng = np.random.default_rng([20, number])
        sizes = subdomain_sizes(n_items, n_clusters, shape)
        planted = np.array(
            [true_accuracies(sizes, accuracy, truth, rng) for _ in range(ARRANGEMENTS)]
        )
        row = {
            "truth": truth,
            "n_items": n_items,
            "n_clusters": n_clusters,
            "sizes": shape,
            "accuracy": accuracy,
            "spread": np.sqrt((planted - accuracy) ** 2 @ sizes / n_items).mean(),
            "harmony": harmony_of(sizes, planted).mean(),
            "stated_power": stated_power(sizes, planted),
            **verdict_rates(sizes, planted, n_verdicts, rng),
            **coverage(sizes, planted, n_intervals, n_bootstrap, rng),
        }
        rows.append(row)
    return pd.DataFrame(rows).round(4)


def all_cells() -> list[tuple[str, int, int, str, float]]:
    """Return every combination."""
    return list(product(TRUTHS, ITEMS, CLUSTERS, SHAPES, ACCURACIES))


def main() -> None:
    """Calibrate every cell, print a summary, keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verdicts", type=int, default=4000, help="repeats for rates of verdicts")
    parser.add_argument("--intervals", type=int, default=1000, help="repeats for coverage")
    parser.add_argument("--bootstrap", type=int, default=400, help="resamples in each of those")
    given = parser.parse_args()
    started = time.monotonic()
    table = calibrate(
        all_cells(),
        n_verdicts=given.verdicts,
        n_intervals=given.intervals,
        n_bootstrap=given.bootstrap,
    )
    folder = recorded_folder()
    write_atomically(folder / "calibration.csv", lambda path: table.to_csv(path, index=False))
    about = {
        "command": "python benchmarks/calibration.py",
        "repeats": vars(given),
        "n_null": N_NULL,
        "bandwidth": BANDWIDTH,
        "seed": [20, "number of the row, from 0"],
        "seconds": round(time.monotonic() - started),
        "versions": versions(),
    }
    write_json(folder / "calibration.json", about)
    shown = ["uneven", "uneven_mid_p", "uneven_chi2", *(f"covered_{kind}" for kind in KINDS)]
    print(table.groupby(["truth", "n_items", "n_clusters", "sizes"])[shown].mean().round(3))


if __name__ == "__main__":
    main()
