"""The problems of the benchmark of densities: laws, times, errors and what ratios are to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import Library
from validation.benchmarks.right_hand_side import libraries

Array = NDArray[np.float64]
Space = mf.Circle | mf.Sphere

SA, USA = mf.SA(4.0), mf.USA(4.0)
WAVES = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)]
)
FFTW, DUCC, SHTNS = "FFTW", "ducc0", "SHTns"
LIBRARIES: dict[str, Library] = {DUCC: "ducc0", SHTNS: "shtns"}


@dataclass(frozen=True)
class Problem:
    """What is run, the error at which times are compared, and what ratios are to be."""

    size: int
    dynamics: mf.SA | mf.USA
    t_end: float
    error: float
    goals: Mapping[str, float | None]

    @property
    def on_circle(self) -> bool:
        """Or on S²."""
        return FFTW in self.goals

    @property
    def name(self) -> str:
        """Space and dynamics."""
        where = f"circle, N = {self.size}" if self.on_circle else f"S², L = {self.size}"
        return f"{where}, {self.dynamics.name}"

    @property
    def law(self) -> mf.Mixture | mf.FourierSeries:
        """At t = 0."""
        return BUMPS if not self.on_circle else WAVES

    @property
    def sizes(self) -> list[int]:
        """Numbers of modes to try, degrees on S²: a step may be longer with fewer."""
        return [self.size, 3 * self.size // 4] if self.on_circle else [self.size]

    def sized(self, size: int) -> str:
        """In words."""
        return f"{size} modes" if self.on_circle else f"degree {size}"

    def space(self, library: str, size: int) -> Space:
        """With transforms by this library, on one thread, as the peers have one."""
        if self.on_circle:
            return mf.Circle(size)
        space = mf.Sphere(size, LIBRARIES[library])
        space.grid["nthreads"] = 1
        return space

    def libraries(self) -> list[str]:
        """Those of the transforms that are there."""
        there = libraries()
        return [name for name in self.goals if self.on_circle or LIBRARIES[name] in there]


def problems(quick: bool) -> list[Problem]:
    """All of them, or small ones."""
    if quick:
        return [
            Problem(48, SA, 0.5, 1e-5, {FFTW: None}),
            Problem(31, USA, 0.01, 1e-4, {DUCC: None, SHTNS: None}),
        ]
    few, many, on_63, on_127 = (
        {FFTW: 20.0},
        {FFTW: 8.0},
        {DUCC: 4.5, SHTNS: 10.0},
        {DUCC: 4.0, SHTNS: 9.0},
    )
    return [
        Problem(256, SA, 3.5, 1e-8, few),
        Problem(256, USA, 0.165, 1e-8, few),
        Problem(1024, SA, 5.0, 1e-8, many),
        Problem(1024, USA, 0.22, 1e-8, many),
        Problem(63, SA, 1.5, 1e-6, on_63),
        Problem(63, USA, 0.05, 1e-6, on_63),
        Problem(127, SA, 2.25, 1e-6, on_127),
        Problem(127, USA, 0.085, 1e-6, on_127),
    ]


def evolved(problem: Problem, start: mf.Density, rtol: float) -> mf.Solution:
    """A run that stays in its space."""
    options = {"rtol": rtol, "atol": 1e-3 * rtol}
    sol = mf.evolve(start, problem.dynamics, problem.t_end, 1, on_unresolved="stop", **options)
    assert sol.status == "finished", sol.message
    return sol


def reference(problem: Problem) -> Callable[[Array], Array]:
    """f at t_end at points, by another representation or a finer one."""
    if problem.on_circle:
        flow = mf.FlowMap(problem.law, tol=1e-13)
        sol = mf.evolve(flow, problem.dynamics, problem.t_end, 1)
        return lambda points: np.asarray(sol.pdf(points, problem.t_end))
    space = mf.Sphere(problem.size).double()
    finer = mf.Density(space, problem.law, tail_tol=1e-2, max_size=space.size)
    final: mf.Density = evolved(problem, finer, 1e-11).final
    return final.pdf
