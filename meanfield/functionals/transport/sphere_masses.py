"""A measure on S^2 as masses: at points, in cells, and by its moments."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.functionals.transport.quantiles import check_mass
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles
from meanfield.spaces import Places, Sphere, SphereAt, SphereFields
from meanfield.spaces.geometry import exponential, geodesic_distance, logarithm, perpendicular
from meanfield.spaces.lattice import Lattice, cell_integrals, moments_of
from meanfield.typing import Array, Coefficients, Indices

_STEPS_TO_THE_CENTRE = 2
_ROUNDING = 1e-28


@dataclass(frozen=True)
class Cells:
    """Parts of a measure in any dimension, each with its Riemannian centre of mass.

    Attributes
    ----------
    centres : ndarray, shape (K, d)
    masses : ndarray, shape (K,)
    spreads : ndarray, shape (K,)
        Mean square of the distance to the centre, and what the centre may be off: 2π times the
        length of the mean of log_centre, which is 0 at the Riemannian centre itself.
    """

    centres: Array
    masses: Array
    spreads: Array


def cells_of(points: Array, masses: Array, most: int, blurs: Array | None = None) -> Cells:
    """At most so many cells, each the half of another across its widest direction.

    Where the points stand for parts of a measure, `blurs` (n,) are added to their squares.

    The cell with the largest mass times spread is halved next, so that cells are small where mass
    is together.
    """
    number = count()
    heap = [_part(next(number), points, masses, np.flatnonzero(masses > 0.0))]
    while len(heap) < most and heap[0][0] < 0.0:
        _, _, inside, offsets = heapq.heappop(heap)
        widest = np.linalg.eigh((masses[inside, None] * offsets).T @ offsets)[1][:, -1]
        side = offsets @ widest > 0.0
        if side.all() or not side.any():
            # all mass of the cell but rounding is in one place, so it is not halved
            heapq.heappush(heap, (0.0, next(number), inside, offsets))
            continue
        for part in inside[side], inside[~side]:
            heapq.heappush(heap, _part(next(number), points, masses, part))
    return _cells(points, masses, blurs, [inside for _, _, inside, _ in heap])


_Part = tuple[float, int, Indices, Array]


def _part(number: int, points: Array, masses: Array, inside: Indices) -> _Part:
    """Return a part of the cells.

    A part has its rank (largest mass times spread first), number, members and offsets.
    """
    points_inside, mass = points[inside], masses[inside]
    offsets = points_inside - (mass @ points_inside) / mass.sum()
    squares = np.einsum("ij,ij->i", offsets, offsets)
    # a cell of points that differ by rounding is not halved
    rank = -float(mass @ squares) if squares.max() > _ROUNDING else 0.0
    return rank, number, inside, offsets


def _cells(points: Array, masses: Array, blurs: Array | None, parts: list[Indices]) -> Cells:
    """The cells with these members: the Riemannian centre of mass, mass and spread of each."""
    sizes = np.array([len(inside) for inside in parts])
    starts, cell_index = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(parts)), sizes)
    members = np.concatenate(parts)
    points, masses = points[members], masses[members]
    total = np.add.reduceat(masses, starts)
    share = (masses / total[cell_index])[:, None]
    centres = np.add.reduceat(share * points, starts, axis=0)
    lengths = np.linalg.norm(centres, axis=1)[:, None]
    centres = np.where(
        lengths > 0.0, centres / np.where(lengths > 0.0, lengths, 1.0), points[starts]
    )
    for _ in range(_STEPS_TO_THE_CENTRE):
        towards = np.add.reduceat(share * logarithm(centres[cell_index], points), starts, axis=0)
        centres = exponential(centres, towards)
        centres /= np.linalg.norm(centres, axis=1)[:, None]
    squares = geodesic_distance(points, centres[cell_index]) ** 2
    if blurs is not None:
        squares += blurs[members]
    spreads = np.add.reduceat(share[:, 0] * squares, starts)
    mean_offsets = np.add.reduceat(share * logarithm(centres[cell_index], points), starts, axis=0)
    alone = sizes == 1
    spreads += np.where(alone, 0.0, 2.0 * np.pi * np.linalg.norm(mean_offsets, axis=1))
    return Cells(centres, total, spreads)


# a series may have this much mass below 0
_NEGATIVE_MASS = 1e-3
# the grid of a density has at least this degree: masses on it resolve transports, whose shares have
# kinks, and integrate products with potentials of degree `_POTENTIAL`
_FINEST, _POTENTIAL = 127, 64
_GATHERED_LMAX = 47
# tokens are placed around a latitude so that moments of this degree are exact
_AROUND = 128
# points with less than this share of the largest mass are left out
_LEAST = 1e-13
# a density is gathered in the cells of a lattice of so many rows; a cell with at least this share
# of the largest mass has a known centre of mass
_CELL_ROWS, _SURE = 128, 1e-8


class Spread:
    """Masses at points of S^2 with total 1, such as tokens; see `DensitySpread` for densities.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
    masses : ndarray, shape (n,)
        >= 0; those that are 0 are left out.

    Attributes
    ----------
    points : ndarray, shape (n, 3)
    masses : ndarray, shape (n,)
        > 0.
    has_density : bool
        Whether `density` can be asked.
    negative : float
        The mass below 0 of a density's series.
    lost : float
        Mass that the cells may have in a wrong place.
    """

    has_density = False
    negative = lost = 0.0

    def __init__(self, points: Array, masses: Array) -> None:
        has_mass = masses > 0.0
        self.points, self.masses = points[has_mass], masses[has_mass] / masses[has_mass].sum()

    def density(self, points: Array) -> Array:  # noqa: ARG002
        """The density at points (n, 3), clipped and with mass 1.

        Raises
        ------
        ValueError
            If there is none.
        """
        raise ValueError(
            f"mu and nu must be densities to have a map between them, got {len(self.points)} atoms"
        )

    def cells(self, most: int) -> Cells:
        """At most so many cells that hold the measure, with nothing left out."""
        return cells_of(self.points, self.masses, most)

    def gathered(self, most: int) -> tuple[Array, Array]:
        """Points and masses, about so many at most, that stand for the measure in an ascent."""
        if len(self.points) <= most:
            return self.points, self.masses
        cells = self.cells(most)
        return cells.centres, cells.masses

    def moments(self, lmax: int) -> Coefficients:
        """∫ conj(Y_lm) dmu of the degrees up to lmax, in the layout of Sphere(lmax)."""
        return SphereAt(lmax).moments(self._places, self.masses)

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.points)

    def mean(self, coefficients: Coefficients, lmax: int) -> float:
        """∫ φ dmu of a series φ."""
        return float(self.masses @ SphereAt(lmax).values(coefficients, self._places))

    @cached_property
    def concentration(self) -> float:
        """Σ |c_lm|² of a low degree: 1 for the uniform measure, more where mass is together."""
        basis = SphereAt(15)
        return float(basis.power(self.moments(15)).sum())


class DensitySpread(Spread):
    """A density as the masses of a grid, clipped at 0 where its series is negative, of mass 1.

    Parameters
    ----------
    series : Density
        With dim = 3.

    Raises
    ------
    ValueError
        If it does not have mass 1 within 1e-6, or has mass below 0 of more than 1e-3.
    """

    has_density = True

    def __init__(self, series: Density) -> None:
        self.series = series
        grid = Sphere(_FINEST)
        grid = grid.resize(max(grid.exact_size(series.degree + _POTENTIAL), _FINEST))
        values = _on_grid(series, grid)
        masses, mass = grid.weights * np.maximum(values, 0.0), float(grid.weights @ values)
        check_mass(series, mass)
        self.negative = float(masses.sum() - mass)
        if self.negative > _NEGATIVE_MASS:
            raise ValueError(
                f"a density must have no more than {_NEGATIVE_MASS:g} of its mass below 0 to have "
                f"a distance, got {shown(series)} with "
                f"{tell_apart(self.negative, _NEGATIVE_MASS)[0]}: take a larger space"
            )
        self._scale = 1.0 / float(masses.sum())
        has_mass = masses > _LEAST * masses.max()
        super().__init__(grid.points[has_mass], masses[has_mass])

    def density(self, points: Array) -> Array:
        """The density at points (n, 3), clipped and with mass 1."""
        values = self.series.space.evaluate(self.series.coefficients, points)
        return np.asarray(self._scale * np.maximum(values, 0.0))

    @property
    def lost(self) -> float:  # type: ignore[override]
        """Mass that the cells may have in a wrong place."""
        return self._atoms.lost + 2.0 * self.negative

    def cells(self, most: int) -> Cells:
        """At most so many cells that hold the measure, with nothing left out."""
        atoms = self._atoms
        return cells_of(atoms.points, atoms.masses, most, atoms.blurs)

    @cached_property
    def _atoms(self) -> Atoms:
        rows = _CELL_ROWS
        while rows <= self.series.degree:
            rows *= 2
        return atoms_of(self.series, rows)

    def gathered(self, most: int) -> tuple[Array, Array]:  # noqa: ARG002 (of tokens)
        """Points of a coarser grid, and their masses."""
        return self.on_grid(_GATHERED_LMAX)

    def on_grid(self, lmax: int) -> tuple[Array, Array]:
        """Points of Sphere(lmax), and their masses."""
        grid = Sphere(lmax)
        masses = grid.weights * np.maximum(_on_grid(self.series, grid), 0.0)
        has_mass = masses > _LEAST * masses.max()
        return grid.points[has_mass], masses[has_mass] / masses[has_mass].sum()

    def moments(self, lmax: int) -> Coefficients:
        """∫ conj(Y_lm) dmu of the degrees up to lmax, in the layout of Sphere(lmax)."""
        largest = max(lmax, self.series.degree)
        coefficients = series(self.series, largest)
        return np.asarray(Sphere(largest).embed(coefficients, Sphere(lmax)) / coefficients[0].real)

    def mean(self, coefficients: Coefficients, lmax: int) -> float:
        """∫ φ dmu, a product of series."""
        largest = max(lmax, self.series.degree)
        density, space = series(self.series, largest), Sphere(largest)
        embedded = Sphere(lmax).embed(coefficients, space)
        return SphereFields(space).inner(density, embedded) / float(density[0].real)


def spread_of(measure: AnyMeasure) -> Spread:
    """The masses of a measure on S^2; of a flow map about an axis, those around its latitudes."""
    if isinstance(measure, Density):
        return DensitySpread(measure)
    return Spread(*(rings(measure) if isinstance(measure, LineFlowMap) else measure).quadrature)


@dataclass(frozen=True)
class Atoms:
    """Masses at points that stand for a measure.

    Attributes
    ----------
    points : ndarray, shape (n, 3)
    masses : ndarray, shape (n,)
    blurs : ndarray, shape (n,)
        The mean of dist² from a part of the measure to any point z exceeds that from its atom to
        z by no more than this.
    lost : float
        Mass that the atoms may have in a wrong place.
    """

    points: Array
    masses: Array
    blurs: Array
    lost: float


def atoms_of(measure: Density, rows: int) -> Atoms:
    """The masses of a density in the cells of a lattice, each at its centre of mass p.

    For all z, dist²(y, z) <= dist²(p, z) - 2 <log_p z, log_p y> + dist²(p, y) (Toponogov). The mean
    of dist²(p, y) over a cell is that of |p - y|² but for the ratio of arc to chord, and log_p y
    has the mean 0 but for that of arc to sine.

    Parameters
    ----------
    measure : Density
    rows : int
        More than the degree of the density.
    """
    lmax, lattice = measure.degree, Lattice(rows)
    coefficients = series(measure, lmax)
    highest = lattice.overshoot(lmax) * float(np.abs(lattice.at_corners(coefficients, lmax)).max())
    integrals, error = cell_integrals(lattice, coefficients, lmax, highest)
    means = [
        cell_integrals(lattice, of, lmax + 1, highest)[0] for of in moments_of(coefficients, lmax)
    ]
    masses, vectors = integrals.ravel(), np.stack(means, axis=-1).reshape(-1, 3)
    lengths = np.linalg.norm(vectors, axis=1)
    # the distance between two points of a cell, or between one and its centre of mass, is at most
    # this
    widest = 2.0 * float(lattice.radii.max())
    sure = masses > _SURE * masses.max()
    safe = np.where(sure, lengths, 1.0)[:, None]
    points = np.where(sure[:, None], vectors / safe, lattice.points)
    chords = np.where(sure, 2.0 - 2.0 * lengths / np.where(sure, masses, 1.0), widest**2)
    chords = np.clip(chords + 1e-15 / _SURE, 0.0, widest**2)
    arc = (0.5 * widest / np.sin(0.5 * widest)) ** 2
    radii = np.where(sure, (widest / np.sin(widest) - 1.0) * np.sqrt(chords), widest)
    heavy = masses > 0.0
    points, masses, blurs = (
        points[heavy],
        masses[heavy],
        (arc * chords + 2.0 * np.pi * radii)[heavy],
    )
    mass_error = 2.0 * (float(lattice.n_lon * error.sum()) + float(masses.sum() - integrals.sum()))
    return Atoms(points, masses / masses.sum(), blurs, mass_error)


def rings(flow: LineFlowMap) -> Particles:
    """The nodes of a flow map about an axis in d = 3, each as tokens around its latitude."""
    axis = np.asarray(flow.axis)
    across = perpendicular(axis)
    longitudes = 2.0 * np.pi / _AROUND * np.arange(_AROUND)
    circle = np.outer(np.cos(longitudes), across)
    circle += np.outer(np.sin(longitudes), np.cross(axis, across))
    angles = flow.angles[:, None, None]
    points = (np.cos(angles) * axis + np.sin(angles) * circle).reshape(-1, 3)
    return Particles(points, np.repeat(flow.weights / _AROUND, _AROUND), unit_mass=True)


def series(measure: Density, lmax: int) -> Coefficients:
    """Coefficients of a density on S^2 in the layout of Sphere(lmax), lmax at least its own."""
    space = Sphere(lmax)
    if measure.axis is None:
        return measure.coefficients_on(space)
    return space.analysis(_on_grid(measure, space))


def _on_grid(measure: Density, grid: Sphere) -> Array:
    if measure.axis is None:
        return SphereFields(grid, measure.degree).values(measure.coefficients)
    return np.asarray(measure.space.evaluate(measure.coefficients, grid.points))
