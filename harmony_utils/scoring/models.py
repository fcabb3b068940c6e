"""Finding and loading causal language models: packaged, local folder or file, or a hub's."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

from harmony_utils.errors import InputError
from harmony_utils.files import content_hash, write_atomically
from harmony_utils.hub import HubUnreachableError, ask_hub, cached_commit
from harmony_utils.packages import package_folder
from harmony_utils.scoring.catalogue import (
    ModelEntry,
    check_memory,
    find_entry,
    list_models,
)


@dataclass(frozen=True)
class ModelSpec:
    """A model's name taken apart: ``NAME[@REVISION][#layer=N]``.

    Parameters
    ----------
    name : str
        Catalogue name, folder, ``.gguf`` file or hub id.
    revision : str, optional
        Branch, tag or commit on a hub, e.g. an intermediate checkpoint.
    layer : int, optional
        Use only the first ``layer`` transformer layers, then the final norm and head.
    """

    name: str
    revision: str | None = None
    layer: int | None = None

    @classmethod
    def parse(cls, text: str) -> ModelSpec:
        """Parse the written form.

        Examples
        --------
        >>> ModelSpec.parse("smollm2-135m#layer=12")
        ModelSpec(name='smollm2-135m', revision=None, layer=12)
        >>> ModelSpec.parse("allenai/OLMo-2-0425-1B@step1000").revision
        'step1000'
        """
        body, _, suffix = text.partition("#")
        layer = None
        if suffix:
            match = re.fullmatch(r"layer=([1-9]\d*)", suffix)
            if not match:
                raise InputError(f"model {text!r}: after # write layer=N with N of at least 1")
            layer = int(match.group(1))
        name, revision = body, None
        if "@" in body and not Path(body).exists():
            name, _, revision = body.rpartition("@")
        if not name:
            raise InputError("model: the name is empty; `harmony models` lists what is there")
        return cls(name, revision or None, layer)

    @property
    def slug(self) -> str:
        """The name as one folder name."""
        stem = Path(self.name).name if Path(self.name).exists() else self.name
        parts = [stem.removesuffix(".gguf")]
        parts += [self.revision] if self.revision else []
        parts += [f"layer-{self.layer:02d}"] if self.layer else []
        return re.sub(r"[^A-Za-z0-9._-]+", "--", "--".join(parts)).strip(".-") or "model"


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model with its tokenizer and what is known about it."""

    spec: ModelSpec
    model: Any
    tokenizer: Any
    description: dict[str, Any]

    @property
    def vocabulary(self) -> int:
        """Length of one row of logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])


def cache_folder() -> Path:
    """Return the folder for files this package assembles (``HARMONY_CACHE`` overrides it)."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "harmony_utils"
    return Path(os.environ.get("HARMONY_CACHE", default))


def _packaged_file(entry: ModelEntry) -> Path:
    """Return the weights of a packaged model, joining its parts on first use."""
    folder = package_folder(entry.module, called=f"package {entry.package!r}")
    if entry.sha256 is None:
        return folder / entry.file
    target = cache_folder() / entry.file
    if target.exists():
        return target
    parts = sorted(folder.parent.glob(f"{entry.module}_part*/data/*.part*"), key=lambda p: p.name)

    def join(temporary: Path) -> None:
        digest = hashlib.sha256()
        with open(temporary, "wb") as handle:
            for part in parts:
                block = part.read_bytes()
                digest.update(block)
                handle.write(block)
        if digest.hexdigest() != entry.sha256:
            raise InputError(
                f"model {entry.name!r}: the {len(parts)} parts found do not give the expected "
                "file; run `make setup` again"
            )

    return write_atomically(target, join)


