"""What the stages give, where it is more than one table or array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.graph import AnyAffinity
from harmony_utils.rebalance import BalancedAccuracy, kept_items
from harmony_utils.runs import recorded_folder


@dataclass(frozen=True, eq=False)
class Affinity:
    """Predictive similarity of items: of every pair, or of a sample and what stands for all.

    Parameters
    ----------
    divergence : ndarray of shape (n_measured, n_measured), float32
        Jeffreys divergences between ``items``.
    affinity : ndarray, csr_array or LandmarkAffinity of shape (n_items, n_items), float32
        Similarities of all items in 0..1, diagonal 1; with ``neighbours``, 0 where a link was cut.
        Where there are more items than ``all_pairs_up_to``, sparse with ``neighbours`` and in
        factors through landmarks without.
    temperature : float
        The temperature used.
    similarity : ndarray of shape (n_measured, n_measured), float32
        Similarities between ``items``, before links were cut.
    items : ndarray of shape (n_measured,), int
        All items; where there are more than ``all_pairs_up_to``, the landmarks or a random sample.
    """

    divergence: np.ndarray
    affinity: AnyAffinity
    temperature: float
    similarity: np.ndarray
    items: np.ndarray

    @property
    def is_sample(self) -> bool:
        """Whether ``divergence`` and ``similarity`` are those of a sample of the items."""
        return len(self.items) < self.affinity.shape[0]


@dataclass(frozen=True, eq=False)
class Rebalancing:
    """Removing questions by several methods against removing them at random.

    Parameters
    ----------
    table : DataFrame
        From :func:`harmony_utils.rebalance.ladder.prune_ladder`.
    balanced : BalancedAccuracy
        Accuracy with every subdomain weighted the same; removes nothing.
    items : DataFrame
        From :func:`harmony_utils.rebalance.export.item_table`: which question stays how long.
    left_out : dict of str to str
        Methods that this audit cannot have, and why.
    """

    table: pd.DataFrame
    balanced: BalancedAccuracy
    items: pd.DataFrame
    left_out: dict[str, str]

    @property
    def balanced_accuracy(self) -> float:
        """Mean over subdomains of their accuracies."""
        return self.balanced.accuracy

    @property
    def kept(self) -> dict[str, dict[str, list[str]]]:
        """Native ids that stay, by method and share (written as text)."""
        shares = sorted(set(self.table["share"]) - {0})
        return {
            method: {
                f"{share:g}": kept_items(self.items, method, share)["native_id"].tolist()
                for share in shares
            }
            for method in self.table["method"].unique()
        }


@dataclass(frozen=True, eq=False)
class Scaling:
    """Trends over the runs of one benchmark.

    Parameters
    ----------
    table : DataFrame
        One row per run, from :func:`harmony_utils.scaling.scaling_table`.
    trends : DataFrame
        One row per family and outcome, from :func:`harmony_utils.scaling.trend_table`.
    """

    table: pd.DataFrame
    trends: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What other choices would have found.

    Parameters
    ----------
    table : DataFrame
        One row per specification, from :func:`harmony_utils.multiverse.multiverse`.
    summary : dict
        From :func:`harmony_utils.sensitivity.summarise`, and ``missing_variants``: those that
        could not be scored, with the reason.
    """

    table: pd.DataFrame
    summary: dict[str, Any]


def recorded_large_affinity() -> pd.DataFrame:
    """Return what landmarks, or only the nearest questions, lose and save against all pairs.

    Returns
    -------
    DataFrame
        From ``benchmarks/large_affinity.py``. ``route`` is ``all pairs`` (also with another seed),
        ``landmarks`` or ``neighbours``, and ``number`` how many of them. Rows whose ``part`` is
        ``compare`` are of one sample of questions: the subdomains and HARMONY found, and their
        agreement with those of all pairs (``ami``, ``ari``; ``…_same_number`` where both have as
        many subdomains as all pairs give). Rows of part ``size`` are of the whole of a benchmark
        or of made-up distributions (``data``). All have seconds of one core and the peak memory of
        the process in MB, file pages included.
    """
    return pd.read_csv(recorded_folder() / "large_affinity.csv")


def recorded_calibration() -> pd.DataFrame:
    """Return how verdicts and intervals fared in simulations with a known truth.

    Returns
    -------
    DataFrame
        One row per kind of benchmark, from ``benchmarks/calibration.py``: its truth and shape, how
        often each test calls it uneven, how often each kind of interval covers its HARMONY, and
        the bias and root mean squared error of HARMONY, raw and corrected.
    """
    return pd.read_csv(recorded_folder() / "calibration.csv")


def recorded_difficulty_calibration() -> pd.DataFrame:
    """Return how often the intervals of the difficulty fit held the truth in simulations.

    Returns
    -------
    DataFrame
        One row for each number of models (``n_models``) and shape of benchmark
        (``shape_of_items``), from ``benchmarks/difficulty_calibration.py``: the coverage of 95 %
        intervals of each kind, errors of the mismatch, and shares of panels in which a gap was
        called.
    """
    return pd.read_csv(recorded_folder() / "difficulty_calibration.csv")


def recorded_false_alarms() -> pd.DataFrame:
    """Return how often the checks of the difficulty fit object to answers of the model itself.

    Returns
    -------
    DataFrame
        One row for each number of models, from ``benchmarks/difficulty_calibration.py``. Columns
        that end in ``_any`` are shares of panels in which anything was flagged, those in ``_p``
        shares of p-values below .05.
    """
    return pd.read_csv(recorded_folder() / "difficulty_false_alarms.csv")


def recorded_suspected_keys() -> pd.DataFrame:
    """Return how many planted wrong keys are suspected in simulations, and how many good ones.

    Returns
    -------
    DataFrame
        One row for each share of wrong keys (``planted``) and number of models, from
        ``benchmarks/difficulty_calibration.py``. ``listed``: share of the items whose probability
        of a negative slope is above one half; ``precision``: share of those that are planted;
        ``recall``: share of the planted that are listed; ``…_sure``: the same above .95; missing
        where nothing is listed or planted. ``slope``: share of items whose true slope lies within
        1.96 of ``discrimination_se`` of ``discrimination``.
    """
    return pd.read_csv(recorded_folder() / "difficulty_keys.csv")
