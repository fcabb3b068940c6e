"""Figures that follow results along a ladder or a scale."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harmony_utils.errors import InputError
from harmony_utils.plots.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    legend_below,
    new_figure,
    plain_text,
    series_style,
    title,
)

SIGNIFICANT = 0.05
"""Steps of the ladder with a p-value up to this are ringed."""

_PANELS = (("accuracy", "accuracy"), ("harmony", "HARMONY"))
_AXIS_NAMES = {
    "parameters": "model parameters",
    "tokens": "pretraining tokens",
    "layer": "exit layer",
}


def pruning_ladder(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw HARMONY and accuracy while questions are pruned.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.rebalance.ladder.prune_ladder`.

    Returns
    -------
    figure : Figure
        HARMONY above, accuracy below; a line for each method, with a band over draws where there
        are any (none for ``greedy``, whose band lies on that of ``cap``). Rings mark steps at which
        a method shifts accuracy more than chance.
    alt : str
        What is seen.
    """
    figure, panels = new_figure(2, 1, height=5.6, sharex=True)
    methods = {
        "cap": ("largest subdomains capped", BLUE, "o", "-"),
        "greedy": ("greedy for HARMONY", GREEN, "^", "-."),
        "near-duplicate": ("near-duplicates", INK, "D", ":"),
        "random": ("as many at random", ORANGE, "s", "--"),
    }
    methods = {name: look for name, look in methods.items() if name in set(table["method"])}
    for axes, (column, name) in zip(panels, reversed(_PANELS), strict=True):
        for method, (label, colour, marker, line) in methods.items():
            rows = table[table["method"] == method]
            if method in ("cap", "random"):
                axes.fill_between(
                    rows["share"],
                    rows[f"{column}_lo"],
                    rows[f"{column}_hi"],
                    color=colour,
                    alpha=0.15,
                    linewidth=0,
                )
            axes.plot(
                rows["share"],
                rows[column],
                color=colour,
                marker=marker,
                linestyle=line,
                markersize=5.5,
                label=label,
            )
        axes.set_ylabel(name)
    capped, tested = table[table["method"] == "cap"], table[table["p_value"].notna()]
    ringed = table[table["p_value"] <= SIGNIFICANT]
    panels[1].plot(
        ringed["share"],
        ringed["accuracy"],
        marker="o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor=INK,
        linestyle="none",
        label=f"shift has p ≤ {SIGNIFICANT}",
    )
    title(panels[0], "What removing questions changes")
    panels[1].set_xlabel("share of questions removed")
    panels[1].xaxis.set_major_formatter("{x:.0%}")
    legend_below(figure, panels[1])
    start, end = capped.iloc[0], capped.iloc[-1]
    control = table[table["method"] == "random"].iloc[-1]
    others = "".join(
        f"{methods[row.method][0]} to {row.harmony:.2f} and {row.accuracy:.3f}; "
        for row in table.groupby("method").tail(1).itertuples()
        if row.method in ("greedy", "near-duplicate")
    )
    alt = (
        f"Two line charts against the share of questions removed, up to {end['share']:.0%}. "
        f"Capping the largest subdomains takes HARMONY from {start['harmony']:.2f} to "
        f"{end['harmony']:.2f}, random removal to {control['harmony']:.2f}; accuracy goes from "
        f"{start['accuracy']:.3f} to {end['accuracy']:.3f} and {control['accuracy']:.3f}; "
        f"{others}"
        f"{len(ringed)} of {(tested['share'] > 0).sum()} steps shift accuracy significantly."
    )
    return figure, alt


def scaling_trend(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw accuracy and HARMONY against what grows.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.scaling.scaling_table`.

    Returns
    -------
    figure : Figure
        Accuracy above, HARMONY below; a line per benchmark and family. Parameters and tokens are
        on a logarithmic axis. Runs whose axis value is missing are left out.
    alt : str
        What is seen.
    """
    axis = table["axis"].iloc[0]
    shown = table.dropna(subset=["axis_value"])
    if shown.empty:
        raise InputError(f"scaling table: no run has a value for {axis}; choose another axis")
    figure, panels = new_figure(2, 1, height=5.2, sharex=True)
    several = shown["benchmark"].nunique() > 1
    parts = []
    for number, ((benchmark, family), rows) in enumerate(shown.groupby(["benchmark", "family"])):
        label = f"{family}, {benchmark}" if several else family
        for axes, (column, _) in zip(panels, _PANELS, strict=True):
            axes.plot(
                rows["axis_value"],
                rows[column],
                markersize=6.5,
                label=plain_text(label, 34),
                **series_style(number),
            )
        first, last = rows.iloc[0], rows.iloc[-1]
        start = f"accuracy {first['accuracy']:.2f} and HARMONY {first['harmony']:.2f}"
        parts.append(
            f"{label} ({len(rows)} runs) goes from {start} to {last['accuracy']:.2f} and "
            f"{last['harmony']:.2f}"
            if len(rows) > 1
            else f"{label} has a single run, with {start}"
        )
    for axes, (_, name) in zip(panels, _PANELS, strict=True):
        axes.set_ylabel(name)
        axes.margins(y=0.12)
    if axis != "layer":
        panels[1].set_xscale("log")
        _plain_log_ticks(panels[1])
    panels[1].set_xlabel(_AXIS_NAMES[axis])
    benchmark = "" if several else f" on {plain_text(str(shown['benchmark'].iloc[0]), 30)}"
    title(panels[0], f"Accuracy and HARMONY{benchmark}")
    legend_below(figure, panels[1])
    alt = f"Two line charts against {_AXIS_NAMES[axis]}: {'; '.join(parts)}."
    return figure, alt


def count_text(value: float) -> str:
    """Write a count short: ``135M``, ``1.7B``, ``3T``.

    Examples
    --------
    >>> count_text(1.35e8), count_text(1.7e9), count_text(500)
    ('135M', '1.7B', '500')
    """
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _plain_log_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 3)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
