"""Answers of several models from run folders, evaluation logs and long tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harmony_utils.difficulty.responses import Responses, responses_from_table
from harmony_utils.errors import InputError
from harmony_utils.predictions import Predictions

PREDICTIONS_FILE = "predictions.parquet"
EXPORTED = ("model", "benchmark", "key", "native_id", "correct")
"""Columns by which a table of ``harmony export`` is known."""

_TABLES = {".csv": ",", ".tsv": "\t", ".parquet": None, ".jsonl": None}


def load_responses(paths: Sequence[str | Path], *, common: bool = False) -> Responses:
    """Read answers of several models from any mixture of sources.

    Parameters
    ----------
    paths : sequence of path
        Run folders, or folders with run folders below them; a long table ``model,item,correct``
        with ``subject``, ``subdomain`` and ``family`` as columns if there are any (CSV, TSV,
        Parquet, JSONL), where an empty cell and an absent row are missing answers; a table that
        ``harmony export`` wrote, which counts like the runs in it; else
        evaluation logs of other tools, see :mod:`harmony_utils.logs.importing`.
    common : bool
        Keep only items that every model answered; otherwise all, with missing answers.

    Returns
    -------
    Responses
        Items of runs and logs are joined by the content of the question, never by position, and
        named by the benchmark's own id, with the benchmark's name before it if there are several.

    Raises
    ------
    InputError
        If nothing can be read, or as
        :func:`~harmony_utils.difficulty.responses.responses_from_table`.
    """
    tables, logs = [], []
    for path in map(Path, paths):
        table = _long_table(path) if path.is_file() else None
        if table is not None:
            tables.append(table)
        elif runs := _run_folders(path):
            tables += [_run_table(run) for run in runs]
        else:
            logs.append(str(path))
    if logs:
        tables += _log_tables(logs)
    if not tables:
        raise InputError("no answers given; name run folders, logs or a table")
    return responses_from_table(_one_name_each(tables), common=common)


def _long_table(path: Path) -> pd.DataFrame | None:
    """Read a long table; None if the file is something else."""
    if path.suffix.lower() not in _TABLES:
        return None
    try:
        if path.suffix.lower() == ".parquet":
            table = pd.read_parquet(path)
        elif path.suffix.lower() == ".jsonl":
            table = pd.read_json(path, lines=True, dtype=False)
        else:
            separator = _TABLES[path.suffix.lower()]
            table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=True)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason})") from None
    table.columns = [str(name).strip() for name in table.columns]
    if {"model", "item", "correct"} <= set(table.columns):
        return table
    if set(EXPORTED) <= set(table.columns):
        return _exported(table, path)
    if path.suffix.lower() in (".csv", ".tsv"):
        raise InputError(f"{path}: {_no_long_table(list(table.columns))}")
    return None


def _no_long_table(columns: list[str]) -> str:
    """Say what a table lacks, and what to do about it."""
    shown = ", ".join(columns[:12]) + (f" … ({len(columns)} in all)" if len(columns) > 12 else "")
    text = f"has the columns {shown}; model, item and correct are needed"
    if len(columns) == 1 and (sign := next((s for s in ";\t|" if s in columns[0]), "")):
        return f"{text}: its cells are separated by {sign!r}; write commas, or tabs in a .tsv"
    folded = {name.lower() for name in columns}
    if {"model", "item", "correct"} <= folded:
        return f"{text}: write their names in small letters"
    if "model" in folded and len(columns) > 4:
        return f"{text}: with a column an item, write a row for each model and item instead"
    return f"{text}: rename what you have"


def _exported(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Take from a table of ``harmony export`` what a run folder would give."""
    kept = table[[*EXPORTED, "subject"]].copy() if "subject" in table else table[[*EXPORTED]].copy()
    try:
        return kept.assign(correct=pd.to_numeric(kept["correct"]), family=None)
    except ValueError as error:
        raise InputError(f"{path}: column correct: {error}; export the runs again") from None


def _run_folders(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_file():
        return []
    return sorted(found.parent for found in path.rglob(PREDICTIONS_FILE))


def _run_table(folder: Path) -> pd.DataFrame:
    predictions = Predictions.load(folder / PREDICTIONS_FILE)
    return _prediction_table(predictions)


def _log_tables(paths: list[str]) -> list[pd.DataFrame]:
    from harmony_utils.logs import import_logs

    found = import_logs(paths)
    return [_prediction_table(run.predictions, model=run.model) for run in found.runs]


def _prediction_table(predictions: Predictions, *, model: str = "") -> pd.DataFrame:
    table, about = predictions.table, predictions.meta.get("model", {})
    return pd.DataFrame(
        {
            "model": model or predictions.model_name,
            "benchmark": predictions.benchmark_name,
            "key": table["key"].to_numpy(),
            "native_id": table["native_id"].to_numpy(),
            "subject": table["subject"].to_numpy(),
            "family": about.get("family") if isinstance(about, dict) else None,
            "correct": predictions.correct,
        }
    )


def _one_name_each(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Put tables together; items of runs get their benchmark's own id where that is unique."""
    runs = [table for table in tables if "key" in table.columns and "item" not in table.columns]
    others = [table for table in tables if "item" in table.columns]
    if not runs:
        return pd.concat(others, ignore_index=True)
    whole = pd.concat(runs, ignore_index=True)
    prefix = whole["benchmark"] + "/" if whole["benchmark"].nunique() > 1 or others else ""
    keys = whole["benchmark"] + "/" + whole["key"]
    first = whole.assign(full=keys).drop_duplicates("full").set_index("full")
    clash = first.duplicated(["benchmark", "native_id"], keep=False)
    names = first["native_id"].where(~clash & first["native_id"].notna(), first["key"])
    whole = whole.assign(item=prefix + keys.map(names))
    return pd.concat([*others, whole], ignore_index=True)
