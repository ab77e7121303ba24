"""The run of a density: its space is doubled where the spectrum outgrows it."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA, Dynamics
from meanfield.harmonics import eigenvalues_in_unit
from meanfield.integrate.options import FLOW_MAP, Options
from meanfield.integrate.records import Records, Stop
from meanfield.integrate.run import Run
from meanfield.integrate.sentences import unresolved
from meanfield.integrate.starts import choose_on_unresolved
from meanfield.measures import Density
from meanfield.measures.density import FIT_TOLERANCE
from meanfield.solution import Ending, Resumption, Solution
from meanfield.tendency import (
    AttentionTendency,
    BalancedDensityTendency,
    DensityTendency,
    LostDigitsError,
    OscillatorDensityTendency,
)

Array = NDArray[np.float64]


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
