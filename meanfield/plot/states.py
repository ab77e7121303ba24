"""Figures of extremes, stationary states, and clusters that stand: what energies lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield._checks import integer
from meanfield.exceptions import GOOD
from meanfield.plot import frames
from meanfield.typing import Array

# of the colours, the part that is seen on white
_DARK, _LIGHT = 0.05, 0.85


def energy_extremisers(ds: Any) -> Figure:
    """Densities of least E_{β,D} over the angle, and below them ∫ e^{β<x,Dy>} dmu(y).

    The potential of the least energy is constant; that of the uniform density, dashed, is not.
    Matrices without such a density are left out.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `studies.energy_extremisers`, for matrices on the circle.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or none of its matrices has a density.
    """
    needed = "density", "potential", "uniform_potential", "matrix", "angle"
    frames.check_dataset(ds, "energy_extremisers on the circle", needed, (), ("beta",))
    drawn = np.flatnonzero(np.isfinite(ds["density"].values).all(axis=1))
    if len(drawn) == 0:
        raise ValueError(
            f"ds must have a matrix with a density of least energy, got "
            f"{ds['least_kind'].values.tolist()}"
        )
    figure = frames.new_figure(5.6, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    colours = colormaps["viridis"](np.linspace(_DARK, _LIGHT, len(drawn)))
    angles = ds["angle"].values
    for i, colour in zip(drawn.tolist(), colours, strict=True):
        one = ds.isel(index=i)
        name = _name_of(one["matrix"].values)
        upper.plot(angles, one["density"].values, color=colour, linewidth=1.4, label=name)
        lower.plot(angles, one["potential"].values, color=colour, linewidth=1.4)
        lower.plot(angles, one["uniform_potential"].values, "--", color=colour, linewidth=0.8)
    frames.label_axes(upper, y="density f")
    upper.set_ylim(bottom=0.0)
    frames.label_axes(lower, "angle θ of x", "potential of x")
    lower.set_xlim(0.0, 2.0 * np.pi)
    frames.quarter_ticks(lower, 5)
    dashed = Line2D([], [], color=frames.GREY, linestyle="--", linewidth=0.8, label="of uniform μ")
    handles = [*upper.get_legend_handles_labels()[0], dashed]
    figure.legend(handles=handles, loc="outside right upper", **frames.LEGEND)
    title = f"Densities of least energy, β = {ds.attrs['beta']:g}"
    return frames.finish(figure, title, (upper, lower))


def _name_of(matrix: Array) -> str:
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))):
        return "λ = {:g}, {:g}".format(*np.linalg.eigvalsh(matrix))
    return "D = diag({:g}, {:g})".format(*np.diag(matrix))


_COLOURS = frames.BLUE, frames.ORANGE, frames.GREEN, frames.PINK, frames.YELLOW, frames.SKY
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
    needed = (
        "noise",
        "moment",
        "n_unstable",
        "event",
        "critical_noise",
        "nature",
        "degree",
        "direction",
    )
    frames.check_dataset(ds, "stationary_states", needed, ("beta",))
    one = ds.isel(beta=integer("index", index, low=0, high=ds.sizes["beta"] - 1))
    with_energy = "free_energy_excess" in ds
    figure = frames.new_figure(5.2, 4.8 if with_energy else 3.0)
    heights = [3, 2][: 1 + with_energy]
    rows = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    axes: list[Axes] = list(rows[:, 0])
    _window(axes, one)
    _branches(axes[0], one, one["moment"].values)
    is_first = int(one["degree"].max()) == 1
    frames.label_axes(axes[0], y="|∫ x dμ|" if is_first else "∫ P_k dμ, k the branch's degree")
    if with_energy:
        _branches(axes[1], one, one["free_energy_excess"].values)
        frames.label_axes(axes[1], y="F − F(σ)")
    frames.label_axes(axes[-1], "noise τ")
    figure.legend(handles=_legend(one), loc="outside lower center", ncols=3, **frames.LEGEND)
    text = f"{one.attrs.get('dynamics', '')}, d = {int(one['dim'])}, β = {float(one['beta']):g}"
    return frames.finish(figure, f"{text}: {one['nature'].item()} transition at degree 1", axes)


def _window(axes: list[Axes], one: Any) -> None:
    """The uniform state, the window of two stable states, and τ_c."""
    first, largest = float(one["critical_noise"]), float(np.nanmax(one["noise"].values))
    fold = float(np.nan_to_num(one["fold_noise"].values[0]))
    right = 1.06 * largest
    left = float(np.nanmin(one["noise"].values))
    for ax in axes:
        if one["nature"].item() == "first order":
            ax.axvspan(first, fold, color="0.93", linewidth=0.0, zorder=0)
            if "transition_noise" in one:
                ax.axvline(
                    float(one["transition_noise"]),
                    color=frames.GREY,
                    linewidth=0.6,
                    linestyle=":",
                    zorder=1,
                )
        ax.plot([left, first], [0.0, 0.0], "--", color="black", linewidth=1.0)
        ax.plot([first, right], [0.0, 0.0], color="black", linewidth=1.0)
        ax.set_xlim(left, right)


def _branches(ax: Axes, one: Any, values: Array) -> None:
    tau, unstable, events = (one[name].values for name in ("noise", "n_unstable", "event"))
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
    colours = [(f"degree {k}", _COLOURS[(k - 1) % len(_COLOURS)]) for k in degrees]
    lines = [Line2D([], [], color=colour, label=text) for text, colour in colours]
    lines.append(Line2D([], [], color="black", label="stable (axisymmetric)"))
    lines.append(Line2D([], [], color="black", linestyle="--", label="unstable"))
    kind: dict[str, Any] = {"color": "black", "linestyle": "", "markersize": 4}
    marks = [mark for name, mark in _MARKS.items() if (one["event"].values == name).any()]
    return lines + [Line2D([], [], marker=mark, label=text, **kind) for mark, text in marks]


_OVER_T = "t", "energy_share", "n_clusters", "cluster_angle", "cluster_mass", "merging_time"
_OF_RUNS = (
    *("plateau_start", "plateau_end", "plateau_n_clusters"),
    *("growth_rate_predicted", "grown_degree", "predicted_degree", "beta", "dynamics"),
)
# area of the dot of a cluster of mass 1, in points²
_AREA = 30.0
# parts of the axis that a name needs, and a bare number
_ROOM, _LITTLE_ROOM = 0.14, 0.03
# below it E(δ) is named at the edge only
_FAR = 0.5


def metastability(ds: Any, run: int = 0) -> Figure:
    """Clusters that last and merge: E/E(δ) with plateaus, and the clusters' angles, over log t.

    Plateaus are shaded and marked with their number of clusters. Thin vertical lines are mergers.
    The areas of the dots are the masses of the clusters.

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
    frames.check_dataset(ds, "metastability", _OVER_T + _OF_RUNS, ("run",))
    one = ds.isel(run=integer("run", run, low=0, high=ds.sizes["run"] - 1))
    # the study's t has a unit of its own in each run, its `time` is that of the plateaus
    times = np.asarray(one["time" if "time" in one else "t"].values, dtype=np.float64)
    if not (times > 0.0).any():
        raise ValueError(f"ds must have times t > 0 in run {run}, got {times[:8]}")
    figure = frames.new_figure(7.0, 4.2)
    axes = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    axes[0].set_xscale("log")
    axes[0].set_xlim(np.nanmin(times[times > 0.0]), np.nanmax(times))
    _draw_energy(axes[0], times, one["energy_share"].values)
    _angles(axes[1], times, one["cluster_angle"].values, one["cluster_mass"].values)
    plateaus = [one[f"plateau_{name}"].values for name in ("start", "end", "n_clusters")]
    _plateaus(axes, *plateaus)
    for time in one["merging_time"].values[np.isfinite(one["merging_time"].values)]:
        axes[1].axvline(time, color=frames.ORANGE, linewidth=0.6, zorder=1)
    status = str(one["status"].item()) if "status" in one else "finished"
    is_good = status in GOOD
    about = f"{one['dynamics'].item()}, β = {one['beta'].item():g}" + f", {status}" * (not is_good)
    names = "grown_degree", "predicted_degree", "growth_rate_predicted"
    numbers = (one[name].item() for name in names)
    degrees = "degree {:g} grew, {:g} predicted (γ = {:.3g})".format(*numbers)
    return frames.finish(figure, f"{about}: {degrees}", axes, "black" if is_good else frames.ORANGE)


