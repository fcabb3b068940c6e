"""Make the evaluation logs of chapter 9: lm-evaluation-harness on RedundantQA, two models.

The harness runs a local task file of this project's own questions with the models that are
embedded here; its logs are kept as it writes them, compressed, without what describes the machine.
Needs ``pip install lm_eval==0.4.13`` beside this project, in an environment of its own.

    python results/record_logs.py
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from harmony_utils.files import write_atomically, write_json
from harmony_utils.runs import recorded_folder
from harmony_utils.scoring import load_model
from harmony_utils.sources import load_benchmark

MODELS = ("smollm2-135m", "gemma3-270m")
TASK = """\
task: redundantqa
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: gold
doc_to_choice: options
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
STAMP = "2026-11-29T00-00-00.000000"
#: What the harness says of the machine and the moment.
PRIVATE = ("pretty_env_info", "date", "git_hash", "start_time", "end_time", "upper_git_hash")


def run(model: str, folder: Path) -> Path:
    """Run the harness; return the folder with its files."""
    items = folder / "items.jsonl"
    rows = [
        {
            "id": i.id,
            "question": i.question,
            "options": i.options,
            "gold": i.gold,
            "subject": i.subject,
        }
        for i in load_benchmark("redundantqa").items
    ]
    items.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    (folder / "task.yaml").write_text(TASK.format(file=items), encoding="utf-8")
    loaded = load_model(model, device="cpu")
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    found = simple_evaluate(
        HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=32),
        tasks=["redundantqa"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        evaluation_tracker=tracker,
    )
    samples = found.pop("samples")
    tracker.general_config_tracker.model_name = model
    tracker.general_config_tracker.model_name_sanitized = model
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name="redundantqa", samples=samples["redundantqa"])
    return folder / "out" / model


def keep(made: Path, target: Path) -> None:
    """Copy the logs, samples compressed, results without the machine."""
    (samples,), (results,) = made.glob("samples_*"), made.glob("results_*")
    about = json.loads(results.read_text("utf-8"))
    about = {name: value for name, value in about.items() if name not in PRIVATE}
    about["config"]["model"] = about["model_name"]  # else the place of the weights here
    about["configs"]["redundantqa"].pop("dataset_kwargs", None)
    about["configs"]["redundantqa"].pop("metadata", None)
    write_json(target / f"results_{STAMP}.json", about)
    data = gzip.compress(samples.read_bytes(), mtime=0)
    write_atomically(
        target / f"samples_redundantqa_{STAMP}.jsonl.gz", lambda path: path.write_bytes(data)
    )


def main() -> None:
    """Record the logs of all models, or of those named."""
    for model in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            keep(run(model, Path(folder)), recorded_folder() / "logs" / model)
            print(model, flush=True)


if __name__ == "__main__":
    main()
