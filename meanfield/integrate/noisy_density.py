"""The run of a density with noise: transport by explicit stages, diffusion exact."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import CircleInteraction
from meanfield.functionals import entropy
from meanfield.harmonics import eigenvalues_in_unit
from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.exponential import ExponentialSteps
from meanfield.measures import Density
from meanfield.solution import Resumption, Solution
from meanfield.tendency import (
    BalancedDensityTendency,
    DensityTendency,
    Tendency,
)

Array = NDArray[np.float64]


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
