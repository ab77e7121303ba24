"""Theorem 4.1: at β = 0 almost every start ends in one point; other critical points are saddles.

(4.1) is x_i' = P_{x_i} m/n, m = Σ_j x_j, the gradient flow of E_0 = Σ_ij <x_i, x_j>/(2n). Random
starts are run until they are one cluster; none may be left over. Critical points are then taken one
by one: k tokens at -e and n-k at e, and tokens with m = 0, both regular ones (polygons, simplices,
cross polytopes) and the ends of repulsive runs from random starts. Lemma A.2: each that is not one
point is a strict saddle. (A.2): a set S has Σ <x_i, x_j> < 0 over i in S, j not in S; single tokens
do. (C.2): Hess E_0, written out here in tangent coordinates, has an eigenvalue of at least
2(d-1)/(dn). It is in fact (d-1)/d or more (ours: where m = 0 the largest one is that of I - Σ x_i
x_iᵀ/n, of trace d-1; else it is 1), which regular points attain; at one point all are 0 or -1. Runs
that start 1e-6 off a critical point along the eigenvector leave it at that rate.

Densities have a rate of their own: in the exact solution f = ((1-r²)/|x-re|²)^{d-1}, r' = (1-r²)
|∫ x dmu|/2, 1-r falls like e^{-t}, and for d = 2 so does 1-|∫ x dmu|, which for tokens falls like
e^{-2t}. Flow maps are held against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import eval_gegenbauer, roots_gegenbauer

import meanfield as mf
from validation._inside import evolve_batch
from validation.beta_zero_exact import moment, radius
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

# n, d and starts
BATCHES = ((2, 2, 4000), (3, 2, 4000), (16, 2, 1000), (16, 3, 1000), (5, 8, 1000), (32, 8, 200))
TOGETHER = 1e-6
ROUNDING, KICK, START = 1e-12, 1e-6, 0.1
# the slowest saddle is left at the rate 1/2
TIMES = np.geomspace(1.0, 200.0, 30)


@dataclass(frozen=True)
class Critical:
    """A critical point, what kind it is of, and the spectrum of Hess E_0 there."""

    kind: str
    points: Array
    eigenvalues: Array
    escape: Array

    @property
    def dim(self) -> int:
        """d."""
        return int(self.points.shape[1])

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return float(self.eigenvalues[-1])

    @property
    def printed(self) -> float:
        """(C.2)."""
        return 2.0 * (self.dim - 1.0) / (self.dim * len(self.points))

    @property
    def least(self) -> float:
        """(d-1)/d, ours."""
        return (self.dim - 1.0) / self.dim

    @property
    def speed(self) -> float:
        """The largest |X_i|, 0 at a critical point."""
        mean = self.points.mean(axis=0)
        tangent = mean - (self.points @ mean)[:, None] * self.points
        return float(np.linalg.norm(tangent, axis=1).max())

    @property
    def cut(self) -> float:
        """The least Σ_{j≠i} <x_i, x_j> of all i."""
        return float((self.points @ self.points.sum(axis=0)).min() - 1.0)


def critical(kind: str, points: Array) -> Critical:
    """The spectrum, and the tangent vectors (n, d) of its upper end."""
    n, dim = points.shape
    # columns orthogonal to each token
    frames = [np.linalg.qr(np.column_stack([x, np.eye(dim)]))[0][:, 1:dim] for x in points]
    turned = np.hstack(frames)
    pull = np.repeat(points @ points.sum(axis=0), dim - 1)
    values, vectors = np.linalg.eigh((turned.T @ turned - np.diag(pull)) / n)
    steps = vectors[:, -1].reshape(n, dim - 1)
    escape = np.array([frame @ step for frame, step in zip(frames, steps, strict=True)])
    return Critical(kind, points, values, escape)


def regular(dim: int) -> list[Array]:
    """Tokens of sum 0 with Σ x_i x_iᵀ = nI/d."""
    if dim == 2:
        turns = [2.0 * np.pi * np.arange(n) / n for n in (3, 5)]
        return [np.column_stack([np.cos(angles), np.sin(angles)]) for angles in turns]
    corners = np.eye(dim + 1) - 1.0 / (dim + 1)
    simplex = corners @ np.linalg.svd(corners)[2][:dim].T
    simplex /= np.linalg.norm(simplex, axis=1, keepdims=True)
    return [simplex, np.vstack([np.eye(dim), -np.eye(dim)])]


def balanced(n: int, dim: int, rng: np.random.Generator) -> Array:
    """Where repulsion takes random tokens: to m = 0."""
    start = mf.Particles.sample(mf.Uniform(dim), n, rng, sums="direct")
    final = mf.evolve(start, mf.SA(0.0, sign=-1), 200.0, 1, rtol=1e-12, atol=1e-15).final
    assert isinstance(final, mf.Particles)
    return final.points


@cache
def saddles(quick: bool) -> list[Critical]:
    """Critical points that are not one cluster."""
    rng, found = np.random.default_rng(41), []
    for dim in (2, 3, 8) if quick else (2, 3, 8, 20):
        e = rng.normal(size=dim)
        e /= np.linalg.norm(e)
        for n, k in ((2, 1), (5, 1), (5, 2), (8, 4)):
            found.append(critical("antipodal", np.outer(np.repeat([-1.0, 1.0], [k, n - k]), e)))
        found += [critical("regular", points) for points in regular(dim)]
        for n in (6,) if quick else (4, 6, 9, 16, 25):
            found.append(critical("m = 0", balanced(n, dim, rng)))
    return found


def left_over(n: int, dim: int, starts: int) -> int:
    """How many random starts are not one cluster at the end."""
    points = np.random.default_rng(n + dim).normal(size=(starts, n, dim))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    last = evolve_batch(
        points,
        mf.SA(0.0),
        TIMES,
        rtol=1e-6,
        observe=lambda grams: grams.min(axis=(1, 2)),
        settled=lambda row: bool((row > 1.0 - TOGETHER).all()),
    )[-1]
    return int(np.sum(~(last > 1.0 - TOGETHER)))


def leaving(one: Critical) -> float:
    """The rate at which a run leaves a saddle, less the eigenvalue."""
    start = mf.Particles(one.points + KICK * one.escape)
    final = mf.evolve(start, mf.SA(0.0), 2.0, 1, rtol=1e-12, atol=1e-15).final
    assert isinstance(final, mf.Particles)
    apart = [float(np.sum(one.escape * (p.points - one.points))) for p in (start, final)]
    return abs(float(np.log(apart[1] / apart[0])) / 2.0 - one.largest)


def saddle_claims(quick: bool) -> list[Claim]:
    """Lemma A.2, (A.2), (C.2), the sharp bound, and rates of runs."""
    some = saddles(quick)
    printed = max(one.printed - one.largest for one in some)
    least = max(one.least - one.largest for one in some)
    sharp = max(abs(one.largest - one.least) for one in some if one.kind == "regular")
    unit = max(abs(one.largest - 1.0) for one in some if one.kind == "antipodal")
    rates = max(leaving(one) for one in some)
    together = [critical("one", np.tile(np.eye(d)[0], (n, 1))) for n, d in ((2, 2), (5, 3), (9, 8))]
    point = max(
        float(np.minimum(abs(one.eigenvalues), abs(one.eigenvalues + 1.0)).max())
        for one in together
    )
    name = f"{len(some)} critical points"
    cut = max(one.cut for one in some)
    speed = max(one.speed for one in some)
    return [
        Claim(f"{name}: speed of a token", "(4.1)", speed, 1e-10, "runs in steps of 1e-12"),
        Claim(f"{name}: 2(d-1)/(dn) less the largest eigenvalue", "(C.2)", printed, 0.0, "a bound"),
        Claim(f"{name}: (d-1)/d less it", "Lemma A.2, ours", least, ROUNDING, "rounding"),
        Claim("regular: eigenvalue off (d-1)/d", "ours: attained", sharp, ROUNDING, "rounding"),
        Claim("antipodal: eigenvalue off 1", "ours", unit, ROUNDING, "rounding"),
        Claim(f"{name}: Σ <x_i, x_j> over a cut", "(A.2)", cut, 0.0, "negative"),
        Claim("one point: eigenvalues off 0 and -1", "a maximum", point, ROUNDING, "rounding"),
        Claim(f"{name}: rate of leaving less the eigenvalue", "Lemma A.2", rates, 1e-5, "1e-6 off"),
    ]


def orbit(dim: int) -> mf.FourierSeries | mf.ZonalSeries:
    """The exact solution's density at r = 0.1, by quadrature."""
    if dim == 2:
        return mf.FourierSeries(cos=2.0 * START ** np.arange(1, 16))
    x, weights = roots_gegenbauer(400, 0.5 * dim - 1.0)
    values = ((1.0 - START**2) / (1.0 + START**2 - 2.0 * START * x)) ** (dim - 1)
    order = 0.5 * dim - 1.0
    shapes = [eval_gegenbauer(k, order, x) / eval_gegenbauer(k, order, 1.0) for k in range(1, 41)]
    found = [(weights @ (values * p)) / (weights @ (p * p)) for p in shapes]
    return mf.ZonalSeries(dim, [float(a) for a in found])


