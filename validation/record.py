"""RESULTS.md: sections of scripts with what each ran with, and those of earlier runs kept."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import meanfield as mf
from validation._inside import version_of
from validation.claims import table
from validation.runner import HEADINGS, Outcome

RESULTS = Path(__file__).parent / "RESULTS.md"
_LIBRARIES = "numpy", "scipy", "pyfftw", "ducc0"
_SECTION = "\n## `"
_FORMS = "The full form", "The quick form"
_OPENING = (
    "# Results\n\nWritten by `meanfield validate --write`; [README.md](README.md) tells what the "
    "scripts show. Each section says what its script ran with."
)


@dataclass(frozen=True)
class Section:
    """What the file says of one script: its row of the table, and all below its heading."""

    row: str
    text: str


def last_seconds() -> dict[str, float]:
    """How long each script took when the file was written, where it says so."""
    if not RESULTS.exists():
        return {}
    head = RESULTS.read_text(encoding="utf-8").partition(_SECTION)[0]
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line.startswith("| ")]
    return {row[0]: float(row[3]) for row in rows if len(row) > 3 and row[3].isdigit()}


def recorded() -> dict[str, Section]:
    """The sections of the file, by script; none where there is no file.

    Raises
    ------
    ValueError
        If a section has no row in the table, or does not say what it ran with.
    """
    if not RESULTS.exists():
        return {}
    head, *parts = RESULTS.read_text(encoding="utf-8").split(_SECTION)
    found = {}
    for part in parts:
        name, _, text = part.partition("`\n")
        row = next((line for line in head.splitlines() if line.startswith(f"| {name} |")), "")
        if not row or not any(line.startswith(_FORMS) for line in text.splitlines()):
            raise ValueError(
                f"{RESULTS.name} must have a row for each section and say what it ran with, for "
                f"sections to be replaced; got neither of {name!r}, so write all scripts"
            )
        found[name] = Section(row, text.strip())
    return found


def sections(outcomes: Sequence[Outcome], quick: bool) -> dict[str, Section]:
    """Those of scripts that have just run here."""
    form = f"{_FORMS[quick]}, with {_surroundings()}."
    found = {}
    for one in outcomes:
        parts = [one.about, form]
        parts += [f"**{one.error}**"] * bool(one.error)
        parts += [table(one.claims)] * bool(one.claims)
        found[one.name] = Section(_line(one.row), "\n\n".join(parts))
    return found


def write(named: dict[str, Section]) -> None:
    """The file anew, of these sections in their order."""
    head = [_line(list(HEADINGS)), _line(["---"] * len(HEADINGS))]
    parts = [_OPENING, "\n".join([*head, *(one.row for one in named.values())])]
    parts += [f"{_SECTION.strip()}{name}`\n\n{one.text}" for name, one in named.items()]
    beside = RESULTS.with_suffix(".part")
    beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    beside.replace(RESULTS)


def _surroundings() -> str:
    versions = {
        "meanfield": mf.__version__,
        **{name: version_of(name) for name in _LIBRARIES},
        "Python": platform.python_version(),
    }
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{told}, on {os.cpu_count()} cores"


def _line(cells: list[str]) -> str:
    # a bar would end the cell
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
