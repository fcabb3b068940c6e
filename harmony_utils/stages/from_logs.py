"""An audit of evaluation logs: every stage that their data allows, without any model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.comparison import compare_partitions
from harmony_utils.embedding import embed_texts, text_affinity
from harmony_utils.errors import InputError, RefusedError
from harmony_utils.files import content_hash, json_values, write_atomically, write_json
from harmony_utils.harmony import HarmonyResult, harmony
from harmony_utils.labels import group_numbers
from harmony_utils.logs import Import, Run
from harmony_utils.pairs import refuse_too_many
from harmony_utils.partition import Partition, partition_from_labels, spectral_partition
from harmony_utils.predictions import Predictions
from harmony_utils.probabilities import option_log_probabilities
from harmony_utils.reading import verdict_sentence
from harmony_utils.rebalance import prune_ladder, usable_shares
from harmony_utils.runs import Run as RunFolder
from harmony_utils.runs import default_folder
from harmony_utils.settings import AuditSettings
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence

PARTITIONS = {
    "subjects": "the log's own subjects",
    "embeddings": "clusters of question embeddings (MiniLM)",
    "options": "clusters of the probabilities of the options",
}
"""Ways to divide the items of a log, in the order in which they are tried."""

OPTIONS_WARNING = (
    "subdomains from the probabilities of four or five options carried no information on subjects "
    "where this project measured it; read them as a check, not as topics"
)

MAX_ITEMS = 15000
"""Items that are clustered at most; a partition by subject has no such limit."""


@dataclass(frozen=True, eq=False)
class LogAudit:
    """One model on one benchmark, audited from its logs.

    Parameters
    ----------
    run : harmony_utils.logs.Run
        Where it came from.
    predictions : Predictions
        The scored items.
    n_unscored : int
        Items that the log does not score; they are left out.
    used : str
        The partition behind the verdict, a key of :data:`PARTITIONS`.
    partition : Partition
        That partition.
    result : HarmonyResult
        HARMONY under it.
    labels : dict of str to ndarray of shape (n_items,)
        Every partition there is.
    comparison : DataFrame
        Verdicts under every partition there is, from
        :func:`~harmony_utils.comparison.compare_partitions`.
    rebalancing : DataFrame
        From :func:`~harmony_utils.rebalance.prune_ladder`.
    left_out : dict of str to str
        What could not be had, and why.
    """

    run: Run
    predictions: Predictions
    n_unscored: int
    used: str
    partition: Partition
    result: HarmonyResult
    labels: dict[str, np.ndarray]
    comparison: pd.DataFrame
    rebalancing: pd.DataFrame
    left_out: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values."""
        about = self.result.to_dict()
        about["verdict"]["sentence"] = verdict_sentence(self.result)
        return {
            "model": self.run.model,
            "benchmark": self.run.benchmark,
            "normalisation": self.predictions.meta["normalisation"],
            "n_unscored": self.n_unscored,
            "partition": {"name": self.used, "meaning": PARTITIONS[self.used]},
            "k": self.result.n_clusters,
            **about,
            "averages": self.run.averages(),
            "comparison": self.comparison.to_dict("records"),
            "rebalancing": self.rebalancing.replace({np.nan: None}).to_dict("records"),
            "warnings": [*self.partition.warnings]
            + ([OPTIONS_WARNING] if self.used == "options" else []),
            "left_out": self.left_out,
        }


@dataclass
class _Embeddings:
    """Embeds each question once, however many models answered it."""

    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)

    def partition(self, texts: list[str], settings: Any) -> Partition:
        key = content_hash([texts, settings.model_dump()])
        if key not in self.partitions:
            new = [text for text in dict.fromkeys(texts) if text not in self.vectors]
            if new:
                self.vectors.update(zip(new, embed_texts(new), strict=True))
            vectors = np.array([self.vectors[text] for text in texts])
            affinity, _ = text_affinity(vectors)
            self.partitions[key] = spectral_partition(affinity, **settings.model_dump())
        return self.partitions[key]


