"""The command that makes a movie of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from meanfield.cli.commands import app
from meanfield.cli.outputs import (
    BAD_INPUT,
    FAILED_RUN,
    Force,
    Refusal,
    check_output,
    check_replaceable,
)
from meanfield.cli.runs import killed_like_ctrl_c
from meanfield.solution import load


@app.command()
def movie(
    file: Annotated[Path, typer.Argument(metavar="RUN.nc", help="Result file of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="RUN.mp4|RUN.gif",
            help="Movie, else RUN.mp4 beside the result file, or RUN.gif where there is no ffmpeg.",
        ),
    ] = None,
    frames: Annotated[
        int | None, typer.Option(help="Of so many saved times; all, up to 500, if omitted.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="How long it takes; else as frames and fps make it.")
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second, 10 if neither this nor seconds is given.")
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Make a movie of a run: the measure at its saved times, the energy below.

    MP4 needs ffmpeg; GIF needs nothing more. Each frame is a saved state: for smoother motion save
    more often (run.save_at). Give at most two of --frames, --seconds and --fps. A movie of the same
    case is replaced, another file only with --force.
    """
    from meanfield.plot.movies import default_movie_suffix, movie  # slow to import

    place = file.with_suffix(default_movie_suffix()) if output is None else output
    check_output(place, "--output", (".mp4", ".gif"))
    try:
        solution = load(file)
        check_replaceable(place, "--output", solution.source, force)
        shown = not quiet and sys.stderr.isatty()
        with killed_like_ctrl_c():
            movie(solution, place, frames=frames, seconds=seconds, fps=fps, progress=shown)
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    except OSError as error:
        raise Refusal(f"can't write {place}: {error}", FAILED_RUN) from None
    if not quiet:
        typer.echo(f"wrote {place}")
