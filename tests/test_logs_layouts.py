"""Whole folders as the tools leave them, with every member that public runs hold.

The layouts (names, nesting, types, order, files that lie beside) were copied from runs in public
repositories and from the tools' writers; the content is invented.
"""

from __future__ import annotations

import json

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


# HELM --------------------------------------------------------------------------------------------


def helm_stat(name: str, value: float, **where) -> dict:
    return {
        "name": {"name": name, "split": "test", **where},
        "count": 1,
        "sum": value,
        "sum_squared": value**2,
        "min": value,
        "max": value,
        "mean": float(value),
        "variance": 0.0,
        "stddev": 0.0,
    }


def helm_state(number: int, said: str) -> dict:
    tags = ["negative", "ambiguous", "B", "", "C"]  # of BBQ: letters are no options
    model = {"model_deployment": "lab/model-1", "model": "lab/model-1"}
    return {
        "instance": {
            "input": {"text": f"A workshop has four tools.\nQuestion: {QUESTIONS[number]}"},
            "references": [
                {"output": {"text": text}, "tags": ["correct", *tags] if i == number else tags}
                for i, text in enumerate(OPTIONS)
            ],
            "split": "test",
            "id": f"id{58000 + number}",
        },
        "train_trial_index": 0,
        "output_mapping": dict(zip("ABCD", OPTIONS, strict=True)),
        "request": {
            **model,
            "embedding": False,
            "prompt": f"The following …\n\nPassage: {QUESTIONS[number]}\nAnswer:",
            "temperature": 0.0,
            "num_completions": 1,
            "top_k_per_token": 5,
            "max_tokens": 1,
            "stop_sequences": [],
            "echo_prompt": False,
            "top_p": 1,
        },
        "result": {
            "success": True,
            "embedding": [],
            "completions": [{"text": said, "logprob": 0, "tokens": []}],
            "cached": True,
            "request_time": 0.58,
            "request_datetime": 1719561173,
        },
        "num_train_instances": 0,
        "prompt_truncated": False,
        "num_conditioning_tokens": 0,
    }


def test_helm_folder_with_answers_that_are_no_letters(tmp_path):
    name = "bbq:subject=all,method=multiple_choice_joint,model=lab_model-1"
    folder = tmp_path / "runs" / "v3" / name
    adapter = {"method": "multiple_choice_joint", "max_train_instances": 0, "num_outputs": 5}
    adapter |= {"max_eval_instances": 3, "model_deployment": "lab/model-1", "model": "lab/model-1"}
    states = [helm_state(0, " A"), helm_state(1, "The"), helm_state(2, "B")]
    write(folder / "scenario_state.json", {"adapter_spec": adapter, "request_states": states})
    scenario = {"class_name": "helm.…BBQScenario", "args": {"subject": "all"}}
    spec = {"name": name, "scenario_spec": scenario, "adapter_spec": adapter, "groups": ["bbq"]}
    write(folder / "run_spec.json", spec)
    each = [
        {
            "instance_id": f"id{58000 + i}",
            "train_trial_index": 0,
            "stats": [
                helm_stat("num_references", 4),
                {"name": {"name": "training_co2_cost", "split": "test"}, "count": 0, "sum": 0},
                helm_stat("exact_match", right),
                helm_stat("exact_match@5", right),
                helm_stat("quasi_exact_match", right),
            ],
        }
        for i, right in enumerate((1, 0, 0))
    ]
    write(folder / "per_instance_stats.json", each)
    total = helm_stat("exact_match", 1 / 3)
    part = helm_stat("exact_match", 1.0, sub_split="ambiguous")
    worst = helm_stat("exact_match", 0.0, perturbation={"name": "robustness"})
    write(folder / "stats.json", [part, worst, total])
    write(folder / "instances.json", [state["instance"] for state in states])
    write(folder / "display_predictions.json", [{"instance_id": "id58000", "predicted_text": " A"}])
    write(tmp_path / "runs" / "v3" / "groups" / "bbq.json", {"title": "BBQ", "rows": []})
    (log,) = import_logs([str(tmp_path / "runs")]).logs
    assert (log.header.model, log.header.benchmark) == ("lab/model-1", "bbq")
    assert log.header.subject is None
    assert log.header.reported == {"exact_match": pytest.approx(1 / 3)}
    assert log.reading.agreement == {"exact_match": (3, 3)}
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert flags(log)["unmapped-answer"].startswith("1 answer")