def _locate(spec: ModelSpec) -> tuple[str, dict[str, Any], str]:
    """Return what ``from_pretrained`` needs: a name, extra arguments and the kind of source."""
    entry = find_entry(spec.name)
    if entry is not None and entry.offline:
        path = _packaged_file(entry)
        return str(path.parent), {"gguf_file": path.name}, f"package {entry.package}"
    path = Path(spec.name).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}, f"file {path.name}"
    if path.is_dir():
        if (path / "config.json").exists():
            return str(path), {}, f"folder {path.name}"
        weights = sorted(path.glob("*.gguf"))
        if len(weights) == 1:
            return str(path), {"gguf_file": weights[0].name}, f"folder {path.name}"
        raise InputError(
            f"model folder {spec.name!r}: holds neither a config.json nor exactly one .gguf file"
        )
    if re.fullmatch(r"[\w.-]+/[\w.-]+", spec.name) and not spec.name.startswith("."):
        return spec.name, _hub_revision(spec), f"hub {spec.name}"
    names = [e.name for e in list_models()]
    near = difflib.get_close_matches(spec.name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`harmony models` lists what is there"
    raise InputError(f"model {spec.name!r}: no such catalogue name, folder, file or hub id; {hint}")


def _hub_revision(spec: ModelSpec) -> dict[str, Any]:
    """Return the commit to load from the hub, or from what was downloaded before."""
    try:
        return {"revision": ask_hub("model", spec.name, revision=spec.revision).sha}
    except HubUnreachableError as error:
        commit = cached_commit(spec.name, revision=spec.revision)
        if commit is not None:
            return {"revision": commit, "local_files_only": True}
        offline = ", ".join(entry.name for entry in list_models() if entry.offline)
        raise InputError(
            f"model {error}, and it was not downloaded before; without a network use {offline}, "
            "a local folder or a GGUF file"
        ) from None
    except InputError as error:
        raise InputError(f"model {error}") from None


def identify_model(name: str) -> dict[str, Any]:
    """Say which model a name stands for, without loading it.

    Parameters
    ----------
    name : str
        Written form of a :class:`ModelSpec`.

    Returns
    -------
    dict
        Name, source and a version that changes with the weights: the package's version, names,
        sizes and times of local files, or the revision on a hub.

    Raises
    ------
    InputError
        If the name stands for nothing.
    """
    spec = ModelSpec.parse(name)
    entry = find_entry(spec.name)
    place, extra, source = _locate(spec)
    if entry is not None and entry.offline:
        version = metadata.version(entry.package)
    elif source.startswith("hub"):
        version = extra["revision"]
    else:
        folder = Path(place)
        paths = [folder / extra["gguf_file"]] if extra else sorted(folder.iterdir())
        stats = [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in paths if p.is_file()]
        version = content_hash(stats)[:16]
    return {"name": spec.slug, "source": source, "version": version, "layer": spec.layer}


def resolve_device(device: str) -> str:
    """Turn ``auto`` into the best device there is."""
    import torch

    if device != "auto":
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@lru_cache(maxsize=1)
def load_model(
    name: str, *, dtype: str = "float32", device: str = "auto", trust_remote_code: bool = False
) -> LanguageModel:
    """Load a causal language model and its tokenizer.

    Parameters
    ----------
    name : str
        Written form of a :class:`ModelSpec`.
    dtype : {"float32", "bfloat16", "float16"}
        Number type of the weights.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    trust_remote_code : bool
        Run Python code that comes with a hub model.

    Returns
    -------
    LanguageModel
        In evaluation mode. The last one loaded is kept, so that a second call is free.

    Raises
    ------
    InputError
        If there is no such model, its files cannot be read or the hub cannot be reached.
    """
    spec = ModelSpec.parse(name)
    entry = find_entry(spec.name)
    if entry is not None and not entry.offline:
        check_memory(entry, dtype=dtype, device=resolve_device(device))
    with redirect_stderr(StringIO()):  # bars and warnings about bars
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

    place, extra, source = _locate(spec)
    options = {**extra, "trust_remote_code": trust_remote_code}
    try:
        with redirect_stderr(StringIO()):
            tokenizer = AutoTokenizer.from_pretrained(place, **options)
            model = AutoModelForCausalLM.from_pretrained(
                place, dtype=getattr(torch, dtype), **options
            )
        model = model.to(resolve_device(device)).eval()
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            f"model {spec.name!r}: cannot be loaded from {source} "
            f"({(reason or type(error).__name__)[:200]})"
        ) from error
    layers = int(model.config.get_text_config().num_hidden_layers)
    parameters = int(sum(p.numel() for p in model.parameters()))
    if spec.layer is not None:
        _truncate(model, spec, layers)
    description = {
        "name": name,
        "family": entry.family if entry else None,
        "source": source,
        "revision": spec.revision,
        "parameters": parameters,
        "tokens": _tokens(spec, entry),
        "layers": layers,
        "layer": spec.layer,
        "licence": entry.licence if entry else None,
        "dtype": dtype,
    }
    return LanguageModel(spec, model, tokenizer, description)


def _truncate(model: Any, spec: ModelSpec, layers: int) -> None:
    """Keep the first transformer layers only; the final norm and head stay."""
    if spec.layer > layers:
        raise InputError(f"model {spec.name!r}: has {layers} layers, cannot stop at {spec.layer}")
    base = model.base_model
    if not hasattr(base, "layers"):
        raise InputError(f"model {spec.name!r}: its layers cannot be cut; leave #layer= out")
    base.layers = base.layers[: spec.layer]
    base.config.num_hidden_layers = spec.layer


def _tokens(spec: ModelSpec, entry: ModelEntry | None) -> float | None:
    """Return pretraining tokens: from a revision such as ``…-tokens3B``, else the catalogue."""
    match = re.search(r"tokens(\d+)B", spec.revision or "")
    if match:
        return float(match.group(1)) * 1e9
    return entry.tokens if entry and spec.revision is None else None
