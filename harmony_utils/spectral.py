"""What spectral clustering needs of an affinity: eigenvectors, k-means, silhouettes."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans

# The same code as SpectralClustering(assign_labels=…), which would compute the eigenvectors again
# for every number of clusters; the functions are not exported.
from sklearn.cluster._spectral import cluster_qr, discretize
from sklearn.metrics import silhouette_score

from harmony_utils.errors import InputError
from harmony_utils.graph import AnyAffinity
from harmony_utils.landmarks import LandmarkAffinity
from harmony_utils.settings import AssignLabels
from harmony_utils.similarity import EDGE_FLOOR

DENSE_ITEMS = 2000
"""Up to this many items the eigenproblem is solved densely; above, by Lanczos iterations."""

_CHUNK = 512


def spectral_embedding(
    affinity: AnyAffinity, *, n_components: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first eigenvectors of the normalised Laplacian; one call serves every k.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Symmetric, non-negative. The diagonal does not count, except for an item similar to no
        other, which then stands alone. In a sparse one, pairs that are not stored have 0; a
        :class:`~harmony_utils.landmarks.LandmarkAffinity` is not multiplied out.
    n_components : int
        Number of eigenvectors, at most ``n_items``.

    Returns
    -------
    eigenvalues : ndarray of shape (n_components,)
        Of ``I - D^(-1/2) S D^(-1/2)``, rising from 0 and at most 2.
    eigenvectors : ndarray of shape (n_items, n_components)
        In the same order. The entry of largest size in each is positive (the first of equals), so
        signs do not depend on the solver.

    Raises
    ------
    InputError
        If more components than items are asked for.

    Examples
    --------
    Two parts that share nothing have two eigenvalues of 0.

    >>> import numpy as np
    >>> spectral_embedding(np.kron(np.eye(2), np.ones((2, 2))), n_components=3)[0].round(6).tolist()
    [0.0, 0.0, 2.0]
    """
    n_items = affinity.shape[0]
    if not 1 <= n_components <= n_items:
        raise InputError(f"n_components {n_components}: must lie between 1 and the {n_items} items")
    own = affinity.diagonal().astype(np.float64)
    degrees = affinity.sum(axis=1, dtype=np.float64) - own
    alone = degrees <= EDGE_FLOOR
    scale = 1 / np.sqrt(np.where(alone, 1, degrees))
    diagonal = np.where(alone, 1, 0)
    if n_items <= DENSE_ITEMS:
        dense = affinity if isinstance(affinity, np.ndarray) else affinity.toarray()
        matrix = dense * scale * scale[:, None]
        np.fill_diagonal(matrix, diagonal)
        values, vectors = _largest(matrix, n_components)
    else:
        values, vectors = _lanczos(affinity, scale, diagonal - own * scale**2, n_components)
    values, vectors = values[::-1], vectors[:, ::-1]
    peaks = np.argmax(np.abs(vectors) > np.abs(vectors).max(axis=0) - 1e-9, axis=0)
    signs = np.where(vectors[peaks, np.arange(n_components)] < 0, -1, 1)
    return np.maximum(1 - values, 0), vectors * signs


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Divide each row by its length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def affinity_silhouette(affinity: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean silhouette under the distance ``1 - affinity``.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Symmetric similarities.
    labels : ndarray of shape (n_items,), int
        Cluster of each item; at least two different ones.

    Returns
    -------
    float
        Between -1 and 1; higher is better. An item alone in its cluster counts 0 (Rousseeuw 1987).

    Examples
    --------
    >>> import numpy as np
    >>> affinity_silhouette(np.kron(np.eye(2), np.ones((2, 2))), np.array([0, 0, 1, 1]))
    1.0
    """
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(labels)
    members = np.eye(len(sizes), dtype=affinity.dtype)[labels]
    sums = (affinity @ members).astype(np.float64)
    items = np.arange(len(labels))
    own_size = sizes[labels]
    own_sum = sums[items, labels] - affinity.diagonal()
    within = 1 - own_sum / np.maximum(own_size - 1, 1)
    between = 1 - sums / sizes
    between[items, labels] = np.inf
    nearest = between.min(axis=1)
    largest = np.maximum(within, nearest)
    scores = np.where(largest > 0, (nearest - within) / np.where(largest > 0, largest, 1), 0)
    return float(np.where(own_size > 1, scores, 0).mean())


def mean_silhouettes(
    vectors: np.ndarray,
    solutions: dict[int, np.ndarray],
    similarity: np.ndarray | None,
    *,
    items: np.ndarray | None = None,
) -> dict[int, float]:
    """Return the mean silhouette of each solution; see :func:`affinity_silhouette`.

    Parameters
    ----------
    vectors : ndarray of shape (n_items, n_components)
        Eigenvectors, used where ``similarity`` is None.
    solutions : dict of int to ndarray
        Number of clusters asked for → labels from 0 without gaps.
    similarity : ndarray of shape (n_measured, n_measured) or None
        ``1 - similarity`` is the distance; None takes that of the rows of the first k vectors.
    items : ndarray of shape (n_measured,), int, optional
        Items that are measured, and that ``similarity`` is between; all if not given.

    Returns
    -------
    dict of int to float
        -1, the worst, where all items ended in one cluster, for which there is no silhouette.
    """
    measured = slice(None) if items is None else items
    found = {}
    for k, solution in solutions.items():
        labels = solution[measured]
        if len(np.unique(labels)) < 2:
            found[k] = -1.0
        elif similarity is None:
            found[k] = float(silhouette_score(unit_rows(vectors[measured, :k]), labels))
        else:
            found[k] = affinity_silhouette(similarity, labels)
    return found


def k_means(rows: np.ndarray, n_clusters: int, *, n_init: int, random_state: int) -> np.ndarray:
    """Return k-means labels; the k eigenvectors span k directions, so no cluster is empty."""
    return KMeans(n_clusters, n_init=n_init, random_state=random_state).fit_predict(rows)


def assign_clusters(
    vectors: np.ndarray,
    *,
    assign_labels: AssignLabels = "kmeans",
    n_init: int = 10,
    random_state: int = 0,
) -> np.ndarray:
    """Turn the first k eigenvectors into at most k clusters.

    Parameters
    ----------
    vectors : ndarray of shape (n_items, k)
        From :func:`spectral_embedding`, k at least 2.
    assign_labels : {"kmeans", "cluster_qr", "discretize"}
        ``kmeans`` on rows of length 1 (Ng, Jordan & Weiss 2001). ``cluster_qr`` (Damle, Minden &
        Ying 2019) knows no seed and no restart: take it to be rid of both. ``discretize`` (Yu &
        Shi 2003) turns the vectors towards a 0/1 table. The source of HARMONY names none.
    n_init : int
        Restarts of k-means.
    random_state : int
        Seed; without effect on ``cluster_qr``.

    Returns
    -------
    ndarray of shape (n_items,), int
        Labels without gaps from 0, in no special order. k-means fills all k clusters; the others
        may leave some empty, and the labels are then fewer.

    Raises
    ------
    InputError
        For another name.

    Examples
    --------
    >>> vectors = spectral_embedding(np.kron(np.eye(2), np.ones((3, 3))), n_components=2)[1]
    >>> labels = assign_clusters(vectors, assign_labels="cluster_qr")
    >>> len(set(labels[:3])), len(set(labels))
    (1, 2)
    """
    n_clusters = vectors.shape[1]
    if assign_labels == "kmeans":
        found = k_means(unit_rows(vectors), n_clusters, n_init=n_init, random_state=random_state)
    elif assign_labels == "cluster_qr":
        found = cluster_qr(vectors)
    elif assign_labels == "discretize":
        # a row of zeros, of an item that these vectors do not reach, would be divided by 0
        nothing = ~vectors.any(axis=1, keepdims=True)
        found = discretize(np.where(nothing, 1e-12, vectors), random_state=random_state)
    else:
        raise InputError(
            f"assign_labels {assign_labels!r}: choose kmeans or cluster_qr or discretize"
        )
    return np.unique(found, return_inverse=True)[1]


def cluster_affinity(
    affinity: AnyAffinity,
    n_clusters: int,
    *,
    assign_labels: AssignLabels = "kmeans",
    n_init: int = 10,
    random_state: int = 0,
) -> np.ndarray:
    """Return spectral clusters of an affinity for one given number, and nothing else.

    The clusters of :func:`~harmony_utils.partition.spectral_partition`, without its checks and
    reports: for when many affinities have to be clustered.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Must pass :func:`~harmony_utils.graph.check_affinity`.
    n_clusters : int
        At least 2, fewer than items.
    assign_labels, n_init, random_state
        As in :func:`assign_clusters`.

    Returns
    -------
    ndarray of shape (n_items,), int
        Labels 0 to k-1 in no special order.

    Examples
    --------
    >>> labels = cluster_affinity(np.kron(np.eye(2), np.ones((3, 3))), 2)
    >>> len(set(labels[:3])), len(set(labels))
    (1, 2)
    """
    vectors = spectral_embedding(affinity, n_components=n_clusters)[1]
    return assign_clusters(
        vectors, assign_labels=assign_labels, n_init=n_init, random_state=random_state
    )


def central_items(
    affinity: AnyAffinity, labels: np.ndarray, *, n_items: int = 3
) -> list[np.ndarray]:
    """Return the items most similar, on average, to the others of their subdomain.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Symmetric similarities; in a sparse one, pairs that are not stored have 0.
    labels : ndarray of shape (n_items,), int
        Subdomains 0 to k-1, none empty.
    n_items : int
        Items wanted of each subdomain, at least 1; a smaller subdomain gives all it has.

    Returns
    -------
    list of ndarray of int
        Item numbers per subdomain, the most central first; of equals the first item comes first.
        They show what a subdomain is like at its middle, not how far it reaches.

    Raises
    ------
    InputError
        If ``n_items`` is below 1 or labels and affinity do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> affinity = np.array([[1, 0.9, 0.8, 0], [0.9, 1, 0.2, 0], [0.8, 0.2, 1, 0], [0, 0, 0, 1]])
    >>> [found.tolist() for found in central_items(affinity, np.array([0, 0, 0, 1]), n_items=2)]
    [[0, 1], [3]]
    """
    if n_items < 1 or affinity.shape != (len(labels), len(labels)):
        raise InputError(
            f"central items: {n_items} wanted, {len(labels)} labels for an affinity of shape "
            f"{affinity.shape}; want at least 1 and give one label per item"
        )
    found = []
    own, factored = affinity.diagonal(), isinstance(affinity, LandmarkAffinity)
    for label in range(int(np.max(labels)) + 1):
        inside = labels == label
        members = np.flatnonzero(inside)
        if factored:
            sums = (affinity @ inside.astype(np.float32))[members]
        else:
            sums = _sums_among(affinity, members)
        closeness = sums - own[members]
        found.append(members[np.argsort(-closeness, kind="stable")[:n_items]])
    return found


def _sums_among(affinity: np.ndarray | csr_array, members: np.ndarray) -> np.ndarray:
    """Return the similarity of each member to all members, summed, a band of rows at a time."""
    bands = [members[start : start + _CHUNK] for start in range(0, len(members), _CHUNK)]
    return np.concatenate(
        [affinity[np.ix_(band, members)].sum(axis=1, dtype=np.float64) for band in bands]
    )


def _largest(matrix: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenpairs of a symmetric matrix, rising.

    LAPACK's fast way to some of them gives up, or loses eigenvectors, where many eigenvalues are
    equal, as with clean blocks or copies of items; then all are computed.
    """
    n_items = len(matrix)
    subset = (n_items - n_components, n_items - 1)
    try:
        values, vectors = eigh(matrix, subset_by_index=subset, check_finite=False)
    except LinAlgError:
        values = np.empty(0)
    if len(values) < n_components:
        values, vectors = eigh(matrix, driver="evd", check_finite=False)
    return values[-n_components:], vectors[:, -n_components:]


def _lanczos(
    affinity: AnyAffinity, scale: np.ndarray, diagonal: np.ndarray, n_components: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenpairs, rising, without a second matrix of the affinity's size."""
    # the factors are in single precision already
    factored = isinstance(affinity, LandmarkAffinity)
    single = affinity if factored else affinity.astype(np.float32, copy=False)

    def multiply(vector: np.ndarray) -> np.ndarray:
        vector = vector.ravel()
        product = single @ (scale * vector).astype(np.float32)
        return scale * product + diagonal * vector

    start = np.random.default_rng(0).normal(size=affinity.shape[0])
    operator = LinearOperator(affinity.shape, matvec=multiply, dtype=np.float64)
    values, vectors = eigsh(
        operator, k=n_components, which="LA", v0=start, tol=1e-6, ncv=max(64, 3 * n_components)
    )
    order = np.argsort(values)
    return values[order], vectors[:, order]
