"""The commands: each parses, calls once and prints; every error is one line.

What computes a run, reads a file or draws is slow to import. A command imports it when it is
called, so that help and complaints about the command line itself come at once.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
import webbrowser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from meanfield._checks import one_line
from meanfield.cli import options, runs
from meanfield.cli.runs import BAD_INPUT, FAILED_RUN, INTERRUPTED, Refusal, check_output, refusals
from meanfield.cli.study import UNDECIDED, study
from meanfield.cli.terminal import visible_output
from meanfield.exceptions import GOOD, CaseError, FileInUseError, UnfinishedWarning, UnsavedWarning

if TYPE_CHECKING:
    from meanfield.cli.case import Case
    from meanfield.evolution import Solution

app = typer.Typer(
    name="meanfield",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# `meanfield --help` shows this table of exit statuses
STATUSES = {
    0: "done; a proposition is proved",
    FAILED_RUN: "a run stopped early, cells failed or claims are not met; a proposition is refuted",
    BAD_INPUT: "bad input; nothing was run",
    UNDECIDED: "the proposition is undecided",
    INTERRUPTED: "interrupted, by Ctrl-C or SIGTERM",
}
_TABLE = "\n".join(f"{status:>5}  {meaning}" for status, meaning in STATUSES.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; without arguments, that of the process.

    Returns
    -------
    int
        The exit status, one of `STATUSES`.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.path.lexists("matplotlibrc"):
        # matplotlib reads a matplotlibrc of the present folder, which may name a program or be a
        # pipe
        with chdir(Path(runs.__file__).parent.parent / "data"):
            import_module("meanfield.plot")
    with visible_output():
        return _run(arguments)


# all commands with their options: a process that runs several makes one parser of them
_parser = cache(lambda: typer.main.get_command(app))


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command line, write its errors, and return its exit status."""
    command = _parser()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            # a command itself says how its runs ended and whether they are kept
            warnings.simplefilter("ignore", UnfinishedWarning)
            warnings.simplefilter("ignore", UnsavedWarning)
            status = command.main(args=arguments, prog_name="meanfield", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except (CaseError, Refusal) as error:
        return _complain(str(error), getattr(error, "status", BAD_INPUT))
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except ArithmeticError as error:
        # a bare ArithmeticError explains itself; its subclasses, as ZeroDivisionError, are bugs
        if type(error) is not ArithmeticError:
            raise
        return _complain(str(error), FAILED_RUN)
    except MemoryError as error:
        return _complain(f"out of memory: {error}; try a smaller space", FAILED_RUN)
    # typer turns Ctrl-C into a status; runs and sweeps have said more before
    return _complain("interrupted", INTERRUPTED) if status == INTERRUPTED else int(status or 0)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"meanfield: warning: {one_line(str(message))}", err=True)


def _complain(message: str, status: int) -> int:
    typer.echo(f"meanfield: {one_line(message)}", err=True)
    return status


