"""Newton steps of the item response fit: all items at once, all models at once.

A model of ability ``t`` answers an item of slope ``a``, intercept ``d`` and fixed guessing level
``c`` right with probability ``P = c + (1 - c) s``, ``s = 1 / (1 + exp(-(a t + d)))``. The slope of
the log-likelihood in ``a t + d`` is ``(y - P) s / P`` and its expected curvature
``s**2 (1 - P) / P`` (Fisher scoring); without guessing they are ``y - P`` and ``P (1 - P)``.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

NODES = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
NODE_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6
"""Gauss-Hermite rule of three points: exact for polynomials up to the fifth degree."""

_LONGEST = 2.0
"""Longest step in an intercept, slope or ability; keeps Newton's method from overshooting."""


def success(
    ability: np.ndarray, slope: np.ndarray, intercept: np.ndarray, guessing: np.ndarray
) -> np.ndarray:
    """Return the probability of a right answer, shape (n_abilities, n_items)."""
    return guessing + (1 - guessing) * expit(np.outer(ability, slope) + intercept)


def score_and_weight(
    answers: np.ndarray, logits: np.ndarray, guessing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return first derivative and expected information in the logit; see the module's text."""
    curve = expit(logits)
    if not guessing.any():
        return answers - curve, curve * (1 - curve)
    right = guessing + (1 - guessing) * curve
    return (answers - right) * curve / right, curve**2 * (1 - right) / right


def ability_step(
    answers: np.ndarray,
    seen: np.ndarray,
    ability: np.ndarray,
    items: tuple[np.ndarray, np.ndarray, np.ndarray],
    prior: tuple[float, float],
    *,
    n_steps: int = 3,
) -> tuple[np.ndarray, np.ndarray]:
    """Move abilities to their posterior mode with the items fixed.

    Parameters
    ----------
    answers : ndarray of shape (n_models, n_items)
        Between 0 and 1; anything where ``seen`` is 0.
    seen : ndarray of shape (n_models, n_items)
        1 where there is an answer, else 0.
    ability : ndarray of shape (n_models,)
        Start.
    items : tuple of three ndarrays of shape (n_items,)
        Slopes, intercepts, guessing levels.
    prior : tuple of float
        Mean and standard deviation of the normal prior.
    n_steps : int
        Newton steps.

    Returns
    -------
    ability, variance : ndarray of shape (n_models,)
        Mode, and inverse curvature there (Laplace).
    """
    slope, intercept, guessing = items
    mean, sd = prior
    for step in range(n_steps + 1):
        logits = np.outer(ability, slope) + intercept
        score, weight = score_and_weight(answers, logits, guessing)
        information = (seen * weight) @ slope**2 + 1 / sd**2
        if step == n_steps:
            break
        gradient = (seen * score) @ slope - (ability - mean) / sd**2
        ability = ability + np.clip(gradient / information, -_LONGEST, _LONGEST)
    return ability, 1 / information


def item_step(
    answers: np.ndarray,
    seen: np.ndarray,
    ability: tuple[np.ndarray, np.ndarray],
    items: tuple[np.ndarray, np.ndarray, np.ndarray],
    prior: tuple[np.ndarray, np.ndarray],
    *,
    n_steps: int = 3,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Move slopes and intercepts to their posterior mode, abilities being uncertain.

    The expected log-likelihood over each ability's normal posterior is taken at three nodes,
    ``NODES``.

    Parameters
    ----------
    answers, seen : ndarray of shape (n_models, n_items)
        As in :func:`ability_step`.
    ability : tuple of two ndarrays of shape (n_models,)
        Posterior means and standard deviations.
    items : tuple of three ndarrays of shape (n_items,)
        Slopes and intercepts to start from, guessing levels.
    prior : tuple of ndarrays of shape (2,) and (2, 2)
        Mean and covariance of slope and intercept.
    n_steps : int
        Newton steps.

    Returns
    -------
    slope, intercept : ndarray of shape (n_items,)
        Modes.
    covariance : ndarray of shape (n_items, 2, 2)
        Inverse curvature there (Laplace).
    """
    slope, intercept, guessing = items
    mean, precision = prior[0], np.linalg.inv(prior[1])
    spread = np.unique(ability[1]).tolist() != [0.0]
    nodes = list(zip(NODES, NODE_WEIGHTS, strict=True)) if spread else [(0.0, 1.0)]
    for step in range(n_steps + 1):
        off = np.stack([slope - mean[0], intercept - mean[1]])
        gradient = -precision @ off
        curvature = np.broadcast_to(precision[[0, 0, 1], [0, 1, 1]][:, None], (3, len(slope)))
        for node, share in nodes:
            place = ability[0] + node * ability[1]
            logits = np.outer(place, slope) + intercept
            score, weight = score_and_weight(answers, logits, guessing)
            score, weight = seen * score, seen * weight
            powers = share * np.stack([np.ones_like(place), place, place**2])
            gradient = gradient + powers[[1, 0]] @ score
            curvature = curvature + powers[[2, 1, 0]] @ weight
        covariance = _inverse(curvature)
        if step == n_steps:
            break
        moved = np.einsum("ijk,ki->ji", covariance, gradient).clip(-_LONGEST, _LONGEST)
        slope, intercept = slope + moved[0], intercept + moved[1]
    return slope, intercept, covariance


def shared_slope_step(
    answers: np.ndarray,
    seen: np.ndarray,
    ability: tuple[np.ndarray, np.ndarray],
    items: tuple[np.ndarray, np.ndarray, np.ndarray],
    prior: tuple[float, float],
    *,
    n_steps: int = 3,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do :func:`item_step` for items that share one slope (1PL); ``prior`` is the intercept's.

    The slope has a flat prior. Its variance is carried into that of every intercept's difficulty
    through the entries of the covariance.
    """
    slope, intercept, guessing = items
    shared, (mean, variance) = float(slope[0]), prior
    for step in range(n_steps + 1):
        first = np.zeros((2, len(intercept)))
        second = np.zeros((3, len(intercept)))
        for node, share in zip(NODES, NODE_WEIGHTS, strict=True):
            place = ability[0] + node * ability[1]
            logits = np.outer(place, np.full(len(intercept), shared)) + intercept
            score, weight = score_and_weight(answers, logits, guessing)
            score, weight = seen * score, seen * weight
            powers = share * np.stack([np.ones_like(place), place, place**2])
            first += powers[[1, 0]] @ score
            second += powers[[2, 1, 0]] @ weight
        first[1] -= (intercept - mean) / variance
        bend = second[2] + 1 / variance
        # the intercepts' block is diagonal, so the slope's own information is a Schur complement
        left = second[0].sum() - (second[1] ** 2 / bend).sum()
        if step == n_steps:
            break
        move = float(np.clip((first[0].sum() - (second[1] * first[1] / bend).sum()) / left, -1, 1))
        shared = max(shared + move, 0.05)
        intercept = intercept + ((first[1] - second[1] * move) / bend).clip(-_LONGEST, _LONGEST)
    covariance = np.zeros((len(intercept), 2, 2))
    covariance[:, 0, 0] = 1 / left
    covariance[:, 0, 1] = covariance[:, 1, 0] = -second[1] / bend / left
    covariance[:, 1, 1] = 1 / bend + (second[1] / bend) ** 2 / left
    return np.full(len(intercept), shared), intercept, covariance


def _inverse(curvature: np.ndarray) -> np.ndarray:
    """Invert symmetric 2 x 2 matrices given as rows (aa, ad, dd), shape (3, n)."""
    aa, ad, dd = curvature
    det = aa * dd - ad**2
    return np.stack([np.stack([dd, -ad], -1), np.stack([-ad, aa], -1)], -2) / det[:, None, None]
