"""A study of many models on many benchmarks: its configuration, its cells, what each job needs.

A cell is one model on one benchmark. What runs the jobs is Snakemake (``workflow/Snakefile``); it
is given a plan, plain data with everything it has to know, and nothing here imports Snakemake.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from harmony_utils.errors import InputError
from harmony_utils.execution import notebook_path
from harmony_utils.files import file_hash, read_json
from harmony_utils.pairs import SAMPLE_ITEMS
from harmony_utils.pipeline import NOTEBOOKS, OPEN_ENDED_NOTEBOOKS
from harmony_utils.runs import project_folder
from harmony_utils.scoring.catalogue import BYTES, OVERHEAD, ModelEntry, find_entry
from harmony_utils.scoring.models import ModelSpec, identify_model
from harmony_utils.settings import (
    OPEN_ENDED,
    STAGES,
    AuditSettings,
    PlaneSettings,
    parse_settings,
)
from harmony_utils.sources.catalogue import find_entry as find_benchmark
from harmony_utils.sources.load import TASK_PREFIX, benchmark_name
from harmony_utils.stages import STEPS

#: Tokens of one question with its options, for the estimate of a job's time.
TOKENS_PER_ITEM = 300
#: Memory beside the weights and the matrices: Python, libraries, the notebook's kernel.
BASE_MB = 2000
#: Matrices of n_items × n_items that a stage holds at once, in bytes for each pair of items.
PAIR_BYTES = 24
#: Questions compared at once with all others where not all pairs are kept.
BAND_ITEMS = 1024


def workflow_folder() -> Path:
    """Return the folder of the Snakemake workflow."""
    return project_folder() / "workflow"


@dataclass(frozen=True)
class GridModel:
    """One model of a study: as written, the name of its folders, what is known about it.

    ``parameters`` is guessed from the files of a local model that the catalogue does not have, and
    assumed to be 8 billion for one on a hub. ``version`` changes with the weights of a local
    model; it is empty for one on a hub.
    """

    text: str
    slug: str
    entry: ModelEntry | None
    parameters: int
    version: str


@dataclass(frozen=True)
class GridBenchmark:
    """One benchmark of a study: as written, its name, its size, its file if it has one.

    ``n_items`` is None where it cannot be told without reading the rows, and ``open_ended`` is
    known of the catalogue's benchmarks only.
    """

    text: str
    name: str
    n_items: int | None
    file: Path | None
    open_ended: bool = False


@dataclass(frozen=True)
class Grid:
    """A checked configuration.

    Parameters
    ----------
    config : dict
        As it was read, with absolute paths.
    models : tuple of GridModel
    benchmarks : tuple of GridBenchmark
    settings : AuditSettings
        Those of every cell.
    """

    config: dict[str, Any]
    models: tuple[GridModel, ...]
    benchmarks: tuple[GridBenchmark, ...]
    settings: AuditSettings = field(repr=False)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that run, in order."""
        return STAGES[: STAGES.index(self.config.get("last_stage", STAGES[-1])) + 1]

    @property
    def limit(self) -> int:
        """Questions drawn from each benchmark; 0 keeps all."""
        return self.config.get("limit", 0)

    @cached_property
    def _model_of(self) -> dict[str, GridModel]:
        return {model.slug: model for model in self.models}

    @cached_property
    def _benchmark_of(self) -> dict[str, GridBenchmark]:
        return {benchmark.name: benchmark for benchmark in self.benchmarks}

    def model(self, slug: str) -> GridModel:
        """Return the model of a folder name."""
        return self._model_of[slug]

    def benchmark(self, name: str) -> GridBenchmark:
        """Return the benchmark of a name."""
        return self._benchmark_of[name]

    def assignments(self, stage: str) -> list[str]:
        """Return the settings that a stage depends on, as ``stage.name=value``."""
        stages = STAGES[: STAGES.index(stage) + 1]
        used = [*stages, *(OPEN_ENDED[name] for name in stages if name in OPEN_ENDED)]
        given = self.config.get("settings", {})
        return [
            f"{section}.{name}={_written(value)}"
            for section in used
            for name, value in given.get(section, {}).items()
        ]

    def version(self, stage: str) -> str:
        """Return what changes when a stage's notebook, or how it computes, changes."""
        steps = [f"{name}{step.version}" for name, step in STEPS.items() if step.stage == stage]
        chapters = [NOTEBOOKS[stage]]
        if stage in OPEN_ENDED_NOTEBOOKS and any(b.open_ended for b in self.benchmarks):
            chapters.append(OPEN_ENDED_NOTEBOOKS[stage])
        return " ".join([",".join(steps), *(file_hash(notebook_path(n))[:12] for n in chapters)])

    @property
    def dtypes(self) -> dict[str, str]:
        """Number type of each section of the settings by which models are asked here."""
        sections = {OPEN_ENDED["predictions"] if b.open_ended else "predictions"
                    for b in self.benchmarks}  # fmt: skip
        return {name: getattr(self.settings, name).dtype for name in sorted(sections)}

    def plan(self) -> dict[str, Any]:
        """Return everything that the workflow has to know, as plain data.

        Returns
        -------
        dict
            ``models`` by folder name, ``benchmarks`` by name, ``stages`` in order. What a job is
            told and what makes it run again is text; ``mb`` and ``minutes`` are the first try's.
        """
        models = {
            model.slug: {
                "text": model.text,
                "version": model.version,
                "mb": self.scoring_mb(model.slug),
                "minutes": self.scoring_minutes(model.slug),
            }
            for model in self.models
        }
        benchmarks = {
            benchmark.name: {
                "text": benchmark.text,
                "file": str(benchmark.file) if benchmark.file else None,
                "mb": self.matrix_mb(benchmark.name),
                "minutes": self.matrix_minutes(benchmark.name),
            }
            for benchmark in self.benchmarks
        }
        stages = {
            stage: {
                "settings": self.assignments(stage),
                "version": self.version(stage),
                "notebook": str(notebook_path(NOTEBOOKS[stage])),
            }
            for stage in self.stages
        }
        switches = {name: self.config[name] for name in ("gpu", "plane", "threads")}
        return {
            "models": models,
            "benchmarks": benchmarks,
            "stages": stages,
            "limit": self.limit,
            **switches,
        }

    def run_folders(self, root: Path) -> list[Path]:
        """Return the folders of this study's runs below a run root, as far as they are there."""
        found = []
        for benchmark in self.benchmarks:
            pattern = f"{benchmark.name}--*" if self.limit else benchmark.name
            sizes = [p for p in sorted(Path(root).glob(pattern)) if self._is_sample(p.name)]
            found += [folder / m.slug for folder in sizes for m in self.models]
        return [folder for folder in found if folder.is_dir()]

    def _is_sample(self, folder: str) -> bool:
        """Say whether a folder of questions is that of this study's limit."""
        size = folder.rpartition("--")[2]
        return not self.limit or (size.isdigit() and int(size) <= self.limit)

    # what a job needs -----------------------------------------------------------------------

    def scoring_mb(self, slug: str) -> int:
        """Return the memory for scoring with a model in megabytes, from the catalogue."""
        size = max(BYTES[dtype] for dtype in self.dtypes.values()) * self.model(slug).parameters
        return BASE_MB + int(OVERHEAD * size / 1e6)

    def scoring_minutes(self, slug: str) -> int:
        """Return the time for scoring all benchmarks with a model in minutes, an estimate.

        Two operations for each parameter and token, at the ``teraflops`` of the configuration.
        """
        parameters = self.model(slug).parameters
        n_items = sum(self._n_items(benchmark) for benchmark in self.benchmarks)
        seconds = 2 * parameters * TOKENS_PER_ITEM * n_items / (1e12 * self.config["teraflops"])
        return 10 + len(self.benchmarks) + int(seconds / 60)

    def matrix_mb(self, name: str) -> int:
        """Return the memory for the stages after scoring in megabytes."""
        n_items = self._n_items(self.benchmark(name))
        kept = n_items**2
        reduced = self.settings.affinity.reduced_to(n_items)
        if reduced:
            kept = reduced.get("landmarks", SAMPLE_ITEMS) ** 2 + BAND_ITEMS * n_items
        return BASE_MB + int(PAIR_BYTES * kept / 1e6)

    def matrix_minutes(self, name: str) -> int:
        """Return the time for one stage after scoring in minutes, an estimate."""
        return 10 + int(self._n_items(self.benchmark(name)) / 100)

    def _n_items(self, benchmark: GridBenchmark) -> int:
        n_items = benchmark.n_items or _UNKNOWN_ITEMS
        return min(n_items, self.limit) if self.limit else n_items


