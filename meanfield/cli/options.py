"""Options and arguments that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def output(metavar: str = "RESULT.nc", about: str = "Result file.") -> object:
    """The option of what a command writes beside figures: a dataset, or a page."""
    return Option("--output", "-o", metavar=metavar, help=about)


def figure(
    metavar: str = "FIGURE.png", about: str = "Figure; by default beside the result file."
) -> object:
    """The option of what a command draws."""
    return Option("--figure", metavar=metavar, help=about)


def optional_file(metavar: str, about: str) -> object:
    """The argument of a file that may be left out."""
    return Argument(metavar=metavar, show_default=False, help=about)


CaseFile = Annotated[Path, Argument(metavar="CASE", help="Case file (TOML) or result file.")]
RunFile = Annotated[Path, Argument(metavar="RUN.nc", help="Result file of a run.")]
FirstRun = Annotated[Path, Argument(metavar="A.nc", help="Result file of the first run.")]
SecondRun = Annotated[Path, Argument(metavar="B.nc", help="Result file of the second run.")]
RunFigure = Annotated[
    Path | None, figure("RUN.png", "Figure; by default RUN.png beside the result file.")
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the case, such as dynamics.beta=5 or dynamics.type=USA. Repeatable.",
    ),
]
Force = Annotated[
    bool, Option("--force", help="Replace files of other cases, and files of your own, too.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print errors only.")]
Rng = Annotated[int, Option("--rng", metavar="INTEGER", min=0, help="Seed of all random numbers.")]
ExecutorName = Annotated[
    str | None,
    Option(
        "--executor",
        metavar="processes|dask|mpi",
        help="Where to run; by default in this process, one run after another.",
    ),
]
Workers = Annotated[
    int | None,
    Option(
        "--workers",
        min=1,
        help="Number of processes on this machine; one for each core if omitted.",
    ),
]
Scheduler = Annotated[
    str | None,
    Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a dask scheduler, such as tcp://host:8786.",
    ),
]
