"""Option surgery: the embedded generator, which needs no language model and no network.

What makes a question of several options hard is, besides what it asks, how near its wrong options
come to the right one. Surgery changes the wrong options, their number, the frame of the question,
or puts two questions into one. The key stays, or follows from the keys: nothing is invented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.filling.candidates import Band, Candidate, make_candidate
from harmony_utils.filling.reader import Reader
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Benchmark, Item

FRAMES = (
    "Choose the best answer. {question}",
    "{question} Pick the option that answers this.",
    "A pupil asks: {question} What is the answer?",
    "Here is a question from a test. {question}",
)
"""Our own frames; none of them negates, so that the key stays."""

HARDER = ("swap-near", "add-near", "compose", "swap-near+frame")
EASIER = ("swap-far", "drop-near", "swap-far+drop-near")
ANY = ("swap-random", "add-random", "drop-random", "frame", "compose")

MAX_OPTIONS = 6

TOO_NEAR = 0.85
"""A wrong option more similar than this to the right one may be right too; it is not used."""

SAME_QUESTION = 0.75
"""The right option of a question at least this similar may be right here too."""

LEAST_POOL = 20
"""Options a subject must have before only its own are used."""

_SHORTLIST = 8
_READ = 24


class OptionSurgery:
    """Generator that changes the options of existing questions.

    Parameters
    ----------
    benchmark : Benchmark
        Where options come from: of the same subject if it has at least 20 of them, else of all.
    texts : TextSpace
        What near and far mean.
    difficulties : mapping of item id to float, optional
        Difficulty of the originals. An item below the band is made harder, one above it easier;
        an item without a difficulty is made harder. If not given, and ``aimed`` is False,
        operations and options are drawn at random: the baseline that shows what aiming is worth.
    reader : Reader, optional
        A model that says which of the options that lie near (or far) it finds likely (or not) after
        the very question they are meant for; ranks in similarity and in likelihood count the same.
    aimed : bool
        Whether operations and options follow the band.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        texts: TextSpace,
        *,
        difficulties: Mapping[str, float] | None = None,
        reader: Reader | None = None,
        aimed: bool = True,
    ) -> None:
        benchmark.require_options("option surgery")
        self.name = "surgery" if aimed else "random rewriting"
        self.items = {item.id: item for item in benchmark.items}
        self.texts, self.aimed = texts, aimed
        self.difficulties = dict(difficulties or {})
        self.reader = reader
        self._allowed_of: dict[str, tuple[list[str], np.ndarray]] = {}
        self._pools: dict[str | None, list[tuple[str, str, bool]]] = {None: []}
        for item in benchmark.items:
            for number, text in enumerate(item.options):
                entry = (text, item.id, number == item.gold)
                self._pools[None].append(entry)
                if item.subject is not None:
                    self._pools.setdefault(item.subject, []).append(entry)

    def propose(
        self, item: Item, target_band: Band, rng: np.random.Generator, n: int
    ) -> list[Candidate]:
        """Return at most ``n`` different candidates; fewer if an item allows no more.

        Raises
        ------
        InputError
            For an empty band.
        """
        low, high = target_band
        if not low < high:
            raise InputError(f"band {low:g} to {high:g}: the first must be smaller")
        found: dict[str, Candidate] = {}
        for _ in range(3 * n):
            if len(found) >= n:
                break
            made = self._make(item, target_band, rng)
            if made is not None:
                found.setdefault(made.id, made)
        return list(found.values())

    def _make(self, item: Item, band: Band, rng: np.random.Generator) -> Candidate | None:
        harder = self.difficulties.get(item.id, -np.inf) < (band[0] + band[1]) / 2
        recipes = (HARDER if harder else EASIER) if self.aimed else ANY
        recipe = recipes[rng.integers(len(recipes))]
        if recipe == "compose":
            return self._compose(item, band, rng)
        question, wrong = item.question, [t for i, t in enumerate(item.options) if i != item.gold]
        gold = item.options[item.gold]
        for step in recipe.split("+"):
            verb, _, side = step.partition("-")
            if verb == "frame":
                question = FRAMES[rng.integers(len(FRAMES))].format(question=question)
            elif verb == "drop":
                wrong = self._drop(gold, wrong, side, rng)
            else:
                wrong = self._change(item, wrong, verb, side, rng)
        if question == item.question and sorted(wrong) == sorted(
            t for i, t in enumerate(item.options) if i != item.gold
        ):
            return None
        steps = tuple(recipe.split("+"))
        return _shuffled(item, question, gold, wrong, steps, band, self.name, rng)

    def _drop(self, gold: str, wrong: list[str], side: str, rng: np.random.Generator) -> list[str]:
        """Leave out the wrong options nearest to the right one, or any; at least one stays."""
        if len(wrong) < 2:
            return wrong
        n_dropped = int(rng.integers(1, len(wrong)))
        if side == "random":
            kept = rng.permutation(len(wrong))[n_dropped:]
        else:
            near = self.texts.cosine([gold], wrong)[0]
            kept = np.argsort(-near, kind="stable")[n_dropped:]
        return [wrong[i] for i in sorted(kept.tolist())]

    def _change(
        self, item: Item, wrong: list[str], verb: str, side: str, rng: np.random.Generator
    ) -> list[str]:
        """Swap some wrong options for others, or add some."""
        room = MAX_OPTIONS - 1 - len(wrong)
        if verb == "add":
            n_new = min(int(rng.integers(1, 3)), room)
        else:
            n_new = int(rng.integers(1, len(wrong) + 1))
        new = self._pick(item, wrong, side, n_new, rng)
        if verb == "add":
            return wrong + new
        gold = item.options[item.gold]
        near = self.texts.cosine([gold], wrong)[0]
        order = np.argsort(near if side == "near" else -near, kind="stable")
        if side == "random":
            order = rng.permutation(len(wrong))
        return [wrong[i] for i in sorted(order[len(new) :].tolist())] + new

    def _pick(
        self, item: Item, wrong: list[str], side: str, n: int, rng: np.random.Generator
    ) -> list[str]:
        """Draw options of other items from the eight nearest, from the farthest third, or any."""
        texts, near = self._allowed(item)
        taken = {plain(text) for text in wrong}
        free = [i for i, text in enumerate(texts) if plain(text) not in taken]
        n = min(n, len(free))
        if n < 1:
            return []
        if side == "random":
            chosen = rng.choice(free, n, replace=False)
        else:
            signed = near[free] if side == "far" else -near[free]
            order = np.array(free)[np.argsort(signed, kind="stable")]
            width = max(_SHORTLIST if side == "near" else len(free) // 3, n)
            if self.reader is not None:
                order, width = self._read(item, texts, order, side), max(_SHORTLIST, n)
            chosen = rng.choice(order[:width], n, replace=False)
        return [texts[i] for i in chosen.tolist()]

    def _allowed(self, item: Item) -> tuple[list[str], np.ndarray]:
        """Return options of other items that hardly are right here too, and how near they lie.

        Left out are right options of questions like this one, and texts very near to the key.
        """
        if item.id not in self._allowed_of:
            texts = self._others(item)
            near = self.texts.cosine([item.options[item.gold]], texts)[0] if texts else np.empty(0)
            texts = [t for t, value in zip(texts, near.tolist(), strict=True) if value < TOO_NEAR]
            near = near[near < TOO_NEAR]
            self._allowed_of[item.id] = (texts, near)
        return self._allowed_of[item.id]

    def _others(self, item: Item) -> list[str]:
        pool = self._pools.get(item.subject, [])
        pool = pool if len(pool) >= LEAST_POOL else self._pools[None]
        others = list(dict.fromkeys(source for _, source, _ in pool if source != item.id))
        if not others:
            return []
        alike = self.texts.cosine([item.question], [self.items[o].question for o in others])[0]
        same = [
            o for o, value in zip(others, alike.tolist(), strict=True) if value >= SAME_QUESTION
        ]
        taken = {plain(text) for text in item.options}
        taken |= {plain(self.items[o].options[self.items[o].gold]) for o in same}
        return list(
            dict.fromkeys(t for t, source, _ in pool if source != item.id and plain(t) not in taken)
        )

    def _read(self, item: Item, texts: list[str], order: np.ndarray, side: str) -> np.ndarray:
        """Put the first options of an order into one that counts what the reader finds likely."""
        first = order[:_READ]
        asked = replace(
            item, options=(item.options[item.gold], *(texts[i] for i in first.tolist())), gold=0
        )
        likely = self.reader.read([asked])[0][1:]
        likely = np.nan_to_num(likely, nan=np.nanmin(likely, initial=0.0))
        place = np.argsort(np.argsort(likely if side == "far" else -likely, kind="stable"))
        return first[np.argsort(np.arange(len(first)) + place, kind="stable")]

    def _compose(self, item: Item, band: Band, rng: np.random.Generator) -> Candidate | None:
        """Ask two questions at once; each half of the key stands in two of the four options."""
        others = [
            other
            for other in self.items.values()
            if other.subject == item.subject and other.id != item.id and not other.passage
        ]
        if not others or item.passage:
            return None
        other = others[int(rng.integers(len(others)))]
        first, second = (self._two(x, rng) for x in (item, other))
        question = f"(1) {item.question} (2) {other.question} Which pair answers both, in order?"
        pairs = [f"{one}; {two}" for one in first for two in second]
        steps = (f"compose:{other.id}",)
        return _shuffled(item, question, pairs[0], pairs[1:], steps, band, self.name, rng)

    def _two(self, item: Item, rng: np.random.Generator) -> tuple[str, str]:
        """Return the right option and one wrong one, the nearest if aimed."""
        gold = item.options[item.gold]
        wrong = [text for i, text in enumerate(item.options) if i != item.gold]
        if self.aimed:
            return gold, wrong[int(self.texts.cosine([gold], wrong)[0].argmax())]
        return gold, wrong[int(rng.integers(len(wrong)))]


def plain(text: str) -> str:
    """Return a text in lower case, with single spaces and without a full stop at its end.

    Examples
    --------
    >>> plain("  The  Sun. ")
    'the sun'
    """
    return " ".join(text.lower().split()).rstrip(".")


def _shuffled(
    item: Item,
    question: str,
    gold: str,
    wrong: Sequence[str],
    operations: tuple[str, ...],
    band: Band,
    generator: str,
    rng: np.random.Generator,
) -> Candidate:
    texts = [gold, *wrong]
    order = rng.permutation(len(texts)).tolist()
    return make_candidate(
        item,
        question=question,
        options=tuple(texts[i] for i in order),
        gold=order.index(0),
        operations=operations,
        band=band,
        generator=generator,
        derived_gold=gold,
    )
