"""Fitted item curves and abilities: what they are, and what follows from them alone.

The model: a model of ability ``t`` answers an item right with probability
``c + (1 - c) / (1 + exp(-(a t + d)))``; ``a`` is the item's discrimination, ``b = -d / a`` its
difficulty, the ability at which the item separates best (Birnbaum 1968).
``1pl``: one ``a`` for all items; ``2pl``: one each; ``3pl``: as 2pl with a fixed ``c``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from harmony_utils.difficulty.newton import success

ItemModel = Literal["1pl", "2pl", "3pl"]

MIN_SLOPE = 0.2
"""Items with a smaller slope have no usable difficulty: ``b = -d / a`` runs off."""

LIMIT = 6.0
"""Difficulties are cut to plus or minus this many logits before distributions are compared."""


@dataclass(frozen=True)
class DifficultyFit:
    """Fitted items and models.

    Parameters
    ----------
    model : {"1pl", "2pl", "3pl"}
        Shape of the curves.
    items, models : tuple of str
        Names, in the order of the arrays.
    slope, intercept, guessing : ndarray of shape (n_items,)
        ``a``, ``d`` and ``c``.
    covariance : ndarray of shape (n_items, 2, 2)
        Of slope and intercept; too narrow for an interval of the slope, see the notes of
        :func:`~harmony_utils.difficulty.fit.fit_difficulty`.
    ability, ability_se : ndarray of shape (n_models,)
        On the scale on which the pool has mean 0 and standard deviation 1 (the spread of the
        estimates and their own variance together), unless items are anchored.
    population : dict
        ``mean`` (2,) and ``covariance`` (2, 2) of slope and intercept, ``ability_mean``,
        ``ability_sd``.
    converged : bool
        Whether the largest change fell below the tolerance.
    n_iterations : int
        Rounds.
    anchored : ndarray of bool, shape (n_items,)
        Items that were kept fixed.
    """

    model: str
    items: tuple[str, ...]
    models: tuple[str, ...]
    slope: np.ndarray
    intercept: np.ndarray
    guessing: np.ndarray
    covariance: np.ndarray
    ability: np.ndarray
    ability_se: np.ndarray
    population: dict[str, Any]
    converged: bool
    n_iterations: int
    anchored: np.ndarray = field(repr=False)

    @property
    def difficulty(self) -> np.ndarray:
        """``b = -d / a``, shape (n_items,); far out where the slope is near 0."""
        return -self.intercept / _away_from_zero(self.slope)

    @property
    def difficulty_se(self) -> np.ndarray:
        """Standard error of ``b`` by the delta method, shape (n_items,).

        ``var b = (var d + 2 b cov(a, d) + b**2 var a) / a**2``.
        """
        b, slope = self.difficulty, _away_from_zero(self.slope)
        (aa, ad), (_, dd) = self.covariance.transpose(1, 2, 0)
        return np.sqrt(np.maximum(dd + 2 * b * ad + b**2 * aa, 0)) / np.abs(slope)

    @property
    def by_item(self) -> dict[str, float]:
        """Difficulty of each item by its name."""
        return dict(zip(self.items, self.difficulty.tolist(), strict=True))

    @property
    def usable(self) -> np.ndarray:
        """Items whose slope is at least :data:`MIN_SLOPE`: those that have a difficulty."""
        return self.slope >= MIN_SLOPE

    def probabilities(self, ability: np.ndarray | None = None) -> np.ndarray:
        """Return the chance of a right answer, (n_abilities, n_items), at the models' or others."""
        where = self.ability if ability is None else np.atleast_1d(ability)
        return success(where, self.slope, self.intercept, self.guessing)

    def information(self, ability: np.ndarray) -> np.ndarray:
        """Return each item's Fisher information on ability, shape (n_abilities, n_items).

        ``a**2 P (1 - P)`` without guessing, ``a**2 (Q / P) ((P - c) / (1 - c))**2`` with.
        """
        right = self.probabilities(ability)
        known = (right - self.guessing) / (1 - self.guessing)
        return self.slope**2 * (1 - right) / np.maximum(right, 1e-12) * known**2

    def items_table(self) -> pd.DataFrame:
        """Return one row for each item: difficulty with its standard error, discrimination."""
        return pd.DataFrame(
            {
                "item": self.items,
                "difficulty": self.difficulty,
                "difficulty_se": self.difficulty_se,
                "discrimination": self.slope,
                "intercept": self.intercept,
                "guessing": self.guessing,
                "usable": self.usable,
                "anchored": self.anchored,
            }
        )

    def models_table(self) -> pd.DataFrame:
        """Return one row for each model: ability and its standard error."""
        columns = {"model": self.models, "ability": self.ability, "ability_se": self.ability_se}
        return pd.DataFrame(columns)


def _away_from_zero(slope: np.ndarray) -> np.ndarray:
    tiny = 1e-6
    return np.where(np.abs(slope) < tiny, np.where(slope < 0, -tiny, tiny), slope)
