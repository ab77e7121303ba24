"""What a run raises or warns of where it has not come to its end."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["Interrupted", "UnfinishedWarning"]


# how runs end that came to the time that they were asked for
GOOD = ("finished", "clustered")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has ended a run, and `solution` is what it has so far.

    It is a KeyboardInterrupt, so a loop over runs ends with it. In a notebook or at a prompt, what
    the run has is ``sys.last_value.solution`` afterwards. A script that does not catch it ends with
    exit status 1.

    Parameters
    ----------
    message : str
    solution : Solution, xarray.Dataset, FreeTokens or ndarray, optional
        What the function that was interrupted would have returned, as far as it has come.

    Examples
    --------
    >>> import meanfield as mf
    >>> def stop(mu):
    ...     if mu.mean()[0] > 0.3:
    ...         raise KeyboardInterrupt  # as Ctrl-C does
    ...     return mu.mean()[0]
    >>> start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    >>> try:
    ...     mf.evolve(start, mf.SA(beta=1.0), 1.0, monitors={"x": stop})
    ... except mf.exceptions.Interrupted as stopped:
    ...     print(stopped.solution)
    Solution(interrupted, SA(beta=1.0, sign=1, noise=0.0), 10 saves to t = 0.45, Density(...))
    """

    def __init__(self, message: str = "", solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class UnfinishedWarning(UserWarning):
    """A run has ended before the time that it was asked for; its `message` says why."""


def warn_unfinished(statuses: Sequence[str], messages: Sequence[str], stacklevel: int = 3) -> None:
    """Warn once of all runs of a batch that have ended before the time they were asked for."""
    reasons = [
        message for status, message in zip(statuses, messages, strict=True) if status not in GOOD
    ]
    if reasons:
        warnings.warn(
            f"{len(reasons)} of {len(statuses)} runs ended too early, the first of them: "
            f"{reasons[0]}",
            UnfinishedWarning,
            stacklevel=stacklevel,
        )
