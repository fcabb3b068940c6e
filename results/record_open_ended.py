"""Record audits of the packaged models on the packaged open-ended benchmarks.

Each is an ordinary audit of a random sample of the questions, up to HARMONY. What is kept are
ids, numbers and the answers that the model wrote; of the benchmark's own texts nothing.

    python results/record_open_ended.py                         # all of them
    python results/record_open_ended.py gemma3-270m             # one model
    python results/record_open_ended.py gemma3-270m nq_open     # on these
    python results/record_open_ended.py --refresh               # from recorded answers, no model
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path

from harmony_utils.runs import recorded_folder
from harmony_utils.stages import STEPS, open_audit

MODELS = ("smollm2-135m", "gemma3-270m")
BENCHMARKS = ("triviaqa", "nq_open")
N_ITEMS = 100
"""Questions drawn from each benchmark, the number that chapter 13 asks for."""

STEP = "harmony"
LARGE = {"distributions.npy"}


def record(model: str, benchmark: str, root: Path, *, refresh: bool) -> None:
    """Audit one benchmark and copy what is kept."""
    audit = open_audit(
        model=model, benchmark=benchmark, limit=N_ITEMS, run_dir=str(root), use_recorded=refresh
    )
    audit.ensure(STEP)
    audit.run.copy_slim(
        recorded_folder() / audit.run.folder.relative_to(root),
        keep={file for step in STEPS.values() for file in step.files} - LARGE,
    )
    found, written = audit.measure(), audit.predictions().generation()
    print(
        f"{model} on {benchmark}: exact match {found.accuracy:.3f}, F1 {written['f1']:.3f}, "
        f"HARMONY {found.harmony:.3f} ({found.n_clusters} subdomains, p {found.p_value:.3f})",
        flush=True,
    )


def main() -> None:
    """Record the model and the benchmarks named, or all."""
    named = [name for name in sys.argv[1:] if name != "--refresh"]
    with tempfile.TemporaryDirectory(prefix="harmony-") as folder:
        for model, benchmark in product(named[:1] or MODELS, named[1:] or BENCHMARKS):
            record(model, benchmark, Path(folder), refresh="--refresh" in sys.argv[1:])


if __name__ == "__main__":
    main()
