"""Figures of datasets that runs were made into: two of them compared, and sweeps over a grid."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import one_of
from meanfield.plot import frames
from meanfield.typing import Array

if TYPE_CHECKING:
    import xarray as xr

# the variables of a comparison, and those by which a sweep is drawn by default
_DISTANCES = {"w1": "$W_1$", "mmd": "mmd", "mean_difference": "distance of the means"}
_FIRST = (
    *("final_energy_share", "final_order_parameter", "final_energy", "value"),
    *("final_rms_velocity", "final_n_clusters"),
)


def comparison(ds: xr.Dataset) -> Figure:
    """Two runs over t: the energy of each, and how far they are apart.

    If W_1 lies in a bracket, a band reaches from its lower to its upper end.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `compare`.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If it is no such dataset.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> soft, plain = (mf.evolve(mu, dynamics, 1.0, 4) for dynamics in (mf.SA(1.0), mf.USA(1.0)))
    >>> len(comparison(mf.compare(soft, plain)).axes) > 1
    True
    """
    frames.check_dataset(ds, "compare", ("mean_difference",), ("t", "run"), ("verdict",))
    names = [name for name in ("energy", "energy_share", "dissipation") if name in ds][:1]
    figure = frames.new_figure(3.6 * (1 + len(names)), 2.8)
    *others, distance_axes = figure.subplots(1, 1 + len(names), squeeze=False)[0]
    for name, ax in zip(names, others, strict=True):
        for run, colour, line in zip(ds["run"].values, frames.CYCLE, ("-", "--"), strict=False):
            values = ds[name].sel(run=run)
            label = f"{run}" if values.notnull().any() else f"{run} has none"
            ax.plot(ds["t"], values, line, color=colour, label=label)
        frames.label_axes(ax, "time t", title=_called(ds[name]))
        ax.legend(**frames.LEGEND)
    for (name, label), colour in zip(_DISTANCES.items(), frames.CYCLE, strict=False):
        if name in ds:
            distance_axes.plot(
                ds["t"], ds[name], "o-", c=colour, label=label, markersize=3, clip_on=False
            )
    heights, least = np.concatenate([line.get_ydata() for line in distance_axes.lines]), 0.0
    if frames.is_wide(heights[heights > 0.0]):
        # a logarithmic axis has no 0
        distance_axes.set_yscale("log", nonpositive="mask")
        least = heights[heights > 0.0].min()
    if "w1" in ds and (ds["w1_upper"] > ds["w1_lower"]).any():
        lower, upper = np.maximum(ds["w1_lower"], least), ds["w1_upper"]
        is_bracket = upper >= lower
        distance_axes.fill_between(
            ds["t"], lower, upper, is_bracket, color=frames.CYCLE[0], alpha=0.25, linewidth=0.0
        )
    frames.label_axes(distance_axes, "time t", "distance")
    if ds.sizes["t"] > 1:
        # neither panel shows times before the first
        for ax in (*others, distance_axes):
            ax.set_xlim(*ds["t"].values[[0, -1]])
    # the legend stands above the curves, which leave no corner free
    distance_axes.legend(**frames.LEGEND, ncols=3, loc="lower left", bbox_to_anchor=(-0.02, 1.0))
    title = frames.subscripts(str(ds.attrs["verdict"]).partition(":")[0], "$_{%s}$")
    return frames.finish(figure, title, [*others, distance_axes])


def sweep(ds: xr.Dataset, name: str | None = None, ax: Axes | None = None) -> Axes:
    """A number of a sweep over its grid: a curve over one key, a map in colours over two.

    If one of two keys has words as its values, there is a curve for each. A number over t, such
    as `energy`, has t as a further axis. Cells that have no such number are grey.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `sweep`.
    name : str, optional
        The variable; `final_energy_share` if it is there, `final_rms_velocity` of runs without an
        energy, else the first number over the grid.
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If it is no such dataset, has no such number, or more than two axes have several values.

    Examples
    --------
    >>> import meanfield as mf
    >>> ds = mf.sweep(lambda x, y: x * y, {"x": [1, 2, 3], "y": [3, 4]})
    >>> sweep(ds).get_xlabel()
    'y'
    """
    frames.check_dataset(ds, "sweep", ("status",))
    over = {str(dim) for dim in ds["status"].dims}
    numbers = [str(n) for n in ds.data_vars if _is_number(ds[n]) and over <= set(ds[n].dims)]
    if not numbers:
        raise ValueError(f"ds must have a number over {sorted(over)}, got {list(ds.data_vars)}")
    if name is None:
        name = next((n for n in _FIRST if n in numbers), numbers[0])
    if not isinstance(name, str) or name not in numbers:
        drawable = (n for n in numbers if 1 <= ds[n].squeeze().ndim <= 2)
        name = one_of("name", name, sorted(drawable))
    data = ds[name].squeeze()
    if not 1 <= data.ndim <= 2:
        raise ValueError(
            f"ds must have several values along one or two of its axes, got {dict(data.sizes)} of "
            f"{data.name}: take a number over fewer axes, or values of some by ds.isel(...)"
        )
    ax = frames.new_axes() if ax is None else frames.check_axes(ax, set())
    # words label curves, and t is the horizontal axis
    dims = sorted(data.dims, key=lambda dim: (dim == "t", _is_number(ds[dim])))
    draw = _map if len(dims) == 2 and _is_number(ds[dims[0]]) else _curves
    data = data.transpose(*dims)
    draw(ax, data, _called(data))
    frames.label_axes(ax, _key(data, -1))
    ax.tick_params(labelsize=frames.SMALL)
    return ax


def _called(data: xr.DataArray) -> str:
    """Return the title of a variable, with its subscripts."""
    name = str(data.name).replace("_", " ")
    return frames.subscripts(str(data.attrs.get("long_name", name)), "$_{%s}$")


def _key(data: xr.DataArray, which: int) -> str:
    """Return the title of an axis: the key of the case, or the time."""
    dim = data.dims[which]
    return str(data[dim].attrs.get("long_name", dim))


def _is_number(data: xr.DataArray) -> bool:
    return data.dtype.kind in "iuf"


def _curves(ax: Axes, data: xr.DataArray, title: str) -> None:
    """Draw a curve over the last axis for each value of the first, if there are two."""
    along = data[data.dims[-1]]
    x = along.values
    labels = data[data.dims[0]].values if data.ndim == 2 else [""]
    for row, label, colour in zip(data.values.reshape(-1, len(x)), labels, cycle(frames.CYCLE)):
        ax.plot(x, row, "o-", color=colour, markersize=3, linewidth=1.2, label=str(label))
    if data.ndim == 2:
        ax.legend(**frames.LEGEND, title=_key(data, 0), title_fontsize=frames.SMALL)
    if _is_number(along):
        if frames.is_wide(x):
            ax.set_xscale("log")
        ax.set_xlim(_cut(x, *ax.get_xlim()))
    frames.head(ax, title)


def _cut(values: Array, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis, which starts at 0 or above if no value is negative."""
    return (max(low, 0.0) if values.min() >= 0.0 else low), high


def _map(ax: Axes, data: xr.DataArray, title: str) -> None:
    """Draw colours over two axes of numbers."""
    down, along = (data[dim].values for dim in data.dims)
    ax.set_facecolor("0.8")
    colour_map = ax.pcolormesh(along, down, data.values, cmap="viridis", shading="nearest")
    for values, set_scale in (along, ax.set_xscale), (down, ax.set_yscale):
        if frames.is_wide(values):
            set_scale("log")
    ax.set(xlim=_cut(along, *ax.get_xlim()), ylim=_cut(down, *ax.get_ylim()))
    frames.label_axes(ax, y=_key(data, 0))
    frames.finish_bar(ax.figure.colorbar(colour_map, ax=ax), title)
