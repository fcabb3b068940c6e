"""The lists of items that stay, for use elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.files import write_text
from harmony_utils.rebalance.weights import balanced_weights


def item_table(
    items: Mapping[str, Sequence[str]],
    labels: np.ndarray,
    stays: Mapping[str, Mapping[float, np.ndarray]],
) -> pd.DataFrame:
    """Arrange which item stays how long under which method.

    Parameters
    ----------
    items : mapping
        Columns that name the items, such as ``key`` and ``native_id``, each of length n_items.
    labels : ndarray of shape (n_items,)
        Subdomain of each item.
    stays : mapping
        By method and share, from :func:`~harmony_utils.rebalance.choice.pruned_items` with one
        seed.

    Returns
    -------
    DataFrame
        The columns given, ``subdomain``, ``weight`` (balanced, adding up to 1) and for each method
        ``kept_at_<method>``: the largest share removed with which the item still stays; 0 if it
        leaves at once.

    Examples
    --------
    >>> import numpy as np
    >>> stays = {"cap": {0.25: np.array([1, 1, 0, 1]), 0.5: np.array([1, 0, 0, 1])}}
    >>> item_table({"key": list("abcd")}, np.array([0, 0, 0, 1]), stays)["kept_at_cap"].tolist()
    [0.5, 0.25, 0.0, 0.5]
    """
    table = pd.DataFrame(dict(items))
    table["subdomain"], table["weight"] = labels, balanced_weights(labels)
    for method, by_share in stays.items():
        until = np.zeros(len(table))
        for share in sorted(by_share):
            until[np.asarray(by_share[share], dtype=bool)] = share
        table[_column(method)] = until
    return table


def kept_items(table: pd.DataFrame, method: str, share: float) -> pd.DataFrame:
    """Return the rows of the items that stay.

    Parameters
    ----------
    table : DataFrame
        From :func:`item_table`.
    method, share
        One method and one share removed of those in the table.

    Returns
    -------
    DataFrame
        In the order of the table.

    Raises
    ------
    InputError
        For another method or share.
    """
    if _column(method) not in table:
        known = [name.removeprefix("kept_at_") for name in table if name.startswith("kept_at_")]
        raise InputError(f"method {method!r}: this list has {', '.join(known)}")
    until = table[_column(method)]
    if not np.isclose(until, share).any():
        known = ", ".join(f"{value:g}" for value in sorted(set(until) - {0}))
        raise InputError(f"share {share:g}: this list has {known}")
    return table[until >= share - 1e-9]


def export_items(
    table: pd.DataFrame, path: Path | str, *, method: str, share: float | None = None
) -> Path:
    """Write a rebalanced benchmark as a list of items with weights.

    Parameters
    ----------
    table : DataFrame
        From :func:`item_table`.
    path : Path
        Ends in ``.csv`` or ``.jsonl``.
    method : str
        One of the table's; or ``"weights"``, which keeps every item and weighs subdomains alike.
    share : float, optional
        Share removed; needed for all but ``weights``.

    Returns
    -------
    Path
        A row per item that stays: what names it, and its ``weight``, all of them adding up to 1.
        Accuracy on the rebalanced benchmark is the sum of the weights of the right answers.

    Raises
    ------
    InputError
        For another ending, method or share.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".jsonl"):
        raise InputError(f"{path.name}: let the name end in .csv or .jsonl")
    if method == "weights":
        chosen = table
    elif share is None:
        raise InputError(f"share: give the share of items that {method} removes")
    else:
        kept = kept_items(table, method, share)
        chosen = kept.assign(weight=1 / len(kept))
    chosen = chosen[[name for name in chosen if not name.startswith("kept_at_")]]
    if path.suffix == ".csv":
        return write_text(path, chosen.to_csv(index=False))
    lines = chosen.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)
    return write_text(path, lines.rstrip("\n") + "\n")


def _column(method: str) -> str:
    return f"kept_at_{method.replace('-', '_')}"
