"""What the commands print with: consoles and tables that cut nothing off, spinner and bars."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.table import Column, Table

#: Columns of a file or pipe, which has no edge; rich would take 80.
_WIDE = 120


class _RoomyConsole(Console):
    """A console that is not squeezed where no terminal and no ``COLUMNS`` limits it."""

    @property
    def size(self) -> ConsoleDimensions:
        found = super().size
        if self._width is not None or self.is_terminal:
            return found
        return ConsoleDimensions(max(found.width, _WIDE), found.height)


out = _RoomyConsole()
err = _RoomyConsole(stderr=True)


def new_table(*columns: Column | str, **options: Any) -> Table:
    """Return a table that folds what is too wide: a name or number cut off cannot be read."""
    folded = [Column(c, overflow="fold") if isinstance(c, str) else c for c in columns]
    return Table(*folded, **options)


def fact_table(title: str) -> Table:
    """Return a table of names and values, without a header."""
    return new_table("", "", title=escape(title), show_header=False)


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show a spinner on a terminal, else one line."""
    if err.is_terminal:
        with err.status(message):
            yield
    else:
        print(message, file=sys.stderr, flush=True)
        yield


@contextmanager
def progress() -> Iterator[Any]:
    """Yield a listener to stage events: a bar on a terminal, else one line per stage."""
    from harmony_utils.settings import STAGES

    if not err.is_terminal:

        def tell(stage: str, event: str) -> None:
            if event != "start":
                print(f"{stage}: {event}", file=sys.stderr, flush=True)

        yield tell
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from harmony_utils.progress import PROGRESS_VARIABLE

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with tempfile.TemporaryDirectory(prefix="harmony-") as scratch:
        path = Path(scratch) / "progress.json"
        os.environ[PROGRESS_VARIABLE] = str(path)
        stop = threading.Event()
        with Progress(*columns, console=err, transient=True) as bars:
            stages = bars.add_task("stages", total=len(STAGES))
            detail = bars.add_task("", total=None, visible=False)

            def listen(stage: str, event: str) -> None:
                if event == "start":
                    path.unlink(missing_ok=True)
                    bars.update(stages, description=f"stages ({stage})")
                    bars.update(detail, visible=False)
                else:
                    bars.advance(stages)

            def watch() -> None:
                while not stop.wait(0.3):
                    try:
                        state = json.loads(path.read_text(encoding="utf-8"))
                    except (OSError, ValueError):
                        continue
                    bars.update(
                        detail,
                        description=state["label"],
                        completed=state["done"],
                        total=state["total"],
                        visible=True,
                    )

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                yield listen
            finally:
                stop.set()
                watcher.join()
                del os.environ[PROGRESS_VARIABLE]
