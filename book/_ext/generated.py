"""Parts of the book that are written from the package itself, so that they cannot drift.

Each directive takes one argument and puts Markdown in its place:

- ``settings-table STAGE``: every parameter of a stage, from :mod:`harmony_utils.settings`;
- ``benchmark-table offline`` or ``hub``: the catalogue of benchmarks;
- ``benchmark-licences offline`` or ``hub``: their licences and papers;
- ``model-table offline``, ``hub`` or ``rules``: the catalogue of models, and what answers without
  one;
- ``size-table large_affinity``: time and memory by number of questions, as recorded;
- ``package-docstring MODULE: HEADING``: one section of a module's docstring.

For the API page it also lets docstrings name a function without the module it is defined in, as
long as only one has that name, and keeps colons in the docstrings of constants and properties.
"""

from __future__ import annotations

import importlib
import re
import types
import typing
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from harmony_utils.respondents import PREFIX, list_respondents
from harmony_utils.scoring.catalogue import list_models
from harmony_utils.settings import AuditSettings
from harmony_utils.sources import list_benchmarks
from harmony_utils.stages import recorded_large_affinity

_kept: dict[str, list[str]] = {}
_RECORDED = {"large_affinity": recorded_large_affinity}
_SIGNS = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}"}


def settings_table(stage: str) -> str:
    """Return one row per parameter of a stage: name, default, meaning, what is allowed."""
    section = AuditSettings.model_fields[stage].annotation
    rows = [
        [
            f"`{stage}.{name}`",
            f"`{_written(field.default)}`",
            field.description + _note(field),
            allowed(field),
        ]
        for name, field in section.model_fields.items()
    ]
    return _table(["parameter", "default", "meaning", "allowed"], rows)


def allowed(field: FieldInfo) -> str:
    """Say in words which values a parameter can have."""
    limits = [
        words.format(_written(getattr(bound, key)))
        for bound in field.metadata
        for key, words in _SIGNS.items()
        if getattr(bound, key, None) is not None
    ]
    return ", ".join([_kind(field.annotation), *limits])


def benchmark_table(where: str) -> str:
    """Return one row per benchmark that is packaged (``offline``) or on a hub (``hub``).

    What was decided in reading each one follows as a list, for width.
    """
    entries = _benchmarks(where)
    rows = [
        [
            f"`{entry.name}`",
            entry.title,
            entry.type,
            f"{entry.n_items:,}",
            _span(*entry.n_options) if entry.n_options else "–",
            f"{entry.n_subjects} ({entry.subject_kind})" if entry.n_subjects else "–",
            entry.split,
        ]
        for entry in entries
    ]
    notes = [f"- `{entry.name}`: {entry.note}" for entry in entries if entry.note]
    table = _table(["name", "what it asks", "type", "items", "options", "subjects", "split"], rows)
    return "\n".join([table, "", "How they are read:", "", *notes])


def benchmark_licences(where: str) -> str:
    """Return one row per benchmark: licence as stated by its authors, paper and home."""
    rows = [
        [
            f"`{entry.name}`",
            entry.licence,
            f"{{cite}}`{entry.citation}`" if entry.citation else "–",
            f"[dataset]({entry.url})" if entry.url else "this project",
        ]
        for entry in _benchmarks(where)
    ]
    return _table(["name", "licence", "paper", "home"], rows)


def model_table(where: str) -> str:
    """Return one row per model that is packaged (``offline``) or on a hub (``hub``), or per rule
    (``rules``)."""
    if where == "rules":
        rules = [[f"`{PREFIX}{rule.name}`", rule.title] for rule in list_respondents()]
        return _table(["name", "what answers"], rules)
    rows = [
        [
            f"`{entry.name}`",
            f"[{entry.title}]({entry.source})",
            f"{entry.parameters / 1e6:,.0f} million",
            f"{entry.tokens / 1e12:g}" if entry.tokens else "–",
            str(entry.layers),
            f"{entry.memory_gb():.1f}",
            entry.licence + (", gated" if entry.gated else ""),
            entry.note or "–",
        ]
        for entry in list_models()
        if entry.offline == (where == "offline")
    ]
    names = ["name", "model", "parameters", "tokens (10¹²)", "layers", "memory (GB, bf16)"]
    return _table([*names, "licence", "note"], rows)


