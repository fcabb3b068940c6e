"""Who answered what: the matrix of models by items that everything about difficulty starts from.

Values are correctness between 0 and 1; NaN is a missing answer, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError

MIN_MODELS = 3
"""Fewer models cannot tell a hard item from an odd one."""

_TRUTHS = {"true": 1.0, "false": 0.0, "": np.nan, "nan": np.nan, "none": np.nan, "null": np.nan}
_CHANCE = 0.01


@dataclass(frozen=True)
class Responses:
    """A checked matrix of answers.

    Parameters
    ----------
    values : ndarray of shape (n_models, n_items)
        Correctness, 0 to 1; NaN where missing.
    models, items : tuple of str
        Names of rows and columns, each once.
    subjects : tuple of str
        Subject of each item, ``""`` where there is none.
    groups : dict of str to tuple of str
        Other groupings of the items, such as ``subdomain``.
    families : tuple of str
        Family of each model, ``""`` where unknown.
    flags : tuple of dict
        ``flag`` (a name), ``sentence`` and ``names`` (models or items): what a person must know.

    Raises
    ------
    InputError
        With fewer than three models, a model without an answer, or a value outside 0 to 1.
    """

    values: np.ndarray
    models: tuple[str, ...]
    items: tuple[str, ...]
    subjects: tuple[str, ...]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    flags: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and items."""
        return self.values.shape

    @property
    def accuracy(self) -> np.ndarray:
        """Mean of the answers that each model gave, shape (n_models,)."""
        return np.nanmean(self.values, axis=1)

    def grouping(self, name: str) -> np.ndarray:
        """Return the label of each item in a grouping: ``subject`` or one of ``groups``."""
        if name in ("subject", "subjects"):
            return np.array(self.subjects, dtype=object)
        if name not in self.groups:
            known = ", ".join(["subject", *self.groups])
            raise InputError(f"grouping {name!r}: the answers have {known}")
        return np.array(self.groups[name], dtype=object)

    def select(
        self, models: Sequence[int] | None = None, items: Sequence[int] | None = None
    ) -> Responses:
        """Return some models and items; a model may be taken twice, as a bootstrap does."""
        rows = np.arange(self.shape[0]) if models is None else np.asarray(models)
        columns = np.arange(self.shape[1]) if items is None else np.asarray(items)
        names, times = [], {}
        for row in rows:
            name = self.models[row]
            times[name] = times.get(name, 0) + 1
            names.append(name if times[name] == 1 else f"{name} ({times[name]})")
        return Responses(
            values=self.values[np.ix_(rows, columns)],
            models=tuple(names),
            items=tuple(self.items[j] for j in columns),
            subjects=tuple(self.subjects[j] for j in columns),
            groups={n: tuple(labels[j] for j in columns) for n, labels in self.groups.items()},
            families=tuple(self.families[i] for i in rows) if self.families else (),
            flags=self.flags,
        )


