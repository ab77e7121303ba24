"""Cells of colatitude and longitude on S^2: bounds of series between points, exact masses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import ducc0
import numpy as np
from scipy.special import gammaln, spherical_jn

from meanfield._checks import EPS
from meanfield.spaces.geometry import sphere_angles, sphere_points
from meanfield.spaces.sphere import SQRT_4PI, Sphere, layout, rings
from meanfield.spaces.sphere_fields import hessian_coefficients, hessian_components
from meanfield.typing import Array, Coefficients, Indices

# so many Gauss nodes lie between two latitudes
_NODES = 8


class Lattice:
    """Cells [iΔ, (i + 1)Δ] × [jΔ, (j + 1)Δ] of colatitude and longitude, Δ = π/n.

    Each is four cells of Lattice(2 n). Between its points a series is bounded by the inequality of
    Ehlich and Zeller: a trigonometric polynomial of degree k is nowhere larger than at M > 2 k
    equidistant points over cos(πk/M). Meridians, as full circles, and parallels have M = 2 n.

    Parameters
    ----------
    n : int

    Attributes
    ----------
    n, n_lon : int
        Rows, and columns: n_lon = 2 n.
    step : float
        Δ.
    colatitudes : ndarray, shape (n,)
        Of the centres; the longitudes are (j + 1/2)Δ.
    radii : ndarray, shape (n,)
        No point of a cell is farther from its centre.
    """

    def __init__(self, n: int) -> None:
        self.n, self.n_lon, self.step = n, 2 * n, np.pi / n
        self.edges = self.step * np.arange(n + 1)
        self.colatitudes = self.step * (np.arange(n) + 0.5)
        sines = np.sin(self.colatitudes)
        widest = np.maximum(np.sin(self.edges[:-1]), np.sin(self.edges[1:]))
        if n % 2:
            widest[n // 2] = 1.0
        half = np.sin(0.25 * self.step) ** 2
        # these are haversines of the distances to corners; a cell at a pole is a triangle
        squares = half * (1.0 + np.maximum(sines * widest, 0.0))
        self.radii = 2.0 * np.arcsin(np.sqrt(squares)) * (1.0 + 8.0 * EPS)

    @cached_property
    def points(self) -> Array:
        """The centres, shape (n n_lon, 3)."""
        return self.some_points(np.arange(self.n * self.n_lon))

    @cached_property
    def corners(self) -> Array:
        """The points where cells meet: the north pole, n - 1 rings of n_lon, the south pole."""
        rows = self.edges[1:-1]
        longitudes = self.step * np.arange(self.n_lon)
        between = sphere_points(np.repeat(rows, self.n_lon), np.tile(longitudes, len(rows)))
        return np.concatenate([[[0.0, 0.0, 1.0]], between, [[0.0, 0.0, -1.0]]])

    def some_points(self, cells: Indices) -> Array:
        """The centres of cells, numbered along rows, shape (len(cells), 3)."""
        row, column = np.divmod(cells, self.n_lon)
        longitudes = self.step * (np.arange(self.n_lon) + 0.5)
        across = np.sin(self.colatitudes)[row]
        points = np.empty((len(cells), 3))
        np.multiply(across, np.cos(longitudes)[column], out=points[:, 0])
        np.multiply(across, np.sin(longitudes)[column], out=points[:, 1])
        points[:, 2] = np.cos(self.colatitudes)[row]
        return points

    def cell_of(self, points: Array) -> Indices:
        """The number of a cell that holds each point (n, 3), or of its neighbour by rounding."""
        colatitudes, longitudes = sphere_angles(points)
        row = np.minimum((colatitudes / self.step).astype(np.intp), self.n - 1)
        column = np.minimum((longitudes / self.step).astype(np.intp), self.n_lon - 1)
        return np.asarray(row * self.n_lon + column)

    def at_centres(self, coefficients: Coefficients, lmax: int) -> Array:
        """A series at the centres, shape (n, n_lon)."""
        values = self._synthesis(coefficients[None], lmax, "F1", phi0=0.5 * self.step)
        return np.asarray(values[0])

    def at_corners(self, coefficients: Coefficients, lmax: int) -> Array:
        """A series at the corners, shape (n + 1, n_lon)."""
        return np.asarray(self._synthesis(coefficients[None], lmax, "CC")[0])

    def gradient_at_corners(self, coefficients: Coefficients, lmax: int) -> Array:
        """Components of ∇f along θ and φ, shape (2, n + 1, n_lon)."""
        return self._synthesis(coefficients[None], lmax, "CC", spin=1, mode="DERIV1")

    def hessian_at_corners(self, coefficients: Coefficients, lmax: int) -> Array:
        """Components θθ, φφ and θφ of the second derivative, shape (3, n + 1, n_lon)."""
        trace, spin = hessian_coefficients(coefficients, lmax)
        parts = self._synthesis(spin, lmax, "CC", spin=2)
        return hessian_components(self.at_corners(trace[0], lmax), parts)

    def _synthesis(self, alm: Coefficients, lmax: int, geometry: str, **options: object) -> Array:
        rows = self.n + (geometry == "CC")
        grid = {"geometry": geometry, "ntheta": rows, "nphi": self.n_lon}
        values = ducc0.sht.synthesis_2d(alm=alm, lmax=lmax, **grid, **{"spin": 0, **options})
        return np.asarray(SQRT_4PI * values)

    def overshoot(self, degree: int) -> float:
        """A bound of the largest value of a series of this degree over the largest at the points.

        Raises
        ------
        ValueError
            If the lattice is too coarse to tell.
        """
        if 2 * degree >= self.n_lon:
            raise ValueError(f"degree must be < {self.n} on {self.n} rows, got {degree}")
        return float(np.cos(np.pi * degree / self.n_lon) ** -2)


@dataclass(frozen=True)
class Hats:
    """Masses of a density under hats around the corners of a lattice.

    A hat is the product of functions of colatitude and longitude that are 1 at a corner, linear
    in between and 0 at its neighbours; all hats add up to 1.

    Attributes
    ----------
    masses : ndarray, shape (n_corners,)
        Some may be negative where the series is.
    of_rows : ndarray, shape (n + 1,)
        Their sums over longitudes.
    between : float
        ∫ (θ - θ_i)(θ_{i+1} - θ)/2 over the density, θ_i the rows beside θ.
    error : float
        By how much all of the masses together may be off.
    """

    masses: Array
    of_rows: Array
    between: float
    error: float


def hats(lattice: Lattice, coefficients: Coefficients, lmax: int) -> Hats:
    """The hats of a series, to rounding: by multipliers in longitude, Gauss nodes in colatitude.

    Raises
    ------
    ValueError
        If 2 lmax >= n_lon.
    """
    step, n = lattice.step, lattice.n
    # ∫ hat e^{imφ} dφ = Δ sinc²(mΔ/2) e^{imφ_j}
    averaged = coefficients * np.sinc(layout(lmax)[1] * step / (2.0 * np.pi)) ** 2
    fractions, share, values = _between_rows(lattice, averaged, lmax, _NODES, 0.0)
    sums = np.zeros((n + 1, lattice.n_lon))
    sums[:-1] += np.einsum("ik,ikj->ij", share * (1.0 - fractions), values)
    sums[1:] += np.einsum("ik,ikj->ij", share * fractions, values)
    between = np.einsum("ik,ikj->", share * (0.5 * step**2 * fractions * (1.0 - fractions)), values)
    sup = lattice.overshoot(lmax) * float(np.abs(lattice.at_corners(coefficients, lmax)).max())
    # two hats meet in a row, and each is a linear factor of the integrand
    order = 2 * _NODES
    factor = 1.0 + order / ((lmax + 1.0) * step)
    error = 2.0 * sup * n * _remainder(lattice, lmax, _NODES) * factor
    masses = np.concatenate([[sums[0].sum()], sums[1:-1].ravel(), [sums[-1].sum()]])
    return Hats(masses, sums.sum(axis=1), float(between), float(error))


def cell_integrals(
    lattice: Lattice, coefficients: Coefficients, lmax: int, highest: float
) -> tuple[Array, Array]:
    """∫ f dσ over the cells, shape (n, n_lon), and the largest error in each row, shape (n,).

    Parameters
    ----------
    lattice : Lattice
    coefficients : ndarray
        Of f, in the layout of Sphere(lmax).
    lmax : int
    highest : float
        At least the largest |f|.
    """
    step = lattice.step
    nodes = _NODES if (lmax + 1.0) * step > 1.0 else _NODES // 2
    averaged = coefficients * np.sinc(layout(lmax)[1] * step / (2.0 * np.pi))
    _, share, values = _between_rows(lattice, averaged, lmax, nodes, 0.5 * step)
    error = highest * _remainder(lattice, lmax, nodes) / lattice.n_lon
    return np.einsum("ik,ikj->ij", share, values), np.full(lattice.n, error)


def cell_bulges(lattice: Lattice, coefficients: Coefficients, lmax: int) -> tuple[Array, Array]:
    """∫ (θ - θ_i)(θ_{i+1} - θ)/2 f dσ over the cells, (n, n_lon), and the same of the longitude."""
    half = 0.5 * lattice.step * layout(lmax)[1]
    averaged = coefficients * np.sinc(half / np.pi)
    fractions, share, values = _between_rows(lattice, averaged, lmax, _NODES, 0.5 * lattice.step)
    parabola = 0.5 * lattice.step**2 * fractions * (1.0 - fractions)
    along = np.einsum("ik,ikj->ij", share * parabola, values)
    # ∫ e^{imt} (Δ²/4 - t²)/2 dt over |t| < Δ/2, divided by Δ
    safe = np.maximum(half, 1e-8)
    wave = coefficients * (0.25 * lattice.step**2 * spherical_jn(1, safe) / safe)
    _, share, values = _between_rows(lattice, wave, lmax, _NODES, 0.5 * lattice.step)
    return along, np.einsum("ik,ikj->ij", share, values)


def _between_rows(
    lattice: Lattice, coefficients: Coefficients, lmax: int, count: int, longitude: float
) -> tuple[Array, Array, Array]:
    """Gauss nodes in each row, (count,) in [0, 1], their dσ (n, count) and f (n, count, n_lon)."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    fractions, step = 0.5 * (1.0 + nodes), lattice.step
    colatitudes = (lattice.edges[:-1, None] + step * fractions).ravel()
    grid = rings(colatitudes, lattice.n_lon, longitude)
    between = ducc0.sht.synthesis(alm=coefficients[None], lmax=lmax, spin=0, **grid)
    # dσ = sin θ dθ dφ/4π
    share = 0.5 * step * weights * np.sin(colatitudes).reshape(lattice.n, count)
    values = between[0].reshape(lattice.n, count, lattice.n_lon)
    return fractions, share * (SQRT_4PI * step / (4.0 * np.pi)), values


def _remainder(lattice: Lattice, lmax: int, count: int) -> float:
    """Gauss's remainder of ∫ f sin θ dθ/2 over a row for |f| <= 1, by Bernstein's inequality."""
    turn, order = (lmax + 1.0) * lattice.step, 2 * count
    log = 4.0 * gammaln(count + 1.0) - 3.0 * gammaln(order + 1.0) - np.log(order + 1.0)
    return float(0.5 * lattice.step * (np.exp(log + order * np.log(turn)) + 64.0 * EPS))


def largest_corner(corners: Array) -> Array:
    """The largest value at the four corners of each cell, from shape (n + 1, n_lon)."""
    rows = np.maximum(corners[:-1], corners[1:])
    return np.asarray(np.maximum(rows, np.roll(rows, -1, axis=1)))


def moments_of(coefficients: Coefficients, lmax: int) -> tuple[Coefficients, ...]:
    """Coefficients of x f, y f and z f in the layout of Sphere(lmax + 1)."""
    space = Sphere(lmax + 1)
    values = space.synthesis(Sphere(lmax).embed(coefficients, space))
    return tuple(space.analysis(space.points[:, k] * values) for k in range(3))
