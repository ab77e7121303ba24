"""A perturbation of degree k of the uniform density grows at γ_k: SA, USA, with and without noise.

Linearised at the uniform measure, (3.4) and (3.8) multiply a spherical harmonic of degree k by
e^{γ_k t}, γ_k = k(k+d-2) Λ_k/β (USA), the same over Λ_0 (SA), with the sign of the dynamics, less
τ k(k+d-2) under noise. Runs of the nonlinear equation from 1e-6 of one harmonic are measured: the
growth of their power of that degree over 0.3/|γ_k|. γ_k is computed here from Bessel functions,
Λ_k = Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β), not from the multipliers that runs use: an error in
these, in the gradient or in the normalisation would change the growth at first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from scipy.special import gammaln, ive

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import COLOURS, MARKERS, label, panels

SIZE, STRETCH = 1e-6, 0.3
DIMS = 2, 3, 5, 20
# the next term is of relative size 1e-6 in the amplitude, over a growth by 0.3
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Growth:
    """One run: the rate that is claimed and the one that is found."""

    space: mf.Circle | mf.Sphere | mf.Zonal
    dynamics: mf.SA | mf.USA
    degree: int
    claimed: float
    found: float

    @property
    def off(self) -> float:
        """What parts them, as a share."""
        return float(abs(self.found / self.claimed - 1.0))


def rate(dynamics: mf.SA | mf.USA, dim: int, k: int) -> float:
    """γ_k by Bessel functions, for β > 0."""
    beta, half, squares = dynamics.beta, 0.5 * dim, k * (k + dim - 2)
    if dynamics.normalised:
        share = ive(k + half - 1.0, beta) / ive(half - 1.0, beta)
    else:
        unit = np.exp(gammaln(half) + (half - 1.0) * np.log(2.0 / beta) + beta)
        share = unit * ive(k + half - 1.0, beta)
    return float(squares * (dynamics.sign * share / beta - dynamics.noise))


def grown(space: mf.Circle | mf.Sphere | mf.Zonal, dynamics: mf.SA | mf.USA, k: int) -> Growth:
    """Run 1 + 1e-6 P_k on a space, and fit its growth."""
    claimed = rate(dynamics, space.dim, k)
    mu = mf.Density(space, mf.ZonalSeries(space.dim, [0.0] * (k - 1) + [SIZE]))
    t_end = STRETCH / abs(claimed)
    final = mf.evolve(mu, dynamics, t_end, 1, rtol=1e-10, atol=1e-15).final
    assert isinstance(final, mf.Density)
    found = float(np.log(final.power[k] / mu.power[k]) / (2.0 * t_end))
    return Growth(space, dynamics, k, claimed, found)


@cache
def without_noise(dim: int, quick: bool) -> list[Growth]:
    """SA and USA, both signs, on every space of that dimension."""
    spaces: list[mf.Circle | mf.Sphere | mf.Zonal] = [mf.Zonal(dim, 23)]
    spaces += {2: [mf.Circle(48)], 3: [mf.Sphere(23)]}.get(dim, [])
    return [
        grown(space, kind(3.0 * np.sqrt(dim), sign=sign), k)
        for space in spaces
        for kind in (mf.SA, mf.USA)
        for sign in (1, -1)
        for k in ((1, 2, 6) if quick else range(1, 7))
    ]


@cache
def with_noise(dim: int) -> list[Growth]:
    """The same with six tenths of the noise at which attraction loses, degrees 1 and 3."""
    found = []
    for kind in (mf.SA, mf.USA):
        for k in (1, 3):
            # noise takes k(k+d-2) τ of γ_k
            noise = 0.6 * rate(kind(4.0), dim, k) / (k * (k + dim - 2))
            found += [
                grown(mf.Zonal(dim, 15), kind(4.0, sign=sign, noise=noise), k) for sign in (1, -1)
            ]
    return found


def told(dynamics: mf.SA | mf.USA) -> str:
    """Its name and numbers."""
    name = f"{'-' * (dynamics.sign < 0)}{dynamics.name}, β = {dynamics.beta:.4g}"
    return name + (f", τ = {dynamics.noise:.4g}" if dynamics.noise else "")


def claim(name: str, formula: str, runs: list[Growth]) -> Claim:
    """The worst of some runs."""
    worst = max(runs, key=lambda one: one.off)
    return Claim(
        f"{name}: γ_k, relative, {len(runs)} runs",
        formula,
        worst.off,
        TOLERANCE,
        "the next term is of order 1e-6",
        f"{worst.claimed:.9g}, {told(worst.dynamics)}, k = {worst.degree}",
        f"{worst.found:.9g}",
    )


def check(quick: bool) -> list[Claim]:
    """SA and USA, both signs, k = 1 … 6, d = 2, 3, 5, 20; with noise k = 1 and 3."""
    formula = "k(k+d-2) Λ_k/β [/Λ_0]"
    noisy = "± k(k+d-2) Λ_k/β [/Λ_0] - τ k(k+d-2)"
    return [
        *(claim(f"d = {dim}", formula, without_noise(dim, quick)) for dim in DIMS),
        *(
            claim(f"d = {dim}, with noise", noisy, with_noise(dim))
            for dim in (DIMS[:2] if quick else DIMS)
        ),
    ]


def figure(quick: bool) -> Figure:
    """γ_k over k as claimed, and as runs grow."""
    drawn, axes = panels(2, "Growth of a perturbation of degree k of the uniform density")
    for ax, kind in zip(axes, (mf.SA, mf.USA), strict=True):
        for dim, colour, marker in zip(DIMS, COLOURS, MARKERS, strict=False):
            one = [r for r in without_noise(dim, quick) if isinstance(r.dynamics, kind)]
            dynamics, degrees = one[0].dynamics, np.arange(1, 13)
            rates = np.array([rate(dynamics, dim, int(k)) for k in degrees])
            name = f"d = {dim}, β = {dynamics.beta:.2g}"
            unit = np.abs(rates).max()
            ax.plot(degrees, rates / unit, "-", color=colour, linewidth=0.8)
            ax.plot(degrees, -rates / unit, "-", color=colour, linewidth=0.8)
            places, found = [r.degree for r in one], [r.found / unit for r in one]
            ax.plot(places, found, marker, color=colour, ms=4, label=name)
        ax.axhline(0.0, color="0.7", linewidth=0.6)
        title = f"{kind.__name__}, both signs: lines claimed, marks run"
        label(ax, "degree k", "γ_k over its largest", title)
    return drawn


if __name__ == "__main__":
    main(check)
