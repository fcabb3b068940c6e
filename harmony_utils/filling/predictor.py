"""A guess at a question's difficulty from its text, and how good such guesses are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harmony_utils.errors import InputError
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Item

FEATURES = (
    "question_words",
    "gold_words",
    "wrong_words",
    "n_options",
    "nearest_wrong",
    "mean_wrong",
    "question_gold",
    "question_margin",
    "likelihood_margin",
    "likelihood_known",
)
"""Names of the columns of :func:`item_features`, in order."""

LEAST_ITEMS = 20


def item_features(
    items: Sequence[Item], texts: TextSpace, *, margins: Mapping[str, float] | None = None
) -> np.ndarray:
    """Describe questions by numbers that need no model's answers.

    Parameters
    ----------
    items : sequence of Item
        Questions.
    texts : TextSpace
        Similarities.
    margins : mapping of item id to float, optional
        Log-likelihood of the right option, per character, minus that of the best wrong one.

    Returns
    -------
    ndarray of shape (n_items, 10)
        Logarithms of word counts; number of options; cosine of the right option with the nearest
        wrong one and with the wrong ones on average; cosine of the question with the right option,
        and by how much it exceeds the best wrong one; the likelihood margin, 0 where unknown, and
        whether it is known.

    Examples
    --------
    >>> from harmony_utils.items import Item
    >>> quiz = [Item("a", "one two", ("x", "y"), 0)]
    >>> item_features(quiz, TextSpace("hashed"))[0, :4].round(2).tolist()
    [1.1, 0.69, 0.69, 2.0]
    """
    margins = margins or {}
    texts.vectors([text for item in items for text in (item.question, *item.options)])
    rows = []
    for item in items:
        gold = item.options[item.gold]
        wrong = [text for i, text in enumerate(item.options) if i != item.gold]
        near = texts.cosine([gold], wrong)[0]
        asked = texts.cosine([item.question], [gold, *wrong])[0]
        rows.append(
            [
                np.log1p(len(item.question.split())),
                np.log1p(len(gold.split())),
                np.log1p(np.mean([len(text.split()) for text in wrong])),
                len(item.options),
                near.max(),
                near.mean(),
                asked[0],
                asked[0] - asked[1:].max(),
                margins.get(item.id, 0.0),
                float(item.id in margins),
            ]
        )
    return np.array(rows, dtype=float).reshape(len(items), len(FEATURES))


@dataclass(frozen=True)
class DifficultyPredictor:
    """A fitted predictor with its error on items that it had not seen.

    Parameters
    ----------
    n_items : int
        Calibrated items it learned from.
    error, trivial_error : float
        Mean absolute error in logits, cross-validated; and that of predicting the mean.
    rmse, trivial_rmse : float
        Root mean squared errors of both.
    r_squared : float
        Share of variance predicted out of sample; negative if worse than the mean.
    """

    n_items: int
    error: float
    trivial_error: float
    rmse: float
    trivial_rmse: float
    r_squared: float
    model: Any = field(repr=False, compare=False)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return predicted difficulties, shape (n_items,)."""
        return self.model.predict(features)

    def in_band(
        self, predicted: np.ndarray, low: float, high: float, *, spread: float | None = None
    ) -> np.ndarray:
        """Return the chance of lying in a band if errors are normal, with ``spread`` or rmse."""
        sd = max(self.rmse if spread is None else spread, 1e-6)
        return norm.cdf((high - predicted) / sd) - norm.cdf((low - predicted) / sd)

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as plain values."""
        return {k: v for k, v in asdict(self).items() if k != "model"}


def fit_predictor(
    features: np.ndarray,
    difficulties: np.ndarray,
    *,
    groups: Sequence[str] | None = None,
    n_folds: int = 5,
) -> DifficultyPredictor:
    """Learn difficulty from features by ridge regression, its strength by leave-one-out.

    Parameters
    ----------
    features : ndarray of shape (n_items, n_features)
        From :func:`item_features`.
    difficulties : ndarray of shape (n_items,)
        Measured; cut to plus or minus 4 so that one unsolvable item does not rule.
    groups : sequence, optional
        Items of a group, such as paraphrases, are never in both parts of a fold.
    n_folds : int
        Folds for the reported error.

    Raises
    ------
    InputError
        With fewer than 20 items, or fewer groups than folds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(80, 2))
    >>> found = fit_predictor(x, x[:, 0] + rng.normal(size=80) / 4)
    >>> found.error < found.trivial_error / 2
    True
    """
    n_items = len(difficulties)
    if n_items < LEAST_ITEMS:
        raise InputError(
            f"{n_items} calibrated items: a predictor of difficulty takes at least {LEAST_ITEMS}"
        )
    wanted = np.clip(np.asarray(difficulties, float), -4, 4)
    names = np.arange(n_items) if groups is None else np.asarray(groups, dtype=object)
    if len(set(names.tolist())) < n_folds:
        raise InputError(f"{len(set(names.tolist()))} groups of items for {n_folds} folds")
    codes = np.unique(names.astype(str), return_inverse=True)[1]
    guess, trivial = np.empty(n_items), np.empty(n_items)
    for train, test in GroupKFold(n_folds).split(features, wanted, codes):
        guess[test] = _ridge().fit(features[train], wanted[train]).predict(features[test])
        trivial[test] = wanted[train].mean()
    off, plain_off = wanted - guess, wanted - trivial
    return DifficultyPredictor(
        n_items=n_items,
        error=float(np.abs(off).mean()),
        trivial_error=float(np.abs(plain_off).mean()),
        rmse=float(np.sqrt((off**2).mean())),
        trivial_rmse=float(np.sqrt((plain_off**2).mean())),
        r_squared=float(1 - (off**2).sum() / max((plain_off**2).sum(), 1e-12)),
        model=_ridge().fit(features, wanted),
    )


def _ridge() -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-1, 4, 16)))
