"""Matrices of 0 and 1, models × items or items × models, with or without names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.readers.generic import COLUMNS
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source
from harmony_utils.logs.streams import JsonText, csv_rows, open_bytes, parquet_columns, parquet_rows
from harmony_utils.logs.values import share

NAME = "matrix"

_LOOKED_AT = 8
"""Rows from which the layout is told."""

_VALID = 0.75
"""Share of cells between 0 and 1 from which a table is taken as a matrix; others are errors."""

_MODELS = {*COLUMNS["model"], "models"}
_ITEMS = {*COLUMNS["item"], *COLUMNS["question"], "items"} - {"index", "key"}


@dataclass(frozen=True)
class _Layout:
    """Where the names are.

    Parameters
    ----------
    header : list of str or None
        The first line, if it holds names.
    named : bool
        Whether the first column holds names.
    """

    header: list[str] | None
    named: bool


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    layout = _layout(source)
    return layout and ("with names" if layout.header or layout.named else "without names")


def _layout(source: Source) -> _Layout | None:
    if source.kind not in ("text", "json-array", "parquet"):
        return None
    rows = list(islice(_cells(source), _LOOKED_AT))
    width = len(rows[0]) if rows else 0
    if width < 2 or len(rows) < 2 or any(len(row) != width for row in rows):
        return None
    has_header = source.kind == "parquet" or _is_header(rows[0])
    header = [str(cell).strip() for cell in rows[0]] if has_header else None
    body = rows[1:] if header else rows
    first = header[0].lower() if header else None
    named = any(not _is_cell(row[0]) for row in body) or first in (
        "",
        "unnamed: 0",
        *_MODELS,
        *_ITEMS,
    )
    cells = [cell for row in body for cell in row[named:]]
    if not cells or sum(map(_is_cell, cells)) < _VALID * len(cells):
        return None
    return _Layout(header, named)


def _is_header(row: list[Any]) -> bool:
    texts = [str(cell).strip() for cell in row[1:]]
    if sum(map(_is_cell, row[1:])) < len(texts) / 2 or str(row[0]).strip().lower() in _MODELS:
        return True
    if not all(text.isdigit() for text in texts) or len(texts) < 2:
        return False
    numbers = [int(text) for text in texts]
    return numbers[-1] > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _is_cell(cell: Any) -> bool:
    try:
        share(cell)
    except ValueError:
        return False
    return True


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    layout = _layout(source)
    if layout is None:
        raise InputError(f"{source.path}: not a matrix of 0 and 1")
    n_rows, n_columns = 0, 0
    for row in _cells(source):
        n_rows, n_columns = n_rows + 1, max(n_columns, len(row))
    n_rows, n_columns = n_rows - bool(layout.header), n_columns - layout.named
    by_model, why = _orientation(layout, n_rows, n_columns)
    models, items = (n_rows, n_columns) if by_model else (n_columns, n_rows)
    stem = re.sub(r"(\.(csv|tsv|txt|json|parquet|gz|zst))+$", "", source.path.name)
    header = LogHeader(
        format=NAME,
        version="rows are models" if by_model else "rows are items",
        model=stem,
        task=stem,
        benchmark=stem,
        flags=[
            Flag(
                "matrix-orientation",
                f"read as {models} models × {items} items, {'rows' if by_model else 'columns'} "
                f"are models: {why}",
            )
        ],
    )
    return header, _rows(source, layout, by_model=by_model)


def _orientation(layout: _Layout, n_rows: int, n_columns: int) -> tuple[bool, str]:
    first = layout.header[0].lower() if layout.header else ""
    if layout.named and first in _MODELS:
        return True, f"the first column is called {first!r}"
    if layout.named and first in _ITEMS:
        return False, f"the first column is called {first!r}"
    if layout.named:
        return True, "an assumption, as the first column holds names"
    if n_rows <= n_columns:
        return True, f"an assumption, as there are no more rows ({n_rows}) than columns"
    return False, f"an assumption, as there are fewer columns ({n_columns}) than rows"


def _rows(source: Source, layout: _Layout, *, by_model: bool) -> Iterator[LogRow]:
    names: list[str] = []
    for line, row in enumerate(_cells(source), start=1):
        if line == 1:
            names = layout.header or [str(i) for i in range(1, len(row) + 1)]
            if not layout.header and layout.named:
                names = ["", *names[:-1]]
            if layout.header:
                continue
        if len(row) != len(names):
            raise InputError(f"{source.path}, row {line}: {len(row)} cells, not {len(names)}")
        own = str(row[0]).strip() if layout.named else str(line - bool(layout.header))
        for name, cell in zip(names[layout.named :], row[layout.named :], strict=True):
            try:
                right = share(cell)
            except ValueError as error:
                raise InputError(f"{source.path}, row {line}, column {name!r}: {error}") from None
            model, item = (own, name) if by_model else (name, own)
            model = model if layout.named or layout.header else f"model {model}"
            yield LogRow(
                native_id=item,
                model=model,
                correct=right,
                logged={"correct": float("nan") if right is None else right},
                line=line,
            )


def _cells(source: Source) -> Iterator[list[Any]]:
    """Yield the lines of cells, names first where the file keeps them apart."""
    if source.kind == "parquet":
        names = parquet_columns(source.path).names
        yield names
        for row in parquet_rows(source.path):
            yield [row[name] for name in names]
        return
    with open_bytes(source.path) as stream:
        if source.kind == "text":
            for row in csv_rows(stream, source.delimiter):
                if row:
                    yield row
        else:
            for row in JsonText(stream, str(source.path)).elements():
                if not isinstance(row, list):
                    return
                yield row
