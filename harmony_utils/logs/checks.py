"""What should make a person look twice at a log."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import chisquare

from harmony_utils.logs.collect import Collected
from harmony_utils.logs.gold import Reading
from harmony_utils.logs.rows import Flag
from harmony_utils.predictions import Predictions

NEAR_TIE = 0.01
"""Nats between the two best options below which another batch size or number type may decide."""

SAME_SHARE = 0.5
"""Share of items with bit-identical log-likelihoods from which two models are suspect."""

MIN_ITEMS = 20
"""Fewer items than this are not tested for position bias or a constant gold option."""

SIGNIFICANT = 0.001
"""Level of the chi-squared test of positions: logs are many."""

#: Tasks whose correct option always stands in one place, as their harness writes them.
_CONSTANT_GOLD = {"sciq": "last", "truthfulqa_mc1": "first", "truthfulqa_mc2": "first"}


def check_log(data: Collected, reading: Reading, predictions: Predictions) -> list[Flag]:
    """Return what is suspicious in one model's log of one task."""
    header = data.header
    found = [
        _disagreement(reading),
        _unchecked(reading, data),
        _broken_gold(data, reading),
        _flat(data),
        _equal_options(data),
        _limited(data),
        _constant_gold(header.task, predictions),
        _near_ties(predictions),
        _position_bias(predictions),
    ]
    if predictions.meta["normalisation"] == "logged":
        found.append(
            Flag(
                "no-distribution",
                "the log holds no log-likelihoods of the options: accuracy, HARMONY over subjects "
                "or question embeddings and difficulty can be had, subdomains from predictions not",
            )
        )
    return [*header.flags, *(flag for flag in found if flag)]


def _disagreement(reading: Reading) -> Flag | None:
    wrong = [f"{m} {same}/{n}" for m, (same, n) in reading.agreement.items() if same < n]
    if not wrong:
        return None
    return Flag("disagreement", f"recomputed and logged differ: {', '.join(wrong)} rows agree")


def _unchecked(reading: Reading, data: Collected) -> Flag | None:
    if any(total for _, total in reading.agreement.values()):
        return None
    if reading.name == "none":
        return Flag("no-gold", "the log holds no correct option, only whether the answer was right")
    return Flag(
        "not-checked",
        f"no logged metric that could confirm the reading of the gold option ({reading.name})",
    )


def _broken_gold(data: Collected, reading: Reading) -> Flag | None:
    if not data.readings:
        return None
    rows = zip(
        reading.gold, data.correct, data.loglik, data.predictions, data.answered, strict=True
    )
    broken = sum(  # rows scored by what the log says of them, or with no answer, need no gold
        gold is None and (scores is not None or (np.isnan(right) and (chosen >= 0 or not answered)))
        for gold, right, scores, chosen, answered in rows
    )
    if not broken:
        return None
    return Flag(
        "gold-outside-range",
        f"{broken} rows have no correct option among their options; they are not scored",
    )


def _flat(data: Collected) -> Flag | None:
    rows = [r for r in data.loglik if r is not None and len(r) > 1]
    if not rows:
        return None
    flat = sum(r[0] is not None and r.count(r[0]) == len(r) for r in rows)
    if flat < max(2, len(rows) / 2):
        return None
    zero = sum(r.count(0) == len(r) for r in rows)
    kind = "all zero" if zero > flat / 2 else "the same for every option"
    return Flag(
        "constant-loglikelihoods",
        f"{flat} of {len(rows)} rows have log-likelihoods that are {kind}; the first option wins "
        "every tie, so the accuracy says nothing of the model",
    )


def _equal_options(data: Collected) -> Flag | None:
    if not data.equal_options:
        return None
    return Flag("equal-options", f"{data.equal_options} items have two options of the same text")


def _limited(data: Collected) -> Flag | None:
    total, limit = data.header.total_items, data.header.settings.get("limit")
    n_items = len(set(zip(data.native_ids, data.digests, strict=True)))
    if total and n_items < total:
        return Flag(
            "subject-skew",
            f"{n_items} of the task's {total} items; a limit keeps the first ones, which on a "
            "sorted benchmark is a skewed choice of subjects",
        )
    if isinstance(limit, (int, float)) and n_items < limit >= 1:
        return None  # the limit is larger than the task
    if limit and data.header.settings.get("limit_order") == "random":
        return Flag("random-subset", f"run on {n_items} items drawn at random from the task")
    if limit and not total:
        return Flag("subject-skew", f"run with a limit ({limit}); such runs keep the first items")
    return None


