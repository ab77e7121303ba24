"""Theorem 6.8: orthogonal tokens keep one common inner product γ(t), that of (6.9) and (6.10).

n tokens that start as a random orthonormal frame of R^d, n <= d, are run by `mf.evolve`, as points
and through the matrix that combines them, under SA and USA. At every save all inner products must
agree, and agree with γ of γ' = 2 e^{βγ} (1-γ) ((n-1)γ+1) / (e^β + (n-1) e^{βγ}) (SA), γ' = (2/n)
e^{βγ} (1-γ) ((n-1)γ+1) (USA), γ(0) = 0, which is solved here by steps of its own and, in the
package, by inverting an integral: three ways to one number. At β = 0 γ = (e^{2t}-1)/(e^{2t}+n-1).
The time of arrival at 1-δ is found in the runs and held against t* = ∫ dγ/γ'. Two tokens of masses
a and 1-a are the pairs of clusters of which n = 2 is a = 1/2: their angle solves θ' = -e^{β cos θ}
sin θ under USA, whatever a is, and θ' = -sin θ ((1-a)/(aE+1-a) + a/((1-a)E+a)) under SA, E =
e^{β(1-cos θ)}.

Tolerances: a step errs by 1e-13, runs take up to some hundred, and an error is carried along as a
shift in time, which multiplies it by at most max γ'/γ'(0); times err by that of γ over γ'. Figures
are given over these factors.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.integrate import quad, solve_ivp

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Isotropic = mf.SA | mf.USA

RTOL, STEPS, DELTA = 1e-13, 200, 1e-3
BETAS = 0.0, 1.0, 4.0, 9.0
# n, d, and what moves the tokens
FRAMES = ((2, 2, "direct"), (3, 5, "gram"), (8, 8, "direct"), (16, 100, "gram"), (32, 32, "gram"))


def slope(dynamics: Isotropic, n: int, gamma: float) -> float:
    """γ' of (6.9) or (6.10)."""
    beta, product = dynamics.beta, 2.0 * (1.0 - gamma) * ((n - 1) * gamma + 1.0)
    if dynamics.normalised:
        return float(product / (np.exp(beta * (1.0 - gamma)) + n - 1))
    return float(product * np.exp(beta * gamma) / n)


@dataclass(frozen=True)
class Run:
    """A run through the arrival at 1 - δ: inner products at the saves, and the γ claimed."""

    n: int
    dim: int
    sums: str
    dynamics: Isotropic
    times: Array
    products: Array
    equation: Array
    package: Array
    arrival: float

    @property
    def carried(self) -> float:
        """By how much an error of the start grows at most: max γ'/γ'(0)."""
        return float(self._slopes.max() / self._slopes[0])

    @property
    def spread(self) -> float:
        """What parts inner products at one time, at most, over its growth."""
        return float(np.max(np.ptp(self.products, axis=1))) / self.carried

    @property
    def off(self) -> float:
        """What parts inner products and γ, at most, over its growth."""
        return float(np.max(np.abs(self.products - self.equation[:, None]))) / self.carried

    @property
    def late(self) -> float:
        """By how much the run is late at 1-δ, by a Newton step from t*, times the least γ'."""
        parts = (1.0 - DELTA - float(np.mean(self.products[-1]))) / self._slopes[-1]
        return float(abs(parts) * self._slopes.min())

    @property
    def _slopes(self) -> Array:
        gammas = np.linspace(0.0, 1.0 - DELTA, 1000)
        return np.array([slope(self.dynamics, self.n, float(gamma)) for gamma in gammas])


def integral(dynamics: Isotropic, n: int) -> float:
    """t* = ∫_0^{1-δ} dγ/γ', over s = -log(1-γ), in which it has no end near a pole."""

    def integrand(s: float) -> float:
        gamma = -float(np.expm1(-s))
        return (1.0 - gamma) / slope(dynamics, n, gamma)

    edges = np.concatenate([np.linspace(0.0, 0.5, 6), np.linspace(1.0, -np.log(DELTA), 7)])
    pieces = [
        quad(integrand, a, b, epsabs=0.0, epsrel=1e-13)[0] for a, b in itertools.pairwise(edges)
    ]
    return float(np.sum(pieces))


def inner_products(tokens: object) -> Array:
    """<x_i, x_j>, i < j."""
    assert isinstance(tokens, mf.Particles)
    return np.asarray((tokens.points @ tokens.points.T)[np.triu_indices(len(tokens.points), 1)])


def run(n: int, dim: int, sums: str, dynamics: Isotropic, rng: np.random.Generator) -> Run:
    """From a random frame to the arrival."""
    frame = np.linalg.qr(rng.normal(size=(dim, n)))[0].T
    arrival = integral(dynamics, n)
    times = arrival * np.array([0.02, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0])
    sol = mf.evolve(mf.Particles(frame, sums=sums), dynamics, arrival, times, rtol=RTOL, atol=1e-15)
    products = [inner_products(one) for one in sol.measures[1:]]
    solved = solve_ivp(
        lambda _, gamma: [slope(dynamics, n, gamma[0])],
        (0.0, arrival),
        [0.0],
        method="DOP853",
        t_eval=times,
        rtol=3e-14,
        atol=1e-15,
    )
    package = [mf.theory.orthogonal_tokens(dynamics, n, float(t)) for t in times]
    return Run(
        n, dim, sums, dynamics, times, np.array(products), solved.y[0], np.array(package), arrival
    )


@cache
def runs(quick: bool) -> list[Run]:
    """SA and USA, every β, every frame."""
    rng = np.random.default_rng(68)
    return [
        run(n, dim, sums, kind(beta), rng)
        for n, dim, sums in (FRAMES[::2] if quick else FRAMES)
        for kind in (mf.SA, mf.USA)
        for beta in (BETAS[:3:2] if quick else BETAS)
    ]


