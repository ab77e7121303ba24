"""What a run needs to go on after it was killed, and the file that it is kept in."""

from __future__ import annotations

import logging
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from meanfield.evolution.arrays import Resumption, law_record
from meanfield.evolution.options import FLOW_MAP
from meanfield.evolution.run import Run
from meanfield.evolution.solution import Solution
from meanfield.exceptions import UnsavedWarning
from meanfield.laws import Law
from meanfield.measures import AnyMeasure, Density, FlowMap
from meanfield.measures.density import SeriesLaw

_log = logging.getLogger(__name__)
# share of a run's time that writing checkpoints may take, of files that grow
_SHARE = 0.05
_GROWTH = 2.0


class Checkpoint:
    """What a run needs to go on, of its last save, and the file that it is kept in, if any.

    Parameters
    ----------
    path : Path, optional
    latest : Resumption, optional
        What the file has already of the same run, should that be interrupted before its next save.
    earlier : ExitStack, optional
        What keeps the files of an earlier run, to bring them back on an error before the first save
        of this one.
    """

    def __init__(
        self,
        path: Path | None,
        latest: Resumption | None = None,
        earlier: ExitStack | None = None,
    ) -> None:
        self.path = path
        self._earlier = earlier or ExitStack()
        self._latest = latest
        self._law: dict[str, Any] | None = latest.numbers["law"] if latest else None
        self._is_ours, self._wait_until = latest is not None, 0.0
        self._is_failing = False

    def begin(self, run: Run) -> None:
        """Remember what a run begins with, should it be interrupted in its first save."""
        measure = run.system.measure()
        self._latest, self._law = run.resumption(), _law_record(measure)
        law = _law(measure)
        is_flow = run.plan.options.on_unresolved == FLOW_MAP
        needs_law = is_flow or isinstance(measure, FlowMap)
        if self.path is not None and needs_law and law is not None and law_record(law) is None:
            warnings.warn(f"no file can keep {law!r}: give it to `resume` as law=", stacklevel=5)

    def resumption(self, run: Run) -> Resumption | None:
        """All that is needed to go on from the last save that was due."""
        if self._latest is None:
            return None
        if self._law is None and run.recorder.measures:
            self._law = _law_record(run.recorder.measures[0])
        return Resumption(self._latest.numbers | {"law": self._law}, self._latest.arrays)

    def keep(self, run: Run) -> None:
        """Remember the save that a run is at, and write it unless that was done just now."""
        self._earlier.close()
        self._latest, t, t_end = run.resumption(), run.system.t, run.plan.times[-1]
        # at the end the whole solution is written
        if self.path is None or t >= t_end or time.monotonic() < self._wait_until:
            return
        start = time.monotonic()
        message = (
            f"not finished: a checkpoint at t = {t:g} of {t_end:g}; resume continues from there"
        )
        solution = run.solution("interrupted", message, self.resumption(run))
        try:
            self._write(solution, self.path)
        except OSError as error:
            # once, and not at every save until it can be written again
            if not self._is_failing:
                warnings.warn(f"no checkpoint at t = {t:g}: {error}", stacklevel=2)
            self._is_failing = True
        else:
            _log.debug("t = %g of %g: checkpoint %s", t, t_end, self.path)
            self._is_failing = False
        end = time.monotonic()
        # the first loads libraries, too, and tells nothing about the next
        pause = _GROWTH * (end - start) / _SHARE if self._wait_until else 0.0
        self._wait_until = end + pause

    def _write(self, solution: Solution, path: Path) -> None:
        # of two files one is whole, whatever happens to the disk
        if self._is_ours and path.exists():
            path.replace(previous(path))
        try:
            solution.save(path)
        except OSError:
            if self._is_ours and not path.exists() and previous(path).exists():
                previous(path).replace(path)
            raise
        if not self._is_ours:
            previous(path).unlink(missing_ok=True)
        self._is_ours = True

    def close(self, solution: Solution) -> None:
        """Leave the whole solution in the file, and no other."""
        self._earlier.close()
        if self.path is None:
            return
        try:
            solution.save(self.path)
        except OSError as error:
            warnings.warn(f"the solution is not saved: {error}", UnsavedWarning, stacklevel=2)
        else:
            solution._file = self.path
            previous(self.path).unlink(missing_ok=True)


def previous(path: Path) -> Path:
    """Where the checkpoint before the last is.

    Examples
    --------
    >>> previous(Path("run.nc")).name
    '.run.nc.previous'
    """
    return path.with_name(f".{path.name}.previous")


def _law(measure: AnyMeasure) -> Law | None:
    """What a measure was made from, if it was made from a law and not from its series."""
    law: Law | None = getattr(measure, "law", None)
    return None if isinstance(law, SeriesLaw) else law


def _law_record(measure: AnyMeasure) -> dict[str, Any] | None:
    """The law of a density, where a file can keep it; flow maps keep theirs by themselves."""
    law = _law(measure)
    return None if law is None or not isinstance(measure, Density) else law_record(law)
