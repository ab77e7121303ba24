"""One measure at one time: Mollweide map on S^2, curve around the circle, profile, or points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from scipy.special import gammaln

from meanfield.geometry import (
    circle_angles,
    circle_points,
    perpendicular,
    sphere_angles,
    sphere_points,
)
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.spaces import Zonal

Array = NDArray[np.float64]

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "0.45"
SMALL, NORMAL = 7.0, 8.0
COLOURS = colormaps["magma"].with_extremes(bad=colormaps["magma"](0.0))
_ROOT8 = float(np.sqrt(8.0))
_PIXELS = 180
_BINS = 90
# f = 1 is the uniform density: beyond so many times of it the scale is logarithmic
_CONCENTRATED = 20.0
_EMPTY = 0.1
_HALF_TURNS = ([0.0, np.pi / 2, np.pi, 3 * np.pi / 2], ["0", "π/2", "π", "3π/2"])


@dataclass(frozen=True)
class Look:
    """What panels of one figure share: the scale of densities and the plane tokens are seen in."""

    scale: Normalize
    plane: Array


def density(measure: AnyMeasure, ax: Axes | None = None) -> Axes:
    """Draw a measure: f(x) for densities, x_1 … x_n for particles.

    A density on S^2 becomes a Mollweide map in longitude and latitude; on the circle a curve
    around it, r growing with f. Of a zonal one, where f grows like a power of the dimension and
    tells little, the law of the polar angle θ from its axis is drawn: the density
    f(θ) sin^{d-2} θ Γ(d/2) / (√π Γ((d-1)/2)) on [0, π]. The uniform density is dotted. Particles
    are points on the map, or beside the circle, which then bears their histogram; for d > 3 they
    are projected onto their two principal axes. The scale is logarithmic where it exceeds 20.

    Parameters
    ----------
    measure : Density or Particles
    ax : matplotlib Axes, optional
        Of projection 'mollweide' on S^2 and 'polar' on the circle; made on a new figure if
        omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `measure` is no measure, or `ax` no Axes of this projection.

    Examples
    --------
    >>> import meanfield as mf
    >>> ax = density(mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])))
    >>> ax.name
    'polar'
    """
    if not isinstance(measure, (Density, Particles)):
        raise ValueError(f"measure must be a Density or Particles, got {measure!r}")
    wanted = projection(measure)
    shared = look([measure])
    if ax is None:
        figure = new_figure(3.4, 2.4)
        ax = figure.add_subplot(projection=wanted)
        if wanted == "mollweide" and isinstance(measure, Density):
            colour_bar(figure, [ax], shared.scale, "bottom")
    if not isinstance(ax, Axes) or ax.name != wanted:
        raise ValueError(f"ax must have projection {wanted!r} for {measure}, got {ax!r}")
    draw(measure, ax, shared)
    return ax


def new_figure(width: float, height: float) -> Figure:
    """A figure of that many inches that belongs to no window."""
    figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def projection(measure: AnyMeasure) -> str:
    """The matplotlib projection of the panel of a measure."""
    if isinstance(measure, Density) and isinstance(measure.space, Zonal):
        return "rectilinear"
    return {2: "polar", 3: "mollweide"}.get(measure.dim, "rectilinear")


def look(measures: Sequence[AnyMeasure]) -> Look:
    """One scale and one plane for several measures."""
    lowest, highest = np.inf, 0.0
    for measure in measures:
        values = _histogram(measure) if isinstance(measure, Particles) else measure.values
        if isinstance(measure, Density) and isinstance(measure.space, Zonal):
            values = _law_of_angle(values, measure.space.sines, measure.dim)
        lowest, highest = min(lowest, float(values.min())), max(highest, float(values.max()))
    if highest > _CONCENTRATED:
        scale: Normalize = LogNorm(max(lowest, _EMPTY), highest)
    else:
        scale = Normalize(0.0, highest)
    last = measures[-1]
    plane: Array = np.eye(2, last.dim)
    if isinstance(last, Particles) and last.dim > 3:
        moments = np.einsum("i,ij,ik->jk", last.weights, last.points, last.points)
        plane = np.asarray(np.linalg.eigh(moments)[1][:, :-3:-1].T)
    return Look(scale, plane)


def colour_bar(parent: Any, axes: list[Axes], scale: Normalize, side: str) -> None:
    """The scale of the maps on these axes; an arrow shows that smaller values look alike."""
    mappable = ScalarMappable(scale, COLOURS)
    extend = "min" if scale.vmin == _EMPTY else "neither"
    bar = parent.colorbar(
        mappable, ax=axes, location=side, extend=extend, shrink=0.8, pad=0.02, aspect=25
    )
    bar.set_label("density f", fontsize=NORMAL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.6)


def draw(measure: AnyMeasure, ax: Axes, shared: Look) -> None:
    """Fill a panel of the measure's projection."""
    ax.tick_params(labelsize=SMALL)
    ax.set_axisbelow(True)
    if isinstance(measure, Density) and isinstance(measure.space, Zonal):
        _profile(measure, measure.space, ax, shared.scale)
    elif measure.dim == 2:
        _ring(measure, ax, shared.scale)
    elif measure.dim == 3:
        _map(measure, ax, shared.scale)
    elif isinstance(measure, Particles):
        _disc(measure, ax, shared.plane)


