"""Trends of accuracy and HARMONY over model size, training or depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from harmony_utils.errors import InputError
from harmony_utils.metric import tail_shares

Axis = Literal["parameters", "tokens", "layer"]

AXES: tuple[Axis, ...] = ("tokens", "layer", "parameters")
"""What may grow, in the order in which ``auto`` looks for one that varies."""

OUTCOMES = ("accuracy", "harmony")
"""What may follow."""

EXACT_POINTS = 8
"""Up to this many points every order is tried; above, :data:`N_PERMUTATIONS` random ones."""

N_PERMUTATIONS = 9999

_REQUIRED = ("model", "benchmark", "accuracy", "harmony", "n_clusters", "n_items")
_OPTIONAL = ("family", "parameters", "tokens", "layer", "p_value")


@dataclass(frozen=True)
class TrendResult:
    """A rank correlation that may say that it cannot tell.

    Parameters
    ----------
    rho : float or None
        Spearman's rank correlation, between -1 and 1; None where undefined.
    low, high : float or None
        Bootstrap interval.
    p_value : float or None
        Two-sided permutation p-value.
    n : int
        Points.
    confidence : float
        Coverage of the interval.
    verdict : str
        ``rising``, ``falling``, ``no clear trend`` or ``cannot tell``.
    reason : str
        Why it cannot tell; else empty.
    """

    rho: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    confidence: float
    verdict: Literal["rising", "falling", "no clear trend", "cannot tell"]
    reason: str = ""

    @property
    def cannot_tell(self) -> bool:
        """Whether the points are too few or too equal for any verdict."""
        return self.verdict == "cannot tell"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def rank_correlation(
    x: np.ndarray | Sequence[float],
    y: np.ndarray | Sequence[float],
    *,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> TrendResult:
    """Say whether ``y`` rises or falls with ``x``, in order alone.

    Parameters
    ----------
    x, y : array_like of shape (n_points,)
        Ties get their average rank. Points with a missing value are left out.
    n_bootstrap : int
        Resamples of points behind the interval; those in which one side is constant are left out.
    confidence : float
        Coverage of the interval; ``1 - confidence`` is also the level of the verdict.
    random_state : int
        Seed.

    Returns
    -------
    TrendResult
        ``cannot tell`` with fewer than three points or a constant side, where ``rho`` is None, and
        with so few points that even a perfect order would not be significant (``2 / n!``: fewer
        than five at .95), where ``rho`` is given. The p-value is exact up to
        :data:`EXACT_POINTS` points. With few points the bootstrap interval is too narrow: trust
        the p-value.

    Raises
    ------
    InputError
        If the lengths differ.

    Examples
    --------
    Four points in perfect order are not yet evidence; five are.

    >>> rank_correlation([1, 2, 3, 4], [1, 2, 3, 4]).verdict
    'cannot tell'
    >>> rank_correlation([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]).verdict
    'rising'
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"points of shapes {first.shape} and {second.shape}: give as many of one as the other"
        )
    present = ~(np.isnan(first) | np.isnan(second))
    first, second = rankdata(first[present]), rankdata(second[present])
    n = len(first)
    if n < 3:
        return _undefined(n, confidence, "a trend needs at least three runs")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return _undefined(n, confidence, "all values on one side are equal")
    rng = np.random.default_rng(random_state)
    rho = float(_correlations(first[None], second[None])[0])
    p_value = _permutation_p_value(first, second, rho, rng)
    low, high = _bootstrap(first, second, n_bootstrap, confidence, rng)
    level = 1 - confidence
    reason = ""
    if 2 / math.factorial(n) > level:
        verdict, reason = (
            "cannot tell",
            f"{n} points: even a perfect order would not be significant",
        )
    elif p_value > level:
        verdict = "no clear trend"
    else:
        verdict = "rising" if rho > 0 else "falling"
    return TrendResult(rho, low, high, p_value, n, confidence, verdict, reason)


