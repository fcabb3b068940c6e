"""Figures of what a model answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    bin_edges,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    series_style,
    title,
)


def answer_margins(
    margins: np.ndarray, correct: np.ndarray, *, unit: str = "nats"
) -> tuple[Figure, str]:
    """Draw how far the chosen option was ahead of the second, for right and wrong answers.

    Parameters
    ----------
    margins : ndarray of shape (n_items,)
        Best score minus second best, at least 0; NaN or infinite ones are left out.
    correct : ndarray of shape (n_items,)
        Correctness; at least 0.5 counts as right.
    unit : str
        Unit of the scores.

    Returns
    -------
    figure : Figure
        The largest half percent of the margins is added to the last bar.
    alt : str
        What is seen.
    """
    usable = np.isfinite(margins)
    values, right = np.asarray(margins)[usable], np.asarray(correct)[usable] >= 0.5
    if not values.size:
        raise InputError("margins: none is a number; score the options first")
    edges = bin_edges(values, 30)
    shown = np.minimum(values, edges[-1])
    figure, axes = new_figure(height=3.5)
    parts = []
    for name, chosen, colour, hatch in (
        ("right", right, BLUE, None),
        ("wrong", ~right, ORANGE, "////"),
    ):
        if not chosen.any():
            parts.append(f"no answer is {name}")
            continue
        median = float(np.median(values[chosen]))
        label = f"{name} (n = {chosen.sum()}, median {median:.2f})"
        axes.hist(
            shown[chosen],
            bins=edges,
            label=label,
            histtype="stepfilled",
            facecolor=(colour, 0.25),
            edgecolor=colour,
            linewidth=1.6,
            hatch=hatch,
        )
        axes.axvline(median, color=colour, linestyle="-" if hatch is None else "--")
        parts.append(f"{chosen.sum()} {name} answers have a median margin of {median:.2f} {unit}")
    axes.set(xlabel=f"margin between best and second option ({unit})", ylabel="questions")
    title(axes, "How clear was the choice?")
    light_grid(axes, "y")
    legend_below(figure, axes)
    close = float((values < edges[-1] / 10).mean())
    alt = (
        f"Two overlaid histograms of the margin between the best and the second option: "
        f"{' and '.join(parts)}. Vertical lines mark the medians; {close:.0%} of all margins are "
        f"below {edges[-1] / 10:.2f} {unit}."
    )
    return figure, alt


def option_length_effect(
    lengths: np.ndarray, choices: Mapping[str, np.ndarray]
) -> tuple[Figure, str]:
    """Draw how often the shortest … longest option is chosen.

    Parameters
    ----------
    lengths : ndarray of shape (n_items, max_options)
        Length of each option, e.g. in characters; NaN where an item has fewer options.
    choices : mapping of str to ndarray of shape (n_items,), int
        Chosen option by name of the rule, e.g. ``{"sum": …, "char": …, "correct answer": …}``; a
        negative number means none.

    Returns
    -------
    figure : Figure
        Only items with the most common number of options; of equally long options the first counts
        as shorter. If length did not matter, a rule's line would follow the correct answer's.
    alt : str
        What is seen.
    """
    counts = np.isfinite(lengths).sum(axis=1)
    n_options = int(np.bincount(counts).argmax())
    kept = counts == n_options
    lengths = np.where(np.isfinite(lengths[kept]), lengths[kept], np.inf)
    order = np.argsort(lengths, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)
    figure, axes = new_figure(height=3.5)
    positions = np.arange(n_options)
    parts = []
    for number, (name, chosen) in enumerate(choices.items()):
        picked = np.asarray(chosen)[kept]
        rows = np.flatnonzero(picked >= 0)
        share = np.bincount(ranks[rows, picked[rows]], minlength=n_options)[:n_options]
        share = share / max(len(rows), 1)
        axes.plot(
            positions, share, label=plain_text(name, 30), markersize=7, **series_style(number)
        )
        parts.append(f"{name} picks the shortest in {share[0]:.0%}, the longest in {share[-1]:.0%}")
    axes.axhline(1 / n_options, color=GREY, linewidth=1, linestyle=":", label="even share")
    middle = [f"no. {place}" for place in range(2, n_options)]
    axes.set_xticks(positions, ["shortest", *middle, "longest"])
    axes.set(ylabel="share of questions", ylim=(0, None), xlabel="options in order of length")
    title(axes, "Does the length of an option decide?")
    legend_below(figure, axes, 2)
    alt = (
        f"Line chart over the {n_options} options of {kept.sum()} questions ordered from shortest "
        f"to longest, showing how often each is chosen: {'; '.join(parts)}. A dotted line marks "
        f"the even share of {1 / n_options:.0%}."
    )
    return figure, alt


def distribution_examples(
    examples: Sequence[tuple[str, Sequence[str], Sequence[float]]],
) -> tuple[Figure, str]:
    """Draw the most probable tokens of a few answer distributions.

    Parameters
    ----------
    examples : sequence of (title, tokens, probabilities)
        Tokens from most to least probable; at most eight of each are drawn.

    Returns
    -------
    figure : Figure
        One panel per example, two in a row, all with the same scale.
    alt : str
        What is seen.
    """
    if not examples:
        raise InputError("examples: give at least one distribution to draw")
    n_columns = 1 if len(examples) in (1, 3) else 2
    n_rows = -(-len(examples) // n_columns)
    longest = max(min(len(tokens), 8) for _, tokens, _ in examples)
    figure, panels = new_figure(
        n_rows, n_columns, height=0.5 + n_rows * (0.4 + 0.24 * longest), squeeze=False, sharex=True
    )
    parts = []
    for axes, (question, tokens, probabilities) in zip(panels.flat, examples, strict=False):
        shown = [plain_text(token, 14) for token in tokens[:8]]
        rows = np.arange(len(shown))
        values = np.asarray(probabilities[:8], dtype=float)
        axes.barh(rows, values, color=BLUE, height=0.7)
        axes.set_yticks(rows, shown, family="DejaVu Sans Mono")
        axes.set_ylim(longest - 0.4, -0.6)
        short = plain_text(question, 28 if n_columns == 2 else 64)
        axes.set_title(short, loc="left", fontsize=10, color=INK)
        light_grid(axes, "x")
        axes.tick_params(axis="y", length=0)
        parts.append(f"“{question}” puts {values[0]:.0%} on “{tokens[0].strip()}”")
    for axes in panels.flat[len(examples) :]:
        axes.set_axis_off()
        panels[-2, -1].tick_params(labelbottom=True)
    for axes in panels[-1]:
        axes.set_xlabel("probability")
    alt = (
        f"Horizontal bars with the most probable tokens of {len(examples)} answer distributions: "
        f"{'; '.join(parts)}."
    )
    return figure, alt
