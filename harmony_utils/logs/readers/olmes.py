"""OLMES (``oe_eval``) and its successor olmo-eval: ``*-predictions.jsonl``.

Predictions hold the log-likelihoods; options and prompts are in the requests file beside them (of
OLMES) or in the folder ``requests`` (of olmo-eval), joined by document and position.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.cells import dig
from harmony_utils.logs.converting import convert_rows
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source, read_beside, source_rows
from harmony_utils.logs.values import benchmark_and_subject, log_value, number, subject_of
from harmony_utils.sources.documents import option_texts, passage_of, question_of, spelled_out

NAME = "olmes"

#: Metrics of OLMES and the rule of each.
METRICS = {
    "acc_raw": ("sum",),
    "acc_per_token": ("token",),
    "acc_per_char": ("char",),
    "acc_per_byte": ("byte",),
    "acc_uncond": ("pmi",),
}
_FREE = ("primary_score", "exact_match", "acc", "accuracy", "correct", "pass_at_1", "f1")
_MAX_OPTIONS = 100

#: What OLMES writes for no limit is larger than any benchmark.
_NO_LIMIT = 10**9


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    if not {"native_id", "model_output"} <= set(row):
        return None
    if "instance_metrics" in row:
        return "olmo-eval"
    return "oe_eval" if isinstance(row.get("metrics"), dict) or "label" in row else None


@dataclass
class _Asked:
    """What the requests file says of one document."""

    doc: dict[str, Any]
    prompt: str = ""
    continuations: dict[int, str] = field(default_factory=dict)


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    new = sniff(source) == "olmo-eval"
    places = ["../../metrics.json"] if new else _names(source, "metrics", ".json")
    about = read_beside(source, *places)
    about = about if isinstance(about, dict) else {}
    asked, task = _requests(source)
    task = str(about.get("task_name") or task or _task(source))
    plain, _, template = task.split("::")[0].partition(":")
    benchmark, subject = benchmark_and_subject(plain)
    config = about.get("task_config") or {}
    limit = number(config.get("limit"))
    header = LogHeader(
        format=NAME,
        version="olmo-eval" if new else "oe_eval",
        model=_model(source, about),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics={} if new else METRICS,
        settings={
            "few_shot": config.get("num_shots"),
            "template": template or None,
            "limit": None if limit is None or limit >= _NO_LIMIT else config["limit"],
        },
        reported=_reported(about, task, new),
    )
    if not asked:
        header.flags.append(
            Flag(
                "no-requests-file",
                "the requests file is not beside the predictions: questions and options are not "
                "known, items are matched by their id",
            )
        )
    return header, _rows(source, header, asked, new=new)


def _reported(about: dict[str, Any], task: str, new: bool) -> dict[str, float]:
    """Return the tool's own averages: those of OLMES, or all of a task of olmo-eval."""
    if new:
        tasks = [t for t in dig(about, "tasks") or [] if dig(t, "task") == task]
        return {n: v for t in tasks for n, v in _flat(t.get("metrics")).items() if 0 <= v <= 1}
    metrics = about.get("metrics") or {}
    names = (*METRICS, "primary_score")
    return {n: float(v) for n, v in metrics.items() if n in names and number(v) is not None}


def _rows(
    source: Source, header: LogHeader, asked: dict[tuple[str, str], _Asked], *, new: bool
) -> Iterator[LogRow]:
    unclear = cut = 0
    for row in convert_rows(source, lambda raw: _row(raw, header, asked, new), tool="OLMES"):
        unclear += "label-not-a-number" in row.flags
        cut += len(row.loglik or ()) == _MAX_OPTIONS
        yield row
    if unclear:
        header.flags.append(
            Flag(
                "label-not-a-number",
                f"{unclear} rows have a label that is no number; the tool scored them as if the "
                "first option were correct, so its scores are not used for them",
            )
        )
    if cut:
        header.flags.append(
            Flag("options-cut", f"{cut} rows hold {_MAX_OPTIONS} options, the most the tool logs")
        )


