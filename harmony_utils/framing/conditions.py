"""Models under several conditions, on the same questions: scores, changes, ranks, reversals.

A condition is a way of asking (framing) or a way of counting (metric). Everything here is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from harmony_utils.difficulty.reweighting import score_ranks
from harmony_utils.errors import InputError
from harmony_utils.files import json_values
from harmony_utils.labels import check_groups, group_numbers
from harmony_utils.metric import tail_shares
from harmony_utils.null import check_draws

COLUMNS = ("condition", "model", "key", "value")

REVERSAL_COLUMNS = (
    "condition", "ahead_baseline", "ahead_here",
    "lead_baseline", "lead_baseline_low", "lead_baseline_high",
    "lead_here", "lead_here_low", "lead_here_high", "supported",
)  # fmt: skip

_TIE = 1e-12


@dataclass(frozen=True)
class Conditions:
    """What changes from the baseline to other conditions.

    Parameters
    ----------
    baseline : str
        The condition that the others are compared with.
    n_items : int
        Questions that every model has under every condition; all numbers are of these.
    n_left_out : int
        Questions that some model lacks under some condition.
    scores : DataFrame
        A row for each condition and model: ``score`` (mean over questions) with ``low`` and
        ``high``, ``rank`` (1 is best, ties share the better one) with ``rank_low`` and
        ``rank_high``; against the baseline ``change`` with ``change_low`` and ``change_high``, and
        ``gained`` and ``lost``, the shares of questions whose value rose and fell.
    ranks : DataFrame
        A row for each condition but the baseline: ``kendall`` (tau-b of the scores),
        ``largest_move`` of a rank, ``chance_move``, what other questions under the baseline would
        move (upper end), and ``p_value`` of the question whether models change differently; NaN
        with one model or without a common scale.
    reversals : DataFrame
        A row for each pair of models that changes its order: ``condition``, ``ahead_baseline``,
        ``ahead_here``, the ``lead_baseline`` and ``lead_here`` of the one ahead with intervals, and
        ``supported``: both intervals exclude 0.
    same_scale : bool
        Whether values of different conditions can be subtracted.
    confidence : float
        Coverage aimed at.
    n_draws : int
        Resamples, and draws of signs.
    """

    baseline: str
    n_items: int
    n_left_out: int
    scores: pd.DataFrame
    ranks: pd.DataFrame
    reversals: pd.DataFrame
    same_scale: bool
    confidence: float
    n_draws: int

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return list(dict.fromkeys(self.scores["model"]))

    @property
    def conditions(self) -> list[str]:
        """Names of the conditions, the baseline first."""
        return list(dict.fromkeys(self.scores["condition"]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; what is not known is null."""
        found = {
            "baseline": self.baseline,
            "n_items": self.n_items,
            "n_left_out": self.n_left_out,
            "same_scale": self.same_scale,
            "confidence": self.confidence,
            "n_draws": self.n_draws,
            "scores": self.scores.to_dict("records"),
            "ranks": self.ranks.to_dict("records"),
            "reversals": self.reversals.to_dict("records"),
        }
        return json_values(found)


