"""Filling gaps: gates by hand, linking and the loop against simulations with known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from harmony_utils.difficulty import Gap, fit_difficulty, responses_from_matrix, uniform_target
from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.filling import (
    AskingPanel,
    Budget,
    DuplicateGate,
    GeneratorError,
    Measured,
    OptionsOnly,
    OptionSurgery,
    Reader,
    RecordedPanel,
    SimulatedPanel,
    TextSpace,
    Thresholds,
    accuracy_of_aim,
    band_probability,
    check_format,
    check_key,
    check_measured,
    conclusions,
    fill_gaps,
    fit_predictor,
    gap_closed,
    gate_table,
    item_features,
    joined_responses,
    link,
    make_candidate,
    measure,
    outcome_table,
    score_table,
)
from harmony_utils.filling.experiments import simulate_filling
from harmony_utils.filling.loop import _cut
from harmony_utils.filling.surgery import MAX_OPTIONS, plain
from harmony_utils.items import Benchmark, Item, item_keys
from harmony_utils.predictions import Predictions
from harmony_utils.runs import recorded_folder
from harmony_utils.sources import load_benchmark

SOURCE = Item("q1", "Which gas do plants take in?", ("carbon dioxide", "oxygen", "helium"), 0)
SMALL = Budget(proposals=24, measured=8, rounds=2, max_measured=20, patience=1)


@pytest.fixture(scope="module")
def texts() -> TextSpace:
    return TextSpace("hashed")


@pytest.fixture(scope="module")
def quiz() -> Benchmark:
    return load_benchmark("redundantqa").sample(120)


@pytest.fixture(scope="module")
def trial(quiz, texts):
    budget = Budget(proposals=30, measured=15, rounds=3, max_measured=90)
    return simulate_filling(quiz, texts, n_models=60, budget=budget)


def candidate(question=SOURCE.question, options=("carbon dioxide", "argon"), gold=0, **more):
    band = more.pop("band", (0.0, 1.0))
    return make_candidate(
        SOURCE, question=question, options=options, gold=gold, operations=("hand",), band=band,
        generator="hand", **more,
    )  # fmt: skip


# ---- gates


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (candidate(), ""),
        (candidate(options=("carbon dioxide",)), "1 options"),
        (candidate(options=("carbon dioxide", " Carbon  dioxide.")), "two options read the same"),
        (candidate(options=("carbon dioxide", " ")), "an option has 1 characters"),
        (candidate(question=" "), "the question has"),
        (candidate(question="x" * 2001), "the question has 2001"),
        (candidate(gold=2), "lies outside"),
        (candidate(options=tuple("abcdefg")), "7 options"),
        (candidate(problem="the reply is no JSON object"), "no JSON"),
    ],
)
def test_the_format_gate_names_what_is_wrong(made, reason):
    found = check_format(made)
    assert reason in found
    assert bool(found) == bool(reason)


def test_the_key_gate_wants_the_key_of_the_source():
    assert check_key(candidate()) == ""
    assert "not 'carbon dioxide'" in check_key(candidate(gold=1))
    assert check_key(candidate(options=("a; b", "c; d"), derived_gold="a; b")) == ""
    assert "may be right too" in check_key(candidate(options=("carbon dioxide", "dioxide carbon")))


def test_duplicates_are_found_among_originals_and_candidates():
    other = Item("q2", "What colour is the sky at noon?", ("blue", "green"), 0)
    gate = DuplicateGate([SOURCE, other])
    assert "repeats its source" in gate.check(candidate(options=tuple(reversed(SOURCE.options))))
    copy = candidate(question=other.question, options=other.options, derived_gold="blue")
    assert "near duplicate of q2" in gate.check(copy)
    first = candidate(options=("carbon dioxide", "oxygen"))
    assert gate.check(first) == ""
    gate.keep(first)
    again = candidate(options=("oxygen", "carbon dioxide"), gold=1)
    assert f"near duplicate of candidate {first.id}" in gate.check(again)


def test_the_options_only_gate_learns_that_the_longest_is_right(texts):
    rng = np.random.default_rng(0)
    items = []
    for number in range(40):
        gold = int(rng.integers(3))
        options = [f"word {number + j}" for j in range(3)]
        options[gold] += " with a long and careful qualification"
        items.append(Item(f"q{number}", "?", tuple(options), gold))
    gate = OptionsOnly(items, texts)
    assert gate.belief(items[0].options).sum() == pytest.approx(1)
    given_away = candidate(options=("a long and careful qualification of it", "word", "term"))
    fair = candidate(options=("word", "term", "name"))
    assert "answerable from the options alone" in gate.check(given_away)
    assert gate.check(fair) == ""


def test_the_probability_of_a_band_by_hand():
    assert band_probability(0.0, 1.0, -1.96, 1.96) == pytest.approx(0.95, abs=1e-3)
    assert band_probability(0.0, 1.0, 0.0, 99.0) == pytest.approx(0.5)
    assert band_probability(5.0, 1e-12, 0.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("difficulty", "error", "slope", "reason"),
    [
        (0.5, 0.2, 1.0, ""),
        (-1.0, 0.2, 1.0, "too easy"),
        (2.0, 0.2, 1.0, "too hard"),
        (0.5, 0.9, 1.0, "more models are needed"),
        (0.5, 0.2, -0.5, "second right answer"),
    ],
)
def test_answers_decide(difficulty, error, slope, reason):
    found = Measured(difficulty, error, slope, band_probability(difficulty, error, 0, 1), 9)
    text = check_measured(found, candidate())
    assert reason in text
    assert bool(text) == bool(reason)


# ---- linking


def simulated(rng, n_models, n_items, *, shift=0.0):
    slope, difficulty = np.exp(rng.normal(0.1, 0.3, n_items)), rng.normal(shift, 1.2, n_items)
    ability = rng.normal(size=n_models)
    return ability, slope, difficulty


def answers(rng, ability, slope, difficulty):
    right = expit(slope * (ability[:, None] - difficulty))
    return (rng.random(right.shape) < right).astype(float)


def test_linking_recovers_known_difficulties_and_covers_them():
    """New items are harder than all old ones on average: the scale may not follow them."""
    inside, off, errors = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        ability, slope, old = simulated(rng, 60, 120)
        new_slope, new = np.exp(rng.normal(0.1, 0.3, 40)), rng.uniform(0.5, 2.0, 40)
        originals = responses_from_matrix(answers(rng, ability, slope, old))
        fit = fit_difficulty(originals)
        names = [f"new-{j}" for j in range(40)]
        linked = link(fit, originals, answers(rng, ability, new_slope, new), names)
        assert linked.anchored.sum() == 120
        np.testing.assert_array_equal(linked.slope[:120], fit.slope)
        # truth on the fit's scale: abilities have mean 0 and standard deviation 1 there
        truth = (new - ability.mean()) / ability.std()
        found, error = linked.difficulty[120:], linked.difficulty_se[120:]
        inside += (np.abs(found - truth) <= 1.96 * error).tolist()
        off += (found - truth).tolist()
        errors += error.tolist()
    assert 0.92 <= np.mean(inside) <= 0.98
    assert abs(np.mean(off)) < 0.1
    assert np.sqrt(np.mean(np.square(off))) < 1.5 * np.mean(errors)


def test_measuring_skips_what_nobody_answered():
    rng = np.random.default_rng(0)
    ability, slope, old = simulated(rng, 30, 40)
    originals = responses_from_matrix(answers(rng, ability, slope, old))
    fit = fit_difficulty(originals)
    given = answers(rng, ability, np.ones(2), np.zeros(2))
    given[:, 1] = np.nan
    one, other = measure(fit, originals, given, [candidate(), candidate(question="Another?")])
    assert np.isfinite(one.difficulty)
    assert one.n_answers == 30
    assert np.isnan(other.difficulty)
    assert other.p_in_band == 0
    with pytest.raises(InputError, match="rows must be the models"):
        joined_responses(originals, given[:5], ["a", "b"])
    with pytest.raises(InputError, match="nobody answered b"):
        joined_responses(originals, given, ["a", "b"])


# ---- generator and predictor


def test_surgery_keeps_the_key_and_derives_it(quiz, texts):
    surgery = OptionSurgery(quiz, texts)
    rng = np.random.default_rng(0)
    for item in quiz.items[:20]:
        for made in surgery.propose(item, (0.0, 1.0), rng, 4):
            assert check_format(made) == ""
            assert check_key(made) == ""
            if made.operations[0].startswith("compose"):
                halves = made.options[made.gold].split("; ")
                assert plain(halves[0]) == plain(item.options[item.gold])
                assert len(made.options) == 4
            else:
                assert plain(made.options[made.gold]) == plain(item.options[item.gold])
            assert len(made.options) <= MAX_OPTIONS


def test_near_options_are_nearer_than_far_ones(quiz, texts):
    near = OptionSurgery(quiz, texts, difficulties=dict.fromkeys([i.id for i in quiz.items], -2))
    far = OptionSurgery(quiz, texts, difficulties=dict.fromkeys([i.id for i in quiz.items], 2))
    means = []
    for surgery in (near, far):
        rng, values = np.random.default_rng(0), []
        for item in quiz.items[:30]:
            for made in surgery.propose(item, (-0.5, 0.5), rng, 3):
                if not made.operations[0].startswith(("compose", "drop")):
                    new = [t for t in made.options if t not in item.options]
                    gold = item.options[item.gold]
                    values += texts.cosine([gold], new)[0].tolist() if new else []
        means.append(np.mean(values))
    assert means[0] > means[1] + 0.1


def scores_of(likely, calls=None):
    """Return what a reader asks: log-likelihoods that follow from the option's text alone."""

    def score(benchmark):
        if calls is not None:
            calls.extend(item.id for item in benchmark.items)
        n = len(benchmark)
        options = [list(item.options) for item in benchmark.items]
        table = pd.DataFrame(
            {
                "key": benchmark.keys(),
                "native_id": [item.id for item in benchmark.items],
                "subject": None,
                "n_options": [len(o) for o in options],
                "gold": [[item.gold] for item in benchmark.items],
                "loglik": [[likely(text) * len(text) for text in o] for o in options],
                "characters": [[len(text) for text in o] for o in options],
                "bytes": [[len(text) for text in o] for o in options],
                "tokens": [[1] * len(o) for o in options],
                "prediction": 0,
                "prediction_source": "argmax",
                "correct": 0.0,
                "flags": [[] for _ in range(n)],
            }
        )
        meta = {"model": {"name": "m"}, "benchmark": "b", "normalisation": "sum"}
        return Predictions(table, meta)

    return score


