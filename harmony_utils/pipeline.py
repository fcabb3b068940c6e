"""From stages to executed notebooks: each stage's chapter is run by papermill and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harmony_utils.errors import InputError, StageError
from harmony_utils.execution import SharedKernel, code_hashes, execute_notebook, notebook_path
from harmony_utils.files import content_hash, file_hash, read_json
from harmony_utils.predictions import Predictions
from harmony_utils.settings import OPEN_ENDED, STAGES, AuditSettings, stage_settings
from harmony_utils.stages import STEPS, Audit
from harmony_utils.stages.variants import VARIANT_STEPS

#: The chapter of each stage, below ``notebooks/``.
NOTEBOOKS: dict[str, str] = {
    stage: f"{number:02d}_{stage}.ipynb" for number, stage in enumerate(STAGES, start=1)
}

#: The chapter that takes a stage's place where questions are open-ended.
OPEN_ENDED_NOTEBOOKS: dict[str, str] = {"predictions": "13_open_ended.ipynb"}

Event = Callable[[str, str], None]


def stage_notebooks(*, open_ended: bool) -> dict[str, str]:
    """Return the chapter of each stage for one type of questions."""
    return {**NOTEBOOKS, **(OPEN_ENDED_NOTEBOOKS if open_ended else {})}


def refuse_unused(audit: Audit, settings: AuditSettings) -> None:
    """Refuse settings of a section that is for the other type of questions.

    Raises
    ------
    InputError
        With the first such setting and the section that is used here.
    """
    kind = "open-ended" if audit.benchmark.open_ended else "multiple choice"
    for stage, other in OPEN_ENDED.items():
        used = audit.section(stage)
        unused = stage if used == other else other
        given, standard = getattr(settings, unused).model_dump(), stage_settings(unused)
        for name in (name for name in given if given[name] != getattr(standard, name)):
            raise InputError(
                f"parameter '{unused}.{name}': the questions of {audit.benchmark.name!r} are "
                f"{kind}, how they are asked is set by '{used}.…'"
            )


def run_stages(
    audit: Audit,
    settings: AuditSettings,
    *,
    benchmark: str,
    limit: int,
    on_event: Event = lambda stage, event: None,
) -> None:
    """Run every stage of an audit as a notebook; finished ones are reused.

    Parameters
    ----------
    audit : Audit
        Opened for the same model, benchmark and limit.
    settings : AuditSettings
        Settings of all stages.
    benchmark : str
        The benchmark as the user wrote it.
    limit : int
        The limit as the user gave it.
    on_event : callable
        Told ``(stage, "start" | "done" | "reused")``.

    Raises
    ------
    InputError
        If another process audits the same folder, or a stage finds its input unusable.
    StageError
        If a stage breaks off; its notebook is kept in ``notebooks/failed``.
    """
    audit.configure(settings)
    with audit.run.lock("audit"):
        for stage in STAGES:
            _run(audit, stage, settings, benchmark=benchmark, limit=limit, on_event=on_event)


def run_stage(
    audit: Audit,
    stage: str,
    settings: AuditSettings,
    *,
    benchmark: str,
    limit: int,
    wait: float | None = None,
    kernel: SharedKernel | None = None,
    on_event: Event = lambda stage, event: None,
) -> None:
    """Run one stage of an audit as a notebook, on stages finished before; reuse it if finished.

    Parameters
    ----------
    audit, settings, benchmark, limit, on_event
        As in :func:`run_stages`.
    stage : str
        One of :data:`~harmony_utils.settings.STAGES`.
    wait : float, optional
        Seconds to wait for another process that writes the same folder.
    kernel : SharedKernel, optional
        Where the notebook runs; a kernel of its own if not given.

    Raises
    ------
    InputError
        If another process audits the same folder, or the stage finds its input unusable.
    StageError
        If a stage before it is not finished, or it breaks off.
    """
    audit.configure(settings)
    with audit.run.lock("audit", seconds=wait):
        for before in STAGES[: STAGES.index(stage)]:
            if before in _needed(stage) and not audit.is_current(before):
                raise StageError(
                    f"stage {stage} of {audit.model} on {audit.benchmark.name}: needs stage "
                    f"{before}, which is not finished in {audit.run.folder}; run that first"
                )
        _run(
            audit, stage, settings,
            benchmark=benchmark, limit=limit, on_event=on_event, kernel=kernel,
        )  # fmt: skip


def _needed(stage: str) -> set[str]:
    """Return the stages that a stage reads from, directly or not."""
    found: set[str] = set()
    open_steps = [stage]
    while open_steps:
        for step in STEPS[open_steps.pop()].needs:
            found.add(STEPS[step].stage)
            open_steps.append(step)
    return found - {stage}


def _run(
    audit: Audit,
    stage: str,
    settings: AuditSettings,
    *,
    benchmark: str,
    limit: int,
    on_event: Event,
    kernel: SharedKernel | None = None,
) -> None:
    """Execute a stage's notebook unless it is finished; the caller holds the folder."""
    parameters = {
        "model": audit.model,
        "benchmark": benchmark,
        "limit": limit,
        "run_dir": str(audit.root.resolve()),
        "use_recorded": False,
        **_plain(getattr(settings, audit.section(stage)).model_dump(mode="json")),
    }
    if _is_finished(audit, stage, parameters):
        on_event(stage, "reused")
        return
    on_event(stage, "start")
    _execute(audit, stage, parameters, kernel)
    on_event(stage, "done")


