"""All cells of a study as one table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.predictions import Predictions
from harmony_utils.runs import Run

COLUMNS = (
    "benchmark", "model", "n_items", "accuracy", "n_clusters",
    "harmony", "null_lo", "null_hi", "p_value", "verdict",
)  # fmt: skip


def cells_table(folders: Iterable[Path]) -> pd.DataFrame:
    """Collect the main results of several audits.

    Parameters
    ----------
    folders : iterable of Path
        Run folders, ``<root>/<benchmark>/<model>``.

    Returns
    -------
    pandas.DataFrame
        A row for each run with predictions, in the order given; what comes from later stages is
        missing where they have not run.

    Raises
    ------
    InputError
        If none of them has predictions.
    """
    runs = [Run(folder) for folder in folders]
    rows = [_row(run) for run in runs if run.step("predictions")]
    if not rows:
        raise InputError("no run with predictions among the folders given; run the audits first")
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(run: Run) -> dict[str, Any]:
    predictions = Predictions.load(run.path("predictions.parquet"))
    row: dict[str, Any] = {
        "benchmark": run.folder.parent.name,
        "model": run.folder.name,
        "n_items": len(predictions),
        "accuracy": predictions.accuracy(),
    }
    if run.step("harmony"):
        result = read_json(run.path("harmony.json"))
        row |= {
            "n_clusters": result["n_clusters"],
            "harmony": result["harmony"],
            "null_lo": result["null"]["lo"],
            "null_hi": result["null"]["hi"],
            "p_value": result["null"]["p_value"],
            "verdict": result["verdict"]["label"],
        }
    return row
