"""What a file keeps of a run as variables and attributes: measures, history, dynamics, resumption.

Each class of measures has a `Form`: a table of columns, and how a measure is made of them again.
Arrays whose length changes from time to time are contiguous ragged arrays of the CF conventions:
those of all times follow one another, and `count` has the length at each time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from meanfield import _checks
from meanfield._checks import check_measure, freeze, integer, number, real_array, shown
from meanfield._records import from_record, to_record
from meanfield.dynamics import KNOWN, AnyDynamics, Causal
from meanfield.dynamics.attention import Head
from meanfield.dynamics.causal import has_mask
from meanfield.dynamics.own import ForgottenDynamics, describe
from meanfield.dynamics.schedule import ChebyshevSeries, FunctionOfTime, Schedule, walk_fields
from meanfield.dynamics.titles import dynamics_title
from meanfield.equations.history import NODES, History
from meanfield.evolution.netcdf import BLOCK, Contents, Variable
from meanfield.laws import LAWS, Law
from meanfield.measures import AnyMeasure, Density, LineFlowMap, OscillatorDensity, SphereFlowMap
from meanfield.measures.density import SeriesLaw
from meanfield.measures.line_flow_map import LabelLine
from meanfield.measures.particles import Oscillators, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal, available, panels
from meanfield.typing import Array, ArrayLike, Coefficients, NDArray

# the record of measures in a file, and a table in memory: limits by name, numbers as JSON has them,
# or the time and the arrays of a save by the keys of columns
Stored = Mapping[str, Any]
Table = dict[str, Any]
# the values of a variable in memory, of any type of number
Numbers = NDArray[Any]

# names of variables that hold the arrays of records, and the state for `resume`, begin so
_RECORD, _RESUME = "record_", "resume_"
PREFIXES = (_RECORD, _RESUME)
_RESUMPTION, _TIMES = "resumption", f"{_RESUME}times"
# arrays of a record with up to so many numbers in all are kept in its text
_MOST_IN_TEXT = 1000
# an array outside the text leaves the number of its first entry, and its shape, in its place
_PLACE = "first_number", "shape"
_DYNAMICS: tuple[type[AnyDynamics], ...] = (*KNOWN, ForgottenDynamics)
# a file keeps no text of functions of t
_FUNCTIONS = FunctionOfTime, ChebyshevSeries
_PARTS = Head, Schedule, Causal
_KINDS = (*_DYNAMICS, *_PARTS)
SIZE_NAME = "size"
# a dimension of numbers that belong to a collapse into atoms, and to no save
COLLAPSE = "collapse"
# a dimension of numbers that belong to one term of a sum at a save
TERM = "term"
SIZE_COMMENT = "n, lmax or kmax of the space in use, or number of nodes"
TIME = {"long_name": "time t", "units": "1"}
# this word stands for the law if it is the series of the first density
_SERIES = "series of the first density"
# sizes and counts in a file must lie in these ranges, so that a damaged file takes no memory
_SIZES, _COUNTS = (3, 1 << 20), (0, 1 << 26)
# normalising a unit vector once more changes it by at most this
_LAST_BITS = 1e-15
_SPACES: tuple[type[Space], ...] = (Circle, Sphere, Zonal)
# for each space: the dimensions of its table of coefficients, the shape of the table for a size,
# and the formula of the series
_SERIES_ON: dict[str, tuple[str, Callable[[int], tuple[int, ...]], str]] = {
    "Circle": ("degree part", lambda n: (n // 2, 2), "Σ c_k e^{ikθ}, c_{-k} = conj(c_k)"),
    "Sphere": (
        *("degree order part", lambda lmax: (lmax + 1, lmax + 1, 2)),
        "Σ c_lm Y_lm, orthonormal for σ, c_{l,-m} = (-1)^m conj(c_lm)",
    ),
    "Zonal": ("degree", lambda kmax: (kmax + 1,), "Σ c_k p_k(<x, axis>), orthonormal for σ"),
}
_ANGLE = {"units": "radian"}
# these dimensions have coordinates of their own
_COORDINATES: dict[str, dict[str, object]] = {
    "degree": {"long_name": "degree"},
    "order": {"long_name": "order", "comment": "0 to degree"},
    "part": {
        "long_name": "part of a complex number",
        "flag_values": [0, 1],
        "flag_meanings": "real imaginary",
    },
    "axis": {"long_name": "axis of R^d"},
}


class Column(NamedTuple):
    """A variable of a file that holds an attribute of measures.

    Attributes
    ----------
    name : str
        Of the variable.
    dims : str
        Names of dimensions. Along "t" there is one row for each time, along a dimension of
        `Form.counts` those of all times follow one another, along others there is one array for all
        times. Along a last one "part" are the real and the imaginary part of complex numbers.
    key : str
        The attribute, as `attrgetter` has it.
    long_name : str
    about : mapping, optional
        Further attributes of the variable.
    limits : pair of int, optional
        Of integers.
    """

    name: str
    dims: str
    key: str
    long_name: str
    about: Mapping[str, str] = {}
    limits: tuple[int, int] | None = None

    @property
    def first(self) -> str:
        """The first dimension."""
        return self.dims.split()[0]

    def variable(self, values: Numbers) -> Variable:
        """The values as a variable of a file."""
        if self.dims.endswith("part"):
            values = np.ascontiguousarray(values).view(np.float64).reshape(*values.shape, -1)
        return Variable(
            tuple(self.dims.split()), values, {"long_name": self.long_name, **self.about}
        )

    def arrays(self, measures: Sequence[AnyMeasure]) -> list[Numbers]:
        """The arrays of the measures."""
        arrays = [np.asarray(attrgetter(self.key)(measure)) for measure in measures]
        if "degree" not in self.dims:
            return arrays
        spaces = [*map(attrgetter("space"), measures)]
        largest = max(spaces, key=lambda space: int(space.size))
        pairs = zip(spaces, arrays, strict=True)
        return [_as_table(space.embed(array, largest), largest) for space, array in pairs]

    def find(self, stored: Contents) -> Any:
        """The values in a file, which may still be there."""
        dims = tuple(self.dims.split())
        variable = stored.variables.get(self.name)
        if variable is None or variable.dims != dims:
            stored_dims = "no such" if variable is None else variable.dims
            raise ValueError(
                f"{self.name} must be a variable over {', '.join(dims)}, got {stored_dims}"
            )
        return variable.values

    def read(self, stored: Contents, rows: slice = slice(None)) -> Numbers:
        """Rows of the values in a file, in memory; of a small variable they are a view.

        Raises
        ------
        ValueError
            If there is no such variable over these dimensions, or it holds what it must not.
        """
        values = self.find(stored)
        try:
            return self._checked(values[rows])
        except ValueError:
            # a fault among these rows is looked for in the whole array, so that the message has its
            # index there
            self._checked(values[...])
            raise

    def rows(self, stored: Contents, ends: Numbers, times: slice) -> Iterator[Numbers]:
        """The array of each of these times, whose rows begin and end where `ends` tells.

        Those of some times are read at once: of one, or as many as have `BLOCK` numbers.

        Raises
        ------
        ValueError
            If there are more rows, or less.
        """
        values = self.find(stored)
        if len(values) != ends[-1]:
            raise ValueError(f"{self.name} must have {ends[-1]} rows, got {len(values)}")
        blocks = ends[:-1] * math.prod(values.shape[1:]) // BLOCK
        for _, group in groupby(range(len(blocks))[times], lambda i: blocks[i]):
            arrays = list(group)
            start = ends[arrays[0]]
            block = self.read(stored, slice(start, ends[arrays[-1] + 1]))
            for i in arrays:
                array = block[ends[i] - start : ends[i + 1] - start]
                # without a copy, a part would keep its whole block in memory
                array = array if len(arrays) == 1 else array.copy()
                yield array[0] if self.first == "t" else array

    def _checked(self, values: Numbers) -> Numbers:
        if self.limits:
            low, high = self.limits
            return np.array([integer(self.name, value, low=low, high=high) for value in values])
        if self.first in ("t", "frequency"):
            return real_array(self.name, values, len(self.dims.split()))
        array = np.asarray(values)
        if np.isnan(array).any():
            where = np.argwhere(np.isnan(array))[0]
            raise ValueError(f"{self.name} must hold no NaN, got one at {where}")
        return array


TIMES = Column("t", "t", "t", TIME["long_name"])


@dataclass(frozen=True, eq=False)
class Form:
    """How a file keeps measures of a class.

    Attributes
    ----------
    measure : type
    columns : tuple of Column
    make : callable
        Makes measures again of their record in a file, and each time with its arrays, by the keys
        of the columns. It is given the sizes of spaces, too, where there are such, and of flow maps
        the law of the density that they follow, or None.
    record : callable
        What a measure is made from, apart from its arrays.
    space : str
        The class of its space, "" where there is none.
    counts : mapping of str to (str, int)
        Of dimensions of different length at each time: the column that holds the lengths, as
        multiples of that number.
    history : tuple of Column
    to_history : callable
        Makes the history again of its arrays.
    """

    measure: type
    columns: tuple[Column, ...]
    make: Callable[..., Iterator[AnyMeasure]]
    record: Callable[[Any], dict[str, object]] = lambda _: {}
    space: str = ""
    counts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    history: tuple[Column, ...] = ()
    to_history: Callable[[dict[str, Numbers]], History] = History.from_arrays

    @property
    def kind(self) -> tuple[str, str]:
        """The words for the class of such a measure, and of its space, in a record."""
        return "FlowMap" if self in _FLOWS else self.measure.__name__, self.space

    def variables(
        self, measures: Sequence[AnyMeasure], start: int, count: int, history: History | None
    ) -> dict[str, Variable]:
        """Measures and history as variables, which begin at the number `start` of so many times.

        Raises
        ------
        ValueError
            If measures differ in what must be the same at all times.
        """
        variables = {}
        for column in self.columns:
            arrays = column.arrays(measures)
            array = arrays[0]
            if column.first in self.counts:
                array = np.concatenate(arrays)
            elif column.first == "t":
                _check_same(f"shape of {column.name}", [each.shape for each in arrays])
                array = np.zeros((count, *array.shape), dtype=array.dtype)
                array[start : start + len(arrays)] = arrays
            else:
                _check_same(column.name, [each.tolist() for each in arrays])
            variables[column.name] = column.variable(array)
        if history is not None and self.history:
            past = history.arrays()
            variables |= {column.name: column.variable(past[column.key]) for column in self.history}
        return variables

    def saves(self, stored: Contents, times: slice) -> Iterator[Table]:
        """Each of these times `t` and its arrays, by the keys of the columns.

        Raises
        ------
        ValueError
            If an array is missing, or of another length than the counts tell.
        """
        counts, saved = dict(self.counts.values()), TIMES.read(stored).tolist()
        ends: dict[str, Numbers] = {"t": np.arange(len(saved) + 1)}
        ends |= {dim: self._ends(dim, stored) for dim in self.counts}
        columns = [column for column in self.columns if column.name not in counts]
        fixed = {c.key: c.read(stored) for c in columns if c.first not in ends}
        over_t = {c.key: c.rows(stored, ends[c.first], times) for c in columns if c.first in ends}
        for t, *arrays in zip(saved[times], *over_t.values(), strict=True):
            yield {"t": t, **fixed, **dict(zip(over_t, arrays, strict=True))}

    def _ends(self, dim: str, stored: Contents) -> Numbers:
        """Return the first row of each time of a ragged dimension, and the end of the last."""
        name, per = self.counts[dim]
        (count,) = (other for other in self.columns if other.name == name)
        counts = count.read(stored)
        if (counts % per).any():
            raise ValueError(f"{name} must be multiples of {per}, got {counts[:8]}")
        return np.append(0, np.cumsum(counts // per))


def _check_same(name: str, values: Sequence[object]) -> None:
    for value in values:
        if value != values[0]:
            fault = f"the same {name} at all times, got {shown(values[0])} and {shown(value)}"
            raise ValueError(f"measures must be of one kind, with {fault}")


def _as_table(coefficients: Coefficients, space: Space) -> Coefficients:
    """Return coefficients with an axis by degree at the end, and on S^2 one more by order."""
    if (orders := getattr(space, "orders", None)) is None:
        return coefficients
    count = space.size + 1
    table = np.zeros((*coefficients.shape[:-1], count, count), dtype=coefficients.dtype)
    table[..., space.degrees, orders] = coefficients
    return table


def _from_table(table: Coefficients, space: Space) -> Coefficients:
    """Return the coefficients that `_as_table` laid out."""
    orders = getattr(space, "orders", None)
    return table if orders is None else np.asarray(table[..., space.degrees, orders])


def _space(record: Stored, size: int) -> Space:
    """Return the space of a record in another size."""
    (kind,) = (kind for kind in _SPACES if kind.__name__ == record["type"])
    arguments = {**record, kind.size_name: size}
    if "library" in record:
        arguments["library"] = available(record["library"])
    return from_record(arguments, _SPACES)


def _series(
    record: Stored, saves: Iterator[Table], sizes: Array, key: str
) -> Iterator[tuple[Table, Any, Coefficients]]:
    """Yield each save with its space and coefficients, which the file has in the largest space."""
    most, space_of = int(max(sizes)), cache(lambda size: _space(record, size))
    expected = _SERIES_ON[record["type"]][1](most)
    for save in saves:
        table = save[key]
        shape = table.shape[-len(expected) :]
        if shape != expected:
            raise ValueError(
                f"coefficients must have shape {expected} at each t for size {most}, got {shape}"
            )
        if expected[-1] == 2:
            table = table.view(np.complex128)[..., 0]
        largest, space = space_of(most), space_of(int(save["space.size"]))
        yield save, space, largest.embed(_from_table(table, largest), space)


def _density_record(density: Density) -> dict[str, object]:
    return {"space": to_record(density.space, _SPACES), **density.run_limits}


def _density_limits(record: Stored) -> Table:
    """Return the limits of a run of densities; each density checks them."""
    return {name: record[name] for name in ("tail_tol", "max_size")}


def _densities(record: Stored, saves: Iterator[Table], sizes: Array) -> Iterator[Density]:
    limits = _density_limits(record)
    for _, space, coefficients in _series(record["space"], saves, sizes, "coefficients"):
        yield Density.from_coefficients(space, coefficients, **limits)


def _particles(record: Stored, saves: Iterator[Table]) -> Iterator[Particles]:
    for save in saves:
        del save["t"]
        tokens = Particles(**save, sums=record["sums"])
        for name, array in save.items():
            # in many dimensions normalising once more may change last bits, so the stored numbers
            # are kept
            if np.allclose(array, getattr(tokens, name), rtol=_LAST_BITS, atol=_LAST_BITS):
                freeze(tokens, **{name: array.copy()})
        yield tokens


def _oscillators(_: Stored, saves: Iterator[Table]) -> Iterator[Oscillators]:
    for save in saves:
        del save["points"], save["t"]
        yield Oscillators(**save)


def _oscillator_densities(
    record: Stored, saves: Iterator[Table], sizes: Array
) -> Iterator[OscillatorDensity]:
    limits = _density_limits(record)
    for save, space, coefficients in _series(record["space"], saves, sizes, "parts"):
        nodes = save["frequencies"], save["frequency_weights"], save["widths"]
        yield OscillatorDensity.from_parts(space, coefficients, *nodes, **limits)


class ForgottenLaw:
    """The law of a file that could not keep it: a user's own class, or a given density.

    Parameters
    ----------
    dim : int
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return f"ForgottenLaw({self.dim})"

    def pdf(self, points: ArrayLike) -> Array:
        """Refuse.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"law is not known any more at {np.shape(points)} points: the file could not keep it"
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Refuse.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(f"law is not known any more, n = {n}: the file could not keep it")


def law_record(law: Law) -> dict[str, object] | None:
    """The record of a law, None of one that no file can keep."""
    try:
        return to_record(law, LAWS)
    except ValueError:
        return None


def _flow_record(flow: LineFlowMap | SphereFlowMap) -> dict[str, object]:
    law = _SERIES if type(flow.law) is SeriesLaw else law_record(flow.law)
    return {"law": law, "dim": flow.dim, "axis": flow.axis, "tol": flow.tol, **flow.run_limits}


def _law_and_limits(record: Stored, first: SeriesLaw | None) -> tuple[Law, Table]:
    """Return the law of a file's flow maps, with their tolerance and limits."""
    law: Law = ForgottenLaw(integer("dim of a flow map", record["dim"], low=2))
    if record["law"] == _SERIES:
        law = first or law
    elif record["law"]:
        law = from_record(record["law"], LAWS)
    return law, {
        "tol": number("tol of a flow map", record["tol"], above=0),
        "max_nodes": integer("max_nodes", record["max_nodes"], low=1),
        "atom_radius": number("atom_radius", record["atom_radius"], low=0, high=1e-2),
    }


