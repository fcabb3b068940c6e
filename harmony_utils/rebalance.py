"""What happens to HARMONY and to the mean when over-represented subdomains are pruned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.metric import check_items, harmony_mass, harmony_of_mass
from harmony_utils.null import shuffled_accuracies

RANGE = (0.025, 0.975)
"""Quantiles over draws reported as ``lo`` and ``hi``."""

N_SHUFFLES = 2000
"""Shuffles of the labels behind each p-value."""


def prune_ladder(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    shares: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    bandwidth: float = 0.1,
    n_random: int = 200,
    random_state: int = 0,
) -> pd.DataFrame:
    """Prune more and more items by two methods and follow HARMONY and accuracy.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    labels : array_like of shape (n_items,)
        Subdomain of each item.
    shares : sequence of float
        Shares of items removed, between 0 and 1. Use the same ladder for every benchmark, or those
        with low HARMONY lose more and the comparison says nothing.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    n_random : int
        Draws per method. Within a draw, what a smaller share removes a larger one removes too.
    random_state : int
        Seed.

    Returns
    -------
    DataFrame
        Rows for ``method`` ``cap`` and ``random`` at share 0 and every given share, with
        ``n_removed`` (the share of items, halves rounded up), ``n_left``, and mean and 95% range
        over draws of ``harmony`` and ``accuracy`` (``harmony``, ``harmony_lo``, ``harmony_hi``,
        and so on). ``accuracy_shift`` is the mean accuracy minus that of all items. ``p_value``,
        for ``cap`` only: see Notes.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`; for a share not between 0 and 1; or if a share
        would empty a subdomain.

    Notes
    -----
    ``cap`` lowers the largest subdomains to a common size (see :func:`capped_sizes`); which of
    their items leave is drawn at random. ``random``, the control, removes as many items from
    anywhere, after one random item per subdomain is set aside, so that none is emptied. Both are
    our rules: the paper's pruning is not known to us in detail.

    ``p_value`` compares the shift that capping brings on average, over all choices of the items
    that leave, with the same average after labels are shuffled: a random removal of the same share
    whose luck of the draw is averaged out too. Two-sided, the observation counted as one of
    :data:`N_SHUFFLES` + 1. One pruned list against one random list is another question, which the
    two ranges answer: they may overlap although the shift is significant.

    Examples
    --------
    Five easy and one hard item: capping evens the sizes and pulls accuracy to the middle.

    >>> table = prune_ladder([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], shares=[0.5])
    >>> table.loc[table.method == "cap", ["n_left", "accuracy"]].round(2).values.tolist()
    [[6.0, 0.83], [3.0, 0.67]]
    """
    scores, codes, _ = check_items(correct, labels)
    sizes = np.bincount(codes)
    n_left = [len(scores) - _n_removed(share, sizes) for share in (0.0, *shares)]
    rng = np.random.default_rng(random_state)
    sums = _shuffled_sums(scores, codes, n_random, rng)
    accuracies = np.bincount(codes, weights=scores) / sizes
    shuffled = shuffled_accuracies(scores, sizes, n_draws=N_SHUFFLES, rng=rng)
    rows = []
    for share, left in zip((0.0, *shares), n_left, strict=True):
        cap = capped_sizes(sizes, left)
        control = 1 + rng.multivariate_hypergeometric(sizes - 1, left - len(sizes), size=n_random)
        p_value = _shift_p_value(accuracies, cap, shuffled)
        for method, kept, p in (("cap", cap[None], p_value), ("random", control, np.nan)):
            harmonies, means = _pruned(sums, sizes, kept, bandwidth)
            rows.append(
                {
                    "method": method,
                    "share": share,
                    "n_removed": len(scores) - left,
                    "n_left": left,
                    **_summary("harmony", harmonies),
                    **_summary("accuracy", means),
                    "accuracy_shift": float(means.mean() - scores.mean()),
                    "p_value": p,
                }
            )
    return pd.DataFrame(rows).sort_values(["method", "share"], ignore_index=True)


def usable_shares(labels: np.ndarray | Sequence[Any], shares: Sequence[float]) -> tuple[float, ...]:
    """Leave out the shares that are too large for a ladder over these subdomains.

    Parameters
    ----------
    labels : array_like of shape (n_items,)
        Subdomain of each item.
    shares : sequence of float
        Shares of items removed, between 0 and 1, in rising order.

    Returns
    -------
    tuple of float
        Those that leave at least one item per subdomain.

    Raises
    ------
    InputError
        If none does, or one is not between 0 and 1.

    Examples
    --------
    Four items in three subdomains: at most one can leave.

    >>> usable_shares(["a", "a", "b", "c"], [0.2, 0.5])
    (0.2,)
    """
    _, codes, _ = check_items(np.zeros(len(labels)), labels)
    sizes = np.bincount(codes)
    usable = tuple(share for share in shares if _n_asked(share, sizes) <= _n_spare(sizes))
    if shares and not usable:
        _n_removed(min(shares), sizes)
    return usable


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust p-values for their number, by Holm's step-down rule.

    Parameters
    ----------
    p_values : array_like of shape (n_tests,)
        From tests that may depend on each other in any way.

    Returns
    -------
    ndarray of shape (n_tests,)
        In the order given, at most 1. Calling those up to .05 significant errs, in any of them,
        with a chance of at most .05.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def capped_sizes(sizes: np.ndarray | Sequence[int], n_left: int) -> np.ndarray:
    """Lower the largest subdomains to a common level until ``n_left`` items remain.

    Parameters
    ----------
    sizes : array_like of shape (n_clusters,), int
        Items in each subdomain, all positive.
    n_left : int
        Items to keep, at least one per subdomain and at most all.

    Returns
    -------
    ndarray of shape (n_clusters,), int
        Items kept in each, summing to ``n_left``. Where the level does not divide evenly, the
        first of the lowered subdomains keep one more.

    Raises
    ------
    InputError
        If ``n_left`` is out of range.

    Examples
    --------
    >>> capped_sizes([10, 6, 3], 14).tolist()
    [6, 5, 3]
    """
    full = np.asarray(sizes)
    if not len(full) <= n_left <= full.sum():
        raise InputError(
            f"n_left {n_left}: must lie between {len(full)}, one item per subdomain, and "
            f"{full.sum()}, all items"
        )
    levels = np.arange(full.max() + 1)
    totals = np.minimum(full[:, None], levels).sum(axis=0)
    level = np.flatnonzero(totals <= n_left)[-1]
    kept = np.minimum(full, level)
    kept[np.flatnonzero(full > level)[: n_left - kept.sum()]] += 1
    return kept


def pruned_items(
    labels: np.ndarray | Sequence[Any], *, share: float, random_state: int = 0
) -> np.ndarray:
    """Choose the items that stay when over-represented subdomains are capped.

    Parameters
    ----------
    labels : array_like of shape (n_items,)
        Subdomain of each item.
    share : float
        Share of items removed, between 0 and 1.
    random_state : int
        Seed. Which items of a lowered subdomain leave is arbitrary: results on one such list
        depend on it, :func:`prune_ladder` shows how much.

    Returns
    -------
    ndarray of shape (n_items,), bool
        True where the item stays.

    Raises
    ------
    InputError
        As :func:`prune_ladder`.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> np.bincount(labels[pruned_items(labels, share=0.34)]).tolist()
    [2, 2]
    """
    _, codes, _ = check_items(np.zeros(len(labels)), labels)
    sizes = np.bincount(codes)
    kept = capped_sizes(sizes, len(codes) - _n_removed(share, sizes))
    order = _shuffled_order(codes, np.random.default_rng(random_state))
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(codes), dtype=np.int64)
    rank[order] = np.arange(len(codes)) - starts[codes[order]]
    return rank < kept[codes]


def balanced_weights(labels: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Weigh items so that every subdomain counts the same, without deleting any.

    Parameters
    ----------
    labels : array_like of shape (n_items,)
        Subdomain of each item.

    Returns
    -------
    ndarray of shape (n_items,)
        ``1 / (n_clusters * size of the item's subdomain)``; sums to 1.

    Raises
    ------
    InputError
        With one subdomain or missing labels.

    Examples
    --------
    >>> balanced_weights(["a", "a", "b"]).tolist()
    [0.25, 0.25, 0.5]
    """
    _, codes, _ = check_items(np.zeros(len(labels)), labels)
    sizes = np.bincount(codes)
    return 1 / (len(sizes) * sizes[codes])


def balanced_mean(
    correct: np.ndarray | Sequence[float], labels: np.ndarray | Sequence[Any]
) -> float:
    """Return the mean over subdomains of their accuracies.

    Parameters
    ----------
    correct, labels : array_like of shape (n_items,)
        Correctness between 0 and 1, and subdomains.

    Returns
    -------
    float
        Accuracy under :func:`balanced_weights`. A subdomain of three items moves it as much as one
        of three hundred, so it is noisier than the plain mean.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`.

    Examples
    --------
    >>> balanced_mean([1, 1, 1, 0], ["a", "a", "a", "b"])
    0.5
    """
    scores, codes, _ = check_items(correct, labels)
    return float(scores @ balanced_weights(codes))


def _n_removed(share: float, sizes: np.ndarray) -> int:
    """Return the number of items a share stands for; refuse one that empties a subdomain."""
    removed = _n_asked(share, sizes)
    if removed > _n_spare(sizes):
        raise InputError(
            f"share {share}: removes {removed} of {sizes.sum()} items and empties some of the "
            f"{len(sizes)} subdomains; lower it"
        )
    return removed


def _n_asked(share: float, sizes: np.ndarray) -> int:
    """Return a share of the items as a number, halves rounded up."""
    if not 0 <= share < 1:
        raise InputError(f"share {share}: must lie between 0 and 1")
    return int(np.floor(share * int(sizes.sum()) + 0.5))


def _n_spare(sizes: np.ndarray) -> int:
    """Return how many items can leave with one staying in each subdomain."""
    return int(sizes.sum()) - len(sizes)


def _shuffled_order(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return item numbers grouped by subdomain, in random order within each."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _shuffled_sums(
    scores: np.ndarray, codes: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return running sums of correctness over grouped items, shape (n_draws, n_items + 1)."""
    sums = np.zeros((n_draws, len(scores) + 1))
    for draw in range(n_draws):
        np.cumsum(scores[_shuffled_order(codes, rng)], out=sums[draw, 1:])
    return sums


