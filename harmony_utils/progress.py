"""Progress of long work, shown where somebody is looking and nowhere else."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

#: Environment variable: ``none`` shows nothing, a path makes progress be written to that file.
PROGRESS_VARIABLE = "HARMONY_PROGRESS"
SECONDS_BETWEEN = 0.5
"""Time between two updates; work that ends sooner shows nothing in a notebook."""


class Progress:
    """A counter that can be advanced; what it shows is decided by :func:`progress`."""

    def __init__(
        self, label: str, total: int, *, path: Path | None, bar: tqdm | None, in_notebook: bool
    ) -> None:
        self.label, self.total, self.done = label, total, 0
        self._path, self._bar, self._in_notebook = path, bar, in_notebook
        self._line: Any = None
        self._written = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more finished units."""
        self.done += amount
        if self._bar is not None:
            self._bar.update(amount)
        if time.monotonic() - self._written < SECONDS_BETWEEN:
            return
        self._written = time.monotonic()
        if self._path is not None:
            state = {"label": self.label, "done": self.done, "total": self.total}
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(state), encoding="utf-8")
            os.replace(temporary, self._path)
        if self._in_notebook:
            self._show(f"{self.label}: {self.done:,} of {self.total:,}")

    def close(self) -> None:
        """Take away what was shown."""
        if self._bar is not None:
            self._bar.close()
        if self._line is not None:
            self._show("")

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._line is None:
            self._line = display(HTML(text), display_id=True)
        else:
            self._line.update(HTML(text))


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
        Call its ``advance`` after each unit. A bar appears on a terminal, a line in a notebook;
        under the ``harmony`` command, which sets the environment variable ``HARMONY_PROGRESS``,
        the counts go to its own bar instead.
    """
    setting = os.environ.get(PROGRESS_VARIABLE, "")
    path = Path(setting) if setting not in ("", "none") else None
    in_notebook = not setting and "ipykernel" in sys.modules
    on_terminal = not setting and not in_notebook and sys.stderr.isatty()
    bar = tqdm(total=total, desc=label, leave=False, delay=1) if on_terminal else None
    counter = Progress(label, total, path=path, bar=bar, in_notebook=in_notebook)
    try:
        yield counter
    finally:
        counter.close()
