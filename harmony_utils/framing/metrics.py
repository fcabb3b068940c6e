"""The same answers under several metrics, question by question.

A metric that counts right answers moves in steps where the probability of the right answer moves
little by little (Schaeffer, Miranda and Koyejo 2023, *Are emergent abilities of large language
models a mirage?*); which length divides the log-likelihoods decides what counts as right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.predictions import Predictions
from harmony_utils.settings import Normalisation

RIGHT = {f"right by {name}": name for name in get_args(Normalisation)}
SOFT = ("probability", "log score", "Brier score")
METRICS = (*RIGHT, *SOFT)
"""All of them: the higher, the better."""

SMALLEST = 1e-12
"""Probability below which the log score takes it for this: one question must not outweigh all."""


def metric_values(predictions: Predictions, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Return what each metric gives each question.

    Parameters
    ----------
    predictions : Predictions
        Answers among options, with log-likelihoods.
    metrics : sequence of str
        Of :data:`METRICS`. ``right by sum``, ``char``, ``byte``, ``token``: 1 if the option with
        the best log-likelihood, divided by that length, is right. ``probability``: of the right
        option among the options, softmax of the sums. ``log score``: its natural logarithm.
        ``Brier score``: ``1 - sum((p - y)**2) / 2`` over options, from 0 to 1, where y is 1 for the
        right option (Brier 1950, turned round so that higher is better). Several right options of
        one question count as one.

    Returns
    -------
    DataFrame
        ``key`` and a column for each metric; NaN where an option has no log-likelihood, or its
        length is unknown.

    Raises
    ------
    InputError
        For written answers, or an unknown metric.

    Examples
    --------
    >>> from harmony_utils.respondents import respond
    >>> from harmony_utils.sources import load_benchmark
    >>> answers = respond("respondent:first", load_benchmark("copa", limit=4))
    >>> metric_values(answers, ["right by sum"])["right by sum"].tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    if unknown := [name for name in metrics if name not in METRICS]:
        raise InputError(f"metric {unknown[0]!r}: choose {', '.join(METRICS)}")
    columns = {name: predictions.correct_by(RIGHT[name]) for name in metrics if name in RIGHT}
    if set(metrics) & set(SOFT):
        columns |= _soft(predictions)
    return pd.DataFrame({"key": predictions.table["key"], **{m: columns[m] for m in metrics}})


def _soft(predictions: Predictions) -> dict[str, np.ndarray]:
    """Return what is made of the probabilities of options."""
    scores = predictions.scores("sum")
    offered = np.arange(scores.shape[1]) < predictions.table["n_options"].to_numpy()[:, None]
    known = (np.isfinite(scores) | ~offered).all(axis=1)
    shifted = np.where(offered, scores, -np.inf)
    shifted = np.where(known[:, None], shifted, 0.0)
    mass = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    gold = np.zeros_like(offered)
    for row, right in enumerate(predictions.table["gold"]):
        if right is None:
            known[row] = False
        else:
            gold[row, list(right)] = True
    probability = (mass * gold).sum(axis=1)
    distance = ((mass * ~gold) ** 2).sum(axis=1) + (1 - probability) ** 2
    found = {
        "probability": probability,
        "log score": np.log(np.maximum(probability, SMALLEST)),
        "Brier score": 1 - distance / 2,
    }
    return {name: np.where(known, values, np.nan) for name, values in found.items()}


def largest_step(scores: Sequence[float] | np.ndarray) -> tuple[int, float]:
    """Return where a row of scores rises most at once, and which share of its range that is.

    Parameters
    ----------
    scores : sequence of float, length n_models
        In the order of what is thought to drive them, such as size or depth.

    Returns
    -------
    place : int
        The rise is from ``scores[place]`` to the next; the first of equal ones.
    share : float
        Of the distance between the lowest and the highest score: at least
        ``1 / (n_models - 1)`` where they rise all the way, 1 where they rise once. 0 if nothing
        rises.

    Raises
    ------
    InputError
        For fewer than two scores, or one that is missing.

    Examples
    --------
    >>> largest_step([0.25, 0.25, 0.30, 0.50])
    (2, 0.8)
    """
    values = np.asarray(scores, dtype=float)
    if len(values) < 2 or not np.isfinite(values).all():
        raise InputError("largest_step: needs at least two scores, none missing")
    rises = [later - earlier for earlier, later in pairwise(values)]
    place = int(np.argmax(rises))
    if rises[place] <= 0:
        return place, 0.0
    return place, round(float(rises[place] / (values.max() - values.min())), 12)