def _line_flow_maps(
    record: Stored, saves: Iterator[Table], first: SeriesLaw | None
) -> Iterator[LineFlowMap]:
    law, limits = _law_and_limits(record, first)
    axis = None if record["axis"] is None else real_array("axis", record["axis"], 1)
    line = LabelLine(law, axis, number("scale of a flow map", record["scale"], above=0))
    for save in saves:
        save["atoms"] = save.pop("atom_angles")
        owners, atoms = save["owners"], len(save["atoms"])
        if owners.min() < -1 or owners.max() >= atoms:
            allowed = f"-1 or the number of one of {atoms} atoms"
            raise ValueError(f"atom must be {allowed}, got {owners.min()} to {owners.max()}")
        log_density, save["owners"] = save.pop("log_density"), owners.astype(np.int64)
        # points and t follow from the angles
        del save["points"], save["t"]
        flow = LineFlowMap.from_arrays(line, **limits, **save)
        flow.log_density = log_density
        yield flow


def _sphere_flow_maps(
    record: Stored, saves: Iterator[Table], first: SeriesLaw | None
) -> Iterator[SphereFlowMap]:
    law, limits = _law_and_limits(record, first)
    for save in saves:
        _checks.unit_rows("points", save["points"], 3)
        yield SphereFlowMap.from_arrays(law, **limits, **save)


