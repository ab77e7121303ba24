"""Theorems 4.3 and 5.1: one cluster for β <= C/n and for β >= C(d) n², and g_β, τ*_β of appendix B.

Theorem 4.3 has an unknown numerical C and Theorem 5.1 an unknown C(d). Run are β = 1/n, and for
n = 3 the least β that the proof in appendix B takes, (n-1) τ*_β = π/2, and twice that, with
g_β(τ*_β) = 0, g_β(τ) = (d-1) cos τ - β sin² τ: random starts under SA and USA, of which none may
be left over when time is up. (Nothing is claimed of β between; more tokens need β at which two
opposite clusters outlive a run.) Time is up long after e^{2β}, the life of two opposite tokens
under SA, in units of e^{-β} under USA. At points that are critical for every β (k tokens opposite
n-k, polygons, simplices, cross polytopes) the largest eigenvalue of Hess E_β is taken from
differences of the velocity of USA: at β = 1/n it is still at least 2(d-1)/(dn), the bound (C.2)
for β = 0. At that large β the points are strict saddles: g_β < 0 across a cut, so that to turn one
side has a positive trace of second derivatives (B.2); where differences resolve it, down to
e^{-2β} = 1e-7, the eigenvalue itself is positive.

τ*_β = arccos((-(d-1) + sqrt((d-1)² + 4β²))/2β) against the root of g_β found by bisection, and
against sqrt((d-1)/β), with whose correction, the factor 1 - (d-1)/(12β), it agrees to order
β^{-2}. What g_β is for: Δ_x e^{β<x,y>} = -β g_β(τ) e^{β cos τ}, τ the angle of x and y, here by
differences.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.configurations import polygon, simplex
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

TOGETHER = 1e-6
# of a Jacobian by differences with steps of 1e-5
DIFFERENCES = 1e-8


def g(beta: float, dim: int, tau: float) -> float:
    """g_β(τ)."""
    return float((dim - 1) * np.cos(tau) - beta * np.sin(tau) ** 2)


def tau_star(beta: float, dim: int) -> float:
    """The root of g_β in closed form, by a cosine written without cancellation."""
    a = dim - 1.0
    return float(np.arccos(2.0 * beta / (a + np.hypot(a, 2.0 * beta))))


def least_beta(n: int, dim: int) -> float:
    """β at which (n-1) τ*_β = π/2."""
    tau = 0.5 * np.pi / (n - 1)
    return float((dim - 1) * np.cos(tau) / np.sin(tau) ** 2)


def roots() -> list[Claim]:
    """τ*_β in closed form, and its asymptotics."""
    gap = second = 0.0
    for dim in (2, 3, 8, 128):
        for beta in np.geomspace(0.1, 1e4, 21) * (dim - 1):
            root = brentq(lambda t, b=beta, d=dim: g(b, d, t), 0.0, 0.5 * np.pi, xtol=1e-15)
            gap = max(gap, abs(tau_star(beta, dim) / root - 1.0))
            small = (dim - 1) / beta
            if small < 0.5:
                ratio = root / np.sqrt(small)
                second = max(second, abs(ratio - 1.0 + small / 12.0) / (small**2 + 1e-12))
    return [
        Claim("τ*_β in closed form, relative", "appendix B", gap, 1e-7, "arccos next to 1"),
        Claim(
            "τ*_β/sqrt((d-1)/β) - 1 + (d-1)/12β, over ((d-1)/β)²",
            "τ* = (1+o(1)) sqrt((d-1)/β)",
            second,
            1.0,
            "the next term",
        ),
    ]


def laplacian() -> list[Claim]:
    """Δ_x e^{β<x,y>} by second differences along d-1 geodesics."""
    worst, step = 0.0, 0.01
    rng = np.random.default_rng(5)
    for dim in (2, 3, 8):
        for beta in (0.5, 4.0):
            x, y = mf.Uniform(dim).sample(2, rng)
            frame = np.linalg.svd(x[None])[2][1:]
            total = 0.0
            for v in frame:
                # order 4
                for k, weight in ((0, -5 / 2), (1, 8 / 3), (2, -1 / 6)):
                    ends = (np.cos(k * step) * x + s * np.sin(k * step) * v for s in (1.0, -1.0))
                    total += weight * sum(np.exp(beta * (e @ y)) for e in ends) / 2.0
            tau = np.arccos(x @ y)
            exact = -beta * g(beta, dim, tau) * np.exp(beta * np.cos(tau))
            worst = max(worst, abs(total / step**2 - exact) * np.exp(-beta) / (dim - 1))
    why = "(β h)⁴/90 β², h = 0.01"
    return [Claim("Δ e^(β<x,y>) + β g_β e^(β cos), over (d-1) e^β", "(B.2)", worst, 1e-6, why)]


@cache
def together(
    kind: type[mf.SA] | type[mf.USA], beta: float, n: int, dim: int, starts: int
) -> tuple[Array, Array]:
    """Times in units of 1 (SA) and e^{-β} (USA), and the share of starts that are one cluster."""
    unit = 1.0 if kind is mf.SA else float(np.exp(-beta))
    times = np.geomspace(1.0, 400.0 * np.exp(2.0 * beta), 40)
    rng = np.random.default_rng(n + 100 * dim)
    points = np.array([mf.Uniform(dim).sample(n, rng) for _ in range(starts)])
    least = evolve_batch(
        points,
        kind(beta),
        times * unit,
        rtol=1e-6,
        atol=1e-9,
        observe=lambda gram: gram.min(axis=(1, 2)),
        settled=lambda row: bool((row >= 1.0 - TOGETHER).all()),
    )
    return times, np.asarray((least >= 1.0 - TOGETHER).mean(axis=1))


def cases(quick: bool) -> list[tuple[str, float, int, int, int]]:
    """Name, β, n, d, starts."""
    found = []
    for n, dim in ((2, 2), (8, 3)) if quick else ((2, 2), (8, 2), (32, 2), (8, 3), (32, 8)):
        found.append(("4.3", 1.0 / n, n, dim, 50 if quick else 500))
    for dim, more in ((2, 1.0),) if quick else ((2, 1.0), (2, 2.0), (3, 1.0)):
        found.append(("5.1", more * least_beta(3, dim), 3, dim, 50 if quick else 500))
    return found


def clustering(quick: bool) -> list[Claim]:
    """Starts that are not one cluster in the end."""
    found = []
    for theorem, beta, n, dim, starts in cases(quick):
        for kind in (mf.SA, mf.USA):
            last = together(kind, beta, n, dim, starts)[1][-1]
            name = f"{kind.__name__}, n = {n}, d = {dim}, β = {beta:.4g}: of {starts} starts left"
            left = float(round((1.0 - last) * starts))
            found.append(Claim(name, f"Theorem {theorem}", left, 0.0, "almost every start"))
    return found


def critical(n: int, dim: int) -> list[Array]:
    """n tokens that are at rest whatever β is, not in one point."""
    e = np.eye(dim)[0]
    found = [np.outer(np.repeat([-1.0, 1.0], [k, n - k]), e) for k in range(1, n // 2 + 1)]
    found.append(np.hstack([polygon(n), np.zeros((n, dim - 2))]))
    if n == dim + 1:
        found.append(simplex(dim))
    if n == 2 * dim:
        found.append(np.concatenate([np.eye(dim), -np.eye(dim)]))
    return found


def largest(points: Array, beta: float) -> float:
    """The largest eigenvalue of Hess E_β in tangent coordinates, over e^β."""
    step, usa = 1e-5, mf.USA(beta)
    frames = [np.linalg.svd(p[None])[2][1:] for p in points]
    rows = []
    for i, frame in enumerate(frames):
        for tangent in frame:
            ends = []
            for sign in (1.0, -1.0):
                moved = points.copy()
                moved[i] = np.cos(step) * points[i] + sign * np.sin(step) * tangent
                ends.append(usa.velocity(mf.Particles(moved), at=moved) * np.exp(-beta))
            change = (ends[0] - ends[1]) / (2.0 * step)
            rows.append(np.concatenate([f @ v for f, v in zip(frames, change, strict=True)]))
    hessian = np.array(rows)
    return float(np.linalg.eigvalsh(0.5 * (hessian + hessian.T))[-1])


def across(points: Array, beta: float) -> float:
    """The largest g_β(θ_ij) between tokens of the first one's place and all others."""
    tau = np.arccos(np.clip(points @ points[0], -1.0, 1.0))
    return max(g(beta, points.shape[1], t) for t in tau[tau > 1e-6])


