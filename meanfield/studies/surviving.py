"""Whether a symmetric start keeps an atom at the antipode of its limit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from tqdm import tqdm

from meanfield.arguments import boolean, number, shown
from meanfield.dynamics import Isotropic
from meanfield.executors import dynamics_of_runs, mapped_by
from meanfield.integrate import solve
from meanfield.laws import FourierSeries
from meanfield.measures import FlowMap, LineFlowMap
from meanfield.tendency import LineField

Array = NDArray[np.float64]

# nodes this near, in radians, belong to an atom
_NEAR = 0.1
# e^{-2β} of the potential at π is still a number
_LARGEST_BETA = 300.0


def surviving_atom(
    dynamics: Isotropic | Sequence[Isotropic],
    *,
    law: FourierSeries | None = None,
    t_end: float = 100.0,
    executor: Executor | str | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Masses near 0 and π at the end of a run from a density that is symmetric about θ = 0.

    Symmetry keeps π at rest. Whether mass stays there depends on β, and not monotonically: a
    density's limit need not be one Dirac, though generic limits are.

    Parameters
    ----------
    dynamics : SA or USA, or a sequence of them
        β <= 300.
    law : FourierSeries, optional
        The start, of cosines only; 1 + cos(θ)/2 if omitted.
    t_end : float
        > 0.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the runs are done; here, one after the other, without one.
    progress : bool
        Whether to show a bar that counts the runs.

    Returns
    -------
    xarray.Dataset
        Over run, with coordinates beta and dynamics: `near_mass` and `far_mass` within 0.1 rad of
        0 and of π, and `spread`, div X at π at the end: what is near π approaches it at that time
        where it is negative, and parts from it where it is positive.

    Raises
    ------
    ValueError
        If an argument is of another kind, before any run starts.
    ArithmeticError
        If a run can't go on.
    """
    runs = dynamics_of_runs(dynamics)
    for one in runs:
        if one.noise > 0.0 or one.beta > _LARGEST_BETA:
            raise ValueError(f"dynamics must be without noise and beta <= 300, got {shown(one)}")
    law = FourierSeries(cos=[0.5]) if law is None else law
    if not isinstance(law, FourierSeries) or law.sin.any():
        raise ValueError(f"law must be a FourierSeries of cosines only, got {shown(law)}")
    t_end = number("t_end", t_end, above=0)
    tasks = [(one, law, t_end) for one in runs]
    mapped = mapped_by(executor, _run, tasks)
    rows = np.array(list(tqdm(mapped, total=len(tasks), disable=not boolean("progress", progress))))
    return xr.Dataset(
        {
            "near_mass": ("run", rows[:, 0], {"long_name": "mass within 0.1 of θ = 0"}),
            "far_mass": ("run", rows[:, 1], {"long_name": "mass within 0.1 of θ = π"}),
            "spread": ("run", rows[:, 2], {"long_name": "div X at θ = π"}),
        },
        coords={
            "beta": ("run", np.array([one.beta for one in runs])),
            "dynamics": ("run", np.array([one.name for one in runs])),
        },
    )


def _run(task: tuple[Isotropic, FourierSeries, float]) -> tuple[float, float, float]:
    dynamics, law, t_end = task
    solution = solve(FlowMap(law), dynamics, t_end, 1)
    if not solution.ending.is_good:
        raise ArithmeticError(f"the run of {dynamics!r}: {solution.message}")
    flow = cast(LineFlowMap, solution.final)
    cosines = np.cos(flow.angles)
    near = float(flow.weights[cosines > np.cos(_NEAR)].sum())
    far = float(flow.weights[cosines < -np.cos(_NEAR)].sum())
    field = LineField(dynamics, 2)
    pole = np.array([np.pi])
    _, spread = field.velocity(field.line.kernel(pole[:, None], flow.angles) @ flow.weights, pole)
    return near, far, float(spread[0])
