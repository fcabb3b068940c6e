"""Several tests at once: over the shares of a ladder, and over benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust p-values for their number, by Holm's step-down rule.

    Parameters
    ----------
    p_values : array_like of shape (n_tests,)
        From tests that may depend on each other in any way.

    Returns
    -------
    ndarray of shape (n_tests,)
        In the order given, at most 1. Calling those up to .05 significant errs, in any of them,
        with a chance of at most .05.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def compare_benchmarks(
    ladders: Mapping[str, pd.DataFrame], *, share: float | None = None
) -> pd.DataFrame:
    """Put the ladders of several benchmarks into one table and adjust their p-values together.

    Parameters
    ----------
    ladders : mapping of str to DataFrame
        By name of the benchmark, from :func:`~harmony_utils.rebalance.ladder.prune_ladder`, of one
        model and with the same ladder of shares. One will do.
    share : float, optional
        The one share at which benchmarks are compared, chosen before looking. None takes every
        share that is there, which is more tests.

    Returns
    -------
    DataFrame
        A row for each method with a test, benchmark and share, sorted in that order: ``method``,
        ``benchmark``, ``share``, ``n_items``, ``n_left``, ``harmony_before``, ``harmony``,
        ``accuracy_before``, ``accuracy``, ``accuracy_shift``, ``p_value``, ``p_holm`` and
        ``n_tests``. ``p_holm`` is Holm's correction for the ``n_tests`` rows of that method. A
        benchmark too small for a share has no row there.

    Raises
    ------
    InputError
        Without a ladder, or if none has the share.

    Examples
    --------
    >>> from harmony_utils.rebalance import prune_ladder
    >>> ladder = prune_ladder([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], shares=[0.5], n_random=20)
    >>> compare_benchmarks({"toy": ladder})[["method", "n_items", "n_tests"]].values.tolist()
    [['cap', 6, 1], ['greedy', 6, 1]]
    """
    rows = [_tested(name, table, share) for name, table in sorted(ladders.items())]
    if not rows or not sum(map(len, rows)):
        at = "" if share is None else f" with a share of {share:g}"
        raise InputError(f"ladders: none{at}; finish the rebalancing of at least one benchmark")
    joined = pd.concat(rows, ignore_index=True)
    joined["p_holm"] = joined.groupby("method")["p_value"].transform(lambda p: holm(p.to_numpy()))
    joined["n_tests"] = joined.groupby("method")["p_value"].transform("size")
    return joined.sort_values(["method", "benchmark", "share"], ignore_index=True)


def _tested(name: str, table: pd.DataFrame, share: float | None) -> pd.DataFrame:
    """Return the rows of one ladder that hold a test, with what they started from."""
    start = table[table["share"] == 0].iloc[0]
    wanted = table["share"] > 0 if share is None else np.isclose(table["share"], share)
    rows = table[wanted & (table["share"] > 0) & table["p_value"].notna()]
    columns = ["share", "n_left", "harmony", "accuracy", "accuracy_shift", "p_value"]
    return pd.DataFrame(
        {
            "method": rows["method"],
            "benchmark": name,
            "n_items": int(start["n_left"]),
            "harmony_before": float(start["harmony"]),
            "accuracy_before": float(start["accuracy"]),
            **{column: rows[column] for column in columns},
        }
    )
