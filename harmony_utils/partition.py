"""From similarity to subdomains: spectral clustering, and partitions to compare it with."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.graph import AnyAffinity, check_affinity, connected_components
from harmony_utils.labels import canonical_labels, canonical_with_names, refuse_missing
from harmony_utils.settings import AssignLabels
from harmony_utils.spectral import (
    assign_clusters,
    central_items,
    mean_silhouettes,
    spectral_embedding,
)
from harmony_utils.stability import resample_agreement, seed_stability

__all__ = [
    "REPEATABLE_ARI",
    "STABLE_ARI",
    "TINY_SIZE",
    "Partition",
    "canonical_labels",
    "central_items",
    "choose_number",
    "numbers_tried",
    "partition_from_labels",
    "random_partition",
    "spectral_partition",
]

STABLE_ARI = 0.8
"""Mean agreement between seeds (adjusted Rand index) below which a partition is called unstable."""

REPEATABLE_ARI = 0.85
"""Mean agreement between resamples of items (adjusted Rand index) that ``selection="stability"``
asks of a number of clusters; our choice, compared with others in the chapter on validation."""

TINY_SIZE = 5
"""A subdomain with fewer items than this is called tiny: its accuracy says next to nothing."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Items divided into subdomains, and how that came about.

    Parameters
    ----------
    labels : ndarray of shape (n_items,), int
        Canonical subdomain of each item; see :func:`~harmony_utils.labels.canonical_labels`.
    n_clusters : int
        Number of subdomains.
    sizes : tuple of int
        Items in each subdomain, largest first. None is empty.
    selected_by : str
        ``silhouette``, ``eigengap``, ``stability``, ``given`` (number), ``labels`` or ``random``.
    names : tuple of str
        Name of each subdomain if the labels had names; else empty.
    silhouettes : dict of int to float
        Mean silhouette of each number of clusters tried, between -1 and 1; higher is better.
    stabilities : dict of int to float
        Mean agreement of resamples of items for each number tried, if ``stability`` selected.
    eigenvalues : tuple of float
        Smallest eigenvalues of the normalised Laplacian, rising from 0; a jump after the k-th
        speaks for k clusters.
    stability : dict of str to float
        ``mean_ari`` and ``min_ari``, agreement between k-means runs that differ only in their
        seed (1 is identical), and ``n_seeds``; that says nothing about other questions. An audit
        adds what :func:`~harmony_utils.stability.resample_stability` gives, or ``n_resamples``
        of 0 where it was not computed.
    n_components : int
        Parts of the affinity that share no similarity; 0 where there is no affinity.
    n_measured : int
        Items in the random sample that silhouettes were measured on; 0 where they are of all.
    warnings : tuple of str
        What a reader of the partition must know; empty if nothing.
    """

    labels: np.ndarray
    n_clusters: int
    sizes: tuple[int, ...]
    selected_by: str
    names: tuple[str, ...] = ()
    silhouettes: dict[int, float] = field(default_factory=dict)
    stabilities: dict[int, float] = field(default_factory=dict)
    eigenvalues: tuple[float, ...] = ()
    stability: dict[str, float] = field(default_factory=dict)
    n_components: int = 0
    n_measured: int = 0
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, labels included."""
        plain = asdict(self)
        plain["labels"] = self.labels.tolist()
        for name in ("silhouettes", "stabilities"):
            plain[name] = {str(k): value for k, value in plain[name].items()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Partition:
        """Rebuild a partition from :meth:`to_dict`, also after a round trip through JSON."""
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        plain["labels"] = np.asarray(values["labels"], dtype=np.int64)
        for name in ("silhouettes", "stabilities"):
            plain[name] = {int(k): value for k, value in values.get(name, {}).items()}
        return cls(**plain)


def spectral_partition(
    affinity: AnyAffinity,
    *,
    n_clusters: int = 0,
    min_clusters: int = 2,
    max_clusters: int = 20,
    selection: Literal["silhouette", "eigengap", "stability"] = "silhouette",
    silhouette_distance: Literal["affinity", "embedding"] = "affinity",
    assign_labels: AssignLabels = "kmeans",
    n_init: int = 10,
    n_stability: int = 10,
    random_state: int = 0,
    similarity: np.ndarray | None = None,
    items: np.ndarray | None = None,
) -> Partition:
    """Divide items into subdomains by spectral clustering.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Symmetric similarities between 0 and 1; see
        :func:`~harmony_utils.similarity.affinity_from_divergence` and, for very many items,
        :func:`~harmony_utils.landmarks.landmark_affinity`.
    n_clusters : int
        Number of subdomains; 0 lets ``selection`` choose. The silhouettes are reported either way.
    min_clusters, max_clusters : int
        Numbers tried, both included. The largest is cut to ``n_items - 1``.
    selection : {"silhouette", "eigengap", "stability"}
        ``silhouette`` takes the number with the highest mean silhouette, as the paper does.
        ``eigengap`` takes the number before the widest jump of the eigenvalues: try it where
        silhouettes hardly differ. ``stability`` takes the largest number that other samples of
        the items would give again (:data:`REPEATABLE_ARI` or more on average), or, if there is
        none, the one that comes nearest to that. Ties go to the smaller number.
    silhouette_distance : {"affinity", "embedding"}
        Distance behind the silhouettes: ``1 - affinity``, or Euclidean between the rows that
        k-means sees. The paper's is not known to us; the second favours many clusters.
    assign_labels, n_init
        As in :func:`~harmony_utils.spectral.assign_clusters`.
    n_stability : int
        Further seeds whose partitions are compared at the chosen number.
    random_state : int
        Seed.
    similarity : ndarray of shape (n_measured, n_measured), optional
        What silhouettes are measured on where ``affinity`` has lost links by
        :func:`~harmony_utils.neighbours.nearest_neighbours`: a cut link is not a distance.
    items : ndarray of shape (n_measured,), int, optional
        The items that ``similarity`` is between, if not all: silhouettes are then those of these
        items within the sample. Needed where ``affinity`` is no whole matrix.

    Returns
    -------
    Partition
        Canonical labels and how they were found.

    Raises
    ------
    InputError
        With fewer than three items, at least as many clusters as items, an affinity that is not
        symmetric, finite and non-negative, or one that is the same for all pairs. An affinity in
        unconnected parts is clustered all the same, with a warning in the result.

    Notes
    -----
    Spectral clustering on predictive similarity with the number of clusters chosen by silhouette
    between 2 and 20: Uzunoglu, Li & Khashabi, *The Flaw of Averages*, arXiv 2509.25671. Laplacian,
    row normalisation and k-means follow Ng, Jordan & Weiss (2001); that is our choice. Clusters are
    found even where there are none: read the silhouettes and the stability.

    Examples
    --------
    Two blocks that share no similarity come out as two subdomains.

    >>> import numpy as np
    >>> found = spectral_partition(np.kron(np.eye(2), np.ones((3, 3))), max_clusters=3)
    >>> found.labels.tolist(), found.n_components
    ([0, 0, 0, 1, 1, 1], 2)
    """
    _check_choice("selection", selection, ("silhouette", "eigengap", "stability"))
    _check_choice("silhouette_distance", silhouette_distance, ("affinity", "embedding"))
    n_items = check_affinity(affinity)
    _check_measured(affinity, similarity, items)
    candidates = numbers_tried(n_items, n_clusters, min_clusters, max_clusters)
    eigenvalues, vectors = spectral_embedding(
        affinity, n_components=min(max(candidates) + 1, n_items)
    )
    assign = {"assign_labels": assign_labels, "n_init": n_init, "random_state": random_state}
    solutions = {k: assign_clusters(vectors[:, :k], **assign) for k in candidates}
    measured = None if silhouette_distance == "embedding" else affinity
    if similarity is not None and measured is not None:
        measured = similarity
    silhouettes = mean_silhouettes(vectors, solutions, measured, items=items)
    stabilities: dict[int, float] = {}
    if selection == "stability" and not n_clusters:
        stabilities = resample_agreement(affinity, candidates, random_state=random_state)
    chosen = n_clusters or choose_number(selection, silhouettes, eigenvalues, stabilities)
    labels = canonical_labels(solutions[chosen])
    sizes = tuple(np.bincount(labels).tolist())
    if len(sizes) < 2:
        raise InputError(
            f"{assign_labels} put all {n_items} items into one subdomain; choose another "
            "clustering.assign_labels or number of subdomains"
        )
    stability = seed_stability(vectors[:, :chosen], n_seeds=n_stability, **assign)
    n_components = connected_components(affinity)
    return Partition(
        labels=labels,
        n_clusters=len(sizes),
        sizes=sizes,
        selected_by="given" if n_clusters else selection,
        silhouettes=silhouettes,
        stabilities=stabilities,
        eigenvalues=tuple(eigenvalues.tolist()),
        stability=stability,
        n_components=n_components,
        n_measured=0 if items is None else len(items),
        warnings=_warnings(
            sizes,
            stability,
            n_components,
            at_edge=not n_clusters and chosen == max(candidates),
            n_empty=chosen - len(sizes),
        ),
    )


def _check_measured(
    affinity: AnyAffinity, similarity: np.ndarray | None, items: np.ndarray | None
) -> None:
    if similarity is None:
        if not isinstance(affinity, np.ndarray):
            raise InputError(
                "affinity: one that is not of all pairs does not say how far apart any two items "
                "are; give the similarity of a sample of them, and which items they are"
            )
        return
    n_measured = affinity.shape[0] if items is None else len(items)
    if similarity.shape != (n_measured, n_measured):
        raise InputError(
            f"similarity of shape {similarity.shape} for {n_measured} items: give that of all "
            "items, or of those named in items"
        )


def choose_number(
    selection: str,
    silhouettes: dict[int, float],
    eigenvalues: np.ndarray,
    stabilities: dict[int, float] | None = None,
) -> int:
    """Return the best number of clusters among those that were tried.

    Parameters
    ----------
    selection : {"silhouette", "eigengap", "stability"}
        The rule; see :func:`spectral_partition`.
    silhouettes : dict of int to float
        Mean silhouette of each number tried, in rising order of the numbers.
    eigenvalues : ndarray
        Smallest eigenvalues of the Laplacian, rising, at least one more than the largest number.
    stabilities : dict of int to float, optional
        Agreement of resamples for each number; needed for ``stability``.

    Returns
    -------
    int
        Ties go to the smaller number, for ``stability`` only where none is stable.

    Examples
    --------
    >>> choose_number("silhouette", {2: 0.4, 3: 0.4, 4: 0.1}, np.zeros(5))
    2
    >>> choose_number("eigengap", {2: 0.4, 3: 0.4}, np.array([0, 0.1, 0.2, 0.9]))
    3
    """
    if selection == "silhouette":
        return max(silhouettes, key=silhouettes.__getitem__)
    if selection == "stability":
        stable = [k for k, agreement in stabilities.items() if agreement >= REPEATABLE_ARI]
        return max(stable) if stable else max(stabilities, key=stabilities.__getitem__)
    return max(silhouettes, key=lambda k: eigenvalues[k] - eigenvalues[k - 1])


def partition_from_labels(labels: Sequence[Hashable] | np.ndarray) -> Partition:
    """Make a partition of labels that exist already, such as subjects.

    Parameters
    ----------
    labels : sequence, length n_items
        A name or number per item.

    Returns
    -------
    Partition
        With ``names`` in the canonical order of the subdomains.

    Raises
    ------
    InputError
        If there are none, one is missing (None or NaN), or all are the same.

    Examples
    --------
    >>> found = partition_from_labels(["law", "logic", "law"])
    >>> found.names, found.sizes
    (('law', 'logic'), (2, 1))
    """
    refuse_missing(labels, "labels", "label every item or choose another partition")
    canonical, names = canonical_with_names(labels)
    if len(names) < 2:
        raise InputError(
            f"labels: {len(names)} different label(s) on {len(labels)} items; give at least two"
        )
    sizes = tuple(np.bincount(canonical).tolist())
    return Partition(canonical, len(sizes), sizes, "labels", tuple(str(name) for name in names))


def random_partition(sizes: Sequence[int], random_state: int = 0) -> Partition:
    """Assign items to subdomains of given sizes at random: a baseline without meaning.

    Parameters
    ----------
    sizes : sequence of int
        Items of each subdomain; at least two, all positive.
    random_state : int
        Seed.

    Returns
    -------
    Partition
        Of ``sum(sizes)`` items.

    Raises
    ------
    InputError
        With fewer than two sizes, or one below 1.

    Examples
    --------
    >>> random_partition([1, 3]).sizes
    (3, 1)
    """
    counts = np.asarray(sizes)
    if counts.ndim != 1 or len(counts) < 2 or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise InputError(f"sizes {list(sizes)}: give at least two whole numbers of at least 1")
    shuffled = np.random.default_rng(random_state).permutation(
        np.repeat(range(len(counts)), counts)
    )
    labels = canonical_labels(shuffled)
    return Partition(labels, len(counts), tuple(np.bincount(labels).tolist()), "random")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} {value!r}: choose {' or '.join(choices)}")


