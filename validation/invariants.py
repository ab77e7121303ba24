"""Mass, the energy balance and its direction, and the turning moments, over random densities."""

from __future__ import annotations

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

SPACES = [mf.Circle(128), mf.Sphere(47), mf.Zonal(10, 47), mf.Zonal(50, 47)]


def random_density(space: mf.Circle | mf.Sphere | mf.Zonal, rng: np.random.Generator) -> mf.Density:
    """Three bumps of random places, widths and masses."""
    means = rng.normal(size=(3, space.dim))
    if isinstance(space, mf.Zonal):
        means = rng.choice([-1.0, 1.0], size=(3, 1)) * space.axis
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    laws = [
        mf.VonMisesFisher(mean, kappa)
        for mean, kappa in zip(means, rng.uniform(0, 6, 3), strict=True)
    ]
    return mf.Density(space, mf.Mixture(laws, rng.uniform(0.1, 1.0, 3)))


def turning(mu: mf.Density, dynamics: mf.SA | mf.USA) -> float:
    """Largest entry of ∫ x∧X dmu (USA, in units of e^β) or ∫ G x∧X dmu (SA)."""
    points, mass = mu.space.points, mu.space.weights * mu.values
    velocity = dynamics.velocity(mu, at=points)
    log_g, _ = mu.log_moment(dynamics.beta * points)
    scale = np.exp(log_g - dynamics.beta) if dynamics.normalised else np.exp(-dynamics.beta)
    moment = np.einsum("n,ni,nj->ij", mass * scale, points, velocity)
    return float(np.max(np.abs(moment - moment.T)))


def check(quick: bool) -> list[Claim]:
    """Runs with SA and USA, both signs, several β, on every space."""
    rng = np.random.default_rng(1)
    mass = balance = backwards = turn = 0.0
    runs = 0
    for space in SPACES:
        for _ in range(1 if quick else 8):
            mu = random_density(space, rng)
            for kind in (mf.SA, mf.USA):
                for beta in (0.0, 1.0, 4.0):
                    for sign in (1, -1):
                        t_end = 0.3 * (np.exp(-beta) if kind is mf.USA else 1.0)
                        sol = mf.evolve(mu, kind(beta, sign=sign), t_end, 5, tail_tol=1e-6)
                        data = sol.dataset
                        gained = data["energy"].values - data["energy"].values[0]
                        mass = max(mass, float(np.max(np.abs(data["mass"].values - 1))))
                        gap = float(np.max(np.abs(gained - data["work"].values)))
                        balance = max(balance, gap if sol.status == "finished" else np.inf)
                        backwards = max(backwards, float(np.max(-sign * np.diff(gained))))
                        runs += 1
                    if not isinstance(space, mf.Zonal) and space.size <= 128:
                        coarse = random_density(space.resized(24), rng)
                        turn = max(turn, turning(coarse, kind(beta)))
    return [
        Claim(f"mass, {runs} runs", "(3.4)", mass, 1e-13, "the test function 1 has no gradient"),
        Claim(
            f"E(t) - E(0) = ± ∫ dissipation, {runs} runs",
            "(3.6), Lemma 3.7",
            balance,
            1e-9,
            "rtol 1e-9",
        ),
        Claim(f"energy moves one way, {runs} runs", "(3.6)", backwards, 0.0, "no step against it"),
        Claim(
            "∫ x∧X dmu (USA), ∫ G x∧X dmu (SA)", "symmetry of the kernel", turn, 1e-12, "rounding"
        ),
    ]


if __name__ == "__main__":
    main(check)
