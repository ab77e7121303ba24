"""The state of one run: steps of time, what is done between them, and how it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.attention import Attention
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.interactions import CircleInteraction
from meanfield.equations.attention import AttentionTendency
from meanfield.equations.density import DensityTendency, LostDigitsError
from meanfield.equations.history import MomentHistory
from meanfield.equations.line import FlowTendency
from meanfield.equations.tendency import IsotropicTendency, Tendency, tendency
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Records, Stop
from meanfield.evolution.solution import Ending, Solution
from meanfield.evolution.steppers import ExplicitSteps
from meanfield.functionals.energies import (
    balance,
    dissipation_in_unit,
    energy_in_unit,
    interaction_energy,
    order_parameter,
    sinkhorn_energy,
)
from meanfield.measures import AnyMeasure
from meanfield.measures.particles import Particles
from meanfield.spaces import Space
from meanfield.typing import Array

# steps between looks at the clock, and looks over which steps must have grown
_STEPS = 400
_LOOKS = 5
# more steps than anybody waits for: an hour or more
MOST_STEPS = 1e7
# the β up to which e^β over a tolerance of 1e-12 can still be squared, by far
_LARGEST_RATE = 200.0
# of a step under noise in units of the fastest rate, and what a frequency counts as one
_SHARE, _TURNED = 0.02, 0.1


class Pace:
    """How many steps are left to a save, told once step sizes have ceased to grow.

    An explicit method takes steps of at most some 6/λ where the fastest mode is damped at rate λ,
    also where the state is at rest. USA has λ of order e^β: t_end = 1 is e^β of its own times.

    Examples
    --------
    >>> pace = Pace()
    >>> [left for i in range(1, 3001) if (left := pace.left(1e-12 * i, 1.0)) > MOST_STEPS][:1]
    [999999997600.0]
    """

    def __init__(self) -> None:
        self._count = 0
        self._times: deque[float] = deque(maxlen=_LOOKS + 1)

    def left(self, t: float, t_bound: float) -> float:
        """Steps from t, where one more step has come to, to t_bound; 0 where it is not told yet."""
        self._count += 1
        if self._count % _STEPS:
            return 0.0
        self._times.append(t)
        times = list(self._times)
        if len(times) <= _LOOKS:
            return 0.0
        first, last = times[1] - times[0], times[-1] - times[-2]
        if last > 2.0 * first:
            return 0.0
        return (t_bound - t) / last * _STEPS


def time_unit(dynamics: Dynamics) -> float:
    """1, or e^{-β} for USA at large β, whose rates e^β the solver could not square."""
    is_fast = dynamics.fast and dynamics.beta > _LARGEST_RATE
    return float(np.exp(-dynamics.beta)) if is_fast else 1.0


def default_step(particles: Particles, dynamics: Dynamics) -> float:
    """A time step with weak errors of about 1e-4: short against the flow and the noise.

    Raises
    ------
    ValueError
        If the dynamics has no rates known beforehand.
    """
    if isinstance(dynamics, CircleInteraction):
        rate = max(dynamics.lipschitz, dynamics.noise)
        if particles.frequencies is not None:
            # a rotation is exact, the field on the way an average over it
            rate = max(rate, _TURNED * float(np.abs(particles.frequencies).max()))
        return _SHARE / float(rate)
    if not dynamics.isotropic:
        raise ValueError(f"step must be given for {shown(dynamics)}, got None")
    rate = 1.0 + dynamics.beta
    if dynamics.fast:
        rate *= float(np.exp(dynamics.beta))
    return float(_SHARE / max(rate, (particles.dim - 1) * dynamics.noise))


def finished(t: float, steps: int) -> str:
    """Of a run that came to its end."""
    return f"finished at t = {t:g} after {steps} steps"


def failed(t: float, step_size: float, reason: str | None) -> str:
    """Of a run that has no next step."""
    what = (reason or "the state is no longer finite").rstrip(".")
    return (
        f"failed at t = {t:.6g} (step size {step_size:.1e}): {what}; "
        f"try larger tolerances rtol and atol"
    )


def too_far(t: float, step_size: float, left: float, dynamics: Dynamics) -> str:
    """Of a run whose next save is more steps away than anybody waits for."""
    rate = np.exp(-dynamics.beta)
    of_usa = f"; USA runs in times of order exp(-beta) = {rate:.1e}" if dynamics.fast else ""
    return (
        f"failed at t = {t:.6g}: at step sizes of {step_size:.1e}, which do not grow "
        f"any more, the next save is {left:.1e} steps away{of_usa}; try a smaller t_end, or "
        f"more saves to go on all the same"
    )


def unresolved(
    t: float, tail: float, misfit: float | None, tail_tol: float, space: Space, first: str
) -> str:
    """Of a density that its largest space does not resolve; `first` is what to try first."""
    what = "misfit of the law" if tail == misfit else "spectral tail"
    reached, allowed = tell_apart(tail, tail_tol)
    return (
        f"under-resolved at t = {t:.6g}: the {what} reached {reached} > {allowed} on {space}, the "
        f"largest space allowed; try {first}a larger `largest`, a larger `tail_tol` or a smaller "
        f"`t_end`"
    )


def own_energy(measure: AnyMeasure, dynamics: Dynamics) -> float | None:
    """E_DS of doubly stochastic attention, F of an odd interaction; None where it is E_β."""
    if dynamics.balanced:
        return sinkhorn_energy(measure, dynamics.beta)
    if isinstance(dynamics, CircleInteraction) and dynamics.is_odd:
        return interaction_energy(measure, dynamics)
    return None


def balance_of(
    measure: AnyMeasure,
    dynamics: Dynamics,
    dissipation: Callable[[], float],
    work: float,
    log_unit: float,
) -> dict[str, float]:
    """The rate at which an energy changes and its integral, in units of e^{log_unit}.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an energy.
    dissipation : callable
        As `dissipation_of` the measure; attention that has a form computes its own.
    work : float
        ∫ dissipation dt since t = 0, in these units.
    log_unit : float
        That of the run's records; 0 for interactions.
    """
    if isinstance(dynamics, Attention):
        return balance(measure, dynamics, work, log_unit)
    if isinstance(dynamics, CircleInteraction):
        return {
            "interaction_energy": interaction_energy(measure, dynamics),
            "interaction_dissipation": dissipation(),
            "interaction_work": work,
        }
    sign = energy.sign if (energy := dynamics.energy) else 1
    return {"dissipation": dissipation(), "work": sign * work}


def dissipation_of(measure: AnyMeasure, dynamics: Dynamics) -> float:
    """The rate at which an energy changes, of an interaction ∫ |X|² dmu."""
    if not isinstance(dynamics, CircleInteraction):
        return dissipation_in_unit(measure, dynamics)[0]
    flow = measure.resolving(dynamics.reach)
    rate = cast(IsotropicTendency, tendency(flow, dynamics))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    return rate.scaled_dissipation()


def order_numbers(measure: AnyMeasure, dynamics: Dynamics) -> dict[str, float]:
    """r and ψ of r e^{iψ} = ∫ e^{iθ} dmu, as variables, under an interaction of phases."""
    if not isinstance(dynamics, CircleInteraction):
        return {}
    return dict(zip(("order_parameter", "mean_phase"), order_parameter(measure), strict=True))


M = TypeVar("M", bound=AnyMeasure)


class Run(Generic[M]):
    """Measure, time, step size and counters of a run, and the records of its saves.

    A plain run, of particles, only steps; what else a measure needs is in `accepts` (before a
    step counts) and `adapt` (after it).
    """

    def __init__(
        self,
        measure: M,
        dynamics: Dynamics,
        options: Options,
        records: Records | None = None,
    ) -> None:
        self.dynamics, self.options = dynamics, options
        self.acting = dynamics.layers[0]
        self.t, self.step_size = 0.0, 0.0
        self.steps = self.evaluations = 0
        self._pace = Pace()
        self.tendency: Tendency
        self.state: Array
        self.initial: M | None = None
        self._adopt(self._tendency(measure), work=0.0)
        self.initial = measure
        self.records = records or Records(dynamics, options.monitors, self._log_unit())

    def _log_unit(self) -> float | None:
        """Of the energies, where it is not β."""
        return None

    def start(self) -> None:
        """Save the initial measure.

        Raises
        ------
        Stop
            If the run can't even begin; the measure is saved all the same.
        """
        self.save()

    def _tendency(self, measure: M) -> Tendency:
        return tendency(measure, self.acting)

    def _adopt(self, rate: Tendency, work: float) -> None:
        self.tendency = rate
        self.state = np.append(rate.initial_state, work)
        self._time_unit = self._unit_of_time()

    def measure(self) -> M:
        """The measure at the present time; at t = 0 the very one that was given."""
        if self.t == 0.0 and self.initial is not None:
            return self.initial
        return cast(M, self.tendency.measure(self.state[:-1]))

    @property
    def _has_balance(self) -> bool:
        """Whether the state integrates an energy's gain."""
        return self.dynamics.energy is not None

    def _unit_of_time(self) -> float:
        """See `time_unit`."""
        return time_unit(self.tendency.dynamics)

    def _rate(self, t: float, state: Array, out: Array | None = None) -> Array:  # noqa: ARG002
        # the field has no clock
        rate = np.empty_like(state) if out is None else out
        try:
            self._evaluate(state[:-1], rate[:-1])
        except LostDigitsError:
            raise
        except ArithmeticError as error:
            raise Stop(Ending.FAILED, self._failed(str(error))) from error
        rate[-1] = self.tendency.scaled_dissipation() if self._has_balance else 0.0
        if self._time_unit != 1.0:
            rate *= self._time_unit
        self.evaluations += 1
        return rate

    def _evaluate(self, state: Array, out: Array) -> None:
        self.tendency(state, out)

    def _tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        atol = np.full_like(self.state, self.options.atol)
        atol[:-1] *= self.tendency.scale(self.state[:-1])
        return self.options.rtol, atol

    def _solver(self, t_bound: float) -> Any:
        """The solver from the present time on, whose clock counts units of time."""
        unit = self._time_unit
        start, end = self.t / unit, t_bound / unit
        rtol, atol = self._tolerances()
        return self._checked(
            ExplicitSteps(
                self._rate,
                start,
                self.state,
                end,
                first_step=min(self.step_size / unit, end - start) or None,
                rtol=rtol,
                atol=atol,
            )
        )

    def _checked(self, solver: Any) -> Any:
        # from a field that is not finite the solver would try steps for ever
        if not (np.isfinite(solver.f).all() and np.isfinite(solver.h_abs)):
            raise Stop(Ending.FAILED, self._failed("the field is not finite"))
        return solver

    def accepts(self, state: Array) -> bool:  # noqa: ARG002
        """Whether a step may count; if not, the run is changed so that it can be taken again."""
        return True

    def adapt(self, solver: Any) -> bool:  # noqa: ARG002
        """Change what the state stands for after a step; whether that was done."""
        return False

    def advance(self, t_bound: float, report: Callable[[Any], None]) -> None:
        """Step from the present time to `t_bound`, layer after layer where there are layers.

        Raises
        ------
        Stop
            If the run can't go on; the state is the last good one.
        """
        for layer, until in self.dynamics.between(self.t, t_bound):
            if layer is not self.acting:
                measure, self.acting = self.measure(), layer
                self._adopt(self._tendency(measure), work=0.0)
            self._flow(until, report)

    def _flow(self, t_bound: float, report: Callable[[Any], None]) -> None:
        if t_bound <= self.t:
            return
        self._pace = Pace()
        solver = self._solver(t_bound)
        while solver.status == "running":
            planned = solver.h_abs * self._time_unit
            reason = solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                raise Stop(Ending.FAILED, self._failed(reason))
            if not self.accepts(solver.y):
                self.step_size = solver.step_size * self._time_unit
                solver = self._solver(t_bound)
                continue
            at_end = solver.status == "finished"
            self.step_size = solver.h_abs * self._time_unit
            if at_end:
                # a step that was cut short says nothing about the next
                self.step_size = max(self.step_size, planned)
            self.t = t_bound if at_end else float(solver.t) * self._time_unit
            self.state, self.steps = solver.y, self.steps + 1
            if self.adapt(solver) and solver.status == "running":
                solver = self._solver(t_bound)
            self._check_pace(self._pace.left(self.t, t_bound))
            report(self)

    def _check_pace(self, left: float) -> None:
        """Stop where the next save is more steps away than anybody waits for."""
        if left <= MOST_STEPS:
            return
        message = too_far(self.t, self.step_size, left, self.tendency.dynamics)
        raise Stop(Ending.FAILED, message)

    def _failed(self, reason: str | None) -> str:
        return failed(self.t, self.step_size, reason)

    def finished(self) -> tuple[Ending, str]:
        """How a run that came to its end ended, and the sentence that says so."""
        return Ending.FINISHED, finished(self.t, self.steps)

    def restart(self) -> None:
        """Forget what the state has beyond the measure that was just saved, and go on from that.

        So a run that is resumed from its file takes the same steps, bit for bit.
        """

    def history(self) -> MomentHistory | None:
        """The moments of the run so far, where it keeps them."""
        return None

    def snapshot(self) -> Resumption:
        """What the next step depends on, beside the measure of the last save."""
        layers = enumerate(self.dynamics.layers)
        return Resumption(
            {
                "layer": next(i for i, layer in layers if layer is self.acting),
                "t": self.t,
                "step_size": self.step_size,
                "steps": self.steps,
                "evaluations": self.evaluations,
                "work": float(self.state[-1]),
            }
        )

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        numbers = resumption.numbers
        self.acting = self.dynamics.layers[int(numbers["layer"])]
        self.t, self.step_size = float(numbers["t"]), float(numbers["step_size"])
        self.steps, self.evaluations = int(numbers["steps"]), int(numbers["evaluations"])
        self._adopt(self._tendency(cast(M, saved.final)), work=float(numbers["work"]))

    def save(self) -> None:
        """Keep the measure and its numbers at the present time.

        Raises
        ------
        Stop
            If one of the numbers is not finite; it is kept all the same.
        """
        measure = self.measure()
        row = {"t": self.t, **self._balance(measure), "mass": measure.mass()}
        self.records.save(measure, row | self._energies() | self._numbers(measure))

    def _balance(self, measure: M) -> dict[str, float]:
        """The order of phases; what an energy gains and has gained, where X is its gradient."""
        dynamics, work = self.dynamics, float(self.state[-1])
        numbers = order_numbers(measure, dynamics)
        if self._has_balance:
            log_unit = self.records.log_unit
            numbers |= balance_of(
                measure, dynamics, lambda: self._dissipation(measure), work, log_unit
            )
        return numbers

    def _dissipation(self, measure: M) -> float:
        """The rate at which the energy of a measure that is saved changes."""
        return dissipation_of(measure, self.dynamics)

    def _energies(self) -> dict[str, float]:
        energies = {"energy": self.scaled_energy()}
        if self.dynamics.balanced:
            energies["sinkhorn_energy"] = self.balanced_energy()
        return energies

    def scaled_energy(self) -> float:
        """E_β at the present time in the unit of the records, e^β or Λ_0."""
        return energy_in_unit(self.measure(), self.dynamics.beta)[0]

    def balanced_energy(self) -> float:
        """What `work` is to balance: E_DS of doubly stochastic attention, F of phases, else E_β."""
        own = own_energy(self.measure(), self.dynamics)
        return self.scaled_energy() if own is None else own

    def _metric_speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} of a density or flow map, on the nodes that the run has."""
        rate = cast(DensityTendency | AttentionTendency | FlowTendency, self.tendency)
        rate(self.state[:-1], np.empty_like(self.state[:-1]))
        return rate.speed()

    def _numbers(self, measure: M) -> dict[str, float]:  # noqa: ARG002
        """What this kind of measure has besides."""
        return {"steps": self.steps, "evaluations": self.evaluations}