@cache
def flow(dim: int) -> tuple[Array, Array, Array]:
    """Times, |∫ x dmu| of the flow map, and that of the exact solution."""
    sol = mf.evolve(mf.FlowMap(orbit(dim)), mf.SA(0.0), 10.0, 5)
    found = np.array([np.linalg.norm(mu.mean()) for mu in sol.measures])
    radii = [START, *(radius(dim, START, float(t)) for t in sol.t[1:])]
    return sol.t, found, np.array([float(moment(dim, r)) for r in radii])


def check(quick: bool) -> list[Claim]:
    """Starts, saddles, densities."""
    found = []
    for n, dim, starts in BATCHES:
        count = starts // 20 if quick else starts
        name = f"d = {dim}, n = {n}: starts of {count} not in one cluster"
        found.append(Claim(name, "Theorem 4.1", left_over(n, dim, count), 0.0, "almost every"))
    found += saddle_claims(quick)
    for dim in (2, 8) if quick else (2, 3, 4, 8):
        times, ours, exact = flow(dim)
        rate = float(np.log((1.0 - exact[-2]) / (1.0 - exact[-1])) / (times[-1] - times[-2]))
        found.append(
            Claim(
                f"d = {dim}, density: |∫ x dmu| to t = 10; 1 less it falls at {rate:.3f}",
                "exact solution",
                float(np.abs(ours - exact).max()),
                1e-10,
                "a flow map to 1e-12, steps of it",
                f"{exact[-1]:.12g}",
                f"{ours[-1]:.12g}",
            )
        )
    return found