def _sphere_history(arrays: dict[str, Numbers]) -> History:
    moments, centres = arrays["moments"], arrays["absorption_centres"]
    if moments.shape[3] != 2:
        raise ValueError(f"history_moments must have 2 parts, got shape {moments.shape}")
    _checks.rows("absorption_centres", np.vstack([np.ones((1, 3)), centres]), 3)
    return History.from_arrays(arrays | {"moments": moments[..., 0] + 1j * moments[..., 1]})


_SIZE = Column("size", "t", "space.size", SIZE_NAME, {"comment": SIZE_COMMENT}, _SIZES)


def _count(name: str, key: str, things: str, dim: str) -> Column:
    """The lengths of a ragged dimension at each time."""
    return Column(name, "t", key, f"number of {things}", {"sample_dimension": dim}, _COUNTS)


_COUNT = _count("count", "weights.size", "points", "point")
_POINTS = Column("points", "point axis", "points", "points on the unit sphere")
_WEIGHTS = Column("weights", "point", "weights", "masses of the points")
_LOG_DENSITY = Column(
    *("log_density", "point", "log_density", "log f at the points"),
    {"comment": "inf where mass is held at a point"},
)
_MOMENTS = "history_step history_node history_moment"
_HISTORY_TIME = Column("history_time", "history_end", "edges", "ends of time steps")


