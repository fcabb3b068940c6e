"""Similarities side by side: what the model would answer, the words, the sense, the answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import squareform
from scipy.special import log_softmax
from sklearn.metrics import adjusted_mutual_info_score

from harmony_utils.embedding import embed_texts, text_affinity, tfidf_vectors
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark
from harmony_utils.naming import item_texts
from harmony_utils.partition import spectral_partition
from harmony_utils.runs import recorded_folder
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.spectral import cluster_affinity
from harmony_utils.validation.pairwise import (
    rank_across_domains,
    rank_within_groups,
    same_text,
    word_overlap,
)

SELECTIONS = ("silhouette", "eigengap", "stability")
"""Rules for the number of clusters that are compared."""

MODELS = ("smollm2-135m", "gemma3-270m")
"""Models whose divergences are recorded."""

VARIANTS = {"gold-mean": "answer distribution", "prompt-end": "next word"}
"""Averaged distributions that are recorded, and what they are called in tables."""


@dataclass(frozen=True, eq=False)
class KnownBenchmark:
    """Recorded answers to a benchmark whose domains are known.

    Parameters
    ----------
    name : str
        ``redundantqa`` or ``mmlu_4``.
    answers : DataFrame
        One row per item: ``id``, ``key``, ``domain``; ``correct MODEL`` of each model and
        ``loglik MODEL`` (of each option) of those in :data:`MODELS`.
    """

    name: str
    answers: pd.DataFrame

    @property
    def domains(self) -> list[str]:
        """Known domain of each item."""
        return self.answers["domain"].tolist()

    @property
    def models(self) -> list[str]:
        """Models with recorded answers, early exits among them."""
        prefix = "correct "
        return [c.removeprefix(prefix) for c in self.answers if c.startswith(prefix)]

    def correct(self, model: str) -> np.ndarray:
        """Return correctness, shape (n_items,)."""
        return self.answers[f"correct {model}"].to_numpy(dtype=float)

    def divergence(self, model: str, variant: str = "gold-mean") -> np.ndarray:
        """Return Jeffreys divergences, shape (n_items, n_items), kept in half precision."""
        path = _folder(self.name) / f"{model}-{variant}.npy"
        if not path.exists():
            raise InputError(
                f"recorded divergences of {model!r}, {variant!r}: there are none; the models are "
                f"{', '.join(MODELS)}, the variants {', '.join(VARIANTS)}"
            )
        return squareform(np.load(path).astype(np.float32))


def known_benchmark(name: str) -> KnownBenchmark:
    """Load what is recorded of a benchmark with known domains.

    Parameters
    ----------
    name : str
        ``redundantqa``, or ``mmlu_4``: 200 test questions of each of four high-school subjects of
        MMLU (biology, macroeconomics, mathematics, psychology), ids and numbers only.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    path = _folder(name) / "answers.parquet"
    if not path.exists():
        known = sorted(p.parent.name for p in _folder("").glob("*/answers.parquet"))
        raise InputError(f"recorded benchmark {name!r}: unknown, there are {', '.join(known)}")
    return KnownBenchmark(name, pd.read_parquet(path))


def recorded_table(name: str) -> pd.DataFrame:
    """Return one table of ``results/record_validation.py``.

    Parameters
    ----------
    name : {"similarities", "numbers", "composed", "simulated"}
        Similarities side by side; agreement and quality of every number of clusters; HARMONY of
        composed and of simulated benchmarks, true and estimated.
    """
    return pd.read_csv(_folder("") / f"{name}.csv")


