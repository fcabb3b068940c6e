"""Figures: results in, ``(figure, alt)`` out, where ``alt`` says what is seen.

Nothing else in the package draws. The figures are closed for pyplot, so a notebook shows one where
it is displayed and nowhere else.
"""

from harmony_utils.plots.display import figure_html, show
from harmony_utils.plots.harmony import (
    bandwidth_curve,
    harmony_interval,
    harmony_mass_bars,
    harmony_null,
    subdomain_accuracy,
)
from harmony_utils.plots.overview import method_overview
from harmony_utils.plots.plane import benchmark_plane, plane_means, plane_verdicts
from harmony_utils.plots.predictions import (
    answer_margins,
    distribution_examples,
    option_length_effect,
)
from harmony_utils.plots.sensitivity import specification_curve, verdicts_by_choice
from harmony_utils.plots.similarity import (
    affinity_heatmap,
    cluster_choice,
    divergence_histogram,
    embedding_scatter,
    partition_comparison,
)
from harmony_utils.plots.trends import pruning_ladder, scaling_trend

__all__ = [
    "affinity_heatmap",
    "answer_margins",
    "bandwidth_curve",
    "benchmark_plane",
    "cluster_choice",
    "distribution_examples",
    "divergence_histogram",
    "embedding_scatter",
    "figure_html",
    "harmony_interval",
    "harmony_mass_bars",
    "harmony_null",
    "method_overview",
    "option_length_effect",
    "partition_comparison",
    "plane_means",
    "plane_verdicts",
    "pruning_ladder",
    "scaling_trend",
    "show",
    "specification_curve",
    "subdomain_accuracy",
    "verdicts_by_choice",
]
