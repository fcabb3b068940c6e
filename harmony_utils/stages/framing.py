"""The same models asked in several ways: asking them, or reading what was asked elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.files import json_values, write_atomically, write_json
from harmony_utils.framing import (
    FRAMINGS,
    METRICS,
    Conditions,
    choices_by_position,
    compare_conditions,
    framing_settings,
    metric_values,
)
from harmony_utils.items import Item
from harmony_utils.predictions import Predictions
from harmony_utils.runs import RUN_FILE, Run, default_folder, recorded_folder
from harmony_utils.scoring.prompts import list_order
from harmony_utils.settings import AuditSettings, PredictionsSettings
from harmony_utils.stages.audit import Audit, open_audit
from harmony_utils.stages.panel import find_folders

Answers = Mapping[str, Mapping[str, Predictions]]
"""Framing -> model -> answers."""


@dataclass(frozen=True)
class FramingStudy:
    """What another way of asking, and another metric, does to scores and ranks.

    Parameters
    ----------
    benchmark : str
        Name of the questions.
    framings : Conditions
        Shares of right answers under each framing.
    metrics : Conditions, optional
        The baseline's answers under each metric; None where log-likelihoods are missing.
    positions : DataFrame
        :func:`~harmony_utils.framing.choices_by_position` with ``framing`` and ``model``; empty
        where no list of options was shown.
    joined_by : str
        ``key`` (content of the question) or ``native_id`` where contents differ.
    """

    benchmark: str
    framings: Conditions
    metrics: Conditions | None
    positions: pd.DataFrame
    joined_by: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        found = self.framings.to_dict()
        names = {"condition": "framing", "score": "accuracy"}
        models = [
            {
                **{names.get(name, name): value for name, value in row.items()},
                "n_items": found["n_items"],
                "flipped": row["gained"] + row["lost"],
            }
            for row in found.pop("scores")
        ]
        return {
            "benchmark": self.benchmark,
            **found,
            "models": models,
            "metrics": self.metrics.to_dict() if self.metrics else None,
            "positions": json_values(self.positions.to_dict("records")),
            "joined_by": self.joined_by,
        }

    def save(self, folder: Path) -> dict[str, Any]:
        """Write ``framing.json`` and a CSV file of each table; return the former's content."""
        found = self.to_dict()
        tables = {
            "scores": self.framings.scores,
            "ranks": self.framings.ranks,
            "reversals": self.framings.reversals,
            "positions": self.positions,
        }
        if self.metrics:
            tables["metrics"] = self.metrics.scores
        for name, table in tables.items():
            write_atomically(
                folder / f"{name}.csv",
                lambda path, table=table: table.to_csv(path, index=False, float_format="%.6g"),
            )
        write_json(folder / "framing.json", found)
        return found


def ask_framings(
    models: Sequence[str],
    benchmark: str,
    framings: Sequence[str],
    *,
    limit: int = 0,
    run_dir: str = "",
    settings: AuditSettings | None = None,
    use_recorded: bool = True,
    listen: Callable[[str, str], None] | None = None,
) -> Answers:
    """Ask models the same questions in several ways; what was asked before is reused.

    Parameters
    ----------
    models : sequence of str
        As in :func:`~harmony_utils.stages.open_audit`.
    benchmark : str
        Questions with options.
    framings : sequence of str
        Of :data:`~harmony_utils.framing.FRAMINGS`.
    limit : int
        Questions drawn at random; 0 keeps all.
    run_dir : str
        Run root; answers lie in ``framing/<framing>`` below it.
    settings : AuditSettings, optional
        Everything else about how the models are asked.
    use_recorded : bool
        Whether answers recorded with this project may stand in for asking.
    listen : callable, optional
        Called with framing and model before each is asked.

    Returns
    -------
    dict of str to dict of str to Predictions
        Framing, model, answers.

    Raises
    ------
    InputError
        For an unknown framing, model or benchmark, or questions without options.
    """
    wanted = {name: _framed(settings or AuditSettings(), name) for name in framings}
    root = Path(run_dir) if run_dir else default_folder()
    found: dict[str, dict[str, Predictions]] = {name: {} for name in framings}
    # all of them before the first is asked: a wrong name is said at once
    audits = [open_audit(model=model, benchmark=benchmark, limit=limit) for model in models]
    for audit in audits:
        audit.benchmark.require_options("framing")
        if audit.is_rule:
            raise InputError(f"{audit.model}: a rule answers in one way only; name language models")
    for audit in audits:
        for name, framed in wanted.items():
            kept = audit.below(root / "framing" / name).configure(framed)
            run = _finished(kept, recorded_folder() / "framing" / name if use_recorded else None)
            if run is None:
                if listen is not None:
                    listen(name, audit.model)
                made = audit.below(root / "framing" / ".making" / name).configure(framed)
                run = _ask(made, kept.run.folder)
            found[name][run.folder.name] = Predictions.load(run.path("predictions.parquet"))
    return found


def read_framings(folders: Mapping[str, Sequence[Path]]) -> Answers:
    """Return answers from finished runs: those of one's own logs, or of own settings.

    Parameters
    ----------
    folders : mapping of str to sequence of path
        Name of a framing -> run folders, or folders above them. The name of a run's folder is the
        model's.

    Raises
    ------
    InputError
        If a folder holds no run, or a framing holds two runs of a model.
    """
    found: dict[str, dict[str, Predictions]] = {}
    for name, places in folders.items():
        of_framing = found.setdefault(name, {})
        for run in find_folders(places):
            if run.folder.name in of_framing:
                raise InputError(
                    f"{run.folder}: framing {name!r} has two runs of {run.folder.name}; name the "
                    "folder of one benchmark"
                )
            of_framing[run.folder.name] = Predictions.load(run.path("predictions.parquet"))
    return found


