"""Flow maps on a line: panels split, clusters become atoms, moments are kept."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.atoms import collapsed
from meanfield.equations.line import FlowTendency, line_field
from meanfield.evolution.options import LEAST_RTOL, Options
from meanfield.evolution.solution import Status
from meanfield.evolution.steppers import Stepper
from meanfield.evolution.system import Kept, System, Verdict, density_numbers, moments_of_step
from meanfield.measures.clusters import clusters
from meanfield.measures.flow_map import FREE, REACH, LineFlowMap
from meanfield.typing import Array

# errors of single steps add up: this share of the tolerance for each
_STEP_SHARE = 0.1
# time steps have order 2 and panels order 3 only where X has kinks
_LEAST_TOL_AT_KINKS = 1e-7


class LineSystem(System[LineFlowMap]):
    """A flow map on a line that is kept resolved, with the moments of every step.

    A cluster becomes an atom only where the dynamics keeps clusters: elsewhere it may be pulled
    apart later, and its density would be lost. At the kinks of relu the flow map's `tol` counts as
    1e-7 at least.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Dynamics
    options : Options
        Its tolerances in time do not count: they are the flow map's own.

    Attributes
    ----------
    adaptation : float
        What the energy gained by splits and atoms.
    keeps_history : bool
        Whether characteristics lead back to the law.

    Raises
    ------
    ValueError
        If a layer can't move the flow map.
    """

    kept: ClassVar[Kept] = {**System.kept, "adaptation": float, "keeps_history": bool}

    def __init__(self, flow: LineFlowMap, dynamics: Dynamics, options: Options) -> None:
        # what can't be run is refused before any work starts
        layers = {id(layer): layer for layer in dynamics._layers}
        self._fields = {
            name: line_field(dynamics, flow.dim, flow.axis, layer) for name, layer in layers.items()
        }
        if not dynamics._smooth:
            flow = flow._moved(tol=max(flow.tol, _LEAST_TOL_AT_KINKS))
        self._reach = REACH / max(1.0, dynamics._reach)
        self._radius = flow.atom_radius if dynamics._keeps_clusters else 0.0
        self.adaptation = 0.0
        first = self._fields[id(dynamics._layers[0])]
        self.keeps_history = first.line.relative and flow._is_at_labels
        super().__init__(flow._refined(self._reach), dynamics, options)

    def _equation(self, flow: LineFlowMap) -> FlowTendency:
        return FlowTendency(flow, self.acting, self._fields[id(self.acting)])

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        tol = _STEP_SHARE * self.equation.flow.tol
        return LEAST_RTOL, np.append(tol * self.equation.scale(self.state[:-1]), tol)

    def after(self, stepper: Stepper) -> Verdict:
        """Split panels and hold clusters as atoms where that is due."""
        if self.keeps_history:
            # without a unit of time: at the β where there is one no line keeps a history
            self._history.append(float(stepper.t), moments_of_step(stepper, self.equation.charges))
        self.count(stepper)
        flow = self.equation.measure(self.state[:-1])
        spread = np.zeros(len(flow.angles))
        spread[flow.owners == FREE] = self.equation.spread(stepper.f[:-1] / self.clock)
        held = collapsed(flow, spread, self._radius)
        if held is not flow:
            gap = self._change_to(held)
            self.collapses.append((self.t, len(held._atom_angles), gap))
        finer = held._refined(self._reach)
        if finer is not held:
            if (count := len(finer.angles)) > flow.max_nodes:
                allowed = f"more than the {flow.max_nodes} allowed"
                told = f"the flow map would take {count} nodes, {allowed}"
                raise self.out_of_room(told, "`max_nodes` or `tol` of the flow map")
            self._change_to(finer)
        return Verdict.GO_ON if finer is flow else Verdict.RESTART

    def _change_to(self, flow: LineFlowMap) -> float:
        """Go on with another flow map for the same measure; what the energy gained."""
        before = self.scaled_energy() if self._is_adapted else 0.0
        self.adopt(self._equation(flow), work=self.work)
        gap = self.scaled_energy() - before if self._is_adapted else 0.0
        self.adaptation += gap
        return gap

    @property
    def _is_adapted(self) -> bool:
        """Whether splits and atoms may change the energy by more than the tolerance of the nodes.

        Not where the dynamics has heads: no atoms are made.
        """
        return self.energy is not None and self.dynamics._isotropic

    def finished(self) -> tuple[Status, str]:
        """How the run ended: clustered if all mass is one atom at rest."""
        flow = self.equation.flow
        if self.dynamics._isotropic and len(flow._atom_angles) == 1 and (flow.owners != FREE).all():
            return (
                "clustered",
                f"clustered at t = {self.t:g} after {self.steps} steps: all mass is one atom",
            )
        return super().finished()

    def _numbers(self, flow: LineFlowMap) -> dict[str, float]:
        numbers = {
            "tail": flow.tail,
            "size": len(flow.angles),
            **super()._numbers(flow),
            "n_atoms": len(flow._atom_angles),
            "n_clusters": len(clusters(flow)),
        }
        if self._is_adapted:
            numbers["adaptation"] = self.adaptation
        if flow._has_density:
            numbers |= density_numbers(flow)
        return numbers
