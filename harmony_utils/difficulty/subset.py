"""Is a small benchmark enough? Subsets that estimate the full score, against random ones.

The estimate of a model that has answered the subset alone: its ability from those answers with the
items' parameters fixed, then the share of seen items times their accuracy plus the share of unseen
items times the accuracy that the curves expect there (the p-IRT estimator of tinyBenchmarks, Polo
et al. 2024). Models are held out: the parameters and the choice come from the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.fit import fit_difficulty
from harmony_utils.difficulty.newton import ability_step
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError
from harmony_utils.metric import tail_shares


def choose_by_information(
    fit: DifficultyFit, n_items: int, *, labels: np.ndarray | None = None
) -> np.ndarray:
    """Choose items that tell the fitted models apart, over their whole range.

    Parameters
    ----------
    fit : DifficultyFit
        Curves and abilities.
    n_items : int
        Size of the subset.
    labels : ndarray of shape (n_items,), optional
        Subdomains: each gets its share of the subset, largest remainders first, and the choice is
        made within each.

    Returns
    -------
    ndarray of int
        Numbers of the items, rising. In turn, each of nine quantiles of the models' abilities takes
        the item with most information there that is left; ties go to the first.
    """
    total = len(fit.items)
    if not 1 <= n_items <= total:
        raise InputError(f"{n_items} items: choose from 1 to {total}")
    where = np.quantile(fit.ability, np.linspace(0.1, 0.9, 9))
    information = np.where(fit.slope > 0, fit.information(where), 0.0)
    if labels is None:
        return _in_turn(information, np.arange(total), n_items)
    names = sorted(set(np.asarray(labels, dtype=object).tolist()))
    groups = [np.flatnonzero(np.asarray(labels, dtype=object) == name) for name in names]
    quota = np.array([len(group) * n_items / total for group in groups])
    given = np.floor(quota).astype(int)
    rest = np.argsort(-(quota - given), kind="stable")[: n_items - int(given.sum())]
    given[rest] += 1
    parts = [_in_turn(information, g, k) for g, k in zip(groups, given, strict=True) if k]
    return np.sort(np.concatenate(parts))


def _in_turn(information: np.ndarray, places: np.ndarray, n_items: int) -> np.ndarray:
    orders = [iter(places[np.argsort(-row[places], kind="stable")]) for row in information]
    chosen: set[int] = set()
    turn = 0
    while len(chosen) < min(n_items, len(places)):
        for item in orders[turn % len(orders)]:
            if int(item) not in chosen:
                chosen.add(int(item))
                break
        turn += 1
    return np.array(sorted(chosen))


def estimate_score(fit: DifficultyFit, answers: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Estimate full scores from answers to a subset, shape (n_models,).

    Parameters
    ----------
    fit : DifficultyFit
        Parameters of all items, from other models.
    answers : ndarray of shape (n_models, n_chosen)
        Answers to the chosen items, NaN where missing.
    chosen : ndarray of int, shape (n_chosen,)
        Their numbers, each once.

    Returns
    -------
    ndarray of shape (n_models,)
        Mean over all items of the answer where there is one and of its expected value elsewhere,
        at the mode of ability under the pool's N(0, 1). With all items answered it is the score.

    Notes
    -----
    The p-IRT estimator of Polo et al. (2024).
    """
    seen = ~np.isnan(answers)
    items = (fit.slope[chosen], fit.intercept[chosen], fit.guessing[chosen])
    start = np.zeros(len(answers))
    ability, _ = ability_step(
        np.nan_to_num(answers), seen.astype(float), start, items, (0.0, 1.0), n_steps=20
    )
    filled = fit.probabilities(ability)
    filled[:, chosen] = np.where(seen, answers, filled[:, chosen])
    return filled.mean(axis=1)


