"""What a card can hold: each measure with its direction and its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from harmony_utils.errors import InputError

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Measure:
    """One thing that can be measured, and bounded by a criterion.

    Parameters
    ----------
    name : str
        As criteria write it.
    title : str
        As the card shows it.
    better : {"higher", "lower"}
        Direction that is better, other things being equal.
    meaning : str
        What the number is, and what its interval allows for.
    scales : bool
        Whether the interval narrows with the square root of the number of questions, so that a
        number of questions that would tell can be named.
    """

    name: str
    title: str
    better: Direction
    meaning: str
    scales: bool = False


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure(
            "accuracy",
            "accuracy",
            "higher",
            "mean over questions; Wilson's interval, questions that hang together counted as such",
            scales=True,
        ),
        Measure(
            "macro_accuracy",
            "macro accuracy",
            "higher",
            "mean over subjects of their accuracies; the interval is for these subjects and other "
            "questions",
            scales=True,
        ),
        Measure(
            "worst_subdomain",
            "worst subdomain",
            "higher",
            "accuracy of the lowest subdomain; the interval allows for its having been picked "
            "(Bonferroni over all subdomains)",
            scales=True,
        ),
        Measure(
            "worst_subject",
            "worst subject",
            "higher",
            "accuracy of the lowest subject; the interval allows for its having been picked "
            "(Bonferroni over all subjects)",
            scales=True,
        ),
        Measure(
            "harmony",
            "HARMONY",
            "higher",
            "how evenly accuracy is spread over subdomains; the interval has sampling noise taken "
            "out, so the value may lie below it",
        ),
        Measure(
            "calibration_error",
            "calibration error",
            "lower",
            "expected calibration error over bins of equally many questions: mean distance of "
            "confidence, the highest softmax over the options' scores, from accuracy. Noise alone "
            "makes it larger than 0; the interval allows for that",
        ),
        Measure(
            "brier",
            "Brier score",
            "lower",
            "mean squared distance of the softmax over the options' scores from the key, 0 to 2; "
            "Student's interval",
            scales=True,
        ),
        Measure(
            "near_ties",
            "near ties",
            "lower",
            "share of questions whose two best options are so close that another batch size or "
            "number type may turn them over",
            scales=True,
        ),
        Measure(
            "seconds_per_question",
            "seconds per question",
            "lower",
            "time of scoring over questions, as the run recorded it (a resumed run: its last "
            "sitting), on the machine of the run; one measurement, so no interval",
        ),
        Measure(
            "mismatch",
            "measure mismatch",
            "lower",
            "distance in logits between the questions' difficulties and the target",
        ),
        Measure(
            "largest_gap",
            "largest gap",
            "lower",
            "width in logits of the widest stretch of wanted difficulties with too few questions",
        ),
        Measure(
            "framing_loss",
            "loss by framing",
            "lower",
            "largest loss of accuracy under another framing of the same questions; the interval "
            "allows for its having been picked (Bonferroni over all framings)",
            scales=True,
        ),
    )
}
"""Every measure by name, in the order of the card."""


def check_measure(name: str) -> str:
    """Return a measure's name, or refuse it with what comes near.

    Parameters
    ----------
    name : str
        As a criterion writes it.

    Returns
    -------
    str
        ``name``.

    Raises
    ------
    InputError
        If there is no such measure; the line names near matches, or all measures.

    Examples
    --------
    >>> check_measure("brier")
    'brier'
    >>> check_measure("acuracy")
    Traceback (most recent call last):
    ...
    harmony_utils.errors.InputError: unknown measure 'acuracy'; did you mean accuracy, ...?
    """
    if name in MEASURES:
        return name
    if near := get_close_matches(name.lower().replace(" ", "_"), MEASURES, n=3):
        raise InputError(f"unknown measure {name!r}; did you mean {', '.join(near)}?")
    raise InputError(f"unknown measure {name!r}; there are {', '.join(MEASURES)}")
