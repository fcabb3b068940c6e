"""Teacher forcing: log-likelihoods and vocabulary distributions of options after a prefix."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

import torch

from harmony_utils.errors import InputError
from harmony_utils.items import Prompt
from harmony_utils.scoring.models import LanguageModel
from harmony_utils.settings import Variant

#: What models call the argument and output that hold a prompt's keys and values.
_CACHE_NAMES = ("cache", "past_key_values")


@dataclass(frozen=True)
class Encoded:
    """One option after its prefix as token ids.

    Parameters
    ----------
    ids : tuple of int
        The whole text.
    start : int
        Place of the option's first token, at least 1; tokens ``start`` to the end are scored.
    spans_border : bool
        Whether the option's first token also covers the end of the prefix.
    """

    ids: tuple[int, ...]
    start: int
    spans_border: bool


@dataclass(frozen=True)
class Scored:
    """What teacher forcing gives for one option.

    Parameters
    ----------
    loglik : float
        Sum of the log-probabilities of the option's tokens.
    log_probabilities : Tensor of shape (n_tokens, vocabulary)
        The model's distribution before each of the option's tokens, float32, natural logarithm.
    """

    loglik: float
    log_probabilities: torch.Tensor


def encode(
    tokenizer: Any, prompts: Sequence[Prompt], *, special: bool = True
) -> list[list[Encoded]]:
    """Encode every option with its prefix; the border between them is the tokenizer's own.

    Parameters
    ----------
    tokenizer
        A Hugging Face tokenizer.
    prompts : sequence of Prompt
        One per item.
    special : bool
        Add the tokens that the tokenizer puts at the beginning of a text by default. An end
        token it may append is dropped again.

    Returns
    -------
    list of list of Encoded
        One list per item, one entry per option. The option begins where the encoded text first
        differs from the encoded prefix: its tokens are those of the whole text, never of the
        option alone.

    Raises
    ------
    InputError
        If an option has no token of its own, or there is no token to put before it.
    """
    pairs = [list(zip(cycle(p.contexts), p.continuations, strict=False)) for p in prompts]
    texts = [context for p in prompts for context in p.contexts]
    n_contexts = len(texts)
    texts += [context + option for options in pairs for context, option in options]
    encoded = tokenizer(texts, add_special_tokens=special, return_attention_mask=False)
    ids = [drop_end(tokenizer, row) for row in encoded["input_ids"]]
    read = dict(zip(texts[:n_contexts], ids[:n_contexts], strict=True))
    wholes = iter(ids[n_contexts:])
    return [
        [_split(tokenizer, read[context], next(wholes), option) for context, option in options]
        for options in pairs
    ]


def _split(tokenizer: Any, prefix: list[int], whole: list[int], option: str) -> Encoded:
    """Find the border between prefix and option in the encoded text."""
    length = min(len(prefix), len(whole))
    start = next((i for i in range(length) if prefix[i] != whole[i]), length)
    spans = start < len(prefix)
    if start == 0:
        beginning = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        token = next((token for token in beginning if token is not None), None)
        if token is None:
            raise InputError("the tokenizer has no token to begin an empty prompt with")
        whole, start = [token, *whole], 1
    if start >= len(whole):
        raise InputError(f"option {option!r}: has no token of its own after its prompt")
    return Encoded(tuple(whole), start, spans)


def drop_end(tokenizer: Any, ids: list[int]) -> list[int]:
    """Remove an end or separator token appended by the tokenizer."""
    ends = {tokenizer.eos_token_id, tokenizer.sep_token_id} - {None, tokenizer.bos_token_id}
    return ids[:-1] if len(ids) > 1 and ids[-1] in ends else ids


class Forward:
    """Scores the options of items, running a prompt once for all of its options.

    Parameters
    ----------
    language_model : LanguageModel
        The loaded model.
    padding_side : {"left", "right"}
        Side on which shorter prompts of a batch are filled up; results agree within 1e-4.
    share_prefix : bool
        Keep the attention cache of a prompt for its options. Without it, and for models that
        keep no such cache, every option is run with the whole prompt: the same numbers within
        1e-4, in more time.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        padding_side: Literal["left", "right"] = "left",
        share_prefix: bool = True,
    ) -> None:
        self._model = language_model.model
        self.device = next(self._model.parameters()).device
        self.vocabulary = language_model.vocabulary
        self.left = padding_side == "left"
        self._accepts = set(inspect.signature(self._model.forward).parameters)
        names = [n for n in _CACHE_NAMES if n in self._accepts]
        self.cache_name = names[0] if share_prefix and names else None
        tokenizer = language_model.tokenizer
        self._pad = next(
            (t for t in (tokenizer.pad_token_id, tokenizer.eos_token_id) if t is not None), 0
        )
        config = self._model.config.get_text_config()
        self.limit = getattr(config, "max_position_embeddings", None)

    @torch.inference_mode()
    def __call__(self, batch: Sequence[Sequence[Encoded]]) -> list[list[Scored]]:
        """Score the options of some items together.

        Parameters
        ----------
        batch : sequence of sequence of Encoded
            One list per item, as from :func:`encode`.

        Returns
        -------
        list of list of Scored
            In the same order.

        Raises
        ------
        InputError
            If a text is longer than the model's context.
        """
        self.check_width(max(len(option.ids) for options in batch for option in options))
        rows = [option for options in batch for option in options]
        logits = self._shared(batch) if self.cache_name else self._whole(rows)
        scored = iter(
            [self._score(option, kept) for option, kept in zip(rows, logits, strict=True)]
        )
        return [[next(scored) for _ in options] for options in batch]

    def check_width(self, width: int, *, setting: str = "predictions.few_shot") -> None:
        """Refuse texts that are longer than the model's context, naming the setting to lower."""
        if self.limit and width > self.limit:
            raise InputError(
                f"a prompt of {width} tokens does not fit the model's {self.limit}; lower "
                f"{setting} or leave the item out"
            )

    def _score(self, option: Encoded, logits: torch.Tensor) -> Scored:
        """Turn the logits before each token of an option into its score."""
        log_probabilities = torch.log_softmax(logits[:, : self.vocabulary].float(), dim=-1)
        targets = torch.tensor(option.ids[option.start :], device=logits.device)
        loglik = log_probabilities.gather(1, targets[:, None]).sum(dtype=torch.float64)
        return Scored(float(loglik), log_probabilities)

    def _whole(self, rows: Sequence[Encoded]) -> list[torch.Tensor]:
        """Run every option with its whole prompt; return the logits before its tokens."""
        ids, mask, shifts = self.fill([row.ids[:-1] for row in rows], left=self.left)
        needed = [
            range(shift + row.start - 1, shift + len(row.ids) - 1)
            for row, shift in zip(rows, shifts, strict=True)
        ]
        logits, _ = self.run(ids, mask, text_positions(mask), needed)
        return logits

    def _shared(self, batch: Sequence[Sequence[Encoded]]) -> list[torch.Tensor]:
        """Run each prompt once, then all its options on the prompt's attention cache."""
        common = [_shared_length(options) for options in batch]
        if not all(common):  # some options differ from their first token on
            return self._whole([option for options in batch for option in options])
        prompts = [options[0].ids[:n] for options, n in zip(batch, common, strict=True)]
        ids, mask, shifts = self.fill(prompts, left=self.left)
        last = [range(s + n - 1, s + n) for s, n in zip(shifts, common, strict=True)]
        first, cache = self.run(ids, mask, text_positions(mask), last, use_cache=True)
        if cache is None:
            self.cache_name = None
            return self._whole([option for options in batch for option in options])
        owner = [i for i, options in enumerate(batch) for _ in options]
        rows = [option for options in batch for option in options]
        tails = [row.ids[common[i] : -1] for row, i in zip(rows, owner, strict=True)]
        if not any(tails):
            return [first[i] for i in owner]
        cache.batch_select_indices(torch.tensor(owner, device=self.device))
        tail_ids, tail_mask, _ = self.fill(tails, left=False)
        whole_mask = torch.cat([mask[owner], tail_mask], dim=1)
        positions = text_positions(whole_mask)[:, mask.shape[1] :]
        unscored = [row.start - common[i] for row, i in zip(rows, owner, strict=True)]
        needed = [range(max(n - 1, 0), len(t)) for n, t in zip(unscored, tails, strict=True)]
        after, _ = self.run(tail_ids, whole_mask, positions, needed, cache=cache)
        return [
            kept if n else torch.cat([first[i], kept])
            for n, i, kept in zip(unscored, owner, after, strict=True)
        ]

    def fill(
        self, sequences: Sequence[Sequence[int]], *, left: bool
    ) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        """Fill sequences up to one width; return ids, mask and where each one begins."""
        width = max(len(sequence) for sequence in sequences)
        shifts = [width - len(sequence) if left else 0 for sequence in sequences]
        ids = torch.full((len(sequences), width), self._pad)
        mask = torch.zeros_like(ids)
        for row, (sequence, shift) in enumerate(zip(sequences, shifts, strict=True)):
            ids[row, shift : shift + len(sequence)] = torch.tensor(sequence, dtype=ids.dtype)
            mask[row, shift : shift + len(sequence)] = 1
        return ids, mask, shifts

    def run(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        positions: torch.Tensor,
        needed: Sequence[range],
        *,
        use_cache: bool = False,
        cache: Any = None,
    ) -> tuple[list[torch.Tensor], Any]:
        """Call the model; return each row's logits at its needed positions, and the cache."""
        kept = sorted({position for wanted in needed for position in wanted})
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        inputs = {name: t.to(self.device) for name, t in inputs.items() if name in self._accepts}
        if "use_cache" in self._accepts:
            inputs["use_cache"] = use_cache
        if cache is not None:
            inputs[self.cache_name] = cache
        if "logits_to_keep" in self._accepts:
            inputs["logits_to_keep"] = torch.tensor(kept, device=self.device)
            output = self._model(**inputs)
            logits = output.logits
        else:
            output = self._model(**inputs)
            logits = output.logits[:, kept]
        place = {position: index for index, position in enumerate(kept)}
        rows = [logits[i, [place[p] for p in wanted]] for i, wanted in enumerate(needed)]
        caches = (getattr(output, name, None) for name in _CACHE_NAMES if use_cache)
        return rows, next((c for c in caches if hasattr(c, "batch_select_indices")), None)


