"""Solutions: what a run leaves, and its file."""

from meanfield.solution.arrays import RESERVED, SIZE_NAME
from meanfield.solution.flows import ForgottenLaw
from meanfield.solution.loading import load
from meanfield.solution.moved_by import PREFIX as _OF_DYNAMICS
from meanfield.solution.netcdf import (
    MissingFileError,
    check_suffix,
    file_path,
    first_line,
    memory_of_machine,
)
from meanfield.solution.result import Ending, Solution, other_versions, versions
from meanfield.solution.resumption import PREFIX as _OF_RESUMPTION
from meanfield.solution.resumption import Resumption

# of variables that a file needs for itself
PREFIXES = (_OF_DYNAMICS, _OF_RESUMPTION)

__all__ = [
    "PREFIXES",
    "RESERVED",
    "SIZE_NAME",
    "Ending",
    "ForgottenLaw",
    "MissingFileError",
    "Resumption",
    "Solution",
    "check_suffix",
    "file_path",
    "first_line",
    "load",
    "memory_of_machine",
    "other_versions",
    "versions",
]
