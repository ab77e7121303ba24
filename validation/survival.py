"""Runs that are killed at random moments, and go on bit for bit.

Claim: `meanfield run` can be killed (SIGKILL) at any moment; `meanfield resume` then ends with the
numbers of the run that was not killed, to the bit, and leaves its files and no other on disk.

Measured: of runs of seven kinds, killed at moments drawn uniformly over their length, how many
don't end so. A run that had ended before it was killed counts for nothing: another moment is drawn.
As checkpoints take at most a twentieth of a run, nearly all such kills strike steps; so every other
run writes one at each of its saves, which takes most of its time, and a kill strikes any part of
writing. What the disk holds afterwards tells which: a folder beside the file while that is written,
or no file between its renaming and the next one, or all saves but no figure yet. As some parts are
short, some kills wait for them. The second kind of claim is that each part was struck.

Some runs are programs of their own, figures included. The others, without figures, are copies of a
process that has imported all they need and run nothing, which spares two seconds each.

Tolerance: none. Stepping starts anew at every save, in a run that is killed and in one that is not.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import meanfield as mf
from meanfield.cli.commands import main as meanfield
from validation._inside import checkpoints, commands
from validation.claims import Claim, main
from validation.processes import copies

KILLS, FRESH, SAVES = 50, 3, 12
STEPPING, PREPARING, WRITING = "steps", "between two files", "writing"
DRAWING = "drawing"
CASE, RESULT = "case.toml", "run.nc"
# one ends at each save, but for rounding: k·0.35 is less than the k-th of 12 times up to 4.2
BETAS = [1.0, 4.0, 2.0] * 4
LAYERS = f"""\
dynamics.type = "Layers"
dynamics.step = 0.35
dynamics.layers = [{", ".join(f'{{type = "SA", beta = {beta}}}' for beta in BETAS)}]
"""
# each takes about a second: what it is, and how long
KINDS = {
    "circle": (
        """\
law = {type = "FourierSeries", cos = [0.5], sin = [0.0, 0.3]}
measure = {type = "Density", space = {type = "Circle", n = 64}}
dynamics = {beta = 4.0}
""",
        2.2,
    ),
    "S²": (
        """\
law = {type = "VonMisesFisher", mean = [0.0, 0.6, 0.8], kappa = 2.0}
measure = {type = "Density", space = {type = "Sphere", lmax = 15}}
dynamics = {beta = 2.0}
""",
        2.5,
    ),
    "zonal, d = 7": (
        """\
law = {type = "ZonalSeries", dim = 7, coefficients = [0.5]}
measure = {type = "Density", space = {type = "Zonal", kmax = 15}}
dynamics = {beta = 4.0}
""",
        2.0,
    ),
    "flow map": (
        """\
law = {type = "FourierSeries", cos = [0.5], sin = [0.0, 0.3]}
measure = {type = "FlowMap"}
dynamics = {beta = 4.0}
""",
        20.0,
    ),
    "400 tokens": (
        """\
law = {type = "Uniform", dim = 3}
measure = {type = "Particles", n = 400}
dynamics = {beta = 4.0}
""",
        4.0,
    ),
    "circle, saved where layers end": (
        """\
law = {type = "FourierSeries", cos = [0.5], sin = [0.0, 0.3]}
measure = {type = "Density", space = {type = "Circle", n = 64}}
"""
        + LAYERS,
        4.2,
    ),
    "flow map, saved where layers end": (
        """\
