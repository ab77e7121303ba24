"""The measure over time: a curve on a line, colours on a sphere that turns, or tokens as points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np
from matplotlib.colors import Normalize, to_hex

from meanfield.cli.report.view import LINE, Frame, Part, axis, base_layout, log_axis, packed, places
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles, SphereFlowMap
from meanfield.plot import frames, panels
from meanfield.plot.panels import Look
from meanfield.spaces.geometry import perpendicular, sphere_points
from meanfield.typing import Array

# the traces, layout, frames and notes of a view
Drawn = tuple[list[Part], Part, list[Frame], tuple[str, ...]]


def view_of(measures: Sequence[AnyMeasure], shared: Look, axis: Array | None) -> Drawn:
    """Return the picture of a run.

    Tokens are drawn about the axis of the other run if it has one.
    """
    tokens = [measure for measure in measures if isinstance(measure, Particles)]
    if tokens and (tokens[0].dim == 2 or axis is not None):
        return angles_view(tokens, shared, axis)
    if panels.projection(measures[0]) == "mollweide":
        return sphere_view(measures, shared)
    return tokens_view(tokens, shared) if tokens else line_view(measures, shared)


_TURN = 2.0 * np.pi
# at most so many nodes or grid points are drawn at each time
_MOST_ON_LINE = 3000
_CURVE, _STEMS, _TOPS = 1, 2, 3
# strokes of tokens have this height, as a part of the panel
_STROKE = 0.03


def line_view(measures: Sequence[AnyMeasure], shared: Look) -> Drawn:
    """The density around the circle or of the polar angle, and atoms as stems of their mass."""
    is_circle, scale = measures[0].axis is None, shared.scale
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    data: list[Part] = [
        _uniform(is_circle, low, measures[0].dim),
        _lines({"color": frames.BLUE, "width": 2}, fill="tozeroy", fillcolor="rgba(0,114,178,0.2)"),
        _lines({"color": frames.ORANGE, "width": 1.5}, hoverinfo="skip", yaxis="y2"),
        {"type": "scatter", "mode": "markers", "marker": {"color": frames.ORANGE}, "yaxis": "y2"},
    ]
    data[_CURVE] |= {"hovertemplate": "θ = %{x:.4f}<br>f = %{y:.4g}<extra></extra>"}
    data[_TOPS] |= {"hovertemplate": "θ = %{x:.6f}<br>mass %{y:.4g}<extra>atom</extra>"}
    frames_shown = [_line_frame(measure, low, high) for measure in measures]
    has_atoms = any(frame[_TOPS]["x"]["bdata"] for frame in frames_shown)
    layout = _line_layout(is_circle, low, high, has_atoms)
    return data, layout, frames_shown, _line_notes(measures, high)


def angles_view(measures: Sequence[Particles], shared: Look, axis: Array | None) -> Drawn:
    """Tokens as a density is drawn: their histogram in place of the curve, a stroke for each."""
    is_circle, scale = axis is None, shared.scale
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    tokens = measures[-1]
    token_index = frames.thinned(len(tokens.weights), MOST_TOKENS)
    sizes = np.maximum(14.0 * np.sqrt(tokens.weights[token_index] / tokens.weights.max()), 2.0)
    stroke = {"color": frames.ORANGE, "symbol": "line-ns-open", "size": packed(sizes)}
    bars = {"type": "bar", "marker": {"color": "rgba(0,114,178,0.45)", "line": {"width": 0}}}
    strokes = {"type": "scatter", "mode": "markers", "marker": stroke, "yaxis": "y2"}
    data: list[Part] = [
        _uniform(is_circle, low, tokens.dim),
        bars | {"hovertemplate": "θ = %{x:.4f}<br>f = %{y:.4g}<extra></extra>"},
        strokes | {"hoverinfo": "skip"},
    ]
    frames_shown: list[Frame] = []
    for measure in measures:
        centres, heights = panels.histogram(measure, axis)
        angles = panels.angles_of(measure, axis)[token_index]
        places_of = {"x": packed(angles, "f8"), "y": packed(np.full(len(angles), _STROKE))}
        frames_shown.append({1: {"x": packed(centres), "y": packed(heights)}, 2: places_of})
    layout = _line_layout(is_circle, low, high, has_atoms=False) | {"bargap": 0.0}
    n = len(tokens.weights)
    few = f"{MOST_TOKENS} of {n} tokens are drawn as strokes."
    return data, layout, frames_shown, _true_of({few: n > MOST_TOKENS})


def _uniform(around: bool, low: float, dim: int) -> Part:
    """Return the uniform density as a dotted line."""
    angles: Array = np.linspace(0.0, _TURN if around else np.pi, 361)
    values = np.ones(361) if around else frames.uniform_law(angles, dim)
    dotted = {"color": LINE, "dash": "dot", "width": 1.2}
    return _lines(dotted, x=packed(angles), y=packed(np.maximum(values, low)), name="uniform")


def _lines(line: Part, **further: object) -> Part:
    return {"type": "scatter", "mode": "lines", "line": line, **further}


def _line_layout(around: bool, low: float, high: float, has_atoms: bool) -> Part:
    count = 5 if around else 3
    turns, names = frames.QUARTERS[0][:count], frames.QUARTERS[1][:count]
    margin = 0.02 * turns[-1]
    ticks = {"tickvals": turns, "ticktext": names, "range": [-margin, turns[-1] + margin]}
    title = "angle θ" if around else "polar angle θ"
    linear = {"range": [0.0, 1.05 * high]}
    of_y = log_axis(low, high * (high / low) ** 0.05) if low > 0.0 else linear
    name = "density f(θ)" if around else "density of θ"
    # without ticks of its own this axis would have one beside each tick of the density
    even = {"tickmode": "linear", "tick0": 0.0, "dtick": 0.2, "range": [0.0, 1.05]}
    masses = axis("mass of an atom", **even, overlaying="y", side="right")
    masses |= {"showgrid": False, "visible": has_atoms}
    layout = base_layout(xaxis=axis(title, **ticks), yaxis=axis(name, **of_y), yaxis2=masses)
    layout["margin"] |= {"r": 60 if has_atoms else 16}
    return layout | {"hovermode": "closest"}


def _line_frame(measure: AnyMeasure, low: float, high: float) -> Frame:
    angles, values = panels.curve(measure, _MOST_ON_LINE)
    top = frames.CAP if high == frames.CAP else np.inf
    frame: Frame = {_CURVE: {"x": packed(angles), "y": packed(np.clip(values, low, top))}}
    atoms, masses = panels.gathered(measure)
    ends = np.outer(masses, [0.0, 1.0, np.nan]).ravel()
    frame[_STEMS] = {"x": packed(np.repeat(atoms, 3), "f8"), "y": packed(ends)}
    frame[_TOPS] = {"x": packed(atoms, "f8"), "y": packed(masses)}
    return frame


def _line_notes(measures: Sequence[AnyMeasure], high: float) -> tuple[str, ...]:
    most_nodes = max(len(getattr(measure, "angles", ())) for measure in measures)
    few = f"At most {_MOST_ON_LINE} of up to {most_nodes} nodes are drawn at each time."
    cut = f"Densities are cut at {frames.CAP:g}."
    return _true_of({cut: high == frames.CAP, few: most_nodes > _MOST_ON_LINE})


def _true_of(notes: Mapping[str, bool]) -> tuple[str, ...]:
    """The notes that hold."""
    return tuple(note for note, holds in notes.items() if holds)


# rows and columns of the surface of the sphere: a cell is 2.5 degrees wide
_SHAPE = 73, 145
MOST_NODES, MOST_TOKENS = 4000, 4000
_SURFACE, _NODES, _POINTS, _RINGS = 0, 2, 3, 4
# points stand off the surface, so that it does not hide them
_NODE_RADIUS, POINT_RADIUS = 1.004, 1.012
# a ring this near to its pole is drawn as a point
_POINT_LIKE = 0.02
# the sphere is seen from this distance to its centre
_EYE = 1.5
_PLAIN = [[0.0, "#e9ecef"], [1.0, "#e9ecef"]]


def sphere_view(measures: Sequence[AnyMeasure], shared: Look) -> Drawn:
    """The density on the sphere at each time, or the nodes or tokens that carry the measure."""
    scale, tokens = shared.scale, isinstance(measures[0], Particles)
    magma = [[float(level), to_hex(frames.COLOURS(level))] for level in np.linspace(0.0, 1.0, 17)]
    coloured = {"colorscale": _PLAIN if tokens else magma, "cmin": 0.0, "cmax": 1.0}
    empty_grid = {"surfacecolor": packed(np.zeros(_SHAPE))}
    surface = {"type": "surface", **places(_grid().reshape(*_SHAPE, 3)), **coloured, **empty_grid}
    surface |= {"lighting": {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "fresnel": 0.0}}
    surface |= {"hoverinfo": "skip", "contours": {name: {"highlight": False} for name in "xyz"}}
    surface |= {"showscale": not tokens, "colorbar": _bar(scale)}
    point = {"type": "scatter3d", "mode": "markers", "hoverinfo": "skip"}
    orange = frames.BLUE if tokens else frames.ORANGE
    data: list[Part] = [
        surface,
        _graticule("#adb5bd" if tokens else "rgba(255,255,255,0.35)"),
        {**point, "marker": {"size": 2.2, **coloured, "line": {"width": 0}}},
        {**point, "marker": {"color": orange, "opacity": 1.0, "line": {"width": 0}}},
        {**point, "mode": "lines", "line": {"color": frames.ORANGE, "width": 6}},
    ]
    none = np.zeros((0, 3))
    empty: Frame = {
        _NODES: {**places(none), "marker.color": packed([])},
        _POINTS: {**places(none), "marker.size": packed([])},
        _RINGS: places(none),
    }
    frames_drawn = [_sphere_frame(measure, scale) for measure in measures]
    if any(_SURFACE in frame for frame in frames_drawn):
        # a surface that shows no density has one colour, the lowest of the scale
        empty[_SURFACE] = empty_grid
    frames_shown = [empty | frame for frame in frames_drawn]
    return data, _sphere_layout(), frames_shown, _sphere_notes(measures, scale)


def _sphere_layout() -> Part:
    hidden = {"visible": False, "showspikes": False, "range": [-1.02, 1.02]}
    scene = {
        "aspectmode": "cube",
        "camera": {"projection": {"type": "perspective"}},
        "dragmode": "orbit",
        **{f"{name}axis": hidden for name in "xyz"},
    }
    return base_layout(scene=scene, margin={"l": 0, "r": 0, "t": 0, "b": 60})


def eye(measure: AnyMeasure) -> dict[str, float]:
    """The point from which most of the mass is seen, near the equator, in plotly's units."""
    points, masses = measure.quadrature
    polar, longitudes = np.meshgrid(np.pi * np.array([0.33, 0.5, 0.67]), np.pi / 12 * np.arange(24))
    sides = sphere_points(polar.ravel(), longitudes.ravel())
    visible_mass = np.array([masses @ np.maximum(points @ side, 0.0) for side in sides])
    return dict(zip("xyz", (_EYE * sides[int(np.argmax(visible_mass))]).tolist(), strict=True))


