"""How far a run has come, on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import numpy as np
from tqdm import tqdm

from meanfield.arguments import shown
from meanfield.measures import Density

LINES = "lines"
_FORMAT = "{l_bar}{bar}| t = {n:.4g}/{total:.4g} [{elapsed}<{remaining}]{postfix}"
_SECONDS_BETWEEN = 0.2
_SECONDS_BETWEEN_LINES = 60.0


def checked_progress(progress: bool | str) -> bool | str:
    """Return `progress` when there is such a way to show it.

    Raises
    ------
    ValueError
        If it is neither a bool nor 'lines'.
    """
    if isinstance(progress, bool) or (isinstance(progress, str) and progress == LINES):
        return progress
    raise ValueError(f"progress must be True, False or {LINES!r}, got {shown(progress)}")


class ProgressBar:
    """t, energy and resolution of a run, a few times a second, or as a line a minute.

    Parameters
    ----------
    t_end : float
    shown : bool or 'lines'
    """

    def __init__(self, t_end: float, shown: bool | str) -> None:
        self._t_end, self._shown = t_end, shown
        # a bar that is not shown would still bring a lock between processes
        self._bar = tqdm(total=t_end, bar_format=_FORMAT) if shown is True else None
        self._start = time.monotonic()
        self._due = self._start + (_SECONDS_BETWEEN_LINES if shown == LINES else 0.0)

    def __enter__(self) -> ProgressBar:
        """Start."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last line standing."""
        if self._bar is not None:
            self._bar.close()

    def report(self, run: Any) -> None:
        """Show where the run is."""
        if not self._shown:
            return
        now = time.monotonic()
        if now < self._due and (self._shown == LINES or run.t < self._t_end):
            return
        if self._bar is None:
            self._due = now + _SECONDS_BETWEEN_LINES
            came = f"t = {run.t:.6g} of {self._t_end:g} after {now - self._start:.0f} s"
            tqdm.write(f"{came}, {_state(run)}", file=sys.stderr)
            return
        self._due = now + _SECONDS_BETWEEN
        self._bar.set_postfix_str(_state(run), refresh=False)
        self._bar.n = run.t
        self._bar.refresh()


def _state(run: Any) -> str:
    """The share of the largest energy, and the space or the flow map."""
    measure, beta = run.measure(), run.dynamics.beta
    to_dirac = float(np.exp(run.records.log_unit - beta))
    where = measure.space if isinstance(measure, Density) else measure
    share = 2.0 * (beta or 1.0) * run.scaled_energy() * to_dirac
    return f"E/E(δ) = {share:.4f}, {where}"
