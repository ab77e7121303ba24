"""Runs that go down to E(σ) and up to E(δ)."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.dynamics import SA
from meanfield.functionals import energy
from meanfield.geometry import circle_points
from meanfield.harmonics import relative_eigenvalues
from meanfield.integrate import solve
from meanfield.laws import Law, Mixture, Uniform, VonMisesFisher
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.studies.proposition.evidence import DIFFERS, FAULT, HOLDS, OPEN, Evidence
from meanfield.studies.proposition.identity import random_law
from meanfield.studies.proposition.problem import Problem
from meanfield.theory import growth_rates

Array = NDArray[np.float64]

ARRIVED = 1e-10
# a run that begins next to its bound shows nothing
_BEGUN = 1e-6
# beyond a bound, or against its direction, energies may be by this share of E: rounding and steps
_ROUNDING = 1e-11
_SAVES = 40
# of the repulsive runs: in units of the start's slowest rate, and from there by factors, at most
_LIFETIMES, _FACTOR, _LONGEST = 14.0, 3.0, 2e4
_TAIL = 1e-4
# attractive runs: the far mass decays at rate (d-1) >= 1 (SA), and E(δ) - E with it
_UPWARDS = 40.0
# no bump is narrower than κ = 1e6
_NARROWEST = 6e5
# flow maps take minutes beyond; tokens of the same law stand for it there
_LARGEST_BETA, _LARGEST_DIM, _TOKENS = 32.0, 64, 24


def flows(problem: Problem, starts: int, rng: np.random.Generator) -> Evidence:
    """SA from random starts: repulsive to E(σ), attractive to E(δ).

    Repulsive: a random series of degree 3 as a density, or three random bumps on S²; the gap is
    E - E(σ) over the smaller of U and E(σ), a sum of Λ_k |f_k|²/Λ_0 that keeps its digits. Degree k
    decays at rate k(k+d-2) Λ_k/(β Λ_0), so degrees of tiny Λ_k linger as they are invisible in E.
    Attractive: two bumps as narrow as the kernel, as a flow map (as tokens where β > 32 or d > 64);
    the gap is (E(δ) - E)/U, from energies right to 1e-14 of E(δ).

    A run that ends beyond a bound, or goes the wrong way, differs from what the equations do; one
    that has not arrived within 1e-10, or began there, is open.
    """
    rows: list[tuple[str, Array, Array]] = []
    for number in range(starts):
        rows.append((f"down {number}", *_down(problem, _start(problem, number, rng))))
        rows.append((f"up {number}", *_up(problem, _bumps(problem, rng), rng)))
    names = [name for name, _, _ in rows]
    times, gaps = _padded([row[1] for row in rows]), _padded([row[2] for row in rows])
    last = np.array([row[2][-1] for row in rows])
    # energies are right relative to E, which is 1/spread of U at a Dirac
    allowed = _ROUNDING * max(1.0, 1e-3 / problem.spread)
    wrong = np.array([_wrong_way(row[2], allowed) for row in rows])
    begun = np.array([row[2][0] > _BEGUN for row in rows])
    arrived = begun & (np.abs(last) <= ARRIVED)
    status = DIFFERS if wrong.any() else HOLDS if arrived.all() else OPEN
    down = np.array([name.startswith("down") for name in names])
    finding = (
        f"{int(arrived.sum())} of {len(rows)} runs end within {ARRIVED:g} of their bound: "
        f"repulsive (E - E(σ))/min(U, E(σ)) <= {last[down].max():.1e}, "
        f"attractive (E(δ) - E)/U <= {last[~down].max():.1e}"
    )
    if wrong.any():
        finding += f"; energies go the wrong way in {np.array(names)[wrong].tolist()}: {FAULT}"
    data = xr.Dataset(
        {
            "flow_time": (("flow", "save"), times),
            "flow_gap": (("flow", "save"), gaps, {"long_name": "gap to the bound"}),
        },
        coords={"flow": names, "save": np.arange(times.shape[1])},
    )
    return Evidence("flows", status, finding, data)


def _padded(rows: list[Array]) -> Array:
    """Rows of one length, with nan after the end of each."""
    table = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def _wrong_way(gaps: Array, allowed: float) -> bool:
    allowed *= max(1.0, float(gaps[0]))
    # written so that nan goes the wrong way too
    return not (gaps.min() >= -allowed and np.diff(gaps).max(initial=0.0) <= allowed)


def _start(problem: Problem, number: int, rng: np.random.Generator) -> Density:
    """A random series on the circle or about an axis; on S² every other one without any."""
    dim = problem.dim
    if dim == 3 and number % 2 == 0 and problem.beta <= _LARGEST_BETA:
        centres = Uniform(3).sample(3, rng)
        bumps = [
            VonMisesFisher(c, k) for c, k in zip(centres, rng.uniform(0.5, 1.0, 3), strict=True)
        ]
        return Density(Sphere(15), Mixture(bumps, rng.dirichlet(np.ones(3))))
    return Density(Circle(64) if dim == 2 else Zonal(dim, 12), random_law(dim, rng))


def _down(problem: Problem, start: Density) -> tuple[Array, Array]:
    """Times and gaps, on and on until these are small or the longest time is over."""
    beta, unit = problem.beta, max(1.0, problem.level)
    measure: AnyMeasure = start
    t, stage = 0.0, min(_LONGEST, _LIFETIMES / _slowest(problem))
    times, gaps = [np.zeros(1)], [unit * np.array([_above_uniform(measure, beta)])]
    while gaps[-1][-1] > 0.3 * ARRIVED and t < _LONGEST:
        # high degrees linger, unseen in E; and what doesn't spread is not followed far
        found = solve(
            measure,
            SA(beta, sign=-1),
            stage,
            _geometric(stage),
            tail_tol=_TAIL,
            largest=4 * (start.space.size + 1),
            on_unresolved="stop",
        )
        measure = found.final
        times.append(t + found.t[1:])
        above = [_above_uniform(one, beta) for one in found.measures[1:]]
        gaps.append(unit * np.array(above))
        t, stage = times[-1][-1], _FACTOR * stage
        if found.status != "finished":
            break
    return np.concatenate(times), np.concatenate(gaps)


def _slowest(problem: Problem) -> float:
    """The least rate of a degree k <= 3, the start's own; higher ones come from products."""
    rates = growth_rates(SA(problem.beta), problem.dim, 3)
    return float(rates[1:].min())