# Every Eval Ever ---------------------------------------------------------------------------------


def instance(number: int, said: str, right: bool, **more) -> dict:
    return {
        "schema_version": "0.2.1",
        "evaluation_id": "None_samples",
        "model_id": "lab/model-1",
        "evaluation_name": "mmlu",
        "sample_id": f"id{number}",
        "sample_hash": "b4b3",
        "interaction_type": "single_turn",
        "input": {
            "raw": f"Question: {listed(number)}\nAnswer:",
            "formatted": None,
            "reference": [OPTIONS[number]],
            "choices": OPTIONS,
        },
        "output": {"raw": [f" {said}"], "reasoning_trace": []},
        "messages": None,
        "answer_attribution": [
            {"turn_idx": 0, "source": "output.raw", "extracted_value": said, "is_terminal": True}
        ],
        "evaluation": {"score": float(right), "is_correct": right, "num_turns": None},
        "token_usage": {"input_tokens": 333, "output_tokens": 1, "total_tokens": 334},
        "performance": {"latency_ms": None, "generation_time_ms": 680.3},
        "error": None,
        "metadata": None,
        **more,
    }


def test_instances_of_helm_name_options_by_letter_and_by_text(tmp_path):
    rows = [instance(0, "A", True), instance(1, "D", False), instance(2, "The", False)]
    (log,) = import_logs([str(lines(tmp_path / "None_samples.jsonl", rows))]).logs
    assert log.reading.agreement == {"is_correct": (2, 2)}
    assert log.predictions.table["gold"].tolist()[:2] == [[0], [1]]
    assert log.predictions.table["prediction"].tolist()[:2] == [0, 3]
    assert log.predictions.correct.tolist() == [1, 0, 0]


def test_rows_of_several_metrics_are_not_repetitions(tmp_path):
    rows = []
    for number, right in enumerate((True, False)):
        for metric, hit in (
            ("rouge_l:test", False),  # graded: never called correct
            ("quasi_exact_match:test", right),
            ("exact_match:test", right),
            ("exact_match:test:robustness", False),
        ):
            said = "ABCD"[number] if right else "D"
            rows.append(instance(number, said, hit, evaluation_result_id=metric))
    (log,) = import_logs([str(lines(tmp_path / "a.jsonl", rows))]).logs
    assert log.predictions.correct.tolist() == [1, 0]
    assert "exact_match is used" in flags(log)["several-scorers"]
    assert "repeated-epochs" not in flags(log)


def test_instances_of_lighteval_hold_loglikelihoods(tmp_path):
    rows = []
    for number, values in enumerate(([-1.0, -2.0, -3.0, -4.0], [-0.5, -1.5, -2.5, -3.5])):
        right = values.index(max(values)) == number
        row = instance(number, f" {OPTIONS[0]}", right, evaluation_name="mytask|0")
        row["input"]["choices"] = [f" {text}" for text in OPTIONS]
        row["input"]["reference"] = [f" {OPTIONS[number]}"]
        row["metadata"] = {
            "lighteval_metrics": json.dumps({"acc": int(right)}),
            "task_key": "mytask|0",
            "primary_metric": "acc",
            "choice_logprobs": json.dumps(values),
        }
        rows.append(row)
    (log,) = import_logs([str(lines(tmp_path / "a.jsonl", rows))]).logs
    assert log.predictions.table["loglik"].tolist()[0] == [-1.0, -2.0, -3.0, -4.0]
    assert log.reading.agreement == {"is_correct": (2, 2)}
    assert log.reading.rules == {"is_correct": "sum"}
    assert log.predictions.table["characters"].tolist()[0] == [9, 6, 14, 8]


