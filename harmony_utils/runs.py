"""Run folders: what was computed, from what, with which versions; reuse, resume and provenance.

A run folder ``runs/<name>/<benchmark>/<model>/`` belongs to one model on one benchmark. Its
``run.json`` has a record of every finished step: its key (a hash of settings and inputs), the
hashes of its files and its time. A step is reused only if its key and files still match.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harmony_utils.errors import InputError
from harmony_utils.files import content_hash, file_hash, read_json, write_atomically, write_json

RUN_FILE = "run.json"
#: Long enough for the kernel of a killed audit to end.
LOCK_SECONDS = 5.0
_PACKAGES = ("harmony-utils", "torch", "transformers", "numpy", "scipy", "scikit-learn", "pandas")


def project_folder() -> Path:
    """Return the folder that holds the notebooks and the book (``HARMONY_PROJECT`` overrides)."""
    return Path(os.environ.get("HARMONY_PROJECT", Path(__file__).resolve().parent.parent))


def recorded_folder() -> Path:
    """Return the folder of results recorded by this project."""
    return project_folder() / "results" / "recorded"


def default_folder() -> Path:
    """Return the run root used when none is named (``HARMONY_RUNS`` overrides the place)."""
    return Path(os.environ.get("HARMONY_RUNS", project_folder() / "runs")) / "default"


class Run:
    """One run folder.

    Parameters
    ----------
    folder : Path
        Need not exist yet.

    Raises
    ------
    InputError
        If its ``run.json`` cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def path(self, name: str) -> Path:
        """Return the path of a file of this run."""
        return self.folder / name

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``run.json``; empty before the first step."""
        path = self.path(RUN_FILE)
        if not path.exists():
            return {}
        try:
            return read_json(path)
        except ValueError as error:
            raise InputError(f"{path}: not valid JSON ({error}); delete the run folder") from None

    def step(self, name: str) -> dict[str, Any] | None:
        """Return the record of a finished step, or None."""
        return self.record.get("steps", {}).get(name)

    def is_current(self, name: str, key: str) -> bool:
        """Say whether a step is finished for this key and its files are unchanged.

        Files that a recorded run leaves out on purpose (``dropped``) are not looked for.
        """
        step = self.step(name)
        if step is None or step["key"] != key:
            return False
        dropped = set(step.get("dropped", ()))
        return all(
            self._unchanged(n, about) for n, about in step["files"].items() if n not in dropped
        )

    def _unchanged(self, name: str, about: dict[str, Any]) -> bool:
        path = self.path(name)
        if not path.exists() or path.stat().st_size != about["bytes"]:
            return False
        return (
            path.stat().st_mtime_ns == about.get("mtime_ns") or file_hash(path) == about["sha256"]
        )

    def finish(self, name: str, *, key: str, files: list[str], **about: Any) -> None:
        """Record a step whose files have all been written."""
        described = {}
        for file in files:
            stat = self.path(file).stat()
            described[file] = {
                "sha256": file_hash(self.path(file)),
                "bytes": stat.st_size,
                "mtime_ns": stat.st_mtime_ns,
            }
        self.update(
            "steps", name, {"key": key, "files": described, **about, "versions": versions()}
        )

    def update(self, section: str, name: str, value: Any) -> None:
        """Set one entry of one section of ``run.json``."""
        record = self.record
        record.setdefault(section, {})[name] = value
        write_json(self.path(RUN_FILE), record)

    def hashes(self, name: str) -> dict[str, str]:
        """Return the content hashes of a finished step's files."""
        step = self.step(name) or {"files": {}}
        return {file: about["sha256"] for file, about in step["files"].items()}

    def adopt(self, other: Run, name: str) -> None:
        """Take over a finished step of another run folder, files included."""
        step = other.step(name)
        for file in step["files"]:
            if file not in step.get("dropped", ()):
                write_atomically(
                    self.path(file),
                    lambda temporary, file=file: shutil.copyfile(other.path(file), temporary),
                )
        self.update("steps", name, {**step, "origin": "recorded"})

    def copy_slim(self, target: Path, *, keep: set[str]) -> Run:
        """Copy this run with only some files, marking the others as dropped.

        Parameters
        ----------
        target : Path
            Folder of the copy; its old content is replaced.
        keep : set of str
            Names of the files to copy.
        """
        shutil.rmtree(target, ignore_errors=True)
        record = {k: v for k, v in self.record.items() if k != "notebooks"}
        for step in record["steps"].values():
            step.pop("origin", None)
            step["dropped"] = [file for file in step["files"] if file not in keep]
            for file, about in step["files"].items():
                about.pop("mtime_ns", None)
                if file in keep:
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.path(file), target / file)
        write_json(target / RUN_FILE, record)
        return Run(target)

    @contextmanager
    def lock(self, name: str = "run", *, seconds: float | None = None) -> Iterator[None]:
        """Hold this folder for one process.

        Parameters
        ----------
        name : str
            Which of the folder's locks.
        seconds : float, optional
            How long to wait for another process; :data:`LOCK_SECONDS` if not given.

        Raises
        ------
        InputError
            If another process holds it and does not let go in that time. A killed process holds
            nothing.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / f".{name}.lock")
        try:
            lock.acquire(timeout=LOCK_SECONDS if seconds is None else seconds)
        except Timeout:
            raise InputError(
                f"{self.folder}: another process is writing this run; wait for it or choose "
                "another --out"
            ) from None
        try:
            yield
        finally:
            lock.release()


def step_key(name: str, *, version: int, settings: dict[str, Any], inputs: dict[str, Any]) -> str:
    """Return the key of a step: equal keys mean the same computation on the same inputs.

    Parameters
    ----------
    name : str
        The step.
    version : int
        Raised by hand when the step's code starts to give other results.
    settings : dict
        Values that decide the result.
    inputs : dict
        Content hashes of what the step reads.
    """
    return content_hash([name, version, settings, inputs])


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Return the project's commit, with ``+`` where files were changed; None outside git."""
    folder = project_folder()
    if not (folder / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(folder)]
        head = subprocess.run([*command, "rev-parse", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run(
            [*command, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
        )
    except OSError:
        return None
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def find_runs(root: Path, benchmark: str) -> list[Run]:
    """Return the runs of a benchmark below a run root, ordered by folder name."""
    folders = sorted((Path(root) / benchmark).glob(f"*/{RUN_FILE}"))
    return [Run(path.parent) for path in folders]