def _grid() -> Array:
    rows, columns = _SHAPE
    colatitudes, longitudes = np.meshgrid(
        np.linspace(0.0, np.pi, rows), np.linspace(0.0, 2.0 * np.pi, columns), indexing="ij"
    )
    return sphere_points(colatitudes.ravel(), longitudes.ravel())


def _bar(scale: Normalize) -> Part:
    """Return the colour bar, labelled with densities though the colours are heights."""
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    if low > 0.0:
        powers = 10.0 ** np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        ticks = np.unique(np.concatenate([powers, [1.0]]))
    else:
        step = 10.0 ** np.floor(np.log10(high))
        step *= 1.0 if high >= 4 * step else 0.5 if high >= 2 * step else 0.2
        ticks = np.arange(0.0, high * (1 + 1e-9), step)
    heights = frames.height(ticks, scale).tolist()
    marks = {"tickvals": heights, "ticktext": [f"{tick:.3g}" for tick in ticks]}
    # the bar is below the sphere, where a narrow screen has room
    place = {"orientation": "h", "y": 0.0, "yanchor": "top"}
    size = {"thickness": 12, "len": 0.8, "outlinewidth": 0}
    return {"title": {"text": "density f", "side": "top"}, **place, **marks, **size}


def _graticule(colour: str) -> Part:
    """Return circles every 30 degrees, which show how the sphere turns."""
    angles: Array = np.linspace(0.0, 2.0 * np.pi, 91)
    gap = np.full((1, 3), np.nan)
    twelfths = np.pi / 6 * np.arange(12)
    circles = [sphere_points(np.full(91, angle), angles) for angle in twelfths[1:6]]
    circles += [sphere_points(angles[:46], np.full(46, angle)) for angle in twelfths]
    lines = np.concatenate([part for circle in circles for part in (circle, gap)])
    line_places, line = places(1.003 * lines), {"color": colour, "width": 1}
    return {"type": "scatter3d", "mode": "lines", "hoverinfo": "skip", "line": line, **line_places}


