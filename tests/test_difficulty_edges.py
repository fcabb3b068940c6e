"""Difficulty at its edges: small benchmarks, ties, missing names, guessing, one slope."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harmony_utils.difficulty import (
    Purpose,
    difficulty_posterior,
    find_gaps,
    fit_difficulty,
    information_table,
    purpose_scores,
    purpose_weights,
    responses_from_matrix,
    responses_from_table,
    score_models,
    simulate_panel,
    uniform_target,
)
from harmony_utils.difficulty.loading import load_responses
from harmony_utils.errors import InputError

HALVES = Purpose(kind="selection", subjects={"x": 0.5, "y": 0.5})


def drawn(n_models, n_items, **options):
    rng = np.random.default_rng(0)
    return responses_from_matrix(
        (rng.random((n_models, n_items)) < 0.5).astype(float),
        subjects=["x"] * (n_items // 2) + ["y"] * (n_items - n_items // 2),
        **options,
    )


# answers ------------------------------------------------------------------------------------------


def test_names_may_come_as_arrays():
    given = drawn(4, 12, models=np.array(list("abcd")), families=pd.Series(list("ppqq")))
    assert given.models == tuple("abcd")
    assert given.families == tuple("ppqq")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": ["one"]}, "1 names of families for 4"),
        ({"groups": {"subdomain": ["a", "b"]}}, "2 names of subdomain for 12"),
    ],
)
def test_labels_of_another_length_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        drawn(4, 12, **options)


@pytest.mark.parametrize("name", ["model", "item"])
def test_an_answer_without_a_name_is_refused(name):
    table = pd.DataFrame({"model": list("aabbcc"), "item": ["1", "2"] * 3, "correct": [0, 1] * 3})
    table.loc[3, name] = None
    with pytest.raises(InputError, match=f"answer 4 of 6: the {name} is empty"):
        responses_from_table(table)


def test_every_kind_of_missing_answer_is_missing():
    table = pd.DataFrame({"model": list("aabbcc"), "item": ["1", "2"] * 3})
    for column in (
        pd.array([1, 0, None, 1, 0, 1], dtype="Int64"),
        pd.array([True, False, None, True, False, True], dtype="boolean"),
        pd.Series([1, 0, pd.NA, 1, 0, 1], dtype=object),
        ["yes" if value is None else value for value in ("true", 0, "", "1", "False", 1.0)],
    ):
        found = responses_from_table(table.assign(correct=column)).values
        np.testing.assert_array_equal(found, [[1, 0], [np.nan, 1], [0, 1]])


def test_a_question_without_an_id_of_its_own_has_its_key(tmp_path, monkeypatch):
    from harmony_utils.difficulty import loading

    def run(model):
        return pd.DataFrame(
            {"model": model, "benchmark": "quiz", "key": ["k1", "k2"], "native_id": ["q1", None],
             "subject": None, "family": None, "correct": [1.0, 0.0]}
        )  # fmt: skip

    found = loading._one_name_each([run("a"), run("b"), run("c")])
    assert found["item"].tolist() == ["q1", "k2"] * 3
    with pytest.raises(InputError, match="no such file"):
        load_responses([tmp_path / "nothing"])


# the fit ------------------------------------------------------------------------------------------


def test_a_single_new_model_can_be_scored():
    panel = simulate_panel(30, 80, random_state=3)
    fit = fit_difficulty(panel.responses)
    alone = responses_from_matrix(
        panel.responses.values[:1], items=panel.responses.items, least_models=1
    )
    together = score_models(fit, panel.responses)
    assert score_models(fit, alone)["ability"][0] == pytest.approx(together["ability"][0])
    with pytest.raises(InputError, match="at least 3"):
        fit_difficulty(alone)
    with pytest.raises(InputError, match="at least 3"):
        responses_from_matrix(panel.responses.values[:1])


def test_added_items_of_a_one_slope_scale_have_that_slope():
    panel = simulate_panel(40, 60, slope_spread=0, random_state=1)
    old = fit_difficulty(panel.responses.select(items=range(20)), model="1pl")
    linked = fit_difficulty(panel.responses, model="1pl", anchors=old)
    np.testing.assert_allclose(linked.slope, old.slope[0], atol=1e-5)


def test_guessing_levels_of_another_number_are_refused():
    with pytest.raises(InputError, match="guessing: 2 levels for 12 items"):
        fit_difficulty(drawn(5, 12), model="3pl", guessing=np.array([0.2, 0.2]))


def test_a_gap_compares_information_at_the_same_guessing_level():
    panel = simulate_panel(20, 120, difficulty=np.linspace(-2, 2, 120), random_state=2)
    fit = fit_difficulty(panel.responses, model="3pl", guessing=0.25)
    posterior = difficulty_posterior(fit, panel.responses, n_draws=20)
    target = uniform_target(-1, 1)
    gap = find_gaps(fit, target, posterior=posterior, n_chance=5)[0]
    table = information_table(fit, target, n_points=2001, margin=0.0)
    near = table.iloc[(table["ability"] - (gap.low + gap.high) / 2).abs().argmin()]
    assert len(posterior.places) == len(fit.items)
    assert gap.information_share == pytest.approx(near["ratio"], rel=0.01)


# purposes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_items", [10, 12, 14, 16, 18])
def test_a_small_benchmark_that_the_purpose_wants_whole_is_not_refused(n_items):
    weights = purpose_weights(HALVES, drawn(5, n_items))
    np.testing.assert_allclose(weights, 1 / n_items)


def test_equal_scores_tie_whatever_rounding_makes_of_them():
    # every model has as many right in either subject, in other places
    rng = np.random.default_rng(0)
    first, second = np.repeat([0.0, 1.0], [11, 9]), np.repeat([0.0, 1.0], [21, 19])
    rows = [np.concatenate([rng.permutation(first), rng.permutation(second)]) for _ in range(30)]
    answers = responses_from_matrix(rows, subjects=["x"] * 20 + ["y"] * 40)
    purpose = Purpose(kind="selection", subjects={"x": 0.3, "y": 0.7})
    found = purpose_scores(answers, purpose_weights(purpose, answers), n_bootstrap=5)
    assert found["models"]["purpose"].nunique() > 1  # by rounding alone
    assert set(found["models"]["rank_purpose"]) == {1}


def test_a_model_that_a_resample_leaves_without_answers_has_no_rank_there():
    rng = np.random.default_rng(1)
    values = (rng.random((4, 30)) < 0.6).astype(float)
    values[0] = 0
    values[0, 1:] = np.nan  # one wrong answer, missing from a third of the resamples
    found = purpose_scores(responses_from_matrix(values), np.full(30, 1 / 30), n_bootstrap=200)
    row = found["models"].set_index("model").loc["model-1"]
    assert (row["rank_low"], row["rank_high"]) == (4, 4)
