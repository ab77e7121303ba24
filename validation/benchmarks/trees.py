"""Our own times on another tree of the package and on this one, interleaved.

    python -m validation.benchmarks.trees OLD [--only TEXT] [--rounds 9]

Three processes of one thread, two of the old tree and one of this, take turns at every task;
so what the machine does besides comes to all alike. A task holds if the new time is within 5 % of
the old, or within twice what the two old processes differ by. The public interface is
timed, and right-hand sides, of whose module each tree has its own name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf

HERE = Path(__file__).resolve().parents[2]
ALLOWED = 0.05
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 3.0)], [0.6, 0.4]
)
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


def right_hand_side(measure: Any, dynamics: Any) -> Callable[[], int]:
    """d/dt of a measure's state, often enough to be timed; how often."""
    try:
        from meanfield.equations.tendency import tendency
    except ImportError:
        from meanfield.tendency import tendency  # type: ignore[import-not-found,no-redef]
    rate = tendency(measure, dynamics)
    out = np.empty_like(rate.initial_state)
    rate(rate.initial_state, out)
    start = time.perf_counter()
    rate(rate.initial_state, out)
    often = max(1, int(0.02 / (time.perf_counter() - start)))

    def repeat() -> int:
        for _ in range(often):
            rate(rate.initial_state, out)
        return often

    return repeat


def run(measure: Any, dynamics: Any, t_end: float, saves: int = 4, **asked: Any) -> Any:
    """A run with a few saves; with many where `saves` says so."""
    return lambda: mf.evolve(measure, dynamics, t_end, saves, **asked)


def command(folder: Path) -> None:
    """The bundled run by the command line, start and figures included."""
    subprocess.run(
        [sys.executable, "-P", "-m", "meanfield", "run"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    for file in folder.iterdir():
        file.unlink()


def tasks() -> dict[str, Callable[[], Callable[[], Any]]]:
    """What is timed, each made when it is due."""
    rng = np.random.default_rng
    found: dict[str, Callable[[], Callable[[], Any]]] = {}
    densities = {
        "circle, N = 256": (lambda: mf.Density(mf.Circle(256), CIRCLE), 10.0),
        "circle, N = 1024": (lambda: mf.Density(mf.Circle(1024), CIRCLE), 10.0),
        "S², L = 63": (lambda: mf.Density(mf.Sphere(63), BUMPS), 0.5),
        "d = 10, K = 127": (
            lambda: mf.Density(mf.Zonal(10, 127), mf.ZonalSeries(10, [0.5])),
            2.0,
        ),
    }
    tokens = {
        "tokens on the circle, n = 20000": (mf.Uniform(2), 20_000, 0.5),
        "tokens on S², n = 20000": (mf.Uniform(3), 20_000, 0.05),
        "tokens, d = 10, n = 500": (mf.Uniform(10), 500, 0.2),
        "tokens, d = 64, n = 12": (mf.Uniform(64), 12, 5.0),
    }
    for dynamics in mf.SA(4.0), mf.USA(4.0):
        t_unit = 1.0 if dynamics.name == "SA" else 0.02
        for place, (start, t_end) in densities.items():
            name = f"{dynamics.name}, density, {place}"
            found[f"right-hand side: {name}"] = lambda s=start, d=dynamics: right_hand_side(s(), d)
            found[f"run: {name}"] = lambda s=start, d=dynamics, t=t_end * t_unit: run(s(), d, t)
        for place, (law, n, t_end) in tokens.items():
            start = partial(mf.Particles.sample, law, n, rng(1))
            name = f"{dynamics.name}, {place}"
            found[f"right-hand side: {name}"] = lambda s=start, d=dynamics: right_hand_side(s(), d)
            found[f"run: {name}"] = lambda s=start, d=dynamics, t=t_end * t_unit: run(s(), d, t)
        found[f"run: {dynamics.name}, flow map, circle"] = lambda d=dynamics, u=t_unit: run(
            mf.FlowMap(CIRCLE), d, 4.0 * u
        )
        found[f"run: {dynamics.name}, flow map, d = 5"] = lambda d=dynamics, u=t_unit: run(
            mf.FlowMap(mf.ZonalSeries(5, [0.5])), d, 4.0 * u
        )
        found[f"run: {dynamics.name}, flow map, S²"] = lambda d=dynamics, u=t_unit: run(
            mf.FlowMap(BUMPS, tol=1e-6), d, 1.0 * u
        )
    heads = [mf.Head(*np.random.default_rng(3).normal(size=(3, 3, 3)) / 2.0) for _ in range(2)]
    attention = mf.Attention(1.0, heads)
    found |= {
        "run: Attention, density, S²": lambda: run(
            mf.Density(mf.Sphere(31), BUMPS), attention, 0.3
        ),
        "run: Attention, tokens on S²": lambda: run(
            mf.Particles.sample(BUMPS, 500, rng(2)), attention, 0.5
        ),
        "run: Attention, layer by layer": lambda: run(
            mf.Particles.sample(BUMPS, 200, rng(2)), mf.LayerMap(attention, step=0.01), 2.0
        ),
        "run: DoublyStochastic, density": lambda: run(
            mf.Density(mf.Circle(256), CIRCLE), mf.DoublyStochastic(3.0), 2.0
        ),
        "run: DoublyStochastic, tokens": lambda: run(
            mf.Particles.sample(mf.Uniform(3), 300, rng(2)), mf.DoublyStochastic(3.0), 0.5
        ),
        "run: SA with noise, density": lambda: run(
            mf.Density(mf.Circle(256), CIRCLE), mf.SA(4.0, sign=1, noise=0.05), 5.0
        ),
        "run: SA with noise, tokens": lambda: (
            lambda: mf.evolve(
                mf.Particles.sample(mf.Uniform(3), 500, rng(2)),
                mf.SA(2.0, sign=1, noise=0.1),
                0.5,
                rng=rng(3),
            )
        ),
        "run: Kuramoto, density": lambda: run(
            mf.Density(mf.Circle(256), CIRCLE), mf.Kuramoto(2.0), 5.0
        ),
        "many saves: density": lambda: run(
            mf.Density(mf.Circle(256), CIRCLE), mf.SA(4.0), 10.0, 200
        ),
        "many saves: tokens": lambda: run(
            mf.Particles.sample(mf.Uniform(10), 300, rng(2)), mf.SA(4.0), 1.0, 50
        ),
        "many saves: flow map": lambda: run(mf.FlowMap(CIRCLE), mf.SA(4.0), 4.0, 50),
        "phase diagram": lambda: (
            lambda: mf.studies.phase_diagram([mf.SA(1.0), mf.SA(4.0)], 3, 32, 5.0, repeats=8)
        ),
        "W_2: tokens on the circle": lambda: partial(
            mf.wasserstein,
            mf.Particles.sample(mf.Uniform(2), 100_000, rng(0)),
            mf.Particles.sample(mf.Uniform(2), 100_000, rng(1)),
            2,
        ),
        "W_2: densities on the circle": lambda: partial(
            mf.wasserstein,
            mf.Density(mf.Circle(256), CIRCLE),
            mf.Density(mf.Circle(256), mf.Uniform(2)),
            2,
        ),
        "W_1: densities on S²": lambda: partial(
            mf.wasserstein,
            mf.Density(mf.Sphere(15), mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)),
            mf.Density(mf.Sphere(15), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)),
            1,
        ),
        "energy: tokens, n = 2000": lambda: partial(
            mf.energy, mf.Particles.sample(mf.Uniform(5), 2000, rng(0)), 4.0
        ),
        "command: the bundled run": lambda: partial(command, Path(tempfile.mkdtemp())),
    }
    return found


