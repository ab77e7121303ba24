"""Kernels in place of e^{βt}: a polynomial, exactly, or a function of t, by quadrature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from meanfield.arguments import real_array, shown
from meanfield.harmonics import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.studies.proposition.polynomials import exact_coefficients, exact_multiplicities
from meanfield.studies.proposition.powers import polynomials
from meanfield.studies.proposition.problem import ROUNDING, Problem, Profile

Array = NDArray[np.float64]

# coefficients of a polynomial, whose Λ_k are fractions of some thousand digits then
_MOST = 257
# degrees of a kernel that is given as a function
_DEGREES = 48


@dataclass(frozen=True)
class Kernel:
    """A kernel W, in a unit in which its numbers are of order 1.

    Attributes
    ----------
    problem : Problem
    values, errors : ndarray, shape (kmax + 1,)
        Λ_k in that unit, and their errors.
    unit : float
        A power of two; 1 but for kernels beyond 1e±100.
    exact : list of Fraction or None
        Λ_k of a polynomial, in that unit; 0 for k > kmax.
    """

    problem: Problem
    values: Array
    errors: Array
    unit: float
    exact: list[Fraction] | None


@dataclass(frozen=True)
class _Scaled:
    """A function over its unit; a class, so that it can be sent to another process."""

    function: Profile
    unit: float

    def __call__(self, t: Array) -> Array:
        return np.asarray(self.function(t), dtype=float) / self.unit


def checked_kernel(kernel: Any, dim: int, kmax: int | None) -> Kernel:
    """A callable of t, or the polynomial of these coefficients a_0, a_1, …, which has its own kmax.

    Raises
    ------
    ValueError
        If it is neither, not finite on [-1, 1], constant, not smooth, or has degrees beyond kmax.
    """
    if callable(kernel):
        return _of_function(kernel, dim, kmax or _DEGREES)
    if not isinstance(kernel, Sequence | np.ndarray) or isinstance(kernel, str):
        raise ValueError(
            f"kernel must be a callable of t or coefficients a_0, a_1, …, got {shown(kernel)}"
        )
    coefficients = real_array("kernel", kernel, 1)
    if len(coefficients) > _MOST:
        raise ValueError(f"kernel must have at most {_MOST} coefficients, got {len(coefficients)}")
    return _of_polynomial(coefficients, dim)


def _of_polynomial(given: Array, dim: int) -> Kernel:
    given = np.append(given[:1], np.trim_zeros(given[1:], "b"))
    if len(given) < 2:
        raise ValueError(f"kernel must not be constant on [-1, 1], got {given[0]:g} everywhere")
    # a constant adds to all energies alike, and would drown the rest
    scale = _unit(float(np.abs(given[1:]).max()))
    own = np.append(0.0, given[1:] / scale)
    exact = exact_coefficients(
        [Fraction(0), *(Fraction(a) / Fraction(scale) for a in given[1:])], dim
    )
    counts = exact_multiplicities(dim, len(own) - 1)
    profile, centre = Polynomial(own), float(exact[0])
    spread = float(np.abs(profile(_grid(dim)) - centre).max())
    weights = np.array([float(n * one) for n, one in zip(counts, exact, strict=True)]) / spread
    weights[0] = 0.0
    # Horner's rule rounds like the sum of absolute terms
    error = ROUNDING * float(np.abs(own).sum()) / spread
    dirac, level = (float(profile(1.0)) - centre) / spread, abs(centre) / spread
    rounding = ROUNDING * np.abs(weights)
    problem = Problem(dim, np.nan, weights, dirac, level, centre, spread, error, rounding, profile)
    return Kernel(problem, *_reported(given, dim), exact)


def _reported(given: Array, dim: int) -> tuple[Array, Array, float]:
    """Λ_k with the constant, and their rounding, in a unit that keeps them from overflow."""
    unit = _unit(float(np.abs(given).max()))
    found = exact_coefficients([Fraction(a) / Fraction(unit) for a in given], dim)
    values = np.array([float(one) for one in found])
    return values, np.spacing(np.abs(values)), unit


def _of_function(function: Profile, dim: int, kmax: int) -> Kernel:
    t = np.linspace(-1.0, 1.0, 257)
    seen = np.asarray(function(t))
    if seen.shape != t.shape or seen.dtype.kind not in "fiu" or not np.isfinite(seen).all():
        raise ValueError(
            f"kernel must give a finite number for each t in [-1, 1], got {seen!r:.200}"
        )
    unit = _unit(float(np.abs(seen).max()))
    kernel = _Scaled(function, unit)
    values, errors = quadrature(kernel, dim, kmax)
    again, _ = quadrature(kernel, dim, kmax, 4 * kmax + 131)
    change = np.abs(again - values)
    # written so that nan is refused as well
    if not (change <= errors).all():
        k = int(np.argmax(np.nan_to_num(change - errors, nan=np.inf)))
        raise ValueError(
            f"kernel must be smooth enough for {4 * kmax + 131} Gauss nodes, but its Λ_{k} = "
            f"{values[k] * unit:.6g} changes by {change[k] * unit:.2g} with their number"
        )
    grid = _grid(dim)
    on_grid, centre = kernel(grid), float(values[0])
    spread, largest = float(np.abs(on_grid - centre).max()), float(np.abs(on_grid).max())
    resolved = np.where(np.abs(values) > errors, values, 0.0)
    if not spread > ROUNDING * largest or not resolved[1:].any():
        raise ValueError(
            f"kernel must not be constant on [-1, 1] to {ROUNDING:g}, got {centre * unit:g}"
        )
    counts = multiplicities(dim, kmax)
    _check_end(dim, grid, on_grid, resolved * counts, errors * counts)
    weights, unresolved = resolved * counts / spread, errors * counts / spread
    weights[0] = unresolved[0] = 0.0
    dirac = (float(kernel(np.ones(1))[0]) - centre) / spread
    error, level = ROUNDING * (largest + abs(centre)) / spread, abs(centre) / spread
    problem = Problem(dim, np.nan, weights, dirac, level, centre, spread, error, unresolved, kernel)
    return Kernel(problem, values, errors, unit, None)


def _check_end(dim: int, grid: Array, values: Array, terms: Array, errors: Array) -> None:
    """Refuse what differs from Σ_{k <= kmax} N_k Λ_k P_k by more than the errors of the Λ_k."""
    kmax, largest = len(terms) - 1, float(np.abs(values).max())
    total, allowed = np.zeros_like(grid), np.full_like(grid, 10.0 * ROUNDING * largest)
    for term, error, row in zip(terms, errors, polynomials(dim, kmax, grid), strict=True):
        total += term * row
        allowed += (error + ROUNDING * abs(term)) * np.abs(row)
    beyond = np.abs(values - total) - allowed
    if (beyond > 0.0).any():
        at = int(np.argmax(beyond))
        raise ValueError(
            f"kernel must have no degrees beyond kmax = {kmax}, but W differs from "
            f"Σ_(k <= kmax) N_k Λ_k P_k by {np.abs(values - total)[at] / largest:.2g} of its "
            f"largest value at t = {grid[at]:g}"
        )


def quadrature(kernel: Profile, dim: int, kmax: int, nodes: int = 0) -> tuple[Array, Array]:
    """Λ_k = ∫ W(t) P_k(t) dσ by Gauss's rule, and 1e-13 ∫ |W P_k| dσ, the rounding of each."""
    t, w = gauss_gegenbauer(dim, nodes or 2 * kmax + 64)
    terms = gegenbauer(dim, kmax, t) * (w * kernel(t))
    return terms.sum(axis=1), ROUNDING * np.abs(terms).sum(axis=1)


def _grid(dim: int) -> Array:
    return np.concatenate([np.linspace(-1.0, 1.0, 4001), gauss_gegenbauer(dim, 64)[0]])


def _unit(size: float) -> float:
    """1, or the power of two next to a size whose sums or squares leave double precision."""
    if size == 0.0 or 1e-100 < size < 1e100:
        return 1.0
    return 2.0 ** max(-1000, math.frexp(size)[1] - 1)
