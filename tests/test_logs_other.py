"""OpenCompass, eval-framework, EvalScope, MMLU-Pro and Every Eval Ever, written by code."""

from __future__ import annotations

import gzip
import json
import math

import pytest
import zstandard

from harmony_utils.errors import InputError
from harmony_utils.logs import read_logs


def flags(log) -> dict[str, str]:
    return {flag.flag: flag.sentence for flag in log.flags}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False))
    return path


def lines(path, rows: list):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def read_one(path):
    (log,) = read_logs([str(path)]).logs
    return log


# OpenCompass -------------------------------------------------------------------------------------


def perplexity(prediction: str, gold, *, number: int = 0) -> dict:
    entry = {"in-context examples": "", "origin_prompt": f"Question {number}"}
    for letter, value in zip("ABCD", (3.1, 2.0, 2.5, 2.7), strict=True):
        entry[f"label: {letter}"] = {
            "testing input": f"Question {number}\nAnswer: ",
            "prompt": f"Question {number}\nAnswer: {letter}",
            "PPL": value,
            "BPB": value / 2,
        }
    return {**entry, "prediction": prediction, "gold": gold}


def test_perplexity_of_a_prompt_is_no_loglikelihood(tmp_path):
    entries = {
        str(i): perplexity(p, g, number=i)
        for i, (p, g) in enumerate([("B", "B"), ("B", "A"), ("B", "B")])
    }
    name = "lukaemon_mmlu_college_biology.json"
    place = write(tmp_path / "predictions" / "Llama3_8b" / name, entries)
    details = {str(i): {"pred": "B", "correct": v} for i, v in enumerate((True, False, True))}
    result = {"accuracy": 66.67, "details": details}
    write(tmp_path / "results" / "Llama3_8b" / name, result)
    log = read_one(place)
    assert (log.header.format, log.header.version) == ("opencompass", "PPL")
    assert (log.header.model, log.header.benchmark, log.header.subject) == (
        "Llama3_8b",
        "mmlu",
        "college_biology",
    )
    assert log.predictions.table["loglik"].isna().all()
    assert log.predictions.correct.tolist() == [1, 0, 1]
    assert log.reading.agreement == {"accuracy": (3, 3)}
    assert log.header.reported == {"accuracy": pytest.approx(0.6667)}
    assert {"prompt-perplexity", "no-distribution"} <= set(flags(log))


def test_shards_are_parts_of_one_benchmark(tmp_path):
    folder = tmp_path / "predictions" / "m"
    for shard, count in enumerate((2, 1)):
        entries = {str(i): perplexity("B", "B", number=10 * shard + i) for i in range(count)}
        write(folder / f"arc_{shard}.json", entries)
    found = read_logs([str(folder)])
    (run,) = found.runs
    assert (run.benchmark, len(run.predictions)) == ("arc", 3)


@pytest.mark.parametrize(
    ("golds", "correct"),
    [
        ([None, 1, 2], [1, 1, 0]),  # 0 is left out
        ([None, "B", "C"], [None, 1, 0]),  # "" is left out
    ],
)
def test_gold_that_was_not_written(tmp_path, golds, correct):
    entries = {}
    for i, (gold, said) in enumerate(zip(golds, ["A", "B.", "(A)"], strict=True)):
        prompt = [{"role": "HUMAN", "prompt": f"Question {i}"}]
        entries[str(i)] = {"origin_prompt": prompt, "prediction": said}
        if gold is not None:
            entries[str(i)]["gold"] = gold
    log = read_one(write(tmp_path / "m" / "arc.json", entries))
    table = log.predictions.table["correct"]
    assert [None if math.isnan(v) else v for v in table] == correct
    assert flags(log)["gold-not-written"].startswith("1 rows")


def test_raw_text_is_not_guessed_at(tmp_path):
    entries = {
        "0": {"origin_prompt": "Q0", "prediction": "B", "gold": "B"},
        "1": {"origin_prompt": "Q1", "prediction": "I think that A is wrong, so B", "gold": "B"},
    }
    log = read_one(write(tmp_path / "m" / "arc.json", entries))
    assert log.predictions.correct[0] == 1
    assert math.isnan(log.predictions.correct[1])
    assert flags(log)["raw-answers"].startswith("1 answers")