@singledispatch
def _sphere_frame(measure: AnyMeasure, scale: Normalize) -> Frame:  # noqa: ARG001 (as it is called)
    """The traces of a measure at its time: a coloured surface, nodes and rings, or tokens."""
    token_index = frames.thinned(len(measure.weights), MOST_TOKENS)
    shares = measure.weights[token_index] / measure.weights.max()
    return {_POINTS: _points(measure.points[token_index], shares, 4.0)}


@_sphere_frame.register
def _(measure: Density, scale: Normalize) -> Frame:
    return _coloured(measure.pdf(_grid()), scale)


@_sphere_frame.register
def _(measure: LineFlowMap, scale: Normalize) -> Frame:
    polar = np.arccos(np.clip(_grid() @ np.asarray(measure.axis), -1.0, 1.0))
    values = panels.along_meridian(polar, *panels.log_curve(measure, of_angle=False))
    return _coloured(values, scale) | _atoms(measure)


@_sphere_frame.register
def _(measure: SphereFlowMap, scale: Normalize) -> Frame:
    kept = frames.thinned(measure.n_nodes, MOST_NODES)
    shades = packed(frames.height(measure.node_density[kept], scale))
    rest = slice(measure.n_nodes, None)
    return {
        _NODES: {**places(_NODE_RADIUS * measure.points[kept]), "marker.color": shades},
        _POINTS: _points(measure.points[rest], measure.weights[rest], 26.0),
    }


