"""Figures of filling: where candidates were aimed and where they landed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    LIGHT,
    ORANGE,
    legend_below,
    light_grid,
    new_figure,
    title,
)

if TYPE_CHECKING:
    from harmony_utils.difficulty import Target
    from harmony_utils.filling import Filling

_SHOWN = 4.0
_SEVERAL = 5


def aimed_and_measured(filling: Filling) -> tuple[Figure, str]:
    """Draw the difficulty of measured candidates against what was expected before.

    Parameters
    ----------
    filling : Filling
        From :func:`~harmony_utils.filling.fill_gaps`.

    Returns
    -------
    figure : Figure
        A dot or cross for each measured candidate, its bar one standard error; bands to be filled
        are shaded across; on the dashed line a candidate is as hard as expected. Values beyond
        plus or minus 4 stand at the edge.
    alt : str
        What is seen.
    """
    rows = [o for o in filling.outcomes if o.measured and np.isfinite(o.measured.difficulty)]
    if not rows:
        raise InputError("filling: no candidate was measured, so there is nothing to draw")
    figure, axes = new_figure(height=4.6)
    for low, high in filling.gaps:
        axes.axhspan(low, high, color=LIGHT, alpha=0.55, linewidth=0)
        axes.axhline(high, color=GREY, linewidth=0.6)
        axes.axhline(low, color=GREY, linewidth=0.6)
    groups = (("accepted", "accepted", BLUE, "o"), ("rejected", "rejected", ORANGE, "x"))
    for status, label, colour, marker in groups:
        chosen = [o for o in rows if o.status == status]
        axes.errorbar(
            np.clip([o.predicted for o in chosen], -_SHOWN, _SHOWN),
            np.clip([o.measured.difficulty for o in chosen], -_SHOWN, _SHOWN),
            yerr=[min(o.measured.difficulty_se, 1.5) for o in chosen],
            color=colour,
            marker=marker,
            linestyle="none",
            markersize=5.5,
            elinewidth=0.8,
            alpha=0.8,
            label=f"{label} ({len(chosen)})",
        )
    ends = np.array([*axes.get_xlim()])
    axes.plot(ends, ends, color=INK, linestyle="--", linewidth=1, label="as expected")
    axes.set_xlim(*ends)
    axes.set_xlabel("difficulty expected before anybody answered, logits")
    axes.set_ylabel("difficulty measured, logits")
    title(axes, "Where candidates were expected and where they landed")
    legend_below(figure, axes, n_columns=3)
    off = np.array([abs(o.measured.difficulty - o.predicted) for o in rows])
    n_accepted = sum(o.status == "accepted" for o in rows)
    alt = (
        f"Scatter of {len(rows)} candidates, measured against expected difficulty. "
        f"{n_accepted} are accepted, all inside the shaded bands from {filling.gaps[0][0]:.1f} to "
        f"{filling.gaps[-1][1]:.1f}. Measured and expected differ by {np.median(off):.1f} logits "
        "in the middle."
    )
    return figure, alt


def originals_and_additions(
    originals: np.ndarray, additions: np.ndarray, target: Target, filling: Filling
) -> tuple[Figure, str]:
    """Draw difficulties of originals and additions apart, beside what the target wants.

    Parameters
    ----------
    originals, additions : ndarray of shape (n_items,)
        Difficulties in logits.
    target : Target
        What is wanted.
    filling : Filling
        Says which bands were to be filled.

    Returns
    -------
    figure : Figure
        Originals above, additions below, with their own scales; the line is the number of
        originals that the target wants in each bin.
    alt : str
        What is seen.
    """
    figure, panels = new_figure(2, 1, height=4.4, sharex=True)
    low, high = min(target.low, -3.0), max(target.high, 3.0)
    bins = np.linspace(low, high, 25)
    wanted = np.diff(target.cdf(bins)) * len(originals)
    parts = (("originals", originals, BLUE), ("additions", additions, ORANGE))
    for axes, (name, values, colour) in zip(panels, parts, strict=True):
        for a, b in filling.gaps:
            axes.axvspan(a, b, color=LIGHT, alpha=0.55, linewidth=0)
        axes.hist(
            np.clip(values, low, high),
            bins=bins,
            color=colour,
            hatch=None if name == "originals" else "///",
            edgecolor=INK,
            linewidth=0.4,
        )
        axes.set_ylabel(name)
        light_grid(axes, "y")
    panels[0].stairs(wanted, bins, color=INK, linewidth=1.4, label="wanted by the target")
    panels[1].set_xlabel("difficulty, logits (values beyond stand at the ends)")
    title(panels[0], "Difficulties of originals and additions, kept apart")
    legend_below(figure, panels[0])
    inside = sum(int(((originals > a) & (originals < b)).sum()) for a, b in filling.gaps)
    new = sum(int(((additions > a) & (additions < b)).sum()) for a, b in filling.gaps)
    alt = (
        f"Two histograms of difficulty. Of {len(originals)} originals {inside} lie in the shaded "
        f"gap, of {len(additions)} additions {new}. The target wants an even line across its range "
        f"from {target.low:.1f} to {target.high:.1f}."
    )
    return figure, alt


def aim_by_panel(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw how often candidates truly lie in the band they were aimed at.

    Parameters
    ----------
    table : DataFrame
        Columns ``n_models``, ``how`` (name of a way to make candidates), ``hits`` (share) and
        ``n`` (candidates that it is a share of), one row for each trial.

    Returns
    -------
    figure : Figure
        A line for each way over the size of the panel, trials taken together; small marks are
        single trials of five candidates or more.
    alt : str
        What is seen.
    """
    figure, axes = new_figure(height=3.8)
    styles = ((BLUE, "o", "-"), (INK, "D", "-."), (ORANGE, "s", "--"), (GREY, "^", ":"))
    parts = []
    for (colour, marker, line), (how, rows) in zip(
        styles, table.groupby("how", sort=False), strict=False
    ):
        rows = rows.assign(inside=rows["hits"] * rows["n"])
        sums = rows.groupby("n_models")[["inside", "n"]].sum()
        means = sums["inside"] / sums["n"]
        axes.plot(
            means.index, means, color=colour, marker=marker, linestyle=line, label=how, markersize=7
        )
        several = rows[rows["n"] >= _SEVERAL]
        axes.plot(
            several["n_models"], several["hits"], color=colour, marker=marker, linestyle="none",
            markersize=3.5, alpha=0.5,
        )  # fmt: skip
        parts.append(f"{how} {means.iloc[0]:.0%} to {means.iloc[-1]:.0%}")
    sizes = sorted(table["n_models"].unique().tolist())
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set_ylim(0, 1.04)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("models in the panel")
    axes.set_ylabel("truly in the band")
    title(axes, "How often a candidate lies where it was aimed")
    legend_below(figure, axes)
    alt = (
        f"Line chart of the share of candidates truly in the band for panels of {sizes[0]} to "
        f"{sizes[-1]} models: {'; '.join(parts)}."
    )
    return figure, alt
