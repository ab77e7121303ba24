"""Grids of angles, of latitude and longitude, or of ⟨x, axis⟩, with coordinates as CF has them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import betainc

from meanfield._checks import integer, is_single, real_array, shown, snap_to_ends
from meanfield.evolution.netcdf import SHARE_OF_MEMORY, Variable, memory_of_machine
from meanfield.measures import AnyMeasure
from meanfield.spaces.geometry import circle_points, line_points, sphere_points
from meanfield.typing import Array

# for each coordinate: its range, a function that lists values, and its attributes of CF
_COORDINATES: dict[str, tuple[float, float, Callable[[int], Array], dict[str, str]]] = {
    "angle": (
        *(-2.0 * np.pi, 2.0 * np.pi, lambda n: 2.0 * np.pi / n * np.arange(n)),
        {"long_name": "angle θ", "units": "radian"},
    ),
    "lat": (
        *(-90.0, 90.0, lambda n: 180.0 / n * (np.arange(n) + 0.5) - 90.0),
        {"standard_name": "latitude", "units": "degrees_north", "axis": "Y"},
    ),
    "lon": (
        *(-360.0, 360.0, lambda n: 360.0 / n * np.arange(n)),
        {"standard_name": "longitude", "units": "degrees_east", "axis": "X"},
    ),
    "cosine": (
        *(-1.0, 1.0, lambda n: np.linspace(-1.0, 1.0, n)),
        {"long_name": "⟨x, axis⟩", "units": "1"},
    ),
}
_MAP = ("lat", "lon")
DENSITY = {
    "long_name": "density f",
    "units": "1",
    "comment": "with respect to the uniform probability measure: that of the uniform measure is 1",
    "role": "density",
}
GRID_MASS = {
    "long_name": "mass that the grid sees",
    "units": "1",
    "comment": "mean of the density over the cells around the values: 1 but for peaks between them",
    "role": "mass",
}
# mass may be missing, or too much, by this share without a warning
_MISSED = 0.01
# while points are made, each coordinate of a point takes so many numbers
_ROOM = 5
_ALLOWED = "an integer >= 2, or map {} to integers or values,"


def coordinates_of(measure: AnyMeasure, grid: object, saves: int) -> dict[str, Variable]:
    """The coordinates of a grid: by default angles, latitude × longitude or cosines, as one fits.

    Raises
    ------
    ValueError
        If the measure has no density, `grid` none of its coordinates, or memory no room for the
        density at so many points and saves.
    """
    if not measure.has_density:
        raise ValueError(
            f"grid must be None for {shown(measure)}, which has no density, got {shown(grid)}: "
            f"mf.PointCloud(X, bandwidth=...) smooths tokens"
        )
    whole: tuple[str, ...] = {2: ("angle",), 3: _MAP}.get(measure.dim, ())
    fits = [item for item in (("cosine",) if measure.axis is not None else (), whole) if item]
    if not isinstance(grid, Mapping):
        n = integer("grid", grid, low=2)
        grid = {name: 2 * n if name == "lon" else n for name in fits[0]}
    if tuple(sorted(map(str, grid))) not in fits:
        allowed = _ALLOWED.format(" or ".join(" and ".join(map(repr, names)) for names in fits))
        raise ValueError(f"grid must be {allowed} of {shown(measure)}, got {shown(grid)}")
    asked = {name: _places(f"grid[{name!r}]", grid[name]) for name in sorted(grid)}
    count = math.prod(len(places) for places in asked.values())
    size = np.dtype(float).itemsize * (saves + _ROOM * measure.dim)
    room = SHARE_OF_MEMORY * memory_of_machine()
    if count * size > room:
        raise ValueError(
            f"grid must have at most {int(room / size)} points for {saves} saves, {size} bytes "
            f"each, on this machine, got {count}, which take {count * size / 1e9:.3g} GB"
        )
    return {name: _coordinate(name, places, grid[name]) for name, places in asked.items()}


def _places(name: str, given: object) -> range | Array:
    """As many places as a coordinate shall have, or their values."""
    return range(integer(name, given, low=2)) if is_single(given) else real_array(name, given, 1)


def _coordinate(name: str, places: range | Array, given: object) -> Variable:
    """Return so many values of a coordinate, or those that are asked for, in their own type."""
    low, high, values_of, about = _COORDINATES[name]
    values = values_of(len(places)) if is_single(given) else np.asarray(places)
    values = snap_to_ends(values, given, low, high)
    outside = values[(values < low) | (values > high)]
    if outside.size:
        raise ValueError(
            f"grid[{name!r}] must hold values in [{low:g}, {high:g}], got {shown(outside[:1])}"
        )
    return Variable((name,), values, about)


def points_of(coordinates: Mapping[str, Variable], axis: Array | None) -> Array:
    """The points (n, d) of a grid, its last coordinate the fastest; on one meridian of an axis."""
    values = [coordinate.values for coordinate in coordinates.values()]
    if tuple(coordinates) == _MAP:
        latitudes, longitudes = np.meshgrid(*map(np.radians, values), indexing="ij")
        return sphere_points(0.5 * np.pi - latitudes.ravel(), longitudes.ravel())
    if "cosine" in coordinates:
        return line_points(np.arccos(values[0]), axis)
    return circle_points(values[0])


def masses_on(values: Array, coordinates: Mapping[str, Variable], dim: int) -> Array:
    """The mean over the sphere of densities (m, *grid): each counts for the cell around it."""
    for name in reversed(list(coordinates)):
        values = values @ _shares(name, coordinates[name].values, dim)
    return values


def _shares(name: str, values: Array, dim: int) -> Array:
    """The share of the sphere in the cell around each value, up to midway to its neighbours."""
    low, high = _COORDINATES[name][:2]
    if name in ("angle", "lon"):
        values = values % high
    order = np.argsort(values)
    middles = 0.5 * (values[order][1:] + values[order][:-1])
    if name in ("angle", "lon"):
        seam = 0.5 * (values[order][-1] + values[order][0] - high)
        parts = np.concatenate([[seam], middles, [seam + high]]) / high
    else:
        edges = np.concatenate([[low], middles, [high]])
        if name == "lat":
            edges = np.sin(np.radians(edges))
        parts = betainc(0.5 * (dim - 1), 0.5 * (dim - 1), 0.5 * (1.0 + edges))
    shares = np.empty(len(values))
    shares[order] = np.diff(parts)
    return shares


def warn_missed(masses: Array, t: Array) -> None:
    """Warn of a whole grid that misses mass, or counts peaks for too much."""
    off = np.abs(masses - 1.0)
    if not off.max() <= _MISSED:  # or NaN
        k = int(off.argmax())
        warnings.warn(
            f"grid sees the mass {masses[k]:.3g} in place of 1 at t = {t[k]:g} (see grid_mass): "
            f"its cells are too wide for the density",
            stacklevel=3,
        )
