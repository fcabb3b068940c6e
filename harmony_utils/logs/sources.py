"""Which files there are, and what is in their first bytes."""

from __future__ import annotations

import glob
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harmony_utils.errors import InputError
from harmony_utils.logs.streams import (
    PARQUET,
    ZIP,
    JsonText,
    csv_rows,
    json_lines,
    open_bytes,
    parquet_columns,
    parquet_rows,
)

Kind = Literal[
    "folder", "zip", "parquet", "json-lines", "json-array", "json-object", "text", "empty"
]

#: A folder with this file is one run of HELM.
HELM_FILE = "scenario_state.json"

#: Members of a JSON object looked at to tell what it is; more than this are never needed.
_KEYS = 12

#: Bytes of the longest first line that is looked at as a row; longer ones are whole documents.
_LINE = 2**24


@dataclass(frozen=True)
class Source:
    """A file (or a folder that is one log) with a look at its beginning.

    Parameters
    ----------
    path : Path
        Where it is.
    asked : bool
        Whether it was named itself, not found in a folder.
    """

    path: Path
    asked: bool = True
    _head: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        files = self.path.glob("*") if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())

    @cached_property
    def kind(self) -> Kind:
        """What the content is, whatever the name says."""
        if self.path.is_dir():
            return "folder"
        with open(self.path, "rb") as raw:
            magic = raw.read(4)
        if magic == ZIP:
            return "zip"
        if magic == PARQUET:
            return "parquet"
        with open_bytes(self.path) as stream:
            start = stream.read(2**16).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start:
            return "empty"
        if start[:1] == b"[":
            return "json-array"
        if start[:1] == b"{":
            return "json-lines" if self._first_line_is_whole() else "json-object"
        return "text"

    def _first_line_is_whole(self) -> bool:
        """Say whether the first line is an object and another line follows (or it is a row)."""
        with open_bytes(self.path) as stream:
            if len(stream.readline(_LINE)) == _LINE:
                return False
        with open_bytes(self.path) as stream:
            try:
                lines = json_lines(stream, str(self.path))
                first = next(lines)[1]
                return isinstance(first, dict) and (self._another(lines) or "doc_id" in first)
            except (InputError, StopIteration):
                return False

    @staticmethod
    def _another(lines: Iterator[tuple[int, Any]]) -> bool:
        try:
            return isinstance(next(lines)[1], dict)
        except StopIteration:
            return False

    @cached_property
    def row(self) -> dict[str, Any]:
        """The first row of lines, an array or a table; ``{}`` if there is none."""
        name = str(self.path)
        if self.kind == "json-lines":
            with open_bytes(self.path) as stream:
                first = next(json_lines(stream, name))[1]
        elif self.kind == "json-array":
            with open_bytes(self.path) as stream:
                first = next(JsonText(stream, name).elements(), {})
        elif self.kind == "json-object":  # a single row that is a file of its own
            first = self._only_line() or self.start
        else:
            first = {}
        return first if isinstance(first, dict) else {}

    def _only_line(self) -> dict[str, Any]:
        """Return the object on the first line, ``{}`` if it does not end there."""
        with open_bytes(self.path) as stream:
            line = stream.readline(_LINE)
        try:
            found = json.loads(line)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def start(self) -> dict[str, Any]:
        """The first members of a JSON object, up to the first array that holds objects (of which
        the first is given)."""
        if self.kind != "json-object":
            return {}
        found: dict[str, Any] = {}
        with open_bytes(self.path) as stream:
            text = JsonText(stream, str(self.path))
            for key in text.members():
                if text.peek() != "[":
                    found[key] = text.value()
                else:
                    found[key] = []
                    for element in text.elements():
                        found[key].append(element)
                        if isinstance(element, dict):
                            return found
                if len(found) >= _KEYS:
                    break
        return found

    @cached_property
    def columns(self) -> list[str]:
        """Column names of a Parquet file or the fields of the first line of a text."""
        if self.kind == "parquet":
            return parquet_columns(self.path).names
        if self.kind != "text":
            return []
        with open_bytes(self.path) as stream:
            return [field.strip() for field in next(csv_rows(stream, self.delimiter), [])]

    @cached_property
    def delimiter(self) -> str:
        """Comma, tab or semicolon: whichever the first line of a text has most of."""
        with open_bytes(self.path) as stream:
            line = stream.readline(2**16).decode("utf-8", "replace")
        return max(",\t;", key=line.count)

    @cached_property
    def members(self) -> list[str]:
        """Names of the members of a zip archive."""
        if self.kind != "zip":
            return []
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except zipfile.BadZipFile as error:
            raise InputError(f"{self.path}: damaged zip archive ({error})") from None


def find_sources(patterns: list[str]) -> list[Source]:
    """Return the logs that paths, folders and globs name, each once, in a fixed order.

    Raises
    ------
    InputError
        If a path does not exist or a pattern matches nothing.
    """
    found: dict[Path, Source] = {}
    for pattern in patterns:
        path = Path(pattern).expanduser()
        matches = (
            [path] if path.exists() else [Path(p) for p in glob.glob(str(path), recursive=True)]
        )
        if not matches:
            raise InputError(f"{pattern}: no such file or folder")
        for match in sorted(matches):
            for place, asked in _below(match):
                found.setdefault(place.resolve(), Source(place, asked))
    return list(found.values())


def _below(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the path itself, or the logs in a folder, with whether it was named itself."""
    if path.is_file() or (path / HELM_FILE).exists():
        yield path, True
    else:
        for child in sorted(path.iterdir()):
            if child.name.startswith("."):
                continue
            if child.is_dir():
                yield from ((place, False) for place, _ in _below(child))
            elif child.stat().st_size:
                yield child, False


def source_rows(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield ``(number, row)`` of a file of lines, an array, a table or a single object.

    Rows of a delimited text are numbered as lines, with its header as line 1.

    Raises
    ------
    InputError
        Where the file is damaged.
    """
    name = str(source.path)
    if source.kind == "parquet":
        yield from enumerate(parquet_rows(source.path), start=1)
        return
    with open_bytes(source.path) as stream:
        if source.kind == "json-array":
            yield from enumerate(JsonText(stream, name).elements(), start=1)
        elif source.kind == "text":
            lines = csv_rows(stream, source.delimiter)
            names = [field.strip() for field in next(lines, [])]
            for line, fields in enumerate(lines, start=2):
                if fields:
                    yield line, dict(zip(names, fields, strict=False))
        elif source.kind == "json-object" and not _more_follows(source):
            yield 1, JsonText(stream, name).value()
        else:
            yield from json_lines(stream, name)


def _more_follows(source: Source) -> bool:
    """Say whether more than white space comes after the first value."""
    with open_bytes(source.path) as stream:
        text = JsonText(stream, str(source.path))
        text.value()
        return bool(text.peek())


def read_beside(source: Source, *names: str) -> Any:
    """Return the JSON value of the first of these files beside a log, None if none can be read."""
    folder = source.path if source.path.is_dir() else source.path.parent
    for name in names:
        for path in (folder / f"{name}{ending}" for ending in ("", ".gz", ".zst")):
            if path.is_file():
                try:
                    with open_bytes(path) as stream:
                        return JsonText(stream, str(path)).value()
                except InputError:
                    continue
    return None
