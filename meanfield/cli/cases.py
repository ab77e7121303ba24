"""The case of a command: from a file or a result, with what its options set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.case import Case, case_from_text, case_of, default_case_text, read_case, setting
from meanfield.cli.outputs import BAD_INPUT, Refusal
from meanfield.solution import Solution, load

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the case, as dynamics.beta=5; a TOML value or a bare word. Repeatable.",
    ),
]
_RESULT = b"\x89HDF"


def settings_from(given: Sequence[str] | None) -> dict[str, Any]:
    """Keys and values of `--set`.

    Raises
    ------
    Refusal
        If one is no KEY=VALUE, or a key is set twice.
    """
    settings: dict[str, Any] = {}
    for text in given or []:
        try:
            key, value = setting(text)
        except ValueError as error:
            raise Refusal(f"--set {text}: {error}", BAD_INPUT) from None
        if key in settings:
            raise Refusal(f"--set must set each key once, got {key} twice", BAD_INPUT)
        settings[key] = value
    return settings


def chosen_case(path: Path | None, given: Sequence[str] | None) -> tuple[Case, Solution | None]:
    """The case of a file, of a result (then with that), or the bundled one.

    Raises
    ------
    CaseError
        If it is none.
    Refusal
        If what is set is malformed, or a result can't be read.
    """
    settings = settings_from(given)
    if path is None:
        return case_from_text(default_case_text(), "bundled case", settings=settings), None
    if not _is_result(path):
        return read_case(path, settings), None
    try:
        earlier = load(path)
    except (OSError, ValueError) as error:
        raise Refusal(str(error), BAD_INPUT) from None
    return case_of(earlier, path, settings), earlier


def _is_result(path: Path) -> bool:
    # a device or a pipe might never end
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_RESULT)) == _RESULT
    except OSError:
        return False
