"""The page: what happened, the measure over time, numbers with bounds, checks, case, versions."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from string import Template
from typing import Any

import numpy as np
import tomli_w

from meanfield import plot
from meanfield._checks import check_type, tell_apart
from meanfield.cli import text
from meanfield.cli.report import curves
from meanfield.cli.report.curves import comparison_views, curve_views
from meanfield.cli.report.measures import eye, positions_view, view_of
from meanfield.cli.report.view import View, heading, weight
from meanfield.cli.runs import source_of
from meanfield.dynamics.titles import dynamics_title, term_titles
from meanfield.evolution import Solution
from meanfield.evolution.files import remove_leftovers, whole_file
from meanfield.evolution.recorder import with_role
from meanfield.exceptions import GOOD
from meanfield.measures import AnyMeasure, Particles
from meanfield.measures.clusters import RADIUS, clusters
from meanfield.plot.curves import bounds, energy_name
from meanfield.plot.frames import NORMAL, check_path, subscripts, thinned
from meanfield.plot.panels import Look, abscissa_of, look
from meanfield.plot.runs import embedded, instants, ordered_tokens, run_title, still
from meanfield.spaces.geometry import polar_angles
from meanfield.studies.comparison import compare
from meanfield.typing import Array


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
        hint = "python -m pip install 'meanfield-attention[report]'"
        missing = f"the page needs plotly, which is not installed ({error})"
        raise ValueError(f"{missing}: {hint}") from error
    return str(get_plotlyjs())


_MOST_TIMES = 61
# the numbers of measures may take so many characters: with plotly.js the page stays below 10 MB
_ROOM = 3_000_000


def page(*sols: Solution, names: Sequence[str] = "ab") -> str:
    """One HTML page about a run, or two beside each other, which works offline, below 10 MB.

    It opens with what was run and what came out. The measure has a slider for the time and a button
    to play: on S^2 it is on a sphere that turns, on the circle and for measures symmetric about an
    axis a curve, else the tokens. Beside it are energies with their bounds, dissipation or speed,
    distances with their brackets and the resolution. Two runs move together above the numbers of
    `compare`. Each figure has a table of its numbers. Below are the run's own checks,
    each with its number, its threshold and why, the case and the versions. In print figures show
    the first and the last state. What a page can't hold is thinned out, and the page says so.

    Parameters
    ----------
    *sols : Solution
        The second, if any, on the same sphere.
    names : sequence of str
        What two runs are called.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If one is no solution, or they can't be compared, or plotly is not installed.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> text = page(mf.evolve(mu, mf.SA(1.0), 1.0))
    >>> text.startswith("<!DOCTYPE html>"), len(text) < 6_000_000
    (True, True)
    """
    for sol in sols:
        check_type("solution", sol, Solution, "a Solution")
    script, first_run = plotly_script(), sols[0]
    if len(sols) == 1:
        title, labels, saved = run_title(first_run), [""], first_run.t
        paragraphs, missing, over_time = [], [], curve_views(first_run)
        stills = [plot.solution(first_run, panels=2)]
    else:
        compared, labels = compare(*sols), list(names)
        title, saved = " and ".join(labels), compared["t"].values
        paragraphs = [as_html(str(compared.attrs["verdict"]))]
        missing = text.missing_of_comparison(compared)
        over_time = comparison_views(compared, labels)
        saves = _saves(sols)
        stills = [still(sol, 2, saves) for sol in sols]
        for figure, label, sol in zip(stills, labels, sols, strict=True):
            figure.suptitle(f"{label}: {run_title(sol)}", fontsize=NORMAL + 1)
        stills.append(plot.comparison(compared.assign_coords(run=labels)))
    times, measures = measure_views(sols, labels, saved)
    over_time = [*position_views(sols, labels, times), *over_time]
    for name, outcome in zip(labels, map(_outcome, sols), strict=True):
        paragraphs.append(f"<b>{escape(name)}</b>: {outcome}" if name else outcome)
    checks_of_runs = [checks(sol) for sol in sols]
    views = [*measures, *over_time]
    opening = float(first_run.t[instants(first_run, 3)[len(first_run.t) > 2]])
    start = int(np.abs(times - opening).argmin())
    data = {"t": times.tolist(), "start": start, "views": [view.as_read() for view in views]}
    notes = dict.fromkeys([*(note for view in views for note in view.notes), *missing])
    all_checks = [check for run_checks in checks_of_runs for check in run_checks]
    return filled(
        "report/page.html",
        title=escape(title),
        source=source_of_page(sols),
        style=part_of_page("report/page.css"),
        plotly=script,
        time=part_of_page("report/time.html"),
        kind="one" if len(sols) == 1 else "two",
        lead="".join(f"<p>{line}</p>" for line in paragraphs),
        verdict=_verdict(all_checks),
        state="good" if all(check.passed for check in all_checks) else "bad",
        measures="".join(_figure(view, "measure") for view in measures),
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
        curves="".join(_figure(view, view.kind) for view in over_time),
        stills="".join(embedded(figure, f"Figure of {title}", _DPI) for figure in stills),
        runs="".join(map(_about, labels, sols, checks_of_runs)),
        # "<" is escaped because the JSON stands inside a script element
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        program=part_of_page("report/figures.js"),
    )


def save(path: str | os.PathLike[str], *sols: Solution, names: Sequence[str] = "ab") -> None:
    """Write the page of a run, or of two.

    Parameters
    ----------
    path : str or path-like
        Ending in .html.
    *sols, names
        As of `page`.

    Raises
    ------
    ValueError
        As `page`, and if the suffix is another.
    OSError
        If it can't be written there.
    """
    write(check_path(path, (".html",), ".html"), page(*sols, names=names))


def write(place: Path, text: str) -> None:
    """Write the text of a page, whole or not at all.

    Raises
    ------
    OSError
        If it can't be written there.
    """
    remove_leftovers(place)
    with whole_file(place) as beside:
        beside.write_text(text, encoding="utf-8")


def source_of_page(sols: Sequence[Solution]) -> str:
    """The digest of the runs that a page was made from."""
    sources = [sol.source for sol in sols]
    return sources[0] if len(sols) == 1 else source_of("report", *sources)


def measure_views(
    sols: Sequence[Solution],
    labels: Sequence[str],
    saved: Array,
    room: int = _ROOM,
    shared: Look | None = None,
) -> tuple[Array, list[View]]:
    """The times of the slider, which all runs have saved, and figures of the measures.

    The figures have as many of these times as there is room for, in characters. They share a scale,
    that of the measures that are drawn if none is given.
    """
    saved = saved[thinned(len(saved), _MOST_TIMES)]
    chosen = [np.abs(sol.t - saved[:, None]).argmin(axis=1) for sol in sols]
    measures = [[sol.measures[i] for i in kept] for sol, kept in zip(sols, chosen, strict=True)]
    axis = next((saves[0].axis for saves in measures if saves[0].axis is not None), None)
    together = shared or look(list(chain(*measures)), _saves(sols), axis=axis)
    seen_from = measures[0][len(measures[0]) // 2]
    pictures = [view_of(saves, together, axis) for saves in measures]
    heaviest = max(weight(frame) for _, _, drawn, _ in pictures for frame in drawn)
    fit = thinned(len(saved), max(2, room // len(sols) // heaviest))
    times = saved[fit]
    views: list[View] = []
    for sol, label, saves, picture in zip(sols, labels, measures, pictures, strict=True):
        data, layout, drawn, said = picture
        if "scene" in layout:
            layout["scene"]["camera"]["eye"] = eye(seen_from)
        numbers = {"length of the mean": np.array([np.linalg.norm(saves[i].mean()) for i in fit])}
        if len(sols) > 1:
            layout["title"] = {"text": label, "x": 0.02, "y": 0.98, "yanchor": "top"}
        title, name = f"{label} measure".strip(), f"measure{len(views)}"
        if len(fit) < len(sol.t):
            note = f"The slider has {len(fit)} of {len(sol.t)} saved times"
            owner = f" of {label}: both runs have them" if label else "; the curves have more"
            said = (f"{note}{owner}.", *said)
        views.append(View(name, title, times, numbers, data, layout, [drawn[i] for i in fit], said))
    return times, views


def position_views(sols: Sequence[Solution], labels: Sequence[str], times: Array) -> list[View]:
    """Figures of the positions of tokens under a causal mask, at these times of the slider."""
    views: list[View] = []
    for sol, label in zip(sols, labels, strict=True):
        if not (saves := ordered_tokens(sol)):
            continue
        tokens = [saves[i] for i in np.abs(sol.t - times[:, None]).argmin(axis=1)]
        along = abscissa_of(_saves(sols))
        data, layout, frames_of_run, notes = positions_view(tokens, along)
        title, name = f"{label} positions".strip(), f"positions{len(views)}"
        layout["title"] = heading(title)
        angles = [mu.weights @ polar_angles(mu.points, mu.points[0]) for mu in tokens]
        numbers = {"mean angle to the first token": np.array(angles)}
        views.append(View(name, title, times, numbers, data, layout, frames_of_run, notes))
    return views


def _saves(sols: Sequence[Solution]) -> list[AnyMeasure]:
    """Return the measures of all runs: together they determine the point of view."""
    return list(chain.from_iterable(sol.measures for sol in sols))


def _outcome(sol: Solution) -> str:
    """Return, as HTML, what the run is, what f = 1 means, and how it ended."""
    start = sol.measures[0]
    sphere = {2: "the circle", 3: "the sphere S²"}.get(start.dim, f"the sphere in d = {start.dim}")
    kind = f"{len(start.weights)} tokens" if isinstance(start, Particles) else "a density f"
    symmetry = ", symmetric about an axis" if start.axis is not None else ""
    lines = [f"{dynamics_title(sol.dynamics)}: {kind} on {sphere}{symmetry}, from {_span(sol.t)}."]
    if terms := term_titles(sol.dynamics):
        lines.append(f"The terms are {_listed(f'({term})' for term in terms)}.")
    if not isinstance(start, Particles):
        lines.append("f is relative to the uniform measure, whose density is f = 1 everywhere.")
    if (name := energy_name(sol)) is not None:
        lines.append(_energy(sol, name))
    return as_html(" ".join([*lines, _clusters(sol.final)]))


def _energy(sol: Solution, name: str) -> str:
    """Say in words how the energy went, and between which bounds it must lie."""
    start, end = (f"{value:.4g}" for value in _known(sol, name)[[0, -1]])
    symbol, limits = sol.dataset[name].attrs["symbol"], bounds(sol, name)[:2]
    owner = "" if sol.energy is None else f" of {dynamics_title(sol.energy)}"
    change = "stays at" if start == end else f"goes from {start} to"
    ends = "; its bounds are {:.4g} and {:.4g}".format(*limits) if np.isfinite(limits).all() else ""
    return f"The energy {symbol}{owner} {change} {end}{ends}."


def _clusters(measure: AnyMeasure) -> str:
    """Say in words which clusters the last measure has, and their masses."""
    groups, scale = clusters(measure), f"{RADIUS:g} radian"
    if isinstance(measure, Particles) and len(groups) == len(measure.weights) > 1:
        return f"At the end no two tokens are in one cluster on the scale of {scale}."
    few = {0: "is no cluster", 1: "is one cluster"}
    count = few.get(len(groups), f"are {len(groups)} clusters")
    came = f"At the end there {count} on the scale of {scale}"
    if groups:
        more = ["…"] * (len(groups) > _MOST_NAMED)
        shares = [f"{100.0 * mass:.3g} %" for mass in groups.masses[:_MOST_NAMED]]
        came += f", with {_listed(shares + more)} of the mass"
    if groups and groups.outside >= _LEAST_OUTSIDE:
        came += f"; {100.0 * groups.outside:.3g} % of it is outside"
    return f"{came}."


def _listed(parts: Iterable[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    *others, last_part = parts
    return f"{', '.join(others)} and {last_part}" if others else last_part


def as_html(text: str) -> str:
    """Return a text as HTML, with its subscripts."""
    return subscripts(escape(text), "<sub>%s</sub>")


def _span(t: Array) -> str:
    return f"t = {t[0]:.4g} to {t[-1]:.4g}"


def _figure(view: View, kind: str) -> str:
    """Return a figure as HTML: its place, a description in words, and its numbers as a table."""
    # adding 0 turns -0 into 0
    columns = {name: values + 0.0 for name, values in view.numbers.items()}
    ends = [f"{name} from {values[0]:.4g} to {values[-1]:.4g}" for name, values in columns.items()]
    alternative = re.sub("</?sub>", "", f"{view.title}, from {_span(view.t)}: {'; '.join(ends)}")
    rows_kept = thinned(len(view.t), _MOST_TIMES)
    columns = {"t": view.t, **columns}
    # names are escaped, since a monitor or a variable of a file may have any name
    names = (re.sub("&lt;(/?sub)&gt;", r"<\1>", escape(name)) for name in columns)
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{values[i]:.8g}</td>" for values in columns.values()) + "</tr>"
        for i in rows_kept
    )
    return filled(
        "report/figure.html",
        kind=kind,
        name=view.name,
        told=escape(alternative),
        title=escape(view.title),
        head=head,
        rows=rows,
    )


def _about(label: str, sol: Solution, checked: list[Check]) -> str:
    """Return checks, facts, versions and case of a run as HTML.

    Of two runs, each opens at a click or if a check fails.
    """
    html = filled(
        "report/run.html",
        run=escape(label or "the run"),
        checks=_rows(checked),
        facts=rows_as_html(_facts(sol)),
        versions=rows_as_html(sol.versions),
        case=escape(_case(sol.case) or "This run was started without a case file."),
    )
    if not label:
        return html
    opens = "" if all(check.passed for check in checked) else "open"
    summary = f"<summary>{escape(label)}: checks, the run and its case</summary>"
    return f"<details {opens}>{summary}{html}</details>"


def _case(text: str) -> str:
    """Return a case without comments and without folders of its author."""
    try:
        return tomli_w.dumps(_without_folders(tomllib.loads(text)))
    except tomllib.TOMLDecodeError:
        return text


def _without_folders(value: object) -> Any:
    """Return values of a case or an attribute with only the file names of absolute paths."""
    match value:
        case dict():
            return {_without_folders(key): _without_folders(part) for key, part in value.items()}
        case list():
            return [_without_folders(part) for part in value]
        case str():
            paths = (kind(value) for kind in (PurePosixPath, PureWindowsPath))
            return next((path.name for path in paths if path.is_absolute()), value)
    return value


# the page shows these entries of the record elsewhere, or they mean nothing to a reader
_UNSHOWN = "source_sha256", "t_start", "t_end"


def _facts(sol: Solution) -> dict[str, str]:
    data, facts = sol.dataset, {}
    for name, value in data.attrs.items():
        if name not in _UNSHOWN:
            is_table = f"{value}".startswith("{")
            plain_value = _without_folders(json.loads(value) if is_table else value)
            facts[str(name)] = ", ".join(plain_value) if is_table else f"{plain_value}"
    counts = [name for name in ("steps", "evaluations") if name in data]
    return {
        "status": sol.message,
        "dynamics": repr(sol.dynamics),
        **({} if sol.energy is None else {"energy of": repr(sol.energy)}),
        "measure at the start": repr(sol.measures[0]),
        "measure at the end": repr(sol.final),
        **text.terms(sol),
        "saved times": f"{len(sol.t)}, from {_span(sol.t)}",
        **{name: f"{int(data[name].values[-1])}" for name in counts},
        **facts,
    }


def _verdict(checked: list[Check]) -> str:
    failed = [check.name for check in checked if not check.passed]
    if not failed:
        return f"✓ all {len(checked)} checks of the run hold"
    return escape(f"✗ {len(failed)} of {len(checked)} checks fail: {'; '.join(failed)}")


def _rows(checked: list[Check]) -> str:
    rows = []
    for check in checked:
        mark, state = ("✓", "good") if check.passed else ("✗", "bad")
        word = "holds" if check.passed else "fails"
        cells = (check.name, check.number, check.threshold, check.why)
        cells_html = "".join(f"<td>{as_html(cell)}</td>" for cell in cells)
        mark = f'<td class="mark"><span role="img" aria-label="{word}">{mark}</span></td>'
        rows.append(f'<tr class="{state}">{mark}{cells_html}</tr>')
    return "".join(rows)


def rows_as_html(entries: dict[str, str]) -> str:
    """A row of a table for each entry, its name at the left."""
    return "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
        for name, text in entries.items()
    )


def part_of_page(name: str) -> str:
    """The text of a file that pages are made of, by its name in `cli/`."""
    return (files("meanfield.cli") / name).read_text(encoding="utf-8")


def filled(name: str, /, **parts: str) -> str:
    """The text of such a file with these parts at their places."""
    return Template(part_of_page(name)).substitute(parts)


# figures in print have this resolution
_DPI = 150
# the page names the masses of at most so many clusters
_MOST_NAMED = 6
# the page mentions mass outside of clusters from this share on
_LEAST_OUTSIDE = 0.001
# sums over nodes and degrees in double precision have this relative error at most
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
    reason = "A run that stops early keeps its results so far."
    results = [Check("status", sol.status, " or ".join(GOOD), reason, sol.success)]
    if (error := text.defect(sol)) is not None:
        results.append(_balance(sol, error))
    # a run that failed at its start has no numbers
    if "mass" in sol.dataset:
        results.append(_mass(sol))
    if monotone := curves.monotone_energy(sol):
        results.append(_monotone(sol, *monotone))
    results += [
        _between(sol, name)
        for name in curves.drawn_energies(sol)
        if np.isfinite(bounds(sol, name)[:2]).all()
    ]
    if "tail" in sol.dataset and np.isfinite(sol.dataset["tail"].values).any():
        results.append(_resolution(sol))
    return results


def _known(sol: Solution, name: str) -> Array:
    """Return the finite numbers of a variable; a save that Ctrl-C cut short lacks some."""
    values: Array = sol.dataset[name].values
    # adding 0 turns -0 into 0
    return values[np.isfinite(values)] + 0.0


def _tolerance(sol: Solution) -> float:
    """Return the largest `tol` of the flow maps of a run, 0 if there are none."""
    return float(max(getattr(measure, "tol", 0.0) for measure in sol.measures))


def _per_step(sol: Solution) -> float:
    """Return the error in an energy that the tolerances allow: twice that of each step."""
    steps = float(sol.dataset["steps"].values[-1]) if "steps" in sol.dataset else len(sol.t)
    rtol = float(sol.dataset.attrs.get("rtol", 0.0))
    return 2.0 * (steps + 1.0) * max(rtol, _tolerance(sol)) + _ROUNDING


def _balance(sol: Solution, error: float) -> Check:
    # an energy that is 0 at a Dirac mass has no relative error
    names = with_role(sol.dataset, "share", "energy")
    allowed = _per_step(sol) * float(np.nanmax(np.abs(sol.dataset[names[0]].values)))
    symbol = sol.dataset[with_role(sol.dataset, "error")[0]].attrs["symbol"]
    reason = (
        "The energy is computed from the measure, the work from the velocity. They may differ by "
    )
    reason += "the tolerance of each step, in each of the two factors of the energy."
    divisor = f" / |{symbol}(δ)|" if with_role(sol.dataset, "share") else ""
    label = f"balance error |{symbol}(t) − {symbol}(0) − work|{divisor}"
    if "term_balance_error" in sol.dataset:
        # each error is relative to its term, whose size bounds the energy of the term; the energy
        # of a sum of terms that cancel is far smaller
        label, allowed = "balance error |E(t) − E(0) − work| / size of each term", _per_step(sol)
    return _below(label, error, allowed, reason)


def _mass(sol: Solution) -> Check:
    error = float(np.abs(1.0 - sol.dataset["mass"].values).max())
    allowed = max(_LEAST_MASS_ERROR, _tolerance(sol))
    reason = "Mass is conserved by construction, up to rounding"
    reason += " and the tolerance of meshes." if allowed > _LEAST_MASS_ERROR else "."
    return _below("mass error |1 − ∫ dμ|", error, allowed, reason)


def _monotone(sol: Solution, name: str, sign: int) -> Check:
    values, energy = _known(sol, name), sol.dataset[name].attrs["symbol"]
    back = float(np.max(-sign * np.diff(values), initial=0.0)) + 0.0
    allowed = _per_step(sol) * float(np.abs(values).max())
    verb = "rises" if sign > 0 else "falls"
    reason = f"The run is a gradient flow along which {energy} {verb}, up to its error."
    label = f"{energy} {verb}: largest step back"
    return _below(label, back, allowed, reason)


def _between(sol: Solution, name: str) -> Check:
    low, high, _, reason = bounds(sol, name)
    values = _known(sol, name)
    room = (_ROUNDING + 2.0 * _tolerance(sol)) * float(np.abs(values).max())
    passed = bool(values.min() >= low - room and values.max() <= high + room)
    interval = f"{values.min():.10g} … {values.max():.10g}"
    label = f"{sol.dataset[name].attrs['symbol']} between its bounds"
    return Check(label, interval, f"{low:.10g} … {high:.10g}", reason, passed)


def _resolution(sol: Solution) -> Check:
    tails, allowed = sol.dataset["tail"].values, curves.tolerances(sol)
    is_finite = np.isfinite(tails) & np.isfinite(allowed)
    worst = int(np.argmax(np.where(is_finite, tails / allowed, -1.0)))
    kinds = [hasattr(measure, "space") for measure in sol.measures]
    reason = "Norm of the last tenth of the spectrum: an estimate of the error made at this time. "
    reason += "After a doubling the error made before remains; this is the largest tail."
    if not any(kinds):
        reason = "The tail of a panel's positions times its mass: the error of the moments."
    elif not all(kinds):
        reason = "Spectral tails of the density, then tails of the panels; the largest at t = "
        reason += f"{sol.t[worst]:.4g}."
    return _below("tail", float(tails[worst]), float(allowed[worst]), reason)


def _below(name: str, number: float, allowed: float, why: str) -> Check:
    number_text, limit = tell_apart(number, allowed)
    return Check(name, number_text, f"≤ {limit}", why, bool(number <= allowed))
