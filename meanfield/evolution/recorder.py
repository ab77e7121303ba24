"""What a run keeps at every save: the measure, and its numbers as variables over t."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
import xarray as xr

from meanfield._checks import shown
from meanfield.dynamics.facts import Dynamics
from meanfield.evolution.arrays import PREFIXES, RESERVED, SIZE_NAME
from meanfield.evolution.solution import Ending, Solution
from meanfield.measures import AnyMeasure
from meanfield.typing import Array

# a monitor gives a number, a number with bounds `lower` and `upper`, or None
Monitors = Mapping[str, Callable[[AnyMeasure], Any]]

# above it e^β (or e^{2β}) overflows, and the energies of a dataset are in units of e^β
LARGEST_UNSCALED = 700.0
# in units of e^β in a run, or of Λ_0
SCALED = (
    *("energy", "form_energy", "dissipation", "work", "adaptation"),
    *("free_energy", "free_dissipation", "free_work", "noise_work"),
)
# of DoublyStochastic, whose E_DS is of order 1
_SCALED_OF_E_DS = ("energy",)
VARIABLES = {
    "energy": "interaction energy E_β(mu), (3.5)",
    "form_energy": "E_{β,D}(mu) = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu, D = KᵀQ",
    "dissipation": "∫|X|² G(βx) dmu for SA, ∫|X|² dmu for USA; under attention with a form D "
    "∫|X|² G(βDx) dmu, or ∫|X|² dmu where it is not normalised",
    "work": "± ∫ dissipation dt since t = 0, equal to the energy gained, of E_{β,D} where there is "
    "a form; with noise τ more by τ ∫∫ u Δf dσ dt, u = (1/β) ∫ e^{β<·,y>} dmu",
    "noise_work": "the part of `work` that is the noise's, τ ∫∫ u Δf dσ dt",
    "sinkhorn_energy": "E_DS(mu) = -(1/β) ∫ log u dmu of doubly stochastic attention",
    "metric_speed": "(∫|X|² dmu)^{1/2}, the speed of the measure in W_2; with noise τ that of "
    "X - τ ∇ log f",
    "speed": "(∫|X|² dmu)^{1/2}, root mean square of |X| over tokens or mass",
    "order_parameter": "r of r e^{iψ} = ∫ e^{iθ} dmu",
    "mean_phase": "ψ of r e^{iψ} = ∫ e^{iθ} dmu, in [0, 2π)",
    "interaction_energy": "F = K/2 ∬ H(θ - φ) dmu dmu, H' = -h, as (7.3)",
    "interaction_dissipation": "∫|X|² dmu, the rate at which F grows without noise",
    "interaction_work": "∫ interaction_dissipation dt since t = 0, equal to the gain of F; with "
    "noise τ more by τ ∫∫ u ∂²f dσ dt, u = K ∫ H(θ - φ) dmu",
    "mass": "∫ dmu",
    "min_density": "minimum of the density on the grid or at the nodes",
    "tail": "relative L² size of the last tenth of the spectrum; flow map: largest tail of a panel",
    "size": SIZE_NAME,
    "steps": "accepted time steps since t = 0",
    "evaluations": "evaluations of the right-hand side since t = 0",
    "max_density": "maximum of the density at the nodes",
    "entropy": "∫ log f dmu",
    "free_energy": "τ ∫ log f dmu ∓ E_β, of USA with noise τ; - F for interactions",
    "free_dissipation": "∫|X - τ ∇ log f|² dmu, the rate at which the free energy falls",
    "free_work": "-∫ free_dissipation dt since t = 0, equal to the free energy gained",
    "atoms": "clusters held as atoms",
    "particles": "particles that stand for clusters",
    "smooth_mass": "mass that the nodes carry, outside particles",
    "clusters": "clusters of the measure",
    "adaptation": "energy changed by splitting panels and holding clusters as atoms since t = 0",
}

_OF_E_DS = {
    "dissipation": "∫|X|² dmu",
    "work": "± ∫ dissipation dt since t = 0, equal to the sinkhorn_energy gained; with noise τ "
    "more by -(τ/β) ∫∫ log u Δf dσ dt",
    "free_energy": "τ ∫ log f dmu ∓ E_DS, of DoublyStochastic with noise τ",
    "adaptation": "sinkhorn_energy changed by splitting panels and holding clusters as atoms",
}

COLLAPSES = ("collapse_time", "collapse_atoms", "collapse_energy")
_TAKEN = frozenset({*VARIABLES, *COLLAPSES, *RESERVED})
# of a bracket, the variables beside its value, and what they are
LOWER, UPPER, PROVED = "_lower", "_upper", "_proved"
_OF_BRACKET = {
    LOWER: "lower bound of {}",
    UPPER: "upper bound of {}",
    PROVED: "1 where the bounds of {} are proven, 0 for estimates",
}


class Stop(Exception):
    """The run can't go on; the text says what happened, when, and what to try."""

    def __init__(self, ending: Ending, message: str) -> None:
        super().__init__(message)
        self.ending = ending


