"""Does it find the subdomains that are there? Tests against a known truth."""

from harmony_utils.validation.composed import (
    Variant,
    compose_variants,
    composed_table,
    estimate_harmony,
    recovery,
    simulated_table,
)
from harmony_utils.validation.lineup import (
    KnownBenchmark,
    judge_similarity,
    known_benchmark,
    model_lineup,
    option_divergence,
    recorded_table,
    text_lineup,
)
from harmony_utils.validation.pairwise import (
    Ranking,
    rank_across_domains,
    rank_within_groups,
    same_text,
    word_overlap,
)
from harmony_utils.validation.simulate import Simulated, draw_profile, simulate_benchmark

__all__ = [
    "KnownBenchmark",
    "Ranking",
    "Simulated",
    "Variant",
    "compose_variants",
    "composed_table",
    "draw_profile",
    "estimate_harmony",
    "judge_similarity",
    "known_benchmark",
    "model_lineup",
    "option_divergence",
    "rank_across_domains",
    "rank_within_groups",
    "recorded_table",
    "recovery",
    "same_text",
    "simulate_benchmark",
    "simulated_table",
    "text_lineup",
    "word_overlap",
]
