"""Clusters of a measure: where its mass is concentrated on the scale of a radius."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from scipy.special import betainc, betaln

from meanfield._checks import check_measure, number
from meanfield._shown import ShownFields
from meanfield.measures.measure import Measure
from meanfield.spaces.geometry import geodesic_distance, polar_angles
from meanfield.typing import Array, Indices, Integers

# one radius serves all measures: up to β = 100 it tells apart the clusters that form on the circle
RADIUS = 0.1
# the kernel's width in radii: on the circle the mean of s² is that of an interval of the radius
_WIDTH = (7.0 / 3.0) ** 0.5
# a place is dense if its density is this many times that of σ
_DENSE = 2.0
# points nearer than this share of the radius count as one; the coarse share is for many points
_FINE, _COARSE = 1 / 64, 1 / 8
_MANY = 20_000
# trees look for neighbours in up to this many dimensions, and at distances below the second number,
# which a product of matrices would lose in rounding
_MOST_DIMENSIONS, _SHORTEST = 16, 1e-5
# at most so many places look for neighbours at once: by trees, and as rows and columns of products
_NEIGHBOURS, _ROWS, _COLUMNS = 96, 256, 2048
# the search for components begins with this many branches next to each branch
_NEXT = 8
# rounding changes distances and masses by at most this share
_ROUNDING = 1e-12
# the two ends of an axis
_ENDS = 1.0, -1.0
# a mean shorter than this is 0 to rounding, and has no direction
_NO_DIRECTION = 1e-12
# the mean of the kernel over part of a ring is tabulated at so many places
_KNOTS = 513
# the least base of a power, and the largest logarithm whose exponentials can be summed
_TINY, _LARGEST_LOG = 1e-300, 600.0


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
    labels : ndarray of int, shape (n,)
        The cluster of each of the measure's `points`, an index of the arrays above, -1 outside.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> some = clusters(Particles([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    >>> some.masses.round(3), some.labels
    (array([0.667, 0.333]), array([1, 0, 0]))
    """

    masses: Array
    centres: Array
    radii: Array
    labels: Integers

    def __len__(self) -> int:
        """Number of clusters."""
        return len(self.masses)

    @property
    def outside(self) -> float:
        """The mass outside all clusters: 1 - Σ masses."""
        return max(0.0, 1.0 - float(self.masses.sum()))

    def __repr__(self) -> str:
        # the first and the last are shown if many tokens are alone
        arrays = self.masses, self.radii
        masses, radii = (np.array2string(x, precision=3, threshold=12) for x in arrays)
        name = type(self).__name__
        return f"{name}(masses={masses}, outside={self.outside:.3g}, radii={radii})"


