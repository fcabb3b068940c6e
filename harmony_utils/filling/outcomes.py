"""What filling keeps: the budget it had, and what became of every candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harmony_utils.difficulty.coverage import SOFT_SHARE
from harmony_utils.filling.candidates import Band, Candidate
from harmony_utils.filling.gates import Measured
from harmony_utils.filling.predictor import DifficultyPredictor


@dataclass(frozen=True)
class Budget:
    """When to stop.

    Parameters
    ----------
    proposals : int
        Candidates asked for in one round.
    measured : int
        Candidates that the panel answers in one round.
    rounds : int
        Rounds for each gap.
    max_measured : int
        Candidates that the panel answers in all; answers are what filling costs.
    patience : int
        Rounds in a row without an accepted candidate after which a gap is given up.
    """

    proposals: int = 60
    measured: int = 15
    rounds: int = 6
    max_measured: int = 200
    patience: int = 2


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Parameters
    ----------
    candidate : Candidate
        The question.
    gap, round : int
        Number of the gap and of the round, from 0.
    status : {"accepted", "rejected", "not measured"}
        The last are good enough but others were expected to land nearer.
    gate : str
        Gate that rejected it: ``format``, ``key``, ``duplicate``, ``options only``,
        ``difficulty``, ``source`` (another rewriting of it was better) or ``enough``.
    reason : str
        In words.
    predicted, p_predicted : float
        Difficulty expected before anybody answered, and chance of the band; NaN if rejected
        before.
    measured : Measured or None
        What the panel's answers say.
    answers : tuple of float
        Of the panel; empty if it was not asked.
    """

    candidate: Candidate
    gap: int
    round: int
    status: str
    gate: str = ""
    reason: str = ""
    predicted: float = float("nan")
    p_predicted: float = float("nan")
    measured: Measured | None = None
    answers: tuple[float, ...] = ()


@dataclass(frozen=True)
class Filling:
    """Everything that was proposed, with what became of it.

    Parameters
    ----------
    gaps : tuple of tuple of float
        Bands that were to be filled.
    wanted : tuple of int
        Items needed in each.
    outcomes : tuple of Outcome
        Every candidate once, in the order of proposal.
    stopped : tuple of str
        Why each gap's loop ended.
    predictor : DifficultyPredictor or None
        As trained on the originals.
    """

    gaps: tuple[Band, ...]
    wanted: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    stopped: tuple[str, ...]
    predictor: DifficultyPredictor | None = field(default=None)

    @property
    def accepted(self) -> list[Outcome]:
        """Outcomes of accepted candidates, in order."""
        return [outcome for outcome in self.outcomes if outcome.status == "accepted"]

    @property
    def rejected(self) -> list[Outcome]:
        """Outcomes of rejected candidates, in order."""
        return [outcome for outcome in self.outcomes if outcome.status == "rejected"]

    def answers(self) -> np.ndarray:
        """Return the panel's answers to accepted candidates, shape (n_models, n_accepted)."""
        return np.array([outcome.answers for outcome in self.accepted]).T


def gap_closed(n_originals: int, n_inside: int, n_added: int, target_share: float) -> bool:
    """Say whether added items lift a band to a quarter of what the target wants of it.

    Examples
    --------
    >>> gap_closed(90, 0, 10, 0.4), gap_closed(90, 0, 5, 0.4)
    (True, False)
    """
    return (n_inside + n_added) / (n_originals + n_added) >= SOFT_SHARE * target_share


def plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome without the question's text, for tables and files."""
    found = outcome.measured
    candidate = outcome.candidate
    return {
        "id": candidate.id,
        "source": candidate.source,
        "generator": candidate.generator,
        "operations": "+".join(candidate.operations),
        "low": candidate.band[0],
        "high": candidate.band[1],
        "gap": outcome.gap,
        "round": outcome.round,
        "status": outcome.status,
        "gate": outcome.gate,
        "reason": outcome.reason,
        "predicted": outcome.predicted,
        "p_predicted": outcome.p_predicted,
        "difficulty": found.difficulty if found else float("nan"),
        "difficulty_se": found.difficulty_se if found else float("nan"),
        "slope": found.slope if found else float("nan"),
        "p_in_band": found.p_in_band if found else float("nan"),
    }
