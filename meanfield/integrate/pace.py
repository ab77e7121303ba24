"""Whether a run will ever come to its next save, and the step of one under noise."""

from __future__ import annotations

from collections import deque

import numpy as np

from meanfield.arguments import shown
from meanfield.dynamics import CircleInteraction, Dynamics
from meanfield.measures import Particles

# steps between looks at the clock, and looks over which steps must have grown
_STEPS = 400
_LOOKS = 5
# more steps than anybody waits for: an hour or more
MOST_STEPS = 1e7
# the β up to which e^β over a tolerance of 1e-12 can still be squared, by far
_LARGEST_RATE = 200.0
# of a step under noise in units of the fastest rate, and what a frequency counts as one
_SHARE, _TURNED = 0.02, 0.1


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


def time_unit(dynamics: Dynamics) -> float:
    """1, or e^{-β} for USA at large β, whose rates e^β the solver could not square."""
    is_fast = dynamics.fast and dynamics.beta > _LARGEST_RATE
    return float(np.exp(-dynamics.beta)) if is_fast else 1.0


def default_step(particles: Particles, dynamics: Dynamics) -> float:
    """A time step with weak errors of about 1e-4: short against the flow and the noise.

    Raises
    ------
    ValueError
        If the dynamics has no rates known beforehand.
    """
    if isinstance(dynamics, CircleInteraction):
        rate = max(dynamics.lipschitz, dynamics.noise)
        if particles.frequencies is not None:
            # a rotation is exact, the field on the way an average over it
            rate = max(rate, _TURNED * float(np.abs(particles.frequencies).max()))
        return _SHARE / float(rate)
    if not dynamics.isotropic:
        raise ValueError(f"step must be given for {shown(dynamics)}, got None")
    rate = 1.0 + dynamics.beta
    if dynamics.fast:
        rate *= float(np.exp(dynamics.beta))
    return float(_SHARE / max(rate, (particles.dim - 1) * dynamics.noise))
