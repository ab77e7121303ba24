"""The explorer: a page on this machine whose controls move a case and its pictures."""

from __future__ import annotations

import io
import json
import secrets
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from select import select
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from meanfield import plot
from meanfield._checks import integer, number, one_line, one_of, shown
from meanfield.cli import tables
from meanfield.cli.case import Case, overridden, toml_value
from meanfield.cli.report.curves import over_t
from meanfield.cli.report.document import filled, measure_views, part_of_page, plotly_script
from meanfield.cli.report.measures import POINT_RADIUS
from meanfield.cli.report.view import Part, View, packed, places
from meanfield.evolution import Solution
from meanfield.evolution.checkpoint import Checkpoint
from meanfield.evolution.loop import solve
from meanfield.evolution.recorder import with_role
from meanfield.evolution.run import Run
from meanfield.measures import AnyMeasure, Particles
from meanfield.measures.clusters import clusters
from meanfield.plot.curves import followed_beta
from meanfield.plot.frames import BLUE, GREEN, SKY, subscripts
from meanfield.plot.panels import look
from meanfield.spaces import geometry
from meanfield.typing import Array

# the explorer reports every so many seconds, and shows its first picture after this time
_BETWEEN_WORDS = 0.3
# on S² the preview is a series of bounded degree, which takes a second; the flow map takes many
_SERIES = {"type": "Density", "space": {"type": "Sphere", "lmax": 31}}
_PREVIEW = {
    "measure": _SERIES | {"tail_tol": 1e-2, "max_size": 127},
    "run.rtol": 1e-4,
    "run.atol": 1e-7,
    "run.on_unresolved": "stop",
}
# the figures of a measure may take this many characters: they stay on this machine
_ROOM = 20_000_000
# a request of more bytes than this is refused: a page sends a line of text for each control
_LONGEST_REQUEST = 1 << 16
# keys of a case, or "bumps", "kappa", "n" and "dim" for tables and tokens, with their titles; then
# the words of a choice, or what a slider begins with, its ends and its step
CONTROLS: dict[str, tuple[Any, ...]] = {
    "law.bumps": ("number of bumps (0: the law of the case)", 3, 0, 8, 1),
    "law.kappa": ("concentration κ of the bumps", 4, 0.5, 40, 0.5),
    "measure.type": ("measure", "Density", "FlowMap"),
    "measure.dim": ("dimension d", 2, 2, 16, 1),
    "dynamics.type": ("dynamics", "SA", "USA", "DoublyStochastic", "Interaction"),
    "dynamics.kernel": ("Taylor coefficients of the kernel s", "1, 1, 0.5"),
    "dynamics.beta": ("inverse temperature β", 4, 0, 12, 0.1),
    "dynamics.betas": ("every β of the case, times", 1, 0, 3, 0.05),
    "dynamics.sign": ("sign, 1 attractive, -1 repulsive", 1, -1, 1, 2),
    "dynamics.noise": ("noise τ", 0, 0, 0.3, 0.005),
    "run.t_end": ("run until t", 3, 0.1, 20, 0.1),
    "run.n": ("number n of tokens", 100, 0, 500, 10),
}
# a request must keep these numbers within the sliders, since they set the size of a run
_SIZES = "law.bumps", "measure.dim", "run.n"


def law_table(dim: int, number: int, kappa: float) -> Part:
    """The law of a case: bumps, each of 0.8 times the mass of the one before.

    Examples
    --------
    >>> law_table(3, 1, 4.0)["laws"]
    [{'type': 'VonMisesFisher', 'mean': [...], 'kappa': 4.0}]
    """
    count = np.arange(number)
    turns = 0.3 + np.pi * (3.0 - 5.0**0.5) * count
    means = geometry.sphere_points(np.arccos(1.0 - (2.0 * count + 1.0) / number), turns)
    if dim != 3:
        poles = np.outer([1, -1][:number], np.eye(dim)[-1])
        means = geometry.circle_points(turns) if dim == 2 else poles
    laws = [{"type": "VonMisesFisher", "mean": x, "kappa": kappa} for x in means.tolist()]
    masses = 0.8 ** count[: len(laws)]
    return {"type": "Mixture", "laws": laws, "weights": masses.tolist(), "unit_mass": True}


