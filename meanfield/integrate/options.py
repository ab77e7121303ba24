"""What a run may do."""

from __future__ import annotations

from dataclasses import dataclass

from meanfield.integrate.records import Monitors

# what a density does that its space does not resolve
STOP, FLOW_MAP = "stop", "flow-map"


@dataclass(frozen=True)
class Options:
    """What a run may do: tolerances, limits, monitors; see the arguments of `evolve`."""

    rtol: float
    atol: float
    tail_tol: float
    largest: int
    most_nodes: int
    cluster_radius: float
    monitors: Monitors
    on_unresolved: str = STOP
    # the size beyond which a flow map is asked to take over, `largest` if None
    hand_over_size: int | None = None
