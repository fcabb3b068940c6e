"""The book's sources agree with the package they describe; the build itself is tested elsewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from harmony_utils.plots import method_overview
from harmony_utils.scoring.catalogue import list_models
from harmony_utils.settings import SECTIONS, AuditSettings
from harmony_utils.sources import list_benchmarks, load_benchmark

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = _load(BOOK / "_ext" / "generated.py")


def page(name: str) -> str:
    return (BOOK / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_every_paper_of_the_catalogue_is_in_the_bibliography():
    bibliography = (BOOK / "references.bib").read_text(encoding="utf-8")
    known = re.findall(r"^@\w+\{([^,]+),", bibliography, re.MULTILINE)
    assert len(known) == len(set(known))
    wanted = {entry.citation for entry in list_benchmarks() if entry.citation}
    assert wanted <= set(known)


def test_settings_page_has_a_generated_table_of_every_stage():
    found = re.findall(r"```\{settings-table\} (\w+)\n```", page("settings"))
    assert tuple(found) == SECTIONS


@pytest.mark.parametrize("stage", SECTIONS)
def test_settings_table_has_a_row_for_every_parameter(stage):
    rows = generated.settings_table(stage).splitlines()[2:]
    fields = AuditSettings.model_fields[stage].annotation.model_fields
    assert [row.split("`")[1] for row in rows] == [f"{stage}.{name}" for name in fields]
    assert all(field.description in row for row, field in zip(rows, fields.values(), strict=True))


def test_limits_are_written_in_words():
    fields = AuditSettings.model_fields["predictions"].annotation.model_fields
    assert generated.allowed(fields["few_shot"]) == "whole number, at least 0, at most 64"
    assert generated.allowed(fields["format"]) == "`cloze` or `letter`"


@pytest.mark.parametrize(
    ("name", "directive"),
    [
        ("benchmarks", "benchmark-table"),
        ("licences", "benchmark-licences"),
        ("howto_model", "model-table"),
    ],
)
def test_catalogue_pages_are_generated(name, directive):
    for where in ("offline", "hub"):
        assert f"```{{{directive}}} {where}\n```" in page(name)


def test_catalogue_tables_list_every_entry_once():
    benchmarks = generated.benchmark_table("offline") + generated.benchmark_table("hub")
    assert all(benchmarks.count(f"| `{entry.name}` |") == 1 for entry in list_benchmarks())
    models = generated.model_table("offline") + generated.model_table("hub")
    assert all(models.count(f"| `{entry.name}` |") == 1 for entry in list_models())


def test_columns_and_parameters_of_files_come_from_the_docstring():
    arguments = re.findall(r"```\{package-docstring\} (.+)\n```", page("howto_benchmark"))
    assert len(arguments) == 3
    assert all("eval-rst" in generated.package_docstring(argument) for argument in arguments)


def test_the_examples_of_the_benchmark_page_can_be_loaded(tmp_path):
    text = page("howto_benchmark")
    (tmp_path / "quiz.jsonl").write_text(blocks(text, "json")[0], encoding="utf-8")
    (tmp_path / "quiz.csv").write_text(blocks(text, "text")[0], encoding="utf-8")
    from_json = load_benchmark(str(tmp_path / "quiz.jsonl"))
    from_csv = load_benchmark(str(tmp_path / "quiz.csv"))
    assert from_json.items == from_csv.items
    assert len(from_json) == 3


@pytest.mark.parametrize("path", ["README.md", "book/intro.md"])
def test_picture_of_the_method_has_the_alt_text_of_its_function(path):
    assert method_overview()[1] in (ROOT / path).read_text(encoding="utf-8")


def test_setup_page_names_every_target_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)
    assert {f"make {target}" for target in targets} == set(
        re.findall(r"^\| `(make \w+)` \|", page("setup"), re.MULTILINE)
    )


def test_every_page_is_in_the_table_of_contents():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    listed = [contents["root"]] + [
        chapter["file"] for part in contents["parts"] for chapter in part["chapters"]
    ]
    pages = {f"book/{path.stem}" for path in BOOK.glob("*.md")}
    assert pages == {name for name in listed if name.startswith("book/")}


def test_every_picture_of_a_page_has_an_alt_text_that_is_a_sentence():
    for path in BOOK.glob("*.md"):
        for figure in re.findall(
            r"```\{(?:figure|image)\}.*?```", path.read_text("utf-8"), re.DOTALL
        ):
            alt = re.search(r":alt: (.+)", figure)
            assert alt, path.name
            assert len(alt[1]) > 40, path.name


def test_pages_load_nothing_from_the_network():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    assert (BOOK / "_static" / config["mathjax_path"]).is_file()
    assert config["nb_ipywidgets_js"] == {}
    style = (BOOK / "_static" / "custom.css").read_text(encoding="utf-8")
    assert "http" not in style
