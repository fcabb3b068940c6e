"""Affinities that keep only the most similar items of each: from all pairs, or without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from harmony_utils.errors import InputError
from harmony_utils.similarity import CentredBlocks, check_distributions, check_square

LINK = np.dtype([("one", "<i4"), ("other", "<i4"), ("divergence", "<f4")])
"""How a link is kept in a file: two items, the smaller number first, and their divergence."""

_TILE = 1024


def nearest_neighbours(affinity: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Keep each item's links to its most similar items and cut all others.

    Parameters
    ----------
    affinity : ndarray of shape (n_items, n_items)
        Symmetric; larger means more similar. The diagonal does not count.
    n_neighbours : int
        Links that each item chooses, at least 1 and fewer than there are items. A link stays if
        either end chose it, so an item may keep more. Of equally similar items the first ones are
        chosen.

    Returns
    -------
    ndarray of shape (n_items, n_items)
        The similarity of pairs that stay linked, 0 for others, and the diagonal as it was.
        Symmetric. Items that nobody links fall into separate parts:
        :func:`~harmony_utils.partition.spectral_partition` counts them and warns.

    Raises
    ------
    InputError
        If the affinity is not square or the number is out of range.

    Notes
    -----
    The symmetric k-nearest-neighbour graph of von Luxburg (2007), weighted by similarity. Which
    affinity the source of HARMONY clusters is not stated; all pairs is our default.

    Examples
    --------
    >>> import numpy as np
    >>> nearest_neighbours(np.array([[1, 0.9, 0.2], [0.9, 1, 0.3], [0.2, 0.3, 1]]), 1).tolist()
    [[1.0, 0.9, 0.0], [0.9, 1.0, 0.3], [0.0, 0.3, 1.0]]
    """
    n_items = check_square(affinity, "affinity")
    _check_number(n_neighbours, n_items)
    linked = np.zeros((n_items, n_items), dtype=bool)
    for start in range(0, n_items, _TILE):
        rows = -np.array(affinity[start : start + _TILE], dtype=np.float32)
        own = np.arange(len(rows))
        rows[own, start + own] = np.inf
        chosen = np.argsort(rows, axis=1, kind="stable")[:, :n_neighbours]
        linked[start + own[:, None], chosen] = True
    linked |= linked.T
    np.fill_diagonal(linked, True)
    return np.where(linked, affinity, 0).astype(affinity.dtype, copy=False)


def nearest_divergences(
    log_probabilities: np.ndarray,
    n_neighbours: int,
    *,
    floor: float = 1e-10,
    block_size: int = 4096,
) -> csr_array:
    """Return the Jeffreys divergence of each item to its nearest items, never of all pairs.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_items, n_outcomes)
        As in :func:`~harmony_utils.similarity.jeffreys_divergence`; may be a memory map.
    n_neighbours : int
        Links that each item chooses, at least 1 and fewer than there are items. A link stays if
        either end chose it. Of equal divergences the items that come first are chosen.
    floor, block_size
        As in :func:`~harmony_utils.similarity.jeffreys_divergence`.

    Returns
    -------
    csr_array of shape (n_items, n_items), float32
        Symmetric, in nats. What is stored is a link, also where its divergence is 0, and the
        diagonal is stored; what is not stored is *not* 0 but unknown and no smaller than the
        largest that both ends chose. Make it an affinity with
        :func:`~harmony_utils.similarity.affinity_from_divergence` and a number as temperature.

    Raises
    ------
    InputError
        As :func:`~harmony_utils.similarity.jeffreys_divergence`, or if the number is out of range.

    Notes
    -----
    Exact: every pair is compared, tile by tile, and forgotten unless it is among the nearest so
    far. Time grows with the square of ``n_items``, memory with
    ``n_items * (1024 + 2 * n_neighbours)`` numbers and a few blocks of 1024 by ``block_size``.

    Examples
    --------
    The first two items are nearest to each other; the third has to choose one of them.

    >>> log_p = np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    >>> found = nearest_divergences(log_p, 1)
    >>> found.toarray().astype(float).round(3).tolist()
    [[0.0, 0.081, 0.0], [0.081, 0.0, 2.508], [0.0, 2.508, 0.0]]
    >>> found.nnz  # three on the diagonal, two links from both ends
    7
    """
    check_distributions(log_probabilities, floor, block_size)
    n_items = len(log_probabilities)
    _check_number(n_neighbours, n_items)
    nearest = np.full((n_items, n_neighbours), np.iinfo(np.uint64).max, dtype=np.uint64)
    for rows, columns, divergence in _tiles(log_probabilities, floor, block_size):
        _keep_nearest(nearest[rows], divergence, columns.start)
        if columns.start > rows.start:
            _keep_nearest(nearest[columns], divergence.T, rows.start)
    return _links(nearest)


