"""d/dt of the nodes and atoms of a flow map on a line of angles, and X and div X on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.own import AsymmetryError
from meanfield.equations.rates import Rates, Tendency, added
from meanfield.kernels.direct import Lost
from meanfield.kernels.line import (
    LARGEST_ZONAL_BETA,
    ROWS,
    DenseLine,
    FinerLine,
    Interpolation,
    Line,
    LineSums,
    Rows,
    circle_head_kernel,
    zonal_head_kernel,
)
from meanfield.kernels.sinkhorn import scaling
from meanfield.measures.line_flow_map import FREE, LineFlowMap
from meanfield.spaces import geometry
from meanfield.typing import Array

# below this share of its maximum a potential has a large relative error
_LOST = Lost(1e-6)
# the tables of heads that are merged, since nothing is divided
_MERGED = Rows(pull=0, divergence=1)
# a source without a sum has no charges
_NONE = np.zeros(0)
# a time step may misplace a node of almost no mass by this angle
_COARSEST = 1e-6


class FieldOnLine(ABC):
    """X and div X at angles, from tables summed over a measure, which its line has.

    Attributes
    ----------
    line : Line
        The cells at whose nodes charges are gathered.
    tables : int or None
        How many of the line's tables X and div X are made of, None for all.
    is_balanced : bool
        Whether the sources are the masses times u of DoublyStochastic.
    sources : sequence of int
        Of each part the number of its sources: the masses are one, each part that scales them has
        its own.
    reads_flow : bool
        Whether tables don't tell all of the measure, so that `flow` must be set.
    flow : LineFlowMap or None
        The measure of the state that is asked for.
    """

    line: Line
    tables: int | None = None
    is_balanced = False
    sources: Sequence[int] = (0,)
    reads_flow = False
    flow: LineFlowMap | None = None

    @abstractmethod
    def rates(self, tables: Sequence[Array], angles: Array, masses: Sequence[Array] = ()) -> Rates:
        """X, div X and ∇ δE/δmu (n,) at angles.

        Parameters
        ----------
        tables : sequence of ndarray, shape (number of tables, n)
            Of each part the sums of its line's tables.
        angles : ndarray, shape (n,)
        masses : sequence of ndarray, shape (n,), optional
            Of each part those at the angles, if they are the measure: where G has lost its digits
            in sums of cells they are summed one by one.
        """

    @property
    def parts(self) -> Sequence[FieldOnLine]:
        """The fields of single terms that it is made of: this alone."""
        return (self,)

    def from_charges(self, charges: Array, angles: Array) -> Rates:
        """The same from the charges of all sources, gathered at the nodes of the line's cells."""
        nodes, of = Interpolation(self.line, angles), charges.reshape(-1, self.line.size)
        pairs = zip(self.parts, self.sources, strict=True)
        tables = [nodes.evaluate(f.line.fields(of[source], f.tables)) for f, source in pairs]
        return self.rates(tables, angles)


class PullOnLine(FieldOnLine):
    """X and div X at angles of heads that sum a pull A, and divide it by G where X is normalised.

    With A along the angle, div A and ∂G of each head, X = Σ_h A_h/G_h and
    div X = Σ_h div A_h/G_h - A_h ∂G_h/G_h². Where X is not normalised A and div A are it.
    """

    normalised = False
    # heads, whose tables follow each other; λ where ∂G = λA
    _heads = 1
    _rows = ROWS
    _growth: float | None = None
    # X, and the gradient of the energy if there is one, over A or A/G
    _unit: float
    _gradient_unit: float | None = None
    # True if the gradient is a multiple of A, and X one of A/G
    _is_weighted = False

    def rates(self, tables: Sequence[Array], angles: Array, masses: Sequence[Array] = ()) -> Rates:
        """See `FieldOnLine`."""
        (sums,), rows = tables, self._rows
        if not self.normalised:
            pull, divergence = sums[rows.pull], sums[rows.divergence]
            return Rates(self._unit * pull, self._unit * divergence, self._gradients(pull))
        by_head = sums.reshape(self._heads, -1, len(angles)).swapaxes(0, 1)
        potential, pull = by_head[rows.potential], by_head[rows.pull]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = pull / potential
            growth = self._growth
            steepness = by_head[rows.slope] / potential if growth is None else growth * share
            divergence = by_head[rows.divergence] / potential - steepness * share
        gradients = self._gradients((pull if self._is_weighted else share)[0])
        rates = Rates(
            self._unit * share.sum(axis=0), self._unit * divergence.sum(axis=0), gradients
        )
        if masses:
            self._sum_small(rates, potential, angles, masses[0])
        return rates

    def _sum_small(self, rates: Rates, potentials: Array, angles: Array, masses: Array) -> None:
        """Sum positive terms where G (heads, n) has lost its digits.

        Tables of heads never lose them.
        """

    def _gradients(self, pull: Array) -> tuple[Array, ...]:
        return () if self._gradient_unit is None else (self._gradient_unit * pull,)


