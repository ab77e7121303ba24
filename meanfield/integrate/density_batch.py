"""evolve_densities: many densities on the circle or about an axis, stepped together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from tqdm import tqdm

from meanfield.arguments import boolean, integer, number, shown
from meanfield.dynamics import SA, USA
from meanfield.dynamics.heads import check_dim
from meanfield.exceptions import Interrupted, warn_unfinished
from meanfield.harmonics import relative_eigenvalues
from meanfield.integrate.density_lanes import DensityLanes
from meanfield.integrate.evolution import save_times
from meanfield.integrate.members import Member, Table
from meanfield.integrate.options import Options
from meanfield.integrate.pace import time_unit
from meanfield.integrate.patience import Patience
from meanfield.measures import Density
from meanfield.measures.density import on_space
from meanfield.solution import Ending
from meanfield.spaces import Circle, Zonal

# of the states that are stepped together, in numbers: their stages stay in a core's cache
_CHUNK = 1 << 13


def evolve_densities(
    densities: Density | Sequence[Density],
    dynamics: SA | USA | Sequence[SA | USA],
    t_end: float,
    save_at: int | ArrayLike | None = None,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    tail_tol: float = 1e-8,
    largest: int | None = None,
    degree: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Solve (3.4) or (3.8) for many densities at once: many initial laws, many β, or both.

    What `evolve` does for each, with its steps, error control and refinement: every member has a
    time and a step size of its own, and one that outgrows its space goes on in the next with those
    that did so, too. But their transforms are one plan, and Python's share is that of one run for
    some tens of them: hundreds on `Circle(256)` take a fifth of the time, on smaller spaces
    less. One alone is faster by `evolve`.

    Parameters
    ----------
    densities : Density or sequence of Density
        On circles, or on zonal spaces of one dim and axis; sizes may differ.
    dynamics : SA or USA, or a sequence of them
        Without noise. As many as there are densities, unless one of both is for all.
    t_end, save_at, rtol, atol, tail_tol
        As for `evolve`, the same for all.
    largest : int, optional
        Largest size of the space, as for `evolve`.
    degree : int, optional
        The last one whose coefficients are kept, by default the largest of the given spaces:
        densities that were refined have more, which count in all numbers but are not kept.
    progress : bool
        Whether to show a bar of the runs that have ended on standard error.

    Returns
    -------
    xarray.Dataset
        Over (member, t) energy, dissipation, work, mass, min_density, tail, size, steps and
        evaluations, nan where a run did not come to; `coefficients` over (member, t, degree), those
        of `Density.from_coefficients`. Over member `status` and `message` as of a Solution,
        `reached`, the time to which the run has come, and `energy_unit`, 1 unless an energy would
        overflow.

    Raises
    ------
    ValueError
        If an argument is out of range, before any work starts.
    meanfield.exceptions.Interrupted
        On Ctrl-C, a KeyboardInterrupt whose `solution` is the dataset so far.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If runs end before `t_end`, once for all of them.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    >>> found = mf.evolve_densities(mu, [mf.SA(beta=1.0), mf.SA(beta=2.0)], t_end=1.0)
    >>> found.energy[:, -1].values.round(6)
    array([0.716684, 0.668256])
    """
    times = save_times(t_end, save_at)
    members = _members(densities, dynamics)
    sizes = [member.density.space.size for member in members]
    space = cast(Circle | Zonal, members[0].density.space)
    options = Options(
        rtol=number("rtol", rtol, low=3e-14, high=1e-2),
        atol=number("atol", atol, above=0),
        tail_tol=number("tail_tol", tail_tol, low=1e-15, high=1e-2),
        largest=max(*sizes, space.size_limit)
        if largest is None
        else integer("largest", largest, low=max(sizes)),
        most_nodes=0,
        cluster_radius=0.0,
        monitors={},
    )
    boolean("progress", progress)
    if degree is None:
        degree = max(member.density.space.kmax for member in members)
    degree = integer("degree", degree, low=1, high=space.largest)
    table = Table(len(members), times, degree, space.coefficient_type)
    left = None
    try:
        # what is not finite ends a member's run, and no other's
        with np.errstate(all="ignore"), Patience() as patience, _bar(len(members), progress) as bar:

            def report() -> None:
                patience.check()
                if progress:
                    bar.update(sum(member.ending is not None for member in members) - bar.n)

            _run(members, table, options, report)
    except KeyboardInterrupt:
        left = [member for member in members if member.ending is None]
        for member in left:
            message = f"interrupted at t = {member.time:g}: its saves so far are kept"
            member.end(Ending.INTERRUPTED, message)
    about = {"rtol": options.rtol, "atol": options.atol, "tail_tol": options.tail_tol}
    found = table.dataset(members).assign_attrs(about)
    if left is not None:
        message = f"interrupted: {len(members) - len(left)} of {len(members)} runs had ended"
        raise Interrupted(message, found)
    warn_unfinished([str(m.ending) for m in members], [m.message for m in members])
    return found


