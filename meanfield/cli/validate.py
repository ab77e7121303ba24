"""The command that holds the package against the claims of a checkout's validation scripts."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.cli.commands import app
from meanfield.cli.outputs import BAD_INPUT, FAILED_RUN, Refusal


@app.command()
def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", show_default=False, help="Scripts; all if omitted."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer cases, the same tolerances.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Name the scripts with what each shows, and exit.")
    ] = False,
    write: Annotated[
        bool,
        typer.Option("--write", help="Put what was run into validation/RESULTS.md."),
    ] = False,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draw the scripts' figures into this folder."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes, else one for each core; 1 runs scripts here."
        ),
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
        raise Refusal(complaint, BAD_INPUT)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise Refusal(f"--figures must be a folder, got {str(figures)!r}", BAD_INPUT)
    try:
        text, status = scripts.validate(
            names or [], quick=quick, write=write, figures=figures, jobs=jobs
        )
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    except OSError as error:
        raise Refusal(f"can't write: {error}", FAILED_RUN) from None
    typer.echo(text)
    if status:
        raise typer.Exit(status)


def _scripts() -> Any:
    """The scripts' own command, from the current folder."""
    here = Path.cwd()
    if not (here / "validation" / "runner.py").is_file():
        message = f"validate must be run in a checkout, where validation/ lies, got {str(here)!r}"
        raise Refusal(message, BAD_INPUT)
    if str(here) not in sys.path:
        # last, so that the package itself stays the one that is running
        sys.path.append(str(here))
    return import_module("validation.__main__")
