"""The covariant second derivative on S^2, from a transform of spin 0 and one of spin 2."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Coefficients = NDArray[Any]


def hessian_coefficients(
    coefficients: Coefficients, lmax: int
) -> tuple[Coefficients, Coefficients]:
    """Coefficients of Δf, shape (1, n), and of ð²f in its two parts, shape (2, n)."""
    degrees = np.concatenate([np.arange(m, lmax + 1) for m in range(lmax + 1)])
    eigenvalues = degrees * (degrees + 1.0)
    spin = np.zeros((2, len(degrees)), dtype=np.complex128)
    # sqrt((l + 2)!/(l - 2)!)
    spin[0] = np.sqrt(np.maximum(eigenvalues * (eigenvalues - 2.0), 0.0)) * coefficients
    return (-eigenvalues * coefficients)[None], spin


def hessian_components(laplacian: Array, spin: Array) -> Array:
    """Components θθ, φφ and θφ, shape (3, N), of Δf (N,) and ð²f (2, N)."""
    # with spherical harmonics of ducc's sign the two parts are minus H_θθ - H_φφ and minus 2 H_θφ
    return 0.5 * np.stack([laplacian - spin[0], laplacian + spin[0], -spin[1]])
