"""X and div X on a line of angles under heads with any matrices, and under feed-forward layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown, tell_apart
from meanfield.dynamics import Dynamics, FeedForward
from meanfield.geometry import perpendicular
from meanfield.kernels import LARGEST_ZONAL_BETA, circle_head_kernel, zonal_head_kernel
from meanfield.line_potential import DenseLine, Interpolation
from meanfield.spaces.symmetry import asymmetry, axial_part, lie_along
from meanfield.tendency.flow import AngularField, LineField

Array = NDArray[np.float64]
HeadKernel = Callable[[Array, Array], Array]

# beyond it the dense tables between cells grow too large
_LARGEST_ON_CIRCLE = 100.0
# numbers in all tables of a layer: 1 GiB
_MOST_NUMBERS = 1 << 27


class AsymmetryError(ValueError):
    """The field is not symmetric about the axis of the flow map."""


class HeadsField:
    """X and div X of attention with any heads at angles, from dense tables between cells.

    X = Σ_h A_h/G_h and div X = Σ_h div A_h/G_h - A_h ∂G_h/G_h², of sums G, ∂G, A, div A over the
    measure (see `kernels.circle_head_kernel`); without normalisation X = Σ_h A_h e^{|M_h|}. Right
    to some 1e-14 relative to max |V| for |M_h| = |β KᵀQ| <= 100, however small G is.

    Parameters
    ----------
    dynamics : SA, USA or Attention
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    reach : float, optional
        At least the largest |M_h|: what the cells are for, and so where charges are kept.

    Attributes
    ----------
    line : DenseLine

    Raises
    ------
    ValueError
        If a matrix is too large, or not symmetric about the axis.
    """

    def __init__(
        self, dynamics: Dynamics, dim: int, axis: Array | None, reach: float | None = None
    ) -> None:
        pairs = dynamics.matrices(dim)
        self.normalised = dynamics.normalised
        sizes = [float(np.linalg.norm(m, 2)) for m, _ in pairs]
        self._count, self._unit = len(pairs), float(np.exp(max(sizes)))
        self._beta = dynamics.beta
        reach = max(sizes) if reach is None else reach
        limit = _LARGEST_ON_CIRCLE if dim == 2 else LARGEST_ZONAL_BETA
        if reach > limit:
            raise ValueError(
                f"beta |KᵀQ| must be <= {limit:g} for a flow map in dim = {dim} under "
                f"{shown(dynamics)}, got {tell_apart(reach, limit)[0]}: take Particles"
            )
        kernels = [
            _kernel(m, v, size if self.normalised else max(sizes), axis, f"head {i}")
            for i, ((m, v), size) in enumerate(zip(pairs, sizes, strict=True))
        ]
        rows = (4 * len(pairs) if self.normalised else 2) * DenseLine(dim, reach).size ** 2
        if rows > _MOST_NUMBERS:
            raise ValueError(
                f"heads must be fewer, or beta |KᵀQ| smaller, for a flow map: {len(pairs)} heads "
                f"at {reach:g} take tables of {tell_apart(rows, _MOST_NUMBERS)[0]} "
                f"numbers > {_MOST_NUMBERS:g}"
            )
        self.line = DenseLine(dim, reach, partial(_tables, kernels, self.normalised))

    def velocity(self, sums: Array, angles: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """X and div X from the tables summed over the measure, shape (number of tables, n)."""
        if not self.normalised:
            return self._unit * sums[0], self._unit * sums[1]
        potential, slope, pull, spread = sums.reshape(self._count, 4, -1).transpose(1, 0, 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull, slope = pull / potential, slope / potential
            return pull.sum(axis=0), (spread / potential - pull * slope).sum(axis=0)

    def from_charges(self, charges: Array, angles: Array) -> tuple[Array, Array]:
        """X and div X at angles, from charges gathered at the nodes of the line's cells."""
        sums = Interpolation(self.line, angles).values(self.line.fields(charges))
        return self.velocity(sums, angles)

    def scaled_dissipation(self, masses: Array, speed: Array, sums: Array) -> float:
        """e^{-β} ∫ |X|² dmu, with softmax e^{-β} ∫ |X|² G(βDx) dmu, of a head with a form D."""
        unit = self._unit * float(np.exp(-self._beta))
        if self.normalised:
            return unit * float(masses * speed**2 @ sums[0])
        return unit * self._unit * float(masses @ sums[0] ** 2)


