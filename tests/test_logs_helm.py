"""HELM run folders, written by code as the format's description has them."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from harmony_utils.errors import InputError
from harmony_utils.logs import read_logs
from harmony_utils.logs.readers.helm import option_tail, task_of_run

REFERENCES = ["Plato", "Kant", "Hume", "Mill"]


def joint(number: int, said: str, gold: int, *, trial: int = 0, **instance) -> dict:
    """One answer to all options. Optional fields are left out, as HELM leaves out None."""
    return {
        "instance": {
            "input": {"text": f"Who wrote number {number}?"},
            "references": [
                {"output": {"text": text}, "tags": ["correct"] if i == gold else []}
                for i, text in enumerate(REFERENCES)
            ],
            "split": "test",
            "id": f"id{number}",
            **instance,
        },
        "request_mode": "original",
        "train_trial_index": trial,
        "output_mapping": dict(zip("ABCD", REFERENCES, strict=True)),
        "request": {"model": "org/small", "prompt": f"… {number} Answer:"},
        "result": {
            "success": True,
            "completions": [{"text": said, "logprob": 0.0, "tokens": [{"text": said}]}],
        },
        "num_train_instances": 5,
        "prompt_truncated": False,
    }


def option(number: int, index: int, logprobs: list[float], *, mode: str, words: list[str]) -> dict:
    """The request for one option; the prompt's tokens are logged too."""
    state = joint(number, "", gold=number % 4)
    del state["output_mapping"]
    state["reference_index"], state["request_mode"] = index, mode
    tokens = [{"text": "Answer", "logprob": -9.0}, {"text": ":", "logprob": -9.0}]
    tokens += [{"text": w, "logprob": v} for w, v in zip(words, logprobs, strict=True)]
    state["result"]["completions"] = [{"text": "", "logprob": -99.0, "tokens": tokens}]
    return state


def stats(number: int, *, trial: int = 0, perturbation: dict | None = None, **values) -> dict:
    entry = {"instance_id": f"id{number}", "train_trial_index": trial, "stats": []}
    if perturbation:
        entry["perturbation"] = perturbation
    for name, value in values.items():
        entry["stats"].append(
            {"name": {"name": name, "split": "test"}, "count": 1, "sum": value, "mean": value}
        )
    return entry


def write(folder, states: list[dict], statistics: list[dict], *, method: str, limit=None):
    folder.mkdir(parents=True)
    adapter = {"method": method, "model": "org/small", "max_train_instances": 5}
    if limit:
        adapter["max_eval_instances"] = limit
    name = f"mmlu:subject=philosophy,method={method},model=org_small"
    spec = {
        "name": name,
        "scenario_spec": {"class_name": "MMLUScenario", "args": {"subject": "philosophy"}},
        "adapter_spec": adapter,
    }
    state = {"adapter_spec": adapter, "request_states": states}
    (folder / "run_spec.json").write_text(json.dumps(spec, indent=2))
    (folder / "scenario_state.json").write_text(json.dumps(state, indent=2))
    (folder / "per_instance_stats.json").write_text(json.dumps(statistics, indent=2))
    (folder / "scenario.json").write_text("{}")
    return folder


@pytest.fixture
def run(tmp_path):
    """Four questions: right, wrong, an unknown letter, right."""
    states = [joint(0, " A", 0), joint(1, "C", 1), joint(2, "M", 2), joint(3, " D ", 3)]
    noisy = {"name": "misspellings", "prob": 0.1}
    states.insert(1, joint(0, "B", 0, perturbation=noisy))
    statistics = [stats(i, exact_match=v) for i, v in enumerate((1.0, 0.0, 0.0, 1.0))]
    statistics.append(stats(0, perturbation=noisy, exact_match=0.0))
    name = "mmlu-subject=philosophy,method=multiple_choice_joint,model=org_small"
    return write(tmp_path / "suite" / name, states, statistics, method="multiple_choice_joint")


def flags(log) -> dict[str, str]:
    return {flag.flag: flag.sentence for flag in log.flags}