def saddles(quick: bool) -> list[Claim]:
    """The bound (C.2) at β = 1/n, and strict saddles at the large β."""
    bound = weakest = 0.0
    highest, seen = -np.inf, []
    for n, dim in ((3, 2), (4, 3)) if quick else ((3, 2), (4, 2), (5, 2), (8, 2), (4, 3), (6, 3)):
        beta = least_beta(n, dim)
        for points in critical(n, dim):
            small = largest(points, 1.0 / n) * np.exp(1.0 / n)
            bound = max(bound, 2.0 * (dim - 1) / (dim * n) / small if small > 0.0 else np.inf)
            highest = max(highest, across(points, beta))
            # opposite clusters leave at a rate of order e^{-2β}, which differences must resolve
            seen.append(np.exp(-2.0 * beta) > 10.0 * DIFFERENCES)
            if seen[-1]:
                big = largest(points, beta)
                weakest = max(weakest, DIFFERENCES / big if big > 0.0 else np.inf)
    name = f"{len(seen)} critical points"
    large = "β of (n-1) τ* = π/2"
    return [
        Claim(
            f"{name}, β = 1/n: 2(d-1)/(dn) over the largest eigenvalue of the Hessian",
            "(C.2)",
            bound,
            1.0,
            "a lower bound",
        ),
        Claim(
            f"{name}, {large}: largest g_β across a cut",
            "(B.3)",
            highest,
            0.0,
            "negative: a trace of the Hessian is positive",
        ),
        Claim(
            f"{sum(seen)} of them: 1e-8 over that Hessian's largest eigenvalue",
            "(B.3)",
            weakest,
            1.0,
            "e^(-2β) is more than ten times the error of differences",
        ),
    ]


