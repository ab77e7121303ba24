"""Measures: what answers G(z) = ∫ e^{<z,y>} dmu(y) and its gradient.

docs/decisions/measures.md says why its files are as they are.
"""

from __future__ import annotations

from meanfield._checks import check_measure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FlowMap
from meanfield.measures.line_flow_map import LineFlowMap
from meanfield.measures.measure import check_pair
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Oscillators, Particles
from meanfield.measures.sphere_flow_map import SphereFlowMap

AnyMeasure = Density | FlowMap | Particles
