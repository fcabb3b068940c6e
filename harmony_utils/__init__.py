"""When can a benchmark's average be trusted? HARMONY audits of multiple-choice benchmarks."""

from importlib import import_module
from typing import Any

from harmony_utils.errors import HarmonyError, InputError, RefusedError, StageError

__all__ = [
    "HarmonyError",
    "InputError",
    "RefusedError",
    "StageError",
    "__version__",
    "harmony_score",
]


def __getattr__(name: str) -> Any:
    """Fetch on first use what the command often does not need, so that it starts at once."""
    if name == "__version__":
        return import_module("importlib.metadata").version("harmony-utils")
    if name == "harmony_score":
        return import_module("harmony_utils.metric").harmony_score
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
