"""Symmetric Sinkhorn scaling: u with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, for masses at nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from meanfield._checks import rows
from meanfield.kernels import line
from meanfield.kernels.direct import PairSums, logs, point_log_moment
from meanfield.kernels.harmonics import SphereNodes, SphereSums
from meanfield.kernels.kernel import Exponential
from meanfield.kernels.line import Line, LineSums
from meanfield.kernels.multipliers import bandwidth
from meanfield.kernels.sums import NodeSums
from meanfield.spaces import Space, Sphere
from meanfield.spaces.geometry import circle_angles, polar_angles
from meanfield.typing import Array, ArrayLike

# residuals of so many steps are combined; more gain nothing beside the best rate, 0.17 a step
_MEMORY = 6
_MOST = 200
# the linearised equation has eigenvalues from 1 to 2, and this step damps all modes to a third
_STEP = 2.0 / 3.0
_ROUNDING = 5e-15
# sums may have errors of their own, so the iteration ends after so many steps without gain below
# this residual
_STALLED, _GOOD = 6, 1e-7


def scaling(
    potential: Callable[[Array], Array], masses: Array, start: Array | None = None
) -> Array:
    """a = log u with u_i Σ_j k_ij m_j u_j = 1, shape (n,), for a positive semi-definite kernel k.

    The residual F(a) = a + log Σ_j k_ij m_j e^{a_j} has the derivative I + P, P_ij ∝ k_ij m_j
    e^{a_j} with rows of sum 1. P is self-adjoint and >= 0 with eigenvalues in [0, 1], so I + P has
    a condition of at most 2 at any β and for any masses: the damped iteration a - (2/3) F gains a
    factor of 3 a step, Anderson's (1965) combination of the last six some 6 (√2 - 1 over √2 + 1, as
    for conjugate gradients).

    Parameters
    ----------
    potential : callable
        Σ_j k_ij m_j, shape (n,), of masses (n,).
    masses : ndarray, shape (n,)
        >= 0, of sum 1. Since k_ii m_i u_i² <= 1, no u is large where there is mass.
    start : ndarray, shape (n,), optional
        A first guess.

    Raises
    ------
    ArithmeticError
        If sums are not finite, or too inexact for the iteration to converge.

    Examples
    --------
    >>> kernel = np.exp(np.eye(2) - 1.0)
    >>> a = scaling(kernel.__matmul__, np.array([0.5, 0.5]))
    >>> np.exp(-2.0 * a) * 2.0 - np.exp(-1.0)  # u² (1 + e^{-1})/2 = 1
    array([1., 1.])
    """
    log_u = -0.5 * np.log(np.maximum(potential(masses), 1e-300)) if start is None else start
    best, least, since = log_u, np.inf, 0
    path: list[tuple[Array, Array]] = []
    for _ in range(_MOST):
        residual = _residual(potential, masses, log_u)
        size = float(np.abs(residual).max())
        if not np.isfinite(size):
            raise ArithmeticError(f"the Sinkhorn iteration came to a residual of {size}")
        since = 0 if size < 0.5 * least else since + 1
        if size < least:
            best, least = log_u, size
        if least <= _ROUNDING * (1.0 + 0.2 * float(np.abs(best).max())):
            return best
        if since > _STALLED:
            break
        path = [*path[-_MEMORY:], (log_u, residual)]
        log_u = _combined(path)
    if least > _GOOD:
        raise ArithmeticError(
            f"the Sinkhorn iteration stands still at a residual of {least:.1e}: the sums that it "
            f"is given are not those of a positive kernel to that accuracy"
        )
    return best


def _residual(potential: Callable[[Array], Array], masses: Array, log_u: Array) -> Array:
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        weighted = masses * np.exp(log_u)
        weighted[masses == 0.0] = 0.0
        return np.asarray(log_u + np.log(np.maximum(potential(weighted), 1e-300)))


def _combined(path: list[tuple[Array, Array]]) -> Array:
    """The next point: a step from the combination of the last points with the least residual."""
    log_u, residual = path[-1]
    if len(path) == 1:
        return log_u - _STEP * residual
    points = np.diff([p for p, _ in path], axis=0)
    residuals = np.diff([r for _, r in path], axis=0)
    shares = np.linalg.lstsq(residuals.T, residual, rcond=1e-12)[0]
    step = _STEP * (residual - shares @ residuals)
    return np.asarray(log_u - shares @ points - step, dtype=np.float64)


class LineNodes(LineSums):
    """Through the cells of a line, at points of the circle."""

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, 2)."""
        potential, derivative = self(masses, 2)
        tangents = np.column_stack([-np.sin(self._angles), np.cos(self._angles)])
        return np.maximum(potential, np.maximum(masses, 1e-300)), derivative[:, None] * tangents


