"""Scripts one by one or side by side: what each claims, its figure, the table of all."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tqdm import tqdm

import meanfield as mf
from validation.claims import Claim
from validation.processes import Died, Tick, side_by_side

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
    """What a script shows, in a line."""
    return first_line(Path(__file__).parent / f"{name}.py")


def first_line(path: Path) -> str:
    """The first line of a script's docstring, without importing anything of it."""
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
    except (Exception, SystemExit) as raised:
        error = " ".join(f"{type(raised).__name__}: {raised}".split())
    return Outcome(name, about(name), claims, time.perf_counter() - start, error)


def run_scripts(
    names: Sequence[str],
    quick: bool,
    figures: Path | None = None,
    *,
    workers: int = 1,
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> list[Outcome]:
    """All of them under a progress bar on standard error, where that is a terminal.

    One job is this process, and takes them in order. More are processes, which begin with what
    is not known to take few seconds, then with what takes the most. Ctrl-C ends either at once.

    Returns
    -------
    list of Outcome
        In the order of the names; fewer than these after Ctrl-C.
    """
    run = partial(run_script, quick=quick, figures=figures)
    if workers == 1:
        ticks = _one_by_one(run, names)
    else:
        longest_first = sorted(names, key=lambda name: -seconds.get(name, float("inf")))
        ticks = side_by_side(run, longest_first, workers)
    bar = tqdm(total=len(names), unit="script", disable=not sys.stderr.isatty(), leave=False)
    found: dict[str, Outcome] = {}
    with bar, closing(ticks), suppress(KeyboardInterrupt):
        for tick in ticks:
            for name, outcome in tick.finished.items():
                found[name] = _lost(name, outcome) if isinstance(outcome, Died) else outcome
            bar.set_postfix_str(", ".join(tick.running), refresh=False)
            bar.update(len(tick.finished))
            bar.refresh()
    return [found[name] for name in names if name in found]


def _one_by_one(run: Callable[[str], Outcome], names: Sequence[str]) -> Generator[Tick, None, None]:
    for name in names:
        yield Tick([name])
        yield Tick([], {name: run(name)})


def _lost(name: str, died: Died) -> Outcome:
    error = f"its process ended with status {died.status}"
    return Outcome(name, about(name), [], 0.0, error)


def summary(outcomes: Sequence[Outcome]) -> str:
    """One aligned table, and below it each claim that is not met."""
    rows = [list(HEADINGS), *(one.row for one in outcomes)]
    total, held = sum(len(o.claims) for o in outcomes), sum(o.held for o in outcomes)
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
