"""EvalScope reviews: before 1.0 a ``review`` inside each choice, from 1.0 a ``sample_score``.

The chosen letter is what the tool's pattern found in the answer, which may not be what the model
meant. There are no log-likelihoods.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from harmony_utils.logs.cells import dig
from harmony_utils.logs.converting import convert_rows
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source, read_beside
from harmony_utils.logs.values import (
    benchmark_and_subject,
    last_user_message,
    number,
    plain_text,
    subject_of,
)
from harmony_utils.sources.documents import (
    lettered_options,
    option_labels,
    option_texts,
    passage_of,
    question_of,
)

NAME = "evalscope"
_ENDINGS = re.compile(r"(\.(jsonl?|gz|zst))+$")

#: Parts of a prompt that say how to answer, and what ends an example before the question.
_INSTRUCTION = re.compile(r"\[?LETTER\]?|\{letters\}")
_EXAMPLE_END = re.compile(r"^ANSWER: .*$", re.MULTILINE)


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    if isinstance(row.get("sample_score"), dict):
        return ">= 1.0"
    choices = row.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None
    message = first.get("message")
    found = "review" in first or (isinstance(message, dict) and "review" in message)
    return "< 1.0" if found else None


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    new = sniff(source) == ">= 1.0"
    stem = _ENDINGS.sub("", source.path.name)
    benchmark, subject, report = _place(source, stem)
    header = LogHeader(
        format=NAME,
        version=">= 1.0" if new else "< 1.0",
        model=str(source.row.get("model") or source.path.parent.resolve().name),
        task=stem,
        benchmark=benchmark,
        subject=None if subject in ("default", "main", "test") else subject,
        metrics={"result": ("prediction",)},
        reported=_reported(report, subject),
        flags=[
            Flag(
                "extracted-answers",
                "the chosen options are what the tool's pattern found in the answers, which may "
                "not be what the model meant",
            )
        ],
    )
    return header, _rows(source, new=new)


def _place(source: Source, stem: str) -> tuple[str, str | None, Any]:
    """Return benchmark, subset and report; ``DATASET_SUBSET`` is the name of the file."""
    subset, model = source.row.get("subset_name"), source.path.parent.resolve().name
    if isinstance(subset, str) and stem.endswith(f"_{subset}"):
        names = [stem.removesuffix(f"_{subset}")]
    else:
        beside = (source.path.parent / f"../../reports/{model}").glob("*.json")
        names = [path.stem for path in beside if stem.startswith(f"{path.stem}_")]
    if not names:
        return *benchmark_and_subject(stem), None
    name = max(names, key=len)
    report = read_beside(source, f"../../reports/{model}/{name}.json")
    return name, stem.removeprefix(f"{name}_"), report


def _reported(report: Any, subset: str | None) -> dict[str, float]:
    """Return the score of a subset in the report of its dataset."""
    for metric in dig(report, "metrics") or []:
        for category in dig(metric, "categories") or []:
            for part in dig(category, "subsets") or []:
                score = number(dig(part, "score"))
                if dig(part, "name") == subset and score is not None:
                    return {"result": score}
    return {}


def _rows(source: Source, *, new: bool) -> Iterator[LogRow]:
    seen: Counter[str] = Counter()
    for row in convert_rows(source, _new if new else _old, tool="EvalScope"):
        row.epoch = seen[row.native_id]
        seen[row.native_id] += 1
        yield row


def _old(raw: dict[str, Any]) -> LogRow:
    document = raw.get("raw_input") if isinstance(raw.get("raw_input"), dict) else {}
    asked = raw.get("origin_prompt")
    prompt = plain_text(asked.get("data") if isinstance(asked, dict) else asked)
    choice = raw["choices"][0]
    message = choice.get("message") if isinstance(choice.get("message"), dict) else {}
    review = message.get("review") or choice.get("review") or {}
    native = document.get("id", raw.get("index", raw.get("id")))
    row = LogRow(
        native_id=str(native),
        question=question_of(document) or prompt,
        passage=passage_of(document),
        prompt=prompt,
        options=option_texts(document),
        subject=subject_of(document) or subject_of(raw),
    )
    result = review.get("result")
    if isinstance(result, dict):
        result = next(iter(result.values()), None)
    labels = option_labels(document)
    _judge(row, review.get("gold"), review.get("pred"), number(result), labels)
    return row


def _new(raw: dict[str, Any]) -> LogRow:
    scored = raw["sample_score"]
    score = scored.get("score") if isinstance(scored.get("score"), dict) else {}
    about = scored.get("sample_metadata")
    about = about if isinstance(about, dict) else {}
    native = next(
        (
            v
            for v in (scored.get("group_id"), raw.get("index"), scored.get("sample_id"))
            if v is not None
        ),
        "",
    )
    prompt = last_user_message(raw.get("messages")) or plain_text(raw.get("input"))
    prompt = prompt.rpartition("**User**:")[2].strip()  # before messages were logged
    asked, options = lettered_options(prompt)  # in the order in which the model saw them
    row = LogRow(
        native_id=str(native),
        question=question_of(about) or _bare(asked),
        prompt=prompt,
        options=options or option_texts(about),
        subject=subject_of(about) or subject_of(raw),
    )
    values = score.get("value")
    values = values if isinstance(values, dict) else {"": values}
    main = score.get("main_score_name")
    value = (
        values.get(main) if main in values else values.get("acc", next(iter(values.values()), None))
    )
    target = raw.get("target")
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    _judge(row, target, score.get("extracted_prediction"), number(value), option_labels(about))
    return row


def _bare(prompt: str) -> str:
    """Return a prompt without examples and without the paragraph that says how to answer."""
    parts = _EXAMPLE_END.split(prompt)[-1].strip().split("\n\n")
    kept = [part for part in parts if not _INSTRUCTION.search(part)]
    return "\n\n".join(kept).strip() or prompt


def _judge(row: LogRow, gold: Any, picked: Any, result: float | None, labels: list[str]) -> None:
    """Take the correct and the chosen option, if both are written in the same way."""
    row.correct = result
    if result is None:  # unusable scores are left out by the tool, not counted as wrong
        return
    golds = _options(gold, row, labels)
    found = _options(picked, row, labels)
    shared = [name for name in golds if name in found and len(found[name]) == 1]
    if shared:
        row.gold, row.prediction = {"answer": golds[shared[0]]}, found[shared[0]][0]
    elif golds and _nothing(picked):
        row.gold, row.answered = {"answer": next(iter(golds.values()))}, False
    if row.gold and result in (0.0, 1.0):
        row.logged["result"] = result


def _options(value: Any, row: LogRow, labels: list[str]) -> dict[str, tuple[int, ...]]:
    if value is None or (not row.options and len(str(value).strip("(). ")) > 1):
        return {}
    found = read_gold(value, row.options, n_options=26, labels=labels)
    found.pop("index-1", None)
    order = ("letter", "label", "text", "index", "list")
    return {name: found[name] for name in order if name in found}


def _nothing(value: Any) -> bool:
    return value is None or str(value).strip() in ("", "None", "null")
