"""The difficulty fit and what is read from it, against simulations whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from harmony_utils.difficulty import (
    audit_difficulty,
    band_table,
    check_fit,
    compare_subsets,
    detectable_gain,
    differential_items,
    differential_subjects,
    difficulty_posterior,
    find_gaps,
    fit_difficulty,
    held_out_prediction,
    information_table,
    measure_mismatch,
    pool_target,
    raw_gap,
    responses_from_matrix,
    score_models,
    simulate_panel,
    soft_gaps,
    suspected_keys,
    uniform_target,
    wasserstein,
    workload_target,
)
from harmony_utils.difficulty.newton import item_step, shared_slope_step
from harmony_utils.difficulty.posterior import _blocks
from harmony_utils.difficulty.subset import choose_by_information, estimate_score
from harmony_utils.errors import InputError, RefusedError

DATA = Path(__file__).resolve().parent / "data"
WIDE = uniform_target(-3, 3)


def distance(values, truth):
    """First Wasserstein distance of two samples."""
    levels = np.linspace(0.002, 0.998, 500)
    return float(np.abs(np.quantile(values, levels) - np.quantile(truth, levels)).mean())


def recovery(panel, fit):
    """Correlation, coverage of items and abilities, distance of distributions."""
    values = panel.responses.values
    varied = np.nanmin(values, axis=0) < np.nanmax(values, axis=0)
    ok = varied & fit.usable & ~panel.reversed
    posterior = difficulty_posterior(fit, panel.responses, n_draws=15)
    off = np.abs(fit.difficulty - panel.difficulty)
    return {
        "r": np.corrcoef(fit.difficulty[ok], panel.difficulty[ok])[0, 1],
        "covered": (off < 1.96 * fit.difficulty_se)[ok].mean(),
        "covered_ability": (np.abs(fit.ability - panel.ability) < 1.96 * fit.ability_se).mean(),
        "distance": np.mean(
            [distance(draw, panel.difficulty[posterior.places]) for draw in posterior.plausible(5)]
        ),
    }


# recovery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_models", "n_items", "options", "least_r", "most_distance"),
    [
        (12, 300, {}, 0.8, 0.22),
        (36, 300, {}, 0.9, 0.14),
        (36, 300, {"missing": 0.5}, 0.85, 0.16),
        (100, 300, {}, 0.94, 0.12),
        (36, 300, {"slope_spread": 0}, 0.93, 0.12),
    ],
)
def test_recovery_over_seeds(n_models, n_items, options, least_r, most_distance):
    model = "1pl" if "slope_spread" in options else "2pl"
    found = []
    for seed in range(6):
        panel = simulate_panel(n_models, n_items, random_state=seed, **options)
        fit = fit_difficulty(panel.responses, model=model)
        assert fit.converged
        found.append(recovery(panel, fit))
    mean = pd.DataFrame(found).mean()
    assert mean["r"] > least_r
    assert 0.92 < mean["covered"] < 0.975
    assert 0.87 < mean["covered_ability"] <= 1
    assert mean["distance"] < most_distance


def test_agreement_with_mirt():
    oracle = json.loads((DATA / "mirt_2pl.json").read_text())
    panel = simulate_panel(**oracle["panel"])
    assert panel.responses.values.sum() == oracle["n_right"]  # the same answers
    fit = fit_difficulty(panel.responses)
    slope, theirs = np.array(oracle["discrimination"]), np.array(oracle["difficulty"])
    ours = fit.difficulty
    clear = np.abs(theirs) < 3
    assert np.corrcoef(ours[clear], theirs[clear])[0, 1] > 0.995
    # theirs are maximum-likelihood slopes, ours are drawn together: alike in order
    assert spearmanr(fit.slope, slope).statistic > 0.95
    # mirt's 21 nodes leave its scale off with 500 items, so scales are matched by mean and spread
    theirs, ours, truth = theirs[clear], ours[clear], panel.difficulty[clear]
    linked = (theirs - theirs.mean()) / theirs.std() * ours.std() + ours.mean()
    assert np.abs(ours - linked).mean() < 0.06
    linked = (theirs - theirs.mean()) / theirs.std() * truth.std() + truth.mean()
    assert np.abs(ours - truth).mean() < 1.1 * np.abs(linked - truth).mean()


def test_an_all_right_and_an_all_wrong_item_stay_finite():
    values = simulate_panel(12, 60, random_state=3).responses.values.copy()
    values[:, 0], values[:, 1] = 1, 0
    found = responses_from_matrix(values)
    assert {"item-1", "item-2"} <= set(found.flags[0]["names"])
    fit = fit_difficulty(found)
    assert np.isfinite(fit.difficulty).all()
    assert fit.difficulty[0] == pytest.approx(fit.difficulty.min(), abs=1)
    assert fit.difficulty[0] < -1 < 1 < fit.difficulty[1]
    assert fit.difficulty_se[0] > np.median(fit.difficulty_se)


def test_an_item_step_without_a_prior_solves_a_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    panel = simulate_panel(60, 5, difficulty=np.array([-1, 0, 0.5, 1, 0.2]), random_state=1)
    values, ability = panel.responses.values, panel.ability
    start = (np.ones(5), np.zeros(5), np.zeros(5))
    flat = (np.zeros(2), 1e8 * np.eye(2))
    seen = np.ones(values.shape)
    slope, intercept, covariance = item_step(
        values, seen, (ability, np.zeros(60)), start, flat, n_steps=40
    )
    for item in range(5):
        known = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000)
        known.fit(ability[:, None], values[:, item])
        assert slope[item] == pytest.approx(known.coef_[0, 0], abs=1e-3)
        assert intercept[item] == pytest.approx(known.intercept_[0], abs=1e-3)
        p = known.predict_proba(ability[:, None])[:, 1]
        design = np.stack([ability, np.ones(60)])
        wanted = np.linalg.inv((design * (p * (1 - p))) @ design.T)
        np.testing.assert_allclose(covariance[item], wanted, rtol=1e-2)


def test_the_shared_slope_is_the_top_of_the_likelihood():
    panel = simulate_panel(40, 30, slope_spread=0, random_state=2)
    values, ability = panel.responses.values, panel.ability
    certain = (ability, np.full(40, 1e-9))
    start = (np.ones(30), np.zeros(30), np.zeros(30))
    slope, intercept, _ = shared_slope_step(
        values, np.ones(values.shape), certain, start, (0.0, 4.0), n_steps=40
    )

    def height(a):
        logits = a * ability[:, None] + intercept
        return (values * logits - np.logaddexp(0, logits)).sum()

    assert height(slope[0]) > max(height(slope[0] + 0.01), height(slope[0] - 0.01))


def test_the_order_of_models_and_items_does_not_matter():
    panel = simulate_panel(20, 80, random_state=4, missing=0.1)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(20), rng.permutation(80)
    first = fit_difficulty(panel.responses)
    second = fit_difficulty(panel.responses.select(rows, columns))
    np.testing.assert_allclose(second.difficulty, first.difficulty[columns], atol=1e-6)
    np.testing.assert_allclose(second.ability, first.ability[rows], atol=1e-6)


def test_the_sign_is_that_of_the_raw_score():
    panel = simulate_panel(20, 100, random_state=5, wrong_keys=0.3)
    fit = fit_difficulty(panel.responses)
    assert np.corrcoef(fit.ability, panel.responses.accuracy)[0, 1] > 0.5
    assert fit.slope.mean() > 0


def suspicion(panel, **options):
    fit = fit_difficulty(panel.responses, **options)
    posterior = difficulty_posterior(fit, panel.responses, n_draws=150)
    return posterior, suspected_keys(fit, posterior)


@pytest.mark.parametrize(
    ("n_models", "n_items", "least_precision", "least_recall"),
    # a normal about the fit's slope finds a sixth of them with 12 models
    [(12, 400, 0.7, 0.3), (36, 400, 0.9, 0.85)],
)
def test_planted_wrong_keys_are_found(n_models, n_items, least_precision, least_recall):
    n_listed, n_true, n_planted, known = 0, 0, 0, []
    for seed in range(3):
        panel = simulate_panel(n_models, n_items, wrong_keys=0.05, random_state=seed)
        posterior, listed = suspicion(panel)
        planted = {panel.responses.items[j] for j in np.flatnonzero(panel.reversed)}
        n_listed += len(listed)
        n_true += len(planted & set(listed["item"]))
        n_planted += len(planted)
        known.append((posterior.p_negative.sum(), len(planted)))
        assert (listed["p_negative"].diff().dropna() <= 0).all()
        assert (listed["discrimination"] < 0.5 * posterior.slopes.mean()).all()
    assert n_true / n_listed > least_precision
    assert n_true / n_planted > least_recall
    # probabilities add up to about as many as there are
    expected, planted = np.sum(known, axis=0)
    assert expected == pytest.approx(planted, rel=0.3)


def test_without_wrong_keys_hardly_any_is_suspected():
    for n_models, most in ((12, 0.015), (36, 0.005)):
        panels = [simulate_panel(n_models, 300, random_state=s) for s in range(3)]
        assert np.mean([len(suspicion(panel)[1]) / 300 for panel in panels]) <= most


def test_curves_of_one_slope_can_fall_too():
    panel = simulate_panel(36, 200, slope_spread=0, wrong_keys=0.05, random_state=1)
    posterior, listed = suspicion(panel, model="1pl")
    planted = {panel.responses.items[j] for j in np.flatnonzero(panel.reversed)}
    assert len(planted & set(listed["item"])) >= 8
    assert len(set(listed["item"]) - planted) <= 1
    np.testing.assert_allclose(np.ptp(np.abs(posterior.slopes[:10]), axis=1), 0, atol=1e-12)


@pytest.mark.parametrize(("n_models", "least"), [(12, 0.87), (36, 0.89), (100, 0.9)])
def test_mean_and_standard_error_of_discriminations_cover(n_models, least):
    covered = []
    for seed in range(4):
        panel = simulate_panel(n_models, 150, random_state=300 + seed)
        slopes = suspicion(panel)[0].slopes
        off = np.abs(slopes.mean(axis=0) - panel.slope)
        covered.append((off < 1.96 * slopes.std(axis=0)).mean())
    assert least < np.mean(covered) < 0.98


def test_guessing():
    panel = simulate_panel(12, 40, random_state=1)
    with pytest.raises(RefusedError, match=r"12 models.*300.*fix it"):
        fit_difficulty(panel.responses, model="3pl")
    with pytest.raises(InputError, match="outside"):
        fit_difficulty(panel.responses, model="3pl", guessing=0.95)
    with pytest.raises(InputError, match="choose 3pl"):
        fit_difficulty(panel.responses, guessing=0.25)
    with pytest.raises(InputError, match="choose 1pl"):
        fit_difficulty(panel.responses, model="4pl")
    without = fit_difficulty(panel.responses)
    with_none = fit_difficulty(panel.responses, model="3pl", guessing=0.0)
    np.testing.assert_allclose(without.difficulty, with_none.difficulty)


def test_a_known_guessing_level_is_taken_out():
    rng = np.random.default_rng(7)
    panel = simulate_panel(100, 200, random_state=7)
    values = np.maximum(panel.responses.values, rng.random((100, 200)) < 0.25)
    found = responses_from_matrix(values)
    plain, guessed = fit_difficulty(found), fit_difficulty(found, model="3pl", guessing=0.25)
    off = [np.abs(fit.difficulty - panel.difficulty).mean() for fit in (plain, guessed)]
    assert off[1] < 0.6 * off[0]
    assert (guessed.probabilities(np.array([-20.0])) >= 0.25 - 1e-9).all()


# linking ---------------------------------------------------------------------------------------


def test_anchored_items_stay_and_added_ones_land_on_their_scale():
    covered, off = [], []
    for seed in range(4):
        panel = simulate_panel(36, 300, random_state=seed)
        whole = panel.responses
        original = fit_difficulty(whole.select(items=range(200)))
        linked = fit_difficulty(whole, anchors=original)
        np.testing.assert_array_equal(linked.slope[:200], original.slope)
        assert linked.anchored[:200].all()
        assert not linked.anchored[200:].any()
        added = panel.difficulty[200:]
        off.append(linked.difficulty[200:].mean() - added.mean())
        error = np.abs(linked.difficulty[200:] - added)
        covered.append((error < 1.96 * linked.difficulty_se[200:]).mean())
    assert abs(np.mean(off)) < 0.12
    assert 0.91 < np.mean(covered) < 0.98


def test_linking_another_pool_keeps_the_scale():
    """A pool one standard deviation abler: its abilities show it, the difficulties do not move."""
    rng = np.random.default_rng(3)
    difficulty = rng.normal(0, 1.2, 300)
    ability = np.concatenate([rng.normal(0, 1, 40), rng.normal(1, 1, 40)])
    panel = simulate_panel(80, 300, difficulty=difficulty, ability=ability, random_state=3)
    first = fit_difficulty(panel.responses.select(models=range(40), items=range(200)))
    linked = fit_difficulty(panel.responses.select(models=range(40, 80)), anchors=first)
    assert linked.population["ability_mean"] == pytest.approx(1, abs=0.35)
    pool = (ability[40:] - ability[:40].mean()) / ability[:40].std()
    np.testing.assert_allclose(linked.ability, pool, atol=0.6)
    truth = (difficulty[200:] - ability[:40].mean()) / ability[:40].std()
    assert abs((linked.difficulty[200:] - truth).mean()) < 0.2
    with pytest.raises(InputError, match="anchors"):
        fit_difficulty(responses_from_matrix(np.eye(4), items=["u", "v", "w", "x"]), anchors=first)


def test_a_new_model_is_scored_without_a_new_fit():
    panel = simulate_panel(40, 300, random_state=6)
    old = panel.responses.select(models=range(20))
    scored = score_models(fit_difficulty(old), panel.responses.select(models=range(20, 40)))
    together = panel.ability[20:]
    centre, spread = panel.ability[:20].mean(), panel.ability[:20].std()
    off = np.abs(scored["ability"] - (together - centre) / spread)
    assert (off < 2.5 * scored["ability_se"]).mean() > 0.8
    assert (scored["n_items"] == 300).all()
    few = panel.responses.select(models=range(20, 40), items=range(10))
    assert (score_models(fit_difficulty(old), few)["ability_se"] > scored["ability_se"]).all()


# bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((2, 5)), "2 models.*at least 3"),
        (np.ones((4, 1)), "1 items"),
        ([[1, 0], [0, 1], [np.nan, np.nan]], "model-3 has no answers"),
        ([[1, 0], [0, 1.5], [0, 0]], "model-2, item item-2: correct is 1.5"),
        ([[1, 0], [0, -1], [0, 0]], "between 0 and 1"),
        (np.ones(4), "models by items"),
    ],
)
def test_bad_matrices_are_refused_in_one_line(values, message):
    with pytest.raises(InputError, match=message) as caught:
        responses_from_matrix(np.asarray(values, dtype=float))
    assert "\n" not in str(caught.value)


def test_copies_of_a_model_are_left_out_and_named():
    values = simulate_panel(6, 100, random_state=1).responses.values
    found = responses_from_matrix(np.vstack([values, values[2]]), models=list("abcdefg"))
    assert found.models == tuple("abcdef")
    (flag,) = [flag for flag in found.flags if flag["flag"] == "duplicate-models"]
    assert flag["names"] == ["g"]
    assert "g as c" in flag["sentence"]
    with pytest.raises(InputError, match="only 2 of 4 models differ"):
        responses_from_matrix(values[[0, 0, 1, 1]])


def test_equal_rows_that_chance_explains_are_kept():
    easy = np.ones((5, 6))
    easy[0, 0] = easy[1, 1] = 0
    assert len(responses_from_matrix(easy).models) == 5


def test_partial_credit_and_missing_cells_are_flagged():
    values = simulate_panel(8, 40, random_state=2).responses.values.copy()
    values[0, 0], values[1, 1], values[:, 2] = 0.5, np.nan, np.nan
    found = responses_from_matrix(values)
    names = {flag["flag"] for flag in found.flags}
    assert {"partial-credit", "missing-cells", "unanswered-items"} <= names
    assert "item-3" not in found.items
    assert np.isfinite(fit_difficulty(found).difficulty).all()


# mismatch --------------------------------------------------------------------------------------


def test_wasserstein_by_hand():
    target = uniform_target(0, 1)
    # all items at 0: the target's mass moves by 1/2 on average, and all of it is shift
    value, shift, shape = wasserstein(np.zeros(10), target)
    assert (value, shift) == (pytest.approx(0.5), pytest.approx(-0.5))
    assert shape == pytest.approx(0.25, abs=1e-3)
    # weights do what repetition does
    weighted = wasserstein(np.array([0.2, 0.8]), target, np.array([3.0, 1.0]))
    repeated = wasserstein(np.array([0.2, 0.2, 0.2, 0.8]), target)
    np.testing.assert_allclose(weighted, repeated, atol=1e-2)


def test_a_workload_is_a_target_with_holes():
    target = workload_target([(1, 2, 0.25), (-2, 0, 0.75)], provenance="log of last month")
    assert target.edges == (-2, 0, 1, 2)
    assert target.shares == (0.75, 0, 0.25)
    np.testing.assert_allclose(target.quantile(np.array([0.375, 0.875])), [-1, 1.5])
    with pytest.raises(InputError, match="overlaps"):
        workload_target([(0, 2, 0.5), (1, 3, 0.5)], provenance="x")
    with pytest.raises(InputError, match="sum to"):
        workload_target([(0, 2, 0.5)], provenance="x")


def test_the_distance_bounds_what_scores_can_differ_by():
    """Kantorovich and Rubinstein: with slope a, scores differ by at most a / 4 times it."""
    rng = np.random.default_rng(0)
    difficulties = rng.normal(0.7, 1, 400)
    value = wasserstein(difficulties, WIDE)[0]
    levels = WIDE.quantile((np.arange(2000) + 0.5) / 2000)
    for ability in np.linspace(-4, 4, 33):
        ours = (1 / (1 + np.exp(difficulties - ability))).mean()
        wanted = (1 / (1 + np.exp(levels - ability))).mean()
        assert abs(ours - wanted) <= value / 4 + 1e-3


@pytest.mark.parametrize("n_models", [12, 36])
def test_intervals_of_the_posterior_cover(n_models):
    """Ten panels each; the recorded calibration has hundreds."""
    statements, items = [], []
    for seed in range(10):
        panel = simulate_panel(n_models, 80, random_state=200 + seed)
        fit = fit_difficulty(panel.responses)
        posterior = difficulty_posterior(fit, panel.responses, n_draws=100)
        found = measure_mismatch(fit, WIDE, posterior=posterior)
        truth = wasserstein(panel.difficulty, WIDE)
        ends = np.array([found.interval, found.shift_interval, found.shape_interval])
        statements.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        for draws, true in (
            (posterior.draws, panel.difficulty[posterior.places]),
            (posterior.slopes, panel.slope),
            (posterior.abilities, panel.ability),
        ):
            low, high = np.quantile(draws, [0.025, 0.975], axis=0)
            items.append(((low <= true) & (true <= high)).mean())
    assert np.mean(statements) >= 0.8
    assert (np.reshape(items, (10, 3)).mean(axis=0) > [0.9, 0.86, 0.88]).all()


def test_the_posterior_is_on_the_scale_of_the_fit_and_repeatable():
    panel = simulate_panel(14, 60, random_state=2, missing=0.1)
    fit = fit_difficulty(panel.responses)
    first = difficulty_posterior(fit, panel.responses, n_draws=30, random_state=5)
    second = difficulty_posterior(fit, panel.responses, n_draws=30, random_state=5)
    np.testing.assert_array_equal(first.draws, second.draws)
    np.testing.assert_allclose(first.abilities.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(first.abilities.std(axis=1), 1)
    assert np.corrcoef(first.abilities.mean(axis=0), fit.ability)[0, 1] > 0.98
    part = first.select(np.array([3, 5]))
    np.testing.assert_allclose(part.mean, first.mean[[3, 5]])
    with pytest.raises(InputError, match="fit these answers"):
        difficulty_posterior(fit, panel.responses.select(items=range(50)))
    anchored = fit_difficulty(panel.responses, anchors=fit)
    with pytest.raises(InputError, match="anchors"):
        difficulty_posterior(anchored, panel.responses)
    with pytest.raises(InputError, match="at least 2"):
        difficulty_posterior(fit, panel.responses, n_draws=1)


def test_items_with_the_same_answers_share_a_row(monkeypatch):
    """And every item is in one block, with its own answers and guessing level."""
    monkeypatch.setattr("harmony_utils.difficulty.posterior._CHUNK", 5)
    rng = np.random.default_rng(0)
    counts = rng.integers(2, size=(200, 4)).astype(np.float32)
    guessing = rng.choice([0.0, 0.25], 200)
    blocks = _blocks(counts, guessing)
    assert sorted(np.concatenate([block.items for block in blocks])) == list(range(200))
    assert sum(len(block.answers) for block in blocks) == 2 * 16
    for block in blocks:
        assert len(block.answers) <= 5
        np.testing.assert_array_equal(block.answers[block.pattern], counts[block.items])
        assert (guessing[block.items] == block.guessing).all()


def test_one_slope_and_a_guessing_level_reach_the_posterior():
    panel = simulate_panel(60, 100, slope_spread=0, random_state=3)
    fit = fit_difficulty(panel.responses, model="1pl")
    one = difficulty_posterior(fit, panel.responses, n_draws=200)
    drawn, error = np.abs(one.slopes[:, 0]), np.sqrt(fit.covariance[0, 0, 0])
    assert drawn.std() == pytest.approx(error, rel=0.5)
    assert abs(drawn.mean() - fit.slope[0]) < error
    assert abs(drawn.mean() - panel.slope[0]) < 3.5 * error
    rng = np.random.default_rng(3)
    guessed = np.maximum(panel.responses.values, rng.random((60, 100)) < 0.25)
    answers = responses_from_matrix(guessed)
    known = fit_difficulty(answers, model="3pl", guessing=0.25)
    held = difficulty_posterior(known, answers, n_draws=60)
    low, high = held.interval()
    truth = panel.difficulty[held.places]
    assert ((low <= truth) & (truth <= high)).mean() > 0.88
    ignored = difficulty_posterior(fit_difficulty(answers), answers, n_draws=60)
    assert abs((held.mean - truth).mean()) < abs(
        (ignored.mean - panel.difficulty[ignored.places]).mean()
    )


def test_bands_and_information():
    rng = np.random.default_rng(1)
    hard = np.concatenate([rng.uniform(1, 3, 150), rng.uniform(-3, 1, 50)])
    panel = simulate_panel(60, 200, difficulty=hard, random_state=1)
    fit = fit_difficulty(panel.responses)
    posterior = difficulty_posterior(fit, panel.responses, n_draws=60)
    table = band_table(fit, panel.responses, WIDE, posterior=posterior)
    for name in ("nominal", "target", "response", "variance"):
        assert table[name].sum() == pytest.approx(1, abs=1e-6), name
    assert table["n_items"].sum() == 200
    top = table[(table["low"] >= 1) & table["high"].notna()]
    assert top["nominal"].sum() > 0.6
    assert top["response"].sum() < top["nominal"].sum()  # too hard for most models: heard less
    information = information_table(fit, WIDE)
    low, high = information.iloc[[15, 45]]["information"]
    assert low < high
    single = fit.information(np.array([0.3]))[0]
    by_hand = fit.slope**2 * (p := fit.probabilities(np.array([0.3]))[0]) * (1 - p)
    np.testing.assert_allclose(single, by_hand)
    assert (information["effective_items"] <= 200 + 1e-6).all()
    gain = detectable_gain(fit, np.array([0.0]))[0]
    score = fit.probabilities(np.array([0.0, gain])).mean(axis=1)
    p = fit.probabilities(np.array([0.0]))[0]
    assert score[1] - score[0] >= 1.645 * np.sqrt(2 * (p * (1 - p)).sum()) / 200 - 1e-3


# gaps ------------------------------------------------------------------------------------------


def test_raw_gap_holds_the_ends():
    assert raw_gap(np.array([-2.5, -2, -1.5]), WIDE) == (-1.5, 3)
    assert raw_gap(np.array([9.0]), WIDE) == (-3, 3)


def test_soft_gap_ignores_a_stray_item():
    places = np.concatenate([np.linspace(-3, 0, 100), [1.0], np.linspace(2, 3, 33)])
    raw = raw_gap(places, WIDE)
    (low, high), *_ = soft_gaps(places, WIDE)
    assert raw[1] - raw[0] == pytest.approx(1)
    assert low < 0.05
    assert high > 1.95
    full = soft_gaps(np.linspace(-3, 3, 400), WIDE)
    assert not full or full[0][1] - full[0][0] < 0.06


def holed(rng, n_items, low=0.0, high=1.6):
    values = rng.uniform(-3, 3 - (high - low), n_items)
    return np.where(values > low, values + (high - low), values)


def gaps_of(panel, target, **options):
    fit = fit_difficulty(panel.responses)
    posterior = difficulty_posterior(fit, panel.responses, n_draws=60)
    return fit, posterior, find_gaps(fit, target, posterior=posterior, **options)


def test_a_hole_is_found_and_none_is_invented():
    called, false, few = 0, 0, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        panel = simulate_panel(100, 250, difficulty=holed(rng, 250), random_state=seed)
        for gap in gaps_of(panel, WIDE, n_chance=40)[2]:
            called += gap.kind == "soft" and gap.verdict == "gap" and gap.low < 0.8 < gap.high
        even = simulate_panel(100, 250, difficulty=rng.uniform(-3, 3, 250), random_state=seed)
        inner = uniform_target(-2, 2)  # at the ends the pool itself is thin
        false += any(gap.verdict == "gap" for gap in gaps_of(even, inner, n_chance=60)[2])
        # a pool of mean 0 and spread 1: the truth is even on the scale of the fit, too
        pool = np.linspace(-1.53, 1.53, 8)
        even = rng.uniform(-3, 3, 250)
        panel = simulate_panel(8, 250, difficulty=even, ability=pool, random_state=seed)
        found = gaps_of(panel, inner, n_chance=60)[2]
        few += any(gap.verdict == "gap" for gap in found)
        assert any("not resolvable with 8 models" in gap.sentence for gap in found)
    assert called >= 3
    assert false == 0
    assert few == 0


def test_a_gap_says_what_it_takes():
    rng = np.random.default_rng(0)
    panel = simulate_panel(100, 250, difficulty=holed(rng, 250), random_state=0)
    fit, posterior, gaps = gaps_of(panel, WIDE, n_chance=60)
    gap = next(g for g in gaps if g.verdict == "gap")
    new = np.linspace(gap.low, gap.high, gap.n_to_match + 2)[1:-1]
    held = np.concatenate([posterior.mean, new])
    share = ((held > gap.low) & (held < gap.high)).mean()
    assert share == pytest.approx(gap.target_share, abs=0.01)
    assert 0 < gap.n_to_close <= gap.n_to_match
    assert all(gap.low < place < gap.high for place in gap.new_difficulties)
    assert gap.slope_width == pytest.approx(np.median(fit.slope) * gap.width)


def test_gaps_within_subjects():
    rng = np.random.default_rng(2)
    difficulty = np.concatenate([rng.uniform(-3, 3, 150), rng.uniform(-3, -1, 150)])
    subjects = ["wide"] * 150 + ["easy"] * 150
    panel = simulate_panel(80, 300, difficulty=difficulty, subjects=subjects, random_state=2)
    labels = panel.responses.grouping("subject")
    found = gaps_of(panel, WIDE, subjects=labels, n_chance=60)[2]
    verdicts = {gap.subject: gap.verdict for gap in found if gap.subject}
    assert verdicts["easy"] == "gap"
    assert verdicts.get("wide") != "gap"


# checks ----------------------------------------------------------------------------------------


def test_checks_are_quiet_where_the_model_holds():
    panel = simulate_panel(40, 100, random_state=3)
    checks = check_fit(fit_difficulty(panel.responses), panel.responses, n_simulations=10)
    assert checks.one_dimensional
    assert checks.items["flagged"].mean() < 0.05
    assert checks.n_dependent <= 3


def test_checks_see_a_second_dimension_and_a_copied_item():
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 60))
    panels = [
        simulate_panel(60, 60, ability=t, random_state=s) for s, t in enumerate((first, second))
    ]
    values = np.hstack([panel.responses.values for panel in panels])
    found = responses_from_matrix(values)
    assert not check_fit(fit_difficulty(found), found, n_simulations=10).one_dimensional
    values = panels[0].responses.values
    middle = int(np.abs(values.mean(axis=0) - 0.5).argmin())
    twins = responses_from_matrix(np.hstack([values, values[:, [middle]]]))
    checks = check_fit(fit_difficulty(twins), twins, n_simulations=10)
    pair = set(checks.dependent_pairs.iloc[0][["first", "second"]])
    assert pair == {f"item-{middle + 1}", "item-61"}


def test_differential_items_and_subjects():
    panel = simulate_panel(60, 100, random_state=5)
    values = panel.responses.values.copy()
    group = np.array(["a"] * 30 + ["b"] * 30)
    values[:30, 7] = 1
    values[30:, 7] = 0
    found = responses_from_matrix(values, families=list(group))
    table = differential_items(fit_difficulty(found), found)
    assert table.iloc[0]["item"] == "item-8"
    assert table["flagged"].sum() <= 6
    subjects = ["x"] * 50 + ["y"] * 50
    values[3, :50] = 1
    found = responses_from_matrix(values, subjects=subjects)
    table = differential_subjects(fit_difficulty(found), found)
    first = table.iloc[:2]
    assert set(first["model"]) == {"model-4"}
    assert first.set_index("subject").loc["x", "difference"] > 0
    with pytest.raises(InputError, match="family"):
        differential_items(fit_difficulty(found), found)


def test_held_out_cells_are_predicted_better_than_by_the_items_mean():
    panel = simulate_panel(30, 150, random_state=6)
    found = held_out_prediction(panel.responses, n_folds=4)
    assert found["auc"] > found["trivial_auc"] + 0.02
    assert found["brier_gain"] > 0
    assert found["interval"][0] > 0
    assert found["n_cells"] == 30 * 150


# subsets ---------------------------------------------------------------------------------------


def test_a_chosen_subset_beats_a_random_one():
    panel = simulate_panel(30, 300, random_state=8, subjects=["u", "v", "w"] * 100)
    labels = panel.responses.grouping("subject")
    table = compare_subsets(panel.responses, [30], labels=labels, n_random=5, n_folds=3)
    error = table.set_index("method")["error"]
    assert error["information"] < error["random, mean"]
    assert (table["low"] <= table["error"]).all()
    assert (table["error"] <= table["high"]).all()
    row = table.set_index("method").loc["information"]
    assert row["gain_low"] > 0
    with pytest.raises(InputError, match="too few"):
        compare_subsets(panel.responses.select(models=range(4)), [10])


def test_a_subset_of_all_items_is_the_full_score():
    panel = simulate_panel(12, 60, random_state=9)
    fit = fit_difficulty(panel.responses)
    chosen = choose_by_information(fit, 60)
    assert chosen.tolist() == list(range(60))
    estimate = estimate_score(fit, panel.responses.values, chosen)
    np.testing.assert_allclose(estimate, panel.responses.accuracy)
    labels = np.array(["a"] * 40 + ["b"] * 20)
    part = choose_by_information(fit, 9, labels=labels)
    assert (labels[part] == "a").sum() == 6
    with pytest.raises(InputError, match="from 1 to 60"):
        choose_by_information(fit, 61)


# whole audit -----------------------------------------------------------------------------------


def test_the_audit_is_plain_and_repeatable(tmp_path):
    panel = simulate_panel(14, 80, random_state=1, subjects=["p", "q"] * 40)
    first = audit_difficulty(panel.responses, n_draws=20, n_simulations=2)
    second = audit_difficulty(panel.responses, n_draws=20, n_simulations=2)
    assert first.to_dict() == second.to_dict()
    found = first.save(tmp_path)
    assert json.loads((tmp_path / "difficulty.json").read_text())["mismatch"] == found["mismatch"]
    names = [entry["target"] for entry in [found["mismatch"], *found["mismatch"]["other_targets"]]]
    assert names == ["pool", "uniform"]
    assert pool_target(first.fit).low == pytest.approx(first.fit.ability.min())
    items, slopes = pd.read_csv(tmp_path / "items.csv"), first.posterior.slopes
    np.testing.assert_allclose(items["discrimination"], slopes.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(items["discrimination_se"], slopes.std(axis=0), rtol=1e-8)
    listed = {row["item"] for row in found["suspected_keys"]}
    assert set(items.loc[items["p_negative"] > 0.5, "item"]) == listed
