"""Open LLM Leaderboard, first version: the two older of its three layouts of details.

The newest is that of lighteval 0.3 and is read there. Rows stand in the leaderboard's own order and
are joined by content, never by position. The second version of the leaderboard logged as
lm-evaluation-harness does.
"""

from __future__ import annotations

from collections.abc import Iterator

from harmony_utils.logs.readers import lighteval
from harmony_utils.logs.rows import LogHeader, LogRow
from harmony_utils.logs.sources import Source

NAME = "open-llm-leaderboard"

_OWN = ("acc", "mc1", "hashes")


def sniff(source: Source) -> str | None:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    names = lighteval.column_names(source)
    if "predictions" not in names or "gold_index" in names or not names & {"gold", "query"}:
        return None
    if any(name.startswith("metrics.") for name in names):
        return "v1, metrics in columns of their own"
    return "v1, early" if names & set(_OWN) else None


def read(source: Source) -> tuple[LogHeader, Iterator[LogRow]]:
    """See :class:`~harmony_utils.logs.rows.Reader`."""
    return lighteval.read_details(source, NAME, sniff(source) or "")
