"""The commands of a study: ``harmony grid``, and the thin ones that its jobs run."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from harmony_utils.errors import HarmonyError, InputError, StageError
from harmony_utils.files import read_json, write_atomically, write_json, write_text

if TYPE_CHECKING:
    from harmony_utils.grid import Grid
    from harmony_utils.settings import AuditSettings

#: How a job calls this package: by the Python that runs now.
HARMONY = f"{shlex.quote(sys.executable)} -m harmony_utils.cli"


def register(app: typer.Typer) -> None:
    """Add the commands to the ``harmony`` command."""
    app.command("grid")(grid_command)
    app.command("stage", hidden=True)(stage_command)
    app.command("cells", hidden=True)(cells_command)


# one job of a study -------------------------------------------------------------------------


def stage_command(
    stage: Annotated[str, typer.Option(help="predictions, affinity, …")],
    model: Annotated[str, typer.Option(help="As for `harmony audit`.")],
    benchmark: Annotated[
        list[str], typer.Option(help="As for `harmony audit`; several share the loaded model.")
    ],
    limit: Annotated[int, typer.Option(help="Questions drawn at random; 0 keeps all.")] = 0,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Run root.")] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("-p", metavar="STAGE.NAME=VALUE", help="A setting.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(help="Seconds to wait for another process on this run.")
    ] = None,
    stamp: Annotated[
        Path | None, typer.Option(help="File that is written when all of it is finished.")
    ] = None,
) -> None:
    """Run one stage of an audit; the stages before it have to be finished.

    Of several benchmarks, one that breaks off is tried twice and stops no other.
    """
    from harmony_utils.settings import AUDIT_SECTIONS, STAGES, parse_assignments

    if stage not in STAGES:
        raise InputError(f"stage {stage!r}: write one of {', '.join(STAGES)}")
    settings = parse_assignments(parameters or [], sections=AUDIT_SECTIONS)
    from harmony_utils.execution import shared_kernel

    done: dict[str, Any] = {}
    failed: dict[str, HarmonyError] = {}
    with shared_kernel() as kernel:
        for text in benchmark:
            common = {"limit": limit, "out_dir": out_dir, "wait": wait, "kernel": kernel}
            for last in (len(benchmark) == 1, True):
                try:
                    done[text] = _one_stage(stage, model, text, settings, **common)
                    break
                except HarmonyError as error:
                    print(f"harmony: {error}", file=sys.stderr, flush=True)
                    if last or isinstance(error, InputError):  # no use in trying again
                        failed[text] = error
                        break
    if failed and not done:
        raise next(iter(failed.values()))
    if stamp is not None:
        errors = {text: str(error) for text, error in failed.items()}
        write_json(stamp, {"stage": stage, "model": model, "finished": done, "failed": errors})


def _one_stage(
    stage: str,
    model: str,
    benchmark: str,
    settings: AuditSettings,
    *,
    limit: int,
    out_dir: Path | None,
    wait: float | None,
    kernel: Any,
) -> dict[str, str]:
    """Run a stage of one cell; return the hashes of its files."""
    from harmony_utils import pipeline
    from harmony_utils.stages import open_audit

    opened = open_audit(
        model=model,
        benchmark=benchmark,
        limit=limit,
        run_dir=str(out_dir or ""),
        use_recorded=False,
    )
    pipeline.run_stage(
        opened,
        stage,
        settings,
        benchmark=benchmark,
        limit=limit,
        wait=wait,
        kernel=kernel,
        on_event=lambda name, event: print(
            f"{opened.place}: {name}: {event}", file=sys.stderr, flush=True
        ),
    )
    return opened.run.hashes(stage)


def cells_command(
    root: Annotated[Path, typer.Argument(help="Run root.")],
    config: Annotated[Path, typer.Option("--config", help="The study.")],
    out_file: Annotated[Path, typer.Option("--out", help="A .csv file.")],
    listed: Annotated[Path, typer.Option("--list", help="File for the run folders, one a line.")],
) -> None:
    """Write one row for each cell of a study, and the list of its run folders."""
    from harmony_utils.cells import cells_table
    from harmony_utils.grid import read_grid

    folders = read_grid(config).run_folders(root)
    table = cells_table(folders)
    write_atomically(out_file, lambda path: table.to_csv(path, index=False))
    write_text(listed, "".join(f"{folder}\n" for folder in folders))


# the study ----------------------------------------------------------------------------------


def grid_command(
    config: Annotated[Path, typer.Option("--config", help="YAML; see workflow/config/.")],
    profile: Annotated[
        str, typer.Option(help="local, slurm, or a folder with a Snakemake profile.")
    ] = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would run.")] = False,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores here; on a cluster, jobs at once.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder of the study; default: runs/CONFIG.")
    ] = None,
) -> None:
    """Audit many models on many benchmarks: a Snakemake workflow, here or on a cluster."""
    from harmony_utils.grid import read_grid, workflow_folder
    from harmony_utils.runs import default_folder

    grid = read_grid(config)
    _check_own_files(grid)
    folder = _profile_folder(profile, workflow_folder())
    if importlib.util.find_spec("snakemake") is None:
        raise InputError(
            "snakemake is not installed: run `make setup`, or install harmony-utils[grid]"
        )
    study = (out_dir or default_folder().parent / config.stem).resolve()
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(workflow_folder() / "Snakefile"),
    ]
    command += ["--directory", str(study), "--configfile", str(study / "plan.json")]
    options = ["--profile", str(folder), *_amount(folder, cores)]
    with _held(study) as lock:
        write_json(study / "config.json", grid.config)
        write_json(study / "plan.json", {"harmony": HARMONY, **grid.plan()})
        if dry_run:
            _finish(_snakemake([*command, *options, "--dry-run", "--quiet", "rules"], lock), study)
            return
        _forget_failures(study)
        if any((study / ".snakemake" / "locks").glob("*")):  # nobody holds the study: stale
            _snakemake([*command, "--cores", "1", "--unlock", "--quiet", "all"], lock)
        # Snakemake does not look at what follows a job that runs if only an `ancient` file lies
        # between them (9.27): a cell that was mended would be left for the next call, so make it.
        for _ in range(2):
            _finish(_snakemake([*command, *options], lock), study)
        _snakemake([*command, "--cores", "1", "--report", "report.html", "--quiet", "all"], lock)
    print(f"Cells: {study / 'cells.csv'}\nReport: {study / 'report.html'}")


def _check_own_files(grid: Grid) -> None:
    """Read every file of questions that is a person's own: a bad row is told before the start."""
    from harmony_utils.sources import load_benchmark

    for benchmark in grid.benchmarks:
        if benchmark.file is not None:
            load_benchmark(benchmark.text, limit=grid.limit)


