"""The page: what happened, the measure over time, numbers with bounds, checks, case, versions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.cli import text
from meanfield.cli.report import curves
from meanfield.cli.report.curves import curve_views
from meanfield.cli.report.measures import line_view, sphere_view, tokens_view
from meanfield.cli.report.view import View, weight
from meanfield.evolution import Solution
from meanfield.evolution.files import remove_leftovers, whole_file
from meanfield.evolution.recorder import with_role
from meanfield.exceptions import GOOD
from meanfield.measures import AnyMeasure, Particles
from meanfield.plot.curves import bounds
from meanfield.plot.frames import check_path, thinned
from meanfield.plot.panels import projection
from meanfield.plot.runs import run_title


def plotly_script() -> str:
    """The text of plotly.js, 5 MB.

    Raises
    ------
    ValueError
        If plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ValueError(
            f"a report needs plotly, which is not installed ({error}): "
            f"python -m pip install 'meanfield-attention[report]'"
        ) from error
    return str(get_plotlyjs())


# of a view
_READ = "name", "data", "layout", "frames"
_MOST_TIMES = 61
# of the measures' numbers, in characters: with plotly.js the page stays below 10 MB
_ROOM = 3_500_000


def page(solution: Solution) -> str:
    """One HTML page about a run, which works offline in any browser, below 10 MB.

    It shows the measure with a slider for the time and a button to play: on S^2 on a sphere that
    turns, on the circle and for measures symmetric about an axis as a curve, else the tokens. Below
    are energies with their bounds, dissipation or speed, distances with their brackets and the
    resolution; the verdict of the run's own checks, each with its number, its threshold and why;
    the case and the versions. What a page can't hold is thinned out, and the page says so.

    Parameters
    ----------
    solution : Solution

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If `solution` is no solution, or plotly is not installed.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> text = page(mf.evolve(mu, mf.SA(1.0), 1.0))
    >>> text.startswith("<!DOCTYPE html>"), len(text) < 6_000_000
    (True, True)
    """
    if not isinstance(solution, Solution):
        raise ValueError(f"solution must be a Solution, got {shown(solution)}")
    script = plotly_script()
    view, times = measure_view(solution)
    curves = curve_views(solution)
    found, views = checks(solution), [view, *curves]
    # what the page's program reads
    read = [{name: getattr(one, name) for name in _READ} for one in views]
    data = {"t": solution.t[times].tolist(), "views": read}
    notes = list(dict.fromkeys(note for one in views for note in one.notes))
    if len(times) < len(solution.t):
        slider = f"The slider has {len(times)} of {len(solution.t)} saved times"
        notes.insert(0, f"{slider}; the curves have more.")
    return Template(_part("page.html")).substitute(
        title=escape(run_title(solution)),
        source=solution._source,
        style=_part("page.css"),
        plotly=script,
        message=escape(solution.message),
        verdict=_verdict(found),
        state="good" if all(check.passed for check in found) else "bad",
        turn="" if _on_sphere(solution.measures[0]) else "hidden",
        last=len(times) - 1,
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
        curves="".join(f'<div class="curve" id="{view.name}"></div>' for view in curves),
        checks=_rows(found),
        facts=_table(_facts(solution)),
        case=escape(solution._case) or "This run was started without a case file.",
        versions=_table(solution._versions),
        # it may stand inside a script element
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        program=_part("page.js"),
    )


def save(solution: Solution, path: str | os.PathLike[str]) -> None:
    """Write the page of a run.

    Parameters
    ----------
    solution : Solution
    path : str or path-like
        Ending in .html.

    Raises
    ------
    ValueError
        If `solution` is no solution, the suffix is another, or plotly is not installed.
    OSError
        If it can't be written there.
    """
    place, text = check_path(path, (".html",), ".html"), page(solution)
    remove_leftovers(place)
    with whole_file(place) as beside:
        beside.write_text(text, encoding="utf-8")