def _coefficients(space: str, along: str, key: str) -> Column:
    dims, _, series = _SERIES_ON[space]
    comment = {"comment": f"f = {series}, of the largest space of the run"}
    return Column("coefficients", f"{along} {dims}", key, "coefficients of the density", comment)


_OSCILLATORS = Form(
    Oscillators,
    (
        *(_COUNT, _POINTS, _WEIGHTS),
        Column("frequencies", "point", "frequencies", "natural frequencies"),
        Column("angle", "point", "angles", "phases", _ANGLE),
    ),
    _oscillators,
    counts={"point": ("count", 1)},
)
_OSCILLATOR_DENSITY = Form(
    OscillatorDensity,
    (
        Column("frequencies", "frequency", "frequencies", "natural frequencies"),
        Column("frequency_weights", "frequency", "frequency_weights", "masses of frequencies"),
        Column("widths", "frequency", "widths", "widths of Lorentzians"),
        *(_coefficients("Circle", "t frequency", "parts"), _SIZE),
    ),
    _oscillator_densities,
    _density_record,
    "Circle",
)
_PARTICLES = Form(
    Particles,
    (_COUNT, _POINTS, _WEIGHTS),
    _particles,
    lambda particles: {"sums": particles.sums},
    counts={"point": ("count", 1)},
)
_DENSITIES = tuple(
    Form(
        Density,
        (_coefficients(space, "t", "coefficients"), _SIZE),
        _densities,
        _density_record,
        space,
    )
    for space in _SERIES_ON
)
_LINE_FLOW_MAP = Form(
    LineFlowMap,
    (
        *(_COUNT, _POINTS, _WEIGHTS, _LOG_DENSITY),
        Column("atom", "point", "owners", "atom of each point", {"comment": "-1 of none"}),
        Column("angle", "point", "angles", "angle of each point", _ANGLE),
        Column("expansion", "point", "expansion", "∫ div X dt of each point"),
        Column("panel_edges", "panel side", "edges", "panels of labels", _ANGLE),
        _count("atom_count", "atom_angles.size", "atoms", "held"),
        Column("atom_angle", "held", "atom_angles", "angle of each atom", _ANGLE),
    ),
    _line_flow_maps,
    lambda flow: _flow_record(flow) | {"scale": flow.line.factor},
    counts={"point": ("count", 1), "panel": ("count", panels.NODES), "held": ("atom_count", 1)},
    history=(
        _HISTORY_TIME,
        Column("history_moments", _MOMENTS, "moments", "the measure at cell nodes"),
    ),
)
_SPHERE_FLOW_MAP = Form(
    SphereFlowMap,
    (_COUNT, _POINTS, _WEIGHTS, _LOG_DENSITY),
    _sphere_flow_maps,
    _flow_record,
    counts={"point": ("count", 1)},
    history=(
        _HISTORY_TIME,
        Column("history_moments", f"{_MOMENTS} part", "moments", "moments"),
        Column("absorption_times", "absorption", "absorption_times", "absorption times"),
        Column("absorption_radii", "absorption", "absorption_radii", "absorption radii", _ANGLE),
        Column("absorption_centres", "absorption axis", "absorption_centres", "absorption centres"),
        Column("label_times", "label_patch", "label_times", "label map times"),
        Column("label_squares", "label_patch label_place", "label_squares", "label map patches"),
        Column(
            *("label_values", "label_patch label_part label_node", "label_values", "label maps"),
            {"comment": "label, ∫ div X dt and the share kept, of the last meshes"},
        ),
    ),
    to_history=_sphere_history,
)
_FLOWS = (_LINE_FLOW_MAP, _SPHERE_FLOW_MAP)
_FORMS = (_OSCILLATORS, _OSCILLATOR_DENSITY, _PARTICLES, *_DENSITIES, *_FLOWS)
# names of variables and dimensions that a file needs itself
RESERVED = frozenset(
    name
    for form in _FORMS
    for column in (*form.columns, *form.history)
    for name in (column.name, *column.dims.split())
)