def _profile_folder(profile: str, workflow: Path) -> Path:
    """Return the folder of a profile by its name or path."""
    for folder in (workflow / "profiles" / profile, Path(profile)):
        if (folder / "config.yaml").is_file():
            return folder.resolve()
    known = sorted(path.name for path in (workflow / "profiles").iterdir())
    raise InputError(
        f"profile {profile!r}: write {' or '.join(known)}, or a folder with a config.yaml"
    )


def _amount(folder: Path, cores: int | None) -> list[str]:
    """Say how much may run at once, in the terms of the profile's executor."""
    if cores is None:
        return []
    remote = "executor:" in (folder / "config.yaml").read_text(encoding="utf-8")
    return ["--jobs" if remote else "--cores", str(cores)]


@contextmanager
def _held(study: Path) -> Iterator[IO[str]]:
    """Hold a study for this process and the Snakemake it starts; the system lets go for the dead.

    Raises
    ------
    InputError
        If another grid holds it.
    """
    study.mkdir(parents=True, exist_ok=True)
    with open(study / ".grid.lock", "a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{study}: another `harmony grid` is running there; wait for it or choose "
                "another --out"
            ) from None
        yield lock


def _snakemake(command: list[str], lock: IO[str]) -> int:
    """Run Snakemake, which holds the study too; an interrupt is its to handle."""
    environment = {**os.environ, "HARMONY_PROGRESS": "none"}
    process = subprocess.Popen(command, env=environment, pass_fds=(lock.fileno(),))
    interrupted = False
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            if not interrupted:
                process.send_signal(signal.SIGINT)
            interrupted = True
    if interrupted or code == -signal.SIGINT:
        raise KeyboardInterrupt
    return code


def _forget_failures(study: Path) -> None:
    """Remove the stamps of models that left out a benchmark: it is tried again."""
    for stamp in (study / "done" / "predictions").glob("*.json"):
        if read_json(stamp)["failed"]:
            stamp.unlink()


def _finish(code: int, study: Path) -> None:
    """Turn Snakemake's exit code into ours."""
    if code != 0:
        raise StageError(
            f"the study is not complete; what failed is named above, with its log below "
            f"{study / 'logs'}; the same command goes on with what is missing"
        )
