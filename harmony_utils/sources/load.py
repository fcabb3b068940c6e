"""One door to all sources: :func:`load_benchmark`."""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from harmony_utils import redundantqa
from harmony_utils.errors import InputError
from harmony_utils.files import file_hash
from harmony_utils.items import Benchmark, Item
from harmony_utils.sources.catalogue import (
    BenchmarkEntry,
    find_entry,
    list_benchmarks,
)
from harmony_utils.sources.checks import check_items
from harmony_utils.sources.convert import to_items
from harmony_utils.sources.hub import read_hub
from harmony_utils.sources.lm_eval import PREFIX as TASK_PREFIX
from harmony_utils.sources.lm_eval import read_task, task_name
from harmony_utils.sources.packaged import read_rows
from harmony_utils.sources.spec import (
    COLUMN_PARAMETERS,
    HUB_PARAMETERS,
    OTHER_PARAMETERS,
    Spec,
    choose_columns,
    parse_spec,
    require_known,
    slug,
    suggestion,
)
from harmony_utils.sources.tables import READERS, Table, read_table


def load_benchmark(spec: str, *, limit: int = 0, random_state: int = 0) -> Benchmark:
    """Load a benchmark by name, from a file, or from a Hugging Face dataset.

    Parameters
    ----------
    spec : str
        One of

        - a name of the catalogue (:func:`list_benchmarks`), e.g. ``"arc_easy"``; subjects can be
          picked, ``"mmlu:anatomy,astronomy"``;
        - a ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet`` file, with parameters after
          a ``?`` if needed: ``"quiz.csv?gold_is=position"``;
        - ``"hf:owner/name?config=…&split=…"``, a dataset on the hub, or ``"hf:folder"``, a local
          folder that ``datasets`` can read;
        - ``"lm-eval:arc_easy"``, a task, group or tag of lm-evaluation-harness, or
          ``"lm-eval:task.yaml"``, a task file, which is code and must be trusted.

        Columns and parameters are described in :mod:`harmony_utils.sources`.
    limit : int
        Number of items, drawn at random; 0 keeps all.
    random_state : int
        Seed of the draw.

    Returns
    -------
    Benchmark
        Items in the order of the source. Blanks at both ends of texts are dropped.

    Raises
    ------
    InputError
        For an unknown name, subject or parameter, a file or dataset that cannot be read, or a row
        that is not a usable question: one line with the file, the row and the next step.

    Examples
    --------
    >>> benchmark = load_benchmark("arc_easy", limit=20)
    >>> len(benchmark), benchmark.split, benchmark.prompt_style
    (20, 'validation', 'question')
    """
    return _load(spec).sample(limit, random_state=random_state)


def _load(text: str) -> Benchmark:
    if text.startswith("hf:"):
        return _from_hub(parse_spec(text.removeprefix("hf:")))
    if text.startswith(TASK_PREFIX):
        task = text.removeprefix(TASK_PREFIX)
        return _pick_subjects(read_task(task), parse_spec(task).parameters.get("subjects", ""))
    name, _, subjects = text.partition(":")
    entry = find_entry(name)
    if entry is not None:
        return _pick_subjects(_from_catalogue(entry), subjects)
    spec = Spec(text) if os.path.isfile(text) else parse_spec(text)
    target = Path(spec.target)
    if os.path.isfile(target) or target.suffix.lower() in READERS:
        return _from_file(spec)
    if text and os.path.isdir(target):
        raise InputError(f"{text!r} is a folder: write hf:{text} to read it as a dataset")
    known = [entry.name for entry in list_benchmarks()]
    raise InputError(
        f"unknown benchmark {text!r}{suggestion(name, known)}: give a name from "
        "`harmony benchmarks`, a file ending in "
        f"{', '.join(READERS)}, hf:owner/name, or lm-eval:TASK"
    )


