"""Equispaced clusters on the circle: how many form from near uniform, at what rate they leave.

A perturbation of degree k of the uniform density grows at γ_k = k² I_k(β)/β under (USA), at that
over I_0 under (SA), so k_max(β) = argmax γ_k clusters form first. k equal clusters at equal
distances stand still. With h(x) = e^{β cos x} sin x, Fourier mode m of their displacements grows at

    λ_m = -(1/k) Σ_j h'(2πj/k) (1 - cos(2πmj/k))                                       (USA),

and what parts the tokens of one cluster at -(1/k) Σ_j h'(2πj/k); (SA) divides both by
S/k = (1/k) Σ_j e^{β cos(2πj/k)}, and E_β = S/(2βk) = (I_0 + 2 Σ_m I_{mk})/(2β). At k_max the
largest rate under (SA) does not vanish for large β: where 2β = k² and k is even it tends to
Σ_j (2π²j² - 1) e^{-π²j²} (1 - (-1)^j) / Σ_j e^{-π²j²} = 0.003876605, so what is seen first from
near uniform lasts for some hundred units of time however large β is. For small β it depends on
where β is between two switches of k_max: the rate is 0.0014 at β = 6.2 and 0.05 just beyond. For
β < 0 three clusters are stable from β = -2/3 on, where h'(2π/3) = 0.

Measured: the degree that grows most in a density that holds all of them alike; modes of k tokens,
and of pairs in the place of each, by half the difference of two runs displaced by ±δ, which keeps
no even order in δ; and the clusters that a density forms, as a flow map at β = 5 and by tokens at
its quantiles above, displaced by a side band of 1e-7, which then leave as tokens of their masses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ive

import meanfield as mf
from validation._inside import circle_points
from validation.circle_clusters import Kind, energy, interaction, rates
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, label, panels

Array = NDArray[np.float64]
Model = mf.SA | mf.USA | mf.CircleInteraction

BETAS = 5.0, 10.0, 20.0, 50.0, 81.0, 200.0, 1000.0, 5000.0
# rates of USA are of order e^β, its times of order e^{-β}
USA_BETAS = 5.0, 10.0, 20.0
# δ √β: odd orders beyond the first are some tens of δ²β, rounding is 1e-16 √β/3e-5 of a rate of 1
SHIFT = 3e-5
TOLERANCE = 1e-6
WHY = "some tens of δ²β = 1e-9, and rounding over δ"
TIGHT = {"rtol": 1e-12, "atol": 1e-15}


def selected(beta: float) -> int:
    """k_max(β)."""
    degrees = np.arange(1, int(4.0 * beta**0.5) + 8)
    return int(degrees[np.argmax(degrees**2 * ive(degrees, beta))])


@dataclass(frozen=True)
class Growth:
    """The rate of one mode of k clusters: of the sum, and of a run."""

    beta: float
    k: int
    claimed: float
    found: float

    @property
    def off(self) -> float:
        """What parts them, as a share."""
        return float(abs(self.found / self.claimed - 1.0))


def angles(points: Array) -> Array:
    """In (-π, π]."""
    return np.asarray(np.arctan2(points[:, 1], points[:, 0]))


def cloud(theta: Array) -> mf.Particles:
    """Equal tokens."""
    return mf.Particles(circle_points(theta))


def displaced(model: Model, places: Array, shape: Array, t_end: float, shift: float) -> float:
    """The logarithm of a displacement's growth, from ±δ."""
    parts = []
    for sign in (1.0, -1.0):
        final = mf.evolve(cloud(places + sign * shift * shape), model, t_end, 1, **TIGHT).final
        away = np.remainder(angles(final.points) - places + np.pi, 2.0 * np.pi) - np.pi
        parts.append(sign * away @ shape)
    return float(np.log(0.5 * sum(parts) / (shift * shape @ shape)))