def summary(audit: Audit) -> dict[str, Any]:
    """Return the main results of a finished audit as plain values.

    Returns
    -------
    dict
        ``accuracy`` follows the run's normalisation, or rule of comparison; ``accuracy_norm`` is
        by characters, None for open-ended questions, whose ``generation`` tells mean token F1,
        tokens generated, answers cut at the limit and empty ones (None for multiple choice);
        ``sizes`` and ``accuracies`` go by subdomain; ``parts``, ``null``, ``interval``,
        ``inequality``, ``blind_spot`` and ``verdict`` are those of
        :class:`~harmony_utils.harmony.HarmonyResult`, ``stability`` is that of
        :class:`~harmony_utils.partition.Partition`, and ``cluster_names`` has a
        :class:`~harmony_utils.naming.SubdomainName` for each subdomain. ``null_stratified`` is
        from :func:`~harmony_utils.stages.stratified.stratified_result`.
    """
    run = audit.run
    result = read_json(run.path("harmony.json"))
    partition = read_json(run.path("partition.json"))
    predictions = Predictions.load(run.path("predictions.parquet"))
    return {
        "model": audit.model,
        "benchmark": audit.benchmark.name,
        "n_items": len(predictions),
        "normalisation": predictions.meta["normalisation"],
        "accuracy": predictions.accuracy(),
        "accuracy_norm": None if predictions.open_ended else predictions.accuracy("char"),
        "generation": predictions.generation(),
        "k": result["n_clusters"],
        "sizes": result["sizes"],
        "accuracies": result["accuracies"],
        "harmony": result["harmony"],
        "bandwidth": result["bandwidth"],
        "temperature": read_json(run.path("affinity.json"))["temperature"],
        **{name: result[name] for name in _SHOWN},
        "null_stratified": read_json(run.path("stratified.json")),
        **{name: partition[name] for name in ("stability", "cluster_names", "warnings")},
        "run_dir": str(run.folder),
    }


_SHOWN = (
    "parts",
    "null",
    "interval",
    "interval_recluster",
    "n_groups",
    "inequality",
    "blind_spot",
    "verdict",
)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Fit values to the types of the notebooks' parameter cells."""
    if "temperature" in values:
        values["temperature"] = str(values["temperature"])
    return values


def _notebook_key(audit: Audit, stage: str, parameters: dict[str, Any]) -> str:
    """Return a hash of everything an executed notebook depends on."""
    given = {name: value for name, value in parameters.items() if name != "run_dir"}
    keys = [audit.key(name) for name in _steps(stage)]
    path = notebook_path(_notebook(audit, stage))
    return content_hash([file_hash(path), code_hashes(), keys, given])


def _notebook(audit: Audit, stage: str) -> str:
    return stage_notebooks(open_ended=audit.benchmark.open_ended)[stage]


def _steps(stage: str) -> list[str]:
    """Return the steps that a stage's notebook shows."""
    further = VARIANT_STEPS.values()  # no notebook of a stage shows them
    return [n for n, step in STEPS.items() if step.stage == stage and n not in further]


def _is_finished(audit: Audit, stage: str, parameters: dict[str, Any]) -> bool:
    """Say whether a stage's results and its executed notebook are there and current."""
    if not all(audit.is_current(name) for name in _steps(stage)):
        return False
    record = audit.run.record.get("notebooks", {}).get(stage, {})
    path = audit.run.path(f"notebooks/{_notebook(audit, stage)}")
    return (
        record.get("key") == _notebook_key(audit, stage, parameters)
        and path.exists()
        and file_hash(path) == record["sha256"]
    )


def _execute(
    audit: Audit, stage: str, parameters: dict[str, Any], kernel: SharedKernel | None
) -> None:
    """Run one stage's notebook and keep it in the run folder."""
    name = _notebook(audit, stage)
    target, failed = audit.run.path(f"notebooks/{name}"), audit.run.path(f"notebooks/failed/{name}")
    execute_notebook(
        notebook_path(name),
        target,
        parameters=parameters,
        failed=failed,
        what=f"stage {stage}",
        kernel=kernel,
    )
    key = _notebook_key(audit, stage, parameters)
    audit.run.update("notebooks", stage, {"key": key, "sha256": file_hash(target)})
