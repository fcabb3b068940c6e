"""What a benchmark is to be used for, declared before anything is weighed by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harmony_utils.difficulty.mismatch import Target, uniform_target, workload_target
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError

Kind = Literal["selection", "training", "purchase", "safety"]
"""What will be decided: which model to choose, whether training progresses, whether to buy, whether
it is safe."""

_Declared = TypeVar("_Declared", bound=BaseModel)


class Band(BaseModel):
    """A band of difficulty and its share of the workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float
    high: float
    share: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _rising(self) -> Band:
        if not self.low < self.high:
            raise ValueError(f"band {self.low:g} to {self.high:g}: low must be below high")
        return self


class Purpose(BaseModel):
    """What a benchmark is to be used for.

    Parameters
    ----------
    kind : {"selection", "training", "purchase", "safety"}
        What will be decided: which model to choose, whether training progresses, whether to buy,
        whether it is safe.
    description : str
        For the record.
    subjects, subdomains : dict of str to float
        Shares of the workload; each table sums to 1.
    difficulty : list of Band
        Shares of bands of difficulty, in logits of the pool; they sum to 1.
    error_cost : dict of str to float
        What an error costs in each subject, relative to 1. Shares are multiplied by it: the score
        is then the mean right answer per unit of cost.
    ability_range : pair of float, optional
        Abilities for which the decision matters; the target of difficulty if no bands are given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    description: str = ""
    subjects: dict[str, float] = Field(default_factory=dict)
    subdomains: dict[str, float] = Field(default_factory=dict)
    difficulty: list[Band] = Field(default_factory=list)
    error_cost: dict[str, float] = Field(default_factory=dict)
    ability_range: tuple[float, float] | None = None

    @field_validator("subjects", "subdomains")
    @classmethod
    def _sums_to_one(cls, shares: dict[str, float], info: Any) -> dict[str, float]:
        if any(share < 0 for share in shares.values()):
            raise ValueError("a share is negative")
        if shares and abs(sum(shares.values()) - 1) > 1e-3:
            raise ValueError(f"shares sum to {sum(shares.values()):g}, not to 1")
        return shares

    @model_validator(mode="after")
    def _consistent(self) -> Purpose:
        if self.difficulty:
            total = sum(band.share for band in self.difficulty)
            if abs(total - 1) > 1e-3:
                raise ValueError(f"difficulty: shares sum to {total:g}, not to 1")
            ordered = sorted(self.difficulty, key=lambda band: band.low)
            for one, other in pairwise(ordered):
                if other.low < one.high - 1e-9:
                    raise ValueError(f"difficulty: bands overlap at {other.low:g}")
        if any(cost < 0 for cost in self.error_cost.values()):
            raise ValueError("error_cost: a cost is negative")
        if self.error_cost and not self.subjects:
            raise ValueError("error_cost: needs shares of subjects")
        if unknown := set(self.error_cost) - set(self.subjects):
            raise ValueError(f"error_cost: {sorted(unknown)[0]!r} is not among subjects")
        if self.ability_range and not self.ability_range[0] < self.ability_range[1]:
            raise ValueError("ability_range: the first must be smaller")
        return self

    def target(self) -> Target | None:
        """Return the target of difficulty that this purpose declares, if it does."""
        where = f"the purpose ({self.kind})"
        if self.difficulty:
            bands = [(band.low, band.high, band.share) for band in self.difficulty]
            total = sum(band.share for band in self.difficulty)
            bands = [(low, high, share / total) for low, high, share in bands]
            return workload_target(bands, provenance=f"difficulty bands of {where}")
        if self.ability_range:
            low, high = self.ability_range
            target = uniform_target(low, high)
            return Target("purpose", f"ability range of {where}", target.edges, target.shares)
        return None


def load_purpose(path: str | Path) -> Purpose:
    """Read a purpose from YAML or JSON.

    Parameters
    ----------
    path : path
        JSON if its name ends in ``.json``, else YAML.

    Returns
    -------
    Purpose

    Raises
    ------
    InputError
        In one line: which field is wrong, and how.
    """
    hint = "give `kind` and shares, one name and value a line"
    return read_declaration(path, Purpose, hint=hint, parts={"difficulty": Band})


def read_declaration(
    path: str | Path,
    form: type[_Declared],
    *,
    hint: str,
    parts: Mapping[str, type[BaseModel]] | None = None,
) -> _Declared:
    """Read what a person declared in a file, with errors that a person can act on.

    Parameters
    ----------
    path : path
        JSON if its name ends in ``.json``, else YAML.
    form : class
        A pydantic model; it decides what may stand there.
    hint : str
        What to write, for a file that holds no names and values at all.
    parts : mapping of str to class, optional
        The form of the entries of a list, by the list's name; for naming what may stand in one.

    Returns
    -------
    form

    Raises
    ------
    InputError
        In one line: which field is wrong, and how.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{place}: not readable ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: {hint}")
    try:
        return form.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = " ".join(first["msg"].removeprefix("Value error, ").split())
        listed = (parts or {}).get(place.partition(".")[0])
        inner = form if len(first["loc"]) == 1 else listed
        if first["type"] == "extra_forbidden" and inner is not None:
            message = f"unknown; there are {', '.join(inner.model_fields)}"
        raise InputError(f"{path}: {place + ': ' if place else ''}{message}") from None


def check_purpose(purpose: Purpose, responses: Responses) -> None:
    """Refuse a purpose that names subjects or subdomains the benchmark does not have.

    Parameters
    ----------
    purpose : Purpose
        What is declared.
    responses : Responses
        Answers with their groupings.

    Raises
    ------
    InputError
        Naming the first unknown one and those that are known.
    """
    for name, shares in (("subject", purpose.subjects), ("subdomain", purpose.subdomains)):
        if not shares:
            continue
        known = (
            sorted(set(responses.grouping(name).tolist()) - {""}) if _has(responses, name) else []
        )
        if unknown := [label for label in shares if label not in known]:
            have = ", ".join(known[:8]) + (", …" if len(known) > 8 else "") if known else "none"
            raise InputError(f"purpose: unknown {name} {unknown[0]!r}; the answers have {have}")


def _has(responses: Responses, name: str) -> bool:
    return any(responses.subjects) if name == "subject" else name in responses.groups
