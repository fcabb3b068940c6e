"""Every figure is drawn without a warning, inside its frame, with a telling alternative text."""

import re
import warnings
from functools import lru_cache
from html import escape

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from harmony_utils import plots
from harmony_utils.card import Criterion, Evidence, calibration_error, judge
from harmony_utils.comparison import compare_partitions
from harmony_utils.difficulty import audit_difficulty, simulate_panel, uniform_target
from harmony_utils.errors import InputError
from harmony_utils.filling import Budget, TextSpace
from harmony_utils.filling.experiments import simulate_filling
from harmony_utils.framing import choices_by_position, compare_conditions
from harmony_utils.harmony import harmony, subdomain_table
from harmony_utils.partition import random_partition, spectral_partition
from harmony_utils.plane import benchmark_plane
from harmony_utils.plots.style import WIDTH, plain_text
from harmony_utils.plots.trends import count_text
from harmony_utils.rebalance import prune_ladder
from harmony_utils.scaling import scaling_table
from harmony_utils.sensitivity import multiverse
from harmony_utils.settings import (
    ClusteringSettings,
    HarmonySettings,
    PlaneSettings,
    SensitivitySettings,
)
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence
from harmony_utils.sources import load_benchmark
from harmony_utils.spectral import spectral_embedding
from harmony_utils.stages.panel import panel_answers

RNG = np.random.default_rng(0)
GROUPS = np.repeat(range(4), [40, 30, 20, 10])
LOGITS = RNG.normal(size=(4, 50))[GROUPS] + RNG.normal(size=(100, 50))
DIVERGENCE = jeffreys_divergence(LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True)))
AFFINITY, TEMPERATURE = affinity_from_divergence(DIVERGENCE)
PARTITION = spectral_partition(AFFINITY, max_clusters=8, n_stability=2)
CORRECT = (np.random.default_rng(1).random(100) < np.array([0.8, 0.6, 0.5, 0.3])[GROUPS]) * 1.0
MANY = np.arange(100) % 20
LENGTHS = np.array([[3, 9, 5, 7], [4, 1, 2, np.nan], [8, 6, 4, 2]] * 20, dtype=float)
PANEL = simulate_panel(12, 60, random_state=1, wrong_keys=0.05)
DIFFICULTY = audit_difficulty(PANEL.responses, n_draws=60, targets=[uniform_target(-3, 3)])
EXAMPLE = (
    "Which organ pumps blood for $5?",
    [" heart", " lung", "\n", "心"],
    [0.6, 0.2, 0.1, 0.05],
)


@lru_cache
def filling_trial():
    quiz = load_benchmark("redundantqa").sample(60)
    budget = Budget(proposals=15, measured=8, rounds=1)
    return simulate_filling(quiz, TextSpace("hashed"), n_models=20, budget=budget)


def runs(**axis):
    return [
        {
            "model": f"{family}-{i}",
            "family": family,
            "benchmark": "toy",
            "accuracy": 0.4 + 0.1 * i,
            "harmony": 0.9 - 0.1 * i,
            "n_clusters": 4,
            "n_items": 100,
            **{name: values[i] for name, values in axis.items()},
        }
        for family in ("Gemma 3", "Qwen3")
        for i in range(3)
    ]


def specification_table(**grid):
    """A multiverse in which some specifications are undefined: 100 items have no 100 others."""
    settings = SensitivitySettings(**{"neighbours": [0, 8, 100], "n_specifications": 40, **grid})
    return multiverse(
        {"gold-mean": DIVERGENCE},
        CORRECT,
        settings=settings,
        clustering=ClusteringSettings(max_clusters=4),
        harmony=HarmonySettings(n_null=100),
    )


@lru_cache(maxsize=1)
def plane_table() -> pd.DataFrame:
    """Three recorded benchmarks on the plane."""
    settings = PlaneSettings(n_null=100, n_bootstrap=100, n_matched=20, n_matched_draws=20)
    answers = panel_answers(["copa", "openbookqa", "commitment_bank"])
    return benchmark_plane(answers, settings).table


