"""OpenCompass predictions: one object whose members "0", "1", … are the answers.

PPL mode logs the mean negative log-likelihood of a *whole prompt* for each option, which is no
log-likelihood of the option and cannot be made into one; only the letters are used. LL mode logs
the sum over an ending under each option. GEN mode logs raw text, CLP mode probabilities of the
options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.logs.converting import convert_one
from harmony_utils.logs.gold import read_gold
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source, read_beside, source_rows
from harmony_utils.logs.streams import JsonText, open_bytes
from harmony_utils.logs.values import (
    benchmark_and_subject,
    last_user_message,
    log_value,
    number,
    plain_text,
)
from harmony_utils.sources.documents import lettered_options, spelled_out

NAME = "opencompass"
_LABEL = "label: "
_SUM = "Loglikelihood"

#: Scores that the rows of each mode can be compared with.
_METRICS = {"CLP": {"pred_label": ("sum",)}, "LL": {"prediction": ("sum",)}}
_ENDINGS = re.compile(r"(\.(jsonl?|gz|zst))+$")


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = _first(source)
    labelled = [value for key, value in row.items() if str(key).startswith(_LABEL)]
    if labelled:
        return "LL" if isinstance(labelled[0], dict) and _SUM in labelled[0] else "PPL"
    if "pred_label" in row and "prediction" in row:
        return "CLP"
    return "GEN" if {"origin_prompt", "prediction"} <= set(row) else None


def _first(source: Source) -> dict[str, Any]:
    if source.kind == "json-object":
        key, value = next(iter(source.start.items()), ("", None))
        if key.isdigit() and isinstance(value, dict):
            return value
    return source.row if "idx" in source.row else {}


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    mode = sniff(source) or ""
    stem = _ENDINGS.sub("", source.path.name)
    dataset = _without_shard(source.path, stem)
    benchmark, subject = benchmark_and_subject(dataset)
    results = _results(source, stem, dataset)
    header = LogHeader(
        format=NAME,
        version=mode,
        model=source.path.parent.resolve().name,
        task=stem,
        benchmark=benchmark,
        subject=subject,
        metrics=_METRICS.get(mode, {"accuracy": ("prediction",)}),
        settings={"template": mode},
    )
    accuracy = number(results.get("accuracy"))
    if accuracy is not None:
        header.reported["accuracy"] = accuracy / 100
    if mode == "PPL":
        header.flags.append(
            Flag(
                "prompt-perplexity",
                "PPL is the mean over the whole prompt, not the log-likelihood of an option: it is "
                "not used, the chosen option is",
            )
        )
    elif mode == "CLP":
        header.flags.append(
            Flag(
                "normalised-probabilities",
                "the log holds probabilities that sum to one over the options; their logarithms "
                "are used",
            )
        )
    details = results.get("details") if stem == dataset else None
    return header, _rows(source, header, details)


def _rows(source: Source, header: LogHeader, details: Any) -> Iterator[LogRow]:
    zero = header.version == "GEN" and _zero_is_left_out(source)
    without = raw_text = 0
    for number_, (key, raw) in enumerate(_entries(source), start=1):
        detail = _detail(details, key)

        def convert(raw: dict[str, Any], key: str = key, detail: dict = detail) -> LogRow:
            if header.version in ("PPL", "LL"):
                return _labelled(raw, key, detail)
            return _clp(raw, key) if header.version == "CLP" else _gen(raw, key, detail, zero)

        row = convert_one(
            raw,
            convert,
            where=f"{source.path}, entry {key!r}",
            tool=f"OpenCompass {header.version}",
        )
        row.line = number_
        without += _gold_of(raw, detail) is None
        raw_text += header.version == "GEN" and row.prediction is None and row.correct is None
        yield row
    if without:
        meaning = "0, which the tool leaves out" if zero else "unknown"
        header.flags.append(
            Flag("gold-not-written", f"{without} rows have no gold; it is taken as {meaning}")
        )
    if raw_text:
        header.flags.append(
            Flag(
                "raw-answers",
                f"{raw_text} answers are text of which the log does not say what option it names; "
                "they are not scored",
            )
        )


def _labelled(raw: dict[str, Any], key: str, detail: dict[str, Any]) -> LogRow:
    """Read an entry with a member for each option: of PPL or LL mode."""
    found = {n.removeprefix(_LABEL): v for n, v in raw.items() if n.startswith(_LABEL)}
    labels, entries = list(found), [v if isinstance(v, dict) else {} for v in found.values()]
    asked = [_text(entry.get("testing input")) for entry in entries]
    row = LogRow(
        native_id=key,
        question=_text(raw.get("origin_prompt")) or "\n".join(dict.fromkeys(asked)),
        options=labels,
    )
    if any(_SUM in entry for entry in entries):
        row.loglik = [log_value(entry.get(_SUM)) for entry in entries]
        row.options, row.n_options = [], len(labels)
    elif asked[0]:
        row.question = asked[0]
    row.prompt = row.question
    row.question, row.options = spelled_out(row.question, row.options)
    row.gold = _by_label(_gold_of(raw, detail), labels)
    picked = _by_label(raw.get("prediction"), labels)
    chosen = next(iter(picked.values()))[0] if picked else None
    if row.loglik is None:
        row.prediction, row.answered = chosen, chosen is not None
        _scored(row, detail)
    elif row.gold and chosen is not None:
        row.logged["prediction"] = float(chosen in next(iter(row.gold.values())))
    return row


def _gold_of(raw: dict[str, Any], detail: dict[str, Any]) -> Any:
    """Return the gold, which early versions wrote into the results only."""
    names = ("references", "refr", "answer", "answers")
    values = (raw.get("gold"), *(detail.get(name) for name in names))
    return next((value for value in values if value is not None), None)


def _by_label(value: Any, labels: list[str]) -> dict[str, tuple[int, ...]]:
    """Read an option by the name that it has in the prompts."""
    if value is None:
        return {}
    if str(value) in labels:
        return {"label": (labels.index(str(value)),)}
    return read_gold(value, labels)


def _clp(raw: dict[str, Any], key: str) -> LogRow:
    options = [str(choice) for choice in raw.get("choices") or []]
    values = raw["prediction"]
    while isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    row = LogRow(
        native_id=key,
        question=_text(raw.get("testing input") or raw.get("prompt")),
        prompt=_text(raw.get("prompt")),
        options=options if len(options) == len(values) else [],
        n_options=len(values),
        loglik=[_log(number(value)) for value in values],
    )
    row.gold = read_gold(raw.get("gold"), row.options, n_options=len(values), labels=options)
    chosen = number(raw.get("pred_label"))
    for name in ("index", "label", "letter"):
        if chosen is not None and name in row.gold:
            row.logged["pred_label"] = float(int(chosen) in row.gold[name])
            break
    return row


def _log(value: float | None) -> float:
    return math.nan if value is None else (math.log(value) if value > 0 else -math.inf)


def _gen(raw: dict[str, Any], key: str, detail: dict[str, Any], zero: bool) -> LogRow:
    prompt = raw.get("origin_prompt")
    row = LogRow(native_id=key, question=last_user_message(prompt) or _text(prompt))
    row.prompt = _text(prompt)
    gold = _gold_of(raw, detail)
    if gold is None and zero:
        gold = 0
    said = detail.get("pred", detail.get("predictions", raw.get("prediction")))
    if isinstance(said, list):
        said = said[0] if said else ""
    row.gold = _letter(gold)
    picked = _letter(said) if row.gold else {}
    row.prediction = next(iter(picked.values()))[0] if picked else None
    if row.prediction is None:
        row.gold = {}
    asked, options = lettered_options(row.question)
    named = [row.prediction or 0, *(i for gold in row.gold.values() for i in gold)]
    if max(named) < len(options):
        row.question, row.options = asked, options
    _scored(row, detail)
    if row.prediction is None:
        row.logged = {}
    return row


def _letter(value: Any) -> dict[str, tuple[int, ...]]:
    """Read a letter, or an index of a single digit; longer text is not guessed at."""
    text = str(value).strip()
    if isinstance(value, bool) or value is None or len(text) > 4:
        return {}
    found = read_gold(value, [], n_options=26)
    option = found.get("letter", found.get("index"))
    return {"option": option} if option else {}


def _scored(row: LogRow, detail: dict[str, Any]) -> None:
    correct = number(detail.get("correct", detail.get("is_correct")))
    if correct is not None:
        row.correct = correct
        row.logged["accuracy"] = correct


def _text(prompt: Any) -> str:
    if isinstance(prompt, list):
        parts = [p.get("prompt", "") if isinstance(p, dict) else p for p in prompt]
        return "\n".join(plain_text(part) for part in parts)
    return plain_text(prompt)


# the file and those beside it --------------------------------------------------------------------


def _entries(source: Source) -> Iterator[tuple[str, Any]]:
    if source.kind == "json-object" and "idx" not in source.row:
        with open_bytes(source.path) as stream:
            text = JsonText(stream, str(source.path))
            for key in text.members():
                yield str(key), text.value()
    else:
        for line, raw in source_rows(source):
            yield str(raw.get("idx", line - 1) if isinstance(raw, dict) else line), raw


def _zero_is_left_out(source: Source) -> bool:
    """Say whether a missing gold is a 0 that was not written: all others are whole numbers."""
    golds = [raw.get("gold") for _, raw in _entries(source) if isinstance(raw, dict)]
    there = [gold for gold in golds if gold is not None]
    return bool(there) and all(isinstance(g, int) and g != 0 for g in there)


def _without_shard(path: Path, stem: str) -> str:
    """Return the dataset's name; ``_0``, ``_1``, … number the parts of a file in several."""
    found = re.fullmatch(r"(.+)_(\d+)", stem)
    if found and any(path.parent.glob(f"{found[1]}_{'1' if found[2] == '0' else '0'}.json*")):
        return found[1]
    return stem


def _results(source: Source, stem: str, dataset: str) -> dict[str, Any]:
    """Return ``results/MODEL/DATASET.json`` of the run."""
    folder = source.path.parent
    names = [f"../../results/{folder.name}/{name}.json" for name in dict.fromkeys((stem, dataset))]
    try:
        found = read_beside(source, *names)
    except InputError:
        found = None
    return found if isinstance(found, dict) else {}


def _detail(details: Any, key: str) -> dict[str, Any]:
    """Return the score of one entry, of a list or an object by position."""
    if isinstance(details, list):
        details = dict(enumerate(details))
        found = details.get(int(key)) if key.isdigit() else None
    else:
        found = details.get(key) if isinstance(details, dict) else None
    return found if isinstance(found, dict) else {}
