"""HELM: a run's folder with ``scenario_state.json``, or that file alone.

Layouts: *joint* asks once and gets a letter, which ``output_mapping`` turns into an option;
*separate* scores each option in a request of its own. Log-likelihoods are taken from *separate*
only, and only where the logged tokens show which of them are the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.converting import WRONG
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import HELM_FILE, Source, read_beside
from harmony_utils.logs.streams import JsonText, open_bytes
from harmony_utils.logs.values import number

NAME = "helm"

#: Statistics of an instance that say whether the answer was right, best first.
_CORRECT = (
    "exact_match",
    "quasi_exact_match",
    "prefix_exact_match",
    "quasi_prefix_exact_match",
    "chain_of_thought_correctness",
)
_SUBJECT = ("subject", "subset", "category", "task", "dataset")

Key = tuple[str, int]


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    if source.kind == "folder":
        source = Source(source.path / HELM_FILE)
    states = source.start.get("request_states")
    if not isinstance(states, list) or not (
        "adapter_spec" in source.start or (states and "instance" in states[0])
    ):
        return None
    adapter = source.start.get("adapter_spec") or {}
    return str(adapter.get("method") or "unknown adapter")


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    path = source.path / HELM_FILE if source.kind == "folder" else source.path
    spec = _beside(source, path, "run_spec") or {}
    adapter = _member(path, "adapter_spec") or spec.get("adapter_spec") or {}
    name = str(spec.get("name") or path.parent.name)
    benchmark, subject, task = task_of_run(name, spec.get("scenario_spec"))
    method = str(adapter.get("method") or "")
    header = LogHeader(
        format=NAME,
        version=method or "unknown adapter",
        model=str(adapter.get("model") or adapter.get("model_deployment") or _argument(name)),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics={"exact_match": ("prediction",)},
        settings={
            "few_shot": adapter.get("max_train_instances"),
            "template": method or None,
            "limit": adapter.get("max_eval_instances"),
            "limit_order": "random",
        },
    )
    stats = _statistics(_beside_path(source, path, "per_instance_stats"))
    if not stats:
        header.flags.append(
            Flag(
                "no-statistics",
                "per_instance_stats.json is not beside the answers: nothing confirms the reading",
            )
        )
    reported = _mean(_beside(source, path, "stats") or [], "exact_match")
    if reported is not None:
        header.reported["exact_match"] = reported
    return header, _rows(path, header, stats)


# one request is one answer, or one option ------------------------------------------------------


def _rows(path: Path, header: LogHeader, stats: dict[Key, dict[str, float]]) -> Iterator[LogRow]:
    perturbed = truncated = encrypted = 0
    groups: dict[Key, _Group] = {}
    for line, state in enumerate(_states(path), start=1):
        try:
            instance = state["instance"]
            if instance.get("perturbation"):
                perturbed += 1
                continue
            truncated += bool(state.get("prompt_truncated"))
            encrypted += str(instance["input"].get("text")).startswith("[encrypted")
            key = (str(instance.get("id")), int(state.get("train_trial_index") or 0))
            if state.get("reference_index") is not None:
                groups.setdefault(key, _Group(_start(state, key, line))).add(state)
                continue
            row = _start(state, key, line)
            _answer(row, state, stats.get(key, {}), header.version)
        except WRONG as error:
            raise InputError(
                f"{path}, request {line}: not a request of HELM ({type(error).__name__}: {error})"
            ) from None
        yield row
    header.flags += _counted(perturbed, truncated, encrypted)
    yield from _separate(groups, header, stats)


def _counted(perturbed: int, truncated: int, encrypted: int) -> list[Flag]:
    found = []
    if perturbed:
        sentence = f"{perturbed} requests on perturbed copies of a question are left out"
        found.append(Flag("perturbed-copies", sentence))
    if truncated:
        found.append(Flag("truncated-prompts", f"{truncated} prompts were cut to fit the model"))
    if encrypted:
        found.append(
            Flag(
                "encrypted-texts",
                f"{encrypted} questions are encrypted in the log: they cannot be matched with "
                "other tools' logs",
            )
        )
    return found


def _start(state: dict[str, Any], key: Key, line: int) -> LogRow:
    """Return what joint and separate requests have in common."""
    instance = state["instance"]
    references = instance.get("references") or []
    gold = tuple(i for i, r in enumerate(references) if "correct" in (r.get("tags") or []))
    sub_split = instance.get("sub_split")
    return LogRow(
        native_id=key[0],
        epoch=key[1],
        line=line,
        question=str(instance["input"].get("text") or ""),
        prompt=str((state.get("request") or {}).get("prompt") or ""),
        options=[_reference(r) for r in references],
        gold={"correct tag": gold} if gold else {},
        subject=sub_split if isinstance(sub_split, str) else None,
        flags=("truncated",) if state.get("prompt_truncated") else (),
    )


def _reference(reference: dict[str, Any]) -> str:
    return str((reference.get("output") or {}).get("text") or "")


def _answer(row: LogRow, state: dict[str, Any], stats: dict[str, float], method: str) -> None:
    """Read one answer to all options."""
    row.correct = next((stats[name] for name in _CORRECT if name in stats), None)
    completions = (state.get("result") or {}).get("completions") or []
    said = ""
    if completions:  # the likeliest one is scored
        best = max(completions, key=lambda c: number(c.get("logprob")) or 0.0)
        said = str(best.get("text") or "").strip()
    mapping = state.get("output_mapping")
    everything = len(row.gold.get("correct tag", ())) == len(row.options)
    if everything or "chain_of_thought" in method:  # free answers, or a letter somewhere in a text
        row.gold = {}
        row.options = [] if everything else row.options
        return
    row.prediction = _mapped(said, mapping, row)
    row.answered = row.prediction is not None or not isinstance(mapping, dict)
    if "exact_match" in stats and stats["exact_match"] in (0.0, 1.0):
        row.logged["exact_match"] = stats["exact_match"]


def _mapped(said: str, mapping: Any, row: LogRow) -> int | None:
    """Return the option that an answer names; equal texts count as the correct one, as in HELM."""
    gold = row.gold.get("correct tag", ())
    text = mapping.get(said) if isinstance(mapping, dict) else said
    if text is None:
        return None
    same = [i for i, option in enumerate(row.options) if option.strip() == str(text).strip()]
    if same:
        return next((i for i in same if i in gold), same[0])
    if isinstance(mapping, dict) and len(mapping) == len(row.options):
        return list(mapping).index(said)  # texts replaced, letters still in the options' order
    return None


@dataclass
class _Group:
    """The requests for the options of one question."""

    row: LogRow
    sums: dict[tuple[int, str], float | None] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, state: dict[str, Any]) -> None:
        """Take the log-likelihood of one option."""
        index, mode = int(state["reference_index"]), str(state.get("request_mode") or "original")
        completions = (state.get("result") or {}).get("completions") or [{}]
        total, count = option_tail(completions[0].get("tokens") or [], self.row.options[index])
        self.sums[index, mode] = total
        self.counts[index] = count

    def values(self, mode: str) -> list[float | None]:
        """Return the options' log-likelihoods in one mode."""
        return [self.sums.get((i, mode)) for i in range(len(self.row.options))]


