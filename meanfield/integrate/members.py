"""The densities of a batch, and the table of what they leave at the saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA
from meanfield.integrate.pace import Pace
from meanfield.integrate.records import SCALED, VARIABLES, energy_unit
from meanfield.measures import Density
from meanfield.solution import Ending
from meanfield.tendency import Factors

Array = NDArray[np.float64]

NUMBERS = (
    *("energy", "dissipation", "work", "mass", "min_density", "tail"),
    *("size", "steps", "evaluations"),
)


@dataclass
class Member:
    """One density of a batch: where its run has come to, and how it ended.

    Its clock, `t`, the step size `h` and the slopes of its state, counts units of time `unit`;
    energies are in units of e^{log_unit}.
    """

    index: int
    density: Density
    dynamics: SA | USA
    unit: float
    factors: Factors | None = None
    log_unit: float = 0.0
    t: float = 0.0
    h: float = 0.0
    work: float = 0.0
    saves: int = 0
    steps: int = 0
    evaluations: int = 0
    ending: Ending | None = None
    message: str = ""
    pace: Pace = field(default_factory=Pace)

    @property
    def time(self) -> float:
        """The present time."""
        return self.t * self.unit

    def end(self, ending: Ending, message: str) -> None:
        """Say how it ended."""
        self.ending, self.message = ending, message


class Table:
    """Numbers and coefficients of members at saves; nan where a member did not come.

    Parameters
    ----------
    count : int
    times : ndarray, shape (m,)
    degree : int
        The last one whose coefficients are kept.
    coefficient_type : type
    """

    def __init__(self, count: int, times: Array, degree: int, coefficient_type: Any) -> None:
        self.times, shape = times, (count, len(times))
        self._numbers = {name: np.full(shape, np.nan) for name in NUMBERS}
        self._coefficients = np.full((*shape, degree + 1), np.nan, dtype=coefficient_type)

    def keep(
        self, members: Sequence[Member], numbers: dict[str, Array], coefficients: NDArray[Any]
    ) -> None:
        """Keep one save of each of the members; a number that is not finite ends its run."""
        where = [member.index for member in members], [member.saves for member in members]
        for name, column in numbers.items():
            self._numbers[name][where] = column
        kept = self._coefficients.shape[2]
        self._coefficients[(*where, slice(coefficients.shape[1], None))] = 0.0
        self._coefficients[(*where, slice(coefficients.shape[1]))] = coefficients[:, :kept]
        for name, column in numbers.items():
            for row in np.nonzero(~np.isfinite(column))[0]:
                one = members[int(row)]
                if one.ending is None:
                    reason = f"failed at t = {one.time:.6g}: {name} is {column[row]}"
                    one.end(Ending.FAILED, reason)
        for member in members:
            member.saves += 1

    def dataset(self, members: Sequence[Member]) -> xr.Dataset:
        """All that was kept, over member and t."""
        scales = [energy_unit(member.dynamics, member.log_unit) for member in members]
        by = np.array([scale for scale, _ in scales])[:, None]
        columns = {
            name: (("member", "t"), column * by if name in SCALED else column, _about(name))
            for name, column in self._numbers.items()
        }
        degrees = np.arange(self._coefficients.shape[2])
        about = "of the densities, in the layout of their space; 0 beyond its last degree"
        of_degrees = ("member", "t", "degree"), self._coefficients, {"long_name": about}
        endings = {
            "status": [str(m.ending) for m in members],
            "message": [m.message for m in members],
            "reached": [m.time for m in members],
            "energy_unit": [name for _, name in scales],
        }
        of_dynamics = {
            "dynamics": [m.dynamics.name for m in members],
            "beta": [m.dynamics.beta for m in members],
            "sign": [m.dynamics.sign for m in members],
        }
        return xr.Dataset(
            {
                **columns,
                "coefficients": of_degrees,
                **{name: ("member", column) for name, column in endings.items()},
            },
            coords={
                "t": ("t", self.times, {"long_name": "time"}),
                "degree": degrees,
                **{name: ("member", column) for name, column in of_dynamics.items()},
            },
        )


def _about(name: str) -> dict[str, str]:
    return {"long_name": VARIABLES[name]}
