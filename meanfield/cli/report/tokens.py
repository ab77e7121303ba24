"""Tokens on the circle and in more than three dimensions: points on a disc, and a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meanfield.cli.report.view import LINE, Frame, View, axis, base_layout, packed
from meanfield.measures.particles import Particles
from meanfield.plot.frames import BLUE, thinned
from meanfield.plot.panels import look
from meanfield.spaces.geometry import circle_angles
from meanfield.typing import Array

MOST_TOKENS, MOST_PAIRED = 4000, 1000
_BINS = 80
_POINTS, _BARS = 1, 2


def tokens_view(measures: Sequence[Any]) -> View:
    """Points on the circle and the histogram of θ, or two principal axes and inner products."""
    last, plane = measures[-1], look(list(measures)).plane
    frames = [_frame(measure, plane) for measure in measures]
    around: Array = np.linspace(0.0, 2.0 * np.pi, 181)
    outline = {"x": packed(np.cos(around)), "y": packed(np.sin(around))}
    kept = thinned(len(last.weights), MOST_TOKENS)
    opacity = float(np.clip(200.0 / len(kept), 0.25, 0.8))
    sizes = np.maximum(7.0 * np.sqrt(last.weights[kept] / last.weights.max()), 1.5)
    marker = {"color": BLUE, "opacity": opacity, "size": packed(sizes)}
    bar = {"type": "bar", "marker": {"color": BLUE}, "xaxis": "x2", "yaxis": "y2"}
    line = {"color": LINE, "width": 1}
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip", **outline},
        {"type": "scatter", "mode": "markers", "marker": marker, "hoverinfo": "skip"},
        {**bar, "hovertemplate": "%{x:.3f}: %{y:.4g}<extra></extra>"},
    ]
    tallest = max(float(_histogram(measure)[1].max()) for measure in measures)
    return View("measure", data, _layout(last.dim, tallest), frames, _notes(last))


def _layout(dim: int, tallest: float) -> dict[str, Any]:
    name = "x₁", "x₂"
    if dim > 2:
        name = "1st principal axis", "2nd principal axis"
    bare: dict[str, Any] = {"showgrid": False, "showline": False, "ticks": "", "range": [-1.1, 1.1]}
    square = {**bare, "scaleanchor": "x", "scaleratio": 1, "showticklabels": False}
    bins, label = _bins(dim)
    # tall bars of a cluster would leave nothing to see of the rest
    logarithmic = tallest > 50.0
    of_y: dict[str, Any] = {"range": [0.0, 1.05 * tallest]}
    if logarithmic:
        of_y = {"type": "log", "range": [-3.0, float(np.log10(1.5 * tallest))]}
    return base_layout(
        xaxis=axis(name[0], domain=[0.0, 0.44], showticklabels=False, **bare),
        yaxis=axis(name[1], **square),
        xaxis2=axis(label, domain=[0.56, 1.0], anchor="y2", range=[bins[0], bins[-1]]),
        yaxis2=axis("density", anchor="x2", **of_y),
        bargap=0.0,
    )


def _bins(dim: int) -> tuple[Array, str]:
    if dim == 2:
        return np.linspace(0.0, 2.0 * np.pi, _BINS + 1), "angle θ"
    return np.linspace(-1.0, 1.0, _BINS + 1), "inner product ⟨xᵢ, xⱼ⟩, i ≠ j"


def _frame(measure: Particles, plane: Array) -> Frame:
    kept = thinned(len(measure.weights), MOST_TOKENS)
    x, y = plane @ measure.points[kept].T
    centres, heights = _histogram(measure)
    return {
        _POINTS: {"x": packed(x), "y": packed(y)},
        _BARS: {"x": packed(centres), "y": packed(heights)},
    }


def _histogram(measure: Particles) -> tuple[Array, Array]:
    """Density of θ with respect to σ by mass, or of the inner products of pairs of tokens."""
    bins, _ = _bins(measure.dim)
    centres = 0.5 * (bins[1:] + bins[:-1])
    if measure.dim == 2:
        counts, _ = np.histogram(circle_angles(measure.points), bins, weights=measure.weights)
        return centres, counts * _BINS
    points = measure.points[thinned(len(measure.weights), MOST_PAIRED)]
    products = (points @ points.T)[np.triu_indices(len(points), 1)]
    counts, _ = np.histogram(np.clip(products, -1.0, 1.0), bins)
    return centres, counts / max(len(products), 1) * _BINS / 2.0


def _notes(last: Particles) -> tuple[str, ...]:
    n, found = len(last.weights), []
    if n > MOST_TOKENS:
        found.append(f"{MOST_TOKENS} of {n} tokens are drawn.")
    if last.dim > 2:
        found.append("The principal axes are those of the last measure.")
        if n > MOST_PAIRED:
            found.append(f"Inner products are those of {MOST_PAIRED} of {n} tokens.")
    return tuple(found)
