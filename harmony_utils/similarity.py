"""From answer distributions to predictive similarity.

The similarity of two questions is ``exp(-temperature / 2 * divergence)``, where the divergence is
Jeffreys': the sum of both Kullback-Leibler divergences between what the model would answer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.stats import rankdata

from harmony_utils.errors import InputError
from harmony_utils.pairs import pair_quantiles, sample_pairs

EXACT_ITEMS = 2048
"""Up to this many items, products are computed in double precision; above, in single."""

SUM_TOLERANCE = 0.05
"""How far the probabilities of a row may sum from 1: half-precision storage stays well below."""

MEDIAN_SIMILARITY = 0.5
"""Similarity of the median pair under the ``"median"`` temperature (our choice)."""

EDGE_FLOOR = 1e-10
"""Similarities at or below this count as no connection: rounding hides anything smaller."""

_TILE = 1024
_ROW_CHUNK_ELEMENTS = 8_000_000


def jeffreys_divergence(
    log_probabilities: np.ndarray, *, floor: float = 1e-10, block_size: int = 4096
) -> np.ndarray:
    """Return the Jeffreys divergence of every pair of answer distributions.

    ``D(p, q) = sum_v (p_v - q_v) (log p_v - log q_v)``, in nats, after every probability is raised
    to at least ``floor`` and the row is divided by its new sum.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_items, n_outcomes)
        Natural logarithms of probabilities, one distribution a row; half or single precision, a
        memory map, or double. ``-inf`` means probability 0.
    floor : float
        Smallest probability. It bounds what an outcome that only one of two questions knows can
        add to their divergence, so it matters: report it. Our choice, not the paper's.
    block_size : int
        Outcomes handled at once. Changes memory and speed, not the result.

    Returns
    -------
    ndarray of shape (n_items, n_items), float32
        Symmetric, at least 0, 0 on the diagonal. Larger means more different. Its size is what
        bounds memory: beside it only ``n_items * block_size`` numbers are held a few times.

    Raises
    ------
    InputError
        If a row holds NaN or does not sum to 1 within :data:`SUM_TOLERANCE`, or a setting is out
        of range.

    Notes
    -----
    The exponent of predictive similarity in Uzunoglu, Li & Khashabi, *The Flaw of Averages*, arXiv
    2509.25671. Computed as matrix products over blocks of outcomes. Both the probabilities and
    their logarithms are centred over items first: differences between items do not notice, and
    what rounding takes from nearly equal items shrinks.

    Examples
    --------
    Equal distributions are 0 apart; these two are ``0.8 * log(9)`` on each of two outcomes apart.

    >>> import numpy as np
    >>> log_p = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> jeffreys_divergence(log_p).astype(float).round(3).tolist()
    [[0.0, 0.0, 3.516], [0.0, 0.0, 3.516], [3.516, 3.516, 0.0]]
    """
    check_distributions(log_probabilities, floor, block_size)
    n_items, n_outcomes = log_probabilities.shape
    precision = np.float64 if n_items <= EXACT_ITEMS else np.float32
    log_sums = log_floored_sums(log_probabilities, floor)[:, None].astype(precision)
    cross = np.zeros((n_items, n_items), dtype=precision)
    for start in range(0, n_outcomes, block_size):
        logs = np.array(log_probabilities[:, start : start + block_size], dtype=precision)
        np.maximum(logs, math.log(floor), out=logs)
        logs -= log_sums
        probabilities = np.exp(logs)
        probabilities -= probabilities.mean(axis=0)
        logs -= logs.mean(axis=0)
        for top in range(0, n_items, _TILE):
            cross[top : top + _TILE] += probabilities[top : top + _TILE] @ logs.T
    _cross_to_divergence(cross)
    return cross.astype(np.float32, copy=False)


def median_temperature(divergence: np.ndarray) -> float:
    """Return the temperature under which the median pair of items has similarity 0.5.

    Parameters
    ----------
    divergence : ndarray of shape (n_items, n_items)
        Symmetric, as returned by :func:`jeffreys_divergence`.

    Returns
    -------
    float
        ``2 * log(2) / median``, the median being taken over pairs of different items. It does not
        depend on the size of the vocabulary, unlike any fixed number. Our choice: the paper's
        temperature is not known to us.

    Raises
    ------
    InputError
        With fewer than two items, or if the median is 0: half of the pairs are identical then and
        no temperature can bring their similarity down to 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> round(median_temperature(np.array([[0.0, 2.0], [2.0, 0.0]])), 3)
    0.693
    """
    n_items = check_square(divergence, "divergence")
    if n_items < 2:
        raise InputError("divergence: a median needs at least two items; give more questions")
    precision = np.result_type(divergence.dtype, np.float32).type
    median = float(precision(pair_quantiles(divergence, [0.5])[0]))
    if not median > 0:
        raise InputError(
            "divergence: at least half of the pairs of questions have identical distributions, so "
            "the median temperature is undefined; check the predictions, or give a number instead"
        )
    return -2 * math.log(MEDIAN_SIMILARITY) / median


def affinity_from_divergence(
    divergence: np.ndarray | csr_array, *, temperature: float | Literal["median"] = "median"
) -> tuple[np.ndarray | csr_array, float]:
    """Turn divergences into similarities, ``exp(-temperature / 2 * divergence)``.

    Parameters
    ----------
    divergence : ndarray or csr_array of shape (n_items, n_items)
        Symmetric, at least 0, as returned by :func:`jeffreys_divergence`, or what is left of it by
        :func:`~harmony_utils.neighbours.nearest_divergences`: only stored pairs become similar.
    temperature : float or "median"
        A larger number makes everything less similar. ``"median"`` is :func:`median_temperature`:
        take it unless results must share one number, as when models are compared. A sparse
        divergence has no median, since what it lacks is large: give a number.

    Returns
    -------
    affinity : ndarray or csr_array of shape (n_items, n_items), float32
        Between 0 and 1; 1 on the diagonal and for identical distributions. Of the kind given.
    temperature : float
        The number used.

    Raises
    ------
    InputError
        If the divergence is not a square matrix of finite numbers of at least 0, or the
        temperature is not positive.

    Notes
    -----
    Formula: Uzunoglu, Li & Khashabi, *The Flaw of Averages*, arXiv 2509.25671.

    Examples
    --------
    >>> import numpy as np
    >>> affinity, temperature = affinity_from_divergence(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> affinity.round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    check_square(divergence, "divergence")
    values = divergence.data if issparse(divergence) else divergence
    check_divergences(values)
    temperature = resolve_temperature(temperature, divergence)
    affinity = np.multiply(values, -float(temperature) / 2, dtype=np.float32)
    np.exp(affinity, out=affinity)
    if issparse(divergence):
        places = divergence.indices, divergence.indptr
        affinity = csr_array((affinity, *places), shape=divergence.shape)
    return affinity, temperature


def group_auc(
    affinity: np.ndarray, groups: Sequence[Hashable], *, random_state: int = 0
) -> float | None:
    """Return how often two items of one group are more similar than two of different groups.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Symmetric; larger means more similar.
    groups : sequence of hashable, length n_items
        Group of each item, e.g. its subject; items with None are left out.
    random_state : int
        Seed of the sample of pairs; see :func:`~harmony_utils.pairs.sample_pairs`.

    Returns
    -------
    float or None
        Between 0 and 1: the area under the ROC curve of similarity as a sign of the same group.
        0.5 means that similarity knows nothing of the groups; ties count half. None where all
        pairs are of one kind, as when no item has a group.

    Raises
    ------
    InputError
        If there is not one group per item.

    Examples
    --------
    >>> import numpy as np
    >>> group_auc(np.kron(np.eye(2), np.ones((2, 2))), ["law", "law", "logic", "logic"])
    1.0
    >>> group_auc(np.ones((3, 3)), [None, None, None]) is None
    True
    """
    n_items = check_square(affinity, "affinity")
    if len(groups) != n_items:
        raise InputError(f"groups: {len(groups)} given for {n_items} items")
    numbers: dict[Hashable, int] = {}
    codes = np.array([-1 if g is None else numbers.setdefault(g, len(numbers)) for g in groups])
    known = np.flatnonzero(codes >= 0)
    if len(numbers) < 2:
        return None
    pairs = sample_pairs(len(known), random_state=random_state)
    one, other = (known[side] for side in pairs)
    same = codes[one] == codes[other]
    n_same = int(same.sum())
    if n_same in (0, len(same)):
        return None
    ranks = rankdata(affinity[one, other])
    larger = ranks[same].sum() - n_same * (n_same + 1) / 2
    return float(larger / (n_same * (len(same) - n_same)))


def resolve_temperature(
    temperature: float | Literal["median"], divergence: np.ndarray | csr_array
) -> float:
    """Return the temperature as a number: as given, or :func:`median_temperature`."""
    if temperature == "median":
        if issparse(divergence):
            raise InputError(
                "temperature 'median': the nearest items do not show the median pair; give a number"
            )
        return median_temperature(divergence)
    if isinstance(temperature, (str, bool)) or not 0 < temperature < math.inf:
        raise InputError(f"temperature {temperature!r}: give a positive number or 'median'")
    return float(temperature)


def check_divergences(values: np.ndarray) -> None:
    """Refuse what is no divergence."""
    if not values.min(initial=0.0) >= 0 or not np.isfinite(values.max(initial=0.0)):
        raise InputError(
            "divergence: holds NaN, infinite or negative values; compute it with "
            "jeffreys_divergence, or mend the matrix"
        )


def check_distributions(log_probabilities: np.ndarray, floor: float, block_size: int) -> None:
    """Refuse what has no rows of distributions, and settings out of range."""
    if log_probabilities.ndim != 2 or log_probabilities.shape[1] < 2:
        raise InputError(
            f"log-probabilities of shape {log_probabilities.shape}: give one row per question and "
            "at least two outcomes"
        )
    if not 0 < floor < 1 / log_probabilities.shape[1]:
        raise InputError(
            f"floor {floor}: must be positive and below one over the number of outcomes, "
            f"{1 / log_probabilities.shape[1]:.3g}"
        )
    if block_size < 1:
        raise InputError(f"block_size {block_size}: give a positive number of outcomes")


def log_floored_sums(log_probabilities: np.ndarray, floor: float) -> np.ndarray:
    """Return the logarithm of each row's sum after flooring; refuse rows that are no distribution.

    Shape (n_items,), double precision. Rows are read in chunks, so a memory map stays on disk.
    """
    n_items, n_outcomes = log_probabilities.shape
    step = max(1, _ROW_CHUNK_ELEMENTS // n_outcomes)
    sums = np.empty(n_items)
    for start in range(0, n_items, step):
        probabilities = np.exp(log_probabilities[start : start + step].astype(np.float32))
        plain = probabilities.sum(axis=1, dtype=np.float64)
        wrong = np.flatnonzero(~(np.abs(plain - 1) <= SUM_TOLERANCE))
        if wrong.size:
            row = start + int(wrong[0])
            if np.isnan(plain[wrong[0]]):
                raise InputError(
                    f"log-probabilities, row {row}: holds NaN; score that question again or drop it"
                )
            raise InputError(
                f"log-probabilities, row {row}: the probabilities sum to {plain[wrong[0]]:.4g}, "
                "not 1; give natural logarithms of a whole distribution (not logits)"
            )
        np.maximum(probabilities, np.float32(floor), out=probabilities)
        sums[start : start + step] = probabilities.sum(axis=1, dtype=np.float64)
    return np.log(sums)


class CentredBlocks:
    """Blocks of centred probabilities and logarithms, made anew each time from what is stored.

    For divergences of some pairs, where a product over all of them would be too large. Arguments
    as in :func:`jeffreys_divergence`; ``tiles`` are slices of ``tile`` items, ``columns`` those of
    ``block_size`` outcomes.
    """

    def __init__(
        self, log_probabilities: np.ndarray, floor: float, block_size: int, *, tile: int = _TILE
    ) -> None:
        check_distributions(log_probabilities, floor, block_size)
        self.stored = log_probabilities
        self.n_items, n_outcomes = log_probabilities.shape
        self.floor = math.log(floor)
        self.precision = np.float64 if self.n_items <= EXACT_ITEMS else np.float32
        self.sums = log_floored_sums(log_probabilities, floor)[:, None].astype(self.precision)
        self.tiles = [slice(i, min(i + tile, self.n_items)) for i in range(0, self.n_items, tile)]
        self.columns = [slice(i, i + block_size) for i in range(0, n_outcomes, block_size)]
        self.means = [self._means(columns) for columns in self.columns]

    def centred(self, rows: slice | np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return floored and normalised probabilities and their logarithms, less their means over
        items: differences between items do not notice, rounding does."""
        probabilities, logs = self._plain(rows, self.columns[block])
        probabilities -= self.means[block][0]
        logs -= self.means[block][1]
        return probabilities, logs

    def own_products(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the sum of ``p * log p`` of each item, both centred."""
        total = 0.0
        for block in range(len(self.columns)):
            probabilities, logs = self.centred(rows, block)
            total = total + np.einsum("ij,ij->i", probabilities, logs, dtype=np.float64)
        return np.asarray(total).astype(self.precision)

    def _plain(self, rows: slice | np.ndarray, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        logs = np.array(self.stored[rows, columns], dtype=self.precision)
        np.maximum(logs, self.floor, out=logs)
        logs -= self.sums[rows]
        return np.exp(logs), logs

    def _means(self, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        sums = [0.0, 0.0]
        for rows in self.tiles:
            for i, values in enumerate(self._plain(rows, columns)):
                sums[i] = sums[i] + values.sum(axis=0, dtype=np.float64)
        return tuple((total / self.n_items).astype(self.precision) for total in sums)


def _cross_to_divergence(cross: np.ndarray) -> None:
    """Turn ``cross[i, j] = p_i . log p_j`` into divergences, in place and tile by tile."""
    n_items = len(cross)
    own = cross.diagonal().copy()
    for top in range(0, n_items, _TILE):
        for left in range(top, n_items, _TILE):
            rows, columns = slice(top, top + _TILE), slice(left, left + _TILE)
            tile = own[rows, None] + own[None, columns] - cross[rows, columns]
            tile -= cross[columns, rows].T
            np.maximum(tile, 0, out=tile)
            cross[rows, columns] = tile
            cross[columns, rows] = tile.T
    np.fill_diagonal(cross, 0)


def check_square(matrix: np.ndarray | csr_array, name: str) -> int:
    """Refuse what is not square; return the number of items."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} of shape {matrix.shape}: must be a square matrix over items")
    return matrix.shape[0]