def links_of_graph(graph: csr_array) -> np.ndarray:
    """Return the links of a graph of divergences as a table that can be kept in a file.

    Parameters
    ----------
    graph : csr_array of shape (n_items, n_items)
        From :func:`nearest_divergences`.

    Returns
    -------
    ndarray of shape (n_links,), dtype :data:`LINK`
        Each link once, ordered by its items.

    Examples
    --------
    >>> graph = nearest_divergences(np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]), 1)
    >>> links = links_of_graph(graph)
    >>> links["one"].tolist(), links["other"].tolist()
    ([0, 1], [1, 2])
    >>> bool((graph_of_links(links, 3) != graph).nnz)
    False
    """
    pairs = graph.tocoo()
    above = pairs.row < pairs.col
    links = np.empty(int(above.sum()), dtype=LINK)
    for name, values in zip(LINK.names, (pairs.row, pairs.col, pairs.data), strict=True):
        links[name] = values[above]
    return links


def graph_of_links(links: np.ndarray, n_items: int) -> csr_array:
    """Return the symmetric graph of a table of links, with its diagonal; every link is stored.

    Parameters
    ----------
    links : ndarray of shape (n_links,), dtype :data:`LINK`
        From :func:`links_of_graph`.
    n_items : int
        Number of items.

    Returns
    -------
    csr_array of shape (n_items, n_items), float32
        As :func:`nearest_divergences` returns it.
    """
    one, other, own = links["one"], links["other"], np.arange(n_items, dtype=np.int32)
    rows, columns = np.concatenate([one, other, own]), np.concatenate([other, one, own])
    nothing = np.zeros(n_items, dtype=np.float32)
    values = np.concatenate([links["divergence"], links["divergence"], nothing])
    graph = csr_array((values, (rows, columns)), shape=(n_items, n_items))
    graph.sort_indices()
    return graph


def _check_number(n_neighbours: int, n_items: int) -> None:
    if not 1 <= n_neighbours < n_items:
        raise InputError(
            f"neighbours {n_neighbours}: must lie between 1 and {n_items - 1}, one less than the "
            f"{n_items} items; 0 in the settings keeps all pairs"
        )


def _tiles(
    log_probabilities: np.ndarray, floor: float, block_size: int
) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield the divergences of a tile of rows and one of columns, on and above the diagonal.

    One band of tiles is held at once, so that each block of outcomes is made anew only once for
    every band. An item's divergence to itself is infinite: it is no neighbour of its own.
    """
    blocks = CentredBlocks(log_probabilities, floor, block_size, tile=_TILE)
    own = np.concatenate([blocks.own_products(rows) for rows in blocks.tiles])
    for first, rows in enumerate(blocks.tiles):
        others = blocks.tiles[first:]
        cross = [np.zeros((len(own[rows]), len(own[c])), dtype=blocks.precision) for c in others]
        for block in range(len(blocks.columns)):
            here = np.hstack(blocks.centred(rows, block))
            for i, columns in enumerate(others):
                cross[i] += here @ np.hstack(blocks.centred(columns, block)[::-1]).T
        for columns, product in zip(others, cross, strict=True):
            divergence = np.maximum(own[rows, None] + own[None, columns] - product, 0)
            if columns is rows:
                divergence = (divergence + divergence.T) / 2
                np.fill_diagonal(divergence, np.inf)
            yield rows, columns, divergence.astype(np.float32)


def _keep_nearest(nearest: np.ndarray, divergence: np.ndarray, first: int) -> None:
    """Let the items of a tile compete with the nearest found so far, in place.

    A candidate is one number of 64 bits: the bits of its divergence, which rise with it as it is
    not negative, then its item, so that the smaller number is the nearer or else the first item.
    """
    bits = np.ascontiguousarray(divergence).view(np.uint32).astype(np.uint64)
    candidates = bits << np.uint64(32)
    candidates |= np.arange(first, first + divergence.shape[1], dtype=np.uint64)
    both = np.concatenate([nearest, candidates], axis=1)
    size = nearest.shape[1]
    nearest[:] = np.partition(both, size - 1, axis=1)[:, :size]


def _links(nearest: np.ndarray) -> csr_array:
    """Return the symmetric graph of what each item chose."""
    n_items, n_neighbours = nearest.shape
    chosen = (nearest & np.uint64(0xFFFFFFFF)).astype(np.int64).ravel()
    divergence = (nearest >> np.uint64(32)).astype(np.uint32).view(np.float32).ravel()
    chooser = np.repeat(np.arange(n_items), n_neighbours)
    low, high = np.minimum(chooser, chosen), np.maximum(chooser, chosen)
    pairs, places = np.unique(low * n_items + high, return_index=True)
    links = np.empty(len(pairs), dtype=LINK)
    links["one"], links["other"] = np.divmod(pairs, n_items)
    links["divergence"] = divergence[places]
    return graph_of_links(links, n_items)
