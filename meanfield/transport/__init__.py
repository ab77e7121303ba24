"""Distances between measures: a distance is between two measures, and never runs."""

from meanfield.transport.bracket import Bracket
from meanfield.transport.distance import wasserstein

__all__ = ["Bracket", "wasserstein"]
