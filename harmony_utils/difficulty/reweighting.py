"""Weights for a purpose, and scores under them, from the answers themselves.

Scores are weighted means of the answers. They are never computed from fitted curves: under any
one-dimensional model with rising curves every weighting ranks models alike, so a change of ranks
found on curves would be noise (our derivation; see the book's page on purposes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.difficulty.posterior import DifficultyPosterior
from harmony_utils.difficulty.purpose import Purpose, check_purpose
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.metric import tail_shares

LEAST_ITEMS = 5
"""Items that each wanted cell must hold; fewer cannot stand for it."""

LEAST_EFFECTIVE = 20.0
"""Effective number of items below which a reweighted score is refused."""

_ROUNDS = 200
_TIE = 1e-12


def purpose_weights(
    purpose: Purpose, responses: Responses, posterior: DifficultyPosterior | None = None
) -> np.ndarray:
    """Return the weight of each item, shape (n_items,), so that shares are those of the purpose.

    Parameters
    ----------
    purpose : Purpose
        Shares over subjects, subdomains and bands of difficulty; several at once are met by
        raking (iterative proportional fitting, Deming and Stephan 1940), one by
        post-stratification: an item's weight is its cell's wanted share over its number of items.
    responses : Responses
        Items and their subjects.
    posterior : DifficultyPosterior, optional
        Needed for bands of difficulty.

    Returns
    -------
    ndarray of shape (n_items,)
        Sums to 1; 0 for items that the purpose does not want.

    Raises
    ------
    RefusedError
        If a wanted cell has too few items, or no weights meet all shares; the message names what
        is missing.
    InputError
        For unknown subjects.

    Examples
    --------
    Half of the workload is law, a quarter of the questions is: they count three times as much.

    >>> from harmony_utils.difficulty import responses_from_matrix
    >>> answers = np.random.default_rng(0).integers(0, 2, (4, 40))
    >>> responses = responses_from_matrix(answers, subjects=["law"] * 10 + ["art"] * 30)
    >>> weights = purpose_weights(
    ...     Purpose(kind="purchase", subjects={"law": 0.5, "art": 0.5}), responses
    ... )
    >>> round(float(weights[0] / weights[-1]), 6), effective_size(weights).__round__(6)
    (3.0, 30.0)
    """
    check_purpose(purpose, responses)
    margins = _margins(purpose, responses, posterior)
    weights = np.ones(responses.shape[1])
    missing = []
    for name, codes, labels, shares in margins:
        weights[codes < 0] = 0
        for number, (label, share) in enumerate(zip(labels, shares, strict=True)):
            held = int((codes == number).sum())
            if share > 0 and held < LEAST_ITEMS:
                missing.append(
                    f"{name} {label} ({share:.0%} wanted, {held} items, {LEAST_ITEMS} needed)"
                )
    if missing:
        raise RefusedError(
            f"the benchmark holds too little of what the purpose needs: {'; '.join(missing)}; add "
            "items there or change the purpose"
        )
    weights = _raked(weights, margins)
    effective = effective_size(weights)
    if effective < min(LEAST_EFFECTIVE, responses.shape[1]) - 1e-9:
        raise RefusedError(
            f"the purpose leaves an effective {effective:.1f} items of {responses.shape[1]}, "
            f"fewer than {LEAST_EFFECTIVE:.0f}: the benchmark is too far from it"
        )
    return weights


def effective_size(weights: np.ndarray) -> float:
    """Return Kish's effective sample size, ``(sum w)**2 / sum w**2``.

    Parameters
    ----------
    weights : ndarray of shape (n_items,)
        At least 0; only their ratios count.

    Returns
    -------
    float
        From 1, all weight on one item, to the number of items, all weights equal. How many equally
        weighted items would give a mean of the same variance (Kish 1965).

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    return float(weights.sum() ** 2 / np.maximum((weights**2).sum(), 1e-300))


