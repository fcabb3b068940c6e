"""One picture of the whole method, computed on a small made-up benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path

from harmony_utils.harmony import HarmonyResult, harmony, subdomain_table
from harmony_utils.partition import Partition, spectral_partition
from harmony_utils.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    LIGHT,
    MARKERS,
    STYLE,
)
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.spectral import spectral_embedding

_SIZES = (22, 13, 10, 9)
_RIGHT = (19, 9, 6, 3)
_SIZE = (7.4, 5.7)
_LEFTS, _TOPS = (0.035, 0.375, 0.715), (0.565, 0.055)
_BOX = (0.25, 0.31)
_STEPS = (
    "a question",
    "the model's answer",
    "similar answers",
    "subdomains",
    "accuracy in each",
    "is the mean typical?",
)


@dataclass(frozen=True, eq=False)
class _Example:
    affinity: np.ndarray
    partition: Partition
    embedding: np.ndarray
    table: pd.DataFrame
    result: HarmonyResult


def method_overview() -> tuple[Figure, str]:
    """Draw the way from a question to HARMONY in six panels.

    Returns
    -------
    figure : Figure
        The question and its answer are invented. Everything after them is computed by this
        package on 54 invented answer distributions around four centres.
    alt : str
        What is seen.
    """
    example = _example()
    with mpl.rc_context(STYLE | {"figure.constrained_layout.use": False, "axes.grid": False}):
        figure = plt.figure(figsize=_SIZE)
        panels = [figure.add_axes((left, bottom, *_BOX)) for bottom in _TOPS for left in _LEFTS]
        _draw_question(panels[0])
        _draw_distribution(panels[1])
        _draw_affinity(panels[2], example)
        _draw_subdomains(panels[3], example)
        _draw_accuracies(panels[4], example)
        _draw_harmony(panels[5], example)
        for number, (axes, title) in enumerate(zip(panels, _STEPS, strict=True), start=1):
            _head(figure, axes, number, title)
        _arrows(figure)
    plt.close(figure)
    result = example.result
    listed = ", ".join(
        f"{accuracy:.2f} (n = {size})"
        for accuracy, size in zip(result.accuracies, result.sizes, strict=True)
    )
    alt = (
        "Six panels joined by arrows. A question card leads to bars of the words the model would "
        f"answer with; the answers of {result.n_items} questions are compared in a heat map with "
        f"bright blocks on its diagonal; the blocks become {result.n_clusters} coloured groups of "
        f"points, the subdomains; bars show the accuracy in each, {listed}, against a dashed mean "
        f"of {result.accuracy:.2f}; the last panel sets that mean beside a HARMONY of "
        f"{result.harmony:.2f}."
    )
    return figure, alt


def _example() -> _Example:
    """Run the method on invented distributions whose four groups differ in accuracy."""
    rng = np.random.default_rng(3)
    centres = 1.25 * rng.normal(size=(len(_SIZES), 30))
    groups = np.repeat(range(len(_SIZES)), _SIZES)
    logits = centres[groups] + 1.15 * rng.normal(size=(len(groups), 30))
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    affinity, _ = affinity_from_divergence(jeffreys_divergence(log_probabilities))
    partition = spectral_partition(affinity, n_clusters=len(_SIZES), n_stability=2)
    embedding = spectral_embedding(affinity, n_components=3)[1]
    correct = np.concatenate([np.arange(n) < r for n, r in zip(_SIZES, _RIGHT, strict=True)])
    return _Example(
        affinity,
        partition,
        embedding,
        subdomain_table(correct, partition.labels),
        harmony(correct, partition.labels, n_null=100),
    )


def _head(figure: Figure, axes: Axes, number: int, title: str) -> None:
    """Write a panel's number in a disc and its title beside it."""
    box = axes.get_position()
    x, y = box.x0 + 0.012, box.y1 + 0.055
    aspect = _SIZE[0] / _SIZE[1]
    disc = mpl.patches.Ellipse(
        (x, y), 0.036, 0.036 * aspect, transform=figure.transFigure, color=INK
    )
    figure.add_artist(disc)
    figure.text(
        x,
        y - 0.001,
        str(number),
        color="white",
        ha="center",
        va="center",
        fontsize=10.5,
        fontweight="bold",
    )
    figure.text(x + 0.028, y, title, ha="left", va="center", fontsize=11, fontweight="bold")


