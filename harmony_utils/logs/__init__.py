"""Evaluation logs of other tools → the canonical table of predictions; no model is loaded."""

from harmony_utils.logs.importing import Import, ImportedLog, formats, import_logs, read_logs
from harmony_utils.logs.join import Run, common_items, join_models, merge_tasks
from harmony_utils.logs.rows import Flag, LogHeader, LogRow

__all__ = [
    "Flag",
    "Import",
    "ImportedLog",
    "LogHeader",
    "LogRow",
    "Run",
    "common_items",
    "formats",
    "import_logs",
    "join_models",
    "merge_tasks",
    "read_logs",
]
