"""Global heaps of HDF5 files, walked before the library: one that does not advance hangs it."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_START = b"GCOL\x01\x00\x00\x00"
_SIZE = struct.Struct("<Q")
_OBJECT = struct.Struct("<HHIQ")
_HEAD = len(_START) + _SIZE.size


def check_heaps(path: Path) -> None:
    """Go through each collection of texts and references by the sizes that it states.

    HDF5 follows them without looking: free space of size 0 has no end.

    Raises
    ------
    ValueError
        If an object ends beyond its collection, or free space does not end with it.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(_START)
        while at >= 0:
            _walk(content, at)
            at = content.find(_START, at + 1)


def _walk(content: mmap.mmap, start: int) -> None:
    if start + _HEAD > len(content):
        raise ValueError(
            f"it is cut short or damaged: the heap at byte {start} must be in the file of "
            f"{len(content)} bytes"
        )
    (size,) = _SIZE.unpack_from(content, start + len(_START))
    end = start + size
    if end > len(content):
        raise ValueError(
            f"it is cut short or damaged: the heap at byte {start} must be in the file of "
            f"{len(content)} bytes, got {size}"
        )
    at = start + _HEAD
    while at + _OBJECT.size <= end:
        index, _, _, length = _OBJECT.unpack_from(content, at)
        if index == 0:
            if length != end - at:
                raise ValueError(
                    f"free space of the heap at byte {start} must be {end - at} bytes, got {length}"
                )
            return
        # objects are padded to multiples of 8 bytes
        at += _OBJECT.size + -(-length // 8) * 8
        if at > end:
            raise ValueError(f"an object of the heap at byte {start} claims {length} bytes")
