"""Rows of a tool's file → rows of a log, with one clear line where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.rows import LogRow
from harmony_utils.logs.sources import Source, source_rows

WRONG = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What a row of another shape raises."""


def convert_rows(
    source: Source, convert: Callable[[dict[str, Any]], LogRow | None], *, tool: str
) -> Iterator[LogRow]:
    """Yield the converted rows of a file.

    Parameters
    ----------
    source : Source
        Lines, an array, a table or one object.
    convert : callable
        Makes a row of an object; None leaves it out.
    tool : str
        For messages.

    Raises
    ------
    InputError
        For a row that is no object or has another shape, with its number.
    """
    for line, raw in source_rows(source):
        row = convert_one(raw, convert, where=f"{source.path}, row {line}", tool=tool)
        if row is not None:
            row.line = line
            yield row


def convert_one(
    raw: Any, convert: Callable[[dict[str, Any]], LogRow | None], *, where: str, tool: str
) -> LogRow | None:
    """Convert one row; its place is named if it has another shape."""
    if not isinstance(raw, dict):
        raise InputError(f"{where}: not a row of {tool} ({type(raw).__name__}, not an object)")
    try:
        return convert(raw)
    except WRONG as error:
        raise InputError(
            f"{where}: not a row of {tool} ({type(error).__name__}: {error})"
        ) from None
