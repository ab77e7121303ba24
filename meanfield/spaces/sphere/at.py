"""Spherical harmonics of low degree at arbitrary points of S^2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import integer
from meanfield.spaces.sphere.hessian import hessian_coefficients, hessian_components

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_EPSILON = 3e-13  # about the least that the transforms take
_TWO_THREADS_FROM = 20_000
_SQRT_4PI = float(np.sqrt(4.0 * np.pi))


@dataclass(frozen=True)
class Places:
    """Where points (n, 3) lie: angles for the transforms, and the frame along θ and φ.

    At a pole the longitude is taken as 0; the frame turns with it, so that tangent vectors in
    Cartesian components have no singularity.

    Attributes
    ----------
    angles : ndarray, shape (n, 2)
        Colatitude in [0, π] and longitude in [0, 2π).
    cos_theta, sin_theta, cos_phi, sin_phi : ndarray, shape (n,)
    """

    angles: Array
    cos_theta: Array
    sin_theta: Array
    cos_phi: Array
    sin_phi: Array

    @classmethod
    def of(cls, points: Array) -> Places:
        """The places of rows (n, 3) of any length but 0."""
        x, y, z = points[:, 0], points[:, 1], points[:, 2]
        across = np.hypot(x, y)
        radii = np.hypot(across, z)
        pole = across == 0.0
        safe = np.where(pole, 1.0, across)
        cos_phi, sin_phi = np.where(pole, 1.0, x / safe), y / safe
        angles = np.empty((len(points), 2))
        np.arctan2(across, z, out=angles[:, 0])
        np.arctan2(sin_phi, cos_phi, out=angles[:, 1])
        angles[:, 1] += 2.0 * np.pi * (angles[:, 1] < 0.0)
        return cls(angles, z / radii, across / radii, cos_phi, sin_phi)

    def frame(self) -> Array:
        """Unit vectors along θ and φ, shape (2, n, 3)."""
        flat = np.zeros_like(self.cos_phi)
        south = [self.cos_theta * self.cos_phi, self.cos_theta * self.sin_phi, -self.sin_theta]
        return np.stack(
            [np.stack(south, axis=1), np.stack([-self.sin_phi, self.cos_phi, flat], axis=1)]
        )

    @property
    def threads(self) -> int:
        """Threads of a transform, fixed by the number of points so that results repeat."""
        return 2 if len(self.angles) >= _TWO_THREADS_FROM else 1


class SphereAt:
    """Σ_{l <= lmax} Σ_m c_lm Y_lm and its adjoint at arbitrary points, by non-uniform transforms.

    Convention and layout of the coefficients are those of `Sphere`: Y_lm orthonormal with respect
    to σ, m = 0 … lmax and for each l = m … lmax, so c_00 is the mass. Errors, at the poles too, are
    1e-14 of the mass in moments, 1e-13 of the largest value in values (2e-13 below lmax = 10).

    Parameters
    ----------
    lmax : int
        Largest degree, 1 <= lmax <= 2047.

    Attributes
    ----------
    lmax, kmax : int
    degrees, orders : ndarray of int, shape (n_coefficients,)

    Raises
    ------
    ValueError
        If lmax is out of range.

    Examples
    --------
    >>> at = SphereAt(1)
    >>> north = Places.of(np.array([[0.0, 0.0, 1.0]]))
    >>> at.moments(north, np.array([2.0])).real.round(12) + 0.0
    array([2.        , 3.46410162, 0.        ])
    """

    def __init__(self, lmax: int) -> None:
        self.lmax = self.kmax = integer("lmax", lmax, low=1, high=2047)
        size = self.lmax + 1
        self.orders = np.repeat(np.arange(size), size - np.arange(size))
        self.degrees = np.concatenate([np.arange(m, size) for m in range(size)])
        self._laplacian = -(self.degrees * (self.degrees + 1.0))

    def __repr__(self) -> str:
        return f"SphereAt({self.lmax})"

    def moments(self, places: Places, masses: Array) -> Coefficients:
        """c_lm = Σ_j m_j conj(Y_lm(x_j)), shape (n_coefficients,), of masses (n,) at places."""
        alm = ducc0.sht.adjoint_synthesis_general(
            map=np.ascontiguousarray(masses, dtype=np.float64)[None],
            spin=0,
            lmax=self.lmax,
            loc=places.angles,
            epsilon=_EPSILON,
            nthreads=places.threads,
        )
        return np.asarray(alm[0] * _SQRT_4PI)

    def values(self, coefficients: Coefficients, places: Places) -> Array:
        """f, shape (n,)."""
        values = ducc0.sht.synthesis_general(
            alm=coefficients[None],
            spin=0,
            lmax=self.lmax,
            loc=places.angles,
            epsilon=_EPSILON,
            nthreads=places.threads,
        )
        return np.asarray(values[0] * _SQRT_4PI)

    def gradient(self, coefficients: Coefficients, places: Places) -> Array:
        """∇f, tangent vectors in Cartesian components, shape (n, 3)."""
        south, east = _SQRT_4PI * ducc0.sht.synthesis_general(
            alm=coefficients[None],
            spin=1,
            mode="DERIV1",
            lmax=self.lmax,
            loc=places.angles,
            epsilon=_EPSILON,
            nthreads=places.threads,
        )
        gradient = np.empty((len(south), 3))
        outwards = south * places.cos_theta
        gradient[:, 0] = outwards * places.cos_phi - east * places.sin_phi
        gradient[:, 1] = outwards * places.sin_phi + east * places.cos_phi
        gradient[:, 2] = -south * places.sin_theta
        return gradient

    def hessian(self, coefficients: Coefficients, places: Places) -> Array:
        """Components θθ, φφ and θφ of the covariant second derivative, shape (3, n)."""
        trace, spin = hessian_coefficients(coefficients, self.lmax)
        parts = _SQRT_4PI * ducc0.sht.synthesis_general(
            alm=spin,
            spin=2,
            lmax=self.lmax,
            loc=places.angles,
            epsilon=_EPSILON,
            nthreads=places.threads,
        )
        return hessian_components(self.values(trace[0], places), parts)

    def laplacian(self, coefficients: Coefficients, places: Places) -> Array:
        """Δf, shape (n,)."""
        return self.values(self._laplacian * coefficients, places)

    def power(self, coefficients: Coefficients) -> Array:
        """Σ_m |c_lm|² of each degree, shape (lmax + 1,)."""
        squares = coefficients.real**2 + coefficients.imag**2
        squares[self.lmax + 1 :] *= 2.0
        return np.asarray(np.bincount(self.degrees, weights=squares), dtype=np.float64)
