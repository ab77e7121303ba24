"""Densities of least energy E_{β,D} on the circle, with their potentials."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield._checks import shown
from meanfield.plot.frames import GREY, NORMAL, SMALL, new_figure
from meanfield.typing import Array

_NEEDED = ("density", "potential", "uniform_potential", "matrix", "angle")
_QUARTERS = ([0.0, np.pi / 2, np.pi, 3 * np.pi / 2, 2 * np.pi], ["0", "π/2", "π", "3π/2", "2π"])
# of the colours, the part that is seen on white
_DARK, _LIGHT = 0.05, 0.85


def form_extremisers(ds: Any) -> Figure:
    """Densities of least E_{β,D} over the angle, and below them ∫ e^{β<x,Dy>} dmu(y).

    The potential of the least energy is constant; that of the uniform density, dashed, is not.
    Matrices without such a density are left out.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.form_extremisers`, for matrices on the circle.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or none of its matrices has a density.
    """
    if not hasattr(ds, "data_vars") or not hasattr(ds, "isel"):
        raise ValueError(f"ds must be a Dataset of studies.form_extremisers, got {shown(ds)}")
    missing = [name for name in _NEEDED if name not in ds]
    if missing:
        raise ValueError(
            f"ds must be a Dataset of studies.form_extremisers on the circle with "
            f"{shown(missing)}, got {shown(ds)}"
        )
    drawn = np.flatnonzero(np.isfinite(ds["density"].values).all(axis=1))
    if len(drawn) == 0:
        raise ValueError(
            f"ds must have a matrix with a density of least energy, got "
            f"{ds['least_kind'].values.tolist()}"
        )
    figure = new_figure(5.6, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    colours = colormaps["viridis"](np.linspace(_DARK, _LIGHT, len(drawn)))
    angles = ds["angle"].values
    for i, colour in zip(drawn.tolist(), colours, strict=True):
        one = ds.isel(form=i)
        name = _name(one["matrix"].values)
        upper.plot(angles, one["density"].values, color=colour, linewidth=1.4, label=name)
        lower.plot(angles, one["potential"].values, color=colour, linewidth=1.4)
        lower.plot(angles, one["uniform_potential"].values, "--", color=colour, linewidth=0.8)
    _decorate(upper, lower)
    figure.legend(
        handles=[
            *upper.get_legend_handles_labels()[0],
            Line2D([], [], color=GREY, linestyle="--", linewidth=0.8, label="of uniform μ"),
        ],
        loc="outside right upper",
        fontsize=SMALL,
        frameon=False,
    )
    figure.suptitle(f"Densities of least energy, β = {ds.attrs['beta']:g}", fontsize=NORMAL + 1)
    return figure


def _name(matrix: Array) -> str:
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))):
        return "λ = {:g}, {:g}".format(*np.linalg.eigvalsh(matrix))
    return "D = diag({:g}, {:g})".format(*np.diag(matrix))


def _decorate(upper: Axes, lower: Axes) -> None:
    upper.set_ylabel("density f", fontsize=NORMAL)
    upper.set_ylim(bottom=0.0)
    lower.set_ylabel("potential of x", fontsize=NORMAL)
    lower.set_xlabel("angle θ of x", fontsize=NORMAL)
    lower.set_xlim(0.0, 2.0 * np.pi)
    lower.set_xticks(*_QUARTERS)
    for ax in (upper, lower):
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