def purpose_scores(
    responses: Responses,
    weights: np.ndarray,
    *,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> dict[str, Any]:
    """Score models with an item's weight, beside the plain average, from the answers themselves.

    Parameters
    ----------
    responses : Responses
        Answers; a model's missing ones are left out of its means.
    weights : ndarray of shape (n_items,)
        From :func:`purpose_weights`.
    n_bootstrap : int
        Resamples of items; the same items for every model, so that comparisons are paired.
    confidence : float
        Coverage aimed at.
    random_state : int
        Seed.

    Returns
    -------
    dict
        ``effective_items``; ``models`` (DataFrame: model, plain and purpose score with intervals,
        both ranks, ranks' interval); ``changes`` (list: pairs whose order differs, the difference
        under the purpose with its interval, and whether it is ``supported``: the interval excludes
        0). Rank 1 is best; ties share the better rank. Resamples that leave a model without an
        answer do not count for it.

    Raises
    ------
    RefusedError
        If a model has no answer to any item with weight.

    Notes
    -----
    For the purpose, items are resampled within their cell (items of equal weight), one fewer than
    there are, as Rao and Wu (1988) do to keep the variance of small cells right.

    Pairs are as many as models allow, so among 10 models that are really equal some "supported"
    reversal may come by chance; intervals of pairs are not corrected for their number, the share
    of reversals to expect by chance is ``1 - confidence`` over 2 each.
    """
    values = responses.values
    seen = ~np.isnan(values)
    filled = np.where(seen, values, 0.0)
    if not ((seen * weights).sum(axis=1) > 0).all():
        empty = int(((seen * weights).sum(axis=1) <= 0).argmax())
        raise RefusedError(
            f"model {responses.models[empty]} has no answer to what the purpose needs; leave it out"
        )
    plain, wanted = _means(filled, seen, np.ones_like(weights)), _means(filled, seen, weights)
    rng = np.random.default_rng(random_state)
    n_items = len(weights)
    counts = rng.multinomial(n_items, np.full(n_items, 1 / n_items), size=n_bootstrap)
    draws = _drawn(filled, seen, counts.astype(float))
    draws_wanted = _drawn(filled, seen, _stratified(weights, n_bootstrap, rng) * weights)
    ends = tail_shares(confidence)
    interval, interval_wanted = (np.nanquantile(d, ends, axis=0) for d in (draws, draws_wanted))
    ranks = np.apply_along_axis(score_ranks, 1, draws_wanted)
    rank_ends = np.nanquantile(ranks, ends, axis=0, method="nearest").astype(int)
    table = pd.DataFrame(
        {
            "model": responses.models,
            "plain": plain,
            "plain_low": interval[0],
            "plain_high": interval[1],
            "purpose": wanted,
            "purpose_low": interval_wanted[0],
            "purpose_high": interval_wanted[1],
            "rank_plain": score_ranks(plain).astype(int),
            "rank_purpose": score_ranks(wanted).astype(int),
            "rank_low": rank_ends[0],
            "rank_high": rank_ends[1],
        }
    )
    return {
        "effective_items": effective_size(weights),
        "models": table,
        "changes": _changes(responses.models, plain, wanted, draws_wanted, ends),
    }


def _stratified(weights: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each item counts in each resample within cells, (n_draws, n_items)."""
    _, cells = np.unique(weights.round(15), return_inverse=True)
    counts = np.ones((n_draws, len(weights)))
    for cell in range(cells.max() + 1):
        places = np.flatnonzero(cells == cell)
        size = len(places)
        if size > 1:
            drawn = rng.multinomial(size - 1, np.full(size, 1 / size), size=n_draws)
            counts[:, places] = drawn * size / (size - 1)
    return counts


def _changes(
    models: tuple[str, ...],
    plain: np.ndarray,
    wanted: np.ndarray,
    draws: np.ndarray,
    ends: list[float],
) -> list[dict[str, Any]]:
    """Return the pairs of models whose order differs."""
    found = []
    for i in range(len(models)):
        for j in range(len(models)):
            if not (plain[i] > plain[j] + _TIE and wanted[i] < wanted[j] - _TIE):
                continue
            low, high = np.nanquantile(draws[:, j] - draws[:, i], ends).tolist()
            found.append(
                {
                    "ahead_plain": models[i],
                    "ahead_purpose": models[j],
                    "plain_difference": float(plain[i] - plain[j]),
                    "purpose_difference": float(wanted[j] - wanted[i]),
                    "interval": [low, high],
                    "supported": low > 0,
                }
            )
    return sorted(found, key=lambda change: -change["purpose_difference"])


def _means(filled: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (filled @ weights) / np.maximum(seen @ weights, 1e-300)


def _drawn(filled: np.ndarray, seen: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return weighted means under resampled items, shape (n_draws, n_models)."""
    held = counts @ seen.T.astype(float)
    return np.where(held > 0, counts @ filled.T / np.maximum(held, 1e-300), np.nan)


def score_ranks(scores: np.ndarray) -> np.ndarray:
    """Return each score's rank.

    Parameters
    ----------
    scores : ndarray of shape (n_models,)
        Higher is better; NaN is no score.

    Returns
    -------
    ndarray of shape (n_models,), float
        1 is best, ties share the better rank; scores nearer than 1e-12 are ties, for sums in
        another order differ by rounding. NaN where there is no score.

    Examples
    --------
    >>> score_ranks(np.array([0.5, 0.1 + 0.2, 0.3, np.nan, 0.2])).tolist()
    [1.0, 2.0, 2.0, nan, 4.0]
    """
    ranks = 1.0 + (scores[None, :] > scores[:, None] + _TIE).sum(axis=1)
    return np.where(np.isnan(scores), np.nan, ranks)


def _margins(
    purpose: Purpose, responses: Responses, posterior: DifficultyPosterior | None
) -> list[tuple[str, np.ndarray, list[str], np.ndarray]]:
    """Return for each declared table its name, each item's cell (-1 for none), labels, shares."""
    margins = []
    for name, shares in (("subject", purpose.subjects), ("subdomain", purpose.subdomains)):
        if not shares:
            continue
        order = {label: number for number, label in enumerate(shares)}
        codes = np.array([order.get(label, -1) for label in responses.grouping(name)])
        wanted = np.array(list(shares.values()))
        if name == "subject" and purpose.error_cost:
            wanted = wanted * [purpose.error_cost.get(label, 1.0) for label in shares]
            if wanted.sum() <= 0:
                raise InputError("purpose: error_cost leaves no subject with weight")
        margins.append((name, codes, list(shares), wanted / wanted.sum()))
    if purpose.difficulty:
        if posterior is None:
            raise InputError("purpose: shares of difficulty need fitted difficulties")
        codes = np.full(responses.shape[1], -1)
        for number, band in enumerate(purpose.difficulty):
            inside = (posterior.mean >= band.low) & (posterior.mean < band.high)
            codes[posterior.places[inside]] = number
        wanted = np.array([band.share for band in purpose.difficulty])
        labels = [f"{band.low:g} to {band.high:g}" for band in purpose.difficulty]
        margins.append(("difficulty", codes, labels, wanted / wanted.sum()))
    return margins


def _raked(
    weights: np.ndarray, margins: list[tuple[str, np.ndarray, list[str], np.ndarray]]
) -> np.ndarray:
    """Scale weights to each table of shares in turn until all hold."""
    weights = weights / weights.sum() if weights.sum() > 0 else weights
    for _ in range(_ROUNDS if len(margins) > 1 else 1):
        for _, codes, _, shares in margins:
            held = np.bincount(codes[codes >= 0], weights[codes >= 0], minlength=len(shares))
            factor = np.where(held > 0, shares / np.maximum(held, 1e-300), 0.0)
            weights = np.where(codes >= 0, weights * factor[codes], 0.0)
    for name, codes, labels, shares in margins:
        held = np.bincount(codes[codes >= 0], weights[codes >= 0], minlength=len(shares))
        off = np.abs(held - shares)
        if off.max() > 1e-4:
            worst = labels[int(off.argmax())]
            raise RefusedError(
                f"no weights meet all shares of the purpose at once: {name} {worst} holds items of "
                "too few other cells; add such items or drop a table"
            )
    return weights / weights.sum()
