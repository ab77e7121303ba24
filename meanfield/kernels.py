"""The kernel e^{β<x,y>} between angles: points of the circle, or latitudes of a sphere S^{d-1}.

Each function returns three tables: with K = e^{β(<x,y>-1)}, averaged over both latitudes where
d > 2, and ∂ and Δ the derivative along the target's angle and the Laplacian on the sphere,

    K,   ∂K/β,   ΔK/β,

of which G, X and div X of a measure are sums. All three are finite at β = 0, and each is right
relative to the size of K at its own pair of points, however small that is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
# beyond it e^{β} of a table leaves double precision on the way
LARGEST_ZONAL_BETA = 150.0


def circle_kernel(beta: float, targets: Array, sources: Array) -> Array:
    """K, ∂K/β and ΔK/β for angles on the circle: e^{β(cos a - 1)}, a = target - source.

    Parameters
    ----------
    beta : float
    targets, sources : ndarray
        Angles, which broadcast against each other.

    Returns
    -------
    ndarray, shape (3, ...)

    Examples
    --------
    >>> circle_kernel(2.0, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -1.])
    """
    apart = targets - sources
    sine, half = np.sin(apart), np.sin(0.5 * apart)
    with np.errstate(under="ignore"):
        kernel = np.exp(-2.0 * beta * half * half)
        laplacian = (beta * sine * sine - 1.0 + 2.0 * half * half) * kernel
        return np.stack([kernel, -sine * kernel, laplacian])


def zonal_kernel(beta: float, dim: int, targets: Array, sources: Array) -> Array:
    """K, ∂K/β and ΔK/β for polar angles about one axis of S^{d-1}, d >= 3, averaged over latitudes.

    With <x,y> = c + s u, c = cos φ cos ψ, s = sin φ sin ψ and u the cosine between the directions
    across the axis, a point of S^{n-1}, n = d - 1: ∫ e^{xu} = ₀F₁(n/2; x²/4) = A,
    ∫ u e^{xu} = x B/n and ∫ (1 - u²) e^{xu} = (n-1) B/n with B = ₀F₁(n/2 + 1; x²/4).

    Parameters
    ----------
    beta : float
        At most 150.
    dim : int
        d >= 3.
    targets, sources : ndarray
        Polar angles φ and ψ in [0, π], which broadcast against each other.

    Returns
    -------
    ndarray, shape (3, ...)

    Examples
    --------
    >>> zonal_kernel(0.0, 3, np.array(0.0), np.array(np.pi / 2)).round(15) + 0.0
    array([1., 0., 0.])
    """
    n = dim - 1
    cos_t, sin_t, cos_s, sin_s = np.cos(targets), np.sin(targets), np.cos(sources), np.sin(sources)
    c, s = cos_t * cos_s, sin_t * sin_s
    x = beta * s
    with np.errstate(under="ignore"):
        size = np.exp(beta * (c - 1.0))
        even, odd = size * _bessel_series(0.5 * n, x), size * _bessel_series(0.5 * n + 1.0, x)
        first = x / n * odd
        slope = cos_t * sin_s * first - sin_t * cos_s * even
        across = (cos_t * sin_s) ** 2 + (sin_t * cos_s) ** 2
        distance = across * even - 2.0 * c * s * first + s * s * (n - 1.0) / n * odd
        return np.stack([even, slope, beta * distance - n * (c * even + s * first)])


def _bessel_series(a: float, x: Array) -> Array:
    """₀F₁(a; x²/4) = Σ_j (x²/4)^j / (j! (a)_j): every term is positive."""
    quarter = 0.25 * x * x
    largest = float(np.max(quarter, initial=0.0))
    term, total, j = np.ones_like(quarter), np.ones_like(quarter), 0
    bound = peak = 1.0
    with np.errstate(under="ignore"):
        while bound > 0.1 * _EPS * peak or largest > 0.5 * (j + 1.0) * (a + j):
            factor = 1.0 / ((j + 1.0) * (a + j))
            term *= factor * quarter
            total += term
            bound *= factor * largest
            peak = max(peak, bound)
            j += 1
    return total
