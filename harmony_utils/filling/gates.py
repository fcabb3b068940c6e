"""Gates: what a candidate has to pass before anybody answers it, and what its answers must show.

A gate gives a reason or nothing. Rejected candidates are kept with theirs. Gates cannot prove that
exactly one answer is right; what is accepted still has to be read by a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harmony_utils.difficulty.curves import MIN_SLOPE
from harmony_utils.filling.candidates import Candidate
from harmony_utils.filling.surgery import MAX_OPTIONS, plain
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Item

MAX_QUESTION, MAX_OPTION = 2000, 400
"""Longest question and option, in characters."""


@dataclass(frozen=True)
class Thresholds:
    """Where the gates close; all of them are our choices.

    Parameters
    ----------
    duplicate : float
        Cosine over words from which a candidate repeats another item or candidate.
    options_only : float
        Share of belief that a respondent without the question may give to the right option, as a
        multiple of 1 / number of options.
    in_band : float
        Least probability that the measured difficulty lies in the band.
    max_per_source : int
        Accepted candidates made from one item: they are no independent questions.
    """

    duplicate: float = 0.95
    options_only: float = 2.0
    in_band: float = 0.5
    max_per_source: int = 1


def check_format(candidate: Candidate) -> str:
    """Return what is wrong with the form, or nothing.

    Examples
    --------
    >>> from harmony_utils.filling.candidates import make_candidate
    >>> item = Item("q", "Which?", ("a", "b"), 0)
    >>> twice = make_candidate(item, question="Which?", options=("a", "b", "B. "), gold=0,
    ...     operations=(), band=(0, 1), generator="hand")
    >>> check_format(twice)
    'two options read the same: B.'
    """
    if candidate.problem:
        return candidate.problem
    options = candidate.options
    if not 2 <= len(options) <= MAX_OPTIONS:
        return f"{len(options)} options; 2 to {MAX_OPTIONS} are allowed"
    if not 0 <= candidate.gold < len(options):
        return f"the key {candidate.gold} lies outside the options"
    if not candidate.question.strip() or len(candidate.question) > MAX_QUESTION:
        return f"the question has {len(candidate.question)} characters; 1 to {MAX_QUESTION}"
    for text in options:
        if not plain(text) or len(text) > MAX_OPTION:
            return f"an option has {len(text)} characters; 1 to {MAX_OPTION}"
    seen: set[str] = set()
    for text in options:
        if plain(text) in seen:
            return f"two options read the same: {text.strip()}"
        seen.add(plain(text))
    return ""


def check_key(candidate: Candidate) -> str:
    """Return why the key is not that of the source, or does not follow from it, or nothing.

    Parameters
    ----------
    candidate : Candidate
        With a right format, see :func:`check_format`.

    Returns
    -------
    str
        The reason; empty where the right option reads as the source's key does and no other option
        holds the same words in another order.

    Examples
    --------
    >>> from harmony_utils.filling.candidates import make_candidate
    >>> item = Item("q", "Which?", ("a b", "c"), 0)
    >>> turned = make_candidate(item, question="Which?", options=("a b", "b a"), gold=0,
    ...     operations=(), band=(0, 1), generator="hand")
    >>> check_key(turned)
    "option 'b a' holds the words of the key: it may be right too"
    """
    gold = plain(candidate.options[candidate.gold])
    if gold != plain(candidate.derived_gold):
        return f"the key is {candidate.options[candidate.gold]!r}, not {candidate.derived_gold!r}"
    for number, text in enumerate(candidate.options):
        words = set(plain(text).split())
        if number != candidate.gold and words == set(gold.split()):
            return f"option {text!r} holds the words of the key: it may be right too"
    return ""


class DuplicateGate:
    """Finds candidates that repeat an original or an earlier candidate.

    Parameters
    ----------
    originals : sequence of Item
        Questions that are there already.
    threshold : float
        See :class:`Thresholds`.

    Notes
    -----
    The cosine is over TF-IDF weights of the words of question and options together. A candidate
    shares its question with its source, so against the source only the options count: at least one
    has to be new, or one has to be gone, or the question must read differently.
    """

    def __init__(self, originals: Sequence[Item], *, threshold: float = 0.95) -> None:
        self.threshold = threshold
        self.ids = [item.id for item in originals]
        self.items = {item.id: item for item in originals}
        self.vectorizer = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", sublinear_tf=True)
        self.originals = self.vectorizer.fit_transform([_whole(item) for item in originals])
        self.kept: list[tuple[str, Any]] = []

    def check(self, candidate: Candidate) -> str:
        """Return the reason, or nothing."""
        source = self.items.get(candidate.source)
        same_options = source is not None and {plain(t) for t in source.options} == {
            plain(t) for t in candidate.options
        }
        if same_options and plain(source.question) == plain(candidate.question):
            return f"repeats its source {candidate.source}"
        row = self.vectorizer.transform([_whole(candidate)])
        near = (self.originals @ row.T).toarray().ravel()
        if candidate.source in self.items:
            near[self.ids.index(candidate.source)] = 0
        if len(near) and near.max() >= self.threshold:
            return f"near duplicate of {self.ids[int(near.argmax())]} (cosine {near.max():.2f})"
        for name, other in self.kept:
            value = float((other @ row.T).toarray()[0, 0])
            if value >= self.threshold:
                return f"near duplicate of candidate {name} (cosine {value:.2f})"
        return ""

    def keep(self, candidate: Candidate) -> None:
        """Remember a candidate, so that later ones may not repeat it."""
        self.kept.append((candidate.id, self.vectorizer.transform([_whole(candidate)])))


def _whole(item: Item | Candidate) -> str:
    return " ".join([item.question, *sorted(item.options)])


class OptionsOnly:
    """A respondent that never sees the question, trained on the originals.

    It knows an option's length against the others', how typical it is among them, how many words
    it shares with them, and how often it stands as an option elsewhere. What it answers well can
    be answered without knowing anything.

    Parameters
    ----------
    originals : sequence of Item
        Questions to learn from, at least 20.
    texts : TextSpace
        Similarities.
    """

    def __init__(self, originals: Sequence[Item], texts: TextSpace) -> None:
        self.texts = texts
        rows = np.concatenate([self._describe(item.options) for item in originals])
        right = np.concatenate(
            [np.arange(len(item.options)) == item.gold for item in originals]
        ).astype(int)
        self.model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(rows, right)

    def belief(self, options: Sequence[str]) -> np.ndarray:
        """Return the share of belief of each option, shape (n_options,); they sum to 1."""
        logits = self.model.decision_function(self._describe(options))
        share = np.exp(logits - logits.max())
        return share / share.sum()

    def check(self, candidate: Candidate, *, multiple: float = 2.0) -> str:
        """Return the reason if the right option is believed too much, or nothing.

        It closes at ``multiple`` divided by the number of options, but at .75 at the latest: with
        two options a limit of twice one half would never close.
        """
        share = float(self.belief(candidate.options)[candidate.gold])
        limit = min(multiple / len(candidate.options), 0.75)
        if share >= limit:
            return f"answerable from the options alone (belief {share:.2f}, limit {limit:.2f})"
        return ""

    def _describe(self, options: Sequence[str]) -> np.ndarray:
        sizes = np.log([max(len(text), 1) for text in options])
        alike = self.texts.cosine(list(options), list(options))
        typical = (alike.sum(axis=1) - 1) / max(len(options) - 1, 1)
        words = [set(plain(text).split()) for text in options]
        shared = [
            np.mean([len(a & b) / max(len(a | b), 1) for j, b in enumerate(words) if j != i])
            for i, a in enumerate(words)
        ]
        columns = np.stack([sizes, typical, np.array(shared)], axis=1)
        centred = columns - columns.mean(axis=0)
        longest = (sizes == sizes.max()) & (sizes > np.median(sizes))
        return np.column_stack([centred, longest.astype(float)])


@dataclass(frozen=True)
class Measured:
    """Difficulty of a candidate on the panel.

    Parameters
    ----------
    difficulty, difficulty_se, slope : float
        On the originals' scale.
    p_in_band : float
        Probability of lying in the band: normal, with the standard error.
    n_answers : int
        Models that answered.
    accuracy : float
        Share of them that were right.
    """

    difficulty: float
    difficulty_se: float
    slope: float
    p_in_band: float
    n_answers: int
    accuracy: float = field(default=float("nan"))


def band_probability(difficulty: float, standard_error: float, low: float, high: float) -> float:
    """Return the normal probability of a band.

    Examples
    --------
    In the middle of a band as wide as two standard errors: the share within one.

    >>> round(band_probability(1.0, 0.5, 0.5, 1.5), 3)
    0.683
    """
    sd = max(standard_error, 1e-9)
    return float(norm.cdf((high - difficulty) / sd) - norm.cdf((low - difficulty) / sd))


def check_measured(measured: Measured, candidate: Candidate, *, in_band: float = 0.5) -> str:
    """Return why the answers speak against a candidate, or nothing.

    Parameters
    ----------
    measured : Measured
        What the panel's answers say.
    candidate : Candidate
        Whose band counts.
    in_band : float
        Least probability of lying in the band.

    Returns
    -------
    str
        The reason; empty where the slope is usable and the band probable enough. One that names
        the panel, not the candidate, is given where even a difficulty in the middle of the band
        could not reach the wanted probability.

    Examples
    --------
    >>> from harmony_utils.filling.candidates import make_candidate
    >>> item = Item("q", "Which?", ("a", "b"), 0)
    >>> one = make_candidate(item, question="Which?", options=("a", "c"), gold=0,
    ...     operations=(), band=(0.0, 1.0), generator="hand")
    >>> check_measured(Measured(2.0, 0.2, 1.0, 0.0, 30), one)
    'too hard: measured 2.00 ± 0.20, wanted 0.00 to 1.00 (probability 0.00)'
    """
    low, high = candidate.band
    if measured.slope < MIN_SLOPE:
        return (
            f"abler models do not do better (slope {measured.slope:.2f}): a second right answer, "
            "or nothing that this panel's ability decides"
        )
    best = band_probability((low + high) / 2, measured.difficulty_se, low, high)
    if best < in_band:
        return (
            f"too uncertain: with a standard error of {measured.difficulty_se:.2f} no difficulty "
            f"can be placed in {low:.2f} to {high:.2f}; more models are needed"
        )
    if measured.p_in_band < in_band:
        side = "easy" if measured.difficulty < (low + high) / 2 else "hard"
        return (
            f"too {side}: measured {measured.difficulty:.2f} ± {measured.difficulty_se:.2f}, "
            f"wanted {low:.2f} to {high:.2f} (probability {measured.p_in_band:.2f})"
        )
    return ""
