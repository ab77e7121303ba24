"""Section 7, the circle: (7.1) to (7.5), what USA conserves, two and k clusters, β = -2/3.

The kernel h_β = e^{β cos θ} has the Fourier coefficients I_k(β), so that USA (7.1) is (7.5) with
h = e^{β cos} sin = (2/β) Σ k I_k sin k·, and X = ∂_θ(h_β * ν)/β (USA), ∂_θ log(h_β * ν)/β (SA).
Measured: coefficients by the trapezoidal rule, which converges faster than any power; velocities
of tokens against plain sums, of densities against Bessel coefficients; n ∂E/∂θ_i of (7.3) and
(7.4) by differences against the velocity.

Conserved: the mean of the lifted angles by USA, since h is odd; all cross ratios at β = 0, where
the flow is by Möbius maps. Each is seen to change where it should, or the test could not fail.

Two clusters follow one equation (see `circle_clusters`): runs of two atoms end where the integral
of dθ/θ' is the time; for USA, and for SA with equal masses, that integral is also written in
exponential integrals. k equal clusters at equal distances leave, in the Fourier mode m of their
displacements, at λ_m = -(1/k) Σ_j h'(2πj/k) (1 - cos(2πmj/k)), h' = e^{β cos x} (cos x - β sin² x),
and tokens of one cluster part at -(1/k) Σ_j h'(2πj/k); SA: over (1/k) Σ_j e^{β cos(2πj/k)}.
Displacements of 1e-6 are run, so rates are right to about 1e-6. Three clusters are stable for
β < -2/3 and not above: where λ_1 changes sign, and on both sides of it in runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import iv

import meanfield as mf
from validation._inside import circle_points
from validation.circle_clusters import (
    TIGHT,
    Escape,
    closed_time,
    energy,
    escape,
    interaction,
    largest_rate,
    lifted,
    pair_run,
    pair_time,
    rates,
    speeds,
    usa_as_interaction,
)
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

FOUND = "claimed", "found"
# what is less is drawn there
FLOOR = 1e-17
# of an equation linear in it, the next term; the same again for what modes of 2m and 3m give back
LINEAR = 1e-5


def series(quick: bool) -> list[Claim]:
    """Fourier coefficients of h_β and of h, and those that `usa_as_interaction` uses."""
    betas = [0.5, 4.0] if quick else [0.1, 0.5, 1.0, 4.0, 9.0, 25.0, 100.0]
    off = other = 0.0
    for beta in betas:
        theta = 2.0 * np.pi * np.arange(512) / 512
        kernel = np.exp(beta * (np.cos(theta) - 1.0))
        k = np.arange(80)
        scale = np.exp(-beta)
        bessel = scale * iv(k, beta)
        off = max(off, float(np.abs(np.fft.rfft(kernel).real[:80] / 512 - bessel).max()))
        sines = -2.0 * np.fft.rfft(kernel * np.sin(theta)).imag[:80] / 512
        usa = np.zeros(80)
        given = usa_as_interaction(beta).sin[:79]
        usa[1 : len(given) + 1] = scale * np.array(given)
        claimed = 2.0 / beta * k * bessel
        other = max(other, float(max(np.abs(sines - claimed).max(), np.abs(usa - claimed).max())))
    name = f"β = {betas[0]:g} … {betas[-1]:g}: Fourier coefficients of"
    why = "rounding, in units of e^β"
    return [
        Claim(f"{name} h_β less I_k(β)", "h_β = Σ I_k e^{ikθ}", off, 1e-14, why),
        Claim(f"{name} e^(β cos) sin less (2/β) k I_k(β)", "(7.1)", other, 1e-13, why),
    ]


def fields(quick: bool) -> list[Claim]:
    """Velocities of tokens by plain sums, of densities by Bessel coefficients."""
    rng = np.random.default_rng(7)
    tokens = density = 0.0
    law = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.2, 0.3])
    theta = rng.uniform(0.0, 2.0 * np.pi, 24)
    grid = rng.uniform(0.0, 2.0 * np.pi, 50)
    moments = np.array([1.0, 0.25 - 0.1j, 0.05 - 0.15j])
    for beta in [0.5, 4.0] if quick else [0.5, 1.0, 4.0, 9.0, 25.0]:
        gap = theta[:, None] - theta
        exact = -np.mean(np.exp(beta * np.cos(gap)) * np.sin(gap), axis=1)
        start = mf.Particles(circle_points(theta))
        for one in (mf.USA(beta), usa_as_interaction(beta)):
            found = speeds(theta, one.velocity(start, at=start.points))
            tokens = max(tokens, float(np.abs(found - exact).max() * np.exp(-beta)))
        k = np.arange(3)
        terms = np.exp(1j * np.outer(grid, k)) * moments * iv(k, beta) * np.where(k, 2.0, 1.0)
        potential, slope = terms.real.sum(axis=1), (1j * k * terms).real.sum(axis=1)
        mu = mf.Density(mf.Circle(32), law)
        for kind, x in ((mf.USA, slope / beta), (mf.SA, slope / potential / beta)):
            found = speeds(grid, kind(beta).velocity(mu, at=circle_points(grid)))
            unit = np.exp(beta) if kind is mf.USA else 1.0
            density = max(density, float(np.abs(found - x).max() / unit))
    return [
        Claim(
            "24 tokens: USA and its interaction less plain sums",
            "(7.1), (7.5)",
            tokens,
            1e-13,
            "rounding, in units of e^β",
        ),
        Claim(
            "density: X less ∂(h_β * ν)/β, ∂ log(h_β * ν)/β",
            "section 7",
            density,
            1e-12,
            "rounding, in units of e^β (USA) and 1 (SA)",
        ),
    ]


def difference(energy: Callable[[Array], float], angles: Array) -> Array:
    """∂/∂θ_i by differences of order 6, steps of 0.02."""
    weights, step = np.array([3 / 4, -3 / 20, 1 / 60]), 0.02
    found = np.zeros(len(angles))
    for i in range(len(angles)):
        for k, weight in enumerate(weights, start=1):
            shift = np.zeros(len(angles))
            shift[i] = k * step
            found[i] += weight * (energy(angles + shift) - energy(angles - shift)) / step
    return found


def gradients() -> list[Claim]:
    """θ' = n ∂E/∂θ_i for (7.4), and n ∂F/∂θ_i for (7.3)."""
    n, coupling = 9, 1.7
    theta = np.random.default_rng(1).uniform(0.0, 2.0 * np.pi, n)
    start = mf.Particles(circle_points(theta))
    worst = 0.0
    for beta in (0.0, 0.5, 2.0, 4.0):
        slope = difference(lambda a, b=beta: mf.energy(mf.Particles(circle_points(a)), b), theta)
        exact = speeds(theta, mf.USA(beta).velocity(start, at=start.points))
        worst = max(worst, float(np.abs(n * slope - exact).max() * np.exp(-beta)))
    kuramoto = mf.Kuramoto(coupling)
    slope = difference(lambda a: float(coupling / 2.0 * np.mean(np.cos(a[:, None] - a))), theta)
    exact = speeds(theta, kuramoto.velocity(start, at=start.points))
    off = float(np.abs(n * slope - exact).max())
    why = "(β h)⁶/140 or so, h = 0.02"
    return [
        Claim("θ' less n ∂E_β/∂θ_i, β = 0 … 4", "(7.4)", worst, 1e-8, why),
        Claim("Kuramoto: θ' less n ∂F/∂θ_i", "(7.3)", off, 1e-11, "h⁶/140, h = 0.02"),
    ]