def _bar(count: int, shown: bool) -> Any:
    return tqdm(total=count, disable=not shown, unit="run")


def _run(members: list[Member], table: Table, options: Options, report: Callable[[], None]) -> None:
    """Level by level: whoever outgrows a space goes on in the next."""
    levels: dict[tuple[int, bool], list[Member]] = {}
    for member in members:
        levels.setdefault(_level(member), []).append(member)
    while levels:
        some = levels.pop(min(levels))
        space = cast(Circle | Zonal, some[0].density.space)
        most = max(1, _CHUNK // some[0].density.coefficients.view(np.float64).size)
        outgrown = DensityLanes(space, some, most, table, options).run(report)
        if outgrown:
            finer = space.doubled()
            for member in outgrown:
                member.density = on_space(member.density, finer)
                levels.setdefault(_level(member), []).append(member)


def _level(member: Member) -> tuple[int, bool]:
    dynamics = member.dynamics
    return member.density.space.size, dynamics.normalised and dynamics.beta > 0.0


def _members(
    densities: Density | Sequence[Density], dynamics: SA | USA | Sequence[SA | USA]
) -> list[Member]:
    starts: list[Density] = _several(densities)
    laws: list[SA | USA] = _several(dynamics)
    if not starts or not laws or (len(starts) != len(laws) and 1 not in (len(starts), len(laws))):
        raise ValueError(
            f"densities and dynamics must be as many as each other, or one for all, got "
            f"{len(starts)} and {len(laws)}"
        )
    first = starts[0]
    for density in starts:
        _check_density(density, first)
    for each in laws:
        _check_dynamics(each, first.dim)
    # refuses a β that there are no multipliers for
    relative_eigenvalues(max(each.beta for each in laws), first.dim, 0)
    count = max(len(starts), len(laws))
    pairs = zip(starts * (count // len(starts)), laws * (count // len(laws)), strict=True)
    return [Member(i, mu, each, time_unit(each)) for i, (mu, each) in enumerate(pairs)]


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Iterable) else [given]


def _check_density(density: Density, first: Density) -> None:
    if type(density) is not Density or not isinstance(density.space, (Circle, Zonal)):
        raise ValueError(
            f"densities must be Density on a Circle or a Zonal space, got {shown(density)}: take "
            f"evolve"
        )
    space, other = density.space, first.space
    is_alike = space.name == other.name and space.dim == other.dim
    if isinstance(space, Zonal) and isinstance(other, Zonal):
        is_alike = is_alike and np.array_equal(space.axis, other.axis)
    if not is_alike:
        raise ValueError(
            f"densities must be on one kind of space, with one dim and axis, got {shown(first)} "
            f"and {shown(density)}"
        )


def _check_dynamics(dynamics: SA | USA, dim: int) -> None:
    if not isinstance(dynamics, (SA, USA)):
        raise ValueError(
            f"dynamics must be SA or USA, got {shown(dynamics)}: take evolve for others"
        )
    if dynamics.noise > 0.0:
        raise ValueError(f"noise must be 0 for a batch, got {dynamics.noise:g}: take evolve")
    check_dim(dynamics, dim)