def scaling_table(
    records: Sequence[dict[str, Any]], *, axis: Literal["auto"] | Axis = "auto"
) -> pd.DataFrame:
    """Arrange runs by what grows.

    Parameters
    ----------
    records : sequence of dict
        One per run, with ``model``, ``benchmark``, ``accuracy``, ``harmony``, ``n_clusters`` and
        ``n_items``, and where known ``family``, ``parameters``, ``tokens`` (both counts), ``layer``
        and ``p_value``.
    axis : {"auto", "parameters", "tokens", "layer"}
        What grows. ``auto`` takes the first of tokens, layer and parameters that has at least two
        different values within one benchmark and family; parameters if none has.

    Returns
    -------
    DataFrame
        The columns named above plus ``axis`` and ``axis_value``, sorted by benchmark, family,
        axis value and model; runs without an axis value come last in their family, as missing.

    Raises
    ------
    InputError
        With no records, or one without a required value.

    Examples
    --------
    >>> run = dict(benchmark="toy", accuracy=0.5, harmony=0.9, n_clusters=4, n_items=100)
    >>> runs = [dict(run, model="b", parameters=2e9), dict(run, model="a", parameters=1e9)]
    >>> scaling_table(runs)[["model", "axis", "axis_value"]].values.tolist()
    [['a', 'parameters', 1000000000.0], ['b', 'parameters', 2000000000.0]]
    """
    if not records:
        raise InputError("records: there are no runs to compare; finish at least one audit first")
    for number, record in enumerate(records):
        lacking = [name for name in _REQUIRED if record.get(name) is None]
        if lacking:
            raise InputError(
                f"record {number} ({record.get('model', 'no model')}): lacks {', '.join(lacking)}; "
                "finish that run or leave it out"
            )
    table = pd.DataFrame(records).reindex(columns=[*_REQUIRED, *_OPTIONAL])
    table["family"] = table["family"].astype(object).where(table["family"].notna(), "unknown")
    for name in (*AXES, "p_value"):
        table[name] = table[name].astype(float)
    chosen = _first_varying(table) if axis == "auto" else axis
    if chosen not in AXES:
        raise InputError(f"axis {axis!r}: choose auto, {', '.join(AXES)}")
    table["axis"] = chosen
    table["axis_value"] = table[chosen]
    return table.sort_values(["benchmark", "family", "axis_value", "model"], ignore_index=True)


def trend(
    table: pd.DataFrame,
    *,
    outcome: Literal["accuracy", "harmony"],
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> TrendResult:
    """Correlate an outcome with the axis of a scaling table, over all its rows.

    Parameters
    ----------
    table : DataFrame
        From :func:`scaling_table`, usually the rows of one benchmark and family: mixing families
        mixes trends that may point in opposite directions.
    outcome : {"accuracy", "harmony"}
        Column to follow.
    n_bootstrap, confidence, random_state
        As in :func:`rank_correlation`.

    Returns
    -------
    TrendResult
        See :func:`rank_correlation`.

    Raises
    ------
    InputError
        For an unknown outcome.
    """
    if outcome not in OUTCOMES:
        raise InputError(f"outcome {outcome!r}: choose {' or '.join(OUTCOMES)}")
    return rank_correlation(
        table["axis_value"].to_numpy(),
        table[outcome].to_numpy(),
        n_bootstrap=n_bootstrap,
        confidence=confidence,
        random_state=random_state,
    )


def trend_table(table: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """Return the trend of each outcome in each benchmark and family.

    Parameters
    ----------
    table : DataFrame
        From :func:`scaling_table`.
    **options
        ``n_bootstrap``, ``confidence`` and ``random_state`` of :func:`rank_correlation`.

    Returns
    -------
    DataFrame
        ``benchmark``, ``family``, ``axis``, ``outcome`` and the fields of :class:`TrendResult`, in
        the table's order. Each row is tested alone: among twenty, one is significant by chance.
    """
    rows = [
        {
            "benchmark": benchmark,
            "family": family,
            "axis": group["axis"].iloc[0],
            "outcome": outcome,
            **trend(group, outcome=outcome, **options).to_dict(),
        }
        for (benchmark, family), group in table.groupby(["benchmark", "family"])
        for outcome in OUTCOMES
    ]
    return pd.DataFrame(rows)


def _first_varying(table: pd.DataFrame) -> Axis:
    groups = table.groupby(["benchmark", "family"])
    return next((name for name in AXES if (groups[name].nunique() > 1).any()), "parameters")


def _undefined(n: int, confidence: float, reason: str) -> TrendResult:
    return TrendResult(None, None, None, None, n, confidence, "cannot tell", reason)


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Pearson correlations along the last axis; NaN where one side is constant."""
    first = first - first.mean(axis=-1, keepdims=True)
    second = second - second.mean(axis=-1, keepdims=True)
    scale = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    products = (first * second).sum(axis=-1)
    return np.divide(products, scale, out=np.full(products.shape, np.nan), where=scale > 0)


def _permutation_p_value(
    first: np.ndarray, second: np.ndarray, rho: float, rng: np.random.Generator
) -> float:
    """Two-sided; exact for few points, else with the observation counted as one permutation."""
    n = len(first)
    if n <= EXACT_POINTS:
        orders = np.array(list(permutations(range(n))))
        extra = 0
    else:
        orders = rng.permuted(np.tile(np.arange(n), (N_PERMUTATIONS, 1)), axis=1)
        extra = 1
    shuffled = _correlations(first[None], second[orders])
    beyond = (np.abs(shuffled) >= abs(rho) - 1e-9).sum()
    return float((beyond + extra) / (len(orders) + extra))


def _bootstrap(
    first: np.ndarray,
    second: np.ndarray,
    n_bootstrap: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the percentile interval of the rank correlation over resampled points."""
    picks = rng.integers(len(first), size=(n_bootstrap, len(first)))
    draws = _correlations(rankdata(first[picks], axis=1), rankdata(second[picks], axis=1))
    low, high = np.nanquantile(draws, tail_shares(confidence)).tolist()
    return low, high
