"""What the panels of a figure share: projection, scale of densities, and the plane of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import Normalize
from numpy.typing import NDArray
from scipy.linalg import eigh

from meanfield.geometry import circle_angles
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, Particles, SphereFlowMap
from meanfield.plot import flow_panels
from meanfield.plot.frames import law_of_angle, scale_of
from meanfield.spaces import Zonal

Array = NDArray[np.float64]

# of the histogram of tokens on the circle
BINS = 90


@dataclass(frozen=True)
class Look:
    """What panels share: the scale of densities, the plane tokens are seen in, the resolution."""

    scale: Normalize
    plane: Array
    is_fine: bool = True


def projection(measure: AnyMeasure) -> str:
    """The matplotlib projection of the panel of a measure."""
    if measure.axis is not None:
        return "rectilinear"
    return {2: "polar", 3: "mollweide"}.get(measure.dim, "rectilinear")


def is_coloured(measure: AnyMeasure) -> bool:
    """Whether the panel of a measure is a map in the colours of its density."""
    return projection(measure) == "mollweide" and not isinstance(measure, Particles)


def look(measures: Sequence[AnyMeasure]) -> Look:
    """One scale and one plane for several measures."""
    lowest, highest = np.array([_extremes(measure) for measure in measures]).T
    last = measures[-1]
    plane: Array = np.eye(2, last.dim)
    if not isinstance(last, Density) and last.dim > 3:
        plane = _principal_plane(last.points, last.weights)
    return Look(scale_of(float(lowest.min()), float(highest.max())), plane)


def _principal_plane(points: Array, weights: Array) -> Array:
    """The two axes (2, d) of largest Σ_i w_i <x_i, axis>²."""
    basis = np.eye(points.shape[1])
    if 2 <= len(points) <= points.shape[1] // 2:
        # few tokens span less than the space
        basis = np.linalg.qr(points.T)[0]
    inside = points @ basis
    size = basis.shape[1]
    moments = (weights[:, None] * inside).T @ inside
    vectors = eigh(moments, subset_by_index=[size - 2, size - 1])[1]
    return np.asarray((basis @ vectors[:, ::-1]).T)


def _extremes(measure: AnyMeasure) -> tuple[float, float]:
    """Smallest and largest of the densities that are drawn."""
    if isinstance(measure, LineFlowMap):
        return flow_panels.extremes(measure)
    if isinstance(measure, SphereFlowMap):
        density = measure.density_at_nodes[: measure.n_nodes]
        return float(density.min()), max(1.0, float(density.max()))
    values = measure.values if isinstance(measure, Density) else histogram(measure)
    if isinstance(measure, Density) and isinstance(measure.space, Zonal):
        values = law_of_angle(values, measure.space.sines, measure.dim)
    return float(values.min()), float(values.max())


def histogram(measure: FlowMap | Particles) -> Array:
    """The density of tokens on the circle in equal bins; elsewhere the uniform one."""
    if measure.dim != 2:
        return np.ones(1)
    counts, _ = np.histogram(
        circle_angles(measure.points), BINS, (0.0, 2.0 * np.pi), weights=measure.weights
    )
    return np.asarray(counts * BINS)
