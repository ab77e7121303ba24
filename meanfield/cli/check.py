"""Commands that check what is claimed."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import numpy as np
import typer

from meanfield.cli.commands import app
from meanfield.cli.outputs import (
    BAD_INPUT,
    FIGURE_SUFFIXES,
    Force,
    Refusal,
    check_output,
    check_replaceable,
    source_of,
)

check = typer.Typer(
    help="Check a proposition: a verdict, its evidence and a figure.",
    rich_markup_mode=None,
)
app.add_typer(check, name="check")

# of a line
_WIDTH = 110
# attributes that go with a verdict
_BESIDE = ("witness", "reason", "note")
# exit statuses beside 0 and that of bad input
_STATUSES = {"refuted": 1, "undecided": 3}
_WHOLE: dict[str, Any] = {"samples": 4000}
# what a quick check is content with
_QUICK: dict[str, Any] = {"samples": 100, "starts": 1}


@check.callback()
def _group() -> None:
    """Check a proposition: a verdict, its evidence and a figure."""


@check.command("prop-3.4")
def proposition_3_4(
    beta: Annotated[
        str | None,
        typer.Option(metavar="B or LOW,HIGH", help="β, or an interval of β; 4 if omitted."),
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimension d of R^d.")] = 3,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="A0,A1,…",
            help="Coefficients of Σ a_m t^m in place of e^{βt}/β; without --beta.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Random measures of the search; 4000, or 100 if quick, if omitted."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples and starts.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FIGURE.png", help="Figure.")
    ] = Path("prop-3.4.png"),
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")] = False,
) -> None:
    """Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its only maximisers.

    Prints a verdict (proved, undecided, refuted) with its evidence, and writes a figure. One of the
    same options is replaced, another file only with --force. Exit status: 0 if the proposition is
    proved, 1 if it is refuted by a witness, 2 for bad input or a figure that can't be written, 3 if
    it is undecided.
    """
    check_output(output, "--output", FIGURE_SUFFIXES)
    betas, coefficients = _problem(beta, kernel)
    from meanfield import plot, studies  # matplotlib is slow to import

    effort = (_QUICK if quick else _WHOLE) | ({} if samples is None else {"samples": samples})
    source = source_of("prop-3.4", betas, dim, coefficients, effort, seed)
    check_replaceable(output, "--output", source, force)
    try:
        found = studies.proposition_3_4(
            betas,
            dim,
            kernel=coefficients,
            rng=np.random.default_rng(seed),
            progress=sys.stderr.isatty() and not quiet,
            **effort,
        )
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    # before the figure, which may fail
    typer.echo(verdict(found) if quiet else report(found))
    try:
        plot.save(plot.proposition_3_4(found), output, source=source)
    except OSError as error:
        raise Refusal(f"can't write {output}: {error}", BAD_INPUT) from None
    if not quiet:
        typer.echo(f"wrote {output}")
    raise typer.Exit(_STATUSES.get(found.attrs["verdict"], 0))


def _problem(
    beta: str | None, kernel: str | None
) -> tuple[float | tuple[float, float] | None, list[float] | None]:
    """β or an interval of it, or the coefficients that take its place."""
    if kernel is None:
        return _point_or_interval(_numbers("--beta", "4" if beta is None else beta)), None
    if beta is not None:
        raise Refusal(f"--beta must be left out with --kernel, got {beta!r}", BAD_INPUT)
    return None, _numbers("--kernel", kernel)


def _point_or_interval(betas: list[float]) -> float | tuple[float, float]:
    if len(betas) == 1:
        return betas[0]
    if len(betas) != 2:
        raise Refusal(f"--beta must be one number or LOW,HIGH, got {betas}", BAD_INPUT)
    return betas[0], betas[1]


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"{option} must be numbers with commas between them, got {text!r}"
        raise Refusal(message, BAD_INPUT) from None


def verdict(found: Any) -> str:
    """The verdict and what it is about, with its witness, reason or note."""
    lines = [f"{found.attrs['verdict']}: {found.attrs['statement']}"]
    lines += [f"{name}: {found.attrs[name]}" for name in _BESIDE if name in found.attrs]
    return "\n".join(lines)


def report(found: Any) -> str:
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
