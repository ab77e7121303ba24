"""Harmonics that share the symmetries of a symmetric matrix D."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import sph_harm_y

from meanfield.exponential_sums import latitude_log_moment, log_moment
from meanfield.geometry import perpendicular
from meanfield.harmonics import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.measures import Density
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.spaces.sphere.at import Places, SphereAt
from meanfield.spaces.symmetry import axial_matrix, axial_part

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ZonalBasis:
    """p_k(<x, axis>), k = 0, 2, …, kmax, orthonormal under σ; on the circle cosines about the axis.

    Parameters
    ----------
    axis : ndarray, shape (d,)
    kmax : int
        Even.
    """

    axis: Array
    kmax: int

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return len(self.axis)

    @cached_property
    def degrees(self) -> NDArray[np.intp]:
        """Of each function, ascending."""
        return np.arange(0, self.kmax + 1, 2)

    @cached_property
    def _norms(self) -> Array:
        return np.sqrt(multiplicities(self.dim, self.kmax))

    def at(self, points: Array) -> Array:
        """Values at unit rows (N, d), shape (N, number of functions)."""
        t = np.clip(points @ self.axis, -1.0, 1.0)
        values = gegenbauer(self.dim, self.kmax, t)[::2]
        return np.ascontiguousarray((values * self._norms[::2, None]).T)

    def asymmetry(self, form: Array) -> float:
        """The norm of what a form has beyond the symmetry about the axis."""
        along, across = axial_part(form, self.axis)
        symmetric = axial_matrix(along, across.real, self.axis)
        return float(np.linalg.norm(form - symmetric, 2))

    def _meridian(self, cosines: Array) -> Array:
        sines = np.sqrt((1.0 - cosines) * (1.0 + cosines))
        return np.asarray(np.outer(cosines, self.axis) + np.outer(sines, perpendicular(self.axis)))

    def nodes(self) -> tuple[Array, Array]:
        """Points and weights of σ that integrate products of two functions and x_i²."""
        t, weights = gauss_gegenbauer(self.dim, self.kmax + 2)
        return self._meridian(t), weights

    def probes(self, n: int) -> Array:
        """Points (n, d) from the equator to the axis."""
        return self._meridian(np.cos(np.linspace(0.0, 0.5 * np.pi, n)))

    def potential(self, masses: Array, z: Array) -> Array:
        """G(z) of masses >= 0 at the nodes, spread by the basis' symmetry, shape (len(z),)."""
        t = np.clip(self.nodes()[0] @ self.axis, -1.0, 1.0)
        s = np.sqrt((1.0 - t) * (1.0 + t))
        return np.asarray(np.exp(latitude_log_moment(self.axis, t, s, masses, z)[0]))

    def cover(self, radius: float) -> Array:
        """Points of the meridian that leave no point of it farther away than a radius."""
        n = int(np.ceil(0.5 * np.pi / radius)) + 1
        return self._meridian(np.cos(np.linspace(0.0, np.pi, n)))

    def density(self, coefficients: Array) -> Density:
        """The density with these coefficients on the space of its symmetry."""
        if self.dim == 2:
            space = Circle(2 * (self.kmax + 4))
            turn = np.arctan2(self.axis[1], self.axis[0])
            modes = np.zeros(space.n_coefficients, dtype=np.complex128)
            modes[self.degrees] = coefficients * np.exp(-1j * turn * self.degrees) / np.sqrt(2.0)
            modes[0] = coefficients[0]
            return Density.from_coefficients(space, modes)
        zonal = Zonal(self.dim, self.kmax + 3, self.axis)
        moments = np.zeros(zonal.n_coefficients)
        moments[self.degrees] = coefficients
        return Density.from_coefficients(zonal, moments)


