"""How far n tokens are from the mean-field limit: errors over n and t, and their rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import product

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from meanfield import _checks
from meanfield._checks import generator, integer, number, several, shown, some_of
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.isotropic import Isotropic
from meanfield.evolution import Solution, solve
from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import energy
from meanfield.functionals.transport.distance import wasserstein
from meanfield.laws.law import Law, symmetry_axis
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal
from meanfield.studies.executors import drawn_entropy, run_tasks
from meanfield.theory import check_attention, dobrushin_constant
from meanfield.typing import Array, ArrayLike, Integers, Rng

# the intervals of all quantities hold together with this probability
_CONFIDENCE = 0.95
_FEWEST_FOR_A_TEST = 3


def fitted_rates(counts: Integers, errors: Array, confidence: float = _CONFIDENCE) -> Array:
    """Slope of the root mean square error in logarithms and its interval, shape (3, t).

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
    confidence : float
        How often an interval by itself holds the slope, in (0, 1).

    Examples
    --------
    >>> counts = np.array([10, 1000])
    >>> fitted_rates(counts, 1 / counts[:, None, None] ** 0.5).ravel()
    array([-0.5,  nan,  nan])
    """
    # a factor does not change slopes, and keeps squares within double precision
    largest = errors.max(axis=(0, 1))
    squares = (errors / np.where(largest > 0.0, largest, 1.0)) ** 2
    repeats, x = errors.shape[1], np.log(counts) - np.log(counts).mean()
    # each sum without a repeat is made by itself: a total less one loses the digits of small ones
    others = np.stack([np.delete(squares, r, axis=1).sum(axis=1) for r in range(repeats)], axis=1)
    # the rate is nan for a single n (0/0), and for an error of 0 or a single repeat (log 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = x / (x @ x)
        means, logs = 0.5 * np.log(squares.mean(axis=1)), 0.5 * np.log(others)
        rate = np.where(np.isfinite(means).all(axis=0), weights @ means, np.nan)
        gaps = logs - logs.mean(axis=1, keepdims=True)
        variances = (gaps**2).sum(axis=1) * (repeats - 1) / repeats
        shares = weights[:, None] ** 2 * variances
        total = shares.sum(axis=0)
        freedom = (repeats - 1) * total**2 / (shares**2).sum(axis=0)
    quantile = stdtrit(np.where(total > 0.0, freedom, 1.0), 0.5 + 0.5 * confidence)
    half = np.asarray(quantile * np.sqrt(total))
    return np.array([rate, rate - half, rate + half])


def normality(fluctuations: Array) -> Array:
    """p of Shapiro and Wilk's test over the repeats (repeat, t, axis), shape (t, axis).

    nan for fewer than three repeats, or where they are all equal.
    """
    differ = np.ptp(fluctuations, axis=0) > 0.0
    statistic = np.full(differ.shape, np.nan)
    if len(fluctuations) >= _FEWEST_FOR_A_TEST and differ.any():
        from scipy.stats import shapiro  # slow to import, and workers need none

        statistic[differ] = shapiro(fluctuations[:, differ], axis=0).pvalue
    return statistic


DISTANCES = ("mmd", "sobolev", "w1", "w2")
STARTS = ("sample", "quantise")


def sobolev_order(dim: int) -> float:
    """-⌈d/2⌉: the largest whole order in which n tokens have a finite norm."""
    return -float((dim + 1) // 2)


# a repeat is a number of tokens and the seed of their start
Repeat = tuple[int, np.random.SeedSequence]


def follow_tokens(
    repeat: Repeat, law: Law, dynamics: AnyDynamics, t: Array, rtol: float, start: str = "sample"
) -> Solution:
    """The run of n tokens of a law, saved at times t.

    Raises
    ------
    ArithmeticError
        If it can't continue.
    """
    n, seed = repeat
    draw = Particles.sample if start == "sample" else Particles.quantise
    run = solve(draw(law, n, np.random.default_rng(seed)), dynamics, t[-1], t[1:], rtol=rtol)
    if run.status != "finished":
        raise ArithmeticError(f"the run of {n} tokens, repeat {seed.spawn_key[1]}: {run.message}")
    return run


def spawn_repeats(counts: list[int], repeats: int, rng: Rng) -> list[Repeat]:
    """So many repeats of each number of tokens, with seeds that do not depend on the executor."""
    entropy = drawn_entropy(rng) if isinstance(rng, np.random.Generator) else int(rng)
    keys = product(range(len(counts)), range(repeats))
    return [(counts[i], np.random.SeedSequence(entropy, spawn_key=(i, r))) for i, r in keys]


def over_repeats(results: list[xr.Dataset], repeats: int) -> xr.Dataset:
    """The results of all repeats over (n, repeat)."""
    groups = [results[start : start + repeats] for start in range(0, len(results), repeats)]
    return xr.concat([xr.concat(part, "repeat") for part in groups], "n", join="outer")


def errors(
    repeat: Repeat,
    law: Law,
    dynamics: Isotropic,
    limit: tuple[Array, Sequence[AnyMeasure], Array],
    start: str,
    distances: tuple[str, ...],
    rtol: float,
) -> xr.Dataset:
    """Each quantity of n tokens over t, and the `fluctuation` of the mean over (t, axis).

    The limit has its times, measures and energies.
    """
    t, measures, limit_energies = limit
    run = follow_tokens(repeat, law, dynamics, t, rtol, start)
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
    return xr.Dataset(
        {name: ("t", [measured[name](a, b) for a, b in pairs]) for name in distances}
        | {
            "energy_error": ("t", np.abs(energies - limit_energies)),
            "mean_error": ("t", np.linalg.norm(gaps, axis=1)),
            "fluctuation": (("t", "axis"), np.sqrt(repeat[0]) * gaps),
        }
    )


# a run begins with spaces of these sizes, and doubles them as it must
_CIRCLE, _SPHERE, _ZONAL = 64, 31, 31
# the limit's run has these tolerances
_RTOL, _ATOL, _TAIL_TOL = 1e-11, 1e-13, 1e-10
# the bound is a number up to this exponent
_LARGEST = 700.0


def mean_field_limit(
    law: Law,
    dynamics: Isotropic,
    t_end: float,
    n: int | Sequence[int],
    *,
    repeats: int = 32,
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
        Over (n, repeat, t): one variable for each distance, `energy_error`, `mean_error` and, along
        an axis, too, `fluctuation` of the mean. Over (quantity, t): `rate`, the power of n, and its
        interval from `rate_lower` to `rate_upper`. Over (n, t): `dobrushin`, where w1 is measured.
        Over (t, axis): `normal_p`. Over t: `energy`, that of the limit. The page docs/studies.md
        says what each is.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts, or the limit's run can't continue.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.laws import FourierSeries
    >>> law = FourierSeries(cos=[0.5])
    >>> ds = mean_field_limit(law, SA(1.0), 0.2, [20, 80], repeats=4, save_at=1, distances=["w1"])
    >>> dict(ds["w1"].sizes)
    {'n': 2, 'repeat': 4, 't': 2}
    """
    counts = ascending_counts(n)
    repeats = integer("repeats", repeats, low=1)
    generator("rng", rng)
    names = _distances(distances, law)
    _checks.one_of("start", start, STARTS)
    _checks.boolean("progress", progress)
    check_attention(dynamics, is_balanced=False, has_noise=False)
    rtol = number("rtol", rtol, low=3e-14, high=1e-2)
    limit = density_run(law, dynamics, t_end, save_at)
    energies = np.array([energy(measure, dynamics.beta) for measure in limit.measures])
    run = partial(errors, law=law, dynamics=dynamics, start=start, distances=names, rtol=rtol)
    run = partial(run, limit=(limit.t, limit.measures, energies))
    tasks = spawn_repeats(counts, repeats, rng)
    results = run_tasks(executor, run, tasks, "mean_field_limit", progress, workers)
    ds = over_repeats(results, repeats)
    measured = [str(name) for name in ds if name != "fluctuation"]
    # Bonferroni's correction is right however the quantities hang together
    each = 1.0 - (1.0 - _CONFIDENCE) / len(measured)
    rates = np.array([fitted_rates(np.array(counts), ds[name].values, each) for name in measured])
    constant, fluctuation = dobrushin_constant(dynamics), ds["fluctuation"]
    fluctuation.attrs |= {"long_name": "fluctuation of the mean", "comment": "√n ∫ x d(mu_n - mu)"}
    ds = ds.assign(
        rate=(("quantity", "t"), rates[:, 0]),
        rate_lower=(("quantity", "t"), rates[:, 1]),
        rate_upper=(("quantity", "t"), rates[:, 2]),
        normal_p=(("t", "axis"), normality(fluctuation.values[-1])),
        energy=("t", energies),
    )
    if "w1" in ds:
        # C may be infinite, and then has no product with t = 0
        is_later = limit.t > 0.0
        exponents = np.multiply(constant, limit.t, out=np.zeros(len(limit.t)), where=is_later)
        growth = np.exp(np.minimum(exponents, _LARGEST))
        ds["dobrushin"] = ("n", "t"), ds["w1"].values[:, :, :1].mean(axis=1) * growth
    ds = ds.assign_coords(n=counts, t=limit.t, quantity=measured)
    joint = f"jointly {100 * _CONFIDENCE:g} % for all quantities at a time"
    for end in "lower", "upper":
        ds[f"rate_{end}"].attrs = {"long_name": f"{end} end of the rate", "comment": joint}
    ds.attrs = {
        "dynamics": repr(dynamics),
        "name": dynamics.name,
        "beta": dynamics.beta,
        "sign": dynamics.sign,
        "confidence": _CONFIDENCE,
        "dobrushin_constant": constant,
        "sobolev_order": sobolev_order(limit.final.dim),
        "limit": limit.message,
    }
    return ds


