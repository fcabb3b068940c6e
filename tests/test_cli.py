"""The command refuses in one line, lists what is there, and can be interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from conftest import harmony_command, write_quiz


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