def measure_view(solution: Solution) -> tuple[View, list[int]]:
    """The figure of the measure, and the saves whose measures fit into the page."""
    chosen = thinned(len(solution.t), _MOST_TIMES)
    measures = [solution.measures[i] for i in chosen]
    view = _view(measures)
    heaviest = max(map(weight, view.frames))
    kept = thinned(len(chosen), max(2, _ROOM // max(heaviest, 1)))
    return replace(view, frames=[view.frames[i] for i in kept]), chosen[kept].tolist()


def _view(measures: Sequence[AnyMeasure]) -> View:
    if _on_sphere(measures[0]):
        return sphere_view(measures)
    if isinstance(measures[0], Particles):
        return tokens_view(measures)
    return line_view(measures)


def _on_sphere(measure: AnyMeasure) -> bool:
    return projection(measure) == "mollweide"


def _facts(solution: Solution) -> dict[str, str]:
    data = solution.dataset
    counts = [name for name in ("steps", "evaluations") if name in data]
    return {
        "dynamics": repr(solution.dynamics),
        "measure at the start": repr(solution.measures[0]),
        "measure at the end": repr(solution.final),
        "saved times": f"{len(solution.t)} from {solution.t[0]:g} to {solution.t[-1]:g}",
        **{name: f"{int(data[name].values[-1])}" for name in counts},
        **{str(name): f"{value}" for name, value in data.attrs.items()},
    }


def _verdict(found: list[Check]) -> str:
    failed = [check.name for check in found if not check.passed]
    if not failed:
        return f"✓ all {len(found)} checks of the run hold"
    return escape(f"✗ {len(failed)} of {len(found)} checks fail: {'; '.join(failed)}")


def _rows(found: list[Check]) -> str:
    rows = []
    for check in found:
        mark, state = ("✓", "good") if check.passed else ("✗", "bad")
        cells = (check.name, check.number, check.threshold, check.why)
        inner = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="{state}"><td class="mark">{mark}</td>{inner}</tr>')
    return "".join(rows)


def _table(entries: dict[str, str]) -> str:
    return "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in entries.items()
    )


def _part(name: str) -> str:
    return (files("meanfield.cli.report") / name).read_text(encoding="utf-8")


# relative, of sums over nodes and degrees in double precision
_ROUNDING = 1e-12
_LEAST_MASS_ERROR = 1e-10


@dataclass(frozen=True)
class Check:
    """A property that a run must have.

    Attributes
    ----------
    name, number, threshold, why : str
        What is checked, what the run has, what it may have, and where that comes from.
    passed : bool
    """

    name: str
    number: str
    threshold: str
    why: str
    passed: bool


def checks(sol: Solution) -> list[Check]:
    """The verdict of a run: how it ended, its balance, mass, energies and resolution."""
    found = [_status(sol), _mass(sol)]
    if (error := text.defect(sol)) is not None:
        found.insert(1, _balance(sol, error))
    if monotone := curves.monotone_energy(sol):
        found.append(_monotone(sol, *monotone))
    found += [
        _between(sol, name)
        for name in curves.drawn_energies(sol)
        if np.isfinite(bounds(sol, name)[:2]).all()
    ]
    if "tail" in sol.dataset and np.isfinite(sol.dataset["tail"].values).any():
        found.append(_resolution(sol))
    return found


def _status(sol: Solution) -> Check:
    why = "A run that could not go on says so, and keeps what it had."
    return Check("status", sol.status, " or ".join(GOOD), why, sol.success)


def _tolerance(sol: Solution) -> float:
    """The largest `tol` of the run's flow maps, 0 of other measures."""
    return float(max(getattr(measure, "tol", 0.0) for measure in sol.measures))


def _per_step(sol: Solution) -> float:
    """What tolerances allow in an energy, a sum over pairs of the mass: twice that of each step."""
    steps = float(sol.dataset["steps"].values[-1]) if "steps" in sol.dataset else len(sol.t)
    rtol = float(sol.dataset.attrs.get("rtol", 0.0))
    return 2.0 * (steps + 1.0) * max(rtol, _tolerance(sol)) + _ROUNDING


def _balance(sol: Solution, error: float) -> Check:
    # of an energy that a Dirac has none of, the error is not relative
    names = with_role(sol.dataset, "share", "energy")
    allowed = _per_step(sol) * float(np.nanmax(np.abs(sol.dataset[names[0]].values)))
    symbol = sol.dataset[with_role(sol.dataset, "error")[0]].attrs["symbol"]
    why = (
        "The work, the integral of the dissipation, is summed on its own beside the measure. "
        "Each step may err by its tolerance relative to the energy, and in each of two factors."
    )
    of = f" / |{symbol}(δ)|" if with_role(sol.dataset, "share") else ""
    label = f"balance |{symbol}(t) − {symbol}(0) − work|{of}"
    return _below(label, error, allowed, why)


def _mass(sol: Solution) -> Check:
    error = float(np.abs(1.0 - sol.dataset["mass"].values).max())
    allowed = max(_LEAST_MASS_ERROR, _tolerance(sol))
    why = "Mass is kept by construction, up to rounding"
    why += " and the tolerance of meshes." if allowed > _LEAST_MASS_ERROR else "."
    return _below("mass |1 − ∫ dμ|", error, allowed, why)


def _monotone(sol: Solution, name: str, sign: int) -> Check:
    values, energy = sol.dataset[name].values, sol.dataset[name].attrs["symbol"]
    back = float(np.max(-sign * np.diff(values), initial=0.0))
    allowed = _per_step(sol) * float(np.abs(values).max())
    way = "rises" if sign > 0 else "falls"
    why = f"The run is a gradient flow along which {energy} {way}: it may step back by its "
    why += "error only."
    label = f"{energy} {way}: largest step back"
    return _below(label, back, allowed, why)


def _between(sol: Solution, name: str) -> Check:
    low, high, _, why = bounds(sol, name)
    values = sol.dataset[name].values
    room = (_ROUNDING + 2.0 * _tolerance(sol)) * float(np.abs(values).max())
    passed = bool(values.min() >= low - room and values.max() <= high + room)
    number = f"{values.min():.10g} … {values.max():.10g}"
    label = f"{sol.dataset[name].attrs['symbol']} between its bounds"
    return Check(label, number, f"{low:.10g} … {high:.10g}", why, passed)


def _resolution(sol: Solution) -> Check:
    tails, allowed = sol.dataset["tail"].values, curves.tolerances(sol)
    known = np.isfinite(tails) & np.isfinite(allowed)
    worst = int(np.argmax(np.where(known, tails / allowed, -1.0)))
    kinds = [hasattr(measure, "space") for measure in sol.measures]
    why = "The last tenth of the spectrum, relative in L²: the error of the density at a point."
    if not any(kinds):
        why = "The tail of a panel's positions times its mass: what moments see of it."
    elif not all(kinds):
        why = "Spectral tails while a series, tails of panels after; the largest at t = "
        why += f"{sol.t[worst]:.4g}."
    return _below("resolution: tail", float(tails[worst]), float(allowed[worst]), why)


def _below(name: str, number: float, allowed: float, why: str) -> Check:
    got, limit = tell_apart(number, allowed)
    return Check(name, got, f"≤ {limit}", why, bool(number <= allowed))
