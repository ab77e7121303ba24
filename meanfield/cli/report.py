"""The command that makes a page of a run."""

from __future__ import annotations

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
from meanfield.solution import load


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="RUN.nc", help="Result file of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="RUN.html", help="Page, else RUN.html beside the result file."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Make one HTML page of a run that needs no network: measure over time, numbers, checks, case.

    Needs plotly, of the extra `report`. A page of the same case is replaced, another file only with
    --force.
    """
    page = file.with_suffix(".html") if output is None else output
    check_output(page, "--output", (".html",))
    from meanfield import report as reports  # slow to import, as what it draws with is

    try:
        solution = load(file)
        check_replaceable(page, "--output", solution.source, force)
        reports.save(solution, page)
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    except OSError as error:
        raise Refusal(f"can't write {page}: {error}", FAILED_RUN) from None
    typer.echo(f"wrote {page}")