FIGURES = {
    "answer_margins": lambda: plots.answer_margins(RNG.gamma(2, size=100), CORRECT),
    "answer_margins, none wrong": lambda: plots.answer_margins(np.zeros(5), np.ones(5)),
    "option_length_effect": lambda: plots.option_length_effect(
        LENGTHS, {"sum": np.array([0, 1, -1] * 20), "char": np.array([1, 1, 0] * 20)}
    ),
    "option_length_effect, two options": lambda: plots.option_length_effect(
        LENGTHS[:, :2], {"sum": np.zeros(60, dtype=int)}
    ),
    "distribution_examples": lambda: plots.distribution_examples([EXAMPLE] * 5),
    "distribution_examples, one": lambda: plots.distribution_examples([EXAMPLE]),
    "divergence_histogram": lambda: plots.divergence_histogram(DIVERGENCE, temperature=TEMPERATURE),
    "affinity_heatmap": lambda: plots.affinity_heatmap(AFFINITY, PARTITION.labels),
    "affinity_heatmap, no labels": lambda: plots.affinity_heatmap(AFFINITY),
    "cluster_choice": lambda: plots.cluster_choice(PARTITION),
    "cluster_choice, all numbers": lambda: plots.cluster_choice(
        spectral_partition(AFFINITY[:4, :4], n_stability=2)
    ),
    "partition_comparison": lambda: plots.partition_comparison(
        compare_partitions(
            CORRECT,
            {"own": GROUPS, "a model with a very long name": MANY, "$halves$": MANY < 10},
            "own",
            n_null=200,
        )
    ),
    "partition_comparison, one": lambda: plots.partition_comparison(
        compare_partitions(CORRECT, {"own": GROUPS}, "own", n_null=200)
    ),
    "embedding_scatter": lambda: plots.embedding_scatter(
        spectral_embedding(AFFINITY, n_components=4)[1], PARTITION.labels
    ),
    "embedding_scatter, twenty": lambda: plots.embedding_scatter(
        spectral_embedding(AFFINITY, n_components=2)[1], MANY
    ),
    "subdomain_accuracy": lambda: plots.subdomain_accuracy(subdomain_table(CORRECT, GROUPS)),
    "subdomain_accuracy, twenty": lambda: plots.subdomain_accuracy(subdomain_table(CORRECT, MANY)),
    "harmony_mass_bars": lambda: plots.harmony_mass_bars(subdomain_table(CORRECT, GROUPS)),
    "harmony_mass_bars, names": lambda: plots.harmony_mass_bars(
        subdomain_table(
            CORRECT, np.array(["law", "a very long name of a subject indeed"])[MANY % 2]
        )
    ),
    "harmony_null": lambda: plots.harmony_null(harmony(CORRECT, GROUPS, n_null=200)),
    "harmony_null, constant": lambda: plots.harmony_null(harmony(np.ones(100), GROUPS, n_null=100)),
    "harmony_interval": lambda: plots.harmony_interval(harmony(CORRECT, GROUPS, n_null=200)),
    "harmony_interval, constant": lambda: plots.harmony_interval(
        harmony(np.ones(100), GROUPS, n_null=100)
    ),
    "bandwidth_curve": lambda: plots.bandwidth_curve([4, 3, 2, 1], [0.8, 0.6, 0.5, 0.3]),
    "pruning_ladder": lambda: plots.pruning_ladder(
        prune_ladder(CORRECT, GROUPS, shares=[0.1, 0.3, 0.5], n_random=20)
    ),
    "scaling_trend": lambda: plots.scaling_trend(
        scaling_table(runs(parameters=[1.35e8, None, 1.7e9]))
    ),
    "scaling_trend, layers": lambda: plots.scaling_trend(scaling_table(runs(layer=[4, 8, 12]))),
    "specification_curve": lambda: plots.specification_curve(specification_table()),
    "specification_curve, one": lambda: plots.specification_curve(
        specification_table(
            temperature_factors=[1],
            neighbours=[0],
            n_clusters=[0],
            assign_labels=["kmeans"],
            seeds=[0],
            bandwidths=[0.1],
        )
    ),
    "verdicts_by_choice": lambda: plots.verdicts_by_choice(specification_table()),
    "benchmark_plane": lambda: plots.benchmark_plane(plane_table()),
    "plane_verdicts": lambda: plots.plane_verdicts(plane_table()),
    "plane_means": lambda: plots.plane_means(
        plane_table().set_index("benchmark")[["mean", "mean_matched"]]
    ),
    "item_curves": lambda: plots.item_curves(DIFFICULTY.fit, DIFFICULTY.fit.items[:4]),
    "item_curves, one": lambda: plots.item_curves(DIFFICULTY.fit, ["item-7"]),
    "information_curve": lambda: plots.information_curve(DIFFICULTY.information, DIFFICULTY.target),
    "wright_map": lambda: plots.wright_map(DIFFICULTY.fit, DIFFICULTY.posterior),
    "band_shares": lambda: plots.band_shares(DIFFICULTY.bands),
    "gap_chart": lambda: plots.gap_chart(DIFFICULTY.posterior, DIFFICULTY.target, DIFFICULTY.gaps),
    "aimed_and_measured": lambda: plots.aimed_and_measured(filling_trial().filling),
    "originals_and_additions": lambda: plots.originals_and_additions(
        np.linspace(-3, 0.5, 60),
        np.array([1.0, 1.2, 1.9]),
        filling_trial().target,
        filling_trial().filling,
    ),
    "aim_by_panel": lambda: plots.aim_by_panel(
        pd.DataFrame(
            {
                "how": ["aimed, measured", "random, measured"] * 4,
                "n_models": np.repeat([12, 40], 4),
                "hits": [0.5, 0.1, 0.4, 0.2, 0.6, 0.1, 0.7, 0.0],
                "n": [20, 20, 10, 10, 4, 20, 20, 2],
            }
        )
    ),
    "condition_scores": lambda: plots.condition_scores(conditions(), heading="Scores"),
    "condition_ranks": lambda: plots.condition_ranks(conditions(), heading="Ranks"),
    "metric_steps": lambda: plots.metric_steps(
        {"accuracy": [0.2, 0.3, 0.9], "log score": [-3.0, -2.0, -1.0]},
        ["5", "$", "30"],
        axis="layer",
    ),
    "position_choices": lambda: plots.position_choices(places_chosen(), heading="Places"),
    "method_overview": plots.method_overview,
    "ranking_forest": lambda: plots.ranking_forest(rankings(), heading="Which is above?"),
    "number_agreement": lambda: plots.number_agreement(agreements(), rankings()),
    "truth_scatter": lambda: plots.truth_scatter(
        {"redundantqa": truths(), "mmlu_4": truths()}, estimate="known number"
    ),
    "truth_scatter, one": lambda: plots.truth_scatter({"$": truths()}, estimate="known number"),
    "recovery_lines": lambda: plots.recovery_lines(recoveries()),
    "criteria_chart": lambda: plots.criteria_chart(judgements()),
    "criteria_chart, no interval": lambda: plots.criteria_chart(judgements()[-2:]),
    "reliability_curve": lambda: plots.reliability_curve(
        calibration_error(RNG.random(100), CORRECT)
    ),
    "reliability_curve, one bin": lambda: plots.reliability_curve(
        calibration_error(np.ones(5), np.ones(5), n_bins=1)
    ),
}


