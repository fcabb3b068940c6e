"""Sentences and tables of a run are shown as they are, markup in them included."""

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from harmony_utils import text


@pytest.fixture
def shown(monkeypatch):
    """Return the list of everything that is displayed."""
    found = []
    monkeypatch.setattr(text, "display", lambda what, **_: found.append(what))
    return found


def test_say_displays_markdown(shown):
    text.say("**57** questions")
    assert shown[0].data == "**57** questions"


@pytest.mark.parametrize("raw", ["*a* _b_ `c`", "[a](b) <b> &amp;", "# 1 + 2 | ~~x~~", "a\\b! {c}"])
def test_quoted_text_holds_no_markup(raw):
    inline = MarkdownIt("commonmark").parse(text.quote(raw))[1]
    assert "".join(token.content for token in inline.children) == f"“{raw}”"
    assert {token.type for token in inline.children} <= {"text", "text_special"}


def test_long_text_is_cut_and_put_on_one_line():
    assert text.quote("one\ntwo three", limit=8) == "“one two…”"


def test_a_table_escapes_text_and_rounds_numbers(shown):
    text.table(pd.DataFrame({"question": ["<b> $5"], "score": [0.12345], "none": [np.nan]}))
    html = shown[0]["text/html"]
    assert "&lt;b&gt; $5" in html
    assert "mathjax_ignore" in html
    assert ">0.123</td>" in html
    assert ">–</td>" in html
    assert "0.123" in shown[0]["text/plain"]


def test_heads_stand_over_what_is_below_them_text_left_and_numbers_right(shown):
    frame = pd.DataFrame({"name": ["a\n<td>b"], "n": [3], "share": [np.nan]}, index=["row"])
    text.table(frame, index=True)
    html = shown[0]["text/html"]
    sides = [line.partition("text-align: ")[2].split(";")[0] for line in html.splitlines()]
    cells = [side for side, line in zip(sides, html.splitlines(), strict=True) if "<t" in line]
    assert [side for side in cells if side] == ["right", *["left", "left", "right", "right"] * 2]
