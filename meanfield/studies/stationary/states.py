"""Stationary states under noise: branches over the noise, their stability, phase transitions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from meanfield.arguments import boolean, integer, is_single, number, real_array, shown
from meanfield.dynamics import SA, USA, Isotropic
from meanfield.executors import mapped_by
from meanfield.harmonics import bandwidth
from meanfield.studies.stationary.continuation import Branch, Point, fold, follow
from meanfield.studies.stationary.equation import Equation
from meanfield.studies.stationary.tables import EQUAL, Table, dataset, table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Task:
    """One branch."""

    dynamics: Isotropic
    dim: int
    degree: int
    direction: int
    until: float


def stationary_states(
    dim: int,
    betas: ArrayLike,
    dynamics: Callable[[float], Isotropic] = USA,
    *,
    degrees: int = 1,
    until: float = 0.25,
    executor: Executor | str | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Axisymmetric stationary states over the noise τ, on branches from the uniform state.

    A state solves f = e^{u/τ}/Z, u = W * mu/β (USA), or f = (W * mu)^{1/(βτ)}/Z (SA), W the kernel
    e^{β<x,y>}. The uniform state has a branch of degree k at τ_k = Λ_k/β (USA), Λ_k/(βΛ_0) (SA);
    each is followed through its folds. Under USA, noise makes a gradient flow of the free energy F,
    and of several states at one τ that of the lowest F is what noise selects in the end: where
    that changes from the uniform state to the branch of degree 1, at τ_c, is the phase transition,
    continuous up to `theory.transition_beta`, first order beyond. SA with noise is no gradient flow
    and has no F.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2. On the circle states are even about their peak.
    betas : array_like
        β >= 0 in any order, one or several; <= 700 for USA.
    dynamics : callable
        From β to SA or USA, attractive and without noise.
    degrees : int
        Branches of degrees 1 … `degrees`; of even degrees where d >= 3 both directions, of others
        one, since the other is its mirror image.
    until : float
        Where to end a branch: at τ = `until` τ_k, on the way down. 0.01 <= until < 1.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the branches are computed; here, one after the other, without one.
    progress : bool
        Whether to show a bar that counts branches.

    Returns
    -------
    xarray.Dataset
        Over (beta, branch, point), filled with nan: `tau`, `arclength` (from the uniform state),
        `order` |∫ x dmu|, `moment` ∫ P_k dmu, `energy` E (inf beyond float64) and `energy_share`
        E/E(δ), `entropy` ∫ f log f dσ, `growth_rate` and `unstable`, of axisymmetric perturbations
        only (on S^{d-1} others may grow too; rotations are neutral; growth like e^{-1/τ} counts,
        though its rate is lost in rounding), `residual` in moments on twice the nodes, `event`, '',
        'bifurcation', 'fold', 'equal free energy' or 'end'. Under USA also `free_energy`,
        `free_energy_excess` F - F(σ), and `lowest`, 1 where F is lowest of all states found, nan
        at noises that the branch of degree 1 was not followed to.
        Over (beta, branch): `tau_bifurcation`; `tau_fold`, the largest, nan without; `status`,
        'complete', 'under-resolved' or 'cut short'.
        Over beta: `tau_1`; `nature`, 'continuous' or 'first order' (a fold at τ > τ_1, to
        rounding); under USA `tau_c`, and `jump` of the order parameter there. Where the transition
        is first order, [tau_1, tau_fold] is the window in which both states are stable.

    Raises
    ------
    ValueError
        If an argument is out of range, before any work starts.

    Examples
    --------
    >>> ds = stationary_states(2, 3.0)
    >>> str(ds.nature.item()), round(1 / ds.tau_c.item(), 10), round(ds.jump.item(), 10)
    ('first order', 0.7521877664, 0.4815438131)
    """
    boolean("progress", progress)
    dim = integer("dim", dim, low=2, high=1024)
    several: Any = [betas] if is_single(betas) else betas
    axis = real_array("betas", several, 1)
    degrees = integer("degrees", degrees, low=1)
    if not 0.01 <= number("until", until) < 1.0:
        raise ValueError(f"until must be in [0.01, 1), got {shown(until)}")
    runs = [_attractive(dynamics, float(beta), dim, degrees) for beta in axis]
    ways = [
        (degree, direction)
        for degree in range(1, degrees + 1)
        for direction in ((1, -1) if degree % 2 == 0 and dim > 2 else (1,))
    ]
    tasks = [_Task(one, dim, *way, float(until)) for one in runs for way in ways]
    mapped = mapped_by(executor, _branch, tasks)
    bar = tqdm(
        mapped,
        total=len(tasks),
        disable=not progress,
        desc="stationary states",
    )
    return dataset(list(bar), runs, ways, dim)


def _attractive(dynamics: Any, beta: float, dim: int, degrees: int) -> Isotropic:
    if not callable(dynamics):
        raise ValueError(f"dynamics must be a callable from β to SA or USA, got {shown(dynamics)}")
    if beta < 0.0:
        raise ValueError(f"betas must be >= 0, got {beta:g}")
    one = dynamics(beta)
    if not isinstance(one, (SA, USA)) or one.sign != 1 or one.noise > 0.0:
        raise ValueError(f"dynamics must be attractive SA or USA without noise, got {shown(one)}")
    most = bandwidth(one.beta, dim)
    if degrees > most:
        raise ValueError(
            f"degrees must be <= {most}, the kernel's bandwidth at beta = {beta:g}, got {degrees}"
        )
    return one


def equation_of(dynamics: Isotropic, dim: int, degree: int) -> Equation:
    """The equation in the symmetry of the branch of this degree."""
    step = degree if dim == 2 else 2 - degree % 2
    return Equation(dynamics, dim, step)


def _branch(task: _Task) -> Table:
    """One branch, from the uniform state on."""
    equation = equation_of(task.dynamics, task.dim, task.degree)
    index = task.degree // equation.step - 1
    start = -float(np.log(equation.kappa[index]))

    def excess(point: Point) -> float:
        return equation.numbers(point.b, point.rho, equation.grid(point.nodes))["excess"]

    events: dict[str, Callable[[Point], float]] = {"fold": fold}
    if not task.dynamics.normalised:
        events[EQUAL] = excess
    branch = follow(
        equation, task.degree, task.direction, start - float(np.log(task.until)), events
    )
    first = branch.points[0]
    uniform = replace(first, b=0.0 * first.b, log_rho=start, arclength=0.0, event="bifurcation")
    points = [uniform, *_sensible(branch)]
    return table(task.dynamics, task.degree, equation, points, branch.status)


def _sensible(branch: Branch) -> list[Point]:
    """The points, but not equal free energies before a fold, which are rounding at b near 0."""
    kept, folded = [], False
    for point in branch.points:
        folded |= point.event == "fold"
        if point.event != EQUAL or folded:
            kept.append(point)
    return kept