def point_sums(points: Array, beta: float, tables: Any = None) -> NodeSums:
    """The sums over masses at points (n, d): in O(n) on the circle and S^2 up to β = 20000.

    With these tables of e^{βt}, a `CircleLine` or `SphereSums`, if they are made already.

    Examples
    --------
    >>> point_sums(np.eye(2), 1.0).potential(np.array([0.0, 1.0])).round(6)
    array([0.367879, 1.      ])
    """
    dim = points.shape[1]
    # for a larger β tables and moments do not fit in memory, but blocks of pairs do
    if beta > line.LARGEST_CIRCLE_BETA or dim > 3:
        return PairSums(points, beta)
    if dim == 2:
        return LineNodes.repeated(tables or line.line(beta, 2), circle_angles(points))
    return SphereNodes(points, tables or SphereSums(Exponential(beta)))


def latitude_sums(points: Array, axis: Array, beta: float) -> LineSums:
    """The sums over masses that are spread over latitudes about an axis, d >= 3.

    Raises
    ------
    ValueError
        If β > 150.
    """
    return LineSums(line.line(beta, points.shape[1]), polar_angles(points, axis))


# tables of all pairs are kept up to so many angles: three of them take 24 MB
_MOST_ANGLES = 1024
# a grid of S^2 for this degree has some two million points
_HIGHEST_DEGREE = 2048


def working_grid(space: Space, beta: float) -> Space:
    """The space itself, or the least of its kind whose grid holds f and twice the bandwidth of K.

    u is no series, but e^{β<x,y>} u(y) has about the bandwidth of the kernel, or less.

    Raises
    ------
    ValueError
        If that takes a degree above 2048 beyond the circle.
    """
    degree = space.kmax + 2 * bandwidth(beta, space.dim)
    if space.exactness >= degree:
        return space
    if degree > _HIGHEST_DEGREE and space.kind != "circle":
        raise ValueError(
            f"beta must be smaller for doubly stochastic attention on {space}, got {beta:g}, which "
            f"takes a grid for degree {degree} > {_HIGHEST_DEGREE}"
        )
    return space.resize(max(space.size, space.exact_size(degree)))