class KernelOnLine(PullOnLine):
    """X and div X of a dynamics with a kernel at angles, from the potential of masses at angles.

    Under SA ∂G = βA, so that three tables will do.

    Parameters
    ----------
    dynamics : Dynamics
    dim : int
    reach : float
        What the cells are for that keep the charges of a run.
    """

    def __init__(self, dynamics: Dynamics, dim: int, reach: float) -> None:
        kernel, self.normalised = dynamics.pair_kernel, dynamics.normalised
        self.line, self._growth = kernel.line(dim), kernel.growth
        if reach > kernel.reach:
            self.line = FinerLine(self.line, reach)
        needs_slope = self.normalised and self._growth is None
        self.tables = 1 + (ROWS.slope if needs_slope else ROWS.divergence)
        self._unit = dynamics.sign * (1.0 if self.normalised else float(np.exp(kernel.log_unit)))
        self._kernel, self._sign, self.is_balanced = kernel, dynamics.sign, dynamics.is_balanced
        if (energy := dynamics.energy_functional) is not None:
            self._gradient_unit, self._is_weighted = 1.0, not energy.in_w2

    def _sum_small(self, rates: Rates, potentials: Array, angles: Array, masses: Array) -> None:
        """Compute X and div X on the circle by sums of positive terms where G is small."""
        if self.line.relative:
            return
        small = _LOST.places(potentials[0], float(potentials[0].max()))
        points = geometry.circle_points(angles)
        velocity, divergence = self._kernel.velocity_and_divergence(points[small], (points, masses))
        tangents = geometry.circle_points(angles[small] + 0.5 * np.pi)
        rates.velocity[small] = self._sign * np.einsum("ij,ij->i", velocity, tangents)
        rates.divergence[small] = self._sign * divergence


class SumOnLine(FieldOnLine):
    """The weighted fields of several terms, on the same cells.

    Parameters
    ----------
    parts : sequence of (float, FieldOnLine)
    """

    def __init__(self, parts: Sequence[tuple[float, FieldOnLine]]) -> None:
        self._weighted, self.line = parts, parts[0][1].line
        kinds = [i if field.is_balanced else -1 for i, (_, field) in enumerate(parts)]
        distinct = list(dict.fromkeys(kinds))
        self.sources = [distinct.index(kind) for kind in kinds]

    @property
    def parts(self) -> Sequence[FieldOnLine]:
        """The fields of single terms."""
        return [field for _, field in self._weighted]

    def rates(self, tables: Sequence[Array], angles: Array, masses: Sequence[Array] = ()) -> Rates:
        """See `FieldOnLine`."""
        summands = zip_longest(self._weighted, tables, masses[: len(tables)])
        return added(
            (weight, field.rates([part], angles, [m] if masses else ()))
            for (weight, field), part, m in summands
        )


