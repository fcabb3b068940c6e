"""Figures of models asked, or counted, in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.framing import Conditions, largest_step
from harmony_utils.plots.style import (
    GREY,
    INK,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    series_style,
    title,
)

_NAME = 24


def condition_scores(
    conditions: Conditions, *, heading: str, label: str = "share of right answers"
) -> tuple[Figure, str]:
    """Draw every model's score under every condition.

    Parameters
    ----------
    conditions : Conditions
        On one scale.
    heading : str
        Title.
    label : str
        Name of the scale.

    Returns
    -------
    figure : Figure
        A row for each condition, the baseline on top; a marker for each model with its interval.
    alt : str
        What is seen.

    Raises
    ------
    InputError
        If the conditions have no common scale.
    """
    if not conditions.same_scale:
        raise InputError("condition_scores: these conditions have no common scale; draw the ranks")
    names, models = conditions.conditions, conditions.models
    figure, axes = new_figure(height=1.7 + len(names) * (0.26 + 0.13 * len(models)))
    gap = 0.7 / max(len(models), 2)
    for number, model in enumerate(models):
        rows = conditions.scores[conditions.scores["model"] == model]
        places = np.arange(len(rows)) + (number - (len(models) - 1) / 2) * gap
        reach = _reach(rows["score"], rows["low"], rows["high"])
        look = series_style(number) | {"linestyle": "none"}
        axes.errorbar(
            rows["score"], places, xerr=reach, label=plain_text(model, _NAME), markersize=6, **look
        )
    axes.set_yticks(range(len(names)), [plain_text(name, _NAME) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    light_grid(axes, "x")
    title(axes, heading)
    legend_below(figure, axes)
    ranges = conditions.scores.groupby("model", sort=False)["score"].agg(["min", "max"])
    said = "; ".join(f"{m} from {low:.2f} to {high:.2f}" for m, low, high in ranges.itertuples())
    alt = (
        f"Dots with intervals, a row for each of {len(names)} conditions, "
        f"{conditions.n_items:,} questions. Scores go: {said}."
    )
    return figure, alt


def condition_ranks(conditions: Conditions, *, heading: str) -> tuple[Figure, str]:
    """Draw how ranks move from condition to condition.

    Parameters
    ----------
    conditions : Conditions
        At least two models.
    heading : str
        Title.

    Returns
    -------
    figure : Figure
        Ranks upwards, 1 on top; a line for each model over the conditions, the baseline first.
        Thin bars are what other questions would give.
    alt : str
        What is seen.

    Raises
    ------
    InputError
        If there is one model only.
    """
    names, models = conditions.conditions, conditions.models
    if len(models) < 2:
        raise InputError("condition_ranks: one model has no rank; give at least two")
    figure, axes = new_figure(height=2.6 + 0.32 * len(models))
    for number, model in enumerate(models):
        rows = conditions.scores[conditions.scores["model"] == model]
        places = np.arange(len(names)) + (number - (len(models) - 1) / 2) * 0.3 / len(models)
        look = series_style(number)
        axes.vlines(places, rows["rank_low"], rows["rank_high"], color=look["color"], linewidth=0.9)
        axes.plot(places, rows["rank"], markersize=7, label=plain_text(model, _NAME), **look)
    axes.set_xticks(range(len(names)), [plain_text(name, _NAME) for name in names])
    axes.tick_params(axis="x", rotation=35)
    for text in axes.get_xticklabels():
        text.set_horizontalalignment("right")
        text.set_rotation_mode("anchor")
    axes.set_ylim(len(models) + 0.5, 0.5)
    axes.set_yticks(range(1, len(models) + 1))
    axes.set_ylabel("rank, 1 is best")
    light_grid(axes, "y")
    title(axes, heading)
    legend_below(figure, axes)
    first = conditions.scores[conditions.scores["condition"] == conditions.baseline]
    best = first.sort_values("rank")["model"].iloc[0]
    moves = conditions.ranks.sort_values("largest_move").iloc[-1]
    supported = int(conditions.reversals["supported"].sum())
    alt = (
        f"Lines of {len(models)} models' ranks over {len(names)} conditions. {best} is first under "
        f"{conditions.baseline}. The largest move of a rank is {moves['largest_move']:.0f}, under "
        f"{moves['condition']}. {len(conditions.reversals)} pairs change their order somewhere, "
        f"{supported} of them beyond what other questions could give."
    )
    return figure, alt


def metric_steps(
    scores: Mapping[str, Sequence[float]], along: Sequence[str], *, axis: str
) -> tuple[Figure, str]:
    """Draw how several metrics rise over the same row of models, each on its own range.

    Parameters
    ----------
    scores : mapping of str to sequence of float, length n_models
        Metric -> scores in the order of ``along``.
    along : sequence of str
        Names of the models in their order.
    axis : str
        What that order is.

    Returns
    -------
    figure : Figure
        0 is a metric's lowest score among these models, 1 its highest.
    alt : str
        What is seen.

    Raises
    ------
    InputError
        If a metric is the same for all models, or one is missing.
    """
    figure, axes = new_figure(height=3.9)
    parts = []
    for number, (name, values) in enumerate(scores.items()):
        values = np.asarray(values, dtype=float)
        place, share = largest_step(values)
        if np.ptp(values) == 0:
            raise InputError(f"metric_steps: {name} is the same for all; there is no range")
        shown = (values - values.min()) / np.ptp(values)
        axes.plot(range(len(values)), shown, markersize=6, label=name, **series_style(number))
        parts.append(f"{name}: {share:.0%} of its range in the step to {along[place + 1]}")
    axes.set_xticks(range(len(along)), along)
    axes.set_xlabel(axis)
    axes.set_ylabel("share of the metric's own range")
    title(axes, "The same answers, counted in several ways")
    light_grid(axes, "y")
    legend_below(figure, axes)
    alt = (
        f"Lines of {len(scores)} metrics over {len(along)} models, each from its lowest to its "
        f"highest score. Largest steps: {'; '.join(parts)}."
    )
    return figure, alt


def position_choices(table: pd.DataFrame, *, heading: str) -> tuple[Figure, str]:
    """Draw how often each place in the list of options is chosen.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.framing.choices_by_position`, with a column ``series`` that
        names what is compared.
    heading : str
        Title.

    Returns
    -------
    figure : Figure
        A line for each series with its interval; the dashed line is how often that place holds the
        right answer, averaged over series.
    alt : str
        What is seen.
    """
    figure, axes = new_figure(height=3.7)
    series = list(dict.fromkeys(table["series"]))
    for number, name in enumerate(series):
        rows = table[table["series"] == name]
        reach = _reach(rows["chosen"], rows["chosen_low"], rows["chosen_high"])
        places = rows["position"] + (number - (len(series) - 1) / 2) * 0.06
        label = plain_text(name, 2 * _NAME)
        axes.errorbar(
            places, rows["chosen"], yerr=reach, markersize=6, label=label, **series_style(number)
        )
    right = table.groupby("position")["holds_right"].mean()
    axes.plot(right.index, right, color=GREY, linestyle=(0, (4, 3)), label="holds the right answer")
    axes.set_xticks(sorted(table["position"].unique()))
    axes.set_xlabel("place in the list, from the top")
    axes.set_ylabel("share of questions", color=INK)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter("{x:.0%}")
    title(axes, heading)
    light_grid(axes, "y")
    legend_below(figure, axes)
    peaks = table.loc[table.groupby("series", sort=False)["chosen"].idxmax()]
    said = "; ".join(
        f"{row.series} chooses place {row.position} most often, {row.chosen:.0%}"
        for row in peaks.itertuples()
    )
    alt = (
        f"Lines over the places of a list of options: {said}. The right answer stands at a place "
        f"in {right.min():.0%} to {right.max():.0%} of questions."
    )
    return figure, alt


def _reach(value: pd.Series, low: pd.Series, high: pd.Series) -> np.ndarray:
    """Return how far an interval reaches to both sides; rounding may put an end inside."""
    return np.maximum([value - low, high - value], 0)
