"""Seals: a digest of a whole file at its end, which tells a damaged file before it is opened."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

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
