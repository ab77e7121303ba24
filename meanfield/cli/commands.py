"""The commands: each parses, calls once and prints; every error is one line."""

from __future__ import annotations

import io
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, cast

import typer
from typer import Argument, Option

from meanfield.cli import runs, text
from meanfield.cli.case import json_schema_text
from meanfield.cli.runs import BAD_INPUT, FAILED_RUN, INTERRUPTED, Refusal, check_output, refusals
from meanfield.cli.sweeps import SWEEP, axis, cells_beside, load_sweep, sweep
from meanfield.cli.tables import CaseError, one_line
from meanfield.dynamics import Isotropic
from meanfield.evolution import Solution, netcdf, solve
from meanfield.evolution.checkpoint import UnsavedWarning
from meanfield.evolution.files import SOURCE, is_being_written, remove_leftovers
from meanfield.evolution.solution import version_of
from meanfield.exceptions import GOOD, UnfinishedWarning


def _output(metavar: str, about: str) -> Any:
    return Option("--output", "-o", metavar=metavar, help=about)


CaseFile = Annotated[Path, Argument(metavar="CASE", help="Case file (TOML) or result file.")]
RunFile = Annotated[Path, Argument(metavar="RUN.nc", help="Result file of a run.")]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the case, as dynamics.beta=5; a TOML value or a bare word. Repeatable.",
    ),
]
Force = Annotated[
    bool, Option("--force", help="Replace files that are there and not of the same case.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print errors only.")]

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
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            # how its runs ended, and whether they are kept, is what a command says itself
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
        # the error itself says what can't be computed, one of its kinds is a mistake of the program
        if type(error) is not ArithmeticError:
            raise
        return _complain(str(error), FAILED_RUN)
    except MemoryError as error:
        return _complain(f"out of memory: {error}; try a smaller space", FAILED_RUN)
    # typer makes a status of Ctrl-C; a run and a sweep say more of it before
    return _complain("interrupted", INTERRUPTED) if status == INTERRUPTED else int(status or 0)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"meanfield: warning: {one_line(str(message))}", err=True)


def _complain(message: str, status: int) -> int:
    typer.echo(f"meanfield: {one_line(message)}", err=True)
    return status


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    show_version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Mean-field dynamics of self-attention on circle and spheres."""
    if show_version:
        typer.echo(f"meanfield {version_of('meanfield')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    case: Annotated[
        Path | None,
        Argument(
            metavar="CASE",
            show_default=False,
            help="Case file (TOML), or a result file to run again; a bundled one if omitted.",
        ),
    ] = None,
    output: Annotated[
        Path | None, _output("RUN.nc", "Result file, else as the case says (run.nc).")
    ] = None,
    figure: Annotated[
        Path | None,
        Option(metavar="RUN.png", help="Figure, else as the case says, else beside RUN.nc."),
    ] = None,
    print_case: Annotated[
        bool, Option("--print-case", help="Print the case, a template to edit, and exit.")
    ] = False,
    settings: Settings = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Evolve a measure from a case file: table, NetCDF file and figure.

    Without CASE a bundled one is run: 470 tokens of a trained Transformer on the sphere S^2.
    Print it with --print-case, edit it, and run yours. With RUN.nc as CASE that run is repeated,
    with the same case and seed, into RUN-again.nc, whatever files its case names, and compared.
    Files of the same case are replaced, others only with --force. Exit status: 0 finished, 1 the
    run could not go on (what it had is written), 2 bad input, 130 interrupted.
    """
    chosen, earlier = runs.chosen_case(case, settings)
    if print_case:
        typer.echo(chosen.text, nl=False)
        return
    if earlier is not None and case is not None and "file" not in chosen.output.model_fields_set:
        output = output or case.with_name(f"{case.stem}-again.nc")
    measure, dynamics, keywords = chosen.build()
    file, picture = runs.outputs(chosen, output, figure, force)
    if not quiet:
        typer.echo(f"{chosen.name}: {dynamics} on {measure} to t = {chosen.run.t_end:g}")
    with runs.killed_like_ctrl_c():
        with chosen.errors("run"):
            keywords |= {"checkpoint": file, "progress": runs.shown_progress(quiet)}
            solution = runs.ended(solve, measure, dynamics, **keywords)
        if earlier is not None and earlier.status == solution.status and not (settings or quiet):
            typer.echo(text.agreement(earlier, solution))
        _write(solution, file, picture, quiet)


