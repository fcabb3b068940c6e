"""Coverage gaps: difficulties that a target wants and a benchmark does not ask.

The raw gap, the longest stretch without an item, fails on estimated difficulties: one stray item
closes it, and more items make that worse. The soft gap, the widest stretch whose share of items is
at most a quarter of its share of the target, is read on posterior means and called only where it is
wider than the difficulties there are uncertain. Both definitions, and the rule, are ours.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from harmony_utils.difficulty.curves import LIMIT, DifficultyFit
from harmony_utils.difficulty.mismatch import Target
from harmony_utils.difficulty.posterior import DifficultyPosterior
from harmony_utils.difficulty.weighing import detectable_gain, even_information

SOFT_SHARE = 0.25
"""A stretch is a soft gap if its share of items is at most this part of its target share."""

RESOLUTION = 3.0
"""A gap is called only if it is wider than this many median standard errors of difficulty there."""

FEW_MODELS = 10
"""Below this many models slopes are hardly known, and no gap is called: nothing was calibrated."""

_GRID = 241
_LEAST_ITEMS = 10


@dataclass(frozen=True)
class Gap:
    """A stretch of difficulty.

    Parameters
    ----------
    kind : {"raw", "soft"}
        No item at all, or at most a quarter of the wanted share.
    low, high, width : float
        In logits.
    target_share, item_share : float
        What is wanted there, and what the benchmark has there.
    n_items : int
        Items there.
    p_value : float
        How often as many items drawn from the target leave a gap at least as wide.
    chance_width : float
        Widest gap to expect from that, on average.
    standard_error : float
        Median standard error of the difficulties in and beside the gap.
    resolvable : bool
        Whether the gap is wider than :data:`RESOLUTION` standard errors, and the models are at
        least :data:`FEW_MODELS`.
    information_share : float
        Information in its middle, over that of the same items spread like the target.
    slope_width : float
        Median slope times width; ability is measured worse inside only from about 4 on.
    detectable_gain : float or None
        Smallest gain from its middle that the score shows; None if no gain up to four logits.
    n_to_close, n_to_match : int
        New items, evenly spread over it, after which no soft gap wider than chance explains is left
        there; and after which its share of items is what is wanted.
    new_difficulties : tuple of float
        Where the items that close it would lie; five at most are listed.
    subject : str
        Subject within which it was looked for, ``""`` for the whole benchmark.
    verdict : str
        ``gap``, ``chance`` (as wide as chance gives) or ``not resolvable``.
    sentence : str
        The same in words.
    """

    kind: str
    low: float
    high: float
    width: float
    target_share: float
    item_share: float
    n_items: int
    p_value: float
    chance_width: float
    standard_error: float
    resolvable: bool
    information_share: float
    slope_width: float
    detectable_gain: float | None
    n_to_close: int
    n_to_match: int
    new_difficulties: tuple[float, ...]
    subject: str = ""
    verdict: str = ""
    sentence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {**asdict(self), "new_difficulties": list(self.new_difficulties)}


def raw_gap(difficulties: np.ndarray, target: Target) -> tuple[float, float]:
    """Return the longest stretch of the target's range without an item, ends included.

    Parameters
    ----------
    difficulties : ndarray of shape (n_items,)
        In logits, in any order.
    target : Target
        Its range counts, not its shares.

    Returns
    -------
    low, high : float
        Ends in logits; of stretches of the same width the lowest.

    Examples
    --------
    >>> import numpy as np
    >>> from harmony_utils.difficulty.mismatch import uniform_target
    >>> low, high = raw_gap(np.array([-1.0, -0.5, 1.0]), uniform_target(-1, 1))
    >>> float(low), float(high)
    (-0.5, 1.0)
    """
    inside = difficulties[(difficulties > target.low) & (difficulties < target.high)]
    ends = np.concatenate([[target.low], np.sort(inside), [target.high]])
    widest = int(np.diff(ends).argmax())
    return float(ends[widest]), float(ends[widest + 1])


def soft_gaps(
    difficulties: np.ndarray, target: Target, *, share: float = SOFT_SHARE, n_gaps: int = 3
) -> list[tuple[float, float]]:
    """Return the widest stretches with too few items, widest first.

    Parameters
    ----------
    difficulties : ndarray of shape (n_items,)
        Posterior means.
    target : Target
        What is wanted.
    share : float
        Part of the target's share that a stretch's share of items may reach.
    n_gaps : int
        How many stretches that do not overlap are looked for.

    Returns
    -------
    list of (low, high)
        Ends lie on a grid of 241 points over the target's range. Ties go to the lowest. Stretches
        that the target does not want are none.

    Examples
    --------
    >>> import numpy as np
    >>> from harmony_utils.difficulty.mismatch import uniform_target
    >>> easy = np.linspace(-3, 0, 300)
    >>> low, high = soft_gaps(easy, uniform_target(-3, 3))[0]
    >>> round(low, 1), round(high, 1)
    (-0.4, 3.0)
    """
    grid = np.linspace(target.low, target.high, _GRID)
    held = np.searchsorted(np.sort(difficulties), grid, side="left") / len(difficulties)
    held[-1] = (difficulties <= target.high).mean()
    wanted = target.cdf(grid)
    items = held[None, :] - held[:, None]
    target_mass = wanted[None, :] - wanted[:, None]
    width = grid[None, :] - grid[:, None]
    allowed = (items <= share * target_mass) & (target_mass > 1e-9)
    found: list[tuple[float, float]] = []
    for _ in range(n_gaps):
        open_ = np.where(allowed, width, 0)
        first, last = np.unravel_index(int(open_.argmax()), open_.shape)
        if open_[first, last] <= 0:
            break
        found.append((float(grid[first]), float(grid[last])))
        allowed &= (np.arange(_GRID) <= first)[None, :] | (np.arange(_GRID) >= last)[:, None]
    return found


def find_gaps(
    fit: DifficultyFit,
    target: Target,
    *,
    posterior: DifficultyPosterior,
    subjects: np.ndarray | None = None,
    n_chance: int = 200,
    random_state: int = 0,
) -> list[Gap]:
    """Look for coverage gaps in a benchmark and within its subjects.

    Parameters
    ----------
    fit : DifficultyFit
        Items without a usable difficulty count as absent.
    target : Target
        What is wanted.
    posterior : DifficultyPosterior
        Of ``fit``.
    subjects : ndarray of shape (n_items,), optional
        Each subject with ten items or more is looked at alone too, soft gaps only.
    n_chance : int
        Draws from the target that say what chance leaves open.
    random_state : int
        Seed.

    Returns
    -------
    list of Gap
        The raw gap first, then soft ones, widest first, then those of subjects. Every one carries
        its verdict; those that are narrower than chance's widest gap are still listed for the
        whole benchmark, so that nothing is left out silently.
    """
    chance = _chance(len(posterior.places), target, n_chance, random_state)
    found = [_describe("raw", raw_gap(posterior.mean, target), fit, posterior, target, chance)]
    for ends in soft_gaps(posterior.mean, target):
        found.append(_describe("soft", ends, fit, posterior, target, chance))
    if subjects is None:
        return found
    labels = np.asarray(subjects, dtype=object)[posterior.places]
    for name in sorted(set(labels.tolist()) - {""}):
        chosen = np.flatnonzero(labels == name)
        if len(chosen) < _LEAST_ITEMS:
            continue
        part = posterior.select(chosen)
        chance = _chance(len(chosen), target, n_chance, random_state)
        for ends in soft_gaps(part.mean, target, n_gaps=1):
            gap = _describe("soft", ends, fit, part, target, chance)
            found.append(replace(gap, subject=name, sentence=f"{name}: {gap.sentence}"))
    return found


def _chance(n_items: int, target: Target, n_draws: int, random_state: int) -> dict[str, np.ndarray]:
    """Return the widths of the widest gaps that items drawn from the target leave."""
    rng = np.random.default_rng(random_state)
    widths: dict[str, list[float]] = {"raw": [], "soft": []}
    for _ in range(n_draws):
        drawn = target.quantile(rng.random(n_items))
        low, high = raw_gap(drawn, target)
        widths["raw"].append(high - low)
        soft = soft_gaps(drawn, target, n_gaps=1)
        widths["soft"].append(soft[0][1] - soft[0][0] if soft else 0.0)
    return {name: np.array(values) for name, values in widths.items()}


def _describe(
    kind: str,
    ends: tuple[float, float],
    fit: DifficultyFit,
    posterior: DifficultyPosterior,
    target: Target,
    chance: dict[str, np.ndarray],
) -> Gap:
    low, high = ends
    width, n_items = high - low, len(posterior.places)
    inside = (posterior.mean > low) & (posterior.mean < high)
    near = (posterior.mean > low - 1) & (posterior.mean < high + 1)
    error = float(np.median(posterior.sd[near] if near.any() else posterior.sd))
    wanted = float(target.cdf(np.array([high]))[0] - target.cdf(np.array([low]))[0])
    n_inside = int(inside.sum())
    middle = np.array([(low + high) / 2])
    slope = float(np.median(fit.slope[posterior.places]))
    own = float(fit.information(middle)[0][posterior.places].sum())
    ideal = even_information(fit, target, middle, items=posterior.places)
    spread = n_items * float(ideal[0])
    gain = float(detectable_gain(fit, middle)[0])
    n_close = _to_close(posterior.mean, target, ends, float(np.quantile(chance["soft"], 0.95)))
    places = np.linspace(low, high, min(n_close, 5) + 2)[1:-1]
    gap = Gap(
        kind=kind,
        low=low,
        high=high,
        width=width,
        target_share=wanted,
        item_share=n_inside / n_items,
        n_items=n_inside,
        p_value=float((1 + (chance[kind] >= width - 1e-9).sum()) / (1 + len(chance[kind]))),
        chance_width=float(chance[kind].mean()),
        standard_error=error,
        resolvable=width > RESOLUTION * error and len(fit.models) >= FEW_MODELS,
        information_share=own / max(spread, 1e-12),
        slope_width=slope * width,
        detectable_gain=None if np.isnan(gain) else gain,
        n_to_close=n_close,
        n_to_match=_needed(n_items, n_inside, wanted),
        new_difficulties=tuple(round(float(place), 2) for place in places),
    )
    return _judged(gap, len(fit.models))


def _to_close(
    difficulties: np.ndarray, target: Target, ends: tuple[float, float], wide: float
) -> int:
    """Return the least number of items, evenly over the gap, that leaves no soft gap this wide."""

    def closed(n_new: int) -> bool:
        added = np.linspace(*ends, n_new + 2)[1:-1]
        left = soft_gaps(np.concatenate([difficulties, added]), target, n_gaps=1)
        here = [high - low for low, high in left if low < ends[1] and high > ends[0]]
        return not here or here[0] <= wide

    low, high = 0, 1
    if closed(0):
        return 0
    while not closed(high) and high < 100 * len(difficulties):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if closed(middle) else (middle, high)
    return high


def _needed(n_items: int, n_inside: int, share: float) -> int:
    """Return the items to add so that this share of all lies inside: ``(n_in + x) / (n + x)``."""
    if share >= 1:
        return 0 if n_inside == n_items else n_items
    return max(int(np.ceil((share * n_items - n_inside) / (1 - share) - 1e-9)), 0)


def _judged(gap: Gap, n_models: int) -> Gap:
    span = f"{gap.low:.2f} to {gap.high:.2f}"
    if not gap.resolvable:
        verdict = "not resolvable"
        text = (
            f"a {gap.kind} gap from {span} is not resolvable with {n_models} models: difficulties "
            f"there are uncertain by {gap.standard_error:.2f}"
        )
    elif gap.p_value > 0.05:
        verdict = "chance"
        text = f"the {gap.kind} gap from {span} is no wider than chance leaves open"
    else:
        verdict = "gap"
        text = (
            f"from {span} the target wants {gap.target_share:.0%} and the benchmark has "
            f"{gap.item_share:.0%} of its items; {gap.n_to_close} new items would close it, "
            f"{gap.n_to_match} would match the target"
        )
    return replace(gap, verdict=verdict, sentence=text)


def headroom(fit: DifficultyFit) -> dict[str, float]:
    """Say how much the benchmark still asks of its best model, and of its weakest.

    Parameters
    ----------
    fit : DifficultyFit
        Of at least one usable item.

    Returns
    -------
    dict
        ``best_ability``; ``harder_items``, share of usable items harder than the best model's
        ability; ``best_expected_score``; ``targeting``, mean ability minus mean difficulty, over
        the difficulties' standard deviation: positive if the items are too easy for these models,
        and beyond half of one the targeting is poor by a usual rule of thumb. Items that all
        models have right, or all wrong, are in the flags of the answers.

    Examples
    --------
    Four items between five models: none is harder than the best model is able.

    >>> from harmony_utils.difficulty import fit_difficulty, responses_from_matrix
    >>> steps = np.tril(np.ones((5, 5)), k=-1)[:, :4]
    >>> found = headroom(fit_difficulty(responses_from_matrix(steps), model="1pl"))
    >>> found["harder_items"], abs(found["targeting"]) < 0.1
    (0.0, True)
    """
    chosen = np.flatnonzero(fit.usable)
    difficulties = np.clip(fit.difficulty[chosen], -LIMIT, LIMIT)
    best = float(fit.ability.max())
    spread = float(difficulties.std()) or 1.0
    return {
        "best_ability": best,
        "harder_items": float((difficulties > best).mean()),
        "best_expected_score": float(fit.probabilities(np.array([best])).mean()),
        "targeting": float((fit.ability.mean() - difficulties.mean()) / spread),
    }