def audit_logs(
    found: Import, *, partition: str = "", settings: AuditSettings | None = None
) -> tuple[list[LogAudit], dict[str, str]]:
    """Audit every run of an import.

    Parameters
    ----------
    found : Import
        From :func:`~harmony_utils.logs.read_logs` with ``keep_texts=True``.
    partition : {"", "subjects", "embeddings", "options"}
        What divides the items. By default the log's own subjects if it names at least two, else
        clusters of question embeddings. ``options`` is only ever used when asked for.
    settings : AuditSettings, optional
        Constants of clustering, HARMONY and rebalancing.

    Returns
    -------
    audits : list of LogAudit
        One for each model and benchmark that can be divided.
    refused : dict of str to str
        The others, as ``model on benchmark``, and why.

    Raises
    ------
    InputError, RefusedError
        If not one run can be divided: for its first, e.g. because ``partition`` needs
        log-likelihoods that the log does not hold.
    """
    if partition and partition not in PARTITIONS:
        raise InputError(f"partition {partition!r}: choose {', '.join(PARTITIONS)}")
    embeddings = _Embeddings()
    settings = settings or AuditSettings()
    audits, refused, errors = [], {}, []
    for run in found.runs:
        try:
            audits.append(_audit_run(run, partition, settings, embeddings))
        except (InputError, RefusedError) as error:
            refused[f"{run.model} on {run.benchmark}"] = str(error)
            errors.append(error)
    if not audits:
        raise errors[0]
    return audits, refused


def _audit_run(run: Run, wanted: str, settings: AuditSettings, embeddings: _Embeddings) -> LogAudit:
    where = f"model {run.model}, benchmark {run.benchmark}"
    scored = ~np.isnan(run.predictions.correct)
    if scored.sum() < 2:
        raise InputError(f"{where}: {int(scored.sum())} scored items; an audit needs more")
    table = run.predictions.table[scored].reset_index(drop=True)
    predictions = Predictions(table, run.predictions.meta)
    questions = [q for q, ok in zip(run.questions(), scored, strict=True) if ok]
    makers: dict[str, Callable[[], Partition]] = {
        "subjects": lambda: _subjects(predictions),
        "embeddings": lambda: (
            _clusterable(questions) or embeddings.partition(questions, settings.clustering)
        ),
    }
    if wanted == "options":
        makers["options"] = lambda: option_partition(predictions, settings)
    partitions, left_out = {}, {}
    for name, make in makers.items():
        try:
            partitions[name] = make()
        except (InputError, RefusedError) as error:
            if name == wanted:
                raise type(error)(f"{where}, partition {name}: {error}") from None
            left_out[f"partition {name}"] = str(error)
    if not partitions:
        raise InputError(f"{where}: cannot be divided ({'; '.join(left_out.values())})")
    used = wanted or next(iter(partitions))
    labels = partitions[used].labels
    correct, about = predictions.correct, settings.harmony.model_dump(exclude={"recluster"})
    groups = group_numbers(predictions.table["group"].tolist())
    if wanted != "options":
        left_out["partition options"] = "only made when asked for: " + OPTIONS_WARNING
    return LogAudit(
        run=run,
        predictions=predictions,
        n_unscored=int((~scored).sum()),
        used=used,
        partition=partitions[used],
        result=harmony(correct, labels, groups=groups, **about),
        labels={name: p.labels for name, p in partitions.items()},
        comparison=compare_partitions(
            correct,
            {name: p.labels for name, p in partitions.items()},
            used,
            groups=groups,
            **{n: about[n] for n in ("bandwidth", "n_null", "confidence", "random_state")},
        ),
        rebalancing=prune_ladder(
            correct,
            labels,
            groups=groups,
            bandwidth=about["bandwidth"],
            confidence=about["confidence"],
            **{
                **settings.rebalancing.model_dump(exclude={"duplicates"}),
                "shares": usable_shares(labels, settings.rebalancing.shares),
            },
        ),
        left_out=left_out,
    )


