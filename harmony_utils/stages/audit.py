"""An audit: one model on one benchmark, each step reused if it is finished, else computed."""

from __future__ import annotations

import shutil
import time
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.files import read_json, write_json
from harmony_utils.harmony import HarmonyResult, harmony
from harmony_utils.items import Benchmark
from harmony_utils.labels import group_numbers
from harmony_utils.naming import SubdomainName
from harmony_utils.neighbours import nearest_neighbours
from harmony_utils.partition import Partition
from harmony_utils.predictions import Predictions
from harmony_utils.rebalance import BalancedAccuracy
from harmony_utils.respondents import identify_respondent, is_respondent
from harmony_utils.runs import (
    Run,
    default_folder,
    find_runs,
    git_commit,
    recorded_folder,
    step_key,
)
from harmony_utils.scoring.models import LanguageModel, identify_model, load_model
from harmony_utils.settings import (
    OPEN_ENDED,
    SECTIONS,
    AuditSettings,
    StageSettings,
    stage_settings,
)
from harmony_utils.similarity import affinity_from_divergence
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import large, stratified
from harmony_utils.stages.compute import COMPUTE
from harmony_utils.stages.results import Affinity, Rebalancing, Scaling, Sensitivity
from harmony_utils.stages.steps import STEPS
from harmony_utils.stages.variants import VARIANT_STEPS, ensure_variants, sensitivity_inputs


