"""Two runs side by side: their energies, means and distances at common times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from meanfield import _checks
from meanfield._checks import check_type, number
from meanfield.dynamics import AnyDynamics, adapt
from meanfield.dynamics.facts import multiplied_out
from meanfield.dynamics.with_energy import adapt_with, why_no_energy
from meanfield.evolution import Solution
from meanfield.evolution.loop import save_times
from meanfield.functionals.distances import mmd_with_error
from meanfield.functionals.energies import dissipation, dissipation_in_unit, energy, energy_share
from meanfield.functionals.transport.distance import LEAST_GAP, wasserstein
from meanfield.measures import AnyMeasure, Particles
from meanfield.studies.executors import labelled
from meanfield.typing import Array, ArrayLike

DISTANCES = ("mmd", "w1")
# two runs are the same if W_1 is below this, which no figure shows
_SAME = 1e-3
_NUMBERS = {"energy": energy, "energy_share": energy_share, "dissipation": dissipation}
_ABOUT = {
    "energy": (
        "energy",
        "of the dynamics of each run, or the one asked for; of a sum that of all terms together",
    ),
    "energy_share": ("energy share", "energy over that of a Dirac mass"),
    "dissipation": ("dissipation", "rate at which the velocity changes the energy"),
    "mean": ("mean", "∫ x dmu"),
    "mean_difference": ("distance of the means", "|∫ x dmu_a - ∫ x dmu_b|"),
    "energy_difference": ("difference of energy shares", "E_a - E_b over that of a Dirac mass"),
    "mmd": ("mmd of a and b", "(∬ e^{β(<x,y> - 1)} dΔ dΔ)^{1/2}, Δ = mu_a - mu_b"),
    "mmd_error": ("error of the mmd", "estimate of what nodes of flow maps on S^2 do not resolve"),
    "w1": ("Wasserstein distance W_1 of a and b", ""),
    "w1_lower": ("lower bound of W_1", ""),
    "w1_upper": ("upper bound of W_1", ""),
    "w1_proved": ("bounds of W_1 are proved", "1 where they are"),
}


def compare(
    a: Solution,
    b: Solution,
    *,
    save_at: int | ArrayLike | None = None,
    distances: Sequence[str] = DISTANCES,
    beta: float | None = None,
    gap: float | None = 0.1,
    progress: bool = False,
) -> xr.Dataset:
    """Compare two runs at common times; their measures and dynamics may differ.

    Parameters
    ----------
    a, b : Solution
        On the same sphere; each of densities, flow maps or tokens.
    save_at : int or array_like, optional
        The times, or how many equal intervals of the time that both cover: where a run has not
        saved, `Solution.at` does a part of it again. By default those that both have saved.
    distances : sequence of {'mmd', 'w1'}, optional
        Which of them. W_1 takes tenths of a second a time on the circle and about an axis, seconds
        on S^2, and grows with the square of the number of tokens elsewhere.
    beta : float, optional
        β > 0 of the mmd; by default that of the dynamics of `a`, else 1.
    gap : float, optional
        Relative width of the brackets of W_1 on S^2.
    progress : bool, optional
        Whether to show a bar that counts times.

    Returns
    -------
    xarray.Dataset
        Over `t` and, of what each has by itself, `run` ("a" and "b"): `energy`, `energy_share`,
        `dissipation`, where at least one run has them; `mean` and `mean_difference`;
        `energy_difference`, of E/E(δ), where both have the same energy; `mmd` in the kernel
        e^{β(<x,y> - 1)}, with `mmd_error`; `w1` with `w1_lower`, `w1_upper` and `w1_proved`. A
        distance that can't be computed at some times is nan there, and left out if at none it can:
        so is W_1 of flow maps on S^2 with clusters as particles, which would be that of their
        nodes. An attribute such as `energy_missing` or `w1_missing` says at which times, and why.
        The attribute `verdict` has the largest of each difference in one line. Two runs are called
        the same where W_1 is among them at all times and all are below 10⁻³, which no figure shows.
        Without W_1 no difference is seen: an mmd hardly sees high degrees at small β, and equal
        means tell little.

    Raises
    ------
    ValueError
        If the spheres differ, no time is common, or an argument is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> law, dynamics = mf.FourierSeries(cos=[0.5]), mf.SA(beta=2.0)
    >>> a = mf.evolve(mf.Density(mf.Circle(64), law), dynamics, 1.0, 4)
    >>> b = mf.evolve(mf.FlowMap(law), dynamics, 1.0, 2)
    >>> ds = compare(a, b)
    >>> ds.t.values, bool(ds.mmd.max() < 1e-9), ds.attrs["verdict"][:11]
    (array([0. , 0.5, 1. ]), True, 'the same to')
    """
    check_type("a", a, Solution, "a Solution")
    check_type("b", b, Solution, "a Solution")
    if a.final.dim != b.final.dim:
        raise ValueError(
            f"b must be on the sphere of a, in dim = {a.final.dim}, got dim = {b.final.dim}"
        )
    names = _checks.some_of("distances", distances, DISTANCES)
    betas_of_layers = (getattr(layer, "beta", 0.0) for layer in adapt(a.dynamics).representatives)
    default = next((reason for reason in betas_of_layers if reason), 1.0)
    beta = default if beta is None else number("beta", beta, above=0)
    gap = None if gap is None else number("gap", gap, low=LEAST_GAP, high=1)
    _checks.boolean("progress", progress)
    times = _common_times(a, b) if save_at is None else _asked_times(a, b, save_at)
    rows: list[dict[str, object]] = []
    gaps: dict[str, list[tuple[float, str]]] = {name: [] for name in names}
    for t in tqdm(times.tolist(), disable=not progress):
        mu, nu = a.at(t), b.at(t)
        row: dict[str, object] = {
            name: [_number(name, a, mu, t), _number(name, b, nu, t)] for name in _NUMBERS
        }
        row["mean"] = [mu.mean(), nu.mean()]
        for name in names:
            try:
                row |= _distance(name, mu, nu, beta, gap)
            except ValueError as error:
                gaps[name].append((t, _checks.one_line(str(error))))
        rows.append(row)
    ds = _dataset(times, rows, beta)
    energies = [_energy_of(adapt(_owner(run)), a.final.dim) for run in (a, b)]
    if energies[0] == energies[1]:
        ds["energy_difference"] = "t", -ds["energy_share"].diff("run").values[0]
    missing = {name: _reason(reason, len(times)) for name, reason in gaps.items() if reason}
    missing |= {name: lacking for name in _NUMBERS if (lacking := _lacking(ds[name].values, a, b))}
    absent = [name for name, values in ds.data_vars.items() if values.isnull().all()]
    ds = ds.drop_vars(absent)
    ds.attrs |= {
        "title": f"{a.dynamics} on {a.final} (a) and {b.dynamics} on {b.final} (b)",
        "verdict": _verdict(ds),
        **{f"{name}_missing": lacking for name, lacking in missing.items()},
    }
    return labelled(ds, _ABOUT)


def _common_times(a: Solution, b: Solution) -> Array:
    """Return the times of `a` that `b` has saved, too, up to last bits."""
    gaps = np.abs(a.t[:, None] - b.t).min(axis=1)
    times: Array = a.t[gaps <= _checks.time_tolerance(b.t) * max(a.t[-1], b.t[-1])]
    if not times.size or times[-1] == a.t[0] < a.t[-1]:
        raise ValueError(
            f"a and b must have saved at common times after the start, got {len(a.t)} saves from "
            f"t = {a.t[0]:g} to {a.t[-1]:g} and {len(b.t)} from t = {b.t[0]:g} to {b.t[-1]:g}: "
            f"with save_at=10 both are brought to ten times"
        )
    return times


def _asked_times(a: Solution, b: Solution, save_at: int | ArrayLike) -> Array:
    """Return times from the later start to the earlier end."""
    start, end = max(a.t[0], b.t[0]), min(a.t[-1], b.t[-1])
    if not start < end:
        raise ValueError(
            f"a and b must cover a common time, got a from t = {a.t[0]:g} to {a.t[-1]:g} and b "
            f"from t = {b.t[0]:g} to {b.t[-1]:g}"
        )
    return save_times(start, end, save_at)


def _energy_of(dynamics: Any, dim: int) -> tuple[object, ...]:
    """Return a record by which functionals of dynamics are compared; noise does not change it."""
    energy = dynamics.energy_functional
    if energy is None:
        return ()
    if dynamics.varies:
        return energy.symbol, tuple(dynamics.own_terms), dynamics.own_weights
    if energy.parts:
        terms = zip(energy.parts, dynamics.terms, strict=True)
        return tuple((factor, *_energy_of(term, dim)) for (factor, _), term in terms)
    if energy.potential is not None:
        return energy.symbol, replace(dynamics, noise=0.0)
    if energy.functional is not None:
        return energy.symbol, repr(dynamics)
    form = None if energy.form is None else _checks.symmetric("form", energy.form, dim).tolist()
    return energy.symbol, energy.kernel, energy.beta, form


def _owner(sol: Solution) -> AnyDynamics:
    """Return the dynamics that has the energy of a run."""
    return sol.dynamics if sol.energy is None else sol.energy


def _number(name: str, sol: Solution, measure: AnyMeasure, t: float) -> float:
    """Return a number that a run has recorded, computed between its saves; nan if it has none."""
    if name not in sol.dataset:
        return float("nan")
    save = int(np.abs(sol.t - t).argmin())
    if sol.measures[save] is measure:
        return float(sol.dataset[name].values[save])
    if sol.energy is not None and name == "dissipation":
        acting = adapt_with(sol.dynamics, sol.energy).at(t)
        return multiplied_out(*dissipation_in_unit(measure, acting))
    return float(_NUMBERS[name](measure, _owner(sol), t=t))


def _distance(
    name: str, mu: AnyMeasure, nu: AnyMeasure, beta: float, gap: float | None
) -> dict[str, float]:
    """Return the variables of a distance between two measures.

    Raises
    ------
    ValueError
        If it can't be computed for this pair.
    """
    if name == "mmd":
        distance, error = mmd_with_error(mu, nu, beta, scaled=True)
        if not np.isfinite(distance):
            raise ValueError(f"mmd at beta = {beta:g} is {distance} of {mu} and {nu}")
        return {"mmd": distance, "mmd_error": error}
    if any(
        own_error > 0.0 and isinstance(nodes, Particles)
        for nodes, own_error in (mu.for_transport(1.0), nu.for_transport(1.0))
    ):
        raise ValueError(
            f"W_1 of a flow map on S^2 that no series holds counts its nodes as tokens, whose "
            f"spacing hides how near the runs are, got {mu} and {nu}: mf.wasserstein computes it "
            f"nevertheless"
        )
    w1 = wasserstein(mu, nu, 1, gap=gap)
    return {
        "w1": w1.value,
        "w1_lower": w1.lower,
        "w1_upper": w1.upper,
        "w1_proved": float(w1.proved),
    }


def _reason(gaps: list[tuple[float, str]], count: int) -> str:
    """Say at how many times a distance is missing, from when to when, and why at the first."""
    (start, reason), (end, _) = gaps[0], gaps[-1]
    if len(gaps) == count:
        return reason
    return f"at {len(gaps)} of {count} times, from t = {start:g} to {end:g}: {reason}"


def _lacking(values: Array, *runs: Solution) -> str:
    """Say which runs have no numbers in their row of values, and why; "" if all have some."""
    lacking: dict[str, list[str]] = {}
    for run, label, row in zip(runs, ("first", "second"), values, strict=True):
        if not np.isfinite(row).any():
            why = why_no_energy(run.dynamics, run.energy)
            reason = f"followed no energy, {why}" if why else "kept no numbers of it"
            lacking.setdefault(reason, []).append(f"the {label} run")
    return "; ".join(f"{' and '.join(labels)} {reason}" for reason, labels in lacking.items())


def _dataset(times: Array, rows: Sequence[dict[str, object]], beta: float) -> xr.Dataset:
    """Return the numbers of all times as variables."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    dims = "t", "run", "axis"
    ds = xr.Dataset(
        {name: (dims[: values.ndim], values) for name, values in columns.items()},
        {"t": ("t", times, {"long_name": "time t", "units": "1"}), "run": ["a", "b"]},
    ).transpose("run", ...)
    ds["mean_difference"] = "t", np.linalg.norm(ds["mean"].diff("run").values[0], axis=1)
    if "mmd" in ds:
        ds["mmd"].attrs["beta"] = beta
    for name in {"w1", "w1_lower", "w1_upper"} & set(ds):
        ds[name].attrs["units"] = "radian"
    return ds


def _verdict(ds: xr.Dataset) -> str:
    """Say in one line the largest of each distance, and the largest of them by its name."""
    attributes = {
        "mmd": "mmd",
        "w1_upper": "W_1",
        "mean_difference": "distance of the means",
        "energy_difference": "difference of E/E(δ)",
    }
    largest = {name: float(np.abs(ds[name]).max()) for name in attributes if name in ds}
    size, worst = max((value, name) for name, value in largest.items())
    absent = [name for name in ("mmd", "w1_upper") if name not in ds or ds[name].isnull().any()]
    finding = f"the same to {size:.2g}" if size < _SAME else f"{attributes[worst]} up to {size:.2g}"
    if size < _SAME and "w1_upper" in absent:
        finding = f"no difference seen without {' and '.join(attributes[name] for name in absent)}"
    others = (name for name in largest if size < _SAME or name != worst)
    words = ", ".join(f"{attributes[name]} {largest[name]:.2g}" for name in others)
    start, end = ds["t"].values[[0, -1]]
    return f"{finding} at {ds.sizes['t']} times from t = {start:g} to {end:g}: {words}"
