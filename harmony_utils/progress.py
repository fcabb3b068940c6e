"""Progress of long work, shown where somebody is looking and nowhere else."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm.auto import tqdm

#: Environment variable: ``none`` shows nothing, a path makes progress be written to that file.
PROGRESS_VARIABLE = "HARMONY_PROGRESS"


class Progress:
    """A counter that can be advanced; what it shows is decided by :func:`progress`."""

    def __init__(self, label: str, total: int, path: Path | None, bar: tqdm | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._path, self._bar, self._written = path, bar, 0.0

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more finished units."""
        self.done += amount
        if self._bar is not None:
            self._bar.update(amount)
        if self._path is not None and time.monotonic() - self._written > 0.2:
            self._written = time.monotonic()
            state = {"label": self.label, "done": self.done, "total": self.total}
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(state), encoding="utf-8")
            os.replace(temporary, self._path)


@contextmanager
def progress(label: str, total: int) -> Iterator[Progress]:
    """Show the progress of ``total`` units of work.

    Parameters
    ----------
    label : str
        What is being done, e.g. ``"scoring"``.
    total : int
        Number of units.

    Yields
    ------
    Progress
        Call its ``advance`` after each unit. A bar appears on a terminal and in an interactive
        notebook; under the ``harmony`` command, which sets the environment variable
        ``HARMONY_PROGRESS``, the counts go to its own bar instead.
    """
    setting = os.environ.get(PROGRESS_VARIABLE, "")
    path = Path(setting) if setting not in ("", "none") else None
    interactive = not setting and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    bar = tqdm(total=total, desc=label, leave=False, delay=1) if interactive else None
    try:
        yield Progress(label, total, path, bar)
    finally:
        if bar is not None:
            bar.close()