def _draw_energy(ax: Axes, times: Array, shares: Array) -> None:
    ax.plot(times, shares, color=frames.BLUE, linewidth=1.4)
    known = shares[np.isfinite(shares)]
    low, high = float(known.min(initial=1.0)), float(known.max(initial=0.0))
    if high < _FAR:
        frames.write(ax, "1 ↑", (0.01, 0.98), ax.transAxes, va="top")
    else:
        ax.axhline(1.0, color=frames.GREY, linestyle="--", linewidth=0.8)
        high = max(high, 1.0)
    # above there is room for the names of the plateaus
    way = max(high - low, 1e-9)
    ax.set_ylim(low - 0.08 * way, high + 0.25 * way)
    frames.label_axes(ax, y="energy E / E(δ)")


def _angles(ax: Axes, times: Array, angles: Array, masses: Array) -> None:
    grid = np.broadcast_to(times[:, None], angles.shape)
    seen = np.isfinite(grid) & np.isfinite(angles) & np.isfinite(masses)
    turned = angles[seen] % (2.0 * np.pi)
    area = 0.8 + _AREA * masses[seen]
    ax.scatter(grid[seen], turned, s=area, color=frames.BLUE, alpha=0.7, linewidths=0.0, zorder=2)
    ax.set_ylim(-0.1, 2.0 * np.pi + 0.1)
    ax.set_yticks(*frames.QUARTERS)
    frames.label_axes(ax, "time t (vertical lines: clusters merge)", "angles of clusters")


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
            place, frame = (np.sqrt(start * end), 0.98), axes[0].get_xaxis_transform()
            frames.write(axes[0], f"{count:g}{noun}", place, frame, ha="center", va="top")


