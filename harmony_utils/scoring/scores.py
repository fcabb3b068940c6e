"""Scoring a whole benchmark in chunks that survive a kill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from harmony_utils.errors import InputError
from harmony_utils.files import read_json, write_array, write_atomically, write_json
from harmony_utils.items import Benchmark, Item
from harmony_utils.predictions import SCHEMA, Predictions, choose
from harmony_utils.progress import progress
from harmony_utils.scoring.forward import (
    Encoded,
    Forward,
    average_tokens,
    averaged_options,
    encode,
    log_mean,
)
from harmony_utils.scoring.generation import Greedy, assemble_generated, generate_chunk
from harmony_utils.scoring.models import LanguageModel
from harmony_utils.scoring.prompts import apply_chat, build_prompt, option_labels
from harmony_utils.settings import GenerationSettings, PredictionsSettings

LOGITS = 2**28
"""Logits that a batch of several options may hold, 1 GB in single precision."""


@dataclass(frozen=True)
class Scores:
    """Predictions on a benchmark with the answer-averaged distributions behind them.

    Parameters
    ----------
    predictions : Predictions
        One row per item.
    distributions : ndarray of shape (n_items, vocabulary), float16
        Log-probabilities; may be memory-mapped.
    """

    predictions: Predictions
    distributions: np.ndarray


def score(
    language_model: LanguageModel,
    benchmark: Benchmark,
    settings: PredictionsSettings | GenerationSettings | None = None,
    *,
    folder: Path | None = None,
) -> Scores:
    """Score every option of every item, or let the model write its answers where there are none,
    and average its distributions.

    Parameters
    ----------
    language_model : LanguageModel
        From :func:`~harmony_utils.scoring.models.load_model`.
    benchmark : Benchmark
        The items.
    settings : PredictionsSettings or GenerationSettings, optional
        Format, normalisation, variant of the averaged distribution, batch size … Open-ended
        questions take GenerationSettings.
    folder : Path, optional
        Finished chunks are kept in ``parts`` in it until all are done, so that the same call after
        a kill goes on where it stopped; delete them when the results are saved. Chunks of other
        items, models or settings are never used. With a folder the distributions stay on disk, in
        ``distributions.npy``, memory-mapped.

    Returns
    -------
    Scores
        Rows in item order.

    Raises
    ------
    InputError
        If a prompt does not fit the model, a chat template is asked for and missing, or the
        settings are those of the other type of question.

    Notes
    -----
    Memory is bounded by one chunk, ``chunk_size`` rows of the vocabulary, and one batch of at most
    ``LOGITS``.
    """
    wanted = GenerationSettings if benchmark.open_ended else PredictionsSettings
    settings = settings or wanted()
    if not isinstance(settings, wanted):
        raise InputError(
            f"benchmark {benchmark.name!r}: {type(settings).__name__} are not for its type of "
            f"questions; give {wanted.__name__}"
        )
    if benchmark.open_ended:
        ask, assemble = generate_chunk, assemble_generated
        forward = Greedy(language_model, settings, kind=benchmark.answer_kind)
    else:
        ask, assemble = _score_chunk, _assemble
        forward = Forward(
            language_model, padding_side=settings.padding_side, share_prefix=settings.share_prefix
        )
    chunks = [
        range(start, min(start + settings.chunk_size, len(benchmark)))
        for start in range(0, len(benchmark), settings.chunk_size)
    ]
    parts = _open_parts(folder, language_model, benchmark, settings)
    rows: list[dict[str, Any]] = []
    arrays: list[np.ndarray] = []
    with progress("scoring", len(benchmark)) as bar:
        for number, chunk in enumerate(chunks):
            table_path = parts / f"{number:05d}.json" if parts else None
            array_path = parts / f"{number:05d}.npy" if parts else None
            if parts and table_path.exists():  # written after its array, so both are whole
                done, array = read_json(table_path), np.load(array_path, mmap_mode="r")
            else:
                done, array = ask(forward, language_model, benchmark, chunk, settings)
                if parts:
                    write_array(array_path, array)
                    write_json(table_path, done)
                    array = np.load(array_path, mmap_mode="r")
            rows += done
            arrays.append(array)
            bar.advance(len(chunk))
    predictions = assemble(rows, language_model, benchmark, settings)
    if parts is None:
        return Scores(predictions, np.concatenate(arrays))
    path = write_atomically(folder / "distributions.npy", lambda p: _join(p, arrays))
    return Scores(predictions, np.load(path, mmap_mode="r"))


def _open_parts(
    folder: Path | None,
    language_model: LanguageModel,
    benchmark: Benchmark,
    settings: PredictionsSettings | GenerationSettings,
) -> Path | None:
    """Return the folder of finished chunks, emptied if they belong to another scoring."""
    if folder is None:
        return None
    parts = folder / "parts"
    identity = {
        "benchmark": benchmark.fingerprint(),
        "model": language_model.description,
        "settings": settings.identity(),
        "chunk_size": settings.chunk_size,
    }
    identity = json.loads(json.dumps(identity))
    described = parts / "identity.json"
    if described.exists() and read_json(described) == identity:
        return parts
    shutil.rmtree(parts, ignore_errors=True)
    write_json(described, identity)
    return parts


def _score_chunk(
    forward: Forward,
    language_model: LanguageModel,
    benchmark: Benchmark,
    chunk: Sequence[int],
    settings: PredictionsSettings,
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Score some items; return a row each and their distributions, shape (chunk, vocabulary)."""
    items = [benchmark.items[i] for i in chunk]
    prompts = [build_prompt(benchmark, item, settings) for item in items]
    tokenizer = language_model.tokenizer
    if settings.chat_template:
        prompts = apply_chat(tokenizer, prompts)
    encoded = encode(tokenizer, prompts, special=not settings.chat_template)
    loglik: list[list[float]] = [[] for _ in items]
    averages: list[list[torch.Tensor]] = [[] for _ in items]
    for batch in batches(encoded, settings.batch_size, forward.vocabulary):
        found = forward([[encoded[i][o] for o in options] for i, options in batch])
        for (i, options), scored in zip(batch, found, strict=True):
            used = averaged_options(items[i].gold, len(encoded[i]), settings.variant)
            for o, option in zip(options, scored, strict=True):
                loglik[i].append(option.loglik)
                if o in used:
                    average = average_tokens(option.log_probabilities, settings.variant)
                    averages[i].append(average.cpu())
    rows = [
        {
            "loglik": loglik[i],
            "tokens": [len(option.ids) - option.start for option in options],
            "flags": ["border"] if any(option.spans_border for option in options) else [],
        }
        for i, options in enumerate(encoded)
    ]
    averaged = torch.stack([log_mean(torch.stack(of_options)) for of_options in averages])
    return rows, averaged.to(torch.float16).numpy()