class Recorder:
    """Measures and rows of numbers at the saves of a run.

    Parameters
    ----------
    dynamics : SA, USA, CircleInteraction, Attention, FeedForward or Layers
    monitors : mapping of str to callable
    log_unit : float
        Energies are given in units of e^{log_unit}: β, or log Λ_0 where e^{-β} Λ_0
        underflows; the dataset then keeps them in that unit.
    """

    def __init__(self, dynamics: Dynamics, monitors: Monitors, log_unit: float) -> None:
        self.measures: list[AnyMeasure] = []
        self._rows: list[dict[str, float]] = []
        self.hand_over: tuple[float, float] | None = None
        self._monitors = monitors
        self.log_unit = log_unit
        self._scaled: tuple[str, ...] = _SCALED_OF_E_DS if dynamics.balanced else SCALED
        self._about_balance = _OF_E_DS if dynamics.balanced else {}
        self._unit, self._unit_name = energy_unit(dynamics, self.log_unit)

    @property
    def last_time(self) -> float:
        """Time of the last save, -inf before the first."""
        return self._rows[-1]["t"] if self._rows else -np.inf

    def save(self, measure: AnyMeasure, row: dict[str, float]) -> None:
        """Keep the measure and its numbers, energies of the row in units of e^{log_unit}.

        Raises
        ------
        Stop
            If one of the numbers is not finite, or a monitor fails; what there is is kept.
        Exception
            What a monitor raises at t = 0, where there is nothing to keep.
        """
        row = {k: v * self._unit if k in self._scaled else v for k, v in row.items()}
        self.measures.append(measure)
        self._rows.append(row)
        for name, monitor in self._monitors.items():
            try:
                row |= _read(name, monitor(measure))
            except Exception as error:
                if row["t"] == 0.0:
                    error.add_note(f"in the monitor {name} at t = 0, for {measure}")
                    raise
                reason = f"the monitor {name} raised {error!r} for {measure}"
                raise Stop(Ending.FAILED, f"failed at t = {row['t']:.6g}: {reason}") from error
        for name, value in row.items():
            if np.isnan(value) or (np.isinf(value) and name not in _MAY_BE_INFINITE):
                remedy = "" if name in _TAKEN else "; is its monitor right?"
                raise Stop(
                    Ending.FAILED, f"failed at t = {row['t']:.6g}: {name} is {value}{remedy}"
                )

    def kept(self) -> dict[str, Any]:
        """What the dataset does not hold to the bit."""
        return {
            "log_unit": self.log_unit,
            "hand_over": self.hand_over,
            "monitors": list(self._monitors),
        }

    def restore(self, saved: Solution, numbers: Mapping[str, Any]) -> None:
        """Take over what another run had kept."""
        columns = {
            str(name): values.values.tolist()
            for name, values in saved.dataset.data_vars.items()
            if values.dims == ("t",)
        }
        columns = {"t": saved.t.tolist()} | columns
        self.measures = list(saved.measures)
        self._rows = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        self.hand_over = tuple(numbers["hand_over"]) if numbers["hand_over"] else None

    def dataset(self, collapses: Sequence[tuple[float, int, float]] = ()) -> xr.Dataset:
        """What was saved, as variables over t; nan where a measure has no such number.

        Parameters
        ----------
        collapses : sequence of (float, int, float)
            When nodes became atoms, how many atoms there were then, and what the energy gained.
        """
        names = dict.fromkeys([*(name for row in self._rows for name in row), *self._monitors])
        columns = {name: np.array([row.get(name, np.nan) for row in self._rows]) for name in names}
        times = columns.pop("t")
        hand_over = {}
        if self.hand_over is not None:
            t, gap = self.hand_over
            hand_over = {"hand_over_t": t, "hand_over_energy_gap": gap * self._unit}
        about = VARIABLES | self._about_balance | self._about_monitors()
        about_t = {
            name: ("t", column, {"long_name": about[name]}) for name, column in columns.items()
        }
        return xr.Dataset(
            about_t | self._about_collapses(collapses),
            coords={"t": ("t", times, {"long_name": "time"})},
            attrs={"energy_unit": self._unit_name} | hand_over,
        )

    def _about_monitors(self) -> dict[str, str]:
        """What monitors say that they are, else their names."""
        about = {n: str(getattr(m, "long_name", n)) for n, m in self._monitors.items()}
        return about | {
            f"{name}{end}": text.format(what)
            for name, what in about.items()
            for end, text in _OF_BRACKET.items()
        }

    def _about_collapses(
        self, collapses: Sequence[tuple[float, int, float]]
    ) -> dict[str, tuple[str, Array, dict[str, str]]]:
        if not collapses:
            return {}
        times, atoms, gaps = np.array(collapses).T
        unit = self._unit if "adaptation" in self._scaled else 1.0
        columns = {
            "collapse_time": (times, "when nodes were last held by atoms, or atoms merged"),
            "collapse_atoms": (atoms, "atoms from then on"),
            "collapse_energy": (gaps * unit, "energy gained by it, as of adaptation"),
        }
        return {
            name: ("collapse", column, {"long_name": about})
            for name, (column, about) in columns.items()
        }


