"""lm-evaluation-harness: ``samples_*.jsonl`` of 0.4.0 to 0.4.13, tolerant of 0.5 and of v2 of the
Open LLM Leaderboard, which is a fork of it.

Layouts: 0.4.0-0.4.2 one JSON array with numbers; 0.4.3-0.4.6 a row a line, numbers as text; from
0.4.7 with ``filter`` and ``metrics``; 0.5 with one more level around each answer. The results file
that was written with the samples, if it lies beside them, tells the model and the settings.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source
from harmony_utils.logs.streams import JsonText, json_lines, open_bytes
from harmony_utils.sources.documents import (
    last_question,
    option_labels,
    option_texts,
    passage_of,
    question_of,
)

NAME = "lm-eval"

METRICS = {
    "acc": ("sum", "mass"),
    "acc_norm": ("char", "char-stripped", "byte"),
    "acc_bytes": ("byte",),
    "acc_mutual_info": ("pmi",),
    "exact_match": ("prediction",),
}

#: Fields of a dataset row in which the gold option may stand, when the target does not say it.
_GOLD_FIELDS = ("answer", "answerKey", "label", "gold", "answer_index", "cop", "correct", "target")

#: Tasks known to be parts of one benchmark, if no results file says so.
_GROUPS = (
    "mmlu_pro",
    "mmlu",
    "leaderboard_bbh",
    "leaderboard_gpqa",
    "leaderboard_musr",
    "bbh_zeroshot",
    "bbh_fewshot",
    "bbh",
    "agieval",
    "cmmlu",
    "ceval-valid",
    "arabicmmlu",
    "blimp",
    "hendrycksTest",
)
_TIMESTAMP = re.compile(r"_(\d{4}-\d\d-\d\dT[\d\-:.]+)\.jsonl?")
_SUBJECT_FIELDS = frozenset(("subject", "category", "subdomain", "topic"))
_LETTERS = set(string.ascii_uppercase)


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    if not {"doc_id", "doc", "arguments", "resps"} <= set(row):
        return None
    if source.kind == "json-array":
        return "0.4.0-0.4.2"
    if "filter" not in row:
        return "0.4.3-0.4.6" if isinstance(row["arguments"], dict) else "0.4.0-0.4.2"
    first = (row.get("filtered_resps") or [None])[0]
    nested = isinstance(first, list) and first and isinstance(first[0], list)
    return "0.5" if nested else "0.4.7-0.4.13"


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    results = _results(source.path)
    task = _task(source.path, results)
    config = results.get("configs", {}).get(task, {})
    about = results.get("config", {})
    delimiter = config.get("target_delimiter")
    group = _group(task, results)
    header = LogHeader(
        format=NAME,
        version=results.get("lm_eval_version") or sniff(source) or "",
        model=_model(source.path, results, task),
        task=task,
        benchmark=group or task,
        subject=task.removeprefix(group).strip("_-") if group and group != task else None,
        metrics=METRICS,
        settings={
            "few_shot": results.get("n-shot", {}).get(task),
            "template": results.get("chat_template_sha"),
            "task_version": results.get("versions", {}).get(task),
            "limit": about.get("limit"),
        },
        reported=_reported(results, task, group),
        total_items=results.get("n-samples", {}).get(task, {}).get("original"),
    )
    if not results:
        header.flags.append(
            Flag(
                "no-results-file",
                "the results file written with these samples is not beside them: model, few-shot "
                "number and template are not known",
            )
        )
    return header, _rows(source, delimiter)


def _rows(source: Source, delimiter: str | None) -> Iterator[LogRow]:
    seen: Counter[Any] = Counter()
    with open_bytes(source.path) as stream:
        name = str(source.path)
        if source.kind == "json-array":
            numbered = enumerate(JsonText(stream, name).elements(), start=1)
        else:
            numbered = json_lines(stream, name)
        for line, raw in numbered:
            try:
                row = _row(raw, delimiter)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                raise InputError(
                    f"{name}, row {line}: not a row of lm-evaluation-harness "
                    f"({type(error).__name__}: {error})"
                ) from None
            row.line = line
            if row.loglik is None and "filter" not in raw:  # before 0.4.7 filters have no name
                row.split = f"#{seen[row.native_id] + 1}"
                seen[row.native_id] += 1
            yield row


def _row(raw: dict[str, Any], delimiter: str | None) -> LogRow:
    doc = raw["doc"] if isinstance(raw["doc"], dict) else {"text": raw["doc"]}
    requests = _requests(raw["arguments"])
    prompt = _text(requests[0][0])
    row = LogRow(
        native_id=str(raw["doc_id"]),
        passage=passage_of(doc),
        question=question_of(doc) or last_question(prompt),
        prompt=prompt,
        split="" if raw.get("filter", "none") == "none" else raw["filter"],
        subject=_subject(doc),
        logged={m: float(v) for m in METRICS if isinstance(v := raw.get(m), (int, float))},
    )
    if not isinstance(requests[0][1], str):
        return _generated(row, raw, doc)
    answers = raw["filtered_resps"]
    if len(answers) < len(requests):  # a filter that kept the first answer only
        answers = [repeats[0] for repeats in raw["resps"]]
    loglik = [_loglik(answer) for answer in answers]
    if len(loglik) == 1:  # one continuation, e.g. LAMBADA: right or wrong is all there is
        row.correct = row.logged.pop("acc", None)
        return row
    half = len(requests) // 2
    if len(requests) % 2 == 0 and half > 1 and all(r[0] == "" for r in requests[half:]):
        row.unconditional, loglik = loglik[half:], loglik[:half]
        requests = requests[:half]
    row.loglik = loglik
    _set_options(row, requests, doc, delimiter)
    row.gold = _gold(raw["target"], row, doc)
    return row


def _generated(row: LogRow, raw: dict[str, Any], doc: dict[str, Any]) -> LogRow:
    """A free answer: correct or not, and the option if the answer names one."""
    row.options = option_texts(doc)
    answer = raw["filtered_resps"][0]
    while isinstance(answer, list) and answer:
        answer = answer[0]
    row.correct = next(iter(row.logged.values()), None)
    if row.correct is None:
        row.correct = next((v for v in map(_number, _metric_values(raw)) if v is not None), None)
    labels = option_labels(doc)
    target = read_gold(raw["target"], row.options, labels=labels) if row.options else {}
    chosen = read_gold(answer, row.options, labels=labels) if row.options else {}
    shared = [name for name in ("letter", "label", "index", "text") if name in target]
    row.gold = {name: target[name] for name in shared}
    picked = next((chosen[name] for name in shared if name in chosen), None)
    row.prediction = picked[0] if picked else None
    row.answered = picked is not None or not row.gold
    return row


def _metric_values(raw: dict[str, Any]) -> list[Any]:
    return [raw.get(name) for name in raw.get("metrics", []) if isinstance(name, str)]


def _requests(arguments: Any) -> list[tuple[Any, Any]]:
    """Return ``(context, continuation)`` of each request in the order they were made."""
    if isinstance(arguments, dict):
        names = list(arguments)
        if len(names) > 10:  # gen_args_10 comes after gen_args_9
            names.sort(key=lambda name: int(name.rsplit("_", 1)[1]))
        else:
            names.sort()
        parts = [arguments[name] for name in names]
        return [(part["arg_0"], part.get("arg_1", "")) for part in parts]
    return [(part[0], part[1] if len(part) > 1 else "") for part in arguments]


def _text(context: Any) -> str:
    return context if isinstance(context, str) else json.dumps(context, ensure_ascii=False)


def _loglik(answer: Any) -> float:
    """Read ``[log-likelihood, greedy]``, whose numbers may be text and one level deeper."""
    while isinstance(answer, list):
        answer = answer[0]
    return math.nan if answer is None else float(answer)


def _number(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value)
    return None


def _set_options(
    row: LogRow, requests: list[tuple[Any, Any]], doc: dict[str, Any], delimiter: str | None
) -> None:
    """Tell the options from what was scored."""
    scored = [_text(continuation) for _, continuation in requests]
    if len(set(scored)) == 1 and len({_text(c) for c, _ in requests}) > 1:
        texts = option_texts(doc)  # the options stand in the contexts, e.g. WinoGrande
        row.options = texts if len(texts) == len(scored) else _differences(requests)
        row.scored = [last_question(_text(context)) for context, _ in requests]
        return
    cut = " " if delimiter is None else delimiter
    scored = [text[len(cut) :] if cut and text.startswith(cut) else text for text in scored]
    row.options = scored
    if all(text.strip("(). ") in _LETTERS for text in scored):
        texts = option_texts(doc)
        if len(texts) == len(scored):
            row.options, row.scored = texts, scored


def _differences(requests: list[tuple[Any, Any]]) -> list[str]:
    """Return what differs between the contexts, cut at whole words."""
    words = [_text(context).split(" ") for context, _ in requests]
    start = 0
    while all(len(w) > start for w in words) and len({w[start] for w in words}) == 1:
        start += 1
    return [" ".join(w[start:]) for w in words]


def _gold(target: Any, row: LogRow, doc: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return every reading of the gold option."""
    found = read_gold(target, row.options, labels=option_labels(doc))
    labels = (doc.get("mc2_targets") or {}).get("labels")
    if labels and len(labels) == len(row.options):
        found["doc.mc2_targets"] = tuple(i for i, label in enumerate(labels) if label == 1)
    if found and "doc.mc2_targets" not in found:
        return found
    for name in _GOLD_FIELDS:
        if doc.get(name) not in (None, ""):
            for kind, gold in read_gold(doc[name], row.options).items():
                found.setdefault(f"doc.{name}" + ("-1" if kind == "index-1" else ""), gold)
    return found


