"""The explorer: a page on this machine whose controls move a case and its pictures."""

from __future__ import annotations

import base64
import io
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import tomli_w
from bokeh import events, models
from bokeh.plotting import figure
from bokeh.server.server import Server
from bokeh.util.token import generate_session_id

from meanfield import plot
from meanfield._checks import one_line
from meanfield.cli import tables
from meanfield.cli.case import Case, overridden, toml_value
from meanfield.cli.explore.scene import LEAST, Scene, energy_of
from meanfield.evolution import Solution, solve
from meanfield.measures.clusters import clusters
from meanfield.plot.frames import BLUE, GREEN, ORANGE, QUARTERS
from meanfield.spaces.geometry import circle_points, sphere_points

# seconds that a run may take though a newer case waits, else none would end while one drags
_GRACE = 0.3
_SAVES = 40
_OWN, _BUMPS, _WAVE = "of the case", "bumps", "one harmonic"
# keys of a case, or "kind", "number", "n" and "dim" for tables and tokens, with their titles; then
# options, or the ends of a slider, what it begins with and its step
CONTROLS: dict[str, Any] = {
    "law.kind": ("law at t = 0", [_BUMPS, _WAVE]),
    "law.number": ("bumps, or degree of the harmonic", 1, 8, 3, 1),
    "law.kappa": ("concentration κ", 0.5, 40, 4, 0.5),
    "law.amplitude": ("amplitude", 0.01, 1, 0.1, 0.01),
    "measure.type": ("measure", ["Density", "FlowMap"]),
    "measure.dim": ("dimension d", 2, 16, 2, 1),
    "dynamics.type": ("dynamics", ["SA", "USA", "DoublyStochastic", "Interaction"]),
    "dynamics.kernel": ("Taylor coefficients of the kernel s", "1, 1, 0.5"),
    "dynamics.beta": ("inverse temperature β", 0, 12, 4, 0.1),
    "dynamics.sign": ("sign, 1 attractive, -1 repulsive", -1, 1, 1, 2),
    "dynamics.noise": ("noise τ", 0, 0.3, 0, 0.005),
    "run.t_end": ("run until t", 0.1, 20, 8, 0.1),
    "run.n": ("tokens over it, n", 0, 500, 100, 10),
}


def law_table(dim: int, kind: str, number: int, kappa: float, amplitude: float) -> dict[str, Any]:
    """The law of a case: bumps of unequal mass, or one harmonic over the uniform measure.

    Examples
    --------
    >>> law_table(2, "one harmonic", 2, 4.0, 0.1)
    {'type': 'FourierSeries', 'cos': [0.0, 0.1]}
    """
    wave, count = [0.0] * (number - 1) + [amplitude], np.arange(number)
    if kind == _WAVE and dim == 2:
        return {"type": "FourierSeries", "cos": wave}
    if kind == _WAVE:
        return {"type": "ZonalSeries", "coefficients": wave, "dim": dim}
    turns = 0.3 + np.pi * (3.0 - 5.0**0.5) * count
    means = sphere_points(np.arccos(1.0 - (2.0 * count + 1.0) / number), turns)
    if dim != 3:
        # about an axis there are two places for them
        means = circle_points(turns) if dim == 2 else np.outer([1, -1][:number], np.eye(dim)[-1])
    laws = [{"type": "VonMisesFisher", "mean": x, "kappa": kappa} for x in means.tolist()]
    masses = 0.8 ** np.arange(len(laws))
    return {"type": "Mixture", "laws": laws, "weights": (masses / masses.sum()).tolist()}


def measure_table(dim: int, kind: str) -> dict[str, Any]:
    """The measure of a case, small at first: a density grows where it has to."""
    axis = {"axis": np.eye(dim)[-1].tolist()} if dim > 3 else {}
    if kind == "FlowMap":
        return {"type": kind, **axis} | ({"tol": 1e-3} if dim == 3 else {})
    space = {"type": "Zonal", "dim": dim, "kmax": 63, **axis}
    if dim <= 3:
        space = {"type": "Circle", "n": 128} if dim == 2 else {"type": "Sphere", "lmax": 31}
    return {"type": kind, "space": space} | ({"max_size": 63} if dim == 3 else {})


def start() -> Case:
    """What the explorer begins with: three bumps on the circle, until they are clusters."""
    law, measure = law_table(2, _BUMPS, 3, 4.0, 0.1), measure_table(2, "Density")
    run, dynamics = {"t_end": 3.0, "save_at": _SAVES}, {"type": "SA", "beta": 4.0}
    case = {"law": law, "measure": measure, "dynamics": dynamics, "run": run}
    return Case(tomli_w.dumps(case), name="case")


