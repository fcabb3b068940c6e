"""Time the dry run of the whole study: 36 models on 19 benchmarks, every stage.

.venv/bin/python benchmarks/grid_plan.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harmony_utils.grid import workflow_folder


def main() -> None:
    config = workflow_folder() / "config" / "study.yaml"
    command = [sys.executable, "-m", "harmony_utils.cli", "grid", "--dry-run"]
    with tempfile.TemporaryDirectory() as folder:
        began, before = time.monotonic(), os.times()
        done = subprocess.run(
            [*command, "--config", str(config), "--out", str(Path(folder) / "study")],
            capture_output=True,
            text=True,
            check=True,
        )
        wall, after = time.monotonic() - began, os.times()
    used = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    jobs = re.findall(r"^total +(\d+)$", done.stdout + done.stderr, re.MULTILINE)[0]
    print(
        f"{jobs} jobs: {wall:.1f} s, {used:.1f} s of one processor, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
