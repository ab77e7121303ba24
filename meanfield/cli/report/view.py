"""A figure of the page as plotly reads it: traces, layout, and what changes from time to time."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.typing import Array, ArrayLike

# of one time: the properties of some traces, by the number of the trace
Frame = dict[int, dict[str, Any]]

FONT = {"family": "system-ui, sans-serif", "size": 12, "color": "#222"}
LINE = "#737373"


@dataclass(frozen=True)
class View:
    """A figure, and what it shows at the times of the slider.

    Attributes
    ----------
    name : str
        Of its place in the page.
    title : str
        What it shows, in plain text.
    t : ndarray
        The times of its numbers.
    numbers : dict of ndarray
        What its curves are made of, or what is known of the measures: columns over t.
    data, layout
        As plotly wants them.
    frames : list of dict
        For each of the slider's times, properties of traces by their number; empty for curves
        over t, on which a line marks the time.
    notes : tuple of str
        What of the measure is not shown.
    """

    name: str
    title: str
    t: Array
    numbers: dict[str, Array]
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    frames: list[Frame] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def as_read(self) -> dict[str, Any]:
        """What the program of the page reads."""
        return {name: getattr(self, name) for name in ("name", "data", "layout", "frames")}


def packed(values: ArrayLike, kind: str = "f4") -> dict[str, str]:
    """Numbers as plotly reads them in binary, base64; with their shape where it is no vector.

    Examples
    --------
    >>> packed([1.0, 2.0])
    {'dtype': 'f4', 'bdata': 'AACAPwAAAEA='}
    """
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    found = {"dtype": kind, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        found["shape"] = ", ".join(map(str, array.shape))
    return found


def places(points: Array) -> dict[str, Any]:
    """x, y and z of points, whose last axis they are."""
    return {name: packed(points[..., i]) for i, name in enumerate("xyz")}


def weight(frame: Frame) -> int:
    """Characters that the arrays of a frame take in the page."""
    arrays = (array for trace in frame.values() for array in trace.values())
    return sum(len(array["bdata"]) for array in arrays if "bdata" in array)


def base_layout(**further: Any) -> dict[str, Any]:
    """What the figures of the page have in common."""
    return {
        "font": FONT,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        # a finger that moves over it moves the page
        "dragmode": False,
        "margin": {"l": 60, "r": 16, "t": 34, "b": 44},
        "showlegend": False,
        **further,
    }


def axis(title: str, **further: Any) -> dict[str, Any]:
    """An axis with thin lines, a title and no more."""
    look = {"zeroline": False, "gridcolor": "#ddd", "linecolor": LINE, "showline": True}
    return {"title": {"text": title}, "ticks": "outside", "tickcolor": LINE, **look, **further}
