"""Distances between measures: a distance is between two measures, and never runs."""

from __future__ import annotations

from meanfield.functionals.transport.bracket import Bracket
from meanfield.functionals.transport.distance import (
    SlicedDistance,
    sliced_wasserstein,
    transport_map,
    transport_plan,
    wasserstein,
)
from meanfield.functionals.transport.monitors import DistanceTo

__all__ = [
    "Bracket",
    "DistanceTo",
    "SlicedDistance",
    "sliced_wasserstein",
    "transport_map",
    "transport_plan",
    "wasserstein",
]
