"""Record the packaged models asked in several ways, for the chapters on framing and on the card.

Each cell is the predictions of an ordinary audit of a random sample. What is kept are ids and
numbers, and the comparison of them all. A recording that was killed goes on where it stopped.

    python results/record_framing.py                            # all that is missing, then compare
    python results/record_framing.py smollm2-135m letter        # one model, one framing
"""

from __future__ import annotations

import sys
from itertools import product

from harmony_utils.framing import BASELINE, FRAMINGS
from harmony_utils.runs import recorded_folder
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import ask_framings, framing_study

MODELS = ("smollm2-135m", "gemma3-270m", "smollm2-135m#layer=25", "smollm2-135m#layer=20")
BENCHMARK = "arc_easy"
N_ITEMS = 200
"""Questions drawn, the number that chapter 14 asks for."""


def record(models: tuple[str, ...], framings: tuple[str, ...]) -> dict:
    """Ask what is missing and return all answers."""
    return ask_framings(
        models,
        BENCHMARK,
        framings,
        limit=N_ITEMS,
        run_dir=str(recorded_folder()),
        use_recorded=False,
        listen=lambda framing, model: print(model, framing, flush=True),
    )


def main() -> None:
    """Record the model and framings named, or all."""
    if named := sys.argv[1:]:
        for model, framing in product(named[:1], named[1:] or FRAMINGS):
            record((model,), (framing,))
    else:
        items = load_benchmark(BENCHMARK, limit=N_ITEMS).items
        study = framing_study(record(MODELS, tuple(FRAMINGS)), baseline=BASELINE, items=items)
        study.save(recorded_folder() / "framing")


if __name__ == "__main__":
    main()
