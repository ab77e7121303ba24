"""A run: what was asked, the system that moves, and what is saved of it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.own import layer_step
from meanfield.dynamics.with_energy import adapt_with
from meanfield.equations.rates import NOT_FINITE
from meanfield.evolution import density_system, flow_system, token_system
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.evolution.recorder import Monitors, Recorder
from meanfield.evolution.settings import FLOW_MAP, Settings
from meanfield.evolution.solution import Solution
from meanfield.evolution.steppers import Stepper
from meanfield.evolution.system import MOST_STEPS, AnySystem, Stop, Verdict
from meanfield.exceptions import Status
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Particles
from meanfield.typing import Array, Rng

_log = logging.getLogger(__name__)

# so many steps in a row are timed; step sizes must have grown over so many such rows
_STEPS = 400
_ROWS = 5


class StallDetector:
    """How many steps are left to a save, told once step sizes have ceased to grow.

    An explicit method takes steps of at most some 6/λ where the fastest mode is damped at rate λ,
    also where the state is at rest. USA has λ of order e^β: t_end = 1 is e^β of its own times.

    Examples
    --------
    >>> detector = StallDetector()
    >>> [left for i in range(1, 3001) if (left := detector.left(1e-12 * i, 1.0)) > MOST_STEPS][:1]
    [999999997600.0]
    """

    def __init__(self) -> None:
        self._count = 0
        self._times: deque[float] = deque(maxlen=_ROWS + 1)

    def left(self, t: float, t_bound: float) -> float:
        """Steps from t, where one more step has come to, to t_bound; 0 where it is not told yet."""
        self._count += 1
        if self._count % _STEPS:
            return 0.0
        self._times.append(t)
        times = list(self._times)
        if len(times) <= _ROWS:
            return 0.0
        first_step, last_step = times[1] - times[0], times[-1] - times[-2]
        if last_step > 2.0 * first_step:
            return 0.0
        return (t_bound - t) / last_step * _STEPS


@dataclass(frozen=True)
class Plan:
    """The plan of a run, apart from its measure: see the arguments of `evolve`."""

    dynamics: AnyDynamics
    times: Array
    settings: Settings
    monitors: Monitors
    energy: AnyDynamics | None = None
    case: str = ""
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def system(self, measure: AnyMeasure, rng: Rng | None) -> AnySystem:
        """The system that moves this measure."""
        dynamics, settings = adapt_with(self.dynamics, self.energy), self.settings
        if (step := layer_step(self.dynamics)) is not None:
            return token_system.LayerSystem(cast(Particles, measure), dynamics, settings, step)
        match measure:
            case OscillatorDensity():
                return density_system.OscillatorDensitySystem(measure, dynamics, settings)
            case Density() if dynamics.noise > 0.0:
                return density_system.NoisyDensitySystem(measure, dynamics, settings)
            case Density():
                return density_system.DensitySystem(measure, dynamics, settings)
            case FlowMap():
                return flow_system.system_for(measure, dynamics, settings)
        if dynamics.noise > 0.0:
            return token_system.NoisyTokenSystem(measure, dynamics, settings, rng)
        return token_system.TokenSystem(measure, dynamics, settings)


def advance(
    system: AnySystem,
    t_end: float,
    report: Callable[[AnySystem], None],
    interrupt: DeferredInterrupt,
) -> None:
    """Step a system to a time, layer after layer where there are layers.

    Parameters
    ----------
    system : System
        Its state is the last good one in any case.
    t_end : float
    report : callable
        It is given the system after every step that counts.
    interrupt : DeferredInterrupt
        Looked at after every step that counts; a step that takes long is dropped for it.

    Raises
    ------
    Stop
        If the system can't continue.
    KeyboardInterrupt
        After Ctrl-C.
    """
    for layer, until in system.dynamics.between(system.t, t_end):
        system.act(layer)
        detector = StallDetector()
        stepper: Stepper | None = None
        while system.t < until:
            with interrupt.interruptible():
                stepper = stepper or system.stepper(until)
                reason = stepper.step()
            if stepper.status == "failed" or not np.isfinite(stepper.y).all():
                raise system.failed(f"{reason}; try {system.remedy}" if reason else NOT_FINITE)
            verdict = system.after(stepper)
            if verdict is Verdict.REDO:
                system.step_size, stepper = (stepper.t - stepper.t_old) * system.unit, None
                continue
            if (left := detector.left(system.t, until)) > MOST_STEPS:
                raise system.too_far(left)
            report(system)
            interrupt.check()
            if stepper.status == "finished":
                break
            if verdict is Verdict.RESTART:
                stepper = None


class Run:
    """A system on its way through the times of a plan, and what was saved of it.

    Parameters
    ----------
    plan : Plan
    system : System

    Attributes
    ----------
    is_cut : bool
        Whether the last save lacks numbers, since Ctrl-C did not wait for them.
    """

    def __init__(self, plan: Plan, system: AnySystem) -> None:
        self.plan, self.system, self.is_cut = plan, system, False
        energy = system.dynamics.energy_between(plan.times[0], plan.times[-1])
        self.recorder = Recorder(energy, plan.monitors, system.log_units)

    def begin(self, interrupt: DeferredInterrupt) -> None:
        """Save the initial measure, resolved.

        Raises
        ------
        Stop
            If the run can't even begin; the measure is saved all the same.
        """
        self.recorder.begin(start=None, calls=0)
        try:
            self.system.begin()
        finally:
            self.save(interrupt)

    def save(self, interrupt: DeferredInterrupt) -> None:
        """Keep the measure and its numbers at the present time, and continue from it.

        Raises
        ------
        Stop
            If one of the numbers is not finite; it is kept all the same.
        KeyboardInterrupt
            If Ctrl-C does not wait for the numbers; the measure is kept, with those there are.
        """
        system, measure = self.system, self.system.measure()
        try:
            with interrupt.interruptible():
                row = system.row(measure)
        except Stop:
            self.recorder.save(measure, {"t": system.t}, interrupt)
            raise
        except KeyboardInterrupt:
            self.is_cut = True
            self.recorder.save(measure, system.least_row(measure), interrupt)
            raise
        self.recorder.save(measure, row, interrupt)
        # a saved density has no scaling, so the system starts from the saved measure alone
        system.rebase(measure)

    def save_once(self, interrupt: DeferredInterrupt) -> None:
        """Save the present state unless that was done."""
        if self.recorder.last_time < self.system.t:
            # the run ends for its own reason, which an error of a monitor must not replace
            with suppress(Stop):
                self.save(interrupt)

    def hand_over(
        self, stop: Stop, report: Callable[[AnySystem], None], interrupt: DeferredInterrupt
    ) -> None:
        """Go on as a flow map, or where none can as a density with all the room it may have.

        The labels of the flow map are those of t = 0: f_t is f_0 at the foot of a characteristic,
        with no trace of the density's truncated spectrum.

        Raises
        ------
        Stop
            If neither can.
        """
        density, settings = self.system, self.plan.settings
        start: Any = self.recorder.measures[0]
        is_lost = (stop.status, settings.on_unresolved) == ("under-resolved", FLOW_MAP)
        if not is_lost or self.recorder.hand_over is not None:
            raise stop
        try:
            with interrupt.interruptible():
                flow = flow_system.system_for(FlowMap(start), density.dynamics, settings)
            advance(flow, density.t, report, interrupt)
        except (ValueError, Stop) as error:
            if density.extend():
                return
            raise Stop(stop.status, f"{stop}; a flow map can't take over: {error}") from error
        _log.info("t = %g: a flow map takes over: %s", density.t, stop)
        try:
            gap = flow.scaled_energy() - density.scaled_energy()
        except Stop:
            # nothing but rounding is left of the density
            gap = float("nan")
        self.recorder.take_over(density.t, gap)
        flow.log_unit, flow.log_units, self.system = density.log_unit, density.log_units, flow

    def solution(self, status: Status, message: str, resumption: Resumption | None) -> Solution:
        """The solution so far."""
        plan, system = self.plan, self.system
        contents, settings = self.recorder.contents(system.collapses), plan.settings
        attrs, measure = contents.attrs, self.recorder.measures[0]
        attrs |= {**plan.about, "t_start": float(plan.times[0]), "t_end": float(plan.times[-1])}
        # a run of a flow map has no tolerances but the flow map's own
        if (tol := getattr(measure, "tol", None)) is not None:
            attrs["tol"] = tol
        else:
            attrs |= {"rtol": settings.rtol, "atol": settings.atol}
        attrs |= {name: limit for name, limit in measure.run_limits.items() if limit is not None}
        attrs |= system.attributes
        return Solution(
            t=contents.variables["t"].values,
            measures=list(self.recorder.measures),
            dynamics=plan.dynamics,
            energy=plan.energy,
            status=status,
            message=message,
            dataset=contents,
            case=plan.case,
            history=system.history(),
            resumption=resumption,
        )

    def resumption(self) -> Resumption:
        """The state from which the run can go on after its present save."""
        plan, system = self.plan, self.system
        numbers = vars(plan.settings) | {
            "saves": len(self.recorder.measures),
            "records": self.recorder.kept() | {"collapses": list(system.collapses)},
            "about": dict(plan.about),
            "run": {name: _plain(getattr(system, name)) for name in system.kept}
            | {"remembered": len(system.history() or ())},
        }
        if library := _library((self.recorder.measures or [system.measure()])[0]):
            numbers["library"] = library
        return Resumption(numbers, plan.times)


def _plain(value: object) -> object:
    """Return a value as plain types that JSON has."""
    match value:
        case np.random.Generator():
            return token_system.generator_state(value)
        case np.ndarray():
            return value.tolist()
        case set():
            return sorted(value)
    return value


def check_library(first: AnyMeasure, resumption: Resumption) -> None:
    """Check that a density on S^2 has the library of its run, ducc0 if the file names none."""
    run_library, own = resumption.numbers.get("library", "ducc0"), _library(first)
    if own is not None and own != run_library:
        raise ValueError(
            f"library of its transforms must be {run_library!r:.80}, as it was, got {own!r}: "
            f'pip install "meanfield-attention[shtns]" if that is missing'
        )


def _library(measure: AnyMeasure) -> str | None:
    space = getattr(measure, "space", None)
    return getattr(space, "library", None)
