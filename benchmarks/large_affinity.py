"""What is lost, and what is saved, where landmarks or neighbours stand for all pairs?

``compare`` draws questions of MMLU with the distributions a model answered them with, finds
subdomains and HARMONY from all pairs, through 250 to 2,000 landmarks, and from 25 to 800 nearest
neighbours of each, and says how far they agree. ``size`` measures time and memory at one size: on
the whole of MMLU, where it compares, too, or on made-up distributions with ``--made-up``. Rows go
to ``results/recorded/large_affinity.csv``, with command, versions and hardware in
``large_affinity.json``; each call replaces its own rows.

    python benchmarks/large_affinity.py compare --root runs/default
    python benchmarks/large_affinity.py size --root runs/default
    python benchmarks/large_affinity.py size --made-up 25000 --outcomes 4096 --route landmarks

Without ``--root`` a sample is scored first; a kill loses no more than a minute of that. Times are
those of one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.format import open_memmap
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from harmony_utils.files import read_json, write_json, write_text
from harmony_utils.harmony import harmony
from harmony_utils.landmarks import landmark_affinity, landmark_divergences
from harmony_utils.neighbours import nearest_divergences
from harmony_utils.pairs import sample_items
from harmony_utils.partition import Partition, spectral_partition
from harmony_utils.runs import recorded_folder, versions
from harmony_utils.settings import LANDMARKS, parse_assignments
from harmony_utils.similarity import (
    affinity_from_divergence,
    jeffreys_divergence,
    median_temperature,
)
from harmony_utils.spectral import cluster_affinity
from harmony_utils.stages import Audit

MODEL, BENCHMARK, FORMAT = "smollm2-135m#layer=4", "mmlu", "predictions.format=letter"
NUMBERS = {"landmarks": (250, 500, 1000, 2000), "neighbours": (25, 50, 100, 200, 400, 800)}
USUAL = {"landmarks": LANDMARKS, "neighbours": 400}
KEYS = ["part", "data", "route", "number", "n_items", "n_outcomes"]


def measured(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run a function in a process of its own and add the most memory it had, in megabytes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_with_peak, work, arguments).result()


def _with_peak(work: Callable[..., dict[str, Any]], arguments: tuple) -> dict[str, Any]:
    found = work(*arguments)
    # not ru_maxrss: a child has its parent's until it needs more
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {**found, "peak_mb": round(int(peak.split()[1]) / 1024)}


def all_pairs(path: Path, other_seed: bool = False) -> dict[str, Any]:
    """Return subdomains from all pairs, if wanted those of another seed, and the seconds taken."""
    distributions = np.load(path, mmap_mode="r")
    start = time.process_time()
    divergence = jeffreys_divergence(distributions)
    affinity, temperature = affinity_from_divergence(divergence)
    middle = time.process_time()
    partition = spectral_partition(affinity)
    end = time.process_time()
    again = spectral_partition(affinity, random_state=1) if other_seed else partition
    return {
        **_row("all pairs", affinity.shape, partition, middle - start, end - middle),
        "n_outcomes": distributions.shape[1],
        "temperature": temperature,
        "labels": partition.labels,
        "other_seed": again.labels,
        "other_silhouettes": again.silhouettes,
    }


def neighbours(
    path: Path, most: int, kept: tuple[int, ...], n_clusters: int = 0
) -> list[dict[str, Any]]:
    """Return the same from the nearest neighbours, for several numbers of them.

    All are taken from one search for ``most``: the nearest 25 are among the nearest 800.
    """
    distributions = np.load(path, mmap_mode="r")
    start = time.process_time()
    graph = nearest_divergences(distributions, most)
    items = sample_items(len(distributions))
    sampled = jeffreys_divergence(distributions[items])
    temperature = median_temperature(sampled)
    searched = time.process_time() - start
    rows = []
    for number in kept:
        start = time.process_time()
        affinity, _ = affinity_from_divergence(fewer_links(graph, number), temperature=temperature)
        similarity, _ = affinity_from_divergence(sampled, temperature=temperature)
        partition = spectral_partition(affinity, similarity=similarity, items=items)
        seconds = time.process_time() - start
        row = {
            **_row("neighbours", affinity.shape, partition, searched, seconds),
            "number": number,
            "n_outcomes": distributions.shape[1],
            "links": round(affinity.nnz / len(distributions) - 1, 1),
            "temperature": temperature,
            "labels": partition.labels,
        }
        if n_clusters:
            row["same_number"] = cluster_affinity(affinity, n_clusters)
        rows.append(row)
    return rows


def landmarks(
    path: Path, number: int, n_clusters: int = 0, random_state: int = 0
) -> dict[str, Any]:
    """Return the same through landmarks; divergences go to a file, as in an audit."""
    distributions = np.load(path, mmap_mode="r")
    start = time.process_time()
    items = sample_items(len(distributions), size=number, random_state=random_state)
    shape = (len(distributions), len(items))
    divergence = open_memmap(path.with_name("to.npy"), mode="w+", dtype=np.float32, shape=shape)
    landmark_divergences(distributions, items, out=divergence)
    middle = time.process_time()
    affinity, temperature = landmark_affinity(divergence, items)
    similarity, _ = affinity_from_divergence(divergence[items], temperature=temperature)
    partition = spectral_partition(affinity, similarity=similarity, items=items)
    end = time.process_time()
    row = {
        **_row("landmarks", affinity.shape, partition, middle - start, end - middle),
        "number": number,
        "rank": len(affinity.signs),
        "n_outcomes": distributions.shape[1],
        "temperature": temperature,
        "labels": partition.labels,
    }
    if n_clusters:
        row["same_number"] = cluster_affinity(affinity, n_clusters)
    if random_state:
        row["route"] += ", other seed"
    return row


def fewer_links(graph: csr_array, number: int) -> csr_array:
    """Return the graph of the nearest ``number`` of each item, out of a graph of more."""
    rows, columns, values = [], [], []
    for item in range(graph.shape[0]):
        here = slice(graph.indptr[item], graph.indptr[item + 1])
        others = graph.indices[here] != item
        chosen = np.argsort(graph.data[here][others], kind="stable")[:number]
        rows.append(np.full(len(chosen), item))
        columns.append(graph.indices[here][others][chosen])
        values.append(graph.data[here][others][chosen])
    one, other = np.concatenate(rows), np.concatenate(columns)
    low, high = np.minimum(one, other), np.maximum(one, other)
    pairs, places = np.unique(low.astype(np.int64) * graph.shape[0] + high, return_index=True)
    low, high = np.divmod(pairs, graph.shape[0])
    data, own = np.concatenate(values)[places], np.arange(graph.shape[0])
    ends = np.concatenate([low, high, own]), np.concatenate([high, low, own])
    return csr_array((np.concatenate([data, data, np.zeros(len(own))]), ends), shape=graph.shape)


def _row(
    route: str, shape: tuple[int, int], partition: Partition, pairs: float, clusters: float
) -> dict[str, Any]:
    return {
        "route": route,
        "n_items": shape[0],
        "n_clusters": partition.n_clusters,
        "largest": partition.sizes[0],
        "silhouette": round(partition.silhouettes[partition.n_clusters], 4),
        "parts": partition.n_components,
        "seconds_divergence": round(pairs, 1),
        "seconds_clustering": round(clusters, 1),
    }


def compare(path: Path, correct: np.ndarray) -> list[dict[str, Any]]:
    """Compare all ways on a sample of questions."""
    exact = measured(all_pairs, path, True)
    k = exact["n_clusters"]
    again = {**exact, "route": "all pairs, other seed", "labels": exact["other_seed"]}
    again["n_clusters"] = int(exact["other_seed"].max()) + 1
    again["largest"] = int(np.bincount(exact["other_seed"]).max())
    again["silhouette"] = round(exact["other_silhouettes"][again["n_clusters"]], 4)
    rows = [exact, again]
    rows += [measured(landmarks, path, number, k) for number in NUMBERS["landmarks"]]
    rows.append(measured(landmarks, path, LANDMARKS, k, 1))
    near = measured(_neighbours_in_dict, path, k)
    rows += [{**row, "peak_mb": near["peak_mb"]} for row in near["rows"]]
    return [_against(row, exact["labels"], correct) for row in rows]


def _neighbours_in_dict(path: Path, n_clusters: int) -> dict[str, Any]:
    numbers = NUMBERS["neighbours"]
    return {"rows": neighbours(path, max(numbers), numbers, n_clusters)}


def _against(row: dict[str, Any], labels: np.ndarray, correct: np.ndarray) -> dict[str, Any]:
    """Add agreement with the exact labels, HARMONY and its verdict."""
    start = time.process_time()
    result = harmony(correct, row["labels"])
    seconds = time.process_time() - start
    same = row.get("same_number", row["labels"])
    return {
        **_numbers(row),
        "seconds_harmony": round(seconds, 1),
        "ami": round(adjusted_mutual_info_score(labels, row["labels"]), 4),
        "ari": round(adjusted_rand_score(labels, row["labels"]), 4),
        "ami_same_number": round(adjusted_mutual_info_score(labels, same), 4),
        "ari_same_number": round(adjusted_rand_score(labels, same), 4),
        "harmony": round(result.harmony, 4),
        "p_value": round(result.p_value, 4),
        "verdict": result.verdict,
    }


def size(
    path: Path, routes: list[str], number: int, correct: np.ndarray | None
) -> list[dict[str, Any]]:
    """Measure ways at the size of one file, and compare them where there are answers."""
    found = {}
    if "all pairs" in routes:
        found["all pairs"] = measured(all_pairs, path)
    k = found["all pairs"]["n_clusters"] if found else 0
    if "landmarks" in routes:
        found["landmarks"] = measured(landmarks, path, number or LANDMARKS, k)
    if "neighbours" in routes:
        found["neighbours"] = measured(_one_number, path, number or USUAL["neighbours"], k)
    if correct is None or "all pairs" not in found:
        return [_numbers(row) for row in found.values()]
    return [_against(row, found["all pairs"]["labels"], correct) for row in found.values()]


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if not isinstance(v, (np.ndarray, dict))}


def _one_number(path: Path, number: int, n_clusters: int) -> dict[str, Any]:
    return neighbours(path, number, (number,), n_clusters)[0]


def make_up(path: Path, n_items: int, n_outcomes: int) -> Path:
    """Write distributions of 12 loose groups, half precision, a few rows at a time."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(12, n_outcomes)).astype(np.float32)
    shape = (n_items, n_outcomes)
    kept = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    for start in range(0, n_items, 500):
        rows = slice(start, min(start + 500, n_items))
        group = rng.integers(12, size=rows.stop - rows.start)
        noise = rng.normal(size=(len(group), n_outcomes)).astype(np.float32)
        logits = centres[group] + 1.5 * noise
        kept[rows] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    kept.flush()
    return path


