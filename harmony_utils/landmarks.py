"""Affinities known only towards some items, the landmarks, which stand for all pairs (Nyström)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csgraph, csr_array

from harmony_utils.errors import InputError
from harmony_utils.similarity import (
    EDGE_FLOOR,
    CentredBlocks,
    check_divergences,
    resolve_temperature,
)

EIGENVALUE_TOLERANCE = 1e-5
"""Eigenvalues of the landmarks' similarities that are smaller than this share of the largest are
left out: they are rounding, which the inverse would blow up. Our choice; on 5,000 questions of MMLU
1e-8 gave the same agreement with all pairs, 1e-3 with 500 landmarks a lower one of three clusters
(adjusted mutual information 0.95 instead of 1.00)."""

DEGREE_SHARE = 0.1
"""An item's approximate similarity to all others is at least this share of what its mean similarity
to the landmarks speaks for; without that guard it could be 0 or negative."""

_TILE = 1024


@dataclass(frozen=True, eq=False)
class LandmarkAffinity:
    """An affinity of all items in factors: ``features @ diag(signs) @ features.T``.

    It answers what clustering asks of a matrix (``shape``, ``diagonal``, ``sum``, ``@``) in time
    and memory that grow with the number of items, not with its square.

    Parameters
    ----------
    features : ndarray of shape (n_items, rank), float32
        Factors; 0 for an item that is similar to no landmark.
    signs : ndarray of shape (rank,), float32
        1 or -1: similarities need not be positive definite.
    closeness : ndarray of shape (n_items,), float64
        Mean similarity to the landmarks, the item itself left out; 0 where there is none.
    parts : ndarray of shape (n_items,), int
        Part of each item: items of different parts share no similarity, directly or over others.
    lowest, highest : float
        Range of the similarities between an item and another that is a landmark.
    """

    features: np.ndarray
    signs: np.ndarray
    closeness: np.ndarray
    parts: np.ndarray
    lowest: float
    highest: float

    @property
    def shape(self) -> tuple[int, int]:
        """Items by items, as of a matrix."""
        return len(self.features), len(self.features)

    @property
    def n_alone(self) -> int:
        """Number of items that are similar to no landmark."""
        return int((self.closeness == 0).sum())

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        """Multiply with a vector or matrix of ``n_items`` rows."""
        inner = self.features.T @ other
        return self.features @ (inner.T * self.signs).T

    def toarray(self) -> np.ndarray:
        """Return the whole matrix; for few items only."""
        return (self.features * self.signs) @ self.features.T

    def diagonal(self) -> np.ndarray:
        """Return what the factors give for each item with itself."""
        return np.einsum("ij,ij,j->i", self.features, self.features, self.signs, optimize=False)

    def sum(self, axis: int = 1, dtype: type = np.float64) -> np.ndarray:
        """Return the sum of each row, guarded by :data:`DEGREE_SHARE`; symmetric, so any axis."""
        total = self.features.sum(axis=0, dtype=np.float64)
        own = self.diagonal().astype(np.float64)
        others = self.features.astype(np.float64) @ (self.signs * total) - own
        least = DEGREE_SHARE * self.closeness * (len(own) - 1)
        return (np.maximum(others, least) + own).astype(dtype)

    def among(self, items: np.ndarray) -> LandmarkAffinity:
        """Return the affinity of some of the items, in the order given."""
        return LandmarkAffinity(
            self.features[items],
            self.signs,
            self.closeness[items],
            self.parts[items],
            self.lowest,
            self.highest,
        )


def landmark_divergences(
    log_probabilities: np.ndarray,
    landmarks: np.ndarray,
    *,
    floor: float = 1e-10,
    block_size: int = 4096,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the exact Jeffreys divergence of each item to each landmark, tile by tile.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_items, n_outcomes)
        As in :func:`~harmony_utils.similarity.jeffreys_divergence`; may be a memory map.
    landmarks : ndarray of shape (n_landmarks,), int
        Items in rising order, each once; at least 2.
    floor, block_size
        As in :func:`~harmony_utils.similarity.jeffreys_divergence`.
    out : ndarray of shape (n_items, n_landmarks), float32, optional
        Where to write the result; may be a memory map, so that it is never in memory as a whole.

    Returns
    -------
    ndarray of shape (n_items, n_landmarks), float32
        In nats, at least 0; 0 between a landmark and itself. Time and size grow with ``n_items``
        times ``n_landmarks``.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.similarity.jeffreys_divergence`, or for landmarks that are none.

    Examples
    --------
    >>> log_p = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> landmark_divergences(log_p, np.array([0, 2])).astype(float).round(3).tolist()
    [[0.0, 3.516], [0.0, 3.516], [3.516, 0.0]]
    """
    blocks = CentredBlocks(log_probabilities, floor, block_size, tile=_TILE)
    landmarks = _checked_landmarks(landmarks, blocks.n_items)
    shape = (blocks.n_items, len(landmarks))
    found = np.empty(shape, dtype=np.float32) if out is None else out
    theirs = blocks.own_products(landmarks)
    for rows in blocks.tiles:
        cross = np.zeros((rows.stop - rows.start, len(landmarks)), dtype=blocks.precision)
        for block in range(len(blocks.columns)):
            here = np.hstack(blocks.centred(rows, block))
            cross += here @ np.hstack(blocks.centred(landmarks, block)[::-1]).T
        found[rows] = np.maximum(blocks.own_products(rows)[:, None] + theirs - cross, 0)
    found[landmarks, np.arange(len(landmarks))] = 0
    return found


