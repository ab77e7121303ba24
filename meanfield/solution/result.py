"""What a run leaves: measures and numbers at the saved times, and how it ended."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import real_array
from meanfield.dynamics import SA, USA, Dynamics
from meanfield.measures import AnyMeasure
from meanfield.solution import arrays, netcdf

Array = NDArray[np.float64]

_FORMAT = "meanfield-solution"
_FORMAT_VERSION = 1
# the attributes that load makes something of
_READ = ("dynamics", "beta", "sign", "noise", "space", "axis", "status", "message", "case")
_DISTRIBUTIONS = {
    "meanfield": "meanfield-attention",
    "numpy": "numpy",
    "scipy": "scipy",
    "pyfftw": "pyfftw",
    "ducc0": "ducc0",
}


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    UNDER_RESOLVED = "under-resolved"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(repr=False, eq=False)
class Solution:
    """mu_t at the saved times t_0 < … < t_{m-1} of a run, and its numbers over t.

    Attributes
    ----------
    t : ndarray, shape (m,)
    measures : list of Density or of Particles, length m
    dynamics : SA or USA
    ending : Ending
    message : str
        What happened, at which t, with which number, what to try.
    dataset : xarray.Dataset
        energy, dissipation, work, mass and more over the dimension t.
    case : str
        The text of the case file, if any.

    Raises
    ------
    ValueError
        If t does not ascend, or t, measures and dataset differ in length.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    >>> mf.evolve(mu, mf.SA(beta=1.0), t_end=1.0)
    Solution(finished, SA(beta=1.0, sign=1, noise=0.0), 21 saves to t = 1, Density(...))
    """

    t: Array
    measures: list[AnyMeasure]
    dynamics: Dynamics
    ending: Ending
    message: str
    dataset: xr.Dataset
    case: str = ""

    def __post_init__(self) -> None:
        self.t = real_array("t", self.t, 1)
        if (np.diff(self.t) <= 0.0).any():
            raise ValueError(f"t must ascend, got {self.t[:8]}")
        lengths = len(self.t), len(self.measures), self.dataset.sizes.get("t")
        if len(set(lengths)) > 1:
            raise ValueError(f"t, measures and dataset must be of one length, got {lengths}")
        self.ending = Ending(self.ending)

    def __repr__(self) -> str:
        return (
            f"Solution({self.status}, {self.dynamics}, {len(self.t)} saves to t = {self.t[-1]:g}, "
            f"{self.final})"
        )

    @property
    def status(self) -> str:
        """The ending as a word: finished, under-resolved, failed or interrupted."""
        return self.ending.value

    @property
    def final(self) -> AnyMeasure:
        """The measure at the last saved time."""
        return self.measures[-1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF-4 file, which `load` reads back to the bit and any NetCDF tool opens.

        It is written beside and renamed, so what was at `path` is replaced as a whole or not at
        all. A density's law is not kept: a loaded density has the values of its series.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        OSError
            If it can't be written there; nothing is left behind.
        ValueError
            If `path` is no name, the measures are not of one kind, or the dataset holds what is
            no number, or a name that the file needs (coefficients, points, weights).
        """
        netcdf.write(self._to_file(), netcdf.file_path(path))

    def _to_file(self) -> xr.Dataset:
        own = arrays.variables(self.measures)
        clash = sorted(own.keys() & {str(name) for name in self.dataset.variables} - {"size"})
        if clash:
            raise ValueError(f"dataset must not have variables {clash}: rename them before saving")
        about = self.dataset["t"].attrs if "t" in self.dataset.coords else {"long_name": "time"}
        stored = self.dataset.assign_coords(t=("t", self.t, about)).assign(own)
        _check_numbers(stored)
        stored.attrs = self.dataset.attrs | self._attributes()
        return stored.assign_attrs(checksum=_checksum(stored))

    def _attributes(self) -> dict[str, Any]:
        """What the file says of itself; these names are not the dataset's."""
        dynamics = self.dynamics
        return {
            "Conventions": "CF-1.11",
            "title": f"Mean-field self-attention: {dynamics}",
            "references": "arXiv 2312.10794",
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "status": self.status,
            "message": self.message,
            "case": self.case,
            "dynamics": dynamics.name,
            "beta": dynamics.beta,
            "sign": dynamics.sign,
            "noise": dynamics.noise,
            **arrays.kind(self.final),
            **{f"{name}_version": _version(dist) for name, dist in _DISTRIBUTIONS.items()},
        }


def load(path: str | os.PathLike[str]) -> Solution:
    """Read the solution that `Solution.save` wrote.

    Nothing in the file is executed, and the sizes that it claims are checked before memory is
    taken for them.

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
        return _from_file(netcdf.read(source, _FORMAT, _FORMAT_VERSION))


def _from_file(stored: xr.Dataset) -> Solution:
    about = stored.attrs
    dynamics = _attribute(about, "dynamics", str)
    kinds: dict[str, type[Dynamics]] = {"SA": SA, "USA": USA}
    if dynamics not in kinds:
        raise ValueError(f"dynamics must be one of {list(kinds)}, got {dynamics!r:.80}")
    _check_numbers(stored)
    measures, used = arrays.measures(stored)
    solution = Solution(
        t=arrays.array(stored, "t", ("t",)),
        measures=measures,
        dynamics=kinds[dynamics](*(_attribute(about, p, Real) for p in ("beta", "sign", "noise"))),
        ending=Ending(_attribute(about, "status", str)),
        message=_attribute(about, "message", str),
        dataset=stored.drop_vars(used),
        case=_attribute(about, "case", str),
    )
    found = _checksum(stored)
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


def _check_numbers(stored: xr.Dataset) -> None:
    for name, variable in stored.variables.items():
        if variable.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, got {variable.dtype}")


def _checksum(stored: xr.Dataset) -> str:
    """SHA-256 of all that is read: a damaged index of a file can turn numbers into zeros."""
    digest = hashlib.sha256()
    for name in _READ:
        digest.update(f"{name}: {np.ravel(stored.attrs.get(name, '')).tolist()}\n".encode())
    for name in sorted(map(str, stored.variables)):
        values = np.ascontiguousarray(stored[name].values)
        digest.update(f"{name}: {values.dtype} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _attribute(attributes: Mapping[Any, Any], name: str, kind: type) -> Any:
    value = attributes.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"attribute {name} must be of type {kind.__name__}, got {value!r:.80}")
    return value


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
