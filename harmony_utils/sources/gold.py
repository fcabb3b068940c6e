"""Which option is correct: the ways a gold column is written, and telling them apart.

Under ``auto`` three readings are tried on the whole column: ``index`` (whole numbers counted from
0), ``letter`` (A is the first option) and ``text`` (the option itself, written out). A reading
counts only if it fits every row. If two fit and disagree, or none fits, the column is refused: it
is never read row by row, because then one file could mean two things.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

from harmony_utils.errors import InputError

MIN_ROWS_FOR_PATTERN = 10
AUTO_KINDS = ("index", "letter", "text")

Reading = Callable[[Any, Sequence[str], Sequence[str]], int | None]


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    text = value.strip() if isinstance(value, str) else ""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() else None


def _within(number: int | None, options: Sequence[str]) -> int | None:
    return number if number is not None and 0 <= number < len(options) else None


def _only_match(value: Any, texts: Sequence[str]) -> int | None:
    matches = [i for i, text in enumerate(texts) if text == str(value).strip()]
    return matches[0] if len(matches) == 1 else None


def _read_index(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    return _within(_whole_number(value), options)


def _read_position(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    number = _whole_number(value)
    return None if number is None else _within(number - 1, options)


def _read_letter(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    letter = value.strip().upper() if isinstance(value, str) else ""
    return _within(string.ascii_uppercase.find(letter), options) if len(letter) == 1 else None


def _read_text(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    return _only_match(value, options)


def _read_label(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    return _within(_only_match(value, labels), options)


def _read_first(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    return 0


def _read_one_hot(value: Any, options: Sequence[str], labels: Sequence[str]) -> int | None:
    if not isinstance(value, list) or len(value) != len(options):
        return None
    marked = [i for i, mark in enumerate(value) if mark]
    return marked[0] if len(marked) == 1 else None


READINGS: dict[str, Reading] = {
    "index": _read_index,  # a whole number counted from 0
    "position": _read_position,  # a whole number counted from 1
    "letter": _read_letter,  # A is the first option
    "text": _read_text,  # the option itself
    "label": _read_label,  # looked up among the labels of the item's options
    "first": _read_first,  # nothing: the first option is always the correct one
    "one_hot": _read_one_hot,  # a list of marks, one set
}


def _expected(kind: str, options: Sequence[str], labels: Sequence[str]) -> str:
    last = len(options) - 1
    return {
        "index": f"a number from 0 to {last}",
        "position": f"a number from 1 to {last + 1}",
        "letter": f"a letter from A to {string.ascii_uppercase[min(last, 25)]}",
        "text": "the text of exactly one option",
        "label": f"one of the labels {', '.join(labels)}",
        "first": "the first option",
        "one_hot": f"a list of {last + 1} marks with exactly one set",
    }[kind]


def read_golds(
    values: Sequence[Any],
    options: Sequence[Sequence[str]],
    places: Sequence[str],
    *,
    kind: str = "auto",
    labels: Sequence[Sequence[str]] | None = None,
) -> list[int]:
    """Return the index of the correct option of each row.

    Parameters
    ----------
    values, options : sequence
        The gold column and the options, one entry per row.
    places : sequence of str
        What to call each row in an error, e.g. ``"quiz.csv, row 3"``.
    kind : str
        ``auto``, or one of :data:`READINGS`, which say what each means.
    labels : sequence of sequence of str, optional
        The labels of each row's options, for ``label``.

    Returns
    -------
    list of int, counted from 0

    Raises
    ------
    InputError
        If a value does not fit, or the column mixes kinds or can be read in two ways.

    Examples
    --------
    >>> read_golds(["B", "A"], [["3", "4"], ["5", "6"]], ["row 1", "row 2"])
    [1, 0]
    """
    table = labels if labels is not None else [()] * len(values)
    readings = {
        name: [READINGS[name](*row) for row in zip(values, options, table, strict=True)]
        for name in (AUTO_KINDS if kind == "auto" else (kind,))
    }
    _refuse_empty(readings, values, places)
    complete = {name: column for name, column in readings.items() if None not in column}
    if not complete:
        raise InputError(_explain(readings, values, options, places, table))
    _refuse_two_readings(complete, values, places)
    chosen, column = next(iter(complete.items()))
    if kind == "auto" and chosen == "index":
        _refuse_unclear_start(column, values, options, places)
    return column


def _refuse_empty(
    readings: dict[str, list[int | None]], values: Sequence[Any], places: Sequence[str]
) -> None:
    """Name the first row without a gold, where the kind needs one."""
    for value, place, *read in zip(values, places, *readings.values(), strict=True):
        if value in (None, "") and all(result is None for result in read):
            raise InputError(f"{place}: gold is empty: write the correct option")


def _refuse_two_readings(
    complete: dict[str, list[int | None]], values: Sequence[Any], places: Sequence[str]
) -> None:
    """Refuse a column that two readings fit with different answers."""
    names = list(complete)
    for place, value, *read in zip(places, values, *complete.values(), strict=True):
        if len(set(read)) > 1:
            raise InputError(
                f"{place}: gold {value!r} can be read as {' or as '.join(names)}, with different "
                f"answers: say which, for example with ?gold_is={names[0]} after the file name"
            )


def _refuse_unclear_start(
    column: Sequence[int | None],
    values: Sequence[Any],
    options: Sequence[Sequence[str]],
    places: Sequence[str],
) -> None:
    """Refuse numbers that never say 0 and would also fit if counted from 1."""
    from_one = [_read_position(value, row, ()) for value, row in zip(values, options, strict=True)]
    if len(column) >= MIN_ROWS_FOR_PATTERN and 0 not in column and None not in from_one:
        raise InputError(
            f"{places[0]}: no gold in the file is 0, so it is unclear whether they count from 0 or "
            "from 1: add ?gold_is=index or ?gold_is=position after the file name"
        )


def _explain(
    readings: dict[str, list[int | None]],
    values: Sequence[Any],
    options: Sequence[Sequence[str]],
    places: Sequence[str],
    labels: Sequence[Sequence[str]],
) -> str:
    """Say which row breaks the reading that fits most rows, and why."""
    best = max(readings, key=lambda name: sum(read is not None for read in readings[name]))
    first = readings[best].index(None)
    value, place, row = values[first], places[first], options[first]
    if all(read is None for read in readings[best]) and len(readings) > 1:
        kinds = [_expected(name, row, ()) for name in readings]
        return f"{place}: gold {value!r} is neither {', '.join(kinds[:-1])} nor {kinds[-1]}"
    other = next((name for name in readings if readings[name][first] is not None), None)
    if other is not None:
        return (
            f"{place}: gold {value!r} is written as {other}, other rows as {best}: "
            "write all of them the same way"
        )
    pairs = zip(values, options, strict=True)
    if best == "index" and all(_read_position(*pair, ()) is not None for pair in pairs):
        return (
            f"{place}: gold {value!r} lies outside the {len(row)} options: numbers count from 0; "
            "add ?gold_is=position after the file name if yours count from 1"
        )
    return f"{place}: gold {value!r} is not {_expected(best, row, labels[first])}"
