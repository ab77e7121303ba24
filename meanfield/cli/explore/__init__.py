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
from meanfield.cli.report.view import View, packed, places
from meanfield.evolution import Solution
from meanfield.evolution.recorder import with_role
from meanfield.measures import AnyMeasure, Particles
from meanfield.measures.clusters import clusters
from meanfield.plot.curves import followed_beta
from meanfield.plot.frames import BLUE, GREEN, SKY, subscripts
from meanfield.spaces import geometry
from meanfield.typing import Array

# seconds between two words of how far a run is
_BETWEEN_WORDS = 0.3
# characters of the figures of a measure, which go no farther than this machine
_ROOM = 20_000_000
# bytes of a request: controls have a line of text at most
_LONGEST_REQUEST = 1 << 16
# keys of a case, or "bumps", "kappa", "n" and "dim" for tables and tokens, with their titles; then
# options, or what a slider begins with, its ends and its step
CONTROLS: dict[str, tuple[Any, ...]] = {
    "law.bumps": ("number of bumps (0: the law of the case)", 3, 0, 8, 1),
    "law.kappa": ("concentration κ of the bumps", 4, 0.5, 40, 0.5),
    "measure.type": ("measure", "Density", "FlowMap"),
    "measure.dim": ("dimension d", 2, 2, 16, 1),
    "dynamics.type": ("dynamics", "SA", "USA", "DoublyStochastic", "Interaction"),
    "dynamics.kernel": ("Taylor coefficients of the kernel s", "1, 1, 0.5"),
    "dynamics.beta": ("inverse temperature β", 4, 0, 12, 0.1),
    "dynamics.sign": ("sign, 1 attractive, -1 repulsive", 1, -1, 1, 2),
    "dynamics.noise": ("noise τ", 0, 0, 0.3, 0.005),
    "run.t_end": ("run until t", 3, 0.1, 20, 0.1),
    "run.n": ("tokens over it, n", 100, 0, 500, 10),
}
# which a request may not have larger than the page has them
_SIZES = "law.bumps", "measure.dim", "run.n"


def law_table(dim: int, number: int, kappa: float) -> dict[str, Any]:
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


def measure_table(dim: int, kind: str) -> dict[str, Any]:
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


def energy_of(sol: Solution) -> tuple[Array, str]:
    """The energy at the saves, as a share where it has one, and what it is called."""
    for name in with_role(sol.dataset, "share", "energy"):
        return sol.dataset[name].values, sol.dataset[name].attrs["symbol"]
    return np.full(len(sol.t), np.nan), "no energy"


