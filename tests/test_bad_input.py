"""Input that breaks methods: a clear line, or a defined result with a flag. One place for all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harmony_utils.errors import InputError
from harmony_utils.harmony import harmony
from harmony_utils.partition import spectral_partition
from harmony_utils.rebalance import balanced_accuracy, prune_ladder
from harmony_utils.recluster import reclustered_interval
from harmony_utils.similarity import affinity_from_divergence, jeffreys_divergence


def refused(call) -> str:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("function", [harmony, prune_ladder, balanced_accuracy])
def test_one_subdomain(function):
    assert "at least two" in refused(lambda: function([1, 0, 1], [0, 0, 0]))


def test_subdomains_of_one_item_cannot_tell():
    result = harmony([1, 0, 1, 0], [0, 1, 2, 3])
    assert result.verdict == "cannot tell"
    assert math.isfinite(result.harmony)
    assert np.isfinite(result.intervals.harmony).all()
    assert "empties" in refused(lambda: prune_ladder([1, 0, 1, 0], [0, 1, 2, 3], shares=[0.5]))
    mixed = harmony(np.tile([1, 0], 20), [0] * 39 + [1], n_null=200)
    assert mixed.sizes == (39, 1)
    assert mixed.verdict != "uneven"


@pytest.mark.parametrize(("value", "word"), [(1, "right"), (0, "wrong")])
def test_every_answer_alike(value, word):
    correct, labels = np.full(60, float(value)), np.repeat([0, 1, 2], 20)
    result = harmony(correct, labels, n_null=200)
    assert (result.verdict, result.reason) == ("cannot tell", f"every answer is {word}")
    table = prune_ladder(correct, labels, shares=[0.2], n_random=20, n_bootstrap=100)
    assert table.drop(columns="p_value").notna().all(axis=None)
    assert table["p_value"].dropna().eq(1).all()
    assert (table["accuracy"] == value).all()


def test_constant_distributions_have_no_similarity_to_speak_of():
    divergence = jeffreys_divergence(np.log(np.full((5, 4), 0.25)))
    assert not divergence.any()
    assert "identical distributions" in refused(lambda: affinity_from_divergence(divergence))
    affinity, _ = affinity_from_divergence(divergence, temperature=1.0)
    assert "no subdomains to find" in refused(lambda: spectral_partition(affinity))


def test_a_disconnected_graph_is_clustered_and_said():
    found = spectral_partition(np.kron(np.eye(3), np.ones((5, 5))), max_clusters=4)
    assert found.n_components == 3
    assert any("share no similarity" in warning for warning in found.warnings)


def test_fewer_items_than_subdomains():
    affinity = 0.2 + 0.8 * np.eye(6) + np.diag(np.full(5, 0.3), 1) + np.diag(np.full(5, 0.3), -1)
    assert "n_clusters 8" in refused(lambda: spectral_partition(affinity, n_clusters=8))
    assert spectral_partition(affinity, max_clusters=20).n_clusters <= 5
    assert "at least three items" in refused(lambda: spectral_partition(np.eye(2)))
    assert "at least six" in refused(lambda: reclustered_interval(np.eye(4), [1, 0, 1, 0]))


def test_nan_in_a_distribution_is_named_by_its_row():
    logs = np.log(np.full((4, 3), 1 / 3))
    logs[2, 1] = np.nan
    assert "row 2: holds NaN" in refused(lambda: jeffreys_divergence(logs))


def test_nan_in_an_affinity_and_in_answers():
    affinity = np.eye(4)
    affinity[0, 1] = affinity[1, 0] = np.nan
    assert "NaN" in refused(lambda: spectral_partition(affinity))
    assert "row 1: is nan" in refused(lambda: harmony([1, math.nan, 0], [0, 1, 1]))
