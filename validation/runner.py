"""Scripts one by one: what each claims, the table of all, the figures, RESULTS.md."""

from __future__ import annotations

import importlib
import inspect
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

import meanfield as mf
from meanfield.cli.text import version
from validation.claims import Claim, table

RESULTS = Path(__file__).parent / "RESULTS.md"
LIBRARIES = "numpy", "scipy", "pyfftw", "ducc0"
HEADINGS = "script", "claims held", "worst measured/tolerance", "seconds", "remark"


@dataclass(frozen=True)
class Outcome:
    """What one script came to: its claims and, if it raised, its error."""

    name: str
    about: str
    claims: list[Claim]
    seconds: float
    error: str = ""

    @property
    def held(self) -> int:
        """How many claims are met."""
        return sum(claim.holds for claim in self.claims)

    @property
    def is_good(self) -> bool:
        """Whether there are claims, all are met, and nothing was raised."""
        return bool(self.claims) and self.held == len(self.claims) and not self.error

    @property
    def worst(self) -> float:
        """The largest ratio of measured figure to tolerance, ∞ where one is no number."""
        ratios = [claim.ratio for claim in self.claims]
        return max((r if r == r else float("inf") for r in ratios), default=float("nan"))

    @property
    def row(self) -> list[str]:
        """Its line of the table."""
        held = f"{self.held}/{len(self.claims)}" if self.claims else "-"
        worst = f"{self.worst:.2g}" if self.claims else "-"
        remark = self.error or ("" if self.is_good else "NOT MET")
        return [self.name, held, worst, f"{self.seconds:.0f}", remark]


def about(name: str) -> str:
    """The first line of a script's docstring, without importing anything else of it."""
    path = Path(__file__).parent / f"{name}.py"
    lines = path.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0].splitlines()
    return lines[0].strip()


def run_script(name: str, quick: bool, figures: Path | None = None) -> Outcome:
    """Check one script, and draw its figure into a folder; an error is part of the outcome."""
    start = time.perf_counter()
    claims: list[Claim] = []
    error = ""
    try:
        module = importlib.import_module(f"validation.{name}")
        claims = module.check(quick)
        if not claims:
            error = "no claims"
        if figures is not None and inspect.isfunction(getattr(module, "figure", None)):
            mf.plot.save(module.figure(quick), figures / f"{name}.png")
    except Exception as raised:
        error = " ".join(f"{type(raised).__name__}: {raised}".split())
    return Outcome(name, about(name), claims, time.perf_counter() - start, error)


def run_scripts(names: Sequence[str], quick: bool, figures: Path | None = None) -> list[Outcome]:
    """All of them under a progress bar on standard error, where that is a terminal."""
    found = []
    with tqdm(names, unit="script", disable=not sys.stderr.isatty(), leave=False) as bar:
        for name in bar:
            bar.set_description(name)
            found.append(run_script(name, quick, figures))
    return found


def summary(outcomes: Sequence[Outcome]) -> str:
    """One aligned table, and below it each claim that is not met."""
    rows = [list(HEADINGS), *(one.row for one in outcomes)]
    total, held = (sum(n) for n in zip(*((len(o.claims), o.held) for o in outcomes), strict=True))
    rows.append(["all", f"{held}/{total}", "", f"{sum(o.seconds for o in outcomes):.0f}", ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            f"{cell:>{width}}" if 0 < i < 4 else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines += [
        f"{one.name}: {claim.statement}: {claim.measured:.1e} > {claim.tolerance:.0e}"
        for one in outcomes
        for claim in one.claims
        if not claim.holds
    ]
    return "\n".join(lines)


def results(outcomes: Sequence[Outcome], quick: bool) -> str:
    """The text of RESULTS.md: versions, the summary, and the table of each script."""
    versions = {
        "meanfield": mf.__version__,
        **{name: version(name) for name in LIBRARIES},
        "Python": platform.python_version(),
    }
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    form = "quick" if quick else "full"
    parts = [
        "# Results",
        (
            "Written by `meanfield validate --write`; [README.md](README.md) tells what the "
            f"scripts show. The {form} form, with {told}, on {os.cpu_count()} cores."
        ),
        _markdown([list(HEADINGS), *(one.row for one in outcomes)]),
    ]
    for one in outcomes:
        parts += [f"## `{one.name}`", one.about]
        parts += [f"**{one.error}**"] * bool(one.error)
        parts += [table(one.claims)] * bool(one.claims)
    return "\n\n".join(parts) + "\n"


def _markdown(rows: list[list[str]]) -> str:
    ruled = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    lines = ("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in ruled)
    return "\n".join(lines)
