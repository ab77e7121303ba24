"""From a save of a run onwards: `resume` to its end, `state_between` to a time before the next."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from meanfield._checks import integer, number, real_array, shown
from meanfield._records import from_record
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.own import ForgottenDynamics, OwnDynamics, layer_step
from meanfield.dynamics.schedule import within
from meanfield.evolution import settings
from meanfield.evolution.arrays import ForgottenLaw, Resumption, description
from meanfield.evolution.checkpoint import Checkpoint, previous
from meanfield.evolution.files import file_lock, remove_leftovers
from meanfield.evolution.loop import complete
from meanfield.evolution.netcdf import check_suffix, file_path, first_line
from meanfield.evolution.progress import DeferredInterrupt, Progress, checked_progress
from meanfield.evolution.recorder import Monitors, checked_monitors
from meanfield.evolution.run import Plan, Run, advance, check_library
from meanfield.evolution.settings import Settings
from meanfield.evolution.solution import Solution, load, other_versions
from meanfield.evolution.system import AnySystem, Stop
from meanfield.evolution.token_system import generator_from
from meanfield.exceptions import MissingFileError, UnfinishedWarning
from meanfield.laws import LAWS, Law
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, SphereFlowMap

# the dynamics of a run, or None where no energy is followed
D = TypeVar("D", bound=AnyDynamics | None)


class Supplied(TypedDict, total=False):
    """The parts of a run that a file can't keep."""

    monitors: Monitors | None
    law: Law | None
    dynamics: OwnDynamics | None
    energy: OwnDynamics | None


def resume(
    path: str | os.PathLike[str],
    *,
    monitors: Monitors | None = None,
    law: Law | None = None,
    dynamics: OwnDynamics | None = None,
    energy: OwnDynamics | None = None,
    progress: Progress = False,
) -> Solution:
    """Continue a run from the file that `evolve(..., checkpoint=path)` or `Solution.save` wrote.

    The result is the same, bit for bit, as without the interruption: time stepping starts anew at
    every save in either case. Another processor, library or number of threads for products of
    matrices (OPENBLAS_NUM_THREADS) changes last bits. Checkpoints go to the same file, and so does
    the whole solution at the end. If the checksum of the file shows damage, the checkpoint before
    it is used.

    Parameters
    ----------
    path : str or path-like
    law : Law, optional
        The law of the start, if it is of a class of your own, which a file can't store.
    dynamics, energy : object of a user's own class, or `Interaction` by functions, optional
        The dynamics of the run, and that whose energy it follows, if a file can't store them.
    monitors : mapping of str to callable, optional
        The monitors of the run, which a file can't store. A monitor with a memory needs a method
        `begin(start, calls)`, as `DistanceTo` has, which returns the function that the run calls.
        When a run begins, the arguments are None and 0.
    progress : bool, 'lines' or callable
        As for `evolve`.

    Returns
    -------
    Solution
        The solution in the file, if the run was already finished.

    Raises
    ------
    ValueError
        If the file can't be read, its run can't be resumed, another run is writing it, or
        monitors are not the run's.
    meanfield.exceptions.Interrupted
        On Ctrl-C, as `evolve` does.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If the run ends, or had ended, before its `t_end`.

    Examples
    --------
    >>> import meanfield as mf
    >>> resume("no-such-run.nc")
    Traceback (most recent call last):
        ...
    meanfield.exceptions.MissingFileError: there is no file no-such-run.nc
    """
    saved = loaded(path)
    solution = resume_from(
        saved, path, progress, monitors=monitors, law=law, dynamics=dynamics, energy=energy
    )
    if not solution.success:
        warnings.warn(solution.message, UnfinishedWarning, stacklevel=2)
    return solution


def resume_from(
    saved: Solution,
    path: str | os.PathLike[str],
    progress: Progress = False,
    **supplied: Unpack[Supplied],
) -> Solution:
    """`resume` with what `loaded` has read from the file, which warns of no ending.

    Raises
    ------
    ValueError
        If the run can't be resumed, another run writes the file, or monitors are not the
        run's.
    Interrupted
        On Ctrl-C.
    """
    progress = checked_progress(progress)
    place = Path(path).absolute()
    with file_lock(place, "path"):
        remove_leftovers(place)
        if saved.resumption is None:
            if (dynamics := supplied.get("dynamics")) is not None:
                saved.dynamics = _kept_or_given("dynamics", saved.dynamics, saved, dynamics)
            if (energy := supplied.get("energy")) is not None:
                saved.energy = _kept_or_given("energy", saved.energy, saved, energy)
            if place.exists():
                previous(place).unlink(missing_ok=True)
            return saved
        check_suffix("path", place)
        run = restart(saved, path, **supplied)
        if others := other_versions(saved.versions):
            warnings.warn(
                f"{path} was written with {', '.join(others)}: the rest of the run may differ "
                f"from an uninterrupted one in last bits",
                stacklevel=3,
            )
        return complete(run, Checkpoint(place, saved.resumption), progress)


