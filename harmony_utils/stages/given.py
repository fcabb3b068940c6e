"""HARMONY over a partition that comes from elsewhere than the respondent's own predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd

from harmony_utils.embedding import embed_texts, text_affinity
from harmony_utils.errors import InputError
from harmony_utils.files import write_atomically, write_json
from harmony_utils.harmony import HarmonyResult, harmony
from harmony_utils.items import Benchmark
from harmony_utils.naming import item_texts
from harmony_utils.partition import Partition, partition_from_labels, spectral_partition
from harmony_utils.predictions import Predictions
from harmony_utils.reading import verdict_sentence
from harmony_utils.settings import ClusteringSettings
from harmony_utils.stages.audit import Audit

GivenPartition = Literal["embeddings", "subjects"]


@dataclass(frozen=True, eq=False)
class GivenAudit:
    """One respondent on one benchmark, under a partition that is not its own.

    Parameters
    ----------
    predictions : Predictions
        The answers.
    used : str
        ``embeddings`` or ``subjects``.
    partition : Partition
        Labels of the items.
    result : HarmonyResult
        HARMONY under it.
    """

    predictions: Predictions
    used: str
    partition: Partition
    result: HarmonyResult

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        about = self.result.to_dict()
        about["verdict"]["sentence"] = verdict_sentence(self.result)
        meta = self.predictions.meta
        return {
            "model": meta["model"]["name"],
            "benchmark": meta["benchmark"],
            "scores": meta.get("scores", "log-likelihood"),
            "partition": self.used,
            "k": self.partition.n_clusters,
            **about,
        }


def given_partition(
    benchmark: Benchmark, partition: GivenPartition, settings: ClusteringSettings | None = None
) -> Partition:
    """Divide the questions of a benchmark without asking a respondent.

    Parameters
    ----------
    benchmark : Benchmark
        The items.
    partition : {"embeddings", "subjects"}
        ``embeddings`` clusters MiniLM embeddings of question and correct option as an audit
        clusters predictive similarity; ``subjects`` takes those of the benchmark.
    settings : ClusteringSettings, optional
        Of the clustering.

    Returns
    -------
    Partition
        Canonical labels in item order.

    Raises
    ------
    InputError
        For another name, a benchmark without subjects or with only one, or too few items.
    """
    if partition not in get_args(GivenPartition):
        raise InputError(f"partition {partition!r}: choose {' or '.join(get_args(GivenPartition))}")
    if partition == "subjects":
        if all(subject is None for subject in benchmark.subjects):
            raise InputError(
                f"partition 'subjects': benchmark {benchmark.name!r} has none; take embeddings"
            )
        return partition_from_labels(benchmark.subjects)
    affinity, _ = text_affinity(embed_texts(item_texts(benchmark.items)))
    return spectral_partition(affinity, **(settings or ClusteringSettings()).model_dump())


def audit_given(audit: Audit, partition: GivenPartition = "embeddings") -> GivenAudit:
    """Audit a respondent under a given partition: the way for those without an affinity.

    Parameters
    ----------
    audit : Audit
        Opened for any model or respondent; its predictions are reused or computed.
    partition : {"embeddings", "subjects"}
        See :func:`given_partition`.

    Returns
    -------
    GivenAudit
        Also written into the run folder: labels and result, ``given-PARTITION.parquet`` and
        ``.json``.

    Raises
    ------
    InputError
        As :func:`given_partition`.
    """
    predictions = audit.predictions()
    found = given_partition(audit.benchmark, partition, audit.settings("clustering"))
    settings = audit.settings("harmony")
    result = harmony(predictions.correct, found.labels, **settings.model_dump())
    done = GivenAudit(predictions, partition, found, result)
    labels = pd.DataFrame({"key": audit.benchmark.keys(), "label": found.labels})
    write_atomically(
        audit.run.path(f"given-{partition}.parquet"),
        lambda temporary: labels.to_parquet(temporary, index=False),
    )
    write_json(audit.run.path(f"given-{partition}.json"), done.to_dict())
    return done
