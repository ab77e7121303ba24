"""From save to save: a run driven to its end, with a checkpoint where one is wanted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import AnyDynamics, Dynamics
from meanfield.integrate.density_run import DensityRun
from meanfield.integrate.fixed_steps import token_run
from meanfield.integrate.flow_run import FlowRun
from meanfield.integrate.hand_over import AnyRun, flow_run, handed_over
from meanfield.integrate.noisy_density import NoisyDensityRun
from meanfield.integrate.options import Options
from meanfield.integrate.progress import ProgressBar
from meanfield.integrate.records import Stop
from meanfield.integrate.sphere_run import SphereRun
from meanfield.integrate.token_runs import TokenRun
from meanfield.laws import to_record
from meanfield.measures import AnyMeasure, Density, FlowMap
from meanfield.solution import Ending, Resumption, Solution

Array = NDArray[np.float64]

# share of a run's time that writing checkpoints may take
_SHARE = 0.05


@dataclass(frozen=True)
class Plan:
    """What was asked of a run, apart from its measure: see the arguments of `evolve`."""

    dynamics: AnyDynamics
    times: Array
    options: Options
    method: str
    step: float | None
    on_unresolved: str
    case: str
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def run(self, measure: AnyMeasure, rng: np.random.Generator | None) -> AnyRun:
        """The run of a measure."""
        dynamics = cast(Dynamics, self.dynamics)
        if isinstance(measure, Density):
            density_run = NoisyDensityRun if dynamics.noise > 0.0 else DensityRun
            return density_run(measure, dynamics, self.options)
        if isinstance(measure, FlowMap):
            return flow_run(measure, dynamics, self.options)
        return token_run(
            measure, self.dynamics, self.options, method=self.method, step=self.step, rng=rng
        )

    def solution(
        self, run: AnyRun, ending: Ending, message: str, resumption: Resumption | None
    ) -> Solution:
        """What the run has left so far."""
        dataset = run.records.dataset()
        dataset.attrs |= self._how(run)
        return Solution(
            t=dataset.t.values,
            measures=list(run.records.measures),
            dynamics=self.dynamics,
            ending=ending,
            message=message,
            dataset=dataset,
            case=self.case,
            history=run.history() if isinstance(run, FlowRun | SphereRun) else None,
            resumption=resumption,
        )

    def _how(self, run: AnyRun) -> dict[str, float | str]:
        """How the run was done, for its dataset."""
        options = self.options
        how: dict[str, float | str] = {
            **self.about,
            "rtol": options.rtol,
            "atol": options.atol,
            "tail_tol": options.tail_tol,
            "t_end": float(self.times[-1]),
        }
        if isinstance(run, TokenRun):
            how |= {"method": self.method, "sums": run.sums}
            if run.step is not None:
                how["step"] = run.step
        return how

    def resumption(self, run: AnyRun) -> Resumption:
        """What a run needs to go on from the save that it is at."""
        options, own = self.options, run.snapshot()
        numbers = {
            "saves": len(run.records.measures),
            "records": run.records.snapshot(),
            "law": _law_record(run.records.measures[0]),
            "rtol": options.rtol,
            "atol": options.atol,
            "tail_tol": options.tail_tol,
            "largest": options.largest,
            "most_nodes": options.most_nodes,
            "cluster_radius": options.cluster_radius,
            "method": self.method,
            "step": self.step,
            "on_unresolved": self.on_unresolved,
            "about": dict(self.about),
            "run": own.numbers,
        }
        return Resumption(numbers, own.arrays | {"times": self.times})


class Checkpoint:
    """What a run needs to go on, of its last save, and the file that it is kept in, if any.

    Parameters
    ----------
    plan : Plan
    path : Path, optional
    """

    def __init__(self, plan: Plan, path: Path | None) -> None:
        self.plan, self.path = plan, path
        self.latest: Resumption | None = None
        self._is_ours, self._wait_until = False, 0.0

    def keep(self, run: AnyRun) -> None:
        """Remember the save that a run is at, and write it unless that was done just now."""
        self.latest = self.plan.resumption(run)
        if self.path is None or time.monotonic() < self._wait_until:
            return
        start = time.monotonic()
        message = (
            f"not finished: a checkpoint at t = {run.t:g} of {self.plan.times[-1]:g}; "
            f"resume goes on from there"
        )
        solution = self.plan.solution(run, Ending.INTERRUPTED, message, self.latest)
        try:
            # of two files one is whole, whatever happens to the disk
            if self._is_ours and self.path.exists():
                self.path.replace(previous(self.path))
            solution.save(self.path)
            self._is_ours = True
        except OSError as error:
            warnings.warn(f"no checkpoint at t = {run.t:g}: {error}", stacklevel=2)
        end = time.monotonic()
        # the first loads libraries, too, and tells nothing about the next
        self._wait_until = end + (end - start) / _SHARE if self._wait_until else end

    def close(self, solution: Solution) -> None:
        """Leave the whole solution in the file, and no other."""
        if self.path is None:
            return
        try:
            solution.save(self.path)
        except OSError as error:
            warnings.warn(f"the solution is not saved: {error}", stacklevel=2)
        else:
            previous(self.path).unlink(missing_ok=True)


def previous(path: Path) -> Path:
    """Where the checkpoint before the last is.

    Examples
    --------
    >>> previous(Path("run.nc")).name
    'run.previous.nc'
    """
    return path.with_suffix(f".previous{path.suffix}")


def driven(run: AnyRun, plan: Plan, checkpoint: Checkpoint, progress: bool | str) -> Solution:
    """Advance from save to save, and say how it ended."""
    run, ending, message = _drive(run, plan, checkpoint, progress)
    if run.records.hand_over is not None:
        message += f"; a flow map took over at t = {run.records.hand_over[0]:.6g}"
    resumable = checkpoint.latest if ending is Ending.INTERRUPTED else None
    solution = plan.solution(run, ending, message, resumable)
    checkpoint.close(solution)
    return solution


def _drive(
    run: AnyRun, plan: Plan, checkpoint: Checkpoint, progress: bool | str
) -> tuple[AnyRun, Ending, str]:
    try:
        with ProgressBar(float(plan.times[-1]), progress) as bar:
            try:
                _advance(run, plan.times, bar, checkpoint)
            except Stop as stop:
                if stop.ending != Ending.UNDER_RESOLVED or plan.on_unresolved != "flow-map":
                    raise
                run = _taken_over(run, bar, stop)
                _advance(run, plan.times, bar, checkpoint)
    except Stop as stop:
        _save_once(run)
        return run, stop.ending, str(stop)
    except KeyboardInterrupt:
        _save_once(run)
        message = f"interrupted at t = {run.t:g}: what was computed so far is kept"
        return run, Ending.INTERRUPTED, message
    return run, *run.finished()


def _save_once(run: AnyRun) -> None:
    """Save the present state unless it is saved already."""
    if run.records.last_time < run.t:
        # the run ends for a reason of its own, which a monitor's must not replace
        with suppress(Stop):
            run.save()


def _taken_over(run: AnyRun, bar: ProgressBar, stop: Stop) -> AnyRun:
    try:
        return handed_over(run, bar.report)
    except ValueError as error:
        raise Stop(stop.ending, f"{stop}; a flow map can't take over: {error}") from error


def _advance(run: AnyRun, times: Array, bar: ProgressBar, checkpoint: Checkpoint) -> None:
    if not run.records.measures:
        run.start()
        checkpoint.keep(run)
    for instant in times[times > max(run.t, run.records.last_time)]:
        run.advance(float(instant), bar.report)
        run.save()
        run.restart()
        checkpoint.keep(run)


def _law_record(measure: AnyMeasure) -> dict[str, Any] | None:
    """The law that a density was made from, where a file can keep it."""
    if not isinstance(measure, Density) or measure.law is None:
        return None
    try:
        return to_record(measure.law)
    except ValueError:
        return None
