"""How a measure near uniform forms clusters, how long they stand, and when they merge."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import cast

import numpy as np
import xarray as xr

from meanfield._checks import generator, integer, number, several, shown
from meanfield.dynamics.isotropic import Isotropic
from meanfield.evolution.loop import solve
from meanfield.exceptions import warn_unfinished
from meanfield.laws import FourierSeries, Law
from meanfield.measures import FlowMap, LineFlowMap
from meanfield.measures.clusters import RADIUS, clusters
from meanfield.spaces.geometry import circle_angles
from meanfield.studies.executors import pad, run_tasks
from meanfield.theory import check_attention, growth_rates
from meanfield.typing import Array, Integers, Rng

# below this size a mode is in the linear regime
_SMALL = 0.01
# on a plateau clusters hold all but this share of the mass, while t grows by this factor
_OUTSIDE = 1e-2
_STANDS = 1.2


def metastability(
    dynamics: Isotropic | Sequence[Isotropic],
    *,
    law: Law | None = None,
    amplitude: float = 1e-3,
    t_start: float = 0.1,
    t_end: float = 1e4,
    save_at: int = 300,
    radius: float = RADIUS,
    rng: Rng = 0,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Runs from near uniform on the circle through clusters and their mergers.

    Parameters
    ----------
    dynamics : SA or USA, or a sequence of them
        Attractive (sign = 1), β > 0.
    law : Law, optional
        The start, on the circle. Without one it is 1 + Σ a_k cos kθ + b_k sin kθ for k up to three
        times the degree that grows fastest, a_k and b_k normal with deviation `amplitude`.
    amplitude : float
    t_start, t_end : float
        First time saved and last one, in units of the fastest growth, 1/max γ_k.
    save_at : int
        The number of times from `t_start` to `t_end`, in equal steps of log t.
    radius : float
        The radius of `clusters`, in radians.
    rng : int or numpy Generator
        For the start, where no law is given.
    executor : concurrent.futures.Executor or 'processes', optional
        It does the runs; without it and `workers` they are done here, one after the other.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts the runs.

    Returns
    -------
    xarray.Dataset
        Over (run, t), t in units of 1/max γ_k of each run: `time` itself, `energy_share` E/E(δ),
        `n_clusters`, `cluster_angle` and `cluster_mass` (run, t, cluster). Over run:
        `predicted_degree`, argmax γ_k, and `largest_growth_rate`, its γ_k; `grown_degree`, the
        number of clusters when they first hold 99 % of the mass (0 where they do not);
        `growth_rate`, fitted to the mode of this degree while it is small (nan where it never is),
        and `growth_rate_predicted`, its γ_k.
        Over (run, plateau): `plateau_start`, `plateau_end`, `plateau_n_clusters`: times between
        which the clusters are equally many, hold 99 % of the mass and stand for 20 % of the time;
        over (run, merger): `merging_time`, when clusters became fewer. `status` of each run.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> ds = metastability(SA(9.0), t_end=20.0, save_at=10)
    >>> int(ds["grown_degree"][0]), int(ds["predicted_degree"][0])
    (4, 4)
    """
    runs: list[Isotropic] = several("dynamics", dynamics)
    for run in runs:
        check_attention(run, is_balanced=False, attracts=True, has_noise=False)
        if run.beta <= 0.0:
            raise ValueError(f"dynamics must have beta > 0, got {shown(run)}")
    if law is not None and (not isinstance(law, Law) or law.dim != 2):
        raise ValueError(f"law must be one on the circle, got {shown(law)}")
    amplitude = number("amplitude", amplitude, above=0, high=0.1)
    count, radius = integer("save_at", save_at, low=10), number("radius", radius, above=0, high=1)
    t_start = number("t_start", t_start, above=0)
    ticks = np.geomspace(t_start, number("t_end", t_end, above=t_start), count)
    rng = generator("rng", rng)
    tasks = [(run, law or _near_uniform(run, amplitude, rng), ticks, radius) for run in runs]
    results = run_tasks(executor, _run, tasks, "metastability", progress, workers)
    ends = ([table[name].item() for table in results] for name in ("status", "message"))
    warn_unfinished(*ends)
    numbered = [table.reindex(t=np.arange(count)) for table in results]
    ds: xr.Dataset = xr.concat(numbered, "run", join="outer")
    about = {"long_name": "time over that of growth", "comment": "t in units of 1/max γ_k"}
    return ds.drop_vars(["message", *ds.sizes], errors="ignore").assign_coords(
        t=("t", ticks, about),
        beta=("run", np.array([run.beta for run in runs])),
        dynamics=("run", np.array([run.name for run in runs])),
    )


