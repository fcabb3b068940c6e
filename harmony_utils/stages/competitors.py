"""Partitions of an audit's questions that compete with its subdomains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harmony_utils.comparison import co_membership, length_groups, shared_affinity
from harmony_utils.embedding import embed_texts, text_affinity, tfidf_vectors
from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.graph import check_affinity
from harmony_utils.labels import canonical_labels
from harmony_utils.naming import item_texts
from harmony_utils.partition import random_partition
from harmony_utils.runs import Run
from harmony_utils.similarity import affinity_from_divergence
from harmony_utils.spectral import cluster_affinity

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit

COMPARED_ITEMS = 1000
"""Above this many questions a random sample of them is compared, so that it takes seconds."""

MAX_PEERS = 3
"""Partitions of at most this many other models get a row each; all go into the shared one."""


@dataclass(frozen=True, eq=False)
class Competitors:
    """Partitions of the same questions, for :func:`harmony_utils.comparison.compare_partitions`.

    Parameters
    ----------
    items : ndarray of int
        Numbers of the questions compared: all, or a random sample, in rising order.
    reference : str
        Name of the audit's own partition.
    labels : dict of str to ndarray
        By name, the reference first; each of the length of ``items``.
    left_out : dict of str to str
        Partitions that this audit cannot have, and why.
    groups : ndarray of int, optional
        Which of the questions hang together; None if none do.
    """

    items: np.ndarray
    reference: str
    labels: dict[str, np.ndarray]
    left_out: dict[str, str]
    groups: np.ndarray | None = None


def competing_partitions(
    audit: Audit, *, encoder: str = "", max_items: int = COMPARED_ITEMS, random_state: int = 0
) -> Competitors:
    """Divide the questions of an audit in every other way there is.

    Parameters
    ----------
    audit : Audit
        Its own partition is the reference. Partitions by text and the shared one are given the
        same number of subdomains, so that only the similarity differs.
    encoder : str
        Sentence encoder; see :func:`~harmony_utils.embedding.embed_texts`.
    max_items : int
        Questions compared at most.
    random_state : int
        Seed of the sample and of the random partition.

    Returns
    -------
    Competitors
        ``predictive similarity`` (the audit's own); ``random, same sizes``; ``MiniLM sentences``
        and ``TF-IDF words`` (clusters of question and correct answer); ``subjects``;
        ``words in the answer`` (number of words of the correct option, rare numbers put together);
        one for each other whole model audited on the same questions with the same settings (up to
        :data:`MAX_PEERS`, in alphabetical order); and one ``shared by N models``: clusters of the
        mean similarity where all kept their divergences, else of how many models put two questions
        together.

    Raises
    ------
    InputError
        If the audit itself cannot be finished. A competitor that cannot be had is left out, and
        the reason is kept.
    """
    n_items = len(audit.benchmark)
    items = np.arange(n_items)
    if n_items > max_items:
        rng = np.random.default_rng(random_state)
        items = np.sort(rng.choice(n_items, max_items, replace=False))
    own = canonical_labels(audit.clustering().labels[items])
    chosen = [audit.benchmark.items[i] for i in items]
    texts = item_texts(chosen)
    clusters = _clusterer(audit, int(own.max()) + 1)
    peers = [run for run in audit.peers() if run.record["audit"]["model"].get("layer") is None]
    encoder_name = encoder.rpartition("/")[2] if encoder else "MiniLM"
    makers: dict[str, Callable[[], np.ndarray]] = {
        "random, same sizes": lambda: random_partition(np.bincount(own), random_state).labels,
        f"{encoder_name} sentences": lambda: clusters(
            text_affinity(embed_texts(texts, encoder=encoder))[0]
        ),
        "TF-IDF words": lambda: clusters(text_affinity(tfidf_vectors(texts))[0]),
        "subjects": lambda: _subjects([item.subject for item in chosen]),
        "words in the answer": lambda: length_groups([len(item.answer.split()) for item in chosen]),
        **{
            f"answers of {run.folder.name}": lambda run=run: _labels(audit, run)[items]
            for run in peers[:MAX_PEERS]
        },
        _shared_name(peers): lambda: clusters(_shared(audit, peers, items)),
    }
    reference = "predictive similarity"
    labels, left_out = {reference: own}, {}
    for name, make in makers.items():
        try:
            labels[name] = _usable(make())
        except InputError as error:
            left_out[name] = str(error)
    groups = audit.groups()
    return Competitors(
        items, reference, labels, left_out, None if groups is None else groups[items]
    )


def _clusterer(audit: Audit, n_clusters: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from affinity to labels, with the settings of the audit's clustering."""
    settings = audit.settings("clustering")

    def clusters(affinity: np.ndarray) -> np.ndarray:
        if n_clusters >= check_affinity(affinity):
            raise InputError(f"{n_clusters} subdomains need more than {len(affinity)} questions")
        return cluster_affinity(
            affinity,
            n_clusters,
            assign_labels=settings.assign_labels,
            n_init=settings.n_init,
            random_state=settings.random_state,
        )

    return clusters


def _usable(labels: np.ndarray) -> np.ndarray:
    """Return canonical labels; refuse a partition that divides nothing."""
    canonical = canonical_labels(labels)
    if canonical.max() < 1:
        raise InputError("it would put all questions together")
    return canonical


def _subjects(subjects: list[str | None]) -> np.ndarray:
    missing = sum(subject is None for subject in subjects)
    if missing:
        raise InputError(f"{missing} of {len(subjects)} questions have no subject")
    return canonical_labels(subjects)


def _labels(audit: Audit, run: Run) -> np.ndarray:
    """Return the subdomain of every question of the audit in another run."""
    table = pd.read_parquet(run.path("partition.parquet")).set_index("key")
    return table.loc[audit.benchmark.keys(), "label"].to_numpy()


def _shared_name(peers: list[Run]) -> str:
    return f"shared by {len(peers) + 1} models" if peers else "other models"


def _shared(audit: Audit, peers: list[Run], items: np.ndarray) -> np.ndarray:
    """Return the mean similarity over models, or how many of them put two questions together."""
    if not peers:
        raise InputError("none was audited on the same questions with the same settings")
    runs = [audit.run, *peers]
    if all(run.path("divergence.npy").exists() for run in runs):
        return shared_affinity(_similarity(run, items) for run in runs)
    return shared_affinity(co_membership(_labels(audit, run)[items]) for run in runs)


def _similarity(run: Run, items: np.ndarray) -> np.ndarray:
    divergence = np.load(run.path("divergence.npy"), mmap_mode="r")[np.ix_(items, items)]
    temperature = read_json(run.path("affinity.json"))["temperature"]
    return affinity_from_divergence(divergence, temperature=temperature)[0]
