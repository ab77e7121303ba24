"""Figures of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meanfield.history import NODES
from meanfield.sphere_flow.history import CLENSHAW_CURTIS


@dataclass
class Monitors:
    """Figures of a run, a row for each moment of time at which something is known.

    Attributes
    ----------
    t, energy, dissipation, mass : list of float
        At the Lobatto points of every step.
    nodes, atoms : list of int
    relaid : list of (float, int, float, float)
        Time of each new mesh, its nodes, its mass defect and the change of the moments in it.
    """

    t: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    dissipation: list[float] = field(default_factory=list)
    mass: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    relaid: list[tuple[float, int, float, float]] = field(default_factory=list)

    def append(
        self, t: float, energy: float, dissipation: float, mass: float, counts: tuple[int, int]
    ) -> None:
        """A further moment of time."""
        self.t.append(t)
        self.energy.append(energy)
        self.dissipation.append(dissipation)
        self.mass.append(mass)
        self.nodes.append(counts[0])
        self.atoms.append(counts[1])

    def dissipated(self) -> float:
        """∫ dissipation dt over the run so far: the change of the energy, times the sign."""
        times = np.asarray(self.t).reshape(-1, NODES)
        rates = np.asarray(self.dissipation).reshape(-1, NODES)
        return float((times[:, -1] - times[:, 0]) @ (rates @ CLENSHAW_CURTIS))
