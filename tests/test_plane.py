"""The benchmark plane: hand-worked cases, limits, bands, run folders and the recorded panel."""

from __future__ import annotations

import ast
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import papermill
import pytest
from conftest import PROJECT, harmony_command

from harmony_utils import plots
from harmony_utils.cli import main
from harmony_utils.errors import InputError
from harmony_utils.metric import harmony_score
from harmony_utils.plane import COLUMNS, benchmark_plane, resampled_harmony, split_distances
from harmony_utils.predictions import Predictions
from harmony_utils.reading import plane_reading
from harmony_utils.respondents import PREFIX, list_respondents, respond
from harmony_utils.scoring import load_model, score
from harmony_utils.settings import PlaneSettings, PredictionsSettings
from harmony_utils.sources import list_benchmarks, load_benchmark
from harmony_utils.stages import (
    audit_given,
    given_partition,
    open_audit,
    recorded_about,
    recorded_benchmarks,
    recorded_panel,
    run_answers,
)
from harmony_utils.stages.panel import split_pairs

QUICK = PlaneSettings(n_null=100, n_bootstrap=100, n_matched=20, n_matched_draws=20)


def answers_of(tables: dict[str, dict[str, list[float]]], n: int = 50) -> pd.DataFrame:
    """Return answers with given accuracies in equal subdomains of ``n`` items each."""
    rows = []
    for benchmark, respondents in tables.items():
        for who, accuracies in respondents.items():
            for label, accuracy in enumerate(accuracies):
                right = round(accuracy * n)
                for i in range(n):
                    rows.append((benchmark, who, f"{label}-{i}", float(i < right), label))
    return pd.DataFrame(rows, columns=[*COLUMNS, "shared"])


TABLES = {
    "even": {who: [a, a] for who, a in zip("xyz", (0.2, 0.5, 0.8), strict=True)},
    "mixed": {"x": [0.5, 0.5, 0.5], "y": [0.9, 0.5, 0.1], "z": [0.6, 0.6, 0.0]},
}


def test_mean_and_variance_are_those_of_the_hand_worked_table():
    plane = benchmark_plane(answers_of(TABLES), QUICK)
    by_hand = [harmony_score([1, 1, 1], accuracies) for accuracies in TABLES["mixed"].values()]
    even, mixed = plane.table.to_dict("records")
    assert [even["benchmark"], mixed["benchmark"]] == ["even", "mixed"]
    assert even["mean"] == pytest.approx(1)
    assert even["variance"] == pytest.approx(0)
    assert mixed["mean"] == pytest.approx(np.mean(by_hand))
    assert mixed["variance"] == pytest.approx(np.var(by_hand, ddof=1))
    pairs = [np.mean(np.delete(by_hand, i)) for i in range(3)]
    assert mixed["mean_loo_low"] == pytest.approx(min(pairs))
    assert mixed["mean_loo_high"] == pytest.approx(max(pairs))
    assert mixed["uneven"] == 2
    assert mixed["uneven_holm"] == 2
    assert plane.correlation.verdict == "cannot tell"
    assert "2 stay uneven" in plane_reading(plane)
    json.dumps(plane.to_dict(), allow_nan=False)


def test_bands_hold_the_value_and_shrink_with_items():
    few, many = (
        benchmark_plane(answers_of(TABLES, n), QUICK).table.set_index("benchmark")
        for n in (20, 400)
    )
    for table in (few, many):
        for what in ("mean", "variance"):
            assert (table[f"{what}_low"] <= table[what]).all()
            assert (table[what] <= table[f"{what}_high"]).all()
    widths = [(t["mean_high"] - t["mean_low"])["mixed"] for t in (few, many)]
    assert widths[1] < widths[0] / 2


def test_respondents_that_differ_by_chance_alone_vary_as_under_the_null():
    rng = np.random.default_rng(0)
    rows = [
        (f"b{b}", f"r{r}", i, float(rng.random() < 0.5), i % 4)
        for b in range(20) for r in range(6) for i in range(120)
    ]  # fmt: skip
    table = benchmark_plane(pd.DataFrame(rows, columns=[*COLUMNS, "shared"]), QUICK).table
    assert 0.6 < table["variance"].mean() / table["null_variance"].mean() < 1.6
    assert table["mean"].mean() == pytest.approx(table["null_mean"].mean(), abs=0.015)
    assert table["uneven"].sum() <= 14  # 6 of 120 expected


