"""Solutions: what a run leaves, and its file."""

from meanfield.solution import moved_by, resumption
from meanfield.solution.arrays import RESERVED, SIZE_NAME
from meanfield.solution.loading import load
from meanfield.solution.netcdf import MissingFileError, remove_leftovers
from meanfield.solution.result import Ending, Solution
from meanfield.solution.resumption import Resumption

# of variables that a file needs for itself
PREFIXES = (moved_by.PREFIX, resumption.PREFIX)

__all__ = [
    "PREFIXES",
    "RESERVED",
    "SIZE_NAME",
    "Ending",
    "MissingFileError",
    "Resumption",
    "Solution",
    "load",
    "remove_leftovers",
]
