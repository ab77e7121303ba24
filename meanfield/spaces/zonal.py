"""Gegenbauer series: functions on S^{d-1} that depend on <x, axis> only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from meanfield._checks import integer, read_only, unit_vector
from meanfield._records import key
from meanfield.spaces import gegenbauer
from meanfield.spaces.geometry import GOLDEN, line_points, perpendicular
from meanfield.spaces.grid import Grid, Harmonics
from meanfield.typing import Array, ArrayLike, Coefficients, Indices


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Zonal(Grid):
    """f(x) = Σ_{k <= kmax} c_k p_k(<x, axis>), p_k = sqrt(N_k) P_k orthonormal under σ.

    The grid is Gauss-Gegenbauer with 3(kmax + 1)/2 nodes in t = <x, axis>. Rounding of a series
    reaches ε Σ_k sqrt(N_k) near the axis: where d is large, values there are lost first (4e-5 in
    d = 50 with kmax 47). Almost no mass of σ is there, so integrals keep their accuracy.

    Parameters
    ----------
    dim : int
        Ambient dimension d, 2 <= d <= 1024.
    kmax : int
        Largest degree, 3 <= kmax <= 4095.
    axis : array_like, shape (d,), optional
        Unit vector; the last unit vector if omitted.

    Attributes
    ----------
    dim, size, kmax : int
        d, kmax and kmax.
    axis : ndarray, shape (d,)
    nodes : ndarray, shape (N,)
        t of each grid point, ascending.
    points : ndarray, shape (N, d)
        One point for each t, all on one meridian.
    weights : ndarray, shape (N,)
        Quadrature weights of the law of t under σ.
    laplacian : ndarray, shape (kmax + 1,)
        k(k+d-2) of each coefficient, the eigenvalues of -Δ.
    exactness : int
        Largest degree in t that the quadrature integrates exactly.

    Raises
    ------
    ValueError
        If an argument is out of range, or N_kmax leaves double precision.

    Examples
    --------
    >>> space = Zonal(10, 8)
    >>> space.analysis(1 + 0.8 * space.nodes)[1] * np.sqrt(10) / 0.8  # doctest: +ELLIPSIS
    np.float64(1.0...)
    """

    dim: int = field(
        metadata=key(
            "the ambient dimension d, 2 to 1024; that of the law if left out",
            int,
            minimum=2,
            maximum=1024,
        )
    )
    kmax: int = field(metadata=key("the largest degree, 3 to 4095", int, minimum=3, maximum=4095))
    axis: Array = field(
        metadata=key(
            "a unit vector, dim numbers; the last unit vector if left out", list[float], minItems=2
        )
    )

    kind = "zonal"
    size_name = "kmax"
    coefficient_type = np.float64
    largest_size = 4095
    size_limit = 1023

    if TYPE_CHECKING:
        # annotated as class variables, tables are no fields of the dataclass
        nodes: ClassVar[Array]
        sines: ClassVar[Array]
        basis: ClassVar[Array]
        derivative: ClassVar[Array]
        _norms: ClassVar[Array]

    def __init__(self, dim: int, kmax: int, axis: ArrayLike | None = None) -> None:
        dim = integer("dim", dim, low=2, high=1024)
        kmax = integer("kmax", kmax, low=3, high=self.largest_size)
        axis = np.eye(dim)[-1] if axis is None else unit_vector("axis", axis, dim)
        read_only(axis)
        self._keep(dim=dim, kmax=kmax, axis=axis, size=kmax, n_real=kmax + 1)
        degrees, count = np.arange(kmax + 1), (3 * (kmax + 1) + 1) // 2
        self._keep(degrees=degrees, laplacian=degrees * (degrees + dim - 2.0))
        self._keep(n_coefficients=kmax + 1, exactness=2 * count - 1)
        norms = np.sqrt(gegenbauer.multiplicities(dim, kmax))
        nodes, weights = gegenbauer.gauss_gegenbauer(dim, count)
        sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
        self._keep(nodes=nodes, weights=weights, sines=sines, _norms=norms)
        # rows are grid points; the derivative along the meridian is sqrt(1-t²) d/dt
        derivatives = gegenbauer.gegenbauer_derivative(dim, kmax, nodes) * norms[:, None]
        derivative = np.ascontiguousarray((derivatives * sines).T)
        self._keep(basis=np.ascontiguousarray(self._polynomials(nodes).T), derivative=derivative)

    def _polynomials(self, t: Array) -> Array:
        values: Array = gegenbauer.gegenbauer(self.dim, self.kmax, t)
        values *= self._norms[:, None]
        return values

    def __repr__(self) -> str:
        return f"Zonal({self.dim}, {self.kmax})"

    @cached_property
    def angles(self) -> Array:
        """Polar angles of the grid points, shape (N,), descending."""
        return np.asarray(np.arctan2(self.sines, self.nodes))

    @cached_property
    def points(self) -> Array:
        """The grid as points of one meridian, shape (N, d)."""
        across = perpendicular(self.axis)
        return np.asarray(np.outer(self.nodes, self.axis) + np.outer(self.sines, across))

    def tangent_frame(self, index: Indices) -> Array:
        """Unit tangent vectors towards the axis at the points `index`, (1, len(index), d)."""
        across = perpendicular(self.axis)
        towards = np.outer(self.sines[index], self.axis) - np.outer(self.nodes[index], across)
        return towards[None]

    def analysis(self, values: Array) -> Coefficients:
        """Coefficients (kmax + 1,) of the values (N,) on the grid."""
        return np.asarray((self.weights * values) @ self.basis)

    def synthesis(self, coefficients: Coefficients) -> Array:
        """Values (N,) on the grid of the coefficients."""
        return np.asarray(self.basis @ coefficients)

    def evaluate(self, coefficients: Coefficients, points: Array) -> Array:
        """Values (n,) at arbitrary points (n, d)."""
        return np.asarray(coefficients @ self._polynomials(np.clip(points @ self.axis, -1.0, 1.0)))

    def between_nodes(self, coefficients: Coefficients) -> tuple[Array, Array, Array]:
        """Points (N - 1, d) between those of the grid, weights of about σ, and values there."""
        polar = self.angles[:-1] + GOLDEN * np.diff(self.angles)
        points = line_points(polar, self.axis)
        weights = self.weights[:-1] ** (1.0 - GOLDEN) * self.weights[1:] ** GOLDEN
        return points, weights, self.evaluate(coefficients, points)

    def mean(self, coefficients: Coefficients) -> Array:
        """∫ x f dσ, shape (d,): along the axis."""
        return np.asarray(coefficients[1] / np.sqrt(self.dim) * self.axis)

    def exact_size(self, degree: int) -> int:
        """A size (the least, or one more) whose quadrature integrates this degree exactly."""
        return max(3, integer("degree", degree, low=0) // 3)

    def transforms(self, primitive: Array, potential: Array | None = None) -> ZonalTransforms:
        """Transforms of one right-hand side, or of several at once, with their buffers.

        See `ZonalTransforms`, and `ZonalBatch` for factors with an axis in front.
        """
        kind = ZonalTransforms if primitive.ndim == 1 else ZonalBatch
        return kind(self, primitive, potential)


class ZonalTransforms:
    """f, the derivative of S f and, if wanted, a potential s f on the grid; and the adjoint of ∂.

    S and s multiply each degree by a factor; their matrices stop at the last factor that is not
    zero. No array is allocated after construction.

    Parameters
    ----------
    space : Zonal
    primitive : ndarray, shape (kmax + 1,)
        The factors S_k.
    potential : ndarray, shape (kmax + 1,), optional
        The factors s_k.

    Attributes
    ----------
    values : ndarray, shape (N,)
    gradient, flux : ndarray, shape (1, N)
        Component towards the axis.
    potential : ndarray, shape (N,)
        Its values on the grid; of length 0 where none is wanted.
    """

    def __init__(self, space: Zonal, primitive: Array, potential: Array | None) -> None:
        shape = *primitive.shape[:-1], len(space.nodes)
        self._basis, self._weights = space.basis, space.weights
        self._tests = np.ascontiguousarray((space.derivative * space.weights[:, None]).T)
        self.values: Array = np.empty(shape)
        self.gradient: Array = np.empty((1, *shape))
        self.flux: Array = np.empty((1, *shape))
        self.potential: Array = np.empty(0 if potential is None else shape)
        self._filter(space, primitive, potential)

    def _filter(self, space: Zonal, primitive: Array, potential: Array | None) -> None:
        self._derivatives = _filtered(space.derivative, primitive)
        self._potentials = np.empty((0, 1))
        if potential is not None:
            self._potentials = _filtered(space.basis, potential)

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""
        derivatives = self._derivatives
        np.dot(self._basis, coefficients, out=self.values)
        np.dot(derivatives, coefficients[: derivatives.shape[1]], out=self.gradient[0])
        if len(self.potential) > 0:
            low = coefficients[: self._potentials.shape[1]]
            np.dot(self._potentials, low, out=self.potential)

    def weak_divergence(self, out: Coefficients) -> None:
        """out_k = ∫ `flux` sqrt(1-t²) p_k'(t) dσ, that is minus the divergence."""
        np.dot(self._tests, self.flux[0], out=out)

    def integral(self, field: Array) -> float:
        """∫ `flux` · field dσ over the components of two vector fields, shape (1, N)."""
        return float(np.dot(self._weights * self.flux[0], field[0]))