def figure(quick: bool) -> Figure:
    """Largest eigenvalues at critical points, and how densities concentrate."""
    drawn, (spectrum, means) = panels(2, "β = 0: saddles, and the one cluster")
    kinds = ("m = 0", "antipodal", "regular")
    for kind, colour, marker in zip(kinds, COLOURS, MARKERS, strict=False):
        some = [one for one in saddles(quick) if one.kind == kind]
        places = [one.dim for one in some]
        values = [one.largest for one in some]
        # of one value there may be several kinds
        size = 7 if kind == "antipodal" else 4
        faces = "none" if kind == "antipodal" else colour
        spectrum.plot(places, values, marker, color=colour, ms=size, mfc=faces, label=kind)
    dims = np.linspace(2.0, max(one.dim for one in saddles(quick)), 50)
    spectrum.plot(dims, (dims - 1.0) / dims, "-", color="0.45", linewidth=1.0, label="(d-1)/d")
    spectrum.plot(dims, (dims - 1.0) / (4.0 * dims), **CLAIMED, label="(C.2), n = 8")
    spectrum.set_ylim(0.0, 1.1)
    spectrum.set_xticks([2, 3, 8, 20] if dims[-1] > 8 else [2, 3, 8])
    for dim, colour, marker in zip(
        (2, 8) if quick else (2, 3, 4, 8), COLOURS, MARKERS, strict=False
    ):
        times, ours, exact = flow(dim)
        means.plot(times, 1.0 - exact, "-", color=colour, linewidth=0.8)
        means.plot(times, 1.0 - ours, marker, color=colour, ms=4, label=f"d = {dim}")
    means.set_yscale("log")
    label(spectrum, "d", "largest eigenvalue of Hess E_0", "critical points but the cluster")
    label(means, "t", "1 - |∫ x dmu|", "densities: lines exact, marks flow map")
    return drawn


if __name__ == "__main__":
    main(check)