def test_instances_of_lm_eval_have_an_index_and_a_filter(tmp_path):
    rows = []
    for number, said in enumerate(("a hammer", "a hammer", "a screwdriver")):
        row = instance(number, said, said == OPTIONS[number], evaluation_name="tools")
        row["input"]["reference"] = [str(number)]
        row["metadata"] = {"doc_hash": "d", "filter": "none", "lm_eval_metrics": "{}"}
        rows.append(row)
        again = json.loads(json.dumps(row))
        again["evaluation_name"], again["metadata"]["filter"] = "tools/strict", "strict"
        rows.append(again)
    found = import_logs([str(lines(tmp_path / "a.jsonl", rows))])
    assert [log.split for log in found.logs] == ["", "strict"]
    assert found.logs[0].reading.name == "index"
    assert found.logs[0].reading.agreement == {"is_correct": (3, 3)}
    assert [run.benchmark for run in found.runs] == ["tools"]


def test_instances_of_the_subjects_of_a_benchmark_may_have_one_name(tmp_path):
    lines(tmp_path / "a_samples.jsonl", [instance(0, "A", True), instance(1, "D", False)])
    lines(tmp_path / "b_samples.jsonl", [{**instance(2, "C", True), "sample_id": "id0"}])
    found = import_logs([str(tmp_path)])
    (run,) = found.runs
    assert run.predictions.correct.tolist() == [1, 0, 1]
    assert not any("several-runs" in flags(log) for log in found.logs)
    lines(tmp_path / "c_samples.jsonl", [instance(1, "B", True)])  # asked once more
    again = import_logs([str(tmp_path)])
    assert len(again.runs[0].predictions) == 2
    assert any("several-runs" in flags(log) for log in again.logs)


def test_instances_may_be_named_as_a_run_of_helm(tmp_path):
    name = "mmlu:subject=philosophy,method=multiple_choice_joint,model=openai_gpt2"
    rows = [instance(0, "A", True, evaluation_name=name)]
    (log,) = import_logs([str(lines(tmp_path / "a.jsonl", rows))]).logs
    assert (log.header.benchmark, log.header.subject) == ("mmlu", "philosophy")


# EvalScope ---------------------------------------------------------------------------------------

INSTRUCTION = (
    "Answer the following multiple choice question. The last line of your response should be of "
    "the following format: 'ANSWER: [LETTER]' (without quotes) where [LETTER] is one of A,B,C,D."
)


def scored(number: int, said: str | None, value: dict) -> dict:
    score = {"value": value, "extracted_prediction": said, "prediction": "…", "metadata": {}}
    score |= {"explanation": None, "main_score_name": None}
    about = {"correct_answer": OPTIONS[number], "incorrect_answers": OPTIONS[:number]}
    return {"score": score, "sample_id": number, "group_id": number, "sample_metadata": about}


def reviewed(number: int, said: str | None, *, chat: bool, text: str | None = None) -> dict:
    text = text or f"{INSTRUCTION}\n\n{listed(number, ') ')}"
    user = {"id": "11ce", "content": text, "source": None, "role": "user", "tool_call_id": None}
    answer = {"id": "6562", "content": "…", "source": "generate", "role": "assistant"}
    asked = {"messages": [user, answer], "trajectory": []} if chat else {}
    before = {} if chat else {"input": f"**User**: \n{text}"}
    value = {"acc": float(said == "ABCD"[number])}
    score = {"sample_score": scored(number, said, value)}
    return {"index": number, **before, "target": "ABCD"[number], **asked, **score}