def compare_subsets(
    responses: Responses,
    sizes: Sequence[int],
    *,
    labels: np.ndarray | None = None,
    model: str = "2pl",
    n_folds: int = 5,
    n_random: int = 20,
    confidence: float = 0.95,
    random_state: int = 0,
) -> pd.DataFrame:
    """Say how far subsets' estimates lie from the full score, for models that were held out.

    Parameters
    ----------
    responses : Responses
        Answers; missing ones are left out of the full score.
    sizes : sequence of int
        Items in the subset.
    labels : ndarray of shape (n_items,), optional
        Subdomains for the third way of choosing.
    model : {"1pl", "2pl"}
        Shape of the curves.
    n_folds : int
        Parts into which models are dealt; each is estimated from a fit to the others.
    n_random : int
        Random subsets for each size and fold.
    confidence : float
        Coverage aimed at.
    random_state : int
        Seed.

    Returns
    -------
    DataFrame
        For each ``n_items`` and ``method``: ``error`` (mean distance of estimate and full score)
        with ``low`` and ``high`` over a bootstrap of models; ``gain`` over ``random, mean`` (in
        error, positive is better) with ``gain_low`` and ``gain_high``, paired by model; and
        ``bias``. Methods: ``random, mean`` (the subset's plain mean), ``random, curves``,
        ``information``, ``subdomains`` (if labels are given), the last three with the estimate of
        :func:`estimate_score`.
    """
    n_models, n_items = responses.shape
    if n_models < n_folds or n_models - int(np.ceil(n_models / n_folds)) < 3:
        raise InputError(f"{n_models} models: too few to hold some out and fit the rest")
    rng = np.random.default_rng(random_state)
    folds = np.array_split(rng.permutation(n_models), n_folds)
    full = responses.accuracy
    errors: dict[tuple[int, str], np.ndarray] = {}
    signed: dict[tuple[int, str], np.ndarray] = {}
    for held in folds:
        rest = np.setdiff1d(np.arange(n_models), held)
        fit = fit_difficulty(responses.select(models=rest), model=model, tolerance=5e-3)
        for size in sizes:
            picks = {"information": [choose_by_information(fit, size)]}
            if labels is not None:
                picks["subdomains"] = [choose_by_information(fit, size, labels=labels)]
            drawn = [rng.choice(n_items, size, replace=False) for _ in range(n_random)]
            picks["random, mean"] = picks["random, curves"] = drawn
            for method, subsets in picks.items():
                off = np.stack([_error(fit, responses.values[held], s, method) for s in subsets])
                off = off - full[held]
                store = errors.setdefault((size, method), np.full(n_models, np.nan))
                store[held] = np.nanmean(np.abs(off), axis=0)
                store = signed.setdefault((size, method), np.full(n_models, np.nan))
                store[held] = np.nanmean(off, axis=0)
    rows = rng.integers(n_models, size=(2000, n_models))
    shares = tail_shares(confidence)
    found = []
    order = ("random, mean", "random, curves", "information", "subdomains")
    for size in sizes:
        base = errors[size, "random, mean"]
        for method in (name for name in order if (size, name) in errors):
            error = errors[size, method]
            ends = np.nanquantile(np.nanmean(error[rows], axis=1), shares)
            gains = np.nanquantile(np.nanmean((base - error)[rows], axis=1), shares)
            found.append(
                {
                    "n_items": size,
                    "method": method,
                    "error": float(np.nanmean(error)),
                    "low": float(ends[0]),
                    "high": float(ends[1]),
                    "gain": float(np.nanmean(base - error)),
                    "gain_low": float(gains[0]),
                    "gain_high": float(gains[1]),
                    "bias": float(np.nanmean(signed[size, method])),
                }
            )
    return pd.DataFrame(found)


def _error(fit: DifficultyFit, values: np.ndarray, chosen: np.ndarray, method: str) -> np.ndarray:
    """Return estimates of full scores from a subset; NaN for a model with no answer in it."""
    answers = values[:, chosen]
    empty = np.isnan(answers).all(axis=1)
    if method == "random, mean":
        count = np.maximum((~np.isnan(answers)).sum(axis=1), 1)
        estimate = np.nansum(answers, axis=1) / count
    else:
        estimate = estimate_score(fit, answers, chosen)
    return np.where(empty, np.nan, estimate)
