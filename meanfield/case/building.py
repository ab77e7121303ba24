"""From the tables of a case to a measure, a dynamics and monitors, within limits of size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import integer, number
from meanfield.case.clouds import read_points
from meanfield.case.faults import Fault, located, shown
from meanfield.case.tables import (
    MOST_MONITORS,
    MOST_SAVES,
    FlowMapTable,
    MonitorTable,
    ParticlesTable,
    PointCloudTable,
    Table,
    tables_in,
)
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.isotropic import LARGEST_BETA
from meanfield.functionals import mmd, sobolev
from meanfield.integrate.records import taken_names
from meanfield.laws import FourierSeries, Law, PointCloud, VonMisesFisher
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.solution import PREFIXES, memory_of_machine
from meanfield.transport import DistanceTo

# tables of a kernel have some sqrt(β) entries a side
LARGEST_BETA_OF_TABLES = 1e5
MOST_NODES = 10**7
# coordinates of tokens, and numbers in matrices of heads: 2 GB
MOST_NUMBERS = 1 << 28
# of the machine's memory, what the measures at all saves may take
SHARE_OF_MEMORY = 0.5
# which distance a key belongs to
_OWNER = {"p": "wasserstein", "gap": "wasserstein", "beta": "mmd", "s": "sobolev"}


def build_measure(law: Table, space: Table, folder: Path) -> AnyMeasure:
    """The measure at t = 0; where one table leaves the dimension open, the other settles it.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    if isinstance(space, ParticlesTable):
        return _particles(law, space, folder)
    if isinstance(space, FlowMapTable):
        moving = _made(law, "law", None, folder)
        with located("space", ("tol", "axis")):
            return FlowMap(moving, space.tol, axis=space.axis)
    grid = _made(space, "space", _law_dim(law), folder)
    return Density(grid, _made(law, "law", grid.dim, folder))


def build_law(law: Table, space: Table, folder: Path) -> Law:
    """The law by itself.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    dim = None if space.made is None else _made(space, "space", _law_dim(law), folder).dim
    found: Law = _made(law, "law", dim, folder)
    return found


def noise_rng(space: Table) -> dict[str, np.random.Generator]:
    """The random numbers of a noisy run of tokens, apart from those of its start."""
    if not isinstance(space, ParticlesTable):
        return {}
    return {"rng": np.random.default_rng(np.random.SeedSequence(space.seed, spawn_key=(1,)))}


def build_dynamics(table: Table) -> AnyDynamics:
    """The dynamics.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    found: AnyDynamics = _made(table, "dynamics")
    return found


def _made(table: Table, where: str, dim: int | None = None, folder: Path = Path()) -> Any:
    """The law, space or dynamics of the table `where`, in `dim` where the table leaves it open."""
    with located(where, type(table).model_fields):
        if isinstance(table, PointCloudTable):
            return PointCloud(_points(table, where, folder), bandwidth=table.bandwidth)
        dim = _law_dim(table) if dim is None else dim
        arguments = {}
        for name in type(table).model_fields.keys() - {"type"}:
            value = getattr(table, name)
            match value:
                case [Table(), *_]:
                    parts = enumerate(value)
                    value = [_made(one, f"{where}.{name}[{i}]", dim, folder) for i, one in parts]
            if name == "dim":
                value = _settled(value, dim, where)
            arguments[name] = value
        return table.made(**arguments)


def _particles(law: Table, table: ParticlesTable, folder: Path) -> Particles:
    if table.n is not None:
        drawn_from, rng = _made(law, "law", None, folder), np.random.default_rng(table.seed)
        start = Particles.sample if table.start == "iid" else Particles.quantised
        return start(drawn_from, table.n, rng, sums=table.sums)
    if isinstance(law, PointCloudTable) and law.bandwidth is None:
        return Particles(_points(law, "law", folder), sums=table.sums)
    raise Fault("space.n is missing: it must be the number of tokens to draw from the law, >= 1")


def _law_dim(table: Any) -> int | None:
    """The dimension that a law's table itself settles."""
    if table.made is FourierSeries:
        return 2
    if table.made is VonMisesFisher:
        return len(table.mean)
    parts = (_law_dim(law) for law in getattr(table, "laws", ()))
    return getattr(table, "dim", next((dim for dim in parts if dim is not None), None))


def _points(table: PointCloudTable, where: str, folder: Path) -> NDArray[np.float64]:
    try:
        return read_points(table.file, folder)
    except ValueError as error:
        raise Fault(f"{where}.file = {shown(table.file)}: {error}") from None


def _settled(own: int | None, other: int | None, where: str) -> int:
    settled = other if own is None else own
    if settled is None:
        raise Fault(f"{where}.dim is missing: it must be an integer >= 2")
    return settled


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
    _check_run(case.run, case.space)
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


def _check_table(where: str, table: Any, space: Table) -> None:
    for key, field in type(table).model_fields.items():
        limits: Any = field.json_schema_extra or {}
        found, most = getattr(table, key), limits.get("maxItems")
        if most is not None and found is not None and len(found) > most:
            raise Fault(f"{where}.{key} must have at most {most} entries, got {len(found)}")
        if key == "dim" and found is not None:
            low, high = limits["minimum"], limits["maximum"]
            _bounded(integer, f"{where}.dim", found, low=low, high=high)
    if table.made is not None and "beta" in type(table).model_fields:
        high = LARGEST_BETA if isinstance(space, ParticlesTable) else LARGEST_BETA_OF_TABLES
        _bounded(number, f"{where}.beta", table.beta, low=0, high=high)
    if heads := getattr(table, "heads", None):
        given = [m for head in heads for m in (head.Q, head.K, head.V)]
        side = max((len(m) for m in given if isinstance(m, list)), default=1)
        _check_product(f"{where}.heads", len(heads), side**2, "heads")


def _check_run(run: Any, space: Table) -> None:
    _bounded(number, "run.t_end", run.t_end, above=0)
    if isinstance(run.save_at, int):
        _bounded(integer, "run.save_at", run.save_at, low=1, high=MOST_SAVES)
    if run.largest is not None and isinstance(space, FlowMapTable):
        _bounded(integer, "run.largest", run.largest, low=1, high=MOST_NODES)


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
    found = (_law_dim(table) for _, table in tables_in(law, "law"))
    return [dim for dim in found if dim is not None]


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
        law = _made(table.law, f"{where}.law", measure.dim, folder)
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
