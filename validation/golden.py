"""Runs of every dynamics on every measure, bit for bit against those of another tree.

    python -m validation.golden OLD             # a tree of the package beside this one
    python -m validation.golden OLD --only SA   # runs whose names hold these letters
    python -m validation.golden --list

Last bits depend on the machine, on the libraries and on the number of threads. So both trees run
here, one after the other, each in a process of its own with one thread. Every column of every
dataset and every array of the last state is compared. What differs is printed with its largest
change, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import meanfield as mf

HERE = Path(__file__).resolve().parent.parent

AXIS = np.array([0.48, 0.6, 0.64])
POLE = np.eye(5)[-1]
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 2.0)], [0.6, 0.4]
)
ZONAL = mf.ZonalSeries(5, [0.8, 0.2], axis=POLE)
RING = mf.ZonalSeries(3, [0.8, 0.2], axis=AXIS)


def matrices(dim: int, axis: np.ndarray | None) -> list[np.ndarray]:
    """Three matrices, which commute with turns about the axis if there is one."""
    rng = np.random.default_rng(dim)
    if axis is None:
        return list(0.5 * rng.normal(size=(3, dim, dim)) / np.sqrt(dim))
    shares = rng.uniform(-0.7, 0.7, size=(3, 2))
    return [a * np.eye(dim) + b * np.outer(axis, axis) for a, b in shares]


def fields(dim: int, axis: np.ndarray | None) -> dict[str, Any]:
    """One dynamics of each kind."""
    first, second = matrices(dim, axis), matrices(dim, axis)[::-1]
    heads = [mf.Head(*first), mf.Head(*second)]
    w, a, _ = first
    turned = 0.3 * axis if axis is not None else 0.3 * np.ones(dim)
    neurons = mf.FeedForward(w, a, turned, activation="tanh")
    found = {
        "SA": mf.SA(4.0),
        "SA, repulsive": mf.SA(4.0, sign=-1),
        "USA": mf.USA(2.0),
        "DoublyStochastic": mf.DoublyStochastic(3.0),
        "Attention": mf.Attention(1.0, heads),
        "Attention, not normalised": mf.Attention(1.0, heads, normalised=False),
        "FeedForward": neurons,
        "Layers": mf.Layers([mf.SA(2.0), mf.Attention(1.0, heads), mf.USA(0.5)], step=0.2),
    }
    if axis is not None and dim > 2:
        # tanh of single coordinates keeps no axis
        del found["FeedForward"]
    return found


class Pull:
    """A dynamics of a user's own: all tokens are drawn to the mean of those before them."""

    name, dim, beta, noise = "pull", None, 0.0, 0.0

    def output(self, measure: Any, points: np.ndarray) -> np.ndarray:
        """The mean at every point."""
        return np.broadcast_to(measure.mean(), points.shape).copy()


def measures() -> dict[str, tuple[Callable[[], Any], int, np.ndarray | None]]:
    """What runs start from, its d, and the axis about which its dynamics must be symmetric."""
    uniform = np.random.default_rng
    return {
        "Density on the circle": (lambda: mf.Density(mf.Circle(128), CIRCLE), 2, None),
        "Density about an axis": (lambda: mf.Density(mf.Zonal(5, 31, POLE), ZONAL), 5, POLE),
        "Density on S²": (lambda: mf.Density(mf.Sphere(31), BUMPS), 3, None),
        "FlowMap on the circle": (lambda: mf.FlowMap(CIRCLE), 2, None),
        "FlowMap about an axis": (lambda: mf.FlowMap(ZONAL), 5, POLE),
        "FlowMap on S²": (lambda: mf.FlowMap(BUMPS, tol=1e-6), 3, None),
        "Particles on the circle": (lambda: mf.Particles.sample(CIRCLE, 2000, uniform(1)), 2, None),
        "Particles on S²": (lambda: mf.Particles.sample(BUMPS, 2000, uniform(2)), 3, None),
        "Particles, d = 5": (lambda: mf.Particles.sample(ZONAL, 100, uniform(3)), 5, None),
        "Particles, d = 40": (
            lambda: mf.Particles.sample(mf.Uniform(40), 12, uniform(4)),
            40,
            None,
        ),
    }


def evolve(start: Callable[[], Any], dynamics: Any, t_end: float, **options: Any) -> Any:
    """A run with three saves."""
    return lambda folder: mf.evolve(start(), dynamics, t_end, 3, **options)


