"""Solutions: what a run leaves, and its file."""

from meanfield.solution.netcdf import MissingFileError
from meanfield.solution.result import Ending, Solution, load

__all__ = ["Ending", "MissingFileError", "Solution", "load"]
