"""Measure mismatch: which difficulties a score weighs, against which it ought to weigh.

A benchmark puts the mass 1/n on each item's difficulty: it is a measure over difficulty. A target
is another such measure, declared by whoever asks. Their distance is the first Wasserstein distance
in logits: the area between the two distribution functions. It has a meaning in scores: with slopes
up to ``a``, no ability's expected score under one differs from that under the other by more than
``a / 4`` times the distance (Kantorovich and Rubinstein's duality). The statistic of the paper that
coined "measure mismatch" is not public in full; this one is ours and is not said to equal it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from harmony_utils.difficulty.fit import DifficultyFit, fit_difficulty
from harmony_utils.difficulty.posterior import DifficultyPosterior, difficulty_posterior
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError

_LEAST_POOL = 5
_QUANTILES = (np.arange(512) + 0.5) / 512


@dataclass(frozen=True)
class Target:
    """A distribution of difficulty that somebody wants, in bands of even density.

    Parameters
    ----------
    name : str
        Short.
    provenance : str
        Where it comes from, in words; shown beside every number that depends on it.
    edges : tuple of float
        Ends of the bands in logits, rising; one more than ``shares``.
    shares : tuple of float
        Mass of each band; they sum to 1.
    """

    name: str
    provenance: str
    edges: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.shares) + 1 or not (np.diff(self.edges) > 0).all():
            raise InputError(f"target {self.name}: bands need rising ends, one more than shares")
        if min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise InputError(f"target {self.name}: shares sum to {sum(self.shares):g}, not to 1")

    @property
    def low(self) -> float:
        """Lowest difficulty wanted."""
        return self.edges[0]

    @property
    def high(self) -> float:
        """Highest difficulty wanted."""
        return self.edges[-1]

    def quantile(self, share: np.ndarray) -> np.ndarray:
        """Return the difficulty below which this share of the target lies."""
        sums = np.concatenate([[0.0], np.cumsum(self.shares)])
        kept = np.concatenate([[True], np.diff(sums) > 0])
        return np.interp(share, sums[kept] / sums[-1], np.asarray(self.edges)[kept])

    def cdf(self, difficulty: np.ndarray) -> np.ndarray:
        """Return the share of the target below a difficulty."""
        sums = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.interp(difficulty, self.edges, sums / sums[-1])


def uniform_target(low: float, high: float) -> Target:
    """Return a target that wants every difficulty of a range alike."""
    if not low < high:
        raise InputError(f"range {low:g} to {high:g}: the first must be smaller")
    text = f"uniform over abilities {low:g} to {high:g}, as declared"
    return Target("uniform", text, (float(low), float(high)), (1.0,))


def pool_target(fit: DifficultyFit) -> Target:
    """Return a target that is uniform over the abilities of the models that are compared."""
    low, high = float(fit.ability.min()), float(fit.ability.max())
    if high - low < 1e-6:
        raise InputError("the models have the same ability; declare a range instead")
    text = f"uniform over the abilities of the {len(fit.models)} models, {low:.2f} to {high:.2f}"
    return Target("pool", text, (low, high), (1.0,))


def workload_target(bands: Sequence[tuple[float, float, float]], *, provenance: str) -> Target:
    """Return the target of a workload.

    Parameters
    ----------
    bands : sequence of (low, high, share)
        Difficulty bands in logits; they may not overlap, what lies between them is not wanted.
    provenance : str
        Where the shares come from.
    """
    edges: list[float] = []
    shares: list[float] = []
    for low, high, share in sorted(bands):
        if edges and low < edges[-1] - 1e-9:
            raise InputError(f"target workload: the band from {low:g} overlaps the one before")
        if edges and low > edges[-1] + 1e-9:
            edges.append(float(low))
            shares.append(0.0)
        edges += [float(high)] if edges else [float(low), float(high)]
        shares.append(float(share))
    return Target("workload", provenance, tuple(edges), tuple(shares))


@dataclass(frozen=True)
class Mismatch:
    """How far a benchmark's difficulties lie from a target.

    Parameters
    ----------
    target, provenance : str
        Name of the target and where it comes from.
    distance : float
        First Wasserstein distance in logits, mean over plausible values.
    relative : float
        The same, divided by the target's standard deviation.
    shift : float
        Mean difficulty minus the target's mean: positive if the benchmark is too hard.
    shape : float
        Distance that is left after the shift is taken out.
    interval, shift_interval : tuple of float
        Over resampled models, see :func:`measure_mismatch`.
    chance : float
        Distance expected if as many items were drawn from the target itself.
    score_bound : float
        Largest difference in expected score that this distance allows at the median slope.
    n_items, n_left_out : int
        Items counted, and items without a usable difficulty.
    n_resamples : int
        Resamples; 0 if the interval is of plausible values alone.
    """

    target: str
    provenance: str
    distance: float
    relative: float
    shift: float
    shape: float
    interval: tuple[float, float]
    shift_interval: tuple[float, float]
    chance: float
    score_bound: float
    n_items: int
    n_left_out: int
    n_resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        lists = ("interval", "shift_interval")
        return {**asdict(self), **{name: list(getattr(self, name)) for name in lists}}


def wasserstein(
    difficulties: np.ndarray, target: Target, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return distance, shift and shape of difficulties from a target.

    Parameters
    ----------
    difficulties : ndarray of shape (..., n_items)
        In logits.
    target : Target
        What is wanted.
    weights : ndarray of shape (n_items,), optional
        Of the items; equal if not given.

    Returns
    -------
    ndarray of shape (..., 3)
        ``integral |F_B^-1(u) - F_T^-1(u)| du`` by the midpoint rule at 512 levels; the difference
        of means; the distance after that is taken out.

    Examples
    --------
    Items spread like the target but one logit harder: all of the distance is shift.

    >>> import numpy as np
    >>> wasserstein(np.linspace(0, 2, 2001), uniform_target(-1, 1)).round(2)
    array([1., 1., 0.])
    """
    levels = _levels(np.asarray(difficulties, float), weights)
    gaps = levels - target.quantile(_QUANTILES)
    shift = gaps.mean(axis=-1)
    shape = np.abs(gaps - shift[..., None]).mean(axis=-1)
    return np.stack([np.abs(gaps).mean(axis=-1), shift, shape], axis=-1)


