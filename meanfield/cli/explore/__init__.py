"""The explorer: a page on this machine whose controls move a case and its pictures."""

from __future__ import annotations

import base64
import io
import secrets
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from bokeh import events, models
from bokeh.plotting import figure
from bokeh.server.server import Server
from bokeh.util.token import generate_session_id
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from meanfield import plot
from meanfield._checks import one_line
from meanfield.cli import tables
from meanfield.cli.case import Case, overridden, toml_value
from meanfield.cli.report.measures import curve
from meanfield.evolution import Solution, solve
from meanfield.evolution.recorder import with_role
from meanfield.measures import AnyMeasure, LineFlowMap, Particles, SphereFlowMap
from meanfield.measures.clusters import clusters
from meanfield.plot import frames, panels
from meanfield.plot.frames import BLUE, GREEN, ORANGE
from meanfield.spaces import geometry
from meanfield.typing import Array

# seconds that a run may take though a newer case waits, else none would end while one drags
_GRACE = 0.3
# keys of a case, or "bumps", "kappa", "n" and "dim" for tables and tokens, with their titles; then
# options, or what a slider begins with, its ends and its step
CONTROLS: dict[str, tuple[Any, ...]] = {
    "law.bumps": ("bumps at t = 0, or 0: the law of the case", 3, 0, 8, 1),
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


# how high a curve stands on a ring; latitudes of the grid of a globe; pixels of its picture
_HEIGHT, _RADIUS, _ROWS, _PIXELS = 0.55, 1.5, 61, 280
# colours are of the logarithm of a density between these
LEAST, MOST = 0.1, 30.0
_AROUND = np.linspace(0.0, 2.0 * np.pi, 361)
GREY = "#888888"
# the grid, rows from the north, columns from longitude 0, and some of its lines
_ROW, _COLUMN = np.mgrid[:_ROWS, : 2 * _ROWS - 1] * np.pi / (_ROWS - 1)
_GRID = geometry.sphere_points(_ROW.ravel(), _COLUMN.ravel())
_NET = [*_GRID.reshape(*_ROW.shape, 3)[::10], *_GRID.reshape(*_ROW.shape, 3).swapaxes(0, 1)[::10]]


class Scene:
    """A run as it is drawn: angles of the circle or from an axis around a ring, or a globe.

    Raises
    ------
    ValueError
        If its measure is neither on the circle nor on S^2 nor about an axis.
    """

    def __init__(self, sol: Solution) -> None:
        first, self.sol, self.masses = sol.measures[0], sol, list[Array]()
        if first.dim > 3 and first.axis is None:
            raise ValueError(f"measure must be on the circle, S^2 or about an axis, got {first}")
        self.axis, self.is_globe = first.axis, panels.projection(first) == "mollweide"
        self.is_tokens = isinstance(first, Particles)
        known = self._values if self.is_globe else self._curves
        self.values = [known(measure) for measure in sol.measures]
        self.high = float(np.clip(panels.look(sol.measures).scale.vmax or 1.0, 3.0, MOST))

    def _values(self, measure: Any) -> Array:
        """The density on the grid; of a flow map a mean of the six nodes that are nearest."""
        if isinstance(measure, SphereFlowMap):
            far, near = cKDTree(measure.points[: measure.n_nodes]).query(_GRID, 6)
            weights = (far + 1e-9) ** -2.0
            return frames.densities_of(np.average(measure.log_density[near], 1, weights))
        return np.asarray(np.zeros(len(_GRID)) if self.is_tokens else measure.pdf(_GRID))

    def _curves(self, measure: AnyMeasure) -> Array:
        """Angles around the ring, 0 there, the density, and that of the uniform measure."""
        angles, values = (_AROUND, 0.0 * _AROUND) if self.is_tokens else curve(measure)
        if self.axis is None:
            return np.array([angles, 0.0 * angles, values, np.ones_like(angles)])
        uniform = frames.uniform_law(angles, measure.dim)
        half = np.array([angles, 0.0 * angles, values, uniform])
        other = half[:, ::-1] * [[-1.0], [1.0], [1.0], [1.0]]
        return np.append(half, other, axis=1)

    def _ring(self, angles: Any, radii: Any) -> Array:
        """x and y of angles: the circle begins on the right, an axis points up."""
        at = angles if self.axis is None else np.pi / 2 - angles
        return np.asarray(radii * np.array([np.cos(at), np.sin(at)]))

    def whole(self, tokens: Solution | None) -> dict[str, Any]:
        """What is drawn of all times: energies, and the masses of clusters."""
        t, counts = self.sol.t, [len(masses) for masses in self.masses]
        times, masses = np.repeat(t[: len(counts)], counts), np.concatenate([[], *self.masses])
        runs = [self.sol, tokens] if tokens else [self.sol]
        energies = lines([(one.t, energy_of(one)[0]) for one in runs], BLUE, GREEN)
        return {"energies": energies, "masses": {"x": times, "y": masses}}

    def at(self, i: int, tokens: Solution | None, turn: tuple[float, float]) -> dict[str, Any]:
        """What is drawn at a save: the globe from where it is turned to, or the ring."""
        measure = self.sol.measures[i]
        points = tokens.measures[i].points if tokens else np.zeros((0, measure.dim))
        if self.is_globe:
            return self._globe(self.values[i].reshape(_ROW.shape), points, *turn)
        angles, *heights = self.values[i]
        radii = 1.0 + _HEIGHT * np.sqrt(np.clip(np.divide(heights, self.high), 0.0, 1.0))
        rings = self._ring(angles, radii[:, None])
        # tokens are on the side of the axis that they are on
        up = np.eye(2)[0] if self.axis is None else self.axis
        stands = np.arctan2(points @ geometry.perpendicular(up), points @ up)
        atoms, masses = np.zeros((2, 0))
        if isinstance(measure, LineFlowMap):
            atoms, masses = panels.gathered(measure)
        stems = [self._ring(atom, np.array([1.0, 1.0 + _HEIGHT])) for atom in atoms]
        return {
            "body": columns(np.append(rings[1], rings[0][:, ::-1], axis=1)),
            "lines": lines([*rings, *stems], GREY, BLUE, GREY, ORANGE),
            "atoms": columns(self._ring(atoms, 1.0 + _HEIGHT)) | {"size": 20.0 * np.sqrt(masses)},
            "tokens": columns(self._ring(stands, 0.93)),
        }

    def _globe(self, values: Array, points: Array, a: float, b: float) -> dict[str, Any]:
        """The side of the sphere that is seen from longitude a and latitude b."""
        front = geometry.sphere_points(np.pi / 2 - b, a)[0]
        right = np.array([-np.sin(a), np.cos(a), 0.0])
        frame = np.array([right, np.cross(front, right), front])
        x, y = np.meshgrid(*2 * [np.linspace(-1.0, 1.0, _PIXELS)])
        depth = np.sqrt(np.maximum(1.0 - x**2 - y**2, 0.0))
        seen = np.stack([x, y, depth], axis=-1).reshape(-1, 3) @ frame
        places = np.array(geometry.sphere_angles(seen)) * (_ROWS - 1) / np.pi
        image = map_coordinates(values, places, order=1, mode="nearest").reshape(x.shape)
        image = np.where(depth > 0.0, np.maximum(image, LEAST), np.nan)
        net = [_RADIUS * np.where(one @ front < 0.0, np.nan, frame[:2] @ one.T) for one in _NET]
        return {
            "globe": {"image": [image.astype(np.float32)]},
            "lines": lines(net, "rgba(255, 255, 255, 0.3)"),
            "tokens": columns(_RADIUS * frame[:2] @ points[points @ front > 0.0].T),
        }


def columns(points: Array) -> dict[str, Any]:
    """Columns of points (2, n)."""
    return {"x": points[0], "y": points[1]}


def lines(paths: Any, *colours: str) -> dict[str, Any]:
    """Columns of lines, each (2, points); the last colour is that of all further lines."""
    xs, ys = [x for x, _ in paths], [y for _, y in paths]
    return {"xs": xs, "ys": ys, "line_color": [*colours, *[colours[-1]] * len(xs)][: len(xs)]}


_FILL: dict[str, Any] = {"line_width": 0, "fill_alpha": 0.7}
# figure, kind, columns and look of each glyph
GLYPHS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "globe": ("state", "image", "image", {"x": -1.5, "y": -1.5, "dw": 3.0, "dh": 3.0}),
    "body": ("state", "patch", "x y", _FILL | {"fill_color": BLUE, "fill_alpha": 0.4}),
    "lines": ("state", "multi_line", "xs ys line_color", {"line_width": 1.5}),
    "atoms": ("state", "scatter", "x y size", _FILL | {"fill_color": ORANGE}),
    "tokens": ("state", "scatter", "x y", _FILL | {"size": 6, "fill_color": GREEN}),
    "energies": ("energy", "multi_line", "xs ys line_color", {"line_width": 2}),
    "masses": ("clusters", "scatter", "x y", _FILL | {"size": 6, "fill_color": BLUE}),
}
FIGURES: dict[str, dict[str, Any]] = {
    "state": {"x_range": (-1.6, 1.6), "y_range": (-1.6, 1.6), "min_border": 0},
    "energy": {"x_axis_label": "t"},
    "clusters": {"x_axis_label": "t", "y_axis_label": "masses of clusters", "y_range": (0, 1.04)},
}


