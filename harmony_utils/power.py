"""How many items it takes before a verdict can be given.

Ours: the power of the chi-squared test of equal accuracies, which HARMONY's own test is held to.
"""

from __future__ import annotations

import math

from scipy.special import chdtri, chndtr, chndtrinc

POWER = 0.8
"""Without this chance of noticing a spread of one bandwidth, a verdict is ``cannot tell``."""


def spread_power(
    n_items: int, n_clusters: int, accuracy: float, *, bandwidth: float, confidence: float
) -> float:
    """Return the chance of noticing accuracies that spread by one bandwidth.

    Parameters
    ----------
    n_items, n_clusters : int
        Items and subdomains.
    accuracy : float
        Mean over items.
    bandwidth : float
        The spread, as a weighted standard deviation; no more than the mean allows is taken.
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
    >>> round(spread_power(273, 4, 0.5, bandwidth=0.1, confidence=0.95), 3)
    0.801
    """
    share = _information(accuracy, bandwidth)
    if share <= 0:
        return 0.0
    freedom = n_clusters - 1
    return float(1 - chndtr(chdtri(freedom, 1 - confidence), freedom, n_items * share))


def items_needed(
    n_clusters: int,
    accuracy: float,
    *,
    bandwidth: float,
    confidence: float,
    power: float = POWER,
) -> int | None:
    """Return how many items it takes to notice a spread of one bandwidth, in the same shares.

    Parameters
    ----------
    n_clusters, accuracy, bandwidth, confidence
        As in :func:`spread_power`, whose inverse this is.
    power : float
        The chance wanted, above ``1 - confidence``.

    Returns
    -------
    int or None
        Rounded up. It rises with the number of subdomains and falls with the bandwidth. None where
        all answers are right or all are wrong: no number of such items shows anything.

    Examples
    --------
    >>> [items_needed(k, 0.5, bandwidth=0.1, confidence=0.95) for k in (2, 4, 20)]
    [197, 273, 514]
    """
    share = _information(accuracy, bandwidth)
    if share <= 0:
        return None
    freedom = n_clusters - 1
    wanted = chndtrinc(chdtri(freedom, 1 - confidence), freedom, 1 - power)
    return math.ceil(wanted / share - 1e-9)


def _information(accuracy: float, bandwidth: float) -> float:
    """Return the noncentrality that one item adds."""
    variance = accuracy * (1 - accuracy)
    return min(bandwidth**2, variance) / variance if variance > 0 else 0.0