def _coloured(values: Array, scale: Normalize) -> Frame:
    return {_SURFACE: {"surfacecolor": packed(frames.height(values, scale).reshape(_SHAPE))}}


def _points(points: Array, shares: Array, size: float) -> Part:
    sizes = np.maximum(size * np.sqrt(shares), 1.5)
    return {**places(POINT_RADIUS * points), "marker.size": packed(sizes)}


def _atoms(flow: LineFlowMap) -> Frame:
    """Return atoms at the poles as points, and atoms of latitudes as rings."""
    axis = np.asarray(flow.axis)
    angles, masses = panels.gathered(flow)
    polar = np.sin(angles) < _POINT_LIKE
    across, around = perpendicular(axis), np.linspace(0.0, 2.0 * np.pi, 91)
    frame = np.array([across, np.cross(axis, across), axis])
    gap = np.full((1, 3), np.nan)
    rings = [np.zeros((0, 3))]
    for angle in angles[~polar]:
        rings += [POINT_RADIUS * sphere_points(np.full(91, angle), around) @ frame, gap]
    poles = np.cos(angles[polar])[:, None] * axis
    return {_RINGS: places(np.concatenate(rings)), _POINTS: _points(poles, masses[polar], 26.0)}


def _sphere_notes(measures: Sequence[AnyMeasure], scale: Normalize) -> tuple[str, ...]:
    grid = " × ".join(map(str, _SHAPE))
    is_coloured = any(hasattr(measure, "space") for measure in measures)
    nodes = max(getattr(measure, "n_nodes", 0) for measure in measures)
    tokens = max(len(m.weights) if isinstance(m, Particles) else 0 for m in measures)
    notes = {
        f"The sphere is coloured on a grid of {grid} points.": is_coloured,
        f"Densities are cut at {frames.CAP:g}.": scale.vmax == frames.CAP,
        "Dots are nodes in the colour of the density there.": nodes > 0,
        f"{MOST_NODES} of up to {nodes} nodes are drawn at each time.": nodes > MOST_NODES,
        f"{MOST_TOKENS} of up to {tokens} tokens are drawn at each time.": tokens > MOST_TOKENS,
    }
    return _true_of(notes)


MOST_PAIRED = 1000
_BINS = 80
_DOTS, _BARS = 1, 2


