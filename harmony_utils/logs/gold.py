"""Which options are correct, and whether that reproduces what the log says.

A log may name its gold option by index, letter, text or a field of its own, and the same value can
often be read in several ways. Each reading is tried; one counts only if it gives the logged metric
on *every* row.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmony_utils.errors import InputError

RULES = {
    "sum": "option with the highest sum log-likelihood",
    "char": "divided by characters",
    "char-stripped": "divided by characters without white space around the option",
    "byte": "divided by UTF-8 bytes",
    "token": "divided by tokens",
    "pmi": "minus the log-likelihood without the question",
    "mass": "probability mass on the correct options",
    "prediction": "the option that the log says was chosen; of several, all and no other",
}
"""Ways in which a logged metric can be made from a row."""

#: Readings in order of preference where several agree.
_ORDER = ("index", "letter", "text", "list", "label")


def read_gold(
    value: Any, options: Sequence[str], *, n_options: int = 0, labels: Sequence[str] = ()
) -> dict[str, tuple[int, ...]]:
    """Return every way in which a value can name correct options.

    Parameters
    ----------
    value : int, str or list
        What the log holds.
    options : sequence of str
        Texts of the options.
    n_options : int
        Their number if the texts are not known.
    labels : sequence of str
        What the dataset calls its options, e.g. 1, 2, 3, 4.

    Returns
    -------
    dict of str to tuple of int
        Indices by reading: ``index`` (from 0), ``index-1`` (from 1), ``letter`` (A, (A), A.),
        ``text``, ``list`` (several), ``label``. What lies outside the options is left out.

    Examples
    --------
    >>> read_gold("2", ["1", "2", "3"])
    {'index': (2,), 'index-1': (1,), 'text': (1,)}
    >>> read_gold("(B)", ["yes", "no"])
    {'letter': (1,)}
    >>> read_gold("[1, 3]", ["a", "b", "c", "d"])
    {'list': (1, 3)}
    """
    size = len(options) or n_options
    found: dict[str, tuple[int, ...]] = {}
    if type(value) is str and value.isdigit() and value not in "".join(options):
        number = int(value)  # by far the most common case: nothing else can be meant
        if number < size:
            found["index"] = (number,)
        if 1 <= number <= size:
            found["index-1"] = (number - 1,)
        if value in labels:
            found["label"] = (list(labels).index(value),)
        return found
    if isinstance(value, str) and value.strip().startswith("["):
        value = _literal(value)
    if isinstance(value, (list, tuple)):
        parts = [read_gold(part, options, n_options=n_options) for part in value]
        for name in ("index", "letter", "text"):
            if parts and all(name in part for part in parts):
                key = "list" if name == "index" else name
                found.setdefault(key, tuple(sorted({i for part in parts for i in part[name]})))
        return found
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    if text.lstrip("-").isdigit():
        number = int(text)
        if 0 <= number < size:
            found["index"] = (number,)
        if 1 <= number <= size:
            found["index-1"] = (number - 1,)
    letter = text.strip("().: ").upper() if len(text) < 9 else ""
    if len(letter) == 1 and letter in string.ascii_uppercase[:size]:
        found["letter"] = (string.ascii_uppercase.index(letter),)
    if isinstance(value, str):
        for wanted in dict.fromkeys((value, text)):
            bare = options if wanted in options else [option.strip() for option in options]
            if wanted in bare:
                found["text"] = (bare.index(wanted),)
                break
    if text in labels:
        found["label"] = (list(labels).index(text),)
    return found


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


@dataclass(frozen=True)
class Reading:
    """The reading of the gold options that a log bears out.

    Parameters
    ----------
    name : str
        E.g. ``index``, ``letter``, ``doc.answer``; ``none`` where a log has no gold.
    gold : list of tuple or None
        Correct options of each row.
    rules : dict of str to str
        The rule that made each metric.
    agreement : dict of str to tuple of int
        Rows on which recomputed and logged metric agree, and rows compared, by metric.
    """

    name: str
    gold: list[tuple[int, ...] | None]
    rules: dict[str, str]
    agreement: dict[str, tuple[int, int]]

    @property
    def agrees(self) -> bool:
        """Whether every metric is reproduced on every row."""
        return all(same == total for same, total in self.agreement.values())


def recompute(
    rule: str,
    gold: Sequence[tuple[int, ...] | None],
    *,
    loglik: np.ndarray,
    n_options: np.ndarray,
    lengths: Mapping[str, np.ndarray],
    unconditional: np.ndarray | None = None,
    prediction: np.ndarray | None = None,
    chosen: Sequence[tuple[int, ...] | None] | None = None,
) -> np.ndarray:
    """Return a metric for each row, made by a rule from what the log holds.

    Parameters
    ----------
    rule : str
        One of :data:`RULES`.
    gold : sequence of tuple
        Correct options of each row; None where unknown.
    loglik : ndarray of shape (n_rows, max_options)
        As logged.
    n_options : ndarray of int, shape (n_rows,)
        Options of each row; what is beyond does not count.
    lengths : dict of str to ndarray of shape (n_rows, max_options)
        ``char``, ``char-stripped``, ``byte`` and ``token``.
    unconditional : ndarray of shape (n_rows, max_options), optional
        For ``pmi``.
    prediction : ndarray of int, shape (n_rows,), optional
        For ``prediction``; -1 where there is none.
    chosen : sequence of tuple, optional
        For ``prediction``: all options chosen, where they must be just the correct ones; None for
        rows with one prediction.

    Returns
    -------
    ndarray of shape (n_rows,)
        0, 1, or a share; NaN where it cannot be computed. Ties go to the first option, and a NaN
        wins, as in the tools that log them.
    """
    known = np.array([g is not None for g in gold])
    if rule == "prediction":
        made = hits(np.full(len(gold), -1) if prediction is None else prediction, gold, known)
        for i, several in enumerate(chosen or ()):
            if several is not None and known[i]:
                made[i] = float(set(several) == set(gold[i]))
        return made
    beyond = np.arange(loglik.shape[1]) >= n_options[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = loglik.copy()
        if rule in lengths:
            scores = scores / lengths[rule]
        elif rule == "pmi":
            scores = scores - unconditional if unconditional is not None else scores * np.nan
    usable = known & (n_options > 0) & ~np.isnan(np.where(beyond, 0.0, scores)).all(axis=1)
    scores[beyond] = -np.inf
    if rule == "mass":
        weight = np.exp(scores - np.nanmax(scores, axis=1, keepdims=True))
        mass = np.array(
            [w[list(g)].sum() / w.sum() if g else np.nan for w, g in zip(weight, gold, strict=True)]
        )
        return np.where(usable, mass, np.nan)
    return hits(scores.argmax(axis=1), gold, usable)


def hits(
    chosen: np.ndarray, gold: Sequence[tuple[int, ...] | None], usable: np.ndarray
) -> np.ndarray:
    """Return 1 where the chosen option is correct, else 0; NaN where not usable or no gold is."""
    pairs = zip(chosen.tolist(), gold, usable.tolist(), strict=True)
    return np.array([float(c in g) if ok and g is not None else np.nan for c, g, ok in pairs])


def choose_reading(
    readings: Mapping[str, list[tuple[int, ...] | None]],
    logged: Mapping[str, np.ndarray],
    metrics: Mapping[str, Sequence[str]],
    *,
    where: str,
    wanted: str = "",
    **values: Any,
) -> Reading:
    """Find the reading of the gold options that reproduces the logged metrics.

    Parameters
    ----------
    readings : dict of str to list
        Correct options of each row under each reading, None where a row cannot be read so.
    logged : dict of str to ndarray of shape (n_rows,)
        Metrics as logged, NaN where absent.
    metrics : dict of str to sequence of str
        Rules that may have made each metric.
    where : str
        File and task, for messages.
    wanted : str
        Take this reading (``--gold-from``).
    **values
        For :func:`recompute`.

    Returns
    -------
    Reading
        One that agrees on every row if there is one, else the one that agrees best. Rows whose
        gold no reading can tell (a label outside the options) are not compared.

    Raises
    ------
    InputError
        If several readings agree and name different options, or ``wanted`` does not exist.
    """
    if wanted and wanted not in readings:
        raise InputError(
            f"{where}: no gold reading {wanted!r}; choose --gold-from "
            f"{', '.join(readings) or '(this log holds no gold)'}"
        )
    names = [wanted] if wanted else sorted(readings, key=_preference)
    if not names:
        return Reading("none", [None] * len(values["n_options"]), {}, {})
    told = np.array(
        [any(g is not None for g in row) for row in zip(*readings.values(), strict=True)]
    )
    kept = {metric: np.where(told, found, np.nan) for metric, found in logged.items()}
    tried = [_check(name, readings[name], kept, metrics, values) for name in names]
    whole = [
        t
        for t in tried
        if t.agrees and all(g is not None for g, ok in zip(t.gold, told, strict=True) if ok)
    ]
    checked = [t for t in whole if any(total for _, total in t.agreement.values())]
    if len({tuple(t.gold) for t in checked}) > 1:
        raise InputError(
            f"{where}: the gold can be read as {' or '.join(t.name for t in checked)}, each "
            "reproduces the logged metrics and they differ; say which with --gold-from"
        )
    if checked or whole:
        return (checked or whole)[0]
    return max(tried, key=_quality)


def _preference(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _quality(reading: Reading) -> tuple[float, int]:
    shares = [same / total for same, total in reading.agreement.values() if total]
    return (min(shares, default=0.0), sum(g is not None for g in reading.gold))


def _check(
    name: str,
    gold: list[tuple[int, ...] | None],
    logged: Mapping[str, np.ndarray],
    metrics: Mapping[str, Sequence[str]],
    values: dict[str, Any],
) -> Reading:
    """Compare each metric with its best rule."""
    rules, agreement = {}, {}
    for metric, candidates in metrics.items():
        if metric not in logged:
            continue
        there = ~np.isnan(logged[metric])
        best = (-1, "")
        for rule in candidates:
            made = recompute(rule, gold, **values)
            tolerance = 1e-3 if rule == "mass" else 1e-6
            with np.errstate(invalid="ignore"):
                same = int((there & (np.abs(made - logged[metric]) <= tolerance)).sum())
            best = max(best, (same, rule), key=lambda pair: pair[0])
            if same == there.sum():
                break
        rules[metric], agreement[metric] = best[1], (best[0], int(there.sum()))
    return Reading(name, gold, rules, agreement)
