"""Where a group of models, or one model, departs from what one ability explains.

Score tests of one more term in the fitted curves: for an item, of a family of models; for a model,
of a subject. Nothing is fitted again, and estimated parameters are projected out.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from harmony_utils.difficulty.checks import false_discoveries
from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError


def differential_items(
    fit: DifficultyFit, responses: Responses, *, group: np.ndarray | None = None
) -> pd.DataFrame:
    """Find items that are easier or harder for one family of models than its ability explains.

    Parameters
    ----------
    fit : DifficultyFit
        Of all models together.
    responses : Responses
        Answers; ``families`` are the groups unless ``group`` is given.
    group : ndarray of shape (n_models,), optional
        Label of each model. Groups of fewer than three models are left out.

    Returns
    -------
    DataFrame
        ``item``, ``group``, ``z`` (positive: easier for the group), ``p_value``, ``flagged`` at a
        false discovery rate of 5 %.

    Raises
    ------
    InputError
        Without a label for each model, or without two groups of three models.

    Notes
    -----
    A score test of one more term, the group's, in the item's logistic curve (uniform differential
    item functioning; Swaminathan and Rogers 1990). Slope and intercept are projected out, so their
    being estimated costs nothing to first order. The model is not fitted again. Where the model
    holds, fewer than 5 % of items have a p-value below .05, the fewer the fewer models there are
    (``results/recorded/difficulty_false_alarms.csv``).
    """
    labels = np.asarray(responses.families if group is None else group, dtype=object)
    if len(labels) != len(fit.models):
        raise InputError("no families of models given; add a column `family` or name the groups")
    seen = ~np.isnan(responses.values)
    right = fit.probabilities()
    weight = np.where(seen, right * (1 - right), 0.0)
    off = np.where(seen, responses.values - right, 0.0)
    rows = []
    for name in sorted(set(labels.tolist()) - {"", None}):
        member = (labels == name).astype(float)
        if not 3 <= member.sum() <= len(member) - 3:
            continue
        z = _score_test(member, fit.ability, weight, off, weight * (1 - 2 * right))
        rows.append(pd.DataFrame({"item": fit.items, "group": name, "z": z}))
    if not rows:
        raise InputError("no family has three models with three others beside it")
    return _tested(rows)


def _score_test(
    member: np.ndarray,
    ability: np.ndarray,
    weight: np.ndarray,
    off: np.ndarray,
    third: np.ndarray,
) -> np.ndarray:
    """Return the standardised efficient score of a group term in each item's curve.

    ``weight`` and ``third`` are second and third moments of the residuals ``off``.
    """
    design = np.stack([np.ones_like(ability), ability])
    gram = np.einsum("im,mj,km->jik", design, weight, design) + 1e-9 * np.eye(2)
    cross = np.einsum("im,mj->ji", design * member, weight)
    slope = np.linalg.solve(gram, cross[..., None])[..., 0]
    left = member[:, None] - (slope @ design).T
    variance = (weight * left**2).sum(axis=0)
    spread = np.sqrt(np.maximum(variance, 1e-6))
    skewness = (third * left**3).sum(axis=0) / spread**3
    return np.where(variance > 1e-6, _normalised((left * off).sum(0) / spread, skewness), 0)


def _normalised(z: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """Take the skewness out of standardised sums, rising in ``z`` (Hall 1992).

    Few answers at a chance far from one half are skewed: among hundreds of tests, plain normal
    tails would flag three times what they should.
    """
    return z - skewness * z**2 / 6 + skewness**2 * z**3 / 108 + skewness / 6


def differential_subjects(fit: DifficultyFit, responses: Responses) -> pd.DataFrame:
    """Find subjects in which a model does better or worse than its ability explains.

    Parameters
    ----------
    fit : DifficultyFit
        Of ``responses``.
    responses : Responses
        Answers, with subjects.

    Returns
    -------
    DataFrame
        ``model``, ``subject``, ``n_items``, ``difference`` (observed minus expected share of right
        answers), ``z``, ``p_value``, ``flagged`` at a false discovery rate of 5 %. Ability is
        projected out, so a model's differences about cancel over its subjects.

    Raises
    ------
    InputError
        If the items have no subjects.
    """
    labels = np.array(responses.subjects, dtype=object)
    seen = ~np.isnan(responses.values)
    right = fit.probabilities()
    weight = np.where(seen, right * (1 - right), 0.0)
    off = np.where(seen, responses.values - right, 0.0)
    rows = []
    for name in sorted(set(labels.tolist()) - {""}):
        member = (labels == name).astype(float)
        bend = fit.slope
        own, all_ = (weight * bend * member).sum(1), np.maximum((weight * bend**2).sum(1), 1e-9)
        left = member - (own / all_)[:, None] * bend
        variance = np.maximum((weight * left**2).sum(axis=1), 1e-9)
        third = weight * (1 - 2 * right)
        skewness = (third * left**3).sum(axis=1) / variance**1.5
        count = np.maximum((seen * member).sum(axis=1), 1)
        rows.append(
            pd.DataFrame(
                {
                    "model": fit.models,
                    "subject": name,
                    "n_items": (seen * member).sum(axis=1).astype(int),
                    "difference": (off * member).sum(axis=1) / count,
                    "z": _normalised((off * left).sum(axis=1) / np.sqrt(variance), skewness),
                }
            )
        )
    if not rows:
        raise InputError("the items have no subjects; add a column `subject`")
    return _tested(rows)


def _tested(rows: list[pd.DataFrame]) -> pd.DataFrame:
    """Join tables with a ``z``; add two-sided p-values and what may be called; smallest first."""
    table = pd.concat(rows, ignore_index=True)
    table["p_value"] = 2 * norm.sf(np.abs(table["z"]))
    table["flagged"] = false_discoveries(table["p_value"].to_numpy())
    return table.sort_values("p_value", kind="stable", ignore_index=True)
