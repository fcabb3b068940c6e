"""How sure a HARMONY value is: intervals, and what sampling noise takes from it.

Everything here is ours; the source of HARMONY gives no measure of uncertainty. How well each part
keeps its promise is measured by ``benchmarks/calibration.py`` and kept in
``results/recorded/calibration.csv``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import chndtr

from harmony_utils.labels import check_groups
from harmony_utils.metric import (
    check_items,
    harmony_mass,
    harmony_of_mass,
    size_evenness,
    tail_shares,
    wilson_interval,
)
from harmony_utils.null import check_draws

KIND = "noise-corrected bootstrap; Wilson for accuracies"
"""The kind of every interval, as reported."""

_TINY = 1e-12


@dataclass(frozen=True)
class Intervals:
    """Intervals around one HARMONY value, for a partition that is taken as given.

    Parameters
    ----------
    harmony, performance, size : tuple of (float, float)
        Of HARMONY without sampling noise, and of its two parts. Sizes belong to the partition and
        are kept, so the interval of the size part has no width. The observed HARMONY can lie below
        its own interval: noise mostly lowers it.
    accuracy : tuple of (float, float)
        Of the mean over items.
    subdomains : tuple of (float, float) pairs
        Of each subdomain's accuracy, one at a time, in the order of the labels.
    corrected : float
        HARMONY with the spread that noise explains taken out; see :func:`corrected_harmony`.
    design_effect : float
        How many items of this benchmark count as one independent item; 1 without groups.
    confidence : float
        Coverage aimed at.
    n_bootstrap : int
        Resamples.
    kind : str
        See :func:`bootstrap_intervals`.
    """

    harmony: tuple[float, float]
    accuracy: tuple[float, float]
    size: tuple[float, float]
    performance: tuple[float, float]
    subdomains: tuple[tuple[float, float], ...]
    corrected: float
    design_effect: float
    confidence: float
    n_bootstrap: int
    kind: str = KIND

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        plain = asdict(self)
        pairs = ("harmony", "accuracy", "size", "performance")
        lists = {name: list(plain[name]) for name in pairs}
        return {**plain, **lists, "subdomains": [list(pair) for pair in self.subdomains]}


def bootstrap_intervals(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    bandwidth: float = 0.1,
    groups: np.ndarray | Sequence[Any] | None = None,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Intervals:
    """Say how far HARMONY and the accuracies may lie from their values without sampling noise.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    labels : array_like of shape (n_items,)
        Subdomain of each item. The partition is taken as given: that other items, or another seed,
        might have led to another one is not in these intervals.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    groups : array_like of shape (n_items,), optional
        Items of one group are drawn together, e.g. those on one passage or near-duplicates, whose
        answers depend on each other. None makes every item a group of its own. With fewer than
        some thirty groups the intervals are too narrow.
    n_bootstrap : int
        Resamples.
    confidence : float
        Coverage aimed at.
    random_state : int
        Seed.

    Returns
    -------
    Intervals
        Where all answers are right, or all wrong, HARMONY's interval has no width.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`, and for groups that are missing or of another
        length, no resamples, or a confidence that is none.

    Notes
    -----
    Items, or groups, are resampled with replacement within the subdomain where they have most of
    their items, sizes being kept; this is how a resample differs in its subdomain accuracies.
    HARMONY of resamples cannot be used as it is: the data hold noise once and a resample twice, so
    percentile intervals lie too low, and where accuracies are equal, at the upper end of what
    HARMONY can be, they never cover. The basic, bias-corrected and accelerated kinds only shift or
    stretch the same values and fail there too. So the distance between accuracies and mean is
    corrected in every resample, see :func:`noise_corrected_draws`, and the quantiles of HARMONY
    are then taken as they are. Intervals of accuracies are Wilson's, with the number of items
    divided by their design effect, which is the ratio of the residuals' variance summed by group
    to that summed by item.

    Examples
    --------
    Two equal subdomains have HARMONY 1 whatever their accuracies, so there is no doubt about it.

    >>> intervals = bootstrap_intervals([1, 1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1])
    >>> intervals.harmony, [round(end, 2) for end in intervals.accuracy]
    ((1.0, 1.0), [0.22, 0.78])
    """
    scores, codes, _ = check_items(correct, labels)
    members = check_groups(groups, len(scores))
    sizes = np.bincount(codes)
    accuracies = np.bincount(codes, weights=scores) / sizes
    within, overall = design_effects(scores - accuracies[codes], codes, members)
    rng = np.random.default_rng(random_state)
    options = {"variance": scores.var() * within, "bandwidth": bandwidth}
    draws = noise_corrected_draws(
        sizes,
        accuracies,
        resampled_accuracies(scores, codes, members, n_draws=check_draws(n_bootstrap), rng=rng),
        **options,
    )
    low, high = np.quantile(draws, tail_shares(confidence)).round(10).tolist()
    size_part = size_evenness(sizes)
    wilson = wilson_interval(accuracies, sizes / within, confidence=confidence)
    total = wilson_interval(scores.mean(), len(scores) / overall, confidence=confidence)
    return Intervals(
        harmony=(low, high),
        accuracy=(float(total[0]), float(total[1])),
        size=(size_part, size_part),
        performance=(low - size_part, high - size_part),
        subdomains=tuple(zip(wilson[0].tolist(), wilson[1].tolist(), strict=True)),
        corrected=float(corrected_harmony(sizes, accuracies, **options)),
        design_effect=overall,
        confidence=confidence,
        n_bootstrap=n_bootstrap,
    )


def resampled_accuracies(
    scores: np.ndarray,
    codes: np.ndarray,
    members: np.ndarray,
    *,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return subdomain accuracies of resamples, drawn through counts rather than item by item.

    Parameters
    ----------
    scores, codes, members : ndarray of shape (n_items,)
        Correctness, subdomains 0 to k-1 and groups 0 to g-1.
    n_draws : int
        Resamples.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_draws, n_clusters)
        Groups with the same numbers of items and of right answers in every subdomain are one kind;
        how often each kind is drawn is multinomial. A subdomain that a resample lacks, which only
        groups make possible, keeps the accuracy it has.
    """
    n_clusters, n_groups = codes.max() + 1, members.max() + 1
    cells, shape = members * n_clusters + codes, (n_groups, n_clusters)
    asked = np.bincount(cells, minlength=n_groups * n_clusters).reshape(shape)
    right = np.bincount(cells, weights=scores, minlength=n_groups * n_clusters).reshape(shape)
    table = np.hstack([asked, right])
    home = asked.argmax(axis=1)
    drawn = np.zeros((n_draws, 2 * n_clusters))
    for subdomain in np.unique(home):
        kinds, number = np.unique(table[home == subdomain], axis=0, return_counts=True)
        times = rng.multinomial(number.sum(), number / number.sum(), size=n_draws)
        drawn += times @ kinds
    items, rights = drawn[:, :n_clusters], drawn[:, n_clusters:]
    kept = np.bincount(codes, weights=scores) / np.bincount(codes)
    return np.where(items > 0, np.clip(rights / np.maximum(items, 1), 0, 1), kept)


