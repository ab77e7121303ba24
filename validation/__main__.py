"""python -m validation [--quick] [--list] [--write] [--figures DIR] [--workers N] [name …].

All claims, or those of the scripts named; `meanfield validate` is the same.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from validation import record
from validation._inside import Refusal, commands, refusals
from validation.runner import about, run_scripts, summary

SCRIPTS = [
    "multipliers",
    "reference_runs",
    "beta_zero_exact",
    "linear_growth",
    "lemma_3_7_energy_identity",
    "invariants",
    "section_3_4_metric",
    "agreement",
    "velocity",
    "particle_limit",
    "causal",
    "convergence",
    "flow_maps",
    "sphere_flow_maps",
    "clusters",
    "cluster_escape",
    "metastability",
    "prop_3_4",
    "stationary_states",
    "transport",
    "sphere_transport",
    "sphere_brackets",
    "fig_3_phase_diagram",
    "fig_4_two_time_scales",
    "fig_5_random_matrices",
    "two_token_correlation",
    "tokens",
    "noisy_densities",
    "attention",
    "random_layers",
    "remark_3_3_dobrushin",
    "mean_field_rates",
    "mean_field_limit",
    "real_tokens",
    "trained",
    "section_9_2_limits",
    "doubly_stochastic",
    "form_energies",
    "survival",
    "long_runs",
    "fuzz",
    "kuramoto",
    "thm_4_1_beta_zero",
    "thm_4_3_5_1_small_and_large_beta",
    "thm_6_3_exponential",
    "lemma_6_4_cone",
    "section_7_circle",
    "section_9_1_repulsive",
    "thm_6_7_wendel",
    "thm_6_8_orthogonal",
    "thm_6_9_high_dimension",
    "mutations",
]


def listing() -> str:
    """Every script with the first line of what it shows."""
    width = max(map(len, SCRIPTS))
    return "\n".join(f"{name:<{width}}  {about(name)}" for name in SCRIPTS)


def unknown(names: Sequence[str]) -> str:
    """Which of the names are no scripts, in one line; empty if all are."""
    wrong = [name for name in names if name not in SCRIPTS]
    if not wrong:
        return ""
    return f"names must be among {', '.join(SCRIPTS)}, got {', '.join(wrong)}"


def validate(
    names: Sequence[str],
    *,
    quick: bool = False,
    write: bool = False,
    figures: Path | None = None,
    workers: int | None = None,
) -> tuple[str, int]:
    """Run scripts, all if none is named.

    Returns
    -------
    str
        Their table.
    int
        Exit status: 0 if all is well, 1 if not, 130 after Ctrl-C, which leaves RESULTS.md alone.

    Raises
    ------
    ValueError
        If sections are to be replaced in a RESULTS.md that was not written here.
    """
    wanted = set(names or SCRIPTS)
    chosen = [name for name in SCRIPTS if name in wanted]
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
    kept = record.recorded() if write and len(chosen) < len(SCRIPTS) else {}
    start = time.perf_counter()
    workers = min(workers or os.cpu_count() or 1, len(chosen)) if workers != 1 else 1
    outcomes = run_scripts(chosen, quick, figures, workers=workers, seconds=record.last_seconds())
    by = f"{workers} worker{'s' * (workers > 1)}"
    text = f"{summary(outcomes)}\n{time.perf_counter() - start:.0f} s by {by}"
    if len(outcomes) < len(chosen):
        return f"{text}\ninterrupted: {len(outcomes)} of {len(chosen)} scripts were finished", 130
    if write:
        new = kept | record.sections(outcomes, quick)
        record.write({name: new[name] for name in SCRIPTS if name in new})
    return text, int(not all(one.is_good for one in outcomes))


app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def command(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]…", show_default=False, help="Scripts; all if omitted."),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer cases, the same tolerances.")] = False,
    listed: Annotated[
        bool, Option("--list", help="Name the scripts with what each shows, and exit.")
    ] = False,
    write: Annotated[
        bool, Option("--write", help="Put what was run into validation/RESULTS.md.")
    ] = False,
    figures: Annotated[
        Path | None, Option(metavar="DIR", help="Draw the scripts' figures into this folder.")
    ] = None,
    workers: Annotated[
        int | None,
        Option(min=1, help="Processes, else one for each core; 1 runs scripts here."),
    ] = None,
) -> None:
    """Run the validation scripts of a checkout: claims held, the nearest to its tolerance, seconds.

    The scripts are not installed: run this where the folder `validation` of the sources lies. What
    they hold to its claims is the package that this command belongs to. Exit status: 0 all claims
    are met, 1 one is not or a script failed, 2 bad input, 130 interrupted.
    """
    if listed:
        typer.echo(listing())
        return
    if complaint := unknown(names or []):
        raise Refusal(complaint)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise Refusal(f"--figures must be a folder, got {str(figures)!r}")
    with refusals():
        told, status = validate(
            names or [], quick=quick, write=write, figures=figures, workers=workers
        )
    typer.echo(told)
    raise typer.Exit(status)


def main(arguments: Sequence[str]) -> int:
    """Run `meanfield validate` with these arguments; the exit status."""
    line = typer.main.get_command(app)
    status = line.main(args=arguments, prog_name="meanfield validate", standalone_mode=False)
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(commands.main(["validate", *sys.argv[1:]]))
