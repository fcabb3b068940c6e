"""More whole folders as the tools leave them: those whose answers were scored or extracted.

The layouts (names, nesting, types, order, files that lie beside) were copied from runs in public
repositories and from the tools' writers; the content is invented.
"""

from __future__ import annotations

import json
import math

import pytest

from harmony_utils.logs import import_logs, read_logs

QUESTIONS = ["Which tool drives nails?", "Which tool cuts wood?", "Which tool turns screws?"]
OPTIONS = ["a hammer", "a saw", "a screwdriver", "a brush"]


def flags(log) -> dict[str, str]:
    return {flag.flag: flag.sentence for flag in log.flags}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False))
    return path


def lines(path, rows: list):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def listed(number: int, mark: str = ". ") -> str:
    shown = "\n".join(f"{c}{mark}{text}" for c, text in zip("ABCD", OPTIONS, strict=True))
    return f"{QUESTIONS[number]}\n\n{shown}"


# OpenCompass -------------------------------------------------------------------------------------


def test_opencompass_sums_over_an_ending(tmp_path):
    entries = {}
    for number, (first, second, gold) in enumerate([(-9.5, -7.25, 2), (-4.0, -4.5, 2)]):
        scores = zip((1, 2), ("cat", "dog"), (first, second), strict=True)
        labels = {
            f"label: {label}": {
                "testing input": f"The {animal} chased number {number} away.",
                "prompt": f"The {animal} chased number {number} away.",
                "Loglikelihood": value,
            }
            for label, animal, value in scores
        }
        chosen = 1 if first > second else 2
        entries[str(number)] = {"in-context examples": "", **labels}
        entries[str(number)] |= {"prediction": chosen, "gold": gold}
    (log,) = import_logs([str(write(tmp_path / "m" / "winogrande.json", entries))]).logs
    assert log.header.version == "LL"
    assert log.predictions.table["loglik"].tolist() == [[-9.5, -7.25], [-4.0, -4.5]]
    assert log.predictions.correct.tolist() == [1, 0]
    assert log.reading.agreement == {"prediction": (2, 2)}
    assert "prompt-perplexity" not in flags(log)


@pytest.mark.parametrize("judged", [False, True])
def test_opencompass_gold_stands_in_the_results_of_early_versions(tmp_path, judged):
    entries, details = {}, {}
    for number, said in enumerate(("A", "C")):
        prompt = [{"role": "HUMAN", "prompt": f"{listed(number)}\nAnswer:"}]
        entries[str(number)] = {"origin_prompt": prompt, "prediction": f"I say {said}."}
        details[str(number)] = {"prompt": prompt, "origin_prediction": f"I say {said}."}
        details[str(number)] |= {"predictions": said, "references": "ABCD"[number]}
        if judged:  # by an evaluator with details of its own
            verdict = {"pred": said, "refr": "ABCD"[number], "is_correct": said == "A"}
            details[str(number)] = {"prompt": prompt, **verdict}
    run = tmp_path / "20240101_000000"
    write(run / "predictions" / "model-hf" / "lukaemon_mmlu_tools.json", entries)
    results = {"accuracy": 50.0, "details": details, "type": "GEN"}
    write(run / "results" / "model-hf" / "lukaemon_mmlu_tools.json", results)
    (log,) = import_logs([str(run / "predictions")]).logs
    assert log.predictions.correct.tolist() == [1, 0]
    assert log.predictions.table["n_options"].tolist() == [4, 4]
    assert not {"gold-not-written", "raw-answers"} & set(flags(log))
    assert log.reading.agreement == ({"accuracy": (2, 2)} if judged else {})
    (again,) = import_logs([str(run)]).logs
    assert again.path == log.path


# OLMES and olmo-eval -----------------------------------------------------------------------------


