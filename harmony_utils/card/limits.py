"""What a card does not cover: other settings than those deployed, missing questions, open ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harmony_utils.card.tested import Tested
from harmony_utils.card.words import plain_setting

ALWAYS = (
    "Intervals are about other questions of the same kind. Nothing here measures how far these "
    "questions stand for the workload, or whether they were in the training data.",
)
"""Limits of every card."""

_SPEED = {"device", "batch_size", "padding_side", "share_prefix", "chunk_size"}
_IDENTITY = {"source", "version", "revision"}


def coverage(run: Tested) -> dict[str, Any]:
    """Return how much of the benchmark was asked.

    Parameters
    ----------
    run : Tested
        From :func:`~harmony_utils.card.tested.load_tested`.

    Returns
    -------
    dict
        ``n_items`` that are scored, ``n_unscored``, ``n_expected`` (None where the benchmark is
        not in the catalogue), ``sampled`` (None where that is not known), and ``n_subjects``,
        ``n_subjects_expected``.
    """
    n_expected, subjects_expected = run.expected
    named = {subject for subject in run.subjects if subject is not None}
    return {
        "model": run.model,
        "benchmark": run.benchmark,
        "n_items": len(run.predictions),
        "n_unscored": run.n_unscored,
        "n_expected": n_expected,
        "sampled": run.sampled,
        "n_subjects": len(named),
        "n_subjects_expected": subjects_expected,
    }


def deployed_differences(deployed: Mapping[str, Any], runs: Sequence[Tested]) -> list[str]:
    """Return every setting in which the tested configuration differs from the deployed one.

    Parameters
    ----------
    deployed : mapping
        From a decision.
    runs : sequence of Tested
        Everything that was tested.

    Returns
    -------
    list of str
        A sentence for each setting and tested value; also for settings that a run did not record.
        Numbers and words are compared as they are written, so 1 and 1.0 are equal.
    """
    found: dict[str, list[str]] = {}
    for name, wanted in deployed.items():
        for run in runs:
            tested = run.configuration
            if name not in tested:
                text = f"{name}: deployed {_text(wanted)}, not recorded for what was tested"
            elif not _same(tested[name], wanted):
                text = f"{name}: deployed {_text(wanted)}, tested {_text(tested[name])}"
            else:
                continue
            found.setdefault(text, []).append(f"{run.model} on {run.benchmark}")
    return [
        text + ("" if len(places) == len(runs) else f" ({', '.join(places)})")
        for text, places in found.items()
    ]


def uneven_settings(runs: Sequence[Tested]) -> list[str]:
    """Return settings in which runs on one benchmark differ, so that models do not compare."""
    found = []
    for benchmark in sorted({run.benchmark for run in runs}):
        mine = {run.model: run.configuration for run in runs if run.benchmark == benchmark}
        names = set.intersection(*(set(settings) for settings in mine.values()))
        for name in sorted(names - _SPEED - _IDENTITY):
            values = {model: _text(settings[name]) for model, settings in mine.items()}
            if len(set(values.values())) > 1:
                listed = ", ".join(f"{model} {value}" for model, value in values.items())
                found.append(f"{benchmark}: models were tested with different {name}: {listed}")
    return found


def coverage_limits(covered: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is missing of the benchmarks, in words."""
    found = []
    for about in covered:
        where = f"{about['model']} on {about['benchmark']}"
        if about["sampled"]:
            asked, total = about["n_items"] + about["n_unscored"], about["n_expected"]
            of = f"of {total:,} questions" if total else "questions, a sample,"
            found.append(f"{where}: {asked:,} {of} were asked")
        if about["n_unscored"]:
            found.append(f"{where}: {about['n_unscored']} answers were not scored and are left out")
        expected = about["n_subjects_expected"]
        if expected and about["n_subjects"] < expected:
            found.append(f"{where}: {about['n_subjects']} of {expected} subjects were asked")
    return found


def _same(one: Any, other: Any) -> bool:
    return one == other or _text(one).lower() == _text(other).lower()


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return plain_setting(int(value) if whole else value)
