"""Figures of similarity and of the subdomains found in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harmony_utils.errors import InputError
from harmony_utils.pairs import sample_pairs
from harmony_utils.partition import Partition
from harmony_utils.plots.style import (
    BLUE,
    CARD,
    COLOURS,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    SKY,
    bin_edges,
    legend_below,
    light_grid,
    new_figure,
    plain_text,
    title,
)
from harmony_utils.reading import LEVEL, p_text

MAX_ITEMS = 600
"""A heat map shows at most this many items, drawn at random but evenly from the subdomains."""

MAX_PAIRS = 200_000
"""A histogram of pairs uses at most this many, drawn at random."""

_HOW = {
    "silhouette": "by silhouette",
    "eigengap": "by eigengap",
    "stability": "by stability",
    "given": "as given",
}


def divergence_histogram(divergence: np.ndarray, *, temperature: float) -> tuple[Figure, str]:
    """Draw the divergences of all pairs, and the similarities they become.

    Parameters
    ----------
    divergence : ndarray of shape (n_items, n_items)
        Symmetric, in nats.
    temperature : float
        Turns divergence into similarity.

    Returns
    -------
    figure : Figure
        Two panels. Above :data:`MAX_PAIRS` pairs, a random sample of them.
    alt : str
        What is seen.
    """
    values = _pairs(divergence)
    similarity = np.exp(-temperature / 2 * values)
    figure, (left, right) = new_figure(1, 2, height=3.1)
    parts = []
    for axes, numbers, colour, name in (
        (left, values, BLUE, "divergence (nats)"),
        (right, similarity, ORANGE, "similarity"),
    ):
        low, median, high = np.quantile(numbers, [0.25, 0.5, 0.75])
        edges = bin_edges(numbers, 30) if axes is left else np.linspace(0, 1, 31)
        axes.hist(np.minimum(numbers, edges[-1]), bins=edges, color=(colour, 0.45), edgecolor=CARD)
        axes.axvline(median, color=INK)
        axes.axvspan(low, high, color=colour, alpha=0.13, linewidth=0)
        axes.set_title(f"median {median:.2f}", loc="left", fontsize=10.5)
        axes.set(xlabel=name, yticks=[])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        parts.append(f"{name} has quartiles {low:.2f}, {median:.2f} and {high:.2f}")
    left.set_ylabel("pairs of questions")
    alt = (
        f"Two histograms over pairs of {len(divergence)} questions at temperature "
        f"{temperature:.3g}: {'; '.join(parts)}. A line marks each median, a band the middle half."
    )
    return figure, alt


def affinity_heatmap(
    affinity: np.ndarray, labels: np.ndarray | None = None, *, random_state: int = 0
) -> tuple[Figure, str]:
    """Draw the similarity of every pair, ordered by subdomain.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Similarities between 0 and 1.
    labels : ndarray of shape (n_items,), int, optional
        Subdomains; without them items keep their order.
    random_state : int
        Seed of the sample of items where there are more than :data:`MAX_ITEMS`.

    Returns
    -------
    figure : Figure
        Colours run from the 2nd to the 98th percentile, so small differences look large.
    alt : str
        What is seen.
    """
    n_items = len(affinity)
    shown = np.arange(n_items)
    if n_items > MAX_ITEMS:
        shown = np.random.default_rng(random_state).choice(n_items, MAX_ITEMS, replace=False)
        shown.sort()
    if labels is not None:
        shown = shown[np.argsort(np.asarray(labels)[shown], kind="stable")]
    matrix = affinity[np.ix_(shown, shown)]
    pairs = _pairs(matrix)
    low, high = np.quantile(pairs, [0.02, 0.98])
    figure, axes = new_figure(height=5.3)
    image = axes.imshow(
        matrix, cmap="cividis", vmin=low, vmax=max(high, low + 1e-6), interpolation="nearest"
    )
    figure.colorbar(image, ax=axes, shrink=0.85, label="similarity", extend="both")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    sample = f" (a random {len(shown)} of {n_items})" if len(shown) < n_items else ""
    alt = (
        f"Heat map of the similarity of {n_items} questions{sample}, median "
        f"{np.median(pairs):.2f}, from {low:.2f} (dark) to {high:.2f} (bright)"
    )
    if labels is None:
        axes.set(xlabel="questions, in their order", xticks=[], yticks=[])
        return figure, alt + "."
    groups = np.asarray(labels)[shown]
    _mark_blocks(axes, groups)
    same = groups[:, None] == groups
    np.fill_diagonal(same, False)
    other = groups[:, None] != groups
    within, between = (float(matrix[mask].mean()) if mask.any() else 0.0 for mask in (same, other))
    axes.set_xlabel("questions, ordered by subdomain")
    alt += (
        f", ordered by {len(np.unique(groups))} subdomains outlined along the diagonal; the mean "
        f"similarity is {within:.2f} within and {between:.2f} between them."
    )
    return figure, alt


def cluster_choice(partition: Partition) -> tuple[Figure, str]:
    """Draw what speaks for which number of subdomains.

    Parameters
    ----------
    partition : Partition
        From :func:`~harmony_utils.partition.spectral_partition`.

    Returns
    -------
    figure : Figure
        Silhouettes above; below, the jump after each eigenvalue. The chosen number is marked.
    alt : str
        What is seen.
    """
    if not partition.silhouettes:
        raise InputError(
            f"partition by {partition.selected_by}: no number of subdomains was chosen; draw one "
            "from spectral_partition"
        )
    numbers = np.array(sorted(partition.silhouettes))
    silhouettes = np.array([partition.silhouettes[k] for k in numbers])
    eigenvalues = np.array(partition.eigenvalues)
    with_gap = numbers[numbers < len(eigenvalues)]
    gaps = eigenvalues[with_gap] - eigenvalues[with_gap - 1]
    chosen = partition.n_clusters
    figure, (top, bottom) = new_figure(2, 1, height=4.6, sharex=True)
    top.plot(numbers, silhouettes, color=BLUE, marker="o", markersize=5)
    top.plot(
        chosen,
        partition.silhouettes[chosen],
        marker="*",
        markersize=17,
        color=ORANGE,
        markeredgecolor=INK,
        linestyle="none",
    )
    top.set_ylabel("mean silhouette")
    top.margins(y=0.14)
    title(top, f"{chosen} subdomains, {_HOW[partition.selected_by]}")
    colours = [ORANGE if k == chosen else SKY for k in with_gap]
    bottom.bar(with_gap, gaps, color=colours, edgecolor=INK, linewidth=0.6, width=0.65)
    bottom.set(xlabel="number of subdomains", ylabel="jump after\neigenvalue")
    bottom.set_xlim(numbers[0] - 0.8, numbers[-1] + 0.8)
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for axes in (top, bottom):
        light_grid(axes, "y")
        axes.axvline(chosen, color=GREY, linestyle=":", linewidth=1)
    best, widest = int(numbers[silhouettes.argmax()]), int(with_gap[gaps.argmax()])
    alt = (
        f"Above, the mean silhouette for {numbers[0]} to {numbers[-1]} subdomains, highest at "
        f"{best} ({silhouettes.max():.3f}) and lowest at {numbers[silhouettes.argmin()]} "
        f"({silhouettes.min():.3f}). Below, bars of the jump after each eigenvalue, widest at "
        f"{widest}. A star marks the chosen number, {chosen}."
    )
    return figure, alt


def embedding_scatter(embedding: np.ndarray, labels: np.ndarray) -> tuple[Figure, str]:
    """Draw items in the plane of two eigenvectors.

    Parameters
    ----------
    embedding : ndarray of shape (n_items, n_components)
        Eigenvectors from :func:`~harmony_utils.spectral.spectral_embedding`. With three or more
        the second and third are drawn, since the first separates nothing.
    labels : ndarray of shape (n_items,), int
        Subdomains, 0 to k-1.

    Returns
    -------
    figure : Figure
        Two of the dimensions in which clusters were sought: what overlaps here may be apart there.
    alt : str
        What is seen.
    """
    first = 1 if embedding.shape[1] > 2 else 0
    points = embedding[:, first : first + 2]
    points = points / max(np.abs(points).max(), 1e-12)
    sizes = np.bincount(labels)
    n_columns = 3
    figure, axes = new_figure(height=4.4 + 0.22 * -(-len(sizes) // n_columns))
    for label in range(len(sizes)):
        mine = points[labels == label]
        axes.scatter(
            mine[:, 0],
            mine[:, 1],
            s=24,
            color=COLOURS[label % len(COLOURS)],
            marker=MARKERS[label % len(MARKERS)],
            alpha=0.55,
            linewidths=0,
            label=f"{label} (n = {sizes[label]})",
        )
    axes.set(xlabel=f"eigenvector {first + 1}, scaled", ylabel=f"eigenvector {first + 2}, scaled")
    title(axes, "Questions by how the model would answer them")
    legend_below(figure, axes, n_columns, title="subdomain", handletextpad=0.2)
    alt = (
        f"Scatter of {len(labels)} questions on eigenvectors {first + 1} and {first + 2}, with "
        f"colour and marker for each of {len(sizes)} subdomains of {sizes.min()} to {sizes.max()} "
        f"questions."
    )
    return figure, alt


def partition_comparison(table: pd.DataFrame) -> tuple[Figure, str]:
    """Draw how far partitions agree with a reference, and what each says about HARMONY.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.comparison.compare_partitions`.

    Returns
    -------
    figure : Figure
        One row per partition. On the left, adjusted mutual information with the reference (which
        has 1); on the right, HARMONY in the range of random deals, with its p-value. HARMONY values
        compare with their own range only, not with each other.
    alt : str
        What is seen.
    """
    if table.empty:
        raise InputError("the table has no partition to draw; give the result of a comparison")
    figure, (left, right) = new_figure(
        1, 2, height=1.3 + 0.34 * len(table), sharey=True, width_ratios=[1, 1.1]
    )
    rows = np.arange(len(table))
    left.axvline(0, color=GREY, linewidth=1, linestyle=":")
    left.hlines(rows, 0, table["ami"], color=SKY, linewidth=2.2)
    left.plot(table["ami"], rows, "o", color=BLUE, markersize=7)
    left.set(xlabel="agreement (AMI)", xlim=(min(-0.08, table["ami"].min() - 0.05), 1.08))
    names = [f"{plain_text(row.name, 24)} ({row.n_clusters})" for row in _named(table)]
    left.set_yticks(rows, names)
    left.invert_yaxis()
    right.hlines(rows, table["null_low"], table["null_high"], color=SKY, alpha=0.45, linewidth=9)
    low = table["p_value"].to_numpy() <= LEVEL
    for mask, colour, marker in ((~low, INK, "o"), (low, ORANGE, "D")):
        right.plot(table["harmony"][mask], rows[mask], marker, color=colour, markersize=7)
    for row, p_value in zip(rows, table["p_value"], strict=True):
        place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 10}
        right.annotate(f"p = {p_text(p_value)}", (1.04, row), color=INK, **place)
    lowest = min(table["harmony"].min(), table["null_low"].min())
    right.set(xlabel="HARMONY", xlim=(lowest - 0.04 * (1.05 - lowest), 1.04))
    for axes in (left, right):
        light_grid(axes, "y")
        axes.tick_params(axis="y", length=0)
    return figure, _comparison_alt(table)


def _comparison_alt(table: pd.DataFrame) -> str:
    parts = []
    for row in _named(table):
        agreement = round(row.ami, 2) + 0.0  # no minus before a zero
        parts.append(
            f"{row.name} ({row.n_clusters} subdomains) {agreement:.2f} and {row.harmony:.2f}, "
            f"p = {p_text(row.p_value)}"
        )
    return (
        f"{len(table)} partitions, one a row; a dot on the left for the adjusted mutual "
        "information with the reference, one on the right for HARMONY over the range of random "
        f"deals; a diamond marks p at most {LEVEL:g}: {'; '.join(parts)}."
    )


def _named(table: pd.DataFrame) -> Iterator[Any]:
    return table.itertuples(index=False, name="Row")


def _pairs(matrix: np.ndarray) -> np.ndarray:
    """Return the values of pairs of different items, at most :data:`MAX_PAIRS` of them."""
    return matrix[sample_pairs(len(matrix), max_pairs=MAX_PAIRS)].astype(float)


def _mark_blocks(axes: Axes, groups: np.ndarray) -> None:
    """Outline runs of equal labels along the diagonal and number those with room for a number."""
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    ends = np.concatenate([starts[1:], [len(groups)]])
    for start, end in zip(starts, ends, strict=True):
        x, y = start - 0.5, end - 0.5
        axes.plot([x, y, y, x, x], [x, x, y, y, x], color=ORANGE, linewidth=1.6, clip_on=False)
    roomy = (ends - starts) >= 0.035 * len(groups)
    middles = (starts + ends - 1) / 2
    axes.set_yticks(middles[roomy], [str(label) for label in groups[starts][roomy]])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_ylabel("subdomain")