class ZonalBatch(ZonalTransforms):
    """`ZonalTransforms` of several functions at once, each with factors of its own.

    Coefficients have the shape (count, kmax + 1), fields (count, N) and (1, count, N). Matrices
    stop at the last factor of all that is not zero.

    Parameters
    ----------
    space : Zonal
    primitive : ndarray, shape (count, kmax + 1)
    potential : ndarray of the same shape, optional
    """

    def _filter(self, space: Zonal, primitive: Array, potential: Array | None) -> None:
        self._derivative = space.derivative
        self._factors = [primitive] + ([] if potential is None else [potential])
        self._products = np.empty_like(primitive)
        self._reach = [1 + int(np.max(np.nonzero(f)[1], initial=0)) for f in self._factors]

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""
        np.matmul(coefficients, self._basis.T, out=self.values)
        fields = (self._derivative, self.gradient[0]), (self._basis, self.potential)
        outputs = zip(self._factors, self._reach, fields, strict=False)
        for factors, reach, (matrix, values) in outputs:
            products = self._products[:, :reach]
            np.multiply(factors[:, :reach], coefficients[:, :reach], out=products)
            np.matmul(products, matrix[:, :reach].T, out=values)

    def weak_divergence(self, out: Coefficients) -> None:
        """out_k = ∫ `flux` sqrt(1-t²) p_k'(t) dσ of each, that is minus the divergence."""
        np.matmul(self.flux[0], self._tests.T, out=out)


