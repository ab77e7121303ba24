"""What moves in a run: a measure with its state, its rate, and what is done between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from meanfield.dynamics.facts import Dynamics, Energy
from meanfield.dynamics.own import OutputError
from meanfield.equations.history import History
from meanfield.equations.rates import NOT_FINITE
from meanfield.equations.tendency import tendency
from meanfield.evolution.settings import Settings
from meanfield.evolution.steppers import ExplicitSteps, Stepper
from meanfield.exceptions import Status
from meanfield.functionals.energies import (
    LostEnergyError,
    energy_drifts,
    energy_in_unit,
    order_parameter,
)
from meanfield.functionals.speed import has_metric_speed
from meanfield.measures import AnyMeasure
from meanfield.typing import Array

# so many steps take an hour or more
MOST_STEPS = 1e7
# up to this β, e^β over a tolerance of 1e-12 can be squared with room to spare
_LARGEST_RATE = 200.0


def unit_of_time(dynamics: Dynamics) -> float:
    """1, or e^{-β} for USA at large β, whose rates e^β the solver could not square.

    Noise has a time of its own.
    """
    log_unit = dynamics.log_unit
    is_fast = log_unit > _LARGEST_RATE and dynamics.noise == 0.0
    return float(np.exp(-log_unit)) if is_fast else 1.0


M = TypeVar("M", bound=AnyMeasure)
Kept = Mapping[str, Callable[[Any], object]]
# the numbers of a save: a float each, of terms of an energy an array
Row = dict[str, Any]


class Stop(Exception):
    """The run can't continue; the text says what happened, when, and what to try."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status: Status = status


class Verdict(Enum):
    """The verdict of a system on a step."""

    GO_ON = auto()
    # the step does not count: it is repeated from another state of the same measure
    REDO = auto()
    # the step counts, but the state now represents the measure in another way
    RESTART = auto()


