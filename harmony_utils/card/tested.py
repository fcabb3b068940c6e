"""What was tested: finished run folders, read once and checked against themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.files import file_hash, read_json
from harmony_utils.labels import check_groups, group_numbers
from harmony_utils.predictions import Predictions
from harmony_utils.runs import RUN_FILE, Run
from harmony_utils.sources import list_benchmarks

PREDICTIONS_FILE = "predictions.parquet"
_PARTITIONS = (
    ("harmony.json", "partition.parquet", ""),
    ("given-embeddings.json", "given-embeddings.parquet", "embeddings"),
    ("given-subjects.json", "given-subjects.parquet", "subjects"),
)
"""Result, labels and name of the partitions that a run can have; the first that is there counts."""

RESULTS = tuple(result for result, _, _ in _PARTITIONS)
"""Files that hold HARMONY."""


@dataclass(frozen=True, eq=False)
class Tested:
    """One model on one benchmark, as a finished run folder holds it.

    Parameters
    ----------
    place : str
        ``benchmark/model`` as folders are named; paths of this machine stand nowhere.
    predictions : Predictions
        The answers that are scored.
    n_unscored : int
        Rows without a score; they are left out.
    record : dict
        Content of ``run.json``, empty without one.
    found : dict or None
        Content of ``harmony.json``, or of the result over a given partition.
    labels : ndarray of shape (n_items,) or None
        Subdomain of each item.
    names : tuple of str
        Name of each subdomain: its distinctive terms, or its number.
    partition : str
        What made the subdomains; empty for the model's own.
    hashes : dict of str to str
        SHA-256 of every file that was read.
    """

    place: str
    predictions: Predictions
    n_unscored: int
    record: dict[str, Any]
    found: dict[str, Any] | None
    labels: np.ndarray | None
    names: tuple[str, ...]
    partition: str
    hashes: dict[str, str] = field(repr=False)

    @property
    def model(self) -> str:
        """The model's name; of a local folder or file its last part, no path of this machine."""
        name = self.predictions.model_name
        return Path(name).name if _is_path(name) else name

    @property
    def aliases(self) -> set[str]:
        """Names under which other files may know the model: as it was asked for, and its folder."""
        return {self.model, self.predictions.model_name, self.place.partition("/")[2]}

    @property
    def benchmark(self) -> str:
        """The benchmark's name."""
        return self.predictions.benchmark_name

    @property
    def imported(self) -> bool:
        """Whether the answers come from the log of another tool."""
        return "log" in self.predictions.meta

    @cached_property
    def groups(self) -> np.ndarray:
        """Which items hang together, shape (n_items,); without any, each is its own group."""
        numbers = group_numbers(self.predictions.table["group"].tolist())
        return check_groups(numbers, len(self.predictions))

    @cached_property
    def subjects(self) -> np.ndarray:
        """Subject of each item as text, shape (n_items,), None where it has none."""
        column = self.predictions.table["subject"]
        return column.astype(object).where(column.notna(), None).to_numpy()

    @property
    def expected(self) -> tuple[int | None, int | None]:
        """How many items and subjects the benchmark has by the catalogue, None where unknown."""
        for entry in list_benchmarks():
            if entry.name == self.benchmark:
                return entry.n_items, entry.n_subjects
        return None, None

    @property
    def configuration(self) -> dict[str, Any]:
        """Settings under which the answers were made, as far as the run recorded them."""
        about = self.record.get("audit", {}).get("model", {})
        step = self.record.get("steps", {}).get("predictions", {})
        made = self.predictions.meta.get("model", {})
        about = {**(made if isinstance(made, dict) else {}), **about}
        known = ("source", "version", "revision")
        identity = {name: about[name] for name in known if about.get(name) is not None}
        settings = {**self.predictions.meta.get("settings", {}), **step.get("settings", {})}
        return {**identity, **settings, "normalisation": self.predictions.meta["normalisation"]}

    @property
    def sampled(self) -> bool | None:
        """Whether only a part of the benchmark was asked; None where that is not known."""
        asked, total = len(self.predictions) + self.n_unscored, self.expected[0]
        if self.place.partition("/")[0].endswith(f"--{asked}"):  # the folder of a sample says so
            return True
        return None if total is None else asked < total

    def command(self, more: str = "") -> str:
        """Return the command that would audit this again, with what is to be added to it."""
        if self.imported:
            return f"harmony audit --from-logs LOGS{more}"
        return f"harmony audit {self._asked()}{more}"

    def framing_command(self) -> str:
        """Return the command that would ask this in other ways."""
        if self.imported:
            return "harmony framing --from NAME=FOLDER for each way of asking, then --framing FILE"
        return f"harmony framing {self._asked()}, then --framing FILE"

    def _asked(self) -> str:
        limit = f" --limit {len(self.predictions) + self.n_unscored}" if self.sampled else ""
        folder = "FOLDER/" if _is_path(self.predictions.model_name) else ""
        return f"--model {folder}{self.model} --benchmark {self.benchmark}{limit}"


