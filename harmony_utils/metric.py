"""The metric alone, from a table of subdomain sizes and accuracies.

Formula: Uzunoglu, Li & Khashabi, *The Flaw of Averages*, arXiv 2509.25671. The bandwidth and the
tiny constant in its logarithm are not known to us; ours are named here and reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from harmony_utils.errors import InputError
from harmony_utils.labels import refuse_missing

LOG_FLOOR = 1e-12
"""Added to every mass inside the logarithm."""

_NARROWEST = 1e-150  # a narrower kernel is the same: all mass is nearest the mean; no overflow


def harmony_score(
    weights: np.ndarray | Sequence[float],
    accuracies: np.ndarray | Sequence[float],
    *,
    bandwidth: float = 0.1,
) -> float:
    """Return HARMONY from a table of subdomain sizes and accuracies.

    Parameters
    ----------
    weights : array_like of shape (n_clusters,)
        Sizes of the subdomains, or shares of them; only their ratios count. All positive.
    accuracies : array_like of shape (n_clusters,)
        Accuracy in each subdomain, between 0 and 1.
    bandwidth : float
        How far from the mean, in accuracy, a subdomain may lie and still count as near it.
        ``inf`` ignores accuracies and measures sizes alone.

    Returns
    -------
    float
        Between 0 and 1; higher means that more, and more equal, subdomains perform like the mean.

    Raises
    ------
    InputError
        With one subdomain (undefined, not 1), an empty subdomain, or values out of range. An empty
        subdomain would count among the subdomains without being able to hold mass: leave it out.

    Notes
    -----
    ``H = -sum_i p_i log(p_i + 1e-12) / log(k)`` with the mass ``p`` of :func:`harmony_mass`
    (Uzunoglu, Li & Khashabi, arXiv 2509.25671). What it does not see: the kernel is symmetric, so
    two equal subdomains at .9 and .5 score 1. Sizes count as much as accuracies:
    see :func:`size_evenness`.

    Examples
    --------
    Equal sizes and equal accuracies give 1; unequal sizes lower it whatever the accuracies.

    >>> round(harmony_score([1, 1, 1, 1], [0.6, 0.6, 0.6, 0.6]), 6)
    1.0
    >>> round(harmony_score([0.7, 0.1, 0.1, 0.1], [0.6, 0.6, 0.6, 0.6]), 3)
    0.678
    """
    mass = harmony_mass(weights, accuracies, bandwidth=bandwidth)
    if mass.ndim != 1:
        raise InputError(
            f"weights and accuracies of {mass.ndim} axes: give one table, or use harmony_mass and "
            "harmony_of_mass"
        )
    return float(harmony_of_mass(mass))


def harmony_mass(
    weights: np.ndarray | Sequence[float],
    accuracies: np.ndarray | Sequence[float],
    *,
    bandwidth: float,
) -> np.ndarray:
    """Return the share of HARMONY's mass that each subdomain holds.

    ``p_i ~ w_i * exp(-((a_i - mean) / bandwidth) ** 2)``, where the mean is weighted.

    Parameters
    ----------
    weights, accuracies : array_like of shape (..., n_clusters)
        As in :func:`harmony_score`; leading axes, if any, are separate cases and broadcast.
    bandwidth : float
        Positive; ``inf`` returns the weights.

    Returns
    -------
    ndarray of shape (..., n_clusters)
        Sums to 1 along the last axis. As the bandwidth shrinks to 0 all mass moves to the subdomain
        nearest the mean. Equally near ones share it by weight, as far as rounding lets them be
        equal (below a bandwidth of about 1e-7 it does not).

    Raises
    ------
    InputError
        As :func:`harmony_score`.

    Examples
    --------
    The first subdomain is three bandwidths from the mean of 0.6, the second one.

    >>> harmony_mass([1, 3], [0.9, 0.5], bandwidth=0.1).round(3).tolist()
    [0.0, 1.0]
    """
    weight, accuracy = _check_table(weights, accuracies, bandwidth)
    weight = weight / weight.sum(axis=-1, keepdims=True)
    mean = (weight * accuracy).sum(axis=-1, keepdims=True)
    log_mass = np.log(weight) - ((accuracy - mean) / max(bandwidth, _NARROWEST)) ** 2
    mass = np.exp(log_mass - log_mass.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


def harmony_of_mass(mass: np.ndarray) -> np.ndarray:
    """Return HARMONY of masses: their entropy over its maximum.

    Parameters
    ----------
    mass : ndarray of shape (..., n_clusters)
        From :func:`harmony_mass`; sums to 1 along the last axis. A mass of 0 adds nothing.

    Returns
    -------
    ndarray of shape (...)
        Between 0, all mass in one subdomain, and 1, the same mass in all.

    Examples
    --------
    >>> harmony_of_mass(np.array([[0.5, 0.5], [1.0, 0.0]])).round(6).tolist()
    [1.0, 0.0]
    """
    entropy = -(mass * np.log(mass + LOG_FLOOR)).sum(axis=-1)
    return np.clip(entropy / math.log(mass.shape[-1]), 0, 1)


def size_evenness(weights: np.ndarray | Sequence[float]) -> float:
    """Return HARMONY's value when accuracies do not matter: how equal the subdomains are in size.

    Parameters
    ----------
    weights : array_like of shape (n_clusters,)
        Sizes or shares, all positive.

    Returns
    -------
    float
        Between 0 and 1, where 1 means equal sizes. HARMONY minus this is the part that performance
        adds; it is mostly negative, but positive where mass leaves an oversized subdomain.

    Raises
    ------
    InputError
        As :func:`harmony_score`.

    Examples
    --------
    >>> round(size_evenness([0.4, 0.2, 0.2, 0.2]), 3)
    0.961
    """
    return harmony_score(weights, np.zeros(np.shape(weights)), bandwidth=math.inf)


def tail_shares(confidence: float) -> list[float]:
    """Return what lies below the lower and below the upper end of a central interval.

    Parameters
    ----------
    confidence : float
        Coverage, between 0 and 1, the ends excluded.

    Returns
    -------
    list of two floats
        For quantiles: as much is left below as above.

    Raises
    ------
    InputError
        For a confidence that is none.

    Examples
    --------
    >>> [round(share, 3) for share in tail_shares(0.95)]
    [0.025, 0.975]
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence {confidence}: must lie between 0 and 1, for example 0.95")
    tail = (1 - confidence) / 2
    return [tail, 1 - tail]


