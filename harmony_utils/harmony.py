"""HARMONY: how evenly a model's performance is spread over the subdomains of a benchmark.

The formula is in :mod:`harmony_utils.metric`, what chance alone gives in
:mod:`harmony_utils.null`, intervals in :mod:`harmony_utils.uncertainty`. The two
parts, the verdict and the blind-spot flag are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import chdtri

from harmony_utils.labels import check_groups
from harmony_utils.metric import (
    check_items,
    harmony_mass,
    harmony_of_mass,
    harmony_score,
    inequality,
    size_evenness,
    tail_shares,
    wilson_interval,
)
from harmony_utils.null import (
    grouped_null_draws,
    null_draws,
    null_p_value,
    shuffled_accuracies,
)
from harmony_utils.power import POWER, items_needed, largest_spread, spread_power, two_digits
from harmony_utils.uncertainty import Intervals, bootstrap_intervals

__all__ = [
    "HarmonyResult",
    "check_items",
    "harmony",
    "harmony_against",
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

Verdict = Literal["uneven", "not distinguishable from even", "cannot tell"]


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
        They add up to ``harmony``. The first is :func:`~harmony_utils.metric.size_evenness`; the
        second is mostly negative, and 0 where accuracies are equal.
    null : ndarray of shape (n_null,)
        HARMONY after shuffling the labels, sizes kept: what sampling noise alone gives.
    null_median, null_low, null_high : float
        Median and central ``confidence`` range of ``null``.
    p_value : float
        Share of shuffles with a HARMONY at most as high, counting the observation itself as one.
        Small means less even than noise explains.
    intervals : Intervals or None
        Of HARMONY, its parts and the accuracies; and HARMONY with noise taken out. None from
        :func:`harmony_against` where nobody asked for them.
    confidence : float
        Coverage of the range and of the intervals.
    inequality : dict of str to float
        Other measures of the same table; see :func:`~harmony_utils.metric.inequality`.
    blind_spot : bool
        True where accuracies lie typically half a bandwidth or more from their mean, by more than
        noise explains (chi-squared test at ``confidence``), and yet performance lowers HARMONY by
        less than :data:`BLIND_SPOT_LOSS`, as with two equal subdomains at .9 and .5, or HARMONY
        is not lower than chance explains. Read the accuracies then, not the score.
    n_groups : int, optional
        Groups of questions that hang together, if any were given; ``n_items`` if all stand alone.
    design_effect : float
        How many questions count as one independent question; 1 without groups.
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
    intervals: Intervals | None = field(repr=False)
    confidence: float
    inequality: dict[str, float]
    blind_spot: bool
    n_groups: int | None = None
    design_effect: float = 1.0

    @cached_property
    def spread(self) -> float:
        """The spread of accuracies that ``power`` is about: one bandwidth, or less where sizes and
        mean do not allow as much; see :func:`~harmony_utils.power.largest_spread`."""
        return min(self.bandwidth, largest_spread(self.sizes, self.accuracy))

    @property
    def spread_text(self) -> str:
        """The spread in words."""
        if self.spread < self.bandwidth:
            return f"{self.spread:.2g}, the most that this mean and these sizes allow,"
        return f"{self.bandwidth:g}"

    @property
    def power(self) -> float:
        """Chance of noticing accuracies that spread that far.

        See :func:`~harmony_utils.power.spread_power`. Of questions that hang together only
        ``n_items / design_effect`` count.
        """
        return spread_power(
            self.n_items / self.design_effect,
            self.n_clusters,
            self.accuracy,
            spread=self.spread,
            confidence=self.confidence,
        )

    @property
    def items_needed(self) -> int | None:
        """Items, in the same shares, at which ``power`` reaches :data:`POWER`; else None."""
        number = items_needed(
            self.n_clusters, self.accuracy, spread=self.spread, confidence=self.confidence
        )
        return number and math.ceil(number * self.design_effect - 1e-9)

    @property
    def count(self) -> str:
        """Number of questions in words, with the number of groups where there are any."""
        if self.n_groups is None:
            return f"{self.n_items} questions"
        return f"{self.n_items} questions ({self.n_groups} groups)"

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
                f"with {self.count} in {self.n_clusters} subdomains, accuracies that "
                f"spread by {self.spread_text} would be noticed with a chance of only "
                f"{self.power:.0%}; {POWER:.0%} takes about {two_digits(self.items_needed)} "
                "questions"
            )
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; of the null distribution only its summary."""
        same = ("harmony", "bandwidth", "n_clusters", "n_items", "n_groups", "accuracy")
        same += ("confidence",)
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
            "interval": self.intervals.to_dict(),
            "inequality": dict(self.inequality),
            "blind_spot": self.blind_spot,
            "verdict": {
                "label": self.verdict,
                "reason": self.reason,
                "spread": self.spread,
                "power": self.power,
                "items_needed": self.items_needed,
            },
        }