def measure_table(dim: int, kind: str) -> Part:
    """The measure of a case, small at first: a density grows where it has to."""
    if kind == "Particles":
        return {"type": kind, "n": CONTROLS["run.n"][1]}
    axis = {"axis": np.eye(dim)[-1].tolist()} if dim > 3 else {}
    if kind == "FlowMap":
        return {"type": kind, **axis} | ({"tol": 1e-3} if dim == 3 else {})
    space = {"type": "Zonal", "dim": dim, "kmax": 63, **axis}
    if dim <= 3:
        space = {"type": "Circle", "n": 128} if dim == 2 else {"type": "Sphere", "lmax": 31}
    return {"type": kind, "space": space} | ({"max_size": 63} if dim == 3 else {})


def multiplied(table: object, factor: float) -> object:
    """A table of a dynamics with every β in it multiplied, those of its terms and layers, too.

    Examples
    --------
    >>> multiplied({"terms": [{"type": "SA", "beta": 4.0}, {"type": "USA", "beta": 1.0}]}, 0.5)
    {'terms': [{'type': 'SA', 'beta': 2.0}, {'type': 'USA', 'beta': 0.5}]}
    """
    match table:
        case list():
            return [multiplied(entry, factor) for entry in table]
        case dict():
            changed = {key: multiplied(entry, factor) for key, entry in table.items()}
        case _:
            return table
    match table.get("beta"):
        case {"values": values}:
            changed["beta"] = {**table["beta"], "values": [factor * value for value in values]}
        case float() | int() as beta:
            changed["beta"] = factor * beta
    return changed


def preview_of(case: Case) -> Case | None:
    """On S² a case that is run within seconds for a first look; None where the case itself is."""
    measure = case.build()[0]
    is_on_sphere = measure.dim == 3 and measure.axis is None
    is_slow = is_on_sphere and case.tables.measure.made is not Particles
    return case.replace(_PREVIEW) if is_slow else None


# a line of the answer to a page is told by it
_Tell = Callable[[Part], None]
# the runs of a measure and of tokens over it; the masses of clusters at each save of the first run
_Solved = tuple[list[Solution], list[Array]]


class _Saves(Checkpoint):
    """A checkpoint that keeps masses of clusters, and shows the run at intervals that double."""

    def __init__(self, step: Callable[[float], None], show: Callable[[Solution], None]) -> None:
        super().__init__(None)
        self.masses: list[Array] = []
        self._step, self._show, self._start = step, show, time.monotonic()
        self._due = self._start + _BETWEEN_WORDS

    def gather(self, t: float, measures: Sequence[AnyMeasure]) -> None:
        """Find the clusters of measures that are new, up to that of time t."""
        for measure in measures[len(self.masses) :]:
            self._step(t)
            self.masses.append(clusters(measure).masses)

    def keep(self, run: Run) -> None:
        """Show what the run has, but for the last save: then the whole run is shown."""
        super().keep(run)
        self.gather(run.system.t, run.recorder.measures)
        if run.system.t < run.plan.times[-1] and time.monotonic() >= self._due:
            self._show(run.solution("interrupted", "", None))
            now = time.monotonic()
            self._due = now + (now - self._start)


def energy_of(sol: Solution) -> tuple[Array, str]:
    """The energy at the saves, as a share where it has one, and what it is called."""
    for name in with_role(sol.dataset, "share", "energy"):
        return sol.dataset[name].values, sol.dataset[name].attrs["symbol"]
    return np.full(len(sol.t), np.nan), "no energy"


def lay_over(view: View, tokens: Sequence[AnyMeasure], axis: Array | None) -> None:
    """Tokens over the picture of a measure: dots on a sphere, strokes at their angles on a line."""
    dots: Part = {"mode": "markers", "hoverinfo": "skip", "name": "tokens"}
    if "scene" in view.layout:
        dots |= {"type": "scatter3d", "marker": {"color": SKY, "size": 3.5}}
        clouds = [places(POINT_RADIUS * cloud.points) for cloud in tokens]
    else:
        stroke = {"symbol": "line-ns-open", "size": 12, "color": GREEN}
        dots |= {"type": "scatter", "marker": stroke, "yaxis": "y2"}
        to_axis = None if axis is None else partial(geometry.polar_angles, axis=axis)
        angles = [(to_axis or geometry.circle_angles)(cloud.points) for cloud in tokens]
        clouds = [{"x": packed(cloud), "y": packed(np.full(len(cloud), 0.03))} for cloud in angles]
    for frame, cloud in zip(view.frames, clouds, strict=True):
        frame[len(view.data)] = cloud
    view.data.append(dots)


