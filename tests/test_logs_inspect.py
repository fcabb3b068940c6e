"""Inspect: archives and JSON logs, whole, crashed and damaged."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.logs import import_logs, read_logs
from harmony_utils.logs.gold import recompute
from harmony_utils.logs.readers import inspect_ai
from harmony_utils.logs.sources import Source

LOGS = Path(__file__).parent / "data/logs/inspect_0.3.285"
ARCHIVE = next(LOGS.glob("*.eval"))
JSON = next(LOGS.glob("*_mcq_*.json"))
MULTI = next(LOGS.glob("*multi*.json"))

EVAL = {
    "task": "inspect_evals/quiz",
    "task_version": 1,
    "task_args": {"fewshot": 3},
    "dataset": {"name": "quiz", "samples": 4},
    "model": "org/model",
    "config": {"limit": [0, 4]},
    "packages": {"inspect_ai": "0.3.100"},
    "scorers": [{"name": "choice"}],
}
PLAN = {"steps": [{"solver": "multiple_choice", "params": {"cot": True}}], "config": {}}


def sample(i, answer="A", value="C", target="A", **more):
    """One sample with three options; the answer and its score as given."""
    return {
        "id": i,
        "epoch": 1,
        "input": f"Question {i}?",
        "choices": ["red", "green", "blue"],
        "target": target,
        "messages": [{"role": "user", "content": "long " * 20}],
        "output": {"choices": []},
        "scores": {"choice": {"value": value, "answer": answer}},
        "metadata": {"category": "colours"},
        "events": [{"event": "x" * 200}],
        **more,
    }


def log(samples, status="success", **more):
    """One JSON log."""
    return {"version": 2, "status": status, "eval": EVAL, "plan": PLAN, "samples": samples, **more}


def write_json(path, samples, indent=2, **more):
    path.write_text(json.dumps(log(samples, **more), indent=indent))
    return path


def summary(one):
    """What ``summaries.json`` keeps of a sample."""
    keep = ("id", "epoch", "input", "choices", "target", "metadata", "scores", "error")
    return {name: one[name] for name in keep if name in one}


def write_archive(path, samples, *, header=True, summaries="full", method=zipfile.ZIP_DEFLATED):
    """Write an archive; ``summaries`` is full, none, no-choices, value-only or cut."""
    start = {"version": 2, "eval": EVAL, "plan": PLAN}
    short = [summary(one) for one in samples]
    for one in short:
        if summaries == "no-choices":
            one.pop("choices")
        if summaries == "value-only":
            one["scores"] = {n: {"value": s["value"]} for n, s in one["scores"].items()}
        if summaries == "cut":
            one["input"] = one["input"][:5] + "...\n(content truncated)"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("_journal/start.json", json.dumps(start))
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        archive.writestr("_journal/summaries/1.json", json.dumps(short))
        if summaries != "none":
            archive.writestr("summaries.json", json.dumps(short))
        if header:
            archive.writestr("header.json", json.dumps({**start, "status": "success"}))
    return path


def one_log(path):
    logs = read_logs([str(path)]).logs
    assert len(logs) == 1
    return logs[0]


def flags(found):
    return {flag.flag for flag in found.flags}


@pytest.mark.parametrize(("path", "unmapped"), [(ARCHIVE, 2), (JSON, 1)])
def test_real_logs(path, unmapped):
    found = one_log(path)
    assert found.header.version == "0.3.285"
    assert found.header.model == "mockllm/model"
    assert found.reading.name == "letter"
    assert found.reading.agreement == {"acc": (8, 8)}  # 4 items, 2 epochs
    assert found.predictions.accuracy() == 0.625 == found.header.reported["acc"]
    assert list(found.predictions.table["subject"]) == ["algebra", "arithmetic"] * 2
    assert found.missing == unmapped
    assert flags(found) >= {"repeated-epochs", "no-distribution", "unmapped-answer"}
    assert found.predictions.table["loglik"].isna().all()


def test_archive_and_json_of_one_benchmark_share_their_items():
    a, b = (one_log(path).predictions.table["key"] for path in (ARCHIVE, JSON))
    assert set(a) == set(b)


def test_real_log_with_several_correct_options():
    found = one_log(MULTI)
    assert found.reading.agreement == {"acc": (1, 1)}
    assert list(found.predictions.table["gold"]) == [[0, 2]]
    assert found.predictions.accuracy() == 1.0
    assert found.predictions.table["native_id"].tolist() == ["7"]


def test_told_by_content_not_by_name(tmp_path):
    shutil.copy(ARCHIVE, tmp_path / "samples_arc.jsonl")
    shutil.copy(JSON, tmp_path / "table.csv")
    found = read_logs([str(tmp_path)])
    assert [item.header.format for item in found.logs] == ["inspect", "inspect"]
    assert [item.reading.agreement for item in found.logs] == [{"acc": (8, 8)}] * 2


def test_not_this_format(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("something.json", "{}")
    (tmp_path / "b.json").write_text('{"eval": 1,\n "plan": 2}')
    assert inspect_ai.sniff(Source(tmp_path / "a.eval")) is None
    assert inspect_ai.sniff(Source(tmp_path / "b.json")) is None


@pytest.mark.parametrize("indent", [None, 2])
def test_values_of_scores(tmp_path, indent):
    samples = [
        sample(0),  # right
        sample(1, "B", "I"),
        sample("2", "", "I"),  # no usable answer: wrong
        sample(3, "C", 1.0, target=["C"]),
        sample(4, "(B)", False),
        sample(5, "A", float("nan")),  # unscored
        sample(6, "A", {"acc": 1, "extra": 3}),
        sample(7, "A", 7),  # a mark out of ten
        sample(8, "B", "P"),
        sample(9, None, "N"),
        sample(10, "red", "CORRECT"),
    ]
    found = one_log(write_json(tmp_path / "log.json", samples, indent=indent))
    assert found.reading.agreement == {"acc": (8, 8)}
    expected = [1, 0, 0, 1, 0, np.nan, 1, np.nan, 0.5, 0, 1]
    np.testing.assert_array_equal(found.predictions.correct, expected)
    assert flags(found) >= {"several-values", "score-outside-range", "unscored", "unmapped-answer"}
    assert found.header.settings["few_shot"] == 3
    assert found.header.settings["template"] == "reasoning first"
    assert found.header.benchmark == "quiz"


def test_several_correct_options_must_all_be_found(tmp_path):
    both = ["A", "C"]
    samples = [
        sample(0, "A, C", "C", both),
        sample(1, "C,A", "C", both),
        sample(2, "A", "I", both),
        sample(3, "A, B, C", "I", both),
        sample(4, "AC", "C", "AC"),
        sample(5, "", "I", both),
        sample(6, "A and B", "I", "A"),
    ]
    found = one_log(write_json(tmp_path / "log.json", samples))
    assert found.reading.agreement == {"acc": (7, 7)}
    np.testing.assert_array_equal(found.predictions.correct, [1, 1, 0, 0, 1, 0, 0])
    samples[2]["scores"]["choice"]["value"] = "C"
    wrong = write_json(tmp_path / "wrong.json", samples)
    assert one_log(wrong).reading.agreement == {"acc": (6, 7)}
    with pytest.raises(RefusedError, match="acc on 6 of 7 rows"):
        import_logs([str(wrong)])


def test_rule_for_several_choices():
    made = recompute(
        "prediction",
        [(0, 2), (0, 2), (1,), None],
        loglik=np.empty((4, 0)),
        n_options=np.array([3] * 4),
        lengths={},
        prediction=np.array([-1, -1, 1, 0]),
        chosen=[(2, 0), (0,), None, (0,)],
    )
    np.testing.assert_array_equal(made, [1, 0, 1, np.nan])


def test_any_of_several_targets_where_the_scorer_says_so(tmp_path):
    scored = {"match": {"value": "C", "answer": "A"}}
    samples = [sample(i, target=["A", "B"], scores=scored) for i in range(2)]
    document = log(samples)
    document["eval"] = {**EVAL, "scorers": [{"name": "match"}]}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document))
    assert one_log(path).reading.agreement == {"acc": (2, 2)}


def test_options_in_words_and_questions_in_messages(tmp_path):
    parts = [{"type": "text", "text": "Which?"}, {"type": "image", "image": "data:..."}]
    chat = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Example?"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": parts},
    ]
    samples = [
        sample(0, "green", "I", "red", input=chat),
        sample(1, "blue", "C", "blue", input=[{"role": "user", "content": "Which?\n(Image)"}]),
    ]
    found = one_log(write_json(tmp_path / "log.json", samples))
    assert (found.reading.name, found.reading.agreement) == ("text", {"acc": (2, 2)})
    keys = found.predictions.table["key"]
    assert keys[1] == f"{keys[0]}-1"  # the same text


def test_no_options_leaves_the_score(tmp_path):
    samples = [
        sample(0, "Yes", "C", "Yes", choices=None),
        sample(1, "No", "I", "Yes", choices=None),
    ]
    for one in samples:
        del one["choices"]
    found = one_log(write_json(tmp_path / "log.json", samples))
    assert found.predictions.accuracy() == 0.5
    assert found.predictions.table["n_options"].isna().all()
    assert "no-gold" in flags(found)


def test_old_samples_have_one_score(tmp_path):
    old = sample(0)
    old["score"] = old.pop("scores")["choice"]
    found = one_log(write_json(tmp_path / "log.json", [old, sample(1, "B", "I")]))
    assert found.reading.agreement == {"acc": (2, 2)}


def test_first_scorer_is_taken_and_said(tmp_path):
    scores = {"judge": {"value": "I"}, "choice": {"value": "C", "answer": "A"}}
    found = one_log(write_json(tmp_path / "log.json", [sample(0, scores=scores)]))
    assert found.predictions.accuracy() == 1.0  # the run lists "choice" first
    assert "several-scorers" in flags(found)


def test_failed_samples_are_not_scored(tmp_path):
    failed = sample(1, error={"message": "out of memory"})
    del failed["scores"]
    found = one_log(write_json(tmp_path / "log.json", [sample(0), failed], status="error"))
    np.testing.assert_array_equal(found.predictions.correct, [1, np.nan])
    assert flags(found) >= {"incomplete-run", "failed-samples", "unscored", "subject-skew"}
    assert list(found.predictions.table["flags"])[1] == ["error"]


@pytest.mark.parametrize("summaries", ["full", "none", "no-choices", "value-only", "cut"])
def test_archives_with_more_or_less_in_their_summaries(tmp_path, summaries):
    samples = [sample(0), sample(1, "B", "I"), sample(2, "", "I")]
    plain = one_log(write_json(tmp_path / "log.json", samples))
    found = one_log(write_archive(tmp_path / "log.eval", samples, summaries=summaries))
    assert found.reading.agreement == {"acc": (3, 3)}
    assert list(found.predictions.table["key"]) == list(plain.predictions.table["key"])
    np.testing.assert_array_equal(found.predictions.correct, [1, 0, 0])


@pytest.mark.parametrize("summaries", ["full", "none"])
def test_crashed_run_has_only_its_journal(tmp_path, summaries):
    path = write_archive(
        tmp_path / "log.eval", [sample(0), sample(1, "B", "I")], header=False, summaries=summaries
    )
    found = one_log(path)
    assert found.header.model == "org/model"
    assert found.reading.agreement == {"acc": (2, 2)}
    assert "incomplete-run" in flags(found)
    assert "'started'" in next(f.sentence for f in found.flags if f.flag == "incomplete-run")


def zstd_archive(path, members, *, frames=1):
    """Write members with method 93, as one or several frames, by patching a stored archive."""
    pieces = {}
    for name, text in members.items():
        data = text.encode()
        size = -(-len(data) // frames)
        parts = [data[i : i + size] for i in range(0, len(data), size)]
        pieces[name] = b"".join(zstandard.compress(part) for part in parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in pieces.items():
            archive.writestr(name, data)
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            raw[info.header_offset + 8 : info.header_offset + 10] = (93).to_bytes(2, "little")
        at = archive.start_dir
    for _ in pieces:
        raw[at + 10 : at + 12] = (93).to_bytes(2, "little")
        at += 46 + sum(int.from_bytes(raw[at + i : at + i + 2], "little") for i in (28, 30, 32))
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("frames", [1, 5])
def test_zstandard_in_frames(tmp_path, frames):
    samples = [sample(0), sample(1, "B", "I")]
    members = {
        "header.json": json.dumps({"status": "success", "eval": EVAL, "plan": PLAN}),
        **{f"samples/{s['id']}_epoch_1.json": json.dumps(s) for s in samples},
    }
    path = zstd_archive(tmp_path / "log.eval", members, frames=frames)
    assert one_log(path).reading.agreement == {"acc": (2, 2)}


def test_archive_that_grows_without_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("harmony_utils.logs.streams.MAX_SMALL", 1000)
    samples = [sample(0, input="a" * 3_000_000)]
    path = write_archive(tmp_path / "log.eval", samples, summaries="none")
    with pytest.raises(InputError, match="grows to more than 500 times"):
        read_logs([str(path)])


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
@pytest.mark.parametrize("path", [ARCHIVE, JSON])
def test_cut_off_files_say_so_in_one_line(tmp_path, path, keep):
    data = path.read_bytes()
    cut = tmp_path / path.name
    cut.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(InputError) as caught:
        read_logs([str(cut)])
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_member_and_odd_sample(tmp_path):
    data = bytearray(ARCHIVE.read_bytes())
    with zipfile.ZipFile(ARCHIVE) as archive:
        start = archive.getinfo("summaries.json").header_offset + 50
    data[start : start + 40] = bytes(40)
    broken = tmp_path / "broken.eval"
    broken.write_bytes(data)
    with pytest.raises(InputError, match=r"broken.eval: summaries.json"):
        read_logs([str(broken)])
    with pytest.raises(InputError, match=r"sample 2: not a sample of Inspect"):
        read_logs([str(write_json(tmp_path / "log.json", [sample(0), {"x": 1}]))])
    with pytest.raises(InputError, match="no rows"):
        read_logs([str(write_json(tmp_path / "none.json", []))])
