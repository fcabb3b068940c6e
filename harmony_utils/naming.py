"""Names for subdomains: the terms that set a subdomain's questions apart, and its central items.

A name is a hint for a reader, not what defines a subdomain: that is the similarity of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix
from scipy.stats import false_discovery_control, hypergeom
from sklearn.feature_extraction.text import CountVectorizer

from harmony_utils.errors import InputError
from harmony_utils.items import Item
from harmony_utils.spectral import central_items

MIN_QUESTIONS = 3
"""A term in fewer questions than this names nothing."""

LEVEL = 0.05
"""A subdomain of questions drawn at random gets any term at all with at most about this chance."""

NO_TERM = "no distinctive term"


@dataclass(frozen=True)
class SubdomainName:
    """What a person can read of a subdomain.

    Parameters
    ----------
    terms : tuple of str
        Distinctive words and word pairs, the most distinctive first; empty where there is none.
    candidates : tuple of str
        Where there is none, the terms of highest score: more frequent here, but not by more than
        chance explains. They must not be read as a name.
    coverage, coverage_elsewhere : float
        Share of the subdomain's questions, and of all others, that hold at least one of the
        terms. A name of low coverage is true of few of the questions.
    example_ids : tuple of str
        Ids of the items nearest to the subdomain's centre, the nearest first.
    """

    terms: tuple[str, ...]
    candidates: tuple[str, ...]
    coverage: float
    coverage_elsewhere: float
    example_ids: tuple[str, ...]

    @property
    def text(self) -> str:
        """The terms in one line, or that there is none and which come nearest."""
        if self.terms or not self.candidates:
            return ", ".join(self.terms) or NO_TERM
        return f"{NO_TERM} (nearest: {', '.join(self.candidates)})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SubdomainName:
        """Rebuild a name from :meth:`to_dict`."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def item_texts(items: Sequence[Item]) -> list[str]:
    """Return the text of each item: its question and its correct answer.

    Wrong options are left out, and so is the passage: it would drown the question.

    Examples
    --------
    >>> item_texts([Item("a", "What barks?", ("a cat", "a dog"), 1)])
    ['What barks? a dog']
    """
    return [f"{item.question} {item.answer}" for item in items]


def name_subdomains(
    texts: Sequence[str],
    labels: np.ndarray,
    affinity: np.ndarray,
    *,
    ids: Sequence[str] | None = None,
    n_terms: int = 5,
    n_examples: int = 3,
) -> list[SubdomainName]:
    """Name each subdomain by its distinctive terms and its central items.

    Parameters
    ----------
    texts : sequence of str, length n_items
        For example from :func:`item_texts`. English stop words do not count.
    labels : ndarray of shape (n_items,), int
        Subdomains 0 to k-1, none empty.
    affinity : ndarray of shape (n_items, n_items)
        Symmetric similarities; they decide which items are central.
    ids : sequence of str, length n_items, optional
        Names of the items; without them their numbers.
    n_terms, n_examples : int
        At most this many of each, at least 1.

    Returns
    -------
    list of SubdomainName
        In the order of the labels. A subdomain whose words are those of the others gets no term;
        a small one often does not either, because nothing can be shown of it.

    Raises
    ------
    InputError
        If texts, labels, ids and affinity do not belong together, or a number is below 1.

    Notes
    -----
    Class-based TF-IDF of our own making. Each subdomain is one document; the frequency of a term
    in it is the share of its questions that hold the term, and its rarity is the logarithm of how
    much larger that is than the share ``p(term)`` among all questions::

        score(term, subdomain) = p(term | subdomain) * log(p(term | subdomain) / p(term))

    The factor of Grootendorst (*BERTopic*, arXiv 2203.05794), ``log(1 + A / f)``, depends on the
    term alone, so that with two subdomains the same frequent words would name both. Only terms
    that are more frequent in the subdomain than in questions drawn at random are taken
    (hypergeometric test, Benjamini & Hochberg's correction over all terms at :data:`LEVEL`). Of
    equal scores the first in the alphabet comes first; a term that holds, or is held by, a better
    one is left out.

    Examples
    --------
    >>> import numpy as np
    >>> texts = ["a river to the sea"] * 6 + ["a king of old"] * 6
    >>> labels = np.repeat([0, 1], 6)
    >>> found = name_subdomains(texts, labels, np.eye(12), n_terms=2, n_examples=1)
    >>> [name.terms for name in found], found[1].example_ids
    ([('river', 'sea'), ('king', 'old')], ('6',))
    """
    _check(texts, labels, ids, n_terms)
    central = central_items(affinity, labels, n_items=n_examples)
    counts, vocabulary = _term_counts(texts)
    n_items, totals = len(texts), np.asarray(counts.sum(axis=0)).ravel()
    names = []
    for label, members in enumerate(central):
        mine = labels == label
        inside = np.asarray(counts[mine].sum(axis=0)).ravel()
        ranked, distinctive = _ranked_terms(inside, totals, int(mine.sum()), n_items)
        chosen = _without_overlap([i for i in ranked if distinctive[i]], vocabulary, n_terms)
        others = [] if chosen else _without_overlap(ranked, vocabulary, n_terms)
        holds = np.asarray(counts[:, chosen].sum(axis=1)).ravel() > 0
        names.append(
            SubdomainName(
                terms=tuple(vocabulary[i] for i in chosen),
                candidates=tuple(vocabulary[i] for i in others),
                coverage=float(holds[mine].mean()),
                coverage_elsewhere=float(holds[~mine].mean()) if (~mine).any() else 0.0,
                example_ids=tuple(str(ids[i]) if ids is not None else str(i) for i in members),
            )
        )
    return names


