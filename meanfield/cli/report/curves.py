"""Numbers of a run over t: energies with their bounds, dissipation, distances, resolution."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from meanfield.cli.report.view import LINE, Part, View, axis, base_layout, heading, log_axis, packed
from meanfield.dynamics.titles import term_titles
from meanfield.dynamics.with_energy import adapt_with
from meanfield.evolution import Solution
from meanfield.evolution.recorder import LOWER, MOST_TERMS, PROVED, UPPER, with_role
from meanfield.plot import curves, frames
from meanfield.plot.frames import ORANGE
from meanfield.typing import Array

if TYPE_CHECKING:
    import xarray as xr


def monotone_energy(sol: Solution) -> tuple[str, int] | None:
    """The energy that can't turn back and the sign of its way, None where there is none.

    Without noise that of the dynamics, as of SA and USA (Lemma 3.7, (3.6)); with noise USA, doubly
    stochastic attention and interactions lower their free energy, and SA has none. Of an energy
    that is only followed nothing is claimed.
    """
    adapted, name = adapt_with(sol.dynamics, sol.energy), curves.energy_name(sol)
    energy = adapted.energy_functional
    if energy is None or name is None or not energy.is_own or adapted.varies:
        # an energy whose weights vary in time also changes by their work
        return None
    if (energy.parts or energy.functional) and not energy.in_w2:
        # terms with metrics of their own are no gradient flow together; an energy of a user may be
        # none
        return None
    if sol.dynamics.noise > 0.0:
        free = [n for n in with_role(sol.dataset, "energy") if n.startswith("free")]
        return (free[0], -1) if free else None
    # the share of a negative energy falls where the energy rises
    direction = energy.sign if name == "energy" or energy.dirac > 0.0 else -energy.sign
    return (name, direction) if with_role(sol.dataset, "error") else None


MOST_POINTS = 4000
# the axis of a logarithmic plot extends beyond its curves by this factor
_MARGIN = 1.5
# a row of a legend has this height in pixels
_ROW = 20
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def curve_views(sol: Solution) -> list[View]:
    """All that there is to draw over t."""
    views = [_energy(sol, name) for name in drawn_energies(sol)]
    if with_role(sol.dataset, *curves.RATES):
        views.append(_rate(sol))
    if curves.monitored(sol):
        views.append(_distances(sol))
    if betas := curves.betas_in_time(sol):
        numbers = {name: np.array([beta(t) for t in sol.t]) for name, beta in betas.items()}
        scale = scale_of(np.concatenate([*numbers.values()]))
        views.append(over_t("beta", "β(t)", sol.t, numbers, scale, has_legend=len(betas) > 1))
    if "tail" in sol.dataset and np.isfinite(sol.dataset["tail"].values).any():
        views.append(_tail(sol))
    if "size" in sol.dataset:
        views.append(_size(sol))
    return views


def comparison_views(ds: xr.Dataset, labels: Sequence[str]) -> list[View]:
    """The numbers of two runs, a curve for each, and the distance between the runs."""
    views = []
    untold = {f"{name}{end}" for name in ds.data_vars for end in (LOWER, UPPER, PROVED)}
    untold |= {"energy_share"} if "energy" in ds else set()
    # an error of mmd that is 0 at all saves is not drawn
    untold |= set() if "mmd_error" in ds and ds["mmd_error"].any() else {"mmd_error"}
    for name in map(str, ds.data_vars):
        values, t = ds[name].values, ds["t"].values
        if name in untold or ds[name].dims not in (("t",), ("run", "t")):
            continue
        is_pair = ds[name].ndim == 2
        numbers = dict(zip(labels if is_pair else [name], np.atleast_2d(values), strict=True))
        bands = {}
        if f"{name}{LOWER}" in ds:
            bands[name] = ds[f"{name}{LOWER}"].values, ds[f"{name}{UPPER}"].values
        title = frames.subscripts(str(ds[name].attrs.get("long_name", name)), "<sub>%s</sub>")
        title = title.replace("a and b", " and ".join(labels))
        scale = _window(values) if name in ("energy", "energy_share") else scale_of(values)
        view = over_t(name, title, t, numbers, scale, bands=bands, has_legend=is_pair)
        views.append(view)
    return views


def drawn_energies(sol: Solution) -> list[str]:
    """The energies of a run, or the share of its energy where that overflows."""
    return with_role(sol.dataset, "energy") or with_role(sol.dataset, "share")


def _energy(sol: Solution, name: str) -> View:
    values, limits = sol.dataset[name].values, curves.bounds(sol, name)
    if name == "energy" and (terms := _of_terms(sol, "term_energy")):
        # terms are drawn by their gains: their values may be far apart
        symbol = sol.dataset[name].attrs["symbol"]
        gains = {"the sum": values - values[0]} | {term: e - e[0] for term, e in terms.items()}
        title = f"energy {symbol}(t) − {symbol}(0), {symbol}(0) = {values[0]:.4g}"
        scale = _window(np.concatenate([*gains.values()]))
        return over_t(name, title, sol.t, gains, scale, has_legend=True)
    shapes = [_level(level) for level in limits[:2] if np.isfinite(level)]
    title = frames.subscripts(curves.bounded_title(sol, name), "<sub>%s</sub>")
    scale = {"range": list(limits.window(values))}
    return over_t(name, title, sol.t, {name: values}, scale, shapes=shapes)


def _window(values: Array) -> Part:
    """Return the range of an axis that holds all values with a margin."""
    return {"range": list(curves.Bounds(-np.inf, np.inf, ("", ""), "").window(values))}


def _of_terms(sol: Solution, name: str) -> dict[str, Array]:
    """Return a number of each term of a sum over t under its title; nothing for too many terms."""
    if name not in sol.dataset or sol.dataset[name].shape[1] > MOST_TERMS:
        return {}
    titles = term_titles(sol.dynamics if sol.energy is None else sol.energy)
    columns = sol.dataset[name].values.T
    labels = [f"{i}: {title}" for i, title in enumerate(titles or [""] * len(columns))]
    return dict(zip(labels, columns, strict=True))


def _level(value: float) -> Part:
    line = {"color": LINE, "width": 1, "dash": "dash"}
    ends = {"x0": 0, "x1": 1, "y0": value, "y1": value}
    return {"type": "line", "xref": "paper", **ends, "line": line}


def _rate(sol: Solution) -> View:
    name = with_role(sol.dataset, *curves.RATES)[0]
    values, terms = sol.dataset[name].values, _of_terms(sol, f"term_{name}")
    title = frames.subscripts(curves.title(sol, name), "<sub>%s</sub>")
    numbers = {"the sum" if terms else name: values} | terms
    scale = scale_of(np.concatenate([*numbers.values()]))
    return over_t(name, title, sol.t, numbers, scale, has_legend=bool(terms))


def scale_of(values: Array) -> Part:
    """The scale of an axis: logarithmic if positive values are wide apart, else from 0."""
    finite = values[np.isfinite(values)]
    if frames.is_wide(finite):
        return log_axis(finite.min() / _MARGIN, finite.max() * _MARGIN)
    linear = {"exponentformat": "power"}
    if finite.min(initial=0.0) < 0.0:
        return linear
    return linear | {"range": [0.0, 1.1 * finite.max(initial=0.0) or 1.0]}


def _distances(sol: Solution) -> View:
    names, numbers, bands = curves.monitored(sol), {}, {}
    for name in names:
        p, target = curves.distance_to(sol, name)
        label = f"W<sub>{p}</sub> to {target}" if target else name
        numbers[label] = sol.dataset[name].values
        if (ends := curves.ends_apart(sol, name)) is not None:
            bands[label] = ends
    scale = scale_of(np.concatenate(list(numbers.values())))
    title = curves.distances_title(sol, names)
    return over_t("distances", title, sol.t, numbers, scale, bands=bands, has_legend=True)


def _band(t: Array, ends: tuple[Array, Array], colour: str) -> list[Part]:
    """Return the curves that fill the band between the two bounds of a bracket."""
    edges = (_line(t, end, "bound", colour) for end in ends)
    lower, upper = (edge | {"line": {"width": 0}, "showlegend": False} for edge in edges)
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.25)"}
    return [lower, upper | fill]


def _tail(sol: Solution) -> View:
    values, allowed = sol.dataset["tail"].values, tolerances(sol)
    title = "spectral tail" if hasattr(sol.measures[0], "space") else "largest tail of a panel"
    level = _line(sol.t, allowed, "tolerance", LINE, width=1, dash="dash")
    numbers = {"tail": np.where(values > 0.0, values, np.nan)}
    # the axis shows the tolerance even if there is no tail
    y = np.append(numbers["tail"], allowed)
    scale = log_axis(min(np.nanmin(y), 0.1 * np.nanmin(allowed)), _MARGIN * np.nanmax(y))
    view = over_t("tail", title + " and its tolerance", sol.t, numbers, scale, further=[level])
    view.numbers["tolerance"] = allowed
    return view


def tolerances(sol: Solution) -> Array:
    """The tolerance of the tail of each measure: `tail_tol` of series, `tol` of flow maps."""
    of_series = float(sol.dataset.attrs.get("tail_tol", np.nan))
    return np.array([getattr(measure, "tol", of_series) for measure in sol.measures])


def _size(sol: Solution) -> View:
    values = sol.dataset["size"].values.astype(np.float64)
    measure, title = sol.measures[0], "number of nodes"
    if (space := getattr(measure, "space", None)) is not None:
        title = f"size of the space, {space.size_name}"
        title += ", then nodes" if hasattr(sol.final, "tol") else ""
    elif hasattr(measure, "n_nodes"):
        title = "number of nodes and particles"
    scale = {"range": [0.0, 1.1 * np.nanmax(values)]}
    return over_t("size", title, sol.t, {"size": values}, scale, shape="hv")


def _line(t: Array, values: Array, name: str, colour: str, **style: object) -> Part:
    finite = np.flatnonzero(np.isfinite(values))
    drawn_index = finite[frames.thinned(len(finite), MOST_POINTS)]
    points = {"x": packed(t[drawn_index], "f8"), "y": packed(values[drawn_index], "f8")}
    line = {"color": colour, "width": 2, **style}
    hover = "t = %{x:.6g}<br>%{y:.10g}<extra>" + name + "</extra>"
    mode = "lines+markers" if len(drawn_index) < 2 else "lines"
    trace = {"type": "scatter", "mode": mode, "name": name, "line": line}
    return {**trace, **points, "hovertemplate": hover}


def over_t(
    name: str,
    title: str,
    t: Array,
    numbers: dict[str, Array],
    scale: Part,
    *,
    bands: Mapping[str, tuple[Array, Array]] | None = None,
    shapes: Sequence[Part] = (),
    further: Sequence[Part] = (),
    has_legend: bool = False,
    **style: object,
) -> View:
    """A figure of numbers over t, each a curve in its colour, some in a band of their bounds."""
    traces: list[Part] = []
    bands = bands or {}
    columns: dict[str, Array] = {}
    for (label, values), (colour, dash) in zip(numbers.items(), cycle(curves.LINES), strict=False):
        if label in bands:
            traces += _band(t, bands[label], colour)
            columns |= dict(zip((f"{label}, lower", f"{label}, upper"), bands[label], strict=True))
        traces.append(_line(t, values, label, colour, dash=_DASHES[dash], **style))
    # the slider moves the first shape of a figure
    mark = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": t[-1], "x1": t[-1]}
    now = {"line": {"color": ORANGE, "width": 1.5}}
    along = {"range": [float(t[0]), float(t[-1])] if len(t) > 1 else [t[0] - 1.0, t[0] + 1.0]}
    if frames.is_decades(t):
        along = log_axis(float(t[t > 0.0][0]), float(t[-1]))
    # two entries of a legend fit in one row on a phone
    rows = len(numbers) if len(numbers) > 2 else 1
    layout = base_layout(
        title=heading(title),
        xaxis=axis("time t", **along),
        # labels of a short range have many digits, so the margin follows them
        yaxis=axis("", automargin=True, **scale),
        shapes=[mark | now, *shapes],
        hovermode="closest",
        legend={"y": 1.0, "yanchor": "bottom", "x": 0.0, "orientation": "v" if rows > 1 else "h"},
        showlegend=has_legend,
    )
    layout["margin"] |= {"t": 34 + _ROW * rows if has_legend else 34}
    plain_title = re.sub("</?sub>", "", title)
    notes = (f"Curves have {MOST_POINTS} of {len(t)} saves.",) if len(t) > MOST_POINTS else ()
    all_columns = numbers | columns
    return View(name, plain_title, t, all_columns, [*traces, *further], layout, notes=notes)
