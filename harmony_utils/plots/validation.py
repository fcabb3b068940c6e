"""Figures on benchmarks whose subdomains are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harmony_utils.errors import InputError
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    series_style,
    title,
)

RULE_MARKERS = {"silhouette": "o", "eigengap": "s", "stability": "^"}


def ranking_forest(table: pd.DataFrame, *, kind: str = "pair", heading: str) -> tuple[Figure, str]:
    """Draw how often each similarity ranks a pair right, with intervals.

    Parameters
    ----------
    table : DataFrame
        One row per similarity: ``similarity``, ``model`` (empty text or NaN if none), and
        ``KIND_auc``, ``KIND_low``, ``KIND_high``.
    kind : {"pair", "domain"}
        Paraphrases against look-alikes, or pairs of one domain against others.
    heading : str
        Title of the figure.

    Returns
    -------
    figure : Figure
        The best similarity on top; dots are similarities of models, squares of texts; a dotted
        line marks chance.
    alt : str
        What is seen.
    """
    rows = table.dropna(subset=[f"{kind}_auc"]).sort_values(f"{kind}_auc", ascending=False)
    if rows.empty:
        raise InputError(f"table: holds no {kind}_auc to draw")
    values = [rows[f"{kind}_{part}"].to_numpy() for part in ("auc", "low", "high")]
    models = rows["model"].fillna("").tolist()
    names = [
        f"{name}, {model.split('-')[0]}" if model else name
        for name, model in zip(rows["similarity"], models, strict=True)
    ]
    figure, axes = new_figure(height=1.4 + 0.33 * len(rows))
    for number, (auc, low, high, model) in enumerate(zip(*values, models, strict=True)):
        colour, marker = (BLUE, "o") if model else (ORANGE, "s")
        axes.plot([low, high], [number, number], color=colour, linewidth=2)
        axes.plot(auc, number, marker, color=colour, markersize=7)
    axes.axvline(0.5, color=GREY, linestyle=":", linewidth=1.4)
    axes.set_yticks(range(len(rows)), [plain_text(name, 40) for name in names])
    axes.invert_yaxis()
    axes.set(xlim=(-0.03, 1.03), xlabel="share of comparisons ranked right (AUC)")
    light_grid(axes, "x")
    axes.tick_params(axis="y", length=0)
    for label, colour, marker in (("of a model", BLUE, "o"), ("of texts", ORANGE, "s")):
        axes.plot([], [], marker, color=colour, label=label)
    title(axes, heading)
    legend_below(figure, axes)
    said = "; ".join(
        f"{name} {auc:.2f} ({low:.2f} to {high:.2f})"
        for name, auc, low, high in zip(names, *values, strict=True)
    )
    alt = f"{heading}: {len(rows)} similarities, one a row, with intervals; 0.5 is chance: {said}."
    return figure, alt


def truth_scatter(panels: dict[str, pd.DataFrame], *, estimate: str) -> tuple[Figure, str]:
    """Draw estimated against true HARMONY.

    Parameters
    ----------
    panels : dict of str to DataFrame
        Tables with the columns ``truth``, ``random`` and the estimate, by the name of the panel;
        one to three of them.
    estimate : str
        Column of the estimate.

    Returns
    -------
    figure : Figure
        A dot per benchmark, a cross for its random partition; on the dotted line both agree.
    alt : str
        What is seen.
    """
    if not 1 <= len(panels) <= 3:
        raise InputError(f"{len(panels)} panels: give one to three tables")
    figure, axes = new_figure(1, len(panels), height=3.3, sharex=True, sharey=True, squeeze=False)
    parts = []
    lowest = min(float(t[["truth", estimate, "random"]].min().min()) for t in panels.values())
    for one, (name, rows) in zip(axes[0], panels.items(), strict=True):
        one.plot([lowest, 1], [lowest, 1], color=GREY, linestyle=":", linewidth=1.4)
        one.plot(rows["truth"], rows["random"], "x", color=ORANGE, markersize=4.5, alpha=0.6)
        one.plot(rows["truth"], rows[estimate], "o", color=BLUE, markersize=4.5, alpha=0.7)
        r, r_random = (
            float(np.corrcoef(rows["truth"], rows[column])[0, 1]) for column in (estimate, "random")
        )
        title(one, f"{plain_text(name, 24)}\nr = {r:.2f}")
        one.set_xlabel("true HARMONY")
        parts.append(f"{name}, {len(rows)} benchmarks, r = {r:.2f} (random {r_random:.2f})")
    axes[0, 0].set_ylabel("estimated")
    axes[0, 0].plot([], [], "o", color=BLUE, label="estimated subdomains")
    axes[0, 0].plot([], [], "x", color=ORANGE, label="random subdomains")
    legend_below(figure, axes[0, 0])
    return figure, f"Scatter of estimated against true HARMONY: {'; '.join(parts)}."


def number_agreement(numbers: pd.DataFrame, chosen: pd.DataFrame) -> tuple[Figure, str]:
    """Draw how far clusters agree with known domains, for each number of them.

    Parameters
    ----------
    numbers : DataFrame
        ``similarity``, ``model``, ``n_clusters``, ``ami``; one line each similarity and model.
    chosen : DataFrame
        ``similarity``, ``model``, and ``k_RULE`` for the rules that chose a number.

    Returns
    -------
    figure : Figure
        Adjusted mutual information by the number of clusters; large open markers show what each
        rule would have chosen.
    alt : str
        What is seen.
    """
    if numbers.empty:
        raise InputError("numbers: there is no line to draw")
    figure, axes = new_figure(height=4.2)
    parts = []
    keyed = numbers.assign(model=numbers["model"].fillna(""))
    picks = chosen.assign(model=chosen["model"].fillna("")).set_index(["similarity", "model"])
    for number, ((name, model), rows) in enumerate(
        keyed.groupby(["similarity", "model"], sort=False)
    ):
        label = f"{name}, {model.split('-')[0]}" if model else name
        style = {**series_style(number), "marker": "."}
        axes.plot(rows["n_clusters"], rows["ami"], label=plain_text(label, 34), **style)
        by_number = rows.set_index("n_clusters")["ami"]
        rules = {rule: int(picks.loc[(name, model), f"k_{rule}"]) for rule in RULE_MARKERS}
        for rule, k in rules.items():
            axes.plot(
                k,
                by_number[k],
                RULE_MARKERS[rule],
                markersize=11,
                markerfacecolor="none",
                markeredgecolor=style["color"],
                markeredgewidth=1.8,
            )
        picked = ", ".join(f"{rule} takes {k} ({by_number[k]:.2f})" for rule, k in rules.items())
        parts.append(f"{label} is best at {by_number.idxmax()} ({by_number.max():.2f}); {picked}")
    for rule, marker in RULE_MARKERS.items():
        axes.plot(
            [], [], marker, color=INK, markerfacecolor="none", markersize=9, label=f"by {rule}"
        )
    axes.set(xlabel="number of clusters", ylabel="agreement with domains (AMI)")
    axes.set_ylim(min(-0.02, keyed["ami"].min()), min(1.02, keyed["ami"].max() + 0.12))
    title(axes, "What the number of clusters costs")
    legend_below(figure, axes)
    return figure, f"Lines of agreement with the domains by number of clusters: {'; '.join(parts)}."


def recovery_lines(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw how the correlation with true HARMONY grows with separation and number of items.

    Parameters
    ----------
    table : DataFrame
        ``separation``, ``n_items``, ``r``, ``low``, ``high``, and ``r_ceiling``, which the true
        domains would reach.

    Returns
    -------
    figure : Figure
        A line per number of items; dotted lines are the ceiling that sampling noise sets.
    alt : str
        What is seen.
    """
    if table.empty:
        raise InputError("table: there is no line to draw")
    figure, axes = new_figure(height=3.8)
    parts = []
    for number, (n_items, rows) in enumerate(table.groupby("n_items")):
        style = series_style(number)
        axes.fill_between(
            rows["separation"], rows["low"], rows["high"], color=style["color"], alpha=0.12
        )
        axes.plot(rows["separation"], rows["r"], label=f"{n_items:,} items", markersize=6, **style)
        ceiling = {"color": style["color"], "linewidth": 0.9, "linestyle": ":"}
        name = f"{n_items:,} items, true domains"
        axes.plot(rows["separation"], rows["r_ceiling"], label=name, **ceiling)
        first, last = rows.iloc[0], rows.iloc[-1]
        parts.append(
            f"{n_items:,} items from {first['r']:.2f} at separation {first['separation']:g} to "
            f"{last['r']:.2f} at {last['separation']:g}, ceiling {last['r_ceiling']:.2f}"
        )
    axes.set(xlabel="separation of the domains", ylabel="correlation with truth")
    axes.set_ylim(min(-0.3, table["low"].min()), 1.03)
    title(axes, "Simulated benchmarks: estimated and true HARMONY")
    legend_below(figure, axes)
    return figure, (
        "Lines of the correlation of estimated with true HARMONY by separation, with bands; dotted "
        f"thin lines show what the true domains would reach: {'; '.join(parts)}."
    )
