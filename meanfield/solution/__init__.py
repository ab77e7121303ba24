"""Solutions: what a run leaves, and its file."""

from meanfield.solution.arrays import RESERVED, SIZE_NAME
from meanfield.solution.loading import load
from meanfield.solution.netcdf import MissingFileError, remove_leftovers
from meanfield.solution.result import Ending, Solution, versions
from meanfield.solution.resumption import Resumption

__all__ = [
    "RESERVED",
    "SIZE_NAME",
    "Ending",
    "MissingFileError",
    "Resumption",
    "Solution",
    "load",
    "remove_leftovers",
    "versions",
]
