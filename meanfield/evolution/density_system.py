"""Densities: the space is doubled where the spectrum outgrows it; noise decays exactly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, cast

import numpy as np

from meanfield._checks import tell_apart
from meanfield.dynamics.facts import Dynamics, Energy
from meanfield.equations.density import LostDigitsError, unseen_share
from meanfield.evolution.settings import FLOW_MAP, Settings, choose_on_unresolved
from meanfield.evolution.steppers import ExponentialSteps, Stepper
from meanfield.evolution.system import Kept, Stop, System, Verdict
from meanfield.functionals.speed import root_mean_square
from meanfield.kernels.multipliers import eigenvalues_in_unit
from meanfield.measures.density import FIT_TOLERANCE, Density
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.spaces.sphere import Sphere
from meanfield.typing import Array

_log = logging.getLogger(__name__)


class DensitySystem(System[Density]):
    """A density whose space is doubled where the spectrum outgrows it.

    Attributes
    ----------
    tail_tol, max_size : float, int
        The density's own; without one, the largest space of its kind.
    limit : int
        The largest size for now: from t = 0 on that at which a flow map is to take over.
    """

    kept: ClassVar[Kept] = {**System.kept, "limit": int}
    # sums of positive terms, which replace a small G, may need a finer grid than exists
    faults = (ArithmeticError, ValueError)

    def __init__(self, density: Density, dynamics: Dynamics, settings: Settings) -> None:
        super().__init__(density, dynamics, settings)
        self.tail_tol = density.tail_tol
        self.max_size = density.max_size or max(density.space.size, density.space.size_limit)
        self.limit = self.max_size
        self.log_units = [self._series_log_unit(log_unit) for log_unit in self.log_units]
        self.log_unit = max(self.log_units)

    def begin(self) -> None:
        """Resolve the initial density.

        Raises
        ------
        Stop
            If the largest space does not resolve it.
        """
        density = self.measure()
        while (missed_share := self._missed()) > self.tail_tol:
            self._refine(missed_share)
        self._see_all()
        grows = density.max_size is None and not isinstance(density.space, Sphere)
        if grows and self.settings.on_unresolved == FLOW_MAP:
            # after three doublings nodes cost less than a fourth; on S^2 they cost more
            last_size = min(self.max_size, 8 * density.space.size + 7)
            self.limit = max(last_size, self.measure().space.size)

    def extend(self) -> bool:
        """Let the space grow to the largest size; whether that is more than was allowed."""
        allowed, self.limit = self.limit, self.max_size
        return allowed != self.max_size

    def _series_log_unit(self, log_unit: float) -> float:
        """Return the log unit of the series of an energy whose own log unit is this β, or 0."""
        return float(eigenvalues_in_unit(log_unit, self.equation.space.dim, 0)[1])

    def log_units_at(self, t: float) -> Array:
        return np.array([self._series_log_unit(log_unit) for log_unit in super().log_units_at(t)])

    def _missed(self) -> float:
        """Return the tail of the initial density, or its misfit if that is more than rounding."""
        misfit = self.measure().misfit
        return max(self._tail(self.state), misfit if misfit > FIT_TOLERANCE else 0.0)

    def _tail(self, state: Array) -> float:
        return float(self.equation.tail(state[: self._size]))

    def rebase(self, measure: Density) -> None:
        """Go on from a density as it is saved, without the last scaling of attention.

        The state has its coefficients already, and another right-hand side costs more than a step.
        """
        self._base = measure
        if self.acting.is_balanced:
            self.equation.forget()
            self._known = None

    def fault(self, error: Exception) -> Stop:
        """The message of a run that ends because there is no rate."""
        if not isinstance(error, LostDigitsError):
            return super().fault(error)
        message = f"under-resolved at t = {self.t:.6g}: {error}{self._remedy(', or try {}')}"
        return Stop("under-resolved", message)

    def after(self, stepper: Stepper) -> Verdict:
        """Take a step back that the space does not resolve."""
        if (tail := self._tail(stepper.y)) > self.tail_tol:
            self._refine(tail)
            self._see_all()
            return Verdict.REDO
        return super().after(stepper)

    def _see_all(self) -> None:
        """Refine the space until its grid resolves the velocity, which may be narrower than f.

        The first grid may see nothing of it, and the second no more: so both must agree.
        """
        while (unseen := self._unseen()) > self.tail_tol:
            self._refine(unseen, "share of the velocity that its grid misses")

    def _unseen(self) -> float:
        try:
            measure = self.measure()
            each = self.acting.instances_from(self.t)
            return max(unseen_share(measure, instance) for instance in each)
        except self.faults as error:
            raise self.fault(error) from error

    def _refine(self, tail: float, what: str = "") -> None:
        density = self.measure()
        try:
            size = density.space.double().size
        except ValueError as error:
            # double precision has no such space
            raise self._unresolved(density, tail, what) from error
        if size > self.limit:
            raise self._unresolved(density, tail, what)
        finer = density.resize(size)
        _log.info("t = %g: %r grows to %r, tail %.1e", self.t, density.space, finer.space, tail)
        self.adopt(self._equation(finer), works=self.works)
        if self.t == self.settings.t_start:
            self._base = finer

    def _unresolved(self, density: Density, tail: float, what: str) -> Stop:
        at_start = self.t == self.settings.t_start
        is_of_law = at_start and tail == density.misfit
        what = what or ("misfit of the law" if is_of_law else "spectral tail")
        reached, allowed = tell_apart(tail, self.tail_tol)
        reason = f"the {what} reached {reached} > {allowed} on {density.space}"
        limits, remedy = "`max_size` or `tail_tol` of the density", self._remedy("{}, ")
        return self.out_of_room(f"{reason}, the largest space allowed", limits, remedy)

    def _remedy(self, text: str) -> str:
        """Return the text if the user chose to stop and may choose otherwise; "" if not."""
        choice = self.settings.on_unresolved
        if choice == choose_on_unresolved(self.measure(), self.dynamics, None):
            return ""
        return text.format(f"`on_unresolved='{FLOW_MAP}'`")

    def speeds(self, measure: Density) -> dict[str, float]:
        return super().speeds(measure) if self._evaluate_if_resolved() else {}

    def dissipation(self, measure: Density) -> float | None:
        """The rate at which the energy changes; None at a start that the first step refuses."""
        return super().dissipation(measure) if self._evaluate_if_resolved() else None

    def _evaluate_if_resolved(self) -> bool:
        """Evaluate the right-hand side; return False at a start that the first step refuses."""
        try:
            self.evaluate()
        except Stop as stop:
            if stop.status != "under-resolved":
                raise
            return False
        return True

    def numbers(self, measure: Density) -> dict[str, float]:
        return {
            "min_density": float(measure.values.min()),
            "tail": measure.tail,
            "size": measure.space.size,
        } | super().numbers(measure)


class NoisyDensitySystem(DensitySystem):
    """∂_t f = -div(f X) + τ Δf: degree k decays at the rate τ k(k+d-2), which costs no steps.

    The noise's part of dE/dt, τ ∫ u Δf dσ with u = (1/β) ∫ e^{β<·,y>} dmu, is a sum over degrees.
    """

    kept: ClassVar[Kept] = {
        **DensitySystem.kept,
        **dict.fromkeys(("free_work", "losing", "noise_work", "heating"), float),
    }
    free_work = losing = noise_work = heating = 0.0

    def rebase(self, measure: Density) -> None:
        """Go on from a density as it is saved; at t = 0 Simpson's rule begins with its rates."""
        if self.t == self.settings.t_start:
            self.losing, self.heating = self._rates(self.t, self.state)
        super().rebase(measure)

    def adopt(self, equation: object, works: Array | float) -> None:
        """Go on with another right-hand side, whose space has other degrees."""
        super().adopt(equation, works)
        space, dynamics = self.equation.space, self.dynamics
        degrees, first_index = np.unique(space.degrees, return_index=True)
        laplacian = space.laplacian[first_index]
        entries = len(self.equation.initial_state) // len(space.degrees)
        # the last rate is that of the work, which does not decay
        decay = np.append(dynamics.noise * laplacian, 0.0)
        of_works = np.full(len(self.works), len(degrees))
        which = np.append(np.repeat(space.degrees, entries), of_works)
        self.integrator = partial(ExponentialSteps, decay=decay, which=which)
        self._lost = dynamics.noise * laplacian
        kernels = [energy.kernel for _, energy in self._energies]
        self._has_series = None not in kernels
        self._energies_lost = self._losses(self._energies)

    def _losses(self, energies: Sequence[tuple[float, Energy]]) -> list[Array]:
        """Return the losses by degree of energies with kernels; none if one has no kernel."""
        if not self._has_series:
            return []
        space = self.equation.space
        all_series = [e.kernel.series(space.dim, space.kmax) for _, e in energies]
        return [self._lost * s.unit * s.primitive.real for s in all_series]

    @property
    def _has_free_energy(self) -> bool:
        """Return whether X is the gradient in W_2 of the energy at all times; that of SA is not."""
        energy = self.energy
        is_own = energy is not None and energy.is_own and energy.in_w2
        return is_own and not self.dynamics.varies

    def gains(self, t: float, state: Array) -> Array | float:
        """The gain of each energy per time, by the dynamics and by the noise."""
        return super().gains(t, state) + self._sign * self._heats(t, state)

    def _heats(self, t: float, state: Array) -> Array:
        """Return the part of the noise in each dE/dt, with its factor.

        It is told at the state that the equation was last asked for.
        """
        varies = self.dynamics.varies
        if self._has_series:
            space = self.equation.space
            power = space.power(state[: self._size].view(space.coefficient_type))
            losses = self._losses(self._energies_at(t)) if varies else self._energies_lost
            heats = np.array([-float(loss @ power) for loss in losses])
        else:
            heats = self.equation.at(t).heating(state[: self._size])
        if varies:
            heats = heats * np.exp(self.log_units_at(t) - np.array(self.log_units))
        return heats * self._factors(t)

    def after(self, stepper: Stepper) -> Verdict:
        """Count what the noise and the free energy did, by Simpson's rule."""
        verdict = super().after(stepper)
        if verdict is Verdict.GO_ON and isinstance(stepper, ExponentialSteps):
            h = stepper.t - stepper.t_old
            halfway = self._rates(stepper.t - 0.5 * h, stepper.middle)
            rates = self._rates(stepper.t, stepper.y)
            self.free_work -= h * (self.losing + 4.0 * halfway[0] + rates[0]) / 6.0
            self.noise_work += h * (self.heating + 4.0 * halfway[1] + rates[1]) / 6.0
            self.losing, self.heating = rates
        return verdict

    def _rates(self, t: float, state: Array) -> tuple[float, float]:
        """Return the rates of the free energy and of the noise's part of dE/dt; 0 without noise."""
        losing = self._free_dissipation(t, state) if self._has_free_energy else 0.0
        if not self.has_balance:
            return losing, 0.0
        if not self._has_free_energy and not self._has_series:
            # `_heats` uses the last state that the equation was asked for, so it is asked for this
            # one
            self.equation.at(t)(state[: self._size], np.empty(self._size))
        return losing, self._total(self._sign * self._heats(t, state))

    def _free_dissipation(self, t: float, state: Array) -> float:
        """Return ∫ |X - τ ∇ log f|² dmu in the unit of energies."""
        unit = float(np.exp(-0.5 * self.log_unit))
        return (unit * float(self.equation.at(t).noisy_speed(state[: self._size]))) ** 2

    def _metric_speed(self) -> float:
        return float(self.equation.at(self.t).noisy_speed(self.state[: self._size]))

    def numbers(self, measure: Density) -> dict[str, float]:
        """The entropy, and the free energy of what is the gradient flow of it and an energy."""
        dynamics, numbers = self.dynamics, super().numbers(measure)
        numbers["entropy"] = measure.entropy()
        if self.has_balance:
            numbers["noise_work"] = self.noise_work
        if self._has_free_energy:
            unit = float(np.exp(-self.log_unit))
            heat = dynamics.noise * numbers["entropy"] * unit
            numbers["free_energy"] = heat - self.energy.sign * self.scaled_energy()  # type: ignore[union-attr]
            numbers["free_dissipation"] = self._free_dissipation(self.t, self.state)
            numbers["free_work"] = self.free_work
        return numbers


