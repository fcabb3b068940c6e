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
from harmony_utils.probabilities import brier_scores, option_probabilities
from harmony_utils.settings import Normalisation

RIGHT = {f"right by {name}": name for name in get_args(Normalisation)}
SOFT = ("probability", "log score", "negative Brier score")
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
        option, from :func:`~harmony_utils.probabilities.option_probabilities`. ``log score``: its
        natural logarithm. ``negative Brier score``: minus
        :func:`~harmony_utils.probabilities.brier_scores`. Several right options of one question
        count as one.

    Returns
    -------
    DataFrame
        ``key`` and a column for each metric; NaN where an option has no score or its length is
        unknown, and all through where there are no probabilities.

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
    """Return what is made of the probabilities of options; NaN where there are none."""
    try:
        mass = option_probabilities(predictions)
    except InputError:
        return {name: np.full(len(predictions), np.nan) for name in SOFT}
    gold = [list(right) for right in predictions.table["gold"]]
    probability = np.array([mass[row, right].sum() for row, right in enumerate(gold)])
    return dict(
        zip(
            SOFT,
            (probability, np.log(np.maximum(probability, SMALLEST)), -brier_scores(mass, gold)),
            strict=True,
        )
    )


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
