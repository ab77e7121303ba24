"""Flow maps and their moments as arrays over time, and back.

Numbers of nodes and atoms change from time to time: they are kept one after the other, with the
count of each time (the contiguous ragged arrays of the CF conventions).
"""

from __future__ import annotations

import json
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

_LARGEST = 1 << 26
# the law is the series of the run's first density
SERIES = "series of the first density"
VARIABLES = (
    "node_count",
    "atom_count",
    "panel_edges",
    "node_angle",
    "node_expansion",
    "node_weight",
    "node_owner",
    "node_log_density",
    "atom_angle",
)
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
    about = {
        "flow_law": law_text(line.law),
        "flow_scale": line.scale,
        "flow_tol": flow.tol,
        "flow_dim": flow.dim,
    }
    return about | axis


def variables(flows: list[LineFlowMap | None], history: MomentHistory | None) -> dict[str, Any]:
    """Flow maps as variables of a dataset; None at times that have another measure."""
    present = [flow for flow in flows if flow is not None]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(flow, name) for flow in present])

    counts = [0 if flow is None else len(flow.angles) for flow in flows]
    atoms = [0 if flow is None else len(flow.atoms) for flow in flows]
    found = {
        "node_count": ("t", np.array(counts), _about("nodes of the flow map at each time")),
        "atom_count": ("t", np.array(atoms), _about("atoms of the flow map at each time")),
        "panel_edges": (("panel", "side"), joined("edges"), _about("panels of labels")),
        "node_angle": ("node", joined("angles"), _about("angle of each node, in radians")),
        "node_expansion": ("node", joined("expansion"), _about("∫ div X dt of each node")),
        "node_weight": ("node", joined("weights"), _about("mass of each node")),
        "node_owner": ("node", joined("owners"), _about("atom that holds the node, or -1")),
        "node_log_density": ("node", joined("log_density"), _about("log f_t at each node")),
        "atom_angle": ("atom", joined("atoms"), _about("angle of each atom, in radians")),
    }
    if history is None:
        return found
    moments = ("history_step", "history_node", "history_moment")
    return found | {
        "history_time": ("history_end", history.times, _about("ends of the time steps")),
        "history_moments": (moments, history.moments, _about("the measure at cell nodes")),
    }


def _about(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}


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
    ends = np.cumsum(counts)
    cuts = {
        "node": ends,
        "panel": ends // panels.NODES,
        "atom": np.cumsum(atoms),
    }
    pieces = {}
    for name in VARIABLES[2:]:
        kind = name.partition("_")[0]
        array = numbers_of(stored, name)
        if len(array) != cuts[kind][-1]:
            raise ValueError(f"{name} must have {cuts[kind][-1]} rows, got {len(array)}")
        pieces[name] = np.split(array, cuts[kind][:-1])
    line, tol = _line(stored, first_law)
    return [
        None if count == 0 else _flow_map(line, tol, {name: pieces[name][i] for name in pieces})
        for i, count in enumerate(counts)
    ]


def _flow_map(line: LabelLine, tol: float, arrays: dict[str, NDArray[Any]]) -> LineFlowMap:
    owners = arrays["node_owner"].astype(np.int64)
    if owners.min() < -1 or owners.max() >= len(arrays["atom_angle"]):
        raise ValueError(
            f"node_owner must be -1 or the number of one of {len(arrays['atom_angle'])} atoms, "
            f"got {owners.min()} to {owners.max()}"
        )
    flow = LineFlowMap.from_arrays(
        line,
        tol,
        edges=arrays["panel_edges"],
        angles=arrays["node_angle"],
        expansion=arrays["node_expansion"],
        weights=arrays["node_weight"],
        owners=owners,
        atoms=arrays["atom_angle"],
    )
    flow.log_density = arrays["node_log_density"]
    return flow


def _line(stored: xr.Dataset, first_law: Law | None) -> tuple[LabelLine, float]:
    about = stored.attrs
    dim = integer("flow_dim", about.get("flow_dim"), low=2)
    text = about.get("flow_law")
    law = read_law(str(text or ""), dim, first_law)
    axis = real_array("flow_axis", about["flow_axis"], 1) if "flow_axis" in about else None
    scale = number("flow_scale", about.get("flow_scale"), above=0)
    return LabelLine(law, axis, scale), number("flow_tol", about.get("flow_tol"), above=0)


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
