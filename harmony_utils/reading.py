"""Results in words: what may be said of them, and what may not.

Every function returns a paragraph or list in Markdown, for a notebook, a card or a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from harmony_utils.harmony import HarmonyResult
from harmony_utils.rebalance import holm
from harmony_utils.specifications import CHOICE_NAMES

if TYPE_CHECKING:
    from harmony_utils.filling import Filling
    from harmony_utils.plane import Plane

LEVEL = 0.05
"""A p-value up to this, adjusted for the number of tests, is called significant."""


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
        f"**{_capital(result.verdict)}.**",
        f"{_capital(result.reason)}." if result.reason else "",
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
            f"Accuracies that spread by {result.bandwidth:g} would have been noticed with a chance "
            f"of {result.power:.0%}; smaller differences may be there."
        )
    if result.blind_spot:
        parts.append(
            "**Blind spot:** subdomains lie far from the mean in a way that hardly lowers the "
            "score. Read the accuracies instead."
        )
    return " ".join(part for part in parts if part)


def plane_reading(plane: Plane) -> str:
    """Say what a benchmark plane shows, and how much of it could be chance.

    Parameters
    ----------
    plane : Plane
        From :func:`~harmony_utils.plane.benchmark_plane`.

    Returns
    -------
    str
        Extremes, verdicts, noise and the correlation of mean and variance.
    """
    table, cells, trend = plane.table, plane.cells, plane.correlation
    top, bottom = table.iloc[0], table.iloc[-1]
    noisy = int((table["variance"] <= table["null_variance"]).sum())
    uneven, sure = int(table["uneven"].sum()), int(table["uneven_holm"].sum())
    known = "cannot be told" if trend.rho is None else f"{signed(trend.rho)}"
    test = "" if trend.p_value is None else f" (p = {p_text(trend.p_value)})"
    parts = [
        f"**{_count(len(table), 'benchmark')}, {cells['respondent'].nunique()} respondents, "
        f"partition {plane.partition}.** Mean HARMONY goes from {bottom['mean']:.3f} "
        f"({bottom['benchmark']}) to {top['mean']:.3f} ({top['benchmark']}).",
        f"Of {len(cells)} verdicts {uneven} are uneven, {int(table['even'].sum())} not "
        f"distinguishable from even, {int(table['cannot_tell'].sum())} cannot tell; chance alone "
        f"would call about {LEVEL * len(cells):.0f} uneven. {sure} stay uneven after correction "
        "for the number of verdicts.",
        f"In {noisy} of {len(table)} benchmarks respondents differ no more than shuffled "
        "labels would make them differ.",
        f"Rank correlation of mean and variance: {known}{test}.",
    ]
    return " ".join(parts)


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
        f"unusual {deals}, and accuracies that spread by {result.bandwidth:g} would have been "
        f"noticed with a chance of {result.power:.0%}.",
        "cannot tell": f"{result.reason}.",
    }
    return f"{_capital(result.verdict)}: {because[result.verdict]}"


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
        f"questions in {clusters.min()} to {clusters.max()} subdomains, the truth was known. Even "
        f"ones were called uneven in {false.mean():.1%} of repeats on average, "
        f"{false.min():.1%} to {false.max():.1%} by kind. The interval held the true HARMONY in "
        f"{even['covered_ours'].mean():.1%} of repeats where accuracies were equal and in "
        f"{uneven['covered_ours'].mean():.1%} where they were not (a plain percentile bootstrap: "
        f"{even['covered_percentile'].mean():.0%} and {uneven['covered_percentile'].mean():.0%}). "
        f"It held it in fewer than 90 % in {_count(len(low), 'kind')}, {unequal} of them with very "
        f"unequal sizes; the lowest figure is {worst:.0%}, and for a single arrangement of good "
        f"and bad subdomains {free['lowest_ours'].min():.0%}. Two equal subdomains are left out: "
        "their HARMONY is 1 whatever the answers."
    )


def rebalancing_reading(table: pd.DataFrame) -> str:
    """Say what capping changes, and how much of it is more than chance.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.rebalance.ladder.prune_ladder`, with at least one share above 0.

    Returns
    -------
    str
        Significance is stated after Holm's correction for the number of shares.
    """
    capped = table[(table["method"] == "cap") & (table["share"] > 0)]
    start = table[table["share"] == 0].iloc[0]
    last = capped.iloc[-1]
    control = table[table["method"] == "random"].iloc[-1]
    p_values = capped["p_value"].to_numpy()
    alone, adjusted = int((p_values <= LEVEL).sum()), int((holm(p_values) <= LEVEL).sum())
    n_tests = len(capped)
    conclusion = (
        "So the largest subdomains pull the average by more than chance explains."
        if adjusted
        else "So no pull of the largest subdomains on the average is shown. One that is too small "
        "for so many questions to show may be there all the same."
    )
    return " ".join(
        [
            f"All {_count(int(start['n_left']), 'question')} give an accuracy of "
            f"{start['accuracy']:.3f}.",
            f"With {last['share']:.0%} removed, capping gives {last['accuracy']:.3f} on average "
            f"({signed(last['accuracy_shift'])}) and random removal {control['accuracy']:.3f}; "
            f"HARMONY goes from {start['harmony']:.3f} to {last['harmony']:.3f} by capping and to "
            f"{control['harmony']:.3f} at random.",
            f"The shift in accuracy has p ≤ {LEVEL:g} at {alone} of {_count(n_tests, 'share')} "
            f"taken alone, and at {adjusted} after Holm's correction for {n_tests}.",
            conclusion,
        ]
    )


def methods_reading(table: pd.DataFrame, left_out: dict[str, str] | None = None) -> str:
    """Say, for every way of removing items, what it did at the largest share.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.rebalance.ladder.prune_ladder`.
    left_out : dict of str to str, optional
        Methods that could not be had, and why.

    Returns
    -------
    str
        A Markdown list, one line per method.
    """
    lines = []
    for method, rows in table[table["share"] > 0].groupby("method", sort=True):
        last, start = rows.iloc[-1], table[table["share"] == 0].iloc[0]
        line = (
            f"- {_capital(method)}, {last['share']:.0%} removed: HARMONY from "
            f"{start['harmony']:.3f} to {last['harmony']:.3f}, accuracy "
            f"{signed(last['accuracy_shift'])}"
        )
        p_values = rows["p_value"].dropna().to_numpy()
        if len(p_values):
            found = int((holm(p_values) <= LEVEL).sum())
            line += f"; shifts accuracy by more than chance at {found} of {len(p_values)} shares"
        lines.append(line + ".")
    lines += [f"- {_capital(method)}: left out, {why}." for method, why in (left_out or {}).items()]
    return "\n".join(lines)


def scaling_reading(trends: pd.DataFrame) -> str:
    """Say, for every family and outcome, whether there is a trend or why that cannot be told.

    Parameters
    ----------
    trends : DataFrame
        From :func:`~harmony_utils.scaling.trend_table`.

    Returns
    -------
    str
        A Markdown list, one line per row.
    """
    lines = []
    for row in trends.itertuples():
        name = "HARMONY" if row.outcome == "harmony" else row.outcome
        line = f"- {_capital(name)}, {row.family}, {_count(row.n, 'run')}: **{row.verdict}**"
        if row.reason:
            line += f" ({row.reason})"
        if not pd.isna(row.rho):
            line += (
                f"; rank correlation {signed(row.rho, 2)}, {100 * row.confidence:g} % interval "
                f"{signed(row.low, 2)} to {signed(row.high, 2)}, p = {p_text(row.p_value)}"
            )
        lines.append(line + ".")
    return "\n".join(lines)


def p_text(p_value: float) -> str:
    """Write a p-value with three digits; a very small one with one.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.0004998)
    ('0.031', '0.0005')
    """
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign, a true minus; one that rounds to nothing has none.

    Examples
    --------
    >>> signed(-0.0214), signed(0.5, 2), signed(-0.00001)
    ('−0.021', '+0.50', '0.000')
    """
    rounded = round(value, digits) + 0.0
    text = f"{abs(rounded):.{digits}f}"
    return text if rounded == 0 else ("−" if rounded < 0 else "+") + text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sensitivity_reading(summary: dict[str, Any]) -> str:
    """Say whether other choices would have given the same verdict, and which one matters most.

    Parameters
    ----------
    summary : dict
        From :func:`~harmony_utils.sensitivity.summarise`, with or without ``missing_variants``.

    Returns
    -------
    str
        One paragraph; the last sentence says what such a share is not.
    """
    default, n = summary["default"], summary["n_specifications"]
    low, high = summary["share_interval"]
    counts = ", ".join(f"*{verdict}* {count}" for verdict, count in summary["verdicts"].items())
    parts = [
        f"**{summary['share_same_verdict']:.0%} of {_count(n, 'specification')} keep the verdict "
        f"*{default['verdict']}*.**"
    ]
    if n < summary["n_possible"]:
        parts.append(
            f"There are {summary['n_possible']:,} in all; the share among all of them lies between "
            f"{low:.0%} and {high:.0%}."
        )
    parts.append(f"Counted: {counts}.")
    if summary["harmony"]:
        parts.append(
            f"HARMONY goes from {summary['harmony'][0]:.2f} to {summary['harmony'][2]:.2f} "
            f"(median {summary['harmony'][1]:.2f}), the number of subdomains from "
            f"{summary['k'][0]:.0f} to {summary['k'][2]:.0f}."
        )
    parts += [_strongest(summary["choices"], "harmony"), _strongest(summary["choices"], "verdict")]
    flagged = {
        "give no HARMONY": summary["n_undefined"],
        "cluster an affinity in unconnected parts": summary["n_disconnected"],
        "have a tiny subdomain": summary["n_tiny"],
    }
    parts += [f"{number} {what}." for what, number in flagged.items() if number]
    missing = summary.get("missing_variants", {})
    if missing:
        parts.append(f"Left out, for they could not be scored: {', '.join(missing)}.")
    parts.append(
        "All specifications read the same answers, so they are not independent evidence: the share "
        "is no probability that the verdict is right."
    )
    return " ".join(part for part in parts if part)