law = {type = "FourierSeries", cos = [0.5], sin = [0.0, 0.3]}
measure = {type = "FlowMap"}
"""
        + LAYERS,
        4.2,
    ),
}


@dataclass(frozen=True)
class Way:
    """How commands are run: as programs of their own; with a checkpoint at each save."""

    is_fresh: bool = False
    at_each: bool = False


def command(folder: str, way: Way, *arguments: str) -> None:
    """What a process is there for: `meanfield` in that folder."""
    os.chdir(folder)
    if way.is_fresh:
        path = str(Path(mf.__file__).parents[1])
        os.execve(
            sys.executable,
            [sys.executable, "-m", "meanfield", *arguments],
            os.environ | {"PYTHONPATH": path},
        )
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(commands, "_draw"))
        if way.at_each:
            # without a pause after a checkpoint
            patches.enter_context(mock.patch.object(checkpoints, "_GROWTH", 0.0))
        sys.exit(meanfield(arguments))


def process(folder: Path, way: Way, *arguments: str) -> Any:
    """A process that has been started with a command."""
    begun = copies().Process(target=command, args=(str(folder), way, *arguments, "-q"))
    begun.start()
    return begun


def started(folder: Path, way: Way) -> Any:
    """The process of a run that has written its first checkpoint, which is at t = 0."""
    for file in files(folder):
        (folder / file).unlink()
    running = process(folder, way, "run", CASE)
    while not (folder / RESULT).exists() and running.is_alive():
        time.sleep(0.001)
    return running


def files(folder: Path) -> set[str]:
    """What there is beside the case."""
    return {file.name for file in folder.iterdir()} - {CASE}


@dataclass(frozen=True)
class Whole:
    """A run that nobody killed: what it left, and how long it took from its first checkpoint on."""

    solution: mf.Solution
    files: set[str]
    seconds: float


def uninterrupted(folder: Path, way: Way) -> Whole:
    """Run to the end."""
    running = started(folder, way)
    start = time.monotonic()
    running.join()
    seconds = time.monotonic() - start
    return Whole(mf.load(folder / RESULT), files(folder), seconds)


def difference(one: mf.Solution, other: mf.Solution) -> str:
    """The first of what is not equal in two solutions, bit for bit; empty if all is."""
    if len(one.t) != len(other.t):
        return f"{len(one.t)} saves, not {len(other.t)}"
    names = ("coefficients", "points", "weights", "angles", "expansion")
    compared = 0
    for i, (a, b) in enumerate(zip(one.measures, other.measures, strict=True)):
        for name in names:
            if hasattr(a, name):
                compared += 1
                if not np.array_equal(getattr(a, name), getattr(b, name)):
                    return f"{name} of save {i}"
    for name in {*one.dataset.variables, *other.dataset.variables}:
        if name not in one.dataset or name not in other.dataset:
            return f"{name} of the dataset"
        if not one.dataset[name].identical(other.dataset[name]):
            return f"{name} of the dataset"
    if not one.dataset.identical(other.dataset):
        keys = {*one.dataset.attrs, *other.dataset.attrs}
        pairs = {key: (one.dataset.attrs.get(key), other.dataset.attrs.get(key)) for key in keys}
        return f"attributes {[key for key, (a, b) in pairs.items() if not np.array_equal(a, b)]}"
    return "" if compared else "no measures"


def struck(folder: Path) -> str:
    """What a process was at when it was killed, by what it has left."""
    if any(folder.glob(f".{RESULT}.writing-*")):
        return WRITING
    if not (folder / RESULT).exists():
        return PREPARING
    has_ended = mf.load(folder / RESULT).status != "interrupted"
    return DRAWING if has_ended else STEPPING


def survived(
    folder: Path, whole: Whole, delays: Iterator[float], way: Way, between: bool
) -> tuple[str, str]:
    """What a run that is killed does not end with as the whole run does, if anything; where it was.

    `between`: when, after the delay, there is next no file.
    """
    for delay in delays:
        running = started(folder, way)
        time.sleep(delay)
        while between and (folder / RESULT).exists() and running.is_alive():
            pass
        running.kill()
        running.join()
        if running.exitcode != -signal.SIGKILL:
            # it was over by then
            continue
        where = struck(folder)
        resuming = process(folder, Way(way.is_fresh), "resume", RESULT)
        resuming.join()
        if resuming.exitcode != 0:
            return f"resume ends with status {resuming.exitcode}", where
        if files(folder) != whole.files:
            return f"files {sorted(files(folder))}, not {sorted(whole.files)}", where
        return difference(mf.load(folder / RESULT), whole.solution), where
    raise AssertionError(f"{folder}: there must be a delay before the end")


def ends(
    kind: str, share: float, ways: dict[Way, int], rng: np.random.Generator
) -> list[tuple[str, str]]:
    """Of runs of one kind, so many in each way: what they did not end with, and where they were."""
    text, t_end = KINDS[kind]
    saves, found = max(3, round(share * SAVES)), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run = f"run = {{t_end = {share * t_end}, save_at = {saves}}}\n"
        (folder / CASE).write_text(text + run, encoding="utf-8")
        for way, count in ways.items():
            whole = uninterrupted(folder, way)
            delays = (whole.seconds * rng.random() for _ in itertools.count())
            for i in range(count):
                between = way.at_each and i % 8 == 7
                found.append(survived(folder, whole, delays, way, between))
    return found


def check(quick: bool) -> list[Claim]:
    """Kills at random moments of each kind of runs."""
    ways = {
        Way(at_each=True): 1 if quick else KILLS // 2,
        Way(): 0 if quick else KILLS // 2 - FRESH,
        Way(is_fresh=True): 0 if quick else FRESH,
    }
    ways = {way: count for way, count in ways.items() if count}
    share, rng, found, places = 0.1 if quick else 1.0, np.random.default_rng(0), [], []
    for kind in list(KINDS)[:: 5 if quick else 1]:
        survivals = ends(kind, share, ways, rng)
        places += [where for _, where in survivals]
        lost = [f"{why} ({where})" for why, where in survivals if why]
        found.append(
            Claim(
                f"{kind}: of {len(survivals)} killed at random moments, those that don't go on",
                "resumed = uninterrupted",
                float(len(lost)),
                0.0,
                "stepping starts anew at every save in either case, so states are equal to the bit",
                found="; ".join(lost) or "-",
            )
        )
    return found if quick else [*found, _met(places)]


def _met(places: list[str]) -> Claim:
    counts = {where: places.count(where) for where in (STEPPING, PREPARING, WRITING, DRAWING)}
    return Claim(
        "parts of a run that no kill has struck",
        "any moment",
        float(sum(count == 0 for count in counts.values())),
        0.0,
        "each must be met, or nothing is said of it",
        found=", ".join(f"{where}: {count}" for where, count in counts.items()),
    )


if __name__ == "__main__":
    main(check)