def size_table(name: str) -> str:
    """Return one row per way and size: data, questions, vocabulary, minutes of one core, memory."""
    found = _RECORDED[name]()
    rows = [
        [
            row.data.upper() if row.data == "mmlu" else row.data,
            f"{row.number:,} {row.route}" if row.number else row.route,
            f"{row.n_items:,}",
            f"{row.n_outcomes:,}",
            f"{row.seconds_divergence / 60:.1f}",
            f"{row.seconds_clustering / 60:.1f}",
            f"{row.peak_mb / 1000:.1f}",
        ]
        for row in found[found["part"] == "size"].itertuples()
    ]
    names = ["data", "kept", "questions", "vocabulary", "affinity (min)", "clustering (min)", "GB"]
    return _table(names, rows)


def package_docstring(argument: str) -> str:
    """Return the section ``HEADING`` of a module's docstring, as reStructuredText in a fence."""
    module, _, heading = (part.strip() for part in argument.partition(":"))
    text = importlib.import_module(module).__doc__ or ""
    found = re.search(
        rf"^{re.escape(heading)}\n-+\n(.*?)(?=\n[^\n]+\n-{{3,}}\n|\Z)",
        text,
        re.DOTALL | re.MULTILINE,
    )
    if not found:
        raise KeyError(f"{module} has no section {heading!r} in its docstring")
    return f"````{{eval-rst}}\n{found[1].strip()}\n````"


WRITERS = {
    "settings-table": settings_table,
    "benchmark-table": benchmark_table,
    "benchmark-licences": benchmark_licences,
    "model-table": model_table,
    "size-table": size_table,
    "package-docstring": package_docstring,
}


class Generated(SphinxDirective):
    """Put generated Markdown in the directive's place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Write, then parse as if it stood in the page."""
        text = WRITERS[self.name](self.arguments[0])
        self.env.note_reread()
        box = nodes.Element()
        lines = StringList(text.splitlines(), source=self.env.docname)
        self.state.nested_parse(lines, self.content_offset, box)
        return box.children


def find_by_last_name(
    app: Sphinx, env: Any, node: nodes.Element, content: nodes.Element
) -> nodes.Element | None:
    """Resolve a Python reference that its own module does not answer, if one object fits.

    Objects inside the module that the reference names, or else stands in, beat the others.
    """
    module, _, last = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py" or (module and not module.startswith("harmony_utils")):
        return None
    objects = env.get_domain("py").objects
    found = [name for name in objects if name.rpartition(".")[2] == last]
    near = [name for name in found if name.startswith(f"{module or node.get('py:module')}.")]
    found = near or ([] if module else found)
    if len(found) != 1:
        return None
    place = objects[found[0]]
    return make_refnode(
        app.builder, node["refdoc"], place.docname, place.node_id, content, found[0]
    )


def keep_text(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Remember the docstring of a value before napoleon takes it apart at its colon."""
    in_sections = any(line.startswith("---") for line in lines)
    if what in ("data", "attribute", "property") and not in_sections:
        _kept[name] = list(lines)


def restore_text(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Put the docstring of a value back as it was."""
    if name in _kept:
        lines[:] = _kept.pop(name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives and hooks."""
    for name in WRITERS:
        app.add_directive(name, Generated)
    app.connect("missing-reference", find_by_last_name)
    app.connect("autodoc-process-docstring", keep_text, priority=400)
    app.connect("autodoc-process-docstring", restore_text, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _benchmarks(where: str) -> list[Any]:
    return [entry for entry in list_benchmarks() if entry.offline == (where == "offline")]


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return _listed([f"`{value}`" for value in arguments])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_kind(part) for part in arguments)
    if origin is list and typing.get_origin(arguments[0]) is typing.Literal:
        return f"any of {_kind(arguments[0])}, separated by commas"
    if origin is list:
        return f"{_kind(arguments[0])}s, separated by commas"
    names = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text"}
    return names[annotation]


def _listed(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _note(field: FieldInfo) -> str:
    changes = (field.json_schema_extra or {}).get("affects_result", True)
    return "" if changes else " *(speed only)*"


def _written(value: Any) -> str:
    """Write a value as a person types it after ``-p stage.name=``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_written(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _table(names: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str]) -> str:
        return (
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )

    return "\n".join([line(names), line(["---"] * len(names)), *map(line, rows)])
