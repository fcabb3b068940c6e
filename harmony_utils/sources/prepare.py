"""What a few benchmarks need done to a row before its columns are read.

Each function takes a row and returns a copy with the columns ``text`` and, mostly, ``choices``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def _tidy_wikihow(text: str) -> str:
    """Drop the bracketed marks that wikiHow texts carry, such as ``[header]``."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r" {2,}", " ", re.sub(r"\[.*?\]", "", text)).strip()


def hellaswag(row: Row) -> Row:
    """Join activity, context and the beginning of the last sentence; tidy all texts."""
    start = f"{row['ctx_a']} {row['ctx_b'].capitalize()}".strip()
    return {
        **row,
        "text": _tidy_wikihow(f"{row['activity_label']}: {start}"),
        "choices": [_tidy_wikihow(ending) for ending in row["endings"]],
    }


def winogrande(row: Row) -> Row:
    """Cut the sentence at its blank: both options are continued to the end of the sentence.

    The usual partial evaluation scores only what follows the blank. Here the name that fills the
    blank is part of the option, so that options differ and one prompt serves both; its probability
    is then part of the score.
    """
    before, _, after = row["sentence"].partition("_")
    options = (row["option1"], row["option2"])
    return {
        **row,
        "text": before,
        "choices": [option.strip() + after for option in options],
    }


def copa(row: Row) -> Row:
    """End the premise with "because" (cause) or "so" (effect), to be continued by the options."""
    link = {"cause": "because", "effect": "so"}[row["question"]]
    options = (row["choice1"], row["choice2"])
    lowered = [text if text.startswith("I ") else text[0].lower() + text[1:] for text in options]
    return {
        **row,
        "text": f"{row['premise'].strip().removesuffix('.')} {link}",
        "choices": lowered,
    }


def lettered(row: Row) -> Row:
    """Take a prompt apart that lists its options on lettered lines: ``Question: …``, `` A. …``."""
    lines = row["query"].removesuffix("\nAnswer:").split("\n")
    is_option = [re.match(r" [A-Z]\. ", line) is not None for line in lines]
    texts = [line for line, option in zip(lines, is_option, strict=True) if not option]
    choices = [line[4:] for line, option in zip(lines, is_option, strict=True) if option]
    return {
        **row,
        "text": "\n".join(texts).removeprefix("Question: "),
        "choices": choices,
    }


def math_qa(row: Row) -> Row:
    """Cut the options out of the one text that holds them: ``a ) 38 , b ) 27.5 , c ) …``."""
    parts = re.split(r"(?:^|\s*,\s*)[a-e] \) ", row["options"].strip())
    choices = [part.strip(" ,") for part in parts[1:]]
    return {**row, "text": row["Problem"], "choices": choices}


PREPARATIONS: dict[str, Callable[[Row], Row]] = {
    "none": lambda row: row,
    "hellaswag": hellaswag,
    "winogrande": winogrande,
    "copa": copa,
    "lettered": lettered,
    "math_qa": math_qa,
}
