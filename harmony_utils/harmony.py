"""HARMONY: how evenly a model's performance is spread over the subdomains of a benchmark.

The formula is in :mod:`harmony_utils.metric`. The two parts, the null distribution and the
blind-spot flag are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import chdtri, chndtr

from harmony_utils.errors import InputError
from harmony_utils.metric import (
    harmony_mass,
    harmony_of_mass,
    harmony_score,
    inequality,
    size_evenness,
    wilson_interval,
)

__all__ = [
    "HarmonyResult",
    "check_items",
    "harmony",
    "harmony_mass",
    "harmony_score",
    "inequality",
    "null_draws",
    "shuffled_accuracies",
    "size_evenness",
    "subdomain_table",
    "wilson_interval",
]

BLIND_SPOT_LOSS = 0.05
"""A spread of accuracies that lowers HARMONY by less than this goes unseen."""

POWER = 0.8
"""Without this chance of noticing a spread of one bandwidth, a verdict is ``cannot tell``."""

Verdict = Literal["uneven", "not distinguishable from even", "cannot tell"]

_CHUNK_ELEMENTS = 4_000_000


@dataclass(frozen=True, eq=False)
class HarmonyResult:
    """HARMONY of one model on one benchmark, with what is needed to read it.

    Parameters
    ----------
    harmony : float
        The score, between 0 and 1; higher is more even.
    bandwidth : float
        Width of the kernel, in accuracy.
    n_clusters, n_items : int
        Subdomains and questions.
    names : tuple of str
        The label of each subdomain, in the order of everything below.
    sizes : tuple of int
        Questions per subdomain.
    accuracies, mass : tuple of float
        Accuracy and share of HARMONY's mass per subdomain.
    accuracy : float
        Mean over questions.
    size_part, performance_part : float
        They add up to ``harmony``. The first is :func:`size_evenness`; the second is mostly
        negative, and 0 where accuracies are equal.
    null : ndarray of shape (n_null,)
        HARMONY after shuffling the labels, sizes kept: what sampling noise alone gives.
    null_median, null_low, null_high : float
        Median and central ``confidence`` range of ``null``.
    p_value : float
        Share of shuffles with a HARMONY at most as high, counting the observation itself as one.
        Small means less even than noise explains.
    confidence : float
        Coverage of the range.
    inequality : dict of str to float
        Other measures of the same table; see :func:`inequality`.
    blind_spot : bool
        True where accuracies lie typically half a bandwidth or more from their mean, by more than
        noise explains (chi-squared test at ``confidence``), and yet performance lowers HARMONY by
        less than :data:`BLIND_SPOT_LOSS`, as with two equal subdomains at .9 and .5. Read the
        accuracies then, not the score.
    """

    harmony: float
    bandwidth: float
    n_clusters: int
    n_items: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    accuracies: tuple[float, ...]
    accuracy: float
    mass: tuple[float, ...]
    size_part: float
    performance_part: float
    null: np.ndarray = field(repr=False)
    null_median: float
    null_low: float
    null_high: float
    p_value: float
    confidence: float
    inequality: dict[str, float]
    blind_spot: bool

    @property
    def power(self) -> float:
        """Chance of noticing accuracies that spread by one bandwidth, 0 to 1.

        That of the chi-squared test of equal accuracies at level ``1 - confidence``, where the
        spread is the weighted standard deviation. 0 where all answers are right or all are wrong.
        """
        variance = self.accuracy * (1 - self.accuracy)
        if variance <= 0:
            return 0.0
        distance = self.n_items * min(self.bandwidth**2, variance) / variance
        freedom = self.n_clusters - 1
        return float(1 - chndtr(chdtri(freedom, 1 - self.confidence), freedom, distance))

    @property
    def verdict(self) -> Verdict:
        """What may be said: ``uneven``, ``not distinguishable from even`` or ``cannot tell``."""
        if self.p_value <= 1 - self.confidence:
            return "uneven"
        return "cannot tell" if self.reason else "not distinguishable from even"

    @property
    def reason(self) -> str:
        """Why the verdict is ``cannot tell``; empty where it is another."""
        if self.p_value <= 1 - self.confidence:
            return ""
        if self.accuracy in (0, 1):
            return f"every answer is {'right' if self.accuracy else 'wrong'}"
        if self.blind_spot:
            return "accuracies differ by more than chance explains, but HARMONY does not see it"
        if self.power < POWER:
            return (
                f"with {self.n_items} questions in {self.n_clusters} subdomains, accuracies that "
                f"spread by {self.bandwidth:g} would be noticed with a chance of only "
                f"{self.power:.0%}"
            )
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; of the null distribution only its summary."""
        same = ("harmony", "bandwidth", "n_clusters", "n_items", "accuracy", "confidence")
        lists = ("names", "sizes", "accuracies", "mass")
        return {
            **{name: getattr(self, name) for name in same},
            **{name: list(getattr(self, name)) for name in lists},
            "parts": {"size": self.size_part, "performance": self.performance_part},
            "null": {
                "median": self.null_median,
                "lo": self.null_low,
                "hi": self.null_high,
                "p_value": self.p_value,
                "n": len(self.null),
            },
            "inequality": dict(self.inequality),
            "blind_spot": self.blind_spot,
            "verdict": {"label": self.verdict, "reason": self.reason, "power": self.power},
        }


