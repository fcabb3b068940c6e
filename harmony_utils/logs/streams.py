"""Reading containers in a bounded amount of memory: bytes, JSON, Parquet, CSV and zip members.

What a file is, is told by its content. Nothing is written to disk and nothing is executed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from harmony_utils.errors import InputError

GZIP, ZSTD, ZIP, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1"

MAX_RATIO = 500
"""Decompressed bytes allowed per compressed byte; repeated prompts reach about a hundred."""

MAX_SMALL = 64 * 2**20
"""Bytes that a compressed file may always grow to."""

MAX_VALUE = 256 * 2**20
"""Characters of the longest single JSON value, e.g. one row."""

ON_READ: ContextVar[Callable[[int], None] | None] = ContextVar("on_read", default=None)
"""Told the number of bytes of a file each time some are read, to show progress."""

_CHUNK = 2**20
_ZSTD_IN_ZIP = 93


class _Counted(io.FileIO):
    """A file that tells how far it has been read."""

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        listener = ON_READ.get()
        if listener and count:
            listener(count)
        return count


class _Bounded(io.RawIOBase):
    """Passes bytes on until more came out than the compressed size allows."""

    def __init__(self, raw: BinaryIO, limit: int, name: str) -> None:
        self._raw, self._left, self._name = raw, limit, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._raw.read(len(buffer))
        except (OSError, EOFError, zstandard.ZstdError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{self._name}: damaged or cut-off compressed data ({error}); copy it again"
            ) from None
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"{self._name}: grows to more than {MAX_RATIO} times its size when decompressed; "
                "unpack it yourself if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _bounded(raw: BinaryIO, compressed: int, name: str) -> io.BufferedReader:
    limit = max(MAX_SMALL, MAX_RATIO * compressed)
    return io.BufferedReader(_Bounded(raw, limit, name), _CHUNK)


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file for reading; gzip and Zstandard (several frames too) are undone.

    Raises
    ------
    InputError
        While reading, if the data is damaged or grows beyond :data:`MAX_RATIO`.
    """
    raw = io.BufferedReader(_Counted(path), _CHUNK)
    magic = raw.read(4)
    raw.seek(0)
    size = path.stat().st_size
    if magic.startswith(GZIP):
        return _bounded(gzip.GzipFile(fileobj=raw), size, str(path))
    if magic == ZSTD:
        stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return _bounded(stream, size, str(path))
    return raw


def open_member(archive: zipfile.ZipFile, name: str) -> io.BufferedReader:
    """Open one member of a zip archive, stored, deflated or Zstandard (method 93).

    Raises
    ------
    InputError
        For another compression method or damaged data.
    """
    info = archive.getinfo(name)
    where = f"{archive.filename}: {name}"
    if listener := ON_READ.get():
        listener(info.compress_size)
    if info.compress_type != _ZSTD_IN_ZIP:
        try:
            return _bounded(archive.open(info), info.compress_size, where)
        except (NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
            raise InputError(f"{where}: cannot be unpacked ({error})") from None
    raw = archive.fp
    raw.seek(info.header_offset + 26)
    lengths = raw.read(4)
    name_length, extra_length = (int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
    start = info.header_offset + 30 + name_length + extra_length
    section = _Section(raw, start, info.compress_size)
    stream = zstandard.ZstdDecompressor().stream_reader(section, read_across_frames=True)
    return _bounded(stream, info.compress_size, where)


class _Section(io.RawIOBase):
    """A part of an open file, so that several members can be read in turn."""

    def __init__(self, raw: BinaryIO, start: int, length: int) -> None:
        self._raw, self._at, self._end = raw, start, start + length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.seek(self._at)
        data = self._raw.read(min(len(buffer), self._end - self._at))
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)


def json_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield ``(line number, value)`` of each line that is not blank.

    Bare ``NaN`` and ``Infinity``, which Python writes, are read.

    Raises
    ------
    InputError
        For a line that is no JSON, with its number.
    """
    for number, line in enumerate(stream, start=1):
        if line.isspace():
            continue
        try:
            yield number, orjson.loads(line)
        except orjson.JSONDecodeError:
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise InputError(f"{name}, line {number}: not valid JSON ({error})") from None


class JsonText:
    """A JSON document read piece by piece by the standard decoder.

    Parameters
    ----------
    stream : binary file
        UTF-8 text.
    name : str
        For messages.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
        self._name, self._buffer, self._at = name, "", 0
        self._decode = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """Return the next character that is not white space, ``""`` at the end."""
        while True:
            while self._at < len(self._buffer):
                if not self._buffer[self._at].isspace():
                    return self._buffer[self._at]
                self._at += 1
            if not self._more():
                return ""

    def value(self) -> Any:
        """Read one whole value."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._buffer, self._at)
            except ValueError as error:
                if not self._more(grow=True):
                    raise self._wrong(f"not valid JSON ({error})") from None
                continue
            # a number at the very end of the buffer may go on in the next piece
            if end == len(self._buffer) and self._more(grow=True):
                continue
            self._at = end
            return value

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the array that comes next."""
        self._expect("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self._comma("]"):
                return

    def members(self) -> Iterator[str]:
        """Yield each key of the object that comes next; the caller then reads its value."""
        self._expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            self._expect(":")
            yield key
            if self._comma("}"):
                return

    def _comma(self, end: str) -> bool:
        found = self.peek()
        if found not in (",", end) or not found:
            raise self._wrong("the file is cut off" if not found else f"unexpected {found!r}")
        self._at += 1
        return found == end

    def _expect(self, wanted: str) -> None:
        found = self.peek()
        if found != wanted:
            raise self._wrong(f"expected {wanted!r}, found {found or 'the end'!r}")
        self._at += 1

    def _more(self, *, grow: bool = False) -> bool:
        """Read on; a value that does not fit yet doubles what is held, so the work stays linear."""
        wanted = max(_CHUNK, len(self._buffer) - self._at) if grow else _CHUNK
        piece = self._text.read(wanted)
        self._buffer, self._at = self._buffer[self._at :] + piece, 0
        if len(self._buffer) > MAX_VALUE + _CHUNK:
            raise self._wrong(f"one value is longer than {MAX_VALUE // 2**20} million characters")
        return bool(piece)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"{self._name}: {what}")


def parquet_rows(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as dictionaries, a batch at a time."""
    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=512, columns=columns):
            yield from batch.to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from None


def parquet_columns(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file."""
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from None


def csv_rows(stream: BinaryIO, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each line of a delimited text.

    Raises
    ------
    InputError
        If quotes are broken or a field is too long.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    csv.field_size_limit(MAX_VALUE)
    try:
        yield from csv.reader(text, delimiter=delimiter)
    except csv.Error as error:
        name = getattr(stream, "name", "delimited text")
        raise InputError(f"{name}: not a readable table ({error})") from None
