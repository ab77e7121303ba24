"""A measure as the image of a law under a flow: labels, masses, positions, log f."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import panels
from meanfield.arguments import integer, number, rows, shown, tell_apart
from meanfield.exponential_sums import latitude_log_moment
from meanfield.geometry import circle_angles
from meanfield.labels import LabelLine, axis_of_labels
from meanfield.laws import Law, PointCloud, symmetry_axis
from meanfield.measures.flow.base import FlowMap

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# a panel may extend over this angle / β: 16 Gauss nodes integrate e^{β cos} across it to rounding
REACH = 8.0
_LARGEST = 200_000
_MOST = 4_000_000
_TOL = 1e-12
# what rounding allows in the mass of a law on a line
_LAW_TOLERANCE = 1e-14

# owner of a node that stands at no atom
FREE = -1


class LineFlowMap(FlowMap):
    """mu_t = Φ_t # mu_0 on the circle, or axisymmetric on S^{d-1}: nodes that move with the flow.

    The labels lie on a line, in panels of 16 Gauss nodes, and the masses are those of the law.
    Panels split as the flow stretches them, clusters that have shrunk to a point are held as
    atoms: a flow map follows a measure through concentration, which no series can.

    Parameters
    ----------
    law : Law
        On the circle, or axisymmetric in d >= 3.
    tol : float, optional
        Default 1e-12. A panel is split when the tail of its positions' expansion, in radians, times
        its mass exceeds this. It is also the tolerance of time steps, for the mean position error.
    axis : array_like, shape (d,), optional
        The axis of symmetry, where the law does not tell it (d >= 3).
    largest : int, optional
        The most nodes that the law may take.

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
    labels : ndarray, shape (n,)
        The angle at t = 0.
    density_at_nodes : ndarray, shape (n,)
        f_t at the points; inf where it overflows.
    atoms, atom_masses : ndarray, shape (m,)
        Angles and masses of the clusters held as atoms. Their nodes stand at the atom.

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

    def __init__(
        self,
        law: Law,
        tol: float | None = None,
        *,
        axis: ArrayLike | None = None,
        largest: int | None = None,
    ) -> None:
        self.tol = number("tol", _TOL if tol is None else tol, low=1e-14, high=1e-2)
        largest = integer("largest", _LARGEST if largest is None else largest, low=panels.NODES)
        line = LabelLine(law, axis_of_labels(law, axis))
        if isinstance(law, PointCloud) and law.bandwidth is None:
            self._set_atoms(line, law)
            return
        edges = panels.lay(line.label_density, line.length, min(_LAW_TOLERANCE, self.tol), largest)
        labels = panels.nodes(edges).ravel()
        scale = 1.0 / float((line.label_density(labels) * panels.weights(edges).ravel()).sum())
        self._follow(replace(line, scale=scale))
        self._set(
            edges=edges,
            angles=labels,
            expansion=np.zeros(len(labels)),
            weights=self.line.label_density(labels) * panels.weights(edges).ravel(),
            owners=np.full(len(labels), FREE),
            atoms=np.zeros(0),
        )

    def _set_atoms(self, line: LabelLine, cloud: PointCloud) -> None:
        """Each token an atom, its nodes all in one place."""
        if line.axis is not None:
            raise ValueError(
                f"law must have a density in dim = {cloud.dim} > 2, got {shown(cloud)} without "
                f"bandwidth"
            )
        self._follow(line)
        atoms = circle_angles(cloud.points)
        labels = np.repeat(atoms, panels.NODES)
        self._set(
            edges=np.stack([atoms, atoms], axis=1),
            angles=labels,
            expansion=np.zeros(len(labels)),
            weights=np.repeat(cloud.weights / panels.NODES, panels.NODES),
            owners=np.repeat(np.arange(len(atoms)), panels.NODES),
            atoms=atoms,
        )

    def _follow(self, line: LabelLine) -> None:
        self.line, self.dim = line, line.dim

    def _set(self, **arrays: NDArray[Any]) -> None:
        for array in arrays.values():
            array.flags.writeable = False
        self.edges: Array = arrays["edges"]
        self.angles: Array = arrays["angles"]
        self.expansion: Array = arrays["expansion"]
        self.weights: Array = arrays["weights"]
        self.owners: Integers = arrays["owners"]
        self.atoms: Array = arrays["atoms"]

    @classmethod
    def holds(cls, law: Law, axis: ArrayLike | None) -> bool:
        """Whether the law is on the circle, or symmetric about an axis that is told."""
        return law.dim == 2 or axis is not None or symmetry_axis(law) is not None

    @classmethod
    def from_arrays(cls, line: LabelLine, tol: float, **arrays: NDArray[Any]) -> LineFlowMap:
        """The flow map with these edges, angles, expansion, weights, owners and atoms."""
        flow = cls.__new__(cls)
        flow.tol = tol
        flow._follow(line)
        flow._set(**arrays)
        return flow

    def moved(self, tol: float | None = None, **arrays: NDArray[Any]) -> LineFlowMap:
        """The same law's flow map with some of its arrays, or its tolerance, replaced."""
        kept = ("edges", "angles", "expansion", "weights", "owners", "atoms")
        own = {name: getattr(self, name) for name in kept}
        return LineFlowMap.from_arrays(self.line, tol or self.tol, **(own | arrays))

    def __repr__(self) -> str:
        return f"FlowMap(dim={self.dim}, nodes={len(self.angles)}, atoms={len(self.atoms)})"

    @property
    def axis(self) -> Array | None:
        """Axis of symmetry, shape (d,); None on the circle."""
        return self.line.axis

    @property
    def has_density(self) -> bool:
        """Whether the law has a density, which the flow then keeps for ever."""
        return bool(np.all(self.edges[:, 1] > self.edges[:, 0]))

    @property
    def is_at_labels(self) -> bool:
        """Whether the measure is still that of the law."""
        return bool(np.array_equal(self.angles, self.labels))

    @property
    def labels(self) -> Array:
        """Angle of each node at t = 0, shape (n,)."""
        return panels.nodes(self.edges).ravel()

    @cached_property
    def points(self) -> Array:  # type: ignore[override]
        """Φ_t(label), shape (n, d); where d > 2 on one meridian, each for its latitude."""
        points = self.line.points(self.angles)
        points.flags.writeable = False
        return points

    @cached_property
    def log_density(self) -> Array:  # type: ignore[override]
        """log f_t(Φ_t(label)) = log f_0(label) - ∫ div X dt, shape (n,); inf for given tokens."""
        if not self.has_density:
            return np.full(len(self.angles), np.inf)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.line.pdf(self.labels)) - self.expansion)

    @property
    def atom_masses(self) -> Array:
        """Masses (m,) of the clusters held as atoms."""
        held = self.owners >= 0
        return np.asarray(
            np.bincount(self.owners[held], self.weights[held], minlength=len(self.atoms)),
            dtype=np.float64,
        )

    def mean(self) -> Array:
        """∫ x dmu, shape (d,)."""
        if self.axis is None:
            return super().mean()
        return np.asarray(float(self.weights @ np.cos(self.angles)) * self.axis)

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G(z) and ∇ log G(z) at rows z (m, d), see `FlowMap.log_moment`."""
        if self.axis is None:
            return super().log_moment(z)
        z = rows("z", z, self.dim)
        flow = self.resolving(float(np.linalg.norm(z, axis=1).max()))
        cosines, sines = np.cos(flow.angles), np.sin(flow.angles)
        return latitude_log_moment(self.axis, cosines, sines, flow.weights, z)

    @property
    def tail(self) -> float:
        """The largest tail of a panel's expansion, in radians, times the panel's mass."""
        return float(self._tails().max())

    def _tails(self) -> Array:
        """Tail times mass of each panel; 0 where all nodes stand at one atom."""
        shape = (-1, panels.NODES)
        owners, masses = self.owners.reshape(shape), self.weights.reshape(shape).sum(axis=1)
        moving = (owners[:, 0] == FREE) | (owners != owners[:, :1]).any(axis=1)
        return np.where(moving, masses * panels.tails(self.angles.reshape(shape)), 0.0)

    def refined(self, reach: float) -> LineFlowMap:
        """The flow map with every panel split that is no longer resolved; itself if none is.

        Parameters
        ----------
        reach : float
            The angle over which a panel with more mass than `tol` may extend, whatever its tail:
            the kernel must be resolved across it.
        """
        split = (self._tails() > self.tol) | (self._extents() > reach)
        return self._split(split).refined(reach) if split.any() else self

    def resolving(self, beta: float, most: int = _MOST) -> LineFlowMap:
        """The flow map with panels split until e^{β cos} is integrated across each to rounding.

        Raises
        ------
        ValueError
            If that takes more than `most` nodes.
        """
        beta, most = number("beta", beta, low=0), integer("most", most, low=1)
        reach = REACH / max(1.0, beta)
        halvings = np.ceil(np.log2(np.maximum(self._extents() / reach, 1.0)))
        count = panels.NODES * float(np.exp2(halvings).sum())
        if count > most:
            nodes, _ = tell_apart(count, most)
            raise ValueError(
                f"beta, or the length of z, must be smaller for {self}, got {beta:g}, which takes "
                f"some {nodes} nodes > {most}"
            )
        return self.refined(reach)

    def _extents(self) -> Array:
        """The angle over which each panel of more mass than `tol` extends, else 0."""
        shape = (-1, panels.NODES)
        masses = self.weights.reshape(shape).sum(axis=1)
        return np.where(masses > self.tol, np.ptp(self.angles.reshape(shape), axis=1), 0.0)

    def _split(self, split: NDArray[np.bool_]) -> LineFlowMap:
        shape = (-1, panels.NODES)
        order = np.argsort(
            np.concatenate([np.flatnonzero(~split), np.repeat(np.flatnonzero(split), 2)]),
            kind="stable",
        )

        def joined(kept: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([kept[~split], new])[order]

        edges = joined(self.edges, panels.halves(self.edges[split]))
        labels = panels.nodes(panels.halves(self.edges[split])).ravel()
        masses = self.line.label_density(labels).reshape(shape) * panels.weights(
            panels.halves(self.edges[split])
        )
        angles = self.angles.reshape(shape)
        expansion = self.expansion.reshape(shape)
        owners = self.owners.reshape(shape)
        return self.moved(
            edges=edges,
            angles=joined(angles, panels.halved(angles[split])).ravel(),
            expansion=joined(expansion, panels.halved(expansion[split])).ravel(),
            weights=joined(self.weights.reshape(shape), masses).ravel(),
            owners=joined(owners, np.full((2 * int(split.sum()), panels.NODES), FREE)).ravel(),
        )
