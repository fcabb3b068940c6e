"""One look for all figures.

Colours come from the palette of Okabe and Ito, which stays apart under colour blindness; markers,
line styles or hatches repeat what colour says. Figures are about as wide as a phone shows without
shrinking the letters, on an opaque light card that also stands on a dark page.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

WIDTH = 6.2
"""Width of every figure, in inches."""

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
PINK, AMBER, SKY = "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, LIGHT, CARD = "#22262B", "#6B7280", "#DADDE1", "#FCFBF8"

COLOURS = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, INK, "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
LINES = ("-", "--", "-.", ":")

STYLE = {
    "figure.dpi": 144,
    "figure.facecolor": CARD,
    "savefig.facecolor": CARD,
    "axes.facecolor": CARD,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LIGHT,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "hatch.linewidth": 0.7,
}


def new_figure(
    n_rows: int = 1, n_columns: int = 1, *, height: float, **options: Any
) -> tuple[Figure, Any]:
    """Make a figure in this style.

    Parameters
    ----------
    n_rows, n_columns : int
        Panels.
    height : float
        In inches.
    **options
        Passed to ``pyplot.subplots``, e.g. ``sharex``.

    Returns
    -------
    figure : Figure
        Closed for pyplot, so that a notebook does not show it twice.
    axes : Axes or ndarray of Axes
        As ``pyplot.subplots`` gives them.
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(n_rows, n_columns, figsize=(WIDTH, height), **options)
    plt.close(figure)
    return figure, axes


def series_style(number: int) -> dict[str, Any]:
    """Return colour, marker and line style of the series with this number, from 0."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def light_grid(axes: Axes, which: str) -> None:
    """Keep grid lines of one axis only, ``"x"`` or ``"y"``."""
    axes.grid(visible=False)
    axes.grid(visible=True, axis=which)


def title(axes: Axes, text: str) -> None:
    """Write a panel's title at its left."""
    axes.set_title(text, loc="left", fontweight="bold", fontsize=11, color=INK, pad=8)


def legend_below(figure: Figure, axes: Axes, n_columns: int = 2, **options: Any) -> None:
    """Put the legend of ``axes`` under the whole figure, where it covers no data."""
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=n_columns,
        columnspacing=1.2,
        frameon=False,
        fontsize=10,
        **options,
    )


def plain_text(text: str, limit: int = 18) -> str:
    """Make any text safe to draw.

    A space at an end becomes visible, what the font cannot draw becomes a box, a dollar sign stays
    a dollar sign, and long text is cut.
    """
    known = get_font(findfont("DejaVu Sans")).get_charmap()
    shown = text.replace("\n", "↵").replace("\t", "⇥")
    if shown.startswith(" "):
        shown = "␣" + shown[1:]
    if shown.endswith(" "):
        shown = shown[:-1] + "␣"
    shown = "".join(letter if ord(letter) in known else "□" for letter in shown)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return shown.replace("$", r"\$")


def bin_edges(values: np.ndarray, n_bins: int, *, top: float = 0.995) -> np.ndarray:
    """Return equal bins from the minimum to the ``top`` quantile; a constant gets room around."""
    low, high = float(values.min()), float(np.quantile(values, top))
    if high - low < 1e-12:
        low, high = low - 0.05, high + 0.05
    return np.linspace(low, high, n_bins + 1)
