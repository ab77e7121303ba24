"""From the run of a density that its space can't hold to the run of a flow map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from meanfield.dynamics import Dynamics
from meanfield.integrate.flow_run import FlowRun
from meanfield.integrate.options import Options
from meanfield.integrate.records import Records
from meanfield.integrate.run import Run
from meanfield.integrate.sphere_run import SphereRun
from meanfield.laws import Law
from meanfield.measures import Density, FlowMap, LineFlowMap, SphereFlowMap
from meanfield.measures.density import SeriesLaw
from meanfield.tendency import AsymmetryError

AnyRun = Run[Any] | SphereRun
# of a flow map that was made for an axis, with less
_TOL_ON_S2 = 1e-9


def flow_run(
    flow: FlowMap, dynamics: Dynamics, options: Options, records: Records | None = None
) -> FlowRun | SphereRun:
    """The run of a flow map of either form.

    Raises
    ------
    ValueError
        If the flow map can't be run under this dynamics.
    """
    if isinstance(flow, SphereFlowMap):
        return SphereRun(flow, dynamics, options, records)
    line = cast(LineFlowMap, flow)
    try:
        return FlowRun(line, dynamics, options, records)
    except AsymmetryError:
        if line.dim != 3 or not line.is_at_labels:
            raise
    # the law is symmetric, but the measure will not stay so
    whole = SphereFlowMap(line.line.law, max(line.tol, _TOL_ON_S2))
    return SphereRun(whole, dynamics, options, records)


def flow_map(density: Density) -> FlowMap:
    """The flow map of a density at t = 0, from its law or else from its series.

    Raises
    ------
    ValueError
        If no flow map holds the law.
    """
    law: Law = density.law if density.law is not None else SeriesLaw(density)
    return FlowMap(law, axis=density.axis)


def handed_over(run: AnyRun, report: Callable[[Any], None]) -> FlowRun | SphereRun:
    """The run of a flow map from the same start, at the time that the density's came to.

    Its labels are those of t = 0: f_t is f_0 at the foot of a characteristic, with no trace of
    the density's truncated spectrum.

    Raises
    ------
    ValueError
        If no flow map holds the law.
    Stop
        If the flow map can't be followed so far.
    """
    first = cast(Density, run.records.measures[0])
    flow = flow_run(flow_map(first), run.dynamics, run.options, run.records)
    flow.advance(run.t, report)
    flow.records.hand_over = run.t, flow.scaled_energy() - run.scaled_energy()
    return flow