def _levels(difficulties: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the quantiles of difficulties at fixed levels, shape (..., 512)."""
    if weights is None:
        ordered = np.sort(difficulties, axis=-1)
        rank = np.minimum((_QUANTILES * ordered.shape[-1]).astype(int), ordered.shape[-1] - 1)
        return ordered[..., rank]
    flat = difficulties.reshape(-1, difficulties.shape[-1])
    rows = []
    for row in flat:
        order = np.argsort(row, kind="stable")
        sums = weights[order].cumsum()
        rows.append(row[order][np.searchsorted(sums / sums[-1], _QUANTILES).clip(0, len(row) - 1)])
    return np.reshape(rows, (*difficulties.shape[:-1], len(_QUANTILES)))


def resampled_fits(
    responses: Responses, fit: DifficultyFit, *, n_resamples: int = 40, random_state: int = 0
) -> list[DifficultyFit]:
    """Fit again to parts of the models, which is what the intervals about a benchmark come from.

    Parameters
    ----------
    responses : Responses
        What ``fit`` was fitted to.
    fit : DifficultyFit
        Where every fit starts.
    n_resamples : int
        Random parts of three quarters of the models, without replacement.
    random_state : int
        Seed.

    Returns
    -------
    list of DifficultyFit
        On the scale of ``fit``: abilities of the models drawn are matched to theirs in ``fit`` by
        mean and standard deviation, so that intervals are about these models' scale. Empty with
        fewer than five models, of which no part is a pool.

    Notes
    -----
    The ordinary bootstrap draws models with replacement, and a model that is drawn twice or three
    times is fitted as if its luck were ability: slopes follow it and the difficulties spread. In
    simulations with 12 models its intervals were ten times too wide. Parts without replacement
    hold no copies; their spread is scaled up by ``m / (n - m)`` for a part of m of n models, as in
    the delete-d jackknife (Shao and Wu 1989).
    """
    rng = np.random.default_rng(random_state)
    n_models, found = len(fit.models), []
    if n_models < _LEAST_POOL:
        return []
    size = part_size(n_models)
    for _ in range(n_resamples):
        rows = np.sort(rng.choice(n_models, size, replace=False))
        drawn = responses.select(models=rows)
        start = replace(fit, ability=fit.ability[rows], ability_se=fit.ability_se[rows])
        options = {"model": fit.model, "start": start, "max_iterations": 60, "tolerance": 3e-3}
        guessing = fit.guessing if fit.model == "3pl" else None
        again = fit_difficulty(drawn, guessing=guessing, **options)
        found.append(_on_scale(again, fit.ability[rows]))
    return found


def part_size(n_models: int) -> int:
    """Return the number of models in a part: three quarters, at least three."""
    return max(3, min(int(np.ceil(0.75 * n_models)), n_models - 1))


def _on_scale(fit: DifficultyFit, wanted: np.ndarray) -> DifficultyFit:
    """Shift and stretch a fit's scale so that its abilities have the mean and spread of others."""
    spread = float(wanted.std() / max(fit.ability.std(), 1e-9)) or 1.0
    centre = float(wanted.mean() - spread * fit.ability.mean())
    # t' = spread t + centre;  a t + d = (a / spread) t' + d - a centre / spread
    change = np.array([[1 / spread, 0.0], [-centre / spread, 1.0]])
    mean, covariance = fit.population["mean"], fit.population["covariance"]
    return replace(
        fit,
        ability=spread * fit.ability + centre,
        ability_se=spread * fit.ability_se,
        slope=fit.slope / spread,
        intercept=fit.intercept - fit.slope * centre / spread,
        covariance=change @ fit.covariance @ change.T,
        population={
            **fit.population,
            "mean": change @ mean,
            "covariance": change @ covariance @ change.T,
        },
    )


def measure_mismatch(
    fit: DifficultyFit,
    target: Target,
    *,
    resamples: Sequence[DifficultyFit] = (),
    posterior: DifficultyPosterior | None = None,
    weights: np.ndarray | None = None,
    n_plausible: int = 20,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Mismatch:
    """Measure how far a benchmark's difficulties lie from a target.

    Parameters
    ----------
    fit : DifficultyFit
        Items without a usable difficulty are left out and counted.
    target : Target
        What is wanted.
    resamples : sequence of DifficultyFit
        From :func:`resampled_fits`; without them the interval holds the items' uncertainty alone.
    posterior : DifficultyPosterior, optional
        Of ``fit``; computed if not given.
    weights : ndarray of shape (n_items,), optional
        Of the items in the score; equal if not given.
    n_plausible : int
        Plausible values.
    confidence : float
        Coverage aimed at.
    random_state : int
        Seed.

    Returns
    -------
    Mismatch
        The interval is a normal one around ``distance``, its width from the spread of the
        resamples; it does not go below 0.
    """
    posterior = posterior or difficulty_posterior(fit, random_state=random_state)
    used = None if weights is None else np.asarray(weights, float)[posterior.places]
    values = posterior.plausible(n_plausible, random_state=random_state)
    parts = wasserstein(values, target, used)
    distance, shift, shape = parts.mean(axis=0).tolist()
    spread = parts.std(axis=0)
    if resamples:
        drawn = []
        for number, again in enumerate(resamples):
            other = difficulty_posterior(again, n_draws=32, random_state=random_state + number)
            used = None if weights is None else np.asarray(weights, float)[other.places]
            again_values = other.plausible(n_plausible, random_state=number)
            drawn.append(wasserstein(again_values, target, used).mean(axis=0))
        kept = len(resamples[0].models)
        spread = np.std(drawn, axis=0, ddof=1) * np.sqrt(kept / (len(fit.models) - kept))
    width = norm.ppf(0.5 + confidence / 2) * spread
    rng = np.random.default_rng(random_state)
    draws = target.quantile(rng.random((50, len(posterior.places))))
    levels = target.quantile(_QUANTILES)
    slope = float(np.median(fit.slope[posterior.places]))
    return Mismatch(
        target=target.name,
        provenance=target.provenance,
        distance=distance,
        relative=distance / float(levels.std()),
        shift=shift,
        shape=shape,
        interval=(max(distance - float(width[0]), 0.0), distance + float(width[0])),
        shift_interval=(shift - float(width[1]), shift + float(width[1])),
        chance=float(wasserstein(draws, target)[:, 0].mean()),
        score_bound=min(slope / 4 * distance, 1.0),
        n_items=len(posterior.places),
        n_left_out=len(fit.items) - len(posterior.places),
        n_resamples=len(resamples),
    )


def band_edges(target: Target, *, n_bands: int = 6) -> np.ndarray:
    """Return the ends of bands for tables: the target's own, or equal parts of its range."""
    if len(target.shares) > 1:
        return np.array([-np.inf, *target.edges, np.inf])
    return np.array([-np.inf, *np.linspace(target.low, target.high, n_bands + 1), np.inf])


def band_table(
    fit: DifficultyFit,
    responses: Responses,
    target: Target,
    *,
    posterior: DifficultyPosterior | None = None,
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
    posterior : DifficultyPosterior, optional
        Of ``fit``; computed if not given.
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
    posterior = posterior or difficulty_posterior(fit)
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
    """Return each item's share of the score's response to a small gain, (n_abilities, n_items).

    The slope of a success curve is ``a (P - c)(1 - P) / (1 - c)``; negative ones count as 0.
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
    slope = float(np.median(fit.slope[fit.usable]))
    guess = float(np.median(fit.guessing))
    spread = target.quantile(_QUANTILES)
    share = 1 / (1 + np.exp(-slope * (ability[:, None] - spread)))
    right = guess + (1 - guess) * share
    wanted = len(fit.items) * (slope**2 * (1 - right) / right * share**2).mean(axis=1)
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


def detectable_gain(
    fit: DifficultyFit, ability: np.ndarray, *, quantile: float = 1.645, longest: float = 4.0
) -> np.ndarray:
    """Return the smallest gain in ability that the plain score shows, shape (n_abilities,).

    The smallest ``g`` with ``S(t + g) - S(t) >= quantile * sqrt(2 sum P (1 - P)) / n``, ``S`` the
    expected score: a one-sided test at 5 % of two independent runs of the same items. NaN where no
    gain up to ``longest`` logits is enough.
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
