"""Measures that are stored as the image of a law under a flow."""

from meanfield.measures.flow.base import FlowMap
from meanfield.measures.flow.line import LineFlowMap
from meanfield.measures.flow.sphere import SphereFlowMap

FlowMap.forms = (LineFlowMap, SphereFlowMap)

__all__ = ["FlowMap", "LineFlowMap", "SphereFlowMap"]
