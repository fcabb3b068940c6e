"""What is to be decided, and on which conditions: written down before anything is weighed."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from harmony_utils.card.measures import check_measure
from harmony_utils.difficulty.purpose import Kind, read_declaration


class Criterion(BaseModel):
    """A bound that a measure must keep. Bounds are inclusive.

    Parameters
    ----------
    measure : str
        A name of :data:`~harmony_utils.card.measures.MEASURES`.
    at_least, at_most : float
        The bound: one of the two.
    model, benchmark : str
        To whom it applies; empty for all that were tested, the baseline left out.
    subject : str
        Accuracy in this subject only; for no other measure.
    why : str
        Where the bound comes from, for the record.

    Examples
    --------
    >>> Criterion(measure="accuracy", at_least=0.7).text
    'accuracy at least 0.7'
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    measure: str
    at_least: float | None = None
    at_most: float | None = None
    model: str = ""
    benchmark: str = ""
    subject: str = ""
    why: str = ""

    @field_validator("measure")
    @classmethod
    def _known(cls, name: str) -> str:
        return check_measure(name)

    @model_validator(mode="after")
    def _one_bound(self) -> Criterion:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"{self.measure}: give one of at_least and at_most")
        if not math.isfinite(self.bound):
            raise ValueError(f"{self.measure}: the bound {self.bound} is no number")
        if self.subject and self.measure != "accuracy":
            raise ValueError(f"{self.measure}: a subject goes with accuracy only")
        return self

    @property
    def bound(self) -> float:
        """The bound, whichever of the two it is."""
        return self.at_most if self.at_least is None else self.at_least

    @property
    def text(self) -> str:
        """The criterion in words, without to whom it applies."""
        side = "at most" if self.at_least is None else "at least"
        return f"{self.measure} {side} {self.bound:g}"


class Decision(BaseModel):
    """What will be decided, on which workload and on which conditions.

    Parameters
    ----------
    decision : str
        What will be decided, in a sentence.
    kind : {"selection", "training", "purchase", "safety"}
        As in :class:`~harmony_utils.difficulty.Purpose`.
    workload : str
        What the model will have to do.
    deployed : dict
        The configuration that will be used, such as ``chat_template``, ``few_shot`` or ``dtype``.
        Every difference from the tested one is a limit of the card.
    criteria : list of Criterion
        Acceptance criteria; without any, the card has no conclusion.
    limits : list of str
        What is known to be missing.
    baseline : str
        A tested model: what got better against it and what worse.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    decision: str = Field(min_length=1)
    kind: Kind
    workload: str = Field(min_length=1)
    deployed: dict[str, JsonValue] = Field(default_factory=dict)
    criteria: list[Criterion] = Field(default_factory=list)
    limits: list[str] = Field(default_factory=list)
    baseline: str = ""


def load_decision(path: str | Path) -> Decision:
    """Read a decision from YAML or JSON.

    Parameters
    ----------
    path : path
        JSON if its name ends in ``.json``, else YAML.

    Returns
    -------
    Decision

    Raises
    ------
    InputError
        In one line: which field is wrong, and how.
    """
    hint = "give `decision`, `kind` and `workload`, one name and value a line"
    return read_declaration(path, Decision, hint=hint, parts={"criteria": Criterion})
