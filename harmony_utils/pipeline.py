"""From stages to executed notebooks: each stage's chapter is run by papermill and kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from harmony_utils.errors import InputError, RefusedError, StageError
from harmony_utils.files import content_hash, file_hash, read_json, write_atomically, write_text
from harmony_utils.hub import HubUnreachableError
from harmony_utils.predictions import Predictions
from harmony_utils.progress import PROGRESS_VARIABLE
from harmony_utils.runs import project_folder
from harmony_utils.settings import STAGES, AuditSettings
from harmony_utils.stages import STEPS, Audit

#: The chapter of each stage, below ``notebooks/``.
NOTEBOOKS: dict[str, str] = {
    stage: f"{number:02d}_{stage}.ipynb" for number, stage in enumerate(STAGES, start=1)
}

Event = Callable[[str, str], None]


def notebook_path(stage: str) -> Path:
    """Return the chapter notebook of a stage.

    Raises
    ------
    InputError
        If the notebooks are not where this package looks for them.
    """
    path = project_folder() / "notebooks" / NOTEBOOKS[stage]
    if not path.exists():
        raise InputError(f"{path}: notebook not found; set HARMONY_PROJECT to the project's folder")
    return path


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
    common = {
        "model": audit.model,
        "benchmark": benchmark,
        "limit": limit,
        "run_dir": str(audit.root.resolve()),
        "use_recorded": False,
    }
    with audit.run.lock("audit"):
        for stage in STAGES:
            parameters = {**common, **_plain(getattr(settings, stage).model_dump(mode="json"))}
            if _is_finished(audit, stage, parameters):
                on_event(stage, "reused")
                continue
            on_event(stage, "start")
            _execute(audit, stage, parameters)
            on_event(stage, "done")


def summary(audit: Audit) -> dict[str, Any]:
    """Return the main results of a finished audit as plain values.

    Returns
    -------
    dict
        ``accuracy`` follows the run's normalisation, ``accuracy_norm`` is by characters;
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
        "accuracy_norm": predictions.accuracy("char"),
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
    package = Path(__file__).parent
    code = {str(p.relative_to(package)): file_hash(p) for p in sorted(package.rglob("*.py"))}
    given = {name: value for name, value in parameters.items() if name != "run_dir"}
    keys = [audit.key(name) for name in _steps(stage)]
    return content_hash([file_hash(notebook_path(stage)), code, keys, given])


def _steps(stage: str) -> list[str]:
    """Return the steps that a stage's notebook shows."""
    return [name for name, step in STEPS.items() if step.stage == stage]


def _is_finished(audit: Audit, stage: str, parameters: dict[str, Any]) -> bool:
    """Say whether a stage's results and its executed notebook are there and current."""
    if not all(audit.is_current(name) for name in _steps(stage)):
        return False
    record = audit.run.record.get("notebooks", {}).get(stage, {})
    path = audit.run.path(f"notebooks/{NOTEBOOKS[stage]}")
    return (
        record.get("key") == _notebook_key(audit, stage, parameters)
        and path.exists()
        and file_hash(path) == record["sha256"]
    )


def _execute(audit: Audit, stage: str, parameters: dict[str, Any]) -> None:
    """Run one stage's notebook and keep it in the run folder."""
    source = notebook_path(stage)
    name = NOTEBOOKS[stage]
    target = audit.run.path(f"notebooks/{name}")
    with tempfile.TemporaryDirectory(prefix="harmony-") as scratch, _kernel_surroundings(scratch):
        output = Path(scratch) / name
        try:
            papermill.execute_notebook(
                source,
                output,
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                cwd=os.getcwd(),
            )
        except PapermillExecutionError as error:
            failed = audit.run.path(f"notebooks/failed/{name}")
            write_atomically(failed, lambda temporary: shutil.copyfile(output, temporary))
            known = {
                kind.__name__: kind for kind in (InputError, HubUnreachableError, RefusedError)
            }
            if error.ename in known:
                raise known[error.ename](f"stage {stage}: {error.evalue}") from None
            raise StageError(
                f"stage {stage} failed: {error.ename}: {error.evalue}; its notebook as far as "
                f"it ran: {failed}"
            ) from None
        write_text(target, _clean(output))
    audit.run.path(f"notebooks/failed/{name}").unlink(missing_ok=True)
    key = _notebook_key(audit, stage, parameters)
    audit.run.update("notebooks", stage, {"key": key, "sha256": file_hash(target)})


def _clean(path: Path) -> str:
    """Return an executed notebook without times and paths of this machine."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            cell.metadata["tags"] = [*tags, "hide-input"]
    return nbformat.writes(notebook) + "\n"


@contextmanager
def _kernel_surroundings(scratch: str) -> Iterator[None]:
    """Set what a kernel inherits: quiet start, own IPython folder, threads on purpose."""
    profile = Path(scratch) / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    quiet = "c = get_config()\nc.IPKernelApp.log_level = 50\n"
    (profile / "ipython_kernel_config.py").write_text(quiet, encoding="utf-8")
    wanted = {"IPYTHONDIR": str(Path(scratch) / "ipython")}
    defaults = {
        PROGRESS_VARIABLE: "none",
        "OMP_NUM_THREADS": str(os.cpu_count() or 1),
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
    }
    wanted |= {name: value for name, value in defaults.items() if name not in os.environ}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
