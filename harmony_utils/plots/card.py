"""Figures of the evaluation card."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harmony_utils.card import CalibrationError, Judgement
from harmony_utils.errors import InputError
from harmony_utils.metric import wilson_interval
from harmony_utils.plots.style import (
    BLUE,
    GREY,
    INK,
    LIGHT,
    ORANGE,
    light_grid,
    new_figure,
    plain_text,
    title,
)

_VERDICTS = {"met": (BLUE, "o"), "not met": (ORANGE, "X"), "cannot tell": (GREY, "s")}


def criteria_chart(judgements: Sequence[Judgement]) -> tuple[Figure, str]:
    """Draw every criterion that was measured: value, interval and bound.

    Parameters
    ----------
    judgements : sequence of Judgement
        Of a card; those that were not measured are counted in the alternative text and not drawn.

    Returns
    -------
    figure : Figure
        A panel for each criterion, with a scale of its own. The bound is a line and the side that
        keeps it is shaded; form and colour of the mark are the verdict.
    alt : str
        What is seen.

    Raises
    ------
    InputError
        If no criterion was measured.
    """
    drawn = [judgement for judgement in judgements if judgement.evidence.value is not None]
    if not drawn:
        raise InputError("criteria: none was measured, so there is nothing to draw")
    figure, panels = new_figure(len(drawn), 1, height=0.4 + 0.95 * len(drawn), squeeze=False)
    for axes, judgement in zip(panels[:, 0], drawn, strict=True):
        _criterion(axes, judgement)
    told = [
        f"{j.criterion.text}{_about(j)} is {j.verdict}, {j.evidence.value:.3f}"
        + ("" if j.evidence.low is None else f" ({j.evidence.low:.3f} to {j.evidence.high:.3f})")
        for j in drawn
    ]
    missing = len(judgements) - len(drawn)
    alt = (
        f"Panels of {len(drawn)} criteria with value, interval and bound: {'; '.join(told)}. "
        f"Not measured and not drawn: {missing}."
    )
    return figure, alt


def _about(judgement: Judgement) -> str:
    return f" for {judgement.evidence.model}" if judgement.evidence.model else ""


def _criterion(axes: Axes, judgement: Judgement) -> None:
    entry, bound = judgement.evidence, judgement.criterion.bound
    colour, marker = _VERDICTS[judgement.verdict]
    ends = [entry.value if end is None else end for end in (entry.low, entry.high)]
    reach = [*ends, entry.value, bound]
    room = max(max(reach) - min(reach), 0.02) * 0.12
    left, right = min(reach) - room, max(reach) + room
    good = (left, bound) if judgement.criterion.at_least is None else (bound, right)
    axes.axvspan(*good, color=LIGHT, alpha=0.55, linewidth=0)
    axes.axvline(bound, color=INK, linestyle="--", linewidth=1.4)
    axes.hlines(0, *ends, color=colour, linewidth=3.2, alpha=0.5)
    axes.scatter(entry.value, 0, s=52, color=colour, marker=marker, zorder=3)
    axes.set(xlim=(left, right), ylim=(-1, 1), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.spines["left"].set_visible(False)
    light_grid(axes, "x")
    name = plain_text(judgement.criterion.text + _about(judgement), limit=52)
    title(axes, f"{name}: {judgement.verdict}")


def reliability_curve(found: CalibrationError) -> tuple[Figure, str]:
    """Draw accuracy against confidence, bin by bin.

    Parameters
    ----------
    found : CalibrationError
        From :func:`~harmony_utils.card.calibration_error`.

    Returns
    -------
    figure : Figure
        A dot for each bin with Wilson's interval. Below the diagonal the model is surer than it is
        right; the calibration error is the mean distance to it.
    alt : str
        What is seen.
    """
    believed, right = np.array(found.confidences), np.array(found.accuracies)
    low, high = wilson_interval(right, np.array(found.sizes))
    figure, axes = new_figure(height=4.1)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.4)
    axes.annotate("dashed: as sure as right", (0.02, 0.95), color=GREY, fontsize=10)
    axes.vlines(believed, low, high, color=BLUE, linewidth=3.2, alpha=0.45)
    axes.scatter(believed, right, s=44, color=BLUE, zorder=3)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    over = int((right < believed).sum())
    alt = (
        f"Accuracy against confidence in {len(believed)} bins, confidence from "
        f"{believed.min():.2f} to {believed.max():.2f}, accuracy from {right.min():.2f} to "
        f"{right.max():.2f}. {over} bins lie below the diagonal, where the model is surer than it "
        f"is right; the mean distance from it is {found.value:.3f}."
    )
    return figure, alt