class System(Generic[M]):
    """A measure that moves: its state as one vector, its rate, and the numbers of a save.

    The state is what the equation moves, then the time integral of what an energy gains. A
    subclass for each kind of measure says what else is done between two steps.

    Parameters
    ----------
    measure : Density, FlowMap or Particles; OscillatorDensity or Oscillators
    dynamics : Dynamics
    settings : Settings

    Attributes
    ----------
    layer : int
        The number of the layer that acts.
    equation : Tendency
        The right-hand side.
    state : ndarray
    t, step_size : float
    unit : float
        The unit of time that steps count in, which differs from 1 where rates are too large.
    steps, evaluations : int
    log_unit : float
        The row of a save has energies and works in units of e^{log_unit}.
    log_units : list of float
        Those of each energy, in whose units the state has what it gained.
    collapses : list of (float, int, float)
        When nodes became atoms, how many atoms there were then, and what the energy gained by it.
    kept : dict of str to callable
        Class attribute: names of what a restart needs beside the measure, and how each is made of
        what a file has.
    faults : tuple of type
        Class attribute: errors of the right-hand side that end the run.
    integrator : callable
        What makes a `Stepper` of a rate, a time, a state and the time to go to.
    remedy : str
        Class attribute: what may help where no step succeeds.
    """

    faults: ClassVar[tuple[type[Exception], ...]] = (ArithmeticError,)
    integrator: Callable[..., Stepper] = ExplicitSteps
    remedy: ClassVar[str] = "larger tolerances rtol and atol"
    kept: ClassVar[Kept] = {
        "layer": int,
        "t": float,
        "step_size": float,
        "steps": int,
        "evaluations": int,
        "works": lambda values: np.array(values, dtype=np.float64, ndmin=1),
    }

    def __init__(self, measure: M, dynamics: Dynamics, settings: Settings) -> None:
        self.dynamics, self.settings = dynamics, settings
        self.t, self.step_size = settings.t_start, 0.0
        # this call refuses a time beyond the last layer
        dynamics.at(self.t)
        self.layer = dynamics.layer_number(self.t)
        self.steps = self.evaluations = 0
        self.collapses: list[tuple[float, int, float]] = []
        # flow maps keep their past in the history; other measures leave it empty
        self._history = History(settings.t_start)
        self.log_units = [energy.log_unit for _, energy in self._energies] or [0.0]
        self.log_unit = max(self.log_units)
        self.state: Array
        # the time that the steps go to
        self._until = 0.0
        # the rate at the present state, if `evaluate` has asked for it
        self._known: Array | None = None
        # the measure that the state came from; None after the next step
        self._base: M | None = None
        self.adopt(self._equation(measure), works=0.0)
        self._base = measure

    def _equation(self, measure: M) -> Any:
        return tendency(measure, self.acting, self.t)

    def adopt(self, equation: Any, works: Array | float) -> None:
        """Go on with another right-hand side, from its own first state."""
        self.equation, self._size = equation, len(equation.initial_state)
        works = np.full(max(1, len(self._energies)), works)
        self.state = np.append(equation.initial_state, works)
        self.unit = unit_of_time(self.acting)
        self._integrates = self.has_balance
        self._known = self._base = None

    @property
    def acting(self) -> Dynamics:
        """The layer that acts; the dynamics itself where there are no layers."""
        return self.dynamics.all_layers[self.layer]

    @property
    def works(self) -> Array:
        """The gain of each energy since the start, in its unit; ± that of a single one.

        Parts of a sum have their factors in it.
        """
        return self.state[self._size :]

    @works.setter
    def works(self, values: Array) -> None:
        self.state[self._size :] = values

    def act(self, layer: int) -> None:
        """Let the layer of a number act from now on; equal layers are one, and it acts on."""
        if layer == self.layer or self.dynamics.all_layers[layer] is self.acting:
            self.layer = layer
            return
        self._base = None
        measure = self.measure()
        self.layer = layer
        self.adopt(self._equation(measure), works=self.works)

    @property
    def attributes(self) -> Mapping[str, str | float]:
        """Attributes of the dataset of a run that this kind of system adds."""
        return {}

    def extend(self) -> bool:
        """Let a space grow as far as it may; whether that is further than before."""
        return False

    def outlook(self) -> str:
        """A warning where even a first right-hand side takes long; "" elsewhere."""
        return ""

    def begin(self) -> None:
        """Do what is to be done before the first save.

        Raises
        ------
        Stop
            If the run can't even begin.
        """

    def measure(self) -> M:
        """The measure at the present time, that which was saved or given if there was no step."""
        if self._base is not None:
            return self._base
        return self.measure_of(self.state, self.t)

    def measure_of(self, state: Array, t: float) -> M:  # noqa: ARG002 (of meshes on S^2)
        """The measure of a state at a time."""
        measure: M = self.equation.measure(state[: self._size])
        return measure

    def rebase(self, measure: M) -> None:
        """Continue from a measure as it is saved, and from nothing else.

        This is done at every save and in every restart. So a resumed run takes the same steps,
        bit for bit.
        """
        if measure is not self._base:
            self.adopt(self._equation(measure), works=self.works)
            self._base = measure

    def restore(self, measure: M, history: History | None, numbers: Mapping[str, Any]) -> None:
        """Go on where a system was when it saved this measure.

        Raises
        ------
        ValueError
            If what a file has is no number.
        """
        for name, read in self.kept.items():
            setattr(self, name, read(numbers[name]))
        if history is not None:
            self._history = history.until(int(numbers["remembered"]))
        self.adopt(self._equation(measure), works=self.works)
        self._base = measure
        self.rebase(measure)

    def history(self) -> History | None:
        """The moments of the run so far, where it keeps them."""
        return self._history if len(self._history) else None

    @property
    def energy(self) -> Energy | None:
        """The energy that is recorded: the one asked for, or the dynamics' own, if it has one."""
        return self.dynamics.energy_functional

    @property
    def has_balance(self) -> bool:
        """Whether the state integrates an energy's gain."""
        return self.energy is not None

    def rate(self, t: float, state: Array, out: Array | None = None) -> Array:
        """d/dt of a state at a time, both in multiples of the unit of time.

        Raises
        ------
        Stop
            If there is none.
        """
        rate = np.empty_like(state) if out is None else out
        if self._known is not None and state is self.state:
            rate[:], self._known = self._known, None
            self.evaluations += 1
            return rate
        # a product with the unit of time may miss the present time by its last bit
        now = self.t if state is self.state else t * self.unit
        try:
            self.equation.at(now)(state[: self._size], rate[: self._size])
            rate[self._size :] = self.gains(now, state) if self._integrates else 0.0
        except self.faults as error:
            raise self.fault(error) from error
        if self.unit != 1.0:
            rate *= self.unit
        self.evaluations += 1
        return rate

    def gains(self, t: float, state: Array) -> Array | float:
        """The gain of each energy per time; the loss of a single one whose sign is -1.

        It is told at the state that the equation was last asked for, which is this one.
        """
        gains = self._dissipated(t)
        if not self.dynamics.varies:
            return gains
        measure = self.measure_of(state, t)
        return gains + self._sign * energy_drifts(measure, self.dynamics, t, self.log_units)

    def _dissipated(self, t: float) -> Array | float:
        """Return the rate of the energies that X alone causes."""
        rates: Array | float = self.equation.at(t).energy_rates()
        if self.dynamics.varies:
            # the equation of a time gives rates in the units of that time
            rates = np.atleast_1d(rates) * np.exp(self.log_units_at(t) - np.array(self.log_units))
        return self._sign * self._factors(t) * rates

    def _factors(self, t: float) -> Array | float:
        """Return the factors with which the parts' energies add up to that of the run at t."""
        energy = self._energy_at(t)
        parts = energy.parts if energy else ()
        return np.array([factor for factor, _ in parts]) if parts else 1.0

    def log_units_at(self, t: float) -> Array:
        """Log units of the energies that the equation of a time has gains of."""
        return np.array([energy.log_unit for _, energy in self._energies_at(t)])

    def _energy_at(self, t: float) -> Energy | None:
        """Return the recorded energy with the weights of a time."""
        return self.dynamics.at(t).energy_functional if self.dynamics.varies else self.energy

    def _energies_at(self, t: float) -> Sequence[tuple[float, Energy]]:
        """The energies that are kept, with their factors at a time."""
        energy = self._energy_at(t)
        return energy.each if energy else ()

    @property
    def _energies(self) -> Sequence[tuple[float, Energy]]:
        """Return the energies that are kept, each with its factor in the run's own."""
        return self.energy.each if self.energy else ()

    @property
    def _sign(self) -> int:
        """Return -1 for a single energy that falls, else 1."""
        return -1 if self.energy and not self.energy.parts and self.energy.sign < 0 else 1

    def evaluate(self) -> None:
        """Ask for the rate at the present state, which the next step begins with."""
        if self._known is None:
            self._known = self.rate(self.t / self.unit, self.state)
            # this evaluation counts as one when the step begins with it
            self.evaluations -= 1

    def fault(self, error: Exception) -> Stop:
        """The message of a run that ends because there is no rate: its error says what to do."""
        return self.failed(str(error))

    def failed(self, why: str) -> Stop:
        """The message of a run that ends because there is no next step."""
        reason = f"failed at t = {self.t:.6g} (step size {self.step_size:.1e})"
        return Stop("failed", f"{reason}: {why.rstrip('.')}")

    def out_of_room(self, what: str, limits: str, remedy: str = "") -> Stop:
        """The message of a run that ends because its space, mesh or tolerance may not grow."""
        return Stop(
            "under-resolved",
            f"under-resolved at t = {self.t:.6g}: {what}; try {remedy}a larger {limits} "
            f"or a smaller `t_end`",
        )

    def too_far(self, left: float) -> Stop:
        """The message of a run whose next save is more steps away than anybody waits for."""
        acting, of_usa = self.acting, ""
        if acting.log_unit > 0.0:
            rate = np.exp(-acting.log_unit)
            of_usa = f"; USA runs in times of order exp(-beta) = {rate:.1e}"
        return Stop(
            "failed",
            f"failed at t = {self.t:.6g}: at step sizes of {self.step_size:.1e}, which do not grow "
            f"any more, the next save is {left:.1e} steps away{of_usa}; try a smaller t_end, or "
            f"more saves to continue all the same",
        )

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        atol = self.settings.atol
        allowed = self.equation.allowed_errors(self.state[: self._size], atol)
        return self.settings.rtol, np.append(allowed, np.full(len(self.works), atol))

    def stepper(self, until: float) -> Stepper:
        """The steps from the present time on, whose times are multiples of the unit of time.

        Raises
        ------
        Stop
            If the field is not finite: there would be steps to try for ever.
        """
        self._until = until
        stepper = self._stepper(self.t / self.unit, until / self.unit)
        if not (np.isfinite(stepper.f).all() and np.isfinite(stepper.h_abs)):
            raise self.failed(NOT_FINITE)
        return stepper

    def _stepper(self, start: float, end: float) -> Stepper:
        rtol, atol = self.tolerances()
        first_step = min(self.step_size / self.unit, end - start) or None
        return self.integrator(
            self.rate, start, self.state, end, first_step=first_step, rtol=rtol, atol=atol
        )

    def after(self, stepper: Stepper) -> Verdict:
        """Look at a step, count it, and change what the state stands for where that is due.

        Raises
        ------
        Stop
            If the run can't continue.
        """
        self.count(stepper)
        return Verdict.GO_ON

    def count(self, stepper: Stepper) -> None:
        """Be where a step has come to."""
        at_end = stepper.status == "finished"
        self.t = self._until if at_end else float(stepper.t) * self.unit
        self.step_size = stepper.h_abs * self.unit
        self.state, self.steps = stepper.y, self.steps + 1
        self._base = self._known = None

    def finished(self) -> tuple[Status, str]:
        """The status of a run that came to its end, and the sentence that says so."""
        return "finished", f"finished at t = {self.t:g} after {self.steps} steps"

    def row(self, measure: M) -> Row:
        """The numbers of a save, energies and works in units of e^{log_unit}.

        All but a speed are those of the measure by itself, from the rate that the next step begins
        with. A speed is by the scaling that the last step left.
        """
        speeds = self.speeds(measure) if self.acting.is_balanced else {}
        self.rebase(measure)
        row = {"t": self.t, **self._balance(measure), "mass": measure.mass()}
        if self.dynamics.multipliers is not None or measure.natural_frequencies is not None:
            row["order_parameter"], row["mean_phase"] = order_parameter(measure)
        return row | (speeds or self.speeds(measure)) | self.numbers(measure)

    def least_row(self, measure: M) -> dict[str, float]:
        """The numbers of a save that take no time."""
        return {"t": self.t, "mass": measure.mass(), **self._counts()}

    def _counts(self) -> dict[str, float]:
        return {"steps": self.steps, "evaluations": self.evaluations}

    def _balance(self, measure: M) -> Row:
        """Return the energy, its rate under X, and the work that the state has summed, if any."""
        if self.energy is None:
            return {}
        values = self._scaled_energies()
        numbers: Row = {"energy": self._sum_of(values)}
        if self.dynamics.varies and (now := self._energy_at(self.t)):
            sign = float(np.copysign(1.0, now.dirac))
            numbers["energy_share"] = sign * now.relative(numbers["energy"], self.log_unit)
        if self.has_dissipation and (rate := self.dissipation(measure)) is not None:
            numbers["dissipation"] = rate
        if self.has_balance:
            numbers["work"] = self._total(self.works)
            if self.energy.parts:
                numbers |= {
                    "term_energy": np.array(values),
                    "term_dissipation": self.energy.sign * np.asarray(self._dissipated(self.t)),
                    "term_work": self.works,
                }
        return numbers

    @property
    def has_dissipation(self) -> bool:
        """Whether a save records what X does to the energy."""
        return self.has_balance

    def dissipation(self, measure: M) -> float | None:  # noqa: ARG002
        """The rate at which the energy of a measure that is saved changes; None if it has none."""
        self.evaluate()
        return self.energy.sign * self._total(np.atleast_1d(self._dissipated(self.t)))  # type: ignore[union-attr]

    def _total(self, values: Array) -> float:
        """The gain of the energy in its unit, from the gain or loss of each part in its own."""
        return self._sign * self._sum_of(values)

    def scaled_energy(self) -> float:
        """The energy at the present time in units of e^{log_unit}; nan where there is none.

        Raises
        ------
        Stop
            If the density is not resolved enough to have one.
        """
        return self._sum_of(self._scaled_energies()) if self.energy else float("nan")

    def _sum_of(self, values: Sequence[float] | Array) -> float:
        """Return the energy in its unit, from its parts in their units."""
        return float(np.dot(values, np.exp(np.array(self.log_units) - max(self.log_units))))

    def _scaled_energies(self) -> list[float]:
        """Return the energies that are kept, with their factors, each in its own unit."""
        measure, values = self.measure(), []
        energies = self._energies_at(self.t)
        for log_unit, (factor, energy) in zip(self.log_units, energies, strict=True):
            try:
                value, its_log_unit = energy_in_unit(measure, energy)
            except (LostEnergyError, OutputError) as error:
                # the right-hand side knows the reason: it raises an error with a better message
                self.evaluate()
                raise self.fault(error) from error
            values.append(factor * value * float(np.exp(its_log_unit - log_unit)))
        return values

    def speeds(self, measure: M) -> dict[str, float]:
        """(∫ |X|² dmu)^{1/2}, and the speed in W_2 where X tells it."""
        self.evaluate()
        speeds = {"rms_velocity": float(self.equation.at(self.t).speed())}
        if has_metric_speed(measure, self.acting):
            speeds["metric_speed"] = self._metric_speed()
        return speeds

    def _metric_speed(self) -> float:
        """Return the speed in W_2 of the motion by X alone."""
        return float(self.equation.at(self.t).speed())

    def numbers(self, measure: M) -> dict[str, float]:  # noqa: ARG002
        """The numbers that this kind of measure has besides."""
        return self._counts()


AnySystem = System[Any]