def test_olmes_rows_of_2024_call_bits_a_byte_logits(tmp_path):
    texts = [f" {c}" for c in "ABCD"]
    rows = []
    for number, sums in enumerate(([-1.0, -2.0, -3.0, -4.0], [-2.0, -3.0, -1.0, -4.0])):
        chosen = sums.index(max(sums))
        output = [
            {
                "sum_logits": value,
                "num_tokens": 1,
                "num_tokens_all": 201,
                "is_greedy": False,
                "logits_per_token": value,
                "logits_per_char": value / 2,
                "logits_per_byte": -value / (2 * math.log(2)),
                "num_chars": 2,
            }
            for value in sums
        ]
        rules = ("raw", "per_token", "per_char", "per_byte")
        metrics = {f"predicted_index_{rule}": chosen for rule in rules}
        metrics |= {f"acc_{rule}": int(chosen == number) for rule in rules}
        row = {"doc_id": number, "native_id": f"Q{number}", "metrics": metrics}
        metrics["correct_choice"] = number
        rows.append({**row, "model_output": output, "label": number, "task_hash": "da4d"})
    asked = [
        {
            "request_type": "loglikelihood",
            "doc": {"id": f"Q{n}", "query": f"Question: {listed(n)}\nAnswer:", "choices": "ABCD"},
            "request": {"context": "…", "continuation": text},
            "idx": i,
            "task_name": "tools",
            "doc_id": n,
            "native_id": f"Q{n}",
            "label": n,
        }
        for n in range(2)
        for i, text in enumerate(texts)
    ]
    about = {"task_name": "tools", "num_instances": 2, "metrics": {"acc_raw": 0.5}}
    about["model_config"] = {"model": "lab-150M", "revision": "step1250"}
    about["task_config"] = {"limit": 10**19, "num_shots": 5, "primary_metric": "acc_uncond"}
    write(tmp_path / "task-000-tools-metrics.json", about)
    lines(tmp_path / "task-000-tools-requests.jsonl", asked)
    lines(tmp_path / "task-000-tools-predictions.jsonl", rows)
    (log,) = import_logs([str(tmp_path)]).logs
    assert log.reading.agreement["acc_per_byte"] == (2, 2)
    assert log.predictions.table["bytes"].tolist()[0] == [2, 2, 2, 2]
    assert log.header.settings["limit"] is None  # 10**19 is OLMES' word for none
    assert "subject-skew" not in flags(log)
    kept = read_logs([str(tmp_path)], keep_texts=True).logs[0].texts
    assert sorted(kept.values()) == sorted(f"Question: {q}" for q in QUESTIONS[:2])


@pytest.mark.parametrize("uncond", [False, True])
def test_olmo_eval_run_has_requests_in_a_folder_of_their_own(tmp_path, uncond):
    texts = [f" {text}" for text in OPTIONS]
    rows, asked = [], []
    for number, sums in enumerate(([-1.0, -2.0, -3.0, -4.0], [-1.0, -2.0, -3.5, -4.0])):
        without = [-1.0, -5.0, -3.0, -4.0]
        scores = [a - b for a, b in zip(sums, without, strict=True)] if uncond else sums
        output = [
            {
                "text": text,
                "extracted_answer": None,
                "is_greedy": False,
                "sum_logits": value,
                "num_tokens": 2,
                "num_tokens_all": 40,
                "logits_per_token": value / 2,
                "bits_per_byte": -value / (len(text) * math.log(2)),
                "num_chars": len(text),
            }
            for text, value in zip(texts * 2, sums + without, strict=True)
        ][: 8 if uncond else 4]
        hit = float(scores.index(max(scores)) == number)
        metrics = {"logprob": {"logprob": 0.1}, "accuracy": {"logprob": hit}}
        row = {"doc_id": number, "native_id": f"doc_{number}", "model_output": output}
        rows.append({**row, "instance_metrics": metrics, "label": number, "final_output": texts[0]})
        asked.append(
            {
                "request_type": "loglikelihood",
                "doc": {"query": QUESTIONS[number], "gold_idx": number, "choices": OPTIONS},
                "request": {"context": "…", "perplexity_context": "…", "continuation": texts[0]},
                "idx": 0,
                "task_name": "tools:rc",
                "doc_id": number,
                "native_id": f"doc_{number}",
                "label": number,
            }
        )
    lines(tmp_path / "predictions" / "lab_model" / "tools_rc_a1b2c3-predictions.jsonl", rows)
    lines(tmp_path / "requests" / "lab_model" / "tools_rc_a1b2c3-requests.jsonl", asked)
    task = {"task": "tools:rc", "metrics": {"accuracy": {"logprob": 0.5}}, "num_instances": 2}
    config = {"provider": {"model": "lab/model"}}
    write(tmp_path / "metrics.json", {"config": config, "tasks": [task], "errors": []})
    (log,) = import_logs([str(tmp_path)]).logs
    assert (log.header.model, log.header.task) == ("lab/model", "tools:rc")
    assert log.header.reported == {"accuracy/logprob": 0.5}
    assert log.reading.rules == {"accuracy/logprob": "pmi" if uncond else "sum"}
    assert log.reading.agreement == {"accuracy/logprob": (2, 2)}
    assert log.predictions.table["n_options"].tolist() == [4, 4]
    assert "no-requests-file" not in flags(log)


