"""Progress is shown where somebody looks, and leaves nothing behind."""

from __future__ import annotations

import json

from harmony_utils import progress as module
from harmony_utils.progress import PROGRESS_VARIABLE, progress


def test_without_a_terminal_nothing_is_shown(monkeypatch, capfd):
    monkeypatch.setenv(PROGRESS_VARIABLE, "none")
    with progress("scoring", 2) as bar:
        bar.advance()
    assert bar.done == 1
    assert capfd.readouterr() == ("", "")


def test_the_command_reads_counts_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv(PROGRESS_VARIABLE, str(tmp_path / "progress.json"))
    monkeypatch.setattr(module, "SECONDS_BETWEEN", 0)
    with progress("scoring", 10) as bar:
        bar.advance(4)
        state = json.loads((tmp_path / "progress.json").read_text())
    assert state == {"label": "scoring", "done": 4, "total": 10}


def test_in_a_notebook_a_line_is_updated_and_taken_away(monkeypatch):
    shown = []

    class Handle:
        def update(self, text):
            shown.append(text.data)

    def display(text, display_id):
        shown.append(text.data)
        return Handle()

    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    monkeypatch.setitem(module.sys.modules, "ipykernel", object())
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(module, "SECONDS_BETWEEN", 0)
    with progress("scoring", 2) as bar:
        bar.advance()
        bar.advance()
    assert shown == ["scoring: 1 of 2", "scoring: 2 of 2", ""]
