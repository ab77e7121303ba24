"""Mass and the turning moments, over random densities."""

from __future__ import annotations

import numpy as np

import meanfield as mf
from validation.claims import Claim, main
from validation.lemma_3_7_energy_identity import random_density, runs


def turning(mu: mf.Density, dynamics: mf.SA | mf.USA) -> float:
    """Largest entry of ∫ x∧X dmu (USA, in units of e^β) or ∫ G x∧X dmu (SA)."""
    points, mass = mu.space.points, mu.space.weights * mu.values
    velocity = dynamics.velocity(mu, at=points)
    log_g, _ = mu.log_moment(dynamics.beta * points)
    scale = np.exp(log_g - dynamics.beta) if dynamics.normalised else np.exp(-dynamics.beta)
    moment = np.einsum("n,ni,nj->ij", mass * scale, points, velocity)
    return float(np.max(np.abs(moment - moment.T)))


def check(quick: bool) -> list[Claim]:
    """Mass over the runs of the energy identity, turning moments of densities."""
    known = runs(quick)
    off = [np.max(np.abs(run.solution.dataset["mass"].values - 1)) for run in known]
    rng, turn = np.random.default_rng(1), 0.0
    for space in (mf.Circle(24), mf.Sphere(24)):
        for _ in range(1 if quick else 8):
            for beta in (0.0, 1.0, 4.0):
                for kind in (mf.SA, mf.USA):
                    turn = max(turn, turning(random_density(space, rng), kind(beta)))
    return [
        Claim(
            f"mass, {len(known)} runs",
            "(3.4)",
            float(max(off)),
            1e-13,
            "the test function 1 has no gradient",
        ),
        Claim(
            "∫ x∧X dmu (USA), ∫ G x∧X dmu (SA)", "symmetry of the kernel", turn, 1e-12, "rounding"
        ),
    ]


if __name__ == "__main__":
    main(check)
