"""Values as logs write them, and what names of tasks say."""

from __future__ import annotations

import math
import re
from typing import Any

_TRUE = {"true", "yes", "t", "y", "correct", "right", "c"}
_FALSE = {"false", "no", "f", "n", "incorrect", "wrong", "i"}

#: Benchmarks that tools split into one task for each subject.
_GROUPS = (
    "mmlu_pro",
    "mmlu_redux",
    "mmlu",
    "cmmlu",
    "ceval",
    "bbh",
    "agieval",
    "arabicmmlu",
    "global_mmlu",
    "hendrycksTest",
    "legalbench",
    "gpqa",
    "musr",
    "blimp",
)

#: What tools put in front of a benchmark's name.
_AUTHORS = ("lukaemon_", "opencompass_", "harness_", "leaderboard_")


def number(value: Any) -> float | None:
    """Return a number that may be written as text or a truth value, None if there is none.

    Examples
    --------
    >>> number("0.5"), number(True), number("nan"), number(None), number("B")
    (0.5, 1.0, None, None, None)
    """
    if isinstance(value, str):
        low = value.strip().lower()
        if low in ("true", "false"):
            return float(low == "true")
        try:
            value = float(low)
        except ValueError:
            return None
    if isinstance(value, (bool, int, float)) and not math.isnan(value):
        return float(value)
    return None


def log_value(value: Any) -> float:
    """Return a log-likelihood, NaN where there is none; infinities are kept.

    Examples
    --------
    >>> log_value("-1.5"), log_value("-inf"), log_value(None)
    (-1.5, -inf, nan)
    """
    found = number(value)
    return math.nan if found is None else found


def share(value: Any) -> float | None:
    """Return correctness between 0 and 1, also if written in words; None where a cell is empty.

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> share("yes"), share("0"), share(0.5), share("")
    (1.0, 0.0, 0.5, None)
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        low = value.strip().lower()
        if low in ("", "na", "n/a", "nan", "null", "none", "-"):
            return None
        if low in _TRUE or low in _FALSE:
            return float(low in _TRUE)
    found = number(value)
    if found is None or not 0 <= found <= 1:
        raise ValueError(f"{value!r} is not 0, 1, a share between them, or true or false")
    return found


def plain_text(content: Any) -> str:
    """Return the text of a message's content: a string or a list of parts.

    Examples
    --------
    >>> plain_text([{"type": "text", "text": "a"}, {"type": "image"}, "b"])
    'a\\nb'
    """
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return plain_text(content.get("text") or content.get("content") or "")
    if isinstance(content, list):
        return "\n".join(text for part in content if (text := plain_text(part)))
    return ""


def last_user_message(messages: Any) -> str:
    """Return the text of the last message of a user, ``""`` if there is none."""
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role", message.get("type")) in (
            "user",
            "human",
            "HUMAN",
        ):
            return plain_text(message.get("content", message.get("prompt", "")))
    return ""


def benchmark_and_subject(task: str) -> tuple[str, str | None]:
    """Split the name of a task into its benchmark and subject.

    Examples
    --------
    >>> benchmark_and_subject("lukaemon_mmlu_college_biology")
    ('mmlu', 'college_biology')
    >>> benchmark_and_subject("arc_easy")
    ('arc_easy', None)
    """
    name = task
    for author in _AUTHORS:
        name = name.removeprefix(author)
    for group in _GROUPS:
        found = re.match(rf"{group}[_\-:](.+)", name)
        if found:
            return group, found[1]
    return name, None


def subject_of(document: Any) -> str | None:
    """Return what a row calls its subject, None if no usual name holds one."""
    for name in ("subject", "category", "subdomain", "topic", "subset_name", "subset"):
        if isinstance(document, dict) and isinstance(document.get(name), str) and document[name]:
            return document[name]
    return None
