"""Flow maps and their moments as arrays over time, and back.

Numbers of nodes and atoms change from time to time: they are kept one after the other, with the
count of each time (the contiguous ragged arrays of the CF conventions).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from meanfield import panels
from meanfield.arguments import integer, number, real_array
from meanfield.history import NODES, MomentHistory
from meanfield.labels import LabelLine
from meanfield.laws import LAWS, Law
from meanfield.measures import LineFlowMap
from meanfield.measures.density import SeriesLaw
from meanfield.records import from_record, to_record

Array = NDArray[np.float64]
Columns = Mapping[str, tuple[tuple[str, ...], str, str]]

_LARGEST = 1 << 26
# the law is the series of the run's first density
SERIES = "series of the first density"
# name in the file: dimensions, attribute of a flow map, what it is
_COLUMNS: Columns = {
    "panel_edges": (("panel", "side"), "edges", "panels of labels"),
    "node_angle": (("node",), "angles", "angle of each node, in radians"),
    "node_expansion": (("node",), "expansion", "∫ div X dt of each node"),
    "node_weight": (("node",), "weights", "mass of each node"),
    "node_owner": (("node",), "owners", "atom that holds the node, or -1"),
    "node_log_density": (("node",), "log_density", "log f_t at each node"),
    "atom_angle": (("atom",), "atoms", "angle of each atom, in radians"),
}
VARIABLES = ("node_count", "atom_count", *_COLUMNS)
HISTORY = ("history_time", "history_moments")


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


def attributes(flow: LineFlowMap) -> dict[str, Any]:
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


def variables(flows: list[LineFlowMap | None], history: MomentHistory | None) -> dict[str, Any]:
    """Flow maps as variables of a dataset; None at times that have another measure."""
    counts = [0 if flow is None else len(flow.angles) for flow in flows]
    atoms = [0 if flow is None else len(flow.atoms) for flow in flows]
    found = {
        "node_count": ("t", np.array(counts), about("nodes of the flow map at each time")),
        "atom_count": ("t", np.array(atoms), about("atoms of the flow map at each time")),
    } | joined(flows, _COLUMNS)
    if history is None:
        return found
    moments = ("history_step", "history_node", "history_moment")
    return found | {
        "history_time": ("history_end", history.times, about("ends of the time steps")),
        "history_moments": (moments, history.moments, about("the measure at cell nodes")),
    }


def about(long_name: str) -> dict[str, str]:
    """The attributes of a variable without a unit."""
    return {"long_name": long_name, "units": "1"}


def joined(measures: Sequence[Any], columns: Columns) -> dict[str, Any]:
    """Arrays of all times as variables, one after the other; None at times without any."""
    present = [measure for measure in measures if measure is not None]
    return {
        name: (dims, np.concatenate([getattr(one, key) for one in present]), about(text))
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


def flow_maps(stored: xr.Dataset, first_law: Law | None) -> list[LineFlowMap | None]:
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
    pieces = parted(stored, _COLUMNS, lengths)
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


def history(stored: xr.Dataset) -> MomentHistory | None:
    """The moments of a file, if it has any.

    Raises
    ------
    ValueError
        If their shapes do not fit.
    """
    if not set(HISTORY) <= set(stored.variables):
        return None
    times, moments = (numbers_of(stored, name) for name in HISTORY)
    if moments.shape[:2] != (len(times) - 1, NODES):
        raise ValueError(
            f"history_moments must have shape ({len(times) - 1}, {NODES}, …), got {moments.shape}"
        )
    return MomentHistory(times, moments)


def _counts(stored: xr.Dataset, name: str) -> list[int]:
    if name not in stored or stored[name].dims != ("t",):
        raise ValueError(f"{name} must be a variable over t, got {list(stored.variables)}")
    return [integer(name, value, low=0, high=_LARGEST) for value in stored[name].values]


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
