"""Pair statistics of n tokens from uniform starts under USA on the circle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import USA
from meanfield.integrate import evolve_batch
from meanfield.laws import Uniform

Array = NDArray[np.float64]

# realisations of a task: a few chunks of the integrator
BLOCK = 64
# far below what realisations leave open
_RTOL, _ATOL = 1e-8, 1e-10


@dataclass(frozen=True)
class Task:
    """Realisations, each from a seed of its own."""

    beta: float
    n: int
    times: Array
    kmax: int
    bins: int
    seeds: list[np.random.SeedSequence]


def followed(task: Task) -> Array:
    """`pairs_of` at each time of each realisation, shape (times, realisations, kmax + bins)."""
    law = Uniform(2)
    starts = np.array([law.sample(task.n, np.random.default_rng(seed)) for seed in task.seeds])
    return np.asarray(
        evolve_batch(
            starts,
            USA(task.beta),
            task.times,
            rtol=_RTOL,
            atol=_ATOL,
            observe=partial(pairs_of, kmax=task.kmax, bins=task.bins),
        )
    )


def pairs_of(gram: Array, kmax: int, bins: int) -> Array:
    """Means over the pairs i < j of each realisation: cos kx, k = 1 … kmax, and shares of |x|.

    Parameters
    ----------
    gram : ndarray, shape (r, n, n)
        Inner products, cos x of x = θ_j - θ_i.
    kmax : int
    bins : int
        Equal parts of [0, π].

    Returns
    -------
    ndarray, shape (r, kmax + bins)
    """
    count, n, _ = gram.shape
    first, second = np.triu_indices(n, 1)
    cosines = np.clip(gram[:, first, second], -1.0, 1.0)
    means = np.empty((count, kmax + bins))
    before, present = np.ones_like(cosines), cosines
    for k in range(kmax):
        means[:, k] = present.mean(axis=1)
        before, present = present, 2.0 * cosines * present - before
    # |x| = π is in the last of them
    part = np.minimum((np.arccos(cosines) * (bins / np.pi)).astype(np.intp), bins - 1)
    part += bins * np.arange(count)[:, None]
    counts = np.bincount(part.ravel(), minlength=count * bins).reshape(count, bins)
    means[:, kmax:] = counts / len(first)
    return means
