"""Rules that answer without a model: what they say, and what they cannot have."""

from __future__ import annotations

import json

import numpy as np
import pytest

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item
from harmony_utils.respondents import (
    PREFIX,
    SCORES,
    find_respondent,
    list_respondents,
    respond,
)
from harmony_utils.settings import PredictionsSettings
from harmony_utils.stages import audit_given, open_audit

ITEMS = (
    Item("a", "Which river runs through Paris?", ("the Seine", "a river in Paris", "Rome"), 0),
    Item("b", "What is two plus two?", ("four", "five", "twenty-two", "zero"), 0),
    Item("c", "Which metal rusts?", ("gold", "iron"), 1),
)
QUIZ = Benchmark("quiz", ITEMS)


def chosen(name: str, benchmark: Benchmark = QUIZ) -> list[int]:
    return respond(PREFIX + name, benchmark).table["prediction"].tolist()


def test_rules_answer_as_their_titles_say():
    assert chosen("first") == [0, 0, 0]
    assert chosen("longest") == [1, 2, 0]  # a tie goes to the first
    assert chosen("tfidf")[0] == 1  # shares "river" and "Paris" with the question
    found = respond(PREFIX + "longest", QUIZ)
    assert found.table["flags"].map(list).tolist() == [[], [], ["tie"]]
    assert found.correct.tolist() == [0, 0, 0]


def test_words_that_are_nowhere_leave_a_tie():
    sums = Benchmark("sums", (Item("a", "1 + 1 =", ("2", "3"), 0),))
    assert respond(PREFIX + "tfidf", sums).table["flags"].map(list).tolist() == [["tie"]]


def test_minilm_sees_the_meaning():
    items = (
        Item("a", "Where do fish live?", ("in the water of rivers and seas", "in a toolbox"), 0),
        Item("b", "What do you use to cut wood?", ("a poem", "a saw or another tool"), 1),
    )
    assert chosen("minilm", Benchmark("meaning", items)) == [0, 1]


@pytest.mark.parametrize("rule", [r.name for r in list_respondents() if r.name != "minilm"])
def test_scores_are_log_shares_and_say_so(rule):
    found = respond(PREFIX + rule, QUIZ)
    shares = np.exp(found.scores())
    np.testing.assert_allclose(np.nansum(shares, axis=1), 1)
    assert found.meta["scores"] == SCORES
    assert found.table["tokens"].isna().all()


def many(n: int) -> Benchmark:
    return Benchmark("many", tuple(Item(str(i), f"q{i}", tuple("wxyz"), 0) for i in range(n)))


def test_draws_follow_their_weights_and_the_item_alone():
    places = np.bincount(chosen("letter-prior", many(2000)), minlength=4) / 2000
    np.testing.assert_allclose(places, [0.4, 0.3, 0.2, 0.1], atol=0.045)
    even = np.bincount(chosen("random", many(2000)), minlength=4) / 2000
    np.testing.assert_allclose(even, 0.25, atol=0.04)
    whole = respond(PREFIX + "random", many(300)).table.set_index("key")["prediction"]
    part = respond(PREFIX + "random", many(300).sample(40)).table.set_index("key")["prediction"]
    assert (whole.loc[part.index] == part).all()


def test_unknown_names_and_settings_are_refused_in_one_line():
    with pytest.raises(InputError, match="did you mean respondent:longest"):
        find_respondent("respondent:longst")
    with pytest.raises(InputError, match="few_shot means nothing"):
        respond(PREFIX + "first", QUIZ, PredictionsSettings(few_shot=1))
    assert len(respond(PREFIX + "first", QUIZ, PredictionsSettings(batch_size=2))) == 3


def test_an_audit_has_predictions_and_a_given_partition_but_no_affinity(quiz, tmp_path):
    audit = open_audit(model="respondent:longest", benchmark=str(quiz), run_dir=str(tmp_path))
    assert len(audit.predictions()) == 20
    assert audit.is_current("predictions")
    for refused in (audit.affinity, audit.clustering, audit.harmony, audit.distributions):
        with pytest.raises(InputError, match="no distribution over a vocabulary"):
            refused()
    found = audit_given(audit, "subjects")
    assert found.partition.names == ("even", "odd")
    kept = json.loads((audit.run.path("given-subjects.json")).read_text())
    assert kept["harmony"] == found.result.harmony
    assert kept["scores"] == SCORES
    with pytest.raises(InputError, match="choose embeddings or subjects"):
        audit_given(audit, "options")
