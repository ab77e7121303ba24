"""The command that holds tokens against their limit."""

from __future__ import annotations

import sys
from math import isfinite
from pathlib import Path
from typing import Annotated, cast

import typer

from meanfield.case import read_case
from meanfield.cli.cases import Settings, settings_from
from meanfield.cli.commands import app
from meanfield.cli.outputs import (
    BAD_INPUT,
    FAILED_RUN,
    Force,
    Refusal,
    check_output,
    check_replaceable,
    source_of,
)
from meanfield.dynamics import Isotropic
from meanfield.files import SOURCE
from meanfield.solution import netcdf

_NS = "100,1000,10000"


@app.command()
def limit(
    case: Annotated[Path, typer.Argument(metavar="CASE", help="Case file (TOML).")],
    ns: Annotated[str, typer.Option(metavar="N,N,…", help="Numbers of tokens.")] = _NS,
    repeats: Annotated[int, typer.Option(min=1, help="Starts for each number of tokens.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the starts.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="LIMIT.nc", help="Result file.")
    ] = Path("limit.nc"),
    settings: Settings = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Hold runs of n tokens against the run of their density: errors over n and t, and rates.

    Law, dynamics and times are the case's; tokens are drawn from its law. Writes LIMIT.nc and a
    figure beside it. Files of the same case and options are replaced, others only with --force.
    """
    counts = _counts(ns)
    chosen, picture = read_case(case, settings_from(settings)), output.with_suffix(".png")
    check_output(output, "--output", (".nc",))
    check_output(picture, "the figure beside --output", (".png",))
    source = source_of("limit", chosen.digest(), counts, repeats, seed)
    check_replaceable(output, "--output", source, force)
    check_replaceable(picture, "the figure beside --output", source, force)
    from meanfield import plot, studies  # matplotlib is slow to import

    law, dynamics = chosen.build_law()
    with chosen.errors("run"):
        found = studies.mean_field_limit(
            law,
            cast(Isotropic, dynamics),  # of others the study says itself that it has none
            chosen.run.t_end,
            counts,
            repeats,
            save_at=chosen.run.save_at,
            seed=seed,
            progress=sys.stderr.isatty() and not quiet,
        )
    try:
        netcdf.write(found.assign_attrs({"case": chosen.text, SOURCE: source}), output)
        plot.save(plot.mean_field_limit(found), picture, source=source)
    except OSError as error:
        raise Refusal(f"can't write {output} or {picture}: {error}", FAILED_RUN) from None
    if quiet:
        return
    typer.echo(f"{'quantity':<14}{'error, n = ' + str(counts[-1]):>20}{'rate in n':>12}  95 %")
    for name in found["quantity"].values:
        last = found.sel(quantity=name).isel(t=-1)
        errors = last[str(name)].isel(n=-1)
        # squares may leave double precision
        unit = float(errors.max()) or 1.0
        size = unit * float(((errors / unit) ** 2).mean() ** 0.5)
        rate, low, high = (float(last[key]) for key in ("rate", "rate_low", "rate_high"))
        # one number of tokens has no rate, one start no interval
        slope = f"{rate:.3f}" if isfinite(rate) else "-"
        interval = f"{low:.3f} … {high:.3f}" if isfinite(low) else "-"
        typer.echo(f"{name!s:<14}{size:>20.3e}{slope:>12}  {interval}")
    typer.echo(f"wrote {output}, {picture}")


def _counts(ns: str) -> list[int]:
    try:
        # 1e4, too
        given = [float(n) for n in ns.split(",")]
    except ValueError:
        given = []
    counts = [int(n) for n in given if n.is_integer() and n >= 2]
    if not counts or counts != given or counts != sorted(set(counts)):
        message = f"--ns must be ascending integers >= 2 with commas between them, got {ns!r}"
        raise Refusal(message, BAD_INPUT)
    return counts
