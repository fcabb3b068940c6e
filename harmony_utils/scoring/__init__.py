"""Model and benchmark → predictions: per-option log-likelihoods and averaged distributions."""

from importlib import import_module
from typing import Any

from harmony_utils.items import Prompt
from harmony_utils.scoring.models import (
    LanguageModel,
    ModelEntry,
    ModelSpec,
    list_models,
    load_model,
)
from harmony_utils.scoring.prompts import build_prompt, render_item

__all__ = [
    "LanguageModel",
    "ModelEntry",
    "ModelSpec",
    "Prompt",
    "Scores",
    "build_prompt",
    "list_models",
    "load_model",
    "render_item",
    "score",
]


def __getattr__(name: str) -> Any:
    """Import what computes with torch on first use: reading finished results needs no torch."""
    if name in ("Scores", "score"):
        return getattr(import_module("harmony_utils.scoring.scores"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
