"""A study: configuration, plan, resources, a real small run, what fails, kills, refusals."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import nbformat
import pandas as pd
import pytest
import yaml
from conftest import build_model, harmony_command, write_quiz

from harmony_utils import grid_commands
from harmony_utils.errors import InputError
from harmony_utils.files import file_hash, read_json, write_json
from harmony_utils.grid import read_grid, workflow_folder
from harmony_utils.respondents import PREFIX, respond
from harmony_utils.runs import project_folder
from harmony_utils.scoring.catalogue import find_entry, list_models
from harmony_utils.sources import list_benchmarks, load_benchmark
from harmony_utils.sources.load import benchmark_name

needs_snakemake = pytest.mark.skipif(
    importlib.util.find_spec("snakemake") is None, reason="snakemake is not installed"
)
slow = pytest.mark.skipif(
    "HARMONY_SLOW_TESTS" not in os.environ, reason="minutes long: set HARMONY_SLOW_TESTS=1"
)
CONFIGS = project_folder() / "workflow" / "config"


def write_config(folder: Path, **config) -> Path:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


# configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small", "study"])
def test_configurations_fit_the_schema_and_name_what_is_there(name):
    schema = read_json(workflow_folder() / "config.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    grid = read_grid(CONFIGS / f"{name}.yaml")
    known = {entry.name: entry for entry in list_benchmarks()}
    assert all(benchmark.name in known for benchmark in grid.benchmarks)
    if name == "small":
        assert all(known[b.name].offline for b in grid.benchmarks)
        assert all(m.entry.offline for m in grid.models)
    else:
        packaged = {"SmolLM2"}
        asked = {e.name for e in list_models() if not e.offline and e.family not in packaged}
        assert {m.text for m in grid.models} == asked
        assert (len(grid.models), len(grid.benchmarks)) == (36, 19)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"models": ["smolm"]}, "did you mean smollm2-135m"),
        ({"models": ["smolm", "gema3"]}, r"and 1 more names"),
        ({"benchmarks": ["arc_esay"]}, "arc_easy"),
        ({"benchmarks": ["gone.jsonl"]}, "gone.jsonl"),
        ({"models": []}, "models"),
        ({"benchmark": ["copa"]}, "'benchmark' was unexpected"),
        ({"limit": -1}, "limit: -1 is less"),
        ({"last_stage": "harmoni"}, "last_stage"),
        ({"settings": {"harmony": {"bandwith": 1}}}, "harmony has bandwidth"),
        ({"settings": {"harmoni": {}}}, "settings"),
        ({"plane": True}, "at least 3 of them, and there are 1"),
        ({"plane": True, "last_stage": "affinity"}, "needs subdomains, and audits end with"),
        ({"gpu": True, "gpu_memory_gb": 0.1}, "needs about 1 GB as float32, gpu_memory_gb is 0.1"),
    ],
)
def test_a_bad_configuration_is_one_line(tmp_path, config, message):
    path = write_config(tmp_path, **{"models": ["smollm2-135m"], "benchmarks": ["copa"], **config})
    with pytest.raises(InputError, match=message) as caught:
        read_grid(path)
    assert "\n" not in str(caught.value)


def test_two_cells_may_not_write_one_folder(tmp_path, tiny_model):
    (tmp_path / "a").mkdir()
    shutil.copytree(tiny_model, tmp_path / "a" / "tiny")
    shutil.copytree(tiny_model, tmp_path / "tiny")
    path = write_config(tmp_path, models=["tiny", "a/tiny"], benchmarks=["copa"])
    with pytest.raises(InputError, match="would both write the folder 'tiny'"):
        read_grid(path)
    write_quiz(tmp_path / "quiz.jsonl")
    write_quiz(tmp_path / "a" / "Quiz.jsonl")
    path = write_config(tmp_path, models=["tiny"], benchmarks=["quiz.jsonl", "a/Quiz.jsonl"])
    with pytest.raises(InputError, match="would both write the folder 'quiz'"):
        read_grid(path)


@pytest.mark.parametrize("text", ["copa", "mmlu:anatomy,astronomy", "QUIZ", "QUIZ?subjects=even"])
def test_the_name_of_a_benchmark_is_known_before_it_is_read(text, quiz):
    text = text.replace("QUIZ", str(quiz))
    assert benchmark_name(text) == load_benchmark(text).name


def test_what_a_job_needs_comes_from_the_catalogue():
    grid = read_grid(CONFIGS / "study.yaml")
    plan = grid.plan()
    for model in grid.models:
        gigabytes = find_entry(model.text).memory_gb("bfloat16")
        assert plan["models"][model.slug]["mb"] == 2000 + int(1000 * gigabytes)
    small, large = (plan["models"][f"meta-llama--Llama-3.1-{size}"] for size in ("8B", "70B"))
    assert small["minutes"] < large["minutes"]
    assert plan["benchmarks"]["mmlu"]["mb"] == 2000 + int(24 * 14042**2 / 1e6)
    assert plan["stages"]["predictions"]["settings"] == [
        "predictions.dtype=bfloat16",
        "predictions.batch_size=32",
    ]


def test_memory_does_not_grow_with_the_pairs_beyond_all_pairs(tmp_path):
    config = {"models": ["smollm2-135m"], "benchmarks": ["mmlu"]}
    whole = read_grid(write_config(tmp_path, **config)).matrix_mb("mmlu")
    few = {"affinity": {"all_pairs_up_to": 1000}}
    links = read_grid(write_config(tmp_path, **config, settings=few)).matrix_mb("mmlu")
    assert whole > 24 * 14_042**2 / 1e6
    assert links < 2600


# the workflow, with notebooks that only call the package ------------------------------------


def thin_notebook(stage: str, source: str) -> nbformat.NotebookNode:
    """Keep a chapter's parameters and replace the rest by one call."""
    chapter = nbformat.reads(source, as_version=4)
    parameters = next(
        cell for cell in chapter.cells if "parameters" in cell.metadata.get("tags", [])
    )
    names = re.findall(r"^(\w+):", parameters.source, re.MULTILINE)[5:]
    given = ", ".join(f"{name}={name}" for name in names if name != "temperature")
    call = (
        "from harmony_utils.stages import open_audit\n"
        "audit = open_audit(model=model, benchmark=benchmark, limit=limit, run_dir=run_dir,\n"
        "                   use_recorded=use_recorded)\n"
        f"audit.{stage}({given})\n"
    )
    if stage == "predictions":  # as the chapter does: it needs the weights too
        call += "print(id(audit.language_model))\n"
    chapter.cells = [parameters, nbformat.v4.new_code_cell(call)]
    return chapter


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project whose chapters only compute: the workflow is the real one."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "notebooks").mkdir()
    (folder / "workflow").symlink_to(project_folder() / "workflow")
    (folder / "results").mkdir()
    for path in sorted((project_folder() / "notebooks").glob("0[1-6]_*.ipynb")):
        stage = path.stem.partition("_")[2]
        nbformat.write(
            thin_notebook(stage, path.read_text("utf-8")), folder / "notebooks" / path.name
        )
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory, tiny_model) -> Path:
    """A folder with two models, two files of questions, and a third with too few of them."""
    folder = tmp_path_factory.mktemp("study")
    shutil.copytree(tiny_model, folder / "tiny")
    build_model(folder / "other", seed=1)
    write_quiz(folder / "quiz.jsonl", 12)
    write_quiz(folder / "sums.jsonl", 14)
    return folder


