"""A measure as the image of a law under a flow: nodes on a line of labels, or on a mesh of S^2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from meanfield import _checks
from meanfield._checks import (
    freeze,
    generator,
    integer,
    number,
    read_only,
    shown,
    tell_apart,
    unit_vector,
)
from meanfield.kernels.bilinear import SphereBilinear, largest_score
from meanfield.kernels.direct import latitude_rule, logs, point_log_moment
from meanfield.kernels.harmonics import SphereScoreSums
from meanfield.kernels.sinkhorn import Balanced, latitude_sums, point_sums
from meanfield.laws.law import (
    Law,
    asymmetry,
    brief,
    check_law,
    checked_logpdf,
    checked_pdf,
    has_density,
    points_around,
    symmetry_axis,
)
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.quantisation import lattice, lattice_points, quantised_points
from meanfield.measures.clusters import RADIUS, Clusters, grouped
from meanfield.measures.density import Density, SeriesLaw
from meanfield.measures.measure import Measure, turned
from meanfield.measures.particles import Particles
from meanfield.spaces import CircleAt, Harmonics, Sphere, SphereAt, ZonalAt, geometry, panels
from meanfield.spaces.cubed_sphere import (
    DRIFT_SHARE,
    LEAF_SHARES,
    ORDER,
    PER_LEAF,
    drift_missed,
    lay,
    parts,
    quadrature_error,
    spreads,
    tails,
)
from meanfield.typing import Array, ArrayLike, Coefficients, Integers, NDArray, Rng, Steepness

_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False, repr=False)
class LabelLine:
    """Labels of the circle (angles in [0, 2π)) or of latitudes (polar angles in [0, π]).

    Parameters
    ----------
    law : Law
        The measure of the labels.
    axis : ndarray, shape (d,), or None
        Axis of symmetry; None on the circle.
    scale : float
        What the law's pdf is multiplied with, so that the mass is 1 to rounding.
    """

    law: Law
    axis: Array | None
    scale: float = 1.0

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return self.law.dim

    @property
    def length(self) -> float:
        """Length of the line of labels."""
        return _TURN if self.axis is None else float(np.pi)

    def points(self, angles: Array) -> Array:
        """Points (n, d) at angles: of the circle, or on one meridian."""
        return geometry.line_points(angles, self.axis)

    def pdf(self, labels: Array) -> Array:
        """f_0 at labels, shape (n,)."""
        return np.asarray(self.scale * checked_pdf(self.law, self.points(labels)))

    def label_density(self, labels: Array) -> Array:
        """The law's density of labels with respect to their Lebesgue measure, shape (n,)."""
        return self.pdf(labels) * geometry.latitude_density(labels, self.dim)

    def logpdf(self, labels: Array) -> Array:
        """log f_0 at labels, shape (n,), also where f_0 is too small for a float."""
        return np.asarray(np.log(self.scale) + checked_logpdf(self.law, self.points(labels)))


def axis_of_labels(law: Law, axis: ArrayLike | None) -> Array | None:
    """The axis about which the labels of a law are polar angles; None on the circle.

    Raises
    ------
    ValueError
        If there is none.
    """
    if law.dim == 2:
        if axis is not None:
            raise ValueError(f"axis must be None on the circle, got {shown(axis)}")
        return None
    if axis is not None:
        stated_axis = unit_vector("axis", axis, law.dim)
        if gap := asymmetry(law, stated_axis):
            raise ValueError(
                f"axis must be one about which the law is symmetric, got {brief(stated_axis)}, but "
                f"{shown(law)} differs by {gap:.2g} between two meridians"
            )
        return stated_axis
    own_axis = symmetry_axis(law)
    if own_axis is None:
        raise ValueError(
            f"law must be symmetric about an axis that its class knows, or axis be given, got "
            f"{shown(law)}"
        )
    return own_axis


def _law_and_axis(law_or_density: object, axis: ArrayLike | None) -> tuple[Law, ArrayLike | None]:
    """The law and the axis of a flow map; of a density those that it has, or else its series.

    Raises
    ------
    ValueError
        If it is neither a law nor a density.
    """
    if isinstance(law_or_density, Density):
        _checks.check_measure("law", law_or_density)
        law = law_or_density.law or SeriesLaw(law_or_density)
        return law, law_or_density.axis if axis is None else axis
    remedy = "" if _checks.is_single(law_or_density) else _REMEDY
    if callable(law_or_density) and not isinstance(law_or_density, type):
        remedy = ": of a function f take mf.FlowMap(mf.Density(space, f))"
    return check_law("law", law_or_density, remedy), axis


_REMEDY = ": for tokens take mf.Particles(X), for their law mf.PointCloud(X)"


