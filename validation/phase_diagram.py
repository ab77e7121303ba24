"""The phase diagram of n = 32 uniform tokens over t and β (Figure 3), and the curve (6.12)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import meanfield as mf
from meanfield.integrate import evolve_batch
from validation.claims import Claim, main

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
N, DELTA = 32, 1e-3
DIMS = 2, 8, 32, 128, 512, 1024


def forms(quick: bool) -> list[Claim]:
    """Points and inner products of the same realisations."""
    rng = np.random.default_rng(1)
    claims = []
    for dim in (8, 64) if quick else (2, 8, 64, 512):
        points = rng.normal(size=(4, N, dim))
        points /= np.linalg.norm(points, axis=2, keepdims=True)
        grams = [
            evolve_batch(points, mf.SA(4.0), [2.0, 8.0], form=form, rtol=1e-12, atol=1e-13)
            for form in ("points", "gram")
        ]
        gap = float(np.abs(grams[1] - grams[0]).max())
        name = f"SA, β = 4, d = {dim}: inner products by either form"
        claims.append(Claim(name, "(3.1)", gap, 1e-9, "steps of 1e-12, which may grow"))
    return claims


def arrivals(quick: bool) -> list[Claim]:
    """Half of the pairs have met at t*(β), the nearer the larger d."""
    claims = []
    betas = [0.0, 3.0] if quick else [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    times = np.linspace(4.0, 12.0, 321)
    for dim in (128, 512, 1024):
        ds = mf.studies.phase_diagram(dim, N, betas, 12.0, 64, DELTA, times=times)
        for beta in betas:
            one = ds.sel(beta=beta)
            half = float(np.interp(0.5, one.probability.values, times))
            off = abs(half / float(one.arrival) - 1.0)
            # inner products of mean 0 and variance 1/d raise the mean of e^{βG} by β²/2d
            bound, why = (4.0 + 0.5 * beta**2) / dim, "(4 + β²/2)/d: starts are not orthogonal"
            name = f"d = {dim}, β = {beta:g}: P = 1/2 at t = {half:.3f}, off t* by a share of"
            claims.append(Claim(name, "(6.11), (6.12)", off, bound, why))
    return claims


def jump(quick: bool) -> list[Claim]:
    """β = 0 has t* in closed form, and P rises to 1 around it for any number of tokens."""
    claims = []
    for n in (8, 32) if quick else (8, 32, 128):
        closed = 0.5 * np.log(((n - 1) * (1 - DELTA) + 1) / DELTA)
        times = np.array([0.9, 1.1]) * closed
        ds = mf.studies.phase_diagram(1024, n, [0.0], 1.1 * closed, 16, DELTA, times=times)
        before, after = ds.probability.values[:, 0]
        wrong = max(before, 1.0 - after)
        name = f"β = 0, n = {n}: P at 0.9 t*, or less than 1 at 1.1 t*, t* = {closed:.4f}"
        claims.append(Claim(name, "ln(((n-1)(1-δ)+1)/δ)/2", wrong, 1e-3, "d = 1024"))
    return claims


def rises(quick: bool) -> list[Claim]:
    """Attraction: P hardly ever falls."""
    betas = [0.5, 4.0] if quick else [0.5, 2.0, 4.0, 9.0]
    claims = []
    for dim in (2, 8):
        ds = mf.studies.phase_diagram(dim, N, betas, 30.0, 32 if quick else 128, DELTA)
        fall = float(np.max(-np.diff(ds.probability.values, axis=0)).clip(0.0))
        name, why = f"SA, d = {dim}: largest fall of P", "only tokens between clusters may part"
        claims.append(Claim(name, "attraction", fall, 1e-3, why))
    return claims


def draw() -> None:
    """Six dimensions, as in Figure 3."""
    betas = np.linspace(0.1, 9.0, 48)
    diagrams = [mf.studies.phase_diagram(d, N, betas, 30.0, 256, DELTA, times=150) for d in DIMS]
    mf.plot.save(mf.plot.phase_diagram(diagrams), FIGURES / "phase_diagram.png")


def check(quick: bool) -> list[Claim]:
    """Either form, arrivals, the jump at β = 0; the figure in the full form only."""
    claims = [*forms(quick), *arrivals(quick), *jump(quick), *rises(quick)]
    if not quick:
        draw()
    return claims


if __name__ == "__main__":
    main(check)