def harmony(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    bandwidth: float = 0.1,
    n_null: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> HarmonyResult:
    """Compute HARMONY, its two parts and its null distribution.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        1 for a right answer, 0 for a wrong one; partial credit between them is allowed.
    labels : array_like of shape (n_items,)
        Subdomain of each item. Subdomains are reported in the sorted order of their labels.
    bandwidth : float
        Width of the kernel, in accuracy.
    n_null : int
        Shuffles behind the null distribution.
    confidence : float
        Coverage of the null range.
    random_state : int
        Seed of the shuffles.

    Returns
    -------
    HarmonyResult
        Do not read ``harmony`` without ``null_low`` and ``null_high``: labels drawn at random do
        not give 1, because small subdomains scatter.

    Raises
    ------
    InputError
        With one subdomain, arrays of different lengths, or a correctness that is missing or
        outside 0 to 1 (the row is named).

    Examples
    --------
    Four subdomains with equal accuracies: even, and nothing in the null speaks against it.

    >>> import numpy as np
    >>> result = harmony(np.tile([0, 1], 40), np.repeat(range(4), 20), n_null=100)
    >>> round(result.harmony, 6), result.p_value
    (1.0, 1.0)
    """
    scores, codes, names = check_items(correct, labels)
    sizes = np.bincount(codes)
    accuracies = np.bincount(codes, weights=scores) / sizes
    mass = harmony_mass(sizes, accuracies, bandwidth=bandwidth)
    observed = float(harmony_of_mass(mass))
    size_part = size_evenness(sizes)
    null = null_draws(scores, sizes, bandwidth=bandwidth, n_null=n_null, random_state=random_state)
    tail = (1 - confidence) / 2
    low, median, high = np.quantile(null, [tail, 0.5, 1 - tail]).tolist()
    table = inequality(sizes, accuracies, mass)
    return HarmonyResult(
        harmony=observed,
        bandwidth=bandwidth,
        n_clusters=len(sizes),
        n_items=len(scores),
        names=names,
        sizes=tuple(sizes.tolist()),
        accuracies=tuple(accuracies.tolist()),
        accuracy=float(scores.mean()),
        mass=tuple(mass.tolist()),
        size_part=size_part,
        performance_part=observed - size_part,
        null=null,
        null_median=median,
        null_low=low,
        null_high=high,
        p_value=float((1 + (null <= observed + 1e-12).sum()) / (1 + n_null)),
        confidence=confidence,
        inequality=table,
        blind_spot=observed - size_part > -BLIND_SPOT_LOSS
        and _differ(scores, sizes, table["weighted_variance"], bandwidth, confidence),
    )


def null_draws(
    correct: np.ndarray, sizes: np.ndarray, *, bandwidth: float, n_null: int, random_state: int
) -> np.ndarray:
    """Return HARMONY of items dealt at random into subdomains of the given sizes.

    Parameters
    ----------
    correct : ndarray of shape (n_items,)
        Correctness, between 0 and 1.
    sizes : ndarray of shape (n_clusters,), int
        Positive, summing to ``n_items``.
    bandwidth, n_null, random_state
        As in :func:`harmony`.

    Returns
    -------
    ndarray of shape (n_null,)
        One value per shuffle.
    """
    rng = np.random.default_rng(random_state)
    accuracies = shuffled_accuracies(correct, sizes, n_draws=n_null, rng=rng)
    return harmony_of_mass(harmony_mass(sizes, accuracies, bandwidth=bandwidth))


def shuffled_accuracies(
    correct: np.ndarray, sizes: np.ndarray, *, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return subdomain accuracies after dealing items at random, shape (n_draws, n_clusters)."""
    starts = np.cumsum(sizes) - sizes
    step = max(1, _CHUNK_ELEMENTS // len(correct))
    draws = []
    for done in range(0, n_draws, step):
        shape = (min(step, n_draws - done), len(correct))
        shuffled = rng.permuted(np.broadcast_to(correct, shape), axis=1)
        draws.append(np.clip(np.add.reduceat(shuffled, starts, axis=1) / sizes, 0, 1))
    return np.concatenate(draws)


def subdomain_table(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    bandwidth: float = 0.1,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return one row per subdomain: size, accuracy with its interval, and mass.

    Parameters
    ----------
    correct, labels, bandwidth
        As in :func:`harmony`.
    confidence : float
        Coverage of each interval, one subdomain at a time.

    Returns
    -------
    DataFrame
        ``subdomain`` (label as text, sorted by label), ``size``, ``weight``, ``accuracy``, ``low``
        and ``high`` (Wilson's score interval; with partial credit it is too wide, never too
        narrow), ``mass``.

    Raises
    ------
    InputError
        As :func:`harmony`.

    Examples
    --------
    Two items, none right: the interval still reaches up to two thirds.

    >>> table = subdomain_table([0, 0, 1, 0], ["a", "a", "b", "b"])
    >>> table.loc[0, ["low", "high"]].astype(float).round(2).tolist()
    [0.0, 0.66]
    """
    scores, codes, names = check_items(correct, labels)
    sizes = np.bincount(codes)
    accuracies = np.bincount(codes, weights=scores) / sizes
    low, high = wilson_interval(accuracies, sizes, confidence=confidence)
    return pd.DataFrame(
        {
            "subdomain": names,
            "size": sizes,
            "weight": sizes / sizes.sum(),
            "accuracy": accuracies,
            "low": low,
            "high": high,
            "mass": harmony_mass(sizes, accuracies, bandwidth=bandwidth),
        }
    )


def check_items(
    correct: np.ndarray | Sequence[float], labels: np.ndarray | Sequence[Any]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Validate correctness and labels.

    Returns
    -------
    scores : ndarray of shape (n_items,), float
        Correctness.
    codes : ndarray of shape (n_items,), int
        Subdomains 0 to k-1 in the sorted order of their labels; none is empty.
    names : tuple of str
        Their labels as text.

    Raises
    ------
    InputError
        As :func:`harmony`.
    """
    scores = np.asarray(correct, dtype=np.float64)
    groups = np.asarray(labels)
    if scores.ndim != 1 or groups.shape != scores.shape:
        raise InputError(
            f"correctness of shape {scores.shape} and labels of shape {groups.shape}: give one "
            "value of each per item"
        )
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if wrong.size:
        raise InputError(
            f"correctness, row {wrong[0]}: is {scores[wrong[0]]}, not between 0 and 1 "
            f"({wrong.size} such rows); drop the items that were not answered"
        )
    missing = [row for row, label in enumerate(groups.tolist()) if label is None or label != label]
    if missing:
        raise InputError(f"labels, row {missing[0]}: is missing; label every item or drop it")
    values, codes = np.unique(groups, return_inverse=True)
    if len(values) < 2:
        raise InputError(
            f"labels: {len(values)} subdomain(s) on {len(scores)} items; HARMONY compares at least "
            "two, choose another partition"
        )
    return scores, codes, tuple(str(value) for value in values)


def _differ(
    scores: np.ndarray, sizes: np.ndarray, variance: float, bandwidth: float, confidence: float
) -> bool:
    """Say whether accuracies differ by half a bandwidth and by more than chance."""
    if math.sqrt(variance) < bandwidth / 2:
        return False
    statistic = len(scores) * variance / scores.var()
    return bool(statistic > chdtri(len(sizes) - 1, 1 - confidence))
