"""Tasks of lm-evaluation-harness by name or task file: which ones, and can they be scored here?"""

from __future__ import annotations

import logging
import os.path
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark
from harmony_utils.packages import is_installed, package_folder
from harmony_utils.sources.hub import OFFLINE_CHOICES, require_hub
from harmony_utils.sources.lm_eval_items import config_digest, task_items
from harmony_utils.sources.spec import Spec, parse_spec, require_known, slug, suggestion

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

PREFIX = "lm-eval:"
PARAMETERS = ("num_fewshot", "fewshot_seed", "include_path", "subjects", "subject", "group")

#: The harness's own seeds: of Python, of NumPy, and of the draw of few-shot examples.
_PYTHON_SEED, _NUMPY_SEED, _FEWSHOT_SEED = 0, 1234, 1234

_TASK_LINE = re.compile(
    rb"""^["']?task["']?:[ \t]*["']?([^\s"'#\[\]]+)["']?[ \t]*(?:\#.*)?\r?$""", re.MULTILINE
)

#: ``dataset_path`` of data that lie in files; every other one is a dataset on the hub.
_FILE_READERS = frozenset(("arrow", "csv", "json", "pandas", "parquet", "text", "xml"))

_REFUSED_KINDS = {
    "generate_until": "lets the model write its answer, and only options to choose from are scored "
    "here so far: score it with the harness and give its logs to `harmony audit --from-logs`",
    "loglikelihood": "scores one given continuation, so there are no options to choose from",
    "loglikelihood_rolling": "measures perplexity, so there is no question with an answer",
}


def read_task(text: str) -> Benchmark:
    """Load a task, group or tag of lm-evaluation-harness with its own prompts.

    Parameters
    ----------
    text : str
        ``NAME?…`` or ``FILE.yaml?…``, without the prefix ``lm-eval:``; the parameters are described
        in :mod:`harmony_utils.sources`. A task file is code: what it names is executed.

    Returns
    -------
    Benchmark
        Every item brings the prompt that the harness writes, few-shot examples included, and the
        choices as its options. Of a group or tag, the tasks are the subjects.

    Raises
    ------
    InputError
        If the harness is not installed or has no such task, a task is no multiple choice or has its
        own way to score, its data cannot be reached, or an item has not exactly one correct option.
    """
    spec = _parse(text)
    asked = f"{PREFIX}{spec.target}"
    target = _task_file(spec) or spec.target
    manager = _manager_of(spec, target)
    for name, config in _leaves(manager, target):
        _check_config(name, config, asked)
    with _as_the_harness():
        tasks = _load(manager, target, spec, asked)
        items = [
            item
            for name, task in tasks.items()
            for item in task_items(name, task, spec=spec, among_others=len(tasks) > 1)
        ]
    version = metadata.version("lm_eval")
    seed = _number(spec, "fewshot_seed", _FEWSHOT_SEED)
    digest = config_digest(tasks, seed)
    splits = {task.config.test_split or task.config.validation_split for task in tasks.values()}
    return Benchmark(
        name=task_name(text),
        items=tuple(items),
        split=splits.pop() if len(splits) == 1 else "several",
        source=f"lm-evaluation-harness {version}, {_kind(spec)}, configuration {digest[:12]}",
        version=f"lm_eval {version} {digest}",
    )


def task_name(text: str) -> str:
    """Return the name of the benchmark that :func:`read_task` will give, subjects left aside.

    It is that of the task, also of a task file: ``lm-eval-arc_easy-5shot``.
    """
    spec = _parse(text)
    path = _task_file(spec)
    if path is not None:
        config = _read_yaml(path)
        name = str(config.get("group") or config["task"])
    else:
        name = _find(_manager_of(spec, spec.target), spec.target).name
    parts = ["lm-eval", name]
    if "num_fewshot" in spec.parameters:
        parts.append(f"{_number(spec, 'num_fewshot', 0)}shot")
    if "fewshot_seed" in spec.parameters:
        parts.append(f"seed{_number(spec, 'fewshot_seed', 0)}")
    return slug("-".join(parts))