def noise_corrected_draws(
    sizes: np.ndarray,
    accuracies: np.ndarray,
    resampled: np.ndarray,
    *,
    variance: np.ndarray | float,
    bandwidth: float,
) -> np.ndarray:
    """Return HARMONY of resamples whose spread is what the data say of the true spread.

    Parameters
    ----------
    sizes : ndarray of shape (n_clusters,)
        Items per subdomain.
    accuracies : ndarray of shape (..., n_clusters)
        As observed; leading axes, if any, are separate cases of the same sizes.
    resampled : ndarray of shape (..., n_draws, n_clusters)
        Accuracies of resamples.
    variance : ndarray of shape (...) or float
        Of one item's correctness. This project takes that around the mean over all items, which
        is the variance under equal accuracies and so Pearson's in the chi-squared test; it is a
        little larger than that around the subdomains' accuracies. With groups, times their design
        effect.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.

    Returns
    -------
    ndarray of shape (..., n_draws)
        Their quantiles are the ends of the interval.

    Notes
    -----
    Ours. The squared length ``Q = sum_i n_i (a_i - mean)**2 / variance`` is about noncentral
    chi-squared with k-1 degrees of freedom, its noncentrality L being the squared length without
    noise. Among all L, ``1 - F(Q; L)`` is a confidence distribution: its quantiles are exact
    one-sided limits for L, and it holds a lump at L = 0 as large as the p-value of the chi-squared
    test of equal accuracies. Resamples keep their mean; the one with the r-th smallest length is
    given the r-th quantile of that distribution as length, after the deviations of small
    subdomains, which hold more noise, have been shrunk more than those of large ones. A Q below
    k-1, its mean where all are equal, is taken as k-1: less spread than chance gives would make the
    interval narrower than any evidence warrants.
    """
    weight, scale = sizes / sizes.sum(), _scale(variance, sizes)
    lengths = _squared_spread(resampled, weight) / scale[..., None]
    observed = _squared_spread(accuracies, weight) / scale
    ranks = lengths.argsort(axis=-1, kind="stable").argsort(axis=-1, kind="stable")
    quantiles = _confidence_quantiles(observed, lengths.shape[-1], len(sizes) - 1)
    wanted = np.take_along_axis(quantiles, ranks, axis=-1)
    moved = _with_length(resampled, weight, wanted, scale[..., None], n_noises=2)
    return harmony_of_mass(harmony_mass(sizes, moved, bandwidth=bandwidth))


