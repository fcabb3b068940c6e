"""What the fit knows of the difficulties together: draws whose distribution can be compared.

A difficulty is a ratio, ``b = -d / a``. The fit's normal posteriors are of slope and intercept;
where slopes are uncertain the ratio of such draws spreads too far (in simulations with 36 models by
a quarter and more). The draws are therefore weighted to a population in which log slopes are normal
and difficulties a mixture of three normals, both estimated. This is ours; the idea of plausible
values is that of Mislevy (1991).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harmony_utils.difficulty.fit import LIMIT, MIN_SLOPE, DifficultyFit
from harmony_utils.errors import InputError

_PARTS = 3
_ROUNDS = 30
_FLOOR = 1e-3


@dataclass(frozen=True)
class DifficultyPosterior:
    """Weighted draws of the usable items' difficulties.

    Parameters
    ----------
    places : ndarray of int, shape (n_usable,)
        Numbers of the items in the fit.
    draws, weights : ndarray of shape (n_draws, n_usable)
        Difficulties, and weights that sum to 1 for each item.
    """

    places: np.ndarray
    draws: np.ndarray
    weights: np.ndarray

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean of each difficulty: best for one item, too narrow for all together."""
        return (self.weights * self.draws).sum(axis=0)

    @cached_property
    def sd(self) -> np.ndarray:
        """Posterior standard deviation of each difficulty."""
        return np.sqrt((self.weights * (self.draws - self.mean) ** 2).sum(axis=0))

    def plausible(self, n_values: int, *, random_state: int = 0) -> np.ndarray:
        """Return plausible values, shape (n_values, n_usable): one draw an item and value."""
        rng = np.random.default_rng(random_state)
        ranks = rng.random((n_values, len(self.places)))
        sums = self.weights.cumsum(axis=0)
        rows = np.stack([(sums < rank * sums[-1]).sum(axis=0) for rank in ranks])
        return self.draws[rows.clip(0, len(self.draws) - 1), np.arange(len(self.places))]


def difficulty_posterior(
    fit: DifficultyFit, *, n_draws: int = 96, random_state: int = 0
) -> DifficultyPosterior:
    """Draw difficulties from what the fit knows of all items together.

    Parameters
    ----------
    fit : DifficultyFit
        Items with a slope below :data:`~harmony_utils.difficulty.fit.MIN_SLOPE` have no usable
        difficulty and are left out.
    n_draws : int
        Draws for each item.
    random_state : int
        Seed.

    Returns
    -------
    DifficultyPosterior
        Draws lie within plus or minus :data:`~harmony_utils.difficulty.fit.LIMIT`.

    Raises
    ------
    InputError
        If no item is usable.

    Notes
    -----
    A draw ``(a, d)`` of an item's normal posterior gets the weight ``q(log a, b) / (a**2 p(a, d))``
    with ``p`` the normal population of the fit and ``q`` the new one, of which ``1 / a**2`` is the
    change of variables. The parameters of ``q`` are found by expectation and maximisation over the
    weighted draws.

    Examples
    --------
    >>> import numpy as np
    >>> from harmony_utils.difficulty import fit_difficulty, responses_from_matrix
    >>> steps = np.tril(np.ones((6, 6)), k=-1)[:, :5]
    >>> posterior = difficulty_posterior(fit_difficulty(responses_from_matrix(steps)))
    >>> bool(posterior.mean[0] < posterior.mean[-1]), posterior.plausible(7).shape
    (True, (7, 5))
    """
    places = np.flatnonzero(fit.usable)
    if not len(places):
        raise InputError(
            "no item separates abler from weaker models; look at suspected keys and at the models"
        )
    if fit.model == "1pl":
        return _one_slope(fit, places, n_draws, random_state)
    slopes, intercepts, inside, sizes = _normal_draws(fit, places, n_draws, random_state)
    logs, difficulties = np.log(slopes), -intercepts / slopes
    base = np.where(inside, -2 * logs - sizes, -np.inf)
    weights = _reweighted(logs, difficulties.clip(-2 * LIMIT, 2 * LIMIT), base)
    return DifficultyPosterior(places, difficulties.clip(-LIMIT, LIMIT), weights)


def _one_slope(
    fit: DifficultyFit, places: np.ndarray, n_draws: int, random_state: int
) -> DifficultyPosterior:
    """With one slope the intercepts' posteriors are right as they are."""
    rng = np.random.default_rng(random_state)
    noise = rng.standard_normal((n_draws, len(places)))
    draws = fit.difficulty[places] + fit.difficulty_se[places] * noise
    equal = np.full(draws.shape, 1 / n_draws)
    return DifficultyPosterior(places, draws.clip(-LIMIT, LIMIT), equal)


def _normal_draws(
    fit: DifficultyFit, places: np.ndarray, n_draws: int, random_state: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw slopes and intercepts; also whether a slope is usable and the log prior density."""
    rng = np.random.default_rng(random_state)
    middle = np.stack([fit.slope[places], fit.intercept[places]], axis=1)
    roots = np.linalg.cholesky(fit.covariance[places] + 1e-12 * np.eye(2))
    noise = rng.standard_normal((n_draws, len(places), 2))
    noise[0] = 0  # the mode itself, which is usable
    drawn = middle + np.einsum("nij,snj->sni", roots, noise)
    off = drawn - fit.population["mean"]
    precision = np.linalg.inv(fit.population["covariance"])
    density = -0.5 * np.einsum("sni,ij,snj->sn", off, precision, off)
    inside = drawn[..., 0] > MIN_SLOPE / 2
    return np.where(inside, drawn[..., 0], 1.0), drawn[..., 1], inside, density


def _reweighted(logs: np.ndarray, difficulties: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Estimate the population and return each draw's weight, shape (n_draws, n_items)."""
    n_items = logs.shape[1]
    spread = max(float(difficulties[0].std()), 0.3)
    log_mean, log_sd = float(np.median(logs[0])), 0.4
    centres = difficulties[0].mean() + spread * np.linspace(-1, 1, _PARTS)
    widths, shares = np.full(_PARTS, spread / 1.5), np.full(_PARTS, 1 / _PARTS)
    for _ in range(_ROUNDS):
        parts = np.stack(
            [
                np.log(share / width) - 0.5 * ((difficulties - centre) / width) ** 2
                for share, width, centre in zip(shares, widths, centres, strict=True)
            ]
        )
        top = parts.max(axis=0)
        parts = np.exp(parts - top)
        total = parts.sum(axis=0)
        logged = base - 0.5 * ((logs - log_mean) / log_sd) ** 2 + top + np.log(total)
        weights = np.exp(logged - logged.max(axis=0))
        weights /= weights.sum(axis=0)
        parts *= weights / total
        held = parts.sum(axis=(1, 2)) + _FLOOR
        log_mean = float((weights * logs).sum() / n_items)
        log_sd = float(np.sqrt((weights * (logs - log_mean) ** 2).sum() / n_items + _FLOOR))
        centres = (parts * difficulties).sum(axis=(1, 2)) / held
        away = (difficulties - centres[:, None, None]) ** 2
        widths = np.sqrt((parts * away).sum(axis=(1, 2)) / held + 1e-2)
        shares = held / held.sum()
    return weights