def _strongest(choices: list[dict[str, Any]], outcome: str) -> str:
    """Name the choice that explains most of an outcome's variance over specifications."""
    known = [row for row in choices if row[f"r2_{outcome}"] is not None]
    if not known:
        return ""
    top = max(known, key=lambda row: row[f"r2_{outcome}"])
    name = "HARMONY" if outcome == "harmony" else "keeping the verdict"
    return (
        f"The choice that explains most of {name} is {CHOICE_NAMES[top['choice']]} "
        f"({top[f'r2_{outcome}']:.0%} of its variance, beyond the other choices)."
    )


def filling_reading(filling: Filling, truth: dict[str, float] | None = None) -> str:
    """Say what filling gaps came to.

    Parameters
    ----------
    filling : Filling
        From :func:`~harmony_utils.filling.fill_gaps`.
    truth : dict of candidate id to float, optional
        True difficulties; known in simulations only.

    Returns
    -------
    str
        One paragraph: what was proposed, answered and accepted, how near it came, why it ended.
    """
    from harmony_utils.filling import accuracy_of_aim

    aim = accuracy_of_aim(filling)
    parts = [
        f"Of {_count(len(filling.outcomes), 'candidate')} {aim['measured_n']} were answered and "
        f"**{aim['accepted_n']} accepted**, {sum(filling.wanted)} were wanted."
    ]
    if aim["measured_n"]:
        parts.append(
            f"Those answered lie {aim['measured_error']:.2f} logits from the middle of their band "
            f"on average, {aim['measured_hits']:.0%} inside it as measured."
        )
    if truth and aim["accepted_n"]:
        true = accuracy_of_aim(filling, truth)
        parts.append(
            f"In truth {true['measured_hits']:.0%} of those answered lie inside, and "
            f"{true['accepted_hits']:.0%} of those accepted; their probabilities said "
            f"{true['accepted_p']:.0%}."
        )
    for (low, high), why in zip(filling.gaps, filling.stopped, strict=True):
        parts.append(f"From {signed(low, 2)} to {signed(high, 2)}: {why}.")
    return " ".join(parts)