# eval-framework and MMLU-Pro ---------------------------------------------------------------------


def test_eval_framework_folder_with_texts_of_the_options_in_the_prompt(tmp_path):
    folder = tmp_path / "eval_results" / "Smollm" / "v0.2.2_MMLU" / "fewshot_1__samples_3_79552"
    rows, results = [], []
    turn = "<|im_start|>user\n{}\n<|im_end|>\n<|im_start|>assistant\nAnswer:"
    shot = turn.format("The following …\n\nQuestion: Earlier?\nA. p\nB. q\nC. r\nD. s")
    for number in range(3):
        scores = dict(zip((" A", " B", " C", " D"), (-1.0, -2.0, -3.0, -4.0), strict=True))
        asked = f"Question: {QUESTIONS[number]}\n" + listed(number).split("\n\n")[1]
        prompt = f"{shot} B<|im_end|>\n{turn.format(asked)}"
        row = {"id": number, "subject": "tools", "ground_truth": f" {'ABCD'[number]}"}
        row |= {"prompt": prompt, "prompt_sequence_positions": 384, "concat_compression": None}
        counts = {"loglikelihoods_sequence_positions": dict.fromkeys(scores, 1)}
        rows.append({**row, "loglikelihoods": scores, **counts, "error": None})
        for name, value in (
            ("Accuracy Loglikelihood", float(number == 0)),
            ("Accuracy Normalized Loglikelihood", float(number == 0)),
            ("Bytes", 1105.6),
        ):
            result = {"id": number, "subject": "tools", "llm_name": "Smollm", "task_name": "MMLU"}
            result |= {"metric_class_name": "…", "metric_name": name, "key": None, "value": value}
            result |= {"prompt": prompt, "response": row["ground_truth"], "error": None}
            results.append({**result, "higher_is_better": True, "llm_judge_prompt": None})
    lines(folder / "output.jsonl", rows)
    lines(folder / "results.jsonl", results)
    write(folder / "aggregated_results.json", {"Average Accuracy Loglikelihood": 0.3})
    about = {"eval_framework_version": "0.2.2", "llm_name": "Smollm", "llm_class": "Smollm"}
    about |= {"num_fewshot": 1, "num_samples": 3, "task_name": "MMLU", "task_metadata": {}}
    write(folder / "metadata.json", about)
    found = read_logs([str(tmp_path)], keep_texts=True)
    (log,) = found.logs
    assert len(found.skipped) == 3
    assert log.reading.agreement["Accuracy Loglikelihood"] == (3, 3)
    assert log.predictions.table["tokens"].tolist()[0] == [1, 1, 1, 1]
    assert sorted(log.texts.values()) == sorted(f"Question: {q}" for q in QUESTIONS)
    item = {"question": f"Question: {QUESTIONS[0]}", "options": OPTIONS, "item": 0, "correct": 1}
    table = lines(tmp_path / "table.jsonl", [item, {**item, "item": 1, "question": "Other?"}])
    (other,) = read_logs([str(table)]).logs  # the same question, known by its texts
    assert len(set(other.predictions.table["key"]) & set(log.predictions.table["key"])) == 1


