"""Measures: what answers G(z) = ∫ e^{<z,y>} dmu(y) and its gradient."""

from meanfield.measures.density import Density, OscillatorDensity
from meanfield.measures.flow import FlowMap, LineFlowMap, SphereFlowMap
from meanfield.measures.particles import Oscillators, Particles

AnyMeasure = Density | FlowMap | Particles

__all__ = [
    "AnyMeasure",
    "Density",
    "FlowMap",
    "LineFlowMap",
    "OscillatorDensity",
    "Oscillators",
    "Particles",
    "SphereFlowMap",
]