_UNKNOWN_PARAMETERS, _UNKNOWN_ITEMS = 8_000_000_000, 5000


def read_grid(path: Path) -> Grid:
    """Read and check a configuration: schema, names, sizes, folders; nothing is loaded.

    Parameters
    ----------
    path : Path
        YAML or JSON. Paths in it are relative to its folder.

    Raises
    ------
    InputError
        If it cannot be read, does not fit ``workflow/config.schema.json``, names a model or
        benchmark that is not there, a model that does not fit the device, two cells that would
        write one folder, or a plane of too few models or of audits that end before clustering.
    """
    path = Path(path)
    config = {"gpu": False, "teraflops": 0.05, "threads": 1, "plane": False, **_validated(path)}
    folder = path.resolve().parent
    for kind in ("models", "benchmarks"):
        config[kind] = [_absolute(text, folder) for text in config[kind]]
    settings = parse_settings(config.get("settings", {}))
    models = tuple(_find(config["models"], _model))
    benchmarks = tuple(_find(config["benchmarks"], _benchmark))
    _refuse_shared_folders("model", [(m.slug, m.text) for m in models])
    _refuse_shared_folders("benchmark", [(b.name, b.text) for b in benchmarks])
    grid = Grid(config, models, benchmarks, settings)
    _refuse_plane_without_labels(grid, path)
    _refuse_too_large(grid)
    return grid


