"""Measures, their histories and their dynamics as arrays over time, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from meanfield._checks import integer, number, real_array, rows, shown, unit_rows
from meanfield.dynamics.attention import Head
from meanfield.dynamics.facts import ForgottenDynamics
from meanfield.dynamics.records import KNOWN, AnyDynamics
from meanfield.equations.history import NODES, History, MomentHistory
from meanfield.laws import LAWS
from meanfield.laws.law import Law
from meanfield.laws.record import from_record, to_record
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density, SeriesLaw
from meanfield.measures.flow_map import FlowMap, LabelLine, LineFlowMap, SphereFlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Oscillators, Particles
from meanfield.spaces import Space, panels
from meanfield.spaces.circle import Circle
from meanfield.spaces.sphere import Sphere, available
from meanfield.spaces.zonal import Zonal
from meanfield.typing import Array

_KINDS = (*KNOWN, ForgottenDynamics, Head)
# variables that hold the matrices of a dynamics
DYNAMICS_PREFIX = "dynamics_matrix_"


def dynamics_attributes(dynamics: AnyDynamics) -> dict[str, Any]:
    """What a file says of the dynamics."""
    about = {"dynamics": dynamics.name, "beta": dynamics.beta, "noise": dynamics.noise}
    record, _ = _record(dynamics)
    if "sign" in record:
        return about | {"sign": record["sign"]}
    return about | {"dynamics_record": json.dumps(record)}


def dynamics_variables(dynamics: AnyDynamics) -> dict[str, Any]:
    """The matrices of a dynamics as variables of a dataset; none for those without."""
    _, matrices = _record(dynamics)
    return {
        f"{DYNAMICS_PREFIX}{i}": (
            tuple(f"{DYNAMICS_PREFIX}{i}_axis_{axis}" for axis in range(m.ndim)),
            m,
        )
        for i, m in enumerate(matrices)
    }


def _record(dynamics: AnyDynamics) -> tuple[dict[str, Any], list[Array]]:
    matrices: list[Array] = []
    try:
        return to_record(dynamics, _KINDS, matrices), matrices
    except ValueError:
        # where it, or a part of it, is of a user's own class this is all that can be kept
        about = dynamics.name, repr(dynamics), float(dynamics.beta), float(dynamics.noise)
        return to_record(ForgottenDynamics(*about), _KINDS), []


def variable_names(stored: xr.Dataset) -> list[str]:
    """The names of the variables that hold matrices of the dynamics."""
    return [str(name) for name in stored.variables if str(name).startswith(DYNAMICS_PREFIX)]


def dynamics_of(stored: xr.Dataset) -> AnyDynamics:
    """The dynamics of a file.

    Raises
    ------
    ValueError
        If an attribute is missing, of another type or inconsistent with the matrices.
    """
    about: Mapping[Any, Any] = stored.attrs
    name = attribute(about, "dynamics", str)
    text = about.get("dynamics_record")
    record = _numbers(name, about) if text is None else _parsed(text)
    if "text" in record:
        # of a user's own class; earlier files have its name as the type
        record |= {"type": ForgottenDynamics.__name__, "name": name}
    present = variable_names(stored)
    expected = [f"{DYNAMICS_PREFIX}{i}" for i in range(len(present))]
    if set(expected) != set(present):
        raise ValueError(f"matrices of the dynamics must be {expected}, got {present}")
    found: AnyDynamics = from_record(
        record, _KINDS, [np.array(stored[each].values) for each in expected]
    )
    return found


def _numbers(name: str, about: Mapping[Any, Any]) -> dict[str, Any]:
    """The record of attention without matrices, whose numbers are attributes."""
    names = [kind.name for kind in KNOWN]
    if name not in names:
        raise ValueError(f"dynamics must be one of {names}, got {name!r:.80}")
    return {"type": name} | {key: attribute(about, key, Real) for key in ("beta", "sign", "noise")}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"dynamics_record must be JSON, got {shown(text)}") from error


def attribute(attributes: Mapping[Any, Any], name: str, kind: type) -> Any:
    """An attribute of a file.

    Raises
    ------
    ValueError
        If it is missing or of another type.
    """
    value = attributes.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"attribute {name} must be of type {kind.__name__}, got {shown(value)}")
    return value


ATTRIBUTE = "resumption"
# variables of the file that hold its arrays
PREFIX = "resume_"


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
        return {ATTRIBUTE: json.dumps(self.numbers)}

    def variables(self) -> dict[str, Any]:
        """The arrays as variables of a dataset."""
        return {
            f"{PREFIX}{name}": (tuple(f"{PREFIX}{name}_{i}" for i in range(array.ndim)), array)
            for name, array in self.arrays.items()
        }


def resumption_names(stored: xr.Dataset) -> list[str]:
    """The names of the variables that hold the arrays."""
    return [str(name) for name in stored.variables if str(name).startswith(PREFIX)]


def resumption(stored: xr.Dataset) -> Resumption | None:
    """What a file keeps of this, None where there is nothing.

    Raises
    ------
    ValueError
        If it is not JSON, or a variable holds a NaN.
    """
    text = stored.attrs.get(ATTRIBUTE)
    if text is None:
        return None
    try:
        numbers = json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{ATTRIBUTE} must be JSON, got {shown(text)}") from error
    if not isinstance(numbers, dict):
        raise ValueError(f"{ATTRIBUTE} must be a JSON object, got {shown(text)}")
    arrays = {
        name.removeprefix(PREFIX): np.array(stored[name].values)
        for name in resumption_names(stored)
    }
    for name, array in arrays.items():
        if np.isnan(array).any():
            raise ValueError(f"{PREFIX}{name} must hold no NaN, got {shown(array)}")
    return Resumption(numbers, arrays)


Columns = Mapping[str, tuple[tuple[str, ...], str, str]]

_LARGEST_LINE = 1 << 26
# the law is the series of the run's first density
SERIES = "series of the first density"
# name in the file: dimensions, attribute of a flow map, what it is
_LINE_COLUMNS: Columns = {
    "panel_edges": (("panel", "side"), "edges", "panels of labels"),
    "node_angle": (("node",), "angles", "angle of each node, in radians"),
    "node_expansion": (("node",), "expansion", "∫ div X dt of each node"),
    "node_weight": (("node",), "weights", "mass of each node"),
    "node_owner": (("node",), "owners", "atom that holds the node, or -1"),
    "node_log_density": (("node",), "log_density", "log f_t at each node"),
    "atom_angle": (("atom",), "atoms", "angle of each atom, in radians"),
}
LINE_VARIABLES = ("node_count", "atom_count", *_LINE_COLUMNS)
LINE_HISTORY = ("history_time", "history_moments")


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


def line_attributes(flow: LineFlowMap) -> dict[str, Any]:
    """What all flow maps of a run have in common: law, scale, tolerance and axis."""
    line = flow.line
    axis = {} if line.axis is None else {"flow_axis": line.axis}
    given = {
        "flow_law": law_text(line.law),
        "flow_scale": line.scale,
        "flow_tol": flow.tol,
        "flow_dim": flow.dim,
    }
    return given | axis


def line_variables(
    flows: list[LineFlowMap | None], history: MomentHistory | None
) -> dict[str, Any]:
    """Flow maps as variables of a dataset; None at times that have another measure."""
    counts = [0 if flow is None else len(flow.angles) for flow in flows]
    atoms = [0 if flow is None else len(flow.atoms) for flow in flows]
    found = {
        "node_count": ("t", np.array(counts), about_variable("nodes of the flow map at each time")),
        "atom_count": ("t", np.array(atoms), about_variable("atoms of the flow map at each time")),
    } | joined(flows, _LINE_COLUMNS)
    if history is None:
        return found
    moments = ("history_step", "history_node", "history_moment")
    return found | {
        "history_time": ("history_end", history.times, about_variable("ends of the time steps")),
        "history_moments": (moments, history.moments, about_variable("the measure at cell nodes")),
    }


def about_variable(long_name: str) -> dict[str, str]:
    """The attributes of a variable without a unit."""
    return {"long_name": long_name, "units": "1"}


def joined(measures: Sequence[Any], columns: Columns) -> dict[str, Any]:
    """Arrays of all times as variables, one after the other; None at times without any."""
    present = [measure for measure in measures if measure is not None]
    return {
        name: (dims, np.concatenate([getattr(one, key) for one in present]), about_variable(text))
        for name, (dims, key, text) in columns.items()
    }


def parted(
    stored: xr.Dataset, columns: Columns, counts: Mapping[str, Sequence[int]]
) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each time by their attributes, given how long they are along each dimension.

    Raises
    ------
    ValueError
        If an array is missing, or of another length than the counts tell.
    """
    parts: list[list[NDArray[Any]]] = []
    for name, (dims, _, _) in columns.items():
        array, ends = numbers_of(stored, name), np.cumsum(counts[dims[0]])
        if len(array) != ends[-1]:
            raise ValueError(f"{name} must have {ends[-1]} rows, got {len(array)}")
        parts.append([part.copy() for part in np.split(array, ends[:-1])])
    keys = [key for _, key, _ in columns.values()]
    return [dict(zip(keys, row, strict=True)) for row in zip(*parts, strict=True)]


