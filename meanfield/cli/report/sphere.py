"""Measures on S^2: the density as colour on a sphere that turns, nodes and tokens as points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.colors import Normalize, to_hex

from meanfield.cli.report.view import Frame, View, base_layout, packed, places
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles, SphereFlowMap
from meanfield.plot.frames import BLUE, CAP, COLOURS, ORANGE, densities_of, height, thinned
from meanfield.plot.panels import gathered, look
from meanfield.spaces.geometry import perpendicular, sphere_points
from meanfield.typing import Array

# rows and columns of the surface: a cell is 2.5 degrees wide
_SHAPE = 73, 145
MOST_NODES, MOST_TOKENS = 4000, 4000
_SURFACE, _NODES, _POINTS, _RINGS = 0, 2, 3, 4
# points stand off the surface, so that it does not hide them
_NODE_RADIUS, _POINT_RADIUS = 1.004, 1.012
# a latitude nearer to its pole is drawn as a point
_POINT_LIKE = 0.02
_PLAIN = [[0.0, "#e9ecef"], [1.0, "#e9ecef"]]


def sphere_view(measures: Sequence[AnyMeasure]) -> View:
    """The density on the sphere at each time, or the nodes or tokens that carry the measure."""
    scale = look(list(measures)).scale
    tokens = isinstance(measures[0], Particles)
    magma = [[float(level), to_hex(COLOURS(level))] for level in np.linspace(0.0, 1.0, 17)]
    colours = _PLAIN if tokens else magma
    coloured = {"colorscale": colours, "cmin": 0.0, "cmax": 1.0}
    surface = {
        "type": "surface",
        **places(_grid().reshape(*_SHAPE, 3)),
        **coloured,
        "surfacecolor": packed(np.zeros(_SHAPE)),
        "lighting": {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "fresnel": 0.0},
        "hoverinfo": "skip",
        "contours": {name: {"highlight": False} for name in "xyz"},
        "showscale": not tokens,
        "colorbar": _bar(scale),
    }
    point = {"type": "scatter3d", "mode": "markers", "hoverinfo": "skip"}
    orange = BLUE if tokens else ORANGE
    data: list[dict[str, Any]] = [
        surface,
        _graticule("#adb5bd" if tokens else "rgba(255,255,255,0.35)"),
        {**point, "marker": {"size": 2.2, **coloured, "line": {"width": 0}}},
        {**point, "marker": {"color": orange, "opacity": 1.0, "line": {"width": 0}}},
        {**point, "mode": "lines", "line": {"color": ORANGE, "width": 6}},
    ]
    none = np.zeros((0, 3))
    empty: Frame = {
        _NODES: {**places(none), "marker.color": packed([])},
        _POINTS: {**places(none), "marker.size": packed([])},
        _RINGS: places(none),
    }
    drawn = [_frame(measure, scale) for measure in measures]
    if any(_SURFACE in frame for frame in drawn):
        # where points tell the measure it has one colour, that of the bottom of the scale
        empty[_SURFACE] = {"surfacecolor": packed(np.zeros(_SHAPE))}
    frames = [empty | frame for frame in drawn]
    return View("measure", data, _layout(), frames, _notes(measures, scale))


def _layout() -> dict[str, Any]:
    hidden = {"visible": False, "showspikes": False, "range": [-1.02, 1.02]}
    scene = {
        "aspectmode": "cube",
        "camera": {"eye": {"x": 1.15, "y": 0.75, "z": 0.75}, "projection": {"type": "perspective"}},
        "dragmode": "orbit",
        **{f"{name}axis": hidden for name in "xyz"},
    }
    return base_layout(scene=scene, margin={"l": 0, "r": 0, "t": 4, "b": 4})


def _grid() -> Array:
    rows, columns = _SHAPE
    colatitudes, longitudes = np.meshgrid(
        np.linspace(0.0, np.pi, rows), np.linspace(0.0, 2.0 * np.pi, columns), indexing="ij"
    )
    return sphere_points(colatitudes.ravel(), longitudes.ravel())


def _bar(scale: Normalize) -> dict[str, Any]:
    """The scale with its numbers: of densities, though the colours are heights on it."""
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    if low > 0.0:
        powers = 10.0 ** np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        ticks = np.unique(np.concatenate([powers, [1.0]]))
    else:
        step = 10.0 ** np.floor(np.log10(high))
        step *= 1.0 if high >= 4 * step else 0.5 if high >= 2 * step else 0.2
        ticks = np.arange(0.0, high * (1 + 1e-9), step)
    return {
        "title": {"text": "density f", "side": "right"},
        "tickvals": height(ticks, scale).tolist(),
        "ticktext": [f"{tick:.3g}" for tick in ticks],
        "thickness": 12,
        "len": 0.7,
        "outlinewidth": 0,
    }


def _graticule(colour: str) -> dict[str, Any]:
    """Circles every 30 degrees: they show how the sphere turns."""
    around: Array = np.linspace(0.0, 2.0 * np.pi, 91)
    gap = np.full((1, 3), np.nan)
    lines = []
    for angle in np.pi / 6 * np.arange(1, 6):
        lines += [sphere_points(np.full(91, angle), around), gap]
    for angle in np.pi / 6 * np.arange(12):
        lines += [sphere_points(around[:46], np.full(46, angle)), gap]
    at, line = places(1.003 * np.concatenate(lines)), {"color": colour, "width": 1}
    return {"type": "scatter3d", "mode": "lines", "hoverinfo": "skip", "line": line, **at}


@singledispatch
def _frame(measure: Any, scale: Normalize) -> Frame:  # noqa: ARG001 (as it is called)
    """What a measure has at its time: a coloured surface, nodes, rings; tokens alone points."""
    kept = thinned(len(measure.weights), MOST_TOKENS)
    shares = measure.weights[kept] / measure.weights.max()
    return {_POINTS: _points(measure.points[kept], shares, 4.0)}


@_frame.register
def _(measure: Density, scale: Normalize) -> Frame:
    return _coloured(measure.at(_grid()), scale)


@_frame.register
def _(measure: LineFlowMap, scale: Normalize) -> Frame:
    axis = np.asarray(measure.axis)
    polar = np.arccos(np.clip(_grid() @ axis, -1.0, 1.0))
    free = measure.owners < 0
    nodes = np.clip(measure.angles[free], 0.0, np.pi)
    order = np.argsort(nodes, kind="stable")
    values = np.full(len(polar), float(scale.vmin or 0.0))
    if len(nodes):
        densities = densities_of(measure.log_density[free][order])
        values = np.interp(polar, nodes[order], densities, 0.0, 0.0)
    return _coloured(values, scale) | (_atoms(measure) if len(measure.atoms) else {})


@_frame.register
def _(measure: SphereFlowMap, scale: Normalize) -> Frame:
    kept = thinned(measure.n_nodes, MOST_NODES)
    shades = packed(height(measure.density_at_nodes[kept], scale))
    rest = slice(measure.n_nodes, None)
    return {
        _NODES: {**places(_NODE_RADIUS * measure.points[kept]), "marker.color": shades},
        _POINTS: _points(measure.points[rest], measure.weights[rest], 26.0),
    }


def _coloured(values: Array, scale: Normalize) -> Frame:
    return {_SURFACE: {"surfacecolor": packed(height(values, scale).reshape(_SHAPE))}}


def _points(points: Array, shares: Array, size: float) -> dict[str, Any]:
    sizes = np.maximum(size * np.sqrt(shares), 1.5)
    return {**places(_POINT_RADIUS * points), "marker.size": packed(sizes)}


def _atoms(flow: LineFlowMap) -> Frame:
    """Atoms at the poles as points, atoms of latitudes as rings."""
    axis = np.asarray(flow.axis)
    angles, masses = gathered(flow)
    polar = np.sin(angles) < _POINT_LIKE
    across = perpendicular(axis)
    third = np.cross(axis, across)
    turn = np.linspace(0.0, 2.0 * np.pi, 91)[:, None]
    circle = np.cos(turn) * across + np.sin(turn) * third
    gap = np.full((1, 3), np.nan)
    rings = [np.zeros((0, 3))]
    for angle in angles[~polar]:
        rings += [_POINT_RADIUS * (np.cos(angle) * axis + np.sin(angle) * circle), gap]
    poles = np.cos(angles[polar])[:, None] * axis
    return {_RINGS: places(np.concatenate(rings)), _POINTS: _points(poles, masses[polar], 26.0)}


def _notes(measures: Sequence[AnyMeasure], scale: Normalize) -> tuple[str, ...]:
    rows, columns = _SHAPE
    found = []
    if any(hasattr(measure, "space") for measure in measures):
        found.append(f"The sphere is coloured on a grid of {rows} × {columns} points.")
    if scale.vmax == CAP:
        found.append(f"Densities are cut at {CAP:g}.")
    nodes = max(getattr(measure, "n_nodes", 0) for measure in measures)
    tokens = max(len(m.weights) if isinstance(m, Particles) else 0 for m in measures)
    if nodes:
        found.append("Dots are nodes in the colour of the density there.")
    for count, most, name in ((nodes, MOST_NODES, "nodes"), (tokens, MOST_TOKENS, "tokens")):
        if count > most:
            found.append(f"{most} of up to {count} {name} are drawn at each time.")
    return tuple(found)