def _validated(path: Path) -> dict[str, Any]:
    """Read a configuration and hold it against the schema."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; start from {workflow_folder() / 'config' / 'small.yaml'}"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as YAML ({reason[:200]})") from None
    schema = read_json(workflow_folder() / "config.schema.json")
    problem = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(config)
    )
    if problem is not None:
        where = ".".join(str(part) for part in problem.absolute_path) or "top level"
        raise InputError(
            f"{path}, {where}: {problem.message[:200]}; workflow/config.schema.json describes "
            "what may stand there"
        )
    return config


def _absolute(text: str, folder: Path) -> str:
    """Make the path in a model or benchmark absolute if it is one."""
    prefix = next((known for known in ("hf:", TASK_PREFIX) if text.startswith(known)), "")
    body = text.removeprefix(prefix)
    end = min((i for i in (body.find("?"), body.find("#")) if i > 0), default=len(body))
    place = folder / os.path.expanduser(body[:end])
    return f"{prefix}{place.resolve()}{body[end:]}" if place.exists() and body[:end] else text


def _find(texts: Iterable[str], look_up: Any) -> Iterable[Any]:
    """Look names up and refuse the unknown ones together."""
    problems: list[str] = []
    found = []
    for text in texts:
        try:
            found.append(look_up(text))
        except InputError as error:
            problems.append(str(error))
    if problems:
        more = f" (and {len(problems) - 1} more names)" if len(problems) > 1 else ""
        raise InputError(problems[0] + more)
    return found


def _model(text: str) -> GridModel:
    spec = ModelSpec.parse(text)
    entry = find_entry(spec.name)
    on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", spec.name) and not Path(spec.name).exists()
    if on_hub and (entry is None or not entry.offline):
        parameters = entry.parameters if entry else _UNKNOWN_PARAMETERS
        return GridModel(text, spec.slug, entry, parameters, "")
    about = identify_model(text)
    parameters = entry.parameters if entry else _guessed_parameters(Path(spec.name).expanduser())
    return GridModel(text, about["name"], entry, parameters, about["version"])


def _guessed_parameters(path: Path) -> int:
    """Guess the size of a local model, rather too large: 2 bytes a parameter, 0.5 in GGUF."""
    files = [path] if path.is_file() else list(path.iterdir()) if path.is_dir() else []
    sizes = {kind: sum(f.stat().st_size for f in files if f.suffix == kind) for kind in _WEIGHTS}
    return int(sum(size / _WEIGHTS[kind] for kind, size in sizes.items())) or _UNKNOWN_PARAMETERS


_WEIGHTS = {".safetensors": 2, ".bin": 2, ".gguf": 0.5}


def _benchmark(text: str) -> GridBenchmark:
    name = benchmark_name(text)
    entry = find_benchmark(text)
    path = Path(text.removeprefix(TASK_PREFIX).partition("?")[0])
    if entry is None and path.is_file():
        holds_lines = path.suffix != ".parquet" and not text.startswith(TASK_PREFIX)
        with open(path, "rb") as handle:
            n_lines = sum(1 for _ in handle) if holds_lines else None
        return GridBenchmark(text, name, n_lines, path)
    if entry is None:
        return GridBenchmark(text, name, None, None)
    return GridBenchmark(text, name, entry.n_items, None, entry.type == "open-ended")


def _refuse_shared_folders(kind: str, named: list[tuple[str, str]]) -> None:
    """Refuse two models or benchmarks whose results would lie in one folder."""
    seen: dict[str, str] = {}
    for name, text in named:
        key = name.casefold()  # some file systems do not tell capitals apart
        if key in seen:
            raise InputError(
                f"{kind}s {seen[key]!r} and {text!r} would both write the folder {name!r}; rename "
                "one of them or take it out"
            )
        seen[key] = text


def _refuse_plane_without_labels(grid: Grid, path: Path) -> None:
    """Refuse a plane that could not be drawn up once all cells are there."""
    least = PlaneSettings().min_respondents
    if not grid.config["plane"]:
        return
    if "clustering" not in grid.stages:
        raise InputError(
            f"{path}, plane: it needs subdomains, and audits end with {grid.stages[-1]!r}; set "
            "last_stage to clustering or later, or plane to false"
        )
    if len(grid.models) < least:
        raise InputError(
            f"{path}, plane: it is over models, at least {least} of them, and there are "
            f"{len(grid.models)}; add models or set plane to false"
        )


def _refuse_too_large(grid: Grid) -> None:
    """Refuse models that do not fit the memory of one device, before anything starts."""
    there = grid.config.get("gpu_memory_gb")
    section, dtype = max(grid.dtypes.items(), key=lambda pair: BYTES[pair[1]])
    if not grid.config["gpu"] or there is None:
        return
    needed = {m.text: m.entry.memory_gb(dtype) for m in grid.models if m.entry}
    large = [name for name, gb in needed.items() if gb > there]
    if large:
        smaller = "" if dtype != "float32" else f"set {section}.dtype to bfloat16, "
        raise InputError(
            f"model {large[0]!r} needs about {needed[large[0]]:.0f} GB as {dtype}, gpu_memory_gb "
            f"is {there:g}; {smaller}take it out ({len(large)} models are too large) or use a "
            "larger device"
        )


def _written(value: Any) -> str:
    """Write a setting as the command line takes it."""
    if isinstance(value, list):
        return ",".join(_written(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