def compare_conditions(
    values: pd.DataFrame,
    *,
    baseline: str,
    same_scale: bool = True,
    n_draws: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Conditions:
    """Compare models between conditions on the questions that all have in common.

    Parameters
    ----------
    values : DataFrame
        Columns ``condition``, ``model``, ``key`` (of the question) and ``value`` (higher is better,
        such as right or wrong as 1 or 0; NaN if missing), and optionally ``group``: questions that
        hang together.
    baseline : str
        One of the conditions.
    same_scale : bool
        Whether a value means the same under all conditions, as right or wrong does. If not, as for
        different metrics, no differences between conditions are taken.
    n_draws : int
        Resamples for intervals, and draws of signs for the p-value.
    confidence : float
        Coverage aimed at.
    random_state : int
        Seed.

    Returns
    -------
    Conditions
        Conditions in the order of their first rows, the baseline before them; models too.

    Raises
    ------
    InputError
        If a column or the baseline is missing, there is one condition only, a model lacks a
        condition, a question comes twice, or fewer than two questions are common.

    Notes
    -----
    Questions, or their groups, are resampled with replacement, the same ones for every model and
    condition, so that differences are paired. Intervals are percentiles; where all values of a
    model are equal they have no width, which does not mean certainty.

    ``chance_move`` comes from pairs of independent resamples of the questions under the baseline:
    as far as drawing as many other questions would move a rank, at that confidence.

    The null of ``p_value``: a condition changes the scores of all models by the same amount. If it
    changed nothing, its answers to a question could be exchanged with those of the baseline, which
    turns the sign of all models' changes on that question (group). So signs are drawn at random;
    the statistic is the variance over models of their mean changes, from which an amount common to
    all drops out, and the p-value the share of draws, the observed one counted in, that reach it
    (Phipson and Smyth 2010). Moves of ranks are no statistic for this: where models are as good as
    equal, nothing moves them far.

    Pairs are as many as models allow, and their intervals are not corrected for their number.

    Examples
    --------
    >>> rows = [("a", "x", 1, 1), ("a", "x", 2, 1), ("a", "y", 1, 1), ("a", "y", 2, 0),
    ...         ("b", "x", 1, 0), ("b", "x", 2, 0), ("b", "y", 1, 1), ("b", "y", 2, 0)]
    >>> values = pd.DataFrame(rows, columns=["condition", "model", "key", "value"])
    >>> found = compare_conditions(values, baseline="a", n_draws=200)
    >>> found.scores[["condition", "model", "score", "rank"]].values.tolist()
    [['a', 'x', 1.0, 1], ['a', 'y', 0.5, 2], ['b', 'x', 0.0, 2], ['b', 'y', 0.5, 1]]
    >>> found.ranks[["kendall", "largest_move"]].values.tolist()
    [[-1.0, 1.0]]
    """
    check_draws(n_draws)
    cube, conditions, models, groups, n_left_out = _cube(values, baseline)
    rng = np.random.default_rng(random_state)
    ends = tail_shares(confidence)
    draws = _resampled(cube, groups, n_draws, rng)
    scores = cube.mean(axis=2)
    table = _score_table(cube, scores, draws, ends, conditions, models, same_scale)
    other = _resampled(cube[:1], groups, n_draws, rng)[:, 0]
    moves = [_largest_move(*pair) for pair in zip(draws[:, 0], other, strict=True)]
    chance = float(np.quantile(moves, confidence, method="higher"))
    ranks = [
        {
            "condition": name,
            "kendall": _kendall(scores[0], scores[place]),
            "largest_move": _largest_move(scores[0], scores[place]),
            "chance_move": chance,
            "p_value": _interaction(cube[place] - cube[0], groups, n_draws, rng)
            if same_scale and len(models) > 1
            else np.nan,
        }
        for place, name in enumerate(conditions[1:], start=1)
    ]
    return Conditions(
        baseline=baseline,
        n_items=cube.shape[2],
        n_left_out=n_left_out,
        scores=table,
        ranks=pd.DataFrame(ranks),
        reversals=_reversals(scores, draws, ends, conditions, models),
        same_scale=same_scale,
        confidence=confidence,
        n_draws=n_draws,
    )


def _cube(
    values: pd.DataFrame, baseline: str
) -> tuple[np.ndarray, list[str], list[str], np.ndarray, int]:
    """Arrange values as (conditions, models, items), the baseline first; count what is left out."""
    if missing := [name for name in COLUMNS if name not in values.columns]:
        raise InputError(f"values: no column {missing[0]!r}; give {', '.join(COLUMNS)}")
    conditions = list(dict.fromkeys(values["condition"]))
    models = list(dict.fromkeys(values["model"]))
    if baseline not in conditions:
        raise InputError(f"baseline {baseline!r}: choose {', '.join(map(str, conditions))}")
    if len(conditions) < 2:
        raise InputError(f"only the condition {baseline!r} is there; give another to compare with")
    repeated = values.duplicated(["condition", "model", "key"])
    if repeated.any():
        row = values[repeated].iloc[0]
        raise InputError(
            f"question {row['key']!r} comes twice for {row['model']} under {row['condition']}"
        )
    conditions.sort(key=lambda name: name != baseline)
    cells = pd.MultiIndex.from_product([conditions, models])
    wide = values.pivot(index="key", columns=["condition", "model"], values="value")
    if absent := [cell for cell in cells if cell not in wide.columns]:
        raise InputError(f"{absent[0][1]} has no answers under {absent[0][0]!r}: give them all")
    wide = wide.reindex(index=pd.unique(values["key"]), columns=cells)
    whole = wide.dropna()
    if len(whole) < 2:
        raise InputError(
            f"{len(whole)} of {len(wide)} questions are common to all models and conditions; "
            "compare runs on the same questions"
        )
    groups = None
    if "group" in values.columns:
        named = values.drop_duplicates("key").set_index("key")["group"].reindex(whole.index)
        groups = group_numbers(named.tolist())
    cube = whole.to_numpy(dtype=float).T.reshape(len(conditions), len(models), len(whole))
    numbered = check_groups(groups, len(whole))
    return cube, conditions, models, numbered, len(wide) - len(whole)


def _resampled(
    cube: np.ndarray, groups: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return scores under resampled groups, shape (n_draws, n_conditions, n_models)."""
    sizes, n_groups = np.bincount(groups), groups.max() + 1
    sums = _by_group(cube.reshape(-1, cube.shape[2]), groups)
    counts = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=n_draws)
    means = counts @ sums / (counts @ sizes)[:, None]
    return means.reshape(n_draws, *cube.shape[:2])


def _by_group(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum rows of shape (n, n_items) within groups, shape (n_groups, n)."""
    sums = np.zeros((groups.max() + 1, len(rows)))
    np.add.at(sums, groups, rows.T)
    return sums


def _score_table(
    cube: np.ndarray,
    scores: np.ndarray,
    draws: np.ndarray,
    ends: Sequence[float],
    conditions: list[str],
    models: list[str],
    same_scale: bool,
) -> pd.DataFrame:
    """Return the rows of ``scores``."""
    low, high = np.quantile(draws, ends, axis=0)
    drawn_ranks = np.apply_along_axis(score_ranks, 2, draws)
    rank_low, rank_high = np.quantile(drawn_ranks, ends, axis=0, method="nearest").astype(int)
    change_low, change_high = np.quantile(draws - draws[:, :1], ends, axis=0)
    change = cube - cube[:1]
    rows = []
    for c, condition in enumerate(conditions):
        ranks = score_ranks(scores[c]).astype(int)
        for m, model in enumerate(models):
            against = {
                "change": scores[c, m] - scores[0, m],
                "change_low": change_low[c, m],
                "change_high": change_high[c, m],
                "gained": float((change[c, m] > _TIE).mean()),
                "lost": float((change[c, m] < -_TIE).mean()),
            }
            if not same_scale:
                against = dict.fromkeys(against, np.nan)
            rows.append(
                {
                    "condition": condition,
                    "model": model,
                    "score": scores[c, m],
                    "low": low[c, m],
                    "high": high[c, m],
                    "rank": ranks[m],
                    "rank_low": rank_low[c, m],
                    "rank_high": rank_high[c, m],
                    **against,
                }
            )
    return pd.DataFrame(rows)


def _kendall(baseline: np.ndarray, other: np.ndarray) -> float:
    """Return tau-b of two rows of scores; NaN with one model, or if all of a row are equal."""
    if len(baseline) < 2 or np.ptp(baseline) < _TIE or np.ptp(other) < _TIE:
        return float("nan")
    return float(kendalltau(score_ranks(baseline), score_ranks(other)).statistic)


def _largest_move(baseline: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(score_ranks(baseline) - score_ranks(other)).max())


def _interaction(
    changes: np.ndarray, groups: np.ndarray, n_draws: int, rng: np.random.Generator
) -> float:
    """Return the p-value of models changing differently, from changes of (n_models, n_items)."""
    by_group = _by_group(changes, groups)
    signs = rng.choice([-1.0, 1.0], size=(n_draws, len(by_group)))
    observed = by_group.sum(axis=0).var()
    reached = (signs @ by_group).var(axis=1) >= observed * (1 - 1e-9)
    return float((1 + reached.sum()) / (1 + n_draws))


def _reversals(
    scores: np.ndarray,
    draws: np.ndarray,
    ends: Sequence[float],
    conditions: list[str],
    models: list[str],
) -> pd.DataFrame:
    """Return the pairs of models whose order changes."""
    rows = []
    for c in range(1, len(conditions)):
        for i, ahead in enumerate(models):
            for j, behind in enumerate(models):
                before, now = scores[0, i] - scores[0, j], scores[c, j] - scores[c, i]
                if not (before > _TIE and now > _TIE):
                    continue
                first = np.quantile(draws[:, 0, i] - draws[:, 0, j], ends)
                second = np.quantile(draws[:, c, j] - draws[:, c, i], ends)
                rows.append(
                    {
                        "condition": conditions[c],
                        "ahead_baseline": ahead,
                        "ahead_here": behind,
                        "lead_baseline": before,
                        "lead_baseline_low": first[0],
                        "lead_baseline_high": first[1],
                        "lead_here": now,
                        "lead_here_low": second[0],
                        "lead_here_high": second[1],
                        "supported": bool(first[0] > 0 and second[0] > 0),
                    }
                )
    return pd.DataFrame(rows, columns=REVERSAL_COLUMNS)
