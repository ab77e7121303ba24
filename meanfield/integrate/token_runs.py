"""Runs of tokens beyond the plain flow: any attention, layer by layer, and with noise."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA, Dynamics, Isotropic
from meanfield.functionals.energies import dissipation_in_unit
from meanfield.geometry import project
from meanfield.integrate.options import Options
from meanfield.integrate.run import Run
from meanfield.measures import Particles
from meanfield.solution import Resumption, Solution
from meanfield.tendency import (
    ParticleTendency,
    Tendency,
    TokenTendency,
    joined,
    token_tendency,
)

Array = NDArray[np.float64]

# least relative tolerance that the solver takes
_LEAST_RTOL = 3e-14


class TokenRun(Run[Particles]):
    """The continuous flow of tokens under any dynamics, layer after layer where it has layers.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
    options : Options

    Attributes
    ----------
    step : float or None
        Of methods whose steps are fixed.
    """

    step: float | None = None

    def __init__(self, particles: Particles, dynamics: Dynamics, options: Options) -> None:
        self._sums: set[str] = set()
        # the right-hand side that goes on from the last save, and what it is there
        self._first: tuple[TokenTendency, Array] | None = None
        super().__init__(particles, dynamics, options)

    @property
    def sums(self) -> str:
        """How sums over tokens were done: 'direct', 'transforms', 'gram', several, or 'none'."""
        return joined(self._sums)

    def restart(self) -> None:
        """Go on from the tokens as they were saved, put back on the sphere."""
        rate = self._first[0] if self._first else self._tendency(self.measure())
        self._adopt(rate, work=float(self.state[-1]))

    def snapshot(self) -> Resumption:
        """How sums were done, too."""
        base = super().snapshot()
        return Resumption(base.numbers | {"sums": sorted(self._sums)}, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        self._sums = set(resumption.numbers["sums"])

    @property
    def _has_balance(self) -> bool:
        """Whether dE/dt is the dissipation: not with noise or frequencies, nor for most heads."""
        return super()._has_balance and self.dynamics.noise == 0.0 and not self._rotates

    @property
    def _rotates(self) -> bool:
        return self.initial is not None and self.initial.frequencies is not None

    def _tendency(self, measure: Particles) -> Tendency:
        rate = self._token_tendency(measure)
        self._sums.add(rate.sums)
        return rate

    def _token_tendency(self, particles: Particles) -> TokenTendency:
        return token_tendency(particles, self.acting)

    def _evaluate(self, state: Array, out: Array) -> None:
        first, self._first = self._first, None
        if first is not None and first[0] is self.tendency:
            out[:] = first[1]
        else:
            super()._evaluate(state, out)

    def _dissipation(self, measure: Particles) -> float:
        """From the right-hand side that goes on from the tokens, whose first value it keeps."""
        rate = cast(TokenTendency, self.tendency if self.t == 0.0 else self._tendency(measure))
        field = np.empty_like(rate.initial_state)
        rate(rate.initial_state, field)
        self._first = rate, field
        return rate.scaled_dissipation()

    def _tolerances(self) -> tuple[float, Array]:
        rtol, atol = super()._tolerances()
        # angles that turn without end have errors of their own, none relative to their turns
        return (_LEAST_RTOL, atol + rtol) if self._rotates else (rtol, atol)

    def _balance(self, measure: Particles) -> dict[str, float]:
        numbers = super()._balance(measure)
        if isinstance(self.dynamics, Isotropic) and not self._has_balance:
            numbers["dissipation"] = dissipation_in_unit(measure, self.dynamics)[0]
        return numbers

    def _numbers(self, measure: Particles) -> dict[str, float]:
        return {"speed": self._speed(measure), **super()._numbers(measure)}

    def _output(self, measure: Particles) -> Array:
        rate = self.tendency
        if isinstance(rate, ParticleTendency) and not isinstance(rate.dynamics, (SA, USA)):
            return rate.output(measure)
        return self.acting.output(measure, measure.points)

    def _speed(self, measure: Particles) -> float:
        """Root mean square of |X| over the tokens, X of the layer that acted last."""
        velocity = project(measure.points, self._output(measure))
        # without softmax it may be too large to be squared
        unit = float(np.abs(velocity).max()) or 1.0
        velocity /= unit
        return unit * float(np.sqrt(measure.weights @ np.einsum("ij,ij->i", velocity, velocity)))