def landmark_affinity(
    divergence: np.ndarray,
    landmarks: np.ndarray,
    *,
    temperature: float | Literal["median"] = "median",
) -> tuple[LandmarkAffinity, float]:
    """Turn divergences to landmarks into an affinity of all items (Nyström).

    With ``C`` the similarities of all items to the landmarks and ``A`` those between landmarks,
    all pairs are taken to be ``C pinv(A) C.T``: two items are as similar as their similarities to
    the landmarks let one expect. Exact where both are landmarks.

    Parameters
    ----------
    divergence : ndarray of shape (n_items, n_landmarks)
        From :func:`landmark_divergences`; may be a memory map.
    landmarks : ndarray of shape (n_landmarks,), int
        The same as there.
    temperature : float or "median"
        As in :func:`~harmony_utils.similarity.affinity_from_divergence`; the median is that over
        pairs of landmarks.

    Returns
    -------
    affinity : LandmarkAffinity
        To be clustered by :func:`~harmony_utils.partition.spectral_partition`.
    temperature : float
        The number used.

    Raises
    ------
    InputError
        If the shape does not fit, or a value is no divergence or no temperature.

    Notes
    -----
    Fowlkes, Belongie, Chung & Malik, *Spectral Grouping Using the Nyström Method* (2004). Where
    they orthogonalise by a second eigenproblem of the landmarks, the eigenvectors of the factors
    are found by the same Lanczos iterations as those of a whole matrix
    (:func:`~harmony_utils.spectral.spectral_embedding`), the diagonal left out likewise. ``A`` may
    have negative eigenvalues, which are kept with their sign; small ones of either sign are not
    (:data:`EIGENVALUE_TOLERANCE`). Groups that hold no landmark, or items that are similar only to
    few others, cannot be seen.

    Examples
    --------
    Two blocks of four items, one landmark in each: all pairs come back.

    >>> divergence = np.repeat([[0.0, 2.0], [2.0, 0.0]], 4, axis=0)
    >>> affinity, temperature = landmark_affinity(divergence, np.array([0, 4]), temperature=1)
    >>> affinity.toarray()[0].astype(float).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.368, 0.368, 0.368, 0.368]
    """
    n_items, n_landmarks = divergence.shape
    landmarks = _checked_landmarks(landmarks, n_items)
    if n_landmarks != len(landmarks):
        raise InputError(f"divergence to {n_landmarks} of {len(landmarks)} landmarks: give all")
    between = np.asarray(divergence[landmarks], dtype=np.float64)
    check_divergences(between)
    temperature = resolve_temperature(temperature, between)
    weights, signs = _inverse_factor(_similar(between, temperature))
    features = np.empty((n_items, len(signs)), dtype=np.float32)
    closeness, first = np.empty(n_items), np.empty(n_items, dtype=np.int64)
    joined = np.eye(n_landmarks, dtype=bool)
    lowest, highest = np.inf, 0.0
    place = np.full(n_items, -1)
    place[landmarks] = np.arange(n_landmarks)
    for start in range(0, n_items, _TILE):
        rows = slice(start, min(start + _TILE, n_items))
        check_divergences(divergence[rows])
        similarity = _similar(divergence[rows], temperature)
        linked = similarity > EDGE_FLOOR
        similarity[~linked] = 0
        features[rows] = similarity @ weights
        own = np.flatnonzero(place[rows] >= 0)
        similarity[own, place[rows][own]] = np.nan  # an item itself is no other
        closeness[rows] = np.nanmean(similarity, axis=1)
        lowest = min(lowest, np.nanmin(similarity))
        highest = max(highest, np.nanmax(similarity))
        first[rows] = np.where(linked.any(axis=1), linked.argmax(axis=1), -1)
        for landmark in np.unique(first[rows][first[rows] >= 0]):
            joined[landmark] |= linked[first[rows] == landmark].any(axis=0)
    parts = _parts(joined, first)
    found = LandmarkAffinity(features, signs, closeness, parts, float(lowest), float(highest))
    return found, temperature


def _checked_landmarks(landmarks: np.ndarray, n_items: int) -> np.ndarray:
    landmarks = np.asarray(landmarks)
    rising = landmarks.ndim == 1 and len(landmarks) >= 2 and (np.diff(landmarks) > 0).all()
    if not rising or landmarks[0] < 0 or landmarks[-1] >= n_items:
        raise InputError(
            f"landmarks: give at least 2 of the {n_items} items, each once and in rising order"
        )
    return landmarks


def _similar(divergence: np.ndarray, temperature: float) -> np.ndarray:
    """Return similarities in double precision."""
    return np.exp(np.multiply(divergence, -temperature / 2, dtype=np.float64))


def _inverse_factor(between: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``W`` and signs such that ``W diag(signs) W.T`` is the pseudo-inverse."""
    values, vectors = eigh((between + between.T) / 2, check_finite=False)
    kept = np.abs(values) > EIGENVALUE_TOLERANCE * values[-1]
    signs = np.sign(values[kept]).astype(np.float32)
    return vectors[:, kept] / np.sqrt(np.abs(values[kept])), signs


def _parts(joined: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Number the parts, given which landmarks share an item and one landmark of each item."""
    n_parts, of_landmark = csgraph.connected_components(csr_array(joined), directed=False)
    alone = first < 0
    parts = of_landmark[first].astype(np.int64)
    parts[alone] = n_parts + np.arange(alone.sum())
    return parts