def _form(measure: AnyMeasure) -> Form:
    check_measure("measures", measure)
    space = type(getattr(measure, "space", None)).__name__
    for form in _FORMS:
        if type(measure) is form.measure and form.space in ("", space):
            return form
    raise ValueError(f"measures must be of a kind that a file can keep, got {shown(measure)}")


def measure_record(measures: Sequence[AnyMeasure]) -> Contents:
    """The record that the measures of a run are made from, or two where flow maps follow."""
    ends = [(_form(measure), measure) for measure in (measures[-1], measures[0])]
    records = {form: {"type": form.kind[0]} | form.record(end) for form, end in ends}
    contents = _record_contents("measures", [*reversed(records.values())])
    contents.attrs["dim"] = measures[0].dim
    return contents


def measure_variables(
    measures: Sequence[AnyMeasure], history: History | None = None
) -> dict[str, Variable]:
    """The measures of a run and its history as variables of a file.

    Where flow maps follow densities, coefficients at their times are 0.
    """
    forms = [_form(measure) for measure in measures]
    for (form, here), (other_form, other_measure) in pairwise(zip(forms, measures, strict=True)):
        if form not in _DENSITIES or other_form not in _FLOWS:
            _check_kinds(here, other_measure)
    variables: dict[str, Variable] = {}
    for form in dict.fromkeys(reversed(forms)):
        alike = [m for m, its in zip(measures, forms, strict=True) if its is form]
        variables |= form.variables(alike, forms.index(form), len(forms), history)
    if forms[-1] is not forms[0]:
        variables["size"].values[:] += variables["count"].values
    sizes = Contents(variables).sizes
    for name in (name for name in _COORDINATES if name in sizes):
        variables[name] = Variable((name,), np.arange(sizes[name]), _COORDINATES[name])
    return variables


