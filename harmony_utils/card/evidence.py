"""Evidence from one run: every measure with value, interval, number and where it came from.

What cannot be measured is there too, with the reason and the command that would measure it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from harmony_utils.card.calibration import calibration_error
from harmony_utils.card.measures import MEASURES
from harmony_utils.card.tested import PREDICTIONS_FILE, RESULTS, Tested
from harmony_utils.errors import InputError
from harmony_utils.logs.checks import NEAR_TIE
from harmony_utils.metric import tail_shares, wilson_interval
from harmony_utils.probabilities import brier_scores, option_probabilities
from harmony_utils.rebalance import balanced_accuracy
from harmony_utils.settings import CardSettings
from harmony_utils.uncertainty import bootstrap_intervals, design_effects


@dataclass(frozen=True)
class Evidence:
    """One measure of one model on one benchmark.

    Parameters
    ----------
    measure : str
        A name of :data:`~harmony_utils.card.measures.MEASURES`.
    model, benchmark : str
        Of the run; empty where it is about all that is compared.
    value : float or None
        None where it was not measured.
    low, high : float or None
        Interval; None where the value is no estimate.
    n : int or None
        Questions behind it.
    subject : str
        Where it is about one subject only.
    detail : str
        What is needed to read the number.
    source : str
        The file it came from.
    missing : str
        Why it was not measured; empty where it was.
    command : str
        What would measure it; empty where nothing would.
    unresolved : str
        Why no bound on it can be judged although there is a value; mostly empty.
    """

    measure: str
    model: str = ""
    benchmark: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    subject: str = ""
    detail: str = ""
    source: str = ""
    missing: str = ""
    command: str = ""
    unresolved: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, direction included."""
        return {**asdict(self), "better": MEASURES[self.measure].better}


class NotMeasuredError(Exception):
    """What a measure lacks: the reason, and the command that would give it."""

    def __init__(self, reason: str, command: str = "") -> None:
        super().__init__(reason)
        self.command = command


def run_evidence(run: Tested, settings: CardSettings | None = None) -> list[Evidence]:
    """Return every measure that one run can have, in the order of the card.

    Parameters
    ----------
    run : Tested
        From :func:`~harmony_utils.card.tested.load_tested`.
    settings : CardSettings, optional
        Bins and coverage.

    Returns
    -------
    list of Evidence
        One for each measure of a run; those that were not measured have ``missing``.
    """
    settings = settings or CardSettings()
    found = []
    for measure, make in _MAKERS.items():
        base = Evidence(measure, run.model, run.benchmark)
        try:
            made = make(run, settings)
        except NotMeasuredError as reason:
            made = {"missing": str(reason), "command": reason.command}
        found.append(replace(base, **made))
    return found


def subject_evidence(run: Tested, subject: str, settings: CardSettings | None = None) -> Evidence:
    """Return the accuracy in one subject that was named beforehand.

    Parameters
    ----------
    run, settings
        As in :func:`run_evidence`.
    subject : str
        One of the benchmark's.

    Returns
    -------
    Evidence
        Its interval makes no allowance for picking. Not measured where the run has no question of
        the subject.
    """
    settings = settings or CardSettings()
    base = Evidence("accuracy", run.model, run.benchmark, subject=subject)
    mine = run.subjects == subject
    if not mine.any():
        return replace(base, missing=f"no question of {subject!r} was asked", command=run.command())
    about = mean_interval(run.predictions.correct[mine], run.groups[mine], settings.confidence)
    return replace(base, **about, source=f"{run.place}/{PREDICTIONS_FILE}")


def mean_interval(scores: np.ndarray, groups: np.ndarray, confidence: float) -> dict[str, Any]:
    """Return a mean with Wilson's interval and its number of items.

    Parameters
    ----------
    scores : ndarray of shape (n_items,)
        Between 0 and 1; with values between them the interval is too wide, never too narrow.
    groups : ndarray of shape (n_items,)
        Items of one group hang together: the number is divided by their design effect.
    confidence : float
        Coverage.

    Returns
    -------
    dict
        ``value``, ``low``, ``high`` and ``n``.

    Examples
    --------
    >>> found = mean_interval(np.array([1.0, 0.0]), np.arange(2), 0.95)
    >>> found["value"], round(found["low"], 2), found["n"]
    (0.5, 0.09, 2)
    """
    value = float(scores.mean())
    members = np.unique(groups, return_inverse=True)[1]
    whole = np.zeros(len(scores), dtype=int)
    effect = design_effects(scores - value, whole, members)[1]
    ends = wilson_interval(np.array(value), np.array(len(scores) / effect), confidence=confidence)
    # rounding may put an end a hair inside the value where all answers are alike
    low, high = min(float(ends[0]), value), max(float(ends[1]), value)
    return {"value": value, "low": low, "high": high, "n": len(scores)}


