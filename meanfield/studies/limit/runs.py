"""One run of n tokens, and how far it is from the limit at each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Isotropic
from meanfield.functionals import energy, mmd, sobolev
from meanfield.integrate import solve
from meanfield.laws import Law
from meanfield.measures import AnyMeasure, Particles
from meanfield.transport import wasserstein

Array = NDArray[np.float64]

DISTANCES = ("mmd", "sobolev", "w1", "w2")
STARTS = ("iid", "quantised")


@dataclass(frozen=True, eq=False)
class Task:
    """What one run is told; it travels between processes."""

    law: Law
    dynamics: Isotropic
    t: Array
    limit: list[AnyMeasure]
    energies: Array
    n: int
    seed: tuple[int, int, int]
    start: str
    distances: tuple[str, ...]
    rtol: float


def sobolev_order(dim: int) -> float:
    """-⌈d/2⌉: the largest whole order in which n tokens have a finite norm."""
    return -float((dim + 1) // 2)


def errors(task: Task) -> dict[str, Array]:
    """Each quantity over t, shape (t,), and the fluctuation of the mean, shape (t, d).

    Raises
    ------
    ArithmeticError
        If the tokens' run can't go on.
    """
    entropy, *key = task.seed
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
    start = Particles.sample if task.start == "iid" else Particles.quantised
    tokens = start(task.law, task.n, rng)
    run = solve(tokens, task.dynamics, task.t[-1], task.t[1:], rtol=task.rtol)
    if run.status != "finished":
        raise ArithmeticError(f"the run of {task.n} tokens, seed {task.seed}: {run.message}")
    return _compared(task, [(run.measures[i], mu) for i, mu in enumerate(task.limit)])


def _compared(task: Task, pairs: list[tuple[AnyMeasure, AnyMeasure]]) -> dict[str, Array]:
    beta = task.dynamics.beta
    order = sobolev_order(task.law.dim)
    measured: dict[str, Callable[[AnyMeasure, AnyMeasure], float]] = {
        "mmd": lambda a, b: mmd(a, b, beta),
        "sobolev": lambda a, b: sobolev(a, b, order),
        "w1": lambda a, b: float(wasserstein(a, b, 1)),
        "w2": lambda a, b: float(wasserstein(a, b, 2)),
    }
    found = {name: np.array([measured[name](a, b) for a, b in pairs]) for name in task.distances}
    gaps = np.array([a.mean() - b.mean() for a, b in pairs])
    energies = np.array([energy(a, beta) for a, _ in pairs])
    return found | {
        "energy_error": np.abs(energies - task.energies),
        "mean_error": np.linalg.norm(gaps, axis=1),
        "fluctuation": np.sqrt(task.n) * gaps,
    }
