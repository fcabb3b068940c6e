"""What the answers leave open of all difficulties together: joint draws from their posterior.

Plausible values (Mislevy 1991): each draw holds one difficulty for every item, together with
abilities, slopes and a population of items that could have given the answers. So a statement about
the benchmark, taken on every draw, has an interval that holds the uncertainty of the items, of the
abilities, of the scale and of the shape of the population at once.

The draws come from a Gibbs sampler. Given the abilities, items are independent, and log slope and
difficulty of each are drawn from a lattice; given the items, abilities are, and are drawn from the
normal at their mode. Log slopes have a normal population, difficulties a mixture of three normals,
so that a benchmark may be lopsided or have a hole; the fit's normal population of slope and
intercept would spread ``b = -d / a`` too far. Every draw is put on the scale of the fit, on which
these models' abilities have mean 0 and standard deviation 1.

A wrong key turns a curve round. So in every tenth state each item is also held against the same
curves falling: the share of falling ones among all items is drawn along, and an item is suspected
by what its answers say for a falling curve against a rising one, not by a slope near zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harmony_utils.difficulty.curves import LIMIT, DifficultyFit
from harmony_utils.difficulty.newton import ability_step
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError
from harmony_utils.metric import tail_shares

DRAWS = 400
"""Draws that are kept; with fewer, the ends of a 95 % interval are rough."""

WRONG_KEYS = (1.0, 19.0)
"""Beta prior of the share of items whose curve falls: 5 % before any answer is seen."""

_BURN_IN = 60
_EVERY = 10
_SLOPES = np.linspace(-3, 3, 11)
_STEP = 0.2
_PARTS = 3
_CHUNK = 4096


@dataclass(frozen=True)
class DifficultyPosterior:
    """Joint draws of items and models, and what they say of a falling curve.

    Parameters
    ----------
    places : ndarray of int, shape (n_usable,)
        Numbers of the items in the fit.
    draws : ndarray of shape (n_draws, n_usable)
        Difficulties; every row is one state of the whole benchmark.
    abilities : ndarray of shape (n_draws, n_models)
        Abilities in the same states; each row has mean 0 and standard deviation 1.
    slopes : ndarray of shape (n_slopes, n_items)
        Discriminations of all items of the fit, negative where the curve falls: ten draws in every
        tenth state.
    p_negative : ndarray of shape (n_items,)
        Probability of a falling curve, averaged over those states.
    """

    places: np.ndarray
    draws: np.ndarray
    abilities: np.ndarray
    slopes: np.ndarray
    p_negative: np.ndarray

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean of each difficulty: best for one item, too narrow for all together."""
        return self.draws.mean(axis=0)

    @cached_property
    def sd(self) -> np.ndarray:
        """Posterior standard deviation of each difficulty."""
        return self.draws.std(axis=0)

    def interval(self, *, confidence: float = 0.95) -> np.ndarray:
        """Return the ends of each difficulty's equal-tailed interval, shape (2, n_usable)."""
        return np.quantile(self.draws, tail_shares(confidence), axis=0)

    def plausible(self, n_values: int) -> np.ndarray:
        """Return plausible values, shape (n_values, n_usable): draws evenly spread over all."""
        rows = np.linspace(0, len(self.draws) - 1, n_values).round().astype(int)
        return self.draws[rows]

    def select(self, chosen: np.ndarray) -> DifficultyPosterior:
        """Return the posterior of some of its items, by their numbers in ``places``."""
        return replace(self, places=self.places[chosen], draws=self.draws[:, chosen])


