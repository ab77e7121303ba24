"""What a run needs to continue after it was killed, and the file that keeps it."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from meanfield._checks import shown
from meanfield.evolution.arrays import Resumption, law_record
from meanfield.evolution.files import file_lock, remove_leftovers, set_aside
from meanfield.evolution.netcdf import check_suffix
from meanfield.evolution.run import Run
from meanfield.evolution.settings import FLOW_MAP
from meanfield.evolution.solution import Solution
from meanfield.exceptions import UnsavedWarning
from meanfield.laws import Law
from meanfield.measures import AnyMeasure, Density, FlowMap
from meanfield.measures.density import SeriesLaw

_log = logging.getLogger(__name__)
# checkpoints take at most this share of the time of a run, if files grow by this factor
_SHARE = 0.05
_GROWTH = 2.0


class Checkpoint:
    """The state from which a run can go on after its last save, and the file that keeps it, if any.

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
        self, path: Path | None, latest: Resumption | None = None, earlier: ExitStack | None = None
    ) -> None:
        self.path = path
        self._earlier = earlier or ExitStack()
        self._latest = latest
        self._is_ours, self._wait_until = latest is not None, 0.0
        self._is_failing = False

    def begin(self, run: Run) -> None:
        """Remember what a run begins with, should it be interrupted in its first save."""
        measure = run.system.measure()
        self._latest, law = run.resumption(), _law(measure)
        is_flow = run.plan.settings.on_unresolved == FLOW_MAP
        needs_law = is_flow or isinstance(measure, FlowMap)
        if self.path is not None and needs_law and law is not None and law_record(law) is None:
            warnings.warn(f"no file can keep {law!r}: give it to `resume` as law=", stacklevel=5)

    def resumption(self, run: Run) -> Resumption | None:
        """All that is needed to continue from the last save that was due."""
        if self._latest is None:
            return None
        # a flow map stores its law itself
        measure = (run.recorder.measures or [run.system.measure()])[0]
        law = _law(measure) if isinstance(measure, Density) else None
        record = {"law": None if law is None else law_record(law)}
        return Resumption(self._latest.numbers | record, self._latest.times)

    def keep(self, run: Run) -> None:
        """Remember the save that a run is at, and write it unless that was done just now."""
        self._earlier.close()
        self._latest, t, t_end = run.resumption(), run.system.t, run.plan.times[-1]
        # the whole solution is written at the end
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
            # one warning is enough until checkpoints can be written again
            if not self._is_failing:
                warnings.warn(f"no checkpoint at t = {t:g}: {error}", stacklevel=2)
            self._is_failing = True
        else:
            _log.debug("t = %g of %g: checkpoint %s", t, t_end, self.path)
            self._is_failing = False
        end = time.monotonic()
        # the first write also loads libraries, so its time says nothing about the next
        pause = _GROWTH * (end - start) / _SHARE if self._wait_until else 0.0
        self._wait_until = end + pause

    def _write(self, solution: Solution, path: Path) -> None:
        # the earlier checkpoint stays whole even if the disk damages the new one
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
            solution.file = self.path
            previous(self.path).unlink(missing_ok=True)


@contextmanager
def new_checkpoint(
    path: str | os.PathLike[str] | None, name: str = "checkpoint"
) -> Iterator[Checkpoint]:
    """Inside, a new run has a file to itself, and what an earlier one has left there is away.

    It comes back on an error before the first save of the new run. A kill brings nothing back: what
    is there is then never of an earlier run. A refusal calls the file `name`.

    Raises
    ------
    ValueError
        If it is no name of a result file in a folder that there is, or another run writes it.
    """
    if path is None:
        yield Checkpoint(None)
        return
    place = _place(path, name)
    with file_lock(place, name), ExitStack() as earlier:
        remove_leftovers(place)
        earlier.enter_context(set_aside(place, previous(place)))
        yield Checkpoint(place, earlier=earlier)


def _place(path: str | os.PathLike[str], name: str) -> Path:
    is_file, reason = False, ""
    try:
        is_file = not Path(path).is_dir() and Path(path).parent.is_dir()
    except TypeError:
        # it is no name at all
        pass
    except OSError as error:
        # the system says why it refuses, as for a name that is too long
        reason = f": {error.strerror}"
    if not is_file:
        fault = f"got {shown(path)}{reason}"
        raise ValueError(f"{name} must be the name of a file in a folder that there is, {fault}")
    check_suffix(name, Path(path))
    # a run may change the present folder
    return Path(path).absolute()


def previous(path: Path) -> Path:
    """The path of the checkpoint before the last.

    Examples
    --------
    >>> previous(Path("run.nc")).name
    '.run.nc.previous'
    """
    return path.with_name(f".{path.name}.previous")


def _law(measure: AnyMeasure) -> Law | None:
    """Return the law that a measure was made from, None if it was made from its own series."""
    law: Law | None = getattr(measure, "law", None)
    return None if isinstance(law, SeriesLaw) else law
