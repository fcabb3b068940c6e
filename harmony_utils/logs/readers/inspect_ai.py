"""Inspect (UK AISI): ``.eval`` archives and JSON logs.

An archive holds a header, one file for each sample and, in newer versions, summaries that suffice
for multiple choice; a crashed run has no header, only its journal. No probabilities of the options
are logged: where token log-probabilities are, they are those of the letter that was generated.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.cells import dig
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, Gold, LogHeader, LogRow
from harmony_utils.logs.sources import Source
from harmony_utils.logs.streams import JsonText, open_bytes, open_member
from harmony_utils.logs.values import number

NAME = "inspect"

HEADER, START, SUMMARIES = "header.json", "_journal/start.json", "summaries.json"

#: How summaries end a text that they cut short.
_CUT = "(content truncated)"

#: What a sample's first part must hold before the rest of it (events) need not be read.
_NEEDED = {"id", "input", "target", "metadata"}

#: Scorers for which any one of several targets will do; others want all of them.
_ANY_TARGET = {"match", "includes", "exact", "pattern", "answer", "f1"}

_WORDS = {
    **dict.fromkeys(("C", "yes", "true", "correct"), 1.0),
    **dict.fromkeys(("I", "N", "no", "false", "incorrect"), 0.0),
    "P": 0.5,
}
_SUBJECTS = ("subject", "category", "subdomain", "topic")
_LETTERS = re.compile(r"[A-Z](?:(?:\s*[,;/&]\s*|\s+|\s+and\s+)?[A-Z])*")


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    if source.kind == "zip":
        names = source.members
        known = HEADER in names or START in names
        if known and any(n == SUMMARIES or n.startswith(("samples/", "_journal/")) for n in names):
            return "eval"
    elif source.kind == "json-object":
        start = source.start
        if isinstance(start.get("eval"), dict) and ("plan" in start or "samples" in start):
            return "json"
    return None


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    header = _header(_about(source))
    samples = _archived(source) if source.kind == "zip" else _listed(source)
    return header, _rows(samples, header, source)


def _about(source: Source) -> dict[str, Any]:
    """Return the log's own header."""
    if source.kind != "zip":
        return source.start
    with _archive(source) as archive:
        name = HEADER if HEADER in source.members else START
        found = _json(archive, name)
    return found if isinstance(found, dict) else {}


def _header(about: dict[str, Any]) -> LogHeader:
    """Return what the log says about the run."""
    run = about.get("eval") or {}
    arguments, config = run.get("task_args") or {}, run.get("config") or {}
    task = str(run.get("task") or run.get("task_display_name") or "unknown")
    few_shot = (dig(arguments, n) for n in ("fewshot", "few_shot", "num_fewshot", "n_shots"))
    scorer = _scorer(about)
    version = dig(run, "packages", "inspect_ai")
    header = LogHeader(
        format=NAME,
        version=str(version or f"log version {about.get('version')}"),
        model=str(run.get("model") or "unknown"),
        task=task,
        benchmark=task.rsplit("/", 1)[-1],
        metrics={"acc": ("prediction",)},
        settings={
            "few_shot": next((n for n in few_shot if n is not None), None),
            "template": _template(about.get("plan")),
            "task_version": run.get("task_version"),
            "limit": config.get("limit"),
            "scorer": scorer,
            "seed": dig(about, "plan", "config", "seed"),
            "temperature": dig(about, "plan", "config", "temperature"),
        },
        reported=_reported(about, scorer),
        total_items=dig(run, "dataset", "samples"),
    )
    status = about.get("status") or "started"
    if status != "success":
        header.flags.append(
            Flag("incomplete-run", f"the run did not finish (status {status!r}); items are missing")
        )
    if dig(about, "plan", "config", "logprobs"):
        header.flags.append(
            Flag(
                "answer-token-only",
                "logged with token log-probabilities; they are those of the generated letter and "
                "its nearest rivals, not of every option, and are not used",
            )
        )
    return header


def _scorer(about: dict[str, Any]) -> str | None:
    """Return the name of the first scorer."""
    listed = dig(about, "eval", "scorers") or dig(about, "results", "scores") or []
    first = listed[0] if isinstance(listed, list) and listed else None
    name = dig(about, "eval", "scorer") or dig(first, "name")
    return str(name).rsplit("/", 1)[-1] if name else None