def lay_over(view: View, tokens: Sequence[AnyMeasure], axis: Array | None) -> None:
    """Tokens over the picture of a measure: dots on a sphere, strokes at their angles on a line."""
    dots: dict[str, Any] = {"mode": "markers", "hoverinfo": "skip", "name": "tokens"}
    if "scene" in view.layout:
        dots |= {"type": "scatter3d", "marker": {"color": SKY, "size": 3.5}}
        shown = [places(POINT_RADIUS * some.points) for some in tokens]
    else:
        stroke = {"symbol": "line-ns-open", "size": 12, "color": GREEN}
        dots |= {"type": "scatter", "marker": stroke, "yaxis": "y2"}
        angles_of = (
            geometry.circle_angles if axis is None else partial(geometry.polar_angles, axis=axis)
        )
        angles = [angles_of(some.points) for some in tokens]
        shown = [{"x": packed(some), "y": packed(np.full(len(some), 0.03))} for some in angles]
    for frame, some in zip(view.frames, shown, strict=True):
        frame[len(view.data)] = some
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
        self.base = case or Case(part_of_page("explore/case.toml"), name="case")
        given = tomllib.loads(self.base.to_toml())
        given["law"] = {"bumps": 0} if case else {}
        given["measure"]["dim"] = self.base._build_law()[0].dim
        parts = ((key, first, *key.split(".")) for key, (_, first, *_) in CONTROLS.items())
        self.start = {key: given[table].get(name, first) for key, first, table, name in parts}
        if isinstance(self.start["dynamics.beta"], dict):
            raise ValueError(
                f"dynamics.beta must be a number for a slider, got "
                f"{shown(self.start['dynamics.beta'])}"
            )
        self.start["dynamics.kernel"] = str(self.start["dynamics.kernel"]).strip("[]")
        # transforms have buffers of their own, so one run is made at a time
        self.lock = Lock()
        self._last: Any = None, None

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

    def moved(self, changed: Mapping[str, Any]) -> tuple[Case, dict[str, Any]]:
        """The case where some controls are moved, and of what use they are then.

        Raises
        ------
        ValueError
            If that is no case.
        """
        told = self._values(changed)
        dim, kind = told["measure.dim"], told["measure.type"]
        # about an axis there are two places for them
        most = CONTROLS["law.bumps"][3] if dim <= 3 else 2
        bumps = min(told["law.bumps"], most)
        fields = tables.TYPES[told["dynamics.type"]].model_fields
        unused = set() if bumps else {"law.kappa"}
        dynamics = (one.removeprefix("dynamics.") for one in told if one.startswith("dynamics."))
        unused |= {f"dynamics.{one}" for one in dynamics if one not in fields}
        used = [key for key in told if key not in unused]
        with suppress(ValueError):
            told["dynamics.kernel"] = toml_value(f"[{told['dynamics.kernel']}]")
        given = ("dynamics.", "run.t_end")
        changes = {key: told[key] for key in used if changed and key.startswith(given)}
        if changed and bumps:
            changes["law"] = law_table(dim, bumps, told["law.kappa"])
        at_start = self.start["measure.dim"]
        if dim != at_start and not bumps:
            raise ValueError(
                f"law.bumps must be >= 1 in d = {dim}, since the law of the case is one of "
                f"d = {at_start}, got 0"
            )
        if kind == "Particles":
            # tokens of any law have their dimension from it, and need a number where it has none
            is_other = "law" in changes and "n" not in tomllib.loads(self.base.to_toml())["measure"]
        else:
            is_other = (dim, kind) != (at_start, self.start["measure.type"])
        if is_other:
            changes["measure"] = measure_table(dim, kind)
        text = overridden(self.base.to_toml(), changes, "case")
        case = Case(text, folder=self.base._folder, name="case")
        return case, {"toml": text, "used": used, "bumps": most}

    def _values(self, changed: Any) -> dict[str, Any]:
        """The values of all controls, where some are moved.

        Raises
        ------
        ValueError
            If one is none, a choice is not offered, or a size is beyond what the page has.
        """
        if not isinstance(changed, Mapping) or not {*changed} <= {*CONTROLS}:
            raise ValueError(f"controls must be {', '.join(CONTROLS)}, got {shown(changed)}")
        for key, value in changed.items():
            (_, first, *how), start = CONTROLS[key], self.start[key]
            if key.endswith(".type"):
                one_of(key, value, (start, first, *how))
            elif key in _SIZES:
                integer(key, value, low=min(how[0], start), high=max(how[1], start))
            elif how:
                number(key, value)
            elif not isinstance(value, str):
                raise ValueError(f"{key} must be a line of text, got {shown(value)}")
        return {**self.start, **changed}

    def run(
        self,
        changed: Mapping[str, Any],
        tell: Callable[[dict[str, Any]], None],
        check: Callable[[], None],
    ) -> None:
        """Tell the case, how far its run is now and then, and what the page shows of it.

        `check` is called at each step, and ends the run by what it raises.
        """
        due = time.monotonic() + _BETWEEN_WORDS

        def step(t: float) -> None:
            nonlocal due
            check()
            if time.monotonic() > due:
                due = time.monotonic() + _BETWEEN_WORDS
                tell({"said": f"t = {t:.3g} …"})

        try:
            case, about = self.moved(changed)
            tell(about)
            n = {**self.start, **changed}["run.n"]
            with self.lock:
                tell(self._shown(case, n, step))
        except (ValueError, ArithmeticError, MemoryError) as error:
            tell({"said": one_line(str(error)), "bad": True})

    def figure(self, changed: Mapping[str, Any], check: Callable[[], None]) -> bytes:
        """The figure of `meanfield plot`, as a PDF; `check` as in `run`."""
        case, _ = self.moved(changed)
        drawn = io.BytesIO()
        with self.lock:
            last, sol = self._last
            if last != case:
                sol = case._solve(monitors=None, progress=lambda _: check())
            plot.solution(sol).savefig(drawn, format="pdf")
        return drawn.getvalue()

    def _shown(self, case: Case, n: int, step: Callable[[float], None]) -> dict[str, Any]:
        """The measure, n tokens over it, energies, clusters, and numbers at each time."""
        sol = case._solve(monitors=None, progress=step)
        self._last = case, sol
        sols, names = [sol], [""]
        if n and not isinstance(sol.final, Particles):
            tokens = case.replace({"measure": {"type": "Particles", "n": n}})
            sols.append(tokens._solve(monitors=None, progress=step))
            names = ["measure", f"{n} tokens"]
        saved = reduce(np.intersect1d, [one.t for one in sols])
        t, views = measure_views([sol], [""], saved, _ROOM)
        for beside in sols[1:]:
            tokens_at = [beside.measures[i] for i in np.flatnonzero(np.isin(beside.t, t)).tolist()]
            lay_over(views[0], tokens_at, sol.measures[0].axis)
        energies, symbol = [energy_of(one)[0][np.isin(one.t, t)] for one in sols], energy_of(sol)[1]
        called = dict(zip(names, energies, strict=True))
        title = subscripts(f"{symbol}{followed_beta(sol)}", "<sub>%s</sub>")
        views.append(over_t("energy", title, t, called, {}, has_legend=len(sols) > 1))
        masses = []
        for time_of, measure in zip(sol.t, sol.measures, strict=True):
            step(time_of)
            if time_of in t:
                masses.append(clusters(measure).masses)
        dots = {
            "type": "scatter",
            "mode": "markers",
            "marker": {"color": BLUE, "size": 5},
            "x": packed(np.repeat(t, list(map(len, masses))), "f8"),
            "y": packed(np.concatenate(masses)),
        }
        scale = {"range": [0.0, 1.04]}
        views.append(over_t("clusters", "masses of clusters", t, {}, scale, further=[dots]))
        numbers = [
            _numbers({title: f"{energy:.6f}", "clusters": len(some), "masses": _listed(some)})
            for energy, some in zip(energies[0], masses, strict=True)
        ]
        notes = [note for view in views for note in view.notes]
        pictures = [view.as_read() for view in views]
        said = {"said": sol.message, "bad": not sol.success}
        return said | {"t": t.tolist(), "views": pictures, "numbers": numbers, "notes": notes}


