"""One measure at one time: Mollweide map on S^2, curve around the circle, profile, or points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage
from scipy.linalg import eigh

from meanfield._checks import shown
from meanfield.measures import AnyMeasure, check_measure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FlowMap, LineFlowMap, SphereFlowMap
from meanfield.measures.particles import Particles
from meanfield.plot.frames import (
    BLUE,
    CAP,
    COLOURS,
    GREY,
    ORANGE,
    SMALL,
    colour_bar,
    height,
    law_of_angle,
    log_law_of_angle,
    new_axes,
    profile,
    ring,
    scale_of,
)
from meanfield.spaces.geometry import (
    circle_angles,
    circle_points,
    perpendicular,
    sphere_angles,
    sphere_points,
)
from meanfield.spaces.zonal import Zonal
from meanfield.typing import Array

_TURN = 2.0 * np.pi
# atoms nearer than this look like one
_ALIKE = 0.01
# area of the dot of an atom of mass 1, in points²
_AREA = 40.0
# stems of more atoms than these are thin
_FEW = 30
# masses are written beside so many atoms at most, this part of the panel's width apart
_MOST_NAMES = 4
_APART = 0.28


def log_curve(flow: LineFlowMap) -> tuple[Array, Array]:
    """Angles of the free nodes, ascending, and log f there, or of the law of the polar angle."""
    free = flow.owners < 0
    angles, log_f = flow.angles[free], flow.log_density[free]
    if flow.axis is None:
        angles = angles % _TURN
    else:
        angles = np.clip(angles, 0.0, np.pi)
        log_f = log_law_of_angle(log_f, angles, flow.dim)
    order = np.argsort(angles, kind="stable")
    return angles[order], log_f[order]


def extremes(flow: LineFlowMap) -> tuple[float, float]:
    """Smallest and largest of the curve, or twice the uniform one where that is more."""
    _, logs = log_curve(flow)
    equator = np.array([np.pi / 2])
    least = 0.0 if flow.axis is None else float(log_law_of_angle(np.zeros(1), equator, flow.dim)[0])
    with np.errstate(over="ignore", under="ignore"):
        lowest = float(np.exp(logs.min(initial=0.0)))
        return lowest, float(np.exp(logs.max(initial=least + np.log(2.0))))


def draw_ring(flow: LineFlowMap, ax: Any, scale: Normalize) -> None:
    """The curve around the circle and the atoms on stems across its scale."""
    around: Array = np.linspace(0.0, _TURN, 721)
    nodes, logs = log_curve(flow)
    angles, heights = around, np.zeros_like(around)
    if len(nodes):
        angles = np.union1d(around, nodes)
        heights = np.interp(angles, nodes, height(_exp(logs), scale), period=_TURN)
        ax.fill_between(angles, 0.0, heights, color=BLUE, alpha=0.25, linewidth=0.0)
        ax.plot(angles, heights, color=BLUE, linewidth=1.2)
    atoms, masses = gathered(flow.atoms % _TURN, flow.atom_masses)
    _stems(ax, atoms, masses, 0.0, 1.0)
    ring(ax, np.append(angles, atoms), np.append(heights, np.ones_like(atoms)), scale)
    if _is_cut(logs, scale):
        # the corner beside the circle
        ax.text(-0.1, -0.02, _cut(logs), transform=ax.transAxes, **_TEXT, va="top")


def draw_profile(flow: LineFlowMap, ax: Axes, scale: Normalize) -> None:
    """The law of the polar angle and the atoms, with their masses, on stems across the panel."""
    nodes, logs = log_curve(flow)
    angles: Array = np.union1d(np.linspace(0.0, np.pi, 361), nodes)
    # no mass lies beyond the outermost nodes
    law = np.interp(angles, nodes, _exp(logs), 0.0, 0.0) if len(nodes) else np.zeros_like(angles)
    profile(ax, angles, law, flow.dim, scale)
    names = list(zip(*gathered(np.clip(flow.atoms, 0.0, np.pi), flow.atom_masses), strict=True))
    bottom, top = ax.get_ylim()
    _stems(ax, *_columns(names), bottom, float(scale.vmax or top))
    cut = _is_cut(logs, scale)
    if cut:
        _beside(ax, float(nodes[np.argmax(logs)]), 0, _cut(logs))
    named: list[float] = []
    for atom, mass in sorted(names, key=lambda name: -name[1]):
        if len(named) < _MOST_NAMES and all(abs(atom - x) > _APART * np.pi for x in named):
            named.append(atom)
            _beside(ax, atom, int(cut) + len(named) - 1, f"atom {mass:.3g}")


_TEXT: dict[str, Any] = {"fontsize": SMALL, "color": "0.3"}


def _beside(ax: Axes, angle: float, line: int, text: str) -> None:
    """A line of text on the side of a stem where the panel is wider."""
    left = angle <= np.pi / 2
    ax.annotate(
        text,
        (angle, 0.95),
        xycoords=ax.get_xaxis_transform(),
        xytext=(5 if left else -5, -9 * line),
        textcoords="offset points",
        ha="left" if left else "right",
        va="center",
        **_TEXT,
    )


def _stems(ax: Any, atoms: Array, masses: Array, bottom: float, top: float) -> None:
    if len(atoms):
        few = len(atoms) <= _FEW
        ax.vlines(
            atoms,
            bottom,
            top,
            color=ORANGE,
            linewidth=0.9 if few else 0.4,
            alpha=None if few else 0.5,
            zorder=3,
        )
        area, tops = np.maximum(_AREA * masses, 2.0), np.full(len(atoms), top)
        ax.scatter(atoms, tops, s=area, color=ORANGE, linewidths=0.0, zorder=4, clip_on=False)


def gathered(atoms: Array, masses: Array) -> tuple[Array, Array]:
    """Atoms that look alike joined: the mean angle and the whole mass of each group."""
    groups: list[list[int]] = []
    for index in np.argsort(atoms):
        if groups and atoms[index] - atoms[groups[-1][0]] < _ALIKE:
            groups[-1].append(int(index))
        else:
            groups.append([int(index)])
    heavy = [np.maximum(masses[group], np.finfo(float).tiny) for group in groups]
    angles = [atoms[g] @ m / m.sum() for g, m in zip(groups, heavy, strict=True)]
    return np.array(angles), np.array([masses[group].sum() for group in groups])


def _columns(pairs: list[tuple[float, float]]) -> tuple[Array, Array]:
    table = np.reshape(np.array(pairs, dtype=np.float64), (-1, 2))
    return table[:, 0], table[:, 1]


def _exp(logs: Array) -> Array:
    """The densities, those far beyond the scale's end cut short of overflow."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.minimum(logs, np.log(1e3 * CAP))))


