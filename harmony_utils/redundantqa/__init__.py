"""RedundantQA: the project's own questions, for testing what a measure of similarity sees.

A group is five questions: a *reference*, two *paraphrases* of it (the same question in other words,
same answer, same options) and two *look-alikes* (nearly the words of the reference, but another
question with another answer). A measure that compares words finds the look-alikes close; one that
compares what is asked must find the paraphrases closer.

The questions stand in one file a domain, one question a line: ``group`` (a number), ``role``,
``question`` and ``options`` with the correct one first. A paraphrase has no options of its own, it
takes those of its reference. ``second_pass.csv`` records the check of the answers: what was
answered to every question without sight of the key.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark

if TYPE_CHECKING:
    import pandas as pd

DOMAINS = ("biology", "history", "economics", "pop culture")
ROLES = ("reference", "paraphrase", "lookalike")

_ID = re.compile(rf"(?P<group>.+-\d\d)-(?P<role>{'|'.join(ROLES)})(-\d)?")


def groups(benchmark: Benchmark) -> pd.DataFrame:
    """Return group and role of each item.

    Parameters
    ----------
    benchmark : Benchmark
        ``load_benchmark("redundantqa")``, or some of its items.

    Returns
    -------
    pandas.DataFrame
        One row per item, in item order, with the columns ``id``, ``domain``, ``group`` (unique
        over all domains, such as ``"biology-07"``) and ``role`` (``"reference"``,
        ``"paraphrase"`` or ``"lookalike"``).

    Raises
    ------
    InputError
        If an item does not come from RedundantQA.

    Examples
    --------
    >>> from harmony_utils.sources import load_benchmark
    >>> groups(load_benchmark("redundantqa:biology")).loc[1].tolist()
    ['biology-01-paraphrase-1', 'biology', 'biology-01', 'paraphrase']
    """
    import pandas as pd

    rows = []
    for item in benchmark.items:
        match = _ID.fullmatch(item.id)
        if match is None:
            raise InputError(
                f"benchmark {benchmark.name!r}: item {item.id!r} is not from RedundantQA: "
                "only load_benchmark('redundantqa') has groups"
            )
        rows.append([item.id, item.subject, match["group"], match["role"]])
    return pd.DataFrame(rows, columns=["id", "domain", "group", "role"])


def read_rows() -> list[dict[str, Any]]:
    """Return all questions as they were written, the correct option first.

    Returns
    -------
    list of dict
        Rows with ``id``, ``domain``, ``group``, ``question`` and ``options``, domain by domain and
        group by group: the reference, its paraphrases, its look-alikes.
    """
    return [row for domain in DOMAINS for row in _read_domain(domain)]


def _read_domain(domain: str) -> list[dict[str, Any]]:
    prefix = domain.replace(" ", "_")
    text = (files(__name__) / f"{prefix}.jsonl").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = []
    reference: dict[str, Any] = {}
    for line in map(json.loads, text.splitlines()):
        group = f"{prefix}-{line['group']:02d}"
        if line["role"] == "reference":
            reference, count = line, dict.fromkeys(ROLES, 0)
        count[line["role"]] += 1
        number = "" if line["role"] == "reference" else f"-{count[line['role']]}"
        rows.append(
            {
                "id": f"{group}-{line['role']}{number}",
                "domain": domain,
                "group": group,
                "question": line["question"],
                "options": line.get("options", reference["options"]),
            }
        )
    return rows
