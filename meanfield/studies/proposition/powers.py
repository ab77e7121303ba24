"""r_k = ∬ P_k(<x,y>) dmu dmu, the power of a measure in degree k, without any basis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from meanfield.studies.proposition.problem import ROUNDING

Array = NDArray[np.float64]


def polynomials(dim: int, kmax: int, t: Array) -> Iterator[Array]:
    """P_0(t) … P_kmax(t), one after the other, so that they are never held at once."""
    before, present = np.ones_like(t), t
    yield before
    for k in range(1, kmax + 1):
        yield present
        after = ((2 * k + dim - 2) * t * present - k * before) / (k + dim - 2)
        before, present = present, after


def powers(cosines: Array, masses: Array, dim: int, kmax: int) -> Array:
    """r_k of n points for k = 0 … kmax, by the addition theorem: |mu_k|² = N_k r_k.

    Parameters
    ----------
    cosines : ndarray, shape (..., n, n)
        <x_i, x_j>, of one cloud or of many.
    masses : ndarray, shape (..., n) or (..., n, kmax + 1)
        Masses of the points; or masses times the Λ_k(κ)/Λ_0(κ) of bumps about the points, by Funk
        and Hecke.

    Returns
    -------
    ndarray, shape (..., kmax + 1)
    """
    by_degree = masses.ndim == cosines.ndim
    found = np.empty((*cosines.shape[:-2], kmax + 1))
    for k, values in enumerate(polynomials(dim, kmax, cosines)):
        part = masses[..., k] if by_degree else masses
        found[..., k] = np.einsum("...i,...ij,...j->...", part, values, part, optimize=True)
    # r_k >= 0: below it, rounding is 0, and what is more remains to be seen
    sizes = np.abs(masses).sum(axis=-2 if by_degree else -1)
    allowed = ROUNDING * (sizes if by_degree else sizes[..., None]) ** 2
    return np.where((found < 0.0) & (found >= -allowed), 0.0, found)
