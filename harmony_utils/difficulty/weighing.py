"""What a score listens to: the weight of each band of difficulty, and where the score is blind."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.mismatch import LEVELS, Target
from harmony_utils.difficulty.posterior import DifficultyPosterior
from harmony_utils.difficulty.responses import Responses


def band_edges(target: Target, *, n_bands: int = 6) -> np.ndarray:
    """Return the ends of bands for tables: the target's own, or equal parts of its range.

    Parameters
    ----------
    target : Target
        One of several bands, or of one, which is then cut.
    n_bands : int
        Parts into which one band is cut.

    Returns
    -------
    ndarray
        Rising, with minus and plus infinity at the ends.

    Examples
    --------
    >>> from harmony_utils.difficulty.mismatch import uniform_target
    >>> band_edges(uniform_target(-1, 1), n_bands=2).tolist()
    [-inf, -1.0, 0.0, 1.0, inf]
    """
    if len(target.shares) > 1:
        return np.array([-np.inf, *target.edges, np.inf])
    return np.array([-np.inf, *np.linspace(target.low, target.high, n_bands + 1), np.inf])


def band_table(
    fit: DifficultyFit,
    responses: Responses,
    target: Target,
    *,
    posterior: DifficultyPosterior,
    edges: np.ndarray | None = None,
) -> pd.DataFrame:
    """Say what each band of difficulty weighs in the score.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    responses : Responses
        Answers that the score was computed from.
    target : Target
        What is wanted.
    posterior : DifficultyPosterior
        Of ``fit``.
    edges : ndarray, optional
        Ends of the bands; :func:`band_edges` if not given.

    Returns
    -------
    DataFrame
        One row a band from ``low`` to ``high`` and one for items without a usable difficulty:
        ``n_items``; ``nominal`` share of items; ``target`` share; ``response`` share, of the
        score's response to a small gain in ability, ``sum P' / sum P'`` averaged over the
        models' abilities; ``variance`` share, ``cov(x_i, score) / var(score)`` summed over the
        band, of what separates these models (missing answers are filled with their probability).
        The last may be negative. Items that all models have right keep their nominal share and
        have next to none of the other two.
    """
    ends = band_edges(target) if edges is None else np.asarray(edges)
    where = np.full(len(fit.items), len(ends) - 1)
    where[posterior.places] = np.searchsorted(ends[1:-1], posterior.mean, side="right")
    response = response_shares(fit, fit.ability).mean(axis=0)
    filled = np.where(np.isnan(responses.values), fit.probabilities(), responses.values)
    score = filled.mean(axis=1)
    variance = max(float(score.var()), 1e-12)
    covariance = (filled - filled.mean(0)).T @ (score - score.mean()) / len(score)
    separation = covariance / variance / len(fit.items)
    n_bands = len(ends)
    cdf = np.concatenate([target.cdf(ends[1:-1]), [1.0]])
    wanted = np.concatenate([np.diff(np.concatenate([[0.0], cdf])), [0.0]])
    count = np.bincount(where, minlength=n_bands)
    return pd.DataFrame(
        {
            "low": [*ends[:-1], np.nan],
            "high": [*ends[1:], np.nan],
            "n_items": count,
            "nominal": count / count.sum(),
            "target": wanted,
            "response": np.bincount(where, weights=response, minlength=n_bands),
            "variance": np.bincount(where, weights=separation, minlength=n_bands),
        }
    )


def response_shares(fit: DifficultyFit, ability: np.ndarray) -> np.ndarray:
    """Return each item's share of the score's response to a small gain in ability.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    ability : ndarray of shape (n_abilities,)
        Where.

    Returns
    -------
    ndarray of shape (n_abilities, n_items)
        Each row sums to 1. The slope of a success curve is ``a (P - c)(1 - P) / (1 - c)``;
        falling curves count as 0.
    """
    right = fit.probabilities(ability)
    bend = fit.slope * (right - fit.guessing) * (1 - right) / (1 - fit.guessing)
    bend = np.maximum(bend, 0)
    return bend / np.maximum(bend.sum(axis=1, keepdims=True), 1e-300)


def information_table(
    fit: DifficultyFit,
    target: Target,
    *,
    n_points: int = 61,
    blind_below: float = 0.25,
    margin: float = 1.0,
) -> pd.DataFrame:
    """Say where along ability the score can and cannot tell models apart.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    target : Target
        What is wanted.
    n_points : int
        Abilities, from ``margin`` below the target's range to ``margin`` above it.
    blind_below : float
        Share of the information that as many items spread like the target would give, below which
        the score counts as blind.
    margin : float
        In logits.

    Returns
    -------
    DataFrame
        ``ability``; ``information`` of all items together; ``se`` that an ability would have,
        ``1 / sqrt(information)``; ``wanted``, the information of as many items of median slope
        spread like the target; ``ratio`` of the two; ``effective_items``,
        ``(sum I)**2 / sum I**2``: how many items share the work there; ``detectable_gain``, see
        :func:`detectable_gain`; ``inside`` the target's range; ``blind``.
    """
    ability = np.linspace(target.low - margin, target.high + margin, n_points)
    single = fit.information(ability)
    total = single.sum(axis=1)
    wanted = len(fit.items) * even_information(fit, target, ability, items=fit.usable)
    ratio = total / np.maximum(wanted, 1e-12)
    return pd.DataFrame(
        {
            "ability": ability,
            "information": total,
            "se": 1 / np.sqrt(np.maximum(total, 1e-12)),
            "wanted": wanted,
            "ratio": ratio,
            "effective_items": total**2 / np.maximum((single**2).sum(axis=1), 1e-300),
            "detectable_gain": detectable_gain(fit, ability),
            "inside": (ability >= target.low) & (ability <= target.high),
            "blind": ratio < blind_below,
        }
    )


def even_information(
    fit: DifficultyFit, target: Target, ability: np.ndarray, *, items: np.ndarray
) -> np.ndarray:
    """Return the information of an item, averaged over difficulties spread like the target.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    target : Target
        What is wanted.
    ability : ndarray of shape (n_abilities,)
        Where.
    items : ndarray
        Which items' median slope is taken, as numbers or as booleans. The guessing level is the
        median of all.

    Returns
    -------
    ndarray of shape (n_abilities,)
        Fisher information on ability.
    """
    slope = float(np.median(fit.slope[items]))
    guess = float(np.median(fit.guessing))
    share = 1 / (1 + np.exp(-slope * (ability[:, None] - target.quantile(LEVELS))))
    right = guess + (1 - guess) * share
    return (slope**2 * (1 - right) / right * share**2).mean(axis=1)


def detectable_gain(
    fit: DifficultyFit, ability: np.ndarray, *, quantile: float = 1.645, longest: float = 4.0
) -> np.ndarray:
    """Return the smallest gain in ability that the plain score shows.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    ability : float or ndarray of shape (n_abilities,)
        From where the gain counts.
    quantile : float
        Of the normal distribution; 1.645 is a one-sided test at 5 %.
    longest : float
        Largest gain looked at, in logits.

    Returns
    -------
    ndarray of shape (n_abilities,)
        In logits, in steps of a 160th of ``longest``; NaN where no gain up to it is enough.

    Notes
    -----
    Ours. The smallest ``g`` with ``S(t + g) - S(t) >= quantile * sqrt(2 sum P (1 - P)) / n``,
    ``S`` the expected score: a test of two independent runs of the same items.

    Examples
    --------
    Far below all items no small gain shows.

    >>> from harmony_utils.difficulty import fit_difficulty, simulate_panel
    >>> fit = fit_difficulty(simulate_panel(12, 100).responses)
    >>> low, middle = detectable_gain(fit, [-6, 0])
    >>> bool(low > middle)
    True
    """
    ability = np.atleast_1d(np.asarray(ability, float))
    right = fit.probabilities(ability)
    noise = quantile * np.sqrt(2 * (right * (1 - right)).sum(axis=1)) / right.shape[1]
    steps = np.linspace(0, longest, 161)
    low, high = float(ability.min()), float(ability.max()) + longest
    grid = np.linspace(low, high, 400)
    score = fit.probabilities(grid).mean(axis=1)
    reached = np.interp(ability[:, None] + steps, grid, score)
    enough = reached - np.interp(ability, grid, score)[:, None] >= noise[:, None]
    enough[:, 0] = False
    return np.where(enough.any(axis=1), steps[enough.argmax(axis=1)], np.nan)
