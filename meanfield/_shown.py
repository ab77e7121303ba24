"""How notebooks show objects: tables, and the door to the drawing of measures and runs.

No room that computes imports `plot`: the package's `__init__` sets `Shown._plot`, which imports it,
and matplotlib with it, when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from meanfield._checks import cut
from meanfield.typing import Listed

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes


def table(title: str, rows: Mapping[str, str]) -> str:
    """Names and texts as an HTML table, in which every text is escaped."""
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows.items()
    )
    return (
        '<table style="margin:0"><caption style="caption-side:top;text-align:left;'
        f'font-weight:bold">{escape(title)}</caption>{lines}</table>'
    )


class ShownFields(Listed):
    """A dataclass that notebooks show as a table of its fields."""

    def _repr_html_(self) -> str:
        names = getattr(self, "__dataclass_fields__", ())
        with np.printoptions(precision=4, threshold=9, edgeitems=2):
            texts = {name: " ".join(str(getattr(self, name)).split()) for name in names}
        return table(type(self).__name__, {name: cut(text) for name, text in texts.items()})


class Shown(Listed):
    """An object that a notebook shows as a card: its numbers and a small picture."""

    _plot: ClassVar[Callable[[], ModuleType]]

    def _repr_html_(self) -> str:
        html: str = Shown._plot().runs.card(self)
        return html


class ShownMeasure(Shown):
    """A measure that draws itself."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measure, see `plot.density`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes of projection 'mollweide' on S^2 and 'polar' on the circle; made on a new figure,
            `ax.figure`, if omitted.

        Returns
        -------
        matplotlib Axes
            `ax`, if given.

        Raises
        ------
        ValueError
            If `ax` is no Axes of this projection.

        Examples
        --------
        >>> import meanfield as mf
        >>> mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])).plot().name
        'polar'
        """
        axes: Axes = Shown._plot().density(self, ax)
        return axes


class ShownRun(Shown):
    """A run that draws its numbers and moves its measure."""

    def plot(self, name: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a number of the run over t; `plot.solution` draws the whole run.

        Parameters
        ----------
        name : str, optional
            'energy' (with its bounds), 'dissipation', 'nodes', 'resolution', 'distances' or 'beta'
            (where it varies), or any variable of `dataset` over t. By default the first of these
            that the run has: 'dissipation' shows the speed of a run without an energy.
        ax : matplotlib Axes, optional
            Made on a new figure, `ax.figure`, if omitted.

        Returns
        -------
        matplotlib Axes
            `ax`, if given.

        Raises
        ------
        ValueError
            If the run has no such number, or `ax` is no Axes.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
        >>> mf.evolve(mu, mf.SA(1.0), 1.0).plot("mass").get_title(loc="left")
        'mass'
        """
        axes: Axes = Shown._plot().curves.curve(self, name, ax)
        return axes

    def animate(
        self, ax: Axes | None = None, *, frames: int | None = None, fps: float = 10.0
    ) -> FuncAnimation:
        """Move the measure through the saved times, see `plot.animation`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            To draw the measure on, cleared at each frame; without it a new figure shows the energy,
            too.
        frames : int, optional
            The number of saves that it shows; all, up to 500, if omitted.
        fps : float
            Frames a second.

        Returns
        -------
        matplotlib.animation.FuncAnimation

        Raises
        ------
        ValueError
            If an argument is out of range, or `ax` not of the measures' projection.
        """
        moving: FuncAnimation = Shown._plot().animation(self, ax, frames=frames, fps=fps)
        return moving