class LineGrid(LineSums):
    """Through the cells of a line, or pair by pair, at the angles of a grid: K keeps its digits.

    Parameters
    ----------
    space : Circle or Zonal
    beta : float

    Raises
    ------
    ValueError
        If β > 150 for a `Zonal` space.
    """

    def __init__(self, space: Any, beta: float) -> None:
        # the polar angle grows away from the axis
        self._sign = 1.0 if space.axis is None else -1.0
        if space.axis is None:
            cells: Line = line.line(beta, 2)
        else:
            dim, kernel = space.dim, partial(line.zonal_kernel, beta, space.dim)
            cells = line.latitude_line(dim, beta, kernel, "beta", "doubly stochastic attention")
        # a grid does not change, so a table of its pairs is made but once
        super().__init__(cells, space.angles, 0 if len(space.angles) <= _MOST_ANGLES else None)

    def components(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and the pull P_x Σ_j k_ij m_j y_j along the angle, or to the axis, (1, n)."""
        potential, derivative = self(masses, 2)
        return potential, self._sign * derivative[None]


class SphereGrid(SphereNodes):
    """Through spherical harmonics, at the points of a grid."""

    def __init__(self, space: Space, beta: float, most_pairs: int) -> None:
        super().__init__(space.points, SphereSums(Exponential(beta)), most_pairs)
        self._space = space

    @cached_property
    def _frame(self) -> Array:
        return self._space.tangent_frame(np.arange(len(self._space.weights)))

    def components(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and the pull P_x Σ_j k_ij m_j y_j along the frame of the grid, shape (2, n)."""
        potential, pull = self.pull(masses)
        return potential, np.einsum("aid,id->ai", self._frame, pull)


def grid_sums(space: Space, beta: float, most_pairs: int = 0) -> LineGrid | SphereGrid:
    """Sums over masses at the points of a grid; `most_pairs` as of `SphereNodes`, on S^2.

    Raises
    ------
    ValueError
        If β > 150 for a `Zonal` space.
    """
    is_sphere = space.kind == Sphere.kind
    return SphereGrid(space, beta, most_pairs) if is_sphere else LineGrid(space, beta)


# for a smaller β the energy E_DS is computed from its expansion in β
_BY_EXPANSION = 3e-5


@dataclass(frozen=True, eq=False)
class Balanced:
    """u mu at the nodes of mu, with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Nodes of mu; with an axis, one for each latitude.
    masses : ndarray, shape (n,)
        Of mu.
    log_u : ndarray, shape (n,)
    axis : ndarray, shape (d,), optional
        About which the masses are spread evenly.
    """

    points: Array
    masses: Array
    log_u: Array
    axis: Array | None = None

    @classmethod
    def of(
        cls,
        points: Array,
        masses: Array,
        beta: float,
        sums: NodeSums | LineSums,
        axis: Array | None = None,
    ) -> Balanced:
        """Scale masses >= 0 at points by the sums over them."""
        if beta == 0.0:
            return cls(points, masses, np.zeros(len(masses)), axis)
        # sums are in units of e^β
        log_u = scaling(sums.potential, masses / masses.sum()) - 0.5 * beta
        return cls(points, masses, log_u - 0.5 * np.log(masses.sum()), axis)

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return int(self.points.shape[1])

    @cached_property
    def _weighted(self) -> tuple[Array, float]:
        """Return the masses of u mu in units of the largest, and its logarithm."""
        logs = np.full(len(self.masses), -np.inf)
        np.log(self.masses, out=logs, where=self.masses > 0.0)
        logs += self.log_u
        largest = float(logs.max())
        with np.errstate(under="ignore"):
            return np.exp(logs - largest), largest

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G (n,) and ∇ log G (n, d) of u mu at rows z (n, d), from positive terms.

        Raises
        ------
        ValueError
            If z is not finite or has the wrong length.
        """
        z = rows("z", z, self.dim)
        weighted, log_unit = self._weighted
        log_g, mean = point_log_moment(self.points, logs(weighted), z, self.axis)
        return log_g + log_unit, mean

    def energy(self, beta: float) -> float:
        """E_DS = -(1/β) ∫ log u dmu of mu, a probability measure, at β > 0.

        Rounding of log u costs 1e-15/β. Below β = 3e-5 E_DS is |m|²/2 + β |C|²/4 to 1e-10, with
        the mean m and the covariance C of mu.
        """
        if beta > _BY_EXPANSION:
            return -float(self.masses @ self.log_u) / beta
        if self.axis is None:
            mean = self.masses @ self.points
            gaps = self.points - mean
            covariance = gaps.T @ (gaps * self.masses[:, None])
            return 0.5 * float(mean @ mean) + 0.25 * beta * float(np.sum(covariance**2))
        cosines = self.points @ self.axis
        along = float(self.masses @ cosines)
        squares = float(self.masses @ (cosines - along) ** 2) ** 2
        squares += float(self.masses @ (1.0 - cosines**2)) ** 2 / (self.dim - 1)
        return 0.5 * along**2 + 0.25 * beta * squares
