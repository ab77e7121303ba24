"""Proposition 3.4: the evidence of its parts in one figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import integer, shown
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure

_GREEN, _PINK, _YELLOW = "#009e73", "#cc79a7", "#e69f00"
_KINDS = (BLUE, ORANGE, _GREEN, _PINK, _YELLOW)
# of verdicts
_COLOURS = {"refuted": ORANGE, "undecided": GREY}
# below it logarithmic axes end, and beyond a bound by more is no rounding
_FLOOR, _BEYOND = 1e-18, 1e-12


def proposition_3_4(ds: Any, index: int = 0) -> Figure:
    """Coefficients, the identity, random measures between their bounds, and flows to these.

    Panels of parts that were not asked for, or not looked at, are left out.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.proposition_3_4`.
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
    if not hasattr(ds, "data_vars") or not {"verdict", "statement"} <= set(ds.attrs):
        raise ValueError(f"ds must be a Dataset of studies.proposition_3_4, got {shown(ds)}")
    one = ds.isel(beta=integer("index", index, low=0, high=ds.sizes["beta"] - 1))
    panels = {
        "share_of_degree": _coefficients,
        "identity_error": _identity,
        "share": _search,
        "flow_gap": _flows,
    }
    # of several β, one may lack what another has
    present = [
        draw for name, draw in panels.items() if name in one and bool(one[name].notnull().any())
    ]
    columns = max(1, min(2, len(present)))
    rows = -(-len(present) // columns)
    figure = new_figure(3.5 * columns, 2.7 * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, draw in zip(axes, present, strict=False):
        draw(ax, one)
        ax.tick_params(which="both", labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[len(present) :]:
        ax.set_axis_off()
    colour = _COLOURS.get(ds.attrs["verdict"], "black")
    figure.suptitle(_title(ds, one), fontsize=NORMAL + 1, color=colour)
    return figure


def _title(ds: Any, one: Any) -> str:
    beta = float(one["beta"])
    where = f"d = {ds.attrs['dim']}" + (f", β = {beta:g}" if np.isfinite(beta) else ", a kernel")
    return f"Proposition 3.4, {where}: {ds.attrs['verdict']}"


def _unit(one: Any) -> str:
    return "U = E(δ) − E(σ)" if np.isfinite(float(one["beta"])) else "U = max |W − Λ₀|/2"


def _coefficients(ax: Axes, one: Any) -> None:
    degrees = one["degree"].values[1:]
    shares = one["share_of_degree"].values[1:]
    seen = np.abs(shares) > _FLOOR
    for sign, colour, name in ((1.0, BLUE, "> 0"), (-1.0, ORANGE, "< 0")):
        here = seen & (sign * shares > 0.0)
        if here.any():
            ax.plot(
                degrees[here], sign * shares[here], "o", color=colour, ms=3, label=f"Λ_k {name}"
            )
    ax.set_yscale("log")
    ax.set_xlim(0.0, degrees[-1] + 1.0)
    ax.set_ylim(0.1 * _FLOOR if seen.sum() > 8 else 1e-3, 1e2)
    ax.set_xlabel("degree k", fontsize=NORMAL)
    ax.set_ylabel("what degree k adds to U, over U", fontsize=NORMAL)
    if "log_lower" in one and bool(np.isfinite(one["log_lower"].values[1:]).all()):
        ax.set_title("Λ_k > 0 is proved", fontsize=SMALL)
    if "evaluation_error" in one:
        errors = np.maximum(one["evaluation_error"].values[1:], 1e-17)
        ax.plot(degrees, errors, ".", color=GREY, ms=3, label="error in float64, relative")
    ax.legend(frameon=False, fontsize=SMALL)


def _identity(ax: Axes, one: Any) -> None:
    names = [str(name) for name in one["measure"].values]
    errors = np.maximum(one["identity_error"].values, 1e-17)
    places = np.arange(len(names))
    ax.plot(np.log10(errors), places, "o", color=BLUE)
    ax.set_ylim(-0.5, len(names) - 0.5)
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlim(-17.0, max(-12.0, float(np.nanmax(np.log10(errors))) + 0.5))
    ax.set_xlabel("log₁₀ of the relative difference", fontsize=NORMAL)
    ax.set_title("E − E(σ): double integral and sum of degrees", fontsize=SMALL)


def _search(ax: Axes, one: Any) -> None:
    kinds = one["kind"].values.astype(str)
    share, defect = one["share"].values, one["defect"].values
    for kind, colour in zip(dict.fromkeys(kinds), _KINDS, strict=False):
        here = kinds == kind
        ax.plot(share[here], defect[here], ".", color=colour, ms=3, label=kind)
    # what gradients reach from below and from above; both margins of a measure have one sum
    (down, up), whole = one["margin"].values, share[0] + defect[0]
    ax.plot([down, whole - up], [whole - down, up], "x", color="black", ms=5, label="gradients")
    ax.set_xlabel(f"(E(μ) − E(σ))/U, {_unit(one)}", fontsize=NORMAL)
    ax.set_ylabel("(E(δ) − E(μ))/U", fontsize=NORMAL)
    below, above = int((share < -_BEYOND).sum()), int((defect < -_BEYOND).sum())
    if below or above:
        # beyond a bound there is no logarithm
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        ax.axhline(0.0, color=GREY, linewidth=0.8)
        told = f"{below} below E(σ), {above} above E(δ)"
        ax.set_title(told, fontsize=SMALL, color=ORANGE)
    else:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{len(share)} random measures, none beyond a bound", fontsize=SMALL)
    ax.legend(frameon=False, fontsize=SMALL, loc="lower left")


def _flows(ax: Axes, one: Any) -> None:
    labels = {"down": ("repulsive: down to E(σ)", BLUE), "up": ("attractive: up to E(δ)", ORANGE)}
    named: set[str] = set()
    for name in one["flow"].values.tolist():
        kind = str(name).partition(" ")[0]
        text, colour = labels[kind]
        run = one.sel(flow=name)
        times, gaps = run["flow_time"].values, run["flow_gap"].values
        later = times > 0.0
        label = None if kind in named else text
        named.add(kind)
        ax.plot(times[later], np.maximum(gaps[later], 1e-16), color=colour, lw=1.2, label=label)
    ax.axhline(1e-10, color=GREY, linestyle=":", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("t", fontsize=NORMAL)
    ax.set_ylabel("gap to the bound (SA)", fontsize=NORMAL)
    ax.legend(frameon=False, fontsize=SMALL)
