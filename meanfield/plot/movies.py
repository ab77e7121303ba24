"""Movies of a run: its measure at saved times, one after the other, and the energy below."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from tqdm.auto import tqdm

from meanfield._checks import boolean, integer, number, shown
from meanfield.dynamics.titles import dynamics_title
from meanfield.evolution.files import remove_leftovers, whole_file
from meanfield.evolution.solution import Solution
from meanfield.plot import frames as shared
from meanfield.plot import panels
from meanfield.plot.curves import check, energy, energy_name
from meanfield.plot.runs import ordered_tokens
from meanfield.typing import Integers

# GIF keeps times in hundredths of a second, and viewers slow down movies of more than 50 frames a
# second
_FASTEST = {".mp4": 120.0, ".gif": 50.0}
# a GIF is held in memory as a whole
MOST_FRAMES = 500
_FPS = 10.0
_DPI, _SHOWN_DPI = 160, 100
_WIDTH, _POSITIONS, _BELOW = 4.8, 2.0, 1.6
_HEIGHTS = {"mollweide": 2.6, "polar": 3.6}
_ORDINARY = 2.8


class ShownAnimation(FuncAnimation):
    """The animation of a scene, a GIF in a notebook: it needs neither scripts nor a network."""

    def __init__(self, scene: _Scene, frames: int, fps: float) -> None:
        interval = 1000.0 / fps
        super().__init__(
            scene.figure, scene.show, frames, lambda: (), interval=interval, cache_frame_data=False
        )
        self._rate = min(fps, _FASTEST[".gif"])

    def _repr_html_(self) -> str:
        if rcParams["animation.html"] != "none":
            return super()._repr_html_()
        with TemporaryDirectory() as folder:
            path = Path(folder, "movie.gif")
            self.save(path, _writer(path, self._rate), dpi=_SHOWN_DPI)
            return shared.image(path.read_bytes(), "gif", "movie of a run")


def animation(
    sol: Solution, ax: Axes | None = None, *, frames: int | None = None, fps: float = _FPS
) -> ShownAnimation:
    """The measure of a run at its saved times, one after the other.

    Every frame is a saved state of the run; nothing is blended in between. All frames share one
    scale of densities and, for tokens in more than three dimensions, the principal axes of all
    saves together. A notebook draws all frames, several a second, and shows a GIF, or what
    `rcParams["animation.html"]` says.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Axes of the measures' projection, as for `density`; they are cleared at each frame. A new
        figure, if omitted, also shows the positions of tokens under a causal mask, as `solution`
        does, and the energy, if there is one, with a mark at the time.
    frames : int, optional
        The number of saves, evenly from the first to the last; all, up to 500, if omitted.
    fps : float
        Frames a second, above 0 and at most 120.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        With `save`, `to_jshtml` and `to_html5_video`. Keep it while it plays.

    Raises
    ------
    ValueError
        If `sol` is no solution, an argument is out of range, or `ax` not of the projection.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(1.0), 1.0, 4)
    >>> animation(sol).save("run.gif", writer="pillow")  # doctest: +SKIP
    """
    check(sol)
    fps = number("fps", fps, above=0.0, high=max(_FASTEST.values()))
    chosen = _saves(len(sol.t), frames)
    return ShownAnimation(_Scene(sol, chosen, ax), len(chosen), fps)


def movie(
    sol: Solution,
    path: str | os.PathLike[str],
    *,
    frames: int | None = None,
    seconds: float | None = None,
    fps: float | None = None,
    progress: bool = False,
) -> None:
    """Write the movie of a run as MP4 (by ffmpeg) or GIF, see `animation`.

    It is written beside `path` and renamed. The SHA-256 of what the run was made from is its
    comment.

    Parameters
    ----------
    sol : Solution
    path : str or path-like
        Ending in .mp4 or .gif.
    frames : int, optional
        The number of saves that it shows; all, up to 500, if omitted.
    seconds : float, optional
        How long it takes. At most two of frames, seconds and fps may be given.
    fps : float, optional
        Frames a second, at most 120, in a GIF 50; 10 if omitted, or what `seconds` implies.
    progress : bool
        Whether to show a bar.

    Raises
    ------
    ValueError
        If an argument is out of range, or ffmpeg is needed and missing.
    OSError
        If it can't be written there; then what was there is as it was.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(1.0), 1.0, 4)
    >>> movie(sol, "run.gif", seconds=4.0)  # doctest: +SKIP
    """
    check(sol)
    place = shared.check_path(path, _FASTEST, " or ".join(_FASTEST))
    boolean("progress", progress)
    kind = place.suffix.lower()
    count, rate = pace(len(sol.t), frames, seconds, fps, _FASTEST[kind])
    writer = _writer(place, rate, sol.source)
    remove_leftovers(place)
    with whole_file(place) as draft:
        moving = animation(sol, frames=count, fps=rate)
        with tqdm(total=count, unit="frame", disable=not progress) as bar:
            try:
                moving.save(
                    os.fspath(draft), writer, dpi=_DPI, progress_callback=lambda *_: bar.update()
                )
            except subprocess.CalledProcessError as error:
                last_line = (error.stderr or "").strip().rpartition("\n")[2] or "it said nothing"
                raise OSError(f"ffmpeg failed: {last_line}") from error
        if kind == ".gif":
            _comment(draft, sol.source)


def pace(
    saves: int,
    frames: int | None = None,
    seconds: float | None = None,
    fps: float | None = None,
    fastest: float = 120.0,
) -> tuple[int, float]:
    """How many frames, and how many of them a second; at most two of the three are given.

    Raises
    ------
    ValueError
        If one is out of range, or the run has too few saves.

    Examples
    --------
    >>> pace(21), pace(21, seconds=7.0), pace(21, seconds=2.0, fps=5.0)
    ((21, 10.0), (21, 3.0), (10, 5.0))
    """
    if fps is not None:
        fps = number("fps", fps, above=0.0, high=fastest)
    seconds = None if seconds is None else number("seconds", seconds, above=0.0)
    if seconds is None or fps is None:
        count = len(_saves(saves, frames))
        if seconds is None:
            return count, fps or _FPS
        if count > fastest * seconds:
            raise ValueError(
                f"seconds must be at least {count / fastest:g} for {count} frames, at most "
                f"{fastest:g} a second, got {seconds:g}: take longer, or fewer frames"
            )
        return count, count / seconds
    if frames is not None:
        raise ValueError(
            f"frames must be left out where seconds = {seconds:g} and fps = {fps:g} are given, "
            f"got {shown(frames)}"
        )
    if round(seconds * fps) > saves:
        raise ValueError(
            f"seconds must be at most {saves / fps:g} at fps = {fps:g}, as the run has {saves} "
            f"saved times, got {seconds:g}: lower fps, or save more often"
        )
    return max(1, round(seconds * fps)), fps


def _saves(saves: int, frames: int | None) -> Integers:
    """Return the saves that are frames, evenly spaced, with the first and the last."""
    most_frames = min(saves, MOST_FRAMES)
    count = most_frames if frames is None else integer("frames", frames, low=1, high=saves)
    return np.array([saves - 1]) if count == 1 else shared.thinned(saves, count)


def default_movie_suffix() -> str:
    """The suffix of MP4 where ffmpeg is, else of GIF."""
    return ".mp4" if FFMpegWriter.isAvailable() else ".gif"


def _comment(gif: Path, text: str) -> None:
    """Add a comment of at most 255 characters to a GIF, before the byte that ends it."""
    with gif.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!\xfe" + bytes([len(text)]) + text.encode("ascii") + b"\x00;")


def _writer(place: Path, fps: Any, source: str = "") -> FFMpegWriter | PillowWriter:
    if place.suffix.lower() == ".gif":
        return PillowWriter(fps=fps)
    if not FFMpegWriter.isAvailable():
        raise ValueError(
            f"path must end in .gif where ffmpeg, which writes .mp4, is not installed, got "
            f"{str(place)!r}: GIF needs no more than matplotlib"
        )
    return FFMpegWriter(fps=fps, metadata={"comment": source})


class _Scene:
    """The axes on which one save after the other is drawn."""

    def __init__(self, sol: Solution, chosen: Integers, ax: Axes | None) -> None:
        self._sol, self._chosen = sol, chosen
        measures = [sol.measures[i] for i in chosen]
        self._look = panels.look(measures, sol.measures)
        # a flow map that takes over may be drawn in another way than its density
        self._kinds = [panels.projection(measure) for measure in measures]
        self._energy: Axes | None = None
        self._tokens, self._positions = ordered_tokens(sol), None
        self._label: float | None = None
        self._bar: Axes | None = None
        self.figure: Any
        # matplotlib's types do not say which class of axes a projection has
        self._panels: dict[str, Any]
        if ax is None:
            self._add_panels()
        else:
            shared.check_axes(ax, set(self._kinds), "this run")
            self.figure, self._panels = ax.get_figure(root=True), {ax.name: ax}
            self._settle()

    def _add_panels(self) -> None:
        """Add one panel for each projection in the same place.

        Positions and the energy are below them.
        """
        kinds = dict.fromkeys(self._kinds)
        heights = [max(_HEIGHTS.get(kind, _ORDINARY) for kind in kinds)]
        has_energy = energy_name(self._sol) is not None
        heights += [_POSITIONS] * bool(self._tokens) + [_BELOW] * has_energy
        self.figure = shared.new_figure(_WIDTH, sum(heights))
        grid = self.figure.add_gridspec(len(heights), 1, height_ratios=heights)
        self._panels = {k: self.figure.add_subplot(grid[0], projection=k) for k in kinds}
        if self._tokens:
            self._positions = self.figure.add_subplot(grid[1])
            self._along = panels.abscissa_of(self._sol.measures)
        if has_energy:
            self._energy = energy(self._sol, self.figure.add_subplot(grid[-1]))
            self._energy.plot([], [], "o", markersize=5, **shared.MARK)
        shared.finish(self.figure, dynamics_title(self._sol.dynamics))
        if any(panels.is_coloured(self._sol.measures[i]) for i in self._chosen):
            maps = [self._panels["mollweide"]]
            self._bar = shared.colour_bar(self.figure, maps, self._look.scale, "right")
        self._settle()
        # the layout is made once for all projections, so that nothing moves but the measure
        for panel in self._panels.values():
            panel.set_visible(True)
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")
        self._reveal(self._kinds[0])

    def _settle(self) -> None:
        """Fill every panel; numbers of a ring stand where the last frame leaves room for them."""
        last_frame = len(self._kinds) - 1
        first_frames = {self._kinds.index(kind) for kind in self._panels}
        for frame in sorted(first_frames | {last_frame}, reverse=True):
            self.show(frame)
            if frame == last_frame and self._kinds[last_frame] == "polar":
                self._label = self._panels["polar"].get_rlabel_position()

    def _reveal(self, kind: str) -> None:
        """Show the panel of this projection, and no other."""
        for other, panel in self._panels.items():
            panel.set_visible(other == kind)
        if self._bar is not None:
            self._bar.set_visible(kind == "mollweide")

    def show(self, frame: int) -> list[Artist]:
        """Draw a frame in place of the one before."""
        index, kind = int(self._chosen[frame]), self._kinds[frame]
        self._reveal(kind)
        ax = self._panels[kind]
        ax.clear()
        panels.draw(self._sol.measures[index], ax, self._look)
        if self._label is not None:
            ax.set_rlabel_position(self._label)
        ax.set_title(f"t = {self._sol.t[index]:.4g}", fontsize=shared.NORMAL)
        if self._positions is not None:
            self._positions.clear()
            panels.draw_positions(self._tokens[index], self._positions, self._along)
        if self._energy is not None:
            curve, *_, mark = self._energy.lines
            # a logarithmic axis has no time 0
            time = max(self._sol.t[index], self._energy.get_xlim()[0])
            mark.set_data([time], [np.asarray(curve.get_ydata())[index]])
        return [ax]
