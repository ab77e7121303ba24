"""A flow map whose labels lie on a line: on the circle, or about an axis on S^{d-1}."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from meanfield._checks import freeze, generator, integer, number, read_only, shown, unit_vector
from meanfield.kernels.direct import latitude_rule, logs, point_log_moment
from meanfield.laws.law import (
    Law,
    asymmetry,
    brief,
    checked_logpdf,
    checked_pdf,
    points_around,
    symmetry_axis,
)
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.quantisation import lattice, lattice_points
from meanfield.measures.clusters import RADIUS, Clusters
from meanfield.measures.flow_map import MOST_NODES, FlowMap, check_count
from meanfield.measures.measure import turned
from meanfield.spaces import CircleAt, Harmonics, Sphere, ZonalAt, geometry, panels
from meanfield.typing import Array, ArrayLike, Coefficients, Integers, NDArray, Rng, Steepness

# a panel may extend over this angle / β: 16 Gauss nodes integrate e^{β cos} across it to rounding
REACH = 8.0
# a sum over all latitudes has at most this many terms, which take a few GB
_MOST_SOURCES = 50_000_000
# rounding changes the mass of a law on a line by about this
_LAW_TOLERANCE = 1e-14

# the shape that gives an array over all nodes one row for each panel
_PANELS = (-1, panels.NODES)
# masses below this have lost digits: their logarithms are computed anew from the law
_LEAST_WEIGHT = 1e-290
# the number in `owners` of a node that belongs to no atom
FREE = -1
# an atom nearer to a pole than this is at the pole; others stand for a whole latitude
_POLE = 1e-6
_FIRST_DEGREE = 32
# the error of moments is at most this many times the tolerance
_TOLERANCES = 10.0
# if the last multiplier is below this share of the largest, the kernel has no further degrees
_ENDED = 1e-30


@dataclass(frozen=True, eq=False, repr=False)
class LabelLine:
    """Labels of the circle (angles in [0, 2π)) or of latitudes (polar angles in [0, π]).

    Parameters
    ----------
    law : Law
        The measure of the labels.
    axis : ndarray, shape (d,), or None
        Axis of symmetry; None on the circle.
    factor : float
        The law's pdf is multiplied by it, so that the mass is 1 to rounding.
    """

    law: Law
    axis: Array | None
    factor: float = 1.0

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return self.law.dim

    @property
    def length(self) -> float:
        """Length of the line of labels."""
        return 2.0 * np.pi if self.axis is None else float(np.pi)

    def points(self, angles: Array) -> Array:
        """Points (n, d) at angles: of the circle, or on one meridian."""
        return geometry.line_points(angles, self.axis)

    def pdf(self, labels: Array) -> Array:
        """f_0 at labels, shape (n,)."""
        return np.asarray(self.factor * checked_pdf(self.law, self.points(labels)))

    def label_density(self, labels: Array) -> Array:
        """The law's density of labels with respect to their Lebesgue measure, shape (n,)."""
        return self.pdf(labels) * geometry.latitude_density(labels, self.dim)

    def logpdf(self, labels: Array) -> Array:
        """log f_0 at labels, shape (n,), also where f_0 is too small for a float."""
        return np.asarray(np.log(self.factor) + checked_logpdf(self.law, self.points(labels)))


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


