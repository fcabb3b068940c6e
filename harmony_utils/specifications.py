"""Which combinations of choices a sensitivity analysis runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

from harmony_utils.settings import SensitivitySettings


@dataclass(frozen=True)
class Specification:
    """One combination of choices.

    Parameters
    ----------
    variant : str
        Averaged distribution.
    temperature_factor : float
        Multiple of the run's temperature (of the median rule, or of the number given).
    neighbours : int
        Links that each item chooses; 0 keeps all pairs.
    n_clusters : int
        Number of subdomains; 0 lets the selection choose.
    assign_labels : str
        From eigenvectors to subdomains.
    seed : int
        Of that step. ``cluster_qr`` has none: it stands in the table with the first seed only.
    bandwidth : float
        Width of the kernel.
    """

    variant: str = "gold-mean"
    temperature_factor: float = 1.0
    neighbours: int = 0
    n_clusters: int = 0
    assign_labels: str = "kmeans"
    seed: int = 0
    bandwidth: float = 0.1


CHOICES: tuple[str, ...] = tuple(field.name for field in fields(Specification))
"""The choices, in the order of the table's columns."""

CHOICE_NAMES: dict[str, str] = {
    "variant": "averaged distribution",
    "temperature_factor": "temperature",
    "neighbours": "nearest neighbours",
    "n_clusters": "number of subdomains",
    "assign_labels": "label assignment",
    "seed": "seed",
    "bandwidth": "bandwidth",
}
"""The choices in words."""

_GRID = ("variants", "temperature_factors", "neighbours", "n_clusters", "assign_labels", "seeds",
         "bandwidths")  # fmt: skip


def specifications(
    settings: SensitivitySettings, default: Specification, variants: Sequence[str]
) -> tuple[list[Specification], int]:
    """Return the specifications to compute, and how many there are in all.

    Parameters
    ----------
    settings : SensitivitySettings
        The values of each choice; that of ``default`` is added where it is missing.
    default : Specification
        What the run itself chose.
    variants : sequence of str
        Variants that can be had; others are left out.

    Returns
    -------
    chosen : list of Specification
        Without repetition, in the order of the full grid: the default, everything that differs
        from it in one choice, and of the rest a random draw up to ``n_specifications``.
    n_possible : int
        Specifications in the full grid.

    Examples
    --------
    >>> settings = SensitivitySettings(n_specifications=1)
    >>> chosen, n_possible = specifications(settings, Specification(), ["gold-mean"])
    >>> len(chosen), n_possible  # the default and 4 + 1 + 3 + 2 + 1 + 2 changes of one choice
    (14, 600)
    """
    values = []
    for choice, name in zip(CHOICES, _GRID, strict=True):
        own, listed = getattr(default, choice), list(getattr(settings, name))
        if choice == "variant":
            listed = [variant for variant in listed if variant in variants]
        values.append(listed if own in listed else [own, *listed])
    default = _without_idle_seed(default, values[CHOICES.index("seed")])
    seeds = values[CHOICES.index("seed")]
    every = [_without_idle_seed(Specification(*one), seeds) for one in product(*values)]
    every = list(dict.fromkeys(every))
    near = [number for number, one in enumerate(every) if len(changed_choices(one, default)) < 2]
    wanted = len(every) if settings.n_specifications == 0 else settings.n_specifications
    rest = np.setdiff1d(np.arange(len(every)), near)
    n_drawn = int(np.clip(wanted - len(near), 0, len(rest)))
    rng = np.random.default_rng(settings.random_state)
    drawn = rng.choice(rest, n_drawn, replace=False)
    return [every[number] for number in sorted([*near, *drawn.tolist()])], len(every)


def changed_choices(specification: Specification, default: Specification) -> list[str]:
    """Return the names of the choices in which two specifications differ.

    A seed that ``cluster_qr`` does not use is no difference.
    """
    changed = [c for c in CHOICES if getattr(specification, c) != getattr(default, c)]
    if "cluster_qr" in (specification.assign_labels, default.assign_labels) and "seed" in changed:
        changed.remove("seed")
    return changed


def _without_idle_seed(one: Specification, seeds: Sequence[int]) -> Specification:
    """Give all specifications that use no seed the same one."""
    return replace(one, seed=seeds[0]) if one.assign_labels == "cluster_qr" else one
