"""A whole run: its measure at several times, its energy between the bounds, its resolution."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import integer, shown
from meanfield.dynamics import AnyDynamics, CircleInteraction, FeedForward, adapt
from meanfield.evolution.files import remove_leftovers, whole_file
from meanfield.evolution.recorder import with_role
from meanfield.evolution.solution import Solution
from meanfield.measures import Density, FlowMap
from meanfield.plot import curves, frames
from meanfield.plot.panels import draw, is_coloured, look, projection


def dynamics_title(dynamics: AnyDynamics) -> str:
    """The name of a dynamics with the numbers that tell it from others of its kind.

    Examples
    --------
    >>> from meanfield.dynamics import Kuramoto
    >>> dynamics_title(Kuramoto(2.0, noise=0.5))
    'Kuramoto, K = 2, τ = 0.5'
    """
    if isinstance(dynamics, CircleInteraction):
        is_sine = dynamics.sin == (1.0,) and not any(dynamics.cos)
        name = "Kuramoto" if is_sine else dynamics.name
        noise = f", τ = {dynamics.noise:g}" if dynamics.noise > 0.0 else ""
        return f"{name}, K = {dynamics.coupling:g}{noise}"
    known = adapt(dynamics)
    if all(isinstance(layer, FeedForward) for layer in known.layers):
        return dynamics.name
    beta = getattr(known, "beta", None)
    return frames.heading(dynamics.name, beta, known.sign, dynamics.noise)


def run_title(sol: Solution) -> str:
    """The dynamics of a run, and how and when it ended."""
    return f"{dynamics_title(sol.dynamics)}: {sol.status} at t = {sol.t[-1]:.4g}"


SUFFIXES = (".png", ".pdf", ".svg")
_MOST_PANELS = 12
_GOOD = "finished", "clustered"
_LETTERS = "abcdefghijkl"


def solution(sol: Solution, times: int = 4) -> Figure:
    """mu_t at several times, and over t the energy between its bounds, dissipation, tail.

    There is no panel of an energy where the dynamics has none.
    A run that ends as a flow map has its number of nodes instead of the spectral tail, also where
    it began as a density. Monitors named w, w1, w_start and so on have a panel of distances.
    Densities beyond 10⁴ are cut, and their panels say how far they go.

    Parameters
    ----------
    sol : Solution
    times : int
        Number of panels, 1 to 12, at saved times from the first to the last at about equal steps
        of energy; all saved times if there are fewer.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `sol` is no solution or `times` is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> len(solution(mf.evolve(mu, mf.SA(1.0), 1.0), times=3).axes)
    6
    """
    curves.check(sol)
    chosen = _instants(sol, integer("times", times, low=1, high=_MOST_PANELS))
    kind = projection(sol.final)
    columns = _columns(len(chosen), kind)
    rows = -(-len(chosen) // columns)
    height = {"mollweide": 3.3 / columns, "polar": 7.0 / columns}.get(kind, 1.7) + 0.25
    figure = frames.new_figure(7.2, rows * height + 2.2)
    parts: Any = figure.subfigures(2, 1, height_ratios=[rows * height, 2.0])
    upper, lower = parts
    _draw_measures(upper, sol, chosen, rows, columns)
    if shown_curves := _curves(sol):
        widths = [5 if curve is curves.energy else 3 for curve in shown_curves]
        axes = lower.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        for curve, ax in zip(shown_curves, axes, strict=True):
            curve(sol, ax)
            if curve is curves.energy:
                _mark(ax, chosen)
    colour = "black" if sol.status in _GOOD else frames.ORANGE
    return frames.finish(figure, run_title(sol), colour=colour)


def _curves(sol: Solution) -> list[Callable[[Solution, Axes], Axes]]:
    """Energy, dissipation, what tells the resolution of the measures, and distances, if any."""
    is_density = isinstance(sol.final, Density) and "tail" in sol.dataset
    there = {
        curves.energy: curves.energy_name(sol) is not None,
        curves.dissipation: bool(with_role(sol.dataset, *curves.RATES)),
        curves.node_count: isinstance(sol.final, FlowMap),
        curves.resolution: is_density,
        curves.distances: bool(curves.monitored(sol)),
    }
    return [curve for curve, is_there in there.items() if is_there]


def _columns(panels: int, kind: str) -> int:
    if kind == "mollweide":
        return panels if panels <= 3 else -(-panels // 2) if panels <= 6 else 4
    return min(panels, 4)


def _draw_measures(parent: Any, sol: Solution, chosen: list[int], rows: int, columns: int) -> None:
    shared, maps = look([sol.measures[i] for i in chosen]), []
    for number, index in enumerate(chosen):
        measure = sol.measures[index]
        # a flow map that takes over may be drawn otherwise than its density
        kind = projection(measure)
        ax = parent.add_subplot(rows, columns, number + 1, projection=kind)
        draw(measure, ax, shared)
        if is_coloured(measure):
            maps.append(ax)
        ax.set_title(f"({_LETTERS[number]})  t = {sol.t[index]:.4g}", fontsize=frames.NORMAL, pad=4)
        if number % columns:
            ax.set_ylabel("")
            ax.tick_params(axis="y", labelleft=False)
    if maps:
        frames.colour_bar(parent, list(parent.axes), shared.scale, "right")


def _mark(ax: Axes, chosen: list[int]) -> None:
    """Mark the panels' times on the energy."""
    (t, values), (bottom, top) = np.asarray(ax.lines[0].get_data()), ax.get_ylim()
    ax.plot(t[chosen], values[chosen], "o", markersize=4, **frames.MARK)
    for number, index in enumerate(chosen):
        below = values[index] > (bottom + top) / 2
        place, shift = (t[index], values[index]), (5 if index == 0 else 0, -5 if below else 5)
        ha, va = "left" if index == 0 else "center", "top" if below else "bottom"
        frames.write(ax, _LETTERS[number], place, ha=ha, va=va, shift=shift, color=frames.ORANGE)