def angles(dynamics: Isotropic, mass: float, t: float) -> tuple[float, float]:
    """θ at t of two tokens of masses a and 1-a from a right angle: run, and by its equation."""
    start = mf.Particles(np.eye(3)[:2], [mass, 1.0 - mass])
    final = mf.evolve(start, dynamics, t, 1, rtol=RTOL, atol=1e-15).final
    found = float(np.arccos(inner_products(final)[0]))
    beta = dynamics.beta

    def rate(_: float, theta: Array) -> Array:
        if not dynamics.normalised:
            return np.asarray(-np.exp(beta * np.cos(theta)) * np.sin(theta))
        e = np.exp(beta * (1.0 - np.cos(theta)))
        pulls = (1.0 - mass) / (mass * e + 1.0 - mass) + mass / ((1.0 - mass) * e + mass)
        return np.asarray(-np.sin(theta) * pulls)

    solved = solve_ivp(rate, (0.0, t), [0.5 * np.pi], method="DOP853", rtol=3e-14, atol=1e-15)
    return found, float(solved.y[0, -1])


def pairs_of_clusters() -> list[Claim]:
    """F5: two tokens of any masses; under USA these play no part."""
    found = []
    for kind in (mf.SA, mf.USA):
        worst = 0.0
        for mass in (0.1, 0.3, 0.5):
            for beta in (0.0, 2.0):
                # e^{β cos θ} <= e^β: errors grow by e^2 at most
                one, other = angles(kind(beta), mass, 1.0)
                worst = max(worst, abs(one - other))
        name = f"{kind.__name__}, two masses: angle at t = 1"
        why = f"{STEPS} steps of {RTOL:g}, grown by e^2"
        found.append(Claim(name, "n = 2 of (6.9), (6.10)", worst, STEPS * RTOL * 8.0, why))
    return found


def check(quick: bool) -> list[Claim]:
    """One inner product, that of both equations, its arrival, β = 0, and pairs of masses."""
    found, bound = [], STEPS * RTOL
    why = f"{STEPS} steps of {RTOL:g}"
    for kind, source in ((mf.SA, "(6.9)"), (mf.USA, "(6.10)")):
        some = [one for one in runs(quick) if isinstance(one.dynamics, kind)]
        name = f"{kind.__name__}, {len(some)} runs"
        late = max(some, key=lambda one: one.late)
        package = max(float(np.abs(one.package - one.equation).max()) / one.carried for one in some)
        times = [mf.theory.orthogonal_arrival(one.dynamics, one.n, DELTA) for one in some]
        arrivals = max(abs(t / one.arrival - 1.0) for t, one in zip(times, some, strict=True))
        found += [
            Claim(
                f"{name}: largest less smallest inner product",
                "Theorem 6.8",
                max(one.spread for one in some),
                bound,
                why,
            ),
            Claim(f"{name}: off γ(t)", source, max(one.off for one in some), bound, why),
            Claim(f"{name}: `theory.orthogonal_tokens`", source, package, bound, why),
            Claim(
                f"{name}: late at 1 - δ = {1.0 - DELTA:g}, in units of 1/min γ'",
                "(6.12)",
                late.late,
                bound,
                why,
                f"t* = {late.arrival:.12g} (n = {late.n}, β = {late.dynamics.beta:g})",
            ),
            Claim(f"{name}: `theory.orthogonal_arrival`", "(6.12)", arrivals, 1e-12, "quadrature"),
        ]
    return [*found, _beta_zero(quick), *pairs_of_clusters()]


def _beta_zero(quick: bool) -> Claim:
    worst = 0.0
    for one in runs(quick):
        if one.dynamics.beta == 0.0:
            grown = np.expm1(2.0 * one.times)
            gap = float(np.max(np.abs(one.products - (grown / (grown + one.n))[:, None])))
            worst = max(worst, gap / one.carried)
    name = "β = 0: off (e^{2t} - 1)/(e^{2t} + n - 1)"
    return Claim(name, "(6.9), (6.10)", worst, STEPS * RTOL, f"{STEPS} steps of {RTOL:g}")


def figure(quick: bool) -> Figure:
    """γ over time as claimed, and all inner products of the runs."""
    drawn, axes = panels(2, "Orthogonal tokens: all inner products on one curve")
    n = 32 if not quick else 8
    for ax, kind in zip(axes, (mf.SA, mf.USA), strict=True):
        some = [one for one in runs(quick) if isinstance(one.dynamics, kind)]
        some = [one for one in some if one.n == n]
        for one, colour, marker in zip(some, COLOURS, MARKERS, strict=False):
            deltas = np.sort([*np.linspace(0.05, 0.9999, 40), *np.geomspace(DELTA, 0.04, 20)])
            fine = [mf.theory.orthogonal_arrival(one.dynamics, n, delta) for delta in deltas]
            ax.plot(np.array(fine) / one.arrival, 1.0 - deltas, "-", color=colour, linewidth=0.8)
            for t, products in zip(one.times, one.products, strict=True):
                ax.plot([t / one.arrival] * len(products), products, marker, color=colour, ms=4)
            name = f"β = {one.dynamics.beta:g}, t* = {one.arrival:.3g}"
            ax.plot([], [], marker, color=colour, ms=4, label=name)
        title = (
            f"{kind.__name__}, n = {n}: lines {'(6.9)' if kind is mf.SA else '(6.10)'}, marks run"
        )
        label(ax, "t/t*", "<x_i, x_j>, all pairs", title)
    return drawn


if __name__ == "__main__":
    main(check)
