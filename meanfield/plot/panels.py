"""One measure at one time: Mollweide map on S^2, curve around the circle, profile, or points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage
from matplotlib.transforms import Transform
from scipy.linalg import eigh

from meanfield.measures import AnyMeasure, check_measure
from meanfield.measures.density import Density
from meanfield.measures.line_flow_map import LineFlowMap
from meanfield.measures.sphere_flow_map import SphereFlowMap
from meanfield.plot import frames
from meanfield.spaces import Places, SphereAt, geometry
from meanfield.typing import Array, Integers

_TURN = 2.0 * np.pi
# atoms nearer than this look like one
_ALIKE = 0.01
# areas of the dots of particles of mass 1 and of atoms, in points²
_AREA, _DOT = 40.0, 5.0
# more stems than these are drawn thin
_FEW = 30
# masses are written beside at most so many atoms, which are this part of the panel's width apart
_MOST_NAMES = 4
_APART = 0.28


# the histogram of tokens on the circle has so many bins
BINS = 90
_ROOT8 = float(np.sqrt(8.0))
_PIXELS = 180
# a small picture has so many nodes, or angles around the circle
_COARSE = 720


# a deviation of tokens from their mean below this is rounding
_ROUNDING = 1e-12


class Plane(NamedTuple):
    """The plane that tokens are seen in: its axes, shape (2, d), and what they are called."""

    axes: Array
    names: tuple[str, str]


@dataclass(frozen=True)
class Look:
    """The look that panels share: scale of densities, plane that tokens are seen in, resolution."""

    scale: Normalize
    plane: Plane
    is_fine: bool = True


def projection(measure: AnyMeasure) -> str:
    """The matplotlib projection of the panel of a measure."""
    if measure.axis is not None:
        return "rectilinear"
    return {2: "polar", 3: "mollweide"}.get(measure.dim, "rectilinear")


def is_coloured(measure: AnyMeasure) -> bool:
    """Whether the panel of a measure is a map in the colours of its density."""
    return projection(measure) == "mollweide" and not measure.is_ordered


def density(measure: AnyMeasure, ax: Axes | None = None) -> Axes:
    """Draw a measure: f(x) for densities and flow maps, x_1 … x_n for particles.

    A density on S^2 becomes a Mollweide map in longitude and latitude; on the circle a curve
    around it, r growing with f. Of a zonal one, where f grows like a power of the dimension and
    shows little, the law of the polar angle θ from its axis is drawn: the density
    f(θ) sin^{d-2} θ Γ(d/2) / (√π Γ((d-1)/2)) on [0, π]. The uniform density is dotted. Particles
    are points on the map, or beside the circle, which then bears their histogram; for d > 3 they
    are projected onto their first two principal axes, whose names have their shares of the
    variance. A flow map is drawn like a density from its free nodes where its labels lie on a line,
    else as points; atoms are stems as high as their mass, 1 being the height of the scale. The
    scale is logarithmic where it exceeds 20, and ends at 10⁴; an arrow shows how far a flow map's
    density exceeds it.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    ax : matplotlib Axes, optional
        Axes of projection 'mollweide' on S^2 and 'polar' on the circle; made on a new figure if
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
    shared = look([measure], [measure])
    if ax is None:
        ax = frames.new_axes(wanted)
        if is_coloured(measure):
            frames.colour_bar(ax.figure, [ax], shared.scale, "bottom")
    draw(measure, frames.check_axes(ax, {wanted}, str(measure)), shared)
    return ax


def look(
    drawn: Sequence[AnyMeasure],
    saves: Sequence[AnyMeasure],
    is_log: bool | None = None,
    *,
    axis: Array | None = None,
) -> Look:
    """One scale for the measures that are drawn, and the plane of all that were saved.

    Where there is an axis, tokens are drawn by their polar angles.
    """
    lowest, highest = np.array([_extremes(measure, axis) for measure in drawn]).T
    norm = frames.scale_of(float(lowest.min()), float(highest.max()), is_log)
    return Look(norm, plane_of(saves))


def plane_of(measures: Sequence[AnyMeasure]) -> Plane:
    """The first two coordinates; of tokens in d > 3 the first two principal axes of all together.

    Every measure counts alike, so what tells tokens apart at one time is seen although they are in
    one place at another. The largest component of an axis is positive.
    """
    if measures[0].dim > 3 and any(measure.is_ordered for measure in measures):
        return principal_plane(measures)
    return Plane(np.eye(2, measures[0].dim), ("x₁", "x₂"))