def _pruned(
    sums: np.ndarray, sizes: np.ndarray, kept: np.ndarray, bandwidth: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return HARMONY and accuracy, each (n_draws,), after keeping ``kept`` items per subdomain.

    ``kept`` has shape (n_draws, n_clusters), or (1, n_clusters) for the same in every draw.
    """
    starts = np.cumsum(sizes) - sizes
    ends = np.broadcast_to(starts + kept, (len(sums), len(sizes)))
    right = np.take_along_axis(sums, ends, axis=1) - sums[:, starts]
    accuracies = np.clip(right / kept, 0, 1)
    mass = harmony_mass(kept, accuracies, bandwidth=bandwidth)
    return harmony_of_mass(mass), right.sum(axis=1) / kept.sum(axis=1)


def _shift_p_value(accuracies: np.ndarray, kept: np.ndarray, shuffled: np.ndarray) -> float:
    """Return the two-sided p-value of capping's mean shift among shuffled labels; see the ladder.

    The accuracies are (n_clusters,) as observed and (n_shuffles, n_clusters) as shuffled; the
    shuffles' mean is the accuracy of all items.
    """
    weights = kept / kept.sum()
    shifts = shuffled @ weights
    centre = shifts.mean()
    beyond = np.abs(shifts - centre) >= abs(accuracies @ weights - centre) - 1e-12
    return float((1 + beyond.sum()) / (1 + len(shifts)))


def _summary(name: str, draws: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(draws, RANGE).tolist()
    return {name: float(draws.mean()), f"{name}_lo": low, f"{name}_hi": high}
