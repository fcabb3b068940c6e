"""Difficulty: what a score weighs, what it never asks, and what it can say for a purpose."""

from harmony_utils.difficulty.audit import DifficultyAudit, audit_difficulty
from harmony_utils.difficulty.checks import (
    FitChecks,
    check_fit,
    differential_items,
    differential_subjects,
    held_out_prediction,
    suspected_keys,
)
from harmony_utils.difficulty.coverage import Gap, find_gaps, headroom, raw_gap, soft_gaps
from harmony_utils.difficulty.fit import DifficultyFit, fit_difficulty, score_models
from harmony_utils.difficulty.mismatch import (
    Mismatch,
    Target,
    band_table,
    resampled_fits,
    detectable_gain,
    information_table,
    measure_mismatch,
    pool_target,
    uniform_target,
    wasserstein,
    workload_target,
)
from harmony_utils.difficulty.posterior import DifficultyPosterior, difficulty_posterior
from harmony_utils.difficulty.purpose import (
    Purpose,
    effective_size,
    load_purpose,
    purpose_scores,
    purpose_weights,
)
from harmony_utils.difficulty.responses import (
    Responses,
    load_responses,
    responses_from_matrix,
    responses_from_table,
)
from harmony_utils.difficulty.subset import choose_by_information, compare_subsets, estimate_score

__all__ = [
    "DifficultyAudit",
    "DifficultyFit",
    "DifficultyPosterior",
    "FitChecks",
    "Gap",
    "Mismatch",
    "Purpose",
    "Responses",
    "Target",
    "audit_difficulty",
    "band_table",
    "resampled_fits",
    "check_fit",
    "choose_by_information",
    "compare_subsets",
    "detectable_gain",
    "differential_items",
    "differential_subjects",
    "difficulty_posterior",
    "effective_size",
    "estimate_score",
    "find_gaps",
    "fit_difficulty",
    "headroom",
    "held_out_prediction",
    "information_table",
    "load_purpose",
    "load_responses",
    "measure_mismatch",
    "pool_target",
    "purpose_scores",
    "purpose_weights",
    "raw_gap",
    "responses_from_matrix",
    "responses_from_table",
    "score_models",
    "soft_gaps",
    "suspected_keys",
    "uniform_target",
    "wasserstein",
    "workload_target",
]
