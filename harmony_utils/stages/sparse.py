"""The affinity of a benchmark with too many questions for all pairs.

Every pair is compared, but only the links of each question to its most similar ones are kept, and
all pairs of a sample of questions, for whatever needs distances: temperature, silhouettes, figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.files import write_array
from harmony_utils.neighbours import graph_of_links, links_of_graph, nearest_divergences
from harmony_utils.pairs import sample_items
from harmony_utils.settings import SPARSE_NEIGHBOURS
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.stages.results import Affinity, recorded_sparse_affinity

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit

NEAREST, SAMPLE = "divergence-nearest.npy", "divergence-sample.npy"


def write_divergences(audit: Audit) -> None:
    """Compute and write the links of all questions and the pairs of a sample."""
    distributions, floor = audit.distributions(), audit.settings("affinity").floor
    graph = nearest_divergences(distributions, audit.links_kept, floor=floor)
    write_array(audit.run.path(NEAREST), links_of_graph(graph))
    items = sample_items(len(distributions))
    sampled = jeffreys_divergence(distributions[items], floor=floor)
    write_array(audit.run.path(SAMPLE), sampled)


def load_affinity(audit: Audit, *, temperature: float) -> Affinity:
    """Return what :func:`write_divergences` kept, as similarities."""
    n_items = len(audit.benchmark)
    graph = graph_of_links(np.load(audit.run.path(NEAREST)), n_items)
    sampled = np.load(audit.run.path(SAMPLE), mmap_mode="r")
    return Affinity(
        divergence=sampled,
        affinity=affinity_from_divergence(graph, temperature=temperature)[0],
        temperature=temperature,
        similarity=affinity_from_divergence(sampled, temperature=temperature)[0],
        items=sample_items(n_items),
    )


def warnings(audit: Audit) -> list[str]:
    """Return what a reader of the subdomains must know where only links are kept."""
    if not audit.links_kept:
        return []
    n_items = len(audit.benchmark)
    n_measured = len(sample_items(n_items))
    table = recorded_sparse_affinity()
    usual = table[(table["part"] == "compare") & (table["neighbours"] == SPARSE_NEIGHBOURS)].iloc[0]
    sample = f"; silhouettes are those of {n_measured:,} of {n_items:,} questions"
    return [
        f"clustered on each question's {audit.links_kept} most similar questions, not on all "
        "pairs, so number and borders of the subdomains can be others: where both were compared, "
        f"on {usual.n_items:,} questions with {SPARSE_NEIGHBOURS} neighbours, their adjusted "
        f"mutual information was {usual.ami:.2f}; audit a sample with all pairs, too (--limit)"
        + (sample if n_measured < n_items else "")
    ]


def needs_all_pairs(audit: Audit, what: str, instead: str) -> None:
    """Refuse what takes all pairs, in an audit that keeps only links.

    Raises
    ------
    InputError
        With what can be done instead.
    """
    if audit.links_kept:
        raise InputError(
            f"{what} needs all pairs of questions, and of more than "
            f"{audit.settings('affinity').all_pairs_up_to:,} (affinity.all_pairs_up_to) only the "
            f"{audit.links_kept} most similar to each are kept; {instead}"
        )
