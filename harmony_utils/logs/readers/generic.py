"""Tables of any origin with a row for each answer: CSV, TSV, JSON lines or array, Parquet.

Needed are an item and whether the answer was right (or the correct option with the chosen one or
with log-likelihoods). Columns are known by their usual names, in any case and order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import LogHeader, LogRow
from harmony_utils.logs.sources import Source, source_rows
from harmony_utils.logs.values import log_value, share

NAME = "table"

COLUMNS = {
    "model": ("model", "model_id", "model_name", "system", "llm"),
    "item": (
        *("item", "item_id", "example_id", "question_id", "sample_id", "instance_id", "doc_id"),
        *("problem_id", "key", "native_id", "id", "uid", "qid", "idx", "index", "example"),
    ),
    "question": ("question", "query", "prompt", "problem", "input"),
    "correct": (
        *("correct", "is_correct", "correctness", "pass1", "pass@1", "pass_at_1", "acc"),
        *("accuracy", "score", "exact_match", "em", "right", "passed", "success", "result"),
    ),
    "subject": ("subject", "category", "subcategory", "topic", "domain", "subset", "subdomain"),
    "benchmark": ("benchmark", "benchmark_id", "dataset", "dataset_name", "task", "task_name"),
    "gold": ("gold", "gold_index", "answer_index", "target", "answer", "label", "ground_truth"),
    "prediction": ("prediction", "pred", "predicted", "chosen", "choice", "model_answer"),
    "loglik": ("loglik", "logliks", "loglikelihoods", "log_likelihoods", "logprobs"),
    "options": ("options", "choices"),
    "epoch": ("epoch", "trial", "repeat", "attempt"),
    "tokens": ("tokens", "num_tokens"),
    "char": ("characters", "num_chars"),
    "byte": ("bytes", "num_bytes"),
}
"""What a column may be called, best name first."""

_SCORE = re.compile(r"(?:loglik|loglikelihood|log_likelihood|logprob|ll)_?(\d+|[a-z])$")
_OPTION = re.compile(r"(?:option|choice)_?(\d+|[a-z])$")
_EMPTY = ("", "na", "n/a", "nan", "null", "none")


def named(names: list[str]) -> dict[str, str]:
    """Return the column of each role.

    Examples
    --------
    >>> named(["Benchmark ID", "example_id", "pass1"])
    {'item': 'example_id', 'correct': 'pass1', 'benchmark': 'Benchmark ID'}
    """
    plain = {re.sub(r"[\s\-]+", "_", str(name).strip().lower()): name for name in reversed(names)}
    found = {}
    for role, wanted in COLUMNS.items():
        name = next((plain[w] for w in wanted if w in plain), None)
        if name is not None:
            found[role] = name
    return found


def numbered(names: list[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the columns ``NAME_0``, ``NAME_1``, … (or with letters) in their order."""
    found = {name: m[1] for name in names if (m := pattern.match(str(name).strip().lower()))}
    order = sorted(found, key=lambda n: (len(found[n]) if found[n].isdigit() else 1, found[n]))
    return order if len(order) > 1 else []


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    names = [str(name) for name in (source.columns or source.row)]
    roles = named(names)
    if not ("item" in roles or "question" in roles):
        return None
    judged = "prediction" in roles or "loglik" in roles or bool(numbered(names, _SCORE))
    if "correct" not in roles and not ("gold" in roles and judged):
        return None
    first = source.row
    if first and any(isinstance(first.get(roles.get(r)), dict) for r in ("item", "correct")):
        return None
    return {"text": "delimited text", "parquet": "Parquet"}.get(source.kind, "JSON")


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    names = [str(name) for name in (source.columns or source.row)]
    roles = named(names)
    scores = numbered(names, _SCORE)
    if scores:
        roles.pop("loglik", None)
    if "item" not in roles and "question" not in roles:
        raise InputError(
            f"{source.path}: no column of items; name one {' or '.join(COLUMNS['item'][:3])}"
        )
    stem = re.sub(r"(\.(csv|tsv|txt|jsonl?|parquet|gz|zst))+$", "", source.path.name)
    by_scores = bool(scores) or "loglik" in roles
    header = LogHeader(
        format=NAME,
        version=sniff(source) or "",
        model=stem,
        task=stem,
        benchmark="" if "benchmark" in roles else stem,
        metrics={"correct": ("sum", "char", "byte", "token") if by_scores else ("prediction",)},
    )
    return header, _rows(source, roles, scores, numbered(names, _OPTION))


def _rows(
    source: Source, roles: dict[str, str], scores: list[str], options: list[str]
) -> Iterator[LogRow]:
    for line, raw in source_rows(source):
        if not isinstance(raw, dict):
            raise InputError(f"{source.path}, row {line}: not an object with named columns")
        if source.kind == "text" and len(raw) != len(source.columns):
            raise InputError(
                f"{source.path}, row {line}: {len(raw)} fields, the header has "
                f"{len(source.columns)}"
            )
        yield _Cells(raw, roles, f"{source.path}, row {line}").row(scores, options, line)


