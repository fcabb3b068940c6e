"""How the card writes numbers, names and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harmony_utils.card.evidence import Evidence
from harmony_utils.card.measures import MEASURES

NOT_MEASURED = "not measured"


def title_text(measure: str, subject: str = "") -> str:
    """Name a measure as the card shows it."""
    return MEASURES[measure].title + (f" in {subject}" if subject else "")


def group_text(kind: str, name: str) -> str:
    """Say what a group of questions is; a numbered subdomain says so itself."""
    return name if name.startswith(f"{kind} ") else f"{kind}: {name}"


def value_text(entry: Evidence | None) -> str:
    """Write a value, or that there is none."""
    return NOT_MEASURED if entry is None or entry.value is None else f"{entry.value:.3f}"


def interval_text(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Write an interval; empty where there is none."""
    if low is None or high is None:
        return ""
    return f"{low:+.3f} to {high:+.3f}" if sign else f"{low:.3f} to {high:.3f}"


def setting_text(value: Any) -> str:
    """Write a setting as a file would, on one line."""
    return line_text(plain_setting(value))


def plain_setting(value: Any) -> str:
    """Write true, false and none as a file would, all else as it is."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def line_text(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table with padded columns; a last one of long texts is left as it is."""
    cells = [[line_text(cell).replace("|", "\\|") for cell in row] for row in (head, *rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    widths[-1] = widths[-1] if widths[-1] <= 24 else 3  # long texts are left as they are
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [lines[0], rule, *lines[1:]]
