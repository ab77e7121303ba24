"""What commands that run have in common: signals, progress, and going on."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meanfield.case import case_of
from meanfield.cli.outputs import BAD_INPUT, Refusal
from meanfield.exceptions import Interrupted
from meanfield.integrate import FileInUseError, loaded, resume_from
from meanfield.integrate.checkpoints import UnsavedWarning
from meanfield.solution import MissingFileError, Solution


def shown_progress(quiet: bool) -> bool | str:
    """A bar on a terminal, else a line a minute."""
    if quiet:
        return False
    return sys.stderr.isatty() or "lines"


@contextmanager
def killed_like_ctrl_c() -> Iterator[None]:
    """Inside, a polite kill (SIGTERM, as batch systems send it) ends a run as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def only_installed_code() -> Iterator[None]:
    """Inside, new processes import nothing from the present folder, where they else look first."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = before or "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


@contextmanager
def told_if_unsaved() -> Iterator[list[str]]:
    """Inside, a list that gets the reason why a run's solution is not in its file."""
    reasons: list[str] = []
    show = warnings.showwarning

    def note(message: Warning | str, *more: Any, **further: Any) -> None:
        if isinstance(message, UnsavedWarning):
            reasons.append(str(message))
        else:
            show(message, *more, **further)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnsavedWarning)
        warnings.showwarning = note
        yield reasons


def in_use(error: FileInUseError) -> Refusal:
    """The refusal of a file that another run writes, called as the command line calls it."""
    return Refusal(f"output {str(error).partition(' ')[2]}", BAD_INPUT)


def saved_run(file: Path) -> Solution:
    """What a run has left in its file so far.

    Raises
    ------
    Refusal
        If the file can't be read.
    """
    try:
        return loaded(file)
    except MissingFileError as error:
        hint = "a run that is killed before its first save leaves none, run it again"
        raise Refusal(f"{error}: {hint}", BAD_INPUT) from None
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None


def resumed(saved: Solution, file: Path, progress: bool | str) -> Solution:
    """The solution of a run that was saved in `file`, whose monitors its case tells.

    Raises
    ------
    Refusal
        If it can't be gone on with.
    """
    monitors = {}
    if saved.case and saved.resumption is not None:
        monitors = case_of(saved, file).build_monitors(saved.measures[0])
    try:
        solution = resume_from(saved, file, monitors=monitors, progress=progress)
    except Interrupted as stopped:
        solution = stopped.solution
    except FileInUseError as error:
        raise in_use(error) from None
    except ValueError as error:
        raise Refusal(str(error), BAD_INPUT) from None
    return solution