def load_tested(folders: Sequence[str | Path]) -> tuple[list[Tested], list[str]]:
    """Read finished runs.

    Parameters
    ----------
    folders : sequence of path
        Run folders, or folders above them.

    Returns
    -------
    tested : list of Tested
        Ordered by benchmark and model, whatever the order of the folders.
    unfinished : list of str
        Places below a given folder that have a ``run.json`` and no predictions.

    Raises
    ------
    InputError
        If a folder is not there or holds no finished run, or two runs are of one model on one
        benchmark.
    RefusedError
        If a result in a run does not belong to its answers.
    """
    if not folders:
        raise InputError("card: no run folders given; name finished ones")
    finished: set[Path] = set()
    begun: set[Path] = set()
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give run folders or one above them")
        done = {path.parent.resolve() for path in folder.rglob(PREDICTIONS_FILE)}
        there = {path.parent.resolve() for path in folder.rglob(RUN_FILE)}
        if not done:
            reason = "no run in or below it; give a finished run"
            if there:
                reason = f"no {PREDICTIONS_FILE}, so it is not finished; run the same audit again"
            raise InputError(f"{folder}: {reason}")
        finished |= done
        begun |= there - done
    tested = sorted(map(_load, finished), key=lambda run: (run.benchmark, run.model, run.place))
    known: dict[tuple[str, str], Tested] = {}
    for run in tested:
        other = known.setdefault((run.benchmark, run.model), run)
        if other is not run:
            raise InputError(
                f"{run.place} and {other.place} are both {run.model} on {run.benchmark}; give one"
            )
    return tested, sorted(map(_place, begun))


def _is_path(name: str) -> bool:
    return name.startswith((".", "~")) or Path(name).is_absolute()


def _place(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _load(folder: Path) -> Tested:
    run = Run(folder)
    path = run.path(PREDICTIONS_FILE)
    whole = Predictions.load(path)
    if not (whole.model_name and whole.benchmark_name and whole.meta.get("normalisation")):
        raise InputError(f"{path}: does not say which model on what; run the audit or import again")
    scored = ~np.isnan(whole.correct)
    if not scored.any():
        raise InputError(f"{path}: no answer is scored")
    predictions = Predictions(whole.table[scored].reset_index(drop=True), whole.meta)
    hashes = {PREDICTIONS_FILE: file_hash(path)}
    if run.path(RUN_FILE).exists():
        hashes[RUN_FILE] = file_hash(run.path(RUN_FILE))
    found, labels, names, partition = None, None, (), ""
    for result, table, name in _PARTITIONS:
        if run.path(result).exists() and run.path(table).exists():
            found = _checked(run.path(result), predictions)
            labels = _labels(run.path(table), predictions)
            read = [result, table, *(["partition.json"] if not name else [])]
            read = [file for file in read if run.path(file).exists()]
            hashes |= {file: file_hash(run.path(file)) for file in read}
            partition = found.get("partition", name)
            partition = partition["name"] if isinstance(partition, dict) else partition
            names = _names(run, labels, result)
            break
    return Tested(
        place=_place(folder),
        predictions=predictions,
        n_unscored=int((~scored).sum()),
        record=run.record,
        found=found,
        labels=labels,
        names=names,
        partition=partition,
        hashes=hashes,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); run the audit again") from None


def _checked(path: Path, predictions: Predictions) -> dict[str, Any]:
    """Read a result; refuse one that was found on other answers."""
    found = _read(path)
    try:
        same = found["n_items"] == len(predictions)
        same = same and abs(found["accuracy"] - predictions.correct.mean()) < 1e-9
        needed = (found["harmony"], found["verdict"]["label"], found["null"]["lo"])
    except (KeyError, TypeError):
        raise InputError(f"{path}: not a result of an audit; run the audit again") from None
    if not same or None in needed:
        raise RefusedError(f"{path}: was found on other answers; run the audit again")
    return found


def _labels(path: Path, predictions: Predictions) -> np.ndarray:
    labels = pd.read_parquet(path).set_index("key")["label"].reindex(predictions.table["key"])
    if labels.isna().any():
        raise RefusedError(f"{path}: is of other questions; run the audit again")
    return labels.to_numpy(dtype=int)


def _names(run: Run, labels: np.ndarray, result: str) -> tuple[str, ...]:
    """Return distinctive terms where a subdomain has any, else given names, else numbers."""
    about = {}
    if result == "harmony.json" and run.path("partition.json").exists():
        about = _read(run.path("partition.json"))
    elif result != "harmony.json":
        about = _read(run.path(result))
    given = list(about.get("names") or []) if "cluster_names" not in about else []
    terms = [", ".join(entry["terms"]) for entry in about.get("cluster_names") or []]
    listed = terms or given
    n_labels = int(labels.max()) + 1
    if len(listed) != n_labels or listed == [str(i) for i in range(n_labels)]:
        listed = [""] * n_labels
    return tuple(name or f"subdomain {number}" for number, name in enumerate(listed))
