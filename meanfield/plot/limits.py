"""n tokens against their limit: errors over n and over t, and fluctuations against a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtri

from meanfield._checks import shown
from meanfield.plot.frames import GREY, NORMAL, SMALL, heading, new_figure
from meanfield.typing import Array

_NEEDED = "rate", "fluctuation", "n", "t", "quantity"
# colours that colour-blind readers can tell apart (Okabe and Ito)
_COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
# a bound so many times larger than the errors is off the figure at once
_FAR = 1e3
# share of an axis that a line of a legend takes
_LINE = 0.075
_NAMES = {
    "mmd": "mmd",
    "sobolev": "Sobolev",
    "w1": "W₁",
    "w2": "W₂",
    "energy_error": "energy",
    "mean_error": "mean",
}


def mean_field_limit(ds: Any) -> Figure:
    """Errors over n at the last time, the first distance over t, and fluctuations of the mean.

    Errors are root mean squares over the repeats, with their fitted powers of n. Over t, dashed
    lines are Dobrushin's bound, where it ends below 1000 times the largest error. Fluctuations
    √n ∫ x d(mu_n - mu) at the last time, each axis in units of its deviation, are held against
    normal quantiles.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.mean_field_limit`.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If it is no such dataset.
    """
    whole = all(name in getattr(ds, "variables", {}) for name in _NEEDED)
    if not whole or not {"name", "beta", "sign"} <= set(ds.attrs):
        raise ValueError(f"ds must be a Dataset of studies.mean_field_limit, got {shown(ds)}")
    figure = new_figure(10.5, 3.6)
    over_n, over_t, gaussian = figure.subplots(1, 3)
    _over_n(over_n, ds)
    _over_t(over_t, ds)
    _gaussian(gaussian, ds)
    for ax in over_n, over_t, gaussian:
        ax.tick_params(which="both", labelsize=SMALL)
    about = heading(ds.attrs["name"], ds.attrs["beta"], ds.attrs["sign"])
    figure.suptitle(
        f"{about}: tokens against the limit, {ds.sizes['repeat']} repeats", fontsize=NORMAL + 1
    )
    return figure


def _rms(table: Any) -> Array:
    """Root mean square over the repeats, in units of the largest since squares may overflow."""
    errors = table.values
    unit = float(errors.max()) or 1.0
    return np.asarray(unit * np.sqrt(((errors / unit) ** 2).mean(axis=1)))


def _over_n(ax: Axes, ds: Any) -> None:
    for colour, name in zip(_COLOURS, ds["quantity"].values, strict=False):
        last = {key: float(ds[key].sel(quantity=name)[-1]) for key in ("rate", "rate_low")}
        half = abs(last["rate"] - last["rate_low"])
        power = f"{last['rate']:.2f}" + (rf" \pm {half:.2f}" if np.isfinite(half) else "")
        label = _NAMES[str(name)] + (f": $n^{{{power}}}$" if np.isfinite(last["rate"]) else "")
        ax.loglog(ds["n"], _rms(ds[name])[:, -1], "o-", color=colour, markersize=4, label=label)
    ax.set_xlabel("tokens n", fontsize=NORMAL)
    ax.set_ylabel("root mean square error", fontsize=NORMAL)
    ax.set_title(f"errors at t = {float(ds['t'][-1]):.4g}", fontsize=NORMAL)
    _room_below(ax, _LINE * ds.sizes["quantity"])
    ax.legend(fontsize=SMALL, frameon=False, loc="lower left")


def _room_below(ax: Axes, share: float) -> None:
    """Extend a logarithmic axis downwards, so that a legend has this share of its height."""
    low, high = ax.get_ylim()
    ax.set_ylim(low * (low / high) ** (share / (1.0 - share)), high)


def _over_t(ax: Axes, ds: Any) -> None:
    name = "w1" if "w1" in ds else str(ds["quantity"].values[0])
    errors, t = _rms(ds[name]), ds["t"].values
    shades = np.linspace(0.75, 0.0, len(errors))
    for n, row, shade in zip(ds["n"].values, errors, shades, strict=True):
        ax.semilogy(t, row, "o-", color=str(shade), markersize=3, label=f"n = {n}")
    if _has_bound(ds, errors):
        constant = ds.attrs["dobrushin_constant"]
        fine = np.linspace(t[0], t[-1], 200)
        for start in errors[:, 0]:
            bound = start * np.exp(constant * (fine - t[0]))
            ax.semilogy(fine, bound, "--", color=GREY, linewidth=0.8)
        ax.plot([], [], "--", color=GREY, linewidth=0.8, label=f"$e^{{Ct}}$, C = {constant:.4g}")
    _room_below(ax, _LINE * (len(errors) + 2) / 2)
    ax.set_xlabel("time t", fontsize=NORMAL)
    ax.set_ylabel("root mean square error", fontsize=NORMAL)
    ax.set_title(f"{_NAMES[name]} over time", fontsize=NORMAL)
    ax.legend(fontsize=SMALL, frameon=False, ncols=2, loc="lower left")


def _has_bound(ds: Any, errors: Array) -> bool:
    """Whether Dobrushin's bound ends near enough to the errors to be seen with them."""
    if "dobrushin" not in ds:
        return False
    return float(ds["dobrushin"].max()) <= _FAR * float(errors.max())


def _gaussian(ax: Axes, ds: Any) -> None:
    last = ds["fluctuation"].values[:, :, -1]
    repeats = last.shape[1]
    quantiles = ndtri((np.arange(repeats) + 0.5) / repeats)
    for axis in range(min(last.shape[2], len(_COLOURS))):
        values = last[-1, :, axis]
        deviation = values.std() or 1.0
        ax.plot(
            quantiles,
            np.sort(values) / deviation,
            "o",
            color=_COLOURS[axis],
            markersize=3,
            label=f"axis {axis + 1}, p = {float(ds['normal_p'][-1, axis]):.2f}",
        )
    ends = np.array([-1.1, 1.1]) * max(1.0, float(quantiles.max()))
    ax.plot(ends, ends, "-", color=GREY, linewidth=0.8)
    ax.set_xlabel("normal quantile", fontsize=NORMAL)
    ax.set_ylabel("quantile of the repeats", fontsize=NORMAL)
    ax.set_title(f"fluctuations of the mean, n = {int(ds['n'][-1])}", fontsize=NORMAL)
    ax.legend(fontsize=SMALL, frameon=False)
