"""Results in words: what may be said of them, and what may not.

Every function returns a paragraph or list in Markdown, for a notebook, a card or a terminal.
"""

from harmony_utils.reading.harmony import (
    calibration_reading,
    harmony_reading,
    interval_reading,
    reclustered_reading,
    stratified_reading,
    verdict_sentence,
)
from harmony_utils.reading.studies import (
    filling_reading,
    framing_reading,
    methods_reading,
    metric_reading,
    plane_reading,
    rebalancing_reading,
    scaling_reading,
    sensitivity_reading,
)
from harmony_utils.reading.words import LEVEL, p_text, signed

__all__ = [
    "LEVEL",
    "calibration_reading",
    "filling_reading",
    "framing_reading",
    "harmony_reading",
    "interval_reading",
    "methods_reading",
    "metric_reading",
    "p_text",
    "plane_reading",
    "rebalancing_reading",
    "reclustered_reading",
    "scaling_reading",
    "sensitivity_reading",
    "signed",
    "stratified_reading",
    "verdict_sentence",
]
