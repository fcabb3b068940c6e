"""A score for a purpose: the workload first, then the weights, then what changes.

Scores are weighted means of the answers themselves. They are never computed from fitted curves:
under any one-dimensional model with rising curves every weighting ranks models alike, so a change
of ranks found on curves would be noise (our derivation; see the book's page on purposes).
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harmony_utils.difficulty.fit import DifficultyFit
from harmony_utils.difficulty.mismatch import Target, uniform_target, workload_target
from harmony_utils.difficulty.posterior import DifficultyPosterior
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError, RefusedError

LEAST_ITEMS = 5
"""Items that each wanted cell must hold; fewer cannot stand for it."""

LEAST_EFFECTIVE = 20.0
"""Effective number of items below which a reweighted score is refused."""

_ROUNDS = 200


class Band(BaseModel):
    """A band of difficulty and its share of the workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float
    high: float
    share: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _rising(self) -> Band:
        if not self.low < self.high:
            raise ValueError(f"band {self.low:g} to {self.high:g}: low must be below high")
        return self


class Purpose(BaseModel):
    """What a benchmark is to be used for.

    Parameters
    ----------
    kind : {"selection", "training", "purchase", "safety"}
        What will be decided: which model to choose, whether training progresses, whether to buy,
        whether it is safe.
    description : str
        For the record.
    subjects, subdomains : dict of str to float
        Shares of the workload; each table sums to 1.
    difficulty : list of Band
        Shares of bands of difficulty, in logits of the pool; they sum to 1.
    error_cost : dict of str to float
        What an error costs in each subject, relative to 1. Shares are multiplied by it: the score
        is then the mean right answer per unit of cost.
    ability_range : pair of float, optional
        Abilities for which the decision matters; the target of difficulty if no bands are given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["selection", "training", "purchase", "safety"]
    description: str = ""
    subjects: dict[str, float] = Field(default_factory=dict)
    subdomains: dict[str, float] = Field(default_factory=dict)
    difficulty: list[Band] = Field(default_factory=list)
    error_cost: dict[str, float] = Field(default_factory=dict)
    ability_range: tuple[float, float] | None = None

    @field_validator("subjects", "subdomains")
    @classmethod
    def _sums_to_one(cls, shares: dict[str, float], info: Any) -> dict[str, float]:
        if any(share < 0 for share in shares.values()):
            raise ValueError("a share is negative")
        if shares and abs(sum(shares.values()) - 1) > 1e-3:
            raise ValueError(f"shares sum to {sum(shares.values()):g}, not to 1")
        return shares

    @model_validator(mode="after")
    def _consistent(self) -> Purpose:
        if self.difficulty:
            total = sum(band.share for band in self.difficulty)
            if abs(total - 1) > 1e-3:
                raise ValueError(f"difficulty: shares sum to {total:g}, not to 1")
            ordered = sorted(self.difficulty, key=lambda band: band.low)
            for one, other in pairwise(ordered):
                if other.low < one.high - 1e-9:
                    raise ValueError(f"difficulty: bands overlap at {other.low:g}")
        if any(cost < 0 for cost in self.error_cost.values()):
            raise ValueError("error_cost: a cost is negative")
        if self.error_cost and not self.subjects:
            raise ValueError("error_cost: needs shares of subjects")
        if unknown := set(self.error_cost) - set(self.subjects):
            raise ValueError(f"error_cost: {sorted(unknown)[0]!r} is not among subjects")
        if self.ability_range and not self.ability_range[0] < self.ability_range[1]:
            raise ValueError("ability_range: the first must be smaller")
        return self

    def target(self) -> Target | None:
        """Return the target of difficulty that this purpose declares, if it does."""
        where = f"the purpose ({self.kind})"
        if self.difficulty:
            bands = [(band.low, band.high, band.share) for band in self.difficulty]
            total = sum(band.share for band in self.difficulty)
            bands = [(low, high, share / total) for low, high, share in bands]
            return workload_target(bands, provenance=f"difficulty bands of {where}")
        if self.ability_range:
            low, high = self.ability_range
            target = uniform_target(low, high)
            return Target("purpose", f"ability range of {where}", target.edges, target.shares)
        return None


def load_purpose(path: str | Path) -> Purpose:
    """Read a purpose from YAML or JSON.

    Raises
    ------
    InputError
        In one line: which field is wrong, and how.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: give `kind` and shares, one name and value a line")
    try:
        return Purpose.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            message = f"unknown; there are {', '.join(Purpose.model_fields)}"
        raise InputError(f"{path}: {place + ': ' if place else ''}{message}") from None


def check_purpose(purpose: Purpose, responses: Responses) -> None:
    """Refuse a purpose that names subjects or subdomains the benchmark does not have.

    Raises
    ------
    InputError
        Naming the first unknown one and those that are known.
    """
    for name, shares in (("subject", purpose.subjects), ("subdomain", purpose.subdomains)):
        if not shares:
            continue
        known = (
            sorted(set(responses.grouping(name).tolist()) - {""}) if _has(responses, name) else []
        )
        if unknown := [label for label in shares if label not in known]:
            have = ", ".join(known[:8]) + (", …" if len(known) > 8 else "") if known else "none"
            raise InputError(f"purpose: unknown {name} {unknown[0]!r}; the answers have {have}")


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
    if effective < min(LEAST_EFFECTIVE, responses.shape[1]):
        raise RefusedError(
            f"the purpose leaves an effective {effective:.1f} items of {responses.shape[1]}, "
            f"fewer than {LEAST_EFFECTIVE:.0f}: the benchmark is too far from it"
        )
    return weights


def effective_size(weights: np.ndarray) -> float:
    """Return Kish's effective sample size, ``(sum w)**2 / sum w**2``.

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
        0). Rank 1 is best; ties share the better rank.

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
    tail = (1 - confidence) / 2
    ends = [tail, 1 - tail]
    interval, interval_wanted = (np.nanquantile(d, ends, axis=0) for d in (draws, draws_wanted))
    rank, rank_wanted = _ranks(plain), _ranks(wanted)
    ranks = np.apply_along_axis(_ranks, 1, draws_wanted)
    rank_ends = np.quantile(ranks, ends, axis=0, method="nearest").astype(int)
    table = pd.DataFrame(
        {
            "model": responses.models,
            "plain": plain,
            "plain_low": interval[0],
            "plain_high": interval[1],
            "purpose": wanted,
            "purpose_low": interval_wanted[0],
            "purpose_high": interval_wanted[1],
            "rank_plain": rank,
            "rank_purpose": rank_wanted,
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
            if not (plain[i] > plain[j] and wanted[i] < wanted[j]):
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


def _ranks(scores: np.ndarray) -> np.ndarray:
    return (np.asarray(scores)[None, :] > np.asarray(scores)[:, None]).sum(axis=1) + 1


def _has(responses: Responses, name: str) -> bool:
    return any(responses.subjects) if name == "subject" else name in responses.groups


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


def curve_difference(fit: DifficultyFit, weights: np.ndarray, ability: np.ndarray) -> np.ndarray:
    """Return the expected weighted minus the expected plain score along ability.

    For display: it says where the purpose is harder or easier than the average. It cannot show a
    change of ranks.
    """
    right = fit.probabilities(ability)
    return right @ weights - right.mean(axis=1)
