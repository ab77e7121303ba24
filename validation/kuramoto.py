"""Kuramoto's oscillators: Ott–Antonsen, critical coupling, attention as an interaction (figure)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import iv

import meanfield as mf
from validation.circle_clusters import usa_as_interaction
from validation.claims import Claim, main

Array = NDArray[np.float64]

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
START, WIDTH = 0.4, 0.5
# the Poisson kernel of the Ott–Antonsen manifold
POISSON = mf.FourierSeries(cos=2.0 * START ** np.arange(1, 45))
LAW = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.0, 0.3])
TIGHT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-14}
STEPS = "steps of 1e-11"


def _order(sol: mf.Solution) -> Array:
    return np.asarray(sol.dataset.order_parameter.values)


def _starts(law: mf.FourierSeries) -> dict[str, Any]:
    return {
        "density": mf.Density(mf.Circle(128), law, tail_tol=1e-11),
        "flow map": mf.FlowMap(law),
        "240 tokens": mf.Particles.quantise(law, 240),
    }


def _lorentzian(law: mf.FourierSeries) -> mf.OscillatorDensity:
    return mf.OscillatorDensity(mf.Circle(64), law, [0.0], widths=[WIDTH])


def closed_solution() -> list[Claim]:
    """r(t) of identical oscillators on three measures, and of Lorentzian frequencies."""
    claims = []
    for name, start in _starts(POISSON).items():
        sol = mf.evolve(start, mf.Kuramoto(1.5), 2.0, 8, rtol=1e-11)
        gap = float(np.max(np.abs(_order(sol) - mf.theory.ott_antonsen(1.5, START, sol.t))))
        claims.append(Claim(f"identical, {name}: error of r(t)", "Ott–Antonsen", gap, 1e-8, STEPS))
    for coupling in (0.6, 1.0, 3.0):
        sol = mf.evolve(_lorentzian(POISSON), mf.Kuramoto(coupling), 8.0, 8, atol=1e-11)
        exact = mf.theory.ott_antonsen(coupling, START, sol.t, width=WIDTH)
        gap = float(np.max(np.abs(_order(sol) - exact)))
        name = f"Lorentzian, K = {coupling:g} K_c: error of r(t)"
        claims.append(Claim(name, "Ott–Antonsen", gap, 1e-8, "steps of 1e-9"))
    return claims


def attention() -> list[Claim]:
    """Kuramoto with K = 1 is (SA) at β = 0; Bessel coefficients are (USA)."""
    claims = []
    z = np.array([[4.0, 0.0], [0.0, 4.0], [-2.4, 3.2]])
    for name, start in _starts(LAW).items():
        one, other = (mf.evolve(start, d, 1.0, 2, **TIGHT) for d in (mf.Kuramoto(1.0), mf.SA(0.0)))
        gap = float(np.max(np.abs(one.final.mean() - other.final.mean())))
        claims.append(Claim(f"K = 1 is SA at β = 0, {name}: mean", "(7.2)", gap, 1e-12, "1e-12"))
        pair = (usa_as_interaction(4.0), mf.USA(4.0))
        one, other = (mf.evolve(start, d, 0.5 * np.exp(-4.0), 2, **TIGHT) for d in pair)
        gap = float(np.max(np.abs(one.final.log_moment(z)[0] - other.final.log_moment(z)[0])))
        claims.append(Claim(f"b_k = k I_k is USA, {name}: log G", "(7.5)", gap, 1e-12, "1e-12"))
    return claims


def rates() -> list[Claim]:
    """Growth and decay of r = 1e-4 on both sides of K_c, with and without noise."""
    claims = []
    for noise in (0.0, 0.2):
        critical = mf.theory.lorentzian_critical_coupling(WIDTH, noise=noise)
        for side in (0.8, 1.2):
            start = _lorentzian(mf.FourierSeries(cos=[2e-4]))
            sol = mf.evolve(start, mf.Kuramoto(side * critical, noise=noise), 1.0, 1)
            found = float(np.log(_order(sol)[1] / _order(sol)[0]))
            rate = 0.5 * side * critical - WIDTH - noise
            claims.append(
                Claim(
                    f"K = {side:g} K_c, τ = {noise:g}: rate less {rate:g}",
                    "K/2 - γ - τ",
                    abs(found - rate),
                    1e-7,
                    "r² = 1e-8",
                )
            )
    return claims


def stationary() -> list[Claim]:
    """Identical oscillators with noise come to r = I_1(Kr/τ)/I_0(Kr/τ)."""
    sol = mf.evolve(mf.Density(mf.Circle(64), LAW), mf.Kuramoto(1.0, noise=0.2), 150.0, 1)
    exact = brentq(lambda r: iv(1, r / 0.2) / iv(0, r / 0.2) - r, 0.05, 1.0, xtol=1e-14)
    gap = abs(float(_order(sol)[-1]) - exact)
    return [Claim("K = 1, τ = 0.2: r at t = 150", "self-consistent", gap, 1e-9, "steps of 1e-9")]


def long_times(quick: bool) -> list[Claim]:
    """Tokens with quantiles of the Lorentzian against sqrt(1 - K_c/K), by their number."""
    numbers = [50, 100] if quick else [50, 100, 200, 400]
    claims, rows = [], {}
    for coupling in (1.5, 2.0, 4.0):
        limit = float(np.sqrt(1.0 - 2.0 * WIDTH / coupling))
        errors, spreads = [], []
        for n in numbers:
            found = _settled(coupling, limit, n)
            errors.append(n * abs(float(found.mean()) - limit))
            spreads.append(float(np.sqrt(np.mean((found - limit) ** 2))))
        rows[coupling] = spreads
        name = f"K = {coupling:g} K_c: n times error of mean r, n to {numbers[-1]}"
        claims.append(Claim(name, "sqrt(1 - K_c/K)", max(errors), 1.0, "of order 1/n"))
        name = f"K = {coupling:g} K_c: n^(1/2) times rms of r(t) - {limit:.4f}"
        largest = float(np.max(np.sqrt(numbers) * spreads))
        claims.append(Claim(name, "sqrt(1 - K_c/K)", largest, 0.8, "of order n^(-1/2)"))
    if not quick:
        _draw(numbers, rows)
    return claims


def _settled(coupling: float, r: float, n: int) -> Array:
    """r(t) of n tokens for 30 units of time after 15."""
    levels = np.mod(np.arange(n) * 0.5 * (np.sqrt(5.0) - 1.0), 1.0)
    angles = 2.0 * np.arctan((1.0 - r) / (1.0 + r) * np.tan(np.pi * levels))
    tokens = mf.Oscillators(angles, mf.lorentzian_frequencies(WIDTH, n)[0])
    times = np.linspace(15.0, 45.0, 301)
    return _order(mf.evolve(tokens, mf.Kuramoto(coupling), 45.0, times, rtol=1e-6))[1:]


def _draw(numbers: list[int], rows: dict[float, list[float]]) -> None:
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    fine = np.linspace(0.0, 4.0, 400)
    left.plot(fine, np.sqrt(np.maximum(1.0 - 1.0 / np.maximum(fine, 1e-3), 0.0)), color="0.6")
    couplings = [0.25, 0.6, 0.9, 1.2, 1.6, 2.2, 3.0, 4.0]
    for n, colour in ((100, "#56b4e9"), (400, "#0072b2")):
        found = [_settled(k, float(np.sqrt(max(1.0 - 1.0 / k, 0.01))), n) for k in couplings]
        means, spreads = [r.mean() for r in found], [r.std() for r in found]
        label = f"{n} tokens"
        left.errorbar(couplings, means, spreads, fmt="o", ms=3, color=colour, label=label)
    densities = [
        _order(mf.evolve(_lorentzian(POISSON), mf.Kuramoto(k), 80.0, 1, rtol=1e-7))[-1]
        for k in couplings
    ]
    left.plot(couplings, densities, "x", color="#d55e00", label="density, t = 80")
    left.set_xlim(0.0, 4.1)
    left.set_xlabel("$K / K_c$")
    left.set_ylabel("order parameter r")
    left.legend(frameon=False, fontsize=8)
    colours = ("#56b4e9", "#0072b2", "#009e73")
    for (coupling, spreads), colour in zip(rows.items(), colours, strict=True):
        right.loglog(numbers, spreads, "o-", ms=3, color=colour, label=f"$K = {coupling:g}\\,K_c$")
    right.loglog(numbers, 0.4 / np.sqrt(numbers), color="0.6", label="$n^{-1/2}$")
    right.set_xlabel("tokens n")
    right.set_ylabel(r"rms of $r(t) - \sqrt{1 - K_c/K}$")
    right.set_xticks(numbers, labels=[str(n) for n in numbers])
    right.set_yticks([0.01, 0.02, 0.04, 0.08], labels=["0.01", "0.02", "0.04", "0.08"])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=8)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Kuramoto, Lorentzian frequencies", fontsize=10)
    figure.savefig(FIGURES / "kuramoto.png", dpi=160)


def check(quick: bool) -> list[Claim]:
    """Closed solutions, rates, stationary states and long times; the figure in the full form."""
    return [*closed_solution(), *attention(), *rates(), *stationary(), *long_times(quick)]


if __name__ == "__main__":
    main(check)
