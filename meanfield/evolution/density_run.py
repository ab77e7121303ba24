"""The run of a density: its space is doubled where the spectrum outgrows it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.interactions import CircleInteraction
from meanfield.dynamics.isotropic import SA, USA
from meanfield.equations.attention import AttentionTendency
from meanfield.equations.balanced import BalancedDensityTendency
from meanfield.equations.density import DensityTendency, LostDigitsError
from meanfield.equations.interaction import OscillatorDensityTendency
from meanfield.equations.tendency import Tendency
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.options import FLOW_MAP, Options, choose_on_unresolved
from meanfield.evolution.recorder import Records, Stop
from meanfield.evolution.run import Run, unresolved
from meanfield.evolution.solution import Ending, Solution
from meanfield.evolution.steppers import ExponentialSteps
from meanfield.functionals.energies import entropy
from meanfield.kernels.multipliers import eigenvalues_in_unit
from meanfield.measures.density import FIT_TOLERANCE, Density
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.typing import Array


def missed(density: Density, tail: float) -> float:
    """The tail of an initial density, or its misfit where that is more than rounding."""
    return max(tail, density.misfit if density.misfit > FIT_TOLERANCE else 0.0)


class DensityRun(Run[Density]):
    """A run that doubles the space of its density where the spectrum outgrows it.

    Attributes
    ----------
    limit : int
        The largest size for now: from t = 0 on that at which a flow map is to take over.
    """

    tendency: DensityTendency | AttentionTendency | OscillatorDensityTendency

    def __init__(
        self,
        density: Density,
        dynamics: Dynamics,
        options: Options,
        records: Records | None = None,
    ) -> None:
        super().__init__(density, dynamics, options, records)
        self.limit = options.largest

    def start(self) -> None:
        """Resolve the initial density and save it.

        Raises
        ------
        Stop
            If the largest space does not resolve it; it is saved all the same.
        """
        try:
            while (missed := self._missed()) > self.options.tail_tol:
                self._refine(missed)
        finally:
            self.save()
        if self.options.hand_over_size is not None:
            self.limit = max(self.options.hand_over_size, self.measure().space.size)

    def snapshot(self) -> Resumption:
        """The limit for now, too."""
        base = super().snapshot()
        return Resumption(base.numbers | {"limit": self.limit}, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        # files of version 0.1 have none
        self.limit = int(resumption.numbers.get("limit", self.options.largest))

    @property
    def _plain(self) -> DensityTendency | None:
        """The right-hand side under SA and USA, which has what their energies are made of."""
        is_plain = isinstance(self.dynamics, (SA, USA))
        return cast(DensityTendency, self.tendency) if is_plain else None

    def _log_unit(self) -> float | None:
        plain = self._plain
        if plain is not None:
            return plain.log_unit
        return eigenvalues_in_unit(self.dynamics.beta, self.measure().dim, 0)[1]

    def scaled_energy(self) -> float:
        """E_β at the present time in the unit of the records, e^β or Λ_0."""
        if (plain := self._plain) is None:
            return super().scaled_energy()
        return float(plain.energies @ self.measure().power)

    def _rate(self, t: float, state: Array, out: Array | None = None) -> Array:
        try:
            return super()._rate(t, state, out)
        except LostDigitsError as error:
            message = f"under-resolved at t = {self.t:.6g}: {error}{self._remedy(', or try {}')}"
            raise Stop(Ending.UNDER_RESOLVED, message) from error
        except ValueError as error:
            # where G has become small, sums of positive terms may take a grid that there is not
            raise Stop(Ending.FAILED, self._failed(str(error))) from error

    def _missed(self) -> float:
        return missed(cast(Density, self.initial), self._tail(self.state))

    def _tail(self, state: Array) -> float:
        return self.tendency.tail(state[:-1])

    def accepts(self, state: Array) -> bool:
        """Whether the density of a step is resolved; if not, the step is taken back."""
        tail = self._tail(state)
        if tail <= self.options.tail_tol:
            return True
        self._refine(tail)
        return False

    def _refine(self, tail: float) -> None:
        density = self.measure()
        try:
            size = density.space.doubled().size
        except ValueError as error:
            # there is no such space in double precision
            raise Stop(Ending.UNDER_RESOLVED, self._unresolved(density, tail)) from error
        if size > self.limit:
            raise Stop(Ending.UNDER_RESOLVED, self._unresolved(density, tail))
        finer = density.resized(size)
        self._adopt(self._tendency(finer), work=float(self.state[-1]))
        self.initial = finer if self.t == 0.0 else None

    def _unresolved(self, density: Density, tail: float) -> str:
        misfit = density.misfit if self.t == 0.0 else None
        tail_tol, first = self.options.tail_tol, self._remedy("{}, ")
        return unresolved(self.t, tail, misfit, tail_tol, density.space, first)

    def _remedy(self, text: str) -> str:
        """The text with what a user may choose who has chosen to stop, "" where that is all."""
        asked = self.options.on_unresolved
        if asked == choose_on_unresolved(self.measure(), self.dynamics, None):
            return ""
        return text.format(f"`on_unresolved='{FLOW_MAP}'`")

    def _speeds(self) -> dict[str, float]:
        """In W_2 where X is a gradient, else of X in the mean."""
        name = "metric_speed" if self._has_balance else "speed"
        try:
            return {name: self._metric_speed()}
        except LostDigitsError:
            # there is none at a start that the first step refuses
            return {}

    def restart(self) -> None:
        """Forget the last scaling of doubly stochastic attention."""
        if isinstance(self.tendency, BalancedDensityTendency):
            self.tendency.forget()

    def _balance(self, measure: Density) -> dict[str, float]:
        if (plain := self._plain) is None:
            return super()._balance(measure)
        # the run's own right-hand side, since to make another costs more than a step
        plain(self.state[:-1], np.empty_like(self.state[:-1]))
        work = self.dynamics.sign * float(self.state[-1])
        return {"dissipation": plain.scaled_dissipation(), "work": work}

    def _numbers(self, measure: Density) -> dict[str, float]:
        return {
            **self._speeds(),
            "min_density": float(measure.values.min()),
            "tail": measure.tail,
            "size": measure.space.size,
        } | super()._numbers(measure)


class NoisyDensityRun(DensityRun):
    """∂_t f = -div(f X) + τ Δf: degree k decays at the rate τ k(k+d-2), which costs no steps.

    The noise's part of dE/dt, τ ∫ u Δf dσ with u = (1/β) ∫ e^{β<·,y>} dmu, is a sum over degrees.
    """

    _free_work = _losing = 0.0
    _noise_work = _heating = 0.0

    def start(self) -> None:
        """Resolve the initial density and save it.

        Raises
        ------
        Stop
            If the largest space does not resolve it; it is saved all the same.
        """
        super().start()
        self._losing, self._heating = self._rates(self.state)

    def _adopt(self, rate: Tendency, work: float) -> None:
        super()._adopt(rate, work)
        space, dynamics = self.tendency.space, self.dynamics
        degrees, first = np.unique(space.degrees, return_index=True)
        laplacian = space.laplacian[first]
        # the last rate is that of the work, which does not decay
        self._decay = np.append(dynamics.noise * laplacian, 0.0)
        entries = len(rate.initial_state) // len(space.degrees)
        self._which = np.append(np.repeat(space.degrees, entries), len(degrees))
        if isinstance(dynamics, CircleInteraction):
            # the power of a degree is 2 |m_k|²; without an energy nothing is made of it
            potential = np.zeros(len(degrees))
            known = min(dynamics.kmax + 1, len(degrees))
            potential[:known] = 0.5 * dynamics.potential[:known]
        elif dynamics.beta == 0.0:
            potential = np.where(degrees == 1, 1.0 / space.dim, 0.0)
        else:
            multipliers, _ = eigenvalues_in_unit(dynamics.beta, space.dim, space.kmax)
            potential = multipliers / dynamics.beta
        self._energy_lost = dynamics.noise * laplacian * potential

    def snapshot(self) -> Resumption:
        """Free energy's part and the noise's, too."""
        base = super().snapshot()
        own = {"free_work": self._free_work, "losing": self._losing}
        own |= {"noise_work": self._noise_work, "heating": self._heating}
        return Resumption(base.numbers | own, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        self._free_work = float(resumption.numbers["free_work"])
        self._losing = float(resumption.numbers["losing"])
        self._noise_work = float(resumption.numbers["noise_work"])
        self._heating = float(resumption.numbers["heating"])

    def _unit_of_time(self) -> float:
        return 1.0

    @property
    def _of_gradient(self) -> DensityTendency:
        """The right-hand side where X is the gradient of an energy."""
        return cast(DensityTendency, self.tendency)

    @property
    def _has_free_energy(self) -> bool:
        """Whether X is the gradient in W_2 of an energy, which SA's is not."""
        energy = self.dynamics.energy
        return energy is not None and energy.in_w2

    def _rate(self, t: float, state: Array, out: Array | None = None) -> Array:
        rate = super()._rate(t, state, out)
        if self._has_balance:
            rate[-1] += self.dynamics.sign * self._heat(state)
        return rate

    def _heat(self, state: Array) -> float:
        """What the noise adds to dE/dt at the state that the tendency was last asked for."""
        if isinstance(self.tendency, BalancedDensityTendency) and self.dynamics.beta > 0.0:
            return self.dynamics.noise * self.tendency.heating(state[:-1])
        space = self.tendency.space
        power = space.power(state[:-1].view(space.coefficient_type))
        return -float(self._energy_lost @ power)

    def _solver(self, t_bound: float) -> Any:
        rtol, atol = self._tolerances()
        return self._checked(
            ExponentialSteps(
                self._rate,
                self._decay,
                self._which,
                self.t,
                self.state,
                t_bound,
                first_step=min(self.step_size, t_bound - self.t) or None,
                rtol=rtol,
                atol=atol,
            )
        )

    def adapt(self, solver: Any) -> bool:
        """Nothing to change; but count what the noise and free energy did, by Simpson's rule."""
        (losing, heating), last = self._rates(solver.middle), self._rates(solver.y)
        self._free_work -= solver.step_size * (self._losing + 4.0 * losing + last[0]) / 6.0
        self._noise_work += solver.step_size * (self._heating + 4.0 * heating + last[1]) / 6.0
        self._losing, self._heating = last
        return False

    def _rates(self, state: Array) -> tuple[float, float]:
        """Of the free energy's fall and of the noise's part of dE/dt, 0 where there is none."""
        losing = self._free_dissipation(state) if self._has_free_energy else 0.0
        return losing, self._heat(state) if self._has_balance else 0.0

    def _free_dissipation(self, state: Array) -> float:
        """∫ |X - τ ∇ log f|² dmu in the unit of energies."""
        rate = self._of_gradient
        return (float(np.exp(-0.5 * rate.log_unit)) * rate.noisy_speed(state[:-1])) ** 2

    def _metric_speed(self) -> float:
        if not self._has_balance:
            return super()._metric_speed()
        return self._of_gradient.noisy_speed(self.state[:-1])

    def _numbers(self, measure: Density) -> dict[str, float]:
        """The entropy, and the free energy of what is the gradient flow of it and an energy."""
        dynamics, numbers = self.dynamics, super()._numbers(measure)
        numbers["entropy"] = entropy(measure)
        if self._has_balance:
            numbers["noise_work"] = self._noise_work
        if self._has_free_energy:
            unit = float(np.exp(-self._of_gradient.log_unit))
            heat = dynamics.noise * numbers["entropy"] * unit
            numbers["free_energy"] = heat - dynamics.sign * self.balanced_energy()
            numbers["free_dissipation"] = self._free_dissipation(self.state)
            numbers["free_work"] = self._free_work
        return numbers