def _subject(doc: dict[str, Any]) -> str | None:
    if _SUBJECT_FIELDS.isdisjoint(doc):
        return None
    for name in ("subject", "category", "subdomain", "topic"):
        if isinstance(doc.get(name), str) and doc[name]:
            return doc[name]
    return None


# the results file ---------------------------------------------------------------------------


def _results(path: Path) -> dict[str, Any]:
    """Read the results file with the samples' time stamp, or the only one beside them."""
    stamp = _TIMESTAMP.search(path.name)
    if stamp:
        candidates = [path.with_name(f"results_{stamp[1]}.json")]
        candidates += sorted(path.parent.glob(f"*_{stamp[1]}.json"))
    else:
        candidates = sorted(path.parent.glob("results*.json"))
        candidates = candidates if len(candidates) == 1 else []
    for candidate in candidates:
        try:
            with open_bytes(candidate) as stream:
                found = json.load(stream)
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and "results" in found:
            return found
    return {}


def _task(path: Path, results: dict[str, Any]) -> str:
    name = path.name
    for ending in (".gz", ".zst", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    name = _TIMESTAMP.sub("", f"{name}.json").removesuffix(".json")
    known = [*results.get("configs", {}), *results.get("results", {})]
    ends = [task for task in known if name.endswith(task)]
    if ends:
        return max(ends, key=len)
    return name.removeprefix("samples_").rsplit("::", 1)[-1]


def _group(task: str, results: dict[str, Any]) -> str:
    """Return the outermost group that a task belongs to, or ``""``."""
    parents = {
        child: group
        for group, children in results.get("group_subtasks", {}).items()
        for child in children
        if child != group
    }
    group = ""
    while task in parents and len(parents) > 0:
        task = group = parents.pop(task)
    if group:
        return group
    return next((g for g in _GROUPS if task.startswith((f"{g}_", f"{g}-"))), "")


def _model(path: Path, results: dict[str, Any], task: str) -> str:
    if results.get("model_name"):
        return str(results["model_name"])
    arguments = results.get("config", {}).get("model_args") or ""
    if isinstance(arguments, dict):
        arguments = ",".join(f"{k}={v}" for k, v in arguments.items())
    for part in str(arguments).split(","):
        key, _, value = part.partition("=")
        if key in ("pretrained", "model", "path") and value:
            return value
    if path.name.startswith("samples_"):
        return path.parent.name.replace("__", "/")
    found = re.match(r"(?:pretrained|model)__(.+?)(?:,|_" + re.escape(task) + ")", path.name)
    return found[1].replace("__", "/") if found else path.parent.name


def _reported(results: dict[str, Any], task: str, group: str) -> dict[str, float]:
    """Return the log's own averages of the task and of its group."""
    found = {}
    for prefix, name in (("", task), ("group:", group)):
        for key, value in results.get("results", {}).get(name, {}).items():
            metric = key.split(",")[0]
            if isinstance(value, (int, float)) and metric in METRICS:
                found.setdefault(prefix + metric, float(value))
    return found
