"""evolve_batch: many independent sets of tokens, stepped together in chunks that fit the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from meanfield._checks import ascending, norm_tolerance, number, real_array, shown
from meanfield.dynamics import SA, USA, Attention
from meanfield.equations.batch import BatchTendency, GramBatch, batch_tendency
from meanfield.equations.rates import NOT_FINITE
from meanfield.evolution.settings import LEAST_RTOL
from meanfield.evolution.steppers import ExplicitSteps, LooseSteps
from meanfield.exceptions import Interrupted
from meanfield.typing import Array, ArrayLike, NDArray

# the arrays of a chunk have so many numbers: a dozen stages of them stay in a core's cache
_CHUNK = 1 << 14
# from this tolerance on steps of order 5 are faster than steps of order 8
_LOOSE = 1e-6
# an observation of inner products, in any type of number
Observed = NDArray[Any]
# so many states between steps are formed by one product
_TIMES = 8


def evolve_batch(
    points: ArrayLike,
    dynamics: SA | USA | Attention,
    times: ArrayLike,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    form: str = "auto",
    observe: Callable[[Array], object] | None = None,
    settled: Callable[[object], bool] | None = None,
) -> Observed:
    """Follow r independent repeats of n tokens of equal weight, (3.1), and observe them.

    Steps are those of DOP853, values between them those of its dense output of order 7; from
    rtol = 1e-6 on they are those of the pair of Dormand & Prince of order 5, with one of order 4. A
    step of a chunk is judged by the root mean square of all its errors.

    Parameters
    ----------
    points : array_like, shape (r, n, d)
        Unit rows at t = 0.
    dynamics : SA, USA or Attention
        Without noise; β <= 300 for USA.
    times : array_like
        Ascending, >= 0.
    rtol, atol : float
        Relative and absolute tolerance of a step, for each coordinate or inner product.
    form : {'auto', 'points', 'gram'}
        What is moved: points, or for SA and USA their inner products, which is less work where
        n <= d.
    observe : callable, optional
        From the inner products (k, n, n) of some of the repeats to an array whose first axis
        is theirs; the inner products themselves if omitted.
    settled : callable, optional
        From such an array at one of the times to whether it will never change again.

    Returns
    -------
    ndarray, shape (times, r, ...)
        What was observed.

    Raises
    ------
    ValueError
        If an argument is out of range, before any work starts.
    ArithmeticError
        If a chunk can't be stepped on.
    meanfield.exceptions.Interrupted
        On Ctrl-C, a KeyboardInterrupt whose `solution` has the repeats that had ended, None
        before the first of them.

    Examples
    --------
    >>> gram = evolve_batch([[[1.0, 0.0], [0.0, 1.0]]], SA(beta=0.0), [0.0, 0.5])
    >>> gram[:, 0, 0, 1].round(6)  # tanh(t)
    array([0.      , 0.462117])
    """
    starts = _starts(points)
    times = ascending("times", times)
    if type(dynamics) not in (SA, USA, Attention):
        raise ValueError(f"dynamics must be SA, USA or Attention, got {shown(dynamics)}")
    if dynamics.noise > 0.0:
        raise ValueError(f"noise must be 0 for a batch, got {dynamics.noise:g}")
    if dynamics.dim not in (None, starts.shape[2]):
        raise ValueError(
            f"points must be of the dim of {shown(dynamics)}, got shape {starts.shape}"
        )
    rtol = number("rtol", rtol, low=LEAST_RTOL, high=1e-2)
    atol = number("atol", atol, above=0)
    for name, function in {"observe": observe, "settled": settled}.items():
        if function is not None and not callable(function):
            raise ValueError(f"{name} must be callable, got {shown(function)}")
    count, n, dim = starts.shape
    is_gram = isinstance(batch_tendency(starts[:1], dynamics, form), GramBatch)
    size = max(1, _CHUNK // (n * (n if is_gram else max(n, dim))))
    rows: list[Observed] = []
    try:
        for start in range(0, count, size):
            chunk = batch_tendency(starts[start : start + size], dynamics, form)
            rows.append(_follow(chunk, times, rtol, atol, observe or np.asarray, settled))
    except KeyboardInterrupt:
        n_done = sum(row.shape[1] for row in rows)
        raise Interrupted(
            f"interrupted: {n_done} of {count} repeats were finished",
            np.concatenate(rows, axis=1) if rows else None,
        ) from None
    return np.concatenate(rows, axis=1)


def _follow(
    rate: BatchTendency,
    times: Array,
    rtol: float,
    atol: float,
    observe: Callable[[Array], object],
    settled: Callable[[object], bool] | None,
) -> Observed:
    """Return the observations of one chunk at the times."""

    def field(t: float, state: Array, out: Array | None = None) -> Array:  # noqa: ARG001 (as for every rate)
        out = np.empty_like(state) if out is None else out
        rate(state, out)
        return out

    start = rate.initial_state
    buffer = np.empty((_TIMES, len(start)))
    rows = [_seen(observe, rate.gram(start)) for t in times[:1] if t == 0.0]
    # overflow is reported below with its t, and weights may underflow
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        steps = LooseSteps if rtol >= _LOOSE else ExplicitSteps
        solver = steps(
            field, 0.0, start, times[-1], first_step=None, rtol=rtol, atol=np.array(atol)
        )
        while len(rows) < len(times):
            # a solver whose first step is nan would never end
            reason = solver.step() if np.isfinite(solver.h_abs) else None
            good = np.isfinite(solver.h_abs) and np.isfinite(solver.y).all()
            if solver.status == "failed" or not good:
                why = f"{reason}; try larger tolerances rtol and atol" if reason else NOT_FINITE
                raise ArithmeticError(f"the batch failed at t = {solver.t:.6g}: {why}")
            due = times[len(rows) : np.searchsorted(times, solver.t, side="right")]
            if not due.size:
                continue
            rows += [_seen(observe, rate.gram(state)) for state in _states_at(due, solver, buffer)]
            if settled is not None and settled(rows[-1]):
                rows += [rows[-1]] * (len(times) - len(rows))
    return np.array(rows)


def _seen(observe: Callable[[Array], object], gram: Array) -> Observed:
    """Return a copy of the observation, since states between steps are overwritten."""
    observation = np.array(observe(gram))
    if observation.shape[:1] != gram.shape[:1]:
        raise ValueError(
            f"observe must give an array whose first axis is that of the inner products it is "
            f"given, {gram.shape}, got shape {observation.shape}"
        )
    return observation


def _states_at(times: Array, solver: ExplicitSteps | LooseSteps, buffer: Array) -> Iterator[Array]:
    """Yield states between the ends of a step, a few of them by one product.

    Each is overwritten later.

    Parameters
    ----------
    times : ndarray
    solver : ExplicitSteps or LooseSteps
    buffer : ndarray, shape (count, n)
        Of as many states as are formed at once.
    """
    rows = solver.interpolant()
    weights = solver.interpolation((times - solver.t_old) / (solver.t - solver.t_old))
    for start in range(0, len(times), len(buffer)):
        block = weights[start : start + len(buffer)]
        yield from np.matmul(block, rows, out=buffer[: len(block)])


def _starts(points: ArrayLike) -> Array:
    starts = real_array("points", points, 3)
    _, n, dim = starts.shape
    if n < 2 or dim < 2:
        raise ValueError(f"points must be (r, n, d) with n, d >= 2, got shape {starts.shape}")
    norms = np.sqrt(np.einsum("rij,rij->ri", starts, starts))
    worst = float(norms.flat[np.abs(norms - 1.0).argmax()])
    tolerance = norm_tolerance(points, dim)
    if abs(worst - 1.0) > tolerance:
        raise ValueError(
            f"points must be unit rows (within {tolerance:.2g}), got one of norm {worst:.7g}"
        )
    starts /= norms[:, :, None]
    return starts