def clusters(measure: Measure, radius: float | None = None, *, min_mass: float = 0.0) -> Clusters:
    """Find the places where the mass of a measure is concentrated on the scale of `radius`.

    A point is dense if the density there, smoothed over `radius`, is at least 2, twice that of the
    uniform measure. Dense points no further apart than `radius` belong to one cluster, and other
    points within `radius` of a dense one to that of the nearest. So the uniform measure has no
    cluster, and a Dirac has one of radius 0.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        In an axisymmetric one (d > 2) a cluster away from the poles is a ring, its centre a point
        of the ring; one that holds a pole is a cap and has its centre there.
    radius : float, optional
        In radians, up to 1; 0.1 if omitted, for every measure.
    min_mass : float
        Least mass of a cluster, 0 to 1: lighter ones are outside. By default none is too light:
        among n tokens in many dimensions each that is alone is a cluster of mass 1/n.

    Returns
    -------
    Clusters

    Raises
    ------
    ValueError
        If an argument is out of range, or the radius too small for a density or flow map to be
        looked at on its scale.

    Notes
    -----
    Tokens are points of their weights: k tokens in one place are one of their mass. The page
    docs/howto/clusters.md has the kernel of the smoothing, and says which atoms are a cluster and
    how sharp a mass is.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> some = clusters(Particles([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    >>> len(some), some.masses.round(3), some.radii, some.labels
    (2, array([0.667, 0.333]), array([0., 0.]), array([1, 0, 0]))
    >>> light = Particles([[1.0, 0.0], [0.0, 1.0]], weights=[0.05, 0.95])  # 0.05 < 0.052
    >>> clusters(light)
    Clusters(masses=[0.95], outside=0.05, radii=[0.])
    """
    check_measure("measure", measure)
    radius = RADIUS if radius is None else number("radius", radius, above=0, high=1)
    min_mass = number("min_mass", min_mass, low=0, high=1)
    points, masses = measure.at_scale(radius)
    masses = np.maximum(masses, 0.0)
    kernel: _Chords | _Latitudes
    if (axis := measure.axis) is None:
        kernel, poles = _Chords(measure.dim, radius), np.zeros((0, measure.dim))
    else:
        kernel, poles = _Latitudes(measure.dim, radius, axis), np.outer(_ENDS, axis)
    positions = kernel.positions(points)
    places, shares, group = _coarsened(positions, masses, radius)
    neighbours = _Neighbours(places, kernel.width)
    is_dense = _smoothed(neighbours, shares, kernel) >= _DENSE
    core = _Neighbours(places[is_dense], kernel.reach)
    components = core.components(kernel.reach)
    of_places = np.full(len(places), -1)
    of_places[is_dense] = components
    of_places[~is_dense] = core.nearest(places[~is_dense], components, kernel.reach)
    point_labels = labels = of_places[group]
    if points is not measure.points:
        point_labels = core.nearest(kernel.positions(measure.points), components, kernel.reach)
    caps = core.nearest(kernel.positions(poles), components, kernel.reach)
    return _measured(points, masses, labels, point_labels, min_mass, (poles, caps))


def grouped(points: Array, masses: Array, rows: Integers, within: float) -> Clusters:
    """The clusters of some rows of points (n, d) that are nearer to one another than a distance."""
    labels = np.full(len(points), -1)
    labels[rows] = _Neighbours(points[rows], within).components(within)
    return _measured(points, masses, labels, labels, 0.0, (points[:0], rows[:0]))


class _Chords:
    """The kernel of `clusters` on a sphere between points, whose distances are chords."""

    def __init__(self, dim: int, radius: float) -> None:
        width = _WIDTH * radius
        self.reach, self.width = 2.0 * np.sin(0.5 * radius), 2.0 * np.sin(0.5 * width)
        self.uniform = float(np.exp(_log_uniform(dim, 0.25 * self.width**2)))

    @staticmethod
    def positions(points: Array) -> Array:
        """The points (n, d)."""
        return points

    def weights(self, first: Array, second: Array, squared: Array) -> Array:  # noqa: ARG002
        """K at squared distances (n, m) of the places (n, d) and (m, d), in their place."""
        squared *= -1.0 / self.width**2
        squared += 1.0
        np.maximum(squared, 0.0, out=squared)
        squared *= squared
        return squared


class _Latitudes:
    """The kernel of `clusters` between rings, given by polar angles: its mean over each ring.

    Points of rings at θ and θ', φ apart in longitude, have (|x - y|/2)² = A + B v with
    A = sin²((θ - θ')/2), B = sin θ sin θ' and v = sin²(φ/2), whose law is Beta(b, b),
    b = (d - 2)/2.
    """

    # weights are divided by those of σ already
    uniform = 1.0

    def __init__(self, dim: int, radius: float, axis: Array) -> None:
        self.axis, self.reach = axis, radius
        self.width = _WIDTH * radius
        self._exponent, self._most = 0.5 * (dim - 2.0), np.sin(0.5 * self.width) ** 2
        self._log_uniform = _log_uniform(dim, self._most)
        self._knots = np.linspace(0.0, 1.0, _KNOTS)
        self._table = _log_mean(self._exponent, self._knots) - self._log_uniform

    def positions(self, points: Array) -> Array:
        """Polar angles (n, 1) of points (n, d)."""
        return np.asarray(polar_angles(points, self.axis)[:, None])

    def weights(self, first: Array, second: Array, squared: Array) -> Array:  # noqa: ARG002
        """The mean of K over rings at angles (n, 1) and (m, 1), divided by that over σ."""
        b = self._exponent
        least = 1.0 - np.sin(0.5 * (first - second.T)) ** 2 / self._most
        largest = np.sin(first) * np.sin(second.T) / self._most
        share = np.clip(least / np.maximum(largest, _TINY), _TINY, 1.0)
        log_part = b * np.log(share) + np.interp(share, self._knots, self._table)
        part = least**2 * np.exp(np.minimum(log_part, _LARGEST_LOG))
        whole_ring = least**2 - least * largest + (b + 1.0) / (4.0 * b + 2.0) * largest**2
        whole_ring *= np.exp(min(-self._log_uniform, _LARGEST_LOG))
        return np.where(least <= 0.0, 0.0, np.where(least >= largest, whole_ring, part))