def test_equal_numbers_of_items_make_a_large_benchmark_look_like_a_small_one():
    rng = np.random.default_rng(1)
    tables = []
    for name, n in (("small", 60), ("large", 1500)):
        for who in "uvwxyz":
            correct = rng.random(n) < 0.6
            tables += [(name, who, i, float(correct[i]), i % 5) for i in range(n)]
    answers = pd.DataFrame(tables, columns=[*COLUMNS, "shared"])
    settings = QUICK.model_copy(update={"n_matched": 60, "n_matched_draws": 100})
    table = benchmark_plane(answers, settings).table.set_index("benchmark")
    raw = table["mean"]["large"] - table["mean"]["small"]
    matched = table["mean_matched"]["large"] - table["mean_matched"]["small"]
    assert raw > 0.05
    assert abs(matched) < raw / 2
    assert table["mean_matched"]["small"] == pytest.approx(table["mean"]["small"])
    smaller = benchmark_plane(answers, QUICK.model_copy(update={"n_matched": 61})).table
    assert smaller.set_index("benchmark")["mean_matched"].isna()["small"]


def test_two_samples_of_one_benchmark_are_held_against_pairs_of_others():
    table = pd.DataFrame(
        {
            "benchmark": ["a", "a_test", "b", "c", "small"],
            "mean_matched": [0.90, 0.88, 0.70, 0.89, np.nan],
            "variance_matched": [0.01, 0.03, 0.01, 0.02, np.nan],
        }
    )
    found = split_distances(table, [("a", "a_test"), ("b", "small"), ("c", "gone")])
    assert found["benchmark"].tolist() == ["a", "a"]
    mean, variance = found.to_dict("records")
    # of a-b, a-c, a_test-b, a_test-c, b-c only the two with c lie closer than .02
    assert (mean["distance"], mean["closer"]) == (pytest.approx(0.02), 0.4)
    # a_test-b is as far, the others lie closer
    assert (variance["distance"], variance["closer"]) == (pytest.approx(0.02), 0.9)
    assert split_distances(table, []).empty
    assert split_pairs(["copa", "arc_easy_test", "arc_easy", "mmlu_validation", "no_such"]) == [
        ("arc_easy", "arc_easy_test")
    ]


def test_a_subdomain_that_a_draw_leaves_empty_holds_no_mass():
    labels, correct = np.array([0, 0, 1, 1, 2]), np.ones(5)
    drawn = resampled_harmony(correct, labels, np.array([[1, 1, 1, 1, 0]]), bandwidth=0.1)
    assert drawn[0] == pytest.approx(np.log(2) / np.log(3))
    whole = resampled_harmony(correct, labels, np.ones((1, 5)), bandwidth=0.1)
    assert whole[0] == pytest.approx(harmony_score([2, 2, 1], [1, 1, 1]))


def test_partial_credit_holds_less_noise_than_right_and_wrong():
    rows = [
        ("b", who, f"{label}-{i}", mean + (0.02 if i % 2 else -0.02), label)
        for who in "xyz"
        for label, mean in enumerate((0.4, 0.6, 0.5))
        for i in range(20)
    ]
    cells = benchmark_plane(pd.DataFrame(rows, columns=[*COLUMNS, "shared"]), QUICK).cells
    # such even answers hardly scatter, so next to none of the spread is noise
    np.testing.assert_allclose(cells["corrected"], cells["harmony"], atol=0.01)
    assert (cells["harmony"] < 0.9).all()


def test_bad_answers_are_refused_in_one_line():
    good = answers_of(TABLES)
    with pytest.raises(InputError, match="no column 'own'"):
        benchmark_plane(good, PlaneSettings(partition="own"))
    with pytest.raises(InputError, match="answers item 0-0 twice"):
        benchmark_plane(pd.concat([good, good.iloc[:1]]), QUICK)
    with pytest.raises(InputError, match="x has no answer to 1 of 100"):
        benchmark_plane(good.iloc[1:], QUICK)
    with pytest.raises(InputError, match="no benchmark has 3 respondents"):
        benchmark_plane(good[good["respondent"] != "x"], QUICK)


def test_figures_say_what_is_seen():
    plane = benchmark_plane(answers_of(TABLES), QUICK)
    figure, alt = plots.benchmark_plane(plane.table)
    assert "2 benchmarks" in alt
    boxes = [note.get_window_extent() for note in figure.axes[0].texts]
    assert len(boxes) == 2
    assert not boxes[0].overlaps(boxes[1])
    assert "6 verdicts" in plots.plane_verdicts(plane.table)[1]
    means = plane.table.set_index("benchmark")[["mean", "mean_matched"]]
    assert "2 conditions" in plots.plane_means(means)[1]