def _row(
    raw: dict[str, Any], header: LogHeader, asked: dict[tuple[str, str], _Asked], new: bool
) -> LogRow:
    key = (str(raw.get("doc_id")), str(raw.get("native_id")))
    request = asked.get(key) or _Asked({})
    native = raw.get("native_id")
    row = LogRow(
        native_id=key[0] if native in (None, "") else key[1],
        question=question_of(request.doc),
        passage=passage_of(request.doc),
        prompt=request.prompt,
        subject=subject_of(request.doc),
    )
    outputs = [o for o in raw["model_output"] or [] if isinstance(o, dict)]
    scored = [output for output in outputs if "sum_logits" in output]
    texts = _texts(request, outputs)
    if len(scored) > 1:
        _scores(row, outputs, texts)
        if not row.options and len(known := option_texts(request.doc)) == len(row.loglik):
            row.options, row.n_options = known, None
        row.question, row.options = spelled_out(row.question, row.options)
    else:
        row.options = option_texts(request.doc) or [text.strip() for text in texts]
        row.options = row.options if len(row.options) > 1 else []
    metrics = _flat(raw.get("instance_metrics")) if new else raw.get("metrics") or {}
    if new:
        _new_gold(row, raw, outputs, metrics, header)
    else:
        _gold(row, raw, metrics)
    return row


def _texts(request: _Asked, outputs: list[dict[str, Any]]) -> list[str]:
    """Return the scored texts, as far as they are known: not all are where requests lack them."""
    asked = [request.continuations[i] for i in sorted(request.continuations)][: len(outputs)]
    own = [output.get("text") for output in outputs]  # of olmo-eval
    if len(asked) < len(outputs) and all(isinstance(text, str) and text for text in own):
        return own
    return asked


def _scores(row: LogRow, outputs: list[dict[str, Any]], texts: list[str]) -> None:
    """Take log-likelihoods and lengths; an option that was not returned is -inf."""
    sums = [log_value(output.get("sum_logits")) for output in outputs]
    half = len(outputs) // 2
    if any(number(o.get("sum_logits_uncond")) is not None for o in outputs):
        row.unconditional = [log_value(o.get("sum_logits_uncond")) for o in outputs]
    elif len(texts) == 2 * half > 2 and texts[:half] == texts[half:]:
        # the options once more without the question, of olmo-eval
        row.unconditional, sums = sums[half:], sums[:half]
        outputs, texts = outputs[:half], texts[:half]
    row.loglik = [-math.inf if math.isnan(value) else value for value in sums]
    row.tokens = [_count(o.get("num_tokens")) for o in outputs]
    characters = [_count(o.get("num_chars")) for o in outputs]
    if len(texts) == len(outputs):
        row.scored, row.options = texts, [text.strip() for text in texts]
    else:
        row.n_options, row.scored = len(outputs), [""] * len(outputs)
    if None not in characters:
        row.lengths["char"] = characters
    sizes = [_bytes(o) for o in outputs]
    if None not in sizes:
        row.lengths["byte"] = sizes


def _count(value: Any) -> int | None:
    found = number(value)
    return int(found) if found is not None and found > 0 else None


def _bytes(output: dict[str, Any]) -> int | None:
    """Return the length in bytes, which the log states as bits per byte.

    Early versions call that ``logits_per_byte``; it is positive, unlike a log-likelihood.
    """
    total = number(output.get("sum_logits"))
    bits = number(output.get("bits_per_byte", output.get("logits_per_byte")))
    if not total or not bits or math.isinf(total):
        return None
    return max(1, round(abs(total / (bits * (math.log(2) if bits > 0 else 1)))))


def _gold(row: LogRow, raw: dict[str, Any], metrics: dict[str, Any]) -> None:
    """Read gold and metrics of OLMES, whose ``correct_choice`` is right for whole numbers only."""
    label, size = raw.get("label"), len(row.loglik or row.options)
    if row.loglik is None:
        row.correct = next((v for n in _FREE if (v := number(metrics.get(n))) is not None), None)
        row.gold = {}
        return
    if isinstance(label, int) and not isinstance(label, bool):
        row.gold = {"label": (label,)} if 0 <= label < size else {}
        choice = metrics.get("correct_choice")
        if isinstance(choice, int) and 0 <= choice < size:
            row.gold["correct_choice"] = (choice,)
        row.logged = _logged(row, metrics)
        return
    row.flags = ("label-not-a-number",)
    row.gold = read_gold(label, row.options, n_options=size)


def _logged(row: LogRow, metrics: dict[str, Any]) -> dict[str, float]:
    """Return the metrics that the row's own values can reproduce."""
    possible = {
        "acc_raw": True,
        "acc_per_token": None not in (row.tokens or [None]),
        "acc_per_char": "char" in row.lengths or any(row.scored or []),
        "acc_per_byte": "byte" in row.lengths or any(row.scored or []),
        "acc_uncond": row.unconditional is not None,
    }
    return {
        name: value
        for name, can in possible.items()
        if can and (value := number(metrics.get(name))) is not None
    }