def resumed(start: Callable[[], Any], dynamics: Any, t_end: float) -> Any:
    """A run that Ctrl-C strikes at its third save, and that goes on from the file it left."""

    def run(folder: Path) -> Any:
        path, calls = folder / "run.nc", iter(range(10))

        def strike(measure: Any) -> float:
            if next(calls) == 2:
                raise KeyboardInterrupt
            return float(measure.mean()[0])

        with suppress(KeyboardInterrupt):
            mf.evolve(start(), dynamics, t_end, 4, checkpoint=path, monitors={"first": strike})
        return mf.resume(path, monitors={"first": lambda mu: float(mu.mean()[0])})

    return run


def runs() -> dict[str, Callable[[Path], Any]]:
    """Every run by its name."""
    found = {}
    starts = measures()
    for place, (start, dim, axis) in starts.items():
        stop = {"on_unresolved": "stop"} if place.startswith("Density") else {}
        for name, dynamics in fields(dim, axis).items():
            t_end = 0.4 if "S²" in place else 0.6
            found[f"{name}: {place}"] = evolve(start, dynamics, t_end, **stop)
        if place.startswith("Particles"):
            found[f"own dynamics: {place}"] = evolve(start, Pull(), 0.6)
            found[f"Layers, step by step: {place}"] = evolve(
                start, mf.LayerMap(fields(dim, axis)["Layers"], step=0.2), 0.6
            )
        found[f"SA, resumed: {place}"] = resumed(start, mf.SA(4.0), 0.6)
    for place in "Density on the circle", "Density about an axis", "Density on S²":
        for dynamics in mf.SA(4.0, sign=1, noise=0.1), mf.USA(2.0, sign=1, noise=0.1):
            found[f"{dynamics.name} with noise: {place}"] = evolve(starts[place][0], dynamics, 0.3)
    for place in starts:
        found[f"SA at β = 0: {place}"] = evolve(starts[place][0], mf.SA(0.0), 1.0)
        # the mesh of S² for β = 30 takes half a minute
        beta = 12.0 if place == "FlowMap on S²" else 30.0
        found[f"SA at β = {beta:g}: {place}"] = evolve(starts[place][0], mf.SA(beta), 0.1)
    for place, t_end in ("FlowMap on the circle", 60.0), ("FlowMap about an axis", 30.0):
        found[f"SA, to the Dirac: {place}"] = evolve(starts[place][0], mf.SA(4.0), t_end)
    found["SA, laid anew: FlowMap on S²"] = evolve(starts["FlowMap on S²"][0], mf.SA(4.0), 3.0)
    for place in "Particles on the circle", "Particles, d = 5":
        found[f"SA with noise: {place}"] = lambda folder, start=starts[place][0]: mf.evolve(
            start(), mf.SA(2.0, sign=1, noise=0.1), 0.1, 2, rng=np.random.default_rng(5)
        )
    found["DoublyStochastic with noise: Particles, d = 5"] = lambda folder: mf.evolve(
        starts["Particles, d = 5"][0](),
        mf.DoublyStochastic(2.0, sign=1, noise=0.05),
        *(0.1, 2),
        max_step=0.02,
        rng=np.random.default_rng(5),
    )
    for place in "Density on the circle", "Density about an axis":
        density = starts[place][0]()
        small = mf.Density(density.space, density.law, max_size=128)
        found[f"SA, goes on as a flow map: {place}"] = evolve(
            lambda start=small: start, mf.SA(4.0), 8.0, on_unresolved="flow-map"
        )
    pair = (lambda t: 1.0 / (2.0 - t), lambda t: 1.0 / (2.0 - t) ** 2)
    for place, (start, *_) in starts.items():
        series = mf.Interaction([1.0, 1.0, 0.25], normalised=True)
        found[f"Interaction by a series: {place}"] = evolve(start, series, 0.4)
        found[f"Interaction by functions: {place}"] = evolve(start, mf.Interaction(pair), 0.1)
    few = mf.Particles.sample(mf.Uniform(40), 10, np.random.default_rng(6))
    found["SA by inner products: Particles, d = 40"] = evolve(lambda: few, mf.SA(4.0), 0.6)
    single = mf.Particles(starts["Particles, d = 5"][0]().points, sums="float32")
    found["SA in float32: Particles, d = 5"] = evolve(
        lambda: single, mf.SA(4.0), 0.6, rtol=1e-4, atol=1e-6
    )
    sharper = mf.Mixture([mf.VonMisesFisher([0, 0, 1], 5.0), mf.VonMisesFisher([0, 1, 0], 3.0)])
    found["SA, to atoms: FlowMap on S²"] = evolve(
        lambda: mf.FlowMap(sharper, tol=1e-5), mf.SA(4.0), 6.0
    )
    found["SA, many sets of tokens"] = lambda folder: SimpleNamespace(
        dataset=mf.studies.phase_diagram([mf.SA(1.0), mf.SA(4.0)], 3, 16, 2.0, repeats=8),
        final=None,
        status="finished",
        message="",
    )
    frequencies = mf.gaussian_frequencies(0.5, 6)
    phases = mf.OscillatorDensity(mf.Circle(64), mf.FourierSeries(cos=[0.4]), *frequencies)
    found["Kuramoto: OscillatorDensity"] = evolve(lambda: phases, mf.Kuramoto(2.0), 1.0)
    found["Kuramoto: Density on the circle"] = evolve(
        starts["Density on the circle"][0], mf.Kuramoto(1.0), 1.0
    )
    found["CircleInteraction: Particles"] = evolve(
        starts["Particles on the circle"][0], mf.CircleInteraction([1.0, 0.5], [0.3]), 0.5
    )
    return found


