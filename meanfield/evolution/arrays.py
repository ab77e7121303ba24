"""What a file keeps of a run as variables and attributes: measures, history, dynamics, resumption.

Each class of measures has a `Form`: a table of columns, and how a measure is made of them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from meanfield._checks import integer, number, one_of, real_array, rows, shown, unit_rows
from meanfield._record import from_record, to_record
from meanfield.dynamics import KNOWN, AnyDynamics
from meanfield.dynamics.attention import Head
from meanfield.dynamics.own import ForgottenDynamics, describe
from meanfield.equations.history import NODES, History, MomentHistory
from meanfield.laws import LAWS, Law
from meanfield.measures import AnyMeasure, Density, LineFlowMap, OscillatorDensity, SphereFlowMap
from meanfield.measures.density import SeriesLaw
from meanfield.measures.flow_map import LabelLine
from meanfield.measures.particles import Oscillators, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal, available, panels
from meanfield.typing import Array, ArrayLike, NDArray

AnyHistory = MomentHistory | History

# of variables: matrices of the dynamics, and arrays that `resume` needs
_MATRIX, _RESUME = "dynamics_matrix_", "resume_"
PREFIXES = (_MATRIX, _RESUME)
_RESUMPTION = "resumption"
_DYNAMICS = (*KNOWN, ForgottenDynamics)
SIZE_NAME = "size"
SIZE_COMMENT = "n, lmax or kmax of the space in use, or number of nodes"
TIME = {"long_name": "time t", "units": "1"}
# in place of the record of a law
_SERIES = "series of the first density"
# what numbers of a file may be, so that a damaged one takes no memory
_SIZES, _COUNTS = (3, 1 << 20), (0, 1 << 26)
# what normalising may change in what is normalised
_LAST_BITS = 1e-15
# coefficients and parts of each, told by the size of a space without making it
_SHAPES: dict[str, Callable[[int], tuple[int, int]]] = {
    Circle.name: lambda n: (n // 2, 2),
    Sphere.name: lambda lmax: ((lmax + 1) * (lmax + 2) // 2, 2),
    Zonal.name: lambda kmax: (kmax + 1, 1),
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
    limits : pair of int, optional
        Of integers.
    """

    name: str
    dims: str
    key: str
    long_name: str
    limits: tuple[int, int] | None = None

    @property
    def first(self) -> str:
        """The first dimension."""
        return self.dims.split()[0]

    def variable(self, values: NDArray[Any]) -> tuple[list[str], NDArray[Any], dict[str, str]]:
        """The values as a variable of a dataset."""
        if self.dims.endswith("part"):
            values = np.ascontiguousarray(values).view(np.float64).reshape(*values.shape, -1)
        # the dataset of a run has it without a unit
        units = {} if self.name == "size" else {"units": "1"}
        return self.dims.split(), values, {"long_name": self.long_name} | units

    def arrays(self, measures: Sequence[Any]) -> list[NDArray[Any]]:
        """The arrays of the measures."""
        found = [np.asarray(attrgetter(self.key)(measure)) for measure in measures]
        if self.dims.endswith("part"):
            spaces = [measure.space for measure in measures]
            largest = max(spaces, key=lambda space: int(space.size))
            return [_embedded(*pair, largest) for pair in zip(spaces, found, strict=True)]
        return found

    def read(self, stored: xr.Dataset, times: slice = slice(None)) -> NDArray[Any]:
        """The values in a file, of these times where there is a row for each.

        Raises
        ------
        ValueError
            If there is no such variable over these dimensions, or it holds what it must not.
        """
        dims = tuple(self.dims.split())
        found = stored.variables[self.name].dims if self.name in stored.variables else "no such"
        if found != dims:
            raise ValueError(f"{self.name} must be a variable over {', '.join(dims)}, got {found}")
        values = stored[self.name].values[times if self.first == "t" else slice(None)]
        if self.limits:
            low, high = self.limits
            return np.array([integer(self.name, value, low=low, high=high) for value in values])
        if self.first in ("t", "frequency"):
            return real_array(self.name, values, len(dims))
        return _without_nan(self.name, values)


TIMES = Column("t", "t", "t", "time")


