"""What every measure answers, and what measures of weighted points share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from meanfield._checks import check_measure, integer, rows, shown
from meanfield._shown import ShownMeasure
from meanfield.kernels.direct import logs, moment, point_log_moment
from meanfield.kernels.kernel import SmoothKernel
from meanfield.kernels.sinkhorn import Balanced
from meanfield.kernels.token_sums import SeriesSums
from meanfield.spaces import Harmonics
from meanfield.spaces.circle import MOST_MODES, CircleAt
from meanfield.spaces.gegenbauer import multiplicities
from meanfield.spaces.geometry import are_parallel, circle_angles
from meanfield.typing import Array, ArrayLike, Coefficients, NDArray, Steepness


class Measure(ShownMeasure, ABC):
    """A probability measure on S^{d-1}.

    Attributes
    ----------
    dim : int
    points : ndarray, shape (n, d)
        Places that integrate over the measure: tokens, nodes, or a grid. About an axis they lie on
        one meridian and stand for their latitudes.
    weights : ndarray, shape (n,)
        Their masses; those of a grid may be < 0 where a series is.
    axis : ndarray, shape (d,), or None
        The axis, if points stand for latitudes about one.
    degree : int or None
        That at which a series ends; None where the measure is none.
    is_uniform : bool
        Whether it is a series and, to rounding, σ.
    has_density : bool
        Whether it has a density with respect to σ, apart from clusters that are atoms.
    is_ordered : bool
        Whether points are tokens, whose order a mask reads.
    """

    _for_users = "axis", "dim", "log_moment", "mass", "mean", "moment", "points", "weights"

    dim: int
    points: Array
    weights: Array
    axis: Array | None = None
    natural_frequencies: Array | None = None
    degree: int | None = None
    is_uniform: bool = False
    has_density: bool = True
    is_ordered: bool = False

    @property
    def run_limits(self) -> Mapping[str, object]:
        """The limits of a run: arguments that its measures hand on."""
        return {}

    def __len__(self) -> int:
        """Number of points."""
        return len(self.points)

    def mass(self) -> float:
        """∫ dmu."""
        return float(self.weights.sum())

    def mean(self) -> Array:
        """∫ x dmu, shape (d,)."""
        return np.asarray(self.weights @ self.points)

    @property
    def quadrature(self) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) that integrate over the measure: `points`, `weights`."""
        return self.points, self.weights

    def at_scale(self, radius: float) -> tuple[Array, Array]:  # noqa: ARG002 (of tokens)
        """Points (n, d) and masses (n,) that stand for the measure where a radius is a point.

        What is smooth is at points that are near to one another on that scale.

        Raises
        ------
        ValueError
            If that takes too many of them.
        """
        return self.quadrature

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) of what sits at points: tokens, and clusters as atoms."""
        return np.zeros((0, self.dim)), np.zeros(0)

    def is_about(self, axis: Array, within: float) -> bool:  # noqa: ARG002 (of tokens)
        """Whether the measure states that it is symmetric about a unit vector (d,).

        Tokens with mass may miss the axis by less than `within`.
        """
        return are_parallel(self.axis, axis)

    def for_transport(self, p: float) -> tuple[Any, float]:  # noqa: ARG002 (of meshes)
        """The measure that W_p moves in its place, and an estimate of W_p between both, or inf."""
        return self, 0.0

    @abstractmethod
    def balance(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1.

        Raises
        ------
        ValueError
            If β is negative, not finite, or too large for what stands for the measure.
        """

    @abstractmethod
    def harmonic_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """∫ conj(Y) dmu for all Y of the basis, and the share of Σ multipliers · power left out.

        A flow map is a quadrature: it does not know the degrees that its nodes don't resolve.
        Its part without atoms is taken up to the first degree past which the power is negligible,
        and is 0 from there on. The share is that of its last half of degrees; all else is complete.

        Parameters
        ----------
        basis : CircleAt, SphereAt or ZonalAt
        multipliers : ndarray, shape (kmax + 1,)
            What the power of each degree will be multiplied with.
        """

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G(z) and ∇ log G(z), G(z) = ∫ e^{<z,y>} dmu(y), at rows z (m, d) of any length.

        Sums of positive terms, right to rounding, or to `tol` of a flow map, relative to G itself
        where G is small. Those of tokens take O(n + m) on the circle and S^2 where all z are of one
        length, as βx are, else O(n m).

        Raises
        ------
        ValueError
            If z is not finite, has the wrong length, or is too long for any grid of the space or
            for the nodes to resolve.
        """
        return self.log_moment_at(rows("z", z, self.dim))

    def log_moment_at(self, z: Array) -> tuple[Array, Array]:
        """As `log_moment`, at rows that are checked: a sum of positive terms over nodes."""
        points, masses = self.kernel_nodes(None, float(np.linalg.norm(z, axis=1).max()))
        return point_log_moment(points, logs(masses), z, self.axis)

    def score_moment(self, points: Array, scores: Array) -> tuple[Array, Array]:
        """log G and ∇ log G at Mx for points x (m, d), M = `scores` symmetric."""
        return self.log_moment(points @ scores)

    def moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """G(z), shape (m,), and ∇G(z), shape (m, d), at rows z (m, d) of any length.

        Raises
        ------
        ValueError
            If z is not finite, has the wrong length, or G(z) overflows.
        """
        return moment(*self.log_moment(z))

    def trigonometric_moments(self, kmax: int) -> NDArray[np.complex128]:
        """m_k = ∫ e^{-ikθ} dmu, k = 0 … kmax, on the circle; on nodes that resolve them.

        Raises
        ------
        ValueError
            If dim is not 2, or it takes too many nodes.
        """
        if self.dim != 2:
            raise ValueError(f"dim must be 2 for moments in e^(ikθ), got {self.dim}")
        kmax = integer("kmax", kmax, low=0, high=MOST_MODES)
        points, masses = self.resolve(float(kmax)).quadrature
        return CircleAt(max(1, kmax)).moments(circle_angles(points), masses)[: kmax + 1]

    def resolve(self, beta: float, steepness: Steepness | None = None) -> Self:  # noqa: ARG002 (of flow maps)
        """The same measure with nodes that integrate e^{β<x,y>} at any x, to `tol` of it.

        So they do a drift of this steepness.

        Raises
        ------
        ValueError
            If there is no such flow map: too many nodes, or the law is out of reach.
        """
        return self

    def kernel_nodes(self, degree: int | None, reach: float) -> tuple[Array, Array]:  # noqa: ARG002
        """Points (n, d) and masses (n,) that integrate a kernel s(<x,y>) over y, at any x.

        Parameters
        ----------
        degree : int or None
            Of s as a polynomial, where that is known.
        reach : float
            s varies over angles like e^{reach t}.

        Raises
        ------
        ValueError
            If that takes too many of them.
        """
        return self.resolve(reach).quadrature

    def series_sums(self, kernel: SmoothKernel, targets: int) -> SeriesSums | None:  # noqa: ARG002 (of tokens)
        """Sums of a kernel over it at so many points in O(n); None where all pairs are summed."""
        return None

    def refine(self, reach: float, steepness: Steepness | None = None) -> Self:  # noqa: ARG002 (of flow maps)
        """The same measure with panels no wider than this angle and a drift, if it has any."""
        return self


def check_pair(mu: Measure, nu: Measure) -> None:
    """Refuse two that are no measures of one dimension.

    Raises
    ------
    ValueError
        If they are not.
    """
    check_measure("mu", mu)
    check_measure("nu", nu)
    if mu.dim != nu.dim:
        raise ValueError(
            f"nu must have dim = {mu.dim} as mu has, got {shown(nu)} with dim = {nu.dim}"
        )


def turned(zonal: Array, axis: Array, basis: Harmonics) -> Coefficients:
    """Coefficients of Σ c_k p_k(<x, axis>), by the addition theorem, cut or filled with zeros."""
    factors = np.zeros(basis.kmax + 1)
    common = min(len(zonal), len(factors))
    factors[:common] = zonal[:common]
    factors /= np.sqrt(multiplicities(basis.dim, basis.kmax))
    pole = basis.point_moments(axis[None], np.ones(1))
    return np.asarray(factors[basis.degrees] * pole)
