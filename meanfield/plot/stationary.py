"""Stationary states under noise: order parameter and free energy over the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield._checks import integer, shown
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure
from meanfield.typing import Array

_NEEDED = ("tau", "moment", "unstable", "event", "tau_1", "nature", "degree", "direction")
_COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# markers and names of the points of a branch that are told apart
_MARKS = {
    "bifurcation": ("o", "bifurcation"),
    "fold": ("s", "fold"),
    "equal free energy": ("D", "F as of the uniform state"),
}


def stationary_states(ds: Any, index: int = 0) -> Figure:
    """The bifurcation diagram of one β: ∫ P_k dmu over τ, and below it F - F(σ) under USA.

    Stable states are solid and unstable ones dashed; the uniform state is the line at 0, and
    bifurcation points, folds and equal free energies bear marks. Where the transition is of first
    order, the window in which both states are stable is shaded, and τ_c a vertical line.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.stationary_states`.
    index : int
        Which β of it.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or `index` is out of range.
    """
    if not hasattr(ds, "data_vars") or not hasattr(ds, "isel"):
        raise ValueError(f"ds must be a Dataset of studies.stationary_states, got {shown(ds)}")
    missing = [name for name in _NEEDED if name not in ds]
    if missing or "beta" not in ds.sizes:
        raise ValueError(
            f"ds must be a Dataset of studies.stationary_states with "
            f"{shown(missing or 'beta')}, got {shown(ds)}"
        )
    one = ds.isel(beta=integer("index", index, low=0, high=ds.sizes["beta"] - 1))
    with_energy = "free_energy_excess" in ds
    figure = new_figure(5.2, 4.8 if with_energy else 3.0)
    rows = figure.subplots(
        2 if with_energy else 1,
        1,
        sharex=True,
        squeeze=False,
        height_ratios=[3, 2] if with_energy else [1],
    )
    axes: list[Axes] = list(rows[:, 0])
    _window(axes, one)
    _branches(axes[0], one, one["moment"].values)
    axes[0].set_ylabel(_ordinate(one), fontsize=NORMAL)
    if with_energy:
        _branches(axes[1], one, one["free_energy_excess"].values)
        axes[1].set_ylabel("F − F(σ)", fontsize=NORMAL)
    for ax in axes:
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("noise τ", fontsize=NORMAL)
    figure.legend(
        handles=_legend(one), loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False
    )
    figure.suptitle(_title(one), fontsize=NORMAL + 1)
    return figure


def _ordinate(one: Any) -> str:
    return "|∫ x dμ|" if int(one["degree"].max()) == 1 else "∫ P_k dμ, k the branch's degree"


def _title(one: Any) -> str:
    text = f"{one.attrs.get('dynamics', '')}, d = {int(one['dim'])}, β = {float(one['beta']):g}"
    return f"{text}: {one['nature'].item()} transition at degree 1"


def _window(axes: list[Axes], one: Any) -> None:
    """The uniform state, the window of two stable states, and τ_c."""
    first, largest = float(one["tau_1"]), float(np.nanmax(one["tau"].values))
    fold = float(np.nan_to_num(one["tau_fold"].values[0]))
    right = 1.06 * largest
    left = float(np.nanmin(one["tau"].values))
    for ax in axes:
        if one["nature"].item() == "first order":
            ax.axvspan(first, fold, color="0.93", linewidth=0.0, zorder=0)
            if "tau_c" in one:
                ax.axvline(float(one["tau_c"]), color=GREY, linewidth=0.6, linestyle=":", zorder=1)
        ax.plot([left, first], [0.0, 0.0], "--", color="black", linewidth=1.0)
        ax.plot([first, right], [0.0, 0.0], color="black", linewidth=1.0)
        ax.set_xlim(left, right)


def _branches(ax: Axes, one: Any, values: Array) -> None:
    tau, unstable, events = (one[name].values for name in ("tau", "unstable", "event"))
    for branch, degree in enumerate(one["degree"].values.tolist()):
        colour = _COLOURS[(degree - 1) % len(_COLOURS)]
        known = np.isfinite(tau[branch])
        x, y = tau[branch][known], values[branch][known]
        # a piece is as stable as its end that is no fold or bifurcation
        grows = unstable[branch][known] > 0
        grows = grows[:-1] | grows[1:]
        for stable in (False, True):
            shown = np.repeat(grows != stable, 2)
            pairs = np.column_stack([y[:-1], y[1:]]).ravel()
            ends = np.column_stack([x[:-1], x[1:]]).ravel()
            style = "-" if stable else "--"
            # pieces of the other kind are gaps
            line = np.where(shown, pairs, np.nan)
            ax.plot(ends, line, style, color=colour, linewidth=1.4, zorder=2)
        for name, (marker, _) in _MARKS.items():
            here = events[branch][: len(known)][known] == name
            ax.plot(x[here], y[here], marker, color=colour, markersize=4, zorder=3)


def _legend(one: Any) -> list[Line2D]:
    degrees = dict.fromkeys(one["degree"].values.tolist())
    lines = [
        Line2D([], [], color=_COLOURS[(k - 1) % len(_COLOURS)], label=f"degree {k}")
        for k in degrees
    ]
    lines += [
        Line2D([], [], color="black", label="stable (axisymmetric)"),
        Line2D([], [], color="black", linestyle="--", label="unstable"),
    ]
    lines += [
        Line2D([], [], color="black", linestyle="", marker=marker, markersize=4, label=text)
        for name, (marker, text) in _MARKS.items()
        if (one["event"].values == name).any()
    ]
    return lines