def conditions():
    chance = np.random.default_rng(7)
    rows = [
        (way, model, item, float(chance.random() < ability))
        for way in ("cloze", "letter-with-a-very-long-name", "$")
        for model, ability in (("one", 0.6), ("a-model-with-a-rather-long-name", 0.5), ("$3", 1.0))
        for item in range(40)
    ]
    values = pd.DataFrame(rows, columns=["condition", "model", "key", "value"])
    return compare_conditions(values, baseline="cloze", n_draws=200)


def places_chosen():
    answers = pd.DataFrame(
        {"n_options": 4, "gold": [[0], [1], [2], [3]], "prediction": [0, 0, 0, 3]}
    )
    counted = choices_by_position(answers)
    return pd.concat([counted.assign(series=name) for name in ("one", "$")])


def judgements():
    """A criterion of each verdict, with a bound that is kept exactly, and one not measured."""
    ends = [(0.6, 0.55, 0.65, 0.5), (0.6, 0.55, 0.65, 0.6), (0.6, 0.55, 0.65, 0.7)]
    name = "a model with a very long $name$ indeed"
    found = [
        judge(
            Criterion(measure="accuracy", at_least=bound),
            Evidence("accuracy", name, "quiz", value=value, low=low, high=high, n=100),
        )
        for value, low, high, bound in ends
    ]
    seconds = Criterion(measure="seconds_per_question", at_most=2)
    plain = Evidence("seconds_per_question", "m", "quiz", value=2.0, n=100)
    missing = Evidence("harmony", "m", "quiz", missing="no HARMONY was computed")
    harmonious = Criterion(measure="harmony", at_least=0.9)
    return [*found, judge(seconds, plain), judge(harmonious, missing)]


