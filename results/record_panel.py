"""Record the panel: respondents that need no large model and two small language models, on many
benchmarks.

Every pair of a language model and a benchmark is an ordinary audit of a random sample of the
questions. Audits lie in ``runs/panel`` until all is assembled, so that a recording that was killed
goes on where it stopped. What is kept are ids and numbers. A language model without an audit here
keeps what was recorded of it before, if questions and versions are the same: a panel can be
extended by a model without asking the others again.

    python results/record_panel.py                          # all that is missing, then assemble
    python results/record_panel.py smollm2-135m copa piqa   # one respondent, these benchmarks
    python results/record_panel.py --assemble               # only put together what is there
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.files import read_json, write_atomically, write_json
from harmony_utils.items import Benchmark
from harmony_utils.partition import Partition, spectral_partition
from harmony_utils.predictions import Predictions
from harmony_utils.respondents import PREFIX, list_respondents, respond
from harmony_utils.runs import Run, project_folder, recorded_folder, versions
from harmony_utils.settings import parse_settings
from harmony_utils.sources import list_benchmarks, load_benchmark
from harmony_utils.stages import STEPS, given_partition, open_audit
from harmony_utils.stages.panel import (
    panel_folder,
    recorded_about,
    recorded_benchmarks,
    recorded_panel,
    shared_by_runs,
)

N_ITEMS = 200
"""Questions of a benchmark at most, drawn at random with seed 0."""

N_LONG = 60
LONG = {"lab_bench_dbqa", "lab_bench_protocolqa", "sciriff_yesno"}
"""Benchmarks with very long texts or options, of which fewer questions are drawn: they take as long
as the others with more."""

WHOLE = {"arc_easy"}
"""Benchmarks taken whole, because audits of them are recorded already."""

#: Written name of a respondent -> model and settings of its predictions.
MODELS = {
    "smollm2-135m": ("smollm2-135m", {}),
    "gemma3-270m": ("gemma3-270m", {}),
    "smollm2-135m, letter": ("smollm2-135m", {"format": "letter"}),
    "smollm2-135m#layer=20": ("smollm2-135m#layer=20", {}),
}

#: Whose mean similarity gives the shared partition: whole models asked in the same way.
SHARING = ("smollm2-135m", "gemma3-270m")


COMMON = ["shared", "embeddings"]
"""Columns of labels that serve every respondent; all others are a respondent's own."""


@dataclass(frozen=True)
class Before:
    """What was recorded of a benchmark earlier: answers, and what is said about them."""

    panel: pd.DataFrame
    about: dict[str, Any]

    def knows(self, who: str) -> bool:
        """Whether this language model was recorded."""
        return who in self.about["respondents"]


def packaged() -> list[str]:
    """Return the multiple-choice benchmarks that need no network."""
    return [about.name for about in list_benchmarks() if about.offline and about.n_options]


def work_folder(respondent: str) -> Path:
    """Return the run root of a respondent's audits."""
    fmt = MODELS[respondent][1].get("format", "cloze")
    return project_folder() / "runs" / "panel" / fmt


def limit(benchmark: str) -> int:
    """Return the number of questions to draw; 0 keeps all."""
    return 0 if benchmark in WHOLE else N_LONG if benchmark in LONG else N_ITEMS


def record_model(respondent: str, benchmark: str) -> Run:
    """Audit a language model on a sample; the distributions are dropped once they are used."""
    if benchmark in WHOLE and (run := finished(respondent, load_benchmark(benchmark), True)):
        return run
    model, predictions = MODELS[respondent]
    root = work_folder(respondent)
    settings = parse_settings({"predictions": {**predictions, "device": "cpu"}})
    options = {"model": model, "benchmark": benchmark, "limit": limit(benchmark)}
    kept = open_audit(**options, run_dir=str(root)).configure(settings)
    if kept.is_current("harmony"):
        return kept.run
    made = open_audit(**options, run_dir=str(root / "making")).configure(settings)
    started = time.monotonic()
    made.ensure("harmony")
    files = {file for step in STEPS.values() for file in step.files} - {"distributions.npy"}
    there = {file for file in files if made.run.path(file).exists()}
    slim = made.run.copy_slim(kept.run.folder, keep=there)
    shutil.rmtree(made.run.folder)
    print(
        f"{respondent} on {benchmark}: {len(made.benchmark)} questions, "
        f"{time.monotonic() - started:.0f} s",
        flush=True,
    )
    return slim


def answers(respondent: str, predictions: Predictions, own: np.ndarray | None) -> pd.DataFrame:
    """Return what is kept of one respondent's answers."""
    table = predictions.table
    return pd.DataFrame(
        {
            "respondent": respondent,
            "key": table["key"],
            "native_id": table["native_id"],
            "subject": table["subject"],
            "correct": table["correct"].astype("float32"),
            "prediction": table["prediction"].astype("int16"),
            "margin": predictions.margins().round(4).astype("float32"),
            "own": pd.array([pd.NA] * len(table) if own is None else own, dtype="Int16"),
        }
    )


