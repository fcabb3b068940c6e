"""lighteval: Parquet details of every layout.

Since 0.11 three struct columns, before that one column for each field; from 0.5 to 0.7 every cell
is the text of a Python value. Version 3 of the Open LLM Leaderboard's old details is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from harmony_utils.errors import InputError
from harmony_utils.logs.cells import cell, dig
from harmony_utils.logs.details import Detail, header_of, row_of
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source
from harmony_utils.logs.streams import (
    JsonText,
    json_lines,
    open_bytes,
    parquet_columns,
    parquet_rows,
)
from harmony_utils.sources.documents import last_question

NAME = "lighteval"

_STRUCTS = {"doc", "model_response"}
_DOC = ("query", "choices", "gold_index", "instruction", "specific", "id", "task_name")
_RESPONSE = (
    "logprobs",
    "unconditioned_logprobs",
    "output_tokens",
    "text",
    "truncated_tokens_count",
)
_FLAT = [
    "example",
    "query",
    "full_prompt",
    "instruction",
    "choices",
    "gold",
    "gold_index",
    "predictions",
    "cont_tokens",
    "metrics",
    "specifics",
    "specific",
    "truncated",
    "task_name",
    "num_asked_few_shots",
    "hashes",
    "acc",
    "acc_norm",
    "mc1",
    "mc2",
]
_METRICS = ("acc", "acc_norm", "mc1", "mc2")

PADDED = Flag(
    "padded-lengths",
    "token lists are padded with -1; lighteval divides by the padded length, so its "
    "token-normalised scores order options as their sums do; here padding is not counted",
)


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    names = column_names(source)
    if names >= _STRUCTS and names & {"metric", "metrics"}:
        return "0.11+"
    if not names >= {"predictions", "gold_index", "choices"}:
        return None
    if not names & {"specifics", "specific", "prediction_logits"}:
        return "0.3 or Open LLM Leaderboard v1"
    if source.kind != "parquet":
        return "0.5-0.10"
    kind = parquet_columns(source.path).field("predictions").type
    return "0.5-0.7" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "0.8-0.10"


def column_names(source: Source) -> set[str]:
    """Return the names of the columns of a table, or of its first row."""
    return set(source.columns if source.kind == "parquet" else source.row)


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    return read_details(source, NAME, sniff(source) or "")


def read_details(source: Source, name: str, version: str) -> tuple[LogHeader, Iterator[LogRow]]:
    """Return header and rows of details of any layout, under the name of a format."""
    structs = column_names(source) >= _STRUCTS
    first = next(_raw(source, structs), None)
    if first is None:
        raise InputError(f"{source.path}: no rows")
    details = _detail(first, 0, structs, source)
    header = header_of(name, version, source.path, details.task)
    if header.settings["few_shot"] is None and not structs:
        header.settings["few_shot"] = cell(first.get("num_asked_few_shots"))
    return header, _rows(source, structs, header)


def _raw(source: Source, structs: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the columns that are needed."""
    if source.kind == "parquet":
        wanted = [f"doc.{n}" for n in _DOC] + [f"model_response.{n}" for n in _RESPONSE]
        wanted += ["metric", "metrics"]
        if not structs:
            names = column_names(source)
            wanted = [n for n in _FLAT if n in names] + [
                n for n in names if n.startswith(("metrics.", "hashes."))
            ]
        yield from parquet_rows(source.path, wanted)
        return
    with open_bytes(source.path) as stream:
        if source.kind == "json-array":
            yield from JsonText(stream, str(source.path)).elements()
        else:
            yield from (row for _, row in json_lines(stream, str(source.path)))


def _rows(source: Source, structs: bool, header: LogHeader) -> Iterator[LogRow]:
    notes: set[str] = set()
    for position, raw in enumerate(_raw(source, structs)):
        detail = _detail(raw, position, structs, source)
        row = row_of(detail, header, notes)
        row.line = position + 1
        yield row
    if PADDED.flag in notes:
        header.flags.append(PADDED)


def _detail(raw: dict[str, Any], position: int, structs: bool, source: Source) -> Detail:
    try:
        return _of_structs(raw, position) if structs else _of_columns(raw, position)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{source.path}, row {position + 1}: not a row of lighteval's details "
            f"({type(error).__name__}: {error})"
        ) from None


def _of_structs(raw: dict[str, Any], position: int) -> Detail:
    doc, response = cell(raw["doc"]), cell(raw["model_response"])
    query, instruction = str(doc.get("query") or ""), doc.get("instruction")
    if isinstance(instruction, str) and instruction.strip():
        query = query.removeprefix(instruction).lstrip()
    return Detail(
        query=query,
        prompt=str(doc.get("query") or ""),
        choices=_texts(doc.get("choices")),
        gold=cell(doc.get("gold_index")),
        scores=response.get("logprobs") or response.get("text"),
        unconditional=response.get("unconditioned_logprobs"),
        tokens=response.get("output_tokens"),
        metrics=_mapping(raw.get("metric", raw.get("metrics"))),
        specific=_mapping(doc.get("specific")),
        truncated=response.get("truncated_tokens_count"),
        native_id=str(doc.get("id") or position),
        task=str(doc.get("task_name") or ""),
    )


def _of_columns(raw: dict[str, Any], position: int) -> Detail:
    prompt = raw.get("full_prompt") or raw.get("query") or ""
    prompt = prompt if isinstance(prompt, str) else str(prompt)
    example = raw.get("example")
    query = example if isinstance(example, str) and "gold_index" in raw else ""
    native_id = str(position)
    if not query:  # the leaderboard's first details: the example is the dataset's own id
        query = last_question(prompt)
        native_id = str(example) if example not in (None, "") else native_id
    metrics = _mapping(raw.get("metrics"))
    metrics |= {n.removeprefix("metrics."): v for n, v in raw.items() if n.startswith("metrics.")}
    metrics |= {name: raw[name] for name in _METRICS if raw.get(name) is not None}
    gold = raw.get("gold_index")
    return Detail(
        query=query,
        prompt=prompt,
        choices=_texts(raw.get("choices")),
        gold=cell(raw.get("gold") if gold is None else gold),
        scores=cell(raw.get("predictions")),
        tokens=cell(raw.get("cont_tokens")),
        metrics={name: cell(value) for name, value in metrics.items()},
        specific=_mapping(raw.get("specifics", raw.get("specific"))),
        truncated=cell(raw.get("truncated")),
        native_id=native_id,
        task=str(raw.get("task_name") or ""),
    )


def _mapping(value: Any) -> dict[str, Any]:
    value = cell(value)
    return dict(value) if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    value = cell(value)
    if isinstance(value, dict):
        value = dig(value, "text") or list(value.values())
    return [str(text) for text in value] if isinstance(value, (list, tuple)) else []