def _part(name: str) -> str:
    return (files("meanfield.cli.explore") / name).read_text("utf-8")


class Superseded(Exception):
    """A newer case waits."""


class Explorer:
    """One page: its controls, its pictures, the run that they show, and the thread that runs.

    Parameters
    ----------
    document : bokeh Document
    case : Case, optional
        What the controls begin with.
    """

    def __init__(self, document: Any, case: Case | None = None) -> None:
        self.document, self.base = document, case or Case(_part("case.toml"), name="case")
        self.scene: Any = None
        self.tokens: Solution | None = None
        self.turn = 0.7, 0.35
        self.asked, self.due, self.told = SimpleQueue[Any](), 0.0, 0.0
        self._add_controls(case is not None)
        self._add_figures()
        document.title, document.template = "meanfield explore", _part("page.html")
        document.on_session_destroyed(lambda _: self.asked.put(None))
        document.add_periodic_callback(self._play, 80)
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()
        self._ask({})

    def _add_controls(self, has_law: bool) -> None:
        given = tomllib.loads(self.base.to_toml()) | {"law": {"bumps": 0} if has_law else {}}
        given["measure"]["dim"] = self.base._build_law()[0].dim
        self.controls: dict[str, Any] = {}
        for key, (title, first, *how) in CONTROLS.items():
            table, _, name = key.partition(".")
            value = given[table].get(name, first)
            if name == "type":
                options = list(dict.fromkeys([value, first, *how]))
                made: Any = models.Select(options=options, value=value)
            elif name == "kernel":
                made = models.TextInput(value=str(value).strip("[]"))
            else:
                ends = {"start": min(how[0], value), "end": max(how[1], value)}
                made = models.Slider(value=value, step=how[2], **ends)
            made.title, self.controls[key] = title, made
            made.on_change("value", self._move)
        self.kind = self._kind()
        self.buttons = [models.Button(label=f"save as {what}") for what in ("case", "figure")]
        for button in self.buttons:
            button.on_click(partial(self._save, button))
            button.js_on_change("tags", models.CustomJS(code=_part("download.js")))
        self.time = models.Slider(start=0, end=40, value=20, step=1, show_value=False)
        self.time.on_change("value", lambda _attr, _old, _new: self._show())
        self.play = models.Toggle(label="▶ play")
        self.numbers, self.said = models.Div(), models.Div()
        rows: Any = models.Column(children=[*self.controls.values(), *self.buttons])
        names = ("controls", "time", "play", "numbers", "said")
        parts = dict(zip(names, (rows, self.time, self.play, self.numbers, self.said), strict=True))
        for one in (*rows.children, *parts.values()):
            one.update(sizing_mode="stretch_width", stylesheets=[_part("widgets.css")])
        for name, one in parts.items():
            one.name = name
            self.document.add_root(one)

    def _kind(self) -> tuple[Any, ...]:
        """The measure that the controls tell."""
        return self.controls["measure.dim"].value, self.controls["measure.type"].value

    def _add_figures(self) -> None:
        clear = "rgba(0, 0, 0, 0)"
        self.colours = models.LogColorMapper(palette="Magma256", nan_color=clear, low=LEAST)
        self.figures: dict[str, Any] = {}
        for name, one in FIGURES.items():
            made: Any = figure(name=name, tools="", toolbar_location=None, **one)
            made.sizing_mode = "stretch_both"
            made.html_attributes = {"role": "img", "aria-label": name}
            self.figures[name] = made
            self.document.add_root(made)
        self.sources: dict[str, Any] = {}
        for name, (where, glyph, keys, look) in GLYPHS.items():
            fields = {key: key for key in keys.split()}
            self.sources[name] = models.ColumnDataSource({key: [] for key in fields})
            getattr(self.figures[where], glyph)(source=self.sources[name], **fields, **look)
        self.empty = {name: dict(source.data) for name, source in self.sources.items()}
        state, energy, masses = self.figures.values()
        state.renderers[0].glyph.color_mapper = self.colours
        masses.x_range = energy.x_range
        state.axis.visible = state.grid.visible = False
        state.on_event(events.Pan, self._turn)
        self.now = [models.Span(dimension="height", line_color=GREY) for _ in range(2)]
        energy.add_layout(self.now[0])
        masses.add_layout(self.now[1])

    def _move(self, _attr: str, _old: Any, _new: Any) -> None:
        """Run the case that the controls tell; its law and measure stay while they are not told."""
        told = {key: one.value for key, one in self.controls.items()}
        told["dynamics.kernel"] = f"[{told['dynamics.kernel']}]"
        with suppress(ValueError):
            told["dynamics.kernel"] = toml_value(told["dynamics.kernel"])
        kind = self._kind()
        given = ("dynamics.", "run.t_end")
        changes = {key: told[key] for key in told if key.startswith(given) and self._has(key)}
        if told["law.bumps"]:
            changes["law"] = law_table(kind[0], told["law.bumps"], told["law.kappa"])
        if kind != self.kind:
            changes["measure"] = measure_table(*kind)
        self._ask(changes)

    def _has(self, key: str) -> bool:
        """Whether a control is of use to the dynamics and the law as they are chosen."""
        table, _, name = key.partition(".")
        fields = tables.TYPES[self.controls["dynamics.type"].value].model_fields
        has_bumps = self.controls["law.bumps"].value or name != "kappa"
        return name in fields if table == "dynamics" else bool(has_bumps)

    def _ask(self, changes: dict[str, Any]) -> None:
        """Run the case with these keys changed."""
        bumps = self.controls["law.bumps"]
        # about an axis there are two places for them
        bumps.end = CONTROLS["law.bumps"][3] if self._kind()[0] <= 3 else 2
        if bumps.value > bumps.end:
            # a move, which asks
            bumps.value = bumps.end
            return
        for key, one in self.controls.items():
            one.visible = self._has(key)
        try:
            text = overridden(self.base.to_toml(), changes, "case")
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
        scene = Scene(self._solved(case))
        tokens = scene.sol if scene.is_tokens else None
        self._later(self._take, scene, tokens)
        if n and not tokens:
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
        sol = scene.sol
        self.scene, self.tokens = scene, tokens
        self._say(sol.message, *([] if sol.success else ["bad"]))
        self.colours.high = scene.high
        self.figures["energy"].yaxis.axis_label = energy_of(sol)[1]
        self._draw(self.empty | scene.whole(tokens))
        self.time.update(end=len(sol.t) - 1, value=min(self.time.value, len(sol.t) - 1))
        self._show()

    def _draw(self, pictures: dict[str, Any]) -> None:
        for name, columns in pictures.items():
            self.sources[name].data = columns

    def _show(self) -> None:
        """The measure and its numbers at the time of the slider."""
        if self.scene:
            i, sol = int(self.time.value), self.scene.sol
            self._draw(self.scene.at(i, self.tokens, self.turn))
            for span in self.now:
                span.location = sol.t[i]
            energy, name = energy_of(sol)
            numbers = {"t": f"{sol.t[i]:.4g}", name: f"{energy[i]:.6f}"}
            if self.scene.is_globe:
                numbers["f, from dark to bright"] = f"{LEAST} to {self.scene.high:.3g}"
            for masses in self.scene.masses[i : i + 1]:
                shares = " ".join(f"{mass:.3f}" for mass in masses[:5])
                numbers |= {"clusters": str(len(masses)), "masses": shares}
            cells = (f"<div><dt>{key}</dt><dd>{one}</dd></div>" for key, one in numbers.items())
            self.numbers.text = f"<dl>{''.join(cells)}</dl>"

    def _turn(self, event: Any) -> None:
        """Turn the globe as it is dragged."""
        a, b = self.turn
        self.turn = a - event.delta_x / 200.0, np.clip(b - event.delta_y / 200.0, -1.5, 1.5)
        self._show()

    def _play(self) -> None:
        if self.play.active:
            self.time.value = (self.time.value + 1) % (self.time.end + 1)

    def _save(self, button: models.Button) -> None:
        """Hand the browser the case, or its figure as `meanfield plot` draws it."""
        name, file = "case.toml", io.BytesIO(self.case.to_toml().encode())
        if button.label == "save as figure":
            name, file = "figure.pdf", io.BytesIO()
            plot.solution(self.scene.sol).savefig(file, format="pdf")
        data = base64.b64encode(file.getvalue()).decode("ascii")
        # always new, else the browser would not hear of it
        button.tags = [name, data, time.monotonic()]


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
        Explorer(document, case)

    server = Server({"/": add}, port=port, address="127.0.0.1", secret_key=secret, **guard)
    server.start()
    token = generate_session_id(secret, signed=True)
    ready(f"http://localhost:{server.port}/?bokeh-session-id={token}")
    with suppress(KeyboardInterrupt):
        server.io_loop.start()
    server.stop()
