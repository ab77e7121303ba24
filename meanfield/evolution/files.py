"""Files of results: each is written whole or not at all, by one writer at a time."""

from __future__ import annotations

import glob
import mmap
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from meanfield.exceptions import FileInUseError

try:
    import fcntl
except ImportError:  # elsewhere than on Unix runs do not tell one another
    fcntl = None  # type: ignore[assignment]

# datasets keep the digest of their source in this attribute, other files in their text
SOURCE = "source_sha256"
# a process that was killed a moment ago may still hold its lock for this long, in seconds
_PATIENCE = 0.5
_PAUSE = 0.05
# a lock is no link, and opening a pipe of its name must not wait
_ITSELF = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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
        draft = Path(folder, path.name)
        yield draft
        _flush(draft, os.O_RDWR)
        draft.replace(path)
    # some systems can't open a folder
    with suppress(PermissionError):
        _flush(path.parent, os.O_RDONLY)


@contextmanager
def set_aside(*paths: Path) -> Iterator[None]:
    """Inside, these files of one folder are away, and at the end they are gone.

    An error brings them back. A kill does not: what is at `paths` is then never of an earlier run.
    """
    existing = [path for path in paths if path.is_file()]
    try:
        folder = existing and TemporaryDirectory(prefix=_beside(paths[0]), dir=paths[0].parent)
    except OSError:
        # a folder that can't be made lets no file be written either, which is reported then
        folder = None
    if not folder:
        yield
        return
    with folder as name:
        away = {path: Path(name, path.name) for path in existing}
        try:
            for path, temporary in away.items():
                path.replace(temporary)
            yield
        except BaseException:
            for path, temporary in away.items():
                if temporary.exists():
                    temporary.replace(path)
            raise


def remove_leftovers(path: Path) -> None:
    """Remove what a process that was killed while it wrote `path` has left beside it."""
    for folder in path.parent.glob(f"{glob.escape(_beside(path))}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> str:
    """The beginning of the names of temporary folders in which a file for `path` is written."""
    return f".{path.name}.writing-"


def _flush(path: Path, flags: int) -> None:
    """Force a file, or the names in a folder, onto the disk, where they survive a power cut."""
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


def is_being_written(path: Path) -> bool:
    """Whether a run is known to be writing `path`."""
    if fcntl is None:
        return False
    try:
        descriptor = _open(_lock_of(path), os.O_RDONLY)
    except (OSError, FileInUseError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return False


@contextmanager
def file_lock(path: Path | None, name: str = "checkpoint") -> Iterator[None]:
    """Inside, no other run may write `path`, a file or a folder; nothing to do where it is None.

    A refusal calls it `name`.

    The lock is the system's own on an empty file beside, and dies with its process: what a killed
    one leaves is the empty file, which the next takes over and removes. Nothing is written into
    it, and a file of that name which has content is locked as it is, and stays.

    Raises
    ------
    FileInUseError
        If another run holds it, or what has its name is a link or no regular file.
    """
    descriptor = None if path is None or fcntl is None else _lock(path, name)
    try:
        yield
    finally:
        if path is not None and descriptor is not None:
            _let_go(descriptor, _lock_of(path))


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _open(lock: Path, how: int) -> int:
    """Return a descriptor of an existing lock: a regular file with this one name, no link.

    Raises
    ------
    FileInUseError
        If it is another kind of file: then it was not put there by a run.
    OSError
        If there is none, or it can't be opened.
    """
    state = lock.lstat()
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        kind = "has other names" if stat.S_ISREG(state.st_mode) else "is a link or no file"
        raise FileInUseError(f"{lock}, which {kind}: remove it")
    descriptor = os.open(lock, how | _ITSELF | os.O_CLOEXEC)
    if os.path.samestat(os.fstat(descriptor), state):
        return descriptor
    os.close(descriptor)
    # another process has replaced the lock
    raise FileNotFoundError(f"{lock} is another file now")


def _lock(path: Path, name: str) -> int | None:
    """A descriptor that holds the lock, None if the folder or its file system allows none."""
    lock, until = _lock_of(path), time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = _make_or_open(lock)
        except FileInUseError as error:
            raise FileInUseError(
                f"{name} must be a file that can be locked, got {str(path)!r}, whose lock would "
                f"be {error}, or choose another name"
            ) from None
        except OSError:
            # a folder without locks lets no result be written either, which is reported then
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > until:
                raise FileInUseError(
                    f"{name} must be one that no other run writes, got {str(path)!r}, which "
                    f"another process is writing: wait for it, or choose another name"
                ) from None
            time.sleep(_PAUSE)
        except OSError:
            _let_go(descriptor, lock)
            return None
        else:
            if _is_still(descriptor, lock):
                return descriptor
            # the holder has removed the lock since it was opened
            os.close(descriptor)


def _make_or_open(lock: Path) -> int:
    while True:
        try:
            # with O_EXCL no link is followed
            return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            try:
                return _open(lock, os.O_RDWR)
            except FileNotFoundError:
                # the holder has removed the lock in between
                continue


def _let_go(descriptor: int, lock: Path) -> None:
    # the name goes first: another process may take the lock as soon as it is released
    if os.fstat(descriptor).st_size == 0:
        lock.unlink(missing_ok=True)
    os.close(descriptor)


def _is_still(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.lstat())
    except OSError:
        return False
