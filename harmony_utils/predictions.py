"""The canonical table of a model's answers; everything downstream starts here.

One row per item, in benchmark order. What is missing is missing (null), never 0 or -inf.

=================  ===============  =============================================================
column             type             meaning
=================  ===============  =============================================================
key                string           content key, see :func:`~harmony_utils.items.item_keys`
native_id          string           the benchmark's own id
subject            string, null     subdomain given by the benchmark
n_options          int, null        number of options, null where a log does not tell
gold               list of int,     indices of the correct options; null where a log holds only
                   null             whether the answer was right
loglik             list of float    sum log-likelihood of each option, natural logarithm
unconditional      list of float    the same without the question, where it was measured
characters         list of int      length of each option's text in characters
bytes              list of int      the same in UTF-8 bytes
tokens             list of int      the same in tokens of this model, null where unknown
prediction         int              option chosen under the table's normalisation
prediction_source  string           how ``prediction`` came about: ``argmax`` of the scores,
                                    ``logged`` or ``none``
correct            float            1 where the prediction is among the gold options, else 0
flags              list of string   ``tie``: the best options have the same score; ``border``: a
                                    token spans the border of prompt and option; those of
                                    imported logs are listed in :mod:`harmony_utils.logs.rows`
group              string, null     what the item shares with others, see
                                    :func:`~harmony_utils.items.item_groups`; a table without this
                                    column has no groups
=================  ===============  =============================================================

Written answers to open-ended questions have nothing in the columns about options, ``generated`` as
``prediction_source``, and three columns more. ``correct`` follows the rule that stands as
``normalisation`` in ``meta``, see :mod:`harmony_utils.scoring.answers`.

=================  ===============  =============================================================
column             type             meaning
=================  ===============  =============================================================
generated          string           what the model wrote, up to the stop
n_generated        int              its tokens, the stop not counted; 0 for an empty answer
f1                 float, null      highest token F1 over the accepted answers; null for numbers
=================  ===============  =============================================================

Their flags are ``cut``, the limit of tokens was reached before a stop, and ``empty``, nothing was
written, which is a wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harmony_utils.errors import InputError
from harmony_utils.files import write_atomically

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("native_id", pa.string(), nullable=False),
        pa.field("subject", pa.string()),
        pa.field("n_options", pa.int64()),
        pa.field("gold", pa.list_(pa.int64())),
        pa.field("loglik", pa.list_(pa.float64())),
        pa.field("unconditional", pa.list_(pa.float64())),
        pa.field("characters", pa.list_(pa.int64())),
        pa.field("bytes", pa.list_(pa.int64())),
        pa.field("tokens", pa.list_(pa.int64())),
        pa.field("prediction", pa.int64()),
        pa.field("prediction_source", pa.string()),
        pa.field("correct", pa.float64()),
        pa.field("flags", pa.list_(pa.string()), nullable=False),
        pa.field("group", pa.string()),
    ]
)
GENERATED = pa.schema(
    [
        pa.field("generated", pa.string(), nullable=False),
        pa.field("n_generated", pa.int64(), nullable=False),
        pa.field("f1", pa.float64()),
    ]
)
"""Further columns of written answers; tables about options are without them."""

OPTIONAL = ("unconditional", "group")
"""Columns that a table may lack: they are filled with missing values."""

TableNormalisation = Literal["sum", "char", "byte", "token", "pmi"]
"""How scores of options can be compared; ``pmi`` subtracts the unconditional log-likelihood."""

_LENGTHS = {"char": "characters", "byte": "bytes", "token": "tokens"}
_META_KEY = b"harmony"


@dataclass(frozen=True)
class Predictions:
    """A validated table of answers with what is known about how they were made.

    Parameters
    ----------
    table : DataFrame
        Columns as described in this module, one row per item.
    meta : dict
        At least ``model``, ``benchmark`` and ``normalisation``.

    Raises
    ------
    InputError
        If the table breaks the schema; the message names the column and row.
    """

    table: pd.DataFrame
    meta: dict[str, Any]

    def __post_init__(self) -> None:
        if absent := [name for name in OPTIONAL if name not in self.table.columns]:
            empty = dict.fromkeys(absent)
            object.__setattr__(self, "table", self.table.assign(**empty))
        _validate(self.table)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def open_ended(self) -> bool:
        """Whether the answers were written instead of chosen among options."""
        return "generated" in self.table.columns

    @property
    def model_name(self) -> str:
        """The model's name, whatever form ``meta`` has."""
        about = self.meta.get("model", {})
        return str(about.get("name", "") if isinstance(about, dict) else about)

    @property
    def benchmark_name(self) -> str:
        """The benchmark's name, empty where ``meta`` has none."""
        about = self.meta.get("benchmark", "")
        return str(about.get("name", "") if isinstance(about, dict) else about)

    @property
    def chance(self) -> float:
        """Share of right answers that guessing among the options gives; 0 without options."""
        return 0.0 if self.open_ended else float((1 / self.table["n_options"]).mean())

    def generation(self) -> dict[str, Any] | None:
        """Return what is to be known of written answers; None for answers among options.

        Returns
        -------
        dict
            ``f1``, the mean token F1, 0 to 1, None for numbers; ``n_generated``, the mean number
            of tokens; ``cut`` and ``empty``, how many answers met the limit of tokens and how many
            hold nothing; ``max_new_tokens`` and ``stop``, as they were applied.
        """
        if not self.open_ended:
            return None
        flags = [flag for flags in self.table["flags"] for flag in flags]
        f1 = self.table["f1"].dropna()
        return {
            "f1": float(f1.mean()) if len(f1) else None,
            "n_generated": float(self.table["n_generated"].mean()),
            "cut": flags.count("cut"),
            "empty": flags.count("empty"),
            **{name: self.meta.get(name) for name in ("max_new_tokens", "stop")},
        }

    @property
    def correct(self) -> np.ndarray:
        """Correctness of the stored predictions, shape (n_items,), 0 or 1."""
        return self.table["correct"].to_numpy(dtype=float)

    def scores(self, normalisation: TableNormalisation | None = None) -> np.ndarray:
        """Return each option's score.

        Parameters
        ----------
        normalisation : {"sum", "char", "byte", "token", "pmi"}, optional
            Length that divides the sum log-likelihood, or ``pmi``; the table's own when not given.

        Returns
        -------
        ndarray of shape (n_items, max_options)
            Natural logarithms, higher is better; NaN where an item has fewer options.
        """
        if self.open_ended:
            raise InputError(
                "predictions: the answers were written, so there are no options to score; use "
                "correct and f1"
            )
        name = normalisation or self.meta["normalisation"]
        if name not in get_args(TableNormalisation):
            known = ", ".join(get_args(TableNormalisation))
            raise InputError(f"normalisation {name!r}: choose {known}")
        scores = _pad(self.table["loglik"])
        if name == "pmi":
            return scores - _pad(self.table["unconditional"], width=scores.shape[1])
        if name == "sum":
            return scores
        return scores / _pad(self.table[_LENGTHS[name]], width=scores.shape[1])

    def lengths(self, unit: Literal["char", "byte", "token"]) -> np.ndarray:
        """Return each option's length, shape (n_items, max_options), NaN where unknown or none."""
        if unit not in _LENGTHS:
            raise InputError(f"unit {unit!r}: choose {', '.join(_LENGTHS)}")
        return _pad(self.table[_LENGTHS[unit]])

    def correct_by(self, normalisation: TableNormalisation) -> np.ndarray:
        """Return correctness under another normalisation, shape (n_items,).

        Ties go to the first of the best options. Items without scores give NaN.
        """
        chosen, _ = choose(self.scores(normalisation))
        pairs = zip(chosen, self.table["gold"], strict=True)
        return np.array([np.nan if c < 0 or g is None else float(c in set(g)) for c, g in pairs])

    def accuracy(self, normalisation: TableNormalisation | None = None) -> float:
        """Return the share of correct items, by the table's normalisation or another."""
        correct = self.correct if normalisation is None else self.correct_by(normalisation)
        return float(np.nanmean(correct))

    def margins(self) -> np.ndarray:
        """Return the best score minus the second best, shape (n_items,), at least 0.

        NaN for items without scores.
        """
        ordered = np.sort(np.nan_to_num(self.scores(), nan=-np.inf), axis=1)
        with np.errstate(invalid="ignore"):
            return ordered[:, -1] - ordered[:, -2]

    def save(self, path: Path) -> Path:
        """Write the table as Parquet, atomically, with ``meta`` in the file's schema."""
        schema = _schema(self.table.columns)
        table = pa.Table.from_pandas(self.table, schema=schema, preserve_index=False)
        meta = json.dumps(self.meta, sort_keys=True, ensure_ascii=False).encode()
        table = table.replace_schema_metadata({_META_KEY: meta})
        return write_atomically(path, lambda temporary: pq.write_table(table, temporary))

    @classmethod
    def load(cls, path: Path) -> Predictions:
        """Read and validate a table written by :meth:`save`."""
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path}: not a readable Parquet file ({error})") from error
        for name in OPTIONAL:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table), SCHEMA.field(name).type))
        if missing := [name for name in SCHEMA.names if name not in table.column_names]:
            raise InputError(f"{path}: no column {missing[0]!r}; not a table of predictions")
        meta = json.loads((table.schema.metadata or {}).get(_META_KEY, b"{}"))
        schema = _schema(table.column_names)
        return cls(table.select(schema.names).cast(schema).to_pandas(), meta)