def _log_mean(a: float, most: Array) -> Array:
    """Log of s^{-a} ∫_0^s (1 - v/s)² dP(v), P = Beta(a, a), at each s in [0, 1] of `most`."""
    if a == 0.0:
        # half of P lies at 0 and half at 1
        return np.full(len(most), np.log(0.5))
    logs, low = np.empty(len(most)), most < 0.5
    # 2F1(2a + 2, 3; a + 3; s) has positive terms; the n-th falls like (2s)^n e^{-n²/(4a)}
    s, n = most[low], np.arange(64 + int(16.0 * a**0.5))
    factors = (2.0 * a + 2.0 + n) * (3.0 + n) / ((a + 3.0 + n) * (1.0 + n))
    series = 1.0 + np.cumprod(s[:, None] * factors, axis=1).sum(axis=1)
    logs[low] = np.log(series) + (a + 2.0) * np.log1p(-s) + betaln(a, 3.0) - betaln(a, a)
    s = most[~low]
    first, second = betainc(a + 1.0, a, s) / s, betainc(a + 2.0, a, s) / s**2
    mean = betainc(a, a, s) - first + (a + 1.0) / (4.0 * a + 2.0) * second
    logs[~low] = np.log(mean) - a * np.log(s)
    return logs


def _log_uniform(dim: int, most: float) -> float:
    """Return log ∫ K dσ, where K ends at chords of squared half `most`."""
    half = 0.5 * (dim - 1.0)
    return float(half * np.log(most) + _log_mean(half, np.array([most]))[0])


