"""The null distribution within strata of difficulty: its limits."""

from __future__ import annotations

import numpy as np
import pytest

from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.null import (
    difficulty_strata,
    null_draws,
    null_p_value,
    stratified_null_draws,
)

SIZES = (120, 80, 60, 40)
LABELS = np.repeat(range(4), SIZES)
CORRECT = (np.random.default_rng(0).random(300) < 0.6).astype(float)


def test_one_stratum_is_the_plain_null():
    plain = null_draws(CORRECT, np.array(SIZES), bandwidth=0.1, n_null=200, random_state=3)
    strata = stratified_null_draws(
        CORRECT, LABELS, np.zeros(300), n_strata=1, n_null=200, random_state=3
    )
    np.testing.assert_array_equal(strata, plain)
    equal = stratified_null_draws(CORRECT, LABELS, np.zeros(300), n_null=200, random_state=3)
    np.testing.assert_array_equal(equal, plain)


def test_difficulty_that_explains_the_unevenness_makes_p_large():
    rng = np.random.default_rng(1)
    easy = rng.random(300) < np.repeat([0.9, 0.2, 0.6, 0.4], SIZES)  # all they differ in
    correct = (rng.random(300) < np.where(easy, 0.95, 0.3)).astype(float)
    result = harmony(correct, LABELS, n_null=500)
    assert result.p_value < 0.01
    strata = stratified_null_draws(correct, LABELS, -1.0 * easy, n_strata=2, n_null=500)
    assert null_p_value(strata, result.harmony) > 0.05


def test_difficulty_that_explains_nothing_changes_little():
    rng = np.random.default_rng(2)
    correct = (rng.random(300) < np.repeat([0.9, 0.4, 0.7, 0.5], SIZES)).astype(float)
    observed = harmony(correct, LABELS, n_null=500)
    strata = stratified_null_draws(correct, LABELS, rng.random(300), n_null=500)
    assert null_p_value(strata, observed.harmony) < 0.01
    assert np.median(strata) == pytest.approx(observed.null_median, abs=0.02)


def test_answers_as_their_own_difficulty_leave_one_value():
    null = stratified_null_draws(CORRECT, LABELS, CORRECT, n_strata=2, n_null=100)
    assert np.ptp(null) == pytest.approx(0, abs=1e-12)
    assert null_p_value(null, harmony(CORRECT, LABELS, n_null=100).harmony) == 1


def test_strata_are_about_equal_and_keep_ties_together():
    assert np.bincount(difficulty_strata(np.arange(100), n_strata=5)).tolist() == [20] * 5
    tied = difficulty_strata(np.repeat([1.0, 2.0], [90, 10]), n_strata=5)
    assert [len(set(part)) for part in (tied[:90], tied[90:])] == [1, 1]


@pytest.mark.parametrize(
    ("difficulty", "n_strata", "message"),
    [
        (np.zeros(3), 5, "one per item"),
        (np.full(300, np.nan), 5, "row 0: is nan"),
        (np.zeros(300), 0, "at least one stratum"),
    ],
)
def test_refuses_difficulties(difficulty, n_strata, message):
    with pytest.raises(InputError, match=message):
        stratified_null_draws(CORRECT, LABELS, difficulty, n_strata=n_strata)
