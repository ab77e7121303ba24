"""sweep: a case or a function over a grid of values, each cell a run, as one dataset."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import product
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from meanfield._checks import boolean, check_type, check_unmasked, one_line, unmasked
from meanfield.cli import case as cases
from meanfield.cli.case import Case
from meanfield.cli.runs import check_variable
from meanfield.cli.tables import wrong
from meanfield.evolution import Solution, load, loaded, netcdf, resume_from
from meanfield.evolution.arrays import TERM
from meanfield.evolution.files import file_lock
from meanfield.evolution.recorder import taken_names
from meanfield.evolution.solution import versions
from meanfield.exceptions import CaseError, FileInUseError, warn_unfinished
from meanfield.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

_MOST_CELLS = 10**6


def axis(text: str) -> tuple[str, list[object]]:
    """Key and values of KEY=START:STOP:COUNT, both ends included, or KEY=VALUE,VALUE,….

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> axis("dynamics.beta=1:3:5"), axis("dynamics.type=SA,USA")
    (('dynamics.beta', [1.0, 1.5, 2.0, 2.5, 3.0]), ('dynamics.type', ['SA', 'USA']))
    >>> axis("measure.space.n=64:256:4")
    ('measure.space.n', [64, 128, 192, 256])
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        must = "be KEY=START:STOP:COUNT or KEY=VALUE,VALUE,…, as dynamics.beta=1:10:19"
        raise wrong("grid", must, text)
    return cases.checked_key(key), values_of(values)


def values_of(text: str) -> list[Any]:
    """The values of START:STOP:COUNT, both ends included, or VALUE,VALUE,….

    Raises
    ------
    ValueError
        If it is neither.
    """
    # a quoted string or a list may hold colons, too
    if ":" in text and not set("\"'[{,") & set(text):
        return _interval(text)
    with suppress(ValueError):
        return list(cases.toml_value(f"[{text}]"))
    return [cases.toml_value(part.strip()) for part in text.split(",")]


def _interval(text: str) -> list[float]:
    with suppress(ValueError, TypeError):
        start, stop, count = (cases.toml_value(part) for part in text.split(":"))
        if type(count) is int and 1 <= count <= _MOST_CELLS:
            numbers = np.linspace(start, stop, count)
            if np.isfinite(numbers).all():
                is_whole = type(start) is type(stop) is int and (numbers == numbers.round()).all()
                return [int(x) for x in numbers] if is_whole else numbers.tolist()
    must = f"be START:STOP:COUNT of two finite numbers and an integer from 1 to {_MOST_CELLS}"
    raise wrong("grid", must, text)


def checked_grid(grid: Mapping[str, Sequence[object]]) -> dict[str, list[object]]:
    """The axes as lists of plain values, none of them twice.

    Raises
    ------
    ValueError
        If there is no axis or no value, or there are too many cells.
    """
    if not isinstance(grid, Mapping) or not grid:
        raise wrong("grid", "map at least one key to its values", grid)
    axes = {}
    for key, values in grid.items():
        check_unmasked(f"grid of {key}", values)
        listed: Any = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(listed, (list, tuple, range)) or len(listed) == 0:
            raise wrong("grid", f"map {key} to at least one value", values)
        entries = list[Any](listed)
        plain = [entry.item() if getattr(entry, "ndim", None) == 0 else entry for entry in entries]
        again, times = Counter(map(repr, plain)).most_common(1)[0]
        if times > 1:
            raise ValueError(f"grid must have each value of {key} once, got {again:.80} twice")
        axes[key] = plain
    count = int(np.prod([len(values) for values in axes.values()], dtype=object))
    if count > _MOST_CELLS:
        raise ValueError(f"grid must have at most {_MOST_CELLS} cells, got {count}")
    return axes


