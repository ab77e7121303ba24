"""The state of a flow on S^2 as numbers and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.sphere_flow.history import History
from meanfield.sphere_flow.run import SphereFlow

Array = NDArray[np.float64]


def snapshot(flow: SphereFlow) -> tuple[dict[str, Any], dict[str, Array]]:
    """What the next step depends on, but for the history of moments."""
    numbers = {
        "t": flow.t,
        "step": flow.step,
        "since": flow.since,
        "evaluations": flow.evaluations,
        "n_nodes": flow.n_nodes,
        "pieces": len(flow.history.pieces),
    }
    state = {
        "points": flow.points.copy(),
        "weights": flow.weights.copy(),
        "log_density": flow.log_density.copy(),
    }
    return numbers, state | {"dissipation": np.array(flow.rates, dtype=np.float64)}


def restore(
    flow: SphereFlow, numbers: dict[str, Any], arrays: dict[str, Array], history: History | None
) -> None:
    """Put a flow of the same law and dynamics where another was."""
    flow.t, flow.since = float(numbers["t"]), float(numbers["since"])
    flow.step = None if numbers["step"] is None else float(numbers["step"])
    flow.evaluations, flow.n_nodes = int(numbers["evaluations"]), int(numbers["n_nodes"])
    flow.points, flow.weights = arrays["points"], arrays["weights"]
    flow.log_density, flow.node_masses = arrays["log_density"], flow.weights[: flow.n_nodes]
    flow.rates = arrays["dissipation"].tolist()
    if history is not None:
        count = int(numbers["pieces"])
        flow.history = History(history.edges[0])
        flow.history.edges, flow.history.pieces = history.edges[: count + 1], history.pieces[:count]
        flow.history.absorptions = [a for a in history.absorptions if a.time <= flow.t]
