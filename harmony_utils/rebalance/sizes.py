"""How many items of each subdomain stay: capped, or chosen one by one for HARMONY."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.metric import check_items

GREEDY_STEPS = 1000
"""Greedy removal takes one item at a time from a benchmark of up to so many items; from a larger
one, blocks of a size that empties it in as many steps."""

_CHUNK_ELEMENTS = 1_000_000


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
        n_removed(min(shares), sizes)
    return usable


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


def greedy_sizes(
    sizes: np.ndarray | Sequence[int],
    accuracies: np.ndarray | Sequence[float],
    n_left: Sequence[int],
    *,
    bandwidth: float = 0.1,
) -> np.ndarray:
    """Shrink, item by item, the subdomain whose loss of an item raises HARMONY most.

    Parameters
    ----------
    sizes : array_like of shape (n_clusters,), int
        Items in each subdomain, all positive.
    accuracies : array_like of shape (..., n_clusters)
        Accuracy in each subdomain; leading axes are separate cases of the same sizes.
    n_left : sequence of int
        Items to keep, each at least one per subdomain and at most all.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.

    Returns
    -------
    ndarray of shape (len(n_left), ..., n_clusters), int
        Items kept in each subdomain. What a smaller removal takes a larger one takes too. Of
        subdomains that would raise HARMONY alike (to ten digits) the first gives the item. Where
        no loss raises HARMONY, the one that lowers it least.

    Raises
    ------
    InputError
        If an ``n_left`` is out of range.

    Notes
    -----
    Ours. A subdomain is taken to keep its accuracy, as it does on average when the item is drawn
    at random. The choice looks at correctness, through the accuracies: a subdomain far from the
    mean has little mass and can be shrunk at no cost, so this removal may drop what the model is
    worst (or best) at and call the rest even. A rise of HARMONY under it proves nothing.

    Examples
    --------
    Equal accuracies leave the sizes: the largest subdomains are capped.

    >>> greedy_sizes([10, 6, 3], [0.5, 0.5, 0.5], [14]).tolist()
    [[5, 6, 3]]

    The small subdomain is the one the model is good at, far from the mean: it goes first.

    >>> greedy_sizes([10, 20, 20], [0.9, 0.5, 0.5], [41]).tolist()
    [[1, 20, 20]]
    """
    full = np.asarray(sizes)
    for wanted in n_left:
        if not len(full) <= wanted <= full.sum():
            raise InputError(
                f"n_left {wanted}: must lie between {len(full)}, one item per subdomain, and "
                f"{full.sum()}, all items"
            )
    shape = np.shape(accuracies)
    cases = np.asarray(accuracies, dtype=np.float64).reshape(-1, len(full))
    step = max(1, _CHUNK_ELEMENTS // len(full) ** 2)
    parts = [
        _greedy_path(full, cases[start : start + step], n_left, bandwidth)
        for start in range(0, len(cases), step)
    ]
    return np.concatenate(parts, axis=1).reshape(len(n_left), *shape)


def n_removed(share: float, sizes: np.ndarray) -> int:
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


def _greedy_path(
    sizes: np.ndarray, accuracies: np.ndarray, n_left: Sequence[int], bandwidth: float
) -> np.ndarray:
    """Return kept sizes, shape (len(n_left), n_cases, n_clusters), of cases (n_cases, k)."""
    kept = np.tile(sizes, (len(accuracies), 1))
    found = np.empty((len(n_left), *kept.shape), dtype=np.int64)
    block, left = math.ceil(sizes.sum() / GREEDY_STEPS), int(sizes.sum())
    cases = np.arange(len(kept))
    for place in sorted(range(len(n_left)), key=lambda place: -n_left[place]):
        while left > n_left[place]:
            take = min(block, left - n_left[place])
            if not (kept > take).any(axis=1).all():
                take = 1
            values = _after_loss(kept, accuracies, take, bandwidth)
            kept[cases, values.round(10).argmax(axis=1)] -= take
            left -= take
        found[place] = kept
    return found


def _after_loss(
    kept: np.ndarray, accuracies: np.ndarray, take: int, bandwidth: float
) -> np.ndarray:
    """Return the entropy of the mass (n_cases, k) after each subdomain alone loses some items."""
    left = kept.sum(axis=1, keepdims=True) - take
    means = ((kept * accuracies).sum(axis=1, keepdims=True) - take * accuracies) / left
    # axes: subdomain, case, subdomain that loses; sums over the first are the fast ones
    weights = np.repeat(kept.T[:, :, None].astype(np.float64), kept.shape[1], axis=2)
    own = np.arange(kept.shape[1])
    weights[own, :, own] = np.maximum(weights[own, :, own] - take, 1)
    log_kernel = -(((accuracies.T[:, :, None] - means) / bandwidth) ** 2)
    log_kernel -= log_kernel.max(axis=0)
    mass = weights * np.exp(log_kernel)
    total = mass.sum(axis=0)
    entropy = np.log(total) - (mass * (np.log(weights) + log_kernel)).sum(axis=0) / total
    return np.where(kept > take, entropy, -np.inf)
