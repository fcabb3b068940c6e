"""The recorded panel: many respondents on many benchmarks, as this project computed them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.comparison import co_membership, shared_affinity
from harmony_utils.difficulty.responses import Responses, responses_from_table
from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.partition import spectral_partition
from harmony_utils.predictions import Predictions
from harmony_utils.runs import RUN_FILE, Run, find_runs, recorded_folder
from harmony_utils.settings import PlaneSettings
from harmony_utils.similarity import affinity_from_divergence
from harmony_utils.sources import list_benchmarks

PARTITIONS = ("shared", "embeddings", "own", "subjects")
"""Columns of labels of the recorded panel."""


def panel_folder() -> Path:
    """Return the folder of the recorded panel."""
    return recorded_folder() / "panel"


def recorded_benchmarks() -> list[str]:
    """Return the benchmarks of the recorded panel, by name."""
    return sorted(path.stem for path in panel_folder().glob("*.parquet"))


def recorded_about(benchmark: str) -> dict[str, Any]:
    """Return how a benchmark was recorded: command, versions, cores, seconds, partitions."""
    return read_json(_file(benchmark).with_suffix(".json"))


def recorded_panel(benchmark: str) -> pd.DataFrame:
    """Return every recorded answer to a benchmark.

    Parameters
    ----------
    benchmark : str
        One of :func:`recorded_benchmarks`.

    Returns
    -------
    DataFrame
        One row per respondent and item, respondents and items in the order of the recording:
        ``respondent``, ``key``, ``native_id``, ``subject`` (missing where the benchmark has none),
        ``correct`` (0 or 1), ``prediction`` (index of the option), ``margin`` (best score minus
        the second best, on the respondent's own scale), and labels ``shared``, ``embeddings`` and
        ``own`` (missing for respondents without predictive similarity). A response matrix is
        ``panel.pivot(index="respondent", columns="key", values="correct")``.

    Raises
    ------
    InputError
        If the benchmark is not in the panel.
    """
    return pd.read_parquet(_file(benchmark))


def panel_responses(benchmark: str) -> Responses:
    """Return the recorded answers to a benchmark as a matrix of respondents and items.

    Parameters
    ----------
    benchmark : str
        One of :func:`recorded_benchmarks`.

    Returns
    -------
    Responses
        The panel, and whatever further models were recorded on the same questions, such as early
        exits. Items have their native ids; the family of a rule is ``rule``, that of an early exit
        the name of its model.

    Raises
    ------
    InputError
        If the benchmark is not in the panel.
    """
    panel = recorded_panel(benchmark)
    columns = {"respondent": "model", "native_id": "item"}
    tables = [panel.rename(columns=columns)[["model", "item", "correct", "subject"]]]
    known, keys = set(panel["respondent"]), set(panel["key"])
    for run in find_runs(recorded_folder(), benchmark):
        predictions = Predictions.load(run.path("predictions.parquet"))
        name = predictions.meta["model"]["name"]
        if name not in known and set(predictions.table["key"]) == keys:
            table = predictions.table.rename(columns={"native_id": "item"}).assign(model=name)
            tables.append(table[["model", "item", "correct", "subject"]])
    whole = pd.concat([table.astype({"subject": object}) for table in tables], ignore_index=True)
    base = whole["model"].str.partition("#")[0]
    family = base.mask(base.str.startswith("respondent:"), "rule")
    return responses_from_table(whole.assign(family=family))


def panel_answers(benchmarks: Sequence[str] = ()) -> pd.DataFrame:
    """Return the recorded answers to several benchmarks, ready for the plane.

    Parameters
    ----------
    benchmarks : sequence of str
        Names; empty for all that are recorded.

    Returns
    -------
    DataFrame
        As :func:`recorded_panel`, with ``benchmark``, and ``subjects`` as labels.
    """
    parts = []
    for name in benchmarks or recorded_benchmarks():
        panel = recorded_panel(name)
        parts.append(panel.assign(benchmark=name, subjects=panel["subject"]))
    if not parts:
        raise InputError("the panel is not recorded; run `make recorded`")
    return pd.concat(parts, ignore_index=True)


def split_pairs(benchmarks: Sequence[str]) -> list[tuple[str, str]]:
    """Return which benchmarks are two splits of one dataset.

    Parameters
    ----------
    benchmarks : sequence of str
        Names of the catalogue; others are left out.

    Returns
    -------
    list of (str, str)
        The benchmark under its plain name, and the one whose name adds a split; sorted.

    Examples
    --------
    >>> split_pairs(["arc_easy_test", "arc_easy", "copa"])
    [('arc_easy', 'arc_easy_test')]
    """
    splits = {entry.name: f"_{entry.split}" for entry in list_benchmarks()}
    named = [(name.removesuffix(splits.get(name, "")), name) for name in sorted(benchmarks)]
    return [(plain, name) for plain, name in named if plain != name and plain in benchmarks]


def run_answers(folders: Sequence[Path | str], *, partition: str = "own") -> pd.DataFrame:
    """Return the answers of finished runs, ready for the plane.

    Parameters
    ----------
    folders : sequence of path
        Run folders, or folders above them.
    partition : str
        Labels to add: ``own``, ``shared`` (how many models put two items together, clustered),
        ``embeddings`` (from an audit with ``--partition embeddings``) or ``subjects``.

    Returns
    -------
    DataFrame
        Columns as :data:`harmony_utils.plane.COLUMNS`, and the labels.

    Raises
    ------
    InputError
        If there is no run, two have the same name, or none of a benchmark that has enough
        respondents for the plane has such labels.
    """
    if partition not in PARTITIONS:
        raise InputError(f"partition {partition!r}: choose {', '.join(PARTITIONS)}")
    by_benchmark: dict[str, dict[str, Run]] = {}
    for run in find_folders(folders):
        benchmark, name = run.folder.parent.name, run.folder.name
        others = by_benchmark.setdefault(benchmark, {})
        if name in others:
            raise InputError(f"{run.folder}: {others[name].folder} is of the same model; give one")
        others[name] = run
    parts = []
    for benchmark, runs in sorted(by_benchmark.items()):
        tables = {name: Predictions.load(r.path("predictions.parquet")) for name, r in runs.items()}
        try:
            labels = _run_labels(benchmark, runs, tables, partition)
        except InputError:
            if len(runs) >= PlaneSettings().min_respondents:
                raise
            labels = {}  # too few runs for a place on the plane: no reason to refuse the others
        parts += [
            predictions.table[["key", "native_id", "subject", "correct"]].assign(
                benchmark=benchmark, respondent=name, **{partition: labels.get(name)}
            )
            for name, predictions in tables.items()
        ]
    return pd.concat(parts, ignore_index=True)


def _file(benchmark: str) -> Path:
    path = panel_folder() / f"{benchmark}.parquet"
    if not path.exists():
        there = ", ".join(recorded_benchmarks()) or "none"
        raise InputError(f"recorded panel: no benchmark {benchmark!r}; there are: {there}")
    return path


def find_folders(folders: Sequence[Path | str]) -> list[Run]:
    """Return the runs with predictions in or below some folders, each once, by path.

    Raises
    ------
    InputError
        If a folder is not there or holds no run.
    """
    found: set[Path] = set()
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give run folders or one above them")
        below = {path.parent for path in folder.rglob(RUN_FILE)}
        if not below:
            raise InputError(f"{folder}: no run.json in or below it; give a finished run")
        found |= below
    runs = [Run(path) for path in sorted(found)]
    return [run for run in runs if run.path("predictions.parquet").exists()]


def _run_labels(
    benchmark: str, runs: dict[str, Run], tables: dict[str, Predictions], partition: str
) -> dict[str, Any]:
    """Return labels by run, in the order of its table; runs without any are left out."""
    if partition == "subjects":
        return {name: found.table["subject"].to_numpy() for name, found in tables.items()}
    file = "given-embeddings.parquet" if partition == "embeddings" else "partition.parquet"
    read = {
        name: pd.read_parquet(run.path(file)).set_index("key")["label"]
        for name, run in runs.items()
        if run.path(file).exists()
    }
    if not read:
        hint = "audit them, or take another --partition"
        if partition == "embeddings":
            hint = "run `harmony audit --partition embeddings` on one of them"
        raise InputError(f"{benchmark}: no run has labels {partition!r}; {hint}")
    if partition == "own":
        return {name: _in_order(labels, tables[name]) for name, labels in read.items()}
    first = next(iter(read))
    keys = read[first].index
    labels = read[first]
    if partition == "shared":
        same = [found.reindex(keys) for found in read.values()]
        if any(found.isna().any() for found in same):
            raise InputError(f"{benchmark}: the runs are not on the same items")
        affinity = shared_affinity(co_membership(found.to_numpy()) for found in same)
        labels = pd.Series(spectral_partition(affinity).labels, index=keys)
    return {name: _in_order(labels, found) for name, found in tables.items()}


def _in_order(labels: pd.Series, predictions: Predictions) -> np.ndarray:
    return labels.reindex(predictions.table["key"]).to_numpy()


def shared_by_runs(runs: Sequence[Run]) -> np.ndarray:
    """Return the mean similarity of items over runs, where all kept divergences, else over labels.

    Parameters
    ----------
    runs : sequence of Run
        On the same items in the same order.

    Returns
    -------
    ndarray of shape (n_items, n_items)
        An affinity.
    """
    if all(run.path("divergence.npy").exists() for run in runs):
        return shared_affinity(_similarity(run) for run in runs)
    return shared_affinity(
        co_membership(pd.read_parquet(run.path("partition.parquet"))["label"]) for run in runs
    )


def _similarity(run: Run) -> np.ndarray:
    divergence = np.load(run.path("divergence.npy"))
    temperature = read_json(run.path("affinity.json"))["temperature"]
    return affinity_from_divergence(divergence, temperature=temperature)[0]
