"""The sensitivity analysis of an audit, and the further averaged distributions it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from scipy.spatial.distance import squareform

from harmony_utils import scoring
from harmony_utils.errors import HarmonyError
from harmony_utils.files import write_array, write_atomically, write_json
from harmony_utils.sensitivity import multiverse, summarise
from harmony_utils.settings import Variant, stage_settings
from harmony_utils.similarity import jeffreys_divergence
from harmony_utils.specifications import Specification

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit

VARIANT_STEPS: dict[str, str] = {name: f"divergence-{name}" for name in get_args(Variant)}
"""Variant of the averaged distribution → the step that scores it."""


def compute_variant(variant: str) -> Callable[[Audit], None]:
    """Return the function that scores a variant and keeps its divergences.

    They are kept as one triangle of the table, single precision: half the size, nothing lost.
    Finished chunks of questions survive a kill in ``parts-divergence-<variant>``.
    """

    def compute(audit: Audit) -> None:
        name = VARIANT_STEPS[variant]
        given = audit.settings("predictions").model_dump()
        settings = stage_settings(audit.section("predictions"), **{**given, "variant": variant})
        folder = audit.run.path(f"parts-{name}")
        scores = scoring.score(audit.language_model, audit.benchmark, settings, folder=folder)
        floor = audit.settings("affinity").floor
        divergence = jeffreys_divergence(scores.distributions, floor=floor)
        write_array(audit.run.path(f"{name}.npy"), squareform(divergence, checks=False))

    return compute


def ensure_variants(audit: Audit) -> dict[str, str]:
    """Make the divergences of the wanted variants be there, as far as they can be had.

    Returns
    -------
    dict of str to str
        Those that cannot be had, with the reason.
    """
    missing = {}
    for variant in _others(audit):
        try:
            audit.ensure(VARIANT_STEPS[variant])
        except HarmonyError as error:
            missing[variant] = str(error)
    return missing


def sensitivity_inputs(audit: Audit) -> dict[str, Any]:
    """Return what the sensitivity analysis depends on beside the steps that it needs."""
    hashes = {variant: audit.run.hashes(VARIANT_STEPS[variant]) for variant in _others(audit)}
    stages = ("affinity", "clustering", "harmony")
    return {
        "variants": hashes,
        "settings": {stage: audit.settings(stage).identity() for stage in stages},
    }


def compute_sensitivity(audit: Audit) -> None:
    """Run the multiverse on the variants that are there and write table and summary."""
    clustering, measured = audit.settings("clustering"), audit.settings("harmony")
    affinity = audit.settings("affinity")
    own = audit.settings("predictions").variant
    divergences = {own: np.asarray(audit.divergence())}
    for variant in _others(audit):
        if audit.is_current(VARIANT_STEPS[variant]):
            path = audit.run.path(f"{VARIANT_STEPS[variant]}.npy")
            divergences[variant] = squareform(np.load(path))
    table = multiverse(
        divergences,
        audit.predictions().correct,
        settings=audit.settings("sensitivity"),
        default=Specification(
            variant=own,
            neighbours=affinity.neighbours,
            n_clusters=clustering.n_clusters,
            assign_labels=clustering.assign_labels,
            seed=clustering.random_state,
            bandwidth=measured.bandwidth,
        ),
        groups=audit.groups(),
        temperature=affinity.temperature,
        clustering=clustering,
        harmony=measured,
    )
    summary = summarise(table) | {"missing_variants": audit.missing_variants}
    write_atomically(
        audit.run.path("sensitivity.parquet"), lambda path: table.to_parquet(path, index=False)
    )
    write_json(audit.run.path("sensitivity.json"), summary)


def _others(audit: Audit) -> list[str]:
    """Return the wanted variants that are not the run's own."""
    wanted = audit.settings("sensitivity").variants
    return [variant for variant in wanted if variant != audit.settings("predictions").variant]
