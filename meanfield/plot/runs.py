"""A whole run, its measure at several times and its numbers over t; and cards for notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from meanfield._checks import integer, shown
from meanfield._shown import Shown, table
from meanfield.dynamics.causal import has_mask
from meanfield.dynamics.titles import dynamics_title
from meanfield.evolution.files import remove_leftovers, whole_file
from meanfield.evolution.solution import Solution
from meanfield.functionals.transport import Bracket
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, Particles
from meanfield.plot import curves, frames, panels


def run_title(sol: Solution) -> str:
    """The dynamics of a run, and how and when it ended."""
    return f"{dynamics_title(sol.dynamics)}: {sol.status} at t = {sol.t[-1]:.4g}"


def ordered_tokens(sol: Solution) -> list[AnyMeasure]:
    """The tokens of each save, where a causal mask reads their order; none without a mask."""
    masked = has_mask(sol.dynamics)
    return [measure for measure in sol.measures if masked and measure.is_ordered]


SUFFIXES = (".png", ".pdf", ".svg")
_MOST_PANELS = 12
_LETTERS = "abcdefghijkl"
# a row of tokens at their positions has this height in inches
_POSITIONS = 1.7
# nearer to the left edge than this part of the panel, a letter has no room left of its dot
_EDGE = 0.06


def solution(sol: Solution, *, panels: int = 4) -> Figure:
    """mu_t at several times, and over t the energy between its bounds, dissipation, tail.

    There is no panel of an energy where the dynamics has none. A β that varies in time has one.
    A run that ends as a flow map has its number of nodes instead of the spectral tail, also where
    it began as a density. Monitors named w, w1, w_start and so on have a panel of distances.
    Densities above 10⁴ are cut; their panels give the maximum. Tokens in d > 3 are seen from the
    first two principal axes of all saves together, whose names have their shares of the variance.
    Under a causal mask a second row has the tokens' positions, over their angles on the circle,
    elsewhere over the first principal axis.

    Parameters
    ----------
    sol : Solution
    panels : int
        How many, 1 to 12, at saved times from the first to the last at about equal steps
        of energy; all saved times if there are fewer.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `sol` is no solution or `panels` is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> len(solution(mf.evolve(mu, mf.SA(1.0), 1.0), panels=3).axes)
    6
    """
    curves.check(sol)
    return still(sol, integer("panels", panels, low=1, high=_MOST_PANELS), sol.measures)


def still(sol: Solution, count: int, saves: Sequence[AnyMeasure]) -> Figure:
    """The figure of a run, its tokens seen from the principal axes of all these measures."""
    chosen = instants(sol, count)
    look = panels.look([sol.measures[i] for i in chosen], saves)
    kind = panels.projection(sol.final)
    # four to six maps stand in two rows
    is_halved = kind == "mollweide" and 4 <= len(chosen) <= 6
    columns = -(-len(chosen) // 2) if is_halved else min(len(chosen), 4)
    rows = -(-len(chosen) // columns)
    height = {"mollweide": 3.3 / columns, "polar": 7.0 / columns}.get(kind, 1.7) + 0.25
    tokens = ordered_tokens(sol)
    heights = [rows * height, *[rows * _POSITIONS] * bool(tokens), 2.0]
    figure = frames.new_figure(7.2, sum(heights) + 0.2)
    subfigures = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    upper, *middle, lower = subfigures
    _draw_measures(upper, sol, chosen, look, (rows, columns))
    for part in middle:
        along = panels.abscissa_of(saves)
        for panel, index in enumerate(chosen):
            ax = part.add_subplot(rows, columns, panel + 1)
            panels.draw_positions(tokens[index], ax, along)
            ax.set_title(f"t = {sol.t[index]:.4g}", fontsize=frames.NORMAL, pad=4)
            if panel % columns:
                ax.set_ylabel("")
    if shown_curves := list(curves.drawable(sol).values()):
        widths = [5 if curve is curves.energy else 3 for curve in shown_curves]
        axes = lower.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        for curve, ax in zip(shown_curves, axes, strict=True):
            curve(sol, ax)
            if curve is curves.energy:
                _mark(ax, chosen)
    colour = "black" if sol.success else frames.ORANGE
    return frames.finish(figure, run_title(sol), colour=colour)


def _draw_measures(
    parent: SubFigure, sol: Solution, chosen: list[int], look: panels.Look, grid: tuple[int, int]
) -> None:
    for panel, index in enumerate(chosen):
        measure = sol.measures[index]
        # a flow map that takes over may be drawn in another way than its density
        ax = parent.add_subplot(*grid, panel + 1, projection=panels.projection(measure))
        panels.draw(measure, ax, look)
        ax.set_title(f"({_LETTERS[panel]})  t = {sol.t[index]:.4g}", fontsize=frames.NORMAL, pad=4)
        if panel % grid[1]:
            ax.set_ylabel("")
            ax.tick_params(axis="y", labelleft=False)
    if any(panels.is_coloured(sol.measures[index]) for index in chosen):
        frames.colour_bar(parent, parent.axes, look.scale, "right")


def _mark(ax: Axes, chosen: list[int]) -> None:
    """Mark the times of the panels on the energy."""
    t, values = np.asarray(ax.lines[0].get_data())
    # a logarithmic axis has no time 0
    x = np.maximum(t, ax.get_xlim()[0])
    ax.plot(x[chosen], values[chosen], "o", markersize=4, **frames.MARK)
    changes = np.gradient(values) if len(t) > 1 else np.zeros(1)
    for panel, index in enumerate(chosen):
        # a letter stands left of its dot and above a rising curve; at the left edge it stands right
        # and below
        is_right = curves.along(ax, t[index]) < _EDGE
        is_below = (changes[index] < 0.0) != is_right
        ha, va = "left" if is_right else "right", "top" if is_below else "bottom"
        offset, place = (4 if is_right else -3, -2 if is_below else 2), (x[index], values[index])
        frames.write(ax, _LETTERS[panel], place, ha=ha, va=va, shift=offset, color=frames.ORANGE)


def instants(sol: Solution, most: int) -> list[int]:
    """Saves at about equal steps of the energy's way, first and last among them, all different."""
    saves = len(sol.t)
    count = min(most, saves)
    name = curves.energy_name(sol)
    steps = np.zeros(saves - 1) if name is None else np.abs(np.diff(sol.numbers[name].values))
    path_length = np.append(0.0, np.cumsum(np.where(np.isfinite(steps), steps, 0.0)))
    if not path_length[-1] > 0.0:
        path_length = sol.t - sol.t[0]
    levels = np.linspace(0.0, path_length[-1], count)[:-1]
    chosen: list[int] = []
    for panel, level in enumerate(levels):
        # as many saves must be left over as panels are to come
        least, last = (chosen[-1] + 1 if chosen else 0), saves - count + panel
        chosen.append(min(max(int(np.argmin(np.abs(path_length - level))), least), last))
    return [*chosen, saves - 1]


