"""From the monitors of a case to what `evolve` asks at every save."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from meanfield.case.building import law_from
from meanfield.case.faults import Fault, located, shown
from meanfield.case.tables import MonitorTable
from meanfield.dynamics import AnyDynamics
from meanfield.functionals import mmd, sobolev
from meanfield.integrate.records import taken_names
from meanfield.measures import AnyMeasure
from meanfield.solution import PREFIXES
from meanfield.transport import DistanceTo

# which distance a key belongs to
_OWNER = {"p": "wasserstein", "gap": "wasserstein", "beta": "mmd", "s": "sobolev"}


def build_monitors(
    tables: Mapping[str, MonitorTable], measure: AnyMeasure, dynamics: AnyDynamics, folder: Path
) -> dict[str, DistanceTo]:
    """The monitors of a run that starts with the measure, each tried on it.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    monitors = {}
    taken = taken_names(tables)
    for name, table in tables.items():
        if not name.isidentifier() or name in taken or name.startswith(PREFIXES):
            raise Fault(
                f"monitors must have names of letters, digits and _ that are no variables of a run "
                f"or bounds of another monitor, got {shown(name)}"
            )
        where = f"monitors.{name}"
        arguments = _arguments(table, where, measure, dynamics, folder)
        with located(where, type(table).model_fields):
            # what can't be computed is refused now; a monitor remembers its calls, so it is another
            DistanceTo(**arguments)(measure)
            monitors[name] = DistanceTo(**arguments)
    return monitors


def _arguments(
    table: MonitorTable, where: str, measure: AnyMeasure, dynamics: AnyDynamics, folder: Path
) -> dict[str, Any]:
    for key, owner in _OWNER.items():
        if getattr(table, key) is not None and table.distance != owner:
            raise Fault(
                f"{where}.{key} must be left out for distance = {table.distance!r}, as it is one "
                f"of {owner!r}, got {getattr(table, key)!r}"
            )
    if (table.to is None) == (table.law is None):
        given = "neither" if table.law is None else f"both, to = {table.to!r}"
        raise Fault(f"{where} must have either to or a table law, got {given}")
    arguments: dict[str, Any] = {"to": table.to, "every": table.every}
    if table.law is not None:
        law = law_from(table.law, f"{where}.law", measure.dim, folder)
        if law.dim != measure.dim:
            raise Fault(
                f"{where}.law must have dim = {measure.dim} beside {measure}, got {law!r} with "
                f"dim = {law.dim}"
            )
        arguments["to"] = law
    if table.distance == "mmd":
        beta = dynamics.beta if table.beta is None else table.beta
        arguments["distance"] = partial(mmd, beta=beta)
    elif table.distance == "sobolev":
        arguments["distance"] = partial(sobolev, s=-1.0 if table.s is None else table.s)
    else:
        arguments |= {"p": 1.0 if table.p is None else table.p, "gap": table.gap}
    return arguments
