"""Tokens without layer normalisation, on their way to the limits of Table 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from meanfield._checks import shown
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure

_NEEDED = "trajectory", "distinct", "off", "t", "case"
_TITLES = {
    "polytope": "V = I: a polytope",
    "hyperplanes": "λ₁ > 0 simple: hyperplanes",
    "polytope × line": "V = diag(1, 1, −½): polytope × line",
    "origin": "V = −I: the origin",
}


def limits_without_normalisation(ds: Any) -> Figure:
    """Trajectories of the tokens of each case, their ends, and the sets that hold these.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.limits_without_normalisation`.

    Returns
    -------
    matplotlib Figure
        Of four panels: z_i = e^{-tV} x_i, and x_i for V = -I.

    Raises
    ------
    ValueError
        If it is no such dataset.
    """
    if not all(name in getattr(ds, "variables", {}) for name in _NEEDED):
        raise ValueError(
            f"ds must be a Dataset of studies.limits_without_normalisation, got {shown(ds)}"
        )
    figure = new_figure(10.0, 2.9)
    axes = figure.subplots(1, ds.sizes["case"])
    for ax, case in zip(axes, ds["case"].values, strict=True):
        _panel(ax, ds.sel(case=case), str(case))
    figure.suptitle(
        f"{ds.sizes['token']} tokens without layer normalisation, β = {ds.attrs['beta']:g}",
        fontsize=NORMAL + 1,
    )
    return figure


def _panel(ax: Axes, one: Any, case: str) -> None:
    paths = one["trajectory"].values
    ax.plot(paths[:, :, 0], paths[:, :, 1], color=BLUE, linewidth=0.6, alpha=0.6)
    ends = paths[-1]
    if case == "hyperplanes":
        for place in np.unique(ends[:, 0].round(2)):
            ax.axvline(place, color=GREY, linestyle="--", linewidth=0.9)
        # along the hyperplanes tokens run away like e^{(λ_1 - λ_2)t}
        ax.set_yscale("symlog", linthresh=1.0)
    elif case != "origin":
        corners = ends[ConvexHull(ends).vertices]
        ax.fill(corners[:, 0], corners[:, 1], facecolor="none", edgecolor=GREY, linestyle="--")
    ax.plot(ends[:, 0], ends[:, 1], "o", color=ORANGE, markersize=4, zorder=3)
    ax.set_title(_TITLES[case], fontsize=NORMAL)
    ax.tick_params(labelsize=SMALL)
    ax.set_aspect("auto" if case == "hyperplanes" else "equal", adjustable="datalim")
