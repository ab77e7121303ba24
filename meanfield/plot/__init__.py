"""Figures of measures and runs; the only door to matplotlib. Figures are returned, never shown."""

from meanfield.plot.curves import dissipation, energy, resolution
from meanfield.plot.panels import density
from meanfield.plot.runs import save, solution

__all__ = ["density", "dissipation", "energy", "resolution", "save", "solution"]