def _bare(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_question(axes: Axes) -> None:
    _bare(axes)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for shift in (0.06, 0.03, 0):
        axes.add_patch(
            FancyBboxPatch(
                (0.03 + shift, 0.06 + shift),
                0.82,
                0.80,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor="white",
                edgecolor=GREY,
                linewidth=1,
            )
        )
    axes.text(0.10, 0.80, "Which organ\npumps blood?", va="top", fontsize=11, fontweight="bold")
    for row, (letter, word) in enumerate((("A", "lung"), ("B", "heart"), ("C", "liver"))):
        y = 0.44 - 0.145 * row
        colour = BLUE if word == "heart" else GREY
        axes.text(0.14, y, letter, va="center", ha="center", color=colour, fontweight="bold")
        axes.text(0.22, y, word, va="center", color=INK)
        if word == "heart":
            axes.text(
                0.74, y, "✓", va="center", ha="center", color=BLUE, fontweight="bold", size=13
            )


def _draw_distribution(axes: Axes) -> None:
    words = ("heart", "lung", "blood", "muscle", "liver", "…")
    shares = (0.52, 0.15, 0.11, 0.08, 0.06, 0.08)
    rows = np.arange(len(words))
    colours = [BLUE, *["#7FB3D5"] * 4, LIGHT]
    axes.barh(rows, shares, color=colours, height=0.72)
    _bare(axes)
    axes.set(xlim=(-0.27, 0.6), ylim=(len(words) - 0.4, -0.6))
    for row, word in enumerate(words):
        axes.text(-0.02, row, word, ha="right", va="center", fontsize=10.5)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.text(0.6, 5.3, "probability", ha="right", va="bottom", fontsize=10, color=GREY)


def _draw_affinity(axes: Axes, example: _Example) -> None:
    labels = example.partition.labels
    order = np.argsort(labels, kind="stable")
    matrix = example.affinity[np.ix_(order, order)]
    axes.imshow(
        matrix, cmap="cividis", vmin=np.quantile(matrix, 0.05), vmax=np.quantile(matrix, 0.93)
    )
    _bare(axes)
    start = 0
    for label, size in enumerate(example.partition.sizes):
        axes.add_patch(
            mpl.patches.Rectangle(
                (start - 0.5, start - 0.5),
                size,
                size,
                fill=False,
                linewidth=2.2,
                edgecolor=COLOURS[label],
                clip_on=False,
            )
        )
        start += size


def _draw_subdomains(axes: Axes, example: _Example) -> None:
    _bare(axes)
    for label in range(example.partition.n_clusters):
        mine = example.embedding[example.partition.labels == label]
        axes.scatter(
            mine[:, 1],
            mine[:, 2],
            s=46,
            color=COLOURS[label],
            marker=MARKERS[label],
            edgecolor="white",
            linewidth=0.7,
        )
    axes.margins(0.08)


def _draw_accuracies(axes: Axes, example: _Example) -> None:
    _bare(axes)
    table = example.table
    widths = table["size"].to_numpy() / table["size"].sum()
    gap = 0.035
    left = np.concatenate([[0], np.cumsum(widths + gap)[:-1]])
    axes.bar(left, table["accuracy"], widths, align="edge", color=COLOURS[: len(table)])
    for x, width, accuracy in zip(left, widths, table["accuracy"], strict=True):
        axes.text(
            x + width / 2,
            0.04,
            f".{100 * accuracy:.0f}",
            ha="center",
            fontsize=10.5,
            color="white",
            fontweight="bold",
        )
    end = left[-1] + widths[-1]
    mean = example.result.accuracy
    axes.plot([-0.02, end + 0.02], [mean, mean], color=INK, linestyle="--", linewidth=1.5)
    axes.text(end + 0.02, mean + 0.02, "mean", ha="right", va="bottom", fontsize=10)
    axes.plot([-0.02, end + 0.02], [0, 0], color=GREY, linewidth=0.8)
    axes.set(xlim=(-0.03, end + 0.03), ylim=(0, 1.08))


def _draw_harmony(axes: Axes, example: _Example) -> None:
    _bare(axes)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    result = example.result
    for y, name, value, colour in (
        (0.60, "accuracy", result.accuracy, GREY),
        (0.14, "HARMONY", result.harmony, INK),
    ):
        axes.text(0, y + 0.19, name, fontsize=11, va="baseline")
        axes.text(
            1,
            y + 0.19,
            f"{value:.2f}",
            fontsize=17,
            fontweight="bold",
            color=colour,
            ha="right",
            va="baseline",
        )
        for length, fill in ((1, LIGHT), (value, colour)):
            axes.add_patch(
                FancyBboxPatch(
                    (0.03, y + 0.03),
                    0.94 * length,
                    0.06,
                    facecolor=fill,
                    edgecolor="none",
                    boxstyle="round,pad=0.03,rounding_size=0.05",
                    clip_on=False,
                )
            )


def _arrows(figure: Figure) -> None:
    """Join the panels: along each row, and from the end of the first to the start of the second."""
    style = dict(transform=figure.transFigure, color=GREY, linewidth=1.8)
    for bottom in _TOPS:
        y = bottom + _BOX[1] / 2
        for left in _LEFTS[:-1]:
            start = left + _BOX[0] + 0.022
            figure.add_artist(
                FancyArrowPatch(
                    (start, y), (start + 0.05, y), arrowstyle="-|>", mutation_scale=15, **style
                )
            )
    x_end, x_start = _LEFTS[-1] + _BOX[0] / 2, _LEFTS[0] + _BOX[0] / 2
    top, middle, bottom = _TOPS[0] - 0.015, _TOPS[0] - 0.055, _TOPS[1] + _BOX[1] + 0.087
    corner = 0.018
    path = Path(
        [
            (x_end, top),
            (x_end, middle + corner),
            (x_end, middle),
            (x_end - corner, middle),
            (x_start + corner, middle),
            (x_start, middle),
            (x_start, middle - corner),
        ],
        [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO, Path.CURVE3, Path.CURVE3],
    )
    figure.add_artist(PathPatch(path, fill=False, **style))
    figure.add_artist(
        FancyArrowPatch(
            (x_start, middle - corner + 0.004),
            (x_start, bottom),
            arrowstyle="-|>",
            mutation_scale=15,
            **style,
        )
    )