def batches(
    encoded: Sequence[Sequence[Encoded]], batch_size: int, vocabulary: int
) -> Iterator[list[tuple[int, range]]]:
    """Group items of similar length into batches whose logits fit into memory.

    Parameters
    ----------
    encoded : sequence of sequence of Encoded
        One list per item, one entry per option.
    batch_size : int
        Items in a batch at most.
    vocabulary : int
        Logits at each scored position.

    Yields
    ------
    list of (int, range)
        Numbers of items, shortest first, each with its options; all of an item's in one batch.
        Rows are filled up to the longest option among them, so one long option makes a batch
        large: it is cut where it would hold more than ``LOGITS``. An item that alone holds
        more comes option by option.

    Examples
    --------
    >>> short, long = Encoded((1, 2, 3), 2, False), Encoded((1, 2, 3, 4), 2, False)
    >>> list(batches([[short, short], [long, short], [short]], batch_size=2, vocabulary=9))
    [[(0, range(0, 2)), (2, range(0, 1))], [(1, range(0, 2))]]
    """
    order = sorted(range(len(encoded)), key=lambda i: (max(len(e.ids) for e in encoded[i]), i))
    batch: list[tuple[int, range]] = []
    rows = widest = 0
    for i in order:
        n_options, width = len(encoded[i]), max(len(e.ids) - e.start for e in encoded[i])
        fits = (rows + n_options) * max(widest, width) * vocabulary <= LOGITS
        if batch and not (fits and len(batch) < batch_size):
            yield batch
            batch, rows, widest = [], 0, 0
        if n_options * width * vocabulary > LOGITS:
            yield from ([(i, range(o, o + 1))] for o in range(n_options))
            continue
        batch.append((i, range(n_options)))
        rows, widest = rows + n_options, max(widest, width)
    if batch:
        yield batch


def _assemble(
    rows: list[dict[str, Any]],
    language_model: LanguageModel,
    benchmark: Benchmark,
    settings: PredictionsSettings,
) -> Predictions:
    """Join scored rows and items into the canonical table."""
    scored_text = [_lengths_of(item, settings) for item in benchmark.items]
    table = pd.DataFrame(
        {
            "key": benchmark.keys(),
            "native_id": [item.id for item in benchmark.items],
            "subject": benchmark.subjects,
            "n_options": [len(item.options) for item in benchmark.items],
            "gold": [[item.gold] for item in benchmark.items],
            "loglik": [row["loglik"] for row in rows],
            "unconditional": None,
            "characters": [[len(text) for text in texts] for texts in scored_text],
            "bytes": [[len(text.encode()) for text in texts] for texts in scored_text],
            "tokens": [row["tokens"] for row in rows],
            "prediction": 0,
            "prediction_source": "argmax",
            "correct": 0.0,
            "flags": [row["flags"] for row in rows],
            "group": benchmark.groups(),
        }
    )[SCHEMA.names]
    meta = {
        "model": language_model.description,
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "normalisation": settings.normalisation,
        "settings": settings.identity(),
    }
    draft = Predictions(table, meta)
    chosen, tied = choose(draft.scores())
    table["prediction"] = chosen
    table["correct"] = draft.correct_by(settings.normalisation)
    table["flags"] = [
        [*flags, "tie"] if tie else flags for flags, tie in zip(table["flags"], tied, strict=True)
    ]
    return Predictions(table, meta)


def _lengths_of(item: Item, settings: PredictionsSettings) -> tuple[str, ...]:
    """Return the texts by whose length log-likelihoods are divided."""
    if item.prompt is not None and item.prompt.choices:
        return item.prompt.choices
    return (
        item.options if settings.format == "cloze" else option_labels(item, settings.option_symbols)
    )


def _join(path: Path, arrays: list[np.ndarray]) -> None:
    """Write chunks one after the other into one ``.npy`` file without holding them all."""
    shape = (sum(len(array) for array in arrays), arrays[0].shape[1])
    with open(path, "wb") as handle:
        np.lib.format.write_array_header_2_0(
            handle, {"descr": "<f2", "fortran_order": False, "shape": shape}
        )
        for array in arrays:
            handle.write(np.ascontiguousarray(array, dtype="<f2").tobytes())