def _template(plan: Any) -> str | None:
    """Name how the question was put, as far as the plan says it."""
    for step in dig(plan, "steps") or []:
        params = dig(step, "params")
        if isinstance(params, dict) and ("cot" in params or "template" in params):
            way = "reasoning first" if params.get("cot") else "answer only"
            return f"{way}, {params['template']!r}" if params.get("template") else way
    return None


def _reported(about: dict[str, Any], scorer: str | None) -> dict[str, float]:
    scores = dig(about, "results", "scores")
    scores = scores if isinstance(scores, list) else []
    chosen = next((s for s in scores if dig(s, "name") == scorer), scores[0] if scores else {})
    metrics = dig(chosen, "metrics") or dig(about, "results", "metrics") or {}
    for name in ("accuracy", "mean"):
        value = number(dig(metrics, name, "value"))
        if value is not None:
            return {"acc": value}
    return {}


# samples --------------------------------------------------------------------------------------


def _archive(source: Source) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source.path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{source.path}: damaged zip archive ({error})") from None


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    with open_member(archive, name) as stream:
        return JsonText(stream, f"{archive.filename}: {name}").value()


def _archived(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the samples of an archive, from the summaries if they hold enough."""
    with _archive(source) as archive:
        samples = [n for n in dict.fromkeys(source.members) if n.startswith("samples/")]
        samples = [name for name in samples if name.endswith(".json")]
        if SUMMARIES in source.members and (not samples or _suffice(archive, samples[0])):
            yield from _summaries(archive)
            return
        for name in samples:
            yield _sample(archive, name)
        if not samples:
            journal = [n for n in source.members if n.startswith("_journal/summaries/")]
            for name in sorted(journal, key=lambda n: (len(n), n)):
                yield from _json(archive, name)


def _summaries(archive: zipfile.ZipFile) -> Iterator[dict[str, Any]]:
    with open_member(archive, SUMMARIES) as stream:
        yield from JsonText(stream, f"{archive.filename}: {SUMMARIES}").elements()


def _suffice(archive: zipfile.ZipFile, name: str) -> bool:
    """Say whether the summaries hold what a sample does: options, answers and whole texts."""
    has_choices = bool(_sample(archive, name).get("choices"))
    empty = True
    for summary in _summaries(archive):
        empty = False
        if has_choices and not summary.get("choices"):
            return False
        if not isinstance(summary.get("input"), str) or summary["input"].endswith(_CUT):
            return False
        scores = summary.get("scores")
        if scores and not any(isinstance(s, dict) and "answer" in s for s in scores.values()):
            return False
    return not empty


def _sample(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """Read a sample up to its events, which are most of it."""
    found: dict[str, Any] = {}
    with open_member(archive, name) as stream:
        text = JsonText(stream, f"{archive.filename}: {name}")
        for key in text.members():
            found[key] = text.value()
            if key in ("messages", "events", "transcript", "store", "attachments"):
                del found[key]
            if found.keys() >= _NEEDED and (found.get("scores") or found.get("score")):
                break
    return found


def _listed(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the samples of a JSON log."""
    with open_bytes(source.path) as stream:
        text = JsonText(stream, str(source.path))
        for key in text.members():
            if key == "samples" and text.peek() == "[":
                yield from text.elements()
            else:
                text.value()


# rows -----------------------------------------------------------------------------------------


def _rows(samples: Iterator[dict[str, Any]], header: LogHeader, source: Source) -> Iterator[LogRow]:
    counts: Counter[str] = Counter()
    for position, sample in enumerate(samples, start=1):
        try:
            row = _row(sample, header.settings["scorer"], counts)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{source.path}, sample {position}: not a sample of Inspect "
                f"({type(error).__name__}: {error})"
            ) from None
        row.line = position
        yield row
    sentences = {
        "several-scorers": "{} samples have scores of several scorers; the first is used",
        "several-values": "{} scores hold several values; the first is used",
        "score-outside-range": "{} scores lie outside 0 to 1 and are left out",
        "failed-samples": "{} samples ended with an error; without a score they are not counted",
    }
    header.flags += [
        Flag(flag, sentence.format(counts[flag]))
        for flag, sentence in sentences.items()
        if counts[flag]
    ]


