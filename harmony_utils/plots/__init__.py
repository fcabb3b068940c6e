"""Figures: results in, ``(figure, alt)`` out, where ``alt`` says what is seen.

Nothing else in the package draws. The figures are closed for pyplot, so a notebook shows one where
it is displayed and nowhere else.
"""

from harmony_utils.plots.card import criteria_chart, reliability_curve
from harmony_utils.plots.difficulty import (
    band_shares,
    gap_chart,
    information_curve,
    item_curves,
    wright_map,
)
from harmony_utils.plots.display import figure_html, show
from harmony_utils.plots.filling import (
    aim_by_panel,
    aimed_and_measured,
    originals_and_additions,
)
from harmony_utils.plots.framing import (
    condition_ranks,
    condition_scores,
    metric_steps,
    position_choices,
)
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
from harmony_utils.plots.validation import (
    number_agreement,
    ranking_forest,
    recovery_lines,
    truth_scatter,
)

__all__ = [
    "affinity_heatmap",
    "aim_by_panel",
    "aimed_and_measured",
    "answer_margins",
    "band_shares",
    "bandwidth_curve",
    "benchmark_plane",
    "cluster_choice",
    "condition_ranks",
    "condition_scores",
    "criteria_chart",
    "distribution_examples",
    "divergence_histogram",
    "embedding_scatter",
    "figure_html",
    "gap_chart",
    "harmony_interval",
    "harmony_mass_bars",
    "harmony_null",
    "information_curve",
    "item_curves",
    "method_overview",
    "metric_steps",
    "number_agreement",
    "option_length_effect",
    "originals_and_additions",
    "partition_comparison",
    "plane_means",
    "plane_verdicts",
    "position_choices",
    "pruning_ladder",
    "ranking_forest",
    "recovery_lines",
    "reliability_curve",
    "scaling_trend",
    "show",
    "specification_curve",
    "subdomain_accuracy",
    "truth_scatter",
    "verdicts_by_choice",
    "wright_map",
]