def keep(rows: list[dict[str, Any]], command: str) -> None:
    """Write rows beside those kept already, and how they came about."""
    table, about = recorded_folder() / "large_affinity.csv", {}
    new = pd.DataFrame(rows)
    new["number"] = new.get("number", pd.Series(index=new.index)).fillna(0).astype(int)
    new["temperature"] = new["temperature"].round(5)
    if table.exists():
        old = pd.read_csv(table)
        new = pd.concat([old, new]).drop_duplicates(KEYS, keep="last")
        about = read_json(table.with_suffix(".json"))
    new = new.sort_values(["part", "data", "n_items", "route", "number"], kind="stable")
    write_text(table, new.to_csv(index=False))
    commands = [*(c for c in about.get("commands", []) if c != command), command]
    hardware = f"{platform.machine()}, {os.cpu_count()} cores, one thread"
    write_json(
        table.with_suffix(".json"),
        {
            "model": MODEL,
            "benchmark": BENCHMARK,
            "settings": [FORMAT],
            "commands": commands,
            "hardware": hardware,
            "versions": versions(),
        },
    )


def main() -> None:
    """Read the command and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("compare", "size"))
    parser.add_argument("--root", help="run root that holds, or is to hold, the whole of MMLU")
    parser.add_argument("--items", type=int, default=5000, help="questions of a sample")
    parser.add_argument("--route", choices=("all pairs", *NUMBERS), action="append")
    parser.add_argument("--number", type=int, default=0, help="of landmarks or neighbours")
    parser.add_argument("--made-up", type=int, default=0, help="number of made-up questions")
    parser.add_argument("--outcomes", type=int, default=8192, help="their vocabulary")
    given = parser.parse_args()
    command = f"python benchmarks/large_affinity.py {given.part}"
    routes = given.route or ["all pairs", "landmarks"]
    data, correct = BENCHMARK, None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "distributions.npy"
        if given.part == "size" and given.made_up:
            command += f" --made-up {given.made_up} --outcomes {given.outcomes}"
            data = "made up"
            make_up(path, given.made_up, given.outcomes)
        else:
            limit = 0 if given.root else given.items
            audit = Audit(MODEL, BENCHMARK, limit=limit, root=given.root, use_recorded=False)
            audit.configure(parse_assignments([FORMAT]))
            correct, whole = audit.predictions().correct, audit.distributions()
            if given.part == "compare":
                items = sample_items(len(whole), size=given.items)
                correct, whole = correct[items], whole[items]
            np.save(path, whole)
        if given.part == "compare":
            rows = compare(path, correct)
        else:
            rows = size(path, routes, given.number, correct)
    rows = [{"part": given.part, "data": data, **row} for row in rows]
    command += "".join(f" --route '{route}'" for route in given.route or [])
    keep(rows, command + (f" --number {given.number}" if given.number else ""))
    print(pd.DataFrame(rows).to_string())


if __name__ == "__main__":
    main()
