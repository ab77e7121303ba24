"""d/dt of the nodes and atoms of a flow map on a line of angles, and X and div X on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.kernels.direct import Lost
from meanfield.kernels.line import (
    LARGEST_ZONAL_BETA,
    DenseLine,
    Interpolation,
    Line,
    LineSums,
    circle_head_kernel,
    zonal_head_kernel,
)
from meanfield.kernels.sinkhorn import scaling
from meanfield.measures.flow_map import FREE, LineFlowMap
from meanfield.spaces import geometry
from meanfield.typing import Array, Indices

# of a potential that is not right relative to its own size
_LOST = Lost(1e-6)
# a time step may leave a node of next to no mass in doubt by this angle
_COARSEST = 1e-6


class AngularField:
    """X and div X at angles, from tables summed over a measure, which its line has.

    With K, its pull A along the angle, div A and ∂K summed for each head, X = Σ_h A_h/G_h and
    div X = Σ_h div A_h/G_h - A_h ∂G_h/G_h². Where X is not normalised the last A and div A are it.

    Attributes
    ----------
    line : Line
        The cells at whose nodes charges are gathered.
    tables : int or None
        How many of the line's tables X and div X are made of, None for all.
    """

    line: Line
    tables: int | None = None
    normalised: bool
    # heads; λ where ∂K = λA; X in units of the sums; dE/dt in units of theirs
    _heads = 1
    _growth: float | None = None
    _unit: float
    _energy_unit: float

    def velocity(self, sums: Array, angles: Array) -> tuple[Array, Array]:
        """X and div X (n,) from the sums of the line's tables (number of tables, n) at angles."""
        if not self.normalised:
            return self._unit * sums[-2], self._unit * sums[-1]
        potential, pull, spread, *slope = sums.reshape(self._heads, -1, len(angles)).swapaxes(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = pull / potential
            growth = self._growth
            steepness = slope[0] / potential if growth is None else growth * pull
            spread = spread / potential - steepness * pull
        return self._unit * pull.sum(axis=0), self._unit * spread.sum(axis=0)

    def from_charges(self, charges: Array, angles: Array) -> tuple[Array, Array]:
        """X and div X at angles, from charges gathered at the nodes of the line's cells."""
        sums = Interpolation(self.line, angles).values(self.line.fields(charges, self.tables))
        return self.velocity(sums, angles)

    def scaled_dissipation(self, masses: Array, speed: Array, sums: Array) -> float:
        """∫ |X|² dmu, ∫ |X|² G dmu of what is normalised, (3.6), in units of the energy's.

        X, which is e^β times its sum, is not squared: that alone may leave double precision.
        """
        if self.normalised:
            return self._energy_unit * float(masses * speed**2 @ sums[0])
        return float(masses @ sums[-2] ** 2 * self._energy_unit)


class LineField(AngularField):
    """X and div X of a dynamics with a kernel at angles, from the potential of masses at angles.

    Under SA ∂K = βA, so that three tables will do.

    Parameters
    ----------
    dynamics : Dynamics
    dim : int
    """

    def __init__(self, dynamics: Dynamics, dim: int) -> None:
        kernel, self.normalised = dynamics._kernel, dynamics.normalised
        self.line, self._growth = kernel.line(dim), kernel.growth
        self.tables = 4 if self.normalised and self._growth is None else 3
        self._energy_unit = 1.0 if self.normalised else float(np.exp(kernel.log_unit))
        self._unit = dynamics.sign * self._energy_unit


class FlowTendency:
    """dθ/dt = X[mu](θ) and d/dt ∫ div X for the nodes of a flow map, which its atoms move with.

    The state holds the angles of the nodes that stand at no atom and of the atoms, then ∫ div X
    for each of them. Under `DoublyStochastic` the masses m u make the field, u scaled from its last
    value.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Dynamics
        With a kernel, or else with its field. Its noise is not part of the tendency.
    field : AngularField, optional
        The field of this dynamics in this dimension, if there is one already.

    Attributes
    ----------
    initial_state : ndarray
    field : AngularField
    """

    def __init__(
        self, flow: LineFlowMap, dynamics: Dynamics, field: AngularField | None = None
    ) -> None:
        self.flow, self.dynamics = flow, dynamics
        self.field: AngularField = field or LineField(dynamics, flow.dim)
        self._free = np.flatnonzero(flow.owners == FREE)
        self._held = np.flatnonzero(flow.owners != FREE)
        self._atom_masses = flow._atom_masses
        self._masses = np.concatenate([flow.weights[self._free], self._atom_masses])
        self._count = len(self._masses)
        # on the circle atoms act on each other and on the nodes one by one, so that forces
        # between far clusters keep their digits beside the large ones within a cluster
        self._pairwise = self.field.line.dim == 2
        self.initial_state = np.concatenate(
            [
                flow.angles[self._free],
                flow._atom_angles,
                flow.expansion[self._free],
                np.zeros(len(flow._atom_angles)),
            ]
        )
        self._log_u: Array | None = None
        self._sums = np.zeros((0, self._count))
        self._speed = np.zeros(self._count)

    def measure(self, state: Array) -> LineFlowMap:
        """The flow map of a state."""
        flow, free, held = self.flow, self._free, self._held
        positions, expansions = state[: self._count], state[self._count :]
        angles, expansion = flow.angles.copy(), flow.expansion.copy()
        atoms = positions[len(free) :].copy()
        owners = flow.owners[held]
        angles[free], expansion[free] = positions[: len(free)], expansions[: len(free)]
        angles[held] += (atoms - flow._atom_angles)[owners]
        expansion[held] += expansions[len(free) :][owners]
        return flow._moved(angles=angles, expansion=expansion, atoms=atoms)

    def scale(self, state: Array) -> Array:  # noqa: ARG002 (as for every tendency)
        """What a tolerance for each entry is relative to.

        Errors of positions count by mass: with them, the tolerance bounds Σ mass · error.
        """
        share = self._count * np.maximum(self._masses, 1e-300)
        limit = _COARSEST / self.flow.tol
        angle = np.minimum(1.0 / share, limit)
        return np.concatenate([angle, np.maximum(np.minimum(10.0 * angle, limit), 100.0)])

    def spread(self, rate: Array) -> Array:
        """div X at the nodes that stand at no atom, from d/dt of the state."""
        return rate[self._count : self._count + len(self._free)]

    def charges(self, state: Array) -> Array:
        """The masses that make the field as charges at the nodes of the line's cells."""
        sums = self._sums_at(state)
        return sums.charges(self._attracting(sums))

    def _sums_at(self, state: Array) -> LineSums:
        gathered = len(self._free) if self._pairwise else None
        sums = LineSums.repeated if self.dynamics._balanced else LineSums
        return sums(self.field.line, state[: self._count], gathered)

    def _attracting(self, sums: LineSums) -> Array:
        """The masses that make the field, shape (count,): m u under DoublyStochastic."""
        if not self.dynamics._balanced:
            return self._masses
        self._log_u = scaling(sums.potential, self._masses, self._log_u)
        return np.asarray(self._masses * np.exp(self._log_u))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        angles, sums = state[: self._count], self._sums_at(state)
        masses = self._attracting(sums)
        self._sums = sums(masses, self.field.tables)
        self._speed, spread = self.field.velocity(self._sums, angles)
        if not self.field.line.relative and self.dynamics.normalised:
            small = _LOST.places(self._sums[0], float(self._sums[0].max()))
            self._speed[small], spread[small] = self._far_away(angles, masses, small)
        out[: self._count], out[self._count :] = self._speed, spread

    def _far_away(self, angles: Array, masses: Array, index: Indices) -> tuple[Array, Array]:
        """X and div X of what is normalised on the circle where G is small, by positive sums."""
        points, sign = geometry.circle_points(angles), self.dynamics.sign
        velocity, spread = self.dynamics._kernel.spread(points[index], (points, masses))
        tangents = geometry.circle_points(angles[index] + 0.5 * np.pi)
        return sign * np.einsum("ij,ij->i", velocity, tangents), sign * spread

    def scaled_dissipation(self) -> float:
        """e^{-β} times what dE/dt is of a gradient flow, at the last state.

        ∫ |X|² dmu under DoublyStochastic.
        """
        if self.dynamics._balanced:
            return float(self._masses @ self._speed**2)
        return self.field.scaled_dissipation(self._masses, self._speed, self._sums)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # X of USA as a whole, since its square may leave double precision
        largest = float(np.abs(self._speed).max())
        if largest == 0.0:
            return 0.0
        return largest * float(np.sqrt(self._masses @ (self._speed / largest) ** 2))

    def scaled_energy(self, state: Array) -> float:
        """E in units of e^{log_unit} of the kernel."""
        row, factor = self.dynamics._kernel.primitive_row
        potential = self._sums_at(state)(self._masses, row + 1)[row]
        return 0.5 * float(factor) * float(self._masses @ potential)


HeadKernel = Callable[[Array, Array], Array]

# beyond it the dense tables between cells grow too large
_LARGEST_ON_CIRCLE = 100.0
# numbers in all tables of a layer: 1 GiB
_MOST_NUMBERS = 1 << 27


class AsymmetryError(ValueError):
    """The field is not symmetric about the axis of the flow map."""


class HeadsField(AngularField):
    """X and div X of attention with any heads at angles, from dense tables between cells.

    The tables are those of `kernels.line`. Without normalisation X = Σ_h A_h e^{|M_h|}. Right to
    some 1e-14 relative to max |V| for |M_h| = |β KᵀQ| <= 100, however small G is.

    Parameters
    ----------
    dynamics : SA, USA or Attention
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    reach : float
        At least the largest |M_h|: what the cells are for, and so where charges are kept.

    Attributes
    ----------
    line : DenseLine

    Raises
    ------
    ValueError
        If a matrix is too large, or not symmetric about the axis.
    """

    def __init__(self, dynamics: Dynamics, dim: int, axis: Array | None, reach: float) -> None:
        pairs = dynamics._matrices(dim)
        self.normalised = dynamics.normalised
        sizes = [float(np.linalg.norm(m, 2)) for m, _ in pairs]
        log_unit = dynamics._energy.log_unit if dynamics._energy else 0.0
        largest = float(np.exp(max(sizes)))
        self._heads, self._unit = len(pairs), 1.0 if self.normalised else largest
        self._energy_unit = largest * float(np.exp(-log_unit)) * self._unit
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


class DriftField(AngularField):
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

    def __init__(self, dynamics: Any, dim: int, axis: Array | None, reach: float) -> None:
        self.dynamics, self.line = dynamics, DenseLine(dim, reach)
        self._start = np.array([1.0, 0.0])
        self._across = np.array([0.0, 1.0])
        if axis is not None:
            self._start, self._across = axis, geometry.perpendicular(axis)
            for name, matrix in (("W", np.asarray(dynamics.W).T), ("A", np.asarray(dynamics.A))):
                if not geometry.lie_along(matrix, axis):
                    raise AsymmetryError(
                        f"{name} must be made of multiples of the axis of symmetry for this flow "
                        f"map, got {matrix}: take Particles"
                    )

    def velocity(self, sums: Array, angles: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """X along the angle and div X at angles."""
        cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
        points = cosines * self._start + sines * self._across
        along = cosines * self._across - sines * self._start
        pull = np.einsum("ij,ij->i", along, self.dynamics.output(None, points))
        return pull, self.dynamics._divergence(points)

    def from_charges(self, charges: Array, angles: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """X along the angle and div X at angles."""
        return self.velocity(np.zeros((0, len(angles))), angles)

    def scaled_dissipation(self, masses: Array, speed: Array, sums: Array) -> float:  # noqa: ARG002
        """∫ |X|² dmu."""
        return float(masses @ speed**2)


def line_field(dynamics: Dynamics, dim: int, axis: Array | None, layer: Dynamics) -> AngularField:
    """The field on a line of angles of one of the layers of a dynamics.

    All layers have the same cells, so that the charges of a run mean the same to each.

    Parameters
    ----------
    dynamics : SA, USA, CircleInteraction, Attention, FeedForward or Layers
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    layer : SA, USA, CircleInteraction, Attention or FeedForward
        The one that acts, which is the dynamics itself where there are no layers.

    Raises
    ------
    ValueError
        If a flow map can't move under it.
    """
    if dynamics._isotropic:
        return LineField(layer, dim)
    kind = HeadsField if layer._scores else DriftField
    return kind(layer, dim, axis, dynamics._reach)


def _kernel(m: Array, v: Array, size: float, axis: Array | None, name: str) -> HeadKernel:
    if axis is None:
        return partial(circle_head_kernel, m, v, size)
    query, value = _axial(f"KᵀQ of {name}", m, axis), _axial(f"V of {name}", v, axis)
    return partial(zonal_head_kernel, query, value, size, len(axis))


def _tables(kernels: list[HeadKernel], normalised: bool, targets: Array, sources: Array) -> Array:
    tables = [kernel(targets, sources) for kernel in kernels]
    return np.concatenate(tables) if normalised else np.sum(tables, axis=0)[1:3]


def _axial(name: str, matrix: Array, axis: Array) -> tuple[float, complex]:
    """The multiples of the identity that a matrix is along an axis and across it."""
    if geometry.asymmetry(matrix, axis):
        raise AsymmetryError(
            f"{name} must be a multiple of the identity along the axis of symmetry and across it "
            f"for this flow map, got {matrix}: take Particles"
        )
    return geometry.axial_part(matrix, axis)
