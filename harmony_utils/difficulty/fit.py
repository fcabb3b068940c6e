"""Item response theory for few models and many items: abilities and difficulties with intervals.

The fit is hierarchical (Mislevy 1986): items are draws from a normal population of ``(a, d)`` whose
mean and covariance are estimated with them, abilities are N(0, 1). Expectation and maximisation
alternate with Laplace's approximation on both sides: every posterior is a normal at its mode with
the inverse curvature as covariance. Slopes may be negative: such an item is more often solved by
weaker models, which is how a wrong key shows.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from harmony_utils.difficulty.curves import DifficultyFit, ItemModel
from harmony_utils.difficulty.newton import (
    ability_step,
    item_step,
    shared_slope_step,
)
from harmony_utils.difficulty.responses import MIN_MODELS, Responses
from harmony_utils.errors import InputError, RefusedError

FREE_GUESSING_MODELS = 300
"""Models below which a guessing level per item is not identified, whatever the software."""

POPULATION_PRIOR = {"mean": np.array([1.0, 0.0]), "covariance": np.diag([0.25, 2.0]), "weight": 2.0}
"""Weak prior of the items' mean slope and intercept and of their covariance: worth two items."""


def fit_difficulty(
    responses: Responses,
    *,
    model: ItemModel = "2pl",
    guessing: float | np.ndarray | None = None,
    anchors: DifficultyFit | None = None,
    start: DifficultyFit | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-3,
) -> DifficultyFit:
    """Fit abilities and item curves to a matrix of answers.

    Parameters
    ----------
    responses : Responses
        Models by items, between 0 and 1, NaN where an answer is missing. Missing cells are left
        out, which is right if they are missing for reasons that do not depend on the answer. A
        value between 0 and 1 counts as that share of a success: the fit is then a
        quasi-likelihood, and intervals are on the wide side.
    model : {"1pl", "2pl", "3pl"}
        Shape of the curves.
    guessing : float or ndarray of shape (n_items,), optional
        Level below which no model falls, such as 1 / number of options. Needed for ``3pl``;
        estimating it takes hundreds of models and is not offered.
    anchors : DifficultyFit, optional
        Items of that name keep their parameters, and abilities are on that scale.
    start : DifficultyFit, optional
        Fit of the same items to start from, for speed; the result is the same within tolerance.
    max_iterations : int
        Rounds after which the fit is returned as not converged.
    tolerance : float
        Largest change of an ability, and of the population's parameters, that counts as none.

    Returns
    -------
    DifficultyFit
        Its sign is that of the raw score: abler models have more answers right. The result does
        not depend on the order of models and items, and there is no randomness in it.

    Raises
    ------
    InputError
        For an unknown model, fewer than three models, or guessing levels outside 0 to 0.9 or of
        another number.
    RefusedError
        For ``3pl`` without a guessing level.

    Notes
    -----
    The item step maximises the expected log-likelihood over each ability's normal posterior by a
    three-point rule, so that the uncertainty of abilities is in the items. What the approximation
    leaves out is the covariance between items and between items and abilities; it is small where
    an ability is known to .05 or so, that is with a few hundred items. All-right and all-wrong
    items stay finite through the population.

    Against draws of NUTS from the same model (three matrices of 9 to 24 models,
    ``tests/data/nuts``), difficulties of items with a clear slope lie within .3 of a posterior
    standard deviation and abilities within .7, but slopes are pulled together and the first entry
    of ``covariance`` is 25 to 55 % too narrow. Integrating over each item instead of taking its
    mode mends less than a third of that. Intervals of slopes, and whether a curve falls, are
    therefore read on :func:`~harmony_utils.difficulty.posterior.difficulty_posterior`.

    Examples
    --------
    >>> import numpy as np
    >>> from harmony_utils.difficulty.responses import responses_from_matrix
    >>> steps = np.tril(np.ones((5, 5)), k=-1)[:, :4]  # model k solves the k easiest items
    >>> fit = fit_difficulty(responses_from_matrix(steps), model="1pl")
    >>> fit.converged, bool((np.diff(fit.difficulty) > 0).all())
    (True, True)
    """
    if responses.shape[0] < MIN_MODELS:
        raise InputError(
            f"{responses.shape[0]} models: a fit takes at least {MIN_MODELS}; add the answers of "
            "others, or score these with score_models"
        )
    level = _guessing(model, guessing, responses)
    seen = (~np.isnan(responses.values)).astype(float)
    answers = np.nan_to_num(responses.values)
    state = _State(responses, answers, seen, level, model, anchors, start)
    n_rounds, change = 0, np.inf
    while change >= tolerance and n_rounds < max_iterations:
        change = state.advance()
        n_rounds += 1
    return state.result(change < tolerance, n_rounds)


