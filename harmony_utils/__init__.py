"""When can a benchmark's average be trusted? HARMONY audits of multiple-choice benchmarks."""

from importlib.metadata import version

from harmony_utils.errors import HarmonyError, InputError, RefusedError, StageError
from harmony_utils.metric import harmony_score

__version__ = version("harmony-utils")

__all__ = [
    "HarmonyError",
    "InputError",
    "RefusedError",
    "StageError",
    "__version__",
    "harmony_score",
]
