"""Solutions read back from their files."""

from __future__ import annotations

import os

import numpy as np
import xarray as xr

from meanfield.arguments import shown
from meanfield.solution import arrays, moved_by, netcdf
from meanfield.solution import resumption as resumptions
from meanfield.solution.checks import check_numbers, checksum
from meanfield.solution.moved_by import attribute
from meanfield.solution.result import FORMAT, FORMAT_VERSION, Ending, Solution, versions_of


def load(path: str | os.PathLike[str]) -> Solution:
    """Read the solution that `Solution.save` wrote.

    A seal at the end of the file tells damage before HDF5 opens it. Nothing in the file is
    executed. A file whose seal was forged, or left out, is read as HDF5 reads it: load it only if
    you trust whoever wrote it.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        If the file is missing (then it is a FileNotFoundError too), not NetCDF-4, no solution, of
        a later version, cut short, damaged or inconsistent.

    Examples
    --------
    >>> load("no-such-run.nc")
    Traceback (most recent call last):
        ...
    meanfield.solution.netcdf.MissingFileError: there is no file no-such-run.nc
    """
    source = netcdf.file_path(path)
    with netcdf.refusals(source):
        return _from_file(netcdf.read(source, FORMAT, FORMAT_VERSION))


def _from_file(stored: xr.Dataset) -> Solution:
    about = stored.attrs
    dynamics = moved_by.dynamics(stored)
    check_numbers(stored)
    measures, used = arrays.measures(stored)
    solution = Solution(
        t=arrays.array(stored, "t", ("t",)),
        measures=measures,
        dynamics=dynamics,
        ending=_ending(attribute(about, "status", str)),
        message=attribute(about, "message", str),
        dataset=stored.drop_vars(
            [*used, *moved_by.variable_names(stored), *resumptions.names(stored)]
        ),
        case=attribute(about, "case", str),
        history=arrays.history(stored),
        resumption=resumptions.resumption(stored),
        versions=versions_of(about),
    )
    found = checksum(stored)
    if about.get("checksum") != found:
        raise ValueError(
            f"it was damaged or changed: its checksum must be {found:.8}…, got "
            f"{about.get('checksum')!s:.8}…"
        )
    ours = {*solution._attributes(), "checksum"}
    solution.dataset.attrs = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in about.items()
        if name not in ours
    }
    return solution


def _ending(status: str) -> Ending:
    if status not in list(Ending):
        allowed = ", ".join(Ending)
        raise ValueError(f"attribute status must be one of {allowed}, got {shown(status)}")
    return Ending(status)