def benchmark_name(text: str) -> str:
    """Return the name that a benchmark will have, without reading its rows.

    Parameters
    ----------
    text : str
        As in :func:`load_benchmark`.

    Raises
    ------
    InputError
        For an unknown name or a file that does not exist. Its rows are not looked at.

    Examples
    --------
    >>> benchmark_name("arc_easy"), benchmark_name("hf:owner/name?split=test")
    ('arc_easy', 'owner_name-test')
    """
    if text.startswith("hf:"):
        spec = parse_spec(text.removeprefix("hf:"))
        label = Path(spec.target).name if Path(spec.target).is_dir() else spec.target
        parts = [label, spec.parameters.get("config"), spec.parameters.get("split")]
        name, subjects = slug("-".join(filter(None, parts))), spec.parameters.get("subjects", "")
    elif text.startswith(TASK_PREFIX):
        task = text.removeprefix(TASK_PREFIX)
        name, subjects = task_name(task), parse_spec(task).parameters.get("subjects", "")
    elif find_entry(text.partition(":")[0]) is not None:
        name, _, subjects = text.partition(":")
    else:
        spec = Spec(text) if os.path.isfile(text) else parse_spec(text)
        if not os.path.isfile(spec.target):
            _load(text)  # says what is wrong with it
        name, subjects = slug(Path(spec.target).stem), spec.parameters.get("subjects", "")
    wanted = [slug(part, "") for part in subjects.split(",") if part.strip()]
    return _subset_name(name, wanted) if wanted else name


def _from_catalogue(entry: BenchmarkEntry) -> Benchmark:
    """Load a benchmark by the columns that the catalogue gives."""
    examples: tuple[Item, ...] = ()
    if entry.location.examples:
        examples = _catalogue_items(entry, entry.location.examples)
    benchmark = Benchmark(
        name=entry.name,
        items=_catalogue_items(entry, None),
        split=entry.split,
        source=entry.source,
        licence=entry.licence,
        prompt_style=entry.prompt_style,
        examples=examples,
        answer_kind=entry.answer_kind,
    )
    return _hold_out(benchmark, entry.location.held_out)


def _hold_out(benchmark: Benchmark, count: int) -> Benchmark:
    """Set some items aside as examples for few-shot prompts: they are never scored themselves.

    Which ones is drawn with a fixed seed. Items that share a group, or all of the question's text,
    with one of them go too, for their answer would stand in the prompt.
    """
    if not count:
        return benchmark
    items, groups = benchmark.items, benchmark.groups()
    if count >= len(items):
        raise InputError(
            f"benchmark {benchmark.name!r}: {count} of {len(items)} questions cannot be held out; "
            "leave some to score"
        )
    chosen = np.random.default_rng(0).permutation(len(items))[:count].tolist()
    shown = {groups[i] for i in chosen} - {None}
    asked = {items[i].question.casefold() for i in chosen}
    left = [
        item
        for item, group in zip(items, groups, strict=True)
        if group not in shown and item.question.casefold() not in asked
    ]
    if not left:
        raise InputError(
            f"benchmark {benchmark.name!r}: all questions hang together with those held out; give "
            "held_out=0"
        )
    return replace(benchmark, items=tuple(left), examples=tuple(items[i] for i in chosen))


def _catalogue_items(entry: BenchmarkEntry, examples: str | None) -> tuple[Item, ...]:
    """Read the items of an entry, or its examples for few-shot prompts."""
    place = entry.location
    if place.kind == "hub":
        split = examples or entry.split
        data = read_hub(place.path, config=place.config, split=split, revision=place.revision)
        rows = data.table.rows
    elif place.kind == "own":
        rows = redundantqa.read_rows()
    else:
        rows = read_rows(place.kind, examples or place.path)
    return to_items(rows, entry.columns, [f"{entry.name}, item {i}" for i in range(len(rows))])


