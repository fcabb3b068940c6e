"""The command refuses in one line, lists what is there, and can be interrupted."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROJECT, harmony_command, write_quiz
from rich.console import Console

from harmony_utils import files, terminal
from harmony_utils.cli import main

RECORDED = PROJECT / "results" / "recorded" / "arc_easy" / "smollm2-135m"


def refused(arguments, code, capsys):
    """Run the command here; return its complaint, which must be one line."""
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == code
    told = capsys.readouterr().err
    assert told.startswith("harmony: ")
    assert told.count("\n") == 1
    return told


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, tiny_model):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "q", "options": ["a", "b"], "gold": 5}\n')
    cases = {
        ("--benchmark", str(bad)): "bad.jsonl",
        ("--benchmark", "arc_esay"): "arc_easy",
        ("--model", "smolm"): "smollm2-135m",
        ("-p", "harmony.bandwith=1"): "harmony has bandwidth",
        ("--limit", "-1"): "limit -1",
        ("--limit", "many"): "--limit",
    }
    for arguments, message in cases.items():
        done = harmony_command("audit", "--out", tmp_path / "runs", "--json", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_file_without_its_option_is_told_where_it_goes(capsys):
    assert refused(["audit", "quiz.jsonl"], 2, capsys).count("goes after --benchmark") == 1


def test_what_the_system_refuses_is_one_line(tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(RECORDED / "predictions.parquet", run)
    (tmp_path / "file").write_text("")
    told = refused(["export", str(run), "--out", str(tmp_path / "file" / "a.csv")], 2, capsys)
    assert str(tmp_path / "file" / "a.csv") in told
    assert "check that the path is right" in told

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    (tmp_path / "b.csv").write_text("old")
    told = refused(["export", str(run), "--out", str(tmp_path / "b.csv")], 4, capsys)
    assert f"{tmp_path / 'b.csv'}: no space left on device; make room" in told
    assert (tmp_path / "b.csv").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.csv", "file", "run"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_has_seen_enough_is_no_failure(more):
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` does after its last line
    command = [sys.executable, "-m", "harmony_utils.cli", "benchmarks", *more]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_tables_lose_no_name_where_they_are_narrow(monkeypatch):
    name = "meta-llama/Llama-3.1-8B-Instruct"
    table = terminal.new_table("model", "accuracy")
    table.add_row(name, "0.123456")
    shown = io.StringIO()
    Console(file=shown, width=24).print(table)
    letters = "".join(c for c in shown.getvalue() if c.isalnum() or c in "-/.")
    assert "…" not in shown.getvalue()
    assert set(name) <= set(letters)
    assert letters.count("l") == ("model" + name).count("l")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal._RoomyConsole(file=io.StringIO()).width >= 120
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal._RoomyConsole(file=io.StringIO()).width == 60


def test_help_and_version_start_without_what_computes():
    heavy = "{'numpy', 'pandas', 'pydantic', 'torch', 'sklearn'}"
    script = f"import sys, harmony_utils.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stdout + done.stderr


def test_version_and_short_help(capsys):
    for arguments, text in (["--version"], "harmony 0."), (["audit", "-h"], "--benchmark"):
        with pytest.raises(SystemExit) as done:
            main(arguments)
        assert done.value.code == 0
        assert text in capsys.readouterr().out


def test_interrupted_is_130_and_says_how_to_go_on(tmp_path, tiny_model):
    quiz = write_quiz(tmp_path / "quiz.jsonl")
    command = [sys.executable, "-m", "harmony_utils.cli", "audit", "--model", str(tiny_model)]
    command += ["--benchmark", str(quiz), "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # a shell in the background may have told its children to ignore the signal
    patience = time.monotonic() + 120
    while not list(tmp_path.rglob(".audit.lock")) and time.monotonic() < patience:
        time.sleep(0.2)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "the same command goes on" in told


def test_lists_and_doctor_speak_json():
    for command in ("models", "benchmarks", "doctor"):
        done = harmony_command(command, "--json")
        assert json.loads(done.stdout), command
        assert done.returncode == 0, done.stderr
    plain = harmony_command("benchmarks", env={"COLUMNS": "200"})
    assert "arc_easy" in plain.stdout
    assert "needs a hub" in plain.stdout
    assert "lm-eval:NAME" in plain.stdout