def _instants(sol: Solution, times: int) -> list[int]:
    """Saves at about equal steps of the energy's way, first and last among them, all different."""
    count = len(sol.t)
    times = min(times, count)
    name = curves.energy_name(sol)
    steps = np.zeros(count - 1) if name is None else np.abs(np.diff(sol.dataset[name].values))
    way = np.append(0.0, np.cumsum(np.where(np.isfinite(steps), steps, 0.0)))
    if not way[-1] > 0.0:
        way = sol.t - sol.t[0]
    if times == 1:
        return [count - 1]
    levels = np.linspace(0.0, way[-1], times)[:-1]
    chosen = [int(np.argmin(np.abs(way - level))) for level in levels] + [count - 1]
    for number in range(times):
        # as many saves must be left over as there are panels to come
        least = chosen[number - 1] + 1 if number else 0
        chosen[number] = min(max(chosen[number], least), count - times + number)
    return chosen


def save(figure: Figure, path: str | os.PathLike[str], *, source: str = "") -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path.

    Parameters
    ----------
    figure : matplotlib Figure
    path : str or path-like
        Ending in .png, .pdf or .svg.
    source : str, optional
        What it was made from, such as `Solution.source`: the file keeps it among its keywords.

    Raises
    ------
    ValueError
        If `figure` is no figure, the suffix is another, or `source` no text.
    OSError
        If it can't be written there.
    """
    if not isinstance(figure, Figure):
        raise ValueError(f"figure must be a matplotlib Figure, got {shown(figure)}")
    path = frames.check_path(path, SUFFIXES, ", ".join(SUFFIXES))
    if not isinstance(source, str):
        raise ValueError(f"source must be a text, got {shown(source)}")
    # a disk that is full is told of by Python
    drawn = io.BytesIO()
    about = {"Keywords": source} if source else None
    figure.savefig(drawn, dpi=200, format=path.suffix[1:].lower(), metadata=about)
    remove_leftovers(path)
    with whole_file(path) as beside:
        beside.write_bytes(drawn.getbuffer())
