"""Flow maps on S^2 and their moments as arrays over time, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import integer, number, rows, unit_rows
from meanfield.laws import Law
from meanfield.measures import SphereFlowMap
from meanfield.solution.flows import about, joined, law_text, numbers_of, parted, read_law
from meanfield.sphere_flow import History

Array = NDArray[np.float64]

_LARGEST = 1 << 26
_COLUMNS = {
    "flow_points": (("node", "axis"), "points", "nodes and particles"),
    "flow_weights": (("node",), "weights", "their masses"),
    "flow_log_density": (("node",), "log_density", "log f_t at nodes, inf at particles"),
}
VARIABLES = ("flow_count", *_COLUMNS)
# name in the file, name in History.arrays, dimensions
_HISTORY = (
    ("history_edges", "edges", ("history_end",)),
    ("history_moments", "moments", ("history_step", "history_node", "history_moment", "part")),
    ("absorption_times", "absorption_times", ("absorption",)),
    ("absorption_radii", "absorption_radii", ("absorption",)),
    ("absorption_centres", "absorption_centres", ("absorption", "axis")),
)
HISTORY = tuple(name for name, _, _ in _HISTORY)


def attributes(flow: SphereFlowMap) -> dict[str, Any]:
    """What all flow maps of a run have in common: law and tolerance."""
    return {"flow_law": law_text(flow.law), "flow_tol": flow.tol}


def variables(flows: list[SphereFlowMap | None], history: History | None) -> dict[str, Any]:
    """Flow maps as variables of a dataset; None at times that have another measure."""
    counts = np.array([0 if flow is None else len(flow.weights) for flow in flows])
    found = {"flow_count": ("t", counts, about("nodes and particles at each time"))}
    found |= joined(flows, _COLUMNS)
    if history is None:
        return found
    arrays = history.arrays()
    arrays["moments"] = np.stack([arrays["moments"].real, arrays["moments"].imag], axis=-1)
    return found | {
        name: (dims, arrays[key], about(key.replace("_", " "))) for name, key, dims in _HISTORY
    }


def flow_maps(stored: xr.Dataset, first_law: Law | None) -> list[SphereFlowMap | None]:
    """The flow maps of a file, None at times without one.

    Raises
    ------
    ValueError
        If an array is missing, or of another length than the counts tell.
    """
    counts = [
        integer("flow_count", c, low=0, high=_LARGEST) for c in numbers_of(stored, "flow_count")
    ]
    unit_rows("flow_points", numbers_of(stored, "flow_points"), 3)
    pieces = parted(stored, _COLUMNS, {"node": counts})
    law = read_law(str(stored.attrs.get("flow_law") or ""), 3, first_law)
    tol = number("flow_tol", stored.attrs.get("flow_tol"), above=0)
    return [
        SphereFlowMap.from_arrays(law, tol, float(t), **arrays) if count else None
        for count, t, arrays in zip(counts, stored["t"].values, pieces, strict=True)
    ]


def history(stored: xr.Dataset) -> History | None:
    """The moments of a file, if it has any.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    if not set(HISTORY) <= set(stored.variables):
        return None
    arrays = {key: numbers_of(stored, name) for name, key, _ in _HISTORY}
    parts = arrays["moments"]
    if parts.ndim != 4 or parts.shape[3] != 2 or len(parts) != len(arrays["edges"]) - 1:
        raise ValueError(f"history_moments must fit history_edges, got shape {parts.shape}")
    arrays["moments"] = parts[..., 0] + 1j * parts[..., 1]
    rows("absorption_centres", np.vstack([np.ones((1, 3)), arrays["absorption_centres"]]), 3)
    return History.from_arrays(arrays)