def worst_of(
    scores: np.ndarray, codes: np.ndarray, groups: np.ndarray, confidence: float
) -> tuple[int, dict[str, Any]]:
    """Return the group of items with the lowest mean, and what is known of that lowest mean.

    Parameters
    ----------
    scores, codes, groups : ndarray of shape (n_items,)
        Correctness; which of 0 to k-1 an item belongs to; items that hang together.
    confidence : float
        Coverage.

    Returns
    -------
    worst : int
        Of equally low ones the first.
    about : dict
        ``value``, ``low``, ``high`` and ``n`` (all items).

    Notes
    -----
    Each mean gets an interval at ``1 - (1 - confidence) / k``, so that all of them hold at once at
    least as often as ``confidence`` says (Bonferroni). The lowest true mean then lies between the
    lowest of their lower ends and the lowest of their upper ends. The lower end may be that of
    another, smaller group than the one with the lowest mean.

    Examples
    --------
    >>> scores = np.array([1.0, 1, 1, 0, 0, 0, 1, 0])
    >>> worst_of(scores, np.repeat([0, 1], 4), np.arange(8), 0.95)[1]["value"]
    0.25
    """
    k = int(codes.max()) + 1
    each = 1 - (1 - confidence) / k
    tables = [mean_interval(scores[codes == c], groups[codes == c], each) for c in range(k)]
    worst = min(range(k), key=lambda c: tables[c]["value"])
    low, high = (min(table[end] for table in tables) for end in ("low", "high"))
    return worst, {"value": tables[worst]["value"], "low": low, "high": high, "n": len(scores)}


def _accuracy(run: Tested, settings: CardSettings) -> dict[str, Any]:
    about = mean_interval(run.predictions.correct, run.groups, settings.confidence)
    rule, chance = run.predictions.meta["normalisation"], run.predictions.chance
    guessing = f"guessing gives {chance:.3f}" if chance == chance else "options not known"
    return {**about, "detail": f"by {rule}; {guessing}", "source": _answers(run)}