class _Neighbours:
    """Places (n, k) and the search for neighbours.

    A tree finds neighbours, or in many dimensions products of blocks.
    """

    def __init__(self, places: Array, distance: float) -> None:
        self.places = places
        self._tree = None
        if places.shape[1] <= _MOST_DIMENSIONS or distance < _SHORTEST:
            self._tree = scipy.spatial.cKDTree(places)
            n, self._order = len(places), self._tree.indices
            # the tree halves its places in this order, so each part is a branch of it, and compact
            n_branches = 1 << (max(n - 1, 0) // _NEIGHBOURS).bit_length()
            self._edges = np.unique(np.arange(n_branches + 1) * n // n_branches)

    def tiles(self, distance: float) -> Iterator[tuple[Indices, Indices]]:
        """Rows and columns: each pair no further apart than a distance is in one tile.

        A tile holds one of the pairs (i, j) and (j, i), or both where rows are columns, the same
        array.
        """
        n = len(self.places)
        if self._tree is None:
            for start in range(0, n, _ROWS):
                rows = np.arange(start, min(start + _ROWS, n))
                yield rows, rows
                for column in range(start + _ROWS, n, _COLUMNS):
                    yield rows, np.arange(column, min(column + _COLUMNS, n))
            return
        order = self._order
        rank = np.empty(n, dtype=np.intp)
        rank[order] = np.arange(n)
        for start, end in pairwise(self._edges):
            rows = order[start:end]
            centre = self.places[rows].mean(axis=0)
            widest = float(np.linalg.norm(self.places[rows] - centre, axis=1).max())
            search_radius = (1.0 + _ROUNDING) * (distance + widest)
            neighbours = np.asarray(
                self._tree.query_ball_point(centre, search_radius), dtype=np.intp
            )
            yield rows, rows
            if len(later_neighbours := neighbours[rank[neighbours] >= end]):
                yield rows, later_neighbours

    def squared(self, rows: Indices, columns: Indices) -> Array:
        """Squared distances of the places of some rows from those of some columns."""
        first, second = self.places[rows], self.places[columns]
        if self._tree is not None:
            return np.asarray(scipy.spatial.distance.cdist(first, second, "sqeuclidean"))
        return _squared(first, second)

    def components(self, distance: float) -> Indices:
        """Connected components, shape (n,), of the graph of pairs within a distance."""
        labels, edges, count = self._joined(distance), [np.zeros((2, 0), dtype=np.intp)], 0
        for rows, columns in self.tiles(distance):
            row_labels = labels[rows][:, None]
            if (row_labels == row_labels[0]).all():
                # places that are in the component of the rows already need no edge to them
                columns = columns[labels[columns] != row_labels[0]]
            if not len(columns):
                continue
            column_labels = labels[columns]
            joined = (self.squared(rows, columns) <= distance**2) & (row_labels != column_labels)
            row, column = np.nonzero(joined)
            edges.append(np.stack([rows[row], columns[column]]))
            count += len(row)
            # components that are joined need no more edges, so even a crowded cluster has few
            if count > len(labels):
                labels, edges, count = _united(labels, edges), edges[:1], 0
        return _united(labels, edges)

    def _joined(self, distance: float) -> Indices:
        """Return labels of places, in which most neighbours have the same label already."""
        labels = np.arange(len(self.places))
        if self._tree is None or not len(labels):
            return labels
        order, edges = self._order, self._edges
        # the first place of each branch represents it
        first, count = order[edges[:-1]], min(_NEXT, len(edges) - 1)
        tree = scipy.spatial.cKDTree(self.places[first])
        _, nearest = tree.query(self.places[first], k=np.arange(1, count + 1))
        rows = np.concatenate([order, np.repeat(first, count)])
        columns = np.concatenate([np.repeat(first, np.diff(edges)), first[nearest].ravel()])
        is_near = ((self.places[rows] - self.places[columns]) ** 2).sum(axis=1) <= distance**2
        return _united(labels, [np.stack([rows[is_near], columns[is_near]])])

    def nearest(self, others: Array, labels: Indices, distance: float) -> Indices:
        """Labels of the nearest places to some others, -1 where all are further away."""
        n = len(self.places)
        best, nearest = np.full(len(others), np.inf), np.full(len(others), -1)
        if n == 0:
            return nearest
        if self._tree is not None:
            # a place with no neighbour within the bound gets the index n
            bound = (1.0 + _ROUNDING) * distance
            distances, index = self._tree.query(others, distance_upper_bound=bound)
            return np.where(distances <= distance, labels[np.minimum(index, n - 1)], -1)
        for start in range(0, len(others), _ROWS):
            rows = slice(start, start + _ROWS)
            for first in range(0, n, _COLUMNS):
                squared = _squared(others[rows], self.places[first : first + _COLUMNS])
                index = np.argmin(squared, axis=1)
                least = np.take_along_axis(squared, index[:, None], axis=1)[:, 0]
                nearer = least < best[rows]
                best[rows] = np.where(nearer, least, best[rows])
                nearest[rows] = np.where(nearer, labels[first + index], nearest[rows])
        return np.where(best <= distance**2, nearest, -1)


def _squared(first: Array, second: Array) -> Array:
    """Return squared distances (n, m) of rows (n, k) and (m, k), by one product."""
    squared = first @ (-2.0 * second.T)
    squared += np.einsum("ij,ij->i", first, first)[:, None]
    squared += np.einsum("ij,ij->i", second, second)
    return squared


def _united(labels: Indices, edges: list[Indices]) -> Indices:
    """Return labels of places in which places joined by edges have the same label."""
    ends = labels[np.concatenate(edges, axis=1)]
    count = int(labels.max(initial=-1)) + 1
    graph = scipy.sparse.coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), (count, count))
    component = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return np.asarray(component, dtype=np.intp)[labels]


