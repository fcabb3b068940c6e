"""Sentences computed from a run, shown among the text of a notebook."""

from __future__ import annotations

import re

import pandas as pd
from IPython.display import Markdown, display

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~&-])")


def say(text: str) -> None:
    """Display a paragraph of Markdown; the last line of a notebook cell.

    What depends on the run is said this way, so that a chapter stays true for another model.

    Parameters
    ----------
    text : str
        Markdown. Text from outside, such as a question, goes through :func:`quote` first.
    """
    display(Markdown(text))


def table(frame: pd.DataFrame, *, index: bool = False, digits: int = 3) -> None:
    """Display a small table; the last line of a notebook cell.

    Parameters
    ----------
    frame : DataFrame
        Text in it is shown as it is, markup and dollar signs included.
    index : bool
        Whether the names of the rows are shown.
    digits : int
        Digits after the point of every floating-point number.
    """
    with pd.option_context("display.html.use_mathjax", False, "display.max_colwidth", None):
        html = frame.to_html(
            index=index, border=0, float_format=f"{{:.{digits}f}}".format, na_rep="–"
        )
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    html = _aligned(html, [False] * (index * frame.index.nlevels) + numeric)
    plain = frame.to_string(index=index, float_format=f"{{:.{digits}f}}".format, na_rep="–")
    display({"text/html": html, "text/plain": plain}, raw=True)


def _aligned(html: str, numeric: list[bool]) -> str:
    """Put numbers to the right and text to the left, heads as what stands below them."""
    lines, column = [], 0
    for line in html.splitlines():
        start = line.lstrip()[:4]
        if start.startswith("<tr"):
            column = 0
        elif start in ("<th>", "<td>") and column < len(numeric):
            side = "right" if numeric[column] else "left"
            line = line.replace(start, f'{start[:3]} style="text-align: {side};">', 1)
            column += 1
        lines.append(line)
    return "\n".join(lines)


def quote(text: str, *, limit: int = 120) -> str:
    """Make any text safe inside Markdown, on one line and in quotation marks.

    Parameters
    ----------
    text : str
        For example a question of a benchmark.
    limit : int
        Longest result in characters, the marks not counted; longer text ends in an ellipsis.

    Returns
    -------
    str
        Nothing in it is markup.

    Examples
    --------
    >>> quote("Is *this*\\n$5?")
    '“Is \\\\*this\\\\* \\\\$5?”'
    """
    line = " ".join(text.split())
    line = line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
    return "“" + _MARKUP.sub(r"\\\1", line) + "”"
