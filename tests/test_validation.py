"""Validation against a known truth: rankings, composed variants, simulator, recorded figures."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from harmony_utils import harmony_score, redundantqa
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item
from harmony_utils.partition import REPEATABLE_ARI, spectral_partition
from harmony_utils.settings import HarmonySettings
from harmony_utils.similarity import affinity_from_divergence, group_auc, jeffreys_divergence
from harmony_utils.sources import load_benchmark
from harmony_utils.spectral import cluster_affinity
from harmony_utils.stability import resample_agreement
from harmony_utils.validation import (
    compose_variants,
    composed_table,
    estimate_harmony,
    known_benchmark,
    option_divergence,
    rank_across_domains,
    rank_within_groups,
    recorded_table,
    recovery,
    same_text,
    simulate_benchmark,
    simulated_table,
    word_overlap,
)

ROLES = ["reference", "paraphrase", "paraphrase", "lookalike", "lookalike"]


def blocks(n_blocks: int, size: int) -> np.ndarray:
    return np.kron(np.eye(n_blocks), np.ones((size, size)))


# pairs ------------------------------------------------------------------------------------------


def one_group(paraphrases: list[float], lookalikes: list[float]) -> np.ndarray:
    matrix = np.full((5, 5), 0.5)
    matrix[0, 1:] = matrix[1:, 0] = [*paraphrases, *lookalikes]
    return matrix


@pytest.mark.parametrize(
    ("paraphrases", "lookalikes", "auc"),
    [
        ([0.9, 0.8], [0.1, 0.2], 1),
        ([0.1, 0.2], [0.9, 0.8], 0),
        ([0.5, 0.5], [0.5, 0.5], 0.5),
        ([0.9, 0.1], [0.5, 0.5], 0.5),
        ([0.9, 0.5], [0.5, 0.1], 7 / 8),  # .9 beats both; .5 ties with one and beats the other
    ],
)
def test_a_group_by_hand(paraphrases, lookalikes, auc):
    found = rank_within_groups(one_group(paraphrases, lookalikes), [1] * 5, ROLES)
    assert found.auc == pytest.approx(auc)
    assert (found.low, found.high, found.n_drawn) == (found.auc, found.auc, 1)


def test_groups_count_alike_and_their_doubt_is_in_the_interval():
    matrix = np.zeros((50, 50))
    for group in range(10):  # six groups right, four wrong
        part = slice(5 * group, 5 * group + 5)
        values = ([0.9, 0.8], [0.1, 0.2]) if group < 6 else ([0.1, 0.2], [0.9, 0.8])
        matrix[part, part] = one_group(*values)
    found = rank_within_groups(matrix, np.repeat(range(10), 5).tolist(), ROLES * 10)
    assert found.auc == pytest.approx(0.6)
    # of ten groups with six right, 95 % of resamples lie within 0.6 -+ 1.96 sqrt(.6 * .4 / 10)
    assert found.low == pytest.approx(0.3, abs=0.051)
    assert found.high == pytest.approx(0.9, abs=0.051)


@pytest.mark.parametrize(
    ("roles", "why"),
    [
        (["reference", "paraphrase", "paraphrase", "paraphrase", "paraphrase"], "lookalike"),
        (["reference", "reference", "paraphrase", "lookalike", "lookalike"], "one reference"),
        (ROLES[:4], "roles: 4 given for 5"),
    ],
)
def test_incomplete_groups_are_refused(roles, why):
    with pytest.raises(InputError, match=why):
        rank_within_groups(np.eye(5), [1] * 5, roles)


def test_domains_by_hand_and_at_the_limits():
    assert rank_across_domains(blocks(2, 3), [0, 0, 0, 1, 1, 1]).auc == 1
    assert rank_across_domains(1 - blocks(2, 3), [0, 0, 0, 1, 1, 1]).auc == 0
    assert rank_across_domains(np.ones((6, 6)), [0, 0, 0, 1, 1, 1]).auc == 0.5


def test_domains_agree_with_the_plain_area_under_the_curve():
    rng = np.random.default_rng(1)
    matrix = np.round(rng.random((30, 30)), 1)  # many ties
    matrix = np.round((matrix + matrix.T) / 2, 2)
    domains = rng.integers(3, size=30).tolist()
    found = rank_across_domains(matrix, domains)
    assert found.auc == pytest.approx(group_auc(matrix, domains))
    assert found.low < found.auc < found.high


def test_what_cannot_be_ranked_is_refused():
    with pytest.raises(InputError, match="at least two"):
        rank_across_domains(np.eye(3), ["a", "a", "a"])
    with pytest.raises(InputError, match="two items in one"):
        rank_across_domains(np.eye(3), ["a", "b", "c"])
    with pytest.raises(InputError, match="NaN"):
        rank_across_domains(np.full((3, 3), np.nan), ["a", "a", "b"])
    with pytest.raises(InputError, match="row 1: is missing"):
        rank_across_domains(np.eye(3), ["a", None, "b"])
    with pytest.raises(InputError, match="square"):
        rank_across_domains(np.eye(3)[:2], ["a", "b", "c"])


def test_words_and_answers_by_hand():
    # words {a, b, c} and pairs {a b, b c} against {b, c} and {b c}: 3 of 5
    assert word_overlap(["a b c", "B, C!"])[0, 1] == pytest.approx(3 / 5)
    assert word_overlap(["x", ""])[1, 1] == 0
    with pytest.raises(InputError, match="no word"):
        word_overlap(["", "?"])
    assert same_text(["Iron", " iron ", "gold"]).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_options_are_compared_by_likelihood_not_by_place():
    divergence = option_divergence([[0, -1, -9], [-9, 0, -1], [-1, 0, -9]], [0, 1, 0])
    assert divergence[0, 1] == pytest.approx(0, abs=1e-6)
    assert divergence[0, 2] > 0.5


# choice of the number ---------------------------------------------------------------------------


def test_stability_finds_the_number_of_clean_blocks():
    found = spectral_partition(
        0.9 * blocks(5, 16) + 0.1, selection="stability", max_clusters=8, n_stability=2
    )
    assert found.n_clusters == 5
    assert found.selected_by == "stability"
    assert found.stabilities[5] == 1
    assert max(value for k, value in found.stabilities.items() if k > 5) < REPEATABLE_ARI
    assert type(found).from_dict(found.to_dict()).stabilities == found.stabilities


def test_agreement_of_resamples_is_that_of_one_number_alone():
    made = simulate_benchmark(n_items=80, n_domains=2, separation=0.3)
    affinity, _ = affinity_from_divergence(jeffreys_divergence(made.log_probabilities))
    many = resample_agreement(affinity, [2, 3, 4], n_resamples=4)
    assert many[2] == resample_agreement(affinity, [2], n_resamples=4)[2]
    with pytest.raises(InputError, match="fewer clusters"):
        resample_agreement(affinity, [2, 70], n_resamples=4)


# simulator and composed variants ----------------------------------------------------------------


def test_the_simulator_says_the_truth():
    made = simulate_benchmark(n_items=4000, n_domains=3, separation=1, random_state=5)
    sizes = np.bincount(made.domains)
    assert sizes.min() >= 10
    assert made.harmony == harmony_score(sizes, made.accuracies)
    observed = np.bincount(made.domains, weights=made.correct) / sizes
    np.testing.assert_allclose(observed, made.accuracies, atol=0.06)
    np.testing.assert_allclose(np.exp(made.log_probabilities).sum(axis=1), 1, atol=1e-9)
    again = simulate_benchmark(n_items=4000, n_domains=3, separation=1, random_state=5)
    assert np.array_equal(again.correct, made.correct)


def test_without_separation_nothing_is_found():
    found = simulated_table(
        [simulate_benchmark(n_items=200, separation=0, random_state=s) for s in range(4)],
        max_clusters=4,
    )
    assert found["ami"].abs().max() < 0.1


def test_the_pipeline_recovers_harmony_where_domains_are_apart():
    """The promise of the whole method, with enough items for the noise in accuracies."""
    made = [
        simulate_benchmark(n_items=2400, separation=0.8, n_outcomes=100, random_state=seed)
        for seed in range(10)
    ]
    table = simulated_table(made, max_clusters=5)
    assert table["ami"].min() > 0.9
    for estimate in ("known number", "chosen number", "corrected"):
        found = recovery(table["truth"], table[estimate])
        assert found["r"] >= 0.95, estimate
    assert recovery(table["truth"], table["random"])["r"] < 0.6


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"n_domains": 1}, "two domains"),
        ({"n_items": 60}, "items for each"),
        ({"separation": 1.1}, "between 0 and 1"),
    ],
)
def test_impossible_simulations_are_refused(options, why):
    with pytest.raises(InputError, match=why):
        simulate_benchmark(**options)


DOMAINS = ["a"] * 60 + ["b"] * 60 + ["c"] * 60


def test_composed_variants_have_the_harmony_of_their_own_answers():
    answers = np.random.default_rng(0).integers(2, size=(2, 180)).astype(float)
    for number, variant in enumerate(
        compose_variants(DOMAINS, answers, n_variants=4, sizes=(80, 120))
    ):
        codes = variant.items // 60
        sizes = np.bincount(codes)
        right = answers[number % 2][variant.items]
        assert sizes.min() >= 10
        assert np.array_equal(variant.correct, right)
        assert variant.harmony == harmony_score(sizes, np.bincount(codes, weights=right) / sizes)
        assert len(np.unique(variant.items)) == len(variant.items)


def test_a_perfect_similarity_gives_the_known_subdomains():
    divergence = 4 * (1 - blocks(3, 60))
    variants = compose_variants(DOMAINS, n_variants=6, sizes=(80, 120))
    table = composed_table(divergence, DOMAINS, variants, max_clusters=4)
    assert (table["ami"] == 1).all()
    np.testing.assert_allclose(table["known number"], table["true domains"])
    assert (table["n_clusters"] == 3).all()


def test_an_estimate_uses_the_number_of_domains_that_are_there():
    labels = np.repeat([0, 1, 2], 20)
    found = estimate_harmony(0.9 * blocks(3, 20) + 0.1, np.tile([0.0, 1.0], 30), labels)
    assert found["known number"] == pytest.approx(1)
    assert found["random"] <= 1


@pytest.mark.parametrize(
    ("domains", "answers", "sizes", "why"),
    [
        (["a"] * 60, None, (30, 40), "at least two"),
        (["a"] * 60 + ["b"] * 5, None, (30, 40), "10 items each"),
        (DOMAINS, None, (20, 40), "sizes"),
        (DOMAINS, None, (90, 900), "sizes"),
        (DOMAINS, np.ones((1, 7)), (80, 90), "180 long"),
        (DOMAINS, np.full((1, 180), np.nan), (80, 90), "between 0 and 1"),
    ],
)
def test_impossible_compositions_are_refused(domains, answers, sizes, why):
    with pytest.raises(InputError, match=why):
        compose_variants(domains, answers, sizes=sizes)


def test_recovery_by_hand():
    found = recovery([0, 1, 2, 3], [1, 3, 5, 7])
    assert (found["r"], found["rho"]) == pytest.approx((1, 1))
    assert found["slope"] == pytest.approx(2)
    assert found["bias"] == pytest.approx(2.5)
    assert found["rmse"] == pytest.approx(np.sqrt((1 + 4 + 9 + 16) / 4))
    assert recovery([0, 1, 2], [2, 1, 0])["r"] == pytest.approx(-1)
    for truth, estimate, why in (
        ([0, 1], [0, 1], "three"),
        ([0, 1, 2], [1, 1, 1], "same for all"),
        ([0, 1, np.nan], [0, 1, 2], "NaN"),
    ):
        with pytest.raises(InputError, match=why):
            recovery(truth, estimate)


# benchmarks -------------------------------------------------------------------------------------


def test_so_many_items_of_each_subject():
    items = tuple(
        Item(f"{s}{i}", f"What is {s} {i}?", ("x", "y"), 0, subject=s)
        for s, n in (("a", 9), ("b", 3))
        for i in range(n)
    )
    small = Benchmark("quiz", items).sample_subjects(4)
    assert pd.Series(small.subjects).value_counts().to_dict() == {"a": 4, "b": 3}
    assert [item.id for item in small.items] == sorted(item.id for item in small.items)
    assert small.fingerprint() == Benchmark("quiz", items).sample_subjects(4).fingerprint()
    with pytest.raises(InputError, match="positive"):
        Benchmark("quiz", items).sample_subjects(0)
    with pytest.raises(InputError, match="no subject"):
        Benchmark("quiz", (Item("q", "Why?", ("x", "y"), 0),)).sample_subjects(1)


# what is recorded -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def similarities():
    return recorded_table("similarities").set_index(["benchmark", "similarity", "model"])


def test_recorded_redundantqa_is_the_one_that_is_packaged():
    known, benchmark = known_benchmark("redundantqa"), load_benchmark("redundantqa")
    assert known.answers["key"].tolist() == benchmark.keys()
    assert known.domains == benchmark.subjects
    with pytest.raises(InputError, match="there are mmlu_4, redundantqa"):
        known_benchmark("mmlu")
    with pytest.raises(InputError, match="the models are"):
        known.divergence("gpt")


@pytest.mark.parametrize("name", ["redundantqa", "mmlu_4"])
@pytest.mark.parametrize("model", ["smollm2-135m", "gemma3-270m"])
def test_recorded_figures_follow_from_the_recorded_divergences(name, model, similarities):
    known = known_benchmark(name)
    row = similarities.loc[name, "answer distribution", model]
    affinity, _ = affinity_from_divergence(known.divergence(model))
    assert group_auc(affinity, known.domains) == pytest.approx(row["domain_auc"], abs=1e-4)
    labels = cluster_affinity(affinity, 4)
    agreement = adjusted_mutual_info_score(known.domains, labels)
    assert agreement == pytest.approx(row["ami"], abs=0.02)
    if name == "redundantqa":
        table = redundantqa.groups(load_benchmark(name))
        found = rank_within_groups(affinity, table["group"].tolist(), table["role"].tolist())
        assert found.auc == pytest.approx(row["pair_auc"], abs=1e-4)


def test_subjects_of_mmlu_are_found_with_four_clusters():
    """The floor of what was measured: four subjects, four clusters, two small models."""
    for model, floor in (("smollm2-135m", 0.5), ("gemma3-270m", 0.55)):
        affinity, _ = affinity_from_divergence(known_benchmark("mmlu_4").divergence(model))
        labels = cluster_affinity(affinity, 4)
        domains = known_benchmark("mmlu_4").domains
        assert adjusted_mutual_info_score(domains, labels) >= floor, model


def test_likelihoods_of_options_hold_no_subject(similarities):
    rows = similarities.xs("option likelihoods", level="similarity")
    assert (rows["ami"] < 0.15).all()


def test_recorded_simulations_reach_what_the_method_promises():
    table = recorded_table("simulated")
    best = table[(table["n_items"] >= 1500) & (table["separation"] >= 0.5)]
    assert len(best)
    assert (best["r"] >= 0.95).all()


# the chapter ------------------------------------------------------------------------------------


def test_the_chapter_starts_from_the_defaults():
    path = Path(__file__).resolve().parent.parent / "notebooks" / "07_validation.ipynb"
    found = papermill.inspect_notebook(str(path))
    defaults = {name: ast.literal_eval(about["default"]) for name, about in found.items()}
    settings = HarmonySettings()
    assert defaults["bandwidth"] == settings.bandwidth
    assert defaults["random_state"] == settings.random_state
    assert defaults["model"] in known_benchmark("mmlu_4").models
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) <= 30
    for cell in code:
        parameters = "parameters" in cell.metadata.get("tags", [])
        assert parameters or len(cell.source.splitlines()) <= 15, cell.source
        assert not cell.outputs or "keep_output" in cell.metadata.get("tags", [])
    text = "\n".join(cell.source for cell in notebook.cells)
    assert text.count("{exercise}") >= 2
    assert text.count("{solution-start}") == text.count("{exercise}")
