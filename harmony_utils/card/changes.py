"""What got better and what got worse against a baseline, paired on the same questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from harmony_utils.card.tested import Tested
from harmony_utils.metric import tail_shares
from harmony_utils.uncertainty import design_effects


@dataclass(frozen=True)
class Change:
    """One model against the baseline, on one group of questions.

    Parameters
    ----------
    model, benchmark : str
        Who is compared with the baseline, on what.
    kind : {"all", "subject", "subdomain"}
        What the questions have in common; subdomains are those of the model, not the baseline's.
    name : str
        Of the subject or subdomain.
    baseline, accuracy : float
        Share of right answers of baseline and model, on the same questions.
    difference, low, high : float
        Model minus baseline: positive is better. The interval holds for all groups of its kind at
        once.
    n : int
        Questions that both answered.
    verdict : {"better", "worse", "not told apart"}
        By the interval.
    """

    model: str
    benchmark: str
    kind: str
    name: str
    baseline: float
    accuracy: float
    difference: float
    low: float
    high: float
    n: int
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def paired_difference(
    differences: np.ndarray, *, groups: np.ndarray | None = None, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return a mean of paired differences with its interval.

    Parameters
    ----------
    differences : ndarray of shape (n_items,)
        One model's correctness minus another's, between -1 and 1.
    groups : ndarray of shape (n_items,), optional
        Items that hang together.
    confidence : float
        Coverage.

    Returns
    -------
    mean, low, high : float
        The interval has a width even where all differences are alike.

    Notes
    -----
    Agresti and Min's interval for matched proportions (*Statistics in Medicine* 24, 2005): half a
    question is added to each cell of the two-by-two table of right and wrong, that is two questions
    and 1 to the sum of squares. The same is done with partial credit. Groups multiply the variance
    by their design effect.

    Examples
    --------
    Two questions, both gained: nothing is certain yet.

    >>> [round(value, 2) for value in paired_difference(np.array([1.0, 1.0]))]
    [1.0, -0.19, 1.0]
    """
    n = len(differences)
    total, squares = float(differences.sum()), float(differences @ differences) + 1
    larger = n + 2
    variance = max(squares - total**2 / larger, 0.0) / larger**2
    if groups is not None:
        members = np.unique(groups, return_inverse=True)[1]
        residuals = differences - total / n
        variance *= design_effects(residuals, np.zeros(n, dtype=int), members)[1]
    reach = float(ndtri(tail_shares(confidence)[1])) * math.sqrt(variance)
    middle = total / larger
    return total / n, max(-1.0, middle - reach), min(1.0, middle + reach)


def changes_against(
    runs: Sequence[Tested], baseline: str, *, confidence: float = 0.95
) -> tuple[list[Change], list[str]]:
    """Compare every model with the baseline wherever both were tested.

    Parameters
    ----------
    runs : sequence of Tested
        Everything that was tested.
    baseline : str
        A model's name.
    confidence : float
        Coverage; within subjects, and within subdomains, corrected for their number (Bonferroni).

    Returns
    -------
    changes : list of Change
        For each model and benchmark: over all shared questions, then each subject, then each
        subdomain.
    left_out : list of str
        Runs that share no question with the baseline, or not all, in words.
    """
    old = {run.benchmark: run for run in runs if run.model == baseline}
    changes: list[Change] = []
    left_out: list[str] = []
    for run in runs:
        if run.model == baseline:
            continue
        other = old.get(run.benchmark)
        mine, theirs = _shared(run, other) if other else (np.zeros(0, int), np.zeros(0, int))
        if not len(mine):
            left_out.append(f"{run.model} on {run.benchmark}: no question shared with {baseline}")
            continue
        n_all = max(len(run.predictions), len(other.predictions))
        if len(mine) < n_all:
            left_out.append(
                f"{run.model} on {run.benchmark}: {len(mine)} of {n_all} questions shared"
            )
        changes += _of_run(run, other, mine, theirs, confidence)
    return changes, left_out


def _shared(run: Tested, other: Tested) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the questions that two runs share, in the order of the first."""
    rows = {key: row for row, key in enumerate(other.predictions.table["key"])}
    theirs = np.array([rows.get(key, -1) for key in run.predictions.table["key"]], dtype=int)
    mine = np.flatnonzero(theirs >= 0)
    return mine, theirs[mine]


def _of_run(
    run: Tested, other: Tested, mine: np.ndarray, theirs: np.ndarray, confidence: float
) -> list[Change]:
    now, before = run.predictions.correct[mine], other.predictions.correct[theirs]
    groups = run.groups[mine]
    parts: list[tuple[str, list[tuple[str, np.ndarray]]]] = [
        ("all", [("", np.ones(len(mine), dtype=bool))])
    ]
    subjects = run.subjects[mine]
    names = sorted({subject for subject in subjects if subject is not None})
    if len(names) > 1:
        parts.append(("subject", [(name, subjects == name) for name in names]))
    if run.labels is not None:
        labels = run.labels[mine]
        listed = [(name, labels == number) for number, name in enumerate(run.names)]
        parts.append(("subdomain", [(name, rows) for name, rows in listed if rows.any()]))
    found = []
    for kind, members in parts:
        each = 1 - (1 - confidence) / len(members)
        for name, rows in members:
            difference, low, high = paired_difference(
                now[rows] - before[rows], groups=groups[rows], confidence=each
            )
            verdict = "better" if low > 0 else "worse" if high < 0 else "not told apart"
            found.append(
                Change(
                    model=run.model,
                    benchmark=run.benchmark,
                    kind=kind,
                    name=name,
                    baseline=float(before[rows].mean()),
                    accuracy=float(now[rows].mean()),
                    difference=difference,
                    low=low,
                    high=high,
                    n=int(rows.sum()),
                    verdict=verdict,
                )
            )
    return found
