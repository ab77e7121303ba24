"""Figures of studies, and of the inner products of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from scipy.spatial import ConvexHull
from scipy.special import ndtri

from meanfield._checks import integer, is_single, shown
from meanfield.dynamics import SA, USA
from meanfield.dynamics.titles import heading
from meanfield.exceptions import GOOD
from meanfield.measures.particles import Particles
from meanfield.plot import frames
from meanfield.theory import orthogonal_arrival
from meanfield.typing import Array

if TYPE_CHECKING:
    import xarray as xr

# this part of the colours is visible on white
_DARK, _LIGHT = 0.05, 0.85


def energy_extremisers(ds: xr.Dataset) -> Figure:
    """Densities of least E_{β,D} over the angle, and below them ∫ e^{β<x,Dy>} dmu(y).

    The potential of the least energy is constant; that of the uniform density, dashed, is not.
    Matrices without such a density are left out.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.energy_extremisers`, for matrices on the circle.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or none of its matrices has a density.

    Examples
    --------
    >>> import numpy as np
    >>> from meanfield.studies import energy_extremisers as study
    >>> len(energy_extremisers(study(np.diag([2.0, 1.0]))).axes) > 0
    True
    """
    needed = "density", "potential", "uniform_potential", "matrix", "angle"
    frames.check_dataset(ds, "energy_extremisers on the circle", needed, (), ("beta",))
    rows_drawn = np.flatnonzero(np.isfinite(ds["density"].values).all(axis=1))
    if len(rows_drawn) == 0:
        kinds = ds["least_kind"].values.tolist()
        raise ValueError(f"ds must have a matrix with a density of least energy, got {kinds}")
    figure = frames.new_figure(5.6, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    colours = colormaps["viridis"](np.linspace(_DARK, _LIGHT, len(rows_drawn)))
    angles = ds["angle"].values
    for i, colour in zip(rows_drawn.tolist(), colours, strict=True):
        form = ds.isel(index=i)
        name = _name_of(form["matrix"].values)
        upper.plot(angles, form["density"].values, color=colour, linewidth=1.4, label=name)
        lower.plot(angles, form["potential"].values, color=colour, linewidth=1.4)
        lower.plot(angles, form["uniform_potential"].values, "--", color=colour, linewidth=0.8)
    frames.label_axes(upper, y="density f")
    upper.set_ylim(bottom=0.0)
    frames.label_axes(lower, "angle θ of x", "potential of x")
    lower.set_xlim(0.0, 2.0 * np.pi)
    frames.quarter_ticks(lower, 5)
    dashed = Line2D([], [], color=frames.GREY, linestyle="--", linewidth=0.8, label="of uniform μ")
    handles = [*upper.get_legend_handles_labels()[0], dashed]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, **frames.LEGEND)
    title = f"Densities of least energy, β = {ds.attrs['beta']:g}"
    return frames.finish(figure, title, (upper, lower))


def _name_of(matrix: Array) -> str:
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))):
        return "λ = {:g}, {:g}".format(*np.linalg.eigvalsh(matrix))
    return "D = diag({:g}, {:g})".format(*np.diag(matrix))


_COLOURS = frames.BLUE, frames.ORANGE, frames.GREEN, frames.PINK, frames.YELLOW, frames.SKY
# markers and names of the special points of a branch
_MARKS = {
    "bifurcation": ("o", "bifurcation"),
    "fold": ("s", "fold"),
    "equal free energy": ("D", "F as of the uniform state"),
}


def stationary_states(ds: xr.Dataset, index: int = 0) -> Figure:
    """The bifurcation diagram of one β: ∫ P_k dmu over τ, and below it F - F(σ) under USA.

    Stable states are solid and unstable ones dashed; the uniform state is the line at 0, and
    bifurcation points, folds and equal free energies bear marks. Where the transition is of first
    order, the window in which both states are stable is shaded, and τ_c a vertical line.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.stationary_states`.
    index : int
        Which β of it.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or `index` is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> ds = mf.studies.stationary_states(mf.USA(1.0), 2, until=0.1)
    >>> len(stationary_states(ds).axes) > 0
    True
    """
    needed = "noise", "moment", "n_unstable", "event", "critical_noise", "nature", "degree"
    frames.check_dataset(ds, "stationary_states", needed, ("beta",))
    states = ds.isel(beta=integer("index", index, low=0, high=ds.sizes["beta"] - 1))
    with_energy = "free_energy_excess" in ds
    figure = frames.new_figure(5.2, 4.8 if with_energy else 3.0)
    heights = [3, 2][: 1 + with_energy]
    axes = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    _window(axes, states)
    _branches(axes[0], states, states["moment"].values)
    moment = "|∫ x dμ|" if states["degree"].max() == 1 else "∫ P$_k$ dμ, k the branch's degree"
    frames.label_axes(axes[0], y=moment)
    if with_energy:
        _branches(axes[1], states, states["free_energy_excess"].values)
        frames.label_axes(axes[1], y="F − F(σ)")
    frames.label_axes(axes[-1], "noise τ")
    figure.legend(handles=_legend(states), loc="outside lower center", ncols=3, **frames.LEGEND)
    where = f"d = {int(states['dim'])}, β = {float(states['beta']):g}"
    text = f"{states.attrs.get('dynamics', '')}, {where}: {states['nature'].item()} transition"
    return frames.finish(figure, f"{text} at degree 1", axes)


def _window(axes: Iterable[Axes], states: xr.Dataset) -> None:
    """Draw the uniform state, the window with two stable states, and τ_c."""
    tau_c = float(states["critical_noise"])
    fold = float(np.nan_to_num(states["fold_noise"].values[0]))
    left, largest = float(states["noise"].min()), float(states["noise"].max())
    right = 1.06 * largest
    for ax in axes:
        if states["nature"].item() == "first order":
            ax.axvspan(tau_c, fold, color="0.93", linewidth=0.0, zorder=0)
            if "transition_noise" in states:
                both_equal = float(states["transition_noise"])
                ax.axvline(both_equal, color=frames.GREY, linewidth=0.6, linestyle=":", zorder=1)
        ax.plot([left, tau_c], [0.0, 0.0], "--", color="black", linewidth=1.0)
        ax.plot([tau_c, right], [0.0, 0.0], color="black", linewidth=1.0)
        ax.set_xlim(left, right)


def _branches(ax: Axes, states: xr.Dataset, values: Array) -> None:
    tau, n_unstable, events = (states[name].values for name in ("noise", "n_unstable", "event"))
    for branch, degree in enumerate(states["degree"].values.tolist()):
        colour = _colour_of(degree)
        is_finite = np.isfinite(tau[branch])
        x, y = tau[branch][is_finite], values[branch][is_finite]
        # a piece is as stable as its end that is no fold or bifurcation
        ends_grow = n_unstable[branch][is_finite] > 0
        grows = ends_grow[:-1] | ends_grow[1:]
        ends = np.column_stack([x[:-1], x[1:]]).ravel()
        heights = np.column_stack([y[:-1], y[1:]]).ravel()
        for style, is_drawn in ("--", grows), ("-", ~grows):
            # pieces of the other stability are gaps in this line
            line = np.where(np.repeat(is_drawn, 2), heights, np.nan)
            ax.plot(ends, line, style, color=colour, linewidth=1.4, zorder=2)
        for name, (marker, _) in _MARKS.items():
            is_event = events[branch][: len(is_finite)][is_finite] == name
            ax.plot(x[is_event], y[is_event], marker, color=colour, markersize=4, zorder=3)


def _colour_of(degree: int) -> str:
    return _COLOURS[(degree - 1) % len(_COLOURS)]


def _legend(states: xr.Dataset) -> list[Line2D]:
    degrees = dict.fromkeys(states["degree"].values.tolist())
    lines = [Line2D([], [], color=_colour_of(k), label=f"degree {k}") for k in degrees]
    lines.append(Line2D([], [], color="black", label="stable (axisymmetric)"))
    lines.append(Line2D([], [], color="black", linestyle="--", label="unstable"))
    dots: frames.Keywords = {"color": "black", "linestyle": "", "markersize": 4}
    marks = [mark for name, mark in _MARKS.items() if (states["event"] == name).any()]
    return lines + [Line2D([], [], marker=mark, label=text, **dots) for mark, text in marks]


_OF_METASTABILITY = (
    *("t", "energy_share", "n_clusters", "cluster_angle", "cluster_mass", "merging_time"),
    *("plateau_start", "plateau_end", "plateau_n_clusters", "beta", "dynamics"),
    *("grown_degree", "growth_rate_predicted", "predicted_degree", "largest_growth_rate"),
)
# the area of the dot of a cluster of mass 1, in points²
_AREA = 30.0
# the parts of the axis that a name, and a number alone, need
_ROOM, _LITTLE_ROOM = 0.14, 0.015
# below this E(δ) is named at the edge only
_FAR = 0.5


def metastability(ds: xr.Dataset, run: int = 0) -> Figure:
    """Clusters that last and merge: E/E(δ) with plateaus, and the clusters' angles, over log t.

    Plateaus are shaded and marked with their number of clusters. Thin vertical lines are mergers.
    The areas of the dots are the masses of the clusters.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.metastability`.
    run : int
        Which run of it.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, has no time t > 0 of this run, or `run` is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> ds = mf.studies.metastability(mf.SA(9.0), t_end=3.0, save_at=10)
    >>> len(metastability(ds).axes) > 0
    True
    """
    frames.check_dataset(ds, "metastability", _OF_METASTABILITY, ("run",))
    of_run = ds.isel(run=integer("run", run, low=0, high=ds.sizes["run"] - 1))
    # the study's `t` has a unit of its own in each run; its `time` has the unit of the plateaus
    times = np.asarray(of_run["time" if "time" in of_run else "t"].values, dtype=np.float64)
    if not (times > 0.0).any():
        raise ValueError(f"ds must have times t > 0 in run {run}, got {times[:8]}")
    figure = frames.new_figure(7.0, 4.2)
    axes = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    axes[0].set_xscale("log")
    # axes of less than a decade need more labels
    axes[0].xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes[0].set_xlim(np.nanmin(times[times > 0.0]), np.nanmax(times))
    _draw_energy(axes[0], times, of_run["energy_share"].values)
    _angles(axes[1], times, of_run["cluster_angle"].values, of_run["cluster_mass"].values)
    _plateaus(axes, of_run)
    for time in of_run["merging_time"].dropna("merger").values:
        axes[1].axvline(time, color=frames.ORANGE, linewidth=0.6, zorder=1)
    status = str(of_run["status"].item()) if "status" in of_run else "finished"
    is_good = status in GOOD
    run_title = f"{of_run['dynamics'].item()}, β = {of_run['beta'].item():g}"
    status_text = "" if is_good else f", {status}"
    title = frames.subscripts(f"{run_title}{status_text}: {_grown(of_run)}", "$_{%s}$")
    return frames.finish(figure, title, axes, "black" if is_good else frames.ORANGE)


def _grown(of_run: xr.Dataset) -> str:
    """Say which degree grew and which was predicted, each with its own γ."""
    grown, predicted = (int(of_run[f"{name}_degree"]) for name in ("grown", "predicted"))
    fastest = f"(γ_{predicted} = {float(of_run['largest_growth_rate']):.3g})"
    if grown == predicted:
        return f"degree {grown} grew, as predicted {fastest}"
    rate = f" (γ_{grown} = {float(of_run['growth_rate_predicted']):.3g})" if grown else ""
    name = f"degree {grown}" if grown else "no degree"
    return f"{name} grew{rate}, degree {predicted} predicted {fastest}"


def _draw_energy(ax: Axes, times: Array, shares: Array) -> None:
    ax.plot(times, shares, color=frames.BLUE, linewidth=1.4)
    finite = shares[np.isfinite(shares)]
    low, high = float(finite.min(initial=1.0)), float(finite.max(initial=0.0))
    if high < _FAR:
        frames.write(ax, "E(δ) ↑", (0.01, 0.98), ax.transAxes, va="top")
    else:
        ax.axhline(1.0, color=frames.GREY, linestyle="--", linewidth=0.8)
        high = max(high, 1.0)
    # the axis extends above the curve, where the names of the plateaus have room
    range_of_energy = max(high - low, 1e-9)
    ax.set_ylim(low - 0.08 * range_of_energy, high + 0.25 * range_of_energy)
    frames.label_axes(ax, y="energy E / E(δ)")


def _angles(ax: Axes, times: Array, angles: Array, masses: Array) -> None:
    grid = np.broadcast_to(times[:, None], angles.shape)
    is_finite = np.isfinite(grid) & np.isfinite(angles) & np.isfinite(masses)
    # a dot at the edge is drawn whole
    dots: frames.Keywords = {"color": frames.BLUE, "alpha": 0.7, "linewidths": 0.0, "zorder": 2}
    area = 0.8 + _AREA * masses[is_finite]
    ax.scatter(grid[is_finite], angles[is_finite] % (2.0 * np.pi), s=area, clip_on=False, **dots)
    ax.set_ylim(0.0, 2.0 * np.pi)
    ax.set_yticks(*frames.QUARTERS)
    frames.label_axes(ax, "time t (vertical lines: clusters merge)", "angles of clusters")


def _plateaus(axes: Sequence[Axes], of_run: xr.Dataset) -> None:
    left, right = np.log(axes[0].get_xlim())
    columns = [of_run[f"plateau_{name}"].values for name in ("start", "end", "n_clusters")]
    plateaus = np.transpose(columns)
    for start, end, count in plateaus[np.isfinite(plateaus).all(axis=1)]:
        for ax in axes:
            ax.axvspan(start, end, color="0.93", linewidth=0.0, zorder=0)
        room = np.log(end / start) / (right - left)
        if room >= _LITTLE_ROOM:
            noun = "" if room < _ROOM else " cluster" if count == 1 else " clusters"
            place, frame = (np.sqrt(start * end), 0.98), axes[0].get_xaxis_transform()
            frames.write(axes[0], f"{count:g}{noun}", place, frame, ha="center", va="top")


# verdicts have these colours
_VERDICTS = {"refuted": frames.ORANGE, "undecided": frames.GREY}
# logarithmic axes end at the first number; beyond a bound by more than the second is no rounding
_FLOOR, _BEYOND = 1e-18, 1e-12


def proposition_3_4(ds: xr.Dataset, index: int = 0) -> Figure:
    """Coefficients, the identity, random measures between their bounds, and flows to these.

    Panels of parts that were not run are left out.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.proposition_3_4`.
    index : int
        Which β of it.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or `index` is out of range.

    Examples
    --------
    >>> from meanfield.studies import proposition_3_4 as study
    >>> ds = study(1.0, 3, parts=["coefficients", "identity"], n_measures=10)
    >>> len(proposition_3_4(ds).axes) > 0
    True
    """
    frames.check_dataset(ds, "proposition_3_4", (), ("beta",), ("verdict", "statement"))
    of_beta = ds.isel(beta=integer("index", index, low=0, high=ds.sizes["beta"] - 1))
    panels = {
        "share_of_degree": _coefficients,
        "identity_error": _identity,
        "share": _search,
        "flow_gap": _flows,
    }
    # one of several β may lack a panel that another has
    has_numbers = (name in of_beta and of_beta[name].notnull().any() for name in panels)
    present = [draw for draw, has in zip(panels.values(), has_numbers, strict=True) if has]
    figure, places = frames.new_panels(len(present), 2, (3.5, 2.7), (0.0, 0.5))
    axes = places.ravel()[: len(present)]
    for ax, draw in zip(axes, present, strict=True):
        draw(ax, of_beta)
        ax.tick_params(which="minor", labelsize=frames.SMALL)
    beta, verdict = float(of_beta["beta"]), ds.attrs["verdict"]
    kernel = f"β = {beta:g}" if np.isfinite(beta) else "a potential"
    title = f"Proposition 3.4, d = {ds.attrs['dim']}, {kernel}: {verdict}"
    return frames.finish(figure, title, axes, _VERDICTS.get(verdict, "black"))


def _coefficients(ax: Axes, of_beta: xr.Dataset) -> None:
    degrees, shares = (of_beta[name].values[1:] for name in ("degree", "share_of_degree"))
    is_large = np.abs(shares) > _FLOOR
    for sign, colour, name in ((1.0, frames.BLUE, "> 0"), (-1.0, frames.ORANGE, "< 0")):
        is_shown = is_large & (sign * shares > 0.0)
        if is_shown.any():
            values, label = sign * shares[is_shown], f"$Λ_k$ {name}"
            ax.plot(degrees[is_shown], values, "o", color=colour, ms=3, label=label)
    ax.set_yscale("log")
    ax.set_xlim(0.0, degrees[-1] + 1.0)
    ax.set_ylim(0.1 * _FLOOR if is_large.sum() > 8 else 1e-3, 1e2)
    frames.label_axes(ax, "degree k", "what degree k adds to U, over U")
    proved = of_beta.get("log_eigenvalue_lower")
    if proved is not None and np.isfinite(proved.values[1:]).all():
        ax.set_title("$Λ_k$ > 0 is proved", fontsize=frames.SMALL)
    if "evaluation_error" in of_beta:
        errors = np.maximum(of_beta["evaluation_error"].values[1:], 1e-17)
        ax.plot(degrees, errors, ".", color=frames.GREY, ms=3, label="error in float64, relative")
    ax.legend(**frames.LEGEND)


def _identity(ax: Axes, of_beta: xr.Dataset) -> None:
    log_errors = np.log10(np.maximum(of_beta["identity_error"].values, 1e-17))
    places = np.arange(len(log_errors))
    ax.plot(log_errors, places, "o", color=frames.BLUE)
    ax.set_yticks(places, of_beta["measure"].values.astype(str))
    ax.set(xlim=(-17.0, max(-12.0, np.nanmax(log_errors) + 0.5)), ylim=(len(places) - 0.5, -0.5))
    frames.label_axes(ax, "log₁₀ of the relative difference", "measure μ")
    ax.set_title("E − E(σ): double integral and sum of degrees", fontsize=frames.SMALL)


def _search(ax: Axes, of_beta: xr.Dataset) -> None:
    kinds = of_beta["kind"].values.astype(str)
    share, defect = of_beta["share"].values, of_beta["defect"].values
    for kind, colour in zip(dict.fromkeys(kinds), _COLOURS, strict=False):
        is_kind = kinds == kind
        ax.plot(share[is_kind], defect[is_kind], ".", color=colour, ms=3, label=kind)
    # gradients reach so far from below and from above; both margins of a measure have the same sum
    (down, up), total = of_beta["margin"].values, share[0] + defect[0]
    ax.plot([down, total - up], [total - down, up], "x", color="black", ms=5, label="gradients")
    unit = "U = E(δ) − E(σ)" if np.isfinite(of_beta["beta"]) else "U = max |W − Λ₀|/2"
    frames.label_axes(ax, f"(E(μ) − E(σ))/U, {unit}", "(E(δ) − E(μ))/U")
    n_below, n_above = int((share < -_BEYOND).sum()), int((defect < -_BEYOND).sum())
    if n_below or n_above:
        # a number beyond a bound has no logarithm
        ax.axvline(0.0, color=frames.GREY, linewidth=0.8)
        ax.axhline(0.0, color=frames.GREY, linewidth=0.8)
        text = f"{n_below} below E(σ), {n_above} above E(δ)"
        ax.set_title(text, fontsize=frames.SMALL, color=frames.ORANGE)
    else:
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"{len(share)} random measures, none beyond a bound", fontsize=frames.SMALL)
    ax.legend(**frames.LEGEND, loc="lower left")


def _flows(ax: Axes, of_beta: xr.Dataset) -> None:
    labels = {
        "down": ("repulsive: down to E(σ)", frames.BLUE),
        "up": ("attractive: up to E(δ)", frames.ORANGE),
    }
    for name in of_beta["flow"].values.tolist():
        direction, _, number = str(name).partition(" ")
        text, colour = labels[direction]
        times, gaps = (of_beta[f"flow_{of}"].sel(flow=name).values for of in ("time", "gap"))
        is_on = times > 0.0
        label = text if number == "0" else None
        ax.plot(times[is_on], np.maximum(gaps[is_on], 1e-16), color=colour, lw=1.2, label=label)
    ax.axhline(1e-10, color=frames.GREY, linestyle=":", linewidth=0.8)
    ax.set(xscale="log", yscale="log")
    frames.label_axes(ax, "time t", "gap to the bound (SA)")
    ax.legend(**frames.LEGEND)


_BINS = 80


def inner_products(
    rows: Mapping[str, Sequence[Particles]], titles: Sequence[str] | None = None
) -> Figure:
    """Histograms of <x_i, x_j>, i ≠ j: a row for each name, a column for each measure.

    The mean is marked. Figure 1 of the paper shows such histograms for a trained model.

    Parameters
    ----------
    rows : mapping of str to sequence of Particles
        Equally many in each row, of at least 2 tokens each; weights do not count.
    titles : sequence of str, optional
        Titles of the columns.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If a row is empty or of another length, or holds something else.

    Examples
    --------
    >>> import meanfield as mf
    >>> square = mf.Particles([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> len(inner_products({"a square": [square]}).axes)
    1
    """
    if not isinstance(rows, Mapping) or not all(isinstance(r, Sequence) for r in rows.values()):
        raise ValueError(f"rows must map names to sequences of Particles, got {shown(rows)}")
    lengths = {len(measures) for measures in rows.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"rows must be of one length >= 1, got lengths {sorted(lengths)}")
    columns = lengths.pop()
    several = isinstance(titles, Sequence) and not is_single(titles)
    if titles is not None and (not several or len(titles) != columns):
        raise ValueError(f"titles must be {columns}, one for each column, got {shown(titles)}")
    figure = frames.new_figure(1.5 * columns + 0.6, 1.35 * len(rows) + 0.3)
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    for line, (name, measures) in zip(axes, rows.items(), strict=True):
        for ax, measure in zip(line, measures, strict=True):
            values = _pairs(measure)
            ax.hist(values, bins=_BINS, range=(-1.0, 1.0), color=frames.BLUE, density=True)
            ax.axvline(values.mean(), color=frames.ORANGE, linewidth=1.0)
            ax.set_yticks([])
            ax.set_xlim(-1.0, 1.0)
            ax.tick_params(labelsize=frames.SMALL)
            ax.set_title(f"mean {values.mean():.3f}", fontsize=frames.SMALL, pad=2)
        line[0].set_ylabel(name, fontsize=frames.NORMAL)
    for ax, title in zip(axes[0], () if titles is None else titles, strict=False):
        ax.set_title(f"{title}\n{ax.get_title()}", fontsize=frames.SMALL, pad=2)
    for ax in axes[-1]:
        ax.set_xlabel("⟨xᵢ, xⱼ⟩", fontsize=frames.SMALL)
    return figure


def _pairs(measure: Particles) -> Array:
    """Return <x_i, x_j> for i < j."""
    if not isinstance(measure, Particles) or len(measure.points) < 2:
        raise ValueError(f"rows must hold Particles of at least 2 tokens, got {shown(measure)}")
    gram = measure.points @ measure.points.T
    return np.asarray(gram[np.triu_indices(len(gram), 1)])


_TITLES = {
    "polytope": "V = I: a polytope",
    "hyperplanes": "λ₁ > 0 simple: hyperplanes",
    "polytope × line": "V = diag(1, 1, −½): polytope × line",
    "origin": "V = −I: the origin",
}
_END: frames.Keywords = {"marker": "o", "linestyle": "", "color": frames.ORANGE, "markersize": 4}
_LIMIT: frames.Keywords = {"color": frames.GREY, "linestyle": "--", "linewidth": 0.9}


def limits_without_normalisation(ds: xr.Dataset) -> Figure:
    """Trajectories of the tokens of each case, their ends, and the sets that hold these.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.limits_without_normalisation`.

    Returns
    -------
    matplotlib Figure
        Of four panels: z_i = e^{-tV} x_i, and x_i for V = -I.

    Raises
    ------
    ValueError
        If it is no such dataset.

    Examples
    --------
    >>> from meanfield.studies import limits_without_normalisation as study
    >>> len(limits_without_normalisation(study(n=5, t_end=1.0)).axes) > 3
    True
    """
    needed = "trajectory", "n_distinct", "off", "t", "case"
    frames.check_dataset(ds, "limits_without_normalisation", needed, ("case",), ("beta",))
    figure = frames.new_figure(10.0, 3.2)
    cases = ds["case"].values
    for ax, case in zip(figure.subplots(1, len(cases)), cases, strict=True):
        _paths(ax, ds.sel(case=case), str(case))
    handles = [
        Line2D([], [], color=frames.BLUE, linewidth=0.6, label="trajectories"),
        Line2D([], [], **_END, label="their ends"),
        Line2D([], [], **_LIMIT, label="what holds the ends"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, **frames.LEGEND)
    tokens = f"{ds.sizes['token']} tokens without layer normalisation"
    return frames.finish(figure, f"{tokens}, β = {ds.attrs['beta']:g}: z = $e^{{-tV}}$ x")


def _paths(ax: Axes, of_case: xr.Dataset, case: str) -> None:
    paths = of_case["trajectory"].values
    ax.plot(paths[:, :, 0], paths[:, :, 1], color=frames.BLUE, linewidth=0.6, alpha=0.6)
    ends = paths[-1]
    if case == "hyperplanes":
        for place in np.unique(ends[:, 0].round(2)):
            ax.axvline(place, **_LIMIT)
        # along the hyperplanes tokens run away like e^{(λ_1 - λ_2)t}
        ax.set_yscale("symlog", linthresh=1.0)
    elif case != "origin":
        corners = ends[ConvexHull(ends).vertices]
        outline = np.append(corners, corners[:1], axis=0)
        ax.plot(outline[:, 0], outline[:, 1], **_LIMIT)
    ax.plot(ends[:, 0], ends[:, 1], **_END, zorder=3)
    letter = "x" if case == "origin" else "z"
    x_name, y_name = (f"{which} coordinate of {letter}" for which in ("first", "second"))
    frames.label_axes(ax, x_name, y_name, _TITLES[case])
    ax.tick_params(labelsize=frames.SMALL)
    ax.set_aspect("auto" if case == "hyperplanes" else "equal", adjustable="datalim")


# the curve t*(β) is drawn through so many values of β
_FINE = 100


def phase_diagram(ds: xr.Dataset | Sequence[xr.Dataset]) -> Figure:
    """P(<x_i(t), x_j(t)> >= 1 - δ) over t and β, with the curve t*(β) of (6.12).

    Parameters
    ----------
    ds : xarray.Dataset or sequence of them
        Result of `studies.phase_diagram`; a panel each, on axes of their own.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If one is no such dataset, or there is none.

    Examples
    --------
    >>> import meanfield as mf
    >>> ds = mf.studies.phase_diagram([mf.SA(1.0), mf.SA(4.0)], 3, 4, 2.0, repeats=4, save_at=4)
    >>> len(phase_diagram(ds).axes) > 0
    True
    """
    diagrams = list(ds) if isinstance(ds, Sequence) else [ds]
    if not diagrams:
        raise ValueError(
            f"ds must be at least one Dataset of studies.phase_diagram, got {shown(ds)}"
        )
    needed = "probability", "arrival", "t", "beta", "dim"
    for diagram in diagrams:
        frames.check_dataset(diagram, "phase_diagram", needed, (), ("dynamics", "n", "delta"))
        for name in "t", "beta":
            values = diagram[name].values
            if len(values) < 2:
                raise ValueError(f"ds must have at least 2 values of {name}, got {values}")
    figure, axes = frames.new_panels(len(diagrams), 3, (2.4, 2.1), (1.0, 0.5))
    panels = list(axes.ravel())
    for ax, diagram in zip(panels, diagrams, strict=False):
        mesh = _shares(ax, diagram)
    for ax in axes[:, 0]:
        ax.set_ylabel("β", fontsize=frames.NORMAL)
    # the lowest panel of a column may stand above an empty place
    for ax in panels[max(0, len(diagrams) - axes.shape[1]) : len(diagrams)]:
        ax.set_xlabel("time t", fontsize=frames.NORMAL)
    curve = next((line for ax in panels for line in ax.lines), None)
    if curve is not None:
        figure.legend(handles=[curve], loc="outside lower center", **frames.LEGEND)
    bar = figure.colorbar(mesh, ax=panels, shrink=0.8, pad=0.02, aspect=30)
    frames.finish_bar(bar, f"P(⟨x₁, x₂⟩ ≥ 1 − {diagrams[0].attrs.get('delta', np.nan):g})")
    return frames.finish(figure, _common(diagrams))


def _shares(ax: Axes, ds: xr.Dataset) -> ScalarMappable:
    times, betas = ds["t"].values, ds["beta"].values
    values = ds["probability"].transpose("beta", "t").values
    look: frames.Keywords = {"cmap": frames.COLOURS, "vmin": 0.0, "vmax": 1.0, "rasterized": True}
    mesh = ax.pcolormesh(times, betas, values, shading="nearest", **look)
    if np.isfinite(ds["arrival"].values).any():
        fine = np.linspace(betas[0], betas[-1], _FINE)
        arrival = [_arrival_of(ds, beta) for beta in fine.tolist()]
        ax.plot(arrival, fine, color=frames.SKY, linewidth=1.2, label="t*(β), (6.12)")
    # outer cells are cut in half, since beyond them β or t may be negative
    ax.set(xlim=(times[0], times[-1]), ylim=(betas[0], betas[-1]))
    ax.set_title(f"d = {int(ds['dim'])}", fontsize=frames.NORMAL)
    ax.tick_params(labelsize=frames.SMALL)
    ax.spines[:].set(linewidth=0.6, color=frames.GREY)
    return mesh


def _arrival_of(ds: xr.Dataset, beta: float) -> float:
    """Return t* at a β between those of the diagram; nan if it leaves double precision."""
    kind = {"SA": SA, "USA": USA}[ds.attrs["dynamics"]]
    try:
        return orthogonal_arrival(kind(beta), ds.attrs["n"], ds.attrs["delta"])
    except ValueError:
        return float("nan")


def _common(diagrams: Iterable[xr.Dataset]) -> str:
    """Return the part of the title that all panels share."""
    forms = {"dynamics": "{}", "n": "n = {} uniform tokens", "repeats": "{} repeats"}
    texts = []
    for name, form in forms.items():
        values = {ds.attrs.get(name) for ds in diagrams}
        if len(values) == 1 and None not in values:
            texts.append(form.format(values.pop()))
    return ", ".join(texts)


# a bound this many times larger than the errors would leave the figure at once
_TOO_FAR = 1e3
# a line of a legend takes this share of an axis
_LINE = 0.075
# the line n^{-1/2} begins at this multiple of the largest error, above all others
_ABOVE = 1.5
_ERROR = "root mean square error"
_NAMES = {
    "mmd": "mmd",
    "sobolev": "Sobolev",
    "w1": "W₁",
    "w2": "W₂",
    "energy_error": "energy",
    "mean_error": "mean",
}


def mean_field_limit(ds: xr.Dataset) -> Figure:
    """Errors over n at the last time, the first distance over t, and fluctuations of the mean.

    Errors are root mean squares over the repeats, with their fitted powers of n, whose intervals
    hold jointly; the dashed line falls like n^{-1/2}. Over t, dashed lines are Dobrushin's bound,
    where it ends below 1000 times the largest error. Fluctuations
    √n ∫ x d(mu_n - mu) at the last time, each axis in units of its deviation, are compared with
    normal quantiles.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.mean_field_limit`.

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
    >>> from meanfield.studies import mean_field_limit as study
    >>> law = mf.FourierSeries(cos=[0.5])
    >>> ds = study(law, mf.SA(1.0), 0.2, [10, 20], repeats=2, save_at=1, distances=["w1"])
    >>> len(mean_field_limit(ds).axes) > 0
    True
    """
    needed = "rate", "fluctuation", "n", "t", "quantity"
    shared_attributes = "name", "beta", "sign", "confidence"
    frames.check_dataset(ds, "mean_field_limit", needed, ("repeat",), shared_attributes)
    figure = frames.new_figure(10.5, 3.6)
    for ax, draw in zip(figure.subplots(1, 3), (_over_n, _over_t, _gaussian), strict=True):
        draw(ax, ds)
        ax.tick_params(which="both", labelsize=frames.SMALL)
    called = heading(ds.attrs["name"], ds.attrs["beta"], ds.attrs["sign"])
    title = f"{called}: tokens against the limit, {ds.sizes['repeat']} repeats"
    return frames.finish(figure, title)


def causal_limit(ds: xr.Dataset) -> Figure:
    """Errors of causal tokens over j at the last time, and on the circle W₁ of all over n.

    Bars are standard errors. Fitted powers of j have their standard error, that of n its interval
    of 95 %; dashed lines fall like j^{-1/2} and n^{-1/2}. W₁ is drawn for several n.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.causal_limit`.

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
    >>> from meanfield.studies import causal_limit as study
    >>> law, dynamics = mf.FourierSeries(cos=[0.5]), mf.SA(1.0, mask=mf.Causal())
    >>> len(causal_limit(study(law, dynamics, 0.2, [16, 32], repeats=2, save_at=1)).axes)
    2
    """
    needed = "rms", "standard_error", "token", "slope", "slope_error", "n", "t"
    frames.check_dataset(ds, "causal_limit", needed, ("repeat",), ("dynamics",))
    at_end, with_w1 = ds.isel(t=-1), "w1" in ds and ds.sizes["n"] > 1
    figure = frames.new_figure(7.2 if with_w1 else 4.0, 3.6)
    over_j, *others = figure.subplots(1, 1 + with_w1, squeeze=False)[0]
    for colour, n in zip(frames.CYCLE, ds["n"].values.tolist(), strict=False):
        errors = at_end.sel(n=n).dropna("window", subset=["token"])
        power = _power("j", float(errors["slope"]), float(errors["slope_error"]))
        token, heights, bars = (errors[name] for name in ("token", "rms", "standard_error"))
        dots = {"color": colour, "markersize": 4, "label": f"n = {n}{power}"}
        over_j.errorbar(token, heights, np.nan_to_num(bars), **dots)
    over_j.set(xscale="log", yscale="log")
    _fall(over_j, "j", np.array([1.0, float(at_end["token"].max())]), float(at_end["rms"].max()))
    title = f"angle to the characteristic at t = {float(at_end['t']):.4g}"
    frames.label_axes(over_j, "token j", _ERROR, title)
    for ax in others:
        w1 = rms(at_end["w1"])
        _error_over_n(ax, w1, at_end, "W₁", frames.BLUE)
        _fall(ax, "n", ds["n"].values, float(w1.max()))
        frames.label_axes(ax, "tokens n", _ERROR, "all tokens to the density")
        ax.set_xticks(ds["n"].values, map(str, ds["n"].values))
        ax.set_xticks([], minor=True)
    for ax in over_j, *others:
        ax.tick_params(which="both", labelsize=frames.SMALL)
        # the legend has a line for each entry, and space for one more
        _room_below(ax, _LINE * (len(ax.get_legend_handles_labels()[0]) + 1))
        ax.legend(**frames.LEGEND, loc="lower left")
    title = f"{ds.attrs['name']}: causal tokens against the limit, {ds.sizes['repeat']} repeats"
    return frames.finish(figure, title)


def _power(letter: str, exponent: float, half: float) -> str:
    """Return the words of a legend for a fitted power; "" without one."""
    interval = rf" \pm {half:.2f}" if np.isfinite(half) else ""
    return f": ${letter}^{{{exponent:.2f}{interval}}}$" if np.isfinite(exponent) else ""


def _fall(ax: Axes, letter: str, counts: Array, highest: float) -> None:
    """Draw a dashed line above errors that falls like the square root of a number of tokens."""
    fall, label = _ABOVE * highest * np.sqrt(counts[0] / counts), f"${letter}^{{-1/2}}$"
    ax.loglog(counts, fall, "--", color=frames.GREY, linewidth=0.8, label=label)


def rms(errors: xr.DataArray) -> xr.DataArray:
    """Root mean square over the repeats, in units of the largest since squares may overflow."""
    unit = float(errors.max()) or 1.0
    squares = ((errors / unit) ** 2).mean("repeat")
    return squares.copy(data=unit * np.sqrt(squares.values))


def _error_over_n(ax: Axes, errors: xr.DataArray, fit: xr.Dataset, name: str, colour: str) -> None:
    """Errors over n, with their fitted power and its interval in the legend."""
    rate = float(fit["rate"])
    label = name + _power("n", rate, abs(rate - float(fit["rate_lower"])))
    ax.loglog(errors["n"], errors, "o-", color=colour, markersize=4, label=label)


def _over_n(ax: Axes, ds: xr.Dataset) -> None:
    at_end = ds.isel(t=-1)
    for colour, name in zip(frames.CYCLE, ds["quantity"].values, strict=False):
        fit = at_end[["rate", "rate_lower"]].sel(quantity=name)
        _error_over_n(ax, rms(ds[name])[:, -1], fit, _NAMES[str(name)], colour)
    highest = max(float(rms(ds[name])[0, -1]) for name in ds["quantity"].values)
    _fall(ax, "n", ds["n"].values, highest)
    frames.label_axes(ax, "tokens n", _ERROR, f"errors at t = {float(ds['t'][-1]):.4g}")
    # the legend has a line for each quantity, for the power, and for its title
    _room_below(ax, _LINE * (ds.sizes["quantity"] + 2))
    title = f"fitted powers, all jointly {100 * ds.attrs['confidence']:g} %"
    ax.legend(**frames.LEGEND, title=title, title_fontsize=frames.SMALL, loc="lower left")


def _room_below(ax: Axes, share: float) -> None:
    """Extend a logarithmic axis downwards, so that a legend has this share of its height."""
    low, high = ax.get_ylim()
    ax.set_ylim(low * (low / high) ** (share / (1.0 - share)), high)


def _over_t(ax: Axes, ds: xr.Dataset) -> None:
    name = "w1" if "w1" in ds else str(ds["quantity"].values[0])
    errors, t = rms(ds[name]).values, ds["t"].values
    shades = np.linspace(0.75, 0.0, len(errors))
    for n, row, shade in zip(ds["n"].values, errors, shades, strict=True):
        dots: frames.Keywords = {"color": str(shade), "markersize": 3, "clip_on": False}
        ax.semilogy(t, row, "o-", label=f"n = {n}", **dots)
    # a bound is drawn if it ends near enough to the errors to be seen with them
    if "dobrushin" in ds and float(ds["dobrushin"].max()) <= _TOO_FAR * float(errors.max()):
        constant = ds.attrs["dobrushin_constant"]
        fine = np.linspace(t[0], t[-1], 200)
        bounds = np.outer(np.exp(constant * (fine - t[0])), errors[:, 0])
        lines = ax.semilogy(fine, bounds, "--", color=frames.GREY, linewidth=0.8)
        lines[0].set_label(f"$e^{{Ct}}$, C = {constant:.4g}")
    ax.set_xlim(t[0], t[-1])
    _room_below(ax, _LINE * (len(errors) + 2) / 2)
    frames.label_axes(ax, "time t", _ERROR, f"{_NAMES[name]} over time")
    ax.legend(**frames.LEGEND, ncols=2, loc="lower left")


def _gaussian(ax: Axes, ds: xr.Dataset) -> None:
    at_end = ds["fluctuation"].values[:, :, -1]
    repeats = at_end.shape[1]
    quantiles = ndtri((np.arange(repeats) + 0.5) / repeats)
    for axis, (values, colour) in enumerate(zip(at_end[-1].T, frames.CYCLE, strict=False)):
        heights = np.sort(values) / (values.std() or 1.0)
        label = f"axis {axis + 1}, p = {float(ds['normal_p'][-1, axis]):.2f}"
        ax.plot(quantiles, heights, "o", color=colour, markersize=3, label=label)
    ends = np.array([-1.1, 1.1]) * max(1.0, float(quantiles.max()))
    ax.plot(ends, ends, "-", color=frames.GREY, linewidth=0.8)
    title = f"fluctuations of the mean, n = {int(ds['n'][-1])}"
    frames.label_axes(ax, "normal quantile", "quantile of the repeats", title)
    ax.legend(**frames.LEGEND)


_OF_TOKENS = "correlation", "standard_error", "linear", "histogram", "histogram_error"
_OF_CLOSURES = "closed", "psi", "breaks", "mode_breaks", "reached"
_STYLES = {
    "independent": (frames.BLUE, "--"),
    "cumulant": (frames.GREEN, "-."),
    "kirkwood": (frames.ORANGE, "-"),
}
_PANELS = 3
# error bars show so many standard errors, and a panel has room for so many bars
_BARS, _DOTS = 2.0, 24
# the linear stage is drawn at so many times
_SMOOTH = 200


def two_token_correlation(ds: xr.Dataset) -> Figure:
    """E cos k(θ_1 - θ_2) for k = 1, 2, 3 over t, and ψ at three times.

    Dots are tokens with two standard errors, lines are closures. A circle marks where a mode of a
    closure is off for the first time; a line ends where its closure was no longer resolved or no
    longer a law. ψ is shown where the first closure breaks, where the last does, and at the end of
    kirkwood, with the tokens' histogram in grey.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `studies.two_token_correlation`.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If it is no such dataset.

    Examples
    --------
    >>> from meanfield.studies import two_token_correlation as study
    >>> ds = study(1.0, 8, 0.5, repeats=16, kmax=2, save_at=2)
    >>> len(two_token_correlation(ds).axes) > 0
    True
    """
    needed = _OF_TOKENS + _OF_CLOSURES
    frames.check_dataset(ds, "two_token_correlation", needed, (), ("beta", "n", "repeats"))
    figure = frames.new_figure(8.4, 5.0)
    axes = figure.subplots(2, _PANELS)
    for ax, degree in zip(axes[0], ds["degree"].values[:_PANELS], strict=False):
        _draw_mode(ax, ds.sel(degree=degree))
    for ax in axes[0, ds.sizes["degree"] :]:
        ax.set_axis_off()
    axes[0, 0].set_ylabel("E cos k(θ₁ − θ₂)", fontsize=frames.NORMAL)
    for ax, index in zip(axes[1], _instants(ds), strict=True):
        _draw_psi(ax, ds.isel(t=index), _remark(ds, index))
    axes[1, 0].set_ylabel("ψ(t, x)", fontsize=frames.NORMAL)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, **frames.LEGEND)
    title = "USA, β = {beta:g}: two of n = {n} tokens, {repeats} repeats"
    return frames.finish(figure, title.format(**ds.attrs), axes.ravel())


def _draw_mode(ax: Axes, mode: xr.Dataset) -> None:
    # studies import xarray, which figures of a run do without
    from meanfield.studies.correlations import linear_stage

    t = mode["t"].values
    values, errors = mode["correlation"].values, _BARS * mode["standard_error"].values
    thin = slice(None, None, -(-len(t) // _DOTS))
    dots: frames.Keywords = {"fmt": ".", "color": "black", "markersize": 3, "linewidth": 0.7}
    ax.errorbar(t[thin], values[thin], errors[thin], label="tokens", **dots)
    top = float((values + errors).max())
    ax.set_ylim(min(float((values - errors).min()), -0.02 * top), 1.2 * top)
    degree, fine = int(mode["degree"]), np.linspace(t[0], t[-1], _SMOOTH)
    linear = linear_stage(mode.attrs["beta"], mode.attrs["n"], fine, degree)[:, -1]
    ax.plot(fine, linear, ":", color=frames.GREY, linewidth=1.0, label="linear stage")
    circle: frames.Keywords = {"marker": "o", "markersize": 4.5, "mfc": "white", "linestyle": ""}
    for name, (colour, style) in _STYLES.items():
        line, break_time = mode["closed"].sel(closure=name), mode["mode_breaks"].sel(closure=name)
        ax.plot(t, line, style, color=colour, linewidth=1.2, label=name)
        if np.isfinite(break_time) and np.isfinite(place := line.sel(t=break_time)):
            ax.plot(break_time, place, color=colour, zorder=4, **circle)
    ax.plot([], [], color=frames.GREY, label="is off from here on", **circle)
    if len(t) > 1:
        ax.set_xlim(t[0], t[-1])
    frames.label_axes(ax, "time t", title=f"k = {degree}")


def _instants(ds: xr.Dataset) -> list[int]:
    """Indices of the times at which the first and the last closure break and kirkwood ends."""
    t, breaks, reached = (ds[name].values for name in ("t", "breaks", "reached"))
    places = np.where(np.isfinite(breaks), breaks, reached)
    end = float(ds["reached"].sel(closure="kirkwood"))
    return [int(np.searchsorted(t, time)) for time in (places.min(), places.max(), end)]


def _remark(ds: xr.Dataset, index: int) -> str:
    time = ds["t"].values[index]
    names = ds["closure"].values[ds["breaks"].values == time]
    if len(names):
        return f": {', '.join(names)} broken"
    return ": last of kirkwood" * bool(ds["reached"].sel(closure="kirkwood") == time)


def _draw_psi(ax: Axes, instant: xr.Dataset, remark: str) -> None:
    middles, heights = instant["bin"].values, instant["histogram"].values
    left = middles - 0.5 * float(middles[1] - middles[0])
    ax.stairs(heights, np.append(left, np.pi), fill=True, color="0.85", label="tokens")
    errors = _BARS * instant["histogram_error"].values
    ax.errorbar(middles, heights, errors, fmt="none", ecolor="black", elinewidth=0.5)
    for name, (colour, style) in _STYLES.items():
        ax.plot(instant["x"], instant["psi"].sel(closure=name), style, color=colour, linewidth=1.2)
    ax.axhline(0.0, color="black", linewidth=0.5)
    top = 1.6 * float(heights.max())
    lowest = float(np.nanmin(np.append(instant["psi"].values, 0.0)))
    ax.set_ylim(1.1 * lowest, top)
    ax.set_xlim(0.0, np.pi)
    frames.quarter_ticks(ax, 3)
    frames.label_axes(ax, "x = θ₂ − θ₁", title=f"t = {float(instant['t']):.3g}{remark}")