def responses_from_matrix(
    values: np.ndarray,
    *,
    models: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    subjects: Sequence[str] | None = None,
    groups: dict[str, Sequence[str]] | None = None,
    families: Sequence[str] | None = None,
) -> Responses:
    """Check a matrix of answers.

    Parameters
    ----------
    values : ndarray of shape (n_models, n_items)
        Correctness, 0 to 1; NaN where missing.
    models, items : sequence of str, optional
        Names; numbered if not given.
    subjects, groups, families
        As in :class:`Responses`.

    Returns
    -------
    Responses
        Items that nobody answered are left out. Models whose answers are identical by more than
        chance are left out but for the first: they would count as further evidence. Both are
        flagged, and so are items that all models have right, or all wrong, which are kept.

    Raises
    ------
    InputError
        As :class:`Responses`.

    Examples
    --------
    >>> found = responses_from_matrix([[1, 0, 1], [1, 1, 0], [1, 0, 0]])
    >>> found.shape, [flag["flag"] for flag in found.flags]
    ((3, 3), ['constant-items'])
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2:
        raise InputError(f"answers of shape {values.shape}: give models by items")
    n_models, n_items = values.shape
    whole = Responses(
        values=values,
        models=tuple(models or (f"model-{i + 1}" for i in range(n_models))),
        items=tuple(items or (f"item-{j + 1}" for j in range(n_items))),
        subjects=tuple(subjects or [""] * n_items),
        groups={name: tuple(labels) for name, labels in (groups or {}).items()},
        families=tuple(families or ()),
    )
    return _flagged(whole)


def responses_from_table(table: pd.DataFrame, *, common: bool = False) -> Responses:
    """Turn a long table into a matrix.

    Parameters
    ----------
    table : DataFrame
        Columns ``model``, ``item``, ``correct``, and if there are any ``subject``, ``subdomain``
        and ``family``. Rows may be in any order.
    common : bool
        Keep only items that every model answered.

    Raises
    ------
    InputError
        If a column is missing, a model or item has no name, a model answers an item twice, or a
        value is not a number.
    """
    for name in ("model", "item", "correct"):
        if name not in table.columns:
            raise InputError(f"table: no column {name!r}; it has {', '.join(table.columns)}")
    if table.empty:
        raise InputError("table: no rows")
    for name in ("model", "item"):
        empty = table[name].isna() | (table[name].astype(str).str.strip() == "")
        if empty.any():
            row = int(empty.to_numpy().argmax()) + 1
            raise InputError(
                f"table, answer {row} of {len(table)}: the {name} is empty; name it, or remove the "
                "row"
            )
    table = table.assign(model=table["model"].astype(str), item=table["item"].astype(str))
    twice = table.duplicated(["model", "item"])
    if twice.any():
        row = table[twice].iloc[0]
        raise InputError(
            f"table: model {row['model']} answers item {row['item']} more than once; keep one row"
        )
    table = table.assign(correct=_numbers(table))
    models, items = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["item"]))
    wide = table.pivot(index="model", columns="item", values="correct").loc[models, items]
    values = wide.to_numpy(dtype=float)
    if common:
        kept = ~np.isnan(values).any(axis=0)
        if not kept.any():
            raise InputError("no item was answered by every model; drop --common or a model")
        values, items = values[:, kept], [i for i, keep in zip(items, kept, strict=True) if keep]
    labels = {n: _labels(table, "item", n, items) for n in ("subject", "subdomain")}
    return responses_from_matrix(
        values,
        models=models,
        items=items,
        subjects=labels["subject"],
        groups={"subdomain": labels["subdomain"]} if labels["subdomain"] else None,
        families=_labels(table, "model", "family", models),
    )


def _labels(table: pd.DataFrame, key: str, name: str, order: list[str]) -> list[str] | None:
    """Return the label of each item or model; the first one given counts."""
    if name not in table.columns or table[name].isna().all():
        return None
    given = table.dropna(subset=[name]).drop_duplicates(key).set_index(key)[name]
    return [str(given.get(entry, "")) for entry in order]


def _numbers(table: pd.DataFrame) -> np.ndarray:
    """Return correctness as numbers; true and false count, empty is missing."""
    column = table["correct"]
    if column.dtype == bool or pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    found = []
    for row, value in enumerate(column):
        text = "" if value is None else str(value).strip().lower()
        try:
            found.append(_TRUTHS[text] if text in _TRUTHS else float(text))
        except ValueError:
            where = f"model {table['model'].iloc[row]}, item {table['item'].iloc[row]}"
            raise InputError(
                f"table: {where}: correct is {value!r}; give a number from 0 to 1, true, false or "
                "nothing"
            ) from None
    return np.array(found, dtype=float)


def _validate(responses: Responses) -> None:
    n_models, n_items = responses.values.shape
    if n_models < MIN_MODELS:
        raise InputError(
            f"{n_models} models ({', '.join(responses.models)}): difficulty takes at least "
            f"{MIN_MODELS}; add the answers of others"
        )
    if n_items < 2:
        raise InputError(f"{n_items} items: at least 2 are needed")
    for what, names, size in (
        ("models", responses.models, n_models),
        ("items", responses.items, n_items),
        ("subjects", responses.subjects, n_items),
    ):
        if len(names) != size:
            raise InputError(f"{len(names)} names of {what} for {size}")
    if len(set(responses.models)) < n_models or len(set(responses.items)) < n_items:
        raise InputError("a model or an item has the name of another; names must differ")
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere((responses.values < 0) | (responses.values > 1))
    if len(wrong):
        i, j = wrong[0]
        raise InputError(
            f"model {responses.models[i]}, item {responses.items[j]}: correct is "
            f"{responses.values[i, j]:g}; it must lie between 0 and 1"
        )
    empty = np.isnan(responses.values).all(axis=1)
    if empty.any():
        name = responses.models[int(empty.argmax())]
        raise InputError(f"model {name} has no answers; leave it out")


def _flagged(whole: Responses) -> Responses:
    """Leave out what cannot count and flag what a person must know."""
    flags: list[dict[str, Any]] = []
    values = whole.values
    unseen = np.isnan(values).all(axis=0)
    if unseen.any():
        names = [whole.items[j] for j in np.flatnonzero(unseen)]
        flags.append(_flag("unanswered-items", f"nobody answered {len(names)} items", names))
        whole = whole.select(items=np.flatnonzero(~unseen))
        values = whole.values
    twins = _duplicates(whole)
    if twins:
        shown = ", ".join(f"{copy} as {original}" for copy, original in twins.items())
        flags.append(
            _flag(
                "duplicate-models",
                f"{len(twins)} models answer exactly as another and are left out ({shown})",
                list(twins),
            )
        )
        kept = [i for i, name in enumerate(whole.models) if name not in twins]
        if len(kept) < MIN_MODELS:
            raise InputError(
                f"only {len(kept)} of {len(whole.models)} models differ ({shown}); difficulty "
                f"takes at least {MIN_MODELS}"
            )
        whole = whole.select(models=kept)
        values = whole.values
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    for name, wanted, text in (
        ("constant-items", low == high, "the same result for every model: kept, little is known"),
    ):
        if wanted.any():
            names = [whole.items[j] for j in np.flatnonzero(wanted)]
            n_right = int((low[wanted] == 1).sum())
            sentence = f"{len(names)} items ({n_right} of them all right) have {text} of them"
            flags.append(_flag(name, sentence, names))
    missing = np.isnan(values)
    if missing.any():
        share = missing.mean(axis=1)
        names = [whole.models[i] for i in np.flatnonzero(share > 0)]
        sentence = f"{missing.mean():.1%} of the cells are missing, in {len(names)} models"
        flags.append(_flag("missing-cells", sentence, names))
    partial = ~missing & (values > 0) & (values < 1)
    if partial.any():
        sentence = f"{partial.mean():.1%} of the cells hold partial credit, taken as that share"
        flags.append(_flag("partial-credit", sentence, []))
    return _with_flags(whole, tuple(flags))


def _duplicates(whole: Responses) -> dict[str, str]:
    """Return models with the very answers of an earlier one, if chance does not explain them.

    Two models of no relation agree on an item that a share p has right with probability
    p**2 + (1 - p)**2; a pair counts if all items together have less than :data:`_CHANCE`.
    """
    values = np.nan_to_num(whole.values, nan=-1.0)
    shares = np.nanmean(whole.values, axis=0)
    seen: dict[bytes, int] = {}
    twins: dict[str, str] = {}
    pairs = len(values) * (len(values) - 1) / 2
    for i, row in enumerate(values):
        first = seen.setdefault(row.tobytes(), i)
        if first == i:
            continue
        asked = row >= 0
        chance = np.log(shares[asked] ** 2 + (1 - shares[asked]) ** 2).sum() + np.log(pairs)
        if chance < np.log(_CHANCE):
            twins[whole.models[i]] = whole.models[first]
    return twins


def _flag(name: str, sentence: str, names: list[str]) -> dict[str, Any]:
    return {"flag": name, "sentence": sentence, "names": names}


def _with_flags(whole: Responses, flags: tuple[dict[str, Any], ...]) -> Responses:
    return replace(whole, flags=flags)