def test_mmlu_pro_folder_with_summaries(tmp_path):
    def answered(number: int, pred: str | None) -> dict:
        row = {"question_id": 70 + number, "question": QUESTIONS[number], "options": OPTIONS}
        row |= {"answer": "ABCD"[number], "answer_index": number, "cot_content": ""}
        row |= {"category": "computer science", "src": "ori_mmlu-tools"}
        return {**row, "pred": pred, "model_outputs": "… The answer is …"}

    folder = tmp_path / "eval_results" / "deepseek"
    rows = [answered(0, "A"), answered(1, None), answered(2, "J")]  # J is no option here
    write(folder / "computer science_result.json", rows)
    total = {"corr": 2.0, "wrong": 1.0, "acc": 2 / 3}
    write(folder / "computer science_summary.json", {"computer science": total, "total": total})
    found = import_logs([str(tmp_path)])
    (log,) = found.logs
    assert log.header.model == "deepseek"
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert flags(log)["random-guesses"].startswith("1 answer")
    assert flags(log)["unmapped-answer"].startswith("2 answers")
    assert [path.endswith("_summary.json") for path in found.skipped] == [True]


# Inspect -----------------------------------------------------------------------------------------


def test_inspect_log_of_2025_as_one_json_file(tmp_path):
    def sample(number: int, said: str) -> dict:
        message = {"id": "bf4N", "content": f"ANSWER: {said}", "role": "assistant"}
        message |= {"source": "generate", "model": "qwen"}
        right = said == "ABCD"[number]
        score = {"value": "C" if right else "I", "answer": said, "explanation": "…", "history": []}
        asked = {"id": "4Aaz", "content": listed(number, ") "), "source": "input", "role": "user"}
        output = {"model": "qwen", "choices": [{"message": message, "stop_reason": "stop"}]}
        return {
            "id": number + 1,
            "epoch": 1,
            "input": QUESTIONS[number],
            "choices": OPTIONS,
            "target": "ABCD"[number],
            "messages": [asked, message],
            "output": output,
            "scores": {"choice": score},
            "metadata": {},
            "store": {},
            "events": [{"event": "sample_init", "sample": {"choices": OPTIONS, "target": "A"}}],
        }

    dataset = {"name": "lab/tools", "location": "lab/tools", "samples": 2376, "shuffled": False}
    run = {"eval_id": "Ersz", "run_id": "V3x6", "task": "inspect_evals/tools", "task_id": "5XXh"}
    run |= {"task_version": 0, "task_args": {}, "dataset": {**dataset, "sample_ids": [1, 2, 3]}}
    run |= {"model": "ollama/qwen2.5:0.5b", "model_generate_config": {}, "model_args": {}}
    run |= {"config": {"limit": 3, "epochs": 1}, "packages": {"inspect_ai": "0.3.138.dev45"}}
    run["scorers"] = [{"name": "choice", "options": {}, "metrics": [{"name": "accuracy"}]}]
    plan = {"name": "plan", "steps": [{"solver": "multiple_choice", "params": {}}], "config": {}}
    metrics = {"accuracy": {"name": "accuracy", "value": 1 / 3, "params": {}}}
    scores = [{"name": "choice", "scorer": "choice", "scored_samples": 3, "metrics": metrics}]
    log = {"version": 2, "status": "success", "eval": run, "plan": plan}
    log["results"] = {"total_samples": 3, "completed_samples": 3, "scores": scores}
    log["stats"] = {"started_at": "2025-10-21T01:12:04+02:00", "model_usage": {}}
    log["samples"] = [sample(0, "A"), sample(1, "A"), sample(2, "")]
    (found,) = import_logs([str(write(tmp_path / "data_tools.json", log))]).logs
    assert (found.header.version, found.header.benchmark) == ("0.3.138.dev45", "tools")
    assert found.header.reported == {"acc": pytest.approx(1 / 3)}
    assert found.reading.agreement == {"acc": (3, 3)}
    assert found.predictions.correct.tolist() == [1, 0, 0]
    assert "subject-skew" in flags(found)