# run folders -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rule_runs(quiz, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("plane")
    for rule in ("longest", "first", "random"):
        audit = open_audit(model=PREFIX + rule, benchmark=str(quiz), run_dir=str(root))
        audit_given(audit, "subjects")
    return root


def test_the_command_writes_table_and_json(rule_runs, tmp_path):
    target = tmp_path / "plane.csv"
    done = harmony_command(
        "plane", rule_runs, "--partition", "subjects", "--n-matched", 10, "--out", target, "--json"
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["benchmarks"]
    assert (row["n_items"], row["n_respondents"]) == (20, 3)
    assert pd.read_csv(target)["mean"][0] == pytest.approx(row["mean"], abs=1e-5)


def test_runs_can_be_named_in_a_file(rule_runs, tmp_path):
    listed, target = tmp_path / "runs.txt", tmp_path / "plane.csv"
    folders = [path.parent for path in rule_runs.rglob("run.json")]
    listed.write_text("".join(f"{folder}\n" for folder in folders))
    done = harmony_command("plane", "--list", listed, "--partition", "subjects", "--out", target)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(target)["n_respondents"].tolist() == [3]
    for more, problem in (([], "no run folders"), (["--list", rule_runs], "cannot be read")):
        done = harmony_command("plane", *more)
        assert done.returncode == 2
        assert problem in done.stderr


def test_a_benchmark_with_too_few_runs_stops_no_other(rule_runs, quiz, tmp_path, capsys):
    shutil.copytree(rule_runs, tmp_path / "runs")
    three = next((tmp_path / "runs").glob("*"))
    shutil.copytree(next(three.glob("*")), three.with_name("lonely") / "one")
    for run in three.glob("*"):
        labels = Predictions.load(run / "predictions.parquet").table[["key"]].assign(label=0)
        labels.loc[::2, "label"] = 1
        labels.to_parquet(run / "given-embeddings.parquet")
    with pytest.raises(SystemExit) as done:
        main(["plane", str(tmp_path / "runs"), "--partition=embeddings", "--n-matched=10"])
    assert done.value.code == 0
    assert capsys.readouterr().err.strip().endswith("respondents with labels: lonely")


def test_runs_without_the_labels_asked_for_are_named(rule_runs):
    with pytest.raises(InputError, match="no run has labels 'own'"):
        run_answers([rule_runs], partition="own")
    with pytest.raises(InputError, match="no run has labels 'embeddings'"):
        run_answers([rule_runs], partition="embeddings")
    with pytest.raises(InputError, match="no such folder"):
        run_answers(["nowhere"])


def test_own_and_shared_labels_come_from_finished_audits(quiz, tmp_path):
    benchmark = load_benchmark(str(quiz))
    halves, quarters = np.arange(20) // 10, np.arange(20) // 5
    for rule, labels in (("first", halves), ("random", halves), ("longest", quarters)):
        folder = tmp_path / "quiz" / rule
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        respond(PREFIX + rule, benchmark).save(folder / "predictions.parquet")
        table = pd.DataFrame({"key": benchmark.keys(), "label": labels}).sample(frac=1)
        table.to_parquet(folder / "partition.parquet")
    own = run_answers([tmp_path], partition="own")
    of = own.set_index("respondent")["own"]
    assert of["first"].tolist() == halves.tolist()
    assert of["longest"].tolist() == quarters.tolist()
    shared = run_answers([tmp_path], partition="shared").set_index("respondent")["shared"]
    assert shared["first"].tolist() == shared["longest"].tolist()
    split = pd.crosstab(halves, shared["first"].to_numpy()).to_numpy()
    assert ((split > 0).sum(axis=0) == 1).all()  # no shared subdomain crosses the halves


def test_a_rule_cannot_run_the_six_stages(quiz, tmp_path):
    done = harmony_command(
        "audit", "--model", "respondent:first", "--benchmark", quiz, "--out", tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no affinity" in done.stderr


# recorded panel --------------------------------------------------------------------------------


def test_panel_is_whole_and_says_how_it_was_made():
    names = recorded_benchmarks()
    packaged = {about.name for about in list_benchmarks() if about.offline and about.n_options}
    assert packaged == set(names)
    for name in names:
        panel, about = recorded_panel(name), recorded_about(name)
        assert panel["respondent"].nunique() >= 7, name
        sizes = panel.groupby("respondent").size()
        assert (sizes == about["n_items"]).all()
        assert panel["correct"].isin([0, 1]).all()
        assert about["versions"]["torch"]
        assert set(about["seconds"]) == set(panel["respondent"])
        rules = panel["respondent"].str.startswith(PREFIX)
        assert panel.loc[rules, "own"].isna().all()
        assert panel.loc[~rules, "own"].notna().all()


def test_eight_respondents_on_twelve_benchmarks():
    counts = [recorded_panel(name)["respondent"].nunique() for name in recorded_benchmarks()]
    assert sum(count >= 8 for count in counts) >= 12


def test_what_was_recorded_stays_when_a_panel_is_put_together_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(PROJECT / "results")
    record = importlib.import_module("record_panel")
    about, panel = recorded_about("copa"), recorded_panel("copa")
    monkeypatch.setattr(record, "panel_folder", lambda: tmp_path)
    monkeypatch.setattr(record, "work_folder", lambda who: tmp_path / "runs")
    quick = [rule for rule in list_respondents() if rule.name != "minilm"]
    monkeypatch.setattr(record, "list_respondents", lambda: quick)
    monkeypatch.setattr(record, "versions", lambda: {"torch": "another"})
    record.assemble("copa")
    assert not list(tmp_path.iterdir())  # nothing is mixed with what other versions gave
    monkeypatch.setattr(record, "versions", lambda: about["versions"])
    record.assemble("copa")
    panel = panel[panel["respondent"] != f"{PREFIX}minilm"].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "copa.parquet"), panel, atol=2e-3)
    again = json.loads((tmp_path / "copa.json").read_text())
    for name in ("fingerprint", "respondents", "missing", "shared_by", "partitions"):
        assert again[name] == about[name]