def test_joint_run_maps_letters_to_references(run):
    (log,) = read_logs([str(run.parent)]).logs
    assert (log.header.format, log.header.version) == ("helm", "multiple_choice_joint")
    assert (log.header.model, log.header.benchmark) == ("org/small", "mmlu")
    assert log.header.subject == "philosophy"
    assert log.predictions.correct.tolist() == [1, 0, 0, 1]
    assert log.reading.name == "correct tag"
    assert log.reading.agreement == {"exact_match": (4, 4)}
    assert log.predictions.table["prediction"].tolist()[:2] == [0, 2]
    assert log.predictions.table["loglik"].isna().all()  # a joint log holds no usable ones
    assert flags(log)["unmapped-answer"].startswith("1 answer")
    assert flags(log)["perturbed-copies"].startswith("1 request")
    assert log.header.settings["few_shot"] == 5
    assert "subject-skew" not in flags(log)


def test_file_alone_under_another_name_and_packed(run, tmp_path):
    data = (run / "scenario_state.json").read_bytes()
    for name, packed in (
        ("a.txt", data),
        ("b.json.gz", gzip.compress(data)),
        ("c.json.zst", zstandard.compress(data)),
    ):
        place = tmp_path / name
        place.write_bytes(packed)
        (log,) = read_logs([str(place)]).logs
        assert log.predictions.correct.tolist() == [1, 0, 0, 1]
        assert {"no-statistics", "not-checked"} <= set(flags(log))


def test_several_correct_options_and_equal_texts(tmp_path):
    several = joint(0, "B", 0)
    several["instance"]["references"][1]["tags"] = ["correct"]
    equal = joint(1, "C", 2)
    for at in (0, 2):  # the same text twice, once marked as correct
        equal["instance"]["references"][at]["output"]["text"] = "Same"
    equal["output_mapping"] = {"A": "Same", "B": "Kant", "C": "Same", "D": "Mill"}
    run = write(
        tmp_path / "r",
        [several, equal],
        [stats(0, exact_match=1.0), stats(1, exact_match=1.0)],
        method="multiple_choice_joint",
    )
    (log,) = read_logs([str(run)]).logs
    assert log.reading.gold == [(0, 1), (2,)]
    assert log.reading.agreement == {"exact_match": (2, 2)}
    assert "equal-options" in flags(log)


def test_trials_are_epochs(tmp_path):
    states = [joint(0, said, 0, trial=t) for t, said in enumerate("AB")]
    statistics = [stats(0, trial=t, exact_match=v) for t, v in enumerate((1.0, 0.0))]
    run = write(tmp_path / "r", states, statistics, method="multiple_choice_joint")
    (log,) = read_logs([str(run)]).logs
    assert log.predictions.correct.tolist() == [0.5]
    assert "repeated-epochs" in flags(log)


def test_wrong_statistics_are_noticed(run):
    statistics = json.loads((run / "per_instance_stats.json").read_text())
    statistics[0]["stats"][0]["mean"] = 0.0
    (run / "per_instance_stats.json").write_text(json.dumps(statistics))
    (log,) = read_logs([str(run)]).logs
    assert log.reading.agreement == {"exact_match": (3, 4)}
    assert "disagreement" in flags(log)


def separate(tmp_path, *, method: str, words: list[str], calibration: bool = False):
    """Two questions; option 1 (Kant) is best by the sum per token."""
    states, statistics = [], []
    for number in range(2):
        for index in range(4):
            split = [f" {REFERENCES[index][:2]}", REFERENCES[index][2:]]
            used = split if words == ["own"] else words
            values = [-1.0, -1.0 if index == 1 else -1.5]
            states.append(option(number, index, values, mode="original", words=used))
            if calibration:
                prior = [-0.5, -2.0 if index == 0 else -0.5]
                states.append(option(number, index, prior, mode="calibration", words=used))
        right = number == (0 if calibration else 1)
        found = {"exact_match": float(right), "predicted_index": 0.0 if calibration else 1.0}
        statistics.append(stats(number, **found))
    return write(tmp_path / "r", states, statistics, method=method)