def _filtered(matrix: Array, factors: Array) -> Array:
    last_degree = int(np.max(np.nonzero(factors)[0], initial=0))
    return np.ascontiguousarray(matrix[:, : last_degree + 1] * factors[: last_degree + 1])


class ZonalAt(Harmonics):
    """Moments of measures on circles of latitude against p_k = sqrt(N_k) P_k, as in `Zonal`.

    Parameters
    ----------
    axis : ndarray, shape (d,)
        Unit vector.
    kmax : int
        Largest degree.

    Attributes
    ----------
    axis : ndarray, shape (d,)
    dim : int
    degrees : ndarray of int, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If N_kmax leaves double precision.

    Examples
    --------
    >>> ZonalAt(np.array([0.0, 0.0, 1.0]), 1).moments(np.ones(1), np.ones(1))  # 1, sqrt(3)
    array([1.        , 1.73205081])
    """

    axis: Array

    def __init__(self, axis: Array, kmax: int) -> None:
        self.axis, self.dim = axis, axis.size
        self.kmax = integer("kmax", kmax, low=1)
        self.degrees, self.n_real = np.arange(self.kmax + 1), self.kmax + 1
        self._norms = np.sqrt(gegenbauer.multiplicities(self.dim, self.kmax))

    def moments(self, cosines: Array, masses: Array) -> Array:
        """c_k = Σ_j m_j p_k(t_j), shape (kmax + 1,), of masses (n,) at t = <x, axis>, shape (n,).

        The polynomials are never held at once: O(n) memory.
        """
        degrees = islice(gegenbauer.polynomials(self.dim, cosines), 1, self.kmax + 1)
        moments = [masses.sum(), *(masses @ polynomial for polynomial in degrees)]
        return np.asarray(moments * self._norms)

    def point_moments(self, points: Array, masses: Array) -> Array:
        """`moments` of masses (n,) at points (n, d)."""
        return self.moments(np.clip(points @ self.axis, -1.0, 1.0), masses)

    def resized(self, kmax: int) -> ZonalAt:
        """The same basis up to another degree."""
        return ZonalAt(self.axis, kmax)
