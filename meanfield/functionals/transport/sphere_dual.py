"""Kantorovich potentials on S^2 for the cost dist²/2: c-transforms, dual functional, ascent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter, maximum_filter1d
from scipy.optimize import OptimizeResult, minimize

from meanfield.functionals.transport import ROUNDING
from meanfield.functionals.transport.sphere_masses import DensitySpread, Spread, series
from meanfield.measures.density import Density
from meanfield.spaces import Places, Sphere, SphereAt, SphereFields
from meanfield.spaces.geometry import exponential, geodesic_distance, logarithm, sphere_angles
from meanfield.spaces.lattice import Hats, Lattice, hats, largest_corner
from meanfield.typing import Array, Coefficients, Indices, NDArray

# so many targets are handled at a time: their slacks with some thousand points stay in a cache
_BLOCK = 32
# slacks are below 10, and single precision rounds them by this
_SINGLE_ROUNDING = 1e-5


class RingSearch:
    """The rings of a grid on which the least slack towards targets can lie.

    A point is no nearer to a target than their colatitudes are, so the slack on a ring is at
    least half the square of that minus the largest φ there. Where this exceeds the slack at the
    grid's point beside the target, the ring is left out.

    Parameters
    ----------
    grid : Sphere or Lattice
    targets : ndarray, shape (n, 3)
    """

    def __init__(self, grid: Sphere | Lattice, targets: Array) -> None:
        colatitudes, longitudes = sphere_angles(targets)
        self._grid = grid
        differences = np.abs(np.subtract.outer(colatitudes, grid.colatitudes))
        columns = np.rint(longitudes * (grid.n_lon / (2.0 * np.pi))).astype(np.intp) % grid.n_lon
        self._beside = differences.argmin(axis=1) * grid.n_lon + columns
        self._cost = 0.5 * geodesic_distance(targets, grid.points[self._beside]) ** 2
        self._least_cost = 0.5 * differences**2

    @staticmethod
    def order(targets: Array) -> Indices:
        """The targets from the north to the south: neighbours need the same rings."""
        return sphere_angles(targets)[0].argsort(kind="stable")

    def parts(
        self, values: NDArray[np.float32], margins: NDArray[np.float32] | None = None
    ) -> Iterator[tuple[slice, slice]]:
        """Targets a block at a time, and the points of the grid to look at, φ given there.

        With margins, also the points whose slack less its margin can be as little as the least one.
        """
        raised = values if margins is None else values + margins
        rings = raised.reshape(len(self._grid.colatitudes), self._grid.n_lon)
        bound = self._cost - values[self._beside] + _SINGLE_ROUNDING
        needed = self._least_cost - rings.max(axis=1) <= bound[:, None]
        starts = range(0, len(needed), _BLOCK)
        wanted = np.logical_or.reduceat(needed, starts, axis=0)
        northmost = wanted.argmax(axis=1)
        behind = wanted.shape[1] - wanted[:, ::-1].argmax(axis=1)
        n_lon = self._grid.n_lon
        for start, north, south in zip(starts, northmost, behind, strict=True):
            yield slice(start, start + _BLOCK), slice(north * n_lon, south * n_lon)


# a slack less convex than this has no Newton step
_LEAST_CURVATURE = 0.05


class Slack:
    """First and second derivatives at n points x in their frames, of the slack towards n points y.

    Parameters
    ----------
    logarithm : ndarray, shape (2, n)
        log_x y.
    gradient : ndarray, shape (2, n)
        ∇φ.
    hessian : ndarray, shape (3, n)
        The second derivatives of φ.

    Attributes
    ----------
    distance : ndarray, shape (n,)
        dist(x, y).
    slope : ndarray, shape (2, n)
    curvature : ndarray, shape (3, n)
        Components 11, 22 and 12.
    """

    def __init__(self, logarithm: Array, gradient: Array, hessian: Array) -> None:
        distance = np.hypot(logarithm[0], logarithm[1])
        at_y = distance < 1e-12
        along = np.where(at_y, 1.0, logarithm[0]) / np.where(at_y, 1.0, distance)
        across = np.where(at_y, 0.0, logarithm[1]) / np.where(at_y, 1.0, distance)
        # dist²/2 has the second derivatives 1 along the geodesic and r cot r across it
        sideways = np.sinc(distance / np.pi)
        sideways = np.cos(distance) / np.where(sideways == 0.0, 1e-300, sideways)
        self.distance, self.slope = distance, -logarithm - gradient
        along_along = along**2 + sideways * across**2 - hessian[0]
        across_across = across**2 + sideways * along**2 - hessian[1]
        mixed = (1.0 - sideways) * along * across - hessian[2]
        self.curvature = np.stack([along_along, across_across, mixed])

    @property
    def least_curvature(self) -> Array:
        """The lesser eigenvalue of the curvature, shape (n,)."""
        middle = 0.5 * (self.curvature[0] + self.curvature[1])
        half = 0.5 * (self.curvature[0] - self.curvature[1])
        return np.asarray(middle - np.hypot(half, self.curvature[2]))

    @property
    def jacobian(self) -> Array:
        """|det DS| of the map S with log_x S(x) = -∇φ(x), where y = S(x); shape (n,)."""
        determinant = self.curvature[0] * self.curvature[1] - self.curvature[2] ** 2
        return np.asarray(determinant * np.sinc(self.distance / np.pi))

    def step(self, longest: float) -> Array:
        """Newton's step to the least slack, (2, n), at most so long; downhill everywhere."""
        damping = np.maximum(_LEAST_CURVATURE - self.least_curvature, 0.0)
        curvature_1, curvature_2 = self.curvature[0] + damping, self.curvature[1] + damping
        determinant = curvature_1 * curvature_2 - self.curvature[2] ** 2
        along = curvature_2 * self.slope[0] - self.curvature[2] * self.slope[1]
        across = curvature_1 * self.slope[1] - self.curvature[2] * self.slope[0]
        step = -np.stack([along, across]) / determinant
        length = np.hypot(step[0], step[1])
        return np.asarray(step * np.minimum(longest / np.maximum(length, 1e-300), 1.0))

    def change(self, step: Array) -> Array:
        """By how much the slack changes on a step (2, n), to second order."""
        first, second, mixed = self.curvature
        quadratic = first * step[0] ** 2 + second * step[1] ** 2 + 2.0 * mixed * step[0] * step[1]
        return np.asarray(self.slope[0] * step[0] + self.slope[1] * step[1] + 0.5 * quadratic)


