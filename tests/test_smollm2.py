"""The embedded model on real questions: recorded numbers, the harness's numbers, live numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from harmony_utils.files import read_json
from harmony_utils.framing import framing_settings
from harmony_utils.items import Benchmark
from harmony_utils.predictions import Predictions
from harmony_utils.runs import Run, recorded_folder
from harmony_utils.scoring import build_prompt, load_model, score
from harmony_utils.scoring.answers import judge
from harmony_utils.scoring.generation import Greedy
from harmony_utils.settings import GenerationSettings, PredictionsSettings
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import open_audit


@pytest.fixture(scope="module")
def recorded() -> Predictions:
    run = Run(recorded_folder() / "arc_easy" / "smollm2-135m")
    return Predictions.load(run.path("predictions.parquet"))


def test_recorded_results_belong_to_these_questions(recorded, tmp_path):
    assert recorded.table["key"].tolist() == load_benchmark("arc_easy").keys()
    audit = open_audit(model="smollm2-135m", benchmark="arc_easy", run_dir=str(tmp_path))
    audit.rebalancing()
    steps = audit.run.record["steps"]
    assert {step["origin"] for step in steps.values()} == {"recorded"}


def test_accuracy_is_about_half(recorded):
    assert recorded.accuracy("sum") == pytest.approx(0.52, abs=0.01)
    assert recorded.accuracy("char") == pytest.approx(0.43, abs=0.01)


def test_numbers_are_those_of_lm_evaluation_harness(recorded):
    theirs = read_json(recorded_folder() / "lm_eval_arc_easy.json")
    assert theirs["native_id"] == recorded.table["native_id"].tolist()
    for a, b in zip(theirs["loglik"], recorded.table["loglik"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    assert theirs["accuracy"]["lm_eval"] == pytest.approx(recorded.accuracy("sum"), abs=1e-6)
    assert theirs["accuracy_norm"]["lm_eval"] == pytest.approx(recorded.accuracy("char"), abs=1e-6)


def test_a_random_sample_scored_now_gives_the_recorded_numbers(recorded):
    benchmark = load_benchmark("arc_easy")
    chosen = np.random.default_rng(7).choice(len(benchmark), 8, replace=False)
    some = Benchmark("some", tuple(benchmark.items[i] for i in chosen))
    live = score(load_model("smollm2-135m", device="cpu"), some).predictions
    for place, loglik in zip(chosen, live.table["loglik"], strict=True):
        np.testing.assert_allclose(loglik, recorded.table["loglik"].iloc[place], atol=1e-3)


def test_a_list_shown_now_gives_the_recorded_numbers():
    """Three questions with their options shuffled, as recorded for the chapter on framing."""
    model, questions = (
        load_model("smollm2-135m", device="cpu"),
        load_benchmark("arc_easy", limit=200),
    )
    run = Run(recorded_folder() / "framing" / "letter-shuffled" / "arc_easy--200" / "smollm2-135m")
    recorded = Predictions.load(run.path("predictions.parquet")).table
    few = replace(questions, items=questions.items[5:8])
    settings = PredictionsSettings(**framing_settings("letter-shuffled"))
    now = score(model, few, settings).predictions.table
    assert now["key"].tolist() == recorded["key"][5:8].tolist()
    for mine, theirs in zip(now["loglik"], recorded["loglik"][5:8], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3)


@pytest.fixture(scope="module")
def trivia() -> Benchmark:
    return load_benchmark("triviaqa", limit=100)


@pytest.mark.parametrize("name", ["triviaqa", "nq_open"])
@pytest.mark.parametrize("model", ["smollm2-135m", "gemma3-270m"])
def test_recorded_answers_belong_to_these_questions(model, name, tmp_path):
    audit = open_audit(model=model, benchmark=name, limit=100, run_dir=str(tmp_path))
    audit.harmony()
    assert {step["origin"] for step in audit.run.record["steps"].values()} == {"recorded"}
    written = audit.predictions()
    assert written.table["key"].tolist() == audit.benchmark.keys()
    judged = [
        judge(text, item.answers)
        for text, item in zip(written.table["generated"], audit.benchmark.items, strict=True)
    ]
    assert [one.correct for one in judged] == written.correct.astype(bool).tolist()
    np.testing.assert_allclose([one.f1 for one in judged], written.table["f1"])


def test_answers_written_now_are_those_recorded_and_those_of_generate(trivia):
    model, settings = load_model("smollm2-135m", device="cpu"), GenerationSettings()
    run = Run(recorded_folder() / "triviaqa--100" / "smollm2-135m")
    recorded = Predictions.load(run.path("predictions.parquet")).table["generated"]
    places = [place for place in range(40) if len(recorded[place]) < 20][:3]
    prompts = [
        model.tokenizer(build_prompt(trivia, trivia.items[i], settings).prefix)["input_ids"]
        for i in places
    ]
    for place, ids, found in zip(places, prompts, Greedy(model, settings)(prompts), strict=True):
        theirs = model.model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=len(found.ids),
        )
        assert theirs[0, len(ids) :].tolist() == list(found.ids)
        assert found.text == recorded[place]
