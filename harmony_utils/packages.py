"""Finding installed packages that hold data or weights, without importing them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from harmony_utils.errors import InputError


def is_installed(module: str) -> bool:
    """Say whether a top-level module could be imported."""
    return find_spec(module) is not None


def package_folder(module: str, *, called: str) -> Path:
    """Return the folder of an installed package.

    Parameters
    ----------
    module : str
        Name of its top-level module.
    called : str
        How the message of the error names the package.

    Raises
    ------
    InputError
        If the package is not installed.
    """
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{called} is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0])
