"""Multipliers of several kernels e^{β<x,y>} at once: recurrences step all of them together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.harmonics.multipliers import counted, ratio_bound, starting_degree
from meanfield.harmonics.polynomials import multiplicity_growth

Array = NDArray[np.float64]


def several_kernels(
    betas: ArrayLike, dim: int, kmax: int, tolerance: float = 1e-17
) -> tuple[Array, Array, NDArray[np.intp]]:
    """`relative_eigenvalues`, e^{-β} Λ_0 and `bandwidth` of kernels, each β >= 0.

    Returns
    -------
    relative : ndarray, shape (m, kmax + 1)
        Λ_k/Λ_0; values below 1e-308 lose digits and then underflow to 0.
    first : ndarray, shape (m,)
        e^{-β} Λ_0, 0 where it is below 1e-300.
    widths : ndarray, shape (m,)
        The bandwidth, or kmax where that is less.

    Examples
    --------
    >>> relative, first, widths = several_kernels([0.0, 9.0], 3, 40)
    >>> relative[0, :2], first[0], widths
    (array([1., 0.]), np.float64(1.0), array([ 1, 33]))
    """
    beta = np.asarray(betas, dtype=np.float64)
    # what is enough for the largest β is for all
    last = max(kmax, counted(float(max(beta.max(), 1e-300)), dim, 1)[0])
    start = starting_degree(float(beta.max()), dim, last)
    ratios = np.empty((last, len(beta)))
    ratio = ratio_bound(beta, np.full(len(beta), start + 0.5 * dim))
    for k in range(start, -1, -1):
        ratio = beta / (2.0 * (k + 0.5 * dim) + beta * ratio)
        if k < last:
            ratios[k] = ratio
    growth = multiplicity_growth(dim, np.arange(1.0, last + 1))[:, None]
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        relative = np.cumprod(ratios[:kmax], axis=0)
        # e^β = Σ N_k Λ_k, the kernel at x = y
        first = 1.0 / (1.0 + np.cumprod(ratios * growth, axis=0).sum(axis=0))
        logs = np.cumsum(np.log(ratios[:kmax] * growth[:kmax]), axis=0)
    counts = logs >= math.log(tolerance) + np.minimum(0.0, logs[0])
    widths = kmax - np.argmax(counts[::-1], axis=0)
    # where Λ_1 is 0 in double precision, nothing counts beyond
    widths[np.isinf(logs[0])] = 1
    ones = np.ones((len(beta), 1))
    return np.hstack([ones, relative.T]), np.where(first < 1e-300, 0.0, first), widths