def corrected_harmony(
    sizes: np.ndarray,
    accuracies: np.ndarray,
    *,
    variance: np.ndarray | float,
    bandwidth: float,
) -> np.ndarray:
    """Return HARMONY after the spread that noise explains is taken out of the accuracies.

    Parameters
    ----------
    sizes, accuracies, variance, bandwidth
        As in :func:`noise_corrected_draws`.

    Returns
    -------
    ndarray of shape (...)
        The squared length ``Q`` (see there) of the deviations becomes ``max(Q - (k - 1), 0)``, its
        estimate by moments, small subdomains being shrunk more. The size part, if accuracies
        spread no more than noise. Nearer the truth than HARMONY in most cases, above all where
        subdomains are small; too high where a large spread is seen in few items.

    Examples
    --------
    Accuracies of .6, .6 and .3 in six items each are what noise gives; in 900 each they are not.

    >>> import numpy as np
    >>> def corrected(sizes):
    ...     options = {"variance": 0.25, "bandwidth": 0.1}
    ...     return corrected_harmony(np.array(sizes), np.array([0.6, 0.6, 0.3]), **options)
    >>> [round(float(corrected(sizes)), 2) for sizes in ([6, 6, 6], [900, 900, 900])]
    [1.0, 0.72]
    """
    weight, scale = sizes / sizes.sum(), _scale(variance, sizes)
    left = _squared_spread(accuracies, weight) / scale - (len(sizes) - 1)
    moved = _with_length(accuracies, weight, np.maximum(left, 0), scale, n_noises=1)
    return harmony_of_mass(harmony_mass(sizes, moved, bandwidth=bandwidth))


def _scale(variance: np.ndarray | float, sizes: np.ndarray) -> np.ndarray:
    """Return the variance of the mean over all items, positive."""
    return np.maximum(np.asarray(variance, dtype=np.float64), _TINY) / sizes.sum()


def _with_length(
    accuracies: np.ndarray,
    weight: np.ndarray,
    length: np.ndarray,
    scale: np.ndarray,
    *,
    n_noises: int,
) -> np.ndarray:
    """Return accuracies (..., n_clusters) whose deviations have this squared length (...).

    Deviations of small subdomains hold more noise, so they are shrunk first, to the share of their
    variance that is not noise: with ``t`` the true variance between subdomains that the length
    stands for, ``sqrt(t / (t + n_noises * variance / n_i))``.
    """
    between = length * scale / (1 - weight @ weight)
    noise = n_noises * scale[..., None] / weight
    share = between[..., None] / np.maximum(between[..., None] + noise, _TINY)
    mean = (accuracies @ weight)[..., None]
    shrunk = np.sqrt(share) * (accuracies - mean)
    shrunk -= (shrunk @ weight)[..., None]
    factor = np.sqrt(length * scale / np.maximum(shrunk**2 @ weight, _TINY**2))[..., None]
    return np.clip(mean + factor * shrunk, 0, 1)


def _squared_spread(accuracies: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted variance of accuracies along the last axis."""
    return (accuracies - (accuracies @ weight)[..., None]) ** 2 @ weight


def _confidence_quantiles(observed: np.ndarray, n_draws: int, freedom: int) -> np.ndarray:
    """Return quantiles of the confidence distribution of noncentrality, (..., n_draws), rising.

    The distribution is tabulated on a grid in the length's square root, where its width is about
    1 whatever the length, and inverted by interpolation.
    """
    observed = np.maximum(observed, freedom)
    length = np.sqrt(observed)[..., None]
    grid = np.maximum(length + np.linspace(-5 - math.sqrt(freedom), 5, 96), 0) ** 2
    known = 1 - chndtr(observed[..., None], freedom, grid)
    wanted = (np.arange(n_draws) + 0.5) / n_draws
    rows = zip(known.reshape(-1, 96), grid.reshape(-1, 96), strict=True)
    values = [np.interp(wanted, p, noncentrality, left=0) for p, noncentrality in rows]
    return np.reshape(values, (*observed.shape, n_draws))


def design_effects(
    residuals: np.ndarray, codes: np.ndarray, members: np.ndarray
) -> tuple[float, float]:
    """Return the design effects of subdomain accuracies (pooled) and of their mean, at least 1.

    Parameters
    ----------
    residuals, codes, members : ndarray of shape (n_items,)
        Correctness minus its subdomain's accuracy, subdomains 0 to k-1 and groups 0 to g-1.

    Returns
    -------
    within, overall : float
        Variance of sums of residuals over groups, within subdomains and over all, divided by what
        it would be if items were independent. 1 where every item is its own group, and where no
        residual is left.

    Examples
    --------
    Every item is there twice, as a group: two count as one.

    >>> residuals, codes = np.array([0.5, 0.5, -0.5, -0.5]), np.zeros(4, dtype=int)
    >>> design_effects(residuals, codes, np.array([0, 0, 1, 1]))
    (2.0, 2.0)
    """
    total = float((residuals**2).sum())
    if total <= _TINY:
        return 1.0, 1.0
    cells = np.unique(members * (codes.max() + 1) + codes, return_inverse=True)[1]
    within, overall = (
        float((np.bincount(by, weights=residuals) ** 2).sum()) / total for by in (cells, members)
    )
    return max(1.0, within), max(1.0, overall)
