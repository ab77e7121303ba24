"""The run of phases with natural frequencies: each frequency is stepped in a frame of its own."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.run import Run
from meanfield.measures import Density, OscillatorDensity
from meanfield.tendency import OscillatorDensityTendency, Tendency

Array = NDArray[np.float64]


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
