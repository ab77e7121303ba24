"""NetCDF-4 files: written whole or not at all, sealed, and trusted in nothing when read."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from meanfield._checks import integer, shown
from meanfield.evolution.files import whole_file
from meanfield.exceptions import MissingFileError

SUFFIXES = (".nc", ".nc4", ".h5", ".hdf5")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# kinds of variables, as NumPy names them
_WRITTEN_NUMBERS, WORDS = "iuf", "OUT"
# of the machine's memory, what the numbers of one file may take: they are copied while read
_SHARE_OF_MEMORY = 0.25
# characters of a reason
_LONGEST_REASON = 1000
# attributes of a solution in its checksum
_READ = ("dynamics", "measures", "status", "message", "case", "resumption")
# what ends a file: a mark and a digest
_MARK = b"meanfield seal: "
_DIGEST = 32
_LENGTH = len(_MARK) + _DIGEST
_CHUNK = 1 << 20
# of the superblock of HDF5: where the end of the file is kept, for each version of it
_END_AT = {0: 40, 1: 44, 2: 28, 3: 28}
_VERSION_AT = 8


def seal(content: bytes | memoryview) -> bytes:
    """What goes behind `content` in its file: a mark, and BLAKE2b of 32 bytes.

    HDF5 keeps the length of its part and reads no further.

    Examples
    --------
    >>> len(seal(b"content"))
    48
    """
    return _MARK + hashlib.blake2b(content, digest_size=_DIGEST).digest()


def check_seal(path: Path) -> None:
    """Read the file once and compare it with its seal, if it has one.

    Other tools that write a file anew leave the seal out: then the file ends where HDF5 says.

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
        raise ValueError(
            f"it is cut short or damaged: it must end with a seal, or after {known} bytes, got "
            f"{size} bytes"
        )


def _compare(file: BinaryIO, length: int, expected: bytes) -> None:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    while length > 0 and (part := file.read(min(_CHUNK, length))):
        digest.update(part)
        length -= len(part)
    if digest.digest() != expected:
        raise ValueError(
            f"it was damaged or changed: its seal must be {digest.hexdigest():.8}…, got "
            f"{expected.hex():.8}…"
        )


def _end_of_hdf5(start: bytes) -> int | None:
    """How many bytes HDF5 has in a file that begins like this, None where that is not told."""
    at = _END_AT.get(start[_VERSION_AT]) if len(start) > _VERSION_AT else None
    return None if at is None else int.from_bytes(start[at : at + 8], "little")


def check_numbers(stored: xr.Dataset) -> None:
    """Check that all variables hold numbers.

    Raises
    ------
    ValueError
        If one does not.
    """
    for name, variable in stored.variables.items():
        if variable.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, got {variable.dtype}")


def checksum(stored: xr.Dataset) -> str:
    """SHA-256 of all that is read: a damaged index of a file can turn numbers into zeros."""
    digest = hashlib.sha256()
    for name in _READ:
        digest.update(f"{name}: {np.ravel(stored.attrs.get(name, '')).tolist()}\n".encode())
    for name in sorted(map(str, stored.variables)):
        values = np.ascontiguousarray(stored[name].values)
        digest.update(f"{name}: {values.dtype} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` as a Path.

    Raises
    ------
    ValueError
        If it is no name of a file.

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


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write the dataset beside `path` and rename it, float64 for float64.

    Raises
    ------
    OSError
        If it can't be written there; then `path` is as it was, and nothing is left behind.
    ValueError
        If a variable holds neither numbers nor words.
    """
    content = _encode(dataset)
    try:
        with whole_file(path) as beside, beside.open("wb") as file:
            file.write(content)
            file.write(seal(content))
    except (OSError, RuntimeError) as error:
        raise OSError(f"can't write {path}: {_reason(error)}") from error


def _encode(dataset: xr.Dataset) -> memoryview:
    """The bytes of a NetCDF-4 file with the dataset: numbers as they are, no fill values.

    They are made in memory, since HDF5 takes the process with it where a disk fills up, and not by
    `to_netcdf`, which waits for a lock of the cluster where the process has a client of dask.

    Raises
    ------
    ValueError
        If a variable holds neither numbers nor words.
    """
    variables, about = xr.conventions.encode_dataset_coordinates(dataset)
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        file.dimensions = {str(name): size for name, size in dataset.sizes.items()}
        file.attrs.update(about)
        for name, variable in variables.items():
            values: Any = variable.values
            notes = dict(variable.attrs)
            if values.dtype.kind == "b":
                # NetCDF has no truth values: xarray makes them of this
                values, notes["dtype"] = values.astype("i1"), "bool"
            elif values.dtype.kind in WORDS:
                values = values.astype(h5py.string_dtype())
            elif values.dtype.kind not in _WRITTEN_NUMBERS:
                raise ValueError(f"{name} must hold numbers or words, got {values.dtype}")
            packed = {"compression": "gzip"} if values.ndim else {}
            stored = file.create_variable(str(name), variable.dims, values.dtype, **packed)
            stored[...] = values
            stored.attrs.update(notes)
    return content.getbuffer()


def read(path: Path, kind: str, version: int) -> xr.Dataset:
    """All variables and attributes of a file with these `format` and `format_version`.

    A damaged file is told by its seal. HDF5 and xarray trust the bytes that they are given: a file
    whose seal was forged, or left out, is read as it is.

    Raises
    ------
    Exception
        Of any kind, since what a damaged file makes the libraries do is theirs: see `refusals`.
    """
    # a pipe might never end
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"it must be a regular file, got {path.stat().st_mode:o} as its mode")
    with path.open("rb") as file:
        start = file.read(len(_SIGNATURE))
    if start != _SIGNATURE:
        raise ValueError(f"it is no NetCDF-4 file, as it starts with {shown(start)}")
    check_seal(path)
    with h5netcdf.File(path, "r") as file:
        _check_format(file.attrs, kind, version)
        claimed = sum(math.prod(one.shape) * one.dtype.itemsize for one in file.variables.values())
    room = int(_SHARE_OF_MEMORY * min(memory_of_machine(), 1e18))
    if claimed > room:
        raise ValueError(
            f"it holds {claimed} bytes of numbers, of which this machine's memory takes at most "
            f"{room}"
        )
    return xr.load_dataset(path, engine="h5netcdf", decode_times=False, mask_and_scale=False)


def _check_format(about: Any, kind: str, version: int) -> None:
    found = about.get("format")
    if str(found) != kind:
        raise ValueError(f"its format must be {kind!r}, got {shown(found)}")
    given = np.ravel(about.get("format_version"))
    its = integer("format_version", given[0] if given.size == 1 else given, low=1)
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
    """Turn whatever a bad file raises into one ValueError with one line.

    Raises
    ------
    ValueError
        With the name of the file and the reason; a MissingFileError if there is none.
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
        raise ValueError(f"can't read {path}: it is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or repr(error)
    return first_line(str(text))


def first_line(text: str) -> str:
    """The first line of what libraries say of a file, whatever the file puts into it."""
    return text.strip().partition("\n")[0][:_LONGEST_REASON]