def principal_plane(measures: Sequence[AnyMeasure]) -> Plane:
    """The plane of the first two principal axes of all tokens, in any dimension."""
    clouds, dim = [each for each in measures if each.is_ordered], measures[0].dim
    means = [cloud.weights @ cloud.points / cloud.weights.sum() for cloud in clouds]
    mean = np.mean(means, axis=0)
    # measures are read one by one, since all together may exceed the memory
    deviations: Iterable[Array] = (
        np.sqrt(cloud.weights)[:, None] * (cloud.points - mean) for cloud in clouds
    )
    span, size = None, dim
    if sum(len(cloud.points) for cloud in clouds) <= dim // 2:
        # few tokens span less than the space
        rows = np.concatenate(list(deviations))
        span = np.linalg.qr(rows.T)[0]
        deviations, size = [rows @ span], len(rows)
    covariance = sum((part.T @ part for part in deviations), np.zeros((size, size))) / len(clouds)
    variance = float(np.trace(covariance))
    if variance <= _ROUNDING**2:
        return Plane(np.eye(2, dim), ("x₁\nno variance", "x₂\nno variance"))
    values, vectors = eigh(covariance, subset_by_index=[size - 2, size - 1])
    axes = (vectors if span is None else span @ vectors).T[::-1]
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.sign(axes[[0, 1], largest])[:, None]
    # shares that are rounding become 0
    shares = (100.0 * np.maximum(values[::-1], 0.0) / variance).round(9)
    # a panel is too narrow for a name and a share in one line
    first, second = (f"principal axis\n{share:.3g} % of variance" for share in shares)
    return Plane(axes, (f"1st {first}", f"2nd {second}"))


def draw(measure: AnyMeasure, ax: Any, shared: Look) -> None:
    """Fill a panel of the measure's projection."""
    ax.tick_params(labelsize=frames.SMALL)
    ax.set_axisbelow(True)
    _paint(measure, ax, shared)
    if projection(measure) == "mollweide":
        ax.set_xticks(np.pi / 3 * np.arange(-2, 3), [])
        ax.set_yticks(np.pi / 6 * np.arange(-2, 3), [])
        ax.set_longitude_grid_ends(90)
        ax.grid(color="white" if is_coloured(measure) else "0.8", alpha=0.35, linewidth=0.4)
        ax.spines["geo"].set_linewidth(0.6)


class Abscissa(NamedTuple):
    """The axis that tokens at their positions are drawn over: angle, or first principal axis."""

    name: str
    ends: tuple[float, float]
    axis: Array | None = None

    def values(self, tokens: AnyMeasure) -> Array:
        """The places of tokens between the ends, shape (n,)."""
        return angles_of(tokens) if self.axis is None else tokens.points @ self.axis


def abscissa_of(saves: Sequence[AnyMeasure]) -> Abscissa:
    """The angle on the circle, elsewhere the first principal axis of the tokens of all saves."""
    if saves[0].dim == 2:
        return Abscissa("angle θ", (0.0, _TURN))
    plane = principal_plane(saves)
    return Abscissa(plane.names[0], (-1.05, 1.05), plane.axes[0])


def draw_positions(tokens: AnyMeasure, ax: Axes, along: Abscissa) -> None:
    """Fill a panel with tokens at their positions, the first at the bottom."""
    frames.strip(ax)
    _points(ax, along.values(tokens), np.cumsum(tokens.weights), tokens)
    if along.axis is None:
        frames.quarter_ticks(ax, 5)
    else:
        ax.set_xticks([-1.0, 0.0, 1.0])
    ax.set(xlim=along.ends, ylim=(0.0, 1.02), yticks=[0.0, 0.5, 1.0])
    frames.label_axes(ax, along.name, "position s")


@singledispatch
def _extremes(measure: AnyMeasure, axis: Array | None) -> tuple[float, float]:
    """Return the smallest and largest of the densities that are drawn.

    Tokens have those of their histogram.
    """
    has_angles = measure.dim == 2 or axis is not None
    values = histogram(measure, axis)[1] if has_angles else np.ones(1)
    return float(values.min()), float(values.max())


