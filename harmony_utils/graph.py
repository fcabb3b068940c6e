"""An affinity as a graph over items: what can be clustered, its parts, how close groups are."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csgraph, csr_array, issparse

from harmony_utils.errors import InputError
from harmony_utils.landmarks import LandmarkAffinity
from harmony_utils.similarity import EDGE_FLOOR

AnyAffinity = np.ndarray | csr_array | LandmarkAffinity
"""What can be clustered: all pairs, those that are stored, or factors through landmarks."""

SAME_SIMILARITY = 1e-6
"""An affinity whose pairs differ by no more than this has nothing to cluster."""

_CHUNK = 512
_NOT_FINITE = "affinity: holds NaN, infinite or negative values; mend the matrix"
_NOT_SYMMETRIC = "affinity: is not symmetric; average it with its transpose"


def check_affinity(affinity: AnyAffinity) -> int:
    """Refuse what cannot be clustered; return the number of items.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity
        Similarities; of a dense one the diagonal is not compared with the other values.

    Returns
    -------
    int

    Raises
    ------
    InputError
        Unless the affinity is a square matrix over at least three items, symmetric, finite and
        non-negative, and not the same for all pairs.

    Examples
    --------
    >>> check_affinity(np.kron(np.eye(2), np.ones((2, 2))))
    4
    """
    if len(affinity.shape) != 2 or affinity.shape[0] != affinity.shape[1]:
        raise InputError(f"affinity of shape {affinity.shape}: must be a square matrix over items")
    n_items = affinity.shape[0]
    if n_items < 3:
        raise InputError(f"affinity: clustering needs at least three items, has {n_items}")
    if isinstance(affinity, LandmarkAffinity):
        low, high = affinity.lowest, affinity.highest
    elif issparse(affinity):
        low, high = _checked_range(affinity)
    else:
        _check_values(affinity)
        flat = np.ascontiguousarray(affinity).ravel()
        pairs = flat[1:].reshape(n_items - 1, n_items + 1)[:, :-1]
        low, high = pairs.min(), pairs.max()
    if high - low <= SAME_SIMILARITY:
        raise InputError(
            f"affinity: every pair of items has similarity {high:.3g}, so there are no "
            "subdomains to find; check the predictions, or use a partition by subject"
        )
    return n_items


def among(affinity: AnyAffinity, items: np.ndarray) -> AnyAffinity:
    """Return the affinity of some of the items.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Similarities.
    items : ndarray of int
        Numbers of the items.

    Returns
    -------
    The kind that was given
        Of those items, in the order given; factors share their landmarks.

    Examples
    --------
    >>> among(np.array([[1, 0.5, 0.2], [0.5, 1, 0.1], [0.2, 0.1, 1]]), np.array([2, 0])).tolist()
    [[1.0, 0.2], [0.2, 1.0]]
    """
    if isinstance(affinity, LandmarkAffinity):
        return affinity.among(items)
    return affinity[np.ix_(items, items)]


def connected_components(affinity: AnyAffinity) -> int:
    """Count the parts of the items that no similarity connects, directly or over others.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Symmetric similarities.

    Returns
    -------
    int
        At least 1. Similarities up to :data:`~harmony_utils.similarity.EDGE_FLOOR` connect nothing.

    Examples
    --------
    >>> connected_components(np.kron(np.eye(2), np.ones((2, 2))))
    2
    """
    if isinstance(affinity, LandmarkAffinity):
        return len(np.unique(affinity.parts))
    if issparse(affinity):
        return int(csgraph.connected_components(affinity > EDGE_FLOOR, directed=False)[0])
    unseen = np.ones(len(affinity), dtype=bool)
    n_components = 0
    while unseen.any():
        n_components += 1
        frontier = np.array([np.argmax(unseen)])
        unseen[frontier] = False
        while frontier.size and unseen.any():
            reached = np.zeros(len(affinity), dtype=bool)
            for start in range(0, len(frontier), _CHUNK):
                reached |= (affinity[frontier[start : start + _CHUNK]] > EDGE_FLOOR).any(axis=0)
                if reached[unseen].all():
                    break
            frontier = np.flatnonzero(reached & unseen)
            unseen[frontier] = False
    return n_components


def within_and_between(affinity: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the mean similarity of two items of one group, and of two of different groups.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Symmetric similarities; the diagonal does not count.
    labels : ndarray of shape (n_items,)
        Group of each item.

    Returns
    -------
    within, between : float
        NaN where there is no such pair. No copy of the affinity is made.

    Examples
    --------
    >>> within_and_between(np.kron(np.eye(2), np.ones((2, 2))), np.array([0, 0, 1, 1]))
    (1.0, 0.0)
    """
    codes = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(codes)
    members = np.eye(len(sizes), dtype=affinity.dtype)[codes]
    sums = members.T.astype(np.float64) @ (affinity @ members).astype(np.float64)
    n_same = float((sizes * (sizes - 1)).sum())
    n_other = float(len(codes) ** 2 - (sizes**2).sum())
    same = np.trace(sums) - affinity.diagonal().sum(dtype=np.float64)
    other = sums.sum() - np.trace(sums)
    return (
        float(same / n_same) if n_same else float("nan"),
        float(other / n_other) if n_other else float("nan"),
    )


def _check_values(affinity: np.ndarray) -> None:
    n_items = len(affinity)
    for start in range(0, n_items, _CHUNK):
        rows, mirrored = affinity[start : start + _CHUNK], affinity[:, start : start + _CHUNK].T
        if not (np.isfinite(rows).all() and rows.min() >= 0):
            raise InputError(_NOT_FINITE)
        if not np.allclose(rows, mirrored, rtol=1e-5, atol=1e-6):
            raise InputError(_NOT_SYMMETRIC)


def _checked_range(affinity: csr_array) -> tuple[float, float]:
    """Return the smallest and largest similarity of two items; pairs not stored have 0."""
    values = affinity.data
    if not (np.isfinite(values).all() and values.min(initial=0) >= 0):
        raise InputError(_NOT_FINITE)
    if abs(affinity - affinity.T).max() > 1e-6:
        raise InputError(_NOT_SYMMETRIC)
    n_items = affinity.shape[0]
    off_diagonal = affinity.tocoo()
    values = off_diagonal.data[off_diagonal.row != off_diagonal.col]
    low = values.min(initial=np.inf) if len(values) == n_items * (n_items - 1) else 0.0
    return float(low), float(values.max(initial=0))
