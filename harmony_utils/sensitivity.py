"""How far a verdict depends on choices that another analyst would have made differently.

The specifications of a :func:`~harmony_utils.multiverse.multiverse` share the same answers, so they
are no independent evidence: a share of them describes the choices and is no probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from harmony_utils.metric import wilson_interval
from harmony_utils.multiverse import UNDEFINED, multiverse
from harmony_utils.specifications import CHOICES, Specification, specifications

__all__ = [
    "CHOICES",
    "UNDEFINED",
    "Specification",
    "choice_table",
    "multiverse",
    "specifications",
    "summarise",
    "value_table",
]


def summarise(table: pd.DataFrame, *, confidence: float = 0.95) -> dict[str, Any]:
    """Say how far verdict and HARMONY move over a multiverse.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.multiverse.multiverse`.
    confidence : float
        Coverage of ``share_interval``.

    Returns
    -------
    dict
        ``default`` (verdict, harmony, k, p_value); ``n_specifications`` and ``n_possible``;
        ``share_same_verdict`` of those computed, and ``share_interval``, where the share in the
        full grid lies (its ends are equal if all were computed; it covers the draw of
        specifications, nothing else); ``verdicts`` (counts); ``n_undefined``,
        ``n_disconnected``, ``n_tiny``; ``harmony`` and ``k`` (lowest, median, highest);
        ``ari_median``; ``choices``, a row per choice of :func:`choice_table`.
    """
    default = table[table["is_default"]].iloc[0]
    same = table["verdict"] == default["verdict"]
    drawn, n_possible = table["drawn"], table.attrs.get("n_possible", len(table))
    low = high = same.mean()
    if len(table) < n_possible:
        ends = [0.0, 1.0]
        if drawn.any():
            ends = wilson_interval(same[drawn].mean(), drawn.sum(), confidence=confidence)
        n_rest = n_possible - (~drawn).sum()
        low, high = ((same[~drawn].sum() + n_rest * end) / n_possible for end in ends)
    defined = table[table["verdict"] != UNDEFINED]
    spread = {
        name: [float(defined[name].quantile(share)) for share in (0, 0.5, 1)]
        if len(defined)
        else []
        for name in ("harmony", "k")
    }
    others = defined[~defined["is_default"]]
    return {
        "default": {
            "verdict": default["verdict"],
            "harmony": _number(default["harmony"]),
            "k": _number(default["k"]),
            "p_value": _number(default["p_value"]),
        },
        "n_specifications": len(table),
        "n_possible": int(n_possible),
        "share_same_verdict": float(same.mean()),
        "share_interval": [float(low), float(high)],
        "verdicts": {str(k): int(v) for k, v in table["verdict"].value_counts().items()},
        "n_undefined": len(table) - len(defined),
        "n_disconnected": int(table["disconnected"].sum()),
        "n_tiny": int(table["tiny"].sum()),
        **spread,
        "ari_median": _number(others["ari"].median()) if len(others) else None,
        "choices": [
            {name: _number(value) for name, value in row.items()}
            for row in choice_table(table).to_dict("records")
        ],
    }


def choice_table(table: pd.DataFrame) -> pd.DataFrame:
    """Say for each choice how much changes with it.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.multiverse.multiverse`.

    Returns
    -------
    DataFrame
        One row per choice: ``choice``; ``n_values``; with all other choices as in the default
        ``harmony_low`` and ``harmony_high`` (the default included), ``n_alone`` (changes of this
        choice alone) and ``n_other_verdict`` (of them with another verdict); over the whole table
        ``r2_harmony`` and ``r2_verdict``: by how much the share of variance explained by all
        choices together falls if this one is left out, of HARMONY and of keeping the verdict
        (0 or 1). Main effects only: what choices do in combination is in none of them, so they
        need not add up to anything. Missing where nothing varies.
    """
    default = table[table["is_default"]].iloc[0]
    defined = table[table["verdict"] != UNDEFINED]
    same = (defined["verdict"] == default["verdict"]).astype(float)
    rows = []
    for choice in CHOICES:
        alone = table[table["changed"] == choice]
        values = pd.concat([alone["harmony"], table.loc[table["is_default"], "harmony"]])
        rows.append(
            {
                "choice": choice,
                "n_values": table[choice].nunique(),
                "harmony_low": values.min(),
                "harmony_high": values.max(),
                "n_alone": len(alone),
                "n_other_verdict": int((alone["verdict"] != default["verdict"]).sum()),
                "r2_harmony": _r2_drop(defined, defined["harmony"], choice),
                "r2_verdict": _r2_drop(defined, same, choice),
            }
        )
    return pd.DataFrame(rows)


def value_table(table: pd.DataFrame) -> pd.DataFrame:
    """Say for each value of each choice how its specifications fared.

    Parameters
    ----------
    table : DataFrame
        From :func:`~harmony_utils.multiverse.multiverse`.

    Returns
    -------
    DataFrame
        One row per value: ``choice``, ``value`` (as text), ``n``, ``share_same_verdict``,
        ``harmony`` (median), ``k`` (median). Specifications with one value differ in everything
        else.
    """
    verdict = table.loc[table["is_default"], "verdict"].iloc[0]
    rows = [
        {
            "choice": choice,
            "value": f"{value:g}" if isinstance(value, (int, float)) else str(value),
            "n": len(members),
            "share_same_verdict": (members["verdict"] == verdict).mean(),
            "harmony": members["harmony"].median(),
            "k": members["k"].median(),
        }
        for choice in CHOICES
        for value, members in table.groupby(choice, sort=False)
    ]
    return pd.DataFrame(rows)


def _r2_drop(table: pd.DataFrame, outcome: pd.Series, choice: str) -> float:
    """Return how much less of an outcome's variance the choices explain without one of them."""
    if len(table) < 2 or outcome.var() < 1e-12 or table[choice].nunique() < 2:
        return float("nan")
    varying = [name for name in CHOICES if table[name].nunique() > 1]

    def explained(names: list[str]) -> float:
        dummies = [pd.get_dummies(table[name]).to_numpy(float)[:, 1:] for name in names]
        design = np.column_stack([np.ones(len(table)), *dummies])
        fitted = design @ np.linalg.lstsq(design, outcome.to_numpy(float), rcond=None)[0]
        return float(1 - ((outcome - fitted) ** 2).sum() / ((outcome - outcome.mean()) ** 2).sum())

    return max(explained(varying) - explained([n for n in varying if n != choice]), 0.0)


def _number(value: Any) -> Any:
    """Return a plain value that JSON can hold; a missing number is None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not np.isfinite(plain) else plain