def dimension_names(keys: Sequence[str], taken: Container[str] = ()) -> dict[str, str]:
    """The dimension of each key: its last part, or all of it where something else is called that.

    A place in a list has the name of the list.

    Examples
    --------
    >>> dimension_names(["dynamics.beta", "law.laws[0].kappa", "law.laws[1].kappa"])
    {'dynamics.beta': 'beta', 'law.laws[0].kappa': 'law_laws_0_kappa', ...}
    >>> dimension_names(["dynamics.weights.1"])
    {'dynamics.weights.1': 'weights_1'}
    """
    words = [re.sub(r"^.*\.(?!\d+(\.|$))", "", key) for key in keys]
    names = {}
    for key, word in zip(keys, words, strict=True):
        dimension = key if key != word else f"grid_{key}"
        name = word if words.count(word) == 1 and word not in taken else dimension
        names[key] = re.sub(r"\W", "_", name.replace("]", ""))
    return names


ERROR = "error"
FINAL = "final_"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended, and its numbers, None if it had an error.

    Attributes
    ----------
    status, message : str
    dataset : xarray.Dataset or None
    """

    status: str
    message: str
    dataset: xr.Dataset | None = None


def outcome_of(answer: object, terms: Sequence[int] = ()) -> Outcome:
    """The outcome of a call by what it returned: of a run its numbers over t, and at the last save.

    Terms of sums get these numbers, if there are any.

    Raises
    ------
    ValueError
        If that is nothing of which a dataset can be made.
    """
    import xarray as xr

    match answer:
        case Solution():
            return Outcome(answer.status, answer.message, _numbers_of(answer, terms))
        case xr.Dataset():
            # coordinates that are no index become variables
            return Outcome("finished", "", answer.reset_coords())
        case Mapping():
            answers = answer
        case _:
            answers = {"value": answer}
    arrays = {name: unmasked(str(name), variable) for name, variable in answers.items()}
    if any(variable.ndim > 0 or variable.dtype.kind not in "biufc" for variable in arrays.values()):
        must = "return a number, a mapping of numbers, a Solution or a Dataset"
        raise wrong("the function", must, answer)
    dataset = xr.Dataset({name: ((), variable) for name, variable in arrays.items()})
    return Outcome("finished", "", dataset)


def _numbers_of(sol: Solution, terms: Sequence[int]) -> xr.Dataset:
    """The numbers of a run over t, and at the last save."""
    over_t = [
        name for name, column in sol.dataset.data_vars.items() if {*column.dims} - {TERM} == {"t"}
    ]
    numbers = sol.dataset[over_t]
    if terms and TERM in numbers.dims and [*terms] != numbers[TERM].values.tolist():
        # the comment on the terms quotes numbers of one run, so a sweep drops it
        about = {"long_name": numbers[TERM].attrs["long_name"]}
        numbers = numbers.assign_coords({TERM: (TERM, [*terms], about)})
    for name, column in numbers.isel(t=-1).reset_coords("t").items():
        what = f"final {column.attrs.get('long_name', name)}"
        numbers[f"{FINAL}{name}"] = column.assign_attrs(long_name=what)
    return numbers


@dataclass(frozen=True)
class Cell:
    """A call at one combination of values, and the file where its run is kept, if it is.

    Attributes
    ----------
    name : str
        The name in errors.
    call : callable
        It returns what an outcome can be made of.
    file : Path or None
    terms : sequence of int
        The places in the case of those terms of its energy that have a weight.
    """

    name: str
    call: Callable[[], object]
    file: Path | None = None
    terms: Sequence[int] = ()

    def kept(self) -> Outcome | None:
        """The outcome if the run came to its end in an earlier call, else None."""
        with suppress(ValueError):
            if self.file is not None and (outcome := loaded(self.file)).status != "interrupted":
                return outcome_of(outcome, self.terms)
        return None

    def run(self) -> Outcome:
        """Call it, which may resume a run; what it raises is its outcome.

        Raises
        ------
        KeyboardInterrupt
            If it is interrupted; then its file holds what it had.
        """
        try:
            return outcome_of(self.call(), self.terms)
        except Exception as error:
            if str(error).startswith(f"{self.name}: "):
                return Outcome(ERROR, str(error))
            return self.failed(f"{type(error).__name__}: {error}")

    def seen(self, outcome: Outcome) -> Outcome:
        """The outcome as its file has it: what is not there to be read is not finished."""
        if self.file is None or outcome.status == ERROR:
            return outcome
        try:
            solution = load(self.file)
        except ValueError as error:
            return self.failed(f"the run is done, but {error}")
        if solution.status == "interrupted":
            return self.failed(f"the run is done, but {self.file} is not")
        return outcome_of(solution, self.terms)

    def failed(self, why: str) -> Outcome:
        """The outcome of a cell that has none."""
        return Outcome(ERROR, one_line(f"{self.name}: {why}"))

    def lost(self, what: str) -> Outcome:
        """The outcome of a cell whose workers were killed."""
        return self.failed(f"{what}; was there enough memory?")


def _ran(case: Case, file: Path | None) -> Solution:
    """Return the run of a case, resumed from its file if there is one; the file holds it then.

    Raises
    ------
    CaseError
        If the case can't be run, or the file not be written.
    """
    solution = None if file is None else _resumed(case, file)
    if solution is None:
        solution = case.solve(checkpoint=file)
    if file is not None and solution.file is None:
        # `solve` only warns if its file can't be written
        try:
            solution.save(file)
        except OSError as error:
            raise CaseError(f"{case.name}: {error}") from None
    return solution


def _resumed(case: Case, file: Path) -> Solution | None:
    """Return the run that continues a file.

    Remove the file and return None if it can't be resumed.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        saved = loaded(file)
        monitors = case.build_monitors(saved.measures[0]) if saved.resumption else {}
        return resume_from(saved, file, monitors=monitors)
    except FileInUseError:
        raise
    except ValueError:
        file.unlink(missing_ok=True)
        return None