def serve() -> None:
    """Time the tasks that are asked for, one line each."""
    every, made = tasks(), dict[str, Callable[[], Any]]()
    for line in sys.stdin:
        name = json.loads(line)
        if name not in made:
            made.clear()
            made[name] = every[name]()
            # what is loaded or planned at the first call is no part of it
            made[name]()
        start = time.perf_counter()
        done = made[name]()
        seconds = time.perf_counter() - start
        # each process has its own idea of how often
        print(seconds / done if isinstance(done, int) else seconds, flush=True)


def server(tree: Path) -> subprocess.Popen[str]:
    """A process that times tasks with the package of a tree."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", __file__, "--serve"],
        env={**os.environ, **threads, "PYTHONPATH": str(tree)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str], name: str) -> float:
    """Seconds of a task."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a server must have pipes")
    print(json.dumps(name), file=process.stdin, flush=True)
    return float(process.stdout.readline())


def compare(old: Path, only: str, rounds: int) -> int:
    """Print a line for each task; how many are slower than is allowed."""
    names, slower = [name for name in tasks() if only in name], 0
    print(f"{'task':<50} {'old, s':>9} {'new/old':>8} {'old/old':>8}", flush=True)
    # a server ends when nobody asks any more
    with ExitStack() as asked:
        processes = [asked.enter_context(server(tree)) for tree in (old, HERE, old)]
        for name in names:
            times = np.array([[ask(one, name) for one in processes] for _ in range(rounds)])
            # the least of the times is the one that least else got into
            first, new, second = np.min(times, axis=0)
            base = min(first, second)
            ratio, spread = new / base, max(first, second) / base
            holds = ratio <= 1.0 + max(ALLOWED, 2.0 * (spread - 1.0))
            slower += not holds
            said = "" if holds else "  SLOWER"
            print(f"{name:<50} {base:>9.3g} {ratio:>8.3f} {spread:>8.3f}{said}", flush=True)
    print(f"{len(names)} tasks, {slower} slower than is allowed")
    return slower


def main() -> None:
    """Compare two trees."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", nargs="?", type=Path, help="a tree that holds the package")
    parser.add_argument("--only", default="", metavar="TEXT", help="tasks whose names hold it")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    elif given.old is None or not (given.old / "meanfield" / "__init__.py").is_file():
        parser.error(f"argument old: no tree that holds the package, got {given.old}")
    else:
        sys.exit(compare(given.old.resolve(), given.only, given.rounds) > 0)


if __name__ == "__main__":
    main()
