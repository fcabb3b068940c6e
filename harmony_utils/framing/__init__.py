"""Would the ranking survive another way of asking, or another metric?

Difficulty is a property of the question under one way of asking; framing is how it is asked:
wording, list of options, order, symbols. It needs a test of its own.
"""

from harmony_utils.framing.conditions import Conditions, compare_conditions
from harmony_utils.framing.framings import BASELINE, FRAMINGS, framing_settings
from harmony_utils.framing.metrics import METRICS, largest_step, metric_values
from harmony_utils.framing.positions import choices_by_position

__all__ = [
    "BASELINE",
    "FRAMINGS",
    "METRICS",
    "Conditions",
    "choices_by_position",
    "compare_conditions",
    "framing_settings",
    "largest_step",
    "metric_values",
]
