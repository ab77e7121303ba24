"""evolve: from a measure, a dynamics and a time to a solution."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, TypedDict, TypeVar, Unpack, overload

import numpy as np

from meanfield._checks import integer, is_single, number, real_array, time_tolerance
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.own import layer_step
from meanfield.dynamics.schedule import within
from meanfield.evolution import settings
from meanfield.evolution.checkpoint import Checkpoint, new_checkpoint
from meanfield.evolution.progress import DeferredInterrupt, Progress, ProgressBar, checked_progress
from meanfield.evolution.recorder import Monitors, checked_monitors
from meanfield.evolution.run import Plan, Run, advance
from meanfield.evolution.settings import Settings
from meanfield.evolution.solution import Solution
from meanfield.evolution.system import Stop
from meanfield.exceptions import Interrupted, UnfinishedWarning
from meanfield.measures import AnyMeasure, Density, FlowMap, OscillatorDensity, Particles
from meanfield.typing import Array, ArrayLike, Rng

_log = logging.getLogger(__name__)
M = TypeVar("M", bound=FlowMap | Particles)


def complete(run: Run, checkpoint: Checkpoint, progress: Progress) -> Solution:
    """Go from save to save, and say how the run ended.

    Raises
    ------
    Interrupted
        On Ctrl-C, with the solution so far, which is in the checkpoint, too.
    Exception
        What a monitor raises at t = 0.
    """
    times, recorder = run.plan.times, run.recorder
    t_end = float(times[-1])
    try:
        with (
            DeferredInterrupt() as interrupt,
            closing(ProgressBar(run.system.t, t_end, progress)) as bar,
        ):
            if outlook := run.system.outlook():
                _log.info("%s", outlook)
                bar.announce(outlook)
            try:
                while True:
                    try:
                        if not recorder.measures:
                            checkpoint.begin(run)
                            run.begin(interrupt)
                            checkpoint.keep(run)
                        for instant in times[times > max(run.system.t, recorder.last_time)]:
                            advance(run.system, float(instant), bar.report, interrupt)
                            run.save(interrupt)
                            checkpoint.keep(run)
                        break
                    except Stop as stop:
                        run.hand_over(stop, bar.report, interrupt)
                status, message = run.system.finished()
            except Stop as stop:
                run.save_once(interrupt)
                status, message = stop.status, str(stop)
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt), DeferredInterrupt() as interrupt:
            # Ctrl-C does not wait for a save that takes long either
            interrupt.note()
            run.save_once(interrupt)
        status = "interrupted"
        message = f"interrupted at t = {run.system.t:g}: what was computed so far is kept"
        if run.is_cut:
            message += ", the last measure without most of its numbers"
    if recorder.hand_over is not None:
        message += f"; a flow map took over at t = {recorder.hand_over[0]:.6g}"
    _log.info("%s", message)
    is_interrupted = status == "interrupted"
    resumption = checkpoint.resumption(run) if is_interrupted else None
    solution = run.solution(status, message, resumption)
    checkpoint.close(solution)
    if is_interrupted:
        raise Interrupted(message, solution)
    return solution


class Asked(TypedDict, total=False):
    """The keywords of `evolve`, beside the file that keeps its run."""

    t_start: float
    rtol: float
    atol: float
    max_step: float | None
    on_unresolved: str | None
    rng: Rng | None
    monitors: Monitors | None
    progress: Progress
    energy: float | AnyDynamics | None


class Keywords(Asked, total=False):
    """All keywords of `evolve`."""

    checkpoint: str | os.PathLike[str] | None


@overload
def evolve(
    measure: OscillatorDensity,
    dynamics: AnyDynamics,
    t_end: float,
    save_at: int | ArrayLike | None = None,
    **asked: Unpack[Keywords],
) -> Solution[OscillatorDensity]: ...
@overload
def evolve(
    measure: Density,
    dynamics: AnyDynamics,
    t_end: float,
    save_at: int | ArrayLike | None = None,
    **asked: Unpack[Keywords],
) -> Solution[Density | FlowMap]: ...
@overload
def evolve(
    measure: M,
    dynamics: AnyDynamics,
    t_end: float,
    save_at: int | ArrayLike | None = None,
    **asked: Unpack[Keywords],
) -> Solution[M]: ...
def evolve(
    measure: AnyMeasure,
    dynamics: AnyDynamics,
    t_end: float,
    save_at: int | ArrayLike | None = None,
    *,
    t_start: float = 0.0,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    max_step: float | None = None,
    on_unresolved: str | None = None,
    rng: Rng | None = None,
    monitors: Monitors | None = None,
    progress: Progress = False,
    checkpoint: str | os.PathLike[str] | None = None,
    energy: float | AnyDynamics | None = None,
) -> Solution[Any]:
    """Solve ∂_t mu + div(X[mu] mu) = 0, (3.4) for SA and (3.8) for USA, from `t_start` to `t_end`.

    The page docs/running.md says how, and docs/limits.md how far β, d and n go.

    Parameters
    ----------
    measure : Density, FlowMap or Particles; OscillatorDensity or Oscillators
        The measure at `t_start`; an OscillatorDensity under a CircleInteraction.
    dynamics : SA, USA, DoublyStochastic, Interaction, Attention, FeedForward, Layers or Kuramoto
        Or Alignment, a Sum of them, a CircleInteraction, a LayerMap for Particles, or an object of
        your own class, see `mf.typing.OwnDynamics`. Noise is for densities and Particles.
    t_end : float
        > `t_start`.
    save_at : int or array_like, optional
        The number of equal intervals (default 20), or the times themselves, ascending in
        [t_start, t_end]; t_start and t_end are always saved.
    t_start : float
        >= 0, the time at which the run begins.
    rtol, atol : float
        Relative and absolute tolerance of a time step, for each coefficient or coordinate. Flow
        maps have a tolerance of their own instead, their `tol`.
    max_step : float, optional
        The largest time step of Particles under noise. Other runs leave it and `rng` aside.
    on_unresolved : {'flow-map', 'stop'}, optional
        How to go on when a space of `max_size` no longer resolves a density: as a `FlowMap` (the
        default where there is one), or not.
    rng : int or numpy Generator, optional
        Needed for Particles with noise. The same seed gives the same bits.
    monitors : mapping of str to callable, optional
        Further numbers of the measure, recorded at every save; see `DistanceTo`.
    progress : bool, 'lines' or callable
        Whether to show a bar, print a line each minute, or call a function with t after every step.
    checkpoint : str or path-like, optional
        NetCDF file (.nc) that keeps the saves so far, from which `resume` continues a run that was
        killed. A file that exists is replaced.
    energy : float or Dynamics, optional
        An energy to follow instead of the dynamics' own: β, for that of SA and USA, or a dynamics
        that has one.

    Returns
    -------
    Solution
        It has the measures of the kind of `measure`; a run of a Density may end as a FlowMap. A run
        that stopped early returns what it has, too; see `status` and `message`.

    Raises
    ------
    ValueError
        If an argument is out of range, or another run writes `checkpoint`, before any work starts.
    meanfield.exceptions.Interrupted
        On Ctrl-C, a KeyboardInterrupt whose `solution` is what the run has so far.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If the run ends before `t_end`, with its `message`.

    Notes
    -----
    Time steps are those of DOP853 (Hairer, Nørsett & Wanner 1993), of order 8; under noise of order
    4 for densities, of weak order 2 for tokens. `balance_error` = (E(t) - E(0) - work)/|E(δ)|
    checks the run where the dynamics has an energy: `energy` is computed from the measure, `work`
    from the velocity.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(beta=1.0), t_end=1.0)
    >>> sol.status, round(float(sol.dataset.energy[-1]), 10)
    ('finished', 0.716683516)
    """
    with new_checkpoint(checkpoint) as checkpoint_of_run:
        solution = solve(
            measure,
            dynamics,
            t_end,
            save_at,
            t_start=t_start,
            rtol=rtol,
            atol=atol,
            max_step=max_step,
            on_unresolved=on_unresolved,
            rng=rng,
            monitors=monitors,
            progress=progress,
            checkpoint=checkpoint_of_run,
            energy=energy,
        )
    if not solution.success:
        warnings.warn(solution.message, UnfinishedWarning, stacklevel=2)
    return solution


def solve(
    measure: AnyMeasure,
    dynamics: AnyDynamics,
    t_end: float,
    save_at: int | ArrayLike | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    case: str = "",
    about: Mapping[str, str | int | float] | None = None,
    **asked: Unpack[Asked],
) -> Solution:
    """`evolve` without its warning: commands and studies report themselves how a run ended.

    The text of a `case` file is kept with the solution, and what there is to say `about` where it
    comes from becomes attributes of the dataset.

    Raises
    ------
    ValueError
        If an argument is out of range, before any work starts.
    TypeError
        If a keyword is none of `evolve`.
    Interrupted
        On Ctrl-C, with what the run has so far.
    """
    if unknown := sorted(asked.keys() - Asked.__annotations__.keys()):
        raise TypeError(f"keywords must be those of mf.evolve, got {', '.join(unknown)}")
    times = save_times(asked.get("t_start", Settings.t_start), t_end, save_at)
    progress, rng = checked_progress(asked.get("progress", False)), asked.get("rng")
    dynamics, energy = (within(each, *times[[0, -1]]) for each in (dynamics, asked.get("energy")))
    followed = settings.checked_energy(measure, energy)
    adapted = settings.check_start(measure, dynamics, times, rng=rng, energy=followed)
    if (step := layer_step(dynamics)) is not None:
        times = settings.layer_times(times, step)
    choice = settings.choose_on_unresolved(measure, adapted, asked.get("on_unresolved"))
    chosen = settings.checked({**vars(Settings()), **asked, "on_unresolved": choice})
    monitors = checked_monitors(asked.get("monitors"))
    tolerances = {} if step or adapted.noise else {"rtol": chosen.rtol, "atol": chosen.atol}
    settings.check_float32(measure, adapted, tolerances)
    plan = Plan(dynamics, times, chosen, monitors, followed, case, settings.checked_about(about))
    return complete(Run(plan, plan.system(measure, rng)), checkpoint or Checkpoint(None), progress)


def save_times(t_start: float, t_end: float, save_at: int | ArrayLike | None) -> Array:
    """t_start, the times of `save_at`, and t_end."""
    t_start = number("t_start", t_start, low=0)
    t_end = number("t_end", t_end, above=t_start)
    save_at = 20 if save_at is None else save_at
    if is_single(save_at):
        return np.linspace(t_start, t_end, integer("save_at", save_at, low=1) + 1)
    times = real_array("save_at", save_at, 1)
    # sums like 0.1 + 0.2 miss an end by their last bits
    for end in (t_start, t_end):
        times[np.abs(times - end) <= time_tolerance(save_at) * t_end] = end
    allowed = f"an integer >= 1 or strictly ascending times in [{t_start:g}, t_end = {t_end:g}]"
    outside = np.flatnonzero((times < t_start) | (times > t_end))
    if outside.size:
        raise ValueError(f"save_at must be {allowed}, got {times[outside[0]]}")
    falls = np.flatnonzero(np.diff(times) <= 0.0)
    if falls.size:
        earlier, other = times[falls[0] : falls[0] + 2]
        raise ValueError(f"save_at must be {allowed}, got {earlier} and then {other}")
    return np.unique(np.concatenate([[t_start], times, [t_end]]))
