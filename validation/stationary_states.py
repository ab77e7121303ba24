"""Stationary states under noise: transitions, the equation itself, free energy, stability."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import ive

import meanfield as mf
from validation.claims import Claim, main

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
REFERENCE = json.loads((ROOT / "tests" / "data" / "reference_values.json").read_text())


def transitions() -> list[Claim]:
    """τ_c, the jump and the fold, in d = 2, 3, 4."""
    claims = []
    for row in REFERENCE["first_order_noise"]:
        ds = mf.studies.stationary_states(mf.USA(row["beta"]), row["d"], until=0.6)
        found = [1 / ds.transition_noise.item(), ds.jump.item(), 1 / ds.fold_noise.item()]
        known = [float(row[name]) for name in ("kappa_c", "m1", "fold")]
        name = (
            f"USA, d = {row['d']}, β = {row['beta']}: 1/τ_c {found[0]:.12g}, jump {found[1]:.12g}"
        )
        error = float(np.max(np.abs(np.divide(found, known) - 1)))
        claims.append(Claim(f"{name}, fold", "mpmath", error, 1e-12, "given to 13 digits"))
    return claims


def limits() -> list[Claim]:
    """The transition is continuous up to β*(d), and of first order right beyond."""
    claims = []
    for dim in (2, 3, 4, 8):
        limit = mf.theory.transition_beta(dim)
        pair = [mf.USA(limit - 1e-3), mf.USA(limit + 1e-3)]
        ds = mf.studies.stationary_states(pair, dim, until=0.9)
        wrong = ds.nature.values.tolist() != ["continuous", "first order"]
        claims.append(
            Claim(
                f"USA, d = {dim}: nature changes within 1e-3 of β* = {limit:.10f}",
                "I_{d/2+1}/I_{d/2} = 1/d",
                float(wrong),
                0.0,
                "a fold or none",
            )
        )
    return claims


def states() -> list[Claim]:
    """Published states, and those of β = 0."""
    claims = []
    for dynamics, mean, energy in (
        (mf.USA(1.0, noise=0.5), 0.54382120316, 0.80597967742),
        (mf.SA(4.0, noise=0.2), 0.535115430189, 2.126045252850),
    ):
        mu = mf.studies.stationary_density(dynamics, 2)
        error = max(abs(mu.mean()[-1] - mean), abs(mf.energy(mu, dynamics.beta) - energy))
        claims.append(
            Claim(
                f"{dynamics}: length of the mean, and E",
                "computed elsewhere",
                float(error),
                1e-11,
                "11 digits",
            )
        )
    for dim in (2, 3, 8):
        tau, half = 0.5 / dim, 0.5 * dim

        def excess(r: float, tau: float = tau, half: float = half) -> float:
            return float(ive(half, r / tau) / ive(half - 1, r / tau) - r)

        expected = brentq(excess, 0.05, 1.0, xtol=1e-15)
        mu = mf.studies.stationary_density(mf.SA(0.0, noise=tau), dim)
        error = float(abs(mu.mean()[-1] / expected - 1))
        name = f"β = 0, d = {dim}, τ = {tau:g}"
        claims.append(Claim(name, "noisy Kuramoto, von Mises-Fisher", error, 1e-12, "rounding"))
    return claims


def equation(cases: list[tuple[mf.SA | mf.USA, int, int]]) -> list[Claim]:
    """The equation by sums of positive terms, at places that are no nodes."""
    claims = []
    for dynamics, dim, degree in cases:
        mu = mf.studies.stationary_density(dynamics, dim, degree=degree)
        angles = np.linspace(0.0, np.pi, 201)
        pole, across = np.eye(dim)[-1], np.eye(dim)[0]
        points = np.outer(np.cos(angles), pole) + np.outer(np.sin(angles), across)
        log_g, _ = mu.log_moment(dynamics.beta * points)
        potential = log_g if dynamics.normalised else np.exp(log_g)
        found = mu.pdf(points)
        peak = int(np.argmax(found))
        logs = (potential - potential[peak]) / (dynamics.beta * dynamics.noise)
        error = np.max(np.abs(found - found[peak] * np.exp(logs))) / found[peak]
        name = f"{dynamics}, d = {dim}, degree {degree}: f against e^(u/τ)/Z"
        claims.append(Claim(name, "direct sums", float(error), 1e-11, "rounding of u, over τ"))
    return claims


def thermodynamics(cases: list[tuple[int, float, float]]) -> list[Claim]:
    """dF/dτ = ∫ f log f dσ, from densities; and stability changes at folds only."""
    claims = []
    for dim, beta, tau in cases:
        step, values = 1e-3 * tau, []
        for place in (-2, -1, 1, 2, 0):
            at = tau + place * step
            mu = mf.studies.stationary_density(mf.USA(beta, noise=at), dim)
            kept = mu.values > 0
            f, w = mu.values[kept], mu.space.weights[kept]
            entropy = float(w @ (f * np.log(f)))
            values.append(at * entropy - mf.energy(mu, beta))
        slope = np.array([1, -8, 8, -1]) @ values[:4] / (12 * step)
        name = f"USA, d = {dim}, β = {beta:g}, τ = {tau:g}: dF/dτ"
        error = float(abs(slope / entropy - 1))
        claims.append(Claim(name, "∫ f log f dσ", error, 1e-9, "differences of fourth order"))
    return claims


def stability(dim: int, beta: float) -> list[Claim]:
    """One unstable mode up to the fold, none beyond, and growth 0 at it."""
    ds = mf.studies.stationary_states(mf.USA(beta), dim).isel(beta=0, branch=0)
    known = np.isfinite(ds.noise.values)
    unstable, growth = ds.n_unstable.values[known], ds.growth_rate.values[known]
    fold = int(np.argmax(ds.event.values == "fold"))
    wrong = np.count_nonzero(unstable[1:fold] != 1) + np.count_nonzero(unstable[fold:] != 0)
    name = f"USA, d = {dim}, β = {beta:g}"
    still = float(max(abs(growth[0]), abs(growth[fold])) / np.abs(growth).max())
    return [
        Claim(f"{name}: points with another count", "fold", float(wrong), 0.0, "1 before, 0 after"),
        Claim(f"{name}: growth at bifurcation and fold", "0", still, 1e-10, "over the largest"),
    ]


def check(quick: bool) -> list[Claim]:
    """Transitions, limits, states, the equation, F and stability; figures in the full form only."""
    cases: list[tuple[mf.SA | mf.USA, int, int]] = [
        (mf.USA(3.0, noise=1.32), 2, 1),
        (mf.SA(9.0, noise=0.06), 3, 1),
    ]
    slopes = [(2, 3.0, 1.2)]
    if not quick:
        cases += [
            (mf.USA(5.0, noise=3.0), 3, 1),
            (mf.USA(5.0, noise=0.8), 8, 1),
            (mf.USA(4.0, noise=0.4), 4, 2),
            (mf.USA(5.0, noise=1.0), 2, 3),
            (mf.SA(100.0, noise=0.009), 3, 1),
        ]
        slopes += [(3, 5.0, 3.0), (8, 2.0, 0.1)]
        ds = mf.studies.stationary_states(mf.USA(5.0), 3, kmax=3)
        mf.plot.save(mf.plot.stationary_states(ds), FIGURES / "stationary_states.png")
    return [
        *transitions(),
        *limits(),
        *states(),
        *equation(cases),
        *thermodynamics(slopes),
        *stability(2, 3.0),
        *([] if quick else stability(8, 5.0)),
    ]


if __name__ == "__main__":
    main(check)
