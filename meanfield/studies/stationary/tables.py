"""Branches of stationary states as tables, and what they say of the phase transition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.dynamics import Isotropic
from meanfield.harmonics import scaled_eigenvalues
from meanfield.studies.stationary.continuation import Point
from meanfield.studies.stationary.equation import Equation
from meanfield.studies.stationary.stability import Linearisation
from meanfield.theory import critical_noise, energy_uniform

Array = NDArray[np.float64]

EQUAL = "equal free energy"
# as many nodes are enough for the few dozen polynomials of a perturbation
_ENOUGH = 512
# free energies, in units of τ, that count as equal where branches are interpolated
_SAME = 1e-6
# variables over the points of a branch, and what they are
_OVER_POINTS = {
    "tau": "noise τ",
    "arclength": "arclength along the branch",
    "order": "|∫ x dmu|",
    "moment": "∫ P_k dmu of the branch's degree k",
    "energy": "E",
    "energy_share": "E/E(δ)",
    "entropy": "∫ f log f dσ",
    "growth_rate": "growth of the fastest axisymmetric perturbation",
    "unstable": "number of axisymmetric perturbations that grow",
    "residual": "residual on twice the nodes",
}
_OF_USA = {
    "free_energy": "F = τ ∫ f log f dσ - E",
    "free_energy_excess": "F - F(σ)",
    "lowest": "1 where F is lowest of all states at this noise",
}


@dataclass(frozen=True)
class Table:
    """A branch: columns over its points, their events, its status."""

    columns: dict[str, Array]
    events: list[str]
    status: str


def table(
    dynamics: Isotropic, degree: int, equation: Equation, points: list[Point], status: str
) -> Table:
    """The numbers of each point of a branch of this degree."""
    beta, dim = dynamics.beta, equation.dim
    whole = Equation(dynamics, dim)
    linearisation = Linearisation(whole)
    tau_1, scaled = critical_noise(dynamics, dim), scaled_eigenvalues(beta, dim, 1)
    index = degree // equation.step - 1
    unit = float(np.sqrt(equation.kappa[index]) * equation.scales[index])
    rows = []
    for point in points:
        b = np.zeros(whole.kmax)
        b[equation.degrees - 1] = point.b
        numbers = equation.numbers(point.b, point.rho, equation.grid(point.nodes))
        rates = linearisation.rates(b, point.rho, _nodes(point))
        size = float(b @ b)
        share = size / dim if beta == 0.0 else float(scaled[0] + scaled[1] * size)
        tau = tau_1 / point.rho
        rows.append(
            {
                "tau": tau,
                "arclength": point.arclength,
                "order": abs(float(b[0])) / np.sqrt(dim),
                "moment": float(point.b[index]) / unit,
                "energy": _of_dirac(share, beta),
                "energy_share": share,
                "entropy": numbers["entropy"],
                "growth_rate": rates[0].real * tau,
                "unstable": linearisation.unstable(b, point.rho, point.nodes, rates),
                "residual": point.residual,
                "excess": numbers["excess"],
            }
        )
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    return Table(columns, [point.event for point in points], status)


def _nodes(point: Point) -> int:
    """Nodes for perturbations of a state: more, which they need where the state is next to 0."""
    return max(point.nodes, min(2 * point.nodes, _ENOUGH))


def _of_dirac(share: float, beta: float) -> float:
    """A share of E(δ) = e^β/(2β), or 1/2 at β = 0; inf beyond float64."""
    if beta == 0.0:
        return 0.5 * share
    with np.errstate(over="ignore"):
        half = np.exp(0.5 * np.float64(beta))
        return float(share * half * half / (2.0 * beta))


def dataset(
    tables: list[Table], runs: list[Isotropic], ways: list[tuple[int, int]], dim: int
) -> xr.Dataset:
    """All branches, those of one β after the other."""
    shape = len(runs), len(ways)
    normalised = runs[0].normalised
    if not normalised:
        for first in range(0, len(tables), len(ways)):
            _compare(tables[first : first + len(ways)])
        for number, one in enumerate(tables):
            _free_energy(one, runs[number // len(ways)], dim)
    names = _OVER_POINTS | ({} if normalised else _OF_USA)
    over = ("beta", "branch", "point")
    data = {
        name: (over, _padded([one.columns[name] for one in tables], shape), {"long_name": text})
        for name, text in names.items()
    }
    longest = max(len(one.events) for one in tables)
    events = [one.events + [""] * (longest - len(one.events)) for one in tables]
    return xr.Dataset(
        {
            **data,
            "event": (over, np.array(events).reshape(*shape, longest)),
            "tau_bifurcation": (
                over[:2],
                _reshaped([one.columns["tau"][0] for one in tables], shape),
            ),
            "tau_fold": (over[:2], _reshaped([_fold(one) for one in tables], shape)),
            "status": (over[:2], np.array([one.status for one in tables]).reshape(shape)),
            **_transition(tables[:: len(ways)], runs, dim),
        },
        coords={
            "beta": [one.beta for one in runs],
            "degree": ("branch", [degree for degree, _ in ways]),
            "direction": ("branch", [direction for _, direction in ways]),
            "dim": dim,
        },
        attrs={"dynamics": runs[0].name},
    )


def _free_energy(one: Table, dynamics: Isotropic, dim: int) -> None:
    columns = one.columns
    columns["free_energy_excess"] = columns["tau"] * columns["excess"]
    # F(σ) = -E(σ)
    columns["free_energy"] = columns["free_energy_excess"] - energy_uniform(dynamics.beta, dim)


def _compare(tables: list[Table]) -> None:
    """Where the free energy is lowest of all branches and the uniform state, at the same noise.

    nan where the branch of degree 1, which comes first, has not been followed to.
    """
    end = tables[0].columns["tau"].min()
    for one in tables:
        logs, excess = -np.log(one.columns["tau"]), one.columns["excess"]
        best = np.zeros_like(excess)
        for other in tables:
            best = np.minimum(best, _lowest_at(other, logs))
        lowest = np.where(excess <= best + _SAME * np.abs(best), 1.0, 0.0)
        one.columns["lowest"] = np.where(one.columns["tau"] < end, np.nan, lowest)


def _lowest_at(one: Table, logs: Array) -> Array:
    """(F - F(σ))/τ of the lowest state of a branch at each log 1/τ; inf where it has none."""
    along, excess = -np.log(one.columns["tau"]), one.columns["excess"]
    turns = [0, *np.flatnonzero(np.array(one.events) == "fold").tolist(), len(along) - 1]
    best = np.full_like(logs, np.inf)
    for first, last in pairwise(turns):
        part = slice(first, last + 1)
        order = np.argsort(along[part])
        values = np.interp(logs, along[part][order], excess[part][order], np.inf, np.inf)
        best = np.minimum(best, values)
    return best


def _fold(one: Table) -> float:
    """The largest noise of a fold, or nan."""
    folds = one.columns["tau"][np.array(one.events) == "fold"]
    return float(folds.max()) if len(folds) > 0 else np.nan


def _transition(
    tables: Sequence[Table], runs: list[Isotropic], dim: int
) -> dict[str, tuple[str, NDArray[np.generic]]]:
    """What the branches of degree 1 say of the transition from the uniform state."""
    tau_1 = np.array([critical_noise(one, dim) for one in runs])
    folds = np.array([_fold(one) for one in tables])
    first_order = np.nan_to_num(folds) > tau_1
    tau_c, jump = tau_1.copy(), np.zeros_like(tau_1)
    for number in np.flatnonzero(first_order).tolist():
        columns = tables[number].columns
        equal = np.flatnonzero(np.array(tables[number].events) == EQUAL)
        # a branch that ended before it has no such state
        found = len(equal) > 0
        tau_c[number] = columns["tau"][equal[0]] if found else np.nan
        jump[number] = columns["order"][equal[0]] if found else np.nan
    nature = np.where(first_order, "first order", "continuous")
    known: dict[str, tuple[str, NDArray[np.generic]]] = {
        "tau_1": ("beta", tau_1),
        "nature": ("beta", nature),
    }
    return (
        known if runs[0].normalised else known | {"tau_c": ("beta", tau_c), "jump": ("beta", jump)}
    )


def _padded(columns: list[Array], shape: tuple[int, int]) -> Array:
    longest = max(len(column) for column in columns)
    padded = np.full((len(columns), longest), np.nan)
    for row, column in zip(padded, columns, strict=True):
        row[: len(column)] = column
    return padded.reshape(*shape, longest)


def _reshaped(values: list[float], shape: tuple[int, int]) -> Array:
    return np.array(values, dtype=np.float64).reshape(shape)
