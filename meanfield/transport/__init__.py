"""Distances between measures: a distance is between two measures, and never runs."""

from meanfield.transport.bracket import Bracket
from meanfield.transport.distance import wasserstein
from meanfield.transport.monitors import DistanceTo
from meanfield.transport.plans import transport_map, transport_plan
from meanfield.transport.sliced import SlicedDistance, sliced_wasserstein

__all__ = [
    "Bracket",
    "DistanceTo",
    "SlicedDistance",
    "sliced_wasserstein",
    "transport_map",
    "transport_plan",
    "wasserstein",
]
