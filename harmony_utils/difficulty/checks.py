"""Does one ability and one curve an item describe these answers? Checks with their own reference.

Every statistic is compared with what the fitted model itself would give: answers are simulated from
it, with the same cells missing, fitted again, and the statistic taken there (a parametric
bootstrap). So no table of a distribution is relied on that would hold for thousands of persons
and not for some ten models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from harmony_utils.difficulty.curves import MIN_SLOPE, DifficultyFit
from harmony_utils.difficulty.fit import fit_difficulty
from harmony_utils.difficulty.posterior import DifficultyPosterior
from harmony_utils.difficulty.responses import Responses

_MOST_ITEMS = 2000
_GROUPS = 5


@dataclass(frozen=True)
class FitChecks:
    """What the checks found.

    Parameters
    ----------
    items : DataFrame
        ``item``, ``misfit`` (mean squared standardised residual of ability groups; 1 is expected),
        ``p_value``, ``flagged`` (at a false discovery rate of 5 %).
    dependent_pairs : DataFrame
        ``first``, ``second``, ``q3`` (correlation of residuals over models, Yen 1984): pairs beyond
        what the largest of all pairs reaches in 95 % of simulations.
    n_dependent : int
        Number of those pairs; the table holds at most 100.
    q3_limit : float
        That limit.
    first_eigenvalue, first_eigenvalue_limit : float
        Share of the residuals' variance along their main direction, and its 95 % point in
        simulations: a parallel analysis (Horn 1965) of what one dimension leaves over.
    one_dimensional : bool
        Whether the first does not exceed the second.
    n_simulations, n_items_compared : int
        Simulations, and items whose pairs were compared.
    """

    items: pd.DataFrame
    dependent_pairs: pd.DataFrame
    n_dependent: int
    q3_limit: float
    first_eigenvalue: float
    first_eigenvalue_limit: float
    one_dimensional: bool
    n_simulations: int
    n_items_compared: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        flagged = self.items[self.items["flagged"]]
        return {
            "n_misfit": len(flagged),
            "misfit": flagged["item"].head(50).tolist(),
            "n_dependent_pairs": self.n_dependent,
            "dependent_pairs": self.dependent_pairs.head(20).to_dict("records"),
            "q3_limit": self.q3_limit,
            "first_eigenvalue": self.first_eigenvalue,
            "first_eigenvalue_limit": self.first_eigenvalue_limit,
            "one_dimensional": self.one_dimensional,
            "n_simulations": self.n_simulations,
        }


def simulate_responses(
    fit: DifficultyFit, responses: Responses, rng: np.random.Generator
) -> Responses:
    """Draw answers that the fitted model would give, missing where the real ones are.

    Slopes and intercepts are drawn from their posteriors, so that the simulated items spread as
    the real ones do.
    """
    roots = np.linalg.cholesky(fit.covariance + 1e-12 * np.eye(2))
    noise = np.einsum("nij,nj->ni", roots, rng.standard_normal((len(fit.items), 2)))
    drawn = replace(fit, slope=fit.slope + noise[:, 0], intercept=fit.intercept + noise[:, 1])
    ability = fit.ability + fit.ability_se * rng.standard_normal(len(fit.models))
    right = (rng.random(responses.shape) < drawn.probabilities(ability)).astype(float)
    right[np.isnan(responses.values)] = np.nan
    return replace(responses, values=right)


def check_fit(
    fit: DifficultyFit, responses: Responses, *, n_simulations: int = 20, random_state: int = 0
) -> FitChecks:
    """Check item fit, local independence and one-dimensionality against simulations.

    Parameters
    ----------
    fit : DifficultyFit
        Of ``responses``.
    responses : Responses
        Answers.
    n_simulations : int
        Simulated data sets; with n of them, fewer than 19, a check that should be false in 5 % of
        cases is in ``1 / (n + 1)``.
    random_state : int
        Seed. Beyond 2,000 items, pairs are compared among a random 2,000.

    Returns
    -------
    FitChecks
        With some ten models the checks have little power: what they do not flag is not shown to
        be right.
    """
    rng = np.random.default_rng(random_state)
    n_items = len(fit.items)
    kept = np.arange(n_items)
    if n_items > _MOST_ITEMS:
        kept = np.sort(rng.choice(n_items, _MOST_ITEMS, replace=False))
    misfit = _item_misfit(fit, responses)
    correlations, eigenvalue = _residual_structure(fit, responses, kept)
    null_misfit, null_top, null_eigen = [], [], []
    for _ in range(n_simulations):
        drawn = simulate_responses(fit, responses, rng)
        guessing = fit.guessing if fit.model == "3pl" else None
        again = fit_difficulty(
            drawn, model=fit.model, guessing=guessing, start=fit, max_iterations=40, tolerance=5e-3
        )
        null_misfit.append(_item_misfit(again, drawn))
        other, value = _residual_structure(again, drawn, kept)
        null_top.append(float(other.max()))
        null_eigen.append(value)
    reference = np.sort(np.concatenate(null_misfit))
    p_values = _upper_p(misfit, reference)
    limit = _upper_limit(null_top)
    first, second = np.nonzero(correlations > limit)
    strength = correlations[first, second]
    order = np.argsort(-strength, kind="stable")
    names = np.array(fit.items, dtype=object)[kept]
    pairs = {"first": names[first[order]], "second": names[second[order]], "q3": strength[order]}
    limit_eigen = _upper_limit(null_eigen)
    return FitChecks(
        items=pd.DataFrame(
            {
                "item": fit.items,
                "misfit": misfit,
                "p_value": p_values,
                "flagged": false_discoveries(p_values),
            }
        ),
        dependent_pairs=pd.DataFrame(pairs).head(100),
        n_dependent=len(order),
        q3_limit=limit,
        first_eigenvalue=eigenvalue,
        first_eigenvalue_limit=limit_eigen,
        one_dimensional=bool(eigenvalue <= limit_eigen),
        n_simulations=n_simulations,
        n_items_compared=len(kept),
    )


def _item_misfit(fit: DifficultyFit, responses: Responses) -> np.ndarray:
    """Return each item's mean squared standardised residual over groups of equal ability."""
    order = np.argsort(fit.ability, kind="stable")
    n_groups = min(_GROUPS, len(order) // 3) or 1
    seen = ~np.isnan(responses.values)
    right = fit.probabilities()
    off = np.where(seen, responses.values - right, 0.0)
    noise = np.where(seen, right * (1 - right), 0.0)
    squares, count = np.zeros(len(fit.items)), np.zeros(len(fit.items))
    for members in np.array_split(order, n_groups):
        variance = noise[members].sum(axis=0)
        held = variance > 1e-9
        squares += np.where(held, off[members].sum(axis=0) ** 2 / np.maximum(variance, 1e-9), 0)
        count += held
    return squares / np.maximum(count, 1)


def _residual_structure(
    fit: DifficultyFit, responses: Responses, kept: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return residual correlations of pairs (upper triangle, else -1) and the main direction."""
    values = responses.values[:, kept]
    right = fit.probabilities()[:, kept]
    scale = np.sqrt(np.maximum(right * (1 - right), 1e-3))
    off = np.where(np.isnan(values), 0.0, (values - right) / scale)
    off = off - off.mean(axis=0)
    eigen = np.linalg.eigvalsh(off @ off.T)
    length = np.sqrt((off**2).sum(axis=0))
    unit = off / np.maximum(length, 1e-9)
    correlations = unit.T @ unit
    correlations[np.tril_indices(len(kept))] = -1
    # items that all models answer alike have residuals without information
    flat = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
    correlations[flat] = -1
    correlations[:, flat] = -1
    return correlations, float(eigen[-1] / max(eigen.sum(), 1e-12))


def _upper_limit(null: list[float], *, level: float = 0.05) -> float:
    """Return the value that one more draw of the null exceeds with at most this chance.

    Of n draws and one more, each is the largest with the chance 1 / (n + 1): so an interpolated
    quantile of 20 draws would be exceeded in 9 % of cases. With fewer than 19 draws the largest
    is returned, and the chance is 1 / (n + 1).
    """
    rank = int(np.ceil((1 - level) * (len(null) + 1) - 1e-9))
    return float(np.sort(null)[min(rank, len(null)) - 1])


def _upper_p(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the share of the sorted reference at or above each value, the value counted in."""
    above = len(reference) - np.searchsorted(reference, values - 1e-12, side="left")
    return (above + 1) / (len(reference) + 1)


def false_discoveries(p_values: np.ndarray, *, rate: float = 0.05) -> np.ndarray:
    """Return what may be called while at most this share of calls is false.

    The step-up rule of Benjamini and Hochberg (1995).

    Examples
    --------
    >>> false_discoveries(np.array([0.001, 0.02, 0.9, 0.6]))
    array([ True,  True, False, False])
    """
    n = len(p_values)
    order = np.argsort(p_values, kind="stable")
    below = np.flatnonzero(p_values[order] <= rate * np.arange(1, n + 1) / n)
    called = np.zeros(n, dtype=bool)
    if len(below):
        called[order[: below[-1] + 1]] = True
    return called


def suspected_keys(
    fit: DifficultyFit, posterior: DifficultyPosterior, *, least: float = 0.5
) -> pd.DataFrame:
    """List items that weaker models solve more often: their key may be wrong.

    Parameters
    ----------
    fit : DifficultyFit
        Where the items' names come from.
    posterior : DifficultyPosterior
        Of that fit.
    least : float
        Posterior probability of a negative slope from which an item is listed.

    Returns
    -------
    DataFrame
        ``item``, ``p_negative``, ``discrimination``, ``discrimination_se`` (mean and standard
        deviation of the slope's draws), likeliest first. A reading, not a verdict: an item can
        also be ambiguous, or ask for what abler models think they know better.

    Notes
    -----
    How many of 5 % planted wrong keys are listed, and how many good items beside them, with 8 to
    100 models, is in ``results/recorded/difficulty_keys.csv``: few models find few of them, and
    one in six of those listed is good; from 36 models on, nine in ten are found and one in twenty
    of those listed is good.
    """
    table = pd.DataFrame(
        {
            "item": fit.items,
            "p_negative": posterior.p_negative,
            "discrimination": posterior.slopes.mean(axis=0),
            "discrimination_se": posterior.slopes.std(axis=0),
        }
    )
    chosen = table[table["p_negative"] > least]
    return chosen.sort_values("p_negative", ascending=False, kind="stable", ignore_index=True)


def flat_items(fit: DifficultyFit) -> list[str]:
    """Return items with a slope from 0 to 0.2: they separate no one and have no difficulty."""
    return [fit.items[j] for j in np.flatnonzero((fit.slope >= 0) & (fit.slope < MIN_SLOPE))]


def held_out_prediction(
    responses: Responses,
    *,
    model: str = "2pl",
    guessing: float | np.ndarray | None = None,
    n_folds: int = 5,
    random_state: int = 0,
) -> dict[str, Any]:
    """Predict answers that the fit has not seen, against the item's mean alone.

    Parameters
    ----------
    responses : Responses
        Answers.
    model, guessing
        As in :func:`~harmony_utils.difficulty.fit.fit_difficulty`.
    n_folds : int
        Cells are dealt at random into this many parts, each predicted from the others.
    random_state : int
        Seed.

    Returns
    -------
    dict
        ``auc`` and ``brier`` of the fit; ``trivial_auc`` and ``trivial_brier`` of each item's
        share of right answers among the other models; ``brier_gain`` (positive: the fit is better)
        with ``interval`` over a bootstrap of models; ``n_cells``. Partial credit counts as right
        from one half on in the areas under the curve.
    """
    rng = np.random.default_rng(random_state)
    values = responses.values
    fold = rng.integers(n_folds, size=values.shape)
    predicted, trivial = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    for number in range(n_folds):
        held = (fold == number) & ~np.isnan(values)
        kept = np.where(fold == number, np.nan, values)
        empty = np.isnan(kept).all(axis=1)
        kept[empty] = values[empty]
        held[empty] = False
        fit = fit_difficulty(
            replace(responses, values=kept), model=model, guessing=guessing, tolerance=5e-3
        )
        count = (~np.isnan(kept)).sum(axis=0)
        overall = np.nanmean(kept)
        share = (np.nansum(kept, axis=0) + overall) / (count + 1)
        predicted[held] = fit.probabilities()[held]
        trivial[held] = np.broadcast_to(share, values.shape)[held]
    cells = ~np.isnan(predicted)
    loss = np.where(cells, (predicted - values) ** 2, np.nan)
    loss_trivial = np.where(cells, (trivial - values) ** 2, np.nan)
    gain = np.nanmean(loss_trivial - loss, axis=1)
    rows = rng.integers(len(gain), size=(1000, len(gain)))
    low, high = np.nanquantile(np.nanmean(gain[rows], axis=1), [0.025, 0.975]).tolist()
    truth = values[cells] >= 0.5
    return {
        "auc": _auc(predicted[cells], truth),
        "trivial_auc": _auc(trivial[cells], truth),
        "brier": float(np.nanmean(loss)),
        "trivial_brier": float(np.nanmean(loss_trivial)),
        "brier_gain": float(np.nanmean(loss_trivial) - np.nanmean(loss)),
        "interval": [low, high],
        "n_cells": int(cells.sum()),
    }


def _auc(scores: np.ndarray, truth: np.ndarray) -> float | None:
    """Return the chance that a right answer has a higher score than a wrong one."""
    n_right, n_wrong = int(truth.sum()), int((~truth).sum())
    if not n_right or not n_wrong:
        return None
    ranks = rankdata(scores)
    return float((ranks[truth].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))
