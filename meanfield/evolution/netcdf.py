"""NetCDF-4 files: written whole or not at all, sealed, and trusted in nothing when read."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from meanfield._checks import integer, shown
from meanfield.evolution.files import whole_file
from meanfield.exceptions import MissingFileError
from meanfield.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

SUFFIXES = (".nc", ".nc4", ".h5", ".hdf5")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# the kinds of variables by NumPy's letters
_WRITTEN_NUMBERS, WORDS = "iuf", "OUT"
# the numbers of one file may take this share of the memory of the machine
SHARE_OF_MEMORY = 0.25
# an array is read in blocks of so many numbers, and packed in chunks of so many
BLOCK, _PACKED = 1 << 17, 1 << 15
# a file with at most so many bytes of numbers is read as a whole
_SMALL = 1 << 22
# a sweep has at most so many cells
_MOST_WORDS = 10**6
# deflate packs at most so many bytes into one
_LARGEST_RATIO = 1032
# a reason in a message has at most so many characters
_LONGEST_REASON = 1000
# these attributes of a solution enter its checksum
_READ = ("dynamics", "energy", "measures", "status", "message", "case", "resumption")
# a file ends with this mark and a digest
_MARK = b"meanfield seal: "
_DIGEST = 32
_LENGTH = len(_MARK) + _DIGEST
_CHUNK = 1 << 20
# each version of the superblock of HDF5 keeps the end of the file at this byte
_END_AT = {0: 40, 1: 44, 2: 28, 3: 28}
_VERSION_AT = 8
# NetCDF-4 puts this before a variable that is named as a dimension it does not have
_NO_COORDINATE = "_nc4_non_coord_"


def seal(content: bytes | memoryview) -> bytes:
    """The seal that goes behind `content` in its file: a mark, and BLAKE2b of 32 bytes.

    HDF5 keeps the length of its part and reads no further.

    Examples
    --------
    >>> len(seal(b"content"))
    48
    """
    return _MARK + hashlib.blake2b(content, digest_size=_DIGEST).digest()


def check_seal(path: Path) -> None:
    """Read the file once and compare it with its seal, if it has one.

    Other tools that rewrite a file leave the seal out: then the file ends where HDF5 says.

    Raises
    ------
    ValueError
        If it was damaged.
    OSError
        If it can't be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(64)
        if size >= _LENGTH:
            file.seek(size - _LENGTH)
            end = file.read(_LENGTH)
            if end.startswith(_MARK):
                file.seek(0)
                _compare(file, size - _LENGTH, end[len(_MARK) :])
                return
    known = _end_of_hdf5(start)
    if known is not None and size > known:
        ends = f"a seal, or after {known} bytes, got {size} bytes"
        raise ValueError(f"it is cut short or damaged: it must end with {ends}")


def _compare(file: BinaryIO, length: int, expected: bytes) -> None:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    while length > 0 and (part := file.read(min(_CHUNK, length))):
        digest.update(part)
        length -= len(part)
    compare_digests(digest.hexdigest(), expected.hex())


def compare_digests(digest: str, known: object) -> None:
    """Refuse a file whose digest is not the known one."""
    if digest != known:
        got = f"{digest:.8}…, got {known!s:.8}…"
        raise ValueError(f"it was damaged or changed: its checksum must be {got}")


def _end_of_hdf5(start: bytes) -> int | None:
    """How many bytes HDF5 has in a file with this start, None if the start does not say it."""
    position = _END_AT.get(start[_VERSION_AT]) if len(start) > _VERSION_AT else None
    return None if position is None else int.from_bytes(start[position : position + 8], "little")


class Variable(NamedTuple):
    """An array with the names of its dimensions.

    Attributes
    ----------
    dims : tuple of str
    values : ndarray, or what stays in an open file and is read by slices
    attrs : mapping of str
    """

    dims: tuple[str, ...]
    values: Any
    attrs: Mapping[str, Any] = {}


