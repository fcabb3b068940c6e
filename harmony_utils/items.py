"""Questions with options, or with accepted answers: the input of every audit."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from json.encoder import encode_basestring
from typing import Literal

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.files import content_hash

PromptStyle = Literal["question", "continuation"]
AnswerKind = Literal["text", "number"]
"""How a written answer is compared with the accepted ones: as a short text, or by its number."""

SHARED_STEM_WORDS = 8
"""Two questions with the same text of at least so many words count as one group. Shorter texts
("Which of the following is true?") recur in questions that have nothing to do with each other."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model reads and the continuations that are scored after it, as exact texts.

    Parameters
    ----------
    prefix : str
        Text before every option.
    continuations : tuple of str
        Scored text of each option, delimiter included; an open-ended question has none.
    leads : tuple of str
        One text an option, read between prefix and continuation and not scored, or empty. With
        leads the options may stand in what is read and share one continuation (partial
        evaluation, as of WinoGrande).
    choices : tuple of str
        Text of each option by whose length log-likelihoods are divided, where it is not the item's
        own option: a letter that stands for it, for instance.

    Examples
    --------
    >>> Prompt("The cup or the", (" broke.", " broke."), (" vase", " table")).contexts
    ('The cup or the vase', 'The cup or the table')
    """

    prefix: str
    continuations: tuple[str, ...]
    leads: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.leads and len(self.leads) != len(self.continuations):
            raise InputError(
                f"prompt: {len(self.leads)} leads for {len(self.continuations)} continuations"
            )
        if self.choices and len(self.choices) != len(self.continuations):
            raise InputError(
                f"prompt: {len(self.choices)} choices for {len(self.continuations)} continuations"
            )

    @property
    def contexts(self) -> tuple[str, ...]:
        """Texts that are read and not scored: one an option with leads, else one for all."""
        return tuple(self.prefix + lead for lead in self.leads or ("",))


@dataclass(frozen=True, slots=True)
class Item:
    """One question, either multiple choice or open-ended.

    Parameters
    ----------
    id : str
        The benchmark's own name of the question, unique in the benchmark.
    question : str
        The question, or the text to be continued.
    options : tuple of str
        At least two answers, in the benchmark's order; none for an open-ended question.
    gold : int, optional
        Index of the correct option, counted from 0; None for an open-ended question.
    subject : str, optional
        Subdomain given by the benchmark's authors.
    passage : str, optional
        Text the question is about, shown before it.
    group : str, optional
        Name shared by questions whose answers depend on each other; see :func:`item_groups`. It is
        no part of the content: neither the key nor the benchmark's fingerprint knows it.
    prompt : Prompt, optional
        The item's own prompt, used as it stands: no format, example or template is added.
    answers : tuple of str, optional
        Accepted answers (aliases) of an open-ended question, the one that is shown in a solved
        example first. A question has either options or answers.
    """

    id: str
    question: str
    options: tuple[str, ...] = ()
    gold: int | None = None
    subject: str | None = None
    passage: str | None = None
    group: str | None = None
    prompt: Prompt | None = None
    answers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.answers:
            if self.options or self.gold is not None:
                raise InputError(
                    f"item {self.id!r}: has both options and accepted answers; keep one of them"
                )
            return
        if len(self.options) < 2:
            raise InputError(
                f"item {self.id!r}: needs at least two options, has {len(self.options)}"
            )
        if self.gold is None or not 0 <= self.gold < len(self.options):
            raise InputError(
                f"item {self.id!r}: gold {self.gold} lies outside the {len(self.options)} options"
            )
        if self.prompt is not None and len(self.prompt.continuations) != len(self.options):
            raise InputError(
                f"item {self.id!r}: its prompt has {len(self.prompt.continuations)} continuations "
                f"for {len(self.options)} options"
            )

    @property
    def answer(self) -> str:
        """A correct answer: the gold option, or the first of the accepted answers."""
        return self.answers[0] if self.answers else self.options[self.gold]


@dataclass(frozen=True)
class Benchmark:
    """A named list of items in a fixed order.

    Parameters
    ----------
    name : str
        Short name, also used as a folder name.
    items : tuple of Item
        The questions that are scored.
    split : str
        Split of the source, e.g. ``"validation"``.
    source : str
        Where the items came from, in words that do not depend on this machine.
    licence : str
        Licence of the data, or ``"unknown"``.
    prompt_style : {"question", "continuation"}
        ``question`` asks ``Question: … Answer:``; ``continuation`` lets the options continue the
        text (HellaSwag, COPA, WinoGrande).
    examples : tuple of Item
        Items from another split for few-shot prompts; may be empty.
    version : str
        What else tells this edition from others, such as the version of the tool that wrote the
        prompts; part of the fingerprint.
    answer_kind : {"text", "number"}
        How answers to open-ended questions are compared; means nothing for multiple choice.

    Raises
    ------
    InputError
        Without items, with an id twice, or with questions of both kinds.
    """

    name: str
    items: tuple[Item, ...]
    split: str = "all"
    source: str = ""
    licence: str = "unknown"
    prompt_style: PromptStyle = "question"
    examples: tuple[Item, ...] = field(default=(), repr=False)
    version: str = ""
    answer_kind: AnswerKind = "text"

    def __post_init__(self) -> None:
        if not self.items:
            raise InputError(f"benchmark {self.name!r}: has no items")
        repeated = [name for name, count in Counter(i.id for i in self.items).items() if count > 1]
        if repeated:
            raise InputError(f"benchmark {self.name!r}: id {repeated[0]!r} stands more than once")
        if len({bool(item.answers) for item in (*self.items, *self.examples)}) > 1:
            raise InputError(
                f"benchmark {self.name!r}: some questions have options and others have accepted "
                "answers; make two benchmarks of it"
            )

    def __len__(self) -> int:
        return len(self.items)

    @property
    def open_ended(self) -> bool:
        """Whether answers are written freely instead of chosen among options."""
        return bool(self.items[0].answers)

    def require_options(self, what: str) -> None:
        """Refuse an open-ended benchmark for what compares the options of a question.

        Parameters
        ----------
        what : str
            What needs the options, as the beginning of a sentence.

        Raises
        ------
        InputError
            If the questions have no options.
        """
        if self.open_ended:
            raise InputError(
                f"{what} needs options, and the questions of {self.name!r} are open-ended; take a "
                "multiple-choice benchmark (`harmony benchmarks` shows the type)"
            )

    @property
    def subjects(self) -> list[str | None]:
        """Subject of each item, in item order."""
        return [item.subject for item in self.items]

    def keys(self) -> list[str]:
        """Content key of each item, in item order; see :func:`item_keys`."""
        return item_keys(self.items)

    def groups(self) -> list[str | None]:
        """Group of each item, in item order; see :func:`item_groups`."""
        return item_groups(self.items)

    def fingerprint(self) -> str:
        """Hash of everything that can change a prediction: items, order, style and examples.

        Prompts of the items' own, the version, and how answers are compared enter where there are
        any.
        """
        content = [self.prompt_style, *([self.answer_kind] if self.open_ended else [])] + [
            [
                [i.passage, i.question, list(i.answers or i.options), i.gold, i.subject]
                for i in group
            ]
            for group in (self.items, self.examples)
        ]
        if any(item.prompt for item in self.items):
            content.append([item.prompt and asdict(item.prompt) for item in self.items])
        return content_hash([*content, self.version] if self.version else content)

    def sample(self, limit: int, *, random_state: int = 0) -> Benchmark:
        """Return at most ``limit`` items drawn at random without replacement.

        Parameters
        ----------
        limit : int
            Number of items; 0, or more than there are, keeps all.
        random_state : int
            Seed of the draw. The items keep their order.

        Returns
        -------
        Benchmark
            The same benchmark with fewer items. A random sample, not the first items: many
            benchmarks are sorted by subject.
        """
        if limit < 0:
            raise InputError(f"limit {limit}: give a positive number of questions, or 0 for all")
        if limit == 0 or limit >= len(self.items):
            return self
        chosen = np.random.default_rng(random_state).choice(len(self.items), limit, replace=False)
        return replace(self, items=tuple(self.items[i] for i in sorted(chosen)))

    def sample_subjects(self, limit: int, *, random_state: int = 0) -> Benchmark:
        """Return at most ``limit`` items of each subject, drawn at random without replacement.

        Parameters
        ----------
        limit : int
            Number of items a subject; a smaller subject keeps all it has.
        random_state : int
            Seed of the draw. The items keep their order.

        Returns
        -------
        Benchmark
            The same benchmark with fewer items. To have few subjects only, load it with them:
            ``load_benchmark("mmlu:anatomy,astronomy")``.

        Raises
        ------
        InputError
            If the limit is not positive, or an item has no subject.
        """
        if limit < 1:
            raise InputError(f"limit {limit}: give a positive number of questions a subject")
        missing = [item.id for item in self.items if item.subject is None]
        if missing:
            raise InputError(
                f"benchmark {self.name!r}: item {missing[0]!r} has no subject ({len(missing)} such "
                "items); use sample instead"
            )
        rng = np.random.default_rng(random_state)
        subjects = np.array(self.subjects)
        chosen = []
        for subject in dict.fromkeys(self.subjects):
            members = np.flatnonzero(subjects == subject)
            size = min(limit, len(members))
            chosen += rng.choice(members, size, replace=False).tolist()
        return replace(self, items=tuple(self.items[i] for i in sorted(chosen)))


def item_keys(items: Sequence[Item]) -> list[str]:
    """Return a key for each item that depends on its content alone.

    Parameters
    ----------
    items : sequence of Item
        The items, in order.

    Returns
    -------
    list of str
        16 hexadecimal digits of a SHA-256 over passage, question and options, if any; accepted
        answers are no part of it, for other tools keep other lists of them. The second, third
        … item with the same content gets ``-1``, ``-2`` … appended, so that keys are unique.

    Examples
    --------
    >>> twice = [Item("a", "2 + 2 =", ("3", "4"), 1), Item("b", "2 + 2 =", ("3", "4"), 1)]
    >>> first, second = item_keys(twice)
    >>> second == first + "-1"
    True
    """
    return number_repeats(
        [content_digest(item.question, item.options, passage=item.passage or "") for item in items]
    )


def content_digest(question: str, options: Sequence[str], *, passage: str = "") -> str:
    """Return 16 hexadecimal digits that depend on the text of a question alone."""
    text = f"[{', '.join(map(encode_basestring, (passage, question, *options)))}]"  # as json.dumps
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def number_repeats(digests: Sequence[str]) -> list[str]:
    """Make digests unique: the second, third … of a kind gets ``-1``, ``-2`` … appended.

    Examples
    --------
    >>> number_repeats(["a", "b", "a", "a"])
    ['a', 'b', 'a-1', 'a-2']
    """
    seen: Counter[str] = Counter()
    keys = []
    for digest in digests:
        keys.append(f"{digest}-{seen[digest]}" if seen[digest] else digest)
        seen[digest] += 1
    return keys


def item_groups(items: Sequence[Item]) -> list[str | None]:
    """Say which items hang together: their answers are not independent of each other.

    Parameters
    ----------
    items : sequence of Item
        The items, in order.

    Returns
    -------
    list of str or None
        The item's own ``group`` where it has one; else a name made from its passage; else from its
        question, where that has :data:`SHARED_STEM_WORDS` words; else from question and options.
        None for an item that shares its group with no other.

    Examples
    --------
    >>> text = "Rivers carry sand to the sea."
    >>> first = Item("a", "What do they carry?", ("sand", "gold"), 0, passage=text)
    >>> second = Item("b", "Where to?", ("the sea", "the sky"), 0, passage=text)
    >>> one, other, alone = item_groups([first, second, Item("c", "2 + 2 =", ("3", "4"), 1)])
    >>> one == other, alone
    (True, None)
    """
    names = [item.group or _derived_group(item) for item in items]
    counts = Counter(names)
    return [name if counts[name] > 1 else None for name in names]


def _derived_group(item: Item) -> str:
    if item.passage:
        shared = ["passage", item.passage]
    elif len(item.question.split()) >= SHARED_STEM_WORDS:
        shared = ["question", item.question]
    else:
        shared = ["item", item.question, *sorted(item.options)]
    return f"{shared[0]}-{content_hash(shared)[:16]}"