def line_flow_maps(stored: xr.Dataset, first_law: Law | None) -> list[LineFlowMap | None]:
    """The flow maps of a file, None at times without one.

    Parameters
    ----------
    stored : xarray.Dataset
    first_law : Law, optional
        The law of the labels, where the file says that it is that of its first measure.

    Raises
    ------
    ValueError
        If an array is missing, or of another length than the counts tell.
    """
    counts, atoms = _counts(stored, "node_count"), _counts(stored, "atom_count")
    if any(count % panels.NODES for count in counts):
        raise ValueError(f"node_count must be multiples of {panels.NODES}, got {counts[:8]}")
    panel_counts = [count // panels.NODES for count in counts]
    lengths = {"node": counts, "panel": panel_counts, "atom": atoms}
    pieces = parted(stored, _LINE_COLUMNS, lengths)
    line, tol = _line(stored, first_law)
    return [
        None if count == 0 else _flow_map(line, tol, arrays)
        for count, arrays in zip(counts, pieces, strict=True)
    ]


def _flow_map(line: LabelLine, tol: float, arrays: dict[str, NDArray[Any]]) -> LineFlowMap:
    owners = arrays["owners"] = arrays["owners"].astype(np.int64)
    if owners.min() < -1 or owners.max() >= len(arrays["atoms"]):
        raise ValueError(
            f"node_owner must be -1 or the number of one of {len(arrays['atoms'])} atoms, "
            f"got {owners.min()} to {owners.max()}"
        )
    log_density = arrays.pop("log_density")
    flow = LineFlowMap.from_arrays(line, tol, **arrays)
    flow.log_density = log_density
    return flow


def _line(stored: xr.Dataset, first_law: Law | None) -> tuple[LabelLine, float]:
    given = stored.attrs
    dim = integer("flow_dim", given.get("flow_dim"), low=2)
    text = given.get("flow_law")
    law = read_law(str(text or ""), dim, first_law)
    axis = real_array("flow_axis", given["flow_axis"], 1) if "flow_axis" in given else None
    scale = number("flow_scale", given.get("flow_scale"), above=0)
    return LabelLine(law, axis, scale), number("flow_tol", given.get("flow_tol"), above=0)


def law_text(law: Law) -> str:
    """What a file tells of the law of a flow map, "" where it can tell nothing."""
    try:
        return json.dumps(to_record(law, LAWS))
    except ValueError:
        return SERIES if isinstance(law, SeriesLaw) else ""


def read_law(text: str, dim: int, first_law: Law | None) -> Law:
    """The law that a file tells: its record, the series of the first density, or none."""
    if text == SERIES:
        return first_law or ForgottenLaw(dim)
    return from_record(json.loads(text), LAWS) if text else ForgottenLaw(dim)


def line_history(stored: xr.Dataset) -> MomentHistory | None:
    """The moments of a file, if it has any.

    Raises
    ------
    ValueError
        If their shapes do not fit.
    """
    if not set(LINE_HISTORY) <= set(stored.variables):
        return None
    times, moments = (numbers_of(stored, name) for name in LINE_HISTORY)
    if moments.shape[:2] != (len(times) - 1, NODES):
        raise ValueError(
            f"history_moments must have shape ({len(times) - 1}, {NODES}, …), got {moments.shape}"
        )
    return MomentHistory(times, moments)


def _counts(stored: xr.Dataset, name: str) -> list[int]:
    if name not in stored or stored[name].dims != ("t",):
        raise ValueError(f"{name} must be a variable over t, got {list(stored.variables)}")
    return [integer(name, value, low=0, high=_LARGEST_LINE) for value in stored[name].values]


def numbers_of(stored: xr.Dataset, name: str) -> NDArray[Any]:
    """The numbers of a variable.

    Raises
    ------
    ValueError
        If there is no such variable, or it holds a NaN.
    """
    if name not in stored.variables:
        raise ValueError(f"{name} is missing among {list(stored.variables)}")
    values = np.asarray(stored[name].values)
    if np.isnan(values).any():
        raise ValueError(f"{name} must hold no NaN, got one at {np.argwhere(np.isnan(values))[0]}")
    return values


_LARGEST_SPHERE = 1 << 26
_SPHERE_COLUMNS = {
    "flow_points": (("node", "axis"), "points", "nodes and particles"),
    "flow_weights": (("node",), "weights", "their masses"),
    "flow_log_density": (("node",), "log_density", "log f_t at nodes, inf at particles"),
}
SPHERE_VARIABLES = ("flow_count", *_SPHERE_COLUMNS)
# name in the file, name in History.arrays, dimensions
_HISTORY = (
    ("history_edges", "edges", ("history_end",)),
    ("history_moments", "moments", ("history_step", "history_node", "history_moment", "part")),
    ("absorption_times", "absorption_times", ("absorption",)),
    ("absorption_radii", "absorption_radii", ("absorption",)),
    ("absorption_centres", "absorption_centres", ("absorption", "axis")),
)
SPHERE_HISTORY = tuple(name for name, _, _ in _HISTORY)


def sphere_attributes(flow: SphereFlowMap) -> dict[str, Any]:
    """What all flow maps of a run have in common: law and tolerance."""
    return {"flow_law": law_text(flow.law), "flow_tol": flow.tol}


def sphere_variables(flows: list[SphereFlowMap | None], history: History | None) -> dict[str, Any]:
    """Flow maps as variables of a dataset; None at times that have another measure."""
    counts = np.array([0 if flow is None else len(flow.weights) for flow in flows])
    found = {"flow_count": ("t", counts, about_variable("nodes and particles at each time"))}
    found |= joined(flows, _SPHERE_COLUMNS)
    if history is None:
        return found
    arrays = history.arrays()
    arrays["moments"] = np.stack([arrays["moments"].real, arrays["moments"].imag], axis=-1)
    return found | {
        name: (dims, arrays[key], about_variable(key.replace("_", " ")))
        for name, key, dims in _HISTORY
    }


def sphere_flow_maps(stored: xr.Dataset, first_law: Law | None) -> list[SphereFlowMap | None]:
    """The flow maps of a file, None at times without one.

    Raises
    ------
    ValueError
        If an array is missing, or of another length than the counts tell.
    """
    counts = [
        integer("flow_count", c, low=0, high=_LARGEST_SPHERE)
        for c in numbers_of(stored, "flow_count")
    ]
    unit_rows("flow_points", numbers_of(stored, "flow_points"), 3)
    pieces = parted(stored, _SPHERE_COLUMNS, {"node": counts})
    law = read_law(str(stored.attrs.get("flow_law") or ""), 3, first_law)
    tol = number("flow_tol", stored.attrs.get("flow_tol"), above=0)
    return [
        SphereFlowMap.from_arrays(law, tol, float(t), **arrays) if count else None
        for count, t, arrays in zip(counts, stored["t"].values, pieces, strict=True)
    ]


def sphere_history(stored: xr.Dataset) -> History | None:
    """The moments of a file, if it has any.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    if not set(SPHERE_HISTORY) <= set(stored.variables):
        return None
    arrays = {key: numbers_of(stored, name) for name, key, _ in _HISTORY}
    parts = arrays["moments"]
    if parts.ndim != 4 or parts.shape[3] != 2 or len(parts) != len(arrays["edges"]) - 1:
        raise ValueError(f"history_moments must fit history_edges, got shape {parts.shape}")
    arrays["moments"] = parts[..., 0] + 1j * parts[..., 1]
    rows("absorption_centres", np.vstack([np.ones((1, 3)), arrays["absorption_centres"]]), 3)
    return History.from_arrays(arrays)


TOKENS, DENSITY = "oscillators", "oscillator-density"
_OF_NODES = ("frequencies", "frequency_weights", "frequency_widths")
# names that a file needs for itself
OSCILLATOR_VARIABLES = ("phases", "parts", *_OF_NODES)
_LARGEST_OSCILLATORS = 1 << 20


def space_of(measure: AnyMeasure) -> str | None:
    """The word for measures of this kind, None for others."""
    if isinstance(measure, Oscillators):
        return TOKENS
    return DENSITY if isinstance(measure, OscillatorDensity) else None


def oscillator_variables(measures: Sequence[AnyMeasure], size_name: str) -> dict[str, Any]:
    """The measures as variables of a dataset.

    Angles are `phases` (t, frequency); coefficients, as `parts` (t, frequency, coefficient, part),
    those of the largest space in use, and `size` (t) tells each time's own.

    Raises
    ------
    ValueError
        If frequencies or weights differ between times.
    """
    first: Any = measures[0]
    names: tuple[str, ...] = ("frequencies", "weights")
    if space_of(first) == DENSITY:
        names = (*names, "widths")
    for name in names:
        if not all(np.array_equal(getattr(first, name), getattr(m, name)) for m in measures):
            raise ValueError(f"measures must have the same {name} at all times, got {measures[0]}")
    found: dict[str, Any] = {
        own: ("frequency", getattr(first, name), about_variable(text))
        for own, name, text in zip(
            _OF_NODES,
            names,
            ("natural frequencies", "their masses", "widths of Lorentzians about them"),
            strict=False,
        )
    }
    if space_of(first) == TOKENS:
        phases = np.array([m.angles for m in measures if isinstance(m, Oscillators)])
        return found | {"phases": (("t", "frequency"), phases, about_variable("angles"))}
    densities = [m for m in measures if isinstance(m, OscillatorDensity)]
    sizes = np.array([density.space.size for density in densities])
    rows = np.zeros(
        (len(densities), len(first.frequencies), int(sizes.max()) // 2), dtype=np.complex128
    )
    for row, density in zip(rows, densities, strict=True):
        row[:, : density.parts.shape[1]] = density.parts
    axes = ("t", "frequency", "coefficient", "part")
    text = "spectral coefficients (real and imaginary part) of the density at each frequency"
    parts = rows.view(np.float64).reshape(*rows.shape, 2)
    return found | {
        "parts": (axes, parts, about_variable(text)),
        "size": ("t", sizes, {"long_name": size_name}),
    }


def oscillator_measures(stored: xr.Dataset) -> tuple[list[AnyMeasure], list[str]]:
    """The measures of a file, and the names of the variables that they were made from.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    found: list[AnyMeasure]
    frequencies, weights = (
        _oscillator_array(stored, name, ("frequency",)) for name in _OF_NODES[:2]
    )
    if stored.attrs["space"] == TOKENS:
        phases = _oscillator_array(stored, "phases", ("t", "frequency"))
        found = [_weighted(Oscillators(row, frequencies), weights) for row in phases]
        return found, ["phases", *_OF_NODES[:2]]
    widths = _oscillator_array(stored, _OF_NODES[2], ("frequency",))
    parts = _oscillator_array(stored, "parts", ("t", "frequency", "coefficient", "part"))
    if "size" not in stored or stored["size"].dims != ("t",):
        raise ValueError(f"size must be a variable over t, got {list(stored.variables)}")
    sizes = [
        integer("size", size, low=8, high=_LARGEST_OSCILLATORS) for size in stored["size"].values
    ]
    if parts.shape[2:] != (max(sizes) // 2, 2):
        raise ValueError(
            f"parts must have shape {(max(sizes) // 2, 2)} for size {max(sizes)}, got "
            f"{parts.shape[2:]}"
        )
    spaces = {size: Circle(size) for size in sorted(set(sizes))}
    rows = parts.view(np.complex128)[..., 0]
    found = [
        _weighted(
            OscillatorDensity.from_parts(
                spaces[size], row[:, : size // 2], frequencies, weights, widths
            ),
            weights,
        )
        for size, row in zip(sizes, rows, strict=True)
    ]
    return found, ["parts", *_OF_NODES]


def _weighted(measure: Any, weights: Array) -> Any:
    """The measure with these very weights, which normalising again may turn in last bits."""
    if weights.min() < 0.0 or not np.isclose(weights.sum(), 1.0, rtol=0.0, atol=1e-14):
        raise ValueError(f"frequency_weights must be >= 0 of sum 1, got {weights.sum()!r}")
    measure.weights = weights.copy()
    measure.weights.flags.writeable = False
    if isinstance(measure, OscillatorDensity):
        measure.coefficients = measure.weights @ measure.parts
        measure.coefficients.flags.writeable = False
    return measure


def _oscillator_array(stored: xr.Dataset, name: str, dims: tuple[str, ...]) -> Array:
    if name not in stored.variables or stored[name].dims != dims:
        raise ValueError(f"{name} must be a variable over {dims}, got {list(stored.variables)}")
    return real_array(name, np.ascontiguousarray(stored[name].values), len(dims))


AnyHistory = MomentHistory | History
# names that a file needs for itself
RESERVED = (
    *("t", "coefficients", "points", "weights", *OSCILLATOR_VARIABLES),
    *(*LINE_VARIABLES, *LINE_HISTORY, *SPHERE_VARIABLES, *SPHERE_HISTORY),
)

SIZE_NAME = "size of the space in use (n, lmax or kmax), or number of nodes"
PARTICLES, FLOW_MAP, SPHERE_FLOW = "particles", "flow-map", "flow-map-sphere"
_LAST_BITS = 1e-15
_LARGEST = 1 << 20


def kind(measure: AnyMeasure) -> dict[str, Any]:
    """What all measures of a run have in common: the space's name, dimension and axis, if any."""
    if (space := space_of(measure)) is not None:
        return {"space": space, "dim": measure.dim}
    if isinstance(measure, Particles):
        sums = {} if measure.sums == "auto" else {"particle_sums": measure.sums}
        return {"space": PARTICLES, "dim": measure.dim} | sums
    if isinstance(measure, SphereFlowMap):
        return {"space": SPHERE_FLOW, "dim": measure.dim} | sphere_attributes(measure)
    if isinstance(measure, LineFlowMap):
        return {"space": FLOW_MAP, "dim": measure.dim} | line_attributes(measure)
    if not isinstance(measure, Density):
        raise ValueError(f"measures must be of a kind that a file can keep, got {measure}")
    found = {"space": measure.space.name, "dim": measure.dim}
    if isinstance(measure.space, Sphere):
        return found | {"library": measure.space.library}
    return found if measure.axis is None else found | {"axis": measure.axis}


def about(measures: list[AnyMeasure]) -> dict[str, Any]:
    """The attributes that tell the kind of a run's measures, of both kinds after a hand-over."""
    return kind(measures[-1]) | kind(measures[0])


def variables(measures: list[AnyMeasure], history: AnyHistory | None = None) -> dict[str, Any]:
    """The measures as variables of a dataset.

    Coefficients (t, coefficient, part) are those of the largest space in use, and `size` (t)
    tells each time's own; particles are `points` (t, token, axis) and `weights` (t, token). Flow
    maps, which may take over from densities, are as in `line_variables`; coefficients at their
    times are 0.

    Raises
    ------
    ValueError
        If the measures are not of one kind.
    """
    if space_of(measures[0]) is not None:
        _check_kinds(measures)
        return oscillator_variables(measures, SIZE_NAME)
    particles = [measure for measure in measures if isinstance(measure, Particles)]
    densities = [measure for measure in measures if isinstance(measure, Density)]
    moving = [measure if isinstance(measure, LineFlowMap) else None for measure in measures]
    relaid = [measure if isinstance(measure, SphereFlowMap) else None for measure in measures]
    _check_kinds(measures[: len(densities)] or measures)
    _check_kinds(measures[len(densities) :] or measures)
    found: dict[str, Any] = {}
    if len(particles) not in (0, len(measures)):
        raise ValueError(f"measures must be of one kind, got {measures[0]} and {measures[-1]}")
    if particles:
        return _of_particles(particles)
    if any(moving):
        found |= line_variables(moving, cast(MomentHistory | None, history))
    if any(relaid):
        found |= sphere_variables(relaid, cast(History | None, history))
    if densities:
        counts = [len(m.weights) if isinstance(m, FlowMap) else 0 for m in measures]
        found |= _of_densities(densities, np.array(counts))
    return found


def _check_kinds(measures: list[AnyMeasure]) -> None:
    first = kind(measures[0])
    for other in map(kind, measures):
        # an axis normalised again may differ in a last bit
        same = np.allclose(first.get("axis", 0.0), other.get("axis", 0.0), rtol=0, atol=_LAST_BITS)
        if (first["space"], first["dim"]) != (other["space"], other["dim"]) or not same:
            raise ValueError(f"measures must be of one kind, got {first} and {other}")


def _of_particles(measures: list[Particles]) -> dict[str, Any]:
    numbers = {len(measure.weights) for measure in measures}
    if len(numbers) > 1:
        raise ValueError(f"measures must have equally many tokens, got {sorted(numbers)}")
    ways = {measure.sums for measure in measures}
    if len(ways) > 1:
        raise ValueError(f"measures must be summed in one way, got sums {sorted(ways)}")
    points = np.array([measure.points for measure in measures])
    masses = np.array([measure.weights for measure in measures])
    return {
        "points": (("t", "token", "axis"), points, about_variable("tokens on the unit sphere")),
        "weights": (("t", "token"), masses, about_variable("masses of the tokens")),
    }


def _of_densities(measures: list[Density], sizes: NDArray[np.int64]) -> dict[str, Any]:
    largest: Any = max((measure.space for measure in measures), key=lambda space: space.size)
    rows: NDArray[Any] = np.zeros(
        (len(sizes), largest.n_coefficients), dtype=largest.coefficient_type
    )
    for row, measure in zip(rows, measures, strict=False):
        space: Any = measure.space
        row[:] = space.embed(measure.coefficients, largest)
    parts = rows.view(np.float64).reshape(*rows.shape, -1)
    sizes[: len(measures)] = [measure.space.size for measure in measures]
    text = "spectral coefficients (real and imaginary part) in the largest space"
    return {
        "coefficients": (("t", "coefficient", "part"), parts, about_variable(text)),
        "size": ("t", sizes, {"long_name": SIZE_NAME}),
    }


def measures(stored: xr.Dataset) -> tuple[list[AnyMeasure], list[str]]:
    """The measures of a file, and the names of the variables that they were made from.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    if stored.attrs.get("space") in (TOKENS, DENSITY):
        return oscillator_measures(stored)
    if stored.attrs.get("space") == PARTICLES:
        return _to_particles(stored), ["points", "weights"]
    found: list[AnyMeasure] = []
    if "coefficients" in stored.variables or not _counts_of_flows(stored):
        found = _to_densities(stored)
    moving = _to_flow_maps(stored, _first_law(found))
    found += [flow for flow in moving[len(found) :] if flow is not None]
    if len(found) != stored.sizes["t"]:
        raise ValueError(
            f"there must be a measure at each of {stored.sizes['t']} t, got {len(found)}"
        )
    own = ("coefficients", *LINE_VARIABLES, *LINE_HISTORY)
    others = (*SPHERE_VARIABLES, *SPHERE_HISTORY)
    return found, [name for name in (*own, *others) if name in stored.variables]


def _counts_of_flows(stored: xr.Dataset) -> list[str]:
    return [name for name in ("node_count", "flow_count") if name in stored.variables]


def _to_flow_maps(stored: xr.Dataset, first_law: SeriesLaw | None) -> Sequence[FlowMap | None]:
    """The flow maps of either form, None at times without one."""
    names = _counts_of_flows(stored)
    if not names:
        return []
    if names == ["node_count"]:
        return line_flow_maps(stored, first_law)
    return sphere_flow_maps(stored, first_law)


def history(stored: xr.Dataset) -> AnyHistory | None:
    """The moments that a file keeps, if any.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    names = _counts_of_flows(stored)
    if not names:
        return None
    return line_history(stored) if names == ["node_count"] else sphere_history(stored)


def _to_particles(stored: xr.Dataset) -> list[AnyMeasure]:
    points = array(stored, "points", ("t", "token", "axis"))
    masses = array(stored, "weights", ("t", "token"))
    found: list[AnyMeasure] = []
    for x, w in zip(points, masses, strict=True):
        particles = Particles(x, w, sums=stored.attrs.get("particle_sums", "auto"))
        particles.points = _unturned(x, particles.points)
        particles.weights = _unturned(w, particles.weights)
        found.append(particles)
    return found


def _unturned(given: Array, normalised: Array) -> Array:
    """What was given, if normalising it again only turned last bits."""
    same = np.allclose(given, normalised, rtol=_LAST_BITS, atol=_LAST_BITS)
    kept = given.copy() if same else normalised
    kept.flags.writeable = False
    return kept


def _to_densities(stored: xr.Dataset) -> list[AnyMeasure]:
    parts = array(stored, "coefficients", ("t", "coefficient", "part"))
    if "size" not in stored or stored["size"].dims != ("t",):
        raise ValueError(f"size must be a variable over t, got {list(stored.variables)}")
    counts = stored["size"].values
    for name in _counts_of_flows(stored):
        counts = counts[stored[name].values == 0]
    sizes = [integer("size", size, low=3, high=_LARGEST) for size in counts]
    if not sizes:
        raise ValueError(f"size must tell a density at the first t, got {stored['size'].values}")
    expected = _shape(stored.attrs.get("space"), max(sizes))
    if parts.shape[1:] != expected:
        raise ValueError(
            f"coefficients must have shape {expected} at each t for size {max(sizes)}, "
            f"got {parts.shape[1:]}"
        )
    spaces = {size: _space(stored.attrs, size) for size in sorted(set(sizes))}
    largest: Any = spaces[max(sizes)]
    rows = parts.view(largest.coefficient_type)[..., 0]
    return [
        Density.from_coefficients(spaces[size], largest.embed(row, spaces[size]))
        for size, row in zip(sizes, rows, strict=False)
    ]


def _first_law(found: list[AnyMeasure]) -> SeriesLaw | None:
    first = found[0] if found else None
    return SeriesLaw(first) if isinstance(first, Density) else None


def _shape(space: Any, size: int) -> tuple[int, int]:
    """Shape (coefficient, part) of a space, told without making it."""
    if space == Circle.name:
        return size // 2, 2
    if space == Sphere.name:
        return (size + 1) * (size + 2) // 2, 2
    if space == Zonal.name:
        return size + 1, 1
    names = [Circle.name, Sphere.name, Zonal.name, PARTICLES]
    raise ValueError(f"space must be one of {names}, got {shown(space)}")


def _space(attributes: dict[Any, Any], size: int) -> Space:
    if attributes["space"] == Circle.name:
        return Circle(size)
    if attributes["space"] == Sphere.name:
        return Sphere(size, available(attributes.get("library", "ducc0")))
    axis = real_array("axis", attributes.get("axis", 0.0), 1)
    space = Zonal(len(axis), size, axis)
    space.axis = _unturned(axis, space.axis)
    return space


def array(stored: xr.Dataset, name: str, dims: tuple[str, ...]) -> Array:
    """The finite numbers of a variable.

    Raises
    ------
    ValueError
        If there is no such variable over these dimensions, or it holds a NaN.
    """
    if name not in stored.variables or stored[name].dims != dims:
        raise ValueError(f"{name} must be a variable over {dims}, got {list(stored.variables)}")
    return real_array(name, stored[name].values, len(dims))


# of variables that a file needs for itself
PREFIXES = (DYNAMICS_PREFIX, PREFIX)