# reading a file that someone has changed may raise any of these
_FAULTS = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError),
    *(OverflowError, ZeroDivisionError, StopIteration),
)


def restart(saved: Solution, path: str | os.PathLike[str], **supplied: Unpack[Supplied]) -> Run:
    """The run of a solution as it was at its last checkpoint."""
    if saved.resumption is None:
        raise ValueError(f"{path} can't be resumed: its run was {saved.status}")
    monitors_of_run = _monitors(saved.resumption, checked_monitors(supplied.get("monitors")))
    dynamics, energy = supplied.get("dynamics"), supplied.get("energy")
    saved.dynamics = _kept_or_given("dynamics", saved.dynamics, saved, dynamics)
    saved.energy = _kept_or_given("energy", saved.energy, saved, energy)
    try:
        plan = _plan(saved, saved.resumption, monitors_of_run)
        return _run(plan, saved, saved.resumption, supplied.get("law"))
    except _FAULTS as error:
        reason = f"{type(error).__name__}: {error}".removeprefix("ValueError: ")
        raise ValueError(f"{path} can't be resumed: {first_line(reason)}") from error


def loaded(path: str | os.PathLike[str]) -> Solution:
    """The solution of a file, or of the checkpoint before it where it is damaged or missing."""
    place = file_path(path)
    try:
        return load(place)
    except ValueError as error:
        try:
            solution = load(previous(place))
        except ValueError:
            raise error from None
        # a process killed between two renamings leaves no file under the name itself
        if not isinstance(error, MissingFileError):
            warnings.warn(f"{error}: the checkpoint before it is used", stacklevel=3)
        return solution


def _monitors(resumption: Resumption, given: Monitors) -> Monitors:
    """Return the monitors of the run in its own order."""
    names = resumption.numbers.get("records", {}).get("monitors", [])
    if sorted(names) != sorted(given):
        raise ValueError(f"monitors must be those of the run, {names}, got {sorted(given)}")
    return {name: given[name] for name in names}


def _kept_or_given(name: str, kept: D, saved: Solution, given: OwnDynamics | None) -> D:
    """Return the dynamics of the run or of its energy from the file.

    A dynamics that a user wrote must be given.
    """
    if not isinstance(kept, ForgottenDynamics):
        if given is not None:
            raise ValueError(
                f"{name} must be None, since the file has {shown(kept)}, got {shown(given)}"
            )
        return kept
    words = None if given is None else description(given)
    if words != kept.text:
        raise ValueError(
            f"{name} must be that of the run, {kept.text}, which no file can keep: hand it in as "
            f"{name}= of mf.resume, got {words}"
        )
    start, end = (saved.dataset.attrs[f"t_{which}"] for which in ("start", "end"))
    supplied: D = within(given, start, end)
    return supplied


def _plan(saved: Solution, resumption: Resumption, monitors: Monitors) -> Plan:
    """Return the plan of the run; everything that was read is checked."""
    numbers = resumption.numbers
    times = real_array("times", resumption.times, 1)
    if (np.diff(times) <= 0.0).any() or not set(saved.t[: numbers["saves"]]) <= set(times):
        raise ValueError(f"times must ascend and hold those that were saved, got {times[:8]}")
    chosen, about = settings.checked(numbers), settings.checked_about(numbers.get("about"))
    return Plan(saved.dynamics, times, chosen, monitors, saved.energy, saved.case, about)


