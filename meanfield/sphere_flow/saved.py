"""The state of a flow on S^2 as numbers and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.sphere_flow.history import History
from meanfield.sphere_flow.monitors import Monitors
from meanfield.sphere_flow.run import SphereFlow

Array = NDArray[np.float64]


def snapshot(flow: SphereFlow) -> tuple[dict[str, Any], dict[str, Array]]:
    """What the next step depends on, but for the history of moments."""
    monitors = flow.monitors
    numbers = {
        "t": flow.t,
        "step": flow.step,
        "since": flow.since,
        "evaluations": flow.evaluations,
        "n_nodes": flow.n_nodes,
        "relaid": list(monitors.relaid),
        "pieces": len(flow.history.pieces),
    }
    rows = [getattr(monitors, name) for name in _ROWS]
    state = {
        "points": flow.points.copy(),
        "weights": flow.weights.copy(),
        "log_density": flow.log_density.copy(),
    }
    return numbers, state | {"monitors": np.array(rows, dtype=np.float64)}


_ROWS = ("t", "energy", "dissipation", "mass", "nodes", "atoms")


def restore(
    flow: SphereFlow, numbers: dict[str, Any], arrays: dict[str, Array], history: History | None
) -> None:
    """Put a flow of the same law and dynamics where another was."""
    flow.t, flow.since = float(numbers["t"]), float(numbers["since"])
    flow.step = None if numbers["step"] is None else float(numbers["step"])
    flow.evaluations, flow.n_nodes = int(numbers["evaluations"]), int(numbers["n_nodes"])
    flow.points, flow.weights = arrays["points"], arrays["weights"]
    flow.log_density, flow.node_masses = arrays["log_density"], flow.weights[: flow.n_nodes]
    rows = dict(zip(_ROWS, arrays["monitors"].tolist(), strict=True))
    for name in ("nodes", "atoms"):
        rows[name] = [int(count) for count in rows[name]]
    flow.monitors = Monitors(**rows, relaid=[tuple(row) for row in numbers["relaid"]])
    if history is not None:
        count = int(numbers["pieces"])
        flow.history = History(history.edges[0])
        flow.history.edges, flow.history.pieces = history.edges[: count + 1], history.pieces[:count]
        flow.history.absorptions = [a for a in history.absorptions if a.time <= flow.t]
