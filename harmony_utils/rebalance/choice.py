"""Which items stay: drawn at random within the sizes that remain, or the least alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.metric import check_items
from harmony_utils.rebalance.sizes import capped_sizes, greedy_sizes, n_removed

Method = Literal["cap", "greedy", "near-duplicate", "random"]
"""The ways to remove items: see :func:`~harmony_utils.rebalance.ladder.prune_ladder`."""

METHODS: tuple[Method, ...] = get_args(Method)


def pruned_items(
    labels: np.ndarray | Sequence[Any],
    *,
    share: float,
    method: Method = "cap",
    correct: np.ndarray | Sequence[float] | None = None,
    similarity: np.ndarray | None = None,
    bandwidth: float = 0.1,
    random_state: int = 0,
) -> np.ndarray:
    """Choose the items that stay when a share of them is removed.

    Parameters
    ----------
    labels : array_like of shape (n_items,)
        Subdomain of each item.
    share : float
        Share of items removed, between 0 and 1.
    method : {"cap", "greedy", "near-duplicate", "random"}
        As in :func:`~harmony_utils.rebalance.ladder.prune_ladder`.
    correct : array_like of shape (n_items,), optional
        Correctness; ``greedy`` needs it to choose the subdomains. Which of their items leave is
        drawn without looking at it.
    similarity : ndarray of shape (n_items, n_items), optional
        ``near-duplicate`` needs it; see :func:`duplicate_order`.
    bandwidth : float
        Width of HARMONY's kernel, for ``greedy``.
    random_state : int
        Seed. Which items of a lowered subdomain leave is arbitrary: results on one such list
        depend on it, :func:`~harmony_utils.rebalance.ladder.prune_ladder` shows how much.
        ``near-duplicate`` has nothing random.

    Returns
    -------
    ndarray of shape (n_items,), bool
        True where the item stays. With one seed, what a smaller share removes a larger one removes
        too.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.rebalance.ladder.prune_ladder`, or if what the method needs is
        missing.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> np.bincount(labels[pruned_items(labels, share=0.34)]).tolist()
    [2, 2]
    """
    scores = np.zeros(len(labels)) if correct is None else correct
    scores, codes, _ = check_items(scores, labels)
    sizes = np.bincount(codes)
    left = len(codes) - n_removed(share, sizes)
    if method == "near-duplicate":
        stays = np.ones(len(codes), dtype=bool)
        stays[duplicate_order(similarity, codes, n_items=len(codes) - left)] = False
        return stays
    rng = np.random.default_rng(random_state)
    order = shuffled_order(codes, rng)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(codes), dtype=np.int64)
    rank[order] = np.arange(len(codes)) - starts[codes[order]]
    if method == "random":
        return _random_items(rank, left - len(sizes), rng)
    if method == "cap":
        return rank < capped_sizes(sizes, left)[codes]
    if method != "greedy" or correct is None:
        raise InputError(
            f"method {method!r}: choose {', '.join(METHODS)}; greedy needs the correctness"
        )
    accuracies = np.bincount(codes, weights=scores) / sizes
    return rank < greedy_sizes(sizes, accuracies, [left], bandwidth=bandwidth)[0][codes]


def duplicate_order(
    similarity: np.ndarray | None, labels: np.ndarray | Sequence[Any], *, n_items: int
) -> np.ndarray:
    """Return the items that are most like one that stays, in the order in which they leave.

    Parameters
    ----------
    similarity : ndarray of shape (n_items, n_items)
        Symmetric; larger is more alike. The predictive affinity says which items a model answers
        alike; the cosine of two texts, which ones read alike.
    labels : array_like of shape (n_items,)
        Subdomain of each item. The last item of a subdomain stays, so that none is emptied.
    n_items : int
        Items that leave.

    Returns
    -------
    ndarray of shape (n_items,), int
        Each time, of all items that may leave, the one with the largest similarity to another that
        is still there. Of equal ones, such as the two of a pair, the last. Neither answers nor
        chance come into it.

    Raises
    ------
    InputError
        If there is no similarity, it is of another size or not finite, or so many cannot leave.

    Examples
    --------
    The first two are most alike: the second of them leaves, then the fourth.

    >>> import numpy as np
    >>> alike = np.eye(4)
    >>> alike[0, 1] = alike[1, 0] = 0.9
    >>> alike[2, 3] = alike[3, 2] = 0.8
    >>> duplicate_order(alike, ["a", "a", "b", "b"], n_items=2).tolist()
    [1, 3]
    """
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    counts = np.bincount(codes)
    if similarity is None or np.shape(similarity) != (len(codes), len(codes)):
        raise InputError(
            f"similarity of shape {np.shape(similarity)} for {len(codes)} items: near-duplicate "
            "removal needs one value per pair"
        )
    if not 0 <= n_items <= len(codes) - len(counts):
        raise InputError(f"n_items {n_items}: with one left in each subdomain, at most "
                         f"{len(codes) - len(counts)} can leave")  # fmt: skip
    here = np.arange(len(codes))
    nearest, closest = (np.empty(len(codes), dtype=kind) for kind in (np.int64, np.float64))
    for item in range(len(codes)):
        nearest[item], closest[item] = _nearest(similarity, item, here)
    left: list[int] = []
    for _ in range(n_items):
        may_leave = here[counts[codes[here]] > 1]
        values = closest[may_leave]
        leaver = int(may_leave[len(values) - 1 - values[::-1].argmax()])
        left.append(leaver)
        counts[codes[leaver]] -= 1
        here = here[here != leaver]
        for item in here[nearest[here] == leaver]:
            nearest[item], closest[item] = _nearest(similarity, item, here)
    return np.array(left, dtype=np.int64)


def shuffled_order(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return item numbers grouped by subdomain, in random order within each."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _nearest(similarity: np.ndarray, item: int, here: np.ndarray) -> tuple[int, float]:
    """Return which of the items here is most like this one, and how much."""
    row = np.asarray(similarity[item], dtype=np.float64)[here]
    if not np.isfinite(row).all():
        raise InputError(f"similarity, row {item}: is not finite; mend the matrix")
    row[here == item] = -np.inf
    place = int(row.argmax())
    return int(here[place]), float(row[place])


def _random_items(rank: np.ndarray, n_more: int, rng: np.random.Generator) -> np.ndarray:
    """Keep one item of each subdomain, and some of the others wherever they are."""
    stays = rank == 0
    others = rng.permutation(np.flatnonzero(~stays))
    stays[others[:n_more]] = True
    return stays