SWEEP, SWEEP_VERSION = "meanfield-sweep", 2
# a table of cells has these columns beside the numbers
_WORDS = ("status", "message", "cell")


def assembled(
    outcomes: Sequence[Outcome],
    files: Sequence[str],
    axes: Mapping[str, NDArray[np.generic]],
    taken: set[str],
) -> xr.Dataset:
    """The cells over the grid of these coordinates, the last axis fastest.

    Its dimensions are called as nothing else is, nor as what is `taken`.
    """
    import xarray as xr

    words = {
        "status": ("how it ended, 'error' where it did not", [item.status for item in outcomes]),
        "message": ("what happened", [item.message for item in outcomes]),
        "cell": ("result file", files),
    }
    columns: Columns = {
        name: ((), np.array(column, dtype=object), {"long_name": attributes})
        for name, (attributes, column) in words.items()
        if name != "cell" or any(files)
    }
    numbers, coords = _columns(outcomes)
    columns |= numbers
    names = dimension_names(list(axes), taken | {*_WORDS} | columns.keys() | coords.keys())
    grid_dims, shape = tuple(names.values()), tuple(map(len, axes.values()))
    variables = {
        name: ((*grid_dims, *dims), rows.reshape(*shape, *rows.shape[1:]), attributes)
        for name, (dims, rows, attributes) in columns.items()
    }
    coords |= {names[key]: (names[key], item, {"long_name": key}) for key, item in axes.items()}
    attributes = {"format": SWEEP, "format_version": SWEEP_VERSION, **versions()}
    attrs = {"Conventions": "CF-1.11", "title": "Sweep", **attributes}
    return xr.Dataset(variables, coords=coords, attrs=attrs)


def _have_equal_terms(outcomes: Sequence[Outcome]) -> bool:
    """Return whether all runs with terms have the same number of them."""
    datasets = [outcome.dataset for outcome in outcomes if outcome.dataset is not None]
    return len({ds.sizes[TERM] for ds in datasets if "term_energy" in ds}) < 2


