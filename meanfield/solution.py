"""What a run leaves: measures and numbers over time, how it ended, and its NetCDF file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA, Dynamics
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal

Array = NDArray[np.float64]

FORMAT = "meanfield-solution"
FORMAT_VERSION = 1
_STATE = ("coefficients", "points", "weights")


class Ending(str, Enum):
    """How a run ended."""

    FINISHED = "finished"
    UNDER_RESOLVED = "under-resolved"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Solution:
    """Measures and their numbers at the saved times of one run.

    Parameters
    ----------
    t : ndarray, shape (m,)
        Saved times, ascending from 0.
    measures : list of Density or Particles
        The measure at each of them.
    dynamics : SA or USA
    ending : Ending
    message : str
        What happened, at which t, with which number, and what to try.
    dataset : xarray.Dataset
        Over t: energy, dissipation, work (± ∫ dissipation dt), mass, steps, evaluations; for
        densities also min_density, tail and size; and the monitors of the run.
    case : str
        The case file's text, if there was one.
    """

    t: Array
    measures: list[AnyMeasure]
    dynamics: Dynamics
    ending: Ending
    message: str
    dataset: xr.Dataset
    case: str = ""

    def __repr__(self) -> str:
        return f"Solution({self.dynamics}, {self.final}, {len(self.t)} saves, {self.message})"

    @property
    def status(self) -> str:
        """'finished', 'under-resolved', 'failed' or 'interrupted'."""
        return self.ending.value

    @property
    def final(self) -> AnyMeasure:
        """The last measure saved."""
        return self.measures[-1]

    def save(self, path: str | Path) -> None:
        """Write a NetCDF-4 file, beside and then renamed, so that no half file is ever there.

        Raises
        ------
        ValueError
            If the folder does not exist or can't be written.
        """
        path = Path(path)
        file = self.dataset.assign(_state_variables(self.measures))
        file.attrs |= _description(self)
        try:
            handle, name = tempfile.mkstemp(suffix=".nc", prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise ValueError(
                f"path must be in a folder that can be written, got {path}: {error}"
            ) from None
        os.close(handle)
        try:
            file.to_netcdf(name, engine="h5netcdf", format="NETCDF4")
            # mkstemp makes files that only their owner reads
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(0o666 & ~umask)
            Path(name).replace(path)
        except OSError as error:
            raise ValueError(
                f"path must be a file that can be written, got {path}: {error}"
            ) from None
        finally:
            Path(name).unlink(missing_ok=True)


def load(path: str | Path) -> Solution:
    """Read what `Solution.save` wrote.

    Raises
    ------
    ValueError
        If there is no such file, it is damaged or not ours, or it is of a future version.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"path must be a file written by Solution.save, got {path}: no such file")
    try:
        with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as opened:
            _check_format(path, opened.attrs)
            file = opened.load()
    except (OSError, RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"path must be a readable NetCDF-4 file, got {path}: {error}") from None
    try:
        return _solution(file)
    except (KeyError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"path must be an undamaged solution, got {path}: {error}") from None


def _check_format(path: Path, attributes: Mapping[Any, Any]) -> None:
    if attributes.get("format") != FORMAT:
        raise ValueError(
            f"path must be a file of format {FORMAT}, got {path} of format "
            f"{attributes.get('format')!r}"
        )
    found = int(attributes.get("format_version", 0))
    if not 1 <= found <= FORMAT_VERSION:
        raise ValueError(
            f"path must be of format version <= {FORMAT_VERSION}, got {path} of version {found}: "
            f"a newer meanfield reads it"
        )


def _description(solution: Solution) -> dict[str, Any]:
    first = solution.measures[0]
    about: dict[str, Any] = {
        "title": "mean-field dynamics of self-attention",
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "dynamics": solution.dynamics.name,
        "beta": solution.dynamics.beta,
        "sign": solution.dynamics.sign,
        "noise": solution.dynamics.noise,
        "dim": first.dim,
        "space": first.space.name if isinstance(first, Density) else "particles",
        "status": solution.status,
        "message": solution.message,
        "case": solution.case,
        "versions": ", ".join(f"{name} {_version(name)}" for name in _RECORDED),
    }
    if isinstance(first, Density) and isinstance(first.space, Zonal):
        about["axis"] = first.space.axis
    return about


_RECORDED = ("meanfield-attention", "numpy", "scipy", "pyfftw", "ducc0")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _state_variables(measures: list[AnyMeasure]) -> dict[str, Any]:
    densities = [m for m in measures if isinstance(m, Density)]
    if not densities:
        clouds = [m for m in measures if isinstance(m, Particles)]
        return {
            "points": (("t", "token", "axis"), np.array([m.points for m in clouds])),
            "weights": ("token", clouds[0].weights),
        }
    largest: Any = max((m.space for m in densities), key=lambda space: space.size)
    rows = [m.space.embed(m.coefficients, largest) for m in densities]
    parts = np.array(rows).view(np.float64).reshape(len(rows), largest.n_coefficients, -1)
    about = {
        "long_name": f"coefficients on {largest!r}; at each t those of the space of that size count"
    }
    return {
        "coefficients": (("t", "coefficient", "part"), parts, about, {"zlib": True}),
    }


def _solution(file: xr.Dataset) -> Solution:
    attributes = file.attrs
    kinds: dict[str, type[SA] | type[USA]] = {"SA": SA, "USA": USA}
    dynamics = kinds[attributes["dynamics"]](
        float(attributes["beta"]), int(attributes["sign"]), float(attributes["noise"])
    )
    measures = _particles(file) if attributes["space"] == "particles" else _densities(file)
    dataset = file.drop_vars([name for name in _STATE if name in file])
    described = {"title", "format", "format_version", "versions", "message", "case", "status"}
    described |= {"dynamics", "beta", "sign", "noise", "dim", "space", "axis"}
    dataset.attrs = {key: value for key, value in attributes.items() if key not in described}
    return Solution(
        t=file["t"].values,
        measures=measures,
        dynamics=dynamics,
        ending=Ending(attributes["status"]),
        message=str(attributes["message"]),
        dataset=dataset,
        case=str(attributes["case"]),
    )


def _particles(file: xr.Dataset) -> list[AnyMeasure]:
    clouds = []
    for points in file["points"].values:
        clouds.append(Particles(points, file["weights"].values))
    return list(clouds)


def _densities(file: xr.Dataset) -> list[AnyMeasure]:
    stored = file["coefficients"].values
    sizes = [int(size) for size in file["size"].values]
    # no space is made before the array is seen to have room for it
    if min(sizes) < 3 or max(sizes) > 2 * stored.shape[1]:
        raise ValueError(f"size must fit the {stored.shape[1]} coefficients, got {max(sizes)}")
    spaces: dict[int, Any] = {size: _space(file.attrs, size) for size in sorted(set(sizes))}
    largest = spaces[max(sizes)]
    if stored.shape[1] != largest.n_coefficients:
        raise ValueError(f"coefficients must fit {largest}, got {stored.shape[1]} of them")
    rows = np.ascontiguousarray(stored).reshape(len(stored), -1).view(largest.coefficient_type)
    measures: list[AnyMeasure] = []
    for size, row in zip(sizes, rows, strict=True):
        coefficients = largest.embed(row, spaces[size])
        measures.append(Density.from_coefficients(spaces[size], coefficients))
    return measures


def _space(attributes: Mapping[Any, Any], size: int) -> Space:
    if attributes["space"] == "circle":
        return Circle(size)
    if attributes["space"] == "sphere":
        return Sphere(size)
    return Zonal(int(attributes["dim"]), size, attributes["axis"])
