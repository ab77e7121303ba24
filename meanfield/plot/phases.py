"""Phase diagrams: the share of pairs that have met, over t and β, one panel a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield._checks import shown
from meanfield.plot.frames import COLOURS, GREY, NORMAL, SMALL, new_figure

_NEEDED = "probability", "arrival", "t", "beta", "dim"
_CURVE = "#56b4e9"
_COLUMNS = 3
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
        _check(one)
    columns = min(_COLUMNS, len(given))
    rows = -(-len(given) // columns)
    figure = new_figure(_WIDTH * columns + 1.0, _HEIGHT * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False)
    panels = list(axes.ravel())
    for ax, one in zip(panels, given, strict=False):
        mesh = _panel(ax, one)
    for ax in panels[len(given) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("β", fontsize=NORMAL)
    # the lowest panel of each column, which may stand above an empty place
    for ax in panels[max(0, len(given) - columns) : len(given)]:
        ax.set_xlabel("time t", fontsize=NORMAL)
    curve = next((line for ax in panels for line in ax.lines), None)
    if curve is not None:
        figure.legend(handles=[curve], loc="outside lower center", fontsize=SMALL, frameon=False)
    bar = figure.colorbar(mesh, ax=panels, shrink=0.8, pad=0.02, aspect=30)
    first = given[0].attrs
    bar.set_label(f"P(⟨x₁, x₂⟩ ≥ 1 − {first.get('delta', np.nan):g})", fontsize=NORMAL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.6)
    figure.suptitle(_title(given), fontsize=NORMAL + 1)
    return figure


def _check(ds: Any) -> None:
    if not hasattr(ds, "data_vars"):
        raise ValueError(f"ds must be a Dataset of studies.phase_diagram, got {shown(ds)}")
    missing = [name for name in _NEEDED if name not in ds]
    if missing:
        raise ValueError(
            f"ds must be a Dataset of studies.phase_diagram with {shown(missing)}, got {shown(ds)}"
        )
    for name in "t", "beta":
        if ds.sizes[name] < 2:
            raise ValueError(f"ds must have at least 2 values of {name}, got {ds[name].values}")


def _panel(ax: Axes, ds: Any) -> Any:
    times, betas = ds["t"].values, ds["beta"].values
    values = ds["probability"].transpose("beta", "t").values
    mesh = ax.pcolormesh(
        times, betas, values, cmap=COLOURS, vmin=0.0, vmax=1.0, shading="nearest", rasterized=True
    )
    limits = ax.get_xlim()
    arrival = ds["arrival"].values
    if np.isfinite(arrival).any():
        ax.plot(arrival, betas, color=_CURVE, linewidth=1.2, label="t*(β), (6.12)")
    ax.set_xlim(limits)
    ax.set_title(f"d = {int(ds['dim'])}", fontsize=NORMAL)
    ax.tick_params(labelsize=SMALL)
    for spine in ax.spines.values():
        spine.set(linewidth=0.6, color=GREY)
    return mesh


def _title(given: list[Any]) -> str:
    """What all panels have in common."""
    texts = []
    for name, text in (
        ("dynamics", "{}"),
        ("n", "n = {} uniform tokens"),
        ("realisations", "{} realisations"),
    ):
        values = {one.attrs.get(name) for one in given}
        if len(values) == 1 and None not in values:
            texts.append(text.format(values.pop()))
    return ", ".join(texts)
