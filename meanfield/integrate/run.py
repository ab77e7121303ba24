"""The state of one run: steps, refinement, and what is kept at every save."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.dynamics import Dynamics
from meanfield.functionals import dissipation, energy
from meanfield.measures import AnyMeasure, Density
from meanfield.solution import Ending
from meanfield.tendency import DensityTendency, Tendency, tendency

Array = NDArray[np.float64]
Monitors = Mapping[str, Callable[[AnyMeasure], float]]

# above it e^β overflows, and the energies of a dataset are in units of e^β
LARGEST_UNSCALED = 700.0
VARIABLES = {
    "energy": "interaction energy E_β(mu), (3.5)",
    "dissipation": "∫|X|² G(βx) dmu for SA, ∫|X|² dmu for USA",
    "work": "± ∫ dissipation dt since t = 0, equal to the energy gained",
    "mass": "∫ dmu",
    "min_density": "minimum of the density on the grid",
    "tail": "relative L² size of the last tenth of the spectrum",
    "size": "size of the space in use (n, lmax or kmax)",
    "steps": "accepted time steps since t = 0",
    "evaluations": "evaluations of the right-hand side since t = 0",
}


class Stop(Exception):
    """The run can't go on; the text says what happened, when, and what to try."""

    def __init__(self, ending: Ending, message: str) -> None:
        super().__init__(message)
        self.ending = ending


@dataclass(frozen=True)
class Options:
    """What a run may do: tolerances of time step and spectral tail, the largest space, monitors."""

    rtol: float
    atol: float
    tail_tol: float
    largest: int
    monitors: Monitors


class Run:
    """Measure, time, step size and counters of a run, and the rows that it saved."""

    def __init__(self, measure: AnyMeasure, dynamics: Dynamics, options: Options) -> None:
        self.dynamics, self.options = dynamics, options
        self.t, self.step_size = 0.0, 0.0
        self.steps = self.evaluations = 0
        self.measures: list[AnyMeasure] = []
        self.rows: list[dict[str, float]] = []
        self.tendency: Tendency
        self.state: Array
        self.initial: AnyMeasure | None = None
        self._adopt(measure, work=0.0)

    def start(self) -> None:
        """Resolve the initial measure and save it.

        Raises
        ------
        Stop
            If the largest space does not resolve it; it is saved all the same.
        """
        try:
            while self._is_unresolved(self.state):
                self._refine(self._tail(self.state))
        finally:
            self.save()

    def _adopt(self, measure: AnyMeasure, work: float) -> None:
        self.tendency = tendency(measure, self.dynamics)
        self.state = np.append(self.tendency.initial_state, work)
        self.initial = measure if self.t == 0.0 else None

    def measure(self) -> AnyMeasure:
        """The measure at the present time; at t = 0 the very one that was given."""
        if self.t == 0.0 and self.initial is not None:
            return self.initial
        return self.tendency.measure(self.state[:-1])

    def _rate(self, t: float, state: Array) -> Array:  # noqa: ARG002 (the field has no clock)
        rate = np.empty_like(state)
        self.tendency(state[:-1], rate[:-1])
        rate[-1] = self.tendency.scaled_dissipation()
        self.evaluations += 1
        return rate

    def _solver(self, t_bound: float) -> Any:
        atol = np.full_like(self.state, self.options.atol)
        atol[:-1] *= self.tendency.scale(self.state[:-1])
        return DOP853(
            self._rate,
            self.t,
            self.state,
            t_bound,
            first_step=min(self.step_size, t_bound - self.t) or None,
            rtol=self.options.rtol,
            atol=atol,
        )

    def advance(self, t_bound: float, report: Callable[[Run], None]) -> None:
        """Step from the present time to `t_bound`, refining the space on the way.

        Raises
        ------
        Stop
            If the run can't go on; the state is the last good one.
        """
        solver = self._solver(t_bound)
        while solver.status == "running":
            planned = solver.h_abs
            reason = solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                raise Stop(Ending.FAILED, self._failed(reason))
            if self._is_unresolved(solver.y):
                self._refine(self._tail(solver.y))
                self.step_size = solver.step_size
                solver = self._solver(t_bound)
                continue
            # the last step before a save is cut short, which says nothing about the next
            self.step_size = max(solver.h_abs, planned)
            self.state, self.t, self.steps = solver.y, float(solver.t), self.steps + 1
            report(self)

    def _tail(self, state: Array) -> float:
        return self.tendency.tail(state[:-1]) if isinstance(self.tendency, DensityTendency) else 0.0

    def _is_unresolved(self, state: Array) -> bool:
        return self._tail(state) > self.options.tail_tol

    def _refine(self, tail: float) -> None:
        density = cast(Density, self.measure())
        size = density.space.doubled().size
        if size > self.options.largest:
            raise Stop(Ending.UNDER_RESOLVED, self._unresolved(density, tail))
        self._adopt(density.resized(size), work=float(self.state[-1]))

    def _unresolved(self, density: Density, tail: float) -> str:
        return (
            f"under-resolved at t = {self.t:.6g}: the spectral tail reached {tail:.1e} > "
            f"{self.options.tail_tol:.1e} on {density.space}, the largest space allowed; "
            f"try a larger `largest`, a larger `tail_tol` or a smaller `t_end`"
        )

    def _failed(self, reason: str | None) -> str:
        what = reason or "the state is no longer finite"
        return (
            f"failed at t = {self.t:.6g} (step size {self.step_size:.1e}): {what.rstrip('.')}; "
            f"try larger tolerances rtol and atol"
        )

    def save_once(self) -> None:
        """Save the present state unless it is saved already."""
        if not self.rows or self.rows[-1]["t"] < self.t:
            # the run ends for a reason of its own, which a monitor's must not replace
            with suppress(Stop):
                self.save()

    def save(self) -> None:
        """Keep the measure and its numbers at the present time.

        Raises
        ------
        Stop
            If one of the numbers is not finite; it is kept all the same.
        """
        measure, beta = self.measure(), self.dynamics.beta
        unit = float(np.exp(beta)) if beta <= LARGEST_UNSCALED else 1.0
        row = {
            "t": self.t,
            "energy": energy(measure, beta, scaled=True) * unit,
            "dissipation": dissipation(measure, self.dynamics, scaled=True) * unit,
            "work": self.dynamics.sign * float(self.state[-1]) * unit,
            "mass": measure.mass(),
        }
        if isinstance(measure, Density):
            row |= {
                "min_density": float(measure.values.min()),
                "tail": measure.tail,
                "size": measure.space.size,
            }
        row |= {"steps": self.steps, "evaluations": self.evaluations}
        row |= {name: float(monitor(measure)) for name, monitor in self.options.monitors.items()}
        self.measures.append(measure)
        self.rows.append(row)
        for name, value in row.items():
            if not np.isfinite(value):
                reason = f"{name} is {value}"
                raise Stop(
                    Ending.FAILED, f"failed at t = {self.t:.6g}: {reason}; is its monitor right?"
                )

    def dataset(self) -> xr.Dataset:
        """What was saved, as variables over t."""
        columns = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        times = columns.pop("t")
        scaled = self.dynamics.beta > LARGEST_UNSCALED
        return xr.Dataset(
            {
                name: ("t", column, {"long_name": VARIABLES.get(name, name)})
                for name, column in columns.items()
            },
            coords={"t": ("t", times, {"long_name": "time"})},
            attrs={"energy_unit": "exp(beta)" if scaled else "1"},
        )
