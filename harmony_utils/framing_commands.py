"""The command ``harmony framing``: would the ranking survive another way of asking?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harmony_utils.errors import InputError
from harmony_utils.terminal import Table, err, new_table, out

if TYPE_CHECKING:
    from harmony_utils.framing import Conditions
    from harmony_utils.stages.framing import FramingStudy

Models = Annotated[
    list[str] | None, typer.Option("--model", help="A model to ask; may be repeated.")
]
Benchmark = Annotated[str, typer.Option(help="Catalogue name, file, or hf:owner/name?….")]
Framings = Annotated[
    list[str] | None, typer.Option("--framing", help="A way of asking, by name; default: all.")
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="NAME=FOLDER",
        help="Finished runs of one way of asking, in place of asking; may be repeated.",
    ),
]
Baseline = Annotated[str, typer.Option(help="The way of asking to compare with.")]
Limit = Annotated[int, typer.Option(min=0, help="Questions drawn at random; 0 keeps all.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="predictions.NAME=VALUE", help="A setting; may be repeated."),
]
Draws = Annotated[int, typer.Option("--draws", min=1, help="Resamples, and draws of signs.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Start of every random choice.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of the results; default: below runs/framing.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the command to the ``harmony`` command."""
    app.command("framing")(framing_command)


def framing_command(
    models: Models = None,
    benchmark: Benchmark = "arc_easy",
    framings: Framings = None,
    given: Given = None,
    baseline: Baseline = "",
    limit: Limit = 0,
    parameters: Parameters = None,
    n_draws: Draws = 2000,
    seed: Seed = 0,
    out_dir: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask models the same questions in several ways, and compare scores and ranks.

    The same answers are counted under several metrics, too. With --from
    NAME=FOLDER no model is loaded: it compares finished runs or imported logs.
    """
    from harmony_utils.runs import default_folder
    from harmony_utils.stages import framing_study, read_framings

    options = {"n_draws": n_draws, "random_state": seed}
    if given:
        if models or framings or limit or parameters:
            raise InputError(
                "--from compares finished runs: leave --model, --framing, --limit and -p out"
            )
        folders = _folders(given)
        baseline = baseline or next(iter(folders))
        _check_baseline(baseline, list(folders))
        study = framing_study(read_framings(folders), baseline=baseline, **options)
        folder = out_dir or default_folder().parent / "framing" / Path(study.benchmark).name
    else:
        study, folder = _asked(
            models, benchmark, framings, baseline, limit, parameters, out_dir, options
        )
    found = study.save(folder)
    if study.joined_by == "native_id":
        _complain("the questions' contents differ between runs: they were joined by their ids")
    if study.framings.n_left_out:
        _complain(f"{study.framings.n_left_out} questions are not common to all and left out")
    if as_json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        _show(study)
    (err if as_json else out).print(f"written: {folder}", soft_wrap=True, markup=False)


def _asked(
    models: list[str] | None,
    benchmark: str,
    framings: list[str] | None,
    baseline: str,
    limit: int,
    parameters: list[str] | None,
    out_dir: Path | None,
    options: dict[str, int],
) -> tuple[FramingStudy, Path]:
    """Ask the models, and return what was found with the folder of the results."""
    from harmony_utils.framing import BASELINE, FRAMINGS, framing_settings
    from harmony_utils.runs import default_folder
    from harmony_utils.settings import parse_assignments
    from harmony_utils.sources import load_benchmark
    from harmony_utils.stages import ask_framings, framing_study

    if not models:
        raise InputError("framing: no models; name some with --model, or finished runs with --from")
    names = list(dict.fromkeys(framings or FRAMINGS))
    for name in names:
        framing_settings(name)
    baseline = baseline or (BASELINE if BASELINE in names else names[0])
    _check_baseline(baseline, names)
    settings = parse_assignments(parameters or [], sections=("predictions",))
    questions = load_benchmark(benchmark, limit=limit)
    place = questions.name + (f"--{len(questions)}" if limit else "")
    folder = out_dir or default_folder().parent / "framing" / place
    answers = ask_framings(
        list(dict.fromkeys(models)),
        benchmark,
        names,
        limit=limit,
        run_dir=str(folder),
        settings=settings,
        use_recorded=False,
        listen=lambda framing, model: _complain(f"{model}: {framing}"),
    )
    study = framing_study(
        answers, baseline=baseline, benchmark=questions.name, items=questions.items, **options
    )
    return study, folder


def _folders(given: list[str]) -> dict[str, list[Path]]:
    """Read ``NAME=FOLDER``; a name that comes again adds a folder."""
    found: dict[str, list[Path]] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise InputError(f"--from {text!r}: write NAME=FOLDER, such as letter=runs/letter")
        found.setdefault(name, []).append(Path(folder))
    return found


def _check_baseline(baseline: str, names: list[str]) -> None:
    """Refuse before anything is asked what could not be compared afterwards."""
    if baseline not in names:
        raise InputError(f"--baseline {baseline!r}: choose {', '.join(names)}")
    if len(names) < 2:
        raise InputError(f"framing: {baseline!r} alone; give another way of asking to compare with")


def _complain(text: str) -> None:
    err.print(text, soft_wrap=True, markup=False, highlight=False)


def _show(study: FramingStudy) -> None:
    """Print scores, ranks and what they say."""
    from harmony_utils.reading import framing_reading, metric_reading

    out.print(_scores(study.framings, f"{study.benchmark}, {study.framings.n_items:,} questions"))
    out.print(framing_reading(study.framings).replace("**", ""), soft_wrap=True, markup=False)
    if study.metrics is not None:
        out.print(metric_reading(study.metrics).replace("**", ""), soft_wrap=True, markup=False)


def _scores(found: Conditions, title: str) -> Table:
    table = new_table("framing", "model", "accuracy", "change", "flipped", "rank", title=title)
    for row in found.scores.itertuples():
        changed = row.condition != found.baseline
        table.add_row(
            escape(row.condition),
            escape(row.model),
            f"{row.score:.3f} ({row.low:.3f}–{row.high:.3f})",
            f"{row.change:+.3f} ({row.change_low:+.3f} to {row.change_high:+.3f})" * changed,
            f"{row.gained + row.lost:.0%}" * changed,
            f"{row.rank} ({row.rank_low}–{row.rank_high})",
        )
    return table