_LINE, _DOT = {"line_color": BLUE, "line_width": 2}, {"line_width": 0, "size": 6, "fill_alpha": 0.7}
_THIN, _TOKENS = {"line_color": "white", "line_alpha": 0.3}, _DOT | {"fill_color": GREEN}
# figure, kind, columns and look of each glyph
GLYPHS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "globe": ("state", "image", "image x y dw dh", {}),
    "net": ("state", "multi_line", "xs ys", _THIN),
    "body": ("state", "patch", "x y", {"fill_color": BLUE, "fill_alpha": 0.4, "line_width": 0}),
    "outline": ("state", "line", "x y", _LINE),
    "uniform": ("state", "line", "x y", {"line_color": "#888888", "line_dash": "dotted"}),
    "stems": ("state", "line", "x y", _LINE | {"line_color": ORANGE}),
    "atoms": ("state", "scatter", "x y size", _DOT | {"size": "size", "fill_color": ORANGE}),
    "tokens": ("state", "scatter", "x y", _TOKENS),
    "map": ("history", "image", "image x y dw dh", {}),
    "paths": ("history", "multi_line", "xs ys", _THIN),
    "marks": ("history", "scatter", "x y", _TOKENS),
    "energy": ("energy", "line", "x y", _LINE),
    "dashed": ("energy", "line", "x y", _LINE | {"line_color": GREEN, "line_dash": "dashed"}),
    "masses": ("clusters", "scatter", "x y", _DOT | {"fill_color": BLUE}),
}
FIGURES: dict[str, dict[str, Any]] = {
    "state": {"x_range": (-1.6, 1.6), "y_range": (-1.6, 1.6), "min_border": 0},
    "history": {"x_range": (0, 1), "y_range": (0, 2.0 * np.pi), "y_axis_label": "angle θ"},
    "energy": {},
    "clusters": {"y_axis_label": "masses of clusters", "y_range": (0, 1.04)},
}
# what figures and their spans and colours have in common
_FIGURE: Any = {"toolbar_location": None, "tools": "", "sizing_mode": "stretch_both"}
_SPAN: Any = {"dimension": "height", "line_dash": "dotted", "line_color": "#888888"}
_BAR: Any = dict.fromkeys(("title_text_color", "major_label_text_color"), "#76828f")
_COLOURS: Any = {"palette": "Magma256", "nan_color": "rgba(0, 0, 0, 0)", "low": LEAST}


def _part(name: str) -> str:
    return (files("meanfield.cli.explore") / name).read_text("utf-8")


class Superseded(Exception):
    """A newer case waits."""


