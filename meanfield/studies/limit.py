"""How far n tokens are from the mean-field limit: errors over n and t, and their rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from meanfield import _checks
from meanfield._checks import generator, integer, number, several, shown, some_of
from meanfield.dynamics.isotropic import Isotropic
from meanfield.evolution import Solution, solve
from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import energy
from meanfield.functionals.transport.distance import wasserstein
from meanfield.laws.law import Law, symmetry_axis
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.studies.executors import drawn_entropy, run_tasks
from meanfield.theory import check_attention, dobrushin_constant
from meanfield.typing import Array, ArrayLike, Integers, Rng

_CONFIDENCE = 0.95
_FEWEST_FOR_A_TEST = 3


def fitted_rates(counts: Integers, errors: Array) -> Array:
    """Slope of the root mean square error in logarithms and its 95 % interval, shape (3, t).

    Logarithms of few repeats are skewed and curved, and their spread is itself known from few. So
    the slope's variance is that of the jackknife, which leaves each repeat out, and its quantile
    Student's, with the degrees of freedom of Welch and Satterthwaite, since each n has a variance
    of its own.

    Parameters
    ----------
    counts : ndarray of int, shape (n,)
    errors : ndarray, shape (n, repeat, t)
        >= 0. The interval is nan for a single repeat, and all three for a single n or an error
        of 0.

    Examples
    --------
    >>> counts = np.array([10, 1000])
    >>> fitted_rates(counts, 1 / counts[:, None, None] ** 0.5).ravel()
    array([-0.5,  nan,  nan])
    """
    # slopes see no factor, and squares might leave double precision
    largest = errors.max(axis=(0, 1))
    squares = (errors / np.where(largest > 0.0, largest, 1.0)) ** 2
    repeats = errors.shape[1]
    rate = _slopes(counts, squares.mean(axis=1))
    if repeats == 1 or len(counts) == 1:
        return np.array([rate, np.full_like(rate, np.nan), np.full_like(rate, np.nan)])
    # apart, since a total less one repeat would lose the digits of small ones
    others = np.stack([np.delete(squares, r, axis=1).sum(axis=1) for r in range(repeats)], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 0.5 * np.log(others)
        gaps = logs - logs.mean(axis=1, keepdims=True)
        variances = (gaps**2).sum(axis=1) * (repeats - 1) / repeats
        shares = _weights(counts)[:, None] ** 2 * variances
        total = shares.sum(axis=0)
        freedom = (repeats - 1) * total**2 / (shares**2).sum(axis=0)
    quantile = stdtrit(np.where(total > 0.0, freedom, 1.0), 0.5 + 0.5 * _CONFIDENCE)
    half = np.asarray(quantile * np.sqrt(total))
    return np.array([rate, rate - half, rate + half])


def _weights(counts: Integers) -> Array:
    """What each value over n counts for in the slope over log n, of two n at least."""
    x = np.log(counts) - np.log(counts).mean()
    return np.asarray(x / (x @ x))


def _slopes(counts: Integers, mean_squares: Array) -> Array:
    """Of log √(mean square) over log n by least squares, for each time."""
    if len(counts) < 2:
        return np.full(mean_squares.shape[1], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 0.5 * np.log(mean_squares)
        slopes = _weights(counts) @ logs
    return np.where(np.isfinite(logs).all(axis=0), slopes, np.nan)


def normality(fluctuations: Array) -> Array:
    """p of Shapiro and Wilk's test over the repeats (repeat, t, axis), shape (t, axis).

    nan for fewer than three repeats, or where they are all equal.
    """
    from scipy.stats import shapiro  # slow to import, and workers need none

    repeats, *shape = fluctuations.shape
    flat = fluctuations.reshape(repeats, -1)
    if repeats < _FEWEST_FOR_A_TEST:
        return np.full(shape, np.nan)
    spread = np.ptp(flat, axis=0)
    found = [
        shapiro(column).pvalue if width > 0.0 else np.nan
        for column, width in zip(flat.T, spread, strict=True)
    ]
    return np.reshape(found, shape)


DISTANCES = ("mmd", "sobolev", "w1", "w2")
STARTS = ("sample", "quantise")


def sobolev_order(dim: int) -> float:
    """-⌈d/2⌉: the largest whole order in which n tokens have a finite norm."""
    return -float((dim + 1) // 2)


def errors(
    task: tuple[int, tuple[int | list[int], int, int]],
    law: Law,
    dynamics: Isotropic,
    limit: tuple[Array, list[AnyMeasure], Array],
    start: str,
    distances: tuple[str, ...],
    rtol: float,
) -> dict[str, Array]:
    """Each quantity of n tokens over t, shape (t,), and the fluctuation of the mean, (t, d).

    The task is n and what the seed is made of; the limit has its times, measures and energies.

    Raises
    ------
    ArithmeticError
        If the tokens' run can't go on.
    """
    (n, (entropy, *key)), (t, measures, limit_energies) = task, limit
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
    draw = Particles.sample if start == "sample" else Particles.quantise
    run = solve(draw(law, n, rng), dynamics, t[-1], t[1:], rtol=rtol)
    if run.status != "finished":
        raise ArithmeticError(f"the run of {n} tokens, repeat {key[1]}: {run.message}")
    pairs = [(run.measures[i], mu) for i, mu in enumerate(measures)]
    beta, order = dynamics.beta, sobolev_order(law.dim)
    measured: dict[str, Callable[[AnyMeasure, AnyMeasure], float]] = {
        "mmd": lambda a, b: mmd(a, b, beta),
        "sobolev": lambda a, b: sobolev(a, b, order),
        "w1": lambda a, b: float(wasserstein(a, b, 1)),
        "w2": lambda a, b: float(wasserstein(a, b, 2)),
    }
    gaps = np.array([a.mean() - b.mean() for a, b in pairs])
    energies = np.array([energy(a, beta) for a, _ in pairs])
    return {name: np.array([measured[name](a, b) for a, b in pairs]) for name in distances} | {
        "energy_error": np.abs(energies - limit_energies),
        "mean_error": np.linalg.norm(gaps, axis=1),
        "fluctuation": np.sqrt(n) * gaps,
    }


# spaces to begin with; a run doubles them as it must
_CIRCLE, _SPHERE, _ZONAL = 64, 31, 31
# tolerances of the limit's run
_RTOL, _ATOL, _TAIL_TOL = 1e-11, 1e-13, 1e-10
# the largest exponent of the bound that is a number
_LARGEST = 700.0


def mean_field_limit(
    law: Law,
    dynamics: Isotropic,
    t_end: float,
    n: int | Sequence[int],
    *,
    repeats: int = 8,
    distances: Sequence[str] | None = None,
    save_at: int | ArrayLike = 4,
    start: str = "sample",
    rng: Rng = 0,
    rtol: float = 1e-8,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Compare runs of n tokens drawn from a law with the run of the law's density.

    Parameters
    ----------
    law : Law
        With a density, on the circle, on S^2, or symmetric about an axis of S^{d-1}.
    dynamics : SA or USA
        Without noise.
    t_end : float
    n : int or sequence of int
        Numbers of tokens, ascending, each >= 2.
    repeats : int
        Independent starts for each n.
    distances : sequence of {'mmd', 'sobolev', 'w1', 'w2'}, optional
        'mmd' in the attention kernel, 'sobolev' of order -⌈d/2⌉ (-1 on the circle, -2 on S^2);
        'w1' and 'w2' on the circle. Default mmd and sobolev, and w1 on the circle.
    save_at : int or array_like
        As in `evolve`.
    start : {'sample', 'quantise'}
        Independent draws, or equal shares of the law's mass with a random shift (circle and S^2).
    rng : int or numpy Generator
        The same one gives the same result, however many workers there are.
    rtol : float
        Of the tokens' runs.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the runs of tokens are done; here, one after the other, without it and `workers`.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts the runs.

    Returns
    -------
    xarray.Dataset
        Over (n, repeat, t): one variable for each distance, `energy_error` |E(mu_n) - E(mu)| and
        `mean_error` |∫ x d(mu_n - mu)|; `fluctuation` (n, repeat, t, axis), √n ∫ x d(mu_n - mu).
        Over (quantity, t): `rate`, the slope of the root mean square error over n in logarithms,
        and its 95 % interval from `rate_lower` to `rate_upper`, Student's with the jackknife's
        variance (nan for one repeat), which covers 92 to 98 % in simulations.
        Over (n, t): `dobrushin`, e^{Ct} times the mean of w1 at t = 0 (Remark 3.3), C in the
        attributes, where w1 is measured. Over (t, axis): `normal_p`, of Shapiro and Wilk's test
        that the fluctuations of the largest n are Gaussian (nan below 3 repeats). Over t:
        `energy`, that of the limit.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts, or the limit's run can't go on.
    """
    counts = _counts(n)
    repeats = integer("repeats", repeats, low=1)
    generator("rng", rng)
    names = _distances(distances, law)
    _checks.one_of("start", start, STARTS)
    _checks.boolean("progress", progress)
    check_attention(dynamics, is_balanced=False, has_noise=False)
    rtol = number("rtol", rtol, low=3e-14, high=1e-2)
    limit = _limit(law, dynamics, t_end, save_at)
    energies = np.array([energy(measure, dynamics.beta) for measure in limit.measures])
    run = partial(errors, law=law, dynamics=dynamics, start=start, distances=names, rtol=rtol)
    run = partial(run, limit=(limit.t, limit.measures, energies))
    entropy = drawn_entropy(rng) if isinstance(rng, np.random.Generator) else int(rng)
    tasks = [(size, (entropy, i, r)) for i, size in enumerate(counts) for r in range(repeats)]
    found = run_tasks(executor, run, tasks, "mean_field_limit", progress, workers)
    shape = (len(counts), repeats)
    over = ("n", "repeat", "t")
    tables = {
        name: np.array([one[name] for one in found]).reshape(*shape, *found[0][name].shape)
        for name in found[0]
    }
    fluctuation = tables.pop("fluctuation")
    measured = list(tables)
    rates = np.array([fitted_rates(np.array(counts), tables[name]) for name in measured])
    constant = dobrushin_constant(dynamics)
    data: dict[str, Any] = {
        **{name: (over, table) for name, table in tables.items()},
        "fluctuation": (
            (*over, "axis"),
            fluctuation,
            {"long_name": "fluctuation of the mean", "comment": "√n ∫ x d(mu_n - mu)"},
        ),
        "rate": (("quantity", "t"), rates[:, 0]),
        "rate_lower": (("quantity", "t"), rates[:, 1]),
        "rate_upper": (("quantity", "t"), rates[:, 2]),
        "normal_p": (("t", "axis"), normality(fluctuation[-1])),
        "energy": ("t", energies),
    }
    if "w1" in tables:
        at_start = tables["w1"][:, :, :1].mean(axis=1)
        later = limit.t > 0.0
        # C may be inf, and then has no product with t = 0
        growth = np.ones(len(limit.t))
        growth[later] = np.exp(np.minimum(constant * limit.t[later], _LARGEST))
        data["dobrushin"] = (("n", "t"), at_start * growth)
    return xr.Dataset(
        data,
        coords={"n": counts, "t": limit.t, "quantity": measured},
        attrs={
            "dynamics": repr(dynamics),
            "name": dynamics.name,
            "beta": dynamics.beta,
            "sign": dynamics.sign,
            "dobrushin_constant": constant,
            "sobolev_order": sobolev_order(limit.final.dim),
            "limit": limit.message,
        },
    )


