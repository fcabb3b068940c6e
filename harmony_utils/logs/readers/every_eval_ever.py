"""Every Eval Ever: one row for each answer in its schema for instances; no log-likelihoods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from harmony_utils.logs.converting import convert_rows
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import LogHeader, LogRow
from harmony_utils.logs.sources import Source
from harmony_utils.logs.values import benchmark_and_subject, number, plain_text, subject_of

NAME = "every-eval-ever"


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
    header = LogHeader(
        format=NAME,
        version=str(row.get("schema_version") or ""),
        model=str(row["model_id"]),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics={"is_correct": ("prediction",)},
    )
    return header, _rows(source)


def _rows(source: Source) -> Iterator[LogRow]:
    seen: Counter[tuple[str | None, str | None, str]] = Counter()
    for row in convert_rows(source, _row, tool="Every Eval Ever"):
        key = (row.model, row.task, row.native_id)
        row.epoch, seen[key] = seen[key], seen[key] + 1
        yield row


def _row(raw: dict[str, Any]) -> LogRow:
    asked = raw.get("input") if isinstance(raw.get("input"), dict) else {}
    choices = asked.get("choices")
    options = [plain_text(c) if not isinstance(c, (int, float)) else str(c) for c in choices or []]
    judged = raw["evaluation"]
    right = number(judged.get("is_correct"))
    right = number(judged.get("score")) if right is None else right
    if right is not None and not 0 <= right <= 1:
        raise ValueError(f"score {right} is outside 0..1")
    row = LogRow(
        native_id=str(raw["sample_id"]),
        question=plain_text(asked.get("raw")),
        options=options if len(options) > 1 else [],
        model=str(raw["model_id"]),
        task=str(raw["evaluation_name"]) if raw.get("evaluation_name") else None,
        subject=subject_of(raw.get("metadata")),
        correct=right,
    )
    reference = asked.get("reference")
    if isinstance(reference, list) and len(reference) == 1:
        reference = reference[0]
    if row.options and reference is not None and right is not None:
        _judge(row, reference, _answer(raw), right)
    return row


def _judge(row: LogRow, reference: Any, said: Any, right: float) -> None:
    golds, found = read_gold(reference, row.options), read_gold(said, row.options)
    shared = [name for name in ("text", "letter", "index") if name in golds and name in found]
    if shared:
        row.gold, row.prediction = {"answer": golds[shared[0]]}, found[shared[0]][0]
        if right in (0.0, 1.0):
            row.logged["is_correct"] = right


def _answer(raw: dict[str, Any]) -> Any:
    """Return what the answer was read as, or the answer itself."""
    steps = raw.get("answer_attribution")
    for step in reversed(steps if isinstance(steps, list) else [steps]):
        if isinstance(step, dict) and step.get("extracted_value") not in (None, ""):
            return step["extracted_value"]
    output = raw.get("output")
    said = output.get("raw") if isinstance(output, dict) else output
    return said[0] if isinstance(said, list) and said else said