def test_conditional_probabilities(tmp_path):
    entries = {
        str(i): {
            "testing input": f"Q{i}",
            "prompt": f"… Q{i}",
            "choices": ["A", "B"],
            "prediction": p,
            "pred_label": label,
            "gold": gold,
        }
        for i, (p, label, gold) in enumerate([([0.25, 0.75], 1, 1), ([0.9, 0.1], 0, 1)])
    }
    log = read_one(write(tmp_path / "m" / "x.json", entries))
    assert log.predictions.table["loglik"].iloc[0] == [math.log(0.25), math.log(0.75)]
    assert log.predictions.correct.tolist() == [1, 0]
    assert log.reading.agreement == {"pred_label": (2, 2)}


def test_opencompass_under_another_name_and_damaged(tmp_path):
    entries = {"0": perplexity("B", "B"), "1": perplexity("A", "B", number=1)}
    packed = tmp_path / "m" / "unnamed"
    packed.parent.mkdir()
    packed.write_bytes(zstandard.compress(json.dumps(entries).encode()))
    assert read_one(packed).predictions.correct.tolist() == [1, 0]
    whole = json.dumps(entries, indent=1)
    (tmp_path / "cut.json").write_text(whole[:-200])
    with pytest.raises(InputError, match=r"cut\.json: "):
        read_logs([str(tmp_path / "cut.json")])
    (tmp_path / "bad.json").write_text(json.dumps({**entries, "2": 5}))
    with pytest.raises(InputError, match="entry '2': not a row of OpenCompass"):
        read_logs([str(tmp_path / "bad.json")])


# eval-framework ----------------------------------------------------------------------------------


def framework_row(number: int, values: dict, truth, *, subject="anatomy", error=None) -> dict:
    return {
        "prompt": f"Question: earlier?\nAnswer: A\n\nQuestion: {subject} {number}?\nAnswer:",
        "prompt_sequence_positions": 30,
        "loglikelihoods": values,
        "loglikelihoods_sequence_positions": {text: len(text.split()) for text in values},
        "concat_compression": 4.0,
        "id": number,
        "subject": subject,
        "ground_truth": truth,
        "error": error,
    }


@pytest.fixture
def framework(tmp_path):
    rows = [
        framework_row(0, {" A": -0.9, " B": -0.5}, " B"),
        framework_row(1, {" long wrong one": -3.0, " so": -2.0}, [" long wrong one", " other"]),
        framework_row(0, {" A": -0.1, " B": -0.5}, " B", subject="virology"),
        framework_row(1, {}, " B", subject="virology", error={"message": "too long"}),
    ]
    scores = [(0, "anatomy", 1, 1), (1, "anatomy", 0, 1), (0, "virology", 0, 0)]
    results = []
    for number, subject, plain, norm in scores:
        for name, value in (
            ("Accuracy Loglikelihood", plain),
            ("Accuracy Normalized Loglikelihood", norm),
            ("Probability Mass", 0.3),
        ):
            results.append(
                {
                    "id": number,
                    "subject": subject,
                    "metric_name": name,
                    "value": float(value),
                    "response": " B",
                    "error": None,
                }
            )
    lines(tmp_path / "results.jsonl", results)
    about = {"llm_name": "Llama31_8B", "num_fewshot": 1, "task_name": "MMLU"}
    write(tmp_path / "metadata.json", about)
    return lines(tmp_path / "output.jsonl", rows)


def test_loglikelihoods_by_text(framework):
    log = read_one(framework)
    assert log.reading.agreement == {
        "Accuracy Loglikelihood": (3, 3),
        "Accuracy Normalized Loglikelihood": (3, 3),
    }
    table = log.predictions.table
    assert table["subject"].tolist() == ["anatomy", "anatomy", "virology", "virology"]
    assert table["native_id"].tolist()[2] == "virology/0"  # ids restart
    assert table["gold"].iloc[1] == [0]
    assert table["tokens"].iloc[1] == [3, 1]
    assert table["loglik"].iloc[3] is None
    assert table["correct"].tolist()[:3] == [1, 0, 0]
    assert math.isnan(table["correct"].iloc[3])
    assert flags(log)["error-rows"].startswith("1 rows")
    assert "gold-outside-range" not in flags(log)
    assert (log.header.model, log.header.settings["few_shot"]) == ("Llama31_8B", 1)


