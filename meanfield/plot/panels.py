"""One measure at one time: Mollweide map on S^2, polar curve on the circle, profile else."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from meanfield.geometry import circle_angles, circle_points, sphere_angles, sphere_points
from meanfield.measures import AnyMeasure, Density

Array = NDArray[np.float64]

COLOUR = "#0072b2"
MAP = "viridis"
_LATITUDES, _LONGITUDES = 181, 361
# a range wider than this is shown on a logarithmic scale, over at most so many decades
_WIDE = 100.0
_DECADES = 4


def projection(measure: AnyMeasure) -> str | None:
    """The matplotlib projection in which `density` draws this kind of measure."""
    name = (
        measure.space.name
        if isinstance(measure, Density)
        else {2: "circle", 3: "sphere"}.get(measure.dim)
    )
    return {"circle": "polar", "sphere": "mollweide"}.get(name or "")


def density(measure: AnyMeasure, ax: Axes | None = None, *, norm: Normalize | None = None) -> Axes:
    """Draw a measure.

    A density on S^2 becomes a Mollweide map, on the circle a polar curve around the dotted uniform
    density 1, a zonal one a profile over the polar angle from its axis. Tokens become dots, or in
    d > 3 the histogram of their inner products <x_i, x_j>, i < j.

    Parameters
    ----------
    measure : Density or Particles
    ax : matplotlib Axes, optional
        With the projection that `projection` names; made on a new figure if omitted.
    norm : matplotlib Normalize, optional
        Colour scale of the map on S^2; `colour_scale` of this density if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `ax` has another projection.

    Examples
    --------
    >>> import meanfield as mf
    >>> ax = density(mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])))
    >>> len(ax.lines)
    2
    """
    wanted = projection(measure)
    if ax is None:
        ax = Figure(layout="constrained").add_subplot(projection=wanted)
    if wanted is not None and ax.name != wanted:
        raise ValueError(f"ax must have projection {wanted!r} for {measure}, got {ax.name!r}")
    if not isinstance(measure, Density):
        _tokens(measure.points, ax)
    elif measure.space.name == "sphere":
        _map(measure, ax, norm or colour_scale([measure]))
    elif measure.space.name == "circle":
        _polar(measure, ax)
    else:
        _profile(measure, ax)
    return ax


def colour_scale(measures: list[Density]) -> Normalize:
    """One colour scale for several densities: logarithmic where they range over more than 100."""
    highest = max(float(mu.values.max()) for mu in measures)
    lowest = min(float(mu.values.min()) for mu in measures)
    if highest > _WIDE * max(lowest, 0.0):
        return LogNorm(max(lowest, highest * 10.0**-_DECADES), highest)
    return Normalize(lowest, max(highest, lowest + 1e-12))


def _map(measure: Density, ax: Axes, norm: Normalize) -> None:
    latitudes = np.linspace(-np.pi / 2, np.pi / 2, _LATITUDES)
    longitudes = np.linspace(-np.pi, np.pi, _LONGITUDES)
    grid = sphere_points(
        np.repeat(np.pi / 2 - latitudes, _LONGITUDES), np.tile(longitudes, _LATITUDES)
    )
    values = measure.at(grid).reshape(_LATITUDES, _LONGITUDES)
    floor = norm.vmin if isinstance(norm, LogNorm) else None
    shown = values if floor is None else np.maximum(values, floor)
    ax.pcolormesh(
        longitudes, latitudes, shown, norm=norm, cmap=MAP, shading="gouraud", rasterized=True
    )
    _bare(ax)


def _polar(measure: Density, ax: Any) -> None:
    angles = np.linspace(0.0, 2.0 * np.pi, 1441)
    values = measure.at(circle_points(angles))
    ax.plot(angles, np.maximum(values, 0.0), color=COLOUR, linewidth=1.5)
    ax.fill(angles, np.maximum(values, 0.0), color=COLOUR, alpha=0.15)
    ax.plot(angles, np.ones_like(angles), ":", color="0.35", linewidth=0.8)
    ax.set_rlim(0.0, 1.08 * float(values.max()))
    ax.set_rticks(MaxNLocator(3, prune="lower").tick_values(0.0, float(values.max()))[:-1])
    ax.set_rlabel_position(112.5)
    ax.set_xticks(np.pi / 2 * np.arange(4), ["0", "π/2", "π", "3π/2"])
    ax.tick_params(labelsize=7, pad=0)
    ax.grid(linewidth=0.4)


def _profile(measure: Density, ax: Axes) -> None:
    angles = np.linspace(0.0, np.pi, 721)
    space: Any = measure.space
    across = np.eye(space.dim)[int(np.argmin(np.abs(space.axis)))]
    across = across - (across @ space.axis) * space.axis
    across /= np.linalg.norm(across)
    values = measure.at(np.outer(np.cos(angles), space.axis) + np.outer(np.sin(angles), across))
    highest = float(values.max())
    if highest > _WIDE * max(float(values.min()), 0.0):
        ax.set_yscale("log")
        ax.set_ylim(highest * 1e-8, highest * 3)
        values = np.maximum(values, highest * 1e-12)
    ax.plot(angles, values, color=COLOUR, linewidth=1.5)
    ax.axhline(1.0, linestyle=":", color="0.35", linewidth=0.8)
    ax.set_xticks([0, np.pi / 2, np.pi], ["0", "π/2", "π"])
    ax.set_xlabel("polar angle θ")
    ax.set_xlim(0, np.pi)


def _tokens(points: Array, ax: Any) -> None:
    dim = points.shape[1]
    if dim == 2:
        ax.plot(circle_angles(points), np.ones(len(points)), "o", color=COLOUR, ms=3, alpha=0.4)
        ax.set_rlim(0.0, 1.3)
        _bare(ax)
    elif dim == 3:
        colatitudes, longitudes = sphere_angles(points)
        longitudes = np.where(longitudes > np.pi, longitudes - 2 * np.pi, longitudes)
        ax.plot(longitudes, np.pi / 2 - colatitudes, "o", color=COLOUR, ms=2, alpha=0.4)
        _bare(ax)
    else:
        gram = points @ points.T
        ax.hist(gram[np.triu_indices(len(points), 1)], bins=50, range=(-1, 1), color=COLOUR)
        ax.set_xlabel("⟨x_i, x_j⟩")
        ax.set_ylabel("pairs")


def _bare(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
