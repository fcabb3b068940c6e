"""Figures of accuracy per subdomain and of HARMONY."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from harmony_utils.harmony import HarmonyResult
from harmony_utils.metric import harmony_score, size_evenness
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SKY,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    title,
)


def subdomain_accuracy(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw the accuracy of each subdomain with its interval.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.harmony.subdomain_table`.

    Returns
    -------
    figure : Figure
        One row per subdomain; dots grow with size. Intervals hold for one subdomain at a time:
        among twenty, one misses by chance.
    alt : str
        What is seen.
    """
    mean = float((table["weight"] * table["accuracy"]).sum())
    rows = np.arange(len(table))
    figure, axes = new_figure(height=_rows_height(len(table)))
    axes.hlines(rows, table["low"], table["high"], color=BLUE, linewidth=3.2, alpha=0.45)
    area = 24 + 260 * table["size"] / table["size"].max()
    axes.scatter(table["accuracy"], rows, s=area, color=BLUE, edgecolor="white", zorder=3)
    axes.axvline(mean, color=ORANGE, linestyle="--")
    axes.annotate(
        f"mean {mean:.2f}",
        (mean, 1),
        (4, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=ORANGE,
        annotation_clip=False,
    )
    for row, size in zip(rows, table["size"], strict=True):
        axes.annotate(
            f"n = {size}",
            (1, row),
            (6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=GREY,
            fontsize=10,
            annotation_clip=False,
        )
    _name_rows(axes, table)
    extent = max(0, table["low"].min() - 0.05), min(1, table["high"].max() + 0.05)
    axes.set(xlabel="accuracy", xlim=extent)
    inside = int(((table["low"] <= mean) & (mean <= table["high"])).sum())
    best, worst = table.loc[table["accuracy"].idxmax()], table.loc[table["accuracy"].idxmin()]
    alt = (
        f"Dots with intervals for the accuracy of {len(table)} subdomains around the mean of "
        f"{mean:.2f}: highest is {_called(best)} with {best['accuracy']:.2f} (n = "
        f"{best['size']}), lowest is {_called(worst)} with {worst['accuracy']:.2f} (n = "
        f"{worst['size']}); {inside} of {len(table)} intervals hold the mean."
    )
    return figure, alt


def harmony_mass_bars(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw each subdomain's share of the questions beside its share of HARMONY's mass.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.harmony.subdomain_table`.

    Returns
    -------
    figure : Figure
        A subdomain far from the mean loses mass, whether it is better or worse.
    alt : str
        What is seen.
    """
    rows = np.arange(len(table))
    figure, axes = new_figure(height=_rows_height(len(table), 0.46) + 0.35)
    axes.barh(rows - 0.2, table["weight"], 0.38, color=SKY, label="share of questions")
    axes.barh(
        rows + 0.2,
        table["mass"],
        0.38,
        color=ORANGE,
        hatch="////",
        edgecolor="white",
        label="share of HARMONY's mass",
    )
    _name_rows(axes, table)
    axes.set_xlabel("share")
    legend_below(figure, axes)
    change = table["mass"] - table["weight"]
    most, least = _called(table.loc[change.idxmax()]), _called(table.loc[change.idxmin()])
    alt = (
        f"Paired bars for {len(table)} subdomains, share of questions and share of HARMONY's mass. "
        f"Most is gained by {most}, {change.max():+.2f}, and lost by {least}, "
        f"{change.min():+.2f}; the largest mass is {table['mass'].max():.2f}."
    )
    return figure, alt


def harmony_null(result: HarmonyResult) -> tuple[Figure, str]:
    """Draw HARMONY among what shuffled labels give.

    Parameters
    ----------
    result : HarmonyResult
        From :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    figure : Figure
        Bars of the null distribution, its central range shaded, the observation as a line.
    alt : str
        What is seen.
    """
    null, observed = result.null, result.harmony
    ends = np.quantile(null, [0.002, 1])
    edges = np.linspace(ends[0], max(ends[1], ends[0] + 0.005), 36)
    figure, axes = new_figure(height=3.5)
    axes.axvspan(result.null_low, result.null_high, color=BLUE, alpha=0.10, linewidth=0)
    axes.hist(
        np.maximum(null, edges[0]),
        bins=edges,
        color=(BLUE, 0.55),
        edgecolor="white",
        linewidth=0.5,
        label=f"shuffled labels ({len(null)} draws)",
    )
    axes.axvline(
        result.null_median,
        color=BLUE,
        linestyle="--",
        label=f"their median {result.null_median:.3f}",
    )
    axes.axvline(observed, color=ORANGE, linewidth=2.6, label=f"observed {observed:.3f}")
    axes.set(xlabel="HARMONY", yticks=[], ylabel="shuffles")
    title(axes, f"Less even than chance? p = {_p_text(result.p_value)}")
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    legend_below(figure, axes)
    where = (
        "below the range"
        if observed < result.null_low
        else "above the range"
        if observed > result.null_high
        else "inside the range"
    )
    alt = (
        f"Histogram of HARMONY under {len(null)} shuffles of the labels of {result.n_items} "
        f"questions in {result.n_clusters} subdomains, median {result.null_median:.3f}, central "
        f"{result.confidence:.0%} from {result.null_low:.3f} to {result.null_high:.3f}. The "
        f"observed {observed:.3f} lies {where}; p = {_p_text(result.p_value)}."
    )
    return figure, alt


def harmony_interval(result: HarmonyResult) -> tuple[Figure, str]:
    """Draw HARMONY as observed, with sampling noise taken out, and as chance alone gives it.

    Parameters
    ----------
    result : HarmonyResult
        From :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    figure : Figure
        Three rows on one axis and a line at the size part. The first row is not meant to lie
        in the middle of the second: noise mostly lowers HARMONY.
    alt : str
        What is seen.
    """
    intervals = result.intervals
    rows = (
        ("observed", result.harmony, None, INK, "D"),
        ("noise taken out", intervals.corrected, intervals.harmony, ORANGE, "o"),
        ("by chance alone", result.null_median, (result.null_low, result.null_high), BLUE, "s"),
    )
    figure, axes = new_figure(height=2.6)
    axes.axvline(
        result.size_part, color=GREY, linestyle="--", label=f"size part {result.size_part:.3f}"
    )
    for row, (_, value, ends, colour, marker) in enumerate(rows):
        if ends:
            axes.hlines(row, *ends, color=colour, linewidth=6, alpha=0.35)
        axes.plot(value, row, marker=marker, markersize=8, color=colour, linestyle="none")
        axes.annotate(
            f"{value:.3f}",
            (1, row),
            (6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=10,
            annotation_clip=False,
        )
    axes.set_yticks(range(3), [name for name, *_ in rows])
    axes.set(ylim=(2.6, -0.6), xlabel="HARMONY")
    axes.margins(x=0.08)
    axes.tick_params(axis="y", length=0)
    light_grid(axes, "x")
    legend_below(figure, axes)
    low, high = intervals.harmony
    alt = (
        f"Three rows on an axis of HARMONY: the observed {result.harmony:.3f}; with sampling noise "
        f"taken out {intervals.corrected:.3f}, {intervals.confidence:.0%} interval from {low:.3f} "
        f"to {high:.3f}; by chance alone a median of {result.null_median:.3f}, from "
        f"{result.null_low:.3f} to {result.null_high:.3f}. A line marks the size part, "
        f"{result.size_part:.3f}."
    )
    return figure, alt


def bandwidth_curve(
    weights: Sequence[float] | np.ndarray,
    accuracies: Sequence[float] | np.ndarray,
    *,
    bandwidth: float = 0.1,
) -> tuple[Figure, str]:
    """Draw HARMONY against the width of its kernel.

    Parameters
    ----------
    weights, accuracies : array_like of shape (n_clusters,)
        Sizes and accuracies of the subdomains.
    bandwidth : float
        The width in use, which is marked.

    Returns
    -------
    figure : Figure
        From 0.01 to 1 on a logarithmic axis; a line marks what sizes alone give.
    alt : str
        What is seen.
    """
    widths = np.geomspace(0.01, 1, 161)
    scores = np.array([harmony_score(weights, accuracies, bandwidth=width) for width in widths])
    limit = size_evenness(weights)
    chosen = harmony_score(weights, accuracies, bandwidth=bandwidth)
    figure, axes = new_figure(height=3.5)
    axes.plot(widths, scores, color=BLUE, label="HARMONY")
    axes.axhline(limit, color=GREY, linestyle="--", label=f"sizes alone, {limit:.2f}")
    axes.plot(
        bandwidth,
        chosen,
        marker="o",
        markersize=9,
        color=ORANGE,
        linestyle="none",
        label=f"{chosen:.2f} at {bandwidth:g}",
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.01, 0.03, 0.1, 0.3, 1]))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="bandwidth (accuracy)", ylabel="HARMONY", ylim=(-0.03, 1.05))
    title(axes, "How near counts as near?")
    legend_below(figure, axes, 3)
    alt = (
        f"HARMONY of {np.size(weights)} subdomains against the bandwidth from 0.01 to 1: "
        f"{scores[0]:.2f} at the narrow end, {scores[-1]:.2f} at the wide end, where it nears the "
        f"{limit:.2f} that sizes alone give. A dot marks {chosen:.2f} at {bandwidth:g}."
    )
    return figure, alt


def _rows_height(n_rows: int, each: float = 0.36) -> float:
    """Return a height, in inches, that keeps row labels apart for few and for many rows."""
    return 1.1 + n_rows * (each if n_rows <= 12 else min(each, 0.27) if n_rows <= 30 else 0.22)


def _name_rows(axes: Axes, table: pd.DataFrame) -> None:
    names = [plain_text(str(name), 26) for name in table["subdomain"]]
    axes.set_yticks(np.arange(len(table)), names)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    if all(name.isdigit() for name in names):
        axes.set_ylabel("subdomain")
    light_grid(axes, "x")
    axes.spines["left"].set_color(INK)


def _called(row: pd.Series) -> str:
    """Return a subdomain's name as part of a sentence."""
    name = str(row["subdomain"])
    return f"subdomain {name}" if name.isdigit() else name


def _p_text(p_value: float) -> str:
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"
