"""Fit one simulated panel with `mirt`, the oracle of the tests of the difficulty fit.

    python benchmarks/mirt_oracle.py tests/data/mirt_2pl.json

needs `pip install mirt==1.2.0`; the package itself does not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from harmony_utils.difficulty import simulate_panel

PANEL = {"n_models": 400, "n_items": 500, "random_state": 11}


def main(target: Path) -> None:
    """Write mirt's difficulties and slopes with what is needed to check the panel is the same."""
    import mirt

    values = simulate_panel(**PANEL).responses.values
    result = mirt.fit_mirt(values.astype(int), model="2PL", compute_standard_errors=False)
    found = {
        "command": "python benchmarks/mirt_oracle.py tests/data/mirt_2pl.json",
        "mirt": mirt.__version__,
        "numpy": np.__version__,
        "panel": PANEL,
        "n_right": int(values.sum()),
        "converged": bool(result.converged),
        "difficulty": np.round(result.model.parameters["difficulty"], 4).tolist(),
        "discrimination": np.round(result.model.parameters["discrimination"], 4).tolist(),
    }
    target.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
