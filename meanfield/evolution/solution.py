"""What a run leaves: measures and numbers at the saved times, and how it ended."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, get_args, overload

import numpy as np

from meanfield import _checks
from meanfield._shown import ShownRun
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.with_energy import adapt_with
from meanfield.equations.history import History, density_on_line, transported
from meanfield.equations.sphere import field_on_sphere
from meanfield.evolution import arrays, netcdf
from meanfield.evolution.arrays import Resumption, text_of
from meanfield.evolution.files import SOURCE
from meanfield.evolution.netcdf import Contents, Variable
from meanfield.exceptions import GOOD, Status
from meanfield.kernels.direct import blocks
from meanfield.measures import AnyMeasure, Density
from meanfield.spaces.sphere import Sphere
from meanfield.typing import Array, ArrayLike

FORMAT = "meanfield-solution"
FORMAT_VERSION = 3
_VERSION, _UNKNOWN = "_version", "unknown"
# a density on a grid has these attributes of its file, too
_OF_GRID = "Conventions", "title", "references", "status", "message", "case"
# the attributes of each variable of a run
_WORDS_OF_NUMBERS = "role", "symbol", "long_name", "units", "comment"
# the numbers of a run depend on these packages
_PACKAGES = ("meanfield", "numpy", "scipy", "pyfftw", "ducc0", "shtns")
# this library may be missing; only numbers on S^2 depend on it
_OPTIONAL = "shtns"
_SHA_256 = re.compile("[0-9a-f]{64}")

if TYPE_CHECKING:
    import xarray as xr
    from typing_extensions import TypeVar

    # without a parameter, `Solution` is the run of any measure
    M_co = TypeVar("M_co", bound=AnyMeasure, covariant=True, default=AnyMeasure)
else:
    from typing import TypeVar

    M_co = TypeVar("M_co", covariant=True)


# two threads that ask for a dataset at once must get the same one, since users may change it
_MAKING = threading.Lock()


class _OnDemand:
    """A descriptor that makes the dataset of a solution from plain arrays at its first use."""

    def __get__(self, sol: Solution | None, kind: type) -> xr.Dataset:
        """Return the dataset, made once; None of the class, for a dataclass the default."""
        with _MAKING:
            made: Any = None if sol is None else vars(sol)["dataset"]
            if isinstance(made, Contents):
                made = vars(sol)["dataset"] = made.dataset()
        dataset: xr.Dataset = made
        return dataset

    def __set__(self, sol: Solution, given: xr.Dataset | Contents | None) -> None:
        """Keep a dataset, or what makes one.

        Raises
        ------
        TypeError
            If none is given.
        """
        if given is None:
            raise TypeError("a Solution must be given a dataset")
        vars(sol)["dataset"] = given


@dataclass(repr=False, eq=False)
class Solution(ShownRun, Generic[M_co]):
    """mu_t at the saved times t_0 < … < t_{m-1} of a run, and its numbers over t.

    ``len(sol)`` is how many there are, ``sol[i]`` is a measure, and ``for t, mu in sol`` goes
    through all of them.

    Attributes
    ----------
    t : ndarray, shape (m,)
    measures : list of measures, length m
    dynamics : SA, USA, DoublyStochastic, Interaction, Attention, FeedForward, Layers or Kuramoto
    status : str
        'finished', 'clustered' (a flow map whose mass is all in atoms), 'under-resolved', 'failed'
        or 'interrupted'.
    message : str
        A sentence: how the run ended, at which t, with which number, what to try.
    dataset : xarray.Dataset
        energy, dissipation, work, mass and more over the dimension t.
    energy : dynamics or None
        The dynamics whose energy was followed, see `evolve`; None where it is `dynamics` itself.

    Raises
    ------
    ValueError
        If t does not ascend, t, measures and dataset differ in length, or there is no such status.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(beta=1.0), t_end=1.0)
    >>> sol
    Solution(finished, SA(beta=1.0, sign=1, noise=0.0), 21 saves to t = 1, Density(...))
    >>> [round(float(mu.mean()[0]), 3) for t, mu in sol if t > 0.9]
    [0.376, 0.384]
    """

    _for_rooms = (
        *("attributes", "case", "file", "history", "numbers", "records", "resumption", "source"),
        *("versions",),
    )

    t: Array
    measures: Sequence[M_co]
    dynamics: AnyDynamics
    status: Status
    message: str
    dataset: _OnDemand = _OnDemand()
    energy: AnyDynamics | None = None
    # the text of the case file, if there is one
    case: str = ""
    # the moments of a flow map at all times, which `pdf` needs
    history: History | None = None
    # `resume` needs this state
    resumption: Resumption | None = None
    # the versions of the libraries that made the run; its file keeps them
    versions: dict[str, str] = field(default_factory=lambda: versions_of(versions()))
    # the `checkpoint` of the run, if it could be written at the end
    file: Path | None = None
    # this module can't import the one that repeats a part of a run, which makes solutions: the
    # package `evolution` sets this function
    _state_between: ClassVar[Callable[[Solution, float], Any]]

    def __post_init__(self) -> None:
        self.t = _checks.real_array("t", self.t, 1)
        if (np.diff(self.t) <= 0.0).any():
            raise ValueError(f"t must ascend, got {self.t[:8]}")
        lengths = len(self.t), len(self.measures), vars(self)["dataset"].sizes.get("t")
        if len(set(lengths)) > 1:
            raise ValueError(f"t, measures and dataset must be of one length, got {lengths}")
        _checks.one_of("status", self.status, get_args(Status))
        if len(self.t) and self.final.dim != Sphere.dim:
            self.versions.pop(_OPTIONAL, None)

    def __repr__(self) -> str:
        saves = f"{len(self.t)} saves to t = {self.t[-1]:g}"
        return f"Solution({self.status}, {self.dynamics}, {saves}, {self.final})"

    @property
    def success(self) -> bool:
        """Whether the run came to its `t_end`: its status is 'finished' or 'clustered'."""
        return self.status in GOOD

    @property
    def final(self) -> M_co:
        """The measure at the last saved time."""
        return self.measures[-1]

    def __len__(self) -> int:
        return len(self.t)

    @overload
    def __getitem__(self, i: int) -> M_co: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[M_co]: ...
    def __getitem__(self, i: int | slice) -> M_co | Sequence[M_co]:
        return self.measures[i]

    def __iter__(self) -> Iterator[tuple[float, M_co]]:
        return zip(map(float, self.t), self.measures, strict=True)

    def at(self, t: float) -> M_co:
        """The measure at any time of the run.

        At a saved time it is the saved measure itself. Between two saves the run is repeated from
        the save before, with its own tolerances. If you need many such times, save more often.

        Parameters
        ----------
        t : float
            Between the first and the last saved time. Under noise, tokens have saved times only;
            between discrete layers t is a whole number of steps.

        Raises
        ------
        ValueError
            If t is out of range or no such time, or no file could store the dynamics or the law.
        ArithmeticError
            If the repeated run does not reach that time.

        Examples
        --------
        >>> import meanfield as mf
        >>> sol = mf.evolve(mf.FlowMap(mf.FourierSeries(cos=[0.5])), mf.SA(beta=1.0), 1.0, 4)
        >>> sol.at(0.25) is sol[1]
        True
        >>> sol.at(0.3).mean().round(9) + 0.0
        array([0.29, 0.  ])
        """
        time = self._time(t)
        save = int(np.searchsorted(self.t, time))
        if self.t[save] == time:
            return self.measures[save]
        measure: M_co = Solution._state_between(self, time)
        return measure

    def _time(self, t: float) -> float:
        """Return a time of the run: that of a save if it differs from it by rounding only."""
        time = _checks.number("t", t)
        gaps = np.abs(self.t - time)
        nearest = int(gaps.argmin())
        if gaps[nearest] <= _checks.time_tolerance(t) * np.abs(self.t[-1]):
            return float(self.t[nearest])
        return _checks.number("t", t, low=float(self.t[0]), high=float(self.t[-1]))

    @property
    def source(self) -> str:
        """SHA-256 of what the run was made from: its case, or its start, dynamics and `t_end`.

        It is the same for the whole of a run and for a part of it.
        """
        attrs = Contents.of(self.numbers).attrs
        digest = str(attrs.get(SOURCE, ""))
        if _SHA_256.fullmatch(digest):
            return digest
        start = self.measures[:1]
        told_of = self._records_of(start)
        variables = arrays.measure_variables(start) | told_of.variables
        end = Variable((), np.asarray(attrs.get("t_end", self.t[-1])))
        return Contents(variables | {"t_end": end}, told_of.attrs).checksum()

    def pdf(self, points: ArrayLike, t: float) -> Array:
        """f_t at unit rows (n, d), shape (n,), at any time of the run.

        A density is that of `at(t)`. In a run of a flow map each point is followed back to t = 0
        along its characteristic: the value has an error of about 1e-12 times the stretching on the
        way, however concentrated the measure is. After feed-forward layers with relu the density
        has kinks, and the error is the flow map's `tol`.

        Parameters
        ----------
        points : array_like, shape (n, d)
            On the circle one number is the point at that angle.
        t : float
            Between the first and the last saved time.

        Raises
        ------
        ValueError
            If the run has no densities and no history of moments, an argument is out of range, or
            the law has no density or is not known any more.
        ArithmeticError
            If a characteristic can't be followed.

        Examples
        --------
        >>> import meanfield as mf
        >>> sol = mf.evolve(mf.FlowMap(mf.Uniform(2)), mf.SA(beta=1.0), t_end=1.0)
        >>> sol.pdf([[1.0, 0.0]], t=0.5).round(9)
        array([1.])
        """
        flow: Any = self.final
        if isinstance(flow, Density):
            saved: Any = self.at(t)
            return np.asarray(saved.pdf(points))
        if self.history is None:
            layers = adapt_with(self.dynamics, None).representatives
            if not all(layer.known_by_moments for layer in layers):
                raise ValueError(
                    f"pdf needs a dynamics with a kernel or heads, or reads_measure = False, for "
                    f"a flow map, got {self.dynamics}: characteristics need the field at earlier "
                    f"times; the flow map's log_density is that at its nodes"
                )
            raise ValueError(
                f"pdf needs densities, or the moments of a flow map from its law on, at beta (the "
                f"reach of its kernel) <= 100, got a run of {flow} under {self.dynamics}"
            )
        points = _checks.unit_rows("points", points, flow.dim)
        t = self._time(t)
        dynamics = adapt_with(self.dynamics, self.energy)
        if not hasattr(flow, "line"):
            return transported(field_on_sphere(dynamics), self.history, flow.law.pdf, points, t)
        if t == self.t[0]:
            return np.asarray(flow.line.factor * flow.line.law.pdf(points))
        return density_on_line(flow.line, dynamics, self.history, points, t, flow.tol)

    def to_dataset(self, grid: int | Mapping[str, int | ArrayLike] | None = None) -> xr.Dataset:
        """The run as a dataset: with a grid its density there, else what its file holds.

        The file of a density has its `coefficients` over t, degree and order. On a grid the dataset
        has `density` over t and the angles of the circle (`angle`, in radians), latitude and
        longitude on S^2 (`lat`, `lon`, in degrees, as the CF conventions have them), or ⟨x, axis⟩
        about an axis (`cosine`), and all numbers over t. `to_netcdf` writes it; xarray, ncview
        and Panoply show it.

        Parameters
        ----------
        grid : int or mapping of str to int or array_like, optional
            How many angles, latitudes (and twice as many longitudes) or cosines; or the names of
            the coordinates with their numbers or values. On S^2 a measure about an axis takes lat
            and lon, too.

        Returns
        -------
        xarray.Dataset
            On a grid with `grid_mass`, the mass that it sees: about 1, but peaks narrower than its
            cells are missed or count too much.

        Warns
        -----
        UserWarning
            If `grid` is a number and its mass is off by more than 1 %.

        Raises
        ------
        ValueError
            If the measures have no density, `grid` is no grid for them, or this machine's memory
            does not hold the density there.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.Density(mf.Sphere(15), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0))
        >>> ds = mf.evolve(mu, mf.SA(beta=1.0), 0.5, 2).to_dataset(grid=90)
        >>> dict(ds.density.sizes)
        {'t': 3, 'lat': 90, 'lon': 180}
        >>> round(float(ds.density.sel(t=0.5).sel(lat=53, lon=90, method="nearest")), 3)
        6.808
        """
        from meanfield.evolution import gridded

        if grid is None:
            return self._to_file().dataset()
        coordinates = gridded.coordinates_of(self.final, grid, len(self.t))
        points = gridded.points_of(coordinates, self.final.axis)
        values = np.empty((len(self.t), len(points)))
        # evaluating a density needs much more memory than its result, so points come in blocks
        for row, t in zip(values, self.t, strict=True):
            for part in blocks(len(points), 1):
                row[part] = self.pdf(points[part], t)
        values = values.reshape(-1, *(each.values.size for each in coordinates.values()))
        attributes = {name: self.attributes()[name] for name in _OF_GRID}
        dataset = self.dataset.assign_attrs(attributes).assign_coords(coordinates)
        dataset["density"] = ("t", *coordinates), values, gridded.DENSITY
        masses = gridded.masses_on(values, coordinates, self.final.dim)
        if _checks.is_number(grid):
            gridded.warn_missed(masses, self.t)
        dataset["grid_mass"] = "t", masses, gridded.GRID_MASS
        return dataset

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF-4 file, which `load` reads back to the bit and any NetCDF tool opens.

        It is written beside and renamed, so what was at `path` is replaced as a whole or not at
        all. A density's law is not kept: a loaded density has the values of its series.

        Parameters
        ----------
        path : str or path-like
            Ending in .nc, .nc4, .h5 or .hdf5.

        Raises
        ------
        OSError
            If it can't be written there; nothing is left behind.
        ValueError
            If `path` is no such name, the measures are not of one kind, it or one of them is of a
            class made from one of the package, or the dataset holds what is no number, or a name
            that the file needs (coefficients, points, weights).
        """
        if not _checks.is_of_package(self):
            mine = _checks.shown_class(self)
            raise ValueError(f"a file keeps a Solution, not of a class made from it, got {mine}")
        place = netcdf.file_path(path)
        netcdf.check_suffix("path", place)
        netcdf.write(self._to_file(), place)

    @property
    def numbers(self) -> Contents | xr.Dataset:
        """The variables and attributes of the dataset, which need not be made for them."""
        kept: Contents | xr.Dataset = vars(self)["dataset"]
        return kept

    def _to_file(self) -> Contents:
        records = self.records()
        variables = arrays.measure_variables(self.measures, self.history) | records.variables
        kept_numbers = Contents.of(self.numbers)
        clash = sorted(variables.keys() & kept_numbers.variables.keys() - {"size"})
        if clash:
            raise ValueError(f"dataset must not have variables {clash}: rename them before saving")
        t_attributes = (
            kept_numbers.variables["t"].attrs if "t" in kept_numbers.variables else arrays.TIME
        )
        if "size" in variables.keys() & kept_numbers.variables.keys():
            variables["size"] = variables["size"]._replace(
                attrs=kept_numbers.variables["size"].attrs
            )
        contents = Contents(
            kept_numbers.variables | {"t": Variable(("t",), self.t, t_attributes)} | variables
        )
        contents.check_numbers()
        contents.attrs = kept_numbers.attrs | self.attributes() | records.attrs
        contents.attrs["checksum"] = contents.checksum()
        return contents

    def attributes(self) -> dict[str, object]:
        """The attributes of the file; these names are not the dataset's."""
        return {
            "Conventions": "CF-1.11",
            "title": f"Mean-field self-attention: {self.dynamics}",
            "references": "arXiv 2312.10794",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "status": self.status,
            "message": self.message,
            "case": self.case,
            **{f"{name}{_VERSION}": text for name, text in self.versions.items()},
        }

    def records(self) -> Contents:
        """The records that the dynamics, the measures and the rest of the run are made from."""
        records = self._records_of(self.measures)
        return records if self.resumption is None else records | self.resumption.contents()

    def _records_of(self, measures: Sequence[AnyMeasure]) -> Contents:
        dynamics = arrays.dynamics_record(self.dynamics, self.energy)
        return dynamics | arrays.measure_record(measures)