class Explorer:
    """A case, the controls of its page, and what the page shows where they are moved.

    Parameters
    ----------
    case : Case, optional
        What the controls begin with; bumps on the circle if omitted.

    Attributes
    ----------
    start : dict
        What each control begins with.
    """

    def __init__(self, case: Case | None = None) -> None:
        self.base = case or Case(_start_text(), name="case")
        raw = tomllib.loads(self.base.to_toml())
        raw["law"] = {"bumps": 0} if case else {}
        raw["measure"]["dim"] = self.base.build_law()[0].dim
        raw["run"] |= {"n": raw["measure"]["n"]} if "n" in raw["measure"] else {}
        keys = ((key, first, *key.split(".")) for key, (_, first, *_) in CONTROLS.items())
        self.start = {key: raw[table].get(name, first) for key, first, table, name in keys}
        self._case_tables = raw
        # a schedule of numbers fits no slider, so the case keeps it
        self._fixed = {key for key, value in self.start.items() if isinstance(value, dict)}
        self.start |= {key: CONTROLS[key][1] for key in self._fixed}
        dynamics = raw["dynamics"]
        has_number = "beta" in dynamics and "dynamics.beta" not in self._fixed
        if has_number or multiplied(dynamics, 2.0) == dynamics:
            self._fixed.add("dynamics.betas")
        self.start["dynamics.kernel"] = str(self.start["dynamics.kernel"]).strip("[]")
        # a transform reuses its own buffers, so only one run is made at a time
        self.lock = Lock()
        self._last: tuple[Case | None, int, _Solved] = None, 0, ([], [])

    def page(self) -> str:
        """The page, which asks for all that it shows."""
        return filled(
            "explore/page.html",
            style=part_of_page("report/page.css") + part_of_page("explore/page.css"),
            controls="\n".join(_control(key, value) for key, value in self.start.items()),
            plotly=plotly_script(),
            time=part_of_page("report/time.html"),
            program=part_of_page("report/figures.js") + part_of_page("explore/page.js"),
        )

    def moved(self, changed: Mapping[str, object]) -> tuple[Case, Part]:
        """The case where some controls are moved, and of what use they are then.

        Raises
        ------
        ValueError
            If that is no case.
        """
        settings = self._values(changed)
        dim, kind = settings["measure.dim"], settings["measure.type"]
        # bumps about an axis can stand at two places only, its poles
        most_bumps = CONTROLS["law.bumps"][3] if dim <= 3 else 2
        bumps = min(settings["law.bumps"], most_bumps)
        unused = set() if bumps else {"law.kappa"}
        table = tables.TYPES[settings["dynamics.type"]]
        known = {f"dynamics.{name}" for name in (*table.model_fields, "betas")}
        unused |= {key for key in settings if key.startswith("dynamics.") and key not in known}
        is_as_at_start = settings["dynamics.type"] == self.start["dynamics.type"]
        unused |= self._fixed if is_as_at_start else {"dynamics.betas"}
        has_count = "n" in self._case_tables["measure"] or bumps
        if kind == self.start["measure.type"] == "Particles" and not has_count:
            unused.add("run.n")
        used = [key for key in settings if key not in unused]
        with suppress(ValueError):
            settings["dynamics.kernel"] = toml_value(f"[{settings['dynamics.kernel']}]")
        factor, changes = settings.pop("dynamics.betas"), dict[str, object]()
        if "dynamics.betas" in used and factor != 1:
            number("dynamics.betas", factor, low=0)
            changes["dynamics"] = multiplied(self._case_tables["dynamics"], factor)
        if changed:
            moved = [key for key in used if key.startswith(("dynamics.", "run.t_end"))]
            changes |= {key: settings[key] for key in moved if key in settings}
        if changed and bumps:
            changes["law"] = law_table(dim, bumps, settings["law.kappa"])
        at_start = self.start["measure.dim"]
        if dim != at_start and not bumps:
            why = f"since the law of the case is one of d = {at_start}"
            raise ValueError(f"law.bumps must be >= 1 in d = {dim}, {why}, got 0")
        is_other = (dim, kind) != (at_start, self.start["measure.type"])
        if kind == "Particles":
            # a law of points has its own number of tokens; other laws need one
            is_other = "law" in changes and "n" not in self._case_tables["measure"]
        if is_other:
            changes["measure"] = measure_table(dim, kind)
        if kind == "Particles" and "run.n" in changed and "run.n" in used:
            changes["measure.n"] = settings["run.n"]
        text = overridden(self.base.to_toml(), changes, "case")
        case = Case(text, folder=self.base.folder, name="case")
        return case, {"toml": text, "used": used, "bumps": most_bumps}

    def _values(self, changed: object) -> dict[str, Any]:
        """Return the values of all controls after some are moved.

        Raises
        ------
        ValueError
            If one is none, a choice is not offered, or a size is beyond what the page has.
        """
        if not isinstance(changed, Mapping) or not {*changed} <= {*CONTROLS}:
            raise ValueError(f"controls must be {', '.join(CONTROLS)}, got {shown(changed)}")
        for key, value in changed.items():
            (_, default, *how), start = CONTROLS[key], self.start[key]
            if key.endswith(".type"):
                one_of(key, value, (start, default, *how))
            elif key in _SIZES:
                integer(key, value, low=min(how[0], start), high=max(how[1], start))
            elif how:
                number(key, value)
            elif not isinstance(value, str):
                raise ValueError(f"{key} must be a line of text, got {shown(value)}")
        return {**self.start, **changed}

    def run(
        self,
        changed: Mapping[str, object],
        tell: _Tell,
        check: Callable[[], None],
        is_log: bool | None = None,
    ) -> None:
        """Tell the case, how far its run is now and then, and what the page shows of it.

        Where a run takes long, its saves are told as they come, and on S² a preview goes before it.
        `check` is called at each step, and ends the run by what it raises. The scale of densities
        is logarithmic or linear as `is_log` has it, or as fits the run. The last line has `done`.
        """
        due, phase = time.monotonic() + _BETWEEN_WORDS, ""

        def step(t: float) -> None:
            nonlocal due
            check()
            if time.monotonic() > due:
                due = time.monotonic() + _BETWEEN_WORDS
                tell({"said": f"{phase}t = {t:.3g} …"})

        def show(picture: Part) -> None:
            tell(picture | {"early": True, "said": f"{phase}t = {picture['t'][-1]:.3g} …"})

        try:
            case, controls = self.moved(changed)
            tell(controls)
            n = self._values(changed)["run.n"]
            with self._turn(check, tell):
                last_case, count, solved = self._last
                if (last_case, count) != (case, n):
                    refined = ""
                    if (rough := preview_of(case)) is not None:
                        phase = "preview, "
                        # a preview may fail where the full run works
                        with suppress(ValueError, ArithmeticError):
                            picture = _picture(*_solved(rough, n, step, show, is_log), is_log)
                            refined = f"preview up to t = {picture['t'][-1]:.3g}, refined now: "
                            tell(picture | {"said": f"{refined}…", "bad": False})
                    phase = refined
                    solved = _solved(case, n, step, _nothing if refined else show, is_log)
                    self._last = case, n, solved
                tell(_picture(*solved, is_log) | {"done": True})
        except (ValueError, ArithmeticError, MemoryError) as error:
            tell({"said": one_line(str(error)), "bad": True, "done": True})

    def figure(self, changed: Mapping[str, object], check: Callable[[], None]) -> bytes:
        """The figure of `meanfield plot`, as a PDF; `check` as in `run`."""
        case, _ = self.moved(changed)
        buffer = io.BytesIO()
        with self._turn(check, _nothing):
            last_case, _, solved = self._last
            if last_case == case:
                sol = solved[0][0]
            else:
                sol = case.solve(monitors=None, progress=lambda _: check())
            plot.solution(sol).savefig(buffer, format="pdf")
        return buffer.getvalue()

    @contextmanager
    def _turn(self, check: Callable[[], None], tell: _Tell) -> Iterator[None]:
        """Hold the lock of runs in the body, and tell a page that has to wait."""
        if not self.lock.acquire(blocking=False):
            tell({"said": "waits until a run before it ends …"})
            while not self.lock.acquire(timeout=_BETWEEN_WORDS):
                check()
        try:
            yield
        finally:
            self.lock.release()


