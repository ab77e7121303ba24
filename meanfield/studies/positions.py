"""How far causal tokens are from the mean-field limit, by how many tokens they see."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr
from scipy.integrate import DOP853

from meanfield._checks import check_type, generator, integer, number, shown
from meanfield.dynamics import AnyDynamics, Attention, Causal, Interaction, Isotropic, Sum
from meanfield.evolution import Solution
from meanfield.functionals.transport.distance import wasserstein
from meanfield.laws.law import Law
from meanfield.measures import AnyMeasure
from meanfield.studies import limit as limits
from meanfield.studies.executors import labelled, run_tasks
from meanfield.typing import Array, ArrayLike, Integers, Rng

# these dynamics may have a mask
Maskable = Isotropic | Interaction | Attention | Sum

# tokens before this one see so few others that their errors fall more slowly
_FITTED_AFTER = 32
_CONFIDENCE = 0.95


def window_ends(n: int) -> Integers:
    """The last token of each window of n tokens: powers of 2, and n in place of the last.

    Examples
    --------
    >>> window_ends(20)
    array([ 1,  2,  4,  8, 20])
    """
    return np.array([*(2 ** np.arange(round(np.log2(n)))), n])


def window_means(ends: Integers, values: Array) -> Array:
    """Mean over the tokens of each window, of values of n tokens (n, ...)."""
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray((sums.T / (ends - starts)).T)


def fitted_slope(tokens: Array, errors: Array) -> Array:
    """Slope of the root mean square error over tokens in logarithms, and its error, shape (2, t).

    Tokens of one run share the tokens that they see, so its windows hang together: the slope's
    error is that of the jackknife, which leaves out whole runs.

    Parameters
    ----------
    tokens : ndarray, shape (window,)
    errors : ndarray, shape (repeat, window, t)
        >= 0. The slope is nan for fewer than two windows or an error of 0, its error for a single
        repeat.

    Examples
    --------
    >>> tokens = np.array([16.0, 64.0])
    >>> fitted_slope(tokens, np.tile(tokens**-0.5, (3, 1))[:, :, None]).ravel()
    array([-0.5,  0. ])
    """
    if len(tokens) < 2:
        return np.full((2, errors.shape[-1]), np.nan)
    squares, repeats, x = errors**2, len(errors), np.log(tokens) - np.log(tokens).mean()
    means = [squares.mean(axis=0)]
    if repeats > 1:
        means += [np.delete(squares, r, axis=0).mean(axis=0) for r in range(repeats)]
    # an error of 0 has the logarithm -inf
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.einsum("w,rwt->rt", x / (x @ x), 0.5 * np.log(means))
    slopes[~np.isfinite(slopes)] = np.nan
    of_all, without_one = slopes[0], slopes[1:]
    if repeats == 1:
        return np.array([of_all, np.full_like(of_all, np.nan)])
    return np.array([of_all, np.sqrt((repeats - 1) * without_one.var(axis=0))])


def _without_mask(dynamics: AnyDynamics) -> Maskable:
    """Return the dynamics under which each token sees all others.

    Raises
    ------
    ValueError
        If it has no mask, or noise.
    """
    terms = dynamics.terms if isinstance(dynamics, Sum) else (dynamics,)
    # tables and masked arrays have an attribute `mask`, too
    are_masked = [isinstance(getattr(term, "mask", None), Causal) for term in terms]
    if not any(are_masked):
        raise ValueError(
            f"dynamics must have a mask, or be a Sum of which a term has one, got {shown(dynamics)}"
        )
    if dynamics.noise > 0.0:
        raise ValueError(f"dynamics must be without noise, got {shown(dynamics)}")
    plain = [
        replace(term, mask=None) if is_masked else term
        for term, is_masked in zip(terms, are_masked, strict=True)
    ]
    single: Maskable = plain[0]
    return Sum(plain, weights=dynamics.weights) if isinstance(dynamics, Sum) else single


# a step of characteristics is its length, and the times and measures of its stages
Step = tuple[float, list[tuple[float, AnyMeasure]]]


def characteristic_steps(law: Law, dynamics: AnyDynamics, run: Solution) -> list[list[Step]]:
    """Steps from each save of a density's run to the next, as many as it took itself.

    The run is done again with a save at each stage, so that a step has the measures there.
    """
    counts = np.maximum(1, np.diff(run.dataset["steps"].values)).tolist()
    legs = []
    for start, end, count in zip(run.t[:-1], run.t[1:], counts, strict=True):
        edges = np.linspace(start, end, count + 1)
        stages = edges[:-1, None] + np.diff(edges)[:, None] * DOP853.C
        # the last stage is where the next step begins, not apart from it by rounding
        stages[:, DOP853.C == 1.0] = edges[1:, None]
        legs.append(stages)
    times = np.unique(np.concatenate([run.t, *map(np.ravel, legs)]))
    fine = limits.density_run(law, dynamics, run.t[-1], times[1:])
    return [
        [(row[-1] - row[0], [(t, fine.at(t)) for t in row.tolist()]) for row in stages]
        for stages in legs
    ]


def follow_characteristics(dynamics: Maskable, steps: list[Step], points: Array) -> Array:
    """Follow unit rows (n, d) along X by the method of Dormand and Prince of order 8."""
    for length, stages in steps:
        velocities: list[Array] = []
        for row, (t, measure) in zip(DOP853.A, stages, strict=True):
            moves = zip(row, velocities, strict=False)
            stage_points = points + length * sum((a * v for a, v in moves), np.zeros_like(points))
            stage_points /= np.linalg.norm(stage_points, axis=1, keepdims=True)
            velocities.append(dynamics.velocity(measure, stage_points, t=t))
        points = points + length * np.tensordot(DOP853.B, velocities, 1)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def errors(
    repeat: limits.Repeat,
    law: Law,
    dynamics: tuple[AnyDynamics, Maskable],
    t: Array,
    limit: tuple[list[AnyMeasure], list[list[Step]]],
    rtol: float,
) -> xr.Dataset:
    """The error of n tokens in each window over t, and `w1` of all of them on the circle.

    The dynamics are that with its mask and that without, the limit has its measures at times t and
    the steps between them.
    """
    (masked, unmasked), (measures, legs), ends = dynamics, limit, window_ends(repeat[0])
    run = limits.follow_tokens(repeat, law, masked, t, rtol)
    places, rows = run[0].points, [np.zeros(len(ends))]
    for leg, tokens in zip(legs, run[1:], strict=True):
        places = follow_characteristics(unmasked, leg, places)
        chords = np.linalg.norm(tokens.points - places, axis=1)
        angles = 2.0 * np.arcsin(np.minimum(0.5 * chords, 1.0))
        rows.append(np.sqrt(window_means(ends, angles**2)))
    ds = xr.Dataset(
        {"error": (("window", "t"), np.stack(rows, axis=1))}, {"window": np.arange(len(ends))}
    )
    if law.dim == 2:
        pairs = zip(run, measures, strict=True)
        ds["w1"] = "t", [float(wasserstein(tokens, mu, 1)) for (_, tokens), mu in pairs]
    return ds


def causal_limit(
    law: Law,
    dynamics: AnyDynamics,
    t_end: float,
    n: int | Sequence[int],
    *,
    repeats: int = 8,
    save_at: int | ArrayLike = 4,
    rng: Rng = 0,
    rtol: float = 1e-8,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Compare n causal tokens drawn from a law with the density that moves without a mask.

    If starts do not depend on positions, all positions follow that density. Token j sees j
    tokens, so that its error falls like j^{-1/2}; with a decay λ it sees about n/λ of them at
    most, and the error falls no more from there.

    Parameters
    ----------
    law : Law
        With a density, on the circle, on S^2, or symmetric about an axis of S^{d-1}.
    dynamics : SA, USA, Interaction, Attention or Sum
        With a mask, or of a sum a term with one; without noise.
    t_end : float
    n : int or sequence of int
        Numbers of tokens, ascending, each >= 2.
    repeats : int
        Independent starts for each n.
    save_at : int or array_like
        As in `evolve`.
    rng : int or numpy Generator
        The same one gives the same result, however many workers there are.
    rtol : float
        Relative tolerance of the tokens' runs.
    executor : concurrent.futures.Executor or 'processes', optional
        It does the runs of tokens; without it and `workers` they are done here, one by one.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts the runs.

    Returns
    -------
    xarray.Dataset
        Over (n, repeat, window, t): `error`, the root mean square over a window of tokens of the
        angle between x_j(t) and the characteristic of the density that starts at x_j(0). Windows
        end at powers of 2, the last at n. Over (n, window): the `last_token` of each, and `token`,
        the harmonic mean of its j; nan where a smaller n has no such window.
        Over (n, window, t): `rms`, the root mean square over repeats too, and its
        `standard_error`. Over (n, t): `slope` of `rms` over `token` in logarithms, after token 32,
        and `slope_error`, by the jackknife over repeats (nan for one).
        On the circle also `w1` (n, repeat, t) of all tokens to the density; over t `rate`, the
        slope of its root mean square over n, with its interval of 95 % from `rate_lower` to
        `rate_upper`, as in `mean_field_limit`.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts, or the limit's run can't continue.

    Examples
    --------
    >>> import meanfield as mf
    >>> law, dynamics = mf.FourierSeries(cos=[0.5]), mf.SA(1.0, mask=mf.Causal())
    >>> ds = causal_limit(law, dynamics, 0.2, 64, repeats=2, save_at=1)
    >>> dict(ds["error"].sizes)
    {'n': 1, 'repeat': 2, 'window': 7, 't': 2}
    """
    counts = limits.ascending_counts(n)
    repeats = integer("repeats", repeats, low=1)
    generator("rng", rng)
    check_type("law", law, Law, "one with dim, pdf and sample")
    unmasked = _without_mask(dynamics)
    rtol = number("rtol", rtol, low=3e-14, high=1e-2)
    limit = limits.density_run(law, unmasked, t_end, save_at)
    steps = characteristic_steps(law, unmasked, limit)
    run = partial(errors, law=law, dynamics=(dynamics, unmasked), t=limit.t, rtol=rtol)
    run = partial(run, limit=(list(limit.measures), steps))
    tasks = limits.spawn_repeats(counts, repeats, rng)
    ds = limits.over_repeats(
        run_tasks(executor, run, tasks, "causal_limit", progress, workers), repeats
    )
    ds = ds.assign_coords(n=counts, t=limit.t).assign(_by_window(counts, ds["error"].values))
    if "w1" in ds:
        rates = limits.fitted_rates(np.array(counts), ds["w1"].values, _CONFIDENCE)
        names = "rate", "rate_lower", "rate_upper"
        ds = ds.assign({name: ("t", row) for name, row in zip(names, rates, strict=True)})
    ds.attrs = {
        "dynamics": repr(dynamics),
        "name": dynamics.name,
        "fitted_after": _FITTED_AFTER,
        "confidence": _CONFIDENCE,
        "limit": limit.message,
    }
    return labelled(ds, _ABOUT)


