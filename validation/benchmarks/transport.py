"""What exact W_p on the circle and about an axis costs, beside POT's solvers in one dimension.

Clouds: n tokens with weights against n others, p = 1 and 2; "two laws" are drawn from different
densities, "turned" ones are one cloud on an arc of a radian and the same, turned by 0.7, which is
its W_p. Angles are given to POT as it takes them, points to `wasserstein`, which finds the angles
itself. Where one cloud is the other, turned, and p = 2, the slope of the cost is a single step,
which POT, going from step to step, finds in less time than we do; for p = 1 it takes longer. POT's
search for p = 2 ends at its default tolerance, 1e-6; the difference is that from our distance, or
from 0.7.

Densities: W_p to the uniform one of 1 + 0.8 cos θ on the circle, where W_1 = 1.6/π and W_2 =
0.8/√2, and of two bumps on S², von Mises–Fisher laws at the poles, by polar angles; their truth is
the integral over explicit quantile functions. POT takes atoms, the masses of m equal cells at their
middles, made outside of the measured time; its error is that of the cells. Ratios are of POT's time
to ours, medians over interleaved rounds; ours is exact to rounding, so that a ratio below 1 buys a
larger error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq

import meanfield as mf
from validation._inside import circle_points
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Ways = dict[str, Callable[[], float]]

SIZES, ATOMS, REPEATS, GOAL = (1_000, 10_000, 100_000), (100, 1_000, 10_000, 100_000), 15, 10.0
LAWS = mf.FourierSeries(cos=[0.8]), mf.VonMisesFisher([0.0, 1.0], 2.0)
GOAL_FOR = "two laws", SIZES[-1], 2
ARC, KAPPAS = 0.7, (5.0, 2.0)
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, z], k) for z, k in zip((1.0, -1.0), KAPPAS, strict=True)],
    [0.5, 0.5],
)
OWN, CIRCLE, SEARCH, LINE = (
    "meanfield",
    "POT, wasserstein_circle",
    "POT, binary_search_circle",
    "POT, wasserstein_1d",
)


def two_laws(n: int) -> tuple[mf.Particles, mf.Particles]:
    """Clouds with weights."""
    rng = np.random.default_rng(0)
    one, other = (mf.Particles(law.sample(n, rng), rng.random(n), unit_mass=True) for law in LAWS)
    return one, other


def turned(n: int) -> tuple[mf.Particles, mf.Particles]:
    """A cloud on an arc, and the same turned."""
    rng = np.random.default_rng(1)
    angles, weights = rng.random(n), rng.random(n)
    return tuple(
        mf.Particles(circle_points(angles + by), weights, unit_mass=True) for by in (0.0, ARC)
    )  # type: ignore[return-value]


def turns(cloud: mf.Particles) -> Array:
    """Angles in [0, 1)."""
    return np.asarray(np.arctan2(cloud.points[:, 1], cloud.points[:, 0]) / (2.0 * np.pi) % 1.0)


def of_pot(p: int, *atoms: Array) -> Ways:
    """POT's ways to W_p on the circle in radians, from turns and masses; none without POT."""
    ot = peer("ot")
    if ot is None:
        return {}

    def radians(found: Any) -> float:
        return 2.0 * np.pi * float(np.squeeze(found)) ** (1.0 / p)

    ways: Ways = {CIRCLE: lambda: radians(ot.wasserstein_circle(*atoms, p=p))}
    if p > 1:
        ways[SEARCH] = lambda: radians(ot.binary_search_circle(*atoms, p=p))
    return ways


def cloud_rows(n: int, rounds: int) -> list[dict[str, Any]]:
    """Every way's time over ours, and how far its distance is from the truth, or from ours."""
    found = []
    for name, (mu, nu), p in [(name, pair(n), p) for name, pair in CLOUDS.items() for p in (1, 2)]:
        ways: Ways = {OWN: lambda mu=mu, nu=nu, p=p: float(mf.wasserstein(mu, nu, p))}  # type: ignore[misc]
        ways |= of_pot(p, turns(mu), turns(nu), mu.weights, nu.weights)
        times = interleaved(ways, rounds)
        truth = ARC if name == "turned" else ways[OWN]()
        found += [
            {
                "ratio": ratio(times, way, OWN),
                "clouds": name,
                "n": n,
                "p": p,
                "way": way,
                "difference": abs(ways[way]() - truth),
                "seconds": median(times, way),
                "goal": GOAL if (name, n, p) == GOAL_FOR and way != OWN else None,
            }
            for way in ways
        ]
    return found


CLOUDS = {"two laws": two_laws, "turned": turned}


