"""Trends: rank correlation against scipy, and the cases in which nothing can be said."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from harmony_utils.errors import InputError
from harmony_utils.scaling import rank_correlation, scaling_table, trend, trend_table


def run(model, **changes):
    fixed = {"benchmark": "toy", "accuracy": 0.5, "harmony": 0.9, "n_clusters": 4, "n_items": 100}
    return {"model": model, **fixed, **changes}


def family(name, sizes, harmonies):
    return [
        run(f"{name}-{size}", family=name, parameters=size, accuracy=0.1 * i, harmony=value)
        for i, (size, value) in enumerate(zip(sizes, harmonies, strict=True))
    ]


@pytest.mark.parametrize("n", [5, 8, 12, 30])
def test_equals_scipy_with_ties(n):
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, 6, n), rng.normal(size=n)
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(spearmanr(x, y).statistic)
    assert found.low <= found.rho <= found.high
    assert found.n == n


def test_exact_p_value_by_hand():
    # one of 24 orders is as rising and one as falling as perfect order
    found = rank_correlation([1, 2, 3, 4], [10, 20, 30, 40])
    assert found.rho == pytest.approx(1)
    assert found.p_value == pytest.approx(2 / 24)
    assert found.verdict == "cannot tell"
    assert "4 points" in found.reason


def test_verdicts():
    assert rank_correlation(range(5), [1, 2, 3, 4, 5]).verdict == "rising"
    assert rank_correlation(range(9), range(9, 0, -1)).verdict == "falling"
    assert rank_correlation(range(6), [1, 5, 2, 6, 3, 4]).verdict == "no clear trend"
    assert rank_correlation(range(4), range(4), confidence=0.9).verdict == "rising"


@pytest.mark.parametrize(
    ("x", "y", "n"),
    [
        ([], [], 0),
        ([1], [1], 1),
        ([1, 2], [1, 2], 2),
        ([1, 2, math.nan], [1, 2, 3], 2),
        ([1, 1, 1, 1], [1, 2, 3, 4], 4),
        ([1, 2, 3, 4], [5, 5, 5, 5], 4),
    ],
)
def test_cannot_tell_is_an_answer_not_nan(x, y, n):
    found = rank_correlation(x, y)
    assert found.cannot_tell
    assert found.reason
    assert (found.rho, found.low, found.high, found.p_value, found.n) == (None,) * 4 + (n,)
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == "cannot tell"


def test_p_values_are_uniform_without_a_trend():
    rng = np.random.default_rng(0)
    draws = [
        rank_correlation(range(6), rng.normal(size=6), n_bootstrap=100).p_value for _ in range(300)
    ]
    assert abs(np.mean(np.array(draws) <= 0.05) - 0.05) < 0.04
    assert abs(np.mean(draws) - 0.5) < 0.06


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=7))
def test_depends_on_order_alone_and_is_symmetric(points):
    x, y = np.array(points, dtype=float).T
    found = rank_correlation(x, y, n_bootstrap=100)
    stretched = rank_correlation(np.exp(x), y, n_bootstrap=100)
    assert found == stretched
    swapped = rank_correlation(y, x, n_bootstrap=100)
    assert swapped.p_value == found.p_value
    if found.rho is not None:
        assert -1 - 1e-9 <= found.rho <= 1 + 1e-9


def test_same_seed_same_interval():
    x, y = range(12), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    assert rank_correlation(x, y) == rank_correlation(x, y)
    assert rank_correlation(x, y) != rank_correlation(x, y, random_state=1)


def test_refuses_different_lengths():
    with pytest.raises(InputError, match="as many"):
        rank_correlation([1, 2, 3], [1, 2])


def test_table_sorts_and_keeps_missing_values_missing():
    table = scaling_table([run("c"), run("b", parameters=2e9), run("a", parameters=3e9)])
    assert table["model"].tolist() == ["b", "a", "c"]
    assert table["axis"].unique().tolist() == ["parameters"]
    assert math.isnan(table.loc[2, "axis_value"])
    assert table["family"].unique().tolist() == ["unknown"]
    assert table["p_value"].isna().all()


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([run("a", tokens=1e9), run("b", tokens=2e9)], "tokens"),
        ([run("a", layer=4), run("a", layer=8)], "layer"),
        ([run("a", tokens=1e9, parameters=1), run("b", tokens=1e9, parameters=2)], "parameters"),
        ([run("a")], "parameters"),
    ],
)
def test_axis_is_what_varies(records, expected):
    assert scaling_table(records)["axis"].unique().tolist() == [expected]


def test_refuses_records():
    with pytest.raises(InputError, match="no runs"):
        scaling_table([])
    with pytest.raises(InputError, match=r"record 1 \(b\): lacks harmony"):
        scaling_table([run("a"), run("b", harmony=None)])
    with pytest.raises(InputError, match="axis 'depth'"):
        scaling_table([run("a")], axis="depth")


def test_trends_are_per_family():
    sizes = [1e9, 2e9, 4e9, 8e9, 16e9]
    records = family("up", sizes, [0.5, 0.6, 0.7, 0.8, 0.9])
    records += family("down", sizes, [0.9, 0.8, 0.7, 0.6, 0.5])
    table = scaling_table(records)
    trends = trend_table(table, n_bootstrap=100).set_index(["family", "outcome"])["verdict"]
    assert trends["up", "harmony"] == "rising"
    assert trends["down", "harmony"] == "falling"
    assert trends["down", "accuracy"] == "rising"
    mixed = trend(table, outcome="harmony", n_bootstrap=100)
    assert mixed.verdict == "no clear trend"


def test_trend_refuses_other_columns():
    with pytest.raises(InputError, match="outcome"):
        trend(pd.DataFrame(), outcome="n_items")