def test_the_reader_scores_each_question_once_and_gives_margins_by_hand():
    calls = []
    reader = Reader(scores_of(lambda text: -1.0 if text == "oxygen" else -3.0, calls))
    assert reader.margins([SOURCE]) == {"q1": pytest.approx(-2.0)}
    assert reader.margins([replace(SOURCE, id="again")]) == {"again": pytest.approx(-2.0)}
    assert calls == ["q1"]


def test_the_reader_moves_likely_options_to_the_front_of_near_and_the_end_of_far_ones(texts):
    items = [Item(f"q{j}", f"Question {j}?", (f"gold {j}", f"aaa{j:02d}"), 0) for j in range(30)]
    reader = Reader(scores_of(lambda text: -1.0 if text == "aaa10" else -9.0))
    surgery = OptionSurgery(Benchmark("quiz", tuple(items)), texts, reader=reader)
    allowed, _ = surgery._allowed(items[0])
    order = np.array([i for i, text in enumerate(allowed) if text.startswith("aaa")])
    place = [allowed[i] for i in order].index("aaa10")
    for side, moved in (("near", -1), ("far", 1)):
        read = [allowed[i] for i in surgery._read(items[0], allowed, order, side)]
        assert np.sign(read.index("aaa10") - place) == moved
        assert set(read) <= {allowed[i] for i in order}