def _counts(n: int | Sequence[int]) -> list[int]:
    counts = [integer("n", one, low=2) for one in several("n", n)]
    if sorted(set(counts)) != counts:
        raise ValueError(f"n must ascend, got {counts}")
    return counts


def _distances(distances: Sequence[str] | None, law: Law) -> tuple[str, ...]:
    if not isinstance(law, Law):
        raise ValueError(f"law must be one with dim, pdf and sample, got {shown(law)}")
    if distances is None:
        return ("mmd", "sobolev", "w1") if law.dim == 2 else ("mmd", "sobolev")
    # w1 and w2 of tokens are those of the circle
    return tuple(some_of("distances", distances, DISTANCES if law.dim == 2 else DISTANCES[:2]))


def _limit(law: Law, dynamics: Isotropic, t_end: float, save_at: int | ArrayLike) -> Solution:
    """The run of the law's density, or of its flow map from where no space holds it."""
    axis = symmetry_axis(law)
    if law.dim == 2:
        start: Density = Density(Circle(_CIRCLE), law, tail_tol=_TAIL_TOL)
    elif law.dim == 3:
        start = Density(Sphere(_SPHERE), law, tail_tol=_TAIL_TOL)
    elif axis is not None:
        start = Density(Zonal(law.dim, _ZONAL, axis=axis), law, tail_tol=_TAIL_TOL)
    else:
        raise ValueError(
            f"law must be symmetric about an axis in dim = {law.dim}, got {shown(law)}"
        )
    found = solve(start, dynamics, t_end, save_at, rtol=_RTOL, atol=_ATOL)
    if not found.success:
        raise ValueError(f"t_end must be smaller for the limit of {shown(law)}: {found.message}")
    return found
