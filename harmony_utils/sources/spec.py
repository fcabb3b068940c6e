"""What a person writes to name a benchmark, taken apart: ``target?name=value&name=value``."""

from __future__ import annotations

import difflib
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import parse_qsl

from harmony_utils.errors import InputError
from harmony_utils.items import AnswerKind, PromptStyle
from harmony_utils.sources.catalogue import Columns, GoldKind

COLUMN_PARAMETERS = (
    "question", "options", "answers", "gold", "gold_is", "labels", "id", "subject", "passage",
    "group", "shuffle",
)  # fmt: skip
OTHER_PARAMETERS = ("prompt_style", "subjects", "split", "answer_kind", "held_out")
HUB_PARAMETERS = ("config", "revision")

# Names a column may have; the first is the one to write, the others are common elsewhere.
ALIASES = {
    "question": ("question", "query"),
    "options": ("options", "choices"),
    "answers": ("answers", "aliases"),
    "gold": ("gold", "answer", "label"),
    "id": ("id",),
    "subject": ("subject", "category"),
    "passage": ("passage", "context"),
    "group": ("group",),
}
# Columns that hold one option each, if no column holds them all.
_SERIES = [
    [f"option_{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"],
    [f"option_{number}" for number in range(26)],
    [f"option_{number}" for number in range(1, 27)],
    list("abcdefghijklmnopqrstuvwxyz"),
]


@dataclass(frozen=True)
class Spec:
    """A target and what was said about it."""

    target: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_spec(text: str) -> Spec:
    """Split ``target?name=value&…``; percent escapes and ``+`` in values are decoded."""
    target, _, query = text.partition("?")
    parameters: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        pairs = parse_qsl(part, keep_blank_values=True)
        if len(pairs) != 1 or "=" not in part or not pairs[0][1]:
            raise InputError(f"{part!r} in {text!r}: write it as name=value")
        name, value = pairs[0]
        if name in parameters:
            raise InputError(f"parameter {name!r} stands twice in {text!r}: keep one")
        parameters[name] = value
    return Spec(target, parameters)


def require_known(spec: Spec, known: Iterable[str]) -> None:
    """Refuse parameters that would otherwise be ignored, and values that cannot be meant."""
    known = list(known)
    for name in spec.parameters:
        if name not in known:
            raise InputError(
                f"unknown parameter {name!r} for {spec.target!r}{suggestion(name, known)}: "
                f"it can have {', '.join(known)}"
            )
    allowed = {
        "gold_is": [kind for kind in get_args(GoldKind) if kind != "auto"],
        "shuffle": ["yes", "no"],
        "prompt_style": list(get_args(PromptStyle)),
        "answer_kind": list(get_args(AnswerKind)),
    }
    for name, values in allowed.items():
        value = spec.parameters.get(name, values[0])
        if value not in values:
            raise InputError(f"parameter {name}={value}: choose one of {', '.join(values)}")
    held_out = spec.parameters.get("held_out", "0")
    if not (held_out.isascii() and held_out.isdecimal()):
        raise InputError(f"parameter held_out={held_out}: give a number of questions")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for names that look alike, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def slug(text: str, fallback: str = "benchmark") -> str:
    """Return text as a lower-case name that is safe as a folder name.

    Examples
    --------
    >>> slug("My Quiz (v2)")
    'my_quiz_v2'
    """
    return re.sub(r"[^\w-]+", "_", text.casefold())[:80].strip("_-") or fallback


