"""The whole line by the command: results, reuse, resuming after kills, refusals, the book."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from conftest import harmony_command

from harmony_utils import pipeline
from harmony_utils.errors import InputError, StageError
from harmony_utils.pipeline import NOTEBOOKS
from harmony_utils.runs import project_folder
from harmony_utils.settings import AuditSettings
from harmony_utils.stages import STEPS, open_audit
from harmony_utils.stages.variants import VARIANT_STEPS

RESULTS = [  # of the six stages; further analyses write theirs only when asked for
    file
    for name, step in STEPS.items()
    if step.stage in NOTEBOOKS and name not in VARIANT_STEPS.values()
    for file in step.files
]


@pytest.fixture(scope="module")
def folder(finished_run) -> Path:
    done, _ = finished_run
    return Path(json.loads(done.stdout)["run_dir"])


def hashes(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in RESULTS}


def test_json_has_what_was_promised(finished_run):
    done, _ = finished_run
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert {
        "model",
        "benchmark",
        "n_items",
        "accuracy",
        "accuracy_norm",
        "k",
        "sizes",
        "accuracies",
        "harmony",
        "bandwidth",
        "temperature",
        "cluster_names",
        "stability",
        "run_dir",
    } <= set(found)
    assert len(found["cluster_names"]) == found["k"]
    assert {"terms", "candidates", "example_ids"} <= set(found["cluster_names"][0])
    assert found["stability"]["n_seeds"] == 10
    assert found["n_items"] == 20
    assert sum(found["sizes"]) == 20
    assert len(found["accuracies"]) == found["k"]
    mean = sum(s * a for s, a in zip(found["sizes"], found["accuracies"], strict=True)) / 20
    assert mean == pytest.approx(found["accuracy"])
    told = [line for line in done.stderr.splitlines() if line.partition(":")[0] in NOTEBOOKS]
    assert told == [f"{stage}: done" for stage in NOTEBOOKS]  # a dying kernel may add a line


def test_executed_notebooks_are_whole_and_name_no_place(folder):
    for name in NOTEBOOKS.values():
        notebook = nbformat.read(folder / "notebooks" / name, as_version=4)
        outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
        assert outputs
        assert not [o for o in outputs if o.output_type == "error"]
        assert not [o for o in outputs if o.get("name") == "stderr"], name
        assert "papermill" not in notebook.metadata
    assert not list((folder / "notebooks").glob("failed/*"))


def test_the_same_command_again_reuses_everything(finished_run, tiny_model, quiz, folder):
    _, root = finished_run
    before = hashes(folder)
    start = time.monotonic()
    done = harmony_command("audit", "--model", tiny_model, "--benchmark", quiz, "--out", root)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"{stage}: reused" for stage in NOTEBOOKS]
    assert hashes(folder) == before
    assert time.monotonic() - start < 60
    assert "HARMONY" in done.stdout
    assert str(folder) in done.stdout


def test_a_changed_setting_reruns_only_what_follows(tiny_model, quiz, folder, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(folder.parent.parent, root)
    arguments = ("--model", tiny_model, "--benchmark", quiz, "--out", root)
    done = harmony_command("audit", *arguments, "-p", "rebalancing.n_random=30")
    assert done.returncode == 0, done.stderr
    told = [line.split(": ") for line in done.stderr.splitlines()]
    events = [line[1] for line in told if line[0] in NOTEBOOKS]
    assert events == [*["reused"] * 4, "done", "reused"]


def test_killed_at_any_moment_it_resumes_to_the_same_content(tiny_model, quiz, folder, tmp_path):
    root = tmp_path / "runs"
    command = [sys.executable, "-m", "harmony_utils.cli", "audit", "--json"]
    command += ["--model", str(tiny_model), "--benchmark", str(quiz), "--out", str(root)]
    command += ["-p", "predictions.chunk_size=4"]
    generator = random.Random(0)
    for _ in range(4):
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HARMONY_PROGRESS": "none"},
            start_new_session=True,
        )
        time.sleep(generator.uniform(4, 16))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for leftover in root.rglob("*.json"):
            if not leftover.name.startswith("."):
                json.loads(leftover.read_text())
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    resumed = Path(json.loads(done.stdout)["run_dir"])
    compared = [name for name in RESULTS if name != "predictions.parquet"]
    assert {n: hashes(resumed)[n] for n in compared} == {n: hashes(folder)[n] for n in compared}


def test_a_stage_that_breaks_keeps_its_notebook(tiny_model, quiz, tmp_path, monkeypatch):
    broken = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
        cells=[
            nbformat.v4.new_code_cell("model: str = ''", metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell("kept = 1"),
            nbformat.v4.new_code_cell("raise RuntimeError('no luck')"),
        ],
    )
    path = tmp_path / "01_predictions.ipynb"
    nbformat.write(broken, path)
    monkeypatch.setattr(pipeline, "notebook_path", lambda name: path)
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(tmp_path / "runs"))
    with pytest.raises(StageError, match="stage predictions failed: RuntimeError: no luck"):
        pipeline.run_stages(audit, AuditSettings(), benchmark=str(quiz), limit=0)
    assert (audit.run.folder / "notebooks" / "failed" / "01_predictions.ipynb").exists()
    assert not (audit.run.folder / "notebooks" / "01_predictions.ipynb").exists()


def test_notebooks_elsewhere_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("HARMONY_PROJECT", str(tmp_path))
    with pytest.raises(InputError, match="HARMONY_PROJECT"):
        pipeline.notebook_path("04_harmony.ipynb")


class Page(HTMLParser):
    """Collects images and whatever a page would fetch."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.images: list[dict] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "img":
            self.images.append(values)
        link = values.get("src") if tag in ("script", "img", "iframe", "source") else None
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            link = values.get("href")
        if link:
            self.fetched.append(link)


