"""2,000 sampled tokens follow the density: mean and energy in standard errors."""

from __future__ import annotations

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

N = 2000


def scores(law: mf.FourierSeries | mf.Mixture, space: mf.Circle | mf.Sphere, seeds: range) -> float:
    """The largest deviation at t_end in units of its standard deviation over the seeds' runs.

    The standard error is taken from runs of independent samples, so that it holds for the flow
    and not only for the sample.
    """
    dynamics, t_end = mf.SA(4.0), 0.6
    density = mf.evolve(mf.Density(space, law), dynamics, t_end, 1).final
    rows = []
    for seed in seeds:
        tokens = mf.Particles.sample(law, N, np.random.default_rng(seed))
        cloud = mf.evolve(tokens, dynamics, t_end, 1, rtol=1e-6, atol=1e-9).final
        rows.append(
            [*(cloud.mean() - density.mean()), mf.energy(cloud, 4.0) - mf.energy(density, 4.0)]
        )
    deviations = np.array(rows)
    deviations[:, -1] -= (np.exp(4.0) / 8.0 - mf.energy(density, 4.0)) / N
    return float(np.max(np.abs(deviations) / deviations.std(axis=0, ddof=1)))


def check(quick: bool) -> list[Claim]:
    """Circle and S^2, SA, β = 4."""
    seeds = range(4 if quick else 12)
    bumps = mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)],
        [0.6, 0.4],
    )
    circle = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
    pairs: list[tuple[mf.FourierSeries | mf.Mixture, mf.Circle | mf.Sphere]] = [
        (circle, mf.Circle(128)),
        (bumps, mf.Sphere(63)),
    ]
    return [
        Claim(
            f"{space}: mean and energy of {N} tokens, {len(seeds)} seeds, in standard errors",
            "mean-field limit",
            scores(law, space, seeds),
            5.0,
            "five standard errors",
        )
        for law, space in pairs
    ]


if __name__ == "__main__":
    main(check)
