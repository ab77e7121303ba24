"""Figures of tokens: inner products, phase diagrams, the mean-field limit, correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull
from scipy.special import ndtri

from meanfield._checks import is_single, shown
from meanfield.measures.particles import Particles
from meanfield.plot import frames
from meanfield.typing import Array

_BINS = 80
_COLUMN, _ROW = 1.5, 1.35


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
        Of the columns.

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
    if titles is not None:
        several = isinstance(titles, Sequence) and not is_single(titles)
        if not several or len(titles) != columns:
            raise ValueError(f"titles must be {columns}, one for each column, got {shown(titles)}")
    figure = frames.new_figure(_COLUMN * columns + 0.6, _ROW * len(rows) + 0.3)
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
    for ax, title in zip(axes[0], titles or [], strict=False):
        ax.set_title(f"{title}\n{ax.get_title()}", fontsize=frames.SMALL, pad=2)
    for ax in axes[-1]:
        ax.set_xlabel("⟨xᵢ, xⱼ⟩", fontsize=frames.SMALL)
    return figure


def _pairs(measure: Particles) -> Array:
    """<x_i, x_j> for i < j."""
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
    needed = "trajectory", "n_distinct", "off", "t", "case"
    frames.check_dataset(ds, "limits_without_normalisation", needed, ("case",), ("beta",))
    figure = frames.new_figure(10.0, 2.9)
    axes = figure.subplots(1, ds.sizes["case"])
    for ax, case in zip(axes, ds["case"].values, strict=True):
        _paths(ax, ds.sel(case=case), str(case))
    title = f"{ds.sizes['token']} tokens without layer normalisation, β = {ds.attrs['beta']:g}"
    return frames.finish(figure, title)


def _paths(ax: Axes, one: Any, case: str) -> None:
    paths = one["trajectory"].values
    ax.plot(paths[:, :, 0], paths[:, :, 1], color=frames.BLUE, linewidth=0.6, alpha=0.6)
    ends = paths[-1]
    if case == "hyperplanes":
        for place in np.unique(ends[:, 0].round(2)):
            ax.axvline(place, color=frames.GREY, linestyle="--", linewidth=0.9)
        # along the hyperplanes tokens run away like e^{(λ_1 - λ_2)t}
        ax.set_yscale("symlog", linthresh=1.0)
    elif case != "origin":
        corners = ends[ConvexHull(ends).vertices]
        ax.fill(*corners.T, facecolor="none", edgecolor=frames.GREY, linestyle="--")
    ax.plot(ends[:, 0], ends[:, 1], "o", color=frames.ORANGE, markersize=4, zorder=3)
    ax.set_title(_TITLES[case], fontsize=frames.NORMAL)
    ax.tick_params(labelsize=frames.SMALL)
    ax.set_aspect("auto" if case == "hyperplanes" else "equal", adjustable="datalim")


_MOST_COLUMNS = 3
_WIDTH, _HEIGHT = 2.4, 2.1


def phase_diagram(ds: Any) -> Figure:
    """P(<x_i(t), x_j(t)> >= 1 - δ) over t and β, with the curve t*(β) of (6.12).

    Parameters
    ----------
    ds : xarray.Dataset or sequence of them
        Of `studies.phase_diagram`; a panel each, on axes of their own.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If one is no such dataset, or there is none.
    """
    given = list(ds) if isinstance(ds, Sequence) else [ds]
    if not given:
        raise ValueError(
            f"ds must be at least one Dataset of studies.phase_diagram, got {shown(ds)}"
        )
    for one in given:
        frames.check_dataset(one, "phase_diagram", ("probability", "arrival", "t", "beta", "dim"))
        for name in "t", "beta":
            if one.sizes[name] < 2:
                raise ValueError(
                    f"ds must have at least 2 values of {name}, got {one[name].values}"
                )
    figure, axes = frames.new_panels(len(given), _MOST_COLUMNS, (_WIDTH, _HEIGHT), (1.0, 0.5))
    panels = list(axes.ravel())
    for ax, one in zip(panels, given, strict=False):
        mesh = _shares(ax, one)
    for ax in axes[:, 0]:
        ax.set_ylabel("β", fontsize=frames.NORMAL)
    # the lowest panel of each column, which may stand above an empty place
    for ax in panels[max(0, len(given) - axes.shape[1]) : len(given)]:
        ax.set_xlabel("time t", fontsize=frames.NORMAL)
    curve = next((line for ax in panels for line in ax.lines), None)
    if curve is not None:
        figure.legend(handles=[curve], loc="outside lower center", **frames.LEGEND)
    bar = figure.colorbar(mesh, ax=panels, shrink=0.8, pad=0.02, aspect=30)
    frames.finish_bar(bar, f"P(⟨x₁, x₂⟩ ≥ 1 − {given[0].attrs.get('delta', np.nan):g})")
    return frames.finish(figure, _common(given))


def _shares(ax: Axes, ds: Any) -> Any:
    times, betas = ds["t"].values, ds["beta"].values
    values = ds["probability"].transpose("beta", "t").values
    colour: dict[str, Any] = {"cmap": frames.COLOURS, "vmin": 0.0, "vmax": 1.0}
    mesh = ax.pcolormesh(times, betas, values, shading="nearest", rasterized=True, **colour)
    limits = ax.get_xlim()
    arrival = ds["arrival"].values
    if np.isfinite(arrival).any():
        ax.plot(arrival, betas, color=frames.SKY, linewidth=1.2, label="t*(β), (6.12)")
    ax.set_xlim(limits)
    ax.set_title(f"d = {int(ds['dim'])}", fontsize=frames.NORMAL)
    ax.tick_params(labelsize=frames.SMALL)
    ax.spines[:].set(linewidth=0.6, color=frames.GREY)
    return mesh


def _common(given: list[Any]) -> str:
    """What all panels have in common."""
    texts = []
    for name, text in (
        ("dynamics", "{}"),
        ("n", "n = {} uniform tokens"),
        ("repeats", "{} repeats"),
    ):
        values = {one.attrs.get(name) for one in given}
        if len(values) == 1 and None not in values:
            texts.append(text.format(values.pop()))
    return ", ".join(texts)


# a bound so many times larger than the errors is off the figure at once
_FAR = 1e3
# share of an axis that a line of a legend takes
_LINE = 0.075
_ERROR = "root mean square error"
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
    √n ∫ x d(mu_n - mu) at the last time, each axis in units of its deviation, are compared with
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
    needed = "rate", "fluctuation", "n", "t", "quantity"
    frames.check_dataset(ds, "mean_field_limit", needed, ("repeat",), ("name", "beta", "sign"))
    figure = frames.new_figure(10.5, 3.6)
    over_n, over_t, gaussian = figure.subplots(1, 3)
    _over_n(over_n, ds)
    _over_t(over_t, ds)
    _gaussian(gaussian, ds)
    for ax in over_n, over_t, gaussian:
        ax.tick_params(which="both", labelsize=frames.SMALL)
    about = frames.heading(ds.attrs["name"], ds.attrs["beta"], ds.attrs["sign"])
    title = f"{about}: tokens against the limit, {ds.sizes['repeat']} repeats"
    return frames.finish(figure, title)


def rms(errors: Any) -> Any:
    """Root mean square over the repeats, in units of the largest since squares may overflow."""
    unit = float(errors.max()) or 1.0
    return unit * np.sqrt(((errors / unit) ** 2).mean("repeat"))


def _over_n(ax: Axes, ds: Any) -> None:
    for colour, name in zip(frames.CYCLE, ds["quantity"].values, strict=False):
        last = {key: float(ds[key].sel(quantity=name)[-1]) for key in ("rate", "rate_lower")}
        half = abs(last["rate"] - last["rate_lower"])
        power = f"{last['rate']:.2f}" + (rf" \pm {half:.2f}" if np.isfinite(half) else "")
        label = _NAMES[str(name)] + (f": $n^{{{power}}}$" if np.isfinite(last["rate"]) else "")
        ax.loglog(ds["n"], rms(ds[name])[:, -1], "o-", color=colour, markersize=4, label=label)
    frames.label_axes(ax, "tokens n", _ERROR, f"errors at t = {float(ds['t'][-1]):.4g}")
    _room_below(ax, _LINE * ds.sizes["quantity"])
    ax.legend(**frames.LEGEND, loc="lower left")


def _room_below(ax: Axes, share: float) -> None:
    """Extend a logarithmic axis downwards, so that a legend has this share of its height."""
    low, high = ax.get_ylim()
    ax.set_ylim(low * (low / high) ** (share / (1.0 - share)), high)


def _over_t(ax: Axes, ds: Any) -> None:
    name = "w1" if "w1" in ds else str(ds["quantity"].values[0])
    errors, t = rms(ds[name]).values, ds["t"].values
    shades = np.linspace(0.75, 0.0, len(errors))
    for n, row, shade in zip(ds["n"].values, errors, shades, strict=True):
        ax.semilogy(t, row, "o-", color=str(shade), markersize=3, label=f"n = {n}")
    # a bound that ends near enough to the errors to be seen with them
    if "dobrushin" in ds and float(ds["dobrushin"].max()) <= _FAR * float(errors.max()):
        constant = ds.attrs["dobrushin_constant"]
        fine = np.linspace(t[0], t[-1], 200)
        bounds = np.outer(np.exp(constant * (fine - t[0])), errors[:, 0])
        lines = ax.semilogy(fine, bounds, "--", color=frames.GREY, linewidth=0.8)
        lines[0].set_label(f"$e^{{Ct}}$, C = {constant:.4g}")
    _room_below(ax, _LINE * (len(errors) + 2) / 2)
    frames.label_axes(ax, "time t", _ERROR, f"{_NAMES[name]} over time")
    ax.legend(**frames.LEGEND, ncols=2, loc="lower left")


def _gaussian(ax: Axes, ds: Any) -> None:
    last = ds["fluctuation"].values[:, :, -1]
    repeats = last.shape[1]
    quantiles = ndtri((np.arange(repeats) + 0.5) / repeats)
    for axis in range(min(last.shape[2], len(frames.CYCLE))):
        values = last[-1, :, axis]
        deviation = values.std() or 1.0
        label = f"axis {axis + 1}, p = {float(ds['normal_p'][-1, axis]):.2f}"
        kind: dict[str, Any] = {"color": frames.CYCLE[axis], "markersize": 3, "label": label}
        ax.plot(quantiles, np.sort(values) / deviation, "o", **kind)
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
    figure.legend(handles, names, loc="outside lower center", ncols=6, **frames.LEGEND)
    title = "USA, β = {beta:g}: two of n = {n} tokens, {repeats} repeats"
    return frames.finish(figure, title.format(**ds.attrs), axes.ravel())


def _draw_mode(ax: Axes, one: Any) -> None:
    t = one["t"].values
    values, errors = one["correlation"].values, _BARS * one["standard_error"].values
    thin = slice(None, None, -(-len(t) // _DOTS))
    kind: dict[str, Any] = {"fmt": ".", "color": "black", "markersize": 3, "linewidth": 0.7}
    ax.errorbar(t[thin], values[thin], errors[thin], label="tokens", **kind)
    top = float((values + errors).max())
    ax.set_ylim(min(float((values - errors).min()), -0.02 * top), 1.2 * top)
    ax.plot(t, one["linear"].values, ":", color=frames.GREY, linewidth=1.0, label="linear stage")
    for name, (colour, style) in _STYLES.items():
        line, first = one["closed"].sel(closure=name), float(one["mode_breaks"].sel(closure=name))
        ax.plot(t, line.values, style, color=colour, linewidth=1.2, label=name)
        if np.isfinite(first) and np.isfinite(line.sel(t=first)):
            place = float(line.sel(t=first))
            ax.plot(first, place, "o", color=colour, markersize=4.5, mfc="white", zorder=4)
    ax.plot(
        [], [], "o", color=frames.GREY, markersize=4.5, mfc="white", label="is off from here on"
    )
    frames.label_axes(ax, "time t", title=f"k = {int(one['degree'])}")


def _instants(ds: Any) -> list[int]:
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


def _draw_psi(ax: Axes, one: Any, remark: str) -> None:
    middles, heights = one["bin"].values, one["histogram"].values
    left = middles - 0.5 * float(middles[1] - middles[0])
    ax.stairs(heights, np.append(left, np.pi), fill=True, color="0.85", label="tokens")
    errors = _BARS * one["histogram_error"].values
    ax.errorbar(middles, heights, errors, fmt="none", ecolor="black", elinewidth=0.5)
    for name, (colour, style) in _STYLES.items():
        psi = one["psi"].sel(closure=name).values
        ax.plot(one["x"].values, psi, style, color=colour, linewidth=1.2)
    ax.axhline(0.0, color="black", linewidth=0.5)
    top = 1.6 * float(heights.max())
    lowest = float(np.nanmin(np.append(one["psi"].values, 0.0)))
    ax.set_ylim(1.1 * lowest, top)
    ax.set_xlim(0.0, np.pi)
    frames.quarter_ticks(ax, 3)
    frames.label_axes(ax, "x = θ₂ − θ₁", title=f"t = {float(one['t']):.3g}{remark}")
