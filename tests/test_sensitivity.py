"""A multiverse: each row is the plain pipeline, and what is said of the rows can be counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import papermill
import pytest
from conftest import harmony_command
from scipy.spatial.distance import squareform

from harmony_utils import scoring
from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.multiverse import UNDEFINED
from harmony_utils.neighbours import nearest_neighbours
from harmony_utils.partition import spectral_partition
from harmony_utils.reading import sensitivity_reading
from harmony_utils.sensitivity import choice_table, multiverse, summarise, value_table
from harmony_utils.settings import (
    ClusteringSettings,
    HarmonySettings,
    SensitivitySettings,
    parse_settings,
)
from harmony_utils.similarity import (
    affinity_from_divergence,
    median_temperature,
)
from harmony_utils.specifications import CHOICES, Specification, changed_choices, specifications
from harmony_utils.stages import open_audit
from harmony_utils.stages.variants import VARIANT_STEPS

PROJECT = Path(__file__).resolve().parent.parent
ONE = {
    "temperature_factors": [1],
    "neighbours": [0],
    "n_clusters": [2],
    "assign_labels": ["kmeans"],
    "bandwidths": [0.1],
    "seeds": [0],
}
QUICK = HarmonySettings(n_null=200, random_state=3)


def noisy_divergence(seed: int = 0) -> np.ndarray:
    """Three uneven groups of 60 items with much noise: other settings find other subdomains."""
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(3, 6))[np.repeat([0, 1, 2], [30, 20, 10])] + rng.normal(size=(60, 6))
    return ((place[:, None] - place[None]) ** 2).sum(axis=2)


CORRECT = (np.random.default_rng(1).random(60) < np.repeat([0.9, 0.5, 0.3], [30, 20, 10])) * 1.0


@pytest.fixture(scope="module")
def table():
    settings = SensitivitySettings(n_specifications=120, neighbours=[0, 6], n_clusters=[0, 2, 3])
    return multiverse(
        {"gold-mean": noisy_divergence(), "options": noisy_divergence(5)},
        CORRECT,
        settings=settings,
        clustering=ClusteringSettings(max_clusters=6, n_stability=2),
        harmony=QUICK,
    )


def test_rows_are_what_the_plain_pipeline_gives(table):
    divergences = {"gold-mean": noisy_divergence(), "options": noisy_divergence(5)}
    for row in table.sample(25, random_state=0).itertuples():
        divergence = divergences[row.variant]
        used = row.temperature_factor * median_temperature(divergence)
        similarity, _ = affinity_from_divergence(divergence, temperature=used)
        linked = nearest_neighbours(similarity, row.neighbours) if row.neighbours else similarity
        partition = spectral_partition(
            linked,
            similarity=similarity,
            n_clusters=row.n_clusters,
            assign_labels=row.assign_labels,
            random_state=row.seed,
            max_clusters=6,
            n_stability=2,
        )
        plain = harmony(
            CORRECT,
            partition.labels,
            bandwidth=row.bandwidth,
            n_null=200,
            n_bootstrap=100,
            random_state=3,
        )
        assert row.k == partition.n_clusters
        assert (row.smallest, row.largest) == (min(partition.sizes), max(partition.sizes))
        assert row.disconnected == (partition.n_components > 1)
        assert row.harmony == pytest.approx(plain.harmony, abs=1e-12)
        assert row.p_value == plain.p_value
        assert (row.null_low, row.null_high) == (plain.null_low, plain.null_high)
        assert (row.verdict, row.reason) == (plain.verdict, plain.reason)


def test_the_table_has_the_default_and_every_single_change(table):
    assert table["is_default"].sum() == 1
    own = table[table["is_default"]].iloc[0]
    assert [own[choice] for choice in CHOICES] == ["gold-mean", 1, 0, 0, "kmeans", 0, 0.1]
    assert own["ari"] == 1
    singles = table["changed"].value_counts().to_dict()
    singles.pop("")
    assert singles == {
        "variant": 1,
        "temperature_factor": 4,
        "neighbours": 1,
        "n_clusters": 2,
        "assign_labels": 2,
        "seed": 1,
        "bandwidth": 2,
    }
    assert len(table) == 120
    assert table.attrs["n_possible"] == 2 * 5 * 2 * 3 * (2 * 2 + 1) * 3
    assert not table.duplicated(list(CHOICES)).any()


def test_the_draw_of_specifications_depends_on_its_seed_alone():
    settings = SensitivitySettings(n_specifications=60)
    first = specifications(settings, Specification(), ["gold-mean"])[0]
    assert first == specifications(settings, Specification(), ["gold-mean"])[0]
    moved = settings.model_copy(update={"random_state": 1})
    assert first != specifications(moved, Specification(), ["gold-mean"])[0]
    every, n_possible = specifications(
        SensitivitySettings(n_specifications=0), Specification(), ["gold-mean"]
    )
    assert len(every) == n_possible == 600
    assert set(first) < set(every)


def test_own_choices_join_the_grid_and_idle_seeds_do_not_count_twice():
    own = Specification("options", 1, 7, 3, "cluster_qr", 9, 0.15)
    settings = SensitivitySettings(**{**ONE, "n_specifications": 0, "seeds": [0, 1]})
    chosen, n_possible = specifications(settings, own, ["options"])
    assert n_possible == len(chosen) == 2 * 2 * 2 * (3 + 1)  # kmeans has three seeds, own included
    assert sum(not changed_choices(one, own) for one in chosen) == 1
    assert all(one.seed == 9 for one in chosen if one.assign_labels == "cluster_qr")


def test_a_specification_without_harmony_is_a_row_with_its_reason():
    divergence = noisy_divergence()
    table = multiverse(
        {"gold-mean": divergence, "options": np.zeros_like(divergence)},
        CORRECT,
        settings=SensitivitySettings(
            **{**ONE, "neighbours": [0, 60], "n_clusters": [2, 60], "n_specifications": 0}
        ),
        default=Specification(n_clusters=2),
        harmony=QUICK,
    )
    reasons = table.set_index(["variant", "neighbours", "n_clusters"])["reason"]
    assert "identical distributions" in reasons["options", 0, 2]
    assert "neighbours 60" in reasons["gold-mean", 60, 2]
    assert "n_clusters 60" in reasons["gold-mean", 0, 60]
    undefined = table["verdict"] == UNDEFINED
    assert undefined.sum() == 7
    assert table.loc[undefined, ["harmony", "p_value", "k", "ari"]].isna().all(axis=None)
    found = summarise(table)
    assert found["n_undefined"] == 7
    json.dumps(found, allow_nan=False)
    assert "7 give no HARMONY" in sensitivity_reading(found)


def test_separate_parts_are_flagged_and_clustered():
    blocks = 9 * (1 - np.kron(np.eye(3), np.ones((20, 20)))) + 0.1 * noisy_divergence()
    table = multiverse(
        {"gold-mean": blocks},
        CORRECT,
        settings=SensitivitySettings(**{**ONE, "neighbours": [0, 5], "n_clusters": [3]}),
        default=Specification(n_clusters=3),
        temperature=0.2,
        harmony=QUICK,
    )
    assert table["disconnected"].tolist() == [False, True]
    assert table["k"].tolist() == [3, 3]
    assert table["ari"].tolist() == [1, 1]


def test_what_is_said_of_a_table_can_be_counted():
    rows = [
        ("gold-mean", 0.1, True, "", False, 0.9, "uneven"),
        ("gold-mean", 0.2, False, "bandwidth", False, 0.7, "cannot tell"),
        ("options", 0.1, False, "variant", False, 0.9, "uneven"),
        ("options", 0.2, False, "", True, 0.7, "uneven"),
    ]
    columns = ["variant", "bandwidth", "is_default", "changed", "drawn", "harmony", "verdict"]
    table = pd.DataFrame(rows, columns=columns).assign(
        temperature_factor=1.0, neighbours=0, n_clusters=0, assign_labels="kmeans", seed=0, k=2,
        p_value=0.01, ari=[1, 1, 0.5, 0.2], tiny=False, disconnected=False,
    )  # fmt: skip
    table.attrs["n_possible"] = 10
    found = summarise(table)
    assert found["share_same_verdict"] == 0.75
    low, high = found["share_interval"]
    assert 0.2 < low < 0.75 < high <= 0.9  # two of the three fixed ones are in it, the rest drawn
    assert high == pytest.approx((2 + 7) / 10)
    assert found["verdicts"] == {"uneven": 3, "cannot tell": 1}
    assert found["harmony"] == [0.7, 0.8, 0.9]
    assert found["ari_median"] == 0.5
    choices = choice_table(table).set_index("choice")
    assert choices.loc["bandwidth", "r2_harmony"] == pytest.approx(1)
    assert choices.loc["variant", "r2_harmony"] == pytest.approx(0)
    assert choices.loc["variant", "r2_verdict"] == pytest.approx(1 / 3)
    assert np.isnan(choices.loc["seed", "r2_harmony"])
    assert choices.loc["bandwidth", ["n_alone", "n_other_verdict"]].tolist() == [1, 1]
    assert choices.loc["bandwidth", ["harmony_low", "harmony_high"]].tolist() == [0.7, 0.9]
    values = value_table(table).set_index(["choice", "value"])
    assert values.loc[("bandwidth", "0.2"), "share_same_verdict"] == 0.5
    text = sensitivity_reading(found)
    assert "75% of 4 specifications keep the verdict *uneven*" in text
    assert "HARMONY is bandwidth" in text
    table.attrs["n_possible"] = 4
    assert summarise(table)["share_interval"] == [0.75, 0.75]


def test_answers_and_divergences_must_fit():
    with pytest.raises(InputError, match="no divergences; they are there for options"):
        multiverse({"options": noisy_divergence()}, CORRECT)
    with pytest.raises(InputError, match="give the same items"):
        multiverse({"gold-mean": noisy_divergence()}, CORRECT[:10])


# in an audit --------------------------------------------------------------------------------


def reopen(tiny_model, quiz, root):
    audit = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(root))
    return audit.configure(parse_settings({"clustering": {"max_clusters": 5, "n_stability": 2}}))


SMALL = {"n_specifications": 25, "neighbours": [0, 4], "n_clusters": [0, 3]}


def test_an_audit_scores_its_variants_once_and_reads_itself_as_default(tiny_model, quiz, tmp_path):
    audit = reopen(tiny_model, quiz, tmp_path)
    result = audit.harmony()
    found = audit.sensitivity(**SMALL)
    own = found.table[found.table["is_default"]].iloc[0]
    assert own["harmony"] == pytest.approx(result.harmony, abs=1e-12)
    assert (own["p_value"], own["verdict"]) == (result.p_value, result.verdict)
    assert found.table["variant"].nunique() == 4
    assert found.summary["missing_variants"] == {}
    assert not list(audit.run.folder.glob("parts*"))
    kept = np.load(audit.run.path("divergence-options.npy"))
    other = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(tmp_path / "other"))
    other.predictions(variant="options")
    np.testing.assert_array_equal(squareform(kept), other.divergence())
    again = open_audit(model=str(tiny_model), benchmark=str(quiz), run_dir=str(tmp_path))
    assert again.is_current("sensitivity")
    audit.harmony(bandwidth=0.3)
    assert not audit.is_current("sensitivity")


def test_a_row_with_other_settings_is_an_audit_with_them(tiny_model, quiz, tmp_path):
    audit = reopen(tiny_model, quiz, tmp_path)
    table = audit.sensitivity(**SMALL, variants=["gold-mean"]).table
    changed = table[(table["changed"] == "neighbours") | (table["changed"] == "assign_labels")]
    assert len(changed) == 3
    for row in changed.itertuples():
        audit.affinity(neighbours=row.neighbours)
        audit.clustering(assign_labels=row.assign_labels, max_clusters=5)
        result = audit.harmony()
        assert result.harmony == pytest.approx(row.harmony, abs=1e-12)
        assert result.p_value == row.p_value


def test_scoring_a_variant_goes_on_after_a_kill(tiny_model, quiz, tmp_path, monkeypatch):
    audit = reopen(tiny_model, quiz, tmp_path)
    audit.predictions(chunk_size=5)  # changes how often work is saved, not what it gives
    chunks = []
    score_chunk = scoring.scores._score_chunk

    def killed_at_third(*arguments):
        chunks.append(arguments[3])
        if len(chunks) == 3:
            raise KeyboardInterrupt
        return score_chunk(*arguments)

    monkeypatch.setattr(scoring.scores, "_score_chunk", killed_at_third)
    step = VARIANT_STEPS["options"]
    with pytest.raises(KeyboardInterrupt):
        audit.ensure(step)
    assert not audit.is_current(step)
    again = reopen(tiny_model, quiz, tmp_path)
    again.predictions(chunk_size=5)
    again.ensure(step)
    assert len(chunks) == 5  # two, the killed one, and the two that were left
    whole = reopen(tiny_model, quiz, tmp_path / "whole")
    whole.ensure(step)
    np.testing.assert_array_equal(
        np.load(again.run.path(f"{step}.npy")), np.load(whole.run.path(f"{step}.npy"))
    )


def test_a_variant_that_cannot_be_had_is_named_and_left_out(
    tiny_model, quiz, tmp_path, monkeypatch
):
    audit = reopen(tiny_model, quiz, tmp_path)
    audit.harmony()
    again = reopen(tiny_model, quiz, tmp_path)

    def unavailable(*arguments, **options):
        raise InputError("the weights are gone")

    monkeypatch.setattr("harmony_utils.stages.audit.load_model", unavailable)
    found = again.sensitivity(**SMALL, variants=["gold-mean", "options"])
    assert found.summary["missing_variants"] == {"options": "the weights are gone"}
    assert set(found.table["variant"]) == {"gold-mean"}
    assert "could not be scored: options" in sensitivity_reading(found.summary)
    monkeypatch.undo()
    complete = reopen(tiny_model, quiz, tmp_path).sensitivity(
        **SMALL, variants=["gold-mean", "options"]
    )
    assert set(complete.table["variant"]) == {"gold-mean", "options"}


def test_the_command_prints_its_summary(tiny_model, quiz, tmp_path):
    settings = ("variants=gold-mean", "n_specifications=20", "neighbours=0,4", "n_clusters=0,3")
    given = [part for text in settings for part in ("-p", f"sensitivity.{text}")]
    done = harmony_command(
        "sensitivity", "--model", tiny_model, "--benchmark", quiz, "--out", tmp_path, "--json",
        *given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["n_specifications"] == 20
    assert Path(printed["run_dir"], "sensitivity.parquet").exists()


def test_the_chapter_holds_for_another_model_and_other_choices(tiny_model, quiz, tmp_path):
    papermill.execute_notebook(
        PROJECT / "notebooks" / "08_sensitivity.ipynb",
        tmp_path / "out.ipynb",
        parameters={
            "model": str(tiny_model),
            "benchmark": str(quiz),
            "run_dir": str(tmp_path / "runs"),
            "use_recorded": False,
            "variants": ["gold-mean", "prompt-end"],
            "bandwidths": [0.1],
            "n_clusters": [0, 3],
            "neighbours": [0, 25],
            "n_specifications": 16,
        },
        kernel_name="python3",
        progress_bar=False,
    )