def recorded_framing_models() -> list[str]:
    """Return the models whose answers under every framing are recorded, whole ones first."""
    places = (recorded_folder() / "framing").glob(f"*/*/*/{RUN_FILE}")
    about = {path.parent.name: Run(path.parent).record["audit"]["model"] for path in places}
    names = sorted(about, key=lambda name: (about[name]["layer"] is not None, name))
    return [
        about[name]["name"].partition("--layer-")[0]
        + (f"#layer={about[name]['layer']}" if about[name]["layer"] else "")
        for name in names
    ]


def framing_study(
    answers: Answers,
    *,
    baseline: str,
    benchmark: str = "",
    items: Sequence[Item] = (),
    **options: Any,
) -> FramingStudy:
    """Compare framings, then metrics on the baseline's answers.

    Parameters
    ----------
    answers : mapping
        From :func:`ask_framings` or :func:`read_framings`.
    baseline : str
        The framing to compare with.
    benchmark : str
        Name of the questions; that of the first answers if not given.
    items : sequence of Item, optional
        The questions in the order of the answers: without them lists that were reordered have no
        table of positions.
    **options
        Of :func:`~harmony_utils.framing.compare_conditions`.

    Returns
    -------
    FramingStudy

    Raises
    ------
    InputError
        As :func:`~harmony_utils.framing.compare_conditions`.
    """
    first = next(iter(next(iter(answers.values()), {}).values()), None)
    if first is None:
        raise InputError("framing: no answers; name models, or folders of finished runs")
    column = _common_column(answers)
    rows = pd.concat(
        _values(name, model, found.table[column], found.correct, found.table["group"])
        for name, models in answers.items()
        for model, found in models.items()
    )
    framings = compare_conditions(rows, baseline=baseline, **options)
    return FramingStudy(
        benchmark=benchmark or first.meta["benchmark"],
        framings=framings,
        metrics=_metrics(answers[baseline], options),
        positions=_positions(answers, items),
        joined_by=column,
    )


def _framed(settings: AuditSettings, name: str) -> AuditSettings:
    """Return settings with a framing in them."""
    asked = settings.predictions.model_dump()
    varied = {field for framing in FRAMINGS.values() for field in framing}
    for field in sorted(varied):
        if asked[field] != PredictionsSettings.model_fields[field].default:
            raise InputError(f"predictions.{field}: is what the framings vary; leave it out")
    asked |= framing_settings(name)
    return settings.model_copy(update={"predictions": PredictionsSettings(**asked)})


def _finished(audit: Audit, recorded: Path | None) -> Run | None:
    """Return where an audit's answers are finished: in its folder, or recorded."""
    places = [audit.run.folder]
    if recorded is not None:
        places.append(recorded / audit.run.folder.relative_to(audit.root))
    runs = [Run(place) for place in places]
    key = audit.key("predictions")
    return next((run for run in runs if run.is_current("predictions", key)), None)


def _ask(audit: Audit, target: Path) -> Run:
    """Ask a model and keep its answers, without the distributions that no framing needs."""
    audit.ensure("predictions")
    slim = audit.run.copy_slim(target, keep={"predictions.parquet"})
    shutil.rmtree(audit.run.folder)
    for folder in list(audit.run.folder.parents)[:3]:  # benchmark, framing, all that is being made
        with suppress(OSError):  # another one is still being made there
            folder.rmdir()
    return slim


def _common_column(answers: Answers) -> str:
    """Return what joins questions: their content, or ids where no content is common."""
    tables = [found.table for models in answers.values() for found in models.values()]
    for column in ("key", "native_id"):
        known = [set(table[column].dropna()) for table in tables]
        if set.intersection(*known):
            return column
    raise InputError("framing: no question is common to all runs, neither by content nor by id")


def _values(condition: str, model: str, keys: Any, values: Any, groups: Any) -> pd.DataFrame:
    found = {"condition": condition, "model": model, "key": keys, "value": values, "group": groups}
    return pd.DataFrame(found)


def _metrics(models: Mapping[str, Predictions], options: dict[str, Any]) -> Conditions | None:
    """Compare metrics on one framing's answers; None where a model has no log-likelihoods."""
    if any(found.open_ended for found in models.values()):
        return None
    tables = {model: metric_values(found) for model, found in models.items()}
    usable = [m for m in METRICS if all(table[m].notna().any() for table in tables.values())]
    used = f"right by {next(iter(models.values())).meta['normalisation']}"
    if used not in usable or len(usable) < 2:
        return None
    rows = pd.concat(
        _values(metric, model, table["key"], table[metric], models[model].table["group"])
        for metric in usable
        for model, table in tables.items()
    )
    return compare_conditions(rows, baseline=used, same_scale=False, **options)


def _positions(answers: Answers, items: Sequence[Item]) -> pd.DataFrame:
    """Count choices by place for runs that showed a list of options."""
    parts = []
    for name, models in answers.items():
        for model, found in models.items():
            asked = found.meta.get("settings", {})
            order = asked.get("option_order", "given")
            if asked.get("format") != "letter" or (order != "given" and not items):
                continue
            orders = [list_order(item, order) for item in items] or None
            counted = choices_by_position(found.table, orders)
            parts.append(counted.assign(framing=name, model=model))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
