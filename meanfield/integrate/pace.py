"""Whether a run will ever come to its next save."""

from __future__ import annotations

from collections import deque

# steps between looks at the clock, and looks over which steps must have grown
_STEPS = 400
_LOOKS = 5
# more steps than anybody waits for: an hour or more
MOST_STEPS = 1e7


class Pace:
    """How many steps are left to a save, told once step sizes have ceased to grow.

    An explicit method takes steps of at most some 6/λ where the fastest mode is damped at rate λ,
    also where the state is at rest. USA has λ of order e^β: t_end = 1 is e^β of its own times.

    Examples
    --------
    >>> pace = Pace()
    >>> [left for i in range(1, 3001) if (left := pace.left(1e-12 * i, 1.0)) > MOST_STEPS][:1]
    [999999997600.0]
    """

    def __init__(self) -> None:
        self._count = 0
        self._times: deque[float] = deque(maxlen=_LOOKS + 1)

    def left(self, t: float, t_bound: float) -> float:
        """Steps from t, where one more step has come to, to t_bound; 0 where it is not told yet."""
        self._count += 1
        if self._count % _STEPS:
            return 0.0
        self._times.append(t)
        times = list(self._times)
        if len(times) <= _LOOKS:
            return 0.0
        first, last = times[1] - times[0], times[-1] - times[-2]
        if last > 2.0 * first:
            return 0.0
        return (t_bound - t) / last * _STEPS
