"""Score the two benchmarks with known domains and keep what the chapter on validation needs.

Run it with ``make recorded``, or alone. With ``--refresh`` only the tables are made anew, from the
recorded answers and divergences. With ``--work FOLDER`` scores are kept there, so that a run that
was stopped goes on. Questions of others are not kept: ids, numbers and divergences only.

Tables: ``similarities.csv`` and ``numbers.csv`` (what each similarity knows of groups and domains),
``composed.csv`` (HARMONY of parts of both benchmarks, true and estimated), ``simulated.csv`` (the
same for simulated benchmarks, summed up by number of items and separation).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial.distance import squareform

from harmony_utils import redundantqa
from harmony_utils.embedding import cosine_distance, embed_texts
from harmony_utils.files import write_array, write_atomically, write_json
from harmony_utils.items import Benchmark
from harmony_utils.naming import item_texts
from harmony_utils.predictions import Predictions
from harmony_utils.runs import recorded_folder, versions
from harmony_utils.settings import PredictionsSettings
from harmony_utils.similarity import jeffreys_divergence
from harmony_utils.sources import load_benchmark
from harmony_utils.validation import (
    compose_variants,
    composed_table,
    judge_similarity,
    known_benchmark,
    model_lineup,
    recovery,
    simulate_benchmark,
    simulated_table,
    text_lineup,
)
from harmony_utils.validation.lineup import MODELS as WHOLE
from harmony_utils.validation.lineup import VARIANTS

#: Weaker models for RedundantQA; on MMLU even the whole ones are near chance.
EXITS = ("smollm2-135m#layer=10", "smollm2-135m#layer=20")
SUBJECTS = (
    "high_school_biology",
    "high_school_macroeconomics",
    "high_school_psychology",
    "high_school_mathematics",
)
A_SUBJECT = 200
N_VARIANTS = 80
SEPARATIONS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
N_SIMULATED = {300: 100, 1500: 40}


def known_benchmarks() -> dict[str, Benchmark]:
    """Return the benchmarks whose domains are known."""
    mmlu = load_benchmark("mmlu:" + ",".join(SUBJECTS)).sample_subjects(A_SUBJECT)
    return {"redundantqa": load_benchmark("redundantqa"), "mmlu_4": mmlu}


def score_one(benchmark: Benchmark, model: str, variant: str, folder: Path) -> Predictions:
    """Score a benchmark once; keep its answers and, in half precision, its divergences."""
    from harmony_utils.scoring import load_model, score

    answers = folder / "predictions.parquet"
    if not answers.exists():
        scores = score(
            load_model(model), benchmark, PredictionsSettings(variant=variant), folder=folder
        )
        divergence = jeffreys_divergence(scores.distributions)
        write_array(folder / "divergence.npy", squareform(divergence, checks=False).astype("f2"))
        scores.predictions.save(answers)
        (folder / "distributions.npy").unlink()
        print(folder, scores.predictions.correct.mean(), flush=True)
    return Predictions.load(answers)


def record(name: str, benchmark: Benchmark, work: Path) -> None:
    """Keep correctness of every model and what the whole models make of every question."""
    folder = recorded_folder() / "validation" / name
    folder.mkdir(parents=True, exist_ok=True)
    columns: dict[str, list] = {
        "id": [item.id for item in benchmark.items],
        "key": benchmark.keys(),
        "domain": benchmark.subjects,
    }
    for model in (*WHOLE, *(EXITS if name == "redundantqa" else ())):
        for variant in VARIANTS if model in WHOLE else ("gold-mean",):
            place = work / name / variant / model.replace("#", "-")
            answers = score_one(benchmark, model, variant, place)
            if model in WHOLE:
                kept = folder / f"{model}-{variant}.npy"
                write_array(kept, np.load(place / "divergence.npy"))
                columns[f"loglik {model}"] = [list(row) for row in answers.table["loglik"]]
        columns[f"correct {model}"] = answers.correct.astype(np.int8).tolist()
    table = pd.DataFrame(columns)
    write_atomically(folder / "answers.parquet", lambda p: table.to_parquet(p, index=False))


def tabulate(benchmarks: dict[str, Benchmark]) -> dict[str, pd.DataFrame]:
    """Set similarities side by side and follow HARMONY over composed variants."""
    rows, numbers, composed = [], [], []
    for name, benchmark in benchmarks.items():
        known = known_benchmark(name)
        options = {}
        if name == "redundantqa":
            table = redundantqa.groups(benchmark)
            options = {"groups": table["group"].tolist(), "roles": table["role"].tolist()}
        lineup = model_lineup(known, [item.gold for item in benchmark.items])
        lineup |= {(text, ""): affinity for text, affinity in text_lineup(benchmark).items()}
        for (similarity, model), affinity in lineup.items():
            about = {"benchmark": name, "similarity": similarity, "model": model}
            row, ladder = judge_similarity(affinity, known.domains, **options)
            rows.append({**about, **row})
            numbers.append(ladder.assign(**about))
            print(*about.values(), {k: round(v, 3) for k, v in row.items()}, flush=True)
        vectors = embed_texts(item_texts(benchmark.items))
        divergences = {("MiniLM of question and answer", ""): cosine_distance(vectors)}
        for model in WHOLE:
            divergences["answer distribution", model] = known.divergence(model)
        answers = np.array([known.correct(model) for model in known.models])
        for (similarity, model), divergence in divergences.items():
            for kind, given in (("drawn", None), ("answered", answers)):
                variants = compose_variants(known.domains, given, n_variants=N_VARIANTS)
                about = {"benchmark": name, "similarity": similarity, "model": model, "kind": kind}
                table = composed_table(divergence, known.domains, variants)
                composed.append(table.assign(**about))
                print(*about.values(), recovery(table["truth"], table["known number"]), flush=True)
    return {
        "similarities": pd.DataFrame(rows),
        "numbers": pd.concat(numbers),
        "composed": pd.concat(composed),
    }


def simulate() -> pd.DataFrame:
    """Follow HARMONY over simulated benchmarks, by number of items and separation."""
    rows = []
    for n_items, n_benchmarks in N_SIMULATED.items():
        for separation in SEPARATIONS:
            made = (
                simulate_benchmark(
                    n_items=n_items, separation=separation, n_outcomes=100, random_state=seed
                )
                for seed in range(n_benchmarks)
            )
            table = simulated_table(made, max_clusters=6)
            ends = {
                estimate: recovery(table["truth"], table[estimate])
                for estimate in ("known number", "chosen number", "corrected", "true domains")
            }
            found = ends["known number"]
            rows.append(
                {
                    "n_items": n_items,
                    "separation": separation,
                    "n_benchmarks": n_benchmarks,
                    "ami": table["ami"].mean(),
                    "right_number": (table["n_clusters"] == 4).mean(),
                    "r": found["r"],
                    "low": found["low"],
                    "high": found["high"],
                    "slope": found["slope"],
                    "bias": found["bias"],
                    "r_chosen": ends["chosen number"]["r"],
                    "r_corrected": ends["corrected"]["r"],
                    "bias_corrected": ends["corrected"]["bias"],
                    "r_ceiling": ends["true domains"]["r"],
                }
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def write_table(name: str, table: pd.DataFrame) -> None:
    """Write one table of numbers."""
    path = recorded_folder() / "validation" / f"{name}.csv"
    text = table.round(4).to_csv(index=False)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def main() -> None:
    """Record everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refresh", action="store_true", help="only make the tables anew")
    parser.add_argument("--work", type=Path, help="folder that keeps the scores")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harmony-") as scratch:
        for name, benchmark in known_benchmarks().items():
            if not arguments.refresh:
                record(name, benchmark, arguments.work or Path(scratch))
    tables = tabulate(known_benchmarks()) | {"simulated": simulate()}
    for name, table in tables.items():
        write_table(name, table)
    about = {"subjects": SUBJECTS, "a_subject": A_SUBJECT, "versions": versions()}
    write_json(recorded_folder() / "validation" / "about.json", about)


if __name__ == "__main__":
    main()
