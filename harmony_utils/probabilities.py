"""What a model says of the options once it has to choose: the softmax over their scores.

A model that writes its answer says no such thing.
"""

from __future__ import annotations

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.predictions import Predictions


def option_log_probabilities(predictions: Predictions) -> np.ndarray:
    """Return the logarithm of the softmax over each item's scores.

    Parameters
    ----------
    predictions : Predictions
        With a log-likelihood for every option.

    Returns
    -------
    ndarray of shape (n_items, max_options)
        Natural logarithms, under the table's own normalisation, by which the model answers; -inf
        where an item has no such option.

    Raises
    ------
    InputError
        For written answers, which have no options; for rules, and for logs that hold no
        log-likelihoods; or where some options have none: a softmax over the rest would not be
        the model's.
    """
    if predictions.open_ended:
        raise InputError("the answers were written, so there are no options to give probability to")
    if predictions.meta.get("normalisation") == "logged":
        raise InputError("the log holds the chosen options only, no log-likelihoods")
    if predictions.meta.get("scores", "log-likelihood") != "log-likelihood":
        raise InputError("the scores are those of a rule, no log-likelihoods")
    scores = predictions.scores()
    sizes = predictions.table["n_options"].to_numpy(dtype=float)
    there = np.arange(scores.shape[1]) < sizes[:, None]
    if missing := int((there & np.isnan(scores)).sum() + np.isnan(sizes).sum()):
        raise InputError(f"{missing} options have no log-likelihood")
    if any(gold is None for gold in predictions.table["gold"]):
        raise InputError("the log does not say which option is right")
    scores = np.where(there, scores, -np.inf)
    return scores - np.logaddexp.reduce(scores, axis=1)[:, None]


def option_probabilities(predictions: Predictions) -> np.ndarray:
    """Return :func:`option_log_probabilities` as probabilities; each row sums to 1."""
    return np.exp(option_log_probabilities(predictions))


def brier_scores(probabilities: np.ndarray, gold: list[list[int]]) -> np.ndarray:
    """Return each item's Brier score.

    Parameters
    ----------
    probabilities : ndarray of shape (n_items, max_options)
        Rows sum to 1.
    gold : list of lists of int, length n_items
        Indices of the right options; several of one item count as one outcome.

    Returns
    -------
    ndarray of shape (n_items,)
        Squared distance between probabilities and what is right: 0, certain and right, to 2,
        certain and wrong. Lower is better.

    Notes
    -----
    Brier, *Verification of forecasts expressed in terms of probability* (1950).

    Examples
    --------
    >>> brier_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]), [[0], [1], [1]]).tolist()
    [0.0, 2.0, 0.5]
    """
    right = np.zeros(probabilities.shape, dtype=bool)
    for row, indices in enumerate(gold):
        right[row, list(indices)] = True
    mass = np.where(right, probabilities, 0).sum(axis=1)
    return (1 - mass) ** 2 + np.where(right, 0, probabilities**2).sum(axis=1)
