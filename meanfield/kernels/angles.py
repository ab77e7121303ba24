"""The kernel e^{β<x,y>} between angles: points of the circle, or latitudes of a sphere S^{d-1}.

Each function returns three tables: with K = e^{β(<x,y>-1)}, averaged over both latitudes where
d > 2, and ∂ and Δ the derivative along the target's angle and the Laplacian on the sphere,

    K,   ∂K/β,   ΔK/β,

of which G, X and div X of a measure are sums. All three are finite at β = 0, and each is right
relative to the size of K at its own pair of points, however small that is. For a head of attention
with a = V∇K along the target's angle there are four, of which X = A/G and div X follow:

    K = e^{<Mx,y> - |M|},   A,   div A,   ∂K.
"""

from __future__ import annotations

import numpy as np

from meanfield.typing import Array

_EPS = float(np.finfo(np.float64).eps)
# 51 kB of memory a unit while tables of a circle are made, 1 GB in all
LARGEST_CIRCLE_BETA = 2e4
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


def circle_head_kernel(
    query: Array, value: Array, size: float, targets: Array, sources: Array
) -> Array:
    """K = e^{<Mx,y> - size}, A = <∂x, Vy> K, ∂A and ∂K for angles on the circle.

    Parameters
    ----------
    query, value : ndarray, shape (2, 2)
        M and V.
    size : float
        At least |M|.
    targets, sources : ndarray
        Angles, which broadcast against each other.

    Returns
    -------
    ndarray, shape (4, ...)

    Examples
    --------
    >>> circle_head_kernel(np.eye(2), np.eye(2), 1.0, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -1.,  0.])
    """
    y = np.cos(sources), np.sin(sources)
    x, along = (np.cos(targets), np.sin(targets)), (-np.sin(targets), np.cos(targets))

    def paired(matrix: Array, left: tuple[Array, Array]) -> Array:
        """<left, matrix y>."""
        first = left[0] * matrix[0, 0] + left[1] * matrix[1, 0]
        return np.asarray(first * y[0] + (left[0] * matrix[0, 1] + left[1] * matrix[1, 1]) * y[1])

    with np.errstate(under="ignore"):
        kernel = np.exp(paired(query.T, x) - size)
        slope, pull = paired(query.T, along), paired(value, along)
        spread = pull * slope - paired(value, x)
        return np.stack([kernel, pull * kernel, spread * kernel, slope * kernel])


def zonal_head_kernel(
    query: tuple[float, complex],
    value: tuple[float, complex],
    size: float,
    dim: int,
    targets: Array,
    sources: Array,
) -> Array:
    """K = e^{<Mx,y> - size}, A, div A and ∂K for polar angles on S^{d-1}, averaged over latitudes.

    M and V are multiples of the identity along the axis and across it, where d = 3 complex ones: a
    turn about the axis. With k and a of M, p and q of V, ρ = Re(q a), s = sin φ sin ψ, and ₀F₁ as
    in `zonal_kernel` at |a| s,

        A = e^{k cos φ cos ψ - size} (-p sin φ cos ψ ₀F₁(n/2) + ρ cos φ sin ψ (s/n) ₀F₁(n/2 + 1)).

    What goes round the axis moves no latitude.

    Parameters
    ----------
    query, value : (float, complex)
        Multiples along the axis and across it.
    size : float
        At least |M|.
    dim : int
        d >= 3.
    targets, sources : ndarray
        Polar angles φ and ψ in [0, π], which broadcast against each other.

    Returns
    -------
    ndarray, shape (4, ...)

    Examples
    --------
    >>> one = (1.0, 1.0 + 0.0j)
    >>> zonal_head_kernel(one, one, 1.0, 3, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -2.,  0.])
    """
    n, (k, across), (p, turned) = dim - 1, query, value
    rho, squared = float((turned * across).real), float(abs(across) ** 2)
    cos_t, sin_t, cos_s, sin_s = np.cos(targets), np.sin(targets), np.cos(sources), np.sin(sources)
    s = sin_t * sin_s
    x = float(abs(across)) * s
    with np.errstate(under="ignore"):
        weight = np.exp(k * cos_t * cos_s - size)
        even, odd, third = (weight * _bessel_series(0.5 * n + i, x) for i in range(3))
        slope, steep = -k * sin_t * cos_s, squared * s * cos_t * sin_s
        d_even = slope * even + steep / n * odd
        d_odd = slope * odd + steep / (n + 2.0) * third
        # A = sin φ · along: cot φ A needs no division
        along = -p * cos_s * even + rho / n * cos_t * sin_s**2 * odd
        d_along = -p * cos_s * d_even + rho / n * sin_s**2 * (cos_t * d_odd - sin_t * odd)
        spread = n * cos_t * along + sin_t * d_along
        return np.stack([even, sin_t * along, spread, d_even])


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