class OscillatorDensityRun(DensityRun):
    """∂_t f + ∂_θ (f (ω + X)) = τ ∂_θ² f for each ω, X of the mean over all ω.

    The frame of each ω turns with it from the last start of the solver on, so that rotation by
    itself costs no steps; they resolve how fast frames turn against each other, as tokens do.
    """

    tendency: OscillatorDensityTendency

    def _adopt(self, rate: Tendency, work: float) -> None:
        super()._adopt(rate, work)
        self._anchor = self.t

    def _turning(self, t: float) -> OscillatorDensityTendency:
        """The right-hand side, its frames as they stand at t."""
        self.tendency.elapsed = t - self._anchor
        return self.tendency

    def measure(self) -> Density:
        """The density at the present time; at t = 0 the very one that was given."""
        self._turning(self.t)
        return super().measure()

    def _rate(self, t: float, state: Array, out: Array | None = None) -> Array:
        self._turning(t)
        return super()._rate(t, state, out)

    def _solver(self, t_bound: float) -> Any:
        # so a run goes on from the coefficients that were saved, and from nothing else
        self.state[:-1] = self._turning(self.t).at_rest(self.state[:-1])
        self._anchor = self.t
        return super()._solver(t_bound)

    def start(self) -> None:
        """Resolve the initial density and save it.

        Raises
        ------
        Stop
            If the largest space does not resolve it; it is saved all the same.
        """
        super().start()
        # no file keeps laws of single frequencies: from here on none counts
        self.initial = None

    @property
    def _has_balance(self) -> bool:
        return False

    def _numbers(self, measure: Density) -> dict[str, float]:
        density = cast(OscillatorDensity, measure)
        return {
            "min_density": density.lowest,
            "tail": density.tail,
            "size": density.space.size,
        } | Run._numbers(self, measure)