def test_eval_framework_folder_and_packed(framework, tmp_path):
    found = read_logs([str(framework.parent)])
    assert [log.path for log in found.logs] == [str(framework)]
    assert {path.rsplit("/", 1)[1] for path in found.skipped} == {"metadata.json", "results.jsonl"}
    alone = tmp_path / "sub" / "any.name"
    alone.parent.mkdir()
    alone.write_bytes(gzip.compress(framework.read_bytes()))
    log = read_one(alone)
    assert log.predictions.correct.tolist()[:3] == [1, 0, 0]
    assert "no-results-file" in flags(log)


def test_response_of_the_results_file_is_not_the_answer(framework):
    rows = [json.loads(line) for line in framework.read_text().splitlines()]
    rows[0]["loglikelihoods"] = {" A": -0.1, " B": -0.5}  # now wrong, though response is " B"
    log = read_one(lines(framework, rows))
    assert log.reading.agreement["Accuracy Loglikelihood"] == (2, 3)


def test_damaged_eval_framework(framework):
    whole = framework.read_text()
    framework.write_text(whole.replace('"id": 0, "subject": "virology"', '"subject": "virology"'))
    with pytest.raises(InputError, match="row 3: not a row of eval-framework"):
        read_logs([str(framework)])
    framework.write_text(whole.splitlines()[0] + "\n{broken\n")
    with pytest.raises(InputError, match="line 2: not valid JSON"):
        read_logs([str(framework)])


# EvalScope ---------------------------------------------------------------------------------------


def review(number: int, gold: str, pred, result) -> dict:
    return {
        "id": f"chatcmpl-{number}",
        "model": "qwen",
        "choices": [
            {
                "message": {
                    "content": "B. Light energy …",
                    "review": {"gold": gold, "pred": pred, "result": result},
                },
                "logprobs": None,
            }
        ],
        "subset_name": "ARC-Easy",
        "raw_input": {
            "id": f"Mercury_{number}",
            "question": f"Question {number}?",
            "choices": {"text": ["w", "x", "y", "z"], "label": ["A", "B", "C", "D"]},
            "answerKey": gold,
        },
        "origin_prompt": {"data": [f"… Question {number}?"], "multi_choices": list("ABCD")},
        "index": number,
    }


def test_old_reviews(tmp_path):
    rows = [review(0, "C", "C", 1), review(1, "B", "A", 0), review(2, "D", "", 0)]
    rows[1]["origin_prompt"] = "one text"
    log = read_one(lines(tmp_path / "reviews" / "qwen" / "arc_ARC-Easy.jsonl", rows))
    assert (log.header.version, log.header.model) == ("< 1.0", "qwen")
    assert (log.header.benchmark, log.header.subject) == ("arc", "ARC-Easy")
    assert log.predictions.table["native_id"].tolist() == ["Mercury_0", "Mercury_1", "Mercury_2"]
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert log.reading.agreement == {"result": (3, 3)}
    assert flags(log)["unmapped-answer"].startswith("1 answer")
    assert "extracted-answers" in flags(log)


def test_new_reviews(tmp_path):
    def sample(number: int, value, said: str | None, *, target="B") -> dict:
        return {
            "index": number,
            "target": [target],
            "messages": [{"role": "user", "content": [{"type": "text", "text": f"Q{number}"}]}],
            "sample_score": {
                "score": {"value": value, "extracted_prediction": said, "prediction": "…"},
                "sample_id": number,
                "group_id": number,
                "sample_metadata": {"subject": "anatomy"},
            },
        }

    rows = [
        sample(0, {"acc": 1.0}, "B"),
        sample(1, {"acc": 0.0}, "A"),
        sample(2, {"acc": None}, None),  # not usable: left out, not 0
        sample(3, {"acc": 1.0}, "42", target="42.0"),
    ]
    log = read_one(lines(tmp_path / "qwen" / "mmlu_anatomy.json.txt", rows))
    assert log.header.version == ">= 1.0"
    correct = log.predictions.correct
    assert correct[[0, 1, 3]].tolist() == [1, 0, 1]
    assert math.isnan(correct[2])
    assert log.reading.agreement == {"result": (2, 2)}
    assert set(log.predictions.table["subject"]) == {"anatomy"}