def test_separate_run_sums_the_tokens_of_the_option(tmp_path):
    run = separate(tmp_path, method="multiple_choice_separate_original", words=["own"])
    (log,) = read_logs([str(run)]).logs
    assert log.predictions.table["loglik"].iloc[0] == [-2.5, -2.0, -2.5, -2.5]
    assert log.predictions.table["tokens"].iloc[0] == [2, 2, 2, 2]
    assert log.predictions.correct.tolist() == [0, 1]
    assert (log.reading.rules, log.reading.agreement) == (
        {"exact_match": "token"},
        {"exact_match": (2, 2)},
    )


def test_calibrated_run_subtracts_the_request_without_question(tmp_path):
    method = "multiple_choice_separate_calibrated"
    run = separate(tmp_path, method=method, words=["own"], calibration=True)
    (log,) = read_logs([str(run)], normalisation="pmi").logs
    assert log.predictions.table["unconditional"].iloc[0] == [-2.5, -1.0, -1.0, -1.0]
    assert log.reading.rules == {"exact_match": "pmi"}
    assert log.reading.agreement == {"exact_match": (2, 2)}
    assert log.predictions.correct.tolist() == [1, 0]


def test_option_whose_tokens_cannot_be_told_is_not_scored(tmp_path):
    run = separate(tmp_path, method="multiple_choice_separate_original", words=["<0xE2>", "?"])
    (log,) = read_logs([str(run)]).logs
    assert log.predictions.table["loglik"].isna().all()
    assert log.predictions.correct.tolist() == [0, 1]  # by predicted_index
    assert log.reading.agreement == {"exact_match": (2, 2)}
    assert "no-option-border" in flags(log)


def test_fractional_tie_is_kept_but_not_compared(tmp_path):
    run = separate(tmp_path, method="multiple_choice_separate_original", words=["?", "?"])
    statistics = [
        stats(0, exact_match=0.5, predicted_index=0.0),
        stats(1, exact_match=1.0, predicted_index=1.0),
    ]
    (run / "per_instance_stats.json").write_text(json.dumps(statistics))
    (log,) = read_logs([str(run)]).logs
    assert log.predictions.correct.tolist() == [0.5, 1.0]
    assert log.reading.agreement == {"exact_match": (1, 1)}


def test_limit_is_a_random_subset_only_if_it_was_reached(tmp_path):
    states = [joint(i, "A", 0) for i in range(3)]
    for limit, expected in ((3, True), (1000, False)):
        place = tmp_path / str(limit)
        run = write(place, states, [], method="multiple_choice_joint", limit=limit)
        (log,) = read_logs([str(run)]).logs
        assert ("random-subset" in flags(log)) == expected
        assert "subject-skew" not in flags(log)


def test_damaged_run_gives_one_line(run):
    text = (run / "scenario_state.json").read_text()
    (run / "scenario_state.json").write_text(text[: len(text) * 2 // 3])
    with pytest.raises(InputError, match=r"scenario_state\.json") as caught:
        read_logs([str(run)])
    assert "\n" not in str(caught.value)
    states = json.loads(text)
    del states["request_states"][2]["instance"]["input"]
    (run / "scenario_state.json").write_text(json.dumps(states))
    with pytest.raises(InputError, match=r"request 3: not a request of HELM"):
        read_logs([str(run)])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mmlu:subject=anatomy,method=x,model=y", ("mmlu", "anatomy", "mmlu:subject=anatomy")),
        ("mmlu-subject=anatomy,model=y", ("mmlu", "anatomy", "mmlu:subject=anatomy")),
        ("mmlu_pro:subset=all,model=y", ("mmlu_pro", None, "mmlu_pro")),
        ("commonsense:dataset=hellaswag,method=x", ("hellaswag", None, "hellaswag")),
        ("boolq,max_train_instances=5", ("boolq", None, "boolq")),
    ],
)
def test_run_names(name, expected):
    assert task_of_run(name) == expected


def test_option_tail_reads_marks_of_tokenizers():
    tokens = [{"text": t, "logprob": -1.0} for t in ("Answer:", "▁dark", "Ġred")]
    assert option_tail(tokens, "dark red") == (-2.0, 2)
    assert option_tail([], "red") == (None, 0)
