"""Panels of the scripts' figures, in the style of `meanfield.plot`."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from validation._inside import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure

# colours that colour-blind readers can tell apart (Okabe and Ito)
COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = "os^Dvx"
CLAIMED: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1.0}


def panels(columns: int, title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels under one title, and its panels row by row."""
    figure = new_figure(3.4 * columns + 0.4, 2.9 * rows + 0.4)
    figure.suptitle(title, fontsize=NORMAL + 1)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def label(ax: Axes, x: str, y: str, title: str = "") -> None:
    """Name the axes, and what is labelled on them, in one size."""
    ax.set_xlabel(x, fontsize=NORMAL)
    ax.set_ylabel(y, fontsize=NORMAL)
    ax.set_title(title, fontsize=NORMAL)
    ax.tick_params(which="both", labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=SMALL, frameon=False)


def sparse_ticks(ax: Axes) -> None:
    """Numbers at 1, 2 and 5 where a logarithmic axis spans little, at powers of ten elsewhere."""
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        if high < 200.0 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())