def _subject_codes(run: Tested) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return which items have a subject, their subjects as numbers, and the names."""
    subjects = run.subjects
    known = np.array([subject is not None for subject in subjects])
    names, codes = np.unique(subjects[known].astype(str), return_inverse=True)
    if len(names) < 2:
        reason = "the questions have no subjects" if not len(names) else "there is one subject only"
        raise NotMeasuredError(f"{reason}; it takes a benchmark that names several")
    return known, codes, names.tolist()


def _macro(run: Tested, settings: CardSettings) -> dict[str, Any]:
    known, codes, names = _subject_codes(run)
    found = balanced_accuracy(
        run.predictions.correct[known],
        codes,
        groups=run.groups[known],
        confidence=settings.confidence,
    )
    detail = f"{len(names)} subjects, each counting the same"
    if n_without := int((~known).sum()):
        detail += f"; {n_without} questions without a subject left out"
    return {
        "value": found.accuracy,
        "low": found.low,
        "high": found.high,
        "n": int(known.sum()),
        "detail": detail,
        "source": _answers(run),
    }


def _worst_subject(run: Tested, settings: CardSettings) -> dict[str, Any]:
    known, codes, names = _subject_codes(run)
    scores, groups = run.predictions.correct[known], run.groups[known]
    worst, about = worst_of(scores, codes, groups, settings.confidence)
    size = int((codes == worst).sum())
    detail = f"{names[worst]} (n={size}), lowest of {len(names)}"
    return {**about, "detail": detail, "source": _answers(run)}


def _worst_subdomain(run: Tested, settings: CardSettings) -> dict[str, Any]:
    if run.labels is None:
        raise NotMeasuredError("no subdomains were found", run.command())
    scores = run.predictions.correct
    worst, about = worst_of(scores, run.labels, run.groups, settings.confidence)
    size = int((run.labels == worst).sum())
    detail = f"{run.names[worst]} (n={size}), lowest of {len(run.names)}{_made_by(run)}"
    return {**about, "detail": detail, "source": _answers(run)}


def _made_by(run: Tested) -> str:
    return f", made by {run.partition}" if run.partition else ""


def _harmony(run: Tested, settings: CardSettings) -> dict[str, Any]:
    if run.found is None:
        more = "" if not run.predictions.meta.get("scores") else " --partition embeddings"
        raise NotMeasuredError("no HARMONY was computed", run.command(more))
    found, null = run.found, run.found["null"]
    interval = found.get("interval", {}).get("harmony")
    if interval is None or found.get("confidence") != settings.confidence:
        interval = bootstrap_intervals(
            run.predictions.correct,
            run.labels,
            bandwidth=found["bandwidth"],
            groups=run.groups,
            confidence=settings.confidence,
        ).harmony
    file = next(file for file in run.hashes if file in RESULTS)
    detail = (
        f"{found['verdict']['label']}; {found['confidence']:.0%} of random deals give "
        f"{null['lo']:.3f} to {null['hi']:.3f}; {found['n_clusters']} subdomains{_made_by(run)}"
    )
    if found.get("blind_spot"):
        detail += "; blind spot: read the accuracies instead"
    return {
        "value": found["harmony"],
        "low": float(interval[0]),
        "high": float(interval[1]),
        "n": found["n_items"],
        "detail": detail,
        "source": f"{run.place}/{file}",
    }


def _probabilities(run: Tested) -> np.ndarray:
    try:
        return option_probabilities(run.predictions)
    except InputError as error:
        command = run.command() if run.imported and not run.predictions.open_ended else ""
        raise NotMeasuredError(str(error), command and "a log with log-likelihoods") from None


def _calibration(run: Tested, settings: CardSettings) -> dict[str, Any]:
    probabilities = _probabilities(run)
    chosen = run.predictions.table["prediction"].to_numpy(dtype=float)
    chosen = np.where(np.isnan(chosen) | (chosen < 0), probabilities.argmax(axis=1), chosen)
    confidence = probabilities[np.arange(len(chosen)), chosen.astype(int)]
    correct = run.predictions.correct
    residuals, whole = confidence - correct, np.zeros(len(correct), dtype=int)
    effect = design_effects(residuals - residuals.mean(), whole, run.groups)[1]
    found = calibration_error(
        confidence,
        correct,
        n_bins=settings.n_bins,
        design_effect=effect,
        level=settings.confidence,
    )
    lean = float(residuals.mean())
    side = "over" if lean > 0 else "under"
    detail = (
        f"{len(found.sizes)} bins; {side}confident by {abs(lean):.3f} on average; noise alone "
        f"gives about {found.by_chance:.3f}"
    )
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n": len(correct),
        "detail": detail,
        "source": _answers(run),
    }


def _brier(run: Tested, settings: CardSettings) -> dict[str, Any]:
    probabilities = _probabilities(run)
    scores = brier_scores(probabilities, [list(gold) for gold in run.predictions.table["gold"]])
    value, n = float(scores.mean()), len(scores)
    sums = np.bincount(run.groups, weights=scores - value)
    reach = 2.0  # one group alone says nothing of the others
    if len(sums) > 1:
        error = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / n
        reach = float(stdtrit(len(sums) - 1, tail_shares(settings.confidence)[1])) * error
    blind = 1 - float((1 / run.predictions.table["n_options"]).mean())
    return {
        "value": value,
        "low": max(0.0, value - reach),
        "high": min(2.0, value + reach),
        "n": n,
        "detail": f"equal probabilities would give {blind:.3f}",
        "source": _answers(run),
    }


def _near_ties(run: Tested, settings: CardSettings) -> dict[str, Any]:
    _probabilities(run)  # for its reasons why there are none
    close = (run.predictions.margins() <= NEAR_TIE).astype(float)
    about = mean_interval(close, run.groups, settings.confidence)
    unit = run.predictions.meta["normalisation"]
    detail = f"{int(close.sum())} of {len(close)} within {NEAR_TIE:g} nats (scores by {unit})"
    return {**about, "detail": detail, "source": _answers(run)}


def _seconds(run: Tested, settings: CardSettings) -> dict[str, Any]:
    step = run.record.get("steps", {}).get("predictions", {})
    if "seconds" not in step:
        raise NotMeasuredError("the run recorded no time", "" if run.imported else run.command())
    n = len(run.predictions) + run.n_unscored
    device = step.get("settings", {}).get("device", "unknown")
    detail = f"{step['seconds']:g} s in all, loading the model included; device {device}"
    source = f"{run.place}/run.json"
    return {"value": step["seconds"] / n, "n": n, "detail": detail, "source": source}


def _answers(run: Tested) -> str:
    return f"{run.place}/{PREDICTIONS_FILE}"


_MAKERS: dict[str, Callable[[Tested, CardSettings], dict[str, Any]]] = {
    "accuracy": _accuracy,
    "macro_accuracy": _macro,
    "worst_subdomain": _worst_subdomain,
    "worst_subject": _worst_subject,
    "harmony": _harmony,
    "calibration_error": _calibration,
    "brier": _brier,
    "near_ties": _near_ties,
    "seconds_per_question": _seconds,
}
