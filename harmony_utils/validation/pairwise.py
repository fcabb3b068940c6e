"""Does a similarity rank the pairs right that are known to belong together?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from harmony_utils.errors import InputError
from harmony_utils.labels import refuse_missing
from harmony_utils.metric import tail_shares

DECIMALS = 6
"""Similarities that agree to so many decimals count as tied: beyond lies rounding."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """How often a pair that belongs together is ranked above one that does not.

    Parameters
    ----------
    auc : float
        From 0 to 1; 0.5 is chance, ties count half.
    low, high : float
        Interval by bootstrap over groups, or over items.
    n_drawn : int
        Groups, or items, that were resampled.
    """

    auc: float
    low: float
    high: float
    n_drawn: int


def rank_within_groups(
    similarity: np.ndarray,
    groups: Sequence[Hashable],
    roles: Sequence[str],
    *,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Ranking:
    """Say how often a paraphrase is more similar to its reference than a look-alike is.

    Parameters
    ----------
    similarity : ndarray of shape (n_items, n_items)
        Symmetric; larger means more similar.
    groups : sequence, length n_items
        Group of each item.
    roles : sequence of str, length n_items
        ``"reference"`` (one in each group), ``"paraphrase"`` or ``"lookalike"``.
    n_bootstrap : int
        Resamples of whole groups: pairs of one group share their reference.
    confidence : float
        Coverage of the interval.
    random_state : int
        Seed.

    Returns
    -------
    Ranking
        The mean over groups of the area under the ROC curve within the group. A similarity that is
        right about all of them gives 1, one that is wrong about all gives 0, and a constant .5.

    Raises
    ------
    InputError
        If shapes do not fit, a similarity is NaN, or a group has not one reference and at least
        one paraphrase and one look-alike.

    Examples
    --------
    >>> similarity = np.array([[1, 0.9, 0.2], [0.9, 1, 0], [0.2, 0, 1]])
    >>> rank_within_groups(similarity, [7, 7, 7], ["reference", "paraphrase", "lookalike"]).auc
    1.0
    """
    values = _check(similarity, groups, "groups")
    if len(roles) != len(values):
        raise InputError(f"roles: {len(roles)} given for {len(values)} items")
    role = np.asarray(roles)
    codes = _codes(groups)
    scores = []
    for code in range(codes.max() + 1):
        members = np.flatnonzero(codes == code)
        by_role = [members[role[members] == r] for r in ("reference", "paraphrase", "lookalike")]
        if len(by_role[0]) != 1 or not len(by_role[1]) or not len(by_role[2]):
            raise InputError(
                f"group {groups[members[0]]!r}: has {', '.join(role[members])}; each group needs "
                "one reference and at least one paraphrase and one lookalike"
            )
        near, far = (values[by_role[0][0], others] for others in by_role[1:])
        scores.append((np.sign(near[:, None] - far).mean() + 1) / 2)
    rng = np.random.default_rng(random_state)
    drawn = rng.integers(len(scores), size=(n_bootstrap, len(scores)))
    return _ranking(np.mean(scores), np.asarray(scores)[drawn].mean(axis=1), confidence, scores)


def rank_across_domains(
    similarity: np.ndarray,
    domains: Sequence[Hashable],
    *,
    n_bootstrap: int = 200,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Ranking:
    """Say how often two items of one domain are more similar than two of different domains.

    Parameters
    ----------
    similarity : ndarray of shape (n_items, n_items)
        Symmetric; larger means more similar.
    domains : sequence, length n_items
        Known domain of each item.
    n_bootstrap : int
        Resamples of items; a pair of an item with itself is left out.
    confidence : float
        Coverage of the interval.
    random_state : int
        Seed.

    Returns
    -------
    Ranking
        As :func:`~harmony_utils.similarity.group_auc` over all pairs, with an interval.

    Raises
    ------
    InputError
        If shapes do not fit, a similarity is NaN, there is one domain only, or no domain has two
        items.

    Examples
    --------
    >>> rank_across_domains(np.kron(np.eye(2), np.ones((2, 2))), ["law", "law", "art", "art"]).auc
    1.0
    """
    values = _check(similarity, domains, "domains")
    codes = _codes(domains)
    if codes.max() < 1 or np.bincount(codes).max() < 2:
        raise InputError("domains: give at least two, and two items in one of them")
    one, other = np.triu_indices(len(codes), 1)
    pairs = values[one, other]
    order = np.argsort(pairs, kind="stable")
    one, other = one[order], other[order]
    same = codes[one] == codes[other]
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-np.inf) > 0)

    def weighted(counts: np.ndarray) -> float:
        weight = (counts[one] * counts[other]).astype(np.float64)
        near = np.add.reduceat(weight * same, starts)
        far = np.add.reduceat(weight * ~same, starts)
        below = np.cumsum(far) - far / 2  # ties count half
        total = near.sum() * far.sum()
        return float(near @ below / total) if total > 0 else np.nan

    rng = np.random.default_rng(random_state)
    n_items = len(codes)
    draws = [
        weighted(np.bincount(rng.integers(n_items, size=n_items), minlength=n_items))
        for _ in range(n_bootstrap)
    ]
    return _ranking(weighted(np.ones(n_items)), np.array(draws), confidence, codes)


def word_overlap(texts: Sequence[str], *, longest: int = 2) -> np.ndarray:
    """Return the share of words and runs of words that two texts have in common.

    Parameters
    ----------
    texts : sequence of str, length n_items
        Capitals and signs do not count.
    longest : int
        Longest run of words, at least 1.

    Returns
    -------
    ndarray of shape (n_items, n_items), float32
        Jaccard index of the sets of word n-grams: 1 for equal sets, 0 for nothing in common, also
        between texts without words.

    Raises
    ------
    InputError
        If no text holds a word.

    Examples
    --------
    >>> word_overlap(["a red fox", "A fox"], longest=1).astype(float).round(2).tolist()
    [[1.0, 0.67], [0.67, 1.0]]
    """
    counter = CountVectorizer(
        ngram_range=(1, longest), binary=True, token_pattern=r"\w+", dtype=np.float32
    )
    try:
        found = counter.fit_transform(texts)
    except ValueError:
        raise InputError("texts: there is no word in them") from None
    common = (found @ found.T).toarray()
    sizes = common.diagonal()
    return common / np.maximum(sizes[:, None] + sizes - common, 1)


def same_text(texts: Sequence[str]) -> np.ndarray:
    """Return 1 for equal texts and 0 for others, shape (n_items, n_items); blanks do not count.

    Examples
    --------
    >>> same_text(["Oxygen ", "oxygen", "iron"])[0].tolist()
    [1.0, 1.0, 0.0]
    """
    codes = _codes([" ".join(text.casefold().split()) for text in texts])
    return (codes[:, None] == codes).astype(np.float32)


def _check(similarity: np.ndarray, labels: Sequence[Hashable], name: str) -> np.ndarray:
    """Return rounded similarities; refuse what cannot be ranked."""
    if similarity.ndim != 2 or similarity.shape != (len(labels), len(labels)) or not len(labels):
        raise InputError(
            f"similarity of shape {similarity.shape} and {len(labels)} {name}: give a square "
            "matrix over items and one of them per item"
        )
    if np.isnan(similarity).any():
        raise InputError("similarity: holds NaN; mend the matrix or drop those items")
    refuse_missing(labels, name, "give every item one")
    return np.round(similarity.astype(np.float64), DECIMALS)


def _codes(labels: Sequence[Hashable]) -> np.ndarray:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels])


def _ranking(
    auc: float, draws: np.ndarray, confidence: float, drawn: Sequence[float] | np.ndarray
) -> Ranking:
    low, high = np.nanquantile(draws, tail_shares(confidence))
    return Ranking(float(auc), float(low), float(high), len(drawn))
