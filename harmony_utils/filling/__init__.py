"""Filling gaps: new questions of a wanted difficulty, checked and measured before they count."""

from harmony_utils.filling.candidates import Candidate, Generator, GeneratorError, make_candidate
from harmony_utils.filling.chat import ChatGenerator, EndpointChat, LocalChat, candidate_from_reply
from harmony_utils.filling.gates import (
    DuplicateGate,
    Measured,
    OptionsOnly,
    Thresholds,
    band_probability,
    check_format,
    check_key,
    check_measured,
)
from harmony_utils.filling.linking import joined_responses, link, measure
from harmony_utils.filling.loop import fill_gaps
from harmony_utils.filling.outcomes import Budget, Filling, Outcome, gap_closed
from harmony_utils.filling.panels import AskingPanel, RecordedPanel, SimulatedPanel
from harmony_utils.filling.predictor import DifficultyPredictor, fit_predictor, item_features
from harmony_utils.filling.reader import Reader
from harmony_utils.filling.surgery import OptionSurgery
from harmony_utils.filling.tables import (
    accuracy_of_aim,
    conclusions,
    gate_table,
    linked_fit,
    outcome_table,
    score_table,
)
from harmony_utils.filling.texts import TextSpace
from harmony_utils.filling.trial import Trial, fill_by_surgery

__all__ = [
    "AskingPanel",
    "Budget",
    "Candidate",
    "ChatGenerator",
    "DifficultyPredictor",
    "DuplicateGate",
    "EndpointChat",
    "Filling",
    "Generator",
    "GeneratorError",
    "LocalChat",
    "Measured",
    "OptionSurgery",
    "OptionsOnly",
    "Outcome",
    "Reader",
    "RecordedPanel",
    "SimulatedPanel",
    "TextSpace",
    "Thresholds",
    "Trial",
    "accuracy_of_aim",
    "band_probability",
    "candidate_from_reply",
    "check_format",
    "check_key",
    "check_measured",
    "conclusions",
    "fill_by_surgery",
    "fill_gaps",
    "fit_predictor",
    "gap_closed",
    "gate_table",
    "item_features",
    "joined_responses",
    "link",
    "linked_fit",
    "make_candidate",
    "measure",
    "outcome_table",
    "score_table",
]
