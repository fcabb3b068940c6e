"""Other ways of asking and of counting: prompts, comparison, metrics, positions, the command."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import build_model

from harmony_utils.cli import main
from harmony_utils.errors import InputError
from harmony_utils.files import read_json
from harmony_utils.framing import (
    BASELINE,
    FRAMINGS,
    choices_by_position,
    compare_conditions,
    framing_settings,
    largest_step,
    metric_values,
)
from harmony_utils.framing.metrics import METRICS, SMALLEST
from harmony_utils.items import Benchmark, Item
from harmony_utils.predictions import Predictions
from harmony_utils.reading import framing_reading, metric_reading
from harmony_utils.runs import recorded_folder
from harmony_utils.scoring import load_model, score
from harmony_utils.scoring.prompts import INSTRUCTIONS, build_prompt, list_order
from harmony_utils.settings import PredictionsSettings, parse_assignments
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import (
    ask_framings,
    framing_study,
    read_framings,
    recorded_framing_models,
)

ITEM = Item("a", "What rusts?", ("iron", "gold", "glass"), 0)


@pytest.fixture(scope="module")
def quiz_of_three() -> Benchmark:
    items = [
        ITEM,
        Item("b", "What shines?", ("mud", "the sun", "coal"), 1),
        Item("c", "What is wet?", ("sand", "dust", "rain"), 2),
    ]
    return Benchmark("three", tuple(items), split="all", source="here")


def written(framing: str, item: Item = ITEM, **more) -> tuple[str, tuple[str, ...]]:
    benchmark = Benchmark("one", (item, Item("z", "Why?", ("so", "no"), 0)), split="", source="")
    settings = PredictionsSettings(**framing_settings(framing), **more)
    prompt = build_prompt(benchmark, item, settings)
    return prompt.prefix, prompt.continuations


# prompts -----------------------------------------------------------------------------------------


def test_every_framing_is_written_as_it_says():
    assert written("cloze")[0] == "Question: What rusts?\nAnswer:"
    assert written("cloze-short")[0] == "Q: What rusts?\nA:"
    assert written("cloze-instruction")[0].startswith(f"{INSTRUCTIONS['cloze']}\n\nQuestion:")
    listed = "A. iron\nB. gold\nC. glass\n"
    assert written("letter") == (f"Question: What rusts?\n{listed}Answer:", (" A", " B", " C"))
    assert written("letter-short")[0] == f"Q: What rusts?\n{listed}A:"
    assert written("letter-instruction")[0].startswith(INSTRUCTIONS["letter"])
    prefix, continuations = written("letter-reversed")
    assert "A. glass\nB. gold\nC. iron\n" in prefix
    assert continuations == (" C", " B", " A")
    prefix, continuations = written("letter-numbers")
    assert "1. iron\n2. gold\n3. glass\n" in prefix
    assert continuations == (" 1", " 2", " 3")


@pytest.mark.parametrize("framing", [name for name in FRAMINGS if name.startswith("letter")])
def test_a_continuation_always_stands_for_its_own_option(framing):
    prefix, continuations = written(framing)
    for option, symbol in zip(ITEM.options, continuations, strict=True):
        assert f"\n{symbol.strip()}. {option}\n" in prefix


def test_an_instruction_stands_once_before_all_examples():
    prefix, _ = written("letter-instruction", few_shot=1)
    assert prefix.count(INSTRUCTIONS["letter"]) == 1
    assert prefix.index(INSTRUCTIONS["letter"]) == 0 < prefix.index("Why?")


def test_a_shuffled_order_is_the_questions_own():
    options = tuple("abcdefgh")
    orders = [list_order(Item(str(i), f"q{i}", options, 0), "shuffled") for i in range(50)]
    assert all(sorted(order) == list(range(8)) for order in orders)
    assert len({tuple(order) for order in orders}) > 45
    assert list_order(Item("other id", "q3", options, 5), "shuffled") == orders[3]


def test_continuations_of_a_text_have_no_wording(quiz_of_three):
    story = Benchmark("s", (ITEM,), split="", source="", prompt_style="continuation")
    for wording in ("short", "instruction"):
        prompt = build_prompt(story, ITEM, PredictionsSettings(wording=wording))
        assert prompt.prefix == "What rusts?"


@pytest.mark.parametrize("setting", ["option_order=reversed", "option_symbols=numbers"])
def test_the_order_of_a_list_that_is_not_shown_is_refused(setting):
    with pytest.raises(InputError, match="needs format=letter"):
        parse_assignments([f"predictions.{setting}"])


def test_new_settings_at_their_defaults_leave_finished_runs_valid():
    identity = PredictionsSettings().identity()
    assert not {"wording", "option_order", "option_symbols"} & set(identity)
    assert PredictionsSettings(wording="short").identity()["wording"] == "short"


def test_a_model_is_asked_what_the_framing_says(tiny_model, quiz_of_three):
    """Reversing the list of an item that was written in reverse gives the same numbers."""
    model = load_model(str(tiny_model), device="cpu")
    turned = Benchmark(
        "turned",
        tuple(Item(i.id, i.question, i.options[::-1], 2 - i.gold) for i in quiz_of_three.items),
        split="all",
        source="here",
    )
    settings = PredictionsSettings(**framing_settings("letter-reversed"))
    reversed_list = score(model, quiz_of_three, settings).predictions
    plain = score(model, turned, PredictionsSettings(format="letter")).predictions
    for mine, theirs in zip(reversed_list.table["loglik"], plain.table["loglik"], strict=True):
        np.testing.assert_allclose(mine, theirs[::-1], atol=1e-5)
    np.testing.assert_array_equal(reversed_list.correct, plain.correct)


# comparison --------------------------------------------------------------------------------------


def rows(cube: np.ndarray, groups=None) -> pd.DataFrame:
    """Arrange (conditions, models, items) as a table."""
    places = product(*map(range, cube.shape))
    found = pd.DataFrame(
        [(f"c{c}", f"m{m}", f"q{i}", cube[c, m, i]) for c, m, i in places],
        columns=["condition", "model", "key", "value"],
    )
    if groups is not None:
        found["group"] = [groups[int(key[1:])] for key in found["key"]]
    return found


def test_scores_changes_and_ranks_by_hand():
    cube = np.array([[[1, 1, 1, 0], [1, 0, 1, 0]], [[0, 1, 0, 0], [1, 1, 1, 0]]], dtype=float)
    found = compare_conditions(rows(cube), baseline="c0", n_draws=300)
    table = found.scores.set_index(["condition", "model"])
    assert table["score"].tolist() == [0.75, 0.5, 0.25, 0.75]
    assert table["rank"].tolist() == [1, 2, 2, 1]
    assert table.loc[("c1", "m0"), ["change", "gained", "lost"]].tolist() == [-0.5, 0, 0.5]
    assert table.loc[("c1", "m1"), ["change", "gained", "lost"]].tolist() == [0.25, 0.25, 0]
    assert (table["change_low"] <= table["change"]).all()
    assert (table["change"] <= table["change_high"]).all()
    assert found.ranks.iloc[0][["kendall", "largest_move"]].tolist() == [-1, 1]
    (pair,) = found.reversals.to_dict("records")
    assert (pair["ahead_baseline"], pair["ahead_here"]) == ("m0", "m1")
    assert (pair["lead_baseline"], pair["lead_here"]) == (0.25, 0.5)
    assert not pair["supported"], "four questions support nothing"


def test_nothing_changes_where_nothing_changed():
    answers = np.random.default_rng(0).integers(0, 2, (4, 50)).astype(float)
    found = compare_conditions(rows(np.stack([answers, answers])), baseline="c0", n_draws=200)
    assert not found.scores[["change", "change_low", "change_high", "gained", "lost"]].any(
        axis=None
    )
    assert found.ranks.iloc[0][["kendall", "largest_move", "p_value"]].tolist() == [1, 0, 1]
    assert found.reversals.empty
    assert "No pair of models changes its order" in framing_reading(found)


def test_a_clear_reversal_is_supported_and_no_matter_of_chance():
    rng = np.random.default_rng(1)
    ability = np.array([[0.9, 0.5], [0.3, 0.6]])
    cube = (rng.random((2, 2, 400)) < ability[:, :, None]).astype(float)
    found = compare_conditions(rows(cube), baseline="c0", n_draws=500)
    assert found.reversals["supported"].tolist() == [True]
    assert found.ranks["p_value"].iloc[0] < 0.01
    assert "1 of them with both orders beyond" in framing_reading(found)


def test_a_loss_that_all_share_is_no_difference_between_models():
    """All lose the same 60 questions: scores change for sure, models do not change differently."""
    cube = np.stack([np.ones((3, 200)), np.ones((3, 200))])
    cube[1, :, :60] = 0
    found = compare_conditions(rows(cube), baseline="c0", n_draws=300)
    lost = found.scores[found.scores["condition"] == "c1"]
    assert (lost["change_high"] < 0).all()
    assert found.ranks["p_value"].iloc[0] == 1
    assert found.ranks["largest_move"].iloc[0] == 0


def test_chance_moves_ranks_of_equal_models_and_not_of_unequal_ones():
    rng = np.random.default_rng(5)
    equal = (rng.random((2, 6, 100)) < 0.5).astype(float)
    apart = (rng.random((2, 6, 100)) < np.linspace(0.02, 0.98, 6)[:, None]).astype(float)
    moves = [
        compare_conditions(rows(cube), baseline="c0", n_draws=300).ranks["chance_move"].iloc[0]
        for cube in (equal, apart)
    ]
    assert moves[0] >= 4
    assert moves[1] == 0


def test_intervals_cover_and_differences_raise_few_false_alarms():
    rng = np.random.default_rng(2)
    covered, alarms, n_repeats = 0, 0, 120
    ability = np.array([0.45, 0.5, 0.52, 0.6, 0.7])
    for _ in range(n_repeats):
        talent = rng.normal(0, 0.15, 80)  # questions that all find easy or hard
        chance = np.clip(ability[:, None] + talent, 0.02, 0.98)
        cube = (rng.random((2, 5, 80)) < chance).astype(float)
        found = compare_conditions(rows(cube), baseline="c0", n_draws=199)
        changed = found.scores[found.scores["condition"] == "c1"].iloc[2]
        covered += changed["change_low"] <= 0 <= changed["change_high"]
        alarms += found.ranks["p_value"].iloc[0] <= 0.05
    assert covered / n_repeats > 0.88
    assert alarms / n_repeats < 0.11


def test_questions_that_hang_together_widen_intervals():
    rng = np.random.default_rng(3)
    base = np.repeat(rng.integers(0, 2, (2, 2, 20)), 5, axis=2).astype(float)
    alone = compare_conditions(rows(base), baseline="c0", n_draws=800)
    groups = [f"passage {i // 5}" for i in range(100)]
    together = compare_conditions(rows(base, groups), baseline="c0", n_draws=800)
    width = [(f.scores["high"] - f.scores["low"]).mean() for f in (alone, together)]
    assert width[1] > 1.7 * width[0]


def test_only_common_questions_count():
    cube = np.array([[[1, 0, 1], [0, 1, np.nan]], [[1, 1, 1], [0, 0, 0]]])
    found = compare_conditions(rows(cube), baseline="c1", n_draws=50)
    assert (found.n_items, found.n_left_out) == (2, 1)
    assert found.conditions == ["c1", "c0"]
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_metrics_have_no_differences():
    cube = np.random.default_rng(4).random((2, 3, 30))
    found = compare_conditions(rows(cube), baseline="c0", same_scale=False, n_draws=50)
    assert found.scores["change"].isna().all()
    assert found.ranks["p_value"].isna().all()
    assert "exchanging" not in metric_reading(found)
    assert found.to_dict()["ranks"][0]["p_value"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="key"), "no column 'key'"),
        (lambda t: t.assign(condition="c1"), "baseline 'c0': choose c1"),
        (lambda t: t[t["condition"] == "c0"], "only the condition 'c0'"),
        (lambda t: pd.concat([t, t]), "comes twice for m0 under c0"),
        (lambda t: t.drop(t[(t.condition == "c1") & (t.model == "m1")].index), "m1 has no answers"),
        (lambda t: t.assign(key=t["condition"] + t["key"]), "0 of 8 questions are common"),
    ],
)
def test_tables_that_cannot_be_compared(change, message):
    table = rows(np.ones((2, 2, 4)))
    with pytest.raises(InputError, match=message):
        compare_conditions(change(table), baseline="c0", n_draws=20)


# metrics and positions ---------------------------------------------------------------------------


def answers(loglik, gold, **columns) -> Predictions:
    n = len(loglik)
    correct = [float(np.argmax(row) in g) if g is not None else np.nan for row, g in
               zip(loglik, gold, strict=True)]  # fmt: skip
    table = pd.DataFrame(
        {
            "key": [f"k{i}" for i in range(n)],
            "native_id": [str(i) for i in range(n)],
            "subject": None,
            "n_options": [len(row) for row in loglik],
            "gold": gold,
            "loglik": loglik,
            "characters": [[1] * len(row) for row in loglik],
            "bytes": [[2] * len(row) for row in loglik],
            "tokens": None,
            "prediction": [int(np.argmax(row)) for row in loglik],
            "prediction_source": "argmax",
            "correct": correct,
            "flags": [[] for _ in range(n)],
            **columns,
        }
    )
    return Predictions(table, {"model": {}, "benchmark": "toy", "normalisation": "sum"})


def test_metrics_by_hand():
    found = metric_values(answers([np.log([0.5, 0.25, 0.25]), np.log([0.1, 0.9])], [[0], [0]]))
    assert found["right by sum"].tolist() == [1, 0]
    np.testing.assert_allclose(found["probability"], [0.5, 0.1])
    np.testing.assert_allclose(found["log score"], np.log([0.5, 0.1]))
    # 0.5² + 0.25² + 0.25², and 0.9² + 0.9²
    np.testing.assert_allclose(found["negative Brier score"], [-0.375, -1.62])
    assert found["right by token"].isna().all(), "without lengths in tokens"
    assert list(found.columns) == ["key", *METRICS]


def test_metrics_at_their_limits():
    sure = metric_values(answers([[0.0, -800.0], [-800.0, 0.0]], [[0], [0]]), ["log score"])
    np.testing.assert_allclose(sure["log score"], [0, np.log(SMALLEST)])
    both = metric_values(
        answers([np.log([0.5, 0.3, 0.2])], [[0, 1]]), ["probability", "negative Brier score"]
    )
    np.testing.assert_allclose(both.iloc[0, 1:].astype(float), [0.8, -(0.2**2 + 0.2**2)])
    with pytest.raises(InputError, match="metric 'auc': choose right by sum"):
        metric_values(answers([[0.0, -1.0]], [[0]]), ["auc"])


def test_largest_step_at_its_limits():
    assert largest_step([0.0, 0.25, 0.5, 0.75, 1.0])[1] == 0.25
    assert largest_step([0.2, 0.2, 0.9]) == (1, 1.0)
    assert largest_step([0.9, 0.5]) == (0, 0.0)
    with pytest.raises(InputError, match="at least two scores"):
        largest_step([0.5])


def test_positions_by_hand():
    table = answers(
        [[0.0, -1.0], [0.0, -1.0], [-1.0, 0.0], [0.0, -1.0, -2.0]], [[0], [1], [1], [2]]
    ).table
    plain = choices_by_position(table)
    assert plain["offered"].tolist() == [4, 4, 1]
    assert plain["chosen"].tolist() == [0.75, 0.25, 0]
    assert plain["holds_right"].tolist() == [0.25, 0.5, 1]
    assert plain["accuracy"].tolist() == [1, 0.5, 0]
    turned = choices_by_position(table, [[1, 0], [1, 0], [1, 0], [2, 1, 0]])
    assert turned["chosen"].tolist() == [0.25, 0.5, 1]
    with pytest.raises(InputError, match="orders: 1 for 4 questions"):
        choices_by_position(table, [[0, 1]])


# asking, and the command -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(tmp_path_factory, quiz):
    """Two models asked in three ways."""
    root = tmp_path_factory.mktemp("framing")
    models = [str(build_model(root / f"tiny{i}", seed=i)) for i in range(2)]
    names = ["cloze", "letter", "letter-reversed"]
    return root, models, ask_framings(models, str(quiz), names, run_dir=str(root / "runs"))


def test_asking_keeps_answers_and_no_distributions(asked, quiz):
    root, models, found = asked
    assert list(found) == ["cloze", "letter", "letter-reversed"]
    assert all(list(of_framing) == ["tiny0", "tiny1"] for of_framing in found.values())
    assert not list((root / "runs").rglob("distributions.npy"))
    kept = {path.name for path in (root / "runs" / "framing").iterdir()}
    assert kept == {"cloze", "letter", "letter-reversed"}, "nothing half made is left"
    heard = []
    ask_framings(
        models, str(quiz), ["cloze"], run_dir=str(root / "runs"), listen=lambda *w: heard.append(w)
    )
    assert not heard, "what is finished is not asked again"


def test_a_wrong_model_is_said_before_the_first_is_asked(asked, quiz, tmp_path):
    _, models, _ = asked
    heard = []
    with pytest.raises(InputError, match="no-such"):
        ask_framings(
            [models[0], "no-such-model"],
            str(quiz),
            ["cloze"],
            run_dir=str(tmp_path),
            listen=lambda *who: heard.append(who),
        )
    assert not heard


def test_a_study_is_the_same_from_runs_and_from_asking(asked, tmp_path):
    root, _, found = asked
    names = ["cloze", "letter"]
    here = framing_study({name: found[name] for name in names}, baseline="cloze", n_draws=100)
    there = framing_study(
        read_framings({name: [root / "runs" / "framing" / name] for name in names}),
        baseline="cloze",
        n_draws=100,
    )
    assert here.to_dict() == there.to_dict()
    first, again = (here.save(tmp_path / name) for name in "ab")
    assert first == again
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert len(here.metrics.conditions) == len(METRICS)


def test_reordered_lists_are_counted_only_with_their_questions(asked, quiz):
    _, _, found = asked
    without = framing_study(found, baseline="cloze", n_draws=50).positions
    assert set(without["framing"]) == {"letter"}
    items = load_benchmark(str(quiz)).items
    positions = framing_study(found, baseline="cloze", items=items, n_draws=50).positions
    assert set(positions["framing"]) == {"letter", "letter-reversed"}
    right = positions[positions["model"] == "tiny0"].pivot(
        index="position", columns="framing", values="holds_right"
    )
    np.testing.assert_allclose(right["letter"], right["letter-reversed"][::-1])


def test_the_command_and_what_it_refuses(asked, tmp_path, capsys):
    root, models, _ = asked
    runs = root / "runs" / "framing"
    given = ["--from", f"cloze={runs / 'cloze'}", "--from", f"letter={runs / 'letter'}"]
    with pytest.raises(SystemExit) as stopped:
        main(["framing", *given, "--out", str(tmp_path), "--draws", "100", "--json"])
    assert stopped.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "framing.json").read_text(encoding="utf-8"))
    assert {row["framing"] for row in found["models"]} == {"cloze", "letter"}
    assert {row["model"] for row in found["models"]} == {"tiny0", "tiny1"}
    for arguments, message in [
        ((), "no models"),
        (("--model", models[0], "--framing", "lettre"), "framing 'lettre': choose cloze"),
        (("--model", models[0], "--framing", "cloze"), "'cloze' alone"),
        (("--model", "respondent:first", "--limit", "5"), "answers in one way only"),
        (("--model", models[0], "--benchmark", "triviaqa"), "open-ended"),
        (("--model", models[0], "-p", "predictions.format=letter"), "leave it out"),
        (("--from", "cloze"), "write NAME=FOLDER"),
        ((*given, "--baseline", "b"), "--baseline 'b': choose cloze, letter"),
        ((*given, "--limit", "5"), "leave --model"),
    ]:
        with pytest.raises(SystemExit) as stopped:
            main(["framing", *arguments])
        said = capsys.readouterr().err
        assert stopped.value.code == 2
        assert message in said
        assert len(said.strip().splitlines()) == 1


def test_what_was_recorded_is_compared_as_it_says(tmp_path):
    models = recorded_framing_models()
    assert len(models) >= 4
    found = ask_framings(models, "arc_easy", list(FRAMINGS), limit=200, run_dir=str(tmp_path))
    items = load_benchmark("arc_easy", limit=200).items
    study = framing_study(found, baseline=BASELINE, items=items, n_draws=20)
    recorded = read_json(recorded_folder() / "framing" / "framing.json")
    named = {(row["framing"], row["model"]): row for row in recorded["models"]}
    for row in study.to_dict()["models"]:
        kept = named.pop((row["framing"], row["model"]))
        for name in ("accuracy", "rank", "change", "gained", "lost", "n_items"):
            assert kept[name] == pytest.approx(row[name])
    assert not named
    places = (recorded["positions"], study.to_dict()["positions"])
    first, again = (
        pd.DataFrame(rows).sort_values(["framing", "model", "position"]) for rows in places
    )
    pd.testing.assert_frame_equal(first.reset_index(drop=True), again.reset_index(drop=True))
