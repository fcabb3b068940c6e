"""How far subdomains depend on the seed, and on which items are in the benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from harmony_utils.errors import InputError
from harmony_utils.graph import AnyAffinity, among
from harmony_utils.settings import AssignLabels
from harmony_utils.spectral import (
    assign_clusters,
    cluster_affinity,
    k_means,
    spectral_embedding,
    unit_rows,
)

RESAMPLE_ITEMS = 2000
"""An audit resamples items up to this many: above, every resample would take long to cluster."""

RESAMPLE_SHARE = 0.8
"""Share of the items in each resample."""


def seed_stability(
    vectors: np.ndarray,
    *,
    n_seeds: int = 10,
    assign_labels: AssignLabels = "kmeans",
    n_init: int = 10,
    random_state: int = 0,
) -> dict[str, float]:
    """Say how far the clusters of the same eigenvectors depend on the seed.

    Parameters
    ----------
    vectors : ndarray of shape (n_items, n_clusters)
        From :func:`~harmony_utils.spectral.spectral_embedding`.
    n_seeds : int
        Seeds compared, those after ``random_state``; at least 2.
    assign_labels, n_init
        As in :func:`~harmony_utils.spectral.assign_clusters`.
    random_state : int
        Seed that is not among those compared.

    Returns
    -------
    dict of str to float
        ``mean_ari`` and ``min_ari``, mean and smallest adjusted Rand index over pairs of seeds: 1
        is the same, about 0 unrelated; ``n_seeds``.

    Raises
    ------
    InputError
        With fewer than two seeds.

    Examples
    --------
    >>> affinity = np.kron(np.eye(2), np.ones((3, 3)))
    >>> seed_stability(spectral_embedding(affinity, n_components=2)[1], n_seeds=3)
    {'mean_ari': 1.0, 'min_ari': 1.0, 'n_seeds': 3}
    """
    if n_seeds < 2:
        raise InputError(f"n_stability {n_seeds}: give at least two seeds to compare")
    runs = [
        assign_clusters(vectors, assign_labels=assign_labels, n_init=n_init, random_state=seed)
        for seed in range(random_state + 1, random_state + 1 + n_seeds)
    ]
    scores = _pair_scores(runs)
    return {
        "mean_ari": float(np.mean(scores)),
        "min_ari": float(np.min(scores)),
        "n_seeds": n_seeds,
    }


def resample_agreement(
    affinity: AnyAffinity,
    candidates: Sequence[int],
    *,
    n_resamples: int = 10,
    share: float = 0.8,
    n_init: int = 3,
    random_state: int = 0,
) -> dict[int, float]:
    """Say for each number of clusters how far they depend on which items are there.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Must pass :func:`~harmony_utils.graph.check_affinity`.
    candidates : sequence of int
        Numbers of clusters, each at least 2 and below the items of a sample.
    n_resamples, share : int, float
        Samples of items, drawn without replacement, and the share of the items in each.
    n_init, random_state : int
        Restarts and seed of k-means.

    Returns
    -------
    dict of int to float
        Mean adjusted Rand index, over pairs of samples, between the clusters of the items in both:
        1 is the same, about 0 unrelated. One eigenproblem a sample serves all numbers; for one
        number alone, with quantiles, see :func:`resample_stability`.

    Raises
    ------
    InputError
        If a sample has no more items than clusters.

    Examples
    --------
    Two clean blocks come back whatever items are drawn; three clusters do not.

    >>> found = resample_agreement(np.kron(np.eye(2), np.ones((9, 9))), [2, 3], n_resamples=4)
    >>> found[2], found[3] < 1
    (1.0, True)
    """
    n_items, most = affinity.shape[0], max(candidates)
    size = round(share * n_items)
    if not 2 <= most < size:
        raise InputError(
            f"resamples: {size} of {n_items} items for up to {most} clusters; give more items or "
            "fewer clusters"
        )
    rng = np.random.default_rng(random_state)
    runs = {k: np.full((n_resamples, n_items), -1) for k in candidates}
    for number in range(n_resamples):
        drawn = np.sort(rng.choice(n_items, size, replace=False))
        vectors = spectral_embedding(among(affinity, drawn), n_components=most)[1]
        for k in candidates:
            rows = unit_rows(vectors[:, :k])
            runs[k][number, drawn] = k_means(rows, k, n_init=n_init, random_state=random_state)
    return {k: float(np.mean(_pair_scores(found))) for k, found in runs.items()}


def resample_stability(
    affinity: AnyAffinity,
    n_clusters: int,
    *,
    n_resamples: int = 20,
    share: float = RESAMPLE_SHARE,
    assign_labels: AssignLabels = "kmeans",
    n_init: int = 10,
    random_state: int = 0,
) -> dict[str, float]:
    """Say how far the subdomains depend on which items are in the benchmark.

    Parameters
    ----------
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items)
        Symmetric similarities.
    n_clusters : int
        Number of subdomains, the same in every resample.
    n_resamples : int
        Samples of items, drawn without replacement and clustered anew; at least 2.
    share : float
        Share of the items in each sample, above 0.5 so that any two have items in common.
    assign_labels, n_init
        As in :func:`~harmony_utils.spectral.assign_clusters`.
    random_state : int
        Seed.

    Returns
    -------
    dict of str to float
        ``resample_mean_ari``, ``resample_low_ari`` and ``resample_high_ari``: mean, 5 % and 95 %
        quantile, over pairs of samples, of the adjusted Rand index between their labels of the
        items in both; 1 is the same, about 0 unrelated. ``n_resamples`` and ``resample_share`` as
        used. The pairs share samples, so the quantiles are no confidence interval.

    Raises
    ------
    InputError
        If a number is out of range, or a sample has no more items than subdomains.

    Notes
    -----
    Subsampling after Ben-Hur, Elisseeff & Guyon (2002); the index, the share and the quantiles are
    our choice. Similarities are not computed anew, so the temperature stays that of all items.
    Low values make subdomains arbitrary; high ones do not make them meaningful.

    Examples
    --------
    Two clean blocks come back whatever items are drawn.

    >>> import numpy as np
    >>> found = resample_stability(np.kron(np.eye(2), np.ones((10, 10))), 2, n_resamples=4)
    >>> found["resample_mean_ari"], found["resample_low_ari"]
    (1.0, 1.0)
    """
    n_items = affinity.shape[0]
    if n_resamples < 2 or not 0.5 < share <= 1:
        raise InputError(
            f"resamples: {n_resamples} of share {share}; give at least two of more than half"
        )
    size = round(share * n_items)
    if not 2 <= n_clusters < size:
        raise InputError(
            f"resamples: {size} of {n_items} items for {n_clusters} subdomains; there must be at "
            "least two subdomains, and more items than subdomains"
        )
    rng = np.random.default_rng(random_state)
    runs = np.full((n_resamples, n_items), -1)
    for run in runs:
        drawn = np.sort(rng.choice(n_items, size, replace=False))
        run[drawn] = cluster_affinity(
            among(affinity, drawn),
            n_clusters,
            assign_labels=assign_labels,
            n_init=n_init,
            random_state=random_state,
        )
    scores = _pair_scores(runs)
    low, high = np.quantile(scores, [0.05, 0.95])
    return {
        "resample_mean_ari": float(np.mean(scores)),
        "resample_low_ari": float(low),
        "resample_high_ari": float(high),
        "n_resamples": n_resamples,
        "resample_share": share,
    }


def _pair_scores(runs: Iterable[np.ndarray]) -> list[float]:
    """Return the adjusted Rand index of each pair of labelings, over items that both label.

    A label of -1 says that an item was not drawn.
    """
    scores = []
    for one, other in combinations(runs, 2):
        both = (one >= 0) & (other >= 0)
        scores.append(float(adjusted_rand_score(one[both], other[both])))
    return scores
