"""sweep: one case over a grid of values, each cell a run of its own, as one dataset."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from meanfield._checks import boolean, integer, shown
from meanfield.cli import case as cases
from meanfield.cli.case import Case, case_from_text
from meanfield.cli.tables import CaseError, one_line
from meanfield.evolution import FileInUseError, Solution, load, loaded, netcdf, resume_from, solve
from meanfield.evolution.recorder import taken_names
from meanfield.evolution.solution import versions
from meanfield.exceptions import warn_unfinished

_MOST_CELLS = 10**6


def axis(text: str) -> tuple[str, list[Any]]:
    """Key and values of KEY=START:STOP:COUNT, both ends included, or KEY=VALUE,VALUE,….

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> axis("dynamics.beta=1:3:5"), axis("dynamics.type=SA,USA")
    (('dynamics.beta', [1.0, 1.5, 2.0, 2.5, 3.0]), ('dynamics.type', ['SA', 'USA']))
    >>> axis("space.n=64:256:4")
    ('space.n', [64, 128, 192, 256])
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise ValueError(
            f"grid must be KEY=START:STOP:COUNT or KEY=VALUE,VALUE,…, as dynamics.beta=1:10:19, "
            f"got {shown(text)}"
        )
    return cases.checked_key(key), _interval(values) if _is_interval(values) else _listed(values)


def _is_interval(values: str) -> bool:
    # a quoted word or a list may hold colons, too
    return ":" in values and not set("\"'[{,") & set(values)


def _interval(text: str) -> list[Any]:
    try:
        start, stop, count = (cases.toml_value(part) for part in text.split(":"))
        is_counted = type(count) is int and 1 <= count <= _MOST_CELLS
        numbers = np.linspace(start, stop, count) if is_counted else np.array([np.nan])
    except (ValueError, TypeError):
        numbers = np.array([np.nan])
    if isinstance(numbers[0], np.str_) or not np.isfinite(numbers).all():
        raise ValueError(
            f"grid must be START:STOP:COUNT of two finite numbers and an integer from 1 to "
            f"{_MOST_CELLS}, got {shown(text)}"
        )
    is_whole = type(start) is int and type(stop) is int and (numbers == numbers.round()).all()
    return [int(x) for x in numbers] if is_whole else numbers.tolist()


def _listed(text: str) -> list[Any]:
    try:
        return list(cases.toml_value(f"[{text}]"))
    except ValueError:
        return [cases.toml_value(part.strip()) for part in text.split(",")]