def tokens_view(measures: Sequence[Particles], shared: Look) -> Drawn:
    """Points in the plane of two principal axes, and beside them their inner products."""
    tokens, plane = measures[-1], shared.plane
    frames_shown = [_tokens_frame(measure, plane.axes) for measure in measures]
    angles: Array = np.linspace(0.0, 2.0 * np.pi, 181)
    outline = {"x": packed(np.cos(angles)), "y": packed(np.sin(angles))}
    token_index = frames.thinned(len(tokens.weights), MOST_TOKENS)
    opacity = float(np.clip(200.0 / len(token_index), 0.25, 0.8))
    sizes = np.maximum(7.0 * np.sqrt(tokens.weights[token_index] / tokens.weights.max()), 1.5)
    marker = {"color": frames.BLUE, "opacity": opacity, "size": packed(sizes)}
    bar = {"type": "bar", "marker": {"color": frames.BLUE}, "xaxis": "x2", "yaxis": "y2"}
    line = {"color": LINE, "width": 1}
    data: list[Part] = [
        {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip", **outline},
        {"type": "scatter", "mode": "markers", "marker": marker, "hoverinfo": "skip"},
        {**bar, "hovertemplate": "%{x:.3f}: %{y:.4g}<extra></extra>"},
    ]
    tallest = max(float(_histogram(measure)[1].max()) for measure in measures)
    return data, _tokens_layout(plane, tallest), frames_shown, _tokens_notes(tokens)


def _tokens_layout(plane: panels.Plane, tallest: float) -> Part:
    bare: Part = {"showgrid": False, "showline": False, "ticks": "", "range": [-1.1, 1.1]}
    square = {**bare, "scaleanchor": "x", "scaleratio": 1, "showticklabels": False}
    label = "inner product<br>⟨xᵢ, xⱼ⟩, i ≠ j"
    x_name, y_name = (name.replace("\n", "<br>") for name in plane.names)
    # a cluster's tall bars would flatten all others, so the axis is logarithmic
    is_linear = tallest <= 50.0
    of_y = {"range": [0.0, 1.05 * tallest]} if is_linear else log_axis(1e-3, 1.5 * tallest)
    layout = base_layout(
        xaxis=axis(x_name, domain=[0.0, 0.44], showticklabels=False, **bare),
        yaxis=axis(y_name, **square),
        xaxis2=axis(label, domain=[0.56, 1.0], anchor="y2", range=[-1.0, 1.0]),
        yaxis2=axis("density", anchor="x2", side="right", automargin=True, **of_y),
        bargap=0.0,
    )
    # names of axes have two lines
    layout["margin"] |= {"b": 60}
    return layout


def _tokens_frame(measure: Particles, axes: Array) -> Frame:
    token_index = frames.thinned(len(measure.weights), MOST_TOKENS)
    x, y = axes @ measure.points[token_index].T
    centres, heights = _histogram(measure)
    return {
        _DOTS: {"x": packed(x), "y": packed(y)},
        _BARS: {"x": packed(centres), "y": packed(heights)},
    }


def _histogram(measure: Particles) -> tuple[Array, Array]:
    """Return the density of the inner products of pairs of tokens."""
    bins: Array = np.linspace(-1.0, 1.0, _BINS + 1)
    points = measure.points[frames.thinned(len(measure.weights), MOST_PAIRED)]
    products = (points @ points.T)[np.triu_indices(len(points), 1)]
    counts, _ = np.histogram(np.clip(products, -1.0, 1.0), bins)
    centres = 0.5 * (bins[1:] + bins[:-1])
    return centres, counts / max(len(products), 1) * _BINS / 2.0


def _tokens_notes(last: Particles) -> tuple[str, ...]:
    n = len(last.weights)
    few = f"{MOST_TOKENS} of {n} tokens are drawn."
    axes = "The principal axes are those of all saves together."
    pairs = f"Inner products are those of {MOST_PAIRED} of {n} tokens."
    return _true_of({few: n > MOST_TOKENS, axes: True, pairs: n > MOST_PAIRED})


# beside the measure, at most so many tokens are drawn at their positions
_MOST_PLACED = 2000


def positions_view(measures: Sequence[Particles], along: panels.Abscissa) -> Drawn:
    """Tokens at their positions, over the angle or the first principal axis."""
    n, weights = len(measures[-1].weights), measures[-1].weights
    token_index = frames.thinned(n, _MOST_PLACED)
    sizes = np.maximum(6.0 * np.sqrt(weights[token_index] / weights.max()), 1.5)
    marker = {"color": frames.BLUE, "opacity": 0.7, "size": packed(sizes)}
    dots = {"type": "scatter", "mode": "markers", "marker": marker}
    hover = {"hovertemplate": "%{x:.4f}<br>s = %{y:.4f}<extra></extra>"}
    frames_shown: list[Frame] = [
        {0: {"x": packed(along.values(points)[token_index])}} for points in measures
    ]
    quarters = dict(zip(("tickvals", "ticktext"), frames.QUARTERS, strict=True))
    ticks = quarters if along.axis is None else {"tickvals": [-1.0, 0.0, 1.0]}
    layout = base_layout(
        xaxis=axis(along.name.replace("\n", ", "), range=list(along.ends), **ticks),
        yaxis=axis("position s", range=[0.0, 1.02], tickvals=[0.0, 0.5, 1.0]),
        hovermode="closest",
    )
    notes = [f"{_MOST_PLACED} of {n} tokens are drawn at their positions."] * (n > _MOST_PLACED)
    data = [dots | hover | {"y": packed(np.cumsum(weights)[token_index])}]
    return data, layout, frames_shown, tuple(notes)