def difficulty_posterior(
    fit: DifficultyFit, responses: Responses, *, n_draws: int = DRAWS, random_state: int = 0
) -> DifficultyPosterior:
    """Draw difficulties from what the answers leave open of all items together.

    Parameters
    ----------
    fit : DifficultyFit
        Where the draws start. Items with a slope below
        :data:`~harmony_utils.difficulty.curves.MIN_SLOPE` have no usable difficulty and are left
        out.
    responses : Responses
        What ``fit`` was fitted to.
    n_draws : int
        States that are kept, after 60 that are not.
    random_state : int
        Seed.

    Returns
    -------
    DifficultyPosterior
        Difficulties lie within plus or minus :data:`~harmony_utils.difficulty.curves.LIMIT`.

    Raises
    ------
    InputError
        If no item is usable, if ``fit`` is of other answers, or if it has anchors: its scale is
        then not that of these models.

    Notes
    -----
    The lattice of log slopes has eleven points over plus or minus three standard deviations of
    their population, that of difficulties steps of 0.2; both are shifted at random in every round,
    so that no difficulty is preferred. On simulated panels of 12 to 100 models, 95 % intervals of
    difficulties and abilities held the truth in 93 to 96 % of cases; mean and 1.96 standard
    deviations of slopes did in 91 to 95 %, with 5 % wrong keys planted in 88 % with 8 models
    (``results/recorded/difficulty_calibration.csv``).

    Examples
    --------
    >>> import numpy as np
    >>> from harmony_utils.difficulty import fit_difficulty, responses_from_matrix
    >>> steps = responses_from_matrix(np.tril(np.ones((6, 6)), k=-1)[:, :5])
    >>> posterior = difficulty_posterior(fit_difficulty(steps), steps, n_draws=50)
    >>> bool(posterior.mean[0] < posterior.mean[-1]), posterior.plausible(7).shape
    (True, (7, 5))
    """
    if fit.items != responses.items or fit.models != responses.models:
        raise InputError("posterior: the fit is of other items or models; fit these answers first")
    if fit.anchored.any():
        raise InputError("posterior: the fit has anchors; give a fit without them")
    if n_draws < 2:
        raise InputError(f"posterior: {n_draws} draws; give at least 2")
    places = np.flatnonzero(fit.usable)
    if not len(places):
        raise InputError(
            "no item separates abler from weaker models; look at suspected keys and at the models"
        )
    state = _Chain(fit, responses, places, np.random.default_rng(random_state))
    for _ in range(_BURN_IN):
        state.advance()
    state.signed_slopes()  # the share of falling curves starts at its prior
    kept, signed = [], []
    for number in range(n_draws):
        state.advance()
        kept.append((state.difficulty.copy(), state.ability))
        if number % _EVERY == 0:
            signed.append(state.signed_slopes())
    draws, abilities = (np.stack(parts) for parts in zip(*kept, strict=True))
    slopes, falling = (np.stack(parts) for parts in zip(*signed, strict=True))
    slopes = slopes.reshape(-1, slopes.shape[-1])
    return DifficultyPosterior(
        places, draws.clip(-LIMIT, LIMIT), abilities, slopes, falling.mean(axis=0)
    )


class _Block(NamedTuple):
    """Items of one guessing level, and the different answers that they got.

    With few models many items have the very same answers: their curves are held against them once.
    """

    guessing: float
    answers: np.ndarray  # (n_patterns, 2 * n_models): right, then wrong
    items: np.ndarray  # (n,) numbers of the items
    pattern: np.ndarray  # (n,) row of each item's answers


def _blocks(counts: np.ndarray, guessing: np.ndarray) -> list[_Block]:
    """Return items in blocks small enough for the lattice of each to stay in memory."""
    blocks = []
    for level in np.unique(guessing):
        rows = np.flatnonzero(guessing == level)
        patterns, of_row = np.unique(counts[rows], axis=0, return_inverse=True)
        of_row = of_row.reshape(-1)
        for first in range(0, len(patterns), _CHUNK):
            held = (of_row >= first) & (of_row < first + _CHUNK)
            part = patterns[first : first + _CHUNK]
            blocks.append(_Block(float(level), part, rows[held], of_row[held] - first))
    return blocks


