"""Fields, second derivatives and arbitrary points of S^2."""

from __future__ import annotations

from dataclasses import dataclass

import ducc0
import numpy as np

from meanfield._checks import integer
from meanfield.spaces.circle import EPSILON, added, threads
from meanfield.spaces.grid import Harmonics
from meanfield.spaces.sphere import SQRT_4PI, Sphere, layout
from meanfield.typing import Array, Coefficients


def hessian_coefficients(
    coefficients: Coefficients, lmax: int
) -> tuple[Coefficients, Coefficients]:
    """Coefficients of Δf, shape (1, n), and of ð²f in its two parts, shape (2, n)."""
    degrees, _ = layout(lmax)
    eigenvalues = degrees * (degrees + 1.0)
    spin = np.zeros((2, len(degrees)), dtype=np.complex128)
    # sqrt((l + 2)!/(l - 2)!)
    spin[0] = np.sqrt(np.maximum(eigenvalues * (eigenvalues - 2.0), 0.0)) * coefficients
    return (-eigenvalues * coefficients)[None], spin


def hessian_components(laplacian: Array, spin: Array) -> Array:
    """Components θθ, φφ and θφ, shape (3, N), of Δf (N,) and ð²f (2, N)."""
    # in ducc0's sign of spin harmonics the two parts are -(H_θθ - H_φφ) and -2 H_θφ
    return 0.5 * np.stack([laplacian - spin[0], laplacian + spin[0], -spin[1]])


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
        self._plan = space.make_plan(self.lmax)
        self._ring_ones = np.full(len(space.colatitudes), SQRT_4PI)
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
        spin_2 = ducc0.sht.synthesis(
            alm=spin, lmax=self.lmax, spin=2, ringfactor=self._ring_ones, **self.space.grid
        )
        return hessian_components(self.values(trace[0]), np.asarray(spin_2))

    def weak_divergence(self, field: Array) -> Coefficients:
        """∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence, of components (2, N)."""
        modes = np.empty(len(self._multiplicity), dtype=np.complex128)
        self._plan.weak_divergence(field, modes)
        return modes


# points nearer to a pole than this are at the pole: squares of smaller numbers lose digits
_AT_POLE = 1e-150


@dataclass(frozen=True)
class Places:
    """Points (n, 3) on S²: their angles for the transforms, and their frames along θ and φ.

    At a pole the longitude is taken as 0; the frame turns with it, so that tangent vectors in
    Cartesian components have no singularity.

    Attributes
    ----------
    points : ndarray, shape (n, 3)
    angles : ndarray, shape (n, 2)
        Colatitude in [0, π] and longitude in [0, 2π).
    cos_theta, sin_theta, cos_phi, sin_phi : ndarray, shape (n,)
    """

    points: Array
    angles: Array
    cos_theta: Array
    sin_theta: Array
    cos_phi: Array
    sin_phi: Array

    @classmethod
    def of(cls, points: Array) -> Places:
        """The places of rows (n, 3), of lengths whose squares are numbers."""
        x, y, z = points[:, 0], points[:, 1], points[:, 2]
        squared = x * x + y * y
        across, radii = np.sqrt(squared), np.sqrt(squared + z * z)
        pole = across < _AT_POLE
        safe = np.where(pole, 1.0, across)
        cos_phi, sin_phi = np.where(pole, 1.0, x / safe), y / safe
        angles = np.empty((len(points), 2))
        np.arctan2(across, z, out=angles[:, 0])
        np.arctan2(sin_phi, cos_phi, out=angles[:, 1])
        angles[:, 1] += 2.0 * np.pi * (angles[:, 1] < 0.0)
        return cls(points, angles, z / radii, across / radii, cos_phi, sin_phi)

    def units(self) -> Array:
        """The points on the sphere, shape (n, 3)."""
        return np.asarray(self.points / np.linalg.norm(self.points, axis=1, keepdims=True))

    def frame(self) -> Array:
        """Unit vectors along θ and φ, shape (2, n, 3)."""
        south = [self.cos_theta * self.cos_phi, self.cos_theta * self.sin_phi, -self.sin_theta]
        east = [-self.sin_phi, self.cos_phi, np.zeros_like(self.cos_phi)]
        return np.stack([np.stack(south, axis=1), np.stack(east, axis=1)])


