"""Doubly stochastic attention: scaling, growth, energy balance, agreement of measures (figure)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import lambertw, logsumexp

import meanfield as mf
from validation._inside import AnyMeasure
from validation.claims import Claim, main

Array = NDArray[np.float64]

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "doubly_stochastic.png"
SIZE = 1e-6
WAVES = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])
BUMP = mf.VonMisesFisher([0.48, 0.6, 0.64], 4.0)


def rows(quick: bool) -> list[Claim]:
    """Row sums of the kernel, by positive sums that the iteration has not seen."""
    worst = 0.0
    for beta in [1.0, 25.0] if quick else [0.1, 1.0, 4.0, 9.0, 25.0, 100.0]:
        for measure in _measures():
            balanced = measure.balance(beta)
            some = slice(None, None, max(1, len(balanced.points) // 200))
            log_g, _ = balanced.log_moment(beta * balanced.points[some])
            worst = max(worst, float(np.abs(np.expm1(log_g + balanced.log_u[some])).max()))
    name = "rows of K less 1, densities, flow maps, tokens"
    return [Claim(name, "Remark 3.5", worst, 1e-12, "transforms on S² are right to 3e-13")]


def _measures() -> list[AnyMeasure]:
    tokens = np.random.default_rng(0).normal(size=(60, 5))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return [
        mf.Density(mf.Circle(64), WAVES),
        mf.Density(mf.Sphere(23), BUMP),
        mf.Density(mf.Zonal(3, 47, axis=BUMP.mean), BUMP),
        mf.FlowMap(WAVES),
        mf.FlowMap(BUMP),
        mf.Particles.quantise(BUMP, 900, sums="transforms"),
        mf.Particles(tokens),
    ]


def energies(quick: bool) -> list[Claim]:
    """E_DS of σ and δ, and as minus half the entropic cost of transport to itself."""
    worst = cost = 0.0
    for beta in [1.0, 25.0] if quick else [0.1, 1.0, 4.0, 25.0, 100.0]:
        dynamics = mf.DoublyStochastic(beta)
        for space in mf.Circle(16), mf.Sphere(7), mf.Zonal(5, 15):
            uniform = mf.energy(mf.Density(space, mf.Uniform(space.dim)), dynamics)
            exact = mf.theory.energy_uniform(dynamics, space.dim)
            dirac = mf.energy(mf.Particles(np.eye(space.dim)[:1]), dynamics)
            errors = abs(uniform - exact), abs(dirac - mf.theory.energy_dirac(dynamics))
            worst = max(worst, *errors)
        if beta > 9.0:
            # there the plain iteration of two potentials needs more steps than anybody waits for
            continue
        points = np.random.default_rng(1).normal(size=(40, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        gap = mf.energy(mf.Particles(points), mf.DoublyStochastic(beta)) + 0.5 * _entropic_cost(
            points, beta
        )
        cost = max(cost, abs(gap))
    return [
        Claim("E_DS(σ) - log Λ_0/(2β), E_DS(δ) - 1/2", "ours", worst, 2e-12, "1e-13 over β"),
        Claim(
            "E_DS + half the entropic cost of 40 tokens to themselves",
            "cost -<x,y>, temperature 1/β",
            cost,
            1e-13,
            "left by 3000 steps of the plain iteration",
        ),
    ]


def _entropic_cost(points: Array, beta: float) -> float:
    """min ∫ -<x,y> dπ + KL(π, mu ⊗ mu)/β, by Sinkhorn's iteration with two potentials."""
    n = len(points)
    scores = beta * points @ points.T
    rows_of, columns = np.zeros(n), np.zeros(n)
    for _ in range(3000):
        rows_of = np.log(n) - logsumexp(scores + columns, axis=1)
        columns = np.log(n) - logsumexp(scores.T + rows_of, axis=1)
    # the dual functional, whose error is of second order in that of the potentials
    return float(rows_of.mean() + columns.mean()) / beta


def growth(quick: bool) -> list[Claim]:
    """Runs from 1 + 1e-6 Y_k against γ_k, and where the largest γ_k tends."""
    worst, degrees = 0.0, (2,) if quick else range(1, 6)
    spaces: list[mf.Circle | mf.Sphere | mf.Zonal] = [mf.Circle(48), mf.Sphere(15), mf.Zonal(5, 23)]
    for space in spaces:
        for sign in (1, -1):
            dynamics = mf.DoublyStochastic(3.0 * np.sqrt(space.dim), sign=sign)
            rates = mf.theory.growth_rates(dynamics, space.dim, 5)
            for k in degrees:
                mu = mf.Density(space, mf.ZonalSeries(space.dim, [0.0] * (k - 1) + [SIZE]))
                t_end = 0.3 / abs(rates[k])
                sol = mf.evolve(mu, dynamics, t_end, 1, rtol=1e-10, atol=1e-15)
                grown = np.log(sol.final.power[k] / mu.power[k]) / (2 * t_end)
                worst = max(worst, float(abs(grown / rates[k] - 1)))
    beta = 1e6
    rates = mf.theory.growth_rates(mf.DoublyStochastic(beta), 2, 4000)
    half = mf.theory.growth_rates(mf.SA(beta), 2, 3)[3] / rates[3]
    limit = 2.0 * float(lambertw(np.exp(-1.0)).real)
    place = float(np.argmax(rates)) ** 2 / beta
    return [
        Claim(
            f"circle, S², d = 5: rate against γ_k, k = {degrees[0]} … {degrees[-1]}",
            "(k(k+d-2)/β) λ_k/(1+λ_k)",
            worst,
            1e-5,
            "the next term is of order 1e-6",
        ),
        Claim(
            f"β = 1e6: max γ_k = {rates.max():.6f} less 2 W(1/e) = {limit:.6f}",
            "λ_k → e^{-k²/(2β)}",
            float(abs(rates.max() - limit)),
            1e-5,
            "1/β, and k is an integer",
        ),
        Claim(
            f"β = 1e6: k²/β = {place:.4f} there, less 2.556929",
            "2 (1 + W(1/e))",
            abs(place - 2.0 - limit),
            3.3e-3,
            "k is an integer: 2k/β",
        ),
        Claim("β = 1e6: γ_3 of SA over γ_3, less 2", "λ_k → 1", abs(half - 2.0), 1e-5, "9/β"),
    ]


