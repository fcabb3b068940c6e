"""Criteria against evidence: what may be concluded, and what may not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal

from harmony_utils.card.decision import Criterion, Decision
from harmony_utils.card.evidence import Evidence
from harmony_utils.card.measures import MEASURES
from harmony_utils.errors import InputError
from harmony_utils.power import two_digits

Verdict = Literal["met", "not met", "cannot tell", "not measured"]
Conclusion = Literal["supported", "not supported", "open", "none"]

OF_QUESTIONS = ("mismatch", "largest_gap")
"""Measures that belong to no model and no benchmark alone."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Judgement:
    """One criterion on one model and benchmark.

    Parameters
    ----------
    criterion : Criterion
        What was asked.
    evidence : Evidence
        What there is.
    verdict : {"met", "not met", "cannot tell", "not measured"}
        See :func:`verdict_of`.
    reason : str
        What it would take, where it cannot be told or was not measured.
    n_needed : int or None
        Questions at which this value would tell, by the normal approximation.
    """

    criterion: Criterion
    evidence: Evidence
    verdict: Verdict
    reason: str
    n_needed: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        about = asdict(self.evidence)
        kept = ("measure", "model", "benchmark", "subject", "value", "low", "high", "n")
        return {
            **{name: about[name] for name in kept},
            "at_least": self.criterion.at_least,
            "at_most": self.criterion.at_most,
            "why": self.criterion.why,
            "verdict": self.verdict,
            "reason": self.reason,
            "n_needed": self.n_needed,
        }


def verdict_of(
    low: float, high: float, *, at_least: float | None = None, at_most: float | None = None
) -> Verdict:
    """Say whether an interval keeps a bound.

    Parameters
    ----------
    low, high : float
        Ends of the interval; equal for a value without one.
    at_least, at_most : float
        The bound, inclusive: one of the two.

    Returns
    -------
    {"met", "not met", "cannot tell"}
        ``met`` if the worse end keeps the bound, ``not met`` if even the better end breaks it.

    Examples
    --------
    The bound itself is good enough.

    >>> verdict_of(0.7, 0.8, at_least=0.7), verdict_of(0.6, 0.7, at_least=0.7)
    ('met', 'cannot tell')
    >>> verdict_of(0.6, 0.69, at_least=0.7), verdict_of(0.1, 0.2, at_most=0.2)
    ('not met', 'met')
    """
    if at_least is None:
        low, high, at_least = -high, -low, -at_most
    if low >= at_least - _ROUNDING:
        return "met"
    return "not met" if high < at_least - _ROUNDING else "cannot tell"


def items_to_tell(value: float, low: float, high: float, n: int, *, bound: float) -> int | None:
    """Return how many items it would take for the interval to lie on one side of a bound.

    Parameters
    ----------
    value, low, high : float
        As measured on ``n`` items.
    bound : float
        Of the criterion.

    Returns
    -------
    int or None
        If the value stayed as it is and the interval's width fell with the square root of the
        number of items (normal approximation); None where the value is the bound itself.

    Examples
    --------
    Half as wide takes four times as many.

    >>> items_to_tell(0.75, 0.65, 0.85, 100, bound=0.7)
    400
    """
    distance = abs(value - bound)
    if distance <= _ROUNDING:
        return None
    reach = value - low if value > bound else high - value
    return max(n, math.ceil(n * (reach / distance) ** 2 - 1e-6))


def judge(criterion: Criterion, evidence: Evidence) -> Judgement:
    """Judge one criterion by one piece of evidence.

    Parameters
    ----------
    criterion : Criterion
        What was asked.
    evidence : Evidence
        Of the same measure.

    Returns
    -------
    Judgement
        A value without an interval is judged as it stands.
    """
    if evidence.value is None:
        return Judgement(criterion, evidence, "not measured", evidence.missing, None)
    if evidence.unresolved:
        return Judgement(criterion, evidence, "cannot tell", evidence.unresolved, None)
    ends = [evidence.value if end is None else end for end in (evidence.low, evidence.high)]
    bounds = {"at_least": criterion.at_least, "at_most": criterion.at_most}
    verdict = verdict_of(*ends, **bounds)
    if verdict != "cannot tell":
        return Judgement(criterion, evidence, verdict, "", None)
    reason, needed = "the interval holds the bound", None
    if MEASURES[criterion.measure].scales and evidence.n:
        needed = items_to_tell(evidence.value, *ends, evidence.n, bound=criterion.bound)
        reason += (
            f"; at this value about {two_digits(needed)} questions would tell, instead of "
            f"{evidence.n:,}"
            if needed
            else "; the value is the bound, so no number of questions would tell"
        )
    return Judgement(criterion, evidence, verdict, reason, needed)


