"""Record what filling gaps achieves: with simulated models of known truth, and with real ones.

    python results/record_filling.py simulated     # half an hour
    python results/record_filling.py arc_easy      # asks seven small models new questions
    python results/record_filling.py redundantqa   # asks two

No question is written, only ids, numbers and answers by content. The same code makes the same
questions again, so that recorded answers replay a whole trial without a model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import numpy as np

from harmony_utils.files import read_json, write_json
from harmony_utils.filling import AskingPanel, Budget, TextSpace, Trial, gate_table
from harmony_utils.filling.experiments import (
    LANGUAGE_MODELS,
    RULES,
    answers_file,
    fill_real,
    rule_answers,
    simulate_filling,
)
from harmony_utils.items import Benchmark, Item
from harmony_utils.respondents import PREFIX
from harmony_utils.runs import recorded_folder
from harmony_utils.sources import load_benchmark

N_MODELS = (12, 40, 100)
SEEDS = range(3)
N_ITEMS = 240
BUDGET = Budget(proposals=45, measured=15, rounds=3, max_measured=120, patience=2)


def asking_panel(name: str) -> AskingPanel:
    """Return the language models and rules of a real panel, whose answers are kept."""
    respondents = {model: partial(_score, model) for model in LANGUAGE_MODELS[name]}
    for number, rule in enumerate(RULES):
        respondents[PREFIX + rule] = lambda items, number=number: rule_answers(items)[number]
    return AskingPanel(respondents, path=answers_file(name))


def _score(model: str, items: Sequence[Item]) -> np.ndarray:
    from harmony_utils.scoring import load_model, score

    benchmark = Benchmark("candidates", tuple(items))
    correct = score(load_model(model, device="cpu"), benchmark).predictions.correct
    print(f"  {model}: {np.mean(correct):.2f} of {len(items)} right", flush=True)
    return correct


def record_real(name: str) -> None:
    """Fill a gap of a benchmark with the panel that answered it."""
    trial = fill_real(name, asking_panel(name), TextSpace("minilm"))
    _write(name, {**trial.summary(), "gates": _gates(trial)})


def record_simulated() -> None:
    """Fill a hole of known place, with and without aim, with panels of three sizes."""
    benchmark = load_benchmark("redundantqa").sample(N_ITEMS)
    texts = TextSpace("hashed")  # the simulated truth depends on the same similarities
    path = recorded_folder() / "filling" / "simulated.json"
    about = {"n_items": N_ITEMS, "budget": asdict(BUDGET)}
    rows = []
    if path.exists() and about.items() <= (old := read_json(path)).items():
        rows = old["trials"]  # whole seeds that an earlier recording finished
    for seed in sorted(set(SEEDS) - {row["seed"] for row in rows}):
        for n_models in N_MODELS:
            for aimed in (True, False):
                trial = simulate_filling(
                    benchmark, texts, n_models=n_models, aimed=aimed, budget=BUDGET,
                    random_state=seed,
                )  # fmt: skip
                row = {"seed": seed, "aimed": aimed, **trial.summary(), "gates": _gates(trial)}
                rows.append(row)
                print(seed, n_models, aimed, row["aim_true"], row["stopped"], flush=True)
        _write("simulated", {**about, "trials": rows})


def _gates(trial: Trial) -> list[dict]:
    return gate_table(trial.filling).to_dict("records")


def _write(name: str, data: dict) -> None:
    folder = recorded_folder() / "filling"
    folder.mkdir(exist_ok=True)
    write_json(folder / f"{name}.json", data)


def main() -> None:
    """Record what is named, all if nothing is."""
    for name in sys.argv[1:] or ["simulated", *LANGUAGE_MODELS]:
        record_simulated() if name == "simulated" else record_real(name)


if __name__ == "__main__":
    main()