def _is_cut(logs: Array, scale: Normalize) -> bool:
    return bool(len(logs)) and scale.vmax == CAP and bool(logs.max() > np.log(CAP))


def _cut(logs: Array) -> str:
    """How far the curve goes beyond its panel, as a power of ten that may leave double range."""
    log10 = float(logs.max()) / np.log(10.0)
    if not np.isfinite(log10):
        return "to ∞ ↑"
    leading, exponent = round(10.0 ** (log10 % 1.0)), int(np.floor(log10))
    if leading == 10:
        leading, exponent = 1, exponent + 1
    return f"to {leading}e{exponent} ↑"


# of the histogram of tokens on the circle
BINS = 90


@dataclass(frozen=True)
class Look:
    """What panels share: the scale of densities, the plane tokens are seen in, the resolution."""

    scale: Normalize
    plane: Array
    is_fine: bool = True


def projection(measure: AnyMeasure) -> str:
    """The matplotlib projection of the panel of a measure."""
    if measure.axis is not None:
        return "rectilinear"
    return {2: "polar", 3: "mollweide"}.get(measure.dim, "rectilinear")


def is_coloured(measure: AnyMeasure) -> bool:
    """Whether the panel of a measure is a map in the colours of its density."""
    return projection(measure) == "mollweide" and not isinstance(measure, Particles)


def look(measures: Sequence[AnyMeasure]) -> Look:
    """One scale and one plane for several measures."""
    lowest, highest = np.array([_extremes(measure) for measure in measures]).T
    last = measures[-1]
    plane: Array = np.eye(2, last.dim)
    if not isinstance(last, Density) and last.dim > 3:
        plane = _principal_plane(last.points, last.weights)
    return Look(scale_of(float(lowest.min()), float(highest.max())), plane)


def _principal_plane(points: Array, weights: Array) -> Array:
    """The two axes (2, d) of largest Σ_i w_i <x_i, axis>²."""
    basis = np.eye(points.shape[1])
    if 2 <= len(points) <= points.shape[1] // 2:
        # few tokens span less than the space
        basis = np.linalg.qr(points.T)[0]
    inside = points @ basis
    size = basis.shape[1]
    moments = (weights[:, None] * inside).T @ inside
    vectors = eigh(moments, subset_by_index=[size - 2, size - 1])[1]
    return np.asarray((basis @ vectors[:, ::-1]).T)


def _extremes(measure: AnyMeasure) -> tuple[float, float]:
    """Smallest and largest of the densities that are drawn."""
    if isinstance(measure, LineFlowMap):
        return extremes(measure)
    if isinstance(measure, SphereFlowMap):
        density = measure.density_at_nodes[: measure.n_nodes]
        return float(density.min()), max(1.0, float(density.max()))
    values = measure.values if isinstance(measure, Density) else histogram(measure)
    if isinstance(measure, Density) and isinstance(measure.space, Zonal):
        values = law_of_angle(values, measure.space.sines, measure.dim)
    return float(values.min()), float(values.max())


def histogram(measure: FlowMap | Particles) -> Array:
    """The density of tokens on the circle in equal bins; elsewhere the uniform one."""
    if measure.dim != 2:
        return np.ones(1)
    counts, _ = np.histogram(
        circle_angles(measure.points), BINS, (0.0, 2.0 * np.pi), weights=measure.weights
    )
    return np.asarray(counts * BINS)


_ROOT8 = float(np.sqrt(8.0))
_PIXELS = 180
# angles around the circle where a picture is small
_COARSE = 720


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
        paint = draw_ring if measure.axis is None else draw_profile
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
