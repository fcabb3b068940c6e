"""Reading JSONL, JSON, CSV, TSV and Parquet files into rows, each with a name a person can find."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harmony_utils.errors import InputError
from harmony_utils.sources.prepare import Row


@dataclass(frozen=True)
class Table:
    """Rows of a file or dataset.

    Parameters
    ----------
    rows : list of dict
        Rows by column name, each with a ``_row`` number.
    places : list of str
        What to call each row in an error: ``"quiz.jsonl, line 3"`` (the line of the file) or
        ``"quiz.csv, row 3"`` (as a spreadsheet numbers it: the header is row 1; in Parquet files,
        which have none, the first row is row 1).
    names : list of str
        Names of all columns.
    """

    rows: list[Row]
    places: list[str]
    names: list[str]


def read_table(path: Path) -> Table:
    """Read a file; its ending says the format.

    Parameters
    ----------
    path : Path
        A ``.jsonl``, ``.json`` (a list of objects), ``.csv``, ``.tsv`` or ``.parquet`` file. Text
        must be UTF-8; a byte order mark and blank lines are skipped.

    Returns
    -------
    Table
        The rows as they stand, nothing interpreted.

    Raises
    ------
    InputError
        With the file, and the line or row where there is one.
    """
    if path.suffix.lower() not in READERS:
        raise InputError(
            f"{path.name}: cannot tell the format from its ending: use {', '.join(READERS)}"
        )
    if not path.is_file():
        raise InputError(f"{path.name}: no such file: check the path {str(path)!r}")
    unit, read = READERS[path.suffix.lower()]
    try:
        numbered = list(read(path))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path.name}: is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from None
    if not numbered:
        raise InputError(f"{path.name}: holds no questions: add at least one row")
    rows = [{**row, "_row": number} for number, row in numbered]
    names = list(dict.fromkeys(name for _, row in numbered for name in row))
    return Table(rows, [f"{path.name}, {unit} {number}" for number, _ in numbered], names)


def _read_jsonl(path: Path) -> Iterator[tuple[int, Row]]:
    with open(path, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"{path.name}, line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"{place}: is not JSON ({error.msg} at column {error.colno}): "
                    "write one object per line"
                ) from None
            yield number, _object(row, place)


def _read_json(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig") or "[]")
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path.name}, line {error.lineno}: is not JSON ({error.msg}): a file with one object "
            "per line must end in .jsonl"
        ) from None
    if not isinstance(rows, list):
        raise InputError(f"{path.name}: is not a list: write the questions as [{{…}}, {{…}}]")
    for number, row in enumerate(rows, start=1):
        yield number, _object(row, f"{path.name}, entry {number}")


def _object(row: object, place: str) -> Row:
    if not isinstance(row, dict):
        raise InputError(f'{place}: is not an object: write {{"question": …, "options": …}}')
    return row


def _read_separated(path: Path, separator: str) -> Iterator[tuple[int, Row]]:
    with open(path, encoding="utf-8-sig", newline="") as lines:
        records = csv.reader(lines, delimiter=separator, strict=True)
        number, header = 0, None
        while True:
            number += 1
            try:
                cells = next(records, None)
            except csv.Error as error:
                raise InputError(
                    f"{path.name}, row {number}: cannot be read ({error}): check its quotes"
                ) from None
            if cells is None:
                return
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _header([cell.strip() for cell in cells], path.name)
            else:
                yield number, _record(header, cells, f"{path.name}, row {number}")


def _header(names: list[str], file: str) -> list[str]:
    repeated = [name for name in names if name and names.count(name) > 1]
    if repeated:
        raise InputError(f"{file}: column {repeated[0]!r} stands twice: rename one")
    return names


def _record(header: list[str], cells: list[str], place: str) -> Row:
    if len(cells) > len(header):
        raise InputError(
            f"{place}: has {len(cells)} cells for {len(header)} columns: "
            "put texts that contain the separator in double quotes"
        )
    padded = cells + [""] * (len(header) - len(cells))
    return {name: cell for name, cell in zip(header, padded, strict=True) if name}


def _read_csv(path: Path) -> Iterator[tuple[int, Row]]:
    return _read_separated(path, ",")


def _read_tsv(path: Path) -> Iterator[tuple[int, Row]]:
    return _read_separated(path, "\t")


def _read_parquet(path: Path) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path.name}: cannot be read as Parquet: {reason}") from None
    yield from enumerate(table.to_pylist(), start=1)


READERS: dict[str, tuple[str, Callable[[Path], Iterator[tuple[int, Row]]]]] = {
    ".jsonl": ("line", _read_jsonl),
    ".json": ("entry", _read_json),
    ".csv": ("row", _read_csv),
    ".tsv": ("row", _read_tsv),
    ".parquet": ("row", _read_parquet),
}