def matching(
    criterion: Criterion, evidence: Sequence[Evidence], *, baseline: str = ""
) -> list[Evidence]:
    """Return the evidence that a criterion is about.

    Parameters
    ----------
    criterion : Criterion
        Without a model it is about all but the baseline; without a benchmark about all.
    evidence : sequence of Evidence
        Of everything that was tested.
    baseline : str
        The model that others are compared with.

    Returns
    -------
    list of Evidence
        Never empty: where nothing that was tested is meant, one that was not measured.
    """
    found = [
        entry
        for entry in evidence
        if entry.measure == criterion.measure
        and entry.subject == criterion.subject
        and criterion.benchmark in ("", entry.benchmark)
        and (
            entry.model == criterion.model
            if criterion.model
            else not baseline or entry.model != baseline
        )
    ]
    about = {name: getattr(criterion, name) for name in ("model", "benchmark", "subject")}
    return found or [Evidence(criterion.measure, **about, missing="no run that it is about")]


def check_decision(
    decision: Decision,
    *,
    models: Iterable[str],
    benchmarks: Iterable[str],
    subjects: Iterable[str],
    pairs: Iterable[tuple[str, str]],
) -> None:
    """Refuse a decision that names what was not tested.

    Parameters
    ----------
    decision : Decision
        What was declared.
    models, benchmarks, subjects : iterable of str
        What was tested.
    pairs : iterable of (str, str)
        Which model on which benchmark.

    Raises
    ------
    InputError
        Naming the first unknown one and what there is.
    """
    known = {
        "model": sorted(set(models)),
        "benchmark": sorted(set(benchmarks)),
        "subject": sorted(set(subjects)),
    }
    pairs = set(pairs)
    for number, criterion in enumerate(decision.criteria):
        for what, names in known.items():
            _known(f"criteria.{number}", what, getattr(criterion, what), names)
        if (criterion.model or criterion.benchmark) and criterion.measure in OF_QUESTIONS:
            raise InputError(
                f"criteria.{number}: {criterion.measure} is about all questions of the difficulty "
                "audit; leave model and benchmark out"
            )
        pair = (criterion.model, criterion.benchmark)
        if all(pair) and pair not in pairs:
            raise InputError(
                f"criteria.{number}: {pair[0]!r} was not tested on {pair[1]!r}; add that run"
            )
    _known("baseline", "model", decision.baseline, known["model"])
    if decision.baseline and known["model"] == [decision.baseline]:
        raise InputError(
            f"baseline: {decision.baseline!r} is the only model that was tested; add runs of "
            "another, or leave baseline out"
        )


def _known(where: str, what: str, name: str, names: list[str]) -> None:
    if not name or name in names:
        return
    near = get_close_matches(name, names, n=1)
    have = ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "none"
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"{where}: unknown {what} {name!r}; {hint}tested: {have}")


def conclusion(judgements: Sequence[Judgement]) -> Conclusion:
    """Return what the criteria together say.

    Parameters
    ----------
    judgements : sequence of Judgement
        Of every criterion.

    Returns
    -------
    {"supported", "not supported", "open", "none"}
        ``supported`` only if all are met, ``not supported`` if one is not met, else ``open``;
        ``none`` without criteria.

    Examples
    --------
    >>> conclusion([])
    'none'
    """
    verdicts = {judgement.verdict for judgement in judgements}
    if not verdicts:
        return "none"
    if "not met" in verdicts:
        return "not supported"
    return "supported" if verdicts == {"met"} else "open"
