"""What many runs, many settings, fewer questions or new questions say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from harmony_utils.reading.words import LEVEL, capital, count, p_text, signed
from harmony_utils.rebalance import holm
from harmony_utils.specifications import CHOICE_NAMES

if TYPE_CHECKING:
    from harmony_utils.filling import Filling
    from harmony_utils.framing import Conditions
    from harmony_utils.plane import Plane


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
        f"**{count(len(table), 'benchmark')}, {cells['respondent'].nunique()} respondents, "
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
            f"All {count(int(start['n_left']), 'question')} give an accuracy of "
            f"{start['accuracy']:.3f}.",
            f"With {last['share']:.0%} removed, capping gives {last['accuracy']:.3f} on average "
            f"({signed(last['accuracy_shift'])}) and random removal {control['accuracy']:.3f}; "
            f"HARMONY goes from {start['harmony']:.3f} to {last['harmony']:.3f} by capping and to "
            f"{control['harmony']:.3f} at random.",
            f"The shift in accuracy has p ≤ {LEVEL:g} at {alone} of {count(n_tests, 'share')} "
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
            f"- {capital(method)}, {last['share']:.0%} removed: HARMONY from "
            f"{start['harmony']:.3f} to {last['harmony']:.3f}, accuracy "
            f"{signed(last['accuracy_shift'])}"
        )
        p_values = rows["p_value"].dropna().to_numpy()
        if len(p_values):
            found = int((holm(p_values) <= LEVEL).sum())
            line += f"; shifts accuracy by more than chance at {found} of {len(p_values)} shares"
        lines.append(line + ".")
    lines += [f"- {capital(method)}: left out, {why}." for method, why in (left_out or {}).items()]
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
        line = f"- {capital(name)}, {row.family}, {count(row.n, 'run')}: **{row.verdict}**"
        if row.reason:
            line += f" ({row.reason})"
        if not pd.isna(row.rho):
            line += (
                f"; rank correlation {signed(row.rho, 2)}, {100 * row.confidence:g} % interval "
                f"{signed(row.low, 2)} to {signed(row.high, 2)}, p = {p_text(row.p_value)}"
            )
        lines.append(line + ".")
    return "\n".join(lines)


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
        f"**{summary['share_same_verdict']:.0%} of {count(n, 'specification')} keep the verdict "
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
        f"Of {count(len(filling.outcomes), 'candidate')} {aim['measured_n']} were answered and "
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


def framing_reading(found: Conditions) -> str:
    """Say what other ways of asking do to scores and ranks, and how much of it could be chance.

    Parameters
    ----------
    found : Conditions
        From :func:`~harmony_utils.framing.compare_conditions`, right or wrong under framings.

    Returns
    -------
    str
        Changes of scores, moves of ranks, reversals.
    """
    others = found.scores[found.scores["condition"] != found.baseline]
    sure = others[(others["change_low"] > 0) | (others["change_high"] < 0)]
    widest = others.loc[others["change"].abs().idxmax()]
    flipped = others["gained"] + others["lost"]
    low, high = (f"{share:.0%}" for share in (flipped.min(), flipped.max()))
    turned = low if low == high else f"Between {low} and {high}"
    parts = [
        f"**{count(len(found.models), 'model')}, {count(len(found.conditions), 'way')} of asking, "
        f"{found.n_items:,} questions.** Against {found.baseline}, {len(sure)} of {len(others)} "
        f"scores change by more than other questions explain, each taken by itself; the largest "
        f"change is {signed(widest['change'])}, of {widest['model']} under {widest['condition']}. "
        f"{turned} of single answers turn from right to wrong or back: a score can stay while the "
        "answers behind it do not."
    ]
    if len(found.models) > 1:
        parts.append(_rank_sentence(found))
    return " ".join(parts)


def metric_reading(found: Conditions) -> str:
    """Say what other metrics do to the ranks of models on the same answers.

    Parameters
    ----------
    found : Conditions
        Of metrics, from :func:`~harmony_utils.framing.compare_conditions`.
    """
    head = (
        f"**{count(len(found.conditions), 'metric')} on the same answers of "
        f"{count(len(found.models), 'model')}.**"
    )
    if len(found.models) < 2:
        said = (
            f"{name} {value:.3f}" for name, value in found.scores[["condition", "score"]].values
        )
        return f"{head} One model has no rank. {capital(', '.join(said))}."
    return f"{head} {_rank_sentence(found)}"


def _rank_sentence(found: Conditions) -> str:
    """Say how far ranks move, whether models change alike, and which reversals hold."""
    ranks, pairs = found.ranks, found.reversals
    worst = ranks.loc[ranks["largest_move"].idxmax()]
    moved = f"Ranks move by {count(int(worst['largest_move']), 'place')} at most"
    if worst["largest_move"] > 0:
        moved += f" ({worst['condition']})"
    moved += f"; as many other questions alone would move them by up to {worst['chance_move']:.0f}"
    if found.same_scale:
        unlike = int((holm(ranks["p_value"].to_numpy()) <= LEVEL).sum())
        moved += (
            f". In {unlike} of {len(ranks)} cases models change differently by more than chance, "
            "corrected for the number of cases"
        )
    kept = int(pairs["supported"].sum())
    order = (
        f"{count(len(pairs), 'reversal')} of a pair of models, {kept} of them with both orders "
        "beyond what other questions could give"
        if len(pairs)
        else "No pair of models changes its order"
    )
    return f"{moved}. {order}."
