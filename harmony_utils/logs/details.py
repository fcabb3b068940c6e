"""What lighteval and the Open LLM Leaderboard call details: one row for each question."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harmony_utils.logs.cells import cell, dig, real
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.streams import open_bytes
from harmony_utils.logs.values import number

#: Names before a colon that hold whole benchmarks, not the subjects of one.
_COLLECTIONS = {"arc", "truthfulqa", "gpqa", "glue", "super_glue", "lextreme", "helm", "blimp"}

_STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT[\d\-:.]+)\.\w+$")
_MODEL = re.compile(r"(?:model_name|pretrained)=['\"]([^'\"]+)")
_SUBJECTS = ("subject", "category", "subdomain")


@dataclass
class Detail:
    """One question as logged, its cells read but not yet interpreted.

    Parameters
    ----------
    query, prompt : str
        The question, and the whole prompt.
    choices : list of str
        What was scored, white space included.
    gold : int, str or list
        As logged.
    scores : list
        Log-likelihoods, pairs of them with a flag, or generated texts.
    unconditional : list, optional
        Log-likelihoods without the question.
    tokens : list, optional
        Token ids of each continuation, padded with -1.
    metrics : dict
        As logged.
    specific : dict
        Further fields of the item.
    truncated : int or bool
        Whether the prompt was cut.
    native_id, task : str
        As logged, ``""`` where absent.
    """

    query: str
    prompt: str
    choices: list[str]
    gold: Any
    scores: Any
    metrics: dict[str, Any]
    unconditional: Any = None
    tokens: Any = None
    specific: dict[str, Any] = field(default_factory=dict)
    truncated: Any = None
    native_id: str = ""
    task: str = ""


def rules_of(metric: str) -> tuple[str, ...]:
    """Return the rules that may have made a metric, by its name; none for one not recomputed.

    Examples
    --------
    >>> rules_of("loglikelihood_acc_norm_nospace"), rules_of("acc"), rules_of("bleu")
    (('char', 'char-stripped', 'byte'), ('sum',), ())
    """
    name = metric.lower().removeprefix("loglikelihood_").removeprefix("truthfulqa_")
    if not name.startswith(("acc", "mc1")) or "stderr" in name:
        return ()
    if "pmi" in name:
        return ("pmi",)
    if "token" in name:  # the tool divides by the padded length, the same for every option
        return ("token", "sum")
    if "byte" in name:
        return ("byte",)
    return ("char", "char-stripped", "byte") if "norm" in name or "char" in name else ("sum",)


def row_of(detail: Detail, header: LogHeader, notes: set[str]) -> LogRow:
    """Return the canonical row; ``notes`` gathers flags of the whole log."""
    row = LogRow(
        native_id=detail.native_id,
        question=detail.query,
        prompt=detail.prompt,
        subject=None if header.subject else _subject(detail.specific),
        flags=("truncated",) if _positive(detail.truncated) else (),
    )
    loglik = logliks(detail.scores, len(detail.choices))
    choices, gold, metrics = detail.choices, detail.gold, detail.metrics
    if loglik is None:
        row.options = [choice.strip() for choice in choices] if len(choices) > 1 else []
        row.gold = _gold(gold, row.options) if row.options else {}
        shares = (number(v) for m, v in metrics.items() if "stderr" not in m)
        row.correct = next((v for v in shares if v is not None and 0 <= v <= 1), None)
        return row
    size = len(choices) or len(loglik)
    tokens = _lengths(detail.tokens, len(loglik), notes)
    unconditional = logliks(detail.unconditional, size)
    if len(loglik) == 2 * size:
        unconditional = unconditional or loglik[size:]
    if first := _first_part(detail, size):
        size, gold = first, 0
        metrics = {name: value for name, value in metrics.items() if "mc2" not in name.lower()}
    row.n_options, row.loglik = size, loglik[:size]
    row.unconditional = unconditional[:size] if unconditional else None
    row.tokens = tokens[:size] if tokens else None
    if choices:
        row.scored = choices[:size]
        row.options = [choice.strip() for choice in row.scored]
    row.gold = _gold(gold, row.options, size)
    for name, value in metrics.items():
        share = number(value)
        if share is not None and 0 <= share <= 1 and (rules := rules_of(name)):
            row.logged[name] = share
            header.metrics.setdefault(name, rules)
    if not row.gold and row.logged:
        row.correct = next(iter(row.logged.values()))
    return row


def logliks(scores: Any, size: int) -> list[float] | None:
    """Read log-likelihoods, as numbers or first in pairs; None if they are not that of options.

    Examples
    --------
    >>> logliks([[-1.5, 0.0], [-0.5, 1.0]], 2), logliks(["-1.5", "-inf"], 2), logliks(["B"], 4)
    ([-1.5, -0.5], [-1.5, -inf], None)
    """
    if not isinstance(scores, (list, tuple)) or not len(scores):
        return None
    if len(scores) == 1 and isinstance(scores[0], (list, tuple)) and size > 1:
        scores = scores[0]
    found = [s[0] if isinstance(s, (list, tuple)) and s else s for s in scores]
    values = [float("nan") if value is None else real(value) for value in found]
    if len(values) < 2 or None in values or (size and len(values) not in (size, 2 * size)):
        return None
    return values


def _lengths(tokens: Any, size: int, notes: set[str]) -> list[int | None] | None:
    """Count the tokens of each continuation, without the padding."""
    if not isinstance(tokens, (list, tuple)) or len(tokens) != size:
        return None
    lengths = []
    for ids in tokens:
        if not isinstance(ids, (list, tuple)):
            ids = [ids]
        lengths.append(sum(token is not None and token != -1 for token in ids))
        if lengths[-1] < len(ids):
            notes.add("padded-lengths")
    return [length or None for length in lengths] if any(lengths) else None


def _first_part(detail: Detail, size: int) -> int | None:
    """Return the number of options of TruthfulQA's first part (mc1), which mc2's follow."""
    both = {m.lower().removeprefix("truthfulqa_") for m in detail.metrics} >= {"mc1", "mc2"}
    known = number(detail.specific.get("len_mc1"))
    if not both and not known:
        return None
    gold = detail.gold
    if known is None and isinstance(gold, (list, tuple)) and len(gold) > 1:
        known = number(gold[1])  # the second part starts with a correct option too
    if known is None and detail.choices[:1] * 2 and detail.choices[0] in detail.choices[1:]:
        known = detail.choices.index(detail.choices[0], 1)
    return int(known) if known and 1 < known <= size else None


def _gold(gold: Any, options: list[str], size: int = 0) -> dict[str, tuple[int, ...]]:
    """Read an index, or a list of them, counted from 0."""
    size = size or len(options)
    values = list(gold) if isinstance(gold, (list, tuple)) else [gold]
    indices = [number(value) for value in values]
    if values and None not in indices:
        inside = tuple(sorted({int(i) for i in indices if 0 <= i < size and i == int(i)}))
        return {"index": inside} if len(inside) == len(set(indices)) else {}
    return read_gold(gold, options) if gold is not None else {}


def _subject(specific: dict[str, Any]) -> str | None:
    found = (specific.get(name) for name in _SUBJECTS)
    return next((s for s in found if isinstance(s, str) and s), None)


def _positive(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_positive, value))
    if isinstance(value, dict):
        return any(map(_positive, value.values()))
    return (number(value) or 0) > 0


# tasks and results files ----------------------------------------------------------------------


def parse_task(text: str) -> tuple[str, int | None]:
    """Return a task's name and number of few-shot examples.

    Examples
    --------
    >>> parse_task("leaderboard|mmlu:anatomy|5"), parse_task("mmlu:anatomy|0")
    (('mmlu:anatomy', 5), ('mmlu:anatomy', 0))
    >>> parse_task("lighteval|arc:easy|25|1"), parse_task("plain")
    (('arc:easy', 25), ('plain', None))
    """
    parts = [part for part in text.split("|") if part]
    names = [part for part in parts if not part.isdigit()]
    numbers = [int(part) for part in parts if part.isdigit()]
    return (names[-1] if names else text, numbers[0] if numbers else None)


def split_task(task: str) -> tuple[str, str | None]:
    """Return the benchmark and the subject of a task.

    Examples
    --------
    >>> split_task("mmlu:anatomy"), split_task("arc:challenge"), split_task("hendrycksTest-law")
    (('mmlu', 'anatomy'), ('arc:challenge', None), ('hendrycksTest', 'law'))
    """
    if task.startswith("hendrycksTest-"):
        return "hendrycksTest", task.removeprefix("hendrycksTest-")
    name, _, subject = task.partition(":")
    return (name, subject) if subject and name not in _COLLECTIONS else (task, None)


def task_in_name(path: Path) -> str:
    """Return the task in a file name, whose ``|`` and ``:`` may have been replaced.

    Examples
    --------
    >>> task_in_name(Path("details_leaderboard|arc:challenge|25_2024-01-02T03-04-05.6.parquet"))
    'leaderboard|arc:challenge|25'
    >>> task_in_name(Path("details_mmlu__anatomy__5_2024-01-02T03-04-05.6.parquet"))
    'mmlu:anatomy|5'
    >>> task_in_name(Path("details_harness-arc-challenge-25_2024-01-02T03-04-05.6.parquet"))
    'harness|arc:challenge|25'
    """
    name = _STAMP.sub("", path.name).removesuffix(".parquet").removeprefix("details_")
    if "|" in name or not (number := re.search(r"(__|[_-])(\d+)$", name)):
        return name
    cut, few = number[1], number[2]
    parts = name[: number.start()].split(cut) if cut != "_" else [name[: number.start()]]
    if parts[0] in ("harness", "leaderboard", "lighteval", "community", "helm", "original"):
        suite, parts = f"{parts[0]}|", parts[1:] or parts
    else:
        suite = ""
    if parts[0] == "hendrycksTest":
        return f"{suite}hendrycksTest-{'_'.join(parts[1:])}|{few}"
    return f"{suite}{':'.join([parts[0], '_'.join(parts[1:])]).rstrip(':')}|{few}"


def header_of(format: str, version: str, path: Path, task_text: str) -> LogHeader:
    """Return what the task, the path and the results file say of the run."""
    task, few_shot = parse_task(task_text or task_in_name(path))
    benchmark, subject = split_task(task)
    results = find_results(path)
    general = results.get("config_general") or {}
    config = _of_task(results.get("config_tasks"), task, few_shot)
    total = number(dig(config, "original_num_docs"))
    header = LogHeader(
        format=format,
        version=version,
        model=_model(path, general),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics={},
        settings={
            "few_shot": few_shot,
            "template": None,
            "task_version": dig(config, "version"),
            "limit": general.get("max_samples"),
            "seed": dig(general, "model_config", "seed"),
        },
        reported=_reported(results, task, benchmark, few_shot),
        total_items=int(total) if total and 0 < total < math.inf else None,
    )
    if not results:
        sentence = "no results file lies beside the details: the model is told by the path only"
        header.flags.append(Flag("no-results-file", sentence))
    return header


def find_results(path: Path) -> dict[str, Any]:
    """Read the results file of a details file: beside it, or in the ``results`` of its output."""
    folders = [path.parent]
    parts = list(path.parts)
    for i, part in enumerate(parts):
        if part == "details":
            folders += [
                Path(*parts[:i], "results", *parts[i + 1 : end])
                for end in range(len(parts) - 1, i, -1)
            ]
    stamp = _STAMP.search(path.name)
    for folder in folders:
        found = sorted(folder.glob("results*.json"))
        if stamp:
            found = [f for f in found if _digits(f.stem) == _digits(stamp[1])] or [
                f for f in found if not _digits(f.stem) and len(found) == 1
            ]
        if len(found) == 1 and (results := _load(found[0])):
            return results
    return {}


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _load(path: Path) -> dict[str, Any]:
    try:
        with open_bytes(path) as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_task(table: Any, task: str, few_shot: int | None) -> Any:
    """Return the entry of a task in a table whose keys are written in any of the ways."""
    if not isinstance(table, dict):
        return None
    alike = {parse_task(name): entry for name, entry in table.items()}
    return alike.get((task, few_shot), table.get(task))


def _reported(
    results: dict[str, Any], task: str, benchmark: str, few_shot: int | None
) -> dict[str, float]:
    found = {}
    for prefix, name in (("", task), ("group:", f"{benchmark}:_average")):
        entry = _of_task(results.get("results"), name, few_shot) or {}
        for metric, value in entry.items():
            if rules_of(metric) and (share := number(value)) is not None:
                found[prefix + metric] = share
    return found


def _model(path: Path, general: dict[str, Any]) -> str:
    config = cell(general.get("model_config"))
    named = general.get("model_name") or dig(config, "model_name") or dig(config, "pretrained")
    if not named and isinstance(config, str) and (quoted := _MODEL.search(config)):
        named = quoted[1]
    if named:
        return str(named)
    parts = path.parts
    if "details" in parts and len(parts) > parts.index("details") + 3:
        start = parts.index("details") + 1
        inner = [part for part in parts[start:-1] if not re.match(r"\d{4}-\d\d-\d\dT", part)]
        return "/".join(inner)
    for part in reversed(parts[:-1]):
        if part.startswith("details_") or part.endswith("-details"):
            return part.removeprefix("details_").removesuffix("-details").replace("__", "/")
    return path.parent.name or "unknown"