@app.command()
def resume(
    file: RunFile,
    figure: Annotated[
        Path | None, Option(metavar="RUN.png", help="Figure, else RUN.png beside the result file.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was killed or interrupted, from its last checkpoint.

    The result is that of a run without interruption, bit for bit. Where the run has come to its
    end, nothing is written but a figure that is missing. A figure of the same case is replaced,
    another only with --force. Exit status as for `run`.
    """
    picture = file.with_suffix(".png") if figure is None else figure
    with runs.killed_like_ctrl_c():
        saved = runs.loaded_run(file, to_resume=True)
        ended = saved._resumption is None
        check_output(picture, "--figure", runs.FIGURE_SUFFIXES, saved._source, force or ended)
        solution = runs.resumed(saved, file, runs.shown_progress(quiet))
        if not ended:
            _write(solution, file, picture, quiet)
            return
    wrote = "nothing written"
    remove_leftovers(picture)
    if not picture.exists():
        # the run was killed between its last save and its figure
        _draw(solution, picture)
        wrote = f"wrote {picture}, which was missing"
    if not quiet and solution.success:
        typer.echo(f"already {solution.message}: nothing to do, and {wrote}")
    _exit(solution, file)


def _write(solution: Solution, file: Path, picture: Path, quiet: bool) -> None:
    """Figure, table, and exit status; the file, too, where the run could not write it."""
    if solution._file is None:
        try:
            solution.save(file)
        except (OSError, ValueError) as error:
            raise Refusal(str(error), FAILED_RUN) from None
    _draw(solution, picture)
    if not quiet:
        typer.echo(text.table(solution))
        typer.echo(text.closing(solution))
        typer.echo(f"wrote {file}, {picture}")
    _exit(solution, file)


def _exit(solution: Solution, file: Path) -> None:
    """The exit status of how a run ended."""
    if solution.status == "interrupted":
        raise Refusal(f"{solution.message}; meanfield resume {file} goes on", INTERRUPTED)
    if not solution.success:
        raise Refusal(solution.message, FAILED_RUN)


@app.command()
def plot(
    file: RunFile,
    output: Annotated[
        Path | None, _output("RUN.png", "Figure, else RUN.png beside the result file.")
    ] = None,
    force: Force = False,
) -> None:
    """Draw a run: the measure at several times and the energy.

    A figure of the same case is replaced, another file only with --force.
    """
    with _made(file, output, ".png", runs.FIGURE_SUFFIXES, force) as (solution, place):
        _draw(solution, place)


@contextmanager
def _made(
    file: Path,
    output: Path | None,
    suffix: str,
    suffixes: Sequence[str],
    force: bool,
    quiet: bool = False,
) -> Iterator[tuple[Solution, Path]]:
    """Inside, what is drawn from a run is made at its place, beside the run if it is not told."""
    solution = runs.loaded_run(file)
    place = output or file.with_suffix(suffix)
    check_output(place, "--output", suffixes, solution._source, force)
    with refusals(place), runs.killed_like_ctrl_c():
        yield solution, place
    if not quiet:
        typer.echo(f"wrote {place}")


@app.command()
def info(
    file: Annotated[
        Path | None,
        Argument(
            metavar="RUN.nc|SWEEP.nc", show_default=False, help="Result file of a run or a sweep."
        ),
    ] = None,
) -> None:
    """Summarise a run or a sweep; without one, tell versions and threads."""
    lines = text.machine() if file is None else _summary(file)
    width = max(len(name) for name in lines)
    for name, told in lines.items():
        typer.echo(f"{name:<{width}}  {told}")


def _summary(file: Path) -> dict[str, str]:
    try:
        return text.summary(runs.loaded_run(file), file, is_being_written(file))
    except Refusal as refusal:
        if SWEEP not in str(refusal):
            raise
    with refusals():
        return text.summary_of_sweep(load_sweep(file), file)


def _draw(solution: Solution, picture: Path) -> None:
    from meanfield import plot  # matplotlib is slow to import, and `info` needs none

    with refusals(picture):
        plot.save(plot.solution(solution), picture, source=solution._source)


check = typer.Typer(rich_markup_mode=None)
app.add_typer(check, name="check")

# of a line
_WIDTH = 110
# attributes that go with a verdict
_BESIDE = ("witness", "reason", "note")
# exit statuses beside 0 and that of bad input
_STATUSES = {"refuted": 1, "undecided": 3}
_WHOLE: dict[str, Any] = {"n_measures": 4000}
# what a quick check is content with
_QUICK: dict[str, Any] = {"n_measures": 100, "repeats": 1}


@check.callback()
def _group() -> None:
    """Check a proposition: a verdict, its evidence and a figure."""


@check.command("prop-3.4")
def proposition_3_4(
    beta: Annotated[
        str | None, Option(metavar="B or LOW,HIGH", help="β, or an interval of β; 4 if omitted.")
    ] = None,
    dim: Annotated[int, Option(help="Dimension d of R^d.")] = 3,
    kernel: Annotated[
        str | None,
        Option(
            metavar="A0,A1,…",
            help="Coefficients of Σ a_m t^m in place of e^{βt}/β; without --beta.",
        ),
    ] = None,
    samples: Annotated[
        int | None, Option(help="Random measures of the search; 4000, or 100 if quick, if omitted.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer samples and starts.")] = False,
    seed: Annotated[int, Option(min=0, help="Of all that is random.")] = 0,
    output: Annotated[Path, _output("FIGURE.png", "Figure.")] = Path("prop-3.4.png"),
    force: Force = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print the verdict only.")] = False,
) -> None:
    """Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its only maximisers.

    Prints a verdict (proved, undecided, refuted) with its evidence, and writes a figure. One of the
    same options is replaced, another file only with --force. Exit status: 0 if the proposition is
    proved, 1 if it is refuted by a witness, 2 for bad input or a figure that can't be written, 3 if
    it is undecided.
    """
    betas, coefficients = _problem(beta, kernel)
    effort = (_QUICK if quick else _WHOLE) | ({} if samples is None else {"n_measures": samples})
    source = runs.source_of("prop-3.4", betas, dim, coefficients, effort, seed)
    check_output(output, "--output", runs.FIGURE_SUFFIXES, source, force)
    # matplotlib is slow to import
    from meanfield import plot, studies

    with refusals():
        found = studies.proposition_3_4(
            betas,
            dim,
            potential=coefficients,
            rng=seed,
            progress=sys.stderr.isatty() and not quiet,
            **effort,
        )
    # before the figure, which may fail
    typer.echo(verdict(found) if quiet else proposition_report(found))
    with refusals(output, BAD_INPUT):
        plot.save(plot.proposition_3_4(found), output, source=source)
    if not quiet:
        typer.echo(f"wrote {output}")
    raise typer.Exit(_STATUSES.get(found.attrs["verdict"], 0))


def _problem(
    beta: str | None, kernel: str | None
) -> tuple[float | tuple[float, float] | None, list[float] | None]:
    """β or an interval of it, or the coefficients that take its place."""
    if kernel is None:
        betas = _numbers("--beta", "4" if beta is None else beta)
        if len(betas) > 2:
            raise Refusal(f"--beta must be one number or LOW,HIGH, got {betas}")
        return betas[0] if len(betas) == 1 else (betas[0], betas[1]), None
    if beta is not None:
        raise Refusal(f"--beta must be left out with --kernel, got {beta!r}")
    return None, _numbers("--kernel", kernel)


def _numbers(option: str, text: str, what: str = "numbers") -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"{option} must be {what} with commas between them, got {text!r}"
        raise Refusal(message) from None


def verdict(found: Any) -> str:
    """The verdict and what it is about, with its witness, reason or note."""
    lines = [f"{found.attrs['verdict']}: {found.attrs['statement']}"]
    lines += [f"{name}: {found.attrs[name]}" for name in _BESIDE if name in found.attrs]
    return "\n".join(lines)


def proposition_report(found: Any) -> str:
    """The verdict, and a line for each part and β."""
    lines = [verdict(found), ""]
    names = found["part"].values.tolist()
    width = max(len(name) for name in names)
    for number, beta in enumerate(found["beta"].values.tolist()):
        if found.sizes["beta"] > 1:
            lines.append(f"β = {beta:g}")
        one = found.isel(beta=number)
        rows = zip(names, one["status"].values, one["finding"].values, strict=True)
        for name, status, finding in rows:
            heading = f"{name:<{width}}  {status!s:<7}  "
            lines += wrap(
                str(finding), _WIDTH, initial_indent=heading, subsequent_indent=" " * len(heading)
            )
    return "\n".join(lines)


_NS, _COUNTS = "100,1000,10000", "ascending integers >= 2"


@app.command()
def limit(
    case: CaseFile,
    ns: Annotated[str, Option(metavar="N,N,…", help="Numbers of tokens.")] = _NS,
    repeats: Annotated[int, Option(min=1, help="Starts for each number of tokens.")] = 8,
    seed: Annotated[int, Option(min=0, help="Of the starts.")] = 0,
    output: Annotated[Path, _output("LIMIT.nc", "Result file.")] = Path("limit.nc"),
    settings: Settings = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Hold runs of n tokens against the run of their density: errors over n and t, and rates.

    Law, dynamics and times are the case's; tokens are drawn from its law. Writes LIMIT.nc and a
    figure beside it. Files of the same case and options are replaced, others only with --force.
    """
    counts = _counts(ns)
    (chosen, _), picture = runs.chosen_case(case, settings), output.with_suffix(".png")
    source = runs.source_of("limit", chosen.digest(), counts, repeats, seed)
    check_output(output, "--output", (".nc",), source, force)
    check_output(picture, "the figure beside --output", (".png",), source, force)
    # matplotlib is slow to import
    from meanfield import plot, studies
    from meanfield.plot.tokens import rms

    law, dynamics = chosen.build_law()
    with chosen.errors("run"):
        found = studies.mean_field_limit(
            law,
            cast(Isotropic, dynamics),  # of others the study says itself that it has none
            chosen.run.t_end,
            counts,
            repeats=repeats,
            save_at=chosen.run.save_at,
            rng=seed,
            progress=sys.stderr.isatty() and not quiet,
        )
    with refusals(f"{output} or {picture}"):
        netcdf.write(found.assign_attrs({"case": chosen.text, SOURCE: source}), output)
        plot.save(plot.mean_field_limit(found), picture, source=source)
    if quiet:
        return
    typer.echo(f"{'quantity':<14}{'error, n = ' + str(counts[-1]):>20}{'rate in n':>12}  95 %")
    for name in found["quantity"].values:
        last, size = found.sel(quantity=name).isel(t=-1), rms(found[name].isel(n=-1, t=-1))
        rate, low, high = (float(last[key]) for key in ("rate", "rate_lower", "rate_upper"))
        # one number of tokens has no rate, one start no interval
        slope = f"{rate:.3f}" if isfinite(rate) else "-"
        interval = f"{low:.3f} … {high:.3f}" if isfinite(low) else "-"
        typer.echo(f"{name!s:<14}{size:>20.3e}{slope:>12}  {interval}")
    typer.echo(f"wrote {output}, {picture}")


def _counts(ns: str) -> list[int]:
    # 1e4, too
    given = _numbers("--ns", ns, _COUNTS)
    counts = [int(n) for n in given if n.is_integer() and n >= 2]
    if counts != given or counts != sorted(set(counts)):
        raise Refusal(f"--ns must be {_COUNTS} with commas between them, got {ns!r}")
    return counts


@app.command()
def movie(
    file: RunFile,
    output: Annotated[
        Path | None,
        _output(
            "RUN.mp4|RUN.gif",
            "Movie, else RUN.mp4 beside the result file, or RUN.gif where there is no ffmpeg.",
        ),
    ] = None,
    frames: Annotated[
        int | None, Option(help="Of so many saved times; all, up to 500, if omitted.")
    ] = None,
    seconds: Annotated[
        float | None, Option(help="How long it takes; else as frames and fps make it.")
    ] = None,
    fps: Annotated[
        float | None, Option(help="Frames a second, 10 if neither this nor seconds is given.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make a movie of a run: the measure at its saved times, the energy below.

    MP4 needs ffmpeg; GIF needs nothing more. Each frame is a saved state: for smoother motion save
    more often (run.save_at). Give at most two of --frames, --seconds and --fps. A movie of the same
    case is replaced, another file only with --force.
    """
    # slow to import
    from meanfield.plot import movies

    suffix = movies.default_movie_suffix()
    shown = not quiet and sys.stderr.isatty()
    with _made(file, output, suffix, (".mp4", ".gif"), force, quiet) as (solution, place):
        movies.movie(solution, place, frames=frames, seconds=seconds, fps=fps, progress=shown)


@app.command()
def report(
    file: RunFile,
    output: Annotated[
        Path | None, _output("RUN.html", "Page, else RUN.html beside the result file.")
    ] = None,
    force: Force = False,
) -> None:
    """Make one HTML page of a run that needs no network: measure over time, numbers, checks, case.

    Needs plotly, of the extra `report`. A page of the same case is replaced, another file only with
    --force.
    """
    # slow to import, as what it draws with is
    from meanfield.cli import report as reports

    with _made(file, output, ".html", (".html",), force) as (solution, page):
        reports.save(solution, page)


@app.command()
def schema() -> None:
    """Print the JSON schema of case files, for editors that complete and check them.

    Write it beside a case (meanfield schema > case.schema.json) and open the case with the line
    "#:schema case.schema.json", which Even Better TOML and taplo understand.
    """
    typer.echo(json_schema_text(), nl=False)


# with which words an error about an option begins
_OPTIONS = ("executor ", "scheduler ", "workers ")


@app.command("sweep")
def sweep_command(
    case: CaseFile,
    grid: Annotated[
        list[str],
        Option(
            metavar="KEY=VALUES",
            help="A key and its values: dynamics.beta=1:10:19 (start, stop, count) or "
            "dynamics.type=SA,USA. Repeatable: all combinations are run.",
        ),
    ],
    settings: Settings = None,
    executor: Annotated[
        str | None,
        Option(
            metavar="processes|dask|mpi", help="Where cells are run; here, one by one, without one."
        ),
    ] = None,
    workers: Annotated[
        int | None, Option(min=1, help="Processes on this machine, else one for each core.")
    ] = None,
    scheduler: Annotated[
        str | None, Option(metavar="ADDRESS", help="Of a dask scheduler, as tcp://host:8786.")
    ] = None,
    output: Annotated[Path, _output("SWEEP.nc", "Result file.")] = Path("sweep.nc"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run a case at every combination of values, and write one dataset over the grid.

    Each finished cell is kept as a result file in the folder SWEEP.nc.cells; the same command
    again runs what is missing and replaces SWEEP.nc, and so does one with another grid. A file of
    another case is replaced only with --force. Exit status: 0, 1 if cells failed (the others are
    written), 2 bad input, 130 interrupted.
    """
    chosen, _ = runs.chosen_case(case, settings)
    axes, folder = runs.keys_from("--grid", grid, axis), cells_beside(output)
    # the cells of another grid stay where they are
    source = runs.source_of("sweep", chosen.digest())
    check_output(output, "--output", (".nc",), source, force)
    progress = sys.stderr.isatty() and not quiet
    # all studies come with it
    from meanfield.studies.executors import opened

    with _swept(folder), opened(executor, scheduler, workers) as where:
        found = sweep(chosen, axes, folder=folder, progress=progress, **where)
    try:
        netcdf.write(found.assign_attrs({SOURCE: source}), output)
    except OSError as error:
        raise Refusal(str(error), FAILED_RUN) from None
    states = found["status"].values.ravel().tolist()
    if not quiet:
        told = ", ".join(f"{count} {status}" for status, count in Counter(states).most_common())
        typer.echo(f"{len(states)} cells: {told}\nwrote {output}, its cells are in {folder}")
    failed = [number for number, state in enumerate(states) if state not in GOOD]
    if failed:
        first = found["message"].values.ravel()[failed[0]]
        told = f"{len(failed)} of {len(states)} cells failed, the first of them: {first}"
        raise Refusal(told, FAILED_RUN)


@contextmanager
def _swept(folder: Path) -> Iterator[None]:
    """Inside, what ends a sweep is told, and that its cells are kept."""
    kept = f"finished cells are kept in {folder}, and the same command goes on"
    try:
        with runs.killed_like_ctrl_c(), runs.only_installed_code():
            yield
    except ValueError as error:
        option = "--" if str(error).startswith(_OPTIONS) else ""
        raise Refusal(f"{option}{error}") from None
    except RuntimeError as error:
        raise Refusal(f"{error}; {kept}", FAILED_RUN) from None
    except KeyboardInterrupt:
        raise Refusal(f"interrupted: {kept}", INTERRUPTED) from None


@app.command()
def validate(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]…", show_default=False, help="Scripts; all if omitted."),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer cases, the same tolerances.")] = False,
    listing: Annotated[
        bool, Option("--list", help="Name the scripts with what each shows, and exit.")
    ] = False,
    write: Annotated[
        bool, Option("--write", help="Put what was run into validation/RESULTS.md.")
    ] = False,
    figures: Annotated[
        Path | None, Option(metavar="DIR", help="Draw the scripts' figures into this folder.")
    ] = None,
    jobs: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Processes, else one for each core; 1 runs scripts here."),
    ] = None,
) -> None:
    """Run the validation scripts of a checkout: claims held, the nearest to its tolerance, seconds.

    The scripts are not installed: run this where the folder `validation` of the sources lies. What
    they hold to its claims is the package that this command belongs to. Exit status: 0 all claims
    are met, 1 one is not or a script failed, 2 bad input, 130 interrupted.
    """
    scripts = _scripts()
    if listing:
        typer.echo(scripts.listing())
        return
    if complaint := scripts.unknown(names or []):
        raise Refusal(complaint)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise Refusal(f"--figures must be a folder, got {str(figures)!r}")
    with refusals():
        told, status = scripts.validate(
            names or [], quick=quick, write=write, figures=figures, jobs=jobs
        )
    typer.echo(told)
    if status:
        raise typer.Exit(status)


def _scripts() -> Any:
    """The scripts' own command, from the current folder."""
    here = Path.cwd()
    if not (here / "validation" / "runner.py").is_file():
        message = f"validate must be run in a checkout, where validation/ lies, got {str(here)!r}"
        raise Refusal(message)
    if str(here) not in sys.path:
        # last, so that the package itself stays the one that is running
        sys.path.append(str(here))
    return import_module("validation.__main__")