def _check_kinds(one: AnyMeasure, other: AnyMeasure) -> None:
    (kind, axis), (other_kind, other_axis) = map(_kind_and_axis, (one, other))
    # an axis that was normalised once more may differ in a last bit
    if kind != other_kind or not np.allclose(axis, other_axis, rtol=0.0, atol=_LAST_BITS):
        raise ValueError(f"measures must be of one kind, got {shown(one)} and {shown(other)}")


def _kind_and_axis(measure: AnyMeasure) -> tuple[tuple[object, ...], Array | float]:
    """Return the kind and the axis, which all measures of a run share."""
    space = getattr(measure, "space", None)
    options = getattr(measure, "sums", None), getattr(space, "library", None)
    axis = getattr(space, "axis", None)
    return (*_form(measure).kind, measure.dim, *options), 0.0 if axis is None else axis


def _stored_forms(stored: Contents) -> list[tuple[Form, dict[str, object]]]:
    """Form and record of a file's measures, and of the flow maps that follow densities, if any."""
    records = _read_record("measures", stored)
    kinds = {form.kind: form for form in _FORMS if form is not _SPHERE_FLOW_MAP}
    forms = []
    for record in records if isinstance(records, list) else [records]:
        record_kind = _kind(record)
        if record_kind not in kinds:
            allowed = ", ".join(" on ".join(filter(None, kind)) for kind in kinds)
            raise ValueError(f"measures must be records of {allowed}, got {shown(record_kind)}")
        form = kinds[record_kind]
        is_mesh = form is _LINE_FLOW_MAP and record.get("dim") == 3 and record.get("axis") is None
        forms.append((_SPHERE_FLOW_MAP if is_mesh else form, record))
    if len(forms) not in (1, 2) or (len(forms) == 2 and forms[1][0] not in _FLOWS):
        raise ValueError(f"measures must be one record, or two where flow maps follow, got {forms}")
    return forms


