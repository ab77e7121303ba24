"""From the outcomes of cells to one dataset over the grid."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from meanfield.case import as_toml
from meanfield.solution import netcdf, versions
from meanfield.sweeps.runs import Outcome

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
        "status": [one.status for one in outcomes],
        "message": [one.message for one in outcomes],
        "cell": list(files),
        "energy_unit": [_unit(one) for one in outcomes],
    }
    variables: dict[str, Any] = {
        name: (over, np.array(column, dtype=object).reshape(shape), {"long_name": _ABOUT[name]})
        for name, column in words.items()
    }
    for name, (rows, about) in series.items():
        variables[name] = ((*over, SAVE), rows.reshape(*shape, -1), about)
    for name, (rows, about) in series.items():
        last = _last(rows, series["t"][0])
        what = {"long_name": f"at the last save: {about.get('long_name', name)}"}
        variables[f"{FINAL}{name}"] = (over, last.reshape(shape), about | what)
    coords = {
        names[key]: (names[key], _coordinate(values), {"long_name": key})
        for key, values in axes.items()
    }
    attrs = {
        "Conventions": "CF-1.11",
        "title": "Sweep of a case",
        "format": SWEEP,
        "format_version": SWEEP_VERSION,
        **versions(),
    }
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
        kinds |= {name: "f" for name in [f"{FINAL}energy"] if name in found}
        for name, kind in kinds.items():
            if name not in found or found[name].dims != over or found[name].dtype.kind not in kind:
                what = "numbers" if kind == "f" else "words"
                raise ValueError(f"{name} must be there, {what} over the grid {over}")
        return found


_ABOUT = {
    "status": "how the run ended; 'error' where there was none",
    "message": "what happened",
    "cell": "name of the result file among the cells",
    "energy_unit": "of the energies of this cell",
}


def _unit(one: Outcome) -> str:
    return "" if one.dataset is None else str(one.dataset.attrs.get("energy_unit", "1"))


def _series(outcomes: Sequence[Outcome]) -> dict[str, tuple[Any, dict[str, str]]]:
    """Each variable as (cells, saves), nan where a cell has no such save, and its attributes."""
    found = [(row, one.dataset) for row, one in enumerate(outcomes) if one.dataset is not None]
    saves = max((ds.sizes["t"] for _, ds in found), default=0)
    columns: dict[str, tuple[Any, dict[str, str]]] = {}
    for row, ds in found:
        for name in map(str, ("t", *ds.data_vars)):
            if name not in columns:
                columns[name] = (np.full((len(outcomes), saves), np.nan), dict(ds[name].attrs))
            columns[name][0][row, : ds.sizes["t"]] = ds[name].values
    return columns


def _last(rows: Any, times: Any) -> Any:
    """The entry of each row at its last time, nan where it has none."""
    counts = np.isfinite(times).sum(axis=1)
    last = rows[np.arange(len(rows)), np.maximum(counts - 1, 0)]
    return np.where(counts > 0, last, np.nan)


def _coordinate(values: Sequence[Any]) -> Any:
    if all(type(one) in (int, float) for one in values):
        return np.array(values)
    words = [one if isinstance(one, str) else as_toml(one) for one in values]
    return np.array(words, dtype=object)