class FlowMap(Measure):
    """mu_t = Φ_t # mu_0: nodes that carry the masses of a law along with the flow.

    A flow map can follow a measure through any concentration, since its nodes move with the
    mass. `FlowMap(law)` is a `LineFlowMap` on the circle and for laws that are symmetric
    about an axis, a `SphereFlowMap` for other laws on S^2.

    Parameters
    ----------
    law_or_density : Law or Density
        On the circle, on S^2, or symmetric about an axis in d >= 3. For a density it is the
        law that it was made from, or else its series.
    tol : float, optional
        Error of the nodes' positions, weighted by mass; 1e-12 if omitted, 1e-9 in the second form.
    axis : array_like, shape (d,), optional
        The axis of symmetry, if the law does not give it (d >= 3).
    max_nodes : int
        The most nodes that the law, and later a run, may take.
    atom_radius : float
        Radius in radians, 0 to 1e-2, at which a run holds a cluster as an atom; 0 for never. On
        S^2 without symmetry particles of the same moments carry a cluster, unless it is 0. For SA
        and USA: under other dynamics a cluster may part again, and its nodes stay nodes.

    Attributes
    ----------
    dim : int
    points : ndarray, shape (n, d)
        Φ_t(label) of every node.
    weights : ndarray, shape (n,)
        Masses of the nodes.
    atoms : Clusters
        Clusters that are held as points, the heaviest first. On S^2 without symmetry particles
        nearer than 0.3 to one another are one.
    max_nodes, atom_radius : int, float
    log_density : ndarray, shape (n,)
        log f_t at the points; inf where what they stand for has none.

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

    _for_rooms = "from_arrays", "node_density"

    tol: float
    max_nodes: int
    atom_radius: float
    atoms: Clusters
    log_density: Array
    # the default and the least tolerance, and the least number of nodes
    _tols: ClassVar[tuple[float, float]]
    _least_nodes: ClassVar[int]
    # whose draws are those of the measure
    _drawn_law: Law

    def __new__(
        cls,
        law_or_density: Law | Density | None = None,
        /,
        *,
        tol: float | None = None,  # noqa: ARG004 (of __init__)
        axis: ArrayLike | None = None,
        max_nodes: int = 200_000,  # noqa: ARG004 (of __init__)
        atom_radius: float = 1e-8,  # noqa: ARG004 (of __init__)
    ) -> FlowMap:
        """Make the form that holds the law; its own __init__ follows."""
        if issubclass(cls, LineFlowMap | SphereFlowMap):
            return super().__new__(cls)
        if cls is not FlowMap:
            raise ValueError(f"FlowMap must not be the base of a class, got {cls.__name__}")
        law, axis = _law_and_axis(law_or_density, axis)
        if law.dim == 2 or axis is not None or symmetry_axis(law) is not None:
            return super().__new__(LineFlowMap)
        if law.dim == 3 and has_density(law):
            return super().__new__(SphereFlowMap)
        if law.dim == 3:
            raise ValueError(f"law must have a density on S^2, got {shown(law)}: take Particles")
        raise ValueError(
            f"law must have an axis of symmetry and a density beyond S^2, got {shown(law)}: "
            "take Particles"
        )

    def __init__(
        self,
        law_or_density: Law | Density,
        /,
        *,
        tol: float | None = None,
        axis: ArrayLike | None = None,
        max_nodes: int = 200_000,
        atom_radius: float = 1e-8,
    ) -> None:
        law, axis = _law_and_axis(law_or_density, axis)
        default, least = self._tols
        self.tol = number("tol", default if tol is None else tol, low=least, high=1e-2)
        self.max_nodes = integer("max_nodes", max_nodes, low=self._least_nodes)
        self.atom_radius = number("atom_radius", atom_radius, low=0, high=1e-2)
        self._begin(law, axis)

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:
        """Lay the nodes of a law."""

    @classmethod
    def from_arrays(
        cls,
        law: Law | LabelLine,
        *,
        tol: float,
        max_nodes: int,
        atom_radius: float,
        **given: object,
    ) -> Self:
        """The flow map of a law, or its line, with the arrays of its form and nothing computed."""
        flow = object.__new__(cls)
        flow.tol, flow.max_nodes, flow.atom_radius = tol, max_nodes, atom_radius
        flow._set(law, **given)
        return flow

    def _set(self, *_: Any, **arrays: Any) -> None:
        """Take what it is made of; arrays are read-only from now on."""
        freeze(self, **arrays)

    @property
    def run_limits(self) -> dict[str, Any]:
        return {"max_nodes": self.max_nodes, "atom_radius": self.atom_radius}

    @property
    def node_density(self) -> Array:
        """f_t at the points, shape (n,); inf where it overflows."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_density))

    def sample(self, n: int, rng: Rng) -> Array:
        """n independent draws, unit rows (n, d); `Particles.sample(mu, n, rng)` has tokens.

        They are the images of draws of the law under the flow, and atoms with their masses.

        Raises
        ------
        ValueError
            If n < 1, rng is neither an integer >= 0 nor a numpy Generator, or the flow map is one
            on S^2 without symmetry that has moved.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.FlowMap(mf.FourierSeries([0.5]))
        >>> bool(np.abs(mu.sample(10_000, rng=0).mean(axis=0) - mu.mean()).max() < 0.04)
        True
        """
        return self._drawn_law.sample(integer("n", n, low=1), generator("rng", rng))

    def quantise(self, n: int, rng: Rng | None = None) -> Array:
        """n unit rows (n, d) with equal shares of the mass, on the circle or S^2.

        See `laws.quantised_points`; `Particles.quantise(mu, n)` has tokens.

        Raises
        ------
        ValueError
            If d > 3, n < 1, rng is neither an integer >= 0 nor a numpy Generator, or the flow map
            is one on S^2 without symmetry that has moved.

        Examples
        --------
        >>> import meanfield as mf
        >>> mf.FlowMap(mf.Uniform(2)).quantise(2).round(12) + 0.0
        array([[ 0.,  1.],
               [ 0., -1.]])
        """
        return quantised_points(self._drawn_law, n, rng)

    def entropy(self) -> float:
        """∫ log f_t dmu_t = ∫ f log f dσ, 0 for the uniform law."""
        counted = self.weights > 0.0
        return float(self.weights[counted] @ self.log_density[counted])

    def harmonic_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """∫ conj(Y) dmu for all Y of the basis, and what is left out: see `Measure.moments`."""
        smooth, last = self._smooth_moments(basis, multipliers)
        moments = basis.point_moments(*self.point_masses)
        moments += smooth
        return moments, last / max(float(multipliers @ basis.power(moments)), _LEAST_POWER)

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:  # noqa: ARG002
        """The moments of all but the atoms, and Σ multipliers · power of their last degrees."""
        return basis.point_moments(self.points, self.weights), 0.0

    def balance(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, at nodes that resolve β.

        β <= 150 where nodes stand for latitudes.

        Raises
        ------
        ValueError
            If β is negative, not finite, or too large for the nodes.
        """
        flow, axis = self.resolve(number("beta", beta, low=0)), self.axis
        if axis is None:
            return Balanced.of(flow.points, flow.weights, beta, point_sums(flow.points, beta))
        sums = latitude_sums(flow.points, axis, beta)
        return Balanced.of(flow.points, flow.weights, beta, sums, axis)


# a panel may extend over this angle / β: 16 Gauss nodes integrate e^{β cos} across it to rounding
REACH = 8.0
_MOST = 4_000_000
# terms of a sum over all latitudes, a few GB
_MOST_SOURCES = 50_000_000
# rounding moves the mass of a law on a line by this
_LAW_TOLERANCE = 1e-14

# arrays have a row for each panel
_PANELS = (-1, panels.NODES)
# smaller masses lose digits and then underflow
_LEAST_WEIGHT = 1e-290
# owner of a node that stands at no atom
FREE = -1
# an atom this near a pole is there; elsewhere it stands for a latitude
_POLE = 1e-6
_FIRST_DEGREE = 32
# moments are right to a few times the tolerance
_TOLERANCES = 10.0
# share of the largest multiplier at which those of a kernel have ended, where its degrees do
_ENDED = 1e-30
# no squared norm is less, were it that of the uniform measure
_LEAST_POWER = 1e-300


def _count_within(extents: Array, reach: float) -> float:
    """How many nodes it takes that panels extend over no more than an angle."""
    halvings = np.ceil(np.log2(np.maximum(extents / reach, 1.0)))
    return panels.NODES * float(np.exp2(halvings).sum())


def _at_pole(angles: Array) -> NDArray[np.bool_]:
    return np.abs(np.sin(angles)) < _POLE


class LineFlowMap(FlowMap):
    """mu_t = Φ_t # mu_0 on the circle, or axisymmetric on S^{d-1}: nodes that move with the flow.

    The labels lie on a line, in panels of 16 Gauss nodes, and the masses are those of the law.
    Panels split as the flow stretches them, clusters that have shrunk to a point are held as
    atoms: a flow map follows a measure through concentration, which no series can.

    Parameters
    ----------
    law_or_density : Law or Density
        On the circle, or axisymmetric in d >= 3.
    tol : float, optional
        Default 1e-12. A panel is split when the tail of its positions' expansion, in radians, or
        the share that it misses of a smooth drift, times its mass exceeds this. It is also the
        tolerance of time steps, for the mean position error.
    axis : array_like, shape (d,), optional
        The axis of symmetry, if the law does not give it (d >= 3).
    max_nodes, atom_radius : int, float
        As of a `FlowMap`.

    Attributes
    ----------
    dim : int
    axis : ndarray, shape (d,), or None
        Axis of symmetry; None on the circle.
    points : ndarray, shape (n, d)
        Φ_t(label) of every node; for an axisymmetric law on one meridian, each for its latitude.
    weights : ndarray, shape (n,)
        Masses of the nodes.
    angles : ndarray, shape (n,)
        Angle on the circle (not reduced to one turn) or polar angle.
    log_density : ndarray, shape (n,)
        log f_t at the points; inf where what they stand for has none.
    atoms : Clusters
        The clusters held as atoms, where their nodes stand.

    Raises
    ------
    ValueError
        If an argument is out of range, the law is not symmetric about an axis, or it takes too
        many nodes.

    Examples
    --------
    >>> from meanfield.laws import FourierSeries
    >>> mu = LineFlowMap(FourierSeries(cos=[0.5]))
    >>> mu, mu.mean().round(14) + 0.0
    (FlowMap(dim=2, nodes=128, atoms=0), array([0.25, 0.  ]))
    """

    line: LabelLine
    edges: Array
    angles: Array
    expansion: Array
    owners: Integers
    atom_angles: Array
    _tols = 1e-12, 1e-14
    _least_nodes = panels.NODES

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:
        line = LabelLine(law, axis_of_labels(law, axis))
        if type(law) is PointCloud and not law.has_density:
            if line.axis is not None:
                raise ValueError(
                    f"law must have a density in dim = {law.dim} > 2, got {shown(law)} without "
                    f"bandwidth"
                )
            # each token an atom, its nodes all in one place
            atoms = geometry.circle_angles(law.points)
            edges, labels = np.stack([atoms, atoms], axis=1), np.repeat(atoms, panels.NODES)
            masses = np.repeat(law.weights / panels.NODES, panels.NODES)
            owners = np.repeat(np.arange(len(atoms)), panels.NODES)
        else:
            tol = min(_LAW_TOLERANCE, self.tol)
            edges = panels.lay(line.label_density, line.length, tol, self.max_nodes)
            labels, widths = panels.nodes(edges).ravel(), panels.weights(edges).ravel()
            line = replace(line, scale=1.0 / float((line.label_density(labels) * widths).sum()))
            masses = line.label_density(labels) * widths
            atoms, owners = np.zeros(0), np.full(len(labels), FREE)
        arrays = {"edges": edges, "angles": labels, "weights": masses, "owners": owners}
        self._set(line, expansion=np.zeros(len(labels)), atoms=atoms, **arrays)

    def _set(self, line: LabelLine, *, atoms: Array, **arrays: NDArray[Any]) -> None:
        self.line, self.dim = line, line.dim
        super()._set(atom_angles=atoms, **arrays)

    def moved_to(self, **given: object) -> LineFlowMap:
        """The same law's flow map with some of its arrays, or its tolerance, replaced."""
        kept = ("tol", "edges", "angles", "expansion", "weights", "owners")
        own = {name: getattr(self, name) for name in kept} | {"atoms": self.atom_angles}
        return LineFlowMap.from_arrays(self.line, **self.run_limits, **own | given)

    def __repr__(self) -> str:
        return f"FlowMap(dim={self.dim}, nodes={len(self.angles)}, atoms={len(self.atom_angles)})"

    @property
    def law(self) -> Law:
        """The measure of the labels."""
        return self.line.law

    @property
    def axis(self) -> Array | None:  # type: ignore[override]
        """Axis of symmetry, shape (d,); None on the circle."""
        return self.line.axis

    def is_along(self, axis: Array) -> bool:
        """Whether the polar angles are counted from the same end as those of a parallel axis."""
        return self.axis is not None and float(self.axis @ axis) > 0.0

    @property
    def has_density(self) -> bool:  # type: ignore[override]
        """Whether the law has a density, which the flow then keeps for ever."""
        return bool(np.all(self.edges[:, 1] > self.edges[:, 0]))

    @property
    def is_at_labels(self) -> bool:
        """Whether the measure is still that of the law."""
        return bool(np.array_equal(self.angles, self._labels))

    @property
    def _labels(self) -> Array:
        """Angle of each node at t = 0, shape (n,)."""
        return panels.nodes(self.edges).ravel()

    @cached_property
    def points(self) -> Array:  # type: ignore[override]
        """Φ_t(label), shape (n, d); where d > 2 on one meridian, each for its latitude."""
        return read_only(self.line.points(self.angles))

    @cached_property
    def log_density(self) -> Array:  # type: ignore[override]
        """log f_t(Φ_t(label)) = log f_0(label) - ∫ div X dt, shape (n,); inf for given tokens."""
        if not self.has_density:
            return np.full(len(self.angles), np.inf)
        return self.line.logpdf(self._labels) - self.expansion

    @property
    def _log_weights(self) -> Array:
        """log of the masses of the nodes, shape (n,), also of those too small for a float."""
        if not self.has_density or self.weights.min() > _LEAST_WEIGHT:
            return logs(self.weights)
        labels, widths = self._labels, panels.weights(self.edges).ravel()
        latitudes = geometry.log_latitude_density(labels, self.dim)
        return self.line.logpdf(labels) + latitudes + np.log(widths)

    @property
    def atoms(self) -> Clusters:  # type: ignore[override]
        """Clusters that are held as points, the heaviest first."""
        masses = self.atom_masses
        heaviest = np.argsort(-masses, kind="stable")
        centres = self.line.points(self.atom_angles[heaviest])
        ranks = np.append(np.argsort(heaviest), -1)
        return Clusters(masses[heaviest], centres, np.zeros(len(heaviest)), ranks[self.owners])

    @property
    def atom_masses(self) -> Array:
        """Masses (m,) of the clusters held as atoms."""
        held = self.owners >= 0
        return np.asarray(
            np.bincount(self.owners[held], self.weights[held], minlength=len(self.atom_angles)),
            dtype=np.float64,
        )

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) of atoms; none off the poles, which stand for latitudes."""
        if self.axis is None:
            return geometry.circle_points(self.atom_angles), self.atom_masses
        polar = _at_pole(self.atom_angles)
        ends = np.sign(np.cos(self.atom_angles[polar]))
        return np.outer(ends, self.axis), self.atom_masses[polar]

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """Up to twice the degree at which the tail shows that no more is needed."""
        size, negligible = min(_FIRST_DEGREE, basis.kmax), (_TOLERANCES * self.tol) ** 2
        # beyond the last degree of a kernel there is none that the power of others could stand for
        has_ended = multipliers[-1] <= _ENDED * multipliers.max()
        while True:
            part = basis.resized(size)
            smooth = self._node_moments(part)
            power = part.power(smooth)
            weighted = multipliers[: size + 1] * power
            last = float(weighted[size // 2 + 1 :].sum())
            low = power[size // 2 + 1 :].sum() <= negligible
            if low or last <= negligible * weighted[1:].sum() or size == basis.kmax:
                break
            size = min(2 * size, basis.kmax)
        moments = np.zeros(len(basis.degrees), dtype=smooth.dtype)
        moments[basis.degrees <= size] = smooth
        return moments, 0.0 if low or has_ended else last

    def _node_moments(self, basis: Harmonics) -> Coefficients:
        """Moments of all but the atoms, of panels split until they resolve the basis."""
        finer = self.refine(REACH / basis.kmax)
        free = finer.owners == FREE
        if self.axis is None:
            return CircleAt(basis.kmax).moments(finer.angles[free], finer.weights[free])
        free |= np.isin(finer.owners, np.flatnonzero(~_at_pole(finer.atom_angles)))
        cosines, masses = np.cos(finer.angles[free]), finer.weights[free]
        if basis.axis is None:
            own = ZonalAt(self.axis, basis.kmax).moments(cosines, masses)
            return turned(own, self.axis, basis)
        return ZonalAt(basis.axis, basis.kmax).moments(
            np.sign(self.axis @ basis.axis) * cosines, masses
        )

    def mean(self) -> Array:
        """∫ x dmu, shape (d,)."""
        if self.axis is None:
            return super().mean()
        return np.asarray(float(self.weights @ np.cos(self.angles)) * self.axis)

    @property
    def tail(self) -> float:
        """The largest tail of a panel's expansion, in radians, times the panel's mass."""
        return float(self._tails().max())

    def _tails(self) -> Array:
        """Tail times mass of each panel; 0 where all nodes stand at one atom."""
        owners, masses = self.owners.reshape(_PANELS), self.weights.reshape(_PANELS).sum(axis=1)
        moving = (owners[:, 0] == FREE) | (owners != owners[:, :1]).any(axis=1)
        return np.where(moving, masses * panels.tails(self.angles.reshape(_PANELS)), 0.0)

    def refine(
        self, reach: float, steepness: Steepness | None = None, max_nodes: int = _MOST
    ) -> LineFlowMap:
        """The flow map with every panel split that is no longer resolved; itself if none is.

        Parameters
        ----------
        reach : float
            The angle over which a panel with more mass than `tol` may extend, for any tail:
            the kernel must be resolved across it.
        steepness : callable, optional
            That of a drift, of which a panel may miss `tol` over its mass. No panel is split for
            it where there are more than `max_nodes` nodes.
        max_nodes : int, optional
        """
        split = (self._tails() > self.tol) | (self._extents() > reach)
        if steepness is not None and len(self.angles) <= max_nodes:
            widths = steepness(self.points.reshape(-1, panels.NODES, self.dim))
            masses = self.weights.reshape(_PANELS).sum(axis=1)
            split |= panels.missed(widths, panels.NODES) * masses > self.tol
        if not split.any():
            return self
        return self._split(split).refine(reach, steepness, max_nodes)

    def resolve(
        self, beta: float, steepness: Steepness | None = None, max_nodes: int = _MOST
    ) -> LineFlowMap:
        """The flow map with panels split until e^{β cos} is integrated across each to rounding.

        So is a drift of this steepness.

        Raises
        ------
        ValueError
            If that takes more than `max_nodes` nodes.
        """
        beta = number("beta", beta, low=0)
        reach = REACH / max(1.0, beta)
        if (count := _count_within(self._extents(), reach)) > max_nodes:
            nodes, _ = tell_apart(count, max_nodes)
            raise ValueError(
                f"beta, or the length of z, must be smaller for {self}, got {beta:g}, which takes "
                f"some {nodes} nodes > {max_nodes}"
            )
        finer = self.refine(reach, steepness, max_nodes)
        if steepness is not None and (count := len(finer.angles)) > max_nodes:
            raise ValueError(
                f"dynamics must have a drift that {max_nodes} nodes resolve for {self}, got one "
                f"that takes at least {count}"
            )
        return finer

    def _quantiles(self, levels: Array) -> Array:
        """The angles (n,) that shares (n,) of the mass, in the order of labels, have reached.

        A panel of which an atom has nodes goes no farther than these: its polynomial may swing.
        """
        angles, masses = self.angles.reshape(_PANELS), self.weights.reshape(_PANELS)
        held = (self.owners.reshape(_PANELS) != FREE).any(axis=1)
        reached, panel = panels.quantiles(masses, angles, levels)
        lowest = np.where(held, angles.min(axis=1), -np.inf)[panel]
        highest = np.where(held, angles.max(axis=1), np.inf)[panel]
        reached = np.clip(reached, lowest, highest)
        return reached if self.axis is None else np.clip(reached, 0.0, np.pi)

    def sample(self, n: int, rng: Rng) -> Array:
        """As of `FlowMap`."""
        n, source = integer("n", n, low=1), generator("rng", rng)
        angles = self._quantiles(source.random(n))
        if self.axis is None:
            return geometry.circle_points(angles)
        return points_around(self.axis, angles, source)

    def quantise(self, n: int, rng: Rng | None = None) -> Array:
        """As of `FlowMap`."""
        if self.dim > Sphere.dim:
            raise ValueError(f"measure must be on the circle or S^2 to be quantised, got {self}")
        levels, turns = lattice(n, rng)
        angles = self._quantiles(levels)
        if self.axis is None:
            return geometry.circle_points(angles)
        return lattice_points(self.axis, angles, turns)

    def log_moment_at(self, z: Array) -> tuple[Array, Array]:
        """As `log_moment`, on panels of any mass: G may be made where there is next to none.

        Raises
        ------
        ValueError
            If z is so long that this takes too many nodes.
        """
        longest = float(np.linalg.norm(z, axis=1).max(initial=0.0))
        reach, finer = REACH / max(1.0, longest), self
        count = _count_within(self._widths, reach)
        if self.axis is not None:
            across = np.linalg.norm(z - np.outer(z @ self.axis, self.axis), axis=1)
            count *= len(latitude_rule(self.dim, float(across.max(initial=0.0)))[0])
        if count > _MOST_SOURCES:
            raise ValueError(
                f"z must be shorter for {self}, got rows of lengths up to {longest:g}, which take "
                f"some {tell_apart(count, _MOST_SOURCES)[0]} nodes > {_MOST_SOURCES}"
            )
        while (wide := finer._widths > reach).any():
            finer = finer._split(wide)
        return point_log_moment(finer.points, finer._log_weights, z, finer.axis)

    def at_scale(self, radius: float) -> tuple[Array, Array]:
        """The nodes, on panels that are narrow on the scale of the radius.

        On the circle those that are there are near enough for the default radius.
        """
        if self.axis is None and radius >= RADIUS:
            return self.quadrature
        reach = panels.width_for(radius, self.dim)
        if (count := _count_within(self._extents(), reach)) > _MOST:
            raise ValueError(
                f"radius must be larger for {self}, got {radius:g}, which takes some "
                f"{tell_apart(count, _MOST)[0]} nodes > {_MOST}"
            )
        return self.refine(reach).quadrature

    def _extents(self) -> Array:
        """The angle over which each panel of more mass than `tol` extends, else 0."""
        masses = self.weights.reshape(_PANELS).sum(axis=1)
        return np.where(masses > self.tol, self._widths, 0.0)

    @property
    def _widths(self) -> Array:
        """The angle over which each panel extends."""
        return np.asarray(np.ptp(self.angles.reshape(_PANELS), axis=1))

    def _split(self, split: NDArray[np.bool_]) -> LineFlowMap:
        order = np.argsort(
            np.concatenate([np.flatnonzero(~split), np.repeat(np.flatnonzero(split), 2)]),
            kind="stable",
        )

        def joined(kept: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([kept[~split], new])[order]

        halves = panels.halves(self.edges[split])
        densities = self.line.label_density(panels.nodes(halves).ravel()).reshape(_PANELS)
        new = {
            "angles": panels.halved(self.angles.reshape(_PANELS)[split]),
            "expansion": panels.halved(self.expansion.reshape(_PANELS)[split]),
            "weights": densities * panels.weights(halves),
            "owners": np.full((len(halves), panels.NODES), FREE),
        }
        arrays: dict[str, Any] = {
            name: joined(getattr(self, name).reshape(_PANELS), rows).ravel()
            for name, rows in new.items()
        }
        return self.moved_to(edges=joined(self.edges, halves), **arrays)


# a patch may extend over this angle / β: 10 Gauss nodes each way integrate e^{β<x,y>} across it
# with a relative error of 2 I_20(5) = 1e-10
_REACH = 10.0
_MOST_ON_SPHERE = 1_000_000
# the level of patches from which on they are more
_DEEPEST = 6
_LEAF_SHARE = 0.1
# how far a patch reaches beyond its nodes, at most, over how far these do
_BEYOND_NODES = 1.2
# parts of patches extend over this many radii of a ball: nodes are half a radius apart at most
_RADII = 3.0
# particles of one cluster are nearer to one another
_APART = 0.3
# half the waves on a side of a patch at which its error may take over: 1e-12 to 1e-4
_MESH_WAVES = 3.8, 10.0
# one more than the degrees in a row that a finite symmetry empties: 1 to 5 for an icosahedron's
_WINDOW = 6
# a density in place of a mesh has at most this degree, and may be off by this in W_1
_LARGEST_DEGREE, _COARSE = 255, 1e-3


def _mesh(
    law: Law, tol: float, coarsest: int, most: int, steepness: Steepness | None = None
) -> dict[str, Array]:
    """Points, weights and log_density of a law's nodes on S^2."""
    share, pdf = _LEAF_SHARE * tol, partial(checked_pdf, law)
    mesh = lay(pdf, share, coarsest=coarsest, limit=most, steepness=steepness)
    values = mesh.values[0]
    logs = checked_logpdf(law, mesh.points)
    return {"points": mesh.points, "weights": mesh.weights * values, "log_density": logs}


