"""The dataset of two-token correlation: tokens beside closures, and where these break."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtrit

from meanfield.dynamics import USA
from meanfield.studies.correlations.closed import Closed
from meanfield.studies.correlations.equation import CLOSURES
from meanfield.studies.correlations.tokens import Task
from meanfield.theory import growth_rates

Array = NDArray[np.float64]

# a closure has broken where it is off by more than chance alone is in one study of ten thousand,
# all its times and modes taken together, and by more than that
CHANCE, AMOUNT = 1e-4, 0.02


def correlations(
    task: Task, count: int, found: Array, closed: list[Closed], places: Array
) -> xr.Dataset:
    """What `two_token_correlation` returns, from `found` (times, realisations, kmax + bins)."""
    kmax, bins, times = task.kmax, task.bins, task.times
    means, errors = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(count)
    most = break_errors(count, kmax * len(times))
    linear = _linear(task.beta, task.n, times, kmax)
    return xr.Dataset(
        {
            **_of_tokens(means, errors, kmax),
            "linear": (("t", "k"), linear, {"long_name": "(e^{2γ_k t} - 1)/(n - 1)"}),
            **_of_closures(closed, times),
            **_breaks(closed, linear, times, means[:, :kmax], most * errors[:, :kmax]),
        },
        coords={
            "t": times,
            "k": np.arange(1, kmax + 1),
            "closure": list(CLOSURES),
            "x": places,
            "bin": np.pi / bins * (np.arange(bins) + 0.5),
        },
        attrs={
            "dynamics": repr(USA(task.beta)),
            "beta": task.beta,
            "n": task.n,
            "realisations": count,
            "break_errors": most,
            "break_amount": AMOUNT,
        },
    )


def _linear(beta: float, n: int, times: Array, kmax: int) -> Array:
    """(e^{2γ_k t} - 1)/(n - 1), shape (times, kmax), nan where above 1."""
    rates = growth_rates(USA(beta), 2, kmax)[1:]
    # e^{2γt} = n gives 1
    exponents = np.minimum(2.0 * np.outer(times, rates), 2.0 * np.log(n))
    values = np.expm1(exponents) / (n - 1.0)
    return np.where(values <= 1.0, values, np.nan)


def _of_tokens(means: Array, errors: Array, kmax: int) -> dict[str, Any]:
    # from shares of |x| in [0, π] to the even density on a whole turn
    density = 0.5 * (means.shape[1] - kmax) / np.pi
    name = "mean of cos k(θ_i - θ_j)"
    return {
        "correlation": (("t", "k"), means[:, :kmax], {"long_name": name}),
        "standard_error": (("t", "k"), errors[:, :kmax]),
        "histogram": (("t", "bin"), density * means[:, kmax:], {"long_name": "ψ of tokens"}),
        "histogram_error": (("t", "bin"), density * errors[:, kmax:]),
    }


def _of_closures(closed: list[Closed], times: Array) -> dict[str, Any]:
    over = ("closure", "t")
    reached = [times[np.isfinite(one.tail)].max(initial=0.0) for one in closed]
    return {
        "closed": ((*over, "k"), np.array([one.modes for one in closed])),
        "psi": ((*over, "x"), np.array([one.psi for one in closed])),
        "least_density": (over, np.array([one.least for one in closed])),
        "tail": (over, np.array([one.tail for one in closed])),
        "status": ("closure", np.array([one.status for one in closed])),
        "reached": ("closure", np.array(reached), {"long_name": "last time that was resolved"}),
    }


def break_errors(realisations: int, numbers: int) -> float:
    """How many standard errors one of so many means is off by chance, once in 10⁴ studies.

    By Student's t of R - 1 degrees of freedom, and Bonferroni's bound over times and modes.
    """
    return float(-stdtrit(realisations - 1, 0.5 * CHANCE / numbers))


def _breaks(
    closed: list[Closed], linear: Array, times: Array, means: Array, errors: Array
) -> dict[str, Any]:
    """First times at which modes are off; not t = 0, where all of them are exact."""
    allowed = np.maximum(errors, AMOUNT)

    def first(values: Array, is_impossible: bool) -> Array:
        off = np.abs(values - means) > allowed
        # what is above 1 is off, too
        off |= np.isnan(values) & is_impossible
        off &= (times > 0.0)[:, None]
        return np.where(off.any(axis=0), times[off.argmax(axis=0)], np.nan)

    modes = np.array([first(one.modes, one.status == "impossible") for one in closed])
    return {
        "breaks": ("closure", _earliest(modes)),
        "mode_breaks": (("closure", "k"), modes),
        "linear_break": ((), _earliest(first(linear, True))),
    }


def _earliest(times: Array) -> Array:
    """The least over the last axis, nan where all are nan."""
    least = np.where(np.isnan(times), np.inf, times).min(axis=-1)
    return np.where(np.isinf(least), np.nan, least)
