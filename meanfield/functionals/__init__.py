"""Numbers of one instant: energy and dissipation of a measure, distances of two."""

from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import dissipation, energy

__all__ = ["dissipation", "energy", "mmd", "sobolev"]
