"""Where a command writes: found, and checked before any work starts."""

from __future__ import annotations

import hashlib
import json
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.case import Case
from meanfield.files import is_made_from

BAD_INPUT, FAILED_RUN, INTERRUPTED = 2, 1, 130
FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


class Refusal(Exception):
    """What ends a command: one line and an exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


Force = Annotated[
    bool,
    typer.Option("--force", help="Replace files that are there and not of the same case."),
]


def outputs(case: Case, output: Path | None, figure: Path | None, force: bool) -> tuple[Path, Path]:
    """The result file and the figure: as given, else as the case says, else beside each other.

    Raises
    ------
    Refusal
        If one of them can't be written, or is there and not of this case.
    """
    source = case.digest()
    in_case = f"{case.name}: output"
    file, key = output, "--output"
    if file is None:
        file, key = Path(case.output.file), f"{in_case}.file"
    check_output(file, key, (".nc",))
    check_replaceable(file, key, source, force)
    if figure is not None:
        picture, key = figure, "--figure"
    elif case.output.figure is not None:
        picture, key = Path(case.output.figure), f"{in_case}.figure"
    else:
        picture, key = file.with_suffix(".png"), f"the figure beside {key}"
    check_output(picture, key, FIGURE_SUFFIXES)
    check_replaceable(picture, key, source, force)
    return file, picture


def check_output(path: Path, key: str, suffixes: Sequence[str]) -> None:
    """Make sure that a file of that name can be written, and write nothing.

    Raises
    ------
    Refusal
        Naming the option or key, the path and what is allowed.
    """
    allowed = f"a file name that ends in {' or '.join(suffixes)}"
    if path.suffix not in suffixes:
        raise Refusal(f"{key} must be {allowed}, got {str(path)!r}", BAD_INPUT)
    reason = _hindrance(path)
    if reason:
        allowed += " in a folder that can be written"
        raise Refusal(f"{key} must be {allowed}, got {str(path)!r}: {reason}", BAD_INPUT)


def check_replaceable(path: Path, key: str, source: str, force: bool) -> None:
    """Make sure that what is at `path` was made from the same, or may be replaced all the same.

    Raises
    ------
    Refusal
        Naming the option or key, and the path.
    """
    if path.exists() and not force and not is_made_from(path, source):
        raise Refusal(
            f"{key} must be a new file or one of the same case, got {str(path)!r}: --force "
            f"replaces what is there",
            BAD_INPUT,
        )


def source_of(*parts: Any) -> str:
    """SHA-256 of what a command makes its files from, of words, numbers and lists of them."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _hindrance(path: Path) -> str:
    try:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                return "it is no regular file"
        except FileNotFoundError:
            pass
        # permissions tell root nothing, only an attempt does
        with tempfile.TemporaryFile(dir=path.parent):
            return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