def _parse(text: str) -> Spec:
    """Take apart what was written; refuse what needs no harness to be seen as wrong."""
    spec = parse_spec(text)
    require_known(spec, PARAMETERS)
    target = Path(spec.target)
    if _is_yaml(spec.target) and not target.is_file():
        raise InputError(f"{PREFIX}{spec.target}: no such task file: check the path")
    if not spec.target or target.is_dir():
        raise InputError(
            f"{PREFIX}{spec.target}: give the name of a task or a .yaml file; tasks of your own "
            f"folder are found by name with {PREFIX}NAME?include_path={spec.target or 'FOLDER'}"
        )
    folder = spec.parameters.get("include_path")
    if folder is not None and not os.path.isdir(folder):
        raise InputError(f"{PREFIX}{spec.target}: include_path={folder} is not a folder")
    for name in ("num_fewshot", "fewshot_seed"):
        _number(spec, name, 0)
    if not is_installed("lm_eval"):
        raise InputError(
            f"{PREFIX}{spec.target}: lm-evaluation-harness is not installed: run `make setup`, or "
            "`pip install 'harmony-utils[lm-eval]'`"
        )
    return spec


def _is_yaml(target: str | Path) -> bool:
    return Path(target).suffix.lower() in (".yaml", ".yml")


def _kind(spec: Spec) -> str:
    is_file = _is_yaml(spec.target)
    return f"task {f'file {Path(spec.target).name}' if is_file else spec.target}"


def _number(spec: Spec, name: str, default: int) -> int:
    text = spec.parameters.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise InputError(f"parameter {name}={text}: give a number from 0")
    return int(text)


# which tasks ----------------------------------------------------------------------------------


def _task_file(spec: Spec) -> Path | None:
    """Return the file of a single task, which spares the index; None if it takes the index."""
    if _is_yaml(spec.target):
        return Path(spec.target)
    if "include_path" in spec.parameters:  # may replace a task of the harness
        return None
    files = _named_files().get(spec.target, [])
    return files[0] if len(files) == 1 else None


@lru_cache(maxsize=1)
def _named_files() -> dict[str, list[Path]]:
    """Return the harness's own task files by the name in their line ``task: NAME``."""
    found: dict[str, list[Path]] = {}
    for path in package_folder("lm_eval", called="lm_eval").glob("tasks/**/*.yaml"):
        if match := _TASK_LINE.search(path.read_bytes()):
            found.setdefault(match[1].decode(), []).append(path)
    return found


@lru_cache(maxsize=4)
def _manager(folders: tuple[str, ...], defaults: bool) -> TaskManager:
    """Index the task files; that of the harness itself takes some ten seconds."""
    from lm_eval.tasks import TaskManager

    with _quiet():
        return TaskManager(include_path=folders, include_defaults=defaults)


def _manager_of(spec: Spec, target: str | Path) -> TaskManager:
    """Return an index in which a name, or what a task file names, can be looked up."""
    given = tuple(filter(None, [spec.parameters.get("include_path")]))
    if not _is_yaml(target):
        return _manager(given, True)
    if "group" in _read_yaml(Path(target)):  # it names tasks that may lie anywhere
        return _manager((*given, str(Path(target).parent)), True)
    return _manager((), False)


def _read_yaml(path: Path) -> dict[str, Any]:
    """Read a task file with what it includes; functions are named, not imported."""
    from lm_eval.tasks._yaml_loader import load_yaml

    try:
        config = load_yaml(path, resolve_func=False)
    except Exception as error:  # any error of the YAML parser or of a file it includes
        raise InputError(f"{path.name}: cannot be read as a task: {_first_line(error)}") from None
    if not {"task", "group"} & config.keys():
        raise InputError(f"{path.name}: is no task: it has neither `task:` nor `group:`")
    return config


def _find(manager: TaskManager, name: str) -> Any:
    """Return the entry of a task, group or tag, or name those that look alike."""
    entry = manager.task_index.get(name)
    if entry is None:
        raise InputError(
            f"{PREFIX}{name}: lm-evaluation-harness {metadata.version('lm_eval')} has no such task"
            f"{suggestion(name, manager.all_tasks)}: `lm-eval ls tasks` lists them; a task of your "
            "own is a .yaml file, or a name with ?include_path=FOLDER"
        )
    return entry


