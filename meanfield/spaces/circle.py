"""Fourier series on the circle S^1."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import ducc0
import numpy as np

from meanfield._checks import integer
from meanfield._records import key
from meanfield.spaces.geometry import GOLDEN, circle_angles, circle_points
from meanfield.spaces.grid import Grid, Harmonics
from meanfield.typing import Array, Coefficients, Indices

# estimated plans are the same in every process, so results repeat bit for bit
_PLAN = ("FFTW_ESTIMATE",)


@dataclass(frozen=True, repr=False, eq=False)
class Circle(Grid):
    """f(θ) = Σ_{|k| < n/2} c_k e^{ikθ}, c_k = ∫ f e^{-ikθ} dσ, on 3n/2 equispaced angles.

    The grid is the one on which the product of two such series has no aliasing error in the
    degrees kept (the 3/2 rule).

    Parameters
    ----------
    n : int
        Number of modes, even, 8 <= n <= 2^20.

    Attributes
    ----------
    dim, axis : 2, None
        Grids of all of the circle have no axis.
    size : int
        n.
    kmax : int
        Largest degree, n/2 - 1; coefficients are complex, shape (n/2,), k = 0 … n/2 - 1.
    angles : ndarray, shape (N,)
        θ_j = 2πj/N with N = 3n/2.
    points : ndarray, shape (N, 2)
    weights : ndarray, shape (N,)
        Quadrature weights of σ, 1/N each.
    laplacian : ndarray, shape (n/2,)
        k(k+d-2) of each coefficient, the eigenvalues of -Δ.
    exactness : int
        Largest degree whose harmonics the quadrature integrates exactly.

    Raises
    ------
    ValueError
        If n is out of range or odd.

    Examples
    --------
    >>> space = Circle(8)
    >>> space.analysis(1 + np.cos(space.angles)).real.round(15)
    array([1. , 0.5, 0. , 0. ])
    """

    n: int = field(
        metadata=key(
            "the number of modes, even, 8 to 2^20", int, minimum=8, maximum=2**20, multipleOf=2
        )
    )

    dim = 2
    kind = "circle"
    size_name = "n"
    coefficient_type = np.complex128
    largest_size = 1 << 20
    size_limit = 1 << 14

    def __post_init__(self) -> None:
        size = integer("n", self.n, low=8, high=self.largest_size)
        if size % 2:
            raise ValueError(f"n must be even, got {self.n}")
        kmax, count = size // 2 - 1, 3 * size // 2
        degrees = np.arange(kmax + 1)
        self._keep(n=size, size=size, kmax=kmax, degrees=degrees, laplacian=degrees**2.0)
        self._keep(n_real=1, n_coefficients=kmax + 1, exactness=count - 1)
        self._keep(weights=np.full(count, 1.0 / count))

    def __repr__(self) -> str:
        return f"Circle({self.n})"

    @cached_property
    def angles(self) -> Array:
        """θ_j = 2πj/N, shape (N,)."""
        count = len(self.weights)
        return np.asarray(2.0 * np.pi / count * np.arange(count))

    @cached_property
    def points(self) -> Array:
        """The grid as points, shape (N, 2)."""
        return circle_points(self.angles)

    def tangent_frame(self, index: Indices) -> Array:
        """Unit tangent vectors at the grid points `index`, shape (1, len(index), 2)."""
        points = self.points[index]
        return np.column_stack([-points[:, 1], points[:, 0]])[None]

    def analysis(self, values: Array) -> Coefficients:
        """Coefficients (n/2,) of the values (N,) on the grid."""
        field = np.empty(len(self.weights))
        field[:] = values
        return np.asarray(ducc0.fft.r2c(field, inorm=2)[: self.kmax + 1])

    def synthesis(self, coefficients: Coefficients) -> Array:
        """Values (N,) on the grid of the coefficients (n/2,)."""
        count = len(self.weights)
        modes = np.zeros(count // 2 + 1, dtype=np.complex128)
        modes[: self.kmax + 1] = coefficients
        return np.asarray(ducc0.fft.c2r(modes, lastsize=count, forward=False))

    def evaluate(self, coefficients: Coefficients, points: Array) -> Array:
        """Values (n,) at arbitrary points (n, 2), by Horner's rule in e^{iθ}."""
        waves = horner(coefficients[1:], np.exp(1j * circle_angles(points)))
        return np.asarray(coefficients[0].real + 2.0 * waves.real)

    def between_nodes(self, coefficients: Coefficients) -> tuple[Array, Array, Array]:
        """Points (N, 2) between those of the grid, weights (N,) of σ, and values there."""
        angle = GOLDEN * self.angles[1]
        values = self.synthesis(coefficients * np.exp(1j * angle * self.degrees))
        return circle_points(self.angles + angle), self.weights, values

    def mean(self, coefficients: Coefficients) -> Array:
        """∫ x f dσ, shape (2,)."""
        return np.array([coefficients[1].real, -coefficients[1].imag])

    def exact_size(self, degree: int) -> int:
        """The least size whose quadrature integrates harmonics of this degree exactly."""
        return max(8, 2 * ((integer("degree", degree, low=0) + 3) // 3))

    def transforms(self, primitive: Array, potential: Array | None = None) -> CircleTransforms:
        """Planned transforms of one right-hand side, see `CircleTransforms`."""
        return CircleTransforms(self, primitive, potential)


def horner(coefficients: Coefficients, z: Coefficients) -> Coefficients:
    """Σ_{k>=1} c_k z^k by Horner's rule, for |z| = 1; the first coefficient is c_1."""
    total = np.zeros_like(z)
    with np.errstate(under="ignore"):
        for coefficient in coefficients[::-1]:
            total += coefficient
            total *= z
    return total


class CircleTransforms:
    """f, the gradient of S f and, if wanted, a potential s f on the grid; and the adjoint of ∂_θ.

    S and s multiply each degree by a factor. Nothing is allocated after construction. Factors with
    an axis in front, (count, kmax + 1), make one plan of the transforms of count functions at once;
    then coefficients and fields have that axis, too.

    Parameters
    ----------
    space : Circle
    primitive : ndarray, shape (kmax + 1,) or (count, kmax + 1)
        The factors S_k.
    potential : ndarray of the same shape, optional
        The factors s_k.

    Attributes
    ----------
    values : ndarray, shape (N,) or (count, N)
    gradient, flux : ndarray, shape (1, N) or (1, count, N)
        Component along increasing θ.
    potential : ndarray, shape (N,) or (count, N)
        Its values on the grid; of length 0 where none is wanted.
    """

    def __init__(self, space: Circle, primitive: Array, potential: Array | None) -> None:
        # pyfftw is imported when the first plan is made: where dask is installed, it imports dask
        import pyfftw

        count, modes, many = len(space.angles), space.kmax + 1, primitive.shape[:-1]
        k = np.arange(modes)
        rows = [np.ones(modes), 1j * k * primitive]
        if potential is not None:
            rows.append(potential)
        self._divergence = -1j * k / count
        fields = pyfftw.empty_aligned((len(rows), *many, count), dtype=np.float64)
        spectra = pyfftw.zeros_aligned((len(rows), *many, count // 2 + 1), dtype=np.complex128)
        # without FFTW_DESTROY_INPUT the zeros above kmax stay zero
        self._backward = pyfftw.FFTW(
            spectra, fields, axes=(-1,), direction="FFTW_BACKWARD", flags=_PLAN
        )
        self._flux = pyfftw.empty_aligned((*many, count), dtype=np.float64)
        flux_modes = pyfftw.empty_aligned((*many, count // 2 + 1), dtype=np.complex128)
        self._forward = pyfftw.FFTW(self._flux, flux_modes, flags=_PLAN)
        spectra[:] = 0.0
        self._flux_modes = flux_modes[..., :modes]
        self._modes = spectra[0, ..., :modes]
        # factors are multiplied row by row, since numpy would buffer a product that it broadcasts,
        # and only as far as they are not zero: beyond, spectra stay zero
        self._reach = 1 + max(int(np.max(np.nonzero(row)[-1], initial=0)) for row in rows[1:])
        self._filtered = [
            (factors[..., : self._reach].astype(np.complex128), spectrum[..., : self._reach])
            for factors, spectrum in zip(rows[1:], spectra[1:], strict=True)
        ]
        self.values: Array = fields[0]
        self.gradient: Array = fields[1:2]
        self.potential: Array = np.empty(0) if potential is None else fields[2]
        self.flux: Array = self._flux[None]

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""
        self._modes[:] = coefficients
        low = coefficients[..., : self._reach]
        for factors, modes in self._filtered:
            np.multiply(factors, low, out=modes)
        self._backward.execute()

    def weak_divergence(self, out: Coefficients) -> None:
        """out_k = ∫ `flux` ∂_θ e^{-ikθ} dσ, that is minus the divergence; destroys nothing."""
        self._forward.execute()
        np.multiply(self._divergence, self._flux_modes, out=out)

    def integral(self, field: Array) -> float:
        """∫ `flux` · field dσ over the components of two vector fields, shape (1, N)."""
        return float(np.dot(self._flux, field[0])) / len(self._flux)


EPSILON = 3e-13  # about the least that the transforms take
_TWO_THREADS_FROM = 20_000
# up to so many exponentials are summed one by one, to the last digit
_DIRECT = 1 << 20
MOST_MODES = (1 << 20) - 1


class CircleAt(Harmonics):
    """Σ_{|k| <= kmax} c_k e^{ikθ} and its adjoint at arbitrary angles, by non-uniform transforms.

    Convention and layout of the coefficients are those of `Circle`: c_k for k = 0 … kmax, c_0 the
    mass, and c_{-k} = conj(c_k). Errors are 1e-14 of the mass in moments and 1e-13 of the largest
    value in values; up to 2^20 pairs of angle and degree, those of rounding only.

    Parameters
    ----------
    kmax : int
        Largest degree, 1 <= kmax < 2^20.

    Attributes
    ----------
    degrees : ndarray of int, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If kmax is out of range.

    Examples
    --------
    >>> CircleAt(2).moments(np.array([np.pi]), np.array([0.5])).real
    array([ 0.5, -0.5,  0.5])
    """

    dim, n_real = 2, 1
    axis: None = None

    def __init__(self, kmax: int) -> None:
        self.kmax = integer("kmax", kmax, low=1, high=MOST_MODES)
        self.degrees = np.arange(self.kmax + 1)

    def moments(self, angles: Array, masses: Array) -> Coefficients:
        """c_k = Σ_j m_j e^{-ikθ_j}, shape (kmax + 1,), of masses (n,) at angles (n,)."""
        if len(angles) * (self.kmax + 1) <= _DIRECT:
            return np.asarray(np.exp(-1j * np.outer(self.degrees, angles)) @ masses)
        points = masses.astype(np.complex128)

        def sums(part: slice) -> Coefficients:
            grid = np.empty(2 * self.kmax + 1, dtype=np.complex128)
            where = _places(angles[part]) | {"nthreads": 1}
            ducc0.nufft.nu2u(points=points[part], forward=True, out=grid, **where)
            return grid[self.kmax :]

        moments = added(sums, len(angles))
        moments[0] = masses.sum()
        return moments

    def point_moments(self, points: Array, masses: Array) -> Coefficients:
        """`moments` of masses (n,) at points (n, 2)."""
        return self.moments(circle_angles(points), masses)

    def resized(self, kmax: int) -> CircleAt:
        """The same basis up to another degree."""
        return CircleAt(kmax)

    def values(self, coefficients: Coefficients, angles: Array) -> Array:
        """f, shape (n,), at angles (n,)."""
        if len(angles) * (self.kmax + 1) <= _DIRECT:
            waves = np.exp(1j * np.outer(angles, self.degrees[1:]))
            return np.asarray(coefficients[0].real + 2.0 * (waves @ coefficients[1:]).real)
        grid = np.concatenate([np.conj(coefficients[:0:-1]), coefficients])
        return np.asarray(ducc0.nufft.u2nu(grid=grid, forward=False, **_places(angles)).real)


def _places(angles: Array) -> dict[str, object]:
    """Return angles for a non-uniform transform, moved to [-π, π], where it is most accurate."""
    near_zero = np.remainder(angles + np.pi, 2.0 * np.pi) - np.pi
    return {"coord": near_zero[:, None], "epsilon": EPSILON, "nthreads": threads(angles)}


def added(sums: Callable[[slice], Coefficients], count: int) -> Coefficients:
    """The sum over so many angles or points: many are summed in two halves.

    Threads of a transform add in the order in which they end, and its sums would not repeat.
    """
    if count < _TWO_THREADS_FROM:
        return sums(slice(count))
    with ThreadPoolExecutor(1) as second_thread:
        second_half = second_thread.submit(sums, slice(count // 2, count))
        return np.asarray(sums(slice(count // 2)) + second_half.result())


def threads(angles: Array) -> int:
    """Threads of a transform, fixed by the number of angles or points so that results repeat."""
    return 2 if len(angles) >= _TWO_THREADS_FROM else 1
