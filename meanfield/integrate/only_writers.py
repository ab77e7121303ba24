"""One writer for a result file: a second run that would write it is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # elsewhere than on Unix runs do not tell one another
    fcntl = None  # type: ignore[assignment]

# a process that was killed a moment ago may not be gone yet
_PATIENCE = 0.5
_PAUSE = 0.05


class FileInUseError(ValueError):
    """Another run is writing the result file."""


def writer_of(path: Path) -> str:
    """The run that is writing `path`, such as 'process 4711'; empty where none is known to."""
    if fcntl is None:
        return ""
    try:
        descriptor = os.open(_lock_of(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    except OSError:
        return ""
    else:
        return ""
    finally:
        os.close(descriptor)


@contextmanager
def only_writer(path: Path | None, name: str = "checkpoint") -> Iterator[None]:
    """Inside, no other run may write `path`; nothing to do where it is None.

    A refusal calls it `name`.

    The lock is the system's own on a file beside, and dies with its process: what a killed one
    leaves is an empty name, which the next takes over and removes.

    Raises
    ------
    FileInUseError
        If another run holds it.
    """
    descriptor = None if path is None or fcntl is None else _locked(path, name)
    try:
        yield
    finally:
        if path is not None and descriptor is not None:
            # before it is let go: another may take the name from then on
            _lock_of(path).unlink(missing_ok=True)
            os.close(descriptor)


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _locked(path: Path, name: str) -> int | None:
    """A descriptor that holds the lock, None where the folder or its file system allows none."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            # nor will a result be written there, which is said then
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            if time.monotonic() > until:
                raise FileInUseError(
                    f"{name} must be a file that no other run writes, got {str(path)!r}, which "
                    f"{holder} is writing: wait for it, or choose another name"
                ) from None
            time.sleep(_PAUSE)
        except OSError:
            os.close(descriptor)
            _lock_of(path).unlink(missing_ok=True)
            return None
        else:
            if _is_still(descriptor, _lock_of(path)):
                _sign(descriptor)
                return descriptor
            # its holder has removed it in between
            os.close(descriptor)


def _is_still(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.stat())
    except OSError:
        return False


def _sign(descriptor: int) -> None:
    # on a full disk the lock has no name in it, and holds all the same
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def _holder(descriptor: int) -> str:
    with suppress(OSError):
        number = os.pread(descriptor, 20, 0)
        if number.isdigit():
            return f"process {number.decode()}"
    return "another process"
