"""Chapter notebooks: thin, parameterised as the settings say, stripped, and alike."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import nbformat
import papermill
import pytest

from harmony_utils.files import read_json
from harmony_utils.pipeline import NOTEBOOKS, OPEN_ENDED_NOTEBOOKS
from harmony_utils.runs import recorded_folder
from harmony_utils.settings import OPEN_ENDED, AuditSettings, Normalisation, Variant
from harmony_utils.stages import open_audit

PROJECT = Path(__file__).resolve().parent.parent
COMMON = {
    "model": "smollm2-135m",
    "benchmark": "arc_easy",
    "limit": 0,
    "run_dir": "",
    "use_recorded": True,
}


CHAPTERS = sorted(path.name for path in (PROJECT / "notebooks").glob("[0-9]*.ipynb"))


def read(chapter: str):
    return nbformat.read(PROJECT / "notebooks" / chapter, as_version=4)


def tags(cell) -> list[str]:
    return cell.metadata.get("tags", [])


#: Chapters that are parameterised by a section of the settings.
SECTIONS = {
    **NOTEBOOKS,
    "sensitivity": "08_sensitivity.ipynb",
    "generation": OPEN_ENDED_NOTEBOOKS["predictions"],
}
#: What a chapter asks for instead, as its default.
ITS_OWN = {"generation": {"benchmark": "triviaqa", "limit": 100}}


@pytest.fixture(params=list(SECTIONS))
def stage(request) -> str:
    return request.param


@pytest.fixture(params=CHAPTERS)
def chapter(request) -> str:
    return request.param


def test_every_stage_has_its_chapter():
    assert {*NOTEBOOKS.values(), *OPEN_ENDED_NOTEBOOKS.values()} <= set(CHAPTERS)
    assert set(OPEN_ENDED) == set(OPEN_ENDED_NOTEBOOKS)


def test_parameters_are_the_settings_of_the_stage(stage):
    path = PROJECT / "notebooks" / SECTIONS[stage]
    found = papermill.inspect_notebook(str(path))
    defaults = {name: ast.literal_eval(about["default"]) for name, about in found.items()}
    section = getattr(AuditSettings(), stage)
    expected = {**COMMON, **ITS_OWN.get(stage, {}), **section.model_dump()}
    assert defaults == expected
    assert list(defaults)[: len(COMMON)] == list(COMMON)
    for name, about in found.items():
        assert about["inferred_type_name"] in ("str", "int", "float", "bool", "list"), name
        assert about["help"].strip(), f"{name} has no comment"


def test_the_parameters_cell_is_typed_and_alone(chapter):
    (cell,) = [c for c in read(chapter).cells if "parameters" in tags(c)]
    for line in cell.source.splitlines():
        assert re.match(r"\w+: (str|int|float|bool|list(\[\w+\])?) = .+  # [^=]+$", line), line


def test_outputs_are_stripped_but_for_the_check(chapter):
    kept = [c for c in read(chapter).cells if c.cell_type == "code" and c.outputs]
    assert kept, "the check cell keeps its output"
    for cell in kept:
        assert "keep_output" in tags(cell)
        assert "nbval-check-output" in tags(cell)
        assert cell.execution_count, "nbval takes a cell with outputs and no count for not run"


def test_cells_are_small_and_have_stable_names(chapter):
    notebook = read(chapter)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert len(code) <= 30
    for cell in code:
        if "parameters" not in tags(cell):
            assert len(cell.source.splitlines()) <= 15, cell.source
    ids = [c.id for c in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert notebook.metadata.kernelspec.name == "python3"


def test_chapters_follow_the_common_order(chapter):
    notebook = read(chapter)
    text = "\n".join(c.source for c in notebook.cells)
    title = notebook.cells[0].source.splitlines()[0]
    assert title.startswith("# ")
    assert title.rstrip().endswith("?"), title
    for part in ("Before you start", "What can go wrong", "Check yourself", "Key points"):
        assert part.lower() in text.lower(), part
    assert text.count("{exercise") >= 2
    assert text.count("{solution") >= 2
    assert "assert_allclose" in text or "assert_array" in text


def test_figures_go_through_the_package(chapter):
    code = "\n".join(c.source for c in read(chapter).cells if c.cell_type == "code")
    assert "plt." not in code
    assert "plots.show(" in code


def test_prose_states_no_result_of_the_embedded_run(chapter):
    """Prose holds for any model, so it may hold no number that this run gave."""
    folder = recorded_folder() / "arc_easy" / "smollm2-135m"
    result = read_json(folder / "harmony.json")
    temperature = read_json(folder / "affinity.json")["temperature"]
    measured = [result["accuracy"], result["harmony"], result["null"]["p_value"], temperature]
    forbidden = {f"{value:.{digits}f}".lstrip("0") for value in measured for digits in (3, 4)}
    forbidden |= {f" {size} questions" for size in (result["n_items"], *result["sizes"])}
    for cell in read(chapter).cells:
        if cell.cell_type == "markdown":
            assert not [text for text in forbidden if text in cell.source], cell.source


def test_open_audit_knows_every_common_parameter():
    assert set(COMMON) == set(inspect.signature(open_audit).parameters)


def test_settings_have_types_that_papermill_can_pass():
    for name in SECTIONS:
        for field in getattr(AuditSettings(), name).model_dump().values():
            assert isinstance(field, (str, int, float, bool, list))
    assert Variant
    assert Normalisation
