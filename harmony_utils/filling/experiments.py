"""Trials of filling: with models whose truth is known, and with recorded answers of real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harmony_utils.difficulty.coverage import find_gaps
from harmony_utils.difficulty.fit import fit_difficulty
from harmony_utils.difficulty.mismatch import pool_target, uniform_target
from harmony_utils.difficulty.posterior import difficulty_posterior
from harmony_utils.difficulty.responses import Responses, responses_from_matrix
from harmony_utils.errors import InputError
from harmony_utils.filling.gates import Thresholds
from harmony_utils.filling.outcomes import Budget
from harmony_utils.filling.panels import Panel, RecordedPanel, SimulatedPanel
from harmony_utils.filling.texts import TextSpace
from harmony_utils.filling.trial import Trial, fill_by_surgery
from harmony_utils.items import Benchmark, Item
from harmony_utils.logs import import_logs
from harmony_utils.predictions import Predictions
from harmony_utils.respondents import PREFIX, respond
from harmony_utils.runs import recorded_folder
from harmony_utils.sources import load_benchmark

RULES = ("minilm", "longest")
"""Rules that sit in every real panel, beside language models."""

LANGUAGE_MODELS = {
    "arc_easy": (
        "gemma3-270m",
        "smollm2-135m",
        "smollm2-135m#layer=10",
        "smollm2-135m#layer=15",
        "smollm2-135m#layer=20",
        "smollm2-135m#layer=25",
        "smollm2-135m#layer=5",
    ),
    "redundantqa": ("gemma3-270m", "smollm2-135m"),
}
"""Models whose answers to a benchmark are recorded."""

REAL_BUDGET = Budget(proposals=60, measured=15, rounds=1, max_measured=15, patience=1)


def simulate_filling(
    benchmark: Benchmark,
    texts: TextSpace,
    *,
    n_models: int = 40,
    hole: tuple[float, float] = (0.8, 2.6),
    aimed: bool = True,
    budget: Budget | None = None,
    thresholds: Thresholds | None = None,
    random_state: int = 0,
) -> Trial:
    """Cut a hole of known place into a benchmark and fill it with a simulated panel.

    Parameters
    ----------
    benchmark : Benchmark
        Real questions; those whose true difficulty lies in the hole are taken out first.
    texts : TextSpace
        Similarities.
    n_models : int
        Size of the panel.
    hole : tuple of float
        In logits of the truth.
    aimed : bool
        Option surgery towards the gap, or random rewriting.
    budget : Budget, optional
        When to stop.
    thresholds : Thresholds, optional
        Where gates close.
    random_state : int
        Seed of world and loop.

    Returns
    -------
    Trial
        The gap is the widest soft gap that is found, so a wrong place would show.
    """
    panel = SimulatedPanel(texts, n_models=n_models, random_state=random_state)
    true = panel.difficulty(benchmark.items)
    kept = [x for x, b in zip(benchmark.items, true, strict=True) if not hole[0] < b < hole[1]]
    originals = replace(benchmark, items=tuple(kept))
    responses = panel.responses(originals)
    fit = fit_difficulty(responses)
    target = uniform_target(-2.5, 2.5)
    posterior = difficulty_posterior(fit, responses)
    gaps = find_gaps(fit, target, posterior=posterior, n_chance=40)
    chosen = tuple(gap for gap in gaps if gap.kind == "soft")[:1]
    filling = fill_by_surgery(
        originals, responses, fit, chosen, panel,
        texts=texts, aimed=aimed, budget=budget, thresholds=thresholds, random_state=random_state,
    )  # fmt: skip
    asked = [o.candidate for o in filling.outcomes if o.measured]
    truth = panel.difficulty([c.item() for c in asked]) if asked else []
    return Trial(
        originals, responses, fit, target, chosen, filling,
        {c.id: float(b) for c, b in zip(asked, truth, strict=True)},
    )  # fmt: skip


def real_originals(name: str) -> tuple[Benchmark, Responses]:
    """Return a benchmark with the recorded answers of language models, and those of rules.

    Raises
    ------
    InputError
        For a benchmark without recorded answers.
    """
    if name not in LANGUAGE_MODELS:
        raise InputError(f"benchmark {name!r}: recorded are {', '.join(LANGUAGE_MODELS)}")
    benchmark = load_benchmark(name)
    models = LANGUAGE_MODELS[name]
    values = np.concatenate([_recorded_answers(name, benchmark), rule_answers(benchmark.items)])
    return benchmark, responses_from_matrix(
        values,
        models=[*models, *(PREFIX + rule for rule in RULES)],
        items=[item.id for item in benchmark.items],
        subjects=[item.subject or "" for item in benchmark.items],
    )


def _recorded_answers(name: str, benchmark: Benchmark) -> np.ndarray:
    """Return what language models answered, joined by content, shape (n_models, n_items)."""
    folder = recorded_folder()
    if name == "arc_easy":
        found = {
            model: Predictions.load(folder / name / _folder(model) / "predictions.parquet")
            for model in LANGUAGE_MODELS[name]
        }
    else:
        found = {run.model: run.predictions for run in import_logs([str(folder / "logs")]).runs}
    rows = []
    for model in LANGUAGE_MODELS[name]:
        answers = dict(zip(found[model].table["key"], found[model].correct, strict=True))
        keys = benchmark.keys()
        rows.append([answers[key] for key in keys])
    return np.array(rows, dtype=float)


def _folder(model: str) -> str:
    """Return the folder of a recorded run: two digits for an early exit."""
    name, _, layer = model.partition("#layer=")
    return f"{name}--layer-{int(layer):02d}" if layer else name


def rule_answers(items: Sequence[Item]) -> np.ndarray:
    """Return the answers of the rules, shape (n_rules, n_items)."""
    benchmark = Benchmark("questions", tuple(items))
    return np.stack([respond(PREFIX + rule, benchmark).correct for rule in RULES])


def recorded_panel(name: str) -> RecordedPanel:
    """Return the recorded answers to candidates of a real trial."""
    return RecordedPanel.load(answers_file(name))


def answers_file(name: str) -> Path:
    """Return where answers to candidates are recorded."""
    return recorded_folder() / "filling" / f"{name}-answers.json"


def fill_real(name: str, panel: Panel, texts: TextSpace, *, random_state: int = 0) -> Trial:
    """Fill the widest soft gap of a benchmark, as its panel's own abilities want it.

    Parameters
    ----------
    name : str
        See :func:`real_originals`.
    panel : callable
        Rows as in the responses: language models, then rules.
    texts : TextSpace
        Similarities.
    random_state : int
        Seed.

    Returns
    -------
    Trial
        Without truth. A panel that small needs wide bands: a gap is cut at 2 logits.
    """
    benchmark, responses = real_originals(name)
    fit = fit_difficulty(responses)
    target = pool_target(fit)
    posterior = difficulty_posterior(fit, responses)
    found = find_gaps(fit, target, posterior=posterior, n_chance=40)
    gaps = tuple(gap for gap in found if gap.kind == "soft")[:1]
    groups = None
    if name == "redundantqa":
        from harmony_utils.redundantqa import groups as redundant_groups

        groups = redundant_groups(benchmark)["group"].tolist()
    filling = fill_by_surgery(
        benchmark, responses, fit, gaps, panel, texts=texts, budget=REAL_BUDGET,
        widest_band=2.0, groups=groups, random_state=random_state,
    )  # fmt: skip
    return Trial(benchmark, responses, fit, target, gaps, filling, {})
