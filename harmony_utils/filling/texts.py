"""Texts as vectors of length 1, each embedded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from harmony_utils.embedding import embed_texts
from harmony_utils.errors import InputError

Embed = Callable[[Sequence[str]], np.ndarray]


def hashed_vectors(texts: Sequence[str], *, n_dimensions: int = 512) -> np.ndarray:
    """Return vectors of hashed letter triples: crude, without a model, for tests and dry runs.

    Examples
    --------
    >>> vectors = hashed_vectors(["a warm river", "a warm rivers", "tax law"])
    >>> bool((vectors @ vectors.T)[0, 1] > (vectors @ vectors.T)[0, 2])
    True
    """
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), n_features=n_dimensions, alternate_sign=False
    )
    return vectorizer.transform(texts).toarray().astype(np.float32)


class TextSpace:
    """Vectors of texts, kept.

    Parameters
    ----------
    embed : "minilm", "hashed" or callable
        From texts to rows of length 1.
    """

    def __init__(self, embed: str | Embed = "minilm") -> None:
        known: dict[str, Embed] = {"minilm": embed_texts, "hashed": hashed_vectors}
        if isinstance(embed, str) and embed not in known:
            raise InputError(f"embedding {embed!r}: choose minilm, hashed, or give a function")
        self._embed = known[embed] if isinstance(embed, str) else embed
        self._vectors: dict[str, np.ndarray] = {}

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return one row for each text, shape (n_texts, n_dimensions)."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, np.asarray(self._embed(new)), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def cosine(self, left: Sequence[str], right: Sequence[str]) -> np.ndarray:
        """Return cosines, shape (n_left, n_right), rounded so that batches do not matter."""
        return (self.vectors(left) @ self.vectors(right).T).astype(float).round(4)