class Audit:
    """One model on one benchmark, stage by stage.

    Parameters
    ----------
    model : str
        Catalogue name, folder, GGUF file or hub id; see
        :class:`~harmony_utils.scoring.ModelSpec`.
    benchmark : str
        Catalogue name, file or dataset; see :mod:`harmony_utils.sources`.
    limit : int
        Number of questions drawn at random (fixed seed); 0 keeps all.
    root : Path, optional
        Run root; the run lies in ``<root>/<benchmark>/<model>``, that of a sample in
        ``<root>/<benchmark>--<number of questions>/<model>``.
    use_recorded : bool
        Whether recorded results may stand in for computing. The ``harmony`` command says no.

    Raises
    ------
    InputError
        If the model or benchmark is unknown or cannot be read.
    """

    def __init__(
        self,
        model: str,
        benchmark: str,
        *,
        limit: int = 0,
        root: Path | str | None = None,
        use_recorded: bool = True,
    ) -> None:
        self.model = model
        self.is_rule = is_respondent(model)
        self.benchmark: Benchmark = load_benchmark(benchmark, limit=limit)
        if self.is_rule:
            self.benchmark.require_options(f"{model}: a rule that chooses")
        self.identity = {
            "model": identify_respondent(model) if self.is_rule else identify_model(model),
            "benchmark": {
                "name": self.benchmark.name,
                "n_items": len(self.benchmark),
                "fingerprint": self.benchmark.fingerprint(),
            },
        }
        self.root = Path(root) if root else default_folder()
        # a sample has a folder of its own, so that it never replaces the whole
        self.place = self.benchmark.name + (f"--{len(self.benchmark)}" if limit else "")
        place = Path(self.place) / self.identity["model"]["name"]
        self.run = Run(self.root / place)
        self._recorded = Run(recorded_folder() / place) if use_recorded else None
        self._settings: dict[str, StageSettings] = {}
        self.missing_variants: dict[str, str] = {}

    def below(self, root: Path) -> Audit:
        """Return this audit with a run folder below another root, where nothing recorded stands in.

        Questions and model are not looked up again; settings are those of that folder.
        """
        moved = copy(self)
        moved.__dict__.pop("language_model", None)  # that of other settings
        moved.root = root
        moved.run = Run(root / self.run.folder.relative_to(self.root))
        moved._recorded = None
        moved._settings, moved.missing_variants = {}, {}
        return moved

    # settings -------------------------------------------------------------------------------

    def section(self, stage: str) -> str:
        """Return the section of the settings that a stage follows on these questions."""
        return OPEN_ENDED.get(stage, stage) if self.benchmark.open_ended else stage

    def configure(self, settings: AuditSettings) -> Audit:
        """Set the settings of all stages; returns the audit itself."""
        self._settings = {stage: getattr(settings, self.section(stage)) for stage in SECTIONS}
        self._require_pairs("harmony")
        return self

    def settings(self, stage: str) -> Any:
        """Return a stage's settings: those given, else those this folder was run with, else
        the defaults."""
        if stage not in self._settings:
            step = self.run.step(stage) or {}
            self._settings[stage] = stage_settings(self.section(stage), **step.get("settings", {}))
        return self._settings[stage]

    def _set(self, stage: str, values: dict[str, Any]) -> None:
        if values:
            self._settings[stage] = stage_settings(self.section(stage), **values)

    # steps ----------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        """Return the key that a step must have to count as finished now."""
        step = STEPS[name]
        identity = self.settings(step.stage).identity()
        if step.fields is not None:
            identity = {field: identity[field] for field in step.fields}
        if name == "divergence" and self.reduced:
            identity["reduced"] = self.reduced
        inputs: dict[str, Any] = {need: self.run.hashes(need) for need in step.needs}
        if not step.needs:
            inputs = {"identity": self.identity}
        if name == "scaling":
            inputs["peers"] = [peer.hashes("harmony") for peer in self.peers()]
        if name == "sensitivity":
            inputs["others"] = sensitivity_inputs(self)
        if name == "stratified":
            runs = stratified.judges(self)
            inputs["peers"] = [[run.folder.name, run.hashes("predictions")] for run in runs]
        if name in ("harmony", "rebalancing") and self.groups() is not None:
            inputs["groups"] = self.groups().tolist()
        return step_key(name, version=step.version, settings=identity, inputs=inputs)

    def is_current(self, name: str) -> bool:
        """Say whether a step and everything it needs is finished and unchanged."""
        return all(self.is_current(need) for need in STEPS[name].needs) and self.run.is_current(
            name, self.key(name)
        )

    def ensure(self, name: str) -> None:
        """Make a step's files be there: reuse, adopt a recorded result, or compute."""
        if name != "predictions":
            self.require_distributions()
        self._require_pairs(name)
        for need in STEPS[name].needs:
            self.ensure(need)
        if name == "sensitivity":
            self.missing_variants = ensure_variants(self)
        key = self.key(name)
        if self.run.is_current(name, key):
            return
        if self._recorded is not None and self._recorded.is_current(name, key):
            self._introduce()
            self.run.adopt(self._recorded, name)
            return
        self.compute(name)

    def compute(self, name: str) -> None:
        """Compute a step from its inputs, whether or not it is finished already."""
        step = STEPS[name]
        key = self.key(name)
        # a recorded run may lack large files; computing them takes the lock itself
        if name == "divergence":
            self.distributions()
        elif "divergence" in step.needs or (
            name == "harmony" and self.settings("harmony").recluster
        ):
            self.divergence()
        files, stale = self._files(name)
        with self.run.lock():
            self._introduce()
            started = time.monotonic()
            COMPUTE[name](self)
            self.run.finish(
                name,
                key=key,
                files=files,
                version=step.version,
                settings=self.settings(step.stage).model_dump(mode="json"),
                seconds=round(time.monotonic() - started, 2),
            )
        for file in stale:
            self.run.path(file).unlink(missing_ok=True)
        unfinished = "parts" if name == "predictions" else f"parts-{name}"
        shutil.rmtree(self.run.path(unfinished), ignore_errors=True)

    def _files(self, name: str) -> tuple[list[str], tuple[str, ...]]:
        """Return the files a step writes here, and those of its other form that it outdates."""
        files = STEPS[name].files
        if name == "divergence":
            forms = {"": files, **large.FILES}
            wanted = forms.pop(next(iter(self.reduced), ""))
            return list(wanted), tuple(chain.from_iterable(forms.values()))
        return [file for file in files if not (self.is_rule and file == "distributions.npy")], ()

    @property
    def reduced(self) -> dict[str, int]:
        """What stands for all pairs where there are too many; else empty."""
        return self.settings("affinity").reduced_to(len(self.benchmark))

    def _require_pairs(self, name: str) -> None:
        """Refuse early what takes all pairs where they are not kept."""
        if name == "sensitivity" or name in VARIANT_STEPS.values():
            sample = "run it on a sample, e.g. --limit 2000"
            large.needs_all_pairs(self, "the sensitivity analysis", sample)
        if name == "harmony" and self.settings("harmony").recluster:
            large.needs_all_pairs(self, "harmony.recluster", "set it to 0")

    def require_distributions(self) -> None:
        """Refuse a respondent that is a rule, for what takes a distribution over a vocabulary.

        Raises
        ------
        InputError
            With what the respondent can have instead.
        """
        if self.is_rule:
            raise InputError(
                f"{self.model}: a rule has no distribution over a vocabulary, so no affinity and "
                "no subdomains of its own; it has predictions, and HARMONY over a given partition "
                "(--partition embeddings or subjects)"
            )

    def _introduce(self) -> None:
        """Write who is audited into ``run.json``.

        Raises
        ------
        InputError
            If the folder's results are of other questions under the same name: a dataset or its
            revision changed. A person's own file may change; its stages run again.
        """
        about = {**self.identity, "git_commit": git_commit()}
        before = self.run.record.get("audit", {})
        made_from = before.get("benchmark", about["benchmark"])["fingerprint"]
        now = about["benchmark"]["fingerprint"]
        if made_from != now and not self.benchmark.source.startswith("file "):
            raise InputError(
                f"{self.run.folder}: was made from other questions named {self.benchmark.name} "
                f"(fingerprint {made_from[:12]}, now {now[:12]}): the dataset or its revision "
                "changed. Pin the revision, or choose another --out to keep both results"
            )
        if before != about:
            self.run.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.run.path("run.json"), {**self.run.record, "audit": about})

    # results --------------------------------------------------------------------------------

    def predictions(self, **settings: Any) -> Predictions:
        """Return the model's answers, scoring the benchmark if need be.

        The settings are those of the section ``predictions``, of open-ended questions those of
        ``generation``.
        """
        self._set("predictions", settings)
        self.ensure("predictions")
        return Predictions.load(self.run.path("predictions.parquet"))

    def distributions(self) -> np.ndarray:
        """Return log-probabilities, shape (n_items, vocabulary), float16, memory-mapped.

        Recorded results leave them out, so this may have to score the benchmark.
        """
        self.require_distributions()
        self.ensure("predictions")
        path = self.run.path("distributions.npy")
        if not path.exists():
            self.compute("predictions")
        return np.load(path, mmap_mode="r")

    def affinity(self, **settings: Any) -> Affinity:
        """Return the predictive similarity of every pair of items, or what stands for it."""
        self._set("affinity", settings)
        self.ensure("affinity")
        divergence = self.divergence()
        temperature = read_json(self.run.path("affinity.json"))["temperature"]
        if self.reduced:
            return large.load_affinity(self, temperature=temperature)
        similarity, _ = affinity_from_divergence(divergence, temperature=temperature)
        neighbours = self.settings("affinity").neighbours
        linked = nearest_neighbours(similarity, neighbours) if neighbours else similarity
        return Affinity(divergence, linked, temperature, similarity, np.arange(len(divergence)))

    def divergence(self) -> np.ndarray:
        """Return Jeffreys divergences, shape (n_items, n_items), float32, memory-mapped.

        Of more items than ``all_pairs_up_to``, those between the landmarks, or the items of a
        sample.
        """
        files, _ = self._files("divergence")
        if not all(self.run.path(file).exists() for file in files):
            self.compute("divergence")
        if self.reduced:
            return large.sampled_divergence(self)
        return np.load(self.run.path(files[0]), mmap_mode="r")

    def clustering(self, **settings: Any) -> Partition:
        """Return the induced subdomains."""
        self._set("clustering", settings)
        self.ensure("clustering")
        labels = pd.read_parquet(self.run.path("partition.parquet"))["label"].tolist()
        about = read_json(self.run.path("partition.json"))
        about.pop("cluster_names", None)
        return Partition.from_dict({**about, "labels": labels})

    def subdomain_names(self) -> list[SubdomainName]:
        """Return what a person can read of each induced subdomain, in the order of the labels."""
        self.ensure("clustering")
        names = read_json(self.run.path("partition.json"))["cluster_names"]
        return [SubdomainName.from_dict(name) for name in names]

    def harmony(self, **settings: Any) -> HarmonyResult:
        """Return HARMONY with its null distribution and intervals."""
        self._set("harmony", settings)
        self.ensure("harmony")
        return self.measure()

    def reclustered(self) -> dict[str, Any] | None:
        """Return the interval that includes the choice of subdomains, if ``recluster`` asked for
        one; see :func:`~harmony_utils.recluster.reclustered_interval`."""
        self.ensure("harmony")
        return read_json(self.run.path("harmony.json"))["interval_recluster"]

    def stratified(self) -> dict[str, Any]:
        """Return the difficulty-stratified null, or why there is none; see
        :func:`~harmony_utils.stages.stratified.stratified_result`."""
        self.ensure("stratified")
        return read_json(self.run.path("stratified.json"))

    def groups(self) -> np.ndarray | None:
        """Return which questions hang together, shape (n_items,), numbered from 0; None if none."""
        return group_numbers(self.benchmark.groups())

    def measure(self) -> HarmonyResult:
        """Compute HARMONY; fast and seeded, so no draws need to be stored."""
        settings = self.settings("harmony")
        return harmony(
            self.predictions().correct,
            self.clustering().labels,
            bandwidth=settings.bandwidth,
            groups=self.groups(),
            n_null=settings.n_null,
            n_bootstrap=settings.n_bootstrap,
            confidence=settings.confidence,
            random_state=settings.random_state,
        )

    def rebalancing(self, **settings: Any) -> Rebalancing:
        """Return what removing questions, or weighing them anew, changes."""
        self._set("rebalancing", settings)
        self.ensure("rebalancing")
        about = read_json(self.run.path("rebalancing.json"))
        table = pd.read_parquet(self.run.path("rebalancing.parquet"))
        items = pd.read_csv(self.run.path("rebalanced_items.csv"), dtype={"native_id": str})
        return Rebalancing(table, BalancedAccuracy(**about["balanced"]), items, about["left_out"])

    def ladders(self) -> dict[str, pd.DataFrame]:
        """Return the ladders of this model on every benchmark there is, by place.

        That of this audit, and those of finished runs of the same model below the same root or
        among the recorded ones; for :func:`~harmony_utils.rebalance.compare.compare_benchmarks`.
        """
        found = {self.place: self.rebalancing().table}
        for root in (self.root, recorded_folder()):
            for path in sorted(root.glob(f"*/{self.run.folder.name}/rebalancing.parquet")):
                run = Run(path.parent)
                model = run.record.get("audit", {}).get("model")
                step = run.step("rebalancing") or {}
                current = step.get("version") == STEPS["rebalancing"].version
                if model == self.identity["model"] and current:
                    found.setdefault(path.parent.parent.name, pd.read_parquet(path))
        return found

    def scaling(self, **settings: Any) -> Scaling:
        """Return trends over this run and the other runs of the same questions."""
        self._set("scaling", settings)
        self.ensure("scaling")
        return Scaling(
            pd.read_parquet(self.run.path("scaling.parquet")),
            pd.read_parquet(self.run.path("trends.parquet")),
        )

    def sensitivity(self, **settings: Any) -> Sensitivity:
        """Return what other defensible choices would have found.

        Scores the model again for every variant of the averaged distribution that is not there
        yet; where that cannot be done, the variant is left out and named.
        """
        self._set("sensitivity", settings)
        self.ensure("sensitivity")
        summary = read_json(self.run.path("sensitivity.json"))
        return Sensitivity(pd.read_parquet(self.run.path("sensitivity.parquet")), summary)

    def peers(
        self, stages: tuple[str, ...] = ("predictions", "affinity", "clustering", "harmony")
    ) -> list[Run]:
        """Return the other runs that asked the same questions and finished these stages with the
        same settings.

        Runs below the same root come first; recorded runs fill in models that are not there.
        """
        found: dict[str, Run] = {}
        for root in (self.root, recorded_folder()):
            for run in find_runs(root, self.place):
                name = run.folder.name
                if (
                    name != self.run.folder.name
                    and name not in found
                    and self._comparable(run, stages)
                ):
                    found[name] = run
        return [found[name] for name in sorted(found)]

    def _comparable(self, other: Run, stages: tuple[str, ...]) -> bool:
        record = other.record
        if record.get("audit", {}).get("benchmark") != self.identity["benchmark"]:
            return False
        steps = record.get("steps", {})
        return all(
            stage in steps
            and stage_settings(self.section(stage), **steps[stage]["settings"]).identity()
            == self.settings(stage).identity()
            for stage in stages
        )

    @cached_property
    def language_model(self) -> LanguageModel:
        """The loaded model; the first use takes a while."""
        settings = self.settings("predictions")
        return load_model(
            self.model,
            dtype=settings.dtype,
            device=settings.device,
            trust_remote_code=settings.trust_remote_code,
        )


def open_audit(
    *, model: str, benchmark: str, limit: int = 0, run_dir: str = "", use_recorded: bool = True
) -> Audit:
    """Open an audit; the first call of every chapter.

    Parameters
    ----------
    model, benchmark, limit
        As in :class:`Audit`.
    run_dir : str
        Run root; empty for the project's ``runs/default``.
    use_recorded : bool
        Whether recorded results may stand in for computing.

    Returns
    -------
    Audit
        Nothing is computed yet.
    """
    if not model or not benchmark:
        raise InputError("give both a model and a benchmark")
    return Audit(model, benchmark, limit=limit, root=run_dir or None, use_recorded=use_recorded)
