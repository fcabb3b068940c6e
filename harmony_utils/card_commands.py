"""The command ``harmony card``: evidence, what was asked of it, and its limits, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harmony_utils.errors import InputError, RefusedError
from harmony_utils.terminal import Table, err, new_table, out

if TYPE_CHECKING:
    from harmony_utils.card import Card

Runs = Annotated[list[Path], typer.Argument(help="Finished run folders, or folders above them.")]
DecisionFile = Annotated[
    Path | None, typer.Option("--decision", help="What is to be decided, as YAML or JSON.")
]
Difficulty = Annotated[
    Path | None, typer.Option("--difficulty", help="Folder of `harmony difficulty`.")
]
Framing = Annotated[Path | None, typer.Option("--framing", help="A framing.json.")]
Bins = Annotated[int, typer.Option("--bins", min=1, help="Bins of the calibration error.")]
Out = Annotated[Path | None, typer.Option("--out", help="A .md file; a .json is put beside it.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 unless the conclusion is: supported.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the command to the ``harmony`` command."""
    app.command("card")(card_command)


def card_command(
    runs: Runs,
    decision: DecisionFile = None,
    difficulty: Difficulty = None,
    framing: Framing = None,
    n_bins: Bins = 10,
    out_file: Out = None,
    strict: Strict = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the evaluation card on which a decision can rest; no model is loaded.

    Evidence of finished runs with intervals, criteria judged by them, what failed, what changed
    against a baseline, and what was not measured. Without --decision it is the evidence alone.
    """
    from harmony_utils.card import conclusion_sentence, make_card, save_card
    from harmony_utils.runs import default_folder
    from harmony_utils.settings import CardSettings

    if strict and decision is None:
        raise InputError("--strict: there is nothing to conclude without --decision FILE")
    target = out_file or default_folder().parent / "card.md"
    if target.suffix != ".md":
        raise InputError(f"--out {target}: name a file ending in .md; the JSON is put beside it")
    if decision is not None and decision.resolve() == target.with_suffix(".json").resolve():
        raise InputError(f"--out {target}: its JSON would replace {decision}; name another file")
    card = make_card(
        runs,
        decision=decision,
        difficulty=difficulty,
        framing=framing,
        settings=CardSettings(n_bins=n_bins),
    )
    written = save_card(card, target)
    if as_json:
        print(json.dumps(card.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        if card.judgements:
            out.print(_verdicts(card))
        out.print(conclusion_sentence(card), soft_wrap=True, markup=False, highlight=False)
    for path in written:
        (err if as_json else out).print(f"written: {path}", soft_wrap=True, markup=False)
    if strict and card.conclusion != "supported":
        raise RefusedError(f"card: {conclusion_sentence(card)} See {written[0]}")


def _verdicts(card: Card) -> Table:
    table = new_table("criterion", "about", "value", "interval", "verdict")
    for judgement in card.judgements:
        entry = judgement.evidence
        about = " on ".join(name for name in (entry.model, entry.benchmark) if name)
        subject = f", subject {entry.subject}" if entry.subject else ""
        table.add_row(
            escape(judgement.criterion.text + subject),
            escape(about or "the questions"),
            "" if entry.value is None else f"{entry.value:.3f}",
            "" if entry.low is None else f"{entry.low:.3f}–{entry.high:.3f}",
            judgement.verdict,
        )
    return table