def choose(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the best option and whether others tie with it.

    Parameters
    ----------
    scores : ndarray of shape (n_items, n_options)
        Higher is better, NaN where there is no option.

    Returns
    -------
    chosen : ndarray of int, shape (n_items,)
        First of the best options, -1 where every score is missing.
    tied : ndarray of bool, shape (n_items,)
        True where at least two options share the best score.
    """
    filled = np.where(np.isnan(scores), -np.inf, scores)
    best = filled.max(axis=1)
    chosen = np.where(np.isneginf(best), -1, filled.argmax(axis=1))
    return chosen, (filled == best[:, None]).sum(axis=1) > 1


def _schema(columns: Iterable[str]) -> pa.Schema:
    """Return the schema of a table with these columns: that of written answers, or of options."""
    return pa.schema([*SCHEMA, *GENERATED]) if "generated" in columns else SCHEMA


def _pad(column: pd.Series, *, width: int = 2) -> np.ndarray:
    """Turn a column of lists into a float matrix with NaN where an item has fewer entries."""
    rows = [[] if row is None else row for row in column]
    padded = np.full((len(rows), max([width, *map(len, rows)])), np.nan)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _validate(table: pd.DataFrame) -> None:
    """Check the invariants of the table; the first broken one is named."""
    needed = _schema(table.columns).names
    if missing := [name for name in needed if name not in table.columns]:
        raise InputError(f"predictions: no column {missing[0]!r}")
    if table.empty:
        raise InputError("predictions: no rows")
    if table["key"].duplicated().any():
        row = int(np.flatnonzero(table["key"].duplicated())[0])
        raise InputError(f"predictions: row {row + 1} repeats key {table['key'].iloc[row]!r}")
    rows = zip(table["gold"], table["n_options"].tolist(), table["loglik"], strict=True)
    for row, (gold, n_options, loglik) in enumerate(rows, start=1):
        if gold is None:
            continue
        if len(gold) == 0 or min(gold) < 0 or (pd.notna(n_options) and max(gold) >= n_options):
            raise InputError(f"predictions: row {row} has gold {list(gold)} of {n_options} options")
        if loglik is not None and len(loglik) != n_options:
            raise InputError(
                f"predictions: row {row} has {len(loglik)} scores, {n_options} options"
            )
        if loglik is not None and any(v is not None and isinf(v) for v in loglik):
            raise InputError(f"predictions: row {row} has an infinite log-likelihood; use null")
    values = table["correct"].to_numpy(dtype=float)
    if ((values < 0) | (values > 1)).any():
        row = int(np.flatnonzero((values < 0) | (values > 1))[0])
        raise InputError(f"predictions: row {row + 1} has correct {values[row]} outside 0..1")
