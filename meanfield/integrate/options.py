"""What a run may do."""

from __future__ import annotations

from dataclasses import dataclass

from meanfield.integrate.records import Monitors


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
