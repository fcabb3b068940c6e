"""How many items it takes before a verdict can be given.

Ours: the power of the chi-squared test of equal accuracies, which HARMONY's own test is held to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import chdtri, chndtr, chndtrinc

POWER = 0.8
"""Without this chance of noticing a spread of one bandwidth, a verdict is ``cannot tell``."""


def spread_power(
    n_items: int, n_clusters: int, accuracy: float, *, spread: float, confidence: float
) -> float:
    """Return the chance of noticing accuracies that spread so far.

    Parameters
    ----------
    n_items, n_clusters : int
        Items and subdomains.
    accuracy : float
        Mean over items.
    spread : float
        Weighted standard deviation of accuracies; no more than the mean allows is taken. How far
        sizes allow, says :func:`largest_spread`.
    confidence : float
        1 minus the level of the test.

    Returns
    -------
    float
        That of the chi-squared test of equal accuracies (noncentral chi-squared with k-1 degrees
        of freedom and noncentrality ``n * spread**2 / variance``). 0 where all answers are right
        or all are wrong. HARMONY's own test has another power: more where the spread lies in small
        subdomains, and none in its blind spot.

    Examples
    --------
    >>> round(spread_power(273, 4, 0.5, spread=0.1, confidence=0.95), 3)
    0.801
    """
    share = _information(accuracy, spread)
    if share <= 0:
        return 0.0
    freedom = n_clusters - 1
    return float(1 - chndtr(chdtri(freedom, 1 - confidence), freedom, n_items * share))


def items_needed(
    n_clusters: int,
    accuracy: float,
    *,
    spread: float,
    confidence: float,
    power: float = POWER,
) -> int | None:
    """Return how many items it takes to notice such a spread, in the same shares.

    Parameters
    ----------
    n_clusters, accuracy, spread, confidence
        As in :func:`spread_power`, whose inverse this is.
    power : float
        The chance wanted, above ``1 - confidence``.

    Returns
    -------
    int or None
        Rounded up. It rises with the number of subdomains and falls with the spread. None where
        all answers are right or all are wrong: no number of such items shows anything.

    Examples
    --------
    >>> [items_needed(k, 0.5, spread=0.1, confidence=0.95) for k in (2, 4, 20)]
    [197, 273, 514]
    """
    share = _information(accuracy, spread)
    if share <= 0:
        return None
    freedom = n_clusters - 1
    wanted = chndtrinc(chdtri(freedom, 1 - confidence), freedom, 1 - power)
    return math.ceil(wanted / share - 1e-9)


def largest_spread(sizes: Sequence[int], accuracy: float) -> float:
    """Return how far accuracies of subdomains can spread at most, given their mean over items.

    Parameters
    ----------
    sizes : sequence of int
        Items of each subdomain, at least 1 each.
    accuracy : float
        Mean over items, 0 to 1.

    Returns
    -------
    float
        The largest weighted standard deviation of accuracies between 0 and 1 with that mean; 0
        where all answers are right or all are wrong. At most ``sqrt(accuracy * (1 - accuracy))``,
        which it reaches only where some subdomains can be all right and all others all wrong.

    Notes
    -----
    The variance is convex in the accuracies, so it is largest in a corner: some subdomains at 1,
    the others at 0, and one of any accuracy in between that makes the mean come out. Of the sums of
    sizes that leave that one a share between 0 and 1 the smallest or the largest is best, and which
    sums there are is found by dynamic programming. Right answers are counted as real numbers.

    Examples
    --------
    Two right answers of a hundred: all of them in the small subdomain is the most there is.

    >>> round(largest_spread([88, 12], 0.02), 3), round(largest_spread([50, 50], 0.5), 3)
    (0.054, 0.5)
    """
    counts = sorted({int(size) for size in sizes})
    n_items = sum(sizes)
    right = accuracy * n_items
    most = 0.0
    for size in counts:
        others = list(sizes)
        others.remove(size)
        for full in _sums_next_to(others, right, size):
            most = max(most, full + (right - full) ** 2 / size)
    return math.sqrt(max(most / n_items - accuracy**2, 0))


def two_digits(number: int) -> str:
    """Write a number of items rounded up to two digits: no power calculation is more exact.

    Examples
    --------
    >>> two_digits(1234), two_digits(7)
    ('1,300', '7')
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return f"{math.ceil(number / unit) * unit:,}"


def _sums_next_to(sizes: Sequence[int], right: float, room: int) -> list[int]:
    """Return the largest sum of sizes up to ``right`` and the smallest that leaves ``room``.

    Empty where no sum lies between ``right - room`` and ``right``.
    """
    sums = 1  # bit s is set where some of the sizes add up to s
    for size in sizes:
        sums |= sums << size
    low, high = math.ceil(right - room - 1e-9), math.floor(right + 1e-9)
    window = (sums & ((1 << (high + 1)) - 1)) >> max(low, 0)
    if not window:
        return []
    start = max(low, 0)
    return [start + window.bit_length() - 1, start + (window & -window).bit_length() - 1]


def _information(accuracy: float, spread: float) -> float:
    """Return the noncentrality that one item adds."""
    variance = accuracy * (1 - accuracy)
    return min(spread**2, variance) / variance if variance > 0 else 0.0
