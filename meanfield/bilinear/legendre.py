"""Normalised Legendre functions, and what coordinates do to spherical harmonics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Coefficients = NDArray[Any]


def layout(lmax: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Degrees and orders of coefficients as in `Sphere`: m = 0 … lmax, for each l = m … lmax."""
    size = lmax + 1
    orders = np.repeat(np.arange(size), size - np.arange(size))
    return np.concatenate([np.arange(m, size) for m in range(size)]), orders


def legendre(lmax: int, cosines: Array, sines: Array) -> Array:
    """Y_lm at longitude 0, shape (n_coefficients, n), orthonormal with respect to σ.

    By the recurrence in l, which is stable upwards, from Y_mm, sines to the power m.

    Examples
    --------
    >>> legendre(1, np.array([0.5]), np.array([0.75**0.5])).round(6)[:, 0]  # 1, √3/2, -(3/2)√(3/4)
    array([ 1.      ,  0.866025, -1.06066 ])
    """
    values = np.empty(((lmax + 1) * (lmax + 2) // 2, len(cosines)))
    diagonal, start = np.ones(len(cosines)), 0
    for m in range(lmax + 1):
        if m > 0:
            diagonal = -np.sqrt((2 * m + 1) / (2 * m)) * sines * diagonal
        here = values[start : start + lmax + 1 - m]
        here[0] = diagonal
        if m < lmax:
            here[1] = np.sqrt(2 * m + 3) * cosines * diagonal
        for l in range(m + 2, lmax + 1):
            grown = np.sqrt((4 * l * l - 1) / (l * l - m * m))
            shrunk = np.sqrt(((l - 1) ** 2 - m * m) / (4 * (l - 1) ** 2 - 1))
            here[l - m] = grown * (cosines * here[l - m - 1] - shrunk * here[l - m - 2])
        start += lmax + 1 - m
    return values


class Coordinates:
    """Moments of mu, y_1 mu, y_2 mu and y_3 mu up to lmax from those of mu up to lmax + 1.

    Parameters
    ----------
    lmax : int

    Examples
    --------
    >>> moments = np.array([1.0, 3.0**0.5, 0.0])  # Dirac mass at the north pole up to degree 1
    >>> Coordinates(0)(moments.astype(complex))[:, 0].real
    array([1., 0., 0., 1.])
    """

    def __init__(self, lmax: int) -> None:
        self.degrees, self.orders = layout(lmax)
        l, m = self.degrees, self.orders
        wide = lmax + 1
        self._here = self._index(l, m, wide)
        # in each pair of neighbours: what multiplies them, and where they are
        below, above = np.maximum(l - 1, 0), l + 1
        self._polar = (
            (np.sqrt((l * l - m * m) / (4.0 * l * l - 1.0)), self._index(below, m, wide)),
            (np.sqrt((above**2 - m * m) / (4.0 * above**2 - 1.0)), self._index(above, m, wide)),
        )
        up, down = m + 1, np.abs(m - 1)
        inner, outer = np.abs(4.0 * l * l - 1.0), (2.0 * l + 1.0) * (2.0 * l + 3.0)
        self._raised = (
            (np.sqrt((l - m) * (l - m - 1.0) / inner), self._index(below, up, wide)),
            (-np.sqrt((l + m + 1.0) * (l + m + 2.0) / outer), self._index(above, up, wide)),
        )
        self._lowered = (
            (-np.sqrt((l + m) * (l + m - 1.0) / inner), self._index(below, down, wide)),
            (np.sqrt((l - m + 1.0) * (l - m + 2.0) / outer), self._index(above, down, wide)),
        )

    @staticmethod
    def _index(l: NDArray[np.intp], m: NDArray[np.intp], lmax: int) -> NDArray[np.intp]:
        """Where c_lm stands; anywhere for what has the factor 0."""
        return np.asarray(m * (2 * lmax + 1 - m) // 2 + l)

    def __call__(self, moments: Coefficients) -> Coefficients:
        """Shape (4, n_coefficients), of moments in the layout of degree lmax + 1."""
        raised, lowered, polar = (
            sum(factor * moments[index] for factor, index in pair)
            for pair in (self._raised, self._lowered, self._polar)
        )
        # real harmonics of order 0
        lowered = np.where(self.orders == 0, np.conj(raised), lowered)
        # raised is of y_1 - i y_2, lowered of y_1 + i y_2
        across = 0.5 * (raised + lowered), 0.5j * (raised - lowered)
        return np.stack([moments[self._here], *across, polar])
