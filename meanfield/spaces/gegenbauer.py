"""Gegenbauer polynomials on S^{d-1} and their Gauss nodes.

Everything is normalised with respect to σ, the uniform probability measure on the sphere, and
P_k(1) = 1, so that the circle (d = 2, Chebyshev) needs no limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import scipy

from meanfield._checks import integer
from meanfield.typing import Array


def multiplicity(dim: int, k: int) -> int:
    """N_k, an integer of any size."""
    return math.comb(k + dim - 2, k) + (math.comb(k + dim - 3, k - 1) if k else 0)


def multiplicities(dim: int, kmax: int) -> Array:
    """N_k = (2k+d-2)/(k+d-2) · C(k+d-2, k): the dimension of the harmonics of degree k.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.
    kmax : int
        Largest degree.

    Returns
    -------
    ndarray, shape (kmax + 1,)
        N_0 … N_kmax, exact integers rounded to float64.

    Raises
    ------
    ValueError
        If a multiplicity is too large for float64, or an argument is out of range.

    Examples
    --------
    >>> multiplicities(3, 4)
    array([1., 3., 5., 7., 9.])
    """
    dim, kmax = integer("dim", dim, low=2), integer("kmax", kmax, low=0)
    exact = [multiplicity(dim, k) for k in range(kmax + 1)]
    if exact[-1].bit_length() > 1023:
        raise ValueError(f"kmax = {kmax} is too large for dim = {dim}: N_k must stay below 2^1023")
    return np.array([float(n) for n in exact])


def multiplicity_growth(dim: int, k: Array) -> Array:
    """N_k / N_{k-1} for k >= 1; k = 1 apart, since the formula is 0/0 there for d = 2."""
    numerator = (2 * k + dim - 2) * (k + dim - 3)
    shrunk = (2 * k + dim - 4) * k
    return np.where(k == 1, dim, numerator / np.where(k == 1, 1.0, shrunk))


def polynomials(dim: int, t: Array) -> Iterator[Array]:
    """P_0(t), P_1(t), … by P_{k+1}(t) = [(2k+d-2) t P_k(t) - k P_{k-1}(t)] / (k+d-2), P_k(1) = 1.

    One is made when it is asked for, so a sum over many takes the memory of three.

    Examples
    --------
    >>> [float(values[0]) for values in islice(polynomials(3, np.array([0.5])), 3)]
    [1.0, 0.5, -0.125]
    """
    previous, current = np.ones_like(t), t
    yield previous
    for k in count(1):
        yield current
        # for d = 2 the general recurrence divides by k, which is at least 1
        following = ((2 * k + dim - 2) * t * current - k * previous) / (k + dim - 2)
        previous, current = current, following


def gegenbauer(dim: int, kmax: int, t: Array) -> Array:
    """P_0(t) … P_kmax(t), normalised to P_k(1) = 1, in one array.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2: Chebyshev for d = 2, Legendre for d = 3.
    kmax : int
        Largest degree.
    t : ndarray
        Arguments in [-1, 1], any shape.

    Returns
    -------
    ndarray, shape (kmax + 1,) + t.shape
        P_0(t) … P_kmax(t).

    Examples
    --------
    >>> gegenbauer(3, 2, np.array([0.5]))[:, 0]
    array([ 1.   ,  0.5  , -0.125])
    """
    t = np.asarray(t, dtype=np.float64)
    values = np.empty((kmax + 1, *t.shape))
    for k, polynomial in enumerate(islice(polynomials(dim, t), kmax + 1)):
        values[k] = polynomial
    return values


def zonal_sum(dim: int, coefficients: Array, t: Array) -> Array:
    """Σ_{k>=0} a_k P_k(t), P_k(1) = 1, in O(t.size) memory.

    Examples
    --------
    >>> zonal_sum(3, np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0]))
    array([0., 3.])
    """
    total = np.zeros_like(t)
    with np.errstate(under="ignore"):
        for coefficient, polynomial in zip(coefficients, polynomials(dim, t), strict=False):
            total += coefficient * polynomial
    return total


def gegenbauer_derivative(dim: int, kmax: int, t: Array) -> Array:
    """P_k'(t) = k(k+d-2)/(d-1) · P_{k-1}(t) of dimension d + 2.

    Parameters and shape of the result as in `gegenbauer`.

    Examples
    --------
    >>> gegenbauer_derivative(3, 2, np.array([0.5]))[:, 0]
    array([0. , 1. , 1.5])
    """
    t = np.asarray(t, dtype=np.float64)
    values = np.zeros((kmax + 1, *t.shape))
    if kmax > 0:
        k = np.arange(1.0, kmax + 1).reshape(-1, *([1] * t.ndim))
        values[1:] = k * (k + dim - 2) / (dim - 1) * gegenbauer(dim + 2, kmax - 1, t)
    return values


def _jacobi_off_diagonal(dim: int, n: int) -> Array:
    """Return a_k of t p_k = a_{k+1} p_{k+1} + a_k p_{k-1} for p_k = sqrt(N_k) P_k, k = 1 … n-1."""
    k = np.arange(1.0, n)
    squared = np.empty(n - 1)
    squared[1:] = k[1:] * (k[1:] + dim - 3) / ((2 * k[1:] + dim - 2) * (2 * k[1:] + dim - 4))
    squared[:1] = 1.0 / dim
    return np.sqrt(squared)


def gauss_gegenbauer(dim: int, n: int) -> tuple[Array, Array]:
    """Gauss nodes and weights for the law of <x, e> under σ, dσ ∝ (1-t²)^{(d-3)/2} dt.

    Nodes are eigenvalues of the Jacobi matrix (Golub & Welsch 1969) after two Newton steps; weights
    are w_i = 1/Σ_{k<n} p_k(t_i)², a sum of positive terms, so small ones keep their digits. The
    circle (Chebyshev) is explicit.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.
    n : int
        Number of nodes; exact for polynomials of degree 2n - 1.

    Returns
    -------
    nodes, weights : ndarray, shape (n,)
        Ascending nodes in (-1, 1); the weights sum to 1.

    Raises
    ------
    ValueError
        If the orthonormal polynomials leave the range of float64.

    Examples
    --------
    >>> t, w = gauss_gegenbauer(3, 2)
    >>> bool(abs(w @ t**2 - 1 / 3) < 1e-15)
    True
    """
    dim, n = integer("dim", dim, low=2), integer("n", n, low=1)
    if n == 1:
        return np.zeros(1), np.ones(1)
    if dim == 2:
        return -np.cos(np.pi * (np.arange(n) + 0.5) / n), np.full(n, 1.0 / n)
    off_diagonal = _jacobi_off_diagonal(dim, n + 1)
    nodes = scipy.linalg.eigvalsh_tridiagonal(np.zeros(n), off_diagonal[: n - 1])
    for _ in range(2):
        with np.errstate(over="ignore", invalid="ignore"):
            correction, squares = _newton(nodes, off_diagonal)
        nodes = nodes - correction
        nodes = 0.5 * (nodes - nodes[::-1])
    if not np.isfinite(squares).all():
        raise ValueError(f"n = {n} Gauss nodes are too many for dim = {dim} in double precision")
    weights = 0.5 * (1.0 / squares + 1.0 / squares[::-1])
    return nodes, weights / weights.sum()


def _newton(nodes: Array, off_diagonal: Array) -> tuple[Array, Array]:
    """Return p_n/p_n' and Σ_{k<n} p_k² at the nodes by the three-term recurrence."""
    n = len(nodes)
    previous, current, squares = np.zeros(n), np.ones(n), np.ones(n)
    derivative_previous, derivative, coupling_below = np.zeros(n), np.zeros(n), 0.0
    for k in range(n):
        coupling_above = off_diagonal[k]
        following = (nodes * current - coupling_below * previous) / coupling_above
        derivative_following = (
            current + nodes * derivative - coupling_below * derivative_previous
        ) / coupling_above
        previous, current, coupling_below = current, following, coupling_above
        derivative_previous, derivative = derivative, derivative_following
        if k < n - 1:
            squares += current * current
    return current / derivative, squares