def _near_uniform(dynamics: Isotropic, amplitude: float, rng: np.random.Generator) -> Law:
    degrees = 3 * int(np.argmax(growth_rates(dynamics, 2, _most(dynamics)))) + 2
    cos, sin = amplitude * rng.normal(size=(2, degrees))
    try:
        return FourierSeries(cos=cos, sin=sin)
    except ValueError as error:
        raise ValueError(
            f"amplitude must be smaller for a density >= 0 of {degrees} random modes, got "
            f"{amplitude:g}"
        ) from error


def _most(dynamics: Isotropic) -> int:
    """Return a degree well beyond sqrt(2β), that of the fastest growth."""
    return 8 + int(4.0 * np.sqrt(dynamics.beta))


def _run(task: tuple[Isotropic, Law, Array, float]) -> xr.Dataset:
    dynamics, law, ticks, radius = task
    rates = growth_rates(dynamics, 2, _most(dynamics))
    fastest = int(np.argmax(rates))
    times = ticks / rates[fastest]
    solution = solve(FlowMap(law), dynamics, float(times[-1]), times[:-1])
    # the start is no save of the study, and a run may have ended early
    flows = cast(list[LineFlowMap], solution.measures[1:])
    each_clusters = [clusters(flow, radius) for flow in flows]
    counts = np.array([len(group) for group in each_clusters])
    inside = np.array([float(group.masses.sum()) for group in each_clusters])
    steady = np.where(inside > 1.0 - _OUTSIDE, counts, 0)
    # several modes may be equally large, so the number of clusters says what has formed
    formed = steady[steady > 0]
    grown_degree = int(formed[0]) if len(formed) else 0
    mode = np.array([abs(np.exp(1j * grown_degree * flow.angles) @ flow.weights) for flow in flows])
    times = solution.t[1:]
    mergers = times[1:][(steady[1:] > 0) & (steady[1:] < steady[:-1])]
    plateaus = np.reshape(_plateaus(times, steady), (-1, 3)).T
    of_clusters = "t", "cluster"
    angles = pad([circle_angles(group.centres) for group in each_clusters])
    ds = xr.Dataset(
        {
            "time": ("t", times),
            "energy_share": ("t", solution.dataset["energy_share"].values[1:]),
            "n_clusters": ("t", counts.astype(np.float64)),
            "grown_degree": grown_degree,
            "predicted_degree": fastest,
            "largest_growth_rate": rates[fastest],
            "growth_rate": _fitted_rate(times, mode),
            "growth_rate_predicted": growth_rates(dynamics, 2, grown_degree)[grown_degree],
            "status": solution.status,
            "message": solution.message,
            "cluster_angle": (of_clusters, angles, {"units": "radian"}),
            "cluster_mass": (of_clusters, pad([group.masses for group in each_clusters])),
            "plateau_start": ("plateau", plateaus[0]),
            "plateau_end": ("plateau", plateaus[1]),
            "plateau_n_clusters": ("plateau", plateaus[2]),
            "merging_time": ("merger", mergers),
        }
    )
    # shorter runs are filled up along these numbers
    return ds.assign_coords({name: np.arange(size) for name, size in ds.sizes.items()})


def _fitted_rate(times: Array, mode: Array) -> float:
    """Return the slope of log |mode| while it is small.

    The slope is nan if the mode is small at fewer than three times, or 0.
    """
    large = np.flatnonzero(mode > _SMALL)
    end = large[0] if len(large) else len(mode)
    if end < 3 or not mode[:end].all():
        return float("nan")
    return float(np.polyfit(times[:end], np.log(mode[:end]), 1)[0])


def _plateaus(times: Array, counts: Integers) -> list[tuple[float, float, int]]:
    """Start, end and number of clusters of each stretch of times with equally many clusters."""
    edges = np.flatnonzero(np.diff(counts)) + 1
    stretches = zip([0, *edges], [*edges, len(counts)], strict=True)
    return [
        (float(times[start]), float(times[end - 1]), int(counts[start]))
        for start, end in stretches
        if counts[start] > 0 and times[end - 1] >= _STANDS * times[start]
    ]
