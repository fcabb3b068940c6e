"""Weighing subdomains alike instead of removing items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harmony_utils.labels import check_groups
from harmony_utils.metric import check_items, wilson_interval
from harmony_utils.uncertainty import design_effects


@dataclass(frozen=True)
class BalancedAccuracy:
    """Accuracy with every subdomain weighted the same.

    Parameters
    ----------
    accuracy : float
        Mean of the subdomains' accuracies.
    low, high : float
        Its interval.
    n_effective : float
        How many equally weighted items would be as informative.
    plain : float
        Mean over items, for comparison.
    confidence : float
        Coverage of the interval.
    """

    accuracy: float
    low: float
    high: float
    n_effective: float
    plain: float
    confidence: float

    def to_dict(self) -> dict[str, float]:
        """Return plain values that JSON can hold."""
        return asdict(self)


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


def balanced_accuracy(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    groups: np.ndarray | Sequence[Any] | None = None,
    confidence: float = 0.95,
) -> BalancedAccuracy:
    """Return the balanced mean with its interval and its effective number of items.

    Parameters
    ----------
    correct, labels : array_like of shape (n_items,)
        Correctness between 0 and 1, and subdomains.
    groups : array_like of shape (n_items,), optional
        Items that hang together; see :func:`~harmony_utils.harmony.harmony`.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    BalancedAccuracy
        The interval covers other items from the same subdomains, the partition as given.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`.

    Notes
    -----
    Ours: Wilson's interval for the effective number of items. That is the number of independent
    items at which the variance of a plain mean, ``a (1 - a) / n``, equals that of the balanced one,
    ``sum_i v_i / (n_i k**2)``. The variance ``v_i`` within a subdomain is ``s_i (1 - s_i)``, where
    ``s_i`` is its accuracy after two items of average accuracy have been added, as in Agresti and
    Coull's interval: three right answers of three do not make a subdomain certain. It is never more
    than one over the sum of the squared weights (Kish's number), which small subdomains need that
    happen to have few wrong answers. Groups divide it by their design effect.

    Examples
    --------
    Equal subdomains weigh items alike, so nothing is lost.

    >>> import numpy as np
    >>> even = balanced_accuracy(np.tile([0, 1], 50), np.repeat([0, 1], 50))
    >>> round(even.n_effective), round(even.low, 2), round(even.high, 2)
    (100, 0.4, 0.6)
    """
    scores, codes, _ = check_items(correct, labels)
    sizes = np.bincount(codes)
    right = np.bincount(codes, weights=scores)
    accuracy, plain = float((right / sizes).mean()), float(scores.mean())
    shrunk = (right + 2 * plain) / (sizes + 2)
    variance = float((shrunk * (1 - shrunk) / sizes).sum()) / len(sizes) ** 2
    binomial = accuracy * (1 - accuracy)
    kish = len(sizes) ** 2 / float((1 / sizes).sum())
    n_effective = min(kish, binomial / variance) if binomial > 0 else kish
    residuals = scores - (right / sizes)[codes]
    n_effective /= design_effects(residuals, codes, check_groups(groups, len(scores)))[0]
    low, high = wilson_interval(np.array(accuracy), np.array(n_effective), confidence=confidence)
    return BalancedAccuracy(accuracy, float(low), float(high), n_effective, plain, confidence)