class OscillatorDensitySystem(DensitySystem):
    """∂_t f + ∂_θ (f (ω + X)) = τ ∂_θ² f for each ω, X of the mean over all ω.

    The frame of each ω turns with it from the last start of the steps on, so that rotation by
    itself costs no steps; they resolve how fast frames turn against each other, as tokens do.
    """

    has_balance = False

    def adopt(self, equation: object, works: Array | float) -> None:
        """Go on with another right-hand side, whose frames stand as they are."""
        super().adopt(equation, works)
        self._anchor = self.t

    def _turn(self, t: float) -> None:
        """Turn the rotating frames of the frequencies to where they are at t."""
        self.equation.elapsed = t - self._anchor

    def measure(self) -> Density:
        """The density at the present time."""
        self._turn(self.t)
        return super().measure()

    def rebase(self, measure: Density) -> None:  # noqa: ARG002
        """Go on from the coefficients as they are saved."""
        # files keep no laws of single frequencies, so from the first save on none is used
        self._base = None

    def rate(self, t: float, state: Array, out: Array | None = None) -> Array:
        """d/dt of a state at t, as of any density."""
        self._turn(t)
        return super().rate(t, state, out)

    def _stepper(self, start: float, end: float) -> Stepper:
        self._turn(self.t)
        self.state[: self._size] = self.equation.at_rest(self.state[: self._size])
        self._anchor = self.t
        return super()._stepper(start, end)

    def speeds(self, measure: Density) -> dict[str, float]:
        points, masses = measure.quadrature
        velocity = self.dynamics.velocity(measure, points)
        return {"rms_velocity": root_mean_square(velocity, masses)}

    def numbers(self, measure: Density) -> dict[str, float]:
        lowest = cast(OscillatorDensity, measure).lowest
        return super().numbers(measure) | {"min_density": lowest}
