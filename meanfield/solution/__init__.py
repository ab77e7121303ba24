"""Solutions: what a run leaves, and its file."""

from meanfield.solution.arrays import RESERVED, SIZE_NAME
from meanfield.solution.loading import load
from meanfield.solution.netcdf import MissingFileError
from meanfield.solution.result import Ending, Solution

__all__ = ["RESERVED", "SIZE_NAME", "Ending", "MissingFileError", "Solution", "load"]