def ascending_counts(n: int | Sequence[int]) -> list[int]:
    """Numbers of tokens.

    Raises
    ------
    ValueError
        If one is below 2, or they do not ascend.
    """
    counts = [integer("n", count, low=2) for count in several("n", n)]
    if sorted(set(counts)) != counts:
        raise ValueError(f"n must ascend, got {counts}")
    return counts


def _distances(distances: Sequence[str] | None, law: Law) -> tuple[str, ...]:
    _checks.check_type("law", law, Law, "one with dim, pdf and sample")
    if distances is None:
        return ("mmd", "sobolev", "w1") if law.dim == 2 else ("mmd", "sobolev")
    # w1 and w2 of tokens are computed on the circle only
    return tuple(some_of("distances", distances, DISTANCES if law.dim == 2 else DISTANCES[:2]))


def density_run(
    law: Law, dynamics: AnyDynamics, t_end: float, save_at: int | ArrayLike
) -> Solution:
    """The run of the law's density, or of its flow map from where no space holds it.

    Raises
    ------
    ValueError
        If no space has the law, or the run can't continue.
    """
    axis = symmetry_axis(law)
    if law.dim > 3 and axis is None:
        raise ValueError(
            f"law must be symmetric about an axis in dim = {law.dim}, got {shown(law)}"
        )
    space: Space = Zonal(law.dim, _ZONAL, axis=axis) if law.dim > 3 else Sphere(_SPHERE)
    start = Density(Circle(_CIRCLE) if law.dim == 2 else space, law, tail_tol=_TAIL_TOL)
    solution = solve(start, dynamics, t_end, save_at, rtol=_RTOL, atol=_ATOL)
    if not solution.success:
        raise ValueError(f"t_end must be smaller for the limit of {shown(law)}: {solution.message}")
    return solution
