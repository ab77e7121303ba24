"""What a user may catch: errors and warnings with a name of their own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

from meanfield._checks import cut, one_line

__all__ = [
    "CaseError",
    "FileInUseError",
    "Interrupted",
    "MissingFileError",
    "UnfinishedWarning",
    "UnsavedWarning",
]

# a message shows at most so many characters of a line: a key of a case may be as long as its file
_LONGEST_LINE = 1000

# how runs end, and which of these came to the time that they were asked for
Status = Literal["finished", "clustered", "under-resolved", "failed", "interrupted"]
GOOD = ("finished", "clustered")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has stopped a run; `solution` has its results so far.

    It is a KeyboardInterrupt, so it also stops a loop over runs. In a notebook or at a prompt,
    ``sys.last_value.solution`` has the results afterwards. A script that does not catch it ends
    with exit status 1.

    Parameters
    ----------
    message : str
    solution : Solution, xarray.Dataset, FreeTokens or ndarray, optional
        The result that the interrupted function would have returned, as far as it has come.

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
    """A run has stopped before its `t_end`; its `message` says why."""


class UnsavedWarning(UserWarning):
    """The solution of a run could not be written to its file."""


class CaseError(ValueError):
    """A case that can't be run: one line with the file, the key, the value and what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(one_line(message), _LONGEST_LINE))


class FileInUseError(ValueError):
    """Another run is writing the result file, or something else has the name of its lock."""


class MissingFileError(FileNotFoundError, ValueError):
    """There is no such file: bad input, like any file that can't be read."""


def warn_unfinished(statuses: Sequence[str], messages: Sequence[str]) -> None:
    """Warn once of all runs of a batch that have stopped before their `t_end`."""
    reasons = [
        message for status, message in zip(statuses, messages, strict=True) if status not in GOOD
    ]
    if reasons:
        warnings.warn(
            f"{len(reasons)} of {len(statuses)} runs ended too early, the first of them: "
            f"{reasons[0]}",
            UnfinishedWarning,
            stacklevel=3,
        )