def choose_columns(names: Sequence[str], spec: Spec) -> Columns:
    """Decide which column is what, from the parameters and then from the names.

    Parameters
    ----------
    names : sequence of str
        Names of the columns. Capitals do not matter when a name is guessed.
    spec : Spec
        A parameter such as ``question=prompt`` takes the column ``prompt``, or fills a template
        such as ``{stem} {detail}``; ``options`` and ``answers`` may name several columns,
        separated by commas.

    Returns
    -------
    Columns
        ``gold_is`` stays ``auto`` unless given. A table with a column of accepted answers and
        none of options holds open-ended questions.

    Raises
    ------
    InputError
        If the question, the options or the gold column cannot be found, or two columns could be
        meant.
    """
    given = {name: spec.parameters[name] for name in COLUMN_PARAMETERS if name in spec.parameters}
    folded = {name.strip().casefold(): name for name in names}
    chosen: dict[str, Any] = {"gold_is": "auto", **given}
    for role in ("question", "gold", "id", "subject", "passage", "group"):
        if role not in given:
            column = _by_alias(role, folded, spec.target)
            if column is not None:
                chosen[role] = column
    for role in ("options", "answers"):
        if role in given:
            chosen[role] = tuple(part.strip() for part in given[role].split(","))
    if "options" not in given and "answers" not in given:
        chosen["options"] = _option_columns(folded, spec.target)
        accepted = None if chosen["options"] else _by_alias("answers", folded, spec.target)
        chosen |= {"answers": (accepted,)} if accepted else {}
    chosen["shuffle"] = given.get("shuffle") == "yes"
    named = [*chosen.get("options", ()), *chosen.get("answers", ()), *_named(given)]
    _require_columns(named, names, spec.target)
    if chosen.get("answers"):
        _refuse_with_answers(given, spec.target)
    for role in ("question",) if chosen.get("answers") else ("question", "options", "gold"):
        if not chosen.get(role) and not (role == "gold" and chosen["gold_is"] == "first"):
            raise InputError(_missing(role, names, spec.target))
    return Columns(**chosen)


def _refuse_with_answers(given: dict[str, str], target: str) -> None:
    """Refuse parameters that only questions with options have."""
    for name in ("options", "gold", "gold_is", "labels", "shuffle"):
        if name in given:
            raise InputError(
                f"{target}: {name}={given[name]} goes with options, answers with open-ended "
                "questions: leave one of them out"
            )


def _named(given: dict[str, str]) -> list[str]:
    """Return the columns that the parameters name, those inside templates too."""
    roles = ("question", "gold", "labels", "id", "subject", "passage", "group")
    return [name for role in roles if role in given for name in _fields(given[role])]


def _fields(column: str) -> list[str]:
    """Return the columns a template uses, or the column itself."""
    if "{" not in column:
        return [column]
    try:
        return [part[1] for part in string.Formatter().parse(column) if part[1]]
    except ValueError as error:
        raise InputError(f"template {column!r}: {error}: write it like {{stem}} {{end}}") from None


def _require_columns(wanted: Iterable[str], names: Sequence[str], target: str) -> None:
    """Refuse columns that no row has."""
    for name in wanted:
        if name not in names and name.split(".")[0] not in names and name != "_row":
            raise InputError(
                f"{target}: has no column {name!r}{suggestion(name, names)}: "
                f"it has {', '.join(names)}"
            )


def _by_alias(role: str, folded: dict[str, str], target: str) -> str | None:
    """Return the one column whose name fits the role; the first alias beats the others."""
    found = [folded[alias] for alias in ALIASES[role] if alias in folded]
    if len(found) > 1 and ALIASES[role][0] not in folded:
        raise InputError(
            f"{target}: both {found[0]!r} and {found[1]!r} could be the {role} column: "
            f"rename one to {role!r}, or add ?{role}={found[0]}"
        )
    return found[0] if found else None


def _option_columns(folded: dict[str, str], target: str) -> tuple[str, ...]:
    """Return the column that holds the options, or the longest series that holds one each."""
    single = _by_alias("options", folded, target)
    if single is not None:
        return (single,)
    for series in _SERIES:
        present = [name in folded for name in series]
        length = present.index(False) if False in present else len(series)
        if length >= 2:
            return tuple(folded[name] for name in series[:length])
    return ()


def _missing(role: str, names: Sequence[str], target: str) -> str:
    looked = " or ".join(ALIASES[role])
    if role == "options":
        looked += ", or option_a, option_b … or option_0, option_1 … or A, B, C …, or answers"
    found = ", ".join(names) or "none"
    if len(names) == 1 and (sign := next((s for s in ";\t|" if s in names[0]), "")):
        return (
            f"{target}: has one column only, {names[0]!r}: its cells are separated by {sign!r}; "
            "write commas, or tabs in a file that ends in .tsv"
        )
    return (
        f"{target}: has no column for the {role} (looked for {looked}; found {found}): "
        f"rename one, or add ?{role}=COLUMN"
    )
