"""Figures of difficulty: curves, information, persons and items, bands, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.plots.style import (
    AMBER,
    BLUE,
    GREEN,
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

if TYPE_CHECKING:
    from harmony_utils.difficulty import DifficultyFit, DifficultyPosterior, Gap, Target

_SHOWN = 4.0


def item_curves(fit: DifficultyFit, items: Sequence[str]) -> tuple[Figure, str]:
    """Draw the chance of a right answer along ability for some items.

    Parameters
    ----------
    fit : DifficultyFit
        Curves.
    items : sequence of str
        Names, at most eight.

    Returns
    -------
    figure : Figure
        One curve an item, a marker at its difficulty, ticks below at the models' abilities.
    alt : str
        What is seen.
    """
    unknown = [name for name in items if name not in fit.items]
    if unknown or not 1 <= len(items) <= 8:
        raise InputError(f"items {unknown or list(items)}: name one to eight of the fitted items")
    figure, axes = new_figure(height=3.8)
    grid = np.linspace(-_SHOWN, _SHOWN, 121)
    curves, parts = fit.probabilities(grid), []
    for number, name in enumerate(items):
        place = fit.items.index(name)
        style = series_style(number)
        label = f"{plain_text(name, 22)}, slope {fit.slope[place]:.1f}"
        axes.plot(grid, curves[:, place], label=label, markevery=[], **style)
        where = float(fit.difficulty[place])
        if abs(where) <= _SHOWN:
            height = float(fit.probabilities(np.array([where]))[0, place])
            marker = {key: style[key] for key in ("color", "marker")}
            axes.plot([where], [height], linestyle="none", markersize=8, **marker)
        parts.append(f"{name} {where:.1f} with slope {fit.slope[place]:.1f}")
    axes.plot(fit.ability, np.full(len(fit.ability), -0.03), "|", color=INK, markersize=9)
    axes.set_xlabel("ability, in standard deviations of the models")
    axes.set_ylabel("chance of a right answer")
    title(axes, "How the chance of a right answer rises with ability")
    legend_below(figure, axes)
    alt = (
        f"Curves of {len(items)} items against ability; the marker is at the difficulty: "
        f"{'; '.join(parts)}. Ticks at the bottom are the {len(fit.models)} models."
    )
    return figure, alt


def information_curve(table: pd.DataFrame, target: Target) -> tuple[Figure, str]:
    """Draw the information of all items along ability, against that of the target.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.difficulty.weighing.information_table`.
    target : Target
        What is wanted; its range is shaded.

    Returns
    -------
    figure : Figure
        Information above, the effective number of items below; blind stretches are hatched.
    alt : str
        What is seen.
    """
    figure, panels = new_figure(2, 1, height=4.8, sharex=True)
    ability = table["ability"].to_numpy()
    top, bottom = panels
    top.plot(ability, table["information"], color=BLUE, label="this benchmark")
    top.plot(ability, table["wanted"], color=ORANGE, linestyle="--", label="spread as the target")
    blind = (table["blind"] & table["inside"]).to_numpy()
    bottom.plot(ability, table["effective_items"], color=GREEN, linestyle="-.")
    for axes in panels:
        axes.axvspan(target.low, target.high, color=LIGHT, alpha=0.5, linewidth=0)
        ends = axes.get_ylim()
        axes.fill_between(ability, *ends, where=blind, facecolor=AMBER, hatch="//", alpha=0.35)
        axes.set_ylim(ends)
    top.set_ylabel("information")
    bottom.set_ylabel("effective items")
    bottom.set_xlabel("ability; grey: wanted range" + ", hatched: blind" * bool(blind.any()))
    title(top, "Where the score tells models apart")
    legend_below(figure, top)
    best = table.loc[table["information"].idxmax()]
    share = blind.sum() / max(int(table["inside"].sum()), 1)
    alt = (
        f"Two line charts along ability. Information is highest at {best['ability']:.1f} with "
        f"{best['information']:.0f}; items spread as the target would give at most "
        f"{table['wanted'].max():.0f}. Between {target.low:.1f} and {target.high:.1f} the score is "
        f"blind in {share:.0%} of the range."
    )
    return figure, alt


def wright_map(fit: DifficultyFit, posterior: DifficultyPosterior) -> tuple[Figure, str]:
    """Draw models and items on one scale (a Wright map).

    Parameters
    ----------
    fit : DifficultyFit
        Abilities.
    posterior : DifficultyPosterior
        Difficulties of the usable items; their distribution is drawn from plausible values.

    Returns
    -------
    figure : Figure
        Models as points with intervals at the left, items as a histogram at the right; up is abler
        and harder.
    alt : str
        What is seen.
    """
    figure, (left, right) = new_figure(1, 2, height=4.6, sharey=True)
    order = np.argsort(fit.ability, kind="stable")
    across = np.linspace(0.1, 0.9, len(order)) if len(order) > 1 else np.array([0.5])
    left.errorbar(
        across,
        fit.ability[order],
        yerr=1.96 * fit.ability_se[order],
        fmt="o",
        color=BLUE,
        markersize=5,
        linewidth=1.2,
    )
    for rank, side in ((0, "left"), (-1, "right")):
        model = order[rank]
        edge = fit.ability[model] + (1.96 if rank else -1.96) * fit.ability_se[model]
        left.annotate(
            plain_text(fit.models[model], 16),
            (across[rank], np.clip(edge, -4.2, 4.2)),
            (0, 5 if rank else -14),
            textcoords="offset points",
            ha=side,
        )
    left.set_xlim(-0.1, 1.1)
    left.set_xticks([])
    left.set_ylabel("ability and difficulty")
    values = posterior.plausible(20).ravel()
    bins = np.arange(-6, 6.01, 0.25)
    weights = np.full(len(values), 1 / 20)
    right.hist(
        values, bins=bins, weights=weights, orientation="horizontal", color=ORANGE, alpha=0.75
    )
    right.set_xlabel("items")
    right.set_ylim(-4.5, 4.5)
    title(left, "Models")
    title(right, "Items")
    light_grid(left, "y")
    light_grid(right, "y")
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    alt = (
        f"Two panels on one scale. {len(order)} models lie between {fit.ability.min():.1f} "
        f"({fit.models[order[0]]}) and {fit.ability.max():.1f} ({fit.models[order[-1]]}); of "
        f"{len(posterior.places)} items the middle eight tenths lie between {low:.1f} and "
        f"{high:.1f}, half of them above {middle:.1f}."
    )
    return figure, alt


def band_shares(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw what each band of difficulty has, ought to have, and weighs.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.difficulty.weighing.band_table`.

    Returns
    -------
    figure : Figure
        Four marks a band: share of items, share of the target, both effective shares.
    alt : str
        What is seen.
    """
    figure, axes = new_figure(height=0.42 * len(table) + 1.9)
    names = [_band_name(row) for row in table.itertuples()]
    places = np.arange(len(table))
    series = (
        ("nominal", "of items", BLUE, "o"),
        ("target", "wanted", INK, "X"),
        ("response", "of the response to a gain", ORANGE, "s"),
        ("variance", "of what separates these models", GREEN, "^"),
    )
    for number, (column, label, colour, marker) in enumerate(series):
        height = places + (number - 1.5) * 0.16
        axes.hlines(height, 0, table[column], color=colour, linewidth=1.2, alpha=0.6)
        axes.plot(
            table[column], height, marker, color=colour, markersize=6, linestyle="none", label=label
        )
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel("share")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_ylabel("difficulty")
    light_grid(axes, "x")
    title(axes, "Which difficulties the score weighs")
    legend_below(figure, axes)
    heaviest = table.loc[table["nominal"].idxmax()]
    heard = table.loc[table["response"].idxmax()]
    alt = (
        f"Dots for {len(table)} bands of difficulty. Most items, {heaviest['nominal']:.0%}, are in "
        f"{_band_name(heaviest)}, where {heaviest['target']:.0%} are wanted; the score responds "
        f"most, with {heard['response']:.0%}, through {_band_name(heard)}."
    )
    return figure, alt


def gap_chart(
    posterior: DifficultyPosterior, target: Target, gaps: Sequence[Gap]
) -> tuple[Figure, str]:
    """Draw the difficulties of a benchmark against a target, with the gaps between them.

    Parameters
    ----------
    posterior : DifficultyPosterior
        Difficulties.
    target : Target
        What is wanted.
    gaps : sequence of Gap
        From :func:`~harmony_utils.difficulty.coverage.find_gaps`; those of subjects are left out.

    Returns
    -------
    figure : Figure
        Cumulative shares of items and target; soft gaps shaded if called, outlined if not.
    alt : str
        What is seen.
    """
    figure, axes = new_figure(height=3.8)
    low, high = target.low - 0.5, target.high + 0.5
    grid = np.linspace(low, high, 241)
    held = np.searchsorted(np.sort(posterior.mean), grid, side="right") / len(posterior.mean)
    axes.plot(grid, held, color=BLUE, label="items")
    axes.plot(grid, target.cdf(grid), color=ORANGE, linestyle="--", label="target")
    whole = [gap for gap in gaps if not gap.subject and gap.kind == "soft"]
    labelled: set[bool] = set()
    for gap in whole:
        called = gap.verdict == "gap"
        label = "gap" if called else "not called a gap"
        axes.axvspan(
            gap.low,
            gap.high,
            facecolor=AMBER if called else "none",
            edgecolor=GREY,
            hatch=None if called else "///",
            alpha=0.45 if called else 0.35,
            linewidth=0.8,
            label=None if called in labelled else label,
        )
        labelled.add(called)
    axes.set_xlabel("difficulty")
    axes.set_ylabel("share below")
    axes.yaxis.set_major_formatter("{x:.0%}")
    title(axes, "What is asked, and what is wanted")
    legend_below(figure, axes)
    n_called = sum(gap.verdict == "gap" for gap in whole)
    parts = " ".join(f"{gap.sentence[:1].upper()}{gap.sentence[1:]}." for gap in whole[:2])
    alt = (
        f"Two cumulative curves of difficulty, items and target, from {low:.1f} to {high:.1f}. "
        f"{n_called} of {len(whole)} soft gaps are called. {parts}"
    ).strip()
    return figure, alt


def _band_name(row: pd.Series) -> str:
    if np.isnan(row.low):
        return "no difficulty"
    if np.isinf(row.low):
        return f"below {row.high:.1f}"
    return f"above {row.low:.1f}" if np.isinf(row.high) else f"{row.low:.1f} to {row.high:.1f}"
