"""Tasks to benchmarks, and what several models have in common."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harmony_utils.errors import RefusedError
from harmony_utils.items import number_repeats
from harmony_utils.logs.rows import Flag
from harmony_utils.predictions import Predictions

if TYPE_CHECKING:
    from harmony_utils.logs.importing import ImportedLog

#: Settings of a run that change what its scores mean.
COMPARED = ("few_shot", "template", "task_version")

_TOLERANCE = 5e-4


@dataclass
class Run:
    """One model on one benchmark, all its tasks together.

    Parameters
    ----------
    model, benchmark : str
        As the logs name them.
    predictions : Predictions
        One row for each item; the subject is the task where the rows name none.
    paths : list of str
        Where it came from.
    settings : dict
        Common settings of its logs.
    reported : dict of str to float
        The logs' own averages over the benchmark.
    texts : dict of str to str
        Questions by content digest, if they were kept.
    """

    model: str
    benchmark: str
    predictions: Predictions
    paths: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict, repr=False)

    def questions(self) -> list[str]:
        """Return the question of each item; needs an import that kept the texts."""
        digests = self.predictions.table["key"].str.split("-").str[0]
        return [self.texts[digest] for digest in digests]

    def averages(self) -> dict[str, Any]:
        """Return the averages over items and over subjects.

        Returns
        -------
        dict
            ``micro`` is the mean over items, ``macro`` the unweighted mean over subjects (None
            without subjects), ``subjects`` the items, scored items and accuracy of each, and
            ``reported_rule`` which of the two the log's own number is: ``micro``, ``macro``,
            ``both``, ``neither``, or None where the log reports none.
        """
        table = self.predictions.table
        correct = self.predictions.correct
        subjects = table["subject"].fillna("").to_numpy()
        by_subject = {}
        for name in sorted(set(subjects) - {""}):
            chosen = correct[subjects == name]
            scored = chosen[~np.isnan(chosen)]
            accuracy = float(scored.mean()) if len(scored) else None
            by_subject[name] = {"n": len(chosen), "scored": len(scored), "accuracy": accuracy}
        means = [s["accuracy"] for s in by_subject.values() if s["accuracy"] is not None]
        micro = float(np.nanmean(correct)) if (~np.isnan(correct)).any() else None
        macro = float(np.mean(means)) if len(means) > 1 else None
        return {
            "micro": micro,
            "macro": macro,
            "subjects": by_subject,
            "reported_rule": self._rule(micro, macro),
        }

    def _rule(self, micro: float | None, macro: float | None) -> str | None:
        reported = self.reported.get("acc", self.reported.get("exact_match"))
        if reported is None or micro is None:
            return None
        matches = [
            name
            for name, value in (("micro", micro), ("macro", macro))
            if value is not None and abs(value - reported) < _TOLERANCE
        ]
        return {0: "neither", 1: matches[0] if matches else "", 2: "both"}[len(matches)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "model": self.model,
            "benchmark": self.benchmark,
            "n_items": len(self.predictions),
            "normalisation": self.predictions.meta["normalisation"],
            "paths": self.paths,
            **self.averages(),
        }


def merge_tasks(logs: list[ImportedLog], *, merge_different: bool = False) -> list[Run]:
    """Put a model's tasks that belong to one benchmark together.

    Of several answer filters the first is taken; of several logs of one task the one with most
    items, unless they are parts that share no item. Both are flagged.

    Raises
    ------
    RefusedError
        If logs of one model and benchmark were made with different settings.
    """
    chosen = _one_log_each(logs)
    groups: dict[tuple[str, str], list[ImportedLog]] = defaultdict(list)
    for log in chosen:
        groups[log.header.model, log.header.benchmark or log.header.task].append(log)
    runs = []
    for (model, benchmark), members in groups.items():
        if not merge_different:
            _refuse_different(members, f"model {model}, benchmark {benchmark}")
        runs.append(_merged(model, benchmark, members))
    return runs


def _one_log_each(logs: list[ImportedLog]) -> list[ImportedLog]:
    groups: dict[tuple[str, str], list[ImportedLog]] = defaultdict(list)
    for log in logs:
        groups[log.header.model, log.header.task].append(log)
    chosen = []
    for members in groups.values():
        splits = list(dict.fromkeys(log.split for log in members))
        if len(splits) > 1:
            shown = ", ".join(split or "none" for split in splits)
            for log in members:
                log.flags.append(
                    Flag(
                        "one-row-per-filter",
                        f"the log has a row for each of {len(splits)} answer filters ({shown}); "
                        f"{splits[0] or 'none'} is used",
                    )
                )
        chosen += _parts_or_largest([log for log in members if log.split == splits[0]])
    return chosen


def _parts_or_largest(same: list[ImportedLog]) -> list[ImportedLog]:
    """Return all logs of a task if no two share an item, else the one with most items."""
    keys = [key for log in same for key in set(log.predictions.table["key"])]
    if len(keys) == len(set(keys)):
        return same
    best = max(same, key=lambda log: len(log.predictions))
    if len({log.path for log in same}) > 1:
        best.flags.append(
            Flag("several-runs", f"{len(same)} logs of this model and task; one is used")
        )
    return [best]


def _refuse_different(members: list[ImportedLog], where: str) -> None:
    for name in COMPARED[:2]:
        values = {
            str(value): log.path
            for log in members
            if (value := log.header.settings.get(name)) is not None
        }
        if len(values) > 1:
            shown = "; ".join(f"{value} in {path}" for value, path in sorted(values.items()))
            raise RefusedError(
                f"{where}: runs with different {name.replace('_', '-')} would be merged ({shown}); "
                "import them apart, or say --merge-different"
            )


def _merged(model: str, benchmark: str, members: list[ImportedLog]) -> Run:
    predictions = _one_table(benchmark, members)
    first = members[0].header
    prefix = "group:" if len(members) > 1 else ""
    reported = {
        name.removeprefix(prefix): value
        for name, value in first.reported.items()
        if name.startswith("group:") == bool(prefix)
    }
    texts = {digest: text for log in members for digest, text in log.texts.items()}
    paths = [log.path for log in members]
    return Run(model, benchmark, predictions, paths, first.settings, reported, texts)


def _one_table(benchmark: str, members: list[ImportedLog]) -> Predictions:
    """Put the tables of a benchmark's tasks one below the other."""
    if len(members) == 1 and members[0].header.subject is None:
        return members[0].predictions
    tables = []
    several = len({log.header.task for log in members}) > 1
    for log in members:
        table = log.predictions.table
        name = log.header.subject or (log.header.task if several else None)
        tables.append(
            table.assign(subject=table["subject"].fillna(name) if name else table["subject"])
        )
    table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    base = table["key"].str.split("-").str[0]
    meta = {**members[0].predictions.meta, "benchmark": benchmark}
    return Predictions(table.assign(key=number_repeats(list(base))), meta)