def option_tail(tokens: list[dict[str, Any]], option: str) -> tuple[float | None, int]:
    """Sum the log-likelihoods of the last tokens, if they are just the option.

    Parameters
    ----------
    tokens : list of dict
        With ``text`` and ``logprob``, the prompt's too.
    option : str
        Text of the option.

    Returns
    -------
    total : float or None
        None if no border between tokens is the border of the option.
    count : int
        Number of tokens of the option.

    Examples
    --------
    >>> tokens = [{"text": t, "logprob": -1.0} for t in ("Answer", ":", " dark", " red")]
    >>> option_tail(tokens, "dark red")
    (-2.0, 2)
    >>> option_tail(tokens, "red wine")
    (None, 0)
    """
    pieces = [re.sub("[▁Ġ]", " ", str(token.get("text", ""))) for token in reversed(tokens)]
    for count, tail in enumerate(accumulate(pieces, lambda a, b: b + a), start=1):
        if tail.strip() == option.strip() and tail.strip():
            values = [number(token.get("logprob")) for token in tokens[-count:]]
            return (None if None in values else sum(values)), count
        if len(tail) > len(option) + 8:
            break
    return None, 0


def _separate(
    groups: dict[Key, _Group], header: LogHeader, stats: dict[Key, dict[str, float]]
) -> Iterator[LogRow]:
    """Yield the questions of which each option was asked for itself."""
    if not groups:
        return
    calibrated = any(mode == "calibration" for g in groups.values() for _, mode in g.sums)
    modes = ("original", "calibration") if calibrated else ("original",)
    known = all(None not in group.values(mode) for group in groups.values() for mode in modes)
    if known:
        header.metrics["exact_match"] = ("pmi",) if calibrated else ("token",)
    else:
        header.flags.append(
            Flag(
                "no-option-border",
                "which logged tokens are the option cannot be told without the tokenizer: only "
                "the chosen option is used",
            )
        )
    for key, group in groups.items():
        row, found = group.row, stats.get(key, {})
        exact, chosen = found.get("exact_match"), found.get("predicted_index")
        if known:
            row.loglik = group.values("original")
            row.tokens = [group.counts[i] for i in range(len(row.options))]
            row.scored = [f" {option}" for option in row.options]
            row.unconditional = group.values("calibration") if calibrated else None
        elif chosen is not None and exact in (None, 0.0, 1.0):
            row.prediction = int(chosen)
        row.correct = exact
        if exact in (0.0, 1.0) and (known or row.prediction is not None):
            row.logged["exact_match"] = exact
        yield row


