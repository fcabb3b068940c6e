"""The MMLU-Pro authors' script: ``CATEGORY_result.json``, a list of answered questions.

Where no letter was found (``pred`` null) the script scores a random guess that is not in the file;
such answers count as wrong here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harmony_utils.logs.converting import convert_rows
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source

NAME = "mmlu-pro"
_FOLDERS = ("cot", "all", "summary", "eval_results", "results", "result", "")
_ENDINGS = re.compile(r"(_result)?(\.(jsonl?|gz|zst))+$")


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    needed = {"question_id", "options", "category"} <= set(row)
    gold = "answer_index" in row or "answer" in row
    return "script" if needed and gold and {"pred", "model_outputs"} & set(row) else None


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    folders = [part.name for part in source.path.resolve().parents]
    header = LogHeader(
        format=NAME,
        version="script",
        model=next((f for f in folders if f.lower() not in _FOLDERS), "unknown"),
        task=f"mmlu_pro_{_ENDINGS.sub('', source.path.name)}",
        benchmark="mmlu_pro",
        metrics={},
    )
    return header, _rows(source, header)


def _rows(source: Source, header: LogHeader) -> Iterator[LogRow]:
    guessed = clash = 0

    def convert(raw: dict[str, Any]) -> LogRow:
        nonlocal guessed
        guessed += not raw.get("pred")  # a letter beyond the options is wrong, not guessed for
        return _row(raw)

    for row in convert_rows(source, convert, tool="the MMLU-Pro script"):
        clash += "two-keys" in row.flags
        yield row
    if guessed:
        header.flags.append(
            Flag(
                "random-guesses",
                f"{guessed} answers hold no letter; the script scores a random guess for them, "
                "here they are wrong",
            )
        )
    if clash:
        header.flags.append(
            Flag("two-keys", f"{clash} rows name two different correct options; the index is used")
        )


def _row(raw: dict[str, Any]) -> LogRow:
    options = [str(option) for option in raw["options"]]
    index = read_gold(raw.get("answer_index"), options).get("index")
    letter = read_gold(raw.get("answer"), options).get("letter")
    picked = raw.get("pred")
    chosen = read_gold(picked, options).get("letter") if isinstance(picked, str) else None
    gold = index or letter
    return LogRow(
        native_id=str(raw["question_id"]),
        question=str(raw.get("question") or ""),
        options=options,
        gold={"index" if index else "letter": gold} if gold else {},
        prediction=chosen[0] if chosen else None,
        answered=chosen is not None,
        subject=str(raw["category"]) if raw.get("category") else None,
        flags=("two-keys",) if index and letter and index != letter else (),
    )