def _subjects(predictions: Predictions) -> Partition:
    subjects = predictions.table["subject"]
    if subjects.isna().all():
        raise InputError("the log names no subjects")
    if missing := int(subjects.isna().sum()):
        raise InputError(f"{missing} of {len(subjects)} items have no subject")
    if subjects.nunique() < 2:
        raise InputError(f"all items belong to one subject ({subjects.iloc[0]})")
    return partition_from_labels(subjects.tolist())


def _clusterable(questions: list[str]) -> None:
    if len(questions) > MAX_ITEMS:
        raise InputError(f"{len(questions):,} items are more than can be clustered ({MAX_ITEMS:,})")
    if len(set(questions)) < 3:
        raise InputError("the log does not hold the questions, or they are all the same")


def option_distributions(predictions: Predictions) -> np.ndarray:
    """Return log-probabilities over an item's options, the correct one first.

    Parameters
    ----------
    predictions : Predictions
        With a log-likelihood for every option.

    Returns
    -------
    ndarray of shape (n_items, max_options)
        Correct option first, then by falling probability, so that letters do not decide what is
        similar; -inf where an item has fewer options.

    Raises
    ------
    RefusedError
        If there are no log-likelihoods, or some options have none: probabilities over the rest
        would not be the model's.
    """
    try:
        rows = option_log_probabilities(predictions)
    except InputError as error:
        raise RefusedError(f"{error}; use subjects or embeddings") from None
    for row, gold in zip(rows, predictions.table["gold"], strict=True):
        row[:] = [row[gold[0]], *np.sort(np.delete(row, gold[0]))[::-1]]
    return rows


def option_partition(predictions: Predictions, settings: AuditSettings) -> Partition:
    """Cluster items by their probabilities over options; see the warning that audits print."""
    rows = option_distributions(predictions)
    if settings.affinity.reduced_to(len(rows)):
        refuse_too_many(len(rows), "subdomains by options")
    divergence = jeffreys_divergence(rows, floor=settings.affinity.floor)
    affinity, _ = affinity_from_divergence(divergence, temperature=settings.affinity.temperature)
    return spectral_partition(affinity, **settings.clustering.model_dump())


def log_folder(run: Run, *, root: Path | None = None) -> Path:
    """Return ``<root>/<benchmark>/<model>``, with names that a file system takes."""
    parts = [
        re.sub(r"[^\w.+=,#@-]+", "__", name).strip(".") or "unnamed"
        for name in (run.benchmark, run.model)
    ]
    return (root or default_folder().parent / "logs").joinpath(*parts)


def save_log_run(run: Run, *, root: Path | None = None) -> Path:
    """Write an imported run's predictions into its folder; return the folder."""
    folder = log_folder(run, root=root)
    run.predictions.save(folder / "predictions.parquet")
    about = {
        "model": run.model,
        "benchmark": run.benchmark,
        "n_items": len(run.predictions),
        "settings": run.settings,
        "log": run.predictions.meta["log"],
        "files": [Path(path).name for path in run.paths],
    }
    RunFolder(folder).update("import", "log", about)
    return folder


def save_log_audit(audit: LogAudit, *, root: Path | None = None) -> Path:
    """Write an audit's results beside its predictions; return the folder."""
    folder = save_log_run(audit.run, root=root)
    labels = pd.DataFrame(
        {"key": audit.predictions.table["key"], "label": audit.partition.labels.astype(int)}
    )
    about = audit.partition.to_dict()
    del about["labels"]
    tables = {
        "partition.parquet": labels,
        "comparison.parquet": audit.comparison,
        "rebalancing.parquet": audit.rebalancing,
    }
    for name, table in tables.items():
        write_atomically(
            folder / name, lambda path, table=table: table.to_parquet(path, index=False)
        )
    write_json(folder / "partition.json", {"partition": audit.used, **json_values(about)})
    write_json(folder / "harmony.json", json_values(audit.to_dict()))
    return folder
