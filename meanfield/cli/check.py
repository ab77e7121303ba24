"""Commands that check what is claimed."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import numpy as np
import typer

from meanfield.cli.commands import app
from meanfield.cli.outputs import BAD_INPUT, FAILED_RUN, FIGURE_SUFFIXES, Refusal, check_output

check = typer.Typer(
    help="Check a proposition: a verdict, its evidence and a figure.",
    rich_markup_mode=None,
)
app.add_typer(check, name="check")

# of a line
_WIDTH = 110
# what a quick check is content with
_QUICK: dict[str, Any] = {"samples": 100, "starts": 1, "most_tokens": 16}


@check.callback()
def _group() -> None:
    """Check a proposition: a verdict, its evidence and a figure."""


@check.command("prop-3.4")
def proposition_3_4(
    beta: Annotated[
        str, typer.Option(metavar="B or LOW,HIGH", help="β, or an interval of β.")
    ] = "4",
    dim: Annotated[int, typer.Option(help="Dimension d of R^d.")] = 3,
    kernel: Annotated[
        str | None,
        typer.Option(metavar="A0,A1,…", help="Coefficients of Σ a_m t^m in place of e^{βt}/β."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Random measures of the search.")] = 4000,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples and starts.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FIGURE.png", help="Figure.")
    ] = Path("prop-3.4.png"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")] = False,
) -> None:
    """Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its maximisers.

    Prints a verdict (proved, holds numerically, refuted) with its evidence, and writes a figure.
    Exit status: 0 if the proposition holds, 1 if it is refuted, 2 for bad input.
    """
    check_output(output, "--output", FIGURE_SUFFIXES)
    betas, coefficients = _numbers("--beta", beta), None
    if kernel is not None:
        coefficients = _numbers("--kernel", kernel)
    from meanfield import plot, studies  # matplotlib is slow to import

    effort: dict[str, Any] = _QUICK if quick else {"samples": samples}
    try:
        found = studies.proposition_3_4(
            _point_or_interval(betas),
            dim,
            kernel=coefficients,
            rng=np.random.default_rng(seed),
            progress=sys.stderr.isatty() and not quiet,
            **effort,
        )
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    try:
        plot.save(plot.proposition_3_4(found), output)
    except OSError as error:
        raise Refusal(f"can't write {output}: {error}", FAILED_RUN) from None
    typer.echo(verdict(found) if quiet else f"{report(found)}\nwrote {output}")
    if found.attrs["verdict"] == "refuted":
        raise typer.Exit(FAILED_RUN)


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
    """The verdict and what it is about, with a witness if it is refuted."""
    lines = [f"{found.attrs['verdict']}: {found.attrs['statement']}"]
    if "witness" in found.attrs:
        lines.append(f"witness: {found.attrs['witness']}")
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
            heading = f"{name:<{width}}  {status!s:<6}  "
            lines += wrap(
                str(finding), _WIDTH, initial_indent=heading, subsequent_indent=" " * len(heading)
            )
    return "\n".join(lines)
