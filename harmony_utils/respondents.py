"""Respondents that are no language model: rules that answer a question from its text alone.

They are written ``respondent:NAME`` where a model's name is expected. A rule gives each option a
score; what is kept in the place of a log-likelihood is the logarithm of the option's share under a
softmax of the scores, so that shares of one question add up to 1. That is no likelihood of any
model, and there is no distribution over a vocabulary: these respondents have predictions, and
HARMONY over a partition that comes from elsewhere, but no predictive similarity of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax

from harmony_utils.embedding import embed_texts, tfidf_vectors
from harmony_utils.errors import InputError
from harmony_utils.files import content_hash
from harmony_utils.items import Benchmark, Item
from harmony_utils.predictions import SCHEMA, Predictions, choose
from harmony_utils.settings import PredictionsSettings

PREFIX = "respondent:"

SEED = 0
"""Seed of the rules that draw."""

SCORES = "log share of a softmax over the rule's scores; not a log-likelihood"

_VERSION = "1"
_TEXTS_AT_ONCE = 64


@dataclass(frozen=True)
class Respondent:
    """A rule that answers questions.

    Parameters
    ----------
    name : str
        What is written after ``respondent:``.
    title : str
        What the rule does, in a few words.
    scores : callable
        From a benchmark to one array of scores per item, higher is better.
    temperature : float
        The scores are divided by it before the softmax. It changes no answer.
    """

    name: str
    title: str
    scores: Callable[[Benchmark], list[np.ndarray]]
    temperature: float = 1.0


def list_respondents() -> tuple[Respondent, ...]:
    """Return all respondents; their written names begin with ``respondent:``."""
    return tuple(_RESPONDENTS.values())


def is_respondent(name: str) -> bool:
    """Say whether a written name asks for a respondent instead of a model."""
    return name.startswith(PREFIX)


def find_respondent(name: str) -> Respondent:
    """Return the respondent with a written name such as ``respondent:longest``.

    Raises
    ------
    InputError
        For an unknown one, with those that are close.
    """
    short = name.removeprefix(PREFIX)
    if short in _RESPONDENTS:
        return _RESPONDENTS[short]
    near = difflib.get_close_matches(short, _RESPONDENTS, n=1, cutoff=0.5)
    hint = f"did you mean {PREFIX}{near[0]}? " if near else ""
    raise InputError(f"respondent {short!r}: {hint}there are {', '.join(_RESPONDENTS)}")


def identify_respondent(name: str) -> dict[str, Any]:
    """Say which rule a name stands for, in the form of a model's identity."""
    found = find_respondent(name)
    return {
        "name": f"respondent-{found.name}",
        "source": "rule of this package",
        "version": _VERSION,
        "layer": None,
    }


def respond(
    name: str, benchmark: Benchmark, settings: PredictionsSettings | None = None
) -> Predictions:
    """Answer a benchmark by a rule.

    Parameters
    ----------
    name : str
        Written name, such as ``respondent:minilm``.
    benchmark : Benchmark
        The items.
    settings : PredictionsSettings, optional
        Nothing in it has a meaning for a rule, so it has to be the default.

    Returns
    -------
    Predictions
        One row per item. ``loglik`` holds logarithms of shares, see this module, and
        ``meta["scores"]`` says so. Ties go to the first of the best options and are flagged.

    Raises
    ------
    InputError
        For an unknown rule, open-ended questions, or settings that it cannot follow.

    Examples
    --------
    >>> from harmony_utils.items import Item
    >>> quiz = Benchmark("quiz", (Item("a", "Which is longest?", ("yes", "by far"), 1),))
    >>> found = respond("respondent:longest", quiz)
    >>> found.table["prediction"].tolist(), np.exp(found.scores()).sum().round(6)
    ([1], np.float64(1.0))
    """
    found = find_respondent(name)
    benchmark.require_options(f"{PREFIX}{found.name}: a rule that chooses")
    settings = settings or PredictionsSettings()
    standard, given = PredictionsSettings().identity(), settings.identity()
    if changed := [field for field, value in given.items() if standard.get(field) != value]:
        raise InputError(
            f"{PREFIX}{found.name} is a rule: predictions.{changed[0]} means nothing to it; "
            "leave it out"
        )
    shares = [log_softmax(scores / found.temperature) for scores in found.scores(benchmark)]
    return _table(found, benchmark, shares, settings)