def mean_angle(dynamics: mf.SA | mf.USA) -> tuple[Array, Array]:
    """Times, and how far the mean of 12 lifted angles has moved."""
    theta = np.random.default_rng(2).uniform(0.0, 2.0 * np.pi, 12)
    unit = 1.0 if isinstance(dynamics, mf.SA) else float(np.exp(-dynamics.beta))
    sol = mf.evolve(mf.Particles(circle_points(theta)), dynamics, 6.0 * unit, 60, **TIGHT)
    mean = lifted(sol).mean(axis=1)
    return sol.t / unit, np.asarray(mean - mean[0])


def cross_ratio(beta: float) -> tuple[Array, Array]:
    """Times, and the change of a cross ratio of 4 of 6 tokens, as a share."""
    theta = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, 6)
    sol = mf.evolve(mf.Particles(circle_points(theta)), mf.SA(beta), 3.0, 30, **TIGHT)
    z = np.exp(1j * lifted(sol)[:, :4])
    ratio = (z[:, 0] - z[:, 2]) * (z[:, 1] - z[:, 3]) / ((z[:, 0] - z[:, 3]) * (z[:, 1] - z[:, 2]))
    return np.asarray(sol.t), np.abs(ratio / ratio[0] - 1.0)


def conserved(quick: bool) -> list[Claim]:
    """The mean angle by USA and not by SA, cross ratios at β = 0 and not at 1."""
    betas = [4.0] if quick else [0.5, 1.0, 4.0, 9.0]
    drift = max(float(np.abs(mean_angle(mf.USA(beta))[1]).max()) for beta in betas)
    moved = float(np.abs(mean_angle(mf.SA(4.0))[1]).max())
    kept, changed = (float(cross_ratio(beta)[1].max()) for beta in (0.0, 1.0))
    steps = "steps of 1e-12"
    lost = "else the claim above could not fail"
    return [
        Claim("USA: drift of the mean lifted angle", "(7.1)", drift, 1e-10, steps),
        Claim("SA: 1e-3 over that drift", "(7.1)", 1e-3 / moved, 1.0, lost, "", f"{moved:.3g}"),
        Claim("β = 0: change of a cross ratio", "(4.1)", kept, 1e-9, f"{steps}, distances of e^-3"),
        Claim(
            "β = 1: 1e-3 over that change", "(4.1)", 1e-3 / changed, 1.0, lost, "", f"{changed:.3g}"
        ),
    ]


