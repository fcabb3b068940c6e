"""From paths to checked tables of predictions, joined by model and benchmark."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.logs.checks import check_log, check_models
from harmony_utils.logs.collect import Collected, collect, read_table, to_predictions
from harmony_utils.logs.gold import Reading
from harmony_utils.logs.join import Run, join_models, merge_tasks
from harmony_utils.logs.readers import READERS
from harmony_utils.logs.rows import Flag, LogHeader
from harmony_utils.logs.sources import Source, find_sources
from harmony_utils.logs.streams import ON_READ
from harmony_utils.predictions import Predictions
from harmony_utils.progress import Progress, progress


@dataclass
class ImportedLog:
    """One model's answers to one task, checked.

    Parameters
    ----------
    path : str
        The file or folder.
    header : LogHeader
        What the log says of the run.
    split : str
        The answer filter, ``""`` if there is one only.
    predictions : Predictions
        The canonical table.
    reading : Reading
        How the gold options were read, and how well that agrees with the log.
    flags : list of Flag
        What a person must know.
    missing : int
        Values that the log does not hold.
    texts : dict of str to str
        Questions by content digest, if they were kept.
    """

    path: str
    header: LogHeader
    split: str
    predictions: Predictions
    reading: Reading
    flags: list[Flag] = field(default_factory=list)
    missing: int = 0
    texts: dict[str, str] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``harmony import --json`` prints them."""
        table = self.predictions.table
        scored = table["loglik"].notna().any()
        sizes = sorted({int(n) for n in table["n_options"].dropna()})
        return {
            "path": self.path,
            "format": self.header.format,
            "format_version": self.header.version,
            "model": self.header.model,
            "task": self.header.task,
            "filter": self.split,
            "n_items": len(table),
            "n_options": sizes[0] if len(sizes) == 1 else (sizes or None),
            "normalisation": self.predictions.meta["normalisation"],
            "accuracy": _plain(self.predictions.accuracy("sum" if scored else None)),
            "accuracy_norm": _plain(self.predictions.accuracy("char")) if scored else None,
            "agreement": {m: list(counts) for m, counts in self.reading.agreement.items()},
            "rules": self.reading.rules,
            "gold_reading": self.reading.name,
            "has_loglikelihoods": bool(scored),
            "missing": self.missing,
            "reported": self.header.reported,
            "settings": self.header.settings,
            "flags": [flag.to_dict() for flag in self.flags],
        }


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass
class Import:
    """Everything that was read.

    Parameters
    ----------
    logs : list of ImportedLog
        In the order of the files.
    runs : list of Run
        One for each model and benchmark.
    joined : dict
        What all models of a benchmark have in common; see :func:`~harmony_utils.logs.join_models`.
    skipped : list of str
        Files found in folders that are no logs.
    """

    logs: list[ImportedLog]
    runs: list[Run]
    joined: dict[str, Any]
    skipped: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``harmony import --json`` prints them."""
        return {
            "files": [log.to_dict() for log in self.logs],
            "runs": [run.to_dict() for run in self.runs],
            "joined": self.joined,
            "skipped": self.skipped,
        }

    def check(self) -> None:
        """Refuse if a recomputed metric differs from the logged one.

        Raises
        ------
        RefusedError
            With the counts and the likely causes.
        """
        wrong = [log for log in self.logs if not log.reading.agrees]
        if not wrong:
            return
        log = wrong[0]
        counts = ", ".join(
            f"{metric} on {same} of {n} rows"
            for metric, (same, n) in log.reading.agreement.items()
            if same < n
        )
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise RefusedError(
            f"{log.path}, task {log.header.task}{more}: recomputed and logged scores agree for "
            f"{counts} only, with the gold read as {log.reading.name}. Likely causes: the gold is "
            "in another field (--gold-from), rows of several filters or runs in one file, options "
            "in another order, or scores changed after logging. --accept-disagreement imports it "
            "all the same"
        )


def read_logs(
    paths: Sequence[str],
    *,
    log_format: str = "",
    gold_from: str = "",
    normalisation: str = "",
    merge_different: bool = False,
    keep_texts: bool = False,
) -> Import:
    """Read evaluation logs of other tools; no model is loaded.

    What was read is returned even if the logged scores are not reproduced: call
    :meth:`Import.check`, or use :func:`import_logs`, which does.

    Parameters
    ----------
    paths : sequence of str
        Files, folders and globs; gzip and Zstandard are undone.
    log_format : str
        Name of a format of :func:`formats`; told by the content if not given.
    gold_from : str
        How to read the gold option, where several readings are possible.
    normalisation : {"", "sum", "char", "byte", "token", "pmi"}
        How the options are compared; the sum of log-likelihoods if not given.
    merge_different : bool
        Join runs whose few-shot number, template or normalisation differ.
    keep_texts : bool
        Keep the questions, which a partition by embeddings needs.

    Returns
    -------
    Import
        The logs, and one run for each model and benchmark.

    Raises
    ------
    InputError
        If there is no log, a file is damaged, or the gold option is ambiguous.
    RefusedError
        If runs differ that would be joined.
    """
    logs, skipped = [], []
    sources = find_sources(list(paths))
    with progress("bytes of logs", sum(source.size for source in sources)) as bar:
        for source in sources:
            reader = _reader(source, log_format)
            if reader is None:
                skipped.append(str(source.path))
            else:
                with _advancing(bar):
                    logs += _import_source(source, reader, gold_from, normalisation, keep_texts)
    if not logs:
        raise InputError(
            f"{', '.join(map(str, paths))}: no evaluation log found; the formats are "
            f"{', '.join(formats())}"
        )
    runs = merge_tasks(logs, merge_different=merge_different)
    result = Import(logs, runs, join_models(runs, merge_different=merge_different), skipped)
    for name in {run.benchmark for run in result.runs}:
        runs = {run.model: run.predictions for run in result.runs if run.benchmark == name}
        for pair, flag in check_models(runs):
            for log in logs:
                if log.header.model in pair and (log.header.benchmark or log.header.task) == name:
                    log.flags.append(flag)
    return result


def import_logs(
    paths: Sequence[str], *, accept_disagreement: bool = False, **options: Any
) -> Import:
    """Read evaluation logs and refuse those whose scores cannot be reproduced.

    Parameters
    ----------
    paths : sequence of str
        Files, folders and globs.
    accept_disagreement : bool
        Import them all the same.
    **options
        For :func:`read_logs`.

    Returns
    -------
    Import
        The logs, and one run for each model and benchmark.

    Raises
    ------
    InputError, RefusedError
        As :func:`read_logs` and :meth:`Import.check`.
    """
    found = read_logs(paths, **options)
    if not accept_disagreement:
        found.check()
    return found


@contextmanager
def _advancing(bar: Progress) -> Iterator[None]:
    """Advance a bar by the bytes that are read.

    Meanwhile reference cycles are not looked for: rows have none, and there are many of them.
    """
    token = ON_READ.set(bar.advance)
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        ON_READ.reset(token)
        if collecting:
            gc.enable()


def formats() -> list[str]:
    """Return the names of the formats that can be read."""
    return [reader.NAME for reader in READERS]


def _reader(source: Source, wanted: str) -> ModuleType | None:
    """Return the module that reads a source, None for a file in a folder that is no log."""
    if wanted:
        if wanted not in formats():
            raise InputError(f"format {wanted!r}: choose {', '.join(formats())}")
        reader = next(r for r in READERS if wanted == r.NAME)
        if not source.asked and reader.sniff(source) is None:
            return None
        return reader
    for reader in READERS:
        if reader.sniff(source) is not None:
            return reader
    if source.asked and source.kind == "empty":
        raise InputError(f"{source.path}: empty file")
    if source.asked:
        raise InputError(
            f"{source.path}: not a log of a known format ({', '.join(formats())}); a table with "
            "the columns model,item,correct can always be read"
        )
    return None


def _import_source(
    source: Source, reader: ModuleType, gold_from: str, normalisation: str, keep_texts: bool
) -> Iterator[ImportedLog]:
    header, rows = reader.read(source)
    tables = collect(header, rows, keep_texts=keep_texts)
    if not tables:
        raise InputError(f"{source.path}: no rows")
    for data in tables:
        yield _import_table(source, data, gold_from, normalisation)


def _import_table(
    source: Source, data: Collected, gold_from: str, normalisation: str
) -> ImportedLog:
    where = f"{source.path}, task {data.header.task}"
    reading, _ = read_table(data, where=where, gold_from=gold_from)
    predictions, flags, missing = to_predictions(data, reading, normalisation=normalisation)
    flags = [*flags, *check_log(data, reading, predictions)]
    return ImportedLog(
        path=str(source.path),
        header=data.header,
        split=data.split,
        predictions=predictions,
        reading=reading,
        flags=flags,
        missing=missing,
        texts=data.texts or {},
    )
