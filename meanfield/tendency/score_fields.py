"""G(Mx) and ∫ y e^{<Mx,y>} dmu on the grid of a space, for a density and any matrix M."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import CircleBilinear, SphereBilinear, check_score, largest_score
from meanfield.exponential_sums import latitude_rule
from meanfield.harmonics import bandwidth, gegenbauer, multiplicities
from meanfield.spaces import Circle, Space, Sphere, Zonal
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.tendency.frames import Frame
from meanfield.tendency.spectral import SMALL

Array = NDArray[np.float64]
Coefficients = NDArray[Any]


class CircleScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the angles of a `Circle`.

    Parameters
    ----------
    space : Circle
    matrix : ndarray, shape (2, 2)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> scores = CircleScores(Circle(8), np.eye(2))
    >>> fields, _ = scores(np.eye(1, 4, dtype=complex)[0])  # uniform: G = I_0(1)
    >>> bool(abs(fields[0, 0] * np.e - 1.2660658777520084) < 1e-14)
    True
    """

    def __init__(self, space: Circle, matrix: Array) -> None:
        self._bilinear = CircleBilinear(matrix)
        self.log_unit = self._bilinear.log_unit
        self._count = len(space.angles)
        self._kept = min(space.kmax, self._bilinear.source_degree) + 1
        self._both = np.where(np.arange(self._bilinear.degree + 1) > 0, 2.0, 1.0) * self._count

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (3, N), and where G has lost its digits."""
        moments = np.zeros(self._bilinear.source_degree + 1, dtype=np.complex128)
        moments[: self._kept] = coefficients[: self._kept]
        series = self._bilinear.coefficients(moments)
        folded = np.zeros((3, self._count), dtype=np.complex128)
        series = self._both * series
        # degrees that the grid does not tell from lower ones are added to these
        for start in range(0, series.shape[1], self._count):
            part = series[:, start : start + self._count]
            folded[:, : part.shape[1]] += part
        fields = np.fft.ifft(folded).real
        return fields, _lost(fields[0], self._bilinear.scale(moments))


class SphereScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the grid of a `Sphere`.

    Parameters
    ----------
    space : Sphere
    matrix : ndarray, shape (3, 3)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> scores = SphereScores(Sphere(3), np.eye(3))
    >>> fields, _ = scores(np.eye(1, 10, dtype=complex)[0])  # uniform: G = sinh(1)
    >>> bool(abs(fields[0, 0] * np.e - np.sinh(1.0)) < 1e-14)
    True
    """

    def __init__(self, space: Sphere, matrix: Array) -> None:
        self._bilinear = SphereBilinear(matrix)
        self.log_unit = self._bilinear.log_unit
        self._fields = SphereFields(space, self._bilinear.degree)
        wide = self._bilinear.source_degree
        inside = space.degrees <= wide
        orders = space.orders[inside]
        self._kept = np.flatnonzero(inside)
        self._places = orders * (2 * wide + 1 - orders) // 2 + space.degrees[inside]
        self._count = (wide + 1) * (wide + 2) // 2

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (4, N), and where G has lost its digits."""
        moments = np.zeros(self._count, dtype=np.complex128)
        moments[self._places] = coefficients[self._kept]
        series = self._bilinear.coefficients(moments)
        fields = np.stack([self._fields.values(row) for row in series])
        return fields, _lost(fields[0], self._bilinear.scale(moments))


def _lost(potential: Array, scale: float) -> NDArray[np.bool_]:
    return np.asarray(potential < SMALL * max(float(potential.max()), scale))


class ZonalScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the meridian of a `Zonal` space.

    M commutes with rotations about the axis, so |Mx| and its part along the axis depend on the
    latitude of x only. The integral over each latitude of y is a Gauss sum, that over latitudes one
    on a grid that is exact for f e^{<Mx,y>}: a matrix of positive terms.

    Parameters
    ----------
    space : Zonal
    frame : Frame
        Of the space.
    matrix : ndarray, shape (r, r)
        M in the coordinates of the frame.

    Attributes
    ----------
    log_unit : ndarray, shape (N,)
        What is returned is in units of e^{log_unit}: |Mx|.

    Raises
    ------
    ValueError
        If no grid of the space is fine enough.
    """

    def __init__(self, space: Zonal, frame: Frame, matrix: Array) -> None:
        z = frame.points @ matrix.T
        self.log_unit = np.linalg.norm(z, axis=1)
        along, radius = z[:, 0], np.linalg.norm(z[:, 1:], axis=1)
        self._across = (z[:, 1:] / np.where(radius > 0.0, radius, 1.0)[:, None]).T
        grid = _exact_grid(space, float(self.log_unit.max()))
        polynomials = gegenbauer(space.dim, space.kmax, grid.nodes)
        polynomials *= np.sqrt(multiplicities(space.dim, space.kmax))[:, None]
        self._at_sources = np.ascontiguousarray(polynomials.T)
        potential, across = np.zeros((2, len(z), len(grid.nodes)))
        for u, share in zip(*latitude_rule(space.dim, float(radius.max())), strict=True):
            exponents = np.outer(along, grid.nodes) + np.outer(radius, u * grid.sines)
            with np.errstate(under="ignore"):
                terms = share * np.exp(exponents - self.log_unit[:, None])
            potential += terms
            across += u * terms
        potential *= grid.weights
        across *= grid.weights * grid.sines
        self._sums = np.stack([potential, potential * grid.nodes, across])
        # of the density 1, against which rounding is judged
        self._masses = potential.sum(axis=1)

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (1 + r, N), and where G has lost its digits."""
        values = self._at_sources @ coefficients
        potential, along, across = self._sums @ values
        lost = potential < SMALL * float(np.abs(values).max()) * self._masses
        return np.vstack([potential, along, across * self._across]), lost


def _exact_grid(space: Zonal, length: float) -> Zonal:
    size = space.exact_size(space.kmax + bandwidth(length, space.dim))
    try:
        return space.resized(size)
    except ValueError as error:
        raise ValueError(
            f"beta |KᵀQ| must be smaller on {space}, got {length:.6g}, which takes size {size}: "
            f"{error}"
        ) from error


AnyScores = CircleScores | SphereScores | ZonalScores


def check_scores(space: Space, frame: Frame, matrix: Array) -> None:
    """Refuse a matrix that is too large for the space, before anything is computed.

    Raises
    ------
    ValueError
        Naming the largest.
    """
    if isinstance(space, Zonal):
        _exact_grid(space, float(np.linalg.norm(frame.points @ matrix.T, axis=1).max()))
    else:
        kind = CircleBilinear if isinstance(space, Circle) else SphereBilinear
        check_score(largest_score(matrix), kind.largest_score, space.dim)


def scores_on(space: Space, frame: Frame, matrix: Array) -> AnyScores:
    """The fields of a matrix in the coordinates of the frame, on the grid of any space.

    Raises
    ------
    ValueError
        If the matrix is too large for the space.
    """
    if isinstance(space, Circle):
        return CircleScores(space, matrix)
    if isinstance(space, Sphere):
        return SphereScores(space, matrix)
    return ZonalScores(space, frame, matrix)
