"""e^{<Mx,y>} between Fourier modes on the circle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.bilinear.scores import largest_score, score_matrix
from meanfield.harmonics import bandwidth, scaled_eigenvalues

Array = NDArray[np.float64]
Coefficients = NDArray[Any]


class CircleBilinear:
    """G(Mx) = ∫ e^{<Mx,y>} dmu(y) and ∫ y e^{<Mx,y>} dmu(y) as Fourier series in x.

    M is a multiple a of a rotation by α plus a multiple b of a reflection, so that <Mx(θ),y(φ)> =
    a cos(θ - φ + α) + b cos(θ + φ - γ), and the moment c_k counts in the coefficient of e^{ijθ}
    by I_p(a) I_q(b) e^{i(pα - qγ)}, p = (j+k)/2 and q = (j-k)/2, 0 where these are not whole.
    Each entry is right to rounding; what is cut is below 1e-17 of the largest. The series' errors
    are 1e-15 of `scale`.

    Parameters
    ----------
    matrix : array_like, shape (2, 2), or float
        M; a number stands for that multiple of the identity.

    Attributes
    ----------
    matrix : ndarray, shape (2, 2)
    log_unit : float
        s = |M|_2; coefficients are in units of e^s.
    degree : int
        Largest degree in x.
    source_degree : int
        Largest degree of the moments asked for, degree + 1.

    Raises
    ------
    ValueError
        If M is no finite (2, 2) matrix, or |M|_2 > 10000.

    Examples
    --------
    >>> bilinear = CircleBilinear(2.0)
    >>> dirac = np.ones(bilinear.source_degree + 1, dtype=complex)  # at θ = 0: G = e^{2 cos θ}
    >>> series = bilinear.coefficients(dirac)[0]
    >>> round(float(series[0].real + 2.0 * series[1:].real.sum()), 14)
    1.0
    """

    dim = 2
    largest_score = 1e4

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = score_matrix(matrix, self.dim)
        self.log_unit = largest_score(self.matrix)
        check_score(self.log_unit, self.largest_score, self.dim)
        self.degree = bandwidth(self.log_unit, self.dim)
        self.source_degree = self.degree + 1
        self._isotropic = scaled_eigenvalues(self.log_unit, self.dim, self.degree)
        self._kernel = self._entries()

    def __repr__(self) -> str:
        return f"CircleBilinear(|M| = {self.log_unit:.6g}, degree={self.degree})"

    def _entries(self) -> Coefficients:
        """K_jk, rows j = 0 … degree, columns k = -degree … degree."""
        (m11, m12), (m21, m22) = self.matrix
        turn = 0.5 * complex(m11 + m22, m21 - m12)
        flip = 0.5 * complex(m11 - m22, m21 + m12)
        j = np.arange(self.degree + 1)[:, None]
        k = np.arange(-self.degree, self.degree + 1)
        p, q = (j + k) // 2, (j - k) // 2
        entries = self._modes(turn, self.degree)[p + self.degree]
        entries = entries * self._modes(flip.conjugate(), self.degree)[q + self.degree]
        entries[(j + k) % 2 == 1] = 0.0
        # |M|_2 is the sum of the two to rounding, which e^s would feel
        entries *= np.exp(abs(turn) + abs(flip) - self.log_unit)
        return np.asarray(entries)

    @staticmethod
    def _modes(number: complex, degree: int) -> Coefficients:
        """e^{-r} I_p(r) e^{ipα} of r e^{iα}, p = -degree … degree."""
        radius = abs(number)
        bessel = scaled_eigenvalues(radius, 2, degree)
        both = np.concatenate([bessel[:0:-1], bessel])
        return np.asarray(both * np.exp(1j * np.angle(number) * np.arange(-degree, degree + 1)))

    def coefficients(self, moments: Coefficients) -> Coefficients:
        """Series of e^{-s} G(Mx), and of e^{-s} ∫ y_i e^{<Mx,y>} dmu for i = 1, 2.

        Parameters
        ----------
        moments : ndarray, shape (source_degree + 1,)
            c_k = ∫ e^{-ikφ} dmu, in the layout of `Circle` and `CircleAt`.

        Returns
        -------
        ndarray, shape (3, degree + 1)
            In the same layout.
        """
        both = np.concatenate([np.conj(moments[:0:-1]), moments])
        before, after = both[:-2], both[2:]
        sources = np.stack([both[1:-1], 0.5 * (before + after), 0.5j * (after - before)])
        return np.asarray(sources @ self._kernel.T)

    def scale(self, moments: Coefficients) -> float:
        """What the series' errors are relative to: e^{-s} ∫∫ e^{s<x,y>} dmu dmu."""
        squares = np.abs(moments[: self.degree + 1]) ** 2
        return float(2.0 * (self._isotropic @ squares) - self._isotropic[0] * squares[0])


def check_score(score: float, largest: float, dim: int) -> None:
    """Refuse a matrix whose kernel has too many harmonics.

    Raises
    ------
    ValueError
        Naming the largest |M|_2.
    """
    if score > largest:
        raise ValueError(
            f"beta |KᵀQ| must be <= {largest:g} for series in dim = {dim}, got {score:g}: "
            f"take Particles"
        )