_MOST_NEWTON_STEPS = 30
# a Newton iteration has converged when the derivative of the slack is below this
_ARRIVED = 1e-7
# the rows of the lattices: all cells of the first are searched, and the last has the curvature of φ
_ROWS = (64, 128, 256, 512)
# a ball about a cell of the last lattice may reach into so many rows
_BALL = 3
# the rounding error of an inner product of unit vectors
_EPS = 4e-16
# near -x the arc cosine loses this much of dist²/2
_OPPOSITE = 1e-7
# in single precision inner products lose the first number; where dist²/2 exceeds the second, the
# cost loses the third
_SINGLE, _FAR, _LOST = 4e-7, 4.0, 6e-3


@dataclass(frozen=True)
class Minima:
    """Newton's iteration for the least slack dist²(x, y)/2 - φ(x) towards n points y.

    Attributes
    ----------
    values : ndarray, shape (n,)
        The slack there: at least the c-transform ψ(y), and equal to it but for a wrong basin.
    sources : ndarray, shape (n, 3)
        The x, T(y).
    slack : Slack
        There.
    converged : ndarray of bool, shape (n,)
        Where the iteration has arrived at a minimum.
    """

    values: Array
    sources: Array
    slack: Slack
    converged: NDArray[np.bool_]


@dataclass(frozen=True)
class Conjugate:
    """Bounds of the c-transform ψ(y) = min_x dist²(x, y)/2 - φ(x) at n points y.

    Attributes
    ----------
    lower, upper : ndarray, shape (n,)
    """

    lower: Array
    upper: Array