def _gold_positions(predictions: Predictions) -> np.ndarray:
    table = predictions.table
    single = [g[0] if g is not None and len(g) == 1 else -1 for g in table["gold"]]
    return np.array(single)


def _constant_gold(task: str, predictions: Predictions) -> Flag | None:
    gold = _gold_positions(predictions)
    gold = gold[gold >= 0]
    if len(gold) < MIN_ITEMS or (gold != gold[0]).any():
        return None
    known = next((place for name, place in _CONSTANT_GOLD.items() if name in task.lower()), None)
    why = f"as this task has it ({known})" if known else "which this task is not known for"
    return Flag("constant-gold", f"the correct option is number {gold[0] + 1} in every item, {why}")


def _near_ties(predictions: Predictions) -> Flag | None:
    if predictions.meta["normalisation"] == "logged":
        return None
    margins = predictions.margins()
    close = int((margins <= NEAR_TIE).sum())
    if not close:
        return None
    return Flag(
        "near-ties",
        f"{close} of {len(margins)} items have two best options within {NEAR_TIE} nats; another "
        "batch size or number type may turn them over",
    )


def _position_bias(predictions: Predictions) -> Flag | None:
    """Compare how often each position is chosen with how often it is correct."""
    table = position_table(predictions)
    if table is None or table["n"].sum() < MIN_ITEMS:
        return None
    expected, chosen = table["gold"], table["chosen"]
    usable = expected > 0
    if usable.sum() < 2 or (expected[usable] < 5).any():
        return None
    scaled = expected[usable] * chosen[usable].sum() / expected[usable].sum()
    p_value = chisquare(chosen[usable], scaled).pvalue
    if p_value >= SIGNIFICANT:
        return None
    shares = ", ".join(
        f"{position + 1}: chosen {c / chosen.sum():.0%}, correct {g / expected.sum():.0%}"
        for position, (c, g) in enumerate(zip(chosen, expected, strict=True))
    )
    return Flag(
        "position-bias",
        f"options are chosen by place more than chance allows ({shares}; chi-squared p = "
        f"{p_value:.1g})",
    )


def position_table(predictions: Predictions) -> dict[str, np.ndarray] | None:
    """Count choices and correct options by position.

    Returns
    -------
    dict of str to ndarray of shape (max_options,), or None
        ``chosen`` and ``gold`` counts, ``n`` items with that many options, ``accuracy`` where the
        correct option stands at that position (NaN where none does); None without predictions.
    """
    gold = _gold_positions(predictions)
    chosen = predictions.table["prediction"].astype("Int64").fillna(-1).to_numpy(dtype=int)
    usable = (gold >= 0) & (chosen >= 0)
    if not usable.any():
        return None
    gold, chosen = gold[usable], chosen[usable]
    width = int(max(gold.max(), chosen.max())) + 1
    count = np.bincount(gold, minlength=width)
    right = np.bincount(gold[gold == chosen], minlength=width)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = np.where(count > 0, right / count, np.nan)
    return {
        "chosen": np.bincount(chosen, minlength=width),
        "gold": count,
        "n": count,
        "accuracy": accuracy,
    }


def check_models(runs: Mapping[str, Predictions]) -> list[tuple[Sequence[str], Flag]]:
    """Look for models whose answers are copies of each other's.

    Parameters
    ----------
    runs : dict of str to Predictions
        Models on the same benchmark.

    Returns
    -------
    list of (pair of str, Flag)
        Pairs of models with bit-identical log-likelihoods on many items.
    """
    if len(runs) < 2:
        return []
    values = {
        name: {
            key: tuple(row)
            for key, row in zip(run.table["key"], run.table["loglik"], strict=True)
            if row is not None and len(set(row)) > 1
        }
        for name, run in runs.items()
    }
    found = []
    for first, second in itertools.combinations(values, 2):
        shared = values[first].keys() & values[second].keys()
        same = sum(values[first][key] == values[second][key] for key in shared)
        if same > max(1, SAME_SHARE * len(shared)):
            flag = Flag(
                "identical-loglikelihoods",
                f"{first} and {second} have bit-identical log-likelihoods on {same} of "
                f"{len(shared)} items; one may have been answered from the other's cache",
            )
            found.append(((first, second), flag))
    return found