@dataclass
class Contents:
    """The variables and attributes of a file, of which a dataset is made when it is asked for.

    Attributes
    ----------
    variables : dict of str to Variable
    attrs : dict of str
    """

    variables: dict[str, Variable]
    attrs: dict[str, Any] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]

    def __or__(self, other: Contents) -> Contents:
        return Contents(self.variables | other.variables, self.attrs | other.attrs)

    @classmethod
    def of(cls, given: Contents | xr.Dataset) -> Contents:
        """The contents of a dataset for a file; contents themselves are returned as they are."""
        if isinstance(given, Contents):
            return given
        from xarray.conventions import encode_dataset_coordinates

        variables, attrs = encode_dataset_coordinates(given)
        kept_variables = {str(n): Variable(v.dims, v.values, v.attrs) for n, v in variables.items()}
        return cls(kept_variables, dict(attrs))

    def dataset(self) -> xr.Dataset:
        """The dataset, all in memory."""
        import xarray as xr

        read = {n: (v.dims, v.values[...], v.attrs) for n, v in self.variables.items()}
        dataset = xr.Dataset(read, attrs=self.attrs)
        notes = self.attrs, *(variable.attrs for variable in self.variables.values())
        if any("coordinates" in about for about in notes):
            dataset = xr.decode_cf(dataset, decode_times=False, mask_and_scale=False)
        return dataset

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the dimensions.

        Raises
        ------
        ValueError
            If variables differ in them, one that is along others has the name of a dimension, or a
            name is none of NetCDF.
        """
        sizes: dict[str, int] = {}
        for name, (dims, values, _) in self.variables.items():
            for dim, n in zip(dims, values.shape, strict=True):
                if sizes.setdefault(dim, n) != n:
                    raise ValueError(f"{name} must have {sizes[dim]} values along {dim}, got {n}")
        for name in (*self.variables, *sizes):
            if not is_name(name):
                raise ValueError(f"variables and dimensions must not have names as {name!r}")
        for name in sorted(sizes.keys() & self.variables.keys()):
            if (dims := self.variables[name].dims) != (name,):
                raise ValueError(f"{name} must be along the dimension of its name, got {dims}")
        return sizes

    def check_numbers(self) -> None:
        """Check that all variables hold numbers."""
        for name, variable in self.variables.items():
            if variable.values.dtype.kind not in "biuf":
                raise ValueError(f"{name} must hold numbers, got {variable.values.dtype}")

    def checksum(self) -> str:
        """SHA-256 of all that is read: a damaged index of a file can turn numbers into zeros."""
        digest = hashlib.sha256()
        # files without an energy to follow keep the checksum of earlier versions
        for name in (*_READ, *(["energy"] if "energy" in self.attrs else [])):
            digest.update(f"{name}: {np.ravel(self.attrs.get(name, '')).tolist()}\n".encode())
        for name, (_, values, _) in sorted(self.variables.items()):
            digest.update(f"{name}: {values.dtype} {values.shape}\n".encode())
            for rows in _blocks(values):
                digest.update(np.ascontiguousarray(values[rows]).data)
        return digest.hexdigest()


def _blocks(values: NDArray[np.generic]) -> Iterator[object]:
    """Yield slices of the first axis, of `BLOCK` numbers or one row each."""
    if values.size <= BLOCK:
        yield ...
        return
    count = max(1, BLOCK * len(values) // values.size)
    yield from (slice(start, start + count) for start in range(0, len(values), count))


def is_name(name: str) -> bool:
    """Whether a file can keep a variable under this name, which must not lead into a group.

    Examples
    --------
    >>> is_name("a b"), is_name("a/b")
    (True, False)
    """
    return name not in ("", ".") and not any(part in name for part in ("/", "\0", _NO_COORDINATE))


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` as a Path.

    Examples
    --------
    >>> file_path("run.nc").suffix
    '.nc'
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ValueError(f"path must be the name of a file, got {shown(path)}")
    return Path(path)


def check_suffix(name: str, path: Path) -> None:
    """Make sure that a file to be written is called what it is.

    Raises
    ------
    ValueError
        If it ends otherwise than NetCDF-4 files, which are HDF5 files, do.

    Examples
    --------
    >>> check_suffix("path", Path("run.txt"))
    Traceback (most recent call last):
        ...
    ValueError: path must end in .nc, .nc4, .h5 or .hdf5, got 'run.txt'
    """
    if path.suffix.lower() not in SUFFIXES:
        allowed = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise ValueError(f"{name} must end in {allowed}, got {str(path)!r}")


def write(given: Contents | xr.Dataset, path: Path) -> None:
    """Write a dataset, or what may never have been one, beside `path` and rename it.

    Raises
    ------
    OSError
        If it can't be written there; then `path` is as it was, and nothing is left behind.
    ValueError
        If a variable holds neither numbers nor words, or sizes or names don't fit.
    """
    content = _encode(Contents.of(given))
    try:
        with whole_file(path) as beside, beside.open("wb") as file:
            file.write(content)
            file.write(seal(content))
    except (OSError, RuntimeError) as error:
        raise OSError(f"can't write {path}: {_reason(error)}") from error


def _encode(contents: Contents) -> memoryview:
    """Return the bytes of a NetCDF-4 file: numbers as they are, without fill values.

    They are made in memory, since HDF5 takes the process with it where a disk fills up, and not by
    `to_netcdf`, which waits for a lock of the cluster where the process has a client of dask.
    """
    import h5netcdf
    import h5py

    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        file.dimensions = contents.sizes
        file.attrs.update(contents.attrs)
        for name, (dims, values, attrs) in contents.variables.items():
            notes = dict(attrs)
            if values.dtype.kind == "b":
                # NetCDF has no truth values; xarray reads them back from this note
                values, notes["dtype"] = values.astype("i1"), "bool"
            elif values.dtype.kind in WORDS:
                values = values.astype(h5py.string_dtype())
            elif values.dtype.kind not in _WRITTEN_NUMBERS:
                raise ValueError(f"{name} must hold numbers or words, got {values.dtype}")
            packed: dict[str, object] = {"compression": "gzip"} if values.ndim else {}
            if values.size > _PACKED:
                # chunks hold whole rows, since rows are read together
                rows = max(1, _PACKED * len(values) // values.size)
                packed["chunks"] = rows, *values.shape[1:]
            stored = file.create_variable(name, dims, values.dtype, **packed)
            stored[...] = values
            stored.attrs.update(notes)
    return content.getbuffer()


@contextmanager
def opened(path: Path, kind: str, version: int) -> Iterator[Contents]:
    """Inside, all variables and attributes of a file with these `format` and `format_version`.

    Large variables of a large file stay there, and are read by slices. The seal shows damage. HDF5
    trusts the bytes that it is given: a file whose seal was forged, or left out, is read as it is.

    Raises
    ------
    Exception
        Of any kind, since what a damaged file makes the libraries do is theirs: see `refusals`.
    """
    # opening a pipe may never end
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"it must be a regular file, got {path.stat().st_mode:o} as its mode")
    with path.open("rb") as file:
        start = file.read(len(_SIGNATURE))
    if start != _SIGNATURE:
        hint = f"; a case file? meanfield run {path} makes a result of it"
        hint = hint if path.suffix == ".toml" else ""
        raise ValueError(f"it is no NetCDF-4 file, as it starts with {shown(start)}{hint}")
    check_seal(path)
    import h5netcdf
    import h5py

    # h5netcdf knows names and attributes; h5py itself reads numbers ten times as fast
    with h5py.File(path, "r") as numbers, h5netcdf.File(numbers, "r") as file:
        about = dict(file.attrs)
        _check_format(about, kind, version)
        stored = {n: numbers.get(f"{_NO_COORDINATE}{n}", numbers[n]) for n in file.variables}
        claimed = sum(variable.nbytes for variable in stored.values())
        room = int(SHARE_OF_MEMORY * min(memory_of_machine(), 1e18))
        if claimed > room:
            raise ValueError(
                f"it holds {claimed} bytes of numbers, of which this machine's memory takes at "
                f"most {room}"
            )
        if claimed > _LARGEST_RATIO * (size := path.stat().st_size):
            raise ValueError(
                f"it holds {claimed} bytes of numbers or words, which {size} bytes can't: all but "
                f"fill values, which no result has"
            )
        most, named = BLOCK if claimed <= _SMALL else _PACKED, file.variables.items()
        yield Contents(
            {name: _variable(variable, stored[name], most) for name, variable in named}, about
        )


def _variable(named: Any, stored: Any, most: int) -> Variable:
    """Return a variable of h5netcdf; if it has many values, they stay in the file."""
    import h5py

    notes = dict(named.attrs)
    if h5py.check_string_dtype(stored.dtype) is not None:
        if stored.size > _MOST_WORDS:
            raise ValueError(
                f"a variable must hold at most {_MOST_WORDS} words, one for each cell of a sweep, "
                f"got {stored.size}"
            )
        values = stored.asstr()[...]
    elif notes.get("dtype") == "bool":
        values = stored[...].astype(notes.pop("dtype"))
    else:
        values = stored if stored.size > most else stored[...]
    return Variable(named.dimensions, values, notes)


def _check_format(about: Mapping[str, object], kind: str, version: int) -> None:
    name = about.get("format")
    if name is None:
        raise ValueError(
            f"its format must be {kind!r}, got none, as in a dataset of a study, of compare or of "
            f"to_dataset: open it with xarray, and draw it by the function of mf.plot with its name"
        )
    if str(name) != kind:
        raise ValueError(
            f"its format must be {kind!r}, got {shown(name)}: `meanfield info` tells what it holds"
        )
    stored_version = np.asarray(about.get("format_version")).ravel()
    its = integer(
        "format_version", stored_version[0] if stored_version.size == 1 else stored_version, low=1
    )
    if its != version:
        remedy = "" if its > version else ", in which names are other ones: run its case again"
        raise ValueError(f"this file has version {its}; this meanfield reads {version}{remedy}")


def memory_of_machine() -> float:
    """Bytes of memory that the machine has; without end where it doesn't tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn any error that a bad file causes into one ValueError of one line.

    Raises
    ------
    ValueError
        With the name of the file and the reason; a MissingFileError if there is none.
    KeyboardInterrupt
        On Ctrl-C, which is no fault of the file.
    """
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {path}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"can't read {path}: {_reason(error)}") from error
    except OSError as error:
        what = "" if error.strerror else "it is cut short or damaged: "
        raise ValueError(f"can't read {path}: {what}{_reason(error)}") from error
    except Exception as error:
        # h5py turns Ctrl-C into a SystemError while it holds its lock
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise ValueError(f"can't read {path}: it is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or repr(error)
    return first_line(str(text))


def first_line(text: str) -> str:
    """The first line of the message of a library, cut at a length."""
    return text.strip().partition("\n")[0][:_LONGEST_REASON]
