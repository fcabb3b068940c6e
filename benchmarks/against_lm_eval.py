"""Compare scoring with lm-evaluation-harness: same numbers, and how long each takes.

Both score the same questions with the same prompt and the same loaded model, in one process, in
turn. Needs the extras ``lm-eval`` and ``gpu`` (for ``accelerate``). The comparison over all
questions is kept in ``results/recorded/lm_eval_arc_easy.json`` (ids and numbers),
where a test reads it.

    python benchmarks/against_lm_eval.py --timed 64 --repeats 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from harmony_utils.files import write_json
from harmony_utils.items import Benchmark
from harmony_utils.runs import recorded_folder, versions
from harmony_utils.scoring import LanguageModel, Scores, load_model, score
from harmony_utils.settings import PredictionsSettings
from harmony_utils.sources import load_benchmark

MODEL, BENCHMARK = "smollm2-135m", "arc_easy"
TASK = """\
task: same_questions
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {file}}}}}
output_type: multiple_choice
validation_split: validation
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: gold
doc_to_choice: options
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


def ours(model: LanguageModel, benchmark: Benchmark, **options) -> Scores:
    """Score with this package."""
    return score(model, benchmark, PredictionsSettings(**options))


def theirs(model: LanguageModel, benchmark: Benchmark) -> dict:
    """Score with the harness, through a task file of the same questions."""
    with tempfile.TemporaryDirectory() as folder:
        items = Path(folder) / "items.jsonl"
        rows = [
            {"question": i.question, "options": i.options, "gold": i.gold} for i in benchmark.items
        ]
        items.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        (Path(folder) / "task.yaml").write_text(TASK.format(file=items), encoding="utf-8")
        return simple_evaluate(
            HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=32),
            tasks=["same_questions"],
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            log_samples=True,
            bootstrap_iters=0,
        )


def seconds(function, *arguments, **options) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def timings(model: LanguageModel, benchmark: Benchmark, repeats: int) -> dict[str, float]:
    """Run the three ways in turn; return the median ratio to ours."""
    ratios: dict[str, list[float]] = {"lm_eval": [], "without_prefix_sharing": []}
    ours(model, benchmark.sample(4))
    for _ in range(repeats):
        base = seconds(ours, model, benchmark)
        ratios["lm_eval"].append(seconds(theirs, model, benchmark) / base)
        whole = seconds(ours, model, benchmark, share_prefix=False)
        ratios["without_prefix_sharing"].append(whole / base)
    return {name: round(statistics.median(values), 2) for name, values in ratios.items()}


def agreement(model: LanguageModel, benchmark: Benchmark) -> dict:
    """Score all questions both ways; return the harness's numbers and the differences."""
    result = theirs(model, benchmark)
    samples = sorted(result["samples"]["same_questions"], key=lambda s: s["doc_id"])
    loglik = [[float(r[0]) for r in s["filtered_resps"]] for s in samples]
    predictions = ours(model, benchmark).predictions
    pairs = zip(loglik, predictions.table["loglik"], strict=True)
    scores = result["results"]["same_questions"]
    return {
        "n_items": len(samples),
        "largest_difference": max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs),
        "accuracy": {"lm_eval": scores["acc,none"], "ours": predictions.accuracy("sum")},
        "accuracy_norm": {"lm_eval": scores["acc_norm,none"], "ours": predictions.accuracy("char")},
        "native_id": [item.id for item in benchmark.items],
        "loglik": [[round(value, 5) for value in row] for row in loglik],
    }


def main() -> None:
    """Print the ratios and differences; keep the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timed", type=int, default=64, help="questions in the timed part")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    model, benchmark = load_model(MODEL, device="cpu"), load_benchmark(BENCHMARK)
    about = {
        "model": MODEL,
        "benchmark": BENCHMARK,
        "command": "python benchmarks/against_lm_eval.py",
        "versions": {**versions(), "lm_eval": metadata.version("lm_eval")},
        "threads": torch.get_num_threads(),
        "time_relative_to_ours": timings(
            model, benchmark.sample(arguments.timed), arguments.repeats
        ),
        **agreement(model, benchmark),
    }
    write_json(recorded_folder() / "lm_eval_arc_easy.json", about)
    shown = {name: value for name, value in about.items() if name not in ("loglik", "native_id")}
    print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()