def grid_command(project: Path, config: Path, out: Path, *more: str):
    return harmony_command(
        "grid", "--config", config, "--out", out, *more, env={"HARMONY_PROJECT": str(project)}
    )


def results(out: Path) -> dict[str, str]:
    """Hashes of what a study is for: results, stamps and the table; no notebooks, no logs."""
    wanted = [
        *out.glob("runs/*/*/*.parquet"),
        *out.glob("runs/*/*/*.npy"),
        *out.glob("done/**/*.json"),
    ]
    wanted += [*out.glob("runs/*/*/affinity.json"), out / "cells.csv"]
    return {str(path.relative_to(out)): file_hash(path) for path in wanted}


@pytest.fixture(scope="module")
def whole(project, study):
    """A study that ran without a break: (the command's output, its folder, its configuration)."""
    config = write_config(
        study,
        models=["tiny", "other"],
        benchmarks=["quiz.jsonl", "sums.jsonl"],
        last_stage="affinity",
        settings={"predictions": {"chunk_size": 4}},
    )
    out = study / "whole"
    return grid_command(project, config, out, "--cores", "2"), out, config


@needs_snakemake
def test_a_study_runs_every_cell_and_loads_each_model_once(whole):
    done, out, _ = whole
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out / "cells.csv")
    assert table[["benchmark", "model", "n_items"]].to_numpy().tolist() == [
        ["quiz", "tiny", 12],
        ["quiz", "other", 12],
        ["sums", "tiny", 14],
        ["sums", "other", 14],
    ]
    assert table["accuracy"].between(0, 1).all()
    assert (out / "report.html").stat().st_size > 100_000
    for model in ("tiny", "other"):
        loaded = set()
        for benchmark in ("quiz", "sums"):
            path = out / "runs" / benchmark / model / "notebooks" / "01_predictions.ipynb"
            notebook = nbformat.read(path, as_version=4)
            loaded.add(notebook.cells[-1].outputs[-1]["text"])
            assert notebook.cells[-1].execution_count <= 3  # the namespace was emptied
        assert len(loaded) == 1, "the same object in memory: one kernel, one loading"