def test_a_reader_that_knows_what_is_hard_predicts_better(quiz, texts):
    panel = SimulatedPanel(texts, n_models=60)
    fit = fit_difficulty(panel.responses(quiz))
    truth = dict(zip((x.id for x in quiz.items), panel.difficulty(quiz.items), strict=True))
    gold = {x.options[x.gold]: -truth[x.id] for x in quiz.items}
    reader = Reader(scores_of(lambda text: gold.get(text, 0.0) - 9.0))
    errors = []
    for known in (None, reader.margins(quiz.items)):
        features = item_features(quiz.items, texts, margins=known)
        errors.append(fit_predictor(features, fit.difficulty).error)
    assert errors[1] < 0.8 * errors[0]


def test_a_panel_asks_once_and_goes_on_after_a_kill(tmp_path):
    asked = []

    def right(items):
        asked.extend(item.id for item in items)
        return np.ones(len(items))

    path = tmp_path / "answers.json"
    other = Item("q2", "2 + 2 =", ("4", "5"), 0)
    panel = AskingPanel({"a": right, "b": lambda items: np.zeros(len(items))}, path=path)
    assert panel([SOURCE]).tolist() == [[1.0], [0.0]]
    again = AskingPanel({"a": right, "b": right}, path=path)
    assert again([SOURCE, other]).tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert asked == ["q1", "q2", "q2"]
    with pytest.raises(InputError, match="holds answers of a, b"):
        AskingPanel({"c": right}, path=path)


