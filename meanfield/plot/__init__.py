"""Figures of measures and runs; the only door to matplotlib. Figures are returned, never shown."""

from meanfield.plot.panels import density
from meanfield.plot.runs import energy, resolution, save, solution

__all__ = ["density", "energy", "resolution", "save", "solution"]
