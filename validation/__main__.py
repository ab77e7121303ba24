"""python -m validation [--quick] [--write] [name …]: all claims, or those of the scripts named."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from validation.claims import table

SCRIPTS = [
    "multipliers",
    "reference_runs",
    "exact_solution",
    "growth",
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
    "phase_diagram",
    "two_token_correlation",
    "tokens",
    "noisy_densities",
    "attention",
    "mean_field_limit",
    "real_tokens",
    "free_tokens",
    "doubly_stochastic",
    "form_energies",
    "survival",
    "kuramoto",
]
README = Path(__file__).parent / "README.md"
START = "<!-- what follows is written by `python -m validation --write` -->\n"


def main() -> None:
    """Run, print, and write the README if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--quick", action="store_true", help="fewer cases, the same tolerances")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    given = parser.parse_args()
    text, good = "", True
    for name in given.names or SCRIPTS:
        module = importlib.import_module(f"validation.{name}")
        claims = module.check(given.quick)
        good &= all(claim.holds for claim in claims)
        heading = (module.__doc__ or "").strip().splitlines()[0]
        section = f"\n## `{name}`\n\n{heading}\n\n{table(claims)}\n"
        print(section, flush=True)
        text += section
    if given.write:
        head = README.read_text(encoding="utf-8").partition(START)[0]
        README.write_text(head + START + text, encoding="utf-8")
    sys.exit(not good)


if __name__ == "__main__":
    main()