def test_the_predictor_reports_its_error_against_the_mean():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3))
    good = fit_predictor(x, 2 * x[:, 0] + rng.normal(scale=0.3, size=100))
    assert good.error < 0.4 * good.trivial_error
    assert good.r_squared > 0.8
    none = fit_predictor(x, rng.normal(size=100))
    assert none.r_squared < 0.1
    with pytest.raises(InputError, match="at least 20"):
        fit_predictor(x[:5], x[:5, 0])


# ---- the loop


def test_filling_a_hole_of_known_place(trial):
    """The gap found is the hole; accepted questions truly lie in it more often than measured."""
    gap = trial.gaps[0]
    assert gap.verdict == "gap"
    assert gap.high == pytest.approx(2.5)
    assert 0.0 < gap.low < 1.3
    aim = accuracy_of_aim(trial.filling, trial.truth)
    assert aim["accepted_n"] >= 5
    assert aim["accepted_hits"] > aim["measured_hits"]
    assert aim["accepted_error"] < aim["measured_error"]
    before, after, alone = (trial.conclusions.iloc[k] for k in range(3))
    assert after["distance"] < before["distance"]
    assert alone["n_items"] == aim["accepted_n"] == after["n_items"] - before["n_items"]
    assert 0.85 <= trial.summary()["covered"]["measured"] <= 1


def test_nothing_is_lost_and_every_rejection_has_its_reason(trial):
    table = outcome_table(trial.filling)
    assert len(table) == gate_table(trial.filling)["n"].sum()
    assert table["id"].is_unique
    rejected = table[table["status"] == "rejected"]
    assert len(rejected)
    assert rejected["reason"].str.len().min() > 5
    assert (rejected["gate"] != "").all()
    assert (table.loc[table["status"] == "accepted", "reason"] == "").all()
    sources = table.loc[table["status"] == "accepted", "source"]
    assert sources.is_unique, "at most one rewriting of a source"
    assert (table.loc[table["status"] == "accepted", "p_in_band"] >= 0.5).all()


def test_an_operation_is_one_whatever_the_name_of_an_item():
    options = [(f"it is {i + 1}", "no", "yes") for i in range(9)]
    items = [Item(f"q+{i}", f"What is {i} and 1?", texts, 0) for i, texts in enumerate(options)]
    surgery = OptionSurgery(Benchmark("sums", tuple(items)), TextSpace("hashed"))
    rng = np.random.default_rng(0)
    made = [surgery.propose(item, (0, 1), rng, 6) for item in items]
    composed = [c.operations for some in made for c in some if "compose" in c.operations[0]]
    assert composed
    assert {len(operations) for operations in composed} == {1}


def test_scores_keep_originals_and_additions_apart(trial):
    table = score_table(trial.responses, trial.filling)
    n, m = len(trial.benchmark), len(trial.filling.accepted)
    np.testing.assert_allclose(table["originals"], trial.responses.values.mean(axis=1))
    together = (table["originals"] * n + table["additions"] * m) / (n + m)
    np.testing.assert_allclose(table["together"], together)
    assert (table["additions_low"] <= table["additions"]).all()
    empty = score_table(trial.responses, replace(trial.filling, outcomes=()))
    assert empty["additions"].isna().all()
    assert empty["additions_rank"].isna().all(), "no answers, no rank"
    np.testing.assert_allclose(empty["together"], empty["originals"])


