"""python -m validation [--quick] [--list] [--write] [--figures DIR] [name …].

All claims, or those of the scripts named; `meanfield validate` is the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from validation.runner import RESULTS, about, results, run_scripts, summary

SCRIPTS = [
    "multipliers",
    "reference_runs",
    "beta_zero_exact",
    "linear_growth",
    "lemma_3_7_energy_identity",
    "invariants",
    "agreement",
    "velocity",
    "particle_limit",
    "convergence",
    "flow_maps",
    "sphere_flow_maps",
    "metastability",
    "prop_3_4",
    "stationary_states",
    "transport",
    "sphere_transport",
    "fig_3_phase_diagram",
    "two_token_correlation",
    "tokens",
    "noisy_densities",
    "attention",
    "mean_field_limit",
    "real_tokens",
    "section_9_2_limits",
    "doubly_stochastic",
    "form_energies",
    "survival",
    "kuramoto",
]
HELP = {
    "names": "scripts, all if omitted",
    "quick": "fewer cases, the same tolerances",
    "list": "name the scripts with what each shows, and exit",
    "write": f"write what was run, and the versions it ran with, into {RESULTS.name}",
    "figures": "draw the figures of the scripts that have one into this folder",
}


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
    names: Sequence[str], *, quick: bool = False, write: bool = False, figures: Path | None = None
) -> tuple[str, bool]:
    """Run scripts, all if none is named: their table, and whether all is well."""
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
    outcomes = run_scripts(list(dict.fromkeys(names)) or SCRIPTS, quick, figures)
    if write:
        RESULTS.write_text(results(outcomes, quick), encoding="utf-8")
    return summary(outcomes), all(one.is_good for one in outcomes)


def main() -> None:
    """The same as `meanfield validate`."""
    parser = argparse.ArgumentParser(prog="python -m validation")
    parser.add_argument("names", nargs="*", metavar="name", help=HELP["names"])
    for flag in ("quick", "list", "write"):
        parser.add_argument(f"--{flag}", action="store_true", help=HELP[flag])
    parser.add_argument("--figures", type=Path, metavar="DIR", help=HELP["figures"])
    given = parser.parse_args()
    if given.list:
        print(listing())
        return
    if complaint := unknown(given.names):
        parser.error(complaint)
    text, good = validate(given.names, quick=given.quick, write=given.write, figures=given.figures)
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
