"""The command that runs a case over a grid."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.case import Case
from meanfield.cli.cases import Settings, chosen_case
from meanfield.cli.commands import app
from meanfield.cli.outputs import (
    BAD_INPUT,
    FAILED_RUN,
    INTERRUPTED,
    Force,
    Refusal,
    check_output,
    check_replaceable,
    source_of,
)
from meanfield.cli.runs import killed_like_ctrl_c, only_installed_code
from meanfield.exceptions import GOOD
from meanfield.executors import NAMES, opened
from meanfield.files import SOURCE
from meanfield.solution import netcdf
from meanfield.sweeps import axis, cells_beside, sweep

# with which words an error about an option begins
_OPTIONS = ("executor ", "scheduler ", "workers ")


@app.command("sweep")
def sweep_command(
    case: Annotated[Path, typer.Argument(metavar="CASE", help="Case file (TOML).")],
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUES",
            help="A key and its values: dynamics.beta=1:10:19 (start, stop, count) or "
            "dynamics.type=SA,USA. Repeatable: all combinations are run.",
        ),
    ],
    settings: Settings = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(NAMES), help="Where cells are run; here, one by one, without one."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes on this machine, else one for each core.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a dask scheduler, as tcp://host:8786."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="SWEEP.nc", help="Result file.")
    ] = Path("sweep.nc"),
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Run a case at every combination of values, and write one dataset over the grid.

    Each finished cell is kept as a result file in the folder SWEEP.nc.cells; the same command
    again runs what is missing and replaces SWEEP.nc, and so does one with another grid. A file of
    another case is replaced only with --force. Exit status: 0, 1 if cells failed (the others are
    written), 2 bad input, 130 interrupted.
    """
    check_output(output, "--output", (".nc",))
    chosen, _ = chosen_case(case, settings)
    axes, folder = _axes(grid), cells_beside(output)
    # the cells of another grid stay where they are
    source = source_of("sweep", chosen.digest())
    check_replaceable(output, "--output", source, force)
    options = {"cells": folder, "workers": workers, "progress": sys.stderr.isatty() and not quiet}
    found = _swept(chosen, axes, (executor, scheduler, workers), options)
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


def _swept(
    chosen: Case,
    axes: dict[str, list[Any]],
    where: tuple[str | None, str | None, int | None],
    options: dict[str, Any],
) -> Any:
    kept = f"finished cells are kept in {options['cells']}, and the same command goes on"
    try:
        with killed_like_ctrl_c(), only_installed_code(), opened(*where) as executor:
            return sweep(chosen, axes, executor=executor, **options)
    except ValueError as error:
        option = "--" if str(error).startswith(_OPTIONS) else ""
        raise Refusal(f"{option}{error}", BAD_INPUT) from None
    except RuntimeError as error:
        raise Refusal(f"{error}; {kept}", FAILED_RUN) from None
    except KeyboardInterrupt:
        raise Refusal(f"interrupted: {kept}", INTERRUPTED) from None


def _axes(grid: list[str]) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for text in grid:
        try:
            key, values = axis(text)
        except ValueError as error:
            raise Refusal(f"--grid {text}: {error}", BAD_INPUT) from None
        if key in axes:
            raise Refusal(f"--grid must have each key once, got {key} twice", BAD_INPUT)
        axes[key] = values
    return axes
