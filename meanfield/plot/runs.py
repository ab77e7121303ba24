"""A whole run: its measure at several times, its energy between the bounds, its resolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from meanfield.arguments import integer
from meanfield.harmonics import eigenvalues, scaled_eigenvalues
from meanfield.measures import Density
from meanfield.plot.panels import COLOUR, MAP, colour_scale, density, projection
from meanfield.solution import Solution

Array = NDArray[np.float64]

SUFFIXES = (".png", ".pdf", ".svg")
_ORANGE = "#d55e00"


def solution(sol: Solution, times: int = 4) -> Figure:
    """The measure at several times, over the energy with its bounds and the resolution.

    Parameters
    ----------
    sol : Solution
    times : int
        Number of measures, from the first to the last, at about equal steps of energy; >= 1.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `times` is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> len(solution(mf.evolve(mu, mf.SA(1.0), 1.0), times=3).axes)
    6
    """
    chosen = _instants(sol, integer("times", times, low=1, high=12))
    figure = Figure(figsize=(2.6 * max(len(chosen), 3), 5.4), layout="constrained")
    height = 0.8 if projection(sol.final) == "mollweide" else 1.0
    rows = np.asarray(figure.subfigures(2, 1, height_ratios=[height, 1.15]))
    upper, lower = rows.ravel()
    _draw_measures(upper, sol, chosen)
    left, right = lower.subplots(1, 2, width_ratios=[3, 2])
    energy(sol, left)
    for index in chosen:
        left.axvline(sol.t[index], color="0.8", linewidth=0.8, zorder=0)
    resolution(sol, right)
    return figure


def _draw_measures(figure: SubFigure, sol: Solution, chosen: list[int]) -> None:
    kind = projection(sol.final)
    axes = figure.subplots(1, len(chosen), subplot_kw={"projection": kind}, squeeze=False)[0]
    densities = [mu for mu in (sol.measures[i] for i in chosen) if isinstance(mu, Density)]
    norm = colour_scale(densities) if densities and kind == "mollweide" else None
    for ax, index in zip(axes, chosen, strict=True):
        density(sol.measures[index], ax, norm=norm)
        ax.set_title(f"t = {sol.t[index]:.4g}", fontsize=10)
    if norm is not None:
        bar = figure.colorbar(ScalarMappable(norm, MAP), ax=list(axes), shrink=0.6, pad=0.01)
        bar.set_label("density f")
    elif kind is None and densities:
        axes[0].set_ylabel("density f")


def energy(sol: Solution, ax: Axes | None = None) -> Axes:
    """The interaction energy over t between its bounds E(σ) and E(δ) (Proposition 3.4).

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes
    """
    if ax is None:
        ax = Figure(layout="constrained").add_subplot()
    low, high = _bounds(sol)
    values = sol.dataset["energy"].values
    ax.plot(sol.t, values, color=COLOUR, linewidth=1.8, marker="o", ms=2.5)
    place = sol.t[0] + 0.01 * (sol.t[-1] - sol.t[0])
    for level, name, side in ((low, "E(σ)", "top"), (high, "E(δ)", "bottom")):
        ax.axhline(level, color="0.35", linestyle="--", linewidth=0.9)
        ax.annotate(
            f"{name} = {level:.4g}",
            (place, level),
            xytext=(0, 2 if side == "bottom" else -2),
            textcoords="offset points",
            va=side,
            fontsize=8,
            color="0.25",
        )
    margin = 0.1 * (high - low)
    ax.set_ylim(low - margin, high + margin)
    unit = "" if sol.dataset.attrs.get("energy_unit", "1") == "1" else " (units of e^β)"
    ax.set_xlabel("t")
    ax.set_ylabel(f"energy E{unit}")
    ax.set_title(f"{sol.dynamics.name}, β = {sol.dynamics.beta:g}, {sol.status}", fontsize=10)
    return ax


def resolution(sol: Solution, ax: Axes | None = None) -> Axes:
    """The spectral tail over t and the size of the space; for tokens the dissipation.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes
    """
    if ax is None:
        ax = Figure(layout="constrained").add_subplot()
    ax.set_xlabel("t")
    ax.set_yscale("log")
    if "tail" not in sol.dataset:
        ax.plot(sol.t, np.maximum(sol.dataset["dissipation"].values, 1e-300), color=COLOUR)
        ax.set_ylabel("dissipation")
        return ax
    ax.plot(sol.t, np.maximum(sol.dataset["tail"].values, 1e-17), color=COLOUR, marker="o", ms=2.5)
    tolerance = sol.dataset.attrs.get("tail_tol")
    if tolerance is not None:
        ax.axhline(tolerance, color="0.35", linestyle="--", linewidth=0.9)
    ax.set_ylabel("spectral tail", color=COLOUR)
    sizes = ax.twinx()
    sizes.step(sol.t, sol.dataset["size"].values, where="post", color=_ORANGE, linewidth=1.4)
    sizes.set_ylim(0, None)
    sizes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    final = sol.final
    name = final.space.name if isinstance(final, Density) else ""
    symbol = {"circle": "n", "sphere": "lmax", "zonal": "kmax"}[name]
    sizes.set_ylabel(symbol, color=_ORANGE)
    ax.set_title(f"resolution: tail and {symbol}", fontsize=10)
    return ax


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path.

    Raises
    ------
    ValueError
        If the suffix is another.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"path must end in {', '.join(SUFFIXES)}, got {path}")
    figure.savefig(path, dpi=160)


def _bounds(sol: Solution) -> tuple[float, float]:
    beta, dim = sol.dynamics.beta, sol.final.dim
    if beta == 0.0:
        return 0.0, 0.5
    if sol.dataset.attrs.get("energy_unit", "1") != "1":
        return float(scaled_eigenvalues(beta, dim, 0)[0]) / (2 * beta), 1 / (2 * beta)
    return float(eigenvalues(beta, dim, 0)[0]) / (2 * beta), float(np.exp(beta)) / (2 * beta)


def _instants(sol: Solution, times: int) -> list[int]:
    """First and last save, and saves between at about equal steps of energy."""
    values = sol.dataset["energy"].values
    levels = np.linspace(values[0], values[-1], times)
    nearest = {int(np.argmin(np.abs(values - level))) for level in levels}
    return sorted(nearest | {0, len(values) - 1} if times > 1 else {len(values) - 1})
