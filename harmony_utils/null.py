"""What chance alone gives: HARMONY after items are dealt anew into subdomains of the same sizes.

The null distribution is ours; the source of HARMONY has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from harmony_utils.errors import InputError
from harmony_utils.labels import check_groups
from harmony_utils.metric import check_items, harmony_mass, harmony_of_mass

TIE = 1e-12
"""Values of HARMONY nearer than this are equal."""

_CHUNK_ELEMENTS = 4_000_000


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
        As in :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    ndarray of shape (n_null,)
        One value per shuffle.

    Raises
    ------
    InputError
        Without shuffles, with one subdomain, an empty one, or a bandwidth that is none.

    Examples
    --------
    The one right answer falls into the large subdomain or into the small one.

    >>> options = {"bandwidth": 0.5, "n_null": 50, "random_state": 0}
    >>> null = null_draws(np.array([1, 0, 0, 0]), np.array([3, 1]), **options)
    >>> len(set(null.round(9).tolist()))
    2
    """
    rng = np.random.default_rng(random_state)
    accuracies = shuffled_accuracies(correct, sizes, n_draws=check_draws(n_null), rng=rng)
    return harmony_of_mass(harmony_mass(sizes, accuracies, bandwidth=bandwidth))


def grouped_null_draws(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    groups: np.ndarray | Sequence[Any],
    *,
    bandwidth: float = 0.1,
    n_null: int = 2000,
    random_state: int = 0,
) -> np.ndarray:
    """Return HARMONY after groups of items have changed places, their answers staying together.

    Parameters
    ----------
    correct, labels : array_like of shape (n_items,)
        Correctness, between 0 and 1, and subdomains.
    groups : array_like of shape (n_items,)
        Items of one group, e.g. on one passage, have answers that depend on each other: shuffled
        one by one they would scatter less by chance than they do.
    bandwidth, n_null, random_state
        As in :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    ndarray of shape (n_null,)
        The answers of a group go to another group with as many items, there in random order, so
        that sizes are kept. A group whose number of items no other has stays where it is; with
        many such groups the test sees little, but never too much.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`, and for groups that are missing or of another
        length.

    Examples
    --------
    Two right answers on one passage are never divided among subdomains without it.

    >>> null = grouped_null_draws([1, 1, 0, 0], [0, 0, 1, 1], list("aabb"), bandwidth=0.5)
    >>> len(set(null.round(6).tolist()))
    1
    """
    scores, codes, _ = check_items(correct, labels)
    members = check_groups(groups, len(scores))
    rng = np.random.default_rng(random_state)
    accuracies = grouped_accuracies(scores, codes, members, n_draws=check_draws(n_null), rng=rng)
    return harmony_of_mass(harmony_mass(np.bincount(codes), accuracies, bandwidth=bandwidth))


def stratified_null_draws(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    difficulty: np.ndarray | Sequence[float],
    *,
    n_strata: int = 5,
    groups: np.ndarray | Sequence[Any] | None = None,
    bandwidth: float = 0.1,
    n_null: int = 2000,
    random_state: int = 0,
) -> np.ndarray:
    """Return HARMONY of items dealt at random among items of about the same difficulty.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    labels : array_like of shape (n_items,)
        Subdomain of each item. Every subdomain keeps its size in every stratum, so in all.
    difficulty : array_like of shape (n_items,)
        In any unit and direction, only the order counts. It must come from elsewhere than
        ``correct``, e.g. from the answers of other models: an item's own answer explains itself.
    n_strata : int
        Strata between quantiles of difficulty. Items of equal difficulty stay together, so there
        may be fewer. With 1 this is :func:`null_draws`.
    groups : array_like of shape (n_items,), optional
        As in :func:`grouped_null_draws`; groups then change places only with groups of about the
        same mean difficulty.
    bandwidth, n_null, random_state
        As in :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    ndarray of shape (n_null,)
        One value per shuffle. An observed HARMONY that is low among :func:`null_draws` but usual
        among these is explained by subdomains of unequal difficulty.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`, and for a difficulty that is missing.

    Examples
    --------
    Where difficulty explains every answer, no shuffle changes anything and no value is unusual.

    >>> correct, labels = [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]
    >>> null = stratified_null_draws(correct, labels, correct, n_strata=2, n_null=100)
    >>> len(set(null.tolist())), null_p_value(null, null[0])
    (1, 1.0)
    """
    scores, codes, _ = check_items(correct, labels)
    strata = difficulty_strata(difficulty, n_strata=n_strata)
    if strata.shape != scores.shape:
        raise InputError(f"difficulty of {len(strata)} items for {len(scores)}: give one per item")
    rng = np.random.default_rng(random_state)
    sizes = np.bincount(codes)
    check_draws(n_null)
    if groups is not None:
        members = check_groups(groups, len(scores))
        means = np.bincount(members, weights=difficulty) / np.bincount(members)
        classes = difficulty_strata(means, n_strata=n_strata)
        accuracies = grouped_accuracies(scores, codes, members, classes, n_draws=n_null, rng=rng)
        return harmony_of_mass(harmony_mass(sizes, accuracies, bandwidth=bandwidth))
    sums = np.zeros((n_null, len(sizes)))
    for stratum in np.unique(strata):
        inside = strata == stratum
        slots = np.bincount(codes[inside], minlength=len(sizes))
        present = np.flatnonzero(slots)
        sums[:, present] += _shuffled_sums(scores[inside], slots[present], n_null, rng)
    accuracies = np.clip(sums / sizes, 0, 1)
    return harmony_of_mass(harmony_mass(sizes, accuracies, bandwidth=bandwidth))


