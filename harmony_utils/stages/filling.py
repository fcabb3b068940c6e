"""Filling the gaps of a real benchmark with a panel of models and rules that answers it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from harmony_utils.difficulty import (
    DifficultyFit,
    Responses,
    Target,
    difficulty_posterior,
    find_gaps,
    fit_difficulty,
    pool_target,
    responses_from_matrix,
)
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.files import content_hash, json_values, write_atomically, write_json, write_text
from harmony_utils.filling import (
    AskingPanel,
    Budget,
    ChatGenerator,
    EndpointChat,
    Generator,
    LocalChat,
    OptionSurgery,
    Outcome,
    Reader,
    TextSpace,
    Thresholds,
    Trial,
    fill_gaps,
    gate_table,
    outcome_table,
    score_table,
)
from harmony_utils.items import Item
from harmony_utils.predictions import Predictions
from harmony_utils.respondents import is_respondent, respond
from harmony_utils.runs import Run, versions
from harmony_utils.scoring import load_model, score
from harmony_utils.scoring.models import identify_model
from harmony_utils.settings import PredictionsSettings
from harmony_utils.stages.audit import Audit

FILES = ("accepted.jsonl", "candidates.jsonl", "candidates.csv", "conclusions.csv", "scores.csv")
"""What a filling writes beside ``filling.json``."""

Band = tuple[float, float, int]


def fill_benchmark(
    audits: Sequence[Audit],
    *,
    folder: Path,
    generator: str = "surgery",
    reader: str = "",
    target: Target | None = None,
    bands: Sequence[Band] = (),
    irt: str = "2pl",
    thresholds: Thresholds | None = None,
    budget: Budget | None = None,
    widest_band: float = 1.0,
    random_state: int = 0,
) -> Trial:
    """Fill the gaps of a benchmark with new questions that its own panel answers.

    Parameters
    ----------
    audits : sequence of Audit
        Models and rules on one and the same benchmark, three or more; answers that are not there
        are computed first.
    folder : Path
        Where results go. The panel's answers are kept there while they come in, so that the same
        call after a kill asks only for what is missing.
    generator : str
        ``surgery``; ``random``, the baseline that does not aim; ``chat:MODEL``, a local chat
        model; or ``URL#MODEL``, an endpoint that speaks OpenAI's chat completions.
    reader : str
        A model whose likelihoods help to choose wrong options and to guess difficulties; none if
        empty. It need not be in the panel.
    target : Target, optional
        Difficulties that are wanted; the range of the panel's abilities if not given.
    bands : sequence of (low, high, n_wanted)
        Fill these instead of the gaps that are found.
    irt : {"1pl", "2pl"}
        Shape of the curves.
    thresholds, budget, widest_band, random_state
        See :func:`~harmony_utils.filling.fill_gaps`.

    Returns
    -------
    Trial
        Also written, see :func:`save_filling`.

    Raises
    ------
    InputError
        For fewer than three different respondents, other benchmarks, or an unknown generator,
        reader or shape: told before the panel answers.
    RefusedError
        If there is no gap that these answers can tell from chance, and no bands are given.
    """
    _check_choices(generator, reader, irt, widest_band)
    respondents, responses = _answered(audits)
    fit = fit_difficulty(responses, model=irt)
    wanted = target or pool_target(fit)
    benchmark = respondents[0].benchmark
    gaps = tuple(bands) or _gaps(fit, responses, wanted, random_state)
    texts = TextSpace("minilm")
    read = _reader(reader, respondents) if reader else None
    proposer = _generator(generator, respondents[0], texts, fit, read)
    with Run(folder).lock():
        panel = AskingPanel(
            {audit.model: _ask(audit) for audit in respondents},
            path=folder / _answers_name(respondents),
        )
        filling = fill_gaps(
            benchmark,
            responses,
            fit,
            gaps,
            panel,
            generator=proposer,
            texts=texts,
            reader=read,
            thresholds=thresholds,
            budget=budget,
            aimed=generator != "random",
            groups=_groups(respondents[0]),
            widest_band=widest_band,
            random_state=random_state,
        )
        trial = Trial(benchmark, responses, fit, wanted, gaps, filling, {})
        about = {
            "generator": generator,
            "reader": reader,
            "target": wanted.name,
            "irt": irt,
            "thresholds": asdict(thresholds or Thresholds()),
            "budget": asdict(budget or Budget()),
            "widest_band": widest_band,
            "random_state": random_state,
        }
        save_filling(trial, folder, settings=about)
    return trial


def save_filling(trial: Trial, folder: Path, *, settings: dict[str, Any]) -> dict[str, Any]:
    """Write a filling: what was accepted, what was not and why, and what follows.

    ``accepted.jsonl`` holds the new questions, in the form that ``--benchmark`` reads, each with
    its source, its measured difficulty and ``reviewed: false``: a person still has to read it.
    ``candidates.jsonl`` and ``.csv`` hold every candidate, with the gate that rejected it; the
    table leaves out the texts. ``conclusions.csv`` and ``scores.csv`` keep originals, both
    together and additions apart. ``filling.json`` is the summary.

    Returns
    -------
    dict
        What ``filling.json`` holds.
    """
    lines = [_accepted_line(outcome) for outcome in trial.filling.accepted]
    write_text(folder / "accepted.jsonl", _jsonl(lines))
    models = trial.responses.models
    outcomes = outcome_table(trial.filling)
    everything = [
        {**one.candidate.to_dict(), **row, "answers": dict(zip(models, one.answers, strict=False))}
        for one, row in zip(trial.filling.outcomes, outcomes.to_dict("records"), strict=True)
    ]
    write_text(folder / "candidates.jsonl", _jsonl(everything))
    tables = {
        "candidates": outcomes,
        "conclusions": trial.conclusions,
        "scores": score_table(trial.responses, trial.filling),
    }
    for name, table in tables.items():
        write_atomically(
            folder / f"{name}.csv",
            lambda path, table=table: table.to_csv(path, index=False, float_format="%.10g"),
        )
    found = json_values(
        {
            "benchmark": trial.benchmark.name,
            "models": list(models),
            **trial.summary(),
            "gates": gate_table(trial.filling).to_dict("records"),
            "settings": settings,
            "files": list(FILES),
            "versions": versions(),
        }
    )
    write_json(folder / "filling.json", found)
    return found


def _jsonl(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(json_values(row), ensure_ascii=False) + "\n" for row in rows)


def _accepted_line(outcome: Outcome) -> dict[str, Any]:
    made, found = outcome.candidate, outcome.measured
    return {
        "id": made.id,
        "question": made.question,
        "options": list(made.options),
        "gold": made.gold,
        **({"subject": made.subject} if made.subject else {}),
        **({"passage": made.passage} if made.passage else {}),
        "source": made.source,
        "operations": list(made.operations),
        "generator": made.generator,
        "difficulty": found.difficulty,
        "difficulty_se": found.difficulty_se,
        "p_in_band": found.p_in_band,
        "reviewed": False,
    }


def _answered(audits: Sequence[Audit]) -> tuple[list[Audit], Responses]:
    """Return the respondents that count, and their answers to the originals."""
    if len({audit.identity["benchmark"]["fingerprint"] for audit in audits}) != 1:
        raise InputError("fill: the models must answer one and the same benchmark, same --limit")
    names = [audit.model for audit in audits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"--model {twice}: given twice")
    benchmark = audits[0].benchmark
    if any(item.prompt for item in benchmark.items):
        raise InputError(
            f"fill: the questions of {benchmark.name} bring prompts of their own, which new "
            "questions would not have; load them from a file or the catalogue"
        )
    responses = responses_from_matrix(
        np.stack([audit.predictions().correct for audit in audits]),
        models=names,
        items=[item.id for item in benchmark.items],
        subjects=[item.subject or "" for item in benchmark.items],
    )
    return [audit for audit in audits if audit.model in responses.models], responses


def _answers_name(respondents: Sequence[Audit]) -> str:
    """Name the file of kept answers by who gave them: other weights or settings start another."""
    who = [[a.identity["model"], a.settings("predictions").identity()] for a in respondents]
    return f"answers-{content_hash(who)[:8]}.json"


def _gaps(
    fit: DifficultyFit, responses: Responses, target: Target, random_state: int
) -> tuple[Any, ...]:
    """Return the gaps of the whole benchmark that chance does not explain."""
    posterior = difficulty_posterior(fit, responses, random_state=random_state)
    found = find_gaps(fit, target, posterior=posterior, random_state=random_state)
    found = [gap for gap in found if gap.kind == "soft"]
    real = tuple(gap for gap in found if gap.verdict == "gap")
    if not real:
        why = found[0].sentence if found else "no stretch of difficulty lacks questions"
        raise RefusedError(
            f"fill: no gap to fill: {why}; give more models, or a band of your own with --gap "
            "LOW:HIGH:N"
        )
    return real


def _groups(audit: Audit) -> list[str] | None:
    groups = audit.groups()
    return None if groups is None else [str(number) for number in groups]


def _ask(audit: Audit) -> Callable[[Sequence[Item]], np.ndarray]:
    """Return a function that lets a respondent answer, as it answered the originals.

    A language model is let go afterwards: a panel need not fit into memory together.
    """

    def answer(items: Sequence[Item]) -> np.ndarray:
        asked = replace(audit.benchmark, name="candidates", items=tuple(items))
        settings = audit.settings("predictions")
        if audit.is_rule:
            return respond(audit.model, asked, settings).correct
        found = score(audit.language_model, asked, settings).predictions.correct
        audit.__dict__.pop("language_model", None)
        return found

    return answer


def _reader(model: str, respondents: Sequence[Audit]) -> Reader:
    """Return a reader; what it answered as a member of the panel is not scored again."""
    settings = PredictionsSettings()
    language_model = load_model(model, device="auto")
    benchmark = respondents[0].benchmark

    def likelihoods(asked: Any) -> Predictions:
        asked = replace(benchmark, name="candidates", items=asked.items)
        return score(language_model, asked, settings).predictions

    reader = Reader(likelihoods)
    for audit in respondents:
        if audit.model == model and audit.settings("predictions").format == "cloze":
            reader.learn(audit.predictions())
    return reader


def _check_choices(generator: str, reader: str, irt: str, widest_band: float) -> None:
    """Refuse what cannot work before the panel answers, which may take hours."""
    if irt not in ("1pl", "2pl"):
        raise InputError(f"--irt {irt}: choose 1pl or 2pl")
    if not 0 < widest_band < float("inf"):
        raise InputError(f"--widest {widest_band:g}: give a positive width in logits")
    kind, _, rest = generator.partition(":")
    if kind in ("http", "https"):
        if not generator.rpartition("#")[0]:
            raise InputError(f"--generator {generator}: give the model's name too, URL#MODEL")
    elif kind == "chat" and rest:
        identify_model(rest)
    elif generator not in ("surgery", "random"):
        raise InputError(
            f"--generator {generator}: choose surgery, random, chat:MODEL (a local model) or "
            "URL#MODEL"
        )
    if reader and is_respondent(reader):
        raise InputError(f"--reader {reader}: a rule has no likelihoods; name a language model")
    if reader:
        identify_model(reader)


def _generator(
    name: str, audit: Audit, texts: TextSpace, fit: DifficultyFit, reader: Reader | None
) -> Generator:
    known = fit.by_item
    kind, _, rest = name.partition(":")
    if name in ("surgery", "random"):
        return OptionSurgery(
            audit.benchmark, texts, difficulties=known, reader=reader, aimed=name == "surgery"
        )
    if kind in ("http", "https"):
        url, _, model = name.rpartition("#")
        return ChatGenerator(EndpointChat(url, model), name=model, difficulties=known)
    return ChatGenerator(LocalChat(load_model(rest)), name=rest, difficulties=known)
