"""Measures that are stored as the image of a law under a flow."""

from meanfield.measures.flow.base import FlowMap
from meanfield.measures.flow.line import LineFlowMap

FlowMap.forms = (LineFlowMap,)

__all__ = ["FlowMap", "LineFlowMap"]
