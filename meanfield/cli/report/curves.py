"""Numbers of a run over t: energies with their bounds, dissipation, distances, resolution."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from meanfield.cli.report.view import LINE, View, axis, base_layout, packed
from meanfield.dynamics import adapt
from meanfield.evolution import Solution
from meanfield.evolution.recorder import with_role
from meanfield.plot import curves
from meanfield.plot.frames import BLUE, ORANGE, thinned
from meanfield.typing import Array, Integers


def monotone_energy(sol: Solution) -> tuple[str, int] | None:
    """The energy that can't turn back and the sign of its way, None where there is none.

    Without noise that of the dynamics, as of SA and USA (Lemma 3.7, (3.6)); with noise USA, doubly
    stochastic attention and interactions lower their free energy, and SA has none.
    """
    energy, name = adapt(sol.dynamics)._energy, curves.energy_name(sol)
    if energy is None or name is None:
        return None
    if sol.dynamics.noise > 0.0:
        free = [n for n in with_role(sol.dataset, "energy") if n.startswith("free")]
        return (free[0], -1) if free else None
    # a share of a negative energy goes the other way
    way = energy.sign if name == "energy" or energy.dirac > 0.0 else -energy.sign
    return (name, way) if with_role(sol.dataset, "error") else None


MOST_POINTS = 4000
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def curve_views(sol: Solution) -> list[View]:
    """All that there is to draw over t."""
    found = [_energy(sol, name) for name in drawn_energies(sol)]
    if with_role(sol.dataset, *curves.RATES):
        found.append(_rate(sol))
    if curves.monitored(sol):
        found.append(_distances(sol))
    if "tail" in sol.dataset and np.isfinite(sol.dataset["tail"].values).any():
        found.append(_tail(sol))
    if "size" in sol.dataset:
        found.append(_size(sol))
    return found


def drawn_energies(sol: Solution) -> list[str]:
    """The energies of a run, or the share of its energy where that overflows."""
    return with_role(sol.dataset, "energy") or with_role(sol.dataset, "share")


def _energy(sol: Solution, name: str) -> View:
    values, limits = sol.dataset[name].values, curves.bounds(sol, name)
    low, high, margin = limits.window(values)
    shapes, notes = [], []
    for level, end in zip(limits[:2], limits.names, strict=True):
        if np.isfinite(level):
            shapes.append(_level(level))
            notes.append(_named(level, end, low - margin, high + margin))
    further = {"range": [low - margin, high + margin]}
    title = curves.title(sol, name)
    traces = [_line(sol, values, title, BLUE)]
    return _view(sol, name, title, traces, further, shapes, notes)


def _level(value: float) -> dict[str, Any]:
    line = {"color": LINE, "width": 1, "dash": "dash"}
    ends = {"x0": 0, "x1": 1, "y0": value, "y1": value}
    return {"type": "line", "xref": "paper", **ends, "line": line}


def _named(level: float, text: str, low: float, high: float) -> dict[str, Any]:
    """The name of a level, at the edge with an arrow where the level is beyond."""
    arrow = " ↑" if level > high else " ↓" if level < low else ""
    above = level > 0.5 * (low + high)
    return {
        "text": f"{text} = {level:.6g}{arrow}",
        "xref": "paper",
        "x": 0.01 if above else 0.99,
        "xanchor": "left" if above else "right",
        "y": min(max(level, low), high),
        # inside where the level is beyond the edge or close to it
        "yanchor": "top" if above else "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": "#444"},
    }


def _rate(sol: Solution) -> View:
    name = with_role(sol.dataset, *curves.RATES)[0]
    values = sol.dataset[name].values
    return _view(
        sol, name, curves.title(sol, name), [_line(sol, values, name, BLUE)], _scale(values)
    )


def _scale(values: Array) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    if known.max(initial=0.0) > 30.0 * known.min(initial=np.inf) > 0.0:
        is_short = known.max() < 1e3 * known.min()
        return {"type": "log", "exponentformat": "power", "dtick": "D1" if is_short else 1}
    return {"range": [0.0, 1.1 * known.max(initial=0.0) or 1.0]}


def _distances(sol: Solution) -> View:
    traces: list[dict[str, Any]] = []
    names = curves.monitored(sol)
    for name, (colour, line) in zip(names, cycle(curves.LINES)):
        p, target = curves.distance_to(sol, name)
        label = f"W<sub>{p}</sub> to {target}" if target else name
        values = sol.dataset[name].values
        known = np.flatnonzero(np.isfinite(values))
        if (ends := curves.ends_apart(sol, name)) is not None:
            traces += _band(sol, ends, known, colour)
        curve = _line(sol, values, label, colour, known, dash=_DASHES[line])
        traces.append(curve | {"showlegend": True})
    scale = _scale(np.concatenate([sol.dataset[name].values for name in names]))
    title = curves.distances_title(sol, names)
    return _view(sol, "distances", title, traces, scale)


def _band(
    sol: Solution, ends: tuple[Array, Array], known: Integers, colour: str
) -> list[dict[str, Any]]:
    """From the lower to the upper bound of a bracket."""
    edges = (_line(sol, end, "bound", colour, known) for end in ends)
    lower, upper = (edge | {"line": {"width": 0}} for edge in edges)
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.25)"}
    return [lower, upper | fill]


def _tail(sol: Solution) -> View:
    values = sol.dataset["tail"].values
    positive = np.where(values > 0.0, values, np.nan)
    level = _line(sol, tolerances(sol), "tolerance", LINE, width=1, dash="dash")
    is_series = hasattr(sol.measures[0], "space")
    title = "spectral tail" if is_series else "largest tail of a panel"
    scale = {"type": "log", "exponentformat": "power"}
    traces = [_line(sol, positive, "tail", BLUE), level]
    return _view(sol, "tail", title + " and its tolerance", traces, scale)


def tolerances(sol: Solution) -> Array:
    """What the tail of each measure may be: `tail_tol` of series, `tol` of flow maps."""
    of_series = float(sol.dataset.attrs.get("tail_tol", np.nan))
    return np.array([getattr(measure, "tol", of_series) for measure in sol.measures])


def _size(sol: Solution) -> View:
    values = sol.dataset["size"].values.astype(np.float64)
    first, title = sol.measures[0], "nodes"
    if (space := getattr(first, "space", None)) is not None:
        title = f"size of the space, {space._size_name}"
        title += ", then nodes" if hasattr(sol.final, "tol") else ""
    elif hasattr(first, "n_nodes"):
        title = "nodes and particles"
    line = _line(sol, values, "size", BLUE, shape="hv")
    return _view(sol, "size", title, [line], {"range": [0.0, 1.1 * values.max()]})


def _line(
    sol: Solution, values: Array, name: str, colour: str, kept: Integers | None = None, **style: Any
) -> dict[str, Any]:
    kept = np.arange(len(sol.t)) if kept is None else kept
    if len(kept):
        kept = kept[thinned(len(kept), MOST_POINTS)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(kept) < 2 else "lines",
        "name": name,
        "x": packed(sol.t[kept], "f8"),
        "y": packed(values[kept], "f8"),
        "line": {"color": colour, "width": 2, **style},
        "hovertemplate": "t = %{x:.6g}<br>%{y:.10g}<extra>" + name + "</extra>",
    }


def _view(
    sol: Solution,
    name: str,
    title: str,
    traces: list[dict[str, Any]],
    scale: dict[str, Any],
    shapes: list[dict[str, Any]] | None = None,
    annotations: list[dict[str, Any]] | None = None,
) -> View:
    now = {"color": ORANGE, "width": 1.5}
    first = float(sol.t[0])
    # the slider moves the first shape
    mark = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": first, "x1": first}
    ends = [first, float(sol.t[-1])] if len(sol.t) > 1 else [first - 1.0, first + 1.0]
    layout = base_layout(
        title={"text": title, "x": 0.02, "xanchor": "left", "font": {"size": 13}},
        xaxis=axis("t", range=ends),
        yaxis=axis("", **scale),
        shapes=[mark | {"line": now}, *(shapes or [])],
        annotations=annotations or [],
        hovermode="closest",
        legend={"orientation": "h", "y": 1.12, "x": 1.0, "xanchor": "right"},
        showlegend=any("showlegend" in trace for trace in traces),
    )
    notes: tuple[str, ...] = ()
    if len(sol.t) > MOST_POINTS:
        notes = (f"Curves have {MOST_POINTS} of {len(sol.t)} saves.",)
    return View(name, traces, layout, [], notes)
