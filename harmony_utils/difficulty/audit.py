"""One difficulty audit: answers → fit, mismatch, gaps, purpose, suspects; as files and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.difficulty.checks import FitChecks, check_fit, flat_items, suspected_keys
from harmony_utils.difficulty.coverage import FEW_MODELS, Gap, find_gaps, headroom
from harmony_utils.difficulty.curves import DifficultyFit
from harmony_utils.difficulty.fit import fit_difficulty
from harmony_utils.difficulty.mismatch import (
    Mismatch,
    Target,
    measure_mismatch,
    pool_target,
    uniform_target,
)
from harmony_utils.difficulty.posterior import (
    DRAWS,
    DifficultyPosterior,
    difficulty_posterior,
)
from harmony_utils.difficulty.purpose import Purpose, check_purpose
from harmony_utils.difficulty.responses import Responses
from harmony_utils.difficulty.reweighting import purpose_scores, purpose_weights
from harmony_utils.difficulty.weighing import band_table, information_table
from harmony_utils.errors import RefusedError
from harmony_utils.files import json_values, write_atomically, write_json

WIDE = (-3.0, 3.0)
"""Range of the uniform target that is always reported, in standard deviations of the pool."""


@dataclass(frozen=True)
class DifficultyAudit:
    """Everything found in one matrix of answers.

    Parameters
    ----------
    responses : Responses
        Answers.
    fit : DifficultyFit
        Curves and abilities.
    posterior : DifficultyPosterior
        Difficulties, as draws.
    target : Target
        The target of the headline, of the gaps and the bands: the purpose's if it declares one,
        else the range of the models.
    mismatches : list of Mismatch
        The headline's first, then those to the other targets.
    bands, information : DataFrame
        See :mod:`harmony_utils.difficulty.weighing`.
    gaps : list of Gap
        See :func:`~harmony_utils.difficulty.coverage.find_gaps`.
    suspects : DataFrame
        See :func:`~harmony_utils.difficulty.checks.suspected_keys`.
    purpose : dict or None
        Scores for the purpose, or ``refused`` with the reason; None without a purpose.
    checks : FitChecks or None
        If they were asked for.
    """

    responses: Responses
    fit: DifficultyFit
    posterior: DifficultyPosterior
    target: Target
    mismatches: list[Mismatch]
    bands: pd.DataFrame
    information: pd.DataFrame
    gaps: list[Gap]
    suspects: pd.DataFrame
    purpose: dict[str, Any] | None
    checks: FitChecks | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; what is not known is None."""
        n_models, n_items = self.responses.shape
        inside = self.information[self.information["inside"]]
        mismatch = {
            **self.mismatches[0].to_dict(),
            "other_targets": [other.to_dict() for other in self.mismatches[1:]],
            "bands": self.bands.to_dict("records"),
            "blind_share": float(inside["blind"].mean()),
            "blind_abilities": inside.loc[inside["blind"], "ability"].round(2).tolist(),
            "headroom": headroom(self.fit),
        }
        purpose = self.purpose
        if purpose is not None and "models" in purpose:
            purpose = {**purpose, "models": purpose["models"].to_dict("records")}
        found = {
            "fit": {
                "model": self.fit.model,
                "n_models": n_models,
                "n_items": n_items,
                "converged": self.fit.converged,
                "n_iterations": self.fit.n_iterations,
                "n_usable": int(self.fit.usable.sum()),
                "flat_items": flat_items(self.fit),
                "checks": self.checks.to_dict() if self.checks else None,
            },
            "flags": [*self.responses.flags, *_few_models(n_models)],
            "mismatch": mismatch,
            "gaps": [gap.to_dict() for gap in self.gaps],
            "purpose_score": purpose,
            "suspected_keys": self.suspects.to_dict("records"),
        }
        return json_values(found)

    def items_table(self) -> pd.DataFrame:
        """Return one row for each item, with its subject if there are any.

        ``difficulty`` and ``difficulty_se`` are the fit's; ``discrimination``,
        ``discrimination_se`` and ``p_negative`` are read on the posterior's slopes, of which the
        fit's are too narrow a picture. Posterior means of difficulty stand beside the fit's for
        usable items.
        """
        slopes, table = self.posterior.slopes, self.fit.items_table()
        table["discrimination"] = slopes.mean(axis=0)
        place = table.columns.get_loc("discrimination") + 1
        table.insert(place, "discrimination_se", slopes.std(axis=0))
        table["p_negative"] = self.posterior.p_negative
        for name in ("mean", "sd"):
            column = np.full(len(table), np.nan)
            column[self.posterior.places] = getattr(self.posterior, name)
            table[f"difficulty_posterior_{name}"] = column
        table["share_right"] = np.nanmean(self.responses.values, axis=0)
        table["n_answers"] = (~np.isnan(self.responses.values)).sum(axis=0)
        if any(self.responses.subjects):
            table["subject"] = self.responses.subjects
        return table

    def save(self, folder: Path) -> dict[str, Any]:
        """Write ``items.csv``, ``models.csv`` and ``difficulty.json``; return what the last holds.

        Numbers have ten digits.
        """
        tables = {"items": self.items_table(), "models": self._models_table()}
        for name, table in tables.items():
            write_atomically(
                folder / f"{name}.csv",
                lambda path, table=table: table.to_csv(path, index=False, float_format="%.10g"),
            )
        found = self.to_dict()
        for name in tables:
            found["fit"][f"{name}_file"] = str(folder / f"{name}.csv")
        written = {**found, "fit": {**found["fit"]}}
        for name in tables:  # no paths of this machine in what is kept
            written["fit"][f"{name}_file"] = f"{name}.csv"
        write_json(folder / "difficulty.json", written)
        return found

    def _models_table(self) -> pd.DataFrame:
        table = self.fit.models_table()
        table["accuracy"] = self.responses.accuracy
        table["n_answers"] = (~np.isnan(self.responses.values)).sum(axis=1)
        if any(self.responses.families):
            table["family"] = self.responses.families
        return table