FINEST = 2e-14  # what the transforms of S^2 still take


class SphereAt(Harmonics):
    """Σ_{l <= lmax} Σ_m c_lm Y_lm and its adjoint at arbitrary points, by non-uniform transforms.

    Convention and layout of the coefficients are those of `Sphere`: Y_lm orthonormal with respect
    to σ, m = 0 … lmax and for each l = m … lmax, so c_00 is the mass. Errors, at the poles too, are
    1e-14 of the mass in moments, 1e-13 of the largest value in values (2e-13 below lmax = 10).

    Parameters
    ----------
    lmax : int
        Largest degree, 1 <= lmax <= 2047.
    epsilon : float, optional
        Accuracy of the transforms. With `FINEST` errors of values are 1e-14 of the largest up to
        lmax = 150, and beyond those of rounding, some 2e-16 lmax.

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

    dim = 3
    axis: None = None

    def __init__(self, lmax: int, epsilon: float = EPSILON) -> None:
        self.lmax = self.kmax = integer("lmax", lmax, low=1, high=2047)
        self.n_real, self._epsilon = self.lmax + 1, epsilon
        self.degrees, self.orders = layout(self.lmax)
        self._laplacian = -(self.degrees * (self.degrees + 1.0))

    def moments(self, places: Places, masses: Array) -> Coefficients:
        """c_lm = Σ_j m_j conj(Y_lm(x_j)), shape (n_coefficients,), of masses (n,) at places."""
        maps = np.ascontiguousarray(masses, dtype=np.float64)[None]

        def sums(part: slice) -> Coefficients:
            where = self._transform(places) | {"loc": places.angles[part], "nthreads": 1}
            modes = ducc0.sht.adjoint_synthesis_general(map=maps[:, part], spin=0, **where)
            return np.asarray(modes[0])

        return added(sums, len(masses)) * SQRT_4PI

    def _synthesis(self, alm: Coefficients, places: Places, **kind: object) -> Array:
        values = ducc0.sht.synthesis_general(alm=alm, **self._transform(places), **kind)
        return np.asarray(SQRT_4PI * values)

    def _transform(self, places: Places) -> dict[str, object]:
        where = {"loc": places.angles, "nthreads": threads(places.angles)}
        return {"lmax": self.lmax, "epsilon": self._epsilon, **where}

    def point_moments(self, points: Array, masses: Array) -> Coefficients:
        """`moments` of masses (n,) at points (n, 3), n = 0 among them."""
        if len(points) == 0:
            return np.zeros(len(self.degrees), dtype=np.complex128)
        return self.moments(Places.of(points), masses)

    def resized(self, lmax: int) -> SphereAt:
        """The same basis up to another degree."""
        return SphereAt(lmax, self._epsilon)

    def values(self, coefficients: Coefficients, places: Places) -> Array:
        """f, shape (n,)."""
        return np.asarray(self._synthesis(coefficients[None], places, spin=0)[0])

    def gradient(self, coefficients: Coefficients, places: Places) -> Array:
        """∇f, tangent vectors in Cartesian components, shape (n, 3)."""
        south, east = self._synthesis(coefficients[None], places, spin=1, mode="DERIV1")
        gradient = np.empty((len(south), 3))
        outwards = south * places.cos_theta
        gradient[:, 0] = outwards * places.cos_phi - east * places.sin_phi
        gradient[:, 1] = outwards * places.sin_phi + east * places.cos_phi
        gradient[:, 2] = -south * places.sin_theta
        return gradient

    def hessian(self, coefficients: Coefficients, places: Places) -> Array:
        """Components θθ, φφ and θφ of the covariant second derivative, shape (3, n)."""
        trace, spin = hessian_coefficients(coefficients, self.lmax)
        spin_2 = self._synthesis(spin, places, spin=2)
        return hessian_components(self.values(trace[0], places), spin_2)

    def laplacian(self, coefficients: Coefficients, places: Places) -> Array:
        """Δf, shape (n,)."""
        return self.values(self._laplacian * coefficients, places)