def described(partition: Partition) -> dict[str, Any]:
    """Return what is kept of a partition beside its labels."""
    return {
        "sizes": list(partition.sizes),
        "silhouette": round(partition.silhouettes[partition.n_clusters], 4),
    }


def finished(respondent: str, benchmark: Benchmark, whole: bool) -> Run | None:
    """Return a language model's audit if it is there."""
    spec = MODELS[respondent][0]
    place = benchmark.name if whole else f"{benchmark.name}--{len(benchmark)}"
    slug = spec.replace("#layer=", "--layer-")
    plain = MODELS[respondent][1] == {}
    roots = [recorded_folder()] * (whole and plain) + [work_folder(respondent)]
    runs = (Run(root / place / slug) for root in roots)
    return next((run for run in runs if run.step("harmony")), None)


def recorded_before(benchmark: Benchmark) -> Before | None:
    """Return what was recorded of the same questions with the same versions."""
    if benchmark.name not in recorded_benchmarks():
        return None
    about = recorded_about(benchmark.name)
    same = about["fingerprint"] == benchmark.fingerprint() and about["versions"] == versions()
    return Before(recorded_panel(benchmark.name), about) if same else None


def assemble(name: str) -> None:
    """Put together all respondents of a benchmark; ask those that are rules."""
    benchmark = load_benchmark(name, limit=limit(name))
    audits = {who: finished(who, benchmark, name in WHOLE) for who in MODELS}
    before = recorded_before(benchmark)
    parts, own, seconds = [], {}, {}
    for who, run in audits.items():
        if run is not None:
            labels = open_labels(run)
            found = Predictions.load(run.path("predictions.parquet"))
            parts.append(answers(who, found, labels.labels))
            own[who] = described(labels)
            seconds[who] = round(sum(s["seconds"] for s in run.record["steps"].values()), 2)
        elif before and before.knows(who):
            same = before.panel["respondent"] == who
            parts.append(before.panel[same].drop(columns=COMMON))
            own[who] = before.about["partitions"]["own"][who]
            seconds[who] = before.about["seconds"][who]
    if not own.keys() & set(SHARING):
        return
    for rule in list_respondents():
        started = time.monotonic()
        found = respond(PREFIX + rule.name, benchmark)
        parts.append(answers(PREFIX + rule.name, found, None))
        seconds[PREFIX + rule.name] = round(time.monotonic() - started, 2)
    panel = pd.concat(parts, ignore_index=True)
    labels, partitions, sharing = labels_for_all(benchmark, audits, before)
    for column, values in labels.items():
        panel[column] = np.tile(values, len(parts)).astype("int16")
    path = panel_folder() / f"{name}.parquet"
    write_atomically(path, lambda p: panel.to_parquet(p, index=False, compression="zstd"))
    write_json(
        path.with_suffix(".json"),
        {
            "benchmark": name,
            "n_items": len(benchmark),
            "sample": "all" if name in WHOLE else f"at most {limit(name)}, random_state 0",
            "fingerprint": benchmark.fingerprint(),
            "command": "python results/record_panel.py",
            "respondents": {who: {"model": MODELS[who][0], **MODELS[who][1]} for who in own},
            "missing": [who for who in MODELS if who not in own],
            "shared_by": sharing,
            "partitions": {**partitions, "own": own},
            "seconds": seconds,
            "cores": os.cpu_count(),
            "versions": versions(),
        },
    )
    print(f"{name}: {len(benchmark)} questions, {len(parts)} respondents", flush=True)


def labels_for_all(
    benchmark: Benchmark, audits: dict[str, Run | None], before: Before | None
) -> tuple[dict[str, np.ndarray], dict[str, Any], list[str]]:
    """Return labels that serve every respondent, what is kept of them, and whose shared ones are.

    A partition that whole models share is kept if one of them is not at hand, since it needs the
    similarities of all.
    """
    there = {who: audits[who] for who in SHARING if audits[who] is not None}
    if before and any(before.knows(who) and who not in there for who in SHARING):
        first, about = before.panel.drop_duplicates("key"), before.about
        kept = {name: about["partitions"][name] for name in COMMON}
        return {name: first[name].to_numpy() for name in kept}, kept, about["shared_by"]
    found = {
        "shared": spectral_partition(shared_by_runs(list(there.values()))),
        "embeddings": given_partition(benchmark, "embeddings"),
    }
    labels = {name: partition.labels for name, partition in found.items()}
    return labels, {name: described(p) for name, p in found.items()}, list(there)


def open_labels(run: Run) -> Partition:
    """Return a finished audit's own subdomains."""
    about = read_json(run.path("partition.json"))
    about.pop("cluster_names", None)
    labels = pd.read_parquet(run.path("partition.parquet"))["label"].tolist()
    return Partition.from_dict({**about, "labels": labels})


def main() -> None:
    """Record what is missing, or what is named."""
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    if "--assemble" not in sys.argv:
        for respondent in names[:1] or list(MODELS):
            for benchmark in names[1:] or packaged():
                record_model(respondent, benchmark)
    if not names or "--assemble" in sys.argv:
        for benchmark in names or packaged():
            assemble(benchmark)


if __name__ == "__main__":
    main()
