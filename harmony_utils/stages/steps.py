"""The steps that stages are made of: what each needs, what it writes, and its version."""

from __future__ import annotations

from dataclasses import dataclass

from harmony_utils.stages.variants import VARIANT_STEPS


@dataclass(frozen=True)
class Step:
    """One computation of a stage with the files it writes.

    ``fields`` are the settings of the stage that decide its result (all of them when None).
    """

    stage: str
    needs: tuple[str, ...]
    files: tuple[str, ...]
    version: int = 1
    fields: tuple[str, ...] | None = None


STEPS: dict[str, Step] = {
    "predictions": Step("predictions", (), ("predictions.parquet", "distributions.npy")),
    "divergence": Step("affinity", ("predictions",), ("divergence.npy",), fields=("floor",)),
    "affinity": Step("affinity", ("divergence",), ("affinity.json",)),
    # version 2: names of the subdomains, stability over resamples; the labels are those of 1
    "clustering": Step(
        "clustering",
        ("divergence", "affinity"),
        ("partition.parquet", "partition.json"),
        version=2,
    ),
    # version 4: power is about a spread that the sizes allow; HARMONY is that of 3
    "harmony": Step("harmony", ("predictions", "clustering"), ("harmony.json",), version=4),
    "stratified": Step("harmony", ("harmony",), ("stratified.json",)),
    # version 2: more methods, intervals, one list of items for all
    "rebalancing": Step(
        "rebalancing",
        ("predictions", "clustering", "harmony"),
        ("rebalancing.parquet", "rebalancing.json", "rebalanced_items.csv"),
        version=2,
    ),
    "scaling": Step("scaling", ("harmony",), ("scaling.parquet", "trends.parquet")),
    # no stage of `harmony audit`; other variants are scored only when this asks for them
    "sensitivity": Step(
        "sensitivity",
        ("predictions", "divergence"),
        ("sensitivity.parquet", "sensitivity.json"),
    ),
    **{
        name: Step("affinity", ("predictions",), (f"{name}.npy",), fields=("floor",))
        for name in VARIANT_STEPS.values()
    },
}
