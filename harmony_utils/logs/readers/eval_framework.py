"""Aleph Alpha's eval-framework: ``output.jsonl`` with log-likelihoods by the options' text.

``metadata.json`` beside it tells the model, ``results.jsonl`` the scores: one row for each metric
of an item, whose ``response`` is the *correct* answer, not the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harmony_utils.logs.converting import convert_rows
from harmony_utils.logs.rows import Flag, LogHeader, LogRow
from harmony_utils.logs.sources import Source, source_rows
from harmony_utils.logs.sources import read_beside as beside
from harmony_utils.logs.values import benchmark_and_subject, log_value, number
from harmony_utils.sources.documents import last_question, spelled_out

NAME = "eval-framework"

METRICS = {
    "Accuracy Loglikelihood": ("sum",),
    "Accuracy Normalized Loglikelihood": ("char",),
    "Accuracy Completion": ("prediction",),
}
_NO_SUBJECT = ("no_subject", "default", "None", "")

Key = tuple[str, str]


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    row = source.row
    if "ground_truth" not in row or "id" not in row:
        return None
    if isinstance(row.get("loglikelihoods"), dict):
        return "log-likelihoods"
    return "completions" if "completion" in row and "subject" in row else None


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    about = beside(source, "metadata.json")
    about = about if isinstance(about, dict) else {}
    task = str(about.get("task_name") or source.path.parent.resolve().name)
    benchmark, subject = benchmark_and_subject(task)
    header = LogHeader(
        format=NAME,
        version=str(about.get("eval_framework_version") or about.get("version") or sniff(source)),
        model=_model(about, source),
        task=task,
        benchmark=benchmark,
        subject=subject,
        metrics=METRICS,
        settings={
            "few_shot": about.get("num_fewshot", about.get("num_few_shot")),
            "limit": about.get("num_samples"),
        },
    )
    scores = _scores(source)
    if not scores:
        header.flags.append(
            Flag(
                "no-results-file",
                "results.jsonl is not beside the answers: no logged score confirms them",
            )
        )
    return header, _rows(source, header, scores)


def _model(about: dict[str, Any], source: Source) -> str:
    for name in ("llm_name", "model_name", "model", "llm"):
        value = about.get(name)
        if isinstance(value, dict):
            value = value.get("name") or value.get("model_name")
        if isinstance(value, str) and value:
            return value
    return source.path.parent.resolve().name


def _rows(
    source: Source, header: LogHeader, scores: dict[Key, dict[str, float]]
) -> Iterator[LogRow]:
    failed = 0
    for row in convert_rows(source, lambda raw: _row(raw, scores), tool="eval-framework"):
        failed += "error" in row.flags
        yield row
    if failed:
        header.flags.append(
            Flag("error-rows", f"{failed} rows hold an error in place of an answer; not scored")
        )


def _row(raw: dict[str, Any], scores: dict[Key, dict[str, float]]) -> LogRow:
    subject = "" if raw.get("subject") is None else str(raw["subject"])
    native = str(raw["id"])
    prompt = str(raw.get("prompt") or "")
    row = LogRow(
        # ids restart in each subject
        native_id=native if subject in _NO_SUBJECT else f"{subject}/{native}",
        question=last_question(prompt),
        prompt=prompt,
        subject=None if subject in _NO_SUBJECT else subject,
    )
    found = scores.get((subject, native), {})
    values = raw.get("loglikelihoods")
    if raw.get("error") or (isinstance(values, dict) and not values):
        row.flags = ("error",)
        row.question = row.question or row.native_id
        return row
    golds = raw.get("ground_truth")
    golds = [str(g) for g in (golds if isinstance(golds, list) else [golds]) if g is not None]
    if not isinstance(values, dict):
        row.correct = next((v for n, v in found.items() if n.startswith("Accuracy")), None)
        return row
    texts = list(values)
    row.scored, row.options = texts, [text.strip() for text in texts]
    row.loglik = [log_value(value) for value in values.values()]
    counts = raw.get("loglikelihoods_sequence_positions", raw.get("loglikelihoods_num_tokens"))
    row.tokens = [_count(counts.get(t)) if isinstance(counts, dict) else None for t in texts]
    gold = tuple(i for i, text in enumerate(texts) if text in golds)
    if not gold:
        stripped = [g.strip() for g in golds]
        gold = tuple(i for i, text in enumerate(row.options) if text in stripped)
    row.question, row.options = spelled_out(row.question, row.options)
    row.gold = {"text": gold} if gold else {}
    row.logged = {name: found[name] for name in METRICS if name in found}
    return row


def _count(value: Any) -> int | None:
    found = number(value)
    return int(found) if found is not None and found > 0 else None


def _scores(source: Source) -> dict[Key, dict[str, float]]:
    """Index results.jsonl by subject and id; what is not 0 or 1 is no hit."""
    found: dict[Key, dict[str, float]] = {}
    places = [source.path.with_name(f"results.jsonl{ending}") for ending in ("", ".gz", ".zst")]
    place = next((p for p in places if p.is_file() and p.resolve() != source.path.resolve()), None)
    if place is None:
        return found
    for _, raw in source_rows(Source(place)):
        if not isinstance(raw, dict):
            continue
        name, value = str(raw.get("metric_name") or raw.get("metric")), number(raw.get("value"))
        if name in METRICS and value in (0.0, 1.0) and not raw.get("error"):
            subject = "" if raw.get("subject") is None else str(raw["subject"])
            found.setdefault((subject, str(raw.get("id"))), {})[name] = value
    return found
