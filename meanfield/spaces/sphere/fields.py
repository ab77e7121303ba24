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
        self._ring_ones = np.full(len(space.colatitudes), _SQRT_4PI)
        self._ring_weights = space.weights[:: space.n_lon] * _SQRT_4PI
        # orders m > 0 stand for -m, too
        size = self.lmax + 1
        self._multiplicity = np.repeat([1.0, 2.0], [size, size * (size - 1) // 2])

    def inner(self, one: Coefficients, other: Coefficients) -> float:
        """∫ f g dσ of two real functions."""
        return float(self._multiplicity @ (one.conj() * other).real)

    def values(self, coefficients: Coefficients) -> Array:
        """f on the grid, shape (N,)."""
        return np.asarray(self._synthesis(coefficients[None], spin=0)[0])

    def gradient(self, coefficients: Coefficients) -> Array:
        """∇f on the grid, components (2, N) along θ and φ."""
        return self._synthesis(coefficients[None], spin=1, mode="DERIV1")

    def hessian(self, coefficients: Coefficients) -> Array:
        """Components θθ, φφ and θφ of the covariant second derivative on the grid, (3, N)."""
        trace, spin = hessian_coefficients(coefficients, self.lmax)
        laplacian = self._synthesis(trace, spin=0)[0]
        return hessian_components(laplacian, self._synthesis(spin, spin=2))

    def weak_divergence(self, field: Array) -> Coefficients:
        """∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence, of components (2, N)."""
        alm = ducc0.sht.adjoint_synthesis(
            map=field,
            lmax=self.lmax,
            spin=1,
            mode="DERIV1",
            ringfactor=self._ring_weights,
            **self.space.grid,
        )
        return np.asarray(alm[0])

    def _synthesis(self, alm: Coefficients, **kind: Any) -> Array:
        return np.asarray(
            ducc0.sht.synthesis(
                alm=alm, lmax=self.lmax, ringfactor=self._ring_ones, **kind, **self.space.grid
            )
        )
