"""Compute the recorded results: audits of the embedded models, reduced to ids and numbers.

Run it with ``make recorded``. The default audit keeps its divergences so that every chapter can be
read without a model, those of the other averaged distributions included; the others keep what a
trend needs. With ``--refresh`` only the default audit is made anew, from its recorded answers and
divergences.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harmony_utils.runs import recorded_folder
from harmony_utils.stages import STEPS, open_audit

DEFAULT = "smollm2-135m"
BENCHMARK = "arc_easy"
#: Early exits of the default model, and another family as a point of comparison.
OTHERS = (*(f"{DEFAULT}#layer={layer}" for layer in (5, 10, 15, 20, 25)), "gemma3-270m")
LARGE = {"distributions.npy", "divergence.npy"}


def record(
    model: str, root: Path, *, last: tuple[str, ...], drop: set[str], refresh: bool = False
) -> None:
    """Audit one model up to some steps and copy what is kept."""
    audit = open_audit(model=model, benchmark=BENCHMARK, run_dir=str(root), use_recorded=refresh)
    for step in last:
        audit.ensure(step)
    if audit.missing_variants:
        raise SystemExit(f"{model}: variants are missing: {audit.missing_variants}")
    audit.run.copy_slim(
        recorded_folder() / audit.run.folder.relative_to(root),
        keep={file for step in STEPS.values() for file in step.files} - drop,
    )
    print(f"{model}: HARMONY {audit.harmony().harmony:.3f}", flush=True)


def main() -> None:
    """Record all audits."""
    refresh = "--refresh" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="harmony-") as folder:
        root = Path(folder)
        for model in () if refresh else OTHERS:
            record(model, root, last=("harmony",), drop=LARGE)
        last = ("rebalancing", "stratified", "sensitivity")
        record(DEFAULT, root, last=last, drop={"distributions.npy"}, refresh=refresh)


if __name__ == "__main__":
    main()
