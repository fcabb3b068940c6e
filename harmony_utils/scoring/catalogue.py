"""The catalogue of models: what is known of each before anything is loaded."""

from __future__ import annotations

import os
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, TypeAdapter

from harmony_utils.errors import InputError
from harmony_utils.packages import is_installed

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one parameter by number type."""

OVERHEAD = 1.2
"""Memory beside the weights while a benchmark is scored, as a factor."""


class ModelEntry(BaseModel):
    """One line of the model catalogue.

    ``parameters`` follow from the published architecture (input and output embedding counted once
    where they are tied), ``tokens`` are what the authors say the model was trained on.
    ``revisions`` is the pattern of the names of intermediate checkpoints.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    family: str
    parameters: int
    layers: int
    tokens: float | None = None
    instruct: bool = False
    licence: str
    gated: bool = False
    offline: bool
    source: str
    package: str | None = None
    module: str | None = None
    file: str | None = None
    sha256: str | None = None
    download_mb: int | None = None
    revisions: str = ""
    note: str = ""

    def memory_gb(self, dtype: str = "bfloat16") -> float:
        """Return the memory that scoring needs, in gigabytes: the weights and a fifth more."""
        return OVERHEAD * BYTES[dtype] * self.parameters / 1e9


@cache
def list_models() -> tuple[ModelEntry, ...]:
    """Return the model catalogue; other folders, files and hub ids work too."""
    text = files("harmony_utils").joinpath("catalogue/models.json").read_text(encoding="utf-8")
    return tuple(TypeAdapter(list[ModelEntry]).validate_json(text))


def find_entry(name: str) -> ModelEntry | None:
    """Return the catalogue entry of a name, or None."""
    return next((entry for entry in list_models() if entry.name == name), None)


def installed(entry: ModelEntry) -> bool:
    """Say whether a packaged model's package is installed."""
    return entry.module is not None and is_installed(entry.module)


def check_memory(entry: ModelEntry, *, dtype: str, device: str) -> None:
    """Refuse a model that will not fit, before anything is downloaded.

    Parameters
    ----------
    entry : ModelEntry
        The catalogue's line.
    dtype : {"float32", "bfloat16", "float16"}
        Number type of the weights.
    device : str
        Where it is to be loaded, already resolved.

    Raises
    ------
    InputError
        With what it needs, what is there, and what to do.
    """
    needed, there = entry.memory_gb(dtype), available_memory_gb(device)
    if there is not None and needed > there:
        smaller = "" if dtype != "float32" else "-p predictions.dtype=bfloat16 halves it; "
        raise InputError(
            f"model {entry.name!r}: needs about {needed:.0f} GB as {dtype}, {device} has "
            f"{there:.0f} GB free; {smaller}choose a smaller model or another machine"
        )


def available_memory_gb(device: str) -> float | None:
    """Return the free memory of a device in gigabytes, None where it cannot be told."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0] / 1e9
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (ValueError, OSError, AttributeError):
        return None
