"""The ladder: HARMONY and accuracy while more and more items are removed, by every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.labels import check_groups
from harmony_utils.metric import (
    check_items,
    harmony_mass,
    harmony_of_mass,
    tail_shares,
    wilson_interval,
)
from harmony_utils.null import grouped_accuracies, shuffled_accuracies
from harmony_utils.rebalance.choice import duplicate_order, shuffled_order
from harmony_utils.rebalance.sizes import capped_sizes, greedy_sizes, n_removed
from harmony_utils.uncertainty import design_effects, noise_corrected_draws

RANGE = (0.025, 0.975)
"""Quantiles over draws reported as ``lo`` and ``hi``."""

N_SHUFFLES = 2000
"""Shuffles behind each p-value."""


def prune_ladder(
    correct: np.ndarray | Sequence[float],
    labels: np.ndarray | Sequence[Any],
    *,
    similarity: np.ndarray | None = None,
    groups: np.ndarray | Sequence[Any] | None = None,
    shares: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    bandwidth: float = 0.1,
    n_random: int = 200,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> pd.DataFrame:
    """Remove more and more items by several methods and follow HARMONY and accuracy.

    Parameters
    ----------
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    labels : array_like of shape (n_items,)
        Subdomain of each item.
    similarity : ndarray of shape (n_items, n_items), optional
        For ``near-duplicate``, which is left out without it; see
        :func:`~harmony_utils.rebalance.choice.duplicate_order`.
    groups : array_like of shape (n_items,), optional
        Items that hang together, for the p-values and intervals; see
        :func:`~harmony_utils.harmony.harmony`.
    shares : sequence of float
        Shares of items removed, between 0 and 1. Use the same ladder for every benchmark, or those
        with low HARMONY lose more and the comparison says nothing.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    n_random : int
        Draws per method. Within a draw, what a smaller share removes a larger one removes too.
    n_bootstrap : int
        Resamples behind the intervals of HARMONY.
    confidence : float
        Coverage of the intervals.
    random_state : int
        Seed.

    Returns
    -------
    DataFrame
        Rows for each ``method`` at share 0 and every given share, with ``n_removed`` (the share of
        items, halves rounded up), ``n_left``, mean and 95% range over draws of ``harmony`` and
        ``accuracy`` (``harmony``, ``harmony_lo``, ``harmony_hi``, and so on), and the interval over
        items of a list of average accuracies (``harmony_ci_lo``, ``harmony_ci_hi``, and so on).
        ``accuracy_shift`` is the mean accuracy minus that of all items. ``p_value``: see Notes;
        missing for ``random``.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.harmony.harmony`; for a share not between 0 and 1; or if a share
        would empty a subdomain.

    Notes
    -----
    ``cap`` lowers the largest subdomains to a common size
    (:func:`~harmony_utils.rebalance.sizes.capped_sizes`). ``greedy`` shrinks, item by item, the
    subdomain whose loss raises HARMONY most (:func:`~harmony_utils.rebalance.sizes.greedy_sizes`).
    In both, which items of a lowered subdomain leave is drawn at random. ``near-duplicate`` removes
    the items most like one that stays (:func:`~harmony_utils.rebalance.choice.duplicate_order`); it
    has no draws. ``random``, the control, removes as many items from anywhere, after one random
    item per subdomain is set aside, so that none is emptied. All are our rules: the paper's pruning
    is not known to us in detail.

    ``p_value`` compares the shift that a method brings on average, over all choices of the items
    that leave, with the same after labels are shuffled: a random removal of the same share whose
    luck of the draw is averaged out too. ``greedy`` chooses by correctness, so it chooses anew in
    every shuffle. For ``near-duplicate`` the answers are shuffled over the items: as many items
    removed anywhere. Two-sided around the shuffles' mean, the observation counted as one of
    :data:`N_SHUFFLES` + 1. One pruned list against one random list is another question, which the
    two ranges answer: they may overlap although the shift is significant.

    The intervals take the sizes as given: HARMONY's is that of
    :func:`~harmony_utils.uncertainty.noise_corrected_draws`, with resamples drawn from binomial
    distributions, so for partial credit it is too wide; the accuracy's is Wilson's.

    Examples
    --------
    Five easy and one hard item: capping evens the sizes and pulls accuracy to the middle.

    >>> table = prune_ladder([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], shares=[0.5])
    >>> table.loc[table.method == "cap", ["n_left", "accuracy"]].round(2).values.tolist()
    [[6.0, 0.83], [3.0, 0.67]]
    """
    scores, codes, _ = check_items(correct, labels)
    members = None if groups is None else check_groups(groups, len(scores))
    if members is not None and members.max() + 1 == len(scores):
        members = None
    sizes = np.bincount(codes)
    n_left = [len(scores) - n_removed(share, sizes) for share in (0.0, *shares)]
    ladder = _Ladder(scores, codes, members, bandwidth, n_random, n_bootstrap, confidence,
                     np.random.default_rng(random_state))  # fmt: skip
    removals = ladder.by_sizes(n_left)
    if similarity is not None:
        order = duplicate_order(similarity, codes, n_items=len(scores) - min(n_left))
        removals += ladder.by_order(n_left, order)
    rows = []
    for removal in removals:
        share = (0.0, *shares)[removal.place]
        about = {"method": removal.method, "share": share}
        rows.append({**about, **ladder.summary(removal, n_left[removal.place])})
    return pd.DataFrame(rows).sort_values(["method", "share"], ignore_index=True)


@dataclass(frozen=True, eq=False)
class _Removal:
    """One method at one share: outcomes over draws, and what is left on average."""

    method: str
    place: int
    harmonies: np.ndarray
    means: np.ndarray
    kept: np.ndarray
    accuracies: np.ndarray
    p_value: float


@dataclass(frozen=True, eq=False)
class _Ladder:
    """The data of one ladder and what all of its methods share."""

    scores: np.ndarray
    codes: np.ndarray
    members: np.ndarray | None
    bandwidth: float
    n_random: int
    n_bootstrap: int
    confidence: float
    rng: np.random.Generator

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.codes)

    @cached_property
    def accuracies(self) -> np.ndarray:
        return np.bincount(self.codes, weights=self.scores) / self.sizes

    @cached_property
    def effects(self) -> tuple[float, float]:
        """Design effects of subdomain accuracies and of their mean."""
        if self.members is None:
            return 1.0, 1.0
        residuals = self.scores - self.accuracies[self.codes]
        return design_effects(residuals, self.codes, self.members)

    def shuffled(self, codes: np.ndarray) -> np.ndarray:
        """Return accuracies of a division of the items once answers are shuffled."""
        if self.members is None:
            return shuffled_accuracies(
                self.scores, np.bincount(codes), n_draws=N_SHUFFLES, rng=self.rng
            )
        return grouped_accuracies(
            self.scores, codes, self.members, n_draws=N_SHUFFLES, rng=self.rng
        )

    def by_sizes(self, n_left: list[int]) -> list[_Removal]:
        """Remove random items of chosen subdomains: capped, greedy, and the control."""
        sums = self._running_sums()
        cases = np.vstack([self.accuracies, self.shuffled(self.codes)])
        greedy = greedy_sizes(self.sizes, cases, n_left, bandwidth=self.bandwidth)
        found = []
        for place, left in enumerate(n_left):
            cap = capped_sizes(self.sizes, left)
            control = 1 + self.rng.multivariate_hypergeometric(
                self.sizes - 1, left - len(self.sizes), size=self.n_random
            )
            tested = {"cap": (cap, cap), "greedy": (greedy[place, 0], greedy[place])}
            for method, (kept, in_cases) in tested.items():
                means = (cases * in_cases).sum(axis=1) / left
                outcome = self._pruned(sums, kept[None])
                p_value = _shift_p_value(means[0], means[1:])
                found.append(_Removal(method, place, *outcome, kept, self.accuracies, p_value))
            outcome, kept = self._pruned(sums, control), np.rint(control.mean(axis=0))
            found.append(_Removal("random", place, *outcome, kept, self.accuracies, np.nan))
        return found

    def by_order(self, n_left: list[int], order: np.ndarray) -> list[_Removal]:
        """Remove near-duplicates in a given order; there is one outcome, not many draws."""
        found = []
        for place, left in enumerate(n_left):
            stays = np.ones(len(self.scores), dtype=bool)
            stays[order[: len(self.scores) - left]] = False
            kept = np.bincount(self.codes[stays], minlength=len(self.sizes))
            accuracies = np.bincount(self.codes[stays], weights=self.scores[stays]) / kept
            mean = self.scores[stays].mean()
            null = self.shuffled((~stays).astype(np.int64))[:, 0]
            value = harmony_of_mass(harmony_mass(kept, accuracies, bandwidth=self.bandwidth))
            found.append(
                _Removal(
                    "near-duplicate",
                    place,
                    value[None],
                    mean[None],
                    kept,
                    accuracies,
                    _shift_p_value(mean, null),
                )
            )
        return found

    def summary(self, removal: _Removal, left: int) -> dict[str, Any]:
        """Return one row of the table but for method and share."""
        return {
            "n_removed": len(self.scores) - left,
            "n_left": left,
            **_over_draws("harmony", removal.harmonies),
            **_over_draws("accuracy", removal.means),
            **self._intervals(removal.kept, removal.accuracies),
            "accuracy_shift": float(removal.means.mean() - self.scores.mean()),
            "p_value": removal.p_value,
        }

    def _intervals(self, kept: np.ndarray, accuracies: np.ndarray) -> dict[str, float]:
        """Return the intervals over items of a list with these sizes and accuracies."""
        within, overall = self.effects
        asked = np.maximum(np.rint(kept / within), 1).astype(np.int64)
        shape = (self.n_bootstrap, len(kept))
        draws = noise_corrected_draws(
            kept,
            accuracies,
            self.rng.binomial(asked, accuracies, size=shape) / asked,
            variance=self.scores.var() * within,
            bandwidth=self.bandwidth,
        )
        low, high = np.quantile(draws, tail_shares(self.confidence)).round(10).tolist()
        mean = np.array(kept @ accuracies / kept.sum())
        ends = wilson_interval(mean, kept.sum() / overall, confidence=self.confidence)
        return {
            "harmony_ci_lo": low,
            "harmony_ci_hi": high,
            "accuracy_ci_lo": float(ends[0]),
            "accuracy_ci_hi": float(ends[1]),
        }

    def _running_sums(self) -> np.ndarray:
        """Return running sums of correctness over grouped items, shape (n_random, n_items + 1)."""
        sums = np.zeros((self.n_random, len(self.scores) + 1))
        for draw in range(self.n_random):
            np.cumsum(self.scores[shuffled_order(self.codes, self.rng)], out=sums[draw, 1:])
        return sums

    def _pruned(self, sums: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return HARMONY and accuracy, each (n_random,), after keeping items per subdomain.

        ``kept`` has shape (n_random, n_clusters), or (1, n_clusters) for the same in every draw.
        """
        starts = np.cumsum(self.sizes) - self.sizes
        ends = np.broadcast_to(starts + kept, (len(sums), len(self.sizes)))
        right = np.take_along_axis(sums, ends, axis=1) - sums[:, starts]
        accuracies = np.clip(right / kept, 0, 1)
        mass = harmony_mass(kept, accuracies, bandwidth=self.bandwidth)
        return harmony_of_mass(mass), right.sum(axis=1) / kept.sum(axis=1)


def _shift_p_value(observed: float, null: np.ndarray) -> float:
    """Return the two-sided p-value of a mean among those of shuffles; see the ladder."""
    centre = null.mean()
    beyond = np.abs(null - centre) >= abs(observed - centre) - 1e-12
    return float((1 + beyond.sum()) / (1 + len(null)))


def _over_draws(name: str, draws: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(draws, RANGE).tolist()
    return {name: float(draws.mean()), f"{name}_lo": low, f"{name}_hi": high}
