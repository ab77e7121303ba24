"""What a claim is, the table of claims, and what one script does on its own."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Claim:
    """One number that must not exceed its tolerance.

    `claimed` and `found` are, where a statement has them, the value that the source gives and the
    value that was measured; `measured` is then what parts them.
    """

    statement: str
    source: str
    measured: float
    tolerance: float
    reason: str
    claimed: str = ""
    found: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is within its tolerance; a NaN is not."""
        return bool(self.measured <= self.tolerance)

    @property
    def ratio(self) -> float:
        """Measured over tolerance: at most 1 where the claim holds."""
        if self.tolerance == 0.0:
            return 0.0 if self.holds else float("inf")
        return float(self.measured / self.tolerance)


def table(claims: list[Claim]) -> str:
    """Markdown, one claim in a row; the values claimed and found where any claim has them."""
    values = any(c.claimed or c.found for c in claims)
    heading = ["claim", "source", *(["claimed", "found"] if values else [])]
    heading += ["measured", "tolerance", "why", "holds"]
    rows = [heading, ["---"] * len(heading)]
    for c in claims:
        given = [c.claimed or "-", c.found or "-"] if values else []
        verdict = "yes" if c.holds else "**NO**"
        numbers = [f"{c.measured:.1e}", f"{c.tolerance:.0e}"]
        rows.append([c.statement, c.source, *given, *numbers, c.reason, verdict])
    # a bar would end the cell
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in r) + " |" for r in rows)


def main(check: Callable[[bool], list[Claim]]) -> None:
    """Run one script: print its table, draw its figure if asked, exit with 1 if a claim is false.

    The figure is that of the function `figure` beside `check`, where there is one.
    """
    figure = getattr(sys.modules[check.__module__], "figure", None)
    parser = argparse.ArgumentParser(description=check.__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases, the same tolerances")
    if figure is not None:
        parser.add_argument("--figure", type=Path, metavar="FILE.png", help="draw it there")
    given = parser.parse_args()
    start = time.perf_counter()
    claims = check(given.quick)
    print(table(claims))
    if figure is not None and given.figure is not None:
        from meanfield.plot import save

        save(figure(given.quick), given.figure)
    print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(not all(claim.holds for claim in claims))