@needs_snakemake
def test_run_again_a_study_does_nothing(whole, project):
    _, out, config = whole
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.json") if "done" in str(path)}
    again = grid_command(project, config, out, "--cores", "2")
    assert again.returncode == 0, again.stderr
    assert "Nothing to be done" in again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in before}


@needs_snakemake
def test_a_cell_that_fails_stops_no_other_and_is_not_taken_for_done(project, study):
    config = write_config(
        study, models=["tiny"], benchmarks=["quiz.jsonl", "one.jsonl"], last_stage="affinity"
    )
    row = {"question": "What is 1 plus 1?", "options": ["2", "3"], "gold": 0}
    (study / "one.jsonl").write_text(json.dumps(row) + "\n")
    out = study / "failing"
    done = grid_command(project, config, out, "--cores", "2")
    assert done.returncode == 4, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("harmony: the study is not complete")
    finished = {str(p.relative_to(out / "done")) for p in out.glob("done/**/*.json")}
    assert "affinity/quiz/tiny.json" in finished
    assert "affinity/one/tiny.json" not in finished
    kept = [str(p.relative_to(out / "runs")) for p in out.rglob("failed/*.ipynb")]
    assert [place.split("/")[0] for place in kept] == ["one"]
    assert not (out / "cells.csv").exists()
    write_quiz(study / "one.jsonl", 6)  # mended, the same command goes on
    again = grid_command(project, config, out, "--cores", "2")
    assert again.returncode == 0, again.stderr
    assert (out / "cells.csv").exists(), again.stderr
    assert pd.read_csv(out / "cells.csv")["n_items"].tolist() == [12, 6]
    assert not list(out.rglob("failed/*.ipynb"))


