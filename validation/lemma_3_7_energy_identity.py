"""Lemma 3.7 and (3.6): the energy changes by ± ∫|∇(G_β*mu)|² dmu (USA), ± ∫|X|² Z dmu (SA).

The left side is a difference of order 8 in time of energies E_β that runs have reached, the right
side comes from the velocity field at the middle time alone: an error in the velocity, in the
energy or in a run would part them. Densities, flow maps and tokens, both signs; for tokens the
right side is also summed pair by pair from (3.9). Over a whole run the integral of the right side,
a component of the run's own equation, is held against the gain of energy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Measure = mf.Density | mf.FlowMap | mf.Particles

BETAS = 0.0, 1.0, 4.0
# d/dt of order 8 from 4 places on either side: weights of E(t + kh) - E(t - kh)
WEIGHTS = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
# step and middle in units of 1 (SA) and e^{-β} (USA)
STEP, MIDDLE = 0.01, 0.2
RTOL = 1e-13
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Run:
    """A run through the places of the difference, and both sides of the identity."""

    kind: str
    dynamics: mf.SA | mf.USA
    solution: mf.Solution
    difference: float
    exact: float


def random_density(space: mf.Circle | mf.Sphere | mf.Zonal, rng: np.random.Generator) -> mf.Density:
    """Three bumps of random places, widths and masses."""
    means = rng.normal(size=(3, space.dim))
    if isinstance(space, mf.Zonal):
        means = rng.choice([-1.0, 1.0], size=(3, 1)) * space.axis
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    laws = [
        mf.VonMisesFisher(mean, kappa)
        for mean, kappa in zip(means, rng.uniform(0, 6, 3), strict=True)
    ]
    return mf.Density(
        space, mf.Mixture(laws, rng.uniform(0.1, 1.0, 3), unit_mass=True), tail_tol=1e-12
    )


def starts(rng: np.random.Generator) -> list[tuple[str, Measure]]:
    """One measure of each kind and space."""
    spaces = [mf.Circle(128), mf.Sphere(31), mf.Zonal(10, 47), mf.Zonal(50, 47)]
    tokens = [mf.Particles.sample(mf.Uniform(d), n, rng) for d, n in ((2, 100), (3, 100), (20, 16))]
    return [
        *(("density", random_density(space, rng)) for space in spaces),
        ("flow map", mf.FlowMap(mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))),
        ("flow map", mf.FlowMap(mf.ZonalSeries(10, [0.8]))),
        *(("tokens", one) for one in tokens),
    ]


@cache
def runs(quick: bool) -> list[Run]:
    """Every kind of measure with SA and USA, both signs, several β."""
    rng, found = np.random.default_rng(1), []
    for _ in range(1 if quick else 3):
        for kind, measure in starts(rng):
            for beta in BETAS[::2] if quick else BETAS:
                for sign in (1, -1):
                    found += [
                        _run(kind, measure, one)
                        for one in (mf.SA(beta, sign=sign), mf.USA(beta, sign=sign))
                    ]
    return found


def _run(kind: str, measure: Measure, dynamics: mf.SA | mf.USA) -> Run:
    unit = 1.0 if isinstance(dynamics, mf.SA) else float(np.exp(-dynamics.beta))
    times = unit * (MIDDLE + STEP * np.arange(-4, 5))
    tight = {"rtol": RTOL, "atol": 1e-15}
    sol = mf.evolve(measure, dynamics, times[-1], times, on_unresolved="stop", **tight)
    energies = sol.dataset["energy"].values[-9:]
    gained = energies[5:] - energies[3::-1]
    difference = float(WEIGHTS @ gained) / (STEP * unit)
    exact = dynamics.sign * mf.dissipation(sol.measures[-5], dynamics)
    return Run(kind, dynamics, sol, difference, exact)


def off(run: Run) -> float:
    """What parts both sides, as a share of the right one."""
    return abs(run.difference / run.exact - 1.0)


def pairs(run: Run) -> float:
    """∫|∇(G_β*mu)|² (Z for SA) dmu of tokens at the middle time by plain sums over pairs."""
    points, beta = run.solution.measures[-5].points, run.dynamics.beta
    kernel = np.exp(beta * points @ points.T) / len(points)
    gradient = kernel @ points
    gradient -= np.sum(gradient * points, axis=1, keepdims=True) * points
    squares = np.sum(gradient**2, axis=1)
    weights = 1.0 / kernel.sum(axis=1) if isinstance(run.dynamics, mf.SA) else 1.0
    return float(run.dynamics.sign * np.mean(squares * weights))


def check(quick: bool) -> list[Claim]:
    """The identity for each kind of measure, by pairs, over whole runs, and its sign."""
    found, all_runs = [], runs(quick)
    for kind in ("density", "flow map", "tokens"):
        some = [run for run in all_runs if run.kind == kind]
        worst = max(some, key=off)
        found.append(
            Claim(
                f"{kind}: dE/dt against the integral, relative, {len(some)} runs",
                "Lemma 3.7, (3.6)",
                off(worst),
                TOLERANCE,
                f"E rounds by 1e-15 over a step of {STEP:g}, and may be 1e4 times its change",
                f"{worst.exact:.10g} ({worst.dynamics.name}, β = {worst.dynamics.beta:g})",
                f"{worst.difference:.10g}",
            )
        )
    tokens = [run for run in all_runs if run.kind == "tokens"]
    by_pairs = max(abs(pairs(run) / run.exact - 1.0) for run in tokens)
    found.append(
        Claim("tokens: the integral by pairs, relative", "(3.9)", by_pairs, 1e-12, "rounding")
    )
    return [*found, *_balances(all_runs)]


def _balances(all_runs: list[Run]) -> list[Claim]:
    balance = backwards = 0.0
    for run in all_runs:
        data = run.solution.dataset
        gained = data["energy"].values - data["energy"].values[0]
        gap = float(np.max(np.abs(gained - data["work"].values)) / abs(gained[-1]))
        good = run.solution.status == "finished"
        balance = max(balance, gap if good else np.inf)
        backwards = max(backwards, float(np.max(-run.dynamics.sign * np.diff(gained))))
    name = f"{len(all_runs)} runs"
    return [
        Claim(
            f"E(t) - E(0) = ± ∫ dissipation, relative to the gain, {name}",
            "Lemma 3.7, (3.6)",
            balance,
            1e-9,
            "rounding of E by 1e-15, which may be 1e4 times its gain, and 1e-12 of flow maps",
        ),
        Claim(
            f"largest step of E against its direction, {name}", "(3.6)", backwards, 0.0, "a sign"
        ),
    ]


def figure(quick: bool) -> Figure:
    """Both sides of the identity for every run, and what parts them."""
    drawn, (both, parted) = panels(2, "Energy identity, SA and USA, both signs")
    for kind, colour, marker in zip(
        ("density", "flow map", "tokens"), COLOURS, MARKERS, strict=False
    ):
        some = [run for run in runs(quick) if run.kind == kind]
        exact = np.array([run.exact for run in some])
        ours = [run.difference for run in some]
        both.plot(exact, ours, marker, color=colour, ms=4, alpha=0.6, label=kind)
        gaps = np.maximum([off(run) for run in some], 1e-17)
        parted.loglog(np.abs(exact), gaps, marker, color=colour, ms=4, alpha=0.6, label=kind)
    ends = np.array([-1e3, 1e3])
    both.plot(ends, ends, **CLAIMED, zorder=0, label="Lemma 3.7, (3.6)")
    both.set_xscale("symlog", linthresh=1e-3)
    both.set_yscale("symlog", linthresh=1e-3)
    for axis in (both.xaxis, both.yaxis):
        axis.set_ticks([-1e3, -1.0, 0.0, 1.0, 1e3])
        axis.set_minor_locator(NullLocator())
    parted.axhline(TOLERANCE, **CLAIMED, label="tolerance")
    # so that the legend is above the line
    parted.set_ylim(1e-16, 1e-4)
    label(both, "± ∫|X|² (Z) dmu", "dE/dt by differences in time", "claimed against measured")
    label(parted, "|dE/dt|", "relative difference", "what parts them")
    return drawn


if __name__ == "__main__":
    main(check)