class _Chain:
    """Where the sampler stands."""

    def __init__(
        self, fit: DifficultyFit, responses: Responses, places: np.ndarray, rng: np.random.Generator
    ) -> None:
        # signs have numbers of their own: difficulties are drawn the same with and without them
        self.rng, self.sign_rng, self.one_slope = rng, rng.spawn(1)[0], fit.model == "1pl"
        self.seen = (~np.isnan(responses.values)).astype(float)
        self.answers = np.nan_to_num(responses.values)
        # right and wrong answers side by side: one product gives all log-likelihoods
        both = np.vstack([self.answers, self.seen - self.answers])
        counts = both.T.astype(np.float32)
        self.blocks = _blocks(counts[places], fit.guessing[places])
        self.all_blocks = _blocks(counts, fit.guessing)
        self.places, self.guessing = places, fit.guessing[places]
        self.falling = WRONG_KEYS[0] / sum(WRONG_KEYS)
        # items without a difficulty still say something of the abilities: as much as the fit knows
        self.fit, self.rest = fit, np.setdiff1d(np.arange(len(fit.items)), places)
        self.roots = np.linalg.cholesky(fit.covariance[self.rest] + 1e-12 * np.eye(2))
        self.ability = fit.ability.copy()
        self.log_slope = np.log(fit.slope[places])
        self.difficulty = fit.difficulty[places].clip(-LIMIT, LIMIT)
        self.slope_mean = float(np.median(self.log_slope))
        self.slope_sd = 0.0 if self.one_slope else 0.4
        middle, spread = self.difficulty.mean(), max(float(self.difficulty.std()), 0.3)
        self.centres = middle + spread * np.linspace(-1, 1, _PARTS)
        self.variances = np.full(_PARTS, (spread / 1.5) ** 2)
        self.shares = np.full(_PARTS, 1 / _PARTS)

    def advance(self) -> None:
        """Draw items, their population, and abilities, in turn."""
        self._items()
        if self.one_slope:
            self._shared_slope()
        else:
            self._slopes()
        self._parts()
        self._abilities()

    def _lattice(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slopes, difficulties and log prior, shape (n_slopes, n_places), of the lattice."""
        shift, turn = rng.random(2) - 0.5
        steps = np.zeros(1) if self.one_slope else _SLOPES + shift * (_SLOPES[1] - _SLOPES[0])
        slopes = np.exp(self.slope_mean + self.slope_sd * steps)
        grid = np.arange(-LIMIT, LIMIT + _STEP / 2, _STEP) + turn * _STEP
        prior = np.log(self._density(grid).sum(axis=1) + 1e-12) - 0.5 * steps[:, None] ** 2
        return slopes, grid, prior

    def _chances(
        self, block: _Block, slopes: np.ndarray, grid: np.ndarray, prior: np.ndarray
    ) -> np.ndarray:
        """Return posterior weights, shape (n_patterns, n_slopes, n_places); the largest is 1."""
        logits = slopes[:, None, None] * (self.ability - grid[:, None])
        logits = logits.reshape(-1, len(self.ability)).clip(-30, 30).astype(np.float32)
        height = block.answers @ _log_chances(logits, np.float32(block.guessing)).T
        height += prior.ravel().astype(np.float32)
        height -= height.max(axis=1, keepdims=True)
        return np.exp(height, out=height).reshape(-1, *prior.shape)

    def _items(self) -> None:
        slopes, grid, prior = self._lattice(self.rng)
        for block in self.blocks:
            chances = self._chances(block, slopes, grid, prior)
            slope = _chosen(chances.sum(axis=2)[block.pattern], self.rng)
            place = _chosen(chances[block.pattern, slope], self.rng)
            self.log_slope[block.items] = np.log(slopes)[slope]
            self.difficulty[block.items] = grid[place]

    def signed_slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw slopes of all items, some of whose curves fall, and the share of those that do.

        Returns
        -------
        slopes : ndarray of shape (10, n_items)
            Independent draws in this state.
        falling : ndarray of shape (n_items,)
            Probability of a negative slope in this state.
        """
        slopes, grid, prior = self._lattice(self.sign_rng)
        both = np.concatenate([slopes, -slopes])
        prior = np.vstack([prior + np.log1p(-self.falling), prior + np.log(self.falling)])
        n_items = len(self.fit.items)
        drawn, falling = np.empty((_EVERY, n_items)), np.empty(n_items)
        for block in self.all_blocks:
            chances = self._chances(block, both, grid, prior).sum(axis=2)
            below = chances[:, len(slopes) :].sum(axis=1) / chances.sum(axis=1)
            falling[block.items] = below[block.pattern]
            for row in drawn:
                row[block.items] = both[_chosen(chances[block.pattern], self.sign_rng)]
        n_falling = (drawn[0] < 0).sum()
        first, second = WRONG_KEYS
        self.falling = float(self.sign_rng.beta(first + n_falling, second + n_items - n_falling))
        return drawn, falling

    def _density(self, where: np.ndarray) -> np.ndarray:
        """Return each part's share of the population's density, shape (n, n_parts)."""
        off = (where[:, None] - self.centres) ** 2 / self.variances
        return self.shares / np.sqrt(self.variances) * np.exp(-0.5 * off)

    def _shared_slope(self) -> None:
        """Draw the one slope of 1PL, a regression on ability minus difficulty."""
        apart = (self.ability[:, None] - self.difficulty).reshape(-1)
        items = (apart, np.zeros(len(apart)), np.tile(self.guessing, len(self.ability)))
        cells = [part[:, self.places].reshape(1, -1) for part in (self.answers, self.seen)]
        start = np.exp(self.log_slope[:1])
        mode, variance = ability_step(*cells, start, items, (1.0, 10.0))
        drawn = float(mode[0] + np.sqrt(variance[0]) * self.rng.standard_normal())
        self.slope_mean = float(np.log(max(drawn, 0.05)))
        self.log_slope = np.full(len(self.log_slope), self.slope_mean)

    def _slopes(self) -> None:
        """Draw mean and standard deviation of log slopes; the prior weighs as two items do."""
        n_items, mean = len(self.log_slope), self.log_slope.mean()
        self.slope_mean = mean + self.slope_sd / np.sqrt(n_items) * self.rng.standard_normal()
        squares = ((self.log_slope - self.slope_mean) ** 2).sum() + 2 * 0.4**2
        self.slope_sd = max(float(np.sqrt(squares / self.rng.chisquare(n_items + 2))), 0.05)

    def _parts(self) -> None:
        """Draw the mixture of difficulties; its prior is spread like the difficulties themselves.

        Three observations' worth of a variance a quarter of theirs, half a one of their mean.
        """
        chances = self._density(self.difficulty) + 1e-300
        part = _chosen(chances, self.rng)
        middle, spread = self.difficulty.mean(), self.difficulty.var() + 1e-2
        for number in range(_PARTS):
            held = self.difficulty[part == number]
            mean = (held.sum() + 0.5 * middle) / (len(held) + 0.5)
            squares = ((held - mean) ** 2).sum() + 0.5 * (mean - middle) ** 2 + 0.75 * spread
            variance = squares / self.rng.chisquare(len(held) + 3)
            error = np.sqrt(variance / (len(held) + 0.5))
            self.variances[number] = variance
            self.centres[number] = mean + error * self.rng.standard_normal()
        self.shares = self.rng.dirichlet(np.bincount(part, minlength=_PARTS) + 1.0)

    def _abilities(self) -> None:
        noise = self.rng.standard_normal((len(self.rest), 2))
        off = np.einsum("nij,nj->ni", self.roots, noise)
        slope, intercept = self.fit.slope.copy(), self.fit.intercept.copy()
        slope[self.rest] += off[:, 0]
        intercept[self.rest] += off[:, 1]
        slope[self.places] = np.exp(self.log_slope)
        intercept[self.places] = -slope[self.places] * self.difficulty
        items = (slope, intercept, self.fit.guessing)
        mode, variance = ability_step(
            self.answers, self.seen, self.ability, items, (0.0, 1.0), n_steps=2
        )
        drawn = mode + np.sqrt(variance) * self.rng.standard_normal(len(mode))
        centre, spread = drawn.mean(), max(float(drawn.std()), 1e-6)
        self.ability = (drawn - centre) / spread
        self.difficulty = (self.difficulty - centre) / spread
        self.log_slope = self.log_slope + np.log(spread)
        self.slope_mean += float(np.log(spread))
        self.centres, self.variances = (self.centres - centre) / spread, self.variances / spread**2


def _log_chances(logits: np.ndarray, guessing: np.float32) -> np.ndarray:
    """Return log chances of a right and of a wrong answer, shape (n_points, 2 * n_models)."""
    odds = np.exp(-logits)
    whole = np.log1p(odds) if guessing else np.log(1 + odds)
    wrong = -logits - whole + np.log1p(-guessing)
    right = np.log(guessing + (1 - guessing) / (1 + odds)) if guessing else -whole
    return np.concatenate([right, wrong], axis=1)


def _chosen(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a column for each row, its chance being proportional to ``chances``."""
    sums = chances.cumsum(axis=1)
    wanted = rng.random((len(sums), 1)).astype(sums.dtype) * sums[:, -1:]
    return (sums < wanted).sum(axis=1).clip(0, sums.shape[1] - 1)
