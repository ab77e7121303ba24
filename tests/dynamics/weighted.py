"""Tokens of unequal weights, and heads of random matrices."""

import numpy as np

import meanfield as mf


def tokens(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return mf.Particles(
        mf.Particles.sample(mf.Uniform(dim), n, rng).points, rng.random(n), unit_mass=True
    )


def heads(dim, count, rank, seed=1):
    rng = np.random.default_rng(seed)
    shapes = (rank, dim), (rank, dim), (dim, dim)
    return [mf.Head(*(rng.normal(size=s) for s in shapes)) for _ in range(count)]
