"""What panels share: figures, colours, scales of densities, frames of circle and polar angle."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.transforms import Transform
from scipy.special import gammaln

from meanfield._checks import shown
from meanfield.typing import Array, Integers, NDArray

if TYPE_CHECKING:
    import xarray as xr

# colours that colour-blind readers can tell apart (Okabe and Ito)
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
YELLOW, SKY, GREY = "#e69f00", "#56b4e9", "0.45"
# curves have these colours by turns
CYCLE = BLUE, ORANGE, GREEN, PINK, SKY, YELLOW
SMALL, NORMAL = 7.0, 8.0
# a figure narrower than this, in inches, is for one column of a paper
_COLUMN = 4.0
# matplotlib has no types for the keywords of its artists
Keywords = dict[str, Any]
LEGEND: Keywords = {"fontsize": SMALL, "frameon": False}
# the style of dots that mark times on a curve
MARK: Keywords = {"color": ORANGE, "clip_on": False, "zorder": 5}
COLOURS = colormaps["magma"].with_extremes(bad=colormaps["magma"](0.0))
# the scale is logarithmic if a density exceeds that of σ by this factor
_CONCENTRATED = 20.0
_EMPTY = 0.1
# numbers have a logarithmic axis if they are so many times apart
_WIDE = 30.0
# times are nearer to geometric than to even ones if half of them are before this part of the last
_CROWDED = 5.0
# a scale of densities ends here: the density of a flow map has no bound, and 1e30 would hide all
# others
CAP = 1e4
# half the angle that a number on the scale takes, and the margin beside the poles of a profile
_LABEL, _MARGIN = np.pi / 10, 0.02 * np.pi
# ticks of angles: the first three for [0, π], the first four around the circle
QUARTERS = (np.pi / 2 * np.arange(5)).tolist(), ["0", "π/2", "π", "3π/2", "2π"]


def to_bytes(figure: Figure, **how: Any) -> bytes:
    """The bytes of a file of the figure; `how` is as for `savefig`."""
    buffer = io.BytesIO()
    figure.savefig(buffer, **how)
    return buffer.getvalue()


class ShownFigure(Figure):
    """A figure of no window that a notebook shows, without pyplot, which would keep it.

    In the width of one column of a paper its panels stand one below the other.
    """

    def set_size_inches(
        self, w: float | tuple[float, float], h: float | None = None, forward: bool = True
    ) -> None:
        """Set width and height in inches, as of any figure."""
        super().set_size_inches(w, h, forward)
        if self.get_figwidth() < _COLUMN:
            for part in self.subfigs:
                _stack(part)
            _stack(self)

    def _repr_png_(self) -> bytes:
        return to_bytes(self, format="png")


def _stack(figure: Figure | SubFigure) -> None:
    """Put panels one below the other, each with the name of its y axis; empty places come last."""
    each = ((ax, ax.get_subplotspec()) for ax in figure.axes if ax.get_figure() is figure)
    panels = [(ax, spec.rowspan.start, spec.colspan.start) for ax, spec in each if spec]
    places = sorted({(row, column) for ax, row, column in panels if ax.axison})
    if any(column for _, column in places):
        grid = figure.add_gridspec(len(places), 1)
        for ax, row, column in panels:
            ax.set_subplotspec(grid[places.index((row, column)) if ax.axison else -1])
            if not (ax.get_ylabel() or ax.get_title(loc="left")):
                panel_of_row = next(other for other, its_row, _ in panels if its_row == row)
                ax.set_ylabel(panel_of_row.get_ylabel(), fontsize=NORMAL)


def new_figure(width: float, height: float) -> ShownFigure:
    """A figure of that many inches that belongs to no window."""
    figure = ShownFigure(figsize=(width, height), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(projection: str = "rectilinear") -> Axes:
    """Axes of that projection alone on a new figure, which a notebook shows in their place."""
    figure = new_figure(3.4, 2.4)
    ax = figure.add_subplot(projection=projection)
    vars(ax)["_repr_png_"] = figure._repr_png_
    return ax


def new_panels(
    count: int, most: int, size: tuple[float, float], beside: tuple[float, float]
) -> tuple[ShownFigure, NDArray[Any]]:
    """A figure of panels of that size in rows of at most so many; places left over stay empty."""
    columns = max(1, min(most, count))
    rows = -(-count // columns)
    figure = new_figure(size[0] * columns + beside[0], size[1] * rows + beside[1])
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    return figure, axes


def image(data: bytes, kind: str, alt: str) -> str:
    """A picture of this kind inside a page."""
    text = base64.b64encode(data).decode("ascii")
    return f'<img alt="{escape(alt)}" src="data:image/{kind};base64,{text}"/>'


def check_axes(ax: object, projections: set[str], what: str = "") -> Axes:
    """Return axes of one of these projections; any axes if there is none.

    Raises
    ------
    ValueError
        Naming what is drawn on them.
    """
    wanted = " and ".join(sorted(projections))
    rule = f"have projection {wanted!r} for {what}" if wanted else "be matplotlib Axes"
    if not isinstance(ax, Axes) or (projections and {ax.name} != projections):
        raise ValueError(f"ax must {rule}, got {shown(ax)}")
    return ax


def check_path(path: object, suffixes: Iterable[str], allowed: str) -> Path:
    """Return a path that ends in one of these.

    Raises
    ------
    ValueError
        With the suffixes in the words of `allowed`.
    """
    if not isinstance(path, (str, os.PathLike)) or Path(path).suffix.lower() not in suffixes:
        raise ValueError(f"path must end in {allowed}, got {shown(path)}")
    return Path(path)


def check_dataset(
    ds: xr.Dataset,
    study: str,
    variables: Iterable[str],
    over: Iterable[str] = (),
    attributes: Iterable[str] = (),
) -> None:
    """Check that this is a dataset of a study with these variables, dimensions, attributes.

    Raises
    ------
    ValueError
        Naming what is missing.
    """
    text = f"ds must be a Dataset of studies.{study}"
    if not hasattr(ds, "data_vars"):
        raise ValueError(f"{text}, got {shown(ds)}")
    wanted = (variables, ds.variables), (over, ds.sizes), (attributes, ds.attrs)
    missing = [name for names, present in wanted for name in names if name not in present]
    if missing:
        raise ValueError(f"{text} with {shown(missing)}, got {shown(ds)}")


def subscripts(text: str, form: str) -> str:
    """A text of symbols like E_β with what follows the underscore in this form.

    Examples
    --------
    >>> subscripts("|dE_β/dt|", "<sub>%s</sub>")
    '|dE<sub>β</sub>/dt|'
    """
    return re.sub(r"_(\w+)", lambda match: form % match[1], text)


def label_axes(ax: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Name the axes; what is empty stays as it is."""
    for text, put in ((x, ax.set_xlabel), (y, ax.set_ylabel), (title, ax.set_title)):
        if text:
            put(text, fontsize=NORMAL)