@singledispatch
def _paint(measure: AnyMeasure, ax: Axes, shared: Look) -> None:
    """Draw tokens: on the map, beside the circle with their histogram, or in the plane."""
    if ax.name == "mollweide":
        _points(ax, *_on_map(measure.points), measure)
    elif ax.name == "polar":
        angles, densities = histogram(measure)
        heights = frames.height(densities, shared.scale)
        ax.bar(angles, heights, _TURN / BINS, color=frames.BLUE, alpha=0.35, linewidth=0.0)
        _points(ax, angles_of(measure), np.full(len(measure.points), -0.12), measure)
        frames.ring(ax, angles, heights, shared.scale, -0.2)
    else:
        circle_angles = np.linspace(0.0, _TURN, 361)
        ax.plot(np.cos(circle_angles), np.sin(circle_angles), color="black", linewidth=0.6)
        x, y = shared.plane.axes @ measure.points.T
        _points(ax, x, y, measure)
        ax.set(aspect="equal", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), xticks=[], yticks=[])
        x_name, y_name = shared.plane.names
        ax.set_xlabel(x_name, fontsize=frames.SMALL, color=frames.GREY)
        ax.set_ylabel(y_name, fontsize=frames.SMALL, color=frames.GREY)
        ax.spines[:].set_visible(False)


def histogram(measure: AnyMeasure, axis: Array | None = None) -> tuple[Array, Array]:
    """Middles of equal bins, and there the density of the tokens' angles.

    Around the circle it is relative to the uniform density; of polar angles from an axis it has the
    integral 1 over [0, π].
    """
    end, unit = (_TURN, 1.0) if axis is None else (np.pi, np.pi)
    angles = angles_of(measure, axis)
    counts, _ = np.histogram(angles, BINS, (0.0, end), weights=measure.weights)
    middles = np.asarray(end / BINS * (np.arange(BINS) + 0.5), dtype=np.float64)
    return middles, np.asarray(counts * BINS / unit)


def angles_of(measure: AnyMeasure, axis: Array | None = None) -> Array:
    """The tokens' angles around the circle, or from an axis."""
    if axis is None:
        return geometry.circle_angles(measure.points)
    return geometry.polar_angles(measure.points, axis)


def _on_map(points: Array) -> tuple[Array, Array]:
    """Return longitudes in (-π, π] and latitudes."""
    colatitudes, longitudes = geometry.sphere_angles(points)
    wrapped = np.where(longitudes > np.pi, longitudes - _TURN, longitudes)
    return wrapped, np.pi / 2 - colatitudes


def _points(ax: Axes, x: Array, y: Array, measure: AnyMeasure) -> None:
    area = 5.0 * measure.weights / measure.weights.max()
    alpha = float(np.clip(200.0 / len(x), 0.2, 0.8))
    dots: frames.Keywords = {"color": frames.BLUE, "alpha": alpha, "linewidths": 0.0}
    ax.scatter(x, y, area, rasterized=len(x) > 2000, **dots)


@_extremes.register
def _(measure: Density, axis: Array | None) -> tuple[float, float]:  # noqa: ARG001 (of tokens)
    values: Array = measure.values
    space: Any = measure.space
    if space.axis is not None:
        values = values * frames.uniform_law(space.angles, measure.dim)
    return float(values.min()), float(values.max())


@_paint.register
def _(measure: Density, ax: Axes, shared: Look) -> None:
    (_map if ax.name == "mollweide" else _line)(measure, ax, shared)


def _line(measure: AnyMeasure, ax: Axes, shared: Look) -> None:
    """Draw the curve of a measure on a line, and its atoms as stems as long as their mass."""
    atoms, masses = gathered(measure)
    angles, values = curve(measure, None if shared.is_fine else _COARSE)
    if measure.axis is not None:
        frames.profile(ax, angles, values, measure.dim, shared.scale)
        _stems(ax, atoms, masses, ax.get_xaxis_transform())
        return
    heights = frames.height(values, shared.scale)
    frames.fill_curve(ax, angles, heights)
    _stems(ax, atoms, masses, ax.transData)
    frames.ring(ax, np.append(angles, atoms), np.append(heights, masses), shared.scale)


@singledispatch
def curve(measure: Any, most: int | None = None) -> tuple[Array, Array]:
    """Angles, ascending, and the density there, of the circle or of the polar angle.

    Of more than `most` points of a grid, or nodes, these are taken evenly, the highest among them.
    """
    space, (end, least) = measure.space, _extent(measure)
    if measure.axis is None and most is not None and len(measure.values) > most:
        index = _thinned(measure.values, most)
        angles = np.append(geometry.circle_angles(space.points[index]), end)
        return angles, measure.values[np.append(index, index[0])]
    angles = np.linspace(0.0, end, max(least, 4 * space.size + 1))
    values = measure.pdf(geometry.line_points(angles, measure.axis))
    if measure.axis is not None:
        values = values * frames.uniform_law(angles, measure.dim)
    return angles, values