def _solved(
    case: Case, n: int, step: Callable[[float], None], show: _Tell, is_log: bool | None
) -> _Solved:
    """Return the runs of the measure and of n tokens over it, and the masses of clusters.

    Pictures of the saves that are there are shown meanwhile.
    """
    sols: list[Solution] = []
    if n and case.tables.measure.made is not Particles:
        tokens = case.replace({"measure": {"type": "Particles", "n": n}})
        sols.append(tokens.solve(monitors=None, progress=step))
    saves = _Saves(step, lambda sol: show(_picture([sol, *sols], saves.masses, is_log)))
    with case.errors("run"):
        measure, dynamics, keywords = case.build()
        run_keywords = {"monitors": None, "progress": step, "checkpoint": saves}
        sol = solve(measure, dynamics, **keywords | run_keywords)
    # a run that ends early has one save more than were gathered
    saves.gather(float(sol.t[-1]), sol.measures)
    return [sol, *sols], saves.masses


def _picture(sols: list[Solution], masses: list[Array], is_log: bool | None) -> Part:
    """Return the picture of runs for a page: measure, tokens, energies, clusters, numbers."""
    sol = sols[0]
    names = ["measure", *(f"{len(run.final.weights)} tokens" for run in sols[1:])]
    saved = reduce(np.intersect1d, [run.t for run in sols])
    shared = look(sol.measures, sol.measures, is_log)
    t, views = measure_views([sol], [""], saved, _ROOM, shared)
    for beside in sols[1:]:
        tokens_at = [beside.measures[i] for i in np.flatnonzero(np.isin(beside.t, t)).tolist()]
        lay_over(views[0], tokens_at, sol.measures[0].axis)
    energies, symbol = [energy_of(run)[0][np.isin(run.t, t)] for run in sols], energy_of(sol)[1]
    named_energies = dict(zip(names if sols[1:] else [""], energies, strict=True))
    title = subscripts(f"{symbol}{followed_beta(sol)}", "<sub>%s</sub>")
    views.append(over_t("energy", title, t, named_energies, {}, has_legend=len(sols) > 1))
    cluster_masses = [masses[i] for i in np.flatnonzero(np.isin(sol.t, t)).tolist()]
    dots = {"type": "scatter", "mode": "markers", "marker": {"color": BLUE, "size": 5}}
    dots |= {"x": packed(np.repeat(t, list(map(len, cluster_masses))), "f8")}
    dots |= {"y": packed(np.concatenate(cluster_masses))}
    scale = {"range": [0.0, 1.04]}
    views.append(over_t("clusters", "masses of clusters", t, {}, scale, further=[dots]))
    for view in views[1:]:
        # the axis shows all times to t_end, also those not yet reached
        along, t_end = view.layout["xaxis"], float(sol.dataset.attrs["t_end"])
        in_powers = along.get("type") == "log"
        start, end = (along["range"][0], float(np.log10(t_end))) if in_powers else (t[0], t_end)
        along["range"] = [start, end]
    numbers = []
    for energy, shares in zip(energies[0], cluster_masses, strict=True):
        entries = {title: f"{energy:.6f}"} if np.isfinite(energy) else {}
        numbers.append(
            _numbers(entries | {"clusters": f"{len(shares)}", "masses": _listed(shares)})
        )
    notes = [note for view in views for note in view.notes]
    pictures = [view.as_read() for view in views]
    answer = {"said": sol.message, "bad": not sol.success, "log": bool(shared.scale.vmin)}
    return answer | {"t": t.tolist(), "views": pictures, "numbers": numbers, "notes": notes}


