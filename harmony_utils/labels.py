"""Labels of items: refusing missing ones, numbering subdomains and groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from harmony_utils.errors import InputError


def refuse_missing(labels: Iterable[Any], what: str, advice: str) -> None:
    """Refuse labels of which one is missing.

    Parameters
    ----------
    labels : iterable, length n_items
        As given, before they become an array: in one of text a NaN would read ``"nan"`` and pass
        for a label.
    what, advice : str
        What they are called in the message, and what to do.

    Raises
    ------
    InputError
        For None, NaN, NaT or pandas' NA; the first such row is named, counted from 0.

    Examples
    --------
    >>> refuse_missing(["law", float("nan")], "labels", "drop that item")
    Traceback (most recent call last):
        ...
    harmony_utils.errors.InputError: labels, row 1: is missing (1 of 2); drop that item
    """
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind in "biuSU":
            return
        labels = labels.tolist()
    labels = list(labels)
    missing = [row for row, label in enumerate(labels) if _is_missing(label)]
    if missing:
        raise InputError(
            f"{what}, row {missing[0]}: is missing ({len(missing)} of {len(labels)}); {advice}"
        )


def canonical_labels(labels: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Number clusters by size, so that equal partitions have equal labels.

    Parameters
    ----------
    labels : sequence of hashable, length n_items
        Any names of clusters, none missing.

    Returns
    -------
    ndarray of shape (n_items,), int
        0 for the largest cluster, and so on. Of equally large ones, the one whose first item comes
        first has the smaller number.

    Examples
    --------
    >>> canonical_labels(["b", "a", "a", "c"]).tolist()
    [1, 0, 0, 2]
    """
    return canonical_with_names(labels)[0]


def canonical_with_names(
    labels: Sequence[Hashable] | np.ndarray,
) -> tuple[np.ndarray, list[Hashable]]:
    """Return :func:`canonical_labels` and the name that each number had.

    Examples
    --------
    >>> canonical_with_names(["b", "a", "a"])[1]
    ['a', 'b']
    """
    plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
    first_seen: dict[Hashable, int] = {}
    codes = np.array([first_seen.setdefault(x, len(first_seen)) for x in plain], dtype=np.int64)
    order = np.argsort(-np.bincount(codes, minlength=len(first_seen)), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = list(first_seen)
    return rank[codes], [names[i] for i in order]


def group_numbers(names: Sequence[str | None]) -> np.ndarray | None:
    """Number groups of items that hang together; what is no text stands alone.

    Parameters
    ----------
    names : sequence, length n_items
        Name of each item's group, such as its passage; None or NaN where it has none.

    Returns
    -------
    ndarray of shape (n_items,), int, or None
        Numbers as of :func:`canonical_labels`; None where no item has a group.

    Examples
    --------
    >>> group_numbers(["text 1", None, "text 1", float("nan")]).tolist()
    [0, 1, 0, 2]
    """
    if not any(isinstance(name, str) for name in names):
        return None
    own = [name if isinstance(name, str) else (row,) for row, name in enumerate(names)]
    return canonical_labels(own)


def check_groups(groups: np.ndarray | Sequence[Any] | None, n_items: int) -> np.ndarray:
    """Return groups numbered from 0 in their sorted order; without any, each item is its own.

    Parameters
    ----------
    groups : array_like of shape (n_items,) or None
        Group of each item.
    n_items : int
        Number of items.

    Returns
    -------
    ndarray of shape (n_items,), int
        None of the numbers 0 to g-1 is empty.

    Raises
    ------
    InputError
        If there is not one per item, or one is missing.

    Examples
    --------
    >>> check_groups(["b", "a", "b"], 3).tolist(), check_groups(None, 2).tolist()
    ([1, 0, 1], [0, 1])
    """
    if groups is None:
        return np.arange(n_items)
    values = np.asarray(groups)
    if values.shape != (n_items,):
        raise InputError(f"groups of shape {values.shape} for {n_items} items: give one per item")
    refuse_missing(groups, "groups", "give such an item its own group")
    return np.unique(values, return_inverse=True)[1]


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA refuses to be true or false
        return True