def cells(m: int, turn: float, mass: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Middles of m equal cells of [0, turn], the masses up to their ends, and uniform ones."""
    return (np.arange(m) + 0.5) * turn / m, np.diff(mass(turn / m * np.arange(m + 1))), np.ones(m)


def on_circle(angles: Array) -> Array:
    """F(θ) of 1 + 0.8 cos θ."""
    return np.asarray((angles + 0.8 * np.sin(angles)) / (2.0 * np.pi))


def about_axis(angles: Array) -> Array:
    """F(θ) of the bumps on S²."""
    up, down = (
        np.expm1(kappa * (np.cos(theta) - 1.0)) / np.expm1(-2.0 * kappa)
        for kappa, theta in zip(KAPPAS, (angles, np.pi - angles), strict=True)
    )
    return np.asarray(0.5 * (up + 1.0 - down))


def by_quantiles(p: int) -> float:
    """W_p of the bumps to the uniform law, ∫ |F⁻¹(u) - arccos(1 - 2u)|^p du, u = F(θ)."""

    def integrand(theta: float) -> float:
        share = float(np.clip(about_axis(np.array(theta)), 0.0, 1.0))
        density = float(BUMPS.pdf([[np.sin(theta), 0.0, np.cos(theta)]])[0])
        apart = abs(2.0 * np.arcsin(np.sqrt(share)) - theta)
        return float(apart**p * density * np.sin(theta) / 2.0)

    kink = brentq(lambda theta: about_axis(theta) - 0.5 * (1.0 - np.cos(theta)), 0.5, np.pi - 0.5)
    parts = [
        quad(integrand, *ends, epsabs=1e-14, epsrel=1e-13, limit=200)[0]
        for ends in ((0.0, kink), (kink, np.pi))
    ]
    return float(sum(parts) ** (1.0 / p))


def density_rows(space: str, p: int, atoms: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Error and time of ours, and of POT with m atoms."""
    if space == "circle":
        grid: mf.Circle | mf.Zonal = mf.Circle(16)
        law: Any = mf.FourierSeries(cos=[0.8])
        truth = 1.6 / np.pi if p == 1 else 0.8 / np.sqrt(2.0)
    else:
        grid, law = mf.Zonal(3, 31), BUMPS
        truth = by_quantiles(p)
    mu, nu = mf.Density(grid, law), mf.Density(grid, mf.Uniform(grid.dim))
    ways: Ways = {OWN: lambda: float(mf.wasserstein(mu, nu, p))}
    for m in atoms if peer("ot") else ():
        ways[f"{m}"] = density_of_pot(space, p, m)
    times = interleaved(ways, rounds)
    return [
        {
            "ratio": ratio(times, way, OWN),
            "space": space,
            "p": p,
            "way": way if way == OWN else CIRCLE if space == "circle" else LINE,
            "atoms": None if way == OWN else int(way),
            "error": abs(call() - truth),
            "seconds": median(times, way),
        }
        for way, call in ways.items()
    ]


def density_of_pot(space: str, p: int, m: int) -> Callable[[], float]:
    """POT's distance of the atoms in m cells."""
    ot: Any = peer("ot")
    if space == "circle":
        at, masses, uniform = cells(m, 2.0 * np.pi, on_circle)
        at, uniform = at / (2.0 * np.pi), uniform / m
        return of_pot(p, at, at, masses, uniform)[CIRCLE]
    at, masses, _ = cells(m, np.pi, about_axis)
    uniform = np.diff(-0.5 * np.cos(np.pi / m * np.arange(m + 1)))
    return lambda: float(ot.wasserstein_1d(at, at, masses, uniform, p=p)) ** (1.0 / p)


def measure(quick: bool) -> Tables:
    """Clouds and densities."""
    rounds = 3 if quick else REPEATS
    with warnings.catch_warnings():
        # POT looks for every array library that it knows, some of which warn
        warnings.simplefilter("ignore")
        clouds = [row for n in (SIZES[:1] if quick else SIZES) for row in cloud_rows(n, rounds)]
        atoms = ATOMS[:2] if quick else ATOMS
        densities = [
            row
            for space in ("circle", "axisymmetric, S²")
            for p in (1, 2)
            for row in density_rows(space, p, atoms, rounds)
        ]
    return {"clouds on the circle": clouds, "densities": densities}


def figure(tables: Tables) -> Figure:
    """Error against time of densities, p = 1 and 2."""
    drawing, axes = panels(4, "W_p of a density to the uniform one: error over time")
    rows = tables["densities"]
    kinds = list(dict.fromkeys((row["space"], row["p"]) for row in rows))
    for ax, (space, p) in zip(axes, kinds, strict=True):
        chosen = [row for row in rows if (row["space"], row["p"]) == (space, p)]
        names = list(dict.fromkeys(row["way"] for row in chosen))
        for way, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
            # errors of 0 have no place on the scale
            points = [
                (row["seconds"], max(row["error"], 1e-16)) for row in chosen if row["way"] == way
            ]
            ax.loglog(
                *zip(*points, strict=True), marker + "-", color=colour, label=way, markersize=3
            )
        label(ax, "seconds", "error", f"{space}, p = {p}")
    return drawing


if __name__ == "__main__":
    main(measure, figure, packages=("POT",))
