"""The benchmark plane: mean and variance of HARMONY over respondents, benchmark by benchmark.

A benchmark with a high mean and a low variance is answered evenly by everybody who was asked; one
with a low mean or a high variance is not, or not by all. What a plane shows depends on the
respondents, on the number of questions and on the partition; bands, size-matched values and
verdicts for each pair stand beside it for that reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.harmony import HarmonyResult, harmony_against
from harmony_utils.metric import check_items, harmony_mass, harmony_of_mass, tail_shares
from harmony_utils.null import null_draws
from harmony_utils.rebalance import holm
from harmony_utils.scaling import TrendResult, rank_correlation
from harmony_utils.settings import PlaneSettings
from harmony_utils.uncertainty import corrected_harmony

COLUMNS = ("benchmark", "respondent", "key", "correct")
"""What :func:`benchmark_plane` needs of every answer, beside its label."""

VERDICTS = {
    "even": "not distinguishable from even",
    "uneven": "uneven",
    "cannot_tell": "cannot tell",
}
"""Columns with counts of verdicts, and the verdicts they count."""

_EMPTY = 1e-280  # size of a subdomain that a resample left empty: no mass, and no log of 0


@dataclass(frozen=True, eq=False)
class Plane:
    """Benchmarks by mean and variance of HARMONY over respondents.

    Parameters
    ----------
    table : DataFrame
        One row per benchmark; columns as in :func:`benchmark_plane`.
    cells : DataFrame
        One row per benchmark and respondent.
    correlation : TrendResult
        Rank correlation of mean and variance over benchmarks.
    partition : str
        Which labels were used.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    correlation: TrendResult
    partition: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; what is missing is None."""
        return {
            "partition": self.partition,
            "benchmarks": _plain(self.table),
            "cells": _plain(self.cells),
            "correlation": self.correlation.to_dict(),
        }


def benchmark_plane(answers: pd.DataFrame, settings: PlaneSettings | None = None) -> Plane:
    """Place benchmarks by how evenly their respondents answer them.

    Parameters
    ----------
    answers : DataFrame
        One row per answer: ``benchmark``, ``respondent``, ``key`` (of the item), ``correct``
        (0 to 1) and a column of labels with the name of ``settings.partition``. Labels may differ
        between respondents; those of a respondent that has none are missing, and it is left out.
    settings : PlaneSettings, optional
        Partition, bandwidth, draws, size and confidence.

    Returns
    -------
    Plane
        ``table`` has, by falling mean: ``benchmark``, ``n_items``, ``n_respondents``, ``mean`` and
        ``variance`` (unbiased) of HARMONY, with ``_low`` and ``_high`` from resampled items and
        ``_loo_low`` and ``_loo_high`` from leaving out one respondent; ``null_mean`` and
        ``null_variance``, what shuffled labels give, averaged over shuffles; ``mean_matched`` and
        ``variance_matched`` at ``n_matched`` items; counts ``even``, ``uneven`` and
        ``cannot_tell``, and ``uneven_holm``, those still uneven after Holm's correction over all
        cells.

    Raises
    ------
    InputError
        If a column is missing, respondents of a benchmark answered different items, a correctness
        is missing, or no benchmark has enough respondents with labels.

    Notes
    -----
    Mean and variance over models: Uzunoglu, Li & Khashabi, arXiv 2509.25671. All else is ours.
    One resample of items serves all respondents of a benchmark, since they answered the same ones;
    labels are kept. A resample holds noise twice, so HARMONY in it lies too low: the band is the
    quantiles of the resamples moved by the distance of their mean from the observed value.

    Examples
    --------
    Equal subdomains answered alike by all: mean 1, variance 0.

    >>> rows = [("b", r, i, i // 2 % 2, i % 2) for r in "xyz" for i in range(40)]
    >>> answers = pd.DataFrame(rows, columns=[*COLUMNS, "shared"])
    >>> plane = benchmark_plane(answers, PlaneSettings(n_null=100, n_bootstrap=100))
    >>> plane.table[["mean", "variance"]].round(6).values.tolist()
    [[1.0, 0.0]]
    """
    settings = settings or PlaneSettings()
    _check(answers, settings.partition)
    labelled = answers.dropna(subset=[settings.partition])
    cells, rows = [], []
    n_cells = len(labelled[["benchmark", "respondent"]].drop_duplicates())
    # a p-value cannot be smaller than one over the draws, and Holm multiplies it by the cells
    n_null = max(settings.n_null, math.ceil(2 * n_cells / (1 - settings.confidence)))
    settings = settings.model_copy(update={"n_null": n_null})
    for name, group in labelled.groupby("benchmark", sort=True):
        if group["respondent"].nunique() < settings.min_respondents:
            continue
        correct, labels, respondents = _matrices(str(name), group, settings.partition)
        results = [_measure(*pair, settings) for pair in zip(correct, labels, strict=True)]
        found = pd.DataFrame(
            {"benchmark": name, "respondent": who, **_cell(result, own, settings)}
            for who, result, own in zip(respondents, results, correct, strict=True)
        )
        nulls = np.array([result.null for result in results])
        cells.append(found)
        rows.append(
            {
                "benchmark": name,
                **_place(found["harmony"].to_numpy(), correct, labels, settings),
                "null_mean": float(nulls.mean()),
                "null_variance": float(_variance(nulls).mean()),
                **{column: int((found["verdict"] == v).sum()) for column, v in VERDICTS.items()},
            }
        )
    if not rows:
        raise InputError(
            f"plane: no benchmark has {settings.min_respondents} respondents with labels "
            f"{settings.partition!r}; choose another partition or give more runs"
        )
    all_cells = pd.concat(cells, ignore_index=True)
    all_cells["p_holm"] = holm(all_cells["p_value"].to_numpy())
    table = pd.DataFrame(rows)
    surely = all_cells[all_cells["p_holm"] <= 1 - settings.confidence].groupby("benchmark").size()
    table["uneven_holm"] = table["benchmark"].map(surely).fillna(0).astype(int)
    table = table.sort_values(["mean", "benchmark"], ascending=[False, True], ignore_index=True)
    trend = rank_correlation(
        table["mean"],
        table["variance"],
        n_bootstrap=settings.n_bootstrap,
        confidence=settings.confidence,
        random_state=settings.random_state,
    )
    return Plane(table, all_cells, trend, settings.partition)


def split_distances(table: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Compare how far two samples of one benchmark lie apart with how far benchmarks do.

    Parameters
    ----------
    table : DataFrame
        ``table`` of :func:`benchmark_plane`.
    pairs : sequence of (str, str)
        Benchmarks that are splits of one dataset; see
        :func:`harmony_utils.stages.panel.split_pairs`. Pairs that are not both in the table, at
        the common number of items, are left out.

    Returns
    -------
    DataFrame
        A row per pair and coordinate: ``benchmark``, ``other``, ``what`` (``mean`` or
        ``variance``, both at the common number of items), the values ``here`` and ``there``,
        ``distance``, and ``closer``, the share of all pairs of different datasets that lie closer
        together; ties count half. Near 0 the coordinate belongs to the benchmark; around 0.5 two
        samples of one benchmark are no more alike than two benchmarks. NaN if no other pair is
        there.

    Examples
    --------
    >>> table = pd.DataFrame({"benchmark": ["a", "a_test", "b"], "mean_matched": [0.9, 0.88, 0.5],
    ...                       "variance_matched": [0.1, 0.3, 0.1]})
    >>> split_distances(table, [("a", "a_test")])[["what", "distance", "closer"]].round(2).to_dict()
    {'what': {0: 'mean', 1: 'variance'}, 'distance': {0: 0.02, 1: 0.2}, 'closer': {0: 0.0, 1: 0.75}}
    """
    rows = []
    for what in ("mean", "variance"):
        values = table.set_index("benchmark")[f"{what}_matched"].dropna()
        there = [pair for pair in pairs if set(pair) <= set(values.index)]
        same = {frozenset(pair) for pair in there}
        others = [pair for pair in combinations(values.index, 2) if frozenset(pair) not in same]
        apart = np.array([abs(values[one] - values[other]) for one, other in others])
        for one, other in there:
            distance = abs(values[one] - values[other])
            closer = np.mean((apart < distance) + 0.5 * (apart == distance)) if others else np.nan
            rows.append((one, other, what, values[one], values[other], distance, closer))
    columns = ["benchmark", "other", "what", "here", "there", "distance", "closer"]
    return pd.DataFrame(rows, columns=columns)


def resampled_harmony(
    correct: np.ndarray, labels: np.ndarray, counts: np.ndarray, *, bandwidth: float
) -> np.ndarray:
    """Return HARMONY of one respondent when items are drawn again.

    Parameters
    ----------
    correct : ndarray of shape (n_items,)
        Between 0 and 1.
    labels : ndarray of shape (n_items,), int
        Subdomains, counted from 0, at least two.
    counts : ndarray of shape (n_draws, n_items)
        How often each item is in a draw; each draw has at least one.
    bandwidth : float
        Width of the kernel, in accuracy.

    Returns
    -------
    ndarray of shape (n_draws,)
        Relative to the number of subdomains of all items: one that a draw leaves empty holds no
        mass, it does not vanish from the maximum.

    Examples
    --------
    >>> ones = np.ones((1, 4))
    >>> resampled_harmony(np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1]), ones, bandwidth=0.1)
    array([1.])
    """
    member = np.eye(int(labels.max()) + 1)[labels]
    sizes = counts @ member
    right = counts @ (member * np.asarray(correct, dtype=float)[:, None])
    filled = np.maximum(sizes, _EMPTY)
    accuracies = np.where(sizes > 0, np.clip(right / np.maximum(sizes, 1), 0, 1), 0.0)
    return harmony_of_mass(harmony_mass(filled, accuracies, bandwidth=bandwidth))


def _check(answers: pd.DataFrame, partition: str) -> None:
    for name in (*COLUMNS, partition):
        if name not in answers.columns:
            there = sorted(set(answers.columns) - set(COLUMNS))
            raise InputError(f"plane: no column {name!r}; beside the answers there are {there}")
    repeated = answers.duplicated(["benchmark", "respondent", "key"])
    if repeated.any():
        row = answers[repeated].iloc[0]
        raise InputError(
            f"plane: {row['respondent']} on {row['benchmark']} answers item {row['key']} twice; "
            "give each run once"
        )


def _matrices(
    name: str, group: pd.DataFrame, partition: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return correctness and labels, shape (n_respondents, n_items), and the respondents."""
    correct = group.pivot(index="respondent", columns="key", values="correct")
    if correct.isna().any(axis=None):
        who = correct.index[correct.isna().any(axis=1)][0]
        raise InputError(
            f"plane: {who} has no answer to {int(correct.loc[who].isna().sum())} of "
            f"{correct.shape[1]} items of {name} that others answered; give runs on the same items"
        )
    labels = group.pivot(index="respondent", columns="key", values=partition)
    codes = np.array([pd.factorize(row, sort=True)[0] for row in labels.to_numpy()])
    return correct.to_numpy(dtype=float), codes, [str(who) for who in correct.index]


def _measure(correct: np.ndarray, labels: np.ndarray, settings: PlaneSettings) -> HarmonyResult:
    """Return HARMONY of one respondent on one benchmark against its null distribution."""
    scores, codes, names = check_items(correct, labels)
    options = {"bandwidth": settings.bandwidth}
    null = null_draws(
        scores,
        np.bincount(codes),
        n_null=settings.n_null,
        random_state=settings.random_state,
        **options,
    )
    return harmony_against(null, scores, codes, names, confidence=settings.confidence, **options)


def _cell(result: HarmonyResult, correct: np.ndarray, settings: PlaneSettings) -> dict[str, Any]:
    """Return what is kept of one respondent on one benchmark."""
    corrected = corrected_harmony(
        np.array(result.sizes),
        np.array(result.accuracies),
        variance=correct.var(),
        bandwidth=settings.bandwidth,
    )
    same = ("n_items", "n_clusters", "accuracy", "harmony")
    rest = ("null_low", "null_median", "null_high", "p_value", "verdict")
    return {
        **{name: getattr(result, name) for name in same},
        "corrected": float(corrected),
        **{name: getattr(result, name) for name in rest},
    }


def _place(
    observed: np.ndarray, correct: np.ndarray, labels: np.ndarray, settings: PlaneSettings
) -> dict[str, Any]:
    """Return one benchmark's place in the plane, with its bands."""
    n_items = correct.shape[1]
    rng = np.random.default_rng(settings.random_state)
    drawn = rng.multinomial(n_items, np.full(n_items, 1 / n_items), size=settings.n_bootstrap)
    again = _all_resampled(correct, labels, drawn, settings.bandwidth)
    ends = tail_shares(settings.confidence)
    left_out = np.array([np.delete(observed, i) for i in range(len(observed))])
    place: dict[str, Any] = {"n_items": n_items, "n_respondents": len(observed)}
    for what, function in (("mean", np.mean), ("variance", _variance)):
        value, draws = float(function(observed)), function(again, axis=0)
        low, high = value + np.quantile(draws, ends) - draws.mean()
        others = function(left_out, axis=1)
        place[what] = value
        place[f"{what}_low"] = min(max(float(low), 0), value)
        place[f"{what}_high"] = max(min(float(high), 1), value)
        place[f"{what}_loo_low"] = min(float(others.min()), value)
        place[f"{what}_loo_high"] = max(float(others.max()), value)
    return place | _matched(correct, labels, settings, rng)


def _matched(
    correct: np.ndarray, labels: np.ndarray, settings: PlaneSettings, rng: np.random.Generator
) -> dict[str, Any]:
    """Return mean and variance at the common number of items, averaged over draws of them."""
    n_items, n_matched = correct.shape[1], settings.n_matched
    if n_matched > n_items:
        return {"n_matched": n_matched, "mean_matched": np.nan, "variance_matched": np.nan}
    order = rng.random((settings.n_matched_draws, n_items)).argsort(axis=1)
    drawn = (order < n_matched).astype(float)
    values = _all_resampled(correct, labels, drawn, settings.bandwidth)
    return {
        "n_matched": n_matched,
        "mean_matched": float(values.mean()),
        "variance_matched": float(_variance(values).mean()),
    }


def _all_resampled(
    correct: np.ndarray, labels: np.ndarray, counts: np.ndarray, bandwidth: float
) -> np.ndarray:
    """Return HARMONY, shape (n_respondents, n_draws), every respondent on the same draws."""
    pairs = zip(correct, labels, strict=True)
    return np.array([resampled_harmony(*pair, counts, bandwidth=bandwidth) for pair in pairs])


def _variance(values: np.ndarray, axis: int = 0) -> np.ndarray:
    return np.var(values, axis=axis, ddof=1)


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.astype(object).where(table.notna(), None).to_dict("records")
