"""Answers of simulated models whose abilities and difficulties are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from harmony_utils.difficulty.responses import Responses, responses_from_matrix


@dataclass(frozen=True)
class SimulatedPanel:
    """Answers with the truth behind them.

    Parameters
    ----------
    responses : Responses
        Answers; items that nobody answered are left out of them.
    ability, slope, difficulty : ndarray
        The truth, on the scale on which the pool's abilities have mean 0 and standard deviation 1,
        which is the scale of a fit.
    reversed : ndarray of bool, shape (n_items,)
        Items with a planted wrong key.
    """

    responses: Responses
    ability: np.ndarray
    slope: np.ndarray
    difficulty: np.ndarray
    reversed: np.ndarray


def simulate_panel(
    n_models: int,
    n_items: int,
    *,
    difficulty: np.ndarray | None = None,
    ability: np.ndarray | None = None,
    slope_spread: float = 0.4,
    missing: float = 0.0,
    wrong_keys: float = 0.0,
    subjects: list[str] | None = None,
    random_state: int = 0,
) -> SimulatedPanel:
    """Draw answers from the two-parameter logistic model.

    Parameters
    ----------
    n_models, n_items : int
        Size.
    difficulty, ability : ndarray, optional
        The truth; N(.2, 1.3) and N(0, 1) if not given.
    slope_spread : float
        Standard deviation of log slopes around .15; 0 makes all slopes 1, as in 1PL.
    missing : float
        Share of cells that are missing at random.
    wrong_keys : float
        Share of items whose answers are turned round.
    subjects : list of str, optional
        Subject of each item.
    random_state : int
        Seed.

    Returns
    -------
    SimulatedPanel
        A model answers right with probability ``1 / (1 + exp(-a (t - b)))``.

    Examples
    --------
    >>> panel = simulate_panel(8, 30, random_state=1)
    >>> panel.responses.shape, abs(round(float(panel.ability.mean()), 6))
    ((8, 30), 0.0)
    """
    rng = np.random.default_rng(random_state)
    t = rng.normal(size=n_models) if ability is None else np.asarray(ability, float)
    b = rng.normal(0.2, 1.3, n_items) if difficulty is None else np.asarray(difficulty, float)
    noise = rng.normal(size=n_items)
    a = np.exp(0.15 + slope_spread * noise) if slope_spread else np.ones(n_items)
    wrong = np.zeros(n_items, dtype=bool)
    wrong[rng.permutation(n_items)[: round(wrong_keys * n_items)]] = True
    sign = np.where(wrong, -1.0, 1.0)
    right = rng.random((n_models, n_items)) < expit(sign * a * (t[:, None] - b))
    values = right.astype(float)
    values[rng.random(values.shape) < missing] = np.nan
    spread = float(t.std()) or 1.0
    return SimulatedPanel(
        responses=responses_from_matrix(values, subjects=subjects),
        ability=(t - t.mean()) / spread,
        slope=sign * a * spread,
        difficulty=(b - t.mean()) / spread,
        reversed=wrong,
    )