def _nothing(_: object) -> None:
    """Ignore a picture: a run that shows none calls this."""


def _start_text() -> str:
    """Return the case that a page begins with, whose law comes from the controls."""
    bumps, kappa = (CONTROLS[key][1] for key in ("law.bumps", "law.kappa"))
    law = {"law": law_table(2, bumps, float(kappa))}
    return overridden(part_of_page("explore/case.toml"), law, "case")


def _listed(masses: Array) -> str:
    return " ".join([f"{mass:.3f}" for mass in masses[:5]] + ["…"] * (len(masses) > 5))


def _numbers(entries: Mapping[str, str]) -> str:
    return "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in entries.items())


def _control(key: str, value: Any) -> str:
    """Return a control as HTML with its title and first value, which may lie outside its slider."""
    (title, default, *how), value_text = CONTROLS[key], escape(str(value))
    if key.endswith(".type"):
        words = dict.fromkeys([value, default, *how])
        choices = "".join(f"<option>{escape(word)}</option>" for word in words)
        return f'<label>{title}<select name="{key}">{choices}</select></label>'
    if not how:
        return f'<label>{title}<input name="{key}" type="text" value="{value_text}"></label>'
    low, high, step = min(how[0], value), max(how[1], value), how[2]
    slider = f'<input name="{key}" type="range" min="{low}" max="{high}" step="{step}"'
    return f'<label>{title}: <output>{value_text}</output>{slider} value="{value_text}"></label>'