def _check(
    texts: Sequence[str], labels: np.ndarray, ids: Sequence[str] | None, n_terms: int
) -> None:
    n_ids = len(texts) if ids is None else len(ids)
    if n_terms < 1 or not len(texts) == len(labels) == n_ids:
        raise InputError(
            f"names: {n_terms} terms wanted, {len(texts)} texts, {len(labels)} labels, {n_ids} "
            "ids; want at least 1 and give one of each per item"
        )


def _term_counts(texts: Sequence[str]) -> tuple[Any, list[str]]:
    """Return which text holds which term, shape (n_items, n_terms), and the terms, sorted."""
    vectorizer = CountVectorizer(stop_words="english", ngram_range=(1, 2), binary=True)
    try:
        counts = vectorizer.fit_transform(texts).tocsc()
    except ValueError:  # no words at all
        return csc_matrix((len(texts), 0), dtype=np.int64), []
    frequent = np.flatnonzero(np.asarray(counts.sum(axis=0)).ravel() >= MIN_QUESTIONS)
    terms = vectorizer.get_feature_names_out()
    return counts[:, frequent].tocsr(), [str(terms[i]) for i in frequent]


def _ranked_terms(
    inside: np.ndarray, totals: np.ndarray, size: int, n_items: int
) -> tuple[list[int], np.ndarray]:
    """Return a subdomain's terms, the highest score first, and which terms are distinctive."""
    if not len(totals):
        return [], np.zeros(0, dtype=bool)
    chances = np.clip(hypergeom.sf(inside - 1, n_items, totals, size), 0, 1)
    share = inside / size
    lift = np.where(inside > 0, share * n_items / totals, 1)
    scores = np.round(share * np.log(lift), 12)
    ranked = np.argsort(-scores, kind="stable")  # the vocabulary is sorted, so are ties
    better = [int(i) for i in ranked if scores[i] > 0]
    return better, false_discovery_control(chances) <= LEVEL


def _without_overlap(ranked: list[int], vocabulary: list[str], n_terms: int) -> list[int]:
    """Return the first terms of which none holds the words of another."""
    chosen: list[int] = []
    for i in ranked:
        words = f" {vocabulary[i]} "
        kept = [f" {vocabulary[j]} " for j in chosen]
        if not any(words in other or other in words for other in kept):
            chosen.append(i)
        if len(chosen) == n_terms:
            break
    return chosen
