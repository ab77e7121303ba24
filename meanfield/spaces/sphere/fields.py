"""Vector fields and second derivatives on the grid of S^2."""

from __future__ import annotations

from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from meanfield.spaces.sphere.grid import Sphere
from meanfield.spaces.sphere.hessian import hessian_coefficients, hessian_components

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_SQRT_4PI = float(np.sqrt(4.0 * np.pi))


class SphereFields:
    """Gradients, divergences and second derivatives on the grid of a space.

    Coefficients may be those of a lower degree than the grid's, so that a series can be looked at
    between the points that resolve it.

    Parameters
    ----------
    space : Sphere
        Whose grid it is.
    lmax : int, optional
        Degree of the coefficients, at most ``space.size``, the default.

    Attributes
    ----------
    space : Sphere
    lmax : int

    Examples
    --------
    >>> fields = SphereFields(Sphere(8), lmax=4)
    >>> fields.gradient(np.ones(15, dtype=complex)).shape == (2, len(fields.space.weights))
    True
    """

    def __init__(self, space: Sphere, lmax: int | None = None) -> None:
        self.space = space
        self.lmax = space.size if lmax is None else lmax
        self._plan = space.plan(self.lmax)
        self._ring_ones = np.full(len(space.colatitudes), _SQRT_4PI)
        # orders m > 0 stand for -m, too
        size = self.lmax + 1
        self._multiplicity = np.repeat([1.0, 2.0], [size, size * (size - 1) // 2])

    def inner(self, one: Coefficients, other: Coefficients) -> float:
        """∫ f g dσ of two real functions."""
        return float(self._multiplicity @ (one.conj() * other).real)

    def values(self, coefficients: Coefficients) -> Array:
        """f on the grid, shape (N,)."""
        values = np.empty(len(self.space.weights))
        self._plan.values(coefficients, values)
        return values

    def gradient(self, coefficients: Coefficients) -> Array:
        """∇f on the grid, components (2, N) along θ and φ."""
        gradient = np.empty((2, len(self.space.weights)))
        self._plan.gradient(coefficients, gradient)
        return gradient

    def hessian(self, coefficients: Coefficients) -> Array:
        """Components θθ, φφ and θφ of the covariant second derivative on the grid, (3, N)."""
        trace, spin = hessian_coefficients(coefficients, self.lmax)
        parts = ducc0.sht.synthesis(
            alm=spin, lmax=self.lmax, spin=2, ringfactor=self._ring_ones, **self.space.grid
        )
        return hessian_components(self.values(trace[0]), np.asarray(parts))

    def weak_divergence(self, field: Array) -> Coefficients:
        """∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence, of components (2, N)."""
        found = np.empty(len(self._multiplicity), dtype=np.complex128)
        self._plan.weak_divergence(field, found)
        return found
