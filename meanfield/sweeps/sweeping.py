"""sweep: a case over a grid, as one dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import xarray as xr
from tqdm import tqdm

from meanfield.arguments import boolean, integer, shown
from meanfield.case import About, Case, case_from_text, read_case
from meanfield.exceptions import warn_unfinished
from meanfield.executors import mapped_by
from meanfield.integrate.records import taken_names
from meanfield.sweeps.assembly import assembled
from meanfield.sweeps.grids import cells as cells_of
from meanfield.sweeps.grids import checked_grid, dimension_names
from meanfield.sweeps.runs import Cell, kept, lost, outcome_in_file, run_cell

# of a file name, of the 64 digits of SHA-256
_DIGITS = 20


def cells_beside(file: Path) -> Path:
    """The folder in which the cells of a sweep into `file` are kept.

    Examples
    --------
    >>> cells_beside(Path("sweep.nc")).name
    'sweep.nc.cells'
    """
    return file.with_name(f"{file.name}.cells")


def sweep(
    case: Case | str | os.PathLike[str],
    grid: Mapping[str, Sequence[Any]],
    *,
    settings: Mapping[str, Any] | None = None,
    cells: str | os.PathLike[str] | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Run a case at every combination of values of some of its keys.

    A cell that fails is recorded with its error, and costs no other. Cells with random tokens
    share the seed of the case; for repetitions let the grid have "space.seed".

    Parameters
    ----------
    case : str, path-like or Case
        A case file.
    grid : mapping of str to sequence
        Values of each key, such as {"dynamics.beta": [1, 2, 4], "dynamics.type": ["SA", "USA"]}.
        A table is a dictionary.
    settings : mapping of str to value, optional
        Keys that are set in all cells.
    cells : str or path-like, optional
        Folder in which each cell is kept as a result file, as soon as it is there; cells that are
        found there are not run again, and those that were killed go on. Workers have to see it.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the cells are run; here, one after the other, without one.
    workers : int, optional
        Of 'processes'; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts cells.

    Returns
    -------
    xarray.Dataset
        Over a dimension for each key, named by its last part: `status` ('error' where a cell
        could not be run, or its file can't be read afterwards), `message`, `cell` (the name of its
        file), `energy_unit`, and final_energy, final_mass, …; over these and `save`, a common index
        that is filled up with nan: `t`, energy, mass, ….

    Raises
    ------
    ValueError
        If an argument is none of these, or a cell is no case, before any run starts.
    KeyboardInterrupt
        On Ctrl-C; what is in `cells` stays.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If cells have an error or end before `t_end`, once for all of them.

    Examples
    --------
    >>> from meanfield.case import case_from_text
    >>> text = '''
    ... law = {type = "fourier-series", cos = [0.5]}
    ... space = {type = "circle", n = 32}
    ... dynamics = {beta = 1.0}
    ... run = {t_end = 0.5, save_at = 2}
    ... '''
    >>> ds = sweep(case_from_text(text, "my.toml"), {"dynamics.beta": [0.5, 1.0, 2.0]})
    >>> ds.final_energy.dims, ds.final_energy.sel(beta=1.0).round(6).item()
    (('beta',), 0.687653)
    """
    boolean("progress", progress)
    if not isinstance(settings, (Mapping, NoneType)):
        raise ValueError(f"settings must map keys to values, got {shown(settings)}")
    if not isinstance(cells, (str, os.PathLike, NoneType)):
        raise ValueError(f"cells must be the name of a folder, got {shown(cells)}")
    if workers is not None:
        integer("workers", workers, low=1)
    base = _base(case, settings)
    axes = checked_grid(grid)
    folder = None if cells is None else Path(cells).resolve()
    origin = base.origin()
    tasks = [_cell(base, one, origin, folder) for one in cells_of(axes)]
    _make(folder)
    # folders of a network remember for a while that a file which was asked for is not there
    there = set() if folder is None else set(folder.iterdir())
    outcomes = [kept(task) if task.file in there else None for task in tasks]
    missing = [number for number, one in enumerate(outcomes) if one is None]
    # two cells may be one, as beta = 1 and beta = 1.0 are not
    mapped = mapped_by(
        executor, run_cell, [tasks[number] for number in missing], workers=workers, lost=lost
    )
    bar = tqdm(
        total=len(tasks),
        initial=len(tasks) - len(missing),
        disable=not progress,
    )
    # what ends the loop ends the tasks
    with bar, closing(mapped):
        for number, one in zip(missing, mapped, strict=True):
            outcomes[number] = outcome_in_file(tasks[number], one)
            bar.update()
    found = [one for one in outcomes if one is not None]
    names = dimension_names(list(axes), taken_names(base.monitors) | {*base.monitors})
    files = [task.file.name if task.file else "" for task in tasks]
    ds = assembled(found, files, axes, names)
    warn_unfinished([one.status for one in found], [one.message for one in found])
    about = {"case": base.text, "grid": json.dumps(axes, ensure_ascii=False)}
    return ds.assign_attrs(about | base.provenance())


def _base(case: Case | str | os.PathLike[str], settings: Mapping[str, Any] | None) -> Case:
    if isinstance(case, Case):
        if not settings:
            return case
        again = case_from_text(case.text, case.name, case.folder, settings)
        return again.placed(case.folder, case.origin())
    if not isinstance(case, (str, os.PathLike)):
        raise ValueError(f"case must be the name of a case file or a Case, got {shown(case)}")
    return read_case(Path(case), settings)


def _make(folder: Path | None) -> None:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cells must be a folder, or one that can be made, got {str(folder)!r}: "
            f"{error.strerror}"
        ) from None


def _cell(base: Case, settings: dict[str, Any], origin: About, folder: Path | None) -> Cell:
    case = case_from_text(base.text, base.name, base.folder, settings, "--grid")
    cell = Cell(case.text, case.name, base.folder.resolve(), origin)
    return cell if folder is None else replace(cell, file=folder / f"{case.digest()[:_DIGITS]}.nc")
