"""Clusters of a measure: where its mass is concentrated on the scale of a radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import betainc

from meanfield._checks import check_measure, number
from meanfield._shown import ShownFields
from meanfield.measures.measure import Measure
from meanfield.spaces.geometry import geodesic_distance
from meanfield.typing import Array, Indices, NDArray

# a ball is dense if it holds this many times its share of the uniform measure
_DENSE = 2.0
# points this near, as shares of the radius, count as one: the finer, then, of many, the coarser
_FINE, _COARSE = 1 / 64, 1 / 8
_MANY = 20_000
# more pairs than this are never held at once
_MOST_PAIRS = 1_000_000
# points that look for what is near together, and by how much farther
_NEIGHBOURS, _ROUNDING = 64, 1e-12
# means shorter than this are 0 to rounding
_NO_DIRECTION = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(ShownFields):
    """Clusters of a measure, the heaviest first.

    Attributes
    ----------
    masses : ndarray, shape (k,)
        Descending; Σ masses + `outside` = 1.
    centres : ndarray, shape (k, d)
        Unit rows, the directions of the clusters' means; where a mean is 0, as on a closed ring
        of particles, the cluster's heaviest point.
    radii : ndarray, shape (k,)
        Root mean square geodesic distance of a cluster's mass from its centre.
    """

    masses: Array
    centres: Array
    radii: Array

    def __len__(self) -> int:
        """Number of clusters."""
        return len(self.masses)

    @property
    def outside(self) -> float:
        """The mass outside all clusters: 1 - Σ masses."""
        return max(0.0, 1.0 - float(self.masses.sum()))

    def __repr__(self) -> str:
        masses, radii = (np.array2string(x, precision=3) for x in (self.masses, self.radii))
        return f"Clusters(masses={masses}, outside={self.outside:.3g}, radii={radii})"


def clusters(measure: Measure, radius: float | None = None, *, min_mass: float = 1e-3) -> Clusters:
    """Where the mass of a measure is concentrated on the scale of `radius`.

    A point is dense if the ball of `radius` around it holds at least twice what the uniform
    measure would have there (on a density's grid, if that is more), and at least `min_mass`.
    Dense points no further apart than `radius` belong to one cluster, and other points within
    `radius` of a dense one to that of the nearest.
    So the uniform measure has no cluster, a Dirac one of radius 0, and of atoms more than two radii
    apart each is a cluster that has twice the uniform measure of a ball, on the circle 2/π of
    `radius`: others are outside all clusters, as is a trickle of mass between clusters, which joins
    none.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        A density counts as the masses of its grid points. Of an axisymmetric density or flow map
        (d > 2) the points of one meridian stand for their latitudes: a cluster away from the poles
        is a ring, its centre the point of the ring on that meridian, and a ball is a belt; one
        within `radius` of a pole has its centre there.
    radius : float, optional
        In radians, up to 1; a ball of it must hold several points of what is not concentrated. By
        default 0.1; 0.3 for a flow map on S^2 without symmetry, whose nodes are 0.1 apart.
    min_mass : float
        Least mass of a cluster, 0 to 1.

    Returns
    -------
    Clusters

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> found = clusters(Particles([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    >>> len(found), found.masses.round(3), found.radii
    (2, array([0.667, 0.333]), array([0., 0.]))
    >>> light = Particles([[1.0, 0.0], [0.0, 1.0]], weights=[0.05, 0.95])  # 0.05 < 2/π · 0.1
    >>> clusters(light)
    Clusters(masses=[0.95], outside=0.05, radii=[0.])
    """
    check_measure("measure", measure)
    radius = measure._cluster_radius if radius is None else radius
    radius = number("radius", radius, above=0, high=1)
    min_mass = number("min_mass", min_mass, low=0, high=1)
    points, masses = measure._quadrature
    masses = np.maximum(masses, 0.0)
    places, shares, member = _coarsened(points, masses, radius)
    reach = 2.0 * np.sin(0.5 * radius)
    uniform = _uniform_share(measure, places, radius)
    columns = [shares]
    if (cells := measure._uniform_masses) is not None:
        columns.append(np.asarray(np.bincount(member, cells), dtype=np.float64))
    around = _ball_masses(places, np.column_stack(columns), reach)
    # where points are coarse, a ball's share of the uniform measure is what they give it
    uniform = np.maximum(uniform, around[:, 1:].max(axis=1, initial=0.0))
    dense = around[:, 0] >= np.maximum(min_mass, _DENSE * uniform)
    labels = _labels(places, dense, reach)[member]
    return _measured(points, masses, labels, min_mass, measure.axis, radius)


def grouped(points: Array, masses: Array, within: float) -> Clusters:
    """The clusters of points (n, d) that are nearer to one another than this distance."""
    return _measured(points, masses, _components(points, within), 0.0, None, within)


def _coarsened(points: Array, masses: Array, radius: float) -> tuple[Array, Array, Indices]:
    """Places and masses of groups of points much closer than the radius; the group of each."""
    member = np.arange(len(points))
    places, shares = points, masses
    for cell in (_FINE, _COARSE):
        if len(places) <= (0 if cell == _FINE else _MANY):
            break
        _, group = np.unique(np.floor(places / (cell * radius)), axis=0, return_inverse=True)
        group = group.ravel()
        total = np.asarray(np.bincount(group, shares), dtype=np.float64)
        # the mean of a group without mass is that of its points
        parts = np.where(total[group] > 0.0, shares, 1.0)
        whole = np.bincount(group, parts)
        columns = [np.bincount(group, parts * column) / whole for column in places.T]
        places, shares, member = np.column_stack(columns), total, group[member]
    return places, shares, member


def _uniform_share(measure: Measure, places: Array, radius: float) -> Array:
    """σ of the ball of the radius around each place, or of the belt of an axisymmetric measure."""
    dim, axis = measure.dim, measure.axis
    if axis is None:
        return np.full(len(places), _cap(dim, np.array(radius)))
    polar = np.arccos(np.clip(places @ axis, -1.0, 1.0))
    below, above = np.maximum(polar - radius, 0.0), np.minimum(polar + radius, np.pi)
    return np.asarray(_cap(dim, above) - _cap(dim, below))


def _cap(dim: int, angle: Array) -> Array:
    """σ of the cap of points up to this polar angle."""
    half = 0.5 * (dim - 1.0)
    return np.asarray(betainc(half, half, np.sin(0.5 * angle) ** 2))


def _ball_masses(places: Array, columns: Array, reach: float) -> Array:
    """Sums of each column of masses (n, c) over the ball around each place, shape (n, c)."""
    tree, around = scipy.spatial.cKDTree(places), np.empty_like(columns)
    for start in range(0, len(places), _NEIGHBOURS):
        # leaf by leaf, these lie beside one another
        rows = tree.indices[start : start + _NEIGHBOURS]
        centre = places[rows].mean(axis=0)
        widest = float(np.linalg.norm(places[rows] - centre, axis=1).max())
        near = tree.query_ball_point(centre, (1.0 + _ROUNDING) * (reach + widest))
        inside = scipy.spatial.distance.cdist(places[rows], places[near], "sqeuclidean") <= reach**2
        around[rows] = inside @ columns[near]
    return around


def _labels(places: Array, dense: NDArray[np.bool_], reach: float) -> Indices:
    """The cluster of each place, -1 outside all."""
    labels = np.full(len(places), -1)
    if not dense.any():
        return labels
    components = _components(places[dense], reach)
    distance, nearest = scipy.spatial.cKDTree(places[dense]).query(places)
    return np.where(distance <= reach, components[nearest], -1)


def _components(places: Array, reach: float) -> Indices:
    """Connected components of the graph of pairs within `reach`."""
    tree = scipy.spatial.cKDTree(places)
    if tree.count_neighbors(tree, reach) <= _MOST_PAIRS:
        pairs = tree.query_pairs(reach, output_type="ndarray")
        shape = len(places), len(places)
        graph = scipy.sparse.coo_array((np.ones(len(pairs)), pairs.T), shape=shape)
        found = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
        return np.asarray(found, dtype=np.intp)
    # many pairs: grow each component outwards, all that is near the last growth at a time
    labels = np.full(len(places), -1, dtype=np.intp)
    left, count = np.arange(len(places)), 0
    while len(left) > 0:
        grown, left = left[:1], left[1:]
        while len(grown) > 0:
            labels[grown] = count
            distance, _ = scipy.spatial.cKDTree(places[grown]).query(places[left])
            near = distance <= reach
            grown, left = left[near], left[~near]
        count += 1
    return labels


def _measured(
    points: Array,
    masses: Array,
    labels: Indices,
    min_mass: float,
    axis: Array | None,
    radius: float,
) -> Clusters:
    found = []
    for label in np.unique(labels[labels >= 0]):
        inside = (labels == label) & (masses > 0.0)
        x, m = points[inside], masses[inside]
        total = float(m.sum())
        if total <= 0.0 or total < min_mass:
            continue
        mean = m @ x / total
        length = float(np.linalg.norm(mean))
        # a ring around a great circle has no mean direction, only that of rounding
        centre = mean / length if length > _NO_DIRECTION else x[np.argmax(m)]
        if axis is not None and abs(float(centre @ axis)) > np.cos(radius):
            # a cap: its mean lies on the axis
            centre = np.copysign(1.0, centre @ axis) * axis
        found.append((total, centre, float(np.sqrt(m @ geodesic_distance(x, centre) ** 2 / total))))
    found.sort(key=lambda cluster: -cluster[0])
    return Clusters(
        masses=np.array([cluster[0] for cluster in found]),
        centres=np.array([cluster[1] for cluster in found]).reshape(-1, points.shape[1]),
        radii=np.array([cluster[2] for cluster in found]),
    )
