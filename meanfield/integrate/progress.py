"""The progress bar of a run on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from tqdm import tqdm

from meanfield.measures import Density

_FORMAT = "{l_bar}{bar}| t = {n:.4g}/{total:.4g} [{elapsed}<{remaining}]{postfix}"
_SECONDS_BETWEEN = 0.2


class ProgressBar:
    """t, energy and resolution of a run, shown a few times a second; nothing when not shown."""

    def __init__(self, t_end: float, shown: bool) -> None:
        self._t_end = t_end
        self._bar = tqdm(total=t_end, disable=not shown, bar_format=_FORMAT)
        self._last = -_SECONDS_BETWEEN

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
        self._bar.close()

    def report(self, run: Any) -> None:
        """Show where the run is."""
        bar = self._bar
        if bar.disable:
            return
        now = bar.format_dict["elapsed"]
        if now - self._last < _SECONDS_BETWEEN and run.t < self._t_end:
            return
        self._last = now
        measure, beta = run.measure(), run.dynamics.beta
        to_dirac = float(np.exp(run.records.log_unit - beta))
        where = measure.space if isinstance(measure, Density) else measure
        share = 2.0 * (beta or 1.0) * run.scaled_energy() * to_dirac
        bar.set_postfix_str(f"E/E(δ) = {share:.4f}, {where}", refresh=False)
        bar.n = run.t
        bar.refresh()