def rankings():
    table = pd.DataFrame(
        {
            "similarity": ["answer distribution", "MiniLM of question and answer"],
            "model": ["smollm2-135m", np.nan],
            "pair_auc": [0.7, 0.2],
            "pair_low": [0.6, 0.1],
            "pair_high": [0.8, 0.3],
        }
    )
    return table.assign(k_silhouette=2, k_eigengap=3, k_stability=4)


def agreements():
    numbers = pd.DataFrame({"n_clusters": [2, 3, 4, 5], "ami": [0.1, 0.3, 0.5, 0.4]})
    rows = rankings()[["similarity", "model"]].to_dict("records")
    return pd.concat([numbers.assign(**row) for row in rows])


def truths():
    rng = np.random.default_rng(2)
    return pd.DataFrame(rng.random((30, 3)), columns=["truth", "known number", "random"])


def recoveries():
    lines = pd.DataFrame({"separation": [0.0, 0.5, 1.0], "r": [0, 0.5, 0.9]})
    lines = lines.assign(low=lines["r"] - 0.1, high=lines["r"] + 0.05, r_ceiling=0.95)
    return pd.concat([lines.assign(n_items=n) for n in (300, 1500)])


@pytest.fixture(scope="module")
def drawn():
    """Draw every figure once, with warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = {name: draw() for name, draw in FIGURES.items()}
        for figure, _ in results.values():
            FigureCanvasAgg(figure).draw()
    return results


def test_every_public_figure_is_drawn_here():
    displays = {"show", "figure_html"}
    assert {name.partition(",")[0] for name in FIGURES} == set(plots.__all__) - displays


@pytest.mark.parametrize("name", FIGURES)
def test_alternative_text_is_a_sentence_with_numbers(drawn, name):
    alt = drawn[name][1]
    assert len(alt) > 80
    assert alt.endswith(".")
    assert re.search(r"\d", alt)
    assert "nan" not in alt
    assert "np." not in alt


@pytest.mark.parametrize("name", FIGURES)
def test_text_is_readable_and_inside_the_figure(drawn, name):
    figure = drawn[name][0]
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text():
            assert text.get_fontsize() >= 10, text.get_text()
    frame = figure.bbox.padded(6)
    tight = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert frame.x0 <= tight.x0
    assert tight.x1 <= frame.x1
    assert frame.y0 <= tight.y0
    assert tight.y1 <= frame.y1


@pytest.mark.parametrize("name", FIGURES)
def test_card_is_opaque_and_narrow_enough(drawn, name):
    figure = drawn[name][0]
    assert figure.get_facecolor()[3] == 1
    assert figure.get_figwidth() <= (7.5 if name == "method_overview" else WIDTH)


def test_figures_are_closed_for_pyplot(drawn):
    assert drawn
    assert plt.get_fignums() == []


def test_alternative_texts_state_what_the_data_hold():
    table = subdomain_table([1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1])
    alt = plots.subdomain_accuracy(table)[1]
    assert "highest is subdomain 0 with 1.00 (n = 3)" in alt
    assert "lowest is subdomain 1 with 0.00 (n = 3)" in alt
    alt = plots.bandwidth_curve([1, 1, 1, 1], [0.9, 0.8, 0.7, 0.6])[1]
    assert "0.76 at 0.1" in alt
    alt = plots.answer_margins(np.array([1.0, 3.0, np.nan]), np.array([1, 0, 1]))[1]
    assert "1 right answers have a median margin of 1.00 nats" in alt


def test_large_heat_maps_show_a_sample():
    big = np.kron(np.eye(2), np.ones((400, 400))).astype(np.float32)
    figure, alt = plots.affinity_heatmap(big, np.repeat([0, 1], 400))
    assert "a random 600 of 800" in alt
    assert figure.axes[0].images[0].get_array().shape == (600, 600)


def test_refuses_what_cannot_be_drawn():
    with pytest.raises(InputError, match="no number of subdomains was chosen"):
        plots.cluster_choice(random_partition([3, 4]))
    empty = compare_partitions(CORRECT, {"own": GROUPS}, "own", n_null=100).iloc[:0]
    with pytest.raises(InputError, match="no partition to draw"):
        plots.partition_comparison(empty)
    with pytest.raises(InputError, match="none is a number"):
        plots.answer_margins(np.array([np.nan]), np.array([1]))
    with pytest.raises(InputError, match="at least one distribution"):
        plots.distribution_examples([])
    with pytest.raises(InputError, match="none was measured"):
        plots.criteria_chart(judgements()[-1:])
    with pytest.raises(InputError, match="no run has a value"):
        plots.scaling_trend(scaling_table(runs()))


def test_plain_text_shows_what_cannot_be_seen():
    assert plain_text(" the ") == "␣the␣"
    assert plain_text("\n") == "↵"
    assert plain_text("$x$") == r"\$x\$"
    assert plain_text("心") == "□"
    assert plain_text("a" * 30, 5) == "aaaa…"


def test_count_text():
    assert [count_text(v) for v in (1.35e8, 1.7e9, 3e12, 2e3, 12)] == [
        "135M", "1.7B", "3T", "2k", "12",
    ]  # fmt: skip


def test_a_shown_figure_keeps_its_alternative_text():
    figure, alt = plots.answer_margins(np.array([0.5, 1.0]), np.array([1.0, 0.0]))
    html = plots.figure_html(figure, alt + ' "<', caption="5 < 6 & $7")
    assert escape(alt + ' "<') in html
    assert "5 &lt; 6 &amp; $7</figcaption>" in html
    assert "data:image/png;base64,iVBOR" in html


@pytest.mark.parametrize(("alt", "caption"), [("", "found"), ("seen", " ")])
def test_a_figure_without_words_is_refused(alt, caption):
    figure, _ = plots.answer_margins(np.array([0.5, 1.0]), np.array([1.0, 0.0]))
    with pytest.raises(InputError, match="alt text"):
        plots.figure_html(figure, alt, caption=caption)
    with pytest.raises(InputError, match="one to eight of the fitted items"):
        plots.item_curves(DIFFICULTY.fit, ["no such item"])