@pytest.mark.parametrize("chat", [True, False])
def test_evalscope_run_lists_the_options_in_the_prompt_only(tmp_path, chat):
    rows = [reviewed(i, said, chat=chat) for i, said in enumerate(("A", "A", ""))]
    run = tmp_path / "20250117_154119"
    lines(run / "reviews" / "qwen-plus" / "gpqa_diamond_default.jsonl", rows)
    output = {"model": "qwen-plus", "choices": [], "usage": None}
    answers = [{"index": i, "model": "qwen-plus", "model_output": output} for i in range(3)]
    lines(run / "predictions" / "qwen-plus" / "gpqa_diamond_default.jsonl", answers)
    part = {"name": "default", "score": 0.3333, "num": 3}
    category = {"name": ["default"], "num": 3, "score": 0.3333, "subsets": [part]}
    report = {"name": "qwen-plus@gpqa_diamond", "dataset_name": "gpqa_diamond", "score": 0.3333}
    report["metrics"] = [{"name": "mean_acc", "num": 3, "categories": [category]}]
    write(run / "reports" / "qwen-plus" / "gpqa_diamond.json", report)
    (run / "configs").mkdir()
    (run / "configs" / "task_config.yaml").write_text("model: qwen-plus\n")
    (log,) = import_logs([str(run)]).logs
    assert (log.header.model, log.header.benchmark) == ("qwen-plus", "gpqa_diamond")
    assert log.header.subject is None
    assert log.header.reported == {"result": 0.3333}
    assert log.predictions.table["n_options"].tolist() == [4, 4, 4]
    assert log.reading.agreement == {"result": (3, 3)}
    asked = read_logs([str(run)], keep_texts=True).logs[0].texts
    assert sorted(asked.values()) == sorted(QUESTIONS)


def test_evalscope_reviews_of_early_2025_have_options_in_columns(tmp_path):
    def early(number: int, gold: str, said: str) -> dict:
        message = {"role": "assistant", "content": f"答案: {said}. …", "tool_calls": []}
        review = {"gold": gold, "pred": said, "result": int(said == gold)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}
        document = {"id": number, "question": f"几个 {number}____", "answer": gold}
        document |= {**dict(zip("ABCD", "1234", strict=True)), "explanation": ""}
        prompt = f"…单项选择题。\n问题：几个 {number}____\nA. 1\nB. 2\nC. 3\nD. 4\n答案: "
        about = {"data": [prompt], "multi_choices": list("ABCD"), "raw_input": document}
        row = {"id": f"chat-{number}", "object": "chat.completion", "model": "Qwen2.5-0.5B"}
        row |= {"choices": [{**choice, "stop_reason": None, "review": review}], "usage": {}}
        row |= {"model_spec": {"model_id": "Qwen2.5-0.5B"}, "subset_name": "computer_network"}
        row |= {"raw_input": document, "origin_prompt": about, "reviewed": True, "index": number}
        return {
            **row,
            "reviewer_spec": {"metric": ["AverageAccuracy"]},
            "review_time": 1737099784.8,
        }

    rows = [early(0, "C", "C"), early(1, "C", "B"), early(2, "C", "")]
    place = tmp_path / "reviews" / "Qwen2.5-0.5B" / "ceval_computer_network.jsonl"
    (log,) = import_logs([str(lines(place, rows))]).logs
    assert (log.header.benchmark, log.header.subject) == ("ceval", "computer_network")
    assert log.predictions.correct.tolist() == [1, 0, 0]
    assert log.predictions.table["gold"].tolist() == [[2], [2], [2]]
    assert log.predictions.table["n_options"].tolist() == [4, 4, 4]
    assert log.reading.agreement == {"result": (3, 3)}


def test_examples_in_a_prompt_are_no_options(tmp_path):
    shots = f"{listed(0, ') ')}\nANSWER: A\n\n{listed(1, ') ')}\nANSWER: B"
    text = f"Here are some examples:\n\n{shots}\n\n{INSTRUCTION}\n\n{listed(2, ') ')}"
    rows = [reviewed(2, "C", chat=True, text=text)]
    path = str(lines(tmp_path / "qwen" / "mmlu_pro_math.jsonl", rows))
    (log,) = read_logs([path], keep_texts=True).logs
    assert list(log.texts.values()) == [QUESTIONS[2]]
    assert log.header.subject == "math"
