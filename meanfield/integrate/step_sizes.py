"""From the errors of steps to the size of the next one."""

from __future__ import annotations

import math

# a margin, and how far the size of a step may fall
_SAFETY, _LEAST = 0.9, 0.2
# what the error before counts, in units of 1/k, and what it counts for at least
_BEFORE, _SMALLEST = 0.4, 0.01


class StepSizes:
    """h ← 0.9 h ε^{-1/k} ε'^{0.4/k} after a step of error ε that followed one of error ε'.

    Errors are in units of the tolerance, and of order k in h. The last factor is proportional and
    integral control (Gustafsson 1991; Hairer & Wanner 1996, section IV.2): where a solution gets
    faster, or h is at the limit of stability, the error grows from step to step, and without it
    every second step is refused. It is left out after the first step, and ε' counts for 0.01 at
    least, so that steps may grow fast when they have been short.

    Parameters
    ----------
    order : int
        k.
    most : float
        How far the size of a step may rise.
    """

    def __init__(self, order: int, most: float) -> None:
        self._exponent, self._most = 1.0 / order, most
        self._before, self._limit = 1.0, most

    def next(self, h: float, error: float) -> float:
        """The size to try after a step h, which counts if its error is below 1."""
        if not error < 1.0:
            self._limit = 1.0
            share = _SAFETY * error**-self._exponent if math.isfinite(error) else _LEAST
            return h * max(_LEAST, share)
        factor = self._limit
        if error > 0.0:
            share = error * self._before**-_BEFORE
            factor = min(factor, _SAFETY * share**-self._exponent)
        self._before, self._limit = max(error, _SMALLEST), self._most
        return h * factor