def _table(
    found: Respondent,
    benchmark: Benchmark,
    shares: list[np.ndarray],
    settings: PredictionsSettings,
) -> Predictions:
    """Put scores and items into the canonical table."""
    items = benchmark.items
    table = pd.DataFrame(
        {
            "key": benchmark.keys(),
            "native_id": [item.id for item in items],
            "subject": benchmark.subjects,
            "group": benchmark.groups(),
            "n_options": [len(item.options) for item in items],
            "gold": [[item.gold] for item in items],
            "loglik": [share.tolist() for share in shares],
            "unconditional": None,
            "characters": [[len(text) for text in item.options] for item in items],
            "bytes": [[len(text.encode()) for text in item.options] for item in items],
            "tokens": None,
            "prediction": 0,
            "prediction_source": "argmax",
            "correct": 0.0,
            "flags": [[] for _ in items],
        }
    )[SCHEMA.names]
    about = {
        "name": PREFIX + found.name,
        "family": "rule",
        **dict.fromkeys(("revision", "parameters", "tokens", "layers", "layer", "dtype")),
        "source": "rule of this package",
        "licence": "Apache-2.0",
    }
    meta = {
        "model": about,
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "normalisation": "sum",
        "scores": SCORES,
        "temperature": found.temperature,
        "settings": settings.identity(),
    }
    draft = Predictions(table, meta)
    chosen, tied = choose(draft.scores())
    table["prediction"] = chosen
    table["correct"] = draft.correct_by("sum")
    table["flags"] = [["tie"] if tie else [] for tie in tied]
    return Predictions(table, meta)


def _sizes(benchmark: Benchmark) -> list[int]:
    return [len(item.options) for item in benchmark.items]


def _split(flat: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(flat, np.cumsum(sizes)[:-1])


def _texts(items: tuple[Item, ...]) -> list[str]:
    """Return each question followed by its options; a passage is left out."""
    return [text for item in items for text in (item.question, *item.options)]


def _cosines(vectors: Any, sizes: list[int]) -> list[np.ndarray]:
    """Return the cosine of each question's vector with those of its options."""
    found, start = [], 0
    for size in sizes:
        options = vectors[start + 1 : start + 1 + size]
        product = options @ vectors[start].T
        dense = product.toarray() if hasattr(product, "toarray") else product
        found.append(np.asarray(dense, dtype=np.float64).reshape(size))
        start += size + 1
    return found


def _minilm(benchmark: Benchmark) -> list[np.ndarray]:
    """Cosine of question and option in MiniLM, rounded so that batches do not matter."""
    vectors = embed_texts(_texts(benchmark.items), batch_size=_TEXTS_AT_ONCE)
    return [c.round(4) for c in _cosines(vectors, _sizes(benchmark))]


def _tfidf(benchmark: Benchmark) -> list[np.ndarray]:
    """Cosine of question and option over words; rare words of the whole benchmark count more."""
    try:
        vectors = tfidf_vectors(_texts(benchmark.items))
    except InputError:  # numbers and stop words only: nothing speaks for any option
        return [np.zeros(size) for size in _sizes(benchmark)]
    return [c.round(6) for c in _cosines(vectors, _sizes(benchmark))]


def _longest(benchmark: Benchmark) -> list[np.ndarray]:
    return [np.array([len(text) for text in item.options], float) for item in benchmark.items]


def _first(benchmark: Benchmark) -> list[np.ndarray]:
    return [-np.arange(size, dtype=float) for size in _sizes(benchmark)]


def _drawn(benchmark: Benchmark, weights: Callable[[int], np.ndarray]) -> list[np.ndarray]:
    """Return log weights plus Gumbel noise: the best one is a draw by the weights.

    The noise depends on the content of the item and the seed alone, so an item has the same answer
    in every sample.
    """
    found = []
    for key, size in zip(benchmark.keys(), _sizes(benchmark), strict=True):
        rng = np.random.default_rng(int(content_hash([SEED, key])[:16], 16))
        found.append(np.log(weights(size)) + rng.gumbel(size=size))
    return found


def _random(benchmark: Benchmark) -> list[np.ndarray]:
    return _drawn(benchmark, lambda size: np.full(size, 1 / size))


def _letter_prior(benchmark: Benchmark) -> list[np.ndarray]:
    """Draw a place; its weight falls linearly, .4, .3, .2, .1 for four options (our choice)."""
    return _drawn(benchmark, lambda size: np.arange(size, 0, -1) / (size * (size + 1) / 2))


_RESPONDENTS = {
    found.name: found
    for found in (
        Respondent("minilm", "option most similar to the question, MiniLM", _minilm, 0.1),
        Respondent("tfidf", "option that shares most words with the question", _tfidf, 0.1),
        Respondent("longest", "option with the most characters", _longest, 10.0),
        Respondent("first", "first option", _first),
        Respondent("letter-prior", "a place drawn at random, earlier ones more often, seed 0",
                   _letter_prior),
        Respondent("random", "an option drawn at random, seed 0", _random),
    )
}  # fmt: skip
