"""A figure of the page as plotly reads it: traces, layout, and what changes from time to time."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.typing import Array, ArrayLike

# a trace, an axis or a layout: keywords of plotly, which has no types for them
Part = dict[str, Any]
# a frame has, for the number of each trace that changes, its properties at one time
Frame = dict[int, Part]

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
    data: list[Part]
    layout: Part
    frames: list[Frame] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind beside the measure: it is tall by a long legend, or as a picture that moves."""
        is_tall = self.frames or self.layout.get("legend", {}).get("orientation") == "v"
        return "tall curve" if is_tall else "curve"

    def as_read(self) -> Part:
        """The view as the program of the page reads it."""
        return {name: getattr(self, name) for name in ("name", "data", "layout", "frames")}


def packed(values: ArrayLike, kind: str = "f4") -> dict[str, str]:
    """Numbers as plotly reads them in binary, base64; with their shape where it is no vector.

    Examples
    --------
    >>> packed([1.0, 2.0])
    {'dtype': 'f4', 'bdata': 'AACAPwAAAEA='}
    """
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    payload = {"dtype": kind, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        payload["shape"] = ", ".join(map(str, array.shape))
    return payload


def places(points: Array) -> Part:
    """x, y and z of points, whose last axis they are."""
    return {name: packed(points[..., i]) for i, name in enumerate("xyz")}


def weight(frame: Frame) -> int:
    """Characters that the arrays of a frame take in the page."""
    arrays = (array for trace in frame.values() for array in trace.values())
    return sum(len(array["bdata"]) for array in arrays if "bdata" in array)


def base_layout(**further: object) -> Part:
    """The layout that the figures of the page share."""
    return {
        "font": FONT,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        # a finger on the figure scrolls the page
        "dragmode": False,
        "margin": {"l": 60, "r": 16, "t": 34, "b": 44},
        "showlegend": False,
        **further,
    }


def heading(text: str) -> Part:
    """A title above the left end of a figure beside the measure."""
    return {"text": text, "x": 0.02, "y": 0.97, "yanchor": "top", "font": {"size": 13}}


# an axis of 200 pixels has at most so many numbers
_MOST_TICKS = 6


def log_axis(low: float, high: float) -> Part:
    """A logarithmic axis: powers of ten with room for each, or 1, 2, 5 where there are few."""
    ends = np.log10([low, high])
    powers = np.arange(np.ceil(ends[0] - 1e-9), np.floor(ends[1] + 1e-9) + 1.0)
    if len(powers) > 2:
        ticks_kept = powers[:: -(-len(powers) // _MOST_TICKS)]
        ticks, names = 10.0**ticks_kept, [f"10<sup>{power:.0f}</sup>" for power in ticks_kept]
    else:
        ticks = np.outer(10.0 ** np.arange(np.floor(ends[0]), ends[1] + 1.0), [1.0, 2.0, 5.0])
        ticks = ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]
        names = [f"{tick:g}" for tick in ticks]
    marks = {"tickvals": ticks.tolist(), "ticktext": names}
    return {"type": "log", "range": ends.tolist(), **marks}


def axis(title: str, **further: object) -> Part:
    """An axis with thin lines, a title and no more."""
    look = {"zeroline": False, "gridcolor": "#ddd", "linecolor": LINE, "showline": True}
    return {"title": {"text": title}, "ticks": "outside", "tickcolor": LINE, **look, **further}
