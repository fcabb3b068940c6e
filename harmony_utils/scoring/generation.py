"""Open-ended questions: the model writes its answer greedily, and its expectations are averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from harmony_utils.items import AnswerKind, Benchmark
from harmony_utils.predictions import GENERATED, SCHEMA, Predictions
from harmony_utils.scoring.answers import METRICS, judge
from harmony_utils.scoring.forward import Forward, drop_end, text_positions
from harmony_utils.scoring.models import LanguageModel
from harmony_utils.scoring.prompts import apply_chat, build_prompt
from harmony_utils.settings import GenerationSettings, GenerationVariant, StopRule

STOPS: dict[StopRule, tuple[str, ...]] = {
    "line": ("\n",),
    "paragraph": ("\n\n", "Question:"),
}
"""Texts at which an answer ends, by rule; the model's own end token always ends it."""

LONGEST: dict[AnswerKind, int] = {"text": 32, "number": 256}
"""Tokens of an answer at most, where ``max_new_tokens`` is 0."""


def stop_texts(settings: GenerationSettings, kind: AnswerKind) -> tuple[str, ...]:
    """Return the texts that end an answer.

    Examples
    --------
    >>> stop_texts(GenerationSettings(), "number")
    ('\\n\\n', 'Question:')
    """
    rule = {"text": "line", "number": "paragraph"}[kind]
    return STOPS[rule if settings.stop == "auto" else settings.stop]


@dataclass(frozen=True)
class Written:
    """One answer as the model wrote it.

    Parameters
    ----------
    text : str
        Up to the stop, without white space at its ends.
    ids : tuple of int
        All tokens generated, those of the stop included.
    n_tokens : int
        Tokens before the one with which the stop was complete.
    cut : bool
        Whether the limit of tokens came before a stop.
    averaged : Tensor of shape (vocabulary,), float32
        Natural logarithms of the distribution averaged over the ``n_tokens`` positions; of an
        empty answer, the distribution at which it ended.
    """

    text: str
    ids: tuple[int, ...]
    n_tokens: int
    cut: bool
    averaged: torch.Tensor


class RunningMean:
    """Averages distributions one by one, so that only one row is held.

    Parameters
    ----------
    variant : {"generated-mean", "generated-geometric", "prompt-end"}
        Arithmetic mean; geometric mean, renormalised; the first row alone.

    Examples
    --------
    >>> mean = RunningMean("generated-mean")
    >>> for row in ([0.5, 0.5], [0.1, 0.9]):
    ...     mean.add(torch.log(torch.tensor(row)))
    >>> mean.value().exp()
    tensor([0.3000, 0.7000])
    """

    def __init__(self, variant: GenerationVariant) -> None:
        self._variant = variant
        self._total: torch.Tensor | None = None
        self.count = 0

    def add(self, log_probabilities: torch.Tensor) -> None:
        """Take in one row, shape (vocabulary,), natural logarithms."""
        self.count += 1
        if self._total is None:
            self._total = log_probabilities.clone()
        elif self._variant == "generated-geometric":
            self._total += log_probabilities
        elif self._variant == "generated-mean":
            self._total = torch.logaddexp(self._total, log_probabilities)

    def value(self) -> torch.Tensor:
        """Return the averaged distribution as natural logarithms; at least one row was added."""
        if self._variant == "generated-geometric":
            return torch.log_softmax(self._total / self.count, dim=-1)
        return self._total - (math.log(self.count) if self._variant == "generated-mean" else 0)


class _Draft:
    """One answer while it is being written."""

    def __init__(self, variant: GenerationVariant) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.mean = RunningMean(variant)
        self.n_tokens = 0
        self.done = False

    def take(
        self, token: int, row: torch.Tensor, tokenizer: Any, ends: set[int], stops: tuple[str, ...]
    ) -> None:
        """Append a token with the distribution it came from; see whether it ends the answer."""
        self.ids.append(token)
        self.text = tokenizer.decode(self.ids, skip_special_tokens=True)
        places = [place for stop in stops if (place := self.text.find(stop)) >= 0]
        self.done = token in ends or bool(places)
        self.text = self.text[: min(places, default=None)]
        self.n_tokens += not self.done
        if not self.done or not self.mean.count:
            self.mean.add(row)

    def finish(self) -> Written:
        return Written(
            self.text.strip(),
            tuple(self.ids),
            self.n_tokens,
            not self.done,
            self.mean.value().cpu(),
        )


