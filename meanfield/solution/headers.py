"""What a result file says of itself, looked at before memory is taken for its numbers."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from meanfield.arguments import integer, shown

# deflate packs at most 1032 to 1: a file that claims more than this holds no such numbers
_BYTES_PER_STORED_BYTE = 1100
_BYTES_FREE = 1 << 20
# of the machine's memory, what the numbers of one file may take: they are copied while read
_SHARE_OF_MEMORY = 0.25
_MOST_VARIABLES, _MOST_ATTRIBUTES = 1 << 14, 1 << 10
_LARGEST_ATTRIBUTE = 1 << 20
_MOST_AXES = 8
# of HDF5: deflate, shuffle and a checksum
_FILTERS = {1, 2, 3}
_NUMBERS = "biuf"
# how HDF5 marks a dimension that has no variable
_BARE_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"
# lists of references that belong to dimensions, as NetCDF-4 has them
_OF_DIMENSIONS = ("DIMENSION_LIST", "REFERENCE_LIST")


def check_header(path: Path, kind: str, version: int, words: bool = False) -> None:
    """Check `format`, links, shapes, types, chunks, filters and attributes; no number is read.

    A file of ours holds variables at its root, of plain numbers, or of texts where there may be
    `words`, that are in the file itself. `kind` is what its `format` must be, and `version` the
    latest `format_version`.

    Raises
    ------
    ValueError
        Naming what is refused, its value and what is allowed.
    """
    with h5py.File(path, "r") as file:
        if len(file) > _MOST_VARIABLES:
            raise ValueError(f"it must have at most {_MOST_VARIABLES} variables, got {len(file)}")
        _check_attributes("it", file)
        _check_format(file.attrs, kind, version)
        stored = claimed = 0
        for name in file:
            link = file.get(name, getlink=True)
            is_here = isinstance(link, h5py.HardLink)
            what = file.get(name, getclass=True).__name__ if is_here else "link to another place"
            if what != h5py.Dataset.__name__:
                raise ValueError(
                    f"it must hold variables and nothing else, got {_shown(name)}, a {what.lower()}"
                )
            variable = file[name]
            _check_variable(_shown(name), variable, words)
            if not _is_bare_dimension(variable):
                stored += variable.id.get_storage_size()
                claimed += _claim(variable)
    _check_room(claimed, stored, path.stat().st_size)


def _shown(name: Any) -> str:
    return name if isinstance(name, str) and name.isidentifier() else f"{name!r:.80}"


def _check_format(about: Any, kind: str, version: int) -> None:
    found = about.get("format")
    if not isinstance(found, str) or found != kind:
        raise ValueError(f"its format must be {kind!r}, got {shown(found)}")
    given = np.ravel(about.get("format_version"))
    its = integer("format_version", given[0] if given.size == 1 else given, low=1)
    if its > version:
        raise ValueError(f"this file has version {its}; this meanfield reads up to {version}")


def _claim(variable: h5py.Dataset) -> int:
    return int(math.prod(variable.shape) * variable.dtype.itemsize)


def _check_variable(name: str, variable: h5py.Dataset, words: bool) -> None:
    if variable.shape is None or len(variable.shape) > _MOST_AXES:
        raise ValueError(f"{name} must have at most {_MOST_AXES} axes, got {variable.shape}")
    is_text = words and h5py.check_string_dtype(variable.dtype) is not None
    if variable.dtype.kind not in _NUMBERS and not is_text:
        raise ValueError(f"{name} must hold numbers, got {variable.dtype}")
    _check_attributes(name, variable)
    plan = variable.id.get_create_plist()
    if variable.is_virtual or plan.get_external_count():
        raise ValueError(f"{name} must be in the file itself, got a part of another file")
    filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
    if not set(filters) <= _FILTERS or len(set(filters)) < len(filters):
        raise ValueError(
            f"{name} must be packed by deflate, shuffle and fletcher32 at most, each once, "
            f"got the filters {filters}"
        )
    if _is_bare_dimension(variable):
        return
    claim, stored = _claim(variable), variable.id.get_storage_size()
    # what is never written reads as zeros, in memory of the size that is claimed
    if claim > _BYTES_FREE + _BYTES_PER_STORED_BYTE * stored:
        raise ValueError(f"{name} claims to hold {claim} bytes of numbers, but has only {stored}")
    chunk = math.prod(variable.chunks or (0,)) * int(variable.dtype.itemsize)
    if chunk > max(4 * _BYTES_FREE, 2 * claim):
        raise ValueError(
            f"{name} must have chunks no larger than its {claim} bytes, got {chunk} bytes"
        )


def _is_bare_dimension(variable: h5py.Dataset) -> bool:
    about = variable.attrs.get("NAME") if "CLASS" in variable.attrs else None
    return isinstance(about, bytes) and about.startswith(_BARE_DIMENSION)


def _check_attributes(of: str, thing: Any) -> None:
    attributes = thing.attrs
    if len(attributes) > _MOST_ATTRIBUTES:
        raise ValueError(
            f"{of} must have at most {_MOST_ATTRIBUTES} attributes, got {len(attributes)}"
        )
    for name in attributes:
        one = attributes.get_id(name)
        kind, count = one.dtype, math.prod(one.shape or ())
        where = f"the attribute {_shown(name)} of {of}"
        if count * kind.itemsize > _LARGEST_ATTRIBUTE:
            raise ValueError(
                f"{where} must have at most {_LARGEST_ATTRIBUTE} bytes, got {count * kind.itemsize}"
            )
        is_text = kind.kind == "S" or (h5py.check_string_dtype(kind) is not None and count <= 1)
        if not (is_text or kind.kind in _NUMBERS or name in _OF_DIMENSIONS):
            raise ValueError(f"{where} must be a text or numbers, got {count} of {kind}")


def _check_room(claimed: int, stored: int, size: int) -> None:
    if stored > size or claimed > _BYTES_FREE + _BYTES_PER_STORED_BYTE * size:
        raise ValueError(f"it claims to hold {claimed} bytes of numbers, but has only {size} bytes")
    room = int(_SHARE_OF_MEMORY * min(memory_of_machine(), 1e18))
    if claimed > room:
        raise ValueError(
            f"it holds {claimed} bytes of numbers, of which this machine's memory takes at most "
            f"{room}"
        )


def memory_of_machine() -> float:
    """Bytes of memory that the machine has; without end where it doesn't tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
