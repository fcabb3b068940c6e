"""The page of log formats names every format and every flag of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harmony_utils.logs import formats
from harmony_utils.logs.readers import READERS
from harmony_utils.logs.readers.generic import COLUMNS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "book" / "log_formats.md").read_text(encoding="utf-8")
WORD = re.compile(r"[a-z]+(-[a-z]+)*")


def flag_words(path: Path) -> set[str]:
    """Return the words of a module's flags: literal, or keys of a dictionary of sentences."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Flag"):
            continue
        if isinstance(node.args[0], ast.Constant):
            found.add(node.args[0].value)
        else:
            keys = [k for d in ast.walk(tree) if isinstance(d, ast.Dict) for k in d.keys]
            words = [k.value for k in keys if isinstance(k, ast.Constant)]
            found.update(w for w in words if isinstance(w, str) and re.fullmatch(r"\w+(-\w+)+", w))
    return found


def rows_named(words: str) -> set[str]:
    """Return what stands as code in the first column of the page's tables."""
    lines = [line for line in words.splitlines() if line.startswith("| `")]
    return {word for line in lines for word in re.findall(r"`([^`]+)`", line.split("|")[1])}


MODULES = sorted((ROOT / "harmony_utils").rglob("*.py"))
FLAGS = {word: path.name for path in MODULES for word in flag_words(path)}


def test_flags_are_found_and_in_kebab_case():
    assert {"disagreement", "position-bias", "prompt-perplexity", "perturbed-copies"} <= set(FLAGS)
    assert all(WORD.fullmatch(word) for word in FLAGS)


@pytest.mark.parametrize("word", sorted(FLAGS))
def test_every_flag_is_explained(word):
    explained = rows_named(PAGE.split("## What the flags mean")[1])
    assert word in explained, f"{word} of {FLAGS[word]} has no row in book/log_formats.md"


def test_every_format_has_a_row():
    section = PAGE.split("## The formats")[1].split("### What has been tried")[0]
    assert set(formats()) <= rows_named(section)


def test_readers_have_names_of_their_own_and_tables_come_last():
    assert len(set(formats())) == len(READERS)
    assert formats()[-2:] == ["table", "matrix"]


def test_columns_named_on_the_page_are_known():
    table = PAGE.split("## Your own table")[1].split("**A matrix**")[0]
    named = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    known = {name for names in COLUMNS.values() for name in names}
    words = {w for row in named for w in re.findall(r"`([^`]+)`", row[1] + row[2])}
    plain = {w for w in words if not re.search(r"_[01]$", w)}
    assert len(plain) > 30
    assert plain <= known