class Greedy:
    """Writes answers to several prompts at once, always with the most probable token.

    Parameters
    ----------
    language_model : LanguageModel
        The loaded model.
    settings : GenerationSettings, optional
        Longest answer, stop rule, variant of the averaged distribution, padding.
    kind : {"text", "number"}
        Kind of the answers, which decides what the settings leave open.

    Notes
    -----
    The tokens are those of ``generate(do_sample=False)`` of ``transformers`` up to the stop.
    What all prompts begin with is run once. They share one attention cache, filled up to one
    length; an answer that has ended leaves it. The averaged distributions agree within 1e-4 for
    any batch. Models that keep no such cache read their whole text again for every token.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        settings: GenerationSettings | None = None,
        *,
        kind: AnswerKind = "text",
    ) -> None:
        settings = settings or GenerationSettings()
        self._forward = Forward(language_model, padding_side=settings.padding_side)
        self._tokenizer = language_model.tokenizer
        self._ends = end_tokens(language_model)
        self._stops = stop_texts(settings, kind)
        self._longest = settings.max_new_tokens or LONGEST[kind]
        self._variant = settings.variant

    @torch.inference_mode()
    def __call__(self, prompts: Sequence[Sequence[int]]) -> list[Written]:
        """Write an answer to each prompt.

        Parameters
        ----------
        prompts : sequence of sequence of int
            Token ids of each prompt, none empty.

        Returns
        -------
        list of Written
            In the same order.

        Raises
        ------
        InputError
            If a prompt and the longest answer do not fit the model's context.
        """
        forward = self._forward
        setting = "generation.few_shot or generation.max_new_tokens"
        forward.check_width(max(map(len, prompts)) + self._longest, setting=setting)
        drafts = [_Draft(self._variant) for _ in prompts]
        active = list(range(len(prompts)))
        shared, cache = self._shared(prompts)
        rests = [prompt[shared:] for prompt in prompts]
        ids, mask, shifts = forward.fill(rests, left=forward.left)
        mask = torch.cat([torch.ones(len(prompts), shared, dtype=mask.dtype), mask], dim=1)
        places = [shift + len(rest) - 1 for shift, rest in zip(shifts, rests, strict=True)]
        fed, positions = ids, text_positions(mask)[:, shared:]
        for _ in range(self._longest):
            logits, cache = forward.run(
                fed,
                mask,
                positions,
                [range(place, place + 1) for place in places],
                use_cache=forward.cache_name is not None,
                cache=cache,
            )
            tokens = self._extend([drafts[i] for i in active], torch.cat(logits))
            kept = [row for row, i in enumerate(active) if not drafts[i].done]
            if not kept:
                break
            active = [active[row] for row in kept]
            new = torch.tensor(tokens)[kept, None]
            ids = torch.cat([ids[kept], new], dim=1)
            mask = torch.cat([mask[kept], torch.ones_like(new)], dim=1)
            fed, positions = ids, text_positions(mask)
            if cache is not None:
                cache.batch_select_indices(torch.tensor(kept, device=forward.device))
                fed, positions = new, positions[:, -1:]
            places = [fed.shape[1] - 1] * len(active)
        return [draft.finish() for draft in drafts]

    def _shared(self, prompts: Sequence[Sequence[int]]) -> tuple[int, Any]:
        """Run the beginning that all prompts share, mostly their solved examples, once for all.

        Returns
        -------
        length : int
            Tokens of it, fewer than in any prompt; 0 if it does not pay or cannot be kept.
        cache
            The attention cache, a row for each prompt; None where there is none.
        """
        forward = self._forward
        length = min(map(len, prompts)) - 1
        length = next(
            (i for i in range(length) if len({prompt[i] for prompt in prompts}) > 1), length
        )
        if forward.cache_name is None or len(prompts) == 1 or length < 1:
            return 0, None
        ids, mask, _ = forward.fill([prompts[0][:length]], left=forward.left)
        last = [range(length - 1, length)]
        _, cache = forward.run(ids, mask, text_positions(mask), last, use_cache=True)
        if cache is None:
            return 0, None
        rows = torch.zeros(len(prompts), dtype=torch.long, device=forward.device)
        cache.batch_select_indices(rows)
        return length, cache

    def _extend(self, drafts: Sequence[_Draft], logits: torch.Tensor) -> list[int]:
        """Give every draft its next token; return the tokens."""
        logits = logits[:, : self._forward.vocabulary].float()
        tokens = logits.argmax(dim=-1).tolist()
        rows = torch.log_softmax(logits, dim=-1)
        for draft, token, row in zip(drafts, tokens, rows, strict=True):
            draft.take(token, row, self._tokenizer, self._ends, self._stops)
        return tokens


def end_tokens(language_model: LanguageModel) -> set[int]:
    """Return the tokens with which the model or its tokenizer ends a text."""
    config = getattr(language_model.model, "generation_config", None)
    named = getattr(config, "eos_token_id", None)
    found = {*(named if isinstance(named, list | tuple) else [named])}
    return (found | {language_model.tokenizer.eos_token_id}) - {None}


def generate_chunk(
    greedy: Greedy,
    language_model: LanguageModel,
    benchmark: Benchmark,
    chunk: Sequence[int],
    settings: GenerationSettings,
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Answer some items; return a row each and their distributions, shape (chunk, vocabulary)."""
    prompts = [build_prompt(benchmark, benchmark.items[i], settings) for i in chunk]
    tokenizer = language_model.tokenizer
    if settings.chat_template:
        prompts = apply_chat(tokenizer, prompts)
    encoded = tokenizer(
        [prompt.prefix for prompt in prompts],
        add_special_tokens=not settings.chat_template,
        return_attention_mask=False,
    )["input_ids"]
    ids = [drop_end(tokenizer, row) for row in encoded]
    order = sorted(range(len(ids)), key=lambda i: (len(ids[i]), i))
    written: dict[int, Written] = {}
    for start in range(0, len(order), settings.batch_size):
        batch = order[start : start + settings.batch_size]
        written |= zip(batch, greedy([ids[i] for i in batch]), strict=True)
    answers = [written[i] for i in range(len(ids))]
    rows = [
        {
            "generated": answer.text,
            "n_generated": answer.n_tokens,
            "flags": ["cut"] * answer.cut + ["empty"] * (not answer.text),
        }
        for answer in answers
    ]
    return rows, torch.stack([answer.averaged for answer in answers]).to(torch.float16).numpy()


