"""Benchmarks composed of known domains: does estimated HARMONY follow the true one?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_mutual_info_score

from harmony_utils.errors import InputError
from harmony_utils.labels import canonical_labels
from harmony_utils.metric import harmony_score, tail_shares
from harmony_utils.partition import random_partition, spectral_partition
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.uncertainty import corrected_harmony
from harmony_utils.validation.simulate import SMALLEST_DOMAIN, Simulated, draw_profile

ESTIMATES = ("known number", "chosen number", "corrected", "random", "true domains")
"""Columns of estimates, as :func:`estimate_harmony` describes them."""


@dataclass(frozen=True, eq=False)
class Variant:
    """A part of a benchmark, with its truth.

    Parameters
    ----------
    items : ndarray of int
        Numbers of the items, in rising order.
    correct : ndarray of shape (n_items,)
        Correctness of these items.
    harmony : float
        HARMONY with the known domains as subdomains.
    """

    items: np.ndarray
    correct: np.ndarray
    harmony: float


def compose_variants(
    domains: Sequence[Hashable],
    correct: np.ndarray | None = None,
    *,
    n_variants: int = 100,
    sizes: tuple[int, int] = (150, 300),
    bandwidth: float = 0.1,
    random_state: int = 0,
) -> list[Variant]:
    """Draw parts of a benchmark in which known domains have other shares.

    Parameters
    ----------
    domains : sequence, length n_items
        Known domain of each item.
    correct : ndarray of shape (n_models, n_items), optional
        Answers of models. Each variant takes one of them, and its true HARMONY is that of the
        observed accuracies. Without them, answers are drawn from accuracies that are drawn for
        each domain, and the true HARMONY is that of the accuracies, without sampling noise.
    n_variants : int
        Variants.
    sizes : tuple of (int, int)
        Smallest and largest number of items wanted; a domain gives no more than it has.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    random_state : int
        Seed.

    Returns
    -------
    list of Variant
        Shares and accuracies from :func:`~harmony_utils.validation.simulate.draw_profile`; every
        domain keeps at least :data:`~harmony_utils.validation.simulate.SMALLEST_DOMAIN` items.

    Raises
    ------
    InputError
        With fewer than two domains, a domain with too few items, answers of another length or out
        of range, or sizes that do not fit.

    Examples
    --------
    >>> variants = compose_variants(["a", "b"] * 50, n_variants=2, sizes=(40, 50))
    >>> [40 <= len(variant.items) <= 50 for variant in variants]
    [True, True]
    """
    codes = canonical_labels(domains)
    available = np.bincount(codes)
    n_domains, least = len(available), SMALLEST_DOMAIN
    if n_domains < 2 or available.min() < least:
        raise InputError(
            f"domains of sizes {available.tolist()}: give at least two of {least} items each"
        )
    if not n_domains * least < sizes[0] <= sizes[1] <= available.sum():
        raise InputError(
            f"sizes {sizes}: must rise and lie between {n_domains * least + 1} and "
            f"{available.sum()} items"
        )
    answers = None if correct is None else _check_answers(correct, len(codes))
    rng = np.random.default_rng(random_state)
    variants = []
    for number in range(n_variants):
        shares, accuracies = draw_profile(n_domains, rng)
        wanted = rng.integers(sizes[0], sizes[1] + 1)
        counts = least + rng.multinomial(wanted - least * n_domains, shares)
        counts = np.minimum(counts, available)
        items = np.sort(
            np.concatenate(
                [
                    rng.choice(np.flatnonzero(codes == d), counts[d], replace=False)
                    for d in range(n_domains)
                ]
            )
        )
        if answers is None:
            answered = (rng.random(len(items)) < accuracies[codes[items]]).astype(float)
        else:
            answered = answers[number % len(answers)][items]
            accuracies = np.bincount(codes[items], weights=answered) / counts
        truth = harmony_score(counts, accuracies, bandwidth=bandwidth)
        variants.append(Variant(items, answered, truth))
    return variants


def estimate_harmony(
    affinity: np.ndarray,
    correct: np.ndarray,
    domains: np.ndarray,
    *,
    max_clusters: int = 8,
    bandwidth: float = 0.1,
    random_state: int = 0,
) -> dict[str, float]:
    """Estimate HARMONY of one benchmark whose domains are known, in several ways.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Similarities.
    correct : ndarray of shape (n_items,)
        Correctness.
    domains : ndarray of shape (n_items,), int
        Known domain of each item, from 0.
    max_clusters : int
        Largest number of subdomains tried.
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    random_state : int
        Seed.

    Returns
    -------
    dict of str to float
        ``known number``: HARMONY of as many clusters as there are domains; ``corrected``: the same
        with sampling noise taken out; ``chosen number``: of the number that silhouettes choose;
        ``random``: of a random partition with the sizes of the first; ``true domains``: of the
        known domains, so that only sampling noise is left; ``n_clusters`` chosen; ``ami`` of the
        first with the domains.
    """
    options = {"n_init": 3, "n_stability": 2, "random_state": random_state}
    n_domains = int(domains.max()) + 1
    known = spectral_partition(
        affinity, n_clusters=n_domains, min_clusters=n_domains, max_clusters=n_domains, **options
    )
    chosen = spectral_partition(affinity, max_clusters=max_clusters, **options)
    shuffled = random_partition(known.sizes, random_state).labels
    return {
        "known number": _harmony(correct, known.labels, bandwidth),
        "chosen number": _harmony(correct, chosen.labels, bandwidth),
        "corrected": _corrected(correct, known.labels, bandwidth),
        "random": _harmony(correct, shuffled, bandwidth),
        "true domains": _harmony(correct, domains, bandwidth),
        "n_clusters": chosen.n_clusters,
        "ami": float(adjusted_mutual_info_score(domains, known.labels)),
    }


def composed_table(
    divergence: np.ndarray,
    domains: Sequence[Hashable],
    variants: Sequence[Variant],
    **options: float,
) -> pd.DataFrame:
    """Estimate HARMONY of every variant from the divergences of its items alone.

    Parameters
    ----------
    divergence : ndarray of shape (n_items, n_items)
        Of all items; the temperature is found anew in each variant.
    domains : sequence, length n_items
        Known domain of each item.
    variants : sequence of Variant
        From :func:`compose_variants`.
    **options
        ``max_clusters``, ``bandwidth``, ``random_state`` of :func:`estimate_harmony`.

    Returns
    -------
    DataFrame
        One row per variant: ``truth``, ``n_items``, and what :func:`estimate_harmony` gives.
    """
    codes = canonical_labels(domains)
    rows = []
    for variant in variants:
        affinity, _ = affinity_from_divergence(divergence[np.ix_(variant.items, variant.items)])
        found = estimate_harmony(
            affinity, variant.correct, canonical_labels(codes[variant.items]), **options
        )
        rows.append({"truth": variant.harmony, "n_items": len(variant.items), **found})
    return pd.DataFrame(rows)


def simulated_table(simulated: Sequence[Simulated], **options: float) -> pd.DataFrame:
    """Run the whole pipeline on simulated benchmarks; as :func:`composed_table`."""
    rows = []
    for made in simulated:
        affinity, _ = affinity_from_divergence(jeffreys_divergence(made.log_probabilities))
        found = estimate_harmony(affinity, made.correct, made.domains, **options)
        rows.append({"truth": made.harmony, "n_items": len(made.correct), **found})
    return pd.DataFrame(rows)


def recovery(
    truth: np.ndarray,
    estimate: np.ndarray,
    *,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> dict[str, float]:
    """Say how well estimates of HARMONY follow the truth.

    Parameters
    ----------
    truth, estimate : array_like of shape (n_variants,)
        At least three of each, neither constant.
    n_bootstrap : int
        Resamples of variants. Variants of one benchmark share items, so the interval says how it
        is with other variants of it, not with other benchmarks.
    confidence : float
        Coverage of the interval.
    random_state : int
        Seed.

    Returns
    -------
    dict of str to float
        ``r``, ``low``, ``high`` (Pearson's correlation with its interval), ``rho`` (Spearman's),
        ``slope`` of the estimate on the truth (1 is right), ``bias`` (mean of estimate minus
        truth), ``rmse`` and ``n``.

    Raises
    ------
    InputError
        If lengths differ, a value is NaN, or one of the two is constant.

    Examples
    --------
    >>> found = recovery(np.array([0.2, 0.5, 0.8]), np.array([0.3, 0.45, 0.6]))
    >>> {name: round(found[name], 2) for name in ("r", "rho", "slope", "bias")}
    {'r': 1.0, 'rho': 1.0, 'slope': 0.5, 'bias': -0.05}
    """
    true, found = np.asarray(truth, dtype=float), np.asarray(estimate, dtype=float)
    if true.shape != found.shape or true.ndim != 1 or len(true) < 3:
        raise InputError(
            f"truth of shape {true.shape}, estimate of shape {found.shape}: give one of each for "
            "at least three variants"
        )
    if not (np.isfinite(true).all() and np.isfinite(found).all()):
        raise InputError("truth and estimate: hold NaN or infinite values; drop those variants")
    if min(np.ptp(true), np.ptp(found)) <= 0:
        raise InputError("truth or estimate: is the same for all variants; vary them")
    drawn = np.random.default_rng(random_state).integers(len(true), size=(n_bootstrap, len(true)))
    low, high = np.nanquantile(_pearson(true[drawn], found[drawn]), tail_shares(confidence))
    return {
        "r": float(_pearson(true, found)),
        "low": float(low),
        "high": float(high),
        "rho": float(spearmanr(true, found).statistic),
        "slope": float(np.polyfit(true, found, 1)[0]),
        "bias": float((found - true).mean()),
        "rmse": float(np.sqrt(((found - true) ** 2).mean())),
        "n": len(true),
    }


def _pearson(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    one = one - one.mean(axis=-1, keepdims=True)
    other = other - other.mean(axis=-1, keepdims=True)
    scale = np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1))
    return (one * other).sum(axis=-1) / np.where(scale > 0, scale, np.nan)


def _table(correct: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.bincount(labels)
    return sizes, np.bincount(labels, weights=correct) / sizes


def _harmony(correct: np.ndarray, labels: np.ndarray, bandwidth: float) -> float:
    return harmony_score(*_table(correct, labels), bandwidth=bandwidth)


def _corrected(correct: np.ndarray, labels: np.ndarray, bandwidth: float) -> float:
    sizes, accuracies = _table(correct, labels)
    return float(corrected_harmony(sizes, accuracies, variance=correct.var(), bandwidth=bandwidth))


def _check_answers(correct: np.ndarray, n_items: int) -> np.ndarray:
    answers = np.atleast_2d(np.asarray(correct, dtype=float))
    if answers.shape[1] != n_items:
        raise InputError(
            f"answers of shape {answers.shape}: give one row per model, {n_items} long"
        )
    if not ((answers >= 0) & (answers <= 1)).all():
        raise InputError("answers: must lie between 0 and 1; drop items that were not answered")
    return answers
