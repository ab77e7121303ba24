"""The run of a flow map on a line: panels split, clusters become atoms, moments are kept."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.isotropic import SA
from meanfield.equations.atoms import collapsed
from meanfield.equations.history import MomentHistory, step_times
from meanfield.equations.line import FlowTendency, LineField, line_field
from meanfield.equations.tendency import flow_tendency
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Records, Stop
from meanfield.evolution.run import Run
from meanfield.evolution.solution import Ending, Solution
from meanfield.measures.clusters import clusters
from meanfield.measures.flow_map import FREE, REACH, LineFlowMap
from meanfield.typing import Array

# errors of single steps add up: this share of the tolerance for each
_STEP_SHARE = 0.1
# least relative tolerance that the solver takes
_RTOL = 3e-14
# time steps have order 2 and panels order 3 only where X has kinks
_LEAST_TOL_AT_KINKS = 1e-7


class FlowRun(Run[LineFlowMap]):
    """A run that keeps its flow map resolved, and the moments of every step.

    A cluster becomes an atom only where the dynamics keeps clusters: elsewhere it may be pulled
    apart later, and its density would be lost. At the kinks of relu the flow map's `tol` counts as
    1e-7 at least.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Dynamics
    options : Options
        Its tolerances in time do not count: they are the flow map's own.
    records : Records, optional
        Those of the run that this one takes over from.

    Raises
    ------
    ValueError
        If a layer can't move the flow map.
    """

    tendency: FlowTendency

    def __init__(
        self,
        flow: LineFlowMap,
        dynamics: Dynamics,
        options: Options,
        records: Records | None = None,
    ) -> None:
        self._layer = dynamics.layers[0]
        self._field = line_field(dynamics, flow.dim, flow.axis, self._layer)
        for layer in dict.fromkeys(dynamics.layers[1:]):
            # what can't be run is refused before any work starts
            line_field(dynamics, flow.dim, flow.axis, layer)
        if not dynamics.smooth:
            flow = flow.moved(tol=max(flow.tol, _LEAST_TOL_AT_KINKS))
        # of E_β where the field of the dynamics has no sums for it
        self._energy = None if dynamics.isotropic else LineField(SA(dynamics.beta), flow.dim)
        self._reach = REACH / max(1.0, dynamics.reach, dynamics.beta)
        self._radius = options.cluster_radius if dynamics.keeps_clusters else 0.0
        self._adaptation = 0.0
        self._times: list[float] = [0.0]
        self._moments: list[Array] = []
        # characteristics lead back to the law only where the run begins at the labels
        self._keeps_history = self._field.line.relative and flow.is_at_labels
        super().__init__(flow.refined(self._reach), dynamics, options, records)

    def _tendency(self, flow: LineFlowMap) -> FlowTendency:
        if self.acting is not self._layer:
            self._layer = self.acting
            self._field = line_field(self.dynamics, flow.dim, flow.axis, self._layer)
        return flow_tendency(flow, self.acting, self._field)

    def _tolerances(self) -> tuple[float, Array]:
        tol = _STEP_SHARE * self.tendency.flow.tol
        return _RTOL, np.append(tol * self.tendency.scale(self.state[:-1]), tol)

    def adapt(self, solver: Any) -> bool:
        """Split panels and hold clusters as atoms where that is due."""
        self._remember(solver)
        flow = self.tendency.measure(self.state[:-1])
        spread = np.zeros(len(flow.angles))
        spread[flow.owners == FREE] = self.tendency.spread(solver.f[:-1] / self._time_unit)
        held = collapsed(flow, spread, self._radius)
        if held is not flow:
            gap = self._change_to(held)
            self.records.collapses.append((self.t, len(held.atoms), gap))
        finer = held.refined(self._reach)
        if finer is not held:
            if len(finer.angles) > self.options.most_nodes:
                raise Stop(Ending.UNDER_RESOLVED, self._too_many(finer))
            self._change_to(finer)
        return finer is not flow

    def _change_to(self, flow: LineFlowMap) -> float:
        """Go on with another flow map for the same measure; what the balanced energy gained."""
        if not self.dynamics.isotropic:
            # no atoms are made, and what panels gain is below the tolerance of the nodes
            self._adopt(self._tendency(flow), work=float(self.state[-1]))
            return 0.0
        before = self.balanced_energy()
        self._adopt(self._tendency(flow), work=float(self.state[-1]))
        gap = self.balanced_energy() - before
        self._adaptation += gap
        return gap

    def _remember(self, solver: Any) -> None:
        if not self._keeps_history:
            return
        dense = solver.dense_output()
        # without a unit of time: at the β where there is one no line keeps a history
        times = step_times(solver.t_old, solver.t)
        moments = np.array([self.tendency.charges(dense(t)[:-1]) for t in times])
        self._times.append(float(solver.t))
        self._moments.append(moments)

    def history(self) -> MomentHistory | None:
        """The moments of the run so far, where the line keeps their digits."""
        if not self._moments:
            return None
        return MomentHistory(np.array(self._times), np.array(self._moments))

    def restart(self) -> None:
        """Go on from the flow map as it was saved."""
        self._adopt(self._tendency(self.measure()), work=float(self.state[-1]))

    def snapshot(self) -> Resumption:
        """What splitting and holding did to the energy, too; moments are in the solution."""
        base = super().snapshot()
        own = {
            "adaptation": self._adaptation,
            "keeps_history": self._keeps_history,
            "remembered": len(self._moments),
        }
        return Resumption(base.numbers | own, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        self._adaptation = float(resumption.numbers["adaptation"])
        history = cast(MomentHistory | None, saved.history)
        self._keeps_history = bool(resumption.numbers["keeps_history"])
        if history is not None:
            count = int(resumption.numbers["remembered"])
            self._times = history.times[: count + 1].tolist()
            self._moments = list(history.moments[:count])

    def _too_many(self, flow: LineFlowMap) -> str:
        return (
            f"under-resolved at t = {self.t:.6g}: the flow map would take {len(flow.angles)} "
            f"nodes, more than the {self.options.most_nodes} allowed; try a larger `largest`, a "
            f"larger `tol` of the flow map or a smaller `t_end`"
        )

    def finished(self) -> tuple[Ending, str]:
        """How the run ended: clustered if all mass is one atom at rest."""
        flow = self.tendency.flow
        if self.dynamics.isotropic and len(flow.atoms) == 1 and (flow.owners != FREE).all():
            return (
                Ending.CLUSTERED,
                f"clustered at t = {self.t:g} after {self.steps} steps: all mass is one atom",
            )
        return super().finished()

    def scaled_energy(self) -> float:
        """e^{-β} E_β at the present time."""
        if self._energy is None:
            return self.tendency.scaled_energy(self.state[:-1])
        flow = self.tendency.measure(self.state[:-1])
        rate = FlowTendency(flow, SA(self.dynamics.beta), self._energy)
        return rate.scaled_energy(rate.initial_state)

    def _numbers(self, flow: LineFlowMap) -> dict[str, float]:
        isotropic = self.dynamics.isotropic
        numbers = {
            "metric_speed" if isotropic else "speed": self._metric_speed(),
            "tail": flow.tail,
            "size": len(flow.angles),
            **super()._numbers(flow),
            "atoms": len(flow.atoms),
            "clusters": len(clusters(flow)),
        }
        if isotropic:
            numbers["adaptation"] = self._adaptation
        if flow.has_density:
            density = flow.density_at_nodes
            numbers["min_density"] = float(density.min())
            numbers["max_density"] = float(density.max())
            numbers["entropy"] = flow.entropy()
        return numbers