@dataclass(frozen=True, eq=False)
class Form:
    """How a file keeps measures of a class.

    Attributes
    ----------
    measure : type
    words : tuple of str
        The attribute `space` of such files.
    columns : tuple of Column
    make : callable
        Makes measures again of a file and the arrays of each time, by the keys of the columns. Of
        flow maps it is given the law of the density that they follow, too, or None.
    attributes : callable
        What a measure has in common with all others of its run.
    counts : mapping of str to (str, int)
        Of dimensions of different length at each time: the column that holds the lengths, as
        multiples of that number.
    history : tuple of Column
    to_arrays, from_arrays : callable
        Of the history.
    """

    measure: type
    words: tuple[str, ...]
    columns: tuple[Column, ...]
    make: Callable[..., list[Any]]
    attributes: Callable[[Any], dict[str, Any]] = lambda _: {}
    counts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    history: tuple[Column, ...] = ()
    to_arrays: Callable[[Any], Mapping[str, Any]] = vars
    from_arrays: Callable[[Any], AnyHistory] = lambda arrays: MomentHistory(**arrays)

    @property
    def names(self) -> list[str]:
        """Those of all its variables."""
        return [column.name for column in (*self.columns, *self.history)]

    def variables(
        self, measures: Sequence[AnyMeasure | None], history: AnyHistory | None
    ) -> dict[str, Any]:
        """Measures and history as variables; None at times that have a measure of another form.

        Raises
        ------
        ValueError
            If measures differ in what must be the same at all times.
        """
        here = [i for i, measure in enumerate(measures) if measure is not None]
        present = [measures[i] for i in here]
        found = {}
        for column in self.columns:
            arrays = column.arrays(present)
            if column.first in self.counts:
                array = np.concatenate(arrays)
            elif column.first == "t":
                _check_same(f"shape of {column.name}", [one.shape for one in arrays])
                array = np.zeros((len(measures), *arrays[0].shape), dtype=arrays[0].dtype)
                for i, one in zip(here, arrays, strict=True):
                    array[i] = one
            else:
                _check_same(column.name, [one.tolist() for one in arrays])
                array = arrays[0]
            found[column.name] = column.variable(array)
        if history is not None and self.history:
            kept = self.to_arrays(history)
            found |= {column.name: column.variable(kept[column.key]) for column in self.history}
        return found

    def saves(self, stored: xr.Dataset, times: slice) -> list[dict[str, Any]]:
        """The arrays of each of these times, by the keys of the columns.

        Raises
        ------
        ValueError
            If an array is missing, or of another length than the counts tell.
        """
        found = {column.name: column.read(stored, times) for column in self.columns}
        counts = dict(self.counts.values())
        columns: dict[str, Any] = {}
        for column in [column for column in self.columns if column.name not in counts]:
            array = found[column.name]
            if column.first in self.counts:
                count, per = self.counts[column.first]
                columns[column.key] = _split(column.name, array, count, found[count], per)
            elif column.first == "t":
                columns[column.key] = array
            else:
                columns[column.key] = [array] * len(TIMES.read(stored, times))
        return [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]


def _check_same(name: str, values: Sequence[Any]) -> None:
    for value in values:
        if value != values[0]:
            raise ValueError(
                f"measures must be of one kind, with the same {name} at all times, got "
                f"{shown(values[0])} and {shown(value)}"
            )


