"""Time integration: steps with monitors, saves and refinement between them."""

from meanfield.integrate.batch import evolve_batch
from meanfield.integrate.evolution import evolve

__all__ = ["evolve", "evolve_batch"]
