"""Candidates: questions that somebody proposes for a band of difficulty, before any check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from harmony_utils.errors import HarmonyError
from harmony_utils.files import content_hash
from harmony_utils.items import Item

Band = tuple[float, float]


class GeneratorError(HarmonyError):
    """A generator cannot go on, for example because its endpoint is down (exit code 4)."""

    exit_code = 4


@dataclass(frozen=True)
class Candidate:
    """A proposed question.

    Parameters
    ----------
    id : str
        Name of the source item and a hash of the content.
    source : str
        Id of the item it was made from; of the first one for a composition.
    question : str
        The question.
    options : tuple of str
        Answers offered.
    gold : int
        Index of the right one, from 0.
    operations : tuple of str
        What was done, in order.
    band : tuple of float
        Difficulty aimed at, in logits.
    generator : str
        Who proposes.
    subject, passage : str, optional
        As in :class:`~harmony_utils.items.Item`.
    derived_gold : str
        Text of the right answer that follows from the source's key.
    notes : str
        Anything a reader should know.
    problem : str
        Why nothing usable came; the format gate rejects such a candidate with this reason.
    """

    id: str
    source: str
    question: str
    options: tuple[str, ...]
    gold: int
    operations: tuple[str, ...]
    band: Band
    generator: str
    subject: str | None = None
    passage: str | None = None
    derived_gold: str = ""
    notes: str = ""
    problem: str = ""

    def item(self) -> Item:
        """Return it as a question of a benchmark.

        Raises
        ------
        InputError
            If it has fewer than two options or its key lies outside them.
        """
        return Item(self.id, self.question, self.options, self.gold, self.subject, self.passage)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            **asdict(self),
            "options": list(self.options),
            "operations": list(self.operations),
            "band": list(self.band),
        }


def make_candidate(
    source: Item,
    *,
    question: str,
    options: tuple[str, ...],
    gold: int,
    operations: tuple[str, ...],
    band: Band,
    generator: str,
    derived_gold: str | None = None,
    notes: str = "",
    problem: str = "",
) -> Candidate:
    """Make a candidate whose id follows from its content.

    Examples
    --------
    >>> item = Item("q1", "What is 1 + 1?", ("2", "3"), 0)
    >>> one = make_candidate(item, question=item.question, options=("2", "4"), gold=0,
    ...     operations=("swap",), band=(0.0, 1.0), generator="hand")
    >>> one.id.startswith("q1~"), one.derived_gold
    (True, '2')
    """
    content = content_hash([source.passage, question, list(options), gold, problem])
    return Candidate(
        id=f"{source.id}~{content[:8]}",
        source=source.id,
        question=question,
        options=options,
        gold=gold,
        operations=operations,
        band=band,
        generator=generator,
        subject=source.subject,
        passage=source.passage,
        derived_gold=source.options[source.gold] if derived_gold is None else derived_gold,
        notes=notes,
        problem=problem,
    )


@runtime_checkable
class Generator(Protocol):
    """Whoever proposes questions."""

    name: str

    def propose(
        self, item: Item, target_band: Band, rng: np.random.Generator, n: int
    ) -> list[Candidate]:
        """Return at most ``n`` candidates made from ``item`` for a band of difficulty.

        The same generator state gives the same candidates. Candidates need not be good: gates
        come later. Raises :class:`GeneratorError` only if no further proposal is to be had.
        """
        ...