def _kind(record: object) -> tuple[object, ...]:
    """The words for the class of a measure, and of its space, in its record."""
    match record:
        case {"type": kind, "space": {"type": space}}:
            return kind, space
        case {"type": kind}:
            return kind, ""
        case _:
            return (record,)


def read_measures(stored: Contents) -> list[AnyMeasure]:
    """The measures of a file.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    *earlier, (last_form, record) = _stored_forms(stored)
    if last_form not in _FLOWS:
        return _made(last_form, record, stored, slice(None))
    counts = _COUNT.read(stored)
    start = int((counts == 0).sum())
    if counts[:start].any() or (start > 0) != bool(earlier):
        raise ValueError(f"there must be one measure at each t, got count {shown(counts)}")
    measures: list[Any] = []
    for form, its in earlier:
        measures += _made(form, its, stored, slice(start))
    law = SeriesLaw(measures[0]) if measures else None
    return measures + _made(last_form, record, stored, slice(start, None), law)


def _made(
    form: Form, record: Stored, stored: Contents, times: slice, *law: object
) -> list[AnyMeasure]:
    """Return the measures of a form at these times."""
    for column in form.columns:
        column.find(stored)
    sizes = [_SIZE.read(stored, times)] if form.space else []
    return list(form.make(record, form.saves(stored, times), *sizes, *law))


def read_history(stored: Contents) -> History | None:
    """The moments that a file keeps, if any."""
    form = _stored_forms(stored)[-1][0]
    if not form.history or not {column.name for column in form.history} <= set(stored.variables):
        return None
    arrays = {column.key: column.read(stored) for column in form.history}
    ends, moments, *_ = arrays.values()
    if moments.shape[:2] != (len(ends) - 1, NODES):
        raise ValueError(
            f"history_moments must have shape ({len(ends) - 1}, {NODES}, …), got {moments.shape}"
        )
    return form.to_history(arrays)


def text_of(stored: Contents, name: str) -> str:
    """An attribute of a file."""
    text = stored.attrs.get(name)
    if not isinstance(text, str):
        raise ValueError(f"attribute {name} must be of type str, got {shown(text)}")
    return text


def _record_contents(name: str, record: object) -> Contents:
    """Return a record as an attribute of a file.

    Arrays of more than 1,000 numbers become a variable.

    Python's floats come back from the text to the bit.
    """
    arrays: list[Array] = [np.empty(0)]
    first = 0

    def place(array: Array) -> dict[str, object]:
        nonlocal first
        arrays.append(array.ravel())
        first += array.size
        return dict(zip(_PLACE, (first - array.size, array.shape), strict=True))

    text = json.dumps(record, default=place)
    if first <= _MOST_IN_TEXT:
        return Contents({}, {name: json.dumps(record, default=np.ndarray.tolist)})
    column = _numbers_of(name)
    return Contents({column.name: column.variable(np.concatenate(arrays))}, {name: text})


def _numbers_of(record: str) -> Column:
    name = f"{_RECORD}{record}"
    return Column(name, f"{name}_number", "numbers", f"numbers of the attribute {record}")


def _read_record(name: str, stored: Contents) -> Any:
    """Return the record that `_record_contents` wrote.

    Raises
    ------
    ValueError
        If it is no JSON, or numbers of it are missing.
    """
    column = _numbers_of(name)
    numbers = column.read(stored) if column.name in stored else np.empty(0)

    def placed(table: Table) -> object:
        if set(table) != {*_PLACE}:
            return table
        start, shape = (table[key] for key in _PLACE)
        start = integer("first_number", start, low=0)
        shape = [integer("shape", length, low=0) for length in shape]
        end = start + math.prod(shape)
        if end > len(numbers):
            raise ValueError(
                f"{column.name} must be a variable of at least {end} numbers, got {len(numbers)}"
            )
        return numbers[start:end].reshape(shape)

    text = text_of(stored, name)
    try:
        return json.loads(text, object_hook=placed)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name} must be JSON, got {shown(text)}") from error


def dynamics_record(dynamics: AnyDynamics, energy: AnyDynamics | None) -> Contents:
    """The record of the dynamics, and of the one whose energy is followed, if there is one."""
    contents = _record_contents("dynamics", _record(dynamics))
    return contents if energy is None else contents | _record_contents("energy", _record(energy))


def _record(dynamics: AnyDynamics) -> dict[str, object]:
    """Return the record of a dynamics in a file."""
    try:
        return to_record(dynamics, _KINDS)
    except ValueError:
        # a dynamics that a user wrote, or a part of one, is kept in words only
        words = description(dynamics), float(dynamics.noise), dynamics_title(dynamics)
        forgotten = ForgottenDynamics(dynamics.name, *words, has_mask=has_mask(dynamics))
        return to_record(forgotten, _DYNAMICS)


def description(dynamics: AnyDynamics) -> str:
    """The text in a file that tells a dynamics, which it can't keep, from others.

    Functions of t are left out, and a checksum tells whether all else is the same.
    """
    text = describe(dynamics)
    try:
        record = to_record(dynamics, _KINDS, _FUNCTIONS)
    except ValueError:
        return text
    digest = sha256(json.dumps(record, default=np.ndarray.tolist).encode()).hexdigest()
    values = walk_fields(dynamics)
    names = list(dict.fromkeys(name for name, part in values if isinstance(part, _FUNCTIONS)))
    are = "are functions" if names[1:] else "is a function"
    return (
        f"{text}, where {', '.join(names)} {are} of t, of which a file keeps no text; all else has "
        f"the checksum {digest[:16]}"
    )


def read_dynamics(stored: Contents) -> tuple[AnyDynamics, AnyDynamics | None]:
    """The dynamics of a file, and that whose energy is followed, if there is one.

    Raises
    ------
    ValueError
        If an attribute is missing, of another type or inconsistent with its numbers.
    """

    def read(name: str) -> AnyDynamics:
        return from_record(_read_record(name, stored), _DYNAMICS, parts=_PARTS)

    return read("dynamics"), read("energy") if "energy" in stored.attrs else None


@dataclass(frozen=True)
class Resumption:
    """The state that a run needs to go on from its last save.

    Attributes
    ----------
    numbers : dict
        Numbers, words and lists of them, as JSON has them, and arrays.
    times : ndarray
        Those to save.
    """

    numbers: Table
    times: Array

    def contents(self) -> Contents:
        """The numbers as an attribute of a file, and the times as a variable."""
        contents = _record_contents(_RESUMPTION, self.numbers)
        dims = tuple(f"{_TIMES}_{i}" for i in range(self.times.ndim))
        contents.variables[_TIMES] = Variable(dims, self.times)
        return contents


def read_resumption(stored: Contents) -> Resumption | None:
    """The state that a file keeps for `resume`, None if it keeps none.

    Raises
    ------
    ValueError
        If it is not JSON, or there are no times.
    """
    if _RESUMPTION not in stored.attrs:
        return None
    numbers = _read_record(_RESUMPTION, stored)
    if type(numbers) is not dict:
        raise ValueError(f"{_RESUMPTION} must be a JSON object, got {shown(numbers)}")
    if _TIMES not in stored:
        raise ValueError(f"{_TIMES} must be a variable, got none")
    return Resumption(numbers, stored[_TIMES].values[...])


def names_beside_numbers(stored: Contents) -> list[str]:
    """The variables of a file that are not those of the solution's dataset."""
    columns = [c for form, _ in _stored_forms(stored) for c in (*form.columns, *form.history)]
    names = {*_COORDINATES, *(column.name for column in columns)} - {_SIZE.name}
    return [name for name in stored.variables if name in names or name.startswith(PREFIXES)]