def _listed(masses: Array) -> str:
    return " ".join(f"{mass:.3f}" for mass in masses[:5])


def _numbers(told: Mapping[str, Any]) -> str:
    return "".join(f"<div><dt>{name}</dt><dd>{one}</dd></div>" for name, one in told.items())


def _control(key: str, value: Any) -> str:
    """A control with its title, and what it begins with; a slider may begin beyond its ends."""
    (title, first, *how), shown = CONTROLS[key], escape(str(value))
    if key.endswith(".type"):
        options = dict.fromkeys([value, first, *how])
        made = "".join(f"<option>{escape(one)}</option>" for one in options)
        return f'<label>{title}<select name="{key}">{made}</select></label>'
    if not how:
        return f'<label>{title}<input name="{key}" type="text" value="{shown}"></label>'
    low, high, step = min(how[0], value), max(how[1], value), how[2]
    slider = f'<input name="{key}" type="range" min="{low}" max="{high}" step="{step}"'
    return f'<label>{title}: <output>{shown}</output>{slider} value="{shown}"></label>'


class _Server(ThreadingHTTPServer):
    """The explorer at a port of this machine, for who has its token."""

    def __init__(self, explorer: Explorer, port: int) -> None:
        self.explorer, self.token, self.ends = explorer, secrets.token_urlsafe(32), False
        self.page = explorer.page().encode()
        super().__init__(("127.0.0.1", port), _Answer)

    def handle_error(self, *_: Any) -> None:
        """Say in a line what an answer failed by, and nothing of a page that has gone."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"meanfield: no answer: {one_line(repr(error))}\n")


class _Answer(BaseHTTPRequestHandler):
    """One answer, after which the connection is closed."""

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
        # a page that has moved on, or is closed, closes the connection
        with suppress(ConnectionError):
            if urlsplit(self.path).path == "/run":
                self._begin("application/x-ndjson")
                self.server.explorer.run(changed, self._tell, self._check)
                return
            try:
                drawn = self.server.explorer.figure(changed, self._check)
            except (ValueError, ArithmeticError, MemoryError) as error:
                self._begin("text/plain; charset=utf-8", 400)
                self.wfile.write(one_line(str(error)).encode())
            else:
                self._begin("application/pdf")
                self.wfile.write(drawn)

    def _sent(self) -> Any:
        """The JSON that a page has sent.

        Raises
        ------
        ValueError
            If it is no JSON, or longer than any page sends it.
        """
        length = int(self.headers.get("Content-Length", 0))
        integer("Content-Length", length, low=0, high=_LONGEST_REQUEST)
        return json.loads(self.rfile.read(length))

    def _may(self, *paths: str) -> bool:
        """Whether a page with the token asks for one of these; else it is told."""
        try:
            asked = urlsplit(self.path)
        except ValueError:
            self.send_error(400)
            return False
        token = parse_qs(asked.query).get("token", [""])[0].encode()
        if not secrets.compare_digest(token, self.server.token.encode()):
            self.send_error(403)
            return False
        if asked.path not in paths:
            self.send_error(404)
            return False
        return True

    def _begin(self, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def _tell(self, line: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def _check(self) -> None:
        if self.server.ends or select([self.connection], [], [], 0.0)[0]:
            raise ConnectionAbortedError("the page has closed its connection")

    def log_message(self, *_: Any) -> None:
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
        there = escape(address)
        page.write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><title>meanfield</title>'
            f'<meta http-equiv="refresh" content="0; url={there}">'
            f'<a href="{there}">The explorer</a>\n',
            "utf-8",
        )
        yield page.as_uri()


def serve(case: Case | None, port: int, ready: Callable[[str], Any]) -> None:
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
        # the program ends between two steps, and no other run begins
        server.ends = True
        server.explorer.lock.acquire()
