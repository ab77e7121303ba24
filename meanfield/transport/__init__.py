"""Distances between measures: a distance is between two measures, and never runs."""

from meanfield.transport.bracket import Bracket
from meanfield.transport.distance import wasserstein
from meanfield.transport.monitors import DistanceTo

__all__ = ["Bracket", "DistanceTo", "wasserstein"]
