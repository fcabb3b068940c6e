"""Whether a model's probabilities of the options can be believed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from harmony_utils.errors import InputError
from harmony_utils.metric import tail_shares


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error with its interval and its bins.

    Parameters
    ----------
    value : float
        Between 0, confidence equals accuracy in every bin, and 1.
    low, high : float
        Its interval; see :func:`calibration_error`.
    by_chance : float
        What a perfectly calibrated model would show on average in these bins, from noise alone.
    sizes : tuple of int
        Questions per bin, in the order of confidence.
    confidences, accuracies : tuple of float
        Means per bin.
    """

    value: float
    low: float
    high: float
    by_chance: float
    sizes: tuple[int, ...]
    confidences: tuple[float, ...]
    accuracies: tuple[float, ...]


def calibration_error(
    confidence: np.ndarray,
    correct: np.ndarray,
    *,
    n_bins: int = 10,
    design_effect: float = 1.0,
    level: float = 0.95,
) -> CalibrationError:
    """Return the expected calibration error over bins of equally many items.

    Parameters
    ----------
    confidence : ndarray of shape (n_items,)
        Probability of the chosen option.
    correct : ndarray of shape (n_items,)
        Correctness, between 0 and 1.
    n_bins : int
        Bins of equally many items, as far as their number divides: sizes differ by one at most.
        Equal confidences stay in the order of the items. Never more bins than items.
    design_effect : float
        How many items count as one independent item.
    level : float
        Coverage of the interval.

    Returns
    -------
    CalibrationError
        Lower is better.

    Raises
    ------
    InputError
        Without items, or for a number of bins or a level that is none.

    Notes
    -----
    ``sum_b n_b / n * |mean confidence_b - mean correctness_b|``. Noise alone makes it larger than
    0, the more so the fewer items a bin has. The interval is ours. Its upper end adds the quantile
    of the normal distribution times the standard error of the sum, because noise can only raise
    the expected value of a distance. Its lower end takes off the sum of the absolute noise, which
    by the triangle inequality is the most that noise can add: its mean and the same quantile of
    its spread, absolute normal deviates being independent between bins. Standard errors are taken
    at accuracies to which two items of average accuracy have been added. So the interval is wide
    rather than narrow: it misses the truth most often where calibration is perfect and items are
    few (a test holds it to nine times of ten with 100 items).

    Examples
    --------
    Of two items believed at 0.5, one is right: the error is 0. Of two believed at 1, both wrong, 1.

    >>> calibration_error(np.array([0.5, 0.5]), np.array([1, 0]), n_bins=1).value
    0.0
    >>> calibration_error(np.array([1.0, 1.0]), np.array([0, 0]), n_bins=1).value
    1.0
    """
    if n_bins < 1:
        raise InputError(f"n_bins {n_bins}: give at least 1, for example 10")
    if len(confidence) == 0 or len(confidence) != len(correct):
        raise InputError(
            f"calibration: {len(confidence)} confidences and {len(correct)} answers; give one of "
            "each per item"
        )
    order = np.argsort(confidence, kind="stable")
    bins = np.array_split(order, min(n_bins, len(order)))
    sizes = np.array([len(rows) for rows in bins])
    believed = np.array([confidence[rows].mean() for rows in bins])
    right = np.array([correct[rows].mean() for rows in bins])
    shrunk = (right * sizes + 2 * correct.mean()) / (sizes + 2)
    error = np.sqrt(shrunk * (1 - shrunk) * design_effect / sizes)
    share = sizes / sizes.sum()
    value = float(share @ np.abs(believed - right))
    quantile = float(ndtri(tail_shares(level)[1]))
    spread = math.sqrt(float(share**2 @ error**2))
    by_chance = math.sqrt(2 / math.pi) * float(share @ error)
    most = by_chance + quantile * math.sqrt(1 - 2 / math.pi) * spread
    return CalibrationError(
        value=value,
        low=max(0.0, value - most),
        high=min(1.0, value + quantile * spread),
        by_chance=by_chance,
        sizes=tuple(sizes.tolist()),
        confidences=tuple(believed.tolist()),
        accuracies=tuple(right.tolist()),
    )