def _extent(measure: AnyMeasure) -> tuple[float, int]:
    """Return the end of the angles of a measure, and the fewest angles for its curve."""
    return (_TURN, 721) if measure.axis is None else (np.pi, 361)


def _thinned(values: Array, most: int) -> Integers:
    return np.union1d(frames.thinned(len(values), most), [values.argmax()])


def _map(measure: Density, ax: Any, shared: Look) -> None:
    rows = _PIXELS if shared.is_fine else _PIXELS // 2
    x, y = np.meshgrid(_centres(2 * rows, _ROOT8), _centres(rows, _ROOT8 / 2))
    tilt = np.arcsin(y / (_ROOT8 / 2))
    # pixels beyond the rim take its value, so that interpolation at the rim is smooth
    longitudes = np.clip(np.pi * x / (_ROOT8 * np.cos(tilt)), -np.pi, np.pi)
    colatitudes = np.arccos((2.0 * tilt + np.sin(2.0 * tilt)) / np.pi)
    places = Places.of(geometry.sphere_points(colatitudes.ravel(), longitudes.ravel()))
    # all pixels are evaluated at once, to 1e-12 of the largest value
    values = SphereAt(measure.space.size).values(measure.coefficients, places)
    extent = (-_ROOT8, _ROOT8, -_ROOT8 / 2, _ROOT8 / 2)
    look: frames.Keywords = {"origin": "lower", "interpolation": "bilinear", "extent": extent}
    image = AxesImage(ax, cmap=frames.COLOURS, norm=shared.scale, **look)
    image.set_data(values.reshape(x.shape))
    image.set_transform(ax.transAffine + ax.transAxes)
    image.set_clip_path(ax.patch)
    ax.add_image(image)
    ax.set_axisbelow(False)


def _centres(count: int, half_width: float) -> Array:
    """Return the centres of `count` equal parts of [-half_width, half_width]."""
    return half_width * (2.0 * np.arange(count) + 1.0 - count) / count


@_extremes.register
def _(measure: SphereFlowMap, axis: Array | None) -> tuple[float, float]:  # noqa: ARG001 (of tokens)
    density = measure.node_density[: measure.n_nodes]
    return float(density.min()), max(1.0, float(density.max()))


@_paint.register
def _(measure: SphereFlowMap, ax: Axes, shared: Look) -> None:
    """Draw nodes in the colour of the density there, the densest on top.

    Particles have areas by their mass.
    """
    (x, y), n = _on_map(measure.points), measure.n_nodes
    ax.set_facecolor(frames.COLOURS(0.0))
    density = measure.node_density[:n]
    order = np.argsort(density)
    dots: frames.Keywords = {"linewidths": 0.0, "rasterized": True}
    look = dots | {"cmap": frames.COLOURS, "norm": shared.scale}
    ax.scatter(x[order], y[order], 2.0, density[order], **look)
    area = np.maximum(0.5, _AREA * measure.weights[n:])
    ax.scatter(x[n:], y[n:], area, frames.ORANGE, **dots)


@_extremes.register
def _(measure: LineFlowMap, axis: Array | None) -> tuple[float, float]:  # noqa: ARG001 (of tokens)
    """Return the ends of the scale.

    The top is that of the curve, or twice the uniform density if that is more.
    """
    _, logs = log_curve(measure)
    equator, least = np.array([np.pi / 2]), 0.0
    if measure.axis is not None:
        least = float(frames.log_law_of_angle(np.zeros(1), equator, measure.dim)[0])
    with np.errstate(over="ignore", under="ignore"):
        lowest = float(np.exp(logs.min(initial=0.0)))
        return lowest, float(np.exp(logs.max(initial=least + np.log(2.0))))


@_paint.register
def _(flow: LineFlowMap, ax: Axes, shared: Look) -> None:
    """Draw the curve, and say by how much it is cut; about an axis write the largest masses."""
    _line(flow, ax, shared)
    nodes, logs = log_curve(flow)
    cut = _cut(logs, shared.scale)
    if cut and flow.axis is None:
        # the corner beside the circle is free
        frames.write(ax, cut, (-0.1, -0.02), ax.transAxes, va="top")
    elif cut:
        _beside(ax, float(nodes[np.argmax(logs)]), 0, cut)
    if flow.axis is None:
        return
    named: list[float] = []
    for atom, mass in sorted(zip(*gathered(flow), strict=True), key=lambda pair: -pair[1]):
        if len(named) < _MOST_NAMES and all(abs(atom - x) > _APART * np.pi for x in named):
            named.append(atom)
            _beside(ax, atom, bool(cut) + len(named) - 1, f"atom {mass:.3g}")