def _geometric(t_end: float) -> Array:
    return np.geomspace(1e-2, 1.0, _SAVES) * t_end


def _above_uniform(measure: AnyMeasure, beta: float) -> float:
    """E/E(σ) - 1 = Σ_{k>=1} (Λ_k/Λ_0) |f_k|²."""
    if not isinstance(measure, Density):
        raise ValueError(f"measure must be a Density, got {shown(measure)}")
    power = measure.power
    multipliers = relative_eigenvalues(beta, measure.dim, len(power) - 1)
    return float(multipliers[1:] @ power[1:])


def _bumps(problem: Problem, rng: np.random.Generator) -> Law:
    """Two bumps within reach of each other, about one axis beyond the circle."""
    kappas = rng.uniform(0.5, 1.5, 2) * min(_NARROWEST, problem.dim * max(1.0, problem.beta))
    weight = rng.uniform(0.2, 0.8)
    if problem.dim == 2:
        apart = rng.uniform(0.1, 0.5) / np.sqrt(max(1.0, problem.beta))
        centres = circle_points(rng.uniform(0.0, 2.0 * np.pi) + np.array([0.0, apart]))
    else:
        centres = np.eye(problem.dim)[[-1, -1]]
    laws = [VonMisesFisher(c, float(k)) for c, k in zip(centres, kappas, strict=True)]
    return Mixture(laws, [weight, 1.0 - weight])


def _up(problem: Problem, law: Law, rng: np.random.Generator) -> tuple[Array, Array]:
    """Times and (E(δ) - E)/U."""
    beta, small = problem.beta, problem.beta <= _LARGEST_BETA and problem.dim <= _LARGEST_DIM
    start: AnyMeasure = FlowMap(law) if small else Particles.sample(law, _TOKENS, rng)
    found = solve(start, SA(beta), _UPWARDS, _geometric(_UPWARDS))
    scaled = [2.0 * beta * energy(measure, beta, scaled=True) for measure in found.measures]
    return found.t, (1.0 - np.array(scaled)) / problem.spread
