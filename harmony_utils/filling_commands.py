"""The command ``harmony fill``: new questions where a benchmark asks nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from harmony_utils.difficulty_commands import parse_target
from harmony_utils.errors import InputError
from harmony_utils.terminal import Table, new_table, out

Models = Annotated[
    list[str], typer.Option("--model", help="As for `harmony audit`; repeat it, three or more.")
]
BenchmarkName = Annotated[str, typer.Option(help="As for `harmony audit`.")]
Limit = Annotated[int, typer.Option(help="Questions drawn at random; 0 keeps all.")]
Target = Annotated[
    str, typer.Option("--target", help="LOW:HIGH in logits; default: the panel's range.")
]
Gaps = Annotated[
    list[str] | None,
    typer.Option("--gap", metavar="LOW:HIGH:N", help="Fill this instead of what is found."),
]
GeneratorName = Annotated[
    str, typer.Option(help="surgery, random, chat:MODEL (local) or URL#MODEL (an endpoint).")
]
ReaderName = Annotated[
    str, typer.Option(help="A model whose likelihoods steer the surgery; empty: none.")
]
Irt = Annotated[str, typer.Option(help="1pl or 2pl.")]
Measured = Annotated[int, typer.Option(min=1, help="New questions that the panel may answer.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds for each gap.")]
InBand = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Least probability of lying in the band.")
]
Widest = Annotated[float, typer.Option(help="Widest band in logits; wider gaps are cut.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Start of every random choice.")]
Root = Annotated[Path | None, typer.Option("--out", help="Run root, as for `harmony audit`.")]
Folder = Annotated[
    Path | None, typer.Option("--to", help="Folder of the results; default: beside the runs.")
]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", metavar="predictions.NAME=VALUE", help="A setting.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the command to the ``harmony`` command."""
    app.command("fill")(fill_command)


def fill_command(
    models: Models,
    benchmark: BenchmarkName = "arc_easy",
    limit: Limit = 0,
    target: Target = "",
    gaps: Gaps = None,
    generator: GeneratorName = "surgery",
    reader: ReaderName = "",
    irt: Irt = "2pl",
    measured: Measured = 60,
    rounds: Rounds = 4,
    in_band: InBand = 0.5,
    widest: Widest = 1.0,
    seed: Seed = 0,
    run_root: Root = None,
    folder: Folder = None,
    parameters: Parameters = None,
    as_json: JsonFlag = False,
) -> None:
    """Fill the gaps of a benchmark: propose questions, gate them, let the models answer.

    What is accepted was measured, not believed, and still has to be read by a person. Originals
    and additions stay apart in every table; rejected questions are kept with the reason.
    """
    from harmony_utils.filling import Budget, Thresholds
    from harmony_utils.reading import filling_reading
    from harmony_utils.settings import parse_assignments
    from harmony_utils.stages import fill_benchmark, open_audit

    bands = [_band(text) for text in gaps or []]
    wanted = parse_target(target) if target else None
    settings = parse_assignments(parameters or [], sections=("predictions",))
    audits = [
        open_audit(
            model=model,
            benchmark=benchmark,
            limit=limit,
            run_dir=str(run_root or ""),
            use_recorded=False,
        )
        for model in models
    ]
    for audit in audits:
        if not audit.is_rule:
            audit.configure(settings)
    place = folder or audits[0].root / f"{audits[0].place}--filling"
    trial = fill_benchmark(
        audits,
        folder=place,
        generator=generator,
        reader=reader,
        target=wanted,
        bands=bands,
        irt=irt,
        thresholds=Thresholds(in_band=in_band),
        budget=Budget(rounds=rounds, max_measured=measured),
        widest_band=widest,
        random_state=seed,
    )
    if as_json:
        found = json.loads((place / "filling.json").read_text(encoding="utf-8"))
        print(json.dumps({**found, "folder": str(place)}, ensure_ascii=False, allow_nan=False))
        return
    out.print(filling_reading(trial.filling).replace("**", ""), soft_wrap=True, markup=False)
    out.print(_conclusions(trial.conclusions))
    if trial.filling.accepted:
        out.print("Read every new question before you use it: no gate proves a key.")
    out.print(f"Results: {place}", soft_wrap=True, markup=False)


def _band(text: str) -> tuple[float, float, int]:
    low, high, n = (*text.split(":"), "", "")[:3]
    try:
        band = float(low), float(high), int(n)
    except ValueError:
        band = (0.0, 0.0, 0)
    if text.count(":") != 2 or not band[0] < band[1] or band[2] < 1:
        raise InputError(f"--gap {text}: give LOW:HIGH:N, such as 1:2:5")
    return band


def _conclusions(table: Any) -> Table:
    """Arrange what originals, both together and additions alone lead to."""
    shown = new_table(
        "part",
        "usable items",
        "distance from the target",
        "widest gap",
        title="Originals and additions",
    )
    for row in table.to_dict("records"):
        values = [row.get("distance"), row.get("widest_gap")]
        cells = ["" if v is None or v != v else f"{v:.2f}" for v in values]
        shown.add_row(escape(row["part"]), str(row["n_items"]), *cells)
    return shown