def _leaves(
    manager: TaskManager, target: str | Path, overrides: dict[str, Any] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and configuration of every task below a task, group, tag or task file."""
    if _is_yaml(target):
        config, tags = _read_yaml(Path(target)), ()
    else:
        entry = _find(manager, str(target))
        config, tags = entry.cfg or {}, sorted(entry.tags) if entry.kind.name == "TAG" else ()
    for tag in tags:
        yield from _leaves(manager, tag, overrides)
    if tags:
        return
    if "group" not in config:
        yield str(config.get("task", target)), {**config, **(overrides or {})}
        return
    yield from _members(manager, config, overrides or {})


def _members(
    manager: TaskManager, group: dict[str, Any], overrides: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tasks of a group, whose members are names or configurations."""
    for member in group.get("task") or ():
        own = member if isinstance(member, dict) else {}
        name = own.get("task", own.get("group")) if own else member
        given = {**overrides, **{k: v for k, v in own.items() if k not in ("task", "group")}}
        if name in manager.task_index:
            yield from _leaves(manager, name, given)
        elif "group" in own:
            yield from _members(manager, own, overrides)
        else:
            yield str(name), given


def _check_config(name: str, config: dict[str, Any], asked: str) -> None:
    """Refuse a task that cannot be scored here, before anything is downloaded or executed."""
    place = asked if asked.endswith(name) else f"{asked}: task {name!r}"
    if "class" in config:
        raise InputError(f"{place}: is written in Python, its prompts cannot be read from outside")
    kind = config.get("output_type", "generate_until")
    if kind != "multiple_choice":
        raise InputError(f"{place}: {_REFUSED_KINDS.get(kind, f'has output_type {kind!r}')}")
    if config.get("process_results") is not None:
        raise InputError(
            f"{place}: scores answers by a function of its own (process_results), not by the best "
            "of the options: score it with the harness and give its logs to "
            "`harmony audit --from-logs`"
        )
    if config.get("doc_to_image") or config.get("doc_to_audio"):
        raise InputError(f"{place}: shows pictures or plays sound; only text is scored here")
    path = config.get("dataset_path")
    if path and path not in _FILE_READERS and not os.path.exists(path):
        revision = (config.get("dataset_kwargs") or {}).get("revision")
        _require_hub_once(path, revision, place)


@lru_cache(maxsize=256)
def _require_hub_once(path: str, revision: str | None, place: str) -> None:
    require_hub(path, revision, prefix=f"{place}: ")


# loading --------------------------------------------------------------------------------------


def _load(
    manager: TaskManager, target: str | Path, spec: Spec, asked: str
) -> dict[str, ConfigurableTask]:
    """Build the tasks with their data, set up as the harness does before it asks a model."""
    from lm_eval.api.task import ConfigurableTask

    # the harness takes the path of a task, but of a group only the name
    config = _read_yaml(Path(target)) if _is_yaml(target) else {}
    try:
        tasks = manager.load(config.get("group") or str(target))["tasks"]
    except Exception as error:  # a task is code: anything can be raised
        where = f"; {OFFLINE_CHOICES}" if isinstance(error, OSError) else ""
        raise InputError(f"{asked}: cannot be loaded: {_first_line(error)}{where}") from None
    wanted = spec.parameters.get("num_fewshot")
    for name, task in tasks.items():
        if not isinstance(task, ConfigurableTask):
            raise InputError(f"{asked}: task {name!r} is written in Python: choose another")
        if wanted is not None and task.config.num_fewshot == 0 and int(wanted):
            raise InputError(
                f"{asked}: task {name!r} fixes num_fewshot at 0, and the harness keeps to that: "
                "leave num_fewshot out"
            )
        if wanted is not None or task.config.num_fewshot is None:
            task.set_config("num_fewshot", int(wanted or 0))
        task.set_fewshot_seed(_number(spec, "fewshot_seed", _FEWSHOT_SEED))
    return tasks


@contextmanager
def _as_the_harness() -> Iterator[None]:
    """Seed the global generators as the harness does, for tasks that mix options with them."""
    states = random.getstate(), np.random.get_state()
    random.seed(_PYTHON_SEED)
    np.random.seed(_NUMPY_SEED)
    try:
        with _quiet():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the harness's remarks about task files away from people who did not write them."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
