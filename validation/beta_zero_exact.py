"""β = 0: the Möbius orbit of the uniform measure, an exact nonlinear solution in any dimension.

Under (4.1) f = ((1-r²)/|x-re|²)^{d-1} keeps its form, with r' = (1-r²) m/2 and the mean m = |∫ x
dmu| = (2(d-1)/d) r ₂F₁(1, 1-d/2; 1+d/2; r²). Densities on each space are run to t = 4 and held
against it: the whole of f, m, and r from the value at the pole, ((1+r)/(1-r))^{d-1}. These are
nonlinear runs over which f grows by factors of up to 1e8, so that an error in the velocity, in the
flux or in a transform would show. r(t) is integrated here and the hypergeometric function is
SciPy's.

Tolerance: the tail of the coefficients is kept below 1e-11, and an error grows by e^4 at most, at
the rate γ_1 = (d-1)/d < 1 of the uniform measure: 6e-10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.special import hyp2f1

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

END, TOLERANCE = 4.0, 1e-9
SAVES = np.linspace(1.0, END, 4)


class Orbit:
    """f = ((1-r²)/|x-r e|²)^{d-1}."""

    def __init__(self, dim: int, r: float) -> None:
        self.dim, self.r = dim, r

    def pdf(self, points: ArrayLike) -> Array:
        """f at unit rows."""
        distance = 1 + self.r**2 - 2 * self.r * np.asarray(points)[:, -1]
        return np.asarray(((1 - self.r**2) / distance) ** (self.dim - 1))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Not needed here."""
        raise ValueError(f"no sampling of n = {n} points with {rng}")


def moment(dim: int, r: Any) -> Any:
    """m = (2(d-1)/d) r ₂F₁(1, 1-d/2; 1+d/2; r²)."""
    return 2 * (dim - 1) / dim * r * hyp2f1(1.0, 1.0 - dim / 2, 1.0 + dim / 2, r * r)


def radius(dim: int, r0: float, t_end: float) -> float:
    """r(t_end) of r' = (1-r²) m/2."""
    run = solve_ivp(
        lambda _, r: 0.5 * (1 - r * r) * moment(dim, r),
        (0.0, t_end),
        [r0],
        method="DOP853",
        rtol=3e-14,
        atol=1e-15,
    )
    return float(run.y[0, -1])


@dataclass(frozen=True)
class Run:
    """A run from r(0): its space and the densities at the saves."""

    space: mf.Circle | mf.Sphere | mf.Zonal
    start: float
    densities: list[mf.Density]

    @property
    def dim(self) -> int:
        """d."""
        return int(self.space.dim)

    @property
    def radii(self) -> Array:
        """r at the saves by the values at the pole."""
        pole = np.eye(self.dim)[-1:]
        roots = np.array([one.pdf(pole)[0] for one in self.densities]) ** (1 / (self.dim - 1))
        return np.asarray((roots - 1.0) / (roots + 1.0))

    @property
    def exact(self) -> Array:
        """r at the saves by its equation."""
        return np.array([radius(self.dim, self.start, float(t)) for t in SAVES])


@cache
def runs(quick: bool) -> list[Run]:
    """Every space, from r(0) = 0.1 and 0.3."""
    cases: list[tuple[mf.Circle | mf.Sphere | mf.Zonal, float]]
    cases = [(mf.Circle(64), 0.1), (mf.Circle(64), 0.3), (mf.Zonal(8, 31), 0.1)]
    if not quick:
        cases += [(mf.Zonal(2, 31), 0.3), (mf.Sphere(31), 0.1), (mf.Zonal(3, 31), 0.1)]
        cases += [(mf.Zonal(3, 31), 0.3), (mf.Zonal(4, 31), 0.1), (mf.Zonal(4, 31), 0.3)]
        cases += [(mf.Zonal(8, 31), 0.3)]
    found = []
    for space, r0 in cases:
        sol = mf.evolve(
            mf.Density(space, Orbit(space.dim, r0), tail_tol=1e-11, max_size=2047),
            mf.SA(0.0),
            END,
            SAVES,
            rtol=1e-12,
            atol=1e-14,
            on_unresolved="stop",
        )
        densities = [one for one in sol.measures[1:] if isinstance(one, mf.Density)]
        found.append(Run(space, r0, densities))
    return found


def check(quick: bool) -> list[Claim]:
    """Density, moment and r at t = 4 from r(0) = 0.1 and 0.3, d = 2, 3, 4, 8."""
    claims = []
    for run in runs(quick):
        final, r = run.densities[-1], float(run.exact[-1])
        f = Orbit(run.dim, r).pdf(final.space.points)
        shape = float(np.max(np.abs(final.values - f)) / f.max())
        m, found = float(final.mean()[-1]), float(run.radii[-1])
        name = f"d = {run.dim} on {run.space}, r(0) = {run.start}, t = {END:g}"
        source, why = "Möbius orbit, (4.1)", "tails of 1e-11, grown by e^4"
        exact = float(moment(run.dim, r))
        claims += [
            Claim(
                f"{name}: density, relative to its peak of {f.max():.1e}",
                source,
                shape,
                TOLERANCE,
                why,
            ),
            Claim(
                f"{name}: m", source, abs(m - exact), TOLERANCE, why, f"{exact:.12g}", f"{m:.12g}"
            ),
            Claim(
                f"{name}: r", source, abs(found - r), TOLERANCE, why, f"{r:.12g}", f"{found:.12g}"
            ),
        ]
    return claims


def figure(quick: bool) -> Figure:
    """f at t = 4 over the angle from e, and r over time."""
    drawn, (shapes, radii) = panels(2, "β = 0: the Möbius orbit of the uniform measure")
    angles, fine = np.linspace(0.0, np.pi, 15), np.linspace(0.0, np.pi, 300)
    some = {run.dim: run for run in runs(quick) if run.start == 0.1}
    for run, colour, marker in zip(some.values(), COLOURS, MARKERS, strict=False):
        final, exact = run.densities[-1], Orbit(run.dim, float(run.exact[-1]))
        shapes.semilogy(fine, exact.pdf(meridian(run.dim, fine)), "-", color=colour, linewidth=0.8)
        found = final.pdf(meridian(run.dim, angles))
        # what is below the tolerance of the largest value is rounding
        kept = found > TOLERANCE * found.max()
        shapes.plot(angles[kept], found[kept], marker, color=colour, ms=4, label=f"d = {run.dim}")
        times = np.linspace(0.01, END, 40)
        curve = [run.start, *(radius(run.dim, run.start, float(t)) for t in times)]
        radii.plot([0.0, *times], curve, "-", color=colour, linewidth=0.8)
        radii.plot(SAVES, run.radii, marker, color=colour, ms=4, label=f"d = {run.dim}")
    label(shapes, "angle from e", "f", f"t = {END:g}, r(0) = 0.1: lines exact, marks runs")
    label(radii, "t", "r", "lines: r' = (1-r²) m/2; marks: the run's pole")
    return drawn


def meridian(dim: int, angles: Array) -> Array:
    """Points at these angles from the last axis."""
    points = np.zeros((len(angles), dim))
    points[:, -1], points[:, 0] = np.cos(angles), np.sin(angles)
    return points


if __name__ == "__main__":
    main(check)
