"""A run as the explorer draws it: columns of numbers for each glyph of the page."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from meanfield.cli.report.measures import curve
from meanfield.evolution import Solution
from meanfield.evolution.recorder import with_role
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles, SphereFlowMap
from meanfield.plot import frames, panels
from meanfield.spaces.geometry import circle_angles, perpendicular, sphere_angles, sphere_points
from meanfield.typing import Array

_TURN = 2.0 * np.pi
# angles around a ring and how high a curve stands on it; latitudes of a map; pixels of a picture
_ANGLES, _HEIGHT, _ROWS, _PIXELS, _RADIUS = 361, 0.55, 61, 280, 1.5
# colours are of the logarithm of a density between these
LEAST, _MOST = 0.1, 30.0
_AROUND = np.linspace(0.0, _TURN, _ANGLES)
# the points of the map, rows from the south, columns from -180 degrees, and some of its lines
_ROW, _COLUMN = np.mgrid[:_ROWS, : 2 * _ROWS - 1] * np.pi / (_ROWS - 1)
_MAP = sphere_points(np.pi - _ROW.ravel(), _COLUMN.ravel() - np.pi)
_GRID = _MAP.reshape(*_ROW.shape, 3)
_NET = [*_GRID[::10], *_GRID[:, ::10].swapaxes(0, 1)]


def energy_of(sol: Solution) -> tuple[Array, str]:
    """The energy at the saves, as a share where it has one, and what it is called."""
    for name in with_role(sol.dataset, "share", "energy"):
        return sol.dataset[name].values, sol.dataset[name].attrs["symbol"]
    return np.full(len(sol.t), np.nan), "no energy"


def _image(values: Array, x: float, y: float, width: float, height: float) -> dict[str, Any]:
    place = {"x": [x], "y": [y], "dw": [width], "dh": [height]}
    return {"image": [np.maximum(values, LEAST).astype(np.float32)], **place}


class Scene:
    """A run as it is drawn: angles of the circle or from an axis around a ring, or a globe.

    Raises
    ------
    ValueError
        If its measure is neither on the circle nor on S^2 nor about an axis.
    """

    def __init__(self, sol: Solution) -> None:
        first, mean, self.sol, self.masses = sol.measures[0], sol.final.mean(), sol, list[Array]()
        self.axis, self.is_globe = first.axis, panels.projection(first) == "mollweide"
        self.is_tokens = isinstance(first, Particles)
        if first.dim > 3 and first.axis is None:
            raise ValueError(f"measure must be on the circle, S^2 or about an axis, got {first}")
        self.turn = float(np.arctan2(mean[1], mean[0])), 0.35
        self.high = min(max(3.0, float(panels.look(sol.measures).scale.vmax or 1.0)), _MOST)
        self.values = np.clip([self._values(one) for one in sol.measures], 0.0, self.high)
        self.box = sol.t[0], 0.0, sol.t[-1] - sol.t[0], _TURN

    def _values(self, measure: AnyMeasure) -> Array:
        """The density at the points of the map, or at the angles, where no peak is missed."""
        if self.is_tokens:
            return np.zeros(len(_MAP) if self.is_globe else _ANGLES)
        if isinstance(measure, SphereFlowMap):
            far, near = cKDTree(measure.points[: measure.n_nodes]).query(_MAP, 6)
            logs = np.average(measure.log_density[near], 1, (far + 1e-9) ** -2.0)
            return frames.densities_of(logs)
        if isinstance(measure, Density) and self.is_globe:
            return measure.pdf(_MAP)
        nodes, values = curve(measure)
        angles = _AROUND if self.axis is None else np.minimum(_AROUND, _AROUND[::-1])
        row = np.interp(angles, nodes, values, period=_TURN if self.axis is None else None)
        peaks = np.append(nodes, self._atoms(measure)[0])
        heights = np.append(values, np.full(len(peaks) - len(nodes), _MOST))
        at = np.rint(peaks / _AROUND[1]).astype(int)
        # those alone that the angles see little of
        sharp = heights > 1.5 * row[at]
        np.maximum.at(row, at[sharp], heights[sharp])
        row[[0, -1]] = max(row[0], row[-1])
        return row if self.axis is None else np.maximum(row, row[::-1])

    def _atoms(self, measure: AnyMeasure) -> tuple[Array, Array]:
        if isinstance(measure, LineFlowMap):
            return panels.gathered(measure)
        return np.zeros(0), np.zeros(0)

    def _angles(self, points: Array) -> Array:
        """Angles on the circle, or from the axis, on the side of the points."""
        if self.axis is None:
            return circle_angles(points)
        return np.arctan2(points @ perpendicular(self.axis), points @ self.axis) % _TURN

    def _ring(self, angles: Any, radii: Any = 1.0) -> dict[str, Any]:
        """Columns of angles: the circle begins on the right, an axis points up."""
        z = radii * np.exp(1j * np.asarray(angles))
        z = z if self.axis is None else 1j * z.conj()
        return {"x": z.real, "y": z.imag}

    def whole(self, tokens: Solution | None) -> dict[str, Any]:
        """What is drawn of all times: clusters, and around a ring the density and paths."""
        t, counts = self.sol.t, [len(masses) for masses in self.masses]
        times, masses = np.repeat(t[: len(counts)], counts), np.concatenate([[], *self.masses])
        found: dict[str, Any] = {"masses": {"x": times, "y": masses}}
        if not self.is_globe:
            at = np.interp(np.linspace(t[0], t[-1], _PIXELS), t, np.arange(len(t)))
            image = map_coordinates(self.values, np.meshgrid(at, np.arange(_ANGLES)), order=1)
            found["map"] = _image(image, *self.box)
        if tokens and not self.is_globe:
            paths = np.array([self._angles(measure.points) for measure in tokens.measures])
            # where a token comes round
            paths[1:][np.abs(np.diff(paths, axis=0)) > np.pi] = np.nan
            found["paths"] = {"xs": [tokens.t] * paths.shape[1], "ys": list(paths.T)}
        return found

    def at(self, i: int, tokens: Solution | None) -> dict[str, Any]:
        """What is drawn at a save: the globe from where it is turned to, or the ring."""
        measure = self.sol.measures[i]
        points = tokens.measures[i].points if tokens else np.zeros((0, measure.dim))
        if self.is_globe:
            return self._globe(self.values[i].reshape(_ROW.shape), points)
        uniform, (atoms, masses) = np.ones(_ANGLES), self._atoms(measure)
        if self.axis is not None:
            uniform = frames.uniform_law(np.minimum(_AROUND, _AROUND[::-1]), measure.dim)
        radii, dotted = 1.0 + _HEIGHT * np.sqrt(np.divide([self.values[i], uniform], self.high))
        radii = np.append(radii, np.ones(_ANGLES))
        lines = np.where(np.arange(2 * _ANGLES) == _ANGLES, np.nan, radii)
        stems = np.tile([1.0, 1.0 + _HEIGHT, np.nan], len(atoms))
        return {
            "body": self._ring(np.append(_AROUND, _AROUND[::-1]), radii),
            "outline": self._ring(np.append(_AROUND, _AROUND), lines),
            "uniform": self._ring(_AROUND, dotted),
            "stems": self._ring(np.repeat(atoms, 3), stems),
            "atoms": self._ring(atoms, 1.0 + _HEIGHT) | {"size": 20.0 * np.sqrt(masses)},
            "tokens": self._ring(self._angles(points), 0.93),
        }

    def _globe(self, values: Array, points: Array) -> dict[str, Any]:
        """The map, and the side of the sphere that is seen."""
        (a, b), r = self.turn, _RADIUS
        right, front = np.array([-np.sin(a), np.cos(a), 0.0]), sphere_points(np.pi / 2 - b, a)[0]
        frame = np.array([right, np.cross(front, right), front])
        x, y = np.meshgrid(*2 * [np.linspace(-1.0, 1.0, _PIXELS)])
        depth = np.sqrt(np.maximum(1.0 - x**2 - y**2, 0.0))
        down, around = sphere_angles(np.stack([x, y, depth], axis=-1).reshape(-1, 3) @ frame)
        places = np.array([np.pi - down, (around + np.pi) % _TURN]) * (_ROWS - 1) / np.pi
        image = map_coordinates(values, places, order=1, mode="nearest").reshape(x.shape)
        lines = [r * np.where(line @ front < 0.0, np.nan, frame[:2] @ line.T) for line in _NET]
        near = r * points[points @ front > 0.0] @ frame[:2].T
        down, around = sphere_angles(points)
        x = self.box[0] + self.box[2] * ((around / _TURN + 0.5) % 1.0)
        return {
            "map": _image(values, *self.box),
            "globe": _image(np.where(depth > 0.0, image, np.nan), -r, -r, 2.0 * r, 2.0 * r),
            "net": {"xs": [line[0] for line in lines], "ys": [line[1] for line in lines]},
            "tokens": {"x": near[:, 0], "y": near[:, 1]},
            "marks": {"x": x, "y": 2.0 * (np.pi - down)},
        }
