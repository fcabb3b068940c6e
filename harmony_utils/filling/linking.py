"""Linking: the difficulty of new questions on the scale of the old ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.fit import fit_difficulty
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError
from harmony_utils.filling.candidates import Candidate
from harmony_utils.filling.gates import Measured, band_probability


def joined_responses(originals: Responses, answers: np.ndarray, names: Sequence[str]) -> Responses:
    """Put answers to new items beside those to the originals.

    Parameters
    ----------
    originals : Responses
        Models by originals.
    answers : ndarray of shape (n_models, n_new)
        The same models, in the same order; NaN where missing.
    names : sequence of str
        Names of the new items.

    Raises
    ------
    InputError
        If the number of models differs, or a new item nobody answered.
    """
    answers = np.asarray(answers, dtype=float)
    if answers.shape != (originals.shape[0], len(names)):
        raise InputError(
            f"panel: answers of shape {answers.shape} for {originals.shape[0]} models and "
            f"{len(names)} items; rows must be the models of the originals"
        )
    if len(names) and np.isnan(answers).all(axis=0).any():
        lost = names[int(np.isnan(answers).all(axis=0).argmax())]
        raise InputError(f"panel: nobody answered {lost}; leave it out")
    return replace(
        originals,
        values=np.concatenate([originals.values, answers], axis=1),
        items=(*originals.items, *names),
        subjects=(*originals.subjects, *[""] * len(names)),
        groups={},
    )


def link(
    fit: DifficultyFit, originals: Responses, answers: np.ndarray, names: Sequence[str]
) -> DifficultyFit:
    """Fit new items with the originals' parameters fixed.

    Parameters
    ----------
    fit : DifficultyFit
        Of the originals; their slopes and intercepts stay as they are.
    originals : Responses
        What it was fitted to.
    answers : ndarray of shape (n_models, n_new)
        Answers of the same models.
    names : sequence of str
        Names of the new items.

    Returns
    -------
    DifficultyFit
        Of originals and new items together; ``anchored`` says which are which.

    Notes
    -----
    Fixed-parameter calibration (Kim 2006). Abilities are those that the originals and the new
    items give together under the originals' parameters, so the scale cannot drift.
    """
    whole = joined_responses(originals, answers, names)
    guessing = None
    if fit.model == "3pl":
        guessing = np.concatenate([fit.guessing, np.full(len(names), np.median(fit.guessing))])
    return fit_difficulty(whole, model=fit.model, guessing=guessing, anchors=fit)


def measure(
    fit: DifficultyFit,
    originals: Responses,
    answers: np.ndarray,
    candidates: Sequence[Candidate],
) -> list[Measured]:
    """Measure candidates on the originals' scale, each against its own band.

    Parameters
    ----------
    fit : DifficultyFit
        Of the originals; stays fixed.
    originals : Responses
        What it was fitted to.
    answers : ndarray of shape (n_models, n_candidates)
        Of the same models, in the same order; NaN where missing.
    candidates : sequence of Candidate
        What was answered.

    Returns
    -------
    list of Measured
        In the same order. Candidates that nobody answered get NaN and a probability of 0.

    Raises
    ------
    InputError
        If the answers are of other models or candidates.
    """
    answers = np.asarray(answers, dtype=float)
    known = ~np.isnan(answers).all(axis=0)
    found = [Measured(np.nan, np.nan, np.nan, 0.0, 0) for _ in candidates]
    if not known.any():
        return found
    names = [candidates[j].id for j in np.flatnonzero(known)]
    linked = link(fit, originals, answers[:, known], names)
    first = originals.shape[1]
    difficulty, error = linked.difficulty, linked.difficulty_se
    for place, j in enumerate(np.flatnonzero(known), start=first):
        low, high = candidates[j].band
        given = answers[:, j][~np.isnan(answers[:, j])]
        found[j] = Measured(
            difficulty=float(difficulty[place]),
            difficulty_se=float(error[place]),
            slope=float(linked.slope[place]),
            p_in_band=band_probability(float(difficulty[place]), float(error[place]), low, high),
            n_answers=len(given),
            accuracy=float(given.mean()),
        )
    return found
