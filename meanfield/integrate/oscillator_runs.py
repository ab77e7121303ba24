"""The run of phases with natural frequencies: rotation, width and noise exact, the rest stepped."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.exponential import ExponentialSteps
from meanfield.integrate.run import Run, order_numbers
from meanfield.measures import AnyMeasure, OscillatorDensity
from meanfield.tendency import OscillatorDensityTendency, Tendency

Array = NDArray[np.float64]


class OscillatorDensityRun(DensityRun):
    """∂_t f + ∂_θ (f (ω + X)) = τ ∂_θ² f for each ω, X of the mean over all ω.

    Degree k at ω_j is multiplied by e^{-(ikω_j + |k|γ_j + τk²)t}, which costs no steps.
    """

    def _adopt(self, rate: Tendency, work: float) -> None:
        super()._adopt(rate, work)
        # the last rate is that of the work, which there is none of
        self._decay = np.append(cast(OscillatorDensityTendency, rate).decay, 0.0)
        self._which = np.arange(len(self._decay))

    def _tolerances(self) -> tuple[float, Array]:
        scale = self.tendency.scale(self.state[:-1])
        return self.options.rtol, self.options.atol * np.append(scale, 1.0)

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

    def _balance(self, measure: AnyMeasure) -> dict[str, float]:
        return order_numbers(measure)

    def _numbers(self, measure: AnyMeasure) -> dict[str, float]:
        density = cast(OscillatorDensity, measure)
        return {
            "min_density": density.lowest,
            "tail": density.tail,
            "size": density.space.size,
        } | Run._numbers(self, measure)
