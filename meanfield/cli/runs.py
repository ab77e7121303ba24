"""The files that commands read and write, checked before any work starts, and how runs resume.

Cases and runs are slow to import, and so they are imported where one is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from meanfield.exceptions import FileInUseError, Interrupted, MissingFileError

if TYPE_CHECKING:
    import xarray as xr

    from meanfield.cli.case import Case
    from meanfield.evolution import Solution

P = ParamSpec("P")
Value = TypeVar("Value")
BAD_INPUT, FAILED_RUN, INTERRUPTED = 2, 1, 130
FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


class Refusal(Exception):
    """The end of a command: one line and an exit status."""

    def __init__(self, message: str, status: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.status = status


def check_figure(
    figure: Path | None, file: Path, keys: tuple[str, str], source: str, force: bool
) -> Path:
    """The path of a result's figure, by the options or keys of both; beside it by default.

    Raises
    ------
    Refusal
        If it can't be written, or is there and not made from the same.
    """
    key, figure_key = keys
    if figure is None:
        figure, figure_key = file.with_suffix(".png"), f"the figure beside {key}"
    check_output(figure, figure_key, FIGURE_SUFFIXES, source, force)
    return figure


def check_output(path: Path, key: str, suffixes: Sequence[str], source: str, force: bool) -> None:
    """Make sure that a file of that name can be written; write nothing.

    What is there has to be made from the same, unless it may be replaced all the same.

    Raises
    ------
    Refusal
        Naming the option or key, the path and what is allowed.
    """
    _check_place(path, key, suffixes)
    _check_contents(path, key, source, force)


@contextmanager
def claimed(
    path: Path | None, key: str, suffixes: Sequence[str], source: str, force: bool
) -> Iterator[None]:
    """Inside, a file that is checked as by `check_output` is this command's, and no other's.

    A run that has a checkpoint does so by itself.

    Raises
    ------
    Refusal
        Also if another command or run is writing it.
    """
    if path is None:
        yield
        return
    from meanfield.evolution.files import file_lock, remove_leftovers

    _check_place(path, key, suffixes)
    with refused(FileInUseError), file_lock(path, key):
        _check_contents(path, key, source, force)
        remove_leftovers(path)
        yield


def _check_place(path: Path, key: str, suffixes: Sequence[str]) -> None:
    allowed = f"a file name that ends in {' or '.join(suffixes)}"
    if path.suffix not in suffixes:
        raise Refusal(f"{key} must be {allowed}, got {str(path)!r}")
    if reason := _hindrance(path):
        where = "in a folder that can be written"
        raise Refusal(f"{key} must be {allowed} {where}, got {str(path)!r}: {reason}")


def _check_contents(path: Path, key: str, source: str, force: bool) -> None:
    from meanfield.evolution.files import is_made_from

    if path.exists() and not force and not is_made_from(path, source):
        must = f"{key} must be a new file or one of the same case"
        raise Refusal(f"{must}, got {str(path)!r}: --force replaces what is there")


@contextmanager
def refused(*kinds: type[Exception], status: int = BAD_INPUT, before: str = "") -> Iterator[None]:
    """Inside, an error of these kinds ends the command, with its message after another text.

    Raises
    ------
    Refusal
        For each of them.
    """
    try:
        yield
    except kinds as error:
        raise Refusal(f"{before}{error}", status) from None


@contextmanager
def refusals(written: Path | str = "", status: int = FAILED_RUN) -> Iterator[None]:
    """Inside, a ValueError is bad input, and an OSError has the status of what can't be written.

    Raises
    ------
    Refusal
        For either.
    """
    unwritten = f"can't write{' ' * bool(written)}{written}: "
    # an error may be an OSError and a ValueError, and the inner block counts
    with refused(OSError, status=status, before=unwritten), refused(ValueError):
        yield


def source_of(*parts: object) -> str:
    """SHA-256 of what a command makes its files from, of words, numbers and lists of them."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def write_dataset(ds: xr.Dataset, file: Path, source: str) -> None:
    """Write a dataset with the digest of what it is made from."""
    from meanfield.evolution import netcdf
    from meanfield.evolution.files import SOURCE

    netcdf.write(ds.assign_attrs({SOURCE: source}), file)


def check_variable(ds: xr.Dataset, name: str, dims: Sequence[str], *, has_words: bool) -> None:
    """Check that a dataset has a variable over these dimensions, of words or of numbers.

    Raises
    ------
    ValueError
        Naming the variable and the dimensions.
    """
    from meanfield.evolution.netcdf import WORDS

    if name not in ds or [*ds[name].dims] != [*dims] or (ds[name].dtype.kind in WORDS) != has_words:
        what = "words" if has_words else "numbers"
        raise ValueError(f"{name} must be there, {what} over ({', '.join(dims)})")