def score_models(
    fit: DifficultyFit, responses: Responses, *, prior: tuple[float, float] = (0.0, 1.0)
) -> pd.DataFrame:
    """Score models on items whose parameters are known, without fitting them again.

    Parameters
    ----------
    fit : DifficultyFit
        Where the items' parameters come from.
    responses : Responses
        Answers to at least one of those items; others are ignored.
    prior : tuple of float
        Mean and standard deviation of the normal prior on ability, those of the pool by default.

    Returns
    -------
    DataFrame
        ``model``, ``ability`` (posterior mode), ``ability_se``, ``n_items``. The items' own
        uncertainty is not in the standard error. A single model will do, see ``least_models`` of
        :func:`~harmony_utils.difficulty.responses.responses_from_matrix`.

    Raises
    ------
    InputError
        If none of the items was fitted.

    Examples
    --------
    A model with every answer right has an ability above all others, but a finite one.

    >>> from harmony_utils.difficulty.responses import responses_from_matrix
    >>> steps = np.tril(np.ones((5, 5)), k=-1)[:, :4]
    >>> fit = fit_difficulty(responses_from_matrix(steps), model="1pl")
    >>> new = responses_from_matrix(np.ones((1, 4)), least_models=1)
    >>> bool(score_models(fit, new)["ability"][0] > fit.ability[:4].max())
    True
    """
    place = {name: number for number, name in enumerate(fit.items)}
    known = [j for j, name in enumerate(responses.items) if name in place]
    if not known:
        raise InputError("none of the items is among those that were fitted; compare their names")
    rows = [place[responses.items[j]] for j in known]
    values = responses.values[:, known]
    seen = (~np.isnan(values)).astype(float)
    items = (fit.slope[rows], fit.intercept[rows], fit.guessing[rows])
    zero = np.full(len(values), float(prior[0]))
    ability, variance = ability_step(np.nan_to_num(values), seen, zero, items, prior, n_steps=25)
    return pd.DataFrame(
        {
            "model": responses.models,
            "ability": ability,
            "ability_se": np.sqrt(variance),
            "n_items": seen.sum(axis=1).astype(int),
        }
    )