def two(quick: bool) -> list[Claim]:
    """Two atoms: the time that the angle of a run belongs to, less the time of the run."""
    found, closed = 0.0, 0.0
    betas = [2.0] if quick else [0.5, 2.0, 5.0]
    count = 0
    for beta in betas:
        for kind in (mf.SA, mf.USA):
            for mass in (0.5, 0.2):
                dynamics = kind(beta)
                t, theta = pair_run(dynamics, mass)
                for i in (len(t) // 2, -1):
                    time = pair_time(dynamics, mass, theta[0], theta[i])
                    found, count = max(found, abs(time / t[i] - 1.0)), count + 1
                    if kind is mf.USA or mass == 0.5:
                        exact = closed_time(dynamics, theta[0], theta[i])
                        closed = max(closed, abs(exact / time - 1.0))
    return [
        Claim(
            f"two clusters, a = 1/2 and 1/5, {count} times: ∫dθ/θ' over t, less 1",
            "(2.6), (7.1)",
            found,
            1e-9,
            "steps of 1e-12, slow at first",
        ),
        Claim(
            "that integral in exponential integrals, relative",
            "(7.1)",
            closed,
            1e-10,
            "differences of nearly equal numbers",
        ),
    ]


@cache
def escapes(quick: bool) -> list[Escape]:
    """k = 2 … 7, all modes, several β, USA and SA, and negative β."""
    found = []
    for k in (3, 4) if quick else range(2, 8):
        for mode in range(k // 2 + 1):
            for beta in [2.0] if quick else [0.5, 2.0, 6.0]:
                found += [escape(beta, k, mode, kind(beta)) for kind in (mf.USA, mf.SA)]
            for beta in [-2.0] if quick else [-0.5, -2.0, -5.0]:
                found.append(escape(beta, k, mode, interaction(beta)))
    return found


def many(quick: bool) -> list[Claim]:
    """Escape rates of k clusters, their energy, and where they become stable."""
    runs = escapes(quick)
    worst = max(runs, key=lambda one: one.off)
    off = 0.0
    for k in range(1, 9):
        for beta in (0.5, 4.0, 9.0):
            x = 2.0 * np.pi * np.arange(k) / k
            found_there = mf.energy(mf.Particles(circle_points(x)), beta)
            off = max(off, abs(found_there / energy(beta, k) - 1.0))
    found = [
        Claim(
            f"k clusters, {len(runs)} runs: rate, over Σ |h'|/k",
            "λ_m",
            worst.off,
            LINEAR,
            "displaced by 1e-6",
            f"{worst.claimed:.8g}, k = {worst.k}, m = {worst.mode}",
            f"{worst.found:.8g}",
        ),
        Claim("k = 1 … 8: E_β less (I_0 + 2 Σ I_mk)/2β, relative", "(7.4)", off, 1e-13, "rounding"),
    ]
    root = float(brentq(lambda beta: rates(mf.USA, beta, 3)[1][1], -1.0, -0.1, xtol=1e-15))
    found.append(
        Claim(
            "k = 3: β at which λ_1 = 0, less -2/3",
            "h'(2π/3) = 0",
            abs(root + 2 / 3),
            1e-14,
            "rounding",
            "-2/3",
            f"{root:.15f}",
        )
    )
    return found + thresholds()


def thresholds() -> list[Claim]:
    """Stable and unstable on both sides of the threshold: by rates, and for k = 3 in runs."""
    found = []
    below, above = (escape(beta, 3, 1, interaction(beta)).found for beta in (-0.75, -0.6))
    name = "k = 3: decay at β = -0.75 and growth at β = -0.6 in runs"
    wrong = float(not (below < 0.0 < above))
    told = f"{below:.6f}, {above:.6f}"
    found.append(Claim(name, "β = -2/3", wrong, 0.0, "a sign", "one < 0 < the other", told))
    for k, stable, unstable in ((5, -2.11, -2.10), (7, -4.44, -4.43)):
        signs = largest_rate(stable, k) < 0.0 < largest_rate(unstable, k)
        name = f"k = {k}: stable at β = {stable}, not at {unstable}: missed"
        found.append(Claim(name, "λ_m < 0 for all m", float(not signs), 0.0, "a sign"))
    scan = np.arange(-40.0, 0.0, 0.1)
    even = sum(largest_rate(float(beta), k) < 0.0 for beta in scan for k in (4, 6, 8))
    found.append(
        Claim("k = 4, 6, 8: stable β in [-40, 0)", "λ_m", float(even), 0.0, "steps of 0.1")
    )
    return found


def check(quick: bool) -> list[Claim]:
    """Series, velocities, gradients, invariants, two clusters, k clusters."""
    return [
        *series(quick),
        *fields(quick),
        *gradients(),
        *conserved(quick),
        *two(quick),
        *many(quick),
    ]


def figure(quick: bool) -> Figure:
    """Angles of two clusters, escape rates, the threshold, what is conserved."""
    drawn, (close, leaving, sign, kept) = panels(4, "Section 7: tokens on the circle")
    beta = 2.0
    for (kind, mass), colour in zip(
        ((mf.SA, 0.5), (mf.SA, 0.2), (mf.USA, 0.5), (mf.USA, 0.2)), COLOURS, strict=False
    ):
        dynamics = kind(beta)
        t, theta = pair_run(dynamics, mass)
        unit = 1.0 if kind is mf.SA else np.exp(beta)
        fine = np.linspace(theta[0], theta[-1], 60)
        claimed = [pair_time(dynamics, mass, fine[0], end) for end in fine]
        name = f"{kind.__name__}, a = {mass:g}"
        close.plot(np.array(claimed) * unit, fine, color=colour, linewidth=0.8)
        mark = MARKERS[0] if mass == 0.5 else MARKERS[4]
        close.plot(t[::4] * unit, theta[::4], mark, color=colour, ms=4, label=name)
    for k, colour, marker in zip((3, 4), COLOURS, MARKERS, strict=False):
        some = [one for one in escapes(quick) if one.k == k]
        claimed, found = ([getattr(one, what) / one.unit for one in some] for what in FOUND)
        leaving.plot(claimed, found, marker, color=colour, ms=4, label=f"k = {k}")
    leaving.plot([-2, 2], [-2, 2], **CLAIMED, zorder=0, label="claimed")
    betas = np.linspace(-1.2, -0.2, 21)
    sign.plot(
        betas, [rates(mf.USA, float(b), 3)[1][1] for b in betas], color=COLOURS[0], label="λ_1"
    )
    run = betas[::4]
    found = [escape(float(b), 3, 1, interaction(float(b))).found for b in run]
    sign.plot(run, found, MARKERS[0], color=COLOURS[1], ms=4, label="run")
    sign.axhline(0.0, color="0.7", linewidth=0.6)
    sign.axvline(-2.0 / 3.0, **CLAIMED, label="β = -2/3")
    for dynamics, colour in ((mf.USA(4.0), COLOURS[0]), (mf.SA(4.0), COLOURS[1])):
        t, moved = mean_angle(dynamics)
        change = np.maximum(np.abs(moved), FLOOR)
        kept.semilogy(t[1:], change[1:], color=colour, label=f"mean angle, {dynamics.name}, β = 4")
    for one, colour in ((0.0, COLOURS[2]), (1.0, COLOURS[3])):
        t, moved = cross_ratio(one)
        change = np.maximum(moved, FLOOR)
        kept.semilogy(t[1:], change[1:], color=colour, label=f"cross ratio, β = {one:g}")
    kept.set_ylim(0.3 * FLOOR, 1e4)
    label(close, "t (SA), e^β t (USA)", "angle", "two clusters, β = 2: lines claimed")
    label(leaving, "rate claimed, over Σ |h'|/k", "rate run, the same", "k clusters leave")
    label(sign, "β", "rate", "three clusters")
    label(kept, "t (SA), e^β t (USA)", "change", "conserved, and not")
    return drawn


if __name__ == "__main__":
    main(check)