@cache
def of_modes(kind: Kind, beta: float) -> list[Growth]:
    """All modes of up to ten clusters; of more some that leave before others are large."""
    k = selected(beta)
    parting, modes = rates(kind, beta, k)
    x = 2.0 * np.pi / k * np.arange(k)
    chosen = range(1, k // 2 + 1) if k <= 10 else sorted({k // 3, int(np.argmax(modes)), k // 2})
    shift = SHIFT / np.sqrt(beta)
    cases = [(float(modes[m]), x, np.cos(m * x)) for m in chosen]
    cases.append((parting, np.repeat(x, 2), np.tile([1.0, -1.0], k)))
    return [
        Growth(
            beta,
            k,
            claimed,
            displaced(kind(beta), places, shape, 1.0 / abs(claimed), shift) * abs(claimed),
        )
        for claimed, places, shape in cases
    ]


def claim(name: str, source: str, runs: list[Growth]) -> Claim:
    """The worst of some runs."""
    worst = max(runs, key=lambda one: one.off)
    return Claim(
        f"{name}: rate, relative, {len(runs)} runs",
        source,
        worst.off,
        TOLERANCE,
        WHY,
        f"{worst.claimed:.9g}, k = {worst.k}",
        f"{worst.found:.9g}",
    )


def limit_rate() -> float:
    """Of the largest rate under (SA) for 2β = k² and even k, as β grows."""
    j = np.arange(-6, 7)
    terms = np.exp(-(np.pi**2) * j**2)
    return float(terms @ ((2.0 * np.pi**2 * j**2 - 1.0) * (1.0 - (-1.0) ** j)) / terms.sum())


def of_clusters(quick: bool) -> list[Claim]:
    """Modes and parting tokens under both dynamics, energies, the limit of large β."""
    claims, energies = [], []
    for kind, betas in ((mf.SA, BETAS), (mf.USA, USA_BETAS)):
        for beta in betas[:2] if quick else betas:
            name = f"{kind.__name__}, β = {beta:g}, modes and pairs of {selected(beta)} clusters"
            claims.append(claim(name, "λ_m, -h' in the mean", of_modes(kind, beta)))
    for beta in USA_BETAS:
        k = selected(beta)
        found = mf.energy(cloud(2.0 * np.pi / k * np.arange(k)), beta)
        energies.append(abs(found / energy(beta, k) - 1.0))
    name = "energy of k_max clusters, relative"
    claims.append(Claim(name, "(I_0 + 2 Σ I_mk)/2β", max(energies), 1e-13, "sums of k² terms"))
    k, limit = 1000, limit_rate()
    far = float(rates(mf.SA, 0.5 * k**2, k)[1].max())
    name = "SA, 2β = 1000²: largest rate less its limit, relative"
    # at x = 2π/k weights are off by a share of βx⁴/24, slopes by (βx⁴/3 - x²/2)/(2π² - 1)
    why = "next order: a share of π⁴/3 over 2β = 1e6, less 12.8 of the slope's"
    told = f"{limit:.9g}", f"{far:.9g}"
    claims.append(Claim(name, "theta sums", abs(far / limit - 1.0), 1e-4, why, *told))
    return claims


def of_three() -> list[Claim]:
    """β < 0 on both sides of the value at which three clusters become stable, and there."""
    runs, x = [], 2.0 * np.pi / 3.0 * np.arange(3)
    shape = np.cos(x)
    for beta in (-0.5, -0.8):
        claimed = float(rates(mf.USA, beta, 3)[1][1])
        t_end = 0.5 / abs(claimed)
        runs.append(
            Growth(beta, 3, claimed, displaced(interaction(beta), x, shape, t_end, SHIFT) / t_end)
        )
    still = abs(displaced(interaction(-2.0 / 3.0), x, shape, 10.0, SHIFT) / 10.0)
    name = "β = -2/3, three clusters: rate"
    return [
        claim("β = -0.5 and -0.8, three clusters", "λ_1", runs),
        Claim(name, "h'(2π/3) = 0", still, 1e-7, "some tens of δ² = 1e-9", "0", f"{still:.1e}"),
    ]


def grown_most(beta: float) -> int:
    """The degree that grows most in a density that has all degrees up to 2 k_max alike."""
    top, size = 2 * selected(beta), 1e-8
    mu = mf.Density(mf.Circle(4 * top), mf.FourierSeries(cos=[size] * top))
    fastest = float(np.max(mf.theory.growth_rates(mf.SA(beta), 2, top)))
    final = mf.evolve(mu, mf.SA(beta), 1.0 / fastest, 1, rtol=1e-10, atol=1e-16).final
    assert isinstance(final, mf.Density)
    return 1 + int(np.argmax(final.power[1 : top + 1] / mu.power[1 : top + 1]))


def of_densities(quick: bool) -> list[Claim]:
    """Which degree grows, how many clusters that gives, and how these leave."""
    betas = BETAS[:3] if quick else BETAS
    found, exact = [grown_most(beta) for beta in betas], [selected(beta) for beta in betas]
    missed = sum(one != other for one, other in zip(found, exact, strict=True))
    name = f"degree that grows most, at {len(betas)} values of β: how many others than k_max"
    told = ", ".join(map(str, exact)), ", ".join(map(str, found))
    claims = [Claim(name, "argmax k² I_k", missed, 0.0, "a count", *told)]
    for beta in () if quick else (5.0, 20.0, 81.0, 200.0, 1000.0):
        count, one = leaving(beta)
        name = f"β = {beta:g}: clusters that a density forms, less {one.k}"
        claims.append(Claim(name, "argmax k² I_k", abs(count - one.k), 0.0, "a count"))
        name, why = f"β = {beta:g}: rate at which they leave, relative", "displaced by 1e-7"
        told = f"{one.claimed:.6g}", f"{one.found:.6g}"
        claims.append(Claim(name, "λ_m", one.off, 1e-2, why, *told))
    return claims


@cache
def leaving(beta: float) -> tuple[int, Growth]:
    """The clusters of a density with 1e-2 of degree k_max, and a side band that displaces them."""
    k = selected(beta)
    modes = rates(mf.SA, beta, k)[1]
    mode = int(np.argmax(modes))
    cos, sin = np.zeros((2, k + mode))
    cos[k - 1] = 1e-2
    # degree k + m displaces the clusters of degree k in their mode m
    sin[k + mode - 1] = 1e-7
    # 5 of it until there are clusters; then their spreads shrink by e^{-11} or more
    formed = 16.0 / mf.theory.growth_rates(mf.SA(beta), 2, k)[k]
    law = mf.FourierSeries(cos, sin)
    start = mf.FlowMap(law) if beta == BETAS[0] else mf.Particles.quantise(law, 16 * k)
    found = mf.clusters(mf.evolve(start, mf.SA(beta), formed, 1).final, 0.3 / k)
    atoms = mf.Particles(found.centres, found.masses / found.masses.sum())
    times = np.array([1.0, 2.0, 3.0]) / modes[mode]
    sol = mf.evolve(atoms, mf.SA(beta), times[2], times[:2], **TIGHT)
    away = [displacement(cast(mf.Particles, mu), k) for mu in sol.measures[1:]]
    # unequal masses shift the state that they leave: a constant, which differences are free of
    rate = float(np.log((away[2] - away[1]) / (away[1] - away[0])) * modes[mode])
    return len(found), Growth(beta, k, float(modes[mode]), rate)


def displacement(atoms: mf.Particles, k: int) -> float:
    """Largest gap between neighbours less 2π/k."""
    return float(np.max(np.abs(np.diff(np.sort(angles(atoms.points))) - 2.0 * np.pi / k)))


def check(quick: bool) -> list[Claim]:
    """Clusters of tokens, three of them for β < 0, and densities."""
    return [*of_clusters(quick), *of_three(), *of_densities(quick)]


def figure(quick: bool) -> Figure:
    """k_max over β, and the rate at which k_max clusters leave."""
    drawn, (left, right) = panels(2, "Clusters on the circle that form from near uniform, SA")
    marks = np.array(BETAS[:2] if quick else BETAS)
    # some eight places between two switches of k_max, the last of which are 2 % apart
    fine = np.geomspace(4.0, 6000.0, 3000)
    first = [selected(beta) for beta in fine]
    left.loglog(fine, first, color=COLOURS[0], label="argmax $\\gamma_k$")
    left.loglog(fine, np.sqrt(2.0 * fine), **CLAIMED, label="$(2\\beta)^{1/2}$")
    left.plot(marks, [grown_most(b) for b in marks], "o", color=COLOURS[1], label="density runs")
    label(left, "β", "k", "degree that grows most")
    closed = [max(rates(mf.SA, beta, k)[1]) for beta, k in zip(fine, first, strict=True)]
    right.loglog(fine, closed, color=COLOURS[0], lw=0.8, label="largest $\\lambda_m$")
    right.axhline(limit_rate(), **CLAIMED, label="limit where $2\\beta = k^2$, k even")
    found = [max(one.found for one in of_modes(mf.SA, beta)) for beta in marks]
    right.plot(marks, found, "o", color=COLOURS[1], label="runs of k tokens")
    if not quick:
        betas = [5.0, 20.0, 81.0, 200.0, 1000.0]
        of_flows = [leaving(beta)[1].found for beta in betas]
        right.plot(betas, of_flows, "x", color=COLOURS[3], label="clusters of a density")
    right.set_ylim(1e-3, 0.1)
    label(right, "β", "rate", "rate at which k clusters leave")
    return drawn


if __name__ == "__main__":
    main(check)