def balances(quick: bool) -> list[Claim]:
    """E_DS gained, and ± ∫∫ |X|² dmu dt; three representations of one problem."""
    worst = apart = 0.0
    for beta in [4.0] if quick else [1.0, 4.0, 9.0]:
        for sign in (1, -1):
            starts: list[AnyMeasure] = [
                mf.Density(mf.Circle(128), WAVES),
                mf.FlowMap(WAVES),
                mf.Particles.quantise(WAVES, 400),
            ]
            dynamics = mf.DoublyStochastic(beta, sign=sign)
            sols = [mf.evolve(mu, dynamics, 1.0, 2, rtol=1e-11) for mu in starts]
            worst = max(worst, *(_gap(sol) for sol in sols))
            values = np.array([sol.dataset.energy.values for sol in sols])
            apart = max(apart, float(np.ptp(values, axis=0).max()))
    sphere: list[AnyMeasure] = [mf.Density(mf.Sphere(31), BUMP), mf.FlowMap(BUMP)]
    on_s2 = [mf.evolve(mu, mf.DoublyStochastic(4.0), 0.25 if quick else 0.5, 2) for mu in sphere]
    worst = max(worst, *(_gap(sol) for sol in on_s2))
    values = np.array([sol.dataset.energy.values for sol in on_s2])
    return [
        Claim(
            "E_DS(t) - E_DS(0) - work, densities, flow maps, tokens",
            "dE_DS/dt = ± ∫|X|² dmu",
            worst,
            1e-10,
            "rtol 1e-9",
        ),
        Claim(
            "circle: E_DS of series, flow map, 400 tokens", "same law", apart, 1e-11, "rtol 1e-11"
        ),
        Claim(
            "S²: E_DS of series and flow map",
            "same law",
            float(np.ptp(values, axis=0).max()),
            1e-10,
            "rtol 1e-9",
        ),
    ]


def _gap(sol: mf.Solution) -> float:
    data = sol.dataset
    gained = data.energy.values - float(data.energy[0]) - data.work.values
    return float(np.abs(gained).max())


def check(quick: bool) -> list[Claim]:
    """Scaling, energies, growth, balance; the figure in the full form only."""
    claims = [*rows(quick), *energies(quick), *growth(quick), *balances(quick)]
    if not quick:
        draw().savefig(FIGURE, dpi=150)
    return claims


def draw(beta: float = 25.0) -> Figure:
    """γ_k of SA and of doubly stochastic attention; both energies on their way from near σ to δ."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    k = np.arange(21)
    law = mf.FourierSeries(cos=[0.02, 0.01, 0.02, 0.01], sin=[0.01, 0.02, 0.01, 0.02])
    for kind, colour in (mf.SA, "#0072b2"), (mf.DoublyStochastic, "#d55e00"):
        dynamics = kind(beta)
        rates = mf.theory.growth_rates(dynamics, 2, 20)
        left.plot(k, rates, "o-", color=colour, markersize=3, linewidth=1, label=dynamics.name)
        sol = mf.evolve(mf.FlowMap(law, tol=1e-9), dynamics, 30.0, 60)
        low, high = mf.theory.energy_uniform(dynamics, 2), mf.theory.energy_dirac(dynamics)
        right.plot(sol.t, (sol.dataset.energy - low) / (high - low), color=colour, linewidth=1.2)
    left.axhline(2.0 * lambertw(np.exp(-1.0)).real, color="0.6", linestyle="--", linewidth=0.8)
    left.annotate("2 W(1/e)", (20.4, 0.565), ha="right", fontsize=8, color="0.4")
    left.set_xticks(range(0, 21, 4))
    left.set(xlabel="degree k", title="growth rate γ_k at the uniform measure")
    left.legend(frameon=False, fontsize=8, loc="upper right")
    right.set(xlabel="time t", title="(E - E(σ))/(E(δ) - E(σ)), SA: E_β, else E_DS")
    for ax in (left, right):
        ax.title.set_fontsize(9)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main(check)