def write(
    ax: Axes,
    text: str,
    place: tuple[float, float],
    over: str | Transform = "data",
    *,
    ha: str = "left",
    va: str = "bottom",
    shift: tuple[float, float] = (0.0, 0.0),
    color: str = "0.3",
) -> None:
    """A few small words at a place in these coordinates, shifted by so many points."""
    look: Keywords = {"ha": ha, "va": va, "fontsize": SMALL, "color": color}
    ax.annotate(text, place, shift, over, "offset points", **look)


def strip(ax: Axes) -> None:
    """Give a panel small numbers, and no frame but its axes."""
    ax.tick_params(which="both", labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)


def head(ax: Axes, title: str) -> None:
    """Strip a panel, and put its title at the left."""
    ax.set_title(title, fontsize=NORMAL, loc="left", pad=4)
    strip(ax)


def finish(figure: Figure, title: str, axes: Iterable[Axes] = (), colour: str = "black") -> Figure:
    """The title of a figure; axes get small numbers, and no frame but the axes themselves."""
    for ax in axes:
        strip(ax)
    figure.suptitle(title, fontsize=NORMAL + 1, color=colour, wrap=True)
    return figure


def scale_of(lowest: float, highest: float, is_log: bool | None = None) -> Normalize:
    """The scale for densities between these two: linear from 0, or logarithmic up to the cap.

    It is logarithmic where they call for it, unless `is_log` decides.
    """
    if highest > _CONCENTRATED if is_log is None else is_log:
        # near the uniform density, too, the scale has some extent
        return LogNorm(min(max(lowest, _EMPTY), 1.0), min(max(highest, 2.0), CAP))
    return Normalize(0.0, highest)


def colour_bar(parent: FigureBase, axes: Sequence[Axes], norm: Normalize, side: str) -> Axes:
    """The scale of the maps on these axes; arrows show that values beyond its ends look alike."""
    mappable = ScalarMappable(norm, COLOURS)
    below, above = norm.vmin == _EMPTY, norm.vmax == CAP
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[below, above]
    bar = parent.colorbar(
        mappable, ax=axes, location=side, extend=extend, shrink=0.8, pad=0.02, aspect=25
    )
    return finish_bar(bar, "density f")


def finish_bar(bar: Colorbar, label: str) -> Axes:
    """Small numbers, a thin frame and a name for a scale of colours."""
    bar.set_label(label, fontsize=NORMAL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.6)
    return bar.ax


def is_wide(values: Array, least: float = 0.0) -> bool:
    """Whether values call for a logarithmic axis: above what is least, and wide apart.

    Examples
    --------
    >>> is_wide(np.array([1.0, 40.0, np.nan])), is_wide(np.array([1, 20])), is_wide(np.zeros(3))
    (True, False, False)
    """
    finite = values[np.isfinite(values)].astype(np.float64)
    return bool(finite.max(initial=0.0) > _WIDE * finite.min(initial=np.inf) > _WIDE * least)


def is_decades(t: Array) -> bool:
    """Whether times crowd towards the first, as where they span decades: their axis is a logarithm.

    Examples
    --------
    >>> is_decades(np.geomspace(0.1, 100.0, 20)), is_decades(np.linspace(0.0, 100.0, 2001))
    (True, False)
    """
    times = t[t > 0.0]
    return bool(t[0] >= 0.0 and is_wide(times) and np.median(times) < t[-1] / _CROWDED)


