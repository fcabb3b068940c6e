"""Tasks of lm-evaluation-harness: its prompts and its numbers, and what is refused in one line."""

from __future__ import annotations

import json
import random
import socket
import time

import numpy as np
import pytest

from harmony_utils import hub
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, Prompt
from harmony_utils.scoring import load_model, score
from harmony_utils.settings import PredictionsSettings
from harmony_utils.sources import lm_eval as source
from harmony_utils.sources import load_benchmark
from harmony_utils.sources.load import benchmark_name

WORDS = "sun moon star river iron gold plant animal king queen light water sugar sand".split()


def write_rows(path, n_items, *, seed):
    """Write made-up questions with options of unlike length; the last options share letters."""
    rng = random.Random(seed)
    rows = []
    for number in range(n_items):
        options = [" ".join(rng.sample(WORDS, rng.randint(1, 3))) for _ in range(rng.randint(2, 4))]
        rows.append(
            {
                "question": f"Which of {', '.join(rng.sample(WORDS, 3))} comes {number}th?",
                "options": options,
                "gold": rng.randrange(len(options)),
                "field": rng.choice(["first", "second"]),
            }
        )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_task(folder, name="made_up", **settings):
    """Write a task file on made-up questions; settings replace or add lines."""
    folder.mkdir(exist_ok=True, parents=True)
    if not (folder / "items.jsonl").exists():
        write_rows(folder / "items.jsonl", 12, seed=0)
        write_rows(folder / "shots.jsonl", 6, seed=1)
    data = {"validation": str(folder / "items.jsonl"), "train": str(folder / "shots.jsonl")}
    config = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": data},
        "output_type": "multiple_choice",
        "training_split": "train",
        "validation_split": "validation",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "gold",
        "doc_to_choice": "options",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        **settings,
    }
    lines = [  # JSON is YAML; what begins with a tag is written as it stands
        f"{key}: {value if str(value).startswith('!') else json.dumps(value)}"
        for key, value in config.items()
        if value is not None
    ]
    path = folder / f"{name}.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path



@pytest.fixture(scope="module")
def model(tiny_model):
    return load_model(str(tiny_model), device="cpu")


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Write tasks below a folder of this test, with a cache of its own."""
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("lm_eval", reason="the optional extra lm-eval is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return lambda name="made_up", **settings: write_task(tmp_path / "tasks", name, **settings)


def harness_run(model, path, **options):
    """Run the harness itself: its samples in order, and its two accuracies."""
    evaluator = pytest.importorskip("lm_eval.evaluator")
    huggingface = pytest.importorskip(
        "lm_eval.models.huggingface", exc_type=ImportError, reason="needs lm_eval[hf]"
    )
    from lm_eval.tasks import TaskManager

    found = evaluator.simple_evaluate(
        huggingface.HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=4),
        tasks=[str(path)],
        task_manager=TaskManager(include_path=str(path.parent), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        **options,
    )
    ((name, samples),) = found["samples"].items()
    return sorted(samples, key=lambda row: row["doc_id"]), found["results"][name]


TASKS = {
    "zero-shot": ({}, 0),
    "two shots": ({"description": "Answer these.\n\n"}, 2),
    "letters": (
        {
            "doc_to_text": "{{question}}\nA. {{options[0]}}\nB. {{options[1]}}\nAnswer:",
            "doc_to_choice": ["A", "B"],
            "doc_to_target": "{{gold % 2}}",
        },
        3,
    ),
    "blanks at the end of the context": (
        {"doc_to_text": "Q: {{question}}\nA: \n ", "target_delimiter": " "},
        0,
    ),
    "opening of the answer": ({"gen_prefix": "It is"}, 1),
    "options in the context": (
        {
            "doc_to_text": "{{gold}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": "shines before the {{field}} {{question}}",
        },
        0,
    ),
    "options in the context, two shots": (
        {
            "doc_to_text": "{{gold}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": "shines before the {{field}}",
        },
        2,
    ),
}


@pytest.mark.parametrize("case", TASKS)
def test_numbers_are_those_of_the_harness(case, task, model):
    settings, shots = TASKS[case]
    path = task(**settings)
    samples, results = harness_run(model, path, num_fewshot=shots)
    benchmark = load_benchmark(f"lm-eval:{path}?num_fewshot={shots}")
    predictions = score(model, benchmark).predictions
    assert predictions.table["native_id"].tolist() == [str(s["doc_id"]) for s in samples]
    for sample, ours in zip(samples, predictions.table["loglik"], strict=True):
        theirs = [float(answer[0]) for answer in sample["filtered_resps"]]
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert predictions.accuracy("sum") == pytest.approx(results["acc,none"], abs=1e-12)
    assert predictions.accuracy("char") == pytest.approx(results["acc_norm,none"], abs=1e-12)
