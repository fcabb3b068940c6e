"""Where a model failed: its lowest subdomains and subjects, and the questions it was surest of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harmony_utils.card.evidence import mean_interval
from harmony_utils.card.tested import Tested
from harmony_utils.errors import InputError
from harmony_utils.probabilities import option_log_probabilities
from harmony_utils.settings import CardSettings


@dataclass(frozen=True)
class Failures:
    """What one run got wrong.

    Parameters
    ----------
    model, benchmark : str
        Of the run.
    lowest : list of dict
        The lowest subdomains, then the lowest subjects: ``kind``, ``name``, ``value``, ``low``,
        ``high``, ``n``. Intervals are those of one group that was named beforehand.
    questions : list of dict
        ``id`` and ``margin``, the largest first: how much better the chosen option scored than the
        best right one, in nats. No text of a question is kept.
    n_wrong : int
        Questions answered wrongly.
    left_out : str
        Why no questions are listed; empty where they are.
    """

    model: str
    benchmark: str
    lowest: list[dict[str, Any]]
    questions: list[dict[str, Any]]
    n_wrong: int
    left_out: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def find_failures(run: Tested, settings: CardSettings | None = None) -> Failures:
    """Return where a run failed.

    Parameters
    ----------
    run : Tested
        From :func:`~harmony_utils.card.tested.load_tested`.
    settings : CardSettings, optional
        How many are listed, and the coverage.

    Returns
    -------
    Failures
        Of equally low groups the first; of equal margins the question that comes first.
    """
    settings = settings or CardSettings()
    wrong = run.predictions.correct < 0.5
    questions, left_out = [], ""
    try:
        margins = _wrong_margins(run, wrong)
        order = np.argsort(-margins, kind="stable")[: settings.n_questions]
        ids = run.predictions.table["native_id"].to_numpy()
        questions = [
            {"id": str(ids[row]), "margin": float(margins[row])}
            for row in order
            if margins[row] > 0
        ]
    except InputError as error:
        left_out = str(error)
    return Failures(
        model=run.model,
        benchmark=run.benchmark,
        lowest=_lowest(run, settings),
        questions=questions,
        n_wrong=int(wrong.sum()),
        left_out=left_out,
    )


def _wrong_margins(run: Tested, wrong: np.ndarray) -> np.ndarray:
    """Return how far the best wrong option lies above the best right one; 0 where right."""
    logs = np.maximum(option_log_probabilities(run.predictions), -700)  # keeps margins finite
    gold = np.zeros(logs.shape, dtype=bool)
    for row, indices in enumerate(run.predictions.table["gold"]):
        gold[row, list(indices)] = True
    right = np.where(gold, logs, -np.inf).max(axis=1)
    others = np.where(gold, -np.inf, logs).max(axis=1)
    return np.where(wrong, others - right, 0.0)


def _lowest(run: Tested, settings: CardSettings) -> list[dict[str, Any]]:
    kinds: list[tuple[str, list[tuple[str, np.ndarray]]]] = []
    if run.labels is not None:
        listed = [(name, run.labels == number) for number, name in enumerate(run.names)]
        kinds.append(("subdomain", listed))
    names = sorted({subject for subject in run.subjects if subject is not None})
    if len(names) > 1:
        kinds.append(("subject", [(name, run.subjects == name) for name in names]))
    found = []
    for kind, members in kinds:
        rows = []
        for name, mine in members:
            scores, groups = run.predictions.correct[mine], run.groups[mine]
            about = mean_interval(scores, groups, settings.confidence)
            rows.append({"kind": kind, "name": name, **about})
        found += sorted(rows, key=lambda row: row["value"])[: settings.n_lowest]
    return found
