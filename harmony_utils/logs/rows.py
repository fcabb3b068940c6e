"""What every reader gives: a header and rows, whatever the tool was called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from harmony_utils.logs.sources import Source

Gold = tuple[int, ...]


@dataclass(frozen=True)
class Flag:
    """Something a person must know about a log.

    Parameters
    ----------
    flag : str
        Stable word in kebab case.
    sentence : str
        What was found, with counts.
    """

    flag: str
    sentence: str

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return {"flag": self.flag, "sentence": self.sentence}


@dataclass
class LogHeader:
    """What a log says about the run as a whole.

    Parameters
    ----------
    format, version : str
        The reader, and the version or layout of the tool as far as it can be told.
    model, task : str
        As the log names them; rows may overrule both.
    benchmark : str
        The benchmark that the task belongs to, e.g. ``mmlu`` for ``mmlu_anatomy``.
    subject : str, optional
        The task's part of that benchmark.
    metrics : dict of str to tuple of str
        Metrics logged for each row, with the rules of :data:`harmony_utils.logs.gold.RULES` that
        may have made them.
    settings : dict
        What must agree between runs that are joined: ``few_shot``, ``template``, …; None where
        the log does not say.
    reported : dict of str to float
        The log's own averages for this task, by metric, and for the benchmark as ``group:METRIC``.
    total_items : int, optional
        Size of the whole task where the log says it, to notice a run on the first items only.
    """

    format: str
    version: str
    model: str
    task: str
    benchmark: str = ""
    subject: str | None = None
    metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, float] = field(default_factory=dict)
    total_items: int | None = None
    flags: list[Flag] = field(default_factory=list)


@dataclass(slots=True)
class LogRow:
    """One answered question.

    Parameters
    ----------
    native_id : str
        The log's own id.
    question : str
        The question without few-shot examples; ``""`` where the log does not hold it.
    options : list of str
        Texts of the options; empty where the log does not hold them.
    gold : dict of str to tuple of int
        Each way to read the gold options, by name; :mod:`~harmony_utils.logs.gold` finds the one
        that reproduces the logged metrics.
    logged : dict of str to float
        The row's metrics as logged.
    loglik : list of float, optional
        Sum log-likelihood of each option in nats, as logged; what is missing is NaN or -inf here
        and made null later.
    unconditional : list of float, optional
        The same without the question, for PMI.
    scored : list of str, optional
        The text whose log-likelihood that is, if not the option's: its length divides.
    tokens : list of int, optional
        Tokens of each scored text.
    lengths : dict of str to list of int
        Lengths of the scored texts that the log states itself, by unit (``char``, ``byte``).
    prediction : int, optional
        The option that the log says was chosen; None where unknown or unreadable.
    chosen : tuple of int, optional
        All options that the log says were chosen, where every correct one must be found and no
        other; ``prediction`` is None then.
    answered : bool
        False where the tool found no usable answer in what the model said.
    correct : float, optional
        Correctness as logged where no gold is.
    n_options : int, optional
        Number of options where their texts are not logged.
    subject : str, optional
        Subdomain of the item.
    prompt : str
        The whole prompt; only its hash is kept.
    model, task, split : str, optional
        Overrule the header; ``split`` names one of several rows for each item (filters).
    epoch : int
        Repetition of the same item.
    line : int
        Where in the file, for messages.
    flags : tuple of str
        Of this row, e.g. ``truncated``.
    """

    native_id: str
    question: str = ""
    options: list[str] = field(default_factory=list)
    gold: dict[str, Gold] = field(default_factory=dict)
    logged: dict[str, float] = field(default_factory=dict)
    loglik: list[float] | None = None
    unconditional: list[float] | None = None
    scored: list[str] | None = None
    tokens: list[int | None] | None = None
    lengths: dict[str, list[int | None]] = field(default_factory=dict)
    prediction: int | None = None
    chosen: Gold | None = None
    answered: bool = True
    correct: float | None = None
    n_options: int | None = None
    subject: str | None = None
    prompt: str = ""
    passage: str = ""
    model: str | None = None
    task: str | None = None
    split: str = ""
    epoch: int = 0
    line: int = 0
    flags: tuple[str, ...] = ()


class Reader(Protocol):
    """One format. Readers are modules with these names."""

    NAME: str

    def sniff(self, source: Source) -> str | None:
        """Return the version or layout if the content is this format, else None."""

    def read(self, source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
        """Return the header and the rows, which are read as they are asked for."""
