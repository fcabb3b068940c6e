"""One configuration class: unknown names and wrong types are refused in words."""

from __future__ import annotations

import pytest

from harmony_utils.errors import InputError
from harmony_utils.settings import (
    SECTIONS,
    STAGES,
    AuditSettings,
    PredictionsSettings,
    parse_assignments,
    stage_settings,
)


def test_assignments_reach_their_stage():
    settings = parse_assignments(
        ["harmony.bandwidth=0.2", "rebalancing.shares=0.1,0.3", "affinity.temperature=0.3"]
    )
    assert settings.harmony.bandwidth == 0.2
    assert settings.rebalancing.shares == [0.1, 0.3]
    assert settings.affinity.temperature == 0.3
    assert settings.clustering == AuditSettings().clustering


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("harmony.bandwith=1", "unknown parameter 'harmony.bandwith': harmony has bandwidth"),
        ("harmonie.bandwidth=1", "unknown stage 'harmonie'"),
        ("bandwidth=1", "write it as stage.name=value"),
        ("harmony.bandwidth", "write it as stage.name=value"),
        ("harmony.bandwidth=wide", "cannot be 'wide'"),
        ("harmony.bandwidth=0", "greater than 0"),
        ("harmony.bandwidth=nan", "cannot be 'nan'"),
        ("harmony.bandwidth=inf", "finite number"),
        ("clustering.min_clusters=30", r"lies below clustering\.min_clusters, 30"),
        ("clustering.max_clusters=1", "greater than or equal to 2"),
        ("affinity.temperature=-1", "positive number or 'median'"),
        ("affinity.temperature=hot", "cannot be 'hot'"),
        ("predictions.variant=gold", "should be 'gold-mean'"),
        ("rebalancing.shares=0.3,0.1", "rise strictly"),
        ("rebalancing.shares=", "cannot be"),
        ("clustering.n_clusters=2.5", "valid integer"),
        ("clustering.assign_labels=spectral", "'kmeans'"),
        ("affinity.neighbours=-1", "greater than or equal to 0"),
        ("sensitivity.bandwidths=0.1,0", "positive numbers"),
        ("sensitivity.bandwidths=0.1,0.1", "none twice"),
        ("sensitivity.temperature_factors=inf", "finite number"),
        ("sensitivity.n_clusters=1,2", "one subdomain has no HARMONY"),
        ("sensitivity.seeds=-1", "no negative number"),
        ("sensitivity.variants=", "should be 'gold-mean'"),
        ("sensitivity.variants=gold-mean,gold", "should be 'gold-mean'"),
        ("sensitivity.neighbours=many", "valid integer"),
    ],
)
def test_wrong_assignments_get_one_clear_line(assignment, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_assignments([assignment])
    assert "\n" not in str(caught.value)


def test_a_command_refuses_sections_that_it_does_not_use():
    with pytest.raises(InputError, match="not used here, only predictions"):
        parse_assignments(["sensitivity.seeds=1"], sections=STAGES)
    listed = parse_assignments(["sensitivity.seeds=1,2"]).sensitivity
    assert listed.seeds == [1, 2]


def test_a_setting_added_later_leaves_finished_runs_valid():
    assert "neighbours" not in stage_settings("affinity").identity()
    assert stage_settings("affinity", neighbours=5).identity()["neighbours"] == 5
    assert "assign_labels" not in stage_settings("clustering").identity()
    assert stage_settings("clustering", assign_labels="cluster_qr").identity() != (
        stage_settings("clustering").identity()
    )


def test_switches_are_no_numbers():
    with pytest.raises(InputError, match="not true/false"):
        stage_settings("clustering", n_clusters=True)


def test_every_setting_is_explained():
    for stage in SECTIONS:
        for name, field in AuditSettings.model_fields[stage].annotation.model_fields.items():
            assert field.description, f"{stage}.{name}"


def test_settings_of_execution_do_not_change_the_identity():
    fast = PredictionsSettings(batch_size=64, device="cpu", padding_side="right")
    assert fast.identity() == PredictionsSettings().identity()
    assert PredictionsSettings(few_shot=1).identity() != PredictionsSettings().identity()
