"""One filling with everything it started from, and the figures it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harmony_utils.difficulty.coverage import Gap
from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.mismatch import Target
from harmony_utils.difficulty.responses import Responses
from harmony_utils.filling.loop import fill_gaps
from harmony_utils.filling.outcomes import Filling
from harmony_utils.filling.panels import Panel
from harmony_utils.filling.reader import Reader
from harmony_utils.filling.surgery import OptionSurgery
from harmony_utils.filling.tables import accuracy_of_aim, conclusions
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Benchmark


@dataclass(frozen=True)
class Trial:
    """One filling with everything that it started from.

    Parameters
    ----------
    benchmark, responses, fit, target
        The originals, their answers, their fit, and what is wanted.
    gaps : tuple of Gap or (low, high, n_wanted)
        Gaps that were to be filled, or bands of one's own.
    filling : Filling
        What came of it.
    truth : dict of id to float
        True difficulties of the measured candidates; empty if nobody knows them.
    """

    benchmark: Benchmark
    responses: Responses
    fit: DifficultyFit
    target: Target
    gaps: tuple[Gap | tuple[float, float, int], ...]
    filling: Filling
    truth: dict[str, float]

    @cached_property
    def conclusions(self) -> Any:
        """Table of :func:`~harmony_utils.filling.tables.conclusions`."""
        return conclusions(self.fit, self.responses, self.filling, self.target)

    def summary(self) -> dict[str, Any]:
        """Return the figures that a trial is judged by."""
        before, after = (self.conclusions.iloc[k] for k in (0, 1))
        accepted = [o.measured for o in self.filling.accepted]
        bands = range(len(self.filling.gaps))
        left = max((float(after[f"open_{k}"]) for k in bands), default=0.0)
        found: dict[str, Any] = {
            "n_models": len(self.responses.models),
            "n_originals": len(self.benchmark),
            **_first_gap(self.gaps),
            "wanted": sum(self.filling.wanted),
            "accepted": len(accepted),
            "measured": sum(bool(o.measured) for o in self.filling.outcomes),
            "proposed": len(self.filling.outcomes),
            "median_se": float(np.median([m.difficulty_se for m in accepted]))
            if accepted
            else None,
            "distance_before": float(before["distance"]),
            "distance_after": float(after["distance"]),
            "widest_gap_before": float(before["widest_gap"]),
            "widest_gap_after": float(after["widest_gap"]),
            "open_after": left,
            "stopped": list(self.filling.stopped),
            "aim_measured": accuracy_of_aim(self.filling),
        }
        if self.truth:
            found["aim_true"] = accuracy_of_aim(self.filling, self.truth)
            found["covered"] = self._covered()
        predictor = self.filling.predictor
        found["predictor"] = predictor.to_dict() if predictor else None
        return found

    def _covered(self) -> dict[str, float | None]:
        """Return how often 95 % intervals of candidates hold the truth, None without any."""
        rows = [o for o in self.filling.outcomes if o.measured and o.candidate.id in self.truth]
        inside = [
            abs(self.truth[o.candidate.id] - o.measured.difficulty)
            <= 1.96 * o.measured.difficulty_se
            for o in rows
        ]
        chosen = [hit for hit, o in zip(inside, rows, strict=True) if o.status == "accepted"]
        return {
            "measured": float(np.mean(inside)) if inside else None,
            "accepted": float(np.mean(chosen)) if chosen else None,
        }


def _first_gap(gaps: tuple[Gap | tuple[float, float, int], ...]) -> dict[str, Any]:
    first = gaps[0]
    if isinstance(first, Gap):
        return {"gap": [first.low, first.high], "verdict": first.verdict}
    return {"gap": list(first[:2]), "verdict": "given"}


def fill_by_surgery(
    benchmark: Benchmark,
    responses: Responses,
    fit: DifficultyFit,
    gaps: tuple[Gap | tuple[float, float, int], ...],
    panel: Panel,
    *,
    texts: TextSpace,
    reader: Reader | None = None,
    aimed: bool = True,
    **options: Any,
) -> Filling:
    """Fill gaps with the embedded generator; arguments as of
    :func:`~harmony_utils.filling.loop.fill_gaps`."""
    generator = OptionSurgery(
        benchmark, texts, difficulties=fit.by_item, reader=reader, aimed=aimed
    )
    return fill_gaps(
        benchmark, responses, fit, gaps, panel,
        generator=generator, texts=texts, reader=reader, aimed=aimed, **options,
    )  # fmt: skip
