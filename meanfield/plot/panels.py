"""One measure at one time: Mollweide map on S^2, curve around the circle, profile, or points."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.geometry import (
    circle_angles,
    circle_points,
    perpendicular,
    sphere_angles,
    sphere_points,
)
from meanfield.measures import (
    AnyMeasure,
    Density,
    FlowMap,
    LineFlowMap,
    Particles,
    SphereFlowMap,
    check_measure,
)
from meanfield.plot import flow_panels
from meanfield.plot.frames import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    SMALL,
    colour_bar,
    height,
    law_of_angle,
    new_axes,
    profile,
    ring,
)
from meanfield.plot.looks import BINS, Look, histogram, is_coloured, look, projection
from meanfield.spaces import Zonal

Array = NDArray[np.float64]

_ROOT8 = float(np.sqrt(8.0))
_PIXELS = 180
# angles around the circle where a picture is small
_COARSE = 720
# area of the dot of a particle of mass 1, in points²
_AREA = 40.0


def density(measure: AnyMeasure, ax: Axes | None = None) -> Axes:
    """Draw a measure: f(x) for densities and flow maps, x_1 … x_n for particles.

    A density on S^2 becomes a Mollweide map in longitude and latitude; on the circle a curve
    around it, r growing with f. Of a zonal one, where f grows like a power of the dimension and
    tells little, the law of the polar angle θ from its axis is drawn: the density
    f(θ) sin^{d-2} θ Γ(d/2) / (√π Γ((d-1)/2)) on [0, π]. The uniform density is dotted. Particles
    are points on the map, or beside the circle, which then bears their histogram; for d > 3 they
    are projected onto their two principal axes. A flow map is drawn like a density from its free
    nodes where its labels lie on a line, else as points; atoms are stems, their dots with areas by
    mass. The scale is logarithmic where it exceeds 20, and ends at 10⁴; an arrow tells how far a
    flow map's density goes beyond.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
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
    check_measure("measure", measure)
    wanted = projection(measure)
    shared = look([measure])
    if ax is None:
        ax = new_axes(wanted)
        if is_coloured(measure):
            colour_bar(ax.figure, [ax], shared.scale, "bottom")
    if not isinstance(ax, Axes) or ax.name != wanted:
        raise ValueError(f"ax must have projection {wanted!r} for {measure}, got {shown(ax)}")
    draw(measure, ax, shared)
    return ax


def draw(measure: AnyMeasure, ax: Axes, shared: Look) -> None:
    """Fill a panel of the measure's projection."""
    ax.tick_params(labelsize=SMALL)
    ax.set_axisbelow(True)
    if isinstance(measure, LineFlowMap):
        paint = flow_panels.draw_ring if measure.axis is None else flow_panels.draw_profile
        paint(measure, ax, shared.scale)
    elif isinstance(measure, Density) and isinstance(measure.space, Zonal):
        _profile(measure, measure.space, ax, shared.scale)
    elif measure.dim == 2:
        _ring(measure, ax, shared)
    elif measure.dim == 3:
        _map(measure, ax, shared)
    elif not isinstance(measure, Density):
        _disc(measure, ax, shared.plane)


def _map(measure: AnyMeasure, ax: Any, shared: Look) -> None:
    scale = shared.scale
    if isinstance(measure, Density):
        rows = _PIXELS if shared.is_fine else _PIXELS // 2
        x, y = np.meshgrid(_centres(2 * rows, _ROOT8), _centres(rows, _ROOT8 / 2))
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
        if isinstance(measure, SphereFlowMap):
            _nodes(ax, wrapped, np.pi / 2 - colatitudes, measure, scale)
        else:
            _points(ax, wrapped, np.pi / 2 - colatitudes, measure)
    ax.set_xticks(np.pi / 3 * np.arange(-2, 3), [])
    ax.set_yticks(np.pi / 6 * np.arange(-2, 3), [])
    ax.set_longitude_grid_ends(90)
    ax.grid(color="0.8" if isinstance(measure, Particles) else "white", alpha=0.35, linewidth=0.4)
    ax.spines["geo"].set_linewidth(0.6)


def _centres(count: int, half_width: float) -> Array:
    """Centres of `count` equal parts of [-half_width, half_width]."""
    return half_width * (2.0 * np.arange(count) + 1.0 - count) / count


def _ring(measure: AnyMeasure, ax: Any, shared: Look) -> None:
    scale = shared.scale
    if isinstance(measure, Density):
        angles, values = _around(measure, shared.is_fine)
        heights = height(values, scale)
        ax.fill_between(angles, 0.0, heights, color=BLUE, alpha=0.25, linewidth=0.0)
        ax.plot(angles, heights, color=BLUE, linewidth=1.2)
    else:
        heights = height(histogram(measure), scale)
        angles = np.asarray(2.0 * np.pi / BINS * (np.arange(BINS) + 0.5))
        ax.bar(angles, heights, 2.0 * np.pi / BINS, color=BLUE, alpha=0.35, linewidth=0.0)
        _points(ax, circle_angles(measure.points), np.full(len(measure.points), -0.12), measure)
    ring(ax, angles, heights, scale, 0.0 if isinstance(measure, Density) else -0.2)


def _around(measure: Density, is_fine: bool) -> tuple[Array, Array]:
    """Angles around the circle and f there; of a large space, if need not be fine, a part."""
    size = len(measure.values)
    if is_fine or size <= _COARSE:
        angles: Array = np.linspace(0.0, 2.0 * np.pi, max(_COARSE, 4 * measure.space.size) + 1)
        return angles, measure.at(circle_points(angles))
    kept = np.union1d(np.linspace(0, size - 1, _COARSE).astype(int), [measure.values.argmax()])
    kept = np.append(kept, kept[0])
    return circle_angles(measure.space.points[kept]), measure.values[kept]


def _profile(measure: Density, space: Zonal, ax: Axes, scale: Normalize) -> None:
    angles: Array = np.linspace(0.0, np.pi, max(361, 4 * space.kmax + 1))
    across = perpendicular(space.axis)
    points = np.outer(np.cos(angles), space.axis) + np.outer(np.sin(angles), across)
    law = law_of_angle(measure.at(points), np.sin(angles), measure.dim)
    profile(ax, angles, law, measure.dim, scale)


def _disc(measure: FlowMap | Particles, ax: Axes, plane: Array) -> None:
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


def _points(ax: Axes, x: Array, y: Array, measure: FlowMap | Particles) -> None:
    area = 5.0 * measure.weights / measure.weights.max()
    alpha = float(np.clip(200.0 / len(x), 0.2, 0.8))
    ax.scatter(x, y, s=area, color=BLUE, alpha=alpha, linewidths=0.0, rasterized=len(x) > 2000)


def _nodes(ax: Axes, x: Array, y: Array, flow: SphereFlowMap, scale: Normalize) -> None:
    """Nodes in the colour of the density there, the densest on top; particles by their mass."""
    ax.set_facecolor(COLOURS(0.0))
    density = flow.density_at_nodes[: flow.n_nodes]
    order = np.argsort(density)
    kind: dict[str, Any] = {"linewidths": 0.0, "rasterized": True}
    ax.scatter(x[order], y[order], s=2.0, c=density[order], cmap=COLOURS, norm=scale, **kind)
    area = np.maximum(0.5, _AREA * flow.weights[flow.n_nodes :])
    ax.scatter(x[flow.n_nodes :], y[flow.n_nodes :], s=area, color=ORANGE, **kind)