def option_divergence(loglik: Sequence[Sequence[float]], gold: Sequence[int]) -> np.ndarray:
    """Return the divergence of what is left of an answer in most evaluation logs.

    Parameters
    ----------
    loglik : sequence of sequences of float
        Log-likelihood of each option of each item; all items have equally many options.
    gold : sequence of int
        Index of the correct option.

    Returns
    -------
    ndarray of shape (n_items, n_items)
        Jeffreys divergence of the options' probabilities, the correct option first and the others
        by falling likelihood: their order means nothing across items.

    Examples
    --------
    Two items whose models are equally sure of the right answer are the same to it.

    >>> option_divergence([[0, -2], [-2, 0]], [0, 1]).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    rows = []
    for values, right in zip(loglik, gold, strict=True):
        own = log_softmax(np.asarray(values, dtype=float))
        rows.append([own[right], *sorted(np.delete(own, right), reverse=True)])
    return jeffreys_divergence(np.array(rows))


def text_lineup(benchmark: Benchmark) -> dict[str, np.ndarray]:
    """Return similarities that need no audited model, as affinities by name.

    Parameters
    ----------
    benchmark : Benchmark
        Its questions and correct answers.

    Returns
    -------
    dict of str to ndarray of shape (n_items, n_items)
        Of the question: shared words and pairs of words, TF-IDF, sentence embedding. Of question
        and correct answer: sentence embedding. Of the correct answer alone: embedding, equality.
    """
    questions = [item.question for item in benchmark.items]
    answers = [item.answer for item in benchmark.items]
    plain = {"shared words": word_overlap(questions), "same answer": same_text(answers)}
    found = {name: affinity_from_divergence(1 - matrix)[0] for name, matrix in plain.items()}
    found["TF-IDF"] = text_affinity(tfidf_vectors(questions))[0]
    for name, texts in (
        ("MiniLM of question", questions),
        ("MiniLM of question and answer", item_texts(benchmark.items)),
        ("MiniLM of answer", answers),
    ):
        found[name] = text_affinity(embed_texts(texts))[0]
    return found


def model_lineup(known: KnownBenchmark, gold: Sequence[int]) -> dict[tuple[str, str], np.ndarray]:
    """Return similarities that models give, as affinities by (name, model)."""
    found = {}
    for model in MODELS:
        for variant, name in VARIANTS.items():
            found[name, model] = affinity_from_divergence(known.divergence(model, variant))[0]
        options = option_divergence(known.answers[f"loglik {model}"], gold)
        found["option likelihoods", model] = affinity_from_divergence(options)[0]
    return found


def judge_similarity(
    affinity: np.ndarray,
    domains: Sequence[Hashable],
    *,
    groups: Sequence[Hashable] | None = None,
    roles: Sequence[str] | None = None,
    max_clusters: int = 12,
    n_bootstrap: int = 200,
    random_state: int = 0,
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Say what a similarity knows of groups and domains.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Similarities between 0 and 1.
    domains : sequence, length n_items
        Known domain of each item.
    groups, roles : sequence, length n_items, optional
        As in :func:`~harmony_utils.validation.pairwise.rank_within_groups`.
    max_clusters : int
        Largest number of clusters tried.
    n_bootstrap : int
        Resamples of items; groups are resampled ten times as often.
    random_state : int
        Seed.

    Returns
    -------
    row : dict
        ``domain_auc`` and ``pair_auc`` (NaN without groups), each with ``_low`` and ``_high``;
        ``ami`` with as many clusters as domains; ``k_RULE`` and ``ami_RULE`` for each of
        :data:`SELECTIONS`.
    numbers : DataFrame
        One row per number of clusters: ``n_clusters``, ``ami``, ``silhouette``, ``stability``.
    """
    n_domains = len(set(domains))
    across = rank_across_domains(
        affinity, domains, n_bootstrap=n_bootstrap, random_state=random_state
    )
    row = {"domain_auc": across.auc, "domain_low": across.low, "domain_high": across.high}
    row |= dict.fromkeys(("pair_auc", "pair_low", "pair_high"), np.nan)
    if groups is not None and roles is not None:
        within = rank_within_groups(
            affinity, groups, roles, n_bootstrap=10 * n_bootstrap, random_state=random_state
        )
        row |= {"pair_auc": within.auc, "pair_low": within.low, "pair_high": within.high}
    options = {"max_clusters": max_clusters, "n_stability": 2, "random_state": random_state}
    ami = {}
    for k in range(2, max_clusters + 1):
        labels = cluster_affinity(affinity, k, random_state=random_state)
        ami[k] = float(adjusted_mutual_info_score(domains, labels))
    row["ami"] = ami[n_domains]
    for rule in SELECTIONS:
        chosen = spectral_partition(affinity, selection=rule, **options)
        row |= {f"k_{rule}": chosen.n_clusters, f"ami_{rule}": ami[chosen.n_clusters]}
    numbers = pd.DataFrame(
        {
            "n_clusters": list(ami),
            "ami": list(ami.values()),
            "silhouette": [chosen.silhouettes[k] for k in ami],
            "stability": [chosen.stabilities[k] for k in ami],
        }
    )
    return row, numbers


def _folder(name: str) -> Any:
    return recorded_folder() / "validation" / name
