"""What was asked of a run, and what it has left so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import AnyDynamics, adapt
from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.fixed_steps import token_run
from meanfield.integrate.hand_over import AnyRun, flow_run
from meanfield.integrate.noisy_density import NoisyDensityRun
from meanfield.integrate.options import Options
from meanfield.integrate.oscillator_runs import OscillatorDensityRun
from meanfield.integrate.token_runs import TokenRun
from meanfield.measures import AnyMeasure, Density, FlowMap, OscillatorDensity
from meanfield.solution import Ending, Resumption, Solution
from meanfield.spaces import Sphere

Array = NDArray[np.float64]


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
