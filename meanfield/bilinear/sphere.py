"""e^{<Mx,y>} between spherical harmonics on S^2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ducc0
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ive

from meanfield.bilinear.legendre import Coordinates, layout, legendre
from meanfield.bilinear.scores import check_score, largest_score, score_matrix
from meanfield.harmonics import bandwidth, gauss_gegenbauer, scaled_eigenvalues

Array = NDArray[np.float64]
Coefficients = NDArray[Any]
# which coefficients, and of which part: those of cos mφ or of sin mφ
Block = tuple[NDArray[np.intp], bool]


class SphereBilinear:
    """G(Mx) = ∫ e^{<Mx,y>} dmu(y) and ∫ y e^{<Mx,y>} dmu(y) as series of harmonics in x.

    With M = U Σ Wᵀ the kernel is e^{Σ σ_i x_i y_i} between the turned harmonics, which keeps the
    parities in each of the three axes: eight blocks of a matrix, found by a quadrature of
    Λ_l(|Σx|) Y_lm(Σx/|Σx|) that is exact to rounding. What is cut is below 1e-17 of the largest;
    the series' errors are 1e-14 of `scale`. Memory is degree⁴ bytes, 6 MB at |M| = 25, 140 MB at
    |M| = 128.

    Parameters
    ----------
    matrix : array_like, shape (3, 3), or float
        M; a number stands for that multiple of the identity.

    Attributes
    ----------
    matrix : ndarray, shape (3, 3)
    log_unit : float
        s = |M|_2; coefficients are in units of e^s.
    degree : int
        Largest degree in x.
    source_degree : int
        Largest degree of the moments asked for, degree + 1.

    Raises
    ------
    ValueError
        If M is no finite (3, 3) matrix, or |M|_2 > 128.

    Examples
    --------
    >>> bilinear = SphereBilinear(2.0)
    >>> uniform = np.zeros((bilinear.source_degree + 1) * (bilinear.source_degree + 2) // 2)
    >>> uniform[0] = 1.0  # G = sinh(2)/2, and its gradient is along x
    >>> series = bilinear.coefficients(uniform.astype(complex))
    >>> bool(abs(series[0, 0] - np.exp(-2.0) * np.sinh(2.0) / 2.0) < 1e-15)
    True
    """

    dim = 3
    largest_score = 128.0

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = score_matrix(matrix, self.dim)
        self.log_unit = largest_score(self.matrix)
        check_score(self.log_unit, self.largest_score, self.dim)
        self.degree = bandwidth(self.log_unit, self.dim)
        self.source_degree = self.degree + 1
        self._isotropic = scaled_eigenvalues(self.log_unit, self.dim, self.degree)
        targets, lengths, sources = np.linalg.svd(self.matrix)
        sources = sources.T
        # proper rotations on both sides: signs go to the lengths
        for turn in targets, sources:
            if np.linalg.det(turn) < 0.0:
                turn[:, 2] *= -1.0
                lengths[2] *= -1.0
        self._targets, self._coordinates = targets, Coordinates(self.degree)
        self._to_axes, self._from_axes = _euler(targets.T), _euler(sources)
        self._blocks = list(_blocks(self.degree))
        self._kernels = self._entries(lengths)

    def __repr__(self) -> str:
        return f"SphereBilinear(|M| = {self.log_unit:.6g}, degree={self.degree})"

    def _entries(self, lengths: Array) -> list[Array]:
        """One matrix for each block, by quadrature in x over the octant of positive coordinates."""
        lmax = self.degree
        rings = 2 * ((lmax + 2) // 2)
        cosines, weights = (each[rings // 2 :] for each in gauss_gegenbauer(3, rings))
        count = (lmax + 2) // 2
        longitudes = 0.5 * np.pi / count * (np.arange(count) + 0.5)
        cosine, longitude = np.repeat(cosines, count), np.tile(longitudes, len(cosines))
        sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
        # of eight octants
        weight = np.repeat(8.0 / (4.0 * count) * weights, count)
        x = np.stack([sine * np.cos(longitude), sine * np.sin(longitude), cosine])
        z = np.abs(lengths)[:, None] * x
        across = np.hypot(z[0], z[1])
        radius = np.hypot(across, z[2])
        safe = np.where(radius > 0.0, radius, 1.0)
        kernel = self._radial(radius)
        at_x = legendre(lmax, cosines, np.sqrt((1.0 - cosines) * (1.0 + cosines)))
        at_z = legendre(lmax, z[2] / safe, across / safe)
        degrees, orders = layout(lmax)
        entries = []
        for index, is_sine in self._blocks:
            waves = np.sin if is_sine else np.cos
            m = orders[index][:, None]
            left = np.repeat(at_x[index], count, axis=1) * (waves(m * longitude) * weight)
            right = at_z[index] * waves(m * np.arctan2(z[1], z[0])) * kernel[degrees[index]]
            # orders m > 0 stand for -m, too
            right *= np.where(m > 0, 2.0, 1.0)
            block = left @ right.T
            if lengths[2] < 0.0 and len(index) and (degrees[index[0]] + orders[index[0]]) % 2:
                block *= -1.0
            entries.append(block)
        return entries

    def _radial(self, radius: Array) -> Array:
        """e^{-s} Λ_l(r), shape (degree + 1, n)."""
        order = np.arange(self.degree + 1)[:, None] + 0.5
        safe = np.where(radius > 0.0, radius, 1.0)
        with np.errstate(under="ignore"):
            bessel = np.sqrt(0.5 * np.pi / safe) * ive(order, safe)
            bessel *= np.exp(safe - self.log_unit)
        bessel[:, radius == 0.0] = 0.0
        bessel[0, radius == 0.0] = np.exp(-self.log_unit)
        return np.asarray(bessel)

    def coefficients(self, moments: Coefficients) -> Coefficients:
        """Series of e^{-s} G(Mx), and of e^{-s} ∫ y_i e^{<Mx,y>} dmu for i = 1, 2, 3.

        Parameters
        ----------
        moments : ndarray, shape ((source_degree + 1)(source_degree + 2)/2,)
            c_lm = ∫ conj(Y_lm) dmu, in the layout of `Sphere` and `SphereAt`.

        Returns
        -------
        ndarray, shape (4, (degree + 1)(degree + 2)/2)
            In the same layout.
        """
        turned = ducc0.sht.rotate_alm(moments, self.source_degree, *self._to_axes)
        sources = self._coordinates(turned)
        series = np.zeros_like(sources)
        for (index, is_sine), kernel in zip(self._blocks, self._kernels, strict=True):
            part = sources[:, index]
            if is_sine:
                series.imag[:, index] = part.imag @ kernel.T
            else:
                series.real[:, index] = part.real @ kernel.T
        series = ducc0.sht.rotate_alm(series, self.degree, *self._from_axes)
        series[1:] = self._targets @ series[1:]
        return np.asarray(series)

    def scale(self, moments: Coefficients) -> float:
        """What the series' errors are relative to: e^{-s} ∫∫ e^{s<x,y>} dmu dmu."""
        degrees, orders = layout(self.source_degree)
        squares = np.where(orders > 0, 2.0, 1.0) * np.abs(moments) ** 2
        inside = degrees <= self.degree
        return float(self._isotropic[degrees[inside]] @ squares[inside])


def _blocks(lmax: int) -> Iterator[Block]:
    """Harmonics of each parity in each axis."""
    degrees, orders = layout(lmax)
    for is_sine in False, True:
        for parity in range(4):
            chosen = (orders % 2 == parity % 2) & ((degrees + orders) % 2 == parity // 2)
            yield np.flatnonzero(chosen & ~(is_sine & (orders == 0))), is_sine


def _euler(rotation: Array) -> tuple[float, float, float]:
    """ψ, θ, φ with R = R_z(φ) R_y(θ) R_z(ψ)."""
    phi = float(np.arctan2(rotation[1, 2], rotation[0, 2]))
    cosine, sine = np.cos(phi), np.sin(phi)
    south = cosine * rotation[0] + sine * rotation[1]
    east = cosine * rotation[1] - sine * rotation[0]
    theta = float(np.arctan2(south[2], rotation[2, 2]))
    return float(np.arctan2(east[0], east[1])), theta, phi