def _row(sample: dict[str, Any], scorer: str | None, counts: Counter[str]) -> LogRow:
    value, answer = _score(sample, scorer, counts)
    options = _options(sample.get("choices"))
    question = _question(sample.get("input"))
    metadata = sample.get("metadata")
    row = LogRow(
        native_id=str(sample["id"]),
        question=question,
        options=options,
        subject=next((dig(metadata, n) for n in _SUBJECTS if _is_word(dig(metadata, n))), None),
        prompt=question,
        epoch=int(sample.get("epoch") or 1),
        correct=value,
        flags=("error",) if sample.get("error") else (),
    )
    counts["failed-samples"] += bool(sample.get("error"))
    target = sample.get("target")
    golds, answers = named_options(target, options), named_options(answer, options)
    shared = [n for n in ("letter", "text", "list", "index", "index-1") if n in golds]
    both = [n for n in shared if n in answers]
    row.gold = {name: golds[name] for name in both or shared}
    if value not in (0.0, 1.0) or not row.gold:
        return row
    # one may be a letter and the other a text
    chosen = next((answers[n] for n in (*both, "letter", "text") if n in answers), None)
    if chosen is not None:
        several = len(chosen) > 1 or any(len(gold) > 1 for gold in row.gold.values())
        if several and scorer not in _ANY_TARGET:
            row.chosen = chosen
        else:
            row.prediction = chosen[0]
    row.answered = chosen is not None or value == 1.0
    if chosen is not None or value == 0.0:
        row.logged, row.correct = {"acc": value}, None
    return row


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.startswith("Key removed")


def named_options(value: Any, options: list[str]) -> dict[str, Gold]:
    """Return every way in which a target or an answer names options; several letters too.

    Examples
    --------
    >>> named_options("A, C", ["2", "3", "4"]), named_options(["A", "C"], ["2", "3", "4"])
    ({'letter': (0, 2)}, {'letter': (0, 2)})
    >>> named_options("C", ["2", "3"])
    {}
    """
    if not options or value is None or value == "":
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    found = read_gold(value, options)
    if not found and isinstance(value, str) and _LETTERS.fullmatch(value.strip()):
        letters = [ord(c) - ord("A") for c in value.replace("and", "") if c.isalpha()]
        if len(set(letters)) == len(letters) and max(letters) < len(options):
            found = {"letter": tuple(sorted(letters))}
    return found


def _options(choices: Any) -> list[str]:
    if isinstance(choices, dict):
        choices = list(choices.values())
    if not isinstance(choices, list):
        return []
    return [
        c if isinstance(c, str) else str(dig(c, "value") or dig(c, "text") or c) for c in choices
    ]


def _question(value: Any) -> str:
    """Return the text of the input, or of the last message that a user wrote."""
    if isinstance(value, list):
        asked = [m for m in value if dig(m, "role") in ("user", None)] or value
        value = asked[-1] if asked else ""
    if isinstance(value, dict):
        value = value.get("content", "")
    if isinstance(value, list):
        value = "\n".join(_part(part) for part in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    text = part.get("text")
    return text if isinstance(text, str) else f"({str(part.get('type')).capitalize()})"


def _score(
    sample: dict[str, Any], scorer: str | None, counts: Counter[str]
) -> tuple[float | None, Any]:
    """Return the value, None if there is none, and the answer that was scored."""
    scores = sample.get("scores")
    if isinstance(scores, dict) and scores:
        counts["several-scorers"] += len(scores) > 1
        score = scores[scorer] if scorer in scores else next(iter(scores.values()))
    else:
        score = sample.get("score")
    value = score.get("value") if isinstance(score, dict) else score
    if isinstance(value, (dict, list)):
        counts["several-values"] += len(value) > 1
        values = value.values() if isinstance(value, dict) else value
        value = next((v for v in values if not isinstance(v, (dict, list))), None)
    found = _number(value)
    if found is not None and not 0 <= found <= 1:
        counts["score-outside-range"] += 1
        found = None
    return found, dig(score, "answer")


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        word = value.strip()
        if (known := _WORDS.get(word, _WORDS.get(word.lower()))) is not None:
            return known
    return number(value)
