"""The same answers run through many combinations of settings.

A multiverse analysis (Steegen, Tuerlinckx, Gelman & Vanpaemel 2016). Which choices belong to it is
ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from harmony_utils.errors import InputError
from harmony_utils.graph import check_affinity, connected_components
from harmony_utils.harmony import HarmonyResult, check_items, harmony_against
from harmony_utils.labels import canonical_labels, check_groups
from harmony_utils.metric import harmony_mass, harmony_of_mass
from harmony_utils.neighbours import nearest_neighbours
from harmony_utils.null import grouped_accuracies, shuffled_accuracies
from harmony_utils.partition import TINY_SIZE, choose_number, numbers_tried
from harmony_utils.progress import progress
from harmony_utils.settings import ClusteringSettings, HarmonySettings, SensitivitySettings
from harmony_utils.similarity import affinity_from_divergence, median_temperature
from harmony_utils.specifications import (
    Specification,
    changed_choices,
    specifications,
)
from harmony_utils.spectral import (
    assign_clusters,
    mean_silhouettes,
    spectral_embedding,
)
from harmony_utils.stability import resample_agreement
from harmony_utils.uncertainty import design_effects

UNDEFINED = "undefined"
"""Verdict of a specification that gives no HARMONY; its ``reason`` says why."""


def multiverse(
    divergences: dict[str, np.ndarray],
    correct: np.ndarray | Sequence[float],
    *,
    settings: SensitivitySettings | None = None,
    default: Specification | None = None,
    groups: np.ndarray | Sequence[Any] | None = None,
    temperature: float | str = "median",
    clustering: ClusteringSettings | None = None,
    harmony: HarmonySettings | None = None,
) -> pd.DataFrame:
    """Run many specifications on the same answers.

    Parameters
    ----------
    divergences : dict of str to ndarray of shape (n_items, n_items)
        Jeffreys divergences by the variant of the averaged distribution.
    correct : array_like of shape (n_items,)
        Correctness, between 0 and 1.
    settings : SensitivitySettings, optional
        The values of each choice and how many combinations are computed.
    default : Specification, optional
        What the run itself chose; its variant must be there.
    groups : array_like of shape (n_items,), optional
        Items that hang together, as in :func:`~harmony_utils.harmony.harmony`.
    temperature : float or "median"
        What ``temperature_factor`` multiplies: a number, or the median rule of each variant.
    clustering, harmony : optional
        Settings of those stages that are no choice here: range and selection of the number of
        subdomains, restarts, shuffles, confidence, seed of the shuffles.

    Returns
    -------
    DataFrame
        One row per specification: the :data:`~harmony_utils.specifications.CHOICES`;
        ``is_default``; ``changed``, the choice in which alone it differs from the default, else
        empty; ``drawn``, whether it is there by chance; ``temperature`` (number used); ``k``,
        ``smallest``, ``largest``; ``tiny`` (a subdomain below
        :data:`~harmony_utils.partition.TINY_SIZE` items); ``disconnected`` (parts
        that share no similarity); ``ari``, agreement with the default's subdomains; ``harmony``,
        ``size_part``, ``null_median``, ``null_low``, ``null_high``, ``p_value``, ``power``,
        ``verdict``, ``reason``. Where a specification gives no HARMONY the verdict is
        :data:`UNDEFINED` and numbers are missing. ``attrs["n_possible"]`` is the size of the grid.

    Raises
    ------
    InputError
        If the default's variant is missing, or correctness and divergences do not fit.

    Notes
    -----
    Every row is what the stages of an audit give for its choices. One eigendecomposition serves
    all numbers of subdomains, seeds and bandwidths of one affinity, and shuffles are shared by
    subdomains of the same sizes.

    Examples
    --------
    Two blocks that share nothing: every specification with two subdomains finds them.

    >>> divergence = 9 * (1 - np.kron(np.eye(2), np.ones((20, 20))))
    >>> table = multiverse(
    ...     {"gold-mean": divergence},
    ...     np.tile([0, 1], 20),
    ...     settings=SensitivitySettings(n_clusters=[2], neighbours=[0]),
    ...     default=Specification(n_clusters=2),
    ...     temperature=1.0,
    ... )
    >>> table["k"].unique().tolist(), table["ari"].unique().tolist()
    ([2], [1.0])
    """
    settings, default = settings or SensitivitySettings(), default or Specification()
    if default.variant not in divergences:
        raise InputError(
            f"variant {default.variant!r}: no divergences; they are there for "
            f"{', '.join(divergences) or 'none'}"
        )
    shapes = {divergence.shape for divergence in divergences.values()}
    if shapes != {(len(correct), len(correct))}:
        raise InputError(f"{len(correct)} answers, divergences of {shapes}: give the same items")
    chosen, n_possible = specifications(settings, default, list(divergences))
    clustering, harmony = clustering or ClusteringSettings(), harmony or HarmonySettings()
    reader = _Reader(correct, harmony, groups)
    rows = {}
    with progress("specifications", len(chosen)) as bar:
        order = sorted(chosen, key=_graph_choices)
        for (variant, factor, neighbours), members in groupby(order, key=_graph_choices):
            graph = _Graph(divergences[variant], temperature, factor, neighbours, clustering)
            for one in members:
                rows[one] = _row(one, default, graph, reader)
                bar.advance()
    table = pd.DataFrame([rows[one] for one in chosen])
    _add_agreement(table)
    table.attrs["n_possible"] = n_possible
    return table


class _Graph:
    """One affinity with everything that specifications on it share."""

    def __init__(
        self,
        divergence: np.ndarray,
        temperature: float | str,
        factor: float,
        neighbours: int,
        clustering: ClusteringSettings,
    ) -> None:
        self.problem, self.temperature = "", np.nan
        self.n_components = 0
        self._clustering = clustering
        self._solutions: dict[tuple[str, int], dict[int, np.ndarray]] = {}
        self._final: dict[tuple[str, int, int], np.ndarray] = {}
        self._stabilities: dict[int, dict[int, float]] = {}
        try:
            base = median_temperature(divergence) if temperature == "median" else temperature
            self.similarity, self.temperature = affinity_from_divergence(
                divergence, temperature=factor * base
            )
            linked = self.similarity
            if neighbours:
                linked = nearest_neighbours(self.similarity, neighbours)
            check_affinity(linked)
        except InputError as error:
            self.problem = str(error)
            return
        self.n_components = connected_components(linked)
        self._linked = linked
        self._decompose(min(clustering.max_clusters + 1, len(linked)))

    def _decompose(self, n_vectors: int) -> None:
        self._values, self._vectors = spectral_embedding(self._linked, n_components=n_vectors)

    def labels(self, one: Specification) -> np.ndarray:
        """Return the canonical subdomains of a specification; refuse one without any."""
        if self.problem:
            raise InputError(self.problem)
        key = one.assign_labels, one.seed, one.n_clusters
        if key not in self._final:
            self._final[key] = canonical_labels(self._divide(one))
        return self._final[key]

    def _divide(self, one: Specification) -> np.ndarray:
        settings, n_items = self._clustering, len(self.similarity)
        tried = numbers_tried(n_items, one.n_clusters, settings.min_clusters, settings.max_clusters)
        if max(tried) >= self._vectors.shape[1] and max(tried) < n_items:
            self._decompose(max(tried) + 1)
        found = self._solutions.setdefault((one.assign_labels, one.seed), {})
        for k in [one.n_clusters] if one.n_clusters else tried:
            if k not in found:
                found[k] = assign_clusters(
                    self._vectors[:, :k],
                    assign_labels=one.assign_labels,
                    n_init=settings.n_init,
                    random_state=one.seed,
                )
        if one.n_clusters:
            return found[one.n_clusters]
        by_affinity = settings.silhouette_distance == "affinity"
        silhouettes = mean_silhouettes(
            self._vectors,
            {k: found[k] for k in tried},
            self.similarity if by_affinity else None,
        )
        return found[self._number(one.seed, tried, silhouettes)]

    def _number(self, seed: int, tried: Sequence[int], silhouettes: dict[int, float]) -> int:
        """Choose the number of subdomains as the audit does."""
        selection = self._clustering.selection
        stabilities = None
        if selection == "stability":
            if seed not in self._stabilities:
                self._stabilities[seed] = resample_agreement(self._linked, tried, random_state=seed)
            stabilities = self._stabilities[seed]
        return choose_number(selection, silhouettes, self._values, stabilities)


class _Reader:
    """Reads HARMONY of subdomains; shuffles are drawn once for each table of sizes."""

    def __init__(
        self,
        correct: np.ndarray | Sequence[float],
        settings: HarmonySettings,
        groups: np.ndarray | Sequence[Any] | None,
    ) -> None:
        self._correct, self._settings = correct, settings
        members = None if groups is None else check_groups(groups, len(correct))
        self._n_groups = None if members is None else int(members.max()) + 1
        self._members = None if self._n_groups in (None, len(correct)) else members
        self._shuffled: dict[Any, np.ndarray] = {}

    def read(self, labels: np.ndarray, bandwidth: float) -> HarmonyResult:
        """Return HARMONY as :func:`~harmony_utils.harmony.harmony` gives it, without intervals."""
        scores, codes, names = check_items(self._correct, labels)
        sizes = np.bincount(codes)
        null = harmony_of_mass(
            harmony_mass(sizes, self._draws(scores, codes, sizes), bandwidth=bandwidth)
        )
        effect = 1.0
        if self._members is not None:
            residuals = scores - (np.bincount(codes, weights=scores) / sizes)[codes]
            effect = design_effects(residuals, codes, self._members)[0]
        return harmony_against(
            null,
            scores,
            codes,
            names,
            bandwidth=bandwidth,
            confidence=self._settings.confidence,
            n_groups=self._n_groups,
            design_effect=effect,
        )

    def _draws(self, scores: np.ndarray, codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return shuffled accuracies; groups make them depend on the subdomains themselves."""
        grouped = self._members is not None
        key = codes.tobytes() if grouped else tuple(sizes.tolist())
        if key not in self._shuffled:
            rng = np.random.default_rng(self._settings.random_state)
            options = {"n_draws": self._settings.n_null, "rng": rng}
            self._shuffled[key] = (
                grouped_accuracies(scores, codes, self._members, **options)
                if grouped
                else shuffled_accuracies(scores, sizes, **options)
            )
        return self._shuffled[key]


