"""Figures of many respondents on many benchmarks."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from harmony_utils.plots.style import (
    AMBER,
    BLUE,
    CARD,
    GREY,
    INK,
    LIGHT,
    ORANGE,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    series_style,
    title,
)

_DIRECTIONS = tuple(
    math.radians(angle) for angle in (25, -25, 155, 205, 90, 270, 55, -55, 125, 235)
)
_RADII = (9, 14, 20, 28, 38, 50, 64, 80, 100)
_VARIANCES = (0, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25)
_MEANS = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1)
_NEAR = 14  # points; a label farther away gets a line
_LABEL_SIZE = 10.0


def benchmark_plane(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw every benchmark at the variance and mean of HARMONY over respondents.

    Parameters
    ----------
    table : DataFrame
        ``table`` of :func:`harmony_utils.plane.benchmark_plane`.

    Returns
    -------
    figure : Figure
        Variance to the right, mean upwards: upper left is even for all. Both axes are stretched
        towards that corner, where most benchmarks lie (square roots of distances from it). Thin
        bars are what other items would give, thick ones what leaving out one respondent gives.
        Labels are placed where they cover no point and no other label, in the order of the table.
    alt : str
        What is seen.
    """
    figure, axes = new_figure(height=6.4)
    for what, x, y in (("items", "variance", "mean"), ("loo", "variance_loo", "mean_loo")):
        style = (
            {"color": GREY, "linewidth": 0.7, "alpha": 0.5, "label": "if items are drawn again"}
            if what == "items"
            else {"color": ORANGE, "linewidth": 3.2, "alpha": 0.6,
                  "label": "if one respondent is left out"}
        )  # fmt: skip
        label = style.pop("label")
        for number, row in enumerate(table.to_dict("records")):
            shown = label if number == 0 else None
            axes.plot([row[f"{x}_low"], row[f"{x}_high"]], [row["mean"]] * 2, **style, label=shown)
            axes.plot([row["variance"]] * 2, [row[f"{y}_low"], row[f"{y}_high"]], **style)
    axes.plot(
        table["variance"], table["mean"], "o", color=BLUE, markersize=6.5, markeredgecolor=CARD,
        zorder=4, label="benchmark",
    )  # fmt: skip
    axes.set_xlabel("variance of HARMONY over respondents")
    axes.set_ylabel("mean of HARMONY over respondents")
    axes.set_xscale("function", functions=(_root, _square))
    axes.set_yscale("function", functions=(lambda y: -_root(1 - y), lambda y: 1 - _square(y)))
    top = float(table["variance_high"].max())
    axes.set_xlim(-0.0004, max(top, 1e-3) * 1.05)
    axes.set_ylim(float(table["mean_low"].min()) - 0.02, 1.0012)
    axes.set_xticks([x for x in _VARIANCES if x <= top * 1.05])
    axes.set_yticks([y for y in _MEANS if y >= axes.get_ylim()[0]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    title(axes, "Upper left: even for every respondent")
    legend_below(figure, axes, 3)
    points = table[["variance", "mean"]].to_numpy(dtype=float)
    place_labels(figure, axes, points, [plain_text(str(name), 24) for name in table["benchmark"]])
    first, last = table.iloc[0], table.iloc[-1]
    widest = table.loc[table["variance"].idxmax()]
    alt = (
        f"Scatter of {len(table)} benchmarks, variance of HARMONY over respondents against its "
        f"mean. The highest mean is {first['mean']:.2f} ({first['benchmark']}), the lowest "
        f"{last['mean']:.2f} ({last['benchmark']}); the largest variance is "
        f"{widest['variance']:.3f} ({widest['benchmark']})."
    )
    return figure, alt


def _root(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.square(values)


def place_labels(figure: Figure, axes: Axes, points: np.ndarray, texts: list[str]) -> None:
    """Write a text beside each point, so that no text covers a point or another text.

    Parameters
    ----------
    figure, axes : Figure, Axes
        With final limits.
    points : ndarray of shape (n_points, 2)
        In the units of the axes.
    texts : list of str, length n_points
        A text that finds no free place gets the one where it covers the fewest.

    Notes
    -----
    Deterministic: points in order, places from near to far, ten directions each. A line leads to
    a text that had to move away.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    centres = axes.transData.transform(points)
    frame = axes.get_window_extent(renderer)
    taken = [_box(x, y, 8 * scale, 8 * scale, 0) for x, y in centres]
    for point, centre, text in zip(points, centres, texts, strict=True):
        measured = axes.text(0, 0, text, fontsize=_LABEL_SIZE)
        extent = measured.get_window_extent(renderer)
        measured.remove()
        fewest = math.inf
        for radius, angle in product(_RADII, _DIRECTIONS):
            tried = np.array([radius * math.cos(angle), radius * math.sin(angle)])
            place = _box(*(centre + tried * scale), extent.width, 1.2 * extent.height, tried[0])
            inside = frame.contains(place.x0, place.y0) and frame.contains(place.x1, place.y1)
            covered = sum(place.overlaps(other) for other in taken) + len(taken) * (not inside)
            if covered < fewest:
                fewest, box, shift, distance = covered, place, tried, radius
            if not covered:
                break
        taken.append(box)
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2}
        axes.annotate(
            text, point, shift, textcoords="offset points", fontsize=_LABEL_SIZE, color=INK,
            ha=("left", "center", "right")[1 - _side(shift[0])], va="center", zorder=5,
            arrowprops=line if distance > _NEAR else None,
        )  # fmt: skip


def _side(shift: float) -> int:
    """Return on which side of its anchor a text lies: 1 right, -1 left, 0 centred."""
    return int(np.sign(round(shift)))


def _box(x: float, y: float, width: float, height: float, shift: float) -> Bbox:
    """Return the box of a text anchored at a place."""
    left = x - (1 - _side(shift)) / 2 * width
    return Bbox.from_bounds(left, y - height / 2, width, height)


def plane_verdicts(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw for how many respondents each benchmark is even, uneven or neither can be told.

    Parameters
    ----------
    table : DataFrame
        ``table`` of :func:`harmony_utils.plane.benchmark_plane`.

    Returns
    -------
    figure : Figure
        A bar per benchmark, in the order of the table.
    alt : str
        What is seen.
    """
    kinds = (
        ("uneven", "uneven", ORANGE, "///"),
        ("cannot_tell", "cannot tell", LIGHT, ""),
        ("even", "not distinguishable from even", BLUE, ""),
    )
    figure, axes = new_figure(height=1.4 + 0.28 * len(table))
    start = np.zeros(len(table))
    names = [plain_text(str(name), 24) for name in table["benchmark"]]
    for column, label, colour, hatch in kinds:
        axes.barh(
            names, table[column], left=start, color=colour, hatch=hatch, edgecolor=INK,
            linewidth=0.5, label=label, height=0.72,
        )  # fmt: skip
        start += table[column].to_numpy()
    axes.set_xlim(0, start.max() * 1.02)
    axes.margins(y=0.4 / len(table))
    axes.invert_yaxis()
    axes.set_xlabel("respondents")
    axes.xaxis.get_major_locator().set_params(integer=True)
    light_grid(axes, "x")
    title(axes, "Verdicts on each benchmark")
    legend_below(figure, axes, 3)
    total = table[[column for column, *_ in kinds]].sum()
    alt = (
        f"Stacked bars of verdicts for {len(table)} benchmarks. Of {int(total.sum())} verdicts "
        f"{total['uneven']} are uneven, {total['even']} not distinguishable from even, and "
        f"{total['cannot_tell']} cannot tell."
    )
    return figure, alt


def plane_means(means: pd.DataFrame) -> tuple[Figure, str]:
    """Draw the mean HARMONY of benchmarks under several conditions.

    Parameters
    ----------
    means : DataFrame
        A row per benchmark (index), a column per condition, such as partitions or sizes; NaN where
        there is none. Benchmarks are drawn in this order.

    Returns
    -------
    figure : Figure
        A line of marks per benchmark.
    alt : str
        What is seen, with the largest change.
    """
    figure, axes = new_figure(height=1.5 + 0.28 * len(means))
    places = np.arange(len(means))
    axes.hlines(places, means.min(axis=1), means.max(axis=1), color=AMBER, linewidth=1.2, zorder=1)
    for number, column in enumerate(means):
        style = {**series_style(number), "linestyle": "none"}
        size = 9.5 if number == 0 else 6  # so that a later mark on it does not hide it
        axes.plot(means[column], places, markersize=size, label=str(column), **style)
    axes.margins(y=0.8 / len(means))
    axes.set_yticks(places, [plain_text(str(name), 24) for name in means.index])
    axes.invert_yaxis()
    axes.set_xlabel("mean of HARMONY over respondents")
    title(axes, "The same answers, counted otherwise")
    legend_below(figure, axes, min(3, means.shape[1]))
    spread = means.max(axis=1) - means.min(axis=1)
    alt = (
        f"Mean HARMONY of {len(means)} benchmarks under {means.shape[1]} conditions: "
        f"{', '.join(map(str, means.columns))}. The values of one benchmark lie up to "
        f"{spread.max():.2f} apart ({spread.idxmax()}), {spread.median():.2f} in the middle."
    )
    return figure, alt