def energy_unit(dynamics: Dynamics, log_unit: float) -> tuple[float, str]:
    """What to multiply energies in units of e^{log_unit} by, and the name of their unit then."""
    if log_unit != dynamics.beta:
        return 1.0, "Lambda_0"
    # a dissipation of USA is of order e^{2β}
    if (2.0 if dynamics.fast else 1.0) * dynamics.beta <= LARGEST_UNSCALED:
        return float(np.exp(dynamics.beta)), "1"
    return 1.0, "exp(beta)"


# a density may leave double precision while its measure does not
_MAY_BE_INFINITE = ("max_density", "min_density")


def _read(name: str, given: Any) -> dict[str, float]:
    """The variables of what a monitor gave: none of None, four of a bracket."""
    if given is None:
        return {}
    try:
        numbers = {name: float(given)}
    except (TypeError, ValueError):
        raise ValueError(
            f"the monitor {name} must return a number, a Bracket or None, got {shown(given)}"
        ) from None
    if hasattr(given, "lower") and hasattr(given, "upper"):
        numbers |= {f"{name}{LOWER}": float(given.lower), f"{name}{UPPER}": float(given.upper)}
        if hasattr(given, "proved"):
            numbers[f"{name}{PROVED}"] = float(given.proved)
    return numbers


def taken_names(monitors: Iterable[str]) -> set[str]:
    """What none of these monitors may be called: other variables, and bounds of these."""
    return {*_TAKEN, *(f"{name}{bound}" for name in monitors for bound in _OF_BRACKET)}


def checked_monitors(monitors: Monitors | None) -> Monitors:
    """Return `monitors` when each is a callable under a name that nothing else has.

    Raises
    ------
    ValueError
        Naming the first that is not.
    """
    if not isinstance(monitors, (Mapping, NoneType)):
        raise ValueError(
            f'monitors must map names to callables, as {{"name": monitor}}, got {shown(monitors)}'
        )
    given = dict(monitors or {})
    taken = taken_names(given)
    for name, monitor in given.items():
        if (
            not isinstance(name, str)
            or name in taken
            or str(name).startswith(PREFIXES)
            or not callable(monitor)
        ):
            raise ValueError(
                f"monitors must map new names to callables, got {name!r}: {shown(monitor)}"
            )
    return given
