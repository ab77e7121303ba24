"""`Layers.random` with values of N(0, 1): two tokens by discrete layers (Itô) and by the flow.

With u = <x, y>, Y = artanh u and D = tanh(β(1-u)/2), discrete layers N(x + √h V m) have the limit
dY = b dt + (1 + D²)^{1/2} dB as h → 0, b = ((d-2)(1-D²) + u(1+D²))/2 (arXiv 2601.21942). A flow
that obeys each V for the time h has the limit of Stratonovich, whose drift is larger by (1-D²)/4 -
u(1-D)²/4 - β D(1-D²)(1-u²)/4. At the antipode D = tanh β. It attracts where the drift is < 0: from
cosh 2β = d - 2 on under discrete layers, and from tanh β = (d-2)/(d-1), which is e^{2β} = 2d - 3,
under the flow.

Both drifts are held against second differences along the d² matrices of one entry, whose sum is
what N(0, 1) entries average to. Then runs of thousands of layers give (ΔY - L)/h, layer by layer,
where L is linear in V and averages to 0 whatever Y is: the standard error of what is left does not
grow as h falls. The other law must be far off by the same numbers. Densities and tokens run through
the same layers, and memory must not grow with their number.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from meanfield.dynamics import AnyDynamics
from validation.claims import Claim, main

Array = NDArray[np.float64]
Law = Callable[[int, float, Array], Array]

STEP = 1e-4
MOST_ERRORS = 4.0
RTOL, ATOL = 1e-12, 1e-15
SOURCE = "arXiv 2601.21942"


def by_layers(dim: int, beta: float, u: Array) -> Array:
    """The drift of artanh u under discrete layers, Itô."""
    square = np.tanh(0.5 * beta * (1.0 - u)) ** 2
    return 0.5 * ((dim - 2) * (1.0 - square) + u * (1.0 + square))


def by_flow(dim: int, beta: float, u: Array) -> Array:
    """The same where each layer acts as a flow, Stratonovich."""
    slant = np.tanh(0.5 * beta * (1.0 - u))
    bend = (1.0 - slant**2) * (1.0 - beta * slant * (1.0 - u * u))
    return np.asarray(by_layers(dim, beta, u) + 0.25 * (bend - u * (1.0 - slant) ** 2))


@dataclass(frozen=True)
class Way:
    """How layers act, its law and that of the other way, and β at which the antipode turns."""

    name: str
    law: Law
    other: Law
    turn: Callable[[int], float]

    def passed(self, dynamics: AnyDynamics, step: float) -> AnyDynamics:
        """What `evolve` is given."""
        return dynamics if self.law is by_flow else mf.LayerMap(dynamics, step=step)


WAYS = (
    Way("discrete layers", by_layers, by_flow, lambda dim: 0.5 * float(np.arccosh(dim - 2))),
    Way("flow", by_flow, by_layers, lambda dim: 0.5 * float(np.log(2 * dim - 3))),
)


def pair(dim: int, angle: float) -> mf.Particles:
    """Two tokens at this angle to each other."""
    points = np.zeros((2, dim))
    points[0, 0], points[1, 0], points[1, 1] = 1.0, np.cos(angle), np.sin(angle)
    return mf.Particles(points)


def nearness(points: Array) -> float:
    """Y = artanh <x, y>, which keeps its digits at the antipode."""
    return float(
        np.log(np.linalg.norm(points[0] + points[1]) / np.linalg.norm(points[0] - points[1]))
    )


def exact_drift(way: Way, dim: int, beta: float, u: float) -> float:
    """½ Σ_ij of the second derivatives of Y along matrices with one entry, at i, j."""
    size, tokens, total = 1e-3, pair(dim, float(np.arccos(u))), 0.0
    for row, column in np.ndindex(dim, dim):
        for sign in (1.0, -1.0):
            value = np.zeros((dim, dim))
            value[row, column] = sign * size
            layer = way.passed(mf.Attention(beta, [mf.Head(V=value)]), 1.0)
            final = mf.evolve(tokens, layer, 1.0, 1, rtol=RTOL, atol=ATOL).final
            total += nearness(final.points) - nearness(tokens.points)
    return 0.5 * total / size**2


def exact_spread(way: Way, dim: int, beta: float, u: float) -> float:
    """The square root of Σ_ij of the squared derivatives of Y along these matrices."""
    size, tokens, total = 1e-3, pair(dim, float(np.arccos(u))), 0.0
    for row, column in np.ndindex(dim, dim):
        ends = []
        for sign in (1.0, -1.0):
            value = np.zeros((dim, dim))
            value[row, column] = sign * size
            layer = way.passed(mf.Attention(beta, [mf.Head(V=value)]), 1.0)
            ends.append(mf.evolve(tokens, layer, 1.0, 1, rtol=RTOL, atol=ATOL).final.points)
        total += (0.5 * (nearness(ends[0]) - nearness(ends[1])) / size) ** 2
    return float(np.sqrt(total))


def changes(
    way: Way, start: mf.Particles, beta: float, count: int, seed: int
) -> tuple[Array, Array]:
    """u before each layer, and (ΔY - L)/h of it."""
    layers = mf.Layers.random(
        "values", beta=beta, dim=start.dim, n_layers=count, step=STEP, rng=seed
    )
    sol = mf.evolve(start, way.passed(layers, STEP), count * STEP, count, rtol=RTOL, atol=ATOL)
    before, rates = np.empty(count), np.empty(count)
    for i, (t, tokens) in enumerate(zip(sol.t[:-1], sol.measures[:-1], strict=True)):
        x, y = points = tokens.points
        velocity = layers.velocity(tokens, points, t=float(t))
        linear = 4.0 * velocity.sum(axis=0) @ (x + y)
        linear /= ((x + y) @ (x + y)) * ((x - y) @ (x - y))
        gain = nearness(sol.measures[i + 1].points) - nearness(points)
        before[i], rates[i] = x @ y, gain / STEP - linear
    return before, rates


def errors_off(rates: Array, expected: Array | float) -> float:
    """By how many standard errors the mean of independent numbers is off what is expected."""
    off = rates - expected
    return float(off.mean() / (off.std(ddof=1) / np.sqrt(len(off))))


def of_drifts(quick: bool) -> list[Claim]:
    """Second differences."""
    found = []
    for way in WAYS:
        worst = 0.0
        for dim, beta, u in ((2, 0.0, -0.9), (4, 1.0, 0.3), (3, 2.0, -0.5))[: 2 if quick else 3]:
            expected = float(way.law(dim, beta, np.array(u)))
            worst = max(worst, abs(exact_drift(way, dim, beta, u) - expected))
        why = "second differences over 1e-3: fourth derivatives of some ten, steps of 1e-12"
        found.append(Claim(f"{way.name}: drift by second differences", SOURCE, worst, 1e-4, why))
    return found


def of_noise(quick: bool) -> list[Claim]:
    """First differences, of which both ways have the same."""
    found = []
    for way in WAYS:
        worst = 0.0
        for dim, beta, u in ((2, 0.0, -0.9), (4, 1.0, 0.3), (3, 2.0, -0.5))[: 2 if quick else 3]:
            expected = float(np.sqrt(1.0 + np.tanh(0.5 * beta * (1.0 - u)) ** 2))
            worst = max(worst, abs(exact_spread(way, dim, beta, u) - expected))
        why = "first differences over 1e-3: third derivatives of some ten"
        found.append(
            Claim(f"{way.name}: noise (1 + D²)^{{1/2}} by differences", SOURCE, worst, 1e-5, why)
        )
    return found


def of_runs(quick: bool) -> list[Claim]:
    """Monte Carlo of runs that are short, since the laws are one at u = 1, where tokens go."""
    found = []
    for way in WAYS:
        for dim, beta, u in ((2, 0.5, -0.9), (4, 1.0, 0.0))[: 1 if quick else 2]:
            start, seeds = pair(dim, float(np.arccos(u))), range(37, 38 if quick else 43)
            count = 600 if quick else 2000
            legs = [changes(way, start, beta, count, seed) for seed in seeds]
            before, rates = np.concatenate(legs, axis=1)
            off = errors_off(rates, way.law(dim, beta, before))
            other = errors_off(rates, way.other(dim, beta, before))
            about = f"{way.name}, d = {dim}, β = {beta:g}, {len(rates)} layers"
            why = "standard errors"
            found += [
                Claim(f"{about}: drift less its law", SOURCE, abs(off), MOST_ERRORS, why),
                Claim(
                    f"{about}: {MOST_ERRORS:g} standard errors over what the other law is off",
                    SOURCE,
                    MOST_ERRORS / abs(other),
                    1.0,
                    "the other law is excluded",
                    found=f"{other:.1f} standard errors",
                ),
            ]
    return found


def of_antipodes(quick: bool) -> list[Claim]:
    """The rate at which an antipodal pair leaves, on both sides of the turn."""
    found, dim = [], 4
    gap = 0.4 if quick else 0.12
    for way in WAYS:
        for side in (-1.0, 1.0):
            beta, count = way.turn(dim) + side * gap, 600 if quick else 10_000
            _, rates = changes(way, pair(dim, np.pi - 1e-3), beta, count, 38)
            leaving = -side * errors_off(rates, 0.0)
            name = "comes back" if side > 0.0 else "leaves"
            found.append(
                Claim(
                    f"{way.name}, d = {dim}: an antipodal pair {name} at β = {beta:.3f}, "
                    f"{MOST_ERRORS:g} standard errors over its rate in these",
                    "cosh 2β = d - 2" if way.law is by_layers else "e^{2β} = 2d - 3",
                    MOST_ERRORS / max(leaving, 1e-9),
                    1.0,
                    "so far from 0",
                    found=f"{float(rates.mean()):.3f}",
                )
            )
    return found


def of_measures(quick: bool) -> list[Claim]:
    """Densities against tokens that are a quadrature of the same law, through the same layers."""
    found = []
    bumps = [mf.VonMisesFisher(mean, 1.0) for mean in np.eye(3)[:2]]
    waves = mf.FourierSeries(cos=[0.5], sin=[0.2])
    cases: list[tuple[int, mf.Circle | mf.Sphere, mf.FourierSeries | mf.Mixture, int]]
    cases = [(2, mf.Circle(64), waves, 40 if quick else 1000)]
    if not quick:
        cases.append((3, mf.Sphere(31), mf.Mixture(bumps, [0.6, 0.4]), 100))
    for dim, space, law, count in cases:
        step = 0.4 / count
        layers = mf.Layers.random(
            "values", beta=1.0, dim=dim, n_layers=count, step=step, rng=1, scale=1.0
        )
        nodes = mf.FlowMap(law, tol=1e-10)
        cloud = mf.Particles(nodes.points, nodes.weights, unit_mass=True)
        ends = [
            mf.evolve(start, layers, 0.4, 1).final.mean()
            for start in (mf.Density(space, law), cloud)
        ]
        found.append(
            Claim(
                f"{space}, {count} layers: mean of a density less that of tokens",
                "Φ_t # mu_0 = f_t σ",
                float(np.abs(ends[0] - ends[1]).max()),
                1e-8,
                "tail_tol = 1e-8 of the density, rtol = 1e-9",
            )
        )
    return found


def of_memory(quick: bool) -> Claim:
    """What is held at most by a run of many layers."""
    count, dim = (300 if quick else 10_000), 32
    layers = mf.Layers.random("values", beta=1.0, dim=dim, n_layers=count, step=1e-3, rng=2)
    tokens = mf.Particles(np.eye(dim)[:2])
    mf.evolve(tokens, mf.LayerMap(layers, step=1e-3), 2e-3, 1)
    tracemalloc.start()
    mf.evolve(tokens, mf.LayerMap(layers, step=1e-3), count * 1e-3, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    matrix = 8.0 * dim * dim
    return Claim(
        f"{count} layers, d = {dim}: memory at most, in matrices V",
        "`Layers.random`",
        peak / matrix,
        100.0,
        "four layers are kept, each V twice, beside some 200 kB of the run",
    )


def check(quick: bool) -> list[Claim]:
    """Both laws, both turns, densities against tokens, and memory."""
    return [
        *of_drifts(quick),
        *of_noise(quick),
        *of_runs(quick),
        *of_antipodes(quick),
        *of_measures(quick),
        of_memory(quick),
    ]


if __name__ == "__main__":
    main(check)
