"""From rows to the canonical table: one for each model, task and filter of a log."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.items import SHARED_STEM_WORDS, content_digest, number_repeats
from harmony_utils.logs.gold import Reading, choose_reading, hits
from harmony_utils.logs.rows import Flag, Gold, LogHeader, LogRow
from harmony_utils.predictions import SCHEMA, Predictions, choose

MISSING_SENTINEL = -999.0
"""What some backends write for an option whose log-likelihood they did not return."""

_LENGTHS = ("char", "char-stripped", "byte", "token")


@dataclass
class Collected:
    """The rows of one model on one task, as short columns; texts are hashed, not kept.

    Parameters
    ----------
    header : LogHeader
        Of the log, with the rows' own model and task.
    split : str
        Which of several rows for each item (a filter's name), or ``""``.
    texts : dict of str to str, optional
        Questions by content digest, where they are to be kept.
    """

    header: LogHeader
    split: str = ""
    texts: dict[str, str] | None = None
    digests: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    native_ids: list[str] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    subjects: list[str | None] = field(default_factory=list)
    n_options: list[int] = field(default_factory=list)
    equal_options: int = 0
    loglik: list[list[float] | None] = field(default_factory=list)
    unconditional: list[list[float] | None] = field(default_factory=list)
    lengths: list[list[tuple[int, int, int, int | None]] | None] = field(default_factory=list)
    predictions: list[int] = field(default_factory=list)
    chosen: list[Gold | None] = field(default_factory=list)
    answered: list[bool] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)
    readings: dict[str, list[Gold | None]] = field(default_factory=dict)
    logged: dict[str, list[float]] = field(default_factory=dict)
    flags: list[tuple[str, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.digests)

    def add(self, row: LogRow) -> None:
        """Append one row."""
        n = len(self)
        size = len(row.options) or len(row.loglik or ()) or row.n_options or 0
        if row.loglik is not None and len(row.loglik) != size:
            raise InputError(
                f"line {row.line}: {len(row.loglik)} log-likelihoods for {size} options"
            )
        question = row.question or row.prompt or row.native_id
        self.digests.append(content_digest(question, row.options, passage=row.passage))
        if self.texts is not None:
            self.texts[self.digests[-1]] = question
        self.groups.append(_group(row, question, self.digests[-1]))
        self.native_ids.append(row.native_id)
        self.epochs.append(row.epoch)
        self.subjects.append(row.subject)
        self.n_options.append(size)
        self.equal_options += len(set(row.options)) < len(row.options)
        self.loglik.append(row.loglik)
        self.unconditional.append(row.unconditional)
        self.lengths.append(_lengths(row) if row.loglik is not None else None)
        self.predictions.append(-1 if row.prediction is None else row.prediction)
        self.chosen.append(row.chosen)
        self.answered.append(row.answered)
        self.correct.append(math.nan if row.correct is None else row.correct)
        self.flags.append(row.flags)
        _append(self.readings, row.gold, n, None)
        _append(self.logged, row.logged, n, math.nan)


def _group(row: LogRow, question: str, digest: str) -> str:
    """Name what an item shares with others, as :func:`~harmony_utils.items.item_groups` does."""
    if row.passage:
        return "passage-" + _short_hash(row.passage)
    if question.count(" ") >= SHARED_STEM_WORDS - 1:
        return "question-" + _short_hash(question)
    return "item-" + digest


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _append(columns: dict[str, list], values: dict[str, Any], n: int, empty: Any) -> None:
    """Append to columns that may be new or absent in this row."""
    for name, value in values.items():
        if name in columns:
            columns[name].append(value)
        else:
            columns[name] = [*[empty] * n, value]
    if len(columns) > len(values):
        for name, column in columns.items():
            if name not in values:
                column.append(empty)


def _lengths(row: LogRow) -> list[tuple[int, int, int, int | None]]:
    """Return the lengths of the scored texts; those that the log states overrule counted ones."""
    size = len(row.loglik or ())
    scored = row.scored or row.options or [""] * size
    if not row.lengths and not row.tokens and "".join(scored).isascii():
        sizes = [len(text) for text in scored]
        if all(text == text.strip() for text in scored):
            return [(n, n, n, None) for n in sizes]
    counted = {
        "char": [len(text) for text in scored],
        "char-stripped": [len(text.strip()) for text in scored],
        "byte": [len(text.encode("utf-8", "replace")) for text in scored],
        "token": row.tokens or [None] * size,
    }
    columns = [row.lengths.get(unit) or counted[unit] for unit in _LENGTHS]
    return [(c or 0, s or 0, b or 0, t) for c, s, b, t in zip(*columns, strict=False)]


def collect(
    header: LogHeader, rows: Iterable[LogRow], *, keep_texts: bool = False
) -> list[Collected]:
    """Sort a log's rows by model, task and split.

    Parameters
    ----------
    header : LogHeader
        Of the log.
    rows : iterable of LogRow
        Read one by one.
    keep_texts : bool
        Keep the questions, for embeddings; else only their hashes are.

    Returns
    -------
    list of Collected
        In order of appearance.
    """
    found: dict[tuple[str, str, str], Collected] = {}
    for row in rows:
        model, task = row.model or header.model, row.task or header.task
        key = (model, task, row.split)
        if key not in found:
            own = LogHeader(**{**vars(header), "model": model, "task": task})
            found[key] = Collected(own, row.split, {} if keep_texts else None)
        found[key].add(row)
    for data in found.values():  # some are known only when all rows have been read
        data.header.flags = list(header.flags)
    return list(found.values())


def matrix(rows: list[list[float] | None], width: int) -> np.ndarray:
    """Return lists as rows of a float matrix, NaN where there is nothing."""
    sizes = np.array([len(row) if row is not None else 0 for row in rows])
    flat = [value for row in rows if row is not None for value in row]
    filled = np.full((len(rows), width), np.nan)
    filled[np.arange(width) < sizes[:, None]] = np.array(flat, dtype=float)  # None becomes NaN
    return filled


def lists(values: np.ndarray, sizes: list[int], *, integer: bool = False) -> list[list | None]:
    """Return the rows of a matrix as lists, None for NaN; None for a row of size -1."""
    missing = np.isnan(values)
    counts = np.array(sizes)
    absent = np.flatnonzero((missing & (np.arange(values.shape[1]) < counts[:, None])).any(axis=1))
    rows: list[list | None] = np.where(missing, -1, values).astype(int) if integer else values
    rows = rows.tolist()
    for i in np.flatnonzero(counts < values.shape[1]):
        rows[i] = rows[i][: counts[i]] if counts[i] >= 0 else None
    for i in absent:
        rows[i] = [None if gone else v for v, gone in zip(rows[i], missing[i], strict=False)]
    return rows


def _sizes(rows: list[list | None]) -> list[int]:
    return [-1 if row is None else len(row) for row in rows]


def length_matrices(data: Collected, width: int) -> dict[str, np.ndarray]:
    """Return the lengths of the scored texts by unit, NaN where unknown."""
    flat = [x for row in data.lengths if row is not None for four in row for x in four]
    sizes = np.array(_sizes(data.lengths))
    all_units = np.full((len(sizes), width, len(_LENGTHS)), np.nan)
    there = np.arange(width) < sizes[:, None]
    all_units[there] = np.array(flat, dtype=float).reshape(-1, len(_LENGTHS))
    all_units[all_units <= 0] = np.nan
    return dict(zip(_LENGTHS, np.moveaxis(all_units, 2, 0), strict=True))


def finite(values: np.ndarray) -> np.ndarray:
    """Return log-likelihoods with NaN for what is none: infinite values and placeholders."""
    return np.where(np.isfinite(values) & (values != MISSING_SENTINEL), values, np.nan)


def read_table(data: Collected, *, where: str, gold_from: str = "") -> tuple[Reading, np.ndarray]:
    """Find the reading of the gold options; return it with the log-likelihoods as a matrix."""
    width = max([2, *data.n_options])
    loglik = matrix(data.loglik, width)
    unconditional = None
    if any(row is not None for row in data.unconditional):
        unconditional = matrix(data.unconditional, width)
    reading = choose_reading(
        data.readings,
        {name: np.array(values, dtype=float) for name, values in data.logged.items()},
        data.header.metrics,
        where=where,
        wanted=gold_from,
        loglik=loglik,
        n_options=np.array(data.n_options),
        lengths=length_matrices(data, width),
        unconditional=unconditional,
        prediction=np.array(data.predictions),
        chosen=data.chosen if any(c is not None for c in data.chosen) else None,
    )
    return reading, loglik


def to_predictions(
    data: Collected, reading: Reading, *, normalisation: str = ""
) -> tuple[Predictions, list[Flag], int]:
    """Make the canonical table, with one row for each item.

    Parameters
    ----------
    data : Collected
        Rows of one model, task and split.
    reading : Reading
        Which options are correct.
    normalisation : str
        How options are compared; by default the sum, or what the log itself chose where it holds
        no log-likelihoods.

    Returns
    -------
    predictions : Predictions
        Repeated rows of an item are one row: their correctness is averaged.
    flags : list of Flag
        What was missing or repeated.
    missing : int
        Number of values that are missing: log-likelihoods of options, answers, scores.
    """
    scored = any(row is not None for row in data.loglik)
    name = normalisation or "sum"
    width = max([2, *data.n_options])
    loglik = finite(matrix(data.loglik, width))
    unconditional = finite(matrix(data.unconditional, width))
    lengths = length_matrices(data, width)
    table = _table(data, reading, loglik, unconditional, lengths)
    flags, missing = _missing(data, loglik)
    meta = {
        "model": _model(data.header.model),
        "benchmark": data.header.benchmark or data.header.task,
        "split": data.split,
        "normalisation": name if scored else "logged",
        "settings": data.header.settings,
        "log": {
            "format": data.header.format,
            "version": data.header.version,
            "task": data.header.task,
            "gold_reading": reading.name,
        },
    }
    if scored:
        scores = loglik - unconditional if name == "pmi" else loglik / lengths.get(name, 1.0)
        chosen, tied = choose(scores)
        table["prediction"] = pd.array(chosen, dtype="Int64")
        table.loc[chosen < 0, "prediction"] = pd.NA
        table["correct"] = hits(chosen, reading.gold, chosen >= 0)
        for i in np.flatnonzero(tied):
            table["flags"].iat[i].append("tie")
    table, repeats = _one_row_each(table, data)
    return Predictions(table[SCHEMA.names], meta), flags + repeats, missing


def _table(
    data: Collected,
    reading: Reading,
    loglik: np.ndarray,
    unconditional: np.ndarray,
    lengths: dict[str, np.ndarray],
) -> pd.DataFrame:
    """Return the columns of the canonical table, row by row as logged."""
    predictions = [p if p >= 0 else None for p in data.predictions]
    gold = [None if g is None else list(g) for g in reading.gold]
    correct = [
        float(p in g) if p is not None and g is not None else (0.0 if not ok and g else logged)
        for p, g, ok, logged in zip(predictions, gold, data.answered, data.correct, strict=True)
    ]
    for i, several in enumerate(data.chosen):
        if several is not None and gold[i] is not None:
            correct[i] = float(set(several) == set(gold[i]))
    sizes = _sizes(data.lengths)
    columns = {"characters": "char", "bytes": "byte", "tokens": "token"}
    return pd.DataFrame(
        {
            "key": data.digests,
            "native_id": data.native_ids,
            "subject": data.subjects,
            "group": data.groups,
            "n_options": pd.array([n or None for n in data.n_options], dtype="Int64"),
            "gold": gold,
            "loglik": lists(loglik, _sizes(data.loglik)),
            "unconditional": lists(unconditional, _sizes(data.unconditional)),
            **{c: lists(lengths[unit], sizes, integer=True) for c, unit in columns.items()},
            "prediction": pd.array(predictions, dtype="Int64"),
            "prediction_source": [
                "argmax" if r is not None else ("logged" if p is not None else "none")
                for r, p in zip(data.loglik, predictions, strict=True)
            ],
            "correct": correct,
            "flags": [list(f) for f in data.flags],
        }
    )


def _missing(data: Collected, loglik: np.ndarray) -> tuple[list[Flag], int]:
    """Count what the log does not hold."""
    flags = []
    within = np.arange(loglik.shape[1]) < np.array(_sizes(data.loglik))[:, None]
    absent = (np.isnan(loglik) & within).sum(axis=1)
    if options := int(absent.sum()):
        items = int((absent > 0).sum())
        flags.append(
            Flag(
                "missing-loglikelihood",
                f"{options} log-likelihoods of {items} items are missing (-inf, nan or a "
                "placeholder); they are left out, not taken as numbers",
            )
        )
    if unread := sum(not ok for ok in data.answered):
        flags.append(Flag("unmapped-answer", f"{unread} answers could not be matched to an option"))
    unscored = sum(
        all(math.isnan(values[i]) for values in data.logged.values()) and math.isnan(c)
        for i, c in enumerate(data.correct)
    )
    if data.logged and unscored:
        flags.append(Flag("unscored", f"{unscored} rows have no score in the log"))
    return flags, options + unread + (unscored if data.logged else 0)


def _one_row_each(table: pd.DataFrame, data: Collected) -> tuple[pd.DataFrame, list[Flag]]:
    """Join repeated rows of the same item; number different items with the same text."""
    flags = []
    same = pd.MultiIndex.from_arrays([table["native_id"], table["key"]])
    epoch = pd.Series(data.epochs)
    repeated = same.duplicated()
    if repeated.any():
        by_epoch = pd.MultiIndex.from_arrays([table["native_id"], table["key"], epoch])
        again = by_epoch.duplicated()
        if again.any():
            flags.append(
                Flag("repeated-rows", f"{int(again.sum())} rows repeat an id and its question")
            )
        if (~again & repeated).any():
            flags.append(
                Flag(
                    "repeated-epochs",
                    f"items were asked up to {int(epoch.nunique())} times; correctness is averaged",
                )
            )
            mean = table["correct"][~again].groupby(same[~again].factorize()[0]).transform("mean")
            table.loc[~again, "correct"] = mean
        table = table[~repeated].reset_index(drop=True)
    keys = table["key"].tolist()
    if extra := len(keys) - len(set(keys)):
        flags.append(
            Flag("duplicate-questions", f"{extra} items repeat the text of an earlier one")
        )
        golds = table.groupby("key")["gold"].agg(lambda g: len({str(x) for x in g}))
        if clash := int((golds > 1).sum()):
            flags.append(
                Flag(
                    "two-keyed-answers", f"{clash} questions appear with different correct answers"
                )
            )
    groups = table["group"].tolist()
    counts = Counter(groups)  # an item alone in its group has none
    group = [name if counts[name] > 1 else None for name in groups]
    return table.assign(key=number_repeats(keys), group=group), flags


def _model(name: str) -> dict[str, Any]:
    """Describe a model of which only the name is known."""
    return {
        "name": name,
        "family": None,
        "parameters": None,
        "tokens": None,
        "layer": None,
        "layers": None,
    }