def _hindrance(path: Path) -> str:
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                return "it is no regular file"
        # root may write anywhere by its permissions, so only an attempt tells
        with tempfile.TemporaryFile(dir=path.parent):
            return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)


_RESULT = b"\x89HDF"


def keys_from(
    option: str, settings: Sequence[str] | None, parse: Callable[[str], tuple[str, Value]]
) -> dict[str, Value]:
    """Keys and what belongs to them, from an option that is given once for each.

    Raises
    ------
    Refusal
        If one can't be parsed, or a key comes twice.
    """
    keys: dict[str, Value] = {}
    for text in settings or []:
        with refused(ValueError, before=f"{option} {text}: "):
            key, value = parse(text)
        if key in keys:
            raise Refusal(f"{option} must have each key once, got {key} twice")
        keys[key] = value
    return keys


def chosen_case(path: Path | None, texts: Sequence[str] | None) -> tuple[Case, Solution | None]:
    """The case of a file, of a result (then with that), or the bundled one.

    Raises
    ------
    CaseError
        If it is none.
    Refusal
        If what is set is malformed, or a result can't be read.
    """
    from meanfield.cli.case import case_from_text, case_of, default_case_text, read_case, setting

    settings = keys_from("--set", texts, setting)
    if path is None:
        return case_from_text(default_case_text(), "bundled case", settings=settings), None
    if not _is_result(path):
        return read_case(path, settings), None
    earlier = loaded_run(path)
    return case_of(earlier, path, settings), earlier


def _is_result(path: Path) -> bool:
    with suppress(OSError):
        # a device or a pipe may never end, so only a regular file is read
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(_RESULT)) == _RESULT
    return False


def shown_progress(quiet: bool) -> bool | str:
    """A bar on a terminal, else a line a minute."""
    return not quiet and (sys.stderr.isatty() or "lines")


@contextmanager
def killed_like_ctrl_c() -> Iterator[None]:
    """Inside, a polite kill (SIGTERM, as batch systems send it) ends a run as Ctrl-C does."""
    earlier_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier_handler)


_ONLY_INSTALLED = "PYTHONSAFEPATH"


@contextmanager
def executor_of(
    name: str | None, workers: int | None, scheduler: str | None
) -> Iterator[dict[str, Any]]:
    """Inside, the keywords `executor` and `workers` of what runs elsewhere, as options tell.

    Raises
    ------
    Refusal
        If there is no such executor, or it is lost.
    """
    from meanfield.studies.executors import opened

    with ExitStack() as stack:
        # new processes would first look for modules in the present folder
        if not os.environ.get(_ONLY_INSTALLED):
            os.environ[_ONLY_INSTALLED] = "1"
            stack.callback(os.environ.pop, _ONLY_INSTALLED)
        with refused(ValueError, before="--"):
            where = stack.enter_context(opened(name, scheduler, workers))
        with refused(RuntimeError, status=FAILED_RUN):
            yield where


def ended(run: Callable[P, Solution], *args: P.args, **keywords: P.kwargs) -> Solution:
    """The solution that a run leaves, also one that Ctrl-C ends.

    Raises
    ------
    Refusal
        If another run writes its file.
    """
    try:
        return run(*args, **keywords)
    except Interrupted as stopped:
        solution: Solution = stopped.solution
        return solution
    except FileInUseError as error:
        # the message calls the argument `output`, as the command line does
        raise Refusal(f"output {str(error).partition(' ')[2]}") from None


def loaded_run(file: Path, to_resume: bool = False) -> Solution:
    """The run in a result file, or what it has left there so far.

    Raises
    ------
    Refusal
        If the file can't be read, with what to do where it is missing.
    """
    from meanfield.evolution import load, loaded

    try:
        return loaded(file) if to_resume else load(file)
    except (OSError, ValueError) as error:
        is_missing = to_resume and isinstance(error, MissingFileError)
        hint = ": a run that is killed before its first save leaves none, run it again"
        raise Refusal(f"{error}{hint if is_missing else ''}") from None


def resumed(saved: Solution, file: Path, progress: bool | str) -> Solution:
    """The solution of a run that was saved in `file`, whose monitors its case defines.

    Raises
    ------
    Refusal
        If it can't be resumed.
    """
    from meanfield.cli.case import case_of
    from meanfield.evolution import resume_from

    monitors = {}
    if saved.case and saved.resumption is not None:
        monitors = case_of(saved, file).build_monitors(saved.measures[0])
    with refusals():
        return ended(resume_from, saved, file, monitors=monitors, progress=progress)