def small_fill(quiz, texts, *, generator=None, panel=None, seed=0, gaps=((0.8, 1.6, 4),), **more):
    world = SimulatedPanel(texts, n_models=30, random_state=3)
    responses = world.responses(quiz)
    fit = fit_difficulty(responses)
    known = dict(zip(fit.items, fit.difficulty.tolist(), strict=True))
    generator = generator or OptionSurgery(quiz, texts, difficulties=known)
    return fill_gaps(
        quiz, responses, fit, gaps, panel or world, generator=generator, texts=texts,
        random_state=seed, **{"budget": SMALL, **more},
    )  # fmt: skip


def test_the_same_seed_gives_the_same_questions(quiz, texts):
    one, again, other = (small_fill(quiz, texts, seed=seed) for seed in (1, 1, 2))
    ids = [[o.candidate.id for o in filling.outcomes] for filling in (one, again, other)]
    assert ids[0] == ids[1] != ids[2]
    assert [o.status for o in one.outcomes] == [o.status for o in again.outcomes]


def test_the_budget_is_kept_and_the_reason_given(quiz, texts):
    filling = small_fill(quiz, texts, gaps=((0.8, 1.8, 99), (2.5, 3.5, 99)))
    assert sum(o.measured is not None for o in filling.outcomes) <= SMALL.max_measured
    assert len(filling.stopped) == 2
    assert all(
        text.split(":")[0] in ("budget", "no progress", "rounds") for text in filling.stopped
    )
    none = small_fill(quiz, texts, gaps=((0.8, 1.8, 0),))
    assert none.stopped == ("filled: 0 of 0 items accepted",)
    assert none.outcomes == ()


def test_no_progress_ends_a_gap_out_of_reach(quiz, texts):
    filling = small_fill(quiz, texts, gaps=((5.0, 5.8, 5),))
    assert filling.stopped[0].startswith("no progress: 1 rounds")
    assert not filling.accepted
    assert filling.rejected


def test_a_generator_that_breaks_off_keeps_what_was_found(quiz, texts):
    class Breaking(OptionSurgery):
        calls = 0

        def propose(self, *arguments):
            self.calls += 1
            if self.calls > 12:
                raise GeneratorError("endpoint http://localhost:1: cannot be reached")
            return super().propose(*arguments)

    filling = small_fill(
        quiz, texts, generator=Breaking(quiz, texts), gaps=((0.0, 0.8, 50),),
        budget=replace(SMALL, patience=5, rounds=5, max_measured=100),
    )  # fmt: skip
    assert filling.stopped[0].startswith("generator: endpoint")
    assert filling.outcomes
    in_round = [o.round for o in filling.outcomes].count(1)
    assert in_round, "what the last round had proposed before is kept"


def test_one_source_may_give_as_many_as_allowed(quiz, texts):
    limit = Thresholds(max_per_source=2, in_band=0.3)
    filling = small_fill(quiz, texts, gaps=((-1.0, 0.5, 30),), thresholds=limit)
    sources = [o.candidate.source for o in filling.accepted]
    assert max(sources.count(s) for s in sources) <= 2


def test_bad_input_is_refused(quiz, texts):
    world = SimulatedPanel(texts, n_models=10)
    responses = world.responses(quiz)
    fit = fit_difficulty(responses)
    surgery = OptionSurgery(quiz, texts)
    options = {"generator": surgery, "texts": texts}
    with pytest.raises(InputError, match="the first must be smaller"):
        fill_gaps(quiz, responses, fit, [(1.0, 1.0, 3)], world, **options)
    strange = replace(quiz, items=(*quiz.items, SOURCE))
    with pytest.raises(InputError, match="'q1' has no fitted difficulty"):
        fill_gaps(strange, responses, fit, [(0.0, 1.0, 3)], world, **options)
    with pytest.raises(InputError, match="the first must be smaller"):
        surgery.propose(quiz.items[0], (1.0, 0.0), np.random.default_rng(0), 1)
    with pytest.raises(InputError, match="embedding 'x'"):
        TextSpace("x")


