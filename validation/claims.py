"""What a claim is, and the table of claims."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One number that must not exceed its tolerance."""

    statement: str
    source: str
    measured: float
    tolerance: float
    reason: str

    @property
    def holds(self) -> bool:
        """Whether the figure is within its tolerance; a NaN is not."""
        return self.measured <= self.tolerance


def table(claims: list[Claim]) -> str:
    """Markdown, one claim in a row."""
    rows = ["| claim | source | measured | tolerance | why | holds |", "|---|---|---|---|---|---|"]
    for c in claims:
        verdict = "yes" if c.holds else "**NO**"
        rows.append(
            f"| {c.statement} | {c.source} | {c.measured:.1e} | {c.tolerance:.0e} | {c.reason} "
            f"| {verdict} |"
        )
    return "\n".join(rows)


def main(check: Callable[[bool], list[Claim]]) -> None:
    """Run one script: print its table, exit with 1 if a claim is false."""
    parser = argparse.ArgumentParser(description=check.__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases, the same tolerances")
    quick = parser.parse_args().quick
    start = time.perf_counter()
    claims = check(quick)
    print(table(claims))
    print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(not all(claim.holds for claim in claims))
