"""Every Eval Ever: rows in its schema for instances, converted from logs of other tools.

A sample has a row for each metric where the tool logged several (HELM). Log-likelihoods are there
only where lighteval's were converted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from harmony_utils.logs.converting import WRONG, convert_rows
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.readers.helm import task_of_run
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source, source_rows
from harmony_utils.logs.values import (
    benchmark_and_subject,
    log_value,
    number,
    plain_text,
    subject_of,
)

NAME = "every-eval-ever"

#: Metrics that say whether an answer was right, best first.
_PREFERRED = ("exact_match", "quasi_exact_match", "prefix_exact_match", "acc", "accuracy")


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    if not {"sample_id", "model_id", "evaluation"} <= set(row):
        return None
    if not isinstance(row["evaluation"], dict):
        return None
    return str(row.get("schema_version") or "unknown version")


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    task = str(row.get("evaluation_name") or source.path.stem)
    benchmark, subject = benchmark_and_subject(task)
    if ",model=" in task:  # the name of a run of HELM
        benchmark, subject, _ = task_of_run(task)
    header = LogHeader(
        format=NAME,
        version=str(row.get("schema_version") or ""),
        model=str(row["model_id"]),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics={"is_correct": ("prediction", "sum", "char", "char-stripped", "byte")},
    )
    return header, _rows(source, header)


def _rows(source: Source, header: LogHeader) -> Iterator[LogRow]:
    metric = _metric(source)
    if metric:
        sentence = f"samples have a row for each of several metrics; {metric} is used"
        header.flags.append(Flag("several-scorers", sentence))
    seen: Counter[tuple[str | None, str | None, str, str]] = Counter()

    def convert(raw: dict[str, Any]) -> LogRow | None:
        parts = str(raw.get("evaluation_result_id")).split(":")  # metric, split, perturbation
        return _row(raw) if not metric or (parts[0] == metric and len(parts) < 3) else None

    for row in convert_rows(source, convert, tool="Every Eval Ever"):
        key = (row.model, row.task, row.native_id, row.split)
        row.epoch, seen[key] = seen[key], seen[key] + 1
        yield row


def _metric(source: Source) -> str:
    """Return the metric to use where a sample has rows of several, else ``""``."""
    found: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for _, raw in source_rows(source):
        if isinstance(raw, dict) and isinstance(raw.get("evaluation_result_id"), str):
            names = ("model_id", "evaluation_name", "sample_id")
            found[tuple(str(raw.get(n)) for n in names)][raw["evaluation_result_id"]] = None
    several = [name.split(":")[0] for names in found.values() if len(names) > 1 for name in names]
    ranks = {name: i for i, name in enumerate(_PREFERRED)}
    return min(several, key=lambda name: ranks.get(name, len(ranks)), default="")


def _row(raw: dict[str, Any]) -> LogRow:
    asked = raw.get("input") if isinstance(raw.get("input"), dict) else {}
    choices = asked.get("choices")
    options = [plain_text(c) if not isinstance(c, (int, float)) else str(c) for c in choices or []]
    judged = raw["evaluation"]
    right = number(judged.get("is_correct"))
    right = number(judged.get("score")) if right is None else right
    if right is not None and not 0 <= right <= 1:
        raise ValueError(f"score {right} is outside 0..1")
    about = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    answer_filter = about.get("filter")
    split = answer_filter if isinstance(answer_filter, str) and answer_filter != "none" else ""
    name = str(raw.get("evaluation_name") or "")
    row = LogRow(
        native_id=str(raw["sample_id"]),
        question=plain_text(asked.get("raw")),
        options=options if len(options) > 1 else [],
        model=str(raw["model_id"]),
        task=name.removesuffix(f"/{split}") or None,
        split=split,
        subject=subject_of(about),
        correct=right,
    )
    reference = asked.get("reference")
    if isinstance(reference, list) and len(reference) == 1:
        reference = reference[0]
    different = len(set(row.options)) == len(row.options)  # else the options are the contexts
    if row.options and different and reference is not None and right is not None:
        _judge(row, reference, _answer(raw), right, _scores(about, len(row.options)))
    return row


def _judge(row: LogRow, reference: Any, said: Any, right: float, scores: list[float]) -> None:
    """Read reference and answer, which need not be written alike: one may be a letter."""
    golds, found = read_gold(reference, row.options), read_gold(said, row.options)
    golds.pop("index-1", None)
    chosen = next((found[name] for name in ("text", "letter", "index") if name in found), None)
    if not golds or (chosen is None and not scores):
        return
    row.gold = golds
    if scores:
        row.loglik, row.scored = scores, row.options
        row.options = [option.strip() for option in row.options]
    else:
        row.prediction = chosen[0]
    if right in (0.0, 1.0):
        row.logged["is_correct"] = right


def _scores(about: dict[str, Any], size: int) -> list[float]:
    """Return the log-likelihoods of the options, ``[]`` where they are not all there."""
    try:
        values = json.loads(about.get("choice_logprobs") or "[]")
    except WRONG:
        return []
    same = isinstance(values, list) and len(values) == size
    return [log_value(value) for value in values] if same else []


def _answer(raw: dict[str, Any]) -> Any:
    """Return what the answer was read as, or the answer itself."""
    steps = raw.get("answer_attribution")
    for step in reversed(steps if isinstance(steps, list) else [steps]):
        if isinstance(step, dict) and step.get("extracted_value") not in (None, ""):
            return step["extracted_value"]
    output = raw.get("output")
    said = output.get("raw") if isinstance(output, dict) else output
    return said[0] if isinstance(said, list) and said else said