class Potential:
    """φ as a series up to lmax, and what is known of it between the points of lattices.

    That comes from transforms to the lattices and Bernstein's inequality.

    Parameters
    ----------
    lmax : int
        At most 127: more needs a finer lattice for its curvature, and has fewer cells a wave.
    coefficients : ndarray
        In the layout of Sphere(lmax).

    Attributes
    ----------
    lattices : list of Lattice
        Each twice as fine as the one before.
    at_centres, margins : list of ndarray, each of shape (n, n_lon)
        φ at the centres, and the most by which a slack at a centre exceeds the least slack where
        that lies in the cell.
    bent : ndarray, shape (n, n_lon)
        The largest second derivative of φ not farther than `ball` from any point of a cell of the
        last lattice.
    ball : float
    steepest, sharpest : float
        The largest |∇φ|, and second derivative in size.
    top, highest : float
        The largest φ and |φ|.
    rounding, single : float
        The errors of a slack in double and in single precision.
    """

    def __init__(self, lmax: int, coefficients: Coefficients) -> None:
        self.lmax, self.coefficients = lmax, coefficients
        self._at = SphereAt(lmax)
        self.lattices = [Lattice(n) for n in _ROWS]
        finest = self.lattices[-1]
        self.at_centres = [lattice.at_centres(coefficients, lmax) for lattice in self.lattices]
        corners = finest.at_corners(coefficients, lmax)
        low, high = float(corners.min()), float(corners.max())
        self.top = 0.5 * (low + high) + 0.5 * (high - low) * finest.overshoot(lmax)
        self.highest = max(-low, high) * finest.overshoot(lmax)
        steepest = np.hypot(*finest.gradient_at_corners(coefficients, lmax)).max()
        self.steepest = finest.overshoot(lmax + 1) * float(steepest)
        hessian = finest.hessian_at_corners(coefficients, lmax)
        middle = 0.5 * (hessian[0] + hessian[1])
        half = np.hypot(0.5 * (hessian[0] - hessian[1]), hessian[2])
        self.sharpest = finest.overshoot(lmax + 2) * float((np.abs(middle) + half).max())
        # for fixed e, e·∇²φ e has degree lmax + 2: between corners it is linear up to this
        bulge = self.sharpest * finest.step**2 * (0.25 * (lmax + 2.0) ** 2 + 2.0)
        steep = largest_corner(half - middle) + bulge
        self.bent = _largest_around(largest_corner(middle + half) + bulge, finest, _BALL)
        self.ball = (_BALL - 1) * finest.step
        # a geodesic between two points of a cell bends towards the pole by less than a row
        steep = maximum_filter(steep, size=(3, 1), mode="nearest")
        self.margins: list[Array] = []
        for lattice in self.lattices:
            ratio = finest.n // lattice.n
            largest = steep.reshape(lattice.n, ratio, lattice.n_lon, ratio).max(axis=(1, 3))
            self.margins.append(0.5 * np.maximum(1.0 + largest, 0.0) * lattice.radii[:, None] ** 2)
        self.rounding = ROUNDING * (1.0 + self.highest)
        self.single = 8.0 * _SINGLE * (5.0 + self.highest)

    def values(self, points: Array) -> Array:
        """φ at points (n, 3)."""
        return self._at.values(self.coefficients, Places.of(points))

    def slack(self, points: Array, targets: Array) -> tuple[Slack, Array]:
        """The slack at x towards y, both (n, 3), and the frame at x."""
        places = Places.of(points)
        frame = places.frame()
        gradient = self._at.gradient(self.coefficients, places)
        hessian = self._at.hessian(self.coefficients, places)
        towards = np.einsum("ijk,jk->ij", frame, logarithm(points, targets))
        return Slack(towards, np.einsum("ijk,jk->ij", frame, gradient), hessian), frame

    def map(self, points: Array) -> tuple[Array, Slack]:
        """S(x) = exp_x(-∇φ(x)) at points (n, 3), and the slack towards it, whose slope is 0."""
        places = Places.of(points)
        gradient = self._at.gradient(self.coefficients, places)
        components = np.einsum("ijk,jk->ij", places.frame(), gradient)
        hessian = self._at.hessian(self.coefficients, places)
        targets = exponential(points, -gradient)
        targets /= np.linalg.norm(targets, axis=1)[:, None]
        return targets, Slack(-components, components, hessian)

    def minima(self, targets: Array) -> Minima:
        """Least slacks at points (n, 3): a search over a lattice, and Newton's iteration."""
        nearest, _, _ = self._search(targets, np.inf)
        return self._descend(self.lattices[0].points[nearest], targets)

    def _descend(self, sources: Array, targets: Array) -> Minima:
        """Run Newton's iteration from sources (n, 3).

        A step is at most a row of the first lattice.
        """
        sources, reach = sources.copy(), self.lattices[0].step
        moving = np.arange(len(targets))
        for _ in range(_MOST_NEWTON_STEPS):
            slack, frame = self.slack(sources[moving], targets[moving])
            step = np.einsum("ij,ijk->jk", slack.step(reach), frame)
            moved = exponential(sources[moving], step)
            sources[moving] = moved / np.linalg.norm(moved, axis=1)[:, None]
            moving = moving[np.hypot(*slack.slope) > _ARRIVED]
            if len(moving) == 0:
                break
        slack, _ = self.slack(sources, targets)
        has_arrived = (np.hypot(*slack.slope) < _ARRIVED) & (slack.least_curvature > 0.0)
        values = 0.5 * slack.distance**2 - self.values(sources)
        return Minima(values, sources, slack, has_arrived)

    def conjugate(self, targets: Array, tolerance: float) -> Conjugate:
        """ψ at points (n, 3), by branch and bound, at best to the tolerance.

        At the least slack its slope is 0, and along geodesics its second derivative is at most 1
        plus that of -φ: the slack at the centre of the cell that has it exceeds it by at most half
        of this times the square of the cell's radius. Cells that can't hold less than the least
        value so far less the tolerance are left, the others are cut in four.
        """
        nearest, target, cell = self._search(targets, tolerance)
        places = self.lattices[0].points[nearest]
        least = 0.5 * geodesic_distance(places, targets) ** 2 - self.at_centres[0].ravel()[nearest]
        np.minimum(least, self._descend(places, targets).values, out=least)
        low = np.empty(0)
        for level, lattice in enumerate(self.lattices):
            if level:
                target, cell = quarters(target, cell, lattice)
            x = lattice.some_points(cell)
            cosines = np.einsum("ij,ij->i", x, targets[target])
            slack = 0.5 * np.arccos(np.clip(cosines + _EPS, -1.0, 1.0)) ** 2
            slack -= self.at_centres[level].ravel()[cell]
            np.minimum.at(least, target, slack)
            low = slack - self.margins[level].ravel()[cell]
            is_open = low < least[target] - tolerance
            target, cell, low = target[is_open], cell[is_open], low[is_open]
        lower_bounds = least - tolerance
        if len(target):
            self._look_into_basins(targets, target, cell, low, least, lower_bounds)
        np.minimum(lower_bounds, least - tolerance, out=lower_bounds)
        return Conjugate(lower_bounds - self.rounding, least + self.rounding + _OPPOSITE)

    def _look_into_basins(
        self, targets: Array, target: Indices, cell: Indices, low: Array, least: Array, held: Array
    ) -> None:
        """Lower `held` to the least value that open cells can hold.

        Cells in a known basin are left out.

        Around a minimum x' of Newton's iteration, in a ball on which the slack has second
        derivatives of at least λ > 0, it is at least its value there less |slope|²/2λ.
        """
        lattice = self.lattices[-1]
        order = np.lexsort((low, target))
        target, cell, low = target[order], cell[order], low[order]
        distinct, starts = np.unique(target, return_index=True)
        minima = self._descend(lattice.some_points(cell[starts]), targets[distinct])
        least[distinct] = np.minimum(least[distinct], minima.values)
        bent = self.bent.ravel()[lattice.cell_of(minima.sources)]
        far = np.minimum(minima.slack.distance + self.ball, np.pi)
        sideways = np.where(far < np.pi, np.sinc(far / np.pi), 1e-300)
        convex = np.minimum(1.0, np.cos(far) / sideways) - bent
        squares = np.sum(minima.slack.slope**2, axis=0)
        floor = minima.values - squares / (2.0 * np.maximum(convex, 1e-300))
        index = np.searchsorted(distinct, target)
        reach = geodesic_distance(minima.sources[index], lattice.some_points(cell))
        inside = (convex[index] > 0.0) & (reach + lattice.radii[cell // lattice.n_lon] < self.ball)
        np.minimum.at(held, target, np.where(inside, floor[index], low))

    def _search(self, targets: Array, tolerance: float) -> tuple[Indices, Indices, Indices]:
        """Return the cell of the first lattice with the least slack at its centre, (n,).

        The open cells follow.

        Open are those that may hold less than the least slack less the tolerance: target and cell
        of each. In single precision, with inner products raised by their rounding.
        """
        lattice = self.lattices[0]
        values = self.at_centres[0].ravel().astype(np.float32)
        margins = (self.margins[0].ravel() + self.single).astype(np.float32)
        grid = lattice.points.astype(np.float32).T.copy()
        order = RingSearch.order(targets)
        ordered = targets[order]
        wanted, nearest = ordered.astype(np.float32), np.empty(len(targets), dtype=np.intp)
        open_targets, open_cells = [], []
        for rows, columns in RingSearch(lattice, ordered).parts(values, margins):
            slack = wanted[rows] @ grid[:, columns]
            slack += np.float32(_SINGLE)
            half_square_of_distance(slack)
            slack -= values[columns]
            nearest[order[rows]] = columns.start + slack.argmin(axis=1)
            least = slack.min(axis=1)
            cost = least + values[nearest[order[rows]]]
            limit = least + np.where(cost > _FAR, _LOST, self.single) - tolerance
            slack -= margins[columns]
            row, column = np.nonzero(slack < limit[:, None].astype(np.float32))
            open_targets.append(order[rows][row])
            open_cells.append(columns.start + column)
        return nearest, np.concatenate(open_targets), np.concatenate(open_cells)


def _largest_around(cells: Array, lattice: Lattice, rows: int) -> Array:
    """Return the largest value among cells that come nearer than (rows - 1) steps to each cell."""
    maxima = maximum_filter(cells, size=(2 * rows + 1, 1), mode="nearest")
    for i in range(lattice.n):
        low, high = max(i - rows, 0), min(i + 1 + rows, lattice.n)
        least = min(np.sin(lattice.edges[low]), np.sin(lattice.edges[high]))
        columns_within = int(np.ceil(rows / least)) + 1 if least > 1e-9 else lattice.n_lon
        if 2 * columns_within + 1 < lattice.n_lon:
            maxima[i] = maximum_filter1d(maxima[i], 2 * columns_within + 1, mode="wrap")
        else:
            maxima[i] = maxima[i].max()
    return np.asarray(maxima)


def quarters(target: Indices, cell: Indices, lattice: Lattice) -> tuple[Indices, Indices]:
    """The four cells of this lattice in each cell of the one half as fine."""
    row, column = np.divmod(cell, lattice.n)
    corner = 2 * row * lattice.n_lon + 2 * column
    children = corner[:, None] + np.array([0, 1, lattice.n_lon, lattice.n_lon + 1])
    return np.repeat(target, 4), children.ravel()


def half_square_of_distance(products: NDArray[np.float32]) -> None:
    """In place, arccos²/2 of inner products."""
    np.clip(products, -1.0, 1.0, out=products)
    np.arccos(products, out=products)
    products *= products
    products *= np.float32(0.5)


# the largest dist²/2: values of a c-transform differ by at most this
_RANGE = 0.5 * np.pi**2
# the mass of hats that may keep a value below all others, over the tolerance of the functional
_LEFT = 1e-2


def dual(
    mu: Spread, nu: Spread, potential: Potential, tolerance: float, rows: int
) -> tuple[float, float]:
    """∫ φ dmu + ∫ ψ dnu, ψ the c-transform of φ: a lower bound of it, and an estimate.

    ∫ φ dmu is a product of series, or a sum over tokens. ψ is bounded from below by branch and
    bound, at nu's tokens or at the corners of a lattice of so many rows. Between the corners it has
    a minorant: second derivatives of ψ are at most those of dist²/2, so that it lies above its
    linear interpolation but for their half times (θ - θ_i)(θ_{i+1} - θ) along a meridian, where
    they are at most 1, and the like along a parallel. The minorant is integrated exactly against
    nu's series. Mass below 0 that nu's or mu's series has counts with the largest difference.

    Parameters
    ----------
    mu, nu : Spread
    potential : Potential
    tolerance : float
        Of the c-transform.
    rows : int
    """
    mean = mu.mean(potential.coefficients, potential.lmax)
    negative_part = mu.negative * 2.0 * potential.highest + 2.0 * nu.negative * _RANGE
    negative_part += ROUNDING * (1.0 + potential.highest)
    if isinstance(nu, DensitySpread):
        lower, estimate = _under_hats(nu.series, potential, tolerance, rows)
    else:
        conjugate = potential.conjugate(nu.points, tolerance)
        lower = float(nu.masses @ conjugate.lower)
        estimate = float(nu.masses @ conjugate.upper)
    return mean + lower - negative_part, mean + estimate


def _under_hats(
    measure: Density, potential: Potential, tolerance: float, rows: int
) -> tuple[float, float]:
    """Return a lower bound and an estimate of ∫ ψ over a density."""
    lmax = measure.degree
    coefficients = series(measure, lmax)
    while rows <= lmax + 1:
        rows *= 2
    lattice = Lattice(rows)
    hat_sums = hats(lattice, coefficients, lmax)
    masses, mass = hat_sums.masses, float(coefficients[0].real)
    order = np.argsort(np.abs(masses))
    left = np.zeros(len(masses), dtype=np.bool_)
    left[order] = np.cumsum(np.abs(masses[order])) < _LEFT * tolerance
    conjugate = potential.conjugate(lattice.corners[~left], tolerance)
    # points that are left out get any bounds of the least slack: -max φ, and -φ at the point itself
    lower, upper = np.full(len(masses), -potential.top), np.full(len(masses), potential.highest)
    lower[~left], upper[~left] = conjugate.lower, conjugate.upper
    middle = float(masses @ upper) / mass
    deviation = np.where(masses > 0.0, lower, upper) - middle
    interpolation_error = _between(lattice, hat_sums, potential, upper) + hat_sums.error * _RANGE
    estimate = middle - _second_differences(lattice, masses, upper) / mass
    return middle + (float(masses @ deviation) - interpolation_error) / mass, estimate


def _between(lattice: Lattice, hat_sums: Hats, potential: Potential, upper: Array) -> float:
    """Return by how much interpolation between the corners may exceed ∫ ψ.

    Along a parallel second derivatives of ψ are at most sin²θ + |∇ψ| sin θ |cos θ|, and |∇ψ| is the
    distance from the least slack, dist²/2 = ψ + φ. Along any circle, as the source of y turns with
    it, they are at most those of -φ along a circle.
    """
    step = lattice.step
    turning = potential.sharpest + 0.5 * potential.steepest
    sines, cosines = np.sin(lattice.edges), np.abs(np.cos(lattice.edges))
    of_rows = np.maximum.reduceat(upper, np.r_[0, 1 + lattice.n_lon * np.arange(lattice.n)])
    highest = of_rows + np.pi * 0.5 * step * sines + potential.top
    far = np.minimum(np.sqrt(2.0 * np.maximum(highest, 0.0)), np.pi)
    across = np.minimum(sines**2 + far * sines * cosines, turning)
    along = min(1.0, turning)
    # the mean of (φ - φ_j)(φ_{j+1} - φ)/2 over a cell is Δ²/12, for each harmonic of order < n_lon
    of_parallels = step**2 / 12.0 * float(np.maximum(hat_sums.of_rows, 0.0) @ across)
    return along * hat_sums.between + of_parallels


def _second_differences(lattice: Lattice, masses: Array, upper: Array) -> float:
    """The error of linear interpolation from second differences of ψ, except beside the poles."""
    shape = lattice.n - 1, lattice.n_lon
    values, weights = upper[1:-1].reshape(shape), masses[1:-1].reshape(shape)
    along = values[2:] - 2.0 * values[1:-1] + values[:-2]
    across = np.roll(values, 1, axis=1) - 2.0 * values + np.roll(values, -1, axis=1)
    return float(np.sum(weights[1:-1] * along) + np.sum(weights * across)) / 12.0


_SEARCH_LMAX = 31
_TABLE_BLOCK = 256
# L-BFGS keeps so many corrections, and ends at a step that gains this share of the goal
_MEMORY, _LEAST_GAIN = 15, 1e-6


class DualAscent:
    """Potentials of degree lmax that ascend, by L-BFGS in the norm ∫|∇φ|² dσ.

    The derivative of D is mu - T#nu with T(y) where the c-transform ψ(y) takes its minimum. In that
    norm it is the solution of a Poisson equation, as in the back-and-forth method (Jacobs and
    Léger 2020).

    Parameters
    ----------
    mu, nu : Spread
    targets, masses : ndarray, shapes (n, 3) and (n,)
        nu, coarse enough for a table of n times the search grid.
    lmax : int
    """

    def __init__(self, mu: Spread, targets: Array, masses: Array, lmax: int) -> None:
        order = RingSearch.order(targets)
        self._targets, self._masses, self.lmax = targets[order], masses[order], lmax
        space = Sphere(lmax)
        self._moments = mu.moments(lmax)
        self._at = SphereAt(lmax)
        # orders m > 0 stand for -m, too
        self._multiplicity = np.where(space.orders > 0, 2.0, 1.0)
        eigenvalues = space.degrees * (space.degrees + 1.0)
        norms = np.sqrt(self._multiplicity * np.maximum(eigenvalues, 1.0))
        self._unit = np.where(eigenvalues > 0.0, 1.0 / norms, 0.0)
        self._search = Sphere(max(_SEARCH_LMAX, lmax))
        self._search_fields = SphereFields(self._search, lmax)
        self._frame = self._search.tangent_frame(np.arange(len(self._search.weights)))
        self._rings = RingSearch(self._search, self._targets)
        self._costs = _cost_table(self._targets, self._search.points)

    def climb(self, start: Coefficients, most_steps: int, goal: float) -> Coefficients:
        """From a potential to a better one, until D reaches the goal, or no longer grows."""

        def fall(place: Array) -> tuple[float, Array]:
            height, derivative = self._dual(self._unit * place.view(np.complex128))
            return -height, (-self._multiplicity * self._unit * derivative).view(np.float64)

        def end(intermediate_result: OptimizeResult) -> None:
            if -intermediate_result.fun >= goal:
                raise StopIteration("D has reached the goal")

        place = np.divide(start, self._unit, out=np.zeros_like(start), where=self._unit > 0.0)
        ends = {"maxiter": most_steps, "ftol": _LEAST_GAIN * goal, "gtol": 0.0}
        optimum = minimize(
            fall,
            place.view(np.float64),
            jac=True,
            method="L-BFGS-B",
            callback=end,
            options={"maxcor": _MEMORY, **ends},
        )
        return np.asarray(self._unit * optimum.x.view(np.complex128))

    def _dual(self, potential: Coefficients) -> tuple[float, Coefficients]:
        """D and its derivative, with the c-transform to second order from the search grid."""
        fields, frame = self._search_fields, self._frame
        values = fields.values(potential)
        nearest = self._least(values.astype(np.float32))
        gradient, hessian = fields.gradient(potential), fields.hessian(potential)
        frames, sources = frame[:, nearest], self._search.points[nearest]
        cosines = np.clip(np.einsum("jk,jk->j", sources, self._targets), -1.0, 1.0)
        towards = np.einsum("ijk,jk->ij", frames, self._targets)
        distance = np.arctan2(np.hypot(towards[0], towards[1]), cosines)
        towards *= distance / np.maximum(np.hypot(towards[0], towards[1]), 1e-300)
        slack = Slack(towards, gradient[:, nearest], hessian[:, nearest])
        step = slack.step(np.pi / len(self._search.colatitudes))
        conjugate = 0.5 * distance**2 - values[nearest] + np.minimum(slack.change(step), 0.0)
        moved = exponential(sources, np.einsum("ij,ijk->jk", step, frames))
        derivative = self._moments - self._at.moments(Places.of(moved), self._masses)
        derivative[0] = 0.0
        mean = self._multiplicity @ (potential.conj() * self._moments).real
        return float(mean) + float(self._masses @ conjugate), derivative

    def _least(self, values: NDArray[np.float32]) -> Indices:
        nearest = np.empty(len(self._targets), dtype=np.intp)
        for rows, columns in self._rings.parts(values):
            slack = self._costs[rows, columns] - values[columns]
            nearest[rows] = columns.start + slack.argmin(axis=1)
        return nearest


def _cost_table(targets: Array, sources: Array) -> NDArray[np.float32]:
    """Return dist²/2 of all pairs in single precision."""
    table = np.empty((len(targets), len(sources)), dtype=np.float32)
    columns = sources.astype(np.float32).T.copy()
    for start in range(0, len(targets), _TABLE_BLOCK):
        rows = table[start : start + _TABLE_BLOCK]
        np.matmul(targets[start : start + _TABLE_BLOCK].astype(np.float32), columns, out=rows)
        half_square_of_distance(rows)
    return table
