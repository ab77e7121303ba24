"""Runs that are killed at random moments, and go on bit for bit."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

KILLS = 50
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


def run(kind: str, path: str | None) -> mf.Solution:
    """A run with a hundred saves, and a checkpoint where there is a path."""
    measure, dynamics, t_end = KINDS[kind]()
    return mf.evolve(measure, dynamics, t_end, 100, checkpoint=path)


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
    return same and one.dataset.identical(other.dataset)


def survived(kind: str, whole: mf.Solution, delay: float, context: Any) -> bool:
    """Whether a run that is killed after a delay ends as the whole run, and leaves one file."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "run.nc"
    try:
        process = context.Process(target=run, args=(kind, str(path)))
        process.start()
        # the first checkpoint, at t = 0, is there as soon as anything is
        while not path.exists() and process.is_alive():
            time.sleep(0.001)
        time.sleep(delay)
        process.kill()
        process.join()
        resumed = mf.resume(path)
        return are_equal(resumed, whole) and [f.name for f in folder.iterdir()] == ["run.nc"]
    finally:
        shutil.rmtree(folder)


def check(quick: bool) -> list[Claim]:
    """Kills at random moments of five kinds of runs."""
    context = multiprocessing.get_context("forkserver")
    # one that has imported everything, so that a run begins at once
    context.set_forkserver_preload(["validation.survival"])
    rng, found = np.random.default_rng(0), []
    kills = 3 if quick else KILLS
    for kind in KINDS:
        start = time.monotonic()
        whole = run(kind, None)
        lasting = time.monotonic() - start
        good = [survived(kind, whole, d, context) for d in lasting * rng.random(kills)]
        found.append(
            Claim(
                f"{kind}: of {kills} runs killed at random moments, those that do not go on",
                "resumed = uninterrupted",
                float(kills - sum(good)),
                0.0,
                "stepping starts anew at every save in either case, so states are equal to the bit",
            )
        )
    return found


if __name__ == "__main__":
    main(check)