def arrays(sol: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Every column of the dataset and every array of the last state."""
    for name, column in {**sol.dataset.coords, **sol.dataset.data_vars}.items():
        yield f"dataset {name}", np.asarray(column.values)
    final = sol.final
    for name in ("coefficients", "points", "weights", "log_density"):
        values = getattr(final, name, None)
        if isinstance(values, np.ndarray):
            yield f"final {name}", values
    yield "status and message", np.frombuffer(f"{sol.status} {sol.message}".encode(), np.uint8)


def keep(path: Path, only: str) -> None:
    """Run all and write their arrays to one file; an error is kept in place of its run."""
    found: dict[str, np.ndarray] = {}
    for name, run in runs().items():
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found |= {f"{name} | {what}": a for what, a in arrays(run(Path(folder)))}
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    found[f"{name} | error"] = np.frombuffer(text.encode(), np.uint8)
    np.savez(path, **found)


def change(old: np.ndarray, new: np.ndarray) -> float | None:
    """None where all bits agree, else the largest change as a share of the largest value."""
    if old.shape == new.shape and old.dtype == new.dtype and old.tobytes() == new.tobytes():
        return None
    if old.shape != new.shape or old.dtype.kind not in "fc" or new.dtype.kind not in "fc":
        return float("inf")
    size = float(np.nanmax(np.abs(old), initial=0.0)) or 1.0
    return float(np.nanmax(np.abs(new - old), initial=0.0)) / size


def run_tree(tree: Path, path: Path, only: str) -> dict[str, np.ndarray]:
    """The arrays of all runs by the package in a tree, in a process of its own."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
    command = [sys.executable, "-P", __file__, "--keep", str(path), "--only", only]
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree)}
    subprocess.run(command, env=environment, check=True)
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def compare(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> int:
    """Print a line for each array that differs, and one for all; how many differ."""
    differences = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            print(f"{name}: only in the {'new' if name in new else 'old'} tree")
            differences += 1
        elif (moved := change(old[name], new[name])) is not None:
            print(f"{name}: moved by {moved:.1e}")
            differences += 1
    digest = hashlib.sha256(b"".join(new[name].tobytes() for name in sorted(new))).hexdigest()
    errors = sum(name.endswith("| error") for name in new)
    count = len({name.partition(" | ")[0] for name in new})
    print(f"{count} runs, {len(new)} arrays, {differences} differ, {errors} errors")
    print(f"sha256 of the new arrays: {digest}")
    return differences


def main() -> None:
    """Compare two trees, or list the runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", nargs="?", type=Path, help="a tree that holds the package")
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose names hold it")
    parser.add_argument("--list", action="store_true", help="print the names of the runs")
    parser.add_argument("--keep", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        print("\n".join(name for name in runs() if given.only in name))
    elif given.keep:
        keep(given.keep, given.only)
    elif given.old is None or not (given.old / "meanfield" / "__init__.py").is_file():
        parser.error(f"argument old: no tree that holds the package, got {given.old}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            old = run_tree(given.old.resolve(), Path(folder) / "old.npz", given.only)
            new = run_tree(HERE, Path(folder) / "new.npz", given.only)
            sys.exit(compare(old, new) > 0)


if __name__ == "__main__":
    main()