# of verdicts
_VERDICTS = {"refuted": frames.ORANGE, "undecided": frames.GREY}
# below it logarithmic axes end, and beyond a bound by more is no rounding
_FLOOR, _BEYOND = 1e-18, 1e-12


def proposition_3_4(ds: Any, index: int = 0) -> Figure:
    """Coefficients, the identity, random measures between their bounds, and flows to these.

    Panels of parts that were not run are left out.

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
    frames.check_dataset(ds, "proposition_3_4", (), ("beta",), ("verdict", "statement"))
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
    figure, places = frames.new_panels(len(present), 2, (3.5, 2.7), (0.0, 0.5))
    axes = places.ravel()[: len(present)]
    for ax, draw in zip(axes, present, strict=True):
        draw(ax, one)
        ax.tick_params(which="minor", labelsize=frames.SMALL)
    beta, verdict = float(one["beta"]), ds.attrs["verdict"]
    where = f"d = {ds.attrs['dim']}" + (f", β = {beta:g}" if np.isfinite(beta) else ", a potential")
    title = f"Proposition 3.4, {where}: {verdict}"
    return frames.finish(figure, title, axes, _VERDICTS.get(verdict, "black"))


def _coefficients(ax: Axes, one: Any) -> None:
    degrees = one["degree"].values[1:]
    shares = one["share_of_degree"].values[1:]
    seen = np.abs(shares) > _FLOOR
    for sign, colour, name in ((1.0, frames.BLUE, "> 0"), (-1.0, frames.ORANGE, "< 0")):
        here = seen & (sign * shares > 0.0)
        if here.any():
            kind: dict[str, Any] = {"color": colour, "ms": 3, "label": f"$Λ_k$ {name}"}
            ax.plot(degrees[here], sign * shares[here], "o", **kind)
    ax.set_yscale("log")
    ax.set_xlim(0.0, degrees[-1] + 1.0)
    ax.set_ylim(0.1 * _FLOOR if seen.sum() > 8 else 1e-3, 1e2)
    frames.label_axes(ax, "degree k", "what degree k adds to U, over U")
    proved = one.get("log_eigenvalue_lower")
    if proved is not None and bool(np.isfinite(proved.values[1:]).all()):
        ax.set_title("$Λ_k$ > 0 is proved", fontsize=frames.SMALL)
    if "evaluation_error" in one:
        errors = np.maximum(one["evaluation_error"].values[1:], 1e-17)
        ax.plot(degrees, errors, ".", color=frames.GREY, ms=3, label="error in float64, relative")
    ax.legend(**frames.LEGEND)


def _identity(ax: Axes, one: Any) -> None:
    names = [str(name) for name in one["measure"].values]
    errors = np.maximum(one["identity_error"].values, 1e-17)
    places = np.arange(len(names))
    ax.plot(np.log10(errors), places, "o", color=frames.BLUE)
    ax.set_ylim(-0.5, len(names) - 0.5)
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlim(-17.0, max(-12.0, float(np.nanmax(np.log10(errors))) + 0.5))
    frames.label_axes(ax, "log₁₀ of the relative difference")
    ax.set_title("E − E(σ): double integral and sum of degrees", fontsize=frames.SMALL)


def _search(ax: Axes, one: Any) -> None:
    kinds = one["kind"].values.astype(str)
    share, defect = one["share"].values, one["defect"].values
    for kind, colour in zip(dict.fromkeys(kinds), _COLOURS, strict=False):
        here = kinds == kind
        ax.plot(share[here], defect[here], ".", color=colour, ms=3, label=kind)
    # what gradients reach from below and from above; both margins of a measure have one sum
    (down, up), whole = one["margin"].values, share[0] + defect[0]
    ax.plot([down, whole - up], [whole - down, up], "x", color="black", ms=5, label="gradients")
    unit = "U = E(δ) − E(σ)" if np.isfinite(float(one["beta"])) else "U = max |W − Λ₀|/2"
    frames.label_axes(ax, f"(E(μ) − E(σ))/U, {unit}", "(E(δ) − E(μ))/U")
    below, above = int((share < -_BEYOND).sum()), int((defect < -_BEYOND).sum())
    if below or above:
        # beyond a bound there is no logarithm
        ax.axvline(0.0, color=frames.GREY, linewidth=0.8)
        ax.axhline(0.0, color=frames.GREY, linewidth=0.8)
        told = f"{below} below E(σ), {above} above E(δ)"
        ax.set_title(told, fontsize=frames.SMALL, color=frames.ORANGE)
    else:
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"{len(share)} random measures, none beyond a bound", fontsize=frames.SMALL)
    ax.legend(**frames.LEGEND, loc="lower left")


def _flows(ax: Axes, one: Any) -> None:
    labels = {
        "down": ("repulsive: down to E(σ)", frames.BLUE),
        "up": ("attractive: up to E(δ)", frames.ORANGE),
    }
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
    ax.axhline(1e-10, color=frames.GREY, linestyle=":", linewidth=0.8)
    ax.set(xscale="log", yscale="log")
    frames.label_axes(ax, "t", "gap to the bound (SA)")
    ax.legend(**frames.LEGEND)
