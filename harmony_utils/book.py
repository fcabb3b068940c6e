"""The book: executed notebooks and pages rendered by Jupyter Book."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import papermill
import yaml

from harmony_utils.errors import InputError, StageError
from harmony_utils.execution import code_hashes, execute_notebook, notebook_path
from harmony_utils.files import content_hash, file_hash, read_json, write_json
from harmony_utils.pipeline import OPEN_ENDED_NOTEBOOKS, stage_notebooks
from harmony_utils.runs import Run, default_folder, project_folder, recorded_folder

_KEY_FILE = ".book.json"
_SOURCES = ("_config.yml", "_toc.yml", "book", "notebooks")


def build_book(run: Run, target: Path) -> Path:
    """Render the book with the notebooks that a run executed.

    Chapters that are not a stage of an audit do not depend on the run: they are executed on
    recorded results, once for all books, and again when the package or those results change.

    Parameters
    ----------
    run : Run
        A finished audit.
    target : Path
        Folder of the HTML pages; its old content is replaced when the build has succeeded.

    Returns
    -------
    Path
        The first page. An unchanged book is not built again.

    Raises
    ------
    InputError
        If the run has no executed notebook of some stage.
    StageError
        If a chapter breaks off, or Jupyter Book reports an error or a warning.
    """
    project = project_folder()
    done = [path.name for path in run.path("notebooks").glob("*.ipynb")]
    open_ended = any(name in done for name in OPEN_ENDED_NOTEBOOKS.values())
    own = list(stage_notebooks(open_ended=open_ended).values())
    executed = {name: run.path(f"notebooks/{name}") for name in own}
    missing = [name for name, path in executed.items() if not path.exists()]
    if missing:
        raise InputError(
            f"{run.folder}: no executed {missing[0]}; run `harmony audit` for this folder first"
        )
    executed |= _further_chapters(own)
    first = target / "index.html"
    key = _key(project, list(executed.values()))
    built = target / _KEY_FILE
    if first.exists() and built.exists() and read_json(built) == {"key": key}:
        return first
    with tempfile.TemporaryDirectory(prefix="harmony-book-") as scratch:
        source = Path(scratch) / "source"
        _copy_sources(project, source)
        for name, path in executed.items():
            shutil.copyfile(path, source / "notebooks" / name)
        html = _build(source, Path(scratch))
        write_json(html / _KEY_FILE, {"key": key})
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(html, target)
    return first


def _further_chapters(own: list[str]) -> dict[str, Path]:
    """Execute the chapters that are no stage of the audit, all but ``own``; return where they lie
    by name."""
    cache = Run(default_folder().parent / "chapters")
    names = [p.name for p in sorted((project_folder() / "notebooks").glob("[0-9]*.ipynb"))]
    names = [name for name in names if name not in own]
    recorded = sorted(p for p in recorded_folder().rglob("*") if p.is_file())
    given = [code_hashes(), [[p.name, file_hash(p)] for p in recorded]]
    paths = {name: cache.path(f"notebooks/{name}") for name in names}
    for name, path in paths.items():
        key = content_hash([file_hash(notebook_path(name)), given])
        done = cache.record.get("notebooks", {}).get(name, {})
        if done.get("key") == key and path.exists() and file_hash(path) == done["sha256"]:
            continue
        source, failed = notebook_path(name), cache.path(f"notebooks/failed/{name}")
        given_parameters = papermill.inspect_notebook(str(source))
        # a root of its own: beside a run of the reader, recorded results would not be taken
        own_root = {"run_dir": str(cache.path("runs"))} if "run_dir" in given_parameters else {}
        execute_notebook(source, path, parameters=own_root, failed=failed, what=f"chapter {name}")
        cache.update("notebooks", name, {"key": key, "sha256": file_hash(path)})
    return paths


def _key(project: Path, executed: list[Path]) -> str:
    """Return a hash of everything the pages depend on."""
    paths = [project / "_config.yml", project / "_toc.yml", *executed]
    paths += sorted(p for p in (project / "book").rglob("*") if p.is_file())
    package = Path(__file__).parent
    paths += sorted(p for p in package.rglob("*") if p.suffix in (".py", ".json"))
    paths = [p for p in paths if "__pycache__" not in p.parts]
    return content_hash([[p.name, file_hash(p)] for p in paths])


def _copy_sources(project: Path, source: Path) -> None:
    """Copy the book's sources and turn execution off."""
    source.mkdir()
    for name in _SOURCES:
        path = project / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "_build")
            shutil.copytree(path, source / name, ignore=ignored)
        else:
            shutil.copyfile(path, source / name)
    config = yaml.safe_load((source / "_config.yml").read_text(encoding="utf-8"))
    config["execute"] = {"execute_notebooks": "off"}
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    (source / "_config.yml").write_text(text, encoding="utf-8")


def _build(source: Path, scratch: Path) -> Path:
    """Call Jupyter Book with warnings as errors; return the folder of pages."""
    start = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", start, "build", str(source), "--path-output"]
    command += [str(scratch / "out"), "-W", "-n", "--keep-going", "-q"]
    environment = {**os.environ, "HARMONY_PROJECT": str(project_folder())}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        wrong = [line for line in lines if "WARNING" in line or "ERROR" in line or "Error" in line]
        shown = (wrong or lines[-3:] or ["no output"])[:5]
        shown = [line.replace(str(source) + os.sep, "") for line in shown]
        raise StageError("the book could not be built: " + " | ".join(shown))
    return scratch / "out" / "_build" / "html"
