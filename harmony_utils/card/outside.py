"""Evidence that other parts wrote: a difficulty audit, and a test of other framings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.special import ndtri

from harmony_utils.card.evidence import Evidence
from harmony_utils.card.tested import Tested
from harmony_utils.errors import InputError
from harmony_utils.files import read_json

NO_DIFFICULTY = "no difficulty audit was given"
NO_FRAMING = "no test of other framings was given"


class _Read(BaseModel):
    """Further keys are ignored: what is written may grow."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class FramingRow(_Read):
    """One model under one framing; ``change`` is against the baseline framing."""

    model: str
    framing: str
    n_items: int = Field(gt=0)
    accuracy: float
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None


class Framings(_Read):
    """Content of ``framing.json``."""

    benchmark: str
    baseline: str
    n_items: int = Field(gt=0)
    models: list[FramingRow] = Field(min_length=1)


def missing_outside(difficulty: bool, framing: bool, runs: Sequence[Tested]) -> list[Evidence]:
    """Return what was not given as evidence that was not measured.

    Parameters
    ----------
    difficulty, framing : bool
        Whether each was given.
    runs : sequence of Tested
        What was tested.
    """
    found = []
    if not difficulty:
        command = "harmony difficulty RUNS --out DIR, then --difficulty DIR"
        for measure in ("mismatch", "largest_gap"):
            found.append(Evidence(measure, missing=NO_DIFFICULTY, command=command))
    if not framing:
        found += [
            Evidence(
                "framing_loss",
                run.model,
                run.benchmark,
                missing=NO_FRAMING,
                command=run.framing_command(),
            )
            for run in runs
        ]
    return found


def difficulty_evidence(folder: str | Path, runs: Sequence[Tested]) -> list[Evidence]:
    """Read mismatch and largest gap from a folder of ``harmony difficulty``.

    Parameters
    ----------
    folder : path
        Holds ``difficulty.json`` and ``items.csv``.
    runs : sequence of Tested
        What was tested.

    Returns
    -------
    list of Evidence
        Both are about the questions and the models compared there, not about one model. The gap is
        the widest soft gap of the whole; where it cannot be resolved no bound on it is judged.

    Raises
    ------
    InputError
        If the folder holds no such files, or none of the questions that were tested.
    """
    folder = Path(folder)
    path, items = folder / "difficulty.json", folder / "items.csv"
    for file in (path, items):
        if not file.is_file():
            raise InputError(f"{file}: no such file; give the --out folder of `harmony difficulty`")
    try:
        found = read_json(path)
        mismatch, fit = found["mismatch"], found["fit"]
        low, high = mismatch["interval"]
        gaps = [g for g in found["gaps"] if g["kind"] == "soft" and not g["subject"]]
        known = set(pd.read_csv(items, dtype=str)["item"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not a result of `harmony difficulty`; run it again") from None
    asked = {name for run in runs for name in _item_names(run)}
    if not known & asked:
        raise InputError(f"{items}: holds none of the questions of the runs; give their own")
    shared = f"fitted to {fit['n_models']} models and {fit['n_items']} questions"
    source = f"{folder.resolve().name}/difficulty.json"
    detail = f"target {mismatch['target']}; chance gives {mismatch['chance']:.2f}; {shared}" + (
        "" if fit["converged"] else "; the fit did not converge"
    )
    distance = Evidence(
        "mismatch",
        value=mismatch["distance"],
        low=low,
        high=high,
        n=mismatch["n_items"],
        detail=detail,
        source=source,
    )
    return [distance, _largest_gap(gaps, fit["n_items"], source)]


def _item_names(run: Tested) -> set[str]:
    """Return every name under which ``items.csv`` may list a question of this run."""
    table = run.predictions.table
    names = {*table["native_id"], *table["key"]}
    return names | {f"{run.benchmark}/{name}" for name in names}


def _largest_gap(gaps: list[dict[str, Any]], n_items: int, source: str) -> Evidence:
    if not gaps:
        detail = "no stretch of the target has too few questions"
        return Evidence("largest_gap", value=0.0, n=n_items, detail=detail, source=source)
    widest = max(gaps, key=lambda gap: gap["width"])
    return Evidence(
        "largest_gap",
        value=widest["width"],
        n=n_items,
        detail=widest["sentence"],
        source=source,
        unresolved=widest["sentence"] if widest["verdict"] == "not resolvable" else "",
    )


def load_framing(path: str | Path) -> Framings:
    """Read ``framing.json``; keys that are not needed are ignored.

    Raises
    ------
    InputError
        In one line: which field is missing or wrong.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a framing.json")
    try:
        return Framings.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({str(error).splitlines()[0]})") from None


def framing_evidence(
    path: str | Path, runs: Sequence[Tested], *, confidence: float = 0.95
) -> list[Evidence]:
    """Return each run's largest loss of accuracy under another framing.

    Parameters
    ----------
    path : path
        A ``framing.json``.
    runs : sequence of Tested
        What was tested.
    confidence : float
        Coverage, of the intervals in the file and of the result.

    Returns
    -------
    list of Evidence
        One for each run; 0 where no framing loses. A run that the file does not hold is not
        measured.

    Raises
    ------
    InputError
        If the file cannot be read, or holds none of the runs.

    Notes
    -----
    The interval of each change is widened, as if it were normal, to hold for all framings at once
    (Bonferroni); the largest true loss then lies between the largest of their lower ends and the
    largest of their upper ends.
    """
    found = load_framing(path)
    source = f"{Path(path).resolve().parent.name}/{Path(path).name}"
    listed = {row.model for row in found.models}
    mine = [run for run in runs if run.benchmark == found.benchmark and run.aliases & listed]
    if not mine:
        raise InputError(
            f"{path}: is about {', '.join(sorted(listed)[:3])} on {found.benchmark}, which no run "
            "is; give that of the runs"
        )
    evidence = []
    for run in runs:
        rows = [
            row
            for row in found.models
            if run in mine and row.model in run.aliases and row.framing != found.baseline
        ]
        base = {"measure": "framing_loss", "model": run.model, "benchmark": run.benchmark}
        if complete := [row for row in rows if None not in (row.change, row.change_low)]:
            about = _largest_loss(complete, found.baseline, confidence)
            evidence.append(Evidence(**base, **about, source=source))
        else:
            reason = f"{source} holds no other framing of it"
            evidence.append(Evidence(**base, missing=reason, command=run.framing_command()))
    return evidence


def _largest_loss(rows: list[FramingRow], baseline: str, confidence: float) -> dict[str, Any]:
    tail = (1 - confidence) / 2
    widen = float(ndtri(1 - tail / len(rows)) / ndtri(1 - tail))
    worst = min(rows, key=lambda row: row.change)
    highs = [row.change if row.change_high is None else row.change_high for row in rows]
    ends = list(zip(rows, highs, strict=True))
    least = max(-row.change - widen * (high - row.change) for row, high in ends)
    most = max(-row.change + widen * (row.change - row.change_low) for row in rows)
    return {
        "value": max(0.0, -worst.change),
        "low": max(0.0, least),
        "high": max(0.0, most),
        "n": worst.n_items,
        "detail": f"worst under {worst.framing}, of {len(rows)} framings beside {baseline}",
    }