def height(values: Array, norm: Normalize) -> Array:
    """The place of a density between the bottom 0 and the top 1 of its scale."""
    return np.asarray(norm(np.clip(values, norm.vmin or 0.0, norm.vmax)))


def densities_of(logs: Array) -> Array:
    """The densities of these logarithms, those far beyond the cap cut short of overflow."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.minimum(logs, np.log(1e3 * CAP))))


def thinned(count: int, most: int) -> Integers:
    """At most so many of `count` indices, evenly, the first and the last among them.

    Examples
    --------
    >>> thinned(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def quarter_ticks(ax: Axes, count: int) -> None:
    """So many ticks of x, a quarter of a turn apart, from 0 on."""
    ax.set_xticks(*(part[:count] for part in QUARTERS))


def fill_curve(ax: Axes, x: Array, y: Array, bottom: float = 0.0) -> None:
    """A density: its curve, and the area below it."""
    ax.fill_between(x, bottom, y, color=BLUE, alpha=0.25, linewidth=0.0)
    ax.plot(x, y, color=BLUE, linewidth=1.2)


def ring(ax: Any, angles: Array, heights: Array, norm: Normalize, bottom: float = 0.0) -> None:
    """The circle, the uniform density, and the scale where the curve leaves most room for it."""
    all_angles = np.linspace(0.0, 2.0 * np.pi, 361)
    ax.plot(all_angles, np.zeros_like(all_angles), color="black", linewidth=0.6)
    uniform = float(height(np.ones(1), norm)[0])
    ax.plot(all_angles, np.full_like(all_angles, uniform), ":", color=GREY, linewidth=0.8)
    ax.set_rorigin(-1.0)
    ax.set_rlim(bottom, 1.05)
    quarter_ticks(ax, 4)
    ax.tick_params(axis="x", pad=-3)
    ticks = _ticks(norm)
    # a longer number would reach across the circle
    ax.set_yticks(height(ticks, norm), ["10⁴" if t == CAP else f"{t:g}" for t in ticks])
    places = np.arange(22.5, 360.0, 45.0)
    distance = np.abs((np.radians(places)[:, None] - angles + np.pi) % (2.0 * np.pi) - np.pi)
    heights_near = np.where(distance < _LABEL, heights, 0.0).max(axis=1)
    ax.set_rlabel_position(places[int(np.argmin(heights_near))])
    ax.grid(linewidth=0.3, color="0.8")
    ax.spines[:].set_linewidth(0.0)


def _ticks(norm: Normalize) -> Array:
    """Return the uniform density 1 and a round number below the largest density."""
    largest = float(norm.vmax or 1.0)
    power = 10.0 ** np.floor(np.log10(largest))
    return np.unique([1.0, np.floor(largest / power) * power])


def profile(ax: Axes, angles: Array, law: Array, dim: int, norm: Normalize) -> None:
    """The density of the polar angle over [0, π], and dotted that of the uniform measure."""
    bottom, top = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    if bottom:
        ax.set_yscale("log")
    ax.set_ylim(bottom, top * (top / bottom) ** 0.05 if bottom else 1.05 * top)
    law = np.clip(law, bottom, top if top == CAP else None)
    fill_curve(ax, angles, law, bottom)
    smooth: Array = np.linspace(0.0, np.pi, 361)
    uniform = np.maximum(uniform_law(smooth, dim), bottom)
    dotted = ax.plot(smooth, uniform, ":", color=GREY, linewidth=0.8)
    ax.legend(dotted, ["uniform"], loc="upper right", **LEGEND)
    ax.set_xlim(-_MARGIN, np.pi + _MARGIN)
    quarter_ticks(ax, 3)
    # most of a sphere is near its equator, so a measure about the pole has its hump beside the pole
    volume = rf" $\propto\ f\, \sin^{{{dim - 2}}}θ$".replace("^{1}", "") if dim > 2 else ""
    label_axes(ax, "polar angle θ", f"density of θ{volume}")
    ax.spines[["top", "right"]].set_visible(False)


def uniform_law(angles: Array, dim: int) -> Array:
    """The density sin^{d-2} θ Γ(d/2) / (√π Γ((d-1)/2)) of polar angles of the uniform measure.

    Times f(θ) it is the density of θ, which has the integral 1 over [0, π].
    """
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(log_law_of_angle(np.zeros_like(angles), angles, dim)))


def log_law_of_angle(log_values: Array, angles: Array, dim: int) -> Array:
    """The logarithm of the density of polar angles, from log f: where f or the sine leave range."""
    log_factor = gammaln(dim / 2) - gammaln((dim - 1) / 2) - 0.5 * np.log(np.pi)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_sines = np.log(np.maximum(np.sin(np.clip(angles, 0.0, np.pi)), 0.0))
        log_law = log_values + log_factor + ((dim - 2) * log_sines if dim > 2 else 0.0)
    # the product has no value where f is infinite, at a pole
    return np.where(np.isnan(log_law), -np.inf, log_law)
