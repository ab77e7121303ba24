"""What tests of laws share: directions, points on a meridian, and a test of means."""

import math

import numpy as np

EPS = np.finfo(float).eps
DRAWS = 20_000
DIMS = [2, 3, 5, 20]


def unit(dim, seed=0):
    vector = np.random.default_rng(seed).normal(size=dim)
    return vector / np.linalg.norm(vector)


def meridian(axis, t):
    """Points with <x, axis> = t, in a plane in general position."""
    across = np.cos(1.0 + np.arange(axis.size) ** 1.5)
    for _ in range(2):
        across -= (across @ axis) * axis
        across /= np.linalg.norm(across)
    return np.outer(t, axis) + np.outer(np.sqrt((1.0 - t) * (1.0 + t)), across)


def within_five_errors(samples, expected):
    """Whether sample means differ from `expected` by less than 5 standard errors (1 in 1.7e6)."""
    samples = np.asarray(samples)
    error = samples.std(axis=0) / math.sqrt(len(samples))
    return bool(np.all(np.abs(samples.mean(axis=0) - expected) <= 5.0 * error + 1e-14))


CLOUD = np.array([[0.0, 0.0, 1.0], [0.6, 0.0, 0.8], [0.0, -1.0, 0.0]])


def equispaced(n, first=0.0):
    return first + 2.0 * np.pi * np.arange(n) / n
