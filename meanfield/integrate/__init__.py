"""Time integration: steps with monitors, saves and refinement between them."""

from meanfield.integrate.batch import evolve_batch
from meanfield.integrate.evolution import evolve, solve
from meanfield.integrate.only_writers import FileInUseError
from meanfield.integrate.resuming import loaded, resume, resume_from

__all__ = [
    "FileInUseError",
    "evolve",
    "evolve_batch",
    "loaded",
    "resume",
    "resume_from",
    "solve",
]
