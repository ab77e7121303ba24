"""Files of results: each is written whole or not at all, and tells what it was made from."""

from __future__ import annotations

import glob
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

# the attribute of a dataset; other files have its text among their words
SOURCE = "source_sha256"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Inside, a name to write to; at the end that file takes the place of `path`.

    It is in a new folder beside `path`, whose name nobody can foresee. A link at `path` is
    replaced, and what it leads to stays.

    Raises
    ------
    OSError
        If it can't be written there; then `path` is as it was, and nothing is left behind.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is there already, and is not a file")
    with TemporaryDirectory(prefix=_beside(path), dir=path.parent) as folder:
        beside = Path(folder, path.name)
        yield beside
        _flush(beside, os.O_RDWR)
        beside.replace(path)
    # not every system lets a folder be opened
    with suppress(PermissionError):
        _flush(path.parent, os.O_RDONLY)


@contextmanager
def set_aside(*paths: Path) -> Iterator[None]:
    """Inside, these files of one folder are away, and at the end they are gone.

    An error brings them back. A kill does not: what is at `paths` is then never of an earlier run.
    """
    there = [path for path in paths if path.is_file()]
    try:
        folder = there and TemporaryDirectory(prefix=_beside(paths[0]), dir=paths[0].parent)
    except OSError:
        # nor will a file be written there, which is said then
        folder = None
    if not folder:
        yield
        return
    with folder as name:
        away = {path: Path(name, path.name) for path in there}
        try:
            for path, other in away.items():
                path.replace(other)
            yield
        except BaseException:
            for path, other in away.items():
                if other.exists():
                    other.replace(path)
            raise


def remove_leftovers(path: Path) -> None:
    """Remove what a process that was killed while it wrote `path` has left beside it."""
    for folder in path.parent.glob(f"{glob.escape(_beside(path))}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> str:
    """How the names of folders begin in which a file for `path` is written."""
    return f".{path.name}.writing-"


def _flush(path: Path, flags: int) -> None:
    """Have a file, or a folder's names, on the disk itself, where a power cut leaves them."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_made_from(path: Path, source: str) -> bool:
    """Whether a file has this SHA-256 among its words, as all files of a command have."""
    try:
        if not path.is_file() or path.stat().st_size < len(source):
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as words:
            return words.find(source.encode()) >= 0
    except OSError:
        return False