class SphereFlowMap(FlowMap):
    """mu_t = Φ_t # mu_0 on S^2 for any law with a density.

    Nodes lie in patches of 10 × 10 Gauss points on the cubed sphere, a quadtree that is made anew
    on the present density when the flow has stretched it. What has gathered in a small cluster is
    carried by particles with the same moments.

    Parameters
    ----------
    law_or_density : Law or Density
        On S^2, with a density.
    tol : float, optional
        Error of the moments, in units of mass, that meshes and time steps are chosen for;
        default 1e-9.
    axis : None
        An axis makes the form a `LineFlowMap`.
    max_nodes, atom_radius : int, float
        As of a `FlowMap`.

    Attributes
    ----------
    law : Law
    points : ndarray, shape (n, 3)
        Nodes and then particles.
    weights : ndarray, shape (n,)
    n_nodes : int
        How many of them are nodes of the mesh.
    log_density : ndarray, shape (n,)
        log f_t at the nodes, of what they carry; inf for the particles.
    t : float
        The time of the run at which it is; 0.0 while it is the law's own, which may be drawn from.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law takes too many nodes.

    Examples
    --------
    >>> from meanfield.laws import Mixture, VonMisesFisher
    >>> bumps = [VonMisesFisher([0.0, 0.0, 1.0], 2.0), VonMisesFisher([0.0, 1.0, 0.0], 2.0)]
    >>> FlowMap(Mixture(bumps), tol=1e-6)
    FlowMap(dim=3, nodes=2400, particles=0)
    """

    law: Law
    _tols = 1e-9, 1e-13
    _least_nodes = 6 * PER_LEAF

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:  # noqa: ARG002 (of a line)
        try:
            self._set(law, 0.0, **_mesh(law, self.tol, 1, self.max_nodes))
        except ArithmeticError as error:
            raise ValueError(f"law {shown(law)} is not resolved: {error}") from error

    def _set(self, law: Law, t: float, **arrays: Array) -> None:
        super()._set(**arrays)
        self.law, self.t, self.dim = law, t, 3
        self.n_nodes = int((~np.isposinf(self.log_density)).sum())
        self._finer: dict[int, SphereFlowMap] = {}

    def moved_to(self, t: float, **arrays: Any) -> SphereFlowMap:
        """The same law's flow map at t, with these arrays."""
        return SphereFlowMap.from_arrays(self.law, tol=self.tol, t=t, **self.run_limits, **arrays)

    def resolve(self, beta: float, steepness: Steepness | None = None) -> SphereFlowMap:
        """The same measure on patches that resolve e^{β<x,y>} and a drift; itself if they do.

        The law's patches are made anew. Those of a later time can't be, and are made for the β and
        the drift of their run; so are the particles.

        Raises
        ------
        ValueError
            If the patches of a later time are too wide, or 10^6 nodes are too few for the law.
        """
        beta, n = number("beta", beta, low=0), self.n_nodes
        nodes, allowed = (self.points[:n], self.weights[:n]), DRIFT_SHARE * self.tol
        if self.t > 0.0 or steepness is None or not len(drift_missed(steepness, allowed, *nodes)):
            steepness = None
            if beta <= self.largest_beta:
                return self
        if self.t > 0.0:
            got, largest = tell_apart(beta, self.largest_beta)
            raise ValueError(
                f"beta, or the length of z, must be <= {largest} for {self} at t = {self.t:g}, "
                f"whose patches are no smaller, got {got}"
            )
        halvings = int(np.ceil(np.log2(0.5 * np.pi * max(beta, 1.0) / _REACH)))
        coarsest = min(max(halvings, 1), _DEEPEST)
        if steepness is not None:
            return self._meshed(beta, coarsest, steepness)
        # one for each size of patches: what β asks for does not hang on what was asked before
        if coarsest not in self._finer:
            self._finer[coarsest] = self._meshed(beta, coarsest)
        return self._finer[coarsest]

    def _meshed(
        self, beta: float, coarsest: int, steepness: Steepness | None = None
    ) -> SphereFlowMap:
        """The law on patches halved so often at least, which resolve a drift.

        Raises
        ------
        ValueError
            If 10^6 nodes are too few, naming β.
        """
        try:
            mesh = _mesh(self.law, self.tol, coarsest, _MOST_ON_SPHERE, steepness)
        except ArithmeticError as error:
            raise ValueError(
                f"beta, the length of z, or the slope of a drift, must be smaller for {self}, got "
                f"{beta:g}: {error}; try a Density on a Sphere"
            ) from error
        return self.moved_to(0.0, **mesh)

    @property
    def _drawn_law(self) -> Law:  # type: ignore[override]
        """The law, while the measure is that.

        Raises
        ------
        ValueError
            If it has moved, so that only nodes stand for it.
        """
        if self.t > 0.0:
            raise ValueError(
                f"law must have an axis of symmetry, or not have moved, to be drawn from, got "
                f"{self} at t = {self.t:g}: draw rows of its points with the probabilities weights"
            )
        return self.law

    def score_moment(self, points: Array, scores: Array) -> tuple[Array, Array]:
        """log G and ∇ log G at Mx for points x (m, 3), M = `scores` symmetric, in O(n + m)."""
        if largest_score(scores) > SphereBilinear.largest_score:
            return super().score_moment(points, scores)
        return SphereScoreSums([scores]).log_moments(self.points, self.weights, points)[0]

    def at_scale(self, radius: float) -> tuple[Array, Array]:
        """Nodes of parts of the patches that extend over no more than three radii, and particles.

        Parts have their nodes where the polynomials through the nodes of the patch take them.
        """
        n, reach = self.n_nodes, _RADII * radius
        points, masses = [self.points[n:]], [self.weights[n:]]
        counts = np.ceil(np.maximum(self._extents / reach, 1.0))
        if (total := PER_LEAF * float((counts**2).sum())) > _MOST:
            raise ValueError(
                f"radius must be larger for {self}, got {radius:g}, which takes some "
                f"{tell_apart(total, _MOST)[0]} nodes > {_MOST}"
            )
        patches = self.points[:n].reshape(-1, PER_LEAF, 3)
        weights = self.weights[:n].reshape(-1, PER_LEAF)
        for count in np.unique(counts):
            some = counts == count
            finer, shares = parts(patches[some], weights[some], int(count))
            finer = finer.reshape(-1, 3)
            points.append(finer / np.linalg.norm(finer, axis=1, keepdims=True))
            masses.append(shares.ravel())
        return np.concatenate(points), np.concatenate(masses)

    @cached_property
    def _extents(self) -> Array:
        """The distance of opposite nodes of each patch of more mass than `tol`, else 0."""
        grid = self.points[: self.n_nodes].reshape(-1, ORDER, ORDER, 3)
        along = np.linalg.norm(grid[:, -1] - grid[:, 0], axis=-1).max(axis=1)
        across = np.linalg.norm(grid[:, :, -1] - grid[:, :, 0], axis=-1).max(axis=1)
        counted = self.weights[: self.n_nodes].reshape(-1, PER_LEAF).sum(axis=1) > self.tol
        return np.where(counted, np.maximum(along, across), 0.0)

    @cached_property
    def _extent(self) -> float:
        """The widest patch with more mass than `tol`, the distance of opposite nodes."""
        return float(self._extents.max(initial=1e-300))

    @property
    def largest_beta(self) -> float:
        """The β up to which the patches resolve e^{β<x,y>}."""
        return _REACH / self._extent

    @cached_property
    def atoms(self) -> Clusters:  # type: ignore[override]
        """Clusters that are held as points, the heaviest first."""
        held = np.flatnonzero(np.isposinf(self.log_density))
        return grouped(self.points, self.weights, held, _APART)

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """Points (n, 3) and masses (n,) of the particles."""
        held = np.isposinf(self.log_density)
        return self.points[held], self.weights[held]

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """The moments of the nodes, cut where their error takes over.

        A patch of 10 × 10 Gauss nodes and side h gives degree l with an error of 1e-24 (lh/2)^20.
        So from some degree on the power that is found grows; up to the least of it, in windows
        that no symmetry empties, it is the measure's.
        """
        free = ~np.isposinf(self.log_density)
        points, masses = self.points[free], self.weights[free]
        patches = points.reshape(-1, PER_LEAF, 3)
        counted = masses.reshape(-1, PER_LEAF).sum(axis=1) > self.tol
        if not counted.any():
            return basis.point_moments(points, masses), 0.0
        side = np.linalg.norm(patches[:, 0] - patches[:, -1], axis=1)[counted].max() / np.sqrt(2.0)
        first, last = (int(2.0 * waves / side) for waves in _MESH_WAVES)
        part = basis.resized(min(last + _WINDOW, basis.kmax))
        node_moments = part.point_moments(points, masses)
        power = part.power(node_moments)
        highest = max(len(power) - _WINDOW, 0)
        starts = np.arange(min(first, highest), highest + 1)
        windows = [power[start : start + _WINDOW].sum() / (start + 1.0) for start in starts]
        start = int(starts[np.argmin(windows)])
        # all degrees are the measure's if no growth is seen
        cut = start if start + _WINDOW <= basis.kmax else basis.kmax
        moments = np.zeros(len(basis.degrees), dtype=np.complex128)
        moments[basis.degrees <= cut] = node_moments[part.degrees <= cut]
        weighted = multipliers[: len(power)] * power
        return moments, float(weighted[max(start, 1) : start + _WINDOW].sum())

    def for_transport(self, p: float) -> tuple[object, float]:
        """A density, for W_1 where there is one; else the nodes."""
        if p == 1.0 and self._series is not None:
            return self._series
        return Particles(self.points, self.weights, unit_mass=True), self._spacing(p)

    def _spacing(self, p: float) -> float:
        """An estimate of W_p between the nodes and the measure.

        The mass of a node is spread over its share of the patch, and that of a particle no
        farther than to the next one of its cluster.
        """
        held = self.points[self.n_nodes :]
        costs = np.zeros(len(self.points))
        costs[: self.n_nodes] = spreads(self.points[: self.n_nodes], p)
        if len(held) > 1:
            apart = scipy.spatial.cKDTree(held).query(held, k=2)[0][:, 1]
            costs[self.n_nodes :] = np.where(apart < _APART, apart, 0.0) ** p
        return float((self.weights @ costs / self.weights.sum()) ** (1.0 / p))

    def unresolved_share(self, values: Array, kinks: Array) -> float:
        """An estimate of what sums over the nodes miss of ∫ values dmu, of values (n,) at them.

        Patches that may hold one of the points (k, 3) where a function has a kink miss no more
        than the tail of its polynomials. Particles have the moments of what they stand for, so a
        cluster of them misses what a polynomial does not meet.
        """
        places = self.points[: self.n_nodes].reshape(-1, PER_LEAF, 3)
        masses = self.weights[: self.n_nodes] * values[: self.n_nodes]
        integrand = masses.reshape(-1, PER_LEAF) / LEAF_SHARES
        centres = places.mean(axis=1)
        reach = _BEYOND_NODES * np.linalg.norm(places - centres[:, None], axis=2).max(axis=1)
        near = np.linalg.norm(centres[:, None] - kinks, axis=2).min(axis=1) <= reach
        errors = np.where(near, tails(integrand), quadrature_error(integrand))
        missed = float(errors.sum()) + self.tol * float(np.abs(values).max())
        (held, shares), costs = self.point_masses, values[self.n_nodes :]
        nearest = scipy.spatial.cKDTree(self.atoms.centres).query(held)[1]
        for own in (nearest == index for index in np.unique(nearest)):
            missed += _unmet(held[own], shares[own], costs[own])
        return missed

    @cached_property
    def _series(self) -> tuple[Density, float] | None:
        """The density of the nodes' moments, and an estimate of W_1 between both.

        W_1 is at most the norm of the difference in H^{-1}. Moments have errors of `tol`. The power
        falls beyond the last degree, window by window, beyond twice that there is next to none, and
        up to there the multipliers are half of that degree's on average. None where there are
        particles, or the density is known to less than 1e-3.
        """
        if self.n_nodes < len(self):
            return None
        basis = SphereAt(_LARGEST_DEGREE)
        degrees = np.arange(1.0, basis.kmax + 1)
        multipliers = np.append(0.0, 1.0 / (degrees * (degrees + 1.0)))
        moments, last = self._smooth_moments(basis, multipliers)
        cut = int(basis.degrees[np.flatnonzero(moments)].max())
        errors = ((2.0 * degrees + 1.0) * multipliers[1:])[:cut]
        off = float(np.sqrt(0.5 * cut / _WINDOW * last) + self.tol * np.sqrt(errors.sum()))
        if off > _COARSE:
            return None
        space = Sphere(max(cut, 3))
        return Density.from_coefficients(space, moments[basis.degrees <= space.size]), off

    def entropy(self) -> float:
        """∫ log f_t dmu_t = ∫ f log f dσ, while nodes carry all of the mass.

        Raises
        ------
        ValueError
            If there are particles, at which f is not known.
        """
        if self.n_nodes < len(self.points):
            raise ValueError(
                f"measure must have no particles for its entropy to be known, got {self}"
            )
        return super().entropy()

    def __repr__(self) -> str:
        particles = len(self.points) - self.n_nodes
        return f"FlowMap(dim=3, nodes={self.n_nodes}, particles={particles})"


def _unmet(points: Array, masses: Array, values: Array) -> float:
    """An estimate of what a cluster of particles misses of ∫ values, of values (n,) at (n, 3).

    Particles have the moments of the mass that they stand for, so only what a polynomial leaves of
    the values is missed: in the sum over them, and about as much in the integral. It has at most
    half as many coefficients as there are particles.
    """
    degree = 0
    while (degree + 2) * (degree + 3) <= len(points):
        degree += 1
    first = geometry.perpendicular(points[0])
    local = points @ np.stack([first, np.cross(points[0], first)], axis=1)
    local -= local.mean(axis=0)
    local /= np.abs(local).max() or 1.0
    x, y = (np.vander(part, degree + 1, increasing=True) for part in local.T)
    roots = np.sqrt(masses)
    powers = [(j, k) for j in range(degree + 1) for k in range(degree + 1 - j)]
    terms = np.stack([roots * x[:, j] * y[:, k] for j, k in powers], axis=1)
    left = roots * values - terms @ np.linalg.lstsq(terms, roots * values, rcond=None)[0]
    return 2.0 * float(roots @ np.abs(left))
