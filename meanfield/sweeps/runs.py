"""One cell of a sweep: a run that is kept in a file of its own, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import xarray as xr

from meanfield.case import About, Case, CaseError, case_from_text, one_line
from meanfield.integrate import FileInUseError, loaded, resume_from, solve
from meanfield.solution import Ending, Solution, load

ERROR = "error"


@dataclass(frozen=True)
class Cell:
    """What a worker needs to run a cell.

    Attributes
    ----------
    text, name : str
        Its case, and what errors call it.
    folder : Path
        Where token files are.
    about : dict
        Where the case comes from.
    file : Path or None
        Where the run is kept.
    """

    text: str
    name: str
    folder: Path
    about: About = field(repr=False)
    file: Path | None = None

    def case(self) -> Case:
        """The case, checked."""
        return case_from_text(self.text, self.name, self.folder).placed(self.folder, self.about)


@dataclass(frozen=True)
class Outcome:
    """How a cell ended, and its numbers over t, None if it had an error.

    Attributes
    ----------
    status, message : str
    dataset : xarray.Dataset or None
    """

    status: str
    message: str
    dataset: xr.Dataset | None = None


def outcome(solution: Solution) -> Outcome:
    """The outcome of a run."""
    over_t = [name for name, one in solution.dataset.data_vars.items() if one.dims == ("t",)]
    return Outcome(solution.status, solution.message, solution.dataset[over_t])


def kept(cell: Cell) -> Outcome | None:
    """The outcome of a cell that came to its end in an earlier call, None if there is none."""
    if cell.file is None:
        return None
    try:
        solution = loaded(cell.file)
    except ValueError:
        return None
    return None if solution.ending is Ending.INTERRUPTED else outcome(solution)


def outcome_in_file(cell: Cell, found: Outcome) -> Outcome:
    """The outcome of a cell as its file has it: what is not there to be read is not finished."""
    if cell.file is None or found.status == ERROR:
        return found
    try:
        solution = load(cell.file)
    except ValueError as error:
        return Outcome(ERROR, one_line(f"{cell.name}: the run is done, but {error}"))
    if solution.ending is Ending.INTERRUPTED:
        return Outcome(ERROR, one_line(f"{cell.name}: the run is done, but {cell.file} is not"))
    return outcome(solution)


def run_cell(cell: Cell) -> Outcome:
    """Run a cell, or go on with it; what it raises is its outcome.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted; then its file holds what it had.
    """
    try:
        solution = _solution(cell)
    except CaseError as error:
        return Outcome(ERROR, str(error))
    except Exception as error:
        return Outcome(ERROR, one_line(f"{cell.name}: {type(error).__name__}: {error}"))
    if cell.file is not None and kept(cell) is None:
        # a run only warns where its file can't be written
        try:
            solution.save(cell.file)
        except OSError as error:
            return Outcome(ERROR, one_line(f"{cell.name}: {error}"))
    return outcome(solution)


def lost(cell: Cell, what: str) -> Outcome:
    """The outcome of a cell whose workers were killed."""
    return Outcome(ERROR, one_line(f"{cell.name}: {what}; was there enough memory?"))


def _solution(cell: Cell) -> Solution:
    case = cell.case()
    if cell.file is not None:
        cell.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            saved = loaded(cell.file)
            monitors = case.build_monitors(saved.measures[0]) if saved.resumption else {}
            return resume_from(saved, cell.file, monitors=monitors)
        except FileInUseError:
            raise
        except ValueError:
            # there is none, or it can't be gone on with: it is run anew
            cell.file.unlink(missing_ok=True)
    measure, dynamics, keywords = case.build()
    with case.errors("run"):
        return solve(measure, dynamics, **keywords, checkpoint=cell.file)
