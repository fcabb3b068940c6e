"""What one HARMONY says and does not say."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from harmony_utils.harmony import HarmonyResult
from harmony_utils.reading.words import capital, p_text, signed

SMALL_SPREAD = 0.25
"""Accuracies that spread by less than this share of the bandwidth, or of what their mean allows,
are called little different even where that is more than chance: with many questions almost any
difference is. Our choice."""


def harmony_reading(result: HarmonyResult) -> str:
    """Say where a HARMONY lies in its null distribution and what lowers it.

    Parameters
    ----------
    result : HarmonyResult
        From :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    str
        The verdict first. No benchmark is called even because its HARMONY is high.

    Examples
    --------
    Eight questions say nothing, however high the number is.

    >>> from harmony_utils.harmony import harmony
    >>> result = harmony([0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1, 1, 1], n_null=100)
    >>> round(result.harmony, 6), harmony_reading(result)[:17]
    (1.0, '**Cannot tell.** ')
    """
    place = (
        "below that range"
        if result.harmony < result.null_low
        else "above that range, more even than most deals"
        if result.harmony > result.null_high
        else "inside that range"
    )
    parts = [
        f"**{capital(result.verdict)}.**",
        f"{capital(result.reason)}." if result.reason else "",
        f"HARMONY is {result.harmony:.3f}, for {result.count} in "
        f"{result.n_clusters} subdomains at a bandwidth of {result.bandwidth:g}.",
        f"Of {len(result.null)} random deals of the same questions, {100 * result.confidence:g} % "
        f"lie between {result.null_low:.3f} and {result.null_high:.3f}; the observed value lies "
        f"{place} (p = {p_text(result.p_value)}).",
        f"Sizes alone would give {result.size_part:.3f}; differences in accuracy change that by "
        f"{signed(result.performance_part)}.",
        interval_reading(result),
        f"The lowest subdomain lies {result.inequality['worst_gap']:.3f} below the mean of "
        f"{result.accuracy:.3f}.",
    ]
    if result.verdict == "not distinguishable from even":
        parts.append(
            f"Accuracies that spread by {result.spread_text} would have been noticed with a chance "
            f"of {result.power:.0%}; smaller differences may be there."
        )
    spread = math.sqrt(result.inequality["weighted_variance"])
    if result.verdict == "uneven" and spread < SMALL_SPREAD * result.spread:
        parts.append(
            f"**Uneven, but by little:** accuracies spread by {spread:.3f} around the mean "
            f"(weighted standard deviation), at a bandwidth of {result.bandwidth:g}. With "
            f"{result.count} even that is more than chance gives; whether it matters is another "
            "question."
        )
    if result.blind_spot:
        parts.append(
            "**Blind spot:** subdomains lie far from the mean in a way that hardly lowers the "
            "score. Read the accuracies instead."
        )
    return " ".join(part for part in parts if part)


def verdict_sentence(result: HarmonyResult) -> str:
    """Say the verdict and its reason in one plain sentence.

    Parameters
    ----------
    result : HarmonyResult
        From :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    str
        Without markup, for a table, a card or a log.

    Examples
    --------
    >>> from harmony_utils.harmony import harmony
    >>> verdict_sentence(harmony([1, 1, 1, 1], [0, 0, 1, 1], n_null=100))
    'Cannot tell: every answer is right.'
    """
    p = f"p = {p_text(result.p_value)}"
    deals = f"among random deals of the same questions ({p})"
    because = {
        "uneven": f"a HARMONY of {result.harmony:.3f} or less is rare {deals}.",
        "not distinguishable from even": f"a HARMONY of {result.harmony:.3f} or less is not "
        f"unusual {deals}, and accuracies that spread by {result.spread_text} would have been "
        f"noticed with a chance of {result.power:.0%}.",
        "cannot tell": f"{result.reason}.",
    }
    return f"{capital(result.verdict)}: {because[result.verdict]}"


def interval_reading(result: HarmonyResult) -> str:
    """Say where HARMONY lies once sampling noise is taken out of it.

    Parameters
    ----------
    result : HarmonyResult
        From :func:`~harmony_utils.harmony.harmony`.

    Returns
    -------
    str
        One or two sentences; the second where the observed value lies below the interval.
    """
    intervals = result.intervals
    low, high = intervals.harmony
    text = (
        f"With sampling noise taken out, it lies between {low:.3f} and {high:.3f} "
        f"({100 * intervals.confidence:g} % interval), most plausibly near "
        f"{intervals.corrected:.3f}."
    )
    if result.harmony < low - 5e-4:
        text += " The observed value lies below that, because noise in small subdomains lowers it."
    return text


def reclustered_reading(about: dict[str, Any] | None) -> str:
    """Say where HARMONY lies when the subdomains, too, are found anew.

    Parameters
    ----------
    about : dict, optional
        From :func:`~harmony_utils.recluster.reclustered_interval`; None where none was asked for.

    Returns
    -------
    str
        One or two sentences.
    """
    if about is None:
        return (
            "The interval takes the subdomains as given. `harmony.recluster=200` adds one that "
            "includes their choice, from halves of the questions clustered anew."
        )
    numbers = f"{about['k_lo']:.0f} to {about['k_hi']:.0f}"
    return (
        f"In {about['n_resamples']} random halves of the questions, each clustered anew, "
        f"{100 * about['confidence']:g} % of the noise-corrected values lie between "
        f"{about['lo']:.3f} and {about['hi']:.3f}, with {numbers} subdomains: this range includes "
        "the choice of subdomains."
    )


def stratified_reading(about: dict[str, Any], result: HarmonyResult) -> str:
    """Say whether subdomains of unequal difficulty would explain a HARMONY.

    Parameters
    ----------
    about : dict
        From :func:`~harmony_utils.stages.stratified.stratified_result`.
    result : HarmonyResult
        Of the same audit.

    Returns
    -------
    str
        Also where there are too few other models: then the reason.
    """
    if about["p_value"] is None:
        return f"Whether difficulty explains it cannot be told: {about['reason']}."
    low = about["p_value"] <= 1 - result.confidence
    plain = result.p_value <= 1 - result.confidence
    conclusion = (
        "So unequal difficulty does not explain how uneven the subdomains are."
        if low
        else "So unequal difficulty is enough to explain why HARMONY is low."
        if plain
        else "So nothing is left that difficulty would have to explain."
    )
    text = (
        f"Difficulty, judged by {about['n_models']} other models, divides the questions into "
        f"{about['n_strata']} strata. Dealt within them, {100 * result.confidence:g} % of "
        f"{about['n']} deals lie between {about['lo']:.3f} and {about['hi']:.3f} "
        f"(p = {p_text(about['p_value'])}, without strata {p_text(result.p_value)}). {conclusion}"
    )
    if about["n_same_model"]:
        text += (
            f" Beware: {about['n_same_model']} of the judges are early exits of this very model, "
            "whose answers resemble its own; that takes out more than difficulty."
        )
    return text


def calibration_reading(table: pd.DataFrame) -> str:
    """Say how often verdicts and intervals were right in simulations with a known truth.

    Parameters
    ----------
    table : DataFrame
        ``results/recorded/calibration.csv``, from ``benchmarks/calibration.py``.

    Returns
    -------
    str
        Averages and extremes; the cases in which HARMONY cannot vary are named, not averaged in.
    """
    fixed = (table["n_clusters"] == 2) & (table["sizes"] == "equal")
    free, items, clusters = table[~fixed], table["n_items"], table["n_clusters"]
    even, uneven = (free[free["truth"] == truth] for truth in ("even", "uneven"))
    false, low = even["uneven"], free[free["covered_ours"] < 0.9]
    unequal, worst = int((low["sizes"] == "skewed").sum()), free["covered_ours"].min()
    return (
        f"In {len(table)} simulated kinds of benchmark, with {items.min()} to {items.max()} "
        f"questions in {clusters.min()} to {clusters.max()} subdomains, the truth was known. "
        f"Even benchmarks were called uneven in {false.mean():.1%} of repeats on average, "
        f"{false.min():.1%} to {false.max():.1%} by kind. The interval held the true HARMONY in "
        f"{even['covered_ours'].mean():.1%} of repeats where accuracies were equal and in "
        f"{uneven['covered_ours'].mean():.1%} where they were not (a plain percentile bootstrap: "
        f"{even['covered_percentile'].mean():.0%} and {uneven['covered_percentile'].mean():.0%}). "
        f"Kinds in which it held the truth in fewer than 90 % of repeats: {len(low)} (with very "
        f"unequal sizes: {unequal}). The lowest share of a kind is {worst:.0%}, and that of a "
        "single arrangement of good and bad subdomains within a kind "
        f"{free['lowest_ours'].min():.0%}. Two equal subdomains are left out: their HARMONY is 1 "
        "whatever the answers."
    )
