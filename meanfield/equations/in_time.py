"""Right-hand sides at a time: the same always, or those of a dynamics with weights in time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, Self, TypeVar

# the stages of an exponential step alternate between two times
_KEPT = 2
# these attributes describe the state of a measure, which means the same at all times
_OF_STATES = {
    *("initial_state", "measure", "allowed_errors", "tail", "space", "flow", "points"),
    *("divergence_at_nodes", "move", "sums", "seconds", "coefficients"),
}


class Steady:
    """A right-hand side that is the same at all times."""

    def at(self, t: float) -> Self:  # noqa: ARG002
        """The right-hand side at a time: this one."""
        return self


T_co = TypeVar("T_co", covariant=True)


class InTime(Generic[T_co]):
    """The right-hand sides of one measure under a dynamics with weights in time.

    They have one and the same state, whose meaning this tells. Rates, and what hangs on weights,
    are to be asked for at a time. Those of the last two times are kept.

    Parameters
    ----------
    build : callable
        The right-hand side of a time.
    start : float
        When the run is, for now.
    """

    def __init__(self, build: Callable[[float], T_co], start: float) -> None:
        self._of, self._start = lru_cache(maxsize=_KEPT)(build), start
        self._first = self._of(start)

    def at(self, t: float) -> T_co:
        """The right-hand side at a time."""
        return self._of(t)

    def forget(self) -> None:
        """Begin anew, as a run does at each save."""
        self._of.cache_clear()

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_STATES:
            raise AttributeError(f"{name!r} is to be asked for at a time")
        return getattr(self._first, name)
