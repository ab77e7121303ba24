"""Distances over t that a run was asked to monitor, with the bounds that are known of them."""

from __future__ import annotations

import re

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from meanfield.integrate.records import LOWER, UPPER
from meanfield.plot.curves import check, panel
from meanfield.plot.frames import BLUE, ORANGE, SMALL
from meanfield.solution import Solution

_NAME = re.compile(r"w(\d|_|$)")
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
    'distance to uniform'
    """
    check(sol)
    names = monitored(sol)
    if not names:
        raise ValueError(f"sol must have monitors named w…, got {list(sol.dataset.data_vars)}")
    ax = panel(sol, ax, _title(sol, names))
    lowest, highest = np.inf, 0.0
    for number, name in enumerate(names):
        values = sol.dataset[name].values
        known = np.isfinite(values)
        colour = _COLOURS[number % len(_COLOURS)]
        line = _LINES[number % len(_LINES)]
        t, values = sol.t[known], values[known]
        alone = "o" if len(t) == 1 else ""
        ax.plot(t, values, line + alone, color=colour, linewidth=1.4, markersize=4, label=name)
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
    bounds = {f"{name}{end}" for name in names for end in (LOWER, UPPER)}
    over_t = [name for name in names if sol.dataset[name].dims == ("t",)]
    return [name for name in over_t if _NAME.match(name) and name not in bounds]


def _title(sol: Solution, names: list[str]) -> str:
    """The measure that all are distances to, if it is one."""
    targets = {str(sol.dataset[name].attrs.get("long_name", "")) for name in names}
    targets = {text.partition(" to ")[2] for text in targets}
    target = targets.pop() if len(targets) == 1 else ""
    return f"distance to {target}" if target in ("uniform", "centre", "start") else "distances"