_ABOUT = {
    "error": ("angle to the characteristic", "root mean square over the tokens of a window"),
    "rms": ("angle to the characteristic", "root mean square over tokens and repeats"),
    "token": ("token j", "harmonic mean of the tokens of a window"),
    "slope": ("slope of rms over j", f"in logarithms, after token {_FITTED_AFTER}"),
    "slope_error": ("standard error of the slope", "by the jackknife over repeats"),
}


def _by_window(counts: list[int], errors: Array) -> dict[str, tuple[tuple[str, ...], Array]]:
    """Return the root mean squares of errors (n, repeat, window, t), and their slopes."""
    size, repeats, windows, times = errors.shape
    last_errors, tokens = np.full((2, size, windows), np.nan)
    slopes = np.empty((size, 2, times))
    for i, n in enumerate(counts):
        ends = window_ends(n)
        last_errors[i, : len(ends)] = ends
        tokens[i, : len(ends)] = 1.0 / window_means(ends, 1.0 / np.arange(1.0, n + 1.0))
        late = np.flatnonzero(ends[:-1] >= _FITTED_AFTER) + 1
        slopes[i] = fitted_slope(tokens[i, late], errors[i][:, late])
    squares = errors**2
    rms = np.sqrt(squares.mean(axis=1))
    # a single repeat gives 0/0, and so does the start, where all errors are 0
    with np.errstate(divide="ignore", invalid="ignore"):
        of_squares = np.sqrt(
            ((squares - rms[:, None] ** 2) ** 2).sum(axis=1) / (repeats - 1) / repeats
        )
        standard_error = np.where(rms > 0.0, of_squares / (2.0 * rms), of_squares)
    return {
        "last_token": (("n", "window"), last_errors),
        "token": (("n", "window"), tokens),
        "rms": (("n", "window", "t"), rms),
        "standard_error": (("n", "window", "t"), standard_error),
        "slope": (("n", "t"), slopes[:, 0]),
        "slope_error": (("n", "t"), slopes[:, 1]),
    }