def _totals(outcome: Outcome) -> Outcome:
    """Return the outcome without the numbers of terms."""
    ds = outcome.dataset
    return replace(outcome, dataset=None if ds is None else ds.drop_dims(TERM, errors="ignore"))


Columns = dict[str, tuple[tuple[str, ...], NDArray[np.generic], dict[str, object]]]


def _columns(outcomes: Sequence[Outcome]) -> tuple[Columns, dict[str, object]]:
    """Return each variable as dimensions, rows of cells and attributes; and the coordinates.

    Coordinates are those of all cells, and no variable is called as one of them, or as what the
    sweep says of each cell. Numbers that a cell does not have are nan, words are "".
    """
    known = [(row, item.dataset) for row, item in enumerate(outcomes) if item.dataset is not None]
    indexes: dict[str, Any] = {}
    about_index: dict[str, dict[str, object]] = {}
    for _, ds in known:
        for name in map(str, ds.dims):
            index = ds.get_index(name)
            # an attribute of an index that differs between cells is left out, such as the numbers
            # of terms
            _keep_common(about_index.setdefault(name, {**ds[name].attrs}), ds[name].attrs)
            if not indexes.setdefault(name, index).equals(index):
                indexes[name] = indexes[name].union(index)
    columns: Columns = {}
    for row, ds in known:
        places = {str(name): indexes[str(name)].get_indexer(ds.get_index(name)) for name in ds.dims}
        for name, item in ((str(name), item) for name, item in ds.data_vars.items()):
            if name not in columns:
                dims = tuple(map(str, item.dims))
                shape = len(outcomes), *(len(indexes[dim]) for dim in dims)
                is_number = item.dtype.kind in "biufc"
                kind = np.result_type(item.dtype, float) if is_number else object
                unset = np.full(shape, np.nan if is_number else "", kind)
                columns[name] = dims, unset, {**item.attrs}
            dims, rows, attrs = columns[name]
            place = row, *np.ix_(*(places[dim] for dim in dims))
            rows[place] = item.transpose(*dims).values.astype(rows.dtype)
            # an attribute that differs between cells is left out
            _keep_common(attrs, item.attrs)
    reserved = {*indexes, *_WORDS}
    for name in sorted(columns.keys() & reserved):
        free = f"value_{name}"
        while free in columns or free in reserved:
            free = f"value_{free}"
        columns[free] = columns.pop(name)
    return columns, {name: (name, indexes[name], about_index[name]) for name in indexes}


def _keep_common(about: dict[str, object], attributes: Mapping[str, object]) -> None:
    """Forget the attributes of a variable that another cell has otherwise."""
    for key in [key for key, value in about.items() if attributes.get(key) != value]:
        del about[key]


