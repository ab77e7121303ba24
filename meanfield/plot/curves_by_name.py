"""A number of a run over t, by its name."""

from __future__ import annotations

from matplotlib.axes import Axes

from meanfield.arguments import shown
from meanfield.plot.curves import check, dissipation, energy, node_count, panel, resolution
from meanfield.plot.frames import BLUE
from meanfield.plot.monitor_curves import distances
from meanfield.solution import Solution

_CURVES = {
    "energy": energy,
    "dissipation": dissipation,
    "resolution": resolution,
    "distances": distances,
    "nodes": node_count,
}


def curve(sol: Solution, name: str, ax: Axes | None = None) -> Axes:
    """The curve that has a picture of its own, else the variable of the dataset.

    Raises
    ------
    ValueError
        If the run has no such number, or `ax` is no Axes.
    """
    check(sol)
    drawn = _CURVES.get(name) if isinstance(name, str) else None
    if drawn is not None:
        return drawn(sol, ax)
    over_t = [str(each) for each in sol.dataset.data_vars if sol.dataset[each].dims == ("t",)]
    if not isinstance(name, str) or name not in over_t:
        allowed = sorted({*_CURVES, *over_t})
        raise ValueError(f"name must be one of {allowed}, got {shown(name)}")
    ax = panel(sol, ax, name)
    ax.plot(sol.t, sol.dataset[name].values, "-" if len(sol.t) > 1 else "o", color=BLUE)
    return ax
