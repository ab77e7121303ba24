"""The lines that the command line prints about a run and about the machine."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from meanfield._checks import one_line
from meanfield.cli.sweeps import FINAL, cells_beside
from meanfield.dynamics import adapt
from meanfield.dynamics.facts import term_names
from meanfield.dynamics.titles import dynamics_title
from meanfield.dynamics.with_energy import why_no_energy
from meanfield.evolution import Solution
from meanfield.evolution.files import is_being_written
from meanfield.evolution.recorder import MOST_TERMS, with_role
from meanfield.evolution.solution import other_versions, version_of
from meanfield.spaces import Sphere
from meanfield.typing import Array

if TYPE_CHECKING:
    import xarray as xr

_MISSING = "_missing"
# a table has about so many rows
_ROWS = 11
# the width of a list, in characters
_WIDTH = 80
_LIBRARIES = (
    *("numpy", "scipy", "pyfftw", "ducc0", "xarray", "h5netcdf", "h5py", "matplotlib"),
    *("pydantic", "typer", "tqdm"),
)


def _size_name(solution: Solution) -> str:
    first, last = (getattr(m, "space", None) for m in (solution.measures[0], solution.final))
    if last is not None:
        return str(last.size_name)
    return "size" if first is not None else "nodes" if hasattr(solution.final, "tol") else "n"


def table(solution: Solution) -> str:
    """About ten of the times saved, at equal strides, and the last."""
    data = solution.numbers
    columns = {"t": [f"{t:.5g}" for t in solution.t]}
    # at some times a measure may have no such number
    further_columns = {
        **{name: (name, ".10g") for name in with_role(data, "energy", "share")[:1]},
        **{name: (name, ".4e") for name in with_role(data, "order", "rate", "speed")[:1]},
        "term_energy": ("energy", ".6g"),
        "mass": ("1-mass", ".1e"),
        "min_density": ("min f", ".3e"),
        "tail": ("tail", ".1e"),
        "size": (_size_name(solution), ".0f"),
        "n_clusters": ("clusters", ".0f"),
    }
    for name, (heading, form) in further_columns.items():
        if name in data:
            values = data[name].values
            if values.ndim > 1:
                # a sum has a column for each term
                for i, column in enumerate(values.T if values.shape[1] <= MOST_TERMS else ()):
                    columns[f"{heading} {i}"] = [f"{v:{form}}" for v in column]
                continue
            if name == "mass":
                values = 1.0 - values
            if name == "min_density":
                # the nodes of a flow map miss the place where f is least
                on_grid = [hasattr(measure, "space") for measure in solution.measures]
                values = np.where(on_grid, values, np.nan)
                if not any(on_grid):
                    continue
            columns[heading] = _cells(values, form)
    return _columns(columns, "{} of {} saves shown, the file has all")


def _cells(values: Array, form: str) -> list[str]:
    """Numbers in a form, and a dash for each that is not known."""
    return [f"{value:{form}}" if np.isfinite(value) else "-" for value in values]


def table_of_comparison(data: xr.Dataset) -> str:
    """About ten of the common times of two runs, at equal strides, and the last."""
    columns = {"t": [f"{t:.5g}" for t in data["t"].values]}
    for name in [name for name in ("energy", "energy_share") if name in data][:1]:
        for run in data["run"].values:
            columns[f"{name} {run}"] = [f"{v:.10g}" for v in data[name].sel(run=run).values]
    headings = {"mean_difference": "means", "mmd": "mmd", "w1": "W_1"}
    for name, heading in headings.items():
        if name in data:
            ends = [data[f"{name}_{end}"].values for end in ("lower", "upper") if name == "w1"]
            rows = [_cells(values, ".3e") for values in ends or [data[name].values]]
            columns[heading] = [" … ".join(dict.fromkeys(cell)) for cell in zip(*rows, strict=True)]
    return _columns(columns, "{} of {} times shown, --output keeps all")


def missing_of_comparison(data: xr.Dataset) -> list[str]:
    """A line for each reason why two runs lack numbers at some times or at all."""
    lacking: dict[str, list[str]] = {}
    for name in data.attrs:
        if name.endswith(_MISSING):
            lacking.setdefault(data.attrs[name], []).append(name.removesuffix(_MISSING))
    return [
        f"{', '.join(names)} {'are' if names[1:] else 'is'} missing: {reason}"
        for reason, names in lacking.items()
    ]


def _columns(columns: Mapping[str, Sequence[str]], left_out: str) -> str:
    """Return a table of which about ten rows are shown, with a note on where the others are."""
    saves = len(columns["t"])
    widths = [max(len(name), *map(len, cells)) for name, cells in columns.items()]
    rows_kept = [*range(0, saves - 1, -(-(saves - 1) // (_ROWS - 1)) or 1), saves - 1]
    rows = [list(columns), *([cells[i] for cells in columns.values()] for i in rows_kept)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
    if len(rows_kept) < saves:
        lines.append(left_out.format(len(rows_kept), saves))
    return "\n".join(lines)


def defect(solution: Solution) -> float | None:
    """max_t |E(t) - E(0) - work|/|E(δ)|, zero up to errors of the time steps; of terms the largest.

    None for a run that has no such identity: tokens with noise, in layers, under other attention.
    """
    errors = [np.abs(solution.numbers[n].values) for n in with_role(solution.numbers, "error")]
    return float(np.nanmax(errors)) if errors else None


def closing(solution: Solution) -> str:
    """How the run ended, if it finished, and how well its energy identity holds."""
    lines = [one_line(solution.message)] if solution.success else []
    if (error := defect(solution)) is not None:
        name = "the dissipation" + (" and of the noise" if solution.dynamics.noise > 0.0 else "")
        divisor = "/|E(δ)|" if with_role(solution.numbers, "share") else ""
        whose, size = "", ""
        energy = adapt(solution.dynamics).energy_functional
        if divisor and energy is not None and energy.potential is not None:
            divisor = "/Σ|ω_j| max|φ_j|"
        if "term_balance_error" in solution.numbers.variables:
            whose, divisor = "of each term ", "/size"
            size = ", and size |w E(δ)|, of a potential |w| Σ|ω_j| max|φ_j|"
        identity = f"{whose}|E(t) - E(0) - work|{divisor} <= {error:.1e}"
        lines.append(f"{identity}, where work is the integral of {name}{size}")
    elif solution.success and (reason := why_no_energy(solution.dynamics, solution.energy)):
        lines.append(f"no energy of {reason}")
    return "\n".join(lines)


def agreement(earlier: Solution, solution: Solution) -> str:
    """Whether a run that was repeated has the same numbers."""
    old, new = earlier.dataset, solution.dataset
    differing = [
        str(name)
        for name in {**old.variables, **new.variables}
        if name not in new or name not in old or not old[name].equals(new[name])
    ]
    if not differing:
        return "all numbers agree with the earlier run, bit for bit"
    return f"numbers differ from those of the earlier run: {one_line(', '.join(differing))}"


def summary(solution: Solution, file: Path) -> dict[str, str]:
    """A run in a dozen entries, which says if a process is writing its file."""
    data, error = solution.dataset, defect(solution)
    status, message = str(solution.status), solution.message
    if status == "interrupted" and is_being_written(file):
        status, message = "running", message.partition(";")[0]
    ends = {n: data[n].values[[0, -1]] for n in with_role(data, "energy", "share")[:1]}
    lines = len(solution.case.splitlines())
    why = why_no_energy(solution.dynamics, solution.energy)
    unbalanced = f"not available, no energy of {why}" if why else "not available"
    # a run that failed at its start has no numbers
    mass, steps = (data[name].values if name in data else np.zeros(0) for name in ("mass", "steps"))
    return {
        "status": status,
        "message": message,
        "in words": dynamics_title(solution.dynamics),
        "dynamics": repr(solution.dynamics),
        **({} if solution.energy is None else {"energy of": repr(solution.energy)}),
        "measure at the end": repr(solution.final),
        "times": f"{len(solution.t)} from {solution.t[0]:g} to {solution.t[-1]:g}",
        **{name.replace("_", " "): f"{a:.12g} to {b:.12g}" for name, (a, b) in ends.items()},
        "balance error": unbalanced if error is None else f"{error:.1e}",
        **terms(solution),
        **({"mass error": f"{np.nanmax(np.abs(1.0 - mass)):.1e}"} if mass.size else {}),
        **({"steps": f"{int(np.nanmax(steps))}"} if steps.size else {}),
        "case": f"{lines} lines, see meanfield run {file} --print-case" if lines else "none",
        "made by": ", ".join(other_versions(solution.versions)) or "this code, these libraries",
        **{str(name): f"{value}" for name, value in data.attrs.items()},
    }


def terms(solution: Solution) -> dict[str, str]:
    """The energy of each term of a sum at both ends, and the error of its balance."""
    data = solution.numbers
    if "term_energy" not in data:
        return {}
    owner = solution.dynamics if solution.energy is None else solution.energy
    names = term_names(owner)
    energies, errors = (data[n].values for n in ("term_energy", "term_balance_error"))
    worst = np.nanmax(np.abs(errors), axis=0)
    return {
        f"term {i}": f"{names[i] if names else ''} energy {a:.12g} to {b:.12g}, "
        f"balance error {error:.1e}".lstrip()
        for i, (a, b, error) in enumerate(zip(*energies[[0, -1]], worst, strict=True))
    }


def summary_of_sweep(data: xr.Dataset, file: Path) -> dict[str, str]:
    """A sweep in a dozen entries: how its cells ended, its grid, and what they came to."""
    states = Counter(map(str, data["status"].values.ravel()))
    messages = data["message"].values
    failed = [str(text) for text in messages[data["status"].values == "error"]]
    entries = {
        "status": ", ".join(f"{count} {state}" for state, count in states.most_common()),
        "cells": f"{data['status'].size}, each a result file in {cells_beside(file)}",
        **({"first error": one_line(failed[0])} if failed else {}),
    }
    for name in map(str, data["status"].dims):
        values = data[name].values.tolist()
        words = ", ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in values)
        key = f"over {data[name].attrs.get('long_name', name)}"
        entries[key] = shorten(words, _WIDTH, placeholder=" …")
    for name in (f"{FINAL}energy", f"{FINAL}energy_share"):
        if name in data and np.isfinite(values := data[name].values).any():
            ends = f"{float(np.nanmin(values)):.12g} to {float(np.nanmax(values)):.12g}"
            entries[name.replace("_", " ")] = ends
    lines = len(str(data.attrs.get("case", "")).splitlines())
    facts = {str(name): f"{value}" for name, value in data.attrs.items() if name != "grid"}
    return entries | facts | {"case": f"{lines} lines"}


def machine() -> dict[str, str]:
    """Versions and threads."""
    threads = {lmax: Sphere(lmax).grid["nthreads"] for lmax in (63, 255)}
    used = Sphere(63).library
    counts = ", ".join(f"{count} at lmax {lmax}" for lmax, count in threads.items())
    return {
        "meanfield": version_of("meanfield"),
        "python": platform.python_version(),
        **{name: version_of(name) for name in _LIBRARIES},
        "transforms on S^2": used if used == "ducc0" else f"shtns {version_of(used)}, ducc0",
        "cores": str(os.cpu_count()),
        "threads": f"1 on circle and zonal spaces; on S^2 {counts}",
    }
