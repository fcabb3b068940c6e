"""What happens to HARMONY and to the mean when items are removed or weighed anew.

``sizes`` says how many items of each subdomain stay, ``choice`` which ones, ``ladder`` what that
changes, ``compare`` how several tests are read together, ``weights`` deletes nothing, ``export``
writes lists for use elsewhere.
"""

from harmony_utils.rebalance.choice import METHODS, Method, duplicate_order, pruned_items
from harmony_utils.rebalance.compare import compare_benchmarks, holm
from harmony_utils.rebalance.export import export_items, item_table, kept_items
from harmony_utils.rebalance.ladder import N_SHUFFLES, RANGE, prune_ladder
from harmony_utils.rebalance.sizes import (
    GREEDY_STEPS,
    capped_sizes,
    greedy_sizes,
    usable_shares,
)
from harmony_utils.rebalance.weights import (
    BalancedAccuracy,
    balanced_accuracy,
    balanced_mean,
    balanced_weights,
)

__all__ = [
    "GREEDY_STEPS",
    "METHODS",
    "N_SHUFFLES",
    "RANGE",
    "BalancedAccuracy",
    "Method",
    "balanced_accuracy",
    "balanced_mean",
    "balanced_weights",
    "capped_sizes",
    "compare_benchmarks",
    "duplicate_order",
    "export_items",
    "greedy_sizes",
    "holm",
    "item_table",
    "kept_items",
    "prune_ladder",
    "pruned_items",
    "usable_shares",
]