class _Cells:
    """One row, whose cells are asked for by role.

    Parameters
    ----------
    raw : dict
        The row.
    roles : dict of str to str
        Column of each role.
    where : str
        File and row, for messages.
    """

    def __init__(self, raw: dict[str, Any], roles: dict[str, str], where: str) -> None:
        self.raw, self.roles, self.where = raw, roles, where

    def get(self, role: str) -> Any:
        """Return a cell, None where it is empty or there is no such column."""
        value = self.raw.get(self.roles.get(role, ""))
        if isinstance(value, str) and value.strip().lower() in _EMPTY:
            return None
        return None if isinstance(value, float) and value != value else value

    def fail(self, column: str, what: str) -> InputError:
        """Return the error of one cell."""
        return InputError(f"{self.where}, column {column!r}: {what}")

    def row(self, scores: list[str], options: list[str], line: int) -> LogRow:
        """Return the row of the log."""
        item = self.get("item")
        item = self.get("question") if item is None else item
        if item is None:
            raise self.fail(self.roles.get("item", self.roles.get("question", "")), "empty")
        if "model" in self.roles and self.get("model") is None:
            raise self.fail(self.roles["model"], "empty; every row needs its model")
        row = LogRow(
            native_id=_name(item),
            line=line,
            question=_name(self.get("question")),
            model=_name(self.get("model")) or None,
            task=_name(self.get("benchmark")) or None,
            subject=_name(self.get("subject")) or None,
            epoch=self.whole("epoch") or 0,
            options=self.texts(options),
            correct=self.share(),
        )
        if row.correct is None and "correct" in self.roles:
            row.logged["correct"] = float("nan")
        row.loglik = self.scores(scores)
        if row.loglik is not None:
            self.set_scored(row)
        elif self.get("gold") is not None and self.get("prediction") is not None:
            self.set_chosen(row)
        elif row.correct is not None:
            row.logged["correct"] = row.correct
        return row

    def share(self) -> float | None:
        """Return correctness between 0 and 1."""
        try:
            return share(self.get("correct"))
        except ValueError as error:
            raise self.fail(self.roles["correct"], str(error)) from None

    def whole(self, role: str) -> int | None:
        """Return a whole number."""
        value = self.get(role)
        try:
            return None if value is None else int(value)
        except (TypeError, ValueError):
            raise self.fail(self.roles[role], f"{value!r} is not a whole number") from None

    def list(self, role: str) -> list[Any] | None:
        """Return a list, which may be written as JSON."""
        value = self.get(role)
        if isinstance(value, str) and value.strip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise self.fail(self.roles[role], f"not a list ({error})") from None
        return value if isinstance(value, list) else None

    def texts(self, columns: list[str]) -> list[str]:
        """Return the options' texts, of one column with a list or of a column each."""
        found = self.list("options")
        if found is None:
            found = [self.raw.get(column) for column in columns]
            while found and found[-1] in (None, ""):
                found.pop()
        return [_name(text) for text in found] if len(found) > 1 else []

    def scores(self, columns: list[str]) -> list[float] | None:
        """Return the options' log-likelihoods; empty cells at the end are no options."""
        cells = [self.raw.get(column) for column in columns]
        names = columns
        if not columns:
            cells = self.list("loglik") or []
            names = [self.roles.get("loglik", "")] * len(cells)
        values = []
        for name, cell in zip(names, cells, strict=True):
            values.append(log_value(cell))
            empty = cell is None or str(cell).strip().lower() in (*_EMPTY, "-inf")
            if values[-1] != values[-1] and not empty:
                raise self.fail(name, f"{cell!r} is not a log-likelihood")
        if columns:
            while cells and cells[-1] in (None, ""):
                cells.pop()
                values.pop()
        return values if len(values) > 1 else None

    def set_scored(self, row: LogRow) -> None:
        """Take the gold option in every way it can be read; the metric decides."""
        size = len(row.loglik)
        if row.options and len(row.options) != size:
            raise InputError(f"{self.where}: {size} log-likelihoods, {len(row.options)} options")
        gold = self.get("gold")
        row.gold = {} if gold is None else read_gold(gold, row.options, n_options=size)
        row.tokens = self.list("tokens")
        row.lengths = {unit: v for unit in ("char", "byte") if (v := self.list(unit))}
        if row.correct in (0.0, 1.0):
            row.logged["correct"] = row.correct

    def set_chosen(self, row: LogRow) -> None:
        """Take the correct and the chosen option, if both are written in the same way."""
        size = max(26, len(row.options))
        golds = read_gold(self.get("gold"), row.options, n_options=size)
        found = read_gold(self.get("prediction"), row.options, n_options=size)
        order = ("letter", "text", "index")
        shared = next((n for n in order if n in golds and len(found.get(n, ())) == 1), None)
        if shared:
            row.gold, row.prediction = {"answer": golds[shared]}, found[shared][0]
        elif row.correct is None:  # written in no known way: equal or not
            row.correct = float(_name(self.get("gold")) == _name(self.get("prediction")))
            row.logged.pop("correct", None)
        if row.correct in (0.0, 1.0):
            row.logged["correct"] = row.correct


def _name(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if not isinstance(value, (list, dict)) else json.dumps(value)
