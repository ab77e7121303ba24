"""The commands themselves."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from meanfield.case import CaseError, one_line
from meanfield.cli.cases import Settings, chosen_case
from meanfield.cli.outputs import (
    BAD_INPUT,
    FAILED_RUN,
    FIGURE_SUFFIXES,
    INTERRUPTED,
    Force,
    Refusal,
    check_output,
    check_replaceable,
    outputs,
)
from meanfield.cli.runs import (
    in_use,
    killed_like_ctrl_c,
    resumed,
    saved_run,
    shown_progress,
    told_if_unsaved,
)
from meanfield.cli.text import (
    agreement,
    closing,
    machine,
    summary,
    summary_of_sweep,
    table,
    version,
)
from meanfield.exceptions import Interrupted, UnfinishedWarning
from meanfield.files import remove_leftovers
from meanfield.integrate import FileInUseError, evolve
from meanfield.integrate.only_writers import is_being_written
from meanfield.solution import Ending, Solution, load
from meanfield.sweeps import SWEEP, load_sweep

app = typer.Typer(
    name="meanfield",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; without arguments, that of the process.

    Returns
    -------
    int
        The exit status: 0, 1 for a run that failed, 2 for bad input, 130 on Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if Path("matplotlibrc").is_file():
        # matplotlib's first choice, in which a folder may name a program as ffmpeg
        from meanfield.plot.frames import forget_settings

        forget_settings()
    command = typer.main.get_command(app)
    given = None if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            # how its runs ended is what a command says itself
            warnings.simplefilter("ignore", UnfinishedWarning)
            status = command.main(args=given, prog_name="meanfield", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except CaseError as error:
        return _complain(str(error), BAD_INPUT)
    except Refusal as refusal:
        return _complain(str(refusal), refusal.status)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted: what is in the result file is kept", INTERRUPTED)
    except ArithmeticError as error:
        # the error itself says what can't be computed, one of its kinds is a mistake of the program
        if type(error) is not ArithmeticError:
            raise
        return _complain(str(error), FAILED_RUN)
    except MemoryError as error:
        return _complain(f"out of memory: {error}; try a smaller space", FAILED_RUN)
    return int(status or 0)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"meanfield: warning: {one_line(str(message))}", err=True)


def _complain(message: str, status: int) -> int:
    typer.echo(f"meanfield: {one_line(message)}", err=True)
    return status


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Mean-field dynamics of self-attention on circle and spheres."""
    if show_version:
        typer.echo(f"meanfield {version('meanfield-attention')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    case: Annotated[
        Path | None,
        typer.Argument(
            metavar="CASE",
            show_default=False,
            help="Case file (TOML), or a result file to run again; a bundled one if omitted.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="RUN.nc", help="Result file, else as the case says (run.nc)."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="RUN.png", help="Figure, else as the case says, else beside RUN.nc."),
    ] = None,
    print_case: Annotated[
        bool, typer.Option("--print-case", help="Print the case, a template to edit, and exit.")
    ] = False,
    settings: Settings = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Evolve a measure from a case file: table, NetCDF file and figure.

    Without CASE a bundled one is run: 470 tokens of a trained Transformer on the sphere S^2.
    Print it with --print-case, edit it, and run yours. With RUN.nc as CASE that run is repeated,
    with the same case and seed, into RUN-again.nc, whatever files its case names, and compared.
    Files of the same case are replaced, others only with --force. Exit status: 0 finished, 1 the
    run could not go on (what it had is written), 2 bad input, 130 interrupted.
    """
    chosen, earlier = chosen_case(case, settings)
    if print_case:
        typer.echo(chosen.text, nl=False)
        return
    if earlier is not None and case is not None and "file" not in chosen.output.model_fields_set:
        output = output or case.with_name(f"{case.stem}-again.nc")
    file, picture = outputs(chosen, output, figure, force)
    measure, dynamics, keywords = chosen.build()
    if not quiet:
        typer.echo(f"{chosen.name}: {dynamics} on {measure} to t = {chosen.run.t_end:g}")
    with killed_like_ctrl_c(), told_if_unsaved() as unsaved:
        with chosen.errors("run"):
            try:
                solution = evolve(
                    measure, dynamics, **keywords, checkpoint=file, progress=shown_progress(quiet)
                )
            except Interrupted as stopped:
                solution = stopped.solution
            except FileInUseError as error:
                raise in_use(error) from None
        if earlier is not None and earlier.ending is solution.ending and not (settings or quiet):
            typer.echo(agreement(earlier, solution))
        _write(solution, file, picture, quiet, unsaved)


@app.command()
def resume(
    file: Annotated[Path, typer.Argument(metavar="RUN.nc", help="Result file of the run.")],
    figure: Annotated[
        Path | None,
        typer.Option(metavar="RUN.png", help="Figure, else RUN.png beside the result file."),
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Go on with a run that was killed or interrupted, from its last checkpoint.

    The result is that of a run without interruption, bit for bit. Where the run has come to its
    end, nothing is written but a figure that is missing. A figure of the same case is replaced,
    another only with --force. Exit status as for `run`.
    """
    picture = file.with_suffix(".png") if figure is None else figure
    check_output(picture, "--figure", FIGURE_SUFFIXES)
    with killed_like_ctrl_c(), told_if_unsaved() as unsaved:
        saved = saved_run(file)
        if saved.resumption is not None:
            check_replaceable(picture, "--figure", saved.source, force)
        solution = resumed(saved, file, shown_progress(quiet))
        if saved.resumption is not None:
            _write(solution, file, picture, quiet, unsaved)
            return
    wrote = "nothing written"
    remove_leftovers(picture)
    if not picture.exists():
        # the run was killed between its last save and its figure
        _draw(solution, picture)
        wrote = f"wrote {picture}, which was missing"
    if not quiet and solution.ending.is_good:
        typer.echo(f"already {solution.message}: nothing to do, and {wrote}")
    _exit(solution, file)


def _write(solution: Solution, file: Path, picture: Path, quiet: bool, unsaved: list[str]) -> None:
    """Figure, table, and exit status; the file, too, if need be."""
    if unsaved:
        _save(solution, file)
    _draw(solution, picture)
    if not quiet:
        typer.echo(table(solution))
        typer.echo(closing(solution))
        typer.echo(f"wrote {file}, {picture}")
    _exit(solution, file)


def _exit(solution: Solution, file: Path) -> None:
    """The exit status of how a run ended."""
    if solution.ending is Ending.INTERRUPTED:
        raise Refusal(f"{solution.message}; meanfield resume {file} goes on", INTERRUPTED)
    if not solution.ending.is_good:
        raise Refusal(solution.message, FAILED_RUN)


@app.command()
def plot(
    file: Annotated[Path, typer.Argument(metavar="RUN.nc", help="Result file of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="RUN.png", help="Figure, else RUN.png beside the result file."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Draw a run: the measure at several times and the energy.

    A figure of the same case is replaced, another file only with --force.
    """
    solution = _loaded(file)
    picture = file.with_suffix(".png") if output is None else output
    check_output(picture, "--output", FIGURE_SUFFIXES)
    check_replaceable(picture, "--output", solution.source, force)
    _draw(solution, picture)
    typer.echo(f"wrote {picture}")


@app.command()
def info(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN.nc|SWEEP.nc", show_default=False, help="Result file of a run or a sweep."
        ),
    ] = None,
) -> None:
    """Summarise a run or a sweep; without one, tell versions and threads."""
    lines = machine() if file is None else _summary(file)
    width = max(len(name) for name in lines)
    for name, text in lines.items():
        typer.echo(f"{name:<{width}}  {text}")


def _summary(file: Path) -> dict[str, str]:
    try:
        return summary(_loaded(file), file, is_being_written(file))
    except Refusal as refusal:
        if SWEEP not in str(refusal):
            raise
    try:
        return summary_of_sweep(load_sweep(file), file)
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None


def _save(solution: Solution, file: Path) -> None:
    try:
        solution.save(file)
    except (OSError, ValueError) as error:
        raise Refusal(str(error), FAILED_RUN) from None


def _draw(solution: Solution, picture: Path) -> None:
    from meanfield import plot  # matplotlib is slow to import, and `info` needs none

    try:
        plot.save(plot.solution(solution), picture, source=solution.source)
    except OSError as error:
        raise Refusal(f"can't write {picture}: {error}", FAILED_RUN) from None


def _loaded(file: Path) -> Solution:
    try:
        return load(file)
    except (OSError, ValueError) as error:
        is_case = file.suffix == ".toml" and file.is_file()
        hint = f"; a case file? meanfield run {file} makes a result of it" if is_case else ""
        raise Refusal(f"{error}{hint}", BAD_INPUT) from None
