"""Distances over t that a run was asked to monitor, with the bounds that are known of them."""

from __future__ import annotations

import re

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from meanfield.integrate.records import LOWER, PROVED, UPPER
from meanfield.plot.curves import check, panel
from meanfield.plot.frames import BLUE, ORANGE, SMALL
from meanfield.solution import Solution

_NAME = re.compile(r"w(\d|_|$)")
# what `DistanceTo` says that it measures
_WASSERSTEIN = re.compile(r"Wasserstein distance W_(\S+) to (.+)", re.DOTALL)
_TARGETS = {"uniform": "σ", "centre": "the mean", "start": "the start"}
_COLOURS = BLUE, ORANGE, "#009e73", "#cc79a7"
# curves that lie on each other still show
_LINES = "-", "--", "-.", ":"
# distances below are rounding, and no reason for a logarithmic scale
_ROUNDING = 1e-12


def distances(sol: Solution, ax: Axes | None = None) -> Axes:
    """The monitors of a run that are named w, w1, w_start and so on, over t.

    Where a monitor gave a bracket, a band reaches from its lower to its upper bound.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution or has no such monitors, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> from meanfield.transport import DistanceTo
    >>> mu, w1 = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])), DistanceTo("uniform")
    >>> distances(mf.evolve(mu, mf.SA(1.0), 1.0, monitors={"w1": w1})).get_title(loc="left")
    'distances in radians'
    """
    check(sol)
    names = monitored(sol)
    if not names:
        raise ValueError(f"sol must have monitors named w…, got {list(sol.dataset.data_vars)}")
    ax = panel(sol, ax, distances_title(sol, names))
    lowest, highest = np.inf, 0.0
    for number, name in enumerate(names):
        values = sol.dataset[name].values
        known = np.isfinite(values)
        colour = _COLOURS[number % len(_COLOURS)]
        line = _LINES[number % len(_LINES)]
        t, values = sol.t[known], values[known]
        alone = "o" if len(t) == 1 else ""
        label = _label(sol, name)
        ax.plot(t, values, line + alone, color=colour, linewidth=1.4, markersize=4, label=label)
        upper = values
        if f"{name}{LOWER}" in sol.dataset:
            low, upper = (sol.dataset[f"{name}{end}"].values[known] for end in (LOWER, UPPER))
            ax.fill_between(t, low, upper, color=colour, alpha=0.25, linewidth=0.0)
            upper = np.where(np.isfinite(upper), upper, values)
        lowest = min(lowest, float(values.min(initial=np.inf)))
        highest = max(highest, float(upper.max(initial=0.0)))
    if highest > 30.0 * lowest > 30.0 * _ROUNDING:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(0.0, 1.1 * highest or 1.0)
    ax.legend(fontsize=SMALL, frameon=False, handlelength=1.4)
    return ax


def monitored(sol: Solution) -> list[str]:
    """The variables of a run that are distances by their names, without their bounds."""
    names = [str(name) for name in sol.dataset.data_vars]
    bounds = {f"{name}{end}" for name in names for end in (LOWER, UPPER, PROVED)}
    over_t = [name for name in names if sol.dataset[name].dims == ("t",)]
    return [name for name in over_t if _NAME.match(name) and name not in bounds]


def distance_to(sol: Solution, name: str) -> tuple[str, str]:
    """p of a Wasserstein distance and what it is to, in a word; empty where neither is known."""
    found = _WASSERSTEIN.fullmatch(str(sol.dataset[name].attrs.get("long_name", "")))
    return (found[1], _TARGETS.get(found[2], "")) if found else ("", "")


def _label(sol: Solution, name: str) -> str:
    """W_p and the measure that it is to; the monitor's own name where that is no single word."""
    p, target = distance_to(sol, name)
    return f"$W_{{{p}}}$ to {target}" if target else name


def distances_title(sol: Solution, names: list[str]) -> str:
    """Whether all are angles: Wasserstein distances are."""
    are_angles = all(distance_to(sol, name)[0] for name in names)
    return "distances in radians" if are_angles else "distances"
