"""Figures of a sensitivity analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.multiverse import UNDEFINED
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    LIGHT,
    ORANGE,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    title,
)
from harmony_utils.sensitivity import value_table
from harmony_utils.specifications import CHOICE_NAMES

_VERDICTS = {
    "uneven": (ORANGE, "v", "//"),
    "not distinguishable from even": (BLUE, "o", ""),
    "cannot tell": (GREY, "s", ".."),
    UNDEFINED: (INK, "x", "xx"),
}
_ROW_HEIGHT = 0.21
_SPECIAL = {
    ("n_clusters", "0"): "chosen",
    ("neighbours", "0"): "all pairs",
}
_WRITTEN = {"temperature_factor": "{} ×", "neighbours": "{} nearest", "seed": "seed {}"}


def specification_curve(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw HARMONY of all specifications in rising order, and below it what each one chose.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.multiverse.multiverse`.

    Returns
    -------
    figure : Figure
        Above, a mark per specification, its form and colour the verdict, on the null range of its
        own subdomains; a ring marks the run's own specification. Below, a tick where a
        specification has the value of that row. Undefined ones are left out.
    alt : str
        What is seen.
    """
    shown = table[table["verdict"] != UNDEFINED].sort_values("harmony", kind="stable")
    if shown.empty:
        raise InputError("specifications: none has a HARMONY to draw")
    shown = shown.reset_index(drop=True)
    rows = [(choice, value) for choice in CHOICE_NAMES for value in _values(table, choice)]
    n_headings = len(CHOICE_NAMES)
    figure, (curve, matrix) = new_figure(
        2,
        1,
        height=3.1 + _ROW_HEIGHT * (len(rows) + n_headings),
        sharex=True,
        height_ratios=[2.4, _ROW_HEIGHT * (len(rows) + n_headings)],
    )
    x = np.arange(len(shown))
    curve.vlines(x, shown["null_low"], shown["null_high"], color=LIGHT, linewidth=1.1)
    for verdict, (colour, marker, _) in _VERDICTS.items():
        of_verdict = shown["verdict"] == verdict
        if of_verdict.any():
            curve.scatter(
                x[of_verdict],
                shown.loc[of_verdict, "harmony"],
                s=13,
                color=colour,
                marker=marker,
                linewidths=0,
                label=f"{verdict} ({of_verdict.sum()})",
                zorder=3,
            )
    own = np.flatnonzero(shown["is_default"])
    curve.scatter(
        own,
        shown["harmony"].iloc[own],
        s=130,
        facecolors="none",
        edgecolors=INK,
        linewidths=1.6,
        label="the run's own",
        zorder=4,
    )
    curve.set_ylabel("HARMONY")
    light_grid(curve, "y")
    title(curve, f"{len(shown)} specifications of the same answers")
    _choices(matrix, shown, rows)
    legend_below(figure, curve)
    return figure, _curve_alt(shown, own)


def _choices(axes: Axes, shown: pd.DataFrame, rows: list[tuple[str, object]]) -> None:
    """Draw a row of ticks per value, under a heading per choice."""
    place, ticks, names = 0, [], []
    colours = np.array([_VERDICTS[verdict][0] for verdict in shown["verdict"]])
    previous = None
    for choice, value in rows:
        if choice != previous:
            axes.text(
                0.008,
                place,
                CHOICE_NAMES[choice],
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=10,
                fontweight="bold",
            )
            place, previous = place + 1, choice
        with_value = np.flatnonzero(shown[choice] == value)
        axes.scatter(
            with_value, np.full(len(with_value), place), s=34, marker="|", linewidths=0.9,
            color=colours[with_value],
        )  # fmt: skip
        ticks.append(place)
        names.append(_written(choice, value))
        place += 1
    axes.set_yticks(ticks, names, fontsize=10)
    axes.set_ylim(place - 0.4, -0.7)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("specifications, by HARMONY")


