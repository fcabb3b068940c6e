"""Difficulty: what a score weighs, what it never asks, and what it can say for a purpose."""

from harmony_utils.difficulty.audit import DifficultyAudit, audit_difficulty
from harmony_utils.difficulty.checks import (
    FitChecks,
    check_fit,
    held_out_prediction,
    suspected_keys,
)
from harmony_utils.difficulty.coverage import Gap, find_gaps, headroom, raw_gap, soft_gaps
from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.differential import differential_items, differential_subjects
from harmony_utils.difficulty.fit import fit_difficulty, score_models
from harmony_utils.difficulty.loading import load_responses
from harmony_utils.difficulty.mismatch import (
    Mismatch,
    Target,
    measure_mismatch,
    pool_target,
    uniform_target,
    wasserstein,
    workload_target,
)
from harmony_utils.difficulty.posterior import DifficultyPosterior, difficulty_posterior
from harmony_utils.difficulty.purpose import Purpose, load_purpose
from harmony_utils.difficulty.responses import (
    Responses,
    responses_from_matrix,
    responses_from_table,
)
from harmony_utils.difficulty.reweighting import effective_size, purpose_scores, purpose_weights
from harmony_utils.difficulty.simulation import SimulatedPanel, simulate_panel
from harmony_utils.difficulty.subset import choose_by_information, compare_subsets, estimate_score
from harmony_utils.difficulty.weighing import band_table, detectable_gain, information_table

__all__ = [
    "DifficultyAudit",
    "DifficultyFit",
    "DifficultyPosterior",
    "FitChecks",
    "Gap",
    "Mismatch",
    "Purpose",
    "Responses",
    "SimulatedPanel",
    "Target",
    "audit_difficulty",
    "band_table",
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
    "simulate_panel",
    "soft_gaps",
    "suspected_keys",
    "uniform_target",
    "wasserstein",
    "workload_target",
]
