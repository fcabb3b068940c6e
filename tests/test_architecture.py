"""Imports go one way: the table in CONTRIBUTING.md is the order, and every module stands in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "harmony_utils"


def rooms() -> dict[str, int]:
    """Return the row of the table in which each room stands."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where things are")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    return {name: row for row, cell in enumerate(rows) for name in re.findall(r"`(\w+)/?`", cell)}


def imported(path: Path) -> list[str]:
    """Return the rooms that a module imports from, anywhere in it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module == "harmony_utils":
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and module.startswith("harmony_utils."):
            found.append(module.split(".")[1])
    return found


def test_every_module_stands_in_the_table_and_every_entry_is_there():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    there = {name for name in there if not name.startswith("_")} - {"catalogue"}
    assert there == set(rooms())


def test_no_module_imports_one_below_it():
    order, wrong = rooms(), []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own == "__init__":
            continue
        below = [room for room in imported(path) if order.get(room, -1) > order.get(own, -1)]
        wrong += [f"{path.relative_to(PACKAGE)} imports {room}" for room in below]
    assert not wrong
