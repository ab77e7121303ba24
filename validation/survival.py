"""Runs that are killed at random moments, and go on bit for bit.

Claim: a run with a checkpoint can be killed (SIGKILL) at any moment; `resume` then ends with the
numbers of the run that was not killed, to the bit, and one file is left on disk.

Measured: of runs of five kinds, killed at moments drawn uniformly over their length, how many don't
end so. A run that had ended before it was killed counts for nothing: another moment is drawn. As
checkpoints take at most a twentieth of a run, nearly all such kills strike steps; so every other
run writes one at each of its saves, which takes most of its time, and a kill strikes any part of
writing. What the disk holds afterwards tells which: a folder beside the file while that is written,
or no file between its renaming and the next one. The second kind of claim is that this was met.

Tolerance: none. Stepping starts anew at every save, in a run that is killed and in one that is not.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import meanfield as mf
from meanfield.integrate import checkpoints
from validation.claims import Claim, main

KILLS = 50
SAVES = 40
STEPPING, PREPARING, WRITING = "steps", "between two files", "writing"
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
POLAR = mf.ZonalSeries(7, [0.5])
SLANTED = mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)
Asked = tuple[Any, Any, float]


def _tokens() -> mf.Particles:
    return mf.Particles.sample(mf.Uniform(3), 400, np.random.default_rng(0))


# each takes about a second: what it begins with, what moves it, and how long
KINDS: dict[str, Callable[[], Asked]] = {
    "circle": lambda: (mf.Density(mf.Circle(64), LAW), mf.SA(4.0), 2.2),
    "S²": lambda: (mf.Density(mf.Sphere(15), SLANTED), mf.SA(2.0), 2.5),
    "zonal, d = 7": lambda: (
        mf.Density(mf.Zonal(7, 15), mf.ZonalSeries(7, [0.5])),
        mf.SA(4.0),
        2.0,
    ),
    "flow map": lambda: (mf.FlowMap(LAW), mf.SA(4.0), 20.0),
    "400 tokens": lambda: (_tokens(), mf.SA(4.0), 4.0),
}


def run(kind: str, path: str | None, share: float = 1.0) -> mf.Solution:
    """That share of a run, and a checkpoint where there is a path."""
    measure, dynamics, t_end = KINDS[kind]()
    saves = max(3, round(share * SAVES))
    return mf.evolve(measure, dynamics, share * t_end, saves, checkpoint=path)


def run_that_writes(kind: str, path: str, share: float, at_each: bool) -> None:
    """A run in a process of its own; `at_each`: with a checkpoint at each save."""
    if not at_each:
        run(kind, path, share)
        return
    # without a pause after a checkpoint
    with mock.patch.object(checkpoints, "_GROWTH", 0.0):
        run(kind, path, share)


def are_equal(one: mf.Solution, other: mf.Solution) -> bool:
    """Whether all numbers and all measures are, bit for bit."""
    names = ("coefficients", "points", "weights", "angles", "expansion")
    pairs = [
        (getattr(a, name), getattr(b, name))
        for a, b in zip(one.measures, other.measures, strict=False)
        for name in names
        if hasattr(a, name)
    ]
    same = len(one.t) == len(other.t) and all(np.array_equal(x, y) for x, y in pairs)
    return same and bool(pairs) and one.dataset.identical(other.dataset)


def struck(path: Path) -> str:
    """What a process was at when it was killed, by what it has left."""
    if any(path.parent.glob(f".{path.name}.writing-*")):
        return WRITING
    return STEPPING if path.exists() else PREPARING


def started(kind: str, path: Path, context: Any, how: tuple[float, bool]) -> Any:
    """The process of a run that has written its first checkpoint, which is at t = 0."""
    process = context.Process(target=run_that_writes, args=(kind, str(path), *how))
    process.start()
    while not path.exists() and process.is_alive():
        time.sleep(0.001)
    return process


def length(kind: str, context: Any, how: tuple[float, bool]) -> float:
    """Seconds that a run takes from its first checkpoint on."""
    with tempfile.TemporaryDirectory() as folder:
        process = started(kind, Path(folder, "run.nc"), context, how)
        start = time.monotonic()
        process.join()
        return time.monotonic() - start


def survived(
    kind: str, whole: mf.Solution, delays: Iterator[float], context: Any, how: tuple[float, bool]
) -> tuple[bool, str]:
    """Whether a run that is killed ends as the whole run, and leaves one file; where it was."""
    for delay in delays:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.nc")
            process = started(kind, path, context, how)
            time.sleep(delay)
            process.kill()
            process.join()
            if process.exitcode != -signal.SIGKILL:
                # it was over by then
                continue
            where = struck(path)
            resumed = mf.resume(path)
            left = [file.name for file in path.parent.iterdir()]
            return are_equal(resumed, whole) and left == ["run.nc"], where
    raise AssertionError(f"{kind}: there must be a delay before the end")


def check(quick: bool) -> list[Claim]:
    """Kills at random moments of five kinds of runs."""
    context = multiprocessing.get_context("forkserver")
    # one that has imported everything, so that a run begins at once
    context.set_forkserver_preload(["validation.survival"])
    rng, found, places = np.random.default_rng(0), [], []
    share, kills = (0.1, 1) if quick else (1.0, KILLS)
    for kind in KINDS:
        whole, ends = run(kind, None, share), []
        for at_each in (True, False)[:kills]:
            how = share, at_each
            lasting = length(kind, context, how)
            delays = (lasting * rng.random() for _ in itertools.count())
            count = max(1, kills // 2)
            ends += [survived(kind, whole, delays, context, how) for _ in range(count)]
        places += [where for _, where in ends]
        found.append(
            Claim(
                f"{kind}: of {kills} runs killed at random moments, those that do not go on",
                "resumed = uninterrupted",
                float(sum(not good for good, _ in ends)),
                0.0,
                "stepping starts anew at every save in either case, so states are equal to the bit",
            )
        )
    return found if quick else [*found, _met(places)]


def _met(places: list[str]) -> Claim:
    counts = {where: places.count(where) for where in (STEPPING, PREPARING, WRITING)}
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
