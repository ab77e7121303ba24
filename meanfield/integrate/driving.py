"""From save to save: a run driven to its end, with a checkpoint where one is wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.exceptions import Interrupted
from meanfield.integrate.checkpoints import Checkpoint
from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.hand_over import AnyRun, handed_over
from meanfield.integrate.options import FLOW_MAP
from meanfield.integrate.patience import Patience
from meanfield.integrate.plans import Plan
from meanfield.integrate.progress import ProgressBar
from meanfield.integrate.records import Stop
from meanfield.solution import Ending, Solution

Array = NDArray[np.float64]
Report = Callable[[Any], None]


def driven(run: AnyRun, plan: Plan, checkpoint: Checkpoint, progress: bool | str) -> Solution:
    """Advance from save to save, and say how it ended.

    Raises
    ------
    Interrupted
        On Ctrl-C, with the solution so far, which is in the checkpoint, too.
    Exception
        What a monitor raises at t = 0.
    """
    run, ending, message = _drive(run, plan, checkpoint, progress)
    if run.records.hand_over is not None:
        message += f"; a flow map took over at t = {run.records.hand_over[0]:.6g}"
    resumable = checkpoint.resumption(run) if ending is Ending.INTERRUPTED else None
    solution = plan.solution(run, ending, message, resumable)
    checkpoint.close(solution)
    if ending is Ending.INTERRUPTED:
        raise Interrupted(message, solution)
    return solution


def _drive(
    run: AnyRun, plan: Plan, checkpoint: Checkpoint, progress: bool | str
) -> tuple[AnyRun, Ending, str]:
    try:
        with Patience() as patience, ProgressBar(float(plan.times[-1]), progress) as bar:

            def report(now: AnyRun) -> None:
                bar.report(now)
                patience.check()

            try:
                while True:
                    try:
                        _advance(run, plan.times, report, checkpoint)
                        break
                    except Stop as stop:
                        run = _taken_over(run, report, stop)
                ending, message = run.finished()
            except Stop as stop:
                _save_once(run)
                ending, message = stop.ending, str(stop)
    except KeyboardInterrupt:
        _save_once(run)
        message = f"interrupted at t = {run.t:g}: what was computed so far is kept"
        return run, Ending.INTERRUPTED, message
    return run, ending, message


def _save_once(run: AnyRun) -> None:
    """Save the present state unless it is saved already."""
    if run.records.last_time < run.t:
        # the run ends for a reason of its own, which a monitor's must not replace
        with suppress(Stop):
            run.save()


def _taken_over(run: AnyRun, report: Report, stop: Stop) -> AnyRun:
    """What goes on: a flow map, or where none can the density, with all the room that it may have.

    Raises
    ------
    Stop
        If neither can.
    """
    asked = run.options.on_unresolved
    if not isinstance(run, DensityRun) or (stop.ending, asked) != (Ending.UNDER_RESOLVED, FLOW_MAP):
        raise stop
    try:
        return handed_over(run, report)
    except (ValueError, Stop) as error:
        if run.limit == run.options.largest:
            raise Stop(stop.ending, f"{stop}; a flow map can't take over: {error}") from error
    run.limit = run.options.largest
    return run


def _advance(run: AnyRun, times: Array, report: Report, checkpoint: Checkpoint) -> None:
    if not run.records.measures:
        checkpoint.begin(run)
        run.start()
        checkpoint.keep(run)
    for instant in times[times > max(run.t, run.records.last_time)]:
        run.advance(float(instant), report)
        run.save()
        run.restart()
        checkpoint.keep(run)
