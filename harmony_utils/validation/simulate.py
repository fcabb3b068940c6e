"""Benchmarks whose subdomains and HARMONY are known because they were made that way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.metric import harmony_score

SMALLEST_DOMAIN = 10
"""A simulated domain has at least this many items, so that its accuracy means something."""

OWN_WEIGHT, ITEM_WEIGHT = 0.1, 10.0
"""Concentrations of the Dirichlet draws: of a topic (few outcomes hold most of it) and of an item
around the topic of its domain (about as many draws from it would give its spread)."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """A benchmark with its truth.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_items, n_outcomes)
        What a model would answer, as logarithms.
    correct : ndarray of shape (n_items,)
        0 or 1, drawn from the accuracy of the item's domain.
    domains : ndarray of shape (n_items,), int
        The true subdomain of each item, none empty.
    accuracies : ndarray of shape (n_domains,)
        True accuracy of each domain.
    harmony : float
        HARMONY of true sizes and true accuracies, free of sampling noise.
    """

    log_probabilities: np.ndarray
    correct: np.ndarray
    domains: np.ndarray
    accuracies: np.ndarray
    harmony: float


def simulate_benchmark(
    *,
    n_items: int = 300,
    n_domains: int = 4,
    separation: float = 0.5,
    n_outcomes: int = 200,
    bandwidth: float = 0.1,
    random_state: int = 0,
) -> Simulated:
    """Draw a benchmark with known subdomains, sizes and accuracies.

    Parameters
    ----------
    n_items, n_domains, n_outcomes : int
        Items, true subdomains, size of the vocabulary.
    separation : float
        Share of a domain's topic that is its own, from 0 (all domains have one topic, so nothing
        can be found) to 1 (they have nothing in common).
    bandwidth : float
        Width of HARMONY's kernel, in accuracy.
    random_state : int
        Seed. Another one draws other topics, sizes and accuracies.

    Returns
    -------
    Simulated
        Items in random order.

    Raises
    ------
    InputError
        If a number is out of range.

    Notes
    -----
    Ours. A topic is ``(1 - separation) * common + separation * own`` with both parts drawn from a
    Dirichlet distribution, an item's distribution is drawn around its topic, and accuracies and
    shares as :func:`draw_profile` says. Real subdomains are not made like that: what works here may
    fail there, but what fails here has no excuse.

    Examples
    --------
    >>> made = simulate_benchmark(n_items=60, n_domains=2)
    >>> made.log_probabilities.shape, sorted(set(made.domains.tolist()))
    ((60, 200), [0, 1])
    """
    if n_domains < 2 or n_items < 2 * SMALLEST_DOMAIN * n_domains or n_outcomes < 2:
        raise InputError(
            f"simulation of {n_items} items, {n_domains} domains, {n_outcomes} outcomes: give at "
            f"least two domains, {2 * SMALLEST_DOMAIN} items for each, and two outcomes"
        )
    if not 0 <= separation <= 1:
        raise InputError(f"separation {separation}: must lie between 0 and 1")
    rng = np.random.default_rng(random_state)
    shares, accuracies = draw_profile(n_domains, rng)
    spare = n_items - SMALLEST_DOMAIN * n_domains
    sizes = SMALLEST_DOMAIN + rng.multinomial(spare, shares)
    domains = rng.permutation(np.repeat(np.arange(n_domains), sizes))
    topics = rng.dirichlet(np.full(n_outcomes, OWN_WEIGHT), size=n_domains + 1)
    topics = (1 - separation) * topics[-1] + separation * topics[:-1]
    gamma = rng.standard_gamma(ITEM_WEIGHT * topics[domains] + 1e-3)
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(gamma / gamma.sum(axis=1, keepdims=True))
    correct = (rng.random(n_items) < accuracies[domains]).astype(float)
    harmony = harmony_score(sizes, accuracies, bandwidth=bandwidth)
    return Simulated(log_probabilities, correct, domains, accuracies, harmony)


def draw_profile(n_domains: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw shares and accuracies of domains, from even to very uneven.

    Parameters
    ----------
    n_domains : int
        At least 2.
    rng : Generator
        Source of the draw.

    Returns
    -------
    shares : ndarray of shape (n_domains,)
        From a Dirichlet distribution with all parameters 3; their sum is 1.
    accuracies : ndarray of shape (n_domains,)
        Around a mean between .35 and .75, at most a distance away that is itself drawn between 0
        and .3. So some profiles are flat and some are steep, and HARMONY varies.
    """
    shares = rng.dirichlet(np.full(n_domains, 3.0))
    centre, reach = rng.uniform(0.35, 0.75), rng.uniform(0, 0.3)
    return shares, np.clip(centre + reach * rng.uniform(-1, 1, n_domains), 0, 1)
