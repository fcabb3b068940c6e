"""Names of subdomains: planted topics are found, chance is not named, limits give none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from harmony_utils.errors import InputError
from harmony_utils.items import Item
from harmony_utils.naming import NO_TERM, SubdomainName, item_texts, name_subdomains

RIVERS = ("the river floods the valley", "a river meets the sea", "rain swells the river delta")
KINGS = ("the king won the battle", "a king lost his crown", "the old king signed a treaty")
TEXTS = [*RIVERS * 5, *KINGS * 5]
LABELS = np.repeat([0, 1], 15)


def block_affinity(labels):
    affinity = np.where(labels[:, None] == labels, 0.8, 0.2)
    np.fill_diagonal(affinity, 1)
    return affinity


def test_planted_topics_are_named():
    rivers, kings = name_subdomains(TEXTS, LABELS, block_affinity(LABELS))
    assert rivers.terms[0] == "river"
    assert kings.terms[0] == "king"
    assert rivers.coverage == kings.coverage == 1
    assert rivers.coverage_elsewhere == kings.coverage_elsewhere == 0
    assert not rivers.candidates
    assert rivers.text == ", ".join(rivers.terms)
    assert len(rivers.terms) <= 5


def test_equal_scores_go_by_the_alphabet_whatever_the_order_of_the_items():
    (name, _) = name_subdomains(
        ["zebra apple"] * 8 + ["other words"] * 8, np.repeat([0, 1], 8), np.eye(16)
    )
    assert name.terms == ("apple", "zebra")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(TEXTS))
    mixed = name_subdomains([TEXTS[i] for i in order], LABELS[order], np.eye(len(TEXTS)))
    plain = name_subdomains(TEXTS, LABELS, np.eye(len(TEXTS)))
    assert [name.terms for name in mixed] == [name.terms for name in plain]


def test_a_word_pair_is_not_told_twice():
    texts = ["solar system"] * 8 + ["human body"] * 8
    for name in name_subdomains(texts, np.repeat([0, 1], 8), np.eye(16)):
        words = [set(term.split()) for term in name.terms]
        assert all(not a & b for i, a in enumerate(words) for b in words[:i])


def test_subdomains_dealt_at_random_have_no_name():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(60)])
    texts = [" ".join(rng.choice(words, 8)) for _ in range(200)]
    named = 0
    for seed in range(40):
        labels = np.random.default_rng(seed).permutation(np.repeat([0, 1], 100))
        named += sum(bool(name.terms) for name in name_subdomains(texts, labels, np.eye(200)))
    assert named <= 10  # of 80, at a level of 0.05 each


def test_without_a_distinctive_term_the_name_says_so():
    texts = ["which river is longest"] * 4 + ["which king is oldest"] * 2
    same = name_subdomains(texts, np.array([0, 0, 0, 1, 1, 1]), np.eye(6))
    assert [name.terms for name in same] == [(), ()]
    assert same[0].text == f"{NO_TERM} (nearest: longest, river)"
    assert same[0].coverage == 0


@pytest.mark.parametrize("texts", [[""] * 6, ["the of and"] * 6, ["one two"] * 6])
def test_empty_or_equal_texts_have_no_name(texts):
    found = name_subdomains(texts, np.array([0, 0, 0, 1, 1, 2]), np.eye(6))
    assert [name.text for name in found] == [NO_TERM] * 3


def test_a_subdomain_of_one_item_has_an_example_and_no_name():
    labels = np.append(np.zeros(30, dtype=int), 1)
    affinity = np.eye(31)
    found = name_subdomains([*TEXTS, "a comet"], labels, affinity, ids=[f"q{i}" for i in range(31)])
    assert found[1].terms == ()
    assert found[1].example_ids == ("q30",)


def test_examples_are_the_central_items():
    affinity = block_affinity(LABELS)
    affinity[7, :15] = affinity[:15, 7] = 0.9
    ids = [f"item-{i}" for i in range(30)]
    assert name_subdomains(TEXTS, LABELS, affinity, ids=ids)[0].example_ids[0] == "item-7"


def test_names_survive_json():
    name = name_subdomains(TEXTS, LABELS, np.eye(30))[0]
    assert SubdomainName.from_dict(json.loads(json.dumps(name.to_dict()))) == name


def test_texts_hold_question_and_correct_answer_only():
    item = Item("a", "Which runs?", ("a stone", "a river"), 1, passage="Long ago.")
    assert item_texts([item]) == ["Which runs? a river"]


@pytest.mark.parametrize(
    "change", [{"texts": TEXTS[1:]}, {"ids": ["a"]}, {"n_terms": 0}, {"n_examples": 0}]
)
def test_what_does_not_belong_together_is_refused(change):
    values = {"texts": TEXTS, "labels": LABELS, "affinity": np.eye(30), **change}
    with pytest.raises(InputError, match="want at least 1"):
        name_subdomains(values.pop("texts"), values.pop("labels"), values.pop("affinity"), **values)