def audit_difficulty(
    responses: Responses,
    *,
    model: str = "2pl",
    guessing: float | None = None,
    purpose: Purpose | None = None,
    targets: Sequence[Target] = (),
    n_draws: int = DRAWS,
    n_simulations: int = 0,
    random_state: int = 0,
) -> DifficultyAudit:
    """Say what a score weighs, what it never asks, and what it says for a purpose.

    Parameters
    ----------
    responses : Responses
        Answers of several models.
    model : {"1pl", "2pl", "3pl"}
        Shape of the curves.
    guessing : float, optional
        For ``3pl``.
    purpose : Purpose, optional
        What the benchmark is to be used for.
    targets : sequence of Target
        Further targets, reported beside the others; the first one becomes the headline.
    n_draws : int
        Draws from the posterior, behind the intervals of the mismatch.
    n_simulations : int
        Simulated data sets for the checks of the fit; 0 leaves them out.
    random_state : int
        Seed.

    Returns
    -------
    DifficultyAudit
        Every target is reported beside the others; there is no silent one.

    Raises
    ------
    InputError
        For a purpose that names what the benchmark does not have. A purpose that the benchmark
        holds too little for is reported as refused instead.
    """
    if purpose is not None:
        check_purpose(purpose, responses)
    fit = fit_difficulty(responses, model=model, guessing=guessing)
    posterior = difficulty_posterior(fit, responses, n_draws=n_draws, random_state=random_state)
    wanted = [*targets]
    if purpose is not None and (declared := purpose.target()) is not None:
        wanted.insert(0, declared)
    wanted += [pool_target(fit), uniform_target(*WIDE)]
    options = {"posterior": posterior, "random_state": random_state}
    labels = responses.grouping("subject") if any(responses.subjects) else None
    return DifficultyAudit(
        responses=responses,
        fit=fit,
        posterior=posterior,
        target=wanted[0],
        mismatches=[measure_mismatch(fit, target, **options) for target in wanted],
        bands=band_table(fit, responses, wanted[0], posterior=posterior),
        information=information_table(fit, wanted[0]),
        gaps=find_gaps(
            fit, wanted[0], posterior=posterior, subjects=labels, random_state=random_state
        ),
        suspects=suspected_keys(fit, posterior),
        purpose=_purpose(purpose, responses, posterior, random_state),
        checks=check_fit(fit, responses, n_simulations=n_simulations, random_state=random_state)
        if n_simulations
        else None,
    )


def _few_models(n_models: int) -> list[dict[str, Any]]:
    if n_models >= FEW_MODELS:
        return []
    sentence = (
        f"{n_models} models hardly know a slope: most wrong keys go unnoticed, and intervals "
        "assume the population of items is right"
    )
    return [{"flag": "few-models", "sentence": sentence, "names": []}]


def _purpose(
    purpose: Purpose | None,
    responses: Responses,
    posterior: DifficultyPosterior,
    random_state: int,
) -> dict[str, Any] | None:
    if purpose is None:
        return None
    about = {"kind": purpose.kind, "description": purpose.description}
    if not (purpose.subjects or purpose.subdomains or purpose.difficulty):
        text = "the purpose gives no shares of subjects, subdomains or difficulty to weight by"
        return {**about, "refused": text}
    try:
        weights = purpose_weights(purpose, responses, posterior)
        return {**about, **purpose_scores(responses, weights, random_state=random_state)}
    except RefusedError as error:
        return {**about, "refused": str(error)}