def _curve_alt(shown: pd.DataFrame, own: np.ndarray) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in shown["verdict"].value_counts().items())
    place = (
        f" The run's own specification is number {own[0] + 1} from the left, at "
        f"{shown['harmony'].iloc[own[0]]:.2f}."
        if len(own)
        else ""
    )
    third = max(len(shown) // 3, 1)
    leanings = []
    for choice, name in CHOICE_NAMES.items():
        if shown[choice].nunique() > 1:
            shares = shown.head(third)[choice].value_counts(normalize=True)
            everywhere = (shown[choice] == shares.index[0]).mean()
            leanings.append((shares.iloc[0] - everywhere, name, _written(choice, shares.index[0])))
    lean = (
        f" The choice most over-represented in the lowest third is {max(leanings)[1]}: "
        f"{max(leanings)[2]}."
        if leanings
        else ""
    )
    return (
        f"HARMONY of {len(shown)} specifications in rising order, from "
        f"{shown['harmony'].min():.2f} to {shown['harmony'].max():.2f}: {counts}.{place} Below, "
        f"a table of ticks shows which value of each choice a specification has.{lean}"
    )


def verdicts_by_choice(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw how verdicts are shared out under each value of each choice.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.multiverse.multiverse`.

    Returns
    -------
    figure : Figure
        A bar per value, divided by verdict; a choice that matters has bars that differ.
    alt : str
        What is seen.
    """
    varying = [choice for choice in CHOICE_NAMES if table[choice].nunique() > 1]
    if not varying:
        raise InputError("specifications: no choice has more than one value")
    rows = [(choice, value) for choice in varying for value in _values(table, choice)]
    height = 1.5 + 0.24 * (len(rows) + len(varying))
    figure, axes = new_figure(height=height)
    place, ticks, names, previous = 0.0, [], [], None
    present = [verdict for verdict in _VERDICTS if (table["verdict"] == verdict).any()]
    for choice, value in rows:
        if choice != previous:
            axes.text(0.006, place, CHOICE_NAMES[choice], va="center", fontsize=10,
                      fontweight="bold")  # fmt: skip
            place, previous = place + 1, choice
        members = table[table[choice] == value]
        left = 0.0
        for verdict in present:
            colour, _, hatch = _VERDICTS[verdict]
            share = float((members["verdict"] == verdict).mean())
            axes.barh(place, share, left=left, height=0.8, color=colour, hatch=hatch,
                      edgecolor="white", linewidth=0.4,
                      label=verdict if not ticks else None)  # fmt: skip
            left += share
        ticks.append(place)
        names.append(_written(choice, value))
        place += 1
    axes.set_yticks(ticks, names, fontsize=10)
    axes.set_ylim(place - 0.4, -0.7)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("share of specifications")
    axes.tick_params(axis="y", length=0)
    light_grid(axes, "x")
    title(axes, "Verdicts under each choice")
    legend_below(figure, axes)
    return figure, _verdicts_alt(table, varying)


def _verdicts_alt(table: pd.DataFrame, varying: list[str]) -> str:
    values = value_table(table)
    verdict = table.loc[table["is_default"], "verdict"].iloc[0]
    spans = []
    for choice in varying:
        shares = values.loc[values["choice"] == choice, "share_same_verdict"]
        spans.append(f"{CHOICE_NAMES[choice]} {shares.min():.0%} to {shares.max():.0%}")
    return (
        f"Bars of verdict shares for each value of {len(varying)} choices. The share with the "
        f"run's own verdict, {verdict}, ranges by value: {'; '.join(spans)}."
    )


def _values(table: pd.DataFrame, choice: str) -> list[object]:
    """Return the values of a choice: numbers in rising order, names as they come."""
    values = list(dict.fromkeys(table[choice].tolist()))
    return values if isinstance(values[0], str) else sorted(values)


def _written(choice: str, value: object) -> str:
    text = value if isinstance(value, str) else f"{value:g}"
    return _SPECIAL.get((choice, text)) or plain_text(
        _WRITTEN.get(choice, "{}").format(text), limit=18
    )
