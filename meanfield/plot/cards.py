"""Cards for notebooks: a measure, a run or a bracket as a small picture and a few numbers."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from meanfield.evolution.solution import Solution
from meanfield.functionals.transport import Bracket
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, Particles
from meanfield.plot.curves import energy, energy_name, title
from meanfield.plot.frames import BLUE, ORANGE, new_figure, thinned
from meanfield.plot.panels import draw, look, projection

_DPI = 100
_WIDTHS = {"mollweide": 2.8, "polar": 1.9}
_HEIGHT, _ORDINARY = 1.9, 2.5
_ENERGY = 2.5
# more look alike in so small a picture
_MOST_TOKENS = 1000
_FRAME = (
    '<div style="display:flex;flex-wrap:wrap;align-items:center;gap:1em">{picture}'
    '<table style="margin:0"><caption style="caption-side:top;text-align:left;'
    'font-weight:bold">{title}</caption>{rows}</table></div>'
)


def card(shown: Any) -> str:
    """The HTML of a measure, a solution or a bracket; every text in it is escaped.

    Examples
    --------
    >>> card(Bracket(0.5, 0.4, 0.6)).count("<svg")
    1
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in _rows(shown).items()
    )
    try:
        is_bracket = isinstance(shown, Bracket)
        picture = _line(shown) if is_bracket else _embedded(_figure(shown), repr(shown))
    # numbers are worth showing where a picture can't be drawn, and a notebook goes on
    except Exception as error:
        picture = f"<p>no picture: {escape(str(error) or type(error).__name__)}</p>"
    title = "FlowMap" if isinstance(shown, FlowMap) else escape(type(shown).__name__)
    return _FRAME.format(picture=picture, title=title, rows=rows)


@singledispatch
def _rows(shown: Any) -> dict[str, str]:
    """The numbers of a card: of tokens, unless it shows something else."""
    return {"dim": str(shown.dim), "tokens": str(len(shown.weights)), **_of_all(shown)}


def _figure(shown: Any) -> Figure:
    """A measure, or the last one of a run and its energy beside it."""
    is_run = isinstance(shown, Solution)
    measure = _light(shown.final if is_run else shown)
    kind, shared = projection(measure), replace(look([measure]), is_fine=False)
    has_energy = is_run and energy_name(shown) is not None
    widths = [_WIDTHS.get(kind, _ORDINARY)] + [_ENERGY] * has_energy
    figure = new_figure(sum(widths), _HEIGHT)
    grid = figure.add_gridspec(1, len(widths), width_ratios=widths)
    ax = figure.add_subplot(grid[0], projection=kind)
    draw(measure, ax, shared)
    if is_run:
        ax.set_title(f"t = {shown.t[-1]:.4g}", fontsize=8.0)
        if has_energy:
            energy(shown, figure.add_subplot(grid[1]))
    return figure


@_rows.register
def _(sol: Solution) -> dict[str, str]:
    first, last = repr(sol.measures[0]), repr(sol.final)
    found = {
        "dynamics": repr(sol.dynamics),
        "measure": first if first == last else f"{first} → {last}",
        "status": sol.message,
        "saved times": f"{len(sol.t)} from {sol.t[0]:g} to {sol.t[-1]:g}",
    }
    if (name := energy_name(sol)) is not None:
        values = sol.dataset[name].values
        found[title(sol, name)] = f"{values[0]:.6g} → {values[-1]:.6g}"
    return found


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
    values, found = measure.density_at_nodes, {"dim": str(measure.dim)}
    found["nodes"] = str(len(measure.weights))
    if isinstance(measure, LineFlowMap):
        found["atoms"] = f"{len(measure.atoms)}, mass {measure.atom_masses.sum():.4g}"
    found |= _of_all(measure)
    return found | {"density": f"{values.min():.4g} to {values.max():.4g} at the nodes"}


def _of_all(measure: AnyMeasure) -> dict[str, str]:
    found = {}
    if measure.frequencies is not None:
        low, high = measure.frequencies.min(), measure.frequencies.max()
        found["frequencies"] = f"{low:.4g} to {high:.4g}"
    found["mass"] = f"{measure.mass():.12g}"
    found["length of the mean"] = f"{float(np.linalg.norm(measure.mean())):.6g}"
    return found


def _light(measure: AnyMeasure) -> AnyMeasure:
    """A measure of few enough tokens to be drawn at once."""
    if not isinstance(measure, Particles) or len(measure.weights) <= _MOST_TOKENS:
        return measure
    kept = thinned(len(measure.weights), _MOST_TOKENS)
    if not measure.weights[kept].any():
        kept = np.argsort(measure.weights)[-_MOST_TOKENS:]
    return Particles(measure.points[kept], measure.weights[kept])


def _embedded(figure: Figure, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{data}"/>'


@_rows.register
def _(bracket: Bracket) -> dict[str, str]:
    numbers = {name: f"{getattr(bracket, name):.9g}" for name in ("value", "lower", "upper")}
    return numbers | {"ends": "proven" if bracket.proved else "estimates"}


def _line(bracket: Bracket) -> str:
    """The value on the way from the lower to the upper bound."""
    width = bracket.upper - bracket.lower
    if not np.isfinite(width):
        raise ValueError(f"a bound is infinite, got {bracket.lower:g} and {bracket.upper:g}")
    share = (bracket.value - bracket.lower) / width if width > 0.0 else 0.5
    x = 20.0 + 160.0 * share
    ends = "".join(
        f'<line x1="{end}" y1="12" x2="{end}" y2="28" stroke="{BLUE}" stroke-width="2"/>'
        for end in (20, 180)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40" role="img" '
        f'aria-label="{escape(repr(bracket))}"><line x1="20" y1="20" x2="180" y2="20" '
        f'stroke="{BLUE}" stroke-width="2"/>{ends}<circle cx="{x:.1f}" cy="20" r="5" '
        f'fill="{ORANGE}"/></svg>'
    )
