"""A run of a flow map on a line under any attention, feed-forward layers and `Layers`."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, AnyDynamics, FeedForward, Field, Layers, MeanField
from meanfield.integrate.flow_run import FlowRun
from meanfield.integrate.options import Options
from meanfield.integrate.records import Records
from meanfield.integrate.run import Run
from meanfield.measures import AnyMeasure, LineFlowMap
from meanfield.solution import Ending
from meanfield.tendency import AngularField, FlowTendency, LineField, line_field, reach_of

Array = NDArray[np.float64]

_LEAST_TOL_AT_KINKS = 1e-7


class DrivenFlowRun(FlowRun):
    """A run of nodes that need not be drawn together, layer after layer where it has layers.

    No cluster is held as an atom: what contracts now may be pulled apart later, by another layer
    or at another place, and its density would be lost. At the kinks of relu time steps have order
    2 and panels order 3 only: with such a layer the flow map's `tol` counts as 1e-7 at least.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Attention, FeedForward or Layers
    options : Options
        `cluster_radius` does not count.
    records : Records, optional
        Those of the run that this one takes over from.

    Raises
    ------
    ValueError
        If a layer can't move the flow map.
    """

    def __init__(
        self,
        flow: LineFlowMap,
        dynamics: AnyDynamics,
        options: Options,
        records: Records | None = None,
    ) -> None:
        self.moved_by = dynamics
        self._layer: Field = dynamics.layers[0] if isinstance(dynamics, Layers) else dynamics
        layers = dynamics.layers if isinstance(dynamics, Layers) else ()
        for layer in {id(layer): layer for layer in layers}.values():
            # what can't be run is refused before any work starts
            line_field(dynamics, flow.dim, flow.axis, layer)
        self._energy = LineField(SA(dynamics.beta), flow.dim)
        if isinstance(dynamics, (FeedForward, Layers)) and not dynamics.is_smooth:
            flow = flow.moved(tol=max(flow.tol, _LEAST_TOL_AT_KINKS))
        # a plain run knows no matrices; what it does with others is done here
        super().__init__(flow, cast(MeanField, dynamics), options, records)

    def _first_field(self, flow: LineFlowMap, dynamics: MeanField) -> AngularField:
        return line_field(dynamics, flow.dim, flow.axis, self._layer)

    def _steepness(self, flow: LineFlowMap, dynamics: MeanField) -> float:
        return max(reach_of(dynamics, flow.dim), dynamics.beta)

    def _draws_together(self, dynamics: MeanField) -> bool:  # noqa: ARG002 (as for others)
        return False

    def _tendency(self, measure: AnyMeasure) -> FlowTendency:
        if self.acting is not self._layer:
            flow, self._layer = cast(LineFlowMap, measure), self.acting
            self._field = line_field(self.moved_by, flow.dim, flow.axis, self._layer)
        return super()._tendency(measure)

    def _change_to(self, flow: LineFlowMap) -> float:
        self._adopt(self._tendency(flow), work=float(self.state[-1]))
        return 0.0

    def scaled_energy(self) -> float:
        """e^{-β} E_β at the present time."""
        flow = self.tendency.measure(self.state[:-1])
        energy = FlowTendency(flow, SA(self.moved_by.beta), self._energy)
        return energy.scaled_energy(energy.initial_state)

    def finished(self) -> tuple[Ending, str]:
        """How the run ended."""
        return Run.finished(self)

    def _numbers(self, measure: AnyMeasure) -> dict[str, float]:
        numbers = super()._numbers(measure)
        # nothing but refinement changes the energy beside the flow, to the tolerance of the nodes
        del numbers["adaptation"]
        return {"speed": numbers.pop("metric_speed")} | numbers
