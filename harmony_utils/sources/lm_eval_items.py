"""From a loaded task of lm-evaluation-harness to items that bring the harness's own prompts."""

from __future__ import annotations

import functools
import inspect
import io
import string
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harmony_utils.errors import InputError
from harmony_utils.files import content_hash
from harmony_utils.items import Item, Prompt
from harmony_utils.sources.convert import read_text
from harmony_utils.sources.documents import last_question, option_texts, passage_of, question_of
from harmony_utils.sources.spec import Spec

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import ConfigurableTask

LETTERS = frozenset(string.ascii_uppercase)


def task_items(name: str, task: ConfigurableTask, *, spec: Spec, among_others: bool) -> list[Item]:
    """Turn the requests that a task would send to a model into items.

    Parameters
    ----------
    name : str
        The task's name.
    task : ConfigurableTask
        A multiple-choice task with its number of few-shot examples and seed set.
    spec : Spec
        Its ``subject`` and ``group`` are fields of the dataset, or templates such as ``{stem}``.
    among_others : bool
        Whether other tasks are in the same benchmark: ids then begin with the task's name, and the
        task is the subject unless a field is named.

    Returns
    -------
    list of Item
        In the task's order, all of them: few-shot examples are drawn one question after the other,
        so a sample must be drawn afterwards to keep each question's prompt.

    Raises
    ------
    InputError
        If the prompts cannot be written or a question has not exactly one correct option.
    """
    try:
        with redirect_stderr(io.StringIO()):  # a progress bar for what takes seconds
            task.build_all_requests()
    except Exception as error:  # a task is code: anything can be raised
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"lm-eval task {name!r}: its prompts cannot be written: {reason}"
        ) from None
    by_document: dict[int, list[Instance]] = {}
    for request in task.instances:
        by_document.setdefault(request.doc_id, []).append(request)
    subject = (task.config.task_alias or name) if among_others else None
    items = []
    for number, requests in by_document.items():
        place = f"lm-eval task {name!r}, question {number}"
        fields = {
            role: _field(requests[0].doc, spec.parameters[role], place)
            for role in ("subject", "group")
            if role in spec.parameters
        }
        identity = f"{name}/{number}" if among_others else str(number)
        items.append(_item(task, requests, place, id=identity, **{"subject": subject, **fields}))
    return items


def _item(
    task: ConfigurableTask, requests: Sequence[Instance], place: str, **about: str | None
) -> Item:
    doc = requests[0].doc
    choices = task.doc_to_choice(doc)
    # further requests, without context, only serve acc_mutual_info
    pairs = [request.args[:2] for request in requests[: len(choices)]]
    fields = doc if isinstance(doc, dict) else dict(doc)
    options = _options(fields, choices, several_contexts=task.multiple_input)
    prompt = _prompt(pairs)
    try:
        return Item(
            question=question_of(fields) or last_question(pairs[0][0]),
            passage=passage_of(fields) or None,
            options=tuple(options),
            gold=_gold(task, doc, choices),
            prompt=prompt if options == choices else replace(prompt, choices=tuple(choices)),
            **about,
        )
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _options(doc: dict[str, Any], choices: list[str], *, several_contexts: bool) -> list[str]:
    """Return the options as a person reads them, as they are also read from the harness's logs.

    Where letters are scored, or the options stand in the contexts, the document may hold the texts.
    """
    letters = all(text.strip("(). ") in LETTERS for text in choices)
    texts = option_texts(doc) if letters or several_contexts else []
    return texts if len(texts) == len(choices) else choices


def _prompt(pairs: Sequence[tuple[str, str]]) -> Prompt:
    """Join the harness's requests of one question, ``(context, continuation)`` each.

    The harness moves blanks at the end of a context to the continuation before it encodes either;
    so does this, because that decides which tokens are scored.
    """
    contexts = [context.rstrip() or context for context, _ in pairs]
    continuations = tuple(
        context[len(kept) :] + continuation
        for kept, (context, continuation) in zip(contexts, pairs, strict=True)
    )
    first, last = min(contexts), max(contexts)  # what these two share, all share
    prefix = first[: _shared_characters(first, last)]
    leads = tuple(context[len(prefix) :] for context in contexts)
    return Prompt(prefix, continuations, leads if any(leads) else ())


def _shared_characters(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _gold(task: ConfigurableTask, doc: Any, options: Sequence[str]) -> int:
    """Return the place of the correct option, which the harness keeps as number, text or list."""
    gold = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    if isinstance(gold, list) and len(gold) == 1:
        gold = gold[0]
    if isinstance(gold, list):
        raise InputError(f"has {len(gold)} correct options, {gold}: exactly one is needed")
    if isinstance(gold, str):
        if gold not in options:
            raise InputError(f"its target {gold!r} is none of the options {list(options)}")
        return list(options).index(gold)
    return int(gold)


def _field(doc: Any, column: str, place: str) -> str | None:
    try:
        return read_text(doc, column) or None
    except KeyError as error:
        known = ", ".join(map(str, doc))
        raise InputError(f"{place}: has no field {error.args[0]!r}, only {known}") from None


def config_digest(tasks: Mapping[str, ConfigurableTask], fewshot_seed: int) -> str:
    """Return a hash of how tasks are configured, the same on every machine.

    Functions enter with their source. Where the data lie does not: what they hold is in the items.
    """
    described = {
        name: {
            key: _described(value)
            for key, value in vars(task.config).items()
            if key not in ("dataset_kwargs", "metadata")
        }
        | {"version": str(task.VERSION)}
        for name, task in tasks.items()
    }
    return content_hash([described, fewshot_seed])


def _described(value: Any) -> Any:
    """Write a setting as plain data, without places in memory or on disk."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): _described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_described(entry) for entry in value]
    if isinstance(value, functools.partial):
        return [_described(part) for part in (value.func, value.args, value.keywords)]
    if callable(value):
        try:
            return inspect.getsource(value)
        except (TypeError, OSError):
            return getattr(value, "__qualname__", type(value).__qualname__)
    return {"type": type(value).__qualname__, **_described(getattr(value, "__dict__", {}))}
