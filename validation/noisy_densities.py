"""Densities with noise: order, stationary states, the first-order transition, tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ive

import meanfield as mf
from validation._inside import NoisyDensitySystem, Settings
from validation.claims import Claim, main

Array = NDArray[np.float64]
REFERENCE = Path(__file__).parents[1] / "tests" / "data" / "reference_values.json"
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


def starts() -> dict[str, mf.Density]:
    """One start on each space."""
    return {
        "circle": mf.Density(mf.Circle(64), CIRCLE),
        "S²": mf.Density(mf.Sphere(31), mf.ZonalSeries(3, [0.5, 0.2], axis=[0.48, 0.6, 0.64])),
        "zonal, d = 7": mf.Density(mf.Zonal(7, 31), mf.ZonalSeries(7, [0.5, 0.2])),
    }


def _stepped(start: mf.Density, dynamics: mf.SA | mf.USA, count: int) -> Array:
    """The state at t = 1 after equal steps."""
    loose = Settings(1e9, 1e9)
    steps = NoisyDensitySystem(start, dynamics, loose).stepper(1.0)
    while steps.status == "running":
        steps.h_abs = 1.0 / count
        steps.step()
    return np.asarray(steps.y)


def order() -> list[Claim]:
    """Order 4 in equal steps, by Richardson's ratio."""
    found = []
    for name, start in starts().items():
        for dynamics in (mf.SA(2.0, noise=0.1), mf.USA(2.0, noise=0.3)):
            coarse, middle, fine = (_stepped(start, dynamics, n) for n in (10, 20, 40))
            ratio = np.linalg.norm(coarse - middle) / np.linalg.norm(middle - fine)
            found.append(
                Claim(
                    f"{name}, {dynamics.name}: order in time, {np.log2(ratio):.2f}, less 4",
                    "∂_t f = -div(f X) + τ Δf",
                    abs(float(np.log2(ratio)) - 4.0),
                    0.2,
                    "Richardson's ratio of 10, 20 and 40 steps, not yet in its limit",
                )
            )
    return found


def stationary(quick: bool) -> list[Claim]:
    """Limits of runs on the circle against fixed points computed apart, and noisy Kuramoto."""
    limits = (
        (mf.USA(1.0, noise=0.5), 300.0, 0.54382120316, 0.80597967742),
        (mf.SA(4.0, noise=0.2), 1500.0, 0.535115430189, 2.126045252850),
    )
    source = "f ∝ e^{u/τ} (USA), G^{1/(βτ)} (SA)"
    found = []
    for dynamics, t_end, mean, energy in limits[:1] if quick else limits:
        sol = mf.evolve(
            mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.1])), dynamics, t_end, 1, rtol=1e-8
        )
        off = abs(sol.final.mean()[0] - mean), abs(float(sol.dataset.energy[-1]) - energy)
        name = f"{dynamics}: ∫ cos θ dmu and E at t = {t_end:g}"
        found.append(Claim(name, source, max(off), 1e-9, "digits of the fixed point"))
    for dim in (7,) if quick else (2, 3, 50):
        noise = 0.5 / dim

        def excess(r: float, h: float = dim / 2, tau: float = noise) -> float:
            return float(ive(h, r / tau) / ive(h - 1, r / tau)) - r

        mu = mf.Density(mf.Zonal(dim, 47), mf.ZonalSeries(dim, [0.5]))
        final = mf.evolve(mu, mf.SA(0.0, noise=noise), 120.0, 1, rtol=1e-10).final
        off_r = abs(float(np.linalg.norm(final.mean())) - brentq(excess, 0.05, 1.0, xtol=1e-15))
        name = f"d = {dim}, β = 0, τ = {noise:g}: norm of ∫ x dmu at t = 120"
        source_r = "r = I_{d/2}(r/τ)/I_{d/2-1}(r/τ)"
        found.append(Claim(name, source_r, off_r, 1e-9, "digits of the root; rtol = 1e-10"))
    return found


def transition(dims: tuple[int, ...]) -> list[Claim]:
    """At κ_c the clustered state that a run comes to has the free energy of the uniform one."""
    found = []
    for row in json.loads(REFERENCE.read_text())["first_order_noise"]:
        if row["beta"] != 5 or row["d"] not in dims:
            continue
        dim, m1 = row["d"], float(row["m1"])
        kappa = brentq(lambda k, d=dim, m=m1: ive(d / 2, k) / ive(d / 2 - 1, k) - m, 0.1, 100.0)
        start = mf.Density(mf.Zonal(dim, 47), mf.VonMisesFisher(np.eye(dim)[-1], kappa))
        dynamics = mf.USA(5.0, noise=1.0 / float(row["kappa_c"]))
        data = mf.evolve(start, dynamics, 12.0, 1, rtol=1e-6).dataset
        off = float(data.free_energy[-1]) + mf.theory.energy_uniform(5.0, dim)
        name = f"d = {dim}, β = 5, τ = 1/κ_c: free energy of the clustered state less that of σ"
        why = "reached like the square of e^{-1.6t}, t = 12"
        found.append(Claim(name, "first-order transition", abs(off), 1e-10, why))
    return found


def balances() -> list[Claim]:
    """Energy and free energy over a run at the default tolerances."""
    found = []
    for name, start in starts().items():
        worst = {"energy": 0.0, "free_energy": 0.0}
        for kind, sign in ((a, s) for a in (mf.SA, mf.USA) for s in (1, -1)):
            data = mf.evolve(start, kind(2.0, sign=sign, noise=0.3), 1.0, 5).dataset
            for number, integral in ("energy", "work"), ("free_energy", "free_work"):
                if number in data:
                    gap = np.abs(data[number] - data[number][0] - data[integral]).max()
                    worst[number] = max(worst[number], float(gap))
        for number, gap in worst.items():
            what = f"{name}: largest gap of the balance of {number}"
            found.append(Claim(what, "dE/dt, dF/dt", gap, 3e-9, "rtol = 1e-9"))
    return found


def tokens(quick: bool) -> list[Claim]:
    """Tokens with noise against the density, in standard errors."""
    n, dynamics = 10**4 if quick else 10**5, mf.SA(2.0, noise=0.2)
    rng = np.random.default_rng(7)
    cloud = mf.Particles.sample(CIRCLE, n, rng)
    final = mf.evolve(cloud, dynamics, 0.5, 1, max_step=0.025, rng=rng).final
    density = mf.evolve(starts()["circle"], dynamics, 0.5, 1).final
    worst = 0.0
    for k in (1, 2):
        turns = np.exp(-1j * k * np.arctan2(final.points[:, 1], final.points[:, 0]))
        off = turns.mean() - density.coefficients[k]
        errors = turns.real.std() / np.sqrt(n), turns.imag.std() / np.sqrt(n)
        worst = max(worst, abs(off.real) / errors[0], abs(off.imag) / errors[1])
    name = f"{n:g} tokens at t = 0.5: cos and sin of θ, 2θ, off the density in standard errors"
    return [Claim(name, "mean-field limit", worst, 5.0, "four normal numbers")]


def check(quick: bool) -> list[Claim]:
    """All of the above; the quick form takes one limit, one transition and fewer tokens."""
    return [
        *order(),
        *stationary(quick),
        *transition((4,) if quick else (3, 4)),
        *balances(),
        *tokens(quick),
    ]


if __name__ == "__main__":
    main(check)
