"""An interval that includes the choice of subdomains: halves of the items, clustered anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.labels import check_groups
from harmony_utils.metric import check_items, tail_shares
from harmony_utils.partition import spectral_partition
from harmony_utils.uncertainty import corrected_harmony, design_effects

KIND = "random halves clustered anew, noise-corrected; includes the choice of subdomains"
"""The kind of this interval, as reported."""


def reclustered_interval(
    affinity: np.ndarray,
    correct: np.ndarray | Sequence[float],
    *,
    n_resamples: int = 200,
    groups: np.ndarray | Sequence[Any] | None = None,
    bandwidth: float = 0.1,
    confidence: float = 0.95,
    random_state: int = 0,
    **clustering: Any,
) -> dict[str, Any]:
    """Say how far HARMONY may lie from its value when the subdomains are found anew as well.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Symmetric similarities.
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    n_resamples : int
        Random halves.
    groups : array_like of shape (n_items,), optional
        Items of one group are drawn together.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    confidence : float
        Central share of the halves between ``lo`` and ``hi``.
    random_state : int
        Seed of the halves; k-means starts from its own.
    **clustering
        As in :func:`~harmony_utils.partition.spectral_partition`.

    Returns
    -------
    dict
        ``lo``, ``median`` and ``hi`` of noise-corrected HARMONY
        (:func:`~harmony_utils.uncertainty.corrected_harmony`) over halves; ``k_lo``, ``k_median``
        and ``k_hi``, their numbers of subdomains; ``n_resamples``, ``confidence`` and ``kind``.

    Raises
    ------
    InputError
        If a half is too small to be clustered, or the affinity has another size.

    Notes
    -----
    Ours. A bootstrap with replacement would cluster copies: items with similarity 1 to themselves,
    which make tight clusters that are not there. So halves are drawn without replacement. A mean
    over half of the items scatters around that over all just as that one scatters around the truth
    (the variance, ``s**2 (1 / m - 1 / n)``, is ``s**2 / n`` for ``m = n / 2``), so the range needs
    no rescaling. For HARMONY this is an approximation: halves have smaller subdomains, whose noise
    is corrected, and clustering finds less in them. Similarities, and so the temperature, are
    those of all items. Read it beside the interval that takes the partition as given, not instead.

    Examples
    --------
    Two clean blocks are found in every half; their sizes there differ a little.

    >>> blocks = np.kron(np.eye(2), np.ones((30, 30)))
    >>> options = {"n_resamples": 20, "max_clusters": 3, "n_init": 1}
    >>> found = reclustered_interval(blocks, np.tile([0, 1], 30), **options)
    >>> found["k_lo"], found["k_hi"], found["lo"] > 0.8
    (2.0, 2.0, True)
    """
    scores = np.asarray(correct, dtype=np.float64)
    if scores.shape != (len(affinity),):
        raise InputError(f"correctness of shape {scores.shape} for {len(affinity)} items of the "
                         "affinity: give one per item")  # fmt: skip
    members = check_groups(groups, len(scores))
    n_groups = int(members.max()) + 1
    if n_groups < 6 or n_resamples < 2:
        raise InputError(
            f"{n_resamples} halves of {n_groups} items or groups: give at least two of at least six"
        )
    rng = np.random.default_rng(random_state)
    options = {**clustering, "n_stability": 2}
    values, numbers = [], []
    for _ in range(n_resamples):
        drawn = rng.choice(n_groups, n_groups // 2, replace=False)
        half = np.flatnonzero(np.isin(members, drawn))
        labels = spectral_partition(affinity[np.ix_(half, half)], **options).labels
        values.append(_corrected(scores[half], labels, members[half], bandwidth))
        numbers.append(int(labels.max()) + 1)
    ends = tail_shares(confidence)
    low, median, high = np.quantile(values, [ends[0], 0.5, ends[1]]).tolist()
    k_low, k_median, k_high = np.quantile(numbers, [ends[0], 0.5, ends[1]]).tolist()
    return {
        "lo": low,
        "median": median,
        "hi": high,
        "k_lo": k_low,
        "k_median": k_median,
        "k_hi": k_high,
        "n_resamples": n_resamples,
        "confidence": confidence,
        "kind": KIND,
    }


def _corrected(
    correct: np.ndarray, labels: np.ndarray, members: np.ndarray, bandwidth: float
) -> float:
    """Return HARMONY of these items without the spread that noise explains."""
    scores, codes, _ = check_items(correct, labels)
    sizes = np.bincount(codes)
    accuracies = np.bincount(codes, weights=scores) / sizes
    within, _ = design_effects(scores - accuracies[codes], codes, members)
    return float(
        corrected_harmony(sizes, accuracies, variance=scores.var() * within, bandwidth=bandwidth)
    )
