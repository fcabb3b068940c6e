"""From rows to items, following a table of columns; one way for every source."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.items import Item
from harmony_utils.sources.catalogue import Columns
from harmony_utils.sources.gold import read_golds
from harmony_utils.sources.prepare import PREPARATIONS, Row


def look_up(row: Mapping[str, Any], path: str) -> Any:
    """Return the value of a column; a dot steps into a column that holds an object."""
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(path)
        value = value[part]
    return value


def as_text(value: Any) -> str:
    """Return a cell as text: nothing for a missing value, paragraphs for a list."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(as_text(part) for part in value)
    return str(value).strip()


class _RowFormatter(string.Formatter):
    """``str.format`` over the columns of a row; no attribute of a value can be reached."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return as_text(look_up(kwargs, field_name)), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        return str(value)


def read_text(row: Row, column: str) -> str:
    """Return a column, or a template filled from the row, as stripped text."""
    if "{" in column:
        return _RowFormatter().vformat(column, (), row).strip()
    return as_text(look_up(row, column))


def read_options(row: Row, columns: Columns) -> list[str]:
    """Return the options of a row as texts.

    Raises
    ------
    KeyError
        If a column is missing.
    InputError
        If a value cannot be an option; the message says what is wrong, not where.
    """
    if columns.option_texts:
        return list(columns.option_texts)
    found: list[Any] = []
    for column in columns.options:
        value = look_up(row, column)
        found.extend(value if isinstance(value, list) else [value])
    if len(columns.options) == 1 and not isinstance(look_up(row, columns.options[0]), list):
        found = _list_in_text(found[0])
    while len(columns.options) > 1 and found and found[-1] in (None, ""):
        found.pop()
    for value in found:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"option {value!r} is not a text: write every option as text")
    return [str(value) if columns.keep_blanks else str(value).strip() for value in found]


def read_answers(row: Row, columns: Columns) -> list[str]:
    """Return the accepted answers of an open-ended question, each once.

    A column may hold a list, a list written as JSON, or one answer as text.

    Raises
    ------
    KeyError
        If a column is missing.
    InputError
        If there is no answer, or a value cannot be one.
    """
    found: list[Any] = []
    for column in columns.answers:
        value = look_up(row, column)
        found += value if isinstance(value, list) else (_json_list(value) or [value])
    for value in found:
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise InputError(f"answer {value!r} is not a text: write every answer as text")
    texts = [str(value).strip() for value in found if value is not None]
    kept = list(dict.fromkeys(text for text in texts if text))
    if not kept:
        raise InputError("has no accepted answer: write at least one, or remove the row")
    return kept


def _json_list(value: Any) -> list[Any] | None:
    """Return the list that stands as JSON in one cell, or nothing."""
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        return None
    return found if isinstance(found, list) else None


def _list_in_text(value: Any) -> list[Any]:
    """Read the options from a list that stands as JSON in one cell."""
    found = _json_list(value)
    if found is None:
        raise InputError(f'options {value!r} are not a list: write them like ["first", "second"]')
    return found


def shuffle_options(question: str, options: Sequence[str], gold: int) -> tuple[list[str], int]:
    """Put options in the order of a hash of question and option, and follow the gold one.

    Parameters
    ----------
    question : str
        The question.
    options : sequence of str
        Options in the order of the source, where the position may give the answer away.
    gold : int
        Index of the correct one.

    Returns
    -------
    options : list of str
        The same options. The order depends on nothing but the content: not on the order before,
        on a seed or on other items. Equal texts keep their order.
    gold : int
        Where the correct one went.

    Examples
    --------
    >>> first = shuffle_options("2 + 2 =", ["4", "3", "5"], 0)
    >>> first == shuffle_options("2 + 2 =", ["4", "5", "3"], 0)
    True
    """
    digests = [
        hashlib.sha256(json.dumps([question, text], ensure_ascii=False).encode()).hexdigest()
        for text in options
    ]
    order = sorted(range(len(options)), key=digests.__getitem__)
    return [options[i] for i in order], order.index(gold)


def to_items(rows: Iterable[Row], columns: Columns, places: Sequence[str]) -> tuple[Item, ...]:
    """Turn rows into items.

    Parameters
    ----------
    rows : iterable of dict
        Rows by column name, each with a ``_row`` number.
    columns : Columns
        Which column is what.
    places : sequence of str
        What to call each row in an error, e.g. ``"quiz.csv, row 3"``.

    Returns
    -------
    tuple of Item
        One item per row, in order.

    Raises
    ------
    InputError
        With the place of the first row that cannot be read.
    """
    prepare = PREPARATIONS[columns.prepare]
    prepared = [prepare(row) for row in rows]
    texts = [_texts(row, columns, place) for row, place in zip(prepared, places, strict=True)]
    if columns.answers:
        return tuple(Item(**text) for text in texts)
    golds = _golds(prepared, [text["options"] for text in texts], columns, places)
    items = []
    for text, gold, place in zip(texts, golds, places, strict=True):
        options = text.pop("options")
        if columns.shuffle:
            options, gold = shuffle_options(text["question"], options, gold)
        try:
            items.append(Item(options=tuple(options), gold=gold, **text))
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
    return tuple(items)


def _texts(row: Row, columns: Columns, place: str) -> dict[str, Any]:
    """Read everything but the gold of one row, naming the row if something is missing."""
    try:
        if columns.answers:
            answered = {"answers": tuple(read_answers(row, columns))}
        else:
            answered = {"options": read_options(row, columns)}
            if len(answered["options"]) < 2:
                raise InputError(f"needs at least two options, has {len(answered['options'])}")
        return {
            "id": read_text(row, columns.id),
            "question": read_text(row, columns.question),
            **answered,
            "subject": _optional_text(row, columns.subject),
            "passage": _optional_text(row, columns.passage),
            "group": _optional_text(row, columns.group),
        }
    except KeyError as error:
        known = ", ".join(name for name in row if not name.startswith("_"))
        raise InputError(f"{place}: has no {error.args[0]!r}, only {known}") from None
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _optional_text(row: Row, column: str | None) -> str | None:
    """Return a text that some rows may lack."""
    try:
        return (read_text(row, column) or None) if column else None
    except KeyError:
        return None


def _golds(
    rows: Sequence[Row],
    options: Sequence[Sequence[str]],
    columns: Columns,
    places: Sequence[str],
) -> list[int]:
    """Read the gold column of all rows together."""
    try:
        values = [look_up(row, columns.gold) if columns.gold else None for row in rows]
        labels = [look_up(row, columns.labels) for row in rows] if columns.labels else None
    except KeyError as error:
        broken = next(i for i, row in enumerate(rows) if not _has(row, error.args[0]))
        raise InputError(f"{places[broken]}: has no {error.args[0]!r}") from None
    kind = columns.gold_is
    if columns.gold_values:
        kind = "index"
        values = [columns.gold_values.get(str(value), value) for value in values]
    return read_golds(values, options, places, kind=kind, labels=labels)


def _has(row: Row, path: str) -> bool:
    try:
        look_up(row, path)
    except KeyError:
        return False
    return True
