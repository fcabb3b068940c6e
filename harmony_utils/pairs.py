"""Pairs of items, where there are too many of them to copy out of a square matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.settings import ALL_PAIRS_ITEMS

MAX_PAIRS = 500_000
"""Up to this many pairs are looked at one by one; of more, a sample is drawn at random."""

SAMPLE_ITEMS = 2000
"""Of a benchmark too large for all pairs, the pairs of this many items are kept whole."""

_CHUNK_ELEMENTS = 4_000_000
_DIGIT = 16


def refuse_too_many(n_items: int, what: str) -> None:
    """Refuse a matrix over all pairs of more than :data:`~harmony_utils.settings.ALL_PAIRS_ITEMS`.

    Raises
    ------
    InputError
        With what it is for and what to do instead.
    """
    if n_items > ALL_PAIRS_ITEMS:
        raise InputError(
            f"{what}: all pairs of {n_items:,} questions do not fit into memory (up to "
            f"{ALL_PAIRS_ITEMS:,} do); take a sample of the questions, or their subjects"
        )


def sample_pairs(
    n_items: int, *, max_pairs: int | None = None, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of different items: all of them, or a random sample where they are many.

    Parameters
    ----------
    n_items : int
        Number of items.
    max_pairs : int, optional
        Most pairs to return; :data:`MAX_PAIRS` if not given.
    random_state : int
        Seed of the sample; without effect where all pairs are returned.

    Returns
    -------
    one, other : ndarray of int, shape (n_pairs,)
        The items of each pair. All pairs come once, the smaller number first, in rising order. A
        sample is drawn with replacement, so a pair may come twice and in either order: means and
        quantiles over it estimate those over all pairs, extremes do not.

    Raises
    ------
    InputError
        If ``n_items`` or ``max_pairs`` is below 1.

    Examples
    --------
    >>> [side.tolist() for side in sample_pairs(3)]
    [[0, 0, 1], [1, 2, 2]]
    >>> one, other = sample_pairs(1000, max_pairs=50)
    >>> len(one), bool((one == other).any())
    (50, False)
    """
    max_pairs = MAX_PAIRS if max_pairs is None else max_pairs
    if n_items < 1 or max_pairs < 1:
        raise InputError(f"pairs: at most {max_pairs} of {n_items} items; give at least 1 of each")
    if n_items * (n_items - 1) // 2 <= max_pairs:
        return np.triu_indices(n_items, 1)
    rng = np.random.default_rng(random_state)
    one = rng.integers(n_items, size=max_pairs)
    return one, (one + rng.integers(1, n_items, size=max_pairs)) % n_items


def sample_items(n_items: int, *, size: int = SAMPLE_ITEMS, random_state: int = 0) -> np.ndarray:
    """Return items drawn at random without replacement, in rising order; all where they are few.

    Parameters
    ----------
    n_items, size : int
        Number of items, and how many to draw.
    random_state : int
        Seed.

    Returns
    -------
    ndarray of int, shape (min(n_items, size),)
        Numbers of the items.

    Examples
    --------
    >>> sample_items(3).tolist(), len(sample_items(9000, size=5))
    ([0, 1, 2], 5)
    """
    if n_items <= size:
        return np.arange(n_items)
    return np.sort(np.random.default_rng(random_state).choice(n_items, size, replace=False))


def pair_quantiles(matrix: np.ndarray, probabilities: Sequence[float]) -> np.ndarray:
    """Return quantiles of a symmetric matrix over all pairs of different items, without a copy.

    Parameters
    ----------
    matrix : ndarray of shape (n_items, n_items)
        Symmetric, at least 0, single or double precision; may be a memory map.
    probabilities : sequence of float
        Between 0 and 1.

    Returns
    -------
    ndarray of shape (n_probabilities,), float64
        Exact, with linear interpolation between neighbours as ``numpy.quantile`` has it.

    Raises
    ------
    InputError
        With fewer than two items, or for a negative value.

    Notes
    -----
    Up to :data:`MAX_PAIRS` pairs are sorted. More are counted by the leading 16 bits of their
    binary form, which rises with a non-negative number; only the counts that hold a wanted rank
    are divided further by the next 16 bits. So memory does not grow with the number of items, at
    the price of reading the matrix two times (four in double precision).

    Examples
    --------
    >>> pair_quantiles(np.array([[0.0, 1, 2], [1, 0, 4], [2, 4, 0]]), [0, 0.5, 0.75]).tolist()
    [1.0, 2.0, 3.0]
    """
    n_items = len(matrix)
    n_pairs = n_items * (n_items - 1) // 2
    if not n_pairs:
        raise InputError("pairs: a quantile needs at least two items; give more questions")
    wanted = np.asarray(probabilities, dtype=np.float64)
    if n_pairs <= MAX_PAIRS:
        return np.quantile(matrix[sample_pairs(n_items)], wanted)
    places = wanted * (n_pairs - 1)
    below = np.floor(places).astype(np.int64)
    above = np.minimum(below + 1, n_pairs - 1)
    ranks = np.unique(np.concatenate([below, above]))
    values = _values_at_ranks(matrix, ranks).astype(np.float64)
    low, high = values[np.searchsorted(ranks, below)], values[np.searchsorted(ranks, above)]
    return low + (high - low) * (places - below)


def _values_at_ranks(matrix: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the values of these ranks among all pairs, ranks counted from 0."""
    bits = 8 * matrix.dtype.itemsize
    unsigned = np.dtype(f"u{matrix.dtype.itemsize}")
    prefixes = np.zeros(len(ranks), dtype=unsigned)
    left = ranks.copy()  # the rank among the values that begin with the prefix
    for shift in range(bits - _DIGIT, -1, -_DIGIT):
        counts = {prefix: np.zeros(1 << _DIGIT, dtype=np.int64) for prefix in prefixes.tolist()}
        for values in _chunks_of_pairs(matrix):
            if values.min() < 0:
                raise InputError("pairs: a value is negative; give divergences or similarities")
            # adding 0 turns -0 into 0, whose binary form would be the largest
            digits = (values + values.dtype.type(0)).view(unsigned) >> unsigned.type(shift)
            for prefix, count in counts.items():
                here = digits
                if shift < bits - _DIGIT:
                    here = digits[digits >> unsigned.type(_DIGIT) == unsigned.type(prefix)]
                last = (here & unsigned.type((1 << _DIGIT) - 1)).astype(np.int64)
                count += np.bincount(last, minlength=1 << _DIGIT)
        for i, prefix in enumerate(prefixes.tolist()):
            reached = np.cumsum(counts[prefix])
            digit = int(np.searchsorted(reached, left[i], side="right"))
            left[i] -= reached[digit] - counts[prefix][digit]
            prefixes[i] = (prefix << _DIGIT) + digit
    return prefixes.view(matrix.dtype)


def _chunks_of_pairs(matrix: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the values above the diagonal, a band of rows at a time; each of shape (n,)."""
    n_items = len(matrix)
    step = max(1, _CHUNK_ELEMENTS // n_items)
    for start in range(0, n_items - 1, step):
        rows = np.asarray(matrix[start : start + step, start:])
        above = np.arange(rows.shape[1]) > np.arange(len(rows))[:, None]
        yield rows[above]