def wilson_interval(
    share: np.ndarray, n: np.ndarray, *, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's score interval of a share among independent trials.

    Parameters
    ----------
    share : array_like
        Between 0 and 1; any shape.
    n : array_like
        Trials, positive, not necessarily whole; of a shape that broadcasts with ``share``.
    confidence : float
        Coverage aimed at.

    Returns
    -------
    low, high : ndarray
        Within 0 and 1, around the share. Unlike the share plus or minus its standard error they
        have a width where all trials agree.

    Raises
    ------
    InputError
        For a confidence that is none.

    Notes
    -----
    Wilson, *Journal of the American Statistical Association* 22 (1927).

    Examples
    --------
    Ten right answers of ten do not show that all are right.

    >>> [round(float(end), 2) for end in wilson_interval(np.array(1.0), np.array(10))]
    [0.72, 1.0]
    """
    tail_shares(confidence)  # refuses what is none
    z = ndtri((1 + confidence) / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def inequality(weights: np.ndarray, accuracies: np.ndarray, mass: np.ndarray) -> dict[str, float]:
    """Return other measures of how unevenly accuracy is spread, to read beside HARMONY.

    Parameters
    ----------
    weights, accuracies, mass : ndarray of shape (n_clusters,)
        Sizes, accuracies, and mass from :func:`harmony_mass`.

    Returns
    -------
    dict of str to float
        ``gini``: half the mean absolute difference of accuracies over their mean, 0 is even, 0
        also where every accuracy is 0. ``renyi2``: like HARMONY with collision entropy, 1 is even.
        ``weighted_variance``: of accuracies, 0 is even. ``worst_gap``: mean minus the lowest
        accuracy, 0 is even; it grows by chance with the number of small subdomains.

    Examples
    --------
    >>> import numpy as np
    >>> values = inequality(np.ones(2), np.array([0.9, 0.5]), np.array([0.5, 0.5]))
    >>> {name: round(value, 3) for name, value in values.items()}
    {'gini': 0.143, 'renyi2': 1.0, 'weighted_variance': 0.04, 'worst_gap': 0.2}
    """
    share = weights / weights.sum()
    mean = float(share @ accuracies)
    differences = float(share @ np.abs(accuracies[:, None] - accuracies) @ share)
    return {
        "gini": differences / (2 * mean) if mean > 0 else 0.0,
        "renyi2": float(-np.log(mass @ mass) / math.log(len(mass))),
        "weighted_variance": float(share @ (accuracies - mean) ** 2),
        "worst_gap": mean - float(accuracies.min()),
    }


def check_items(
    correct: np.ndarray | Sequence[float], labels: np.ndarray | Sequence[Any]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Validate correctness and labels.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        Between 0 and 1.
    labels : array_like of shape (n_items,)
        Subdomain of each item.

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
        As :func:`~harmony_utils.harmony.harmony`.

    Examples
    --------
    >>> scores, codes, names = check_items([1, 0, 1], ["law", "art", "law"])
    >>> codes.tolist(), names
    ([1, 0, 1], ('art', 'law'))
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
    refuse_missing(labels, "labels", "label every item or drop it")
    values, codes = np.unique(groups, return_inverse=True)
    if len(values) < 2:
        raise InputError(
            f"labels: {len(values)} subdomain(s) on {len(scores)} items; HARMONY compares at least "
            "two, choose another partition"
        )
    return scores, codes, tuple(str(value) for value in values)


def _check_table(
    weights: np.ndarray | Sequence[float],
    accuracies: np.ndarray | Sequence[float],
    bandwidth: float,
) -> tuple[np.ndarray, np.ndarray]:
    weight = np.asarray(weights, dtype=np.float64)
    accuracy = np.asarray(accuracies, dtype=np.float64)
    if not (weight.ndim and accuracy.ndim and weight.shape[-1] == accuracy.shape[-1]):
        raise InputError(
            f"weights of shape {weight.shape} and accuracies of shape {accuracy.shape}: give one "
            "of each per subdomain"
        )
    if weight.shape[-1] < 2:
        raise InputError(
            f"{weight.shape[-1]} subdomain(s): HARMONY compares at least two; choose another "
            "partition"
        )
    if not bandwidth > 0:
        raise InputError(f"bandwidth {bandwidth}: give a positive number, for example 0.1")
    if not ((weight > 0) & (weight < np.inf)).all():
        raise InputError(
            f"weights {weight.tolist()}: each must be positive; leave empty subdomains out"
        )
    if not ((accuracy >= 0) & (accuracy <= 1)).all():
        raise InputError(f"accuracies {accuracy.tolist()}: each must lie between 0 and 1")
    return weight, accuracy
