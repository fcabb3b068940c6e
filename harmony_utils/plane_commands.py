"""The commands for respondents under a given partition, and for many runs: ``harmony plane``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harmony_utils.errors import InputError
from harmony_utils.terminal import Table, err, fact_table, new_table, out

if TYPE_CHECKING:
    from harmony_utils.plane import Plane
    from harmony_utils.settings import AuditSettings
    from harmony_utils.stages import Audit

Folders = Annotated[list[Path] | None, typer.Argument(help="Run folders, or folders above them.")]
Listed = Annotated[
    Path | None, typer.Option("--list", help="A file that names such folders, one a line.")
]
Out = Annotated[Path | None, typer.Option("--out", help="A CSV file for the table.")]
PartitionOption = Annotated[
    str, typer.Option(help="own, shared, embeddings or subjects: the labels to use.")
]
Matched = Annotated[int, typer.Option(help="Questions at which benchmarks are compared.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the ``harmony`` command."""
    app.command("plane")(plane_command)


def plane_command(
    runs: Folders = None,
    listed: Listed = None,
    partition: PartitionOption = "shared",
    n_matched: Matched = 100,
    out_file: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Place benchmarks by mean and variance of HARMONY over the models that were audited."""
    from harmony_utils.plane import benchmark_plane
    from harmony_utils.reading import plane_reading
    from harmony_utils.settings import PlaneSettings
    from harmony_utils.stages import run_answers

    if out_file is not None and out_file.suffix != ".csv":
        raise InputError(f"--out {out_file}: name a file ending in .csv")
    if n_matched < 10:
        raise InputError(f"--n-matched {n_matched}: give at least 10 questions")
    answers = run_answers(_folders(runs or [], listed), partition=partition)
    plane_settings = PlaneSettings(partition=partition, n_matched=n_matched)
    plane = benchmark_plane(answers, plane_settings)
    if left_out := sorted(set(answers["benchmark"]) - set(plane.table["benchmark"])):
        err.print(
            f"left out, fewer than {plane_settings.min_respondents} respondents with labels: "
            f"{', '.join(left_out)}",
            soft_wrap=True, markup=False, highlight=False,
        )  # fmt: skip
    if out_file is not None:
        write_csv(plane, out_file)
        err.print(f"written: {out_file}", soft_wrap=True, markup=False, highlight=False)
    if as_json:
        print(json.dumps(plane.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    out.print(_plane_table(plane))
    out.print(plane_reading(plane).replace("**", ""), soft_wrap=True, markup=False)


def _folders(runs: list[Path], listed: Path | None) -> list[Path]:
    """Return the folders named on the command line and in a file."""
    if listed is not None:
        try:
            lines = listed.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise InputError(
                f"--list {listed}: cannot be read; give a text file with one run folder a line"
            ) from None
        runs = [*runs, *(Path(line) for line in lines if line.strip())]
    if not runs:
        raise InputError("plane: no run folders; name some, or a file of them with --list")
    return runs


def write_csv(plane: Plane, path: Path) -> Path:
    """Write the table of a plane as CSV, six digits, whole or not at all."""
    from harmony_utils.files import write_atomically

    return write_atomically(
        path, lambda temporary: plane.table.to_csv(temporary, index=False, float_format="%.6g")
    )


def audit_given_partition(
    opened: Audit, settings: AuditSettings, partition: str, as_json: bool
) -> None:
    """Audit a model or respondent under a given partition: ``harmony audit --partition``."""
    from harmony_utils.reading import verdict_sentence
    from harmony_utils.stages import audit_given

    found = audit_given(opened.configure(settings), partition)
    about = {**found.to_dict(), "run_dir": str(opened.run.folder)}
    if as_json:
        print(json.dumps(about, ensure_ascii=False, allow_nan=False))
        return
    table = fact_table(f"{about['model']} on {about['benchmark']}")
    table.add_row("questions", f"{about['n_items']:,}")
    table.add_row("accuracy", f"{about['accuracy']:.3f}")
    table.add_row("scores", about["scores"])
    table.add_row("partition", f"{partition}, {about['k']} subdomains")
    null = about["null"]
    table.add_row("HARMONY", f"{about['harmony']:.3f} of {null['lo']:.3f}–{null['hi']:.3f}")
    table.add_row("verdict", verdict_sentence(found.result))
    out.print(table)
    out.print(f"Results: {about['run_dir']}", soft_wrap=True, markup=False)


def respondent_table() -> Table:
    """Return the respondents that are no models, for ``harmony models``."""
    from harmony_utils.respondents import PREFIX, list_respondents

    table = new_table("name", "what answers", title="Rules, no language models: no own affinity")
    for found in list_respondents():
        table.add_row(PREFIX + found.name, found.title)
    return table


def _plane_table(plane: Plane) -> Table:
    table = new_table(
        "benchmark", "items", "models", "mean H", "variance", f"mean at n={_matched(plane)}",
        "even", "uneven", "cannot tell", title=f"Benchmark plane, partition: {plane.partition}",
    )  # fmt: skip
    for row in plane.table.to_dict("records"):
        matched = row["mean_matched"]
        table.add_row(
            escape(row["benchmark"]),
            f"{row['n_items']:,}",
            str(row["n_respondents"]),
            f"{row['mean']:.3f} ({row['mean_low']:.3f}–{row['mean_high']:.3f})",
            f"{row['variance']:.4f}",
            f"{matched:.3f}" if matched == matched else "too few",
            *(str(row[name]) for name in ("even", "uneven", "cannot_tell")),
        )
    return table


def _matched(plane: Plane) -> int:
    return int(plane.table["n_matched"].iloc[0])