def join_models(runs: list[Run], *, merge_different: bool = False) -> dict[str, Any]:
    """Say what the models of each benchmark have in common, item by item.

    Items are matched by content, never by position.

    Returns
    -------
    dict
        ``models`` (names), ``items`` (items that every model of their benchmark answered),
        ``dropped`` (items outside, by model and subject) and ``benchmarks`` with the same for each.

    Raises
    ------
    RefusedError
        If two models were asked in different ways.
    """
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.benchmark].append(run)
    benchmarks = {}
    for benchmark, members in groups.items():
        if not merge_different:
            _refuse_asked_differently(benchmark, members)
        common = set.intersection(*(set(run.predictions.table["key"]) for run in members))
        dropped = {}
        for run in members:
            table = run.predictions.table
            dropped[run.model] = {}
            if len(table) == len(common):
                continue
            outside = table[~table["key"].isin(common)]
            counts = outside["subject"].fillna("").value_counts().sort_index()
            dropped[run.model] = {name: int(n) for name, n in counts.items()}
        benchmarks[benchmark] = {
            "models": [run.model for run in members],
            "items": len(common),
            "dropped": dropped,
        }
    return {
        "models": list(dict.fromkeys(run.model for run in runs)),
        "items": sum(b["items"] for b in benchmarks.values()),
        "dropped": {
            model: sum(sum(b["dropped"].get(model, {}).values()) for b in benchmarks.values())
            for model in dict.fromkeys(run.model for run in runs)
        },
        "benchmarks": benchmarks,
    }


def _refuse_asked_differently(benchmark: str, members: list[Run]) -> None:
    for name in COMPARED:
        values = {str(v): r.model for r in members if (v := r.settings.get(name)) is not None}
        if len(values) > 1:
            shown = "; ".join(f"{value} ({model})" for value, model in sorted(values.items()))
            raise RefusedError(
                f"benchmark {benchmark}: models were run with different {name.replace('_', '-')} "
                f"({shown}); import them apart, or say --merge-different"
            )


def common_items(runs: list[Run]) -> list[Run]:
    """Return runs of one benchmark cut to the items that all of them have, in one order."""
    common = set.intersection(*(set(run.predictions.table["key"]) for run in runs))
    order = [key for key in runs[0].predictions.table["key"] if key in common]
    cut = []
    for run in runs:
        table = run.predictions.table.set_index("key", drop=False).loc[order]
        table = table.reset_index(drop=True)
        cut.append(replace(run, predictions=Predictions(table, run.predictions.meta)))
    return cut