class _Server(ThreadingHTTPServer):
    """The server of the explorer; it answers only those who have its token."""

    def __init__(self, explorer: Explorer, port: int) -> None:
        self.explorer, self.token, self.ends = explorer, secrets.token_urlsafe(32), False
        self.page = explorer.page().encode()
        super().__init__(("127.0.0.1", port), _Answer)

    def handle_error(self, *_: object) -> None:
        """Say in a line what an answer failed by, and nothing of a page that has gone."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"meanfield: no answer: {one_line(repr(error))}\n")


class _Answer(BaseHTTPRequestHandler):
    """The answer to one request; afterwards the connection is closed."""

    server: _Server

    def do_GET(self) -> None:
        """The page."""
        if self._may("/"):
            self._begin("text/html; charset=utf-8")
            self.wfile.write(self.server.page)

    def do_POST(self) -> None:
        """A run, line by line, or a figure, of the controls that were moved."""
        if not self._may("/run", "/figure"):
            return
        try:
            changed = self._sent()
        except (ValueError, RecursionError) as error:
            self.send_error(400, explain=one_line(str(error)))
            return
        # a page that is closed, or that asks for a newer run, closes the connection
        with suppress(ConnectionError):
            if urlsplit(self.path).path == "/run":
                self._begin("application/x-ndjson")
                log_option = parse_qs(urlsplit(self.path).query).get("log")
                is_log = log_option == ["true"] if log_option else None
                self.server.explorer.run(changed, self._tell, self._check, is_log)
                return
            try:
                image = self.server.explorer.figure(changed, self._check)
            except (ValueError, ArithmeticError, MemoryError) as error:
                self._begin("text/plain; charset=utf-8", 400)
                self.wfile.write(one_line(str(error)).encode())
            else:
                self._begin("application/pdf")
                self.wfile.write(image)

    def _sent(self) -> Any:
        """Return the JSON of a request.

        Raises
        ------
        ValueError
            If it is no JSON, or longer than any page sends it.
        """
        length = int(self.headers.get("Content-Length", 0))
        integer("Content-Length", length, low=0, high=_LONGEST_REQUEST)
        return json.loads(self.rfile.read(length))

    def _may(self, *paths: str) -> bool:
        """Return whether a request has the token and one of these paths; refuse it otherwise."""
        try:
            url = urlsplit(self.path)
        except ValueError:
            self.send_error(400)
            return False
        token = parse_qs(url.query).get("token", [""])[0].encode()
        is_known = secrets.compare_digest(token, self.server.token.encode())
        may = is_known and url.path in paths
        if not may:
            self.send_error(404 if is_known else 403)
        return may

    def _begin(self, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def _tell(self, line: Part) -> None:
        self.wfile.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def _check(self) -> None:
        if self.server.ends or select([self.connection], [], [], 0.0)[0]:
            raise ConnectionAbortedError("the page has closed its connection")

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal is the user's."""


@contextmanager
def door(address: str) -> Iterator[str]:
    """Inside, the address of a file that leads a browser on to another, which it keeps to itself.

    The address that a browser is started with can be seen by all users of this machine, and the
    file is read by this one alone.
    """
    with tempfile.TemporaryDirectory(prefix="meanfield-") as folder:
        page = Path(folder, "explore.html")
        page.touch(mode=0o600)
        link = escape(address)
        page.write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><title>meanfield</title>'
            f'<meta http-equiv="refresh" content="0; url={link}">'
            f'<a href="{link}">The explorer</a>\n',
            "utf-8",
        )
        yield page.as_uri()


def serve(case: Case | None, port: int, ready: Callable[[str], object]) -> None:
    """Serve the page to this machine alone, until Ctrl-C; `ready` is told its address.

    The address has a token, without which nothing is shown.

    Raises
    ------
    OSError
        If the port is taken.
    ValueError
        If plotly is not installed.
    """
    with _Server(Explorer(case), port) as server:
        with suppress(KeyboardInterrupt):
            ready(f"http://127.0.0.1:{server.server_port}/?token={server.token}")
            server.serve_forever()
        # the run under way ends at its next step; the lock is never released, so no other begins
        server.ends = True
        server.explorer.lock.acquire()