class LineTendency(Tendency[LineFlowMap]):
    """dθ/dt = X[mu](θ) and d/dt ∫ div X for the nodes of a flow map, which its atoms move with.

    The state holds the angles of the nodes that stand at no atom and of the atoms, then ∫ div X
    for each of them. Under `DoublyStochastic` the masses m u make the field, u scaled from its last
    value.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Dynamics
        Its noise is not part of the tendency.
    field : FieldOnLine
        Of this dynamics in this dimension, see `field_on_line`.

    Attributes
    ----------
    initial_state : ndarray
    field : FieldOnLine
    """

    def __init__(self, flow: LineFlowMap, dynamics: Dynamics, field: FieldOnLine) -> None:
        self.flow, self.dynamics, self.field = flow, dynamics, field
        self._free = np.flatnonzero(flow.owners == FREE)
        self._held = np.flatnonzero(flow.owners != FREE)
        self._atom_masses = flow.atom_masses
        self._masses = np.concatenate([flow.weights[self._free], self._atom_masses])
        self._count = len(self._masses)
        # on the circle atoms act on each other and on nodes one by one: so forces between far
        # clusters keep their digits beside the large forces within a cluster
        self._gathered = len(self._free) if self.field.line.dim == 2 else None
        pairs = zip(field.parts, field.sources, strict=True)
        self._summed = {source for part, source in pairs if part.line.tables}
        self.initial_state = np.concatenate(
            [
                flow.angles[self._free],
                flow.atom_angles,
                flow.expansion[self._free],
                np.zeros(len(flow.atom_angles)),
            ]
        )
        # the last log u of each source that the scaling multiplies
        self._log_u: dict[int, Array] = {}

    def measure(self, state: Array) -> LineFlowMap:
        """The flow map of a state."""
        flow, free, held = self.flow, self._free, self._held
        positions, expansions = state[: self._count], state[self._count :]
        angles, expansion = flow.angles.copy(), flow.expansion.copy()
        atoms = positions[len(free) :].copy()
        owners = flow.owners[held]
        angles[free], expansion[free] = positions[: len(free)], expansions[: len(free)]
        angles[held] += (atoms - flow.atom_angles)[owners]
        expansion[held] += expansions[len(free) :][owners]
        return flow.moved_to(angles=angles, expansion=expansion, atoms=atoms)

    def allowed_errors(self, state: Array, tol: float) -> Array:  # noqa: ARG002 (as for all)
        """The errors allowed in angles and in ∫ div X, by mass: Σ mass · error is the tolerance."""
        share = self._count * np.maximum(self._masses, 1e-300)
        limit = _COARSEST / self.flow.tol
        angle = np.minimum(1.0 / share, limit)
        return tol * np.concatenate([angle, np.maximum(np.minimum(10.0 * angle, limit), 100.0)])

    def divergence_at_nodes(self, rate: Array) -> Array:
        """div X at the nodes that stand at no atom, from d/dt of the state."""
        return rate[self._count : self._count + len(self._free)]

    def charges(self, state: Array) -> Array:
        """The masses that make the field as charges at the nodes, of one source after the other."""
        nodes, sources = Interpolation(self.field.line, state[: self._count]), self._sources(state)
        return np.concatenate([nodes.gather(masses) for masses in sources])

    def _sources(self, state: Array) -> list[Array]:
        """Return the masses of each source: m, or m u where a scaling multiplies them."""
        sources: dict[int, Array] = {}
        for field, source in zip(self.field.parts, self.field.sources, strict=True):
            if not field.is_balanced:
                sources[source] = self._masses
                continue
            sums = LineSums.repeated(field.line, state[: self._count], self._gathered)
            log_u = scaling(sums.potential, self._masses, self._log_u.get(source))
            sources[source], self._log_u[source] = self._masses * np.exp(log_u), log_u
        return list(sources.values())

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        angles, field, sources = state[: self._count], self.field, self._sources(state)
        if readers := [part for part in field.parts if part.reads_flow]:
            flow = self.measure(state)
            for part in readers:
                part.flow = flow
        nodes = Interpolation(field.line, angles)
        # a drift sums over no measure
        charges = {i: nodes.gather(sources[i][: self._gathered]) for i in self._summed}
        masses, tables = [sources[source] for source in field.sources], []
        for part, source, near in zip(field.parts, field.sources, masses, strict=True):
            sums = LineSums(part.line, angles, self._gathered, nodes)
            tables.append(sums.evaluate(charges.get(source, _NONE), near, part.tables))
        self._rates = field.rates(tables, angles, masses)
        out[: self._count], out[self._count :] = self._rates.velocity, self._rates.divergence

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # X is divided by its largest value, since the square of X of USA may leave double precision
        largest = float(np.abs(self._rates.velocity).max())
        if largest == 0.0:
            return 0.0
        return largest * float(np.sqrt(self._masses @ (self._rates.velocity / largest) ** 2))


HeadKernel = Callable[[Array, Array], Array]

# for a larger β the dense tables between cells are too large
_LARGEST_ON_CIRCLE = 100.0
# all tables of a layer hold at most so many numbers: 1 GiB
_MOST_NUMBERS = 1 << 27


class HeadsOnLine(PullOnLine):
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
        pairs = dynamics.matrices(dim)
        self.normalised = dynamics.normalised
        self._rows = ROWS if self.normalised else _MERGED
        log_units = [float(np.linalg.norm(m, 2)) for m, _ in pairs]
        limit = _LARGEST_ON_CIRCLE if dim == 2 else LARGEST_ZONAL_BETA
        if reach > limit:
            raise ValueError(
                f"beta |KᵀQ| must be <= {limit:g} for a flow map in dim = {dim} under "
                f"{shown(dynamics)}, got {tell_apart(reach, limit)[0]}: take Particles"
            )
        unit = float(np.exp(max(log_units)))
        self._heads, self._unit = len(pairs), 1.0 if self.normalised else unit
        if (energy := dynamics.energy_functional) is not None:
            self._gradient_unit = energy.sign * unit * float(np.exp(-energy.log_unit))
            self._is_weighted = not energy.in_w2
        kernels = [
            _kernel(m, v, log_unit if self.normalised else max(log_units), axis, f"head {i}")
            for i, ((m, v), log_unit) in enumerate(zip(pairs, log_units, strict=True))
        ]
        tables = (1 + ROWS.slope) * len(pairs) if self.normalised else 1 + _MERGED.divergence
        numbers = tables * DenseLine(dim, reach).size ** 2
        if numbers > _MOST_NUMBERS:
            raise ValueError(
                f"heads must be fewer, or beta |KᵀQ| smaller, for a flow map: {len(pairs)} heads "
                f"at {reach:g} take tables of {tell_apart(numbers, _MOST_NUMBERS)[0]} "
                f"numbers > {_MOST_NUMBERS:g}"
            )
        self.line = DenseLine(dim, reach, partial(_tables, kernels, self.normalised))