class _State:
    """Where the iteration stands."""

    def __init__(
        self,
        responses: Responses,
        answers: np.ndarray,
        seen: np.ndarray,
        guessing: np.ndarray,
        model: str,
        anchors: DifficultyFit | None,
        start: DifficultyFit | None,
    ) -> None:
        self.responses, self.answers, self.seen = responses, answers, seen
        self.guessing, self.model = guessing, model
        self.raw = raw_scores(responses.values)
        n_items = answers.shape[1]
        self.mean, self.population = (
            POPULATION_PRIOR["mean"].copy(),
            POPULATION_PRIOR["covariance"].copy(),
        )
        self.prior = (0.0, 1.0)
        self.sd = np.full(len(answers), 0.3)
        if start is not None:
            self.ability, self.sd = start.ability.copy(), start.ability_se.copy()
            self.slope, self.intercept = start.slope.copy(), start.intercept.copy()
            self.mean, self.population = start.population["mean"], start.population["covariance"]
        else:
            self.ability = (self.raw - self.raw.mean()) / (self.raw.std() or 1.0)
            means = (answers.sum(0) + 0.5) / (seen.sum(0) + 1)
            self.slope, self.intercept = np.ones(n_items), np.log(means / (1 - means))
        self.covariance = np.zeros((n_items, 2, 2))
        self.hyper = POPULATION_PRIOR
        self.fixed = np.zeros(n_items, dtype=bool)
        if anchors is not None:
            self._anchor(anchors)

    def _anchor(self, anchors: DifficultyFit) -> None:
        place = {name: number for number, name in enumerate(anchors.items)}
        names = self.responses.items
        self.fixed = np.array([name in place for name in names])
        if not self.fixed.any():
            raise InputError("anchors: none of the items is among those that were fitted")
        rows = [place[name] for name in names if name in place]
        self.slope[self.fixed] = anchors.slope[rows]
        self.intercept[self.fixed] = anchors.intercept[rows]
        self.guessing = self.guessing.copy()
        self.guessing[self.fixed] = anchors.guessing[rows]
        self.covariance[self.fixed] = anchors.covariance[rows]
        self.mean = anchors.population["mean"].copy()
        self.population = anchors.population["covariance"].copy()
        self.hyper = {"mean": self.mean, "covariance": self.population, "weight": 4.0}

    def advance(self) -> float:
        """Do one round; return the largest change."""
        before = (self.ability.copy(), self.mean.copy(), self.population.copy(), self.prior)
        n_steps = 2
        items = (self.slope, self.intercept, self.guessing)
        self.ability, variance = ability_step(
            self.answers, self.seen, self.ability, items, self.prior, n_steps=n_steps
        )
        self.sd = np.sqrt(variance)
        self._standardise()
        free = ~self.fixed
        if free.any():
            self._items(free, n_steps)
            self._update_population(free)
        pairs = zip(before[:3], (self.ability, self.mean, self.population), strict=True)
        changes = [float(np.abs(old - new).max()) for old, new in pairs]
        return max(*changes, abs(before[3][0] - self.prior[0]), abs(before[3][1] - self.prior[1]))

    def _items(self, free: np.ndarray, n_steps: int) -> None:
        whole = bool(free.all())
        answers = self.answers if whole else self.answers[:, free]
        seen = self.seen if whole else self.seen[:, free]
        items = (self.slope[free], self.intercept[free], self.guessing[free])
        ability = (self.ability, self.sd)
        if self.model == "1pl" and whole:
            prior = (float(self.mean[1]), float(self.population[1, 1]))
            found = shared_slope_step(answers, seen, ability, items, prior, n_steps=n_steps)
        else:
            prior = self._tied() if self.model == "1pl" else (self.mean, self.population)
            found = item_step(answers, seen, ability, items, prior, n_steps=n_steps)
        self.slope[free], self.intercept[free], self.covariance[free] = found

    def _tied(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a population whose slopes are all the anchors': added items of a 1PL scale."""
        slope = self.slope[self.fixed].mean()
        return np.array([slope, self.mean[1]]), np.diag([1e-8, self.population[1, 1]])

    def _update_population(self, free: np.ndarray) -> None:
        """Estimate the items' population: their spread and what is not known of each together."""
        places = np.stack([self.slope[free], self.intercept[free]], axis=1)
        weight, total = self.hyper["weight"], free.sum() + self.hyper["weight"]
        self.mean = (places.sum(0) + weight * self.hyper["mean"]) / total
        off, away = places - self.mean, self.hyper["mean"] - self.mean
        covariance = off.T @ off + self.covariance[free].sum(0)
        covariance += weight * (self.hyper["covariance"] + np.outer(away, away))
        self.population = covariance / total

    def _standardise(self) -> None:
        """Give the pool mean 0 and standard deviation 1, or estimate both if there are anchors."""
        spread = float(np.sqrt(self.ability.var() + (self.sd**2).mean()))
        centre = float(self.ability.mean())
        if self.fixed.any():
            self.prior = (centre, max(spread, 0.05))
            return
        spread = max(spread, 1e-6)
        self.ability, self.sd = (self.ability - centre) / spread, self.sd / spread
        self.intercept, self.slope = self.intercept + self.slope * centre, self.slope * spread

    def result(self, converged: bool, n_iterations: int) -> DifficultyFit:
        """Return the fit, with the sign of the raw score."""
        fit = DifficultyFit(
            model=self.model,
            items=self.responses.items,
            models=self.responses.models,
            slope=self.slope,
            intercept=self.intercept,
            guessing=self.guessing,
            covariance=self.covariance,
            ability=self.ability,
            ability_se=self.sd,
            population={
                "mean": self.mean,
                "covariance": self.population,
                "ability_mean": self.prior[0],
                "ability_sd": self.prior[1],
            },
            converged=bool(converged),
            n_iterations=n_iterations,
            anchored=self.fixed,
        )
        if not self.fixed.any() and self.ability @ (self.raw - self.raw.mean()) < 0:
            return _mirrored(fit)
        return fit


def raw_scores(values: np.ndarray) -> np.ndarray:
    """Return each model's mean distance from the items' means, over the items that it answered."""
    with np.errstate(invalid="ignore"):
        means = np.nansum(values, axis=0) / np.maximum((~np.isnan(values)).sum(axis=0), 1)
    return np.nanmean(values - means, axis=1)


def _mirrored(fit: DifficultyFit) -> DifficultyFit:
    turn = np.array([[1.0, -1.0], [-1.0, 1.0]])
    mean = fit.population["mean"] * [-1, 1]
    population = {**fit.population, "mean": mean, "covariance": fit.population["covariance"] * turn}
    return dataclasses.replace(
        fit,
        slope=-fit.slope,
        ability=-fit.ability,
        covariance=fit.covariance * turn,
        population=population,
    )


def _guessing(model: str, guessing: float | np.ndarray | None, responses: Responses) -> np.ndarray:
    n_models, n_items = responses.values.shape
    if model not in ("1pl", "2pl", "3pl"):
        raise InputError(f"model {model!r}: choose 1pl, 2pl or 3pl")
    if model == "3pl" and guessing is None:
        enough = "" if n_models < FREE_GUESSING_MODELS else ", and is not offered"
        raise RefusedError(
            f"3pl: {n_models} models; a guessing level for each item takes some "
            f"{FREE_GUESSING_MODELS}{enough}: fix it, e.g. at 1 / number of options, or use 2pl"
        )
    given = np.asarray(0.0 if guessing is None else guessing, dtype=float)
    if given.ndim and given.shape != (n_items,):
        raise InputError(
            f"guessing: {given.size} levels for {n_items} items; give one, or one each"
        )
    level = np.broadcast_to(given, (n_items,))
    if not ((level >= 0) & (level <= 0.9)).all():
        raise InputError("guessing: a level lies outside 0 to 0.9")
    if model != "3pl" and level.any():
        raise InputError(f"guessing: {model} has none; choose 3pl")
    return level.astype(float)
