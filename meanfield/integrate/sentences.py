"""The sentences that runs end with: what happened, at which t, with which number, what to try."""

from __future__ import annotations

import numpy as np

from meanfield.arguments import tell_apart
from meanfield.dynamics import Dynamics
from meanfield.spaces import Space


def finished(t: float, steps: int) -> str:
    """Of a run that came to its end."""
    return f"finished at t = {t:g} after {steps} steps"


def failed(t: float, step_size: float, reason: str | None) -> str:
    """Of a run that has no next step."""
    what = (reason or "the state is no longer finite").rstrip(".")
    return (
        f"failed at t = {t:.6g} (step size {step_size:.1e}): {what}; "
        f"try larger tolerances rtol and atol"
    )


def too_far(t: float, step_size: float, left: float, dynamics: Dynamics) -> str:
    """Of a run whose next save is more steps away than anybody waits for."""
    rate = np.exp(-dynamics.beta)
    of_usa = f"; USA runs in times of order exp(-beta) = {rate:.1e}" if dynamics.fast else ""
    return (
        f"failed at t = {t:.6g}: at step sizes of {step_size:.1e}, which do not grow "
        f"any more, the next save is {left:.1e} steps away{of_usa}; try a smaller t_end, or "
        f"more saves to go on all the same"
    )


def unresolved(
    t: float, tail: float, misfit: float | None, tail_tol: float, space: Space, first: str
) -> str:
    """Of a density that its largest space does not resolve; `first` is what to try first."""
    what = "misfit of the law" if tail == misfit else "spectral tail"
    reached, allowed = tell_apart(tail, tail_tol)
    return (
        f"under-resolved at t = {t:.6g}: the {what} reached {reached} > {allowed} on {space}, the "
        f"largest space allowed; try {first}a larger `largest`, a larger `tail_tol` or a smaller "
        f"`t_end`"
    )
