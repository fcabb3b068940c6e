"""The commands for evaluation logs of other tools: ``harmony import`` and ``harmony export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from harmony_utils.errors import InputError
from harmony_utils.terminal import err, new_table, out

if TYPE_CHECKING:
    from harmony_utils.logs import Import
    from harmony_utils.settings import AuditSettings

Paths = Annotated[list[str], typer.Argument(help="Files, folders or globs; .gz and .zst too.")]
Out = Annotated[Path | None, typer.Option("--out", help="Run root; default: runs/logs.")]
Format = Annotated[str, typer.Option("--format", help="Name of the format; told by the content.")]
GoldFrom = Annotated[str, typer.Option("--gold-from", help="How to read the correct option.")]
Norm = Annotated[
    str, typer.Option("--norm", help="sum, char, byte, token or pmi: how options are compared.")
]
Accept = Annotated[
    bool,
    typer.Option("--accept-disagreement", help="Import although logged scores are not reproduced."),
]
Merge = Annotated[
    bool, typer.Option("--merge-different", help="Join runs with different templates or shots.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the ``harmony`` command."""
    app.command("import")(import_command)
    app.command("export")(export_command)


def import_command(
    paths: Paths,
    out_dir: Out = None,
    log_format: Format = "",
    gold_from: GoldFrom = "",
    norm: Norm = "",
    accept_disagreement: Accept = False,
    merge_different: Merge = False,
    as_json: JsonFlag = False,
) -> None:
    """Read evaluation logs of other tools into run folders; no model is loaded."""
    from harmony_utils.logs import read_logs
    from harmony_utils.stages.from_logs import save_log_run

    found = read_logs(
        paths, log_format=log_format, gold_from=gold_from, normalisation=norm,
        merge_different=merge_different,
    )  # fmt: skip
    show_import(found, as_json=as_json)
    if not accept_disagreement:
        found.check()
    for run in found.runs:
        _written(save_log_run(run, root=out_dir), as_json=as_json)


def audit_from_logs(
    paths: list[str], out_dir: Path | None, settings: AuditSettings, partition: str, as_json: bool
) -> None:
    """Audit evaluation logs: ``harmony audit --from-logs``."""
    from harmony_utils.files import json_values
    from harmony_utils.logs import import_logs
    from harmony_utils.stages.from_logs import audit_logs, save_log_audit

    if not paths:
        raise InputError("--from-logs: name at least one file or folder")
    found = import_logs(paths, keep_texts=True)
    audits, refused = audit_logs(found, partition=partition, settings=settings)
    shown = []
    for audit in audits:
        folder = save_log_audit(audit, root=out_dir)
        shown.append({**json_values(audit.to_dict()), "run_dir": str(folder)})
        _written(folder, as_json=as_json)
    for reason in refused.values():
        err.print(f"not audited: {reason}", soft_wrap=True, markup=False, highlight=False)
    if as_json:
        about = {**found.to_dict(), "audits": shown, "refused": refused}
        print(json.dumps(about, ensure_ascii=False, allow_nan=False))
        return
    table = new_table(
        "model", "benchmark", "items", "accuracy", "divided by", "HARMONY", "p", "verdict"
    )
    for about in shown:
        null = about["null"]
        table.add_row(
            *(escape(str(about[name])) for name in ("model", "benchmark", "n_items")),
            f"{about['accuracy']:.3f} ({about['normalisation']})",
            f"{about['partition']['name']} ({about['k']})",
            f"{about['harmony']:.3f} of {null['lo']:.3f}–{null['hi']:.3f}",
            f"{null['p_value']:.3f}",
            about["verdict"]["label"],
        )
    out.print(table)


def _written(folder: Path, *, as_json: bool) -> None:
    (err if as_json else out).print(f"written: {folder}", soft_wrap=True, markup=False)


def export_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    out_file: Annotated[Path, typer.Option("--out", help="A .csv or .parquet file.")],
) -> None:
    """Write the answers of runs as one table, one row per model and item."""
    from harmony_utils.logs.export import export_runs

    n_rows = export_runs(runs, out_file)
    err.print(f"{n_rows:,} rows: {out_file}", soft_wrap=True, markup=False)


def show_import(found: Import, *, as_json: bool) -> None:
    """Print what was read: one JSON object, or a table and the flags."""
    about = found.to_dict()
    if as_json:
        print(json.dumps(about, ensure_ascii=False, allow_nan=False))
        return
    table = new_table("model", "task", "format", "items", "accuracy", "agrees with the log", "gold")
    for log in about["files"]:
        agreement = "\n".join(f"{m} {same}/{n}" for m, (same, n) in log["agreement"].items())
        name = log["task"] + (f" ({log['filter']})" if log["filter"] else "")
        table.add_row(
            *(escape(str(cell)) for cell in (log["model"], name, log["format"], log["n_items"])),
            _share(log["accuracy"]) + f" ({log['normalisation']})",
            agreement or "not checked",
            escape(log["gold_reading"]),
        )
    out.print(table)
    for log in about["files"]:
        for flag in log["flags"]:
            text = f"{log['task']}: {flag['flag']}: {flag['sentence']}"
            err.print(text, soft_wrap=True, markup=False, highlight=False)
    for run in about["runs"]:
        err.print(_averages(run), soft_wrap=True, markup=False, highlight=False)


def _averages(run: dict[str, Any]) -> str:
    """Say which average is which."""
    text = f"{run['model']} on {run['benchmark']}: over items {_share(run['micro'])}"
    if run["macro"] is not None:
        text += f", over {len(run['subjects'])} subjects {_share(run['macro'])}"
    if run["reported_rule"]:
        text += f"; the log's own number is by {run['reported_rule']}"
    return text


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