@dataclass(frozen=True)
class SphereBasis:
    """Harmonics on S^2 that are even in each of three axes: √2 Re Y_lm, l and m even.

    Parameters
    ----------
    axes : ndarray, shape (3, 3)
        Orthonormal rows.
    kmax : int
        Even.
    """

    axes: Array
    kmax: int
    dim = 3

    @cached_property
    def _orders(self) -> NDArray[np.intp]:
        return np.concatenate([np.arange(0, k + 1, 2) for k in range(0, self.kmax + 1, 2)])

    @cached_property
    def degrees(self) -> NDArray[np.intp]:
        """Of each function, ascending."""
        return np.concatenate([np.full(k // 2 + 1, k) for k in range(0, self.kmax + 1, 2)])

    def at(self, points: Array) -> Array:
        """Values at unit rows (N, 3), shape (N, number of functions)."""
        x, y, z = (points @ self.axes.T).T
        polar, azimuth = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
        values = sph_harm_y(self.degrees, self._orders, polar[:, None], azimuth[:, None]).real
        return np.asarray(values * np.sqrt(4.0 * np.pi * np.where(self._orders > 0, 2.0, 1.0)))

    def asymmetry(self, form: Array) -> float:
        """The norm of what a form has beyond reflections of the axes."""
        turned = self.axes @ form @ self.axes.T
        return float(np.linalg.norm(turned - np.diag(np.diag(turned)), 2))

    def _octant(self, cosines: Array, azimuths: Array) -> Array:
        t, phi = (a.ravel() for a in np.meshgrid(cosines, azimuths, indexing="ij"))
        s = np.sqrt((1.0 - t) * (1.0 + t))
        return np.asarray(np.column_stack([s * np.cos(phi), s * np.sin(phi), t]) @ self.axes)

    def nodes(self) -> tuple[Array, Array]:
        """Points of an octant, and weights of σ that integrate products of two functions and x²."""
        t, weights = gauss_gegenbauer(3, 2 * ((self.kmax + 3) // 2))
        upper = t > 0.0
        n = self.kmax // 2 + 2
        azimuths = 0.5 * np.pi * (np.arange(n) + 0.5) / n
        masses = np.repeat(2.0 * weights[upper] / n, n)
        return self._octant(t[upper], azimuths), masses

    def probes(self, n: int) -> Array:
        """Some n points of an octant with its corners and edges."""
        side = int(np.ceil(np.sqrt(n)))
        angles = np.linspace(0.0, 0.5 * np.pi, side)
        return self._octant(np.cos(angles), angles)

    def _mirrored(self, points: Array) -> Array:
        """Their images in all octants, shape (8 n, 3)."""
        signs = np.array(list(product((1.0, -1.0), repeat=3)))
        return np.asarray(
            ((points @ self.axes.T)[None] * signs[:, None]).reshape(-1, 3) @ self.axes
        )

    def potential(self, masses: Array, z: Array) -> Array:
        """G(z) of masses >= 0 at the nodes, spread by the basis' symmetry, shape (len(z),)."""
        log_g, _ = log_moment(self._mirrored(self.nodes()[0]), np.tile(masses / 8.0, 8), z)
        return np.asarray(np.exp(log_g))

    def cover(self, radius: float) -> Array:
        """Points of an octant that leave no point of it farther away than a radius."""
        # a cell's corner is nearer to its middle than half its diagonal at the equator
        angles = np.linspace(0.0, 0.5 * np.pi, int(np.ceil(np.sqrt(0.125) * np.pi / radius)) + 1)
        return self._octant(np.cos(angles), angles)

    def density(self, coefficients: Array) -> Density:
        """The density with these coefficients, by quadrature over all octants."""
        points, weights = self.nodes()
        masses = weights * (self.at(points) @ coefficients) / 8.0
        kmax = max(3, self.kmax)
        moments = SphereAt(kmax).moments(Places.of(self._mirrored(points)), np.tile(masses, 8))
        return Density.from_coefficients(Sphere(kmax), moments)


Basis = ZonalBasis | SphereBasis