@pytest.fixture(scope="module")
def book(folder, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("book") / "html"
    done = harmony_command("book", "--run", folder, "--out", target)
    assert done.returncode == 0, done.stderr
    assert str(target / "index.html") in done.stdout
    return target


def test_every_figure_has_a_real_alternative_text(book):
    pages = sorted((book / "notebooks").glob("[0-9]*.html"))
    chapters = sorted((project_folder() / "notebooks").glob("[0-9]*.ipynb"))
    assert [page.stem for page in pages] == [chapter.stem for chapter in chapters]
    for page in [*pages, *sorted((book / "book").glob("*.html"))]:
        for image in Page(page).images:
            if "logo" in image.get("class", ""):
                continue
            alt = image.get("alt", "")
            assert len(alt) > 30, f"{page.name}: {alt!r}"
            assert " " in alt
            assert not re.search(r"\.(png|svg)|_images", alt), alt
    for page in pages:
        assert Page(page).images, f"{page.name} shows no figure"


def test_no_page_fetches_anything_from_elsewhere(book):
    for page in book.rglob("*.html"):
        outside = [u for u in Page(page).fetched if re.match(r"(https?:)?//", u)]
        assert not outside, f"{page.name}: {outside}"


def test_an_unchanged_book_is_not_built_again(book, folder):
    stamp = (book / "index.html").stat().st_mtime_ns
    done = harmony_command("book", "--run", folder, "--out", book)
    assert done.returncode == 0, done.stderr
    assert (book / "index.html").stat().st_mtime_ns == stamp


def test_a_book_needs_a_finished_audit(tmp_path):
    done = harmony_command("book", "--run", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no run.json there" in done.stderr


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_mathematics_is_drawn_without_a_network(book, tmp_path):
    page = next(p for p in sorted(book.rglob("*.html")) if 'class="math' in p.read_text())
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
    command += ["--disable-component-update", f"--user-data-dir={tmp_path}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert "<mjx-container" in done.stdout
