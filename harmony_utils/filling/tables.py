"""What filling did: originals and additions apart, conclusions before, after and on additions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.difficulty.coverage import soft_gaps
from harmony_utils.difficulty.curves import LIMIT, MIN_SLOPE, DifficultyFit
from harmony_utils.difficulty.mismatch import Target, wasserstein
from harmony_utils.difficulty.responses import Responses
from harmony_utils.difficulty.reweighting import score_ranks
from harmony_utils.filling.linking import link
from harmony_utils.filling.outcomes import Filling, plain_outcome
from harmony_utils.metric import wilson_interval

PARTS = ("originals", "with additions", "additions alone")


def outcome_table(filling: Filling) -> pd.DataFrame:
    """Return one row for each candidate, rejected ones with gate and reason; no question texts."""
    return pd.DataFrame([plain_outcome(outcome) for outcome in filling.outcomes])


def gate_table(filling: Filling) -> pd.DataFrame:
    """Return how many candidates ended where: ``status``, ``gate`` and ``n``."""
    table = outcome_table(filling)
    if table.empty:
        return pd.DataFrame(columns=["status", "gate", "n"])
    return table.groupby(["status", "gate"], sort=True).size().rename("n").reset_index()


def linked_fit(fit: DifficultyFit, responses: Responses, filling: Filling) -> DifficultyFit:
    """Return the originals' fit with the accepted items linked to it; ``fit`` if there are none."""
    names = [outcome.candidate.id for outcome in filling.accepted]
    return link(fit, responses, filling.answers(), names) if names else fit


def conclusions(
    fit: DifficultyFit, responses: Responses, filling: Filling, target: Target
) -> pd.DataFrame:
    """Say what originals, both together and additions alone lead to.

    Parameters
    ----------
    fit : DifficultyFit
        Of the originals.
    responses : Responses
        Answers to them.
    filling : Filling
        From :func:`~harmony_utils.filling.loop.fill_gaps`.
    target : Target
        What is wanted.

    Returns
    -------
    DataFrame
        A row for each part: ``n_items`` with a usable difficulty; ``distance``, ``shift``,
        ``shape`` from the target; ``widest_gap`` (soft) and its ends; for each gap filled its
        ``in_gap_k`` items and ``open_k``, the widest soft gap that is left inside it. Distances
        are of point estimates, so they hold the spread of estimation error; compare rows, and take
        absolute values from :func:`~harmony_utils.difficulty.measure_mismatch`.
    """
    linked = linked_fit(fit, responses, filling)
    added = np.arange(len(linked.items)) >= len(fit.items)
    usable = linked.slope >= MIN_SLOPE
    difficulty = np.clip(linked.difficulty, -LIMIT, LIMIT)
    rows = []
    for part, chosen in zip(PARTS, (~added, added | ~added, added), strict=True):
        values = difficulty[chosen & usable]
        rows.append({"part": part, **_row(values, target, filling)})
    return pd.DataFrame(rows)


def _row(values: np.ndarray, target: Target, filling: Filling) -> dict[str, Any]:
    if not len(values):
        return {"n_items": 0}
    distance, shift, shape = wasserstein(values, target).tolist()
    widest = soft_gaps(values, target, n_gaps=len(values) + 1)  # all of them
    row: dict[str, Any] = {
        "n_items": len(values),
        "distance": distance,
        "shift": shift,
        "shape": shape,
        "widest_gap": widest[0][1] - widest[0][0] if widest else 0.0,
        "gap_low": widest[0][0] if widest else np.nan,
        "gap_high": widest[0][1] if widest else np.nan,
    }
    for number, (low, high) in enumerate(filling.gaps):
        row[f"in_gap_{number}"] = int(((values > low) & (values < high)).sum())
        inside = [max(min(b, high) - max(a, low), 0.0) for a, b in widest]
        row[f"open_{number}"] = max(inside, default=0.0)
    return row


def score_table(
    responses: Responses, filling: Filling, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return each model's accuracy on originals, additions and both, with Wilson intervals.

    Parameters
    ----------
    responses : Responses
        Answers to the originals.
    filling : Filling
        Of the same models.
    confidence : float
        Coverage of each interval.

    Returns
    -------
    DataFrame
        One row a model: ``originals``, ``additions``, ``together`` and for each its ends and rank
        (1 is best, ties share the better rank). All three are missing for a model without answers
        there, as for all where nothing was accepted. Additions are never in ``originals``.
    """
    added = filling.answers() if filling.accepted else np.empty((responses.shape[0], 0))
    columns: dict[str, Any] = {"model": list(responses.models)}
    both = np.concatenate([responses.values, added], axis=1)
    for name, values in (("originals", responses.values), ("additions", added), ("together", both)):
        seen = (~np.isnan(values)).sum(axis=1)
        mean = np.nansum(values, axis=1) / np.where(seen > 0, seen, np.nan)
        low, high = wilson_interval(np.nan_to_num(mean), np.maximum(seen, 1), confidence=confidence)
        columns[name] = mean
        columns[f"{name}_low"] = np.where(seen > 0, low, np.nan)
        columns[f"{name}_high"] = np.where(seen > 0, high, np.nan)
        columns[f"{name}_rank"] = score_ranks(mean)
    return pd.DataFrame(columns)


def accuracy_of_aim(filling: Filling, truth: dict[str, float] | None = None) -> dict[str, float]:
    """Say how near the difficulties of measured candidates come to where they were aimed.

    Parameters
    ----------
    filling : Filling
        Outcomes.
    truth : dict of candidate id to float, optional
        True difficulties, known in simulations only; measured ones if not given.

    Returns
    -------
    dict
        For all ``measured`` and for ``accepted`` candidates: number ``n``, mean distance ``error``
        from the middle of the band in logits, ``hits``, the share inside the band, and ``p``, the
        mean probability that was stated for it; hits below it are the price of having chosen.
    """
    found: dict[str, float] = {}
    for name in ("measured", "accepted"):
        chosen = [
            o
            for o in filling.outcomes
            if o.measured and o.measured.n_answers and (name == "measured" or o.status == name)
        ]
        values = np.array(
            [truth[o.candidate.id] if truth else o.measured.difficulty for o in chosen]
        )
        bands = np.array([o.candidate.band for o in chosen]).reshape(-1, 2)
        values = np.clip(values, -LIMIT, LIMIT)
        found[f"{name}_n"] = len(chosen)
        if len(chosen):
            inside = (values >= bands[:, 0]) & (values <= bands[:, 1])
            found[f"{name}_error"] = float(np.abs(values - bands.mean(axis=1)).mean())
            found[f"{name}_hits"] = float(inside.mean())
            found[f"{name}_p"] = float(np.mean([o.measured.p_in_band for o in chosen]))
    return found