def save(figure: Figure | Axes, path: str | os.PathLike[str], *, source: str = "") -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path.

    Parameters
    ----------
    figure : matplotlib Figure or Axes
        For axes the whole figure is written.
    path : str or path-like
        Ending in .png, .pdf or .svg.
    source : str, optional
        The origin of the figure; the file keeps it among its keywords.

    Raises
    ------
    ValueError
        If `figure` is neither, the suffix is another, or `source` no text.
    OSError
        If it can't be written there.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> save(mu.plot(), "density.pdf")  # doctest: +SKIP
    """
    # axes may have been removed from their figure
    figure_of_axes = figure.get_figure(root=True) if isinstance(figure, (Figure, Axes)) else None
    if figure_of_axes is None:
        raise ValueError(f"figure must be a matplotlib Figure or Axes, got {shown(figure)}")
    path = frames.check_path(path, SUFFIXES, ", ".join(SUFFIXES))
    if not isinstance(source, str):
        raise ValueError(f"source must be a text, got {shown(source)}")
    metadata = {"Keywords": source} if source else None
    image = frames.to_bytes(
        figure_of_axes, dpi=200, format=path.suffix[1:].lower(), metadata=metadata
    )
    remove_leftovers(path)
    # Python's own message suffices for a full disk
    with whole_file(path) as draft:
        draft.write_bytes(image)


_DPI = 100
_WIDTHS = {"mollweide": 2.8, "polar": 1.9}
_HEIGHT, _ORDINARY, _ENERGY = 1.9, 2.5, 2.5
# more tokens look the same in so small a picture
_MOST_TOKENS = 1000


def card(shown: Shown) -> str:
    """The HTML of a measure, a solution or a bracket; every text in it is escaped.

    Examples
    --------
    >>> card(Bracket(0.5, 0.4, 0.6)).count("<svg")
    1
    """
    try:
        drawn = _svg(shown) if isinstance(shown, Bracket) else embedded(_figure(shown), repr(shown))
    # a notebook shows the numbers without a picture and goes on
    except Exception as error:
        drawn = f"<p>no picture: {escape(str(error) or type(error).__name__)}</p>"
    title = "FlowMap" if isinstance(shown, FlowMap) else type(shown).__name__
    style = "display:flex;flex-wrap:wrap;align-items:center;gap:1em"
    return f'<div style="{style}">{drawn}{table(title, _rows(shown))}</div>'


@singledispatch
def _rows(shown: Any) -> dict[str, str]:
    """Return the numbers of a card for tokens; other kinds have their own."""
    return {"dim": str(shown.dim), "tokens": str(len(shown.weights)), **_of_all(shown)}


def _figure(shown: Any) -> Figure:
    """Return the figure of a measure, or of the last measure of a run with its energy beside it."""
    is_run = isinstance(shown, Solution)
    saves = shown.measures if is_run else [shown]
    measure = _light(saves[-1])
    kind, look = panels.projection(measure), replace(panels.look([measure], saves), is_fine=False)
    has_energy = is_run and curves.energy_name(shown) is not None
    widths = [_WIDTHS.get(kind, _ORDINARY)] + [_ENERGY] * has_energy
    figure = frames.new_figure(sum(widths), _HEIGHT)
    grid = figure.add_gridspec(1, len(widths), width_ratios=widths)
    ax = figure.add_subplot(grid[0], projection=kind)
    panels.draw(measure, ax, look)
    if is_run:
        ax.set_title(f"t = {shown.t[-1]:.4g}", fontsize=8.0)
        if has_energy:
            curves.energy(shown, figure.add_subplot(grid[1]))
    return figure


@_rows.register
def _(sol: Solution) -> dict[str, str]:
    start, end = repr(sol.measures[0]), repr(sol.final)
    facts = {
        "dynamics": repr(sol.dynamics),
        **({} if sol.energy is None else {"energy of": repr(sol.energy)}),
        "measure": start if start == end else f"{start} → {end}",
        "status": sol.message,
        "saved times": f"{len(sol.t)} from {sol.t[0]:g} to {sol.t[-1]:g}",
    }
    if (name := curves.energy_name(sol)) is not None:
        values = sol.numbers[name].values
        facts[curves.title(sol, name)] = f"{values[0]:.6g} → {values[-1]:.6g}"
    return facts


@_rows.register
def _(measure: Density) -> dict[str, str]:
    values = measure.values
    return {
        "space": repr(measure.space),
        **_of_all(measure),
        "density": f"{values.min():.4g} to {values.max():.4g} on the grid",
        "spectral tail": f"{measure.tail:.1e}",
    }


@_rows.register
def _(measure: FlowMap) -> dict[str, str]:
    values, facts = measure.node_density, {"dim": str(measure.dim)}
    facts["nodes"] = str(len(measure.weights))
    if isinstance(measure, LineFlowMap):
        facts["atoms"] = f"{len(measure.atom_angles)}, mass {measure.atom_masses.sum():.4g}"
    facts |= _of_all(measure)
    return facts | {"density": f"{values.min():.4g} to {values.max():.4g} at the nodes"}


def _of_all(measure: AnyMeasure) -> dict[str, str]:
    facts = {}
    if measure.natural_frequencies is not None:
        low, high = measure.natural_frequencies.min(), measure.natural_frequencies.max()
        facts["frequencies"] = f"{low:.4g} to {high:.4g}"
    facts["mass"] = f"{measure.mass():.12g}"
    facts["length of the mean"] = f"{float(np.linalg.norm(measure.mean())):.6g}"
    return facts


def _light(measure: AnyMeasure) -> AnyMeasure:
    """Return a measure with few enough tokens to be drawn at once."""
    if not measure.is_ordered or len(measure.weights) <= _MOST_TOKENS:
        return measure
    token_index = frames.thinned(len(measure.weights), _MOST_TOKENS)
    if not measure.weights[token_index].any():
        token_index = np.argsort(measure.weights)[-_MOST_TOKENS:]
    return Particles(measure.points[token_index], measure.weights[token_index], unit_mass=True)


def embedded(figure: Figure, text: str, dpi: int = _DPI) -> str:
    """A figure as a picture inside a page; the text says what it shows."""
    return frames.image(frames.to_bytes(figure, format="png", dpi=dpi), "png", text)


@_rows.register
def _(bracket: Bracket) -> dict[str, str]:
    numbers = {name: f"{getattr(bracket, name):.9g}" for name in ("value", "lower", "upper")}
    return numbers | {"ends": "proven" if bracket.proved else "estimates"}


def _svg(bracket: Bracket) -> str:
    """Draw the value between the lower and the upper bound."""
    width = bracket.upper - bracket.lower
    if not np.isfinite(width):
        raise ValueError(f"a bound is infinite, got {bracket.lower:g} and {bracket.upper:g}")
    share = (bracket.value - bracket.lower) / width if width > 0.0 else 0.5
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40" role="img" '
        f'aria-label="{escape(repr(bracket))}"><path d="M20 12V28M20 20H180M180 12V28" '
        f'stroke="{frames.BLUE}" stroke-width="2"/>'
        f'<circle cx="{20.0 + 160.0 * share:.1f}" cy="20" r="5" fill="{frames.ORANGE}"/></svg>'
    )
