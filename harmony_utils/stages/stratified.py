"""The difficulty-stratified null of an audit: difficulties come from other audited models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harmony_utils.metric import tail_shares
from harmony_utils.null import difficulty_strata, null_p_value, stratified_null_draws
from harmony_utils.predictions import Predictions
from harmony_utils.runs import Run

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit

MIN_MODELS = 3
"""Other models it takes to say which questions are hard."""


def judges(audit: Audit) -> list[Run]:
    """Return the runs that say how hard the audit's questions are.

    Parameters
    ----------
    audit : Audit
        Not among them.

    Returns
    -------
    list of Run
        Of every other model that answered the same questions in the same way one run, the whole
        model's if there is one, else its deepest early exit. If there are fewer than
        :data:`MIN_MODELS`, early exits of the audited model itself are added, which are no
        independent judges; see :func:`is_same_model`. In the order of their folders' names.
    """
    runs = audit.peers(stages=("predictions",))
    others: dict[tuple[str, str], Run] = {}
    for run in sorted(runs, key=_depth, reverse=True):
        if not is_same_model(audit, run):
            model = run.record["audit"]["model"]
            others.setdefault((model["source"], model["version"]), run)
    chosen = list(others.values())
    if len(chosen) < MIN_MODELS:
        chosen += [run for run in runs if is_same_model(audit, run)]
    return sorted(chosen, key=lambda run: run.folder.name)


def is_same_model(audit: Audit, run: Run) -> bool:
    """Say whether a run is of the audited model, cut at another layer."""
    own, other = audit.identity["model"], run.record["audit"]["model"]
    return all(own[name] == other[name] for name in ("source", "version"))


def stratified_result(audit: Audit, runs: Sequence[Run]) -> dict[str, Any]:
    """Compare HARMONY with deals among questions of about the same difficulty.

    Parameters
    ----------
    audit : Audit
        With finished predictions and subdomains.
    runs : sequence of Run
        From :func:`judges`.

    Returns
    -------
    dict
        ``p_value``, ``median``, ``lo``, ``hi`` and ``n`` of the null distribution, all None where
        there is none, and then a ``reason``; ``n_models``, of which ``n_same_model`` are early
        exits of the audited model; their names, ``models``; and ``n_strata``.
    """
    names = [run.folder.name for run in runs]
    about = {
        **dict.fromkeys(("p_value", "median", "lo", "hi", "n"), None),
        "n_models": len(runs),
        "n_same_model": sum(is_same_model(audit, run) for run in runs),
        "models": names,
        "n_strata": 0,
        "reason": "",
    }
    if len(runs) < MIN_MODELS:
        about["reason"] = (
            f"{len(runs)} other model{'' if len(runs) == 1 else 's'} answered these questions in "
            f"the same way, {MIN_MODELS} are needed"
        )
        return about
    difficulty = 1 - np.mean([_right(audit, run) for run in runs], axis=0)
    strata = difficulty_strata(difficulty)
    about["n_strata"] = len(np.unique(strata))
    if about["n_strata"] < 2:
        about["reason"] = "the other models find all questions about equally hard"
        return about
    settings, result = audit.settings("harmony"), audit.measure()
    null = stratified_null_draws(
        audit.predictions().correct,
        audit.clustering().labels,
        difficulty,
        groups=audit.groups(),
        bandwidth=settings.bandwidth,
        n_null=settings.n_null,
        random_state=settings.random_state,
    )
    ends = tail_shares(settings.confidence)
    low, median, high = np.quantile(null, [ends[0], 0.5, ends[1]]).tolist()
    shown = {"p_value": null_p_value(null, result.harmony), "median": median, "lo": low, "hi": high}
    return {**about, **shown, "n": len(null)}


def _depth(run: Run) -> float:
    layer = run.record["audit"]["model"].get("layer")
    return float("inf") if layer is None else layer


def _right(audit: Audit, run: Run) -> np.ndarray:
    """Return the other model's correctness in the order of the audit's questions."""
    table = Predictions.load(run.path("predictions.parquet")).table.set_index("key")
    return table.loc[audit.benchmark.keys(), "correct"].to_numpy(dtype=float)
