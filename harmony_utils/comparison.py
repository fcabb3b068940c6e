"""Partitions to compare the subdomains with, and what each of them says about HARMONY.

Subdomains from predictive similarity are one way of dividing a benchmark. Subjects, the texts of
the questions, the form of the answers, another model or chance divide it otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.labels import canonical_labels, refuse_missing
from harmony_utils.pairs import refuse_too_many
from harmony_utils.partition import TINY_SIZE


def compare_partitions(
    correct: np.ndarray | Sequence[float],
    partitions: dict[str, Sequence[Hashable] | np.ndarray],
    reference: str,
    *,
    groups: np.ndarray | Sequence[Hashable] | None = None,
    bandwidth: float = 0.1,
    n_null: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> pd.DataFrame:
    """Set partitions of the same items side by side.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        1 for a right answer, 0 for a wrong one; partial credit between them is allowed.
    partitions : dict of str to sequence, each of length n_items
        Labels by the name of the partition; each of at least two subdomains, no label missing.
    reference : str
        Name of the partition that the others are compared with.
    groups, bandwidth, n_null, confidence, random_state
        As in :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    DataFrame
        One row per partition, in the order given: ``name``, ``n_clusters``, ``smallest`` and
        ``largest`` (items), ``ami`` and ``ari`` (adjusted mutual information and adjusted Rand
        index with the reference: 1 if equal, about 0 if unrelated), ``harmony``, ``size_part``,
        ``performance_part``, ``null_low``, ``null_high``, ``p_value`` (each against random deals
        into subdomains of that partition's own sizes) and ``verdict``. HARMONY values of
        partitions with other sizes do not compare; their p-values do. Of twenty p-values one
        below 0.05 is no surprise.

    Raises
    ------
    InputError
        If the reference is not among the partitions, or a partition cannot be used (it is named).

    Notes
    -----
    Adjusted mutual information: Vinh, Epps & Bailey, JMLR 11, 2010, with the mean of both
    entropies. Adjusted Rand index: Hubert & Arabie, 1985.

    Examples
    --------
    Both partitions have HARMONY 1: half of the answers are right in every subdomain.

    >>> table = compare_partitions([0, 1] * 20, {"a": [0, 0, 1, 1] * 10, "b": [0, 1] * 20}, "a")
    >>> table[["name", "ami", "harmony"]].round(2).values.tolist()
    [['a', 1.0, 1.0], ['b', -0.02, 1.0]]
    """
    if reference not in partitions:
        raise InputError(
            f"reference {reference!r}: is not among the partitions ({', '.join(partitions)})"
        )
    rows = []
    base = canonical_labels(partitions[reference])
    settings = {"bandwidth": bandwidth, "n_null": n_null, "confidence": confidence}
    settings["groups"] = groups
    for name, given in partitions.items():
        try:
            refuse_missing(given, "labels", "label every item or leave the partition out")
            labels = canonical_labels(given)
            result = harmony(correct, labels, **settings, random_state=random_state)
        except InputError as error:
            raise InputError(f"partition {name!r}: {error}") from None
        rows.append(
            {
                "name": name,
                "n_clusters": result.n_clusters,
                "smallest": min(result.sizes),
                "largest": max(result.sizes),
                "ami": float(adjusted_mutual_info_score(base, labels)),
                "ari": float(adjusted_rand_score(base, labels)),
                "harmony": result.harmony,
                "size_part": result.size_part,
                "performance_part": result.performance_part,
                "null_low": result.null_low,
                "null_high": result.null_high,
                "p_value": result.p_value,
                "verdict": result.verdict,
            }
        )
    return pd.DataFrame(rows)


def length_groups(lengths: Sequence[int], *, min_size: int = TINY_SIZE) -> np.ndarray:
    """Group items by a length, such as the number of words of an answer.

    Parameters
    ----------
    lengths : sequence of int, length n_items
        At least 0.
    min_size : int
        Neighbouring lengths are put together, from the shortest on, until a group has this many
        items; what is left over joins the longest group.

    Returns
    -------
    ndarray of shape (n_items,), int
        Groups in rising order of length, from 0. One group only if all lengths are equal or there
        are too few items for two.

    Examples
    --------
    >>> length_groups([1, 1, 2, 3, 3, 9], min_size=2).tolist()
    [0, 0, 1, 1, 1, 1]
    """
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    groups = np.zeros(len(values), dtype=np.int64)
    group = filled = 0
    for position, count in enumerate(counts):
        groups[position] = group
        filled += count
        if filled >= min_size and counts[position + 1 :].sum() >= min_size:
            group, filled = group + 1, 0
    return groups[np.searchsorted(values, lengths)]


def co_membership(labels: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Return the affinity of a partition alone: 1 for items of one subdomain, else 0.

    Parameters
    ----------
    labels : sequence of hashable, length n_items
        Subdomain of each item.

    Returns
    -------
    ndarray of shape (n_items, n_items), float32
        To be averaged over models by :func:`shared_affinity` where only partitions were kept
        (Fred & Jain's evidence accumulation, 2005).

    Raises
    ------
    InputError
        For more items than :data:`~harmony_utils.settings.ALL_PAIRS_ITEMS`.
    """
    refuse_too_many(len(labels), "shared subdomains")
    codes = canonical_labels(labels)
    return (codes[:, None] == codes).astype(np.float32)


def shared_affinity(affinities: Iterable[np.ndarray]) -> np.ndarray:
    """Return the mean similarity of each pair over several models.

    Parameters
    ----------
    affinities : iterable of ndarray of shape (n_items, n_items)
        Of the same items in the same order; one at a time is held beside the mean.

    Returns
    -------
    ndarray of shape (n_items, n_items), float32
        Every model counts the same. Clustered, it gives one partition for all of them.

    Raises
    ------
    InputError
        If there is none, or they differ in shape.

    Examples
    --------
    >>> shared_affinity([co_membership([0, 0]), co_membership([0, 1])]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    mean: np.ndarray | None = None
    count = 0
    for affinity in affinities:
        if mean is None:
            mean = np.zeros(affinity.shape, dtype=np.float32)
        if affinity.shape != mean.shape:
            raise InputError(
                f"affinities of shapes {mean.shape} and {affinity.shape}: give the same items"
            )
        mean += affinity
        count += 1
    if mean is None:
        raise InputError("affinities: there are none to average")
    mean /= count
    return mean
