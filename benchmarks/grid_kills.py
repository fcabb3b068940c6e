"""Kill a study at random moments and compare its results with a run that was left alone.

    .venv/bin/python benchmarks/grid_kills.py --config workflow/config/small.yaml --kills 50

Each kill is SIGKILL, in turn for one worker, for Snakemake and `harmony grid` alone (their
workers live on), or for all of them. The study is started again after the last two. When it is
complete and kills are left, its folder is removed and it begins anew.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from harmony_utils.files import file_hash

PATTERNS = (
    "runs/*/*/*.parquet",
    "runs/*/*/*.npy",
    "runs/*/*/[ahp]*.json",
    "runs/*/*/rebalancing.json",
    "done/**/*.json",
)


def results(study: Path) -> dict[str, str]:
    """Hashes of everything a study is for; run.json has times and is left out."""
    paths = [path for pattern in PATTERNS for path in study.glob(pattern)]
    paths += [study / "cells.csv"]
    paths += study.glob("runs/*/*/rebalancing.json")
    return {str(path.relative_to(study)): file_hash(path) for path in paths}


def start(config: Path, study: Path, cores: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "harmony_utils.cli", "grid", "--config", str(config)]
    return subprocess.Popen(
        [*command, "--out", str(study), "--cores", str(cores)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def family(process: subprocess.Popen) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return (Snakemake and `harmony grid`, workers with their kernels)."""
    try:
        main = psutil.Process(process.pid)
        below = main.children(recursive=True)
    except psutil.NoSuchProcess:
        return [], []
    masters, workers = [main], []
    for child in below:
        try:
            line = child.cmdline()
        except psutil.Error:
            continue
        (masters if "snakemake" in line else workers).append(child)
    return masters, workers


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--minutes", type=float, default=600, help="no kill after this time")
    parser.add_argument("--out", type=Path, default=Path("runs/grid_kills"))
    options = parser.parse_args()
    generator = random.Random(options.seed)
    whole, broken = options.out / "whole", options.out / "broken"
    process = start(options.config, whole, options.cores)
    if process.wait() != 0:
        sys.exit("the run that was left alone failed; nothing to compare with")
    expected = results(whole)
    deadline = time.monotonic() + 60 * options.minutes
    counts = dict.fromkeys(("worker", "main", "all"), 0)
    complete, differing, kinds = 0, [], list(counts)
    process = start(options.config, broken, options.cores)
    while sum(counts.values()) < options.kills and time.monotonic() < deadline:
        try:
            process.wait(timeout=generator.uniform(1, options.longest))
        except subprocess.TimeoutExpired:
            kind = kinds[sum(counts.values()) % len(kinds)]
            masters, workers = family(process)
            if kind == "worker":
                if not workers:
                    continue
                kill([generator.choice(workers)])
            else:
                kill(masters + (workers if kind == "all" else []))
                process.wait()
                process = start(options.config, broken, options.cores)
            counts[kind] += 1
            continue
        if process.returncode == 0:
            complete += 1
            found = results(broken)
            differing += [n for n in {*found, *expected} if found.get(n) != expected.get(n)]
            shutil.rmtree(broken)
        process = start(options.config, broken, options.cores)
    tries = 0
    while process.wait() != 0 and (tries := tries + 1) < 5:
        process = start(options.config, broken, options.cores)
    complete += process.returncode == 0
    found = results(broken)
    differing += [n for n in {*found, *expected} if found.get(n) != expected.get(n)]
    about = {"kills": counts, "complete": complete, "files": len(expected), "differing": differing}
    print(json.dumps(about, indent=2))
    sys.exit(bool(differing) or process.returncode)


if __name__ == "__main__":
    main()