def _split(
    name: str, array: NDArray[Any], count: str, counts: NDArray[Any], per: int
) -> list[NDArray[Any]]:
    """The rows of each time."""
    if (counts % per).any():
        raise ValueError(f"{count} must be multiples of {per}, got {counts[:8]}")
    ends = np.cumsum(counts // per)
    if len(array) != ends[-1]:
        raise ValueError(f"{name} must have {ends[-1]} rows, got {len(array)}")
    return [part.copy() for part in np.split(array, ends[:-1])]


def _without_nan(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.array(values)
    if np.isnan(array).any():
        raise ValueError(f"{name} must hold no NaN, got one at {np.argwhere(np.isnan(array))[0]}")
    return array


def _embedded(space: Any, coefficients: NDArray[Any], other: Space) -> NDArray[Any]:
    """Coefficients along the last axis in a larger or smaller space of the same kind."""
    found: NDArray[Any] = np.apply_along_axis(space._embed, -1, coefficients, other)
    return found


def _undo_rounding(measure: Any, **given: Array) -> None:
    """Give a measure or a space what was in the file if normalising it only turned last bits."""
    for name, array in given.items():
        if np.allclose(array, getattr(measure, name), rtol=_LAST_BITS, atol=_LAST_BITS):
            setattr(measure, name, array.copy())
            getattr(measure, name).flags.writeable = False


def _space(stored: xr.Dataset, word: str, size: int) -> Space:
    if word == Circle.name:
        return Circle(size)
    if word == Sphere.name:
        return Sphere(size, available(stored.attrs.get("library", "ducc0")))
    axis = real_array("axis", stored.attrs.get("axis", 0.0), 1)
    return Zonal(len(axis), size, axis)


def _series(
    stored: xr.Dataset, saves: list[dict[str, Any]], key: str, word: str
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """The space of each time and its coefficients, which the file has in the largest space."""
    sizes = [int(save["space.size"]) for save in saves]
    shape, expected = saves[0][key].shape[-2:], _SHAPES[word](max(sizes))
    if shape != expected:
        raise ValueError(
            f"{key} must have shape {expected} at each t for size {max(sizes)}, got {shape}"
        )
    spaces: dict[int, Any] = {size: _space(stored, word, size) for size in sorted(set(sizes))}
    largest = spaces[max(sizes)]
    for size, save in zip(sizes, saves, strict=True):
        found = save[key].view(largest._coefficient_type)[..., 0]
        yield spaces[size], _embedded(largest, found, spaces[size])


def _density_attributes(density: Density) -> dict[str, Any]:
    space = density.space
    given = {name: getattr(space, name, None) for name in ("library", "axis")} | density._limits
    return {"space": space.name} | {k: v for k, v in given.items() if v is not None}


def _density_limits(stored: xr.Dataset) -> dict[str, Any]:
    """What a run of a file's densities may do; each of them checks it."""
    return {name: stored.attrs[name] for name in ("tail_tol", "max_size") if name in stored.attrs}


def _densities(stored: xr.Dataset, saves: list[dict[str, Any]]) -> list[Density]:
    series = _series(stored, saves, "coefficients", stored.attrs["space"])
    limits = _density_limits(stored)
    return [Density.from_coefficients(*pair, **limits) for pair in series]


def _particles(stored: xr.Dataset, saves: list[dict[str, Any]]) -> list[Particles]:
    sums = stored.attrs.get("particle_sums", "auto")
    found = [Particles(**save, sums=sums) for save in saves]
    for particles, save in zip(found, saves, strict=True):
        _undo_rounding(particles, **save)
    return found


def _shares(weights: Array) -> Array:
    """The masses of frequencies, if they are that."""
    if weights.min() < 0.0 or not np.isclose(weights.sum(), 1.0, rtol=0.0, atol=1e-14):
        raise ValueError(f"frequency_weights must be >= 0 of sum 1, got {weights.sum()!r}")
    return weights


def _oscillators(_: xr.Dataset, saves: list[dict[str, Any]]) -> list[Oscillators]:
    weights, found = _shares(saves[0]["weights"]), [Oscillators(**save) for save in saves]
    for oscillators in found:
        _undo_rounding(oscillators, weights=weights)
    return found


def _oscillator_densities(
    stored: xr.Dataset, saves: list[dict[str, Any]]
) -> list[OscillatorDensity]:
    first, found = saves[0], []
    weights = _shares(first["frequency_weights"])
    limits = _density_limits(stored)
    for pair in _series(stored, saves, "parts", Circle.name):
        density = OscillatorDensity.from_parts(
            *pair, first["frequencies"], weights, first["widths"], **limits
        )
        _undo_rounding(density, frequency_weights=weights)
        density.coefficients = density.frequency_weights @ density.parts
        density.coefficients.flags.writeable = False
        found.append(density)
    return found


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


def law_record(law: Law) -> dict[str, Any] | None:
    """The record of a law, None of one that no file can keep."""
    try:
        return to_record(law, LAWS)
    except ValueError:
        return None


def _flow_attributes(flow: LineFlowMap | SphereFlowMap) -> dict[str, Any]:
    record = law_record(flow.law)
    text = _SERIES if type(flow.law) is SeriesLaw else ""
    told = {"flow_law": json.dumps(record) if record else text, "flow_tol": flow.tol}
    return told | flow._limits


def _flow_limits(stored: xr.Dataset) -> dict[str, Any]:
    """Tolerance and limits of a file's flow maps.

    Raises
    ------
    ValueError
        If one is missing or out of range.
    """
    given = stored.attrs
    return {
        "tol": number("flow_tol", given.get("flow_tol"), above=0),
        "max_nodes": integer("max_nodes", given.get("max_nodes"), low=1),
        "atom_radius": number("atom_radius", given.get("atom_radius"), low=0, high=1e-2),
    }


def _read_law(stored: xr.Dataset, dim: int, first: SeriesLaw | None) -> Law:
    text = str(stored.attrs.get("flow_law") or "")
    if text == _SERIES:
        return first or ForgottenLaw(dim)
    return from_record(json.loads(text), LAWS) if text else ForgottenLaw(dim)


def _line_attributes(flow: LineFlowMap) -> dict[str, Any]:
    line = flow.line
    axis = {} if line.axis is None else {"flow_axis": line.axis}
    return _flow_attributes(flow) | {"flow_scale": line.scale, "flow_dim": flow.dim} | axis


def _line_flow_maps(
    stored: xr.Dataset, saves: list[dict[str, Any]], first: SeriesLaw | None
) -> list[LineFlowMap]:
    given, found = stored.attrs, []
    law = _read_law(stored, integer("flow_dim", given.get("flow_dim"), low=2), first)
    axis = real_array("flow_axis", given["flow_axis"], 1) if "flow_axis" in given else None
    line = LabelLine(law, axis, number("flow_scale", given.get("flow_scale"), above=0))
    limits = _flow_limits(stored)
    for save in saves:
        save["atoms"] = save.pop("_atom_angles")
        owners, atoms = save["owners"], len(save["atoms"])
        if owners.min() < -1 or owners.max() >= atoms:
            told = f"got {owners.min()} to {owners.max()}"
            raise ValueError(f"node_owner must be -1 or the number of one of {atoms} atoms, {told}")
        log_density, save["owners"] = save.pop("log_density"), owners.astype(np.int64)
        found.append(LineFlowMap.from_arrays(line, **limits, **save))
        found[-1].log_density = log_density
    return found


def _sphere_flow_maps(
    stored: xr.Dataset, saves: list[dict[str, Any]], first: SeriesLaw | None
) -> list[SphereFlowMap]:
    law, found, limits = _read_law(stored, 3, first), [], _flow_limits(stored)
    for t, save in zip(TIMES.read(stored)[-len(saves) :], saves, strict=True):
        unit_rows("flow_points", save["points"], 3)
        found.append(SphereFlowMap.from_arrays(law, t=float(t), **limits, **save))
    return found


def _sphere_history(arrays: dict[str, NDArray[Any]]) -> History:
    moments, centres = arrays["moments"], arrays["absorption_centres"]
    if moments.shape[3] != 2:
        raise ValueError(f"history_moments must have 2 parts, got shape {moments.shape}")
    rows("absorption_centres", np.vstack([np.ones((1, 3)), centres]), 3)
    return History.from_arrays(arrays | {"moments": moments[..., 0] + 1j * moments[..., 1]})


_OF_FREQUENCIES = (
    Column("frequencies", "frequency", "frequencies", "natural frequencies"),
    Column("frequency_weights", "frequency", "frequency_weights", "their masses"),
    Column("frequency_widths", "frequency", "widths", "widths of Lorentzians about them"),
)
_SIZE = Column("size", "t", "space.size", SIZE_NAME, _SIZES)
_TEXT = "spectral coefficients (real and imaginary part)"
_MOMENTS = "history_step history_node history_moment"

# a class stands before its base
_OSCILLATORS = Form(
    Oscillators,
    ("oscillators",),
    (
        _OF_FREQUENCIES[0],
        Column("frequency_weights", "frequency", "weights", "their masses"),
        Column("phases", "t frequency", "angles", "angles"),
    ),
    _oscillators,
)
_PARTS = Column(
    "parts", "t frequency coefficient part", "parts", f"{_TEXT} of the density at each frequency"
)
_OSCILLATOR_DENSITY = Form(
    OscillatorDensity,
    ("oscillator-density",),
    (*_OF_FREQUENCIES, _PARTS, _SIZE),
    _oscillator_densities,
    lambda density: {k: v for k, v in density._limits.items() if v is not None},
)
_PARTICLES = Form(
    Particles,
    ("particles",),
    (
        Column("points", "t token axis", "points", "tokens on the unit sphere"),
        Column("weights", "t token", "weights", "masses of the tokens"),
    ),
    _particles,
    lambda particles: {} if particles.sums == "auto" else {"particle_sums": particles.sums},
)
_COEFFICIENTS = Column(
    "coefficients", "t coefficient part", "coefficients", f"{_TEXT} in the largest space"
)
_DENSITY = Form(Density, tuple(_SHAPES), (_COEFFICIENTS, _SIZE), _densities, _density_attributes)
_LINE_FLOW_MAP = Form(
    LineFlowMap,
    ("flow-map",),
    (
        Column("node_count", "t", "weights.size", "nodes of the flow map at each time", _COUNTS),
        Column("atom_count", "t", "_atom_angles.size", "atoms at each time", _COUNTS),
        Column("panel_edges", "panel side", "edges", "panels of labels"),
        Column("node_angle", "node", "angles", "angle of each node, in radians"),
        Column("node_expansion", "node", "expansion", "∫ div X dt of each node"),
        Column("node_weight", "node", "weights", "mass of each node"),
        Column("node_owner", "node", "owners", "atom that holds the node, or -1"),
        Column("node_log_density", "node", "log_density", "log f_t at each node"),
        Column("atom_angle", "atom", "_atom_angles", "angle of each atom, in radians"),
    ),
    _line_flow_maps,
    _line_attributes,
    {"node": ("node_count", 1), "panel": ("node_count", panels.NODES), "atom": ("atom_count", 1)},
    (
        Column("history_time", "history_end", "times", "ends of the time steps"),
        Column("history_moments", _MOMENTS, "moments", "the measure at cell nodes"),
    ),
)
_SPHERE_FLOW_MAP = Form(
    SphereFlowMap,
    ("flow-map-sphere",),
    (
        Column("flow_count", "t", "weights.size", "nodes and particles at each time", _COUNTS),
        Column("flow_points", "node axis", "points", "nodes and particles"),
        Column("flow_weights", "node", "weights", "their masses"),
        Column("flow_log_density", "node", "log_density", "log f_t at nodes, inf at particles"),
    ),
    _sphere_flow_maps,
    _flow_attributes,
    {"node": ("flow_count", 1)},
    (
        Column("history_edges", "history_end", "edges", "edges"),
        Column("history_moments", f"{_MOMENTS} part", "moments", "moments"),
        Column("absorption_times", "absorption", "absorption_times", "absorption times"),
        Column("absorption_radii", "absorption", "absorption_radii", "absorption radii"),
        Column("absorption_centres", "absorption axis", "absorption_centres", "absorption centres"),
    ),
    History.arrays,
    _sphere_history,
)
_FLOWS = (_LINE_FLOW_MAP, _SPHERE_FLOW_MAP)
_FORMS = (_OSCILLATORS, _OSCILLATOR_DENSITY, _PARTICLES, _DENSITY, *_FLOWS)
# names that a file needs for itself
RESERVED = frozenset({"t", *(name for form in _FORMS for name in form.names)})


def _form(measure: AnyMeasure) -> Form:
    for form in _FORMS:
        if isinstance(measure, form.measure):
            return form
    raise ValueError(f"measures must be of a kind that a file can keep, got {shown(measure)}")


def _attributes(measure: AnyMeasure) -> dict[str, Any]:
    form = _form(measure)
    return {"space": form.words[0], "dim": measure.dim} | form.attributes(measure)


def measure_attributes(measures: Sequence[AnyMeasure]) -> dict[str, Any]:
    """What the measures of a run have in common, of both kinds where flow maps follow densities."""
    return _attributes(measures[-1]) | _attributes(measures[0])


def measure_variables(
    measures: Sequence[AnyMeasure], history: AnyHistory | None = None
) -> dict[str, Any]:
    """The measures of a run and its history as variables of a dataset.

    Where flow maps follow densities, coefficients at their times are 0.

    Raises
    ------
    ValueError
        If the measures are not of one kind.
    """
    forms = [_form(measure) for measure in measures]
    kinds = zip(forms, map(_attributes, measures), strict=True)
    for (form, one), (other_form, other) in pairwise(kinds):
        if form is not _DENSITY or other_form not in _FLOWS:
            _check_kinds(one, other)
    found: dict[str, Any] = {}
    for form in dict.fromkeys(reversed(forms)):
        own = [m if own is form else None for m, own in zip(measures, forms, strict=True)]
        found |= form.variables(own, history)
    if forms[-1] is not forms[0]:
        found["size"][1][:] += found[forms[-1].columns[0].name][1]
    return found


def _check_kinds(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    first, second = one.get("axis", 0.0), other.get("axis", 0.0)
    same = all(one.get(word) == other.get(word) for word in ("space", "dim", "particle_sums"))
    # an axis normalised again may differ in a last bit
    if not same or not np.allclose(first, second, rtol=0.0, atol=_LAST_BITS):
        raise ValueError(f"measures must be of one kind, got {one} and {other}")


def _stored_forms(stored: xr.Dataset) -> list[Form]:
    """The form of a file's measures, and that of the flow maps which follow densities, if any."""
    word = stored.attrs.get("space")
    found = [form for form in _FORMS if str(word) in form.words]
    if not found:
        allowed = [word for form in _FORMS for word in form.words]
        raise ValueError(f"space must be one of {allowed}, got {shown(word)}")
    if found == [_DENSITY]:
        found += [form for form in _FLOWS if form.columns[0].name in stored.variables]
    return found[:2]


def read_measures(stored: xr.Dataset) -> list[AnyMeasure]:
    """The measures of a file.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    *earlier, last = _stored_forms(stored)
    if last not in _FLOWS:
        return last.make(stored, last.saves(stored, slice(None)))
    counts = last.columns[0].read(stored)
    start = int((counts == 0).sum())
    if counts[:start].any() or (start > 0) != bool(earlier):
        told = f"{last.columns[0].name} {shown(counts)}"
        raise ValueError(f"there must be one measure at each t, got {told}")
    found: list[Any] = []
    for form in earlier:
        found += form.make(stored, form.saves(stored, slice(start)))
    first = SeriesLaw(found[0]) if found else None
    return found + last.make(stored, last.saves(stored, slice(start, None)), first)


def read_history(stored: xr.Dataset) -> AnyHistory | None:
    """The moments that a file keeps, if any.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    form = _stored_forms(stored)[-1]
    if not form.history or not {column.name for column in form.history} <= set(stored.variables):
        return None
    arrays = {column.key: column.read(stored) for column in form.history}
    ends, moments, *_ = arrays.values()
    if moments.shape[:2] != (len(ends) - 1, NODES):
        raise ValueError(
            f"history_moments must have shape ({len(ends) - 1}, {NODES}, …), got {moments.shape}"
        )
    return form.from_arrays(arrays)


def attribute(stored: xr.Dataset, name: str, kind: type) -> Any:
    """An attribute of a file.

    Raises
    ------
    ValueError
        If it is missing or of another type.
    """
    value = stored.attrs.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"attribute {name} must be of type {kind.__name__}, got {shown(value)}")
    return value


def _json(name: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{name} must be JSON, got {shown(text)}") from error


def _arrays_of(stored: xr.Dataset, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin like this, by the rest of their names."""
    return {
        str(name).removeprefix(prefix): np.array(variable.values)
        for name, variable in stored.variables.items()
        if str(name).startswith(prefix)
    }


def _variables(
    prefix: str, arrays: Mapping[str, NDArray[Any]], axis: str
) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Arrays under names that begin like this, each along dimensions of its own."""
    return {
        f"{prefix}{name}": (tuple(f"{prefix}{name}{axis}{i}" for i in range(array.ndim)), array)
        for name, array in arrays.items()
    }


def dynamics_attributes(dynamics: AnyDynamics) -> dict[str, Any]:
    """What a file says of the dynamics."""
    record, _ = _dynamics_record(dynamics)
    told = {"dynamics": dynamics.name, "noise": dynamics.noise}
    if hasattr(dynamics, "beta"):
        told["beta"] = dynamics.beta
    # numbers are attributes
    plain = record.keys() == {"type", "beta", "sign", "noise"}
    return told | ({"sign": record["sign"]} if plain else {"dynamics_record": json.dumps(record)})


def dynamics_variables(dynamics: AnyDynamics) -> dict[str, Any]:
    """The matrices of a dynamics as variables of a dataset; none for those without."""
    matrices = _dynamics_record(dynamics)[1]
    return _variables(_MATRIX, {str(i): matrix for i, matrix in enumerate(matrices)}, "_axis_")


def _dynamics_record(dynamics: AnyDynamics) -> tuple[dict[str, Any], list[Array]]:
    matrices: list[Array] = []
    try:
        return to_record(dynamics, (*_DYNAMICS, Head), matrices), matrices
    except ValueError:
        # where it, or a part of it, is of a user's own class this is all that can be kept
        told = dynamics.name, describe(dynamics), float(dynamics.noise)
        return to_record(ForgottenDynamics(*told), _DYNAMICS), []


def read_dynamics(stored: xr.Dataset) -> AnyDynamics:
    """The dynamics of a file.

    Raises
    ------
    ValueError
        If an attribute is missing, of another type or inconsistent with the matrices.
    """
    name = attribute(stored, "dynamics", str)
    if "dynamics_record" in stored.attrs:
        record = _json("dynamics_record", stored.attrs["dynamics_record"])
    else:
        # of attention without matrices, whose numbers are attributes
        one_of("dynamics", name, [kind.__name__ for kind in KNOWN])
        record = {key: attribute(stored, key, Real) for key in ("beta", "sign", "noise")}
        record["type"] = name
    if "text" in record:
        # of a user's own class
        record |= {"type": ForgottenDynamics.__name__, "name": name}
    matrices = _arrays_of(stored, _MATRIX)
    expected = [str(i) for i in range(len(matrices))]
    if set(expected) != set(matrices):
        raise ValueError(f"matrices of the dynamics must be {expected}, got {list(matrices)}")
    given = [matrices[number] for number in expected]
    found: AnyDynamics = from_record(record, _DYNAMICS, given, parts=[Head])
    return found


@dataclass(frozen=True)
class Resumption:
    """Numbers and arrays of a run at its last save.

    Attributes
    ----------
    numbers : dict
        Numbers, words and lists of them, as JSON has them.
    arrays : dict of str to ndarray
        Of float64.
    """

    numbers: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)

    def attributes(self) -> dict[str, str]:
        """The numbers as an attribute of a file; Python's floats come back to the bit."""
        return {_RESUMPTION: json.dumps(self.numbers)}

    def variables(self) -> dict[str, Any]:
        """The arrays as variables of a dataset."""
        return _variables(_RESUME, self.arrays, "_")


def read_resumption(stored: xr.Dataset) -> Resumption | None:
    """What a file keeps for `resume`, None where there is nothing.

    Raises
    ------
    ValueError
        If it is not JSON, or a variable holds a NaN.
    """
    text = stored.attrs.get(_RESUMPTION)
    if text is None:
        return None
    numbers = _json(_RESUMPTION, text)
    if type(numbers) is not dict:
        raise ValueError(f"{_RESUMPTION} must be a JSON object, got {shown(text)}")
    arrays = _arrays_of(stored, _RESUME)
    return Resumption(
        numbers, {name: _without_nan(f"{_RESUME}{name}", array) for name, array in arrays.items()}
    )


def own_names(stored: xr.Dataset) -> list[str]:
    """The variables of a file that are not those of the solution's dataset."""
    own = {name for form in _stored_forms(stored) for name in form.names} - {"size"}
    return [str(name) for name in stored.variables if name in own or str(name).startswith(PREFIXES)]