@pytest.mark.parametrize("name", ["openbookqa", "commonsense_qa"])
def test_rules_answer_as_recorded(name):
    about = recorded_about(name)
    benchmark = load_benchmark(name, limit=about["n_items"])
    assert benchmark.fingerprint() == about["fingerprint"]
    panel = recorded_panel(name).set_index(["respondent", "key"])
    drawn = np.random.default_rng(0).choice(benchmark.keys(), 20, replace=False)
    for rule in list_respondents():
        who = PREFIX + rule.name
        if rule.name == "minilm":  # by the item alone, so the drawn ones are enough
            pairs = zip(benchmark.items, benchmark.keys(), strict=True)
            items = tuple(item for item, key in pairs if key in drawn)
            asked = type(benchmark)(name, items, prompt_style=benchmark.prompt_style)
        else:
            asked = benchmark
        found = respond(who, asked).table.set_index("key")
        for key in drawn:
            assert found.loc[key, "prediction"] == panel.loc[(who, key), "prediction"]
            assert found.loc[key, "correct"] == panel.loc[(who, key), "correct"]


def test_smollm2_answers_as_recorded():
    benchmark = load_benchmark("copa")
    items = tuple(benchmark.items[i] for i in (3, 41, 77))
    asked = type(benchmark)("copa", items, prompt_style=benchmark.prompt_style)
    found = score(load_model("smollm2-135m", device="cpu"), asked, PredictionsSettings())
    panel = recorded_panel("copa").set_index(["respondent", "key"])
    margins = dict(zip(asked.keys(), found.predictions.margins(), strict=True))
    for key, predicted in zip(asked.keys(), found.predictions.table["prediction"], strict=True):
        recorded = panel.loc[("smollm2-135m", key)]
        assert predicted == recorded["prediction"]
        assert margins[key] == pytest.approx(recorded["margin"], abs=2e-3)


def test_embedding_labels_are_as_recorded():
    benchmark = load_benchmark("copa")
    recorded = recorded_panel("copa").drop_duplicates("key").set_index("key")["embeddings"]
    assert (
        recorded.loc[benchmark.keys()].tolist()
        == given_partition(benchmark, "embeddings").labels.tolist()
    )


def test_parameters_of_the_chapter_are_the_settings():
    path = PROJECT / "notebooks" / "10_benchmark_plane.ipynb"
    found = papermill.inspect_notebook(str(path))
    defaults = {name: ast.literal_eval(about["default"]) for name, about in found.items()}
    assert defaults == {"benchmarks": [], **PlaneSettings().model_dump()}
