"""Running one notebook by papermill and keeping what it became."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client import AsyncKernelManager, BlockingKernelClient
from jupyter_core.utils import run_sync
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from harmony_utils.errors import InputError, RefusedError, StageError
from harmony_utils.files import file_hash, write_atomically, write_text
from harmony_utils.hub import HubUnreachableError
from harmony_utils.progress import PROGRESS_VARIABLE
from harmony_utils.runs import project_folder

#: Errors of the package that a notebook passes on as they are.
_KNOWN = {kind.__name__: kind for kind in (InputError, HubUnreachableError, RefusedError)}


def notebook_path(name: str) -> Path:
    """Return a chapter's notebook by its file name.

    Raises
    ------
    InputError
        If the notebooks are not where this package looks for them.
    """
    path = project_folder() / "notebooks" / name
    if not path.exists():
        raise InputError(f"{path}: notebook not found; set HARMONY_PROJECT to the project's folder")
    return path


def code_hashes() -> dict[str, str]:
    """Return a hash of each source and data file of the package: results may depend on all."""
    package = Path(__file__).parent
    paths = [p for p in sorted(package.rglob("*")) if p.suffix in (".py", ".json", ".jsonl")]
    return {str(p.relative_to(package)): file_hash(p) for p in paths}


class SharedKernel:
    """One kernel for several notebooks, so that what they load is loaded once.

    Each notebook finds an empty namespace; imported modules, and with them the language model
    that :func:`~harmony_utils.scoring.load_model` keeps, stay.
    """

    def __init__(self) -> None:
        self.manager = AsyncKernelManager(kernel_name="python3")

    def renew(self) -> None:
        """Empty the namespace, or start again if the kernel has died."""
        if not self.manager.has_kernel:
            return
        if not run_sync(self.manager.is_alive)():
            self.close()
            self.manager = AsyncKernelManager(kernel_name="python3")
            return
        client = BlockingKernelClient()
        client.load_connection_info(self.manager.get_connection_info())
        client.start_channels()
        client.execute_interactive(_RENEW, store_history=False, timeout=60)
        client.stop_channels()

    def close(self) -> None:
        """End the kernel."""
        if self.manager.has_kernel:
            run_sync(self.manager.shutdown_kernel)(now=True)


_RENEW = "get_ipython().reset(new_session=True)"


@contextmanager
def shared_kernel() -> Iterator[SharedKernel]:
    """Yield a kernel for several calls of :func:`execute_notebook`."""
    with tempfile.TemporaryDirectory(prefix="harmony-") as scratch, _kernel_surroundings(scratch):
        kernel = SharedKernel()
        try:
            yield kernel
        finally:
            kernel.close()


def execute_notebook(
    source: Path,
    target: Path,
    *,
    parameters: dict[str, Any],
    failed: Path,
    what: str,
    kernel: SharedKernel | None = None,
) -> None:
    """Run a notebook in a kernel and write it, executed, without times and paths.

    Parameters
    ----------
    source, target : Path
        The notebook and where the executed one goes; nothing is written there if it fails.
    parameters : dict
        Values for its parameters cell.
    failed : Path
        Where a notebook that breaks off is kept as far as it ran; removed after a success.
    what : str
        What runs, for messages.
    kernel : SharedKernel, optional
        Where it runs; a kernel of its own if not given.

    Raises
    ------
    InputError, RefusedError
        Those that the notebook raised, as they are.
    StageError
        If it breaks off in another way.
    """
    engine = {}
    if kernel is not None:
        kernel.renew()
        engine = {"km": kernel.manager}
    with tempfile.TemporaryDirectory(prefix="harmony-") as scratch, _kernel_surroundings(scratch):
        output = Path(scratch) / source.name
        try:
            papermill.execute_notebook(
                source,
                output,
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                cwd=os.getcwd(),
                **engine,
            )
        except PapermillExecutionError as error:
            write_atomically(failed, lambda temporary: shutil.copyfile(output, temporary))
            if error.ename in _KNOWN:
                raise _KNOWN[error.ename](f"{what}: {error.evalue}") from None
            raise StageError(
                f"{what} failed: {error.ename}: {error.evalue}; its notebook as far as "
                f"it ran: {failed}"
            ) from None
        except DeadKernelError:
            raise StageError(
                f"{what} failed: its process was ended from outside; most often the memory did "
                "not suffice"
            ) from None
        write_text(target, _clean(output))
    failed.unlink(missing_ok=True)


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
