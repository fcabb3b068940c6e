"""A reader: how likely a language model finds each option after its question."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, item_keys
from harmony_utils.predictions import Predictions

Likelihoods = Callable[[Benchmark], Predictions]
"""Scores the options of questions, e.g. ``lambda b: score(language_model, b).predictions``."""


class Reader:
    """Log-likelihoods of options, per character, each question scored once.

    One small model that reads candidates costs less than a panel that answers them, and what it
    finds likely tells something of how hard a question is for others. It should be a model that
    scores options as texts: letters say nothing of a wrong option's wording.

    Parameters
    ----------
    score : callable
        From a benchmark to predictions that hold log-likelihoods.
    """

    def __init__(self, score: Likelihoods) -> None:
        self._score = score
        self._known: dict[str, np.ndarray] = {}

    def learn(self, predictions: Predictions) -> None:
        """Take over scores that are there already, e.g. of the originals.

        Raises
        ------
        InputError
            If they hold no log-likelihoods.
        """
        table = predictions.table
        for key, loglik, lengths in zip(
            table["key"], table["loglik"], table["characters"], strict=True
        ):
            if loglik is None or lengths is None:
                raise InputError(
                    "reader: answers without log-likelihoods of the options; take a language model"
                )
            values = np.asarray(loglik, dtype=float)
            self._known[key] = values / np.maximum(np.asarray(lengths, dtype=float), 1)

    def read(self, items: Sequence[Item]) -> list[np.ndarray]:
        """Return the log-likelihood of each option, in nats per character, for each item.

        Missing ones are NaN. Equal questions are scored once.
        """
        keys = [item_keys([item])[0] for item in items]
        new = {key: item for key, item in zip(keys, items, strict=True) if key not in self._known}
        if new:
            self.learn(self._score(Benchmark("read", tuple(new.values()))))
        return [self._known[key] for key in keys]

    def margins(self, items: Sequence[Item]) -> dict[str, float]:
        """Return by id how much likelier the right option is than the best wrong one.

        In nats per character; items whose likelihoods are missing are left out.
        """
        found = {}
        for item, values in zip(items, self.read(items), strict=True):
            margin = values[item.gold] - np.delete(values, item.gold).max()
            if np.isfinite(margin):
                found[item.id] = float(margin)
        return found
