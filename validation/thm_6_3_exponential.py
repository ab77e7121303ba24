"""Theorem 6.3: in d >= n dimensions uniform tokens meet in one point, exponentially fast.

(6.1) |x_i(t) - x*| <= C e^{-λt} almost surely, for any β, under SA and USA. Many random starts are
run until <x_i, x_j> > 1 - 1e-6 for all of their pairs; none may be left over. What the proof
says of λ is far from what happens: near a point SA is x_i' = mean - x_i and USA e^β times that, up
to terms of relative order 1 - <x_i, x_j>. So λ = 1 (SA), e^β (USA), and 1 - <x_i, x_j> = |x_i -
x_j|²/2 falls at 2 and 2e^β, for each pair. Rates are measured pair by pair, and token by token
from x*, the end of the run, while the tokens contract by e from 1 - <x_i, x_j> < 1e-8 on. Pairs
that met long before have lost their digits and are left out below 1e-12.

This is a rate of n tokens: a density that is positive at the antipode of its limit leaves it at
the rate 1 or e^{-β}, so that its W_p falls more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, label, panels

Array = NDArray[np.float64]
Isotropic = mf.SA | mf.USA

BETAS = 0.0, 1.0, 3.0
# n, d and starts
BATCHES = ((2, 2, 2000), (8, 8, 500), (8, 64, 500), (32, 32, 40))
SIZES = ((2, 2), (8, 8), (8, 40), (32, 32), (32, 500))
TOGETHER, NEAR, LOST = 1e-6, 1e-8, 1e-12
# the next terms are (1 + β) 1e-8; points are right to some 1e-15 and 1e-6 apart or more
TOLERANCE = 1e-6


def unit(dynamics: Isotropic) -> float:
    """1/λ."""
    return 1.0 if dynamics.normalised else float(np.exp(-dynamics.beta))


def patience(dynamics: Isotropic, n: int) -> float:
    """40 lives of antipodal clusters, which part at the rate e^{-2β} λ/n."""
    return float(40.0 * n * np.exp(2.0 * dynamics.beta)) * unit(dynamics)


def least(grams: Array) -> Array:
    """The smallest inner product of each set."""
    return np.asarray(grams.min(axis=(1, 2)))


def is_together(products: Array) -> bool:
    """Whether all sets are one cluster."""
    return bool((products > 1.0 - TOGETHER).all())


def left_over(dynamics: Isotropic, n: int, dim: int, starts: int, seed: int) -> int:
    """How many of the starts have not met."""
    points = np.random.default_rng(seed).normal(size=(starts, n, dim))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    times = np.geomspace(unit(dynamics), patience(dynamics, n), 40)
    last = evolve_batch(points, dynamics, times, rtol=1e-6, observe=least, settled=is_together)[-1]
    return int(np.sum(~(last > 1.0 - TOGETHER)))


@dataclass(frozen=True)
class Contraction:
    """A run: 1 - <x_i, x_j> of all pairs over time, and the rates near the end."""

    dynamics: Isotropic
    n: int
    dim: int
    times: Array
    gaps: Array
    pairs: Array
    tokens: Array

    @property
    def off(self) -> tuple[float, float]:
        """What parts the rates of pairs and tokens from 2λ and λ, as shares."""
        rate = 1.0 / unit(self.dynamics)
        pairs, tokens = self.pairs / (2.0 * rate) - 1.0, self.tokens / rate - 1.0
        return float(np.abs(pairs).max()), float(np.abs(tokens).max())


def halved(points: Array) -> Array:
    """|x_i - x_j|²/2, i < j: 1 - <x_i, x_j> with all its digits."""
    first, second = np.triu_indices(len(points), 1)
    return np.asarray(0.5 * np.sum((points[first] - points[second]) ** 2, axis=1))


def contraction(dynamics: Isotropic, n: int, dim: int, rng: np.random.Generator) -> Contraction:
    """Run uniform tokens until they are near, then on by one unit of time, then to x*."""
    tokens = mf.Particles.sample(mf.Uniform(dim), n, rng, sums="gram")
    step, now = unit(dynamics), 0.0
    times, gaps = [0.0], [halved(tokens.points)]
    while gaps[-1].max() > NEAR:
        if now > patience(dynamics, n):
            raise RuntimeError(f"{n} tokens in d = {dim} have not met under {dynamics} at {now:g}")
        sol = mf.evolve(tokens, dynamics, 2.0 * step, 2, rtol=1e-12, atol=1e-15)
        times += list(now + sol.t[1:])
        gaps += [halved(points_of(one)) for one in sol.measures[1:]]
        now += 2.0 * step
        assert isinstance(sol.final, mf.Particles)
        tokens = sol.final
    later = mf.evolve(tokens, dynamics, 40.0 * step, [step], rtol=1e-12, atol=1e-15).measures
    before, after, end = (points_of(one) for one in later)
    kept = halved(before) > LOST
    pairs = np.log(halved(before)[kept] / halved(after)[kept]) / step
    centre = end.mean(axis=0)
    centre /= np.linalg.norm(centre)
    far, near = (np.linalg.norm(points - centre, axis=1) for points in (before, after))
    kept = far**2 > 2.0 * LOST
    tokens_rates = np.log(far[kept] / near[kept]) / step
    return Contraction(dynamics, n, dim, np.array(times), np.array(gaps), pairs, tokens_rates)


def points_of(measure: object) -> Array:
    """The tokens' places."""
    assert isinstance(measure, mf.Particles)
    return measure.points