def _map(measure: AnyMeasure, ax: Any, scale: Normalize) -> None:
    if isinstance(measure, Density):
        x, y = np.meshgrid(_centres(2 * _PIXELS, _ROOT8), _centres(_PIXELS, _ROOT8 / 2))
        tilt = np.arcsin(y / (_ROOT8 / 2))
        # pixels beyond the rim take its value, so that the rim is cut out of a smooth picture
        longitudes = np.clip(np.pi * x / (_ROOT8 * np.cos(tilt)), -np.pi, np.pi)
        colatitudes = np.arccos((2.0 * tilt + np.sin(2.0 * tilt)) / np.pi)
        values = measure.at(sphere_points(colatitudes.ravel(), longitudes.ravel()))
        image = AxesImage(
            ax,
            cmap=COLOURS,
            norm=scale,
            extent=(-_ROOT8, _ROOT8, -_ROOT8 / 2, _ROOT8 / 2),
            origin="lower",
            interpolation="bilinear",
        )
        image.set_data(values.reshape(x.shape))
        image.set_transform(ax.transAffine + ax.transAxes)
        image.set_clip_path(ax.patch)
        ax.add_image(image)
        ax.set_axisbelow(False)
    else:
        colatitudes, longitudes = sphere_angles(measure.points)
        wrapped = np.where(longitudes > np.pi, longitudes - 2.0 * np.pi, longitudes)
        _points(ax, wrapped, np.pi / 2 - colatitudes, measure)
    ax.set_xticks(np.pi / 3 * np.arange(-2, 3), [])
    ax.set_yticks(np.pi / 6 * np.arange(-2, 3), [])
    ax.set_longitude_grid_ends(90)
    ax.grid(color="white" if isinstance(measure, Density) else "0.8", alpha=0.35, linewidth=0.4)
    ax.spines["geo"].set_linewidth(0.6)


def _centres(count: int, half_width: float) -> Array:
    """Centres of `count` equal parts of [-half_width, half_width]."""
    return half_width * (2.0 * np.arange(count) + 1.0 - count) / count


def _ring(measure: AnyMeasure, ax: Any, scale: Normalize) -> None:
    if isinstance(measure, Density):
        angles: Array = np.linspace(0.0, 2.0 * np.pi, max(720, 4 * measure.space.size) + 1)
        height = _height(measure.at(circle_points(angles)), scale)
        ax.fill_between(angles, 0.0, height, color=BLUE, alpha=0.25, linewidth=0.0)
        ax.plot(angles, height, color=BLUE, linewidth=1.2)
    else:
        height = _height(_histogram(measure), scale)
        angles = np.asarray(2.0 * np.pi / _BINS * (np.arange(_BINS) + 0.5))
        ax.bar(angles, height, 2.0 * np.pi / _BINS, color=BLUE, alpha=0.35, linewidth=0.0)
        _points(ax, circle_angles(measure.points), np.full(len(measure.points), -0.12), measure)
    around = np.linspace(0.0, 2.0 * np.pi, 361)
    ax.plot(around, np.zeros_like(around), color="black", linewidth=0.6)
    uniform = float(_height(np.ones(1), scale)[0])
    ax.plot(around, np.full_like(around, uniform), ":", color=GREY, linewidth=0.8)
    ax.set_rorigin(-1.0)
    ax.set_rlim(0.0 if isinstance(measure, Density) else -0.2, 1.05)
    ax.set_xticks(*_HALF_TURNS)
    ax.tick_params(axis="x", pad=-3)
    ticks = _ticks(scale)
    ax.set_yticks(_height(ticks, scale), [f"{tick:g}" for tick in ticks])
    places = np.arange(22.5, 360.0, 45.0)
    ax.set_rlabel_position(places[int(np.argmin(np.interp(np.radians(places), angles, height)))])
    ax.grid(linewidth=0.3, color="0.8")
    for spine in ax.spines.values():
        spine.set_linewidth(0.0)