def test_gaps_are_cut_into_bands_that_lack_what_is_wanted():
    assert _cut((0.0, 2.0, 5), 1.0, np.empty(0)) == [(0.0, 1.0, 3), (1.0, 2.0, 2)]
    numbers = {name: 0.0 for name in (
        "width", "item_share", "p_value", "chance_width", "standard_error", "information_share",
        "slope_width")}  # fmt: skip
    gap = Gap(
        kind="soft", low=0.0, high=2.0, target_share=0.4, n_items=0, resolvable=True,
        detectable_gain=None, n_to_close=10, n_to_match=60, new_difficulties=(), **numbers,
    )  # fmt: skip
    difficulties = np.array([0.1, 0.2, 0.3] + [-1.0] * 87)
    # each band is wanted at .2, a quarter of it is .05 of 100 items: 5, of which 3 are there
    assert _cut(gap, 1.0, difficulties) == [(0.0, 1.0, 2), (1.0, 2.0, 5)]
    assert [n for *_, n in _cut(gap, 1.0, difficulties, 1.4)] == [4, 7]
    assert gap_closed(90, 3, 7, 0.4)


def test_recorded_panels_come_back(tmp_path):
    keys = item_keys([SOURCE, candidate().item()])
    panel = RecordedPanel(["a", "b"], {keys[0]: [1, 0], keys[1]: [None, 1]})
    again = RecordedPanel.load(panel.save(tmp_path / "answers.json"))
    found = again([SOURCE, candidate().item(), replace(SOURCE, question="New?")])
    np.testing.assert_array_equal(found, [[1, np.nan, np.nan], [0, 1, np.nan]])
    with pytest.raises(InputError, match="no such file"):
        RecordedPanel.load(tmp_path / "other.json")
    (tmp_path / "broken.json").write_text("[]")
    with pytest.raises(InputError, match="no recorded answers"):
        RecordedPanel.load(tmp_path / "broken.json")
    with pytest.raises(InputError, match="1 for 2 models"):
        RecordedPanel(["a", "b"], {"k": [1]})


def test_conclusions_without_additions_say_so(trial):
    table = conclusions(
        trial.fit, trial.responses, replace(trial.filling, outcomes=()), uniform_target(-2.5, 2.5)
    )
    assert table["n_items"].tolist()[2] == 0
    assert table["distance"][0] == table["distance"][1]


def test_a_gap_is_open_however_many_wider_ones_there_are(trial):
    holes = [(-2.4, -1.6), (-1.2, -0.5), (-0.1, 0.55), (1.3, 1.9)]
    even = np.linspace(-2.5, 2.5, 20_000)
    outside = [not any(low < value < high for low, high in holes) for value in even]
    values = np.quantile(even[outside], np.linspace(0, 1, len(trial.fit.items)))
    for low, high in holes:
        values = values[(values <= low) | (values >= high)]
    values = np.append(values, np.full(len(trial.fit.items) - len(values), 9.0))
    fit = replace(trial.fit, intercept=-values, slope=np.ones(len(values)))
    filling = replace(trial.filling, outcomes=(), gaps=(holes[-1],))
    table = conclusions(fit, trial.responses, filling, uniform_target(-2.5, 2.5))
    assert table["open_0"][0] == pytest.approx(0.6, abs=0.05)


def test_recorded_trials_come_out_again(texts):
    """What the chapter shows is what the code gives."""
    recorded = read_json(recorded_folder() / "filling" / "simulated.json")
    row = next(r for r in recorded["trials"] if r["n_models"] == 12 and not r["aimed"])
    again = simulate_filling(
        load_benchmark("redundantqa").sample(recorded["n_items"]),
        texts,
        n_models=12,
        aimed=False,
        budget=Budget(**recorded["budget"]),
        random_state=row["seed"],
    ).summary()
    assert again["stopped"] == row["stopped"]
    for name, value in row["aim_true"].items():
        assert again["aim_true"][name] == pytest.approx(value, abs=1e-6), name