@curve.register
def _(flow: LineFlowMap, most: int | None = None) -> tuple[Array, Array]:
    """Return the free nodes and points between them.

    On a meridian no mass lies beyond the outermost.

    Nothing where all of the mass is in atoms.
    """
    nodes, logs = log_curve(flow)
    if not len(nodes):
        return nodes, logs
    values = frames.densities_of(logs)
    index = slice(None) if most is None else _thinned(values, most)
    places = np.union1d(np.linspace(0.0, *_extent(flow)), nodes[index])
    period = _TURN if flow.axis is None else None
    return places, np.interp(places, nodes, values, 0.0, 0.0, period)


def log_curve(flow: LineFlowMap, of_angle: bool = True) -> tuple[Array, Array]:
    """Angles of the free nodes, ascending, and log f there, or of the law of the polar angle."""
    free = flow.owners < 0
    angles, log_f = _drawn_angles(flow, flow.angles[free]), flow.log_density[free]
    if of_angle and flow.axis is not None:
        log_f = frames.log_law_of_angle(log_f, angles, flow.dim)
    order = np.argsort(angles, kind="stable")
    return angles[order], log_f[order]


def along_meridian(angles: Array, nodes: Array, logs: Array) -> Array:
    """The density between nodes of these logarithms; no mass lies beyond the outermost."""
    densities = frames.densities_of(logs)
    return np.interp(angles, nodes, densities, 0.0, 0.0) if len(nodes) else np.zeros_like(angles)


def _drawn_angles(flow: LineFlowMap, angles: Array) -> Array:
    """Return angles of the line in [0, 2π], or in [0, π] about an axis."""
    return angles % _TURN if flow.axis is None else np.clip(angles, 0.0, np.pi)


def _beside(ax: Axes, angle: float, line: int, text: str) -> None:
    """Write a line of text on the side of a stem where the panel is wider."""
    ha, x = ("left", 5) if angle <= np.pi / 2 else ("right", -5)
    frame, offset = ax.get_xaxis_transform(), (x, -9 * line)
    frames.write(ax, text, (angle, 0.95), frame, ha=ha, va="center", shift=offset)


def _stems(ax: Axes, atoms: Array, masses: Array, over: Transform) -> None:
    """Draw stems from 0 to the mass of each atom, in coordinates where the scale has height 1."""
    if len(atoms):
        width, alpha = (0.9, 1.0) if len(atoms) <= _FEW else (0.4, 0.5)
        look: frames.Keywords = {"color": frames.ORANGE, "transform": over}
        ax.vlines(atoms, 0.0, masses, linewidth=width, alpha=alpha, zorder=3, **look)
        ax.scatter(atoms, masses, _DOT, linewidths=0.0, zorder=4, clip_on=False, **look)


def gathered(measure: AnyMeasure) -> tuple[Array, Array]:
    """Atoms that look alike joined: the mean angle and the whole mass of each group."""
    if not isinstance(measure, LineFlowMap):
        return np.zeros(0), np.zeros(0)
    atoms, masses = _drawn_angles(measure, measure.atom_angles), measure.atom_masses
    groups: list[list[int]] = []
    for index in np.argsort(atoms):
        if not groups or atoms[index] - atoms[groups[-1][0]] >= _ALIKE:
            groups.append([])
        groups[-1].append(int(index))
    heavy = [np.maximum(masses[group], np.finfo(float).tiny) for group in groups]
    angles = [atoms[g] @ m / m.sum() for g, m in zip(groups, heavy, strict=True)]
    return np.array(angles), np.array([masses[group].sum() for group in groups])


def _cut(logs: Array, norm: Normalize) -> str:
    """By how much the curve exceeds its panel, as a power of ten, which may exceed double range."""
    if norm.vmax != frames.CAP or not logs.max(initial=-np.inf) > np.log(frames.CAP):
        return ""
    log10 = float(logs.max()) / np.log(10.0)
    if not np.isfinite(log10):
        return "to ∞ ↑"
    leading, exponent = round(10.0 ** (log10 % 1.0)), int(np.floor(log10))
    if leading == 10:
        leading, exponent = 1, exponent + 1
    return f"to {leading}e{exponent} ↑"