def difficulty_strata(difficulty: np.ndarray | Sequence[float], *, n_strata: int = 5) -> np.ndarray:
    """Return the number of each item's stratum, from 0, between quantiles of difficulty.

    Parameters
    ----------
    difficulty : array_like of shape (n_items,)
        Finite values. Equal ones go together into the stratum of their middle rank.
    n_strata : int
        At least 1.

    Returns
    -------
    ndarray of shape (n_items,), int
        Strata of about equal size where few values are equal; else some may be missing.

    Raises
    ------
    InputError
        For a missing difficulty or fewer than one stratum.

    Examples
    --------
    >>> difficulty_strata([5, 1, 4, 2], n_strata=2).tolist()
    [1, 0, 1, 0]
    """
    values = np.asarray(difficulty, dtype=np.float64)
    if n_strata < 1 or values.ndim != 1:
        raise InputError(f"n_strata {n_strata}, difficulty of shape {values.shape}: give at least "
                         "one stratum and one difficulty per item")  # fmt: skip
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise InputError(f"difficulty, row {wrong[0]}: is {values[wrong[0]]}; drop such items")
    middle = (rankdata(values) - 0.5) / max(len(values), 1)
    return np.floor(middle * n_strata).astype(np.int64)


def null_p_value(null: np.ndarray, observed: float) -> float:
    """Return the share of a null distribution that is at most as high as the observation.

    Parameters
    ----------
    null : ndarray of shape (n_null,)
        From :func:`null_draws` or :func:`stratified_null_draws`.
    observed : float
        HARMONY of the labels as they are.

    Returns
    -------
    float
        Above 0: the observation counts as one of the shuffles, which makes the chance of a
        p-value up to any level at most that level. Ties count in full, so where few values are
        possible the chance is lower. Counting half of them ("mid-p") comes nearer to the level
        there, but gives up that bound; ``results/recorded/calibration.csv`` has both.

    Examples
    --------
    >>> import numpy as np
    >>> null_p_value(np.array([0.8, 0.9, 0.95, 1.0]), 0.9)
    0.6
    """
    return float((1 + (null <= observed + TIE).sum()) / (1 + len(null)))


def shuffled_accuracies(
    correct: np.ndarray, sizes: np.ndarray, *, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return subdomain accuracies after dealing items at random.

    Parameters
    ----------
    correct : ndarray of shape (n_items,)
        Correctness, between 0 and 1.
    sizes : ndarray of shape (n_clusters,), int
        Positive, summing to ``n_items``.
    n_draws : int
        Shuffles.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_draws, n_clusters)
        Each row has the mean of ``correct`` as its mean weighted by size.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = shuffled_accuracies(np.array([1, 0, 0]), np.array([2, 1]), n_draws=9, rng=rng)
    >>> sorted(set(map(tuple, found.tolist())))
    [(0.0, 1.0), (0.5, 0.0)]
    """
    return np.clip(_shuffled_sums(correct, sizes, n_draws, rng) / sizes, 0, 1)


def grouped_accuracies(
    scores: np.ndarray,
    codes: np.ndarray,
    members: np.ndarray,
    classes: np.ndarray | None = None,
    *,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return subdomain accuracies after groups of equal size have changed places.

    Parameters
    ----------
    scores, codes, members : ndarray of shape (n_items,)
        Correctness, subdomains 0 to k-1 and groups 0 to g-1.
    classes : ndarray of shape (g,), optional
        Only groups of the same class change places.
    n_draws : int
        Shuffles.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_draws, k)
    """
    order = np.argsort(members, kind="stable")
    group_sizes = np.bincount(members)
    starts = np.cumsum(group_sizes) - group_sizes
    kinds = np.column_stack([group_sizes, np.zeros_like(starts) if classes is None else classes])
    step = max(1, _CHUNK_ELEMENTS // len(scores))
    by_subdomain = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    draws = []
    for done in range(0, n_draws, step):
        dealt = np.empty((min(step, n_draws - done), len(scores)))
        for kind in np.unique(kinds, axis=0):
            alike = np.flatnonzero((kinds == kind).all(axis=1))
            places = order[starts[alike][:, None] + np.arange(kind[0])]
            shape = (len(dealt), len(alike))
            moved = rng.permuted(np.broadcast_to(np.arange(len(alike)), shape), axis=1)
            answers = rng.permuted(scores[places][moved], axis=2)
            dealt[:, places.ravel()] = answers.reshape(len(dealt), -1)
        sums = np.add.reduceat(dealt[:, by_subdomain], np.cumsum(sizes) - sizes, axis=1)
        draws.append(np.clip(sums / sizes, 0, 1))
    return np.concatenate(draws)


def check_draws(number: int) -> int:
    """Return a number of shuffles or resamples; refuse one below 1."""
    if number < 1:
        raise InputError(f"{number} shuffles or resamples: give at least 1, for example 2000")
    return number


def _shuffled_sums(
    correct: np.ndarray, sizes: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return subdomains' sums of correctness after shuffles, shape (n_draws, n_clusters)."""
    starts = np.cumsum(sizes) - sizes
    step = max(1, _CHUNK_ELEMENTS // len(correct))
    draws = []
    for done in range(0, n_draws, step):
        shape = (min(step, n_draws - done), len(correct))
        shuffled = rng.permuted(np.broadcast_to(correct, shape), axis=1)
        draws.append(np.add.reduceat(shuffled, starts, axis=1))
    return np.concatenate(draws)
