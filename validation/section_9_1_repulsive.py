"""Section 9.1: repulsive tokens settle on spherical designs, the sharp ones of Theorem 9.2.

With V = -I the flow descends E_β = (1/2βn²) H_β, H_β(C) = Σ_{x,y in C} e^{β<x,y>}, and
E_β = (e^β/2β) ∬ e^{-β|x-y|²/2}, a Gaussian energy. Theorem 9.2 (Cohn and Kumar) takes its minima at
sharp configurations, m inner products and a (2m-1)-design, whatever β is.

Measured. Each configuration: how many inner products it has, and the strength of its design by
Definition 9.1, the largest t with Σ_{x,y} P_k(<x,y>) = 0 for k = 1 … t, P_k Gegenbauer; both are
counts, told from rounding at 1e-9. That it is at rest, under SA and USA, to rounding. That the
lowest of some repulsive runs of n uniform tokens ends at its energy, and none below: at a minimum
an energy is right to the square of the tolerance of a run, and of what is left after 20 lives of
its slowest displacement, whose rate is found by differences. E -> E(σ): for a t-design the first
t terms of the exponential series give what σ gives, and (E - E(σ))/E(δ) is at most
2 β^{t+1}/(t+1)!; the regular n-gons have E - E(σ) = (1/β) Σ_j I_{jn}(β), which falls faster than
any power of n; of n repulsive tokens of S² it is less than that of n uniform tokens, of order
1/n. The run that ends lowest is recognised by its inner products, which at a flat minimum are right
to the root of what its energy is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import eval_chebyt, eval_gegenbauer, gammaln, iv

import meanfield as mf
from validation.claims import Claim, main
from validation.configurations import e8, icosahedron, inner_products, polygon, simplex
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

# what differs by less is one inner product, or no moment
COUNTED = 1e-9
# what is less is drawn there
FLOOR = 1e-17
SOURCE = "Theorem 9.2"
# of the slowest displacement, in a run
LIVES = 20.0


@dataclass(frozen=True)
class Sharp:
    """A configuration with the numbers of inner products and the strength that are claimed."""

    name: str
    points: Array
    products: int
    strength: int


def cross(dim: int) -> Array:
    """± unit vectors."""
    return np.concatenate([np.eye(dim), -np.eye(dim)])


def sharp() -> list[Sharp]:
    """Sharp configurations, and how many inner products m < 1 and which designs they have."""
    polygons = [Sharp(f"{n}-gon", polygon(n), n // 2, n - 1) for n in (2, 3, 4, 5, 6, 8)]
    return [
        *polygons,
        *(Sharp(f"simplex, d = {d}", simplex(d), 1, 2) for d in (3, 4, 8)),
        *(Sharp(f"cross polytope, d = {d}", cross(d), 2, 3) for d in (3, 4, 8)),
        Sharp("icosahedron", icosahedron(), 3, 5),
        Sharp("E8", e8(), 4, 7),
    ]


def gegenbauer(k: int, dim: int, t: Array) -> Array:
    """P_k(t), P_k(1) = 1."""
    if dim == 2:
        return np.asarray(eval_chebyt(k, t))
    half = 0.5 * dim - 1.0
    return np.asarray(eval_gegenbauer(k, half, t) / eval_gegenbauer(k, half, 1.0))


def products(points: Array) -> Array:
    """All <x_i, x_j>, within [-1, 1]."""
    return np.asarray(np.clip(points @ points.T, -1.0, 1.0))


def moment(points: Array, k: int) -> float:
    """The mean of P_k(<x_i, x_j>): 0 where polynomials of degree k have the mean of the sphere."""
    return float(gegenbauer(k, points.shape[1], products(points)).mean())


def strength(points: Array) -> int:
    """The largest t such that the points are a t-design."""
    k = 1
    while moment(points, k) < COUNTED:
        k += 1
    return k - 1


def distinct(points: Array) -> int:
    """The number of distinct inner products other than 1."""
    return int(1 + np.count_nonzero(np.diff(inner_products(points)) > COUNTED))


def designs() -> list[Claim]:
    """Sharp: m inner products and a (2m-1)-design."""
    found = []
    for one in sharp():
        m, t = distinct(one.points), strength(one.points)
        missed = abs(m - one.products) + abs(t - one.strength) + max(0, 2 * m - 1 - t)
        values = f"m = {one.products}, t = {one.strength}", f"m = {m}, t = {t}"
        name = f"{one.name}: inner products m and design t, off, or t < 2m-1"
        found.append(Claim(name, "Definition 9.1", float(missed), 0.0, "counts", *values))
    return found


def energies() -> list[Claim]:
    """H_β and the Gaussian energy against `energy`, and rest under both flows."""
    gap = rest = 0.0
    for one in sharp():
        tokens, n = mf.Particles(one.points), len(one.points)
        square = np.sum((one.points[:, None] - one.points) ** 2, axis=2)
        for beta in (0.5, 4.0, 20.0):
            energy = mf.energy(tokens, beta)
            plain = np.exp(beta * (one.points @ one.points.T)).sum() / (2.0 * beta * n * n)
            gauss = np.exp(beta) / (2.0 * beta) * np.exp(-0.5 * beta * square).mean()
            gap = max(gap, abs(plain / energy - 1.0), abs(gauss / energy - 1.0))
            for kind in (mf.SA, mf.USA):
                pull = kind(beta, sign=-1).velocity(tokens, at=tokens.points)
                unit = np.exp(beta) if kind is mf.USA else 1.0
                rest = max(rest, float(np.abs(pull).max() / unit))
    return [
        Claim(
            "E_β less H_β/2βn² and the Gaussian energy, relative",
            "section 9.1",
            gap,
            1e-13,
            "sums of positive terms, β |x-y|²",
        ),
        Claim("sharp configurations: |X| under SA and USA / e^β", SOURCE, rest, 1e-13, "rounding"),
    ]


def slowest(points: Array, beta: float) -> float:
    """The least rate, rotations apart, at which a displacement decays under repulsive SA."""

    def field(x: Array) -> Array:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        weights = np.exp(beta * (x @ x.T - 1.0))
        pull = -(weights @ x) / weights.sum(axis=1, keepdims=True)
        return np.asarray(pull - np.sum(pull * x, axis=1, keepdims=True) * x)

    dim, step = points.shape[1], 1e-5
    frames = [np.linalg.svd(p[None])[2][1:] for p in points]
    rows = []
    for i, frame in enumerate(frames):
        for tangent in frame:
            shift = np.zeros_like(points)
            shift[i] = step * tangent
            change = (field(points + shift) - field(points - shift)) / (2.0 * step)
            rows.append(np.concatenate([f @ v for f, v in zip(frames, change, strict=True)]))
    rates = np.sort(-np.linalg.eigvals(np.array(rows)).real)
    return float(rates[dim * (dim - 1) // 2])


@cache
def descents(name: str, beta: float, count: int) -> tuple[Array, float]:
    """Energies at the ends of repulsive runs of uniform tokens, over that of the configuration.

    And by how much the inner products of the lowest are off those of the configuration.
    """
    one = next(c for c in sharp() if c.name == name)
    n, dim = one.points.shape
    least = mf.energy(mf.Particles(one.points), beta)
    t_end = LIVES / slowest(one.points, beta)
    rng = np.random.default_rng(n)
    ends, apart = [], []
    for _ in range(count):
        start = mf.Particles.sample(mf.Uniform(dim), n, rng)
        final = mf.evolve(start, mf.SA(beta, sign=-1), t_end, 1, rtol=1e-6, atol=1e-8).final
        assert isinstance(final, mf.Particles)
        ends.append(mf.energy(final, beta) / least - 1.0)
        apart.append(np.abs(inner_products(final.points) - inner_products(one.points)).max())
    return np.array(ends), float(apart[np.argmin(ends)])


def runs(quick: bool) -> list[Claim]:
    """Repulsive runs never end below a sharp configuration, and find it."""
    names = ("4-gon", "simplex, d = 3")
    if not quick:
        names += ("3-gon", "5-gon", "8-gon", "simplex, d = 8", "cross polytope, d = 3")
        names += ("cross polytope, d = 4", "icosahedron")
    found, count = [], 2 if quick else 6
    for name in names:
        for beta in [1.0] if quick else [1.0, 4.0]:
            ends, apart = descents(name, beta, count)
            text = f"{name}, β = {beta:g}, {count} runs"
            below = max(0.0, -float(ends.min()))
            why, root = "flat: the square of 1e-6 and of e^-20, times β²", "a root: flat"
            found += [
                Claim(f"{text}: any energy below it, relative", SOURCE, below, 1e-13, "rounding"),
                Claim(f"{text}: least energy less its", SOURCE, float(ends.min()), 1e-9, why),
                Claim(f"{text}: inner products of the lowest", SOURCE, apart, 1e-4, root),
            ]
    return found


def excess(points: Array, beta: float) -> float:
    """(E - E(σ))/E(δ)."""
    gap = mf.energy(mf.Particles(points), beta) - mf.theory.energy_uniform(beta, points.shape[1])
    return float(gap / mf.theory.energy_dirac(beta))


def to_uniform(quick: bool) -> list[Claim]:
    """E comes near E(σ): designs by their strength, n-gons by Bessel functions."""
    over = 0.0
    for one in sharp():
        for beta in (0.5, 1.0, 2.0, 4.0):
            t = one.strength
            rest = 2.0 * np.exp((t + 1) * np.log(beta) - gammaln(t + 2))
            over = max(over, excess(one.points, beta) / rest)
    gap, above = 0.0, 0.0
    numbers = (2, 3, 5, 8, 12, 20, 32)
    for beta in (0.5, 4.0, 9.0):
        shares = []
        for n in numbers:
            exact = 2.0 * np.exp(-beta) * iv(n * np.arange(1, 40), beta).sum()
            shares.append(excess(polygon(n), beta))
            gap = max(gap, abs(shares[-1] - exact))
        above = max(above, float(-min(shares)))
    return [
        Claim(
            "(E - E(σ))/E(δ) of t-designs over its bound",
            "Definition 9.1",
            over,
            1.0,
            "2 β^(t+1)/(t+1)!: the rest of e^βs, |s| ≤ 1, e^β ≥ 1",
        ),
        Claim(
            "n-gons, n = 2 … 32: (E - E(σ))/E(δ) less 2e^-β Σ I_jn(β)",
            "Prop. 3.4",
            gap,
            1e-14,
            "rounding",
        ),
        Claim("the same, below 0 by", "Prop. 3.4", above, 1e-15, "rounding"),
        *tokens(quick),
    ]


def tokens(quick: bool) -> list[Claim]:
    """n repulsive tokens of S²: E - E(σ) > 0, and less than that of n random tokens."""
    found, beta = [], 4.0
    for n in (6, 12) if quick else (6, 12, 24, 48, 96):
        share = settled(n, beta)
        # (E(δ) - E(σ))/n of uniform tokens in the mean
        random = (1.0 - mf.theory.energy_uniform(beta, 3) / mf.theory.energy_dirac(beta)) / n
        name = f"S², β = {beta:g}, n = {n}: (E - E(σ))/E(δ) over that of random tokens"
        values = f"{random:.3e}", f"{share:.3e}"
        ratio = share / random if share > 0.0 else np.inf
        found.append(Claim(name, "section 9.1", ratio, 1.0, "and not negative", *values))
    return found


@cache
def settled(n: int, beta: float) -> float:
    """(E - E(σ))/E(δ) of n repulsive tokens of S² at t = 30."""
    start = mf.Particles.sample(mf.Uniform(3), n, np.random.default_rng(n))
    final = mf.evolve(start, mf.SA(beta, sign=-1), 30.0, 1, rtol=1e-5, atol=1e-7).final
    assert isinstance(final, mf.Particles)
    return excess(final.points, beta)


def check(quick: bool) -> list[Claim]:
    """Designs, energies, runs, the way to the uniform measure."""
    return [*designs(), *energies(), *runs(quick), *to_uniform(quick)]


def figure(quick: bool) -> Figure:
    """Design moments, E - E(σ) of n-gons, and of repulsive tokens of S²."""
    drawn, (moments, gons, sphere) = panels(3, "Section 9.1: repulsive tokens")
    degrees = range(1, 11)
    shown = ("8-gon", "simplex, d = 3", "cross polytope, d = 3", "icosahedron", "E8")
    for name, colour, marker in zip(shown, COLOURS, MARKERS, strict=False):
        one = next(c for c in sharp() if c.name == name)
        values = [max(abs(moment(one.points, k)), FLOOR) for k in degrees]
        text = f"{name}: t = {one.strength}"
        moments.semilogy(degrees, values, marker, color=colour, ms=4, label=text)
    for beta, colour, marker in zip((0.5, 4.0, 9.0), COLOURS, MARKERS, strict=False):
        numbers = np.arange(2, 26)
        exact = [2 * np.exp(-beta) * iv(n * np.arange(1, 40), beta).sum() for n in numbers]
        found = [max(excess(polygon(int(n)), beta), FLOOR) for n in numbers]
        gons.semilogy(numbers, exact, color=colour, linewidth=0.8)
        gons.semilogy(numbers, found, marker, color=colour, ms=4, label=f"β = {beta:g}")
    gons.set_ylim(0.3 * FLOOR, 3.0)
    beta, sizes = 4.0, (6, 12) if quick else (6, 12, 24, 48, 96)
    floor = mf.theory.energy_uniform(beta, 3) / mf.theory.energy_dirac(beta)
    random = (1.0 - floor) / np.array(sizes)
    sphere.loglog(sizes, random, **CLAIMED, label="uniform tokens, mean")
    ends = [settled(n, beta) for n in sizes]
    sphere.loglog(sizes, ends, MARKERS[0], color=COLOURS[0], ms=4, label="repulsive, t = 30")
    sphere.set_xticks(sizes, labels=[str(n) for n in sizes])
    sphere.minorticks_off()
    label(moments, "degree k", "mean of P_k(⟨x, y⟩)", "zero up to the design's t")
    label(gons, "n", "(E - E(σ))/E(δ)", "regular n-gons: lines claimed")
    label(sphere, "n", "(E - E(σ))/E(δ)", "S², β = 4")
    return drawn


if __name__ == "__main__":
    main(check)
