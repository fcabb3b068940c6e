"""One configuration class: unknown names and wrong types are refused in words."""

from __future__ import annotations

import pytest

from harmony_utils.errors import InputError
from harmony_utils.settings import (
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
        ("affinity.temperature=-1", "positive number or 'median'"),
        ("affinity.temperature=hot", "cannot be 'hot'"),
        ("predictions.variant=gold", "should be 'gold-mean'"),
        ("rebalancing.shares=0.3,0.1", "rise strictly"),
        ("rebalancing.shares=", "cannot be"),
        ("clustering.n_clusters=2.5", "valid integer"),
    ],
)
def test_wrong_assignments_get_one_clear_line(assignment, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_assignments([assignment])
    assert "\n" not in str(caught.value)


def test_switches_are_no_numbers():
    with pytest.raises(InputError, match="not true/false"):
        stage_settings("clustering", n_clusters=True)


def test_every_setting_is_explained():
    for stage in STAGES:
        for name, field in AuditSettings.model_fields[stage].annotation.model_fields.items():
            assert field.description, f"{stage}.{name}"


def test_settings_of_execution_do_not_change_the_identity():
    fast = PredictionsSettings(batch_size=64, device="cpu", padding_side="right")
    assert fast.identity() == PredictionsSettings().identity()
    assert PredictionsSettings(few_shot=1).identity() != PredictionsSettings().identity()