# the files of a run ----------------------------------------------------------------------------


def _states(path: Path) -> Iterator[dict[str, Any]]:
    with open_bytes(path) as stream:
        text = JsonText(stream, str(path))
        for key in text.members():
            if key == "request_states" and text.peek() == "[":
                yield from text.elements()
            else:
                text.value()


def _member(path: Path, wanted: str) -> Any:
    with open_bytes(path) as stream:
        text = JsonText(stream, str(path))
        for key in text.members():
            if key == wanted:
                return text.value()
            if text.peek() == "[":
                for _ in text.elements():
                    pass
            else:
                text.value()
    return None


def _names(source: Source, path: Path, stem: str) -> tuple[str, ...]:
    if source.kind == "folder":
        return (f"{stem}.json",)
    renamed = path.name.replace("scenario_state", stem)
    for ending in (".gz", ".zst"):
        renamed = renamed.removesuffix(ending)
    return (renamed, f"{stem}.json") if "scenario_state" in path.name else (f"{stem}.json",)


def _beside(source: Source, path: Path, stem: str) -> Any:
    return read_beside(Source(path), *_names(source, path, stem))


def _beside_path(source: Source, path: Path, stem: str) -> Path | None:
    places = (
        path.with_name(n + e) for n in _names(source, path, stem) for e in ("", ".gz", ".zst")
    )
    return next((place for place in places if place.is_file()), None)


def _statistics(path: Path | None) -> dict[Key, dict[str, float]]:
    """Return the statistics of each instance and trial that was not perturbed."""
    found: dict[Key, dict[str, float]] = {}
    if path is None:
        return found
    wanted = (*_CORRECT, "predicted_index")
    with open_bytes(path) as stream:
        for entry in JsonText(stream, str(path)).elements():
            if not isinstance(entry, dict) or entry.get("perturbation"):
                continue
            key = (str(entry.get("instance_id")), int(entry.get("train_trial_index") or 0))
            own = found.setdefault(key, {})
            for name in wanted:
                value = _mean(entry.get("stats") or [], name)
                if value is not None:
                    own.setdefault(name, value)
    return found


def _mean(stats: Any, wanted: str) -> float | None:
    """Return the mean of a statistic of unperturbed items, None if several parts have their own."""
    found: dict[tuple[Any, Any], float | None] = {}
    for stat in stats if isinstance(stats, list) else []:
        name = stat.get("name") if isinstance(stat, dict) else None
        name = name if isinstance(name, dict) else {"name": name}
        if name.get("name") != wanted or name.get("perturbation"):
            continue
        count, total = number(stat.get("count")), number(stat.get("sum"))
        value = number(stat.get("mean"))
        if value is None and count and total is not None:
            value = total / count
        if value is not None:
            found[name.get("split"), name.get("sub_split")] = value
    whole = {place: value for place, value in found.items() if place[1] is None} or found
    return next(iter(whole.values())) if len(whole) == 1 else None


def task_of_run(name: str, scenario: Any = None) -> tuple[str, str | None, str]:
    """Return benchmark, subject and task of a run's name, in which ``-`` may stand for ``:``.

    Examples
    --------
    >>> task_of_run("mmlu:subject=anatomy,method=multiple_choice_joint,model=openai_gpt2")
    ('mmlu', 'anatomy', 'mmlu:subject=anatomy')
    """
    found = re.match(r"([^,=]+?)[:\-_](?=[A-Za-z_]+=)", name)
    benchmark = found[1] if found else name.split(",")[0]
    arguments = dict(re.findall(r"([A-Za-z_]+)=([^,]*)", name[found.end() :] if found else ""))
    given = (scenario or {}).get("args") or {}
    for place in (given, arguments):
        for key in _SUBJECT:
            value = place.get(key)
            if isinstance(value, str) and value and value != "all":
                if key == "dataset":
                    return value, None, value
                return benchmark, value, f"{benchmark}:{key}={value}"
    return benchmark, None, benchmark


def _argument(name: str) -> str:
    found = re.search(r"model=([^,]*)", name)
    return found[1] if found else name
