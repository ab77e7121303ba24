"""Two-token correlation: modes over t with closures beside tokens, and ψ where closures break."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import shown
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure

_NEEDED = (
    "correlation",
    "standard_error",
    "linear",
    "closed",
    "psi",
    "histogram",
    "histogram_error",
    "breaks",
    "mode_breaks",
    "reached",
)
_STYLES = {"independent": (BLUE, "--"), "cumulant": ("#009e73", "-."), "kirkwood": (ORANGE, "-")}
_PANELS = 3
# error bars are of so many standard errors, and so many of them fit a panel
_BARS, _DOTS = 2.0, 24


def two_token_correlation(ds: Any) -> Figure:
    """E cos k(θ_1 - θ_2) for k = 1, 2, 3 over t, and ψ at three times.

    Dots are tokens with two standard errors, lines are closures. A circle marks where a mode of a
    closure is off for the first time; a line ends where its closure was no longer resolved or no
    longer a law. ψ is shown where the first closure breaks, where the last does, and at the end of
    kirkwood, with the tokens' histogram in grey.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.two_token_correlation`.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If it is no such dataset.
    """
    variables = getattr(ds, "variables", {})
    missing = [name for name in _NEEDED if name not in variables]
    missing += [
        name for name in ("beta", "n", "realisations") if name not in getattr(ds, "attrs", {})
    ]
    if missing:
        raise ValueError(
            f"ds must be a Dataset of studies.two_token_correlation with "
            f"{shown(missing)}, got {shown(ds)}"
        )
    figure = new_figure(8.4, 5.0)
    axes = figure.subplots(2, _PANELS)
    for ax, k in zip(axes[0], ds["k"].values[:_PANELS], strict=False):
        _mode(ax, ds.sel(k=k))
    for ax in axes[0, ds.sizes["k"] :]:
        ax.set_axis_off()
    axes[0, 0].set_ylabel("E cos k(θ₁ − θ₂)", fontsize=NORMAL)
    for ax, index in zip(axes[1], _shown(ds), strict=True):
        _density(ax, ds.isel(t=index), _remark(ds, index))
    axes[1, 0].set_ylabel("ψ(t, x)", fontsize=NORMAL)
    for ax in axes.ravel():
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=6, fontsize=SMALL, frameon=False
    )
    figure.suptitle(
        f"USA, β = {ds.attrs['beta']:g}: two of n = {ds.attrs['n']} tokens, "
        f"{ds.attrs['realisations']} realisations",
        fontsize=NORMAL + 1,
    )
    return figure


def _mode(ax: Axes, one: Any) -> None:
    t = one["t"].values
    values, errors = one["correlation"].values, _BARS * one["standard_error"].values
    thin = slice(None, None, -(-len(t) // _DOTS))
    ax.errorbar(
        t[thin],
        values[thin],
        errors[thin],
        fmt=".",
        color="black",
        markersize=3,
        linewidth=0.7,
        label="tokens",
    )
    top = float((values + errors).max())
    ax.set_ylim(min(float((values - errors).min()), -0.02 * top), 1.2 * top)
    ax.plot(t, one["linear"].values, ":", color=GREY, linewidth=1.0, label="linear stage")
    for name, (colour, style) in _STYLES.items():
        line, first = one["closed"].sel(closure=name), float(one["mode_breaks"].sel(closure=name))
        ax.plot(t, line.values, style, color=colour, linewidth=1.2, label=name)
        if np.isfinite(first) and np.isfinite(line.sel(t=first)):
            place = float(line.sel(t=first))
            ax.plot(first, place, "o", color=colour, markersize=4.5, mfc="white", zorder=4)
    ax.plot([], [], "o", color=GREY, markersize=4.5, mfc="white", label="is off from here on")
    ax.set_title(f"k = {int(one['k'])}", fontsize=NORMAL)
    ax.set_xlabel("time t", fontsize=NORMAL)


def _shown(ds: Any) -> list[int]:
    """Where the first and the last closure break, and the end of kirkwood; ends for no breaks."""
    t, breaks, reached = (ds[name].values for name in ("t", "breaks", "reached"))
    places = np.where(np.isfinite(breaks), breaks, reached)
    end = float(ds["reached"].sel(closure="kirkwood"))
    return [int(np.searchsorted(t, time)) for time in (places.min(), places.max(), end)]


def _remark(ds: Any, index: int) -> str:
    time = ds["t"].values[index]
    names = ds["closure"].values[ds["breaks"].values == time]
    if len(names):
        return f": {', '.join(names)} broken"
    return ": last of kirkwood" * bool(ds["reached"].sel(closure="kirkwood") == time)


def _density(ax: Axes, one: Any, remark: str) -> None:
    width = float(one["bin"].values[1] - one["bin"].values[0])
    left = one["bin"].values - 0.5 * width
    ax.stairs(
        one["histogram"].values, np.append(left, np.pi), fill=True, color="0.85", label="tokens"
    )
    ax.errorbar(
        one["bin"].values,
        one["histogram"].values,
        _BARS * one["histogram_error"].values,
        fmt="none",
        ecolor="black",
        elinewidth=0.5,
    )
    for name, (colour, style) in _STYLES.items():
        psi = one["psi"].sel(closure=name).values
        ax.plot(one["x"].values, psi, style, color=colour, linewidth=1.2)
    ax.axhline(0.0, color="black", linewidth=0.5)
    top = 1.6 * float(one["histogram"].values.max())
    lowest = float(np.nanmin(np.append(one["psi"].values, 0.0)))
    ax.set_ylim(1.1 * lowest, top)
    ax.set_xlim(0.0, np.pi)
    ax.set_xticks([0.0, np.pi / 2, np.pi], ["0", "π/2", "π"])
    ax.set_xlabel("x = θ₂ − θ₁", fontsize=NORMAL)
    ax.set_title(f"t = {float(one['t']):.3g}{remark}", fontsize=NORMAL)
