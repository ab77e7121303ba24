"""Tokens and layers that several tests of trained models look at."""

import numpy as np


def drawn(n, dim, seed=0):
    """So many tokens of the uniform measure."""
    points = np.random.default_rng(seed).standard_normal((n, dim))
    return points / np.linalg.norm(points, axis=1)[:, None]


def bunches(centres, each, spread, seed=0):
    """Unit rows (k·each, d), as many about each centre."""
    rng = np.random.default_rng(seed)
    points = np.repeat(centres, each, axis=0)
    points = points + spread * rng.standard_normal(points.shape)
    return points / np.linalg.norm(points, axis=1)[:, None]
