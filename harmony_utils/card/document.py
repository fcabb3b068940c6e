"""The card as Markdown that can also be read as plain text, and both files written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harmony_utils.card.assembly import MULTIPLICITY, Card
from harmony_utils.card.changes import Change
from harmony_utils.card.evidence import Evidence
from harmony_utils.card.failures import Failures
from harmony_utils.card.limits import coverage
from harmony_utils.card.measures import MEASURES
from harmony_utils.card.tested import Tested
from harmony_utils.card.words import (
    NOT_MEASURED,
    group_text,
    interval_text,
    line_text,
    markdown_table,
    setting_text,
    title_text,
    value_text,
)
from harmony_utils.errors import InputError
from harmony_utils.files import write_json, write_text

_DIGITS = 12
_CONCLUSIONS = {
    "supported": "every criterion is met by what was tested",
    "not supported": "at least one criterion is not met",
    "open": "no criterion is broken, but not all could be shown to be met",
    "none": "the decision names no criteria, so nothing can be concluded",
}


def save_card(card: Card, path: str | Path) -> tuple[Path, Path]:
    """Write the card and, beside it, the same as JSON; each whole or not at all.

    Parameters
    ----------
    card : Card
        From :func:`~harmony_utils.card.make_card`.
    path : path
        Ends in ``.md``; the other file has the same name and ends in ``.json``.

    Returns
    -------
    markdown, json : Path
        What was written. The same card gives the same bytes.

    Raises
    ------
    InputError
        For another ending.
    """
    path = Path(path)
    if path.suffix != ".md":
        raise InputError(f"--out {path}: name a file ending in .md; the JSON is put beside it")
    other = path.with_suffix(".json")
    text, found = card_markdown(card), card.to_dict()
    write_json(other, found)
    return write_text(path, text), other


def card_markdown(card: Card) -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    card : Card
        From :func:`~harmony_utils.card.make_card`.

    Returns
    -------
    str
        Columns are padded, so that it can be read as it stands.
    """
    parts = [
        ["# Evaluation card", ""],
        _decision(card),
        _tested(card),
        _evidence(card),
        _criteria(card),
        _failures(card.failures),
        _changes(card),
        _missing(card),
        _listed("Limits", card.limits),
        _provenance(card),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def conclusion_sentence(card: Card) -> str:
    """Return the conclusion and what it rests on, in one plain sentence.

    Parameters
    ----------
    card : Card
        With or without criteria.

    Returns
    -------
    str
        Begins with the conclusion, or says that there is none.
    """
    reason = _CONCLUSIONS[card.conclusion]
    if card.conclusion == "none":
        return f"No conclusion: {reason}." if card.decision else "No decision was declared."
    total = len(card.judgements)
    verdicts = [judgement.verdict for judgement in card.judgements]
    named = ("met", "not met", "cannot tell", NOT_MEASURED)
    counts = [f"{verdicts.count(name)} {name}" for name in named if name in verdicts]
    head = card.conclusion[0].upper() + card.conclusion[1:]
    return f"{head}: {reason} ({', '.join(counts)}, of {total})."


def _decision(card: Card) -> list[str]:
    lines = ["## Decision", ""]
    if card.decision is None:
        return [*lines, "No decision was declared: this is evidence alone, for no purpose.", ""]
    declared = card.decision
    lines += [
        f"**{conclusion_sentence(card)}** A score is one piece of evidence, never the decision.",
        "",
        f"- To be decided: {line_text(declared.decision)}",
        f"- Kind: {declared.kind}",
        f"- Workload: {line_text(declared.workload)}",
    ]
    if declared.baseline:
        lines.append(f"- Baseline: {declared.baseline}")
    for name, value in declared.deployed.items():
        lines.append(f"- Deployed with {name}: {setting_text(value)}")
    return [*lines, ""]


def _tested(card: Card) -> list[str]:
    rows = []
    for number, run in enumerate(card.runs, start=1):
        about = coverage(run)
        of = f" of {about['n_expected']:,}" if about["n_expected"] else ""
        answers = "written" if run.predictions.open_ended else "among options"
        made = "log of another tool" if run.imported else "this project's scorer"
        if run.predictions.meta.get("scores"):
            made = "a rule, no model"
        cells = [str(number), run.model, run.benchmark, f"{about['n_items']:,}{of}", answers, made]
        rows.append(cells)
    head = ["run", "model", "benchmark", "questions", "answers", "made by"]
    lines = ["## What was tested", "", *markdown_table(head, rows), ""]
    for number, run in enumerate(card.runs, start=1):
        settings = "; ".join(f"{k} {setting_text(v)}" for k, v in run.configuration.items())
        lines.append(f"- Run {number}: {settings}")
    return [*lines, ""]


def _evidence(card: Card) -> list[str]:
    lines = ["## Evidence", ""]
    of_run = {
        (run.model, run.benchmark): [
            entry
            for entry in card.evidence
            if (entry.model, entry.benchmark) == (run.model, run.benchmark)
        ]
        for run in card.runs
    }
    if len(card.runs) > 1:
        lines += [*_overview(card, list(of_run.values())), ""]
    for number, run in enumerate(card.runs, start=1):
        lines += [f"### Run {number}: {run.model} on {run.benchmark}", ""]
        lines += [*_evidence_table(of_run[run.model, run.benchmark]), ""]
    if shared := [entry for entry in card.evidence if not entry.model]:
        lines += ["### About the questions", "", *_evidence_table(shared), ""]
    share = f"{card.settings.confidence:.0%}"
    lines += [f"Intervals cover {share}. What each measure is:", ""]
    used = dict.fromkeys(entry.measure for entry in card.evidence)
    lines += [f"- {MEASURES[name].title}: {MEASURES[name].meaning}." for name in used]
    return [*lines, ""]


def _overview(card: Card, columns: Sequence[Sequence[Evidence]]) -> list[str]:
    """Return measures by runs; a cell that was not measured says so."""
    keys = dict.fromkeys((e.measure, e.subject) for entries in columns for e in entries)
    values = [{(e.measure, e.subject): e for e in entries} for entries in columns]
    rows = []
    for key in keys:
        entries = [column.get(key) for column in values]
        rows.append([title_text(*key), *(value_text(entry) for entry in entries)])
    return markdown_table(["measure", *(f"run {i}" for i in range(1, len(columns) + 1))], rows)


def _evidence_table(entries: Sequence[Evidence]) -> list[str]:
    rows = [
        [
            title_text(entry.measure, entry.subject),
            value_text(entry),
            interval_text(entry.low, entry.high),
            "" if entry.n is None else f"{entry.n:,}",
            MEASURES[entry.measure].better,
            entry.detail or entry.missing,
        ]
        for entry in entries
    ]
    return markdown_table(["measure", "value", "interval", "n", "better", "to read it"], rows)


def _criteria(card: Card) -> list[str]:
    lines = ["## Acceptance criteria", ""]
    if not card.judgements:
        return [*lines, "None were declared, so this card has no conclusion.", ""]
    rows, notes = [], []
    for number, judgement in enumerate(card.judgements, start=1):
        entry, criterion = judgement.evidence, judgement.criterion
        about = " on ".join(name for name in (entry.model, entry.benchmark) if name)
        subject = f", subject {entry.subject}" if entry.subject else ""
        rows.append(
            [
                str(number),
                criterion.text + subject,
                about or "the questions",
                value_text(entry),
                interval_text(entry.low, entry.high),
                judgement.verdict.upper(),
            ]
        )
        for text in (criterion.why and f"why: {line_text(criterion.why)}", judgement.reason):
            if text:
                notes.append(f"- Criterion {number}, {text}.".replace("..", "."))
    head = ["", "criterion", "about", "value", "interval", "verdict"]
    lines += [*markdown_table(head, rows), "", *notes, *([""] if notes else [])]
    lines += [
        "Bounds are inclusive. Met: the interval's worse end keeps the bound. Not met: even its "
        "better end breaks it. Cannot tell: the bound lies in the interval. A value without an "
        "interval is judged as it stands.",
        "",
    ]
    if card.decision.baseline:
        lines += ["A criterion that names no model is about every model but the baseline.", ""]
    return lines + ([MULTIPLICITY, ""] if len(card.judgements) > 1 else [])


def _failures(failures: Sequence[Failures]) -> list[str]:
    lines = ["## Observed failures", ""]
    for number, found in enumerate(failures, start=1):
        head = f"### Run {number}: {found.model} on {found.benchmark}"
        lines += [head, "", f"{found.n_wrong:,} questions were answered wrongly.", ""]
        if found.lowest:
            rows = [
                [
                    group_text(row["kind"], row["name"]),
                    f"{row['value']:.3f}",
                    interval_text(row["low"], row["high"]),
                    f"{row['n']:,}",
                ]
                for row in found.lowest
            ]
            lines += [*markdown_table(["lowest", "accuracy", "interval", "n"], rows), ""]
        if found.questions:
            listed = ", ".join(f"{line_text(q['id'])} ({q['margin']:.2f})" for q in found.questions)
            lines += [
                f"Surest of a wrong option (id, and by how much its score exceeds that of the "
                f"right one): {listed}.",
                "",
            ]
        elif found.left_out:
            lines += [f"Which questions it was surest of is {NOT_MEASURED}: {found.left_out}.", ""]
    return lines


def _changes(card: Card) -> list[str]:
    baseline = card.decision.baseline if card.decision else ""
    if not baseline:
        return []
    lines = [f"## What changed against {baseline}", ""]
    lines += [*_change_table(card.changes), ""] if card.changes else []
    lines += [f"- {text}" for text in card.left_out] + ([""] if card.left_out else [])
    lines += [
        "Pairs are the same question by its content. Intervals hold for all subjects at once, and "
        "for all subdomains at once (Bonferroni); subdomains are those of the model, not of the "
        "baseline. *Not told apart* is not *the same*.",
        "",
    ]
    return lines


def _change_table(changes: Sequence[Change]) -> list[str]:
    rows = []
    for change in changes:
        name = group_text(change.kind, change.name)
        rows.append(
            [
                f"{change.model} on {change.benchmark}",
                "all questions" if change.kind == "all" else name,
                f"{change.n:,}",
                f"{change.baseline:.3f}",
                f"{change.accuracy:.3f}",
                f"{change.difference:+.3f}",
                interval_text(change.low, change.high, sign=True),
                change.verdict.upper() if change.verdict != "not told apart" else change.verdict,
            ]
        )
    head = ["run", "questions", "n", "baseline", "now", "change", "interval", ""]
    return markdown_table(head, rows)


def _missing(card: Card) -> list[str]:
    lines = ["## Coverage, and what is not measured", ""]
    for number, run in enumerate(card.runs, start=1):
        lines.append(f"- Run {number}: {_covered(run)}")
    groups: dict[tuple[str, str, str], list[str]] = {}
    places = {(run.model, run.benchmark): n for n, run in enumerate(card.runs, start=1)}
    for entry in card.evidence:
        if entry.value is None:
            key = (title_text(entry.measure, entry.subject), entry.missing, entry.command)
            number = places.get((entry.model, entry.benchmark))
            groups.setdefault(key, []).append("" if number is None else str(number))
    for (title, reason, command), numbers in groups.items():
        which = ", ".join(number for number in numbers if number)
        where = f", run{'s' if len(numbers) > 1 else ''} {which}" if which else ""
        way = f"; it takes: {command}" if command else ""
        lines.append(f"- {title}{where}: {NOT_MEASURED}, {reason}{way}")
    lines += [f"- {place}: {NOT_MEASURED}, not finished" for place in card.unfinished]
    return [*lines, ""]


def _covered(run: Tested) -> str:
    about = coverage(run)
    asked = about["n_items"] + about["n_unscored"]
    text = f"{asked:,} questions"
    if about["n_expected"] is None:
        kind = "a sample; " if about["sampled"] else ""
        text += f"; {kind}how many the benchmark has is not known here"
    else:
        kind = "a sample" if about["sampled"] else "all of it"
        text = f"{asked:,} of {about['n_expected']:,} questions of the benchmark ({kind})"
    if about["n_unscored"]:
        text += f"; {about['n_unscored']} without a score left out"
    if about["n_subjects"] or about["n_subjects_expected"]:
        expected = about["n_subjects_expected"]
        text += f"; {about['n_subjects']}" + (f" of {expected}" if expected else "") + " subjects"
    else:
        text += "; no subjects"
    return text


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {line_text(entry)}" for entry in entries), ""]


def _provenance(card: Card) -> list[str]:
    about = card.provenance()
    settings = "; ".join(f"{name} {value}" for name, value in about["settings"].items())
    lines = ["## Provenance", "", f"- Card: harmony-utils {about['harmony_utils']}; {settings}"]
    lines += [f"- {name}: SHA-256 {value[:_DIGITS]}…" for name, value in about["files"].items()]
    for number, run in enumerate(about["runs"], start=1):
        lines.append(f"- Run {number}: {'; '.join(_facts(run))}")
    return [*lines, "", "Hashes are cut here; card and JSON file belong together.", ""]


def _facts(run: dict[str, Any]) -> Iterator[str]:
    yield run["place"]
    for name, value in run["files"].items():
        yield f"{name} SHA-256 {value[:_DIGITS]}…"
    if run["benchmark_fingerprint"]:
        yield f"questions {run['benchmark_fingerprint'][:_DIGITS]}…"
    if run["git_commit"]:
        commit = run["git_commit"]
        changed = ", files changed" if commit.endswith("+") else ""
        yield f"commit {commit[:_DIGITS]}{changed}"
    if run["log"]:
        yield "log " + ", ".join(f"{k} {setting_text(v)}" for k, v in run["log"].items())
    for name, seed in run["seeds"].items():
        yield f"seed of {name} {seed}"
    if run["versions"]:
        yield ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    else:
        yield "versions not recorded"