def _row(
    one: Specification, default: Specification, graph: _Graph, reader: _Reader
) -> dict[str, Any]:
    """Return one row of the table; ``labels`` is taken out again afterwards."""
    changed = changed_choices(one, default)
    row: dict[str, Any] = {
        **asdict(one),
        "is_default": not changed,
        "changed": changed[0] if len(changed) == 1 else "",
        "drawn": len(changed) > 1,
        "temperature": graph.temperature,
        "disconnected": graph.n_components > 1,
    }
    try:
        labels = graph.labels(one)
        result = reader.read(labels, one.bandwidth)
    except InputError as error:
        numbers = dict.fromkeys(_NUMBERS, np.nan)
        return {**row, "labels": None, "tiny": False, **numbers, "verdict": UNDEFINED,
                "reason": str(error)}  # fmt: skip
    return {
        **row,
        "labels": labels,
        "tiny": min(result.sizes) < TINY_SIZE,
        "k": result.n_clusters,
        "smallest": min(result.sizes),
        "largest": max(result.sizes),
        **{name: getattr(result, name) for name in _NUMBERS[3:]},
        "verdict": result.verdict,
        "reason": result.reason,
    }


_NUMBERS = ("k", "smallest", "largest", "harmony", "size_part", "null_median", "null_low",
            "null_high", "p_value", "power")  # fmt: skip


def _add_agreement(table: pd.DataFrame) -> None:
    """Put agreement with the default's subdomains in the place of the labels."""
    labels = table.pop("labels").tolist()
    own = labels[int(np.flatnonzero(table["is_default"])[0])]
    seen: dict[bytes, float] = {}
    agreement = []
    for one in labels:
        if one is None or own is None:
            agreement.append(np.nan)
            continue
        key = one.tobytes()
        if key not in seen:
            seen[key] = float(adjusted_rand_score(own, one))
        agreement.append(seen[key])
    table.insert(table.columns.get_loc("harmony"), "ari", agreement)


def _graph_choices(one: Specification) -> tuple[str, float, int]:
    return one.variant, one.temperature_factor, one.neighbours