@app.callback(
    invoke_without_command=True,
    help="Mean-field dynamics of self-attention on the circle and on spheres.\n\n"
    f"\b\nExit status:\n{_TABLE}",
)
def _top(
    context: typer.Context,
    show_version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        from meanfield.evolution.solution import version_of

        typer.echo(f"meanfield {version_of('meanfield')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    case: Annotated[
        Path | None,
        options.optional_file(
            "CASE", "Case file (TOML), or a result file to run again; the bundled case if omitted."
        ),
    ] = None,
    output: Annotated[
        Path | None, options.output("RUN.nc", "Result file; by default, as the case says.")
    ] = None,
    figure: Annotated[
        Path | None,
        options.figure("RUN.png", "Figure; by default, as the case says, or beside RUN.nc."),
    ] = None,
    print_case: Annotated[
        bool, Option("--print-case", help="Print the case as a template to edit, and exit.")
    ] = False,
    settings: options.Settings = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a case: print a table, write a NetCDF file and a figure.

    Without CASE the bundled case is run: 470 tokens of a trained Transformer on the sphere S^2.
    Print it with --print-case, edit it, and run your own. With a result RUN.nc as CASE, its run is
    repeated into RUN-again.nc, and compared with RUN.nc. Files of the same case are replaced, other
    files only with --force. Exit status: 0 finished, 1 the run stopped early (its results so far
    are written), 2 bad input, 130 interrupted.
    """
    chosen, earlier = runs.chosen_case(case, settings)
    if print_case:
        typer.echo(chosen.text, nl=False)
        return
    output_keys = chosen.tables.output
    if earlier is not None and case is not None and "file" not in output_keys.model_fields_set:
        output = output or case.with_name(f"{case.stem}-again.nc")
    key = "--output" if output else f"{chosen.name}: output.file"
    figure_key = "--figure" if figure else f"{chosen.name}: output.figure"
    file, digest = output or Path(output_keys.file), chosen.digest()
    figure_file = figure or (Path(output_keys.figure) if output_keys.figure else None)
    try:
        check_output(file, key, (".nc",), digest, force)
        picture = runs.check_figure(figure_file, file, (key, figure_key), digest, force)
    except Refusal:
        # a fault of the case is reported before a fault of the output
        chosen.build()
        raise
    from meanfield.evolution.files import remove_leftovers

    with runs.killed_like_ctrl_c():
        solution = _evolved(chosen, file, picture, quiet)
        remove_leftovers(picture)
        if earlier is not None and earlier.status == solution.status and not (settings or quiet):
            from meanfield.cli import text

            typer.echo(text.agreement(earlier, solution))
        _write(solution, file, picture, quiet)


def _evolved(case: Case, file: Path, picture: Path, quiet: bool) -> Solution:
    """Run a case into its file; an earlier file and its figure are set aside at once.

    To build a case may take long, and a run that is killed meanwhile has no file to be resumed.

    Raises
    ------
    Refusal
        If another run writes the file, or it is interrupted before it begins.
    """
    from meanfield.evolution import new_checkpoint, solve
    from meanfield.evolution.files import set_aside

    with (
        case.errors("run"),
        runs.refused(FileInUseError),
        new_checkpoint(file, "output") as checkpoint,
        set_aside(picture),
    ):
        try:
            measure, dynamics, keywords = case.build()
        except KeyboardInterrupt:
            notice = f"interrupted before the run began: {file} is as it was"
            raise Refusal(notice, INTERRUPTED) from None
        if not quiet:
            typer.echo(f"{case.name}: {dynamics} on {measure} to t = {case.tables.run.t_end:g}")
        keywords |= {"checkpoint": checkpoint, "progress": runs.shown_progress(quiet)}
        return runs.ended(solve, measure, dynamics, **keywords)


@app.command()
def resume(
    file: options.RunFile,
    figure: options.RunFigure = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a run that was killed, from its last checkpoint.

    The result is the same, bit for bit, as without the interruption. If the run has already
    finished, only a missing figure is drawn. A figure of the same case is replaced, another file
    only with --force. Exit status as for `run`.
    """
    from meanfield.evolution.files import remove_leftovers

    picture = file.with_suffix(".png") if figure is None else figure
    with runs.killed_like_ctrl_c():
        saved = runs.loaded_run(file, to_resume=True)
        ended = saved.resumption is None
        check_output(picture, "--figure", runs.FIGURE_SUFFIXES, saved.source, force or ended)
        if not quiet:
            # a run that was to replace this one may have been killed before it set this one aside
            t_end = saved.dataset.attrs.get("t_end", saved.t[-1])
            typer.echo(f"{file}: {saved.dynamics} on {saved[0]} to t = {t_end:g}")
        solution = runs.resumed(saved, file, runs.shown_progress(quiet))
        remove_leftovers(picture)
        if not ended:
            _write(solution, file, picture, quiet)
            return
    wrote = "nothing written"
    if not picture.exists():
        # a killed run may have its last save and no figure
        _draw(solution, picture)
        wrote = f"wrote {picture}, which was missing"
    if not quiet and solution.success:
        typer.echo(f"already {one_line(solution.message)}: nothing to do, and {wrote}")
    _exit(solution, file)


def _write(solution: Solution, file: Path, picture: Path, quiet: bool) -> None:
    """Write figure, table and exit status; write the file too if the run could not."""
    from meanfield.cli import text

    if solution.file is None:
        with runs.refused(OSError, ValueError, status=FAILED_RUN):
            solution.save(file)
    _draw(solution, picture)
    if not quiet:
        typer.echo(text.table(solution))
        typer.echo(text.closing(solution))
        typer.echo(f"wrote {file}, {picture}")
    _exit(solution, file)


def _exit(solution: Solution, file: Path) -> None:
    """Raise the exit status of a run that was interrupted or failed; do nothing for others."""
    if solution.status == "interrupted":
        raise Refusal(f"{solution.message}; meanfield resume {file} continues it", INTERRUPTED)
    if not solution.success:
        raise Refusal(solution.message, FAILED_RUN)


@app.command()
def plot(
    file: Annotated[
        Path,
        Argument(
            metavar="RUN.nc|SWEEP.nc|LAYERS.nc", help="Result file of a run, a sweep or layers."
        ),
    ],
    figure: options.RunFigure = None,
    name: Annotated[
        str | None,
        Option(
            help="One number to draw, such as dissipation or final_energy, or one panel of layers, "
            "as RUN-NAME.png."
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a run, a sweep or layers.

    Of a run it draws the measure at several times, and its numbers over t; with --name one number.
    A sweep over one key is a curve, over two a map; without --name it shows the final energy as a
    share of that of a Dirac, of runs without an energy the final root mean square velocity. Of
    layers it draws what `meanfield layers` does. A figure of the same case is replaced, another
    file only with --force.
    """
    result, kind, digest = _result(file)
    place = figure or file.with_name(f"{file.stem}{f'-{name}' if name else ''}.png")
    with _made(place, "--figure", runs.FIGURE_SUFFIXES, digest, force, quiet):
        from meanfield import plot as plots

        if kind == "run":
            axes = plots.solution(result) if name is None else result.plot(name)
        else:
            axes = plots.layers(result, name) if kind == "layers" else plots.sweep(result, name)
        plots.save(axes, place, source=digest)


@contextmanager
def _made(
    place: Path, option: str, suffixes: Sequence[str], source: str, force: bool, quiet: bool
) -> Iterator[None]:
    """Claim a place for a picture of runs while the body writes it there."""
    with (
        runs.claimed(place, option, suffixes, source, force),
        refusals(place),
        runs.killed_like_ctrl_c(),
    ):
        yield
    if not quiet:
        typer.echo(f"wrote {place}")


def _names(files: Sequence[Path]) -> list[str]:
    """Return names of runs: their files without folders, or whole paths if these names are equal.

    A file beside itself is called a and b.
    """
    for names in ([file.stem for file in files], [*map(str, files)]):
        if len({*names}) == len(names):
            return names
    return ["a", "b"]


@app.command()
def compare(
    a: options.FirstRun,
    b: options.SecondRun,
    output: Annotated[Path | None, options.output("COMPARE.nc", "Dataset of the numbers.")] = None,
    figure: Annotated[
        Path | None, options.figure("COMPARE.png", "Figure of energies and distances.")
    ] = None,
    save_at: Annotated[
        int | None,
        Option(
            min=1, help="Number of equal intervals; by default, all times that both have saved."
        ),
    ] = None,
    gap: Annotated[
        float, Option(help="Relative width of the brackets of W_1 on S^2, 1e-6 to 1.")
    ] = 0.1,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare two runs at common times.

    It prints their energies, and the mmd, W_1 and distance of the means between them. Where one of
    these numbers is missing, it says why. The runs may have any measures and dynamics on the same
    sphere. The mmd is the scaled one, of the kernel e^{β(<x,y> - 1)}. Files are written only with
    --output and --figure. With --save-at, states between two saves are computed anew from the save
    before.
    """
    from meanfield.cli import text
    from meanfield.studies.comparison import compare as compared

    first, second = runs.loaded_run(a), runs.loaded_run(b)
    source = runs.source_of("compare", first.source, second.source)
    progress = sys.stderr.isatty() and not quiet
    with (
        runs.claimed(output, "--output", (".nc",), source, force),
        runs.claimed(figure, "--figure", runs.FIGURE_SUFFIXES, source, force),
    ):
        with refusals(), runs.killed_like_ctrl_c():
            comparison = compared(first, second, save_at=save_at, gap=gap, progress=progress)
        comparison = comparison.assign_coords(run=_names([a, b]))
        if not quiet:
            lines = [text.table_of_comparison(comparison), *text.missing_of_comparison(comparison)]
            typer.echo("\n".join([*lines, comparison.attrs["verdict"]]))
        if output is not None:
            with runs.refused(OSError, status=FAILED_RUN):
                runs.write_dataset(comparison, output, source)
        if figure is not None:
            from meanfield import plot as plots

            with refusals(figure):
                plots.save(plots.comparison(comparison), figure, source=source)
    written = ", ".join(str(path) for path in (output, figure) if path is not None)
    if written and not quiet:
        typer.echo(f"wrote {written}")


@app.command()
def info(
    file: Annotated[
        Path | None,
        options.optional_file(
            "RUN.nc|SWEEP.nc|LAYERS.nc", "Result file of a run, a sweep or layers."
        ),
    ] = None,
) -> None:
    """Summarise a run, a sweep or layers.

    Without a file it shows versions.
    """
    from meanfield.cli import text

    if file is None:
        lines = text.machine()
    else:
        result, kind, _ = _result(file)
        if kind == "layers":
            from meanfield.cli.layers import summary_of_layers

            lines = summary_of_layers(result)
        else:
            lines = (text.summary if kind == "run" else text.summary_of_sweep)(result, file)
    names = [one_line(name) for name in lines]
    width = max(map(len, names))
    for name, line in zip(names, lines.values(), strict=True):
        typer.echo(f"{name:<{width}}  {one_line(line)}")


def _result(file: Path) -> tuple[Any, str, str]:
    """Read a run, or the dataset of a sweep or of layers; its kind, and the digest of its case."""
    from meanfield.evolution.files import SOURCE

    try:
        solution = runs.loaded_run(file)
        return solution, "run", solution.source
    except Refusal as refusal:
        # the modules for datasets take longer to import than a run to read, so they come second
        from meanfield.cli.layers import LAYERS, load_layers
        from meanfield.cli.sweeps import SWEEP, load_sweep

        load, kind = (load_layers, "layers") if LAYERS in str(refusal) else (load_sweep, "sweep")
        if kind == "sweep" and SWEEP not in str(refusal):
            raise
    with refusals():
        dataset = load(file)
        return dataset, kind, str(dataset.attrs.get(SOURCE, ""))


def _draw(solution: Solution, picture: Path) -> None:
    from meanfield import plot

    with refusals(picture):
        plot.save(plot.solution(solution), picture, source=solution.source)


app.add_typer(study, name="study")


@app.command()
def movie(
    file: options.RunFile,
    figure: Annotated[
        Path | None,
        options.figure(
            "RUN.mp4|RUN.gif",
            "Movie; by default RUN.mp4 beside the result file, RUN.gif without ffmpeg.",
        ),
    ] = None,
    frames: Annotated[
        int | None, Option(help="Number of saved times to show; all, up to 500, if omitted.")
    ] = None,
    seconds: Annotated[
        float | None, Option(help="Length of the movie; by default it follows from the frames.")
    ] = None,
    fps: Annotated[
        float | None, Option(help="Frames per second; 10, unless --seconds is given.")
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a movie of a run, with its energy below.

    MP4 needs ffmpeg. GIF needs nothing more. Each frame is a saved state; for smoother motion, save
    more often (run.save_at). Give at most two of --frames, --seconds and --fps. A movie of the same
    case is replaced, another file only with --force.
    """
    from meanfield.plot import movies

    solution = runs.loaded_run(file)
    place = figure or file.with_suffix(movies.default_movie_suffix())
    has_bar = not quiet and sys.stderr.isatty()
    with _made(place, "--figure", (".mp4", ".gif"), solution.source, force, quiet):
        movies.movie(solution, place, frames=frames, seconds=seconds, fps=fps, progress=has_bar)


@app.command()
def report(
    file: Annotated[
        Path, Argument(metavar="RUN.nc|LAYERS.nc", help="Result file of a run or of layers.")
    ],
    other: Annotated[
        Path | None, options.optional_file("[OTHER.nc]", "Result file of a second run.")
    ] = None,
    output: Annotated[
        Path | None,
        options.output(
            "RUN.html", "Page; by default RUN.html or RUN-OTHER.html beside the result file."
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Make one HTML page of a run or of layers.

    It needs no network. Of a run it has the measure over time, the numbers, checks, and the case.
    With a second run on the same sphere the page shows both side by side at the same time, and how
    far apart they are. Needs plotly, of the extra `report`. Of layers it has a verdict on each
    claim with its null, the effective β of each head, numbers by layer, and the checks of the
    reader. A page of the same case is replaced, another file only with --force.
    """
    from meanfield.cli import report as reports

    files = [file] if other is None else [file, other]
    result, kind, digest = _result(file)
    if kind == "sweep" or (kind == "layers" and other is not None):
        names = " and ".join(map(str, files))
        remedy = ": meanfield plot draws a sweep" if kind == "sweep" else ""
        raise Refusal(f"RUN.nc must be one or two runs, or one file of layers, got {names}{remedy}")
    if kind == "layers":
        place = output or file.with_suffix(".html")
        with _made(place, "--output", (".html",), digest, force, quiet):
            reports.write(place, reports.page_of_layers(result))
        return
    sols = [result, *(runs.loaded_run(path) for path in files[1:])]
    place = output or file.with_name(f"{'-'.join(path.stem for path in files)}.html")
    with _made(place, "--output", (".html",), reports.source_of_page(sols), force, quiet):
        reports.save(place, *sols, names=_names(files))


@app.command()
def layers(
    file: Annotated[
        Path,
        Argument(
            metavar="STATES", help="Hidden states of a trained model: npz, npy or safetensors."
        ),
    ],
    beta: Annotated[
        str | None,
        Option(
            metavar="NUMBERS",
            help="β of energies and clusters, with commas or START:STOP:COUNT; by default 1, 4, 16 "
            "and that of the model.",
        ),
    ] = None,
    repeats: Annotated[
        int, Option(min=2, help="Number of random halves and shuffles, for errors and nulls.")
    ] = 16,
    max_tokens: Annotated[
        int, Option(min=8, help="Of more tokens so many are measured, the sinks among them.")
    ] = 512,
    prompt: Annotated[int | None, Option(min=0, help="Which prompt, of a file of several.")] = None,
    rng: options.Rng = 0,
    output: Annotated[Path, options.output("LAYERS.nc")] = Path("layers.nc"),
    figure: Annotated[Path | None, options.figure()] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the layers of a trained model.

    It prints a verdict on each claim of the paper, with its null, and what the reader has checked,
    and writes a dataset and a figure. What a file must hold, and how one is written, is in
    docs/howto/trained_models.md. Files made from the same states with the same options are
    replaced, others only with --force. Exit status: 0 measured, whatever the verdicts are, 1 the
    files can't be written, 2 bad input, 130 interrupted.
    """
    from meanfield.cli import layers as measures
    from meanfield.cli.study import numbers_from

    betas = None if beta is None else numbers_from("--beta", beta)
    arguments = {"beta": betas, "repeats": repeats, "max_tokens": max_tokens, "rng": rng}
    with refusals():
        source = runs.source_of("layers", measures.digest_of(file), arguments, prompt)
    with ExitStack() as stack:
        try:
            stack.enter_context(runs.claimed(output, "--output", (".nc",), source, force))
            picture = runs.check_figure(figure, output, ("--output", "--figure"), source, force)
        except Refusal:
            # wrong states are told before what lies at the output
            with refusals():
                measures.check_states(file, prompt)
            raise
        progress = sys.stderr.isatty() and not quiet
        with refusals(), runs.killed_like_ctrl_c():
            dataset = measures.measured(file, prompt, progress=progress, **arguments)
        if not quiet:
            typer.echo("\n".join([measures.title_of(dataset), *measures.lines_of(dataset)]))
        from meanfield import plot as plots

        with refusals(f"{output} or {picture}"):
            runs.write_dataset(dataset, output, source)
            plots.save(plots.layers(dataset), picture, source=source)
    if not quiet:
        typer.echo(f"wrote {output}, {picture}")


@app.command()
def explore(
    case: Annotated[
        Path | None,
        options.optional_file(
            "CASE", "Case file (TOML) or result file to begin with; bumps on the circle if omitted."
        ),
    ] = None,
    settings: options.Settings = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port; a free one if 0.")] = 0,
    browser: Annotated[bool, Option(help="Whether to open the page in the browser.")] = True,
) -> None:
    """Open a page on this machine whose sliders move a case, live.

    It shows density or flow map, tokens over it, energy and clusters, and saves the case and its
    figure. Only this machine can open it, and only at the printed address, which has a secret
    token. Ctrl-C ends it. Needs plotly, of the extra `report`.
    """
    from meanfield.cli import explore as explorer

    chosen = None
    if case is not None or settings:
        chosen, _ = runs.chosen_case(case, settings)

    busy = f"--port must be free, got {port}: "
    with ExitStack() as stack:

        def ready(address: str) -> None:
            typer.echo(f"{address}\nCtrl-C ends it")
            if browser:
                webbrowser.open(stack.enter_context(explorer.door(address)))

        stack.enter_context(runs.refused(ValueError))
        stack.enter_context(runs.refused(OSError, before=busy))
        stack.enter_context(runs.killed_like_ctrl_c())
        explorer.serve(chosen, port, ready)


@app.command()
def schema() -> None:
    """Print the JSON schema of case files, for editors.

    With it editors complete and check a case. Write it beside a case: meanfield schema >
    case.schema.json. Begin the case with the line "#:schema case.schema.json", which Even Better
    TOML and taplo understand.
    """
    from meanfield.cli.case import json_schema_text

    typer.echo(json_schema_text(), nl=False)


@app.command("sweep")
def sweep_command(
    case: options.CaseFile,
    grid: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=VALUES",
            help="A key and its values: dynamics.beta=1:10:19 (start, stop, count) or "
            "dynamics.type=SA,USA. Required. Repeatable: all combinations are run.",
        ),
    ] = None,
    settings: options.Settings = None,
    executor: options.ExecutorName = None,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    output: Annotated[Path, options.output("SWEEP.nc")] = Path("sweep.nc"),
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a case at all combinations of values, into one dataset.

    Each run is a cell, with a result file of its own in the folder SWEEP.nc.cells. The same command
    again, also with another grid, runs only the missing cells and replaces SWEEP.nc. A file of
    another case is replaced only with --force. Exit status: 0 done, 1 cells failed (the others are
    written), 2 bad input, 130 interrupted.
    """
    from meanfield.cli.sweeps import axis, cells_beside, sweep

    if not grid:
        raise Refusal("--grid must be given, as in --grid dynamics.beta=1:10:19")
    chosen, _ = runs.chosen_case(case, settings)
    axes, folder = runs.keys_from("--grid", grid, axis), cells_beside(output)
    # cells of a different grid in this folder are not touched
    source = runs.source_of("sweep", chosen.digest())
    progress = sys.stderr.isatty() and not quiet
    kept = f"finished cells are kept in {folder}, and the same command continues"
    with runs.claimed(output, "--output", (".nc",), source, force):
        with runs.executor_of(executor, workers, scheduler) as where:
            try:
                with refusals(), runs.killed_like_ctrl_c():
                    dataset = sweep(chosen, axes, folder=folder, progress=progress, **where)
            except RuntimeError as error:
                raise Refusal(f"{error}; {kept}", FAILED_RUN) from None
            except KeyboardInterrupt:
                raise Refusal(f"interrupted: {kept}", INTERRUPTED) from None
        with runs.refused(OSError, status=FAILED_RUN):
            runs.write_dataset(dataset, output, source)
    states, messages = (dataset[name].values.ravel().tolist() for name in ("status", "message"))
    if not quiet:
        summary = ", ".join(f"{count} {status}" for status, count in Counter(states).most_common())
        typer.echo(f"{len(states)} cells: {summary}\nwrote {output}, its cells are in {folder}")
    if failed := [why for state, why in zip(states, messages, strict=True) if state not in GOOD]:
        notice = f"{len(failed)} of {len(states)} cells failed, the first of them: {failed[0]}"
        raise Refusal(notice, FAILED_RUN)


# the script reads its options itself
_HANDED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_HANDED_ON)
def validate(context: typer.Context) -> None:
    """Run the validation scripts of a checkout.

    It prints for each how many claims hold, the nearest to its tolerance, and seconds. The scripts
    are not installed, so run this in the folder of the sources. There, `meanfield validate --help`
    shows all options. The scripts test the package that this command belongs to.
    """
    folder = Path.cwd()
    if not (folder / "validation" / "runner.py").is_file():
        if {"--help", "-h"} & set(context.args):
            typer.echo(context.get_help())
            return
        must = "validate must be run in a checkout, where validation/ lies"
        raise Refusal(f"{must}, got {str(folder)!r}")
    if str(folder) not in sys.path:
        # the folder comes last in the path, so that it can't hide the package that runs
        sys.path.append(str(folder))
    scripts = import_module("validation.__main__")
    raise typer.Exit(scripts.main(context.args))
