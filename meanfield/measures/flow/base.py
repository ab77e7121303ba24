"""What all flow maps have in common, and which form a law takes."""

from __future__ import annotations

from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield._shown import ShownMeasure
from meanfield.arguments import integer, number, rows, shown
from meanfield.exponential_sums import log_moment, moment
from meanfield.geometry import circle_angles
from meanfield.laws import Law
from meanfield.sinkhorn import Balanced, latitude_sums, point_sums
from meanfield.spaces.circle_at import MOST_MODES, CircleAt

Array = NDArray[np.float64]


class FlowMap(ShownMeasure):
    """mu_t = Φ_t # mu_0: nodes that carry the masses of a law along with the flow.

    A flow map follows a measure through concentration, which no series can: its nodes go where
    the mass goes. `FlowMap(law)` is a `LineFlowMap` on the circle and for laws that are symmetric
    about an axis, a `SphereFlowMap` for other laws on S^2.

    Parameters
    ----------
    law : Law
        On the circle, on S^2, or symmetric about an axis in d >= 3.
    tol : float, optional
        Error of the nodes' positions, weighted by mass; 1e-12 if omitted, 1e-9 in the second form.
    axis : array_like, shape (d,), optional
        The axis of symmetry, where the law does not tell it (d >= 3).
    largest : int, optional
        The most nodes that the law may take.

    Attributes
    ----------
    dim : int
    points : ndarray, shape (n, d)
        Φ_t(label) of every node.
    weights : ndarray, shape (n,)
        Masses of the nodes.
    density_at_nodes : ndarray, shape (n,)
        f_t at the points; inf where it overflows.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law has no form of flow map or too much detail.

    Examples
    --------
    >>> from meanfield.laws import FourierSeries
    >>> mu = FlowMap(FourierSeries(cos=[0.5]))
    >>> mu, mu.mean().round(14) + 0.0
    (FlowMap(dim=2, nodes=128, atoms=0), array([0.25, 0.  ]))
    """

    # the classes for laws of some kind, each asked by `holds` in turn; set where all are known
    forms: ClassVar[tuple[type[FlowMap], ...]] = ()

    dim: int
    tol: float
    points: Array
    weights: Array
    log_density: Array

    def __init__(
        self,
        law: Law,
        tol: float | None = None,
        *,
        axis: ArrayLike | None = None,
        largest: int | None = None,
    ) -> None:
        """Tell the arguments that all forms take."""

    def __new__(
        cls,
        law: Law | None = None,
        tol: float | None = None,  # noqa: ARG004 (of __init__)
        *,
        axis: ArrayLike | None = None,
        largest: int | None = None,  # noqa: ARG004 (of __init__)
    ) -> Self:
        """Make the form that holds the law; its own __init__ follows."""
        if cls is not FlowMap:
            return super().__new__(cls)
        if not isinstance(law, Law) or isinstance(law, type):
            remedy = ""
            if isinstance(law, (np.ndarray, list)):
                remedy = ": for tokens take mf.Particles(X), for their law mf.PointCloud(X)"
            raise ValueError(f"law must have dim, pdf and sample, got {shown(law)}{remedy}")
        for form in cls.forms:
            if form.holds(law, axis):
                return cast(Self, super().__new__(form))
        raise ValueError(
            f"law must be on the circle or S^2, or symmetric about an axis that its class tells "
            f"or that is given, and have a density beyond the circle, got {shown(law)}"
        )

    @classmethod
    def holds(cls, law: Law, axis: ArrayLike | None) -> bool:  # noqa: ARG003
        """Whether this form is for such a law; the base class itself holds none."""
        return False

    # natural ones, of oscillators alone
    frequencies: None = None

    @property
    def axis(self) -> Array | None:
        """Axis of symmetry, if nodes stand for latitudes about one."""
        return None

    @property
    def density_at_nodes(self) -> Array:
        """f_t at the points, shape (n,); inf where it overflows."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_density))

    def mass(self) -> float:
        """∫ dmu."""
        return float(self.weights.sum())

    def mean(self) -> Array:
        """∫ x dmu, shape (d,)."""
        return np.asarray(self.weights @ self.points)

    def entropy(self) -> float:
        """∫ log f_t dmu_t = ∫ f log f dσ, 0 for the uniform law."""
        counted = self.weights > 0.0
        return float(self.weights[counted] @ self.log_density[counted])

    def resolving(self, beta: float) -> Self:  # noqa: ARG002 (of the forms)
        """The same measure with nodes that integrate e^{β<x,y>} at any x, to `tol` of it.

        Raises
        ------
        ValueError
            If there is no such flow map: too many nodes, or the law is out of reach.
        """
        return self

    def trigonometric_moments(self, kmax: int) -> NDArray[np.complex128]:
        """m_k = ∫ e^{-ikθ} dmu, k = 0 … kmax, on nodes that resolve them, on the circle.

        Raises
        ------
        ValueError
            If dim is not 2, or it takes too many nodes.
        """
        if self.dim != 2:
            raise ValueError(f"dim must be 2 for moments in e^(ikθ), got {self.dim}")
        kmax = integer("kmax", kmax, low=0, high=MOST_MODES)
        flow = self.resolving(float(kmax))
        angles = circle_angles(flow.points)
        return CircleAt(max(1, kmax)).moments(angles, flow.weights)[: kmax + 1]

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G(z) and ∇ log G(z), G(z) = ∫ e^{<z,y>} dmu(y), at rows z (m, d).

        A sum of positive terms over nodes that resolve the exponential, right to `tol` relative to
        G itself where G is small.

        Raises
        ------
        ValueError
            If z is not finite, has the wrong length, or is too long for the nodes to resolve.
        """
        z = rows("z", z, self.dim)
        flow = self.resolving(float(np.linalg.norm(z, axis=1).max()))
        return log_moment(flow.points, flow.weights, z)

    def balanced(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, at nodes that resolve β.

        β <= 150 where nodes stand for latitudes.

        Raises
        ------
        ValueError
            If β is negative, not finite, or too large for the nodes.
        """
        flow, axis = self.resolving(number("beta", beta, low=0)), self.axis
        if axis is None:
            return Balanced.of(flow.points, flow.weights, beta, point_sums(flow.points, beta))
        sums = latitude_sums(flow.points, axis, beta)
        return Balanced.of(flow.points, flow.weights, beta, sums, axis)

    def moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """G(z), shape (m,), and ∇G(z), shape (m, d), at rows z (m, d) of any length.

        Raises
        ------
        ValueError
            If z is not finite, has the wrong length, or G(z) overflows.
        """
        return moment(*self.log_moment(z))
