"""Sums of e^{<Mx,y>} with any matrix M, between harmonics in y and harmonics in x."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import ducc0
import numpy as np
from scipy.special import ive

from meanfield._checks import real_array, tell_apart
from meanfield.kernels.multipliers import bandwidth, scaled_eigenvalues
from meanfield.spaces import CircleAt, SphereAt
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from meanfield.spaces.sphere import layout, positions
from meanfield.typing import Array, ArrayLike, Coefficients, Indices


def score_matrix(matrix: ArrayLike, dim: int) -> Array:
    """M as a (d, d) array; a number stands for that multiple of the identity.

    Raises
    ------
    ValueError
        If it is neither a number nor a finite (d, d) matrix.

    Examples
    --------
    >>> score_matrix(2.0, 2)
    array([[2., 0.],
           [0., 2.]])
    """
    if np.ndim(matrix) == 0:
        matrix = np.asarray(matrix, dtype=np.float64) * np.eye(dim)
    scores = real_array("matrix", matrix, 2)
    if scores.shape != (dim, dim):
        raise ValueError(f"matrix must be a number or ({dim}, {dim}), got shape {scores.shape}")
    return scores


def largest_score(matrix: Array) -> float:
    """|M|_2, the largest <Mx,y> of two points of the sphere.

    Examples
    --------
    >>> largest_score(np.diag([3.0, -5.0]))
    5.0
    """
    return float(np.linalg.norm(matrix, 2))


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
        rows = values[start : start + lmax + 1 - m]
        rows[0] = diagonal
        if m < lmax:
            rows[1] = np.sqrt(2 * m + 3) * cosines * diagonal
        for l in range(m + 2, lmax + 1):
            growth = np.sqrt((4 * l * l - 1) / (l * l - m * m))
            shrunk = np.sqrt(((l - 1) ** 2 - m * m) / (4 * (l - 1) ** 2 - 1))
            rows[l - m] = growth * (cosines * rows[l - m - 1] - shrunk * rows[l - m - 2])
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
        top = lmax + 1
        self._here = positions(l, m, top)
        # a product with a coordinate has the two neighbouring degrees. Each has a factor, and the
        # index of its moment; where the factor is 0, the index does not matter
        below, above = np.maximum(l - 1, 0), l + 1
        self._polar = (
            (np.sqrt((l * l - m * m) / (4.0 * l * l - 1.0)), positions(below, m, top)),
            (np.sqrt((above**2 - m * m) / (4.0 * above**2 - 1.0)), positions(above, m, top)),
        )
        up, down = m + 1, np.abs(m - 1)
        low_factor, outer = np.abs(4.0 * l * l - 1.0), (2.0 * l + 1.0) * (2.0 * l + 3.0)
        self._raised = (
            (np.sqrt((l - m) * (l - m - 1.0) / low_factor), positions(below, up, top)),
            (-np.sqrt((l + m + 1.0) * (l + m + 2.0) / outer), positions(above, up, top)),
        )
        self._lowered = (
            (-np.sqrt((l + m) * (l + m - 1.0) / low_factor), positions(below, down, top)),
            (np.sqrt((l - m + 1.0) * (l - m + 2.0) / outer), positions(above, down, top)),
        )

    def __call__(self, moments: Coefficients) -> Coefficients:
        """Shape (4, n_coefficients), of moments in the layout of degree lmax + 1."""
        pairs = self._raised, self._lowered, self._polar
        raised, lowered, polar = (sum(f * moments[index] for f, index in pair) for pair in pairs)
        # at order 0 the moments of a real measure with y_1 + i y_2 and y_1 - i y_2 are conjugate
        lowered = np.where(self.orders == 0, np.conj(raised), lowered)
        # `raised` is the product with y_1 - i y_2, `lowered` that with y_1 + i y_2
        across = 0.5 * (raised + lowered), 0.5j * (raised - lowered)
        return np.stack([moments[self._here], *across, polar])


class Bilinear:
    """The part that both have; arguments and attributes are theirs."""

    dim: ClassVar[int]
    largest_score: ClassVar[float]
    _harmonics: ClassVar[type[CircleAt] | type[SphereAt]]

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = score_matrix(matrix, self.dim)
        self.log_unit = self.checked_score(self.matrix)
        self.degree = bandwidth(self.log_unit, self.dim)
        self.source_degree = self.degree + 1
        self.sources = self._harmonics(self.source_degree)
        self._isotropic = scaled_eigenvalues(self.log_unit, self.dim, self.degree)

    @classmethod
    def checked_score(cls, matrix: Array) -> float:
        """|M|_2, if its kernel has not too many harmonics.

        Raises
        ------
        ValueError
            Naming the largest |M|_2.
        """
        score = largest_score(matrix)
        # a norm may exceed its bound by rounding
        if score > cls.largest_score * (1.0 + 1e-12):
            raise ValueError(
                f"beta |KᵀQ| must be <= {cls.largest_score:g} for series in dim = {cls.dim}, got "
                f"{tell_apart(score, cls.largest_score)[0]}: take Particles"
            )
        return score

    def __repr__(self) -> str:
        return f"{type(self).__name__}(|M| = {self.log_unit:.6g}, degree={self.degree})"


class CircleBilinear(Bilinear):
    """G(Mx) = ∫ e^{<Mx,y>} dmu(y) and ∫ y e^{<Mx,y>} dmu(y) as Fourier series in x.

    M is a multiple a of a rotation by α plus a multiple b of a reflection, so that <Mx(θ),y(φ)> =
    a cos(θ - φ + α) + b cos(θ + φ - γ), and the moment c_k counts in the coefficient of e^{ijθ}
    by I_p(a) I_q(b) e^{i(pα - qγ)}, p = (j+k)/2 and q = (j-k)/2, 0 where these are not whole.
    Each entry is right to rounding; what is cut is below 1e-17 of the largest. The series' errors
    are 1e-15 of `mean_potential`.

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
    sources : CircleAt
        Their harmonics.

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
    _harmonics = CircleAt

    def __init__(self, matrix: ArrayLike) -> None:
        super().__init__(matrix)
        self._kernel = self._entries()

    def _entries(self) -> Coefficients:
        """Return K_jk with rows j = 0 … degree and columns k = -degree … degree."""
        (m11, m12), (m21, m22) = self.matrix
        turn = 0.5 * complex(m11 + m22, m21 - m12)
        flip = 0.5 * complex(m11 - m22, m21 + m12)
        j = np.arange(self.degree + 1)[:, None]
        k = np.arange(-self.degree, self.degree + 1)
        p, q = (j + k) // 2, (j - k) // 2
        entries = self._modes(turn, self.degree)[p + self.degree]
        entries = entries * self._modes(flip.conjugate(), self.degree)[q + self.degree]
        entries[(j + k) % 2 == 1] = 0.0
        # |M|_2 is the sum of both moduli to rounding only, an error that e^s would multiply
        entries *= np.exp(abs(turn) + abs(flip) - self.log_unit)
        return np.asarray(entries)

    @staticmethod
    def _modes(number: complex, degree: int) -> Coefficients:
        """Return e^{-r} I_p(r) e^{ipα} of r e^{iα}, p = -degree … degree."""
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
        two_sided = np.concatenate([np.conj(moments[:0:-1]), moments])
        lower, higher = two_sided[:-2], two_sided[2:]
        sources = np.stack([two_sided[1:-1], 0.5 * (lower + higher), 0.5j * (higher - lower)])
        return np.asarray(sources @ self._kernel.T)

    def mean_potential(self, moments: Coefficients) -> float:
        """e^{-s} ∫∫ e^{s<x,y>} dmu dmu, to which errors of the series are relative."""
        squares = np.abs(moments[: self.degree + 1]) ** 2
        return float(2.0 * (self._isotropic @ squares) - self._isotropic[0] * squares[0])


