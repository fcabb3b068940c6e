"""The evaluation card: what is to be decided, the evidence for it, and its limits, in one place."""

from harmony_utils.card.assembly import Card, make_card
from harmony_utils.card.calibration import CalibrationError, calibration_error
from harmony_utils.card.changes import Change, changes_against, paired_difference
from harmony_utils.card.decision import Criterion, Decision, load_decision
from harmony_utils.card.document import card_markdown, conclusion_sentence, save_card
from harmony_utils.card.evidence import Evidence, run_evidence
from harmony_utils.card.failures import Failures, find_failures
from harmony_utils.card.judging import Judgement, conclusion, items_to_tell, judge, verdict_of
from harmony_utils.card.measures import MEASURES, Measure
from harmony_utils.card.tested import Tested, load_tested

__all__ = [
    "MEASURES",
    "CalibrationError",
    "Card",
    "Change",
    "Criterion",
    "Decision",
    "Evidence",
    "Failures",
    "Judgement",
    "Measure",
    "Tested",
    "calibration_error",
    "card_markdown",
    "changes_against",
    "conclusion",
    "conclusion_sentence",
    "find_failures",
    "items_to_tell",
    "judge",
    "load_decision",
    "load_tested",
    "make_card",
    "paired_difference",
    "run_evidence",
    "save_card",
    "verdict_of",
]