@cache
def contractions(quick: bool) -> list[Contraction]:
    """Every size, SA and USA, every β."""
    rng = np.random.default_rng(63)
    return [
        contraction(kind(beta), n, dim, rng)
        for _ in range(1 if quick else 3)
        for n, dim in (SIZES[:3:2] if quick else SIZES)
        for kind in (mf.SA, mf.USA)
        for beta in (BETAS[::2] if quick else BETAS)
    ]


def check(quick: bool) -> list[Claim]:
    """One cluster from every start, and λ."""
    found = []
    for kind in (mf.SA, mf.USA):
        apart = total = 0
        for seed, (n, dim, starts) in enumerate(BATCHES):
            count = min(starts, 4 if n > 8 else 20) if quick else starts
            for beta in BETAS:
                apart += left_over(kind(beta), n, dim, count, seed)
                total += count
        name = f"{kind.__name__}, d >= n: starts of {total} not in one cluster"
        found.append(Claim(name, "Theorem 6.3", apart, 0.0, "almost surely none"))
        some = [one for one in contractions(quick) if isinstance(one.dynamics, kind)]
        for which, what, factor in ((0, "1 - <x_i, x_j>", 2.0), (1, "|x_i - x*|", 1.0)):
            worst = some[int(np.argmax([one.off[which] for one in some]))]
            rates = (worst.pairs, worst.tokens)[which]
            claimed = factor / unit(worst.dynamics)
            extreme = float(rates[np.argmax(np.abs(rates - claimed))])
            found.append(
                Claim(
                    f"{kind.__name__}: rate of {what}, relative, {len(some)} runs",
                    f"{factor:g}λ, λ = {'1' if kind is mf.SA else 'e^β'}",
                    worst.off[which],
                    TOLERANCE,
                    "next terms of 1e-8, rounding of 1e-15 over 1e-6",
                    f"{claimed:.9g} (n = {worst.n}, d = {worst.dim}, β = {worst.dynamics.beta:g})",
                    f"{extreme:.9g}",
                )
            )
    return found


def figure(quick: bool) -> Figure:
    """Every pair over time, in units of 1/λ, and the claimed slope."""
    drawn, axes = panels(2, "Uniform tokens in d ≥ n dimensions: all pairs, one line each")
    size = SIZES[2 if quick else 1]
    for ax, kind in zip(axes, (mf.SA, mf.USA), strict=True):
        some = [one for one in contractions(quick) if isinstance(one.dynamics, kind)]
        betas = {one.dynamics.beta: one for one in some if (one.n, one.dim) == size}
        draw(ax, list(betas.values()))
    return drawn


def draw(ax: Axes, some: list[Contraction]) -> None:
    """The pairs of runs with several β."""
    for one, colour in zip(some, COLOURS, strict=False):
        # all in line where the last pair is as near as claimed
        last = -0.5 * np.log(one.gaps[-1].max() / NEAR)
        times = (one.times - one.times[-1]) / unit(one.dynamics) + last
        ax.plot(times, one.gaps, "-", color=colour, linewidth=0.5, alpha=0.7)
        ax.plot([], [], "-", color=colour, label=f"β = {one.dynamics.beta:g}")
    ends = np.array([-9.0, 3.0])
    ax.plot(ends, NEAR * np.exp(-2.0 * ends), **CLAIMED, label="claimed: $e^{-2λt}$")
    ax.set_yscale("log")
    ax.set_xlim(-24.0, 4.0)
    ax.set_ylim(LOST, 1e2)
    name = "SA" if some[0].dynamics.normalised else "USA"
    label(
        ax,
        "λ(t - T), the last pair at $10^{-8}$ for t = T",
        "1 - <x_i, x_j>",
        f"{name}, n = {some[0].n}, d = {some[0].dim}",
    )


if __name__ == "__main__":
    main(check)
