"""Flow maps on S^2 and their moments as arrays over time, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import integer, number, rows, unit_rows
from meanfield.laws import Law
from meanfield.measures import SphereFlowMap
from meanfield.solution.flows import law_text, numbers_of, read_law
from meanfield.sphere_flow import History

Array = NDArray[np.float64]

_LARGEST = 1 << 26
VARIABLES = ("flow_count", "flow_points", "flow_weights", "flow_log_density")
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
    present = [flow for flow in flows if flow is not None]
    counts = np.array([0 if flow is None else len(flow.weights) for flow in flows])
    points = np.concatenate([flow.points for flow in present])
    weights = np.concatenate([flow.weights for flow in present])
    logs = np.concatenate([flow.log_density for flow in present])
    found: dict[str, Any] = {
        "flow_count": ("t", counts, _about("nodes and particles at each time")),
        "flow_points": (("node", "axis"), points, _about("nodes and particles")),
        "flow_weights": ("node", weights, _about("their masses")),
        "flow_log_density": ("node", logs, _about("log f_t at nodes, inf at particles")),
    }
    if history is None:
        return found
    arrays = history.arrays()
    arrays["moments"] = np.stack([arrays["moments"].real, arrays["moments"].imag], axis=-1)
    return found | {
        name: (dims, arrays[key], _about(key.replace("_", " "))) for name, key, dims in _HISTORY
    }


def _about(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}


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
    points = unit_rows("flow_points", numbers_of(stored, "flow_points"), 3)
    weights, logs = numbers_of(stored, "flow_weights"), numbers_of(stored, "flow_log_density")
    if not len(points) == len(weights) == len(logs) == sum(counts):
        lengths = len(points), len(weights), len(logs)
        raise ValueError(f"flow_points, … must have {sum(counts)} rows, got {lengths}")
    law = read_law(str(stored.attrs.get("flow_law") or ""), 3, first_law)
    tol = number("flow_tol", stored.attrs.get("flow_tol"), above=0)
    ends = np.cumsum(counts)
    parts = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
    return [
        None
        if part.start == part.stop
        else SphereFlowMap.from_arrays(
            law,
            tol,
            float(t),
            points=numbers_of(stored, "flow_points")[part].copy(),
            weights=weights[part].copy(),
            log_density=logs[part].copy(),
        )
        for part, t in zip(parts, stored["t"].values, strict=True)
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
