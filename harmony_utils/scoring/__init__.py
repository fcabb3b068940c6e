"""Model and benchmark → predictions: per-option log-likelihoods and averaged distributions."""

from harmony_utils.scoring.models import (
    LanguageModel,
    ModelEntry,
    ModelSpec,
    list_models,
    load_model,
)
from harmony_utils.scoring.prompts import Prompt, build_prompt, render_item
from harmony_utils.scoring.score import Scores, score

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
