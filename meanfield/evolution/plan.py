"""What was asked of a run, and which run does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from meanfield.dynamics.facts import Dynamics, adapt
from meanfield.dynamics.records import AnyDynamics
from meanfield.equations.line import AsymmetryError
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.density_run import DensityRun, NoisyDensityRun, OscillatorDensityRun
from meanfield.evolution.flow_run import FlowRun
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Records
from meanfield.evolution.run import Run
from meanfield.evolution.solution import Ending, Solution
from meanfield.evolution.sphere_run import SphereRun
from meanfield.evolution.token_run import TokenRun, token_run
from meanfield.laws.law import Law
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density, SeriesLaw
from meanfield.measures.flow_map import FlowMap, LineFlowMap, SphereFlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.spaces.sphere import Sphere
from meanfield.typing import Array

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


@dataclass(frozen=True)
class Plan:
    """What was asked of a run, apart from its measure: see the arguments of `evolve`."""

    dynamics: AnyDynamics
    times: Array
    options: Options
    method: str
    step: float | None
    case: str
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def run(self, measure: AnyMeasure, rng: np.random.Generator | None) -> AnyRun:
        """The run of a measure."""
        dynamics = adapt(self.dynamics)
        if isinstance(measure, OscillatorDensity):
            return OscillatorDensityRun(measure, dynamics, self.options)
        if isinstance(measure, Density):
            density_run = NoisyDensityRun if dynamics.noise > 0.0 else DensityRun
            return density_run(measure, dynamics, self.options)
        if isinstance(measure, FlowMap):
            return flow_run(measure, dynamics, self.options)
        return token_run(
            measure, dynamics, self.options, method=self.method, step=self.step, rng=rng
        )

    def solution(
        self, run: AnyRun, ending: Ending, message: str, resumption: Resumption | None
    ) -> Solution:
        """What the run has left so far."""
        dataset = run.records.dataset()
        dataset.attrs |= self._how(run)
        return Solution(
            t=dataset.t.values,
            measures=list(run.records.measures),
            dynamics=self.dynamics,
            ending=ending,
            message=message,
            dataset=dataset,
            case=self.case,
            history=run.history(),
            resumption=resumption,
        )

    def _how(self, run: AnyRun) -> dict[str, float | str]:
        """How the run was done, for its dataset."""
        options = self.options
        how: dict[str, float | str] = {
            **self.about,
            "rtol": options.rtol,
            "atol": options.atol,
            "tail_tol": options.tail_tol,
            "t_end": float(self.times[-1]),
        }
        if isinstance(run, TokenRun):
            how |= {"method": self.method, "sums": run.sums}
            if run.step is not None:
                how["step"] = run.step
        return how

    def resumption(self, run: AnyRun) -> Resumption:
        """What a run needs to go on from the save that it is at."""
        options, own = self.options, run.snapshot()
        numbers = {
            "saves": len(run.records.measures),
            "records": run.records.snapshot(),
            "rtol": options.rtol,
            "atol": options.atol,
            "tail_tol": options.tail_tol,
            "largest": options.largest,
            "most_nodes": options.most_nodes,
            "hand_over_size": options.hand_over_size,
            "cluster_radius": options.cluster_radius,
            "method": self.method,
            "step": self.step,
            "on_unresolved": options.on_unresolved,
            "about": dict(self.about),
            "run": own.numbers,
        }
        if library := _library((run.records.measures or [run.measure()])[0]):
            numbers["library"] = library
        return Resumption(numbers, own.arrays | {"times": self.times})


def check_library(first: AnyMeasure, resumption: Resumption) -> None:
    """What a density on S^2 is transformed by must be what the run had, ducc0 where none is told.

    Raises
    ------
    ValueError
        If it is another one.
    """
    asked, here = resumption.numbers.get("library", "ducc0"), _library(first)
    if here is not None and here != asked:
        raise ValueError(
            f"library of its transforms must be {asked!r:.80}, as it was, got {here!r}: "
            f'pip install "meanfield-attention[shtns]" if that is missing'
        )


def _library(measure: AnyMeasure) -> str | None:
    on_sphere = isinstance(measure, Density) and isinstance(measure.space, Sphere)
    return cast(Sphere, cast(Density, measure).space).library if on_sphere else None