def harmony(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    bandwidth: float = 0.1,
    groups: np.ndarray | Sequence[Any] | None = None,
    n_null: int = 2000,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> HarmonyResult:
    """Compute HARMONY, its two parts, its null distribution and its interval.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        1 for a right answer, 0 for a wrong one; partial credit between them is allowed.
    labels : array_like of shape (n_items,)
        Subdomain of each item. Subdomains are reported in the sorted order of their labels.
    bandwidth : float
        Width of the kernel, in accuracy.
    groups : array_like of shape (n_items,), optional
        Items whose answers depend on each other, e.g. those on one passage, have the same group:
        they are shuffled (:func:`~harmony_utils.null.grouped_null_draws`) and drawn together, and
        count for less when power is computed.
    n_null : int
        Shuffles behind the null distribution.
    n_bootstrap : int
        Resamples behind the intervals.
    confidence : float
        Coverage of the null range and of the intervals.
    random_state : int
        Seed of the shuffles and of the resamples.

    Returns
    -------
    HarmonyResult
        Do not read ``harmony`` without ``null_low`` and ``null_high``: labels drawn at random do
        not give 1, because small subdomains scatter.

    Raises
    ------
    InputError
        With one subdomain, arrays of different lengths, a label that is missing, or a correctness
        that is missing or outside 0 to 1 (the row is named); for groups that are missing or of
        another length; for a bandwidth, a number of draws or a confidence that is none.

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
    options = {"bandwidth": bandwidth, "n_null": n_null, "random_state": random_state}
    members = None if groups is None else check_groups(groups, len(scores))
    n_groups = None if members is None else int(members.max()) + 1
    if n_groups in (None, len(scores)):
        null = null_draws(scores, sizes, **options)
    else:
        null = grouped_null_draws(scores, codes, members, **options)
    intervals = bootstrap_intervals(
        scores,
        codes,
        bandwidth=bandwidth,
        groups=members,
        n_bootstrap=n_bootstrap,
        confidence=confidence,
        random_state=random_state,
    )
    return harmony_against(
        null,
        scores,
        codes,
        names,
        bandwidth=bandwidth,
        confidence=confidence,
        intervals=intervals,
        n_groups=n_groups,
        design_effect=intervals.design_effect,
    )


def harmony_against(
    null: np.ndarray,
    scores: np.ndarray,
    codes: np.ndarray,
    names: tuple[str, ...],
    *,
    bandwidth: float,
    confidence: float,
    intervals: Intervals | None = None,
    n_groups: int | None = None,
    design_effect: float = 1.0,
) -> HarmonyResult:
    """Read HARMONY against draws that exist already: :func:`harmony` without drawing anything.

    Parameters
    ----------
    null : ndarray of shape (n_null,)
        From :func:`~harmony_utils.null.null_draws`, for these items, sizes and bandwidth.
    scores, codes, names
        Correctness, subdomain numbers and labels, from :func:`~harmony_utils.metric.check_items`.
    bandwidth, confidence
        As in :func:`harmony`.
    intervals : Intervals, optional
        Left out where only the verdict is wanted; ``to_dict`` needs them.
    n_groups : int, optional
        Number of groups of items that hang together.
    design_effect : float
        By how much groups reduce the number of items that count; 1 without groups.

    Returns
    -------
    HarmonyResult
        The same as from :func:`harmony`.

    Examples
    --------
    >>> items = check_items([1, 0, 1, 0], [0, 0, 1, 1])
    >>> harmony_against(np.array([0.5, 0.9]), *items, bandwidth=0.1, confidence=0.9).p_value
    1.0
    """
    sizes = np.bincount(codes)
    accuracies = np.bincount(codes, weights=scores) / sizes
    mass = harmony_mass(sizes, accuracies, bandwidth=bandwidth)
    observed = float(harmony_of_mass(mass))
    size_part = size_evenness(sizes)
    ends = tail_shares(confidence)
    low, median, high = np.quantile(null, [ends[0], 0.5, ends[1]]).tolist()
    table = inequality(sizes, accuracies, mass)
    p_value = null_p_value(null, observed)
    unseen = observed - size_part > -BLIND_SPOT_LOSS or p_value > 1 - confidence
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
        p_value=p_value,
        intervals=intervals,
        confidence=confidence,
        inequality=table,
        blind_spot=unseen
        and _differ(
            scores,
            sizes,
            table["weighted_variance"],
            bandwidth,
            confidence,
            design_effect,
        ),
        n_groups=n_groups,
        design_effect=design_effect,
    )


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


def _differ(
    scores: np.ndarray,
    sizes: np.ndarray,
    variance: float,
    bandwidth: float,
    confidence: float,
    design_effect: float,
) -> bool:
    """Say whether accuracies differ by half a bandwidth and by more than chance."""
    if math.sqrt(variance) < bandwidth / 2:
        return False
    statistic = len(scores) / design_effect * variance / scores.var()
    return bool(statistic > chdtri(len(sizes) - 1, 1 - confidence))