class Explorer:
    """One page: its controls, its pictures, the run that they show, and the thread that runs.

    Parameters
    ----------
    document : bokeh Document
    case : Case
        What the controls begin with.
    """

    def __init__(self, document: Any, case: Case) -> None:
        self.document, self.base, self.case = document, case, case
        self.scene: Any = None
        self.tokens: Solution | None = None
        self.changes: dict[str, Any] = {}
        self.asked, self.due, self.told = SimpleQueue[Any](), 0.0, 0.0
        self._add_controls()
        self._add_figures()
        document.title, document.template = "meanfield explore", _part("page.html")
        document.on_session_destroyed(lambda _: self.asked.put(None))
        document.add_periodic_callback(self._play, 80)
        Thread(target=self._work, daemon=True).start()
        self._ask()

    def _add_controls(self) -> None:
        given = {f"{name}.{key}": one for name, part in self.case._tables for key, one in part}
        given |= {"measure.dim": self.case._build_law()[0].dim}
        given |= {"law.kind": _BUMPS if self.case == start() else _OWN}
        self.controls: dict[str, Any] = {}
        for key, (title, *how) in CONTROLS.items():
            first = how[-2] if len(how) > 1 else how[0]
            value = first if given.get(key) is None else given[key]
            if key == "dynamics.kernel":
                made: Any = models.TextInput(value=str(value).strip("[]"))
            elif len(how) > 1:
                ends = {"start": min(how[0], value), "end": max(how[1], value)}
                made = models.Slider(value=value, step=how[3], **ends)
            else:
                options = list(dict.fromkeys([given.get(key, first[0]), *first]))
                made = models.Select(options=options, value=options[0])
            made.title, self.controls[key] = title, made
            made.on_change("value", partial(self._move, key.partition(".")[0]))
        buttons = [models.Button(label=f"save as {what}") for what in ("case", "figure")]
        for button, make in zip(buttons, (self._toml, self._pdf), strict=True):
            button.on_click(partial(self._download, button, make))
            button.js_on_change("tags", models.CustomJS(code=_part("download.js")))
        self.time = models.Slider(start=0, end=_SAVES, value=_SAVES // 2, step=1, show_value=False)
        self.time.on_change("value", lambda _attr, _old, _new: self._show())
        self.play, self.numbers, self.said = (
            models.Toggle(label="▶ play"),
            models.Div(),
            models.Div(),
        )
        rows: Any = models.Column(children=[*self.controls.values(), *buttons])
        parts = {"controls": rows, "time": self.time, "play": self.play}
        parts |= {"numbers": self.numbers, "said": self.said}
        for one in (*rows.children, *parts.values()):
            one.update(sizing_mode="stretch_width", stylesheets=[_part("widgets.css")])
        for name, one in parts.items():
            one.name = name
            self.document.add_root(one)

    def _add_figures(self) -> None:
        self.colours = models.LogColorMapper(**_COLOURS)
        self.figures: dict[str, Any] = {}
        for name, one in FIGURES.items():
            made: Any = figure(name=name, x_axis_label="t", **_FIGURE, **one)
            made.html_attributes = {"role": "img", "aria-label": name}
            self.figures[name] = made
            self.document.add_root(made)
        self.sources: dict[str, Any] = {}
        self.empty: dict[str, Any] = {
            name: {key: [] for key in one[2].split()} for name, one in GLYPHS.items()
        }
        for name, (where, glyph, _, look) in GLYPHS.items():
            self.sources[name] = models.ColumnDataSource(self.empty[name])
            look = look or {"color_mapper": self.colours}
            getattr(self.figures[where], glyph)(source=self.sources[name], **look)
        state, history, energy, masses = self.figures.values()
        masses.x_range = energy.x_range
        state.axis.visible = state.grid.visible = False
        state.on_event(events.Pan, self._turn)
        history.yaxis.ticker = QUARTERS[0]
        history.yaxis.major_label_overrides = dict(zip(*QUARTERS, strict=True))
        bar = models.ColorBar(title="f", width=8, color_mapper=self.colours, **_BAR)
        history.add_layout(bar, "right")
        self.now = [models.Span(**_SPAN) for _ in range(3)]
        for one, span in zip((history, energy, masses), self.now, strict=True):
            one.add_layout(span)

    def _move(self, table: str, _attr: str, _old: Any, _new: Any) -> None:
        """Change the keys of the case that the controls of a table tell, and run it."""
        told = {key: one.value for key, one in self.controls.items()}
        dim, law = told["measure.dim"], [told[key] for key in told if key.startswith("law.")]
        if table == "measure":
            self.changes["measure"] = measure_table(dim, told["measure.type"])
        if law[0] == _OWN:
            self.changes.pop("law", None)
        elif table in ("law", "measure"):
            self.changes["law"] = law_table(dim, *law)
        if table == "dynamics":
            told["dynamics.kernel"] = f"[{told['dynamics.kernel']}]"
            with suppress(ValueError):
                told["dynamics.kernel"] = toml_value(told["dynamics.kernel"])
            used = [key for key in told if key.startswith("dynamics.") and self._has(key)]
            self.changes |= {key: told[key] for key in used}
        if table == "run":
            self.changes["run.t_end"] = told["run.t_end"]
        self._ask()

    def _has(self, key: str) -> bool:
        """Whether a control is of use to the dynamics and the law as they are chosen."""
        dynamics, law = self.controls["dynamics.type"].value, self.controls["law.kind"].value
        unused = {_BUMPS: ["law.amplitude"], _WAVE: ["law.kappa"]}
        table, _, name = key.partition(".")
        if table == "law" and name != "kind":
            return law != _OWN and key not in unused[law]
        return table != "dynamics" or name in tables.TYPES[dynamics].model_fields

    def _ask(self) -> None:
        """Run the case as its keys are now."""
        for key, one in self.controls.items():
            one.visible = self._has(key)
        try:
            text = overridden(self.base.to_toml(), self.changes, "case")
            self.case = Case(text, folder=self.base._folder, name="case")
            self.asked.put((self.case, self.controls["run.n"].value))
        except ValueError as error:
            self._say(str(error), "bad")

    def _work(self) -> None:
        """The thread: do the last that is asked for, until that is None."""
        while (job := self.asked.get()) is not None:
            self.due = time.monotonic() + _GRACE
            try:
                self._run(*job)
            except Superseded:
                pass
            except (ValueError, ArithmeticError, MemoryError, OSError) as error:
                self._later(self._say, one_line(str(error)), "bad")

    def _run(self, case: Case, n: int) -> None:
        """Run a case, then tokens beside it, and find the clusters of each save."""
        self._check()
        scene, tokens = Scene(self._solved(case)), None
        self._later(self._take, scene, tokens)
        if n and not scene.is_tokens:
            tokens = self._solved(case.replace({"measure": {"type": "Particles", "n": n}}))
            self._later(self._take, scene, tokens)
        for measure in scene.sol.measures:
            self._check()
            scene.masses.append(clusters(measure).masses)
        self._later(self._take, scene, tokens)

    def _solved(self, case: Case) -> Solution:
        measure, dynamics, keywords = case._build()
        return solve(measure, dynamics, **keywords | {"monitors": None, "progress": self._check})

    def _check(self, t: float | None = None) -> None:
        """End what runs where a newer case waits, else tell how far it is, now and then."""
        now = time.monotonic()
        if not self.asked.empty() and now > self.due:
            raise Superseded
        if t is not None and now > max(self.told, self.due):
            self.told = now + _GRACE
            self._later(self._say, f"t = {t:.3g} …")

    def _later(self, do: Callable[..., None], *given: Any) -> None:
        """From the thread: have this done between two moves."""
        self.document.add_next_tick_callback(partial(do, *given))

    def _say(self, words: str, *kinds: str) -> None:
        self.said.update(text=words, render_as_text=True, css_classes=list(kinds))

    def _take(self, scene: Scene, tokens: Solution | None) -> None:
        """Show another run, at the time of the slider."""
        sol, history = scene.sol, self.figures["history"]
        scene.turn = self.scene.turn if self.scene else scene.turn
        self.scene, self.tokens = scene, sol if scene.is_tokens else tokens
        self._say(sol.message, *([] if sol.success else ["bad"]))
        self.colours.high = scene.high
        history.x_range.update(start=sol.t[0], end=sol.t[-1])
        history.axis.visible = self.now[0].visible = not scene.is_globe
        energy, self.figures["energy"].yaxis.axis_label = energy_of(sol)
        shown = scene.whole(self.tokens) | {"energy": {"x": sol.t, "y": energy}}
        if tokens:
            shown["dashed"] = {"x": tokens.t, "y": energy_of(tokens)[0]}
        self._draw(self.empty | shown)
        self.time.update(end=len(sol.t) - 1, value=min(self.time.value, len(sol.t) - 1))
        self._show()

    def _draw(self, pictures: dict[str, Any]) -> None:
        for name, columns in pictures.items():
            self.sources[name].data = columns

    def _show(self) -> None:
        """The measure and its numbers at the time of the slider."""
        if self.scene:
            i, sol = int(self.time.value), self.scene.sol
            self._draw(self.scene.at(i, self.tokens))
            for span in self.now:
                span.location = sol.t[i]
            energy, name = energy_of(sol)
            numbers = {"t": f"{sol.t[i]:.4g}", name: f"{energy[i]:.6f}"}
            for masses in self.scene.masses[i : i + 1]:
                shares = " ".join(f"{mass:.3f}" for mass in masses[:5])
                numbers |= {"clusters": str(len(masses)), "masses": shares}
            cells = (f"<div><dt>{key}</dt><dd>{one}</dd></div>" for key, one in numbers.items())
            self.numbers.text = f"<dl>{''.join(cells)}</dl>"

    def _turn(self, event: Any) -> None:
        """Turn the globe as it is dragged."""
        a, b = self.scene.turn
        tilt = float(np.clip(b - event.delta_y / 200.0, -1.5, 1.5))
        self.scene.turn = a - event.delta_x / 200.0, tilt
        self._show()

    def _play(self) -> None:
        if self.play.active:
            self.time.value = (self.time.value + 1) % (self.time.end + 1)

    def _toml(self) -> tuple[str, bytes]:
        return "case.toml", self.case.to_toml().encode()

    def _pdf(self) -> tuple[str, bytes]:
        """The figure of the run, as `meanfield plot` draws it."""
        file = io.BytesIO()
        plot.solution(self.scene.sol).savefig(file, format="pdf")
        return "figure.pdf", file.getvalue()

    def _download(self, button: models.Button, make: Callable[[], tuple[str, bytes]]) -> None:
        name, data = make()
        # always new, else the browser would not hear of it
        button.tags = [name, base64.b64encode(data).decode("ascii"), time.monotonic()]


def serve(case: Case | None, port: int, ready: Callable[[str], Any]) -> None:
    """Serve the page to this machine alone, until Ctrl-C; `ready` is told its address.

    The address has a signed token, without which nothing is shown.

    Raises
    ------
    OSError
        If the port is taken.
    """
    guard: Any = {"sign_sessions": True, "generate_session_ids": False}
    secret = secrets.token_bytes(32)

    def add(document: Any) -> None:
        Explorer(document, case or start())

    server = Server({"/": add}, port=port, address="127.0.0.1", secret_key=secret, **guard)
    server.start()
    token = generate_session_id(secret, signed=True)
    ready(f"http://localhost:{server.port}/?bokeh-session-id={token}")
    with suppress(KeyboardInterrupt):
        server.io_loop.start()
    server.stop()
