"""The stages of an audit: each one loaded if it is there, else computed and kept.

Notebooks open an audit and ask it for results. What a stage needs is looked up in the run
folder, then in the results recorded with this project, and computed only if neither has it.
"""

from harmony_utils.stages.audit import Audit, open_audit
from harmony_utils.stages.competitors import Competitors, competing_partitions
from harmony_utils.stages.filling import fill_benchmark, save_filling
from harmony_utils.stages.framing import (
    FramingStudy,
    ask_framings,
    framing_study,
    read_framings,
    recorded_framing_models,
)
from harmony_utils.stages.given import GivenAudit, audit_given, given_partition
from harmony_utils.stages.panel import (
    panel_answers,
    recorded_about,
    recorded_benchmarks,
    recorded_panel,
    run_answers,
)
from harmony_utils.stages.results import (
    Affinity,
    Rebalancing,
    Scaling,
    Sensitivity,
    recorded_calibration,
    recorded_difficulty_calibration,
    recorded_false_alarms,
    recorded_large_affinity,
    recorded_suspected_keys,
)
from harmony_utils.stages.steps import STEPS, Step

__all__ = [
    "STEPS",
    "Affinity",
    "Audit",
    "Competitors",
    "FramingStudy",
    "GivenAudit",
    "Rebalancing",
    "Scaling",
    "Sensitivity",
    "Step",
    "ask_framings",
    "audit_given",
    "competing_partitions",
    "fill_benchmark",
    "framing_study",
    "given_partition",
    "open_audit",
    "panel_answers",
    "read_framings",
    "recorded_about",
    "recorded_benchmarks",
    "recorded_calibration",
    "recorded_difficulty_calibration",
    "recorded_false_alarms",
    "recorded_framing_models",
    "recorded_large_affinity",
    "recorded_panel",
    "recorded_suspected_keys",
    "run_answers",
    "save_filling",
]