class OutputOnLine(FieldOnLine):
    """X and div X at angles of what is known by its output, as a feed-forward layer is.

    Parameters
    ----------
    dynamics : Dynamics
        With a divergence.
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

    def __init__(self, dynamics: Dynamics, dim: int, axis: Array | None, reach: float) -> None:
        self.dynamics, self.line, self._axis = dynamics, DenseLine(dim, reach), axis
        self.reads_flow = not dynamics.known_by_moments
        self._start = np.array([1.0, 0.0])
        self._across = np.array([0.0, 1.0])
        if axis is None:
            return
        self._start, self._across = axis, geometry.perpendicular(axis)
        for name, matrix in zip("WA", dynamics.axis_rows, strict=False):
            if not geometry.lie_along(matrix, axis):
                raise AsymmetryError(
                    f"{name} must be made of multiples of the axis of symmetry for this flow "
                    f"map, got {matrix}: take Particles"
                )
        if dynamics.sum_method == "none":
            dynamics.output_and_gradients(
                None, geometry.line_points(np.arange(0.1, np.pi, 0.2), axis), axis
            )

    def rates(self, tables: Sequence[Array], angles: Array, masses: Sequence[Array] = ()) -> Rates:  # noqa: ARG002
        """See `FieldOnLine`."""
        cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
        points = cosines * self._start + sines * self._across
        along = cosines * self._across - sines * self._start
        output, gradients = self.dynamics.output_and_gradients(self.flow, points, self._axis)
        pull, *others = (np.einsum("ij,ij->i", along, vectors) for vectors in (output, *gradients))
        return Rates(pull, self.dynamics.divergence_at(self.flow, points), tuple(others))

    def from_charges(self, charges: Array, angles: Array) -> Rates:  # noqa: ARG002
        """X along the angle and div X at angles."""
        return self.rates((), angles)


def field_on_line(dynamics: Dynamics, dim: int, axis: Array | None, layer: Dynamics) -> FieldOnLine:
    """The field on a line of angles of one of the layers of a dynamics.

    All terms of all layers have the same cells, so that the charges of a run mean the same to each.

    Parameters
    ----------
    dynamics : Dynamics
    dim : int
    axis : ndarray, shape (d,), or None
        The axis of symmetry, None on the circle.
    layer : Dynamics
        The one that acts, which is the dynamics itself where there are no layers.

    Raises
    ------
    ValueError
        If a flow map can't move under it.
    """
    reach = dynamics.reach

    def of(term: Dynamics) -> FieldOnLine:
        if term.is_isotropic:
            return KernelOnLine(term, dim, reach)
        kind = HeadsOnLine if term.score_matrices else OutputOnLine
        return kind(term, dim, axis, reach)

    fields = [(weight, of(term)) for weight, term in layer.weighted_terms]
    return fields[0][1] if len(fields) == 1 and fields[0][0] == 1.0 else SumOnLine(fields)


def _kernel(m: Array, v: Array, log_unit: float, axis: Array | None, name: str) -> HeadKernel:
    if axis is None:
        return partial(circle_head_kernel, m, v, log_unit)
    query, value = _axial(f"KᵀQ of {name}", m, axis), _axial(f"V of {name}", v, axis)
    return partial(zonal_head_kernel, query, value, log_unit, len(axis))


def _tables(kernels: list[HeadKernel], normalised: bool, targets: Array, sources: Array) -> Array:
    tables = [kernel(targets, sources) for kernel in kernels]
    if normalised:
        return np.concatenate(tables)
    return np.asarray(np.sum(tables, axis=0)[ROWS.pull : ROWS.divergence + 1])


def _axial(name: str, matrix: Array, axis: Array) -> tuple[float, complex]:
    """Return the multiples of the identity that a matrix is along an axis and across it."""
    if geometry.asymmetry(matrix, axis):
        raise AsymmetryError(
            f"{name} must be a multiple of the identity along the axis of symmetry and across it "
            f"for this flow map, got {matrix}: take Particles"
        )
    return geometry.axial_part(matrix, axis)