def assemble_generated(
    rows: list[dict[str, Any]],
    language_model: LanguageModel,
    benchmark: Benchmark,
    settings: GenerationSettings,
) -> Predictions:
    """Join written answers and items into the canonical table, judged."""
    kind = benchmark.answer_kind
    judged = [
        judge(row["generated"], item.answers, kind=kind)
        for row, item in zip(rows, benchmark.items, strict=True)
    ]
    table = pd.DataFrame(
        {
            **dict.fromkeys(SCHEMA.names),
            "key": benchmark.keys(),
            "native_id": [item.id for item in benchmark.items],
            "subject": benchmark.subjects,
            "prediction_source": "generated",
            "correct": [float(one.correct) for one in judged],
            "flags": [row["flags"] for row in rows],
            "group": benchmark.groups(),
            "generated": [row["generated"] for row in rows],
            "n_generated": [row["n_generated"] for row in rows],
            "f1": pd.array([one.f1 for one in judged], dtype="Float64").astype(float),
        }
    )[[*SCHEMA.names, *GENERATED.names]]
    meta = {
        "model": language_model.description,
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "normalisation": METRICS[kind],
        "max_new_tokens": settings.max_new_tokens or LONGEST[kind],
        "stop": list(stop_texts(settings, kind)),
        "settings": settings.identity(),
    }
    return Predictions(table, meta)
