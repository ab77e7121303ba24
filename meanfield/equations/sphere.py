"""d/dt of a flow map on S^2 without symmetry, and X and div X at points of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from meanfield._checks import shown
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.rates import Rates, Tendency, added, fields_of_layers
from meanfield.kernels import direct, multipliers
from meanfield.kernels.bilinear import Coordinates, SphereBilinear
from meanfield.kernels.direct import Lost
from meanfield.kernels.harmonics import SphereNodes, SphereSums
from meanfield.kernels.kernel import is_divided
from meanfield.kernels.sinkhorn import scaling
from meanfield.measures.sphere_flow_map import SphereFlowMap
from meanfield.spaces.geometry import project
from meanfield.spaces.sphere import layout
from meanfield.spaces.sphere_fields import Places, SphereAt
from meanfield.typing import Array, Coefficients, Indices

Sources = tuple[Array, Array] | None

# a series at points of S^2 keeps some seven digits where G is this share of its maximum
_LOST = Lost(1e-9)


class FieldOnSphere(ABC):
    """X and div X at points of S^2, from moments of the measure.

    Attributes
    ----------
    scaled : sequence of KernelOnSphere
        The fields whose sources are the masses times u of DoublyStochastic.
    is_scaled_alone : bool
        Whether there is no source but one of these.
    """

    scaled: Sequence[KernelOnSphere] = ()
    is_scaled_alone = False

    @abstractmethod
    def rates(
        self, moments: Coefficients, places: Places, sources: Sources = None, loose: bool = False
    ) -> Rates:
        """X (n, 3), div X (n,) and ∇ δE/δmu (n, 3).

        Parameters
        ----------
        moments : ndarray
            Coefficients of the measure, see `moments`.
        places : Places
            Of rows (n, 3), of which only the directions count.
        sources : (ndarray, ndarray), optional
            Points (m, 3) and masses (m,) of the measure, summed where G is below 1e-9 of its
            maximum: the series loses its digits there, some seven of them at 1e-9.
        loose : bool
            Whether the series is used however small G is: what lies there has less than 1e-9 of
            the mass, and a mesh that is laid with it needs no more.

        Raises
        ------
        ArithmeticError
            If G is below 1e-9 of its maximum at a point, no sources are given, and it is not loose.
        """

    def velocity(self, moments: Coefficients, places: Places, loose: bool = False) -> Array:
        """X (n, 3) alone, see `rates`."""
        return self.rates(moments, places, None, loose).velocity


class KernelOnSphere(FieldOnSphere):
    """X = ± ∇u, or ± ∇u/G where it is normalised, and div X, on S^2.

    With a kernel s and its primitive S, u = Σ S_l mu_lm Y_lm and G = Σ s_l mu_lm Y_lm; for SA and
    USA S_l = Λ_l/β and s_l = Λ_l. Then div X = Δu/G - <X, ∇G>/G, where ∇G = βX of exponentials.
    Along a characteristic x' = X, d(log f)/dt = -div X. The field of DoublyStochastic is that of SA
    for the measure u mu, see `SphereTendency`. Numerator and denominator are in units of the
    kernel's series, so that nothing overflows.

    Parameters
    ----------
    dynamics : Dynamics
        With a kernel. Its noise is not part of the field.

    Attributes
    ----------
    sums : SphereSums
        Of the kernel.
    at : SphereAt
        The transforms, up to the degree where Λ_l no longer counts.
    needs_sources : bool
        Whether G may be below 1e-9 of its maximum, and X is divided by it.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> field = KernelOnSphere(SA(1.0))
    >>> moments = field.moments(np.array([[1.0, 0.0, 0.0]]), np.ones(1))
    >>> velocity, *_ = field.rates(moments, Places.of(np.array([[0.0, 1.0, 0.0]])))
    >>> velocity.round(12) + 0.0
    array([[1., 0., 0.]])
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics, self._kernel = dynamics, dynamics.pair_kernel
        self.is_scaled_alone = dynamics.is_balanced
        self.scaled = [self] if dynamics.is_balanced else []
        self.sums = sums = SphereSums(dynamics.pair_kernel)
        self.at, series = sums.at, sums.series
        self._normalised = dynamics.normalised and is_divided(series.potential)
        self._unit = 1.0 if self._normalised else series.unit * float(np.exp(series.log_unit))
        self._slope = dynamics.sign * self._unit * sums.primitive_factors
        # the gradient of the energy is this multiple of X, or of X times G
        self._gradient_unit, self._is_weighted = 0.0, False
        if (energy := dynamics.energy_functional) is not None:
            unit = float(np.exp(-energy.log_unit)) if energy.in_w2 else series.unit
            self._gradient_unit, self._is_weighted = dynamics.sign * unit, not energy.in_w2
        # ∇G is divided by G a second time if it is no multiple of the velocity's series
        self._lost = _LOST if self._kernel.growth is not None else Lost(10.0 * _LOST.below)
        self._lost_of = f"maximum, where its series has no digits under {shown(dynamics)}"
        self.needs_sources = self._normalised and self._kernel.least_share < self._lost.below

    def of(self, layer: Dynamics) -> KernelOnSphere:  # noqa: ARG002
        """The field of the layer that acts: this one always."""
        return self

    def during(self, start: float, end: float) -> KernelOnSphere:  # noqa: ARG002
        """The field that acts from one time to another: this one always."""
        return self

    def at_time(self, t: float) -> KernelOnSphere:  # noqa: ARG002
        """The field at a time: this one always."""
        return self

    def at_shares(self, start: float, end: float, shares: Array) -> list[KernelOnSphere]:  # noqa: ARG002
        """The field at each share of the time from one to another: this one always."""
        return [self] * len(shares)

    def moments(self, points: Array, masses: Array) -> Coefficients:
        """mu_lm = Σ_j m_j conj(Y_lm(x_j)) of masses (n,) at points (n, 3)."""
        return self.at.moments(Places.of(points), masses)

    def rates(
        self, moments: Coefficients, places: Places, sources: Sources = None, loose: bool = False
    ) -> Rates:
        """See `FieldOnSphere`."""
        pull, velocity, potential, small = self._divided(moments, places, sources, loose)
        divergence = self.at.laplacian(self._slope * moments, places)
        gradients = (self._gradient_unit * (pull if self._is_weighted else velocity),)
        if potential is None:
            return Rates(velocity, divergence, gradients)
        divergence /= potential
        if self._kernel.growth is not None:
            factor = self.dynamics.sign * self._kernel.growth
            divergence -= factor * np.einsum("ij,ij->i", velocity, velocity)
        else:
            steepness = self.at.gradient(self.sums.potential_factors * moments, places)
            steepness /= potential[:, None]
            divergence -= np.einsum("ij,ij->i", velocity, steepness)
        if len(small) and sources is not None:
            units = places.units()[small]
            there = self._kernel.velocity_and_divergence(units, sources)
            velocity[small] = self.dynamics.sign * there[0]
            divergence[small] = self.dynamics.sign * there[1]
        return Rates(velocity, divergence, gradients)

    def velocity(self, moments: Coefficients, places: Places, loose: bool = False) -> Array:
        """See `FieldOnSphere`."""
        return self._divided(moments, places, None, loose)[1]

    def _divided(
        self, moments: Coefficients, places: Places, sources: Sources, loose: bool
    ) -> tuple[Array, Array, Array | None, Indices]:
        """The numerator of X, X by series, its divisor, and the places where G must be summed."""
        pull = self.at.gradient(self._slope * moments, places)
        small = np.zeros(0, dtype=np.intp)
        if not self._normalised:
            return pull, pull, None, small
        potential = self.sums.potential(moments, places)
        if self.needs_sources:
            # the maximum over the sphere is at least the mean
            mean = float((self.sums.potential_factors[0] * moments[0]).real)
            largest = max(float(potential.max()), mean)
            small = self._lost.settle(potential, largest, _verdict(sources, loose), self._lost_of)
        return pull, pull / potential[:, None], potential, small