# the indices of coefficients, and whether they are those of sin mφ or of cos mφ
Block = tuple[Indices, bool]


class SphereBilinear(Bilinear):
    """G(Mx) = ∫ e^{<Mx,y>} dmu(y) and ∫ y e^{<Mx,y>} dmu(y) as series of harmonics in x.

    With M = U Σ Wᵀ the kernel is e^{Σ σ_i x_i y_i} between the turned harmonics, which keeps the
    parities in each of the three axes: eight blocks of a matrix, found by a quadrature of
    Λ_l(|Σx|) Y_lm(Σx/|Σx|) that is exact to rounding. What is cut is below 1e-17 of the largest;
    the series' errors are 1e-14 of `mean_potential`. Memory is degree⁴ bytes, 6 MB at |M| = 25, and
    140 MB at |M| = 128.

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
    sources : SphereAt
        Their harmonics.

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
    _harmonics = SphereAt

    def __init__(self, matrix: ArrayLike) -> None:
        super().__init__(matrix)
        targets, lengths, sources = np.linalg.svd(self.matrix)
        sources = sources.T
        # both sides become rotations without reflection: the sign goes to a length
        for turn in targets, sources:
            if np.linalg.det(turn) < 0.0:
                turn[:, 2] *= -1.0
                lengths[2] *= -1.0
        self._targets, self._coordinates = targets, Coordinates(self.degree)
        self._to_axes, self._from_axes = _euler(targets.T), _euler(sources)
        self._blocks = list(_blocks(self.degree))
        self._kernels = self._entries(lengths)

    def _entries(self, lengths: Array) -> list[Array]:
        """One matrix for each block, by quadrature in x over the octant of positive coordinates."""
        lmax = self.degree
        rings = 2 * ((lmax + 2) // 2)
        cosines, weights = (each[rings // 2 :] for each in gauss_gegenbauer(3, rings))
        count = (lmax + 2) // 2
        longitudes = 0.5 * np.pi / count * (np.arange(count) + 0.5)
        cosine, longitude = np.repeat(cosines, count), np.tile(longitudes, len(cosines))
        sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
        # one octant is summed, and stands for all eight
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
        """Return e^{-s} Λ_l(r), shape (degree + 1, n)."""
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
        rotated = ducc0.sht.rotate_alm(moments, self.source_degree, *self._to_axes)
        sources = self._coordinates(rotated)
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

    def mean_potential(self, moments: Coefficients) -> float:
        """e^{-s} ∫∫ e^{s<x,y>} dmu dmu, to which errors of the series are relative."""
        degrees, orders = layout(self.source_degree)
        squares = np.where(orders > 0, 2.0, 1.0) * np.abs(moments) ** 2
        inside = degrees <= self.degree
        return float(self._isotropic[degrees[inside]] @ squares[inside])


def _blocks(lmax: int) -> Iterator[Block]:
    """Yield the harmonics of each parity in each axis."""
    degrees, orders = layout(lmax)
    for is_sine in False, True:
        for parity in range(4):
            chosen = (orders % 2 == parity % 2) & ((degrees + orders) % 2 == parity // 2)
            yield np.flatnonzero(chosen & ~(is_sine & (orders == 0))), is_sine


def _euler(rotation: Array) -> tuple[float, float, float]:
    """Return ψ, θ, φ with R = R_z(φ) R_y(θ) R_z(ψ)."""
    phi = float(np.arctan2(rotation[1, 2], rotation[0, 2]))
    cosine, sine = np.cos(phi), np.sin(phi)
    south = cosine * rotation[0] + sine * rotation[1]
    east = cosine * rotation[1] - sine * rotation[0]
    theta = float(np.arctan2(south[2], rotation[2, 2]))
    return float(np.arctan2(east[0], east[1])), theta, phi
