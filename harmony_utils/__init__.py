"""When can a benchmark's average be trusted? HARMONY audits of multiple-choice benchmarks."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from harmony_utils.errors import HarmonyError, InputError, RefusedError, StageError

__version__ = version("harmony-utils")

__all__ = [
    "HarmonyError",
    "InputError",
    "RefusedError",
    "StageError",
    "__version__",
    "harmony_score",
]


def __getattr__(name: str) -> Any:
    """Import ``harmony_score`` on first use: it needs scipy, which the command often does not."""
    if name == "harmony_score":
        return import_module("harmony_utils.metric").harmony_score
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