def load_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read the dataset of a sweep from its file, in which nothing is executed.

    Raises
    ------
    ValueError
        If the file is missing, no sweep, of another version, cut short or damaged.
    """
    file = netcdf.file_path(path)
    with netcdf.refusals(file), netcdf.opened(file, SWEEP, SWEEP_VERSION) as stored:
        dataset = stored.dataset()
        grid = [str(dim) for dim in dataset["status"].dims] if "status" in dataset else []
        for name in ("status", "message"):
            check_variable(dataset, name, grid, has_words=True)
        for name in (f"{FINAL}energy", f"{FINAL}energy_share"):
            # a sweep in which every cell failed has no numbers
            if name in dataset:
                check_variable(dataset, name, grid, has_words=False)
        return dataset


def _coordinate(values: Sequence[object], as_word: Callable[[object], str]) -> NDArray[np.generic]:
    if all(type(value) in (int, float) for value in values):
        return np.array(values)
    words = [value if isinstance(value, str) else as_word(value) for value in values]
    return np.array(words, dtype=object)


# the file name of a cell has so many of the 64 digits of SHA-256
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
    case_or_function: Case | str | os.PathLike[str] | Callable[..., object],
    grid: Mapping[str, Sequence[object]],
    *,
    overrides: Mapping[str, object] | None = None,
    folder: str | os.PathLike[str] | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Run a case, or call a function, at every combination of some values.

    A cell that fails is recorded with its error, and the others continue. Cells with random tokens
    share the `rng` of the case; for random repetitions, vary "run.rng" in the grid.

    Parameters
    ----------
    case_or_function : str, path-like, Case or callable
        A case file, or a function of keyword arguments that returns a number, a mapping of names
        to numbers, a Solution or a Dataset.
    grid : mapping of str to sequence
        Values of each key of the case, such as {"dynamics.beta": [1, 2, 4], "dynamics.type":
        ["SA", "USA"]}, where a table is a dictionary; or of each keyword of the function, where a
        value may be any object, and has its repr as coordinate.
    overrides : mapping of str to value, optional
        Keys of the case, or keywords of the function, that have one value in all cells.
    folder : str or path-like, optional
        For a case: where each cell is kept as a result file, as soon as it is finished. Cells that
        are found there are not run again, and killed cells are continued. Workers must see the
        folder.
    executor : concurrent.futures.Executor or 'processes', optional
        It runs the cells; without it and `workers` they run here, one after the other.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts cells.

    Returns
    -------
    xarray.Dataset
        Over a dimension for each key, named by its last part: `status`, `message`, and of runs
        final_t, final_energy, …, and over t, too, energy, mass, …, nan at the times of other cells.
        A number that a function returns is called `value`; a Dataset keeps its variables. The page
        docs/cluster.md has all of them.

    Raises
    ------
    ValueError
        If an argument is none of these, a cell is no case, or another sweep writes the folder,
        before any run starts.
    KeyboardInterrupt
        On Ctrl-C; what is in `folder` stays.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If cells have an error or end before `t_end`, once for all of them.

    Examples
    --------
    >>> from meanfield.cli.case import case_from_text
    >>> text = '''
    ... law = {type = "FourierSeries", cos = [0.5]}
    ... measure = {type = "Density", space = {type = "Circle", n = 32}}
    ... dynamics = {beta = 1.0}
    ... run = {t_end = 0.5, save_at = 2}
    ... '''
    >>> ds = sweep(case_from_text(text, "my.toml"), {"dynamics.beta": [0.5, 1.0, 2.0]})
    >>> ds.final_energy.dims, ds.final_energy.sel(beta=1.0).round(6).item()
    (('beta',), 0.687653)
    >>> sweep(lambda x, y: x * y, {"x": [1, 2], "y": [3, 4]}).value.values.tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    # this import loads all studies, so it waits until it is needed
    from meanfield.studies.executors import mapped_by

    boolean("progress", progress)
    cases.check_mapping("overrides", {} if overrides is None else overrides)
    check_type("folder", folder, (str, os.PathLike, NoneType), "the name of a folder")
    axes = checked_grid(grid)
    kept_in = None if folder is None else Path(folder).resolve()
    combinations = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    as_word: Callable[[object], str] = repr
    reserved: set[str] = set()
    attributes: dict[str, object] = {}
    if callable(case_or_function):
        tasks = _calls(case_or_function, combinations, overrides or {}, kept_in)
    else:
        base = _base(case_or_function, overrides)
        tasks = [_cell(base, settings, kept_in) for settings in combinations]
        attributes = {"case": base.text, "grid": json.dumps(axes, ensure_ascii=False)}
        attributes |= base.provenance()
        monitors = base.tables.monitors
        reserved = {*taken_names(monitors), *monitors}
        as_word = cases.as_toml
    if kept_in is not None:
        _make(kept_in)
    # two sweeps in one folder would take each other's unfinished cells for failed
    with file_lock(kept_in, "folder"):
        # a network folder may go on denying a file that was asked for too early, so it is listed
        # first
        existing = set() if kept_in is None else set(kept_in.iterdir())
        outcomes = [task.kept() if task.file in existing else None for task in tasks]
        missing = [index for index, outcome in enumerate(outcomes) if outcome is None]
        # two cells may be the same case, so results are matched by number; β = 1 and β = 1.0 are
        # different cases
        left = [tasks[index] for index in missing]
        results = mapped_by(executor, Cell.run, left, workers=workers, lost=Cell.lost)
        bar = tqdm(total=len(tasks), initial=len(tasks) - len(missing), disable=not progress)
        # if the loop is left early, the tasks end with it
        with bar, closing(results):
            for index, outcome in zip(missing, results, strict=True):
                outcomes[index] = tasks[index].seen(outcome)
                bar.update()
    finished = [outcome for outcome in outcomes if outcome is not None]
    if callable(case_or_function) and not _have_equal_terms(finished):
        finished = [_totals(outcome) for outcome in finished]
        attributes["comment"] = "numbers of terms are left out: runs have different numbers of them"
    files = [task.file.name if task.file else "" for task in tasks]
    coords = {key: _coordinate(values, as_word) for key, values in axes.items()}
    ds = assembled(finished, files, coords, reserved)
    warn_unfinished([item.status for item in finished], [item.message for item in finished])
    return ds.assign_attrs(attributes)


def _calls(
    function: Callable[..., object],
    combinations: Sequence[Mapping[str, object]],
    overrides: Mapping[str, object],
    folder: Path | None,
) -> list[Cell]:
    """Return a cell for each combination of settings.

    Raises
    ------
    ValueError
        If the function takes no such keywords, or its results are to be kept.
    """
    if folder is not None:
        raise ValueError(f"folder must be left out with a function, got {str(folder)!r}")
    keywords = [{**overrides, **settings} for settings in combinations]
    try:
        signature(function).bind(**keywords[0])
    except TypeError as error:
        must = f"must have the keywords of {getattr(function, '__name__', function)}"
        raise ValueError(f"grid and overrides {must}, but {error}") from None
    cells = []
    for settings in keywords:
        name = ", ".join(f"{key}={value!r:.80}" for key, value in settings.items())
        cells.append(Cell(f"with {name}", partial(function, **settings)))
    return cells


def _base(case: Case | str | os.PathLike[str], overrides: Mapping[str, object] | None) -> Case:
    allowed = "the name of a case file, a Case or a function"
    check_type("case_or_function", case, (Case, str, os.PathLike), allowed)
    if isinstance(case, Case):
        base = case.with_keys(overrides, "--set")
    else:
        base = cases.read_case(case, overrides)
    # workers may have another present folder
    base.folder = base.folder.resolve()
    return base


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"got {str(folder)!r}: {error.strerror}"
        raise ValueError(f"folder must be one that is there or can be made, {reason}") from None


def _cell(base: Case, settings: dict[str, object], folder: Path | None) -> Cell:
    case = base.with_keys(
        {cases.checked_key(key): value for key, value in settings.items()}, "--grid"
    )
    file = folder and folder / f"{case.digest()[:_DIGITS]}.nc"
    return Cell(case.name, partial(_ran, case, file), file, _places(case))


def _places(case: Case) -> Sequence[int]:
    """Return the places of the terms of an energy whose weight is not 0; none if it is no sum."""
    tables = case.tables
    owner = tables.dynamics if tables.run.energy is None else tables.run.energy
    terms, weights = getattr(owner, "terms", ()), getattr(owner, "weights", None)
    # weights that vary in time are a table and no list, and then all terms are kept
    numbers = weights if isinstance(weights, list) else [1.0] * len(terms)
    return [place for place, weight in enumerate(numbers) if weight != 0.0]