def numbers_tried(n_items: int, n_clusters: int, smallest: int, largest: int) -> list[int]:
    """Return the numbers of clusters to try.

    Parameters
    ----------
    n_items : int
        Number of items.
    n_clusters : int
        Number that is tried in any case; 0 for none.
    smallest, largest : int
        Range, both included; the largest is cut to ``n_items - 1``.

    Returns
    -------
    list of int
        In rising order.

    Raises
    ------
    InputError
        If the number given has no place between 2 and ``n_items - 1``, or nothing is left to try.

    Examples
    --------
    >>> numbers_tried(5, 0, 2, 20)
    [2, 3, 4]
    """
    if n_clusters and not 2 <= n_clusters < n_items:
        raise InputError(
            f"n_clusters {n_clusters}: must be 0 (choose) or lie between 2 and {n_items - 1}, one "
            f"less than the {n_items} items"
        )
    largest = min(largest, n_items - 1)
    if not 2 <= smallest <= largest:
        raise InputError(
            f"min_clusters {smallest}: must lie between 2 and the largest number tried, {largest}"
        )
    return sorted({*range(smallest, largest + 1), *([n_clusters] if n_clusters else [])})


def _warnings(
    sizes: tuple[int, ...],
    stability: dict[str, float],
    n_components: int,
    *,
    at_edge: bool,
    n_empty: int = 0,
) -> tuple[str, ...]:
    found = []
    if n_components > 1:
        found.append(
            f"the items fall into {n_components} parts that share no similarity; "
            "a smaller temperature, or more neighbours or landmarks, would connect them"
        )
    if n_empty:
        found.append(f"{n_empty} of the subdomains asked for got no item and are left out")
    if at_edge:
        found.append(
            f"{len(sizes)} subdomains is the largest number tried; "
            "the selection might have gone on to more"
        )
    if stability["mean_ari"] < STABLE_ARI:
        found.append(
            f"seeds disagree (mean adjusted Rand index {stability['mean_ari']:.2f}): "
            "the subdomains are not to be taken literally"
        )
    tiny = sum(size < TINY_SIZE for size in sizes)
    if tiny:
        found.append(f"{tiny} subdomain(s) with fewer than {TINY_SIZE} items")
    return tuple(found)
