"""d/dt of a measure's state under a dynamics: where data and physics meet, the one inner loop."""

from __future__ import annotations

from meanfield.dynamics import Dynamics
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles
from meanfield.tendency.density import DensityTendency
from meanfield.tendency.flow import FlowTendency, LineField
from meanfield.tendency.particles import ParticleTendency
from meanfield.tendency.sphere_field import SphereField

__all__ = [
    "SphereField",
    "DensityTendency",
    "FlowTendency",
    "LineField",
    "ParticleTendency",
    "Tendency",
    "tendency",
]

Tendency = DensityTendency | ParticleTendency | FlowTendency


def tendency(measure: AnyMeasure, dynamics: Dynamics) -> Tendency:
    """The right-hand side f(state, out) that moves this kind of measure under the dynamics."""
    if isinstance(measure, Particles):
        return ParticleTendency(measure, dynamics)
    if isinstance(measure, LineFlowMap):
        return FlowTendency(measure, dynamics)
    if isinstance(measure, Density):
        return DensityTendency(measure, dynamics)
    raise ValueError(f"measure must be a Density, FlowMap or Particles, got {measure!r}")
