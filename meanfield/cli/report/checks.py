"""What a run says of itself: each check with its number, its threshold and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield._checks import tell_apart
from meanfield.cli import text
from meanfield.cli.report import curves
from meanfield.evolution import Ending, Solution
from meanfield.evolution.recorder import with_role
from meanfield.plot.curves import bounds

# relative, of sums over nodes and degrees in double precision
_ROUNDING = 1e-12
_LEAST_MASS_ERROR = 1e-10


@dataclass(frozen=True)
class Check:
    """A property that a run must have.

    Attributes
    ----------
    name, number, threshold, why : str
        What is checked, what the run has, what it may have, and where that comes from.
    passed : bool
    """

    name: str
    number: str
    threshold: str
    why: str
    passed: bool


def checks(sol: Solution) -> list[Check]:
    """The verdict of a run: how it ended, its balance, mass, energies and resolution."""
    found = [_ending(sol), _mass(sol)]
    if (error := text.defect(sol)) is not None:
        found.insert(1, _balance(sol, error))
    if monotone := curves.monotone_energy(sol):
        found.append(_monotone(sol, *monotone))
    found += [
        _between(sol, name)
        for name in curves.drawn_energies(sol)
        if np.isfinite(bounds(sol, name)[:2]).all()
    ]
    if "tail" in sol.dataset and np.isfinite(sol.dataset["tail"].values).any():
        found.append(_resolution(sol))
    return found


def _ending(sol: Solution) -> Check:
    good = Ending.FINISHED, Ending.CLUSTERED
    why = "A run that could not go on says so, and keeps what it had."
    return Check("ending", sol.status, " or ".join(good), why, sol.ending in good)


def _tolerance(sol: Solution) -> float:
    """The largest `tol` of the run's flow maps, 0 of other measures."""
    return float(max(getattr(measure, "tol", 0.0) for measure in sol.measures))


def _per_step(sol: Solution) -> float:
    """What tolerances allow in an energy, a sum over pairs of the mass: twice that of each step."""
    steps = float(sol.dataset["steps"].values[-1]) if "steps" in sol.dataset else len(sol.t)
    rtol = float(sol.dataset.attrs.get("rtol", 0.0))
    return 2.0 * (steps + 1.0) * max(rtol, _tolerance(sol)) + _ROUNDING


def _balance(sol: Solution, error: float) -> Check:
    # of an energy that a Dirac has none of, the error is not relative
    names = with_role(sol.dataset, "share", "energy")
    allowed = _per_step(sol) * float(np.nanmax(np.abs(sol.dataset[names[0]].values)))
    symbol = curves.symbol(sol, with_role(sol.dataset, "error")[0])
    why = (
        "The work, the integral of the dissipation, is summed on its own beside the measure. "
        "Each step may err by its tolerance relative to the energy, and in each of two factors."
    )
    of = f" / |{symbol}(δ)|" if with_role(sol.dataset, "share") else ""
    label = f"balance |{symbol}(t) − {symbol}(0) − work|{of}"
    return _below(label, error, allowed, why)


def _mass(sol: Solution) -> Check:
    error = float(np.abs(1.0 - sol.dataset["mass"].values).max())
    allowed = max(_LEAST_MASS_ERROR, _tolerance(sol))
    why = "Mass is kept by construction, up to rounding"
    why += " and the tolerance of meshes." if allowed > _LEAST_MASS_ERROR else "."
    return _below("mass |1 − ∫ dμ|", error, allowed, why)


def _monotone(sol: Solution, name: str, sign: int) -> Check:
    values, energy = sol.dataset[name].values, curves.symbol(sol, name)
    back = float(np.max(-sign * np.diff(values), initial=0.0))
    allowed = _per_step(sol) * float(np.abs(values).max())
    way = "rises" if sign > 0 else "falls"
    why = f"The run is a gradient flow along which {energy} {way}: it may step back by its "
    why += "error only."
    label = f"{energy} {way}: largest step back"
    return _below(label, back, allowed, why)


def _between(sol: Solution, name: str) -> Check:
    low, high, _, why = bounds(sol, name)
    values = sol.dataset[name].values
    room = (_ROUNDING + 2.0 * _tolerance(sol)) * float(np.abs(values).max())
    passed = bool(values.min() >= low - room and values.max() <= high + room)
    number = f"{values.min():.10g} … {values.max():.10g}"
    label = f"{curves.symbol(sol, name)} between its bounds"
    return Check(label, number, f"{low:.10g} … {high:.10g}", why, passed)


def _resolution(sol: Solution) -> Check:
    tails, allowed = sol.dataset["tail"].values, curves.tolerances(sol)
    known = np.isfinite(tails) & np.isfinite(allowed)
    worst = int(np.argmax(np.where(known, tails / allowed, -1.0)))
    kinds = [hasattr(measure, "space") for measure in sol.measures]
    why = "The last tenth of the spectrum, relative in L²: the error of the density at a point."
    if not any(kinds):
        why = "The tail of a panel's positions times its mass: what moments see of it."
    elif not all(kinds):
        why = "Spectral tails while a series, tails of panels after; the largest at t = "
        why += f"{sol.t[worst]:.4g}."
    return _below("resolution: tail", float(tails[worst]), float(allowed[worst]), why)


def _below(name: str, number: float, allowed: float, why: str) -> Check:
    got, limit = tell_apart(number, allowed)
    return Check(name, got, f"≤ {limit}", why, bool(number <= allowed))
