"""What a user waits for beside the steps: start-up, the frame of a short run, files, their memory.

Start-up is the time of a process of its own over that of `import numpy`: `import meanfield`,
`meanfield --help`, and `meanfield run` of a small density on S² until its first step begins. A
short run is the one on the circle of the benchmark of densities, N = 256: its whole time over that
from its first step to its last, with the times in which its dataset is made, which only asking for
it does, and in which it is saved and loaded. Memory is the peak of `tracemalloc` while a file is
loaded, over the size of the file; what is loaded takes 1.05 to 1.2 of it. The files have 20 MB of
numbers that do not repeat themselves, since others are packed.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray as xr

import meanfield as mf
from validation.benchmarks.density_problems import FFTW, Problem, problems
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio

NUMPY = "import numpy"
CASE = """
law = {type = "VonMisesFisher", mean = [0.0, 0.0, 1.0], kappa = 4.0}
measure = {type = "Density", space = {type = "Sphere", lmax = 31}}
dynamics = {type = "SA", beta = 1.0}
run = {t_end = 0.5}
"""
# ends at the first step
RUN = """
import os, sys
from meanfield.cli.commands import main
from meanfield.evolution.steppers import ExplicitSteps

ExplicitSteps.step = lambda self: os._exit(0)
sys.argv = ["meanfield", "run", "case.toml"]
main()
os._exit(1)
"""
PROCESSES = {
    NUMPY: (["-c", NUMPY], None),
    "import meanfield": (["-c", "import meanfield"], 2.5),
    "meanfield --help": (["-m", "meanfield", "--help"], 5.0),
    "meanfield run, to its first step": (["-c", RUN], 8.0),
}
ROUNDS, RUNS = 15, 20


def start_up(rounds: int) -> list[dict[str, Any]]:
    """Processes over one that imports numpy."""
    with TemporaryDirectory() as folder:
        Path(folder, "case.toml").write_text(CASE, "utf-8")

        def process(words: list[str]) -> Callable[[], Any]:
            command = [sys.executable, *words]
            return lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True)

        ways = {name: process(words) for name, (words, _) in PROCESSES.items()}
        times = interleaved(ways, rounds)
    return [
        {
            "ratio": ratio(times, name, NUMPY),
            "goal": goal,
            "goal is": "at most",
            "what": name,
            "seconds": median(times, name),
        }
        for name, (_, goal) in PROCESSES.items()
        if goal
    ]


def short_run(problem: Problem, rounds: int) -> dict[str, Any]:
    """A run over its steps, and what may follow it."""
    space = problem.space(FFTW, problem.size)
    start = mf.Density(space, problem.law, tail_tol=1e-2, max_size=space.size)
    ticks: list[float] = []
    spent: list[float] = []

    def run() -> mf.Solution:
        ticks.clear()
        sol = mf.evolve(
            *(start, problem.dynamics, problem.t_end, 1),
            on_unresolved="stop",
            rtol=1e-6,
            progress=lambda _: ticks.append(time.perf_counter()),
        )
        # the first tick is at the end of the first step
        spent.append((ticks[-1] - ticks[0]) * len(ticks) / (len(ticks) - 1))
        return sol

    with TemporaryDirectory() as folder:
        path = Path(folder, "run.nc")
        run().save(path)
        kept: list[mf.Solution] = []
        ways: dict[str, Callable[[], Any]] = {
            "run": lambda: kept.append(run()),
            "dataset": lambda: kept[-1].dataset,
            "save": lambda: kept[-1].save(path),
            "load": lambda: mf.load(path),
        }
        times = interleaved(ways, rounds * RUNS)
    steps = float(np.median(spent[-rounds * RUNS :]))
    return {
        "ratio": median(times, "run") / steps,
        "problem": problem.name,
        "seconds": median(times, "run"),
        "seconds of steps": steps,
        **{f"seconds to {name}": median(times, name) for name in ("dataset", "save", "load")},
    }


def tokens(saves: int) -> list[Any]:
    """Clouds of 8000 tokens in R^8."""
    rng = np.random.default_rng(3)
    return [mf.Particles.sample(mf.Uniform(8), 8000, rng=rng) for _ in range(saves)]


def densities(saves: int) -> list[Any]:
    """Densities on S² of degree 127, with all their coefficients."""
    space, rng, found = mf.Sphere(127), np.random.default_rng(3), []
    for _ in range(4 * saves):
        coefficients = 1e-3 * rng.normal(size=(space.n_coefficients, 2))
        coefficients[space.orders == 0, 1] = 0.0
        coefficients[0] = 1.0, 0.0
        found.append(mf.Density.from_coefficients(space, coefficients.view(np.complex128)[:, 0]))
    return found


def memory(name: str, measures: list[Any]) -> dict[str, Any]:
    """The peak of a load over the size of its file."""
    t = np.arange(float(len(measures)))
    dynamics, words = mf.SA(1.0), ("finished", "made by hand")
    sol = mf.Solution(t, measures, dynamics, *words, xr.Dataset(coords={"t": t}))
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.nc")
        sol.save(path)
        mf.load(path)
        tracemalloc.start()
        again = mf.load(path)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        size = path.stat().st_size
        assert len(again) == len(measures)
    return {
        "ratio": peak / size,
        "goal": 1.5,
        "goal is": "at most",
        "measures": name,
        "MB of the file": 1e-6 * size,
        "kept over its size": kept / size,
    }


def measure(quick: bool) -> Tables:
    """Start-up, a short run, and memory; the short form has fewer rounds."""
    rounds, saves = (1, 20) if quick else (ROUNDS, 40)
    chosen = [problem for problem in problems(quick) if problem.on_circle][: 1 if quick else 2]
    makers = {"tokens in R^8": tokens, "densities on S²": densities}
    return {
        "start-up over import numpy": start_up(rounds),
        "a short run over its steps": [short_run(problem, rounds) for problem in chosen],
        "memory of a load over the file's size": [
            memory(name, made(saves)) for name, made in makers.items()
        ],
    }


if __name__ == "__main__":
    main(measure, packages=("pyfftw", "ducc0", "h5netcdf", "h5py", "xarray"))