def _run(plan: Plan, saved: Solution, resumption: Resumption, law: Law | None) -> Run:
    """Return the run as it was at the last checkpoint."""
    numbers = resumption.numbers
    saves = integer("saves", numbers["saves"], low=0, high=len(saved.t))
    measure = saved.measures[0]
    check_library(measure, resumption)
    if law is None and numbers["law"] is not None:
        law = from_record(numbers["law"], LAWS)
    if law is not None and type(measure) is Density:
        # the run evaluated the law itself at its start, so its values are restored
        measure = Density(measure.space, law, **measure.run_limits)
        saved.measures = [measure, *saved.measures[1:]]
    state = numbers["run"]
    rng = generator_from(state["rng"]) if "rng" in state else None
    if saves == 0:
        # a run that was interrupted before its first save has nothing to restore
        return Run(plan, plan.system(_beginning(measure, law), rng))
    # a save that an interruption added between the times asked for is left out
    final, last_t = saved.measures[saves - 1], saved.t[saves - 1]
    for name in ("t", "step_size", "work"):
        number(name, state.get(name) or 0.0)
    if state["t"] != last_t or (state.get("step_size") or 0.0) < 0.0:
        raise ValueError(f"t must be {last_t:g}, that of the last save, got {state['t']!r:.40}")
    run = Run(plan, plan.system(_beginning(final, law), rng))
    run.recorder.restore(saved, saves, numbers["records"])
    collapses = numbers["records"]["collapses"]
    run.system.collapses = [(t, int(atoms), gap) for t, atoms, gap in collapses]
    run.system.restore(final, saved.history, state)
    run.recorder.begin(measure, saves)
    return run


def _beginning(final: AnyMeasure, law: Law | None) -> AnyMeasure:
    """The measure that the run starts from: on S^2 the flow map at t = 0, with nodes to replace."""
    if not isinstance(final, (LineFlowMap, SphereFlowMap)):
        return final
    if not isinstance(final.law, ForgottenLaw):
        law = final.law
    elif law is None:
        raise ValueError(f"law must be given, that of the start, which no file can keep, got {law}")
    if isinstance(final, SphereFlowMap):
        return SphereFlowMap(law, tol=final.tol, **final.run_limits)
    final.line = replace(final.line, law=law)
    return final


def state_between(sol: Solution, t: float) -> AnyMeasure:
    """The measure at a time between two saves: the run is done again from the save before.

    Where a flow map took over in between, it is moved from the start of the run, as it was then.

    Raises
    ------
    ValueError
        If the run can't be done again: tokens under noise, or what no file can keep.
    ArithmeticError
        If it does not come to that time.
    """
    attrs = sol.dataset.attrs
    if (step := layer_step(sol.dynamics)) is not None:
        t = float(settings.layer_times(np.array([t, t]), step, ("t", "t"))[0])
        # a saved time is taken if it has the same number of steps
        t = next((s for s in sol.t.tolist() if round(s / step) == round(t / step)), t)
    save = int(np.searchsorted(sol.t, t, side="right")) - 1
    measures: Any = sol.measures
    measure = measures[save]
    if sol.dynamics.noise > 0.0 and not measure.has_density:
        allowed = "a saved time of tokens under noise, which is drawn only once"
        raise ValueError(f"t must be {allowed}, got {t:g}: save more often")
    if isinstance(measure, Density) and attrs.get("hand_over_t", np.inf) <= t:
        measure, save = FlowMap(measures[0]), 0
    tolerances = {name: attrs[name] for name in ("rtol", "atol") if name in attrs}
    # new meshes need the moments since the start
    is_mesh = isinstance(measure, SphereFlowMap)
    again = Settings(**tolerances, t_start=float(sol.t[0 if is_mesh else save]))
    plan = Plan(sol.dynamics, sol.t, again, monitors={}, energy=sol.energy)
    system = _on_mesh(plan, sol, measure, save) if is_mesh else plan.system(measure, None)
    try:
        advance(system, t, lambda _: None, DeferredInterrupt())
    except Stop as stop:
        raise ArithmeticError(f"the run does not reach t = {t:g} again: {stop}") from stop
    state: AnyMeasure = system.measure()
    return state


def _on_mesh(plan: Plan, sol: Solution, flow: SphereFlowMap, save: int) -> AnySystem:
    """Return a flow map on S^2 at a save, with the moments since the start."""
    # the flow map that its run began with, whenever that was
    system = plan.system(SphereFlowMap(flow.law, tol=flow.tol, **flow.run_limits), None)
    if save > 0:
        history: Any = sol.history
        now = float(sol.t[save])
        layer = system.dynamics.layer_number(now)
        remembered = int(np.searchsorted(history.edges, now, side="right")) - 1
        numbers = {name: getattr(system, name) for name in system.kept}
        numbers |= {"t": now, "since": now, "layer": layer, "remembered": remembered}
        system.restore(flow, history, numbers)
    return system
