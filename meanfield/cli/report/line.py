"""Measures on a line: the density around the circle, or the law of the polar angle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meanfield.cli.report.view import LINE, Frame, View, axis, base_layout, packed
from meanfield.measures import AnyMeasure, LineFlowMap
from meanfield.plot import frames
from meanfield.plot.panels import gathered, log_curve, look
from meanfield.spaces.geometry import line_points
from meanfield.typing import Array

_TURN = 2.0 * np.pi
_FINE = 721
# nodes drawn at each time
MOST_NODES = 3000
_CURVE, _STEMS, _TOPS = 1, 2, 3
# area of the dot of an atom of mass 1, in pixels²
_AREA = 300.0


def line_view(measures: Sequence[AnyMeasure]) -> View:
    """The density around the circle or of the polar angle at each time, and atoms as stems."""
    around = measures[0].axis is None
    scale = look(list(measures)).scale
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    uniform_at: Array = np.linspace(0.0, _TURN if around else np.pi, 361)
    uniform = np.ones(361) if around else frames.uniform_law(uniform_at, measures[0].dim)
    dotted = {"color": LINE, "dash": "dot", "width": 1.2}
    data: list[dict[str, Any]] = [
        _lines(dotted, x=packed(uniform_at), y=packed(np.maximum(uniform, low)), name="uniform"),
        _lines({"color": frames.BLUE, "width": 2}, fill="tozeroy", fillcolor="rgba(0,114,178,0.2)"),
        _lines({"color": frames.ORANGE, "width": 1.5}),
        {"type": "scatter", "mode": "markers", "marker": {"color": frames.ORANGE, "opacity": 1.0}},
    ]
    data[_CURVE] |= {"hovertemplate": "θ = %{x:.4f}<br>f = %{y:.4g}<extra></extra>"}
    data[_STEMS] |= {"hoverinfo": "skip"}
    data[_TOPS] |= {"hovertemplate": "θ = %{x:.6f}<br>mass %{customdata:.4g}<extra>atom</extra>"}
    shown = [_frame(measure, low, high) for measure in measures]
    return View("measure", data, _layout(around, low, high), shown, _notes(measures, high))


def _lines(line: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "line": line, **further}


def _layout(around: bool, low: float, high: float) -> dict[str, Any]:
    count = 5 if around else 3
    turns, names = frames.QUARTERS[0][:count], frames.QUARTERS[1][:count]
    margin = 0.02 * turns[-1]
    ticks = {"tickvals": turns, "ticktext": names, "range": [-margin, turns[-1] + margin]}
    title = "angle θ" if around else "polar angle θ"
    of_y: dict[str, Any] = {"range": [0.0, 1.05 * high]}
    if low > 0.0:
        logs = float(np.log10(low)), float(np.log10(high))
        of_y = {"type": "log", "range": [logs[0], logs[1] + 0.05 * (logs[1] - logs[0])]}
    name = "density f(θ)" if around else "density of θ"
    return base_layout(xaxis=axis(title, **ticks), yaxis=axis(name, **of_y), hovermode="closest")


def _frame(measure: AnyMeasure, low: float, high: float) -> Frame:
    angles, values = curve(measure)
    top = frames.CAP if high == frames.CAP else np.inf
    found: Frame = {_CURVE: {"x": packed(angles), "y": packed(np.clip(values, low, top))}}
    atoms, masses = np.zeros(0), np.zeros(0)
    if isinstance(measure, LineFlowMap) and len(measure.atoms):
        atoms, masses = gathered(measure)
    ends = np.tile([low, high, np.nan], len(atoms))
    found[_STEMS] = {"x": packed(np.repeat(atoms, 3), "f8"), "y": packed(ends)}
    found[_TOPS] = {
        "x": packed(atoms, "f8"),
        "y": packed(np.full(len(atoms), high)),
        "customdata": packed(masses),
        "marker.size": packed(np.sqrt(np.maximum(_AREA * masses, 16.0))),
    }
    return found


def curve(measure: AnyMeasure) -> tuple[Array, Array]:
    """Angles, ascending, and the density there, of the circle or of the polar angle."""
    if isinstance(measure, LineFlowMap):
        return _of_nodes(measure)
    density: Any = measure
    if measure.axis is None:
        angles = np.linspace(0.0, _TURN, max(_FINE, min(4 * density.space.size, 2 * _FINE)))
        return angles, density.at(line_points(angles, None))
    angles = np.linspace(0.0, np.pi, max(361, min(4 * density.space.kmax, 2 * _FINE)))
    values = density.at(line_points(angles, measure.axis))
    return angles, frames.law_of_angle(values, np.sin(angles), measure.dim)


def _of_nodes(flow: LineFlowMap) -> tuple[Array, Array]:
    """The free nodes and what lies between them and the ends; no mass beyond on a meridian."""
    angles, logs = log_curve(flow)
    values, end = frames.densities_of(logs), _TURN if flow.axis is None else np.pi
    if not len(angles):
        return np.array([0.0, end]), np.zeros(2)
    kept = np.union1d(frames.thinned(len(angles), MOST_NODES), [int(np.argmax(values))])
    places = np.union1d(np.linspace(0.0, end, 361), angles[kept])
    period = _TURN if flow.axis is None else None
    return places, np.interp(places, angles, values, 0.0, 0.0, period)


def _notes(measures: Sequence[AnyMeasure], high: float) -> tuple[str, ...]:
    found = [f"Densities are cut at {frames.CAP:g}."] if high == frames.CAP else []
    most = max(len(getattr(measure, "angles", ())) for measure in measures)
    if most > MOST_NODES:
        found.append(f"At most {MOST_NODES} of up to {most} nodes are drawn at each time.")
    return tuple(found)
