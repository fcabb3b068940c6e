"""The affinity of a benchmark with too many questions for all pairs.

By default each question is compared with some questions drawn at random, the landmarks, which
stand for all. With ``neighbours`` every pair is compared, but only the links of each question to
its most similar ones are kept, and all pairs of a sample. Landmarks or sample serve whatever needs
distances: temperature, silhouettes, figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.format import open_memmap

from harmony_utils.errors import InputError
from harmony_utils.files import write_array, write_atomically
from harmony_utils.graph import AnyAffinity
from harmony_utils.landmarks import LandmarkAffinity, landmark_affinity, landmark_divergences
from harmony_utils.neighbours import graph_of_links, links_of_graph, nearest_divergences
from harmony_utils.pairs import SAMPLE_ITEMS, sample_items
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.stages.results import Affinity, recorded_large_affinity

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit

NEAREST, SAMPLE, TO_LANDMARKS = (
    "divergence-nearest.npy",
    "divergence-sample.npy",
    "divergence-landmarks.npy",
)
FILES = {"landmarks": (TO_LANDMARKS,), "neighbours": (NEAREST, SAMPLE)}
"""Files that stand for all pairs, by what does."""


def measured_items(audit: Audit) -> np.ndarray:
    """Return the items of which all pairs are known: the landmarks, or a sample."""
    size = audit.reduced.get("landmarks", SAMPLE_ITEMS)
    seed = audit.reduced["random_state"]
    return sample_items(len(audit.benchmark), size=size, random_state=seed)


def write_divergences(audit: Audit) -> None:
    """Compute and write what stands for all pairs."""
    distributions, floor = audit.distributions(), audit.settings("affinity").floor
    items = measured_items(audit)
    if "landmarks" in audit.reduced:
        shape = (len(distributions), len(items))

        def write(temporary: Path) -> None:
            out = open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
            landmark_divergences(distributions, items, floor=floor, out=out)
            out.flush()

        write_atomically(audit.run.path(TO_LANDMARKS), write)
        return
    graph = nearest_divergences(distributions, audit.reduced["neighbours"], floor=floor)
    write_array(audit.run.path(NEAREST), links_of_graph(graph))
    write_array(audit.run.path(SAMPLE), jeffreys_divergence(distributions[items], floor=floor))


def sampled_divergence(audit: Audit) -> np.ndarray:
    """Return the divergences of all pairs of :func:`measured_items`."""
    if "landmarks" in audit.reduced:
        return np.load(audit.run.path(TO_LANDMARKS), mmap_mode="r")[measured_items(audit)]
    return np.load(audit.run.path(SAMPLE), mmap_mode="r")


def load_affinity(audit: Audit, *, temperature: float) -> Affinity:
    """Return what :func:`write_divergences` kept, as similarities."""
    items, sampled = measured_items(audit), sampled_divergence(audit)
    if "landmarks" in audit.reduced:
        known = np.load(audit.run.path(TO_LANDMARKS), mmap_mode="r")
        affinity, _ = landmark_affinity(known, items, temperature=temperature)
    else:
        graph = graph_of_links(np.load(audit.run.path(NEAREST)), len(audit.benchmark))
        affinity, _ = affinity_from_divergence(graph, temperature=temperature)
    similarity, _ = affinity_from_divergence(sampled, temperature=temperature)
    return Affinity(sampled, affinity, temperature, similarity, items)


def warnings(audit: Audit, affinity: AnyAffinity) -> list[str]:
    """Return what a reader of the subdomains must know where not all pairs are kept."""
    if not audit.reduced:
        return []
    n_items, n_measured = len(audit.benchmark), len(measured_items(audit))
    what, number = next(iter(audit.reduced.items()))
    how = {
        "landmarks": f"clustered through {number:,} landmarks that each question was compared with",
        "neighbours": f"clustered on each question's {number:,} most similar questions",
    }[what]
    table = recorded_large_affinity()
    rows = table[(table["part"] == "compare") & (table["route"] == what)]
    usual = rows.loc[(rows["number"] - number).abs().idxmin()]
    found = [
        f"{how}, not on all pairs, so number and borders of the subdomains can be others: where "
        f"both were compared, on {usual.n_items:,} questions with {usual.number:,} {what}, their "
        f"adjusted mutual information was {usual.ami:.2f}; audit a sample with all pairs, too "
        "(--limit)"
    ]
    if n_measured < n_items:
        found.append(f"silhouettes are those of {n_measured:,} of {n_items:,} questions")
    n_alone = affinity.n_alone if isinstance(affinity, LandmarkAffinity) else 0
    if n_alone:
        found.append(
            f"{n_alone:,} questions are similar to no landmark and stand alone; "
            "raise affinity.landmarks"
        )
    return found


def needs_all_pairs(audit: Audit, what: str, instead: str) -> None:
    """Refuse what takes all pairs, in an audit that does not keep them.

    Raises
    ------
    InputError
        With what can be done instead.
    """
    if audit.reduced:
        raise InputError(
            f"{what} needs all pairs of questions, which are not kept of more than "
            f"{audit.settings('affinity').all_pairs_up_to:,} (affinity.all_pairs_up_to); {instead}"
        )