def _new_gold(
    row: LogRow,
    raw: dict[str, Any],
    outputs: list[dict[str, Any]],
    metrics: dict[str, float],
    header: LogHeader,
) -> None:
    """Read gold and metrics of olmo-eval: an index or the text of the answer."""
    size = len(row.loglik or row.options)
    label = raw.get("label")
    row.gold = read_gold(label, row.options, n_options=size) if size else {}
    sure = "index" if isinstance(label, int) else "text"
    if sure in row.gold:
        row.gold = {"label": row.gold[sure]}
    accuracies = {n: v for n, v in metrics.items() if n.startswith("acc")}
    if row.loglik is not None:
        for name in accuracies:
            header.metrics.setdefault(name, _rules(name))
        row.logged = {n: v for n, v in accuracies.items() if v in (0.0, 1.0)}
        return
    row.correct = next((v for v in (accuracies or metrics).values() if 0 <= v <= 1), None)
    said = outputs[0].get("extracted_answer") if outputs else None
    picked = read_gold(said, row.options) if row.options and said is not None else {}
    kind = next((name for name in ("text", "letter") if name in picked), None)
    if kind and row.gold:
        row.gold = {"label": next(iter(row.gold.values()))}
        row.prediction = picked[kind][0]
    elif row.correct is not None:
        row.gold = {}


def _rules(name: str) -> tuple[str, ...]:
    for word, rule in (
        ("token", "token"),
        ("char", "char"),
        ("byte", "byte"),
        ("uncond", "pmi"),
        ("pmi", "pmi"),
        ("raw", "sum"),
    ):
        if word in name:
            return (rule,)
    return ("sum", "char", "token", "byte", "pmi")


def _flat(metrics: Any) -> dict[str, float]:
    """Return ``{metric: {scorer: value}}`` as ``{metric/scorer: value}``."""
    found = {}
    for name, values in (metrics or {}).items():
        for scorer, value in (values if isinstance(values, dict) else {"": values}).items():
            if number(value) is not None:
                found[f"{name}/{scorer}" if scorer else name] = number(value)
    return found


# the files beside ------------------------------------------------------------------------------


def _names(source: Source, part: str, ending: str) -> list[str]:
    """Return the name of the file of another part, e.g. ``task-000-arc-requests.jsonl``."""
    stem = re.sub(r"(\.(jsonl?|gz|zst))+$", "", source.path.name)
    return [f"{stem.replace('predictions', part)}{ending}"] if "predictions" in stem else []


def _requests(source: Source) -> tuple[dict[tuple[str, str], _Asked], str]:
    """Index the requests by document, with the task that they name."""
    folder, found, task = source.path.parent, {}, ""
    folders = [folder, folder / "../../requests" / folder.resolve().name]
    names = [f"{name}{end}" for name in _names(source, "requests", ".jsonl") for end in _ENDINGS]
    places = [place / name for place in folders for name in names if (place / name).is_file()]
    places = places[:1] or sorted(folder.glob("*requests*"))
    if len(places) != 1 or not places[0].is_file():
        return {}, ""
    try:
        for _, raw in source_rows(Source(places[0])):
            if not isinstance(raw, dict) or "request" not in raw:
                return {}, ""
            key = (str(raw.get("doc_id")), str(raw.get("native_id")))
            doc = raw.get("doc") if isinstance(raw.get("doc"), dict) else {}
            asked = found.setdefault(key, _Asked(doc))
            _add(asked, raw)
            task = task or str(raw.get("task_name") or "")
    except InputError as error:
        raise InputError(f"{error} (requests file of {source.path.name})") from None
    return found, task


_ENDINGS = ("", ".gz", ".zst")


def _add(asked: _Asked, raw: dict[str, Any]) -> None:
    request = raw["request"] if isinstance(raw["request"], dict) else {}
    context = request.get("context")
    asked.prompt = asked.prompt or (context if isinstance(context, str) else "")
    several = request.get("continuations")
    if isinstance(several, list):
        asked.continuations.update(enumerate(map(str, several)))
    elif isinstance(request.get("continuation"), str):
        index = raw.get("idx")
        index = index if isinstance(index, int) else len(asked.continuations)
        asked.continuations.setdefault(index, request["continuation"])


def _task(source: Source) -> str:
    stem = re.sub(r"(\.(jsonl?|gz|zst))+$", "", source.path.name)
    return re.sub(r"^task-\d+-|-?predictions$", "", stem) or source.path.parent.name


def _model(source: Source, about: dict[str, Any]) -> str:
    config = about.get("model_config") or dig(about, "config", "provider") or {}
    for name in ("model_path", "model", "metadata"):
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("alias")
        if isinstance(value, str) and value:
            return value
    return source.path.parent.resolve().name
