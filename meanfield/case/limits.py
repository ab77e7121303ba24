"""What a case may ask for at most, so that no file takes all the memory of a machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.arguments import integer, number
from meanfield.case.dynamics_tables import (
    LARGEST_BETA,
    LARGEST_BETA_OF_TABLES,
    AttentionTable,
    IsotropicTable,
    LayersTable,
)
from meanfield.case.faults import Fault
from meanfield.case.schema import Table, tables_in
from meanfield.case.tables import (
    LARGEST_DIM,
    LONGEST_LIST,
    MOST_MONITORS,
    MOST_SAVES,
    FlowMapTable,
    FourierSeriesTable,
    MixtureTable,
    ParticlesTable,
    RunTable,
    UniformTable,
    VonMisesFisherTable,
    ZonalSeriesTable,
)
from meanfield.measures import AnyMeasure
from meanfield.solution import memory_of_machine

MOST_NODES = 10**7
# coordinates of tokens, and numbers in matrices of heads: 2 GB
MOST_NUMBERS = 1 << 28
# of the machine's memory, what the measures at all saves may take
SHARE_OF_MEMORY = 0.5
_LONGEST = {
    VonMisesFisherTable: {"mean": LARGEST_DIM},
    FourierSeriesTable: {"cos": LONGEST_LIST, "sin": LONGEST_LIST},
    ZonalSeriesTable: {"coefficients": LONGEST_LIST, "axis": LARGEST_DIM},
    MixtureTable: {"laws": LONGEST_LIST},
    AttentionTable: {"heads": LONGEST_LIST},
    LayersTable: {"layers": LONGEST_LIST},
}


def check_limits(tables: Table) -> None:
    """Check the sizes that the tables of a case ask for, before anything is built.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    case: Any = tables
    for where, table in tables_in(case):
        _check_table(where, table, case.space)
    if len(case.monitors) > MOST_MONITORS:
        raise Fault(f"monitors must be at most {MOST_MONITORS} tables, got {len(case.monitors)}")
    if isinstance(case.space, ParticlesTable) and case.space.n is not None:
        _check_product("space.n", case.space.n, max(_dims(case.law), default=2), "tokens")


def check_saves(measure: AnyMeasure, save_at: int | list[float]) -> None:
    """Check that memory holds the measures of a run at all its saves.

    Raises
    ------
    ValueError
        Naming the number of saves and how many are allowed.
    """
    count = save_at if isinstance(save_at, int) else len(save_at)
    names = ("coefficients", "points", "weights", "angles", "expansion", "log_density")
    held = (getattr(measure, name, None) for name in names)
    size = sum(one.nbytes for one in held if isinstance(one, np.ndarray))
    most = int(SHARE_OF_MEMORY * min(memory_of_machine(), 1e18) / max(size, 1))
    if count > most:
        raise Fault(
            f"run.save_at must be at most {most} saves of {measure}, {size} bytes each, on this "
            f"machine, got {count}"
        )


def _check_table(where: str, table: Table, space: Table) -> None:
    for key, most in _LONGEST.get(type(table), {}).items():
        found = getattr(table, key)
        if found is not None and len(found) > most:
            raise Fault(f"{where}.{key} must have at most {most} entries, got {len(found)}")
    if isinstance(table, (UniformTable, ZonalSeriesTable)) and table.dim is not None:
        _bounded(integer, f"{where}.dim", table.dim, low=2, high=LARGEST_DIM)
    if isinstance(table, (IsotropicTable, AttentionTable)):
        high = LARGEST_BETA if isinstance(space, ParticlesTable) else LARGEST_BETA_OF_TABLES
        _bounded(number, f"{where}.beta", table.beta, low=0, high=high)
    if isinstance(table, AttentionTable):
        sides = [len(m) for head in table.heads for m in _matrices(head)]
        _check_product(f"{where}.heads", len(table.heads), max(sides, default=1) ** 2, "heads")
    if isinstance(table, RunTable):
        _bounded(number, f"{where}.t_end", table.t_end, above=0)
        if isinstance(table.save_at, int):
            _bounded(integer, f"{where}.save_at", table.save_at, low=1, high=MOST_SAVES)
        if table.largest is not None and isinstance(space, FlowMapTable):
            _bounded(integer, f"{where}.largest", table.largest, low=1, high=MOST_NODES)


def _matrices(head: Any) -> list[list[list[float]]]:
    """Those that are given by rows, not by one number."""
    return [m for m in (head.Q, head.K, head.V) if isinstance(m, list)]


def _bounded(check: Any, key: str, value: Any, **bounds: Any) -> None:
    try:
        check(key, value, **bounds)
    except ValueError as error:
        raise Fault(str(error)) from None


def _check_product(key: str, count: int, numbers: int, what: str) -> None:
    most = MOST_NUMBERS // numbers
    if count > most:
        raise Fault(f"{key} must be at most {most} {what} of {numbers} numbers each, got {count}")


def _dims(law: Table) -> list[int]:
    """The dimensions that the parts of a law tell."""
    found = []
    for _, table in tables_in(law, "law"):
        if isinstance(table, VonMisesFisherTable):
            found.append(len(table.mean))
        elif isinstance(table, (UniformTable, ZonalSeriesTable)) and table.dim is not None:
            found.append(table.dim)
    return found
