"""Texts of two obvious topics fall apart by sentence embedding and by words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from harmony_utils import embedding
from harmony_utils.embedding import (
    cosine_distance,
    embed_texts,
    encoder_installed,
    text_affinity,
    tfidf_vectors,
)
from harmony_utils.errors import InputError
from harmony_utils.partition import spectral_partition

SPACE = (
    "The planet turns around its star.",
    "A comet is made of ice and dust from space.",
    "Astronomers saw a new galaxy with the telescope.",
    "The moon orbits the planet Earth.",
    "A star shines because of fusion in its core.",
    "The telescope showed the rings of the planet Saturn.",
    "Light from a distant galaxy takes long to reach Earth.",
    "The comet passed the planet and its moon.",
    "A rocket carried the telescope into orbit around Earth.",
    "Gravity keeps the moon in orbit around the planet.",
)
KITCHEN = (
    "Boil the pasta and add salt to the sauce.",
    "Bake the bread in a hot oven.",
    "Fry the onion in butter before you add garlic.",
    "The soup needs salt, pepper and garlic.",
    "Knead the dough, then bake the bread.",
    "Cook the onion and the garlic until soft.",
    "The sauce is made of butter, flour and milk.",
    "Serve the soup with bread and butter.",
    "Add sugar and flour to the dough for the cake.",
    "Stir the sauce while the pasta is cooking.",
)
TEXTS = [text for pair in zip(SPACE, KITCHEN, strict=True) for text in pair]
TOPICS = np.arange(20) % 2
needs_encoder = pytest.mark.skipif(not encoder_installed(), reason="encoder is not installed")


@needs_encoder
def test_sentence_embeddings_find_two_topics():
    vectors = embed_texts(TEXTS, batch_size=7)
    assert vectors.shape == (20, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    found = spectral_partition(text_affinity(vectors)[0], n_clusters=2, max_clusters=4)
    assert adjusted_mutual_info_score(TOPICS, found.labels) > 0.9
    chosen = spectral_partition(text_affinity(vectors)[0], max_clusters=6)
    assert chosen.n_clusters == 2


@needs_encoder
def test_embeddings_do_not_depend_on_the_batch_and_keep_the_order():
    texts = ["", "salt", "The moon is far away, and " * 40]
    together, alone = embed_texts(texts), np.concatenate([embed_texts([t]) for t in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.isfinite(together).all()


@needs_encoder
def test_a_folder_of_another_encoder_can_be_named(tmp_path):
    place, _ = embedding._locate("")
    np.testing.assert_array_equal(embed_texts(TEXTS[:2], encoder=place), embed_texts(TEXTS[:2]))
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be loaded"):
        embed_texts(TEXTS, encoder=str(tmp_path))


def test_words_find_two_topics():
    affinity, _ = text_affinity(tfidf_vectors(TEXTS))
    found = spectral_partition(affinity, n_clusters=2, max_clusters=4)
    assert adjusted_mutual_info_score(TOPICS, found.labels) > 0.9


def test_texts_without_words_are_far_from_everything_and_not_cut_off():
    distance = cosine_distance(tfidf_vectors([*TEXTS, "", "the of"]))
    assert distance[20, 21] == distance[20, 0] == 1
    assert distance[20, 20] == 0
    affinity, _ = text_affinity(tfidf_vectors([*TEXTS, "", "the of"]))
    assert spectral_partition(affinity, n_clusters=2, max_clusters=3).n_components == 1


def test_affinity_of_texts_is_symmetric_and_bounded():
    affinity, temperature = text_affinity(tfidf_vectors(TEXTS))
    assert affinity.dtype == np.float32
    np.testing.assert_array_equal(affinity, affinity.T)
    assert affinity.min() >= 0
    np.testing.assert_array_equal(affinity.diagonal(), 1)
    assert temperature > 0
    assert text_affinity(tfidf_vectors(TEXTS), temperature=2.0)[1] == 2


def test_what_cannot_be_embedded_is_refused(monkeypatch):
    with pytest.raises(InputError, match="there are none"):
        embed_texts([])
    with pytest.raises(InputError, match="no word is left"):
        tfidf_vectors(["", "the"])
    with pytest.raises(InputError, match="identical distributions"):
        text_affinity(tfidf_vectors(["salt"] * 4))
    with pytest.raises(InputError, match="no such folder"):
        embed_texts(TEXTS, encoder="not an encoder")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(embedding, "cached_commit", lambda name: None)
    monkeypatch.setattr(embedding, "ask_hub", _unreachable)
    with pytest.raises(InputError, match="not downloaded before"):
        embed_texts(TEXTS, encoder="owner/encoder")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(embedding, "MODULE", "no_such_module_here")
    assert not encoder_installed()
    with pytest.raises(InputError, match="make setup"):
        embedding._locate("")


def _unreachable(kind, name):
    raise embedding.HubUnreachableError(f"{name}: the hub cannot be reached")
