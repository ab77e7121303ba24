"""resume: from a checkpoint, or an interrupted run, to its solution."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.arguments import number
from meanfield.integrate.driving import Checkpoint, Plan, driven, previous
from meanfield.integrate.hand_over import AnyRun
from meanfield.integrate.options import Options
from meanfield.integrate.progress import checked_progress
from meanfield.integrate.random_state import generator_from
from meanfield.integrate.records import Monitors, checked_monitors
from meanfield.laws import from_record
from meanfield.measures import AnyMeasure, Density, FlowMap, SphereFlowMap
from meanfield.solution import MissingFileError, Resumption, Solution, load, remove_leftovers


def resume(
    path: str | os.PathLike[str],
    *,
    monitors: Monitors | None = None,
    progress: bool | str = False,
) -> Solution:
    """Go on with a run from the file that `evolve(..., checkpoint=path)` or `Solution.save` wrote.

    The steps are those of a run that was not interrupted, bit for bit: stepping starts anew at
    every save in either case. Checkpoints are written to the same file, and at the end the whole
    solution. A file that is damaged is told by its checksum; the checkpoint before it is used then.

    Parameters
    ----------
    path : str or path-like
    monitors : mapping of str to callable, optional
        Those of the run, which a file can't keep. One that remembers its calls has a method
        `take_up(start, calls)`, as `DistanceTo` has.
    progress : bool or 'lines'
        As for `evolve`.

    Returns
    -------
    Solution
        As it is in the file, where the run had come to its end.

    Raises
    ------
    ValueError
        If the file can't be read, its run can't be gone on with, or monitors are not the run's.

    Examples
    --------
    >>> import meanfield as mf
    >>> resume("no-such-run.nc")
    Traceback (most recent call last):
        ...
    meanfield.solution.netcdf.MissingFileError: there is no file no-such-run.nc
    """
    return resume_from(loaded(path), path, monitors=monitors, progress=progress)


def resume_from(
    saved: Solution,
    path: str | os.PathLike[str],
    *,
    monitors: Monitors | None = None,
    progress: bool | str = False,
) -> Solution:
    """`resume` with what `loaded` has read from the file.

    Raises
    ------
    ValueError
        If the run can't be gone on with, or monitors are not the run's.
    """
    progress = checked_progress(progress)
    remove_leftovers(Path(path))
    if saved.resumption is None:
        previous(Path(path)).unlink(missing_ok=True)
        return saved
    try:
        plan, run = _set_up(saved, saved.resumption, checked_monitors(monitors))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} must hold what resuming needs, but lacks {error!r}") from error
    return driven(run, plan, Checkpoint(plan, Path(path)), progress)


def loaded(path: str | os.PathLike[str]) -> Solution:
    """The solution of a file, or of the checkpoint before it where it is damaged or missing.

    Raises
    ------
    ValueError
        If neither can be read.
    """
    try:
        return load(path)
    except ValueError as error:
        try:
            found = load(previous(Path(path)))
        except ValueError:
            raise error from None
        # between two renamings of a process that was killed there is none
        if not isinstance(error, MissingFileError):
            warnings.warn(f"{error}: the checkpoint before it is used", stacklevel=3)
        return found


def _set_up(saved: Solution, resumption: Resumption, monitors: Monitors) -> tuple[Plan, AnyRun]:
    """The plan of a run and the run, as they were at the last checkpoint."""
    numbers = resumption.numbers
    known = numbers["records"]["monitors"]
    if sorted(known) != sorted(monitors):
        raise ValueError(f"monitors must be those of the run, {known}, got {sorted(monitors)}")
    options = Options(
        rtol=number("rtol", numbers["rtol"], above=0),
        atol=number("atol", numbers["atol"], above=0),
        tail_tol=number("tail_tol", numbers["tail_tol"], above=0),
        largest=int(numbers["largest"]),
        most_nodes=int(numbers["most_nodes"]),
        cluster_radius=number("cluster_radius", numbers["cluster_radius"], low=0),
        monitors={name: monitors[name] for name in known},
    )
    plan = Plan(
        dynamics=saved.dynamics,
        times=resumption.arrays["times"],
        options=options,
        method=str(numbers["method"]),
        step=numbers["step"],
        on_unresolved=str(numbers["on_unresolved"]),
        case=saved.case,
        about=numbers.get("about", {}),
    )
    kept = _up_to(saved, int(numbers["saves"]))
    if numbers["law"] is not None and isinstance(kept.measures[0], Density):
        kept.measures[0].law = from_record(numbers["law"])
    run = plan.run(_beginning(kept.final), _generator(numbers["run"]))
    run.records.restore(kept, numbers["records"])
    run.restore(kept, Resumption(numbers["run"], resumption.arrays))
    for monitor in options.monitors.values():
        # some remember the first measure, and how often they were called
        if hasattr(monitor, "take_up"):
            monitor.take_up(kept.measures[0], len(kept.measures))
    return plan, run


def _beginning(final: AnyMeasure) -> AnyMeasure:
    """What the run is made from: on S^2 the flow map at t = 0, whose nodes are then replaced."""
    return FlowMap(final.law, tol=final.tol) if isinstance(final, SphereFlowMap) else final


def _generator(numbers: dict[str, Any]) -> np.random.Generator | None:
    return generator_from(numbers["rng"]) if "rng" in numbers else None


def _up_to(saved: Solution, saves: int) -> Solution:
    """The solution without what was saved on an interruption, between the times asked for."""
    return Solution(
        t=saved.t[:saves],
        measures=saved.measures[:saves],
        dynamics=saved.dynamics,
        ending=saved.ending,
        message=saved.message,
        dataset=saved.dataset.isel(t=slice(saves)),
        case=saved.case,
        history=saved.history,
    )