def check(quick: bool) -> list[Claim]:
    """τ*, g, starts left over, saddles."""
    return [*roots(), *laplacian(), *clustering(quick), *saddles(quick)]


def figure(quick: bool) -> Figure:
    """g_β and τ*_β as in Figure 6, and how random starts become one cluster."""
    drawn, (left, middle, right) = panels(3, "Small and large β: g_β, τ*_β, random starts")
    tau = np.linspace(0.0, 0.5 * np.pi, 200)
    for beta, colour in zip((1.0, 4.0, 16.0), COLOURS, strict=False):
        left.plot(tau, [g(beta, 3, t) for t in tau], color=colour, label=f"β = {beta:g}")
        left.plot(tau_star(beta, 3), 0.0, MARKERS[0], color=colour, ms=5)
    left.axhline(0.0, color="0.7", linewidth=0.6)
    left.set_ylim(-5.0, 2.5)
    betas = np.geomspace(0.1, 1e4, 60)
    for dim, colour in zip((2, 3, 8), COLOURS, strict=False):
        middle.loglog(betas, [tau_star(b, dim) for b in betas], color=colour, label=f"d = {dim}")
        middle.loglog(betas, np.sqrt((dim - 1) / betas), **CLAIMED)
    middle.set_ylim(0.005, 4.0)
    for (theorem, beta, n, dim, starts), colour in zip(cases(quick)[::-2], COLOURS, strict=False):
        times, share = together(mf.SA, beta, n, dim, starts)
        text = f"n = {n}, d = {dim}, β = {beta:.3g} ({theorem})"
        right.semilogx(times, share, color=colour, linewidth=1.0, label=text)
    label(left, "τ", "g_β(τ)", "d = 3; marks: τ*_β")
    label(middle, "β", "τ*_β", "dashed: sqrt((d-1)/β)")
    label(right, "t", "share of starts in one cluster", "SA")
    return drawn


if __name__ == "__main__":
    main(check)