class DriftField:
    """X and div X of a feed-forward layer at angles: no measure counts.

    Parameters
    ----------
    dynamics : FeedForward
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    reach : float
        What the cells are for that keep the charges of a run.

    Attributes
    ----------
    line : DenseLine
        Without tables.

    Raises
    ------
    ValueError
        If the field is not symmetric about the axis.
    """

    def __init__(
        self, dynamics: FeedForward, dim: int, axis: Array | None, reach: float = 0.0
    ) -> None:
        self.dynamics, self.line = dynamics, DenseLine(dim, reach)
        self._start = np.array([1.0, 0.0])
        self._across = np.array([0.0, 1.0])
        if axis is not None:
            self._start, self._across = axis, perpendicular(axis)
            for name, matrix in (("W", np.asarray(dynamics.W).T), ("A", np.asarray(dynamics.A))):
                if not lie_along(matrix, axis):
                    raise AsymmetryError(
                        f"{name} must be made of multiples of the axis of symmetry for this flow "
                        f"map, got {matrix}: take Particles"
                    )

    def velocity(self, sums: Array, angles: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """X along the angle and div X at angles."""
        cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
        points = cosines * self._start + sines * self._across
        along = cosines * self._across - sines * self._start
        pull = np.einsum("ij,ij->i", along, self.dynamics.output(None, points))  # type: ignore[arg-type]
        return pull, self.dynamics.divergence(points)

    def from_charges(self, charges: Array, angles: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """X along the angle and div X at angles."""
        return self.velocity(np.zeros((0, len(angles))), angles)

    def scaled_dissipation(self, masses: Array, speed: Array, sums: Array) -> float:  # noqa: ARG002
        """∫ |X|² dmu: there is no energy."""
        return float(masses @ speed**2)


def line_field(
    dynamics: Dynamics, dim: int, axis: Array | None, layer: Dynamics | None = None
) -> AngularField:
    """The field on a line of angles of a dynamics, or of one of its layers.

    All layers have the same cells, so that the charges of a run mean the same to each.

    Parameters
    ----------
    dynamics : SA, USA, CircleInteraction, Attention, FeedForward or Layers
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    layer : SA, USA, Attention or FeedForward, optional
        The layer of `Layers` that acts; its first if omitted.

    Raises
    ------
    ValueError
        If a flow map can't move under it.
    """
    acting = layer or dynamics.layers[0]
    if dynamics.isotropic:
        return LineField(acting, dim)
    if isinstance(acting, FeedForward):
        return DriftField(acting, dim, axis, dynamics.reach)
    return HeadsField(acting, dim, axis, dynamics.reach)


def _kernel(m: Array, v: Array, size: float, axis: Array | None, name: str) -> HeadKernel:
    if axis is None:
        return partial(circle_head_kernel, m, v, size)
    query, value = _axial(f"KᵀQ of {name}", m, axis), _axial(f"V of {name}", v, axis)
    return partial(zonal_head_kernel, query, value, size, len(axis))


def _tables(kernels: list[HeadKernel], normalised: bool, targets: Array, sources: Array) -> Array:
    tables = [kernel(targets, sources) for kernel in kernels]
    return np.concatenate(tables) if normalised else np.sum(tables, axis=0)[2:]


def _axial(name: str, matrix: Array, axis: Array) -> tuple[float, complex]:
    """The multiples of the identity that a matrix is along an axis and across it."""
    if asymmetry(matrix, axis):
        raise AsymmetryError(
            f"{name} must be a multiple of the identity along the axis of symmetry and across it "
            f"for this flow map, got {matrix}: take Particles"
        )
    return axial_part(matrix, axis)
