"""Writing files so that a reader never sees half of one, and hashing what was written."""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def write_atomically(path: Path, write: Callable[[Path], None]) -> Path:
    """Call ``write`` with a temporary path beside ``path``, flush it to disk, then rename it.

    Parameters
    ----------
    path : Path
        Final place of the file. Its folder is created.
    write : callable
        Receives the temporary path and writes the whole content there.

    Returns
    -------
    Path
        ``path``, which now holds either the old or the new content, never a part.

    Raises
    ------
    OSError
        If the system refuses; it names ``path``, not the temporary file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        with suppress(OSError):  # what went wrong has been told
            temporary.unlink(missing_ok=True)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` as UTF-8, atomically."""
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, data: Any) -> Path:
    """Write ``data`` as indented JSON, atomically; NaN is refused, keys keep their order."""
    return write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def json_values(value: Any) -> Any:
    """Turn NaN and infinity into None, and numpy's numbers into Python's, all the way down.

    Examples
    --------
    >>> import numpy as np
    >>> json_values({"p": np.float64(0.5), "range": (float("nan"), 1)})
    {'p': 0.5, 'range': [None, 1]}
    """
    if isinstance(value, dict):
        return {name: json_values(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(entry) for entry in value]
    import numpy as np  # here, so that a command that lists things starts at once

    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """Read a UTF-8 JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_array(path: Path, array: np.ndarray) -> Path:
    """Write one array as ``.npy``, atomically and without pickling."""

    import numpy as np

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as handle:
            np.save(handle, array, allow_pickle=False)

    return write_atomically(path, write)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hexadecimal text."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def content_hash(data: Any) -> str:
    """Return the SHA-256 of ``data`` written as canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
