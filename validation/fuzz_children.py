"""Inputs tried in a process of their own, which may not hang, crash, or write elsewhere."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.processes import copies

# an input takes milliseconds; a machine under load may be a thousand times slower
PATIENCE = 60.0
# a process loads what its inputs need, beside others that do the same
_TO_START = 600.0
_READY = "ready"
# beyond what the libraries take at the start
ROOM = 2 << 30
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FORBIDDEN = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.system", "os.link")
_EVALUATING = ("subprocess.Popen", "pickle.find_class", "os.exec", "os.posix_spawn", "exec")


@dataclass(frozen=True)
class Trial:
    """What became of one input: '' where it was read, else the message, or what went wrong."""

    message: str
    fault: str = ""


class Watch:
    """What Python does while an input is tried that no reader should."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: Any) -> None:
        if not self.is_on:
            return
        if event == "open":
            is_writing = isinstance(arguments[2], int) and arguments[2] & _WRITING
            if is_writing or set(str(arguments[1] or "")) & set("wax+"):
                self.seen.append(f"open {arguments[0]!r} to write")
        elif event in _FORBIDDEN or (event in _EVALUATING and not _is_import()):
            self.seen.append(event)


def _is_import() -> bool:
    """Whether a module is being loaded, which executes its own code."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def tried(trial: Callable[[Any], None], given: Any, watch: Watch) -> Trial:
    """Try one input; only a ValueError of one line is what a reader may raise."""
    watch.seen.clear()
    message = fault = ""
    watch.is_on = True
    try:
        trial(given)
    except ValueError as error:
        message = str(error)
        if not message or "\n" in message or len(message) > 2000:
            fault = f"no one line: {message!r:.200}"
    except BaseException:
        fault = traceback.format_exc(limit=-3)
    finally:
        watch.is_on = False
    return Trial(message, fault or "; ".join(watch.seen))


def _child(
    make: Any, trial: Any, numbers: Sequence[int], folder: str, at: Any, results: Any
) -> None:
    os.chdir(folder)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    warnings.simplefilter("ignore")
    watch = Watch()
    # what has been loaded until now is no input's time
    results.send(_READY)
    for number in numbers:
        at.value = number
        given = make(number)
        before = set(Path().iterdir())
        found = tried(trial, given, watch)
        left = sorted(map(str, set(Path().iterdir()) - before))
        if left:
            found = Trial(found.message, f"{found.fault} left {left}")
        results.send((number, found))
    results.send(None)


def outcomes(
    make: Callable[[int], Any], trial: Callable[[Any], None], count: int
) -> list[tuple[int, Trial]]:
    """Try `trial(make(i))` for i < count; what kills or stops a process costs that input only."""
    context = copies()
    found: list[tuple[int, Trial]] = []
    first = 0
    with tempfile.TemporaryDirectory() as folder:
        while first < count:
            ours, theirs = context.Pipe(duplex=False)
            at = context.Value("l", first)
            child = context.Process(
                target=_child, args=(make, trial, range(first, count), folder, at, theirs)
            )
            child.start()
            theirs.close()
            try:
                how = _collect(ours, found)
            finally:
                child.kill()
                child.join()
            if not how:
                break
            found.append((at.value, Trial("", f"{how} (exit {child.exitcode})")))
            first = at.value + 1
    return found


def _collect(ours: Any, found: list[tuple[int, Trial]]) -> str:
    """Take outcomes until the child has no more; else how it went wrong."""
    until = time.monotonic() + _TO_START
    while time.monotonic() < until:
        if not ours.poll(1.0):
            continue
        try:
            given = ours.recv()
        except EOFError:
            return "the process died"
        if given is None:
            return ""
        if given != _READY:
            found.append(given)
        until = time.monotonic() + PATIENCE
    return f"no answer within {PATIENCE:g} s"
