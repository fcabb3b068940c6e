"""From an item to the text the model reads and the options it is scored on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, Prompt, PromptStyle, content_digest
from harmony_utils.settings import (
    GenerationSettings,
    OptionOrder,
    OptionSymbols,
    PredictionsSettings,
    Wording,
)

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

INSTRUCTIONS = {
    "cloze": "Answer the following question.",
    "letter": "Choose the right answer to the following question.",
}
"""What ``wording=instruction`` says before everything else, by format."""

PRESENTATION = ("wording", "option_order", "option_symbols")
"""Settings that say how a question looks; open-ended questions have none of them."""


def render_item(
    item: Item,
    *,
    format: Literal["cloze", "letter"],
    style: PromptStyle,
    wording: Wording = "question",
    option_order: OptionOrder = "given",
    option_symbols: OptionSymbols = "letters",
) -> Prompt:
    """Write one item as text.

    Parameters
    ----------
    item : Item
        The question.
    format : {"cloze", "letter"}
        ``cloze`` scores the text of each option; ``letter`` lists the options and scores
        A, B, C …
    style : {"question", "continuation"}
        ``question`` puts the item between ``Question:`` and ``Answer:``; ``continuation`` lets
        a cloze option continue the text. The letter format always asks a question.
    wording : {"question", "short", "instruction"}
        ``short`` writes ``Q:`` and ``A:``; the line of ``instruction`` is added by
        :func:`build_prompt`. Continuations are no questions: they stay as they are.
    option_order : {"given", "reversed", "shuffled"}
        Order of the list, see :func:`list_order`; the options keep their numbers.
    option_symbols : {"letters", "numbers"}
        What stands before an option in the list.

    Returns
    -------
    Prompt
        Prefix without trailing space; each continuation begins with one space, and they are in the
        item's own order.

    Raises
    ------
    InputError
        If there are more options than letters.

    Examples
    --------
    >>> item = Item("1", "2 + 2 =", ("3", "4"), 1)
    >>> prompt = render_item(item, format="cloze", style="question")
    >>> prompt.prefix, prompt.continuations
    ('Question: 2 + 2 =\\nAnswer:', (' 3', ' 4'))

    Whatever the order of the list, the first continuation stands for the first option.

    >>> prompt = render_item(item, format="letter", style="question", option_order="reversed")
    >>> prompt.prefix, prompt.continuations
    ('Question: 2 + 2 =\\nA. 4\\nB. 3\\nAnswer:', (' B', ' A'))
    """
    passage = f"{item.passage.rstrip()}\n" if item.passage else ""
    if format == "cloze" and style == "continuation":
        prefix = f"{passage}{item.question}".rstrip()
        return Prompt(prefix, tuple(f" {option}" for option in item.options))
    listed, continuations = "", tuple(f" {option}" for option in item.options)
    if format == "letter":
        symbols = option_labels(item, option_symbols)
        order = list_order(item, option_order)
        lines = zip(symbols, order, strict=True)
        listed = "".join(f"{symbol}. {item.options[i]}\n" for symbol, i in lines)
        continuations = tuple(f" {symbols[order.index(i)]}" for i in range(len(order)))
    before, after = ("Q:", "A:") if wording == "short" else ("Question:", "Answer:")
    return Prompt(f"{passage}{before} {item.question}\n{listed}{after}", continuations)


def option_labels(item: Item, symbols: OptionSymbols = "letters") -> tuple[str, ...]:
    """Return what stands before the options of a list, from the top: A, B, C … or 1, 2, 3 …

    Raises
    ------
    InputError
        If there are more options than letters.
    """
    count = len(item.options)
    if symbols == "numbers":
        return tuple(str(number) for number in range(1, count + 1))
    if count > len(LETTERS):
        raise InputError(f"item {item.id!r}: {count} options are too many letters")
    return tuple(LETTERS[:count])


def list_order(item: Item, order: OptionOrder) -> list[int]:
    """Return which option stands first in the list, which second, and so on.

    ``shuffled`` depends on the texts of question and options alone: the same item has the same
    order in every run.

    Examples
    --------
    >>> list_order(Item("1", "2 + 2 =", ("3", "4"), 1), "reversed")
    [1, 0]
    """
    places = list(range(len(item.options)))
    if order == "shuffled":
        digest = content_digest(item.question, item.options, passage=item.passage or "")
        return np.random.default_rng(int(digest[:8], 16)).permutation(places).tolist()
    return places[::-1] if order == "reversed" else places


def choose_examples(benchmark: Benchmark, item: Item, count: int) -> list[Item]:
    """Choose the solved examples shown before ``item``.

    Parameters
    ----------
    benchmark : Benchmark
        Its ``examples`` are used in their order, those of the item's subject first; a benchmark
        without examples lends its own other items, drawn with a seed made from the item's place.
    item : Item
        The question being asked; never its own example.
    count : int
        Number of examples.

    Raises
    ------
    InputError
        If there are fewer than ``count`` other items.
    """
    if count == 0:
        return []
    if benchmark.examples:
        pool = [e for e in benchmark.examples if item.subject in (None, e.subject)]
        pool = pool if len(pool) >= count else list(benchmark.examples)
    else:
        others = [other for other in benchmark.items if other.id != item.id]
        place = benchmark.items.index(item)
        order = np.random.default_rng([0, place]).permutation(len(others))
        pool = [others[i] for i in order[:count]]
    if len(pool) < count:
        raise InputError(
            f"benchmark {benchmark.name!r}: {count} examples asked for, {len(pool)} available; "
            f"lower {'generation' if benchmark.open_ended else 'predictions'}.few_shot"
        )
    return pool[:count]


def build_prompt(
    benchmark: Benchmark, item: Item, settings: PredictionsSettings | GenerationSettings
) -> Prompt:
    """Render an item with its few-shot examples, before any chat template.

    An item that brings a prompt of its own keeps it.

    Raises
    ------
    InputError
        If a setting would change a prompt that the item brings.
    """
    if item.prompt is not None:
        _require_unchanged(item, item.prompt, settings)
        return item.prompt
    style, format = benchmark.prompt_style, getattr(settings, "format", "cloze")
    wanted = {name: getattr(settings, name) for name in PRESENTATION if hasattr(settings, name)}
    asked = render_item(item, format=format, style=style, **wanted)
    blocks = []
    if wanted.get("wording") == "instruction" and (format == "letter" or style == "question"):
        blocks.append(INSTRUCTIONS[format])
    for example in choose_examples(benchmark, item, settings.few_shot):
        solved = render_item(example, format=format, style=style, **wanted)
        answer = f" {example.answer}" if example.answers else solved.continuations[example.gold]
        blocks.append(solved.prefix + answer)
    return Prompt("\n\n".join([*blocks, asked.prefix]), asked.continuations)


def _require_unchanged(
    item: Item, prompt: Prompt, settings: PredictionsSettings | GenerationSettings
) -> None:
    """Refuse settings that only make sense for prompts written here."""
    section = "generation" if item.answers else "predictions"
    wording = getattr(settings, "wording", "question")
    refused = {
        "format=letter": getattr(settings, "format", "cloze") == "letter",
        f"wording={wording}": wording != "question",
        f"few_shot={settings.few_shot}": settings.few_shot > 0,
        "chat_template=true": settings.chat_template,
        # the end of the prompt is one place only if all options are asked after the same text
        "variant=prompt-end": settings.variant == "prompt-end" and bool(prompt.leads),
    }
    for setting in (name for name, applies in refused.items() if applies):
        raise InputError(
            f"item {item.id!r} brings its own prompt, which {section}.{setting} cannot change: "
            "leave that setting out (for few-shot prompts: lm-eval:TASK?num_fewshot=5)"
        )


def apply_chat(tokenizer, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Put each prefix into the tokenizer's chat template as one user turn.

    The answer then opens the assistant's turn, so its leading space is dropped.

    Raises
    ------
    InputError
        If the tokenizer has no chat template.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("this model has no chat template: set predictions.chat_template=false")
    return [
        Prompt(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt.prefix}],
                tokenize=False,
                add_generation_prompt=True,
            ),
            tuple(option.removeprefix(" ") for option in prompt.continuations),
        )
        for prompt in prompts
    ]