def versions() -> dict[str, str]:
    """Versions here of the packages that numbers depend on, as attributes of a dataset."""
    packages = {f"{name}{_VERSION}": version_of(name) for name in _PACKAGES}
    return {f"{name}{_VERSION}": text for name, text in versions_of(packages).items()}


def versions_of(attributes: Mapping[str, object]) -> dict[str, str]:
    """The versions that a file names, "unknown" where it names none."""
    versions = {name: str(attributes.get(f"{name}{_VERSION}", _UNKNOWN)) for name in _PACKAGES}
    return {k: v for k, v in versions.items() if k != _OPTIONAL or v != _UNKNOWN}


def other_versions(versions: Mapping[str, str]) -> list[str]:
    """The packages whose versions are other ones here, each with both versions."""
    present = {name: version_of(name) for name in versions}
    return [f"{k} {v} (here {present[k]})" for k, v in versions.items() if v != present[k]]


@cache
def version_of(package: str) -> str:
    """The installed version of a package, "unknown" of one that is not there.

    That of this package names its code, too: two commits, or a changed line, have two versions.
    """
    try:
        if package == "meanfield":
            return f"{version('meanfield-attention')}+{_digest_of_code()}"
        return version(package)
    except PackageNotFoundError:
        return _UNKNOWN