def _count_within(extents: Array, reach: float) -> float:
    """Return how many nodes there are once panels extend over no more than an angle."""
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
    law : Law
        The measure of the labels.
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

    law: Law
    line: LabelLine
    edges: Array
    angles: Array
    expansion: Array
    owners: Integers
    atom_angles: Array
    _tols = 1e-12, 1e-14
    _least_nodes = panels.NODES

    @staticmethod
    def _holds(law: Law, axis: ArrayLike | None) -> bool:
        return law.dim == 2 or axis is not None or symmetry_axis(law) is not None

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:
        line = LabelLine(law, axis_of_labels(law, axis))
        if type(law) is PointCloud and not law.has_density:
            if line.axis is not None:
                raise ValueError(
                    f"law must have a density in dim = {law.dim} > 2, got {shown(law)} without "
                    f"bandwidth"
                )
            # each token is an atom, and all of its nodes are in one place
            atoms = geometry.circle_angles(law.points)
            edges, labels = np.stack([atoms, atoms], axis=1), np.repeat(atoms, panels.NODES)
            masses = np.repeat(law.weights / panels.NODES, panels.NODES)
            owners = np.repeat(np.arange(len(atoms)), panels.NODES)
        else:
            tol = min(_LAW_TOLERANCE, self.tol)
            edges = panels.lay(line.label_density, line.length, tol, self.max_nodes)
            labels, widths = panels.nodes(edges).ravel(), panels.weights(edges).ravel()
            line = replace(line, factor=1.0 / float((line.label_density(labels) * widths).sum()))
            masses = line.label_density(labels) * widths
            atoms, owners = np.zeros(0), np.full(len(labels), FREE)
        arrays = {"edges": edges, "angles": labels, "weights": masses, "owners": owners}
        self._set(line, expansion=np.zeros(len(labels)), atoms=atoms, **arrays)

    def _set(self, line: LabelLine, *, atoms: Array, **arrays: object) -> None:
        self.line, self.law, self.dim, self.axis = line, line.law, line.dim, line.axis
        freeze(self, atom_angles=atoms, **arrays)

    def moved_to(self, **replaced: object) -> LineFlowMap:
        """The same law's flow map with some of its arrays, or its tolerance, replaced."""
        names_kept = ("tol", "edges", "angles", "expansion", "weights", "owners")
        arrays = {name: getattr(self, name) for name in names_kept} | {"atoms": self.atom_angles}
        return LineFlowMap.from_arrays(self.line, **self.run_limits, **arrays | replaced)

    def __repr__(self) -> str:
        return f"FlowMap(dim={self.dim}, nodes={len(self.angles)}, atoms={len(self.atom_angles)})"

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
        """Return the angle of each node at t = 0, shape (n,)."""
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
        """Log of the masses of the nodes, shape (n,), also of those too small for a float."""
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
        count = len(self.atom_angles)
        masses = np.bincount(self.owners[held], self.weights[held], minlength=count)
        return np.asarray(masses, dtype=np.float64)

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) of atoms; none off the poles, which stand for latitudes."""
        if self.axis is None:
            return geometry.circle_points(self.atom_angles), self.atom_masses
        polar = _at_pole(self.atom_angles)
        ends = np.sign(np.cos(self.atom_angles[polar]))
        return np.outer(ends, self.axis), self.atom_masses[polar]

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """Moments up to at most twice the degree at which the tail shows that they suffice."""
        size, negligible = min(_FIRST_DEGREE, basis.kmax), (_TOLERANCES * self.tol) ** 2
        # if the kernel ends there, no degree is left out, so the power of the last ones is no error
        has_ended = multipliers[-1] <= _ENDED * multipliers.max()
        while True:
            part = basis.resized(size)
            smooth = self._node_moments(part)
            power = part.power(smooth)
            weighted = multipliers[: size + 1] * power
            last_power = float(weighted[size // 2 + 1 :].sum())
            low = power[size // 2 + 1 :].sum() <= negligible
            if low or last_power <= negligible * weighted[1:].sum() or size == basis.kmax:
                break
            size = min(2 * size, basis.kmax)
        moments = np.zeros(len(basis.degrees), dtype=smooth.dtype)
        moments[basis.degrees <= size] = smooth
        return moments, 0.0 if low or has_ended else last_power

    def _node_moments(self, basis: Harmonics) -> Coefficients:
        """Return moments of all but the atoms, from panels split until they resolve the basis."""
        finer = self.refine(REACH / basis.kmax)
        free = finer.owners == FREE
        if self.axis is None:
            return CircleAt(basis.kmax).moments(finer.angles[free], finer.weights[free])
        free |= np.isin(finer.owners, np.flatnonzero(~_at_pole(finer.atom_angles)))
        cosines, masses = np.cos(finer.angles[free]), finer.weights[free]
        if basis.axis is None:
            moments = ZonalAt(self.axis, basis.kmax).moments(cosines, masses)
            return turned(moments, self.axis, basis)
        along = np.sign(self.axis @ basis.axis) * cosines
        return ZonalAt(basis.axis, basis.kmax).moments(along, masses)

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
        """Return tail times mass of each panel; 0 where all nodes belong to one atom."""
        owners, masses = self.owners.reshape(_PANELS), self.weights.reshape(_PANELS).sum(axis=1)
        moving = (owners[:, 0] == FREE) | (owners != owners[:, :1]).any(axis=1)
        return np.where(moving, masses * panels.tails(self.angles.reshape(_PANELS)), 0.0)

    def refine(
        self, reach: float, steepness: Steepness | None = None, max_nodes: int = MOST_NODES
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
        self, beta: float, steepness: Steepness | None = None, max_nodes: int = MOST_NODES
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
        refusal = f"beta, or the length of z, must be smaller for {self}, got {beta:g}, which takes"
        check_count(_count_within(self._extents(), reach), max_nodes, refusal)
        finer = self.refine(reach, steepness, max_nodes)
        if steepness is not None and (count := len(finer.angles)) > max_nodes:
            raise ValueError(
                f"dynamics must have a drift that {max_nodes} nodes resolve for {self}, got one "
                f"that takes at least {count}"
            )
        return finer

    def _quantiles(self, levels: Array) -> Array:
        """Return the angles (n,) up to which shares (n,) of the mass lie, in the order of labels.

        A panel of which an atom has nodes goes no farther than these: its polynomial may swing.
        """
        angles, masses = self.angles.reshape(_PANELS), self.weights.reshape(_PANELS)
        is_owned = (self.owners.reshape(_PANELS) != FREE).any(axis=1)
        reached, panel = panels.quantiles(masses, angles, levels)
        lowest = np.where(is_owned, angles.min(axis=1), -np.inf)[panel]
        highest = np.where(is_owned, angles.max(axis=1), np.inf)[panel]
        reached = np.clip(reached, lowest, highest)
        return reached if self.axis is None else np.clip(reached, 0.0, np.pi)

    def sample(self, n: int, rng: Rng) -> Array:
        """As of `FlowMap`."""
        n, random = integer("n", n, low=1), generator("rng", rng)
        angles = self._quantiles(random.random(n))
        if self.axis is None:
            return geometry.circle_points(angles)
        return points_around(self.axis, angles, random)

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
        refusal = f"z must be shorter for {self}, got rows of lengths up to {longest:g}, which take"
        check_count(count, _MOST_SOURCES, refusal)
        while (is_wide := finer._widths > reach).any():
            finer = finer._split(is_wide)
        return point_log_moment(finer.points, finer._log_weights, z, finer.axis)

    def at_scale(self, radius: float) -> tuple[Array, Array]:
        """The nodes, on panels that are narrow on the scale of the radius.

        On the circle those that are there are near enough for the default radius.
        """
        if self.axis is None and radius >= RADIUS:
            return self.quadrature
        reach = panels.width_for(radius, self.dim)
        refusal = f"radius must be larger for {self}, got {radius:g}, which takes"
        check_count(_count_within(self._extents(), reach), MOST_NODES, refusal)
        return self.refine(reach).quadrature

    def _extents(self) -> Array:
        """Return the angle over which each panel of more mass than `tol` extends, else 0."""
        masses = self.weights.reshape(_PANELS).sum(axis=1)
        return np.where(masses > self.tol, self._widths, 0.0)

    @property
    def _widths(self) -> Array:
        """Return the angle over which each panel extends."""
        return np.asarray(np.ptp(self.angles.reshape(_PANELS), axis=1))

    def _split(self, split: NDArray[np.bool_]) -> LineFlowMap:
        wholes = np.concatenate([np.flatnonzero(~split), np.repeat(np.flatnonzero(split), 2)])
        order = np.argsort(wholes, kind="stable")

        def joined(kept: Array, new: Array) -> Array:
            return np.concatenate([kept[~split], new])[order]

        halves = panels.halves(self.edges[split])
        densities = self.line.label_density(panels.nodes(halves).ravel()).reshape(_PANELS)
        new = {
            "angles": panels.halved(self.angles.reshape(_PANELS)[split]),
            "expansion": panels.halved(self.expansion.reshape(_PANELS)[split]),
            "weights": densities * panels.weights(halves),
            "owners": np.full((len(halves), panels.NODES), FREE),
        }
        kept = {name: getattr(self, name).reshape(_PANELS) for name in new}
        arrays = {name: joined(kept[name], rows).ravel() for name, rows in new.items()}
        return self.moved_to(edges=joined(self.edges, halves), **arrays)