@needs_snakemake
def test_the_plane_is_drawn_up_from_the_cells_of_the_study(study, tmp_path):
    """The rule alone: audits with known answers and subdomains stand where cells would be."""
    out = tmp_path / "a study"
    models = ["smollm2-135m", "smollm2-135m#layer=10", "smollm2-135m#layer=20"]
    config = write_config(study, models=models, benchmarks=["quiz.jsonl"], plane=True)
    done = grid_command(project_folder(), config, out, "--dry-run")
    assert done.returncode == 0, done.stderr
    plan = read_json(out / "plan.json")
    benchmark = load_benchmark(str(study / "quiz.jsonl"))
    folders = [Path("runs") / "quiz" / name for name in plan["models"]]
    for folder, rule in zip(folders, ("first", "longest", "random"), strict=True):
        write_json(out / folder / "run.json", {})
        respond(PREFIX + rule, benchmark).save(out / folder / "predictions.parquet")
        labels = pd.DataFrame({"key": benchmark.keys(), "label": [0, 1] * 6})
        labels.to_parquet(out / folder / "partition.parquet")
    (out / "runs" / "quiz" / "of another study").mkdir()  # not listed, so not read
    write_json(out / "runs" / "quiz" / "of another study" / "run.json", {})
    (out / "runs.txt").write_text("".join(f"{folder}\n" for folder in folders))
    command = [sys.executable, "-m", "snakemake", "plane.csv", "--cores", "1"]
    command += ["--snakefile", str(workflow_folder() / "Snakefile"), "--directory", str(out)]
    command += ["--configfile", str(out / "plan.json"), "--allowed-rules", "plane"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + (out / "logs" / "plane.log").read_text()
    (row,) = pd.read_csv(out / "plane.csv").to_dict("records")
    assert (row["benchmark"], row["n_items"], row["n_respondents"]) == ("quiz", 12, 3)
    assert 0 <= row["mean_low"] <= row["mean"] <= row["mean_high"] <= 1


@slow
@needs_snakemake
def test_killed_at_any_moment_it_goes_on_to_the_same_results(whole, project, study):
    _, complete, config = whole
    config = write_config(study, **yaml.safe_load((complete / "config.json").read_text()))
    out = study / "killed"
    command = [sys.executable, "-m", "harmony_utils.cli", "grid", "--config", str(config)]
    command += ["--out", str(out), "--cores", "2"]
    environment = {**os.environ, "HARMONY_PROGRESS": "none", "HARMONY_PROJECT": str(project)}
    generator = random.Random(0)
    for _ in range(2):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        time.sleep(generator.uniform(8, 20))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in out.glob("done/**/*.json"):
            assert path.name.startswith(".") or read_json(path)["finished"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert results(out) == results(complete)


# plans, without running ---------------------------------------------------------------------


@needs_snakemake
def test_the_whole_study_is_planned(tmp_path):
    done = harmony_command(
        "grid", "--config", CONFIGS / "study.yaml", "--dry-run", "--out", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    counts = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, re.MULTILINE))
    later = ("affinity", "clustering", "harmony", "rebalancing", "scaling")
    expected = {"predictions": 36, **dict.fromkeys(later, 36 * 19), "cells": 1, "plane": 1}
    assert {name: int(counts[name]) for name in expected} == expected


@needs_snakemake
def test_jobs_submitted_to_slurm_ask_for_what_the_catalogue_says(tmp_path):
    models = ["Qwen/Qwen3-8B", "google/gemma-3-1b-pt"]
    config = write_config(
        tmp_path, models=models, benchmarks=["copa", "mmlu"], gpu=True, last_stage="affinity",
        settings={"predictions": {"dtype": "bfloat16"}},
    )  # fmt: skip
    out = tmp_path / "out"
    assert harmony_command("grid", "--config", config, "--dry-run", "--out", out).returncode == 0
    profile = yaml.safe_load((workflow_folder() / "profiles/slurm/config.yaml").read_text())
    assert profile["executor"] == "slurm"
    profile = {k: v for k, v in profile.items() if k not in ("executor", "jobs")} | {"cores": 1}
    profile = {k: v for k, v in profile.items() if not k.startswith("slurm")}
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "config.yaml").write_text(yaml.safe_dump(profile))
    told = subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", str(workflow_folder() / "Snakefile"),
         "--directory", str(out), "--configfile", str(out / "plan.json"), "--dry-run",
         "--profile", str(tmp_path / "profile")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    plan = read_json(out / "plan.json")
    asked = {}
    for rule, block in re.findall(
        r"^ *rule (\w+):\n((?: +.+\n)+)", told.stdout + told.stderr, re.M
    ):
        wildcards = dict(
            re.findall(r"(\w+)=([\w.-]+)", re.search(r"wildcards: (.*)|$", block)[1] or "")
        )
        line = re.search(r"resources: (.*)", block)[1]
        asked[rule, *wildcards.values()] = dict(re.findall(r"(\w+)=(\d+)", line))
    for slug, about in plan["models"].items():
        found = asked["predictions", slug]
        assert int(found["mem_mb"]) == about["mb"]
        assert int(found["runtime"]) == about["minutes"]
        assert found["gpu"] == "1"
        found = asked["affinity", "mmlu", slug]
        assert int(found["mem_mb"]) == plan["benchmarks"]["mmlu"]["mb"]
        assert "gpu" not in found


def test_a_study_is_held_by_one_grid_at_a_time(tmp_path):
    held = grid_commands._held(tmp_path / "study")
    with (
        held,
        pytest.raises(InputError, match="another `harmony grid` is running"),
        grid_commands._held(tmp_path / "study"),
    ):
        pass
    with grid_commands._held(tmp_path / "study"):
        pass


def test_refusals_of_the_command(tmp_path):
    config = write_config(tmp_path, models=["smollm2-135m"], benchmarks=["copa"])
    out = tmp_path / "out"
    for arguments, message in {
        ("--config", tmp_path / "none.yaml"): "no such file",
        ("--config", config, "--profile", "slrum"): "write local or slurm",
    }.items():
        done = harmony_command("grid", "--out", out, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1
        assert message in done.stderr
    assert not out.exists()
    done = harmony_command("stage", "--stage", "affinty", "--model", "m", "--benchmark", "b")
    assert done.returncode == 2
    assert "write one of predictions" in done.stderr