def _verdict(sources: Sources, loose: bool) -> str:
    """Return what is done where G is lost: replace it by a floor, refuse it, or sum it."""
    return "floor" if loose else "refuse" if sources is None else "sum"


# heads have larger rounding errors
_LOST_OF_HEADS = Lost(1e-6)


class HeadOnSphere:
    """v = V ∇G(Mx) [/ G(Mx)] of one head, and div P_x v, from moments, at points of S^2.

    With w = V ∇G as three series of harmonics, div P_x w = (Δ(x·w) - x·Δw)/2 - x·w is one more, and
    div P_x v = (div P_x w)/G - w·∇G/G².

    Parameters
    ----------
    query, value : ndarray, shape (3, 3)
        M, |M| <= 128, and V.

    Attributes
    ----------
    log_unit : float
        |M|: without normalisation v is in units of e^{|M|}.
    source_degree : int
        Largest degree of the moments asked for.
    """

    def __init__(self, query: Array, value: Array, normalised: bool) -> None:
        self.query, self.value, self._normalised = query, value, normalised
        self._bilinear = SphereBilinear(query)
        self.log_unit, degree = self._bilinear.log_unit, self._bilinear.degree
        self.source_degree = self._bilinear.source_degree
        self._at = SphereAt(degree + 1)
        self._inside = np.flatnonzero(self._at.degrees <= degree)
        degrees, _ = layout(degree + 2)
        self._wide, self._wide_count = np.flatnonzero(degrees <= degree + 1), len(degrees)
        self._coordinates = Coordinates(degree + 1)
        self._laplacian = -(self._at.degrees * (self._at.degrees + 1.0))
        self.needs_sources = normalised and bool(
            np.exp(-2.0 * self.log_unit) < _LOST_OF_HEADS.below
        )

    def pulled(
        self,
        moments: Coefficients,
        places: Places,
        units: Array,
        sources: Sources,
        loose: bool,
    ) -> tuple[Array, Array, Array]:
        """v (n, 3), div P_x v (n,) and V ∇G(Mx), which is v times G, at unit rows."""
        series_of_moments = self._bilinear.coefficients(moments)
        series = np.zeros((4, len(self._laplacian)), dtype=np.complex128)
        series[0, self._inside] = series_of_moments[0]
        series[1:, self._inside] = self.value @ series_of_moments[1:]
        pull = np.stack([self._at.values(component, places) for component in series[1:]], axis=1)
        spread = self._at.values(self._divergence(series[1:]), places)
        if not self._normalised:
            return pull, spread, pull
        potential, numerator = self._at.values(series[0], places), pull
        small = np.zeros(0, dtype=np.intp)
        if self.needs_sources:
            of = f"mean, where its series has no digits at beta |KᵀQ| = {self.log_unit:g}"
            scale = self._bilinear.mean_potential(moments)
            small = _LOST_OF_HEADS.settle(potential, scale, _verdict(sources, loose), of)
        pull = pull / potential[:, None]
        slope = self._at.gradient(series[0], places)
        spread = (spread - np.einsum("ij,ij->i", pull, slope)) / potential
        if len(small) and sources is not None:
            pull[small], spread[small] = self._direct(units[small], sources)
        return pull, spread, numerator

    def _divergence(self, series: Coefficients) -> Coefficients:
        """Return coefficients of div P_x w from those of w (3, n)."""
        products = []
        for row in (series, self._laplacian * series):
            wide = np.zeros((3, self._wide_count), dtype=np.complex128)
            wide[:, self._wide] = row
            products.append(sum(self._coordinates(wide[i])[1 + i] for i in range(3)))
        along, of_laplacian = products
        return np.asarray(0.5 * (self._laplacian * along - of_laplacian) - along)

    def _direct(self, units: Array, sources: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return v = V mean and div P_x v = tr(P_x V Cov M) - 2<x, v> by sums of positive terms."""
        mean, second_moment = direct.means(units @ self.query.T, sources)
        pull = mean @ self.value.T
        spread = second_moment - np.einsum("ij,ik->ijk", mean, mean)
        change = self.value @ spread @ self.query
        trace = np.trace(change, axis1=1, axis2=2)
        trace -= np.einsum("ij,ijk,ik->i", units, change, units)
        return pull, trace - 2.0 * np.einsum("ij,ij->i", units, pull)


class HeadsOnSphere(FieldOnSphere):
    """X and div X of attention with any heads on S^2, from moments up to a degree.

    Parameters
    ----------
    dynamics : SA, USA or Attention
    lmax : int
        Of the moments.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> moments = SphereAt(20).moments(Places.of(np.array([[1.0, 0.0, 0.0]])), np.ones(1))
    >>> field = HeadsOnSphere(SA(1.0), 20)
    >>> velocity, *_ = field.rates(moments, Places.of(np.array([[0.0, 1.0, 0.0]])))
    >>> velocity.round(12) + 0.0
    array([[1., 0., 0.]])
    """

    def __init__(self, dynamics: Dynamics, lmax: int) -> None:
        self._normalised, self._energy = dynamics.normalised, dynamics.energy_functional
        self._heads = [HeadOnSphere(m, v, self._normalised) for m, v in dynamics.matrices(3)]
        degrees = SphereAt(lmax).degrees
        self._rows = [np.flatnonzero(degrees <= head.source_degree) for head in self._heads]
        self._gradient_unit = 0.0
        if (energy := self._energy) is not None:
            # only a single head has an energy, and its sums are in units of e^{|M|}
            unit = float(np.exp(self._heads[0].log_unit - energy.log_unit))
            self._gradient_unit = energy.sign * unit

    def rates(
        self, moments: Coefficients, places: Places, sources: Sources = None, loose: bool = False
    ) -> Rates:
        """See `FieldOnSphere`."""
        units = places.units()
        total, spread, numerator = np.zeros_like(units), np.zeros(len(units)), units[:0]
        for head, rows in zip(self._heads, self._rows, strict=True):
            pull, there, numerator = head.pulled(moments[rows], places, units, sources, loose)
            unit = 1.0 if self._normalised else float(np.exp(head.log_unit))
            total += unit * pull
            spread += unit * there
        velocity = project(units, total)
        if self._energy is None:
            return Rates(velocity, spread)
        return Rates(velocity, spread, (self._gradient_unit * project(units, numerator),))


class OutputOnSphere(FieldOnSphere):
    """X and div X on S^2 of what no measure counts for, as for a feed-forward layer.

    Parameters
    ----------
    dynamics : Dynamics
        With a divergence.
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics

    def rates(
        self,
        moments: Coefficients,  # noqa: ARG002 (of measures)
        places: Places,
        sources: Sources = None,  # noqa: ARG002
        loose: bool = False,  # noqa: ARG002
    ) -> Rates:
        """See `FieldOnSphere`."""
        units, dynamics = places.units(), self.dynamics
        output, gradients = dynamics.output_and_gradients(None, units)
        velocity, *others = (project(units, vectors) for vectors in (output, *gradients))
        return Rates(velocity, dynamics.divergence_at(None, units), tuple(others))


class SumOnSphere(FieldOnSphere):
    """The weighted fields of several terms, on moments up to the largest degree of all.

    The measure itself is the first source. The masses times u of each DoublyStochastic are one
    more: moments have the coefficients of one source after the other, masses are rows.

    Parameters
    ----------
    dynamics : Dynamics
        With terms.
    lmax : int
        Of the moments.

    Attributes
    ----------
    scaled : sequence of KernelOnSphere
        Those whose sources are scaled.
    """

    def __init__(self, dynamics: Dynamics, lmax: int) -> None:
        degrees = SphereAt(lmax).degrees
        self._count, self.scaled = len(degrees), []
        self._parts: list[tuple[float, FieldOnSphere, Indices, int]] = []
        for weight, term in dynamics.weighted_terms:
            field: FieldOnSphere
            source, rows = 0, np.arange(self._count)
            if term.is_isotropic:
                field = KernelOnSphere(term)
                rows = np.flatnonzero(degrees <= field.at.degrees.max())
                if term.is_balanced:
                    self.scaled.append(field)
                    source = len(self.scaled)
            else:
                field = HeadsOnSphere(term, lmax) if term.score_matrices else OutputOnSphere(term)
            self._parts.append((weight, field, rows, source))

    def rates(
        self, moments: Coefficients, places: Places, sources: Sources = None, loose: bool = False
    ) -> Rates:
        """See `FieldOnSphere`; masses (sources, m) of several sources."""
        of = moments.reshape(-1, self._count)

        def part(field: FieldOnSphere, rows: Indices, i: int) -> Rates:
            own_sources = None if sources is None else (sources[0], np.atleast_2d(sources[1])[i])
            return field.rates(of[i, rows], places, own_sources, loose)

        # a term of weight 0 has an energy, which is followed at the places of the measure only
        asked = (weighted for weighted in self._parts if weighted[0] or sources is not None)
        return added((weight, part(field, rows, i)) for weight, field, rows, i in asked)


def _acting_field(layer: Dynamics, lmax: int) -> FieldOnSphere:
    """Return the field of a layer, which uses moments up to a degree."""
    ((weight, term), *others) = layer.weighted_terms
    # a kernel without heads has moments of its own
    if others or weight != 1.0 or (term.is_isotropic and not term.score_matrices):
        return SumOnSphere(layer, lmax)
    return HeadsOnSphere(term, lmax) if term.score_matrices else OutputOnSphere(term)


class LayersOnSphere:
    """The fields of all layers of a dynamics on S^2, on the same moments, each made when it acts.

    Parameters
    ----------
    dynamics : Dynamics

    Attributes
    ----------
    at : SphereAt
        The moments that some layer needs.
    of : callable
        The field of one of the layers.

    Raises
    ------
    ValueError
        If |β KᵀQ| > 128 for a head.

    Examples
    --------
    >>> from meanfield.dynamics import SA, USA, Layers
    >>> depth = LayersOnSphere(Layers([SA(1.0), USA(1.0)], step=0.5))
    >>> depth.during(0.0, 0.5) is depth.during(0.5, 1.0)
    False
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        instances = [instance for layer in dynamics.representatives for instance in layer.instances]
        terms = [term for instance in instances for _, term in instance.weighted_terms]
        largest = max(
            (term.pair_kernel.degree(3) for term in terms if term.is_isotropic), default=0
        )
        lmax = max(multipliers.bandwidth(dynamics.reach, 3) + 1, largest)
        self.at = SphereAt(lmax)
        # a kernel that varies in time uses its own series, as it does in a sum
        make = SumOnSphere if dynamics.varies else _acting_field
        self.of: Callable[[Dynamics], FieldOnSphere] = fields_of_layers(
            dynamics, partial(make, lmax=lmax)
        )

    def at_time(self, t: float) -> FieldOnSphere:
        """The field of what varies; it hangs on the time alone, so that threads may share it."""
        return self.of(self.dynamics.at(t))

    def during(self, start: float, end: float) -> FieldOnSphere:
        """The field of the layer that acts from one time to another."""
        return self.of(self.dynamics.at(0.5 * (start + end)))

    def at_shares(self, start: float, end: float, shares: Array) -> list[FieldOnSphere]:
        """The field at each share of the time from one to another, in which one layer acts."""
        if not self.dynamics.varies:
            return [self.during(start, end)] * len(shares)
        return [self.at_time(float(start + share * (end - start))) for share in shares]

    def moments(self, points: Array, masses: Array) -> Coefficients:
        """mu_lm = Σ_j m_j conj(Y_lm(x_j)) of masses (n,) at points (n, 3)."""
        return self.at.moments(Places.of(points), masses)


def field_on_sphere(dynamics: Dynamics) -> KernelOnSphere | LayersOnSphere:
    """The field on S^2 of any dynamics: `KernelOnSphere` where it has one kernel."""
    has_kernel = dynamics.is_isotropic and dynamics.pair_kernel is not None
    return KernelOnSphere(dynamics) if has_kernel else LayersOnSphere(dynamics)


# a log density may have an error this much larger than that of a coordinate
_LOG_DENSITY_SHARE = 100.0
_LITTLE_MASS = 1e-2
_NO_MASS = 1e-15
_LOOSEST_STEP_TOL = 1e-5


def split_mass(flow: SphereFlowMap) -> tuple[Array, Array]:
    """The masses of the nodes, and those of the particles."""
    return flow.weights[: flow.n_nodes], flow.weights[flow.n_nodes :]


class SphereTendency(Tendency[SphereFlowMap]):
    """x' = X at nodes and particles, (log f)' = -div X at the nodes.

    The state holds the points (n, 3), nodes and then particles, and the growth of log f at the
    nodes, which is finite where f is 0. X is extended to R^3 by directions alone, so points may be
    put back on the sphere at any time. Under DoublyStochastic the masses m u make the field, u
    scaled from its last value.

    Parameters
    ----------
    flow : SphereFlowMap
    field : KernelOnSphere or LayersOnSphere
    acting : FieldOnSphere
        That of the layer that acts, and of a time.

    Attributes
    ----------
    initial_state : ndarray
    flow : SphereFlowMap
    """

    def __init__(
        self, flow: SphereFlowMap, field: KernelOnSphere | LayersOnSphere, acting: FieldOnSphere
    ) -> None:
        self.flow, self._field, self._acting = flow, field, acting
        self._masses = flow.weights
        self._n_nodes = flow.n_nodes
        self.initial_state = np.concatenate([flow.points.ravel(), np.zeros(self._n_nodes)])
        # the last log u of each source that the scaling multiplies
        self._log_u: dict[int, Array] = {}

    def points(self, state: Array) -> Array:
        """The points of a state, a view of shape (n, 3)."""
        return state[: self.flow.points.size].reshape(-1, 3)

    def measure(self, state: Array) -> SphereFlowMap:
        """The flow map of a state, at the time of the one that this began from."""
        flow = self.flow
        logs = flow.log_density.copy()
        logs[: self._n_nodes] += state[flow.points.size :]
        points = self.points(state).copy()
        return flow.moved_to(flow.t, points=points, weights=flow.weights, log_density=logs)

    def allowed_errors(self, state: Array, tol: float) -> Array:
        """The errors that a step may make in each entry, if it may miss a unit of mass by `tol`."""
        # nodes of little mass may be misplaced by more
        carried = max(float(split_mass(self.flow)[0].sum()), _NO_MASS)
        loose = max(tol, min(_LOOSEST_STEP_TOL, tol * _LITTLE_MASS / carried))
        allowed = np.full(len(state), tol)
        allowed[: 3 * self._n_nodes] = loose
        allowed[self.flow.points.size :] = _LOG_DENSITY_SHARE * loose
        return allowed

    def _sources(self, points: Array) -> tuple[Array, Array]:
        """Nodes and particles with the masses that make the field: m u under DoublyStochastic."""
        masses, acting = self.flow.weights, self._acting
        if not acting.scaled:
            return points, masses
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        rows = [] if acting.is_scaled_alone else [masses]
        for i, field in enumerate(acting.scaled):
            # G at a node is at least sqrt(m), so the series keeps the digits that matter for mass
            sums = SphereNodes(units, field.sums, most_pairs=0)
            self._log_u[i] = scaling(sums.potential, masses / masses.sum(), self._log_u.get(i))
            rows.append(masses * np.exp(self._log_u[i]))
        return points, np.array(rows) if len(rows) > 1 else rows[0]

    def moments(self, state: Array) -> Coefficients:
        """mu_lm of the masses that make the field, of one source after the other."""
        points, masses = self._sources(self.points(state))
        return self._moments(Places.of(points), masses)

    def _moments(self, places: Places, masses: Array) -> Coefficients:
        basis = self._field.at
        moments = [basis.moments(places, row) for row in np.atleast_2d(masses)]
        return moments[0] if len(moments) == 1 else np.concatenate(moments)

    def divergence(self, state: Array, points: Array) -> Array:
        """div X at unit rows (k, 3), shape (k,)."""
        sources = self._sources(self.points(state))
        moments = self._moments(Places.of(sources[0]), sources[1])
        return np.asarray(self._acting.rates(moments, Places.of(points), sources).divergence)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = self.points(state)
        places, sources = Places.of(points), self._sources(points)
        moments = self._moments(places, sources[1])
        self._rates = rates = self._acting.rates(moments, places, sources)
        self.points(out)[:] = rates.velocity
        np.negative(rates.divergence[: self._n_nodes], out=out[rates.velocity.size :])

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        velocity = self._rates.velocity
        squares = np.einsum("ij,ij->i", velocity, velocity)
        return float(np.sqrt(self.flow.weights @ squares))
