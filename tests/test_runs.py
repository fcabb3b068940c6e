"""Run folders: nothing half-written, nothing stale reused, nothing shared by two writers."""

from __future__ import annotations

import json
import multiprocessing

import pytest

from harmony_utils import runs
from harmony_utils.errors import InputError
from harmony_utils.files import write_atomically, write_json, write_text
from harmony_utils.runs import Run, step_key

KEY = step_key("harmony", version=1, settings={"bandwidth": 0.1}, inputs={})


@pytest.fixture
def finished(tmp_path):
    run = Run(tmp_path / "run")
    write_json(run.path("harmony.json"), {"harmony": 0.9})
    run.finish("harmony", key=KEY, files=["harmony.json"], seconds=1.0)
    return run


def test_a_failed_write_leaves_the_old_content(tmp_path):
    path = write_text(tmp_path / "a" / "x.txt", "old")

    def fail(temporary):
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]


def test_not_a_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"harmony": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_a_step_is_current_only_for_its_key_and_files(finished):
    assert finished.is_current("harmony", KEY)
    assert not finished.is_current(
        "harmony", step_key("harmony", version=2, settings={}, inputs={})
    )
    assert not finished.is_current("clustering", KEY)
    finished.path("harmony.json").write_text('{"harmony": 0.8}\n ')
    assert not finished.is_current("harmony", KEY)
    finished.path("harmony.json").unlink()
    assert not finished.is_current("harmony", KEY)


def test_a_touched_but_equal_file_is_still_current(finished):
    path = finished.path("harmony.json")
    path.write_bytes(path.read_bytes())
    assert finished.is_current("harmony", KEY)


def test_same_size_other_content_is_noticed(finished):
    path = finished.path("harmony.json")
    path.write_bytes(path.read_bytes().replace(b"0.9", b"0.8"))
    assert not finished.is_current("harmony", KEY)


def test_keys_depend_on_everything_given():
    keys = {
        KEY,
        step_key("harmony", version=2, settings={"bandwidth": 0.1}, inputs={}),
        step_key("harmony", version=1, settings={"bandwidth": 0.2}, inputs={}),
        step_key("harmony", version=1, settings={"bandwidth": 0.1}, inputs={"a": "b"}),
        step_key("affinity", version=1, settings={"bandwidth": 0.1}, inputs={}),
    }
    assert len(keys) == 5


def test_slim_copies_say_what_they_leave_out(finished, tmp_path):
    finished.path("big.npy").write_bytes(b"1234")
    finished.finish("predictions", key=KEY, files=["big.npy"])
    slim = finished.copy_slim(tmp_path / "slim", keep={"harmony.json"})
    assert not slim.path("big.npy").exists()
    assert slim.step("predictions")["dropped"] == ["big.npy"]
    assert slim.is_current("predictions", KEY)
    fresh = Run(tmp_path / "fresh")
    fresh.adopt(slim, "harmony")
    assert fresh.is_current("harmony", KEY)
    assert fresh.step("harmony")["origin"] == "recorded"


def test_a_damaged_record_is_said(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="delete the run folder"):
        Run(tmp_path).step("harmony")


def _hold(folder, ready, release):
    with Run(folder).lock():
        ready.set()
        release.wait(20)


def test_two_writers_do_not_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "LOCK_SECONDS", 0.1)
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready, release))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(InputError, match="another process"), Run(tmp_path).lock():
            pass
    finally:
        release.set()
        other.join()
    with Run(tmp_path).lock():
        pass


def test_provenance_is_recorded(finished):
    step = json.loads(finished.path("run.json").read_text())["steps"]["harmony"]
    assert step["versions"]["python"].count(".") == 2
    assert set(step["files"]["harmony.json"]) == {"sha256", "bytes", "mtime_ns"}