def _shared_length(options: Sequence[Encoded]) -> int:
    """Return how many first tokens the options of an item share before any is scored."""
    length = min(option.start for option in options)
    columns = zip(*(option.ids[:length] for option in options), strict=True)
    return next((i for i, tokens in enumerate(columns) if len(set(tokens)) > 1), length)


def text_positions(mask: torch.Tensor) -> torch.Tensor:
    """Return each token's position in its own text, shape of ``mask``."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def average_tokens(log_probabilities: torch.Tensor, variant: Variant) -> torch.Tensor:
    """Average a model's distributions over the tokens of one option.

    Parameters
    ----------
    log_probabilities : Tensor of shape (n_tokens, vocabulary)
        Natural logarithms, one row before each token of the option.
    variant : {"gold-mean", "options", "gold-geometric", "prompt-end"}
        The first two take the arithmetic mean, ``gold-geometric`` the geometric mean,
        renormalised, and ``prompt-end`` the first row alone.

    Returns
    -------
    Tensor of shape (vocabulary,), float32
        Natural logarithms of the averaged distribution.

    Examples
    --------
    >>> rows = torch.log(torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    >>> average_tokens(rows, "gold-mean").exp()
    tensor([0.3000, 0.7000])
    >>> average_tokens(rows, "gold-geometric").exp()
    tensor([0.2500, 0.7500])
    """
    if variant == "prompt-end":
        return log_probabilities[0]
    if variant == "gold-geometric":
        return torch.log_softmax(log_probabilities.mean(dim=0), dim=-1)
    return log_mean(log_probabilities)


def averaged_options(gold: int, n_options: int, variant: Variant) -> range:
    """Return the options whose distributions enter an item's answer-averaged distribution.

    ``gold-mean`` and ``gold-geometric`` use the gold option, ``options`` all of them (and so
    looks at no gold answer), ``prompt-end`` any one, for all begin after the same prompt.

    Notes
    -----
    The source of HARMONY (arXiv 2509.25671) averages "over answer-token positions"; of which
    option and by which mean is not stated, so the choice is a parameter here.
    """
    if variant == "options":
        return range(n_options)
    first = 0 if variant == "prompt-end" else gold
    return range(first, first + 1)


def log_mean(log_probabilities: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the arithmetic mean over the first axis."""
    return torch.logsumexp(log_probabilities, dim=0) - math.log(len(log_probabilities))
