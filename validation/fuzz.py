"""Hostile input: readers of case files and result files answer with one line, and no more.

Claim: whatever a case file or a result file holds, reading it ends in a case or a solution, or in a
ValueError of one line. Nothing hangs, no process dies, no memory beyond 2 GB is taken, nothing is
written, renamed, removed, evaluated or unpickled, and no program is started.

Measured: 18,500 files (1 in 50 of them in the quick form): bytes of cases changed; cases with
other values and keys; trees by hypothesis; results that are cut short or changed; and results that
HDF5 itself has changed and left without a seal, with other attributes, numbers, shapes, kinds and
links, with and without a checksum that fits. Cases are
built, and results that can be loaded are taken up as `resume` does. Each is tried in a process of
its own kind with a limit of memory and of time, and Python's audit events tell what it does.

A result whose bytes were changed must be refused, every one. So that the claim can fail, some of
each kind must have been refused and, where a change may be harmless, read as well.

Tolerance: none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import meanfield as mf
from validation import fuzz_inputs
from validation._inside import Contents, case_from_text, default_case_text, read_case, restart
from validation.claims import Claim, main
from validation.fuzz_children import Trial, outcomes

_SHARE_IF_QUICK = 0.02
_FORGED_FROM = 500
# how an input is made and read, how many there are, and whether some or none must be read
_Kind = tuple[Callable[[int], Any], Callable[[Any], Any], int, bool | None]


@cache
def _build_bundled() -> None:
    case_from_text(default_case_text(), "case.toml").build()


def case_input(make: Callable[[int], Any], number: int) -> Any:
    """An input of cases, made after one sound case was read and built.

    Pydantic evaluates the annotations of the tables when it reads and writes the first case,
    whatever that is; no input is to blame.
    """
    _build_bundled()
    return make(number)


def case_file(number: int) -> Path:
    """A file of a case whose bytes were changed."""
    path = Path("case.toml")
    path.write_bytes(fuzz_inputs.case_bytes(number))
    return path


def drawn_tree(trees: list[str], number: int) -> str:
    """One of the trees by hypothesis, which takes long to draw them."""
    return trees[number % len(trees)]


def result_file(make: Callable[[int], bytes], number: int) -> Path:
    """A file of a result."""
    fuzz_inputs.results()
    path = Path("run.nc")
    path.write_bytes(make(number))
    return path


def build(text: str) -> None:
    """Read a case and build what it says."""
    case_from_text(text, "a.toml").build()


def take_up(path: Path) -> None:
    """Load a result, and what `resume` makes of it."""
    solution = mf.load(path)
    if solution.resumption is not None:
        restart(solution, path, monitors={"m": lambda measure: measure.mass()})


def take_up_forged(path: Path) -> None:
    """The same for a file whose checksum fits whatever it holds."""
    with mock.patch.object(Contents, "checksum", lambda stored: stored.attrs.get("checksum")):
        take_up(path)


def forged_file(number: int) -> Path:
    """A file of a result that HDF5 has changed, other ones than those with their old checksum."""
    return result_file(fuzz_inputs.hostile, _FORGED_FROM + number)


def kinds(quick: bool) -> dict[str, _Kind]:
    """What is made, how it is read, how many, and whether some or none must be read."""
    share = _SHARE_IF_QUICK if quick else 1.0
    trees = round(share * 2000)
    drawn = fuzz_inputs.drawn_trees(trees)
    results = {
        "results, changed": (fuzz_inputs.damaged, 6000, False),
        "results, changed by HDF5": (fuzz_inputs.hostile, _FORGED_FROM, None),
    }
    cases: dict[str, _Kind] = {
        "cases, bytes changed": (partial(case_input, case_file), read_case, 6000, True),
        "cases, keys and values changed": (
            partial(case_input, fuzz_inputs.case_tree),
            build,
            3500,
            True,
        ),
        "cases, trees": (partial(case_input, partial(drawn_tree, drawn)), build, 2000, None),
    }
    of_results: dict[str, _Kind] = {
        name: (partial(result_file, make), take_up, count, some)
        for name, (make, count, some) in results.items()
    }
    forged: dict[str, _Kind] = {"results, forged": (forged_file, take_up_forged, 500, True)}
    return {
        name: (make, read, round(share * count), some)
        for name, (make, read, count, some) in (cases | of_results | forged).items()
    }


def check(quick: bool) -> list[Claim]:
    """Files of six kinds, and what became of them."""
    found = []
    for name, (make, read, count, some_are_read) in kinds(quick).items():
        trials = outcomes(make, read, count)
        found.append(_claim(name, trials, count, some_are_read))
    return found


def _claim(
    name: str, trials: list[tuple[int, Trial]], count: int, some_are_read: bool | None
) -> Claim:
    faults = [(number, trial.fault) for number, trial in trials if trial.fault]
    refused = sum(bool(trial.message) for _, trial in trials)
    was_read = len(trials) - refused - len(faults)
    missing = count - len(trials) + (refused == 0)
    if some_are_read is not None:
        missing += was_read == 0 if some_are_read else was_read
    first = f"; the first, {faults[0][0]}: {faults[0][1].strip():.300}" if faults else ""
    return Claim(
        f"{name}: of {count}, those without a clear answer",
        "one line or none",
        float(len(faults) + missing),
        0.0,
        "a reader refuses what it can't use, and does nothing else",
        found=f"{refused} refused, {was_read} read, {len(faults)} faults{first}",
    )


if __name__ == "__main__":
    main(check)