def _height(values: Array, scale: Normalize) -> Array:
    """Where a density stands between the bottom 0 and the top 1 of its scale."""
    return np.asarray(scale(np.maximum(values, scale.vmin or 0.0)))


def _ticks(scale: Normalize) -> Array:
    """The uniform density 1 and a round number below the largest density."""
    largest = float(scale.vmax or 1.0)
    exponent = np.floor(np.log10(largest))
    leading = np.floor(largest / 10.0**exponent)
    return np.unique([1.0, leading * 10.0**exponent])


def _profile(measure: Density, space: Zonal, ax: Axes, scale: Normalize) -> None:
    angles: Array = np.linspace(0.0, np.pi, max(361, 4 * space.kmax + 1))
    across = perpendicular(space.axis)
    points = np.outer(np.cos(angles), space.axis) + np.outer(np.sin(angles), across)
    law = _law_of_angle(measure.at(points), np.sin(angles), measure.dim)
    uniform = _law_of_angle(np.ones_like(angles), np.sin(angles), measure.dim)
    bottom, top = float(scale.vmin or 0.0), float(scale.vmax or 1.0)
    if isinstance(scale, LogNorm):
        ax.set_yscale("log")
    ax.set_ylim(bottom, top * (top / bottom) ** 0.05 if bottom else 1.05 * top)
    ax.fill_between(angles, bottom, np.maximum(law, bottom), color=BLUE, alpha=0.25, linewidth=0.0)
    ax.plot(angles, np.maximum(law, bottom), color=BLUE, linewidth=1.2)
    ax.plot(angles, np.maximum(uniform, bottom), ":", color=GREY, linewidth=0.8)
    ax.set_xlim(0.0, np.pi)
    ax.set_xticks([0.0, np.pi / 2, np.pi], ["0", "π/2", "π"])
    ax.set_xlabel("polar angle θ", fontsize=NORMAL)
    ax.set_ylabel("density of θ", fontsize=NORMAL)
    ax.spines[["top", "right"]].set_visible(False)


def _law_of_angle(values: Array, sines: Array, dim: int) -> Array:
    """f(θ) sin^{d-2} θ Γ(d/2) / (√π Γ((d-1)/2)), which has the integral 1 over [0, π]."""
    log_factor = gammaln(dim / 2) - gammaln((dim - 1) / 2) - 0.5 * np.log(np.pi)
    with np.errstate(under="ignore"):
        return np.asarray(values * np.exp(log_factor) * np.maximum(sines, 0.0) ** (dim - 2))


def _disc(measure: Particles, ax: Axes, plane: Array) -> None:
    x, y = plane @ measure.points.T
    around = np.linspace(0.0, 2.0 * np.pi, 361)
    ax.plot(np.cos(around), np.sin(around), color="black", linewidth=0.6)
    _points(ax, x, y, measure)
    ax.set_aspect("equal")
    ax.set_xlim(-1.05, 1.05)
    ax.set_ylim(-1.05, 1.05)
    ax.set_xlabel("1st principal axis", fontsize=SMALL, color=GREY)
    ax.set_ylabel("2nd principal axis", fontsize=SMALL, color=GREY)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)


def _points(ax: Axes, x: Array, y: Array, measure: Particles) -> None:
    area = 5.0 * measure.weights / measure.weights.max()
    alpha = float(np.clip(200.0 / len(x), 0.2, 0.8))
    ax.scatter(x, y, s=area, color=BLUE, alpha=alpha, linewidths=0.0, rasterized=len(x) > 2000)


def _histogram(measure: Particles) -> Array:
    """The density of tokens on the circle in equal bins; elsewhere the uniform one."""
    if measure.dim != 2:
        return np.ones(1)
    counts, _ = np.histogram(
        circle_angles(measure.points), _BINS, (0.0, 2.0 * np.pi), weights=measure.weights
    )
    return np.asarray(counts * _BINS)