def test_damaged_review(tmp_path):
    rows = [review(0, "C", "C", 1), {**review(1, "C", "C", 1), "choices": []}]
    with pytest.raises(InputError, match="row 2: not a row of EvalScope"):
        read_logs([str(lines(tmp_path / "a.jsonl", rows))])


# MMLU-Pro ----------------------------------------------------------------------------------------


def pro(number: int, answer_index: int, pred: str | None) -> dict:
    return {
        "question_id": number,
        "question": f"Question {number}?",
        "options": list("pqrstuvwxy"),
        "answer": "ABCDEFGHIJ"[answer_index],
        "answer_index": answer_index,
        "cot_content": "",
        "category": "business",
        "src": "ori_mmlu-business_ethics",
        "pred": pred,
        "model_outputs": "The answer is …",
    }


def test_mmlu_pro_answers(tmp_path):
    rows = [pro(70, 8, "I"), pro(71, 0, "B"), pro(72, 3, None)]
    place = tmp_path / "eval_results" / "llama" / "CoT" / "all" / "business_result.json"
    log = read_one(write(place, rows))
    assert (log.header.model, log.header.benchmark) == ("llama", "mmlu_pro")
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert log.predictions.table["subject"].tolist() == ["business"] * 3
    assert log.predictions.table["n_options"].tolist() == [10] * 3
    assert {"random-guesses", "unmapped-answer", "not-checked"} <= set(flags(log))
    other = place.with_name("law_result.json")
    write(other, [{**pro(90, 1, "B"), "category": "law"}])
    (run,) = read_logs([str(place.parent)]).runs
    assert run.averages()["macro"] == pytest.approx((1 / 3 + 1) / 2)


def test_mmlu_pro_two_keys_and_damage(tmp_path):
    rows = [{**pro(1, 2, "C"), "answer": "D"}, pro(2, 2, "C")]
    log = read_one(write(tmp_path / "x" / "a.json", rows))
    assert flags(log)["two-keys"].startswith("1 row")
    assert log.predictions.correct.tolist() == [1, 1]
    del rows[1]["options"]
    with pytest.raises(InputError, match="row 2: not a row of the MMLU-Pro script"):
        read_logs([str(write(tmp_path / "x" / "b.json", rows))])


# Every Eval Ever ---------------------------------------------------------------------------------


def test_every_eval_ever(tmp_path):
    def instance(number: int, said: str, right: bool) -> dict:
        return {
            "schema_version": "instance_level_eval_0.2.0",
            "evaluation_id": "mmlu/org/1",
            "model_id": "org/m",
            "evaluation_name": "mmlu_anatomy",
            "sample_id": f"s{number}",
            "sample_hash": "h",
            "interaction_type": "single_turn",
            "input": {"raw": f"Q{number}", "reference": ["blue"], "choices": ["red", "blue"]},
            "output": {"raw": [said]},
            "answer_attribution": [{"turn_idx": 0, "extracted_value": said}],
            "evaluation": {"score": float(right), "is_correct": right},
            "metadata": {},
        }

    rows = [instance(0, "blue", True), instance(1, "red", False), instance(2, "none", False)]
    log = read_one(lines(tmp_path / "x.txt", rows))
    assert (log.header.format, log.header.model) == ("every-eval-ever", "org/m")
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert log.reading.agreement == {"is_correct": (2, 2)}
    rows[1]["evaluation"] = {"score": 3}
    with pytest.raises(InputError, match=r"row 2: .*3\.0 is outside 0\.\.1"):
        read_logs([str(lines(tmp_path / "x.txt", rows))])
