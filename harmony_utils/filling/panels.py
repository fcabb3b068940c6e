"""Panels: who answers candidates, so that their difficulty is measured and not believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.special import expit

from harmony_utils.difficulty.responses import Responses, responses_from_matrix
from harmony_utils.errors import InputError
from harmony_utils.files import content_hash, read_json, write_json
from harmony_utils.filling.predictor import FEATURES, item_features
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Benchmark, Item, item_keys

Panel = Callable[[Sequence[Item]], np.ndarray]
"""From items to answers, shape (n_models, n_items): 0 to 1, NaN where one is missing. Rows are the
models of the originals' responses, in their order."""


class RecordedPanel:
    """Answers that were given before, found again by the content of the question.

    Parameters
    ----------
    models : sequence of str
        Names of the rows.
    answers : mapping of content key to sequence of float
        One value a model; see :func:`harmony_utils.items.item_keys`.
    """

    def __init__(self, models: Sequence[str], answers: Mapping[str, Sequence[float]]) -> None:
        self.models = tuple(models)
        self.answers = {key: [np.nan if v is None else float(v) for v in values]
                        for key, values in answers.items()}  # fmt: skip
        for key, values in self.answers.items():
            if len(values) != len(self.models):
                raise InputError(
                    f"recorded answers: {key} has {len(values)} for {len(self.models)} models"
                )

    def __call__(self, items: Sequence[Item]) -> np.ndarray:
        """Return answers; NaN for questions that were not recorded."""
        missing = [np.nan] * len(self.models)
        keys = [item_keys([item])[0] for item in items]
        return np.array([self.answers.get(key, missing) for key in keys]).reshape(
            len(items), len(self.models)
        ).T  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> RecordedPanel:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is not there or is another one.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path}: no such file of recorded answers")
        try:
            data = read_json(path)
            return cls(data["models"], data["answers"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path}: no recorded answers ({type(error).__name__})") from None

    def save(self, path: str | Path) -> Path:
        """Write models and answers as JSON; questions themselves are not written."""
        answers = {
            key: [None if np.isnan(value) else value for value in values]
            for key, values in sorted(self.answers.items())
        }
        return write_json(Path(path), {"models": list(self.models), "answers": answers})


class AskingPanel:
    """Asks respondents, and keeps what they answered, so that nothing is asked twice.

    Parameters
    ----------
    respondents : mapping of str to callable
        Name → function from items to correctness, shape (n_items,). For a language model such a
        function is ``lambda items: score(model, Benchmark("new", items)).predictions.correct``.
    path : Path, optional
        File that answers are kept in, written after every call: a filling that was killed asks
        only for what is missing. By content; the questions themselves are not written.

    Raises
    ------
    InputError
        If the file holds answers of other respondents.
    """

    def __init__(
        self,
        respondents: Mapping[str, Callable[[Sequence[Item]], np.ndarray]],
        *,
        path: Path | None = None,
    ) -> None:
        self.respondents, self.path = dict(respondents), path
        names = tuple(self.respondents)
        there = path is not None and path.is_file()
        self.kept = RecordedPanel.load(path) if there else RecordedPanel(names, {})
        if self.kept.models != names:
            raise InputError(
                f"{path}: holds answers of {', '.join(self.kept.models)}; move it away, or ask the "
                "same respondents in the same order"
            )

    def __call__(self, items: Sequence[Item]) -> np.ndarray:
        """Return answers, shape (n_respondents, n_items), asking only what was not answered."""
        keys = [item_keys([item])[0] for item in items]
        new = {k: x for k, x in zip(keys, items, strict=True) if k not in self.kept.answers}
        if new:
            asked = list(new.values())
            rows = [np.asarray(ask(asked), dtype=float) for ask in self.respondents.values()]
            self.kept.answers.update(zip(new, np.stack(rows, axis=1).tolist(), strict=True))
            if self.path is not None:
                self.kept.save(self.path)
        return self.kept(items)


class SimulatedPanel:
    """Models and a world whose truth is known, to see how well filling works.

    The true difficulty of a question is a fixed sum of its features (how near the nearest wrong
    option is, how clearly the question points at the right one, number of options, length), plus
    something of its own that its rewritings inherit, plus something that they do not. Models of
    normal ability answer by the item response curve.

    Parameters
    ----------
    texts : TextSpace
        Similarities that the truth depends on.
    n_models : int
        Size of the panel.
    inherited, own : float
        Standard deviations of the two parts that the text does not show.
    slope : float
        True discrimination of every question.
    random_state : int
        Seed of abilities and answers. The same question always has the same answers.
    """

    WEIGHTS: ClassVar[dict[str, float]] = {
        "nearest_wrong": 2.5,
        "question_margin": -2.0,
        "n_options": 0.25,
        "question_words": 0.5,
    }

    def __init__(
        self,
        texts: TextSpace,
        *,
        n_models: int = 40,
        inherited: float = 0.7,
        own: float = 0.4,
        slope: float = 1.3,
        random_state: int = 0,
    ) -> None:
        self.texts, self.slope, self.seed = texts, slope, random_state
        self.inherited, self.own = inherited, own
        rng = np.random.default_rng(random_state)
        self.ability = np.sort(rng.normal(size=n_models))
        self.ability = (self.ability - self.ability.mean()) / self.ability.std()

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return [f"model-{i + 1:03d}" for i in range(len(self.ability))]

    def difficulty(self, items: Sequence[Item]) -> np.ndarray:
        """Return the true difficulties, shape (n_items,)."""
        features = item_features(items, self.texts)
        places = [FEATURES.index(name) for name in self.WEIGHTS]
        text = features[:, places] @ np.array(list(self.WEIGHTS.values()))
        base = [self._noise("inherited", item.id.split("~")[0]) for item in items]
        fresh = [self._noise("own", item_keys([item])[0]) for item in items]
        return text - 3.6 + self.inherited * np.array(base) + self.own * np.array(fresh)

    def __call__(self, items: Sequence[Item]) -> np.ndarray:
        """Return the answers of all models, 0 or 1."""
        right = expit(self.slope * (self.ability[:, None] - self.difficulty(items)))
        draws = np.stack(
            [
                self._rng("answers", item_keys([item])[0]).random(len(self.ability))
                for item in items
            ],
            axis=1,
        )
        return (draws < right).astype(float)

    def responses(self, benchmark: Benchmark) -> Responses:
        """Return the answers to a benchmark, ready for a fit."""
        return responses_from_matrix(
            self(benchmark.items),
            models=self.models,
            items=[item.id for item in benchmark.items],
            subjects=[item.subject or "" for item in benchmark.items],
        )

    def _rng(self, *what: object) -> np.random.Generator:
        return np.random.default_rng(int(content_hash([self.seed, *what])[:16], 16))

    def _noise(self, *what: object) -> float:
        return float(self._rng(*what).normal())