def _digest_of_code() -> str:
    """Return twelve hexadecimal digits of the SHA-256 of the package's modules and their names."""
    room, digest = Path(__file__).parent.parent, hashlib.sha256()
    for module in sorted(room.rglob("*.py")):
        digest.update(module.relative_to(room).as_posix().encode() + b"\0")
        digest.update(module.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def load(path: str | os.PathLike[str]) -> Solution:
    """Read the solution that `Solution.save` wrote.

    A seal at the end of the file, a digest of all its bytes, shows damage before HDF5 opens it.
    Nothing in the file is executed. A file without a seal, or with a forged one, is read as it is:
    load it only if you trust its author.

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
        another version, cut short, damaged or inconsistent.

    Examples
    --------
    >>> load("no-such-run.nc")
    Traceback (most recent call last):
        ...
    meanfield.exceptions.MissingFileError: there is no file no-such-run.nc
    """
    file = netcdf.file_path(path)
    with netcdf.refusals(file), netcdf.opened(file, FORMAT, FORMAT_VERSION) as stored:
        return _from_file(stored)


def _from_file(stored: Contents) -> Solution:
    attributes = stored.attrs
    dynamics, energy = arrays.read_dynamics(stored)
    stored.check_numbers()
    beside = arrays.names_beside_numbers(stored)
    numbers = ((n, v) for n, v in stored.variables.items() if n not in beside)
    kept = {name: variable._replace(values=variable.values[...]) for name, variable in numbers}
    for name, (dims, _, notes) in kept.items():
        for key, word in notes.items():
            if key in _WORDS_OF_NUMBERS and not isinstance(word, str):
                raise ValueError(f"{key} of {name} must be a word, got {_checks.shown(word)}")
        time_dims: tuple[str, ...] = ("t",)
        if name.startswith(arrays.COLLAPSE):
            time_dims = (arrays.COLLAPSE,)
        elif name.startswith(f"{arrays.TERM}_"):
            time_dims = ("t", arrays.TERM)
        if "role" in notes and dims != time_dims:
            raise ValueError(
                f"{name} must be numbers over {' and '.join(time_dims)}, got dimensions {dims}"
            )
    solution = Solution(
        t=arrays.TIMES.read(stored),
        measures=arrays.read_measures(stored),
        dynamics=dynamics,
        status=_checks.one_of("attribute status", attributes.get("status"), get_args(Status)),
        message=text_of(stored, "message"),
        dataset=Contents(kept),
        energy=energy,
        case=text_of(stored, "case"),
        history=arrays.read_history(stored),
        resumption=arrays.read_resumption(stored),
        versions=versions_of(attributes),
    )
    netcdf.compare_digests(stored.checksum(), attributes.get("checksum"))
    ours = {*solution.attributes(), *solution.records().attrs, "checksum"}
    attrs = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in attributes.items()
        if name not in ours
    }
    solution.dataset = Contents(kept, attrs)
    return solution