def checked_grid(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The axes as lists of plain values, none of them twice.

    Raises
    ------
    ValueError
        If there is no axis or no value, or there are too many cells.
    """
    if not isinstance(grid, Mapping) or not grid:
        raise ValueError(f"grid must map at least one key to its values, got {shown(grid)}")
    axes = {}
    for key, values in grid.items():
        listed = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(listed, (list, tuple, range)) or len(listed) == 0:
            raise ValueError(f"grid must map {key} to at least one value, got {shown(values)}")
        plain = [one.item() if hasattr(one, "item") else one for one in listed]
        again, times = Counter(map(repr, plain)).most_common(1)[0]
        if times > 1:
            raise ValueError(f"grid must have each value of {key} once, got {again:.80} twice")
        axes[cases.checked_key(key)] = plain
    count = int(np.prod([len(values) for values in axes.values()], dtype=object))
    if count > _MOST_CELLS:
        raise ValueError(f"grid must have at most {_MOST_CELLS} cells, got {count}")
    return axes


def dimension_names(keys: Sequence[str], taken: Container[str] = ()) -> dict[str, str]:
    """The dimension of each key: its last part, or all of it where something else is called that.

    Examples
    --------
    >>> dimension_names(["dynamics.beta", "law.laws[0].kappa", "law.laws[1].kappa"])
    {'dynamics.beta': 'beta', 'law.laws[0].kappa': 'law_laws_0_kappa', ...}
    """
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: _variable(one if last.count(one) == 1 and one not in taken else key)
        for key, one in zip(keys, last, strict=True)
    }


def _variable(key: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in key.replace("]", ""))


ERROR = "error"


@dataclass(frozen=True)
class Cell:
    """What a worker needs to run a cell: its case, and the file where the run is kept."""

    case: Case
    file: Path | None = None


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
    try:
        solution = None if cell.file is None else loaded(cell.file)
    except ValueError:
        return None
    return None if solution is None or solution.status == "interrupted" else outcome(solution)


def outcome_in_file(cell: Cell, found: Outcome) -> Outcome:
    """The outcome of a cell as its file has it: what is not there to be read is not finished."""
    if cell.file is None or found.status == ERROR:
        return found
    try:
        solution = load(cell.file)
    except ValueError as error:
        return _failed(cell, f"the run is done, but {error}")
    if solution.status == "interrupted":
        return _failed(cell, f"the run is done, but {cell.file} is not")
    return outcome(solution)


def _failed(cell: Cell, why: str) -> Outcome:
    return Outcome(ERROR, one_line(f"{cell.case.name}: {why}"))


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
        return _failed(cell, f"{type(error).__name__}: {error}")
    if cell.file is not None and kept(cell) is None:
        # a run only warns where its file can't be written
        try:
            solution.save(cell.file)
        except OSError as error:
            return _failed(cell, str(error))
    return outcome(solution)


def lost(cell: Cell, what: str) -> Outcome:
    """The outcome of a cell whose workers were killed."""
    return _failed(cell, f"{what}; was there enough memory?")


def _solution(cell: Cell) -> Solution:
    case = cell.case
    if cell.file is not None:
        cell.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            saved = loaded(cell.file)
            monitors = case.build_monitors(saved.measures[0]) if saved._resumption else {}
            return resume_from(saved, cell.file, monitors=monitors)
        except FileInUseError:
            raise
        except ValueError:
            # there is none, or it can't be gone on with: it is run anew
            cell.file.unlink(missing_ok=True)
    measure, dynamics, keywords = case.build()
    with case.errors("run"):
        return solve(measure, dynamics, **keywords, checkpoint=cell.file)


SWEEP, SWEEP_VERSION = "meanfield-sweep", 1
SAVE = "save"
FINAL = "final_"


def assembled(
    outcomes: Sequence[Outcome],
    files: Sequence[str],
    axes: Mapping[str, Sequence[Any]],
    names: Mapping[str, str],
) -> xr.Dataset:
    """The cells, the last axis fastest, over the dimensions `names` of the axes."""
    shape, over = tuple(len(values) for values in axes.values()), tuple(names.values())
    series = _series(outcomes)
    words = {
        "status": ("how the run ended; 'error' where there was none", [o.status for o in outcomes]),
        "message": ("what happened", [o.message for o in outcomes]),
        "cell": ("name of the result file among the cells", list(files)),
    }
    variables: dict[str, Any] = {
        name: (over, np.array(column, dtype=object).reshape(shape), {"long_name": about})
        for name, (about, column) in words.items()
    }
    for name, (rows, about) in series.items():
        variables[name] = ((*over, SAVE), rows.reshape(*shape, -1), about)
    for name, (rows, about) in series.items():
        last = _last(rows, series["t"][0]).reshape(shape)
        what = {"long_name": f"at the last save: {about.get('long_name', name)}"}
        variables[f"{FINAL}{name}"] = (over, last, about | what)
    coords = {
        names[key]: (names[key], _coordinate(values), {"long_name": key})
        for key, values in axes.items()
    }
    attrs: dict[str, Any] = {"Conventions": "CF-1.11", "title": "Sweep of a case", "format": SWEEP}
    attrs |= {"format_version": SWEEP_VERSION, **versions()}
    return xr.Dataset(variables, coords=coords, attrs=attrs)


def load_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read the dataset of a sweep from its file, in which nothing is executed.

    Raises
    ------
    ValueError
        If the file is missing, no sweep, of a later version, cut short or damaged.
    """
    source = netcdf.file_path(path)
    with netcdf.refusals(source):
        found = netcdf.read(source, SWEEP, SWEEP_VERSION)
        over = found["status"].dims if "status" in found else ()
        kinds = {"status": netcdf.WORDS, "message": netcdf.WORDS}
        # where every cell has an error there are no numbers
        kinds |= {n: "f" for n in (f"{FINAL}energy", f"{FINAL}energy_share") if n in found}
        for name, kind in kinds.items():
            if name not in found or found[name].dims != over or found[name].dtype.kind not in kind:
                what = "numbers" if kind == "f" else "words"
                raise ValueError(f"{name} must be there, {what} over the grid {over}")
        return found


def _series(outcomes: Sequence[Outcome]) -> dict[str, tuple[Any, dict[str, str]]]:
    """Each variable as (cells, saves), nan where a cell has no such save, and its attributes."""
    found = [(row, one.dataset) for row, one in enumerate(outcomes) if one.dataset is not None]
    saves = max((ds.sizes["t"] for _, ds in found), default=0)
    columns: dict[str, tuple[Any, dict[str, str]]] = {}
    for row, ds in found:
        for name in map(str, ("t", *ds.data_vars)):
            if name not in columns:
                columns[name] = (np.full((len(outcomes), saves), np.nan), dict(ds[name].attrs))
            rows, about = columns[name]
            rows[row, : ds.sizes["t"]] = ds[name].values
            # cells may have energies of several kinds: what they are called differs then
            for key in [key for key, text in about.items() if ds[name].attrs.get(key) != text]:
                del about[key]
    return columns


def _last(rows: Any, times: Any) -> Any:
    """The entry of each row at its last time, nan where it has none."""
    counts = np.isfinite(times).sum(axis=1)
    last = rows[np.arange(len(rows)), np.maximum(counts - 1, 0)]
    return np.where(counts > 0, last, np.nan)


def _coordinate(values: Sequence[Any]) -> Any:
    if all(type(one) in (int, float) for one in values):
        return np.array(values)
    words = [one if isinstance(one, str) else cases.as_toml(one) for one in values]
    return np.array(words, dtype=object)


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
        file), and final_energy, final_mass, …; over these and `save`, a common index that is filled
        up with nan: `t`, energy, mass, …. An energy is nan where a cell's dynamics has none, or
        where it overflows; there `energy_share` tells it.

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
    >>> from meanfield.cli.case import case_from_text
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
    from meanfield.studies.executors import mapped_by  # all studies come with it

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
    tasks = [
        _cell(base, dict(zip(axes, values, strict=True)), folder)
        for values in product(*axes.values())
    ]
    _make(folder)
    # folders of a network remember for a while that a file which was asked for is not there
    there = set() if folder is None else set(folder.iterdir())
    outcomes = [kept(task) if task.file in there else None for task in tasks]
    missing = [number for number, one in enumerate(outcomes) if one is None]
    # two cells may be one, as beta = 1 and beta = 1.0 are not
    mapped = mapped_by(
        executor, run_cell, [tasks[number] for number in missing], workers=workers, lost=lost
    )
    bar = tqdm(total=len(tasks), initial=len(tasks) - len(missing), disable=not progress)
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
        again = case_from_text(case.text, case.name, case.folder, settings)
        return again.placed(case.folder, case.origin)
    if not isinstance(case, (str, os.PathLike)):
        raise ValueError(f"case must be the name of a case file or a Case, got {shown(case)}")
    return cases.read_case(Path(case), settings)


def _make(folder: Path | None) -> None:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cells must be a folder, or one that can be made, got {str(folder)!r}: "
            f"{error.strerror}"
        ) from None


def _cell(base: Case, settings: dict[str, Any], folder: Path | None) -> Cell:
    case = case_from_text(base.text, base.name, base.folder, settings, "--grid")
    case = case.placed(base.folder.resolve(), base.origin)
    return Cell(case, folder and folder / f"{case.digest()[:_DIGITS]}.nc")
