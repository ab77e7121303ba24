"""The state of one run: steps of time, and what is done between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.dynamics import USA, CircleInteraction, MeanField
from meanfield.functionals import interaction_energy, order_parameter
from meanfield.functionals.energies import dissipation_in_unit, energy_in_unit
from meanfield.integrate.pace import MOST_STEPS, Pace
from meanfield.integrate.records import Monitors, Records, Stop
from meanfield.measures import AnyMeasure
from meanfield.solution import Ending
from meanfield.tendency import DensityTendency, FlowTendency, Tendency, tendency

Array = NDArray[np.float64]

# the β up to which e^β over a tolerance of 1e-12 can still be squared, by far
_LARGEST_RATE = 200.0


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


class Run:
    """Measure, time, step size and counters of a run, and the records of its saves.

    A plain run, of particles, only steps; what else a measure needs is in `accepts` (before a
    step counts) and `adapt` (after it).
    """

    def __init__(
        self,
        measure: AnyMeasure,
        dynamics: MeanField,
        options: Options,
        records: Records | None = None,
    ) -> None:
        self.dynamics, self.options = dynamics, options
        self.records = records or Records(dynamics, options.monitors, self._log_unit(measure))
        self.t, self.step_size = 0.0, 0.0
        self.steps = self.evaluations = 0
        self._pace = Pace()
        self.tendency: Tendency
        self.state: Array
        self.initial: AnyMeasure | None = None
        self._adopt(self._tendency(measure), work=0.0)
        self.initial = measure

    def _log_unit(self, measure: AnyMeasure) -> float | None:  # noqa: ARG002
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

    def _tendency(self, measure: AnyMeasure) -> Tendency:
        return tendency(measure, self.dynamics)

    def _adopt(self, rate: Tendency, work: float) -> None:
        self.tendency = rate
        self.state = np.append(rate.initial_state, work)

    def measure(self) -> AnyMeasure:
        """The measure at the present time; at t = 0 the very one that was given."""
        if self.t == 0.0 and self.initial is not None:
            return self.initial
        return self.tendency.measure(self.state[:-1])

    @property
    def _time_unit(self) -> float:
        """1, or e^{-β} for USA at large β, whose rates e^β the solver could not square."""
        dynamics = self.tendency.dynamics
        is_fast = isinstance(dynamics, USA) and dynamics.beta > _LARGEST_RATE
        return float(np.exp(-dynamics.beta)) if is_fast else 1.0

    def _rate(self, t: float, state: Array) -> Array:  # noqa: ARG002 (the field has no clock)
        rate = np.empty_like(state)
        self.tendency(state[:-1], rate[:-1])
        rate[-1] = self.tendency.scaled_dissipation()
        rate *= self._time_unit
        self.evaluations += 1
        return rate

    def _tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        atol = np.full_like(self.state, self.options.atol)
        atol[:-1] *= self.tendency.scale(self.state[:-1])
        return self.options.rtol, atol

    def _solver(self, t_bound: float) -> Any:
        """The solver from the present time on, whose clock counts units of time."""
        unit = self._time_unit
        rtol, atol = self._tolerances()
        return self._checked(
            DOP853(
                self._rate,
                self.t / unit,
                self.state,
                t_bound / unit,
                first_step=min(self.step_size, t_bound - self.t) / unit or None,
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

    def advance(self, t_bound: float, report: Callable[[Run], None]) -> None:
        """Step from the present time to `t_bound`.

        Raises
        ------
        Stop
            If the run can't go on; the state is the last good one.
        """
        if t_bound <= self.t:
            return
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
            # the last step before a save is cut short, which says nothing about the next
            self.step_size = max(solver.h_abs * self._time_unit, planned)
            at_end = solver.status == "finished"
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
        beta = self.tendency.dynamics.beta
        is_usa = isinstance(self.tendency.dynamics, USA)
        of_usa = f"; USA runs in times of order exp(-beta) = {np.exp(-beta):.1e}" if is_usa else ""
        raise Stop(
            Ending.FAILED,
            f"failed at t = {self.t:.6g}: at step sizes of {self.step_size:.1e}, which do not grow "
            f"any more, the next save is {left:.1e} steps away{of_usa}; try a smaller t_end, or "
            f"more saves to go on all the same",
        )

    def _failed(self, reason: str | None) -> str:
        what = reason or "the state is no longer finite"
        return (
            f"failed at t = {self.t:.6g} (step size {self.step_size:.1e}): {what.rstrip('.')}; "
            f"try larger tolerances rtol and atol"
        )

    def finished(self) -> tuple[Ending, str]:
        """How a run that came to its end ended, and the sentence that says so."""
        return Ending.FINISHED, f"finished at t = {self.t:g} after {self.steps} steps"

    def save(self) -> None:
        """Keep the measure and its numbers at the present time.

        Raises
        ------
        Stop
            If one of the numbers is not finite; it is kept all the same.
        """
        measure = self.measure()
        row = {
            "t": self.t,
            "energy": self.scaled_energy(),
            **self._balance(measure),
            "mass": measure.mass(),
        }
        self.records.save(measure, row | self._numbers(measure))

    def _balance(self, measure: AnyMeasure) -> dict[str, float]:
        """What the energy gains, and what it has gained; of an interaction its own, if it has one.

        Phases on the circle have an order parameter.
        """
        dynamics, work = self.dynamics, self.dynamics.sign * float(self.state[-1])
        if not isinstance(dynamics, CircleInteraction):
            return {"dissipation": dissipation_in_unit(measure, dynamics)[0], "work": work}
        numbers = order_numbers(measure)
        if dynamics.is_odd:
            self.tendency(self.state[:-1], np.empty_like(self.state[:-1]))
            numbers["interaction_energy"] = interaction_energy(measure, dynamics)
            numbers["interaction_dissipation"] = self.tendency.scaled_dissipation()
            numbers["interaction_work"] = work
        return numbers

    def scaled_energy(self) -> float:
        """E_β at the present time in the unit of the records, e^β or Λ_0."""
        return energy_in_unit(self.measure(), self.dynamics.beta)[0]

    def _metric_speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} of a density or flow map, on the nodes that the run has."""
        rate = cast(DensityTendency | FlowTendency, self.tendency)
        rate(self.state[:-1], np.empty_like(self.state[:-1]))
        return rate.speed()

    def _numbers(self, measure: AnyMeasure) -> dict[str, float]:  # noqa: ARG002
        """What this kind of measure has besides."""
        return {"steps": self.steps, "evaluations": self.evaluations}


def order_numbers(measure: AnyMeasure) -> dict[str, float]:
    """r and ψ of r e^{iψ} = ∫ e^{iθ} dmu, as variables."""
    return dict(zip(("order_parameter", "mean_phase"), order_parameter(measure), strict=True))
