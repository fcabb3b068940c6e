"""The canonical table of many runs as one file for other tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.files import write_atomically
from harmony_utils.predictions import Predictions

_FILE = "predictions.parquet"


def export_runs(folders: Sequence[Path], target: Path) -> int:
    """Write the answers of runs as one long table.

    Parameters
    ----------
    folders : sequence of Path
        Run folders, or folders with run folders below them.
    target : Path
        ``.csv`` (lists as JSON) or ``.parquet``.

    Returns
    -------
    int
        Number of rows: one for each model and item. The columns are those of
        :mod:`harmony_utils.predictions` after ``model``, ``benchmark`` and ``normalisation``.

    Raises
    ------
    InputError
        If a folder holds no predictions, or the file's ending is another.
    """
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(f"{target}: give a name that ends in .csv or .parquet")
    tables = []
    for folder in folders:
        paths = sorted(Path(folder).rglob(_FILE))
        if not paths:
            raise InputError(f"{folder}: no {_FILE} there or below; run `harmony import` first")
        for path in paths:
            predictions = Predictions.load(path)
            table = predictions.table.copy()
            table.insert(0, "normalisation", predictions.meta["normalisation"])
            table.insert(0, "benchmark", predictions.meta["benchmark"])
            table.insert(0, "model", predictions.meta["model"]["name"])
            tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    if target.suffix == ".parquet":
        write_atomically(target, lambda temporary: whole.to_parquet(temporary, index=False))
    else:
        for name in ("gold", "loglik", "unconditional", "characters", "bytes", "tokens", "flags"):
            whole[name] = [None if v is None else json.dumps(_list(v)) for v in whole[name]]
        write_atomically(target, lambda temporary: whole.to_csv(temporary, index=False))
    return len(whole)


def _list(values: Sequence) -> list:
    return [
        None if v is None or v != v else (v.item() if hasattr(v, "item") else v) for v in values
    ]
