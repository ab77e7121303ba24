"""Metastability: energy in steps, plateaus with their clusters, and mergers, over log t."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import integer, shown
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure
from meanfield.typing import Array

_NEEDED = (
    "energy_share",
    "clusters",
    "cluster_angle",
    "cluster_mass",
    "plateau_start",
    "plateau_end",
    "plateau_clusters",
    "merging_time",
    "growth_rate_predicted",
    "grown_degree",
    "predicted_degree",
    "beta",
    "dynamics",
    "t",
)
# area of the dot of a cluster of mass 1, in points²
_AREA = 30.0
# parts of the axis that a name needs, and a bare number
_ROOM, _LITTLE_ROOM = 0.14, 0.03
# below it E(δ) is named at the edge only
_FAR = 0.5
_QUARTERS = ([0.0, np.pi / 2, np.pi, 3 * np.pi / 2, 2 * np.pi], ["0", "π/2", "π", "3π/2", "2π"])


def metastability(ds: Any, run: int = 0) -> Figure:
    """Clusters that stand and merge: E/E(δ) with plateaus, and the clusters' angles, over log t.

    Plateaus are shaded and bear their number of clusters; thin vertical lines are mergers; the
    dots of clusters have areas by mass.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.metastability`.
    run : int
        Which run of it.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, has no time t > 0 of this run, or `run` is out of range.
    """
    missing = _missing(ds)
    if missing:
        raise ValueError(
            f"ds must be a Dataset of studies.metastability with {shown(missing)}, got {shown(ds)}"
        )
    one = ds.isel(run=integer("run", run, low=0, high=ds.sizes["run"] - 1))
    # the study's t has a unit of its own in each run, its `time` is that of the plateaus
    times = np.asarray(one["time" if "time" in one else "t"].values, dtype=np.float64)
    if not (times > 0.0).any():
        raise ValueError(f"ds must have times t > 0 in run {run}, got {times[:8]}")
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    axes[0].set_xscale("log")
    axes[0].set_xlim(np.nanmin(times[times > 0.0]), np.nanmax(times))
    _energy(axes[0], times, one["energy_share"].values)
    _angles(axes[1], times, one["cluster_angle"].values, one["cluster_mass"].values)
    plateaus = [one[f"plateau_{name}"].values for name in ("start", "end", "clusters")]
    _plateaus(axes, *plateaus)
    for time in one["merging_time"].values[np.isfinite(one["merging_time"].values)]:
        axes[1].axvline(time, color=ORANGE, linewidth=0.6, zorder=1)
    for ax in axes:
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
    good = "status" not in one or str(one["status"].item()) in ("finished", "clustered")
    colour = "black" if good else ORANGE
    figure.suptitle(_title(one), fontsize=NORMAL + 1, color=colour)
    return figure


def _missing(ds: Any) -> list[str]:
    if not hasattr(ds, "data_vars") or not hasattr(ds, "isel"):
        return list(_NEEDED)
    return [name for name in _NEEDED if name not in ds] + ["run"] * ("run" not in ds.sizes)


def _title(one: Any) -> str:
    grown, predicted = one["grown_degree"].item(), one["predicted_degree"].item()
    rate, status = one["growth_rate_predicted"].item(), ""
    if "status" in one and str(one["status"].item()) not in ("finished", "clustered"):
        status = f", {one['status'].item()}"
    return (
        f"{one['dynamics'].item()}, β = {one['beta'].item():g}{status}: degree {grown:g} grew, "
        f"{predicted:g} predicted (γ = {rate:.3g})"
    )


def _energy(ax: Axes, times: Array, shares: Array) -> None:
    ax.plot(times, shares, color=BLUE, linewidth=1.4)
    known = shares[np.isfinite(shares)]
    low, high = float(known.min(initial=1.0)), float(known.max(initial=0.0))
    if high < _FAR:
        ax.text(0.01, 0.98, "1 ↑", transform=ax.transAxes, va="top", fontsize=SMALL, color="0.3")
    else:
        ax.axhline(1.0, color=GREY, linestyle="--", linewidth=0.8)
        high = max(high, 1.0)
    # above there is room for the names of the plateaus
    way = max(high - low, 1e-9)
    ax.set_ylim(low - 0.08 * way, high + 0.25 * way)
    ax.set_ylabel("energy E / E(δ)", fontsize=NORMAL)


def _angles(ax: Axes, times: Array, angles: Array, masses: Array) -> None:
    grid = np.broadcast_to(times[:, None], angles.shape)
    seen = np.isfinite(grid) & np.isfinite(angles) & np.isfinite(masses)
    turned = angles[seen] % (2.0 * np.pi)
    area = 0.8 + _AREA * masses[seen]
    ax.scatter(grid[seen], turned, s=area, color=BLUE, alpha=0.7, linewidths=0.0, zorder=2)
    ax.set_ylim(-0.1, 2.0 * np.pi + 0.1)
    ax.set_yticks(*_QUARTERS)
    ax.set_ylabel("angles of clusters", fontsize=NORMAL)
    ax.set_xlabel("time t (vertical lines: clusters merge)", fontsize=NORMAL)


def _plateaus(axes: Any, starts: Array, ends: Array, counts: Array) -> None:
    left, right = np.log(axes[0].get_xlim())
    for start, end, count in zip(starts, ends, counts, strict=True):
        if not np.isfinite([start, end, count]).all():
            continue
        for ax in axes:
            ax.axvspan(start, end, color="0.93", linewidth=0.0, zorder=0)
        room = np.log(end / start) / (right - left)
        if room >= _LITTLE_ROOM:
            noun = "" if room < _ROOM else " cluster" if count == 1 else " clusters"
            axes[0].text(
                np.sqrt(start * end),
                0.98,
                f"{count:g}{noun}",
                transform=axes[0].get_xaxis_transform(),
                ha="center",
                va="top",
                fontsize=SMALL,
                color="0.3",
            )
