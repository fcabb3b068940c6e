"""How each step is computed from the results before it; every function writes its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harmony_utils import naming, rebalance, scaling, scoring, similarity
from harmony_utils.embedding import cosine_distance, embed_texts, tfidf_vectors
from harmony_utils.errors import InputError
from harmony_utils.files import read_json, write_array, write_atomically, write_json, write_text
from harmony_utils.graph import AnyAffinity
from harmony_utils.pairs import pair_quantiles
from harmony_utils.partition import STABLE_ARI, spectral_partition
from harmony_utils.predictions import Predictions
from harmony_utils.reading import verdict_sentence
from harmony_utils.recluster import reclustered_interval
from harmony_utils.respondents import respond
from harmony_utils.runs import Run
from harmony_utils.stability import RESAMPLE_ITEMS, RESAMPLE_SHARE, resample_stability
from harmony_utils.stages import large, stratified
from harmony_utils.stages.variants import VARIANT_STEPS, compute_sensitivity, compute_variant

if TYPE_CHECKING:
    from harmony_utils.stages.audit import Audit


def _write_parquet(path: Path, table: pd.DataFrame) -> None:
    write_atomically(path, lambda temporary: table.to_parquet(temporary, index=False))


def _compute_predictions(audit: Audit) -> None:
    if audit.is_rule:
        answers = respond(audit.model, audit.benchmark, audit.settings("predictions"))
        answers.save(audit.run.path("predictions.parquet"))
        return
    scores = scoring.score(
        audit.language_model,
        audit.benchmark,
        audit.settings("predictions"),
        folder=audit.run.folder,
    )
    scores.predictions.save(audit.run.path("predictions.parquet"))


def _compute_divergence(audit: Audit) -> None:
    if audit.reduced:
        large.write_divergences(audit)
        return
    divergence = similarity.jeffreys_divergence(
        audit.distributions(), floor=audit.settings("affinity").floor
    )
    write_array(audit.run.path("divergence.npy"), divergence)


def _compute_affinity(audit: Audit) -> None:
    divergence = audit.divergence()
    wanted = audit.settings("affinity").temperature
    used = similarity.median_temperature(divergence) if wanted == "median" else wanted
    quartiles = pair_quantiles(divergence, [0.25, 0.5, 0.75]).tolist()
    about = {"temperature": float(used), "rule": wanted, "divergence_quartiles": quartiles}
    neighbours = audit.settings("affinity").neighbours
    about |= {"neighbours": neighbours} if neighbours else {}
    about |= {**audit.reduced, "n_sampled": len(divergence)} if audit.reduced else {}
    write_json(audit.run.path("affinity.json"), about)


def _compute_clustering(audit: Audit) -> None:
    found, settings = audit.affinity(), audit.settings("clustering")
    affinity = found.affinity
    partition = spectral_partition(
        affinity,
        similarity=found.similarity,
        items=found.items if found.is_sample else None,
        **settings.model_dump(),
    )
    items = audit.benchmark.items
    names = naming.name_subdomains(
        naming.item_texts(items), partition.labels, affinity, ids=[item.id for item in items]
    )
    resampled, warnings = _resampled(affinity, partition.n_clusters, settings)
    about = partition.to_dict()
    about["stability"] |= resampled
    about["warnings"] += warnings + large.warnings(audit, affinity)
    about["cluster_names"] = [name.to_dict() for name in names]
    labels = pd.DataFrame({"key": audit.benchmark.keys(), "label": about.pop("labels")})
    _write_parquet(audit.run.path("partition.parquet"), labels)
    write_json(audit.run.path("partition.json"), about)


def _resampled(
    affinity: AnyAffinity, n_clusters: int, settings: Any
) -> tuple[dict[str, float], list[str]]:
    """Return the stability over resamples of items and what must be said of it."""
    n_items = affinity.shape[0]
    if n_items > RESAMPLE_ITEMS or n_clusters >= round(RESAMPLE_SHARE * n_items):
        why = f"more than {RESAMPLE_ITEMS:,}" if n_items > RESAMPLE_ITEMS else "too few"
        return {"n_resamples": 0}, [
            f"{why} questions to see whether other questions would give the same subdomains"
        ]
    found = resample_stability(
        affinity,
        n_clusters,
        assign_labels=settings.assign_labels,
        n_init=settings.n_init,
        random_state=settings.random_state,
    )
    if found["resample_mean_ari"] >= STABLE_ARI:
        return found, []
    return found, [
        "other questions would give other subdomains (mean adjusted Rand index of subsamples "
        f"{found['resample_mean_ari']:.2f})"
    ]


def _compute_harmony(audit: Audit) -> None:
    result, settings = audit.measure(), audit.settings("harmony")
    about = result.to_dict()
    about["verdict"]["sentence"] = verdict_sentence(result)
    about["interval_recluster"] = None
    if settings.recluster:
        about["interval_recluster"] = reclustered_interval(
            audit.affinity().affinity,
            audit.predictions().correct,
            n_resamples=settings.recluster,
            groups=audit.groups(),
            bandwidth=settings.bandwidth,
            confidence=settings.confidence,
            **audit.settings("clustering").model_dump(),
        )
    write_json(audit.run.path("harmony.json"), about)


def _compute_stratified(audit: Audit) -> None:
    about = stratified.stratified_result(audit, stratified.judges(audit))
    write_json(audit.run.path("stratified.json"), about)


def _compute_rebalancing(audit: Audit) -> None:
    settings = audit.settings("rebalancing")
    predictions, labels = audit.predictions(), audit.clustering().labels
    options = {
        "bandwidth": audit.settings("harmony").bandwidth,
        "random_state": settings.random_state,
    }
    shares = rebalance.usable_shares(labels, settings.shares)
    similarity, left_out = _duplicate_similarity(audit)
    table = rebalance.prune_ladder(
        predictions.correct,
        labels,
        similarity=similarity,
        groups=audit.groups(),
        shares=shares,
        n_random=settings.n_random,
        n_bootstrap=settings.n_bootstrap,
        confidence=audit.settings("harmony").confidence,
        **options,
    )
    stays = {
        method: {
            share: rebalance.pruned_items(
                labels,
                share=share,
                method=method,
                correct=predictions.correct,
                similarity=similarity,
                **options,
            )
            for share in shares
        }
        for method in table["method"].unique()
    }
    names = {name: predictions.table[name].tolist() for name in ("native_id", "key")}
    items = rebalance.item_table(names, labels, stays)
    balanced = rebalance.balanced_accuracy(
        predictions.correct,
        labels,
        groups=audit.groups(),
        confidence=audit.settings("harmony").confidence,
    )
    _write_parquet(audit.run.path("rebalancing.parquet"), table)
    write_text(audit.run.path("rebalanced_items.csv"), items.to_csv(index=False))
    about = {"balanced": balanced.to_dict(), "left_out": left_out}
    write_json(audit.run.path("rebalancing.json"), about)


def _duplicate_similarity(audit: Audit) -> tuple[np.ndarray | None, dict[str, str]]:
    """Return the similarity behind near-duplicates, or say why there is none."""
    wanted = audit.settings("rebalancing").duplicates
    try:
        large.needs_all_pairs(audit, "removing near-duplicates", "raise that if memory allows")
        if wanted == "predictive":
            if not audit.run.path("divergence.npy").exists():
                raise InputError("this run keeps no divergences; set duplicates to words")
            return audit.affinity().affinity, {}
        texts = naming.item_texts(audit.benchmark.items)
        vectors = embed_texts(texts) if wanted == "sentences" else tfidf_vectors(texts)
        return 1 - cosine_distance(vectors), {}
    except InputError as error:
        return None, {"near-duplicate": str(error)}


def _compute_scaling(audit: Audit) -> None:
    settings = audit.settings("scaling")
    runs = [audit.run, *audit.peers()]
    records = [_record(run) for run in runs]
    cut = {record["base"] for record in records if record["layer"] is not None}
    for record in records:  # a whole model is the last point of its own early exits
        if record.pop("base") in cut:
            record["layer"] = record["layer"] or record["layers"]
        del record["layers"]
    table = scaling.scaling_table(records, axis=settings.axis)
    trends = scaling.trend_table(table, **settings.model_dump(exclude={"axis"}))
    _write_parquet(audit.run.path("scaling.parquet"), table)
    _write_parquet(audit.run.path("trends.parquet"), trends)


def _record(run: Run) -> dict[str, Any]:
    """Return what a trend needs to know of one finished run."""
    result = read_json(run.path("harmony.json"))
    about = Predictions.load(run.path("predictions.parquet")).meta
    model = about["model"]
    return {
        "base": model["name"].partition("#")[0],
        "model": model["name"],
        "family": model["family"],
        "benchmark": about["benchmark"],
        "parameters": model["parameters"],
        "tokens": model["tokens"],
        "layer": model["layer"],
        "layers": model["layers"],
        "accuracy": result["accuracy"],
        "harmony": result["harmony"],
        "n_clusters": result["n_clusters"],
        "n_items": result["n_items"],
        "p_value": result["null"]["p_value"],
    }


COMPUTE: dict[str, Callable[[Audit], None]] = {
    "predictions": _compute_predictions,
    "divergence": _compute_divergence,
    "affinity": _compute_affinity,
    "clustering": _compute_clustering,
    "harmony": _compute_harmony,
    "stratified": _compute_stratified,
    "rebalancing": _compute_rebalancing,
    "scaling": _compute_scaling,
    "sensitivity": compute_sensitivity,
    **{name: compute_variant(variant) for variant, name in VARIANT_STEPS.items()},
}
