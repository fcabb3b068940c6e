"""The command ``harmony difficulty``: what a score weighs, what it never asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.terminal import Table, err, fact_table, new_table, out

if TYPE_CHECKING:
    from harmony_utils.difficulty import Target

Paths = Annotated[
    list[Path],
    typer.Argument(help="Run folders, evaluation logs, or a table model,item,correct[,subject]."),
]
Model = Annotated[str, typer.Option("--model", help="1pl, 2pl, or 3pl with --guessing.")]
Guessing = Annotated[
    float | None, typer.Option("--guessing", help="With 3pl: fixed level, such as 0.25.")
]
PurposeFile = Annotated[
    Path | None, typer.Option("--purpose", help="What the benchmark is for, as YAML or JSON.")
]
Range = Annotated[
    str, typer.Option("--target", help="LOW:HIGH, a uniform target of difficulty in logits.")
]
Common = Annotated[bool, typer.Option("--common", help="Only items that every model answered.")]
Draws = Annotated[
    int, typer.Option("--draws", min=2, help="Draws from the posterior for intervals.")
]
Checks = Annotated[
    int,
    typer.Option(
        "--checks", min=0, help="Simulations for the checks of the fit, e.g. 20; 0: none."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Start of every random choice.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of the results; default: runs/difficulty.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the command to the ``harmony`` command."""
    app.command("difficulty")(difficulty_command)


def difficulty_command(
    paths: Paths,
    model: Model = "2pl",
    guessing: Guessing = None,
    purpose_file: PurposeFile = None,
    target: Range = "",
    common: Common = False,
    n_draws: Draws = 400,
    n_simulations: Checks = 0,
    seed: Seed = 0,
    out_dir: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit difficulties to answers of several models; no model is loaded.

    Says which difficulties the score weighs against a target, where it asks nothing, which keys
    look wrong, and with --purpose what the scores are for that purpose.
    """
    from harmony_utils.difficulty import audit_difficulty, load_purpose, load_responses
    from harmony_utils.runs import default_folder

    purpose = load_purpose(purpose_file) if purpose_file else None
    targets = [parse_target(target)] if target else []
    responses = load_responses(paths, common=common)
    audit = audit_difficulty(
        responses,
        model=model,
        guessing=guessing,
        purpose=purpose,
        targets=targets,
        n_draws=n_draws,
        n_simulations=n_simulations,
        random_state=seed,
    )
    folder = out_dir or default_folder().parent / "difficulty"
    found = audit.save(folder)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        _show(found)
    for flag in found["flags"]:
        _complain(f"{flag['flag']}: {flag['sentence']}")
    if not found["fit"]["converged"]:
        _complain("the fit did not converge; treat its numbers as provisional")
    (err if as_json else out).print(f"written: {folder}", soft_wrap=True, markup=False)
    if purpose is not None and "refused" in found["purpose_score"]:
        raise RefusedError(f"purpose: {found['purpose_score']['refused']}")


def parse_target(text: str) -> Target:
    """Read ``LOW:HIGH`` as a uniform target, in logits."""
    from harmony_utils.difficulty import uniform_target

    low, _, high = text.partition(":")
    try:
        return uniform_target(float(low), float(high))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--target {text!r}: give LOW:HIGH, such as -2:2") from None


def _complain(text: str) -> None:
    err.print(text, soft_wrap=True, markup=False, highlight=False)


def _show(found: dict[str, Any]) -> None:
    """Print the main results."""
    fit, mismatch = found["fit"], found["mismatch"]
    table = fact_table("Difficulty")
    table.add_row("models, items", f"{fit['n_models']}, {fit['n_items']:,} ({fit['model']})")
    for entry in [mismatch, *mismatch["other_targets"]]:
        low, high = entry["interval"]
        table.add_row(
            f"mismatch, target {escape(entry['target'])}",
            f"{entry['distance']:.2f} logits ({low:.2f}–{high:.2f}); "
            f"shift {entry['shift']:+.2f}, shape {entry['shape']:.2f}",
        )
    for gap in found["gaps"]:
        if gap["verdict"] == "gap" or not gap["subject"]:
            table.add_row(f"{gap['kind']} gap", escape(gap["sentence"]))
    suspects = found["suspected_keys"]
    shown = ", ".join(str(entry["item"]) for entry in suspects[:5])
    table.add_row(f"suspected keys: {len(suspects)}", escape(shown))
    out.print(table)
    purpose = found["purpose_score"]
    if purpose and "models" in purpose:
        out.print(_purpose_table(purpose))
        for change in purpose["changes"]:
            low, high = change["interval"]
            word = "supported" if change["supported"] else "not told apart"
            out.print(
                f"{change['ahead_purpose']} ahead of {change['ahead_plain']} for the purpose: "
                f"{change['purpose_difference']:.3f} ({low:.3f} to {high:.3f}), {word}",
                markup=False,
                highlight=False,
            )


def _purpose_table(purpose: dict[str, Any]) -> Table:
    """Arrange scores for the purpose beside the plain average."""
    title = f"For {purpose['kind']}: {purpose['effective_items']:.0f} effective items"
    table = new_table(
        "model", "plain", "for the purpose", "rank", "rank for the purpose", title=title
    )
    for row in sorted(purpose["models"], key=lambda row: row["rank_purpose"]):
        table.add_row(
            escape(row["model"]),
            f"{row['plain']:.3f} ({row['plain_low']:.3f}–{row['plain_high']:.3f})",
            f"{row['purpose']:.3f} ({row['purpose_low']:.3f}–{row['purpose_high']:.3f})",
            str(row["rank_plain"]),
            f"{row['rank_purpose']} ({row['rank_low']}–{row['rank_high']})",
        )
    return table