def _smoothed(places: _Neighbours, masses: Array, kernel: _Chords | _Latitudes) -> Array:
    """Return the density of masses (n,) at the places, smoothed by the kernel."""
    mass_around = np.zeros(len(masses))
    for rows, columns in places.tiles(kernel.width):
        squared = places.squared(rows, columns)
        if squared.min() > kernel.width**2:
            continue
        weights = kernel.weights(places.places[rows], places.places[columns], squared)
        mass_around[rows] += weights @ masses[columns]
        if columns is not rows:
            mass_around[columns] += masses[rows] @ weights
    # in many dimensions the mass of σ near a place is 0 to rounding
    if kernel.uniform < _TINY:
        return np.where(mass_around > 0.0, np.inf, 0.0)
    return mass_around / kernel.uniform


def _coarsened(positions: Array, masses: Array, radius: float) -> tuple[Array, Array, Indices]:
    """Return places and masses of groups of positions much closer than the radius.

    The group of each position follows.
    """
    member = np.arange(len(positions))
    places, shares = positions, masses
    # diagonals of cells grow with the dimension; where trees are no longer used, cells shrink
    side = radius / max(1.0, positions.shape[1] / _MOST_DIMENSIONS) ** 0.5
    for cell_width in (_FINE, _COARSE):
        if len(places) <= (0 if cell_width == _FINE else _MANY):
            break
        _, group = np.unique(np.floor(places / (cell_width * side)), axis=0, return_inverse=True)
        group = group.ravel()
        total = np.asarray(np.bincount(group, shares), dtype=np.float64)
        # the mean of a group without mass is that of its places
        part_masses = np.where(total[group] > 0.0, shares, 1.0)
        group_mass = np.bincount(group, part_masses)
        columns = [np.bincount(group, part_masses * column) / group_mass for column in places.T]
        places, shares, member = np.column_stack(columns), total, group[member]
    return places, shares, member


def _measured(
    points: Array,
    masses: Array,
    labels: Indices,
    point_labels: Indices,
    min_mass: float,
    caps: tuple[Array, Integers],
) -> Clusters:
    """Return the clusters of labelled points.

    `point_labels` and `caps` label the measure's own points and poles.
    """
    count = int(max(labels.max(initial=-1), point_labels.max(initial=-1))) + 1
    inside = np.flatnonzero((labels >= 0) & (masses > 0.0))
    x, m, labels = points[inside], masses[inside], labels[inside]
    total = np.asarray(np.bincount(labels, m, minlength=count), dtype=np.float64)
    # the mass of k tokens of mass 1/n is k/n to rounding only
    heavy = np.flatnonzero((total > 0.0) & (total >= (1.0 - _ROUNDING) * min_mass))
    heavy = heavy[np.argsort(-total[heavy], kind="stable")]
    rank = np.full(count + 1, -1)
    rank[heavy] = np.arange(len(heavy))
    labels, point_labels = rank[labels], rank[point_labels]
    x, m, labels = x[labels >= 0], m[labels >= 0], labels[labels >= 0]
    total = total[heavy]
    shares = scipy.sparse.csr_array((m, (labels, np.arange(len(m)))), (len(heavy), len(m)))
    means = shares @ x / total[:, None]
    lengths = np.linalg.norm(means, axis=1)
    # a ring around a great circle has no mean direction, only one of rounding
    centres = means / np.maximum(lengths, _NO_DIRECTION)[:, None]
    for index in np.flatnonzero(lengths <= _NO_DIRECTION):
        members = np.flatnonzero(labels == index)
        centres[index] = x[members[np.argmax(m[members])]]
    for pole, label in zip(*caps, strict=True):
        # about an axis the mean of a cap lies on it; a cap with both poles has the nearer one
        index, is_both = rank[label], caps[1][0] == caps[1][1]
        if index >= 0 and (not is_both or means[index] @ pole >= 0.0):
            centres[index] = pole
    squared = geodesic_distance(x, centres[labels]) ** 2
    radii = np.sqrt(np.bincount(labels, m * squared, minlength=len(heavy)) / total)
    return Clusters(masses=total, centres=centres, radii=radii, labels=point_labels)