def _from_file(spec: Spec) -> Benchmark:
    """Load a person's own file."""
    require_known(spec, (*COLUMN_PARAMETERS, *OTHER_PARAMETERS))
    path = Path(spec.target)
    table = read_table(path)
    named = Spec(path.name, spec.parameters)
    benchmark = Benchmark(
        name=slug(path.stem),
        items=_own_items(table, named),
        split=spec.parameters.get("split", "all"),
        source=f"file {path.name} (SHA-256 {file_hash(path)[:12]})",
        **_asked(spec),
    )
    return _chosen(benchmark, spec)


def _asked(spec: Spec) -> dict[str, str]:
    """Return how the questions are asked and judged, as far as it was said."""
    names = ("prompt_style", "answer_kind")
    return {name: spec.parameters[name] for name in names if name in spec.parameters}


def _chosen(benchmark: Benchmark, spec: Spec) -> Benchmark:
    """Set examples aside and keep the subjects asked for."""
    benchmark = _hold_out(benchmark, int(spec.parameters.get("held_out", 0)))
    return _pick_subjects(benchmark, spec.parameters.get("subjects", ""))


def _from_hub(spec: Spec) -> Benchmark:
    """Load a dataset from the hub or a local folder."""
    require_known(spec, (*COLUMN_PARAMETERS, *OTHER_PARAMETERS, *HUB_PARAMETERS))
    if Path(spec.target).is_file():
        raise InputError(f"{spec.target!r} is a file: leave out the hf: before it")
    given = {name: spec.parameters.get(name) for name in ("config", "split", "revision")}
    data = read_hub(spec.target, **given)
    is_folder = Path(spec.target).is_dir()
    label = Path(spec.target).name if is_folder else spec.target
    parts = [label, given["config"], given["split"]]
    version = f" at revision {given['revision']}" if given["revision"] else ""
    benchmark = Benchmark(
        name=slug("-".join(filter(None, parts))),
        items=_own_items(data.table, Spec(label, spec.parameters)),
        split=data.split,
        source=f"{'folder' if is_folder else 'Hugging Face dataset'} {label}{version}",
        licence=data.licence,
        **_asked(spec),
    )
    return _chosen(benchmark, spec)


def _own_items(table: Table, spec: Spec) -> tuple[Item, ...]:
    """Turn a table of unknown quality into checked items."""
    items = to_items(table.rows, choose_columns(table.names, spec), table.places)
    check_items(items, table.places, spec.target)
    return items


def _pick_subjects(benchmark: Benchmark, subjects: str) -> Benchmark:
    """Keep the items of some subjects, given as names separated by commas.

    Capitals, blanks and signs in a name do not matter: ``family_life`` finds "Family Life".
    """
    wanted = [slug(part, "") for part in subjects.split(",") if part.strip()]
    if not wanted:
        return benchmark
    known = {slug(subject, ""): subject for subject in benchmark.subjects if subject}
    if not known:
        raise InputError(f"benchmark {benchmark.name!r} has no subjects: leave out {subjects!r}")
    for name in wanted:
        if name not in known:
            raise InputError(
                f"benchmark {benchmark.name!r} has no subject {name!r}{suggestion(name, known)}: "
                f"it has {_list(sorted(known))}"
            )
    return replace(
        benchmark,
        name=_subset_name(benchmark.name, wanted),
        items=_of_subjects(benchmark.items, wanted),
        examples=_of_subjects(benchmark.examples, wanted),
    )


def _of_subjects(items: Iterable[Item], wanted: list[str]) -> tuple[Item, ...]:
    return tuple(item for item in items if item.subject and slug(item.subject, "") in wanted)


def _subset_name(name: str, wanted: list[str]) -> str:
    """Name a choice of subjects: by them if that stays short, else by their number and a hash."""
    chosen = sorted(set(wanted))
    long_name = "-".join([name, *chosen])
    if len(long_name) <= 60:
        return long_name
    digest = hashlib.sha256(",".join(chosen).encode()).hexdigest()[:8]
    return f"{name}-{len(chosen)}_subjects-{digest}"


def _list(names: list[str], most: int = 12) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
